//! Which series there are, and where the samples of each go.
//!
//! Invariants: a series has one slot until it retires, and no two series share one; a series is here only if a
//! sample of it was accepted.
//! Limits: `series_max` of the options, checked before a series is taken. A series without samples for
//! [`IDLE_NS`] retires, so that series which come and go do not fill the registry.
//! Threads: the journal writer alone.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use ogive_hist::Scheme;
use ogive_model::{Reason, SeriesDef, SeriesId, Temporality, Tenant};

use crate::ingest::head::Owned;

/// An hour: longer than any usual interval between samples, so that only series that ended retire.
pub(crate) const IDLE_NS: u64 = 3600 * 1_000_000_000;
/// 10 minutes between looks at all series: 20 ms of a million.
const RETIRE_INTERVAL_NS: u64 = 600 * 1_000_000_000;

/// Where a series lives: which shard, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) shard: usize,
    pub(crate) index: u32,
}

/// Schemes of one class merge with each other.
#[derive(Clone, Debug, PartialEq)]
enum Class {
    LogLinear10,
    Exp2,
    Custom(Arc<[f64]>),
    /// Of parameters that must be equal.
    Equal(Scheme),
}

impl Class {
    fn of(scheme: &Scheme) -> Self {
        match scheme {
            Scheme::LogLinear10 => Self::LogLinear10,
            Scheme::Exp2 { .. } => Self::Exp2,
            Scheme::Custom { bounds } => Self::Custom(Arc::clone(bounds)),
            Scheme::LogLinear2 { .. } | Scheme::Gamma { .. } => Self::Equal(scheme.clone()),
        }
    }
}

/// What class of scheme the cells of a delta histogram have, and up to when they had another.
struct Classes {
    current: Class,
    /// The latest cell of the current class.
    latest_ms: i64,
    /// The latest cell of any other class before it.
    other_ms: i64,
}

struct Known {
    slot: Slot,
    temporality: Temporality,
    classes: Option<Box<Classes>>,
    /// When a batch last brought it samples.
    seen_ns: u64,
    /// After how many marks that was: its samples are in blocks once there was another.
    seen_epoch: u64,
}

/// All series that have samples in the head or had them since the store was opened.
pub(crate) struct Registry {
    series: HashMap<SeriesId, Known, IdHasher>,
    /// Series of the blocks: their temporality binds too.
    stored: HashMap<SeriesId, Temporality, IdHasher>,
    /// For each shard, how many slots were ever made, and those that are free again.
    counts: Vec<u32>,
    free: Vec<Vec<u32>>,
    series_max: usize,
    now_ns: u64,
    epoch: u64,
    retired_ns: u64,
    /// Registered since the last [`Registry::keep`].
    fresh: Vec<(SeriesId, Slot, Arc<Owned>)>,
}

impl Registry {
    pub(crate) fn new(shards: usize, series_max: usize) -> Self {
        let hasher = IdHasher::default();
        Self {
            series: HashMap::with_hasher(hasher.clone()),
            stored: HashMap::with_hasher(hasher),
            counts: vec![0; shards],
            free: vec![Vec::new(); shards],
            series_max,
            now_ns: 0,
            epoch: 0,
            retired_ns: 0,
            fresh: Vec::new(),
        }
    }

    /// Takes note of a series in a block.
    pub(crate) fn stored(&mut self, id: SeriesId, temporality: Temporality) {
        self.stored.insert(id, temporality);
    }

    /// Tells the time.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Sets how many series are taken; gives what was set before.
    pub(crate) fn limit(&mut self, series_max: usize) -> usize {
        std::mem::replace(&mut self.series_max, series_max)
    }

    pub(crate) fn len(&self) -> usize {
        self.series.len()
    }

