//! What a heat map is made of: one merged histogram for each step of time, and the exact distribution of all.
//!
//! Invariants: the columns of a selector, with an offset and under `sum` too, partition its cells: the cell that ends
//! at u is in the column whose (t-step, t] holds u, so the columns' counts add up to what was measured. The
//! distribution holds each cell of the range once, whatever the columns show. Groups of `by` and `without` are merged
//! only when that is asked for. Histograms of different schemes do not merge: the scheme that came first stays and a
//! warning says what was left out.
//! Limits: [`BINS_MAX`] bins in an answer.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Mutex;

use axum::http::StatusCode;
use ogive_hist::{Count, Histogram};
use ogive_model::{
    Labels, Ms, Opening, Partial, Resolution, RollupUse, Select, SelectError, Selection, SeriesColumns, SeriesData,
    SeriesDef, SeriesSet, Tenant, WallMs,
};
use ogive_query::ast::{DurationScope, Expr};
use ogive_query::value::Value;

use super::App;
use super::ask::Cancel;
use super::error::ApiError;
use super::groups::{Choice, Group, Groups};
use super::merged::{Merged, Units};
use super::prometheus_json;
use super::resolution::StoreAtResolution;
use super::rows::{self, Row};
use super::shape::{Leaf, Shape, is_grouped, shape};
use super::source_cells::{Cell, Sources, Span, cancelled};
use super::sources;
use super::widths::{Cover, Grid, usual_width};

/// 2,000,000 bins are some 60 MB of JSON: 11,000 columns of 180 bins. No screen shows more.
const BINS_MAX: usize = 2_000_000;

const NUMBERS: &str =
    "the expression gives numbers; a heat map needs histograms (draw numbers as lines with /api/v1/query_range)";

/// The query.
#[derive(Clone, Debug)]
pub(super) struct ColumnQuery {
    pub(super) query: String,
    pub(super) start: WallMs,
    pub(super) end: WallMs,
    pub(super) step: Ms,
    pub(super) quantiles: Vec<f64>,
    pub(super) tenant: Tenant,
    /// The resolution, if the request states one.
    pub(super) resolution: Option<Resolution>,
    /// Which of several groups.
    pub(super) choice: Choice,
    /// Whether the step is raised to the width of the cells.
    pub(super) fit: bool,
}

impl ColumnQuery {
    pub(super) const fn grid(&self) -> Grid {
        Grid { start: self.start, end: self.end, step: self.step }
    }

    /// The cells that a grid shows.
    pub(super) fn span(&self, grid: Grid, offset: Ms) -> Span {
        let from = grid.start.saturating_sub(grid.step).saturating_sub(offset);
        // Cells that no column parts are as good as finer ones.
        let step = grid.step.greatest_common(Ms(grid.start.saturating_sub(offset).0));
        let aligned = Resolution::Aligned { step, use_as: RollupUse::Together };
        let end = grid.end.saturating_sub(offset);
        Span { from, end, resolution: self.resolution.unwrap_or(aligned) }
    }
}

/// The result.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// The columns' times: as requested, or wider where the step was raised.
    pub(super) grid: Grid,
    /// Base unit of the values, when all series agree.
    pub(super) unit: String,
    /// Histogram series that were found.
    pub(super) series: usize,
    pub(super) by_time: BTreeMap<i64, Merged>,
    /// Where the interval that a column counts begins, if known.
    pub(super) covered: BTreeMap<i64, Cover>,
    /// The width that almost no sample's cell exceeds; zero when it is not known.
    pub(super) width: Ms,
    /// Whether each cell is in one column: the columns add up to the distribution.
    pub(super) additive: bool,
    /// The groups that `by` and `without` make, when there are several, and which of them is drawn.
    pub(super) groups: Groups,
    /// All cells of the range, each once; or why that does not exist.
    pub(super) distribution: Distribution,
    pub(super) warnings: Vec<String>,
}

/// The distribution of a whole range.
#[derive(Debug)]
pub(super) enum Distribution {
    Exact(Option<Merged>),
    Unknown(String),
}

impl Default for Distribution {
    fn default() -> Self {
        Self::Exact(None)
    }
}

