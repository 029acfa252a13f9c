//! When an answer is what was expected.

use ogive_hist::{Bins, Histogram};
use ogive_model::Labels;
use ogive_query::{Value, value};

use super::notation::SeriesLine;
use super::points::{Point, is_stale};
use super::script::{Eval, Expect, Times};

/// Relative difference that two floats may have.
const EPSILON: f64 = 1e-6;

/// Whether two floats are the same as far as the scripts care.
pub(crate) fn almost(left: f64, right: f64) -> bool {
    if is_stale(left) || is_stale(right) {
        return is_stale(left) && is_stale(right);
    }
    if left == right || (left.is_nan() && right.is_nan()) {
        return true;
    }
    let (sum, difference) = (left.abs() + right.abs(), (left - right).abs());
    if left == 0.0 || right == 0.0 || sum < f64::MIN_POSITIVE {
        return difference < EPSILON * f64::MIN_POSITIVE;
    }
    difference / sum.min(f64::MAX) < EPSILON
}

/// Whether the value is what the script says.
pub(crate) fn value(eval: &Eval, value: &Value) -> Result<(), String> {
    let expect = &eval.expect;
    if let Some(wanted) = &expect.string {
        return match value {
            Value::String { value, .. } if value == wanted => Ok(()),
            other => Err(format!("expected string {wanted:?}, got {other:?}")),
        };
    }
    if let Some(wanted) = expect.scalar {
        return match value {
            Value::Scalar { value, .. } if almost(wanted, *value) => Ok(()),
            other => Err(format!("expected scalar {wanted}, got {other:?}")),
        };
    }
    match (value, eval.times, expect.range_vector) {
        (Value::Matrix(series), Times::Instant(_), Some((start, end, step)))
        | (Value::Matrix(series), Times::Range { start, end, step }, None) => matrix(expect, series, start, end, step),
        (Value::Vector(samples), Times::Instant(_), None) => vector(expect, samples),
        (other, ..) => Err(format!("got a value of another type: {other:?}")),
    }
}

/// Whether the annotations are those that the script says.
pub(crate) fn annotations(expect: &Expect, warnings: &[String], infos: &[String]) -> Result<(), String> {
    for (kind, rules, none, texts) in
        [("warning", &expect.warn, expect.no_warn, warnings), ("info", &expect.info, expect.no_info, infos)]
    {
        if none && !texts.is_empty() {
            return Err(format!("unexpected {kind}s: {texts:?}"));
        }
        if rules.is_empty() {
            continue;
        }
        if let Some(rule) = rules.iter().find(|rule| !texts.iter().any(|text| rule.accepts(text))) {
            return Err(format!("no {kind} is {rule:?}; got {texts:?}"));
        }
        if let Some(text) = texts.iter().find(|text| !rules.iter().any(|rule| rule.accepts(text))) {
            return Err(format!("unexpected {kind}: {text:?}"));
        }
    }
    Ok(())
}

fn vector(expect: &Expect, samples: &[value::InstantSample]) -> Result<(), String> {
    for (at, sample) in samples.iter().enumerate() {
        let place = expect.series.iter().position(|line| line.labels == sample.labels);
        let place = place.ok_or_else(|| format!("unexpected series {}", sample.labels))?;
        if expect.ordered && place != at {
            return Err(format!("expected {} at place {place}, got it at {at}", sample.labels));
        }
        point(&expect.series[place].points, &sample.value).map_err(|error| format!("{}: {error}", sample.labels))?;
        if samples[..at].iter().any(|other| other.labels == sample.labels) {
            return Err(format!("{} came twice", sample.labels));
        }
    }
    all_found(expect, |labels| samples.iter().any(|sample| sample.labels == *labels))
}

fn all_found(expect: &Expect, found: impl Fn(&Labels) -> bool) -> Result<(), String> {
    match expect.series.iter().find(|line| !found(&line.labels)) {
        Some(line) => Err(format!("expected series {} is not there", line.labels)),
        None => Ok(()),
    }
}

fn point(wanted: &[Point], got: &value::Point) -> Result<(), String> {
    let [wanted] = wanted else { return Err(format!("the script gives {} points for one", wanted.len())) };
    let same = match (wanted, got) {
        (Point::Float(wanted), value::Point::Float(got)) => almost(*wanted, *got),
        (Point::Histogram(wanted, hinted), value::Point::Histogram(got)) => histogram(wanted, *hinted, got),
        _ => false,
    };
    if same { Ok(()) } else { Err(format!("expected {wanted:?}, got {got:?}")) }
}

fn matrix(expect: &Expect, series: &[value::Series], start: i64, end: i64, step: i64) -> Result<(), String> {
    if let Some(pair) = series.windows(2).find(|pair| pair[0].labels >= pair[1].labels) {
        return Err(format!("{} comes before {}", pair[0].labels, pair[1].labels));
    }
    for one in series {
        let line = expect.series.iter().find(|line| line.labels == one.labels);
        let line = line.ok_or_else(|| format!("unexpected series {}", one.labels))?;
        same_series(line, one, start, end, step).map_err(|error| format!("{}: {error}", one.labels))?;
    }
    all_found(expect, |labels| series.iter().any(|one| one.labels == *labels))
}

fn same_series(line: &SeriesLine, got: &value::Series, start: i64, end: i64, step: i64) -> Result<(), String> {
    let (mut floats, mut histograms) = (got.floats.iter(), got.histograms.iter());
    for (wanted, time) in line.points.iter().zip((0..).map(|at| start + at * step)) {
        if time > end {
            return Err(format!("the script gives more points than {start}..{end} step {step} has"));
        }
        let found = match wanted {
            Point::Missing => continue,
            Point::Float(_) => floats.next().map(|(time, value)| (*time, value::Point::Float(*value))),
            Point::Histogram(..) => {
                histograms.next().map(|(time, value)| (*time, value::Point::Histogram(value.clone())))
            }
        };
        let Some((found_time, found)) = found else { return Err(format!("no {wanted:?} at {time}: got {got:?}")) };
        if found_time != time {
            return Err(format!("expected {wanted:?} at {time}, got {found:?} at {found_time}"));
        }
        point(std::slice::from_ref(wanted), &found).map_err(|error| format!("at {time}: {error}"))?;
    }
    match (floats.next(), histograms.next()) {
        (None, None) => Ok(()),
        more => Err(format!("unexpected point {more:?}")),
    }
}

/// Whether two histograms are the same; empty bins do not count.
fn histogram(wanted: &Histogram<f64>, hinted: bool, got: &Histogram<f64>) -> bool {
    wanted.scheme == got.scheme
        && wanted.zero_threshold == got.zero_threshold
        && almost(wanted.count, got.count)
        && almost(wanted.sum.unwrap_or(0.0), got.sum.unwrap_or(0.0))
        && almost(wanted.zero, got.zero)
        && bins(&wanted.positive, &got.positive)
        && bins(&wanted.negative, &got.negative)
        && (!hinted || wanted.reset == got.reset)
}

fn bins(wanted: &Bins<f64>, got: &Bins<f64>) -> bool {
    let full = |bins: &Bins<f64>| bins.iter().filter(|(_, count)| *count != 0.0).collect::<Vec<_>>();
    let (wanted, got) = (full(wanted), full(got));
    wanted.len() == got.len() && wanted.iter().zip(&got).all(|(w, g)| w.0 == g.0 && almost(w.1, g.1))
}
