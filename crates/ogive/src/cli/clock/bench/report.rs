//! What `ogive clock bench` prints.

use std::fmt::Write as _;

use ogive_hist::Histogram;
use serde_json::{Value, json};

use super::super::trust::time;
use super::{Measurements, Part};
use crate::cli::format::{human, thousands};
use ogive_observe::clock::read::TimeSource;

/// One object: the host, and a list for each section. Numbers are in seconds where the key says so.
pub(super) fn json(found: &Measurements) -> Value {
    let figures = &found.figures;
    let contention: Vec<Value> = found.parts.iter().flat_map(contention_json).collect();
    let handoff = |(read, found): &(TimeSource, super::Handoffs)| {
        json!({
            "clock": read.key(), "handoffs": found.count, "backward": found.backward,
            "worst_seconds": found.worst_ns as f64 / 1e9, "cpu_offset_seconds": found.offset_ns.map(|ns| ns / 1e9),
        })
    };
    let delays: Vec<Value> = (found.delays.iter())
        .flat_map(|table| {
            table.rows.iter().map(move |row| {
                let [p0, p50, p99] = [0.0, 0.5, 0.99].map(|q| quantile(&row.reported, q));
                json!({
                    "clock": row.read.key(), "true_seconds": table.true_ns / 1e9,
                    "p0_seconds": p0, "p50_seconds": p50, "p99_seconds": p99,
                })
            })
        })
        .collect();
    json!({
        "processor": found.processor, "cpus": found.cpus.len(), "load": found.load,
        "os_clocksource": figures.kernel.current, "source": figures.source, "mode": figures.mode.name(),
        "frequency_hertz": figures.frequency_hz, "quantum_seconds": figures.quantum_ns / 1e9,
        "backward": found.went_back(),
        "contention": contention,
        "handoffs": found.handoffs.iter().map(handoff).collect::<Vec<_>>(),
        "delays": delays,
    })
}

fn contention_json(part: &Part) -> Vec<Value> {
    let rows = part.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
    rows.map(|(table, row)| {
        let [p50, p999] = [0.5, 0.999].map(|q| quantile(&row.between, q));
        json!({
            "os_clocksource": part.source, "threads": table.threads, "clock": row.read.key(),
            "count": row.between.count, "p50_seconds": p50, "p999_seconds": p999, "max_seconds": row.between.max,
            "calls_per_second": row.rate, "backward": row.backward, "steal_ratio": table.steal,
            "step_monotonic_seconds": part.step_ns.map(|ns| ns / 1e9),
        })
    })
    .collect()
}

fn quantile(histogram: &Histogram, q: f64) -> Option<f64> {
    histogram.quantile(q).map(|found| found.value)
}

/// For people.
pub(super) fn text(found: &Measurements) -> String {
    let figures = &found.figures;
    let load = found.load.map_or("unknown".into(), |load| format!("{load:.2}"));
    let mut out = format!(
        "{} | {} CPUs | load {load} | clock source {} | source {}, mode {} | step {}\n",
        found.processor,
        found.cpus.len(),
        figures.kernel.name(),
        figures.source,
        figures.mode.name(),
        time(figures.quantum_ns)
    );
    out.push_str("\nContention: the time between two calls, beside N threads that call the same clock.\n");
    found.parts.iter().for_each(|part| contention_text(part, &mut out));
    handoffs_text(found, &mut out);
    delays_text(found, &mut out);
    if cfg!(not(feature = "fastant")) {
        out.push_str("\nfastant is not in this build: it calibrates itself for 20 ms before main (cargo build --features fastant).\n");
    }
    out
}

fn contention_text(part: &Part, out: &mut String) {
    for table in &part.tables {
        let steal = table.steal.map_or("unknown".into(), |steal| format!("{:.1} %", steal * 100.0));
        let step =
            part.step_ns.map_or(String::new(), |ns| format!(", CLOCK_MONOTONIC stepped {ns:+.0} ns when it came"));
        writeln!(out, "\n{} threads beside, clock source {}{step}, steal {steal}", table.threads, part.source)
            .expect("writes to memory");
        writeln!(out, "{:<26} {:>9} {:>9} {:>9} {:>10}  backward", "", "p50", "p99.9", "max", "calls/s")
            .expect("writes to memory");
        for row in &table.rows {
            let [p50, p999] = [0.5, 0.999].map(|q| seconds(quantile(&row.between, q)));
            let (max, rate) = (seconds(row.between.max), human(row.rate, ""));
            let name = row.read.name();
            writeln!(out, "{name:<26} {p50:>9} {p999:>9} {max:>9} {rate:>10}  {}", row.backward)
                .expect("writes to memory");
        }
    }
}

fn handoffs_text(found: &Measurements, out: &mut String) {
    let ([first, .., last], false) = (&*found.cpus, found.handoffs.is_empty()) else {
        out.push_str("\nHandoffs between CPUs: this process may run on one CPU alone, so there are none to measure.\n");
        return;
    };
    writeln!(out, "\nHandoffs between CPU {first} and {last}: readings below the one that they answer.")
        .expect("writes to memory");
    writeln!(out, "{:<26} {:>11} {:>10} {:>9} {:>9}  offset", "", "handoffs", "backward", "", "worst")
        .expect("writes to memory");
    for (read, row) in &found.handoffs {
        let percent = row.backward as f64 * 100.0 / row.count.max(1) as f64;
        // Unordered readings are early by more than the CPUs are apart: their least delays show no offset.
        let ordered = !matches!(read, TimeSource::Ticks | TimeSource::NowUnordered) && row.backward == 0;
        let offset = row.offset_ns.filter(|_| ordered).map_or("-".into(), |ns| time(ns.abs()));
        let (name, count, back) = (read.name(), thousands(row.count), thousands(row.backward));
        writeln!(out, "{name:<26} {count:>11} {back:>10} {percent:>7.2} % {:>9}  {offset}", time(row.worst_ns as f64))
            .expect("writes to memory");
    }
}

fn delays_text(found: &Measurements, out: &mut String) {
    for table in &found.delays {
        writeln!(out, "\nA delay of {}: what each clock says.", time(table.true_ns)).expect("writes to memory");
        writeln!(out, "{:<26} {:>9} {:>9} {:>9}", "", "least", "p50", "p99").expect("writes to memory");
        for row in &table.rows {
            let [p0, p50, p99] = [0.0, 0.5, 0.99].map(|q| seconds(quantile(&row.reported, q)));
            writeln!(out, "{:<26} {p0:>9} {p50:>9} {p99:>9}", row.read.name()).expect("writes to memory");
        }
    }
}

fn seconds(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| time(value * 1e9))
}
