//! What is stored of a stream.
//!
//! Invariants: the time of a histogram is its own as its sender wrote it: of a cell longer than a second its start,
//! else its end. Histograms that count on become what was counted between two of them.
//! Limits: [`SAMPLES_MAX`] samples of a stream, a histogram counting as its bins; all that is held is charged to the
//! query.

use std::collections::BTreeMap;
use std::ops::Range;

use ogive_hist::{Histogram, Scheme};
use ogive_irondb::identity::{self, Identity};
use ogive_irondb::legacy::{COUNT, PARTS};
use ogive_irondb::rollup::Point;
use ogive_model::{
    HistogramValue, METRIC_NAME, MatchOp, Matcher, Ms, STALE, Selection, SeriesData, Temporality, Tenant, TimeRange,
    WallMs,
};
use ogive_query::series_bytes;

use crate::App;
use crate::ask::Cancel;
use crate::error::ApiError;

/// 5,000,000: a number a second for two months.
const SAMPLES_MAX: usize = 5_000_000;

/// A day: the longest cell that anybody writes as a histogram of a period.
const CELL: Ms = Ms::from_secs(86_400);

/// From 1970 on, without an end.
pub(super) const EVER: Range<WallMs> = WallMs(0)..WallMs(i64::MAX / 2);

/// One stream in a range of time, each list ascending.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Numbers; NaN where the sender stated that there was none.
    pub(super) points: Vec<Point>,
    pub(super) histograms: Vec<(i64, Histogram<u64>)>,
    pub(super) texts: Vec<(i64, String)>,
}

impl Stream {
    pub(super) const fn is_empty(&self) -> bool {
        self.points.is_empty() && self.histograms.is_empty() && self.texts.is_empty()
    }

    /// The numbers that are some.
    pub(super) fn numbers(&self) -> Vec<Point> {
        self.points.iter().filter(|point| !point.value.is_nan()).copied().collect()
    }
}

/// A condition that cannot be wrong.
pub(super) fn equal(name: &str, value: &str) -> Matcher {
    Matcher::new(name, MatchOp::Equal, value).expect("an equality needs no pattern")
}

/// The first of `streams` that has anything in `range`.
pub(super) fn read_one(
    app: &App,
    cancel: &Cancel,
    tenant: &Tenant,
    streams: &[Identity],
    range: Range<WallMs>,
) -> Result<Stream, ApiError> {
    for stream in streams {
        let found = read(app, cancel, tenant, stream, range.clone())?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Stream::default())
}

/// The contents of a stream in `range`.
pub(super) fn read(
    app: &App,
    cancel: &Cancel,
    tenant: &Tenant,
    stream: &Identity,
    range: Range<WallMs>,
) -> Result<Stream, ApiError> {
    let matchers = vec![equal(METRIC_NAME, &stream.base), equal(identity::CHECK, &stream.check)];
    let stored = TimeRange { start: range.start.saturating_sub(Ms(1)), end: range.end.saturating_add(CELL) };
    let selection = Selection { samples_max: SAMPLES_MAX, ..Selection::new(matchers, stored) };
    let mut out = Stream::default();
    let mut parts: BTreeMap<i64, [Option<f64>; 6]> = BTreeMap::new();
    cancel.each_series(&*app.backend.of(tenant), &selection, |series| {
        let Some((identity, part)) = Identity::from_labels(&series.labels) else { return Ok(()) };
        if !identity.is_same_stream(stream) {
            return Ok(());
        }
        cancel.hold(series_bytes(&series))?;
        match part {
            None => take(series, &mut out),
            Some(part) => {
                let number =
                    if part == COUNT { Some(0) } else { PARTS.iter().position(|name| *name == part).map(|at| at + 1) };
                let Some(number) = number else { return Ok(()) };
                for (time_ms, value) in series.floats.times.iter().zip(&series.floats.values) {
                    parts.entry(*time_ms).or_default()[number] = Some(*value);
                }
            }
        }
        Ok(())
    })?;
    out.points.sort_by_key(|point| point.time_ms);
    for point in &mut out.points {
        if let Some([count, stddev, changes @ ..]) = parts.get(&point.time_ms) {
            point.count = count.unwrap_or(1.0);
            point.stddev = stddev.unwrap_or(0.0);
            point.changes = changes.iter().any(Option::is_some).then(|| changes.map(|change| change.unwrap_or(0.0)));
        }
    }
    let is_inside = |time_ms: i64| range.contains(&WallMs(time_ms));
    out.points.retain(|point| is_inside(point.time_ms));
    out.histograms.retain(|(time_ms, _)| is_inside(*time_ms));
    out.histograms.sort_by_key(|(time_ms, _)| *time_ms);
    out.texts.retain(|(time_ms, _)| is_inside(*time_ms));
    out.texts.sort_by_key(|(time_ms, _)| *time_ms);
    // One text for each time: writing it again replaces it.
    out.texts.reverse();
    out.texts.dedup_by_key(|(time_ms, _)| *time_ms);
    out.texts.reverse();
    Ok(out)
}

fn take(series: SeriesData, out: &mut Stream) {
    let is_stale = |value: f64| value.to_bits() == STALE;
    for (time_ms, value) in series.floats.times.iter().zip(&series.floats.values) {
        out.points.push(Point::new(*time_ms, if is_stale(*value) { f64::NAN } else { *value }));
    }
    out.texts.extend(series.texts.times.into_iter().zip(series.texts.values));
    let starts = series.histograms.starts;
    let mut before: Option<Histogram<u64>> = None;
    for (at, (time_ms, value)) in series.histograms.times.into_iter().zip(series.histograms.values).enumerate() {
        let HistogramValue::Integer(histogram) = value else { continue };
        if histogram.scheme != Scheme::LogLinear10 {
            continue;
        }
        if series.meta.temporality != Temporality::Cumulative {
            let start = starts.get(at).copied().filter(|start| *start != 0 && time_ms - start > 1_000);
            out.histograms.push((start.unwrap_or(time_ms), histogram));
            continue;
        }
        if let Some(before) = before.replace(histogram.clone()) {
            let mut since = histogram.clone();
            // A counter that was reset has counted all of it since.
            let is_whole = since.subtract(&before).is_ok_and(|underflow| underflow.is_none());
            out.histograms.push((time_ms, if is_whole { since } else { histogram }));
        }
    }
}
