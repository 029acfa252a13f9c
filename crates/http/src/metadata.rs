//! `GET /api/v1/metadata`: what is known of each metric.
//!
//! Format: as the Prometheus API. What senders said comes first; a metric of which nobody said anything is described by
//! its series. `limit` bounds the metrics, `limit_per_metric` the entries of each.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ogive_model::{Kind, METRIC_NAME, MatchOp, Matcher, MetricKind, SeriesMeta, Temporality};
use serde_json::{Value, json};

use super::App;
use super::ask::ask;
use super::catalog::SeriesFilter;
use super::error::{self, ApiError};
use super::params::Params;
use ogive_observe::help;

/// An entry as a JSON object of three members, in its map and in the answer.
const ENTRY_BYTES: usize = 1024;

pub(super) async fn get(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let timeout = params.duration("timeout")?;
    let per_metric = params.number("limit_per_metric")?;
    let metric = params.get("metric").map(str::to_owned);
    let answer = ask(&app, timeout, move |app, cancel| {
        let mut wanted = SeriesFilter::new(&params)?;
        if let Some(metric) = &metric {
            let named = Matcher::new(METRIC_NAME, MatchOp::Equal, metric).map_err(ApiError::bad_data)?;
            wanted.matchers = vec![vec![named]];
        }
        let reported = app.metadata.entries(&wanted.tenant, metric.as_deref());
        let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        wanted.each(app, cancel, |series| {
            let name = series.labels.metric_name();
            if reported.contains_key(name)
                || told_as_part(name, |family| reported.get(family).map(|entries| entries[0].kind))
            {
                return Ok(());
            }
            let entry = json!({"type": type_of(&series.meta), "help": help(name), "unit": series.meta.unit});
            let entries = found.entry(name.to_owned()).or_default();
            if !entries.contains(&entry) {
                cancel.hold(ENTRY_BYTES + 2 * name.len())?;
                entries.push(entry);
            }
            Ok(())
        })?;
        cancel.hold(reported.values().flatten().map(|entry| ENTRY_BYTES + 2 * entry.help.len()).sum())?;
        for (name, entries) in reported {
            let object = |entry: &ogive_door::metadata::Entry| json!({"type": entry.kind.as_str(), "help": entry.help, "unit": entry.unit});
            found.insert(name, entries.iter().map(object).collect());
        }
        found.values_mut().for_each(|entries| entries.truncate(per_metric));
        let data: BTreeMap<_, _> = found.into_iter().take(wanted.limit).collect();
        Ok(json!({"status": "success", "data": data}).to_string())
    });
    Ok(error::json(StatusCode::OK, answer.await?))
}

/// Whether `name` is a part of a metric that was reported: of a classic histogram, a summary, or an OpenMetrics counter
/// or info.
fn told_as_part(name: &str, reported: impl Fn(&str) -> Option<MetricKind>) -> bool {
    let Some((family, part)) = name.rsplit_once('_') else { return false };
    let Some(kind) = reported(family) else { return false };
    match part {
        "total" => kind == MetricKind::Counter,
        "info" => kind == MetricKind::Info,
        "created" => kind != MetricKind::Gauge,
        _ => kind.family(name) == family,
    }
}

/// The type as clients of Prometheus name it.
fn type_of(meta: &SeriesMeta) -> &'static str {
    match (meta.kind, meta.temporality) {
        (Kind::Histogram, _) => "histogram",
        (Kind::Text, _) => "text",
        (Kind::Float, Temporality::Gauge) => "gauge",
        (Kind::Float, Temporality::Cumulative | Temporality::Delta) => "counter",
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::Tenant;
    use serde_json::json;

    use super::super::tests::Server;
    use super::*;

    #[tokio::test]
    async fn what_senders_said_comes_before_what_the_series_tell() {
        let server = Server::new();
        let float = |name: &str| json!({"labels": {"__name__": name}, "kind": "float"});
        let names = ["a_bucket", "a_count", "b_total", "c", "d_count"];
        let samples: Vec<Value> = (0..names.len()).map(|at| json!({"series": at, "time_ms": 1, "float": 1})).collect();
        server.batch(1, names.map(float).into_iter().collect(), samples.into()).await;
        let learn =
            |tenant: &Tenant, name: &str, kind, help: &str| server.app.metadata.learn(tenant, name, kind, help, "s");
        let default = Tenant::default();
        learn(&default, "a", MetricKind::Histogram, "one");
        learn(&default, "b", MetricKind::Counter, "two");
        learn(&default, "b", MetricKind::Counter, "too");
        learn(&Tenant::new("other").unwrap(), "e", MetricKind::Gauge, "theirs");
        let reported = |kind: &str, help: &str| json!({"type": kind, "help": help, "unit": "s"});
        let own = json!([{"type": "gauge", "help": "", "unit": ""}]);
        let all = json!({"a": [reported("histogram", "one")], "b": [reported("counter", "two"), reported("counter", "too")],
            "c": own, "d_count": own});
        assert_eq!(server.get("/api/v1/metadata").await.1["data"], all);
        assert_eq!(server.get("/api/v1/metadata?metric=c").await.1["data"], json!({"c": own}));
        let limited = json!({"a": [reported("histogram", "one")], "b": [reported("counter", "two")]});
        assert_eq!(server.get("/api/v1/metadata?limit=2&limit_per_metric=1").await.1["data"], limited);
        assert_eq!(server.get("/api/v1/metadata?limit_per_metric=x").await.0, StatusCode::BAD_REQUEST);
    }
}
