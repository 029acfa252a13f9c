//! Answers of `/fetch` and CAQL.
//!
//! Format: JSON with `version`, `head` (start and period in seconds, count), `meta` (kind, label and tags of each
//! column) and `data`, or a FlatBuffer of the same. Numbers that are not there are null, and NaN in FlatBuffers;
//! histograms are objects of counts by the names of bins: `+23e-004` is 23 x 10^-4 to below the next.

use ogive_hist::{DecimalBin, Histogram};
use serde_json::{Map, Value as Json, json};

use crate::flat::{Node, Writer};
use crate::frame::{Column, Grid, Output};

/// The content type of a FlatBuffers response.
pub const CONTENT_TYPE: &str = "x-irondb-df4-flatbuffer";

/// The response as JSON.
#[must_use]
pub fn json(grid: Grid, outputs: &[Output]) -> Json {
    let seconds = |ms: i64| if ms % 1_000 == 0 { Json::from(ms / 1_000) } else { Json::from(ms as f64 / 1_000.0) };
    let meta = |output: &Output| {
        let tags: Vec<String> = output.tags.iter().map(|(category, value)| format!("{category}:{value}")).collect();
        json!({"kind": output.column.kind(), "label": output.label, "tags": tags})
    };
    json!({
        "version": "DF4",
        "head": {"count": grid.count, "start": seconds(grid.start_ms), "period": seconds(grid.period_ms)},
        "meta": outputs.iter().map(meta).collect::<Vec<_>>(),
        "data": outputs.iter().map(|output| data(&output.column)).collect::<Vec<_>>(),
    })
}

fn data(column: &Column) -> Json {
    let number = |value: &Option<f64>| value.and_then(serde_json::Number::from_f64).map_or(Json::Null, Json::Number);
    match column {
        Column::Numbers(all) => all.iter().map(number).collect(),
        Column::Histograms(all) => all.iter().map(|one| one.as_ref().map_or(Json::Null, histogram_object)).collect(),
        Column::Texts(all) => {
            let slot =
                |texts: &Vec<(i64, String)>| texts.iter().map(|(offset, text)| json!([offset, text])).collect::<Json>();
            all.iter().map(|texts| if texts.is_empty() { Json::Null } else { slot(texts) }).collect()
        }
    }
}

/// The response as a FlatBuffer.
#[must_use]
pub fn flatbuffer(grid: Grid, outputs: &[Output]) -> Vec<u8> {
    let head = Node::Table(vec![
        Node::u64(u64::try_from(grid.start_ms).unwrap_or(0)),
        Node::u32(u32::try_from(grid.period_ms).unwrap_or(u32::MAX)),
        Node::u32(u32::try_from(grid.count).unwrap_or(u32::MAX)),
    ]);
    let pair = |(key, value): &(String, String)| Node::Table(vec![Node::text(key), Node::text(value)]);
    let meta = |output: &Output| {
        Node::Table(vec![Node::text(&output.label), Node::List(output.tags.iter().map(pair).collect())])
    };
    let (meta, columns) =
        (outputs.iter().map(meta).collect(), outputs.iter().map(|output| flat(&output.column)).collect());
    Writer::finish(&Node::Table(vec![Node::u32(4), head, Node::List(meta), Node::List(columns)]), None)
}

fn flat(column: &Column) -> Node {
    let (kind, union, values) = match column {
        Column::Numbers(all) => {
            let bytes = all.iter().flat_map(|value| value.unwrap_or(f64::NAN).to_le_bytes()).collect();
            (1, 1, Node::Flat(bytes, 8, all.len()))
        }
        Column::Histograms(all) => {
            let one =
                |one: &Option<Histogram<u64>>| Node::Table(vec![Node::List(one.as_ref().map_or(Vec::new(), bins))]);
            (2, 2, Node::List(all.iter().map(one).collect()))
        }
        Column::Texts(all) => {
            let entry = |(offset, text): &(i64, String)| Node::Table(vec![Node::u64(*offset as u64), Node::text(text)]);
            let slot = |texts: &Vec<(i64, String)>| Node::Table(vec![Node::List(texts.iter().map(entry).collect())]);
            (4, 3, Node::List(all.iter().map(slot).collect()))
        }
    };
    Node::Table(vec![Node::u8(kind), Node::u8(union), Node::Table(vec![values])])
}

fn bins(histogram: &Histogram<u64>) -> Vec<Node> {
    let mut out = Vec::new();
    let mut push = |bin: DecimalBin, count: u64| {
        out.push(Node::Table(vec![Node::u8(bin.val as u8), Node::u8(bin.exp as u8), Node::u64(count)]));
    };
    for (positive, side) in [(false, &histogram.negative), (true, &histogram.positive)] {
        side.iter().for_each(|(index, count)| push(DecimalBin::from_index(positive, index), count));
    }
    if histogram.zero > 0 {
        push(DecimalBin::ZERO, histogram.zero);
    }
    out
}

/// The name of a bin: its edge nearer zero, as two digits and an exponent.
#[must_use]
pub fn bin_name(bin: DecimalBin) -> String {
    let exponent = if bin.val == 0 { 0 } else { i32::from(bin.exp) - 1 };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{:+03}e{sign}{:03}", bin.val, exponent.abs())
}

/// Counts by the names of bins.
#[must_use]
pub fn histogram_object(histogram: &Histogram<u64>) -> Json {
    let mut out = Map::new();
    for (positive, side) in [(false, &histogram.negative), (true, &histogram.positive)] {
        for (index, count) in side.iter() {
            out.insert(bin_name(DecimalBin::from_index(positive, index)), count.into());
        }
    }
    if histogram.zero > 0 {
        out.insert(bin_name(DecimalBin::ZERO), histogram.zero.into());
    }
    Json::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_have_the_names_that_clients_know() {
        let name = |val, exp| bin_name(DecimalBin { val, exp });
        assert_eq!(
            (name(23, -3), name(85, -3), name(-10, 0)),
            ("+23e-004".into(), "+85e-004".into(), "-10e-001".into())
        );
        assert_eq!((name(0, 0), name(12, 5)), ("+00e+000".into(), "+12e+004".into()));
    }
}
