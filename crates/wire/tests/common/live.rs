//! Real servers, a capture of what goes to them, and clients that look at the clock.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ogive_wire::file;

use super::truth::{OwnedFrame, Report, Row, observe};

/// How long a server may take to start, or a capture to show what was sent: a loaded machine, times ten.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos()).expect("before 2262")
}

/// A program that is killed when the test is done with it.
pub(crate) struct Program(pub(crate) Child);

impl Program {
    pub(crate) fn start(command: &mut Command) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.unwrap_or_else(|error| panic!("{name}: {error}: run scripts/need {name}")))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback").local_addr().expect("bound").port()
}

/// An empty directory that any user may write to, removed when the test is done with it.
pub(crate) struct Directory(PathBuf);

impl std::ops::Deref for Directory {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn directory(name: &str) -> Directory {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("ogive-wire-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).expect("its rights");
    Directory(path)
}

pub(crate) fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n")
}

/// A capture of one port on loopback.
pub(crate) struct Capture {
    program: Program,
    path: PathBuf,
}

impl Capture {
    pub(crate) fn start(directory: &Path, port: u16) -> Self {
        let path = directory.join(format!("{}.pcap", now()));
        let mut command = Command::new(if is_root() { "tcpdump" } else { "sudo" });
        if !is_root() {
            command.args(["-n", "tcpdump"]);
        }
        // Not `--immediate-mode`, which loses a third of what one client does.
        command.args(["-i", "lo", "-s", "0", "-B", "65536", "-U", "--time-stamp-precision=nano", "-w"]);
        command.arg(&path).arg("port").arg(port.to_string());
        let capture = Self { program: Program::start(&mut command), path };
        // Its file has a header once the socket is open and filtered.
        eventually("tcpdump captures (it needs root or sudo -n)", || {
            std::fs::metadata(&capture.path).ok().filter(|file| file.len() >= 24)
        });
        capture
    }

    /// What the observer makes of the capture, once `is_enough`.
    pub(crate) fn report(self, is_enough: impl Fn(&Report) -> bool) -> Report {
        self.frames_and_report(is_enough).1
    }

    /// The same, and the frames that it was made of.
    pub(crate) fn frames_and_report(self, is_enough: impl Fn(&Report) -> bool) -> (Vec<OwnedFrame>, Report) {
        let report = eventually("the capture shows what was asked", || {
            let mut reader = file::open(std::fs::File::open(&self.path).ok()?).ok()?;
            let mut frames = Vec::new();
            // The file grows: its last frame may be there in part.
            while let Ok(Some(frame)) = reader.next_frame() {
                frames.push(OwnedFrame {
                    at: frame.at,
                    link: frame.link,
                    bytes: frame.bytes.to_vec(),
                    length: frame.length,
                });
            }
            let report = observe(&frames, 0);
            is_enough(&report).then_some((frames, report))
        });
        drop(self.program);
        report
    }
}

/// One connection, and when it asked and had its answer.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) asked: Vec<(i64, i64)>,
}

impl Client {
    pub(crate) fn connect(port: u16) -> Self {
        let stream = eventually("the server listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self { stream, asked: Vec::new() }
    }

    pub(crate) fn read(&mut self, is_whole: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let (mut answer, mut part) = (Vec::new(), [0; 65_536]);
        while !is_whole(&answer) {
            let count = self.stream.read(&mut part).expect("an answer in time");
            assert!(count > 0, "the server closed after {:?}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&part[..count]);
        }
        answer
    }

    pub(crate) fn ask(&mut self, request: &[u8], is_whole: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let before = now();
        self.stream.write_all(request).expect("sent");
        let answer = self.read(is_whole);
        self.asked.push((before, now()));
        answer
    }

    /// Holds each exchange of this connection between the times of its request.
    pub(crate) fn brackets(&self, rows: &[&Row]) {
        assert_eq!(rows.len(), self.asked.len(), "exchanges of the connection");
        let mut rows = rows.to_vec();
        rows.sort_by_key(|row| row.request.1);
        for (row, (before, after)) in rows.iter().zip(&self.asked) {
            let (first, last) = (row.request.1, row.response.2);
            assert!(*before <= first && first <= last && last <= *after, "{before} <= {row:?} <= {after}");
        }
    }
}

pub(crate) fn rows_of<'a>(report: &'a Report, proto: &str) -> Vec<&'a Row> {
    report.answered.iter().filter(|row| row.proto == proto).collect()
}

pub(crate) fn statuses(rows: &[&Row]) -> Vec<String> {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| row.request.1);
    rows.iter().map(|row| format!("{} {}", row.op, row.status)).collect()
}
