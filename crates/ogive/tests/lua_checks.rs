//! The scripts of examples/checks, run by `ogive serve --checks` on real servers.
#![cfg(feature = "lua")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::programs::{Program, free_port, listens};
use crate::common::{Server, brokers, eventually};

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/checks").join(name)
}

fn table(name: &str, script: &Path, keys: &str) -> String {
    let script = script.display();
    format!("[[check]]\nname = '{name}'\nkind = 'lua'\nperiod = '1s'\ntimeout = '500ms'\nscript = '{script}'\n{keys}\n")
}

#[test]
fn scripts_of_the_examples_tell_what_they_should() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut redis = Command::new("redis-server");
    redis.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    redis.current_dir(directory.path());
    let _redis = Program::start(redis);
    listens(port);
    let page = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("target = 'http://{}/jobs.json'", page.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in page.incoming().flatten() {
            use std::io::{Read, Write};
            let _ = stream.read(&mut [0; 4096]);
            let body = r#"{"queues": [{"name": "mail", "waiting": 3}, {"name": "bills", "waiting": 0}]}"#;
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    let runaway = directory.path().join("runaway.lua");
    std::fs::write(&runaway, "while true do pcall(function() while true do end end) end").unwrap();
    let hungry = directory.path().join("hungry.lua");
    std::fs::write(&hungry, "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end").unwrap();
    let checks = [
        table("jobs", &script("json_field.lua"), &url),
        table("cache", &script("redis_info.lua"), &format!("arguments = {{host = '127.0.0.1', port = '{port}'}}")),
        table("none", &script("certificate_of_names.lua"), "arguments = {hosts = '127.0.0.1:1', days = '14'}"),
        table("runaway", &runaway, ""),
        table("hungry", &hungry, "memory_mib = 4"),
    ];
    let file = directory.path().join("checks.toml");
    std::fs::write(&file, checks.concat()).unwrap();
    let args = ["--listen", "127.0.0.1:0", "--checks", file.to_str().unwrap()];
    let server = Server::try_start(&directory.path().join("data"), &args).unwrap_or_else(|said| panic!("{said}"));
    server.becomes("jobs_waiting{check=\"jobs\",queue=\"mail\"}", 3.0);
    server.becomes("jobs_waiting{check=\"jobs\",queue=\"bills\"}", 0.0);
    server.becomes("redis_connected_clients{check=\"cache\"}", 1.0);
    server.becomes("redis_used_memory > bool 100000", 1.0);
    server.becomes("ogive_check_up{check=\"none\"}", 0.0);
    let runs = |check: &str, result: &str| {
        format!("sum(sum_over_time(ogive_check_runs_total{{check=\"{check}\",result=\"{result}\"}}[1h])) > bool 2")
    };
    server.becomes(&runs("none", "refused"), 1.0);
    server.becomes(&runs("runaway", "limit"), 1.0);
    server.becomes(&runs("hungry", "limit"), 1.0);
    // Their neighbours go on.
    server.becomes(&runs("jobs", "ok"), 1.0);
    server.becomes(&runs("cache", "ok"), 1.0);
}

/// Scripts that no hook stops: an error's handler that never ends, and a match that goes on outside of Lua. In one
/// process with the server they stopped all scripts and kept a core each until the restart.
#[test]
fn a_script_that_cannot_be_stopped_is_killed_and_its_neighbours_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let written = |name: &str, source: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, source).unwrap();
        path
    };
    let forever = "function() while true do end end";
    let stubborn = written("stubborn.lua", &format!("xpcall({forever}, {forever})"));
    let deaf = written("deaf.lua", "local t = ('a'):rep(2^23) while true do t:match('(.*a.*a.*a){20}b') end");
    let good = written("good.lua", "measure('answer', 42)");
    // Eighteen at once are more than there are places.
    let all = (0..16).map(|at| table(&format!("stubborn{at}"), &stubborn, ""));
    let all = all.chain([table("deaf", &deaf, "memory_mib = 64")]);
    let (all, good) = (all.collect::<String>().replace("period = '1s'", "period = '2s'"), table("good", &good, ""));
    let file = directory.path().join("checks.toml");
    std::fs::write(&file, all + &good).unwrap();
    let args = ["--listen", "127.0.0.1:0", "--checks", file.to_str().unwrap()];
    let mut server = Server::try_start(&directory.path().join("data"), &args).unwrap_or_else(|said| panic!("{said}"));
    let runs = |check: &str, result: &str| {
        format!("sum(sum_over_time(ogive_check_runs_total{{check=~\"{check}\",result=\"{result}\"}}[1h]))")
    };
    server.becomes(&format!("{} >= bool 40", runs("stubborn.*", "limit")), 1.0);
    server.becomes(&format!("{} >= bool 2", runs("deaf", "limit")), 1.0);
    server.becomes(&format!("{} >= bool 5", runs("good", "ok")), 1.0);
    // On a busy machine a run may end before it was asked anything, or its process by itself.
    eventually("a script that was killed in time", || {
        let texts = brokers::texts(&server, "ogive_check_no_answer{check=~\"stubborn.*\"}");
        texts.iter().any(|text| text.contains("its process was killed after 0.4")).then_some(())
    });
    // Nobody stays behind of checks that are gone, not as a zombie either, nor when the server is gone.
    std::fs::write(&file, good).unwrap();
    server.signal("HUP");
    let workers = eventually("the good script's process alone", || {
        let workers = workers_of(server.pid());
        (workers.len() == 1).then_some(workers)
    });
    server.kill();
    eventually("the end of the last process", || {
        let lives = |pid: &u32| status(*pid).is_some_and(|status| !status.contains("State:\tZ"));
        (!workers.iter().any(lives)).then_some(())
    });
}

fn status(pid: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/status")).ok()
}

/// The processes that a server started, zombies too.
fn workers_of(server: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // The writer of crash reports is a child, too. A zombie has no command line.
    let is_other = |pid: u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"crash")
    };
    pids.filter(|pid| status(*pid).is_some_and(|status| status.contains(&format!("\nPPid:\t{server}\n"))))
        .filter(|pid| !is_other(*pid))
        .collect()
}
