//! The registry of series, and where the samples of each go.
//!
//! Invariants: a series has one number until it retires, and no two series share one; a series is registered only if
//! one of its samples was accepted, or if a batch named it and a block has recent samples of it. A number identifies a
//! shard and a slot there; see [`Registry::slot`]. It is a series' or free, and each series is counted for its tenant.
//! Limits: `series_max` of the options for all tenants, and [`TenantLimits`] for each, checked before a series is
//! added. A series without samples for [`IDLE_NS`] retires, so that short-lived series do not fill the registry.
//! Threads: the journal writer only.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

use ogive_hist::Scheme;
use ogive_model::{Kind, METRIC_NAME, MonoNs, Ns, Reason, SeriesDef, SeriesId, Temporality, Tenant, WallMs};

use crate::ingest::TenantLimits;
use crate::ingest::families::Families;
use crate::ingest::owned::Owned;
use crate::ingest::recall::{IDLE, Recall, RecalledSeries};
use crate::ingest::room::reserve_for_one;
use crate::ingest::table::{Table, halves};
use crate::order;
use crate::record::{DEFINITIONS, definitions_due, is_binding, next_record};

const SECOND: Ns = Ns::from_secs(1);
/// 10 minutes between looks at all series: 20 ms of a million.
const RETIRE_INTERVAL_S: u32 = 600;
/// A million series that retired are remembered, some 48 MiB; then all are forgotten, and may come back as something
/// else.
const RETIRED_MAX: usize = 1 << 20;
/// 10,000 tenants: teams of a large site. Each may have a few series beyond every other limit, those of its overflow.
pub(crate) const TENANTS_MAX: usize = 10_000;
const _: () = assert!(TENANTS_MAX <= u16::MAX as usize);
/// What a series costs beside what it is: 48 bytes here and 8 in the table, 56 in its shard, an eighth more of room,
/// and some 8 for each allocation; measured by `cargo bench -p ogive-store --bench memory`.
const SERIES_BYTES: u64 = 144;
/// What a label costs in the index: its place in a list, or its value once more.
const LABEL_BYTES: u64 = 16;

/// Bytes that a series takes in memory before its first sample, of which `owned` are what it is.
fn series_bytes(owned: usize, labels: usize) -> u64 {
    SERIES_BYTES + owned as u64 + LABEL_BYTES * labels as u64
}

/// Where a series lives: which shard, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) shard: usize,
    pub(crate) index: u32,
}

/// What class of schemes, which merge with each other, the cells of a delta histogram have, and up to when they had
/// another.
struct Classes {
    /// One of them.
    current: Scheme,
    /// The latest cell of the current class.
    latest: WallMs,
    /// The latest cell of any other class before it.
    other: WallMs,
}

struct RegisteredSeries {
    id: [u64; 2],
    owned: Arc<Owned>,
    classes: Option<Box<Classes>>,
    /// When a batch last brought it samples.
    seen_s: u32,
    /// After how many marks that was: its samples are in blocks once there was another.
    seen_epoch: u32,
    /// What the journal has of it.
    journaled: Journaled,
    /// The number of its tenant.
    tenant: u16,
    kind: Kind,
    temporality: Temporality,
}

const _: () = assert!(size_of::<Option<RegisteredSeries>>() == 48);

/// What a part of the journal has of a series.
#[derive(Clone, Copy)]
struct Journaled {
    /// The number of the part.
    part: u16,
    /// Records that define it; all that there need be for one that blocks have.
    definitions: u8,
    /// Records that have its samples as those of a number; see [`next_record`].
    records: u8,
}

impl Journaled {
    /// Of a series that no part had.
    const NEVER: Self = Self { part: 0, definitions: 0, records: 0 };
    /// Of a series that an earlier part had, so that blocks have it.
    const STORED: Self = Self { part: u16::MAX, ..Self::NEVER };

    const fn is_well_defined(self) -> bool {
        self.definitions >= definitions_due(self.records)
    }
}

/// What is here of a tenant.
struct TenantSeries {
    /// Its number while it has series.
    number: u16,
    /// How many.
    count: usize,
}

