//! Windows: the aligned stretches of time by which blocks are cut.
//!
//! Invariants: a window is left-open, as cells are: (start, start + length]; windows are aligned to the Unix epoch; a
//! longer window of a ladder holds whole shorter ones. So a cell that is no longer than the shortest window, and
//! divides it, lies entirely in one window.
//! Limits: [`STEPS`].

use ogive_model::{Ms, TimeRange, WallMs};

/// A stretch of time; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Window {
    /// Excluded.
    pub start: WallMs,
    /// 0 for a block from before there were windows, which may hold any time.
    pub length: Ms,
}

impl Window {
    /// What a block has that was not cut by windows.
    pub const NONE: Self = Self { start: WallMs(0), length: Ms::ZERO };

    /// The window of `length` that holds `time`.
    #[must_use]
    pub fn containing(time: WallMs, length: Ms) -> Self {
        assert!(length > Ms::ZERO, "a window of {length}");
        let window = Self { start: time.saturating_sub(Ms(1)).align_down(length), length };
        // Every window excludes its start, so none holds the first instant of all.
        let is_first = time == WallMs::MIN;
        debug_assert!(is_first || window.range().contains(time), "{time} is cut by {window:?}");
        window
    }

    /// Its last instant.
    #[must_use]
    pub const fn end(&self) -> WallMs {
        self.start.saturating_add(self.length)
    }

    /// Whether it is cut, unlike that of a block from before there were windows.
    #[must_use]
    pub const fn has_length(&self) -> bool {
        self.length.0 > 0
    }

    /// Its times.
    #[must_use]
    pub const fn range(&self) -> TimeRange {
        if !self.has_length() {
            return TimeRange::ALL;
        }
        TimeRange { start: self.start, end: self.end() }
    }

    /// Whether all of `other` is inside. A window without a length is inside none, and none is inside of it.
    #[must_use]
    pub const fn holds(&self, other: &Self) -> bool {
        self.has_length() && other.has_length() && self.start.0 <= other.start.0 && other.end().0 <= self.end().0
    }

    /// Whether an instant is in both.
    #[must_use]
    pub const fn meets(&self, other: &Self) -> bool {
        let (a, b) = (self.range(), other.range());
        a.start.0 < b.end.0 && b.start.0 < a.end.0
    }
}

/// How many times the shortest window each longer one is: 2 h, 8 h, a day, 4 days, 16 days. Each step is three or four
/// of the one before, so that a sample is written again at most once a step.
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
    /// The shortest.
    base: Ms,
}

impl Ladder {
    /// A ladder from windows of `base` on.
    ///
    /// # Panics
    /// When `base` is not above zero.
    #[must_use]
    pub fn new(base: Ms) -> Self {
        assert!(base > Ms::ZERO, "windows of {base}");
        Self { base }
    }

    /// The shortest window.
    #[must_use]
    pub const fn base(&self) -> Ms {
        self.base
    }

    /// The longest window of all.
    #[must_use]
    pub fn longest(&self) -> Ms {
        self.base * STEPS[STEPS.len() - 1]
    }

    /// The lengths that blocks of cells of `resolution_ms` have (0: samples as they came), ascending.
    #[must_use]
    pub fn lengths(&self, resolution_ms: u32) -> Vec<Ms> {
        let first = match Ms::from(resolution_ms) {
            Ms::ZERO => 0,
            cell => {
                let fits = |step: &i64| self.base * *step >= cell * CELLS_MIN && (self.base * *step) % cell == Ms::ZERO;
                STEPS.iter().position(fits).unwrap_or(STEPS.len() - 1)
            }
        };
        STEPS[first..].iter().take(CLIMB + 1).map(|step| self.base * *step).collect()
    }

    /// The window of a sample at `time` in a flush whose newest sample is at `newest`. What is older than the
    /// third length goes into windows of that length: else data of a year that comes at once would make thousands of
    /// blocks, where now it makes one a day.
    #[must_use]
    pub fn for_flush(&self, time: WallMs, newest: WallMs) -> Window {
        let long = self.base * STEPS[CLIMB];
        let newest = Window::containing(newest, long);
        let is_old = time <= newest.start.saturating_sub(long);
        Window::containing(time, if is_old { long } else { self.base })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn a_window_holds_its_end_and_not_its_start() {
        let window = |time| Window::containing(time, Ms(2 * HOUR)).start.0 / HOUR;
        assert_eq!(
            [window(WallMs(1)), window(WallMs(2 * HOUR)), window(WallMs(2 * HOUR + 1)), window(WallMs(0))],
            [0, 0, 2, -2]
        );
        assert!(
            Window::containing(WallMs(i64::MIN), Ms(HOUR)).start < WallMs(0)
                && Window::containing(WallMs(i64::MAX), Ms(HOUR)).end() > WallMs(0)
        );
    }

    #[test]
    fn each_resolution_has_its_lengths() {
        let ladder = Ladder::new(Ms(2 * HOUR));
        let hours = |resolution| ladder.lengths(resolution).iter().map(|length| length.0 / HOUR).collect::<Vec<_>>();
        assert_eq!(hours(0), [2, 8, 24]);
        assert_eq!(hours(60_000), [2, 8, 24]);
        assert_eq!(hours(3_600_000), [24, 96, 384]);
        assert_eq!(hours(86_400_000), [384], "16 cells of a day are what there is");
    }

    proptest! {
        #[test]
        fn longer_windows_hold_shorter_ones_whole(time in -1_000_000_000_000..2_000_000_000_000_i64, newest in 0..2_000_000_000_000_i64) {
            let ladder = Ladder::new(Ms(2 * HOUR));
            let windows: Vec<Window> = STEPS.iter().map(|step| Window::containing(WallMs(time), Ms(step * 2 * HOUR))).collect();
            for pair in windows.windows(2) {
                prop_assert!(pair[1].holds(&pair[0]) && pair[1].meets(&pair[0]) && pair[0].range().contains(WallMs(time)));
                prop_assert!(!pair[0].holds(&pair[1]));
            }
            prop_assert!(ladder.for_flush(WallMs(time), WallMs(newest.max(time))).range().contains(WallMs(time)));
        }
    }

    #[test]
    fn old_samples_of_a_flush_go_by_the_day() {
        let (ladder, now) = (Ladder::new(Ms(2 * HOUR)), 20_000 * 24 * HOUR + HOUR);
        assert_eq!(ladder.for_flush(WallMs(now), WallMs(now)).length, Ms(2 * HOUR));
        assert_eq!(ladder.for_flush(WallMs(now - 24 * HOUR), WallMs(now)).length, Ms(2 * HOUR));
        assert_eq!(ladder.for_flush(WallMs(now - 26 * HOUR), WallMs(now)).length, Ms(24 * HOUR));
        assert!(
            !Window::NONE.holds(&ladder.for_flush(WallMs(now), WallMs(now)))
                && Window::NONE.meets(&ladder.for_flush(WallMs(now), WallMs(now)))
        );
    }
}
