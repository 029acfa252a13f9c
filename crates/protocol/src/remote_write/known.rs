//! The series that were written before, found by the bytes of their labels: a request with known series only is stored
//! without decoding a label.
//!
//! Invariants: a remembered series was stored under that identity. The store may forget a series; then it refuses the
//! identity, and the request is decoded again without this table.
//! Threads: any; a request reads under one lock, and what it adds waits for the others.
//! Limits: [`SERIES_MAX`]; beyond it the table is cleared, which costs each series one decoding of its labels.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use indexmap::IndexMap;
use ogive_model::{Kind, SeriesId, Tenant};
use twox_hash::{XxHash3_64, XxHash3_128};

/// 4 Mi series, some 60 bytes each: 240 MiB.
const SERIES_MAX: usize = 4 << 20;

/// The table.
#[derive(Default)]
pub struct KnownSeries {
    ids: RwLock<Ids>,
}

/// Identities by [`Key`]s, in the order of their declaration.
pub(crate) type Ids = IndexMap<u128, SeriesId, BuildHasherDefault<LowHalfHasher>>;

/// Looks series up in the order of a request. Senders write their series in one order again and again, so the one
/// behind the last is looked at first: it lies next to it in memory, which a place in the table does not.
pub(super) struct Lookup<'k> {
    ids: &'k Ids,
    next: usize,
}

impl<'k> Lookup<'k> {
    pub(super) const fn new(ids: &'k Ids) -> Self {
        Self { ids, next: 0 }
    }

    pub(super) fn find(&mut self, key: Key) -> Option<SeriesId> {
        let id = match self.ids.get_index(self.next) {
            Some((next, id)) if *next == key.0 => *id,
            _ => {
                let (at, _, id) = self.ids.get_full(&key.0)?;
                self.next = at;
                *id
            }
        };
        self.next += 1;
        Some(id)
    }
}

/// Tenant, kind and label bytes of a series as one number: their 128-bit xxh3. Two series of one number are as unlikely
/// as two of one identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) u128);

/// What belongs to every key of a request.
#[derive(Clone, Copy)]
pub(super) struct KeySeed(u64);

impl KeySeed {
    pub(super) fn from_tenant(tenant: &Tenant) -> Self {
        Self(XxHash3_64::oneshot(tenant.as_str().as_bytes()))
    }

    pub(super) fn key(self, kind: Kind, label_bytes: &[u8]) -> Key {
        Key(XxHash3_128::oneshot_with_seed(self.0 ^ kind as u64, label_bytes))
    }
}

impl KnownSeries {
    /// How many series are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids().len()
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids().is_empty()
    }

    /// Adds the series that a stored request declared.
    pub fn remember(&self, stored: &Declared) {
        if stored.0.is_empty() {
            return;
        }
        let mut ids = self.ids.write().unwrap_or_else(PoisonError::into_inner);
        if ids.len() + stored.0.len() > SERIES_MAX {
            ids.clear();
        }
        ids.extend(stored.0.iter().map(|(key, id)| (key.0, *id)));
    }

    pub(crate) fn ids(&self) -> RwLockReadGuard<'_, Ids> {
        self.ids.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The series that a request declares, for [`KnownSeries::remember`] once they are stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declared(pub(crate) Vec<(Key, SeriesId)>);

/// Takes the low half of a key, which is a hash already, as every key here is.
#[derive(Default)]
pub(crate) struct LowHalfHasher(u64);

impl Hasher for LowHalfHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Keys are numbers; this is for completeness.
        self.0 = XxHash3_64::oneshot_with_seed(self.0, bytes);
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}
