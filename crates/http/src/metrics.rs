//! `/metrics`: the server's own counters, as OpenMetrics 1.0 for who accepts it, else in the Prometheus text format
//! 0.0.4.
//!
//! Format: prometheus.io/docs/instrumenting/exposition_formats and github.com/prometheus/OpenMetrics. There a counter's
//! family is named without `_total`, units are reported, and the text ends with `# EOF`.

use std::fmt::{Display, Write as _};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::App;
use ogive_door::counters::{Counters, Entry, Ledger};
use ogive_door::own_value::OwnValue;
use ogive_observe::{TURNED_AWAY, UNREADABLE, help};

/// A counter of each protocol: its name, its help text, and its value.
type ByProtocol = (&'static str, &'static str, fn(&Ledger) -> u64);

const BY_PROTOCOL: [ByProtocol; 4] = [
    ("ogive_ingest_received_samples_total", "Samples in batches that could be read.", |ledger| ledger.received.get()),
    (
        "ogive_ingest_folded_samples_total",
        "Of the accepted samples, those beyond a limit of their tenant: they are in ogive_overflow.",
        |ledger| ledger.folded.get(),
    ),
    ("ogive_ingest_batches_total", "Batches answered.", |ledger| ledger.batches.get()),
    ("ogive_ingest_bytes_total", "Bytes as they came.", |ledger| ledger.bytes.get()),
];

pub(super) async fn get(State(app): State<App>, headers: HeaderMap) -> Response {
    let form = Form::accepted(&headers);
    (StatusCode::OK, [(header::CONTENT_TYPE, form.content_type())], exposition(&app, form)).into_response()
}

/// How the figures are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    OpenMetrics,
}

impl Form {
    /// OpenMetrics for every client that accepts it: those that do prefer it.
    fn accepted(headers: &HeaderMap) -> Self {
        let kinds = headers.get_all(header::ACCEPT).iter().filter_map(|kinds| kinds.to_str().ok());
        let is_open = |kind: &str| {
            let mut parts = kind.split(';').map(|part| part.trim().to_ascii_lowercase());
            let is_it = parts.next().is_some_and(|name| name == "application/openmetrics-text");
            // A weight of nothing is a refusal.
            is_it && !parts.any(|part| part.strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0)))
        };
        if kinds.flat_map(|kinds| kinds.split(',')).any(is_open) { Self::OpenMetrics } else { Self::Text }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A text under construction.
struct Exposition {
    form: Form,
    out: String,
}

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let (family, help) = match self.form {
            Form::Text => (name, help),
            Form::OpenMetrics => {
                (if kind == "counter" { name.trim_end_matches("_total") } else { name }, help.replace('"', "\\\""))
            }
        };
        self.line(format_args!("# HELP {family} {help}"));
        self.line(format_args!("# TYPE {family} {kind}"));
        let unit = family.rsplit('_').next().filter(|unit| ["seconds", "bytes", "ratio"].contains(unit));
        if let (Form::OpenMetrics, Some(unit)) = (self.form, unit) {
            self.line(format_args!("# UNIT {family} {unit}"));
        }
    }

    fn line(&mut self, line: impl Display) {
        writeln!(self.out, "{line}").expect("writes to memory");
    }
}

