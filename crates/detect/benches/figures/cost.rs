//! What the detectors cost: time a cell, memory a series, and a lost broker of 100,000 series.

use std::time::Instant;

/// CPU seconds of this thread so far, which a busy machine does not stretch.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds on a CPU come first") / 1e9
}

use ogive_detect::detectors::monitor::{Content, Monitor, Options, SeriesProfile};
use ogive_hist::Histogram;
use ogive_model::{Labels, Ms, SeriesId, WallMs};

use crate::generator::{Fault, Null, Series};
use crate::report::row;

const BEGIN: WallMs = WallMs(1_795_392_000_000);

fn labels(at: usize) -> Labels {
    let (metric, instance, path) =
        (format!("metric_{}", at % 20), format!("host-{}", at / 500), (at % 500).to_string());
    let broker = if (at / 500).is_multiple_of(2) { "b0" } else { "b1" };
    Labels::new([("__name__", &*metric), ("instance", &*instance), ("path", &*path), ("broker", broker)])
        .expect("valid")
}

/// Histogram cells of `count` series, second by second, behind what they learn in two hours (one series' worth of cells
/// is used by all).
pub(crate) fn cells(seed: u64, count: usize) {
    let mut source = Series::new(Null::Wobble, seed);
    let cells: Vec<Histogram> = (0..600).map(|_| source.cell(Fault::None)).collect();
    let bins: usize = cells.iter().map(|cell| cell.positive.len()).sum::<usize>() / cells.len();
    let names: Vec<Labels> = (0..count).map(labels).collect();
    let mut monitor = Monitor::new(Options { series_max: count, ..Options::default() });
    let mut took = 0.0;
    let seconds = 7_200;
    for second in 1..=seconds {
        if second == seconds - 599 {
            took = -cpu_seconds();
        }
        for (at, name) in names.iter().enumerate() {
            let about = SeriesProfile { labels: name, unit: "s", width_ms: 1_000 };
            let cell = &cells[(second as usize * 7 + at) % cells.len()];
            monitor.sample(SeriesId(at as u128), about, BEGIN + Ms::from_secs(second), Content::Cell(cell));
        }
        let found = monitor.advance(BEGIN + Ms::from_secs(second));
        assert!(found.iter().all(|one| !one.finding.is_active), "{found:?}");
    }
    took += cpu_seconds();
    let each = took / 600.0 / count as f64;
    row(&format!("cost: ns a cell of {bins} bins, step of the watermark included"), each * 1e9, "");
    row("cost: per cent of a core for 100,000 series a second", each * 1e5 * 100.0, "<= 2");
    row("cost: bytes a series with its hour of the week", monitor.memory_bytes() as f64 / count as f64, "<= 700");
}

/// A broker with half of 200,000 series that come every 10 s goes and comes back.
pub(crate) fn broker() {
    let count = 200_000;
    let names: Vec<Labels> = (0..count).map(labels).collect();
    let mut monitor = Monitor::new(Options { series_max: count, ..Options::default() });
    let (mut lost, mut back, mut other, mut delay) = (0, 0, 0, f64::INFINITY);
    let mut slowest = 0.0_f64;
    for second in 1..=480_i64 {
        for (at, name) in names.iter().enumerate() {
            let is_lost = (at / 500).is_multiple_of(2) && (300..400).contains(&second);
            if !is_lost && (second + at as i64) % 10 == 0 {
                monitor.sample(
                    SeriesId(at as u128),
                    SeriesProfile { labels: name, unit: "", width_ms: 0 },
                    BEGIN + Ms::from_secs(second),
                    Content::Arrival,
                );
            }
        }
        let from = Instant::now();
        for found in monitor.advance(BEGIN + Ms::from_secs(second)) {
            match (found.labels.get("broker"), found.finding.is_active) {
                ("b0", true) => {
                    (lost, delay) = (lost + 1, (second - 300) as f64 / 10.0);
                    println!("  {}", found.finding);
                }
                ("b0", false) => back += 1,
                _ => other += 1,
            }
        }
        slowest = slowest.max(from.elapsed().as_secs_f64());
    }
    row("lost broker of 100,000 series: notifications", f64::from(lost), "1");
    row("lost broker: cadences until it, with 2 s of lateness", delay, "<= 3");
    row("lost broker: notifications of its return, of anything else", f64::from(back * 10 + other), "10");
    row("lost broker: slowest step of the watermark, ms", slowest * 1e3, "<= 1000");
}
