//! `ogive export`: stored samples as files for other systems.
//!
//! Invariants: every sample of the range that a selector fits is written once, or counted as left out; what the server
//! refuses to give at once is read in parts, of series or of time.
//! Limits: what one answer of `/v1/cells` may hold is in memory.

mod reading;
mod tables;

use std::io::{BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use ogive_interchange::openmetrics_writer::Writer;
use ogive_model::{Ms, WallMs};
use ogive_text::calendar::instant_ms;

use self::reading::{Parts, Reading};
use super::client::Server;
use super::exit::EXIT_USAGE;
use super::format::thousands;
use super::standard_output::StandardOutput;
use super::times;

/// Writes stored samples to a file: OpenMetrics, Parquet or Arrow.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
  ogive export '{job=\"shop\"}' --start 2026-11-01T00:00:00Z --format parquet -o shop.parquet
  ogive export '{__name__=~\"http_.+\"}' --format openmetrics | gzip > http.om.gz
  ogive export 'rpc_seconds' --format arrow -o rpc.arrow

Parquet and Arrow files have one row per sample, and histograms with all their bins (docs/formats/samples.md);
`ogive import parquet` reads them back without loss. OpenMetrics has histograms as buckets, and no texts (docs/import.md).")]
pub(crate) struct Export {
    /// Selector of the series, such as rpc_seconds{job="shop"}.
    #[arg(value_name = "SELECTOR")]
    selector: String,
    /// Output format.
    #[arg(long, value_enum)]
    format: Format,
    /// Output file; only OpenMetrics can go to standard output instead.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Start of the range: -1h, now-7d, Unix seconds or RFC 3339; default: the first sample.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = instant)]
    start: Option<WallMs>,
    /// End of the range; default: now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = instant)]
    end: Option<WallMs>,
    #[command(flatten)]
    server: Server,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Openmetrics,
    Parquet,
    Arrow,
}

/// An hour: samples may come from clocks that are ahead, of which a server accepts 10 minutes.
const AHEAD: Ms = Ms::from_secs(3_600);

fn instant(text: &str) -> Result<WallMs, String> {
    instant_ms(&times::parse(text)?).map(WallMs).ok_or_else(|| "neither -1h, now-7d, Unix seconds nor RFC 3339".into())
}

/// Runs the command.
pub(crate) fn run(options: &Export) -> anyhow::Result<ExitCode> {
    if options.output.is_none() && (options.format != Format::Openmetrics || std::io::stdout().is_terminal()) {
        eprintln!("ogive: name the file: -o FILE");
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let (start, end) = (options.start.unwrap_or_default(), options.end.unwrap_or_else(|| times::now() + AHEAD));
    let parts = if options.format == Format::Openmetrics { Parts::Series } else { Parts::Time };
    let mut reading = match Reading::new(&options.server, &options.selector, start, end, parts) {
        Ok(reading) => reading,
        Err(failure) => return Ok(failure.report()),
    };
    let written = match (&options.output, options.format) {
        (Some(path), Format::Parquet) => whole(path, |file| tables::parquet(file, &mut reading)),
        (Some(path), Format::Arrow) => whole(path, |file| tables::arrow(file, &mut reading)),
        (Some(path), Format::Openmetrics) => whole(path, |file| openmetrics(BufWriter::new(file), &mut reading)),
        (None, _) => openmetrics(BufWriter::new(StandardOutput), &mut reading),
    };
    if let Some(failure) = reading.failure {
        return Ok(failure.report());
    }
    let (samples, left_out) = written?;
    eprintln!("{} samples of {} series written", thousands(samples), thousands(reading.series));
    if left_out > 0 {
        eprintln!(
            "{} texts and markers of a series' end left out: OpenMetrics has no form of them",
            thousands(left_out)
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes to a temporary file, and renames it once it is complete.
fn whole<T>(path: &Path, write: impl FnOnce(std::fs::File) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&part)
        .with_context(|| format!("cannot write {}", part.display()))?;
    let written = write(file).and_then(|written| {
        std::fs::rename(&part, path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(written)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written
}

fn openmetrics(mut file: impl Write, reading: &mut Reading<'_>) -> anyhow::Result<(u64, u64)> {
    let mut writer = Writer::default();
    reading.each(&mut |batch| {
        writer.batch(batch);
        Ok(file.write_all(writer.take().as_bytes())?)
    })?;
    // Only a proper end shows that the text is complete.
    reading.ended_well()?;
    let written = writer.end();
    file.write_all(writer.take().as_bytes())?;
    file.flush()?;
    Ok(written)
}