fn exposition(app: &App, form: Form) -> String {
    let mut out = Exposition { form, out: String::new() };
    ingest(&mut out, &app.counters);
    let counters = &app.counters;
    for (name, text, value) in [
        ("ogive_queries_timed_out_total", "Queries that took longer than they may.", counters.queries_timed_out.get()),
        ("ogive_audit_lost_total", "Entries of the audit that the store did not take.", counters.audit.lost.get()),
        ("ogive_own_lost_total", "Own cells that the store did not take.", counters.own_lost.get()),
        (
            "ogive_own_slow_dropped_total",
            "Own slow traces for which there was no room.",
            counters.own_slow_dropped.get(),
        ),
    ] {
        out.family(name, "counter", text);
        out.line(format_args!("{name} {value}"));
    }
    out.family(TURNED_AWAY, "counter", help(TURNED_AWAY));
    for (reason, value) in counters.door.failures() {
        out.line(format_args!("{TURNED_AWAY}{{reason=\"{reason}\"}} {value}"));
    }
    own_values(&mut out, &counters.door.values());
    own_values(&mut out, &counters.reloads.values());
    own_values(&mut out, &counters.forwards.values());
    own_values(&mut out, &counters.fleet.values());
    let mut figures = app.alerting.figures();
    figures.sort_by_key(|(name, ..)| *name);
    let mut family = "";
    for (name, labels, value) in figures {
        if name != family {
            out.family(
                name,
                if name.ends_with("_total") { "counter" } else { "gauge" },
                "Rules and alerts; docs/alerts.md.",
            );
            family = name;
        }
        let labels: Vec<String> = labels.iter().map(|(label, text)| format!("{label}={text:?}")).collect();
        let braces = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        out.line(format_args!("{name}{braces} {value}"));
    }
    for (name, text, value) in counters.statsd.figures() {
        let name = format!("ogive_{name}");
        out.family(&name, "counter", text);
        out.line(format_args!("{name} {value}"));
    }
    let uptime = app.uptime().0 as f64 / 1e9;
    out.family("ogive_uptime_seconds", "gauge", "Seconds since the server started.");
    out.line(format_args!("ogive_uptime_seconds {uptime}"));
    for fact in ogive_observe::facts(&*app.backend) {
        let name = format!("ogive_store_{}", fact.name);
        out.family(&name, if name.ends_with("_total") { "counter" } else { "gauge" }, "A figure of the store.");
        out.line(format_args!("{name} {}", fact.value));
    }
    own_values(&mut out, &app.backend.own_values());
    own_values(&mut out, &app.meters.clock_values());
    if form == Form::OpenMetrics {
        out.line("# EOF");
    }
    out.out
}

/// The outcome of all received samples.
fn ingest(out: &mut Exposition, counters: &Counters) {
    let samples = "ogive_ingest_samples_total";
    out.family(samples, "counter", help(samples));
    for Entry { protocol, outcome, reason, samples: value } in counters.entries() {
        let labels = format!("outcome=\"{outcome}\",protocol=\"{protocol}\",reason=\"{reason}\"");
        out.line(format_args!("{samples}{{{labels}}} {value}"));
    }
    out.family(UNREADABLE, "counter", help(UNREADABLE));
    for (protocol, reason, value) in counters.unreadable() {
        out.line(format_args!("{UNREADABLE}{{protocol=\"{protocol}\",reason=\"{reason}\"}} {value}"));
    }
    for (name, text, each) in BY_PROTOCOL {
        out.family(name, "counter", text);
        for (protocol, ledger) in counters.ledgers() {
            out.line(format_args!("{name}{{protocol=\"{}\"}} {}", protocol.name(), each(ledger)));
        }
    }
}

/// Figures as they are stored.
fn own_values(out: &mut Exposition, values: &[OwnValue]) {
    for of_one in values.chunk_by(|one, next| one.name() == next.name()) {
        let name = of_one[0].name();
        out.family(name, of_one[0].kind(), help(name));
        of_one.iter().for_each(|value| out.line(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(accept: &str) -> Form {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        Form::accepted(&headers)
    }

    #[test]
    fn who_accepts_openmetrics_gets_it() {
        assert_eq!(Form::accepted(&HeaderMap::new()), Form::Text);
        assert_eq!(accepted("text/plain;version=0.0.4;q=0.5,*/*;q=0.1"), Form::Text);
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(accepted(prometheus), Form::OpenMetrics);
        assert_eq!(accepted("text/plain, Application/OpenMetrics-Text; q=0"), Form::Text);
    }

    #[test]
    fn a_family_is_named_as_its_form_wants() {
        let written = |form| {
            let mut out = Exposition { form, out: String::new() };
            out.family("x_bytes_total", "counter", "say \"more\"\\");
            out.line("x_bytes_total 1");
            out.out
        };
        let text = "# HELP x_bytes_total say \"more\"\\\\\n# TYPE x_bytes_total counter\nx_bytes_total 1\n";
        assert_eq!(written(Form::Text), text);
        let open =
            "# HELP x_bytes say \\\"more\\\"\\\\\n# TYPE x_bytes counter\n# UNIT x_bytes bytes\nx_bytes_total 1\n";
        assert_eq!(written(Form::OpenMetrics), open);
    }
}
