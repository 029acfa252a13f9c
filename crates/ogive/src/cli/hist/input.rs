//! Files and standard input as a tally, and what is printed of it.

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;

use anyhow::Context;

use super::extract::{self, Extract};
use super::number::{self, Dimension};
use super::tally::{COMPLAINTS_MAX, Input, Tally};
use super::{hlog, reader};
use crate::cli::format::thousands;
use crate::cli::standard_output::StandardOutput;

/// 1 MiB: 46,082 bins of 11 bytes in base64 are 676 KiB.
pub(super) const BASE64_BYTES_MAX: usize = 1 << 20;

/// Progress is shown every 32 MiB: some ten times a second.
pub(super) const PROGRESS_BYTES: usize = 32 << 20;

pub(super) fn print(text: &str) -> anyhow::Result<()> {
    StandardOutput.write_all(text.as_bytes()).context("cannot write to standard output")
}

/// Reads the files, or standard input; nothing when a bad number ended it.
pub(super) fn load(files: &[PathBuf], options: &Input) -> anyhow::Result<Option<Tally>> {
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
    note(&tally, options);
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

/// Reports once, with a count, what was left out for its size and which lines had no value.
fn note(tally: &Tally, options: &Input) {
    if let Some(beyond) = &tally.beyond {
        let (count, least, greatest) = (thousands(beyond.count), &beyond.least.1, &beyond.greatest.1);
        let between = if least == greatest { least.clone() } else { format!("{least} to {greatest}") };
        eprintln!(
            "ogive hist: {count} numbers ({between}) are beyond what a histogram counts, 1e128, and were left out: max and sum are without them"
        );
    }
    if tally.lines_without == 0 {
        return;
    }
    let what = match (&options.field, &options.regex) {
        (Some(field), _) => format!("no field {field:?}"),
        (_, Some(pattern)) => format!("nothing that matches {:?}", pattern.as_str()),
        _ => return,
    };
    let lines = if tally.lines_without == 1 { "line has" } else { "lines have" };
    eprintln!("ogive hist: {} {lines} {what}", thousands(tally.lines_without));
}

pub(super) fn read(
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
    if let Some(extract) = Extract::from_options(options) {
        return extract::read(input, &extract, tally, |bytes| progress.add(bytes))
            .with_context(|| format!("cannot read {name}"));
    }
    let each = |line, token: &[u8]| if merge { tally.base64(line, token) } else { tally.word(line, token) };
    let read = reader::tokens(input, token_max, each, |bytes| progress.add(bytes));
    tally.end_word();
    read.with_context(|| format!("cannot read {name}"))
}

/// A line on standard error that shows how far a long input is, when a person watches.
pub(super) struct Progress {
    pub(super) shown: bool,
    pub(super) bytes: usize,
    pub(super) next: usize,
}

impl Progress {
    pub(super) fn new() -> Self {
        let watched = std::io::stderr().is_terminal();
        Self { shown: false, bytes: 0, next: if watched { 4 * PROGRESS_BYTES } else { usize::MAX } }
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes >= self.next {
            eprint!("\r{} MiB read", thousands((self.bytes >> 20) as u64));
            (self.next, self.shown) = (self.bytes + PROGRESS_BYTES, true);
        }
    }

    pub(super) fn end(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

pub(super) fn quantile(text: &str) -> Result<f64, String> {
    match text.trim().parse() {
        Ok(q) if (0.0..=1.0).contains(&q) => Ok(q),
        _ => Err("a quantile is a number from 0 to 1, such as 0.99".into()),
    }
}
