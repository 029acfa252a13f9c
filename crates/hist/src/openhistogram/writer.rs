//! The canonical writer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::{DecimalBin, Error, Histogram, Scheme};

/// The byte form.
///
/// # Errors
/// [`Error::NotLogLinear10`] for another scheme, or a zero bin wider than the format's own.
pub fn encode(histogram: &Histogram) -> Result<Vec<u8>, Error> {
    if histogram.scheme != Scheme::LogLinear10 || histogram.zero_threshold >= 1e-128 {
        return Err(Error::NotLogLinear10(histogram.scheme.clone()));
    }
    let bins = bins_in_order(histogram).filter(|(_, count)| *count > 0);
    let mut bytes = Vec::with_capacity(2 + 5 * (histogram.negative.len() + histogram.positive.len() + 2));
    bytes.extend([0, 0]);
    let mut written: u16 = 0;
    for (bin, count) in bins {
        let width = width_code(count);
        bytes.extend([bin.val as u8, bin.exp as u8, width]);
        bytes.extend(&count.to_le_bytes()[..=usize::from(width)]);
        written += 1;
    }
    bytes[..2].copy_from_slice(&written.to_be_bytes());
    Ok(bytes)
}

/// The byte form in standard base64 with padding.
///
/// # Errors
/// As [`encode`].
pub fn encode_base64(histogram: &Histogram) -> Result<String, Error> {
    encode(histogram).map(|bytes| STANDARD.encode(bytes))
}

/// Bytes that a count needs, less one: 0 for up to 255, 7 from 2^56 on.
fn width_code(count: u64) -> u8 {
    let bits = u64::BITS - count.leading_zeros();
    (bits.div_ceil(8).max(1) - 1) as u8
}

/// NaN, then all bins ascending.
fn bins_in_order(histogram: &Histogram) -> impl Iterator<Item = (DecimalBin, u64)> + '_ {
    let bins = histogram.ascending().map(|(positive, index, count)| {
        (index.map_or(DecimalBin::ZERO, |index| DecimalBin::from_index(positive, index)), count)
    });
    std::iter::once((DecimalBin::NAN, histogram.nan)).chain(bins)
}

const _: () = assert!(super::BINS_MAX <= u16::MAX as usize, "the bin count field holds every bin");
