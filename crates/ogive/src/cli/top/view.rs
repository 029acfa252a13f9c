//! What is shown of two readings: rates between them, and how things stand at the later one.

use super::reading::{Disk, QueryCost, Reading};
use crate::cli::format::{human, passed, thousands};

/// A line of the picture.
pub(super) struct ViewLine {
    pub(super) text: String,
    pub(super) is_heading: bool,
}

/// The sort key of expressions, always descending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// Time since the reading before.
    #[default]
    TimeNow,
    /// Time since the start.
    TimeInAll,
    Slowest,
    Times,
}

impl Sort {
    /// That of a key.
    pub(super) fn from_key(key: char) -> Option<Self> {
        match key {
            't' => Some(Self::TimeNow),
            'a' => Some(Self::TimeInAll),
            's' => Some(Self::Slowest),
            'n' => Some(Self::Times),
            _ => None,
        }
    }
}

/// One expression: its recent cost, and its total.
struct Expression {
    all: QueryCost,
    times: f64,
    seconds: f64,
}

/// Two readings, ready to be written.
pub(super) struct View {
    /// The title first.
    head: Vec<String>,
    expressions: Vec<Expression>,
    disks: Vec<Disk>,
    span: f64,
}

impl View {
    pub(super) fn new(before: &Reading, now: &Reading, sort: Sort) -> Self {
        let span = now.at.since(before.at).to_duration().as_secs_f64();
        let rate = |name: &str| {
            let grown = now.figure(name) - before.figure(name);
            // A restarted server counts from zero.
            if span > 0.0 { grown.max(0.0) / span } else { 0.0 }
        };
        #[allow(clippy::cast_precision_loss, reason = "it is shown with three digits")]
        let expression = |(key, all): (&(String, String), &QueryCost)| {
            let earlier = before.queries.get(key).cloned().unwrap_or_default();
            let times = all.times.saturating_sub(earlier.times) as f64;
            Expression { all: all.clone(), times, seconds: (all.seconds - earlier.seconds).max(0.0) }
        };
        let mut expressions: Vec<Expression> = now.queries.iter().map(expression).collect();
        expressions.sort_by(|a, b| {
            let key = |one: &Expression| match sort {
                Sort::TimeNow => one.seconds,
                Sort::TimeInAll => one.all.seconds,
                Sort::Slowest => one.all.longest,
                Sort::Times => one.all.times as f64,
            };
            let in_all = b.all.seconds.total_cmp(&a.all.seconds);
            key(b).total_cmp(&key(a)).then(in_all).then_with(|| a.all.query.cmp(&b.all.query))
        });
        let asked: f64 = expressions.iter().map(|one| one.times).sum();
        let per_second = |value: f64| human(if span > 0.0 { value / span } else { 0.0 }, "/s");
        let bytes = |name: &str| human(now.figure(name), "B");
        let count = |name: &str| thousands(now.figure(name).max(0.0) as u64);
        let head = vec![
            format!("ogive {}  up {}", now.word("version"), passed(now.figure("uptime_seconds"))),
            format!(
                "samples  {} accepted  {} again  {} rejected  {} refused   {} series, {} live",
                human(rate("accepted_total"), "/s"),
                human(rate("duplicate_total"), "/s"),
                human(rate("rejected_total"), "/s"),
                human(rate("refused_total"), "/s"),
                count("series"),
                count("live_series"),
            ),
            format!(
                "queries  {}  {} ran out of time since the start   stored  {}",
                per_second(asked),
                count("queries_timed_out_total"),
                human(rate("stored_total"), "/s"),
            ),
            format!(
                "memory   {} now, {} at most   series {}  head {}  queries {}  detectors {}",
                bytes("memory_anonymous_bytes"),
                bytes("memory_peak_bytes"),
                bytes("series_bytes"),
                bytes("head_bytes"),
                bytes("query_memory_bytes"),
                bytes("detect_bytes"),
            ),
            format!(
                "queues   {} batches  {} deletions   journal {}  blocks {} of {}   flushes {}  journal failures {}",
                count("queue_batches"),
                count("deletions_pending"),
                bytes("journal_bytes"),
                count("blocks"),
                bytes("block_bytes"),
                count("flushes_total"),
                count("journal_failures_total"),
            ),
        ];
        Self { head, expressions, disks: now.disks.clone(), span }
    }

    /// At most `height` lines of at most `width` columns; the expressions get the remaining space.
    pub(super) fn lines(&self, width: usize, height: usize) -> Vec<ViewLine> {
        let mut lines = Vec::new();
        let line = |text: &str, is_heading| ViewLine { text: cut(text, width), is_heading };
        for (at, text) in self.head.iter().enumerate() {
            lines.push(line(text, at == 0));
        }
        for disk in &self.disks {
            lines.push(line(&disk_line(disk), false));
        }
        lines.push(line("", false));
        let lately = if self.span > 0.0 { format!("in {}", human(self.span, "s")) } else { "now".to_owned() };
        lines.push(line(
            &format!("{lately:>8} {:>9} {:>9} {:>9} {:>9}  expression", "time", "times", "mean", "slowest"),
            true,
        ));
        let left = height.saturating_sub(lines.len());
        lines.extend(self.expressions.iter().take(left).map(|one| line(&expression_line(one), false)));
        if self.expressions.is_empty() {
            lines.push(line("nothing was asked yet", false));
        }
        lines
    }
}

