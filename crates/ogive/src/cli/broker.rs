//! `ogive broker`: starts one, and shows one.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use ogive_fleet::BrokerStore;
use ogive_journal::RealDisk;
use ogive_probe::Clock;
use serde_json::Value;

use super::client::Server;
use super::clock::kernel::Directory;
use super::exit::{EXIT_FINDING, EXIT_USAGE};
use super::format::thousands;
use super::terminal::Terminal;
use super::{files, read_file};
use crate::{broker, crash_reports, log_output};

/// Stores and forwards: accepts everything `serve` accepts, spools it to disk, and delivers it to every destination.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BrokerCommand {
    /// Configuration file of the broker (TOML): listeners, spool, destinations (docs/broker.md). Reread on
    /// SIGHUP.
    #[arg(short, long, value_name = "FILE", env = "OGIVE_BROKER_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    log: log_output::Options,
    #[command(flatten)]
    crash: crash_reports::Options,
    #[command(flatten)]
    kernel: Directory,
    #[command(subcommand)]
    command: Option<BrokerRequest>,
}

#[derive(clap::Subcommand, Debug)]
enum BrokerRequest {
    /// Enrols this broker with a server by a one-time ticket of `ogive fleet ticket`, and keeps the credential in the
    /// directory of [fleet] in its file, or in its spool's.
    #[command(name = "enroll")]
    Enrol {
        /// Address of the server.
        url: String,
        /// The ticket.
        ticket: String,
        /// Configuration file of the broker.
        #[arg(short, long, value_name = "FILE", env = "OGIVE_BROKER_CONFIG")]
        config: PathBuf,
        /// Name of the broker; default: that of its file.
        #[arg(long)]
        name: Option<String>,
    },
    /// Shows each destination's lag, rate and gaps, and a picture of the spool. Exit code 1 when a destination is
    /// a minute behind.
    Status {
        #[command(flatten)]
        server: Server,
        /// Print the broker's JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// A minute: a destination that restarts is not yet worth reporting.
const LAG_SECONDS_MAX: f64 = 60.0;

/// Runs the command.
pub(crate) fn run(command: &BrokerCommand, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    if let Some(BrokerRequest::Status { server, json }) = &command.command {
        return status(server, *json, terminal);
    }
    if let Some(BrokerRequest::Enrol { url, ticket, config, name }) = &command.command {
        return enrol(url, ticket, config, name.as_deref());
    }
    let Some(path) = &command.config else {
        eprintln!("ogive: name the broker's file: ogive broker -c broker.toml");
        return Ok(ExitCode::from(EXIT_USAGE));
    };
    log_output::start(&command.log);
    command.kernel.apply(Clock::global());
    broker::run(path, &command.crash, command.kernel.asker())
}

fn enrol(url: &str, ticket: &str, path: &Path, name: Option<&str>) -> anyhow::Result<ExitCode> {
    let config = broker::config::read(path).map_err(anyhow::Error::msg)?;
    let fleet = config.fleet.clone().unwrap_or_default();
    let directory = fleet.directory(&config.spool);
    let kept = BrokerStore::open(Arc::new(RealDisk), directory.clone(), files::restrict)?;
    let name = name.unwrap_or(&config.name);
    let enroled = ogive_fleet::enrol(&kept, url, ticket, name, &fleet.link(), read_file);
    let enroled = enroled.map_err(anyhow::Error::msg).context("this broker is not enrolled")?;
    println!("{name} is enrolled in the group {}; its credential is in {}", enroled.group, directory.display());
    if config.fleet.is_none() {
        println!("add the table [fleet] to {} and restart the broker, so that it asks {url}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn status(server: &Server, is_json: bool, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let body = match server.get("/v1/broker", &[]) {
        Ok(body) => body,
        Err(failure) => return Ok(failure.report()),
    };
    let state: Value = serde_json::from_str(&body).context("the broker's state is not JSON")?;
    if is_json {
        print!("{body}");
    } else {
        print!("{}", picture(&state, terminal));
    }
    let destinations = state["destinations"].as_array().map_or(&[][..], Vec::as_slice);
    let is_behind = |one: &Value| one["lag_seconds"].as_f64().is_some_and(|lag| lag > LAG_SECONDS_MAX);
    Ok(if destinations.iter().any(is_behind) { ExitCode::from(EXIT_FINDING) } else { ExitCode::SUCCESS })
}

/// The whole response for people.
fn picture(state: &Value, terminal: &Terminal) -> String {
    let spool = &state["spool"];
    let number = |value: &Value| thousands(value.as_u64().unwrap_or(0));
    let share = spool["bytes"].as_f64().unwrap_or(0.0) / spool["bytes_max"].as_f64().unwrap_or(1.0).max(1.0);
    let segments = spool["segments"].as_array().map_or(&[][..], Vec::as_slice);
    let mut out = format!(
        "broker {}: spool {} bytes in {} segments, {:.1} % of its limit\n",
        state["name"].as_str().unwrap_or("?"),
        number(&spool["bytes"]),
        segments.len(),
        100.0 * share
    );
    for one in state["destinations"].as_array().into_iter().flatten() {
        let name = one["name"].as_str().unwrap_or("?");
        let lag = one["lag_seconds"].as_f64().unwrap_or(0.0);
        out += &format!(
            "\n{name}: {lag:.1} s and {} bytes behind, {:.1} batches/s, {} acknowledged\n",
            number(&one["lag_bytes"]),
            one["acknowledged_per_second"].as_f64().unwrap_or(0.0),
            number(&one["acknowledged_batches_total"])
        );
        out += &format!("  {}\n", bar(segments, name, terminal));
        let gaps = &one["gaps"];
        if gaps["made_total"].as_u64().unwrap_or(0) > 0 {
            let waiting = gaps["waiting"].as_array().map_or(0, Vec::len);
            out += &format!(
                "  given up: {} samples of {} batches in {} gaps, {waiting} not yet reported\n",
                number(&gaps["samples_total"]),
                number(&gaps["batches_total"]),
                number(&gaps["made_total"])
            );
        }
        if let (true, Some(text)) = (lag > 1.0, one["problem"]["text"].as_str()) {
            out += &format!("  {text}\n");
        }
    }
    out
}

/// The spool from its oldest to its newest byte: what the destination has, has in part, and does not have.
fn bar(segments: &[Value], name: &str, terminal: &Terminal) -> String {
    let width = terminal.width.saturating_sub(12).max(10);
    let (full, part, none) = if terminal.unicode { ('█', '▒', '░') } else { ('#', '+', '.') };
    let bytes = |segment: &Value| segment["bytes"].as_f64().unwrap_or(0.0).max(1.0);
    let total: f64 = segments.iter().map(bytes).sum();
    let mut out = String::from("old ");
    for cell in 0..width {
        let at = total * (cell as f64 + 0.5) / width as f64;
        let mut end = 0.0;
        let found = segments.iter().find(|segment| {
            end += bytes(segment);
            at <= end
        });
        let done = found.map_or(1.0, |segment| segment["done"][name].as_f64().unwrap_or(0.0));
        out.push(match done {
            done if done >= 1.0 => full,
            done if done <= 0.0 => none,
            _ => part,
        });
    }
    out + " new"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_tells_lag_gaps_and_what_is_where() {
        let state = serde_json::json!({
            "name": "edge",
            "spool": {"bytes": 400, "bytes_max": 800, "segments": [
                {"bytes": 100, "done": {"dc1": 1.0, "dc2": 0.0}}, {"bytes": 300, "done": {"dc1": 0.5, "dc2": 0.0}},
            ]},
            "destinations": [
                {"name": "dc1", "lag_seconds": 0.2, "lag_bytes": 0, "gaps": {"made_total": 0}},
                {"name": "dc2", "lag_seconds": 90.0, "lag_bytes": 400, "gaps": {"made_total": 2, "samples_total": 1000,
                    "batches_total": 3, "waiting": [{}]}, "problem": {"text": "no answer"}},
            ],
        });
        let terminal = Terminal { width: 52, height: 40, unicode: false, color: false };
        let text = picture(&state, &terminal);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("2 segments, 50.0 %"), "{text}");
        let expected = format!("  old {}{} new", "#".repeat(10), "+".repeat(30));
        assert_eq!(lines[3], expected);
        assert_eq!(lines[6], format!("  old {} new", ".".repeat(40)));
        assert!(lines[7].contains("1,000 samples of 3 batches in 2 gaps, 1 not yet reported"), "{text}");
        assert!(lines[8].contains("no answer") && !text[..200].contains("no answer"), "{text}");
    }
}
