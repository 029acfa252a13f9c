//! `/v1/stream`: Server-Sent Events with the value of an expression at each second that closed, and a correction when
//! it changed afterwards. The same loop streams CAQL, whose values are periods (`irondb/caql_stream.rs`).
//!
//! Format: `event: value` with `id: SECOND` and what `/api/v1/query` answers for that time, byte for byte; `event:
//! correction` the same of a second that was sent before; `event: gap` where seconds were left out. docs/stream.md has
//! the shapes.
//! Invariants: who applies every event, the later one of a second wins, has what a query answers later, as far back as
//! [`SECONDS`], or as the stream's [`Plan::kept_steps`].
//! Threads: one small task a stream; evaluations are queries. Limits: those of queries, and
//! [`Limits::STREAMS`](super::Limits::STREAMS) streams; [`SELECTORS_MAX`] selectors, [`EVENT_BYTES_MAX`] an event.
//! Corrections rest twenty times as long as making them took.
//! Failure: a wrong expression is a 400; an answer that is too large is an `error` event and the end of the stream.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_model::{METRIC_NAME, MatchOp, Matcher, Ms, Ns, Tenant, WallMs, WallNs};
use ogive_query::ast::{Edges, ExprKind, TimeShift};
use tokio::sync::mpsc;

use super::App;
use super::ask::{Cancel, ask, blocking};
use super::error::ApiError;
use super::live::{Events, SECOND, event, last_event, second_end};
use super::params::Params;
use super::peer::Asker;
use super::pieces::Written;
use super::prometheus_json::Answer;
use super::resolution::{StoreAtResolution, resolution};
use super::streams::Guard;
use super::views::{Views, shown};
use ogive_storage::live::{Changing, LATENESS_MS, RecentLease, RecentReader, SECONDS};

/// 32 selectors: each is a watch of the store's shards.
pub(super) const SELECTORS_MAX: usize = 32;
/// 1 MiB: some ten thousand numbers, which `ogive stream` reads as a line; a larger result belongs in a recording rule.
const EVENT_BYTES_MAX: usize = 1 << 20;
/// Later data causes corrections.
const LATENESS_MAX: Ms = Ms::from_secs(60);
/// An hour between two values.
const STEP_MAX: Ms = Ms::from_secs(3_600);
/// 60 seconds are caught up with; a reader that was away for longer queries `/api/v1/query_range`.
const BEHIND_MAX: Ms = Ms::from_secs(60);
/// 10 s for a value, and for a check of what changed.
const TIMEOUT: Ms = Ms::from_secs(10);
/// A comment every 15 s keeps proxies from closing a stream whose values are rare.
const KEEP_ALIVE: Ms = Ms::from_secs(15);
/// Only classic views have the label `le`.
const BUCKET: &str = "le";
/// The suffixes that classic views append to the name of a histogram.
const VIEWS: [&str; 3] = ["_bucket", "_count", "_sum"];

/// What gives the value of a time, as it is sent.
type Evaluate = dyn Fn(&App, &Cancel, WallMs) -> Result<Vec<u8>, ApiError> + Send + Sync;

/// The streamed expression.
pub(super) struct Plan {
    pub(super) tenant: Tenant,
    pub(super) evaluate: Box<Evaluate>,
    pub(super) step: Ms,
    pub(super) lateness: Ms,
    /// The matchers of its selectors.
    pub(super) selectors: Vec<Vec<Matcher>>,
    /// Texts among them change the value.
    pub(super) reads_texts: bool,
    /// A value may depend on samples behind its time.
    pub(super) looks_ahead: bool,
    /// Steps that are corrected, where those of [`SECONDS`] are fewer.
    pub(super) kept_steps: i64,
    /// Where a reader finds the values that were left out.
    pub(super) read: &'static str,
}

/// The parameter `lateness` of a stream.
pub(super) fn lateness(app: &App, params: &Params) -> Result<Ms, ApiError> {
    let of_server = app.live.as_ref().map_or(Ms::from(LATENESS_MS), |live| live.lateness());
    within(params, "lateness", of_server, Ms::ZERO..=LATENESS_MAX)
}

