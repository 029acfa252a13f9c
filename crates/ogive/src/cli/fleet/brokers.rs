//! Brokers: their list, tickets, revocation, requests.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use ogive_fleet::check_name;
use ogive_model::{MonoNs, Ms};
use ogive_probe::Clock;
use ogive_text::calendar::rfc3339;
use serde_json::{Value, json};

use super::super::client::EXIT_UNREACHABLE;
use super::super::client::Server;
use super::super::exit::{EXIT_FINDING, EXIT_USAGE};
use super::super::format::thousands;
use super::order::Order;

/// 200 ms between two looks for an outcome.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// 20 names of checks in a line.
const NAMES_MAX: usize = 20;

/// `ogive fleet brokers`.
pub(super) fn list(server: &Server, is_json: bool) -> anyhow::Result<ExitCode> {
    let body = match server.get("/v1/fleet/brokers", &[]) {
        Ok(body) => body,
        Err(failure) => return Ok(failure.report()),
    };
    let state: Value = serde_json::from_str(&body).context("the server's answer is not JSON")?;
    let rows = state["brokers"].as_array().map_or(&[][..], Vec::as_slice);
    if is_json {
        print!("{body}");
    } else {
        print!("{}", table(rows, state["now_ms"].as_i64().unwrap_or(0)));
    }
    let refuses = rows.iter().any(|row| row["state"] == "refusing");
    Ok(if refuses { ExitCode::from(EXIT_FINDING) } else { ExitCode::SUCCESS })
}

fn table(rows: &[Value], now_ms: i64) -> String {
    let mut out = format!(
        "{:20} {:12} {:9} {:>9} {:>8} {:>16} {:>8} {:>8} {:>6} {:>8} {}\n",
        "broker", "group", "state", "version", "lag s", "spool bytes", "gaps", "clock s", "cpu %", "MiB", "seen"
    );
    for row in rows {
        let report = &row["report"];
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let version = match (report["version"].as_u64(), row["should_run"].as_u64().unwrap_or(0)) {
            (Some(runs), should) if runs == should => runs.to_string(),
            (Some(runs), should) => format!("{runs}/{should}"),
            (None, should) => format!("-/{should}"),
        };
        let seen = row["seen_ms"].as_i64().map_or("never".into(), |ms| format!("{} s ago", (now_ms - ms) / 1_000));
        out += &format!(
            "{:20} {:12} {:9} {version:>9} {:>8.1} {:>16} {:>8} {:>8.2} {:>6.1} {:>8} {seen}\n",
            row["name"].as_str().unwrap_or_default(),
            row["group"].as_str().unwrap_or_default(),
            row["state"].as_str().unwrap_or_default().replace('_', " "),
            number(&report["lag_seconds"]),
            thousands(report["spool_bytes"].as_u64().unwrap_or(0)),
            thousands(report["gap_samples"].as_u64().unwrap_or(0)),
            number(&row["clock_offset_seconds"]),
            100.0 * number(&report["cpu"]),
            report["memory_bytes"].as_u64().unwrap_or(0) >> 20,
        );
        if let Some(why) = report["refused"]["why"].as_str() {
            let refused = &report["refused"];
            let reason = refused["reason"].as_str().unwrap_or_default();
            out += &format!("  refuses version {}, {reason}: {why}\n", refused["version"]);
        }
        out += &spread_checks(row);
        for finding in report["findings"].as_array().into_iter().flatten() {
            out += &format!("  {}\n", finding.as_str().unwrap_or_default());
        }
    }
    out
}

