//! What is to be scraped: `global` and `scrape_configs` of a file as users of Prometheus have it.
//!
//! Invariants: a file is taken whole or not at all. A key that is not known is an error with its line; sections of a Prometheus
//! that Ogive has no use for are warnings, so that a user's file works as it is.
//! Limits: [`FILE_BYTES_MAX`], [`JOBS_MAX`].
//! Failure: `FILE:LINE:COLUMN: sentence`.

mod effective;
mod raw;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ogive_model::Tenant;
use ogive_text::near::nearest;
use serde::de::DeserializeOwned;
use serde_saphyr::{Error as YamlError, Options};

use super::relabel::Rule;
pub(crate) use effective::yaml as effective_yaml;
use ogive_door::reload::Marks;
use ogive_outgoing::{Files, Secret};
pub(crate) use raw::{Group, Text};

/// 16 MiB: thousands of jobs.
pub(crate) const FILE_BYTES_MAX: usize = 16 << 20;
/// 10,000 jobs; each has a task and a client of its own.
const JOBS_MAX: usize = 10_000;
/// 256 MiB of an answer, unpacked, where no `body_size_limit` says otherwise: five times the largest that are known.
const BODY_BYTES_MAX: u64 = 256 << 20;
/// What a `job_name` is when nothing else is said, as in Prometheus.
const INTERVAL: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(10);

/// All jobs, and what of the files was left out.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) jobs: Vec<Job>,
    pub(crate) warnings: Vec<String>,
    /// The files that they stand in.
    pub(crate) marks: Marks,
}

/// What one `scrape_configs` entry says, with everything that holds for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    pub(crate) name: String,
    /// Whose series its targets bring.
    pub(crate) tenant: Tenant,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    pub(crate) protocols: Vec<Protocol>,
    /// What an answer without a content type is taken for.
    pub(crate) fallback: Option<Protocol>,
    /// Take native histograms.
    pub(crate) natives: bool,
    /// Take the classic form of a histogram that is there as a native one too.
    pub(crate) classics: bool,
    pub(crate) metrics_path: String,
    pub(crate) scheme: String,
    pub(crate) params: BTreeMap<String, Vec<String>>,
    pub(crate) honor_labels: bool,
    pub(crate) honor_timestamps: bool,
    pub(crate) track_timestamps: bool,
    pub(crate) compression: bool,
    pub(crate) limits: Limits,
    pub(crate) relabel: Vec<Rule>,
    pub(crate) metric_relabel: Vec<Rule>,
    pub(crate) groups: Vec<Group>,
    /// Patterns of files with groups.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) http: Vec<HttpSource>,
    pub(crate) access: Access,
}

/// What a scrape may bring; 0 for no limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Limits {
    pub(crate) body_bytes: u64,
    pub(crate) samples: u64,
    pub(crate) targets: u64,
    pub(crate) labels: u64,
    pub(crate) label_name_bytes: u64,
    pub(crate) label_value_bytes: u64,
    pub(crate) bins: u64,
}

/// An address that answers groups as JSON.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HttpSource {
    pub(crate) url: String,
    pub(crate) refresh: Duration,
    pub(crate) access: Access,
}

/// How to get in.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Access {
    pub(crate) login: Login,
    pub(crate) tls: Tls,
    pub(crate) redirects: bool,
    pub(crate) headers: Vec<(String, Secret)>,
}

/// Who we are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Login {
    #[default]
    None,
    Basic {
        user: Secret,
        password: Secret,
    },
    /// A type such as `Bearer`, and its credentials.
    Authorization(String, Secret),
}

/// Whom we believe, and what we show.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tls {
    pub(crate) authorities: Option<Pem>,
    pub(crate) certificate: Option<(Pem, Pem)>,
    pub(crate) server_name: Option<String>,
    pub(crate) insecure: bool,
    /// Only TLS 1.3, or only 1.2.
    pub(crate) only: Option<u8>,
}

/// PEM text, or a file of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pem {
    Here(String),
    In(PathBuf),
}

/// The forms that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Protobuf,
    OpenMetrics0,
    OpenMetrics1,
    OpenMetrics2,
    Text0,
    Text1,
}

impl Protocol {
    /// Every one by its name in `scrape_protocols`.
    const ALL: [(&'static str, Self); 6] = [
        ("PrometheusProto", Self::Protobuf),
        ("OpenMetricsText0.0.1", Self::OpenMetrics0),
        ("OpenMetricsText1.0.0", Self::OpenMetrics1),
        ("OpenMetricsText2.0.0", Self::OpenMetrics2),
        ("PrometheusText0.0.4", Self::Text0),
        ("PrometheusText1.0.0", Self::Text1),
    ];

    fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, protocol)| *protocol);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(known, _)| *known).collect();
            format!("{name:?} is no scrape protocol; there are {}", names.join(", "))
        })
    }

    /// As an entry of the `Accept` header.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => {
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
            }
            Self::OpenMetrics0 => "application/openmetrics-text;version=0.0.1",
            Self::OpenMetrics1 => "application/openmetrics-text;version=1.0.0",
            Self::OpenMetrics2 => "application/openmetrics-text;version=2.0.0",
            Self::Text0 => "text/plain;version=0.0.4",
            Self::Text1 => "text/plain;version=1.0.0",
        }
    }
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

fn load_file(path: &Path, files: Files) -> Result<Config, String> {
    let bytes = read(path, files)?;
    let file: raw::File = yaml(path, &bytes)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let (mut jobs, mut marks, is_empty_list) =
        (Vec::new(), Marks::default(), file.scrape_configs.as_ref().is_some_and(Vec::is_empty));
    let warnings = left_out(path, &file);
    marks.note(path, &bytes);
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

/// Sections that other parts of a Prometheus would read.
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

/// The error with its place, and for a key that is not known the one that was meant.
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
            "{field} cannot be discovered here; static_configs, file_sd_configs and http_sd_configs can (let the discovery write \
             a file for file_sd_configs)"
        );
    }
    match nearest(expected.iter().copied(), field) {
        Some(meant) => format!("unknown key {field}; did you mean {meant}?"),
        None => format!("unknown key {field}; known here are {}", expected.join(", ")),
    }
}

#[cfg(test)]
mod tests;
