//! How long data is kept, and how much of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ogive_model::{Kind, Labels, Tenant};

use crate::retention_clock::RetentionClock;

/// What is kept, and dropped, by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Floats and histograms.
    Numbers,
    /// Texts: log records, and what senders write.
    Logs,
    /// What a broker gave up: texts of `ogive_gap`.
    Gaps,
    /// What was changed: texts of `ogive_config_change`.
    Audit,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Numbers, Self::Logs, Self::Gaps, Self::Audit];

    /// The class of the samples of a series.
    #[must_use]
    pub fn of(labels: &Labels, kind: Kind) -> Self {
        match (kind, labels.metric_name()) {
            (Kind::Float | Kind::Histogram, _) => Self::Numbers,
            (Kind::Text, GAP_METRIC) => Self::Gaps,
            (Kind::Text, AUDIT_METRIC) => Self::Audit,
            (Kind::Text, _) => Self::Logs,
        }
    }

    /// As the resolution of a horizon: that of raw samples is the numbers', and no rollup is as wide as those of texts.
    pub(crate) const fn horizon(self) -> u32 {
        match self {
            Self::Numbers => 0,
            Self::Logs => u32::MAX,
            Self::Gaps => u32::MAX - 1,
            Self::Audit => u32::MAX - 2,
        }
    }
}

/// A set of classes, as a block of raw samples says which were dropped from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Classes(u8);

impl Classes {
    pub(crate) const ALL: Self = Self(0b1111);

    /// What [`Classes::to_stored`] gave; what is unknown is left out.
    pub(crate) const fn from_stored(stored: u64) -> Self {
        Self(stored as u8 & Self::ALL.0)
    }

    pub(crate) const fn to_stored(self) -> u64 {
        self.0 as u64
    }

    pub(crate) const fn holds(self, class: Class) -> bool {
        self.0 & (1 << class as u8) != 0
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn each(self) -> impl Iterator<Item = Class> {
        Class::ALL.into_iter().filter(move |class| self.holds(*class))
    }
}

impl FromIterator<Class> for Classes {
    fn from_iter<I: IntoIterator<Item = Class>>(all: I) -> Self {
        Self(all.into_iter().fold(0, |set, class| set | 1 << class as u8))
    }
}

/// The texts of a broker's gaps (docs/formats/gap.md).
const GAP_METRIC: &str = "ogive_gap";
/// The texts of changes.
const AUDIT_METRIC: &str = "ogive_config_change";

/// What is kept of one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// How long: numbers of every resolution that is not named, and logs when they are not; `None` for ever.
    pub age: Option<Duration>,
    /// How long numbers are kept, by resolution in milliseconds; 0 are samples as they came.
    pub ages: BTreeMap<u32, Duration>,
    /// How long texts are kept, by class. Gaps and audit that are not named are kept for ever.
    pub texts: BTreeMap<Class, Duration>,
    /// Most bytes of blocks; `None` without a limit. What is in memory and in the journal does not count.
    pub bytes: Option<u64>,
}

impl Keep {
    /// How long data of a class is kept as it came, milliseconds.
    #[must_use]
    pub fn class_age_ms(&self, class: Class) -> Option<i64> {
        let age = match class {
            Class::Numbers => return self.age_ms(0),
            Class::Logs => self.texts.get(&class).or(self.age.as_ref()),
            Class::Gaps | Class::Audit => self.texts.get(&class),
        };
        Some(i64::try_from(age?.as_millis()).unwrap_or(i64::MAX))
    }

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
pub(crate) struct Oldest {
    retention: Retention,
    clock: Arc<RetentionClock>,
    dropped: RwLock<HashMap<(Tenant, Class), i64>>,
}

impl Oldest {
    pub(crate) fn new(retention: Retention, clock: Arc<RetentionClock>) -> Self {
        Self { retention, clock, dropped: RwLock::default() }
    }

    /// Samples of `tenant` and of each class, in their order, at and before this are refused.
    pub(crate) fn of(&self, tenant: &Tenant) -> [i64; Class::ALL.len()] {
        let dropped = self.dropped.read().unwrap_or_else(PoisonError::into_inner);
        let keep = self.retention.of(tenant);
        let now_ms = self.clock.now_ms();
        Class::ALL.map(|class| {
            let dropped = dropped.get(&(tenant.clone(), class)).copied();
            let by_age = keep.class_age_ms(class).map(|age| now_ms.saturating_sub(age));
            dropped.max(by_age).unwrap_or(i64::MIN)
        })
    }

    /// Samples of `tenant` and `class` at and before `until_ms` are refused from now on.
    pub(crate) fn raise(&self, tenant: &Tenant, class: Class, until_ms: i64) {
        let mut dropped = self.dropped.write().unwrap_or_else(PoisonError::into_inner);
        let held = dropped.entry((tenant.clone(), class)).or_insert(until_ms);
        *held = until_ms.max(*held);
    }
}
