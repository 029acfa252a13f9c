//! `ogive subscribe`: the closed cells of selectors as lines of JSON, for programs downstream.
//!
//! Format: one object a line: what `/v1/subscribe` sends as data, with `event` (`cell`, `correction`, `watermark`,
//! `gap`) and the `id` of a watermark.
//! Invariants: a watermark's line stands behind everything of its seconds; its id is in the file of `--state` after its
//! line was written. Who was cut off goes on behind the last one, and cells that come again as they were are left out.
//! Failure: a server that is away is asked again, ever more rarely up to [`PAUSE_MAX`]; one that refuses ends the
//! command with its word.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use ogive_journal::{Disk as _, Error as DiskError, RealDisk};
use serde_json::Value;

use super::client::{Failure, Server};
use super::sse::{self, LONGEST, PAUSE, PAUSE_MAX};

/// Seconds that are sent again after a watermark, and some more.
const AGAIN_SECONDS: i64 = 180;

/// Prints the cells of selectors as they close, one JSON object per line.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
  ogive subscribe '{ogive_cell=\"1s\"}' --lateness 3s --state orders.id
  ogive subscribe 'rpc_seconds{job=\"shop\"}' | jq -c 'select(.event == \"cell\")'")]
pub(crate) struct Subscribe {
    /// Selector of the series, such as rpc_seconds{job="shop"}. Repeatable; cells of any of them are printed.
    #[arg(required = true, value_name = "SELECTOR")]
    selectors: Vec<String>,
    /// How long after its end a second is read, up to 60s; default: the server's 250ms.
    #[arg(long, value_name = "TIME")]
    lateness: Option<String>,
    /// Resume after this watermark: the id of one that was printed.
    #[arg(long, value_name = "ID")]
    after: Option<i64>,
    /// File that keeps the id of the last watermark; the next start resumes there.
    #[arg(long, value_name = "FILE", conflicts_with = "after")]
    state: Option<PathBuf>,
    /// Stop after this many watermarks.
    #[arg(long, value_name = "COUNT")]
    watermarks: Option<u64>,
    #[command(flatten)]
    server: Server,
}

/// Why a stream is over.
enum Over {
    /// The count is reached, or the reader is gone.
    Done,
    /// The stream was cut off and has to be resumed.
    Cut(String),
}

/// Runs the command.
pub(crate) fn run(command: &Subscribe) -> anyhow::Result<ExitCode> {
    let mut after = command.after;
    if let Some(path) = &command.state {
        after = match RealDisk.read(path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                Some(text.trim().parse().with_context(|| format!("{} holds no id", path.display()))?)
            }
            Err(DiskError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
    }
    let mut lines = Lines { command, after, left: command.watermarks, seen: BTreeMap::new(), pause: PAUSE };
    let mut params: Vec<(&str, &str)> = command.selectors.iter().map(|selector| ("match[]", &**selector)).collect();
    params.extend(command.lateness.as_deref().map(|lateness| ("lateness", lateness)));
    loop {
        let id = lines.after.map(|id| id.to_string());
        let header = id.as_deref().map(|id| ("last-event-id", id));
        let why = match command.server.stream("/v1/subscribe", &params, header, LONGEST) {
            Ok(stream) => match lines.copy(stream)? {
                Over::Done => return Ok(ExitCode::SUCCESS),
                Over::Cut(why) => why,
            },
            Err(Failure::Unreachable(why)) => why,
            Err(Failure::Refused { status, message }) if status >= 500 || status == 429 => message,
            Err(failure) => return Ok(failure.report()),
        };
        eprintln!("ogive: {why}; asking again in {} ms", lines.pause.as_millis());
        std::thread::sleep(lines.pause);
        lines.pause = (lines.pause * 2).min(PAUSE_MAX);
    }
}

struct Lines<'a> {
    command: &'a Subscribe,
    /// The last watermark.
    after: Option<i64>,
    /// Watermarks until the end.
    left: Option<u64>,
    /// A hash of each cell of the last minutes, by time and series.
    seen: BTreeMap<(i64, u64), u64>,
    pause: std::time::Duration,
}

impl Lines<'_> {
    /// Prints the events of a stream.
    fn copy(&mut self, stream: impl Read) -> anyhow::Result<Over> {
        let over = sse::read(stream, |event| {
            Ok(self.event(&event.name, &event.data)?.map_or(ControlFlow::Continue(()), ControlFlow::Break))
        })?;
        Ok(match over {
            ControlFlow::Break(over) => over,
            ControlFlow::Continue(why) => Over::Cut(why),
        })
    }

    fn event(&mut self, name: &str, data: &str) -> anyhow::Result<Option<Over>> {
        let Ok(Value::Object(mut event)) = serde_json::from_str(data) else {
            return Ok(Some(Over::Cut(format!("the server sent {data:?}"))));
        };
        if name == "error" {
            anyhow::bail!("the server ended the stream: {}", event["error"].as_str().unwrap_or(data));
        }
        if matches!(name, "cell" | "correction") && self.is_known(&event, data) {
            return Ok(None);
        }
        let id = (name == "watermark").then(|| event["t"].as_i64()).flatten();
        event.insert("event".into(), name.into());
        if let Some(id) = id {
            event.insert("id".into(), id.into());
        }
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{}", Value::Object(event)).and_then(|()| out.flush()).is_err() {
            // The reader is gone.
            return Ok(Some(Over::Done));
        }
        let Some(id) = id else { return Ok(None) };
        self.pause = PAUSE;
        self.after = Some(id);
        self.seen = self.seen.split_off(&((id - AGAIN_SECONDS) * 1_000, 0));
        if let Some(path) = &self.command.state {
            RealDisk.replace(path, format!("{id}\n").as_bytes())?;
        }
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return Ok(Some(Over::Done));
            }
        }
        Ok(None)
    }

    /// Whether this cell was already printed unchanged.
    fn is_known(&mut self, event: &serde_json::Map<String, Value>, data: &str) -> bool {
        let hash = |text: &str| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            hasher.finish()
        };
        let series =
            format!("{}{}", event.get("labels").unwrap_or(&Value::Null), event.get("kind").unwrap_or(&Value::Null));
        let time = event.get("time_ms").and_then(Value::as_i64).unwrap_or(0);
        let found = hash(data);
        self.seen.insert((time, hash(&series)), found) == Some(found)
    }
}
