//! Real crashes of a real process: this program is the checks, the role that crashes, and the writer of its report.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use ogive_crash::catalog::Catalog;
use ogive_crash::handler::{self, Fault};
use ogive_crash::report::{Report, Start};
use ogive_crash::{activity, symbols, writer};
use ogive_journal::RealDisk;
use ogive_probe::{Clock, InFlight, ListedPath, trace_path};

trace_path! {
    /// What the role that crashes works on.
    TestedWay {
        received: infra,
        stored: infra,
        answered: infra,
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["writer"] => writer::run(),
        ["role", fault, directory, webhook] => role(fault, directory, webhook),
        _ => checks(),
    }
}

/// Begins as a role does, and crashes in a thread with a name.
fn role(fault: &str, directory: &str, webhook: &str) {
    let start = Start {
        role: "server".into(),
        version: "1.2.3".into(),
        pid: std::process::id(),
        directory: directory.into(),
        webhook: (!webhook.is_empty()).then(|| webhook.to_owned()),
        configuration: vec![("listen".into(), "127.0.0.1:1".into())],
    };
    let catalog = Catalog::new(&RealDisk, directory.as_ref());
    let known = catalog.numbers().unwrap().last().copied().unwrap_or(0);
    handler::start(&start, &[OsString::from("writer")], known).unwrap();
    (0..60).for_each(|number| handler::log(&format!("record {number}\n")));
    let fault = match fault {
        "address" => Fault::BadAddress,
        "overflow" => Fault::StackOverflow,
        "abort" => Fault::Abort,
        "panic" => Fault::Panic,
        "wait" => loop {
            println!("ready");
            std::thread::sleep(std::time::Duration::from_secs(3600));
        },
        "clean" => return,
        other => panic!("{other}"),
    };
    let work = move || {
        let _activity = activity::enter("GET /api/v1/query trace 42");
        let (path, clock) = (ListedPath::new::<TestedWay>(), Clock::global());
        let mut messages = [TestedWay::begin(clock), TestedWay::begin(clock)];
        let mut places = messages.each_ref().map(|message| InFlight::begin(path, message));
        for message in 0..2 {
            messages[message].mark(clock, TestedWay::stored);
            places[message].mark(TestedWay::stored, clock.ticks());
        }
        // What has ended is not in a report.
        places[1] = InFlight::begin(path, &TestedWay::begin(clock));
        a_function_with_a_name(fault);
    };
    let thread = std::thread::Builder::new().name("worker-7".into()).spawn(work).unwrap();
    let ended = thread.join();
    // A panic ends its thread; the process goes on, and knows.
    assert!(ended.is_err());
    assert_eq!(handler::total(), known + 1);
}

#[inline(never)]
fn a_function_with_a_name(fault: Fault) {
    handler::crash(std::hint::black_box(fault));
    std::hint::black_box(());
}