const fn id_of(halves: [u64; 2]) -> SeriesId {
    SeriesId((halves[1] as u128) << 64 | halves[0] as u128)
}

/// How many series may be here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) series_max: usize,
    /// Bytes of all series before their first samples.
    pub(crate) series_bytes_max: u64,
    pub(crate) tenant: TenantLimits,
}

impl Limits {
    /// For a replay: what it brings was accepted.
    pub(crate) const NONE: Self =
        Self { series_max: usize::MAX, series_bytes_max: u64::MAX, tenant: TenantLimits::NONE };
}

/// A name that the part of the journal before does not have; the hasher's keys are the standard library's source of
/// random numbers.
fn random_name() -> u32 {
    RandomState::new().hash_one(0_u8) as u32
}

/// All series that have samples in the head or had them since the store was opened.
pub(crate) struct Registry {
    table: Table,
    known: Vec<Option<RegisteredSeries>>,
    families: Families,
    free: Vec<u32>,
    /// Series that retired: their temporality binds too.
    retired: HashMap<SeriesId, Temporality, RandomState>,
    /// And so does that of the series in the blocks that had recent samples when the store was opened, until those are
    /// old.
    recall: Recall,
    recall_until_s: u32,
    /// What a replay brings is bound by nothing.
    is_replay: bool,
    tenants: HashMap<Tenant, TenantSeries>,
    /// Numbers of tenants that have no series any more.
    tenants_free: Vec<u16>,
    shards: usize,
    limits: Limits,
    bytes: u64,
    now_s: u32,
    epoch: u32,
    /// The number of the journal's current part, and its name there.
    part: u16,
    part_name: u32,
    retired_s: u32,
    /// Registered since the last [`Registry::keep`].
    fresh: Vec<u32>,
}

impl Registry {
    pub(crate) fn new(shards: usize, limits: Limits) -> Self {
        Self {
            table: Table::default(),
            known: Vec::new(),
            families: Families::default(),
            free: Vec::new(),
            retired: HashMap::default(),
            recall: Recall::default(),
            recall_until_s: 0,
            is_replay: false,
            tenants: HashMap::new(),
            tenants_free: Vec::new(),
            shards,
            limits,
            bytes: 0,
            now_s: 0,
            epoch: 0,
            part: 1,
            part_name: random_name(),
            retired_s: 0,
            fresh: Vec::new(),
        }
    }

    /// Takes note of the series in blocks.
    pub(crate) fn remember(&mut self, recall: Recall) {
        self.recall_until_s = self.now_s.saturating_add((IDLE / SECOND) as u32);
        self.recall = recall;
    }

    /// Registers those of `ids` that blocks know, as far as the limits allow.
    pub(crate) fn recall(&mut self, ids: impl Iterator<Item = SeriesId>) {
        for RecalledSeries { id, tenant, def } in self.recall.series(ids) {
            let Ok(number) = self.resolve(id, &tenant, &def) else { break };
            let known = self.known[number as usize].as_mut().expect("a number of a series");
            if known.journaled.part == Journaled::NEVER.part {
                known.journaled = Journaled::STORED;
            }
        }
    }

    /// Blocks whose series could not be read since this was last asked.
    pub(crate) const fn take_recall_failures(&mut self) -> u64 {
        self.recall.take_failures()
    }

    /// Whether what comes now was accepted when it came.
    pub(crate) const fn replay(&mut self, is_replay: bool) {
        self.is_replay = is_replay;
    }

    /// The temporality of a series that is not here but was lately.
    fn bound(&mut self, id: SeriesId) -> Option<Temporality> {
        if self.is_replay {
            return None;
        }
        self.retired.get(&id).copied().or_else(|| self.recall.temporality(id))
    }

    /// Tells the time.
    pub(crate) fn tick(&mut self, now: MonoNs) {
        self.now_s = u32::try_from(now.0 / SECOND.0.cast_unsigned()).unwrap_or(u32::MAX);
    }

