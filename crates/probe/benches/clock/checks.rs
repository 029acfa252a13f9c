//! The checks that a skeptic would run on the clock, each a mode of the bench: `cargo bench -p ogive-probe --bench
//! clock -- MODE`.
//!
//! Each prints what it saw and a line that begins with `ok` or `FAILED`; the process' exit code is 1 when one failed.

use crate::{machine, percentile, system_ns};
use ogive_probe::{Clock, Mode};
use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// What the modes are called, for whoever asks for another.
pub(crate) const MODES: &str = "table (no mode: all tables), handoffs [COUNT], accuracy [SECONDS], starved [SECONDS], switch, \
                         fork [SECONDS], processes [COUNT], delays; `processes` runs itself as `child`";

/// Runs a mode; `None` when there is no such one, otherwise whether the check passed.
pub(crate) fn run(mode: &str, number: Option<u64>) -> Option<bool> {
    let passed = match mode {
        "handoffs" => handoffs(number.unwrap_or(10_000_000)),
        "accuracy" => accuracy(number.unwrap_or(60)),
        "starved" => starved(number.unwrap_or(30)),
        "switch" => switch(),
        "fork" => fork(number.unwrap_or(10)),
        "processes" => processes(number.unwrap_or(20)),
        "child" => child(),
        "delays" => delays(),
        _ => return None,
    };
    Some(passed)
}

fn verdict(passed: bool, what: &str) -> bool {
    println!("{} {what}", if passed { "ok    " } else { "FAILED" });
    passed
}

fn settled() -> Clock {
    let clock = Clock::global();
    let start = Instant::now();
    while clock.status().mode == Mode::Os && start.elapsed().as_secs() < 10 {
        std::thread::sleep(Duration::from_millis(5));
    }
    clock
}

fn pin(cpu: usize) -> bool {
    // SAFETY: cpu_set_t is a plain bit array, for which all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is below CPU_SETSIZE on every machine that runs this.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` is valid for its own size; 0 means the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) == 0 }
}

/// Keeps the CPUs busy until dropped.
struct Load {
    stop: std::sync::Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start(threads: usize) -> Self {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let work = |stop: std::sync::Arc<AtomicBool>| {
            let mut sum = 1_u64;
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..10_000 {
                    sum = black_box(sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                }
            }
        };
        let threads = (0..threads)
            .map(|_| {
                let stop = stop.clone();
                std::thread::spawn(move || work(stop))
            })
            .collect();
        Self { stop, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Hands readings to and fro between two threads that are bound to CPUs 0 and 1. Gives (made, backward, worst ns).
fn ping_pong(handoffs: u64, read: &(impl Fn() -> u64 + Sync)) -> (u64, u64, u64) {
    #[repr(align(128))]
    struct CacheLine(AtomicU64);
    let places = [CacheLine(AtomicU64::new(0)), CacheLine(AtomicU64::new(0))];
    let (backward, worst) = (AtomicU64::new(0), AtomicU64::new(0));
    let play = |side: usize| {
        assert!(pin(side), "two CPUs are needed");
        let (own, other) = (&places[side].0, &places[1 - side].0);
        let (mut seen, mut own_backward, mut own_worst) = (0, 0_u64, 0);
        for turn in 0..handoffs / 2 {
            // The reading follows the load with no branch between them: a processor may take it first unless the clock
            // forbids it. (A loop that waits and then reads hides that, because its exit is mispredicted.)
            let (mut polls, mut reading) = (0_u32, read());
            let waits = side == 1 || turn > 0;
            while waits && polls < u32::MAX {
                let message = other.load(Ordering::Acquire);
                reading = read();
                if message != seen {
                    seen = message;
                    break;
                }
                polls += 1;
                if polls.is_multiple_of(5_000) {
                    std::thread::yield_now();
                }
            }
            if reading < seen >> 1 {
                own_backward += 1;
                own_worst = own_worst.max((seen >> 1) - reading);
            }
            // Twice the reading, made different from the last message by its lowest bit.
            own.store(reading << 1 | (turn & 1), Ordering::Release);
        }
        backward.fetch_add(own_backward, Ordering::Relaxed);
        worst.fetch_max(own_worst, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(0));
        scope.spawn(|| play(1));
    });
    (handoffs, backward.into_inner(), worst.into_inner())
}

/// Does a reading ever come before the one that it answers, while the clock is calibrated anew each millisecond?
fn handoffs(count: u64) -> bool {
    let mut maintainer = Clock::maintain().expect("the first to read the clock");
    let clock = Clock::global();
    let stop = AtomicBool::new(false);
    println!("{}", machine());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                maintainer.turn();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        settled();
        let quanta = quanta::Clock::new();
        let first = quanta.now();
        let row = |name: &str, (made, backward, worst): (u64, u64, u64)| {
            let percent = backward as f64 * 100.0 / made as f64;
            println!("{name:<26} {backward:>9} of {made} handoffs backward ({percent:.3} %), worst {worst} ns");
            backward
        };
        let few = (count / 20).clamp(200_000, 2_000_000);
        let caught = row("quanta now", ping_pong(few, &|| (quanta.now() - first).as_nanos() as u64))
            + row("ogive ticks (bare rdtsc)", ping_pong(few, &|| clock.ticks()))
            + row("ogive now_unordered", ping_pong(few, &|| clock.now_unordered()));
        row("clock_gettime MONOTONIC", ping_pong(few, &system_ns));
        let start = (Instant::now(), clock.status().published);
        let backward = row("ogive now", ping_pong(count, &|| clock.now()));
        let (seconds, published) = (start.0.elapsed().as_secs_f64(), clock.status().published - start.1);
        stop.store(true, Ordering::Relaxed);
        println!("{seconds:.1} s, {published} publications meanwhile; {:?}", clock.status());
        let harness = verdict(caught > 0, "the harness catches unordered clocks");
        harness & verdict(backward == 0 && published > 10, &format!("{backward} backward of {count}"))
    })
}

