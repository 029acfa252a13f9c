//! What can go wrong, named after what the caller can do about it.

use crate::Scheme;

/// Two histograms whose bins do not correspond: convert one of them, or keep them separate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("a histogram of scheme {right} does not merge exactly into one of scheme {left}")]
pub struct SchemeMismatch {
    /// Scheme of the histogram that was to change.
    pub left: Scheme,
    /// Scheme of the other one.
    pub right: Scheme,
}

/// Errors of this crate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// See [`SchemeMismatch`].
    #[error(transparent)]
    SchemeMismatch(#[from] SchemeMismatch),
    /// Reject the input: it ends inside a field.
    #[error("histogram bytes end at {length}, inside {field} at offset {offset}")]
    Truncated {
        /// The field that was being read.
        field: &'static str,
        /// Its offset.
        offset: usize,
        /// Length of the whole input.
        length: usize,
    },
    /// Reject the input: a count wider than 8 bytes.
    #[error("bin at offset {offset} has count width code {width}, more than 7")]
    CountWidth {
        /// The offset of the bin.
        offset: usize,
        /// The width code found.
        width: u8,
    },
    /// Reject the input: more bins than the scheme has.
    #[error("{found} bins declared, the scheme has {limit}")]
    TooManyBins {
        /// Bins declared.
        found: usize,
        /// Bins that exist.
        limit: usize,
    },
    /// Reject the input: not base64.
    #[error("not base64: unexpected byte {byte:#04x} at offset {offset}")]
    Base64 {
        /// Where.
        offset: usize,
        /// The byte found, 0 when the input ends too early.
        byte: u8,
    },
    /// Reject the input: bytes are left over after the last bin.
    #[error("{bytes} bytes are left over at offset {offset}, after the last declared bin")]
    Trailing {
        /// Their offset.
        offset: usize,
        /// How many.
        bytes: usize,
    },
    /// Convert first: this format supports only one scheme.
    #[error("the OpenHistogram form holds scheme log-linear-10 only, not {0}")]
    NotLogLinear10(Scheme),
    /// Reject the input: a text that names no bin.
    #[error("{0:?} names no bin: write its edge nearer zero, such as \"1.2e-3\", \"0\" or \"NaN\"")]
    Label(String),
    /// Reject the input: bounds that do not strictly ascend, or are not finite.
    #[error("bound {index} is {value}: bounds must be finite and strictly ascend")]
    Bounds {
        /// Which bound.
        index: usize,
        /// Its value.
        value: f64,
    },
    /// Reject the input: not one of HdrHistogram's forms.
    #[error("not an HdrHistogram, at offset {offset}: {reason}")]
    Hdr {
        /// Where.
        offset: usize,
        /// Which rule is broken.
        reason: &'static str,
    },
    /// Reject the input: not a line of an interval log.
    #[error("not a line of an interval log: {0}")]
    HdrLog(&'static str),
    /// Convert first: HdrHistogram's format cannot represent it.
    #[error("HdrHistogram's form cannot hold this histogram: {0}")]
    NotHdr(&'static str),
    /// Reject the input: a scheme's parameter outside its range.
    #[error("{0}")]
    Parameter(&'static str),
    /// Reject the input: a scale outside -10..=52.
    #[error("scale {0} is outside -10..=52")]
    Scale(i32),
}
