//! Streamed responses: frames of chunks, each a length, a checksum and a `prometheus.ChunkedReadResponse`.
//!
//! Format: a frame is its length (7 bits a byte), CRC32C of the message (big endian), the message. Chunks are those of
//! Prometheus's storage (`tsdb/docs/format/chunks.md`, `tsdb/chunkenc`): XOR, histogram and float histogram.
//! Invariants: a frame has chunks of one series; a chunk of a counter's histograms contains no reset.
//! Limits: [`FRAME_BYTES_MAX`], [`CHUNK_SAMPLES_MAX`], [`CHUNK_BINS_MAX`].

use std::borrow::Cow;

use ogive_hist::{Bins, Count, CounterReset, Histogram, Scheme};
use ogive_model::{HistogramValue, STALE, SeriesData, Temporality};

use super::bits::{Bits, Xor};
use super::native::{CUSTOM, known, spans, sum};
use super::samples::{floats, put_labels};
use crate::protobuf::write;

/// 1 MiB: what Prometheus' own `--storage.remote.read-max-bytes-in-frame` is. Only a single chunk that is larger passes
/// it.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// 120 samples, as many as Prometheus' own chunks have.
const CHUNK_SAMPLES_MAX: usize = 120;
/// 32,768 counts: at 9 bytes at most, 288 KiB of a chunk; 120 histograms of 160 bins are 19,200. One histogram may have
/// more.
const CHUNK_BINS_MAX: usize = 1 << 15;
/// What a frame's series and index of the query take beside labels and chunks.
const FRAME_ROOM: usize = 32;

/// `Chunk.Encoding`.
const XOR: u64 = 1;
const HISTOGRAM: u64 = 2;
const FLOAT_HISTOGRAM: u64 = 3;

/// A chunk: its times, encoding and bytes.
struct Chunk {
    first_ms: i64,
    last_ms: i64,
    encoding: u64,
    bytes: Vec<u8>,
}

impl Chunk {
    fn message(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() + 32);
        // As proto3 has it, zero is left out.
        for (field, number) in [(1, self.first_ms as u64), (2, self.last_ms as u64), (3, self.encoding)] {
            if number != 0 {
                write::number(&mut out, field, number);
            }
        }
        write::bytes(&mut out, 4, &self.bytes);
        out
    }
}

/// Gives the frames of `same`, which is what a label set has, to `put`, which says whether to go on; as the answer to
/// the query of that number.
pub fn frames(query: usize, same: &[SeriesData], bytes_max: usize, put: &mut impl FnMut(Vec<u8>) -> bool) -> bool {
    let Some(first) = same.first() else { return true };
    let mut labels = Vec::new();
    put_labels(&mut labels, &first.labels);
    let mut series = labels.clone();
    for chunk in chunks(same) {
        let message = chunk.message();
        if series.len() > labels.len() && series.len() + message.len() + FRAME_ROOM > bytes_max {
            if !put(frame(query, &series)) {
                return false;
            }
            series.truncate(labels.len());
        }
        write::bytes(&mut series, 2, &message);
    }
    series.len() == labels.len() || put(frame(query, &series))
}

fn frame(query: usize, series: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(series.len() + FRAME_ROOM);
    write::bytes(&mut message, 1, series);
    if query > 0 {
        write::number(&mut message, 2, query as u64);
    }
    let mut out = Vec::with_capacity(message.len() + FRAME_ROOM);
    write::varint(&mut out, message.len() as u64);
    out.extend_from_slice(&crc32c::crc32c(&message).to_be_bytes());
    out.extend_from_slice(&message);
    out
}

