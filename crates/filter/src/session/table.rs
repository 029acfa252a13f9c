//! The open lines of a rule for sessions, by id.
//!
//! Invariants: at most one line of an id is open; which cells come of lines does not depend on how they are cut into
//! batches, and, as long as an id belongs to one session and no limit is reached, not on their order either.
//! Limits: `open_max` open lines, [`OPEN_BYTES_MAX`], and the timeout; those of [`Settled`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ogive_model::{MonoNs, Ns};

use super::half::{Fate, Half, Side};
use super::settled::{Pair, Settled};
use super::tally::{SessionOutcome, SessionTally};

/// 64 MiB of open lines: 100,000 with a few labels.
const OPEN_BYTES_MAX: usize = 64 << 20;

/// The limits of a rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) open_max: usize,
    pub(super) timeout: Ns,
}

impl Limits {
    /// The lines of as many sessions as may be open.
    fn settled_max(self) -> usize {
        2 * self.open_max
    }
}

#[derive(Debug)]
struct Open {
    half: Half,
    serial: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Table {
    open: HashMap<Arc<str>, Open>,
    /// Their keys in the order of their arrival.
    order: BTreeMap<u64, Arc<str>>,
    serial: u64,
    open_bytes: usize,
    settled: Settled,
}

impl Table {
    /// Takes a line; the session that it completes, also when it comes again.
    pub(super) fn take(&mut self, key: &str, half: Half, limits: Limits, tally: &SessionTally) -> Option<Arc<Pair>> {
        if let Some(completed) = self.settled.find(&half.origin) {
            return completed;
        }
        let fate = self.open.get(key).map(|open| open.half.fate(&half, limits.timeout));
        match fate {
            None => self.insert(key, half),
            Some(Fate::Same) => {}
            Some(Fate::Keep(outcome)) => self.settle(half, outcome, limits, tally),
            Some(Fate::Replace(outcome)) => {
                let before = self.remove(key);
                self.settle(before, outcome, limits, tally);
                self.insert(key, half);
            }
            Some(Fate::Pair) => {
                tally.add(SessionOutcome::Matched);
                return Some(self.close(key, half, limits));
            }
        }
        self.evict(limits, tally);
        None
    }

    /// Counts and forgets those that are too old.
    pub(super) fn expire(&mut self, now: MonoNs, limits: Limits, tally: &SessionTally) {
        while let Some((_, key)) = self.order.first_key_value() {
            if now.since(self.open[key].half.arrived) <= limits.timeout {
                break;
            }
            let key = key.clone();
            let half = self.remove(&key);
            let outcome = match half.side {
                Side::Begin => SessionOutcome::Expired,
                Side::End => SessionOutcome::Unmatched,
            };
            self.settle(half, outcome, limits, tally);
        }
    }

    /// Number of open lines.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.open_bytes + self.settled.memory_bytes()
    }

    fn close(&mut self, key: &str, last: Half, limits: Limits) -> Arc<Pair> {
        let (side, first) = (last.side, self.remove(key));
        assert_ne!(side, first.side);
        let pair = match side {
            Side::Begin => Pair { begin: last, end: first },
            Side::End => Pair { begin: first, end: last },
        };
        let pair = Arc::new(pair);
        self.settled.close(&pair, side, limits.settled_max());
        pair
    }

    /// Counts and remembers a line that became nothing.
    fn settle(&mut self, half: Half, outcome: SessionOutcome, limits: Limits, tally: &SessionTally) {
        tally.add(outcome);
        self.settled.drop_line(half.origin, limits.settled_max());
    }

    fn evict(&mut self, limits: Limits, tally: &SessionTally) {
        while self.open.len() > limits.open_max || self.open_bytes > OPEN_BYTES_MAX {
            let (_, oldest) = self.order.first_key_value().expect("what has bytes has lines");
            let oldest = oldest.clone();
            let half = self.remove(&oldest);
            self.settle(half, SessionOutcome::Evicted, limits, tally);
        }
    }

    fn insert(&mut self, key: &str, half: Half) {
        let key: Arc<str> = key.into();
        self.serial += 1;
        self.open_bytes += bytes(&key, &half);
        self.order.insert(self.serial, key.clone());
        let before = self.open.insert(key, Open { half, serial: self.serial });
        assert!(before.is_none(), "one line of an id is open");
    }

    fn remove(&mut self, key: &str) -> Half {
        let (key, Open { half, serial }) = self.open.remove_entry(key).expect("it is open");
        self.order.remove(&serial);
        self.open_bytes -= bytes(&key, &half);
        assert_eq!(self.open.len(), self.order.len());
        half
    }
}

fn bytes(key: &str, half: &Half) -> usize {
    half.bytes() + key.len() + size_of::<(Arc<str>, Open)>() + size_of::<(u64, Arc<str>)>()
}

#[cfg(test)]
mod tests {
    use ogive_model::{BatchId, Labels, SourceId, Tenant, WallNs};

    use super::super::half::Origin;
    use super::*;

    const LIMITS: Limits = Limits { open_max: 3, timeout: Ns(100) };

    struct Tried {
        table: Table,
        tally: SessionTally,
        sequence: u64,
    }

    impl Tried {
        fn new() -> Self {
            Self { table: Table::default(), tally: SessionTally::default(), sequence: 0 }
        }

        /// A line of a batch of its own; the nanoseconds of the session that it completes.
        fn take(&mut self, key: &str, side: Side, own_time: i64) -> Option<f64> {
            self.sequence += 1;
            self.again(self.sequence, key, side, own_time)
        }

