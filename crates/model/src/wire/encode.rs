//! From a batch to its FlatBuffers message.

use ogive_hist::{Bins, Count, CounterReset, Histogram, Scheme};

use super::frame::{BOUNDS_MAX, HISTOGRAMS_MAX, PAIR_BYTES, SERIES_MAX, TEXT_BYTES_MAX, TEXT_SAMPLE_BYTES_MAX};
use super::generated::ogive::wire as fb;
use super::varint;
use crate::error::within;
use crate::{Batch, Error, Kind, Sample, SeriesDef, SeriesId, Temporality, Value};

/// The message of the good series and samples of `batch`; its series are left out unless it is to declare them.
pub(super) fn message(batch: &Batch, declares: bool) -> fb::Batch {
    let mut out = Columns::default();
    let mut index_of = Vec::with_capacity(batch.series.len());
    let mut first = 0_u32;
    for series in &batch.series {
        index_of.push(series.as_ref().ok().map(|_| first));
        first += u32::from(series.is_ok());
    }
    if declares {
        batch.series.iter().flatten().for_each(|def| out.declare(def));
    }
    index_of.extend((first..).take(batch.known.len()).map(Some));
    for sample in batch.samples.iter().flatten() {
        if let Some(Some(series)) = index_of.get(sample.series as usize) {
            out.push(*series, sample);
        }
    }
    if !batch.known.is_empty() {
        out.shorten();
    }
    for column in [&mut out.floats.start_ns, &mut out.histograms.start_ns, &mut out.float_histograms.start_ns] {
        shorten_starts(column);
    }
    out.finish(batch)
}

/// Whether the message contains a start.
pub(super) fn has_starts(message: &fb::Batch) -> bool {
    let of_histograms = |column: &fb::Histograms| column.start_ns.is_some();
    message.floats.as_ref().is_some_and(|column| column.start_ns.is_some())
        || message.histograms.as_deref().is_some_and(of_histograms)
        || message.float_histograms.as_ref().is_some_and(|column| of_histograms(&column.shape))
}

#[derive(Default)]
struct Columns {
    series: Vec<fb::Series>,
    schemes: Vec<fb::Scheme>,
    scheme_keys: Vec<(Scheme, u64)>,
    floats: fb::Floats,
    histograms: fb::Histograms,
    float_histograms: fb::Histograms,
    float_counts: Vec<f64>,
    texts: fb::Texts,
}

impl Columns {
    fn declare(&mut self, def: &SeriesDef) {
        self.series.push(fb::Series {
            labels: def.labels.iter().flat_map(|(name, value)| [name.to_owned(), value.to_owned()]).collect(),
            kind: match def.meta.kind {
                Kind::Float => fb::Kind::Float,
                Kind::Histogram => fb::Kind::Histogram,
                Kind::Text => fb::Kind::Text,
            },
            temporality: match def.meta.temporality {
                Temporality::Gauge => fb::Temporality::Gauge,
                Temporality::Cumulative => fb::Temporality::Cumulative,
                Temporality::Delta => fb::Temporality::Delta,
            },
            unit: Some(def.meta.unit.clone()).filter(|unit| !unit.is_empty()),
            width_ms: def.meta.width_ms,
        });
    }

    fn push(&mut self, series: u32, sample: &Sample) {
        match &sample.value {
            Value::Float(value) => {
                push_start(&mut self.floats.start_ns, self.floats.series.len(), sample);
                self.floats.series.push(series);
                self.floats.time_ns.push(sample.time_ns);
                self.floats.value.push(*value);
            }
            Value::Histogram(histogram) => {
                let scheme = self.scheme(&histogram.scheme, histogram.zero_threshold);
                let column = &mut self.histograms;
                push_shape(column, series, sample, scheme, histogram);
                varint::put(&mut column.bins, histogram.zero);
                varint::put(&mut column.bins, histogram.nan);
                for bins in [&histogram.negative, &histogram.positive] {
                    put_bins(&mut column.bins, bins, varint::put);
                }
                end_bins(column);
            }
            Value::FloatHistogram(histogram) => {
                let scheme = self.scheme(&histogram.scheme, histogram.zero_threshold);
                let column = &mut self.float_histograms;
                push_shape(column, series, sample, scheme, histogram);
                self.float_counts.extend([histogram.count, histogram.zero, histogram.nan]);
                for bins in [&histogram.negative, &histogram.positive] {
                    put_bins(&mut column.bins, bins, |_, count| self.float_counts.push(count));
                }
                end_bins(column);
            }
            Value::Text(text) => {
                self.texts.series.push(series);
                self.texts.time_ns.push(sample.time_ns);
                self.texts.value.push(text.clone());
            }
        }
    }

