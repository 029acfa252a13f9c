//! Targets: an address of a group, with everything that the relabeling rules make of it.
//!
//! Invariants: a target is identified by its labels and its address; labels that begin with two underscores are gone
//! when it is made.
//! Limits: [`TARGETS_MAX`].

use std::time::Duration;

use hyper::Uri;

use super::config::{Group, Job};
use super::relabel::{self, LabelSet};
use super::series::number_of;
use ogive_text::duration;

/// 100,000 targets of a job: each has a task, a connection and a recorder.
pub(super) const TARGETS_MAX: usize = 100_000;

const ADDRESS: &str = "__address__";
const SCHEME: &str = "__scheme__";
const PATH: &str = "__metrics_path__";
const INTERVAL: &str = "__scrape_interval__";
const TIMEOUT: &str = "__scrape_timeout__";
const PARAMETER: &str = "__param_";

/// A scrape target.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Of its samples, by name.
    pub labels: Vec<(String, String)>,
    /// Before the rules, by name.
    pub discovered: Vec<(String, String)>,
    /// Where it is scraped.
    pub url: Uri,
    /// How often.
    pub interval: Duration,
    /// How long a response may take.
    pub timeout: Duration,
}

/// The result of relabeling an address.
#[derive(Debug, PartialEq)]
pub(crate) enum TargetOutcome {
    Active(Box<Target>),
    /// A rule dropped it: its labels before.
    Dropped(Vec<(String, String)>),
}

impl Target {
    /// Distinguishes targets.
    pub fn number(&self) -> u64 {
        number_of(&(&self.labels, self.url.to_string()))
    }

    /// The value of one of its labels.
    pub fn label(&self, name: &str) -> &str {
        self.labels.iter().find(|(label, _)| label == name).map_or("", |(_, value)| value)
    }
}

/// A host, also one that is an address of IPv6, and a port as an address.
pub(crate) fn host_and_port(host: &str, port: i64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The target at `address` of `group`.
pub(crate) fn make(job: &Job, group: &Group, address: &str) -> Result<TargetOutcome, String> {
    let mut labels = LabelSet::default();
    for (name, value) in &group.labels {
        labels.set(name, &value.0);
    }
    labels.set(ADDRESS, address);
    let own = [
        ("job", job.name.as_str()),
        (INTERVAL, &duration::write(job.interval)),
        (TIMEOUT, &duration::write(job.timeout)),
        (PATH, &job.metrics_path),
        (SCHEME, &job.scheme),
    ];
    for (name, value) in own {
        if labels.get(name).is_empty() {
            labels.set(name, value);
        }
    }
    for (name, value) in &job.labels {
        if labels.get(name).is_empty() {
            labels.set(name, value);
        }
    }
    for (name, values) in &job.params {
        if let Some(first) = values.first() {
            labels.set(&format!("{PARAMETER}{name}"), first);
        }
    }
    let owned = |labels: &LabelSet| -> Vec<(String, String)> {
        labels.sorted().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let discovered = owned(&labels);
    if !relabel::apply(&job.relabel, &mut labels) {
        return Ok(TargetOutcome::Dropped(discovered));
    }
    let time = |name: &str| {
        let text = labels.get(name);
        let time = duration::parse(text).filter(|time| !time.is_zero());
        time.ok_or_else(|| format!("{address}: {name} {text:?} is no duration"))
    };
    let (interval, timeout) = (time(INTERVAL)?, time(TIMEOUT)?);
    if timeout > interval {
        return Err(format!("{address}: {TIMEOUT} is longer than {INTERVAL}"));
    }
    let url = url(job, &labels)?;
    if labels.get("instance").is_empty() {
        let address = labels.get(ADDRESS).to_owned();
        labels.set("instance", &address);
    }
    labels.retain(|name| !name.starts_with("__"));
    Ok(TargetOutcome::Active(Box::new(Target { labels: owned(&labels), discovered, url, interval, timeout })))
}

fn url(job: &Job, labels: &LabelSet) -> Result<Uri, String> {
    let (scheme, address, path) = (labels.get(SCHEME), labels.get(ADDRESS), labels.get(PATH));
    if address.is_empty() || address.contains(['/', '?', '#', '@']) {
        return Err(format!("{address:?} is no address; write HOST:PORT"));
    }
    if !matches!(scheme, "http" | "https") {
        return Err(format!("{address}: {SCHEME} {scheme:?} is neither http nor https"));
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut url = format!("{scheme}://{address}{slash}{path}");
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, values) in &job.params {
        let first = labels.get(&format!("{PARAMETER}{name}"));
        let values = values.iter().enumerate().map(|(at, value)| if at == 0 { first } else { value });
        values.for_each(|value| {
            query.append_pair(name, value);
        });
    }
    let more = labels.sorted().into_iter().filter_map(|(name, value)| Some((name.strip_prefix(PARAMETER)?, value)));
    for (name, value) in more.filter(|(name, _)| !job.params.contains_key(*name)) {
        query.append_pair(name, value);
    }
    let query = query.finish();
    if !query.is_empty() {
        url.push(if path.contains('?') { '&' } else { '?' });
        url.push_str(&query);
    }
    url.parse().map_err(|error| format!("{url}: {error}"))
}
