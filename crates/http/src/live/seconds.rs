//! Seconds of an expression as the store has them now: a distribution, numbers, or nothing.
//!
//! Invariants: of a plain selector a second has the samples in it and no older ones: distributions added up, of each
//! series of numbers the last one (of deltas their sum). Of any other expression it has what the expression gives at
//! its end.
//! Limits: [`VALUES_MAX`] series of numbers, [`COLUMN_BINS_MAX`] bins of a distribution.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;

use ogive_model::{Kind, Labels, Matcher, Ms, Resolution, Selection, SeriesData, Temporality, TimeRange, WallMs};
use ogive_query::value::{Series, Value};

use super::super::App;
use super::super::ask::Cancel;
use super::super::columns::{self, ColumnQuery};
use super::super::error::ApiError;
use super::super::groups::{Group, Groups};
use super::super::merged::Merged;
use super::super::prometheus_json;
use super::super::resolution::StoreAtResolution;
use super::super::shape::is_grouped;
use ogive_storage::live::{COLUMN_BINS_MAX, SecondState};

/// 1,000 series of numbers: 100 KB of JSON a second; more lines cannot be distinguished.
const VALUES_MAX: usize = 1_000;

/// 2,000,000 samples: two minutes of 16,000 series.
const SAMPLES_MAX: usize = 2_000_000;

pub(crate) const SECOND: Ms = Ms::from_secs(1);

/// When the second called `number` ends.
pub(crate) const fn second_end(number: i64) -> WallMs {
    WallMs(number * SECOND.0)
}

/// The contents of one second.
#[derive(Clone, Debug, Default)]
pub(super) struct Second {
    pub(super) merged: Option<Merged>,
    values: BTreeMap<String, f64>,
}

/// Seconds, by their ends.
#[derive(Debug, Default)]
pub(super) struct Seconds {
    pub(super) by_time: BTreeMap<WallMs, Second>,
    /// The series of a selector: a number that identifies each, the second of its newest sample, and whether its cells
    /// are wide.
    pub(super) heard: Vec<(u64, i64, bool)>,
    /// Whether the progress of senders is known.
    pub(super) is_selector: bool,
}

impl Second {
    pub(super) fn new(merged: Option<Merged>) -> Self {
        Self { merged, values: BTreeMap::new() }
    }

    pub(super) fn has_samples(&self) -> bool {
        self.merged.is_some() || !self.values.is_empty()
    }

