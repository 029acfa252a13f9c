//! The machine's clock as a user sees it: order between threads, error against the system's clock, fork.

use ogive_probe::{Clock, Mode};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn system_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Gives the clock time to leave the system's clock, where there is a counter. Tests hold either way.
fn settled() -> Clock {
    let clock = Clock::global();
    let start = Instant::now();
    while clock.status().mode == Mode::Os && clock.status().source.is_counter() && start.elapsed().as_secs() < 5 {
        std::thread::sleep(Duration::from_millis(5));
    }
    clock
}

/// Hands a reading to another thread and back; each reading must not be before the one it answers. On a busy machine a
/// handoff can take milliseconds, so it ends after some seconds too. Gives (handoffs, those that went backward).
fn ping_pong(handoffs: u64, read: fn(Clock) -> u64) -> (u64, u64) {
    let clock = settled();
    let slots = [AtomicU64::new(0), AtomicU64::new(0)];
    let (made, backward, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    let play = |own: &AtomicU64, other: &AtomicU64, first: bool| {
        let mut seen = 0;
        for turn in 0..handoffs / 2 {
            let mut spins = 0_u32;
            while !(first && turn == 0) && other.load(Ordering::Acquire) == seen {
                spins += 1;
                if spins.is_multiple_of(200) {
                    std::thread::yield_now();
                    if stop.load(Ordering::Relaxed) || start.elapsed().as_secs() >= 3 {
                        stop.store(true, Ordering::Relaxed);
                        return;
                    }
                } else {
                    std::hint::spin_loop();
                }
            }
            seen = other.load(Ordering::Acquire);
            let reading = read(clock);
            backward.fetch_add(u64::from(reading < seen / 2), Ordering::Relaxed);
            made.fetch_add(1, Ordering::Relaxed);
            // Twice the reading, made different from the last message by its lowest bit.
            own.store(reading * 2 + (turn & 1), Ordering::Release);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(&slots[0], &slots[1], true));
        scope.spawn(|| play(&slots[1], &slots[0], false));
    });
    (made.into_inner(), backward.into_inner())
}

/// The unordered reading fails this test: 5 to 7 of 100 handoffs went backward where it was tried.
#[test]
fn no_reading_is_before_the_one_it_answers() {
    let (made, backward) = ping_pong(1_000_000, Clock::now);
    println!("{made} handoffs");
    assert!(made > 1);
    assert_eq!(backward, 0, "of {made}");
}

#[test]
fn readings_of_a_thread_never_fall_from_the_first_call_on() {
    let clock = Clock::global();
    let mut last = 0;
    for _ in 0..3_000_000 {
        let now = clock.now();
        assert!(now >= last, "{now} after {last}");
        last = now;
    }
}

/// How far the reading was from every value that the system's clock had around it.
fn distance(before: u64, reading: u64, after: u64) -> u64 {
    before.saturating_sub(reading).max(reading.saturating_sub(after))
}

/// Tries until `trial` finds nothing wrong, some times. A time service may begin to slew or set the system's clock at
/// any moment, and a machine may give the calibration no CPU for a while; a clock that is wrong is so each time.
fn in_quiet(mut trial: impl FnMut() -> Result<(), String>) {
    let found: Vec<String> = (0..10).map_while(|_| trial().err()).collect();
    assert!(found.len() < 10, "{found:#?}");
}

