//! What was measured, as text, as JSON and as a picture.

use std::collections::BTreeMap;

use ogive_kernel::curve;
use ogive_kernel::growth::{Growth, Run, STATES, growth};
use ogive_kernel::scale::{Law, Point};
use serde_json::{Value, json};

use super::measure::Measure;
use crate::cli::format::human;
use crate::cli::plot::{self, Line};
use crate::cli::terminal::Terminal;

/// Everything that was measured.
pub(super) struct Report {
    title: String,
    measure: Measure,
    /// Where the waits are from: `bpf` or `proc`.
    source: &'static str,
    /// By number of workers, ascending.
    groups: Vec<Vec<Run>>,
    /// The points of each group that are used.
    points: Vec<Point>,
    law: Option<Law>,
}

impl Report {
    pub(super) fn new(command: &[String], measure: Measure, source: &'static str, runs: Vec<Run>, best: bool) -> Self {
        let groups = by_workers(&runs);
        let points: Vec<Point> = groups.iter().map(|runs| point(runs, best)).collect();
        Self { title: command.join(" "), measure, source, groups, law: Law::fit(&points), points }
    }

    fn means(&self) -> Vec<Run> {
        self.groups.iter().filter_map(|runs| Run::mean(runs)).collect()
    }

    fn grown(&self) -> Vec<Growth> {
        match self.means().as_slice() {
            [first, .., last] => growth(first, last),
            _ => Vec::new(),
        }
    }

    pub(super) fn svg(&self) -> Option<String> {
        curve::svg(&self.title, self.measure.unit(), &self.points, self.law.as_ref())
    }

    pub(super) fn text(&self, terminal: &Terminal) -> String {
        let mut out = self.table();
        out += "\n";
        out += &self.picture(terminal);
        out += "\n";
        out += &self.words();
        out
    }

    fn table(&self) -> String {
        let mut out = format!(
            "{:>7} {:>11} {:>19} {:>6}  {}    MIG      VCX      ICX\n",
            "workers",
            "per second",
            "of the rounds",
            "ideal",
            STATES.map(|(name, _)| format!("{name:>4}")).join(" ")
        );
        let alone = self.alone();
        for ((runs, mean), middle) in self.groups.iter().zip(self.means()).zip(&self.points) {
            let rates = || runs.iter().map(Run::throughput);
            let (low, high) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
            // A thread that joins the workers is one more.
            let spent = mean.states_s();
            let all: f64 = spent.iter().sum();
            let states = spent.map(|state| format!("{:>4.0}", state / all * 100.0)).join(" ");
            let ideal = middle.throughput / (alone * middle.workers) * 100.0;
            out += &format!(
                "{:>7} {:>11} {:>19} {ideal:>5.0}%  {states} {:>6.0} {:>8.0} {:>8.0}\n",
                mean.workers,
                human(middle.throughput, ""),
                format!("{} to {}", human(low, ""), human(high, "")),
                mean.migrations,
                mean.voluntary,
                mean.involuntary,
            );
        }
        out + "states in percent of the workers' time, by " + self.source + "\n"
    }

    /// The throughput of a single worker.
    fn alone(&self) -> f64 {
        let first = self.points[0];
        self.law.map_or(first.throughput / first.workers, |law| law.lambda)
    }

    fn picture(&self, terminal: &Terminal) -> String {
        let points = &self.points;
        let most = points.iter().map(|point| point.workers).fold(1.0, f64::max);
        let alone = self.alone();
        let line = |name: &str, points: Vec<(f64, f64)>| Line { name: name.to_owned(), points };
        let steps: Vec<f64> = (0..=200).map(|step| 1.0 + (most - 1.0) * f64::from(step) / 200.0).collect();
        let highest = points.iter().map(|point| point.throughput).fold(0.0, f64::max) * 2.5;
        let ideal = steps.iter().map(|n| (*n, alone * n)).filter(|(_, y)| *y <= highest);
        let mut lines = vec![line("nothing lost", ideal.collect())];
        let law = |law: &Law| steps.iter().map(|n| (*n, law.throughput(*n))).collect();
        lines.push(line("the law", self.law.as_ref().map(law).unwrap_or_default()));
        lines.push(line("measured", points.iter().map(|point| (point.workers, point.throughput)).collect()));
        lines.retain(|line| !line.points.is_empty());
        plot::curves(&lines, "1", &format!("{most} workers"), terminal)
    }

    fn words(&self) -> String {
        let mut out = match &self.law {
            Some(law) => law_in_words(law),
            None => "The law is fitted to three numbers of workers or more: name them with --workers, \
                     with --oversubscribe where there are fewer CPUs.\n"
                .to_owned(),
        };
        let grown = self.grown();
        let (Some(first), Some(last)) = (self.groups.first(), self.groups.last()) else { return out };
        let (first, last) = (first[0].workers, last[0].workers);
        if first == last {
            return out;
        }
        if grown.is_empty() {
            return out
                + &format!("Nothing grows: a unit of work costs no more with {last} workers than with {first}.\n");
        }
        out += &format!("What a unit of work costs more with {last} workers than with {first}:\n");
        for one in grown.iter().filter(|one| one.share >= 0.01) {
            let (before, after) = (human(one.before_s, "s"), human(one.after_s, "s"));
            out += &format!("  {:>3.0}% {}  {before} to {after}: {}\n", one.share * 100.0, one.name, one.meaning);
        }
        let means = self.means();
        let migrations = |run: Option<&Run>| run.map_or(0.0, |run| run.migrations / run.work);
        let (before, after) = (migrations(means.first()), migrations(means.last()));
        if after > before {
            out += &format!("  migrations for a unit: {before:.1} to {after:.1}\n");
        }
        out
    }

