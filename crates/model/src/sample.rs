//! One value at one instant.

use ogive_hist::Histogram;

/// A sample's value. Histograms are boxed: a batch of floats must not pay for their size.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number, kept bit for bit (NaN payloads and -0 included).
    Float(f64),
    /// A distribution with integer counts.
    Histogram(Box<Histogram<u64>>),
    /// A distribution with float counts, as Prometheus may send it.
    FloatHistogram(Box<Histogram<f64>>),
    /// Words.
    Text(String),
}

/// One value of one of a batch's series.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Index into the batch's series.
    pub series: u32,
    /// End of what the sample covers, nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// The value; its kind must be the series' kind.
    pub value: Value,
}

impl Sample {
    /// The stored time: milliseconds, rounded up, so that an event stays inside the cell that ends at it.
    #[must_use]
    pub fn time_ms(&self) -> i64 {
        self.time_ns.div_euclid(1_000_000) + i64::from(self.time_ns.rem_euclid(1_000_000) > 0)
    }
}
