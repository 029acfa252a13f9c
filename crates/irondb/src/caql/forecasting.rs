//! Projections into the future: `forecasting:slope`, `regression`, `auto`, `ewma`, `dewma`, `holt_winters`.
//!
//! A slot's value is what is forecast for `forecast_duration` after it, from what was measured up to it.
//! Invariants: an answer does not depend on where it begins. Lines are fitted to a window behind each slot. Averages
//! that decay would remember everything: they begin anew at multiples of a length after which what was before weighs
//! less than a millionth, and a slot is given by the run that began one such length before its own (Holt-Winters: three
//! periods).
//! Limits: windows and lengths as for everything that looks back.

use super::{Argument, Call};
use crate::fetch::COUNT_MAX;
use crate::frame::Grid;

type Numbers = Vec<Option<f64>>;

/// A decaying average restarts after this many slots at the latest.
const RUN_MAX: usize = 2_000;
/// 14 is the logarithm of a million.
const MEMORY: f64 = 14.0;
/// 10 minutes, as in CAQL.
const MODEL_MS: i64 = 600_000;
/// A day.
const PERIOD_MS: i64 = 86_400_000;

/// A method with its parameters in slots.
enum Method {
    Line { horizon: f64, window: usize, step: usize, fit: Fit, is_exponential: bool },
    Smooth(Smooth),
}

#[derive(Clone, Copy, PartialEq)]
enum Fit {
    /// Through the first and the last number of the window.
    Ends,
    /// The least squares.
    Squares,
}

struct Smooth {
    alpha: f64,
    beta: f64,
    gamma: f64,
    /// Slots of a season, 0 without seasons.
    period: usize,
    horizon: usize,
    fill: f64,
    run: usize,
}

/// Parameters by place and by name.
struct Parameters<'c> {
    call: &'c Call,
    grid: Grid,
}

impl Parameters<'_> {
    fn get(&self, at: usize, name: &str) -> Option<&Argument> {
        let named = self.call.named.iter().find(|(given, _)| given == name).map(|(_, value)| value);
        named.or_else(|| self.call.arguments.get(at))
    }

    fn number(&self, at: usize, name: &str, default: Option<f64>) -> Result<f64, String> {
        match (self.get(at, name), default) {
            (Some(Argument::Number(number)), _) => Ok(*number),
            (None, Some(default)) => Ok(default),
            _ => Err(format!("{name} is not a number")),
        }
    }

    /// A weight from 0 to 1.
    fn weight(&self, at: usize, name: &str) -> Result<f64, String> {
        let weight = self.number(at, name, None)?;
        if (0.0..=1.0).contains(&weight) { Ok(weight) } else { Err(format!("{name} is not from 0 to 1")) }
    }

    /// A duration in slots; a plain number is seconds.
    fn slots(&self, at: usize, name: &str, default_ms: Option<i64>) -> Result<f64, String> {
        let ms = match (self.get(at, name), default_ms) {
            (Some(Argument::Duration(ms)), _) => *ms as f64,
            (Some(Argument::Number(seconds)), _) => seconds * 1_000.0,
            (None, Some(ms)) => ms as f64,
            _ => return Err(format!("{name} is not a duration such as 1h")),
        };
        let slots = ms / self.grid.period_ms as f64;
        if (0.0..1e9).contains(&slots) { Ok(slots) } else { Err(format!("{name} is below 0, or too long")) }
    }

    /// At least `least` complete slots.
    fn window(&self, at: usize, name: &str, default_ms: i64, least: usize) -> Result<usize, String> {
        let slots = (self.slots(at, name, Some(default_ms))?.round() as usize).max(least);
        if slots <= COUNT_MAX { Ok(slots) } else { Err(format!("{name} is longer than {COUNT_MAX} slots")) }
    }

    fn method(&self) -> Result<Method, String> {
        let line = |fit| -> Result<Method, String> {
            let is_exponential = match self.get(3, "model") {
                None => false,
                Some(Argument::Text(model)) if model == "linear" => false,
                Some(Argument::Text(model)) if model == "exp" => true,
                Some(_) => return Err("model is neither \"linear\" nor \"exp\"".into()),
            };
            // A step is in slots as a number, as CAQL has it.
            let step = match self.get(2, "step") {
                Some(Argument::Number(step)) if *step >= 1.0 && *step <= COUNT_MAX as f64 => *step as usize,
                None => 1,
                _ => return Err(format!("step is not a number of slots from 1 to {COUNT_MAX}")),
            };
            let horizon = self.slots(0, "forecast_duration", None)?;
            let window = self.window(1, "model_duration", MODEL_MS, 2)?;
            Ok(Method::Line { horizon, window, step, fit, is_exponential })
        };
        match &*self.call.method {
            "slope" => line(Fit::Ends),
            "regression" => line(Fit::Squares),
            "auto" => {
                let horizon = self.slots(0, "forecast_duration", None)?;
                let window = (horizon.round() as usize).clamp(10, COUNT_MAX / 2);
                Ok(Method::Line { horizon, window, step: 1, fit: Fit::Squares, is_exponential: false })
            }
            "ewma" | "dewma" | "holt_winters" => self.smooth().map(Method::Smooth),
            method => Err(format!("there is no {method:?}; docs/irondb.md lists those that are")),
        }
    }

    fn smooth(&self) -> Result<Smooth, String> {
        let alpha = self.weight(0, "alpha")?;
        let (mut beta, mut gamma, mut period, mut horizon) = (0.0, 0.0, 0, 0.0);
        let fill = match &*self.call.method {
            "ewma" => self.number(1, "fill", Some(1.0))?,
            "dewma" => {
                beta = self.weight(1, "beta")?;
                horizon = self.slots(3, "forecast_duration", Some(0))?;
                self.number(2, "fill", Some(1.0))?
            }
            _ => {
                (beta, gamma) = (self.weight(1, "beta")?, self.weight(2, "gamma")?);
                horizon = self.slots(3, "forecast_duration", Some(0))?;
                period = self.window(5, "period", PERIOD_MS, 1)?;
                self.number(4, "fill", Some(1.0))?
            }
        };
        let slowest = [alpha, beta].into_iter().filter(|weight| *weight > 0.0).fold(1.0, f64::min);
        let memory = ((MEMORY / slowest).ceil() as usize).clamp(1, RUN_MAX);
        let run = if period > 0 { 3 * period } else { memory };
        Ok(Smooth { alpha, beta, gamma, period, horizon: horizon.round() as usize, fill, run })
    }
}

