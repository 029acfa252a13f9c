//! `ogive import`: files of other systems, read in bounded memory and sent as numbered batches.
//!
//! Invariants: the source of a file's batches is made of what it holds and of the options, and the batches follow from
//! both; so an import that was cut off is gone on with by the same command, and one that is run twice stores nothing
//! twice.
//! Failure: a line that cannot be read and a sample that the server rejects are counted by reason with their lines; a
//! server that is away or busy is asked again ([`send::TRIES`] times).

mod file;
mod send;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;

use anyhow::{Context, bail};
use ogive_interchange::batches::{PLACES_MAX, RefusedInput};
use ogive_interchange::hdr_log::LogSettings;
use ogive_interchange::identity::Identity;
use ogive_interchange::table::{self, TimeUnit};
use ogive_interchange::{Batches, Error, Numbered, circllhist, csv, hdr_log, irondb, openmetrics, parquet, victoria};
use ogive_model::{METRIC_NAME, Tenant};
use serde_json::{Value, json};

use self::file::Input;
use self::send::{Sent, send_all};
use super::client::Server;
use super::exit::{EXIT_FINDING, EXIT_USAGE};
use super::format::thousands;
use super::progress::Bar;

const HELP: &str = "\
  ogive import openmetrics metrics.om.gz
  ogive import prometheus-blocks /var/lib/prometheus/snapshots/20261124T000000Z-1a2b
  ogive import victoria-export export.jsonl
  ogive import irondb raw.tsv
  ogive import circllhist-json --metric rpc_seconds --label host=a histograms.json
  ogive import hdr-log --metric hiccup_seconds --unit ns hiccup.hlog
  ogive import csv --labels host,region measurements.csv
  ogive import parquet measurements.parquet

docs/import.md has the commands that produce these files. Files may be compressed with gzip or zstd (not blocks and Parquet). An
interrupted import continues when the same command is run again, and stores nothing twice.

Exit codes: 0 everything was stored; 1 lines could not be read or samples were rejected, or a file ended early; 2 wrong usage; 3 the server
cannot be reached.";

/// Imports files from other systems.
#[derive(clap::Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Import {
    /// Format of the files.
    #[arg(value_enum)]
    format: Format,
    /// Files; for prometheus-blocks a block, or a directory of blocks.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Metric name: for hdr-log and circllhist-json; for tables the name of the values, or a prefix for their
    /// columns.
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Label for every series, such as host=a; for hdr-log, circllhist-json, csv and parquet. Repeatable.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    more: Vec<(String, String)>,
    /// Unit of the values in an interval log.
    #[arg(long, value_enum, default_value = "ns")]
    unit: Unit,
    /// Table column with the time; by default one called time, timestamp, ts, date or similar.
    #[arg(long, value_name = "COLUMN")]
    time: Option<String>,
    /// Unit of the numbers in the time column, counted from 1970; by default guessed from their size.
    #[arg(long, value_enum)]
    time_unit: Option<Count>,
    /// Table columns that become labels; by default all text columns of a Parquet file.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    labels: Vec<String>,
    /// Table columns that hold values; by default all others.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    values: Vec<String>,
    /// Field separator of CSV files; `\t` is a tab.
    #[arg(long, value_name = "CHARACTER", default_value = ",")]
    delimiter: String,
    /// Tenant that the samples belong to.
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Write each unreadable line to this file: place, reason, explanation.
    #[arg(long, value_name = "FILE")]
    bad: Option<PathBuf>,
    /// Read and count, but send nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the outcome as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Irondb,
    CircllhistJson,
    HdrLog,
    PrometheusBlocks,
    VictoriaExport,
    Openmetrics,
    Csv,
    Parquet,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Unit {
    Ns,
    Us,
    Ms,
    S,
}

impl Unit {
    const fn worth(self) -> f64 {
        match self {
            Self::Ns => 1e-9,
            Self::Us => 1e-6,
            Self::Ms => 1e-3,
            Self::S => 1.0,
        }
    }
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Count {
    S,
    Ms,
    Us,
    Ns,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a label is NAME=VALUE".into()),
    }
}

