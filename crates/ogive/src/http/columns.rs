//! What a heat map is made of: one merged histogram for each step of time.
//!
//! Invariants: a plain selector's columns partition its samples: the sample at u is in the column whose (t-step, t]
//! holds u, so the columns' counts add up to what was measured. A cumulative series contributes what each of its
//! samples added to the one before. Histograms of different schemes do not merge: the scheme that came first stays and
//! a warning tells what was left out.
//! Limits: [`BINS_MAX`] bins in an answer.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Mutex;

use ogive_hist::{Count, CounterReset, Histogram};
use ogive_model::{
    HistogramColumn, HistogramValue, Matcher, Opening, Partial, Resolution, RollupUse, Select, SelectError, Selection,
    SeriesData, SeriesSet, Temporality, Tenant, TimeRange,
};
use ogive_query::ast::{Edges, Expr, ExprKind, TimeShift};
use ogive_query::value::{Series, Value};

use super::App;
use super::ask::Cancel;
use super::error::ApiError;
use super::prometheus_json;
use super::resolution::Told;

/// 2,000,000 bins are some 60 MB of JSON: 11,000 columns of 180 bins. More is not seen on any screen.
const BINS_MAX: usize = 2_000_000;

/// A selection may read 50,000,000 bins, twelve bytes each: the same 600 MB that a query may take.
const BINS_READ_MAX: usize = 50_000_000;

/// How far back the sample before the first one of a cumulative series is looked for: the lookback of PromQL.
const LOOKBACK_MS: i64 = 300_000;

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) query: String,
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    pub(super) step_ms: i64,
    pub(super) quantiles: Vec<f64>,
    pub(super) tenant: Tenant,
    /// How fine, when somebody said so.
    pub(super) resolution: Option<Resolution>,
}

impl Wanted {
    /// Cells that no column parts are as good as finer ones.
    fn aligned(&self) -> Resolution {
        let (mut step_ms, mut rest) = (self.step_ms, self.start_ms.abs());
        while rest != 0 {
            (step_ms, rest) = (rest, step_ms % rest);
        }
        Resolution::Aligned { step_ms, use_as: RollupUse::Together }
    }
}

/// What there is.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// Base unit of the values, when all series agree.
    pub(super) unit: String,
    /// Histogram series that were found.
    pub(super) series: usize,
    pub(super) by_time: BTreeMap<i64, Merged>,
    pub(super) warnings: Vec<String>,
}

/// A sum of histograms: integer as long as all of them are.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Merged {
    Integer(Histogram<u64>),
    Float(Histogram<f64>),
}

/// Answers `wanted`.
pub(super) fn columns(app: &App, wanted: &Wanted, cancel: &Cancel) -> Result<Columns, ApiError> {
    let expr = ogive_query::parse(&wanted.query)
        .map_err(|error| ApiError::bad_data(format!("invalid parameter \"query\": {error}")))?;
    let columns = match plain_selector(&expr) {
        Some(matchers) => of_selector(&*app.backend.of(&wanted.tenant), matchers, wanted, cancel)?,
        None => of_expression(app, wanted, cancel)?,
    };
    let bins: usize = columns.by_time.values().map(Merged::bins).sum();
    if bins > BINS_MAX {
        return Err(ApiError::execution(format!(
            "the answer would have {bins} bins, above the limit of {BINS_MAX}; raise the step or shorten the range"
        )));
    }
    Ok(columns)
}

/// The matchers of a selector without `offset`, `@` and such.
pub(super) fn plain_selector(expr: &Expr) -> Option<&[Matcher]> {
    match &expr.unparenthesised().kind {
        ExprKind::VectorSelector(selector)
            if selector.shift == TimeShift::default() && selector.edges == Edges::Plain =>
        {
            Some(&selector.matchers)
        }
        _ => None,
    }
}

