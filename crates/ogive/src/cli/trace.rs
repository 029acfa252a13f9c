//! `ogive trace`: slow traces of a server, as a table or as waterfalls.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context;
use ogive_probe::SlowTrace;
use serde::Deserialize;

use super::client::Server;
use super::exit::EXIT_FINDING;
use super::format::{duration, human};
use super::terminal::Terminal;
use super::times;
use ogive_text::calendar::utc;

/// Shows slow messages, stage by stage.
#[derive(clap::Args, Debug)]
pub(crate) struct Trace {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    List(List),
    Show(Show),
}

/// Lists slow traces: time, path, duration, and where the time went.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
SELECTOR names slow traces, or the histograms that they explain; without it every slow trace is listed.

  ogive trace list
  ogive trace list 'ogive_ingest_seconds{stage=\"total\"}' --slowest --since 1h
  ogive trace list 'order_path_slow{host=\"a\"}' --min 5ms --full

Exit codes: 0 listed, also when there are none; 1 a listed text is no slow trace; 2 wrong usage, or a wrong selector;
3 the server cannot be reached.")]
struct List {
    #[command(flatten)]
    wanted: TraceFilter,
    /// Slowest first instead of newest first.
    #[arg(long)]
    slowest: bool,
    /// Maximum number of traces, up to 1000.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    limit: u64,
    /// Show every stage of each, as `show` does.
    #[arg(long)]
    full: bool,
}

/// Shows the slowest trace, or the newest, as a waterfall.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
  ogive trace show
  ogive trace show 'order_path_seconds{stage=\"total\"}' --newest

Exit codes: 0 shown; 1 there is none, or the text is no slow trace; 2 wrong usage, or a wrong selector;
3 the server cannot be reached.")]
struct Show {
    #[command(flatten)]
    wanted: TraceFilter,
    /// Show the newest instead of the slowest.
    #[arg(long)]
    newest: bool,
}

#[derive(clap::Args, Debug)]
struct TraceFilter {
    /// Selector of the series, as PromQL.
    selector: Option<String>,
    /// How far back to look: seconds, or a duration such as 15m.
    #[arg(long, default_value = "15m", value_name = "DURATION", value_parser = duration, conflicts_with = "start")]
    since: std::time::Duration,
    /// Start of a range instead: -1h, now-7d, Unix seconds or RFC 3339.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = times::parse)]
    start: Option<String>,
    /// End of the range; default: now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = times::parse, requires = "start")]
    end: Option<String>,
    /// Only traces that took at least this long, such as 5ms.
    #[arg(long, default_value = "0", value_name = "DURATION", value_parser = duration)]
    min: std::time::Duration,
    #[command(flatten)]
    server: Server,
    /// Print the server's JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Answer {
    data: Traces,
}

#[derive(Deserialize)]
struct Traces {
    series: usize,
    invalid: usize,
    complete: bool,
    traces: Vec<One>,
}

#[derive(Deserialize)]
struct One {
    t: f64,
    labels: std::collections::BTreeMap<String, String>,
    cell: Option<Cell>,
    line: Option<String>,
    raw: Option<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Cell {
    selector: String,
}

impl One {
    /// The histogram that it explains, or the texts' own name when that is not stored.
    fn series(&self) -> &str {
        let own = || self.labels.get("__name__").map_or("", String::as_str);
        self.cell.as_ref().map_or_else(own, |cell| &cell.selector)
    }

