//! What does a reading cost beside a bare `rdtsc`, the system's clock and the `quanta` crate? Is it in order, and
//! right?
//!
//! All variants run in turn in each round of one process, so that what disturbs one disturbs all; the table gives the
//! median over the rounds of nanoseconds per call, its ratio to `rdtsc` with the spread of that ratio from round to
//! round (10th and 90th percentile), and the same ratio to `clock_gettime`.
//!
//! Run: `cargo bench -p ogive-probe --bench clock`; with `-- MODE` one of the checks of [`checks`].

mod checks;

use ogive_hist::FlatRecorder;
use ogive_probe::{Clock, HiccupMeter, Recorder};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 300;
const CALLS: u32 = 1_000;

struct Variant {
    name: &'static str,
    run: Box<dyn FnMut()>,
    ns: Vec<f64>,
}

fn variant(name: &'static str, mut call: impl FnMut() -> u64 + 'static) -> Variant {
    let run = Box::new(move || {
        for _ in 0..CALLS {
            black_box(call());
        }
    });
    Variant { name, run, ns: Vec::with_capacity(ROUNDS) }
}

fn system_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(target_arch = "x86_64")]
fn raw_variants() -> Vec<Variant> {
    use std::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};
    let rdtsc = || {
        // SAFETY: RDTSC exists on every x86-64.
        unsafe { _rdtsc() }
    };
    let fenced = || {
        // SAFETY: so do LFENCE and RDTSC.
        unsafe {
            _mm_lfence();
            _rdtsc()
        }
    };
    let rdtscp = || {
        let mut processor = 0;
        // SAFETY: RDTSCP exists on every x86-64 that has an invariant counter.
        unsafe { __rdtscp(&raw mut processor) }
    };
    vec![variant("rdtsc", rdtsc), variant("lfence; rdtsc", fenced), variant("rdtscp", rdtscp)]
}

#[cfg(not(target_arch = "x86_64"))]
fn raw_variants() -> Vec<Variant> {
    vec![variant("ticks (bare)", || Clock::global().ticks())]
}

fn variants() -> Vec<Variant> {
    let clock = Clock::global();
    let quanta = quanta::Clock::new();
    let epoch = Instant::now();
    let mut all = raw_variants();
    all.extend([
        variant("clock_gettime MONOTONIC", system_ns),
        variant("std Instant::now", move || epoch.elapsed().as_nanos() as u64),
        variant("quanta raw", {
            let quanta = quanta.clone();
            move || quanta.raw()
        }),
        variant("quanta now", {
            let first = quanta.now();
            move || (quanta.now() - first).as_nanos() as u64
        }),
        variant("ogive ticks", move || clock.ticks()),
        variant("ogive ticks_ordered", move || clock.ticks_ordered()),
        variant("ogive now_unordered", move || clock.now_unordered()),
        variant("ogive now", move || clock.now()),
        variant("ogive wall", move || clock.wall() as u64),
    ]);
    all.extend(recording(clock));
    all
}

/// Values as a service has them: log-normal about 100 us, made before and walked through.
fn values() -> Vec<u64> {
    let mut state = 0x5eed_u64;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..4_096).map(|_| (100_000.0 * ((0..12).map(|_| uniform()).sum::<f64>() - 6.0).exp()) as u64).collect()
}

fn recording(clock: Clock) -> Vec<Variant> {
    let values = values();
    let next = move || {
        let (values, mut at) = (values.clone(), 0_usize);
        move || {
            at = (at + 1) & 4_095;
            values[at]
        }
    };
    let mut plain = FlatRecorder::new();
    let recorder = Recorder::new();
    let (mut of_plain, mut of_writer, mut of_sparse) = (next(), next(), next());
    let sparse = recorder.handle_sparse();
    let (writer, timed, timed_short) = (recorder.handle(), recorder.handle(), recorder.handle());
    let timed_unordered = recorder.handle();
    vec![
        variant("values alone", next()),
        variant("FlatRecorder::record", move || {
            plain.record(of_plain());
            0
        }),
        variant("Writer::record_ns", move || {
            writer.record_ns(of_writer());
            0
        }),
        variant("SparseWriter::record_ns", move || {
            sparse.record_ns(of_sparse());
            0
        }),
        variant("Writer::timed (2 now)", move || timed.timed(clock, || 0)),
        variant("Writer::timed_unordered", move || timed_short.timed_unordered(clock, || 0)),
        variant("2 ticks + record_ns", move || {
            let start = clock.ticks();
            let end = clock.ticks();
            timed_unordered.record_ns(clock.ns_between(start, end));
            0
        }),
    ]
}

