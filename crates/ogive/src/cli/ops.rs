//! `ogive ops`: how much of one thing happens for each of another, and how that changed since last week.
//!
//! Every figure is a quotient of two counts over the same range: work that multiplies is found before it is a bill.
//! Invariants: a bare selector is counted by its increase over the range; of histograms by their number of samples. Any
//! other expression is evaluated at the end of the range as it stands. Works with every server that answers
//! `/api/v1/query`.

use std::process::ExitCode;

use anyhow::Context;
use ogive_model::{Ms, WallMs};
use ogive_query::ast::{ExprKind, VectorSelector};
use serde_json::{Value, json};

use super::client::{Failure, Server};
use super::exit::EXIT_FINDING;
use super::format::{duration, human};
use super::times;
use std::time::Duration;

/// What Ogive itself does for a request: a name, and the counter behind it.
const OWN: [(&str, &str); 6] = [
    ("queries", "ogive_query_seconds"),
    ("batches", r#"ogive_ingest_seconds{stage="total"}"#),
    ("samples accepted", r#"ogive_ingest_samples_total{outcome="accepted"}"#),
    ("samples rejected", r#"ogive_ingest_samples_total{outcome="rejected"}"#),
    ("fsyncs", "ogive_journal_fsync_seconds"),
    ("flushes", "ogive_flush_seconds"),
];

/// The operation to which they are related.
const OWN_PER: (&str, &str) = ("request", "ogive_http_request_seconds");

/// Divides counters by each other to show what one operation costs: "one request = 3.2 queries, 1 fsync, 20 samples".
#[derive(clap::Args, Debug)]
#[command(after_help = "\
An expression is a counter or a histogram (its increase over --range is used), or any other PromQL expression (its value
at the end of the range is used). Without expressions: what Ogive itself does for each request that it answers.

  ogive ops
  ogive ops --per http_requests_total sql_queries_total disk_reads_total 'fsync_seconds{disk=\"a\"}' --range 1h
  ogive ops --server http://prometheus:9090 --per 'http_requests_total{job=\"api\"}' pg_stat_statements_calls_total
  ogive ops --limit 20        # exit code 1 when a quotient grew by more than 20 % within a week")]
pub(crate) struct Ops {
    /// Counters, histograms or PromQL expressions to count.
    #[arg(value_name = "EXPR")]
    of: Vec<String>,
    /// Counter to divide by.
    #[arg(long, value_name = "EXPR", requires = "of")]
    per: Option<String>,
    /// Length of the range.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    range: Duration,
    /// End of the range: -1h, now-7d, Unix seconds or RFC 3339; default: now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = times::parse)]
    end: Option<String>,
    /// How long ago the range to compare with ended.
    #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = duration)]
    before: Duration,
    /// Exit with 1 when any quotient grew by more than this many percent.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    limit: Option<f64>,
    #[command(flatten)]
    server: Server,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let found = text.trim_end_matches('%').parse().ok().filter(|percent: &f64| (0.0..=1e9).contains(percent));
    found.ok_or_else(|| "give a number of percent such as 20".into())
}

/// A counter, and the name under which it is shown.
struct Counter {
    name: String,
    query: String,
}

impl Counter {
    fn new(name: &str, expr: &str, range: &str) -> Self {
        Self { name: name.to_owned(), query: query(expr, range) }
    }
}

/// The increase of a bare selector over `range`; any other expression unchanged.
fn query(expr: &str, range: &str) -> String {
    // An expression that only another server understands is left for that server to judge.
    let tree = ogive_query::parse(expr).ok();
    let selector = tree.as_ref().map(|tree| &tree.unparenthesised().kind);
    match selector {
        Some(ExprKind::VectorSelector(VectorSelector { shift, .. })) if *shift == Default::default() => {
            let inner = expr.trim().trim_start_matches('(').trim_end_matches(')').trim();
            format!("sum(increase({inner}[{range}]))")
        }
        _ => expr.to_owned(),
    }
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    /// The counts now and before; `None` where the server has no data.
    counts: [Option<f64>; 2],
    /// The counts for each of the other operation: now and before.
    each: [Option<f64>; 2],
    /// How much more it became, in percent.
    change: Option<f64>,
    /// The change is less than counts as small as these vary by chance (two standard deviations).
    is_noise: bool,
}

impl Row {
    fn new(name: &str, counts: [Option<f64>; 2], per: [Option<f64>; 2]) -> Self {
        let quotient = |at: usize| Some(counts[at]? / per[at].filter(|count| *count > 0.0)?);
        let each = [quotient(0), quotient(1)];
        let change = match each {
            [Some(now), Some(before)] if before > 0.0 => Some((now / before - 1.0) * 100.0),
            _ => None,
        };
        let is_noise = change.is_some_and(|change| change.abs() < 200.0 * relative_noise(counts, per));
        Self { name: name.to_owned(), counts, each, change, is_noise }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "count": self.counts[0], "count_before": self.counts[1], "each": self.each[0],
            "each_before": self.each[1], "change_percent": self.change, "noise": self.is_noise,
        })
    }
}

/// The relative standard deviation of a quotient of quotients of independent counts: the root of the sum of 1/n.
fn relative_noise(counts: [Option<f64>; 2], per: [Option<f64>; 2]) -> f64 {
    counts.into_iter().chain(per).flatten().map(|count| 1.0 / count.max(1.0)).sum::<f64>().sqrt()
}

/// Runs the command.
pub(crate) fn run(options: &Ops) -> anyhow::Result<ExitCode> {
    let range = ogive_text::duration::write(options.range);
    let (per, of) = match &options.per {
        Some(per) => {
            (Counter::new(per, per, &range), options.of.iter().map(|of| Counter::new(of, of, &range)).collect())
        }
        None if !options.of.is_empty() => {
            return Ok(Failure::Usage("for each of what? name it with --per EXPR".into()).report());
        }
        None => own(&range),
    };
    let end = match &options.end {
        None => times::now(),
        Some(end) => {
            let end_ms = ogive_text::calendar::instant_ms(end);
            end_ms.map(WallMs).with_context(|| format!("--end {end:?} is no time"))?
        }
    };
    let times = [end, end.saturating_sub(Ms::from(options.before))].map(times::seconds);
    let rows = match measured(&per, &of, &times, &options.server) {
        Ok(rows) => rows?,
        Err(failure) => return Ok(failure.report()),
    };
    let Some((head, rows)) = rows.split_first() else { return Ok(ExitCode::SUCCESS) };
    if options.json {
        let document = json!({
            "per": head.name, "per_count": head.counts[0], "per_count_before": head.counts[1], "range": range,
            "before": ogive_text::duration::write(options.before), "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
        });
        println!("{document}");
    } else {
        print!("{}", text(head, rows, &range, &ogive_text::duration::write(options.before)));
    }
    if head.counts[0].is_none_or(|count| count <= 0.0) {
        eprintln!("ogive: nothing to divide by: {:?} counted nothing in {range}", head.name);
        return Ok(ExitCode::from(EXIT_FINDING));
    }
    let is_over =
        |row: &Row| !row.is_noise && row.change.zip(options.limit).is_some_and(|(change, limit)| change > limit);
    Ok(if rows.iter().any(is_over) { ExitCode::from(EXIT_FINDING) } else { ExitCode::SUCCESS })
}

fn own(range: &str) -> (Counter, Vec<Counter>) {
    let counter = |(name, expr): &(&str, &str)| Counter::new(name, expr, range);
    (counter(&OWN_PER), OWN.iter().map(counter).collect())
}

/// A row of `per` itself, and one for each of `of`.
fn measured(
    per: &Counter,
    of: &[Counter],
    times: &[String; 2],
    server: &Server,
) -> Result<anyhow::Result<Vec<Row>>, Failure> {
    let counts = |counter: &Counter| -> Result<anyhow::Result<[Option<f64>; 2]>, Failure> {
        let mut found = [None; 2];
        for (found, time) in found.iter_mut().zip(times) {
            let body = server.get("/api/v1/query", &[("query", &counter.query), ("time", time)])?;
            match count(&body) {
                Ok(count) => *found = count,
                Err(error) => return Ok(Err(error.context(counter.query.clone()))),
            }
        }
        Ok(Ok(found))
    };
    let mut rows = Vec::new();
    let all = match counts(per)? {
        Ok(counts) => counts,
        Err(error) => return Ok(Err(error)),
    };
    rows.push(Row::new(&per.name, all, all));
    for counter in of {
        match counts(counter)? {
            Ok(found) => rows.push(Row::new(&counter.name, found, all)),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(rows))
}

/// The sum of a result's values, or of the samples in its histograms; `None` where there are none.
fn count(body: &str) -> anyhow::Result<Option<f64>> {
    let answer: Value = serde_json::from_str(body).context("the server's answer is not JSON")?;
    let data = &answer["data"];
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok());
    if data["resultType"] == "scalar" {
        return Ok(number(&data["result"][1]));
    }
    let series = data["result"].as_array().context("the server's answer has no result")?;
    anyhow::ensure!(data["resultType"] == "vector", "an expression with one value for each series is needed");
    let one = |series: &Value| number(&series["value"][1]).or_else(|| number(&series["histogram"][1]["count"]));
    Ok(series.iter().filter_map(one).reduce(|sum, more| sum + more))
}

/// The table for people.
fn text(head: &Row, rows: &[Row], range: &str, before: &str) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| human(value, ""));
    let mut out = format!(
        "one {} ({} in {range}, {} {before} before) =\n",
        head.name,
        number(head.counts[0]),
        number(head.counts[1])
    );
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    for row in rows {
        let change = match (row.change, row.is_noise) {
            (Some(_), true) => "the same".to_owned(),
            (Some(change), false) => signed(change),
            (None, _) => "-".to_owned(),
        };
        out += &format!(
            "  {:>9}  {:width$}  {:>9} before  {change:>9}\n",
            number(row.each[0]),
            row.name,
            number(row.each[1])
        );
    }
    out
}

