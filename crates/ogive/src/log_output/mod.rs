//! Log output of the process: where every `tracing` event goes, as one line of text or JSON on standard error.
//!
//! Invariants: an event is one `write` of one record. A record of text begins with a time; a line break inside a
//! message is followed by two spaces and other control characters are escaped, so that no message can look like another
//! record.
//! Limits: a message and a field are cut at [`MESSAGE_BYTES_MAX`].
//! Failure: what standard error does not take is lost; the process goes on.

mod record;

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

use ogive_probe::Clock;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use record::Record;

/// Form of a record.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// `2026-01-02T03:04:05.123Z INFO message key=value`.
    #[default]
    Text,
    /// One JSON object per line: time, level, target, message, and each field under its name.
    Json,
}

/// How a role writes its log.
#[derive(clap::Args, Clone, Debug)]
#[group(id = "log")]
pub(crate) struct Options {
    /// Format of the log on standard error.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text", env = "OGIVE_LOG_FORMAT")]
    log_format: Format,
    /// Least important level to log: off, error, warn, info, debug or trace; TARGET=LEVEL for one part, such as
    /// info,ogive_scrape=debug.
    #[arg(long, value_name = "LEVELS", default_value = "info", env = "OGIVE_LOG", value_parser = levels)]
    log_level: Levels,
}

/// Which events are logged.
#[derive(Clone, Debug)]
pub(crate) struct Levels(Targets);

/// Libraries log warnings, except the one whose every failure is the result of a check, and is stored as such.
fn library_targets() -> Targets {
    Targets::new().with_default(Level::WARN).with_target("async_snmp", LevelFilter::OFF)
}

/// Reads `--log-level`. A level without a target applies to Ogive; libraries beneath it log warnings unless they are
/// named.
fn levels(text: &str) -> Result<Levels, String> {
    let mut parts = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        if let Some((target, level)) = part.split_once('=') {
            parts.push((target.to_owned(), level.to_owned()));
        } else {
            parts.push(("ogive".to_owned(), part.to_owned()));
        }
    }
    let mut targets = library_targets();
    for (target, level) in parts {
        let level: LevelFilter = level
            .parse()
            .map_err(|_| format!("{level:?} is no level; known are off, error, warn, info, debug, trace"))?;
        targets = targets.with_target(target, level);
    }
    Ok(Levels(targets))
}

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// `ogive: message`: a command that a person runs.
    Command,
    Role(Format),
}

/// Starts the log of a role.
pub(crate) fn start(options: &Options) {
    install(Style::Role(options.log_format), options.log_level.0.clone());
}

/// Whether a role's log has begun, so that its end belongs there too.
pub(crate) fn is_of_a_role() -> bool {
    STYLE.get().is_some_and(|style| matches!(style, Style::Role(_)))
}

/// Starts the log of a command: only messages, for the person who runs it. Changes nothing if there is a log already.
pub(crate) fn start_of_command() {
    let all = library_targets().with_target("ogive", Level::INFO);
    install(Style::Command, all);
}

static STYLE: OnceLock<Style> = OnceLock::new();

fn install(style: Style, targets: Targets) {
    if STYLE.set(style).is_err() {
        return;
    }
    let layer = Output { style, clock: Clock::global() }.with_filter(targets);
    // It fails only if another subscriber is already set, which then receives the events.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer));
}

/// 1,000 records are remembered for whoever asks from afar, at most 500 bytes of each.
const RECENT_MAX: usize = 1_000;
const RECENT_BYTES_MAX: usize = 500;

static RECENT: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

fn remember(line: &str) {
    let line = line.trim_end();
    let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    if recent.len() >= RECENT_MAX {
        recent.pop_front();
    }
    recent.push_back(line[..line.floor_char_boundary(RECENT_BYTES_MAX)].to_owned());
}

/// The last records of the log of a role, the oldest first.
pub(crate) fn recent(count: usize) -> Vec<String> {
    let recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    recent.iter().skip(recent.len().saturating_sub(count)).cloned().collect()
}

struct Output {
    style: Style,
    clock: Clock,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Output {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let record = Record::new(event, self.clock.wall());
        let line = match self.style {
            Style::Command => record.message_alone(),
            Style::Role(Format::Text) => record.text(),
            Style::Role(Format::Json) => record.json(),
        };
        if self.style != Style::Command {
            ogive_crash::handler::log(&record.text());
        }
        if self.style != Style::Command {
            remember(&line);
        }
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_apply_to_ogive_and_to_what_is_named() {
        let enabled = |text: &str, target: &str, level: Level| levels(text).unwrap().0.would_enable(target, &level);
        assert!(enabled("info", "ogive::front", Level::INFO));
        assert!(enabled("info", "ogive_scrape::pool", Level::INFO));
        assert!(!enabled("info", "ogive::front", Level::DEBUG));
        assert!(!enabled("debug", "hyper::proto", Level::DEBUG));
        assert!(enabled("debug", "hyper::proto", Level::WARN));
        assert!(enabled("warn,hyper=trace", "hyper::proto", Level::TRACE));
        assert!(!enabled("warn,hyper=trace", "ogive::front", Level::INFO));
        assert!(enabled("info,ogive_scrape=debug", "ogive_scrape::pool", Level::DEBUG));
        assert!(!enabled("off", "ogive::front", Level::ERROR));
        assert!(!enabled("info", "async_snmp::client", Level::ERROR));
        assert!(enabled("info,async_snmp=debug", "async_snmp::client", Level::DEBUG));
        let wrong = levels("info,hyper=loud").unwrap_err();
        assert!(wrong.contains("loud") && wrong.contains("debug"), "{wrong}");
    }
}