pub(super) async fn get(
    State(app): State<App>,
    asker: Option<Extension<Asker>>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    let query = params.need("query")?.to_owned();
    resolution(&params)?;
    let lateness = lateness(&app, &params)?;
    let step = within(&params, "step", SECOND, SECOND..=STEP_MAX)?;
    if step % SECOND != Ms::ZERO {
        return Err(ApiError::bad_data("invalid parameter \"step\": give whole seconds"));
    }
    let after = last_event(&headers)?;
    let guard = Guard::new(&app, asker, &headers, &params.tenant);
    let plan = ask(&app, None, move |_, _| plan(query, params, step, lateness)).await?;
    Ok(started(app, plan, guard, after))
}

/// The response of a stream that sends from the second `after` on.
pub(super) fn started(app: App, plan: Plan, guard: Guard, after: Option<i64>) -> Response {
    // 4 events: as many as one slow write may leave waiting.
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let work = async { Continuous::new(app, plan, sender.clone()).await.run(after).await };
        guard.run(sender.clone(), async { _ = work.await }).await;
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (StatusCode::OK, headers, Body::from_stream(Events::new(receiver))).into_response()
}

fn within(params: &Params, name: &str, usual: Ms, range: std::ops::RangeInclusive<Ms>) -> Result<Ms, ApiError> {
    let value = params.duration(name)?.unwrap_or(usual);
    if range.contains(&value) {
        return Ok(value);
    }
    let (least, most) = (*range.start() / SECOND, *range.end() / SECOND);
    Err(ApiError::bad_data(format!("invalid parameter {name:?}: give a duration from {least} s to {most} s")))
}

/// Reads the expression, where queries are read.
fn plan(query: String, params: Params, step: Ms, lateness: Ms) -> Result<Plan, ApiError> {
    let expr = ogive_query::parse(&query)
        .map_err(|error| ApiError::bad_data(format!("invalid parameter \"query\": {error}")))?;
    let (mut selectors, mut looks_ahead) = (Vec::new(), false);
    let mut waiting = vec![&expr];
    while let Some(node) = waiting.pop() {
        waiting.extend(node.children());
        let (selector, shift) = match &node.kind {
            ExprKind::VectorSelector(selector) => (Some(selector), &selector.shift),
            ExprKind::MatrixSelector(matrix) => (Some(&matrix.selector), &matrix.selector.shift),
            ExprKind::Subquery(subquery) => (None, &subquery.shift),
            ExprKind::Call(call) if call.function.name == "info" => {
                // It reads series that its text does not name.
                selectors.push(Vec::new());
                continue;
            }
            _ => continue,
        };
        looks_ahead |= is_ahead(shift);
        if let Some(selector) = selector {
            // Between the last sample and the next one.
            looks_ahead |= selector.edges == Edges::Smoothed;
            selectors.extend(watched(&selector.matchers));
        }
        if selectors.len() > SELECTORS_MAX {
            return Err(ApiError::bad_data(format!("the expression has more than {SELECTORS_MAX} selectors")));
        }
    }
    let tenant = params.tenant.clone();
    let evaluate = Box::new(move |app: &App, cancel: &Cancel, time| value(app, cancel, &query, &params, time));
    let (reads_texts, kept_steps, read) = (false, 1, "/api/v1/query_range");
    Ok(Plan { tenant, evaluate, step, lateness, selectors, reads_texts, looks_ahead, kept_steps, read })
}

/// A fixed time, or an offset that is not known to be positive.
fn is_ahead(shift: &TimeShift) -> bool {
    let scope = ogive_query::ast::DurationScope { step: Ms::ZERO, range: Ms::ZERO };
    let is_back = |offset: &ogive_query::ast::DurationExpr| {
        offset.is_constant() && offset.signed(scope).is_ok_and(|offset| offset >= Ms::ZERO)
    };
    shift.at.is_some() || !shift.offset.as_ref().is_none_or(is_back)
}

