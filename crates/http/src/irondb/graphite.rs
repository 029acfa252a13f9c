//! Graphite's names, tags and numbers, as graphite-web asks IRONdb for them: `/graphite/ACCOUNT[/PREFIX]/...`.
//!
//! Limits: an answer lists as many names as [`AccountRequest::limit`]; numbers come in steps that keep a series at
//! [`POINTS_GOAL`] or below, as long as a step of [`STEPS`] can, and names in a body of [`BODY_BYTES_MAX`].

use std::collections::BTreeMap;

use axum::extract::{Path, Request, State};
use axum::http::HeaderValue;
use axum::response::Response;
use ogive_irondb::graphite::lines::Sender;
use ogive_irondb::graphite::names::{Name, Node, Search, path};
use ogive_irondb::graphite::tags;
use ogive_irondb::rollup::rollups;
use ogive_irondb::tag_query::{self, Query};
use ogive_irondb::{body::Encoding, identity::Identity};
use ogive_model::{Ms, TimeRange, WallMs};
use serde_json::{Map, Value as Json, json};

use super::answer::{self, number};
use super::find::{MatchedStream, StreamSearch, find};
use super::paths::{self, AccountRequest};
use super::{streams, writes};
use crate::App;
use crate::ask::{Cancel, ask};
use crate::error::ApiError;
use crate::live::{SECOND, second_end};

/// 1 MiB: thousands of names with the metadata of `metrics/find`.
const BODY_BYTES_MAX: usize = 1 << 20;
/// The steps of datapoints: IRONdb's default rollups, and a day.
const STEPS: [Ms; 5] =
    [Ms::from_secs(60), Ms::from_secs(300), Ms::from_secs(1_800), Ms::from_secs(10_800), Ms::from_secs(86_400)];
/// 1,500 datapoints of a series: about as many as a graph has pixels.
const POINTS_GOAL: i64 = 1_500;

fn account(text: &str) -> Result<i64, ApiError> {
    text.parse().map_err(|_| ApiError::bad_data(format!("the account {text:?} is not a number")))
}

/// The account and the prefix of an address; without a prefix it is empty.
struct Scope {
    account: String,
    prefix: String,
}

impl Scope {
    fn new(params: &BTreeMap<String, String>) -> Self {
        let of = |name: &str| params.get(name).cloned().unwrap_or_default();
        Self { account: of("account"), prefix: of("prefix") }
    }

    fn wanted(&self, query: Query) -> Result<StreamSearch, ApiError> {
        let range = TimeRange::ALL;
        Ok(StreamSearch { account: account(&self.account)?, query, range })
    }
}

type Parts = Path<BTreeMap<String, String>>;

/// A name that can be drawn.
fn leaf(name: &str, stream: &Identity) -> Json {
    let data = json!({"uuid": stream.check, "name": stream.canonical(), "egress_function": "avg"});
    json!({"leaf": true, "name": name, "leaf_data": data})
}

/// Answers with names, limited to the requested number, and the total.
async fn listed(
    app: App,
    request: Request,
    wanted: impl FnOnce(&AccountRequest) -> Result<StreamSearch, ApiError>,
    make: impl FnOnce(Vec<MatchedStream>) -> Vec<Json> + Send + 'static,
) -> Response {
    let made = async {
        let asked = AccountRequest::new(&request)?;
        drop(request);
        let wanted = wanted(&asked)?;
        let (timeout, limit) = (asked.timeout, asked.limit);
        let found = move |app: &App, cancel: &Cancel| find(app, cancel, &asked.tenant, &wanted);
        let mut list = make(ask(&app, timeout, found).await?);
        let count = list.len();
        list.truncate(limit);
        Ok((list, count))
    };
    match made.await {
        Ok((list, count)) => {
            let mut response = answer::from_result(Ok(Json::Array(list)));
            response.headers_mut().insert("x-snowth-search-result-count", HeaderValue::from(count));
            response
        }
        Err(error) => answer::refusal(&error),
    }
}

/// `metrics/find?query=`: the names that a pattern finds at its level.
pub(super) async fn names(State(app): State<App>, Path(params): Parts, request: Request) -> Response {
    let scope = Scope::new(&params);
    let pattern = AccountRequest::new(&request).map(|asked| asked.params.get("query").unwrap_or("*").to_owned());
    let search = pattern.and_then(|pattern| Search::parse(&scope.prefix, &pattern).map_err(ApiError::bad_data));
    let search = match search {
        Ok(search) => search,
        Err(error) => return answer::refusal(&error),
    };
    let query = search.query().map_err(ApiError::bad_data);
    listed(app, request, |_| scope.wanted(query?), move |found| nodes(&search, &found)).await
}

