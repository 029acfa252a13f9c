//! Numbers that look random and are the same in every run.

/// A number with all of its bits mixed (the finalizer of SplitMix64).
pub(crate) const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Near enough to a normal number: the sum of the four uniform ones in `bits`, of which the variance is a third.
pub(crate) fn normal(bits: u64) -> f64 {
    let sum: u64 = (0..4_u32).map(|at| (bits >> (16 * at)) & 0xffff).sum();
    (sum as f64 / 65_536.0 - 2.0) * 3_f64.sqrt()
}
