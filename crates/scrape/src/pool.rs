//! A job at work: its targets as they are discovered, and one task a target.
//!
//! Threads: tasks of the server's runtime. A pool's task looks at files each [`LOOK_AGAIN`].
//! Limits: [`TARGETS_MAX`], and the job's `target_limit`, above which every target fails.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::config::{Group, Job};
use super::context::Context;
use super::discovery::Discovery;
use super::scrape::{Scrape, Stop};
use super::series::Cache;
use super::target::{TARGETS_MAX, Target, TargetOutcome, make};
use super::view::{Pairs, PoolView, TargetView};

/// 2 s: a target that was added to a file is scraped before an operator checks.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// 10,000 dropped targets are shown.
const DROPPED_MAX: usize = 10_000;

/// The series caches of a job's targets, by the target's number.
type Caches = HashMap<u64, (Target, Cache)>;

/// What a job leaves to another version of it.
#[derive(Default)]
pub(super) struct Remains {
    caches: Caches,
    discovery: Option<Discovery>,
}

/// A job that is scraped.
pub(super) struct Pool {
    pub(super) job: Arc<Job>,
    stop: watch::Sender<Stop>,
    task: JoinHandle<Remains>,
}

impl Pool {
    /// Starts it with what its former version leaves.
    pub(super) fn start(context: &Arc<Context>, job: Arc<Job>, before: Remains) -> Result<Self, String> {
        let wrong = |error: String| format!("job {:?}: {error}", job.name);
        let discovery = Discovery::new(job.clone(), context.files, before.discovery).map_err(wrong)?;
        let tls = super::tls::config(&job.access.tls, context.files).map_err(wrong)?;
        let (stop, stopping) = watch::channel(Stop::Not);
        let view = Arc::new(PoolView::new(job.tenant.clone()));
        context.view.set(&job.name, view.clone());
        let work = Work {
            context: context.clone(),
            job: job.clone(),
            tls,
            view,
            discovery,
            running: BTreeMap::new(),
            before: before.caches,
            groups: None,
            reported: Vec::new(),
        };
        Ok(Self { job, stop, task: tokio::spawn(work.run(stopping)) })
    }

    /// Stops it; returns what another version of it takes over.
    pub(super) async fn stop(self, stop: Stop) -> Remains {
        let _ = self.stop.send(stop);
        self.task.await.unwrap_or_default()
    }
}

struct Running {
    view: Arc<TargetView>,
    stop: watch::Sender<Stop>,
    /// The reason to fail without a request.
    forced: watch::Sender<Option<String>>,
    task: JoinHandle<Cache>,
}

impl Running {
    fn stop(&self, stop: Stop) {
        self.stop.send_replace(stop);
    }
}

struct Work {
    context: Arc<Context>,
    job: Arc<Job>,
    tls: Arc<rustls::ClientConfig>,
    view: Arc<PoolView>,
    discovery: Discovery,
    running: BTreeMap<u64, Running>,
    before: Caches,
    /// The groups from which the targets were made.
    groups: Option<Vec<Group>>,
    /// The problems of some of them.
    reported: Vec<String>,
}

impl Work {
    async fn run(mut self, mut stopping: watch::Receiver<Stop>) -> Remains {
        loop {
            let groups = tokio::select! {
                groups = self.discovery.groups() => Some(groups),
                _ = stopping.changed() => None,
            };
            if let Some(groups) = groups
                && self.groups.as_ref() != Some(&groups)
            {
                self.become_of(groups).await;
            }
            let is_fixed = self.discovery.is_fixed();
            let again = async {
                match is_fixed {
                    true => std::future::pending().await,
                    false => tokio::time::sleep(LOOK_AGAIN).await,
                }
            };
            tokio::select! {
                () = again => {}
                _ = stopping.wait_for(|stop| *stop != Stop::Not) => break,
            }
        }
        let stop = *stopping.borrow();
        let mut out = Caches::new();
        let running = std::mem::take(&mut self.running);
        running.values().for_each(|running| running.stop(stop));
        for (number, running) in running {
            if let Ok(cache) = running.task.await {
                out.insert(number, (running.view.target.clone(), cache));
            }
        }
        // It was stopped before it knew which of these are still there.
        for (number, (target, cache)) in std::mem::take(&mut self.before) {
            if stop == Stop::End {
                Scrape::end(&self.context, &self.job, &target, cache).await;
            } else {
                out.insert(number, (target, cache));
            }
        }
        Remains { caches: out, discovery: Some(self.discovery) }
    }

