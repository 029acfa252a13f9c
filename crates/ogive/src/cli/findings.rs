//! `ogive findings`: what the server's detectors found.

use std::process::ExitCode;

use anyhow::Context;
use ogive_text::calendar::rfc3339;
use serde_json::Value;

use super::client::Server;
use super::exit::EXIT_FINDING;
use super::format::thousands;

/// Lists the faults that the server's detectors found without a rule: absences, periodic gaps, changes of shape, lost
/// parents.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The exit code is 1 while something is active.

  ogive findings
  ogive findings --recent
  ogive query 'ogive_finding == 1'")]
pub(crate) struct Findings {
    #[command(flatten)]
    server: Server,
    /// Include findings that have ended, newest first.
    #[arg(long)]
    recent: bool,
    /// Print the server's JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(options: &Findings) -> anyhow::Result<ExitCode> {
    let body = match options.server.get("/v1/detections", &[]) {
        Ok(body) => body,
        Err(failure) => return Ok(failure.report()),
    };
    let document: Value = serde_json::from_str(&body).context("the server's answer is not JSON")?;
    let is_active = document["active"].as_array().is_some_and(|active| !active.is_empty());
    if options.json {
        print!("{body}");
    } else {
        let list = if options.recent { "recent" } else { "active" };
        document[list].as_array().into_iter().flatten().for_each(|finding| println!("{}", line(finding)));
        eprintln!("{}", summary(&document));
    }
    Ok(if is_active { ExitCode::from(EXIT_FINDING) } else { ExitCode::SUCCESS })
}

fn summary(document: &Value) -> String {
    if document["on"] != Value::Bool(true) {
        return "the detectors of this server are off (--detect-series 0), or it is a broker".into();
    }
    let number = |name: &str| thousands(document[name].as_u64().unwrap_or(0));
    let count = document["active"].as_array().map_or(0, Vec::len);
    let until = document["watermark_ms"].as_i64().map_or_else(String::new, rfc3339);
    format!("{count} active, {} found; {} series judged until {until}", number("found"), number("series"))
}

/// One finding for people.
pub(super) fn line(finding: &Value) -> String {
    let at = finding["at_ms"].as_i64().map_or_else(String::new, rfc3339);
    let text = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let state = if finding["active"] == Value::Bool(true) { "" } else { " (over)" };
    let labels = finding["labels"].as_object();
    let name = labels.and_then(|labels| labels.get("__name__")?.as_str()).unwrap_or_default();
    let others = labels.into_iter().flatten().filter(|(label, _)| *label != "__name__");
    let others: Vec<String> = others.map(|(label, value)| format!("{label}={value}")).collect();
    let series = if others.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", others.join(",")) };
    format!("{at} {}{state} {series}: {}", text("kind"), text("sentence"))
}