fn checks() {
    let held = tempfile::tempdir().unwrap();
    let directory = held.path().join("crash");
    let found = |number: u64| Catalog::new(&RealDisk, &directory).read(number).unwrap();
    let numbers = || Catalog::new(&RealDisk, &directory).numbers().unwrap();

    assert_eq!(run("clean", &directory, "").code(), Some(0));
    assert_eq!(numbers(), [0_u64; 0], "a clean end leaves no report");

    assert_eq!(run("address", &directory, "").signal(), Some(libc::SIGSEGV), "it still ends by the signal");
    let one = found(1);
    assert_eq!((one.kind.as_str(), one.signal.as_deref()), ("signal", Some("SIGSEGV")));
    assert_eq!(one.fault_address.as_deref(), Some("0x8"));
    assert!(one.title().contains("SIGSEGV at address 0x8"), "{}", one.title());
    is_described(&one);

    assert_eq!(run("address", &directory, "").signal(), Some(libc::SIGSEGV));
    assert_eq!(found(2).signature, one.signature, "one cause has one signature");

    assert_eq!(run("abort", &directory, "").signal(), Some(libc::SIGABRT));
    let abort = found(3);
    assert_eq!(abort.signal.as_deref(), Some("SIGABRT"));
    assert_ne!(abort.signature, one.signature);
    is_described(&abort);

    // The standard library's word on the overflow, and its abort, come after ours.
    assert_eq!(run("overflow", &directory, "").signal(), Some(libc::SIGABRT));
    let overflow = found(4);
    assert_eq!(overflow.signal.as_deref(), Some("SIGSEGV"));
    assert!(overflow.frames.len() > 20, "{} frames", overflow.frames.len());

    let (address, requested) = webhook();
    assert_eq!(run("panic", &directory, &address).code(), Some(0), "a panic ends a thread, and its process goes on");
    let panic = found(5);
    assert_eq!(panic.kind, "panic");
    assert_eq!(panic.panic.as_ref().unwrap().message, "a panic for a test of crash reports");
    assert!(panic.title().contains("handler.rs:"), "{}", panic.title());
    is_described(&panic);
    let body = requested.join().unwrap();
    assert!(body.contains(&panic.signature) && body.contains("\"event\":\"crash\""), "{body}");
    assert!(!body.contains("record 59"), "log records stay here: {body}");

    // A signal that somebody sends to a process that waits.
    let mut role = command("wait", &directory, "").stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    role.stdout.take().unwrap().read_exact(&mut ready).unwrap();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(role.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSEGV).unwrap();
    assert_eq!(role.wait().unwrap().signal(), Some(libc::SIGSEGV));
    assert!(found(6).title().contains("sent to the process"), "{}", found(6).title());
    assert_eq!(numbers(), [1, 2, 3, 4, 5, 6]);
    println!("crash: 6 crashes reported as they were");
}

/// What every report of a crash in [`a_function_with_a_name`] says.
fn is_described(report: &Report) {
    assert_eq!((report.role.as_str(), report.version.as_str()), ("server", "1.2.3"));
    assert_eq!(report.thread, "worker-7");
    assert_eq!(report.activity, "GET /api/v1/query trace 42");
    let points = |at: usize| report.traces[at].points.iter().map(|point| point.name.as_str()).collect::<Vec<_>>();
    assert_eq!(report.traces.len(), 2, "{:?}", report.traces);
    assert!(report.traces.iter().all(|trace| trace.path == "TestedWay" && trace.age_seconds < 60.0));
    assert_eq!(report.traces.iter().map(|trace| trace.is_of_thread).collect::<Vec<_>>(), [true, false]);
    assert_eq!((points(0), points(1)), (vec!["received"], vec!["received", "stored"]), "{:?}", report.traces);
    assert!(report.traces[1].points[1].seconds <= report.traces[1].age_seconds);
    assert_eq!(report.configuration, [("listen".to_owned(), "127.0.0.1:1".to_owned())]);
    assert_eq!(report.events.len(), writer::EVENTS_MAX);
    assert_eq!(report.events.last().unwrap(), "record 59");
    let names = symbols::named(&RealDisk, report, None);
    let all: Vec<String> =
        names.into_iter().flatten().flat_map(|named| named.functions).map(|(name, _)| name).collect();
    assert!(
        report.build_id.is_empty() || all.iter().any(|name| name.contains("a_function_with_a_name")),
        "{all:?} {:?}",
        report.frames
    );
    assert!(!report.build_id.is_empty(), "the linker made no build id");
}

fn command(fault: &str, directory: &Path, webhook: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["role", fault]).arg(directory).arg(webhook).stderr(std::process::Stdio::null());
    command
}

fn run(fault: &str, directory: &Path, webhook: &str) -> ExitStatus {
    command(fault, directory, webhook).status().unwrap()
}

/// Answers one request, and gives its body.
fn webhook() -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/hook", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut text, mut part) = (String::new(), [0; 4096]);
        loop {
            let count = stream.read(&mut part).unwrap();
            text += std::str::from_utf8(&part[..count]).unwrap();
            let length = text
                .to_ascii_lowercase()
                .split_once("content-length: ")
                .map(|(_, rest)| rest.split("\r\n").next().unwrap().parse::<usize>().unwrap());
            let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
            if let (Some(length), Some(body)) = (length, body)
                && body.len() >= length
            {
                stream.write_all(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n").unwrap();
                return body;
            }
            assert!(count > 0, "{text}");
        }
    });
    (address, thread)
}
