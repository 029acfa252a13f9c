//! What a bin can count with: `u64` for measurements, `f64` for rates and Prometheus float histograms.

/// A bin's count.
pub trait Count: Copy + PartialEq + PartialOrd + std::fmt::Debug + Default + Send + Sync + 'static {
    /// No samples.
    const ZERO: Self;
    /// True when a difference stops at zero instead of going below.
    const CUTS_AT_ZERO: bool;
    /// Sum; `u64` saturates at 2^64-1.
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// Difference; `u64` stops at 0.
    #[must_use]
    fn minus(self, other: Self) -> Self;
    /// As a float; a `u64` above 2^53 rounds to nearest.
    fn to_f64(self) -> f64;
}

impl Count for u64 {
    const ZERO: Self = 0;
    const CUTS_AT_ZERO: bool = true;
    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }
    fn minus(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
    fn to_f64(self) -> f64 {
        self as f64
    }
}

impl Count for f64 {
    const ZERO: Self = 0.0;
    const CUTS_AT_ZERO: bool = false;
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn minus(self, other: Self) -> Self {
        self - other
    }
    fn to_f64(self) -> f64 {
        self
    }
}
