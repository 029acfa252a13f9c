//! The texts of one series in the head: two runs of parts, one of what came in order and one of what came late.
//!
//! Invariants: every text is kept. Rows ascend by time over all parts of the ordered run, and within each late part;
//! those of one time are in any order until they are read. A part is packed when the next text of its run does not fit
//! into it, and never changed after that. So at most two parts of a series are rows, however late texts come and in
//! whatever order, and each text is compressed once.
//! Limits: a part has [`Pack::PART_SAMPLES`] texts of [`PART_BYTES_MAX`] together, or one. Whoever reads looks at the
//! times of each late part.

use std::cmp::Ordering;
use std::sync::Arc;

use ogive_model::TimeRange;
use ogive_model::wire::TEXT_SAMPLE_BYTES_MAX;

use crate::ingest::column::{Pack, Part, bytes_of, difference, holds, insert_row, within, within_rows};
use crate::ingest::pack::TEXT_BYTES_MAX;

/// 256 KiB: 128 lines of 2 KiB, which take a sender a millisecond to compress.
const PART_BYTES_MAX: usize = 256 << 10;
// Every part can be packed.
const _: () = assert!(PART_BYTES_MAX <= TEXT_BYTES_MAX);
const _: () = assert!(TEXT_SAMPLE_BYTES_MAX <= TEXT_BYTES_MAX);

/// Parts, of which one is open.
#[derive(Debug, Default)]
struct Run {
    /// A vector and not a slice: there are fewer series of texts than of numbers, and parts are more.
    sealed: Vec<Arc<Part<String>>>,
    /// Ascending by time.
    open: Vec<(i64, String)>,
    /// Of the open texts.
    open_bytes: usize,
}

impl Run {
    /// Seals the open part if a text of `length` bytes does not fit into it. Gives by how many bytes the run's
    /// allocations grew.
    fn make_room(&mut self, length: usize) -> i64 {
        let is_full = self.open.len() >= String::PART_SAMPLES || self.open_bytes + length > PART_BYTES_MAX;
        if self.open.is_empty() || !is_full {
            return 0;
        }
        debug_assert_eq!(
            self.open.iter().map(|row| row.1.len()).sum::<usize>(),
            self.open_bytes,
            "the limit of a part is for the bytes of all its texts"
        );
        let before = self.loose_bytes();
        self.open_bytes = 0;
        let part = Part::Rows(std::mem::take(&mut self.open)).packed();
        let sealed = part.bytes();
        self.sealed.push(Arc::new(part));
        difference(before, self.loose_bytes() + sealed)
    }

    /// Puts a text into the open part. Gives by how many bytes that grew.
    fn insert(&mut self, time: i64, text: String) -> i64 {
        self.open_bytes += text.len();
        let grown = insert_row(&mut self.open, time, text, |_, _| Ordering::Less, |_, _| ());
        debug_assert!(self.open.len() <= String::PART_SAMPLES, "an open part of {} texts", self.open.len());
        grown
    }

    /// Bytes allocated beside sealed parts: for the open one, and for the places of more.
    fn loose_bytes(&self) -> usize {
        let places = self.sealed.capacity() - self.sealed.len();
        places * size_of::<Arc<Part<String>>>() + bytes_of(&self.open)
    }
}

/// The texts of one series.
#[derive(Debug, Default)]
pub(crate) struct TextRuns {
    ordered: Run,
    /// Of each text of it, the ordered run had a later one in a sealed part.
    late: Run,
}

impl TextRuns {
    /// Time of the newest text.
    pub(crate) fn last(&self) -> Option<i64> {
        let sealed = || self.ordered.sealed.last().map(|part| part.last());
        self.ordered.open.last().map(|row| row.0).or_else(sealed)
    }

    /// Adds a text. Gives by how many bytes the allocations grew.
    pub(crate) fn insert(&mut self, time: i64, text: String) -> i64 {
        let mut grown = if self.last().is_none() { size_of::<Self>() as i64 } else { 0 };
        if !self.is_late(time) {
            // The part that is sealed now may hold later ones.
            grown += self.ordered.make_room(text.len());
        }
        let run = if self.is_late(time) { &mut self.late } else { &mut self.ordered };
        grown += run.make_room(text.len());
        grown + run.insert(time, text)
    }

    /// Whether a text of this time would be behind a later one that is sealed.
    fn is_late(&self, time: i64) -> bool {
        self.ordered.sealed.last().is_some_and(|part| time < part.last())
    }

    /// All texts so far, as shared parts in any order; there are none then.
    pub(crate) fn take(&mut self) -> Box<[Arc<Part<String>>]> {
        let Self { ordered, late } = std::mem::take(self);
        let mut parts = Vec::with_capacity(ordered.sealed.len() + late.sealed.len() + 2);
        for Run { sealed, open, .. } in [ordered, late] {
            parts.extend(sealed);
            if !open.is_empty() {
                // As rows: what is made of them next is a block.
                parts.push(Arc::new(Part::Rows(open)));
            }
        }
        parts.into()
    }

