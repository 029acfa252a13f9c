//! What is stored: `/find/ACCOUNT/tags`, `tag_cats` and `tag_vals`, by a query of tags.
//!
//! Limits: what is found is charged to the query; an answer lists [`AccountRequest::limit`] streams, and
//! `X-Snowth-Search-Result-Count` says how many there are.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{Path, Request, State};
use axum::http::HeaderValue;
use axum::response::Response;
use ogive_hist::openhistogram::encode_base64;
use ogive_irondb::identity::{self, CHECK, CHECK_TAGS, Identity};
use ogive_irondb::tag_query::{self, Candidate, Query};
use ogive_model::{Kind, METRIC_NAME, MatchOp, Matcher, Ms, Tenant, TimeRange, WallMs};
use serde_json::{Value as Json, json};

use super::answer::{self, number};
use super::check_tags::{self, Tags};
use super::paths::{AccountRequest, instant};
use super::streams::{self, EVER, Stream, equal};
use crate::App;
use crate::ask::{Cancel, ask};
use crate::error::ApiError;

/// A stream that a query finds.
pub(super) struct MatchedStream {
    pub(super) identity: Identity,
    pub(super) kinds: Vec<&'static str>,
    check_tags: Vec<String>,
}

impl MatchedStream {
    /// The kinds, with commas between them.
    fn kind(&self) -> String {
        self.kinds.join(",")
    }
}

/// 5 minutes: how fine activity is.
const MARK_S: i64 = 300;
/// 8 hours without a mark end a window of activity.
const GAP_S: i64 = 8 * 3_600;

/// Streams of an account in a range, and the tags of their checks.
pub(super) struct StreamSearch {
    pub(super) account: i64,
    pub(super) query: Query,
    pub(super) range: TimeRange,
}

/// Every stream that `wanted` finds.
pub(super) fn find(
    app: &App,
    cancel: &Cancel,
    tenant: &Tenant,
    wanted: &StreamSearch,
) -> Result<Vec<MatchedStream>, ApiError> {
    let tags = check_tags::read(app, cancel, tenant, None)?;
    let mut all: BTreeMap<Identity, Vec<&'static str>> = BTreeMap::new();
    cancel.each_definition(&*app.backend.of(tenant), &matchers(&wanted.query), wanted.range, |series| {
        let kind = match series.meta.kind {
            Kind::Histogram => "histogram",
            Kind::Text => "text",
            _ => "numeric",
        };
        let Some((mut identity, None)) = Identity::from_labels(&series.labels) else { return Ok(()) };
        let is_of_account = wanted.account == 0 || identity.account == 0 || identity.account == wanted.account;
        if identity.base == CHECK_TAGS || !is_of_account {
            return Ok(());
        }
        // Streams without an account are found in the requested one.
        if identity.account == 0 {
            identity.account = wanted.account;
        }
        cancel.hold(series.labels.memory_bytes() * 2)?;
        let kinds = all.entry(identity).or_default();
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
        Ok(())
    })?;
    let mut out = Vec::new();
    for (identity, kinds) in all {
        if let Some(found) = fitting(app, cancel, tenant, wanted, identity, kinds, &tags)? {
            out.push(found);
        }
    }
    Ok(out)
}

/// A stream, if the query finds it.
fn fitting(
    app: &App,
    cancel: &Cancel,
    tenant: &Tenant,
    wanted: &StreamSearch,
    identity: Identity,
    kinds: Vec<&'static str>,
    tags: &Tags,
) -> Result<Option<MatchedStream>, ApiError> {
    cancel.check()?;
    let check_tags = tags.get(&identity.check).cloned().unwrap_or_default();
    let pairs = check_tags::pairs(&check_tags);
    let mut candidate = Candidate { identity: &identity, kinds: &kinds, check_tags: &pairs, activity: None };
    if !wanted.query.finds(&candidate) && !wanted.query.asks_activity() {
        return Ok(None);
    }
    if wanted.query.asks_activity() {
        let found = streams::read(app, cancel, tenant, &identity, EVER)?;
        let times = times(&found);
        let Some((first, last)) = times.first().zip(times.last()) else { return Ok(None) };
        candidate.activity = Some((first / 1_000, last / 1_000));
        if !wanted.query.finds(&candidate) {
            return Ok(None);
        }
    }
    Ok(Some(MatchedStream { identity, kinds, check_tags }))
}

/// The matchers with which the store can look up a query.
pub(super) fn matchers(query: &Query) -> Vec<Matcher> {
    let mut out = vec![Matcher::new(CHECK, MatchOp::NotEqual, "").expect("an inequality needs no pattern")];
    out.extend(query.required("__name").map(|name| equal(METRIC_NAME, name)));
    out.extend(query.required("__check_uuid").map(|check| equal(CHECK, check)));
    out
}

/// Every time at which something was measured, ascending.
fn times(stream: &Stream) -> Vec<i64> {
    let points = stream.points.iter().map(|point| point.time_ms);
    let histograms = stream.histograms.iter().map(|(time_ms, _)| *time_ms);
    let mut all: Vec<i64> = points.chain(histograms).chain(stream.texts.iter().map(|(time_ms, _)| *time_ms)).collect();
    all.sort_unstable();
    all
}

/// The windows of activity: marks of five minutes, joined over gaps of up to eight hours.
fn activity(times: &[i64]) -> Vec<(i64, i64)> {
    let mut out: Vec<(i64, i64)> = Vec::new();
    for time_ms in times {
        let mark = time_ms.div_euclid(1_000 * MARK_S) * MARK_S;
        match out.last_mut() {
            Some((_, end)) if mark <= *end + GAP_S => *end = (*end).max(mark + MARK_S),
            _ => out.push((mark, mark + MARK_S)),
        }
    }
    out
}

