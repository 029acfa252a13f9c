//! `/v1/heatmap/groups`: the heat maps of the groups that `by` and `without` make, in parts of a sorted list.
//!
//! Format: as [`heatmap`](super::heatmap), with `groups`, each
//! `{"labels","series","count","quantile":[value,lo,hi],"columns"}`, where it has one, of which `columns` are how many
//! follow in a frame, or those themselves in JSON. Invariants: each cell of the range counts once, whatever window the
//! expression looks through; `lo` and `hi` bound the values of all groups, so that pictures of a part share a scale
//! with those of the others. Limits: [`LIMIT_MAX`] groups in an answer.

use std::collections::BTreeMap;
use std::io::Write as _;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use ogive_hist::Quantile;
use ogive_model::{Labels, WallMs};
use ogive_query::ast::DurationScope;
use serde_json::json;

use super::App;
use super::ask::{Cancel, ask};
use super::column_frame::{self, Timed};
use super::columns::{self, ColumnQuery, Columns};
use super::error::ApiError;
use super::groups::Choice;
use super::heatmap::{quantiles, sent, wants_frame};
use super::merged::Merged;
use super::params::Params;
use super::prometheus;
use super::prometheus_json;
use super::resolution::resolution;
use super::shape::{Leaf, Shape, shape};
use super::source_cells::{Source, cancelled};
use super::sources;
use super::widths::usual_width;

/// 100 pictures are more than a screen has room for.
const LIMIT_MAX: usize = 100;
const LIMIT_USUAL: usize = 24;

/// The sort key of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The greatest quantile first.
    Quantile,
    /// Most samples first.
    Count,
    Labels,
}

/// Which part of the list.
#[derive(Clone, Copy, Debug)]
struct Part {
    q: f64,
    order: Order,
    offset: usize,
    limit: usize,
}

/// A group with all its cells merged.
struct MergedGroup {
    labels: Labels,
    sources: Vec<Source>,
    all: Option<Merged>,
    quantile: Option<Quantile>,
}

impl MergedGroup {
    fn count(&self) -> f64 {
        self.all.as_ref().map_or(0.0, Merged::count)
    }
}

pub(super) async fn get(State(app): State<App>, headers: HeaderMap, params: Params) -> Result<Response, ApiError> {
    let as_frame = wants_frame(&headers);
    let (start, end, step) = prometheus::range(&params)?;
    let wanted = ColumnQuery {
        query: params.need("query")?.to_owned(),
        start,
        end,
        step,
        quantiles: Vec::new(),
        tenant: params.tenant.clone(),
        resolution: resolution(&params)?,
        choice: Choice::default(),
        fit: false,
    };
    let part = part(&params)?;
    let answer =
        ask(&app, params.duration("timeout")?, move |app, cancel| answer(app, &wanted, part, as_frame, cancel));
    Ok(sent(answer.await?, as_frame))
}

fn part(params: &Params) -> Result<Part, ApiError> {
    let order = match params.get("order") {
        None | Some("quantile") => Order::Quantile,
        Some("count") => Order::Count,
        Some("labels") => Order::Labels,
        Some(text) => {
            return Err(ApiError::bad_data(format!(
                "invalid parameter \"order\": {text:?} is not quantile, count or labels"
            )));
        }
    };
    let number = |name: &str, usual: usize, max: usize| match params.get(name) {
        None => Ok(usual),
        Some(text) => text.parse().ok().filter(|number| *number <= max).ok_or_else(|| {
            ApiError::bad_data(format!("invalid parameter {name:?}: {text:?} is not a number from 0 to {max}"))
        }),
    };
    let q = match *quantiles(params)? {
        [] => 0.99,
        [q] => q,
        _ => return Err(ApiError::bad_data("invalid parameter \"quantiles\": groups are sorted by one of them")),
    };
    Ok(Part { q, order, offset: number("offset", 0, usize::MAX)?, limit: number("limit", LIMIT_USUAL, LIMIT_MAX)? })
}

