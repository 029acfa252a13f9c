//! Native histograms as every known sender writes them: integer counts, an exponential schema, each field once. Their
//! deltas become bins without a list of numbers in between.
//!
//! Invariants: what is read here is what [`super::native`] reads of the same bytes; everything else, and what breaks a
//! rule, is left to it.

use ogive_hist::{Bins, CounterReset, Histogram, Scheme};

use crate::protobuf::{Field, Fields, varint, zigzag};

/// 65,536 bins of each sign: Prometheus limits a scrape to far fewer, OTLP's widest has 160.
pub(super) const BINS_MAX: usize = 1 << 16;
/// 32 spans of a sign, half a KiB: senders merge those that are close. What has more is read field by field.
const SPANS_MAX: usize = 32;

/// A run of bins: the distance of the first from the end of the run before, and how many.
#[derive(Clone, Copy, Default)]
struct Span {
    offset: i64,
    length: u64,
}

/// The bins of one sign where they lie in the message.
#[derive(Clone, Copy)]
struct Side<'a> {
    spans: [Span; SPANS_MAX],
    span_count: usize,
    deltas: &'a [u8],
}

impl<'a> Side<'a> {
    const EMPTY: Self = Self { spans: [Span { offset: 0, length: 0 }; SPANS_MAX], span_count: 0, deltas: &[] };

    fn add_span(&mut self, message: &[u8]) -> Option<()> {
        let place = self.spans.get_mut(self.span_count)?;
        for field in Fields::new(message) {
            match field.ok()? {
                (1, Field::Varint(offset)) => place.offset = zigzag(offset),
                (2, Field::Varint(length)) => place.length = length,
                _ => return None,
            }
        }
        self.span_count += 1;
        Some(())
    }

    fn set_deltas(&mut self, packed: &'a [u8]) -> Option<()> {
        // Those of a second field would follow the others.
        let is_first = self.deltas.is_empty();
        self.deltas = packed;
        is_first.then_some(())
    }

    /// The bins that count something.
    fn bins(&self) -> Option<Bins<u64>> {
        let spans = &self.spans[..self.span_count];
        let spanned = spans.iter().try_fold(0_u64, |sum, span| sum.checked_add(span.length))?;
        // A delta takes a byte at least.
        let spanned = usize::try_from(spanned).ok().filter(|bins| *bins <= self.deltas.len().min(BINS_MAX))?;
        let mut counts = Vec::with_capacity(spanned);
        let (mut rest, mut count, mut filled) = (self.deltas, 0_i64, 0);
        for _ in 0..spanned {
            count = count.checked_add(zigzag(take(&mut rest)?))?;
            filled += usize::from(count != 0);
            counts.push(u64::try_from(count).ok()?);
        }
        if !rest.is_empty() {
            return None;
        }
        let mut bins = Bins::from_columns(indexes(spans, spanned)?, counts);
        if filled < spanned {
            bins.retain(|_, count| count != 0);
        }
        if filled < spanned / 2 {
            // The store keeps the columns as they are, and counts the bins that they hold.
            bins.shrink_to_fit();
        }
        Some(bins)
    }
}

/// The indexes of the bins of `spans`, `spanned` in all.
fn indexes(spans: &[Span], spanned: usize) -> Option<Vec<i32>> {
    let mut indexes = Vec::with_capacity(spanned);
    let mut end = 0_i64;
    for (at, span) in spans.iter().enumerate() {
        if at > 0 && span.offset < 0 {
            return None;
        }
        let begin = end.checked_add(span.offset)?;
        end = begin.checked_add(i64::try_from(span.length).ok()?)?;
        let last = i32::try_from(end.checked_sub(1)?).ok()?;
        // One that is empty may lie anywhere.
        if span.length > 0 {
            indexes.extend(i32::try_from(begin).ok()?..=last);
        }
    }
    Some(indexes)
}

