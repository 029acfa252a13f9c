//! `ogive status`: what a server says of itself.

use std::process::ExitCode;

use anyhow::Context;

use super::client::Server;
use super::format::thousands;
use super::scrub::{known, sentence};

/// Shows what a server holds and counted.
#[derive(clap::Args, Debug)]
pub(crate) struct Status {
    #[command(flatten)]
    server: Server,
    /// Print the server's JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(options: &Status) -> anyhow::Result<ExitCode> {
    let body = match options.server.get("/v1/status", &[]) {
        Ok(body) => body,
        Err(failure) => return Ok(failure.report()),
    };
    if options.json {
        print!("{body}");
        return Ok(ExitCode::SUCCESS);
    }
    let figures: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&body).context("the server's status is not a JSON object")?;
    let width = figures.keys().map(String::len).max().unwrap_or(0);
    for (name, value) in &figures {
        let shown = match (value.as_u64(), value.as_str()) {
            (Some(number), _) => thousands(number),
            (_, Some(text)) => text.to_owned(),
            _ => value.to_string(),
        };
        println!("{name:width$}  {shown}");
    }
    if figures.get("unacknowledged_findings").and_then(serde_json::Value::as_u64).is_some_and(|count| count > 0) {
        match known(&options.server) {
            Ok(found) => found.iter().for_each(|finding| println!("{}", sentence(finding))),
            Err(failure) => return Ok(failure.report()),
        }
        println!("`ogive scrub --acknowledge` takes note of these findings");
    }
    Ok(ExitCode::SUCCESS)
}
