//! The bounds of the buckets of classic views, and the counts below them.
//!
//! Bounds are edges of the histograms' own bins, so that counts at them are exact: nine a decade of decimal bins (1,
//! 1.5, 2, 2.5, 3, 4, 5, 6, 8), four a doubling of exponential ones, all of custom ones.

use std::collections::BTreeMap;

use ogive_hist::{Bins, Scheme};
use ogive_model::float::general;
use ogive_model::{HistogramValue, SeriesData};

use crate::eval::histogram::{Bucket, Hist, ascending, count_below};
use crate::eval::kernel::parse_float;

/// Most bounds of a view, except with custom bins: 22 decades of nine. For a wider range every second bound is dropped,
/// repeatedly.
pub const BOUNDS_MAX: usize = 200;

/// Bounds in a decade: edges of decimal bins, neighbours at most a factor of 1.5 apart.
const MANTISSAS: [f64; 9] = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];

/// There are 2 to the power of this bounds in a doubling.
const SCALE: i8 = 2;

/// Relative difference of two edges that are meant to be the same.
const TOLERANCE: f64 = 1e-12;

/// Ascending bounds with the texts of their labels; the last is +Inf unless the bounds were requested by value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bounds(Vec<(f64, String)>);

impl Bounds {
    pub(super) const fn none() -> Self {
        Self(Vec::new())
    }

    /// The requested bounds, as they were written.
    pub(super) fn from_texts(texts: &[String]) -> Self {
        let mut bounds: Vec<(f64, String)> =
            texts.iter().filter_map(|text| Some((parse_float(text)?, text.clone()))).collect();
        bounds.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        bounds.dedup();
        Self(bounds)
    }

    /// From a microsecond to some hours, for listings of more histograms than can be read.
    pub(super) fn common() -> Self {
        Self::from_values(decimal(1e-6, 1e4))
    }

    /// Those that all samples of `series` need.
    pub(super) fn over(series: &[SeriesData]) -> Self {
        let mut spans: BTreeMap<Family, Span> = BTreeMap::new();
        let mut custom: Vec<f64> = Vec::new();
        for value in series.iter().flat_map(|one| &one.histograms.values) {
            let scheme = match value {
                HistogramValue::Integer(one) => {
                    let zero = one.zero > 0;
                    take(&mut spans, &one.scheme, &one.positive, &one.negative, zero, one.zero_threshold);
                    &one.scheme
                }
                HistogramValue::Float(one) => {
                    let zero = one.zero > 0.0;
                    take(&mut spans, &one.scheme, &one.positive, &one.negative, zero, one.zero_threshold);
                    &one.scheme
                }
            };
            if let Scheme::Custom { bounds } = scheme
                && !bounds.iter().all(|bound| custom.contains(bound))
            {
                custom.extend(bounds.iter().copied());
            }
        }
        let mut values: Vec<f64> = spans.into_iter().flat_map(|(family, span)| span.bounds(family)).collect();
        thin(&mut values);
        values.extend(custom);
        Self::from_values(values)
    }

    fn from_values(mut values: Vec<f64>) -> Self {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        values.dedup_by(|a, b| a == b);
        values.push(f64::INFINITY);
        Self(values.into_iter().map(|value| (value, general(value))).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, text)| &**text)
    }

    /// How many samples are at or below each bound. A bin that contains a bound counts as evenly spread.
    pub(super) fn cumulative(&self, histogram: &Hist) -> Vec<f64> {
        let mut bins = ascending(histogram).peekable();
        let mut below = 0.0;
        let count = |(bound, _): &(f64, String)| {
            if *bound == f64::INFINITY {
                return histogram.count;
            }
            if histogram.max.is_some_and(|max| max <= *bound) {
                return histogram.count - histogram.nan;
            }
            if histogram.min.is_some_and(|min| *bound < min) {
                return 0.0;
            }
            while let Some(bin) = bins.next_if(|bin| bin.upper <= bound + bound.abs() * TOLERANCE) {
                below += bin.count;
            }
            below + bins.peek().map_or(0.0, |bin| inside(bin, *bound))
        };
        self.0.iter().map(count).collect()
    }
}

fn inside(bin: &Bucket, bound: f64) -> f64 {
    if bin.lower + bin.lower.abs() * TOLERANCE >= bound || bin.lower == f64::NEG_INFINITY {
        return 0.0;
    }
    count_below(bin, bound)
}

/// How bounds are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    Decimal,
    Exponential,
}

/// The range of the axis that the samples of a family occupy, by distance from zero on either side.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    positive: Option<(f64, f64)>,
    negative: Option<(f64, f64)>,
    zero: Option<f64>,
}

fn take<C: Copy + PartialOrd + Default>(
    spans: &mut BTreeMap<Family, Span>,
    scheme: &Scheme,
    positive: &Bins<C>,
    negative: &Bins<C>,
    zero: bool,
    threshold: f64,
) where
    Bins<C>: Ends,
{
    let family = match scheme {
        Scheme::Custom { .. } => return,
        Scheme::Exp2 { .. } => Family::Exponential,
        _ => Family::Decimal,
    };
    let span = spans.entry(family).or_default();
    let edges = |bins: &Bins<C>| {
        let (first, last) = bins.ends()?;
        Some((scheme.bounds(true, first).0, scheme.bounds(true, last).1))
    };
    let wider = |old: Option<(f64, f64)>, new: Option<(f64, f64)>| match (old, new) {
        (Some(old), Some(new)) => Some((old.0.min(new.0), old.1.max(new.1))),
        (old, new) => old.or(new),
    };
    span.positive = wider(span.positive, edges(positive));
    span.negative = wider(span.negative, edges(negative));
    if zero {
        span.zero = Some(span.zero.map_or(threshold, |old| old.max(threshold)));
    }
}

