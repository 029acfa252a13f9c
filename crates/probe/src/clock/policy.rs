//! Whose word counts when the kernel has given the counter up for another clock source (`hpet`, `acpi_pm`).

/// When the processor's counter is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Policy {
    /// While the kernel uses it, and after that as long as the cross-checks hold: its rate against CLOCK_MONOTONIC_RAW,
    /// and the comparison of all CPUs' counters.
    #[default]
    Auto = 0,
    /// Regardless of the kernel and the cross-checks. A line that breaks is still calibrated again, and a counter that
    /// cannot be read, or does not advance, is not used.
    Force = 1,
}
