//! How many CPU-seconds does a capture cost, from memory, beside tshark on the same file?
//!
//! `cargo bench -p ogive-wire --bench parse`. The capture is `http1_1000conns` of `OGIVE_CAPTURES_DIR`, or another by `OGIVE_BENCH_CAPTURE`,
//! 40 times over from as many clients' addresses. Both sides run interleaved; CPU time is that of the process, and of tshark's.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use ogive_wire::{Exchange, Finding, Observer, Options, Output, Path, Reason, Summary, Unanswered, file};

const COPIES: u8 = 40;
const ROUNDS: usize = 5;

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

/// User and system time in seconds, of this process and of its children.
fn cpu() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let fields: Vec<&str> = stat[stat.rfind(')').expect("a name in brackets") + 2..].split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number") / 100.0;
    (ticks(11) + ticks(12), ticks(13) + ticks(14))
}

/// The capture `COPIES` times over, each copy from another loopback address and a minute later.
fn capture() -> (Vec<u8>, u64) {
    let directory =
        std::env::var_os("OGIVE_CAPTURES_DIR").map_or_else(|| PathBuf::from("vectors/captures"), PathBuf::from);
    let name = std::env::var("OGIVE_BENCH_CAPTURE").unwrap_or_else(|_| "http1_1000conns.pcap.gz".to_owned());
    let path = directory.join(name);
    let mut bytes = vec![0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    let mut frames = 0;
    for copy in 0..COPIES {
        let opened = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut reader = file::open(opened).expect("a capture");
        while let Some(frame) = reader.next_frame().expect("it is whole") {
            let at = frame.at + i64::from(copy) * 60_000_000_000;
            let mut data = frame.bytes.to_vec();
            // Ethernet and IPv4: the third byte of both addresses.
            for at in [28, 32] {
                data[at] = copy;
            }
            let length = u32::try_from(data.len()).expect("small").to_le_bytes();
            bytes.extend(u32::try_from(at / 1_000_000_000).expect("this century").to_le_bytes());
            bytes.extend(u32::try_from(at % 1_000_000_000).expect("below a second").to_le_bytes());
            bytes.extend([length, length].concat());
            bytes.extend(data);
            frames += 1;
        }
    }
    (bytes, frames)
}

fn main() {
    let (bytes, frames) = capture();
    let path = std::env::temp_dir().join(format!("ogive-wire-bench-{}.pcap", std::process::id()));
    std::fs::write(&path, &bytes).expect("a temporary file");
    let (mut ours, mut theirs, mut exchanges) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let before = cpu().0;
        // Ticks are 10 ms: ten readings make them fine enough.
        for _ in 0..10 {
            let mut reader = file::open(&bytes[..]).expect("a capture");
            let (mut observer, mut count) = (Observer::new(Options::default()), Count::default());
            while let Some(frame) = reader.next_frame().expect("it is whole") {
                observer.frame(&frame, &mut count);
            }
            observer.finish(&mut count);
            exchanges = count.0;
        }
        ours.push((cpu().0 - before) / 10.0);
        let before = cpu().1;
        let tshark = Command::new("tshark")
            .arg("-r")
            .arg(&path)
            .args(["-q", "-z", "http,tree"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match tshark {
            Ok(status) if status.success() => theirs.push(cpu().1 - before),
            other => println!("no tshark to compare with: {other:?}"),
        }
    }
    let _ = std::fs::remove_file(&path);
    ours.sort_by(f64::total_cmp);
    theirs.sort_by(f64::total_cmp);
    let median = ours[ours.len() / 2];
    println!("{frames} frames, {} bytes, {exchanges} exchanges", bytes.len());
    println!(
        "ogive-wire: {:.4} s CPU ({:.4} to {:.4}), {:.2} M frames/s, {:.2} M exchanges/s",
        median,
        ours[0],
        ours[ours.len() - 1],
        frames as f64 / median / 1e6,
        exchanges as f64 / median / 1e6
    );
    if !theirs.is_empty() {
        let other = theirs[theirs.len() / 2];
        println!(
            "tshark:     {:.4} s CPU ({:.4} to {:.4}), {:.1} times ours",
            other,
            theirs[0],
            theirs[theirs.len() - 1],
            other / median
        );
    }
}
