//! `/v1/cardinality`: which names, labels, values and tenants make most series, and what grew since another time.
//!
//! Format:
//! `{"status","data":{"now":{"start","end","series"},"before":{..},"metrics":[{"name","now","before"}..],"labels":[..],
//! "pairs":[..],"tenants":[..],"grew":{"metrics":[..],"labels":[..],"pairs":[..],"tenants":[..]}}}`; `labels` count
//! values, the others series. Lists have the most first, those of `grew` what grew most.
//! Invariants: both counts are of series with a sample within two hours. A tenant sees itself alone; who is bound to
//! none and names none sees every one, and the other lists of the default one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use ogive_model::{Labels, Ms, Tenant, TimeRange, WallMs};
use serde_json::{Value, json};

use super::App;
use super::ask::{Cancel, ask};
use super::error::{ApiError, success};
use super::params::{self, Params};

/// 10 of each list, as in Prometheus.
const TOP: usize = 10;

/// What is active: series with a sample in the last two hours.
pub(super) const ACTIVE: Ms = Ms::from_secs(2 * 3_600);

/// A day: what a deployment changed is seen on the next.
const AGO: Ms = Ms::from_secs(24 * 3_600);

/// How many of each list are asked for.
pub(super) fn top(params: &Params) -> Result<usize, ApiError> {
    let Some(text) = params.get("limit") else { return Ok(TOP) };
    let limit = text.parse().ok().filter(|limit| *limit > 0);
    limit.ok_or_else(|| ApiError::bad_data(format!("limit {text:?} is not a positive number")))
}

/// The lists.
pub(super) async fn get(State(app): State<App>, headers: HeaderMap, params: Params) -> Result<Response, ApiError> {
    let top = top(&params)?;
    let ago = params.duration("ago")?.unwrap_or(AGO);
    if ago <= Ms::ZERO {
        return Err(ApiError::bad_data("the parameter \"ago\" must be longer than 0, such as 1d"));
    }
    let only = params::tenant(&headers)?;
    let now = app.now();
    let two_hours = |end: WallMs| TimeRange { start: end.saturating_sub(ACTIVE), end };
    let ranges = [two_hours(now), two_hours(now.saturating_sub(ago))];
    let data = ask(&app, params.duration("timeout")?, move |app, cancel| {
        let tenants = only.map_or_else(|| every_tenant(app), |only| BTreeSet::from([only]));
        let mut of_tenants = Vec::new();
        for tenant in tenants.iter().filter(|tenant| **tenant != params.tenant) {
            let count = |range| -> Result<u64, ApiError> { Ok(series(app, tenant, range, cancel)?.len() as u64) };
            let [now, before] = [count(ranges[0])?, count(ranges[1])?];
            of_tenants.push(Change { name: tenant.as_str().to_owned(), now, before });
        }
        let [now, before] = ranges.map(|range| series(app, &params.tenant, range, cancel));
        let (now, before) = (now?, before?);
        of_tenants.push(Change {
            name: params.tenant.as_str().to_owned(),
            now: now.len() as u64,
            before: before.len() as u64,
        });
        let [is, was] = [Counts::new(&now, cancel)?, Counts::new(&before, cancel)?];
        let lists = [
            ("metrics", changes(is.metrics(), was.metrics())),
            ("labels", changes(is.values(), was.values())),
            ("pairs", changes(is.pairs(), was.pairs())),
            ("tenants", of_tenants.into_iter().filter(|one| one.now + one.before > 0).collect()),
        ];
        let window = |range: TimeRange, series: u64| json!({"start": range.start.0 as f64 / 1e3, "end": range.end.0 as f64 / 1e3, "series": series});
        let mut data =
            json!({"now": window(ranges[0], is.series), "before": window(ranges[1], was.series), "grew": {}});
        for (name, mut list) in lists {
            data["grew"][name] = grown(list.clone(), top);
            list.sort_unstable_by(|a, b| b.now.cmp(&a.now).then_with(|| a.name.cmp(&b.name)));
            data[name] = list.iter().take(top).map(Change::json).collect();
        }
        Ok(data)
    });
    Ok(success(&data.await?))
}

