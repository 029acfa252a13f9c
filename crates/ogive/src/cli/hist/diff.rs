//! `ogive hist diff A B`: how far two distributions are apart, and whether that is more than chance.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use ogive_hist::{Distance, FLOORS, Histogram, Verdict};
use serde::Serialize;

use super::input::{load, print, quantile};
use super::number::Dimension;
use super::tally::{Input, Tally};
use crate::cli::exit::EXIT_FINDING;
use crate::cli::format::{human, quantile_name, thousands};

/// Compares the numbers of two files: how much slower (greater) the second is, and whether the difference is more
/// than noise.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The distance is the area between both distribution functions on a logarithmic axis: 0.049 when every number is 5 % greater.
Its noise floor is what it is expected to be when nothing differs but the samples. As with diff, the exit code is 1 when the
files differ: when the distance is more than twice the floor. Between once and twice the floor it is undecided. Chance alone passes twice the floor about once in fifteen times, and three
times the floor hardly ever: --floors 3 is for who would rather miss a difference than see one that is not there.

  ogive hist diff before.txt after.txt --unit ms
  ogive hist diff --hlog monday.hlog tuesday.hlog")]
pub(super) struct Diff {
    /// What to compare with; `-` is standard input.
    before: PathBuf,
    /// What is compared.
    after: PathBuf,
    #[command(flatten)]
    input: Input,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// A difference is reported when the distance exceeds its noise floor by this factor.
    #[arg(long, default_value_t = FLOORS, value_parser = floors)]
    floors: f64,
    /// Quantiles to compare, between 0 and 1.
    #[arg(long, short, value_delimiter = ',', default_value = "0.5,0.9,0.99,0.999", value_parser = quantile)]
    quantiles: Vec<f64>,
}

fn floors(text: &str) -> Result<f64, String> {
    match text.trim().parse() {
        Ok(floors) if (0.0..=1e6).contains(&floors) => Ok(floors),
        _ => Err("it is a number from 0, such as 3".into()),
    }
}

/// Runs the command.
pub(super) fn run(options: &Diff) -> anyhow::Result<ExitCode> {
    let mut sides = Vec::new();
    for path in [&options.before, &options.after] {
        let Some(tally) = load(std::slice::from_ref(path), &options.input)? else {
            return Ok(ExitCode::from(EXIT_FINDING));
        };
        sides.push(tally);
    }
    let sides = [&sides[0], &sides[1]];
    if let (Some(left), Some(right)) = (sides[0].dimension, sides[1].dimension)
        && left != right
    {
        bail!("one file is in {}, the other in {}: they have no distance", left.base_unit(), right.base_unit());
    }
    let Some(distance) = sides[0].finest().distance(sides[1].finest()) else {
        let empty = if sides[0].histogram.total() == 0 { &options.before } else { &options.after };
        bail!("{} holds no numbers: there is nothing to compare", empty.display());
    };
    let text = if options.json { json(sides, &distance, options.floors)? } else { text(sides, &distance, options) };
    print(&text)?;
    let skipped = sides.iter().any(|tally| tally.skipped > 0);
    Ok(if skipped || distance.verdict(options.floors).differs() {
        ExitCode::from(EXIT_FINDING)
    } else {
        ExitCode::SUCCESS
    })
}

/// The JSON object. Its fields are part of the command's contract.
#[derive(Serialize)]
struct Report {
    counts: [f64; 2],
    slower: Option<f64>,
    distance: Option<f64>,
    noise: Option<f64>,
    ks: f64,
    ks_noise: f64,
    modes: [Option<usize>; 2],
    /// How many times its noise floor the distance is, and from how many on it is a difference.
    times: Option<f64>,
    floors: f64,
    differ: bool,
    /// It does not differ, and is above the floor.
    undecided: bool,
}

fn json(sides: [&Tally; 2], distance: &Distance, floors: f64) -> anyhow::Result<String> {
    let report = Report {
        counts: distance.samples,
        slower: distance.log.map(|log| log.slower()),
        distance: distance.log.map(|log| log.emd),
        noise: distance.log.map(|log| log.noise),
        ks: distance.ks,
        ks_noise: distance.ks_noise,
        modes: sides.map(|tally| modes(&tally.histogram)),
        times: distance.log.map(|log| log.floors()),
        floors,
        differ: distance.verdict(floors).differs(),
        undecided: distance.verdict(floors) == Verdict::Undecided,
    };
    Ok(serde_json::to_string(&report)? + "\n")
}

fn modes(histogram: &Histogram) -> Option<usize> {
    histogram.modes().ok().map(|found| found.modes.len())
}

fn text(sides: [&Tally; 2], distance: &Distance, options: &Diff) -> String {
    let dimension = sides[0].dimension.or(sides[1].dimension);
    let unit = dimension.map_or("", Dimension::base_unit);
    let mut out = format!("{:10}{:>12}{:>12}\n", "", "before", "after");
    let mut line = |name: &str, texts: [String; 2], change: String| {
        let text = format!("{name:10}{:>12}{:>12}{change:>11}", texts[0], texts[1]);
        writeln!(out, "{}", text.trim_end()).expect("writes to memory");
    };
    line("count", sides.map(|tally| thousands(tally.histogram.count)), String::new());
    for q in &options.quantiles {
        let found = sides.map(|tally| tally.finest().quantile(*q).map(|found| found.value));
        if let [Some(left), Some(right)] = found {
            let change = if left > 0.0 { format!("{:+.1} %", (right / left - 1.0) * 100.0) } else { String::new() };
            line(&quantile_name(*q), [human(left, unit), human(right, unit)], change);
        }
    }
    let changes = sides[0].finest().changes(sides[1].finest(), &options.quantiles);
    let durations = dimension == Some(Dimension::Time);
    let count = |tally: &Tally| modes(&tally.histogram).map_or_else(|| "too few".into(), |count| count.to_string());
    line("modes", sides.map(count), String::new());
    out.push('\n');
    match &distance.log {
        Some(log) => {
            let sentence = distance.sentence(options.floors, durations);
            let (emd, noise, floors) = (log.emd, log.noise, log.floors());
            writeln!(out, "{sentence}\ndistance {emd:.4}, noise floor {noise:.4}: {floors:.1} times the floor")
                .expect("writes to memory");
        }
        None => out.push_str("a side has no numbers above zero: there is no distance on a logarithmic axis\n"),
    }
    let words: Vec<String> = changes.iter().map(|change| change.words(durations)).collect();
    writeln!(out, "{} (95 % of such intervals hold the true change)", words.join(", ")).expect("writes to memory");
    writeln!(out, "Kolmogorov-Smirnov {:.4}, noise floor {:.4}", distance.ks, distance.ks_noise)
        .expect("writes to memory");
    out
}
