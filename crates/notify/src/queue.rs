//! What waits for an Alertmanager: of each alert the latest state, in a lane for each group of rules.
//!
//! Invariants: an alert waits in one lane, once; a request takes from all lanes in turn, so a group with many alerts
//! holds up no other; when the queue is full, the longest lane loses its oldest alert.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::notice::Notice;

/// 10,000 alerts wait at most for a destination, as in Prometheus.
pub const ALERTS_MAX: usize = 10_000;
/// 256 alerts a request, as in Prometheus.
pub const BATCH: usize = 256;

/// See the module. Arrivals number the alerts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    alerts: BTreeMap<u64, Shared>,
    /// Hash of the labels, and arrival.
    by_labels: BTreeSet<(u64, u64)>,
    lanes: BTreeMap<u64, BTreeSet<u64>>,
    /// The length and number of each lane: the longest is last.
    by_length: BTreeSet<(usize, u64)>,
    arrivals: u64,
}

/// A notice that waits for several destinations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shared(pub(crate) Arc<Notice>);

impl Serialize for Shared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Shared {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Notice::deserialize(deserializer).map(|notice| Self(Arc::new(notice)))
    }
}

impl Queue {
    pub(crate) fn new(alerts: Vec<Shared>) -> Self {
        let mut out = Self::default();
        for Shared(alert) in alerts {
            out.push(alert);
        }
        out
    }

    /// Adds an alert, replacing its waiting state. Returns how many alerts were dropped for it.
    pub(crate) fn push(&mut self, alert: Arc<Notice>) -> u64 {
        if let Some(before) = self.arrival(&alert) {
            self.remove(before);
        }
        let is_full = self.alerts.len() >= ALERTS_MAX;
        if is_full {
            let (_, longest) = *self.by_length.last().expect("a full queue has a lane");
            let oldest = *self.lanes[&longest].first().expect("a lane has an alert");
            self.remove(oldest);
        }
        self.arrivals += 1;
        self.by_labels.insert((alert.hash(), self.arrivals));
        let lane = alert.lane;
        let arrival = self.arrivals;
        self.change_lane(lane, |arrivals| assert!(arrivals.insert(arrival), "arrivals rise"));
        self.alerts.insert(arrival, Shared(alert));
        u64::from(is_full)
    }

    /// The alerts of the next request, of those whose state is on disk: one of each lane in turn, beginning with the
    /// lane whose alert has waited longest.
    pub(crate) fn next(&self, saved: u64) -> Vec<Notice> {
        let is_saved = |arrival: &&u64| self.alerts[arrival].0.generation <= saved;
        let lanes = self.lanes.values().map(|arrivals| arrivals.iter().filter(is_saved).peekable());
        let mut lanes: Vec<_> = lanes.collect();
        lanes.sort_by_cached_key(|lane| lane.clone().next().copied());
        let mut out = Vec::new();
        while out.len() < BATCH && !lanes.is_empty() {
            lanes.retain_mut(|lane| match lane.next().filter(|_| out.len() < BATCH) {
                Some(arrival) => {
                    out.push((*self.alerts[arrival].0).clone());
                    true
                }
                None => false,
            });
        }
        out
    }

    /// These have arrived.
    pub(crate) fn done(&mut self, batch: &[Notice]) {
        for alert in batch {
            if let Some(arrival) = self.arrival(alert).filter(|arrival| *self.alerts[arrival].0 == *alert) {
                self.remove(arrival);
            }
        }
    }

    /// In the order of arrival.
    pub(crate) fn alerts(&self) -> impl Iterator<Item = &Shared> {
        self.alerts.values()
    }

    pub(crate) fn count(&self) -> usize {
        self.alerts.len()
    }

    /// The arrival of the waiting alert with these labels.
    fn arrival(&self, alert: &Notice) -> Option<u64> {
        let hash = alert.hash();
        let mut same = self.by_labels.range((hash, 0)..=(hash, u64::MAX)).map(|(_, arrival)| *arrival);
        same.find(|arrival| self.alerts[arrival].0.labels == alert.labels)
    }