/// The least and the greatest index of bins.
trait Ends {
    fn ends(&self) -> Option<(i32, i32)>;
}

impl Ends for Bins<u64> {
    fn ends(&self) -> Option<(i32, i32)> {
        Some((*self.indexes().first()?, *self.indexes().last()?))
    }
}

impl Ends for Bins<f64> {
    fn ends(&self) -> Option<(i32, i32)> {
        Some((*self.indexes().first()?, *self.indexes().last()?))
    }
}

impl Span {
    fn bounds(self, family: Family) -> Vec<f64> {
        let grid = |(low, high): (f64, f64)| match family {
            Family::Decimal => decimal(low, high),
            Family::Exponential => exponential(low, high),
        };
        let mut out: Vec<f64> = self.positive.map(grid).unwrap_or_default();
        out.extend(self.negative.map(grid).unwrap_or_default().into_iter().map(|bound| -bound));
        if let Some(threshold) = self.zero {
            out.extend([-threshold, threshold]);
        }
        if self.negative.is_some() {
            out.push(0.0);
        }
        out
    }
}

/// From the last bound at or below `low` to the first at or above `high`.
fn decimal(low: f64, high: f64) -> Vec<f64> {
    let decade = |value: f64| value.max(f64::MIN_POSITIVE).log10().floor() as i32;
    let bounds = (decade(low) - 1..=decade(high) + 1)
        // Parsed from text, because a product with a power of ten is not always the double nearest to the decimal
        // number.
        .flat_map(|power| MANTISSAS.map(|mantissa| format!("{mantissa}e{power}").parse().unwrap_or(f64::INFINITY)));
    between(bounds.collect(), low, high)
}

fn exponential(low: f64, high: f64) -> Vec<f64> {
    let steps = f64::from(1_i32 << SCALE);
    let at = |value: f64| (value.max(f64::MIN_POSITIVE).log2() * steps).floor() as i32;
    // The edges of the scheme itself, bit for bit.
    let scheme = Scheme::Exp2 { scale: SCALE };
    between((at(low) - 1..=at(high) + 2).map(|index| scheme.bounds(true, index).1).collect(), low, high)
}

fn between(bounds: Vec<f64>, low: f64, high: f64) -> Vec<f64> {
    let from = bounds.iter().rposition(|bound| *bound <= low * (1.0 + TOLERANCE)).unwrap_or(0);
    let to = bounds.iter().position(|bound| *bound >= high * (1.0 - TOLERANCE)).unwrap_or(bounds.len() - 1);
    bounds[from..=to.max(from)].to_vec()
}

fn thin(values: &mut Vec<f64>) {
    values.sort_by(f64::total_cmp);
    while values.len() > BOUNDS_MAX {
        let last = values.len() - 1;
        let mut at = 0;
        // The first and the last bound stay.
        values.retain(|_| {
            at += 1;
            (at - 1) % 2 == 0 || at - 1 == last
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_bounds_are_edges_and_enclose() {
        assert_eq!(decimal(0.0021, 0.0055), [0.002, 0.0025, 0.003, 0.004, 0.005, 0.006]);
        assert_eq!(decimal(1.0, 1.5), [1.0, 1.5]);
        assert_eq!(decimal(9.5, 11.0), [8.0, 10.0, 15.0]);
        for bound in decimal(1e-7, 1e7) {
            let index = ogive_hist::DecimalBin::from_value(bound).index().unwrap();
            let (low, _) = Scheme::LogLinear10.bounds(true, index);
            assert!((low - bound).abs() <= bound * TOLERANCE, "{bound} is inside the bin from {low}");
        }
    }

    #[test]
    fn exponential_bounds_are_edges_of_finer_scales() {
        assert_eq!(exponential(1.0, 2.0).len(), 5);
        assert_eq!((exponential(1.0, 2.0)[0], exponential(1.0, 2.0)[4]), (1.0, 2.0));
    }

    #[test]
    fn a_wide_range_is_thinned_to_the_limit() {
        let mut values = decimal(1e-100, 1e100);
        let ends = (values[0], *values.last().unwrap());
        thin(&mut values);
        assert!(values.len() <= BOUNDS_MAX, "{}", values.len());
        assert_eq!((values[0], *values.last().unwrap()), ends);
        let mut few = decimal(1e-3, 1e3);
        let before = few.clone();
        thin(&mut few);
        assert_eq!(few, before);
    }

    #[test]
    fn counts_are_those_of_the_samples() {
        let mut histogram = ogive_hist::Histogram::log_linear();
        let samples = [-2.0, -0.5, 0.0, 0.0021, 0.0021, 0.0055, 1.05];
        samples.iter().for_each(|value| histogram.record(*value));
        let bounds = Bounds::from_values(vec![-3.0, -1.0, 0.0, 0.002, 0.003, 0.006, 1.0, 1.5]);
        let counts = bounds.cumulative(&histogram.to_float());
        assert_eq!(counts, [0.0, 1.0, 3.0, 3.0, 5.0, 6.0, 6.0, 7.0, 7.0]);
        assert_eq!(bounds.texts().last(), Some("+Inf"));
        // A bound inside a bin takes a part of it.
        let inside = Bounds::from_texts(&["0.00215".to_owned()]);
        assert!((inside.cumulative(&histogram.to_float())[0] - 4.0).abs() < 1e-9);
    }
}