/// Which of its group's spread checks a broker runs, as a line, if it runs any.
fn spread_checks(row: &Value) -> String {
    let names: Vec<&str> = row["spread_checks"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let shown = names[..names.len().min(NAMES_MAX)].join(", ");
    match names.len() {
        0 => String::new(),
        count @ ..=NAMES_MAX => format!("  {count} spread: {shown}\n"),
        count => format!("  {count} spread: {shown}, and {} more (--json)\n", count - NAMES_MAX),
    }
}

/// `ogive fleet ticket`.
pub(super) fn ticket(
    group: &str,
    broker: Option<&str>,
    expires: Ms,
    lifetime: Ms,
    server: &Server,
) -> anyhow::Result<ExitCode> {
    let body = json!({"group": group, "broker": broker, "expires_ms": expires, "lifetime_ms": lifetime});
    let body = match server.post("/v1/fleet/tickets", &body) {
        Ok(body) => body,
        Err(failure) => return Ok(failure.report()),
    };
    let answer: Value = serde_json::from_str(&body).context("the server's answer is not JSON")?;
    let data = &answer["data"];
    println!("{}", data["ticket"].as_str().unwrap_or_default());
    eprintln!(
        "ogive: it enrols one broker in the group {group} until {}, and is shown this once",
        data["expires_ms"].as_i64().map_or_else(String::new, rfc3339)
    );
    Ok(ExitCode::SUCCESS)
}

pub(super) fn no_name(name: &str) -> Option<ExitCode> {
    let why = check_name(name).err()?;
    eprintln!("ogive: {why}");
    Some(ExitCode::from(EXIT_USAGE))
}

/// `ogive fleet revoke`.
pub(super) fn revoke(broker: &str, server: &Server) -> anyhow::Result<ExitCode> {
    if let Some(code) = no_name(broker) {
        return Ok(code);
    }
    match server.delete(&format!("/v1/fleet/brokers/{broker}")) {
        Ok(_) => println!("{broker} is revoked"),
        Err(failure) => return Ok(failure.report()),
    }
    Ok(ExitCode::SUCCESS)
}

/// `ogive fleet ask`.
pub(super) fn ask(broker: &str, order: &Order, wait: Ms) -> anyhow::Result<ExitCode> {
    if let Some(code) = no_name(broker) {
        return Ok(code);
    }
    let path = format!("/v1/fleet/brokers/{broker}/requests");
    let (body, server) = match order {
        Order::Check { name, server } => (json!({"do": "check", "name": name}), server),
        Order::Status { server } => (json!({"do": "status"}), server),
        Order::Logs { lines, server } => (json!({"do": "logs", "lines": lines}), server),
        Order::History { server } => return history(&path, server),
    };
    let body = match server.post(&path, &body) {
        Ok(body) => body,
        Err(failure) => return Ok(failure.report()),
    };
    let answer: Value = serde_json::from_str(&body).context("the server's answer is not JSON")?;
    let id = answer["data"]["id"].clone();
    let until = MonoNs(Clock::global().now()).saturating_add(wait.to_ns());
    loop {
        let requests = match requests(&path, server) {
            Ok(requests) => requests?,
            Err(code) => return Ok(code),
        };
        let found = requests.iter().find(|one| one["task"]["id"] == id).map(|one| &one["outcome"]);
        if let Some(outcome) = found.filter(|outcome| outcome.is_object()) {
            println!("{}", outcome["text"].as_str().unwrap_or_default());
            return Ok(if outcome["ok"] == true { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FINDING) });
        }
        if MonoNs(Clock::global().now()) >= until {
            eprintln!(
                "ogive: {broker} has not answered yet; the request waits, see `ogive fleet ask {broker} history`"
            );
            return Ok(ExitCode::from(EXIT_UNREACHABLE));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn requests(path: &str, server: &Server) -> Result<anyhow::Result<Vec<Value>>, ExitCode> {
    let body = server.get(path, &[]).map_err(|failure| failure.report())?;
    let answer: serde_json::Result<Value> = serde_json::from_str(&body);
    let list = answer.map(|answer| answer["data"]["requests"].as_array().cloned().unwrap_or_default());
    Ok(list.context("the server's answer is not JSON"))
}

fn history(path: &str, server: &Server) -> anyhow::Result<ExitCode> {
    let requests = match requests(path, server) {
        Ok(requests) => requests?,
        Err(code) => return Ok(code),
    };
    for one in requests {
        let time = one["time_ms"].as_i64().map_or_else(String::new, rfc3339);
        let outcome = match one["outcome"]["text"].as_str() {
            Some(text) => text.lines().next().unwrap_or_default().to_owned(),
            None => "waits for the broker".into(),
        };
        println!("{time} by {}: {} -> {outcome}", one["by"].as_str().unwrap_or_default(), one["task"]["order"]);
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_drift_and_what_is_refused() {
        let rows = [
            json!({"name": "edge-1", "group": "edge", "state": "refusing", "should_run": 8, "seen_ms": 1_000,
                "clock_offset_seconds": -0.25, "report": {"version": 7, "lag_seconds": 1.5, "spool_bytes": 1_234_567,
                "gap_samples": 3, "cpu": 0.025, "memory_bytes": 50 << 20, "findings": ["the disk is full"],
                "refused": {"version": 8, "reason": "invalid", "why": "line 2: no"}}}),
            json!({"name": "edge-3", "spread_checks": (0..21).map(|at| format!("c{at}")).collect::<Vec<_>>()}),
            json!({"name": "edge-2", "group": "edge", "state": "unseen", "should_run": 8, "report": null,
                "spread_checks": ["dns", "shop"]}),
        ];
        let text = table(&rows, 6_000);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("7/8") && lines[1].contains("1,234,567") && lines[1].ends_with("5 s ago"), "{text}");
        assert_eq!((lines[2].trim(), lines[3].trim()), ("refuses version 8, invalid: line 2: no", "the disk is full"));
        assert!(
            lines[5].starts_with("  21 spread: c0, c1,") && lines[5].ends_with("c19, and 1 more (--json)"),
            "{text}"
        );
        assert!(lines[6].contains("-/8") && lines[6].ends_with("never"), "{text}");
        assert_eq!(lines[7], "  2 spread: dns, shop");
    }
}
