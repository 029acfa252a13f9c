//! A small matching engine in the shape that LMAX described: receive, journal, replicate, match, publish. Every order is
//! traced; a fault of your choice is put in; the report names it.
//!
//! Run: `cargo run --release -p ogive-matching-engine -- [none|journal|logic|clock|pause|all] [SECONDS] [--export URL]`.
//! With `--export http://127.0.0.1:6448`, an Ogive server gets every second's cells and each slow order whole.

mod book;
mod engine;
mod exported;
mod report;

use engine::Fault;
use std::process::ExitCode;
use std::time::Duration;

/// Long enough for ten faults of each kind.
const SECONDS: u64 = 3;

const USAGE: &str = "usage: matching-engine [none|journal|logic|clock|pause|all] [SECONDS, 1 to 3600] [--export URL]";

/// What was asked for.
struct Arguments {
    faults: Vec<Fault>,
    time: Duration,
    server: Option<String>,
}

impl Arguments {
    fn read(mut arguments: Vec<String>) -> Option<Self> {
        let mut server = None;
        if let Some(at) = arguments.iter().position(|argument| argument == "--export") {
            arguments.remove(at);
            server = (at < arguments.len()).then(|| arguments.remove(at));
            server.as_ref()?;
        }
        let wanted = arguments.first().map_or("all", String::as_str);
        let faults: Vec<_> = Fault::ALL.into_iter().filter(|fault| wanted == "all" || wanted == fault.name()).collect();
        let seconds = arguments.get(1).map_or(Some(SECONDS), |text| text.parse().ok())?;
        let is_right = (1..=3_600).contains(&seconds) && !faults.is_empty() && arguments.len() <= 2;
        is_right.then_some(Self { faults, time: Duration::from_secs(seconds), server })
    }
}

fn main() -> ExitCode {
    let Some(arguments) = Arguments::read(std::env::args().skip(1).collect()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    for fault in arguments.faults {
        println!("== fault: {} ==", fault.name());
        let Some(server) = &arguments.server else {
            print!("{}", report::text(&engine::run(fault, arguments.time)));
            continue;
        };
        match exported::run(server, fault, arguments.time) {
            Ok(text) => print!("{text}"),
            Err(error) => {
                eprintln!("matching-engine: {error}");
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::SUCCESS
}