/// The stored series that a selector may read, classic views of histograms among them.
fn watched(matchers: &[Matcher]) -> Vec<Vec<Matcher>> {
    let others: Vec<Matcher> =
        matchers.iter().filter(|one| ![METRIC_NAME, BUCKET].contains(&&*one.name)).cloned().collect();
    let mut names = matchers.iter().filter(|one| one.name == METRIC_NAME);
    let Some(name) = names.next().filter(|name| name.op == MatchOp::Equal && names.next().is_none()) else {
        return vec![others];
    };
    let mut out = vec![matchers.to_vec()];
    let stem = VIEWS.iter().find_map(|view| name.value.strip_suffix(view)).filter(|stem| !stem.is_empty());
    if let Some(stem) = stem.and_then(|stem| Matcher::new(METRIC_NAME, MatchOp::Equal, stem).ok()) {
        out.push(others.into_iter().chain([stem]).collect());
    }
    out
}

/// A stream of values.
struct Continuous {
    app: App,
    plan: Arc<Plan>,
    changing: Option<Changing>,
    /// Keeps windows of samples in memory while it lives.
    _using: Option<RecentLease>,
    /// A hash of what was sent, by time.
    sent: BTreeMap<WallMs, u64>,
    /// The time of the oldest sample that arrived since the values were last checked.
    changed: Option<WallMs>,
    /// When they may be checked again.
    due: WallNs,
    sender: mpsc::Sender<Bytes>,
}

/// The reader is gone, or nothing can be read.
struct Over;

impl Continuous {
    async fn new(app: App, plan: Plan, sender: mpsc::Sender<Bytes>) -> Self {
        let changing = match app.live.clone() {
            Some(live) => {
                let (tenant, selectors, reads_texts) = (plan.tenant.clone(), plan.selectors.clone(), plan.reads_texts);
                let watch = move || Ok(live.changes().watch(&tenant, selectors, reads_texts));
                // Without one, everything is checked again.
                blocking("the stream", watch).await.ok().flatten()
            }
            None => None,
        };
        let using = app.live.as_ref().map(|live| live.recent().using());
        let (sent, plan) = (BTreeMap::new(), Arc::new(plan));
        Self { app, plan, changing, _using: using, sent, changed: None, due: WallNs::MIN, sender }
    }

    /// The last time of a value that has closed.
    fn closed(&self) -> WallMs {
        (self.app.now() - self.plan.lateness).align_down(self.plan.step)
    }

    async fn run(mut self, after: Option<i64>) -> Result<(), Over> {
        let step = self.plan.step;
        let mut ending = self.app.ending.clone();
        let closed = self.closed();
        let mut next = after.map_or(closed, |after| second_end(after).align_down(step) + step);
        if next < closed - self.behind_max() {
            next = self.skip(next, closed).await?;
        }
        if after.is_some() {
            self.again(next).await?;
        }
        let mut last_sent = next;
        loop {
            let wait = ((next + self.plan.lateness).to_ns() - self.app.wall()).min(KEEP_ALIVE.to_ns());
            let gone = self.sender.clone();
            tokio::select! {
                () = tokio::time::sleep(wait.to_duration()) => {}
                _ = ending.wait_for(|ending| *ending) => return Ok(()),
                () = gone.closed() => return Ok(()),
            }
            let closed = self.closed();
            if closed < next {
                if self.app.now() - last_sent >= KEEP_ALIVE {
                    last_sent = self.app.now();
                    self.send(Bytes::from_static(b":\n\n")).await?;
                }
                continue;
            }
            if next < closed - self.behind_max() {
                next = self.skip(next, closed).await?;
            }
            // Samples that arrive from here on may be missing from the value.
            let changed = self.changing.as_ref().map_or(Some(WallMs::MIN), Changing::take);
            self.changed = [self.changed, changed].into_iter().flatten().min();
            if let Some((data, hash)) =
                self.values(&[next]).await?.into_iter().next().map(|(_, data, hash)| (data, hash))
            {
                self.sent.insert(next, hash);
                self.send(event("value", Some(next.to_secs()), &data)).await?;
            }
            last_sent = self.app.now();
            self.corrections(next).await?;
            next += step;
        }
    }