fn series(app: &App, tenant: &Tenant, range: TimeRange, cancel: &Cancel) -> Result<BTreeSet<Labels>, ApiError> {
    let store = app.backend.of(tenant);
    Ok(cancel.opening(|opening| store.label_sets(&[], range, usize::MAX, opening))?)
}

/// Those that have blocks, and those that sent something since the start.
fn every_tenant(app: &App) -> BTreeSet<Tenant> {
    let (senders, _) = app.counters.senders.rows(None);
    let sent = senders.into_iter().map(|(sender, _)| sender.tenant);
    app.backend.tenants().into_iter().chain(sent).chain([Tenant::default()]).collect()
}

/// How often something is there, and was.
#[derive(Clone, Debug)]
struct Change {
    name: String,
    now: u64,
    before: u64,
}

impl Change {
    fn json(&self) -> Value {
        json!({"name": self.name, "now": self.now, "before": self.before})
    }
}

type Named = (String, u64);

fn changes(now: impl Iterator<Item = Named>, before: impl Iterator<Item = Named>) -> Vec<Change> {
    let mut all: BTreeMap<String, Change> = BTreeMap::new();
    for (name, now) in now {
        all.insert(name.clone(), Change { name, now, before: 0 });
    }
    for (name, before) in before {
        all.entry(name.clone()).or_insert(Change { name, now: 0, before: 0 }).before = before;
    }
    all.into_values().collect()
}

/// The `top` that grew most.
fn grown(mut all: Vec<Change>, top: usize) -> Value {
    all.retain(|one| one.now > one.before);
    all.sort_unstable_by(|a, b| (b.now - b.before).cmp(&(a.now - a.before)).then_with(|| a.name.cmp(&b.name)));
    all.iter().take(top).map(Change::json).collect()
}

/// How often each label is there.
#[derive(Default)]
pub(super) struct Counts<'a> {
    series: u64,
    /// Of all pairs.
    bytes: usize,
    of_metric: HashMap<&'a str, u64>,
    of_pair: HashMap<(&'a str, &'a str), u64>,
    values: BTreeMap<&'a str, HashSet<&'a str>>,
}

/// Entries of the maps for one pair, with their empty places.
const ENTRY_BYTES: usize = 160;

/// A pair as a text beside its count, while the greatest are looked for.
const NAME_BYTES: usize = 48;

impl<'a> Counts<'a> {
    /// Of the series in `all`.
    pub(super) fn new(all: &'a BTreeSet<Labels>, cancel: &Cancel) -> Result<Self, ApiError> {
        let mut counts = Self::default();
        for labels in all {
            cancel.check()?;
            cancel.hold(counts.add(labels.iter()) * ENTRY_BYTES)?;
        }
        cancel.hold(counts.of_pair.len() * NAME_BYTES + counts.bytes)?;
        Ok(counts)
    }

    /// Counts the labels of a series; how many of its pairs are new is returned.
    fn add(&mut self, labels: impl Iterator<Item = (&'a str, &'a str)>) -> usize {
        let before = self.of_pair.len();
        self.series += 1;
        for (name, value) in labels {
            if name == ogive_model::METRIC_NAME {
                *self.of_metric.entry(value).or_default() += 1;
            }
            *self.of_pair.entry((name, value)).or_default() += 1;
            if self.values.entry(name).or_default().insert(value) {
                self.bytes += name.len() + value.len();
            }
        }
        self.of_pair.len() - before
    }

    fn pairs(&self) -> impl Iterator<Item = Named> {
        self.of_pair.iter().map(|((name, value), count)| (format!("{name}={value}"), *count))
    }

    fn metrics(&self) -> impl Iterator<Item = Named> {
        self.of_metric.iter().map(|(name, count)| ((*name).to_owned(), *count))
    }

    fn values(&self) -> impl Iterator<Item = Named> {
        self.values.iter().map(|(name, values)| ((*name).to_owned(), values.len() as u64))
    }