    /// The data of its event.
    pub(super) fn json(&self, time: WallMs, known: SecondState, quantiles: &[f64]) -> Vec<u8> {
        let mut out = Vec::new();
        if known == SecondState::Unknown || self.merged.is_none() && !self.values.is_empty() {
            out.extend_from_slice(b"{\"t\":");
            prometheus_json::time(&mut out, time.0);
            out.extend_from_slice(br#","count":null,"sum":null,"min":null,"max":null,"bins":[],"quantiles":[]}"#);
        } else {
            columns::column(&mut out, time, self.merged.as_ref(), quantiles);
        }
        // More follows.
        out.pop();
        write!(out, ",\"state\":\"{}\",\"values\":[", known.as_str()).expect("writes to memory");
        for (at, (labels, value)) in self.values.iter().enumerate() {
            write!(out, "{}{{\"labels\":{labels},\"value\":\"", if at > 0 { "," } else { "" })
                .expect("writes to memory");
            prometheus_json::number(&mut out, *value);
            out.extend_from_slice(b"\"}");
        }
        out.extend_from_slice(b"]}");
        out
    }
}

/// Reads the seconds from `wanted.start` to `wanted.end`, both of them ends.
pub(super) fn read(app: &App, wanted: &ColumnQuery, cancel: &Cancel) -> Result<Seconds, ApiError> {
    let expr = ogive_query::parse(&wanted.query)
        .map_err(|error| ApiError::bad_data(format!("invalid parameter \"query\": {error}")))?;
    let out = match expr.plain_selector() {
        Some(matchers) => of_selector(app, matchers, wanted, cancel)?,
        None => of_expression(app, wanted, cancel)?,
    };
    if let Some(most) = out.by_time.values().map(|second| second.values.len()).max().filter(|most| *most > VALUES_MAX) {
        return Err(ApiError::bad_data(format!(
            "the expression gives {most} series of numbers, a live stream has {VALUES_MAX} at the most; aggregate or narrow it"
        )));
    }
    let bins = out.by_time.values().filter_map(|second| second.merged.as_ref()).map(Merged::bins);
    if let Some(most) = bins.max().filter(|most| *most > COLUMN_BINS_MAX) {
        return Err(ApiError::execution(format!(
            "a second has {most} bins, a live stream has {COLUMN_BINS_MAX} at the most; narrow the expression"
        )));
    }
    Ok(out)
}

fn of_selector(app: &App, matchers: &[Matcher], wanted: &ColumnQuery, cancel: &Cancel) -> Result<Seconds, ApiError> {
    let selection = Selection {
        samples_max: SAMPLES_MAX,
        resolution: Resolution::Width(0),
        ..Selection::new(matchers.to_vec(), TimeRange { start: wanted.start - SECOND, end: wanted.end })
    };
    let mut out = Seconds { is_selector: true, ..Seconds::default() };
    let mut has_histograms = false;
    for series in app.backend.of(&wanted.tenant).select(&selection)? {
        let newest = series.floats.times.last().into_iter().chain(series.histograms.times.last()).max();
        let Some(newest) = newest else { continue };
        let mut hasher = DefaultHasher::new();
        (&series.labels, series.meta.kind).hash(&mut hasher);
        let is_wide = !(1..=1_000).contains(&series.meta.width_ms);
        out.heard.push((hasher.finish(), WallMs(*newest).align_up(SECOND).to_secs(), is_wide));
        has_histograms |= series.meta.kind == Kind::Histogram;
        if series.meta.kind == Kind::Float {
            add_numbers(&mut out, &series);
        }
    }
    if has_histograms {
        for (time, merged) in columns::columns(app, wanted, cancel)?.by_time {
            out.by_time.entry(WallMs(time)).or_default().merged = Some(merged);
        }
    }
    Ok(out)
}

fn add_numbers(out: &mut Seconds, series: &SeriesData) {
    let labels = labels_json(&series.labels);
    let is_delta = series.meta.temporality == Temporality::Delta;
    for (time, value) in series.floats.times.iter().zip(&series.floats.values).filter(|(_, value)| !value.is_nan()) {
        let second = out.by_time.entry(WallMs(*time).align_up(SECOND)).or_default();
        let known = second.values.entry(labels.clone()).or_insert(0.0);
        *known = if is_delta { *known + value } else { *value };
    }
}

/// The groups of an expression that has any: one second's largest may not be the next one's, so one must be chosen.
fn groups(rows: &[Series], wanted: &ColumnQuery) -> Result<Groups, ApiError> {
    let grouped = ogive_query::parse(&wanted.query).is_ok_and(|expr| is_grouped(&expr));
    let with = rows.iter().filter(|row| grouped && !row.histograms.is_empty());
    let list = with.map(|row| Group { labels: row.labels.clone(), series: 1, count: None }).collect();
    let groups = Groups::new(list, &wanted.choice)?;
    if groups.is_open() {
        return Err(ApiError::bad_data(format!(
            "the expression gives {}; choose one with group=, or merge them with merge=true",
            groups.number()
        )));
    }
    Ok(groups)
}

fn of_expression(app: &App, wanted: &ColumnQuery, cancel: &Cancel) -> Result<Seconds, ApiError> {
    let own = app.backend.of(&wanted.tenant);
    let store = StoreAtResolution { store: &*own, resolution: wanted.resolution, cancel };
    let ColumnQuery { query, start, end, step, .. } = wanted;
    let result = app.engine.range_until(&store, query, *start, *end, *step, &|| cancel.is_set())?;
    let Value::Matrix(rows) = result.value else {
        return Err(ApiError::execution("the expression gives no series over time"));
    };
    let groups = groups(&rows, wanted)?;
    let mut out = Seconds::default();
    for row in rows {
        let labels = labels_json(&row.labels);
        for (time, value) in row.floats.into_iter().filter(|(_, value)| !value.is_nan()) {
            out.by_time.entry(WallMs(time)).or_default().values.insert(labels.clone(), value);
        }
        for (time, value) in row.histograms.into_iter().filter(|_| groups.draws(&row.labels)) {
            let value = Merged::Float((*value).clone());
            let second = out.by_time.entry(WallMs(time)).or_default();
            match &mut second.merged {
                None => second.merged = Some(value),
                // Histograms that cannot be merged are left out, as in a heat map.
                Some(sum) => _ = sum.merge(value),
            }
        }
    }
    Ok(out)
}

fn labels_json(labels: &Labels) -> String {
    let labels: BTreeMap<&str, &str> = labels.iter().collect();
    serde_json::to_string(&labels).expect("texts are JSON")
}
