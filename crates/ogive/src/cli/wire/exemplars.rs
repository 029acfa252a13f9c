//! The slowest exchanges with their heads, without secrets: printed for a file, and as slow traces and exemplars for a
//! server.
//!
//! *Format*: a slow trace (docs/formats/trace.md) of the series `ogive_wire_total_slow` with the row's labels, whose
//! stages are request, service and response; and an exemplar (docs/formats/exemplar.md) of `ogive_wire_total_seconds`
//! whose labels are the head, the client and the status. *Invariants*: a head is made of what a decoder was made to
//! show: a path's template, the names of a query's parameters, a statement's fingerprint, a command. No value that a
//! user typed is in it. *Limits*: as many as were asked for, of a second where they are sent, else of all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, PoisonError};

use ogive_export::Text;
use ogive_model::{Exemplar, Labels};
use ogive_probe::{Class, ClockNote, SlowStage, SlowTrace};
use ogive_wire::{Exchange, Path};

use super::export::Export;
use super::names;
use super::row::RowKey;
use crate::cli::format::human;

/// 64 bytes of a name, as the format of slow traces has it.
const NAME_MAX: usize = 64;

/// One of the slowest, ordered by how long it took.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Slow {
    total: u64,
    /// Request, service and response in nanoseconds; they add up to the total.
    stages: [u64; 3],
    ended: i64,
    key: RowKey,
    client: String,
    status: String,
    head: String,
}

/// The slowest exchanges.
#[derive(Debug, Clone, Default)]
pub(super) struct Exemplars {
    limit: usize,
    kept: Arc<Mutex<BinaryHeap<Reverse<Slow>>>>,
}

impl Exemplars {
    /// Keeps `limit` of them. With an export they are sent every second, and collected afresh.
    pub(super) fn new(limit: usize, export: Option<&Export>) -> Self {
        let exemplars = Self { limit, kept: Arc::default() };
        if let Some(export) = export.filter(|_| limit > 0) {
            let kept = exemplars.kept.clone();
            let take = move || {
                let taken = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
                let slowest = taken.into_sorted_vec();
                let limit_ns = slowest.last().map_or(0, |Reverse(least)| least.total);
                slowest.iter().flat_map(|Reverse(slow)| slow.texts(limit_ns)).collect()
            };
            export.note(export.cells.texts("ogive_wire_total_slow", take));
        }
        exemplars
    }

    /// How many are kept.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Considers an answered exchange.
    pub(super) fn answered(&self, key: &RowKey, path: &Path, exchange: &Exchange) {
        if self.limit == 0 {
            return;
        }
        let Some(total) = exchange.total_time().and_then(|total| u64::try_from(total).ok()) else { return };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= self.limit {
            if kept.peek().is_some_and(|Reverse(least)| least.total >= total) {
                return;
            }
            kept.pop();
        }
        if let Some(slow) = Slow::new(key, path, exchange, total) {
            kept.push(Reverse(slow));
        }
    }

    /// A line for each, the slowest first.
    pub(super) fn lines(&self) -> Vec<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let slowest = kept.clone().into_sorted_vec();
        slowest.iter().map(|Reverse(slow)| slow.line()).collect()
    }
}

impl Slow {
    fn new(key: &RowKey, path: &Path, exchange: &Exchange, total: u64) -> Option<Self> {
        let (request, response) = (exchange.request, exchange.response);
        let (requested, answered, ended) = (request.last?, response.first?, response.last?);
        // A response that began early leaves no time for the service.
        let requested = requested.min(answered);
        let between = |from: i64, to: i64| u64::try_from(to - from).unwrap_or(0);
        let stages = [between(request.first?, requested), between(requested, answered), between(answered, ended)];
        (stages.iter().sum::<u64>() == total).then(|| Self {
            total,
            stages,
            ended,
            key: key.clone(),
            client: names::service(path.client),
            status: exchange.status.clone(),
            head: exchange.head.as_deref().map_or_else(|| key.operation.clone(), str::to_owned),
        })
    }

    #[allow(clippy::cast_precision_loss, reason = "it is shown with three digits")]
    fn line(&self) -> String {
        let times = [self.total, self.stages[0], self.stages[1], self.stages[2]];
        let [total, request, service, response] = times.map(|nanos| human(nanos as f64 / 1e9, "s"));
        let (server, Self { client, status, head, .. }) = (names::service(self.key.service), self);
        format!(
            "slow  {total} (request {request}, service {service}, response {response})  {client} > {server}  {status}  {head}"
        )
    }

    /// Its slow trace and its exemplar.
    fn texts(&self, limit_ns: u64) -> Vec<Text> {
        let labels = || self.key.labels().map(|(name, value)| (name.to_owned(), value)).to_vec();
        let trace =
            Text { name: "ogive_wire_total_slow".to_owned(), labels: labels(), text: self.trace(limit_ns).to_string() };
        let about = [("client", &*self.client), ("head", &*self.head), ("status", &*self.status)];
        let about = Labels::new(about.into_iter().filter(|(_, value)| !value.is_empty()));
        #[allow(clippy::cast_precision_loss, reason = "seconds in a double, as everywhere")]
        let value = self.total as f64 / 1e9;
        let exemplar = about.ok().and_then(|labels| Exemplar { labels, value }.to_text().ok());
        let name = "ogive_wire_total_seconds_exemplar".to_owned();
        std::iter::once(trace).chain(exemplar.map(|text| Text { name, labels: labels(), text })).collect()
    }

    fn trace(&self, limit_ns: u64) -> SlowTrace {
        let stage = |(name, ns): (&str, u64)| {
            let class = if name == "service" { Class::Logic } else { Class::Infrastructure };
            SlowStage { name: name.to_owned(), class, ns, ticks: ns }
        };
        SlowTrace {
            path: beginning(&self.key.operation),
            publisher: self.client.clone(),
            published_ns: self.ended,
            total_ns: self.total,
            total_ticks: self.total,
            limit_ns,
            gap_ns: None,
            epoch: 0,
            clamped: 0,
            missing: Vec::new(),
            stages: ["request", "service", "response"].into_iter().zip(self.stages).map(stage).collect(),
            listed: 0,
            listed_lost: 0,
            marks: Vec::new(),
            clock: ClockNote {
                mode: "os".to_owned(),
                source: "os".to_owned(),
                frequency_hz: 1_000_000_000,
                err_ns: 0,
                read_ns: 0.0,
                epoch: 0,
            },
        }
    }
}

fn beginning(name: &str) -> String {
    name[..name.floor_char_boundary(NAME_MAX)].to_owned()
}
