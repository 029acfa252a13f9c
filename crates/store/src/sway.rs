//! Random delays where one thread of a store hands over to another; outside the crate's tests they do nothing.
//!
//! The lives of `crash_tests` are determined by their seeds, except for the scheduling of threads. With
//! `OGIVE_CRASH_SWAY=n` in the environment, a thread that reaches such a place waits there in n of 256 cases, up to a
//! millisecond, so that the others overtake it.

#[cfg(not(test))]
pub(crate) const fn sway() {}

#[cfg(test)]
pub(crate) fn sway() {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    static RATE: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);

    let rate = *RATE.get_or_init(|| std::env::var("OGIVE_CRASH_SWAY").ok().and_then(|n| n.parse().ok()).unwrap_or(0));
    if rate == 0 {
        return;
    }
    // ORDERING: Relaxed; only the number counts.
    let mixed = COUNT.fetch_add(1, Ordering::Relaxed).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    if mixed >> 56 < rate {
        std::thread::sleep(Duration::from_micros(mixed >> 40 & 1023));
    }
}
