//! `/v1/explain`: which label values are over-represented among the samples of a box of time and value.
//!
//! Format:
//! `{"status","data":{"inside","outside","series","compared","complete","rows":[{"labels","inside","outside","series",
//! "share_inside","share_outside","difference":[low,high]}..]},"warnings"}`. Invariants: each cell of the range counts
//! once; a sample is inside when its cell ends in (`from`, `to`] and the middle of its bin lies between `lo` and `hi`,
//! and outside otherwise. Limits: [`ROWS_MAX`] rows.

mod related;
mod shares;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ogive_hist::{Count, Histogram};
use ogive_model::{Ms, Resolution, RollupUse, WallMs};
use ogive_query::ast::DurationScope;
use serde_json::json;

use super::App;
use super::ask::{Cancel, ask};
use super::error::{self, ApiError};
use super::merged::Merged;
use super::params::Params;
use super::resolution::resolution;
use super::shape::{Shape, shape};
use super::source_cells::{Source, Span};
use super::sources;
pub(super) use related::get as related;
use shares::{Ranking, Row, SeriesShare};

/// 200 rows are more than anybody reads.
const ROWS_MAX: usize = 200;
const ROWS_USUAL: usize = 20;

/// A box of time and value.
#[derive(Clone, Copy, Debug)]
struct Area {
    from: WallMs,
    to: WallMs,
    lo: f64,
    hi: f64,
}

/// The request.
struct ExplainRequest {
    query: String,
    start: WallMs,
    end: WallMs,
    area: Area,
    rows: usize,
    resolution: Option<Resolution>,
    tenant: ogive_model::Tenant,
}

pub(super) async fn get(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let wanted = wanted(&params)?;
    let answer = ask(&app, params.duration("timeout")?, move |app, cancel| answer(app, &wanted, cancel));
    Ok(error::json(StatusCode::OK, answer.await?))
}

fn wanted(params: &Params) -> Result<ExplainRequest, ApiError> {
    let time = |name: &str| {
        params.need(name)?;
        let time = params.time(name)?;
        time.ok_or_else(|| ApiError::bad_data(format!("invalid parameter {name:?}: a time is needed")))
    };
    let (start, end, from, to) = (time("start")?, time("end")?, time("from")?, time("to")?);
    if !(start <= from && from < to && to <= end) {
        return Err(ApiError::bad_data("the box must lie inside of the range: start <= from < to <= end"));
    }
    let value = |name: &str, open: f64| match params.get(name) {
        None => Ok(open),
        Some(text) => text
            .parse()
            .ok()
            .filter(|value: &f64| !value.is_nan())
            .ok_or_else(|| ApiError::bad_data(format!("invalid parameter {name:?}: {text:?} is not a number"))),
    };
    let (lo, hi) = (value("lo", f64::NEG_INFINITY)?, value("hi", f64::INFINITY)?);
    if lo > hi {
        return Err(ApiError::bad_data("invalid parameter \"lo\": it is above \"hi\""));
    }
    let rows = match params.get("limit") {
        None => ROWS_USUAL,
        Some(text) => text.parse().ok().filter(|rows| *rows <= ROWS_MAX).ok_or_else(|| {
            ApiError::bad_data(format!("invalid parameter \"limit\": {text:?} is not a number from 0 to {ROWS_MAX}"))
        })?,
    };
    let area = Area { from, to, lo, hi };
    let query = params.need("query")?.to_owned();
    Ok(ExplainRequest { query, start, end, area, rows, resolution: resolution(params)?, tenant: params.tenant.clone() })
}

fn answer(app: &App, wanted: &ExplainRequest, cancel: &Cancel) -> Result<Vec<u8>, ApiError> {
    let expr = ogive_query::parse(&wanted.query)
        .map_err(|error| ApiError::bad_data(format!("invalid parameter \"query\": {error}")))?;
    let (start, end, area) = (wanted.start, wanted.end, wanted.area);
    let scope = DurationScope { step: Ms(1_000), range: end - start };
    let leaf = match shape(&expr, scope) {
        Shape::Cells(leaf) | Shape::Windows(leaf) => leaf,
        Shape::Evaluated(why) => {
            return Err(ApiError::execution(format!("only sums of histograms can be explained: {why}")));
        }
    };
    let offset = leaf.offset;
    let step = common_step([area.from, area.to, start, end].map(|time| time - offset));
    let aligned = Resolution::Aligned { step, use_as: RollupUse::Together };
    let span = Span {
        from: start.saturating_sub(offset),
        end: end.saturating_sub(offset),
        resolution: wanted.resolution.unwrap_or(aligned),
    };
    let threads = app.engine.options().threads;
    let store = app.backend.of(&wanted.tenant);
    let found = sources::map(&*store, leaf.matchers, span, cancel, threads, &|source| counted(source, offset, area))?;
    let ranking = shares::rank(&found.list);
    let rows: Vec<_> = ranking.rows.iter().take(wanted.rows).map(|row| written(row, &ranking)).collect();
    let data = json!({
        "inside": ranking.inside, "outside": ranking.outside, "series": found.list.len(), "unit": found.unit,
        "compared": ranking.compared, "complete": !ranking.is_cut, "rows": rows,
    });
    Ok(json!({"status": "success", "data": data, "warnings": found.warnings}).to_string().into_bytes())
}

/// The width of the rollups that may be read: none straddles an edge of the box or of the range. An hour at the most.
fn common_step(edges: [WallMs; 4]) -> Ms {
    edges.into_iter().fold(Ms::from_secs(3_600), |step, edge| step.greatest_common(Ms(edge.0)))
}

