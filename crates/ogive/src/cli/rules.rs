//! `ogive rules`: what rules would have done.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use ogive_model::Tenant;
use serde_json::Value;

use super::client::{Failure, Server};
use super::exit::{EXIT_FINDING, EXIT_USAGE};
use super::files::FILES;
use super::offline_backtest::{self, BacktestRequest};
use super::times;

/// 130 s: the longest time that a query may take, and the network round trip.
const TIMEOUT: Duration = Duration::from_secs(130);
/// Other values of `for` that are tried by default.
const HOLDS: [&str; 5] = ["0s", "2m", "5m", "15m", "1h"];

/// Backtests rule files, and makes rules from objectives.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Rules {
    Backtest(Box<Backtest>),
    Slo(Slo),
}

/// Prints the rules for a file of objectives (Sloth's prometheus/v1 or OpenSLO's openslo/v1): multi-window burn rates
/// of the error budget. `ogive serve --rules` accepts such files directly.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "  ogive rules slo slo.yml > rules.yml\n  ogive rules slo slo.yml | ogive rules backtest /dev/stdin --start -30d"
)]
pub(crate) struct Slo {
    /// The file.
    file: PathBuf,
}

/// Evaluates a rule file over stored data and reports how often it would have alerted, also with other values of
/// `for`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The exit code is 1 when a rule failed.

  ogive rules backtest rules.yml --start -30d
  ogive rules backtest rules.yml --start -7d --for 2m --for 10m --rule HighLatency
  ogive rules backtest rules.yml --start 2026-11-01T00:00:00Z --end 2026-11-02T00:00:00Z --json
  ogive rules backtest rules.yml --data /var/lib/ogive --start -7d    # no server runs there")]
