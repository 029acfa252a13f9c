//! `ogive replay`: a recorded journal through decode, quantizer and head, on this host: what a core takes in.

mod allocations;
mod recorded;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use ogive_stream::cells::Wait;
use serde_json::json;

use super::exit::{EXIT_FINDING, EXIT_USAGE};
use super::format::{human, thousands};
use ogive_text::calendar::iso;

use allocations::Allocated;
pub(crate) use recorded::Recorded;
pub(crate) use run::{Cost, ReplayOptions, quantize};

/// Replays a server's journal (running, or a copy) through decoding, live cells and an in-memory store, and reports
/// what one core can ingest. The journal is only read.
#[derive(clap::Args, Debug)]
pub(crate) struct Replay {
    /// Data directory of a server, or the journal itself.
    #[arg(long, value_name = "DIR")]
    journal: PathBuf,
    /// Replay batches and their samples in random order.
    #[arg(long)]
    shuffle: bool,
    /// Seed of the random order, to repeat it.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Replay batches at their recorded arrival times (a server started with --journal-arrivals records them), so
    /// that cells close and samples are late as they were then. Without it, the samples' own times drive the
    /// clock.
    #[arg(long, conflicts_with = "shuffle")]
    by_arrival: bool,
    /// What threads do while idle: yield, spin, park or hybrid[:SPINS:YIELDS:PARK_US].
    #[arg(long, value_name = "WAY", default_value_t = Wait::Yield)]
    wait: Wait,
    /// `max`, or a multiple of the recorded speed.
    #[arg(long, value_name = "max|N", default_value = "max", value_parser = speed)]
    speed: Speed,
    /// Number of threads that own the cells.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
    /// Number of decoding threads.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    listeners: u16,
    /// Minimum samples per measurement; the journal is replayed repeatedly, each time shifted later.
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    samples: u64,
    /// Print figures as JSON.
    #[arg(long)]
    json: bool,
}

/// How fast.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Speed(Option<f64>);

fn speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed(None));
    }
    let times = text.parse::<f64>().ok().filter(|times| times.is_finite() && *times > 0.0);
    times.map(|times| Speed(Some(times))).ok_or_else(|| "write `max`, or a number above 0 such as 1 or 60".into())
}

/// Runs the command.
pub(crate) fn run(options: &Replay) -> anyhow::Result<ExitCode> {
    let recorded = match Recorded::read(&options.journal) {
        Ok(recorded) => recorded,
        Err(error) => {
            eprintln!("ogive: {error:#}");
            return Ok(ExitCode::from(EXIT_USAGE));
        }
    };
    if options.by_arrival && recorded.arrivals.is_empty() {
        eprintln!(
            "ogive: the journal does not say when batches arrived; record one with ogive serve --journal-arrivals"
        );
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let how = ReplayOptions {
        feeders: usize::from(options.listeners),
        shards: usize::from(options.threads),
        passes: passes(&recorded, options.samples),
        shuffle: options.shuffle.then_some(options.seed),
        speed: options.speed.0,
        is_bare: false,
        by_arrival: options.by_arrival,
        wait: options.wait,
    };
    let cost = quantize(&recorded, how)?;
    // With its timing the replay is the measurement; the rest would only repeat it.
    let rest = if how.speed.is_none() {
        let bare = quantize(&recorded, ReplayOptions { is_bare: true, ..how })?;
        Some((run::decode_only(&recorded)?, bare, run::head(&recorded)?))
    } else {
        None
    };
    let document = document(&recorded, how, &cost, rest.as_ref());
    if options.json {
        println!("{document}");
    } else {
        print(&recorded, how, &cost, rest.as_ref());
    }
    Ok(if recorded.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FINDING) })
}

/// The last time that a cell may end at: seconds in 32 bits.
const CELLS_END_NS: i64 = u32::MAX as i64 * 1_000_000_000;

/// How often a recording is replayed to reach that many samples, as far as cells have times: each pass is shifted by
/// its duration, and one pass precedes those that are counted.
pub(crate) fn passes(recorded: &Recorded, samples: u64) -> u32 {
    let left_ns = CELLS_END_NS.saturating_sub(recorded.last_ns).max(0);
    let most = (left_ns / recorded.span_ns()).clamp(1, i64::from(u32::MAX - 1));
    samples.div_ceil(recorded.samples.max(1)).clamp(1, most as u64) as u32
}

/// Decoding alone (CPU nanoseconds, items), rings and tables alone, and the head.
type Rest = ((u64, u64), Cost, run::StoreCost);

/// Million a second of a core.
fn rate(count: u64, cpu_ns: u64) -> f64 {
    if cpu_ns == 0 { 0.0 } else { count as f64 * 1e3 / cpu_ns as f64 }
}

/// The average of `amount` over `count`.
fn per(amount: u64, count: u64) -> f64 {
    amount as f64 / count.max(1) as f64
}

