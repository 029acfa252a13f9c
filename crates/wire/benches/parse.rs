//! How many CPU-seconds does a capture cost, from memory, beside tshark on the same file, and what do all protocols
//! cost beside HTTP alone?
//!
//! `cargo bench -p ogive-wire --bench parse`: wrk's requests to nginx on loopback, captured by tcpdump at the start.
//! With `-- FILE` it reads that capture instead, and with `-- FILE 40` so many times over from as many clients'
//! addresses (Ethernet and IPv4).
//!
//! Both sides run interleaved; CPU time is the scheduler's count for this thread, and for tshark that of the child.

mod capture;

use std::process::{Command, Stdio};

use ogive_wire::{Exchange, Finding, Observer, Options, Output, Path, Reason, Summary, Unanswered, file, protocol};

const ROUNDS: usize = 9;

/// Readings of the capture a round.
const READINGS: u32 = 5;

/// Rounds in which tshark, which takes seconds, runs as well.
const TSHARK_ROUNDS: usize = 3;

#[derive(Default)]
struct Count(u64);

impl Output for Count {
    fn answered(&mut self, _path: &Path, _exchange: &Exchange) {
        self.0 += 1;
    }

    fn unanswered(&mut self, _path: &Path, _exchange: &Exchange, _why: Unanswered) {}

    fn discarded(&mut self, _path: &Path, _exchange: &Exchange, _reason: Reason) {}

    fn connected(&mut self, _path: &Path, _took: i64, _at: i64) {}

    fn finding(&mut self, _finding: &Finding) {}

    fn closed(&mut self, _summary: &Summary) {}
}

/// Seconds that this thread ran.
fn own() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    stat.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

/// Seconds that children ran which have ended, in steps of 10 ms.
fn children() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let fields: Vec<&str> = stat[stat.rfind(')').expect("a name in brackets") + 2..].split(' ').collect();
    [13, 14].iter().map(|at| fields[*at].parse::<f64>().expect("ticks") / 100.0).sum()
}

fn read(bytes: &[u8], options: &Options) -> u64 {
    let mut reader = file::from_bytes(bytes).expect("a capture");
    let (mut observer, mut count) = (Observer::new(options.clone()), Count::default());
    while let Some(frame) = reader.next_frame().expect("it is whole") {
        observer.frame(&frame, &mut count);
    }
    observer.finish(&mut count);
    count.0
}

fn timed(bytes: &[u8], options: &Options) -> f64 {
    let before = own();
    for _ in 0..READINGS {
        std::hint::black_box(read(bytes, options));
    }
    (own() - before) / f64::from(READINGS)
}

/// tshark's CPU time for the same file.
fn tshark(path: &std::path::Path) -> Option<f64> {
    let before = children();
    let status = Command::new("tshark")
        .arg("-r")
        .arg(path)
        .args(["-q", "-z", "http,tree"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => Some(children() - before),
        other => {
            println!("no tshark to compare with: {other:?}");
            None
        }
    }
}

fn median(values: &mut [f64]) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

fn main() {
    // cargo bench passes `--bench`.
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let bytes = match arguments.next() {
        Some(file) => {
            let copies = arguments.next().map_or(1, |copies| copies.parse().expect("a number of copies"));
            capture::repeated(std::path::Path::new(&file), copies)
        }
        None => capture::wrk(),
    };
    let path = std::env::temp_dir().join(format!("ogive-wire-bench-{}.pcap", std::process::id()));
    std::fs::write(&path, &bytes).expect("a temporary file");
    let all = Options::default();
    let http = Options { only: protocol::Set::from_names(&["http1"]), ..Options::default() };
    let exchanges = read(&bytes, &all);
    let frames = capture::frames(&bytes);
    let (mut ours, mut alone, mut ratios, mut theirs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (first, second) = (timed(&bytes, &all), timed(&bytes, &http));
        ours.push(first);
        alone.push(second);
        ratios.push(first / second);
        if round < TSHARK_ROUNDS {
            theirs.extend(tshark(&path));
        }
    }
    let _ = std::fs::remove_file(&path);
    println!("{frames} frames, {} bytes, {exchanges} exchanges", bytes.len());
    let (middle, low, high) = median(&mut ours);
    let rate = |count: u64| count as f64 / middle / 1e6;
    println!(
        "all protocols: {middle:.4} s CPU ({low:.4} to {high:.4}), {:.2} M frames/s, {:.2} M exchanges/s",
        rate(frames),
        rate(exchanges)
    );
    let ((http, low, high), (ratio, least, most)) = (median(&mut alone), median(&mut ratios));
    println!(
        "HTTP/1 alone:  {http:.4} s CPU ({low:.4} to {high:.4}); all are {ratio:.3} of it ({least:.3} to {most:.3})"
    );
    if !theirs.is_empty() {
        let (other, low, high) = median(&mut theirs);
        println!("tshark:        {other:.4} s CPU ({low:.4} to {high:.4}), {:.1} times ours", other / middle);
    }
}
