//! The end of a series.

/// The bits of the float by which Prometheus says that a series ended: a signalling NaN that no calculation makes.
pub const STALE: u64 = 0x7ff0_0000_0000_0002;
