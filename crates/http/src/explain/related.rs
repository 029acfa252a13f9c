//! `/v1/explain/related`: which other histograms changed in the time of a box.
//!
//! Format:
//! `{"status","data":{"job":[..],"compared","complete","rows":[{"name","query","unit","inside","outside","verdict","times",
//! "sentence","words"}..]},"warnings"}`. The series of a name together in (`from`, `to`] are compared with the same in
//! the rest of (`start`, `end`] by the test of `/v1/compare`; those that differ are listed, the surest first.
//! Invariants: candidates are the histograms of the jobs that the expression's series have, and all where these have
//! none; the names of the expression itself are left out. Series are read one after the other, once each.
//! Limits: [`NAMES_MAX`] names.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ogive_hist::{Distance, Histogram};
use ogive_model::{METRIC_NAME, MatchOp, Matcher, Ms, Resolution, RollupUse, Selection, TimeRange, WallMs};
use ogive_query::ast::DurationScope;
use serde_json::{Value, json};

use super::super::App;
use super::super::ask::{Cancel, ask};
use super::super::error::{self, ApiError};
use super::super::merged::{BINS_READ_MAX, Merged};
use super::super::params::Params;
use super::super::shape::{Shape, shape};
use super::super::source_cells::{LOOKBACK, Span};
use super::super::sources;
use super::{Area, ExplainRequest, common_step, wanted};

/// 500: two sums of 1,000 bins for each are 12 MB.
const NAMES_MAX: usize = 500;

/// Chance exceeds twice the noise floor once in fifteen times, and three times hardly ever: many names are compared at
/// once.
const FLOORS: f64 = 3.0;

/// Quantiles whose change is put into words.
const QUANTILES: [f64; 2] = [0.5, 0.99];

/// The label by which series are related.
const JOB: &str = "job";

/// The series of one name together: in the time of the box, and in the rest.
struct Both {
    inside: Histogram<f64>,
    outside: Histogram<f64>,
    unit: String,
}

/// The result over all names.
struct RelatedResult {
    jobs: BTreeSet<String>,
    names: BTreeMap<String, Option<Both>>,
    is_cut: bool,
    warnings: Vec<String>,
}

pub(in super::super) async fn get(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let wanted = wanted(&params)?;
    let answer = ask(&app, params.duration("timeout")?, move |app, cancel| {
        let found = found(app, &wanted, cancel)?;
        Ok(answer(&found, wanted.rows).to_string().into_bytes())
    });
    Ok(error::json(StatusCode::OK, answer.await?))
}

fn found(app: &App, wanted: &ExplainRequest, cancel: &Cancel) -> Result<RelatedResult, ApiError> {
    let expr = ogive_query::parse(&wanted.query)
        .map_err(|error| ApiError::bad_data(format!("invalid parameter \"query\": {error}")))?;
    let scope = DurationScope { step: Ms(1_000), range: wanted.end - wanted.start };
    let leaf = match shape(&expr, scope) {
        Shape::Cells(leaf) | Shape::Windows(leaf) => leaf,
        Shape::Evaluated(why) => {
            return Err(ApiError::execution(format!("only sums of histograms have related ones: {why}")));
        }
    };
    let back = |time: WallMs| time.saturating_sub(leaf.offset);
    let (start, end) = (back(wanted.start), back(wanted.end));
    let area = Area { from: back(wanted.area.from), to: back(wanted.area.to), ..wanted.area };
    let store = app.backend.of(&wanted.tenant);
    let (mut own, mut jobs) = (BTreeSet::new(), BTreeSet::new());
    let range = TimeRange { start, end };
    cancel.each_definition(&*store, leaf.matchers, range, |definition| {
        own.insert(definition.labels.metric_name().to_owned());
        let job = definition.labels.get(JOB);
        if !job.is_empty() {
            jobs.insert(job.to_owned());
        }
        Ok(())
    })?;
    let mut found = RelatedResult { jobs, names: BTreeMap::new(), is_cut: false, warnings: Vec::new() };
    let step = common_step([area.from, area.to, start, end]);
    let aligned = Resolution::Aligned { step, use_as: RollupUse::Together };
    let span = Span { from: start, end, resolution: wanted.resolution.unwrap_or(aligned) };
    let selection = Selection {
        samples_max: BINS_READ_MAX,
        resolution: span.resolution,
        ..Selection::new(candidates(&found.jobs)?, TimeRange { start: start.saturating_sub(LOOKBACK), end })
    };
    let warnings = cancel.each_series(&*store, &selection, |series| {
        let name = series.labels.metric_name().to_owned();
        if own.contains(&name) || series.histograms.times.is_empty() {
            return Ok(());
        }
        if !found.names.contains_key(&name) && found.names.len() >= NAMES_MAX {
            found.is_cut = true;
            return Ok(());
        }
        let unit = series.meta.unit.clone();
        let new = || {
            Some(Both {
                inside: Histogram::<u64>::log_linear().to_float(),
                outside: Histogram::<u64>::log_linear().to_float(),
                unit,
            })
        };
        let both = found.names.entry(name).or_insert_with(new);
        let cells = sources::source(series, span).cells;
        // Bins of other schemes have no common sum: such a name is left out.
        let is_one =
            cells.into_iter().all(|cell| both.as_mut().is_some_and(|both| both.add(cell.to, cell.value, area)));
        if !is_one {
            *both = None;
        }
        Ok(())
    })?;
    found.warnings = warnings;
    Ok(found)
}