fn signed(percent: f64) -> String {
    let digits = usize::from(percent.abs() < 10.0);
    format!("{percent:+.digits$} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_counted_by_their_increase_and_expressions_stand() {
        let check = |expr: &str, expected: &str| assert_eq!(query(expr, "1h"), expected);
        check("a_total", "sum(increase(a_total[1h]))");
        check(r#" (a_total{b="c"}) "#, r#"sum(increase(a_total{b="c"}[1h]))"#);
        check("sum(rate(a_total[5m]))", "sum(rate(a_total[5m]))");
        check("a_total offset 5m", "a_total offset 5m");
        check("some other language", "some other language");
    }

    #[test]
    fn answers_are_summed_and_histograms_counted() {
        let vector =
            |series: &str| count(&format!(r#"{{"data":{{"resultType":"vector","result":[{series}]}}}}"#)).unwrap();
        assert_eq!(vector(""), None);
        assert_eq!(vector(r#"{"metric":{},"value":[1,"2.5"]},{"metric":{},"value":[1,"1"]}"#), Some(3.5));
        assert_eq!(vector(r#"{"metric":{},"histogram":[1,{"count":"12","sum":"1"}]}"#), Some(12.0));
        assert_eq!(count(r#"{"data":{"resultType":"scalar","result":[1,"7"]}}"#).unwrap(), Some(7.0));
        assert!(count(r#"{"data":{"resultType":"matrix","result":[]}}"#).is_err() && count("x").is_err());
    }

    #[test]
    fn rows_are_quotients_and_small_counts_are_noise() {
        let per = [Some(1_000_000.0), Some(500_000.0)];
        let row = Row::new("a", [Some(3_200_000.0), Some(1_000_000.0)], per);
        assert_eq!((row.each, row.is_noise), ([Some(3.2), Some(2.0)], false));
        assert!((row.change.unwrap() - 60.0).abs() < 1e-9, "{row:?}");
        assert!(Row::new("few", [Some(6.0), Some(2.0)], per).is_noise, "6 and 2 differ by chance");
        let new = Row::new("new", [Some(5.0), None], per);
        assert_eq!((new.each[0], new.each[1], new.change), (Some(5e-6), None, None));
        assert_eq!(Row::new("none", [Some(5.0), None], [Some(0.0), None]).each, [None, None]);
        let table = text(&Row::new("request", per, per), &[row, new], "1h", "7d");
        assert_eq!(
            table,
            "one request (1M in 1h, 500k 7d before) =\n        3.2  a            2 before      +60 %\n       5e-6  new          - before          -\n"
        );
    }
}
