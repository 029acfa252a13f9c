//! `ogive event`: reports to a server that something happened, as a mark on every picture of its page.

use std::process::ExitCode;

use ogive_text::calendar::instant_ms;
use serde_json::{Map, json};

use super::client::Server;
use super::times;

/// Stores an event, such as a release; it appears as a mark on every picture.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
  ogive event \"deploy v42\" --label service=checkout
  ogive event \"failover to b\" --kind failover --time 2026-11-23T12:00:00Z")]
pub(crate) struct EventOptions {
    /// Text of the event.
    #[arg(value_name = "TEXT")]
    text: String,
    /// Kind of event.
    #[arg(long, default_value = "deploy")]
    kind: String,
    /// Label of the event, as NAME=VALUE. Repeatable.
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<String>,
    /// When it happened: -5m, Unix seconds or RFC 3339; default: now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = times::parse)]
    time: Option<String>,
    #[command(flatten)]
    server: Server,
}

/// Runs the command.
pub(crate) fn run(options: &EventOptions) -> anyhow::Result<ExitCode> {
    let mut labels = Map::new();
    for label in &options.label {
        let (name, value) =
            label.split_once('=').ok_or_else(|| anyhow::anyhow!("--label {label:?}: write NAME=VALUE"))?;
        labels.insert(name.to_owned(), value.into());
    }
    let mut event = json!({"text": options.text, "kind": options.kind, "labels": labels});
    if let Some(time) = &options.time {
        let time_ms = instant_ms(time)
            .ok_or_else(|| anyhow::anyhow!("--time {time:?}: write Unix seconds or such as 2026-11-23T12:00:00Z"))?;
        event["time_ms"] = time_ms.into();
    }
    match options.server.post("/v1/events", &event) {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(failure) => Ok(failure.report()),
    }
}
