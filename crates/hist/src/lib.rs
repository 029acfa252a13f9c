//! Histograms as a stored type: schemes, exact merge, statistics and byte forms.
//!
//! One type, [`Histogram`], holds every scheme that Ogive stores. Integer counts (`Histogram<u64>`) are
//! what measuring makes; float counts (`Histogram<f64>`) are what Prometheus sends and what query
//! arithmetic needs.
// `simd` alone allows it for itself.
#![deny(unsafe_code)]

mod bins;
mod check;
mod checked;
mod convert;
mod count;
mod custom;
mod distance;
mod error;
mod exp2;
mod flat;
mod gamma;
pub mod hdr;
mod histogram;
mod loglinear10;
mod loglinear2;
mod merge;
mod modes;
mod moments;
pub mod openhistogram;
mod powers;
mod quantile;
mod recorder;
mod scheme;
mod simd;
mod verdict;

pub use bins::Bins;
pub use convert::ErrorBound;
pub use count::Count;
pub use distance::{Distance, LogDistance};
pub use error::{Error, SchemeMismatch};
pub use flat::{FLAT_BINS, NanosecondIndex, histogram_of_flat_bins, seconds_of_nanoseconds};
pub use histogram::{Bucket, CounterReset, Histogram};
pub use loglinear10::{BINS_PER_SIGN, DecimalBin};
pub use merge::Underflow;
pub use modes::{InsufficientData, MODES_SAMPLES_MIN, Modality, Mode, SIGMAS};
pub use quantile::Quantile;
pub use recorder::{FlatFloatRecorder, FlatRecorder};
pub use scheme::{BinPlacement, Closed, Scheme};
pub use simd::Digest;
pub use verdict::{FLOORS, QuantileChange, Verdict};
