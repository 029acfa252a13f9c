//! What do a sample, a new series and a query cost with 10,000 to 10,000,000 series, and which resource ends first?
//! What do a day of cells of one second and a year of cells of one minute take, and how soon are they asked?
//!
//! Starts the real server, sends batches over HTTP whose times are simulated (the server takes samples of any age, so
//! nobody waits), and measures its process from outside: processor time less what it takes by itself, memory, bytes on
//! disk, restarts, queries. What only follows the present, live cells and detectors, sees little of such samples and is
//! not in the figures.
//!
//! Failure: a run ends with the name of the resource that ended (memory, disk, identities, time, or what the server
//! answered), and with what was measured up to there.
//!
//! `cargo bench -p ogive --bench scale` (10^4, 10^5 and 10^6 series), `... -- series 10000,10000000`, `... -- cells
//! [SERIES [HOURS]]` (default 1,000 and 24; cells of 1 s), `... -- year [SERIES [DAYS]]` (default 50 and 365; cells of
//! 60 s). Environment: `OGIVE_BENCH_ROUNDS` (3), `OGIVE_BENCH_PICTURE` (a file for the curves as SVG),
//! `OGIVE_BENCH_DIR` (where the data goes; default the temporary directory), `OGIVE_BENCH_MEMORY_MIB` (of the server at
//! most; default three quarters of what is available), `OGIVE_BENCH_MINUTES` (for each number of series; 240). The
//! server takes its own options from the environment as always.

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../common/connection.rs"]
mod connection;
#[path = "../common/process.rs"]
mod process;

mod ask;
mod cells;
mod curves;
mod floats;
mod guard;
mod numbers;
mod options;
mod picture;
mod report;
mod sender;
mod span;
mod target;

use std::process::ExitCode;

use options::{Mode, Options};
use span::Span;

/// Hours of a day.
const DAY_HOURS: usize = 24;

fn main() -> ExitCode {
    let mode = match Mode::parse(std::env::args().skip(1)) {
        Ok(mode) => mode,
        Err(problem) => {
            eprintln!("scale: {problem}");
            return ExitCode::from(2);
        }
    };
    let options = Options::from_environment();
    println!("{}; {} rounds: median (least..greatest)\n", report::machine(), options.rounds);
    match mode {
        Mode::Curves(counts) => curves(&options, &counts),
        Mode::Cells { series, hours } => span::run(&options, &Span::new("cells", series, 1_000, hours)),
        Mode::Year { series, days } => span::run(&options, &Span::new("year", series, 60_000, days * DAY_HOURS)),
    }
    ExitCode::SUCCESS
}

fn curves(options: &Options, counts: &[usize]) {
    let mut rows = Vec::new();
    for count in counts {
        eprintln!("{count} series");
        let row = curves::measure(options, *count);
        if let Some(end) = &row.end {
            eprintln!("{count} series: {end}");
        }
        // At once: the next number may take hours.
        eprint!("{}", report::csv(std::slice::from_ref(&row)));
        rows.push(row);
    }
    print!("{}", report::table(&rows));
    print!("\n{}", report::questions(&rows));
    print!("\n{}", report::ends(&rows, options));
    print!("\n{}", report::csv(&rows));
    if let Some(path) = &options.picture {
        match std::fs::write(path, report::picture(&rows)) {
            Ok(()) => println!("\nthe curves are in {}", path.display()),
            Err(error) => eprintln!("scale: {}: {error}", path.display()),
        }
    }
}