fn of_selector(
    store: &dyn Select,
    matchers: &[Matcher],
    wanted: &Wanted,
    cancel: &Cancel,
) -> Result<Columns, ApiError> {
    let from_ms = wanted.start_ms.saturating_sub(wanted.step_ms);
    let mut selection = Selection {
        matchers: matchers.to_vec(),
        range: TimeRange { start_ms: from_ms, end_ms: wanted.end_ms },
        samples_max: BINS_READ_MAX,
        labels_only: false,
        resolution: wanted.resolution.unwrap_or_else(|| wanted.aligned()),
    };
    let mut partial = store.select_partial(&selection)?;
    if partial.series.iter().any(|series| series.meta.temporality == Temporality::Cumulative) {
        selection.range.start_ms = from_ms.saturating_sub(LOOKBACK_MS);
        partial = store.select_partial(&selection)?;
    }
    let found = partial.series;
    let mut out = Columns { warnings: partial.warnings, ..Columns::default() };
    let mut units = Units::default();
    let mut numbers = 0;
    for series in found {
        if cancel.is_set() {
            return Err(ApiError::timeout("the query was cancelled"));
        }
        let inside = series.histograms.times.last().is_some_and(|last| *last > from_ms);
        if !inside {
            numbers += usize::from(!series.floats.times.is_empty());
            continue;
        }
        units.add(&series);
        out.series += 1;
        let cumulative = series.meta.temporality == Temporality::Cumulative;
        for (time, value) in contributions(series.histograms, cumulative) {
            if from_ms < time && time <= wanted.end_ms {
                // The end of the step that holds the time.
                let step = (time - wanted.start_ms + wanted.step_ms - 1).div_euclid(wanted.step_ms);
                out.add(wanted.start_ms + step * wanted.step_ms, value);
            }
        }
    }
    // The last step may end after the range: what is in it belongs to no column.
    out.by_time.split_off(&(wanted.end_ms + 1));
    if out.series == 0 && numbers > 0 {
        return Err(ApiError::execution(
            "the expression gives numbers; a heat map needs histograms (draw numbers as lines with /api/v1/query_range)",
        ));
    }
    out.unit = units.common();
    Ok(out)
}

/// What each sample adds: itself, or for a cumulative series its difference from the one before. The first sample of a
/// cumulative series adds nothing, since when it began to count is not known.
fn contributions(column: HistogramColumn, cumulative: bool) -> Vec<(i64, Merged)> {
    let mut out = Vec::with_capacity(column.times.len());
    let mut before: Option<Merged> = None;
    for (time, value) in column.times.into_iter().zip(column.values) {
        let value = match value {
            HistogramValue::Integer(value) => Merged::Integer(value),
            HistogramValue::Float(value) => Merged::Float(value),
        };
        if !cumulative {
            out.push((time, value));
            continue;
        }
        if let Some(before) = &before {
            out.push((time, value.since(before)));
        }
        before = Some(value);
    }
    out
}

fn of_expression(app: &App, wanted: &Wanted, cancel: &Cancel) -> Result<Columns, ApiError> {
    let own = app.backend.of(&wanted.tenant);
    let store = Told { store: &*own, resolution: wanted.resolution, cancel };
    let spy = Spy { store: &store, units: Mutex::default() };
    let range = (wanted.start_ms, wanted.end_ms, wanted.step_ms);
    let result = app.engine.range_until(&spy, &wanted.query, range, &|| cancel.is_set())?;
    let Value::Matrix(rows) = result.value else {
        return Err(ApiError::execution("the expression gives no series over time"));
    };
    let mut out = Columns { warnings: [result.warnings, result.infos].concat(), ..Columns::default() };
    let (with, without): (Vec<Series>, Vec<Series>) = rows.into_iter().partition(|row| !row.histograms.is_empty());
    if with.is_empty() && !without.is_empty() {
        return Err(ApiError::execution(
            "the expression gives numbers; a heat map needs histograms (draw numbers as lines with /api/v1/query_range)",
        ));
    }
    out.series = with.len();
    for row in with {
        for (time, value) in row.histograms {
            out.add(time, Merged::Float((*value).clone()));
        }
    }
    out.unit = spy.units.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).common();
    Ok(out)
}

