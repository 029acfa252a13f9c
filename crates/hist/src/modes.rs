//! How many modes a distribution has, and where.
//!
//! Samples go onto cells of equal width on a logarithmic axis, 12 a decade, each bin spread evenly over the cells that
//! it crosses: bins themselves differ in logarithmic width (those of `LogLinear10` by a factor of 9.4 at each decade),
//! so that their counts rise and fall where the density does not. The cells are smoothed 1-2-1; a mode is a rise out of
//! a valley that exceeds [`SIGMAS`] standard deviations of counting noise, and so does the fall behind it.
//!
//! Zero, negative values, NaN: values below zero have cells of their own, by distance from zero; zero is infinitely far
//! from both on this axis, so that a zero bin with more than noise in it is a mode; `nan` counts nowhere. A bin without
//! an end, or one that reaches to zero or across it (explicit bounds alone have such), has no width on this axis: it is
//! left out and counted as such, unless the exact least or greatest sample gives it an end.
//!
//! Limits: fewer than [`MODES_SAMPLES_MIN`] samples give no answer. Two modes nearer than about four cells (a factor of
//! two) are one. Counts must be counts of samples: divided by seconds, they look less certain than they are.

use crate::{Count, Histogram};

/// Cells a decade: at 12, a cell is as wide as two to nineteen bins of `LogLinear10`.
const CELLS_PER_DECADE: f64 = 12.0;

/// How much a rise and a fall must exceed, in standard deviations of the difference of two counts.
pub const SIGMAS: f64 = 4.0;

/// Smallest number of samples for a result: with 1,000, two and three modes are found in nine cases of ten; with 200,
/// they are mostly mistaken for one.
pub const MODES_SAMPLES_MIN: f64 = 1000.0;

/// A peak of the density, with the valleys around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    /// Where the density is highest.
    pub value: f64,
    /// The valley before it, or the start of the samples.
    pub lo: f64,
    /// The valley behind it, or where the samples end.
    pub hi: f64,
    /// Samples between the two.
    pub count: f64,
}

/// The modes of a histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Modality {
    /// The modes, ascending.
    pub modes: Vec<Mode>,
    /// Samples that were looked at.
    pub samples: f64,
    /// Samples in bins that have no width on a logarithmic axis.
    pub left_out: f64,
}

/// Too few samples to distinguish modes from noise.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{samples} samples are too few to distinguish modes from noise: at least {needed} are needed")]
pub struct InsufficientData {
    /// Number of samples.
    pub samples: f64,
    /// Samples that are needed.
    pub needed: f64,
}

/// An interval of the axis and its count.
#[derive(Clone, Copy, Debug)]
struct Cell {
    lo: f64,
    hi: f64,
    count: f64,
    smooth: f64,
}

impl<C: Count> Histogram<C> {
    /// The modes of the distribution; how they are distinguished from noise is in the module's text.
    ///
    /// # Errors
    /// [`InsufficientData`] below [`MODES_SAMPLES_MIN`] samples.
    pub fn modes(&self) -> Result<Modality, InsufficientData> {
        let mut sides = [Vec::new(), Vec::new()];
        let mut left_out = 0.0;
        for bucket in self.buckets().filter(|bucket| bucket.count > C::ZERO) {
            let (lo, hi, count) = (self.begun(bucket.lo), self.ended(bucket.hi), bucket.count.to_f64());
            if bucket.lo == -self.zero_threshold && bucket.hi == self.zero_threshold {
                continue;
            } else if lo > 0.0 && hi.is_finite() {
                sides[1].push((lo, hi, count));
            } else if hi < 0.0 && lo.is_finite() {
                sides[0].push((-hi, -lo, count));
            } else {
                left_out += count;
            }
        }
        let zero = self.zero.to_f64().max(0.0);
        let samples = zero + sides.iter().flatten().map(|bin| bin.2).sum::<f64>();
        if samples.is_nan() || samples < MODES_SAMPLES_MIN {
            return Err(InsufficientData { samples, needed: MODES_SAMPLES_MIN });
        }
        let threshold = self.zero_threshold;
        let mut row: Vec<Cell> = beyond_zero(&sides[0], threshold).into_iter().rev().map(Cell::mirrored).collect();
        row.push(Cell { lo: -threshold, hi: threshold, count: zero, smooth: zero });
        row.extend(beyond_zero(&sides[1], threshold));
        Ok(Modality { modes: peaks(&row), samples, left_out })
    }

    /// A bin's lower edge, or the least sample where the bin has no beginning above zero.
    fn begun(&self, lo: f64) -> f64 {
        if lo == f64::NEG_INFINITY || lo == 0.0 { self.min.map_or(lo, |min| min.max(lo)) } else { lo }
    }