    /// Where the samples of `def`, a series of `tenant` with the identity `id`, go; makes the slot when it is new.
    pub(crate) fn resolve(&mut self, id: SeriesId, tenant: &Tenant, def: &SeriesDef) -> Result<Slot, Reason> {
        let count = self.series.len();
        match self.series.entry(id) {
            Entry::Occupied(known) if known.get().temporality != def.meta.temporality => Err(Reason::KindConflict),
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                (known.seen_ns, known.seen_epoch) = (self.now_ns, self.epoch);
                Ok(known.slot)
            }
            Entry::Vacant(_) if self.stored.get(&id).is_some_and(|stored| *stored != def.meta.temporality) => {
                Err(Reason::KindConflict)
            }
            Entry::Vacant(_) if count >= self.series_max => Err(Reason::SeriesLimit),
            Entry::Vacant(vacant) => {
                // The high half, since the low one places the series in the hash table.
                let shard = ((id.0 >> 64) as u64 % self.counts.len() as u64) as usize;
                let index = self.free[shard].pop().unwrap_or_else(|| {
                    self.counts[shard] += 1;
                    self.counts[shard] - 1
                });
                let slot = Slot { shard, index };
                let (seen_ns, seen_epoch) = (self.now_ns, self.epoch);
                vacant.insert(Known { slot, temporality: def.meta.temporality, classes: None, seen_ns, seen_epoch });
                self.fresh.push((id, slot, Arc::new(Owned { tenant: tenant.clone(), def: def.clone() })));
                Ok(slot)
            }
        }
    }

    /// Whether a cell of `scheme` at `time_ms` can merge with what may be there, and takes note of it. A series
    /// may go over to another scheme for later cells; a cell that is not later than the last one of another
    /// scheme is refused, since it could meet that one.
    pub(crate) fn admit(&mut self, id: SeriesId, scheme: &Scheme, time_ms: i64) -> Result<(), Reason> {
        let known = self.series.get_mut(&id).expect("admitted after it was resolved");
        let class = Class::of(scheme);
        let Some(classes) = &mut known.classes else {
            known.classes = Some(Box::new(Classes { current: class, latest_ms: time_ms, other_ms: i64::MIN }));
            return Ok(());
        };
        if time_ms <= classes.other_ms {
            return Err(Reason::SchemeConflict);
        }
        if classes.current == class {
            classes.latest_ms = classes.latest_ms.max(time_ms);
        } else if time_ms > classes.latest_ms {
            **classes = Classes { current: class, latest_ms: time_ms, other_ms: classes.latest_ms };
        } else {
            return Err(Reason::SchemeConflict);
        }
        Ok(())
    }

    /// How many series are fresh; an argument for [`Registry::forget_fresh`].
    pub(crate) fn fresh_count(&self) -> usize {
        self.fresh.len()
    }

    /// Forgets the series that were registered after the first `from` fresh ones: their samples were not kept.
    pub(crate) fn forget_fresh(&mut self, from: usize) {
        for (id, slot, _) in self.fresh.drain(from..).rev() {
            self.series.remove(&id);
            self.free[slot.shard].push(slot.index);
        }
    }

    /// Parts the series' samples as the heads are parted, and retires the series that ended: gives the slots,
    /// which are free from now on, of those that have no samples outside blocks and had none for long.
    pub(crate) fn mark(&mut self) -> Vec<Vec<u32>> {
        assert!(self.fresh.is_empty(), "heads are parted between groups");
        let mut retired = vec![Vec::new(); self.counts.len()];
        let (epoch, now) = (self.epoch, self.now_ns);
        self.epoch += 1;
        if now < self.retired_ns.saturating_add(RETIRE_INTERVAL_NS) {
            return retired;
        }
        self.retired_ns = now;
        let ended = |known: &mut Known| known.seen_epoch < epoch && known.seen_ns.saturating_add(IDLE_NS) <= now;
        for (id, known) in self.series.extract_if(|_, known| ended(known)) {
            self.stored.insert(id, known.temporality);
            retired[known.slot.shard].push(known.slot.index);
        }
        for (free, retired) in self.free.iter_mut().zip(&retired) {
            free.extend(retired);
        }
        retired
    }

    /// The fresh series, from now on registered for good.
    pub(crate) fn keep(&mut self) -> impl Iterator<Item = (Slot, Arc<Owned>)> + '_ {
        self.fresh.drain(..).map(|(_, slot, def)| (slot, def))
    }
}

/// Hashes an id, which is a hash already, with one multiplication by a number that nobody outside knows, so that
/// ids made to collide in one table do not in another.
#[derive(Clone)]
struct IdHasher(u64);

impl Default for IdHasher {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0_u8) | 1)
    }
}

impl BuildHasher for IdHasher {
    type Hasher = IdHash;

    fn build_hasher(&self) -> IdHash {
        IdHash { factor: self.0, hash: 0 }
    }
}

struct IdHash {
    factor: u64,
    hash: u64,
}

