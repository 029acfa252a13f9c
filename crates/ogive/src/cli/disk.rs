//! `ogive disk`: the directories of a running server.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use ogive_text::size;
use serde_json::{Value, json};

use super::client::{Failure, Server};
use super::exit::EXIT_FINDING;
use super::format::thousands;
use super::progress::Bar;
use ogive_storage::upkeep::absolute;

/// Half a second between two checks of the progress.
const LOOK: Duration = Duration::from_millis(500);

/// Manages the data directories of a running server.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Disk {
    /// Shows each directory and its state.
    List {
        #[command(flatten)]
        server: Server,
        /// Print the server's JSON.
        #[arg(long)]
        json: bool,
    },
    /// Adds DIR and fills it while the server runs; from then on it holds everything, like the others. The server
    /// finds it again at its next start.
    Add {
        /// An empty directory on the server's machine.
        directory: PathBuf,
        #[command(flatten)]
        server: Server,
        /// Bytes per second, such as 50MiB; 0 for no limit.
        #[arg(long, value_name = "BYTES", default_value = "128MiB", value_parser = size::parse)]
        rate: u64,
        /// Print the final state as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Fills NEW while the server runs, and puts it in the place of OLD. Give the same directory twice to refill
    /// one that was out.
    Replace {
        /// A directory of the server.
        old: PathBuf,
        /// An empty directory on the server's machine, or one of the server's that is out.
        new: PathBuf,
        #[command(flatten)]
        server: Server,
        /// Bytes per second, such as 50MiB; 0 for no limit.
        #[arg(long, value_name = "BYTES", default_value = "128MiB", value_parser = size::parse)]
        rate: u64,
        /// Print the final state as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Disk) -> anyhow::Result<ExitCode> {
    match command {
        Disk::List { server, json } => match disks(server) {
            Ok(data) => list(&data?, *json),
            Err(failure) => Ok(failure.report()),
        },
        Disk::Add { directory, server, rate, json } => {
            let request = json!({"path": absolute(directory)?, "rate": rate});
            filled(server, "/v1/disks/add", &request, directory, *json)
        }
        Disk::Replace { old, new, server, rate, json } => {
            let request = json!({"old": absolute(old)?, "new": absolute(new)?, "rate": rate});
            filled(server, "/v1/disks/replace", &request, new, *json)
        }
    }
}

/// Requests that a directory be filled, and waits until it is.
fn filled(server: &Server, path: &str, request: &Value, new: &Path, json: bool) -> anyhow::Result<ExitCode> {
    if let Err(failure) = server.post(path, request) {
        return Ok(failure.report());
    }
    match wait(server) {
        Ok(data) => {
            let data = data?;
            if let Some(error) = data["filling"]["error"].as_str() {
                eprintln!("ogive: {} could not be filled: {error}", new.display());
                return Ok(ExitCode::from(EXIT_FINDING));
            }
            list(&data, json)
        }
        Err(failure) => Ok(failure.report()),
    }
}

fn disks(server: &Server) -> Result<anyhow::Result<Value>, Failure> {
    let body = server.get("/v1/disks", &[])?;
    let parsed = serde_json::from_str::<Value>(&body).context("the server's answer is not JSON");
    Ok(parsed.map(|answer| answer["data"].clone()))
}

/// Waits until no directory is being filled.
fn wait(server: &Server) -> Result<anyhow::Result<Value>, Failure> {
    let bar = Bar::new("filling");
    loop {
        let data = match disks(server)? {
            Ok(data) => data,
            Err(error) => return Ok(Err(error)),
        };
        let filling = &data["filling"];
        if filling["running"] != json!(true) {
            bar.end();
            return Ok(Ok(data));
        }
        bar.show(filling["done_bytes"].as_u64().unwrap_or(0), filling["total_bytes"].as_u64().unwrap_or(0));
        std::thread::sleep(LOOK);
    }
}

/// A directory that is out of use is a finding.
fn list(data: &Value, json: bool) -> anyhow::Result<ExitCode> {
    let empty = Vec::new();
    let disks = data["disks"].as_array().unwrap_or(&empty);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if json {
        println!("{data}");
    } else {
        let width = disks.iter().map(|disk| text(&disk["path"]).chars().count()).max().unwrap_or(0);
        for disk in disks {
            let count = |name: &str| thousands(disk[name].as_u64().unwrap_or(0));
            let (path, state, why) = (text(&disk["path"]), text(&disk["state"]), text(&disk["why"]));
            let why = if why.is_empty() { why } else { format!("  {why}") };
            let (failures, healed) = (count("failures"), count("healed"));
            println!("{path:width$}  {state:7}  {}{failures} failures, {healed} healed{why}", room(disk));
        }
        for problem in data["problems"].as_array().into_iter().flatten() {
            println!("found at the start: {}", text(problem));
        }
        let filling = &data["filling"];
        if filling["running"] == json!(true) {
            let count = |name: &str| thousands(filling[name].as_u64().unwrap_or(0));
            println!("{}: {} of {} bytes", text(&filling["what"]), count("done_bytes"), count("total_bytes"));
        }
    }
    let whole = disks.iter().all(|disk| disk["state"] == "live");
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FINDING) })
}

/// How much space a disk has left, where that is known.
fn room(disk: &Value) -> String {
    let (Some(free), Some(size)) = (disk["free_bytes"].as_u64(), disk["size_bytes"].as_u64()) else {
        return String::new();
    };
    let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    format!("{:.1} of {:.1} GiB free, ", gib(free), gib(size))
}
