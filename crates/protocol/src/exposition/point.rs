//! The content of an exposition: families, points and exemplars.

use std::borrow::Cow;

use ogive_model::{MetricKind, Temporality};

use super::series::{Labels, Series};
use crate::Error;
use crate::remote_write::Counts;
use crate::room::{ENTRY_BYTES, Room, histogram_bytes};

/// What an exposition holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exposition<'a> {
    /// What is said of the metrics.
    pub families: Vec<Family<'a>>,
    /// The values, in their order.
    pub points: Vec<Point<'a>>,
}

/// What is said of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Family<'a> {
    /// Its name, in OpenMetrics without the `_total` of a counter.
    pub name: Cow<'a, str>,
    /// What it is.
    pub kind: MetricKind,
    /// What it reports.
    pub help: Cow<'a, str>,
    /// Its unit, when one is named.
    pub unit: Cow<'a, str>,
}

/// How the series `sample` of a metric of this type relates to time. Of unknown ones the name decides.
pub(super) fn temporality(kind: MetricKind, sample: &str) -> Temporality {
    /// The names of what only grows, by convention.
    const CUMULATIVE: [&str; 4] = ["_total", "_count", "_sum", "_bucket"];
    let ends = |endings: &[&str]| endings.iter().any(|ending| sample.ends_with(ending));
    let grows = match kind {
        MetricKind::Counter | MetricKind::Histogram => true,
        MetricKind::Summary => ends(&["_count", "_sum"]),
        MetricKind::Unknown => ends(&CUMULATIVE),
        MetricKind::Gauge | MetricKind::GaugeHistogram | MetricKind::Info | MetricKind::StateSet => false,
    };
    if grows { Temporality::Cumulative } else { Temporality::Gauge }
}

/// One value of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Point<'a> {
    /// Of which series.
    pub series: Series<'a>,
    /// How its values relate to time.
    pub temporality: Temporality,
    /// When it was, in milliseconds since the Unix epoch, where the exposition says so.
    pub time_ms: Option<i64>,
    /// Since when it counts, in milliseconds since the Unix epoch, where the exposition says so.
    pub start_ms: Option<i64>,
    /// What it is.
    pub value: Value,
    /// Single events among what it counts.
    pub exemplars: Vec<Exemplar<'a>>,
    /// Whether it is a part of the classic form of a histogram that is there as a native one too.
    pub has_native: bool,
}

/// What a point is.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number, bit for bit.
    Float(f64),
    /// A native histogram, or the rule that it breaks.
    Histogram(Result<Counts, &'static str>),
}

/// A single event.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar<'a> {
    /// What names it, such as a trace's id.
    pub labels: Labels<'a>,
    /// What was measured.
    pub value: f64,
    /// When, in milliseconds since the Unix epoch, where it is reported.
    pub time_ms: Option<i64>,
}

/// What an exposition takes in memory, paid for as it grows.
pub(super) struct Meter {
    room: Room,
    families: usize,
    points: usize,
}

impl Meter {
    pub(super) fn new(body: impl AsRef<[u8]>) -> Self {
        Self { room: Room::fetched(body.as_ref().len()), families: 0, points: 0 }
    }

    /// Pays for what `out` has more than before.
    #[inline]
    pub(super) fn pay(&mut self, out: &Exposition<'_>) -> Result<(), Error> {
        let families = out.families.len() - self.families;
        self.room.take(families * (size_of::<Family<'_>>() + ENTRY_BYTES))?;
        for point in &out.points[self.points..] {
            let value = match &point.value {
                Value::Histogram(Ok(Counts::Integer(histogram))) => histogram_bytes(histogram),
                Value::Histogram(Ok(Counts::Float(histogram))) => histogram_bytes(histogram),
                _ => 0,
            };
            self.room.take(size_of::<Point<'_>>() + ENTRY_BYTES + value)?;
        }
        (self.families, self.points) = (out.families.len(), out.points.len());
        Ok(())
    }
}
