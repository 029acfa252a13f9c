//! `ogive config check`: whether the server would start with a file, and in which line not.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory;

use super::{Cli, EXIT_FINDING, config_file, read_file};
use crate::web::Web;

/// The server's configuration.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Config {
    /// Looks at a file of `ogive serve -c` (TOML) and the web configuration that it names, or at one of --web-config
    /// (YAML); exit code 1 when something is wrong.
    Check {
        /// The file; YAML when its name ends in .yml or .yaml.
        file: PathBuf,
        /// One JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Config) -> anyhow::Result<ExitCode> {
    let Config::Check { file, json } = command;
    let mistakes = mistakes(file);
    if *json {
        let file = file.display().to_string();
        println!("{}", serde_json::json!({"file": file, "ok": mistakes.is_empty(), "mistakes": mistakes}));
    } else if mistakes.is_empty() {
        println!("{}: fine", file.display());
    } else {
        mistakes.iter().for_each(|mistake| eprintln!("ogive: {mistake}"));
    }
    Ok(if mistakes.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FINDING) })
}

fn mistakes(file: &Path) -> Vec<String> {
    let web = |path: &Path| Web::check(path, read_file).err().map(|error| format!("{error:#}"));
    if file.extension().is_some_and(|ending| ending == "yml" || ending == "yaml") {
        return web(file).into_iter().collect();
    }
    let command = Cli::command();
    let serve = command.find_subcommand("serve").expect("it is a command");
    match config_file::read(file, serve) {
        Err(mistakes) => mistakes.lines().map(str::to_owned).collect(),
        Ok(entries) => {
            let named = entries.iter().filter(|entry| entry.name == "web-config");
            named.flat_map(|entry| &entry.values).filter_map(|path| web(Path::new(path))).collect()
        }
    }
}