/// The last two of each kind.
fn latest(stream: &Stream) -> Json {
    fn two<T>(list: &[T], one: impl Fn(&T) -> Json) -> Json {
        list.iter().rev().take(2).map(one).collect()
    }
    let mut out = json!({});
    if !stream.points.is_empty() {
        out["numeric"] = two(&stream.points, |point| json!([point.time_ms, number(point.value)]));
    }
    if !stream.texts.is_empty() {
        out["text"] = two(&stream.texts, |(time_ms, text)| json!([time_ms, text]));
    }
    if !stream.histograms.is_empty() {
        out["histogram"] =
            two(&stream.histograms, |(time_ms, histogram)| json!([time_ms, encode_base64(histogram).ok()]));
    }
    out
}

fn wanted(asked: &AccountRequest, account: &str) -> Result<StreamSearch, ApiError> {
    let account =
        account.parse().map_err(|_| ApiError::bad_data(format!("the account {account:?} is not a number")))?;
    let query = tag_query::parse(asked.params.get("query").unwrap_or_default());
    let query = query.map_err(|wrong| ApiError::bad_data(wrong.to_string()))?;
    let at = |name: &str| asked.params.get(name).map(|text| instant(text, name)).transpose();
    let start = at("activity_start_secs")?.map_or(WallMs::MIN, |start| start.saturating_sub(Ms(1)));
    let range = TimeRange { start, end: at("activity_end_secs")?.unwrap_or(WallMs::MAX) };
    Ok(StreamSearch { account, query, range })
}

/// Answers with the result of `make` over the streams found, and their number.
async fn answered(
    app: App,
    account: String,
    request: Request,
    make: impl FnOnce(&App, &Cancel, &AccountRequest, Vec<MatchedStream>) -> Result<Json, ApiError> + Send + 'static,
) -> Response {
    let made = async move {
        let asked = AccountRequest::new(&request)?;
        let wanted = wanted(&asked, &account)?;
        ask(&app, asked.timeout, move |app, cancel| {
            let found = find(app, cancel, &asked.tenant, &wanted)?;
            let count = found.len();
            Ok((make(app, cancel, &asked, found)?, count, count > asked.limit))
        })
        .await
    };
    match made.await {
        Ok((body, count, is_limited)) => {
            let mut response = answer::from_result(Ok(body));
            let headers = response.headers_mut();
            headers.insert("x-snowth-search-result-count", HeaderValue::from(count));
            headers.insert("x-snowth-search-result-count-is-estimate", HeaderValue::from_static("false"));
            if is_limited {
                headers.insert("x-snowth-results-limited", HeaderValue::from_static("1"));
            }
            response
        }
        Err(error) => answer::refusal(&error),
    }
}

pub(super) async fn tags(State(app): State<App>, Path(account): Path<String>, request: Request) -> Response {
    answered(app, account, request, |app, cancel, asked, found| {
        let wants = |name: &str| asked.params.get(name).is_some_and(|value| value != "0");
        if wants("count_only") {
            return Ok(json!({"count": found.len(), "estimate": false}));
        }
        let item = |found: &MatchedStream| {
            let identity = &found.identity;
            let mut item = json!({
                "uuid": identity.check, "check_tags": found.check_tags, "metric_name": identity.canonical(),
                "category": "reconnoiter", "type": found.kind(), "account_id": identity.account,
            });
            if wants("activity") || wants("latest") {
                let stream = streams::read(app, cancel, &asked.tenant, identity, EVER)?;
                if wants("activity") {
                    item["activity"] =
                        activity(&times(&stream)).into_iter().map(|(from, to)| json!([from, to])).collect();
                }
                if wants("latest") {
                    item["latest"] = latest(&stream);
                }
            }
            Ok(item)
        };
        found.iter().take(asked.limit).map(item).collect()
    })
    .await
}

pub(super) async fn categories(State(app): State<App>, Path(account): Path<String>, request: Request) -> Response {
    answered(app, account, request, |_, _, asked, found| {
        let all = found.iter().flat_map(pairs).map(|(category, _)| identity::part(&category, false).into_owned());
        Ok(all.collect::<BTreeSet<_>>().into_iter().take(asked.limit).map(Json::from).collect())
    })
    .await
}

pub(super) async fn values(State(app): State<App>, Path(account): Path<String>, request: Request) -> Response {
    answered(app, account, request, |_, _, asked, found| {
        let category = asked.params.get("category");
        let value = |found: &MatchedStream| match category {
            Some("__name") => vec![found.identity.base.clone()],
            Some("__check_uuid") => vec![found.identity.check.clone()],
            Some("__type") => found.kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            category => {
                let fits =
                    |(name, value): (String, String)| category.is_none_or(|wanted| wanted == name).then_some(value);
                pairs(found).filter_map(fits).map(|value| identity::part(&value, true).into_owned()).collect()
            }
        };
        let all: BTreeSet<String> = found.iter().flat_map(value).collect();
        Ok(all.into_iter().take(asked.limit).map(Json::from).collect())
    })
    .await
}

/// The tags of a stream and of its check.
fn pairs(found: &MatchedStream) -> impl Iterator<Item = (String, String)> {
    found.identity.tags.clone().into_iter().chain(check_tags::pairs(&found.check_tags))
}
