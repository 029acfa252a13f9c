//! What was measured as a table that fits the terminal, and what is wrong below it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use ogive_hist::Histogram;
use ogive_text::calendar::rfc3339;
use ogive_wire::{Endpoint, Finding, Totals};

use super::measures::Measures;
use super::names::{class, service as name};
use super::row::{Row, RowKey};
use super::series::{Durations, quantile};
use crate::cli::format::{human, thousands};
use crate::cli::terminal::Terminal;

/// Findings that are printed; the counts include all.
const MAX_PRINTED: usize = 20;

/// Rows that are printed, the most frequent first.
const MAX_ROWS: usize = 60;

/// Prints everything.
pub(super) fn print(mut out: impl Write, measures: &Measures, totals: &Totals, terminal: &Terminal) -> io::Result<()> {
    let seconds = match (totals.first, totals.last) {
        #[allow(clippy::cast_precision_loss, reason = "it is shown with three digits")]
        (Some(first), Some(last)) => (last - first) as f64 / 1e9,
        _ => 0.0,
    };
    writeln!(
        out,
        "{} frames in {}, {} connections",
        thousands(totals.frames),
        human(seconds, "s"),
        thousands(totals.connections)
    )?;
    for line in rows(measures, seconds, terminal.width) {
        writeln!(out, "{line}")?;
    }
    for line in transport_lines(measures) {
        writeln!(out, "{line}")?;
    }
    let mut unanswered: BTreeMap<(Endpoint, &str, &str), u64> = BTreeMap::new();
    for ((service, protocol, why), count) in &measures.unanswered {
        *unanswered.entry((*service, protocol, why.name())).or_default() += count;
    }
    for ((service, protocol, why), count) in unanswered {
        writeln!(out, "unanswered  {}  {protocol}  {why}  {}", name(service), thousands(count))?;
    }
    let discarded: u64 = measures.discarded.iter().sum();
    if discarded > 0 {
        writeln!(out, "not reported because bytes are missing: {}", thousands(discarded))?;
    }
    let folded = measures.folded + measures.namer.top().folded();
    if folded > 0 {
        writeln!(out, "operations too rare for a row of their own, in other: {} exchanges", thousands(folded))?;
    }
    for line in measures.exemplars.lines() {
        writeln!(out, "{line}")?;
    }
    for finding in measures.findings.iter().take(MAX_PRINTED) {
        writeln!(out, "finding  {}", sentence(finding))?;
    }
    let all: u64 = measures.finding_counts.values().sum();
    if all > MAX_PRINTED as u64 {
        let mut counts: Vec<_> = measures.finding_counts.iter().map(|(kind, count)| (kind.title(), *count)).collect();
        counts.sort_unstable();
        let texts: Vec<String> = counts.iter().map(|(title, count)| format!("{title} {}", thousands(*count))).collect();
        writeln!(out, "findings in all: {}", texts.join(", "))?;
    }
    out.flush()
}

/// A quantile as a column shows it.
pub(super) fn quantile_text(times: &Histogram, q: f64) -> String {
    quantile(times, q).map_or_else(|| "-".to_owned(), |value| human(value, "s"))
}

