//! What `ogive clock` prints: figures, the cost of each read, and the sentence.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::trust::{Evidence, Verdict, time};
use crate::cli::format::thousands;
use crate::cli::terminal::Terminal;

/// One flat object; numbers in base units, or with the unit in the key.
pub(super) fn json(evidence: &Evidence<'_>, compared: usize, cpus: usize, verdict: &Verdict) -> Map<String, Value> {
    let figures = evidence.figures;
    let seconds = |ns: f64| json!(ns / 1e9);
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.insert(key.into(), value);
    put("trusted", json!(verdict.trusted()));
    put("sentence", json!(verdict.sentence));
    put("findings", json!(verdict.findings.join(" ")));
    put("source", json!(figures.source));
    put("mode", json!(figures.mode.name()));
    put("mode_reason", json!(figures.reason.map(|reason| reason.name())));
    put("os_clocksource", json!(figures.kernel.current));
    put("os_clocksources_available", json!(figures.kernel.available.join(" ")));
    put("frequency_hertz", json!(figures.frequency_hz));
    put("frequency_error_ppb", json!(figures.ppb));
    put("drift_ppb", json!(figures.drift_ppb));
    put("quantum_seconds", seconds(figures.quantum_ns));
    put("error_seconds", seconds(figures.err_ns as f64));
    put("order_seconds", seconds(verdict.order_ns));
    put("cpus", json!(cpus));
    put("cpu_pairs_compared", json!(compared));
    put("cpu_offset_seconds", evidence.offset_ns.map_or(Value::Null, |ns| seconds(ns.abs())));
    put("backward_handoffs", json!(evidence.backward));
    put("epoch", json!(figures.epoch));
    put("backsteps_total", json!(figures.backsteps));
    put("fallbacks_total", json!(figures.fallbacks));
    put("interruptions_total", json!(figures.interruptions));
    put("calibrations_total", json!(figures.calibrations));
    put("rejected_total", json!(figures.rejected));
    for cost in evidence.costs {
        let key = cost.read.key();
        put(&format!("read_{key}_seconds"), seconds(cost.median_ns));
        put(&format!("read_{key}_p10_seconds"), seconds(cost.p10_ns));
        put(&format!("read_{key}_p90_seconds"), seconds(cost.p90_ns));
    }
    out
}

/// For people.
pub(super) fn text(
    evidence: &Evidence<'_>,
    compared: usize,
    cpus: usize,
    verdict: &Verdict,
    terminal: &Terminal,
) -> String {
    let (bold, dim, mark, reset) = match (terminal.color, verdict.trusted()) {
        (false, _) => ("", "", "", ""),
        (true, true) => ("\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[0m"),
        (true, false) => ("\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[0m"),
    };
    let mut out = String::new();
    for (name, value) in figures(evidence, compared, cpus) {
        writeln!(out, "{dim}{name:<22}{reset} {value}").expect("writes to memory");
    }
    writeln!(out, "\n{dim}{:<26} {:>10}   p10 to p90{reset}", "one read costs", "median").expect("writes to memory");
    for cost in evidence.costs {
        let [median, p10, p90] = [cost.median_ns, cost.p10_ns, cost.p90_ns].map(time);
        writeln!(out, "{:<26} {bold}{median:>10}{reset}   {p10} to {p90}", cost.read.name()).expect("writes to memory");
    }
    let word = if verdict.trusted() { "trusted" } else { "finding" };
    writeln!(out, "\n{mark}{word}{reset}: {}", verdict.sentence).expect("writes to memory");
    out
}

fn figures(evidence: &Evidence<'_>, compared: usize, cpus: usize) -> Vec<(&'static str, String)> {
    let figures = evidence.figures;
    let mode = match figures.reason {
        Some(reason) => format!("{} ({})", figures.mode.name(), reason.words()),
        None => figures.mode.name().to_owned(),
    };
    let available = figures.kernel.available.join(" ");
    let frequency = match figures.frequency_hz {
        0 => "not known yet".to_owned(),
        hertz => format!("{} Hz, known to {} ppb", thousands(hertz), figures.ppb),
    };
    let offset = match evidence.offset_ns {
        Some(ns) => {
            format!(
                "{} at most; {compared} of the {} other CPUs compared with the first",
                time(ns.abs()),
                cpus.max(1) - 1
            )
        }
        None => "not known: there are no two CPUs to compare".to_owned(),
    };
    vec![
        ("source", figures.source.to_owned()),
        ("mode", mode),
        ("OS clock source", format!("{} (available: {available})", figures.kernel.name())),
        ("frequency", frequency),
        ("step (quantum)", time(figures.quantum_ns)),
        ("error bound", format!("{} to the system's clock", time(figures.err_ns as f64))),
        ("offset between CPUs", offset),
        ("epoch", figures.epoch.to_string()),
        ("backsteps, fallbacks", format!("{}, {}", figures.backsteps, figures.fallbacks)),
    ]
}