/// The reading's distance from the system's clock, by the tightest of some brackets, and the clock's own bound.
fn error_of(clock: Clock) -> (f64, u64) {
    let bracket = |_| {
        let (before, reading, after) = (system_ns(), clock.now_bounded(), system_ns());
        (after - before, reading.ns as f64 - (before + after) as f64 / 2.0, reading.err_ns)
    };
    let (width, error, bound) = (0..16).map(bracket).min_by_key(|(width, ..)| *width).expect("some brackets");
    (error, bound + width / 2)
}

struct Errors {
    sizes: Vec<f64>,
    beyond: usize,
    bound_max: u64,
}

fn errors_over(clock: Clock, seconds: u64, each: Duration) -> Errors {
    let start = Instant::now();
    let mut errors = Errors { sizes: Vec::new(), beyond: 0, bound_max: 0 };
    while start.elapsed().as_secs() < seconds {
        let (error, bound) = error_of(clock);
        errors.sizes.push(error.abs());
        errors.beyond += usize::from(error.abs() > bound as f64);
        errors.bound_max = errors.bound_max.max(bound);
        std::thread::sleep(each);
    }
    errors.sizes.sort_by(f64::total_cmp);
    errors
}

impl Errors {
    fn max(&self) -> f64 {
        self.sizes.last().copied().unwrap_or(f64::NAN)
    }

    fn print(&self, what: &str) {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| percentile(&self.sizes, q));
        println!(
            "{what}: {} readings, |error| against CLOCK_MONOTONIC p50 {p50:.0}, p99 {p99:.0}, p99.9 {p999:.0}, max {:.0} ns; {} beyond \
             the published bound (largest {} ns)",
            self.sizes.len(),
            self.max(),
            self.beyond,
            self.bound_max
        );
    }
}

/// How far from CLOCK_MONOTONIC are readings on a loaded machine?
fn accuracy(seconds: u64) -> bool {
    let clock = settled();
    let _load = Load::start(4);
    std::thread::sleep(Duration::from_secs(2));
    println!("{}", machine());
    let errors = errors_over(clock, seconds, Duration::from_millis(5));
    errors.print(&format!("{seconds} s under load"));
    println!("{:?}", clock.status());
    let p999 = percentile(&errors.sizes, 0.999);
    verdict(p999 <= 25.0, &format!("p99.9 {p999:.0} ns (goal 25)"))
        & verdict(errors.max() <= 100.0, &format!("max {:.0} ns (goal 100)", errors.max()))
        & verdict(errors.beyond == 0, "every reading within its published bound")
}

static SLEEP_SECONDS: AtomicU64 = AtomicU64::new(0);

extern "C" fn sleep_in_handler(_signal: libc::c_int) {
    let mut left = libc::timespec { tv_sec: SLEEP_SECONDS.load(Ordering::Relaxed) as libc::time_t, tv_nsec: 0 };
    // SAFETY: nanosleep may be called in a signal handler; `left` is valid for reading and writing.
    while unsafe { libc::nanosleep(&raw const left, &raw mut left) } != 0 {}
}

/// Sends the thread of that name a signal whose handler sleeps: it alone stands still, as if it were stopped.
fn stop_thread(name: &str, seconds: u64) -> bool {
    SLEEP_SECONDS.store(seconds, Ordering::Relaxed);
    // SAFETY: the handler only sleeps.
    unsafe { libc::signal(libc::SIGUSR1, sleep_in_handler as *const () as libc::sighandler_t) };
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux shows the threads");
    let is_it =
        |task: &std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default().trim() == name;
    let task = tasks.flatten().find(is_it).and_then(|task| task.file_name().to_str()?.parse::<libc::pid_t>().ok());
    // SAFETY: a thread of this process; the signal has a handler.
    task.is_some_and(|task| unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), task, libc::SIGUSR1) == 0 })
}