/// While the system's clock begins to be slewed the bound lags by a period: so a few readings may be beyond it, but not
/// far.
#[test]
fn readings_are_within_their_bound_of_the_systems_clock() {
    const ROUNDS: u32 = 2_000;
    const SLEWED_NS: u64 = 100_000;
    let clock = settled();
    in_quiet(|| {
        let (mut widest, mut beyond) = (0, 0);
        for round in 0..ROUNDS {
            let before = system_ns();
            let reading = clock.now_bounded();
            let off = distance(before, reading.ns, system_ns());
            if off > reading.err_ns + SLEWED_NS {
                return Err(format!("round {round}: off by {off} ns, {reading:?}"));
            }
            beyond += u32::from(off > reading.err_ns);
            widest = widest.max(reading.err_ns);
            if round % 4 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let found = format!("widest bound {widest} ns, {beyond} of {ROUNDS} beyond; {:?}", clock.status());
        println!("{found}");
        // A wide bound says nothing.
        if beyond <= ROUNDS / 20 && widest < SLEWED_NS { Ok(()) } else { Err(found) }
    });
}

#[test]
fn the_wall_clock_is_the_systems() {
    let clock = settled();
    in_quiet(|| {
        for _ in 0..100 {
            let since_epoch =
                || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
            let before = since_epoch().as_nanos() as i64;
            let wall = clock.wall();
            let after = since_epoch().as_nanos() as i64;
            if wall < before - 100_000 || wall > after + 100_000 {
                // Within a period of the calibration it is followed.
                std::thread::sleep(Duration::from_millis(200));
                return Err(format!("{before} {wall} {after}"));
            }
        }
        Ok(())
    });
}

#[test]
fn ticks_convert_to_the_time_that_passed() {
    let clock = settled();
    for read in [Clock::ticks, Clock::ticks_ordered] {
        in_quiet(|| {
            let outer = system_ns();
            let from = read(clock);
            let inner = system_ns();
            std::thread::sleep(Duration::from_millis(30));
            let inner = system_ns() - inner;
            let to = read(clock);
            let outer = system_ns() - outer;
            let between = clock.ns_between(from, to);
            assert_eq!(clock.ns_between(to, from), 0, "never negative");
            // A busy machine makes the sleep longer, and an error of the rate with it: 50 ppm.
            let slack = 1_000 + outer / 20_000;
            let is_right = between + slack >= inner && between <= outer + slack;
            if is_right { Ok(()) } else { Err(format!("{inner} {between} {outer}")) }
        });
    }
}

#[test]
fn a_manual_clock_moves_only_by_hand() {
    let clock = Clock::manual(5, 1_000);
    assert_eq!((clock.now(), clock.now_unordered(), clock.ticks(), clock.wall()), (5, 5, 5, 1_000));
    clock.advance(10);
    assert_eq!((clock.now(), clock.ticks_ordered(), clock.wall()), (15, 15, 1_010));
    assert_eq!(clock.ns_between(5, 15), 10);
    assert_eq!(clock.now_bounded().err_ns, 0);
}

#[test]
#[should_panic(expected = "only a manual clock")]
fn the_machines_clock_is_not_moved() {
    Clock::global().advance(1);
}

/// A child of fork has no calibration thread. It must read the right time from its first reading until long after the
/// inherited segment has ended (2 s), and then calibrate again by itself.
#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn a_forked_child_reads_the_right_time() {
    let clock = settled();
    in_quiet(|| {
        let before = clock.now();
        // SAFETY: the child only reads clocks, makes the clock's own thread, sleeps, and leaves by _exit.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork failed");
        if child == 0 {
            // SAFETY: _exit ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(child_verdict(clock, before)) };
        }
        let mut status = 0;
        // SAFETY: `child` is our child, `status` is valid for the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "the child was killed: {status}");
        match libc::WEXITSTATUS(status) {
            0 => Ok(()),
            2 => Err("beyond the bound".into()),
            verdict => panic!("{verdict}; 1: time fell; 3: did not calibrate again"),
        }
    });
}

#[cfg(all(target_os = "linux", not(miri)))]
fn child_verdict(clock: Clock, mut last: u64) -> libc::c_int {
    let start = system_ns();
    let mut published = 0;
    while system_ns() - start < 30_000_000_000 {
        let before = system_ns();
        let reading = clock.now_bounded();
        let after = system_ns();
        if reading.ns < last {
            return 1;
        }
        last = reading.ns;
        if distance(before, reading.ns, after) > reading.err_ns + 100_000 {
            return 2;
        }
        let status = clock.status();
        if published == 0 {
            published = status.published;
        }
        let calibrates = status.published > published || !status.source.is_counter();
        if calibrates && system_ns() - start > 2_500_000_000 {
            return 0;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    3
}
