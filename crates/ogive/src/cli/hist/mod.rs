//! `ogive hist`: numbers from standard input or files to quantiles, a picture, JSON or base64; `ogive hist diff`: two
//! files compared.
//!
//! Invariants: every token is counted, either in the histogram or as a skipped one with its line.
//! Failure: a bad token is reported with its line and skipped (`--strict`: ends the run); either way the exit code
//! is 1. Only the first [`COMPLAINTS_MAX`] are printed one by one.

mod dense;
mod diff;
mod extract;
mod hlog;
mod input;
mod interval_logs;
mod number;
mod picture;
mod reader;
mod report;
mod tally;

use std::path::PathBuf;
use std::process::ExitCode;

use self::input::{load, print, quantile};
use self::number::Dimension;
pub(crate) use self::picture::{Style, draw};
use self::tally::{Input, Tally};
use crate::cli::exit::EXIT_FINDING;
use crate::cli::terminal::Terminal;

/// Reads numbers and prints quantiles and a picture of their distribution.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A line holds one or more numbers, separated by spaces, commas or semicolons; # begins a comment.
A number may carry a unit: ns us ms s m h d, B kB MB GB TB KiB MiB GiB TiB, or k M G T; 5 ms and 1m30.5s are accepted too.
A number that cannot be read is reported with its line and skipped, and the exit code is then 1.

  ping -c 100 localhost | ogive hist --regex 'time=([0-9.]+ ms)'
  ogive hist --field duration_ms --unit ms app.log
  awk '{print $NF}' access.log | ogive hist --json | jq .mean
  cat monday.b64 tuesday.b64 | ogive hist --merge
  ogive hist --hlog hiccup.hlog
  ogive hist diff before.txt after.txt --unit ms")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Hist {
    #[command(subcommand)]
    command: Option<Command>,
    /// Files to read; standard input when there are none, or for `-`.
    files: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "b64")]
    json: bool,
    /// Print the histogram itself as OpenHistogram base64.
    #[arg(long)]
    b64: bool,
    #[command(flatten)]
    input: Input,
    /// Quantiles to print, between 0 and 1.
    #[arg(long, short, value_delimiter = ',', default_value = "0.5,0.9,0.95,0.99,0.999", value_parser = quantile)]
    quantiles: Vec<f64>,
    /// Maximum rows of the picture.
    #[arg(long, value_parser = clap::value_parser!(u16).range(4..=1000))]
    rows: Option<u16>,
    /// Draw with ASCII characters only.
    #[arg(long)]
    ascii: bool,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Diff(diff::Diff),
}

/// Runs the command.
pub(crate) fn run(options: &Hist, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    if let Some(Command::Diff(options)) = &options.command {
        return diff::run(options);
    }
    let Some(tally) = load(&options.files, &options.input)? else {
        return Ok(ExitCode::from(EXIT_FINDING));
    };
    let text = if options.json {
        report::json(&tally, &options.quantiles)?
    } else if options.b64 {
        format!("{}\n", ogive_hist::openhistogram::encode_base64(&tally.histogram)?)
    } else {
        report::text(&tally, &options.quantiles, &style(options, terminal, &tally))
    };
    print(&text)?;
    Ok(if tally.skipped > 0 { ExitCode::from(EXIT_FINDING) } else { ExitCode::SUCCESS })
}

fn style(options: &Hist, terminal: &Terminal, tally: &Tally) -> Style {
    // The figures above the picture and the next prompt take a dozen lines of the terminal.
    let rows = options.rows.map_or(terminal.height.saturating_sub(12).clamp(12, 32), usize::from);
    Style {
        width: terminal.width,
        rows_max: rows,
        ascii: options.ascii || !terminal.unicode,
        color: terminal.color,
        unit: tally.dimension.map_or("", Dimension::base_unit).to_string(),
    }
}
