//! Histograms in Prometheus's form: schema, spans of bins and their counts.

use std::borrow::Cow;

use ogive_hist::{Bins, Count, CounterReset, Histogram, Scheme};

use crate::protobuf::write;

/// What a histogram of another scheme is converted to: bins 4.4 % wide, finer than those of any scheme that Ogive
/// records.
const SCALE: i32 = 4;
/// The schemas that every Prometheus with native histograms reads.
const SCALES: std::ops::RangeInclusive<i32> = -4..=8;
/// The schema of explicit bounds.
pub(super) const CUSTOM: i64 = -53;

/// How a count is written: as an integer and a difference to the one before, or as a double.
pub(crate) trait Written: Count {
    /// Which of the two numbers of a field is for this kind of counts.
    const KIND: usize;

    fn put(self, out: &mut Vec<u8>, field: u32);
    /// Appends to the packed counts of one sign, behind `before`.
    fn pack(self, before: Self, out: &mut Vec<u8>);
}

impl Written for u64 {
    const KIND: usize = 0;

    fn put(self, out: &mut Vec<u8>, field: u32) {
        write::number(out, field, self);
    }

    fn pack(self, before: Self, out: &mut Vec<u8>) {
        let difference = self.wrapping_sub(before) as i64;
        write::varint(out, ((difference << 1) ^ (difference >> 63)) as u64);
    }
}

impl Written for f64 {
    const KIND: usize = 1;

    fn put(self, out: &mut Vec<u8>, field: u32) {
        write::double(out, field, self);
    }

    fn pack(self, _: Self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

/// Field numbers of a message with a histogram; where there are two, of integers and of floats.
pub(crate) struct Fields {
    pub(crate) count: [u32; 2],
    pub(crate) sum: u32,
    pub(crate) schema: u32,
    pub(crate) zero_threshold: u32,
    pub(crate) zero: [u32; 2],
    pub(crate) negative_spans: u32,
    pub(crate) negative: [u32; 2],
    pub(crate) positive_spans: u32,
    pub(crate) positive: [u32; 2],
}

/// Those of `prometheus.Histogram`.
const FIELDS: Fields = Fields {
    count: [1, 2],
    sum: 3,
    schema: 4,
    zero_threshold: 5,
    zero: [6, 7],
    negative_spans: 8,
    negative: [9, 10],
    positive_spans: 11,
    positive: [12, 13],
};

/// A histogram in a scheme that Prometheus knows, and its schema.
pub(crate) fn known<C: Count>(histogram: &Histogram<C>) -> (i64, Cow<'_, Histogram<C>>) {
    match &histogram.scheme {
        Scheme::Exp2 { scale } if SCALES.contains(&i32::from(*scale)) => (i64::from(*scale), Cow::Borrowed(histogram)),
        Scheme::Custom { .. } => (CUSTOM, Cow::Borrowed(histogram)),
        other => {
            let scale = match other {
                Scheme::Exp2 { scale } => i32::from(*scale).clamp(*SCALES.start(), *SCALES.end()),
                _ => SCALE,
            };
            let converted = histogram.convert(&Scheme::exp2(scale).expect("a known scale")).0;
            (i64::from(scale), Cow::Owned(converted))
        }
    }
}

/// The sum, estimated where the sender omits it, as queries have it. Observations that are no number are in the count
/// and in no bin: Prometheus knows them by a sum that is none.
pub(crate) fn sum<C: Count>(histogram: &Histogram<C>) -> f64 {
    if histogram.nan == C::ZERO { histogram.sum_or_estimate() } else { f64::NAN }
}

/// Runs of neighbours among ascending indexes: how far each begins behind the end of the one before, and its length.
pub(super) fn spans(indexes: impl Iterator<Item = i32>) -> Vec<(i64, u64)> {
    let mut runs: Vec<(i64, u64)> = Vec::new();
    let mut end = 0;
    for index in indexes.map(i64::from) {
        match runs.last_mut() {
            Some((_, length)) if index == end => *length += 1,
            _ => runs.push((index - end, 1)),
        }
        end = index + 1;
    }
    runs
}

/// A histogram as `prometheus.Histogram`, without its time.
pub(crate) fn put_histogram<C: Written>(out: &mut Vec<u8>, histogram: &Histogram<C>, is_state: bool) {
    let (schema, histogram) = known(histogram);
    put_fields(out, &FIELDS, schema, &histogram);
    let reset = match histogram.reset {
        _ if is_state => 3,
        CounterReset::Unknown => 0,
        CounterReset::Reset => 1,
        CounterReset::NotReset => 2,
        CounterReset::Gauge => 3,
    };
    write::number(out, 14, reset);
    if let Scheme::Custom { bounds } = &histogram.scheme {
        let packed: Vec<u8> = bounds.iter().flat_map(|bound| bound.to_le_bytes()).collect();
        write::bytes(out, 16, &packed);
    }
}

/// The counts of a histogram of `schema`.
pub(crate) fn put_fields<C: Written>(out: &mut Vec<u8>, fields: &Fields, schema: i64, histogram: &Histogram<C>) {
    histogram.count.put(out, fields.count[C::KIND]);
    write::double(out, fields.sum, sum(histogram));
    write::signed(out, fields.schema, schema);
    write::double(out, fields.zero_threshold, histogram.zero_threshold);
    histogram.zero.put(out, fields.zero[C::KIND]);
    put_side(out, &histogram.negative, [fields.negative_spans, fields.negative[C::KIND]]);
    put_side(out, &histogram.positive, [fields.positive_spans, fields.positive[C::KIND]]);
}

/// The bins of one sign: runs of neighbours as spans, and the counts.
fn put_side<C: Written>(out: &mut Vec<u8>, bins: &Bins<C>, [spans, counts]: [u32; 2]) {
    if bins.is_empty() {
        return;
    }
    for (offset, length) in self::spans(bins.indexes().iter().copied()) {
        let mut span = Vec::new();
        write::signed(&mut span, 1, offset);
        write::number(&mut span, 2, length);
        write::bytes(out, spans, &span);
    }
    let (mut packed, mut before) = (Vec::new(), C::ZERO);
    for (_, count) in bins.iter() {
        count.pack(before, &mut packed);
        before = count;
    }
    write::bytes(out, counts, &packed);
}