/// The chunks of a label set by their first time.
fn chunks(same: &[SeriesData]) -> Vec<Chunk> {
    let mut out: Vec<Chunk> = floats(same).chunks(CHUNK_SAMPLES_MAX).map(xor_chunk).collect();
    for series in same {
        let is_state = series.meta.temporality != Temporality::Cumulative;
        let column = &series.histograms;
        let mut at = 0;
        while at < column.times.len() {
            // Integers and floats take turns at most.
            let is_integer = |value: &HistogramValue| matches!(value, HistogramValue::Integer(_));
            let kind = is_integer(&column.values[at]);
            let count = column.values[at..].iter().take_while(|value| is_integer(value) == kind).count();
            let samples = column.times[at..at + count].iter().copied().zip(&column.values[at..at + count]);
            if kind {
                let whole = samples.filter_map(|(time, value)| match value {
                    HistogramValue::Integer(histogram) => Some((time, histogram)),
                    HistogramValue::Float(_) => None,
                });
                histogram_chunks(whole, is_state, &mut out);
            } else {
                let computed = samples.filter_map(|(time, value)| match value {
                    HistogramValue::Float(histogram) => Some((time, histogram)),
                    HistogramValue::Integer(_) => None,
                });
                histogram_chunks(computed, is_state, &mut out);
            }
            at += count;
        }
    }
    out.sort_by_key(|chunk| chunk.first_ms);
    out
}

fn xor_chunk(samples: &[(i64, f64)]) -> Chunk {
    let mut out = Bits::behind((samples.len() as u16).to_be_bytes().to_vec());
    let (mut before, mut step) = (samples[0].0, 0_u64);
    let mut value = Xor::new(samples[0].1);
    for (at, (time, number)) in samples.iter().enumerate() {
        let new_step = time.wrapping_sub(before) as u64;
        match at {
            0 => {
                out.varint(((time << 1) ^ (time >> 63)) as u64);
                out.put(number.to_bits(), 64);
            }
            1 => out.varint(new_step),
            _ => put_time(&mut out, new_step.wrapping_sub(step) as i64),
        }
        if at > 0 {
            value.put(&mut out, *number);
            step = new_step;
        }
        before = *time;
    }
    Chunk { first_ms: samples[0].0, last_ms: before, encoding: XOR, bytes: out.finish() }
}

/// By how much a step is longer than the one before.
fn put_time(out: &mut Bits, more: i64) {
    let fits = |size: u32| (-((1 << (size - 1)) - 1)..=1 << (size - 1)).contains(&more);
    let (prefix, ones, size) = match more {
        0 => return out.put(0, 1),
        _ if fits(14) => (0b10, 2, 14),
        _ if fits(17) => (0b110, 3, 17),
        _ if fits(20) => (0b1110, 4, 20),
        _ => (0b1111, 4, 64),
    };
    out.put(prefix, ones);
    out.put(more as u64, size);
}

/// How the counts of a histogram follow each other in a chunk.
trait Packed: Count {
    /// What the next one is reported by.
    type State: Clone;
    const ENCODING: u64;

    /// The first count of all, or of the zero bin.
    fn first(self, out: &mut Bits) -> Self::State;
    /// The first count of a bin, behind the bin `before`.
    fn first_bin(self, before: Self, out: &mut Bits) -> Self::State;
    /// A count that follows; of a bin behind another one, which is 0 for others.
    fn next(self, before: Self, seen: &mut Self::State, out: &mut Bits);
}

/// A whole number, and by how much it was more than the one before.
#[derive(Clone, Copy)]
struct IntegerStep {
    value: i64,
    more: i64,
}

impl Packed for u64 {
    type State = IntegerStep;
    const ENCODING: u64 = HISTOGRAM;

    fn first(self, out: &mut Bits) -> IntegerStep {
        out.unsigned(self);
        IntegerStep { value: self as i64, more: 0 }
    }

    fn first_bin(self, before: Self, out: &mut Bits) -> IntegerStep {
        let value = self.wrapping_sub(before) as i64;
        out.signed(value);
        IntegerStep { value, more: 0 }
    }

    fn next(self, before: Self, seen: &mut IntegerStep, out: &mut Bits) {
        let value = self.wrapping_sub(before) as i64;
        let more = value.wrapping_sub(seen.value);
        out.signed(more.wrapping_sub(seen.more));
        *seen = IntegerStep { value, more };
    }
}

impl Packed for f64 {
    type State = Xor;
    const ENCODING: u64 = FLOAT_HISTOGRAM;

    fn first(self, out: &mut Bits) -> Xor {
        out.put(self.to_bits(), 64);
        Xor::new(self)
    }

