//! Saturation: when a growing value reaches its limit, with bounds.
//!
//! The slope is Theil and Sen's: the median of the slopes between all pairs of points, so that outliers do not bend it.
//! The early and the late bound use the slopes at 5 and 95 per cent of those pairs: a sawtooth, whose pairs slope both
//! ways, has no late bound and stays silent. Nothing is proved about the future; the bounds say how steady the past
//! was.
//!
//! Limits: [`POINTS_MAX`] points; more are thinned evenly.

use ogive_model::{Ms, WallMs};

use super::finding::{Finding, FindingKind};
use super::instant::Span;
use super::quantity::Quantity;

/// 60 points are 1,770 pairs: 20 us to sort.
pub const POINTS_MAX: usize = 60;
/// Fewer points are no trend.
pub const POINTS_MIN: usize = 12;
/// Four days, as `predict_linear` is commonly used for disks.
pub const HORIZON: Ms = Ms::from_secs(4 * 86_400);

/// When a limit is reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Growth, units a second.
    pub slope: f64,
    /// The current value of the trend.
    pub level: f64,
    /// Milliseconds from the last point until the limit is reached, at the median slope; `None` is never.
    pub in_ms: Option<f64>,
    /// At the steepest of 95 % of the slopes.
    pub early_ms: Option<f64>,
    /// At the flattest of 95 % of the slopes.
    pub late_ms: Option<f64>,
}

impl Forecast {
    /// From points (time in ms, value), ascending in time, to when `limit` is reached from below or from above.
    ///
    /// `None` with fewer than [`POINTS_MIN`] finite points, or when all are at one instant.
    #[must_use]
    pub fn new(points: &[(i64, f64)], limit: f64) -> Option<Self> {
        let finite: Vec<(i64, f64)> = points.iter().copied().filter(|(_, value)| value.is_finite()).collect();
        if finite.len() < POINTS_MIN || !limit.is_finite() {
            return None;
        }
        let count = finite.len().min(POINTS_MAX);
        let points: Vec<(i64, f64)> = (0..count).map(|at| finite[at * (finite.len() - 1) / (count - 1)]).collect();
        let origin = points[count - 1].0;
        #[expect(clippy::cast_precision_loss, reason = "spans of a selection are far below 2^53 ms")]
        let seconds = |time: i64| time.saturating_sub(origin) as f64 / 1_000.0;
        let mut slopes = Vec::with_capacity(count * (count - 1) / 2);
        for (at, (time, value)) in points.iter().enumerate() {
            for (later, other) in &points[at + 1..] {
                if later > time {
                    slopes.push((other - value) / (seconds(*later) - seconds(*time)));
                }
            }
        }
        let [flat, slope, steep] = [0.05, 0.5, 0.95].map(|q| quantile(&mut slopes, q));
        let slope = slope?;
        let mut levels: Vec<f64> = points.iter().map(|(time, value)| value - slope * seconds(*time)).collect();
        let level = quantile(&mut levels, 0.5)?;
        let distance = limit - level;
        let reached = |slope: f64| {
            if distance == 0.0 {
                return Some(0.0);
            }
            let ms = distance / slope * 1_000.0;
            (ms.is_finite() && ms >= 0.0).then_some(ms)
        };
        // Towards a limit below, the steepest slope is the most negative one.
        let (early, late) = if distance >= 0.0 { (steep?, flat?) } else { (flat?, steep?) };
        Some(Self { slope, level, in_ms: reached(slope), early_ms: reached(early), late_ms: reached(late) })
    }

    /// A finding when even the late bound is within `horizon`.
    #[must_use]
    pub fn finding(&self, at: WallMs, limit: f64, horizon: Ms, unit: &str) -> Option<Finding> {
        #[expect(clippy::cast_precision_loss, reason = "a horizon of days")]
        let late_ms = self.late_ms.filter(|late| *late < horizon.0 as f64)?;
        let (in_ms, early_ms) = (self.in_ms.unwrap_or(late_ms), self.early_ms.unwrap_or(0.0));
        let span = |ms: f64| Span::from_seconds(ms / 1_000.0);
        let sentence = format!(
            "{} reaches {} in {} (between {} and {} at the slopes it had)",
            Quantity(self.level, unit),
            Quantity(limit, unit),
            span(in_ms),
            span(early_ms),
            span(late_ms)
        );
        let evidence = vec![
            ("level", self.level),
            ("limit", limit),
            ("slope", self.slope),
            ("in_ms", in_ms),
            ("early_ms", early_ms),
            ("late_ms", late_ms),
        ];
        Some(Finding { kind: FindingKind::Saturation, at, began: at, is_active: true, sentence, evidence })
    }
}

fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let at = ((values.len() - 1) as f64 * q).round() as usize;
    Some(*values.select_nth_unstable_by(at, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;

    fn points(value: impl Fn(i64) -> f64) -> Vec<(i64, f64)> {
        (0..60).map(|at| (at * MINUTE, value(at))).collect()
    }

    #[test]
    fn a_disk_that_fills_is_forecast_between_its_bounds() {
        // 0.5 % a minute from 20 %, with one reading that is far off: 100 % after 101 minutes more.
        let disk = points(|at| if at == 30 { 99.0 } else { 20.0 + 0.5 * at as f64 + 0.2 * ((at * 7) % 5) as f64 });
        let forecast = Forecast::new(&disk, 100.0).unwrap();
        let minutes = |ms: Option<f64>| ms.unwrap() / 60_000.0;
        assert!((98.0..104.0).contains(&minutes(forecast.in_ms)), "{forecast:?}");
        assert!(forecast.early_ms < forecast.in_ms && forecast.in_ms < forecast.late_ms, "{forecast:?}");
        let finding = forecast.finding(WallMs(59 * MINUTE), 100.0, HORIZON, "percent").expect("within four days");
        assert!(finding.sentence.contains("reaches 100 percent in 1"), "{}", finding.sentence);
        assert_eq!(
            forecast.finding(WallMs(59 * MINUTE), 100.0, Ms(60 * MINUTE), "percent"),
            None,
            "not within an hour"
        );
    }

    #[test]
    fn a_sawtooth_a_flat_line_and_a_shrinking_value_stay_silent() {
        for value in [&(|at: i64| (at % 15) as f64 * 5.0) as &dyn Fn(i64) -> f64, &|_| 95.0, &|at| 90.0 - at as f64] {
            let forecast = Forecast::new(&points(value), 100.0).unwrap();
            assert_eq!(forecast.finding(WallMs(0), 100.0, HORIZON, ""), None, "{forecast:?}");
        }
    }

    #[test]
    fn free_space_reaches_zero_from_above() {
        let free = points(|at| 1e9 - 1e7 * at as f64 - 1e5 * ((at * 3) % 7) as f64);
        let forecast = Forecast::new(&free, 0.0).unwrap();
        assert!(forecast.finding(WallMs(0), 0.0, HORIZON, "bytes").is_some(), "{forecast:?}");
    }

    #[test]
    fn broken_points_are_no_trend() {
        assert_eq!(Forecast::new(&[(0, 1.0); 5], 10.0), None);
        assert_eq!(Forecast::new(&[(0, 1.0); 60], 10.0), None, "one instant");
        assert_eq!(Forecast::new(&points(|_| f64::NAN), 10.0), None);
        assert_eq!(Forecast::new(&points(|at| at as f64), f64::INFINITY), None);
        assert!(
            Forecast::new(&[(i64::MIN, 0.0), (0, 1.0), (i64::MAX, 2.0)].repeat(9), 5.0)
                .is_none_or(|f| f.slope.is_finite())
        );
    }
}