/// Branches once each, before the leaves; both in order.
fn nodes(search: &Search, found: &[MatchedStream]) -> Vec<Json> {
    let (mut branches, mut leaves) = (Vec::new(), Vec::new());
    for stream in found {
        match search.node(&stream.identity.base) {
            Node::Branch(name) if branches.last() != Some(&name) => branches.push(name),
            Node::Branch(_) => {}
            Node::Leaf => {
                leaves.push(leaf(search.without_prefix(&path(&stream.identity)), &stream.identity));
            }
        }
    }
    branches.sort_unstable();
    branches.dedup();
    branches.into_iter().map(|name| json!({"leaf": false, "name": name})).chain(leaves).collect()
}

/// `tags/find?query=`: the streams that Graphite's expressions, or a tag query of IRONdb, find.
pub(super) async fn tagged(State(app): State<App>, Path(params): Parts, request: Request) -> Response {
    let scope = Scope::new(&params);
    let prefix = scope.prefix.clone();
    let wanted = |asked: &AccountRequest| {
        let text = asked.params.need("query")?;
        let is_own = ["and(", "or(", "not("].iter().any(|start| text.starts_with(start));
        let query = if is_own { tag_query::parse(text).map_err(|wrong| wrong.to_string()) } else { tags::parse(text) };
        scope.wanted(query.map_err(ApiError::bad_data)?)
    };
    let make = move |found: Vec<MatchedStream>| {
        let of = |stream: &MatchedStream| {
            let is_number = stream.kinds.contains(&"numeric");
            let name = path(&stream.identity);
            is_number.then_some(())?;
            Some(leaf(name.strip_prefix(&prefix)?, &stream.identity))
        };
        found.iter().filter_map(of).collect()
    };
    listed(app, request, wanted, make).await
}

/// Which numbers are wanted.
struct Lookup {
    start: WallMs,
    end: WallMs,
    leaves: Vec<Leaf>,
}

/// A series of the response: its name there, the stream of its numbers, and which of them.
struct Leaf {
    label: String,
    name: Name,
    field: String,
}

/// `series?start=&end=&name=`.
pub(super) async fn series(State(app): State<App>, Path(params): Parts, request: Request) -> Response {
    let scope = Scope::new(&params);
    let read = AccountRequest::new(&request).and_then(|asked| {
        let second = |name: &str| paths::instant(asked.params.need(name)?, name).map(|time| time.align_down(SECOND));
        let leaves = vec![named(&scope.prefix, asked.params.need("name")?)];
        let lookup = Lookup { start: second("start")?, end: second("end")?, leaves };
        Ok((asked, lookup))
    });
    drawn(&app, &scope, read).await
}

/// `POST series_multi`: several at once.
pub(super) async fn series_multi(State(app): State<App>, Path(params): Parts, request: Request) -> Response {
    let scope = Scope::new(&params);
    let read = async {
        let asked = AccountRequest::new(&request)?;
        let held = crate::body::form(&app, request, BODY_BYTES_MAX).await?;
        Ok((asked, lookup(&scope.prefix, &held.bytes)?))
    };
    drawn(&app, &scope, read.await).await
}

fn lookup(prefix: &str, body: &[u8]) -> Result<Lookup, ApiError> {
    let wrong = |what: &str| ApiError::bad_data(format!("{what}; send {{\"start\": 0, \"end\": 60, \"names\": [..]}}"));
    let body: Json = serde_json::from_slice(body).map_err(|error| wrong(&format!("the body is not JSON: {error}")))?;
    let second = |name: &str| {
        let seconds = body[name].as_f64().filter(|seconds| seconds.abs() < 9e12);
        seconds
            .map(|seconds| second_end(seconds as i64))
            .ok_or_else(|| wrong(&format!("{name:?} is not a time in seconds")))
    };
    let names = body["names"].as_array().ok_or_else(|| wrong("\"names\" is not a list"))?;
    let leaf = |item: &Json| match item {
        Json::String(name) => Some(named(prefix, name)),
        item => described(item),
    };
    let leaves: Option<Vec<Leaf>> = names.iter().map(leaf).collect();
    let leaves = leaves.ok_or_else(|| wrong("a name is neither a text nor what metrics/find says of one"))?;
    Ok(Lookup { start: second("start")?, end: second("end")?, leaves })
}

