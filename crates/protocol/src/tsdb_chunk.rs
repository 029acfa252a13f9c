//! Chunks of Prometheus's storage: samples of one series, encoded together.
//!
//! Format: `tsdb/docs/format/chunks.md` of github.com/prometheus/prometheus; without the length before and the checksum
//! after it, which belong to the file. Encodings 1 (doubles), 2 (native histograms) and 3 (those with float counts).
//! Limits: [`BINS_MAX`] bins and spans of a histogram; a chunk declares its number of samples with 16 bits.
//! Failure: a chunk that is truncated or breaks a rule ends there, after the samples before it. A single histogram that
//! breaks a rule is returned as that rule.

use ogive_model::STALE;

use crate::Error;
use crate::remote_write::Counts;
use crate::remote_write::native::{Number, Raw, Side};
use crate::tsdb_bits::{BitReader, XorReader};

/// 65,536 bins of both signs, as remote write takes of one.
pub const BINS_MAX: usize = 1 << 16;

/// The schema of explicit bounds.
const CUSTOM: i64 = -53;

/// A sample's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Point {
    /// A number, bit for bit.
    Float(f64),
    /// A native histogram, or the rule that it breaks.
    Histogram(Result<Counts, &'static str>),
}

/// Gives time (milliseconds since 1970) and value of each sample of a chunk of `encoding` to `each`.
///
/// # Errors
/// When the bytes are no chunk of that encoding.
pub fn decode(encoding: u8, bytes: &[u8], each: &mut dyn FnMut(i64, Point)) -> Result<(), Error> {
    let mut bits = BitReader::new(bytes);
    match encoding {
        1 => floats(&mut bits, each),
        2 => histograms::<IntegerDelta>(&mut bits, each),
        3 => histograms::<XorReader>(&mut bits, each),
        _ => Err(Error::Malformed { what: "the encoding of a chunk is none of 1, 2 and 3" }),
    }
}

fn floats(bits: &mut BitReader<'_>, each: &mut dyn FnMut(i64, Point)) -> Result<(), Error> {
    let count = bits.take(16)?;
    let (mut time, mut step) = (0_i64, 0_i64);
    let mut value = XorReader::default();
    for at in 0..count {
        match at {
            0 => {
                time = bits.zigzag()?;
                value = XorReader::new(bits)?;
            }
            1 => step = bits.varint()? as i64,
            _ => step = step.wrapping_add(bits.more_time()?),
        }
        if at > 0 {
            time = time.wrapping_add(step);
            value.pass(bits)?;
        }
        each(time, Point::Float(value.value()));
    }
    Ok(())
}

/// How the counts of a histogram follow each other.
trait Packed: Copy {
    /// What counts nothing.
    const NONE: Number;

