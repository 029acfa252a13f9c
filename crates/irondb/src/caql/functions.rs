//! Functions of numbers.

use super::{Argument, Call, forecasting};
use crate::fetch::COUNT_MAX;
use crate::frame::{Column, Grid, Output};
use crate::frame::{reduce, statistic};

type Numbers = Vec<Option<f64>>;

impl Argument {
    /// A number, or a duration in seconds.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Duration(ms) => Some(*ms as f64 / 1_000.0),
            Self::Text(_) => None,
        }
    }
}

impl Call {
    pub(super) fn full_name(&self) -> String {
        if self.method.is_empty() { self.name.clone() } else { format!("{}:{}", self.name, self.method) }
    }

    pub(super) fn text(&self, at: usize) -> Option<&str> {
        match self.arguments.get(at) {
            Some(Argument::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn number(&self, at: usize) -> Result<f64, String> {
        self.arguments.get(at).and_then(Argument::number).ok_or_else(|| "a number is missing".to_owned())
    }
}

/// Whether it has a lookback window.
pub(super) fn is_windowed(call: &Call) -> bool {
    matches!(&*call.name, "window" | "rolling")
        || call.name == "histogram" && matches!(&*call.method, "window" | "rolling")
}

/// How many slots its window has.
pub(super) fn slots(call: &Call, grid: Grid) -> Result<usize, String> {
    let ms = match call.arguments.first() {
        Some(Argument::Duration(ms)) => *ms,
        Some(Argument::Number(seconds)) => (seconds * 1_000.0) as i64,
        _ => return Err("a duration such as 5M is missing".into()),
    };
    let slots = ms / grid.period_ms;
    match usize::try_from(slots) {
        Ok(slots @ 1..=COUNT_MAX) if ms % grid.period_ms == 0 => Ok(slots),
        _ => Err(format!("the window is not 1 to {COUNT_MAX} periods of {} s", grid.period_ms as f64 / 1_000.0)),
    }
}

/// The slots of the window of a slot, up to itself.
pub(super) fn window(at: usize, length: usize, grid: Grid, rolls: bool) -> std::ops::Range<usize> {
    if rolls {
        return (at + 1).saturating_sub(length)..at + 1;
    }
    let number = grid.start_ms.div_euclid(grid.period_ms) + at as i64;
    let within = number.rem_euclid(length as i64) as usize;
    at.saturating_sub(within)..at + 1
}

/// A function of each column separately.
pub(super) fn numbers(call: &Call, numbers: &Numbers, grid: Grid) -> Result<Numbers, String> {
    let seconds = grid.period_ms as f64 / 1_000.0;
    match &*call.name {
        "window" | "rolling" => windowed(call, numbers, grid),
        "each" => each(call, numbers),
        "forecasting" => forecasting::apply(call, numbers, grid),
        "rate" => Ok(changes(numbers, |before, now| (now - before) / seconds)),
        "diff" => Ok(changes(numbers, |before, now| now - before)),
        "integrate" => {
            let mut sum = 0.0;
            let mut add = |number: &Option<f64>| {
                sum += number.unwrap_or(0.0) * seconds;
                Some(sum)
            };
            Ok(numbers.iter().map(&mut add).collect())
        }
        "fill" if call.method == "forward" => {
            let mut last = None;
            let mut fill = |number: &Option<f64>| {
                last = number.or(last);
                last
            };
            Ok(numbers.iter().map(&mut fill).collect())
        }
        "fill" => {
            let value = call.number(0)?;
            Ok(numbers.iter().map(|number| number.or(Some(value))).collect())
        }
        _ => Err("there is no such function; docs/irondb.md lists those that are".into()),
    }
}

fn changes(numbers: &Numbers, of: impl Fn(f64, f64) -> f64) -> Numbers {
    let change = |pair: &[Option<f64>]| pair[0].zip(pair[1]).map(|(before, now)| of(before, now));
    std::iter::once(None).chain(numbers.windows(2).map(change)).take(numbers.len()).collect()
}

fn windowed(call: &Call, numbers: &Numbers, grid: Grid) -> Result<Numbers, String> {
    let length = slots(call, grid)?;
    let of = statistic(&call.method).ok_or_else(|| format!("no statistic {:?}", call.method))?;
    let value = |at: usize| {
        let values: Vec<f64> =
            numbers[window(at, length, grid, call.name == "rolling")].iter().flatten().copied().collect();
        (!values.is_empty()).then(|| of(&values))
    };
    Ok((0..numbers.len()).map(value).collect())
}

fn each(call: &Call, numbers: &Numbers) -> Result<Numbers, String> {
    let with = |of: fn(f64, f64) -> f64| -> Result<Numbers, String> {
        let operand = call.number(0)?;
        Ok(numbers.iter().map(|number| number.map(|number| of(number, operand))).collect())
    };
    let alone = |of: fn(f64) -> f64| Ok(numbers.iter().map(|number| number.map(of)).collect());
    match &*call.method {
        "add" => with(|a, b| a + b),
        "sub" => with(|a, b| a - b),
        "mul" | "multiply" => with(|a, b| a * b),
        "div" | "divide" => with(|a, b| a / b),
        "pow" => with(f64::powf),
        "min" => with(f64::min),
        "max" => with(f64::max),
        "abs" => alone(f64::abs),
        "neg" => alone(|number| -number),
        "sqrt" => alone(f64::sqrt),
        "exp" => alone(f64::exp),
        "log" if call.arguments.is_empty() => alone(f64::ln),
        "log" => with(f64::log),
        "ceil" => alone(f64::ceil),
        "floor" => alone(f64::floor),
        "round" => alone(f64::round),
        method => Err(format!("there is no {method:?}; docs/irondb.md lists those that are")),
    }
}

/// The first column combined with each of the others by an operator: `op:sub()`, `op:div()`.
pub(super) fn folded(call: &Call, columns: &[Output], label: String) -> Result<Vec<Output>, String> {
    let of: fn(f64, f64) -> f64 = match &*call.method {
        "add" => |a, b| a + b,
        "sub" => |a, b| a - b,
        "mul" => |a, b| a * b,
        "div" => |a, b| a / b,
        method => return Err(format!("there is no {method:?}; there are sum, prod, min, max, add, sub, mul and div")),
    };
    let numbers = |output: &Output| match &output.column {
        Column::Numbers(numbers) => Ok(numbers.clone()),
        other => Err(format!("{:?} is a {} column, and numbers are needed", output.label, other.kind())),
    };
    let Some((first, others)) = columns.split_first() else { return Ok(Vec::new()) };
    let mut out = numbers(first)?;
    for other in others {
        for (value, number) in out.iter_mut().zip(numbers(other)?) {
            *value = value.zip(number).map(|(a, b)| of(a, b));
        }
    }
    Ok(vec![Output { label, tags: first.tags.clone(), column: Column::Numbers(out) }])
}

/// `top(K)` and `bottom(K)`: by the mean, or by `max` or `min` if the method says so.
pub(super) fn ranked(call: &Call, columns: Vec<Output>) -> Result<Vec<Output>, String> {
    let count = call.number(0)?;
    let way = match &*call.method {
        "" | "mean" => "mean",
        "max" => "max",
        method => return Err(format!("there is no {method:?}; there are mean and max")),
    };
    let grid = Grid { start_ms: 0, period_ms: 1, count: 0 };
    let all = columns.len();
    let params = |count: f64| vec![count.to_string(), way.to_owned()];
    if call.name == "top" {
        return reduce(columns, grid, "topk", &params(count), "");
    }
    let mut ranked = reduce(columns, grid, "topk", &params(all as f64), "")?;
    ranked.reverse();
    ranked.truncate(count.max(0.0) as usize);
    Ok(ranked)
}
