//! Rules of objectives, as text.

use std::fmt::Write as _;

use super::objective::{EVENTS_MIN, Indicator, Objective, WINDOW};

/// Name and seconds of each window.
const WINDOWS: [(&str, u32); 7] =
    [("5m", 300), ("30m", 1_800), ("1h", 3_600), ("2h", 7_200), ("6h", 21_600), ("1d", 86_400), ("3d", 259_200)];

/// A condition of an alert: the error rate in two windows.
struct Burn {
    short: &'static str,
    long: &'static str,
    /// The error rate, as a multiple of what the budget allows.
    factor: &'static str,
}

impl Burn {
    const fn new(short: &'static str, long: &'static str, factor: &'static str) -> Self {
        Self { short, long, factor }
    }
}

const PAGE: [Burn; 2] = [Burn::new("5m", "1h", "14.4"), Burn::new("30m", "6h", "6")];
const TICKET: [Burn; 2] = [Burn::new("2h", "1d", "3"), Burn::new("6h", "3d", "1")];
/// Windows whose lower bound is needed.
const LONG: [&str; 4] = ["1h", "6h", "1d", "3d"];
/// One-sided 95 %.
const Z: f64 = 1.644_853_627;

/// A rule file.
pub(super) fn file(objectives: &[Objective]) -> String {
    let mut out = String::from("groups:\n");
    for objective in objectives {
        group(objective, &mut out);
    }
    if objectives.is_empty() {
        out = "groups: []\n".to_owned();
    }
    out
}

fn group(objective: &Objective, out: &mut String) {
    let name = format!("slo-{}-{}", objective.service, objective.name);
    let _ = writeln!(out, "- name: {}\n  labels:", quoted(&name));
    let own = [("service", &objective.service), ("slo", &objective.name)];
    for (name, value) in own {
        let _ = writeln!(out, "    {name}: {}", quoted(value));
    }
    for (name, value) in objective.labels.iter().filter(|(name, _)| !matches!(name.as_str(), "service" | "slo")) {
        let _ = writeln!(out, "    {}: {}", quoted(name), quoted(value));
    }
    out.push_str("  rules:\n");
    for (window, seconds) in WINDOWS {
        record(out, &format!("slo:error_ratio:rate{window}"), &ratio(objective, window));
        if let Indicator::Events { total, .. } = &objective.indicator {
            let events = format!("({}) * {seconds}", total.replace(WINDOW, window));
            record(out, &format!("slo:events:increase{window}"), &events);
        }
        if LONG.contains(&window) {
            record(out, &format!("slo:error_ratio_sure:rate{window}"), &sure(objective, window));
        }
    }
    let _ = writeln!(out, "  - record: 'slo:error_budget:ratio'\n    expr: vector({})", budget(objective));
    alert(objective, "page", objective.alert.page.as_deref(), &PAGE, out);
    alert(objective, "ticket", objective.alert.ticket.as_deref(), &TICKET, out);
}

fn record(out: &mut String, name: &str, expr: &str) {
    let _ = writeln!(out, "  - record: {}\n    expr: {}", quoted(name), quoted(expr));
}

fn ratio(objective: &Objective, window: &str) -> String {
    match &objective.indicator {
        Indicator::Events { errors, total } => {
            format!("({}) / ({})", errors.replace(WINDOW, window), total.replace(WINDOW, window))
        }
        Indicator::Ratio(ratio) => ratio.replace(WINDOW, window),
    }
}

/// The recorded series of an objective.
fn own(objective: &Objective, name: &str, window: &str) -> String {
    let (service, slo) = (quoted(&objective.service), quoted(&objective.name));
    format!("slo:{name}{window}{{service={service},slo={slo}}}")
}

/// The lower bound of the share of errors: (p + z^2/2n - z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n).
fn sure(objective: &Objective, window: &str) -> String {
    let share = own(objective, "error_ratio:rate", window);
    if matches!(objective.indicator, Indicator::Ratio(_)) {
        return share;
    }
    let events = own(objective, "events:increase", window);
    let square = Z * Z;
    format!(
        "({share} + {half} / {events} - {Z} * sqrt({share} * (1 - {share}) / {events} + {quarter} / {events} ^ 2)) / (1 + {square} / {events})",
        half = square / 2.0,
        quarter = square / 4.0,
    )
}

fn budget(objective: &Objective) -> f64 {
    // 1 - 0.999 has rounding errors in its last digits.
    ((1.0 - objective.target) * 1e12).round() / 1e12
}

fn alert(objective: &Objective, severity: &str, labels: Option<&[(String, String)]>, burns: &[Burn], out: &mut String) {
    let Some(labels) = labels else { return };
    let budget = budget(objective);
    let conditions: Vec<String> = burns.iter().map(|burn| condition(objective, burn, budget)).collect();
    let name = objective.alert.name.clone().unwrap_or_else(|| "ErrorBudgetBurn".to_owned());
    let _ = writeln!(out, "  - alert: {}\n    expr: {}", quoted(&name), quoted(&conditions.join("\nor\n")));
    let mut all = vec![("severity".to_owned(), severity.to_owned())];
    for (name, value) in objective.alert.labels.iter().chain(labels) {
        all.retain(|(other, _)| other != name);
        all.push((name.clone(), value.clone()));
    }
    out.push_str("    labels:\n");
    for (name, value) in &all {
        let _ = writeln!(out, "      {}: {}", quoted(name), quoted(value));
    }
    let goal = objective.target * 100.0;
    let summary = format!(
        "{} / {} burns its error budget too fast: {{{{ $value | humanizePercentage }}}} of events are bad for sure, where {goal:.6} % must be good",
        objective.service, objective.name
    );
    let mut texts = vec![("summary".to_owned(), summary)];
    if !objective.description.is_empty() {
        texts.push(("description".to_owned(), objective.description.replace("{{", "{ {")));
    }
    for (name, text) in &objective.alert.annotations {
        texts.retain(|(other, _)| other != name);
        texts.push((name.clone(), text.clone()));
    }
    out.push_str("    annotations:\n");
    for (name, text) in &texts {
        let _ = writeln!(out, "      {}: {}", quoted(name), quoted(text));
    }
}

/// Based on the long window, unless enough events of the short one contradict it.
fn condition(objective: &Objective, Burn { short, long, factor }: &Burn, budget: f64) -> String {
    let long = own(objective, "error_ratio_sure:rate", long);
    let recent = own(objective, "error_ratio:rate", short);
    let contradiction = match objective.indicator {
        Indicator::Events { .. } => {
            let events = own(objective, "events:increase", short);
            format!("({recent} <= {factor} * {budget} and {events} >= {EVENTS_MIN})")
        }
        Indicator::Ratio(_) => format!("({recent} <= {factor} * {budget})"),
    };
    format!("({long} > {factor} * {budget} unless {contradiction})")
}

/// A text in double quotes, as YAML and PromQL read it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
