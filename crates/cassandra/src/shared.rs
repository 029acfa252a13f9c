//! State of a node that its readers share.

use std::sync::Arc;

use ogive_probe::Clock;

use crate::site::Site;
use crate::spool::Spooling;

/// See the module.
pub(crate) struct Shared {
    pub(crate) sites: Vec<Arc<Site>>,
    pub(crate) spooling: Arc<Spooling>,
    pub(crate) clock: Clock,
    pub(crate) handle: tokio::runtime::Handle,
}

impl Shared {
    /// Waits, on a thread that may.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.handle.block_on(future)
    }
}
