//! How InfluxDB's lines are read, and the databases that clients created.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use ogive_model::Tenant;
use ogive_protocol::lines::Names;

/// 1,000 databases without data: a server has a few.
pub(super) const CREATED_MAX: usize = 1_000;

/// How lines are read, for all requests.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Which names of metrics are written.
    pub names: Names,
    /// The label of the database or bucket; empty for none.
    pub db_label: String,
    /// Databases that were created, for clients that list them.
    pub(crate) databases: Arc<Databases>,
}

impl Rules {
    /// Names are written according to `names`, and the database or bucket becomes the label `db_label`.
    #[must_use]
    pub fn new(names: Names, db_label: String) -> Self {
        Self { names, db_label, databases: Arc::default() }
    }
}

/// Databases that were created and may have no data yet.
#[derive(Debug, Default)]
pub(crate) struct Databases(Mutex<BTreeSet<(Tenant, String)>>);

impl Databases {
    pub(super) fn create(&self, tenant: &Tenant, name: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < CREATED_MAX {
            all.insert((tenant.clone(), name.to_owned()));
        }
    }

    pub(super) fn of(&self, tenant: &Tenant) -> BTreeSet<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|(of, _)| of == tenant).map(|(_, name)| name.clone()).collect()
    }
}
