//! What is scraped, for whoever asks: targets and what became of their last scrape.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ogive_model::{MetricKind, Tenant, WallNs};
use tokio::sync::{mpsc, oneshot};

use super::config::{self, Job};
use super::series::number_of;
use super::target::Target;

/// Labels, by name.
pub type Pairs = Vec<(String, String)>;

/// Requests a reload of the files, and receives their mistakes.
pub type Reload = oneshot::Sender<Result<(), String>>;

/// The state of all jobs.
#[derive(Default)]
pub struct View {
    pools: Mutex<BTreeMap<String, Arc<PoolView>>>,
    pub(crate) reload: Mutex<Option<mpsc::Sender<Reload>>>,
    /// The jobs in force of each tenant, as YAML without secrets.
    reported: Mutex<Vec<(Tenant, String)>>,
}

/// A job's targets.
#[derive(Default)]
pub struct PoolView {
    /// The tenant that may see them.
    pub tenant: Tenant,
    active: Mutex<Vec<Arc<TargetView>>>,
    dropped: Mutex<Vec<Pairs>>,
    /// Lists of families that some target has now.
    families: Mutex<HashMap<u64, Weak<Vec<Family>>>>,
}

/// The metadata of a metric.
#[derive(Clone, Debug, Hash, PartialEq)]
pub struct Family {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: MetricKind,
    /// Its help text.
    pub help: String,
    /// Its unit; empty when unknown.
    pub unit: String,
}

/// A target.
pub struct TargetView {
    /// The target.
    pub target: Target,
    last: Mutex<Last>,
}

/// Its last scrape.
#[derive(Clone, Default)]
pub struct Last {
    /// When it began; the epoch before the first.
    pub time: WallNs,
    /// From the request to the end of the response.
    pub took: Duration,
    /// Empty when it went well.
    pub error: String,
    /// The metadata of its metrics.
    pub families: Arc<Vec<Family>>,
}

impl Last {
    /// `up`, `down`, or `unknown` before the first.
    pub fn health(&self) -> &'static str {
        match (self.time.0, self.error.is_empty()) {
            (0, _) => "unknown",
            (_, true) => "up",
            (_, false) => "down",
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl View {
    /// The jobs in force of `tenant` as YAML; empty when there are none.
    pub fn effective_config(&self, tenant: &Tenant) -> String {
        lock(&self.reported)
            .iter()
            .find(|reported| reported.0 == *tenant)
            .map(|reported| reported.1.clone())
            .unwrap_or_default()
    }

    pub(super) fn tell(&self, jobs: &[Job]) {
        let mut reported: Vec<(Tenant, String)> = Vec::new();
        for Job { tenant, .. } in jobs {
            if reported.iter().all(|other| other.0 != *tenant) {
                reported
                    .push((tenant.clone(), config::effective_yaml(jobs.iter().filter(|job| job.tenant == *tenant))));
            }
        }
        *lock(&self.reported) = reported;
    }

    /// Every job by its name.
    pub fn pools(&self) -> BTreeMap<String, Arc<PoolView>> {
        lock(&self.pools).clone()
    }

    pub(super) fn set(&self, job: &str, pool: Arc<PoolView>) {
        lock(&self.pools).insert(job.to_owned(), pool);
    }

    pub(super) fn remove(&self, job: &str) {
        lock(&self.pools).remove(job);
    }

    /// The channel for requesting a reload, if anything is scraped.
    pub fn reloader(&self) -> Option<mpsc::Sender<Reload>> {
        lock(&self.reload).clone()
    }
}

impl PoolView {
    pub(super) fn new(tenant: Tenant) -> Self {
        Self { tenant, ..Self::default() }
    }

    /// The active targets.
    pub fn active(&self) -> Vec<Arc<TargetView>> {
        lock(&self.active).clone()
    }

    /// The labels of targets that rules dropped.
    pub fn dropped(&self) -> Vec<Pairs> {
        lock(&self.dropped).clone()
    }

    pub(super) fn set(&self, active: Vec<Arc<TargetView>>, dropped: Vec<Pairs>) {
        *lock(&self.active) = active;
        *lock(&self.dropped) = dropped;
    }

    /// `families`, shared between all targets of the job with equal metadata.
    pub(super) fn share(&self, families: Vec<Family>) -> Arc<Vec<Family>> {
        let number = number_of(&families);
        let mut known = lock(&self.families);
        if let Some(shared) = known.get(&number).and_then(Weak::upgrade).filter(|shared| **shared == families) {
            return shared;
        }
        known.retain(|_, list| list.strong_count() > 0);
        let shared = Arc::new(families);
        known.insert(number, Arc::downgrade(&shared));
        shared
    }
}

impl TargetView {
    pub(super) fn new(target: Target) -> Self {
        Self { target, last: Mutex::default() }
    }

    /// Its last scrape.
    pub fn last(&self) -> Last {
        lock(&self.last).clone()
    }

    pub(super) fn set(&self, last: Last) {
        *lock(&self.last) = last;
    }
}
