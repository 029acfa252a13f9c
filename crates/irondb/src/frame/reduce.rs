//! What is made of several columns.

use std::collections::BTreeMap;

use ogive_hist::Histogram;

use super::{Column, Grid, Output, parameter, transform};

/// Columns reduced by `method`.
///
/// # Errors
/// A sentence, for a method that is unknown, lacks a parameter, or does not support the kinds.
pub fn reduce(
    inputs: Vec<Output>,
    grid: Grid,
    method: &str,
    params: &[String],
    label: &str,
) -> Result<Vec<Output>, String> {
    if let Some(name) = method.strip_prefix("each_") {
        return inputs.into_iter().map(|input| each(input, grid, name, params)).collect();
    }
    if let Some(method) = method.strip_prefix("groupby_") {
        return grouped(inputs, grid, method, params, label);
    }
    match method {
        "" | "pass" | "none" => Ok(inputs),
        "topk" => top(inputs, params),
        _ if inputs.is_empty() => Ok(inputs),
        _ => joined(&inputs, grid, method)
            .map(|column| vec![Output { label: label.into(), tags: common(&inputs), column }]),
    }
}

fn each(mut input: Output, grid: Grid, name: &str, params: &[String]) -> Result<Output, String> {
    input.column = match input.column {
        Column::Histograms(slots) => transform::histograms(slots, grid, name, params)?,
        other => return Err(format!("each_{name} is of histograms, and there is a {} column", other.kind())),
    };
    Ok(input)
}

/// The tags that all have.
fn common(inputs: &[Output]) -> Vec<(String, String)> {
    let Some((first, others)) = inputs.split_first() else { return Vec::new() };
    first.tags.iter().filter(|tag| others.iter().all(|other| other.tags.contains(tag))).cloned().collect()
}

fn numbers(input: &Output) -> Result<&[Option<f64>], String> {
    match &input.column {
        Column::Numbers(numbers) => Ok(numbers),
        other => Err(format!("{:?} is a {} column, and numbers are needed", input.label, other.kind())),
    }
}

/// One column from all.
fn joined(inputs: &[Output], grid: Grid, method: &str) -> Result<Column, String> {
    if method == "merge" {
        return merged(inputs, grid);
    }
    let columns = inputs.iter().map(numbers).collect::<Result<Vec<_>, _>>()?;
    let slot =
        |at: usize| -> Vec<f64> { columns.iter().filter_map(|column| column.get(at).copied().flatten()).collect() };
    let of: fn(&[f64]) -> f64 = statistic(method).ok_or_else(|| {
        format!("no reduction {method:?}; there are pass, mean, sum, min, max, count, stddev, median, merge, topk and groupby_")
    })?;
    let value = |at| {
        let values = slot(at);
        (!values.is_empty()).then(|| of(&values))
    };
    Ok(Column::Numbers((0..grid.count).map(value).collect()))
}

/// A statistic of numbers that are there.
pub(crate) fn statistic(name: &str) -> Option<fn(&[f64]) -> f64> {
    Some(match name {
        "mean" | "average" | "avg" => |values| values.iter().sum::<f64>() / values.len() as f64,
        "sum" => |values| values.iter().sum(),
        "min" => |values| values.iter().copied().fold(f64::INFINITY, f64::min),
        "max" => |values| values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        "count" => |values| values.len() as f64,
        "prod" => |values| values.iter().product(),
        "first" => |values| values[0],
        "last" => |values| values[values.len() - 1],
        "range" => |values| {
            values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
                - values.iter().copied().fold(f64::INFINITY, f64::min)
        },
        "stddev" => |values| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
        },
        "median" => |values| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            let middle = sorted.len() / 2;
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
        },
        _ => return None,
    })
}

/// One histogram a slot, of histograms and numbers.
fn merged(inputs: &[Output], grid: Grid) -> Result<Column, String> {
    let mut slots: Vec<Option<Histogram<u64>>> = vec![None; grid.count];
    for input in inputs {
        match &input.column {
            Column::Histograms(all) => {
                for (slot, one) in slots.iter_mut().zip(all) {
                    let Some(one) = one else { continue };
                    match slot {
                        None => *slot = Some(one.clone()),
                        Some(all) => all.merge(one).map_err(|_| "the histograms have different bins".to_owned())?,
                    }
                }
            }
            Column::Numbers(numbers) => {
                for (slot, number) in slots.iter_mut().zip(numbers) {
                    let Some(number) = number else { continue };
                    slot.get_or_insert_with(Histogram::log_linear).record(*number);
                }
            }
            Column::Texts(_) => return Err(format!("{:?} is a text column, which cannot be merged", input.label)),
        }
    }
    Ok(Column::Histograms(slots))
}

fn grouped(
    inputs: Vec<Output>,
    grid: Grid,
    method: &str,
    categories: &[String],
    label: &str,
) -> Result<Vec<Output>, String> {
    let mut groups: BTreeMap<Vec<(String, String)>, Vec<Output>> = BTreeMap::new();
    for input in inputs {
        let key = input.tags.iter().filter(|(category, _)| categories.contains(category)).cloned().collect();
        groups.entry(key).or_default().push(input);
    }
    let mut out = Vec::new();
    for (tags, inputs) in groups {
        let methods: &[&str] = if method == "stats" { &["count", "mean", "min", "max"] } else { &[method] };
        for method in methods {
            let column = joined(&inputs, grid, method)?;
            out.push(Output { label: label.into(), tags: tags.clone(), column });
        }
    }
    Ok(out)
}

/// The inputs with the highest ranks, highest first.
pub(crate) fn top(inputs: Vec<Output>, params: &[String]) -> Result<Vec<Output>, String> {
    let count = parameter(params, 0, "topk")?;
    if count.is_nan() || count < 0.0 {
        return Err(format!("topk: {count} is not a number of streams"));
    }
    let way = params.get(1).map_or("mean", String::as_str);
    let quantile = if way == "quantile" { parameter(params, 2, "topk")? } else { 0.0 };
    if !matches!(way, "mean" | "max" | "quantile") || !(0.0..=1.0).contains(&quantile) {
        return Err(format!("topk: {way:?} is none of mean, max and quantile from 0 to 1"));
    }
    let mut ranked = Vec::new();
    for input in inputs {
        ranked.push((rank(&input, way, quantile)?, input));
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    Ok(ranked.into_iter().take(count as usize).map(|(_, input)| input).collect())
}

fn rank(input: &Output, way: &str, quantile: f64) -> Result<f64, String> {
    let lowest = f64::NEG_INFINITY;
    match &input.column {
        Column::Numbers(numbers) => {
            let mut values: Vec<f64> = numbers.iter().flatten().copied().collect();
            values.sort_by(f64::total_cmp);
            let Some(last) = values.last().copied() else { return Ok(lowest) };
            Ok(match way {
                "max" => last,
                "mean" => values.iter().sum::<f64>() / values.len() as f64,
                _ => values[((values.len() - 1) as f64 * quantile).round() as usize],
            })
        }
        Column::Histograms(slots) => {
            let mut all = Histogram::log_linear();
            for one in slots.iter().flatten() {
                all.merge(one).map_err(|_| "the histograms have different bins".to_owned())?;
            }
            let value = match way {
                "mean" => all.mean_of_bins().unwrap_or(lowest),
                "max" => all.quantile_type1(1.0),
                _ => all.quantile_type1(quantile),
            };
            Ok(if value.is_nan() { lowest } else { value })
        }
        Column::Texts(_) => Err(format!("{:?} is a text column, which has no rank", input.label)),
    }
}
