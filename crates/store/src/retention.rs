//! How long data is kept, and how much of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use ogive_model::Tenant;

/// What is kept of one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// How long, of every resolution that is not named; `None` for ever.
    pub age: Option<Duration>,
    /// How long, by resolution in milliseconds; 0 are samples as they came.
    pub ages: BTreeMap<u32, Duration>,
    /// Most bytes of blocks; `None` without a limit. What is in memory and in the journal does not count.
    pub bytes: Option<u64>,
}

impl Keep {
    /// How long data of a resolution is kept, milliseconds.
    #[must_use]
    pub fn age_ms(&self, resolution_ms: u32) -> Option<i64> {
        let age = self.ages.get(&resolution_ms).or(self.age.as_ref())?;
        Some(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
    }
}

/// What is kept of each tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Of those that are not named.
    pub default: Keep,
    /// Of these.
    pub tenants: HashMap<Tenant, Keep>,
}

impl Retention {
    /// What is kept of `tenant`.
    #[must_use]
    pub fn of(&self, tenant: &Tenant) -> &Keep {
        self.tenants.get(tenant).unwrap_or(&self.default)
    }
}

/// The oldest samples that are taken.
///
/// Invariants: what was once refused as too old stays so, wherever the clock goes; a drop raises the bound before it
/// looks at the blocks, so nothing is accepted for times that are being dropped.
/// Threads: the journal writer asks, the keeper raises.
#[derive(Debug, Default)]
pub(crate) struct Oldest {
    retention: Retention,
    dropped: RwLock<HashMap<Tenant, i64>>,
}

impl Oldest {
    pub(crate) fn new(retention: Retention) -> Self {
        Self { retention, dropped: RwLock::default() }
    }

    /// Samples of `tenant` at and before this are refused.
    pub(crate) fn of(&self, tenant: &Tenant, wall_ns: i64) -> i64 {
        let dropped = self.dropped.read().unwrap_or_else(PoisonError::into_inner).get(tenant).copied();
        let age = self.retention.of(tenant).age_ms(0);
        let by_age = age.map(|age| wall_ns.div_euclid(1_000_000).saturating_sub(age));
        dropped.max(by_age).unwrap_or(i64::MIN)
    }

    /// Samples of `tenant` at and before `until_ms` are refused from now on.
    pub(crate) fn raise(&self, tenant: &Tenant, until_ms: i64) {
        let mut dropped = self.dropped.write().unwrap_or_else(PoisonError::into_inner);
        let held = dropped.entry(tenant.clone()).or_insert(until_ms);
        *held = until_ms.max(*held);
    }
}
