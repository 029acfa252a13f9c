//! Captures to measure with: made on the spot by real programs, or a file some times over.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ogive_wire::file;

const PATIENCE: Duration = Duration::from_secs(30);

/// A program that ends with its value.
struct Program(Child);

impl Program {
    fn start(command: &mut Command) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.unwrap_or_else(|error| panic!("{name}: {error}: run scripts/need {name}")))
    }

    /// Ends it as Ctrl-C does, so that it writes what it holds.
    fn interrupt(mut self) {
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let start = Instant::now();
    while !look() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What wrk does to nginx in three seconds over 16 connections, as tcpdump captures it on loopback: 45 bytes of
/// request, 170 of response. Needs root.
pub(crate) fn wrk() -> Vec<u8> {
    let directory = std::env::temp_dir().join(format!("ogive-wire-wrk-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a temporary directory");
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback").local_addr().expect("bound").port();
    let text = format!(
        "daemon off; master_process off; pid {0}/pid; error_log {0}/error; events {{}} http {{ access_log off; \
         keepalive_requests 10000000; server {{ listen 127.0.0.1:{port}; return 200 ok; }} }}",
        directory.display()
    );
    std::fs::write(directory.join("nginx.conf"), text).expect("its configuration");
    let mut nginx = Command::new("nginx");
    let _nginx = Program::start(nginx.arg("-p").arg(&directory).arg("-c").arg(directory.join("nginx.conf")));
    eventually("nginx listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
    let path = directory.join("wrk.pcap");
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.args(["-i", "lo", "-s", "0", "-B", "131072", "-Z", "root", "--time-stamp-precision=nano", "-w"]).arg(&path);
    let tcpdump = tcpdump.args(["tcp", "port", &port.to_string()]).stderr(Stdio::piped()).spawn();
    let mut tcpdump = Program(tcpdump.expect("run scripts/need tcpdump"));
    let mut said = String::new();
    let mut errors = BufReader::new(tcpdump.0.stderr.take().expect("a pipe"));
    errors.read_line(&mut said).expect("what it says");
    assert!(said.contains("listening"), "tcpdump needs root: {said}");
    let address = format!("http://127.0.0.1:{port}/");
    let wrk = Command::new("wrk").args(["-t1", "-c16", "-d3s", &address]).output();
    let wrk = wrk.expect("run scripts/need wrk");
    assert!(wrk.status.success(), "{}", String::from_utf8_lossy(&wrk.stderr));
    // Blocks that are not full are handed over after some milliseconds.
    let (mut size, read) = (0, || std::fs::metadata(&path).map_or(0, |file| file.len()));
    eventually("the capture ends", || {
        std::thread::sleep(Duration::from_millis(500));
        std::mem::replace(&mut size, read()) == read()
    });
    tcpdump.interrupt();
    let bytes = std::fs::read(&path).expect("its capture");
    let _ = std::fs::remove_dir_all(&directory);
    bytes
}

/// A capture `copies` times over, each copy from other addresses and a minute later.
pub(crate) fn repeated(path: &Path, copies: u8) -> Vec<u8> {
    let mut bytes = vec![0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    for copy in 0..copies {
        let opened = std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut reader = file::open(opened).expect("a capture");
        while let Some(frame) = reader.next_frame().expect("it is whole") {
            let at = frame.at + i64::from(copy) * 60_000_000_000;
            let mut data = frame.bytes.to_vec();
            if copy > 0 && data.len() > 32 && data[12..14] == [8, 0] {
                // Ethernet and IPv4: the third byte of both addresses.
                data[28] = copy;
                data[32] = copy;
            }
            let length = u32::try_from(data.len()).expect("small").to_le_bytes();
            bytes.extend(u32::try_from(at / 1_000_000_000).expect("this century").to_le_bytes());
            bytes.extend(u32::try_from(at % 1_000_000_000).expect("below a second").to_le_bytes());
            bytes.extend([length, length].concat());
            bytes.extend(data);
        }
    }
    bytes
}

/// Frames of a capture.
pub(crate) fn frames(bytes: &[u8]) -> u64 {
    let mut reader = file::from_bytes(bytes).expect("a capture");
    let mut count = 0;
    while reader.next_frame().expect("it is whole").is_some() {
        count += 1;
    }
    count
}
