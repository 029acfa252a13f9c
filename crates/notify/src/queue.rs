//! What waits for an Alertmanager: of each alert the latest state.

use crate::notice::Notice;

/// 10,000 alerts wait at most for a destination, as in Prometheus.
pub const ALERTS_MAX: usize = 10_000;
/// 256 alerts a request, as in Prometheus.
pub const BATCH: usize = 256;

/// See the module. Each alert beside the hash of its labels: most comparisons end there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue(Vec<(u64, Notice)>);

impl Queue {
    pub(crate) fn new(alerts: Vec<Notice>) -> Self {
        Self(alerts.into_iter().map(|alert| (alert.hash(), alert)).collect())
    }

    /// Adds an alert; what waits of it already goes. How many had to go for it.
    pub(crate) fn push(&mut self, alert: Notice) -> u64 {
        let hash = alert.hash();
        self.0.retain(|(other_hash, other)| *other_hash != hash || other.labels != alert.labels);
        let is_full = self.0.len() >= ALERTS_MAX;
        if is_full {
            self.0.remove(0);
        }
        self.0.push((hash, alert));
        u64::from(is_full)
    }

    /// The alerts of the next request: those whose state is on disk.
    pub(crate) fn next(&self, saved: u64) -> Vec<Notice> {
        self.alerts().filter(|alert| alert.generation <= saved).take(BATCH).cloned().collect()
    }

    /// These have arrived.
    pub(crate) fn done(&mut self, batch: &[Notice]) {
        self.0.retain(|(_, waiting)| !batch.contains(waiting));
    }

    pub(crate) fn alerts(&self) -> impl Iterator<Item = &Notice> {
        self.0.iter().map(|(_, alert)| alert)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::example;

    #[test]
    fn the_latest_state_of_an_alert_waits_and_the_queue_has_an_end() {
        let mut queue = Queue::default();
        queue.push(example("a", false));
        queue.push(example("b", false));
        queue.push(example("a", true));
        assert_eq!(queue.alerts().collect::<Vec<_>>(), [&example("b", false), &example("a", true)]);
        assert!(queue.next(0).is_empty(), "nothing leaves before it is on disk");
        let batch = queue.next(1);
        assert_eq!(batch.len(), 2);
        queue.push(example("a", false));
        queue.done(&batch);
        assert_eq!(queue.alerts().collect::<Vec<_>>(), [&example("a", false)], "what came meanwhile stays");
        let mut full = Queue::new((0..ALERTS_MAX).map(|number| example(&number.to_string(), false)).collect());
        assert_eq!((full.push(example("7", true)), full.push(example("new", false)), full.count()), (0, 1, ALERTS_MAX));
        assert_ne!(full.alerts().next().unwrap().name(), "0", "the oldest goes");
    }
}