impl Import {
    fn table(&self) -> table::Options {
        table::Options {
            time: self.time.clone(),
            time_unit: match self.time_unit {
                None => TimeUnit::BySize,
                Some(Count::S) => TimeUnit::Seconds,
                Some(Count::Ms) => TimeUnit::Milliseconds,
                Some(Count::Us) => TimeUnit::Microseconds,
                Some(Count::Ns) => TimeUnit::Nanoseconds,
            },
            labels: self.labels.clone(),
            values: self.values.clone(),
            metric: self.metric.clone().unwrap_or_default(),
            more: self.more.clone(),
        }
    }

    fn meaning(&self) -> LogSettings {
        let name = self.metric.iter().map(|name| (METRIC_NAME.to_owned(), name.clone()));
        let labels = name.chain(self.more.iter().cloned()).collect();
        let worth = if self.format == Format::HdrLog { self.unit.worth() } else { 1.0 };
        let unit = if self.format == Format::HdrLog { "s" } else { "" };
        LogSettings { labels, worth, unit: unit.into() }
    }

    /// The options that determine, together with the bytes, which batches a file becomes.
    fn words(&self) -> String {
        format!("{:?} {:?} {:?} {:?}", self.format, self.table(), self.unit, self.delimiter)
    }

    fn separator(&self) -> anyhow::Result<u8> {
        match self.delimiter.as_bytes() {
            b"\\t" => Ok(b'\t'),
            [one] if one.is_ascii() && !matches!(one, b'"' | b'\n' | b'\r') => Ok(*one),
            _ => bail!("--delimiter is one character of ASCII, and no quote"),
        }
    }
}

/// The result of a file.
#[derive(Default)]
struct Outcome {
    samples: u64,
    sent: Sent,
    bad: BTreeMap<&'static str, RefusedInput>,
    /// Why it was not read to its end.
    broken: Option<String>,
}

/// Runs the command.
pub(crate) fn run(options: &Import) -> anyhow::Result<ExitCode> {
    let tenant = match &options.tenant {
        Some(name) => Tenant::new(name)?,
        None => Tenant::default(),
    };
    if options.format == Format::HdrLog && options.metric.is_none() {
        eprintln!("ogive: an interval log does not name its metric: --metric hiccup_seconds");
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let mut notes = match &options.bad {
        Some(path) => {
            let file = std::fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(path)
                .with_context(|| format!("cannot write {}", path.display()))?;
            Some(std::io::BufWriter::new(file))
        }
        None => None,
    };
    let mut shown = Vec::new();
    let mut is_whole = true;
    for path in inputs(options)? {
        let outcome = import(options, &path, &tenant, &mut notes).with_context(|| path.display().to_string())?;
        if options.json {
            shown.push(as_json(&path, &outcome));
        } else {
            print(&path, &outcome);
        }
        if let Some(failure) = &outcome.sent.failure {
            eprintln!("ogive: {}: the same command goes on from here", path.display());
            return Ok(failure.report());
        }
        is_whole &= outcome.bad.is_empty() && outcome.sent.rejected.is_empty() && outcome.broken.is_none();
    }
    if let Some(mut notes) = notes {
        notes.flush()?;
    }
    if options.json {
        println!("{}", Value::Array(shown));
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FINDING) })
}

/// The files, or the blocks of a directory of them by time.
fn inputs(options: &Import) -> anyhow::Result<Vec<PathBuf>> {
    if options.format != Format::PrometheusBlocks {
        return Ok(options.paths.clone());
    }
    let mut out = Vec::new();
    for path in &options.paths {
        out.extend(file::blocks(path)?);
    }
    Ok(out)
}

type Notes = Option<std::io::BufWriter<std::fs::File>>;

