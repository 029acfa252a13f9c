//! What does it cost to stamp a message at eight points and to count it, beside eight bare reads of the counter? And
//! what does it add to eight stages of about 100 ns?
//!
//! All variants run in turn in each round of one process. The table gives the median over the rounds of nanoseconds
//! (CPU time of the thread) per message and its ratio to the first variant of its group, with that ratio's 10th and
//! 90th percentile over the rounds.
//!
//! Run: `cargo bench -p ogive-probe --bench trace`

mod measure;

use measure::{cpu_ns, percentile, sorted};
use ogive_probe::{Clock, MarkList, Threshold, TraceRecorder, trace_path};
use std::hint::black_box;
use std::sync::OnceLock;

const ROUNDS: usize = 400;
const MESSAGES: u32 = 500;
const NEVER: Threshold = Threshold::fixed_ns(u64::MAX);

trace_path! {
    /// As a service has it: ordered where messages cross threads.
    Mixed {
        p0: infra @ordered, p1: infra, p2: infra, p3: logic, p4: logic, p5: infra, p6: infra, p7: infra @ordered,
    }
}

trace_path! { Ends { p0: infra, p1: infra } }

trace_path! { Unordered { p0: infra, p1: infra, p2: infra, p3: logic, p4: logic, p5: infra, p6: infra, p7: infra } }

trace_path! {
    Ordered {
        p0: infra @ordered, p1: infra @ordered, p2: infra @ordered, p3: logic @ordered, p4: logic @ordered,
        p5: infra @ordered, p6: infra @ordered, p7: infra @ordered,
    }
}

/// A message that is stamped at each point and counted, with `$work` before each stamp.
macro_rules! traced {
    ($path:ident, $threshold:expr, $work:expr) => {{
        let clock = Clock::global();
        let recorder = TraceRecorder::<$path>::new(clock, $threshold);
        let writer = recorder.handle("bench");
        #[allow(unused_mut)]
        let mut work = $work;
        move || {
            let _keep = &recorder;
            work();
            let mut message = $path::begin(clock);
            for point in [$path::p1, $path::p2, $path::p3, $path::p4, $path::p5, $path::p6, $path::p7] {
                work();
                message.mark(clock, point);
            }
            writer.finish(&message);
        }
    }};
}

struct Variant {
    name: &'static str,
    run: Box<dyn FnMut()>,
    ns: Vec<f64>,
}

fn variant(name: &'static str, mut message: impl FnMut() + 'static) -> Variant {
    let run = Box::new(move || (0..MESSAGES).for_each(|_| message()));
    Variant { name, run, ns: Vec::with_capacity(ROUNDS) }
}

#[cfg(target_arch = "x86_64")]
fn raw() -> u64 {
    // SAFETY: RDTSC exists on every x86-64.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn raw() -> u64 {
    Clock::global().ticks()
}

/// A stage of about 100 ns in which each step waits for the one before: multiplications, as many as take that long
/// here.
fn stage() -> impl FnMut() {
    static STEPS: OnceLock<u32> = OnceLock::new();
    let steps = *STEPS.get_or_init(|| {
        const MANY: u32 = 1_000;
        let ns = |_| {
            let start = cpu_ns();
            black_box(steps(black_box(1), MANY));
            cpu_ns() - start
        };
        let least = (0..200).map(ns).min().expect("200 runs");
        (100.0 * f64::from(MANY) / least as f64) as u32
    });
    let mut state = black_box(0x5eed_u64);
    move || state = black_box(self::steps(state, steps))
}

fn steps(state: u64, count: u32) -> u64 {
    (0..count).fold(state, |state, _| state.wrapping_mul(state | 1) ^ 0x9e37_79b9)
}

