//! Scraping: fetches Prometheus and OpenMetrics endpoints at intervals and stores their samples unchanged.
//!
//! `ogive serve --scrape-config FILE` reads `global` and `scrape_configs` in Prometheus's format. Each job is a pool
//! with a task that discovers its targets, each target a task that scrapes it. A job's series go to its tenant.
//! Invariants: a configuration is accepted as a whole or not at all; a job that a reload does not change continues
//! undisturbed.
//! Threads: only tasks of the server's runtime.
//! Failure: a wrong configuration is reported and prevents the start; on reload it is reported the same way and the old
//! configuration stays.
//!
//! Belongs here: configurations of scraping, discovery, relabeling, the client and its TLS, the state of targets. Does
//! not belong here: the HTTP API that shows that state, and any way into a store but the door.
#![forbid(unsafe_code)]

mod client;
mod config;
mod context;
mod discovery;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
#[cfg(test)]
#[path = "../../protocol/src/mutations.rs"]
mod mutations;
mod pool;
mod relabel;
mod scrape;
mod series;
mod target;
mod tls;
mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, mpsc, watch};

use config::Config;
use context::Context;
use ogive_door::Door;
use ogive_door::audit::{Entry, note};
use ogive_door::reload::{ConfigKind, Marks, settled};
use ogive_outgoing::Files;
use pool::{Pool, Remains};
use scrape::Stop;
pub use target::Target;
pub use view::{Family, Last, Pairs, PoolView, Reload, TargetView, View};

/// 2 expositions are read at once: one a processor of a small machine.
const DECODING_MAX: usize = 2;
/// 16 requests for a reload wait.
const RELOADS_MAX: usize = 16;

/// What is to be scraped.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ScrapeOptions {
    /// File with scrape_configs in prometheus.yml's format. Repeatable. Reread on SIGHUP.
    #[arg(long = "scrape-config", value_name = "FILE", env = "OGIVE_SCRAPE_CONFIG")]
    pub files: Vec<PathBuf>,
}

/// A configuration that was read at the start.
pub struct Scraping {
    paths: Vec<PathBuf>,
    files: Files,
    config: Config,
    fed: Option<watch::Receiver<FedJobs>>,
}

/// Jobs that come from elsewhere while the broker runs.
#[derive(Clone, Default)]
pub struct FedJobs(Vec<config::Job>);

impl FedJobs {
    /// The jobs in the text of a file, whose name `path` stands in messages; their targets get `labels`.
    ///
    /// # Errors
    /// A sentence with the place of the mistake.
    pub fn parse(path: &Path, text: &str, labels: &[(String, String)], files: Files) -> Result<Self, String> {
        let mut config = config::parse(path, text, files)?;
        config.jobs.iter_mut().for_each(|job| job.labels = labels.to_vec());
        Ok(Self(config.jobs))
    }

    /// Reads the certificates that the jobs name.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn check_files(&self, files: Files) -> Result<(), String> {
        self.0.iter().try_for_each(|job| check_tls(job, files))
    }

    /// Whether the text of a file names files of this machine.
    ///
    /// # Errors
    /// It is no YAML.
    pub fn names_files(path: &Path, text: &str) -> Result<bool, String> {
        config::names_files(path, text)
    }
}

impl Scraping {
    /// Reads the files of `options`.
    pub fn open(options: &ScrapeOptions, files: Files) -> anyhow::Result<Self> {
        let config = read(&options.files, files).map_err(anyhow::Error::msg)?;
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        Ok(Self { paths: options.files.clone(), files, config, fed: None })
    }

    /// Also scrapes what is sent to the result, from when it runs.
    pub fn feed(&mut self) -> watch::Sender<FedJobs> {
        let (sender, receiver) = watch::channel(FedJobs::default());
        self.fed = Some(receiver);
        sender
    }

    /// Scrapes until the server stops, and then ends the series of every target. Called within the runtime: signals are
    /// handled from then on, not from when this is polled.
    pub fn run(self, door: Arc<Door>, view: Arc<View>) -> impl Future<Output = ()> {
        let requested = (!self.paths.is_empty() || self.fed.is_some()).then(|| {
            let (sender, reloads) = mpsc::channel(RELOADS_MAX);
            *view.reload.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
            (signal(SignalKind::hangup()), reloads)
        });
        async move {
            if let Some((Ok(hangup), reloads)) = requested {
                self.scrape(door, view, hangup, reloads).await;
            }
        }
    }

