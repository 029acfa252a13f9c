//! The JSON of lines and of their counts.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ogive_model::WallMs;
use ogive_search::{Severity, each_field};
use serde_json::{Map, Value as Json, json};

use super::super::texts::{Direction, FoundText, labels_json, seconds};
use super::lines::{Counts, LineQuery, Lines, Scanned};

/// 64 fields of a line, and 4 KiB of their text: as much as a person reads.
const FIELDS_MAX: usize = 64;
const FIELD_BYTES_MAX: usize = 4 << 10;

pub(super) fn document(wanted: &LineQuery, lines: &Lines) -> String {
    let mut data = scanned(&lines.scanned);
    data.insert("start".into(), seconds(wanted.range.start));
    data.insert("end".into(), seconds(wanted.range.end));
    let direction = match wanted.direction {
        Direction::Backward => "backward",
        Direction::Forward => "forward",
    };
    data.insert("direction".into(), direction.into());
    data.insert("complete".into(), lines.next.is_none().into());
    data.insert("next".into(), lines.next.map_or(Json::Null, |next| next.to_string().into()));
    data.insert("lines".into(), lines.list.iter().map(line).collect());
    envelope(data, &lines.scanned)
}

/// `from`: the time before which lines were not counted, if any.
pub(super) fn columns(counts: &BTreeMap<WallMs, Counts>, of: &Scanned, from: Option<WallMs>) -> String {
    let mut data = scanned(of);
    data.insert("from".into(), from.map_or(Json::Null, seconds));
    let column = |(time, counts): (&WallMs, &Counts)| {
        let counts = counts.iter().map(|(severity, count)| (name(*severity).to_owned(), Json::from(*count)));
        json!([seconds(*time), counts.collect::<Map<_, _>>()])
    };
    data.insert("columns".into(), counts.iter().map(column).collect());
    envelope(data, of)
}

fn name(severity: Option<Severity>) -> &'static str {
    severity.map_or("unknown", Severity::name)
}

fn scanned(scanned: &Scanned) -> Map<String, Json> {
    let mut out = Map::new();
    out.insert("series".into(), scanned.series.into());
    out.insert("scanned".into(), scanned.lines.into());
    out.insert("scanned_bytes".into(), scanned.bytes.into());
    out.insert("partial".into(), scanned.is_partial.into());
    out
}

fn envelope(data: Map<String, Json>, scanned: &Scanned) -> String {
    let mut out = json!({"status": "success", "data": data});
    if !scanned.warnings.is_empty() {
        out["warnings"] = scanned.warnings.clone().into();
    }
    out.to_string() + "\n"
}

fn line(found: &FoundText) -> Json {
    json!({
        "t": seconds(found.time),
        "labels": labels_json(&found.labels),
        "severity": name(Severity::from_line(&found.labels, &found.text)),
        "line": found.text,
        "fields": fields(&found.text),
    })
}

/// Names and values, the first ones.
fn fields(text: &str) -> Vec<Json> {
    let (mut out, mut bytes) = (Vec::new(), 0);
    each_field(text, &mut |name, value| {
        bytes += name.len() + value.len();
        if out.len() == FIELDS_MAX || bytes > FIELD_BYTES_MAX {
            return ControlFlow::Break(());
        }
        out.push(json!([name, value]));
        ControlFlow::Continue(())
    });
    out
}
