//! Measurements as senders of IRONdb name them, whatever they are encoded in.

use std::borrow::Cow;

use ogive_hist::{DecimalBin, Histogram};
use ogive_protocol::lines::Fault;

use crate::flat::{Malformed, Vector};

/// A check's UUID as written in the body.
#[derive(Clone, Copy, Debug)]
pub enum CheckId<'b> {
    /// As text; anything may precede its last backtick.
    Text(&'b str),
    /// 16 bytes.
    Bytes([u8; 16]),
}

impl CheckId<'_> {
    /// Appends its lower-case text.
    ///
    /// # Errors
    /// [`Fault::Fields`] when it is no UUID.
    pub fn write(self, out: &mut String) -> Result<(), Fault> {
        match self {
            Self::Text(text) => {
                let text = text.rsplit('`').next().unwrap_or(text);
                out.push_str(&crate::httptrap::parse_uuid(text).ok_or(Fault::Fields)?);
            }
            Self::Bytes(bytes) => {
                for (at, byte) in bytes.into_iter().enumerate() {
                    if matches!(at, 4 | 6 | 8 | 10) {
                        out.push('-');
                    }
                    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half & 15)]);
                    out.extend([digit(byte >> 4), digit(byte)]);
                }
            }
        }
        Ok(())
    }
}

/// The bins of a histogram in a FlatBuffer.
#[derive(Clone, Copy, Debug)]
pub enum Bins<'b> {
    /// Generation 1: a table a bin.
    Tables(Option<Vector<'b>>),
    /// Generation 2: 16 bytes a bin.
    Structs(Option<Vector<'b>>),
}

impl Bins<'_> {
    /// Passes each bin and its count to `each`.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn each(&self, mut each: impl FnMut(DecimalBin, u64)) -> Result<(), Malformed> {
        match self {
            Self::Tables(Some(bins)) => {
                for bin in bins.tables() {
                    let bin = bin?;
                    each(DecimalBin { val: bin.i8(0)?, exp: bin.i8(1)? }, bin.u64(2)?);
                }
            }
            Self::Structs(Some(bins)) => {
                for [a, b, c, d, e, f, g, h, val, exp, ..] in bins.structs::<16>() {
                    let count = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
                    each(DecimalBin { val: *val as i8, exp: *exp as i8 }, count);
                }
            }
            Self::Tables(None) | Self::Structs(None) => {}
        }
        Ok(())
    }
}

/// The measured value.
#[derive(Clone, Debug)]
pub enum Datum<'b> {
    /// A number.
    Number(f64),
    /// A text.
    Text(Cow<'b, str>),
    /// A histogram that is decoded on demand.
    Bins(Bins<'b>, Counting),
    /// A histogram that was read.
    Histogram(Box<Histogram<u64>>, Counting),
    /// That no number was measured.
    NoNumber,
    /// That no text or no histogram was measured.
    Nothing,
}

/// The interval of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Everything since the previous one.
    Since,
    /// This many milliseconds, beginning at its time.
    During(i64),
    /// All since the sender began.
    On,
}

/// The tags in addition to the name.
#[derive(Clone, Debug, Default)]
pub enum Tags<'b> {
    /// They are part of the name, if there are any.
    #[default]
    InName,
    /// `category:value` each.
    Vector(Vector<'b>),
}

/// One measurement.
#[derive(Clone, Debug)]
pub struct Record<'b> {
    /// The account; 0 when unknown.
    pub account: i64,
    /// The check.
    pub check: CheckId<'b>,
    /// The metric, perhaps with tags.
    pub name: Cow<'b, str>,
    /// Its other tags.
    pub tags: Tags<'b>,
    /// When, milliseconds since 1970.
    pub time_ms: i64,
    /// The value.
    pub value: Datum<'b>,
    /// Which part of a rollup it is; None for the value itself.
    pub part: Option<&'static str>,
}
