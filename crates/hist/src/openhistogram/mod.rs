//! The OpenHistogram byte form, its base64 form and its bin labels.
//!
//! Format: `docs/formats/openhistogram.md`. A `u16` bin count (big-endian), then per bin `val`, `exp`, width code `w`
//! and `w + 1` bytes of count (little-endian).
//!
//! Invariants: the writer is canonical: bins in order (NaN, then ascending), no zero counts, no invalid bins, the
//! smallest width that holds each count. The reader is tolerant and says what it repaired; what it cannot read is an
//! error value, never a panic.
//!
//! Limits: 46,082 bins; memory at most the input's length times 16 (a bin of 4 bytes becomes an entry of 12).

mod label;
mod placement;
mod reader;
mod transform;
mod writer;

pub use label::{bin_of_label, label_of_bin};
pub use placement::{ForeignBucket, Placement, from_buckets};
pub use reader::{Repairs, decode, decode_base64};
pub use writer::{encode, encode_base64};

/// The number of possible bins: 90 in each of 256 decades of both signs, the zero bin and the NaN bin.
pub const BINS_MAX: usize = 2 + 2 * 90 * 256;