    /// How far back a reader is caught up with.
    fn behind_max(&self) -> Ms {
        BEHIND_MAX.max(self.plan.step * (self.plan.kept_steps - 1))
    }

    /// How far back values are corrected.
    fn kept(&self) -> Ms {
        (SECOND * SECONDS).max(self.plan.step * self.plan.kept_steps)
    }

    /// Skips what is too far back, and reports that.
    async fn skip(&mut self, from: WallMs, closed: WallMs) -> Result<WallMs, Over> {
        let to = (closed - self.behind_max()).align_down(self.plan.step);
        let (first, last) = (from.to_secs(), to.to_secs());
        let gap = serde_json::json!({"from": first, "to": last, "read": self.plan.read});
        self.send(event("gap", None, gap.to_string().as_bytes())).await?;
        Ok(to)
    }

    /// A reader that reconnects gets the previous seconds again: they may have changed meanwhile.
    async fn again(&mut self, next: WallMs) -> Result<(), Over> {
        let times = self.times(next - self.plan.step);
        for (time, data, hash) in self.values(&times).await? {
            self.sent.insert(time, hash);
            self.send(event("correction", Some(time.to_secs()), &data)).await?;
        }
        Ok(())
    }

    /// The times that are corrected, up to `last`.
    fn times(&self, last: WallMs) -> Vec<WallMs> {
        let step = self.plan.step;
        let count = self.kept() / step;
        (0..count).rev().map(|back| last - step * back).filter(|time| *time > WallMs(0)).collect()
    }

    /// Sends the values before `now` that changed since they were sent.
    async fn corrections(&mut self, now: WallMs) -> Result<(), Over> {
        let oldest = now - self.kept();
        self.sent = self.sent.split_off(&oldest);
        // When behind, the present comes first.
        let is_due = self.app.wall() >= self.due && now >= self.closed();
        let Some(changed) = self.changed.filter(|_| is_due) else { return Ok(()) };
        self.changed = None;
        // A sample may be ahead of its time: then no value was sent that has it.
        let from = if self.plan.looks_ahead { WallMs::MIN } else { changed.min(now) };
        let times: Vec<WallMs> = self.sent.range(from..now).map(|(time, _)| *time).collect();
        if times.is_empty() {
            return Ok(());
        }
        let began = self.app.wall();
        let values = self.values(&times).await?;
        let ended = self.app.wall();
        self.due = ended + (ended - began).max(Ns::ZERO) * 20;
        if values.len() < times.len() {
            // What could not be read is checked again.
            self.changed = Some(changed);
        }
        for (time, data, hash) in values {
            if self.sent.insert(time, hash) != Some(hash) {
                self.send(event("correction", Some(time.to_secs()), &data)).await?;
            }
        }
        Ok(())
    }

    /// The values at `times` and their hashes; those that are temporarily unavailable are left out.
    async fn values(&self, times: &[WallMs]) -> Result<Vec<(WallMs, Vec<u8>, u64)>, Over> {
        let (plan, times) = (Arc::clone(&self.plan), times.to_vec());
        let found = ask(&self.app, Some(TIMEOUT), move |app, cancel| {
            times.into_iter().map(|time| Ok((time, (plan.evaluate)(app, cancel, time)?))).collect::<Result<Vec<_>, _>>()
        });
        match found.await {
            Ok(found) => Ok(found
                .into_iter()
                .map(|(time, data)| {
                    let mut hasher = DefaultHasher::new();
                    hasher.write(&data);
                    (time, data, hasher.finish())
                })
                .collect()),
            // Full or slow for the moment: this is left out, the next may do.
            Err(error) if error.status.is_server_error() || error.status == StatusCode::TOO_MANY_REQUESTS => {
                self.send(format!(": {}\n\n", error.message.replace('\n', " ")).into()).await?;
                Ok(Vec::new())
            }
            Err(error) => {
                let data = serde_json::json!({"error": error.message}).to_string();
                self.send(event("error", None, data.as_bytes())).await?;
                Err(Over)
            }
        }
    }