/// How many slots before the first it looks back on.
pub(super) fn slots_before(call: &Call, grid: Grid) -> Result<usize, String> {
    Ok(match (Parameters { call, grid }).method()? {
        Method::Line { window, step, .. } => window - 1 + step - 1,
        Method::Smooth(smooth) => 2 * smooth.run - 1,
    })
}

/// The forecasts of a column.
pub(super) fn apply(call: &Call, numbers: &Numbers, grid: Grid) -> Result<Numbers, String> {
    // The number of a slot since 1970, so that restarts happen at the same times in every result.
    let first = grid.start_ms.div_euclid(grid.period_ms);
    Ok(match (Parameters { call, grid }).method()? {
        Method::Line { horizon, window, step, fit, is_exponential } => {
            let at = |slot: usize| {
                let behind = (first + slot as i64).rem_euclid(step as i64) as usize;
                let last = slot.checked_sub(behind)?;
                let from = (last + 1).saturating_sub(window);
                let (base, slope) = line(&numbers[from..=last], fit, is_exponential)?;
                let value = base + slope * ((slot - from) as f64 + horizon);
                Some(if is_exponential { value.exp() } else { value })
            };
            (0..numbers.len()).map(at).collect()
        }
        Method::Smooth(smooth) => smooth.apply(numbers, first),
    })
}

/// The value at the first slot of the window, and the slope for each slot; None with fewer than two numbers.
fn line(window: &[Option<f64>], fit: Fit, is_exponential: bool) -> Option<(f64, f64)> {
    let number = |(at, number): (usize, &Option<f64>)| {
        let number = number.filter(|number| !is_exponential || *number > 0.0)?;
        Some((at as f64, if is_exponential { number.ln() } else { number }))
    };
    let points: Vec<(f64, f64)> = window.iter().enumerate().filter_map(number).collect();
    let ([first, ..], [.., last]) = (&points[..], &points[..]) else { return None };
    if first.0 == last.0 {
        return None;
    }
    if fit == Fit::Ends {
        let slope = (last.1 - first.1) / (last.0 - first.0);
        return Some((first.1 - slope * first.0, slope));
    }
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let products: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let squares: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let slope = products / squares;
    Some((y - slope * x, slope))
}

impl Smooth {
    fn apply(&self, numbers: &Numbers, first: i64) -> Numbers {
        let run = self.run as i64;
        let mut out = vec![None; numbers.len()];
        // The range of slots between two multiples, each from the previous multiple on.
        let mut begin = first.div_euclid(run) * run;
        while begin < first + numbers.len() as i64 {
            let from = (begin - run - first).max(0) as usize;
            let to = ((begin + run - first) as usize).min(numbers.len());
            let shown = (begin - first).max(0) as usize;
            let given = self.from(&numbers[from..to], first + from as i64);
            out[shown..to].copy_from_slice(&given[shown - from..]);
            begin += run;
        }
        out
    }

    /// Each slot's forecast from averages that start at the first.
    fn from(&self, numbers: &[Option<f64>], first: i64) -> Numbers {
        let mut level: Option<f64> = None;
        let (mut trend, mut seasons) = (0.0, vec![0.0; self.period.max(1)]);
        let season = |at: i64| at.rem_euclid(self.period.max(1) as i64) as usize;
        let mut out = Vec::with_capacity(numbers.len());
        for (at, number) in (first..).zip(numbers) {
            let now = season(at);
            level = match (level, number) {
                (None, None) => None,
                (None, Some(number)) => Some(*number),
                (Some(level), None) => Some(level + trend),
                (Some(level), Some(number)) => {
                    let next = self.alpha * (number - seasons[now]) + (1.0 - self.alpha) * (level + trend);
                    trend = self.beta * (next - level) + (1.0 - self.beta) * trend;
                    if self.period > 0 {
                        seasons[now] = self.gamma * (number - next) + (1.0 - self.gamma) * seasons[now];
                    }
                    Some(next)
                }
            };
            let then = if self.period > 0 { seasons[season(at + self.horizon as i64)] } else { 0.0 };
            let forecast = level.map(|level| level + trend * self.horizon as f64 + then);
            out.push(match (self.fill, number) {
                (2.0, Some(number)) => Some(*number),
                (0.0, None) => None,
                _ => forecast,
            });
        }
        out
    }
}
