//! Encodes requests of remote write 2.0: `io.prometheus.write.v2.Request` from series.
//!
//! Format: symbols in field 4 (the first is empty), series in field 5 with packed indexes of their labels. A
//! distribution is a native histogram; one with a scheme that Prometheus lacks is converted
//! ([`remote_read`](crate::remote_read)). Values counted since a start become a counter, everything else a gauge: a
//! delta cell is a gauge histogram, which `sum_over_time` adds up at the receiver.
//! Limits: none of its own; the caller bounds the samples of a request.

use std::collections::HashMap;

use ogive_model::{HistogramValue, Kind, SeriesData, Temporality};

use crate::protobuf::write;
use crate::remote_read::native::put_histogram;

/// Types of metrics as the message numbers them.
const COUNTER: u64 = 1;
const GAUGE: u64 = 2;
const HISTOGRAM: u64 = 3;
const GAUGE_HISTOGRAM: u64 = 4;

/// The symbols of a request.
struct Symbols {
    places: HashMap<String, u64>,
    out: Vec<u8>,
}

impl Symbols {
    fn new() -> Self {
        let mut this = Self { places: HashMap::new(), out: Vec::new() };
        this.place("");
        this
    }

    fn place(&mut self, text: &str) -> u64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.places.len() as u64;
        self.places.insert(text.to_owned(), place);
        write::bytes(&mut self.out, 4, text.as_bytes());
        place
    }
}

/// The request that writes the numbers and distributions of `series`; texts, which Prometheus has none of, are left
/// out. Empty when nothing is left.
#[must_use]
pub fn write(series: &[SeriesData]) -> Vec<u8> {
    let (mut symbols, mut body) = (Symbols::new(), Vec::new());
    for one in series.iter().filter(|one| !one.floats.times.is_empty() || !one.histograms.times.is_empty()) {
        write::bytes(&mut body, 5, &time_series(one, &mut symbols));
    }
    if body.is_empty() {
        return body;
    }
    let mut out = symbols.out;
    out.append(&mut body);
    out
}

fn time_series(series: &SeriesData, symbols: &mut Symbols) -> Vec<u8> {
    let (mut out, mut piece) = (Vec::new(), Vec::new());
    for (name, value) in series.labels.iter() {
        for text in [name, value] {
            write::varint(&mut piece, symbols.place(text));
        }
    }
    write::bytes(&mut out, 1, &piece);
    let is_cumulative = series.meta.temporality == Temporality::Cumulative;
    let start = |starts: &[i64], at: usize| starts.get(at).copied().filter(|start| is_cumulative && *start > 0);
    let floats = &series.floats;
    for (at, (time, value)) in floats.times.iter().zip(&floats.values).enumerate() {
        piece.clear();
        write::double(&mut piece, 1, *value);
        write::number(&mut piece, 2, *time as u64);
        if let Some(start) = start(&floats.starts, at) {
            write::number(&mut piece, 3, start as u64);
        }
        write::bytes(&mut out, 2, &piece);
    }
    let histograms = &series.histograms;
    for (at, (time, value)) in histograms.times.iter().zip(&histograms.values).enumerate() {
        piece.clear();
        match value {
            HistogramValue::Integer(histogram) => put_histogram(&mut piece, histogram, !is_cumulative),
            HistogramValue::Float(histogram) => put_histogram(&mut piece, histogram, !is_cumulative),
        }
        write::number(&mut piece, 15, *time as u64);
        if let Some(start) = start(&histograms.starts, at) {
            write::number(&mut piece, 17, start as u64);
        }
        write::bytes(&mut out, 3, &piece);
    }
    piece.clear();
    let kind = match (series.meta.kind, is_cumulative) {
        (Kind::Histogram, true) => HISTOGRAM,
        (Kind::Histogram, false) => GAUGE_HISTOGRAM,
        (_, true) => COUNTER,
        (_, false) => GAUGE,
    };
    write::number(&mut piece, 1, kind);
    if !series.meta.unit.is_empty() {
        write::number(&mut piece, 4, symbols.place(&series.meta.unit));
    }
    write::bytes(&mut out, 5, &piece);
    out
}

#[cfg(test)]
mod tests {
    use ogive_hist::{Histogram, Scheme};
    use ogive_model::{FloatColumn, HistogramColumn, Labels, SeriesMeta, SourceId, Tenant, TextColumn, Value};

    use super::*;
    use crate::remote_write::v2;

    fn series(name: &str, kind: Kind, temporality: Temporality) -> SeriesData {
        let meta = SeriesMeta { kind, temporality, unit: "s".into(), width_ms: 1000 };
        SeriesData::new(Labels::new([("__name__", name), ("job", "a")]).unwrap(), meta)
    }

    /// What is written is what our own reader takes it for.
    #[test]
    fn a_request_is_read_as_it_was_meant() {
        let mut float = series("up", Kind::Float, Temporality::Gauge);
        float.floats = FloatColumn { times: vec![1_000, 2_000], values: vec![1.5, -2.0], ..FloatColumn::default() };
        let mut histogram = Histogram::new(Scheme::exp2(3).unwrap());
        [0.5, 0.5, 2.0, -1.0, 0.0].into_iter().for_each(|value| histogram.record(value));
        let mut cells = series("cells_seconds", Kind::Histogram, Temporality::Delta);
        cells.histograms.times.push(3_000);
        cells.histograms.values.push(HistogramValue::Integer(histogram.clone()));
        let mut total = series("total_seconds", Kind::Histogram, Temporality::Cumulative);
        total.histograms = HistogramColumn {
            times: vec![3_000],
            values: vec![HistogramValue::Integer(histogram)],
            starts: vec![1_000],
        };
        let mut text = series("log", Kind::Text, Temporality::Gauge);
        text.texts = TextColumn { times: vec![1], values: vec!["a".into()] };
        assert!(write(std::slice::from_ref(&text)).is_empty());
        let body = write(&[float, cells, total, text]);
        let read = v2::read(&body, &Tenant::default(), SourceId(1), 1, None, |_| {}).unwrap();
        let samples: Vec<_> = read.batch.samples.iter().map(|sample| sample.as_ref().unwrap()).collect();
        assert_eq!(samples.len(), 4);
        let def = |at: usize| read.batch.series[samples[at].series as usize].as_ref().unwrap();
        assert_eq!((def(0).labels.metric_name(), def(0).labels.get("job")), ("up", "a"));
        assert_eq!((samples[1].time_ms(), &samples[1].value), (2_000, &Value::Float(-2.0)));
        assert_eq!(def(2).meta.temporality, Temporality::Gauge, "cells are states over there");
        assert_eq!(def(3).meta.temporality, Temporality::Cumulative);
        for at in [2, 3] {
            let Value::Histogram(histogram) = &samples[at].value else { panic!("{:?}", samples[at]) };
            assert_eq!((histogram.total(), histogram.zero), (5, 1));
        }
    }
}
