//! Which groups have series of their own: a bounded number, since a store keeps every name that ever had one.
//!
//! Invariants: at most [`Places::new`]'s number of groups have a place at a time, and at most as many get a new one
//! within an hour; the rest are `other`. A group keeps its place until it ends. Time is an argument.
//! Limits: only groups that live are remembered.

use std::collections::HashMap;

/// An hour, in which all places can be given anew.
const RENEWAL_NS: u64 = 3_600_000_000_000;

/// The places.
#[derive(Debug)]
pub struct Places {
    places: u32,
    settle_ns: u64,
    /// When each group was seen first, and whether it has a place.
    known: HashMap<u64, PlaceState>,
    taken: u32,
    /// What can be given now, in nanoseconds of [`RENEWAL_NS`]: a place costs its share of it.
    credit_ns: u64,
    turn_ns: u64,
    turn: u64,
}

#[derive(Debug)]
struct PlaceState {
    since_ns: u64,
    turn: u64,
    has_place: bool,
}

impl Places {
    /// So many places, for groups that were there for `settle_ns`.
    #[must_use]
    pub fn new(places: u32, settle_ns: u64) -> Self {
        Self { places, settle_ns, known: HashMap::new(), taken: 0, credit_ns: RENEWAL_NS, turn_ns: 0, turn: 0 }
    }

    /// Groups that are there and have no place.
    #[must_use]
    pub fn without_place(&self) -> usize {
        self.known.len() - self.taken as usize
    }

    /// Begins a turn at `now_ns`.
    pub fn begin(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.turn_ns);
        self.credit_ns = self.credit_ns.saturating_add(passed).min(RENEWAL_NS);
        self.turn_ns = now_ns;
        self.turn += 1;
    }

    /// Whether a group that was seen in this turn has a place.
    pub fn has_place(&mut self, group: u64) -> bool {
        let Self { places, settle_ns, taken, turn, turn_ns, .. } = *self;
        let known = self.known.entry(group).or_insert(PlaceState { since_ns: turn_ns, turn, has_place: false });
        known.turn = turn;
        if known.has_place {
            return true;
        }
        if turn_ns - known.since_ns < settle_ns {
            return false;
        }
        let price = RENEWAL_NS / u64::from(places.max(1));
        known.has_place = taken < places && self.credit_ns >= price;
        if known.has_place {
            self.taken += 1;
            self.credit_ns -= price;
        }
        known.has_place
    }

    /// Ends a turn: the groups that had a place and are gone. `lives` is called with those that were not seen in this
    /// turn: they may have done nothing.
    pub fn end(&mut self, lives: impl Fn(u64) -> bool) -> Vec<u64> {
        let turn = self.turn;
        let mut ended = Vec::new();
        self.known.retain(|group, known| {
            let is_there = known.turn == turn || lives(*group);
            if !is_there && known.has_place {
                ended.push(*group);
            }
            is_there
        });
        self.taken -= u32::try_from(ended.len()).expect("no more than there are places");
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_group_has_a_place_once_it_settled_and_until_it_ends() {
        let mut places = Places::new(2, 10 * SECOND);
        places.begin(SECOND);
        assert!(!places.has_place(7));
        assert!(places.end(|_| false).is_empty());
        places.begin(11 * SECOND - 1);
        assert!(!places.has_place(7));
        assert!(places.end(|_| false).is_empty());
        places.begin(11 * SECOND);
        assert!(places.has_place(7) && places.has_place(7));
        assert!(places.end(|_| false).is_empty());
        places.begin(12 * SECOND);
        assert!(places.end(|group| group == 7).is_empty(), "it lives and does nothing");
        assert_eq!(places.end(|_| false), [7]);
        places.begin(13 * SECOND);
        assert!(!places.has_place(7), "its number was given to another");
    }

    #[test]
    fn no_more_groups_than_places_and_none_anew_beyond_as_many_an_hour() {
        let mut places = Places::new(2, 0);
        places.begin(0);
        assert_eq!([1, 2, 3].map(|group| places.has_place(group)), [true, true, false]);
        assert_eq!(places.without_place(), 1);
        places.end(|_| false);
        // Processes that come and go: of a thousand, those of one hour.
        let mut given = 0;
        for second in 1..=1000_u64 {
            places.begin(second * SECOND);
            given += u32::from(places.has_place(100 + second));
            places.end(|_| false);
        }
        assert_eq!(given, 0, "1,000 s pay for none of two an hour");
        let mut given = 0;
        for minute in 100..=220_u64 {
            places.begin(minute * 60 * SECOND);
            given += u32::from(places.has_place(10_000 + minute));
            places.end(|_| false);
        }
        assert!((4..=6).contains(&given), "two hours and a saved one: {given}");
    }
}
