//! Whose word counts when the kernel has given the counter up for another clock source (`hpet`, `acpi_pm`).

use super::Clock;
use std::sync::atomic::Ordering;

/// When the processor's counter is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Policy {
    /// While the kernel uses it, and after that for as long as the cross-checks hold: its rate against CLOCK_MONOTONIC_RAW, and
    /// the comparison of all CPUs' counters.
    #[default]
    Auto = 0,
    /// Whatever the kernel and the cross-checks say. A line that breaks is still calibrated anew, and a counter that cannot be
    /// read, or stands still, is not used.
    Force = 1,
}

impl Clock {
    /// Sets when this clock uses the counter; in force at its next look around, within a quarter of a second.
    pub fn set_policy(self, policy: Policy) {
        // ORDERING: Relaxed; one word, whole in itself, that the calibration reads at its next turn.
        self.inner.policy.store(policy as u8, Ordering::Relaxed);
    }

    /// When this clock uses the counter.
    #[must_use]
    pub fn policy(self) -> Policy {
        // ORDERING: Relaxed, as in `set_policy`.
        if self.inner.policy.load(Ordering::Relaxed) == Policy::Force as u8 { Policy::Force } else { Policy::Auto }
    }
}
