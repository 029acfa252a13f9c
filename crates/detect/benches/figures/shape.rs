//! Change of shape: false alarms of the nulls, delays and begins of faults.

use ogive_detect::detectors::shape::Shape;
use ogive_model::{Ms, WallMs};

use crate::generator::{Fault, NULLS, Null, OPERATIONS, Random, Series, Table};
use crate::report::{quantile, row};

/// 2026-11-23 00:00 UTC, a Monday.
const BEGIN: WallMs = WallMs(1_795_392_000_000);
/// Cells until it can judge: 600 and an hour, until the next full hour.
const READY_CELLS: i64 = 2 * 3_600;

/// False alarms in `hours` series-hours of each null.
pub(crate) fn nulls(seed: u64, hours: u64) {
    for null in NULLS {
        let series_hours = 100.min(hours);
        let (mut alarms, mut judged) = (0, 0);
        for series in 0..hours / series_hours {
            let mut source = Series::new(null, seed ^ (series << 8) ^ 0x51);
            let mut shape = Shape::new(1_000);
            let mut end = BEGIN + Ms::from_secs((series as i64 % 24) * 3_600);
            while shape.edges().is_none() {
                end += Ms::from_secs(1);
                shape.cell(end, &source.cell(Fault::None), "s");
            }
            let edges = shape.edges().expect("just there");
            let (above, median_high) = (edges.quantiles().map(f64::from), f64::from(edges.median_high()));
            let table = Table::new([above[0], above[1], above[2], above[3], median_high, f64::INFINITY]);
            for _ in 0..series_hours * 3_600 + 3_600 {
                end += Ms::from_secs(1);
                let counts = source.above(&table);
                let share = |at: usize| counts[at] as f32 / OPERATIONS as f32;
                let is_high = f32::from(counts[4] as usize * 2 > OPERATIONS);
                let shares = [share(0), share(1), share(2), share(3), (1.0 - share(0)) * 0.95, is_high];
                judged += u64::from(shape.is_ready());
                if let Some(finding) = shape.shares(end, &shares, "s")
                    && finding.is_active
                {
                    alarms += 1;
                    println!("  false alarm of {null:?}, series {series}: {finding}");
                }
            }
        }
        row(&format!("null {null:?}: false alarms in {} series-hours", judged / 3_600), f64::from(alarms), "0");
    }
}

/// Cells from a fault to its alarm, and how far off its begin is.
pub(crate) fn delays(seed: u64, runs: u64) {
    let bars = [(Fault::TailTimes3, 50.0), (Fault::Slow(0.01), 25.0), (Fault::Slow(0.03), 12.0), (Fault::All10, 120.0)];
    for null in [Null::Independent, Null::Wobble] {
        for (fault, bar) in bars {
            let (mut delays, mut errors, mut missed) = (Vec::new(), Vec::new(), 0);
            for run in 0..runs {
                match one(null, fault, seed ^ Random::new(run).bits()) {
                    Some((delay, error)) => {
                        delays.push(delay);
                        errors.push(error);
                    }
                    None => {
                        delays.push(f64::INFINITY);
                        missed += 1;
                    }
                }
            }
            let name = format!("{null:?} {fault:?}");
            row(
                &format!("{name}: median cells to detect ({missed} of {runs} not in 500)"),
                quantile(&mut delays, 0.5),
                &format!("<= {bar}"),
            );
            row(&format!("{name}: p90 cells to detect"), quantile(&mut delays, 0.9), "");
            row(&format!("{name}: begin, median error in cells"), quantile(&mut errors, 0.5), "<= 1");
            row(&format!("{name}: begin, p90 error in cells"), quantile(&mut errors, 0.9), "<= 9");
        }
    }
}

fn one(null: Null, fault: Fault, seed: u64) -> Option<(f64, f64)> {
    let mut source = Series::new(null, seed);
    let mut shape = Shape::new(1_000);
    for at in 1..=READY_CELLS {
        let finding = shape.cell(BEGIN + Ms::from_secs(at), &source.cell(Fault::None), "s");
        if let Some(finding) = finding.filter(|finding| finding.is_active) {
            println!("  false alarm before the fault, seed {seed}: {finding}");
        }
    }
    assert!(shape.is_ready());
    (1..=500).find_map(|at| {
        let end = BEGIN + Ms::from_secs(READY_CELLS + at);
        let finding = shape.cell(end, &source.cell(fault), "s")?;
        let first = BEGIN + Ms::from_secs(READY_CELLS + 1);
        Some((at as f64, ((finding.began - first) / Ms::from_secs(1)).abs() as f64))
    })
}