/// A store that notes the units of what is read from it.
struct Spy<'a> {
    store: &'a dyn Select,
    units: Mutex<Units>,
}

impl Select for Spy<'_> {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        self.store.select(selection)
    }

    fn select_partial(&self, selection: &Selection) -> Result<Partial, SelectError> {
        let found = self.store.select_partial(selection)?;
        note(&self.units, &found.series);
        Ok(found)
    }

    fn open<'s>(
        &'s self,
        selection: &Selection,
        opening: &Opening<'_>,
    ) -> Result<Box<dyn SeriesSet + 's>, SelectError> {
        Ok(Box::new(SpySet { set: self.store.open(selection, opening)?, units: &self.units }))
    }
}

/// Series of which the units are noted as they are read.
struct SpySet<'a> {
    set: Box<dyn SeriesSet + 'a>,
    units: &'a Mutex<Units>,
}

impl SeriesSet for SpySet<'_> {
    fn count(&self) -> usize {
        self.set.count()
    }

    fn take(&self, number: usize) -> Result<Vec<SeriesData>, SelectError> {
        let found = self.set.take(number)?;
        note(self.units, &found);
        Ok(found)
    }

    fn rollup_ms(&self) -> u32 {
        self.set.rollup_ms()
    }

    fn samples_about(&self) -> usize {
        self.set.samples_about()
    }

    fn warnings(&self) -> Vec<String> {
        self.set.warnings()
    }
}

/// Notes the units of the series that have histograms.
fn note(units: &Mutex<Units>, found: &[SeriesData]) {
    let mut units = units.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.iter().filter(|series| !series.histograms.times.is_empty()).for_each(|series| units.add(series));
}

/// The units seen.
#[derive(Debug, Default)]
struct Units(Option<String>, bool);

impl Units {
    fn add(&mut self, series: &SeriesData) {
        match &self.0 {
            None => self.0 = Some(series.meta.unit.clone()),
            Some(unit) => self.1 |= *unit != series.meta.unit,
        }
    }

    /// The unit of all, or nothing when they differ.
    fn common(self) -> String {
        self.0.filter(|_| !self.1).unwrap_or_default()
    }
}

impl Columns {
    fn add(&mut self, time: i64, value: Merged) {
        use std::collections::btree_map::Entry;
        match self.by_time.entry(time) {
            Entry::Vacant(place) => {
                place.insert(value);
            }
            Entry::Occupied(mut place) => {
                if !place.get_mut().merge(value) && self.warnings.is_empty() {
                    self.warnings.push("series with another bin scheme are left out; select them apart".into());
                }
            }
        }
    }
}

impl Merged {
    /// Adds `other`; false when their schemes do not merge.
    pub(super) fn merge(&mut self, other: Self) -> bool {
        match (&mut *self, other) {
            (Self::Integer(left), Self::Integer(right)) => left.merge(&right).is_ok(),
            (Self::Float(left), other) => left.merge(&other.into_float()).is_ok(),
            (Self::Integer(left), Self::Float(right)) => {
                let mut sum = left.to_float();
                let merged = sum.merge(&right).is_ok();
                *self = Self::Float(sum);
                merged
            }
        }
    }

    fn into_float(self) -> Histogram<f64> {
        match self {
            Self::Integer(value) => value.to_float(),
            Self::Float(value) => value,
        }
    }

    /// What was counted after `before`: all of it when counting began anew.
    fn since(&self, before: &Self) -> Self {
        match (self, before) {
            (Self::Integer(now), Self::Integer(before)) => Self::Integer(difference(now, before)),
            _ => Self::Float(difference(&self.clone().into_float(), &before.clone().into_float())),
        }
    }

    fn bins(&self) -> usize {
        match self {
            Self::Integer(value) => value.negative.len() + value.positive.len(),
            Self::Float(value) => value.negative.len() + value.positive.len(),
        }
    }
}