/// A LEB128 number off the front of `rest`: of up to eight bytes, without a branch on how many.
#[inline]
fn take(rest: &mut &[u8]) -> Option<u64> {
    const ENDS: u64 = 0x8080_8080_8080_8080;
    let Some(next) = rest.first_chunk().map(|next| u64::from_le_bytes(*next)) else {
        return varint(rest, "a delta").ok();
    };
    let ends = !next & ENDS;
    if ends == 0 {
        return varint(rest, "a delta").ok();
    }
    // Everything up to the end of the byte that is the last, seven bits of each byte, moved together.
    let value = next & (ends ^ (ends - 1)) & !ENDS;
    let value = (value & 0x007f_007f_007f_007f) | (value & 0x7f00_7f00_7f00_7f00) >> 1;
    let value = (value & 0x0000_3fff_0000_3fff) | (value & 0x3fff_0000_3fff_0000) >> 2;
    let value = (value & 0x0000_0000_0fff_ffff) | (value & 0x0fff_ffff_0000_0000) >> 4;
    *rest = &rest[(ends.trailing_zeros() as usize + 1) / 8..];
    Some(value)
}

/// A histogram at an instant. Times are milliseconds since the Unix epoch, 0 when not known.
pub(super) struct Plain {
    pub(super) time_ms: i64,
    pub(super) start_ms: i64,
    pub(super) histogram: Box<Histogram>,
}

/// The fields of a message.
struct Parts<'a> {
    time_ms: i64,
    start_ms: i64,
    count: u64,
    sum: f64,
    schema: i64,
    zero_threshold: f64,
    zero: u64,
    negative: Side<'a>,
    positive: Side<'a>,
    reset: u64,
}

/// The histogram in `message`; None when it is not as plain as this module has it.
pub(super) fn read(message: &[u8]) -> Option<Plain> {
    let mut parts = Parts {
        time_ms: 0,
        start_ms: 0,
        count: 0,
        sum: 0.0,
        schema: 0,
        zero_threshold: 0.0,
        zero: 0,
        negative: Side::EMPTY,
        positive: Side::EMPTY,
        reset: 0,
    };
    for field in Fields::new(message) {
        match field.ok()? {
            (1, Field::Varint(count)) => parts.count = count,
            (3, Field::Fixed64(bits)) => parts.sum = f64::from_bits(bits),
            (4, Field::Varint(schema)) => parts.schema = zigzag(schema),
            (5, Field::Fixed64(bits)) => parts.zero_threshold = f64::from_bits(bits),
            (6, Field::Varint(zero)) => parts.zero = zero,
            (8, Field::Bytes(span)) => parts.negative.add_span(span)?,
            (9, Field::Bytes(packed)) => parts.negative.set_deltas(packed)?,
            (11, Field::Bytes(span)) => parts.positive.add_span(span)?,
            (12, Field::Bytes(packed)) => parts.positive.set_deltas(packed)?,
            (14, Field::Varint(reset)) => parts.reset = reset,
            (15, Field::Varint(time)) => parts.time_ms = time.cast_signed(),
            (17, Field::Varint(start)) => parts.start_ms = start.cast_signed(),
            _ => return None,
        }
    }
    Some(Plain { time_ms: parts.time_ms, start_ms: parts.start_ms, histogram: parts.histogram()? })
}

impl Parts<'_> {
    fn histogram(&self) -> Option<Box<Histogram>> {
        let scheme = Scheme::exp2(i32::try_from(self.schema).ok()?).ok()?;
        let (negative, positive) = (self.negative.bins()?, self.positive.bins()?);
        let reset = match self.reset {
            0 => CounterReset::Unknown,
            1 => CounterReset::Reset,
            2 => CounterReset::NotReset,
            3 => CounterReset::Gauge,
            _ => return None,
        };
        let histogram = Box::new(Histogram {
            scheme,
            zero_threshold: self.zero_threshold,
            zero: self.zero,
            nan: 0,
            negative,
            positive,
            count: self.count,
            sum: Some(self.sum),
            min: None,
            max: None,
            reset,
        });
        // Observations that are no number are in the count and in no bin.
        (histogram.total() == self.count && histogram.check().is_ok()).then_some(histogram)
    }
}
