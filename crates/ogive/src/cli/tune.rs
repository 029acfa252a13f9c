//! `ogive tune`: how many threads should decode and how many own live cells, on this host and with this data?

use std::path::PathBuf;
use std::process::ExitCode;

use ogive_stream::cells::Wait;
use serde_json::json;

use super::exit::EXIT_USAGE;
use super::replay::{Cost, Recorded, ReplayOptions, passes, quantize};

/// Within 5 % fewer threads are better: they leave cores to queries.
const WORTH: f64 = 1.05;

/// Replays a recorded journal with increasing numbers of threads, and recommends one.
#[derive(clap::Args, Debug)]
pub(crate) struct Tune {
    /// Data directory of a server, or the journal itself; it is only read.
    #[arg(long, value_name = "DIR")]
    journal: PathBuf,
    /// Maximum threads of each kind to try; default: the number of processors, at most 8.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads_max: Option<u16>,
    /// Minimum samples per measurement.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    samples: u64,
    /// Measurements per thread count; the median is used.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
    /// Print figures as JSON.
    #[arg(long)]
    json: bool,
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    listeners: usize,
    shards: usize,
    /// Million points a second: the middle round, the worst and the best.
    rate: [f64; 3],
    /// Million points a second of a core, in the middle.
    per_core: f64,
}

impl Row {
    /// The corresponding options of `ogive serve`.
    fn flags(&self) -> [String; 4] {
        let (listeners, shards) = (self.listeners.to_string(), self.shards.to_string());
        ["--listener-threads".into(), listeners, "--stream-shards".into(), shards]
    }
}

/// Runs the command.
pub(crate) fn run(options: &Tune) -> anyhow::Result<ExitCode> {
    let recorded = match Recorded::read(&options.journal) {
        Ok(recorded) => recorded,
        Err(error) => {
            eprintln!("ogive: {error:#}");
            return Ok(ExitCode::from(EXIT_USAGE));
        }
    };
    let cores = ogive_probe::allowed_cpus().len().max(1);
    let most = options.threads_max.map_or(cores.min(8), usize::from);
    let counts: Vec<(usize, usize)> =
        (1..=most).flat_map(|listeners| (1..=most).map(move |shards| (listeners, shards))).collect();
    let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); counts.len()];
    // The rounds are the outer loop, so that a host that is busy for a while affects all candidates alike.
    for _ in 0..options.rounds {
        for ((feeders, shards), costs) in counts.iter().zip(&mut costs) {
            let passes = passes(&recorded, options.samples);
            let how = ReplayOptions {
                feeders: *feeders,
                shards: *shards,
                passes,
                shuffle: None,
                speed: None,
                is_bare: false,
                by_arrival: false,
                wait: Wait::Yield,
            };
            costs.push(quantize(&recorded, how)?);
        }
    }
    let rows: Vec<Row> =
        counts.iter().zip(&costs).map(|((listeners, shards), costs)| row(*listeners, *shards, costs)).collect();
    let best = recommended(&rows);
    if options.json {
        let row = |row: &Row| {
            json!({"listeners": row.listeners, "threads": row.shards, "points_per_second": row.rate[0] * 1e6,
                "points_per_second_min": row.rate[1] * 1e6, "points_per_second_max": row.rate[2] * 1e6,
                "points_per_core_second": row.per_core * 1e6})
        };
        let all: Vec<_> = rows.iter().map(row).collect();
        let flags = best.flags();
        println!("{}", json!({"processors": cores, "rows": all, "recommended": row(&best), "flags": flags}));
        return Ok(ExitCode::SUCCESS);
    }
    println!("{cores} processors; million points a second, the middle of {} rounds", options.rounds);
    println!("listeners  threads     rate  (least to most)   per core");
    for row in &rows {
        let mark = if *row == best { "  <- recommended" } else { "" };
        let [middle, least, greatest] = row.rate;
        let (listeners, shards) = (row.listeners, row.shards);
        println!("{listeners:9}  {shards:7}  {middle:7.2}  ({least:.2} to {greatest:.2}) {:12.2}{mark}", row.per_core);
    }
    println!("recommended, within 5 % of the fastest with the fewest threads:");
    println!("    ogive serve {}", best.flags().join(" "));
    Ok(ExitCode::SUCCESS)
}

fn row(listeners: usize, shards: usize, costs: &[Cost]) -> Row {
    let sorted = |rate: fn(&Cost) -> f64| {
        let mut rates: Vec<f64> = costs.iter().map(rate).collect();
        rates.sort_by(f64::total_cmp);
        rates
    };
    let (rates, per_core) = (sorted(Cost::per_second), sorted(Cost::per_core));
    let middle = rates.len() / 2;
    Row { listeners, shards, rate: [rates[middle], rates[0], rates[rates.len() - 1]], per_core: per_core[middle] }
}

/// The fewest threads that are nearly as fast as the fastest; of as many the faster ones.
fn recommended(rows: &[Row]) -> Row {
    let fastest = rows.iter().map(|row| row.rate[0]).fold(0.0, f64::max);
    let good = rows.iter().filter(|row| row.rate[0] * WORTH >= fastest);
    let order = |row: &&Row| row.listeners + row.shards;
    let fewest = good.clone().map(|row| order(&row)).min().expect("the fastest is good");
    let least = good.filter(|row| order(row) == fewest);
    *least.max_by(|a, b| a.rate[0].total_cmp(&b.rate[0])).expect("one has the fewest")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row_of(listeners: usize, shards: usize, rate: f64) -> Row {
        Row { listeners, shards, rate: [rate; 3], per_core: 1.0 }
    }

    #[test]
    fn threads_that_gain_nothing_are_not_recommended() {
        let rows = [row_of(1, 1, 4.0), row_of(1, 2, 7.7), row_of(2, 1, 7.8), row_of(2, 2, 8.0)];
        assert_eq!(recommended(&rows), rows[2]);
        assert_eq!(recommended(&[row_of(1, 1, 4.0), row_of(1, 2, 4.1)]), row_of(1, 1, 4.0));
        assert_eq!(recommended(&[row_of(1, 1, 4.0), row_of(2, 2, 4.3)]), row_of(2, 2, 4.3));
    }
}
