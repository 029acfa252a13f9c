//! What is made of a stream before it is reduced with others.

use ogive_hist::Histogram;

use super::{Column, Grid, Texts, parameter};
use crate::rollup::{Point, Rollup, rollups};

/// The stored data of a stream, each list ascending in time.
#[derive(Clone, Copy, Debug)]
pub enum Data<'d> {
    /// Numbers; those before the grid are the basis for the first changes.
    Numbers(&'d [Point]),
    /// Distributions and their times.
    Histograms(&'d [(i64, Histogram<u64>)]),
    /// Texts and their times.
    Texts(&'d [(i64, String)]),
}

/// A stream in slots, transformed.
///
/// # Errors
/// A sentence, for a transform that is unknown or lacks a parameter.
pub fn transform(data: Data<'_>, grid: Grid, name: &str, params: &[String]) -> Result<Column, String> {
    match data {
        Data::Numbers(points) => numbers(&rollups(points, grid.start_ms, grid.period_ms, grid.count), name),
        Data::Histograms(all) => {
            let mut slots: Vec<Option<Histogram<u64>>> = vec![None; grid.count];
            for (time_ms, histogram) in all {
                let Some(slot) = grid.slot(*time_ms) else { continue };
                match &mut slots[slot] {
                    empty @ None => *empty = Some(histogram.clone()),
                    Some(all) => all.merge(histogram).map_err(|_| "the histograms have different bins".to_owned())?,
                }
            }
            histograms(slots, grid, name, params)
        }
        Data::Texts(all) => {
            let mut slots: Vec<Texts> = vec![Vec::new(); grid.count];
            for (time_ms, text) in all {
                let Some(slot) = grid.slot(*time_ms) else { continue };
                slots[slot].push((time_ms - grid.start_ms - grid.period_ms * slot as i64, text.clone()));
            }
            texts(slots, name)
        }
    }
}

fn numbers(rollups: &[Option<Rollup>], name: &str) -> Result<Column, String> {
    let field = match name {
        "" | "none" | "mean" => "average",
        "rate" => "derivative",
        name => name,
    };
    let of = |rollup: &Rollup| match field {
        "sum" => Some(rollup.value.mean * rollup.count),
        field => rollup.field(field),
    };
    if of(&Rollup::default()).is_none() {
        return Err(format!(
            "no transform {name:?} of numbers; there are average, count, sum, stddev, derivative and counter"
        ));
    }
    Ok(Column::Numbers(rollups.iter().map(|rollup| rollup.as_ref().and_then(of)).collect()))
}

/// Histograms, or a number derived from each.
pub(crate) fn histograms(
    slots: Vec<Option<Histogram<u64>>>,
    grid: Grid,
    name: &str,
    params: &[String],
) -> Result<Column, String> {
    if matches!(name, "" | "none") {
        return Ok(Column::Histograms(slots));
    }
    let needs_parameter = matches!(
        name,
        "quantile" | "percentile" | "inverse_quantile" | "inverse_percentile" | "count_above" | "count_below"
    );
    let parameter = if needs_parameter { parameter(params, 0, name)? } else { 0.0 };
    let quantile = if name == "percentile" { parameter / 100.0 } else { parameter };
    if matches!(name, "quantile" | "percentile") && !(0.0..=1.0).contains(&quantile) {
        return Err(format!("{name}: {parameter} is out of its range"));
    }
    let seconds = grid.period_ms as f64 / 1_000.0;
    let of: &dyn Fn(&Histogram<u64>) -> Option<f64> = match name {
        "count" => &|one| Some(one.total() as f64),
        "rate" => &|one| Some(one.total() as f64 / seconds),
        "sum" => &|one| Some(one.sum_of_bins()),
        "mean" => &|one| one.mean_of_bins(),
        "stddev" => &|one| one.stddev(),
        "min" => &|one| one.buckets().find(|bucket| bucket.count > 0).map(|bucket| bucket.lo),
        "max" => &|one| one.buckets().rfind(|bucket| bucket.count > 0).map(|bucket| bucket.hi),
        "quantile" | "percentile" => &|one| Some(one.quantile_type1(quantile)).filter(|value| !value.is_nan()),
        "inverse_quantile" => &|one| Some(one.fraction_below(parameter)).filter(|value| !value.is_nan()),
        "inverse_percentile" => &|one| Some(100.0 * one.fraction_below(parameter)).filter(|value| !value.is_nan()),
        "count_above" => &|one| Some(one.count_above(parameter) as f64),
        "count_below" => &|one| Some(one.count_below(parameter) as f64),
        _ => return Err(format!("no transform {name:?} of histograms; docs/irondb.md has those that are")),
    };
    Ok(Column::Numbers(slots.iter().map(|slot| slot.as_ref().and_then(of)).collect()))
}

fn texts(slots: Vec<Texts>, name: &str) -> Result<Column, String> {
    let of = |of: &dyn Fn(&Texts) -> usize| {
        let number = |texts: &Texts| (!texts.is_empty()).then(|| of(texts) as f64);
        Column::Numbers(slots.iter().map(number).collect())
    };
    Ok(match name {
        "" | "none" => Column::Texts(slots),
        "count" => of(&Vec::len),
        "distinct" => of(&|texts| texts.iter().map(|(_, text)| text).collect::<std::collections::BTreeSet<_>>().len()),
        "transition" => of(&|texts| texts.windows(2).filter(|pair| pair[0].1 != pair[1].1).count()),
        _ => return Err(format!("no transform {name:?} of texts; there are none, count, distinct and transition")),
    })
}