    fn trace(&self) -> Option<SlowTrace> {
        self.line.as_deref()?.parse().ok()
    }
}

/// Runs the command.
pub(crate) fn run(options: &Trace, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let (wanted, slowest, limit) = match &options.command {
        Command::List(list) => (&list.wanted, list.slowest, list.limit),
        Command::Show(show) => (&show.wanted, !show.newest, 1),
    };
    let body = match wanted.ask(slowest, limit) {
        Ok(body) => body,
        Err(failure) => return Ok(failure.report()),
    };
    let answer: Answer = serde_json::from_str(&body).context("the server's answer is not as documented")?;
    let found = answer.data;
    let shows = matches!(options.command, Command::Show(_));
    let raw = found.traces.iter().any(|one| one.line.is_none());
    let code = if raw || (shows && found.traces.is_empty()) { ExitCode::from(EXIT_FINDING) } else { ExitCode::SUCCESS };
    if wanted.json {
        print!("{body}");
        return Ok(code);
    }
    let full = shows || matches!(&options.command, Command::List(list) if list.full);
    print!("{}", if full { waterfalls(&found, terminal) } else { table(&found) });
    note(&found, limit);
    Ok(code)
}

impl TraceFilter {
    fn ask(&self, slowest: bool, limit: u64) -> Result<String, super::client::Failure> {
        let now = ogive_probe::Clock::global().wall() as f64 / 1e9;
        // The cell that is being filled ends within a second from now.
        let now_text = format!("{:.3}", now + 1.0);
        let since = format!("{:.3}", now - self.since.as_secs_f64());
        let (min_ms, limit) = (format!("{}", self.min.as_secs_f64() * 1e3), limit.to_string());
        let mut params = vec![
            ("start", self.start.as_deref().unwrap_or(&since)),
            ("end", self.end.as_deref().unwrap_or(&now_text)),
            ("order", if slowest { "slowest" } else { "newest" }),
            ("limit", &limit),
            ("min_ms", &min_ms),
        ];
        params.extend(self.selector.as_deref().map(|selector| ("query", selector)));
        self.server.get("/v1/traces", &params)
    }
}

/// Reports on standard error what the listing does not show.
fn note(found: &Traces, limit: u64) {
    if found.traces.is_empty() {
        let why = if found.series == 0 { "no series of slow traces has any here" } else { "none took so long" };
        eprintln!("ogive: no slow traces: {why}; --since looks further back");
    } else if !found.complete && limit > 1 {
        eprintln!("ogive: there are more; --limit, --min or a shorter --since narrow it");
    }
    if found.invalid > 0 {
        eprintln!("ogive: {} texts are no slow traces; --json has them", found.invalid);
    }
}

fn seconds(ns: u64) -> String {
    human(ns as f64 / 1e9, "s")
}

const HEAD: [&str; 6] = ["TIME (UTC)", "PATH", "PUBLISHER", "TOTAL", "WORST STAGE", "SERIES"];

fn table(found: &Traces) -> String {
    if found.traces.is_empty() {
        return String::new();
    }
    let rows = found.traces.iter().map(|one| match one.trace() {
        Some(trace) => {
            let worst = trace.culprit().map_or_else(String::new, |stage| {
                format!("{} {:.2} %", stage.name, trace.basis_points(stage) as f64 / 100.0)
            });
            let (path, publisher, total) = (trace.path.clone(), trace.publisher.clone(), seconds(trace.total_ns));
            [utc(trace.published_ns), path, publisher, total, worst, one.series().to_owned()]
        }
        None => {
            let error = one.error.as_deref().unwrap_or("not a slow trace");
            let (time, worst) = (utc((one.t * 1e9) as i64), error.to_owned());
            [time, "-".into(), "-".into(), "-".into(), worst, one.series().to_owned()]
        }
    });
    let rows: Vec<[String; 6]> = std::iter::once(HEAD.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (at, (text, width)) in row.iter().zip(widths).enumerate() {
            // Durations are right-aligned.
            let padded = if at == 3 { format!("{text:>width$}") } else { format!("{text:<width$}") };
            let _ = write!(line, "{padded}  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn waterfalls(found: &Traces, terminal: &Terminal) -> String {
    let mut out = String::new();
    for (at, one) in found.traces.iter().enumerate() {
        if at > 0 {
            out.push('\n');
        }
        match one.trace() {
            Some(trace) => waterfall(&mut out, one, &trace, terminal),
            None => {
                let (error, raw) = (one.error.as_deref().unwrap_or(""), one.raw.as_deref().unwrap_or(""));
                let _ = writeln!(out, "{}  {}\n{error}\n  {raw}", utc((one.t * 1e9) as i64), one.series());
            }
        }
    }
    out
}

fn waterfall(out: &mut String, one: &One, trace: &SlowTrace, terminal: &Terminal) {
    let (bold, plain) = if terminal.color { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    let _ = writeln!(out, "{bold}{}  {}{plain}", utc(trace.published_ns), one.series());
    let _ = write!(out, "{}", trace.waterfall());
    let class = |class| seconds(trace.class_ns(class));
    let (infra, logic) = (class(ogive_probe::Class::Infrastructure), class(ogive_probe::Class::Logic));
    let gap = trace.gap_ns.map_or_else(|| "none known".to_owned(), seconds);
    let _ = writeln!(out, "  infra {infra}, logic {logic}; gap since the publisher's last message: {gap}");
    let clock = &trace.clock;
    let _ = write!(
        out,
        "  clock {} {}, {} Hz, error at most {} ns",
        clock.mode, clock.source, clock.frequency_hz, clock.err_ns
    );
    if clock.epoch != trace.epoch {
        let _ = write!(
            out,
            "; it broke since (epoch {} to {}): the time above is not to be trusted",
            trace.epoch, clock.epoch
        );
    }
    out.push('\n');
    if !trace.missing.is_empty() {
        let _ = writeln!(out, "  not stamped: {}", trace.missing.join(", "));
    }
    if trace.clamped > 0 {
        let _ = writeln!(out, "  {} stamps were before an earlier one, and were taken for that one", trace.clamped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../../../vectors/trace/slow.txt");

    fn found() -> Traces {
        let labels = [("__name__".to_owned(), "order_path_slow".to_owned())];
        let cell = |selector: &str| Some(Cell { selector: selector.into() });
        let one = |cell, line: Option<&str>, raw: Option<&str>| One {
            t: 1_700_000_001.0,
            labels: labels.clone().into(),
            cell,
            line: line.map(str::to_owned),
            raw: raw.map(str::to_owned),
            error: raw.map(|_| "not a slow trace: version".into()),
        };
        let traces =
            vec![one(cell("order_path_seconds"), Some(EXAMPLE.trim_end()), None), one(None, None, Some("x y"))];
        Traces { series: 1, invalid: 1, complete: true, traces }
    }

    #[test]
    fn a_table_has_a_line_for_each() {
        let expected = "\
TIME (UTC)               PATH       PUBLISHER  TOTAL  WORST STAGE                SERIES
2023-11-14 22:13:20.123  OrderPath  feed 1      10ms  journal 99.93 %            order_path_seconds
2023-11-14 22:13:21.000  -          -              -  not a slow trace: version  order_path_slow
";
        assert_eq!(table(&found()), expected);
    }

    #[test]
    fn a_waterfall_has_a_line_for_each_stage_and_the_clock() {
        let terminal = Terminal { width: 80, height: 24, unicode: true, color: false };
        let text = waterfalls(&found(), &terminal);
        for part in [
            "2023-11-14 22:13:20.123  order_path_seconds\n",
            "journal infra     10041210 ns  99.93 %  |#######################################\n",
            "infra 10ms, logic 2.31µs; gap since the publisher's last message: 10.1ms",
            "clock counter tsc-lfence, 2596120000 Hz, error at most 35 ns",
            "not stamped: replicate",
            "not a slow trace: version\n  x y",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains('\x1b'));
    }
}
