//! One of the clusters that hold a node's data: how far it has got with the spool, and whether it answers.
//!
//! Invariants: each site reads the spool at its own pace, so a site that is away holds up no other. Every site gets every
//! batch; the spool keeps a batch until a majority of each site has it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::Address;
use crate::audited::Audited;
use crate::cluster::Cluster;
use crate::figures::Figures;
use crate::index::Index;
use crate::pending::Pending;

/// See the module.
pub(crate) struct Site {
    pub(crate) address: Address,
    /// Set once it has been reached.
    pub(crate) cluster: OnceLock<Cluster>,
    pub(crate) pending: Pending,
    pub(crate) index: Index,
    pub(crate) figures: Figures,
    pub(crate) audited: Audited,
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
