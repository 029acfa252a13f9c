//! The most frequent names, up to a limit; all others are `other`.
//!
//! Names are taken as they come until the limit is reached. Then a name that is not among them is counted in a sketch,
//! and takes the place of the least frequent one once it is more frequent than it. All counts are halved now and then,
//! so that what was frequent long ago gives way.
//!
//! Limits: as many names as were asked for, and a sketch of 32 KiB.

use std::collections::HashMap;

/// The name for all that are not among the most frequent.
pub const OTHER: &str = "other";

/// Counters of the sketch, in two rows: with 1,000 names kept, a rare name shares its counters with few others.
const SKETCH: usize = 4_096;

/// Exchanges after which all counts are halved.
const HALVED_AFTER: u32 = 1 << 20;

/// Keeps the most frequent names.
#[derive(Debug)]
pub struct Top {
    limit: usize,
    names: HashMap<String, u32>,
    sketch: Vec<u32>,
    /// A lower bound of the kept names' counts: refreshed when it decides.
    least: u32,
    until_halved: u32,
    folded: u64,
    replaced: u64,
}

impl Top {
    /// Keeps `limit` names, at least one.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            names: HashMap::new(),
            sketch: Vec::new(),
            least: 0,
            until_halved: HALVED_AFTER,
            folded: 0,
            replaced: 0,
        }
    }

    /// How many were counted as [`OTHER`].
    #[must_use]
    pub fn folded(&self) -> u64 {
        self.folded
    }

    /// How many names gave way to a more frequent one.
    #[must_use]
    pub fn replaced(&self) -> u64 {
        self.replaced
    }

    /// Counts `name`, and returns whether it is among the most frequent.
    pub fn keeps(&mut self, name: &str) -> bool {
        self.until_halved -= 1;
        if self.until_halved == 0 {
            self.halve();
        }
        if let Some(count) = self.names.get_mut(name) {
            *count = count.saturating_add(1);
            return true;
        }
        if self.names.len() < self.limit {
            self.names.insert(name.to_owned(), 1);
            return true;
        }
        let count = self.count(name);
        if count > self.least && self.replace(name, count) {
            return true;
        }
        self.folded += 1;
        false
    }

    /// Counts a name that is not kept, and returns an upper bound of its count.
    fn count(&mut self, name: &str) -> u32 {
        if self.sketch.is_empty() {
            self.sketch = vec![0; 2 * SKETCH];
        }
        let hash = twox_hash::XxHash3_64::oneshot(name.as_bytes());
        let place = |shift: u32, row: usize| row * SKETCH + usize::try_from(hash >> shift & 0xfff).expect("12 bits");
        let places = [place(0, 0), place(32, 1)];
        for place in places {
            self.sketch[place] = self.sketch[place].saturating_add(1);
        }
        self.sketch[places[0]].min(self.sketch[places[1]])
    }

    /// Replaces the least frequent name by `name`, if that is more frequent.
    fn replace(&mut self, name: &str, count: u32) -> bool {
        let Some((least, rarest)) = self.names.iter().map(|(name, count)| (*count, name)).min() else { return false };
        self.least = least;
        if count <= least {
            return false;
        }
        let rarest = rarest.clone();
        self.names.remove(&rarest);
        self.names.insert(name.to_owned(), count);
        self.replaced += 1;
        assert!(self.names.len() <= self.limit, "{} names of {}", self.names.len(), self.limit);
        true
    }

    fn halve(&mut self) {
        self.until_halved = HALVED_AFTER;
        self.names.values_mut().chain(&mut self.sketch).for_each(|count| *count /= 2);
        self.least /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_names_displace_rare_ones_that_came_first() {
        let mut top = Top::new(8);
        for number in 0..200 {
            top.keeps(&format!("rare {number}"));
        }
        assert_eq!(top.folded(), 192, "a name that came once displaces none");
        let mut kept = 0;
        for _ in 0..100 {
            for number in 0..8 {
                kept += u32::from(top.keeps(&format!("frequent {number}")));
            }
        }
        assert!(kept >= 8 * 95, "{kept} of 800");
        assert!((0..8).all(|number| top.names.contains_key(&format!("frequent {number}"))), "{:?}", top.names);
        assert_eq!(top.replaced(), 8);
    }

    #[test]
    fn a_flood_of_names_keeps_to_the_limit() {
        let mut top = Top::new(100);
        for number in 0..300_000 {
            top.keeps(&format!("{number}"));
            assert!(top.names.len() <= 100);
        }
        assert!(top.folded() > 250_000, "{}", top.folded());
    }

    #[test]
    fn what_was_frequent_long_ago_gives_way() {
        let mut top = Top::new(1);
        for _ in 0..1_000 {
            top.keeps("old");
        }
        for _ in 0..20 {
            top.halve();
        }
        assert!(!top.keeps("new") || top.replaced() == 1);
        assert!(top.keeps("new"));
    }
}
