//! A small matching engine in the shape that LMAX described: receive, journal, replicate, match, publish. Every order is
//! traced; a fault of your choice is put in; the report names it.
//!
//! Run: `cargo run --release -p ogive-matching-engine -- [none|journal|logic|clock|pause|all] [SECONDS]`

mod book;
mod engine;
mod report;

use engine::Fault;
use std::process::ExitCode;
use std::time::Duration;

/// Long enough for ten faults of each kind.
const SECONDS: u64 = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = arguments.first().map_or("all", String::as_str);
    let seconds = arguments.get(1).map_or(Some(SECONDS), |text| text.parse().ok());
    let faults: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| wanted == "all" || wanted == fault.name()).collect();
    let (Some(seconds @ 1..=3_600), false) = (seconds, faults.is_empty()) else {
        eprintln!("usage: matching-engine [none|journal|logic|clock|pause|all] [SECONDS, 1 to 3600]");
        return ExitCode::from(2);
    };
    for fault in faults {
        println!("== fault: {} ==", fault.name());
        let outcome = engine::run(fault, Duration::from_secs(seconds));
        print!("{}", report::text(&outcome));
    }
    ExitCode::SUCCESS
}
