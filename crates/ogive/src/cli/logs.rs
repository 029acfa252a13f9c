//! `ogive logs`: searches the lines that a server stores, and follows them as they come.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use ogive_model::{Ms, WallMs};
use ogive_text::calendar::utc;
use serde::{Deserialize, Serialize};

use super::client::{Failure, Server};
use super::format::duration;
use super::terminal::Terminal;
use super::times::{self, now, seconds};
use crate::cli::standard_output::StandardOutput;

/// 5,000 lines a request: as many as the server returns at once.
const PAGE: usize = 5_000;

/// 10 s: a line that arrives later than this after a newer one is not shown by --follow.
const LATE: Ms = Ms::from_secs(10);

/// How often --follow queries the server.
const POLL: Duration = Duration::from_secs(1);

/// Searches stored log lines.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
QUERY consists of words, \"phrases\", /regular expressions/, field=value, {label=\"value\"}, AND, OR, NOT and parentheses
(docs/logs.md); without it every line is shown. The newest lines are shown, in order of time.

  ogive logs error --since 15m
  ogive logs 'level=error status>=500 NOT /health/' -s 'log{job=\"api\"}'
  ogive logs 'timeout OR \"connection refused\"' --follow

Exit codes: 0 success, even when nothing was found; 2 wrong usage, or an invalid query; 3 the server cannot be reached.")]
pub(crate) struct Logs {
    /// Search expression.
    query: Option<String>,
    /// Selector of the series, as PromQL. Repeatable; lines of any of them match.
    #[arg(short, long, value_name = "SELECTOR")]
    series: Vec<String>,
    /// How far back to look: seconds, or a duration such as 15m.
    #[arg(long, default_value = "1h", value_name = "DURATION", value_parser = duration, conflicts_with = "start")]
    since: Duration,
    /// Start of a range instead: -1h, now-7d, Unix seconds or RFC 3339.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = times::parse)]
    start: Option<String>,
    /// End of the range; default: now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = times::parse, requires = "start", conflicts_with = "follow")]
    end: Option<String>,
    /// Number of lines, newest first.
    #[arg(long, short = 'n', default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    limit: u64,
    /// Keep printing new lines as they are stored.
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    server: Server,
    /// Print each line as JSON, with its labels and fields.
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Answer {
    data: Page,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Page {
    series: usize,
    next: Option<String>,
    lines: Vec<Line>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Line {
    t: f64,
    labels: BTreeMap<String, String>,
    severity: String,
    line: String,
    #[serde(default)]
    fields: serde_json::Value,
}

impl Line {
    fn time(&self) -> WallMs {
        WallMs((self.t * 1e3).round() as i64)
    }
}

/// Why a search ended early.
enum SearchEnd {
    Failed(Failure),
    Other(anyhow::Error),
}

impl From<Failure> for SearchEnd {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<anyhow::Error> for SearchEnd {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

/// Runs the command.
pub(crate) fn run(options: &Logs, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let output = Output { json: options.json, color: terminal.color };
    match search(options, &output) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(SearchEnd::Failed(failure)) => Ok(failure.report()),
        // The reader has seen enough: `ogive logs | head`.
        Err(SearchEnd::Other(error)) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        Err(SearchEnd::Other(error)) => Err(error),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn search(options: &Logs, output: &Output) -> Result<(), SearchEnd> {
    let since = now().saturating_sub(Ms::from(options.since)).max(WallMs(0));
    let start = options.start.clone().unwrap_or_else(|| seconds(since));
    // What is stored now may belong to the next second: cells end there.
    let end = options.end.clone().unwrap_or_else(|| seconds(now() + Ms::from_secs(1)));
    let (mut lines, is_cut, series) = options.newest(&start, &end)?;
    lines.reverse();
    for line in &lines {
        output.line(line)?;
    }
    if !options.follow {
        note(&lines, is_cut, series);
        return Ok(());
    }
    // A relative start is resolved by the server: everything up to now has then been shown.
    let first = if is_cut { lines.first().map(Line::time) } else { None };
    let start = if options.start.is_some() { now() - LATE } else { since };
    let mut tail = Tail { shown: HashMap::new(), from: first.unwrap_or(start) };
    lines.iter().for_each(|line| tail.add(line));
    options.follow(output, &mut tail)
}

/// Reports on standard error what the listing does not show.
fn note(lines: &[Line], is_cut: bool, series: usize) {
    if lines.is_empty() {
        let why = if series == 0 { "no series of lines has any here" } else { "no line matches" };
        eprintln!("ogive: nothing found: {why}; --since looks further back");
    } else if is_cut {
        eprintln!("ogive: there are more; --limit shows them");
    }
}

impl Logs {
    /// The newest lines, the last one first; whether there are more; and of how many series.
    fn newest(&self, start: &str, end: &str) -> Result<(Vec<Line>, bool, usize), SearchEnd> {
        let (mut lines, limit) = (Vec::new(), self.limit as usize);
        let mut cursor = None;
        loop {
            let page = self.page(start, end, "backward", (limit - lines.len()).min(PAGE), cursor.as_deref())?;
            lines.extend(page.lines);
            cursor = page.next;
            if lines.len() >= limit || cursor.is_none() {
                return Ok((lines, cursor.is_some(), page.series));
            }
        }
    }

    fn page(
        &self,
        start: &str,
        end: &str,
        direction: &str,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<Page, SearchEnd> {
        let limit = limit.to_string();
        let mut params = vec![("start", start), ("end", end), ("direction", direction), ("limit", &limit)];
        params.extend(self.query.as_deref().map(|query| ("query", query)));
        params.extend(self.series.iter().map(|series| ("match", &**series)));
        params.extend(cursor.map(|cursor| ("cursor", cursor)));
        let body = self.server.get("/v1/logs", &params)?;
        let answer: Answer = serde_json::from_str(&body).context("the server's answer is not as documented")?;
        for warning in answer.warnings {
            eprintln!("ogive: warning: {warning}");
        }
        Ok(answer.data)
    }

    /// Shows new lines until it is interrupted.
    fn follow(&self, output: &Output, tail: &mut Tail) -> Result<(), SearchEnd> {
        let mut is_gone = false;
        loop {
            std::thread::sleep(POLL);
            match self.poll(output, tail) {
                Ok(()) => is_gone = false,
                // It may be restarting.
                Err(SearchEnd::Failed(Failure::Unreachable(message))) => {
                    if !is_gone {
                        eprintln!("ogive: {message}; asking again");
                    }
                    is_gone = true;
                }
                Err(ended) => return Err(ended),
            }
        }
    }

    fn poll(&self, output: &Output, tail: &mut Tail) -> Result<(), SearchEnd> {
        let (start, end, mut cursor) = (seconds(tail.from), seconds(now() + Ms::from_secs(60)), None);
        let mut seen = HashMap::new();
        loop {
            let page = self.page(&start, &end, "forward", PAGE, cursor.as_deref())?;
            for line in &page.lines {
                let count = seen.entry(key(line)).or_insert(0_u64);
                *count += 1;
                if *count > tail.shown.get(&key(line)).copied().unwrap_or(0) {
                    output.line(line)?;
                    tail.add(line);
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        tail.forget();
        Ok(())
    }
}

/// What was shown of the last seconds, so that nothing is shown twice.
struct Tail {
    shown: HashMap<(WallMs, String), u64>,
    from: WallMs,
}

fn key(line: &Line) -> (WallMs, String) {
    (line.time(), format!("{:?}{}", line.labels, line.line))
}

impl Tail {
    /// Notes a line that was shown.
    fn add(&mut self, line: &Line) {
        *self.shown.entry(key(line)).or_insert(0) += 1;
    }

    /// Forgets what is too old to be queried again.
    fn forget(&mut self) {
        if let Some(newest) = self.shown.keys().map(|key| key.0).max() {
            self.from = self.from.max(newest.saturating_sub(LATE));
            self.shown.retain(|key, _| key.0 > self.from);
        }
    }
}

/// How lines are printed.
struct Output {
    json: bool,
    color: bool,
}

impl Output {
    fn line(&self, line: &Line) -> anyhow::Result<()> {
        let text = if self.json {
            serde_json::to_string(line).context("a line is JSON")?
        } else {
            let color = if self.color { color(&line.severity) } else { "" };
            let (dim, plain) = if self.color { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
            let (time, series) = (utc(line.time().to_ns().0), name(&line.labels));
            format!("{dim}{time}  {series}{plain}  {color}{}{plain}", shown(&line.line))
        };
        Ok(writeln!(StandardOutput, "{text}")?)
    }
}

fn color(severity: &str) -> &'static str {
    match severity {
        "fatal" => "\x1b[1;31m",
        "error" => "\x1b[31m",
        "warn" => "\x1b[33m",
        "debug" | "trace" => "\x1b[2m",
        _ => "",
    }
}

/// `log{job="api"}`.
fn name(labels: &BTreeMap<String, String>) -> String {
    let name = labels.get("__name__").map_or("", String::as_str);
    let others = labels.iter().filter(|(name, _)| *name != "__name__");
    let others: Vec<String> = others.map(|(name, value)| format!("{name}={value:?}")).collect();
    if others.is_empty() { shown(name) } else { shown(&format!("{name}{{{}}}", others.join(", "))) }
}

/// Text from outside for a terminal: control characters that would move its cursor or change its colours are shown, not
/// executed.
fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push(c),
            '\n' => out.push_str("\n    "),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(t: f64, text: &str) -> Line {
        let labels = [("__name__".to_owned(), "log".to_owned()), ("job".to_owned(), "a\"b".to_owned())];
        Line { t, labels: labels.into(), severity: "info".into(), line: text.into(), fields: serde_json::Value::Null }
    }

    #[test]
    fn what_would_move_the_cursor_is_shown() {
        assert_eq!(shown("a\tb\x1b[2Jc\r"), "a\tb\\u{1b}[2Jc\\r");
        assert_eq!(shown("one\ntwo"), "one\n    two");
        assert_eq!(name(&line(1.0, "").labels), "log{job=\"a\\\"b\"}");
    }

    #[test]
    fn equal_lines_of_an_instant_are_each_counted_and_old_ones_let_go() {
        let mut tail = Tail { shown: HashMap::new(), from: WallMs(0) };
        for line in [line(1.0, "x"), line(1.0, "x"), line(20.5, "x")] {
            tail.add(&line);
        }
        assert_eq!(tail.shown[&key(&line(1.0, "x"))], 2);
        tail.forget();
        assert_eq!((tail.from, tail.shown.len()), (WallMs(10_500), 1));
    }
}
