//! Novelty of a number: how far it leaves everything that the series did before, in several views of it.
//!
//! Views are the value, its means over an hour and a quarter of a day, its steps, its spread over a quarter of a day,
//! and its difference from a day before. Each view remembers a sample of its past; its novelty is how far the newest is
//! beyond that past's extremes, in units of the past's own spread. A series that did something once is not surprised
//! the second time, and a new level is new once.
//!
//! Limits: [`PAST`] remembered values a view, thinned evenly as the past grows; [`VIEWS`] views.

use std::collections::VecDeque;

use ogive_model::WallMs;

use super::finding::{Finding, FindingKind};
use super::instant::Clock24;
use super::quantity::Quantity;

/// Past values that a view remembers: 4 KiB each.
pub const PAST: usize = 512;
/// Views of a series.
pub const VIEWS: usize = 6;
/// Novelty from which it is reported: near the best for the files of the Numenta Anomaly Benchmark.
pub const THRESHOLD: f64 = 0.2;
/// Records before anything is reported.
pub const WARM: usize = 288;

/// The remembered past of a view: sorted, with the extremes of all values.
#[derive(Clone, Debug, Default)]
struct Past {
    sorted: Vec<f64>,
    every: usize,
    count: usize,
    lowest: f64,
    highest: f64,
}

impl Past {
    /// How far `value` is beyond everything before, in units of the spread.
    fn beyond(&self, value: f64) -> f64 {
        if self.sorted.len() < 24 {
            return 0.0;
        }
        let at = |q: usize| self.sorted[(self.sorted.len() - 1) * q / 100];
        let spread =
            ((at(95) - at(5)) / 2.0).max((self.highest - self.lowest) * 0.05).max(value.abs() * 1e-6).max(1e-12);
        (value - self.highest).max(self.lowest - value) / spread
    }

    fn push(&mut self, value: f64) {
        (self.lowest, self.highest) =
            if self.count == 0 { (value, value) } else { (self.lowest.min(value), self.highest.max(value)) };
        if self.count.is_multiple_of(self.every.max(1)) {
            let place = self.sorted.partition_point(|known| *known < value);
            self.sorted.insert(place, value);
        }
        self.count += 1;
        if self.sorted.len() > PAST {
            // Every second one stays, and from here on half as many are added.
            let mut keep = false;
            self.sorted.retain(|_| {
                keep = !keep;
                keep
            });
            self.every = self.every.max(1) * 2;
        }
    }
}

/// Judges the numbers of one series.
#[derive(Clone, Debug)]
pub struct Novelty {
    day: usize,
    recent: VecDeque<f64>,
    pasts: Vec<Past>,
    count: usize,
    /// Scores of the last half day, whose maximum has to be exceeded.
    scores: VecDeque<(usize, f64)>,
}

impl Novelty {
    /// For a series with that many records a day.
    #[must_use]
    pub fn new(day: usize) -> Self {
        Self {
            day: day.clamp(8, 4_096),
            recent: VecDeque::new(),
            pasts: vec![Past::default(); VIEWS],
            count: 0,
            scores: VecDeque::new(),
        }
    }

    /// How new `value` is: 0 means seen before. Values that are not finite are ignored.
    pub fn push(&mut self, value: f64) -> f64 {
        if !value.is_finite() {
            return 0.0;
        }
        self.recent.push_back(value);
        if self.recent.len() > self.day + 1 {
            self.recent.pop_front();
        }
        let views = self.views();
        let mut score = 0.0_f64;
        for (past, view) in self.pasts.iter_mut().zip(views) {
            let Some(view) = view else { continue };
            score = score.max(past.beyond(view));
            past.push(view);
        }
        self.count += 1;
        self.first_of_its_kind(score)
    }

