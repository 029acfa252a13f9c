//! What the operating system offers in the way of clocks and CPUs, for tools that judge a host's clock.
//!
//! *Threads*: a [`SystemClock`] may be read from any thread; [`pin_to_cpu`] binds the calling one. *Failure*: a clock
//! that the system does not have reads 0, and so shows that it stands still.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::time::Instant;

pub use crate::threads::{allowed_cpus, pin_to_cpu};

/// A clock of the operating system, in the form in which a program reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SystemClock {
    /// CLOCK_MONOTONIC: slewed by the time service, never set.
    Monotonic,
    /// CLOCK_REALTIME.
    Realtime,
    /// CLOCK_MONOTONIC_RAW: as the counter runs, not slewed.
    MonotonicRaw,
    /// CLOCK_MONOTONIC_COARSE: the time of the kernel's last tick, 1 to 10 ms ago.
    MonotonicCoarse,
    /// CLOCK_MONOTONIC by a real system call instead of the page that the kernel shares (vDSO).
    MonotonicCall,
    /// `std::time::Instant`, as the time since its first use here.
    StdInstant,
}

impl SystemClock {
    /// Nanoseconds; from when on is the clock's own affair.
    #[inline(always)]
    #[must_use]
    pub fn ns(self) -> u64 {
        match self {
            Self::Monotonic => crate::os::clock_ns(libc::CLOCK_MONOTONIC) as u64,
            Self::Realtime => crate::os::clock_ns(libc::CLOCK_REALTIME) as u64,
            Self::MonotonicRaw => monotonic_raw_ns(),
            Self::MonotonicCoarse => monotonic_coarse_ns(),
            Self::MonotonicCall => monotonic_call_ns(),
            Self::StdInstant => std_instant_ns(),
        }
    }
}

#[inline(always)]
fn monotonic_raw_ns() -> u64 {
    #[cfg(target_os = "linux")]
    {
        crate::os::clock_ns(libc::CLOCK_MONOTONIC_RAW) as u64
    }
    #[cfg(not(target_os = "linux"))]
    {
        0
    }
}

#[inline(always)]
fn monotonic_coarse_ns() -> u64 {
    #[cfg(target_os = "linux")]
    {
        crate::os::clock_ns(libc::CLOCK_MONOTONIC_COARSE) as u64
    }
    #[cfg(not(target_os = "linux"))]
    {
        0
    }
}

#[inline(always)]
fn monotonic_call_ns() -> u64 {
    // On 32-bit kernels the call with 64-bit seconds has another number.
    #[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: SYS_clock_gettime takes a clock's number and a timespec, which is valid and writable for the call; on
        // 64-bit Linux it is laid out as libc's.
        let result = unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time) };
        debug_assert_eq!(result, 0, "the system call clock_gettime failed");
        (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
    }
    #[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
    {
        0
    }
}

#[inline(always)]
fn std_instant_ns() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let now = Instant::now();
    now.saturating_duration_since(*FIRST.get_or_init(|| now)).as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn every_system_clock_advances() {
        use SystemClock::{Monotonic, MonotonicCall, MonotonicCoarse, MonotonicRaw, Realtime, StdInstant};
        for clock in [Monotonic, Realtime, MonotonicRaw, MonotonicCoarse, MonotonicCall, StdInstant] {
            if cfg!(miri) && clock == MonotonicCall {
                continue;
            }
            let first = clock.ns();
            // Longer than the longest tick of a kernel, 10 ms.
            std::thread::sleep(std::time::Duration::from_millis(21));
            assert!(clock.ns() > first, "{clock:?} stood still at {first}");
        }
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn the_call_and_the_shared_page_tell_one_time() {
        let before = SystemClock::Monotonic.ns();
        let call = SystemClock::MonotonicCall.ns();
        let after = SystemClock::Monotonic.ns();
        assert!((before..=after).contains(&call), "{before} {call} {after}");
    }
}
