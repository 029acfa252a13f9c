//! The end of a series.

/// The bits of the float with which Prometheus marks the end of a series: a signalling NaN that no calculation
/// produces.
pub const STALE: u64 = 0x7ff0_0000_0000_0002;