    /// The parts with texts inside `range`, in any order. Only the open ones are copied.
    pub(crate) fn read(&self, range: TimeRange) -> Box<[Arc<Part<String>>]> {
        let mut parts = within(&self.ordered.sealed, range);
        parts.extend(among(&self.late.sealed, range).cloned());
        for run in [&self.ordered, &self.late] {
            let rows = within_rows(&run.open, range);
            if !rows.is_empty() {
                parts.push(Arc::new(Part::Rows(rows.to_vec())));
            }
        }
        parts.into()
    }

    /// Whether [`TextRuns::read`] finds anything.
    pub(crate) fn holds(&self, range: TimeRange) -> bool {
        let is_open = |run: &Run| !within_rows(&run.open, range).is_empty();
        is_open(&self.ordered)
            || is_open(&self.late)
            || holds(&self.ordered.sealed, range)
            || among(&self.late.sealed, range).next().is_some()
    }

    /// Bytes of what is not packed.
    #[cfg(test)]
    fn rows_bytes(&self) -> usize {
        let parts = self.ordered.sealed.iter().chain(&self.late.sealed);
        let rows = parts.filter(|part| matches!(***part, Part::Rows(_)));
        rows.map(|part| part.bytes()).sum::<usize>() + bytes_of(&self.ordered.open) + bytes_of(&self.late.open)
    }

    /// Bytes allocated.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let parts = self.ordered.sealed.iter().chain(&self.late.sealed);
        let itself = if self.last().is_none() { 0 } else { size_of::<Self>() };
        itself + parts.map(|part| part.bytes()).sum::<usize>() + self.ordered.loose_bytes() + self.late.loose_bytes()
    }
}

