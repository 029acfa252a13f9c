//! `ogive delete`: samples of a running server, by selector and time.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use super::client::{Failure, Server};
use super::exit::EXIT_FINDING;
use super::times;

/// Deletes samples permanently. The server must run with --enable-admin-api.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
When the command ends, queries no longer see the samples; their bytes are removed from disk soon after, or with --clean
before the command ends. Samples that arrive later for the same times are kept.

  ogive delete 'up{job=\"gone\"}'
  ogive delete '{customer=\"42\"}' --start 2026-01-01T00:00:00Z --end 2026-02-01T00:00:00Z --yes --clean")]
pub(crate) struct Delete {
    /// Selector of the series, such as up{job="gone"}.
    selector: String,
    /// Start of the range: -30d, now-7d, Unix seconds or RFC 3339; without it, everything before the end.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = times::parse)]
    start: Option<String>,
    /// End of the range; without it, everything from the start on.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = times::parse)]
    end: Option<String>,
    /// Do not ask for confirmation.
    #[arg(long)]
    yes: bool,
    /// Wait until the bytes are gone from the disk. Snapshots keep theirs: see --snapshots.
    #[arg(long)]
    clean: bool,
    /// What to do about snapshots that may hold the data; they are listed in any case.
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_value = "keep", default_missing_value = "delete")]
    snapshots: Snapshots,
    #[command(flatten)]
    server: Server,
    /// Print the outcome as JSON.
    #[arg(long)]
    json: bool,
}

/// What becomes of snapshots that may hold what is deleted.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Snapshots {
    /// Keep these snapshots and list them.
    Keep,
    /// Delete these snapshots as a whole.
    Delete,
    /// Refuse to delete anything while such a snapshot exists.
    Refuse,
}

impl Snapshots {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Delete => "delete",
            Self::Refuse => "refuse",
        }
    }
}

/// Runs the command.
pub(crate) fn run(options: &Delete) -> anyhow::Result<ExitCode> {
    match done(options) {
        Ok(code) => Ok(code),
        Err(failure) => Ok(failure.report()),
    }
}

fn done(options: &Delete) -> Result<ExitCode, Failure> {
    let mut params = vec![("match[]", &*options.selector)];
    params.extend(options.start.as_deref().map(|start| ("start", start)));
    params.extend(options.end.as_deref().map(|end| ("end", end)));
    let matching: serde_json::Value =
        serde_json::from_str(&options.server.get("/api/v1/series", &params)?).unwrap_or_default();
    let count = matching["data"].as_array().map_or(0, Vec::len);
    if !options.yes && !agreed(&options.selector, count) {
        eprintln!("ogive: nothing was deleted");
        return Ok(ExitCode::from(EXIT_FINDING));
    }
    params.push(("snapshots", options.snapshots.as_str()));
    let answer = options.server.post_empty("/api/v1/admin/tsdb/delete_series", &params)?;
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
    let snapshots: Vec<&str> =
        answer["data"]["snapshots"].as_array().into_iter().flatten().filter_map(|name| name.as_str()).collect();
    let is_deleted = answer["data"]["snapshots_deleted"] == true;
    if options.clean {
        options.server.post_empty("/api/v1/admin/tsdb/clean_tombstones", &[])?;
    }
    if options.json {
        println!(
            "{}",
            serde_json::json!({
                "series": count, "cleaned": options.clean, "snapshots": snapshots, "snapshots_deleted": is_deleted,
            })
        );
    } else {
        println!("deleted from {count} series");
        let names = snapshots.join(", ");
        match (snapshots.is_empty(), is_deleted) {
            (true, _) => {}
            (false, true) => println!("deleted the snapshots that may have held it: {names}"),
            (false, false) => println!(
                "these snapshots may still hold it, and bring it back: {names}; `ogive snapshot delete NAME` removes one, --snapshots all of them"
            ),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks the person at the terminal; without a terminal the answer is no.
fn agreed(selector: &str, count: usize) -> bool {
    if !std::io::stdin().is_terminal() {
        eprintln!("ogive: say --yes to delete without being asked");
        return false;
    }
    eprint!("delete samples of {count} series that {selector} selects, for good? [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
