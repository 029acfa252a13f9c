//! How much: batches, samples, cells and the measurements inside them, counted alike wherever they are.

use ogive_model::{Batch, Sample, Value};

/// An amount of measured data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Whole batches.
    pub batches: u64,
    /// Samples of every kind.
    pub samples: u64,
    /// Samples that are histograms.
    pub cells: u64,
    /// Measurements that the cells count.
    pub records: u64,
}

impl Amount {
    /// Of one sample.
    #[must_use]
    pub fn from_sample(sample: &Sample) -> Self {
        let (cells, records) = match &sample.value {
            Value::Histogram(cell) => (1, cell.count),
            Value::FloatHistogram(_) => (1, 0),
            Value::Float(_) | Value::Text(_) => (0, 0),
        };
        Self { batches: 0, samples: 1, cells, records }
    }

    /// Of a batch.
    #[must_use]
    pub fn from_batch(batch: &Batch) -> Self {
        let mut sum = Self { batches: 1, ..Self::default() };
        batch.samples.iter().flatten().for_each(|sample| sum += Self::from_sample(sample));
        sum
    }

    /// Each figure with its name, as the value of the label `what`.
    #[must_use]
    pub fn figures(&self) -> [(&'static str, u64); 4] {
        [("batches", self.batches), ("samples", self.samples), ("cells", self.cells), ("records", self.records)]
    }

    /// Whether it is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::AddAssign for Amount {
    fn add_assign(&mut self, more: Self) {
        self.batches += more.batches;
        self.samples += more.samples;
        self.cells += more.cells;
        self.records += more.records;
    }
}

impl std::ops::SubAssign for Amount {
    fn sub_assign(&mut self, less: Self) {
        self.batches -= less.batches;
        self.samples -= less.samples;
        self.cells -= less.cells;
        self.records -= less.records;
    }
}

impl std::ops::Sub for Amount {
    type Output = Self;

    fn sub(mut self, less: Self) -> Self {
        self -= less;
        self
    }
}
