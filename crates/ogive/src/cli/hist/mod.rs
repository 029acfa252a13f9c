//! `ogive hist`: numbers from standard input or files to quantiles, a picture, JSON or base64; `ogive hist diff`: two
//! files compared.
//!
//! Invariants: every token is counted, either in the histogram or as a skipped one with its line.
//! Failure: a bad token is reported with its line and skipped (`--strict`: ends the run); either way the exit code
//! is 1. Only the first [`COMPLAINTS_MAX`] are printed one by one.

mod dense;
mod diff;
mod hlog;
mod number;
mod picture;
mod reader;
mod report;

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use ogive_hist::Histogram;

use self::dense::Dense;
use self::number::{Dimension, TokenError, Unit};
pub(crate) use self::picture::{Style, draw};
use crate::cli::exit::EXIT_FINDING;
use crate::cli::format::thousands;
use crate::cli::terminal::Terminal;

/// Ten lines show what is wrong; ten thousand hide it.
const COMPLAINTS_MAX: u64 = 10;

/// 1 MiB: 46,082 bins of 11 bytes in base64 are 676 KiB.
const BASE64_BYTES_MAX: usize = 1 << 20;

/// Progress is shown each 32 MiB: some ten times a second.
const PROGRESS_BYTES: usize = 32 << 20;

/// Numbers in, quantiles and a picture out.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Numbers stand one or more to a line, separated by spaces, commas or semicolons; # begins a comment.
A number may carry a unit: ns us ms s m h d, B kB MB GB TB KiB MiB GiB TiB, or k M G T; 5 ms and 1m30.5s work too.
A number that cannot be read is reported with its line and skipped, and the exit code is then 1.

  ping -c 100 localhost | grep -o 'time=[0-9.]*' | cut -d= -f2 | ogive hist --unit ms
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
    /// Print the histogram itself, as OpenHistogram base64.
    #[arg(long)]
    b64: bool,
    #[command(flatten)]
    input: Input,
    /// Quantiles to print, between 0 and 1.
    #[arg(long, short, value_delimiter = ',', default_value = "0.5,0.9,0.95,0.99,0.999", value_parser = quantile)]
    quantiles: Vec<f64>,
    /// Most rows of the picture.
    #[arg(long, value_parser = clap::value_parser!(u16).range(4..=1000))]
    rows: Option<u16>,
    /// Draw with ASCII only.
    #[arg(long)]
    ascii: bool,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Diff(diff::Diff),
}

/// What the input is.
#[derive(clap::Args, Debug)]
struct Input {
    /// Read base64 histograms instead of numbers and merge them. They carry no sum, least and greatest: sum and mean are
    /// then estimates from the bins, min and max are null.
    #[arg(long, conflicts_with = "hlog")]
    merge: bool,
    /// Read interval logs of HdrHistogram (.hlog, jHiccup's too) instead of numbers and merge them. --unit is that of
    /// their values, ns if it is not given.
    #[arg(long)]
    hlog: bool,
    /// Only intervals with this tag.
    #[arg(long, requires = "hlog")]
    tag: Option<String>,
    /// Stop at the first number that cannot be read.
    #[arg(long)]
    strict: bool,
    /// Unit of numbers that carry none.
    #[arg(long, short, value_parser = unit)]
    unit: Option<Unit>,
}

fn quantile(text: &str) -> Result<f64, String> {
    match text.trim().parse() {
        Ok(q) if (0.0..=1.0).contains(&q) => Ok(q),
        _ => Err("a quantile is a number from 0 to 1, such as 0.99".into()),
    }
}

fn unit(text: &str) -> Result<Unit, String> {
    Unit::of(text.as_bytes())
        .filter(|unit| *unit != Unit::NONE)
        .ok_or_else(|| "known units are ns us ms s m h d B kB MB GB TB KiB MiB GiB TiB k M G T".into())
}

/// What was read.
pub(super) struct Tally {
    dense: Dense,
    histogram: Histogram,
    /// What was read of interval logs.
    logs: hlog::Logs,
    /// What the numbers measure; `None` when no number had a unit.
    dimension: Option<Dimension>,
    skipped: u64,
    strict: bool,
    bare: Unit,
    /// A unit was seen, and bare numbers beside it.
    bare_count: u64,
    /// A number without a unit, and its line: the unit may be the next word.
    waiting: Option<u64>,
    waiting_text: Vec<u8>,
}

impl Tally {
    fn new(options: &Input) -> Self {
        let bare = options.unit.unwrap_or(if options.hlog { hlog::UNIT } else { Unit::NONE });
        Self {
            dense: Dense::new(),
            histogram: Histogram::log_linear(),
            logs: hlog::Logs::new(options.tag.clone(), bare),
            dimension: bare.dimension,
            skipped: 0,
            strict: options.strict,
            bare,
            bare_count: 0,
            waiting: None,
            waiting_text: Vec::new(),
        }
    }

    /// Takes one word: a number, or the unit of the number before it on its line; false when reading must end.
    fn word(&mut self, line: u64, token: &[u8]) -> bool {
        let is_unit = || Unit::of(token).is_some();
        if self.waiting == Some(line) && is_unit() {
            self.waiting_text.extend_from_slice(token);
            return self.end_word();
        }
        if !self.end_word() {
            return false;
        }
        if token.len() < number::TOKEN_BYTES_MAX
            && token.last().is_some_and(|last| last.is_ascii_digit() || *last == b'.')
        {
            self.waiting = Some(line);
            self.waiting_text.clear();
            self.waiting_text.extend_from_slice(token);
            return true;
        }
        self.number(line, token)
    }

