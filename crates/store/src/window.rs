//! Windows: the aligned stretches of time by which blocks are cut.
//!
//! Invariants: a window is left-open, as cells are: (start, start + length]; windows are aligned to the Unix epoch; a
//! longer window of a ladder holds whole shorter ones. So a cell that is no longer than the shortest window, and
//! divides it, lies entirely in one window.
//! Limits: [`STEPS`].

use ogive_model::TimeRange;

/// A stretch of time; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Window {
    /// Excluded, milliseconds.
    pub start_ms: i64,
    /// Milliseconds; 0 for a block from before there were windows, which may hold any time.
    pub length_ms: i64,
}

impl Window {
    /// What a block has that was not cut by windows.
    pub const NONE: Self = Self { start_ms: 0, length_ms: 0 };

    /// The window of `length_ms` that holds `time_ms`.
    #[must_use]
    pub fn of(time_ms: i64, length_ms: i64) -> Self {
        assert!(length_ms > 0, "a window of {length_ms} ms");
        let number = time_ms.saturating_sub(1).div_euclid(length_ms);
        let window = Self { start_ms: number.saturating_mul(length_ms), length_ms };
        // Every window excludes its start, so none holds the first instant of all.
        let is_first = time_ms == i64::MIN;
        debug_assert!(is_first || window.range().contains(time_ms), "{time_ms} is cut by {window:?}");
        window
    }

    /// Its last instant.
    #[must_use]
    pub const fn end_ms(&self) -> i64 {
        self.start_ms.saturating_add(self.length_ms)
    }

    /// Its times.
    #[must_use]
    pub const fn range(&self) -> TimeRange {
        if self.length_ms == 0 {
            return TimeRange::ALL;
        }
        TimeRange { start_ms: self.start_ms, end_ms: self.end_ms() }
    }

    /// Whether all of `other` is inside. A window without a length is inside none, and none is inside of it.
    #[must_use]
    pub const fn holds(&self, other: &Self) -> bool {
        self.length_ms > 0 && other.length_ms > 0 && self.start_ms <= other.start_ms && other.end_ms() <= self.end_ms()
    }

    /// Whether an instant is in both.
    #[must_use]
    pub const fn meets(&self, other: &Self) -> bool {
        let (a, b) = (self.range(), other.range());
        a.start_ms < b.end_ms && b.start_ms < a.end_ms
    }
}

/// How many times the shortest window each longer one is: 2 h, 8 h, a day, 4 days, 16 days. Each step is three or four of
/// the one before, so that a sample is written again at most once a step.
pub const STEPS: [i64; 5] = [1, 4, 12, 48, 192];
/// A series climbs at most this many steps: from 2 h to a day, which is 86,400 cells of 1 s in one block.
const CLIMB: usize = 2;
const _: () = assert!(STEPS[0] == 1 && CLIMB < STEPS.len());
// A longer window holds whole shorter ones.
const _: () = {
    let mut at = 1;
    while at < STEPS.len() {
        assert!(STEPS[at] > STEPS[at - 1] && STEPS[at] % STEPS[at - 1] == 0);
        at += 1;
    }
};
/// A block of a rollup has at least as many cells a series, or its index would be larger than they are.
const CELLS_MIN: i64 = 24;

/// The lengths of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// The shortest, milliseconds.
    base_ms: i64,
}

impl Ladder {
    /// A ladder from windows of `base_ms` on.
    ///
    /// # Panics
    /// When `base_ms` is not above zero.
    #[must_use]
    pub fn new(base_ms: i64) -> Self {
        assert!(base_ms > 0, "windows of {base_ms} ms");
        Self { base_ms }
    }

    /// The shortest window.
    #[must_use]
    pub const fn base_ms(&self) -> i64 {
        self.base_ms
    }

    /// The longest window of all.
    #[must_use]
    pub const fn longest_ms(&self) -> i64 {
        self.base_ms * STEPS[STEPS.len() - 1]
    }

    /// The lengths that blocks of cells of `resolution_ms` have (0: samples as they came), ascending.
    #[must_use]
    pub fn lengths(&self, resolution_ms: u32) -> Vec<i64> {
        let first = match i64::from(resolution_ms) {
            0 => 0,
            cell => {
                let fits = |step: &i64| self.base_ms * step >= cell * CELLS_MIN && (self.base_ms * step) % cell == 0;
                STEPS.iter().position(fits).unwrap_or(STEPS.len() - 1)
            }
        };
        STEPS[first..].iter().take(CLIMB + 1).map(|step| step * self.base_ms).collect()
    }

    /// The window of a sample at `time_ms` in a flush whose newest sample is at `newest_ms`. What is older than the
    /// third length goes into windows of that length: else data of a year that comes at once would make thousands of
    /// blocks, where now it makes one a day.
    #[must_use]
    pub fn of_flush(&self, time_ms: i64, newest_ms: i64) -> Window {
        let long = self.base_ms * STEPS[CLIMB];
        let newest = Window::of(newest_ms, long);
        let is_old = time_ms <= newest.start_ms.saturating_sub(long);
        Window::of(time_ms, if is_old { long } else { self.base_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn a_window_holds_its_end_and_not_its_start() {
        let window = |time| Window::of(time, 2 * HOUR).start_ms / HOUR;
        assert_eq!([window(1), window(2 * HOUR), window(2 * HOUR + 1), window(0)], [0, 0, 2, -2]);
        assert!(Window::of(i64::MIN, HOUR).start_ms < 0 && Window::of(i64::MAX, HOUR).end_ms() > 0);
    }

    #[test]
    fn each_resolution_has_its_lengths() {
        let ladder = Ladder::new(2 * HOUR);
        let hours = |resolution| ladder.lengths(resolution).iter().map(|length| length / HOUR).collect::<Vec<_>>();
        assert_eq!(hours(0), [2, 8, 24]);
        assert_eq!(hours(60_000), [2, 8, 24]);
        assert_eq!(hours(3_600_000), [24, 96, 384]);
        assert_eq!(hours(86_400_000), [384], "16 cells of a day are what there is");
    }

    proptest! {
        #[test]
        fn longer_windows_hold_shorter_ones_whole(time in -1_000_000_000_000..2_000_000_000_000_i64, newest in 0..2_000_000_000_000_i64) {
            let ladder = Ladder::new(2 * HOUR);
            let windows: Vec<Window> = STEPS.iter().map(|step| Window::of(time, step * 2 * HOUR)).collect();
            for pair in windows.windows(2) {
                prop_assert!(pair[1].holds(&pair[0]) && pair[1].meets(&pair[0]) && pair[0].range().contains(time));
                prop_assert!(!pair[0].holds(&pair[1]));
            }
            prop_assert!(ladder.of_flush(time, newest.max(time)).range().contains(time));
        }
    }

    #[test]
    fn old_samples_of_a_flush_go_by_the_day() {
        let (ladder, now) = (Ladder::new(2 * HOUR), 20_000 * 24 * HOUR + HOUR);
        assert_eq!(ladder.of_flush(now, now).length_ms, 2 * HOUR);
        assert_eq!(ladder.of_flush(now - 24 * HOUR, now).length_ms, 2 * HOUR);
        assert_eq!(ladder.of_flush(now - 26 * HOUR, now).length_ms, 24 * HOUR);
        assert!(!Window::NONE.holds(&ladder.of_flush(now, now)) && Window::NONE.meets(&ladder.of_flush(now, now)));
    }
}
