//! How good are the detectors? Figures of seeded series, one line each, with the bar beside it.
//!
//! `cargo bench -p ogive-detect -- [delays|gaps|cost|nab|nulls] [--seed N] [--hours N] [--runs N]`
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "figures"
)]

mod cost;
mod generator;
mod nab;
mod report;
mod rhythm;
mod shape;

struct Arguments {
    names: Vec<String>,
    seed: u64,
    hours: u64,
    runs: u64,
}

fn arguments() -> Arguments {
    let mut found = Arguments { names: Vec::new(), seed: 20_261_123, hours: 1_000, runs: 100 };
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let mut number =
            || words.next().and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{word} takes a number"));
        match word.as_str() {
            "--seed" => found.seed = number(),
            "--hours" => found.hours = number(),
            "--runs" => found.runs = number(),
            _ => found.names.push(word),
        }
    }
    found
}

fn main() {
    let Arguments { names, seed, hours, runs } = arguments();
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    println!("seed {seed}");
    if is_wanted("delays") {
        shape::delays(seed, runs);
    }
    if is_wanted("gaps") {
        rhythm::cycles(seed, runs);
        rhythm::nulls(seed, hours);
    }
    if is_wanted("cost") {
        cost::cells(seed, 1_000);
        cost::broker();
    }
    if is_wanted("nab") {
        nab::score();
    }
    if is_wanted("nulls") {
        shape::nulls(seed, hours);
    }
}
