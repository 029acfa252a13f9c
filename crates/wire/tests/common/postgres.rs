//! PostgreSQL as Debian packages it, and its messages.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::live::{Client, Program, eventually, is_root};

/// The messages of PostgreSQL up to one of type `last`.
pub(crate) fn has_message(mut answer: &[u8], last: u8) -> bool {
    while let Some(length) = answer.get(1..5).map(|length| u32::from_be_bytes(length.try_into().expect("four"))) {
        let Some(rest) = answer.get(1 + length as usize..) else { return false };
        if answer[0] == last {
            return true;
        }
        answer = rest;
    }
    false
}

pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &u32::try_from(body.len() + 4).expect("short").to_be_bytes(), body].concat()
}

/// A program of PostgreSQL, which does not run as root.
fn postgres_program(name: &str, directory: &Path) -> Command {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL: run scripts/need postgres");
    let mut versions: Vec<PathBuf> = versions.map(|version| version.expect("read").path()).collect();
    versions.sort();
    let path = versions.last().expect("run scripts/need postgres").join("bin").join(name);
    let mut command = Command::new(if is_root() { Path::new("runuser") } else { &path });
    if is_root() {
        command.args(["-u", "postgres", "--"]).arg(&path);
    }
    command.current_dir(directory);
    command
}

/// A server in `directory` that takes logins, or will soon.
pub(crate) fn start(directory: &Path, port: u16) -> Program {
    let data = directory.join("data");
    let arguments = ["-U", "postgres", "--auth=trust", "--no-sync", "--no-locale", "-E", "UTF8", "-D"];
    let made = postgres_program("initdb", directory).args(arguments).arg(&data).output().expect("initdb");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut command = postgres_program("postgres", directory);
    let server =
        Program::start(command.arg("-D").arg(&data).arg("-k").arg(directory).args(["-F", "-p", &port.to_string()]));
    drop(Client::connect(port));
    server
}

/// A connection that has logged in.
pub(crate) fn login(port: u16) -> Client {
    let startup = b"\0\0\0\x27\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    let mut startup = startup.to_vec();
    startup[3] = u8::try_from(startup.len()).expect("short");
    eventually("PostgreSQL takes a login", || {
        let mut client = Client::connect(port);
        let answer = client.ask(&startup, |answer| has_message(answer, b'Z') || has_message(answer, b'E'));
        has_message(&answer, b'Z').then_some(client)
    })
}