fn answer(app: &App, wanted: &ColumnQuery, part: Part, as_frame: bool, cancel: &Cancel) -> Result<Vec<u8>, ApiError> {
    let expr = ogive_query::parse(&wanted.query)
        .map_err(|error| ApiError::bad_data(format!("invalid parameter \"query\": {error}")))?;
    let scope = DurationScope { step: wanted.step, range: wanted.end - wanted.start };
    let leaf = match shape(&expr, scope) {
        Shape::Cells(leaf) | Shape::Windows(leaf) => leaf,
        Shape::Evaluated(why) => {
            return Err(ApiError::execution(format!("only sums of histograms are drawn group by group: {why}")));
        }
    };
    let grid = wanted.grid();
    let span = wanted.span(grid, leaf.offset);
    let mut found = sources::read(&*app.backend.of(&wanted.tenant), leaf.matchers, span, cancel)?;
    let width = usual_width(&found.list);
    let mut out = Columns { grid, width, unit: std::mem::take(&mut found.unit), ..Columns::default() };
    out.warnings = std::mem::take(&mut found.warnings);
    let mut list = wholes(&mut out, &leaf, found.list, part.q, cancel)?;
    sort(&mut list, part.order);
    let total = list.len();
    let bounds = bounds(&list);
    let shown = list.drain(part.offset.min(total)..part.offset.saturating_add(part.limit).min(total));
    let mut groups = Vec::new();
    for whole in shown {
        cancelled(cancel)?;
        groups.push(columned(&mut out, &leaf, whole));
    }
    Ok(if as_frame { framed(&out, total, bounds, &groups) } else { written(&out, total, bounds, &groups) })
}

/// Merges the cells of each group.
fn wholes(
    out: &mut Columns,
    leaf: &Leaf<'_>,
    list: Vec<Source>,
    q: f64,
    cancel: &Cancel,
) -> Result<Vec<MergedGroup>, ApiError> {
    let mut groups: BTreeMap<Labels, Vec<Source>> = BTreeMap::new();
    for source in list {
        groups.entry(leaf.group(&source.labels)).or_default().push(source);
    }
    let mut wholes = Vec::with_capacity(groups.len());
    for (labels, sources) in groups {
        cancelled(cancel)?;
        let mut all = None;
        for cell in sources.iter().flat_map(|source| &source.cells) {
            out.merge(&mut all, cell.value.clone());
        }
        let quantile = match &all {
            None => None,
            Some(Merged::Integer(value)) => value.quantile(q),
            Some(Merged::Float(value)) => value.quantile(q),
        };
        wholes.push(MergedGroup { labels, sources, all, quantile });
    }
    Ok(wholes)
}

/// Sorts by the order; groups that are alike in it by their labels.
fn sort(list: &mut [MergedGroup], order: Order) {
    let value = |whole: &MergedGroup| match order {
        Order::Quantile => whole.quantile.map_or(f64::NEG_INFINITY, |found| found.value),
        Order::Count => whole.count(),
        Order::Labels => 0.0,
    };
    list.sort_by(|a, b| value(b).total_cmp(&value(a)).then_with(|| a.labels.cmp(&b.labels)));
}