    async fn send(&self, event: Bytes) -> Result<(), Over> {
        self.sender.send(event).await.map_err(|_| Over)
    }
}

/// The value as in `/api/v1/query`.
fn value(app: &App, cancel: &Cancel, query: &str, params: &Params, time: WallMs) -> Result<Vec<u8>, ApiError> {
    cancel.check()?;
    let recent = app.live.as_ref().map(|live| &**live.recent());
    let reader = RecentReader::new(app.backend.of(&params.tenant), recent, &params.tenant);
    let store = Views::over(Box::new(reader), shown(params));
    let reported = StoreAtResolution { store: &store, resolution: resolution(params)?, cancel };
    let result = cancel.engine(app).instant_until(&reported, query, time, &|| cancel.is_set())?;
    let (mut answer, mut out) = (Answer::new(result, None), Vec::new());
    while answer.step(&mut out) {
        bounded(&out)?;
    }
    out.truncate(out.trim_ascii_end().len());
    Ok(out)
}

/// Refuses a value that no event may carry.
pub(super) fn bounded(value: &[u8]) -> Result<(), ApiError> {
    if value.len() > EVENT_BYTES_MAX {
        return Err(ApiError::bad_data(format!(
            "the value is more than {EVENT_BYTES_MAX} bytes; aggregate it, or select less"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(query: &str) -> Result<(Vec<String>, bool), String> {
        let plan = plan(query.to_owned(), Params::parse(b""), SECOND, Ms::ZERO).map_err(|error| error.message)?;
        let text = |matchers: &Vec<Matcher>| {
            let one = |matcher: &Matcher| format!("{}={}", matcher.name, matcher.value);
            matchers.iter().map(one).collect::<Vec<_>>().join(",")
        };
        let mut selectors: Vec<String> = plan.selectors.iter().map(text).collect();
        selectors.sort();
        Ok((selectors, plan.looks_ahead))
    }

    fn expected(selectors: &[&str], looks_ahead: bool) -> Result<(Vec<String>, bool), String> {
        Ok((selectors.iter().map(|&text| text.to_owned()).collect(), looks_ahead))
    }

    #[test]
    fn what_an_expression_reads_is_watched() {
        assert_eq!(planned("sum(rate(a[5m])) / b"), expected(&["__name__=a", "__name__=b"], false));
        assert_eq!(planned("1 + time()"), expected(&[], false));
        let (view, _) = planned("a_bucket{job='x',le='1'}").unwrap();
        assert_eq!(view.len(), 2, "as it is, and the histogram that it may be a view of: {view:?}");
        assert!(view.iter().any(|one| one.contains("__name__=a_bucket") && one.contains("le=1")), "{view:?}");
        assert!(view.iter().any(|one| one.ends_with("__name__=a") && !one.contains("le=")), "{view:?}");
        assert_eq!(planned("{__name__=~'a.*',job='x'}"), expected(&["job=x"], false), "views of any name");
        assert_eq!(planned("info(a)"), expected(&["", "__name__=a"], false), "it reads what it does not name");
    }

    #[test]
    fn what_reads_behind_its_time_is_looked_at_whole() {
        assert_eq!(planned("a offset 5m"), expected(&["__name__=a"], false));
        assert_eq!(planned("a offset -5m"), expected(&["__name__=a"], true));
        assert_eq!(planned("a @ 100"), expected(&["__name__=a"], true));
        assert_eq!(planned("rate(a[5m] smoothed)"), expected(&["__name__=a"], true));
        assert_eq!(planned("max_over_time(sum(a)[5m:1s] @ end())"), expected(&["__name__=a"], true));
    }

    #[test]
    fn selectors_are_bounded() {
        let sum = |count: usize| vec!["a"; count].join(" + ");
        assert!(planned(&sum(SELECTORS_MAX)).is_ok());
        assert!(planned(&sum(SELECTORS_MAX + 1)).unwrap_err().contains("selectors"));
        assert!(planned("sum(").unwrap_err().contains("query"));
    }
}