        fn again(&mut self, sequence: u64, key: &str, side: Side, own_time: i64) -> Option<f64> {
            let batch = BatchId { source: SourceId(1), sequence };
            let half = Half {
                side,
                origin: Origin { tenant: Tenant::default(), batch, sample: 0 },
                arrived: MonoNs(sequence),
                own_time: WallNs(own_time),
                time: WallNs(own_time),
                labels: Labels::empty(),
                values: Vec::new(),
            };
            let pair = self.table.take(key, half, LIMITS, &self.tally)?;
            Some((pair.seconds() * 1e9).round())
        }

        fn counts(&self) -> Vec<(&'static str, u64)> {
            let counts = SessionOutcome::ALL.map(|outcome| (outcome.name(), self.tally.get(outcome)));
            counts.into_iter().filter(|(_, count)| *count > 0).collect()
        }
    }

    #[test]
    fn a_session_counts_once_in_whatever_order_and_however_often_its_lines_come() {
        for sides in [[Side::Begin, Side::End], [Side::End, Side::Begin]] {
            let mut tried = Tried::new();
            let time = |side: Side| if side == Side::Begin { 10 } else { 15 };
            assert_eq!(tried.take("a", sides[0], time(sides[0])), None);
            assert_eq!(tried.again(1, "a", sides[0], time(sides[0])), None);
            assert_eq!(tried.take("a", sides[1], time(sides[1])), Some(5.0));
            // The batch that had the duration has it again, under the same number; the other one never.
            assert_eq!(tried.again(1, "a", sides[0], time(sides[0])), None);
            assert_eq!(tried.again(2, "a", sides[1], time(sides[1])), Some(5.0));
            assert_eq!((tried.counts(), tried.table.len()), (vec![("matched", 1)], 0));
        }
    }

    /// A line of the id `a`, and its time.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct At(Side, i64);

    #[test]
    fn lines_that_do_not_fit_together_leave_the_same_one_open_in_either_order() {
        let check = |lines: [At; 2], count: &'static str, open: At| {
            for [first, second] in [lines, [lines[1], lines[0]]] {
                let mut tried = Tried::new();
                assert_eq!((tried.take("a", first.0, first.1), tried.take("a", second.0, second.1)), (None, None));
                assert_eq!(tried.counts(), [(count, 1)]);
                let half = &tried.table.open["a"].half;
                assert_eq!(At(half.side, half.own_time.0), open, "{count}");
            }
        };
        check([At(Side::Begin, 10), At(Side::End, 9)], "reversed", At(Side::Begin, 10));
        check([At(Side::Begin, 10), At(Side::End, 111)], "expired", At(Side::End, 111));
        check([At(Side::Begin, 10), At(Side::Begin, 20)], "repeated", At(Side::Begin, 20));
        check([At(Side::End, 10), At(Side::End, 20)], "repeated", At(Side::End, 20));
        let mut tried = Tried::new();
        tried.take("a", Side::Begin, 10);
        assert_eq!(tried.take("a", Side::End, 110), Some(100.0), "as long as the timeout");
        tried.take("b", Side::Begin, i64::MIN);
        assert_eq!(tried.take("b", Side::End, i64::MAX), None);
    }

    #[test]
    fn open_lines_are_bounded_by_number_and_age() {
        let mut tried = Tried::new();
        for key in ["a", "b", "c", "d"] {
            tried.take(key, Side::Begin, 0);
        }
        assert_eq!((tried.counts(), tried.table.len()), (vec![("evicted", 1)], 3));
        assert_eq!(tried.take("d", Side::End, 1), Some(1.0));
        assert_eq!(tried.take("a", Side::End, 1), None, "its begin was the oldest");
        // They came at 2, 3 and 6.
        tried.table.expire(MonoNs(102), LIMITS, &tried.tally);
        assert_eq!(tried.table.len(), 3);
        tried.table.expire(MonoNs(105), LIMITS, &tried.tally);
        assert_eq!(tried.table.len(), 1);
        tried.table.expire(MonoNs(107), LIMITS, &tried.tally);
        assert_eq!(tried.counts(), [("matched", 1), ("expired", 2), ("unmatched", 1), ("evicted", 1)]);
        assert_eq!((tried.table.open_bytes, tried.table.order.len()), (0, 0));
    }

    #[test]
    fn open_lines_are_bounded_by_bytes() {
        let mut tried = Tried::new();
        let large = "x".repeat(OPEN_BYTES_MAX / 2);
        tried.take(&format!("a{large}"), Side::Begin, 0);
        tried.take(&format!("b{large}"), Side::Begin, 0);
        assert_eq!((tried.counts(), tried.table.len()), (vec![("evicted", 1)], 1));
    }

    /// A sender gave one number to two batches: nothing is taken twice, and nothing fails.
    #[test]
    fn numbers_that_are_used_again_do_no_harm() {
        let mut tried = Tried::new();
        tried.again(1, "a", Side::Begin, 0);
        tried.again(1, "b", Side::Begin, 0);
        assert_eq!((tried.again(2, "a", Side::End, 1), tried.again(3, "b", Side::End, 1)), (Some(1.0), Some(1.0)));
        assert_eq!(tried.again(1, "c", Side::Begin, 0), None);
        assert_eq!((tried.counts(), tried.table.len()), (vec![("matched", 2)], 0));
    }

    #[test]
    fn settled_lines_are_forgotten_beyond_the_limit() {
        let mut tried = Tried::new();
        for key in ["a", "b", "c", "d"] {
            tried.take(key, Side::Begin, 0);
            assert_eq!(tried.take(key, Side::End, 1), Some(1.0));
        }
        assert_eq!(tried.again(4, "b", Side::End, 1), Some(1.0));
        assert_eq!(tried.again(2, "a", Side::End, 1), None, "it is the oldest of four");
        assert!(tried.table.memory_bytes() > 0);
    }
}
