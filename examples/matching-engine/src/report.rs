//! What an operator reads: a table of the stages, the slow orders, and a sentence that names the culprit.

use crate::engine::{Outcome, QUEUES};
use ogive_hist::Histogram;
use ogive_probe::{Class, SlowTrace};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A counter of a processor is read in 5 to 30 ns, the system's clock without a system call in some 25; more than this is
/// a call into the kernel or a trap.
const STAMP_NS_MAX: f64 = 100.0;

/// The 99.9 % quantile of the gap between two orders: one comes each half millisecond, and a machine may stop once.
const GAP_SECONDS_MAX: f64 = 0.1;

pub(crate) fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = table(&mut text, outcome);
    let _ = slow(&mut text, outcome);
    let _ = writeln!(text, "verdict: {}\n", verdict(outcome));
    text
}

fn table(text: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let cell = &outcome.cell;
    writeln!(text, "{} orders, {} trades; a stamp costs {:.1} ns", outcome.sent, outcome.trades, outcome.stamp_ns)?;
    writeln!(
        text,
        "{:<12} {:<6} {:>8} {:>10} {:>10} {:>10} {:>10}",
        "us", "class", "count", "p50", "p99", "p99.9", "max"
    )?;
    for stage in &cell.stages {
        row(text, stage.name, stage.class.name(), &stage.times)?;
    }
    row(text, "(sum)", Class::Infrastructure.name(), &cell.infrastructure)?;
    row(text, "(sum)", Class::Logic.name(), &cell.logic)?;
    row(text, "total", "", &cell.total)?;
    for publisher in &cell.publishers {
        row(text, "gap", &publisher.name, &publisher.gaps)?;
    }
    for mark in &cell.marks {
        row(text, &format!("{} to {}", mark.name, mark.name), "", &mark.between)?;
    }
    let counts = cell.counts;
    let lost = format!("{} incomplete, {} straddled", counts.incomplete, counts.straddled);
    writeln!(text, "{} finished = {} measured + {lost}; {} clamped", counts.finished, cell.total.count, counts.clamped)
}

fn row(text: &mut String, name: &str, class: &str, times: &Histogram) -> std::fmt::Result {
    let us = |seconds: Option<f64>| seconds.map_or("-".into(), |seconds| format!("{:.2}", seconds * 1e6));
    let quantile = |q: f64| us(times.quantile(q).map(|quantile| quantile.value));
    let (p50, p99, p999, max) = (quantile(0.5), quantile(0.99), quantile(0.999), us(times.max));
    writeln!(text, "{name:<12} {class:<6} {:>8} {p50:>10} {p99:>10} {p999:>10} {max:>10}", times.count)
}

/// Where a slow order itself was at work longest: not in a queue.
fn worked_longest(trace: &SlowTrace) -> Option<(&str, u64)> {
    let work = trace.stages.iter().filter(|stage| !QUEUES.contains(&stage.name.as_str()));
    work.max_by_key(|stage| stage.ns).map(|stage| (stage.name.as_str(), stage.ns))
}

fn slow(text: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let Some(worst) = outcome.slow.iter().max_by_key(|trace| worked_longest(trace).map(|(_, ns)| ns)) else {
        return writeln!(text, "no order was slower than {} us", outcome.cell.limit_ns / 1_000);
    };
    let waited = outcome.slow.iter().filter(|trace| is_waiting(trace)).count();
    writeln!(text, "{} slow orders, {waited} of them in a queue; the one that worked longest:", outcome.slow.len())?;
    writeln!(text, "{}{worst}", worst.waterfall())
}

fn is_waiting(trace: &SlowTrace) -> bool {
    trace.culprit().is_some_and(|stage| QUEUES.contains(&stage.name.as_str()))
}

/// The stage in which slow orders that were not just waiting lost most, or the clock, or the absence of orders.
fn verdict(outcome: &Outcome) -> String {
    if outcome.stamp_ns > STAMP_NS_MAX {
        let share = outcome.stamp_ns * 9.0 / 1_000.0;
        return format!(
            "the clock: a stamp costs {:.0} ns, nine of them {share:.1} us of every order",
            outcome.stamp_ns
        );
    }
    let mut lost = BTreeMap::<&str, (u64, u64)>::new();
    for (stage, ns) in outcome.slow.iter().filter(|trace| !is_waiting(trace)).filter_map(worked_longest) {
        let (count, sum) = lost.entry(stage).or_default();
        (*count, *sum) = (*count + 1, *sum + ns);
    }
    if let Some((stage, (count, ns))) = lost.into_iter().max_by_key(|(_, (_, ns))| *ns) {
        return format!("{stage}: {count} orders lost {:.1} ms there, and others waited behind them", ns as f64 / 1e6);
    }
    let gaps = outcome.cell.publishers.iter().filter_map(|publisher| publisher.gaps.quantile(0.999));
    let gap = gaps.map(|quantile| quantile.value).fold(0.0, f64::max);
    if gap > GAP_SECONDS_MAX {
        let ms = gap * 1e3;
        return format!(
            "nothing was published for {ms:.0} ms, again and again, while no order was in flight: look upstream"
        );
    }
    "nothing is slow".into()
}
