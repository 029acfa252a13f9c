//! What does timing an operation cost beside two bare readings of the counter and a record?
//!
//! All variants run in turn in each round of one process, with the operation that is timed in each; the table gives the
//! median over the rounds of nanoseconds (CPU time of the thread) per operation and its ratio to the bare pair, with
//! the ratio's 10th and 90th percentile. `-- gate` exits 1 when the median of `timed_unordered` is above 1.15 times the
//! bare pair.
//!
//! Run: `cargo bench -p ogive-probe --bench timed`

mod measure;

use measure::{cpu_ns, percentile, sorted};
use ogive_probe::{Clock, Recorder, Stopwatch, TickStopwatch};
use std::hint::black_box;

const ROUNDS: usize = 600;
const OPERATIONS: u32 = 1_000;
const RATIO_MAX: f64 = 1.15;

#[cfg(target_arch = "x86_64")]
fn raw() -> u64 {
    // SAFETY: RDTSC exists on every x86-64.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn raw() -> u64 {
    Clock::global().ticks()
}

struct Variant {
    name: &'static str,
    run: Box<dyn FnMut()>,
    ns: Vec<f64>,
}

fn variant(name: &'static str, mut operation: impl FnMut() + 'static) -> Variant {
    let run = Box::new(move || (0..OPERATIONS).for_each(|_| operation()));
    Variant { name, run, ns: Vec::with_capacity(ROUNDS) }
}

fn variants() -> Vec<Variant> {
    let (clock, recorder) = (Clock::global(), Recorder::new());
    let [bare, unordered, ordered, watch, tick_watch] = [(); 5].map(|()| recorder.handle());
    let rate = clock.tick_rate();
    vec![
        variant("2 rdtsc + record_ns", move || {
            let start = raw();
            black_box(());
            bare.record_ns(rate.ns(raw().wrapping_sub(start)));
        }),
        variant("Writer::timed_unordered", move || unordered.timed_unordered(clock, || black_box(()))),
        variant("TickStopwatch", move || {
            let watch = TickStopwatch::start(clock);
            black_box(());
            black_box(watch.record(&tick_watch));
        }),
        variant("Writer::timed", move || ordered.timed(clock, || black_box(()))),
        variant("Stopwatch", move || {
            let started = Stopwatch::start(clock);
            black_box(());
            black_box(started.record(&watch));
        }),
    ]
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let _ = Clock::global();
    std::thread::sleep(std::time::Duration::from_millis(100));
    println!("{:?}", Clock::global().status());
    let mut variants = variants();
    for _ in 0..ROUNDS {
        for variant in &mut variants {
            let start = cpu_ns();
            (variant.run)();
            variant.ns.push((cpu_ns() - start) as f64 / f64::from(OPERATIONS));
        }
    }
    println!("\n{:<26} {:>8} {:>8}   {:>7} {:>18}", "per operation", "min ns", "median", "ratio", "(p10 .. p90)");
    let base = variants[0].ns.clone();
    let mut unordered_ratio = f64::NAN;
    for variant in &variants {
        let ratios = sorted(variant.ns.iter().zip(&base).map(|(ns, base)| ns / base).collect());
        let ns = sorted(variant.ns.clone());
        let [low, middle, high] = [0.1, 0.5, 0.9].map(|q| percentile(&ratios, q));
        println!(
            "{:<26} {:>8.1} {:>8.1}   {middle:>6.3}x  ({low:.3} .. {high:.3})",
            variant.name,
            ns[0],
            percentile(&ns, 0.5)
        );
        if variant.name == "Writer::timed_unordered" {
            unordered_ratio = middle;
        }
    }
    if std::env::args().any(|argument| argument == "gate") && unordered_ratio > RATIO_MAX {
        eprintln!("timed_unordered costs {unordered_ratio:.3} times the bare pair, above {RATIO_MAX}");
        std::process::exit(1);
    }
}