/// Reads all the time and remembers whether time went back.
struct Watch {
    stop: std::sync::Arc<AtomicBool>,
    thread: std::thread::JoinHandle<(u64, u64, u64)>,
}

impl Watch {
    fn start(clock: Clock) -> Self {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut last, mut readings, mut fell, mut ahead) = (clock.now(), 0_u64, 0, 0);
            while !until.load(Ordering::Relaxed) {
                for _ in 0..1_000 {
                    let now = clock.now();
                    fell += u64::from(now < last);
                    last = last.max(now);
                    readings += 1;
                }
                ahead = ahead.max(clock.now().saturating_sub(system_ns()));
            }
            (readings, fell, ahead)
        });
        Self { stop, thread }
    }

    fn end(self) -> (u64, u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watch ends well")
    }
}

/// The calibration's thread alone stands still: is every reading within its bound, and does none fall when it goes on?
fn starved(seconds: u64) -> bool {
    let clock = settled();
    std::thread::sleep(Duration::from_secs(3));
    let watch = Watch::start(clock);
    let before = clock.status();
    let stopped = stop_thread("ogive-clock", seconds);
    let still = errors_over(clock, seconds, Duration::from_millis(2));
    let during = clock.status();
    let after = errors_over(clock, 3, Duration::from_millis(2));
    let status = clock.status();
    let (readings, fell, _) = watch.end();
    still.print(&format!("{seconds} s without calibration"));
    after.print("3 s after that");
    println!(
        "during: {:?}, {:?}, age {} ms; after: {:?}",
        during.mode,
        during.os_reason,
        during.age_ns / 1_000_000,
        status.mode
    );
    verdict(stopped && during.calibrations <= before.calibrations + 2, "the calibration stood still")
        & verdict(status.calibrations > during.calibrations, "and went on")
        & verdict(still.beyond + after.beyond == 0, "every reading within its published bound")
        & verdict(fell == 0, &format!("{fell} of {readings} readings fell"))
}

/// Puts the clock source back, whatever happens.
struct Restored(String);

impl Drop for Restored {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(CLOCK_SOURCE, &self.0) {
            println!("FAILED to put the clock source {} back: {error}", self.0);
        }
    }
}

/// The kernel's clock source is switched for less than half a second: is it seen, and does time go on?
fn switch() -> bool {
    let clock = settled();
    std::thread::sleep(Duration::from_secs(3));
    let before = clock.status();
    let Some(other) = before.os_clock_sources.iter().find(|name| **name != before.os_clock_source) else {
        return verdict(false, "NOT TESTED: the kernel offers no second clock source");
    };
    let watch = Watch::start(clock);
    let start = Instant::now();
    let restored = Restored(before.os_clock_source.clone());
    if let Err(error) = std::fs::write(CLOCK_SOURCE, other) {
        return verdict(false, &format!("NOT TESTED: {CLOCK_SOURCE} cannot be written: {error}"));
    }
    while clock.status().os_clock_source != *other && start.elapsed().as_millis() < 1_000 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let seen = start.elapsed();
    let during = clock.status();
    drop(restored);
    let back = Instant::now();
    while clock.status().os_clock_source != before.os_clock_source && back.elapsed().as_secs() < 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let seen_back = back.elapsed();
    let errors = errors_over(clock, 3, Duration::from_millis(2));
    let (readings, fell, ahead) = watch.end();
    let after = clock.status();
    println!(
        "{} -> {} seen after {seen:?}, back after {seen_back:?}; mode {:?} meanwhile; epoch {} -> {}; ahead of the system's clock by at \
         most {ahead} ns",
        before.os_clock_source, during.os_clock_source, during.mode, before.epoch, after.epoch
    );
    errors.print("3 s after that");
    verdict(during.os_clock_source == *other && seen.as_millis() < 1_000, "the switch was seen within a second")
        & verdict(after.os_clock_source == before.os_clock_source, "the clock source is what it was")
        & verdict(after.os_clock_source_changes >= before.os_clock_source_changes + 2, "both changes were counted")
        & verdict(fell == 0, &format!("{fell} of {readings} readings fell"))
}

