//! `ogive wire` in a terminal: the live table, its keys, and the terminal given back.
//!
//! With OGIVE_SCREENSHOT=1 the screen is printed, for docs/wire.md.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::common::terminal::Terminal;

/// 300 requests over one connection: two paths in turn, and each third answer an error.
fn exchange(listener: TcpListener) {
    let port = listener.local_addr().unwrap().port();
    let serve = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 22];
        for round in 0..300 {
            stream.read_exact(&mut request).unwrap();
            let status = if round % 3 == 0 { "503 No" } else { "204 No" };
            stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes()).unwrap();
        }
    });
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut response = [0; "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n".len()];
    for round in 0..300 {
        let path = if round % 2 == 0 { "even" } else { "odd_" };
        client.write_all(format!("GET /{path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        client.read_exact(&mut response).unwrap();
    }
    drop(client);
    serve.join().unwrap();
}

/// The cells of a line: what stands between two blanks or more.
fn cells(text: &str, part: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part} in\n{text}"));
    line.split("  ").map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
}

/// Whether the row of an operation shows this many errors.
fn has_errors(text: &str, path: &str, errors: &str) -> bool {
    text.contains(path) && cells(text, path).get(7).is_some_and(|cell| cell == errors)
}

/// `12.5µs` in seconds.
fn seconds(text: &str) -> f64 {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').expect("a unit");
    let factor = match text[at..].trim() {
        "ns" => 1e-9,
        "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        unit => panic!("{unit} of {text}"),
    };
    text[..at].parse::<f64>().unwrap() * factor
}

/// Whether the heading of this name stands in reverse.
fn is_marked(screen: &vt100::Screen, name: &str) -> bool {
    let Some(heading) = screen.contents().lines().nth(1).map(str::to_owned) else { return false };
    let Some(at) = heading.find(name).and_then(|at| u16::try_from(heading[..at].chars().count()).ok()) else {
        return false;
    };
    screen.cell(1, at).is_some_and(vt100::Cell::inverse)
}

#[test]
fn a_terminal_shows_a_live_table_that_keys_sort_and_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut terminal = Terminal::start(&format!("wire -i lo --only {port}"));
    // What is drawn comes in parts.
    let is_drawn = |screen: &vt100::Screen| screen.contents().contains("q quit") && is_marked(screen, "rate");
    let text = terminal.until("the table", |screen| is_drawn(screen) || screen.contents().contains("CAP_NET_RAW"));
    if text.contains("CAP_NET_RAW") {
        eprintln!("skipped: {text}");
        return;
    }
    // What stood there comes back at the end.
    assert!(terminal.screen().alternate_screen(), "{text}");
    exchange(listener);
    // The table is drawn once a second: the first one with both may have been drawn in the middle of the exchanges.
    let paths = ["GET /even", "GET /odd_"];
    let text = terminal.until("all of both operations, and a histogram", |screen| {
        let text = screen.contents();
        paths.iter().all(|path| has_errors(&text, path, "50")) && text.contains('█')
    });
    for path in paths {
        let row = cells(&text, path);
        // Service, protocol, operation, rate, p50, p99, max, errors, and the histogram.
        assert_eq!((&*row[0], &*row[1], &*row[2], &*row[7]), (&*format!("127.0.0.1:{port}"), "http1", path, "50"));
        let [median, high, max] = [4, 5, 6].map(|at| seconds(&row[at]));
        assert!(median > 0.0 && median <= high && high <= max, "{row:?}");
    }
    terminal.press(b"e");
    terminal.until("the order by errors", |screen| is_marked(screen, "errors") && !is_marked(screen, "rate"));
    if std::env::var_os("OGIVE_SCREENSHOT").is_some() {
        println!("{}", terminal.screen().contents());
    }
    terminal.press(b"q");
    let text = terminal.until("the end", |screen| screen.contents().contains("dropped by the kernel: 0 packets"));
    assert!(!terminal.screen().alternate_screen() && text.contains("GET /even"), "the table stays: {text}");
    assert!(terminal.end());
}
