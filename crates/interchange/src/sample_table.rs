//! Stored samples as a table of Arrow: what `ogive export` writes, and `ogive import parquet` reads back without a
//! loss.
//!
//! Format: docs/formats/samples.md. A row is a sample.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::{MapBuilder, MapFieldNames, StringBuilder};
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int8Array, Int32Array, ListArray, RecordBatch, StringArray, StructArray,
    TimestampMillisecondArray, UInt32Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use ogive_hist::{Bins, Count, CounterReset, Histogram};
use ogive_model::{Batch, METRIC_NAME, Sample, SeriesDef, Value};

use crate::scheme_text;

/// The columns of every table.
pub static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let time = || DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("time", time(), false),
        Field::new("start", time(), true),
        Field::new("name", DataType::Utf8, false),
        Field::new_map(
            "labels",
            "entries",
            Field::new("key", DataType::Utf8, false),
            Field::new("value", DataType::Utf8, false),
            false,
            false,
        ),
        Field::new("temporality", DataType::Utf8, false),
        Field::new("unit", DataType::Utf8, false),
        Field::new("width_ms", DataType::UInt32, false),
        Field::new("value", DataType::Float64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("histogram", DataType::Struct(histogram_fields()), true),
    ]))
});

fn histogram_fields() -> Fields {
    let number = |name: &str, nullable| Field::new(name, DataType::Float64, nullable);
    Fields::from(vec![
        number("count", false),
        number("sum", true),
        number("min", true),
        number("max", true),
        Field::new("scheme", DataType::Utf8, false),
        Field::new("whole", DataType::Boolean, false),
        Field::new("reset", DataType::Utf8, false),
        number("zero_threshold", false),
        number("zero_count", false),
        number("nan_count", false),
        Field::new("buckets", DataType::List(bucket_item()), false),
    ])
}

fn bucket_item() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Struct(bucket_fields()), false))
}

fn bucket_fields() -> Fields {
    Fields::from(vec![
        Field::new("side", DataType::Int8, false),
        Field::new("index", DataType::Int32, false),
        Field::new("lower", DataType::Float64, false),
        Field::new("upper", DataType::Float64, false),
        Field::new("count", DataType::Float64, false),
    ])
}

/// Words of [`CounterReset`].
pub(crate) const RESETS: [(&str, CounterReset); 4] = [
    ("unknown", CounterReset::Unknown),
    ("reset", CounterReset::Reset),
    ("not_reset", CounterReset::NotReset),
    ("gauge", CounterReset::Gauge),
];

/// Columns of a histogram while they grow.
#[derive(Default)]
struct Histograms {
    valid: Vec<bool>,
    numbers: [Vec<Option<f64>>; 7],
    scheme: Vec<String>,
    whole: Vec<bool>,
    reset: Vec<&'static str>,
    ends: Vec<usize>,
    side: Vec<i8>,
    index: Vec<i32>,
    lower: Vec<f64>,
    upper: Vec<f64>,
    counts: Vec<f64>,
}

impl Histograms {
    fn none(&mut self) {
        self.valid.push(false);
        for (column, value) in
            self.numbers.iter_mut().zip([Some(0.0), None, None, None, Some(0.0), Some(0.0), Some(0.0)])
        {
            column.push(value);
        }
        self.scheme.push(String::new());
        self.whole.push(false);
        self.reset.push("unknown");
        self.ends.push(0);
    }

    fn push<C: Count>(&mut self, one: &Histogram<C>, whole: bool) {
        self.valid.push(true);
        let known = [
            Some(one.count.to_f64()),
            one.sum,
            one.min,
            one.max,
            Some(one.zero_threshold),
            Some(one.zero.to_f64()),
            Some(one.nan.to_f64()),
        ];
        self.numbers.iter_mut().zip(known).for_each(|(column, value)| column.push(value));
        self.scheme.push(scheme_text::write(&one.scheme));
        self.whole.push(whole);
        let word = RESETS.iter().find(|(_, reset)| *reset == one.reset).map_or("unknown", |(word, _)| word);
        self.reset.push(word);
        let before = self.index.len();
        let mut bins = |side: i8, bins: &Bins<C>| {
            for (index, count) in bins.iter() {
                let (lower, upper) = one.scheme.bounds(side > 0, index);
                self.side.push(side);
                self.index.push(index);
                self.lower.push(lower);
                self.upper.push(upper);
                self.counts.push(count.to_f64());
            }
        };
        bins(-1, &one.negative);
        bins(1, &one.positive);
        self.ends.push(self.index.len() - before);
    }

