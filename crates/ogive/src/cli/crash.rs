//! `ogive crash`: what crashes left.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use ogive_crash::catalog::Catalog;
use ogive_crash::handler::{self, Fault};
use ogive_crash::report::{Report, Start, TraceInFlight};
use ogive_crash::symbols::{self, Named};
use ogive_journal::RealDisk;
use serde_json::json;

use super::exit::EXIT_FINDING;

/// Lists and shows the crash reports that panics and fatal signals of server and broker leave behind
/// (docs/operations.md).
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Crash {
    /// Lists crashes, grouped by cause. Exit code 1 when there is one.
    List {
        #[command(flatten)]
        place: CrashDirectory,
        /// Print one JSON object per cause.
        #[arg(long)]
        json: bool,
    },
    /// Shows one report, with function names where debug information is available.
    Show {
        /// Number of the report, as `ogive crash list` prints it.
        number: u64,
        #[command(flatten)]
        place: CrashDirectory,
        /// File with debug information that was split from the program.
        #[arg(long, value_name = "FILE")]
        debug_file: Option<PathBuf>,
        /// Print the report as stored.
        #[arg(long)]
        json: bool,
    },
    /// Crashes this command in the given way, to test that a report is written and the webhook is called.
    Test {
        /// Kind of crash.
        #[arg(value_enum)]
        fault: FaultName,
        #[command(flatten)]
        place: CrashDirectory,
        /// URL to notify.
        #[arg(long, value_name = "URL", env = "OGIVE_CRASH_WEBHOOK")]
        crash_webhook: Option<String>,
    },
    /// Writes reports for the process that started it.
    #[command(hide = true)]
    Write,
}

#[derive(clap::Args, Debug)]
pub(crate) struct CrashDirectory {
    /// Directory of crash reports.
    #[arg(long, value_name = "DIR", default_value = "./ogive-data/crash", env = "OGIVE_CRASH_DIR")]
    dir: PathBuf,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub(crate) enum FaultName {
    /// Read from an unmapped address: SIGSEGV.
    Address,
    /// Endless recursion: SIGSEGV.
    Overflow,
    /// SIGABRT.
    Abort,
    /// A panic.
    Panic,
}

impl CrashDirectory {
    fn catalog(&self) -> Catalog<'static, RealDisk> {
        Catalog::new(&RealDisk, &self.dir)
    }
}

/// Runs the command.
pub(crate) fn run(command: &Crash) -> anyhow::Result<ExitCode> {
    match command {
        Crash::List { place, json } => list(place, *json),
        Crash::Show { number, place, debug_file, json } => {
            let report = place.catalog().read(*number)?;
            if *json {
                println!("{}", serde_json::to_string_pretty(&report)?);
            } else {
                let names = symbols::named(&RealDisk, &report, debug_file.as_deref());
                print!("{}", picture(&report, &names));
            }
            Ok(ExitCode::SUCCESS)
        }
        Crash::Test { fault, place, crash_webhook } => test(*fault, place, crash_webhook.clone()),
        Crash::Write => {
            ogive_crash::writer::run();
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn list(place: &CrashDirectory, is_json: bool) -> anyhow::Result<ExitCode> {
    let catalog = place.catalog();
    let mut causes: BTreeMap<String, Vec<Report>> = BTreeMap::new();
    for number in catalog.numbers()? {
        match catalog.read(number) {
            Ok(report) => causes.entry(report.signature.clone()).or_default().push(report),
            Err(error) => eprintln!("ogive: {error}"),
        }
    }
    let mut causes: Vec<Vec<Report>> = causes.into_values().collect();
    causes.sort_by_key(|reports| std::cmp::Reverse(reports.last().map(|report| report.number)));
    for reports in &causes {
        let (Some(first), Some(last)) = (reports.first(), reports.last()) else { continue };
        if is_json {
            let object = json!({
                "signature": last.signature, "title": last.title(), "count": reports.len(), "first": first.time,
                "last": last.time, "role": last.role, "version": last.version,
                "numbers": reports.iter().map(|report| report.number).collect::<Vec<_>>(),
            });
            println!("{object}");
        } else {
            println!(
                "{:>4} x {}  last {} (report {}, {} {})",
                reports.len(),
                last.signature,
                last.time,
                last.number,
                last.role,
                last.version
            );
            println!("       {}", last.title());
        }
    }
    if causes.is_empty() && !is_json {
        eprintln!("ogive: no crash report in {}", place.dir.display());
    }
    Ok(if causes.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FINDING) })
}

/// The whole report for people.
fn picture(report: &Report, names: &[Option<Named>]) -> String {
    let mut out = format!("{}\n\n", report.title());
    let thread = if report.thread.is_empty() { "?" } else { &report.thread };
    for (name, value) in [
        ("report", report.number.to_string()),
        ("time", report.time.clone()),
        (
            "role",
            format!("{} {}, process {}, up {:.1} s", report.role, report.version, report.pid, report.uptime_seconds),
        ),
        ("build id", report.build_id.clone()),
        ("signature", report.signature.clone()),
        ("thread", thread.to_owned()),
        ("working on", report.activity.clone()),
    ] {
        if !value.is_empty() {
            out += &format!("{name:<12}{value}\n");
        }
    }
    out += "\nbacktrace\n";
    for (number, (frame, named)) in report.frames.iter().zip(names).enumerate() {
        let module = frame.module.rsplit('/').next().unwrap_or_default();
        match named {
            Some(named) => {
                for (function, place) in &named.functions {
                    out += &format!("{number:>4}  {function}\n");
                    if !place.is_empty() {
                        out += &format!("        {place}\n");
                    }
                }
            }
            None => out += &format!("{number:>4}  {module}+{:#x}\n", frame.address),
        }
    }
    if names.iter().all(Option::is_none) && !report.frames.is_empty() {
        out += "  no debug information of this build is here: name it with --debug-file\n";
    }
    section(&mut out, "in progress", report.traces.iter().map(trace));
    section(&mut out, "configuration", report.configuration.iter().map(|(name, value)| format!("{name} = {value}")));
    section(&mut out, "log before it", report.events.iter().cloned());
    out
}

/// One message that was in flight: its path, its age, and the points that it reached.
fn trace(trace: &TraceInFlight) -> String {
    let points = trace.points.iter().map(|point| format!("{} {:.6}", point.name, point.seconds));
    let here = if trace.is_of_thread { ", stamped by this thread" } else { "" };
    format!("{} {:.6} s{here}: {}", trace.path, trace.age_seconds, points.collect::<Vec<_>>().join(", "))
}

fn section(out: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        *out += &format!("\n{title}\n");
        lines.for_each(|line| *out += &format!("  {line}\n"));
    }
}

fn test(fault: FaultName, place: &CrashDirectory, webhook: Option<String>) -> anyhow::Result<ExitCode> {
    let catalog = place.catalog();
    let start = Start {
        role: "test".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        directory: std::path::absolute(&place.dir)?.display().to_string(),
        webhook,
        configuration: Vec::new(),
    };
    let known = catalog.numbers()?.last().copied().unwrap_or(0);
    handler::start(&start, &["crash", "write"].map(OsString::from), known)?;
    let _activity = ogive_crash::activity::enter("ogive crash test");
    eprintln!("ogive: crashing; see ogive crash list --dir {}", place.dir.display());
    handler::crash(match fault {
        FaultName::Address => Fault::BadAddress,
        FaultName::Overflow => Fault::StackOverflow,
        FaultName::Abort => Fault::Abort,
        FaultName::Panic => Fault::Panic,
    });
    anyhow::bail!("it did not crash")
}
