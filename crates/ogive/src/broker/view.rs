//! The broker for people and scripts: `/v1/broker`, and its own series.

use ogive_broker::{Gap, Order};
use ogive_model::{Ms, Tenant};
use serde_json::{Value, json};

use super::destination::Destination;
use super::shared::Broker;
use ogive_door::own_value::OwnValue;
use ogive_observe::broker::HELP;

/// 5 series of a gap are named.
const LARGEST: usize = 5;

/// The first of [`HELP`]'s series are gauges, with these units; the others count.
const GAUGES: [&str; 3] = ["s", "By", ""];

pub(super) fn own_values(broker: &Broker) -> Vec<OwnValue> {
    let all = broker.destinations();
    let rows: Vec<_> = all.iter().map(|one| (&*one.config.name, figures(broker, one))).collect();
    let of = |(at, (name, _)): (usize, &(&str, &str))| {
        let value = |(destination, row): &(&str, [f64; HELP.len()])| {
            let labels = [("destination", *destination)];
            match GAUGES.get(at) {
                Some(unit) => OwnValue::gauge(name, &labels, unit, row[at]),
                None => OwnValue::counter(name, &labels, row[at]),
            }
        };
        rows.iter().map(value).collect::<Vec<_>>()
    };
    HELP.iter().enumerate().flat_map(of).collect()
}

/// The values of [`HELP`]'s series.
fn figures(broker: &Broker, one: &Destination) -> [f64; HELP.len()] {
    let state = one.state();
    let (lag, figures) = (state.delivery.lag(&broker.context.board), &state.figures);
    [
        one.lag_seconds(&lag),
        lag.bytes as f64,
        lag.records as f64,
        figures.batches as f64,
        figures.frame_bytes as f64,
        figures.body_bytes as f64,
        figures.failures as f64,
        figures.busy as f64,
        figures.batches_refused as f64,
        figures.samples_refused.values().sum::<u64>() as f64,
        state.delivery.totals().samples as f64,
    ]
}

/// `/v1/broker`, with the gaps of `tenant`, or of all: they name series.
pub(super) fn json(broker: &Broker, tenant: Option<&Tenant>) -> Value {
    let board = &broker.context.board;
    let limits = broker.limits();
    let all = broker.destinations();
    let segments: Vec<Value> = board
        .segments()
        .iter()
        .map(|segment| {
            let positions = segment.positions();
            let done: serde_json::Map<String, Value> = all
                .iter()
                .map(|one| (one.config.name.clone(), json!(one.state().delivery.share_done(segment))))
                .collect();
            json!({
                "first": positions.start, "end": positions.end, "bytes": segment.range.bytes,
                "arrival_first_ms": segment.arrival_first, "arrival_last_ms": segment.arrival_last, "done": done,
            })
        })
        .collect();
    let destinations: Vec<Value> = all.iter().map(|one| destination(broker, one, tenant)).collect();
    json!({
        "name": broker.context.name, "now_ms": broker.context.wall(),
        "spool": {
            "bytes": board.bytes(), "bytes_max": limits.bytes_max,
            "age_max_seconds": limits.age_max.map(|age| age / Ms::from_secs(1)),
            "first": board.first(), "end": board.end(), "segments": segments,
        },
        "destinations": destinations,
    })
}

fn destination(broker: &Broker, one: &Destination, tenant: Option<&Tenant>) -> Value {
    let state = one.state();
    let now = broker.context.now();
    let lag = state.delivery.lag(&broker.context.board);
    let figures = &state.figures;
    let rate = figures.rate(broker.context.wall());
    let totals = state.delivery.totals();
    let is_shown = |gap: &&Gap| tenant.is_none_or(|tenant| gap.tenant == *tenant);
    let endpoint = |endpoint: &ogive_broker::Endpoint| {
        json!({
            "url": endpoint.target.url, "address": endpoint.target.address.map(|address| address.to_string()),
            "weight": endpoint.weight_at(now), "in_flight": endpoint.in_flight,
            "latency_seconds": endpoint.latency_ns / 1e9, "sent_total": endpoint.sent, "busy_total": endpoint.busy,
            "failures": endpoint.failures, "pause_seconds": endpoint.until.since(now).0 as f64 / 1e9,
        })
    };
    json!({
        "name": one.config.name,
        "order": if one.config.order == Order::Newest { "newest" } else { "oldest" },
        "connections": one.config.connections(), "in_flight_batches": state.delivery.in_flight(),
        "lag_seconds": one.lag_seconds(&lag), "lag_bytes": lag.bytes, "lag_batches": lag.records,
        "acknowledged_per_second": rate.batches, "acknowledged_bytes_per_second": rate.bytes,
        "acknowledged_batches_total": figures.batches, "acknowledged_bytes_total": figures.frame_bytes,
        "sent_bytes_total": figures.body_bytes, "failures_total": figures.failures, "busy_total": figures.busy,
        "refused_batches_total": figures.batches_refused, "refused_samples": figures.samples_refused,
        "acknowledged_ms": figures.acknowledged_at,
        "problem": figures.problem.as_ref().map(|(time, text)| json!({"time_ms": time, "text": text})),
        "gaps": {
            "made_total": totals.gaps, "batches_total": totals.records, "samples_total": totals.samples,
            "waiting": state.delivery.gaps().filter(is_shown).map(gap).collect::<Vec<_>>(),
            "told": figures.reported.iter().map(|reported| &**reported).filter(is_shown).map(gap).collect::<Vec<_>>(),
        },
        "endpoints": state.endpoints.all().iter().map(endpoint).collect::<Vec<_>>(),
    })
}

/// A gap with the series that lack most.
fn gap(gap: &Gap) -> Value {
    let has_times = gap.from <= gap.to;
    let largest = gap.series.iter().take(LARGEST).map(|one| json!({"series": one.series, "samples": one.samples}));
    json!({
        "reason": gap.why.as_str(), "tenant": gap.tenant.as_str(), "batches": gap.records, "samples": gap.samples,
        "in_doubt": gap.in_doubt, "series": gap.series.len() as u64 + gap.others, "largest": largest.collect::<Vec<_>>(),
        "made_ms": gap.made, "from_ms": has_times.then_some(gap.from), "to_ms": has_times.then_some(gap.to),
    })
}
