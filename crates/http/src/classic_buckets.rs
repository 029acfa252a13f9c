//! Classic histograms of Prometheus as cells: what the cumulative counters `M_bucket{le}` of one process added from one
//! scrape to the next, made into a histogram whose bounds are those of the buckets.
//!
//! Invariants: two scrapes are compared over the bounds that both have, `+Inf` among them; a counter that fell says
//! that counting began anew, for all buckets of the process.

use std::collections::BTreeMap;

use ogive_hist::{Bins, Histogram, Scheme};
use ogive_model::{
    Labels, METRIC_NAME, MatchOp, Matcher, Resolution, STALE, Select, Selection, SeriesData, Temporality, TimeRange,
    WallMs,
};

use super::ask::Cancel;
use super::error::ApiError;
use super::merged::{BINS_READ_MAX, Merged};
use super::shape::BOUND;
use super::source_cells::{Cell, LOOKBACK, Source, Sources, Span, cancelled, spacing};

const SUFFIX: &str = "_bucket";

/// Cumulative counts by bound at one time.
type Counts = BTreeMap<Bound, f64>;

/// An upper bound that sorts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound(pub(super) f64);

impl Eq for Bound {}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bound {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Bound {
    /// The bound that a series' `le` names.
    pub(super) fn from_labels(labels: &Labels) -> Option<Self> {
        labels.get(BOUND).parse().ok().filter(|bound: &f64| !bound.is_nan()).map(Self)
    }
}

/// The matchers of the buckets of the histogram that `matchers` name; None when they name none, or only some of its
/// buckets.
pub(super) fn matchers(matchers: &[Matcher]) -> Option<Vec<Matcher>> {
    if matchers.iter().any(|matcher| matcher.name == BOUND) {
        return None;
    }
    let of_name = |matcher: &Matcher| {
        let named = matcher.name == METRIC_NAME && matcher.op == MatchOp::Equal && !matcher.value.ends_with(SUFFIX);
        if !named {
            return Some(matcher.clone());
        }
        Matcher::new(METRIC_NAME, MatchOp::Equal, format!("{}{SUFFIX}", matcher.value)).ok()
    };
    matchers.iter().any(|matcher| matcher.name == METRIC_NAME && matcher.op == MatchOp::Equal).then_some(())?;
    matchers.iter().map(of_name).collect()
}

/// The cells of the buckets that `matchers` select.
pub(super) fn read(
    store: &dyn Select,
    matchers: Vec<Matcher>,
    span: Span,
    cancel: &Cancel,
) -> Result<Sources, ApiError> {
    let selection = Selection {
        matchers,
        range: TimeRange { start: span.from.saturating_sub(LOOKBACK), end: span.end },
        samples_max: BINS_READ_MAX,
        labels_only: false,
        // Differences of counters need the original values.
        resolution: Resolution::Finest,
    };
    let (partial, held) = cancel.read(store, &selection)?;
    held.keep();
    let mut out = Sources { warnings: partial.warnings, ..Sources::default() };
    let mut processes: BTreeMap<Labels, Vec<(Bound, SeriesData)>> = BTreeMap::new();
    for series in partial.series {
        if let Some(bound) = Bound::from_labels(&series.labels)
            && !series.floats.times.is_empty()
        {
            out.unit.clone_from(&series.meta.unit);
            processes.entry(series.labels.with(BOUND, "")).or_default().push((bound, series));
        }
    }
    for (labels, buckets) in processes {
        cancelled(cancel)?;
        let mut source = source(labels, &buckets);
        source.cells.retain(|cell| span.from < cell.to && cell.to <= span.end);
        if !source.cells.is_empty() {
            out.list.push(source);
        }
    }
    Ok(out)
}

/// The cells of one process.
fn source(labels: Labels, buckets: &[(Bound, SeriesData)]) -> Source {
    let delta = buckets.iter().all(|bucket| bucket.1.meta.temporality == Temporality::Delta);
    let mut by_time: BTreeMap<i64, Counts> = BTreeMap::new();
    for (bound, series) in buckets {
        for (time, value) in series.floats.times.iter().zip(&series.floats.values) {
            if value.to_bits() != STALE && value.is_finite() {
                by_time.entry(*time).or_default().insert(*bound, *value);
            }
        }
    }
    by_time.retain(|_, counts| counts.contains_key(&Bound(f64::INFINITY)));
    let times: Vec<i64> = by_time.keys().copied().collect();
    let width = spacing(&times, if delta { 0.25 } else { 0.5 });
    let mut cells = Vec::with_capacity(times.len());
    let mut before: Option<(WallMs, Counts)> = None;
    for (time, now) in by_time {
        let to = WallMs(time);
        let (from, counts) = match &before {
            _ if delta => (to - width, Some(now.clone())),
            Some((time, before)) => (*time, Some(increase(&now, before))),
            // The start of the counter is not known.
            None => (to, None),
        };
        if let Some(value) = counts.and_then(|counts| histogram(&counts)) {
            cells.push(Cell { from, to, value });
        }
        before = Some((to, now));
    }
    Source { labels, width, cells }
}

/// The increase from `before` to `now`: all of `now` when any counter fell.
fn increase(now: &Counts, before: &Counts) -> Counts {
    let common = || now.iter().filter_map(|(bound, now)| Some((*bound, *now, *before.get(bound)?)));
    if common().any(|(_, now, before)| now < before) {
        return now.clone();
    }
    common().map(|(bound, now, before)| (bound, now - before)).collect()
}

/// A histogram of cumulative counts; None without `+Inf`, or with invalid bounds.
pub(super) fn histogram(counts: &Counts) -> Option<Merged> {
    let total = *counts.get(&Bound(f64::INFINITY))?;
    let bounds: Vec<f64> = counts.keys().map(|bound| bound.0).filter(|bound| bound.is_finite()).collect();
    let scheme = Scheme::custom(bounds).ok()?;
    let mut below = 0.0_f64;
    let mut columns: (Vec<i32>, Vec<f64>) = Default::default();
    for (index, count) in counts.values().enumerate() {
        // Counters that were read at different moments may fall from one bound to the next by a sample.
        let inside = (count - below).max(0.0);
        below = below.max(*count);
        if inside > 0.0 {
            columns.0.push(i32::try_from(index).ok()?);
            columns.1.push(inside);
        }
    }
    let whole = columns.1.iter().all(|count| count.fract() == 0.0 && *count < 9e15);
    Some(if whole {
        let mut out = Histogram::<u64>::new(scheme);
        out.positive = Bins::from_columns(columns.0, columns.1.iter().map(|count| *count as u64).collect());
        out.recount();
        Merged::Integer(out)
    } else {
        let mut out = Histogram::<f64>::new(scheme);
        out.positive = Bins::from_columns(columns.0, columns.1);
        out.count = total.max(below);
        Merged::Float(out)
    })
}
