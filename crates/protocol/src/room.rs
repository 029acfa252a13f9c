//! The memory budget of a decoded request, charged while it is decoded.
//!
//! A message of two bytes may stand for a histogram of three hundred, so the decoded size of a body is bounded
//! separately from its length.
//! Invariants: a part is charged before it is kept, so memory stays below the limit, and below twice the limit while a
//! growing list is moved.
//! Limits: [`BYTES_FREE`] and [`RATIO`] times the body, at most [`BYTES_MAX`].
//! Failure: [`Error::TooLarge`]; nothing of the request is accepted.

use ogive_hist::{Count, Histogram, Scheme};
use ogive_model::{Batch, Kind, Reason, Sample, SeriesDef, Value};

use crate::Error;

/// 4 MiB of any body: 14,000 empty histograms, more than a sender puts into one request.
const BYTES_FREE: usize = 4 << 20;
/// 32 times: measurements unfold to 3 to 15 times their bytes; an empty message to 150 times its two.
const RATIO: usize = 32;
/// 128 MiB: the largest body, 32 MiB, full of the shortest samples that real senders write (18 bytes, 57 in memory),
/// and a fifth.
pub const BYTES_MAX: usize = 128 << 20;

/// What an entry of a table with keys of 128 bits takes.
pub(crate) const ENTRY_BYTES: usize = 48;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    taken: usize,
    limit: usize,
}

impl Default for Room {
    /// Room for what comes in parts of unknown sum.
    fn default() -> Self {
        Self { taken: 0, limit: BYTES_MAX }
    }
}

impl Room {
    /// Room for what somebody sent in a body of `body` bytes.
    pub(crate) fn new(body: usize) -> Self {
        Self { limit: Self::fetched(body).limit.min(BYTES_MAX), taken: 0 }
    }

    /// Room for what was fetched in a body of `body` bytes, which its reader has bounded as the user wants it.
    pub(crate) fn fetched(body: usize) -> Self {
        Self { taken: 0, limit: BYTES_FREE.saturating_add(body.saturating_mul(RATIO)) }
    }

    /// Pays for `bytes`.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Error> {
        let taken = self.taken.saturating_add(bytes);
        if taken > self.limit {
            let (found, limit) = (taken as u64, self.limit as u64);
            return Err(Error::TooLarge { what: "the memory that the request unfolds to", found, limit });
        }
        self.taken = taken;
        Ok(())
    }

    /// What was paid for.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }
}

/// What a sample with `value` takes, and what stands beside each sample of a request: its kind, its point or its line.
pub(crate) fn sample_bytes(value: Result<&Value, &Reason>) -> usize {
    const PLAIN: usize = size_of::<Result<Sample, Reason>>() + size_of::<Kind>().next_multiple_of(8);
    PLAIN
        + match value {
            Ok(Value::Histogram(histogram)) => histogram_bytes(histogram),
            Ok(Value::FloatHistogram(histogram)) => histogram_bytes(histogram),
            Ok(Value::Text(text)) => text.len(),
            Ok(Value::Float(_)) | Err(_) => 0,
        }
}

/// What a histogram takes.
pub(crate) fn histogram_bytes<C: Count>(histogram: &Histogram<C>) -> usize {
    let bounds = if let Scheme::Custom { bounds } = &histogram.scheme { size_of_val::<[f64]>(bounds) } else { 0 };
    let bins = histogram.negative.len() + histogram.positive.len();
    size_of::<Histogram<C>>() + bounds + bins * (size_of::<i32>() + size_of::<C>())
}

/// What a declared series takes, with its key in the request and in what is remembered of it.
pub(crate) fn series_bytes(series: Option<&SeriesDef>) -> usize {
    let own = series.map_or(0, |series| series.labels.memory_bytes() + series.meta.unit.len());
    size_of::<Result<SeriesDef, ogive_model::Error>>() + 2 * ENTRY_BYTES + own
}

/// What `batch` takes in memory, about.
#[must_use]
pub fn batch_bytes(batch: &Batch) -> usize {
    let series = batch.series.iter().map(|series| series_bytes(series.as_ref().ok())).sum::<usize>();
    let samples = batch.samples.iter().map(|sample| sample_bytes(sample.as_ref().map(|sample| &sample.value)));
    series + size_of_val(&*batch.known) + samples.sum::<usize>()
}

/// The most that a body of `body` bytes may unfold to.
#[must_use]
pub fn bytes_max(body: usize) -> usize {
    Room::new(body).limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_up_to_its_limit() {
        let mut room = Room::new(10);
        let limit = BYTES_FREE + 10 * RATIO;
        room.take(limit).unwrap();
        let error = Error::TooLarge {
            what: "the memory that the request unfolds to",
            found: limit as u64 + 1,
            limit: limit as u64,
        };
        assert_eq!((room.take(1), room.taken()), (Err(error), limit));
        assert_eq!(Room::new(32 << 20).limit, BYTES_MAX);
        assert!(Room::fetched(usize::MAX).take(usize::MAX).is_ok());
    }

    #[test]
    fn a_batch_takes_what_its_parts_take() {
        let mut histogram = Histogram::<u64>::new(Scheme::LogLinear10);
        [0.001, 1.0, 7.5].into_iter().for_each(|value| histogram.record(value));
        let values = [Value::Float(1.0), Value::Text("x".repeat(1_000)), Value::Histogram(Box::new(histogram))];
        let sample = |value: Value| Ok(Sample { series: 0, time_ns: 1, start_ns: None, value });
        let parts: usize = values.iter().map(|value| sample_bytes(Ok(value))).sum();
        assert!(parts > 1_000 + size_of::<Histogram<u64>>(), "{parts}");
        let mut batch = Batch { samples: values.map(sample).into(), ..Batch::default() };
        assert_eq!(batch_bytes(&batch), parts);
        batch.samples.push(Err(Reason::PointInvalid));
        batch.known = vec![ogive_model::SeriesId(1); 10];
        assert_eq!(batch_bytes(&batch), parts + sample_bytes(Err(&Reason::PointInvalid)) + 160);
        assert_eq!((bytes_max(0), bytes_max(32 << 20)), (BYTES_FREE, BYTES_MAX));
    }

    #[test]
    fn the_shortest_samples_that_are_sent_fit() {
        let floats = (32 << 20) / 18;
        assert!(floats * sample_bytes(Ok(&Value::Float(1.0))) < BYTES_MAX, "{}", sample_bytes(Ok(&Value::Float(1.0))));
    }
}