    fn views(&self) -> [Option<f64>; VIEWS] {
        let newest = self.recent.len() - 1;
        let value = self.recent[newest];
        let span =
            |length: usize| (self.recent.len() >= length).then(|| self.recent.range(self.recent.len() - length..));
        let mean = |length: usize| span(length).map(|values| values.sum::<f64>() / length as f64);
        let spread = |length: usize| {
            let mean = mean(length)?;
            let variance = span(length)?.map(|value| (value - mean).powi(2)).sum::<f64>() / length as f64;
            Some((variance.sqrt() + 1e-3 * mean.abs() + 1e-9).ln())
        };
        let (short, long) = ((self.day / 24).max(4), (self.day / 4).max(8));
        let step = (newest > 0).then(|| value - self.recent[newest - 1]);
        let yesterday = (self.recent.len() > self.day).then(|| mean(short).map_or(value, |mean| mean) - self.recent[0]);
        [Some(value), mean(short), mean(long), step, spread(long), yesterday]
    }

    /// A score counts if it exceeds those of the last half day: one fault is one finding.
    fn first_of_its_kind(&mut self, score: f64) -> f64 {
        let limit = self.count.saturating_sub(self.day / 2);
        while self.scores.front().is_some_and(|(at, _)| *at < limit) {
            self.scores.pop_front();
        }
        let is_first = self.scores.front().is_none_or(|(_, greatest)| score > *greatest);
        while self.scores.back().is_some_and(|(_, other)| *other <= score) {
            self.scores.pop_back();
        }
        self.scores.push_back((self.count, score));
        if is_first { score.max(0.0) } else { 0.0 }
    }

    /// As [`Novelty::push`], as a finding when it is new enough.
    pub fn judge(&mut self, at: WallMs, value: f64, unit: &str) -> Option<Finding> {
        let score = self.push(value);
        if self.count <= WARM || score < THRESHOLD {
            return None;
        }
        let Past { lowest, highest, .. } = &self.pasts[0];
        let sentence = format!(
            "{} at {} is like nothing before (values were {} to {}; novelty {score:.1})",
            Quantity(value, unit),
            Clock24::from_ms(at),
            Quantity(*lowest, unit),
            Quantity(*highest, unit)
        );
        let evidence = vec![("value", value), ("novelty", score), ("lowest", *lowest), ("highest", *highest)];
        Some(Finding { kind: FindingKind::Novelty, at, began: at, is_active: true, sentence, evidence })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A day of 96 records with a rhythm and a little noise.
    fn usual(at: usize) -> f64 {
        let phase = (at % 96) as f64 / 96.0 * std::f64::consts::TAU;
        10.0 + 3.0 * phase.sin() + 0.3 * ((at * 7_919) % 101) as f64 / 101.0
    }

    fn found(value: impl Fn(usize) -> f64) -> Vec<usize> {
        let mut novelty = Novelty::new(96);
        (0..1_000).filter(|at| novelty.judge(WallMs(*at as i64 * 900_000), value(*at), "").is_some()).collect()
    }

    #[test]
    fn a_rhythm_is_not_new_and_a_spike_is() {
        assert_eq!(found(usual), [0; 0]);
        let spike = found(|at| if at == 700 { 20.0 } else { usual(at) });
        assert_eq!(spike.first(), Some(&700), "{spike:?}");
        // Once seen, it is hardly new any more.
        let mut novelty = Novelty::new(96);
        let scores: Vec<f64> =
            (0..900).map(|at| novelty.push(if at == 500 || at == 884 { 20.0 } else { usual(at) })).collect();
        assert!(scores[884] < scores[500] / 4.0, "{} and {}", scores[500], scores[884]);
    }

    #[test]
    fn a_series_that_stands_still_is_new_though_its_values_are_not() {
        let still = found(|at| if (700..760).contains(&at) { 10.0 } else { usual(at) });
        assert!(still.iter().any(|at| (700..780).contains(at)), "{still:?}");
    }

    #[test]
    fn odd_numbers_do_no_harm_and_memory_is_bounded() {
        let mut novelty = Novelty::new(usize::MAX);
        for value in [f64::NAN, f64::INFINITY, f64::MAX, f64::MIN, 0.0, -0.0, f64::MIN_POSITIVE] {
            assert!(!novelty.push(value).is_nan());
        }
        for at in 0..20_000 {
            assert!(!novelty.push(f64::from(at)).is_nan());
        }
        assert!(novelty.pasts.iter().all(|past| past.sorted.len() <= PAST));
        assert!(novelty.recent.len() <= 4_097 && novelty.scores.len() <= 2_049);
    }
}
