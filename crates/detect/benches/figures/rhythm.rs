//! Locked gaps: cycles until they are found, and false locks of random gaps.

use ogive_detect::detectors::rhythm::Rhythm;
use ogive_model::{Ms, WallMs};

use crate::generator::Random;
use crate::report::{quantile, row};

const BEGIN: WallMs = WallMs(1_795_392_000_000);

/// Gaps of 1.5 s with a fixed period, a jitter of 50 ms, and random gaps between them, one in 20 minutes.
pub(crate) fn cycles(seed: u64, runs: u64) {
    for (period_ms, bar) in [(60_000, "<= 6"), (30_000, ""), (300_000, ""), (61_700, ""), (17_300, ""), (1_000_500, "")]
    {
        let mut random = Random::new(seed ^ period_ms as u64);
        let (mut found, mut wrong) = (Vec::new(), 0);
        for _ in 0..runs {
            let mut onsets: Vec<i64> = (0..100).map(|at| at * period_ms + (random.normal() * 50.0) as i64).collect();
            let phase_ms = (random.unit() * 3.6e6) as i64;
            let mut other = 0.0;
            while other < (20 * period_ms) as f64 {
                other += random.exponential(1_200_000.0);
                onsets.push(other as i64);
            }
            onsets.sort_unstable();
            let mut rhythm = Rhythm::default();
            let lock = onsets.iter().find_map(|onset| {
                let finding = rhythm.gap(BEGIN + Ms(phase_ms + onset), 1_500.0)?;
                Some((*onset as f64 / period_ms as f64, finding.number("period_ms")?))
            });
            match lock {
                Some((cycles, period)) => {
                    wrong += u32::from((period - period_ms as f64).abs() > 100.0);
                    found.push(cycles);
                }
                None => found.push(f64::INFINITY),
            }
        }
        let name = format!("gaps each {} s", period_ms as f64 / 1e3);
        row(
            &format!("{name}: median cycles to find ({wrong} of {runs} with another period)"),
            quantile(&mut found, 0.5),
            bar,
        );
        row(&format!("{name}: p90 cycles to find"), quantile(&mut found, 0.9), "");
    }
}

/// False locks of gaps at random: rare and frequent ones, and runs of seconds.
pub(crate) fn nulls(seed: u64, hours: u64) {
    for (name, mean_s, run_s) in
        [("10 an hour", 360.0, 1.0), ("100 an hour", 36.0, 1.0), ("runs of 5 s, 30 an hour", 120.0, 5.0)]
    {
        let mut random = Random::new(seed ^ mean_s as u64);
        let mut locks = 0;
        for series in 0..hours.div_ceil(100) {
            let mut rhythm = Rhythm::default();
            let mut at_s = series as f64 * 977.0;
            let end_s = at_s + 100.0 * 3_600.0;
            while at_s < end_s {
                at_s += random.exponential(mean_s);
                let run = 1 + random.exponential(run_s - 1.0 + 1e-9) as i64;
                let onset = BEGIN + Ms((at_s * 1e3) as i64);
                for second in 0..run {
                    let finding = rhythm.gap(onset + Ms::from_secs(second), 1_000.0);
                    locks += finding.is_some_and(|finding| {
                        println!("  false lock: {finding}");
                        true
                    }) as u32;
                }
                at_s += run as f64;
                rhythm.pass(onset);
            }
        }
        row(
            &format!("null gaps, {name}: false locks in {} series-hours", hours.div_ceil(100) * 100),
            f64::from(locks),
            "< 1 in 1e5",
        );
    }
}
