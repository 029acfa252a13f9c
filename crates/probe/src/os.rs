//! The operating system's side: its clocks, its opinion of the counter, its forks.
//!
//! With `threads`, all `unsafe` calls into libc are here, each behind a safe function. *Failure*: a call that the
//! kernel refuses gives `None`, `false` or an error value; the caller then does without.
#![allow(unsafe_code)]

use std::ffi::CStr;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
use std::sync::atomic::{AtomicBool, Ordering};

/// Nanoseconds of CLOCK_MONOTONIC.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC) as u64
}

/// Nanoseconds of CLOCK_MONOTONIC_RAW, which nothing slews.
#[inline]
pub(crate) fn monotonic_raw_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC_RAW) as u64
}

/// Nanoseconds of CLOCK_REALTIME since the Unix epoch.
#[inline]
pub(crate) fn realtime_ns() -> i64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// Nanoseconds of CLOCK_BOOTTIME: CLOCK_MONOTONIC plus the time spent suspended.
pub(crate) fn boottime_ns() -> u64 {
    #[cfg(target_os = "linux")]
    {
        clock_ns(libc::CLOCK_BOOTTIME) as u64
    }
    #[cfg(not(target_os = "linux"))]
    {
        monotonic_ns()
    }
}

#[inline]
pub(crate) fn clock_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec for the whole call.
    let result = unsafe { clock_gettime(clock, &raw mut time) };
    debug_assert_eq!(result, 0, "clock_gettime({clock}) failed");
    // The fields are narrower than i64 on 32-bit targets.
    #[allow(clippy::unnecessary_cast)]
    (time.tv_sec as i64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as i64)
}

/// Asks the C library, or the kernel where the C library would read the counter that must not be read.
///
/// # Safety
/// `time` is valid for writing.
#[inline]
unsafe fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    #[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
    // ORDERING: Relaxed; the thread that found the trap sees what it wrote, and no other thread needs to.
    if TRAPS.load(Ordering::Relaxed) {
        // SAFETY: the caller's promise; the call writes one timespec.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) } as libc::c_int;
    }
    // SAFETY: the caller's promise.
    unsafe { libc::clock_gettime(clock, time) }
}

/// Reading the counter was found to raise a signal, and so does the C library's `clock_gettime`, which reads it in the
/// vDSO.
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
static TRAPS: AtomicBool = AtomicBool::new(false);

/// True when reading the counter raises a signal in the calling thread (`prctl(PR_SET_TSC)`, which threads inherit).
pub(crate) fn counter_traps() -> bool {
    #[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
    {
        let mut state: libc::c_int = 0;
        // SAFETY: PR_GET_TSC writes one int through its second argument, which is valid for the call.
        let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut state) };
        let traps = result == 0 && state == libc::PR_TSC_SIGSEGV;
        // ORDERING: Relaxed; as in `clock_gettime`.
        TRAPS.store(traps, Ordering::Relaxed);
        traps
    }
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(miri))))]
    {
        false
    }
}

/// A small file of the kernel, read repeatedly through one open descriptor.
#[derive(Debug)]
pub(crate) struct OpenFile {
    descriptor: libc::c_int,
}

/// The kernel's clock source in use.
pub(crate) const CLOCK_SOURCE_PATH: &CStr = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// The available ones, separated by blanks.
pub(crate) const CLOCK_SOURCES_PATH: &CStr = c"/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// 31 bytes is the longest name of a clock source that the kernel keeps (`CS_NAME_LEN` is 32), and a blank follows it;
/// six of them are more than any machine offers.
const TEXT_MAX: usize = 6 * 32;

impl OpenFile {
    /// Opens a file; `None` where it does not exist or is hidden.
    pub(crate) fn open(path: &CStr) -> Option<Self> {
        // SAFETY: the path is NUL-terminated; O_CLOEXEC keeps the descriptor out of executed programs.
        let descriptor = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        (descriptor >= 0).then_some(Self { descriptor })
    }

    /// Its first bytes now, at most as many as `bytes` holds; `None` when it cannot be read.
    pub(crate) fn read<'a>(&self, bytes: &'a mut [u8]) -> Option<&'a [u8]> {
        // SAFETY: the buffer is valid for its length, and the descriptor is ours until drop.
        let length = unsafe { libc::pread(self.descriptor, bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        bytes.get(..usize::try_from(length).ok()?)
    }

    /// Its current text, trimmed; `None` when it cannot be read or is empty.
    pub(crate) fn text(&self) -> Option<String> {
        let mut bytes = [0; TEXT_MAX];
        let text = std::str::from_utf8(self.read(&mut bytes)?).ok()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // SAFETY: the descriptor came from `open` and is closed only here.
        unsafe { libc::close(self.descriptor) };
    }
}

/// Calls `handler` in each child of fork. The handler may only do what a signal handler may.
pub(crate) fn on_fork_in_child(handler: extern "C" fn()) -> bool {
    #[cfg(not(miri))]
    {
        // SAFETY: `handler` is a plain function that lives as long as the program; there are no other handlers.
        unsafe { libc::pthread_atfork(None, None, Some(handler)) == 0 }
    }
    #[cfg(miri)]
    {
        let _ = handler;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_advance_and_agree_on_order() {
        let first = monotonic_ns();
        assert!(monotonic_ns() >= first);
        assert!(cfg!(miri) || boottime_ns() >= first, "Miri's boot time is a clock of its own");
        assert!(realtime_ns() > 1_600_000_000_000_000_000, "the wall clock is past the year 2020");
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn the_clock_source_reads_the_same_twice() {
        if let Some(file) = OpenFile::open(CLOCK_SOURCE_PATH) {
            let name = file.text();
            assert!(name.is_some());
            assert_eq!(file.text(), name, "a kept descriptor reads from the start again");
        }
    }
}