/// Evaluates `wanted`.
pub(super) fn columns(app: &App, wanted: &ColumnQuery, cancel: &Cancel) -> Result<Columns, ApiError> {
    let expr = ogive_query::parse(&wanted.query)
        .map_err(|error| ApiError::bad_data(format!("invalid parameter \"query\": {error}")))?;
    let scope = DurationScope { step: wanted.step, range: wanted.end - wanted.start };
    let columns = match shape(&expr, scope) {
        Shape::Cells(leaf) => of_cells(&*app.backend.of(&wanted.tenant), &leaf, wanted, cancel)?,
        Shape::Windows(leaf) => of_windows(app, &expr, &leaf, wanted, cancel)?,
        Shape::Evaluated(why) => {
            let rows = evaluated(app, wanted, wanted.grid(), cancel)?;
            of_rows(rows, is_grouped(&expr), Distribution::Unknown(why), wanted, wanted.grid())?
        }
    };
    let distribution = match &columns.distribution {
        Distribution::Exact(Some(merged)) => merged.bins(),
        _ => 0,
    };
    let bins = columns.by_time.values().map(Merged::bins).sum::<usize>() + distribution;
    if bins > BINS_MAX {
        return Err(ApiError::execution(format!(
            "the answer would have {bins} bins, above the limit of {BINS_MAX}; raise the step or shorten the range"
        )));
    }
    Ok(columns)
}

/// Reads the cells that the grid shows, and raises its step to their width if requested.
fn read_fitted(
    store: &dyn Select,
    leaf: &Leaf<'_>,
    wanted: &ColumnQuery,
    cancel: &Cancel,
) -> Result<(Grid, Sources), ApiError> {
    let grid = wanted.grid();
    let read = |grid| sources::read(store, leaf.matchers, wanted.span(grid, leaf.offset), cancel);
    let found = read(grid)?;
    let fitted = if wanted.fit { grid.fitted(usual_width(&found.list)) } else { grid };
    if fitted == grid { Ok((grid, found)) } else { Ok((fitted, read(fitted)?)) }
}

/// Keeps the sources of the group that is drawn.
fn choose(leaf: &Leaf<'_>, found: &mut Sources, choice: &Choice) -> Result<Groups, ApiError> {
    let mut counted: BTreeMap<Labels, (usize, f64)> = BTreeMap::new();
    let names: Vec<Labels> = found.list.iter().map(|source| leaf.group(&source.labels)).collect();
    for (name, source) in names.iter().zip(&found.list) {
        let group = counted.entry(name.clone()).or_default();
        group.0 += 1;
        group.1 += source.cells.iter().map(|cell| cell.value.count()).sum::<f64>();
    }
    let list = counted.into_iter().map(|(labels, (series, count))| Group { labels, series, count: Some(count) });
    let groups = Groups::new(list.collect(), choice)?;
    let mut names = names.iter();
    found.list.retain(|_| names.next().is_some_and(|name| groups.draws(name)));
    Ok(groups)
}

fn of_cells(store: &dyn Select, leaf: &Leaf<'_>, wanted: &ColumnQuery, cancel: &Cancel) -> Result<Columns, ApiError> {
    let (grid, mut found) = read_fitted(store, leaf, wanted, cancel)?;
    if found.list.is_empty() && found.numbers > 0 {
        return Err(ApiError::execution(NUMBERS));
    }
    let groups = choose(leaf, &mut found, &wanted.choice)?;
    let mut out = Columns {
        grid,
        series: found.list.len(),
        width: usual_width(&found.list),
        additive: true,
        unit: found.unit,
        warnings: found.warnings,
        ..Columns::default()
    };
    out.take_groups(groups);
    let mut all = None;
    for source in found.list {
        cancelled(cancel)?;
        for cell in source.cells {
            out.put(cell, leaf.offset, &mut all);
        }
    }
    out.distribution = Distribution::Exact(all);
    Ok(out)
}