    /// A bin's upper edge, or the greatest sample where the bin has no end away from zero.
    fn ended(&self, hi: f64) -> f64 {
        if hi == f64::INFINITY || hi == 0.0 { self.max.map_or(hi, |max| max.min(hi)) } else { hi }
    }
}

impl Cell {
    fn mirrored(self) -> Self {
        Self { lo: -self.hi, hi: -self.lo, ..self }
    }

    /// The middle on the logarithmic axis.
    fn middle(&self) -> f64 {
        if self.lo < 0.0 && self.hi > 0.0 || self.lo == self.hi {
            0.0
        } else {
            (self.lo.abs().sqrt() * self.hi.abs().sqrt()).copysign(self.hi + self.lo)
        }
    }
}

/// The cells of one side, from zero outwards: an empty one first, unless the zero bin reaches up to the first non-empty
/// one.
fn beyond_zero(bins: &[(f64, f64, f64)], threshold: f64) -> Vec<Cell> {
    let mut cells = cells(bins, threshold);
    if let Some(first) = cells.first().filter(|cell| cell.count == 0.0) {
        cells.insert(0, Cell { smooth: 0.0, ..*first });
    }
    cells
}

/// Bins `(lo, hi, count)` above zero, spread over cells and smoothed; at least one empty cell at each end, except the
/// one that would be inside the zero bin.
fn cells(bins: &[(f64, f64, f64)], zero_threshold: f64) -> Vec<Cell> {
    let place = |value: f64| value.log10() * CELLS_PER_DECADE;
    let Some(first) = bins.iter().map(|bin| place(bin.0).floor()).reduce(f64::min) else { return Vec::new() };
    let last = bins.iter().map(|bin| place(bin.1).ceil()).fold(first + 1.0, f64::max);
    let edge = |cell: f64| 10_f64.powf(cell / CELLS_PER_DECADE);
    // Doubles span 632 decades: at most 7,600 cells.
    let mut counts = vec![0.0; (last - first) as usize + 2];
    for (lo, hi, count) in bins {
        let (begin, end) = (place(*lo) - first + 1.0, place(*hi) - first + 1.0);
        let width = end - begin;
        if width <= 0.0 {
            counts[begin as usize] += count;
            continue;
        }
        for cell in begin as usize..=(end as usize).min(counts.len() - 1) {
            let overlap = end.min(cell as f64 + 1.0) - begin.max(cell as f64);
            counts[cell] += count * overlap.max(0.0) / width;
        }
    }
    let at = |cell: Option<usize>| cell.and_then(|cell| counts.get(cell)).copied();
    let all = (0..counts.len()).map(|cell| {
        let (before, here, behind) = (at(cell.checked_sub(1)), counts[cell], at(Some(cell + 1)));
        let smooth = (before.unwrap_or(0.0) + 2.0 * here + behind.unwrap_or(0.0)) / 4.0;
        let lo = first + cell as f64 - 1.0;
        Cell { lo: edge(lo), hi: edge(lo + 1.0), count: here, smooth }
    });
    all.skip_while(|cell| cell.hi <= zero_threshold * (1.0 + 1e-9)).collect()
}

/// True when `high` exceeds `low` by more than counting noise. The variance is that of unsmoothed counts: smoothing
/// only makes the test stricter.
fn exceeds(high: f64, low: f64) -> bool {
    high - low >= SIGMAS * (high + low).sqrt() && high > 0.0
}

/// The significant peaks of a row of cells.
fn peaks(row: &[Cell]) -> Vec<Mode> {
    let mut modes: Vec<Mode> = Vec::new();
    let (mut rising, mut peak, mut valley, mut begin) = (false, 0, 0, 0);
    let mut low = 0.0;
    let nothing = Cell { lo: 0.0, hi: 0.0, count: 0.0, smooth: 0.0 };
    for (at, cell) in row.iter().chain(std::iter::once(&nothing)).enumerate() {
        if rising {
            if cell.smooth > row[peak].smooth {
                peak = at;
            } else if exceeds(row[peak].smooth, cell.smooth) {
                modes.push(Mode { value: top(row, peak), lo: 0.0, hi: 0.0, count: 0.0 });
                (rising, valley, low) = (false, at, cell.smooth);
            }
        } else if cell.smooth < low {
            (valley, low) = (at, cell.smooth);
        } else if exceeds(cell.smooth, low) {
            if let Some(before) = modes.last_mut() {
                close(before, &row[begin..valley]);
                begin = valley;
            }
            (rising, peak) = (true, at);
        }
    }
    if let Some(last) = modes.last_mut() {
        close(last, &row[begin..]);
    }
    modes
}