    /// The answer of `/api/v1/status/tsdb`.
    pub(super) fn answer(&self, top: usize, range: TimeRange, samples: u64) -> Value {
        let bytes = self.values.iter().map(|(name, values)| {
            ((*name).to_owned(), values.iter().map(|value| (name.len() + value.len()) as u64).sum::<u64>())
        });
        json!({
            "headStats": {
                "numSeries": self.series, "numLabelPairs": self.of_pair.len(), "chunkCount": samples,
                "minTime": range.start.0, "maxTime": (range.start + ACTIVE).0,
            },
            "seriesCountByMetricName": greatest(self.metrics(), top),
            "labelValueCountByLabelName": greatest(self.values(), top),
            "memoryInBytesByLabelName": greatest(bytes, top),
            "seriesCountByLabelValuePair": greatest(self.pairs(), top),
        })
    }
}

/// The `top` greatest, then by name.
fn greatest(counts: impl Iterator<Item = (String, u64)>, top: usize) -> Vec<Value> {
    let mut counts: Vec<(String, u64)> = counts.collect();
    counts.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts.truncate(top);
    counts.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use serde_json::{Value, json};

    use crate::tests::Server;

    const DAY_MS: i64 = 86_400_000;

    #[tokio::test]
    async fn what_grew_since_yesterday_comes_first() {
        let server = Server::new();
        let now_ms = server.app.clock.wall() / 1_000_000;
        let one =
            |name: &str, host: u32| json!({"labels": {"__name__": name, "host": host.to_string()}, "kind": "float"});
        // Of `a` there were two series yesterday and are three now; of `b` there are five, which nobody knew; `c` went.
        let series: Vec<Value> = [("a", 3), ("b", 5), ("c", 4)]
            .into_iter()
            .flat_map(|(name, n)| (0..n).map(move |at| one(name, at)))
            .collect();
        let at = |series: usize, time_ms: i64| json!({"series": series, "time_ms": time_ms, "float": 1});
        let now = (0..8).map(|series| at(series, now_ms - 1_000));
        let before = [0, 1, 8, 9, 10, 11].map(|series| at(series, now_ms - DAY_MS - 1_000));
        let samples: Vec<Value> = before.into_iter().chain(now).collect();
        assert_eq!(server.batch(1, series.into(), samples.into()).await.0, StatusCode::OK);
        let (status, body) = server.get("/v1/cardinality").await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let data = &body["data"];
        let row = |name: &str, now: u64, before: u64| json!({"name": name, "now": now, "before": before});
        assert_eq!((&data["now"]["series"], &data["before"]["series"]), (&json!(8), &json!(6)));
        assert_eq!(data["metrics"], json!([row("b", 5, 0), row("a", 3, 2), row("c", 0, 4)]));
        assert_eq!(data["grew"]["metrics"], json!([row("b", 5, 0), row("a", 3, 2)]));
        assert_eq!(data["labels"], json!([row("host", 5, 4), row("__name__", 2, 2)]));
        assert_eq!(data["pairs"][0], row("__name__=b", 5, 0));
        assert_eq!(data["tenants"], json!([row("default", 8, 6)]));
        let of = async |path: &str| server.get(path).await;
        assert_eq!(of("/v1/cardinality?limit=1").await.1["data"]["metrics"], json!([row("b", 5, 0)]));
        assert_eq!(of("/v1/cardinality?ago=2d").await.1["data"]["before"]["series"], json!(0));
        for wrong in ["limit=0", "ago=0", "ago=x"] {
            assert_eq!(of(&format!("/v1/cardinality?{wrong}")).await.0, StatusCode::BAD_REQUEST, "{wrong}");
        }
        let other = Request::get("/v1/cardinality").header("x-scope-orgid", "other").body(Body::empty()).unwrap();
        let bytes = axum::body::to_bytes(server.send(other).await.into_body(), 1 << 20).await.unwrap();
        let data = &serde_json::from_slice::<Value>(&bytes).unwrap()["data"];
        assert_eq!((&data["now"]["series"], &data["tenants"]), (&json!(0), &json!([])));
    }
}