fn of_windows(
    app: &App,
    expr: &Expr,
    leaf: &Leaf<'_>,
    wanted: &ColumnQuery,
    cancel: &Cancel,
) -> Result<Columns, ApiError> {
    let (grid, mut found) = match read_fitted(&*app.backend.of(&wanted.tenant), leaf, wanted, cancel) {
        Ok(found) => found,
        // More cells than are read for one response: the engine, which reads series by series, may still be able to
        // draw it.
        Err(error) if error.status == StatusCode::UNPROCESSABLE_ENTITY => {
            let rows = evaluated(app, wanted, wanted.grid(), cancel)?;
            let unknown = Distribution::Unknown(error.message);
            return of_rows(rows, is_grouped(expr), unknown, wanted, wanted.grid());
        }
        Err(error) => return Err(error),
    };
    if found.list.is_empty() && found.numbers > 0 {
        return Err(ApiError::execution(NUMBERS));
    }
    let rows = evaluated(app, wanted, grid, cancel)?;
    let groups = choose(leaf, &mut found, &wanted.choice)?;
    let choice = groups.drawn.as_ref().map_or_else(|| wanted.choice.clone(), Choice::exactly);
    let mut out =
        of_rows(rows, is_grouped(expr), Distribution::default(), &ColumnQuery { choice, ..wanted.clone() }, grid)?;
    if groups.list.len() > 1 {
        out.groups = Groups::default();
        out.take_groups(groups);
    }
    out.series = found.list.len().max(out.series);
    out.width = usual_width(&found.list);
    let mut all = None;
    for cell in found.list.into_iter().flat_map(|source| source.cells) {
        out.merge(&mut all, cell.value);
    }
    out.distribution = Distribution::Exact(all);
    Ok(out)
}

/// Evaluates the expression at each time of the grid.
fn evaluated(app: &App, wanted: &ColumnQuery, grid: Grid, cancel: &Cancel) -> Result<Evaluation, ApiError> {
    let own = app.backend.of(&wanted.tenant);
    let store = StoreAtResolution { store: &*own, resolution: wanted.resolution, cancel };
    let spy = UnitRecorder { store: &store, units: Mutex::default() };
    let Grid { start, end, step } = grid;
    let engine = cancel.engine(app);
    let result = engine.range_until(&spy, &wanted.query, start, end, step, &|| cancel.is_set())?;
    let Value::Matrix(series) = result.value else {
        return Err(ApiError::execution("the expression gives no series over time"));
    };
    let rows = rows::from_matrix(series).ok_or_else(|| ApiError::execution(NUMBERS))?;
    let unit = spy.units.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).common();
    Ok(Evaluation { rows, unit, warnings: [result.warnings, result.infos].concat() })
}

/// The result of an evaluation.
struct Evaluation {
    rows: Vec<Row>,
    unit: String,
    warnings: Vec<String>,
}

fn of_rows(
    found: Evaluation,
    grouped: bool,
    distribution: Distribution,
    wanted: &ColumnQuery,
    grid: Grid,
) -> Result<Columns, ApiError> {
    let Evaluation { rows, unit, warnings } = found;
    let mut out = Columns { grid, unit, warnings, distribution, ..Columns::default() };
    let list = if grouped {
        rows.iter().map(|row| Group { labels: row.labels.clone(), series: 1, count: None }).collect()
    } else {
        Vec::new()
    };
    let groups = Groups::new(list, &wanted.choice)?;
    for row in rows {
        if groups.draws(&row.labels) {
            out.series += 1;
            row.points.into_iter().for_each(|(time, value)| out.add(time, value));
        }
    }
    out.take_groups(groups);
    Ok(out)
}

/// A store that records the units of what is read from it.
struct UnitRecorder<'a> {
    store: &'a dyn Select,
    units: Mutex<Units>,
}

impl Select for UnitRecorder<'_> {
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

/// Series whose units are recorded as they are read.
struct SpySet<'a> {
    set: Box<dyn SeriesSet + 'a>,
    units: &'a Mutex<Units>,
}

impl SeriesSet for SpySet<'_> {
    fn count(&self) -> usize {
        self.set.count()
    }

    fn describe(&self, number: usize) -> Result<Vec<SeriesDef>, SelectError> {
        self.set.describe(number)
    }

    fn take(&self, number: usize) -> Result<Vec<SeriesData>, SelectError> {
        let found = self.set.take(number)?;
        note(self.units, &found);
        Ok(found)
    }

    fn take_columns(&self, number: usize) -> Result<Option<SeriesColumns>, SelectError> {
        let found = self.set.take_columns(number)?;
        if let Some(found) = &found {
            note(self.units, std::slice::from_ref(&found.series));
        }
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
    found.iter().filter(|series| !series.histograms.times.is_empty()).for_each(|series| units.add(&series.meta.unit));
}

impl Columns {
    /// Where the interval that a column counts begins, if known.
    pub(super) fn begin(&self, time: i64) -> Option<WallMs> {
        self.covered.get(&time).and_then(|cover| cover.begin())
    }

