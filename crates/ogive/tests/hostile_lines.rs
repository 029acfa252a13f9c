//! What somebody who means harm does to the sockets of StatsD and Graphite: the server lives, holds little, counts what
//! it loses, and takes the lines of everybody else.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use crate::common::{Server, eventually};

/// 160 MiB in a debug build, which takes 40 to 60 by itself.
const MEMORY_KIB_MAX: u64 = 160 << 10;

struct Target {
    directory: tempfile::TempDir,
    server: Server,
    good: TcpStream,
    sent: u32,
}

impl Target {
    fn new(more: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (datagrams, stream) = (directory.path().join("d.sock"), directory.path().join("s.sock"));
        let unix = [format!("unix:{}", datagrams.display()), format!("unix-stream:{}", stream.display())];
        let args = ["--listen", "127.0.0.1:0", "--graphite", "127.0.0.1:0", "--statsd", "127.0.0.1:0"];
        let sockets = ["--statsd", &unix[0], "--statsd", &unix[1]];
        let args = [&args[..], &sockets, more].concat();
        let server = Server::try_start(&directory.path().join("data"), &args).unwrap_or_else(|said| panic!("{said}"));
        let good = TcpStream::connect(server.line_address("statsd", "tcp")).unwrap();
        Self { directory, server, good, sent: 0 }
    }

    fn connect(&self, protocol: &str) -> TcpStream {
        TcpStream::connect(self.server.line_address(protocol, "tcp")).unwrap()
    }

    fn unix(&self) -> UnixStream {
        UnixStream::connect(self.directory.path().join("s.sock")).unwrap()
    }

    /// A well-behaved neighbour that was there before still delivers, and so does a new one; the server holds little.
    fn lives(&mut self, after: &str) {
        self.good.write_all(b"good:1|c\n").unwrap();
        self.connect("statsd").write_all(b"good:1|c\n").unwrap();
        self.sent += 2;
        let expected = Some(f64::from(self.sent));
        eventually(&format!("{expected:?} good lines after {after}"), || {
            (self.server.number("increase(good[10m])") == expected).then_some(())
        });
        let peak = self.server.memory_peak_kib();
        assert!(peak < MEMORY_KIB_MAX, "after {after} the server had held {} MiB", peak >> 10);
    }

    /// How many lines of `protocol` were lost for `reason`.
    fn lost(&self, protocol: &str, reason: &str) -> f64 {
        let (_, text) = self.server.request("GET /metrics HTTP/1.1", b"").unwrap();
        let of = |line: &str| {
            let (labels, count) = line.strip_prefix("ogive_ingest_unreadable_total{")?.rsplit_once("} ")?;
            let is_it = labels.contains(&format!("protocol=\"{protocol}\""))
                && labels.contains(&format!("reason=\"{reason}\""));
            is_it.then(|| count.parse().unwrap())
        };
        text.lines().find_map(of).unwrap_or(0.0)
    }

    fn loses(&self, protocol: &str, reason: &str, count: f64) {
        eventually(&format!("{count} {reason} of {protocol}"), || (self.lost(protocol, reason) == count).then_some(()));
    }
}

/// Whether the other side closed `stream`.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    match stream.read(&mut [0]) {
        Ok(0) => true,
        Ok(_) => panic!("a line protocol answers nothing"),
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

#[test]
fn a_line_without_end_is_skipped() {
    let mut target = Target::new(&[]);
    let piece = vec![b'x'; 1 << 20];
    for protocol in ["statsd", "graphite"] {
        let mut stream = target.connect(protocol);
        (0..64).for_each(|_| stream.write_all(&piece).unwrap());
        // Names of their own: a count and a gauge of one name are one series, and whoever comes first binds it.
        stream.write_all(b"\nbehind:1|c\nlevel 2 -1\n").unwrap();
        target.loses(protocol, "line_too_long", 1.0);
    }
    let mut stream = target.unix();
    (0..64).for_each(|_| stream.write_all(&piece).unwrap());
    stream.write_all(b"\nbehind:1|c\n").unwrap();
    target.loses("statsd", "line_too_long", 2.0);
    eventually("the lines behind", || (target.server.number("increase(behind[10m])") == Some(2.0)).then_some(()));
    target.server.becomes("level", 2.0);
    target.lives("64 MiB without a line's end, three times");
}

