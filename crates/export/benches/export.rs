//! What does a second's export of 1,000 recorders cost the measured process: CPU for each cell, in the thread that
//! takes cells and in the thread that sends them?
//!
//! Two exporters run at the same time in one process, second by second: one over HTTP on loopback to a thread that
//! reads the batch and answers as a server does, one whose way to the server is a function that only reads the batch.
//! (So the second's sending thread does the server's reading, and no HTTP.) Each has 1,000 recorders with one writer;
//! of these, all or none record 200 durations a second. CPU time is the kernel's (`/proc/self/task/*/schedstat`), so
//! what else the machine does changes it little.
//!
//! Run: `cargo bench -p ogive-export`

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use ogive_export::{Amount, Answer, Exporter, Outcome};
use ogive_model::Batch;
use ogive_probe::{Recorder, Writer};

const RECORDERS: usize = 1_000;
const RECORDS: u64 = 200;
const SECONDS: usize = 6;

fn samples(frame: &[u8]) -> u64 {
    Amount::from_batch(&Batch::decode(frame).expect("a frame of ours")).samples
}

/// Answers as a server does.
fn serve(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let answer = format!("{{\"accepted\":{},\"duplicate\":0,\"rejected\":[]}}\n", samples(&body));
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
        stream.get_mut().write_all((head + &answer).as_bytes())?;
    }
}

fn listen() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("it has one"));
    std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(serve(stream))));
    address
}

/// The threads of that name, in the order of their start.
fn threads(name: &str) -> Vec<u64> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux").flatten();
    let named =
        |path: &std::path::Path| std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
    let ids = tasks.filter(|task| named(&task.path())).filter_map(|task| task.file_name().to_str()?.parse().ok());
    let mut ids: Vec<u64> = ids.collect();
    ids.sort_unstable();
    ids
}

/// Nanoseconds on a CPU.
fn cpu_ns(thread: u64) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).expect("the thread is there");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
}

struct Side {
    name: &'static str,
    exporter: Exporter,
    recorders: Vec<Recorder>,
    writers: Vec<Writer>,
    threads: [u64; 2],
    /// Of each second: microseconds of CPU of both threads.
    costs: Vec<[f64; 2]>,
}

impl Side {
    fn new(name: &'static str, start: impl FnOnce() -> Exporter) -> Self {
        let known = [threads("ogive-cells"), threads("ogive-send")];
        let exporter = start();
        std::thread::sleep(Duration::from_millis(50));
        let new =
            |name: &str, known: &[u64]| threads(name).into_iter().find(|id| !known.contains(id)).expect("it runs");
        let threads = [new("ogive-cells", &known[0]), new("ogive-send", &known[1])];
        let recorders: Vec<Recorder> = (0..RECORDERS).map(|_| Recorder::new()).collect();
        for (at, recorder) in recorders.iter().enumerate() {
            let route = format!("/route/{at}");
            exporter.cells().recorder("rpc_seconds", &[("route", &route)], recorder).expect("a good name");
        }
        let writers = recorders.iter().map(Recorder::handle).collect();
        Self { name, exporter, recorders, writers, threads, costs: Vec::new() }
    }

    /// Durations around a millisecond, over two decades.
    fn record(&self, random: &mut u64) {
        for writer in &self.writers {
            for _ in 0..RECORDS {
                *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                writer.record_ns(100_000 << ((*random >> 40) % 7) | *random >> 50);
            }
        }
    }

    fn cpu(&self) -> [u64; 2] {
        self.threads.map(cpu_ns)
    }
}

fn label(at: usize) -> &'static str {
    ["takes cells", "sends them"][at]
}

fn main() {
    let address = listen();
    let silent = |builder: ogive_export::Builder| builder.label("service", "bench").log(|line| panic!("{line}"));
    let http = || silent(Exporter::builder(&address)).start().expect("it starts");
    let function = || {
        let link = |frame: &[u8], _: Duration| {
            Outcome::Answered(Answer { accepted: Some(self::samples(frame)), duplicate: Some(0), ..Answer::default() })
        };
        silent(Exporter::builder("http://none")).start_with(link).expect("it starts")
    };
    let mut sides = [Side::new("HTTP", http), Side::new("function", function)];
    let mut random = 1;
    for records in [true, false] {
        sides.iter_mut().for_each(|side| side.costs.clear());
        let before: Vec<_> = sides.iter().map(|side| side.exporter.status()).collect();
        for _ in 0..SECONDS {
            let start: Vec<[u64; 2]> = sides.iter().map(Side::cpu).collect();
            if records {
                sides.iter().for_each(|side| side.record(&mut random));
            }
            std::thread::sleep(Duration::from_secs(1));
            for (side, start) in sides.iter_mut().zip(start) {
                let end = side.cpu();
                side.costs.push([0, 1].map(|at| (end[at] - start[at]) as f64 / 1e3));
            }
        }
        println!("\n{RECORDERS} recorders, {} durations each a second:", if records { RECORDS } else { 0 });
        for (side, before) in sides.iter_mut().zip(before) {
            let after = side.exporter.status();
            let cells = (after.taken.cells - before.taken.cells) as f64;
            let all: f64 = side.costs.iter().flatten().sum();
            if records {
                println!("  {:<9} {:.2} us of CPU a cell ({cells} cells)", side.name, all / cells);
            }
            for at in 0..2 {
                let mut costs: Vec<f64> = side.costs.iter().map(|costs| costs[at]).collect();
                costs.sort_by(f64::total_cmp);
                let (low, middle, high) = (costs[0], costs[costs.len() / 2], costs[costs.len() - 1]);
                println!("  {:<9} the thread that {}: {middle:.0} us a second ({low:.0} to {high:.0})", "", label(at));
            }
            assert_eq!(side.recorders.len(), RECORDERS);
        }
    }
}
