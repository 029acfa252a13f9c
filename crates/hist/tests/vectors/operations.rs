//! Merging, transforming and placing.

use ogive_hist::openhistogram::{ForeignBucket, Placement, from_buckets};
use ogive_hist::{DecimalBin, Histogram};
use serde_json::Value;

use crate::support::{Counted, Outcome, bins, bins_of, canonical, close, count, edges, expect, histogram, number};

/// Histograms added to one, or taken from one.
pub(crate) fn merge(_: &str, record: &Value) -> Outcome {
    let mut left = histogram(&bins(&record["a"]));
    let result = bins(&record["result"]);
    let others: Vec<Histogram> =
        record["b"].as_array().expect("b is a list").iter().map(|other| histogram(&bins(other))).collect();
    match record["op"].as_str() {
        Some("accumulate") => {
            for other in &others {
                left.merge(other).map_err(|error| error.to_string())?;
            }
            // The library keeps bins that count nothing; its return code is the number of all.
            expect("return code", record["rc"].as_i64(), Some(result.len() as i64))?;
        }
        Some("subtract") => {
            let mut clean = true;
            for other in &others {
                clean &= left.subtract(other).map_err(|error| error.to_string())?.is_none();
            }
            expect("return code", Some(if clean { 0 } else { -1 }), record["rc"].as_i64())?;
        }
        other => return Err(format!("no test knows operation {other:?}")),
    }
    let expected = canonical(&result);
    expect("total", left.count, expected.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count)))?;
    expect("bins", bins_of(&left), expected)?;
    Ok(false)
}

/// Compression, clamping and removal.
pub(crate) fn transform(_: &str, record: &Value) -> Outcome {
    let before = bins(&record["a"]);
    let mut changed = histogram(&before);
    let expected = canonical(&bins(&record["result"]));
    match record["op"].as_str() {
        Some("compress_mbe") => {
            let exponent = i8::try_from(record["mbe"].as_i64().expect("an exponent")).expect("of 8 bits");
            changed.compress_below(exponent);
        }
        Some("clamp") => {
            let (lower, upper) = (number(&record["lower"]), number(&record["upper"]));
            changed.clamp_to(lower, upper);
            return clamped(&before, &bins_of(&changed), &expected, lower, upper);
        }
        Some("remove") => {
            let removed = changed.remove(number(&record["value"]), count(&record["n"]));
            expect("removed", removed, count(&record["removed"]))?;
        }
        other => return Err(format!("no test knows operation {other:?}")),
    }
    expect("bins", bins_of(&changed), expected)?;
    Ok(false)
}

/// Bins whose edge meets a bound up to rounding may be kept or not: the library's edges are a rounding off. All others
/// must be as it says.
fn clamped(before: &[Counted], found: &[Counted], expected: &[Counted], lower: f64, upper: f64) -> Outcome {
    let mut by_rule = false;
    expect("counts as before", expected.iter().all(|entry| canonical(before).contains(entry)), true)?;
    for entry in canonical(before) {
        let (kept, library) = (found.contains(&entry), expected.contains(&entry));
        if kept != library {
            let (lo, hi) = edges(entry.0);
            let meets = (lo - upper).abs() <= 1e-15 * upper.abs() || (hi - lower).abs() <= 1e-15 * lower.abs();
            expect(&format!("bin {:?} kept", entry.0), kept || meets, library || meets)?;
            by_rule = true;
        }
    }
    expect("no bin is new", found.iter().all(|entry| before.contains(entry)), true)?;
    Ok(by_rule)
}

/// Foreign buckets placed into bins.
pub(crate) fn adhoc(_: &str, record: &Value) -> Outcome {
    let placement = match record["mode"].as_str() {
        Some("high") => Placement::High,
        Some("low") => Placement::Low,
        Some("mid") => Placement::Mid,
        Some("harmonic_mean") => Placement::HarmonicMean,
        other => return Err(format!("no test knows mode {other:?}")),
    };
    let buckets: Vec<ForeignBucket> = record["in"]
        .as_array()
        .expect("in is a list")
        .iter()
        .map(|bucket| ForeignBucket { count: count(&bucket[0]), lower: number(&bucket[1]), upper: number(&bucket[2]) })
        .collect();
    let found = bins_of(&from_buckets(placement, &buckets));
    let expected = canonical(&bins(&record["result"]));
    if found == expected {
        return Ok(false);
    }
    // The library places a tail after a bucket below zero outside its own bounds; nothing else may differ.
    let tail = buckets.last().filter(|tail| tail.upper >= 1e128 && buckets.len() > 1);
    let outside = |bin: DecimalBin| tail.is_some_and(|tail| edges(bin).1 <= tail.lower);
    let strays: Vec<&Counted> = expected.iter().filter(|entry| !found.contains(entry)).collect();
    match (&strays[..], tail) {
        ([stray], Some(tail)) if outside(stray.0) && buckets[buckets.len() - 2].lower < 0.0 => {
            let total = |bins: &[Counted]| bins.iter().map(|(_, count)| *count as f64).sum::<f64>();
            close("samples placed", total(&found), total(&expected), 0.0)?;
            expect("the tail is within its bounds", found.iter().any(|(bin, _)| edges(*bin).0 >= tail.lower), true)?;
            Ok(true)
        }
        _ => Err(format!("found {found:?}, expected {expected:?}")),
    }
}