#[test]
fn garbage_is_counted_and_leaves_its_neighbours() {
    let mut target = Target::new(&[]);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |length: usize| -> Vec<u8> {
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        std::iter::repeat_with(next).take(length).collect()
    };
    for protocol in ["statsd", "graphite"] {
        let mut stream = target.connect(protocol);
        stream.write_all(&random(4 << 20)).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = target.server.line_address(protocol, "udp");
        (0..200).for_each(|at| drop(udp.send_to(&random(at * 300 % 60_000), &to)));
    }
    // A socket of datagrams holds its sender up instead of dropping.
    let unix = UnixDatagram::unbound().unwrap();
    (0..50).for_each(|_| drop(unix.send_to(&random(1_000), target.directory.path().join("d.sock"))));
    // Frames: one that cannot be, one that never ends, and what looks like frames of everything.
    for bytes in [&[0xff, 0xff, 0, 0, 1][..], &[0, 0, 1, 0, 0xff], &[0xff, 0, 0, 0]] {
        target.unix().write_all(bytes).unwrap();
    }
    let mut frames = target.unix();
    // The connection is closed at the first that is too long.
    let _ = frames.write_all(&[&[4, 0, 0, 0][..], b"n:1|", &random(1 << 20)].concat());
    target.lives("garbage");
    eventually("it is counted", || {
        (target.lost("statsd", "value_invalid") + target.lost("statsd", "not_utf8") > 0.0).then_some(())
    });
}

#[test]
fn connections_beyond_the_limit_are_closed_and_counted() {
    let mut target = Target::new(&["--line-connections", "8"]);
    // The good one is one of the eight.
    target.good.write_all(b"good:1|c\n").unwrap();
    target.sent += 1;
    target.server.becomes("increase(good[10m])", 1.0);
    let mut streams: Vec<TcpStream> = (0..100).map(|_| target.connect("statsd")).collect();
    target.loses("statsd", "connections_limit", 93.0);
    let mut closed = || streams.iter_mut().filter_map(|stream| is_closed(stream).then_some(())).count();
    eventually("those are closed", || (closed() >= 93).then_some(()));
    assert_eq!(closed(), 93);
    // Those that are in say something, all of them.
    streams.retain_mut(|stream| !is_closed(stream));
    streams.iter_mut().for_each(|stream| stream.write_all(b"inside:1|c\n").unwrap());
    eventually("their lines", || (target.server.number("increase(inside[10m])") == Some(7.0)).then_some(()));
    // Graphite's places are its own, and those that are free again are given again.
    target.connect("graphite").write_all(b"elsewhere 1 -1\n").unwrap();
    eventually("graphite", || target.server.number("elsewhere"));
    drop(streams);
    eventually("a place", || {
        let _ = target.connect("statsd").write_all(b"place:1|c\n");
        target.server.number("increase(place[10m])")
    });
    target.lives("a flood of connections");
}

#[test]
fn slow_and_silent_senders_take_a_place_and_nothing_else() {
    let mut target = Target::new(&["--line-idle-s", "15"]);
    let mut slow: Vec<TcpStream> = (0..200).map(|_| target.connect("statsd")).collect();
    let mut silent: Vec<TcpStream> = (0..20).map(|_| target.connect("graphite")).collect();
    // A byte at a time, so that each is heard of in time: no pause is near the limit, and all of them are above it.
    for byte in b"slow:1|c\n" {
        for stream in &mut slow {
            stream.write_all(&[*byte]).unwrap();
        }
        std::thread::sleep(Duration::from_millis(1_700));
        target.good.write_all(b"\n").unwrap();
    }
    eventually("their lines", || (target.server.number("increase(slow[10m])") == Some(200.0)).then_some(()));
    target.loses("graphite", "idle_connection", 20.0);
    eventually("they are closed", || silent.iter_mut().all(is_closed).then_some(()));
    // Who leaves in the middle of a line is reported.
    let mut cut = target.connect("statsd");
    cut.write_all(b"half:1").unwrap();
    drop(cut);
    target.loses("statsd", "line_cut", 1.0);
    target.good = target.connect("statsd");
    target.lives("slow senders");
}

/// What the kernel drops because nobody reads is counted, so that what was sent is what was taken and what was lost.
#[test]
fn datagrams_that_the_kernel_drops_are_counted() {
    const SENT: u32 = 5_000;
    let target = Target::new(&["--line-receive-buffer", "16KiB"]);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = target.server.line_address("statsd", "udp");
    target.server.signal("STOP");
    (0..SENT).for_each(|_| assert!(udp.send_to(b"flood:1|c", &to).unwrap() > 0));
    target.server.signal("CONT");
    // The kernel sends its count along with the next datagram, and there is none: four of five floods stayed uncounted.
    eventually("all are taken or counted", || {
        let taken = target.server.number("increase(flood[10m])").unwrap_or(0.0);
        let dropped = target.lost("statsd", "kernel_dropped");
        assert!(taken + dropped <= f64::from(SENT), "{taken} + {dropped}");
        (taken > 0.0 && dropped > 0.0 && taken + dropped == f64::from(SENT)).then_some(())
    });
}
