//! What is to be scraped: `global` and `scrape_configs` of a file as users of Prometheus have it.
//!
//! Invariants: a file is taken whole or not at all. A key that is not known is an error with its line; sections of a
//! Prometheus that Ogive has no use for are warnings, so that a user's file works as it is.
//! Limits: [`FILE_BYTES_MAX`], [`JOBS_MAX`].
//! Failure: `FILE:LINE:COLUMN: sentence`.

mod access;
mod effective;
mod job;
mod raw;
mod rules;
mod sources;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ogive_text::near::nearest;
use serde::de::DeserializeOwned;
use serde_saphyr::{Error as YamlError, Options};

pub(crate) use effective::yaml as effective_yaml;
pub(crate) use job::{Access, ConsulSource, DnsSource, HttpSource, Job, Login, Pem, Protocol, RecordKind, Tls};
use ogive_door::reload::Marks;
use ogive_outgoing::{Files, Secret};
pub(crate) use raw::{Group, Text};

/// 16 MiB: thousands of jobs.
pub(crate) const FILE_BYTES_MAX: usize = 16 << 20;
/// 10,000 jobs; each has a task and a client of its own.
const JOBS_MAX: usize = 10_000;

/// All jobs, and the parts of the files that were left out.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) jobs: Vec<Job>,
    pub(crate) warnings: Vec<String>,
    /// The files that contain them.
    pub(crate) marks: Marks,
}

/// Reads the files at `paths`, which together have each job once.
pub(crate) fn load(paths: &[PathBuf], files: Files) -> Result<Config, String> {
    let mut out = Config::default();
    for path in paths {
        let found = load_file(path, files)?;
        out.warnings.extend(found.warnings);
        out.jobs.extend(found.jobs);
        out.marks.extend(found.marks);
    }
    let mut names = BTreeSet::new();
    if let Some(job) = out.jobs.iter().find(|job| !names.insert(&job.name)) {
        return Err(format!("the job {:?} is there twice; give each its own job_name", job.name));
    }
    if out.jobs.len() > JOBS_MAX {
        return Err(format!("there are {} jobs, above the limit of {JOBS_MAX}", out.jobs.len()));
    }
    Ok(out)
}

/// Reads the text of a file that is not on this machine; `path` is its name in messages.
pub(crate) fn parse(path: &Path, text: &str, files: Files) -> Result<Config, String> {
    let config = parse_bytes(path, text.as_bytes(), files)?;
    let mut names = BTreeSet::new();
    match config.jobs.iter().find(|job| !names.insert(&job.name)) {
        Some(job) => Err(format!("the job {:?} is there twice; give each its own job_name", job.name)),
        None => Ok(config),
    }
}

/// Whether the text of a file names files of this machine.
pub(crate) fn names_files(path: &Path, text: &str) -> Result<bool, String> {
    fn is_in(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::Object(all) => all.iter().any(|(key, value)| {
                key.ends_with("_file") || key.ends_with("_files") || key == "files" || is_in(value)
            }),
            serde_json::Value::Array(all) => all.iter().any(is_in),
            _ => false,
        }
    }
    yaml::<serde_json::Value>(path, text.as_bytes()).map(|value| is_in(&value))
}

fn load_file(path: &Path, files: Files) -> Result<Config, String> {
    parse_bytes(path, &read(path, files)?, files)
}

fn parse_bytes(path: &Path, bytes: &[u8], files: Files) -> Result<Config, String> {
    let file: raw::File = yaml(path, bytes)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let (mut jobs, mut marks, is_empty_list) =
        (Vec::new(), Marks::default(), file.scrape_configs.as_ref().is_some_and(Vec::is_empty));
    let warnings = left_out(path, &file);
    marks.note(path, bytes);
    let mut resolve = |scrape: raw::Scrape, path: &Path| {
        let name = scrape.job_name.0.clone();
        let job = rules::job(scrape, &file.global, directory);
        let job = job.map_err(|sentence| format!("{}: job {name:?}: {sentence}", path.display()))?;
        jobs.push(job);
        Ok::<_, String>(())
    };
    for scrape in file.scrape_configs.unwrap_or_default() {
        resolve(scrape, path)?;
    }
    for pattern in &file.scrape_config_files {
        let pattern = directory.join(pattern);
        let found = (files.list)(&pattern).map_err(|error| format!("{}: {error}", pattern.display()))?;
        for path in found {
            let bytes = read(&path, files)?;
            let more: rules::MoreJobs = yaml(&path, &bytes)?;
            marks.note(&path, &bytes);
            for scrape in more.scrape_configs {
                resolve(scrape, &path)?;
            }
        }
    }
    marks.count(jobs.len(), is_empty_list);
    Ok(Config { jobs, warnings, marks })
}

fn read(path: &Path, files: Files) -> Result<Vec<u8>, String> {
    let bytes = (files.read)(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(format!(
            "{}: the file has {} bytes, above the limit of {FILE_BYTES_MAX}",
            path.display(),
            bytes.len()
        ));
    }
    Ok(bytes)
}

/// Sections that only other parts of Prometheus would use.
fn left_out(path: &Path, file: &raw::File) -> Vec<String> {
    let sections = [
        ("rule_files", file.rule_files.is_some()),
        ("alerting", file.alerting.is_some()),
        ("remote_write", file.remote_write.is_some()),
        ("remote_read", file.remote_read.is_some()),
        ("storage", file.storage.is_some()),
        ("tracing", file.tracing.is_some()),
        ("otlp", file.otlp.is_some()),
        ("runtime", file.runtime.is_some()),
        ("global.external_labels", file.global.external_labels.is_some()),
        ("global.query_log_file", file.global.query_log_file.is_some()),
    ];
    let unused: Vec<&str> = sections.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
    if unused.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "{}: {} {} not used here; only what scraping needs is",
        path.display(),
        unused.join(", "),
        match unused.len() {
            1 => "is",
            _ => "are",
        }
    )]
}

/// Reads YAML (and so JSON).
pub(crate) fn yaml<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| format!("{}: the file is not UTF-8", path.display()))?;
    let mut options = Options::default();
    options.with_snippet = false;
    serde_saphyr::from_str_with_options(text, options).map_err(|error| explained(path, &error))
}

/// The error with its position, and for an unknown key the probable one.
fn explained(path: &Path, error: &YamlError) -> String {
    let error = error.without_snippet();
    let place = error.location().map_or_else(String::new, |at| format!(":{}:{}", at.line(), at.column()));
    let sentence = match error {
        YamlError::SerdeUnknownField { field, expected, .. } => unknown(field, expected),
        YamlError::SerdeMissingField { field, .. } => format!("the key {field} is missing"),
        YamlError::Message { msg, .. } => msg.clone(),
        other => {
            let text = other.to_string();
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    };
    format!("{}{place}: {sentence}", path.display())
}

fn unknown(field: &str, expected: &[&'static str]) -> String {
    if field.ends_with("_sd_configs") && expected.contains(&"static_configs") {
        return format!(
            "{field} cannot be discovered here; static_configs, file_sd_configs, http_sd_configs, dns_sd_configs and \
             consul_sd_configs can (let the discovery write a file for file_sd_configs)"
        );
    }
    match nearest(expected.iter().copied(), field) {
        Some(meant) => format!("unknown key {field}; did you mean {meant}?"),
        None => format!("unknown key {field}; known here are {}", expected.join(", ")),
    }
}

#[cfg(test)]
mod tests;