    fn finish(self) -> StructArray {
        let buckets = StructArray::new(
            bucket_fields(),
            vec![
                Arc::new(Int8Array::from(self.side)) as ArrayRef,
                Arc::new(Int32Array::from(self.index)),
                Arc::new(Float64Array::from(self.lower)),
                Arc::new(Float64Array::from(self.upper)),
                Arc::new(Float64Array::from(self.counts)),
            ],
            None,
        );
        let offsets = OffsetBuffer::from_lengths(self.ends);
        let buckets = ListArray::new(bucket_item(), offsets, Arc::new(buckets), None);
        let [count, sum, min, max, threshold, zero, nan] =
            self.numbers.map(|column| Arc::new(Float64Array::from(column)) as ArrayRef);
        StructArray::new(
            histogram_fields(),
            vec![
                count,
                sum,
                min,
                max,
                Arc::new(StringArray::from(self.scheme)),
                Arc::new(BooleanArray::from(self.whole)),
                Arc::new(StringArray::from(self.reset)),
                threshold,
                zero,
                nan,
                Arc::new(buckets),
            ],
            Some(NullBuffer::from(self.valid)),
        )
    }
}

/// The samples of a batch that are good, as rows.
///
/// # Panics
/// When a sample names no series of the batch: it was read from a store, which does not give such.
#[must_use]
pub fn rows(batch: &Batch) -> RecordBatch {
    let samples: Vec<(&SeriesDef, &Sample)> = batch
        .samples
        .iter()
        .flatten()
        .filter_map(|sample| Some((batch.series[sample.series as usize].as_ref().ok()?, sample)))
        .collect();
    let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
    let value_field = Field::new("value", DataType::Utf8, false);
    let mut labels =
        MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new()).with_values_field(value_field);
    let mut histograms = Histograms::default();
    for (series, sample) in &samples {
        for (name, value) in series.labels.iter().filter(|(name, _)| *name != METRIC_NAME) {
            labels.keys().append_value(name);
            labels.values().append_value(value);
        }
        labels.append(true).expect("keys and values are as many");
        match &sample.value {
            Value::Histogram(one) => histograms.push(one, true),
            Value::FloatHistogram(one) => histograms.push(one, false),
            _ => histograms.none(),
        }
    }
    let times = samples.iter().map(|(_, sample)| sample.time_ms());
    let starts = samples.iter().map(|(_, sample)| Some(sample.start_ms()).filter(|start| *start != 0));
    let texts = |text: &dyn Fn(&SeriesDef) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(samples.iter().map(|(series, _)| text(series))))
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMillisecondArray::from_iter_values(times).with_timezone("UTC")),
        Arc::new(TimestampMillisecondArray::from_iter(starts).with_timezone("UTC")),
        texts(&|series| series.labels.metric_name()),
        Arc::new(labels.finish()),
        texts(&|series| series.meta.temporality.as_str()),
        texts(&|series| &series.meta.unit),
        Arc::new(UInt32Array::from_iter_values(samples.iter().map(|(series, _)| series.meta.width_ms))),
        Arc::new(Float64Array::from_iter(samples.iter().map(|(_, sample)| match &sample.value {
            Value::Float(value) => Some(*value),
            _ => None,
        }))),
        Arc::new(StringArray::from_iter(samples.iter().map(|(_, sample)| match &sample.value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        }))),
        Arc::new(histograms.finish()),
    ];
    RecordBatch::try_new(SCHEMA.clone(), columns).expect("the columns are those of the schema")
}