/// Those of `parts` with texts inside `range`; they may overlap and be in any order.
pub(crate) fn among(parts: &[Arc<Part<String>>], range: TimeRange) -> impl Iterator<Item = &Arc<Part<String>>> {
    parts.iter().filter(move |part| {
        let meets = part.last() > range.start.0 && part.first() <= range.end.0;
        meets && part.is_in(range)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PART_SAMPLES: usize = String::PART_SAMPLES;
    /// What two open parts of lines as [`line`] makes them take at most: each has its text, its row and room for as
    /// many.
    const OPEN_BYTES_MAX: usize = 2 * PART_SAMPLES * (2 * size_of::<(i64, String)>() + 100);

    /// All texts inside `range`, as they are read: ascending.
    fn rows(parts: &[Arc<Part<String>>], range: TimeRange) -> Vec<(i64, String)> {
        let mut rows: Vec<_> = parts.iter().flat_map(|part| part.rows(range).into_owned()).collect();
        rows.sort_unstable();
        rows
    }

    fn line(at: i64) -> String {
        let (user, took, wrote) = (at * 7919 % 100_003, at % 977, at * 31 % 4096);
        format!("request {at} of user {user} took {took} ms and wrote {wrote} bytes to shard {}", at % 64)
    }

    fn sealed(runs: &TextRuns) -> usize {
        runs.ordered.sealed.len() + runs.late.sealed.len()
    }

    /// In order with some that are late, in rounds that go back, or at random: some times are met by very many.
    fn any_times() -> impl Strategy<Value = Vec<i64>> {
        let late = prop_oneof![12 => Just(0), 2 => 0..10_i64, 1 => 0..500_i64];
        let ordered = prop::collection::vec(late, 0..900)
            .prop_map(|late| (0_i64..).zip(late).map(|(at, late)| at / 2 - late).collect::<Vec<i64>>());
        let rounds =
            (0..900_i64, 1..300_i64).prop_map(|(count, of)| (0..count).map(|at| at % of).collect::<Vec<i64>>());
        prop_oneof![ordered, rounds, prop::collection::vec(0..300_i64, 0..900), prop::collection::vec(0..3_i64, 0..900)]
    }

    fn any_text() -> impl Strategy<Value = String> {
        let long = (20..60_usize).prop_map(|kib| "x".repeat(kib << 10));
        prop_oneof![
            30 => "[a-zé\0]{0,9}",
            30 => "GET /v1/[0-9]{3} took [0-9]{2} ms",
            1 => long,
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        /// Against a list that is sorted, with readers that hold parts meanwhile.
        #[test]
        fn runs_are_a_sorted_list(
            times in any_times(),
            texts in prop::collection::vec(any_text(), 900),
            bounds in (-300..500_i64, -300..500_i64),
        ) {
            let mut runs = TextRuns::default();
            let (mut bytes, mut held) = (0, Vec::new());
            let mut model: Vec<(i64, String)> = Vec::new();
            for (at, (time, text)) in times.iter().zip(&texts).enumerate() {
                if at % 97 == 0 {
                    let seen = runs.read(TimeRange::ALL);
                    held.push((rows(&seen, TimeRange::ALL), seen));
                }
                bytes += runs.insert(*time, text.clone());
                model.push((*time, text.clone()));
                prop_assert!(runs.ordered.open_bytes <= PART_BYTES_MAX && runs.late.open_bytes <= PART_BYTES_MAX);
            }
            prop_assert_eq!(bytes, runs.bytes() as i64, "what grew is what is there");
            prop_assert_eq!(runs.last(), times.iter().max().copied());
            model.sort_unstable();
            let range = TimeRange::from_ms(bounds.0, bounds.1);
            let inside: Vec<_> = model.iter().filter(|row| range.contains_ms(row.0)).cloned().collect();
            prop_assert_eq!(runs.holds(range), !inside.is_empty());
            prop_assert_eq!(runs.read(range).is_empty(), inside.is_empty());
            prop_assert_eq!(rows(&runs.read(range), range), inside);
            for (then, parts) in held {
                prop_assert_eq!(rows(&parts, TimeRange::ALL), then, "what a reader holds does not change");
            }
            let parts = runs.take();
            prop_assert_eq!(among(&parts, range).next().is_some(), model.iter().any(|row| range.contains_ms(row.0)));
            prop_assert_eq!(rows(&parts, TimeRange::ALL), model);
            prop_assert!(runs.read(TimeRange::ALL).is_empty() && runs.bytes() == 0);
        }
    }

    #[test]
    fn lines_take_a_third_of_their_bytes() {
        let mut runs = TextRuns::default();
        let mut length = 0;
        for at in 0..10_000_i64 {
            let text = line(at);
            length += text.len();
            runs.insert(at / 3, text);
        }
        assert_eq!((runs.ordered.sealed.len(), sealed(&runs)), (10_000 / PART_SAMPLES, 10_000 / PART_SAMPLES));
        assert!(runs.bytes() * 3 < length, "{} bytes of {length}", runs.bytes());
    }

    /// Ten rounds of lines, each of which went back in time, took 5 to 14 times the memory of one: a late line
    /// decompressed its part, which stayed so when it was divided. Now a late line goes into a part of late lines, and
    /// no part is changed.
    #[test]
    fn rounds_that_go_back_leave_two_parts_uncompressed() {
        let mut runs = TextRuns::default();
        let mut length = 0;
        for round in 1..=10_i64 {
            for at in 0..10_000_i64 {
                let text = line(round * 10_000 + at);
                length += text.len();
                runs.insert(at / 3, text);
                if at % 19 == 0 {
                    let rows = runs.rows_bytes();
                    assert!(rows <= OPEN_BYTES_MAX, "{rows} bytes are not compressed in round {round} at line {at}");
                }
            }
            assert!(runs.bytes() * 2 < length, "{} bytes of {length} after round {round}", runs.bytes());
        }
        assert!(runs.bytes() * 3 < length, "{} bytes of {length}", runs.bytes());
    }

    /// Each part is compressed once, whatever the lines' times: all sealed ones are full.
    #[test]
    fn senders_of_old_times_do_not_compress_a_part_twice() {
        let mut runs = TextRuns::default();
        (0..10_000).for_each(|at| {
            runs.insert(at, line(at));
        });
        // Two old times in turn, one before the other, times at a part's ends, and all over.
        let times = (0..2000_i64).map(|at| [100, 9_000][(at % 2) as usize]).chain((0..2000).rev());
        let ends = (0..2000_i64).map(|at| at % 78 * 128 + 127 * (at % 2));
        let all = times.chain(ends).chain((0..2000).map(|at| at * 7919 % 10_000));
        let count = all.fold(10_000_usize, |count, time| {
            runs.insert(time, line(time));
            assert!(runs.rows_bytes() <= OPEN_BYTES_MAX);
            count + 1
        });
        let open = runs.ordered.open.len() + runs.late.open.len();
        assert_eq!(sealed(&runs) * PART_SAMPLES + open, count);
    }

    #[test]
    fn a_part_of_long_texts_is_sealed_before_it_is_full_of_them() {
        let mut runs = TextRuns::default();
        (0..4).for_each(|time| {
            runs.insert(time, "x".repeat(PART_BYTES_MAX / 4));
        });
        assert_eq!((runs.ordered.sealed.len(), runs.ordered.open_bytes), (0, PART_BYTES_MAX), "at the limit");
        runs.insert(4, "x".into());
        assert_eq!((runs.ordered.sealed.len(), runs.ordered.open_bytes), (1, 1), "one byte more");
        // The part that a long one seals ends behind it.
        runs.insert(9, "y".into());
        runs.insert(5, "x".repeat(PART_BYTES_MAX));
        assert_eq!((runs.ordered.sealed.len(), runs.ordered.open.len(), runs.late.open.len()), (2, 0, 1));
        runs.insert(1, "x".repeat(TEXT_SAMPLE_BYTES_MAX));
        runs.insert(2, String::new());
        assert_eq!((runs.late.sealed.len(), runs.late.open.len()), (2, 1));
        let mut parts = runs.ordered.sealed.iter().chain(&runs.late.sealed);
        assert!(parts.all(|part| matches!(**part, Part::Packed(_))), "also one of the longest text");
        assert_eq!(rows(&runs.read(TimeRange::ALL), TimeRange::ALL).len(), 9);
    }
}
