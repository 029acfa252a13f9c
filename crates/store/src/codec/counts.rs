//! How `pco` should code counts of histograms, if at all, judged by their entropy.
//!
//! Most groups of bins are smaller in another form: to try it on all of them took 1.5 µs of the 3.4 µs of a cell of 20
//! measurements, and the differences that it chose from a sample of 200 counts were often not the best ones. The
//! entropy takes some 2 ns a count, and no code of each count, or of each difference to the one before, is smaller.
//! Limits: patterns that repeat at a distance, and differences of differences, are not looked for: counts of
//! measurements have neither.

use pco::{DeltaSpec, ModeSpec};

/// The values, or what each adds to the one before: for what has no other patterns. [`DeltaSpec::Auto`] looks for some
/// at a distance, which takes longer than both.
pub(crate) const NEAR: &[DeltaSpec] = &[DeltaSpec::NoOp, DeltaSpec::TryConsecutive(1)];

/// 16 KiB of counters; so many distinct values are too many to learn from.
const SLOTS_MAX: usize = 4096;
/// 2^64 by the golden ratio: neighbours are spread evenly, so that those of a narrow range hardly meet.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// What precedes the values, besides what it says of each bin; the least that was seen.
const HEADER_BYTES: usize = 10;
/// A bin as it is described.
const BIN_BYTES: usize = 9;
/// More distinct values share bins.
const BINS_MIN: usize = 5;
/// The states of the coder, and the length of the page.
const PAGE_BYTES: usize = 4;
/// The value before the differences of a page.
const FIRST_BYTES: usize = 8;
/// So often each value has to come on average for their entropy to be what they take.
const REPEATS_MIN: usize = 4;

/// How values are coded that are as they are, or multiples of one number: counts of a sampled stream are.
pub(crate) fn mode(values: &[i64]) -> ModeSpec {
    let mut divisor = 0;
    for value in values.iter().filter(|value| **value != 0) {
        divisor = greatest_common_divisor(divisor, value.unsigned_abs());
        if divisor == 1 {
            return ModeSpec::Classic;
        }
    }
    if divisor > 1 { ModeSpec::Auto } else { ModeSpec::Classic }
}

const fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Which differences are worth trying, when less than `bytes_max` is asked for `values` in pages of `lengths` values.
pub(crate) fn specs(values: &[i64], lengths: &[usize], bytes_max: usize) -> &'static [DeltaSpec] {
    let room = |tally: &Tally| HEADER_BYTES + PAGE_BYTES * lengths.len() + BIN_BYTES * tally.distinct().min(BINS_MIN);
    let (own, deltas) = tallies(values, lengths);
    let own_bytes = own.entropy_bytes() + room(&own);
    let delta_bytes = deltas.entropy_bytes() + room(&deltas) + FIRST_BYTES * lengths.len();
    if own_bytes.min(delta_bytes) >= bytes_max {
        &[]
    } else if own_bytes <= delta_bytes && own.is_sure() {
        &[DeltaSpec::NoOp]
    } else if delta_bytes < own_bytes && deltas.is_sure() {
        &[DeltaSpec::TryConsecutive(1)]
    } else {
        NEAR
    }
}

/// Of the values, and of the differences inside of each page.
fn tallies(values: &[i64], lengths: &[usize]) -> (Tally, Tally) {
    let (mut own, mut deltas) = (Tally::new(values.len()), Tally::new(values.len()));
    for page in split(values, lengths) {
        own.add(page.first().copied().unwrap_or(0));
        for pair in page.windows(2) {
            own.add(pair[1]);
            deltas.add(pair[1].wrapping_sub(pair[0]));
        }
    }
    (own, deltas)
}

/// The values of each page.
pub(super) fn split<'v>(values: &'v [i64], lengths: &[usize]) -> impl Iterator<Item = &'v [i64]> {
    let mut rest = values;
    lengths.iter().map(move |length| {
        let (page, behind) = rest.split_at(*length);
        rest = behind;
        page
    })
}

