//! Any body: reading a remote read request neither panics nor passes its limits; and what a remote write of the same bytes would have
//! stored is answered, as samples and as frames of chunks.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use ogive_model::{HistogramValue, Kind, SeriesData, SourceId, Tenant, Value};
use ogive_protocol::remote_read::{Answer, QUERIES_MAX, frames, request};
use ogive_protocol::remote_write::v1;

/// Small, so that a series has several.
const FRAME_BYTES_MAX: usize = 1_000;

/// What a store gives of the batch that `body` is: each series with its samples by time, one at each.
fn stored(body: &[u8]) -> Vec<SeriesData> {
    let Ok(read) = v1::read(body, &Tenant::default(), SourceId(1), 1, None, |_| {}) else { return Vec::new() };
    let batch = read.batch;
    let mut by_time: BTreeMap<(u32, i64), Value> = BTreeMap::new();
    for sample in batch.samples.into_iter().flatten() {
        by_time.insert((sample.series, sample.time_ns / 1_000_000), sample.value);
    }
    let series = batch.series.into_iter().enumerate().filter_map(|(at, def)| Some((at as u32, def.ok()?)));
    let with_samples = |(at, def): (u32, ogive_model::SeriesDef)| {
        let mut data = SeriesData {
            labels: def.labels,
            meta: def.meta,
            floats: Default::default(),
            histograms: Default::default(),
            texts: Default::default(),
            rollup_ms: 0,
        };
        for ((_, time), value) in by_time.range((at, i64::MIN)..=(at, i64::MAX)) {
            let histogram = match (data.meta.kind, value) {
                (Kind::Float, Value::Float(value)) => {
                    data.floats.times.push(*time);
                    data.floats.values.push(*value);
                    continue;
                }
                (Kind::Histogram, Value::Histogram(histogram)) => HistogramValue::Integer((**histogram).clone()),
                (Kind::Histogram, Value::FloatHistogram(histogram)) => HistogramValue::Float((**histogram).clone()),
                _ => continue,
            };
            data.histograms.times.push(*time);
            data.histograms.values.push(histogram);
        }
        data
    };
    series.map(with_samples).collect()
}

fuzz_target!(|body: &[u8]| {
    if let Ok(request) = request(body) {
        assert!(request.queries.len() <= QUERIES_MAX);
    }
    let series = stored(body);
    Answer::default().push(&series);
    for (at, one) in series.iter().enumerate() {
        assert!(frames(at, std::slice::from_ref(one), FRAME_BYTES_MAX, &mut |frame| !frame.is_empty()));
    }
});
