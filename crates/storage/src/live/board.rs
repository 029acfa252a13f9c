//! The last minute of what is watched: for each watch and second the sum of the closed cells of its series.
//!
//! Invariants: a column that is given is the sum of every sample that counts of the watch's series in that second;
//! where that is not certain nothing is given, and the store is asked ([`Answer::Ask`]).
//! Threads: the shards' followers, the workers of the cells and the readers, under one lock that nobody holds for
//! longer than a merge.
//! Limits: [`SECONDS`] columns of each watch, [`COLUMN_BINS_MAX`] bins of each; the series of all watches together, see
//! [`super::Options`].

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ogive_hist::Histogram;
use ogive_model::{SeriesId, WallMs};
use tokio::sync::watch;

use super::Counts;
use super::heard::{SecondState, StreamSeries};

/// Two minutes: a sender that flushes once a minute is a minute late, and twice that when a flush is retried. A stream
/// that was slow, or was cut off, is caught up with to the same extent.
pub const SECONDS: i64 = 120;

/// 50,000 bins of a column, 12 bytes each: log-linear-10 has 46,082 in all, so only finer schemes have more. There are
/// [`SECONDS`] columns of each watch, and no stream shows a second with more.
pub const COLUMN_BINS_MAX: usize = 50_000;

/// Why the whole watch is answered from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnfitReason {
    /// A series is not a delta of whole counts: the increase in a second depends on the previous sample.
    Kind,
    /// More series than may be followed.
    Series,
}

/// What is known of a second.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Nothing happened, or this.
    Column(Option<Box<Histogram>>),
    /// It has not closed.
    Open,
    /// The store knows, permanently if the whole watch is unfit.
    Ask(Option<UnfitReason>),
}

#[derive(Debug)]
enum Column {
    Sum(Box<Histogram>),
    /// Some of its data is not here.
    Doubtful,
}

#[derive(Debug)]
struct WatchState {
    /// End of the first second that is complete here.
    from: i64,
    unfit: Option<UnfitReason>,
    columns: BTreeMap<i64, Column>,
    heard: StreamSeries<SeriesId>,
    /// The closed seconds that changed since a reader asked, by the number of the change.
    changes: BTreeMap<i64, u64>,
    changed: u64,
}

#[derive(Debug, Default)]
struct State {
    watches: HashMap<u64, WatchState>,
    /// The watches of each series.
    of: HashMap<SeriesId, Vec<u64>>,
    /// By worker, the end of the last second that it has emitted.
    reported: Vec<i64>,
    /// End of the last second whose end the shards were notified of.
    passed: i64,
}

/// See the module.
pub(crate) struct Board {
    state: Mutex<State>,
    series_max: usize,
    closed: watch::Sender<i64>,
    pub counts: Counts,
}

/// The end, in seconds, of the cell of an instant.
pub(crate) const fn second_of(time: WallMs) -> i64 {
    (time.0 - 1).div_euclid(1_000) + 1
}