fn difference<C: Count>(now: &Histogram<C>, before: &Histogram<C>) -> Histogram<C> {
    let mut out = now.clone();
    if now.reset == CounterReset::Reset {
        return out;
    }
    match out.subtract(before) {
        Ok(underflow) if underflow.is_none() => {
            out.compact();
            out
        }
        _ => now.clone(),
    }
}

/// One column as JSON: `{"t","count","sum","min","max","bins","quantiles"}`.
pub(super) fn column(out: &mut Vec<u8>, time_ms: i64, merged: Option<&Merged>, quantiles: &[f64]) {
    out.extend_from_slice(b"{\"t\":");
    prometheus_json::time(out, time_ms);
    match merged {
        None => out.extend_from_slice(br#","count":"0","sum":null,"min":null,"max":null,"bins":[],"quantiles":[]}"#),
        Some(Merged::Integer(value)) => {
            write!(out, ",\"count\":\"{}\"", value.count).expect("writes to memory");
            distribution(out, value, quantiles);
        }
        Some(Merged::Float(value)) => {
            out.extend_from_slice(b",\"count\":\"");
            prometheus_json::number(out, value.count);
            out.push(b'"');
            distribution(out, value, quantiles);
        }
    }
}

fn distribution<C: Count>(out: &mut Vec<u8>, value: &Histogram<C>, quantiles: &[f64]) {
    for (name, known) in [("sum", value.sum), ("min", value.min), ("max", value.max)] {
        write!(out, ",\"{name}\":").expect("writes to memory");
        number(out, known.unwrap_or(f64::NAN));
    }
    out.extend_from_slice(b",\"bins\":[");
    for (at, bucket) in value.buckets().enumerate() {
        out.extend_from_slice(if at > 0 { b",[" } else { b"[" });
        // The zero bin begins at -0, which is a surprise to read.
        number(out, bucket.lo + 0.0);
        out.push(b',');
        number(out, bucket.hi);
        out.push(b',');
        number(out, bucket.count.to_f64());
        out.push(b']');
    }
    out.extend_from_slice(b"],\"quantiles\":[");
    let found = quantiles.iter().filter_map(|q| Some((*q, value.quantile(*q)?)));
    for (at, (q, found)) in found.enumerate() {
        out.extend_from_slice(if at > 0 { b",[" } else { b"[" });
        for (at, value) in [q, found.value, found.lo, found.hi].into_iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            number(out, value);
        }
        out.push(b']');
    }
    out.extend_from_slice(b"]}");
}