fn named(prefix: &str, name: &str) -> Leaf {
    Leaf { label: name.into(), name: Name::parse(&format!("{prefix}{name}")), field: "average".into() }
}

/// A leaf as `metrics/find` described it: graphite-web's plug-in sends that back.
fn described(item: &Json) -> Option<Leaf> {
    let data = &item["leaf_data"];
    let stream = Identity::parse(data["uuid"].as_str()?, data["name"].as_str()?).ok()?;
    let name = Name { check: Some(stream.check), base: stream.base, tags: stream.tags };
    let field = match data["egress_function"].as_str().unwrap_or("avg") {
        "avg" => "average",
        other => other,
    };
    Some(Leaf { label: item["leaf_name"].as_str()?.into(), name, field: field.into() })
}

async fn drawn(app: &App, scope: &Scope, read: Result<(AccountRequest, Lookup), ApiError>) -> Response {
    let answered = async {
        let (asked, lookup) = read?;
        let account = account(&scope.account)?;
        ask(app, asked.timeout, move |app, cancel| points(app, cancel, &asked, account, &lookup)).await
    };
    answer::from_result(answered.await)
}

/// The finest step with no more than [`POINTS_GOAL`] points.
fn step(span: Ms) -> Ms {
    let is_fine = |step: &Ms| span / *step <= POINTS_GOAL;
    STEPS.into_iter().find(is_fine).unwrap_or(STEPS[STEPS.len() - 1])
}

/// Where the numbers of a column are.
#[derive(Clone, Copy)]
struct Slots {
    start: WallMs,
    step: Ms,
    count: usize,
}

fn points(app: &App, cancel: &Cancel, asked: &AccountRequest, account: i64, lookup: &Lookup) -> Result<Json, ApiError> {
    let step = step(lookup.end.since(lookup.start));
    let start = lookup.start.align_down(step);
    let count = paths::periods(start, lookup.end, step)?;
    let end = start + step * count as i64;
    let slots = Slots { start, step, count };
    let mut all = Map::new();
    for leaf in &lookup.leaves {
        cancel.hold((count + 1) * size_of::<Json>() + leaf.label.len())?;
        let column = column(app, cancel, asked, account, leaf, slots)?;
        all.insert(leaf.label.clone(), column);
    }
    let (from, to) = (start.to_secs(), end.to_secs());
    Ok(json!({"from": from, "to": to, "step": step / SECOND, "series": all}))
}

/// The numbers of every stream with this name, in steps.
fn column(
    app: &App,
    cancel: &Cancel,
    asked: &AccountRequest,
    account: i64,
    leaf: &Leaf,
    Slots { start, step, count }: Slots,
) -> Result<Json, ApiError> {
    let end = start + step * count as i64;
    let range = TimeRange { start: start.saturating_sub(Ms(1)), end };
    let wanted = StreamSearch { account, query: leaf.name.query(), range };
    let mut numbers = Vec::new();
    for found in find(app, cancel, &asked.tenant, &wanted)? {
        if leaf.name.is(&found.identity) {
            numbers.extend(streams::read(app, cancel, &asked.tenant, &found.identity, start..end)?.numbers());
        }
    }
    numbers.sort_by_key(|point| point.time_ms);
    let field = |rollup: ogive_irondb::rollup::Rollup| {
        let unknown = || ApiError::bad_data(format!("the egress_function {:?} is not known; ask for avg", leaf.field));
        rollup.field(&leaf.field).map(number).ok_or_else(unknown)
    };
    let slots = rollups(&numbers, start.0, step.0, count).into_iter();
    slots.map(|slot| slot.map_or(Ok(Json::Null), field)).collect()
}

/// `POST /graphite/ACCOUNT/UUID/NAME`: lines for a check.
pub(super) async fn write(State(app): State<App>, Path(params): Parts, request: Request) -> Response {
    let of = |name: &str| params.get(name).cloned().unwrap_or_default();
    let sender = account(&of("account"))
        .and_then(|account| Ok(Sender { account, check: paths::check(&of("prefix"))?, name: of("name") }));
    match sender {
        Ok(sender) => writes::taken(&app, Encoding::Graphite(sender), request).await,
        Err(error) => answer::refused_write(&error, 1),
    }
}
