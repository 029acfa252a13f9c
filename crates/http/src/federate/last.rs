//! The last sample of a series.

use ogive_model::{HistogramValue, Labels, WallMs};
use ogive_protocol::families::FamilyKind;

/// The last sample of a series.
#[derive(Clone, Debug)]
pub(super) struct LastSample {
    pub(super) labels: Labels,
    pub(super) time: WallMs,
    pub(super) kind: FamilyKind,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Float(f64),
    Histogram(Box<HistogramValue>),
}

impl LastSample {
    /// Memory that it takes here, in the sorted list, and in the page, where a bucket is a line with all labels.
    pub(super) fn memory_bytes(&self) -> usize {
        let lines = match &self.value {
            Value::Float(_) => 1,
            Value::Histogram(value) => match &**value {
                HistogramValue::Integer(one) => 8 + one.positive.len() + one.negative.len(),
                HistogramValue::Float(one) => 8 + one.positive.len() + one.negative.len(),
            },
        };
        3 * size_of::<Self>() + (1 + 2 * lines) * (64 + self.labels.memory_bytes())
    }
}