/// A child of fork without exec reads for some seconds: right, never back, and calibrated again?
fn fork(seconds: u64) -> bool {
    let clock = settled();
    let last = clock.now();
    // SAFETY: the child reads clocks, makes the clock's own thread, prints, and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let watch = Watch::start(clock);
        let errors = errors_over(clock, seconds, Duration::from_millis(2));
        let (readings, fell, _) = watch.end();
        let status = clock.status();
        errors.print(&format!("{seconds} s in a child of fork"));
        println!("{status:?}");
        let passed = verdict(fell == 0 && clock.now() > last, &format!("{fell} of {readings} readings fell"))
            & verdict(errors.beyond == 0, "every reading within its published bound")
            & verdict(status.mode == Mode::Counter && status.age_ns < 1_000_000_000, "calibrated by itself again");
        // SAFETY: _exit ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!passed)) };
    }
    let mut status = 0;
    // SAFETY: `child` is our child, `status` is valid for the call.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    verdict(child > 0 && status == 0, "the child ended well")
}

/// Fresh processes on a loaded machine: how wrong is the frequency after one second?
fn processes(count: u64) -> bool {
    let clock = settled();
    let _load = Load::start(4);
    let this = std::env::current_exe().expect("this program");
    println!("{}", machine());
    let spawned: Vec<String> = (0..count)
        .map(|_| {
            let output = Command::new(&this).arg("child").output().expect("a process");
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        })
        .collect();
    let status = clock.status();
    let truth = status.frequency_hz as f64;
    let mut worst = 0.0_f64;
    for line in &spawned {
        let mut words = line.split_whitespace().map(|word| word.parse::<f64>().expect("numbers"));
        let (frequency, bound) = (words.next().expect("a frequency"), words.next().expect("a bound"));
        let ppb = (frequency / truth - 1.0) * 1e9;
        println!("{ppb:>+9.1} ppb, published bound {bound}");
        worst = worst.max(ppb.abs());
    }
    println!("truth: {truth} Hz within {} ppb, after {} calibrations", status.ppb, status.calibrations);
    verdict(
        spawned.len() as u64 == count && worst <= 5.0,
        &format!("worst of {count} after 1 s: {worst:.1} ppb (goal 5)"),
    )
}

fn child() -> bool {
    let clock = Clock::global();
    std::thread::sleep(Duration::from_millis(1_000));
    let status = clock.status();
    println!("{} {}", status.frequency_hz, status.ppb);
    true
}

/// A dependent chain of multiplications.
#[inline(never)]
fn chain(links: u32, start: u64) -> u64 {
    (0..links).fold(start, |value, _| black_box(value).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1))
}

/// Delays that are known from timing many of them at once: what do pairs of readings say?
fn delays() -> bool {
    let clock = settled();
    std::thread::sleep(Duration::from_secs(2));
    println!("{}", machine());
    println!("quantum of the counter: {:.3} ns; {:?}", clock.status().quantum_ns, clock.status().costs);
    let rate = clock.tick_rate();
    let time_of = |links: u32| {
        let batch = |_| {
            let start = system_ns();
            let sum = (0..2_000).fold(1, |value, _| chain(links, value));
            black_box(sum);
            (system_ns() - start) as f64 / 2_000.0
        };
        (0..15).map(batch).fold(f64::INFINITY, f64::min)
    };
    let per_link = (time_of(1_000) - time_of(100)) / 900.0;
    let mut passed = true;
    println!("{:<10} {:<28} {:>6} {:>6} {:>6}", "true ns", "read by", "p0", "p50", "p99");
    for wanted in [25.0, 100.0, 800.0] {
        let links = (wanted / per_link) as u32;
        let truth = time_of(links);
        let pairs: [(&str, &dyn Fn() -> f64); 4] = [
            ("ticks..ticks", &|| {
                let from = clock.ticks();
                black_box(chain(links, from | 1));
                rate.ns_f64(clock.ticks().saturating_sub(from))
            }),
            ("ticks_ordered pair", &|| {
                let from = clock.ticks_ordered();
                black_box(chain(links, from | 1));
                rate.ns_f64(clock.ticks_ordered().saturating_sub(from))
            }),
            ("now pair", &|| {
                let from = clock.now();
                black_box(chain(links, from | 1));
                (clock.now() - from) as f64
            }),
            ("clock_gettime pair", &|| {
                let from = system_ns();
                black_box(chain(links, from | 1));
                (system_ns() - from) as f64
            }),
        ];
        for (name, pair) in pairs {
            let mut read: Vec<f64> = (0..20_000).map(|_| pair()).collect();
            read.sort_by(f64::total_cmp);
            let [p0, p50, p99] = [0.0, 0.5, 0.99].map(|q| percentile(&read, q));
            println!("{truth:<10.1} {name:<28} {p0:>6.0} {p50:>6.0} {p99:>6.0}");
            if name == "now pair" {
                // An ordered pair holds the delay and no more than two readings beside it.
                passed &=
                    verdict(p50 >= truth * 0.9 && p50 <= truth * 1.1 + 60.0, &format!("{p50:.0} ns for {truth:.1}"));
            }
        }
    }
    passed
}