impl Hasher for IdHash {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.hash = (self.hash ^ u64::from_le_bytes(word)).wrapping_mul(self.factor);
        }
    }

    fn write_u128(&mut self, id: u128) {
        let product = u128::from((id ^ (id >> 64)) as u64) * u128::from(self.factor);
        self.hash = (product ^ (product >> 64)) as u64;
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::{Kind, Labels, SeriesMeta};

    use super::*;

    fn def(name: &str, temporality: Temporality) -> SeriesDef {
        let labels = Labels::new([("__name__", name)]).unwrap();
        SeriesDef { labels, meta: SeriesMeta { kind: Kind::Histogram, temporality, unit: String::new(), width_ms: 0 } }
    }

    fn resolve(registry: &mut Registry, def: &SeriesDef) -> Result<Slot, Reason> {
        let tenant = Tenant::default();
        registry.resolve(def.id(&tenant), &tenant, def)
    }

    #[test]
    fn a_series_keeps_its_slot_and_its_first_temporality() {
        let mut registry = Registry::new(2, 10);
        let (delta, gauge) = (def("a", Temporality::Delta), def("a", Temporality::Gauge));
        let slot = resolve(&mut registry, &delta).unwrap();
        assert_eq!(resolve(&mut registry, &delta), Ok(slot));
        assert_eq!(resolve(&mut registry, &gauge), Err(Reason::KindConflict));
        let stored = def("b", Temporality::Delta);
        registry.stored(stored.id(&Tenant::default()), Temporality::Gauge);
        assert_eq!(resolve(&mut registry, &stored), Err(Reason::KindConflict));
        assert_eq!(registry.len(), 1);
    }

    #[test]
    fn the_limit_holds_at_its_value_and_one_above() {
        let mut registry = Registry::new(2, 3);
        let defs: Vec<_> = (0..4).map(|n| def(&format!("m{n}"), Temporality::Delta)).collect();
        for def in &defs[..3] {
            assert!(resolve(&mut registry, def).is_ok());
        }
        assert_eq!(resolve(&mut registry, &defs[3]), Err(Reason::SeriesLimit));
        assert!(resolve(&mut registry, &defs[0]).is_ok());
    }

    #[test]
    fn forgotten_series_give_their_slots_back() {
        let mut registry = Registry::new(3, 100);
        let defs: Vec<_> = (0..40).map(|n| def(&format!("m{n}"), Temporality::Delta)).collect();
        for def in &defs[..10] {
            resolve(&mut registry, def).unwrap();
        }
        let before = registry.fresh_count();
        for def in &defs[10..] {
            resolve(&mut registry, def).unwrap();
        }
        registry.forget_fresh(before);
        assert_eq!((registry.len(), registry.keep().count()), (10, 10));
        let made = registry.counts.clone();
        let mut slots: Vec<Slot> = defs.iter().map(|def| resolve(&mut registry, def).unwrap()).collect();
        assert_eq!(registry.counts, made);
        slots.sort_by_key(|slot| (slot.shard, slot.index));
        slots.dedup();
        assert_eq!(slots.len(), 40);
    }

    #[test]
    fn series_retire_when_they_ended_and_not_before() {
        let mut registry = Registry::new(1, 10);
        let (ended, lives) = (def("a", Temporality::Delta), def("b", Temporality::Delta));
        let slot = resolve(&mut registry, &ended).unwrap();
        registry.keep().count();
        registry.tick(IDLE_NS - 1);
        resolve(&mut registry, &lives).unwrap();
        registry.keep().count();
        assert_eq!(registry.mark(), [[0; 0]], "idle for less than an hour");
        registry.tick(IDLE_NS + RETIRE_INTERVAL_NS);
        assert_eq!(registry.mark(), [[slot.index]]);
        assert_eq!(registry.mark(), [[0; 0]]);
        assert_eq!(registry.len(), 1);
        assert_eq!(resolve(&mut registry, &def("c", Temporality::Delta)), Ok(slot));
        let gauge = def("a", Temporality::Gauge);
        assert_eq!(resolve(&mut registry, &gauge), Err(Reason::KindConflict), "its temporality still binds");
    }

    #[test]
    fn a_series_whose_samples_are_in_no_block_does_not_retire() {
        let mut registry = Registry::new(1, 10);
        let series = def("a", Temporality::Delta);
        resolve(&mut registry, &series).unwrap();
        registry.keep().count();
        registry.tick(10 * IDLE_NS);
        assert_eq!(registry.mark(), [[0; 0]], "this mark is the one that parts its samples");
        registry.tick(20 * IDLE_NS);
        assert_eq!(registry.mark(), [[0]]);
    }

    #[test]
    fn another_scheme_is_taken_for_later_cells_only() {
        let mut registry = Registry::new(1, 10);
        let series = def("a", Temporality::Delta);
        resolve(&mut registry, &series).unwrap();
        let custom = |bound: f64| Scheme::custom(vec![bound]).unwrap();
        let mut check = |scheme: &Scheme, time| registry.admit(series.id(&Tenant::default()), scheme, time).is_ok();
        assert!(check(&custom(1.0), 10) && check(&custom(1.0), 5) && check(&custom(1.0), 10));
        assert!(!check(&custom(2.0), 10) && !check(&custom(2.0), 7));
        assert!(check(&custom(2.0), 11) && check(&custom(2.0), 12));
        assert!(!check(&custom(1.0), 12) && !check(&custom(1.0), 10) && !check(&custom(2.0), 10));
        assert!(check(&Scheme::Exp2 { scale: 3 }, 13) && check(&Scheme::Exp2 { scale: 5 }, 13));
        let sketch = |gamma: f64| Scheme::gamma(gamma, 0.0).unwrap();
        assert!(!check(&sketch(1.02), 13) && check(&sketch(1.02), 14) && check(&sketch(1.02), 14));
        assert!(!check(&sketch(1.03), 14) && !check(&Scheme::log_linear2(7, 0, 1.0).unwrap(), 14));
    }
}
