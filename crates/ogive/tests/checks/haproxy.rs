//! HAProxy: its stats socket, among the files and on a port, and its page, with a server that is up and one that is
//! not.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use super::{directory, gauge, has, measured, nginx_of, said, says, serve, table};
use crate::common::programs::{Program, free_port, listens};
use crate::common::{eventually, request_at};

/// HAProxy in front of a server at the first port, and of one that is not there. The other ports are those of its
/// proxy, its socket and its page.
fn haproxy(directory: &Path, [good, web, socket, page]: [u16; 4]) -> Program {
    let place = directory.display();
    let config = format!(
        "global\n stats socket {place}/stats mode 600 level user\n stats socket ipv4@127.0.0.1:{socket} level user\n \
         maxconn 100\ndefaults\n mode http\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n timeout check 10s\n\
         frontend web\n bind 127.0.0.1:{web}\n default_backend shop\n\
         backend shop\n server good 127.0.0.1:{good} check inter 2s\n server gone 127.0.0.1:1 check inter 100ms\n\
         frontend page\n bind 127.0.0.1:{page}\n stats enable\n stats uri /\n stats auth monitor:open-sesame\n"
    );
    let file = directory.join("haproxy.cfg");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new("haproxy");
    // In the foreground, as one process.
    command.arg("-db").arg("-f").arg(&file);
    let program = Program::start(command);
    [web, socket, page].into_iter().for_each(listens);
    program
}

/// A number of `show stat`, by the name of its column, as a client of the socket reads it.
fn own(directory: &Path, proxy: &str, server: &str, column: &str) -> Option<f64> {
    let mut stream = UnixStream::connect(directory.join("stats")).unwrap();
    stream.write_all(b"show stat\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let mut lines = text.lines().map(|line| line.trim_start_matches("# ").split(',').collect::<Vec<_>>());
    let at = lines.next()?.iter().position(|name| *name == column)?;
    let row = lines.find(|fields| fields[..2] == [proxy, server])?;
    row[at].parse().ok()
}

/// Checks of each way to it, and of what it has or not.
fn checks(directory: &Path, socket: u16, page: u16) -> String {
    let file = format!("target = '{}'\n", directory.join("stats").display());
    let url = format!("target = 'http://127.0.0.1:{page}/'\n");
    let login = "user = 'monitor'\npassword = 'open-sesame'\n";
    [
        table("file", "haproxy", &file),
        table("port", "haproxy", &format!("target = '127.0.0.1:{socket}'\n")),
        table("page", "haproxy", &format!("{url}{login}fields = ['hrsp_2xx', 'scur']\n")),
        table("one", "haproxy", &format!("{file}servers_up_min = {{shop = 1}}\n")),
        table("two", "haproxy", &format!("{file}servers_up_min = {{shop = 2}}\n")),
        table("none", "haproxy", &format!("{file}servers_up_min = {{gone = 1}}\n")),
        table("stranger", "haproxy", &format!("{url}user = 'monitor'\npassword = 'hunter2'\n")),
    ]
    .concat()
}

#[test]
fn proxies_and_servers_have_the_numbers_that_haproxy_has() {
    let directory = directory();
    let ports = [(); 4].map(|()| free_port());
    let [good, web, socket, page] = ports;
    let _nginx = nginx_of(
        directory.path(),
        &format!("server {{ listen 127.0.0.1:{good}; location / {{ return 200 'well'; }} }}"),
    );
    listens(good);
    let _haproxy = haproxy(directory.path(), ports);
    let server = serve(directory.path(), &checks(directory.path(), socket, page));
    let number = |check: &str, metric: &str, labels: &str| {
        server.number(&format!("haproxy_{metric}{{check=\"{check}\",{labels}}}"))
    };
    let is = |check: &str, metric: &str, labels: &str, value: f64| {
        let what = format!("haproxy_{metric} {labels} of {check} is {value}");
        eventually(&what, || number(check, metric, labels).filter(|found| *found == value));
    };
    // HAProxy begins with both up, and learns.
    for check in ["file", "port", "page"] {
        is(check, "up", "proxy=\"shop\",server=\"good\",type=\"server\"", 1.0);
        is(check, "up", "proxy=\"shop\",server=\"gone\",type=\"server\"", 0.0);
        is(check, "up", "proxy=\"shop\",type=\"backend\"", 1.0);
        is(check, "up", "proxy=\"web\",type=\"frontend\"", 1.0);
    }
    for _ in 0..5 {
        let (status, body) = request_at(&format!("127.0.0.1:{web}"), "GET / HTTP/1.1", b"").unwrap();
        assert_eq!((status, body.as_str()), (200, "well"));
    }
    for check in ["file", "port", "page"] {
        is(check, "hrsp_2xx", "proxy=\"shop\",server=\"good\"", 5.0);
    }
    for (proxy, name, labels) in [
        ("web", "FRONTEND", "proxy=\"web\",type=\"frontend\""),
        ("shop", "good", "proxy=\"shop\",server=\"good\""),
        ("shop", "BACKEND", "proxy=\"shop\",type=\"backend\""),
    ] {
        for column in ["stot", "bin", "bout", "scur", "hrsp_5xx"] {
            let what = format!("{column} of {proxy} {name} is HAProxy's own");
            eventually(&what, || {
                let found = own(directory.path(), proxy, name, column)?;
                (number("file", column, labels) == Some(found)).then_some(())
            });
        }
    }
    gauge(&server, "haproxy_process_maxconn", "file", |count| count == 100.0);
    let (_, metadata) = server.get("/api/v1/metadata");
    let kind = |metric: &str| metadata["data"][metric][0]["type"].as_str().map(str::to_owned);
    assert_eq!((kind("haproxy_stot").as_deref(), kind("haproxy_scur").as_deref()), (Some("counter"), Some("gauge")));
    assert_eq!(number("page", "stot", "proxy=\"web\""), None, "it is none of the fields");
    for (check, phase) in [("file", "query"), ("port", "connect"), ("page", "body"), ("one", "total")] {
        measured(&server, check, phase, 1.0);
    }
    says(&server, "ogive_check_wrong_answer", "two", "1 of 2 servers of the backend \\\"shop\\\" are up, fewer than 2");
    has(&server, "none", "content");
    has(&server, "stranger", "login");
    assert!(!said(&server, "stranger").contains("hunter"));
}

#[test]
fn what_is_no_haproxy_is_reported_with_its_reason() {
    let directory = directory();
    let answering = |answer: Vec<u8>| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 512]);
                let _ = stream.write_all(&answer);
            }
        });
        format!("target = '127.0.0.1:{port}'")
    };
    let head = "# pxname,svname,status,type,\n";
    let checks = [
        table("absent", "haproxy", &format!("target = '{}'", directory.path().join("absent").display())),
        table("refused", "haproxy", "target = '127.0.0.1:1'"),
        table("strange", "haproxy", &answering(b"Permission denied\n".to_vec())),
        table("cut", "haproxy", &answering(format!("{head}web,FRONTEND,OP").into_bytes())),
        table("endless", "haproxy", &answering(vec![b'x'; (4 << 20) + 1])),
    ];
    let server = serve(directory.path(), &checks.concat());
    has(&server, "absent", "refused");
    has(&server, "refused", "refused");
    for (check, words) in [("strange", "it begins with \\\"Permission denied\\\""), ("cut", "cut off within a row")] {
        has(&server, check, "protocol");
        says(&server, "ogive_check_wrong_answer", check, words);
    }
    has(&server, "endless", "limit");
    says(&server, "ogive_check_no_answer", "endless", "more than 4194304 bytes");
}
