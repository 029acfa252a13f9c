//! HdrHistogram's encodings and interval logs.
//!
//! Format: `docs/formats/hdrhistogram.md`. Read: V0, V1 and V2, of integers and of doubles, plain and compressed.
//! Written: V2, plain and compressed.
//!
//! Invariants: what is read has scheme `LogLinear2`, and writing it gives the same counts at the same values. Sum,
//! least and greatest sample are not in the form and stay unknown.
//!
//! Limits: a compressed form unfolds to at most 16 MiB; bins are at most the bytes of the plain form. What cannot be
//! read is an error value, never a panic.

mod log;
mod reader;
mod writer;

pub use log::{Entry, Interval, Log, format_interval};
pub use reader::{decode, decode_base64};
pub use writer::{encode, encode_base64, encode_compressed};

/// First bytes of an uncompressed form, without the word size: V2, V1 and V0.
const PLAIN: [u32; 3] = [0x1c84_9303, 0x1c84_9301, 0x1c84_9308];

/// First bytes of a compressed form, without the word size: V2, V1 and V0.
const COMPRESSED: [u32; 3] = [0x1c84_9304, 0x1c84_9302, 0x1c84_9309];

/// First bytes of a histogram of doubles: plain and compressed.
const DOUBLES: [u32; 2] = [0x0c72_124e, 0x0c72_124f];

/// The bits of a cookie with the word size, which has no meaning in V2.
const WORD_SIZE_MASK: u32 = 0xf0;

/// Bins a power of two, as a binary logarithm, for 0 to 5 significant decimal digits: 2 * 10^digits steps, rounded up
/// to a power of two, half of them.
const GROUPINGS: [u8; 6] = [0, 4, 7, 10, 14, 17];

/// 16 MiB: all 835,584 counts that five digits can have, at nine bytes, twice.
const PLAIN_BYTES_MAX: u64 = 16 << 20;
