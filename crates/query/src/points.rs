//! The notation of test series in rule tests and conformance scripts: numbers, gaps, stale markers and histogram
//! literals, with repetition: `1+1x3 _ stale {{schema:0 count:2 buckets:[1 1]}}x2`.
//!
//! Limits: [`POINTS_MAX`] points of a series.

use std::sync::LazyLock;

use ogive_hist::{CounterReset, Histogram, Scheme};
use ogive_model::STALE;
use regex::Regex;

/// Most points of one series: two years of minutes.
pub const POINTS_MAX: usize = 1_000_000;

/// One point of the notation.
#[derive(Clone, Debug, PartialEq)]
pub enum Point {
    /// `_`
    Missing,
    /// A number, or `stale`.
    Float(f64),
    /// A histogram, and whether its counter reset hint was written.
    Histogram(Box<Histogram<f64>>, bool),
}

/// All points of a line.
///
/// The error, with the token; also for more than [`POINTS_MAX`] points.
/// What is wrong, with the token; more than [`POINTS_MAX`] points.
pub fn parse(text: &str) -> Result<Vec<Point>, String> {
    let mut out = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let length = token_length(rest)?;
        token(&rest[..length], &mut out).map_err(|error| format!("{:?}: {error}", &rest[..length]))?;
        if out.len() > POINTS_MAX {
            return Err(format!("more than {POINTS_MAX} points"));
        }
        rest = rest[length..].trim_start();
    }
    Ok(out)
}

/// Bytes up to the next blank outside of `{{..}}`.
fn token_length(text: &str) -> Result<usize, String> {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("{{") {
            at += rest.find("}}").ok_or("a histogram without its end")? + 2;
        } else if rest.starts_with([' ', '\t']) {
            break;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    Ok(at)
}

fn token(text: &str, out: &mut Vec<Point>) -> Result<(), String> {
    if let Some(count) = text.strip_prefix("_x") {
        out.extend(vec![Point::Missing; repetition(count)?]);
    } else if text == "_" {
        out.push(Point::Missing);
    } else if text == "stale" {
        out.push(Point::Float(f64::from_bits(STALE)));
    } else if text.starts_with("{{") {
        histograms(text, out)?;
    } else {
        out.extend(numbers(text, number)?.into_iter().map(Point::Float));
    }
    Ok(())
}

static SEQUENCE: LazyLock<Regex> = LazyLock::new(|| {
    let number = r"(?:inf|nan|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?(?:ms|[smhdwy])?)";
    Regex::new(&format!(r"(?i)^([+-]?{number})(?:([+-])({number}))?x([0-9]+)$")).expect("a good pattern")
});

/// `A`, `AxN` (A repeated N+1 times), `A+BxN` and `A-BxN` (N+1 values); `read` gives the value of one number.
pub fn numbers(text: &str, read: impl Fn(&str) -> Result<f64, String>) -> Result<Vec<f64>, String> {
    let Some(parts) = SEQUENCE.captures(text) else { return Ok(vec![read(text)?]) };
    let part = |at: usize| parts.get(at).map_or("", |found| found.as_str());
    let step = match part(2) {
        "" => 0.0,
        "-" => -read(part(3))?,
        _ => read(part(3))?,
    };
    let mut value = read(part(1))?;
    let mut out = vec![value];
    for _ in 0..repetition(part(4))? {
        // Added up as in the reference, so that rounding agrees.
        if step != 0.0 {
            value += step;
        }
        out.push(value);
    }
    Ok(out)
}

/// A number of the notation.
pub fn number(text: &str) -> Result<f64, String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Some(hex) = digits.strip_prefix("0x") {
        return i64::from_str_radix(hex, 16).map(|value| sign * value as f64).map_err(|error| error.to_string());
    }
    if digits.starts_with(['+', '-']) {
        return Err("two signs".to_owned());
    }
    digits.parse::<f64>().map(|value| sign * value).map_err(|error| error.to_string())
}

fn repetition(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count < POINTS_MAX).ok_or_else(|| format!("bad repetition {text:?}"))
}

