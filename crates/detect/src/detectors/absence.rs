//! Absence: learns how often a series comes, and says until when its next sample must have come.
//!
//! Invariants: a deadline is later than the last sample; there is none before [`GAPS_MIN`] gaps were seen. The caller
//! compares it with the watermark of the series' *source*, never with the wall clock: a source that stands still makes
//! its series unknown, not absent.
//!
//! Failure: an irregular series has no provable bound. For a Poisson stream of mean gap m the chance that a gap exceeds
//! `ln(1e8) m` is 1e-8; for exchangeable gaps the chance that the next exceeds the largest of n is at most 1/(n+1), and
//! the factor 1.5 above that is a heuristic.

use ogive_model::{Ms, WallMs};

/// Gaps before a cadence is believed: fewer do not distinguish a periodic series from an irregular one.
pub const GAPS_MIN: u32 = 16;

/// The largest gap is that of the last 64 to 128 gaps: two windows of 64, the older one dropped as a third begins.
const WINDOW: u32 = 64;

/// A coefficient of variation below this is a periodic series: one that jitters by a tenth, and misses a sample now and
/// then (one double gap in 64 is 0.125).
const CV_PERIODIC: f64 = 0.25;

/// ln(1e8): one false absence in 1e8 gaps of a Poisson stream.
const POISSON_GAPS: f64 = 18.420_680_743_952_367;

/// The cadence of a series; 40 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cadence {
    last: WallMs,
    count: u32,
    mean_ms: f32,
    variance_ms2: f32,
    largest_ms: [u32; 2],
}

const _: () = assert!(size_of::<Cadence>() <= 40);

impl Cadence {
    /// For a series that first arrived at `time`.
    #[must_use]
    pub const fn new(time: WallMs) -> Self {
        Self { last: time, count: 0, mean_ms: 0.0, variance_ms2: 0.0, largest_ms: [0; 2] }
    }

    /// The time of its last arrival.
    #[must_use]
    pub const fn last(&self) -> WallMs {
        self.last
    }

    /// Mean gap in milliseconds, once it is known.
    #[must_use]
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count >= GAPS_MIN).then_some(f64::from(self.mean_ms))
    }

    /// Whether it arrives with a fixed period.
    #[must_use]
    pub fn is_periodic(&self) -> bool {
        self.count >= GAPS_MIN && f64::from(self.variance_ms2).sqrt() < CV_PERIODIC * f64::from(self.mean_ms)
    }

    /// Records an arrival at `time`; one that is not later than the last is a repetition or late, and changes nothing.
    pub fn arrive(&mut self, time: WallMs) {
        if time <= self.last {
            return;
        }
        let gap_ms = u32::try_from(time.since(self.last).0).unwrap_or(u32::MAX);
        self.last = time;
        if self.count.is_multiple_of(WINDOW) {
            self.largest_ms = [self.largest_ms[1], 0];
        }
        self.largest_ms[1] = self.largest_ms[1].max(gap_ms);
        self.count = self.count.saturating_add(1);
        // Exact mean and variance of the first 64 gaps, then those of about the last 64.
        let weight = 1.0 / f64::from(self.count.min(WINDOW));
        let (gap, mean) = (f64::from(gap_ms), f64::from(self.mean_ms));
        let variance = (1.0 - weight) * (f64::from(self.variance_ms2) + weight * (gap - mean).powi(2));
        #[expect(clippy::cast_possible_truncation, reason = "24 bits of a mean are more than its own error")]
        {
            self.mean_ms = (mean + weight * (gap - mean)) as f32;
            self.variance_ms2 = variance as f32;
        }
    }

    /// Resumes at `time` after a known outage: the gap is not learned.
    pub fn resume(&mut self, time: WallMs) {
        self.last = self.last.max(time);
    }

    /// The watermark from which it counts as absent; `lateness` is added.
    #[must_use]
    pub fn deadline(&self, lateness: Ms) -> Option<WallMs> {
        Some(self.after(self.patience_ms()?, lateness))
    }

    /// The watermark from which it is suspect, after two thirds of the patience: others may turn out to be silent too.
    #[must_use]
    pub fn suspect_at(&self, lateness: Ms) -> Option<WallMs> {
        Some(self.after(self.patience_ms()? * 2.0 / 3.0, lateness))
    }

    fn patience_ms(&self) -> Option<f64> {
        let mean = self.mean_ms()?;
        let largest = f64::from(self.largest_ms[0].max(self.largest_ms[1]));
        let gaps = if self.is_periodic() { 3.0 } else { POISSON_GAPS };
        Some((gaps * mean).max(1.5 * largest))
    }

    fn after(&self, patience_ms: f64, lateness: Ms) -> WallMs {
        #[expect(clippy::cast_possible_truncation, reason = "a saturated deadline is one that never comes")]
        let patience = Ms(patience_ms.round() as i64);
        self.last.saturating_add(patience).saturating_add(lateness.max(Ms::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Ms = Ms(1_000);

    fn cadence(gaps: impl IntoIterator<Item = i64>) -> Cadence {
        let mut cadence = Cadence::new(WallMs(0));
        for gap in gaps {
            cadence.arrive(cadence.last() + Ms(gap));
        }
        cadence
    }

    #[test]
    fn nothing_is_absent_before_its_cadence_is_known() {
        assert_eq!(cadence([1_000; 15]).deadline(Ms(0)), None);
        assert_eq!(cadence([1_000; 16]).deadline(Ms(0)), Some(WallMs(16_000 + 3_000)));
        assert_eq!(cadence([1_000; 16]).deadline(Ms(250)), Some(WallMs(16_000 + 3_250)));
    }

    #[test]
    fn a_periodic_series_has_three_gaps_and_an_irregular_one_more() {
        let jittered = cadence((0..100).map(|at| 1_000 + 50 * (at % 2)));
        assert!(jittered.is_periodic());
        let irregular = cadence((0..100).map(|at| if at % 10 == 0 { 9_000 } else { 1_000 }));
        assert!(!irregular.is_periodic());
        let patience = irregular.deadline(Ms(0)).unwrap() - irregular.last();
        assert!((Ms(13_500)..Ms(60_000)).contains(&patience), "{patience}");
    }

    #[test]
    fn a_gap_that_came_in_the_last_64_is_waited_for_again() {
        // A backup stops the series for 20 s each hundred gaps: its own largest gap is no absence.
        let mut cadence = cadence((0..64).map(|_| 1_000));
        cadence.arrive(cadence.last() + SECOND * 20);
        for _ in 0..63 {
            cadence.arrive(cadence.last() + SECOND);
        }
        assert!(cadence.deadline(Ms(0)).unwrap() - cadence.last() >= SECOND * 20);
        for _ in 0..1_000 {
            cadence.arrive(cadence.last() + SECOND);
        }
        assert_eq!(cadence.deadline(Ms(0)).unwrap() - cadence.last(), SECOND * 3, "forgotten");
    }

    #[test]
    fn repetitions_late_samples_and_known_outages_teach_nothing() {
        let mut cadence = cadence([1_000; 20]);
        let before = cadence;
        cadence.arrive(WallMs(20_000));
        cadence.arrive(WallMs(5));
        assert_eq!(cadence, before);
        cadence.resume(WallMs(500_000));
        assert_eq!(cadence.deadline(Ms(0)), Some(WallMs(503_000)));
        // Clocks far apart do not overflow.
        cadence.arrive(WallMs::MAX);
        assert!(cadence.deadline(Ms::MAX).is_some());
    }
}