    /// Index of the scheme in the batch's dictionary. A batch has a handful of schemes: a search is enough.
    fn scheme(&mut self, scheme: &Scheme, zero_threshold: f64) -> u32 {
        let key = (scheme, zero_threshold.to_bits());
        let found = self.scheme_keys.iter().rposition(|known| (&known.0, known.1) == key);
        let index = found.unwrap_or_else(|| {
            self.scheme_keys.push((scheme.clone(), key.1));
            self.schemes.push(scheme_message(scheme, zero_threshold));
            self.schemes.len() - 1
        });
        u32::try_from(index).expect("fewer schemes than samples")
    }

    /// Leaves out columns of floats that have default values.
    fn shorten(&mut self) {
        let fb::Floats { series, time_ns, .. } = &mut self.floats;
        if series.iter().zip(0..).all(|(series, at)| *series == at) {
            series.clear();
        }
        if time_ns.windows(2).all(|pair| pair[0] == pair[1]) {
            time_ns.truncate(1);
        }
    }

    fn finish(self, batch: &Batch) -> fb::Batch {
        let float_histograms =
            fb::FloatHistograms { shape: Box::new(self.float_histograms), counts: self.float_counts };
        fb::Batch {
            source_low: batch.source.0 as u64,
            source_high: (batch.source.0 >> 64) as u64,
            sequence: batch.sequence,
            series: Some(self.series),
            schemes: Some(self.schemes).filter(|schemes| !schemes.is_empty()),
            floats: Some(Box::new(self.floats)).filter(|column| !column.value.is_empty()),
            histograms: Some(Box::new(self.histograms)).filter(|column| !column.series.is_empty()),
            float_histograms: Some(Box::new(float_histograms)).filter(|column| !column.shape.series.is_empty()),
            texts: Some(Box::new(self.texts)).filter(|column| !column.series.is_empty()),
            known: Some(batch.known.iter().map(key).collect::<Vec<_>>()).filter(|known| !known.is_empty()),
        }
    }
}

const fn key(id: &SeriesId) -> fb::SeriesKey {
    fb::SeriesKey { low: id.0 as u64, high: (id.0 >> 64) as u64 }
}

/// The message of an arrival: a number, and no series.
pub(super) fn arrival(time_ns: u64) -> fb::Batch {
    Columns::default().finish(&Batch { sequence: time_ns, ..Batch::default() })
}

/// Checks that readers accept the decoded size of `message` and the `series` that it or its dictionary declares: one
/// string may be referenced many times, so the size is not visible from the length of the frame. A message that no
/// reader accepts must not be written: a journal would hold it in vain.
pub(super) fn check_limits(message: &fb::Batch, series: &[&SeriesDef], series_max: usize) -> Result<(), Error> {
    let known = message.known.as_ref().map_or(0, Vec::len);
    within("the number of series in a batch", series.len() + known, series_max)?;
    let labels = series.iter().map(|def| {
        let strings: usize = def.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        strings + def.labels.len() * PAIR_BYTES + def.meta.unit.len()
    });
    let texts = message.texts.iter().flat_map(|column| &column.value).map(String::len);
    let texts = texts.filter(|bytes| *bytes <= TEXT_SAMPLE_BYTES_MAX);
    let bytes = labels.chain(texts).fold(0, usize::saturating_add);
    within("the bytes of a batch's labels and texts", bytes, TEXT_BYTES_MAX)?;
    let integers = message.histograms.as_ref().map_or(0, |column| column.series.len());
    let floats = message.float_histograms.as_ref().map_or(0, |column| column.shape.series.len());
    within("the number of histograms in a batch", integers.max(floats), HISTOGRAMS_MAX)?;
    let schemes = message.schemes.as_deref().unwrap_or_default();
    within("the number of schemes in a batch", schemes.len(), SERIES_MAX)?;
    let bounds = schemes.iter().map(|scheme| scheme.bounds.as_ref().map_or(0, Vec::len)).sum();
    within("a batch's custom bounds", bounds, BOUNDS_MAX)
}