fn document(recorded: &Recorded, how: ReplayOptions, cost: &Cost, rest: Option<&Rest>) -> serde_json::Value {
    let refused: serde_json::Map<String, serde_json::Value> = ogive_stream::cells::Refused::ALL
        .iter()
        .map(|reason| (reason.as_str().to_owned(), json!(cost.counts.refused(*reason))))
        .collect();
    let caches: serde_json::Map<_, _> =
        allocations::caches().into_iter().map(|(level, bytes)| (level, json!(bytes))).collect();
    let allocated =
        |all: Option<Allocated>, of: fn(&Allocated) -> u64| all.map(|allocated| per(of(&allocated), cost.items));
    let mut out = json!({
        "batches": recorded.frames.len(),
        "journal_bytes": recorded.bytes,
        "samples": recorded.samples,
        "begin": iso(recorded.first_ns),
        "end": iso(recorded.last_ns),
        "findings": recorded.findings,
        "listeners": how.feeders,
        "threads": how.shards,
        "shuffle_seed": how.shuffle,
        "speed": how.speed,
        "by_arrival": how.by_arrival,
        "ahead": cost.ahead,
        "items": cost.items,
        "passed": cost.passed,
        "series": cost.series,
        "cells": cost.cells,
        "late": cost.counts.late,
        "refused": refused,
        "table_bytes": cost.table_bytes,
        "table_bytes_per_series": per(cost.table_bytes as u64, cost.series as u64),
        "cache_bytes": caches,
        "listeners_allocations_per_point": allocated(cost.feeders_allocated, |allocated| allocated.count),
        "listeners_allocated_bytes_per_point": allocated(cost.feeders_allocated, |allocated| allocated.bytes),
        "threads_allocations_per_point": allocated(cost.shards_allocated, |allocated| allocated.count),
        "threads_allocated_bytes_per_point": allocated(cost.shards_allocated, |allocated| allocated.bytes),
        "wall_seconds": cost.wall_ns as f64 / 1e9,
        "points_per_second": cost.per_second() * 1e6,
        "points_per_core_second": cost.per_core() * 1e6,
        "listeners_cpu_seconds": cost.feeders_cpu_ns as f64 / 1e9,
        "threads_cpu_seconds": cost.shards_cpu_ns as f64 / 1e9,
    });
    if let Some(((decode_ns, decoded), bare, head)) = rest {
        out["decode_points_per_core_second"] = json!(rate(*decoded, *decode_ns) * 1e6);
        out["bare_points_per_core_second"] = json!(bare.per_core() * 1e6);
        out["head_points_per_core_second"] = json!(rate(head.accepted, head.cpu_ns) * 1e6);
        out["head_bytes"] = json!(head.head_bytes);
        out["head_accepted"] = json!(head.accepted);
    }
    out
}

fn print(recorded: &Recorded, how: ReplayOptions, cost: &Cost, rest: Option<&Rest>) {
    recorded.findings.iter().for_each(|finding| println!("finding: {finding}"));
    println!(
        "{} samples in {} batches, {}, from {} to {}",
        thousands(recorded.samples),
        thousands(recorded.frames.len() as u64),
        human(recorded.bytes as f64, "B"),
        iso(recorded.first_ns),
        iso(recorded.last_ns)
    );
    let order = if how.shuffle.is_some() { "in random order" } else { "in their order" };
    println!(
        "{} points fed {order}, {} that no live cell holds, {} series, {} cells emitted, {} late, {} refused",
        thousands(cost.items),
        thousands(cost.passed),
        thousands(cost.series as u64),
        thousands(cost.cells),
        thousands(cost.counts.late),
        thousands(cost.counts.refused_total())
    );
    let line = |what: &str, rate: f64| println!("  {what:44} {rate:8.2} million points/s of a core");
    if let Some(((decode_ns, decoded), _, _)) = rest {
        line("decode alone", rate(*decoded, *decode_ns));
    }
    line("decode, rings, live cells", cost.per_core());
    if let Some((_, bare, head)) = rest {
        line("the same without arithmetic and cells", bare.per_core());
        line("decode, journal in memory, head", rate(head.accepted, head.cpu_ns));
        println!("  head: {} for {} samples", human(head.head_bytes as f64, "B"), thousands(head.accepted));
    }
    println!(
        "  together {:.2} million points/s: {} thread(s) that decode {:.0} % busy, {} with cells {:.0} %",
        cost.per_second(),
        how.feeders,
        busy(cost.feeders_cpu_ns, how.feeders, cost.wall_ns),
        how.shards,
        busy(cost.shards_cpu_ns, how.shards, cost.wall_ns),
    );
    print_memory(cost);
}

fn print_memory(cost: &Cost) {
    let caches: Vec<String> = allocations::caches()
        .into_iter()
        .map(|(level, bytes)| format!("{level} {}", human(bytes as f64, "B")))
        .collect();
    println!(
        "  tables: {}, {:.0} bytes a series, a look-up reads one line of 64; caches of a core: {}",
        human(cost.table_bytes as f64, "B"),
        per(cost.table_bytes as u64, cost.series as u64),
        if caches.is_empty() { "the system does not say".into() } else { caches.join(", ") }
    );
    match cost.feeders_allocated.zip(cost.shards_allocated) {
        Some((feeders, shards)) => println!(
            "  allocations a point: {:.3} of {:.0} bytes to decode, {:.3} of {:.0} bytes with cells (counting slows the figures above down)",
            per(feeders.count, cost.items),
            per(feeders.bytes, feeders.count),
            per(shards.count, cost.items),
            per(shards.bytes, shards.count)
        ),
        None => println!("  allocations are counted by a build with --features count-allocations"),
    }
}

/// The share of their time that threads were on a CPU, in percent. A thread that waits for others yields, which counts
/// as busy.
fn busy(cpu_ns: u64, threads: usize, wall_ns: u64) -> f64 {
    cpu_ns as f64 * 100.0 / (wall_ns.max(1) as f64 * threads as f64)
}

#[cfg(test)]
mod tests;
