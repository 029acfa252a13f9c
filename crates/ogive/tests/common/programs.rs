//! Programs of other makers beside the server, and places where they can listen.

use std::io::{BufRead as _, BufReader, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::{PATIENCE, eventually};

/// A program that is killed when dropped.
pub struct Program(pub Child);

impl Program {
    /// Starts it; nobody reads what it says.
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}; run scripts/need")))
    }

    /// Sends it a signal, by its name without SIG.
    pub fn signal(&self, name: &str) {
        signal(self.0.id(), name);
    }

    /// How it ended, once it has.
    pub fn wait(&mut self, name: &str) -> ExitStatus {
        ended(&mut self.0).unwrap_or_else(|| panic!("{name} did not end within {PATIENCE:?}"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How a process ended, once it has; None when it still runs after [`PATIENCE`].
pub fn ended(child: &mut Child) -> Option<ExitStatus> {
    let from = Instant::now();
    loop {
        let status = child.try_wait().unwrap();
        if status.is_some() || from.elapsed() >= PATIENCE {
            return status;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The lines that a process writes. They are read to their end, whoever looks at them: it never waits for us.
pub fn lines_of(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    let mut output = BufReader::new(output);
    std::thread::spawn(move || {
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let _ = sender.send(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned());
            line.clear();
        }
    });
    lines
}

/// All that a process writes, once it writes no more. It is read to its end, whoever waits for it.
pub fn all_of(mut output: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, all) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if output.read_to_end(&mut bytes).is_ok() {
            let _ = sender.send(bytes);
        }
    });
    all
}

/// What [`all_of`] a process has read, as a text.
pub fn text_of(all: &Receiver<Vec<u8>>, name: &str) -> String {
    let bytes = all.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{name} writes on ({error})"));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs a program to its end: how it ended, what it printed, and what it said.
pub fn run_to_end(mut command: Command) -> (ExitStatus, String, String) {
    let name = format!("{command:?}");
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut program = Program(spawned.unwrap_or_else(|error| panic!("{name}: {error}")));
    let (printed, said) = (all_of(program.0.stdout.take().unwrap()), all_of(program.0.stderr.take().unwrap()));
    let status = program.wait(&name);
    (status, text_of(&printed, &name), text_of(&said, &name))
}

/// The next of these lines with `words` in it.
pub fn hear(lines: &Receiver<String>, words: &str) -> String {
    let (until, mut others) = (Instant::now() + PATIENCE, Vec::new());
    loop {
        let line = lines.recv_timeout(until.saturating_duration_since(Instant::now()));
        let line = line.unwrap_or_else(|error| panic!("no line with {words:?} ({error}) among {others:#?}"));
        if line.contains(words) {
            return line;
        }
        others.push(line);
    }
}

/// Sends a signal to a process, by its name without SIG.
pub(super) fn signal(pid: u32, name: &str) {
    let done = Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap();
    assert!(done.success());
}

/// An address that is free, and stays so until somebody binds it: for programs that do not report theirs, and servers
/// that keep it over restarts.
pub fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

/// The port of such an address. It is none of those that Linux gives to connections and to who asks for any: between
/// here and the program, or while a server is away, one of those could become another's, or a connection to itself.
pub fn free_port() -> u16 {
    /// How many were given.
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let end = range.split_whitespace().next().and_then(|low| low.parse().ok()).filter(|low| *low > 2 * FIRST_PORT);
    let count = end.unwrap_or(4 * FIRST_PORT) - FIRST_PORT;
    loop {
        // ORDERING: Relaxed; each number is given once. Processes beside this one begin elsewhere.
        let at = std::process::id().wrapping_mul(64).wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST_PORT + at % count).expect("a range of ports");
        let is_free = |host: IpAddr| {
            let bound = TcpListener::bind((host, port)).err().or(UdpSocket::bind((host, port)).err());
            bound.is_none_or(|error| error.kind() != ErrorKind::AddrInUse)
        };
        if is_free(Ipv4Addr::LOCALHOST.into()) && is_free(Ipv6Addr::LOCALHOST.into()) {
            return port;
        }
    }
}

/// 7,000: above what is registered most.
const FIRST_PORT: u32 = 7_000;

/// Waits until somebody listens at `port`.
pub fn listens(port: u16) {
    eventually(&format!("port {port} is open"), || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
}
