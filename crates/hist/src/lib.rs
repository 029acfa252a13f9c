//! Histograms as a stored type: schemes, exact merge, statistics and byte forms.
//!
//! One type, [`Histogram`], holds every scheme that Ogive stores. Integer counts (`Histogram<u64>`) are
//! what measuring makes; float counts (`Histogram<f64>`) are what Prometheus sends and what query
//! arithmetic needs.
#![forbid(unsafe_code)]

mod bins;
mod check;
mod count;
mod histogram;
mod scheme;

pub use bins::Bins;
pub use count::Count;
pub use histogram::{CounterReset, Histogram};
pub use scheme::Scheme;