impl Board {
    pub(crate) fn new(workers: usize, series_max: usize, counts: Counts) -> Self {
        let state = State { reported: vec![0; workers], ..State::default() };
        Self { state: Mutex::new(state), series_max, closed: watch::Sender::new(0), counts }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears of the last second that has closed.
    pub(crate) fn closed(&self) -> watch::Receiver<i64> {
        self.closed.subscribe()
    }

    /// Adds a watch, before the shards are notified; it begins with the first second that has not passed.
    pub(crate) fn add(&self, id: u64) {
        let mut state = self.state();
        let from = state.passed + 1;
        let watched = WatchState {
            from,
            unfit: None,
            columns: BTreeMap::new(),
            heard: StreamSeries::default(),
            changes: BTreeMap::new(),
            changed: 0,
        };
        state.watches.insert(id, watched);
    }

    /// Removes a watch that has no readers.
    pub(crate) fn remove(&self, id: u64) {
        let mut state = self.state();
        state.watches.remove(&id);
        state.forget(id);
        self.counts.series.set(state.of.len() as u64);
    }

    /// The shards are notified that a second has passed.
    pub(crate) fn pass(&self, second: i64) {
        let mut state = self.state();
        state.passed = state.passed.max(second);
    }

    /// A series belongs to a watch; its data up to `applied` is not here. Returns false if it is not to be followed.
    pub(crate) fn begin(&self, watch: u64, series: SeriesId, applied: WallMs, is_wide: bool) -> bool {
        let mut state = self.state();
        let State { watches, of, passed, .. } = &mut *state;
        let Some(watched) = watches.get_mut(&watch).filter(|watched| watched.unfit.is_none()) else { return false };
        if of.len() >= self.series_max && !of.contains_key(&series) {
            drop(state);
            self.unfit(watch, UnfitReason::Series);
            return false;
        }
        if applied > WallMs::MIN {
            watched.from = watched.from.max(second_of(applied) + 1);
            watched.heard.note(series, second_of(applied), *passed, is_wide);
        }
        if is_wide {
            watched.heard.note(series, i64::MIN, *passed, true);
        }
        let watches = of.entry(series).or_default();
        if !watches.contains(&watch) {
            watches.push(watch);
        }
        self.counts.series.set(of.len() as u64);
        true
    }

    /// Marks a watch as unfit: it is answered from the store.
    pub(crate) fn unfit(&self, watch: u64, why: UnfitReason) {
        let mut state = self.state();
        if let Some(watched) = state.watches.get_mut(&watch) {
            watched.unfit.get_or_insert(why);
            watched.columns.clear();
            state.forget(watch);
        }
        self.counts.series.set(state.of.len() as u64);
    }

    /// As [`Board::unfit`] for each watch of a series.
    pub(crate) fn unfit_series(&self, series: SeriesId, why: UnfitReason) {
        let watches = self.state().of.get(&series).cloned().unwrap_or_default();
        watches.into_iter().for_each(|watch| self.unfit(watch, why));
    }

    /// A sample of a series is in no cell, or may be there twice.
    pub(crate) fn doubt(&self, series: SeriesId, time: WallMs) {
        let second = second_of(time);
        self.counts.doubts.add(1);
        let mut state = self.state();
        let now = Seconds { passed: state.passed, closed: state.closed() };
        state.each(series, |watched| watched.hear(series, second, now));
        // Older ones are read from the store in any case.
        if second + SECONDS > state.closed() {
            state.each(series, |watched| _ = watched.columns.insert(second, Column::Doubtful));
        }
    }

    /// Samples were dropped: the data here, and that of the next `seconds`, is not certain.
    pub(crate) fn doubt_for(&self, seconds: i64) {
        let mut state = self.state();
        let from = state.passed + seconds;
        state.watches.values_mut().for_each(|watched| watched.from = watched.from.max(from));
    }

    /// A cell of a series closed, or a fragment of one arrived.
    pub(crate) fn cell(&self, series: SeriesId, second: i64, is_late: bool, part: Histogram) {
        self.counts.late.add(u64::from(is_late));
        let mut part = Some(part);
        let mut state = self.state();
        let now = Seconds { passed: state.passed, closed: state.closed() };
        state.each(series, |watched| watched.hear(series, second, now));
        if second + SECONDS <= state.closed() {
            return;
        }
        let mut last = state.of.get(&series).map_or(0, Vec::len);
        state.each(series, |watched| {
            last -= 1;
            let part = if last == 0 { part.take() } else { part.clone() };
            watched.add(second, part.expect("taken once, the last time"));
        });
    }

    /// A worker has emitted everything up to a second.
    pub(crate) fn reported(&self, worker: usize, second: i64) {
        let mut state = self.state();
        state.reported[worker] = state.reported[worker].max(second);
        let closed = state.closed();
        for watched in state.watches.values_mut() {
            watched.columns = watched.columns.split_off(&(closed - SECONDS + 1));
            watched.changes = watched.changes.split_off(&(closed - SECONDS + 1));
            watched.heard.forget(closed);
        }
        drop(state);
        self.closed.send_if_modified(|known| std::mem::replace(known, closed.max(*known)) < closed);
    }

    /// The first and last closed second that changed after the reader's `seen`-th change, and the number of the last
    /// change.
    pub(crate) fn changes(&self, watch: u64, seen: u64) -> (Option<(i64, i64)>, u64) {
        let state = self.state();
        let Some(watched) = state.watches.get(&watch) else { return (None, seen) };
        let mut seconds = watched.changes.iter().filter(|(_, change)| **change > seen).map(|(second, _)| *second);
        let first = seconds.next();
        (first.map(|first| (first, seconds.next_back().unwrap_or(first))), watched.changed)
    }

    /// The progress of the series of a watch.
    pub(crate) fn known(&self, watch: u64, second: i64, has_samples: bool) -> SecondState {
        let state = self.state();
        let watched = state.watches.get(&watch);
        watched.map_or(SecondState::Unknown, |watched| watched.heard.known(second, state.closed(), has_samples))
    }

    /// What is known of a second of a watch.
    pub(crate) fn answer(&self, watch: u64, second: i64) -> Answer {
        let state = self.state();
        let Some(watched) = state.watches.get(&watch) else { return Answer::Ask(None) };
        let closed = state.closed();
        if watched.unfit.is_some() || second < watched.from || second + SECONDS <= closed {
            return Answer::Ask(watched.unfit);
        }
        if second > closed {
            return Answer::Open;
        }
        match watched.columns.get(&second) {
            None => Answer::Column(None),
            Some(Column::Sum(sum)) => Answer::Column(Some(sum.clone())),
            Some(Column::Doubtful) => Answer::Ask(None),
        }
    }
}

impl State {
    /// End of the last second that every worker has emitted: columns are available for a minute before it.
    fn closed(&self) -> i64 {
        self.reported.iter().copied().min().unwrap_or(0)
    }