fn histograms(text: &str, out: &mut Vec<Point>) -> Result<(), String> {
    let end = text.find("}}").ok_or("a histogram without its end")? + 2;
    let (first, hinted) = histogram(&text[..end])?;
    let rest = &text[end..];
    if rest.is_empty() {
        out.push(Point::Histogram(first, hinted));
        return Ok(());
    }
    if let Some(count) = rest.strip_prefix('x') {
        out.extend(vec![Point::Histogram(first, hinted); repetition(count)? + 1]);
        return Ok(());
    }
    let end = rest.find("}}").ok_or("a step is missing")? + 2;
    let (mut step, _) = histogram(&rest[1..end])?;
    if rest.starts_with('-') {
        step.scale_by(-1.0);
    }
    let count = repetition(rest[end..].strip_prefix('x').ok_or("a repetition is missing")?)?;
    let mut value = first;
    out.push(Point::Histogram(value.clone(), hinted));
    for _ in 0..count {
        value.reset = combined_hint(value.reset, step.reset);
        let hint = value.reset;
        value.merge(&step).map_err(|error| error.to_string())?;
        value.reset = hint;
        out.push(Point::Histogram(value.clone(), hinted));
    }
    Ok(())
}

/// The hint of a sum: a gauge stays one, and equal hints stay.
fn combined_hint(left: CounterReset, right: CounterReset) -> CounterReset {
    if left == right {
        left
    } else if left == CounterReset::Gauge || right == CounterReset::Gauge {
        CounterReset::Gauge
    } else {
        CounterReset::Unknown
    }
}

/// `{{key:value ..}}`, and whether the hint was written.
fn histogram(text: &str) -> Result<(Box<Histogram<f64>>, bool), String> {
    let inner = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).ok_or("not a histogram")?;
    let mut literal = Literal::default();
    let mut rest = inner.trim();
    while !rest.is_empty() {
        let (key, tail) = rest.split_once(':').ok_or_else(|| format!("no value behind {rest:?}"))?;
        let tail = tail.trim_start();
        let length = match tail.strip_prefix('[') {
            Some(list) => list.find(']').ok_or("a list without its end")? + 2,
            None => tail.find([' ', '\t']).unwrap_or(tail.len()),
        };
        literal.set(key.trim(), &tail[..length])?;
        rest = tail[length..].trim_start();
    }
    literal.finish()
}

/// A literal that is being parsed.
#[derive(Default)]
struct Literal {
    schema: i32,
    count: f64,
    sum: f64,
    zero: f64,
    zero_threshold: f64,
    offset: i32,
    positive: Vec<f64>,
    negative_offset: i32,
    negative: Vec<f64>,
    bounds: Vec<f64>,
    hint: Option<CounterReset>,
}

impl Literal {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let integer = || value.parse::<i32>().map_err(|error| format!("{key}: {error}"));
        match key {
            "schema" => self.schema = integer()?,
            "count" => self.count = number(value)?,
            "sum" => self.sum = number(value)?,
            "z_bucket" => self.zero = number(value)?,
            "z_bucket_w" => self.zero_threshold = number(value)?,
            "offset" => self.offset = integer()?,
            "n_offset" => self.negative_offset = integer()?,
            "buckets" => self.positive = list(value)?,
            "n_buckets" => self.negative = list(value)?,
            "custom_values" => self.bounds = list(value)?,
            "counter_reset_hint" => self.hint = Some(hint(value)?),
            _ => return Err(format!("unknown key {key:?}")),
        }
        Ok(())
    }

    fn finish(self) -> Result<(Box<Histogram<f64>>, bool), String> {
        let scheme = match self.schema {
            -53 => Scheme::Custom { bounds: self.bounds.into() },
            scale => Scheme::Exp2 { scale: i8::try_from(scale).map_err(|_| format!("bad schema {scale}"))? },
        };
        let mut out = Histogram::new(scheme);
        out.count = self.count;
        out.sum = Some(self.sum);
        out.zero = self.zero;
        out.zero_threshold = self.zero_threshold;
        out.positive = (self.offset..).zip(self.positive).collect();
        out.negative = (self.negative_offset..).zip(self.negative).collect();
        out.reset = self.hint.unwrap_or_default();
        Ok((Box::new(out), self.hint.is_some()))
    }
}

fn list(text: &str) -> Result<Vec<f64>, String> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or("not a list")?;
    inner.split_whitespace().map(number).collect()
}

fn hint(text: &str) -> Result<CounterReset, String> {
    Ok(match text {
        "unknown" => CounterReset::Unknown,
        "reset" => CounterReset::Reset,
        "not_reset" => CounterReset::NotReset,
        "gauge" => CounterReset::Gauge,
        _ => return Err(format!("unknown hint {text:?}")),
    })
}
