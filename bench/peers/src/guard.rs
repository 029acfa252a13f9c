//! Two builds of Ogive beside each other: is one of them slower?
//!
//! In each round both take the same work, the one first that was second before, so that a busy moment meets both. What
//! is compared is the ratio of a round; their geometric mean has an interval of confidence by Student's distribution
//! over their logarithms, which holds for ratios that scatter evenly. A work of which the interval lies above the limit
//! is named, and ends it with an error.

use std::path::{Path, PathBuf};

use crate::queries;
use crate::report::Figures;
use crate::requests::Form;
use crate::server::{Peer, Programs};
use crate::work::Load;

/// What is compared.
#[derive(Debug, clap::Args)]
pub struct Sides {
    /// For `guard`: the build that is compared with.
    #[arg(long, value_name = "BINARY", required_if_eq("what", "guard"))]
    pub a: Option<PathBuf>,
    /// For `guard`: the build that is looked at.
    #[arg(long, value_name = "BINARY", required_if_eq("what", "guard"))]
    pub b: Option<PathBuf>,
    /// For `guard`: how much more processor time the second build may surely take.
    #[arg(long, value_name = "RATIO", default_value_t = 1.1)]
    pub limit: f64,
}

impl Sides {
    /// The programs of either side.
    fn programs(&self, peers: &Path) -> Option<[Programs; 2]> {
        let of = |ogive: &PathBuf| Programs { ogive: ogive.clone(), peers: peers.to_owned() };
        Some([of(self.a.as_ref()?), of(self.b.as_ref()?)])
    }
}

/// Processor time of both sides in each round.
type Rounds = Vec<[f64; 2]>;

/// Measures `loads` by `measure`, which gives the figures of a round, and the queries; prints a table.
pub fn run(
    sides: &Sides,
    (peers, loads): (&Path, &[Load]),
    (rounds, scale): (usize, f64),
    measure: &dyn Fn(&Programs, Form, &Load, usize) -> anyhow::Result<Figures>,
) -> anyhow::Result<()> {
    let Some(programs) = sides.programs(peers) else { anyhow::bail!("guard compares --a with --b") };
    anyhow::ensure!(rounds >= 2, "no interval without two rounds");
    println!("| work | a, CPU ms | b, CPU ms | b : a | 95 % |\n|---|---|---|---|---|");
    let mut slower = Vec::new();
    let mut row = |name: String, rounds: &Rounds| {
        let ratio = Ratio::from_rounds(rounds);
        let mean = |side: usize| rounds.iter().map(|round| round[side]).sum::<f64>() / rounds.len() as f64;
        println!(
            "| {name} | {:.2} | {:.2} | {:.3} | {:.3} to {:.3} |",
            mean(0),
            mean(1),
            ratio.mean,
            ratio.low,
            ratio.high
        );
        if ratio.low > sides.limit {
            slower.push(name);
        }
    };
    for load in loads {
        for form in
            [Form::RemoteWrite, Form::Batch].into_iter().filter(|form| form.fits(Peer::Ogive, load.histograms()))
        {
            let mut taken = Rounds::new();
            for round in 0..rounds {
                let mut pair = [0.0; 2];
                for side in queries::order(round) {
                    pair[side] = measure(&programs[side], form, load, round)?.settled_ms();
                }
                taken.push(pair);
            }
            row(format!("{}, {}, settled", load.name(), form.name()), &taken);
        }
    }
    for (name, taken) in queries::pairs(&programs, scale, rounds)? {
        row(name.to_owned(), &taken);
    }
    anyhow::ensure!(slower.is_empty(), "slower than {} times: {}", sides.limit, slower.join("; "));
    Ok(())
}

/// The second side's time by the first one's.
#[derive(Debug, PartialEq)]
struct Ratio {
    mean: f64,
    low: f64,
    high: f64,
}

impl Ratio {
    fn from_rounds(rounds: &Rounds) -> Self {
        let logs: Vec<f64> = rounds.iter().map(|[a, b]| (b / a).ln()).collect();
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let half = student(logs.len() - 1) * (variance / count).sqrt();
        Self { mean: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() }
    }
}

/// The 0.975 quantile of Student's distribution, rounded up beyond the table.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 12] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179];
    TABLE.get(freedom.saturating_sub(1)).copied().unwrap_or(2.179)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ratios_have_no_interval_and_scattered_ones_have_the_right_one() {
        let equal = Ratio::from_rounds(&vec![[2.0, 3.0], [4.0, 6.0]]);
        assert!((equal.mean - 1.5).abs() < 1e-12 && equal.high - equal.low < 1e-12);
        // The logarithms are -1, 0 and 1: their deviation is 1, and 4.303 / sqrt(3) = 2.484.
        let e = std::f64::consts::E;
        let found = Ratio::from_rounds(&vec![[e, 1.0], [1.0, 1.0], [1.0, e]]);
        assert!((found.mean - 1.0).abs() < 1e-12, "{found:?}");
        assert!((found.high.ln() - 2.4843).abs() < 1e-3 && (found.low.ln() + 2.4843).abs() < 1e-3, "{found:?}");
    }
}
