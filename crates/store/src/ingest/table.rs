//! Identities to numbers: an open-addressing table that holds only the numbers. The identity of a number is stored with
//! the rest of its data, which a hit reads anyway: 8 bytes a series where a map of both took 60.
//!
//! Invariants: a number is in the first free slot after its own, or before it; at most three quarters of the slots are
//! filled.
//! Threads: its owner's.
//! Failure: none; it grows when it must.

use std::hash::{BuildHasher, RandomState};

use ogive_model::SeriesId;

/// A place without a number.
const EMPTY: u32 = u32::MAX;
/// 1,024 places to begin with: 4 KiB.
const PLACES_MIN: usize = 1024;
// Numbers of places are masks.
const _: () = assert!(PLACES_MIN.is_power_of_two());

/// See the module.
pub(super) struct Table {
    places: Vec<u32>,
    count: usize,
    /// Identities are hashes already, but senders choose them: multiplied with a number that nobody outside knows,
    /// those made to collide in one table do not in another.
    factor: u64,
}

impl Default for Table {
    fn default() -> Self {
        Self { places: vec![EMPTY; PLACES_MIN], count: 0, factor: RandomState::new().hash_one(0_u8) | 1 }
    }
}

impl Table {
    /// A table with room for `count`.
    pub(super) fn with_room(count: usize) -> Self {
        let places = (count / 3 * 4 + 4).next_power_of_two().max(PLACES_MIN);
        Self { places: vec![EMPTY; places], ..Self::default() }
    }

    /// Numbers in the table.
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    const fn home(&self, id: [u64; 2]) -> usize {
        let product = (id[0] ^ id[1]) as u128 * self.factor as u128;
        (product ^ (product >> 64)) as usize & (self.places.len() - 1)
    }

    const fn next(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// The number of `id`; `id_of` returns that of a number.
    pub(super) fn find(&self, id: [u64; 2], id_of: impl Fn(u32) -> [u64; 2]) -> Option<u32> {
        debug_assert!(self.count < self.places.len(), "{} numbers in {} places", self.count, self.places.len());
        let mut place = self.home(id);
        loop {
            let number = self.places[place];
            if number == EMPTY {
                return None;
            }
            if id_of(number) == id {
                return Some(number);
            }
            place = self.next(place);
        }
    }

    /// Puts the number of an `id` that is not there.
    pub(super) fn insert(&mut self, id: [u64; 2], number: u32, id_of: impl Fn(u32) -> [u64; 2]) {
        assert!(number != EMPTY, "the last number of 32 bits means none");
        debug_assert!(self.find(id, &id_of).is_none(), "an identity has one number");
        if self.count >= self.places.len() / 4 * 3 {
            let old = std::mem::take(&mut self.places);
            self.places = vec![EMPTY; old.len() * 2];
            old.into_iter().filter(|number| *number != EMPTY).for_each(|number| self.put(id_of(number), number));
        }
        assert!(self.count < self.places.len() / 4 * 3, "{} of {} places are filled", self.count, self.places.len());
        self.put(id, number);
        self.count += 1;
    }

    fn put(&mut self, id: [u64; 2], number: u32) {
        let mut place = self.home(id);
        while self.places[place] != EMPTY {
            place = self.next(place);
        }
        self.places[place] = number;
    }

    /// Takes away the number of `id`, which is there.
    pub(super) fn remove(&mut self, id: [u64; 2], number: u32, id_of: impl Fn(u32) -> [u64; 2]) {
        let mut hole = self.home(id);
        while self.places[hole] != number {
            assert!(self.places[hole] != EMPTY, "what is removed is there");
            hole = self.next(hole);
        }
        self.count -= 1;
        let mut place = hole;
        loop {
            self.places[hole] = EMPTY;
            // The next one that may stand at the hole: its home is not behind the hole on the way to it.
            let moved = loop {
                place = self.next(place);
                let number = self.places[place];
                if number == EMPTY {
                    return;
                }
                let (mask, home) = (self.places.len() - 1, self.home(id_of(number)));
                if place.wrapping_sub(home) & mask >= place.wrapping_sub(hole) & mask {
                    break number;
                }
            };
            self.places[hole] = moved;
            hole = place;
        }
    }
}

/// An identity as tables have it.
pub(super) const fn halves(id: SeriesId) -> [u64; 2] {
    [id.0 as u64, (id.0 >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a map; few identities, so that many stand behind their places: shifted by 12 and a little factor,
        /// all of them belong in one.
        #[test]
        fn it_is_a_map(
            steps in prop::collection::vec((0..3000_u64, any::<bool>()), 0..4000),
            shift in 0..=12_u32,
            factor in 0..50_u64,
        ) {
            let mut table = Table { factor: factor * 2 + 1, ..Table::default() };
            let id = |number: u32| [u64::from(number) << shift, 7];
            let mut model: HashMap<u64, u32> = HashMap::new();
            for (key, add) in steps {
                let number = key as u32;
                match (add, model.contains_key(&key)) {
                    (true, false) => {
                        table.insert(id(number), number, id);
                        model.insert(key, number);
                    }
                    (false, true) => {
                        table.remove(id(number), number, id);
                        model.remove(&key);
                    }
                    _ => {}
                }
            }
            prop_assert_eq!(table.len(), model.len());
            for key in 0..3000 {
                prop_assert_eq!(table.find(id(key as u32), id), model.get(&key).copied());
            }
        }
    }
}
