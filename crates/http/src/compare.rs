//! `/v1/compare`: the distribution of one range beside that of another, and whether they differ by more than chance.
//!
//! Format:
//! `{"status","data":{"unit","before":{"start","end","count","series"},"after":{..},"verdict","sentence","words","slower","distance",
//! "noise","times","floors","ks","ks_noise","quantiles":[{"q","before":[value,lo,hi],"after":[..],"change","bounds","words"}..]},"warnings"}`.
//! The range before is `before_start` to `before_end`, or that of `start` and `end` an `offset` earlier; its expression
//! is `before_query`, or the same.
//! Invariants: each cell of a range counts once; the test is that of `ogive hist diff` ([`Distance::verdict`]).

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ogive_hist::{Distance, FLOORS, Histogram, QuantileChange};
use ogive_model::{Ms, TimeRange, WallMs};
use serde_json::{Value, json};

use super::App;
use super::ask::{Cancel, ask};
use super::columns::{self, ColumnQuery, Columns, Distribution};
use super::error::{self, ApiError};
use super::groups::Choice;
use super::heatmap;
use super::params::Params;
use super::resolution::resolution;

/// The quantiles that are compared by default.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// What is compared.
#[derive(Clone, Copy, Debug)]
struct Ranges {
    before: TimeRange,
    after: TimeRange,
}

/// One side.
struct Side {
    columns: Columns,
    all: Histogram<f64>,
}

pub(super) async fn get(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let ranges = ranges(&params)?;
    let floors = floors(&params)?;
    let quantiles = Some(heatmap::quantiles(&params)?).filter(|list| !list.is_empty()).unwrap_or(QUANTILES.into());
    let wanted = ColumnQuery {
        query: params.need("query")?.to_owned(),
        start: WallMs(0),
        end: WallMs(0),
        step: Ms(1),
        quantiles: Vec::new(),
        tenant: params.tenant.clone(),
        resolution: resolution(&params)?,
        choice: Choice::from_params(&params)?,
        fit: false,
    };
    let other = match params.get("before_query").filter(|query| !query.is_empty()) {
        Some(query) => ColumnQuery { query: query.to_owned(), choice: Choice::default(), ..wanted.clone() },
        None => wanted.clone(),
    };
    let answer = ask(&app, params.duration("timeout")?, move |app, cancel| {
        let before = side(app, &other, ranges.before, cancel)?;
        let after = side(app, &wanted, ranges.after, cancel)?;
        Ok(answer(ranges, &before, &after, floors, &quantiles).to_string().into_bytes())
    });
    Ok(error::json(StatusCode::OK, answer.await?))
}

fn ranges(params: &Params) -> Result<Ranges, ApiError> {
    let time = |name: &str| {
        params.need(name)?;
        params.time(name)?.ok_or_else(|| ApiError::bad_data(format!("invalid parameter {name:?}: a time is needed")))
    };
    let after = TimeRange { start: time("start")?, end: time("end")? };
    let before = match params.duration("offset")? {
        Some(offset) if params.get("before_start").is_none() && params.get("before_end").is_none() => {
            TimeRange { start: after.start.saturating_sub(offset), end: after.end.saturating_sub(offset) }
        }
        Some(_) => return Err(ApiError::bad_data("give offset, or before_start and before_end, not both")),
        None => TimeRange { start: time("before_start")?, end: time("before_end")? },
    };
    for (name, TimeRange { start, end }) in [("before", before), ("after", after)] {
        // Their difference has to be a number as well.
        if start >= end || end.0.checked_sub(start.0).is_none() {
            return Err(ApiError::bad_data(format!("the range {name} ends before it starts")));
        }
    }
    Ok(Ranges { before, after })
}

fn floors(params: &Params) -> Result<f64, ApiError> {
    let Some(text) = params.get("floors") else { return Ok(FLOORS) };
    text.parse().ok().filter(|floors| (0.0..=1e6).contains(floors)).ok_or_else(|| {
        ApiError::bad_data(format!("invalid parameter \"floors\": {text:?} is not a number from 0 to 1000000"))
    })
}

