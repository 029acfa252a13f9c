//! `ogive fleet watch`: what comes to a broker, each second.
//!
//! Format: a line for each series and second: the time, how many, quantiles, the greatest, the series; with `--json`
//! what the server sends, an object a line.
//! Failure: a connection that was cut off after a column is asked for again; what ends the watch is one sentence.

use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::process::ExitCode;

use anyhow::Context;
use ogive_fleet::{LeftOut, WATCH_CELLS_MAX, WATCH_SERIES_MAX, WatchCell, WatchColumn, WatchDistribution};
use ogive_text::calendar::rfc3339;

use super::super::client::Server;
use super::super::exit::EXIT_FINDING;
use super::super::format::{human, quantile_name, thousands};
use super::super::query::name;
use super::super::sse::{self, Event, LONGEST, PAUSE};
use super::brokers::no_name;

/// What is shown, and how.
pub(super) struct Wanted<'w> {
    pub(super) selector: &'w str,
    pub(super) quantiles: &'w str,
    pub(super) seconds: Option<u64>,
    pub(super) is_json: bool,
}

/// How a watch is over.
enum Over {
    /// The count is reached, or the reader is gone.
    Done,
    /// The server ended it, and why.
    Ended(String),
}

/// Runs the command until it is interrupted.
pub(super) fn run(broker: &str, wanted: &Wanted<'_>, server: &Server) -> anyhow::Result<ExitCode> {
    if let Some(code) = no_name(broker) {
        return Ok(code);
    }
    let path = format!("/v1/fleet/brokers/{broker}/live");
    let params = [("query", wanted.selector), ("quantiles", wanted.quantiles)];
    let mut left = wanted.seconds;
    loop {
        let stream = match server.stream(&path, &params, None, LONGEST) {
            Ok(stream) => stream,
            Err(failure) => return Ok(failure.report()),
        };
        let mut columns = 0_u64;
        let over = sse::read(stream, |event| {
            columns += u64::from(event.name == "column");
            shown(&event, wanted, &mut left)
        })?;
        let why = match over {
            ControlFlow::Break(Over::Done) => return Ok(ExitCode::SUCCESS),
            ControlFlow::Break(Over::Ended(why)) => why,
            ControlFlow::Continue(why) if columns > 0 => {
                eprintln!("ogive: {why}; asking again");
                std::thread::sleep(PAUSE);
                continue;
            }
            ControlFlow::Continue(why) => why,
        };
        eprintln!("ogive: {why}");
        return Ok(ExitCode::from(EXIT_FINDING));
    }
}

/// Prints an event; breaks when it was the last one, or the reader is gone.
fn shown(event: &Event, wanted: &Wanted<'_>, left: &mut Option<u64>) -> anyhow::Result<ControlFlow<Over>> {
    let Event { name, data, .. } = event;
    if name == "error" {
        let said: serde_json::Value = serde_json::from_str(data).unwrap_or_default();
        return Ok(ControlFlow::Break(Over::Ended(said["error"].as_str().unwrap_or(data).to_owned())));
    }
    let column: WatchColumn = serde_json::from_str(data).with_context(|| format!("the server sent {data:?}"))?;
    let lines = if wanted.is_json { format!("{data}\n") } else { lines(&column) };
    let mut out = std::io::stdout().lock();
    if out.write_all(lines.as_bytes()).and_then(|()| out.flush()).is_err() {
        return Ok(ControlFlow::Break(Over::Done));
    }
    if let Some(left) = left.as_mut() {
        *left = left.saturating_sub(1);
    }
    Ok(if *left == Some(0) { ControlFlow::Break(Over::Done) } else { ControlFlow::Continue(()) })
}

/// The time of a second, in UTC.
fn time(second: i64) -> String {
    rfc3339(second.saturating_mul(1_000)).get(11..19).unwrap_or_default().to_owned()
}

