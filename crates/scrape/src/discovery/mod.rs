//! Where targets come from: the configuration itself, files, addresses that answer groups as JSON, DNS and Consul.
//!
//! Invariants: a source that cannot be read leaves what it said last in force, and is reported once; so does one that
//! another version of the job has, too.
//! Threads: files are read on a blocking one; the others are queried by tasks of their own, which end with the job.
//! Limits: those of `listing` and of each kind. The first round waits [`ANSWER`] for those that are queried.

mod answers;
mod catalog;
mod consul;
mod dns;
mod http;
mod listing;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::config::{Access, ConsulSource, DnsSource, Group, HttpSource, Job};
use answers::{ANSWER, Watcher};
pub(super) use listing::groups;
use ogive_door::reload::Marks;
use ogive_outgoing::Files;

/// The sources of a job.
pub(super) struct Discovery {
    job: Arc<Job>,
    files: Files,
    /// The last contents of each file, and the bytes from which they were parsed.
    of_files: BTreeMap<PathBuf, (Vec<u8>, Vec<Group>)>,
    /// Sources that tasks query in the background.
    watchers: Vec<(Origin, Watcher)>,
    is_begun: bool,
    /// The last reported problem of each source.
    reported: BTreeMap<String, String>,
}

/// What a watcher watches.
#[derive(PartialEq)]
enum Origin {
    Http(Box<HttpSource>),
    Dns(DnsSource),
    Consul(Box<ConsulSource>),
}

impl Discovery {
    /// With what `before`, that of another version of the job, knows from the sources that both have.
    pub(super) fn new(job: Arc<Job>, files: Files, before: Option<Self>) -> Result<Self, String> {
        let known = before.map(|before| (before.of_files, before.watchers, before.reported));
        let (of_files, mut known_watchers, reported) = known.unwrap_or_default();
        let tls = |access: &Access| super::tls::config(&access.tls, files);
        let watch = |origin: Origin| {
            if let Some(at) = known_watchers.iter().position(|(other, _)| *other == origin) {
                return Ok(known_watchers.swap_remove(at));
            }
            let watcher = match &origin {
                Origin::Http(source) => http::watch(source, &job.name, files, tls(&source.access)?),
                Origin::Dns(source) => dns::watch(source, &job.name, files),
                Origin::Consul(source) => consul::watch(source, &job.name, files, tls(&source.access)?),
            };
            Ok((origin, watcher))
        };
        let http = job.http.iter().cloned().map(Box::new).map(Origin::Http);
        let dns = job.dns.iter().cloned().map(Origin::Dns);
        let consul = job.consul.iter().cloned().map(Box::new).map(Origin::Consul);
        let origins = http.chain(dns).chain(consul);
        let watchers = origins.map(watch).collect::<Result<_, String>>()?;
        Ok(Self { job, files, of_files, watchers, is_begun: false, reported })
    }

    /// Whether the targets may change.
    pub(super) fn is_fixed(&self) -> bool {
        self.job.files.is_empty() && self.watchers.is_empty()
    }

    /// The current groups.
    pub(super) async fn groups(&mut self) -> Vec<Group> {
        let mut out = self.job.groups.clone();
        if !self.job.files.is_empty() {
            self.look_at_files().await;
            out.extend(self.of_files.values().flat_map(|(_, groups)| groups.iter().cloned()));
        }
        self.wait_for_watchers().await;
        out.extend(self.watchers.iter().flat_map(|(_, watcher)| watcher.groups()));
        out
    }

    /// In the first round: without it, a reload would end the series of targets that are found a moment later.
    async fn wait_for_watchers(&mut self) {
        if self.is_begun {
            return;
        }
        let all = async {
            for (_, watcher) in &mut self.watchers {
                watcher.begun().await;
            }
        };
        // What does not answer in time is missing until it does.
        let _ = tokio::time::timeout(ANSWER, all).await;
        self.is_begun = true;
    }

    async fn look_at_files(&mut self) {
        let (files, patterns) = (self.files, self.job.files.clone());
        let Ok((found, failed)) = tokio::task::spawn_blocking(move || look(files, &patterns)).await else { return };
        for (pattern, error) in failed {
            self.tell(&pattern, Some(error));
        }
        self.of_files.retain(|path, _| found.contains_key(path));
        for (path, bytes) in found {
            let key = path.display().to_string();
            let bytes = match bytes {
                Ok(bytes) => bytes,
                Err(error) => {
                    self.tell(&key, Some(error.to_string()));
                    continue;
                }
            };
            if self.of_files.get(&path).is_some_and(|(before, _)| *before == bytes) {
                continue;
            }
            let read = match self.of_files.get(&path) {
                Some((before, _)) if is_cut(before, &bytes) => Err("it looks as if it was cut off".to_owned()),
                _ => groups(&path, &bytes, "__meta_filepath"),
            };
            self.tell(&key, read.as_ref().err().cloned());
            match (read, self.of_files.get_mut(&path)) {
                (Ok(groups), _) => drop(self.of_files.insert(path, (bytes, groups))),
                (Err(_), Some(_)) => {}
                (Err(_), None) => drop(self.of_files.insert(path, (bytes, Vec::new()))),
            }
        }
    }

    fn tell(&mut self, source: &str, error: Option<String>) {
        match error {
            Some(error) if self.reported.get(source) != Some(&error) => {
                answers::report(&self.job.name, source, &error);
                self.reported.insert(source.to_owned(), error);
            }
            Some(_) => {}
            None => drop(self.reported.remove(source)),
        }
    }
}

/// Whether a file became empty, or ends in the middle of a line although it did not before.
fn is_cut(before: &[u8], after: &[u8]) -> bool {
    let mut marks = [Marks::default(), Marks::default()];
    marks.iter_mut().zip([before, after]).for_each(|(marks, bytes)| marks.note(Path::new(""), bytes));
    // JSON needs no last newline, and is no JSON when it was cut.
    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(after).is_ok();
    !is_json && marks[0].lost_in(&marks[1]).is_some()
}

/// The contents of files, or why they cannot be read.
type Contents = BTreeMap<PathBuf, io::Result<Vec<u8>>>;

/// The files that match `patterns` with their contents, and the patterns that cannot be evaluated.
fn look(files: Files, patterns: &[PathBuf]) -> (Contents, Vec<(String, String)>) {
    let (mut found, mut failed) = (BTreeSet::new(), Vec::new());
    for pattern in patterns {
        match (files.list)(pattern) {
            Ok(paths) => found.extend(paths),
            Err(error) => failed.push((pattern.display().to_string(), error.to_string())),
        }
    }
    let read = |path: PathBuf| {
        let bytes = (files.read)(&path);
        (path, bytes)
    };
    (found.into_iter().map(read).collect(), failed)
}

/// Reads bytes as an answer of a DNS server.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use dns::replay as replay_dns;

/// Reads bytes as an answer of Consul.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use catalog::replay as replay_consul;

#[cfg(test)]
pub(crate) use dns::example as example_of_dns;

#[cfg(test)]
pub(crate) use catalog::EXAMPLE as EXAMPLE_OF_CONSUL;
