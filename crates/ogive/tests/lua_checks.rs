//! The scripts of examples/checks, run by `ogive serve --checks` on real servers.
#![cfg(feature = "lua")]

mod common;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::Server;
use common::programs::{Program, free_port, listens};

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