    fn remove(&mut self, arrival: u64) {
        let Shared(alert) = self.alerts.remove(&arrival).expect("it waits");
        let was_indexed = self.by_labels.remove(&(alert.hash(), arrival));
        assert!(was_indexed, "what waits is found by its labels");
        self.change_lane(alert.lane, |arrivals| assert!(arrivals.remove(&arrival), "what waits is in its lane"));
    }

    fn change_lane(&mut self, number: u64, change: impl FnOnce(&mut BTreeSet<u64>)) {
        let lane = self.lanes.entry(number).or_default();
        self.by_length.remove(&(lane.len(), number));
        change(lane);
        if lane.is_empty() {
            self.lanes.remove(&number);
        } else {
            self.by_length.insert((lane.len(), number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::example;

    fn shared(name: &str, is_resolved: bool) -> Arc<Notice> {
        Arc::new(example(name, is_resolved))
    }

    fn lane_notice(lane: u64, number: usize) -> Arc<Notice> {
        Arc::new(Notice { lane, ..example(&format!("{lane}.{number}"), false) })
    }

    #[test]
    fn the_latest_state_of_an_alert_waits_and_the_queue_has_an_end() {
        let mut queue = Queue::default();
        queue.push(shared("a", false));
        queue.push(shared("b", false));
        queue.push(shared("a", true));
        let waiting = |queue: &Queue| queue.alerts().map(|one| (*one.0).clone()).collect::<Vec<_>>();
        assert_eq!(waiting(&queue), [example("b", false), example("a", true)]);
        assert!(queue.next(0).is_empty(), "nothing leaves before it is on disk");
        let batch = queue.next(1);
        assert_eq!(batch.len(), 2);
        queue.push(shared("a", false));
        queue.done(&batch);
        assert_eq!(waiting(&queue), [example("a", false)], "what came meanwhile stays");
        let mut full = Queue::new((0..ALERTS_MAX).map(|number| Shared(shared(&number.to_string(), false))).collect());
        let pushed = (full.push(shared("7", true)), full.push(shared("new", false)), full.count());
        assert_eq!(pushed, (0, 1, ALERTS_MAX));
        assert_ne!(full.alerts().next().unwrap().0.name(), "0", "the oldest goes");
    }

    /// 20,000 alerts of one group once stood before the one of another group, and pushed it out of a full queue:
    /// whoever waited for that one heard of it minutes later, or never.
    #[test]
    fn a_group_with_many_alerts_neither_delays_nor_drops_those_of_others() {
        let mut queue = Queue::default();
        queue.push(lane_notice(7, 0));
        let dropped: u64 = (0..2 * ALERTS_MAX).map(|number| queue.push(lane_notice(1, number))).sum();
        assert_eq!((queue.count(), dropped), (ALERTS_MAX, ALERTS_MAX as u64 + 1));
        queue.push(lane_notice(8, 0));
        let batch = queue.next(1);
        let lanes: Vec<u64> = batch.iter().map(|alert| alert.lane).collect();
        assert_eq!((batch.len(), &lanes[..4]), (BATCH, &[7, 1, 8, 1][..]), "all lanes in turn");
        queue.done(&batch);
        assert!(queue.next(1).iter().all(|alert| alert.lane == 1));
        assert_eq!(queue.count(), ALERTS_MAX - BATCH);
    }

    #[test]
    fn every_lane_has_its_turn_when_there_are_more_than_a_request_takes() {
        let lanes = BATCH as u64 + 10;
        let mut queue = Queue::default();
        for number in 0..3 {
            for lane in 0..lanes {
                queue.push(lane_notice(lane, number));
            }
        }
        let first = queue.next(1);
        queue.done(&first);
        let second: BTreeSet<u64> = queue.next(1).iter().map(|alert| alert.lane).collect();
        assert!((BATCH as u64..lanes).all(|lane| second.contains(&lane)), "who was not served is served next");
        let mut count = queue.count();
        while count > 0 {
            let batch = queue.next(1);
            queue.done(&batch);
            assert_eq!(queue.count(), count - batch.len());
            count = queue.count();
        }
        assert_eq!((queue.lanes.len(), queue.by_length.len(), queue.by_labels.len()), (0, 0, 0));
    }
}
