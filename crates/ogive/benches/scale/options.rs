//! What the bench is asked for: words on the command line, and variables of the environment.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::guard::Guard;

/// Numbers of series unless others are named.
const SERIES: [usize; 3] = [10_000, 100_000, 1_000_000];
const USAGE: &str = "give nothing, `series N,N,...`, `cells [SERIES [HOURS]]` or `year [SERIES [DAYS]]`";
/// The server may hold this share of the memory that is available at the start: the client and the page cache need some
/// too.
const MEMORY_SHARE: f64 = 0.75;

/// What to measure.
pub(crate) enum Mode {
    /// Curves over these numbers of series.
    Curves(Vec<usize>),
    /// Cells of one second.
    Cells { series: usize, hours: usize },
    /// Cells of one minute.
    Year { series: usize, days: usize },
}

impl Mode {
    /// Reads the command line; cargo adds `--bench` to it.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let words: Vec<String> = words.filter(|word| word != "--bench").collect();
        let positive = |text: &str| {
            let number = text.parse().ok().filter(|number: &usize| *number > 0);
            number.ok_or_else(|| format!("{text:?} is no number above 0; {USAGE}"))
        };
        let number = |at: usize, default: usize| words.get(at).map_or(Ok(default), |text| positive(text));
        match words.first().map(String::as_str) {
            None => Ok(Self::Curves(SERIES.to_vec())),
            Some("series") => {
                let list = words.get(1).ok_or_else(|| format!("no number of series; {USAGE}"))?;
                Ok(Self::Curves(list.split(',').map(positive).collect::<Result<_, _>>()?))
            }
            Some("cells") => Ok(Self::Cells { series: number(1, 1_000)?, hours: number(2, 24)? }),
            Some("year") => Ok(Self::Year { series: number(1, 50)?, days: number(2, 365)? }),
            Some(other) => Err(format!("{other:?} is none of the modes; {USAGE}")),
        }
    }
}

/// What holds for every mode.
pub(crate) struct Options {
    pub(crate) rounds: usize,
    /// Where the data of the servers goes.
    pub(crate) directory: PathBuf,
    /// Of the server.
    pub(crate) memory_bytes_max: u64,
    /// For each number of series.
    pub(crate) time_max: Duration,
    /// Where the curves go.
    pub(crate) picture: Option<PathBuf>,
}

impl Options {
    pub(crate) fn from_environment() -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let available = memory_bytes("MemAvailable") as f64 * MEMORY_SHARE;
        Self {
            rounds: number("OGIVE_BENCH_ROUNDS").unwrap_or(3).clamp(1, 1_000) as usize,
            directory: std::env::var_os("OGIVE_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from),
            memory_bytes_max: number("OGIVE_BENCH_MEMORY_MIB").map_or(available as u64, |mib| mib << 20),
            time_max: Duration::from_secs(60 * number("OGIVE_BENCH_MINUTES").unwrap_or(240).clamp(1, 100_000)),
            picture: std::env::var_os("OGIVE_BENCH_PICTURE").map(PathBuf::from),
        }
    }

    /// The bounds of a run that begins now.
    pub(crate) fn guard(&self) -> Guard {
        Guard {
            memory_bytes_max: self.memory_bytes_max,
            directory: self.directory.clone(),
            until: Instant::now() + self.time_max,
        }
    }
}

/// A figure of the machine's memory, bytes; 0 when the system does not have it.
pub(crate) fn memory_bytes(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
