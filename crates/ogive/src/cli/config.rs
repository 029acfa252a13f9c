//! `ogive config check`: whether the server would start with a file, and in which line not.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args as _;

use super::exit::EXIT_FINDING;
use super::files::FILES;
use super::web::read_file;
use super::{config_file, serve, wire};
use crate::broker;
use ogive_alerting::alerting;
use ogive_checks as checks;
use ogive_http::web::Web;

/// Checks configuration files.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Config {
    /// Checks a file of `ogive serve -c` or `ogive broker -c` (TOML) and the files it names, a file with
    /// [[check]] or [[amqp.input]] tables, a --web-config file (YAML), or a rule file (YAML that begins with
    /// groups). Exit code 1 when it finds a mistake.
    Check {
        /// The file; YAML when its name ends in .yml or .yaml.
        file: PathBuf,
        /// Print one JSON object instead of text.
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
    if file.extension().is_some_and(|ending| ending == "yml" || ending == "yaml") {
        return if is_rules(file) { alerting::check(file, FILES) } else { web(file).into_iter().collect() };
    }
    let text = match config_file::text(file) {
        Ok(text) => text,
        Err(error) => return vec![error],
    };
    if broker::config::is_broker(&text) {
        return match broker::config::read(file) {
            Ok(config) => {
                let listeners = config.listeners;
                let mut out: Vec<String> = listeners.web.web_config.iter().filter_map(|path| web(path)).collect();
                out.extend(listeners.wire.wire_operations.iter().filter_map(|path| wire::rules(path).err()));
                out.extend(listeners.filters.filters.iter().filter_map(|path| tables("filters", Path::new(path))));
                out.extend(own_filters(file, &text));
                out.extend(listeners.checks.checks.iter().filter_map(|path| tables("checks", path)));
                #[cfg(feature = "amqp")]
                out.extend(listeners.amqp.amqp.iter().filter_map(|path| tables("amqp", path)));
                out
            }
            Err(mistakes) => mistakes.lines().map(str::to_owned).collect(),
        };
    }
    if let Some(option) = option_of(&text) {
        return tables(option, file).into_iter().collect();
    }
    let serve = serve::Serve::augment_args(clap::Command::new("serve"));
    match config_file::read(file, &serve) {
        Err(mistakes) => mistakes.lines().map(str::to_owned).collect(),
        Ok(entries) => {
            let of = |entry: &config_file::Entry, path: &Path| match &*entry.name {
                "web-config" => web(path),
                "wire-operations" => wire::rules(path).err(),
                option => tables(option, path),
            };
            let rules = entries.iter().filter(|entry| &*entry.name == "rules").flat_map(|entry| &entry.values);
            let of_tenants = entries.iter().filter(|entry| &*entry.name == "tenant-rules");
            let of_tenants = of_tenants.flat_map(|entry| &entry.values).filter_map(|value| value.split_once('='));
            let rules = rules.map(|path| &**path).chain(of_tenants.map(|(_, path)| path));
            let mut out: Vec<String> = rules.flat_map(|path| alerting::check(Path::new(path), FILES)).collect();
            out.extend(
                entries.iter().flat_map(|entry| entry.values.iter().filter_map(|path| of(entry, Path::new(path)))),
            );
            out.extend(own_filters(file, &text));
            out
        }
    }
}

/// The mistakes in the [[filter]] tables of the file, if any.
fn own_filters(path: &Path, text: &str) -> Option<String> {
    ogive_filter::File::parse_among(text).err().map(|error| format!("{}, {error}", path.display()))
}

/// Whether a file in YAML has rules: its first key is `groups`.
fn is_rules(path: &Path) -> bool {
    let text = (FILES.read)(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut keys = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with(['#', ' ', '-', '%']));
    keys.next().is_some_and(|line| {
        line.starts_with("groups:") || line.starts_with("{\"groups\"") || line.starts_with("{groups")
    })
}

fn web(path: &Path) -> Option<String> {
    Web::check(path, read_file).err().map(|error| format!("{error:#}"))
}

/// The option of `ogive serve` whose file this is, by its first table.
fn option_of(text: &str) -> Option<&'static str> {
    let mut heads = text.lines().map(str::trim_start).filter(|line| line.starts_with('['));
    let head = heads.next()?.trim_start_matches('[').trim_start();
    let begins = |word: &str| head.strip_prefix(word).is_some_and(|rest| rest.trim_start().starts_with([']', '.']));
    ["check", "amqp", "forward", "filter"]
        .into_iter()
        .zip(["checks", "amqp", "forward", "filters"])
        .find(|(word, _)| begins(word))
        .map(|(_, option)| option)
}

/// The mistakes in the tables in the file of this option, if any.
fn tables(option: &str, path: &Path) -> Option<String> {
    let parsed = |parse: fn(&str) -> Result<(), String>| {
        let text = match config_file::text(path) {
            Ok(text) => text,
            Err(error) => return Some(error),
        };
        parse(&text).err().map(|error| format!("{}, {error}", path.display()))
    };
    match option {
        "checks" => parsed(|text| checks::Config::parse(text).map(drop)),
        // The name of a filter that comes with Ogive is not a file.
        "filters" if ogive_filter::text(&path.to_string_lossy()).is_some() => None,
        "filters" => parsed(|text| ogive_filter::File::parse(text).map(drop)),
        "forward" => parsed(|text| crate::forward::parse(text).map(drop)),
        #[cfg(feature = "amqp")]
        "amqp" => parsed(|text| ogive_amqp::Config::parse(text).map(drop)),
        #[cfg(not(feature = "amqp"))]
        "amqp" => Some(format!("{}: this ogive was built without AMQP; build it with --features amqp", path.display())),
        _ => None,
    }
}
