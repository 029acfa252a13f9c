//! Data points of metrics: `opentelemetry.proto.metrics.v1.{Number,Histogram,ExponentialHistogram,Summary}DataPoint`.
//!
//! Invariants: nothing is converted: explicit bounds stay bounds, an exponential histogram keeps its scale, its
//! negative bins and its zero threshold. A violation is an error of its own point.
//! Limits: [`BINS_MAX`] bins of each sign, `Scheme::BOUNDS_MAX` bounds, [`QUANTILES_MAX`] quantiles.

use ogive_hist::{Bins, Histogram, Scheme};
use ogive_model::Reason;

use super::any::messages;
use crate::Error;
use crate::protobuf::{Field, Fields, zigzag};

/// 65,536 bins of each sign: SDKs keep 160.
const BINS_MAX: usize = 1 << 16;
/// 1,024 quantiles: a summary has a handful.
const QUANTILES_MAX: usize = 1 << 10;
/// The flag of a point that stands for "nothing was recorded".
const NO_RECORDED_VALUE: u64 = 1;

/// Why a point is rejected, as a code and a sentence.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    pub(super) reason: Reason,
    pub(super) text: String,
}

impl Fault {
    fn point(text: &'static str) -> Self {
        Self { reason: Reason::PointInvalid, text: text.into() }
    }

    fn histogram(text: impl Into<String>) -> Self {
        Self { reason: Reason::HistogramInvalid, text: text.into() }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { reason: Reason::PointInvalid, text: error.to_string() }
    }
}

/// Which of the messages a point is, by the field of its metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Gauge = 5,
    Sum = 7,
    Explicit = 9,
    Exponential = 10,
    Summary = 11,
}

impl Shape {
    pub(super) const fn from_field(field: u32) -> Option<Self> {
        Some(match field {
            5 => Self::Gauge,
            7 => Self::Sum,
            9 => Self::Explicit,
            10 => Self::Exponential,
            11 => Self::Summary,
            _ => return None,
        })
    }

    /// The field of a point's attributes.
    pub(super) const fn attributes(self) -> u32 {
        match self {
            Self::Gauge | Self::Sum | Self::Summary => 7,
            Self::Explicit => 9,
            Self::Exponential => 1,
        }
    }

    /// The field of a point's exemplars.
    const fn exemplars(self) -> Option<u32> {
        match self {
            Self::Gauge | Self::Sum => Some(5),
            Self::Explicit => Some(8),
            Self::Exponential => Some(11),
            Self::Summary => None,
        }
    }
}

/// A point whose value is not made yet.
#[derive(Clone, Debug)]
pub(super) struct Point<'a> {
    pub(super) shape: Shape,
    message: &'a [u8],
    pub(super) start_ns: u64,
    pub(super) time_ns: u64,
    flags: u64,
    raw: Raw<'a>,
}

/// The fields that make a value, as they come; of a number point only `double` and `integer` count.
#[derive(Clone, Debug, Default)]
struct Raw<'a> {
    number: Option<f64>,
    count: u64,
    sum: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    counts: Vec<u64>,
    bounds: Vec<f64>,
    scale: i64,
    zero: u64,
    zero_threshold: f64,
    positive: Option<&'a [u8]>,
    negative: Option<&'a [u8]>,
    quantiles: Vec<(f64, f64)>,
}

/// What a point says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PointValue {
    /// Nothing was recorded: the series ends here until it goes on.
    Nothing,
    Number(f64),
    Histogram(Box<Histogram<u64>>),
    Summary {
        count: u64,
        sum: f64,
        quantiles: Vec<(f64, f64)>,
    },
}

impl<'a> Point<'a> {
    pub(super) fn read(shape: Shape, message: &'a [u8]) -> Result<Self, Error> {
        let mut point = Self { shape, message, start_ns: 0, time_ns: 0, flags: 0, raw: Raw::default() };
        for field in Fields::new(message) {
            let (number, value) = field?;
            match (shape, number) {
                (_, 2) => point.start_ns = value.fixed64("a start time is not a 64 bit number")?,
                (_, 3) => point.time_ns = value.fixed64("a time is not a 64 bit number")?,
                (Shape::Gauge | Shape::Sum | Shape::Summary, 8) | (Shape::Explicit | Shape::Exponential, 10) => {
                    point.flags = value.varint("a point's flags are not a number")?;
                }
                (Shape::Gauge | Shape::Sum, _) => point.raw.set_number(number, value)?,
                (Shape::Explicit, _) => point.raw.set_explicit(number, value)?,
                (Shape::Exponential, _) => point.raw.set_exponential(number, value)?,
                (Shape::Summary, _) => point.raw.set_summary(number, value)?,
            }
        }
        Ok(point)
    }