fn disk_line(disk: &Disk) -> String {
    let why = if disk.why.is_empty() { String::new() } else { format!(": {}", disk.why) };
    let (free, size) = (human(disk.free_bytes as f64, "B"), human(disk.size_bytes as f64, "B"));
    format!("disk     {} {}{why}  {free} free of {size}  {} failures", disk.path, disk.state, thousands(disk.failures))
}

fn expression_line(one: &Expression) -> String {
    let QueryCost { query, times, seconds, longest, .. } = &one.all;
    let mean = if *times > 0 { seconds / *times as f64 } else { 0.0 };
    let lately = if one.times > 0.0 { human(one.times, "") } else { "-".to_owned() };
    let query = query.split_whitespace().collect::<Vec<_>>().join(" ");
    format!(
        "{lately:>8} {:>9} {:>9} {:>9} {:>9}  {query}",
        human(one.seconds, "s"),
        thousands(*times),
        human(mean, "s"),
        human(*longest, "s")
    )
}

/// The first `width` characters, the last of them `…` if there are more.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use ogive_model::MonoNs;
    use serde_json::json;

    use super::*;

    fn reading(at_s: u64, accepted: u64, queries: &[(&str, u64, f64, f64)]) -> Reading {
        let cost = |(query, times, seconds, longest): &(&str, u64, f64, f64)| QueryCost {
            query: (*query).to_owned(),
            route: "/api/v1/query".to_owned(),
            times: *times,
            seconds: *seconds,
            longest: *longest,
        };
        let serde_json::Value::Object(figures) =
            json!({"accepted_total": accepted, "queue_batches": 4, "version": "1.2"})
        else {
            panic!()
        };
        let queries = queries.iter().map(cost).map(|cost| ((cost.route.clone(), cost.query.clone()), cost)).collect();
        let disks = vec![Disk { path: "/d".into(), state: "out".into(), why: "no power".into(), ..Disk::default() }];
        Reading { at: MonoNs(at_s * 1_000_000_000), figures, queries, disks }
    }

    fn texts(view: &View, width: usize, height: usize) -> Vec<String> {
        view.lines(width, height).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn rates_are_differences_and_expressions_are_sorted() {
        let before = reading(10, 1_000, &[("often", 10, 1.0, 0.2), ("slow", 1, 9.0, 9.0)]);
        let now = reading(12, 1_500, &[("often", 30, 1.5, 0.2), ("slow", 1, 9.0, 9.0), ("new", 1, 0.25, 0.25)]);
        let order = |sort| {
            let lines = texts(&View::new(&before, &now, sort), 120, 30);
            let at = lines.iter().position(|line| line.ends_with("expression")).unwrap();
            lines[at + 1..].iter().map(|line| line.rsplit("  ").next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(order(Sort::TimeNow), ["often", "new", "slow"]);
        assert_eq!(order(Sort::TimeInAll), ["slow", "often", "new"]);
        assert_eq!(order(Sort::Times), ["often", "slow", "new"]);
        assert_eq!(order(Sort::Slowest), ["slow", "new", "often"]);
        let lines = texts(&View::new(&before, &now, Sort::TimeNow), 200, 30);
        let has = |part: &str| assert!(lines.iter().any(|line| line.contains(part)), "{part} is not in {lines:#?}");
        has("ogive 1.2");
        has("250/s accepted");
        has("queries  10.5/s");
        has("4 batches");
        has("/d out: no power");
        has("20     500ms        30      50ms     200ms  often");
    }

    #[test]
    fn a_server_that_began_anew_has_no_negative_rates_and_lines_fit() {
        let (before, now) =
            (reading(10, 1_000, &[("a_long_expression_that_is_cut", 5, 5.0, 1.0)]), reading(11, 3, &[]));
        let lines = texts(&View::new(&before, &now, Sort::TimeNow), 60, 30);
        assert!(lines[1].contains("0/s accepted"), "{lines:?}");
        assert!(lines.iter().any(|line| line == "nothing was asked yet"));
        let lines = texts(&View::new(&now, &before, Sort::TimeNow), 40, 9);
        assert!(lines.len() <= 9 && lines.iter().all(|line| line.chars().count() <= 40), "{lines:#?}");
        // Two readings of one moment have no rates.
        assert!(texts(&View::new(&now, &now, Sort::TimeNow), 80, 30)[1].contains("0/s accepted"));
    }
}