/// A message of series alone.
pub(super) fn definitions(series: &[&SeriesDef]) -> fb::Batch {
    let mut out = Columns::default();
    series.iter().for_each(|def| out.declare(def));
    out.finish(&Batch::default())
}

fn scheme_message(scheme: &Scheme, zero_threshold: f64) -> fb::Scheme {
    let kind = match scheme {
        Scheme::LogLinear10 => fb::SchemeKind::LogLinear10,
        Scheme::Exp2 { .. } => fb::SchemeKind::Exp2,
        Scheme::Custom { .. } => fb::SchemeKind::Custom,
        Scheme::LogLinear2 { .. } => fb::SchemeKind::LogLinear2,
        Scheme::Gamma { .. } => fb::SchemeKind::Gamma,
    };
    let mut message = fb::Scheme { kind, zero_threshold, ..fb::Scheme::default() };
    match scheme {
        Scheme::LogLinear10 => {}
        Scheme::Exp2 { scale } => message.scale = *scale,
        Scheme::Custom { bounds } => message.bounds = Some(bounds.to_vec()),
        Scheme::LogLinear2 { grouping, shift, unit } => {
            (message.scale, message.shift, message.unit) = (grouping.cast_signed(), *shift, *unit);
        }
        Scheme::Gamma { gamma, offset } => (message.gamma, message.offset) = (*gamma, *offset),
    }
    message
}

/// `count` samples precede this one. A column without any known start is left out.
fn push_start(column: &mut Option<Vec<i64>>, count: usize, sample: &Sample) {
    let start = sample.start_ns.unwrap_or(0);
    if start != 0 || column.is_some() {
        let column = column.get_or_insert_default();
        column.resize(count, 0);
        column.push(start);
    }
}

/// Reduces equal starts to one.
fn shorten_starts(column: &mut Option<Vec<i64>>) {
    if let Some(starts) = column
        && starts.windows(2).all(|pair| pair[0] == pair[1])
    {
        starts.truncate(1);
    }
}

fn push_shape<C: Count>(
    column: &mut fb::Histograms,
    series: u32,
    sample: &Sample,
    scheme: u32,
    histogram: &Histogram<C>,
) {
    let known = [histogram.sum, histogram.min, histogram.max];
    let flags = (0..3).map(|bit| u8::from(known[bit].is_some()) << bit).sum::<u8>() | reset_bits(histogram.reset) << 3;
    push_start(&mut column.start_ns, column.series.len(), sample);
    column.series.push(series);
    column.time_ns.push(sample.time_ns);
    column.scheme.push(scheme);
    column.flags.push(flags);
    column.sum.push(histogram.sum.unwrap_or(0.0));
    column.min.push(histogram.min.unwrap_or(0.0));
    column.max.push(histogram.max.unwrap_or(0.0));
}

const fn reset_bits(reset: CounterReset) -> u8 {
    match reset {
        CounterReset::Unknown => 0,
        CounterReset::Reset => 1,
        CounterReset::NotReset => 2,
        CounterReset::Gauge => 3,
    }
}

/// Number of bins, then for each the zig-zag distance of its index from the previous one, and its count.
fn put_bins<C: Count>(out: &mut Vec<u8>, bins: &Bins<C>, mut put_count: impl FnMut(&mut Vec<u8>, C)) {
    varint::put(out, bins.len() as u64);
    let mut before = 0;
    for (index, count) in bins.iter() {
        varint::put(out, varint::zigzag(i64::from(index) - before));
        before = i64::from(index);
        put_count(out, count);
    }
}

fn end_bins(column: &mut fb::Histograms) {
    column.bins_end.push(u32::try_from(column.bins.len()).unwrap_or(u32::MAX));
}