    /// The count of all, or of the zero bin, in the first histogram.
    fn first(bits: &mut BitReader<'_>) -> Result<Self, Error>;
    /// The count of a bin there.
    fn first_bin(bits: &mut BitReader<'_>) -> Result<Self, Error>;
    /// Passes on to the next histogram.
    fn next(&mut self, bits: &mut BitReader<'_>) -> Result<(), Error>;
    fn number(self) -> Number;
    /// Appends the count of a bin.
    fn push(self, side: &mut Side);
}

/// A whole number, or by how much a bin counts more than the one before it; and by how much that grew.
#[derive(Clone, Copy)]
struct IntegerDelta {
    value: i64,
    more: i64,
}

impl Packed for IntegerDelta {
    const NONE: Number = Number::Integer(0);

    fn first(bits: &mut BitReader<'_>) -> Result<Self, Error> {
        Ok(Self { value: bits.unsigned()? as i64, more: 0 })
    }

    fn first_bin(bits: &mut BitReader<'_>) -> Result<Self, Error> {
        Ok(Self { value: bits.signed()?, more: 0 })
    }

    fn next(&mut self, bits: &mut BitReader<'_>) -> Result<(), Error> {
        self.more = self.more.wrapping_add(bits.signed()?);
        self.value = self.value.wrapping_add(self.more);
        Ok(())
    }

    fn number(self) -> Number {
        Number::Integer(self.value as u64)
    }

    fn push(self, side: &mut Side) {
        side.deltas.push(((self.value << 1) ^ (self.value >> 63)) as u64);
    }
}

impl Packed for XorReader {
    const NONE: Number = Number::Float(0.0);

    fn first(bits: &mut BitReader<'_>) -> Result<Self, Error> {
        Self::new(bits)
    }

    fn first_bin(bits: &mut BitReader<'_>) -> Result<Self, Error> {
        Self::new(bits)
    }

    fn next(&mut self, bits: &mut BitReader<'_>) -> Result<(), Error> {
        self.pass(bits)
    }

    fn number(self) -> Number {
        Number::Float(self.value())
    }

    fn push(self, side: &mut Side) {
        side.counts.push(self.value());
    }
}

/// What all histograms of a chunk share.
struct Layout {
    schema: i64,
    zero_threshold: f64,
    positive: Vec<(i64, u64)>,
    negative: Vec<(i64, u64)>,
    bounds: Vec<f64>,
    /// The bins that count up for positive values, and for all.
    bins: (usize, usize),
}

fn histograms<C: Packed>(bits: &mut BitReader<'_>, each: &mut dyn FnMut(i64, Point)) -> Result<(), Error> {
    let count = bits.take(16)?;
    let flags = bits.take(8)? >> 6;
    if count == 0 {
        return Ok(());
    }
    let layout = layout(bits)?;
    let mut time = bits.signed()?;
    let (mut all, mut zero) = (C::first(bits)?, C::first(bits)?);
    let mut sum = XorReader::new(bits)?;
    let mut bins: Vec<C> = Vec::new();
    // A marker that the series ended has counts and a sum, and no bins.
    let mut is_stale = sum.value().to_bits() == STALE;
    for _ in 0..if is_stale { 0 } else { layout.bins.1 } {
        bins.push(C::first_bin(bits)?);
    }
    let mut step = 0_i64;
    for at in 0..count {
        if at > 0 {
            step = step.wrapping_add(bits.signed()?);
            time = time.wrapping_add(step);
            all.next(bits)?;
            zero.next(bits)?;
            sum.pass(bits)?;
            is_stale = sum.value().to_bits() == STALE;
            if !is_stale {
                bins.iter_mut().try_for_each(|bin| bin.next(bits))?;
            }
        }
        // As `prometheus.Histogram` has it: 1 a reset, 2 none, 3 a gauge.
        let reset = match (flags, at) {
            (0b11, _) => 3,
            (0b10, 0) => 1,
            (0b01, 0) => 2,
            (_, 0) => 0,
            _ => 2,
        };
        let known = (!is_stale).then_some((&bins[..], all, zero));
        each(time, Point::Histogram(layout.histogram(sum.value(), known, reset)));
    }
    Ok(())
}

impl Layout {
    /// The histogram of a sum and, unless it marks the end of its series, bins, count of all and count around zero.
    fn histogram<C: Packed>(&self, sum: f64, known: Option<(&[C], C, C)>, reset: u64) -> Result<Counts, &'static str> {
        let mut raw = Raw {
            sum,
            schema: self.schema,
            zero_threshold: self.zero_threshold,
            bounds: self.bounds.clone(),
            reset,
            ..Raw::default()
        };
        let Some((bins, count, zero)) = known else {
            (raw.count, raw.zero) = (C::NONE, C::NONE);
            return raw.histogram();
        };
        (raw.count, raw.zero) = (count.number(), zero.number());
        raw.positive.spans.clone_from(&self.positive);
        raw.negative.spans.clone_from(&self.negative);
        bins[..self.bins.0].iter().for_each(|bin| bin.push(&mut raw.positive));
        bins[self.bins.0..].iter().for_each(|bin| bin.push(&mut raw.negative));
        raw.histogram()
    }
}

fn layout(bits: &mut BitReader<'_>) -> Result<Layout, Error> {
    let zero_threshold = match bits.take(8)? {
        0 => 0.0,
        255 => f64::from_bits(bits.take(64)?),
        exponent => 2_f64.powi(exponent as i32 - 244),
    };
    let schema = bits.signed()?;
    let (positive, above) = spans(bits)?;
    let (negative, below) = spans(bits)?;
    let mut bounds = Vec::new();
    if schema == CUSTOM {
        let count = bits.unsigned()?;
        if count > ogive_hist::Scheme::BOUNDS_MAX as u64 {
            let limit = ogive_hist::Scheme::BOUNDS_MAX as u64;
            return Err(Error::TooLarge { what: "the bounds of a histogram", found: count, limit });
        }
        for _ in 0..count {
            bounds.push(match bits.unsigned()? {
                0 => f64::from_bits(bits.take(64)?),
                thousandths => (thousandths - 1) as f64 / 1000.0,
            });
        }
    }
    Ok(Layout { schema, zero_threshold, positive, negative, bounds, bins: (above, above + below) })
}

/// Spans of bins, and how many bins they have.
fn spans(bits: &mut BitReader<'_>) -> Result<(Vec<(i64, u64)>, usize), Error> {
    let limit = BINS_MAX as u64;
    let too_large = |what, found| Error::TooLarge { what, found, limit };
    let count = bits.unsigned()?;
    if count > limit {
        return Err(too_large("the spans of a histogram", count));
    }
    let (mut out, mut bins) = (Vec::new(), 0_u64);
    for _ in 0..count {
        let (length, offset) = (bits.unsigned()?, bits.signed()?);
        bins = bins.saturating_add(length);
        if bins > limit {
            return Err(too_large("the bins of a histogram", bins));
        }
        out.push((offset, length));
    }
    Ok((out, bins as usize))
}
