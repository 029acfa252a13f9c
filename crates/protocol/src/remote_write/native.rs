//! Native histograms of remote write: `prometheus.Histogram`, spans of bins with the differences between their counts.

use ogive_hist::{Bins, Count, CounterReset, Histogram, Scheme};

use super::plain::{self, BINS_MAX, Plain};
use crate::Error;
use crate::protobuf::{Field, Fields, zigzag};

/// The schema of explicit bounds.
const CUSTOM: i64 = -53;

/// A histogram at an instant, in the counts that it came in.
#[derive(Clone, Debug, PartialEq)]
pub struct Native {
    /// Milliseconds since the Unix epoch.
    pub time_ms: i64,
    /// When it began to count, milliseconds since the Unix epoch; 0 when that is not known.
    pub start_ms: i64,
    /// The distribution, or the rule that it breaks.
    pub histogram: Result<Counts, &'static str>,
}

/// A histogram of either kind of counts.
#[derive(Clone, Debug, PartialEq)]
pub enum Counts {
    /// What was counted.
    Integer(Box<Histogram<u64>>),
    /// What was computed.
    Float(Box<Histogram<f64>>),
}

impl Counts {
    /// Whether the sender says that it is a state, not a count since some start.
    #[must_use]
    pub fn is_gauge(&self) -> bool {
        let reset = match self {
            Self::Integer(histogram) => histogram.reset,
            Self::Float(histogram) => histogram.reset,
        };
        reset == CounterReset::Gauge
    }
}

/// The fields as they come.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    pub(crate) time_ms: i64,
    pub(crate) start_ms: i64,
    pub(crate) count: Number,
    pub(crate) sum: f64,
    pub(crate) schema: i64,
    pub(crate) zero_threshold: f64,
    pub(crate) zero: Number,
    pub(crate) negative: Side,
    pub(crate) positive: Side,
    pub(crate) reset: u64,
    pub(crate) bounds: Vec<f64>,
}

/// One of the two kinds of numbers that a count may come as.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Number {
    #[default]
    None,
    Integer(u64),
    Float(f64),
}

/// What a field of a [`Side`] holds.
#[derive(Clone, Copy)]
pub(crate) enum SidePart {
    Span,
    Deltas,
    Counts,
}

/// The bins of one sign.
#[derive(Clone, Debug, Default)]
pub(crate) struct Side {
    /// Offset from the end of the span before, and length.
    pub(crate) spans: Vec<(i64, u64)>,
    pub(crate) deltas: Vec<u64>,
    pub(crate) counts: Vec<f64>,
}

impl Native {
    /// Whether the sender says that it is a state, not a count since some start.
    #[must_use]
    pub fn is_gauge(&self) -> bool {
        matches!(&self.histogram, Ok(counts) if counts.is_gauge())
    }

    pub(super) fn read(message: &[u8]) -> Result<Self, Error> {
        if let Some(Plain { time_ms, start_ms, histogram }) = plain::read(message) {
            return Ok(Self { time_ms, start_ms, histogram: Ok(Counts::Integer(histogram)) });
        }
        Self::read_any(message)
    }

    /// As [`Native::read`], field by field.
    fn read_any(message: &[u8]) -> Result<Self, Error> {
        let mut raw = Raw::default();
        for field in Fields::new(message) {
            let (number, value) = field?;
            raw.set(number, value)?;
        }
        Ok(Self { time_ms: raw.time_ms, start_ms: raw.start_ms, histogram: raw.histogram() })
    }
}