/// A column as lines.
fn lines(column: &WatchColumn) -> String {
    let mut out = String::new();
    for cell in &column.cells {
        out += &line(cell);
    }
    if column.cells.is_empty() {
        writeln!(out, "{}  nothing came", time(column.t)).expect("writes to memory");
    }
    let said = left_out(column.left_out);
    if !said.is_empty() {
        writeln!(out, "{}  left out: {}", time(column.t), said.join(", ")).expect("writes to memory");
    }
    out
}

fn line(cell: &WatchCell) -> String {
    let WatchCell { t, labels, unit, value, distribution, .. } = cell;
    let WatchDistribution { count, max, quantiles, .. } = distribution;
    let mut out = format!("{}  ", time(*t));
    let number = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| human(value, unit));
    match (value, count) {
        (Some(value), _) => {
            let shown = value.parse::<f64>().map_or_else(|_| value.clone(), |value| human(value, unit));
            write!(out, "{shown:>9}").expect("writes to memory");
        }
        (None, count) => {
            let count = count.as_deref().unwrap_or("-");
            let count = count.parse::<u64>().map_or_else(|_| count.to_owned(), thousands);
            write!(out, "{count:>9}").expect("writes to memory");
            for [q, value, ..] in quantiles {
                write!(out, "  {} {:>7}", quantile_name(q.unwrap_or(0.0)), number(*value)).expect("writes to memory");
            }
            write!(out, "  max {:>7}", number(*max)).expect("writes to memory");
        }
    }
    write!(out, "  {}", name(labels)).expect("writes to memory");
    // Units and names of labels are what senders wrote, numbers what the broker did: none of it drives the terminal.
    out.replace(char::is_control, "?") + "\n"
}

fn left_out(found: LeftOut) -> Vec<String> {
    let LeftOut { batches, samples, texts, schemes, bins, deltas } = found;
    let beyond = format!("samples beyond {WATCH_SERIES_MAX} series or {WATCH_CELLS_MAX} cells (narrow the selector)");
    let all = [
        (samples, beyond.as_str()),
        (batches, "batches that came faster than they were read"),
        (texts, "texts"),
        (schemes, "histograms of another scheme"),
        (bins, "bins of the sum"),
        (deltas, "histograms that the sum has no room for"),
    ];
    let some = all.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| format!("{} {what}", thousands(count))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_a_line_for_each_series() {
        let labels = [("__name__".to_owned(), "rpc_seconds".to_owned()), ("job".to_owned(), "a\u{1b}".to_owned())];
        let distribution = WatchDistribution {
            count: Some("1204".into()),
            max: Some(0.25),
            quantiles: vec![[Some(0.5), Some(0.001), None, None], [Some(0.999), None, None, None]],
            ..WatchDistribution::default()
        };
        let of = WatchCell { t: 1, labels: labels.into(), unit: "s".into(), distribution, ..WatchCell::default() };
        let number = WatchCell { value: Some("+Inf".into()), ..WatchCell::default() };
        let left_out = LeftOut { samples: 1_000, texts: 2, ..LeftOut::default() };
        let column = WatchColumn { t: 2, cells: vec![of, number], left_out, ..WatchColumn::default() };
        let expected = "00:00:01      1,204  p50     1ms  p99.9       -  max   250ms  rpc_seconds{job=\"a\\u{1b}\"}\n\
            00:00:00       +Inf  {}\n\
            00:00:02  left out: 1,000 samples beyond 100 series or 500 cells (narrow the selector), 2 texts\n";
        assert_eq!(lines(&column), expected);
        let unit = WatchCell { value: Some("1".into()), unit: "\u{1b}[2J".into(), ..WatchCell::default() };
        let text = WatchCell { value: Some("\u{1b}[2J".into()), ..WatchCell::default() };
        let shown = [unit, text].map(|cell| line(&cell));
        assert!(shown.iter().all(|line| line.trim_end().contains("?[2J") && !line.contains('\u{1b}')), "{shown:?}");
        assert_eq!(lines(&WatchColumn { t: 61, ..WatchColumn::default() }), "00:01:01  nothing came\n");
    }
}
