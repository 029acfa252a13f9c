//! `ogive scrub`: looks at every stored byte, of a running server or of stopped directories.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use ogive_text::size;
use serde_json::{Value, json};

use super::client::{Failure, Server};
use super::exit::EXIT_FINDING;
use super::format::{human, thousands};
use super::offline;
use super::progress::Bar;
use ogive_http::document_of;
use ogive_storage::upkeep::open_mirror;

/// Half a second between two checks of the progress.
const LOOK: Duration = Duration::from_millis(500);

/// Verifies every stored byte, reports corruption, and heals it from another directory. Exit code 1 when something
/// remains corrupt.
#[derive(clap::Args, Debug)]
pub(crate) struct Scrub {
    /// Data directory of a stopped server; without it, the running server scrubs. Repeatable.
    #[arg(long, value_name = "DIR")]
    data: Vec<PathBuf>,
    #[command(flatten)]
    server: Server,
    /// Limit of the running server in bytes per second, such as 50MiB; 0 for no limit.
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = size::parse)]
    rate: u64,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    /// Do not scrub; show what the running server found and lost, and acknowledge it, so that answers no longer
    /// warn of it.
    #[arg(long, conflicts_with_all = ["data", "rate"])]
    acknowledge: bool,
}

/// Runs the command.
pub(crate) fn run(options: &Scrub) -> anyhow::Result<ExitCode> {
    if !options.data.is_empty() {
        return show(&stopped(&options.data)?, options.json);
    }
    if options.acknowledge {
        return Ok(acknowledge(options).unwrap_or_else(|failure| failure.report()));
    }
    match running(options) {
        Ok(data) => show(&data?, options.json),
        Err(failure) => Ok(failure.report()),
    }
}

fn acknowledge(options: &Scrub) -> Result<ExitCode, Failure> {
    let found = known(&options.server)?;
    // Only those that are shown, not new ones that arrive meanwhile.
    if let Some(up_to) = found.iter().filter_map(|finding| finding["id"].as_u64()).max() {
        options.server.post("/v1/findings/acknowledge", &json!({"up_to": up_to}))?;
    }
    if options.json {
        println!("{}", json!({"acknowledged": found}));
    } else {
        found.iter().for_each(|finding| println!("{}", sentence(finding)));
        println!("{} findings acknowledged", found.len());
    }
    Ok(ExitCode::SUCCESS)
}

/// The findings of a server that are not acknowledged.
pub(crate) fn known(server: &Server) -> Result<Vec<Value>, Failure> {
    let answer: Value = serde_json::from_str(&server.get("/v1/findings", &[])?).unwrap_or_default();
    Ok(answer["data"]["findings"].as_array().cloned().unwrap_or_default())
}

/// A finding in a line.
pub(crate) fn sentence(finding: &Value) -> String {
    format!("finding {}: {}", finding["id"], finding["problem"].as_str().unwrap_or_default())
}

fn stopped(directories: &[PathBuf]) -> anyhow::Result<Value> {
    let (mirror, _) = open_mirror(directories, false)?;
    let bar = Bar::new("scrub");
    let scrubbed = offline::noted(&mirror, "scrub", "what is bad is healed", || {
        let scrubbed = ogive_store::scrub(&mirror, mirror.root(), &mut |done, total| {
            bar.show(done, total);
            Ok(())
        });
        scrubbed.context("the directory cannot be scrubbed")
    });
    bar.end();
    Ok(document_of(&scrubbed?))
}

fn running(options: &Scrub) -> Result<anyhow::Result<Value>, Failure> {
    let bar = Bar::new("scrub");
    let before = state(&options.server)?["work"]["completed"].as_u64();
    options.server.post("/v1/scrub", &json!({"rate": options.rate}))?;
    loop {
        let state = state(&options.server)?;
        let work = &state["work"];
        if work["running"] != json!(true) {
            bar.end();
            if work["completed"].as_u64() == before {
                let why = work["error"].as_str().unwrap_or("it did not end");
                return Ok(Err(anyhow::anyhow!("the server could not scrub: {why}")));
            }
            return Ok(Ok(state["last"].clone()));
        }
        bar.show(work["done_bytes"].as_u64().unwrap_or(0), work["total_bytes"].as_u64().unwrap_or(0));
        std::thread::sleep(LOOK);
    }
}

fn state(server: &Server) -> Result<Value, Failure> {
    let body = server.get("/v1/scrub", &[])?;
    let answer: Value = serde_json::from_str(&body).unwrap_or_default();
    Ok(answer["data"].clone())
}

fn show(scrubbed: &Value, json: bool) -> anyhow::Result<ExitCode> {
    let count = |name: &str| scrubbed[name].as_u64().unwrap_or(0);
    let (found, healed) = (count("found"), count("healed"));
    if json {
        println!("{scrubbed}");
    } else {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for finding in scrubbed["findings"].as_array().into_iter().flatten() {
            let (path, section, problem) =
                (text(&finding["path"]), text(&finding["section"]), text(&finding["problem"]));
            let word = if finding["healed"] == json!(true) { "healed" } else { "NOT HEALED" };
            println!("{path}: {section}, bytes {}..{}: {problem} ({word})", finding["offset"], finding["end"]);
        }
        let looked = human(count("bytes") as f64, "B");
        println!("{looked} looked at, {} bad parts found, {} healed", thousands(found), thousands(healed));
    }
    Ok(if found == healed { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FINDING) })
}