impl Raw {
    fn set(&mut self, number: u32, value: Field<'_>) -> Result<(), Error> {
        const NUMBER: &str = "a histogram's count is not a number";
        match number {
            1 => self.count = Number::Integer(value.varint(NUMBER)?),
            2 => self.count = Number::Float(value.double(NUMBER)?),
            3 => self.sum = value.double("a histogram's sum is not a double")?,
            4 => self.schema = zigzag(value.varint("a histogram's schema is not a number")?),
            5 => self.zero_threshold = value.double("a zero threshold is not a double")?,
            6 => self.zero = Number::Integer(value.varint(NUMBER)?),
            7 => self.zero = Number::Float(value.double(NUMBER)?),
            8 => self.negative.field(SidePart::Span, value)?,
            9 => self.negative.field(SidePart::Deltas, value)?,
            10 => self.negative.field(SidePart::Counts, value)?,
            11 => self.positive.field(SidePart::Span, value)?,
            12 => self.positive.field(SidePart::Deltas, value)?,
            13 => self.positive.field(SidePart::Counts, value)?,
            14 => self.reset = value.varint("a reset hint is not a number")?,
            15 => self.time_ms = value.varint("a histogram's time is not a number")? as i64,
            16 => value.doubles_into(&mut self.bounds, Scheme::BOUNDS_MAX, "the bounds of a histogram")?,
            17 => self.start_ms = value.varint("a histogram's start is not a number")? as i64,
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn histogram(self) -> Result<Counts, &'static str> {
        let scheme = match self.schema {
            CUSTOM => Scheme::custom(self.bounds.as_slice()).map_err(|_| "custom bounds must be finite and ascend")?,
            schema => {
                let schema = i32::try_from(schema).map_err(|_| "the schema is not known")?;
                Scheme::exp2(schema).map_err(|_| "the schema is not known")?
            }
        };
        if matches!(self.count, Number::Float(_)) {
            return self.floats(scheme).map(|histogram| Counts::Float(Box::new(histogram)));
        }
        self.integers(scheme).map(|histogram| Counts::Integer(Box::new(histogram)))
    }

    fn integers(self, scheme: Scheme) -> Result<Histogram<u64>, &'static str> {
        let zero = match self.zero {
            Number::None => 0,
            Number::Integer(zero) => zero,
            Number::Float(_) => return Err("the zero bin has a float count among integers"),
        };
        let (negative, positive) = (self.negative.integers()?, self.positive.integers()?);
        let count = match self.count {
            Number::Integer(count) => count,
            _ => 0,
        };
        let mut histogram = Histogram { zero, negative, positive, ..self.frame(scheme)? };
        // Observations that are no number are in the count and in no bin.
        histogram.nan = count.checked_sub(histogram.total()).ok_or("the count is below the sum of the bins")?;
        if histogram.nan > 0 && !self.sum.is_nan() {
            return Err("the count is above the sum of the bins, and the sum is a number");
        }
        histogram.count = count;
        checked(histogram)
    }

    fn floats(self, scheme: Scheme) -> Result<Histogram<f64>, &'static str> {
        let zero = match self.zero {
            Number::None => 0.0,
            Number::Integer(_) => return Err("the zero bin has an integer count among floats"),
            Number::Float(zero) => zero,
        };
        let (negative, positive) = (self.negative.floats()?, self.positive.floats()?);
        let count = match self.count {
            Number::Float(count) => count,
            _ => 0.0,
        };
        checked(Histogram { zero, negative, positive, count, ..self.frame(scheme)? })
    }

    /// All but the counts.
    fn frame<C: Count>(&self, scheme: Scheme) -> Result<Histogram<C>, &'static str> {
        let mut histogram = Histogram::new(scheme);
        histogram.zero_threshold = self.zero_threshold;
        histogram.sum = Some(self.sum);
        histogram.reset = match self.reset {
            0 => CounterReset::Unknown,
            1 => CounterReset::Reset,
            2 => CounterReset::NotReset,
            3 => CounterReset::Gauge,
            _ => return Err("the reset hint is not known"),
        };
        Ok(histogram)
    }
}

fn checked<C: Count>(histogram: Histogram<C>) -> Result<Histogram<C>, &'static str> {
    histogram.check()?;
    Ok(histogram)
}

