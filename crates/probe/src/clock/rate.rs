//! How fast the counter runs: slopes over sliding windows of 20 ms to 64 s.
//!
//! Each window keeps two points: the older is the start of its slope, the newer replaces it when it is itself a window
//! old. So a slope covers one to two windows, in memory that does not depend on how often points come.
//!
//! *Invariants*: a longer window is used only while it agrees with every shorter one within their error bounds. When it
//! does not, the rate of the reference has changed (a time service slews it), and the longer windows start again.

/// One comparison of the counter with the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) ticks: u64,
    pub(crate) ns: u64,
    /// Half of the bracket around the reading, nanoseconds: how far `ns` may be from the truth at `ticks`.
    pub(crate) half_width_ns: f64,
}

/// A rate and a bound on its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate {
    /// Nanoseconds a tick.
    pub(crate) ns_per_tick: f64,
    /// Parts per billion.
    pub(crate) err_ppb: f64,
}

/// Windows, nanoseconds. A bracket of 20 ns over 16 s is 1.3 ppb; the shortest makes the counter usable soon.
pub(crate) const WINDOWS_NS: [u64; 5] = [20_000_000, 200_000_000, 2_000_000_000, 16_000_000_000, 64_000_000_000];

/// Allowance for the kernel's own steering (it alternates between two multipliers about 0.1 ppm apart within a tick)
/// and for the counter's wander, parts per billion.
const WANDER_PPB: f64 = 3.0;

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    older: Option<Point>,
    newer: Option<Point>,
}

/// The sliding windows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    windows: [Window; WINDOWS_NS.len()],
}

impl Windows {
    /// Adds a point and returns the best rate known, or `None` before the shortest window is full.
    ///
    /// Points come in ascending ticks and nanoseconds; the caller has checked that.
    pub(crate) fn push(&mut self, point: Point) -> Option<Rate> {
        for (window, length) in self.windows.iter_mut().zip(WINDOWS_NS) {
            window.push(point, length);
        }
        self.best(point)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn best(&mut self, point: Point) -> Option<Rate> {
        let mut best: Option<(usize, Rate)> = None;
        for (at, length) in WINDOWS_NS.into_iter().enumerate() {
            // A window that is not full yet is used once it reaches twice as far as the next shorter one.
            let enough = at.checked_sub(1).map_or(length, |shorter| (2 * WINDOWS_NS[shorter]).min(length));
            let Some(rate) = self.windows[at].rate(point, enough) else { break };
            if let Some((shorter, known)) = best {
                if !agree(known, rate) {
                    // The older part of this window belongs to another rate: restart it, and all longer ones, from
                    // the start of the trusted window.
                    let start = Window { older: self.windows[shorter].older, newer: None };
                    self.windows[at..].fill(start);
                    break;
                }
                if rate.err_ppb > known.err_ppb {
                    continue;
                }
            }
            best = Some((at, rate));
        }
        best.map(|(_, rate)| rate)
    }
}

/// True when two rates are one rate within the bounds of their errors.
pub(crate) fn agree(known: Rate, longer: Rate) -> bool {
    let difference_ppb = (longer.ns_per_tick / known.ns_per_tick - 1.0).abs() * 1e9;
    difference_ppb <= known.err_ppb + longer.err_ppb
}

impl Window {
    fn push(&mut self, point: Point, length: u64) {
        let Some(older) = self.older else {
            self.older = Some(point);
            return;
        };
        match self.newer {
            Some(newer) if point.ns.saturating_sub(newer.ns) >= length => {
                self.older = Some(newer);
                self.newer = Some(point);
            }
            None if point.ns.saturating_sub(older.ns) >= length => self.newer = Some(point),
            _ => {}
        }
    }

    fn rate(&self, point: Point, length: u64) -> Option<Rate> {
        let older = self.older?;
        let ns = point.ns.checked_sub(older.ns)?;
        let ticks = point.ticks.checked_sub(older.ticks)?;
        if ns < length || ticks == 0 {
            return None;
        }
        let err_ppb = (older.half_width_ns + point.half_width_ns) / ns as f64 * 1e9 + WANDER_PPB;
        Some(Rate { ns_per_tick: ns as f64 / ticks as f64, err_ppb })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 2 GHz counter read each 100 ms with the given rate error by time.
    fn feed(windows: &mut Windows, seconds: u64, start: &mut Point, ppb: f64) -> Option<Rate> {
        let mut rate = None;
        for _ in 0..seconds * 10 {
            start.ns += 100_000_000;
            start.ticks += (200_000_000.0 * (1.0 - ppb * 1e-9)).round() as u64;
            rate = windows.push(*start);
        }
        rate
    }

    const START: Point = Point { ticks: 1_000, ns: 5_000, half_width_ns: 20.0 };

    #[test]
    fn nothing_is_known_before_the_shortest_window_is_full() {
        let mut windows = Windows::default();
        assert_eq!(windows.push(START), None);
        let early = Point { ticks: START.ticks + 2 * 19_999_999, ns: START.ns + 19_999_999, ..START };
        assert_eq!(windows.push(early), None);
        let full = Point { ticks: START.ticks + 2 * 20_000_000, ns: START.ns + 20_000_000, ..START };
        let rate = windows.push(full).expect("20 ms are enough");
        assert_eq!(rate.ns_per_tick, 0.5);
        assert!((rate.err_ppb - 2_003.0).abs() < 1e-6, "40 ns over 20 ms, and the wander: {}", rate.err_ppb);
    }

    #[test]
    fn longer_windows_sharpen_the_rate() {
        let mut windows = Windows::default();
        let mut point = START;
        let second = feed(&mut windows, 1, &mut point, 0.0).expect("known");
        let minute = feed(&mut windows, 70, &mut point, 0.0).expect("known");
        assert!(second.err_ppb > 40.0 && second.err_ppb <= 50.0, "{}", second.err_ppb);
        assert!(minute.err_ppb < 5.0, "{}", minute.err_ppb);
    }

    #[test]
    fn a_slewed_reference_is_followed_within_a_second() {
        let mut windows = Windows::default();
        let mut point = START;
        feed(&mut windows, 100, &mut point, 0.0);
        for ppb in [500_000.0, -500_000.0, 2_000.0, 0.0] {
            let rate = feed(&mut windows, 1, &mut point, ppb).expect("known");
            let off_ppb = (rate.ns_per_tick / (0.5 / (1.0 - ppb * 1e-9)) - 1.0).abs() * 1e9;
            assert!(off_ppb <= rate.err_ppb, "slew {ppb}: off by {off_ppb} ppb, bound {}", rate.err_ppb);
        }
    }

    /// Windows that hold the old rate begin anew at once, instead of being in the way until they have slid past it.
    #[test]
    fn after_a_change_the_long_windows_sharpen_again() {
        let mut windows = Windows::default();
        let mut point = START;
        feed(&mut windows, 90, &mut point, 0.0);
        let rate = feed(&mut windows, 18, &mut point, 2_000.0).expect("known");
        assert!(rate.err_ppb < 6.0, "40 ns over 16 s, and the wander: {}", rate.err_ppb);
    }
}