    /// Adds a cell to the column that contains its end, and to the total.
    pub(super) fn put(&mut self, cell: Cell, offset: Ms, all: &mut Option<Merged>) {
        let Grid { start, end, step } = self.grid;
        let (from, to) = (cell.from + offset, cell.to + offset);
        // The end of the step that holds the cell's end.
        let time = start + step * (to - start + step - Ms(1)).0.div_euclid(step.0);
        // The last step may end after the range: what is in it belongs to no column, and therefore not to the total.
        if time > end {
            return;
        }
        let is_usual = to - from <= self.width * 2;
        self.covered.entry(time.0).or_default().add(from, cell.value.count(), is_usual);
        self.merge(all, cell.value.clone());
        self.add(time.0, cell.value);
    }

    pub(super) fn merge(&mut self, into: &mut Option<Merged>, value: Merged) {
        match into {
            None => *into = Some(value),
            Some(sum) => {
                if !sum.merge(value) {
                    self.left_out();
                }
            }
        }
    }

    fn add(&mut self, time: i64, value: Merged) {
        use std::collections::btree_map::Entry;
        match self.by_time.entry(time) {
            Entry::Vacant(place) => {
                place.insert(value);
            }
            Entry::Occupied(mut place) => {
                if !place.get_mut().merge(value) {
                    self.left_out();
                }
            }
        }
    }

    fn left_out(&mut self) {
        const TEXT: &str = "series with another bin scheme are left out; select them apart";
        if self.warnings.iter().all(|warning| warning != TEXT) {
            self.warnings.push(TEXT.into());
        }
    }

    fn take_groups(&mut self, groups: Groups) {
        self.warnings.extend(groups.warning());
        self.groups = groups;
    }
}

/// One column as JSON: `{"t","count","sum","min","max","bins","quantiles"}`.
pub(super) fn column(out: &mut Vec<u8>, time: WallMs, merged: Option<&Merged>, quantiles: &[f64]) {
    column_since(out, time, None, merged, quantiles);
}

/// The same with `"from"`: where the interval that it counts begins.
pub(super) fn column_since(
    out: &mut Vec<u8>,
    time: WallMs,
    from: Option<WallMs>,
    merged: Option<&Merged>,
    quantiles: &[f64],
) {
    out.extend_from_slice(b"{\"t\":");
    prometheus_json::time(out, time.0);
    if let Some(from) = from {
        out.extend_from_slice(b",\"from\":");
        prometheus_json::time(out, from.0);
    }
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
        // The zero bin begins at -0, which is confusing to read.
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

/// A JSON number; null for values that JSON cannot represent.
fn number(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        prometheus_json::number(out, value);
    } else {
        out.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::{HistogramColumn, HistogramValue, Kind, SeriesMeta, Temporality};
    use proptest::prelude::*;

    use super::*;

    struct Fixed(Vec<SeriesData>);

    impl Select for Fixed {
        fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
            let mut out = self.0.clone();
            for series in &mut out {
                let column = std::mem::take(&mut series.histograms);
                for (time, value) in column.times.into_iter().zip(column.values) {
                    if selection.range.contains(WallMs(time)) {
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

    fn wanted(start: i64, end: i64, step: i64) -> ColumnQuery {
        ColumnQuery {
            query: "h".into(),
            start: WallMs(start),
            end: WallMs(end),
            step: Ms(step),
            quantiles: vec![0.5],
            tenant: Tenant::default(),
            resolution: None,
            choice: Choice::default(),
            fit: false,
        }
    }

    fn counts(columns: &Columns) -> Vec<(i64, u64)> {
        let count = |merged: &Merged| match merged {
            Merged::Integer(value) => value.count,
            Merged::Float(value) => value.count as u64,
        };
        columns.by_time.iter().map(|(time, merged)| (*time, count(merged))).collect()
    }

    fn select(store: Vec<SeriesData>, wanted: &ColumnQuery) -> Columns {
        let leaf = Leaf { matchers: &[], offset: Ms::ZERO, groupings: Vec::new() };
        of_cells(&Fixed(store), &leaf, wanted, &Cancel::default()).unwrap()
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
        column(&mut out, WallMs(1000), columns.by_time.get(&1000), &[0.5, 2.0]);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with(r#"{"t":1,"count":"3","sum":0.5024,"min":0.0012,"max":0.5,"bins":[[0.0012,0.0013,2],[0.5,0.51,1]],"quantiles":[[0.5,"#), "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["quantiles"].as_array().unwrap().len(), 1);
        let mut empty = Vec::new();
        column(&mut empty, WallMs(1500), None, &[0.5]);
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