/// Histograms of these jobs, or all.
fn candidates(jobs: &BTreeSet<String>) -> Result<Vec<Matcher>, ApiError> {
    let wrong = |error: String| ApiError::internal(format!("a matcher of jobs: {error}"));
    let list = jobs.iter().map(|job| regex_escaped(job)).collect::<Vec<_>>().join("|");
    let mut out = vec![Matcher::new(METRIC_NAME, MatchOp::Regex, ".+").map_err(wrong)?];
    if !jobs.is_empty() {
        out.push(Matcher::new(JOB, MatchOp::Regex, list).map_err(wrong)?);
    }
    Ok(out)
}

/// The text as a pattern that matches only it.
fn regex_escaped(text: &str) -> String {
    let escaped = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii() { format!("{c}") } else { format!("\\{c}") }
    };
    text.chars().map(escaped).collect()
}

impl Both {
    /// Adds a cell that ends at `to`; false when its bins are of another scheme.
    fn add(&mut self, to: WallMs, value: Merged, area: Area) -> bool {
        let is_then = area.from < to && to <= area.to;
        let side = if is_then { &mut self.inside } else { &mut self.outside };
        let value = value.into_float();
        if side.count == 0.0 {
            *side = value;
            return true;
        }
        side.merge(&value).is_ok()
    }
}

fn answer(found: &RelatedResult, rows_max: usize) -> Value {
    let all = found.names.iter().filter_map(|(name, both)| Some((name, both.as_ref()?)));
    let differing = all.filter_map(|(name, both)| {
        let distance = both.outside.distance(&both.inside)?;
        distance.verdict(FLOORS).differs().then_some((name, both, distance))
    });
    let mut rows: Vec<(&String, &Both, Distance)> = differing.collect();
    rows.sort_by(|a, b| times(&b.2).total_cmp(&times(&a.2)).then_with(|| a.0.cmp(b.0)));
    let rows: Vec<Value> = rows.iter().take(rows_max).map(|row| written(row, &found.jobs)).collect();
    let data = json!({
        "job": found.jobs, "compared": found.names.len(), "complete": !found.is_cut, "rows": rows,
    });
    json!({"status": "success", "data": data, "warnings": found.warnings})
}

/// How many times its noise floor the distance is.
fn times(distance: &Distance) -> f64 {
    distance.log.as_ref().map_or(0.0, ogive_hist::LogDistance::floors)
}

fn written((name, both, distance): &(&String, &Both, Distance), jobs: &BTreeSet<String>) -> Value {
    let durations = both.unit == "s";
    let changes = both.outside.changes(&both.inside, &QUANTILES);
    json!({
        "name": name, "query": selector(name, jobs), "unit": both.unit, "inside": both.inside.count, "outside": both.outside.count,
        "verdict": distance.verdict(FLOORS).word(), "times": times(distance), "sentence": distance.sentence(FLOORS, durations),
        "words": changes.iter().map(|change| change.words(durations)).collect::<Vec<_>>().join(", "),
    })
}

