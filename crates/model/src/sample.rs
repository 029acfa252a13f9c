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
    /// End of the interval that the sample covers, nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// Start of the interval that the sample covers, nanoseconds since the Unix epoch; `None` (or 0) when it is not
    /// known. A text has none. For a cumulative value it is when counting began. A delta with a start is a whole point
    /// and not a fragment:
    /// with the same start, time and value it counts once. A start that is not before the time is refused, so a decoder
    /// whose protocol expresses "not known" by a start equal to the time sets `None`.
    pub start_ns: Option<i64>,
    /// The value; its kind must be the series' kind.
    pub value: Value,
}

impl Sample {
    /// The stored time: milliseconds, rounded up, so that an event stays inside the cell that ends at it.
    #[must_use]
    pub fn time_ms(&self) -> i64 {
        Self::stored_ms(self.time_ns)
    }

    /// The stored form of a time in nanoseconds, as [`Sample::time_ms`] has it.
    #[must_use]
    pub const fn stored_ms(ns: i64) -> i64 {
        ns.div_euclid(1_000_000) + (ns.rem_euclid(1_000_000) > 0) as i64
    }

    /// The stored start: milliseconds, rounded like times, so that consecutive intervals remain consecutive; 0 when it
    /// is not known, or when it is in the same millisecond as the time.
    #[must_use]
    pub fn start_ms(&self) -> i64 {
        let start_ms = self.start_ns.map_or(0, Self::stored_ms);
        if start_ms < self.time_ms() { start_ms } else { 0 }
    }
}
