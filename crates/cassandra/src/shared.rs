//! State of a node that its readers share.

use std::sync::{Arc, OnceLock};

use ogive_probe::Clock;

use crate::auditor::Audited;
use crate::cluster::Cluster;
use crate::figures::Figures;
use crate::index::Index;
use crate::spool::Spooling;

/// See the module.
pub(crate) struct Shared {
    pub(crate) cluster: Arc<OnceLock<Cluster>>,
    pub(crate) spooling: Arc<Spooling>,
    pub(crate) index: Arc<Index>,
    pub(crate) figures: Arc<Figures>,
    pub(crate) audited: Arc<Audited>,
    pub(crate) clock: Clock,
    pub(crate) handle: tokio::runtime::Handle,
}

impl Shared {
    /// Waits, on a thread that may.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.handle.block_on(future)
    }
}