    /// Each attribute's message.
    pub(super) fn attributes(&self) -> impl Iterator<Item = Result<&'a [u8], Error>> + use<'a> {
        messages(self.message, self.shape.attributes(), "an attribute is not a message")
    }

    /// The message that has the attributes.
    pub(super) fn message(&self) -> &'a [u8] {
        self.message
    }

    /// Each exemplar.
    pub(super) fn exemplars(&self) -> impl Iterator<Item = Result<Exemplar<'a>, Error>> + use<'a> {
        let all = self.shape.exemplars().map(|number| messages(self.message, number, "an exemplar is not a message"));
        all.into_iter().flatten().map(|message| Exemplar::read(message?))
    }

    /// What it says; once, for it gives its bins away.
    pub(super) fn value(&mut self) -> Result<PointValue, Fault> {
        if self.time_ns == 0 {
            return Err(Fault::point("the point has no time; set time_unix_nano"));
        }
        if self.flags & NO_RECORDED_VALUE != 0 {
            return Ok(PointValue::Nothing);
        }
        let raw = std::mem::take(&mut self.raw);
        Ok(match self.shape {
            Shape::Gauge | Shape::Sum => {
                PointValue::Number(raw.number.ok_or(Fault::point("the point has no value; set as_double or as_int"))?)
            }
            Shape::Explicit => PointValue::Histogram(Box::new(raw.explicit()?)),
            Shape::Exponential => PointValue::Histogram(Box::new(raw.exponential()?)),
            Shape::Summary => {
                PointValue::Summary { count: raw.count, sum: raw.sum.unwrap_or(0.0), quantiles: raw.quantiles }
            }
        })
    }
}

impl<'a> Raw<'a> {
    fn set_number(&mut self, field: u32, value: Field<'_>) -> Result<(), Error> {
        match field {
            4 => self.number = Some(value.double("a point's value is not a double")?),
            6 => self.number = Some(value.fixed64("a point's value is not an integer")?.cast_signed() as f64),
            _ => {}
        }
        Ok(())
    }

    fn set_explicit(&mut self, field: u32, value: Field<'_>) -> Result<(), Error> {
        match field {
            4 => self.count = value.fixed64("a histogram's count is not a 64 bit number")?,
            5 => self.sum = Some(value.double("a histogram's sum is not a double")?),
            6 => value.fixed64s_into(&mut self.counts, Scheme::BOUNDS_MAX + 1, "the counts of a histogram")?,
            7 => value.doubles_into(&mut self.bounds, Scheme::BOUNDS_MAX, "the bounds of a histogram")?,
            11 => self.min = Some(value.double("a histogram's min is not a double")?),
            12 => self.max = Some(value.double("a histogram's max is not a double")?),
            _ => {}
        }
        Ok(())
    }

    fn set_exponential(&mut self, field: u32, value: Field<'a>) -> Result<(), Error> {
        match field {
            4 => self.count = value.fixed64("a histogram's count is not a 64 bit number")?,
            5 => self.sum = Some(value.double("a histogram's sum is not a double")?),
            6 => self.scale = zigzag(value.varint("a histogram's scale is not a number")?),
            7 => self.zero = value.fixed64("a histogram's zero count is not a 64 bit number")?,
            8 => self.positive = Some(value.bytes("the positive bins are not a message")?),
            9 => self.negative = Some(value.bytes("the negative bins are not a message")?),
            12 => self.min = Some(value.double("a histogram's min is not a double")?),
            13 => self.max = Some(value.double("a histogram's max is not a double")?),
            14 => self.zero_threshold = value.double("a zero threshold is not a double")?,
            _ => {}
        }
        Ok(())
    }

    fn set_summary(&mut self, field: u32, value: Field<'_>) -> Result<(), Error> {
        match field {
            4 => self.count = value.fixed64("a summary's count is not a 64 bit number")?,
            5 => self.sum = Some(value.double("a summary's sum is not a double")?),
            6 => {
                let (mut quantile, mut at) = (0.0, 0.0);
                for field in Fields::new(value.bytes("a quantile is not a message")?) {
                    match field? {
                        (1, value) => quantile = value.double("a quantile is not a double")?,
                        (2, value) => at = value.double("a quantile's value is not a double")?,
                        _ => {}
                    }
                }
                if self.quantiles.len() == QUANTILES_MAX {
                    let limit = QUANTILES_MAX as u64;
                    return Err(Error::TooLarge { what: "the quantiles of a summary", found: limit + 1, limit });
                }
                self.quantiles.push((quantile, at));
            }
            _ => {}
        }
        Ok(())
    }