    /// Takes the number that waits for its unit; false when reading must end.
    fn end_word(&mut self) -> bool {
        let Some(line) = self.waiting.take() else { return true };
        let text = std::mem::take(&mut self.waiting_text);
        let goes_on = self.number(line, &text);
        self.waiting_text = text;
        goes_on
    }

    /// Takes one number; false when reading must end.
    fn number(&mut self, line: u64, token: &[u8]) -> bool {
        match number::parse(token, self.bare).and_then(|number| self.one_dimension(number)) {
            Ok(value) => {
                self.dense.record(value);
                true
            }
            Err(error) => self.complain(line, token, &error),
        }
    }

    fn one_dimension(&mut self, number: number::Number) -> Result<f64, TokenError> {
        match (self.dimension, number.dimension) {
            (Some(before), Some(now)) if before != now => {
                Err(TokenError::MixedUnits { found: now.base_unit(), expected: before.base_unit() })
            }
            (None, Some(now)) => {
                self.dimension = Some(now);
                Ok(number.value)
            }
            (_, None) => {
                self.bare_count += 1;
                Ok(number.value)
            }
            _ => Ok(number.value),
        }
    }

    /// Takes one base64 histogram; false when reading must end.
    fn base64(&mut self, line: u64, token: &[u8]) -> bool {
        match decode(token) {
            Ok((other, repairs)) => {
                if let Some(repairs) = repairs {
                    eprintln!("ogive hist: line {line}: {repairs}");
                }
                self.histogram.merge(&other).expect("decoded histograms have one scheme");
                true
            }
            Err(error) => self.complain(line, token, &error),
        }
    }

    /// The histogram with the narrowest bins.
    fn finest(&self) -> &Histogram {
        self.logs.only().unwrap_or(&self.histogram)
    }

    fn complain(&mut self, line: u64, token: &[u8], error: &dyn std::fmt::Display) -> bool {
        self.skipped += 1;
        let outcome = if self.strict { "" } else { "; skipped" };
        if self.skipped <= COMPLAINTS_MAX {
            let shown = String::from_utf8_lossy(&token[..token.len().min(40)]).into_owned();
            eprintln!("ogive hist: line {line}: {shown:?}: {error}{outcome}");
        }
        !self.strict
    }
}

fn decode(token: &[u8]) -> anyhow::Result<(Histogram, Option<String>)> {
    let text = std::str::from_utf8(token).context("not base64 text")?;
    let (histogram, repairs) = ogive_hist::openhistogram::decode_base64(text)?;
    Ok((histogram, (!repairs.is_none()).then(|| format!("not canonical, repaired: {repairs:?}"))))
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

fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        // The reader had enough, as `head` does.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

/// Reads the files, or standard input; nothing when a bad number ended it.
fn load(files: &[PathBuf], options: &Input) -> anyhow::Result<Option<Tally>> {
    let mut tally = Tally::new(options);
    let mut progress = Progress::new();
    if files.is_empty() {
        read(&mut std::io::stdin().lock(), options, &mut tally, &mut progress, "standard input")?;
    }
    for path in files {
        if path.as_os_str() == "-" {
            read(&mut std::io::stdin().lock(), options, &mut tally, &mut progress, "standard input")?;
        } else {
            let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            read(&mut file, options, &mut tally, &mut progress, &path.display().to_string())?;
        }
    }
    progress.end();
    tally.dense.pour(&mut tally.histogram);
    if tally.skipped > COMPLAINTS_MAX {
        eprintln!("ogive hist: {} more like these", thousands(tally.skipped - COMPLAINTS_MAX));
    }
    if tally.skipped > 0 && tally.strict {
        eprintln!("ogive hist: stopped at the first bad number, because of --strict; nothing is printed");
        return Ok(None);
    }
    if options.hlog {
        tally.logs.pour(&mut tally.histogram);
    }
    if tally.dimension.is_some() && tally.bare_count > 0 {
        let unit = tally.dimension.map_or("", Dimension::base_unit);
        eprintln!(
            "ogive hist: {} numbers without a unit are taken as {unit}; --unit says otherwise",
            thousands(tally.bare_count)
        );
    }
    Ok(Some(tally))
}

fn read(
    input: &mut dyn Read,
    options: &Input,
    tally: &mut Tally,
    progress: &mut Progress,
    name: &str,
) -> anyhow::Result<()> {
    let (merge, token_max) = (options.merge, if options.merge { BASE64_BYTES_MAX } else { number::TOKEN_BYTES_MAX });
    if name == "standard input" && std::io::stdin().is_terminal() {
        eprintln!("ogive hist: type or paste numbers, then Ctrl-D");
    }
    if options.hlog {
        return hlog::read(input, tally, |bytes| progress.add(bytes)).with_context(|| format!("cannot read {name}"));
    }
    let each = |line, token: &[u8]| if merge { tally.base64(line, token) } else { tally.word(line, token) };
    let read = reader::tokens(input, token_max, each, |bytes| progress.add(bytes));
    tally.end_word();
    read.with_context(|| format!("cannot read {name}"))
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

/// A line on standard error that tells how far a long input is, when a person watches.
struct Progress {
    shown: bool,
    bytes: usize,
    next: usize,
}

impl Progress {
    fn new() -> Self {
        let watched = std::io::stderr().is_terminal();
        Self { shown: false, bytes: 0, next: if watched { 4 * PROGRESS_BYTES } else { usize::MAX } }
    }

    fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes >= self.next {
            eprint!("\r{} MiB read", thousands((self.bytes >> 20) as u64));
            (self.next, self.shown) = (self.bytes + PROGRESS_BYTES, true);
        }
    }

    fn end(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}