    fn first_bin(self, _: Self, out: &mut Bits) -> Xor {
        self.first(out)
    }

    fn next(self, _: Self, seen: &mut Xor, out: &mut Bits) {
        seen.put(out, self);
    }
}

/// A histogram at a time, in a scheme that Prometheus knows.
struct Sample<'a, C: Clone> {
    time_ms: i64,
    schema: i64,
    histogram: Cow<'a, Histogram<C>>,
}

/// Samples that make a chunk: of one layout, which has the bins of all of them.
struct Group<'a, C: Clone> {
    samples: Vec<Sample<'a, C>>,
    reset: CounterReset,
    positive: Vec<i32>,
    negative: Vec<i32>,
}

impl<'a, C: Packed> Group<'a, C> {
    fn new(sample: Sample<'a, C>, reset: CounterReset) -> Self {
        let [positive, negative] =
            [&sample.histogram.positive, &sample.histogram.negative].map(|bins| bins.indexes().to_vec());
        Self { samples: vec![sample], reset, positive, negative }
    }

    /// Takes the sample, or gives it back with what is known of its history.
    fn push(&mut self, sample: Sample<'a, C>, is_state: bool) -> Option<(Sample<'a, C>, CounterReset)> {
        let last = self.samples.last().expect("a group has samples");
        let (before, now) = (&last.histogram, &sample.histogram);
        if !is_state && (now.reset == CounterReset::Reset || !is_more(before, now)) {
            return Some((sample, CounterReset::Reset));
        }
        let is_stale = |histogram: &Histogram<C>| sum(histogram).to_bits() == STALE;
        let fits = self.samples.len() < CHUNK_SAMPLES_MAX
            && last.schema == sample.schema
            && before.zero_threshold == now.zero_threshold
            && (sample.schema != CUSTOM || before.scheme == now.scheme)
            && !is_stale(before)
            && !is_stale(now);
        let positive = joined(&self.positive, now.positive.indexes());
        let negative = joined(&self.negative, now.negative.indexes());
        if !fits || (positive.len() + negative.len()) * (self.samples.len() + 1) > CHUNK_BINS_MAX {
            let reset = now.reset;
            return Some((sample, reset));
        }
        (self.positive, self.negative) = (positive.into_owned(), negative.into_owned());
        self.samples.push(sample);
        None
    }

    fn chunk(&self, is_state: bool) -> Chunk {
        let flags = match self.reset {
            _ if is_state => 0b11,
            CounterReset::Unknown => 0b00,
            CounterReset::NotReset => 0b01,
            CounterReset::Reset => 0b10,
            CounterReset::Gauge => 0b11,
        };
        let [high, low] = (self.samples.len() as u16).to_be_bytes();
        let mut out = Bits::behind(vec![high, low, flags << 6]);
        self.put_layout(&mut out);
        self.put_samples(&mut out);
        let (first, last) = (&self.samples[0], &self.samples[self.samples.len() - 1]);
        Chunk { first_ms: first.time_ms, last_ms: last.time_ms, encoding: C::ENCODING, bytes: out.finish() }
    }

    fn put_layout(&self, out: &mut Bits) {
        let first = &self.samples[0];
        put_zero_threshold(out, first.histogram.zero_threshold);
        out.signed(first.schema);
        for indexes in [&self.positive, &self.negative] {
            let runs = spans(indexes.iter().copied());
            out.unsigned(runs.len() as u64);
            for (offset, length) in runs {
                out.unsigned(length);
                out.signed(offset);
            }
        }
        if let Scheme::Custom { bounds } = &first.histogram.scheme {
            out.unsigned(bounds.len() as u64);
            bounds.iter().for_each(|bound| put_bound(out, *bound));
        }
    }

