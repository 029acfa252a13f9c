//! The figures that are watched, and when they have left their noise.

use std::collections::VecDeque;

use ogive_observe::clock::Figures;

/// Ten looks a second for three seconds: a burst of other programs' work is shorter.
const LOOKS: usize = 30;
/// Costs that differ by less than this factor count as equal on a machine with other work.
const COST_FACTOR: f64 = 1.5;
/// A bound that grows by this factor has another cause than the next sample.
const ERR_FACTOR: f64 = 4.0;
/// Bounds below this are all good: they vary with each calibration.
const ERR_NS_MIN: f64 = 100.0;

/// The cost of a read, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    pub(super) now_ns: f64,
    pub(super) system_ns: f64,
}

/// Figures as they were reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ReportedFigures {
    pub(super) costs: Costs,
    pub(super) err_ns: f64,
    pub(super) frequency_hz: u64,
    pub(super) ppb: u16,
}

/// What was reported, and what was observed since.
#[derive(Debug)]
pub(super) struct Noise {
    reported: ReportedFigures,
    seen: VecDeque<ReportedFigures>,
}

impl Noise {
    pub(super) fn new(costs: Costs, figures: &Figures) -> Self {
        Self { reported: reported(costs, figures), seen: VecDeque::with_capacity(LOOKS) }
    }

    pub(super) const fn reported(&self) -> ReportedFigures {
        self.reported
    }

    /// The usual costs: the medians of the last seconds, or the reported ones before there were any.
    pub(super) fn usual(&self) -> Costs {
        if self.seen.is_empty() {
            return self.reported.costs;
        }
        Costs { now_ns: self.median(|seen| seen.costs.now_ns), system_ns: self.median(|seen| seen.costs.system_ns) }
    }

    /// Records a look; `Some` when the figures have deviated beyond the noise of the reported ones for [`LOOKS`] looks.
    pub(super) fn look(&mut self, costs: Costs, figures: &Figures) -> Option<ReportedFigures> {
        if self.seen.len() == LOOKS {
            self.seen.pop_front();
        }
        self.seen.push_back(reported(costs, figures));
        let all = |beyond: fn(&ReportedFigures, &ReportedFigures) -> bool| {
            self.seen.iter().all(|seen| beyond(&self.reported, seen))
        };
        let beyond = all(cost_fell) || all(cost_rose) || all(err_rose) || all(frequency_moved);
        if self.seen.len() < LOOKS || !beyond {
            return None;
        }
        let last = *self.seen.back().expect("it is full");
        self.reported = ReportedFigures { costs: self.usual(), err_ns: self.median(|seen| seen.err_ns), ..last };
        self.seen.clear();
        Some(self.reported)
    }

    fn median(&self, of: fn(&ReportedFigures) -> f64) -> f64 {
        let mut values: Vec<f64> = self.seen.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }
}

fn reported(costs: Costs, figures: &Figures) -> ReportedFigures {
    ReportedFigures { costs, err_ns: figures.err_ns as f64, frequency_hz: figures.frequency_hz, ppb: figures.ppb }
}

fn cost_rose(reported: &ReportedFigures, seen: &ReportedFigures) -> bool {
    seen.costs.now_ns > reported.costs.now_ns * COST_FACTOR
        || seen.costs.system_ns > reported.costs.system_ns * COST_FACTOR
}

fn cost_fell(reported: &ReportedFigures, seen: &ReportedFigures) -> bool {
    cost_rose(seen, reported)
}

fn err_rose(reported: &ReportedFigures, seen: &ReportedFigures) -> bool {
    seen.err_ns > reported.err_ns.max(ERR_NS_MIN) * ERR_FACTOR
}

/// Whether the frequency moved by more than both bounds allow.
fn frequency_moved(reported: &ReportedFigures, seen: &ReportedFigures) -> bool {
    let moved_ppb =
        seen.frequency_hz.abs_diff(reported.frequency_hz) as f64 / reported.frequency_hz.max(1) as f64 * 1e9;
    moved_ppb > 2.0 * (f64::from(reported.ppb) + f64::from(seen.ppb)) + 50.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: ReportedFigures = ReportedFigures {
        costs: Costs { now_ns: 20.0, system_ns: 25.0 },
        err_ns: 40.0,
        frequency_hz: 2_000_000_000,
        ppb: 5,
    };

    /// Looks that see `reported` for so long; how often something was reported.
    fn lines(noise: &mut Noise, reported: ReportedFigures, looks: usize) -> usize {
        let figures = Figures {
            frequency_hz: reported.frequency_hz,
            ppb: reported.ppb,
            err_ns: reported.err_ns as u64,
            ..crate::cli::clock::testing::sound()
        };
        (0..looks).filter(|_| noise.look(reported.costs, &figures).is_some()).count()
    }

    fn noise() -> Noise {
        Noise { reported: QUIET, seen: VecDeque::new() }
    }

    #[test]
    fn noise_is_not_told() {
        let mut noise = noise();
        for percent in [100, 120, 90, 145, 70] {
            let share = f64::from(percent) / 100.0;
            let costs = Costs { now_ns: 20.0 * share, system_ns: 25.0 * share };
            assert_eq!(lines(&mut noise, ReportedFigures { costs, ..QUIET }, 100), 0, "{percent}");
        }
        // A burst that ends within three seconds.
        let burst = ReportedFigures { costs: Costs { now_ns: 900.0, system_ns: 900.0 }, ..QUIET };
        assert_eq!(lines(&mut noise, burst, LOOKS - 1), 0);
        assert_eq!(lines(&mut noise, QUIET, 100), 0);
    }

    #[test]
    fn what_stays_is_told_once() {
        let costs = |system_ns: f64| ReportedFigures { costs: Costs { now_ns: 20.0, system_ns }, ..QUIET };
        for changed in [
            costs(60.0),
            costs(10.0),
            ReportedFigures { err_ns: 5_000.0, ..QUIET },
            ReportedFigures { frequency_hz: 2_000_001_000, ..QUIET },
        ] {
            let mut noise = noise();
            assert_eq!(lines(&mut noise, changed, 200), 1, "{changed:?}");
            assert_eq!(noise.reported(), changed);
        }
    }
}