impl Side {
    /// Takes a field of the bins: a span, or counts of either kind.
    pub(crate) fn field(&mut self, part: SidePart, value: Field<'_>) -> Result<(), Error> {
        const BINS: &str = "the bins of a histogram";
        match part {
            SidePart::Span => self.span(value),
            SidePart::Deltas => value.varints_into(&mut self.deltas, BINS_MAX, BINS),
            SidePart::Counts => value.doubles_into(&mut self.counts, BINS_MAX, BINS),
        }
    }

    /// Takes the counts, which are whole numbers, for integers.
    pub(crate) fn make_whole(&mut self) {
        let mut before = 0;
        self.deltas.extend(self.counts.drain(..).map(|count| {
            let delta = count as i64 - before;
            before = count as i64;
            ((delta << 1) ^ (delta >> 63)) as u64
        }));
    }

    fn span(&mut self, value: Field<'_>) -> Result<(), Error> {
        let (mut offset, mut length) = (0, 0);
        for field in Fields::new(value.bytes("a span is not a message")?) {
            match field? {
                (1, value) => offset = zigzag(value.varint("a span's offset is not a number")?),
                (2, value) => length = value.varint("a span's length is not a number")?,
                _ => {}
            }
        }
        if self.spans.len() == BINS_MAX {
            let found = self.spans.len() as u64 + 1;
            return Err(Error::TooLarge { what: "the spans of a histogram", found, limit: BINS_MAX as u64 });
        }
        self.spans.push((offset, length));
        Ok(())
    }