/// A JSON number; null for what JSON has no number for.
fn number(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        prometheus_json::number(out, value);
    } else {
        out.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::{Kind, Labels, SeriesMeta};
    use proptest::prelude::*;

    use super::*;

    struct Fixed(Vec<SeriesData>);

    impl Select for Fixed {
        fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
            let mut out = self.0.clone();
            for series in &mut out {
                let column = std::mem::take(&mut series.histograms);
                for (time, value) in column.times.into_iter().zip(column.values) {
                    if selection.range.contains(time) {
                        series.histograms.times.push(time);
                        series.histograms.values.push(value);
                    }
                }
            }
            Ok(out)
        }
    }

    fn series(temporality: Temporality, samples: &[(i64, &[f64])]) -> SeriesData {
        let histogram = |values: &[f64]| {
            let mut out = Histogram::log_linear();
            values.iter().for_each(|value| out.record(*value));
            HistogramValue::Integer(out)
        };
        SeriesData {
            labels: Labels::new([("__name__", "h")]).unwrap(),
            meta: SeriesMeta { kind: Kind::Histogram, temporality, unit: "s".into(), width_ms: 1000 },
            floats: Default::default(),
            histograms: HistogramColumn {
                times: samples.iter().map(|sample| sample.0).collect(),
                values: samples.iter().map(|sample| histogram(sample.1)).collect(),
                starts: Vec::new(),
            },
            texts: Default::default(),
            rollup_ms: 0,
        }
    }

    fn wanted(start_ms: i64, end_ms: i64, step_ms: i64) -> Wanted {
        Wanted {
            query: "h".into(),
            start_ms,
            end_ms,
            step_ms,
            quantiles: vec![0.5],
            tenant: Tenant::default(),
            resolution: None,
        }
    }

    fn counts(columns: &Columns) -> Vec<(i64, u64)> {
        let count = |merged: &Merged| match merged {
            Merged::Integer(value) => value.count,
            Merged::Float(value) => value.count as u64,
        };
        columns.by_time.iter().map(|(time, merged)| (*time, count(merged))).collect()
    }

    fn select(store: Vec<SeriesData>, wanted: &Wanted) -> Columns {
        of_selector(&Fixed(store), &[], wanted, &Cancel::default()).unwrap()
    }

    #[test]
    fn a_column_holds_the_samples_after_the_one_before_up_to_its_time() {
        let store = vec![
            series(
                Temporality::Delta,
                &[(0, &[1.0]), (1, &[1.0]), (1000, &[1.0]), (1001, &[1.0, 2.0]), (2000, &[3.0])],
            ),
            series(Temporality::Delta, &[(2000, &[1.0]), (2001, &[9.0])]),
        ];
        let columns = select(store, &wanted(1000, 2000, 1000));
        assert_eq!(counts(&columns), [(1000, 2), (2000, 4)]);
        assert_eq!((columns.series, &*columns.unit), (2, "s"));
    }

    #[test]
    fn an_end_between_two_steps_ends_the_map_before_it() {
        let store = vec![series(Temporality::Delta, &[(1000, &[1.0]), (1500, &[1.0])])];
        assert_eq!(counts(&select(store, &wanted(1000, 1900, 1000))), [(1000, 1)]);
    }

    #[test]
    fn a_cumulative_series_adds_what_is_new() {
        let store = vec![series(Temporality::Cumulative, &[(500, &[1.0]), (1000, &[1.0, 2.0, 2.0]), (2000, &[5.0])])];
        // The third sample lacks what the second had: counting began anew.
        assert_eq!(counts(&select(store, &wanted(1000, 2000, 1000))), [(1000, 2), (2000, 1)]);
    }

    #[test]
    fn a_column_as_json() {
        let columns =
            select(vec![series(Temporality::Delta, &[(1000, &[0.0012, 0.0012, 0.5])])], &wanted(1000, 1000, 1000));
        let mut out = Vec::new();
        column(&mut out, 1000, columns.by_time.get(&1000), &[0.5, 2.0]);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with(r#"{"t":1,"count":"3","sum":0.5024,"min":0.0012,"max":0.5,"bins":[[0.0012,0.0013,2],[0.5,0.51,1]],"quantiles":[[0.5,"#), "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["quantiles"].as_array().unwrap().len(), 1);
        let mut empty = Vec::new();
        column(&mut empty, 1500, None, &[0.5]);
        let value: serde_json::Value = serde_json::from_slice(&empty).unwrap();
        assert_eq!((&value["t"], &value["count"]), (&1.5.into(), &"0".into()));
    }

    proptest! {
        #[test]
        fn columns_partition_the_samples(
            times in proptest::collection::btree_set(0i64..10_000, 0..60),
            start in 0i64..2_000, steps in 0i64..20, step in 1i64..1_000,
        ) {
            let samples: Vec<(i64, &[f64])> = times.iter().map(|time| (*time, &[1.0][..])).collect();
            let end = start + steps * step;
            let columns = select(vec![series(Temporality::Delta, &samples)], &wanted(start, end, step));
            let expected = times.iter().filter(|time| start - step < **time && **time <= end).count();
            prop_assert_eq!(counts(&columns).iter().map(|column| column.1).sum::<u64>(), expected as u64);
            for (time, _) in counts(&columns) {
                prop_assert_eq!((time - start).rem_euclid(step), 0);
                prop_assert!((start..=end).contains(&time));
            }
        }
    }
}