fn import(options: &Import, path: &Path, tenant: &Tenant, notes: &mut Notes) -> anyhow::Result<Outcome> {
    let input = Input::open(path, options.format == Format::PrometheusBlocks)?;
    let bar = Bar::new("import");
    let mut identity = Identity::new(&options.words());
    input.each_piece(&mut |bytes, done, all| {
        identity.add(bytes);
        bar.show(done / 10, all);
    })?;
    let source = identity.finish();
    let mut out = Outcome::default();
    std::thread::scope(|scope| -> anyhow::Result<()> {
        // Two batches wait while one is sent: some 20 MB in memory.
        let (sender, receiver) = sync_channel(2);
        let sending = scope.spawn(|| send_all(receiver, (!options.dry_run).then_some(&options.server)));
        let mut take = |numbered: Numbered| {
            bar.show(input.done() / 10 * 9 + input.bytes() / 10, input.bytes());
            sender.send(numbered).is_ok()
        };
        let mut note = |place: u64, reason: &'static str, what: &str| {
            if let Some(notes) = notes {
                let line = what.replace(['\n', '\t'], " ");
                // A full disk is reported by the flush at the end.
                let _ = writeln!(notes, "{}\t{place}\t{reason}\t{line}", path.display());
            }
        };
        let mut batches = Batches::new(source, tenant.clone(), &mut take, &mut note);
        let read = read(options, &input, &mut batches);
        // A disk error may not recur: then the open batch would have more contents under the same number.
        let is_lasting = |error: &Error| !matches!(error, Error::Read(why) if why.raw_os_error().is_some());
        if let Err(error) = &read {
            out.broken = Some(error.to_string()).filter(|_| !matches!(error, Error::Stopped));
        }
        (out.samples, out.bad) = batches.finish(read.as_ref().err().is_none_or(is_lasting));
        drop(sender);
        out.sent = sending.join().expect("the sender does not panic");
        Ok(())
    })?;
    bar.end();
    Ok(out)
}

fn read(options: &Import, input: &Input, out: &mut Batches<'_>) -> Result<(), Error> {
    match options.format {
        Format::Irondb => irondb::read(&mut *input.lines()?, out),
        Format::CircllhistJson => circllhist::read(&mut *input.lines()?, &options.meaning(), out),
        Format::HdrLog => hdr_log::read(&mut *input.lines()?, &options.meaning(), out),
        Format::VictoriaExport => victoria::read(&mut *input.lines()?, out),
        Format::Openmetrics => openmetrics::read(&mut *input.lines()?, out),
        Format::Csv => {
            let separator = options.separator().map_err(|error| Error::Unreadable(error.to_string()))?;
            csv::read(&mut *input.lines()?, separator, &options.table(), out)
        }
        Format::Parquet => {
            parquet::read(input.file()?, &options.table(), out, &mut |thousandths| input.set_done(thousandths))
        }
        Format::PrometheusBlocks => {
            input.with_block(|block| block.read(out, &mut |thousandths| input.set_done(thousandths)))
        }
    }
}

fn as_json(path: &Path, outcome: &Outcome) -> Value {
    let reasons = |all: Vec<(&str, &RefusedInput)>| -> Value {
        let one = |(reason, bad): (&str, &RefusedInput)| {
            let places: Vec<u64> = bad.places.iter().map(|place| place.0).collect();
            (reason.to_owned(), json!({"count": bad.count, "places": places}))
        };
        Value::Object(all.into_iter().map(one).collect())
    };
    let sent = &outcome.sent;
    json!({
        "path": path.display().to_string(), "samples": outcome.samples, "batches": sent.batches,
        "accepted": sent.accepted, "duplicate": sent.duplicate, "folded": sent.folded,
        "bad": reasons(outcome.bad.iter().map(|(reason, bad)| (*reason, bad)).collect()),
        "rejected": reasons(sent.rejected.iter().map(|(reason, bad)| (&**reason, bad)).collect()),
        "broken": outcome.broken,
    })
}

fn print(path: &Path, outcome: &Outcome) {
    let sent = &outcome.sent;
    println!(
        "{}: {} samples read, {} stored, {} there already",
        path.display(),
        thousands(outcome.samples),
        thousands(sent.accepted),
        thousands(sent.duplicate)
    );
    if sent.folded > 0 {
        println!("  {} of them beyond a limit of the tenant, in its overflow series", thousands(sent.folded));
    }
    let bad = outcome.bad.iter().map(|(reason, bad)| ("not read", *reason, bad));
    let rejected = sent.rejected.iter().map(|(reason, bad)| ("rejected by the server", &**reason, bad));
    for (what, reason, bad) in bad.chain(rejected) {
        let places: Vec<String> = bad.places.iter().map(|place| place.0.to_string()).collect();
        let more = if bad.count > PLACES_MAX as u64 { ", .." } else { "" };
        println!("  {what}: {} {reason} (line {}{more})", thousands(bad.count), places.join(", "));
        if let Some((place, why)) = bad.places.first() {
            println!("    {place}: {why}");
        }
    }
    if let Some(broken) = &outcome.broken {
        println!("  not read to its end: {broken}");
    }
}
