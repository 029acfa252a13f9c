//! Retention: how long, and how much, data is kept.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ogive_model::{Ms, Tenant, WallMs};

use crate::class::Class;
use crate::retention_clock::RetentionClock;

/// What is kept of one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// How long: numbers of every resolution that is not named, and logs when they are not; `None` for ever.
    pub age: Option<Duration>,
    /// How long numbers are kept, by resolution in milliseconds; 0 are samples as they came.
    pub ages: BTreeMap<u32, Duration>,
    /// How long texts are kept, by class. Gaps, audit and boards that are not named are kept for ever.
    pub texts: BTreeMap<Class, Duration>,
    /// Most bytes of blocks; `None` without a limit. What is in memory and in the journal does not count.
    pub bytes: Option<u64>,
}

impl Keep {
    /// How long data of a class is kept as it came.
    #[must_use]
    pub fn class_age(&self, class: Class) -> Option<Ms> {
        let age = match class {
            Class::Numbers => return self.age_of(0),
            Class::Logs => self.texts.get(&class).or(self.age.as_ref()),
            Class::Gaps | Class::Audit | Class::Boards => self.texts.get(&class),
        };
        Some(Ms::from(*age?))
    }

    /// How long data of a resolution is kept.
    #[must_use]
    pub fn age_of(&self, resolution_ms: u32) -> Option<Ms> {
        self.ages.get(&resolution_ms).or(self.age.as_ref()).map(|age| Ms::from(*age))
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
/// Threads: the journal writer asks, the maintenance thread raises.
pub(crate) struct Oldest {
    retention: Retention,
    clock: Arc<RetentionClock>,
    dropped: RwLock<HashMap<(Tenant, Class), WallMs>>,
}

impl Oldest {
    pub(crate) fn new(retention: Retention, clock: Arc<RetentionClock>) -> Self {
        Self { retention, clock, dropped: RwLock::default() }
    }

    /// Samples of `tenant` and of each class, in their order, at and before this are refused.
    pub(crate) fn of(&self, tenant: &Tenant) -> [WallMs; Class::ALL.len()] {
        let dropped = self.dropped.read().unwrap_or_else(PoisonError::into_inner);
        let keep = self.retention.of(tenant);
        let now = self.clock.now();
        Class::ALL.map(|class| {
            let dropped = dropped.get(&(tenant.clone(), class)).copied();
            let by_age = keep.class_age(class).map(|age| now.saturating_sub(age));
            dropped.max(by_age).unwrap_or(WallMs::MIN)
        })
    }

    /// Samples of `tenant` and `class` at and before `until` are refused from now on.
    pub(crate) fn raise(&self, tenant: &Tenant, class: Class, until: WallMs) {
        let mut dropped = self.dropped.write().unwrap_or_else(PoisonError::into_inner);
        let held = dropped.entry((tenant.clone(), class)).or_insert(until);
        *held = until.max(*held);
        assert!(*held >= until, "what was refused once stays so: {held} is before {until}");
    }
}
