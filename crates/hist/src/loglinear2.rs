//! Binary log-linear bins over whole numbers of a unit, as HdrHistogram has them (and the H2 histograms).
//!
//! Format: values are counted in units of `unit`, whole ones: what lies between is rounded towards zero. A bin is
//! `2^shift` units wide up to `2^(grouping + 1 + shift)`, and above each power of two is cut into `2^grouping` bins.
//! Bin `i` below `2^(grouping + 1)` begins at `i * 2^shift`; bin `(e << grouping) + s`, with `2^grouping <= s <
//! 2^(grouping + 1)`, at `s << e << shift`. This is the order of counts in HdrHistogram's encodings. Bin 0 is the zero
//! bin.
//! Limits: values below 2^64 units; grouping at most 20, shift at most 40.

/// 2^20 bins a power of two: HdrHistogram's five digits need 2^17.
pub(crate) const GROUPING_MAX: u8 = 20;
/// Bins of 2^40 units: HdrHistogram's units are whole, so that a coarser one is a larger unit.
pub(crate) const SHIFT_MAX: u8 = 40;

/// The parameters of the scheme.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) grouping: u8,
    pub(crate) shift: u8,
    pub(crate) unit: f64,
}

impl Grid {
    /// The bin of a whole number of units.
    pub(crate) fn index_of_units(self, units: u64) -> i32 {
        let cells = units >> self.shift;
        let exponent = (63 - (cells | 1).leading_zeros()).saturating_sub(u32::from(self.grouping));
        ((exponent as i32) << self.grouping) + (cells >> exponent) as i32
    }

    /// The last bin.
    pub(crate) fn index_max(self) -> i32 {
        self.index_of_units(u64::MAX)
    }

    /// The first unit of a bin, and the number of units in it. Exact: at most 21 bits are set.
    pub(crate) fn units(self, index: i32) -> (f64, f64) {
        let index = i64::from(index.max(0));
        let exponent = ((index >> self.grouping) - 1).max(0);
        let significant = index - (exponent << self.grouping);
        let scale = ((exponent + i64::from(self.shift)).min(1000) as f64).exp2();
        (significant as f64 * scale, scale)
    }

    /// The last whole unit of bin 0.
    pub(crate) fn zero_threshold(self) -> f64 {
        self.value(self.units(0).1 - 1.0)
    }

    /// A number of units as a value. If a unit is one n-th, this divides by n, so that 5 units of 1e-3 are 0.005.
    fn value(self, units: f64) -> f64 {
        let parts = (1.0 / self.unit).round();
        if parts > 1.0 && 1.0 / parts == self.unit { units / parts } else { units * self.unit }
    }

    /// The bin of a magnitude; `None` from 2^64 units on.
    pub(crate) fn index(self, magnitude: f64) -> Option<i32> {
        let units = magnitude / self.unit;
        let estimate = if units < TWO_POW_64 { self.index_of_units(units as u64) } else { self.index_max() };
        // The division may round across an edge: the edges decide.
        let index = if magnitude >= self.edges(estimate).1 {
            estimate + 1
        } else if estimate > 0 && magnitude < self.edges(estimate).0 {
            estimate - 1
        } else {
            estimate
        };
        (index <= self.index_max()).then_some(index)
    }

    pub(crate) fn edges(self, index: i32) -> (f64, f64) {
        let (first, count) = self.units(index);
        (self.value(first), self.value(first + count))
    }

    /// The middle unit, rounded down, as HdrHistogram has it: of a bin of one unit, that unit.
    pub(crate) fn midpoint(self, index: i32) -> f64 {
        let (first, count) = self.units(index);
        self.value(first + (count / 2.0).floor())
    }
}

/// 2^64.
const TWO_POW_64: f64 = 18_446_744_073_709_551_616.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(grouping: u8, shift: u8, unit: f64) -> Grid {
        Grid { grouping, shift, unit }
    }

    #[test]
    fn bins_follow_one_another_without_a_gap() {
        for (grouping, shift) in [(0, 0), (4, 0), (10, 0), (10, 9), (20, 0), (3, 40)] {
            let grid = grid(grouping, shift, 1.0);
            let last = grid.index_max();
            for index in (0..last.min(5000)).chain(last.saturating_sub(3)..last) {
                let ((first, count), (next, _)) = (grid.units(index), grid.units(index + 1));
                assert_eq!(first + count, next, "grouping {grouping}, shift {shift}, bin {index}");
                for units in [first, next - 1.0] {
                    if units < 9e15 {
                        assert_eq!(grid.index_of_units(units as u64), index, "{units}");
                    }
                }
            }
            let (first, count) = grid.units(last);
            assert_eq!(first + count, TWO_POW_64);
        }
    }

    #[test]
    fn a_value_is_within_the_edges_of_its_bin() {
        for unit in [1.0, 1e-9, 1e-3, 0.3, 5.12e-7] {
            let grid = grid(10, 0, unit);
            for step in 1..30_000_u64 {
                let units = step * step * 7 + step;
                // As a reader of decimal numbers gets it.
                let value: f64 = if unit == 1e-9 { units as f64 / 1e9 } else { units as f64 * unit };
                let index = grid.index(value).unwrap();
                let (lo, hi) = grid.edges(index);
                assert!(lo <= value && value < hi, "{value} in {lo}..{hi}");
                if unit == 1e-9 || unit == 1.0 {
                    assert_eq!(index, grid.index_of_units(units), "{units}");
                }
            }
        }
        let grid = grid(10, 0, 1.0);
        assert_eq!((grid.index(0.999), grid.index(TWO_POW_64), grid.index(f64::INFINITY)), (Some(0), None, None));
        assert_eq!(grid.index(TWO_POW_64.next_down()), Some(grid.index_max()));
    }
}