    fn each(&mut self, series: SeriesId, mut reported: impl FnMut(&mut WatchState)) {
        for watch in self.of.get(&series).into_iter().flatten() {
            reported(self.watches.get_mut(watch).expect("its series are forgotten with it"));
        }
    }

    fn forget(&mut self, watch: u64) {
        self.of.retain(|_, watches| {
            watches.retain(|other| *other != watch);
            !watches.is_empty()
        });
    }
}

/// The current time: the last second that passed, and the last whose cells closed.
#[derive(Clone, Copy)]
struct Seconds {
    passed: i64,
    closed: i64,
}

impl WatchState {
    /// A series has a sample in a second; if that is closed already, it changed.
    fn hear(&mut self, series: SeriesId, second: i64, now: Seconds) {
        self.heard.note(series, second, now.passed, false);
        if second <= now.closed {
            self.changed += 1;
            self.changes.insert(second, self.changed);
        }
    }

    fn add(&mut self, second: i64, part: Histogram) {
        use std::collections::btree_map::Entry;
        // Which of several unmergeable histograms are shown is decided by the store, and what is too large is refused
        // by it: so a second is shown or refused whichever of the two is asked.
        match self.columns.entry(second) {
            Entry::Vacant(place) => {
                let fits = bins_of(&part) <= COLUMN_BINS_MAX;
                place.insert(if fits { Column::Sum(Box::new(part)) } else { Column::Doubtful });
            }
            Entry::Occupied(mut place) => {
                let fits = match place.get_mut() {
                    Column::Sum(sum) => sum.merge(&part).is_ok() && bins_of(sum) <= COLUMN_BINS_MAX,
                    Column::Doubtful => true,
                };
                if !fits {
                    place.insert(Column::Doubtful);
                }
            }
        }
    }
}

fn bins_of(sum: &Histogram) -> usize {
    sum.negative.len() + sum.positive.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram_of(values: &[f64]) -> Histogram {
        let mut out = Histogram::log_linear();
        values.iter().for_each(|value| out.record(*value));
        out
    }

    fn board(series_max: usize) -> Board {
        let board = Board::new(2, series_max, Counts::default());
        board.pass(100);
        board.add(1);
        board
    }

    fn close(board: &Board, second: i64) {
        board.pass(second);
        board.reported(0, second);
        board.reported(1, second);
    }

    const A: SeriesId = SeriesId(7);
    const B: SeriesId = SeriesId(9);

    #[test]
    fn a_column_is_the_sum_of_the_cells_once_every_worker_told_its_own() {
        let board = board(10);
        assert!(board.begin(1, A, WallMs::MIN, false) && board.begin(1, B, WallMs::MIN, false));
        board.cell(A, 101, false, histogram_of(&[1.0]));
        board.reported(0, 101);
        assert_eq!(board.answer(1, 101), Answer::Open);
        board.cell(B, 101, false, histogram_of(&[2.0]));
        board.reported(1, 101);
        assert_eq!(board.answer(1, 101), Answer::Column(Some(Box::new(histogram_of(&[1.0, 2.0])))));
        assert_eq!(*board.closed().borrow(), 101);
        board.cell(A, 101, true, histogram_of(&[3.0]));
        assert_eq!(
            board.answer(1, 101),
            Answer::Column(Some(Box::new(histogram_of(&[1.0, 2.0, 3.0])))),
            "late, and merged"
        );
        assert_eq!(board.counts.late.get(), 1);
        close(&board, 102);
        assert_eq!(board.answer(1, 102), Answer::Column(None), "nothing happened");
        assert_eq!(board.answer(1, 100), Answer::Ask(None), "before the watch");
        close(&board, 101 + SECONDS);
        assert_eq!(board.answer(1, 101), Answer::Ask(None), "a minute ago");
    }

    /// A fragment came, or was lost, for a second that was a minute ago by the clock but not yet by the workers: it was
    /// left out, and the column was still given as certain.
    #[test]
    fn a_column_is_forgotten_when_it_is_not_given_any_more() {
        let board = board(10);
        assert!(board.begin(1, A, WallMs::MIN, false));
        board.cell(A, 101, false, histogram_of(&[1.0]));
        board.cell(A, 102, false, histogram_of(&[1.0]));
        close(&board, 101 + SECONDS - 1);
        board.pass(102 + SECONDS);
        board.cell(A, 101, true, histogram_of(&[2.0]));
        board.doubt(A, WallMs(102_000));
        assert_eq!(board.answer(1, 101), Answer::Column(Some(Box::new(histogram_of(&[1.0, 2.0])))));
        assert_eq!(board.answer(1, 102), Answer::Ask(None));
    }

    #[test]
    fn two_watches_share_a_cell_and_one_that_goes_takes_nothing_along() {
        let board = board(10);
        board.add(2);
        assert!(
            board.begin(1, A, WallMs::MIN, false)
                && board.begin(2, A, WallMs::MIN, false)
                && board.begin(2, B, WallMs::MIN, false)
        );
        board.cell(A, 101, false, histogram_of(&[1.0]));
        board.cell(B, 101, false, histogram_of(&[2.0]));
        close(&board, 101);
        assert_eq!(board.answer(1, 101), Answer::Column(Some(Box::new(histogram_of(&[1.0])))));
        assert_eq!(board.answer(2, 101), Answer::Column(Some(Box::new(histogram_of(&[1.0, 2.0])))));
        board.remove(2);
        assert_eq!(board.answer(2, 101), Answer::Ask(None));
        assert_eq!(
            (board.answer(1, 101), board.counts.series.get()),
            (Answer::Column(Some(Box::new(histogram_of(&[1.0])))), 1)
        );
        board.cell(B, 102, false, histogram_of(&[2.0]));
    }

    #[test]
    fn what_is_not_certain_is_asked_of_the_store() {
        let board = board(2);
        assert!(board.begin(1, A, WallMs(102_000), false), "samples up to 102 s, which are of the cell that ends then");
        for second in 101..=103 {
            board.cell(A, second, false, histogram_of(&[1.0]));
        }
        close(&board, 103);
        assert_eq!(board.answer(1, 102), Answer::Ask(None));
        assert_eq!(board.answer(1, 103), Answer::Column(Some(Box::new(histogram_of(&[1.0])))));
        board.doubt(A, WallMs(103_001));
        board.cell(A, 104, false, histogram_of(&[1.0]));
        board.cell(A, 105, false, histogram_of(&[1.0]));
        board.cell(A, 105, false, Histogram::new(ogive_hist::Scheme::Custom { bounds: [1.0].into() }));
        close(&board, 105);
        assert_eq!(board.answer(1, 104), Answer::Ask(None), "skipped, refused or perhaps counted already");
        assert_eq!(board.answer(1, 105), Answer::Ask(None), "bins that do not fit");
        board.doubt_for(3);
        close(&board, 108);
        assert_eq!((board.answer(1, 107), board.answer(1, 108)), (Answer::Ask(None), Answer::Column(None)));
    }

    #[test]
    fn a_column_with_too_many_bins_is_asked_of_the_store() {
        let board = board(2);
        assert!(board.begin(1, A, WallMs::MIN, false));
        let fine = |bins: std::ops::Range<usize>| {
            let mut out = Histogram::<u64>::new(ogive_hist::Scheme::Exp2 { scale: 20 });
            bins.for_each(|bin| out.record(((bin as f64 - 0.5) / f64::from(1 << 20)).exp2()));
            out
        };
        board.cell(A, 101, false, fine(1..COLUMN_BINS_MAX + 1));
        // One bin more, in two cells and in one.
        board.cell(A, 102, false, fine(1..COLUMN_BINS_MAX + 1));
        board.cell(A, 102, false, fine(COLUMN_BINS_MAX + 1..COLUMN_BINS_MAX + 2));
        board.cell(A, 103, false, fine(1..COLUMN_BINS_MAX + 2));
        close(&board, 103);
        let bins = |second| match board.answer(1, second) {
            Answer::Column(Some(sum)) => Some(bins_of(&sum)),
            Answer::Ask(None) => None,
            other => panic!("{other:?}"),
        };
        assert_eq!([101, 102, 103].map(bins), [Some(COLUMN_BINS_MAX), None, None]);
    }

    #[test]
    fn a_watch_beyond_the_limit_or_of_other_kinds_gives_its_series_back() {
        let board = board(2);
        board.add(2);
        assert!(
            board.begin(1, A, WallMs::MIN, false)
                && board.begin(2, A, WallMs::MIN, false)
                && board.begin(2, B, WallMs::MIN, false)
        );
        assert!(!board.begin(2, SeriesId(11), WallMs::MIN, false), "the third series");
        close(&board, 101);
        assert_eq!(board.answer(2, 101), Answer::Ask(Some(UnfitReason::Series)));
        assert_eq!((board.answer(1, 101), board.counts.series.get()), (Answer::Column(None), 1));
        assert!(!board.begin(2, B, WallMs::MIN, false), "it stays unfit");
        board.unfit_series(A, UnfitReason::Kind);
        assert_eq!((board.answer(1, 101), board.counts.series.get()), (Answer::Ask(Some(UnfitReason::Kind)), 0));
    }
}