    fn explicit(mut self) -> Result<Histogram<u64>, Fault> {
        // Neither bounds nor counts: one bin of everything. Its count and sum are worth keeping.
        if self.counts.is_empty() && self.bounds.is_empty() {
            self.counts.push(self.count);
        }
        let (counts, bounds) = (self.counts.len(), self.bounds.len());
        if counts != bounds + 1 {
            let text = format!("{bounds} explicit bounds make {} bins, and {counts} counts came", bounds + 1);
            return Err(Fault::histogram(text));
        }
        let scheme =
            Scheme::custom(std::mem::take(&mut self.bounds)).map_err(|error| Fault::histogram(error.to_string()))?;
        let bins = (0..).zip(&self.counts).filter(|(_, count)| **count > 0).map(|(index, count)| (index, *count));
        let (index, count) = bins.unzip();
        let mut histogram = Histogram::new(scheme);
        histogram.positive = Bins::from_columns(index, count);
        self.finish(histogram)
    }

    fn exponential(self) -> Result<Histogram<u64>, Fault> {
        let scale = i32::try_from(self.scale).unwrap_or(i32::MAX);
        let scheme = Scheme::exp2(scale).map_err(|_| {
            Fault::histogram(format!("the scale is {}, and an exponential one is in -10..=20", self.scale))
        })?;
        let mut histogram = Histogram::new(scheme);
        histogram.zero_threshold = self.zero_threshold;
        histogram.zero = self.zero;
        histogram.positive = self.positive.map_or(Ok(Bins::new()), exponential_bins)?;
        histogram.negative = self.negative.map_or(Ok(Bins::new()), exponential_bins)?;
        self.finish(histogram)
    }

    /// Puts what is known beside the bins, and checks the whole.
    fn finish(self, mut histogram: Histogram<u64>) -> Result<Histogram<u64>, Fault> {
        let binned = [histogram.zero, 0]
            .into_iter()
            .chain(
                [&histogram.positive, &histogram.negative].into_iter().flat_map(|bins| bins.counts().iter().copied()),
            )
            .try_fold(0_u64, u64::checked_add)
            .ok_or(Fault::histogram("the counts of the bins add up to more than 2^64"))?;
        // Observations that are no number are in the count and in no bin; their sum is no number either.
        let beside = self.count.checked_sub(binned).filter(|beside| *beside == 0 || self.sum.is_some_and(f64::is_nan));
        let Some(beside) = beside else {
            let text = format!("the count is {}, and the bins hold {binned}", self.count);
            return Err(Fault::histogram(text));
        };
        (histogram.nan, histogram.count) = (beside, self.count);
        if binned > 0 {
            histogram.sum = self.sum;
            (histogram.min, histogram.max) = (number(self.min), number(self.max));
        }
        histogram.check().map_err(Fault::histogram)?;
        Ok(histogram)
    }
}

fn number(value: Option<f64>) -> Option<f64> {
    value.filter(|value| !value.is_nan())
}

/// `Buckets`: an offset and counts. Bin `i` of OTLP, (base^i, base^(i+1)], is bin `i + 1` here.
fn exponential_bins(message: &[u8]) -> Result<Bins<u64>, Fault> {
    let (mut offset, mut counts) = (0, Vec::new());
    for field in Fields::new(message) {
        match field? {
            (1, value) => offset = zigzag(value.varint("an offset of bins is not a number")?),
            (2, value) => value.varints_into(&mut counts, BINS_MAX, "the bins of a histogram")?,
            _ => {}
        }
    }
    let mut bins = Bins::new();
    for (at, count) in (1_i64..).zip(counts).filter(|(_, count)| *count > 0) {
        let index = offset.checked_add(at).and_then(|index| i32::try_from(index).ok());
        bins.push(index.ok_or(Fault::histogram("a bin's index is outside 32 bits"))?, count);
    }
    Ok(bins)
}

/// An observation beside a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exemplar<'a> {
    pub(super) message: &'a [u8],
    pub(super) time_ns: u64,
    pub(super) value: f64,
    pub(super) span_id: &'a [u8],
    pub(super) trace_id: &'a [u8],
}

impl<'a> Exemplar<'a> {
    /// The field of its attributes.
    pub(super) const ATTRIBUTES: u32 = 7;

    fn read(message: &'a [u8]) -> Result<Self, Error> {
        let mut exemplar = Self { message, time_ns: 0, value: 0.0, span_id: &[], trace_id: &[] };
        for field in Fields::new(message) {
            match field? {
                (2, value) => exemplar.time_ns = value.fixed64("an exemplar's time is not a 64 bit number")?,
                (3, value) => exemplar.value = value.double("an exemplar's value is not a double")?,
                (4, value) => exemplar.span_id = value.bytes("a span id is not bytes")?,
                (5, value) => exemplar.trace_id = value.bytes("a trace id is not bytes")?,
                (6, value) => {
                    exemplar.value = value.fixed64("an exemplar's value is not an integer")?.cast_signed() as f64;
                }
                _ => {}
            }
        }
        Ok(exemplar)
    }
}
