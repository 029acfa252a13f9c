//! `ogive filter`: what comes with Ogive, and tests of what people write.

use std::process::ExitCode;

use ogive_filter::{NAMES, Stage};

use super::exit::EXIT_FINDING;
use crate::filtering;

/// Tests, lists and prints filters for log lines (docs/filters.md).
#[derive(clap::Subcommand, Debug)]
pub(crate) enum FilterCommand {
    /// Runs the [[case]] tables of files against their [[filter]] tables. Exit code 1 when one fails.
    Test {
        /// Filter files, or names of built-in filters.
        #[arg(required = true)]
        files: Vec<String>,
    },
    /// Lists the built-in filters.
    List,
    /// Prints a built-in filter, as a starting point for your own.
    Show {
        /// Name of the filter.
        #[arg(value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
        name: String,
    },
}

/// Runs the command.
pub(crate) fn run(command: &FilterCommand) -> anyhow::Result<ExitCode> {
    match command {
        FilterCommand::List => NAMES.iter().for_each(|name| println!("{name}")),
        FilterCommand::Show { name } => print!("{}", ogive_filter::text(name).unwrap_or_default()),
        FilterCommand::Test { files } => {
            let mut failed = false;
            for file in files {
                failed |= !test(file)?;
            }
            return Ok(if failed { ExitCode::from(EXIT_FINDING) } else { ExitCode::SUCCESS });
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the cases of a file; true when all pass.
fn test(name: &str) -> anyhow::Result<bool> {
    let file = filtering::file(name)?;
    let stage = Stage::new(file.filters).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
    let mut failed = 0;
    for (line, case) in &file.cases {
        let failures = case.run(&stage).map_err(|error| anyhow::anyhow!("{name}, line {line}: {error}"))?;
        failed += usize::from(!failures.is_empty());
        for failure in failures {
            println!(
                "{name}, line {line}: {}\n  expected {}\n  found    {}",
                failure.what, failure.expected, failure.found
            );
        }
    }
    let count = file.cases.len();
    match failed {
        0 => println!("{name}: {count} cases, all as expected"),
        _ => println!("{name}: {count} cases, {failed} not as expected"),
    }
    Ok(failed == 0)
}
