//! An import that is killed in the middle, with a server that is killed too.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::{T, cells, import, write};
use crate::common::programs::{Program, free_address};
use crate::common::{PATIENCE, Server};

/// Passes on connections to `to`, and of the answers the first `count`; the next one arrives, is reported, and is kept.
fn gate(to: &str, count: usize, reached: Sender<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (to, passed) = (to.to_owned(), Arc::new(Mutex::new(0)));
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, passed, reached) = (client.unwrap(), passed.clone(), reached.clone());
            let mut server = TcpStream::connect(&to).unwrap();
            let (mut from, mut into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut into));
            std::thread::spawn(move || {
                let mut buffer = [0; 65_536];
                // An answer is read with one call: it is short.
                while let Ok(read @ 1..) = server.read(&mut buffer) {
                    let mut passed = passed.lock().unwrap();
                    *passed += usize::from(buffer.starts_with(b"HTTP/1.1"));
                    if *passed > count {
                        let _ = reached.send(());
                        continue;
                    }
                    client.write_all(&buffer[..read]).unwrap();
                }
            });
        }
    });
    address
}

/// An import is cut off between two batches or within one, and by the death of either side. Whoever starts it again has
/// every line once: texts of different batches at one time would be two.
#[test]
fn an_import_that_is_killed_goes_on_and_stores_nothing_twice() {
    let directory = tempfile::tempdir().unwrap();
    let lines = 110_000;
    let mut text = String::new();
    for at in 0..lines {
        text += &format!(
            "M\t{}.{:03}\t8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e\tlog\ts\tline {at}\n",
            T + at / 1000,
            at % 1000
        );
    }
    let path = write(directory.path(), "texts.tsv", text);
    let address = free_address();
    let mut server = Server::start_at(&directory.path().join("data"), &address);
    let (reached, is_reached) = channel();
    let through = gate(&address, 2, reached);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
    command.args(["import", "irondb", &path]).env("OGIVE_SERVER", format!("http://{through}"));
    let importing = Program::start(command);
    is_reached.recv_timeout(PATIENCE).expect("a third batch is stored");
    // Two batches are acknowledged; the third is stored, and its answer kept.
    drop(importing);
    server.kill();
    drop(server);
    let server = Server::start_at(&directory.path().join("data"), &address);
    let (found, code) = import(&server, &["irondb", &path]);
    let stored = cells(&server, "log").1.len();
    assert_eq!((stored, code), (lines as usize, 0), "{found}");
    let (accepted, duplicate) = (found[0]["accepted"].as_u64().unwrap(), found[0]["duplicate"].as_u64().unwrap());
    assert_eq!(accepted + duplicate, lines as u64, "{found}");
    assert!(accepted > 0 && duplicate > 0, "the import was cut off in the middle: {found}");
    let (again, _) = import(&server, &["irondb", &path]);
    assert_eq!((&again[0]["accepted"], &again[0]["duplicate"]), (&json!(0), &json!(lines)));
    assert_eq!(cells(&server, "log").1.len(), lines as usize);
}