    pub(super) fn json(&self) -> Value {
        let run = |run: &Run| {
            let states: serde_json::Map<String, Value> = STATES
                .iter()
                .zip(run.states_s())
                .map(|((name, _), seconds)| ((*name).to_owned(), seconds.into()))
                .collect();
            json!({
                "workers": run.workers, "work": run.work, "wall_s": run.wall_s, "throughput": run.throughput(),
                "states_s": states, "migrations": run.migrations, "voluntary": run.voluntary,
                "involuntary": run.involuntary,
            })
        };
        let grown = |one: &Growth| {
            json!({
                "state": one.name, "meaning": one.meaning, "before_s": one.before_s, "after_s": one.after_s,
                "share": one.share,
            })
        };
        let law = self.law.map(|law| {
            json!({
                "lambda": law.lambda, "sigma": law.sigma, "kappa": law.kappa, "explained": law.explained,
                "peak_workers": law.peak(),
            })
        });
        json!({
            "command": self.title, "source": self.source, "law": law,
            "points": self.points.iter().map(|p| json!({"workers": p.workers, "throughput": p.throughput})).collect::<Vec<_>>(),
            "runs": self.groups.iter().flatten().map(run).collect::<Vec<_>>(),
            "grows": self.grown().iter().map(grown).collect::<Vec<_>>(),
        })
    }
}

/// Runs with the same number of workers, ascending.
fn by_workers(runs: &[Run]) -> Vec<Vec<Run>> {
    let mut groups: BTreeMap<u32, Vec<Run>> = BTreeMap::new();
    for run in runs {
        groups.entry(run.workers).or_default().push(*run);
    }
    groups.into_values().collect()
}

/// The run in the middle, or the best.
fn point(runs: &[Run], best: bool) -> Point {
    let mut rates: Vec<f64> = runs.iter().map(Run::throughput).collect();
    rates.sort_by(f64::total_cmp);
    let middle = (rates[(rates.len() - 1) / 2] + rates[rates.len() / 2]) / 2.0;
    let throughput = if best { rates[rates.len() - 1] } else { middle };
    Point { workers: f64::from(runs[0].workers), throughput }
}

fn law_in_words(law: &Law) -> String {
    let mut out = format!(
        "X(n) = {} n / (1 + {:.4} (n - 1) + {:.6} n (n - 1)), which explains {:.1} % of the variance\n  \
         {:.1} % is done one at a time; each pair of workers costs {:.3} % of a unit\n",
        human(law.lambda, ""),
        law.sigma,
        law.kappa,
        law.explained * 100.0,
        law.sigma * 100.0,
        law.kappa * 100.0
    );
    out += &match law.peak() {
        Some(peak) => format!("  the most is {} a second, with {peak:.0} workers\n", human(law.throughput(peak), "")),
        None if law.sigma > 0.0 => format!("  never more than {} a second\n", human(law.lambda / law.sigma, "")),
        None => "  nothing is lost\n".to_owned(),
    };
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rates: &[(u32, f64)]) -> Report {
        let run = |(workers, rate): &(u32, f64)| Run {
            workers: *workers,
            work: *rate,
            wall_s: 1.0,
            // A hundredth of a second for each unit; what is left of the workers' time is in a lock.
            user_s: rate / 100.0,
            lock_s: (f64::from(*workers) - rate / 100.0).max(0.0),
            ..Run::default()
        };
        Report::new(&["x".to_owned()], Measure::Count, "proc", rates.iter().map(run).collect(), false)
    }

    fn terminal() -> Terminal {
        Terminal { width: 80, height: 24, unicode: true, color: false }
    }

    #[test]
    fn the_text_names_the_law_and_what_grows() {
        let law = Law { lambda: 100.0, sigma: 0.1, kappa: 0.01, explained: 1.0 };
        let text = report(&[1, 2, 4, 8].map(|n| (n, law.throughput(f64::from(n))))).text(&terminal());
        assert!(text.contains("100 n / (1 + 0.1000 (n - 1) + 0.010000 n (n - 1))"), "{text}");
        assert!(text.contains("with 9 workers"), "{text}");
        assert!(text.contains("100% LCK"), "{text}");
    }

    #[test]
    fn two_numbers_of_workers_give_no_law_but_a_table() {
        let text = report(&[(1, 100.0), (2, 150.0)]).text(&terminal());
        assert!(text.contains("three numbers of workers") && text.contains("75%"), "{text}");
        assert_eq!(report(&[(1, 100.0)]).json()["law"], Value::Null);
    }

    #[test]
    fn the_middle_of_rounds_counts() {
        let report = report(&[(1, 100.0), (1, 300.0), (1, 110.0), (2, 50.0), (2, 60.0)]);
        assert_eq!(report.points.iter().map(|p| p.throughput).collect::<Vec<_>>(), [110.0, 55.0]);
        assert_eq!(point(&report.groups[0], true).throughput, 300.0);
    }
}
