//! Saturation of many series as they come: points of six minutes each, a forecast with each new one.
//!
//! A finding begins when even the late bound is within [`HORIZON`], and ends when the limit is twice as far away or out
//! of reach: a forecast that hovers around the horizon is one finding. A new series that rises through its first
//! [`POINTS_MIN`](super::saturation::POINTS_MIN) points, 72 minutes, is taken at its word until it first drops.
//!
//! Limits: [`SERIES_MAX`] series, [`POINTS_MAX`] points each; series beyond are not judged, which
//! [`Forecasts::refused`] counts. A series that is silent for [`FORGOTTEN`] goes.

use std::collections::{HashMap, VecDeque};

use ogive_model::{Labels, Ms, SeriesId, WallMs};

use super::finding::{Finding, FindingKind};
use super::monitor::{FORGOTTEN, Reported};
use super::saturation::{Forecast, HORIZON, POINTS_MAX};

/// Six minutes: [`POINTS_MAX`] of them are six hours, the range of common rules that forecast four days.
pub const POINT: Ms = Ms::from_secs(360);
/// 2,000 series of 1 KiB each: disks and pools of some hundred machines.
pub const SERIES_MAX: usize = 2_000;

struct Trend {
    labels: Labels,
    unit: Box<str>,
    limit: f64,
    points: VecDeque<(i64, f64)>,
    /// The point that is being collected: its number since 1970, its last time, sum and count.
    open: (i64, WallMs, f64, u32),
    began: Option<WallMs>,
}

/// See the module.
#[derive(Default)]
pub struct Forecasts {
    series: HashMap<SeriesId, Trend>,
    found: Vec<Reported>,
    refused: u64,
}

impl Forecasts {
    /// Samples of series beyond the limit.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// A value of a series with a limit, at `time`; those of a series come in order of time.
    pub fn sample(&mut self, id: SeriesId, labels: &Labels, unit: &str, limit: f64, time: WallMs, value: f64) {
        if !value.is_finite() {
            return;
        }
        if !self.series.contains_key(&id) && self.series.len() >= SERIES_MAX {
            self.refused += 1;
            return;
        }
        let number = (time - Ms(1)).0.div_euclid(POINT.0);
        let trend = self.series.entry(id).or_insert_with(|| Trend {
            labels: labels.clone(),
            unit: unit.into(),
            limit,
            points: VecDeque::new(),
            open: (number, time, 0.0, 0),
            began: None,
        });
        if number > trend.open.0 {
            self.found.extend(trend.close(time));
            trend.open = (number, time, 0.0, 0);
        }
        if number == trend.open.0 {
            let (_, last, sum, count) = &mut trend.open;
            (*last, *sum, *count) = (time, *sum + value, *count + 1);
        }
    }

    /// The findings since the last step; forgets series that are gone.
    pub fn advance(&mut self, watermark: WallMs) -> Vec<Reported> {
        if watermark.0.rem_euclid(POINT.0) == 0 {
            self.series.retain(|_, trend| trend.open.1 >= watermark - FORGOTTEN);
        }
        std::mem::take(&mut self.found)
    }
}

impl Trend {
    /// The collected point is complete: its finding, at `at`.
    fn close(&mut self, at: WallMs) -> Option<Reported> {
        let (number, _, sum, count) = self.open;
        if count == 0 {
            return None;
        }
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(((number + 1) * POINT.0, sum / f64::from(count)));
        let forecast = Forecast::new(self.points.make_contiguous(), self.limit)?;
        let finding = match self.began {
            // A constant value will never reach a limit, even if it is at one.
            None if forecast.slope == 0.0 => return None,
            None => {
                let finding = forecast.finding(at, self.limit, HORIZON, &self.unit)?;
                self.began = Some(at);
                finding
            }
            #[expect(clippy::cast_precision_loss, reason = "a horizon of days")]
            Some(began) => {
                if forecast.late_ms.is_some_and(|late| late < 2.0 * HORIZON.0 as f64) {
                    return None;
                }
                self.began = None;
                let sentence = "its limit is not in reach any more".to_owned();
                let evidence = vec![("level", forecast.level), ("limit", self.limit), ("slope", forecast.slope)];
                Finding { kind: FindingKind::Saturation, at, began, is_active: false, sentence, evidence }
            }
        };
        Some(Reported { labels: self.labels.clone(), finding })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: WallMs = WallMs(1_795_435_200_000);

    /// What `value` by the minute leads to, with the hour of each finding.
    fn run(minutes: i64, limit: f64, value: impl Fn(i64) -> f64) -> Vec<(i64, bool, String)> {
        let mut forecasts = Forecasts::default();
        let labels = Labels::new([("__name__", "disk_free_bytes"), ("dir", "/data")]).unwrap();
        let mut out = Vec::new();
        for minute in 1..=minutes {
            let now = NOON + Ms(minute * 60_000);
            forecasts.sample(SeriesId(1), &labels, "", limit, now, value(minute));
            for one in forecasts.advance(now) {
                out.push((minute / 60, one.finding.is_active, one.finding.sentence));
            }
        }
        out
    }

    #[test]
    fn a_disk_that_fills_is_one_finding_until_somebody_makes_room() {
        // 1 % an hour from 60 %: 60 hours. After ten hours it stands still.
        let found = run(24 * 60, 0.0, |minute| 60.0 - (minute.min(600) as f64) / 60.0);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].0 == 1 && found[0].1 && found[0].2.contains("reaches 0 in 2.5 d"), "{found:?}");
        assert!(!found[1].1 && found[1].2.contains("not in reach"), "{found:?}");
    }

    #[test]
    fn a_sawtooth_and_what_stands_at_its_limit_are_silent() {
        assert_eq!(run(48 * 60, 100.0, |minute| 40.0 + (minute % 60) as f64 / 1.5), []);
        assert_eq!(run(600, 0.0, |_| 0.0), [], "a file system that is full by its nature");
    }

    #[test]
    fn a_sawtooth_that_rises_for_longer_than_the_first_points_is_one_finding_and_then_silent() {
        let found = run(48 * 60, 100.0, |minute| 40.0 + (minute % 120) as f64 / 3.0);
        let found: Vec<(i64, bool)> = found.into_iter().map(|(hour, is_active, _)| (hour, is_active)).collect();
        assert_eq!(found, [(1, true), (2, false)], "its first drop ends it");
    }

    #[test]
    fn series_beyond_the_limit_are_counted() {
        let mut forecasts = Forecasts::default();
        let labels = Labels::new([("__name__", "x")]).unwrap();
        for id in 0..=SERIES_MAX as u128 {
            forecasts.sample(SeriesId(id), &labels, "", 0.0, NOON, 1.0);
        }
        assert_eq!((forecasts.refused(), forecasts.series.len()), (1, SERIES_MAX));
    }
}
