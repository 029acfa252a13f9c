//! The JSON of slow traces.

use std::collections::BTreeMap;

use ogive_model::Labels;
use ogive_probe::SlowTrace;
use serde_json::{Map, Value as Json, json};

use super::super::texts::{labels_json, seconds};
use super::found::{Order, ParsedText, TraceFilter, Traces};

/// 16 KiB, the longest possible slow trace: no more is shown of a text that is not one.
const RAW_BYTES_MAX: usize = 16 * 1024;

pub(super) fn document(wanted: &TraceFilter, traces: &Traces, explained: &BTreeMap<Labels, Labels>) -> String {
    let list: Vec<Json> = traces.list.iter().map(|read| one(read, explained.get(&read.found.labels))).collect();
    let data = json!({
        "start": seconds(wanted.range.start),
        "end": seconds(wanted.range.end),
        "order": match wanted.order { Order::Newest => "newest", Order::Slowest => "slowest" },
        "series": traces.series,
        "examined": traces.examined,
        "invalid": traces.invalid,
        "complete": traces.next.is_none(),
        // Slowest-first results have no next page: the unread rest may contain slower ones.
        "next": traces.next.filter(|_| wanted.order == Order::Newest).map(|next| next.to_string()),
        "traces": list,
    });
    json!({"status": "success", "data": data}).to_string() + "\n"
}

fn one(read: &ParsedText, histogram: Option<&Labels>) -> Json {
    let t = seconds(read.found.time);
    let cell = histogram.map(|labels| json!({"labels": labels_json(labels), "selector": labels.to_string(), "t": t}));
    let mut out = Map::new();
    out.insert("t".into(), t);
    out.insert("labels".into(), labels_json(&read.found.labels));
    out.insert("cell".into(), cell.unwrap_or_default());
    match &read.trace {
        Ok(trace) => {
            fields(&mut out, trace);
            out.insert("line".into(), read.found.text.clone().into());
        }
        Err(error) => {
            let text = &read.found.text;
            out.insert("raw".into(), text[..text.floor_char_boundary(RAW_BYTES_MAX)].into());
            out.insert("raw_bytes".into(), text.len().into());
            out.insert("error".into(), error.clone().into());
        }
    }
    out.into()
}

fn fields(out: &mut Map<String, Json>, trace: &SlowTrace) {
    let mut put = |name: &str, value: Json| {
        out.insert(name.into(), value);
    };
    put("path", trace.path.clone().into());
    put("publisher", trace.publisher.clone().into());
    // Beyond the integers that a JSON number represents exactly.
    put("published_ns", trace.published_ns.to_string().into());
    put("total_ns", trace.total_ns.into());
    put("total_ticks", trace.total_ticks.into());
    put("limit_ns", trace.limit_ns.into());
    put("gap_ns", trace.gap_ns.into());
    put("epoch", trace.epoch.into());
    put("clamped", trace.clamped.into());
    put("missing", trace.missing.clone().into());
    put("worst", trace.culprit().map(|stage| stage.name.clone()).into());
    let mut start_ns = 0;
    let stages = trace.stages.iter().map(|stage| {
        let percent = trace.basis_points(stage) as f64 / 100.0;
        let (name, class) = (&stage.name, stage.class.name());
        let from = start_ns;
        start_ns += stage.ns;
        json!({"name": name, "class": class, "start_ns": from, "ns": stage.ns, "ticks": stage.ticks, "percent": percent})
    });
    put("stages", stages.collect());
    let marks = trace.marks.iter().map(|mark| json!({"name": mark.name, "ns": mark.ns, "ticks": mark.ticks}));
    put("listed", trace.listed.into());
    put("listed_lost", trace.listed_lost.into());
    put("marks", marks.collect());
    let clock = &trace.clock;
    put(
        "clock",
        json!({
            "mode": clock.mode, "source": clock.source, "frequency_hz": clock.frequency_hz,
            "err_ns": clock.err_ns, "read_ns": clock.read_ns, "epoch": clock.epoch,
        }),
    );
}