    fn integers(&self) -> Result<Bins<u64>, &'static str> {
        if !self.counts.is_empty() {
            return Err("bins have float counts where the histogram has integers");
        }
        let mut count = 0_i64;
        let counts = self.deltas.iter().map(|delta| {
            count = count.checked_add(zigzag(*delta)).ok_or("a bin's count is above 2^63")?;
            u64::try_from(count).map_err(|_| "a bin's count is below 0")
        });
        self.bins(self.deltas.len(), counts)
    }

    fn floats(&self) -> Result<Bins<f64>, &'static str> {
        if !self.deltas.is_empty() {
            return Err("bins have integer counts where the histogram has floats");
        }
        self.bins(self.counts.len(), self.counts.iter().map(|count| Ok(*count)))
    }

    /// Lays `counts` over the spans; bins that count nothing are left out.
    fn bins<C: Count>(
        &self,
        length: usize,
        mut counts: impl Iterator<Item = Result<C, &'static str>>,
    ) -> Result<Bins<C>, &'static str> {
        let spanned = self.spans.iter().try_fold(0_u64, |sum, span| sum.checked_add(span.1));
        if spanned != Some(length as u64) {
            return Err("the spans cover another number of bins than there are");
        }
        let mut bins = Bins::new();
        let mut index = 0_i64;
        for (at, (offset, length)) in self.spans.iter().enumerate() {
            if at > 0 && *offset < 0 {
                return Err("a span begins before the one in front of it ends");
            }
            index = index.checked_add(*offset).ok_or("a bin's index is above 2^31")?;
            for _ in 0..*length {
                let count = counts.next().expect("the spans cover as many bins as there are")?;
                if count != C::ZERO {
                    bins.push(i32::try_from(index).map_err(|_| "a bin's index is above 2^31")?, count);
                }
                index += 1;
            }
        }
        Ok(bins)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mutations::mutations;
    use crate::protobuf::write;

    /// As texts: they distinguish -0 and are equal of NaNs.
    fn check(message: &[u8]) {
        assert_eq!(format!("{:?}", Native::read(message)), format!("{:?}", Native::read_any(message)), "{message:?}");
    }

    fn side(out: &mut Vec<u8>, (span_field, delta_field): (u32, u32), spans: &[(i64, u64)], counts: &[i64]) {
        for (offset, length) in spans {
            let mut span = Vec::new();
            write::signed(&mut span, 1, *offset);
            write::number(&mut span, 2, *length);
            write::bytes(out, span_field, &span);
        }
        let (mut packed, mut before) = (Vec::new(), 0_i64);
        for count in counts {
            let delta = count.wrapping_sub(before);
            write::varint(&mut packed, ((delta << 1) ^ (delta >> 63)) as u64);
            before = *count;
        }
        write::bytes(out, delta_field, &packed);
    }

    fn message(count: u64, negative: &[(i64, u64)], positive: &[(i64, u64)], counts: &[i64]) -> Vec<u8> {
        let mut out = Vec::new();
        write::number(&mut out, 1, count);
        write::double(&mut out, 3, 12.5);
        write::signed(&mut out, 4, 3);
        write::double(&mut out, 5, 1e-128);
        write::number(&mut out, 6, 7);
        let bins = |spans: &[(i64, u64)]| spans.iter().map(|span| span.1 as usize).sum::<usize>().min(counts.len());
        side(&mut out, (8, 9), negative, &counts[..bins(negative)]);
        side(&mut out, (11, 12), positive, &counts[counts.len() - bins(positive)..]);
        write::number(&mut out, 14, 2);
        write::number(&mut out, 15, 1_700_000_000_123);
        write::number(&mut out, 17, 1_600_000_000_000);
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_plain_histogram_is_read_as_any_other_is(
            negative in prop::collection::vec((-20..20_i64, 0..6_u64), 0..3),
            positive in prop::collection::vec((prop_oneof![-3..60_i64, any::<i64>()], 0..40_u64), 0..40),
            counts in prop::collection::vec(
                prop_oneof![4 => 0..300_i64, 2 => 0..2_000_000_i64, 1 => any::<i64>()], 0..150,
            ),
            right in any::<bool>(),
        ) {
            let bins = |spans: &[(i64, u64)]| spans.iter().map(|span| span.1 as usize).sum::<usize>().min(counts.len());
            let of = counts[..bins(&negative)].iter().chain(&counts[counts.len() - bins(&positive)..]);
            let total = of.fold(7_u64, |sum, count| sum.saturating_add(*count as u64));
            check(&message(if right { total } else { total.wrapping_add(1) }, &negative, &positive, &counts));
        }

        #[test]
        fn a_histogram_with_empty_bins_and_empty_spans_is_plain(
            first in -60..60_i64,
            mut spans in prop::collection::vec((0..60_i64, 0..9_u64), 1..12),
            counts in prop::collection::vec(prop_oneof![3 => Just(0_i64), 3 => 0..300_i64, 1 => 0..1_i64 << 50], 96),
        ) {
            spans[0].0 = first;
            let counts = &counts[..spans.iter().map(|span| span.1 as usize).sum::<usize>()];
            let message = message(7 + counts.iter().sum::<i64>() as u64, &[], &spans, counts);
            prop_assert!(plain::read(&message).is_some(), "{spans:?} {counts:?}");
            check(&message);
        }
    }

    #[test]
    fn a_plain_histogram_is_read_without_the_fields_between() {
        let plain = message(7 + 3 + 200 + 70_000, &[], &[(-4, 2), (3, 1)], &[3, 200, 70_000]);
        assert!(plain::read(&plain).is_some());
        let Ok(Native { histogram: Ok(Counts::Integer(histogram)), .. }) = Native::read(&plain) else { panic!() };
        assert_eq!(histogram.positive.iter().collect::<Vec<_>>(), [(-4, 3), (-3, 200), (1, 70_000)]);
        check(&plain);
    }

    #[test]
    fn damaged_histograms_are_read_as_field_by_field() {
        mutations(&message(223, &[(1, 2)], &[(0, 2), (3, 1)], &[3, 100, 5, 3]), 20_000, 3, &[], check);
        mutations(&message(110, &[], &[(0, 2)], &[3, 100]), 20_000, 3, &[0, 1, 8, 9, 12, 0x5a, 0x62, 0x80], check);
        for length in 0..12 {
            // Numbers of every length, and too long ones.
            let mut out = Vec::new();
            let mut packed = vec![0xff; length];
            packed.push(0);
            write::bytes(&mut out, 11, &[0x10, 1]);
            write::bytes(&mut out, 12, &packed);
            check(&out);
        }
    }
}