    /// Scrapes exactly the targets of `groups`.
    async fn become_of(&mut self, groups: Vec<Group>) {
        let (mut wanted, mut dropped, mut reported) = (BTreeMap::new(), Vec::new(), Vec::new());
        for group in &groups {
            for address in &group.targets {
                match make(&self.job, group, &address.0) {
                    Ok(TargetOutcome::Active(target)) if wanted.len() < TARGETS_MAX => {
                        wanted.insert(target.number(), *target);
                    }
                    Ok(TargetOutcome::Active(_)) => reported.push(format!("there are more than {TARGETS_MAX} targets")),
                    Ok(TargetOutcome::Dropped(labels)) => dropped.push(labels),
                    Err(error) => reported.push(error),
                }
            }
        }
        reported.dedup();
        if reported != self.reported {
            reported.iter().take(10).for_each(|error| tracing::warn!("job {:?}: {error}", self.job.name));
            self.reported = reported;
        }
        self.groups = Some(groups);
        let gone: Vec<u64> = self.running.keys().filter(|number| !wanted.contains_key(number)).copied().collect();
        let gone: Vec<Running> = gone.iter().filter_map(|number| self.running.remove(number)).collect();
        gone.iter().for_each(|running| running.stop(Stop::End));
        for running in gone {
            let _ = running.task.await;
        }
        self.hand_over(&wanted).await;
        let limit = self.job.limits.targets;
        let forced = (limit > 0 && wanted.len() as u64 > limit)
            .then(|| format!("the job has {} targets, above target_limit {limit}", wanted.len()));
        for (number, target) in wanted {
            match self.running.get(&number) {
                Some(running) => {
                    running.forced.send_replace(forced.clone());
                }
                None => self.begin(number, target, forced.clone()),
            }
        }
        self.show(dropped);
        // Of the targets that were there before and are not now the series end.
        for (target, cache) in std::mem::take(&mut self.before).into_values() {
            Scrape::end(&self.context, &self.job, &target, cache).await;
        }
    }

    /// Stops the targets that are wanted with another interval, timeout or discovered labels; their series go on.
    async fn hand_over(&mut self, wanted: &BTreeMap<u64, Target>) {
        let is_other = |(number, running): &(&u64, &Running)| {
            wanted.get(number).is_some_and(|target| *target != running.view.target)
        };
        let others: Vec<u64> = self.running.iter().filter(is_other).map(|(number, _)| *number).collect();
        let others: Vec<_> =
            others.into_iter().filter_map(|number| Some((number, self.running.remove(&number)?))).collect();
        others.iter().for_each(|(_, running)| running.stop(Stop::HandOver));
        for (number, running) in others {
            if let Ok(cache) = running.task.await {
                self.before.insert(number, (running.view.target.clone(), cache));
            }
        }
    }

    fn begin(&mut self, number: u64, target: Target, forced: Option<String>) {
        let (stop, stopping) = watch::channel(Stop::Not);
        let (force, forced) = watch::channel(forced);
        let view = Arc::new(TargetView::new(target));
        let cache = self.before.remove(&number).map(|(_, mut cache)| {
            cache.renew();
            cache
        });
        let scrape =
            Scrape::new(self.context.clone(), self.job.clone(), self.tls.clone(), self.view.clone(), view.clone());
        let task = tokio::spawn(scrape.run(cache, stopping, forced));
        self.running.insert(number, Running { view, stop, forced: force, task });
    }

    fn show(&self, mut dropped: Vec<Pairs>) {
        dropped.truncate(DROPPED_MAX);
        self.view.set(self.running.values().map(|running| running.view.clone()).collect(), dropped);
    }
}