/// The lower end of the lowest bin and the upper end of the highest bin of all groups.
fn bounds(list: &[MergedGroup]) -> Option<(f64, f64)> {
    let of = |merged: &Merged| match merged {
        Merged::Integer(value) => ends(value.buckets().map(|bucket| (bucket.lo, bucket.hi))),
        Merged::Float(value) => ends(value.buckets().map(|bucket| (bucket.lo, bucket.hi))),
    };
    let each = list.iter().filter_map(|whole| of(whole.all.as_ref()?));
    each.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

fn ends(buckets: impl Iterator<Item = (f64, f64)>) -> Option<(f64, f64)> {
    buckets.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// A group and its columns.
struct Columned {
    head: serde_json::Map<String, serde_json::Value>,
    columns: Columns,
}

fn columned(out: &mut Columns, leaf: &Leaf<'_>, whole: MergedGroup) -> Columned {
    let mut columns = Columns { grid: out.grid, width: out.width, ..Columns::default() };
    let labels: BTreeMap<&str, &str> = whole.labels.iter().collect();
    let mut head = serde_json::Map::new();
    head.insert("labels".into(), json!(labels));
    head.insert("series".into(), json!(whole.sources.len()));
    head.insert("count".into(), json!(whole.count().to_string()));
    if let Some(found) = whole.quantile {
        head.insert("quantile".into(), json!([found.value, found.lo, found.hi]));
    }
    let mut all = None;
    for cell in whole.sources.into_iter().flat_map(|source| source.cells) {
        columns.put(cell, leaf.offset, &mut all);
    }
    for warning in columns.warnings.drain(..) {
        if !out.warnings.contains(&warning) {
            out.warnings.push(warning);
        }
    }
    Columned { head, columns }
}

/// The envelope around the groups.
fn envelope(out: &Columns, total: usize, bounds: Option<(f64, f64)>, groups: &[u8]) -> Vec<u8> {
    let mut text = b"{\"status\":\"success\",\"data\":{".to_vec();
    let grid = out.grid;
    for (name, ms) in [("start", grid.start.0), ("end", grid.end.0), ("step", grid.step.0), ("width", out.width.0)] {
        write!(text, "\"{name}\":").expect("writes to memory");
        prometheus_json::time(&mut text, ms);
        text.push(b',');
    }
    let (lo, hi) = bounds.unzip();
    write!(
        text,
        "\"unit\":{},\"groups_total\":{total},\"lo\":{},\"hi\":{},\"groups\":[",
        json!(out.unit),
        json!(lo),
        json!(hi)
    )
    .expect("writes to memory");
    text.extend_from_slice(groups);
    writeln!(text, "]}},\"warnings\":{}}}", json!(out.warnings)).expect("writes to memory");
    text
}

fn framed(out: &Columns, total: usize, bounds: Option<(f64, f64)>, groups: &[Columned]) -> Vec<u8> {
    let heads: Vec<String> = groups
        .iter()
        .map(|group| {
            let mut head = group.head.clone();
            head.insert("columns".into(), json!(group.columns.by_time.len()));
            json!(head).to_string()
        })
        .collect();
    let list: Vec<Timed<'_>> = groups
        .iter()
        .flat_map(|group| {
            let columns = &group.columns;
            columns.by_time.iter().map(|(time, value)| Timed { time: WallMs(*time), from: columns.begin(*time), value })
        })
        .collect();
    column_frame::frame(&envelope(out, total, bounds, heads.join(",").as_bytes()), &list)
}

fn written(out: &Columns, total: usize, bounds: Option<(f64, f64)>, groups: &[Columned]) -> Vec<u8> {
    let mut text = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        let head = json!(group.head).to_string();
        text.extend_from_slice(head.trim_end_matches('}').as_bytes());
        text.extend_from_slice(b",\"columns\":[");
        for (at, (time, value)) in group.columns.by_time.iter().enumerate() {
            if at > 0 {
                text.push(b',');
            }
            columns::column_since(&mut text, WallMs(*time), group.columns.begin(*time), Some(value), &[]);
        }
        text.extend_from_slice(b"]}");
    }
    envelope(out, total, bounds, &text)
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::{Value, json};

    use crate::tests::Server;

    const T: i64 = 1_700_000_000;

    /// Three routes: /a has most samples, /c is slowest, and each has ten cells of two instances.
    async fn routes() -> Server {
        let server = Server::new();
        let routes = [("/a", 50, "1e-3"), ("/b", 5, "2e-3"), ("/c", 1, "5e-1")];
        let series: Vec<Value> = routes
            .iter()
            .flat_map(|(route, ..)| {
                ["x", "y"].map(|host| {
                    json!({"labels": {"__name__": "g_seconds", "route": route, "host": host}, "kind": "histogram", "unit": "s", "width_ms": 1000})
                })
            })
            .collect();
        let samples: Vec<Value> = (0..6)
            .flat_map(|series| {
                let (_, count, bin) = routes[series / 2];
                (1..=10).map(move |at| {
                    json!({"series": series, "time_ms": (T + at) * 1000, "histogram": {"bins": {bin: count}}})
                })
            })
            .collect();
        let (status, body) = server.batch(1, json!(series), json!(samples)).await;
        assert_eq!((status, &body["accepted"]), (StatusCode::OK, &json!(60)));
        server
    }

    async fn groups(server: &Server, query: &str, more: &str) -> Value {
        let form: String = form_urlencoded::byte_serialize(query.as_bytes()).collect();
        let path = format!("/v1/heatmap/groups?query={form}&start={}&end={}&step=5{more}", T + 5, T + 10);
        let (status, body) = server.get(&path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        body["data"].clone()
    }

    fn names(data: &Value) -> Vec<&str> {
        data["groups"].as_array().unwrap().iter().map(|group| group["labels"]["route"].as_str().unwrap()).collect()
    }

    #[tokio::test]
    async fn groups_come_in_parts_of_a_sorted_list_with_each_cell_once() {
        let server = routes().await;
        for query in ["sum by (route) (g_seconds)", "sum by (route) (rate(g_seconds[1m]))"] {
            let data = groups(&server, query, "").await;
            assert_eq!(names(&data), ["/c", "/b", "/a"], "{query}");
            assert_eq!((&data["groups_total"], &data["unit"]), (&json!(3), &json!("s")));
            assert_eq!((&data["lo"], &data["hi"]), (&json!(0.001), &json!(0.51)));
            let counts = |at: usize| {
                let group = &data["groups"][at];
                let columns = group["columns"].as_array().unwrap().iter();
                let each: Vec<&str> = columns.map(|column| column["count"].as_str().unwrap()).collect();
                (group["count"].as_str().unwrap().to_owned(), group["series"].clone(), each.join(" "))
            };
            assert_eq!(counts(0), ("20".into(), json!(2), "10 10".into()));
            assert_eq!(counts(2), ("1000".into(), json!(2), "500 500".into()));
            let quantile = data["groups"][0]["quantile"].as_array().unwrap();
            assert!(quantile[1].as_f64().unwrap() >= 0.5 && quantile[2].as_f64().unwrap() <= 0.51, "{quantile:?}");
        }
        let query = "sum by (route) (g_seconds)";
        assert_eq!(names(&groups(&server, query, "&order=count").await), ["/a", "/b", "/c"]);
        assert_eq!(names(&groups(&server, query, "&order=labels").await), ["/a", "/b", "/c"]);
        assert_eq!(names(&groups(&server, query, "&order=count&offset=1&limit=1").await), ["/b"]);
        assert_eq!(names(&groups(&server, query, "&offset=3").await), [""; 0]);
        let none = groups(&server, "sum by (route) (nothing)", "").await;
        assert_eq!((&none["groups_total"], &none["lo"]), (&json!(0), &Value::Null));
    }

    #[tokio::test]
    async fn what_is_no_sum_or_no_part_is_refused() {
        let server = routes().await;
        for (query, words) in [
            ("query=g_seconds*2&step=1", "operator"),
            ("query=(&step=1", "query"),
            ("query=g_seconds&step=1&order=x", "order"),
            ("query=g_seconds&step=1&limit=101", "100"),
            ("query=g_seconds&step=1&offset=-1", "offset"),
            ("query=g_seconds&step=1&quantiles=0.5,0.9", "one of them"),
            ("query=g_seconds&step=1&quantiles=2", "0 to 1"),
        ] {
            let (status, body) = server.get(&format!("/v1/heatmap/groups?{query}&start={T}&end={T}")).await;
            assert!(status.is_client_error(), "{query}: {body}");
            assert!(body["error"].as_str().unwrap().contains(words), "{query}: {body}");
        }
    }
}
