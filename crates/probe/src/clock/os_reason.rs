//! Why the operating system's clock is read instead of the counter.

/// Why readings come from the operating system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum OsReason {
    /// The clock is new, or its line was broken, and the counter is being calibrated: 40 ms.
    Calibrating = 1,
    /// The processor has no counter that runs at one rate, or this process may not read it.
    NoCounter = 2,
    /// The kernel has abandoned the counter for another clock source, and the cross-checks do not hold
    /// ([`Policy::Auto`]).
    ///
    /// [`Policy::Auto`]: crate::Policy::Auto
    Demoted = 3,
    /// A reading of the counter costs more than asking the operating system: something emulates it.
    Emulated = 4,
    /// The counters of two CPUs are not equal.
    CpusDiffer = 5,
    /// The counter ticks below 1 GHz where that is not expected.
    TooSlow = 6,
    /// The calibration got no CPU for two seconds, or has no thread.
    Starved = 7,
    /// Reading the counter raises a signal in the calibrating thread (`prctl(PR_SET_TSC)`).
    Trapped = 8,
}

impl OsReason {
    /// All reasons.
    pub const ALL: [Self; 8] = [
        Self::Calibrating,
        Self::NoCounter,
        Self::Demoted,
        Self::Emulated,
        Self::CpusDiffer,
        Self::TooSlow,
        Self::Starved,
        Self::Trapped,
    ];

    /// Its name in labels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Calibrating => "calibrating",
            Self::NoCounter => "no-counter",
            Self::Demoted => "demoted",
            Self::Emulated => "emulated",
            Self::CpusDiffer => "cpus-differ",
            Self::TooSlow => "too-slow",
            Self::Starved => "starved",
            Self::Trapped => "trapped",
        }
    }

    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Calibrating => "the counter is being calibrated",
            Self::NoCounter => "the processor has no counter of constant rate that this process may read",
            Self::Demoted => {
                "the kernel has given the counter up for another clock source, and cross-checks do not hold"
            }
            Self::Emulated => "reading the counter costs more than asking the operating system: something emulates it",
            Self::CpusDiffer => "the counters of two CPUs differ by more than 100 ns",
            Self::TooSlow => "the counter ticks below 1 GHz",
            Self::Starved => "the calibration got no CPU for two seconds",
            Self::Trapped => "reading the counter raises a signal (prctl PR_SET_TSC)",
        }
    }

    pub(super) fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u64 == number)
    }
}

impl std::fmt::Display for OsReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.words())
    }
}