fn back_to_back() -> Vec<Variant> {
    vec![
        variant("8 bare rdtsc", || {
            let stamps: [u64; 8] = std::array::from_fn(|_| raw());
            black_box(stamps);
        }),
        variant("8 Clock::ticks", {
            let clock = Clock::global();
            move || {
                let stamps: [u64; 8] = std::array::from_fn(|_| clock.ticks());
                black_box(stamps);
            }
        }),
        variant("8-point trace, unordered", traced!(Unordered, NEVER, || ())),
        variant("8-point trace, ends ordered", traced!(Mixed, NEVER, || ())),
        variant("8-point trace, all ordered", traced!(Ordered, NEVER, || ())),
        variant("8-point trace, all dumped", traced!(Unordered, Threshold::fixed_ns(0), || ())),
        variant("2 stamps and a list of 8", {
            let clock = Clock::global();
            let recorder = TraceRecorder::<Ends>::new(clock, NEVER);
            let (writer, marker, publish) =
                (recorder.handle("bench"), recorder.marker(), recorder.mark_name("publish"));
            move || {
                let _keep = &recorder;
                let (mut message, mut list) = (Ends::begin(clock), MarkList::new());
                (0..8).for_each(|_| list.mark(clock, &marker, publish));
                message.mark(clock, Ends::p1);
                writer.finish_listed(&message, &list);
            }
        }),
        variant("finish alone", {
            let clock = Clock::global();
            let recorder = TraceRecorder::<Unordered>::new(clock, NEVER);
            let writer = recorder.handle("bench");
            let mut message = Unordered::begin(clock);
            let points = [Unordered::p1, Unordered::p2, Unordered::p3, Unordered::p4, Unordered::p5, Unordered::p6];
            points.into_iter().chain([Unordered::p7]).for_each(|point| message.mark(clock, point));
            move || {
                let _keep = &recorder;
                writer.finish(black_box(&message));
            }
        }),
    ]
}

fn stages() -> Vec<Variant> {
    let bare = || {
        let mut work = stage();
        move || (0..8).for_each(|_| work())
    };
    vec![
        variant("8 stages of ~100 ns, bare", bare()),
        variant("the same again (noise)", bare()),
        variant("with 8 bare rdtsc", {
            let mut work = stage();
            move || {
                let mut stamps = [0; 8];
                for stamp in &mut stamps {
                    work();
                    *stamp = raw();
                }
                black_box(stamps);
            }
        }),
        variant("traced, unordered", traced!(Unordered, NEVER, stage())),
        variant("traced, ends ordered", traced!(Mixed, NEVER, stage())),
        variant("traced, all ordered", traced!(Ordered, NEVER, stage())),
    ]
}

fn table(mut variants: Vec<Variant>) {
    for _ in 0..ROUNDS {
        for variant in &mut variants {
            let start = cpu_ns();
            (variant.run)();
            variant.ns.push((cpu_ns() - start) as f64 / f64::from(MESSAGES));
        }
    }
    println!("\n{:<30} {:>8} {:>8}   {:>7} {:>16}", "per message", "min ns", "median", "ratio", "(p10 .. p90)");
    let base = variants[0].ns.clone();
    for variant in &variants {
        let ratios = sorted(variant.ns.iter().zip(&base).map(|(ns, base)| ns / base).collect());
        let ns = sorted(variant.ns.clone());
        let [low, middle, high] = [0.1, 0.5, 0.9].map(|q| percentile(&ratios, q));
        println!(
            "{:<30} {:>8.1} {:>8.1}   {middle:>6.3}x ({low:.3} .. {high:.3})",
            variant.name,
            ns[0],
            percentile(&ns, 0.5)
        );
    }
}

fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{} | {cpus} CPUs | load {}", model.trim_start_matches(['\t', ' ', ':']), load.trim())
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    // The first look starts the calibration; 100 ms is five times what it needs.
    let _ = Clock::global();
    std::thread::sleep(std::time::Duration::from_millis(100));
    println!("{}\n{:?}", machine(), Clock::global().status());
    table(back_to_back());
    table(stages());
}