fn percentile(sorted: &[f64], q: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * q).round() as usize]
}

fn ratios(of: &[f64], to: &[f64]) -> [f64; 3] {
    let mut ratios: Vec<f64> = of.iter().zip(to).map(|(of, to)| of / to).collect();
    ratios.sort_by(f64::total_cmp);
    [0.1, 0.5, 0.9].map(|q| percentile(&ratios, q))
}

fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = std::fs::read_to_string(source).unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("{} | clock source {} | load {}", model.trim_start_matches(['\t', ' ', ':']), source.trim(), load.trim())
}

/// Hands readings between two threads and counts those that are before the one they answer.
fn backward(handoffs: u64, read: impl Fn() -> u64 + Sync) -> (u64, u64) {
    let slots = [AtomicU64::new(0), AtomicU64::new(0)];
    let (backward, worst) = (AtomicU64::new(0), AtomicU64::new(0));
    let play = |own: &AtomicU64, other: &AtomicU64, first: bool| {
        let mut seen = 0;
        for turn in 0..handoffs {
            let mut spins = 0_u32;
            while !(first && turn == 0) && other.load(Ordering::Acquire) == seen {
                spins += 1;
                if spins.is_multiple_of(200) { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
            seen = other.load(Ordering::Acquire);
            let reading = read();
            if reading < seen >> 1 {
                backward.fetch_add(1, Ordering::Relaxed);
                worst.fetch_max((seen >> 1) - reading, Ordering::Relaxed);
            }
            own.store(reading << 1 | (turn & 1), Ordering::Release);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(&slots[0], &slots[1], true));
        play(&slots[1], &slots[0], false);
    });
    (backward.into_inner(), worst.into_inner())
}

/// Do readings that cross threads go back? (An unordered one does.)
fn order_table(clock: Clock) {
    const HANDOFFS: u64 = 200_000;
    let quanta = quanta::Clock::new();
    let first = quanta.now();
    let row = |name: &str, (count, worst): (u64, u64)| {
        let percent = count as f64 * 50.0 / HANDOFFS as f64;
        println!("{name:<26} {count:>8} of {} handoffs backward ({percent:.2} %), worst {worst} ns", 2 * HANDOFFS);
    };
    println!();
    row("quanta now", backward(HANDOFFS, || (quanta.now() - first).as_nanos() as u64));
    row("ogive now_unordered", backward(HANDOFFS, || clock.now_unordered()));
    row("ogive now", backward(HANDOFFS, || clock.now()));
    row("clock_gettime MONOTONIC", backward(HANDOFFS, system_ns));
}

/// How far from the system's clock are readings over five seconds?
fn error_table(clock: Clock) {
    let quanta = quanta::Clock::new();
    let (start, start_ns) = (quanta.now(), system_ns());
    let (mut ours, mut theirs, mut bound_max) = (Vec::new(), Vec::new(), 0);
    for _ in 0..500 {
        std::thread::sleep(Duration::from_millis(10));
        let bracketed = |read: &dyn Fn() -> u64| {
            let bracket = |_| {
                let (before, reading, after) = (system_ns(), read(), system_ns());
                (after - before, reading as f64 - (before + after) as f64 / 2.0)
            };
            (0..12).map(bracket).min_by_key(|(width, _)| *width).expect("twelve brackets").1
        };
        ours.push(bracketed(&|| clock.now()));
        theirs.push(bracketed(&|| (quanta.now() - start).as_nanos() as u64 + start_ns));
        bound_max = clock.now_bounded().err_ns.max(bound_max);
    }
    println!("\nerror against CLOCK_MONOTONIC over 5 s, ns (largest published bound of ogive: {bound_max})");
    for (name, errors) in [("ogive now", &ours), ("quanta now", &theirs)] {
        let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let [p50, p99] = [0.5, 0.99].map(|q| percentile(&sizes, q));
        let drift = errors.last().expect("many") - errors[0];
        println!(
            "{name:<26} p50 {p50:.0}, p99 {p99:.0}, max {:.0}, from first to last {drift:+.0}",
            sizes[sizes.len() - 1]
        );
    }
}

/// What does a snapshot cost, with nothing recorded and with some writers that recorded?
fn snapshot_table() {
    println!("\ncost of a snapshot, us");
    for writers in [1, 8] {
        let recorder = Recorder::new();
        let handles: Vec<_> = (0..writers).map(|_| recorder.handle()).collect();
        for busy in [false, true] {
            let mut costs: Vec<f64> = (0..300)
                .map(|_| {
                    handles
                        .iter()
                        .filter(|_| busy)
                        .for_each(|writer| (1..200).for_each(|ns| writer.record_ns(ns * 997)));
                    let start = system_ns();
                    black_box(recorder.snapshot());
                    (system_ns() - start) as f64 / 1e3
                })
                .collect();
            costs.sort_by(f64::total_cmp);
            let [p50, p99] = [0.5, 0.99].map(|q| percentile(&costs, q));
            let state = if busy { "that recorded" } else { "that did not record" };
            println!("{writers} writers {state:<20} p50 {p50:.1}, p99 {p99:.1}");
        }
    }
}

/// What does the hiccup meter see here, and what does it cost?
fn hiccup_table(clock: Clock) {
    let mut meter = HiccupMeter::start(clock).expect("threads are to be had");
    let start = system_ns();
    std::thread::sleep(Duration::from_millis(3_050));
    let (passed, used) = (system_ns() - start, meter.cpu_ns());
    meter.stop();
    println!("\novershoot of a 1 ms sleep, us");
    for cpu in meter.cpus() {
        let cell = cpu.recorder().snapshot();
        let at = |q| cell.quantile(q).map_or(f64::NAN, |quantile| quantile.value * 1e6);
        let max = cell.max.unwrap_or(f64::NAN) * 1e6;
        println!(
            "cpu {:<22} {:>8} records: p50 {:.1}, p99 {:.1}, p99.9 {:.1}, max {max:.1}",
            cpu.cpu(),
            cell.count,
            at(0.5),
            at(0.99),
            at(0.999)
        );
    }
    println!("the meter took {:.2} % of one CPU", used as f64 / passed as f64 * 100.0);
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    match words.first().map(String::as_str) {
        None | Some("table") => tables(words.len() == 1),
        Some(mode) => match checks::run(mode, words.get(1).and_then(|number| number.parse().ok())) {
            Some(passed) => std::process::exit(i32::from(!passed)),
            None => {
                eprintln!("no check is called {mode}; there are: {}", checks::MODES);
                std::process::exit(2);
            }
        },
    }
}

/// The costs of readings; unless `short`, the other tables too.
fn tables(short: bool) {
    let mut variants = variants();
    std::thread::sleep(Duration::from_millis(500)); // The counter takes over from the system's clock.
    for round in 0..ROUNDS + 10 {
        for variant in &mut variants {
            let start = system_ns();
            (variant.run)();
            let ns = (system_ns() - start) as f64 / f64::from(CALLS);
            if round >= 10 {
                variant.ns.push(ns);
            }
        }
    }
    println!("{}", machine());
    println!("{:?}", Clock::global().status());
    println!("{:<26} {:>8} {:>8}   {:<24} {:<24}", "", "min ns", "p50 ns", "x first row (p10..p90)", "x clock_gettime");
    let first = variants[0].ns.clone();
    let system = variants.iter().find(|v| v.name.starts_with("clock_gettime")).expect("is listed").ns.clone();
    for variant in &variants {
        let mut sorted = variant.ns.clone();
        sorted.sort_by(f64::total_cmp);
        let [low, middle, high] = ratios(&variant.ns, &first);
        let [system_low, system_middle, system_high] = ratios(&variant.ns, &system);
        println!(
            "{:<26} {:>8.2} {:>8.2}   {middle:.2} ({low:.2}..{high:.2})         {system_middle:.2} ({system_low:.2}..{system_high:.2})",
            variant.name,
            sorted[0],
            percentile(&sorted, 0.5),
        );
    }
    if short {
        return;
    }
    let clock = Clock::global();
    order_table(clock);
    error_table(clock);
    snapshot_table();
    hiccup_table(clock);
    println!("\n{:?}", clock.status());
}
