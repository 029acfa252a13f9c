//! A straight piece of the clock: how ticks become nanoseconds until the next piece is published.
//!
//! A segment is valid for ticks in `[base_ticks, base_ticks + max_age)`. In it, with d = ticks - base_ticks,
//! `ns = base_ns + (min(d, slew_ticks) * rate_slewed + (d - min(d, slew_ticks)) * rate) / 2^64`.
//!
//! *Invariants*: both rates are unsigned, so a segment never falls; the correction of a phase error ends after
//! `slew_ticks` (at most `max_age`) by itself, so a starved calibrator leaves only the error of `rate`, which is a few
//! parts per billion. *Limits*: rates are 0.64 fixed point, after ticks are shifted left by `shift` (0 for counters
//! above 1 GHz).

/// Where `now()` takes the time from in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// The operating system's clock is read; ticks are not converted.
    Os = 0,
    /// Ticks of the counter are converted.
    Counter = 1,
}

impl Mode {
    /// Its name in the status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Os => "os",
            Self::Counter => "counter",
        }
    }
}

/// Largest `err_ns` that a segment can hold: 24 bits, 16.8 ms; a clock with a larger error is in [`Mode::Os`].
const ERR_NS_MAX: u32 = (1 << 24) - 1;

/// A straight piece of the clock. In [`Mode::Os`], `base_ns` is the floor below which no reading may fall, and
/// `max_age` is 0, so that no ticks are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Ticks at which it starts.
    pub(crate) base_ticks: u64,
    /// Nanoseconds of the CLOCK_MONOTONIC line at `base_ticks`.
    pub(crate) base_ns: u64,
    /// Nanoseconds a (shifted) tick, 0.64 fixed point, after `slew_ticks`.
    pub(crate) rate: u64,
    /// The same during `slew_ticks`, while a phase error is being corrected.
    pub(crate) rate_slewed: u64,
    /// How many ticks the correction takes.
    pub(crate) slew_ticks: u64,
    /// Ticks after which the segment is not to be used.
    pub(crate) max_age: u64,
    /// CLOCK_REALTIME - CLOCK_MONOTONIC, nanoseconds.
    pub(crate) wall_offset_ns: i64,
    /// Bound on |now - CLOCK_MONOTONIC| at the start, nanoseconds.
    pub(crate) err_ns: u32,
    /// By how much that bound grows: parts per billion of the age.
    pub(crate) drift_ppb: u16,
    /// Number of breaks of the line so far; an interval between two epochs is meaningless.
    pub(crate) epoch: u16,
    /// The origin of readings.
    pub(crate) mode: Mode,
}

impl Segment {
    /// Words of a stored segment.
    pub(crate) const WORDS: usize = 8;

    /// The segment of a process that has not calibrated: the operating system's clock, no floor.
    pub(crate) const fn os(floor_ns: u64, wall_offset_ns: i64, epoch: u16) -> Self {
        Self {
            base_ticks: 0,
            base_ns: floor_ns,
            rate: 0,
            rate_slewed: 0,
            slew_ticks: 0,
            max_age: 0,
            wall_offset_ns,
            err_ns: 0,
            drift_ppb: 0,
            epoch,
            mode: Mode::Os,
        }
    }

    /// Ticks are shifted by less than this: 2^20 times a tick of a 1 kHz counter is below a nanosecond.
    pub(crate) const SHIFT_MAX: u32 = 21;
    /// The words that [`Segment::line_of`] needs.
    pub(crate) const LINE_WORDS: [usize; 4] = [0, 1, 3, 4];
    /// The word with the epoch.
    pub(crate) const EPOCH_WORD: usize = 7;
    /// The word `wall_offset_ns`.
    pub(crate) const WALL_WORD: usize = 6;

    /// The epoch, extracted from its word.
    #[inline(always)]
    pub(crate) const fn epoch_of(word: u64) -> u16 {
        (word >> 40) as u16
    }

    /// The line at `ticks` while the correction lasts, otherwise `None`: one subtraction, one comparison, one
    /// multiplication and one addition between the counter and the result.
    #[inline(always)]
    pub(crate) fn line_of(words: [u64; 4], ticks: u64, shift: u32) -> Option<u64> {
        let [base_ticks, base_ns, rate_slewed, slew_ticks] = words;
        let age = ticks.wrapping_sub(base_ticks);
        let product = u128::from(age << shift) * u128::from(rate_slewed);
        (age < slew_ticks).then(|| base_ns.wrapping_add((product >> 64) as u64))
    }

    /// The line at `ticks`, or `None` outside the segment's validity.
    pub(crate) fn line(&self, ticks: u64, shift: u32) -> Option<u64> {
        let age = ticks.wrapping_sub(self.base_ticks);
        (age < self.max_age).then(|| self.base_ns.wrapping_add((self.product(age, shift) >> 64) as u64))
    }

    /// The line at `age` ticks after the start, rounded up: where a following segment may start without falling.
    pub(crate) fn ceiling_at(&self, age: u64, shift: u32) -> u64 {
        let product = self.product(age, shift);
        self.base_ns.wrapping_add((product >> 64) as u64).wrapping_add(u64::from(product as u64 != 0))
    }

