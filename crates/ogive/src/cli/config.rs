//! `ogive config check`: whether the server would start with a file, and in which line not.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{EXIT_FINDING, read_file};
use crate::web::Web;

/// The server's configuration.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Config {
    /// Looks at a file of `ogive serve --web-config` (YAML); exit code 1 when something is wrong.
    Check {
        /// The file.
        file: PathBuf,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Config) -> anyhow::Result<ExitCode> {
    let Config::Check { file } = command;
    match Web::check(file, read_file) {
        Ok(()) => {
            println!("{}: fine", file.display());
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            eprintln!("ogive: {error:#}");
            Ok(ExitCode::from(EXIT_FINDING))
        }
    }
}
