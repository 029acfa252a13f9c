//! `ogive audit`: who did what, of a running server or of stopped directories.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ogive_door::audit::{CONFIG_METRIC, METRIC};
use ogive_model::{METRIC_NAME, MatchOp, Matcher, Ms, Select as _, Selection, Tenant, TimeRange, WallMs};
use ogive_probe::Clock;
use ogive_store::offline_audit::OfflineAudit;
use ogive_store::{Options, Store};
use ogive_text::calendar::rfc3339;
use serde_json::{Value, json};

use super::client::{Failure, Server};
use super::format::duration;
use super::times;
use crate::offline_audit::lines;
use ogive_storage::Time;
use ogive_storage::upkeep::open_mirror;

/// 1,000,000 entries: all that one request reads.
const ENTRIES_MAX: usize = 1_000_000;

/// Shows who did what: commands and requests that changed something, and changes of configuration.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Each entry has a time, the action and who did it; further lines show the request, what changed, and the outcome.

  ogive audit --since 30d
  ogive audit --action snapshot --json
  ogive audit --data /disk1/ogive --data /disk2/ogive    # of a stopped server")]
pub(crate) struct Audit {
    /// How far back to look: seconds, or a duration such as 7d.
    #[arg(long, default_value = "7d", value_name = "DURATION", value_parser = duration)]
    since: Duration,
    /// Only entries whose action contains this word.
    #[arg(long, value_name = "WORD")]
    action: Option<String>,
    /// Data directory of a stopped server to read, instead of asking a running one. Repeatable.
    #[arg(long, value_name = "DIR")]
    data: Vec<PathBuf>,
    #[command(flatten)]
    server: Server,
    /// Print each entry as a JSON object.
    #[arg(long)]
    json: bool,
}

/// One entry of the audit.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    time: WallMs,
    action: String,
    /// The configuration that changed, where one did.
    file: String,
    text: String,
}

/// Runs the command.
pub(crate) fn run(options: &Audit) -> anyhow::Result<ExitCode> {
    let since = times::now().saturating_sub(Ms::from(options.since));
    let entries = if options.data.is_empty() {
        match running(&options.server, since) {
            Ok(answer) => entries_from(&serde_json::from_str(&answer).context("the server's answer is not JSON")?),
            Err(failure) => return Ok(failure.report()),
        }
    } else {
        stopped(&options.data, since)?
    };
    let mut entries: Vec<Entry> = entries;
    entries.retain(|entry| options.action.as_ref().is_none_or(|word| entry.action.contains(word)));
    entries.sort();
    for entry in &entries {
        println!("{}", if options.json { entry.json().to_string() } else { entry.text() });
    }
    if entries.is_empty() && !options.json {
        println!("nothing was done in this time");
    }
    Ok(ExitCode::SUCCESS)
}

fn running(server: &Server, since: WallMs) -> Result<String, Failure> {
    let selector = format!("{{__name__=~\"{METRIC}|{CONFIG_METRIC}\"}}");
    let start = (since.0.max(0) / 1000).to_string();
    server.get("/v1/cells", &[("match[]", &selector), ("start", &start)])
}

/// The entries in a response of `/v1/cells`.
fn entries_from(answer: &Value) -> Vec<Entry> {
    let samples = answer["data"]["samples"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entry = |sample: &Value| {
        let index = usize::try_from(sample["series"].as_u64()?).ok()?;
        let labels = &answer["data"]["series"][index]["labels"];
        Some(Entry {
            time: WallMs(sample["time_ms"].as_i64()?),
            action: text(&labels["action"]),
            file: text(&labels["file"]),
            text: text(&sample["text"]),
        })
    };
    samples.filter_map(entry).collect()
}

/// The entries in a store that is not open, and those of commands since its last server.
fn stopped(directories: &[PathBuf], since: WallMs) -> anyhow::Result<Vec<Entry>> {
    let (mirror, _) = open_mirror(directories, false)?;
    let pending = OfflineAudit::read(&mirror, mirror.root())?;
    // It is read: nothing is rolled up or merged.
    let options = Options { rollups: Vec::new(), compact_blocks: 0, ..Options::default() };
    let root = mirror.root().to_owned();
    let store = Store::open(Arc::new(mirror), &root, options, Arc::new(Time(Clock::global())))?;
    let matchers = vec![
        Matcher::new(METRIC_NAME, MatchOp::Regex, format!("{METRIC}|{CONFIG_METRIC}")).map_err(anyhow::Error::msg)?,
    ];
    let selection = Selection {
        samples_max: ENTRIES_MAX,
        ..Selection::new(matchers, TimeRange { start: since, end: WallMs::MAX })
    };
    let tenant = Tenant::default();
    let found = store.tenant(&tenant).select(&selection)?;
    let mut out = Vec::new();
    for series in found {
        let label = |name: &str| series.labels.get(name).to_owned();
        for (time, text) in series.texts.times.iter().zip(&series.texts.values) {
            out.push(Entry {
                time: WallMs(*time),
                action: label("action"),
                file: label("file"),
                text: text.to_string(),
            });
        }
    }
    for entry in pending.iter().flat_map(|pending| &pending.entries) {
        let time = entry.time.to_ms();
        if time > since {
            out.push(Entry { time, action: entry.action.clone(), file: String::new(), text: lines(entry) });
        }
    }
    Ok(out)
}

impl Entry {
    fn json(&self) -> Value {
        let (who, what) = self.text.split_once('\n').unwrap_or((&self.text, ""));
        let mut out = json!({"time_ms": self.time, "action": self.action, "who": who, "what": what});
        if !self.file.is_empty() {
            out["file"] = self.file.as_str().into();
        }
        out
    }

    fn text(&self) -> String {
        let (who, what) = self.text.split_once('\n').unwrap_or((&self.text, ""));
        let file = if self.file.is_empty() { String::new() } else { format!(" {}", self.file) };
        let mut out = format!("{} {}{file}: {who}", rfc3339(self.time.0), self.action);
        what.lines().for_each(|line| out.push_str(&format!("\n    {line}")));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_who_first_and_what_below() {
        let answer = json!({"data": {
        "series": [{"labels": {"action": "/v1/snapshots"}}, {"labels": {"action": "web", "file": "/w.yml"}}],
        "samples": [
            {"series": 1, "time_ms": 1000, "text": "file change; owner_uid=0\n+ token x"},
            {"series": 0, "time_ms": 2000, "text": "alice\nPOST /v1/snapshots\nanswered 201"},
            {"series": 7, "time_ms": 3000},
        ]}});
        let entries = entries_from(&answer);
        assert_eq!(entries[0].text(), "1970-01-01T00:00:01Z web /w.yml: file change; owner_uid=0\n    + token x");
        let expected = json!({"time_ms": 2000, "action": "/v1/snapshots", "who": "alice", "what": "POST /v1/snapshots\nanswered 201"});
        assert_eq!(entries[1].json(), expected);
        assert_eq!(entries.len(), 3);
    }
}
