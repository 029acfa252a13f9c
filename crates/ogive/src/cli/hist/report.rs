//! What `ogive hist` prints: figures above a picture, or JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::picture::{Style, draw};
use super::tally::Tally;
use crate::cli::format::{human, quantile_name, thousands};

/// The JSON object. Its fields are part of the command's contract.
#[derive(Serialize)]
struct Report {
    count: u64,
    sum: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    mean: Option<f64>,
    quantiles: Vec<QuantileReport>,
    b64: String,
}

#[derive(Serialize)]
struct QuantileReport {
    q: f64,
    value: Option<f64>,
    lo: Option<f64>,
    hi: Option<f64>,
}

/// One line of JSON; values that are unknown for an empty or merged histogram are null.
pub(super) fn json(tally: &Tally, quantiles: &[f64]) -> anyhow::Result<String> {
    let (histogram, finer) = (&tally.histogram, tally.finest());
    let some = histogram.count > 0;
    let report = Report {
        count: histogram.count,
        sum: if some { Some(histogram.sum_or_estimate()) } else { Some(0.0) },
        min: histogram.min,
        max: histogram.max,
        mean: histogram.mean(),
        quantiles: quantiles
            .iter()
            .map(|q| {
                let found = finer.quantile(*q);
                QuantileReport {
                    q: *q,
                    value: found.map(|f| f.value),
                    lo: found.map(|f| f.lo),
                    hi: found.map(|f| f.hi),
                }
            })
            .collect(),
        b64: ogive_hist::openhistogram::encode_base64(histogram)?,
    };
    Ok(serde_json::to_string(&report)? + "\n")
}

/// Figures, quantiles with their bounds, and the picture.
pub(super) fn text(tally: &Tally, quantiles: &[f64], style: &Style) -> String {
    let histogram = &tally.histogram;
    if histogram.count == 0 {
        return "no numbers were read\n".into();
    }
    let (bold, dim, gold, reset) =
        if style.color { ("\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[0m") } else { ("", "", "", "") };
    let show = |value: f64| {
        let text = human(value, &style.unit);
        if style.ascii { text.replace('µ', "u") } else { text }
    };
    let mut out = format!("{dim}count{reset} {bold}{}{reset}", thousands(histogram.count));
    let mut figure = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            write!(out, "   {dim}{name}{reset} {bold}{}{reset}", show(value)).expect("writes to memory");
        }
    };
    figure("mean", histogram.mean());
    figure("stddev", histogram.stddev());
    figure("min", histogram.min);
    figure("max", histogram.max);
    figure("sum", histogram.sum);
    out.push_str("\n\n");
    let found: Vec<(String, ogive_hist::Quantile)> =
        quantiles.iter().filter_map(|q| Some((quantile_name(*q), tally.finest().quantile(*q)?))).collect();
    let dots = if style.ascii { ".." } else { "…" };
    for (name, found) in &found {
        let (value, lo, hi) = (show(found.value), show(found.lo), show(found.hi));
        let bounds = if found.lo == found.hi { "exact".to_string() } else { format!("{lo} {dots} {hi}") };
        writeln!(out, "  {gold}{name:<7}{reset} {bold}{value:>9}{reset}   {dim}{bounds}{reset}")
            .expect("writes to memory");
    }
    let marks: Vec<(String, f64)> = found.into_iter().map(|(name, found)| (name, found.value)).collect();
    out.push('\n');
    out.push_str(&draw(histogram, &marks, style));
    out
}