    /// Sets what is taken; gives what was set before.
    pub(crate) const fn limit(&mut self, limits: Limits) -> Limits {
        std::mem::replace(&mut self.limits, limits)
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes that all series take before their first sample.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Shard and place of a series: numbers go round the shards, so that each has as many and none has gaps.
    pub(crate) const fn slot(&self, number: u32) -> Slot {
        let shards = self.shards as u32;
        Slot { shard: (number % shards) as usize, index: number / shards }
    }

    fn known(&self, number: u32) -> &RegisteredSeries {
        self.known[number as usize].as_ref().expect("a number of a series")
    }

    /// The number of a series that is here. It is taken to get samples now.
    pub(crate) fn find(&mut self, id: SeriesId) -> Option<u32> {
        self.find_near(id, u32::MAX)
    }

    /// As [`Registry::find`], when it may well be the series with the number `guess`.
    fn find_near(&mut self, id: SeriesId, guess: u32) -> Option<u32> {
        let key = halves(id);
        let guessed = self.known.get(guess as usize).and_then(Option::as_ref).is_some_and(|known| known.id == key);
        let number = if guessed { guess } else { self.table.find(key, |number| self.known(number).id)? };
        debug_assert_eq!(
            self.table.find(key, |number| self.known(number).id),
            Some(number),
            "a series has one number, whichever way it is found"
        );
        let known = self.known[number as usize].as_mut().expect("a number of a series");
        (known.seen_s, known.seen_epoch) = (self.now_s, self.epoch);
        Some(number)
    }

    /// The numbers of those series of `tenant` that are here, and the indexes of the others. Senders name their series
    /// in one order again and again, which is that of the numbers: the one behind the last is looked at first, since it
    /// lies next to it in memory, which a place in the table does not.
    pub(crate) fn find_all(&mut self, tenant: &Tenant, ids: &[SeriesId]) -> (Vec<u32>, Vec<u32>) {
        let (mut numbers, mut unknown) = (Vec::with_capacity(ids.len()), Vec::new());
        let tenant = self.tenants.get(tenant).map(|of| of.number);
        let mut guess = 0;
        for (id, at) in ids.iter().zip(0..) {
            match self.find_near(*id, guess) {
                // An identity is of its tenant; a sender that names another's learns no more than that.
                Some(number) if Some(self.known(number).tenant) == tenant => {
                    numbers.push(number);
                    guess = number.wrapping_add(1);
                }
                _ => unknown.push(at),
            }
        }
        (numbers, unknown)
    }

    /// What the samples of a series are, and whether they are parts of cells.
    pub(crate) fn kind(&self, number: u32) -> (Kind, bool) {
        let known = self.known(number);
        (known.kind, known.temporality == Temporality::Delta)
    }

    pub(crate) fn metric_name(&self, number: u32) -> &str {
        self.known(number).owned.get(METRIC_NAME)
    }

    /// The number of `def`, a series of `tenant` with the identity `id`; registers it when it is new.
    pub(crate) fn resolve(&mut self, id: SeriesId, tenant: &Tenant, def: &SeriesDef) -> Result<u32, Reason> {
        if let Some(number) = self.find(id) {
            let conflict = self.known(number).temporality != def.meta.temporality;
            return if conflict { Err(Reason::KindConflict) } else { Ok(number) };
        }
        if self.bound(id).is_some_and(|bound| bound != def.meta.temporality) {
            return Err(Reason::KindConflict);
        }
        let Limits { series_max, series_bytes_max, tenant: of_tenant } = self.limits;
        let held = self.tenants.get(tenant).map_or(0, |of| of.count);
        if self.len() >= series_max || self.bytes >= series_bytes_max || held >= of_tenant.series {
            return Err(Reason::SeriesLimit);
        }
        self.add(id, tenant, def)
    }

    /// As [`Registry::resolve`], past the limits: for the few series that stand for those beyond them.
    pub(crate) fn resolve_overflow(&mut self, id: SeriesId, tenant: &Tenant, def: &SeriesDef) -> Result<u32, Reason> {
        self.find(id).map_or_else(|| self.add(id, tenant, def), Ok)
    }

    fn add(&mut self, id: SeriesId, tenant: &Tenant, def: &SeriesDef) -> Result<u32, Reason> {
        let tenant_number = self.count_for(tenant)?;
        let number = self.free.pop().unwrap_or_else(|| {
            reserve_for_one(&mut self.known);
            self.known.push(None);
            u32::try_from(self.known.len() - 1).expect("fewer series than 2^32")
        });
        assert!(self.known[number as usize].is_none(), "number {number} is another series'");
        let owned = Arc::new(self.families.owned(tenant, def));
        debug_assert_eq!((owned.tenant(), owned.def()), (tenant, def.clone()), "a series is kept as it was declared");
        self.bytes += series_bytes(owned.join_family(), def.labels.len());
        self.known[number as usize] = Some(RegisteredSeries {
            id: halves(id),
            owned,
            classes: None,
            seen_s: self.now_s,
            seen_epoch: self.epoch,
            journaled: Journaled::NEVER,
            tenant: tenant_number,
            kind: def.meta.kind,
            temporality: def.meta.temporality,
        });
        self.table.insert(halves(id), number, |number| self.known[number as usize].as_ref().expect("a series").id);
        assert_eq!(self.table.len() + self.free.len(), self.known.len(), "each number is a series' or free");
        self.fresh.push(number);
        Ok(number)
    }

    /// Counts one more series of `tenant`, and gives the tenant's number.
    fn count_for(&mut self, tenant: &Tenant) -> Result<u16, Reason> {
        if let Some(of) = self.tenants.get_mut(tenant) {
            of.count += 1;
            return Ok(of.number);
        }
        if self.tenants.len() >= TENANTS_MAX {
            return Err(Reason::SeriesLimit);
        }
        // Numbers in use and free ones are those below their count.
        let number = self.tenants_free.pop().unwrap_or(self.tenants.len() as u16);
        debug_assert!(
            self.tenants.values().all(|of| of.number != number),
            "the number {number} of {tenant:?} is another tenant's, which would see its series"
        );
        self.tenants.insert(tenant.clone(), TenantSeries { number, count: 1 });
        Ok(number)
    }

    fn remove(&mut self, number: u32) -> RegisteredSeries {
        let known = self.known[number as usize].take().expect("a number of a series");
        self.table.remove(known.id, number, |number| self.known[number as usize].as_ref().expect("a series").id);
        let bytes = series_bytes(known.owned.leave_family(), known.owned.pairs().len());
        assert!(bytes <= self.bytes, "a series of {bytes} bytes among {}", self.bytes);
        self.bytes -= bytes;
        let of = self.tenants.get_mut(known.owned.tenant()).expect("a series is counted");
        of.count -= 1;
        if of.count == 0 {
            self.tenants_free.push(of.number);
            self.tenants.remove(known.owned.tenant());
        }
        self.free.push(number);
        assert_eq!(self.table.len() + self.free.len(), self.known.len(), "each number is a series' or free");
        debug_assert!(self.len() > 0 || self.bytes == 0, "no series takes {} bytes", self.bytes);
        known
    }

    /// Whether a cell of `scheme` at `time_ms` can merge with what may be there, and takes note of it. A series
    /// may go over to another scheme for later cells; a cell that is not later than the last one of another
    /// scheme is refused, since it could meet that one.
    pub(crate) fn admit(&mut self, number: u32, scheme: &Scheme, time: WallMs) -> Result<(), Reason> {
        let known = self.known[number as usize].as_mut().expect("admitted after it was resolved");
        let Some(classes) = &mut known.classes else {
            let current = scheme.clone();
            known.classes = Some(Box::new(Classes { current, latest: time, other: WallMs::MIN }));
            return Ok(());
        };
        if time <= classes.other {
            return Err(Reason::SchemeConflict);
        }
        if order::class_order(&classes.current, scheme).is_eq() {
            classes.latest = classes.latest.max(time);
        } else if time > classes.latest {
            **classes = Classes { current: scheme.clone(), latest: time, other: classes.latest };
        } else {
            return Err(Reason::SchemeConflict);
        }
        debug_assert!(classes.other < classes.latest, "cells of two classes: {} {}", classes.other, classes.latest);
        Ok(())
    }

    /// What the journal's current part has of a series.
    fn journaled(&self, number: u32) -> Journaled {
        let of = self.known(number).journaled;
        if of.part == self.part { of } else { Journaled { part: self.part, ..Journaled::NEVER } }
    }

    /// The definition of a series, when too few records of the journal's current part have it.
    pub(crate) fn undefined(&self, number: u32) -> Option<&Owned> {
        (!self.is_well_defined(number)).then(|| &*self.known(number).owned)
    }

    /// Whether so many records of the journal's current part define a series that one of them may be damaged.
    pub(crate) fn is_well_defined(&self, number: u32) -> bool {
        self.journaled(number).is_well_defined()
    }

    /// A record of the journal's current part defines a series. One is enough for a series of an earlier part, which
    /// blocks have; after a failed fsync it may be that they do not yet, and one record it is all the same.
    pub(crate) fn defined(&mut self, number: u32) {
        let before = self.journaled(number);
        let held = self.known(number).journaled.part;
        let is_stored = held != self.part && held != Journaled::NEVER.part;
        let definitions = if is_stored { DEFINITIONS } else { before.definitions.saturating_add(1) };
        self.known[number as usize].as_mut().expect("a number of a series").journaled =
            Journaled { definitions, ..before };
    }

    /// The identity of a series, when the next record of the journal is to bind its number.
    pub(crate) fn unbound(&self, number: u32) -> Option<SeriesId> {
        is_binding(self.journaled(number).records).then(|| id_of(self.known(number).id))
    }

    /// A record of the journal's current part has samples of a series as those of its number.
    pub(crate) fn count_record(&mut self, number: u32) {
        let before = self.journaled(number);
        debug_assert!(before.definitions > 0, "series {number} is defined before its samples");
        self.known[number as usize].as_mut().expect("a number of a series").journaled =
            Journaled { records: next_record(before.records), ..before };
    }

    /// What the journal's current part is called where numbers are bound.
    pub(crate) const fn part_name(&self) -> u32 {
        self.part_name
    }

    /// What the journal has of definitions may be void, or goes with what is in blocks: a new part begins.
    pub(crate) fn forget_definitions(&mut self) {
        self.part = self.part.wrapping_add(1);
        self.part_name = random_name();
        // A series that stayed as it was for as many parts as there are numbers must not be taken for one of this part.
        if self.part == 0 {
            self.known.iter_mut().flatten().for_each(|known| known.journaled = Journaled::STORED);
        }
    }

    /// The number of a series of floats of `tenant` that is here, when it may well be `guess`.
    pub(crate) fn find_float(&mut self, tenant: &Tenant, id: SeriesId, guess: u32) -> Option<u32> {
        let number = self.find_near(id, guess)?;
        let known = self.known(number);
        let is_its = self.tenants.get(tenant).is_some_and(|of| of.number == known.tenant);
        (is_its && known.kind == Kind::Float).then_some(number)
    }

    /// A series gets samples now.
    pub(crate) fn touch(&mut self, number: u32) {
        let known = self.known[number as usize].as_mut().expect("a number of a series");
        (known.seen_s, known.seen_epoch) = (self.now_s, self.epoch);
    }

    /// How many series are fresh; an argument for [`Registry::forget_fresh`].
    pub(crate) fn fresh_count(&self) -> usize {
        self.fresh.len()
    }

    /// Forgets the series that were registered after the first `from` fresh ones: their samples were not kept.
    pub(crate) fn forget_fresh(&mut self, from: usize) {
        for number in self.fresh.split_off(from).into_iter().rev() {
            self.remove(number);
        }
    }

    /// Parts the series' samples as the heads are parted, and retires the series that ended: gives the places,
    /// which are free from now on, of those that have no samples outside blocks and had none for long.
    pub(crate) fn mark(&mut self) -> Vec<Vec<u32>> {
        assert!(self.fresh.is_empty(), "heads are parted between groups");
        debug_assert_eq!(
            self.tenants.values().map(|of| of.count).sum::<usize>(),
            self.len(),
            "each series is counted for its tenant"
        );
        let mut retired = vec![Vec::new(); self.shards];
        let (epoch, now) = (self.epoch, self.now_s);
        self.epoch += 1;
        self.forget_definitions();
        if now < self.retired_s.saturating_add(RETIRE_INTERVAL_S) {
            return retired;
        }
        self.retired_s = now;
        if now >= self.recall_until_s {
            self.recall = Recall::default();
        }
        if self.retired.len() > RETIRED_MAX {
            self.retired.clear();
        }
        let idle_s = (IDLE / SECOND) as u32;
        let ended = |known: &RegisteredSeries| known.seen_epoch < epoch && known.seen_s.saturating_add(idle_s) <= now;
        let numbers = self.known.iter().zip(0..).filter(|(known, _)| known.as_ref().is_some_and(ended));
        let numbers: Vec<u32> = numbers.map(|(_, number)| number).collect();
        for number in numbers {
            let known = self.remove(number);
            self.retired.insert(id_of(known.id), known.temporality);
            let slot = self.slot(number);
            retired[slot.shard].push(slot.index);
        }
        retired
    }

    /// The fresh series, from now on registered for good.
    pub(crate) fn keep(&mut self) -> impl Iterator<Item = (Slot, Arc<Owned>)> + '_ {
        let fresh = std::mem::take(&mut self.fresh);
        fresh.into_iter().map(|number| (self.slot(number), Arc::clone(&self.known(number).owned)))
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::{Labels, SeriesMeta};

    use super::*;

    fn def(name: &str, temporality: Temporality) -> SeriesDef {
        let labels = Labels::new([("__name__", name)]).unwrap();
        SeriesDef { labels, meta: SeriesMeta { kind: Kind::Histogram, temporality, unit: String::new(), width_ms: 0 } }
    }

    fn registry(shards: usize, series_max: usize) -> Registry {
        Registry::new(shards, Limits { series_max, ..Limits::NONE })
    }

    fn resolve(registry: &mut Registry, def: &SeriesDef) -> Result<Slot, Reason> {
        let tenant = Tenant::default();
        let number = registry.resolve(def.id(&tenant), &tenant, def)?;
        Ok(registry.slot(number))
    }

    #[test]
    fn a_series_keeps_its_slot_and_its_first_temporality() {
        let mut registry = registry(2, 10);
        let (delta, gauge) = (def("a", Temporality::Delta), def("a", Temporality::Gauge));
        let slot = resolve(&mut registry, &delta).unwrap();
        assert_eq!(resolve(&mut registry, &delta), Ok(slot));
        assert_eq!(resolve(&mut registry, &gauge), Err(Reason::KindConflict));
        assert_eq!(registry.len(), 1);
    }

    #[test]
    fn the_limit_holds_at_its_value_and_one_above() {
        let mut registry = registry(2, 3);
        let defs: Vec<_> = (0..4).map(|n| def(&format!("m{n}"), Temporality::Delta)).collect();
        for def in &defs[..3] {
            assert!(resolve(&mut registry, def).is_ok());
        }
        assert_eq!(resolve(&mut registry, &defs[3]), Err(Reason::SeriesLimit));
        assert!(resolve(&mut registry, &defs[0]).is_ok());
    }

    #[test]
    fn each_tenant_has_its_own_limit_and_all_share_the_memory() {
        let tenant = TenantLimits { series: 2, ..TenantLimits::NONE };
        let mut registry = Registry::new(2, Limits { tenant, ..Limits::NONE });
        let add = |registry: &mut Registry, tenant: &str, name: &str| {
            let (tenant, def) = (Tenant::new(tenant).unwrap(), def(name, Temporality::Delta));
            registry.resolve(def.id(&tenant), &tenant, &def)
        };
        for tenant in ["a", "b"] {
            assert!(add(&mut registry, tenant, "1").is_ok() && add(&mut registry, tenant, "2").is_ok());
            assert_eq!(add(&mut registry, tenant, "3"), Err(Reason::SeriesLimit));
            assert!(add(&mut registry, tenant, "2").is_ok());
        }
        registry.forget_fresh(3);
        assert!(add(&mut registry, "b", "3").is_ok(), "what was forgotten makes room");
        let bytes = registry.bytes();
        registry.limit(Limits { series_bytes_max: bytes, ..Limits::NONE });
        assert_eq!(add(&mut registry, "c", "1"), Err(Reason::SeriesLimit));
        registry.limit(Limits { series_bytes_max: bytes + 1, ..Limits::NONE });
        assert!(add(&mut registry, "c", "1").is_ok());
        registry.forget_fresh(0);
        assert_eq!((registry.bytes(), registry.len(), registry.tenants.len()), (0, 0, 0));
    }

    #[test]
    fn series_are_found_in_any_order_and_only_by_their_tenant() {
        let mut registry = registry(2, 1000);
        let tenants = ["a", "b", "c"].map(|name| Tenant::new(name).expect("a name"));
        let ids: Vec<Vec<SeriesId>> = tenants
            .iter()
            .map(|tenant| {
                let defs = (0..50).map(|n| def(&format!("m{n}"), Temporality::Gauge));
                defs.map(|def| {
                    let id = def.id(tenant);
                    registry.resolve(id, tenant, &def).expect("there is room");
                    id
                })
                .collect()
            })
            .collect();
        assert_eq!(registry.find_all(&tenants[1], &ids[1]), ((50..100).collect(), vec![]));
        let backwards: Vec<SeriesId> = ids[1].iter().rev().copied().collect();
        assert_eq!(registry.find_all(&tenants[1], &backwards), ((50..100).rev().collect(), vec![]));
        let mixed = [ids[0][7], ids[1][0], ids[1][1], ids[2][0], ids[1][3]];
        assert_eq!(registry.find_all(&tenants[1], &mixed), (vec![50, 51, 53], vec![0, 3]));
        assert_eq!(registry.find_all(&Tenant::new("d").expect("a name"), &mixed).1, [0, 1, 2, 3, 4]);
        // The number of a tenant without series goes to the next one, and not what was its own.
        (50..100).for_each(|number| drop(registry.remove(number)));
        let (d, one) = (Tenant::new("d").expect("a name"), def("m0", Temporality::Gauge));
        assert_eq!(registry.resolve(one.id(&d), &d, &one), Ok(99));
        assert_eq!(registry.find_all(&d, &[one.id(&d), ids[1][0]]), (vec![99], vec![1]));
        assert_eq!(registry.tenants[&d].number, 1);
    }

    /// The first series of a family went, and what the others have of its labels was no longer counted.
    #[test]
    fn a_family_is_counted_until_its_last_series_goes() {
        let mut registry = registry(1, 10);
        let text = "x".repeat(1000);
        for path in ["1", "2", "3"] {
            let labels = Labels::new([("__name__", "m"), ("a", &*text), ("path", path)]).unwrap();
            resolve(&mut registry, &SeriesDef { labels, ..def("m", Temporality::Gauge) }).unwrap();
        }
        registry.keep().count();
        let all = registry.bytes();
        assert!((1000..2500).contains(&all), "{all} bytes, and the labels once");
        for number in [0, 2, 1] {
            assert!(registry.bytes() > 1000, "{} bytes", registry.bytes());
            registry.remove(number);
        }
        assert_eq!(registry.bytes(), 0);
    }

    #[test]
    fn definitions_are_known_until_the_journal_begins_anew() {
        let mut registry = registry(1, 10);
        let series = def("a", Temporality::Delta);
        resolve(&mut registry, &series).unwrap();
        registry.keep().count();
        for _ in 0..2 {
            assert!(registry.undefined(0).is_some());
            registry.defined(0);
        }
        assert!(registry.undefined(0).is_none());
        registry.mark();
        assert!(registry.undefined(0).is_some());
        registry.defined(0);
        assert!(registry.undefined(0).is_none(), "a block has it too");
        registry.forget_definitions();
        assert_eq!(registry.undefined(0).map(Owned::def), Some(series));
    }

    #[test]
    fn numbers_are_bound_and_series_defined_again_and_again() {
        let mut registry = registry(1, 10);
        resolve(&mut registry, &def("a", Temporality::Gauge)).unwrap();
        let (mut bound, mut defined) = (Vec::new(), Vec::new());
        for record in 0..600 {
            if registry.undefined(0).is_some() {
                defined.push(record);
                registry.defined(0);
            }
            if registry.unbound(0).is_some() {
                bound.push(record);
            }
            registry.count_record(0);
        }
        assert_eq!(bound, [0, 1, 4, 16, 64, 128, 256, 384, 512]);
        assert_eq!(defined, [0, 1, 16, 64]);
        registry.keep().count();
        registry.mark();
        assert!(registry.unbound(0).is_some(), "another part");
    }

    #[test]
    fn forgotten_series_give_their_slots_back() {
        let mut registry = registry(3, 100);
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
        let made = registry.known.len();
        let mut slots: Vec<Slot> = defs.iter().map(|def| resolve(&mut registry, def).unwrap()).collect();
        assert_eq!(registry.known.len(), made);
        slots.sort_by_key(|slot| (slot.shard, slot.index));
        slots.dedup();
        assert_eq!(slots.len(), 40);
    }

    #[test]
    fn series_retire_when_they_ended_and_not_before() {
        let mut registry = registry(1, 10);
        let (ended, lives) = (def("a", Temporality::Delta), def("b", Temporality::Delta));
        let slot = resolve(&mut registry, &ended).unwrap();
        registry.keep().count();
        registry.tick(MonoNs(IDLE.0 as u64 - 1));
        resolve(&mut registry, &lives).unwrap();
        registry.keep().count();
        assert_eq!(registry.mark(), [[0; 0]], "idle for less than an hour");
        registry.tick(MonoNs((IDLE + SECOND * 600).0 as u64));
        assert_eq!(registry.mark(), [[slot.index]]);
        assert_eq!(registry.mark(), [[0; 0]]);
        assert_eq!(registry.len(), 1);
        assert_eq!(resolve(&mut registry, &def("c", Temporality::Delta)), Ok(slot));
        let gauge = def("a", Temporality::Gauge);
        assert_eq!(resolve(&mut registry, &gauge), Err(Reason::KindConflict), "its temporality still binds");
    }

    #[test]
    fn a_series_whose_samples_are_in_no_block_does_not_retire() {
        let mut registry = registry(1, 10);
        let series = def("a", Temporality::Delta);
        resolve(&mut registry, &series).unwrap();
        registry.keep().count();
        registry.tick(MonoNs((IDLE * 10).0 as u64));
        assert_eq!(registry.mark(), [[0; 0]], "this mark is the one that parts its samples");
        registry.tick(MonoNs((IDLE * 20).0 as u64));
        assert_eq!(registry.mark(), [[0]]);
    }

    #[test]
    fn another_scheme_is_taken_for_later_cells_only() {
        let mut registry = registry(1, 10);
        let series = def("a", Temporality::Delta);
        resolve(&mut registry, &series).unwrap();
        let custom = |bound: f64| Scheme::custom(vec![bound]).unwrap();
        let mut check = |scheme: &Scheme, time| registry.admit(0, scheme, time).is_ok();
        assert!(check(&custom(1.0), WallMs(10)) && check(&custom(1.0), WallMs(5)) && check(&custom(1.0), WallMs(10)));
        assert!(!check(&custom(2.0), WallMs(10)) && !check(&custom(2.0), WallMs(7)));
        assert!(check(&custom(2.0), WallMs(11)) && check(&custom(2.0), WallMs(12)));
        assert!(
            !check(&custom(1.0), WallMs(12)) && !check(&custom(1.0), WallMs(10)) && !check(&custom(2.0), WallMs(10))
        );
        assert!(check(&Scheme::Exp2 { scale: 3 }, WallMs(13)) && check(&Scheme::Exp2 { scale: 5 }, WallMs(13)));
        let sketch = |gamma: f64| Scheme::gamma(gamma, 0.0).unwrap();
        assert!(
            !check(&sketch(1.02), WallMs(13)) && check(&sketch(1.02), WallMs(14)) && check(&sketch(1.02), WallMs(14))
        );
        assert!(!check(&sketch(1.03), WallMs(14)) && !check(&Scheme::log_linear2(7, 0, 1.0).unwrap(), WallMs(14)));
    }
}