/// Where the density is highest near its highest cell: the mean of three cells on the logarithmic axis.
fn top(row: &[Cell], peak: usize) -> f64 {
    let middle = row[peak].middle();
    if middle == 0.0 {
        return 0.0;
    }
    let near = &row[peak.saturating_sub(1)..(peak + 2).min(row.len())];
    let same = || near.iter().filter(|cell| cell.middle() * middle.signum() > 0.0);
    let weight: f64 = same().map(|cell| cell.smooth).sum();
    let log: f64 = same().map(|cell| (cell.middle() / middle).ln() * cell.smooth / weight).sum();
    middle * log.exp()
}

/// Sets a mode's extent and count: those of its non-empty cells.
fn close(mode: &mut Mode, row: &[Cell]) {
    let filled = || row.iter().filter(|cell| cell.count > 0.0);
    mode.lo = filled().next().map_or(mode.value, |cell| cell.lo);
    mode.hi = filled().next_back().map_or(mode.value, |cell| cell.hi);
    mode.count = row.iter().map(|cell| cell.count).sum();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scheme;

    #[test]
    fn zero_and_both_signs_are_modes_of_their_own() {
        let mut histogram = Histogram::log_linear();
        for value in [-3.0, -3.1, 0.0, 0.2, 0.21] {
            histogram.record_n(value, 1000);
        }
        histogram.record_n(f64::NAN, 5000);
        let found = histogram.modes().unwrap();
        assert_eq!((found.modes.len(), found.samples, found.left_out), (3, 5000.0, 0.0), "{found:?}");
        assert!((found.modes[0].value + 3.1).abs() < 0.3 && found.modes[1].value == 0.0, "{found:?}");
        assert!((found.modes[2].value - 0.2).abs() < 0.03, "{found:?}");
        for (mode, count) in found.modes.iter().zip([2000.0, 1000.0, 2000.0]) {
            assert!((mode.count - count).abs() < 1e-9 && mode.lo <= mode.value && mode.value <= mode.hi, "{mode:?}");
        }
        // Fifteen zeros are within the noise of none, sixteen are not.
        for (zeros, modes) in [(15, 1), (16, 2)] {
            let mut histogram = Histogram::log_linear();
            histogram.record_n(1.0, 10_000);
            histogram.record_n(0.0, zeros);
            assert_eq!(histogram.modes().unwrap().modes.len(), modes);
        }
    }

    #[test]
    fn too_few_samples_give_no_answer() {
        let mut histogram = Histogram::log_linear();
        histogram.record_n(1.0, 999);
        histogram.record_n(f64::NAN, 999);
        assert_eq!(histogram.modes(), Err(InsufficientData { samples: 999.0, needed: 1000.0 }));
        histogram.record(1.0);
        assert_eq!(histogram.modes().unwrap().modes.len(), 1);
        let mut float = Histogram::<f64>::new(Scheme::LogLinear10);
        float.positive.add(5000, f64::NAN);
        assert!(float.modes().is_err());
    }

    #[test]
    fn bins_without_a_width_are_left_out_and_said_to_be() {
        let mut histogram = Histogram::<u64>::new(Scheme::custom(vec![0.0, 1.0, 2.0, 5.0]).unwrap());
        for (index, count) in [(0, 100), (1, 200), (2, 3000), (4, 400)] {
            histogram.positive.add(index, count);
        }
        histogram.recount();
        let found = histogram.modes().unwrap();
        assert_eq!((found.samples, found.left_out, found.modes.len()), (3000.0, 700.0, 1));
        // Exact ends give those bins a width: [-2, 0) stays apart from zero only if no sample is there.
        (histogram.min, histogram.max) = (Some(0.5), Some(50.0));
        histogram.positive = [(1, 200), (2, 3000), (4, 400)].into_iter().collect();
        let found = histogram.modes().unwrap();
        assert_eq!((found.samples, found.left_out), (3600.0, 0.0));
    }

    #[test]
    fn a_decade_edge_is_no_mode() {
        // A flat density on the logarithmic axis: bins jump by 9.4 at each decade, cells do not.
        let mut histogram = Histogram::log_linear();
        for step in 0..400_000 {
            histogram.record(10_f64.powf(-4.0 + 6.0 * (f64::from(step) + 0.5) / 400_000.0));
        }
        let found = histogram.modes().unwrap();
        assert_eq!(found.modes.len(), 1, "{found:?}");
    }
}