    fn put_samples(&self, out: &mut Bits) {
        let (first, rest) = self.samples.split_first().expect("a group has samples");
        let histogram = &first.histogram;
        out.signed(first.time_ms);
        let mut seen = [histogram.count.first(out), histogram.zero.first(out)];
        out.put(sum(histogram).to_bits(), 64);
        let mut total = Xor::new(sum(histogram));
        let mut bins: Vec<C::State> = Vec::with_capacity(self.positive.len() + self.negative.len());
        for (indexes, counts) in [(&self.positive, &histogram.positive), (&self.negative, &histogram.negative)] {
            with_before(indexes, counts).for_each(|(before, count)| bins.push(count.first_bin(before, out)));
        }
        let (mut before_ms, mut step) = (first.time_ms, 0);
        for sample in rest {
            let histogram = &sample.histogram;
            let new_step = sample.time_ms.wrapping_sub(before_ms);
            out.signed(new_step.wrapping_sub(step));
            (before_ms, step) = (sample.time_ms, new_step);
            histogram.count.next(C::ZERO, &mut seen[0], out);
            histogram.zero.next(C::ZERO, &mut seen[1], out);
            total.put(out, sum(histogram));
            let positive = with_before(&self.positive, &histogram.positive);
            let negative = with_before(&self.negative, &histogram.negative);
            for ((before, count), seen) in positive.chain(negative).zip(&mut bins) {
                count.next(before, seen, out);
            }
        }
    }
}

/// The count at each index with the one at the index before.
fn with_before<'a, C: Count>(indexes: &'a [i32], bins: &'a Bins<C>) -> impl Iterator<Item = (C, C)> + 'a {
    let mut before = C::ZERO;
    indexes.iter().map(move |index| {
        let count = bins.get(*index);
        (std::mem::replace(&mut before, count), count)
    })
}

/// Whether no count of `before` became less, so that no reset is between them.
fn is_more<C: Count>(before: &Histogram<C>, now: &Histogram<C>) -> bool {
    let grows = |before: &Bins<C>, now: &Bins<C>| before.iter().all(|(index, count)| now.get(index) >= count);
    let is_same = before.scheme == now.scheme;
    now.count >= before.count
        && (!is_same
            || now.zero >= before.zero
                && grows(&before.positive, &now.positive)
                && grows(&before.negative, &now.negative))
}

/// Both, ascending.
fn joined<'a>(all: &'a [i32], more: &[i32]) -> Cow<'a, [i32]> {
    if more.iter().all(|index| all.binary_search(index).is_ok()) {
        return Cow::Borrowed(all);
    }
    let mut out = [all, more].concat();
    out.sort_unstable();
    out.dedup();
    Cow::Owned(out)
}

/// The zero threshold: one byte for powers of two, as nearly all are.
fn put_zero_threshold(out: &mut Bits, threshold: f64) {
    let (bits, exponent) = (threshold.to_bits(), (threshold.to_bits() >> 52) as i64 - 1022);
    let is_power = bits & ((1 << 52) - 1) == 0;
    match exponent {
        _ if threshold == 0.0 => out.put(0, 8),
        -242..=11 if is_power => out.put((exponent + 243) as u64, 8),
        _ => {
            out.put(255, 8);
            out.put(bits, 64);
        }
    }
}

/// A custom bound: short for those of at most three decimal places.
fn put_bound(out: &mut Bits, bound: f64) {
    let thousandths = bound * 1000.0;
    let whole = thousandths.round();
    if (0.0..=33_554_430.0).contains(&thousandths) && whole / 1000.0 == bound {
        out.unsigned(whole as u64 + 1);
    } else {
        out.put(0, 1);
        out.put(bound.to_bits(), 64);
    }
}

fn histogram_chunks<'a, C: Packed + 'a>(
    samples: impl Iterator<Item = (i64, &'a Histogram<C>)>,
    is_state: bool,
    out: &mut Vec<Chunk>,
) {
    let mut open: Option<Group<'_, C>> = None;
    for (time_ms, histogram) in samples {
        let (schema, histogram) = known(histogram);
        let sample = Sample { time_ms, schema, histogram };
        let refused = match &mut open {
            Some(group) => group.push(sample, is_state),
            None => {
                let reset = sample.histogram.reset;
                Some((sample, reset))
            }
        };
        if let Some((sample, reset)) = refused
            && let Some(full) = open.replace(Group::new(sample, reset))
        {
            out.push(full.chunk(is_state));
        }
    }
    out.extend(open.map(|group| group.chunk(is_state)));
}