    /// Nanoseconds since the start, 64.64 fixed point. `age << shift` stays below 2^63 because `max_age` does.
    fn product(&self, age: u64, shift: u32) -> u128 {
        let slewed = age.min(self.slew_ticks);
        u128::from(slewed << shift) * u128::from(self.rate_slewed)
            + u128::from((age - slewed) << shift) * u128::from(self.rate)
    }

    /// Bound on the error `age_ns` after the start.
    pub(crate) fn err_after(&self, age_ns: u64) -> u64 {
        u64::from(self.err_ns) + (u128::from(age_ns) * u128::from(self.drift_ppb)).div_ceil(1_000_000_000) as u64 + 1
    }

    /// As words, in the order of the page.
    pub(crate) fn to_words(self) -> [u64; Self::WORDS] {
        let packed = u64::from(self.err_ns.min(ERR_NS_MAX))
            | u64::from(self.drift_ppb) << 24
            | u64::from(self.epoch) << 40
            | (self.mode as u64) << 56;
        [
            self.base_ticks,
            self.base_ns,
            self.rate,
            self.rate_slewed,
            self.slew_ticks,
            self.max_age,
            self.wall_offset_ns as u64,
            packed,
        ]
    }

    /// From words; every combination of bits is a segment.
    #[inline(always)]
    pub(crate) fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [base_ticks, base_ns, rate, rate_slewed, slew_ticks, max_age, wall_offset, packed] = words;
        Self {
            base_ticks,
            base_ns,
            rate,
            rate_slewed,
            slew_ticks,
            max_age,
            wall_offset_ns: wall_offset as i64,
            err_ns: packed as u32 & ERR_NS_MAX,
            drift_ppb: (packed >> 24) as u16,
            epoch: Self::epoch_of(packed),
            mode: if (packed >> 56) & 1 == 1 { Mode::Counter } else { Mode::Os },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_segment() -> impl Strategy<Value = Segment> {
        (any::<[u64; 6]>(), any::<i64>(), 0..=ERR_NS_MAX, any::<u16>(), any::<u16>(), any::<bool>()).prop_map(
            |(words, wall_offset_ns, err_ns, drift_ppb, epoch, counter)| Segment {
                base_ticks: words[0],
                base_ns: words[1],
                rate: words[2],
                rate_slewed: words[3],
                slew_ticks: words[4].min(words[5]) >> 1,
                max_age: words[5] >> 1,
                wall_offset_ns,
                err_ns,
                drift_ppb,
                epoch,
                mode: if counter { Mode::Counter } else { Mode::Os },
            },
        )
    }

    proptest! {
        #[test]
        fn words_hold_a_segment(segment in any_segment()) {
            prop_assert_eq!(Segment::from_words(segment.to_words()), segment);
            prop_assert_eq!(Segment::epoch_of(segment.to_words()[Segment::EPOCH_WORD]), segment.epoch);
        }

        #[test]
        fn a_segment_never_falls(mut segment in any_segment(), age: u64, step in 0_u64..1_000_000) {
            segment.base_ns >>= 2; // Keeps the sum from wrapping, which takes 146 years of uptime.
            segment.max_age = segment.max_age >> 2 | 1;
            segment.slew_ticks >>= 2;
            segment.base_ticks >>= 2;
            let first = age % segment.max_age;
            let second = (first + step).min(segment.max_age - 1);
            let at = |age| segment.line(segment.base_ticks + age, 0).expect("inside");
            prop_assert!(at(first) <= at(second));
            prop_assert!(at(second) <= segment.ceiling_at(second, 0));
            prop_assert_eq!(segment.line(segment.base_ticks + segment.max_age, 0), None);
            let quick = Segment::line_of(Segment::LINE_WORDS.map(|at| segment.to_words()[at]), segment.base_ticks + first, 0);
            prop_assert_eq!(quick, (first < segment.slew_ticks).then(|| at(first)), "the quick way is the same line");
        }
    }

    #[test]
    fn a_half_nanosecond_tick_counts_exactly() {
        let half = 1_u64 << 63;
        let segment = Segment {
            base_ticks: 100,
            base_ns: 7,
            rate: half,
            rate_slewed: half / 2,
            slew_ticks: 8,
            max_age: 1 << 62,
            ..Segment::os(0, 0, 0)
        };
        let cases = [(100, 7), (101, 7), (103, 7), (104, 8), (108, 9), (110, 10), (1_000_000_108, 500_000_009)];
        for (ticks, ns) in cases {
            assert_eq!(segment.line(ticks, 0), Some(ns), "at {ticks}");
        }
        assert_eq!(segment.line(99, 0), None, "before the start");
        assert_eq!(segment.ceiling_at(1, 0), 8);
        assert_eq!(segment.ceiling_at(8, 0), 9);
    }

    #[test]
    fn the_operating_system_segment_is_valid_nowhere() {
        let segment = Segment::os(5, 0, 0);
        for ticks in [0, 1, 1 << 63, u64::MAX] {
            assert_eq!(segment.line(ticks, 0), None);
        }
    }
}
