//! A process that may not read the counter (`prctl(PR_SET_TSC)`), and one that may not for a while. Each case has a
//! process of its own, because there is one global clock; a counter that was read in spite of it would end that process
//! with SIGSEGV.

#![cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]

use ogive_probe::{Clock, Maintainer, Mode, OsReason, Source};
use std::time::Duration;

fn set_trap(trap: bool) -> bool {
    let state = if trap { libc::PR_TSC_SIGSEGV } else { libc::PR_TSC_ENABLE };
    // SAFETY: PR_SET_TSC takes one integer and touches no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_TSC, state as libc::c_ulong) == 0 }
}

/// Runs a case in a child and gives what it returned; a signal is a panic here.
fn in_a_child(case: fn() -> libc::c_int) -> libc::c_int {
    // SAFETY: the child reads clocks and leaves by _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        // SAFETY: _exit ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(case()) };
    }
    let mut status = 0;
    // SAFETY: `child` is our child, `status` is valid for the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "the child was killed: {status:#x}");
    libc::WEXITSTATUS(status)
}

fn from_the_start() -> libc::c_int {
    if !set_trap(true) {
        return 1;
    }
    let clock = Clock::global();
    let readings = [clock.now(), clock.now_unordered(), clock.ticks(), clock.ticks_ordered(), clock.now_bounded().ns];
    let status = clock.status();
    let sound = readings.is_sorted() && status.source == Source::Os && status.os_reason == Some(OsReason::NoCounter);
    if sound && status.mode == Mode::Os { 0 } else { 2 }
}

fn maintained_from_the_start() -> libc::c_int {
    if !set_trap(true) {
        return 1;
    }
    let Some(mut maintainer) = Clock::maintain() else { return 2 };
    maintainer.turn();
    if Clock::global().status().source == Source::Os { 0 } else { 3 }
}

fn turns_to_the_counter(maintainer: &mut Maintainer) -> bool {
    (0..2_000).any(|_| {
        maintainer.turn();
        std::thread::sleep(Duration::from_millis(2));
        Clock::global().status().mode == Mode::Counter
    })
}

fn for_a_while() -> libc::c_int {
    let Some(mut maintainer) = Clock::maintain() else { return 1 };
    let clock = Clock::global();
    if !clock.status().source.is_counter() {
        return 0;
    }
    if !turns_to_the_counter(&mut maintainer) {
        return 2;
    }
    let before = clock.now();
    set_trap(true);
    maintainer.turn();
    set_trap(false);
    let status = clock.status();
    if status.os_reason != Some(OsReason::Trapped) || clock.now() < before {
        return 3;
    }
    let again = turns_to_the_counter(&mut maintainer);
    if again && clock.now() > before { 0 } else { 4 }
}

#[test]
fn a_process_that_may_not_read_the_counter_has_the_systems_clock() {
    assert_eq!(in_a_child(from_the_start), 0, "1: no prctl; 2: the counter was used");
    let verdict = in_a_child(maintained_from_the_start);
    assert_eq!(verdict, 0, "1: no prctl; 2: no maintainer; 3: the counter was used");
    let verdict = in_a_child(for_a_while);
    assert_eq!(verdict, 0, "1: no maintainer; 2: not calibrated; 3: not noticed; 4: not taken again");
}