fn written(row: &Row, ranking: &Ranking) -> serde_json::Value {
    let labels: serde_json::Map<String, serde_json::Value> =
        row.labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "labels": labels, "series": row.series, "inside": row.inside, "outside": row.outside,
        "share_inside": row.inside / ranking.inside, "share_outside": row.outside / ranking.outside,
        "difference": [row.difference.0, row.difference.1],
    })
}

/// What a series counted inside the box and outside it.
fn counted(source: &Source, offset: Ms, area: Area) -> SeriesShare {
    let mut out = SeriesShare { labels: source.labels.clone(), inside: 0.0, outside: 0.0 };
    for cell in &source.cells {
        let time = cell.to + offset;
        let is_then = area.from < time && time <= area.to;
        match &cell.value {
            Merged::Integer(value) => add(&mut out, value, is_then, area),
            Merged::Float(value) => add(&mut out, value, is_then, area),
        }
    }
    out
}

fn add<C: Count>(out: &mut SeriesShare, value: &Histogram<C>, is_then: bool, area: Area) {
    for bucket in value.buckets() {
        let count = bucket.count.to_f64();
        let middle = middle(bucket.lo, bucket.hi);
        if is_then && area.lo <= middle && middle <= area.hi {
            out.inside += count;
        } else {
            out.outside += count;
        }
    }
}

/// A representative value of a bin: the geometric mean where both ends have the same sign.
fn middle(lo: f64, hi: f64) -> f64 {
    if !lo.is_finite() {
        hi
    } else if !hi.is_finite() {
        lo
    } else if lo > 0.0 || hi < 0.0 {
        (lo * hi).sqrt().copysign(lo)
    } else {
        (lo + hi) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::{Value, json};

    use crate::tests::Server;

    const T: i64 = 1_700_000_000;

    /// Four series of a hundred seconds; from the 51st to the 60th, host b answers route /x slowly.
    async fn shop() -> Server {
        let server = Server::new();
        let mut series = Vec::new();
        let mut samples = Vec::new();
        for host in ["a", "b"] {
            for route in ["/x", "/y"] {
                let at = series.len();
                series.push(json!({"labels": {"__name__": "e_seconds", "host": host, "route": route}, "kind": "histogram", "unit": "s", "width_ms": 1000}));
                for second in 1..=100 {
                    let is_slow = (host, route) == ("b", "/x") && (51..=60).contains(&second);
                    let bins = if is_slow { json!({"1e-3": 20, "5e-1": 80}) } else { json!({"1e-3": 99, "5e-1": 1}) };
                    samples.push(json!({"series": at, "time_ms": (T + second) * 1000, "histogram": {"bins": bins}}));
                }
            }
        }
        let (status, body) = server.batch(1, json!(series), json!(samples)).await;
        assert_eq!((status, &body["accepted"]), (StatusCode::OK, &json!(400)));
        server
    }

    #[tokio::test]
    async fn the_labels_of_what_is_slow_are_named_with_their_counts() {
        let server = shop().await;
        for query in ["e_seconds", "sum(rate(e_seconds[1m]))", "sum%20by%20(host)%20(e_seconds)"] {
            let path = format!(
                "/v1/explain?query={query}&start={T}&end={}&from={}&to={}&lo=0.1&hi=1",
                T + 100,
                T + 50,
                T + 60
            );
            let (status, body) = server.get(&path).await;
            assert_eq!(status, StatusCode::OK, "{body}");
            let data = &body["data"];
            // 800 of the slow ones, and 1 of each second of the three others.
            assert_eq!(
                (&data["inside"], &data["outside"], &data["series"]),
                (&json!(830.0), &json!(39_170.0), &json!(4))
            );
            let rows: Vec<&Value> = data["rows"].as_array().unwrap().iter().map(|row| &row["labels"]).collect();
            assert_eq!(
                rows,
                [&json!({"host": "b", "route": "/x"}), &json!({"host": "b"}), &json!({"route": "/x"})],
                "{query}"
            );
            let first = &data["rows"][0];
            assert_eq!((&first["inside"], &first["outside"]), (&json!(800.0), &json!(9_200.0)));
            let difference = 800.0 / 830.0 - 9_200.0 / 39_170.0;
            let (low, high) = (first["difference"][0].as_f64().unwrap(), first["difference"][1].as_f64().unwrap());
            assert!(low < difference && difference < high && low > 0.6, "{first}");
        }
        // Without values the box is a stretch of time, in which all series count alike.
        let path = format!("/v1/explain?query=e_seconds&start={T}&end={}&from={}&to={}", T + 100, T + 50, T + 60);
        let (_, body) = server.get(&path).await;
        assert_eq!((&body["data"]["inside"], &body["data"]["rows"]), (&json!(4_000.0), &json!([])));
    }

    #[tokio::test]
    async fn boxes_that_are_none_are_refused() {
        let server = shop().await;
        for (rest, words) in [
            ("start=1&end=9&from=5&to=5", "inside of the range"),
            ("start=1&end=9&from=5&to=10", "inside of the range"),
            ("start=1&end=9&from=5", "to"),
            ("start=1&end=9&from=5&to=6&lo=2&hi=1", "above"),
            ("start=1&end=9&from=5&to=6&lo=NaN", "number"),
            ("start=1&end=9&from=5&to=6&limit=201", "200"),
        ] {
            let (status, body) = server.get(&format!("/v1/explain?query=e_seconds&{rest}")).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{rest}: {body}");
            assert!(body["error"].as_str().unwrap().contains(words), "{rest}: {body}");
        }
        let (status, body) = server.get("/v1/explain?query=e_seconds*2&start=1&end=9&from=5&to=6").await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}");
    }
}