/// How often each value comes. Several that meet in a slot count as one, which makes the entropy no greater than it is.
struct Tally {
    slots: Vec<u32>,
    /// The slots that are not zero.
    used: Vec<u32>,
    shift: u32,
    /// Zeros, most of the counts of rare bins.
    zeros: u32,
    others: u32,
}

impl Tally {
    /// Of up to `count` values.
    fn new(count: usize) -> Self {
        let slots = (2 * count).next_power_of_two().clamp(2, SLOTS_MAX);
        Self { slots: vec![0; slots], used: Vec::new(), shift: u64::BITS - slots.ilog2(), zeros: 0, others: 0 }
    }

    #[inline]
    fn add(&mut self, value: i64) {
        if value == 0 {
            self.zeros += 1;
            return;
        }
        self.others += 1;
        let slot = value.cast_unsigned().wrapping_mul(SPREAD) >> self.shift;
        let count = &mut self.slots[slot as usize];
        if *count == 0 {
            self.used.push(slot as u32);
        }
        *count += 1;
    }

    fn distinct(&self) -> usize {
        usize::from(self.zeros > 0) + self.used.len()
    }

    /// What all values take at least.
    fn entropy_bytes(&self) -> usize {
        let bits = |count: u32| if count > 1 { f64::from(count) * f64::from(count).log2() } else { 0.0 };
        let each: f64 = self.used.iter().map(|slot| bits(self.slots[*slot as usize])).sum();
        ((bits(self.zeros + self.others) - bits(self.zeros) - each) / 8.0) as usize
    }

    /// Whether the values repeat often enough.
    fn is_sure(&self) -> bool {
        self.distinct() * REPEATS_MIN <= (self.zeros + self.others) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[i64], bytes_max: usize, orders: &[usize]) {
        let found = specs(values, &[values.len()], bytes_max).iter().map(|spec| match spec {
            DeltaSpec::NoOp => 0,
            DeltaSpec::TryConsecutive(order) => *order,
            other => panic!("{other:?} is not tried"),
        });
        assert_eq!(found.collect::<Vec<_>>(), orders, "{} values below {bytes_max} bytes", values.len());
    }

    #[test]
    fn a_common_divisor_is_looked_for_where_there_is_one() {
        for values in [&[][..], &[0, 0], &[1, 0, 3], &[1000, 2000, 1001], &[i64::MIN, 1]] {
            assert!(matches!(mode(values), ModeSpec::Classic), "{values:?}");
        }
        for values in [&[5][..], &[0, 1000, 37_000], &[-6, 9], &[i64::MIN, 2]] {
            assert!(matches!(mode(values), ModeSpec::Auto), "{values:?}");
        }
    }

    #[test]
    fn differences_are_taken_of_counts_that_add_up_only() {
        let mut random = fastrand::Rng::with_seed(1);
        let own: Vec<i64> = (0..2_000).map(|_| random.i64(0..16)).collect();
        let sums: Vec<i64> = own
            .iter()
            .scan(0, |sum, value| {
                *sum += value;
                Some(*sum)
            })
            .collect();
        let wide: Vec<i64> = (0..2_000).map(|_| random.i64(..)).collect();
        // 16 values that are as frequent as each other take half a byte.
        check(&own, 1_100, &[0]);
        check(&own, 1_000, &[]);
        check(&sums, 1_100, &[1]);
        check(&sums, 1_000, &[]);
        check(&wide, 16_000, &[0, 1]);
    }

    #[test]
    fn the_entropy_of_equal_values_is_none() {
        check(&[0; 500], 1_000, &[0]);
        let tally = |values: &[i64]| {
            let mut tally = Tally::new(values.len());
            values.iter().for_each(|value| tally.add(*value));
            (tally.entropy_bytes(), tally.distinct())
        };
        assert_eq!(tally(&[0; 500]), (0, 1));
        assert_eq!(tally(&[7; 500]), (0, 1));
        // A bit each.
        assert_eq!(tally(&[[0_i64; 512], [9; 512]].concat()), (128, 2));
        assert!(tally(&(0..1_000).collect::<Vec<_>>()).1 > 980, "neighbours hardly meet");
    }
}