/// The series of a name that were compared, as PromQL.
fn selector(name: &str, jobs: &BTreeSet<String>) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"));
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    let mut matchers = if is_plain { Vec::new() } else { vec![format!("{METRIC_NAME}={}", quoted(name))] };
    match jobs.first() {
        Some(job) if jobs.len() == 1 => matchers.push(format!("{JOB}={}", quoted(job))),
        Some(_) => {
            let list = jobs.iter().map(|job| regex_escaped(job)).collect::<Vec<_>>().join("|");
            matchers.push(format!("{JOB}=~{}", quoted(&list)));
        }
        None => {}
    }
    let matchers = if matchers.is_empty() { String::new() } else { format!("{{{}}}", matchers.join(",")) };
    if is_plain { format!("{name}{matchers}") } else { matchers }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::{Value, json};

    use super::*;
    use crate::tests::Server;

    const T: i64 = 1_700_000_000;

    /// A hundred seconds; from the 51st to the 60th orders are slow, and so is the database of their job. Its cache
    /// never changes, and another job is slow at another time.
    async fn shop() -> Server {
        let server = Server::new();
        let names =
            [("orders_seconds", "shop"), ("sql_seconds", "shop"), ("cache_seconds", "shop"), ("mail_seconds", "post")];
        let series: Vec<Value> = names
            .iter()
            .map(|(name, job)| json!({"labels": {"__name__": name, "job": job}, "kind": "histogram", "unit": "s", "width_ms": 1000}))
            .collect();
        let mut samples = Vec::new();
        for second in 1..=100 {
            let is_slow = (51..=60).contains(&second);
            for (at, (name, _)) in names.iter().enumerate() {
                let slow = match *name {
                    "orders_seconds" | "sql_seconds" => is_slow,
                    "mail_seconds" => second <= 10,
                    _ => false,
                };
                let bins = if slow { json!({"1e-3": 20, "5e-1": 80}) } else { json!({"1e-3": 80, "2e-3": 20}) };
                samples.push(json!({"series": at, "time_ms": (T + second) * 1000, "histogram": {"bins": bins}}));
            }
        }
        let (status, body) = server.batch(1, json!(series), json!(samples)).await;
        assert_eq!((status, &body["accepted"]), (StatusCode::OK, &json!(400)));
        server
    }

    async fn asked(server: &Server, query: &str, from: i64, to: i64) -> Value {
        let range = format!("start={T}&end={}&from={}&to={}", T + 100, T + from, T + to);
        let (status, body) = server.get(&format!("/v1/explain/related?query={query}&{range}")).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        body["data"].clone()
    }

    #[tokio::test]
    async fn what_changed_with_it_is_named_and_what_did_not_is_not() {
        let server = shop().await;
        for query in ["orders_seconds", "sum(rate(orders_seconds[1m]))"] {
            let data = asked(&server, query, 50, 60).await;
            assert_eq!(
                (&data["job"], &data["compared"], &data["complete"]),
                (&json!(["shop"]), &json!(2), &json!(true)),
                "{query}"
            );
            let rows = data["rows"].as_array().unwrap();
            assert_eq!(rows.len(), 1, "{data}");
            let row = &rows[0];
            assert_eq!((&row["name"], &row["query"]), (&json!("sql_seconds"), &json!("sql_seconds{job=\"shop\"}")));
            assert_eq!((&row["inside"], &row["outside"]), (&json!(1_000.0), &json!(9_000.0)));
            assert!(row["verdict"] == "moved" && row["words"].as_str().unwrap().contains("slower"), "{row}");
            assert!(row["times"].as_f64().unwrap() > FLOORS, "{row}");
        }
        // At another time the database was faster than in the rest, of which those seconds are a part; the cache never
        // differs.
        let elsewhere = asked(&server, "orders_seconds", 20, 30).await;
        assert_eq!(elsewhere["rows"].as_array().unwrap().len(), 1, "{elsewhere}");
        assert!(elsewhere["rows"][0]["words"].as_str().unwrap().contains("faster"), "{elsewhere}");
        // The job of the mail has nothing else.
        let alone = asked(&server, "mail_seconds", 0, 10).await;
        assert_eq!((&alone["compared"], &alone["rows"]), (&json!(0), &json!([])));
    }

    #[tokio::test]
    async fn what_is_no_sum_of_histograms_is_refused() {
        let server = shop().await;
        let range = format!("start={T}&end={}&from={T}&to={}", T + 100, T + 10);
        let (status, body) = server.get(&format!("/v1/explain/related?query=orders_seconds*2&{range}")).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}");
        let (status, _) = server.get(&format!("/v1/explain/related?query=sum(&{range}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn selectors_are_promql() {
        let of = |name: &str, jobs: &[&str]| selector(name, &jobs.iter().map(|job| (*job).to_owned()).collect());
        for (found, expected) in [
            (of("a", &[]), "a"),
            (of("a", &["b"]), "a{job=\"b\"}"),
            (of("a", &["b.c", "d"]), "a{job=~\"b\\\\.c|d\"}"),
            (of("a.b", &["x\"y"]), "{__name__=\"a.b\",job=\"x\\\"y\"}"),
            (of("1a", &[]), "{__name__=\"1a\"}"),
        ] {
            assert_eq!(found, expected);
            assert!(ogive_query::parse(&found).is_ok(), "{found}");
        }
    }
}