/// The whole content of a range, as one column.
fn side(app: &App, wanted: &ColumnQuery, range: TimeRange, cancel: &Cancel) -> Result<Side, ApiError> {
    let wanted = ColumnQuery { start: range.end, end: range.end, step: range.length(), ..wanted.clone() };
    let mut columns = columns::columns(app, &wanted, cancel)?;
    match std::mem::take(&mut columns.distribution) {
        Distribution::Exact(Some(all)) => Ok(Side { columns, all: all.into_float() }),
        Distribution::Exact(None) => Ok(Side { columns, all: Histogram::<u64>::log_linear().to_float() }),
        Distribution::Unknown(why) => {
            Err(ApiError::execution(format!("the expression has no exact distribution to compare: {why}")))
        }
    }
}

fn answer(ranges: Ranges, before: &Side, after: &Side, floors: f64, quantiles: &[f64]) -> Value {
    let unit = if before.columns.series == 0 { &after.columns.unit } else { &before.columns.unit };
    let durations = unit == "s";
    let shown = |side: &Side, TimeRange { start, end }: TimeRange| {
        json!({
            "start": start.0 as f64 / 1e3, "end": end.0 as f64 / 1e3,
            "count": side.all.count, "series": side.columns.series,
        })
    };
    let mut warnings = before.columns.warnings.clone();
    warnings.extend(after.columns.warnings.iter().filter(|text| !before.columns.warnings.contains(text)).cloned());
    let changes = before.all.changes(&after.all, quantiles);
    let mut data = json!({
        "unit": unit, "before": shown(before, ranges.before), "after": shown(after, ranges.after), "floors": floors,
        "quantiles": changes.iter().map(|change| written(change, durations)).collect::<Vec<_>>(),
        "words": changes.iter().map(|change| change.words(durations)).collect::<Vec<_>>().join(", "),
    });
    let more = match before.all.distance(&after.all) {
        Some(distance) => judged(&distance, floors, durations),
        None => {
            let none = match (before.all.count > 0.0, after.all.count > 0.0) {
                (false, false) => "neither range has samples",
                (false, true) => "the range before has no samples",
                _ => "the range after has no samples",
            };
            json!({
                "verdict": "none", "sentence": format!("{none}: there is nothing to compare"), "slower": null,
                "distance": null, "noise": null, "times": null, "ks": null, "ks_noise": null,
            })
        }
    };
    let (Value::Object(all), Value::Object(more)) = (&mut data, more) else { unreachable!("both are objects") };
    all.extend(more);
    json!({"status": "success", "data": data, "warnings": warnings})
}

fn judged(distance: &Distance, floors: f64, durations: bool) -> Value {
    let log = distance.log;
    json!({
        "verdict": distance.verdict(floors).word(), "sentence": distance.sentence(floors, durations),
        "slower": log.map(|log| log.slower()), "distance": log.map(|log| log.emd), "noise": log.map(|log| log.noise),
        "times": log.map(|log| log.floors()), "ks": distance.ks, "ks_noise": distance.ks_noise,
    })
}

