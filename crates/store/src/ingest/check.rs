//! Decides whether a sample can be stored at all, by rules that depend only on the sample, its series and the time.

use ogive_hist::Count;
use ogive_model::wire::{BINS_MAX, TEXT_SAMPLE_BYTES_MAX};
use ogive_model::{Kind, Ns, Reason, Sample, Value, WallNs};

/// 1970: nothing was measured before, and a time below it is a unit that was mistaken.
pub const TIME_NS_MIN: i64 = 0;
/// 24 hours ahead of the server's clock: a wrong time zone passes, a wrong unit does not.
pub const TIME_AHEAD_MAX: Ns = Ns::from_secs(24 * 3600);

/// The first rule that `sample`, of a series of `kind`, breaks.
///
/// # Errors
/// The rule as the reason to reject the sample.
pub fn check(sample: &Sample, kind: Kind, wall: WallNs) -> Result<(), Reason> {
    if sample.time_ns < TIME_NS_MIN {
        return Err(Reason::TimeTooOld);
    }
    if sample.time_ns > wall.saturating_add(TIME_AHEAD_MAX).0 {
        return Err(Reason::TimeTooNew);
    }
    // 0 is not known, as on the wire.
    if sample.start_ns.is_some_and(|start| start < TIME_NS_MIN || (start != 0 && start >= sample.time_ns)) {
        return Err(Reason::StartInvalid);
    }
    if bins_max(&sample.value) > BINS_MAX {
        return Err(Reason::HistogramInvalid);
    }
    match (&sample.value, kind) {
        (Value::Float(_), Kind::Float) => Ok(()),
        (Value::Histogram(histogram), Kind::Histogram) => {
            let counts_add_up = histogram.count == histogram.total().plus(histogram.nan);
            if counts_add_up && histogram.check().is_ok() { Ok(()) } else { Err(Reason::HistogramInvalid) }
        }
        (Value::FloatHistogram(histogram), Kind::Histogram) => histogram.check().map_err(|_| Reason::HistogramInvalid),
        (Value::Text(text), Kind::Text) if text.len() > TEXT_SAMPLE_BYTES_MAX => Err(Reason::TextTooLarge),
        (Value::Text(_), Kind::Text) => Ok(()),
        _ => Err(Reason::KindConflict),
    }
}

/// Bins on that side of a histogram that has more: what a replay would not read is not taken.
fn bins_max(value: &Value) -> usize {
    match value {
        Value::Histogram(histogram) => histogram.negative.indexes().len().max(histogram.positive.indexes().len()),
        Value::FloatHistogram(histogram) => histogram.negative.indexes().len().max(histogram.positive.indexes().len()),
        Value::Float(_) | Value::Text(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use ogive_hist::Histogram;

    use super::*;

    const NOW: i64 = 1_700_000_000_000_000_000;

    fn at(time_ns: i64, value: Value, kind: Kind) -> Result<(), Reason> {
        check(&Sample { series: 0, time_ns, start_ns: None, value }, kind, WallNs(NOW))
    }

    #[test]
    fn times_are_bounded_at_both_ends() {
        let float = |time| at(time, Value::Float(1.0), Kind::Float);
        assert_eq!(float(-1), Err(Reason::TimeTooOld));
        assert_eq!(float(0), Ok(()));
        assert_eq!(float(NOW + TIME_AHEAD_MAX.0), Ok(()));
        assert_eq!(float(NOW + TIME_AHEAD_MAX.0 + 1), Err(Reason::TimeTooNew));
        assert_eq!(float(i64::MAX), Err(Reason::TimeTooNew));
    }

    #[test]
    fn a_start_is_before_its_time_and_not_below_zero() {
        let from = |start_ns| {
            let value = Value::Float(1.0);
            check(&Sample { series: 0, time_ns: NOW, start_ns, value }, Kind::Float, WallNs(NOW))
        };
        for good in [None, Some(0), Some(1), Some(NOW - 1)] {
            assert_eq!(from(good), Ok(()), "{good:?}");
        }
        for bad in [-1, i64::MIN, NOW, NOW + 1, i64::MAX] {
            assert_eq!(from(Some(bad)), Err(Reason::StartInvalid), "{bad}");
        }
    }

    #[test]
    fn values_are_of_the_series_kind() {
        let text = || Value::Text("t".into());
        assert_eq!(at(NOW, text(), Kind::Float), Err(Reason::KindConflict));
        assert_eq!(at(NOW, Value::Float(1.0), Kind::Histogram), Err(Reason::KindConflict));
        assert_eq!(at(NOW, text(), Kind::Text), Ok(()));
        let long = |bytes| at(NOW, Value::Text("x".repeat(bytes)), Kind::Text);
        assert_eq!(long(TEXT_SAMPLE_BYTES_MAX), Ok(()));
        assert_eq!(long(TEXT_SAMPLE_BYTES_MAX + 1), Err(Reason::TextTooLarge));
    }

    #[test]
    fn histograms_keep_their_rules() {
        let mut histogram = Histogram::<u64>::log_linear();
        histogram.record(0.25);
        let check = |histogram: &Histogram| at(NOW, Value::Histogram(Box::new(histogram.clone())), Kind::Histogram);
        assert_eq!(check(&histogram), Ok(()));
        histogram.count += 1;
        assert_eq!(check(&histogram), Err(Reason::HistogramInvalid));
        histogram.positive.add(1_000_000, 1);
        histogram.recount();
        assert_eq!(check(&histogram), Err(Reason::HistogramInvalid));
    }

    /// OTLP takes more buckets than a frame's reader: the sample was acknowledged, and a start lost it.
    #[test]
    fn a_histogram_has_as_many_bins_as_a_replay_reads() {
        let of = |bins: usize| {
            let mut histogram = Histogram::<u64>::new(ogive_hist::Scheme::Exp2 { scale: 20 });
            histogram.positive = (0..bins as i32).map(|index| (index, 1)).collect();
            histogram.recount();
            Value::Histogram(Box::new(histogram))
        };
        assert_eq!(at(NOW, of(BINS_MAX), Kind::Histogram), Ok(()));
        assert_eq!(at(NOW, of(BINS_MAX + 1), Kind::Histogram), Err(Reason::HistogramInvalid));
        let meta = ogive_model::SeriesMeta {
            kind: Kind::Histogram,
            temporality: ogive_model::Temporality::Delta,
            unit: String::new(),
            width_ms: 0,
        };
        let series = vec![ogive_model::SeriesDef::new([("__name__", "h")], meta)];
        let samples = vec![Ok(Sample { series: 0, time_ns: NOW, start_ns: None, value: of(BINS_MAX) })];
        let batch = ogive_model::Batch { series, samples, ..ogive_model::Batch::default() };
        assert_eq!(ogive_model::Batch::decode(&batch.encode().unwrap()).unwrap(), batch);
    }
}