    async fn scrape(
        mut self,
        door: Arc<Door>,
        view: Arc<View>,
        mut hangup: Signal,
        mut reloads: mpsc::Receiver<Reload>,
    ) {
        let mut ending = door.ending.clone();
        let context = Arc::new(Context { door, view, files: self.files, decoding: Semaphore::new(DECODING_MAX) });
        let mut jobs = Jobs { context, pools: BTreeMap::new() };
        let mut own = std::mem::take(&mut self.config.jobs);
        let mut fed = self.fed.take();
        let more = fed.as_mut().map(|fed| fed.borrow_and_update().clone());
        let mut more = more.unwrap_or_default();
        jobs.become_of(all(&own, &more)).await;
        loop {
            let (next, requested) = tokio::select! {
                next = next_of(fed.as_mut()) => (Some(next), None),
                _ = hangup.recv() => (None, None),
                requested = reloads.recv() => (None, requested),
                // What it finds is a lock, which no wait may outlive.
                () = async { drop(ending.wait_for(|ending| *ending).await) } => break,
            };
            if let Some(next) = next {
                more = next;
                jobs.become_of(all(&own, &more)).await;
                continue;
            }
            let read = read_settled(self.paths.clone(), self.files, self.config.marks.clone()).await;
            let counters = &jobs.context.door.counters;
            counters.reloads.ended(ConfigKind::Scrape, read.is_ok());
            let by = if requested.is_some() { "POST /-/reload" } else { "signal HUP" };
            let done = match read {
                Ok((config, marks)) => {
                    self.config.marks = marks;
                    config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                    let before = jobs.by_name();
                    own = config.jobs;
                    jobs.become_of(all(&own, &more)).await;
                    let what = changes(&before, &jobs.by_name());
                    if let Some(path) = self.paths.first().filter(|_| !what.is_empty()) {
                        let owner = (self.files.owner)(path);
                        note(&jobs.context.door, Entry::config(path, &owner, "scrape", by, &what));
                    }
                    tracing::info!("{} scrape jobs are in force", jobs.pools.len());
                    Ok(())
                }
                Err(error) => {
                    tracing::warn!("{error}; the scrape configuration stays as it was");
                    if let Some(path) = self.paths.first() {
                        note(
                            &jobs.context.door,
                            Entry::config(path, &(self.files.owner)(path), "scrape_refused", by, &error),
                        );
                    }
                    Err(error)
                }
            };
            if let Some(requested) = requested {
                let _ = requested.send(done);
            }
        }
        jobs.end().await;
    }
}

/// The jobs of the files, and of the others those whose names no file has.
fn all(own: &[config::Job], more: &FedJobs) -> Vec<config::Job> {
    let is_own = |job: &&config::Job| own.iter().any(|known| known.name == job.name);
    for job in more.0.iter().filter(is_own) {
        tracing::warn!(
            "the job {:?} is in a file of this machine, which is scraped, and not the one of the group",
            job.name
        );
    }
    own.iter().chain(more.0.iter().filter(|job| !is_own(job))).cloned().collect()
}

/// What is fed next; forever nothing without a feed.
async fn next_of(fed: Option<&mut watch::Receiver<FedJobs>>) -> FedJobs {
    if let Some(fed) = fed
        && fed.changed().await.is_ok()
    {
        return fed.borrow_and_update().clone();
    }
    std::future::pending().await
}

/// Reads the files, including the CA certificates and keys of their jobs.
fn read(paths: &[PathBuf], files: Files) -> Result<Config, String> {
    let config = config::load(paths, files)?;
    config.jobs.iter().try_for_each(|job| check_tls(job, files))?;
    Ok(config)
}

/// As [`read`], once nothing is being written to the files; `before` are their marks when they were last read.
async fn read_settled(paths: Vec<PathBuf>, files: Files, before: Marks) -> Result<(Config, Marks), String> {
    let load = move || {
        let config = read(&paths, files)?;
        let marks = config.marks.clone();
        Ok((config, marks))
    };
    let reading = tokio::task::spawn_blocking(move || settled(&before, load)).await;
    reading.unwrap_or_else(|error| Err(error.to_string()))
}

fn check_tls(job: &config::Job, files: Files) -> Result<(), String> {
    let sources = job.http.iter().map(|source| &source.access).chain(job.consul.iter().map(|source| &source.access));
    let all = std::iter::once(&job.access).chain(sources);
    for access in all {
        tls::config(&access.tls, files).map_err(|sentence| format!("job {:?}: {sentence}", job.name))?;
    }
    Ok(())
}

/// Every job that is scraped.
struct Jobs {
    context: Arc<Context>,
    pools: BTreeMap<String, Pool>,
}

/// A line for each job that is new, removed or changed; what changed in it may be secret.
fn changes(before: &BTreeMap<String, Arc<config::Job>>, after: &BTreeMap<String, Arc<config::Job>>) -> String {
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let line = |name: &&String| match (before.get(*name), after.get(*name)) {
        (Some(before), Some(after)) if before == after => None,
        (None, _) => Some(format!("+ job {name}\n")),
        (_, None) => Some(format!("- job {name}\n")),
        _ => Some(format!("~ job {name}\n")),
    };
    names.iter().filter_map(line).collect()
}

impl Jobs {
    fn by_name(&self) -> BTreeMap<String, Arc<config::Job>> {
        self.pools.iter().map(|(name, pool)| (name.clone(), pool.job.clone())).collect()
    }

    async fn become_of(&mut self, jobs: Vec<config::Job>) {
        self.context.view.tell(&jobs);
        let wanted: BTreeMap<String, config::Job> = jobs.into_iter().map(|job| (job.name.clone(), job)).collect();
        let gone: Vec<String> = self.pools.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        for name in gone {
            if let Some(pool) = self.pools.remove(&name) {
                pool.stop(Stop::End).await;
                self.context.view.remove(&name);
            }
        }
        for (name, job) in wanted {
            let before = match self.pools.remove(&name) {
                Some(pool) if *pool.job == job => {
                    self.pools.insert(name, pool);
                    continue;
                }
                // Nothing is carried over to another tenant: the old series end, and new ones begin.
                Some(pool) if pool.job.tenant != job.tenant => {
                    pool.stop(Stop::End).await;
                    Remains::default()
                }
                Some(pool) => pool.stop(Stop::HandOver).await,
                None => Remains::default(),
            };
            match Pool::start(&self.context, Arc::new(job), before) {
                Ok(pool) => drop(self.pools.insert(name, pool)),
                Err(error) => tracing::error!("{error}; it is not scraped"),
            }
        }
    }

    async fn end(self) {
        let stopping: Vec<_> = self.pools.into_values().map(|pool| tokio::spawn(pool.stop(Stop::End))).collect();
        for stopped in stopping {
            let _ = stopped.await;
        }
    }
}