fn written(change: &QuantileChange, durations: bool) -> Value {
    let three = |found: ogive_hist::Quantile| json!([found.value, found.lo, found.hi]);
    json!({
        "q": change.q, "before": three(change.before), "after": three(change.after), "change": change.change,
        "bounds": change.bounds.map(|(low, high)| [low, high]), "differs": change.differs(), "words": change.words(durations),
    })
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::{Value, json};

    use crate::tests::Server;

    const T: i64 = 1_700_000_000;

    /// A hundred seconds of one distribution, and a hundred an hour later in which all took 1.3 times as long.
    async fn shop() -> Server {
        let server = Server::new();
        let series = json!([{"labels": {"__name__": "e_seconds"}, "kind": "histogram", "unit": "s", "width_ms": 1000}]);
        let of = |at: i64, bins: &Value| -> Vec<Value> {
            (1..=100).map(|i| json!({"series": 0, "time_ms": (at + i) * 1000, "histogram": {"bins": bins}})).collect()
        };
        let mut samples = of(T - 3600, &json!({"1e-2": 60, "2e-2": 35, "4e-2": 5}));
        samples.extend(of(T, &json!({"1.3e-2": 60, "2.6e-2": 35, "5.2e-2": 5})));
        let (status, body) = server.batch(1, series, json!(samples)).await;
        assert_eq!((status, &body["accepted"]), (StatusCode::OK, &json!(200)));
        server
    }

    #[tokio::test]
    async fn the_hour_before_was_faster() {
        let server = shop().await;
        let end = T + 100;
        for (query, rest) in [
            ("e_seconds", "offset=1h".to_owned()),
            ("sum(rate(e_seconds[1m]))", format!("before_start={}&before_end={}", T - 3600, T - 3500)),
        ] {
            let (status, body) = server.get(&format!("/v1/compare?query={query}&start={T}&end={end}&{rest}")).await;
            assert_eq!(status, StatusCode::OK, "{body}");
            let data = &body["data"];
            assert_eq!(
                (&data["before"]["count"], &data["after"]["count"]),
                (&json!(10_000.0), &json!(10_000.0)),
                "{query}"
            );
            assert_eq!((&data["verdict"], &data["unit"]), (&json!("moved"), &json!("s")), "{body}");
            let slower = data["slower"].as_f64().unwrap();
            assert!((slower - 0.3).abs() < 0.03, "{slower}");
            let words = data["words"].as_str().unwrap();
            assert!(words.starts_with("p50 2") && words.contains("% slower ("), "{words}");
            let change = &data["quantiles"][0];
            let (low, high) = (change["bounds"][0].as_f64().unwrap(), change["bounds"][1].as_f64().unwrap());
            assert!(
                low < change["change"].as_f64().unwrap() && low > 0.2 && high < 0.4 && change["differs"] == true,
                "{change}"
            );
        }
        // Another expression in the same range.
        let path =
            format!("/v1/compare?query=e_seconds&start={T}&end={end}&offset=0s&before_query=e_seconds%20offset%201h");
        let (_, body) = server.get(&path).await;
        assert_eq!(body["data"]["verdict"], "moved", "{body}");
        // Beside itself nothing differs, and a range without samples is said to be one.
        let path = format!("/v1/compare?query=e_seconds&start={T}&end={end}&offset=0s");
        let (_, body) = server.get(&path).await;
        assert_eq!(
            (&body["data"]["verdict"], &body["data"]["quantiles"][0]["words"]),
            (&json!("alike"), &json!("p50 the same"))
        );
        let path = format!("/v1/compare?query=e_seconds&start={T}&end={end}&offset=1d");
        let (_, body) = server.get(&path).await;
        assert_eq!(body["data"]["verdict"], "none", "{body}");
        assert!(body["data"]["sentence"].as_str().unwrap().contains("before has no samples"), "{body}");
    }

    #[tokio::test]
    async fn ranges_that_are_none_are_refused() {
        let server = shop().await;
        for (rest, words) in [
            ("start=9&end=1&offset=1h", "ends before"),
            ("start=1&end=9", "before_start"),
            ("start=1&end=9&offset=1h&before_start=1", "not both"),
            ("start=1&end=9&before_start=9&before_end=9", "range before"),
            ("start=1&end=9&offset=1h&floors=x", "floors"),
            ("start=1&end=9&offset=x", "duration"),
        ] {
            let (status, body) = server.get(&format!("/v1/compare?query=e_seconds&{rest}")).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{rest}: {body}");
            assert!(body["error"].as_str().unwrap().contains(words), "{rest}: {body}");
        }
        let (status, body) = server.get("/v1/compare?query=e_seconds*2&start=1&end=9&offset=1h").await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}");
    }
}