/// TCP and TLS measurements: a line for each service of no known protocol, and one for each TLS name.
fn transport_lines(measures: &Measures) -> Vec<String> {
    let quantiles = |durations: &Durations| {
        let all = &durations.all;
        let [median, high] = [0.5, 0.99].map(|q| quantile_text(all, q));
        format!("{}, p50 {median}, p99 {high}", thousands(all.total()))
    };
    let mut lines = Vec::new();
    for (service, transport) in &measures.transport {
        let service = name(*service);
        for (key, row) in &transport.tls {
            let mut line = format!("tls  {service}");
            for part in [&*key.server_name, key.version, &*key.alpn].into_iter().filter(|part| !part.is_empty()) {
                line.push_str("  ");
                line.push_str(part);
            }
            if !row.handshake.all.is_empty() {
                line.push_str(&format!("  handshakes {}", quantiles(&row.handshake)));
            }
            if !row.turn.all.is_empty() {
                line.push_str(&format!("; turns {}", quantiles(&row.turn)));
            }
            if let Some(expires) = row.expires {
                line.push_str(&format!("; certificate until {}", &rfc3339(expires * 1_000)[..10]));
            }
            lines.push(line);
        }
        let failed =
            transport.tls_failed.iter().map(|(end, count)| format!("{} {}", end.name(), thousands(count.get())));
        let failed: Vec<String> = failed.collect();
        if !failed.is_empty() {
            lines.push(format!("tls  {service}  failed handshakes: {}", failed.join(", ")));
        }
        let [sent, received] = transport.tls_bytes();
        if sent + received > 0 {
            lines.push(format!(
                "tls  {service}  bytes {} to it, {} from it; messages are not read",
                thousands(sent),
                thousands(received)
            ));
        }
        if !transport.first_byte.all.is_empty() {
            lines.push(format!("tcp  {service}  first bytes {}", quantiles(&transport.first_byte)));
        }
        let [copies, resets, windows] = transport.troubles();
        if copies + resets + windows > 0 {
            let [copies, resets, windows] = [copies, resets, windows].map(thousands);
            lines.push(format!("tcp  {service}  sent again {copies}, resets {resets}, zero windows {windows}"));
        }
    }
    lines
}

/// A finding as a sentence.
pub(super) fn sentence(finding: &Finding) -> String {
    #[allow(clippy::cast_precision_loss, reason = "it is shown with three digits")]
    let time = human(finding.nanos as f64 / 1e9, "s");
    let path = finding.path;
    let detail = match finding.kind.name() {
        "dead_keepalive" => format!(" after {time} idle"),
        "refused" => format!(" after {time}"),
        "syn_unanswered" => format!(", {} SYNs in {time}", finding.count),
        "retransmission_storm" => format!(", {} in {time}", finding.count),
        "half_open" => format!(" for {time}"),
        "early_response" => format!(" by {time}"),
        "head_of_line" => format!(": {} requests waited {time} for one answer", finding.count),
        "connection_per_request" => format!(", {} in {time}", finding.count),
        "dns_retry" => format!(", {} queries in {time}", finding.count),
        _ => String::new(),
    };
    format!("{}{detail}  {} > {}", finding.kind.title(), name(path.client), name(path.server))
}

/// The head of the table and its rows.
pub(super) fn rows(measures: &Measures, seconds: f64, width: usize) -> Vec<String> {
    let mut rows: Vec<(&RowKey, &Row)> = measures.rows.iter().collect();
    rows.sort_by(|(a, left), (b, right)| right.total.all.total().cmp(&left.total.all.total()).then_with(|| a.cmp(b)));
    let left_out = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    let services: Vec<String> = rows.iter().map(|(key, _)| name(key.service)).collect();
    let service_width = services.iter().map(String::len).max().unwrap_or(7).max(7);
    let fixed = service_width + 1 + 10 + 13 + 10 + 9 + 4 * 9;
    let operation_width = width.saturating_sub(fixed).clamp(12, 60);
    let mut lines = vec![format!(
        "{:service_width$} {:9} {:operation_width$} {:12} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "service", "protocol", "operation", "status", "count", "rate", "p50", "p99", "max", "total"
    )];
    for ((key, row), service) in rows.iter().zip(&services) {
        let count = row.total.all.total();
        #[allow(clippy::cast_precision_loss, reason = "it is shown with three digits")]
        let rate = if seconds > 0.0 { human(count as f64 / seconds, "/s") } else { "-".to_owned() };
        let operation: String = key.operation.chars().take(operation_width).collect();
        lines.push(format!(
            "{service:service_width$} {:9} {operation:operation_width$} {:12} {:>9} {rate:>8} {:>8} {:>8} {:>8} {:>8}",
            key.protocol,
            class(key.class),
            thousands(count),
            quantile_text(&row.service.all, 0.5),
            quantile_text(&row.service.all, 0.99),
            row.service.all.max.map_or_else(|| "-".to_owned(), |max| human(max, "s")),
            row.total.all.max.map_or_else(|| "-".to_owned(), |max| human(max, "s")),
        ));
    }
    if left_out > 0 {
        lines.push(format!("and {left_out} more operations"));
    }
    lines
}
