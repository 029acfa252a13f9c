//! One of the clusters that hold a node's data: how far it has got with the spool, and whether it answers.
//!
//! Invariants: each site reads the spool at its own pace, so a site that is away holds up no other. Every site gets
//! every batch; the spool keeps a batch until a majority of each site has it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use ogive_probe::Clock;

use crate::audited::Audited;
use crate::cluster::Cluster;
use crate::deletions::Deletions;
use crate::figures::Figures;
use crate::index::Index;
use crate::pending::Pending;
use crate::rolling::Rolling;
use crate::{Address, Error};

/// 1 s: a deletion is in force at every node this long after it was answered.
const FRESH_NS: u64 = 1_000_000_000;
/// 10 s: how old what is known of its clock and its retention may be.
const SETTINGS_NS: u64 = 10_000_000_000;

/// What a majority has and not every copy is known to have.
#[derive(Debug, Default)]
struct Uncertain {
    /// Where in the spool the first batch of a manifest's minute is.
    minutes: BTreeMap<i32, u64>,
    /// Minutes of which the spool has let go all the same.
    repairs: BTreeSet<i32>,
    is_release_wanted: bool,
}

/// See the module.
pub(crate) struct Site {
    pub(crate) address: Address,
    /// Set once it has been reached.
    pub(crate) cluster: OnceLock<Cluster>,
    pub(crate) pending: Pending,
    pub(crate) index: Index,
    pub(crate) figures: Figures,
    pub(crate) audited: Audited,
    pub(crate) deletions: Deletions,
    pub(crate) rolling: Rolling,
    uncertain: Mutex<Uncertain>,
    /// When its deletions were read, and its clock and retention; 0 is never.
    read_at: [AtomicU64; 2],
    /// A majority of it has everything before this position of the spool.
    done: AtomicU64,
    is_away: AtomicBool,
}

impl Site {
    /// One that has nothing of the spool, whose first position is `first`.
    pub(crate) fn new(address: Address, first: u64) -> Self {
        Self {
            cluster: OnceLock::new(),
            pending: Pending::new(address.pending_bytes_max, first),
            index: Index::default(),
            figures: Figures::default(),
            audited: Audited::default(),
            deletions: Deletions::default(),
            rolling: Rolling::default(),
            uncertain: Mutex::default(),
            read_at: [const { AtomicU64::new(0) }; 2],
            done: AtomicU64::new(first),
            is_away: AtomicBool::new(false),
            address,
        }
    }

    /// What people call it: a host and the keyspace.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.address.hosts[0], self.address.keyspace)
    }

    /// A majority of it has everything before `end`.
    pub(crate) fn done(&self, end: u64) {
        self.pending.done(end);
        // ORDERING: Release; pairs with the Acquire in `done_end`: the group's rows were acknowledged before.
        self.done.store(end, Ordering::Release);
    }

    /// A majority of it has everything before this position of the spool.
    pub(crate) fn done_end(&self) -> u64 {
        // ORDERING: Acquire; pairs with the Release in `done`.
        self.done.load(Ordering::Acquire)
    }

    fn uncertain(&self) -> MutexGuard<'_, Uncertain> {
        self.uncertain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The spool must keep everything from here on: a majority does not have it, or not every copy is known to.
    pub(crate) fn kept_from(&self) -> u64 {
        let first = self.uncertain().minutes.values().min().copied();
        self.done_end().min(first.unwrap_or(u64::MAX))
    }

    /// Not every copy took what was written in a minute; it begins at `position` of the spool.
    pub(crate) fn doubt(&self, minute: i32, position: u64) {
        let mut uncertain = self.uncertain();
        let first = uncertain.minutes.entry(minute).or_insert(position);
        *first = position.min(*first);
    }

    /// Every copy is known to have what was written in these minutes, or nothing is known any more; those that were
    /// marked.
    pub(crate) fn settle(&self, minutes: &[i32]) -> Vec<i32> {
        let mut uncertain = self.uncertain();
        uncertain.minutes.retain(|minute, _| !minutes.contains(minute));
        minutes.iter().copied().filter(|minute| uncertain.repairs.remove(minute)).collect()
    }

    /// The spool is full, and may let go of what a majority has.
    pub(crate) fn want_release(&self) {
        self.uncertain().is_release_wanted = true;
    }

    /// The minutes to be marked, if the spool wants to let go.
    pub(crate) fn to_release(&self) -> Vec<i32> {
        let mut uncertain = self.uncertain();
        if !std::mem::take(&mut uncertain.is_release_wanted) {
            return Vec::new();
        }
        uncertain.minutes.keys().copied().collect()
    }

    /// A minute is marked in the cluster, so the spool may let go of it.
    pub(crate) fn released(&self, minute: i32) {
        let mut uncertain = self.uncertain();
        uncertain.minutes.remove(&minute);
        uncertain.repairs.insert(minute);
    }

    /// Minutes of this node that need repair, ascending.
    pub(crate) fn repairs(&self) -> Vec<i32> {
        self.uncertain().repairs.iter().copied().collect()
    }

    /// Reads again, if it is time, what was deleted, how long rows are kept, and the cluster's clock.
    pub(crate) async fn refresh(&self, cluster: &Cluster, clock: Clock) -> Result<(), Error> {
        let now = clock.now();
        // ORDERING: Relaxed; a time alone.
        let is_due = |at: &AtomicU64, age: u64| match at.load(Ordering::Relaxed) {
            0 => true,
            read => now.saturating_sub(read) >= age,
        };
        if is_due(&self.read_at[0], FRESH_NS) {
            self.deletions.learn_stored(cluster.deletions_as_are().await?)?;
            // ORDERING: Relaxed; see above.
            self.read_at[0].store(now.max(1), Ordering::Relaxed);
        }
        if is_due(&self.read_at[1], SETTINGS_NS) {
            // ORDERING: Relaxed; see above. What was known stays when it cannot be read.
            self.read_at[1].store(now.max(1), Ordering::Relaxed);
            if let Err(error) = cluster.refresh().await {
                tracing::debug!("retention and clock of {}: {error}", self.name());
            }
        }
        Ok(())
    }

    /// The cluster, if a reader should ask it.
    pub(crate) fn present(&self) -> Option<&Cluster> {
        self.cluster.get().filter(|_| !self.is_away())
    }

    pub(crate) fn is_away(&self) -> bool {
        // ORDERING: Relaxed; a hint alone, which whoever asks in vain corrects.
        self.is_away.load(Ordering::Relaxed)
    }

    /// Notes that it does not answer, or that it does again.
    pub(crate) fn set_away(&self, is_away: bool) {
        // ORDERING: Relaxed; see `is_away`.
        if self.is_away.swap(is_away, Ordering::Relaxed) != is_away {
            let name = self.name();
            if is_away {
                tracing::warn!("{name} does not answer; queries go on without it");
            } else {
                tracing::info!("{name} answers again");
            }
        }
    }
}