pub(crate) struct Backtest {
    /// The rule file.
    file: PathBuf,
    /// Start of the range: -30d, now-7d, Unix seconds or RFC 3339.
    #[arg(long, value_name = "TIME", default_value = "-1d", allow_hyphen_values = true, value_parser = times::parse)]
    start: String,
    /// End of the range, in the same forms; default: now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = times::parse)]
    end: Option<String>,
    /// Additional `for` to evaluate with. Repeatable; default: 0s, 2m, 5m, 15m and 1h.
    #[arg(long = "for", value_name = "TIME")]
    holds: Vec<String>,
    /// Evaluation interval of groups that do not set one; default: the server's.
    #[arg(long, value_name = "TIME")]
    interval: Option<String>,
    /// Show only these alerts and recorded series; all are evaluated. Repeatable.
    #[arg(long, value_name = "NAME")]
    rule: Vec<String>,
    /// Omit the list of transitions.
    #[arg(long, short)]
    quiet: bool,
    /// Data directory of a stopped server to read, instead of asking a running one. Repeatable.
    #[arg(long, value_name = "DIR")]
    data: Vec<PathBuf>,
    /// Tenant whose data to read from those directories; default: `default`.
    #[arg(long, value_name = "NAME", requires = "data")]
    tenant: Option<String>,
    #[command(flatten)]
    server: Server,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(command: &Rules) -> anyhow::Result<ExitCode> {
    match command {
        Rules::Backtest(options) => backtest(options),
        Rules::Slo(options) => slo(options),
    }
}

fn slo(options: &Slo) -> anyhow::Result<ExitCode> {
    let file = options.file.display();
    let bytes = (FILES.read)(&options.file).with_context(|| format!("cannot read {file}"))?;
    let text = String::from_utf8(bytes).with_context(|| format!("{file} is not UTF-8"))?;
    match ogive_detect::rules::slo::rules(&text) {
        Ok(rules) => print!("{rules}"),
        Err(errors) => {
            errors.iter().for_each(|error| eprintln!("ogive: {file}:{error}"));
            return Ok(ExitCode::from(EXIT_USAGE));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn backtest(options: &Backtest) -> anyhow::Result<ExitCode> {
    let file = options.file.display().to_string();
    let text = (FILES.read)(&options.file).with_context(|| format!("cannot read {file}"))?;
    let mut data = match options.data.is_empty() {
        true => match requested(options, &file, &text) {
            Ok(body) => serde_json::from_str::<Value>(&body).context("the server's answer is not JSON")?["data"].take(),
            Err(failure) => return Ok(failure.report()),
        },
        false => match stopped(options, &file, &text) {
            Ok(data) => data,
            Err(error) => {
                eprintln!("ogive: {error:#}");
                return Ok(ExitCode::from(EXIT_USAGE));
            }
        },
    };
    let mut rules = data["rules"].as_array().cloned().unwrap_or_default();
    let is_wanted = |rule: &Value| {
        options.rule.is_empty() || options.rule.iter().any(|name| rule["name"].as_str() == Some(name.as_str()))
    };
    rules.retain(is_wanted);
    let failed = rules.iter().any(|rule| rule["failures"].as_u64().unwrap_or(0) > 0);
    if options.json {
        data["rules"] = Value::Array(rules);
        println!("{data}");
    } else {
        rules.iter().flat_map(|rule| lines(rule, options.quiet)).for_each(|line| println!("{line}"));
    }
    Ok(if failed { ExitCode::from(EXIT_FINDING) } else { ExitCode::SUCCESS })
}

fn requested(options: &Backtest, file: &str, text: &[u8]) -> Result<String, Failure> {
    let mut params = vec![("file", file), ("start", options.start.as_str())];
    params.extend(options.end.as_deref().map(|end| ("end", end)));
    params.extend(options.interval.as_deref().map(|interval| ("interval", interval)));
    if options.holds.is_empty() {
        params.extend(HOLDS.map(|hold| ("for", hold)));
    }
    params.extend(options.holds.iter().map(|hold| ("for", hold.as_str())));
    let query: String = form_urlencoded::Serializer::new(String::new()).extend_pairs(params).finish();
    options.server.post_bytes(&format!("/v1/rules/backtest?{query}"), text, TIMEOUT)
}

/// Without a server.
fn stopped(options: &Backtest, file: &str, text: &[u8]) -> anyhow::Result<Value> {
    let tenant = options.tenant.as_deref().map_or_else(|| Ok(Tenant::default()), Tenant::new)?;
    let usual = options.holds.is_empty().then_some(HOLDS).into_iter().flatten();
    let wanted = BacktestRequest {
        file,
        text,
        start: &options.start,
        end: options.end.as_deref(),
        interval: options.interval.as_deref(),
        holds: options.holds.iter().map(String::as_str).chain(usual).collect(),
    };
    offline_backtest::run(&options.data, &tenant, &wanted)
}

/// A rule for people.
fn lines(rule: &Value, quiet: bool) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut out = Vec::new();
    let (name, evaluations) = (text(&rule["name"]), &rule["evaluations"]);
    match rule["summary"].as_str() {
        Some(summary) => out.push(format!("{name}: {summary} ({evaluations} evaluations)")),
        None => out.push(format!("{name}: recorded ({evaluations} evaluations)")),
    }
    if let Some(error) = rule["lastError"].as_str() {
        out.push(format!("  {} evaluations failed, the last one: {error}", rule["failures"]));
    }
    if quiet {
        return out;
    }
    let transitions = rule["transitions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for one in transitions {
        let labels = one["labels"].as_object();
        let labels = labels.into_iter().flatten().filter(|(name, _)| *name != "alertname");
        let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={value}")).collect();
        let (time, from, to) = (text(&one["time"]), text(&one["from"]), text(&one["to"]));
        let value = one["value"].as_f64().map_or_else(|| text(&one["value"]), |value| value.to_string());
        out.push(format!("  {time} {from} -> {to} {{{}}} value {value}", labels.join(",")));
    }
    let left = rule["transitionsCount"].as_u64().unwrap_or(0).saturating_sub(transitions.len() as u64);
    if left > 0 {
        out.push(format!("  and {left} more transitions"));
    }
    out
}
