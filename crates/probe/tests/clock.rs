//! The machine's clock as a user sees it: order between threads, error against the system's clock, fork.

use ogive_probe::{Clock, Mode};
use std::sync::atomic::{AtomicU64, Ordering};
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

/// Hands a reading to another thread and back; each reading must not be before the one it answers.
fn ping_pong(handoffs: u64, read: fn(Clock) -> u64) -> u64 {
    let clock = settled();
    let slots = [AtomicU64::new(0), AtomicU64::new(0)];
    let backward = AtomicU64::new(0);
    let play = |own: &AtomicU64, other: &AtomicU64, first: bool| {
        let mut seen = 0;
        for turn in 0..handoffs {
            if !(first && turn == 0) {
                let mut spins = 0_u32;
                loop {
                    let value = other.load(Ordering::Acquire);
                    if value != seen {
                        seen = value;
                        break;
                    }
                    spins += 1;
                    if spins.is_multiple_of(200) {
                        std::thread::yield_now();
                    } else {
                        std::hint::spin_loop();
                    }
                }
            }
            // Twice the reading, made different from the last message by its lowest bit.
            let reading = read(clock);
            if reading < seen / 2 {
                backward.fetch_add(1, Ordering::Relaxed);
            }
            own.store(reading * 2 + (turn & 1), Ordering::Release);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(&slots[0], &slots[1], true));
        scope.spawn(|| play(&slots[1], &slots[0], false));
    });
    backward.into_inner()
}

#[test]
fn no_reading_is_before_the_one_it_answers() {
    assert_eq!(ping_pong(500_000, Clock::now), 0);
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

#[test]
fn readings_are_within_their_bound_of_the_systems_clock() {
    let clock = settled();
    let mut widest = 0;
    for round in 0..2_000 {
        let before = system_ns();
        let reading = clock.now_bounded();
        let after = system_ns();
        assert!(reading.ns + reading.err_ns >= before, "round {round}: {before} {reading:?}");
        assert!(reading.ns <= after + reading.err_ns, "round {round}: {after} {reading:?}");
        widest = widest.max(reading.err_ns);
        if round % 4 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    println!("widest bound {widest} ns; {:?}", clock.status());
}

#[test]
fn the_wall_clock_is_the_systems() {
    let clock = settled();
    for _ in 0..100 {
        let since_epoch = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let before = since_epoch().as_nanos() as i64;
        let wall = clock.wall();
        let after = since_epoch().as_nanos() as i64;
        assert!(wall >= before - 100_000 && wall <= after + 100_000, "{before} {wall} {after}");
    }
}

#[test]
fn ticks_convert_to_the_time_that_passed() {
    let clock = settled();
    for read in [Clock::ticks, Clock::ticks_ordered] {
        let outer = system_ns();
        let from = read(clock);
        let inner = system_ns();
        std::thread::sleep(Duration::from_millis(30));
        let inner = system_ns() - inner;
        let to = read(clock);
        let outer = system_ns() - outer;
        let between = clock.ns_between(from, to);
        assert!(between + 1_000 >= inner && between <= outer + 1_000, "{inner} {between} {outer}");
        assert_eq!(clock.ns_between(to, from), 0, "never negative");
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
    assert_eq!(libc::WEXITSTATUS(status), 0, "1: time fell; 2: beyond the bound; 3: did not calibrate again");
}

#[cfg(all(target_os = "linux", not(miri)))]
fn child_verdict(clock: Clock, mut last: u64) -> libc::c_int {
    let start = system_ns();
    let mut published = 0;
    while system_ns() - start < 3_200_000_000 {
        let before = system_ns();
        let reading = clock.now_bounded();
        let after = system_ns();
        if reading.ns < last {
            return 1;
        }
        last = reading.ns;
        if reading.ns + reading.err_ns < before || reading.ns > after + reading.err_ns {
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
