//! Ends of series: the last state reported by a check that was removed is no longer current, so each of its state
//! series gets a staleness marker, like those of a scraped target that disappeared, and so does each of its cumulative
//! counters. Counts and latencies, which cover one second, need none.
//!
//! Invariants: a marker comes after the last sample of its series, even if the check was running when it was removed.
//! Limits: [`LASTING_MAX`] series per check; further series of a script go stale by themselves, five minutes later.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ogive_model::{Batch, Kind, Ns, STALE, Sample, SeriesDef, Temporality, Value, WallNs};

use super::config::Check;

/// 1,000 series: ten times what a usual check reports.
const LASTING_MAX: usize = 1_000;

/// What checks reported last.
#[derive(Default)]
pub(super) struct Ends(Mutex<ByName>);

/// Each check by its name, with the series of its states.
type ByName = BTreeMap<String, (Arc<Check>, Vec<SeriesDef>)>;

impl Ends {
    fn lock(&self) -> MutexGuard<'_, ByName> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A check is there from now on. When it is another one of the same name, with other labels, the series of the
    /// former end.
    pub(super) fn began(&self, check: &Arc<Check>, now: WallNs) -> Option<Batch> {
        let mut all = self.lock();
        let before = all.remove(&check.name);
        let (kept, ended) = match before {
            Some((before, series)) if before.labels == check.labels => (series, Vec::new()),
            Some((_, series)) => (Vec::new(), series),
            None => Default::default(),
        };
        all.insert(check.name.clone(), (check.clone(), kept));
        marks(ended, now)
    }

    /// A check is gone.
    pub(super) fn ended(&self, name: &str, now: WallNs) -> Option<Batch> {
        let (_, series) = self.lock().remove(name)?;
        marks(series, now)
    }

    /// A run reported this. When its check is gone by now, what it reported has ended already.
    pub(super) fn reported(&self, check: &Arc<Check>, batch: &Batch, now: WallNs) -> Option<Batch> {
        let lasting = batch.series.iter().flatten().filter(|series| is_lasting(series));
        match self.lock().get_mut(&check.name) {
            Some((of, known)) if of.labels == check.labels => {
                for series in lasting {
                    if known.len() < LASTING_MAX && !known.contains(series) {
                        known.push(series.clone());
                    }
                }
                None
            }
            _ => marks(lasting.cloned().collect(), now),
        }
    }
}

fn is_lasting(series: &SeriesDef) -> bool {
    series.meta.kind == Kind::Float && series.meta.temporality != Temporality::Delta
}

/// A marker for each, a millisecond behind `now`: no sample is as late.
fn marks(series: Vec<SeriesDef>, now: WallNs) -> Option<Batch> {
    let time_ns = (now + Ns(1_000_000)).0;
    let sample = |at: usize| {
        Ok(Sample { series: at as u32, time_ns, start_ns: None, value: Value::Float(f64::from_bits(STALE)) })
    };
    let samples = (0..series.len()).map(sample).collect();
    (!series.is_empty()).then(|| Batch { samples, series: series.into_iter().map(Ok).collect(), ..Batch::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::run::Run;
    use ogive_probe::Clock;

    fn check(port: u16) -> Arc<Check> {
        let text = format!("[[check]]\nname = \"a\"\nkind = \"tcp\"\ntarget = \"h:{port}\"\n");
        Arc::new(Config::parse(&text).unwrap().check.remove(0))
    }

    fn batch(check: &Check) -> Batch {
        let mut run = Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000));
        run.gauge("ogive_check_bytes", "By", 7.0);
        let end = run.ended(Some(Ok(())), check.timeout);
        run.batch(&end, &check.labels, check.period)
    }

    fn names(batch: Option<Batch>) -> Vec<String> {
        let batch = batch.unwrap_or_default();
        let stale = |sample: &Result<Sample, _>| matches!(&sample.as_ref().unwrap().value, Value::Float(value) if value.to_bits() == STALE);
        assert!(batch.samples.iter().all(stale));
        batch.series.iter().map(|series| series.as_ref().unwrap().labels.metric_name().to_owned()).collect()
    }

    #[test]
    fn states_end_with_their_check_and_counts_do_not() {
        let (ends, check, both) = (Ends::default(), check(1), ["ogive_check_up", "ogive_check_bytes"]);
        assert_eq!(names(ends.began(&check, WallNs(0))), [""; 0]);
        assert_eq!(names(ends.reported(&check, &batch(&check), WallNs(0))), [""; 0]);
        assert_eq!(names(ends.reported(&check, &batch(&check), WallNs(0))), [""; 0]);
        assert_eq!(names(ends.ended("a", WallNs(0))), both);
        assert_eq!(names(ends.ended("a", WallNs(0))), [""; 0], "once");
        // A run that was in progress when its check went.
        assert_eq!(names(ends.reported(&check, &batch(&check), WallNs(0))), both);
    }

    #[test]
    fn a_check_that_asks_another_ends_the_series_of_the_first() {
        let (ends, one, other) = (Ends::default(), check(1), check(2));
        assert!(ends.began(&one, WallNs(0)).is_none());
        assert!(ends.reported(&one, &batch(&one), WallNs(0)).is_none());
        assert!(ends.began(&check(1), WallNs(0)).is_none(), "the same labels");
        assert_eq!(names(ends.began(&other, WallNs(0))).len(), 2);
        let marked = ends.reported(&one, &batch(&one), WallNs(5_000_000)).unwrap();
        assert_eq!(marked.samples[0].as_ref().unwrap().time_ns, 6_000_000);
        assert_eq!(marked.series[0].as_ref().unwrap().labels.get("target"), "h:1");
    }
}
