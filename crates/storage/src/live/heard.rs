//! How far each series of a stream has been heard: what may still come, and what is known.
//!
//! Invariants: a second without samples is known to be empty only when every series that still sends was heard of after
//! it, and no series' cells are wider than a second; before that nothing is claimed of it. Limits: those of the series
//! that are followed.

use std::collections::HashMap;
use std::hash::Hash;

/// Seconds that a series is waited for at the most: two intervals of senders that flush once a minute.
pub(crate) const PATIENCE_SECONDS: i64 = 122;

/// The minimum number of seconds to wait for a series, in addition to twice its interval.
const PATIENCE_LEAST: i64 = 2;

/// What is known of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondState {
    /// Everything, as far as senders behave as before.
    Whole,
    /// There is data, but a sending series has not sent anything newer.
    Partial,
    /// Nothing arrived, which proves nothing.
    Unknown,
}

impl SecondState {
    /// In events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "known",
            Self::Partial => "partial",
            Self::Unknown => "unknown",
        }
    }
}

/// The series of a stream.
#[derive(Clone, Debug)]
pub struct StreamSeries<K> {
    series: HashMap<K, Pace>,
}

/// The intervals of a series, in seconds.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// The end of its newest cell.
    newest: i64,
    /// When that arrived.
    arrived: i64,
    /// How long it was silent before, the last two times.
    gaps: [i64; 2],
    /// Its cells are wider than a second, or have no stated width.
    is_wide: bool,
}

impl Pace {
    fn patience(&self) -> i64 {
        (2 * self.gaps[0].max(self.gaps[1]) + PATIENCE_LEAST).min(PATIENCE_SECONDS)
    }
}

impl<K> Default for StreamSeries<K> {
    fn default() -> Self {
        Self { series: HashMap::new() }
    }
}

impl<K: Eq + Hash> StreamSeries<K> {
    /// A series has a sample in the second that ends at `second`; it is `now`.
    pub fn note(&mut self, series: K, second: i64, now: i64, is_wide: bool) {
        // The interval of a series that never sent is not known: it may send once a minute.
        let unheard = Pace { newest: i64::MIN, arrived: now, gaps: [0, PATIENCE_SECONDS / 2], is_wide };
        let pace = self.series.entry(series).or_insert(unheard);
        pace.is_wide |= is_wide;
        if second > pace.newest {
            let gap = now - pace.arrived;
            if gap > 0 {
                pace.gaps = [pace.gaps[1], gap];
            }
            (pace.newest, pace.arrived) = (second, now);
        }
    }

    /// Forgets series that are no longer waited for.
    pub fn forget(&mut self, now: i64) {
        self.series.retain(|_, pace| now - pace.arrived <= 2 * PATIENCE_SECONDS);
    }

    /// What is known of a second.
    pub fn known(&self, second: i64, now: i64, has_samples: bool) -> SecondState {
        let mut awaited = self.series.values().filter(|pace| now - pace.arrived <= pace.patience()).peekable();
        let has_sender = awaited.peek().is_some();
        let (mut is_open, mut is_wide) = (false, false);
        for pace in awaited {
            is_open |= pace.newest < second;
            is_wide |= pace.is_wide;
        }
        match (has_samples, is_open) {
            (true, true) => SecondState::Partial,
            (true, false) => SecondState::Whole,
            (false, false) if has_sender && !is_wide => SecondState::Whole,
            (false, _) => SecondState::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_known_once_every_sender_was_heard_of_after_it() {
        let mut heard = StreamSeries::default();
        assert_eq!(heard.known(10, 10, false), SecondState::Unknown, "nobody ever sent");
        heard.note('a', 10, 10, false);
        assert_eq!(heard.known(10, 10, true), SecondState::Whole);
        assert_eq!(heard.known(11, 11, false), SecondState::Unknown, "a may flush later");
        heard.note('b', 11, 11, false);
        assert_eq!(heard.known(11, 11, true), SecondState::Partial, "a too");
        heard.note('a', 15, 15, false);
        heard.note('b', 15, 15, false);
        assert_eq!((heard.known(11, 15, true), heard.known(12, 15, false)), (SecondState::Whole, SecondState::Whole));
    }

    #[test]
    fn who_falls_silent_is_waited_for_twice_its_interval() {
        let mut heard = StreamSeries::default();
        for second in 1..=5 {
            heard.note('a', second, second, false);
            heard.note('b', 5 * second, 5 * second, false);
        }
        // b was heard of at 25 last, and comes each 5 s.
        heard.note('a', 37, 37, false);
        assert_eq!((heard.known(37, 37, true), heard.known(37, 38, true)), (SecondState::Partial, SecondState::Whole));
        heard.forget(25 + 2 * PATIENCE_SECONDS);
        assert_eq!(heard.series.len(), 2);
        heard.forget(26 + 2 * PATIENCE_SECONDS);
        assert_eq!(heard.series.len(), 1);
    }

    #[test]
    fn cells_wider_than_a_second_say_nothing_of_the_seconds_within() {
        let mut heard = StreamSeries::default();
        heard.note('a', 10, 10, true);
        heard.note('a', 20, 20, true);
        assert_eq!((heard.known(15, 20, false), heard.known(20, 20, true)), (SecondState::Unknown, SecondState::Whole));
    }
}
