//! The label index, which series have samples on which day: immutable segments in the cluster, and those this node has
//! read.
//!
//! Format: docs/formats/cassandra.md. A segment is a compressed frame that defines series of one day and shard; it is
//! identified by the node that wrote it and the digest of its bytes.
//! Invariants: everything in memory is also in the cluster. A segment is durable before the batches with its series'
//! samples are released.
//! Limits: [`BYTES_MAX`] in memory; days that no query asks for are evicted first.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ogive_model::wire::{decode_definitions, encode_definitions};
use ogive_model::{Matcher, SeriesDef, SeriesId, Tenant};
use ogive_probe::Clock;
use ogive_store::merge;
use roaring::RoaringBitmap;
use twox_hash::XxHash3_64;

use crate::cluster::{Cluster, Consistent};
use crate::columns::empty;
use crate::keys::ShardKey;
use crate::postings::Postings;
use crate::schema::{SHARDS, shard};
use crate::waiting::all_of;
use crate::{Error, figures::Figures};

/// 1 s: how old what is known of today's series may be for a query; other nodes write a segment each few seconds.
const FRESH_NS: u64 = 1_000_000_000;
/// 512 MiB: some two million series a day.
const BYTES_MAX: u64 = 512 << 20;
/// 1,024 series of 400 bytes: a segment far below what a row may have.
const SEGMENT_SERIES_MAX: usize = 1_024;
/// 1 MiB: a segment of more is parted.
const SEGMENT_BYTES_MAX: usize = 1 << 20;
/// 4 MiB: a segment of one series may pass 1 MiB, and no label set comes near this.
const UNFOLDED_BYTES_MAX: usize = 4 << 20;
/// Level 3: written once, read by every node.
const LEVEL: i32 = 3;
/// 64 segments are fetched at once.
const FETCHES: usize = 64;
/// What a series takes in memory beside its labels.
const SERIES_BYTES: u64 = 256;
/// What a series takes in a day's set, at most.
const ENTRY_BYTES: u64 = 4;

/// A series of a tenant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CatalogSeries {
    pub(crate) tenant: Tenant,
    pub(crate) id: SeriesId,
    pub(crate) def: SeriesDef,
}

impl CatalogSeries {
    /// Whether it is the tenant's and every matcher accepts it.
    pub(crate) fn is_selected(&self, tenant: &Tenant, matchers: &[Matcher]) -> bool {
        self.tenant == *tenant && matchers.iter().all(|one| one.matches(self.def.labels.get(&one.name)))
    }
}

/// A series with the days on which it has samples.
pub(crate) type SeriesDays = (Arc<CatalogSeries>, Vec<i32>);

#[derive(Debug, Default)]
struct Day {
    /// By their number in memory.
    series: RoaringBitmap,
    segments: HashSet<(i16, Vec<u8>, i64)>,
    refreshed: Option<u64>,
}

#[derive(Debug, Default)]
struct State {
    days: BTreeMap<i32, Day>,
    known: Numbered,
    /// Days that have a segment in the cluster.
    stored: Vec<i32>,
    stored_at: Option<u64>,
}

/// The series in memory, numbered as they came.
#[derive(Debug, Default)]
struct Numbered {
    list: Vec<Arc<CatalogSeries>>,
    numbers: HashMap<SeriesId, u32>,
    postings: Postings,
    label_bytes: u64,
}

impl Numbered {
    fn get(&self, id: SeriesId) -> Option<&Arc<CatalogSeries>> {
        self.numbers.get(&id).map(|number| self.at(*number))
    }

    fn at(&self, number: u32) -> &Arc<CatalogSeries> {
        &self.list[number as usize]
    }

    /// The number of a series, which is added if it is new, and joined with what is known of it otherwise.
    fn add(&mut self, one: Arc<CatalogSeries>) -> u32 {
        if let Some(number) = self.numbers.get(&one.id) {
            let before = &mut self.list[*number as usize];
            if !covers(&before.def, &one.def) {
                *before = joined(before, &one);
            }
            return *number;
        }
        let number = u32::try_from(self.list.len()).expect("four billion series do not fit into memory");
        self.label_bytes += one.def.labels.memory_bytes() as u64;
        self.postings.add(&one.tenant, &one.def.labels, number);
        self.numbers.insert(one.id, number);
        self.list.push(one);
        number
    }

    fn bytes(&self) -> u64 {
        self.label_bytes + self.list.len() as u64 * SERIES_BYTES + self.postings.bytes()
    }
}

impl State {
    fn bytes(&self) -> u64 {
        let entries: u64 = self.days.values().map(|day| day.series.len()).sum();
        self.known.bytes() + entries * ENTRY_BYTES
    }

    /// Forgets other days, and the series that have samples on no other.
    fn forget_except(&mut self, days: &RangeInclusive<i32>) {
        self.days.retain(|day, _| days.contains(day));
        let known = std::mem::take(&mut self.known);
        // Those that stay get numbers anew.
        for day in self.days.values_mut() {
            let series = std::mem::take(&mut day.series);
            day.series = series.into_iter().map(|number| self.known.add(Arc::clone(known.at(number)))).collect();
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Index(Mutex<State>);

/// A segment to be written.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) key: ShardKey,
    pub(crate) digest: i64,
    pub(crate) body: Vec<u8>,
}

impl Index {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes in memory, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.state().bytes()
    }

    /// Number of series in memory.
    pub(crate) fn count(&self) -> usize {
        self.state().known.list.len()
    }

    /// A series, if it is in memory.
    pub(crate) fn known(&self, id: SeriesId) -> Option<Arc<CatalogSeries>> {
        self.state().known.get(id).map(Arc::clone)
    }

    /// The series in memory that have samples on a day, of all tenants.
    pub(crate) fn of_day(&self, day: i32) -> Vec<Arc<CatalogSeries>> {
        let state = self.state();
        let numbers = state.days.get(&day).into_iter().flat_map(|day| &day.series);
        numbers.map(|number| Arc::clone(state.known.at(number))).collect()
    }

    /// Whether a series is known to have samples on a day, as it is.
    pub(crate) fn holds(&self, day: i32, known: &CatalogSeries) -> bool {
        let state = self.state();
        let Some(number) = state.known.numbers.get(&known.id) else { return false };
        let is_there = state.days.get(&day).is_some_and(|day| day.series.contains(*number));
        is_there && covers(&state.known.at(*number).def, &known.def)
    }

    /// Takes up what is in a segment.
    pub(crate) fn learn(&self, day: i32, all: impl IntoIterator<Item = Arc<CatalogSeries>>) {
        let mut state = self.state();
        let State { days, known, .. } = &mut *state;
        let day = days.entry(day).or_default();
        for one in all {
            day.series.insert(known.add(one));
        }
    }

    /// The series that `matchers` accept, with those of `days` on which each has samples.
    pub(crate) fn find(&self, tenant: &Tenant, matchers: &[Matcher], days: &RangeInclusive<i32>) -> Vec<SeriesDays> {
        let state = self.state();
        let selected = state.known.postings.select(tenant, matchers);
        let mut found: BTreeMap<u32, Vec<i32>> = BTreeMap::new();
        for (number, day) in state.days.range(days.clone()) {
            for series in &selected & &day.series {
                found.entry(series).or_default().push(*number);
            }
        }
        found.into_iter().map(|(series, days)| (Arc::clone(state.known.at(series)), days)).collect()
    }

    /// Reads from the cluster what other nodes wrote of `days` since the last time.
    pub(crate) async fn refresh(
        &self,
        cluster: &Cluster,
        days: &RangeInclusive<i32>,
        figures: &Figures,
        clock: Clock,
    ) -> Result<Vec<Consistent>, Error> {
        let mut reached = Vec::new();
        let is_fresh = |at: Option<u64>| at.is_some_and(|at| clock.now().saturating_sub(at) < FRESH_NS);
        if !is_fresh(self.state().stored_at) {
            let begun = clock.now();
            let (stored, consistent) = cluster.days().await?;
            reached.push(consistent);
            let mut state = self.state();
            (state.stored, state.stored_at) = (stored, Some(begun));
        }
        self.make_room(days);
        let stale: Vec<i32> = {
            let state = self.state();
            let wanted = state.stored.iter().copied().filter(|day| days.contains(day));
            wanted.filter(|day| !is_fresh(state.days.get(day).and_then(|day| day.refreshed))).collect()
        };
        for day in stale {
            let begun = clock.now();
            let shards: Vec<_> =
                (0..SHARDS).map(|shard| self.refresh_shard(cluster, ShardKey { day, shard }, figures)).collect();
            for shard in all_of(shards).await {
                reached.extend(shard?);
            }
            self.state().days.entry(day).or_default().refreshed = Some(begun);
        }
        Ok(reached)
    }

    async fn refresh_shard(
        &self,
        cluster: &Cluster,
        key: ShardKey,
        figures: &Figures,
    ) -> Result<Vec<Consistent>, Error> {
        let ShardKey { day, shard } = key;
        let (listed, consistent) = cluster.segments(key).await?;
        let mut reached = vec![consistent];
        let new: Vec<(Vec<u8>, i64)> = {
            let state = self.state();
            let had = state.days.get(&day).map(|day| &day.segments);
            let is_new = |one: &(Vec<u8>, i64)| !had.is_some_and(|had| had.contains(&(shard, one.0.clone(), one.1)));
            listed.into_iter().filter(is_new).collect()
        };
        for some in new.chunks(FETCHES) {
            let fetches = some.iter().map(|(writer, digest)| cluster.segment(key, writer, *digest)).collect();
            for ((writer, digest), fetched) in some.iter().zip(all_of(fetches).await) {
                let (rows, consistent) = fetched?;
                reached.push(consistent);
                // A bad segment is not marked as read: another copy of it may be good the next time.
                match rows.iter().find_map(|(body,)| decode(*digest, body).ok()) {
                    Some(all) => {
                        self.learn(day, all);
                        let mut state = self.state();
                        state.days.entry(day).or_default().segments.insert((shard, writer.clone(), *digest));
                    }
                    None => figures.corrupt.add(1),
                }
            }
        }
        Ok(reached)
    }

    /// Forgets days outside of `days` when all together take too much.
    fn make_room(&self, days: &RangeInclusive<i32>) {
        let mut state = self.state();
        if state.bytes() > BYTES_MAX {
            state.forget_except(days);
        }
    }
}

/// Whether `one` says all that `other` does: of two the greater temporality, width and unit count.
fn covers(one: &SeriesDef, other: &SeriesDef) -> bool {
    one == other || {
        let mut data = empty(one);
        let _ = merge::add(&mut data, empty(other));
        data.meta == one.meta
    }
}

fn joined(one: &CatalogSeries, other: &CatalogSeries) -> Arc<CatalogSeries> {
    let mut data = empty(&one.def);
    let _ = merge::add(&mut data, empty(&other.def));
    let def = SeriesDef { labels: one.def.labels.clone(), meta: data.meta };
    Arc::new(CatalogSeries { tenant: one.tenant.clone(), id: one.id, def })
}

/// The segments that say that `all` have samples on `day`.
pub(crate) fn segments(day: i32, all: &[Arc<CatalogSeries>]) -> Result<Vec<Segment>, Error> {
    let mut groups: BTreeMap<(i16, &str), Vec<&Arc<CatalogSeries>>> = BTreeMap::new();
    for one in all {
        groups.entry((shard(one.id), one.tenant.as_str())).or_default().push(one);
    }
    let mut out = Vec::new();
    for ((shard, _), mut group) in groups {
        group.sort_unstable_by_key(|one| one.id);
        for some in group.chunks(SEGMENT_SERIES_MAX) {
            encode(ShardKey { day, shard }, some, &mut out)?;
        }
    }
    Ok(out)
}

fn encode(key: ShardKey, some: &[&Arc<CatalogSeries>], out: &mut Vec<Segment>) -> Result<(), Error> {
    let wrong = |error: &dyn std::fmt::Display| Error::Local(format!("a segment of the index: {error}"));
    let frame = encode_definitions(&some[0].tenant, some.iter().map(|one| &one.def)).map_err(|error| wrong(&error))?;
    if frame.len() > SEGMENT_BYTES_MAX && some.len() > 1 {
        let (first, second) = some.split_at(some.len() / 2);
        encode(key, first, out)?;
        return encode(key, second, out);
    }
    if frame.len() > UNFOLDED_BYTES_MAX {
        return Err(wrong(&format!("{} bytes of labels in one series", frame.len())));
    }
    let body = zstd::bulk::compress(&frame, LEVEL).map_err(|error| wrong(&error))?;
    out.push(Segment { key, digest: XxHash3_64::oneshot(&frame) as i64, body });
    Ok(())
}

/// The series of a segment.
fn decode(digest: i64, body: &[u8]) -> Result<Vec<Arc<CatalogSeries>>, Error> {
    let corrupt = |what: String| Error::Corrupt(format!("a segment of the index: {what}"));
    let frame = zstd::bulk::decompress(body, UNFOLDED_BYTES_MAX).map_err(|error| corrupt(error.to_string()))?;
    if XxHash3_64::oneshot(&frame) as i64 != digest {
        return Err(corrupt("its digest is not that of its bytes".into()));
    }
    let defined = decode_definitions(&frame).map_err(|error| corrupt(error.to_string()))?;
    let (tenant, defs) = defined.ok_or_else(|| corrupt("it defines no series".into()))?;
    let known = |def: SeriesDef| Arc::new(CatalogSeries { id: def.id(&tenant), tenant: tenant.clone(), def });
    Ok(defs.into_iter().map(known).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ogive_model::{Kind, MatchOp, SeriesMeta, Temporality};

    fn known(tenant: &str, host: &str, temporality: Temporality) -> Arc<CatalogSeries> {
        let meta = SeriesMeta { kind: Kind::Float, temporality, unit: String::new(), width_ms: 0 };
        let def = SeriesDef::new([("__name__", "m"), ("host", host)], meta).unwrap();
        let tenant = if tenant.is_empty() { Tenant::default() } else { Tenant::new(tenant).unwrap() };
        Arc::new(CatalogSeries { id: def.id(&tenant), tenant, def })
    }

    #[test]
    fn segments_come_back_and_changed_ones_do_not() {
        let all: Vec<Arc<CatalogSeries>> = (0..5_000)
            .map(|at| known(if at % 2 == 0 { "" } else { "t" }, &at.to_string(), Temporality::Gauge))
            .collect();
        let segments = segments(7, &all).unwrap();
        let mut read: Vec<Arc<CatalogSeries>> =
            segments.iter().flat_map(|one| decode(one.digest, &one.body).unwrap()).collect();
        assert_eq!(read.len(), all.len());
        read.sort_by_key(|one| one.id);
        let mut all = all;
        all.sort_by_key(|one| one.id);
        assert_eq!(read, all);
        let one = &segments[0];
        assert!(matches!(decode(one.digest + 1, &one.body), Err(Error::Corrupt(_))));
        for at in 0..one.body.len().min(400) {
            let mut body = one.body.clone();
            body[at] ^= 0x10;
            assert!(decode(one.digest, &body).map_or(true, |read| read.len() <= 1_024), "byte {at}");
        }
    }

    #[test]
    fn series_are_found_by_tenant_day_and_matchers() {
        let index = Index::default();
        index.learn(1, [known("", "a", Temporality::Gauge), known("", "b", Temporality::Gauge)]);
        index.learn(2, [known("", "a", Temporality::Gauge), known("t", "a", Temporality::Gauge)]);
        let hosts = |days: RangeInclusive<i32>, tenant: &Tenant, host: &str| {
            let matchers = [Matcher::new("host", MatchOp::Regex, host).unwrap()];
            let mut found = index.find(tenant, &matchers, &days);
            found.sort_by(|a, b| a.0.def.labels.cmp(&b.0.def.labels));
            found.iter().map(|(one, days)| (one.def.labels.get("host").to_owned(), days.clone())).collect::<Vec<_>>()
        };
        let own = Tenant::default();
        assert_eq!(hosts(1..=2, &own, ".+"), [("a".into(), vec![1, 2]), ("b".into(), vec![1])]);
        assert_eq!(hosts(2..=9, &own, ".+"), [("a".into(), vec![2])]);
        assert_eq!(hosts(1..=1, &own, "b"), [("b".into(), vec![1])]);
        assert_eq!(hosts(1..=9, &Tenant::new("t").unwrap(), "a"), [("a".into(), vec![2])]);
    }

    #[test]
    fn days_that_stay_keep_their_series_when_others_make_room() {
        let index = Index::default();
        let of_host = |host: usize| known("", &host.to_string(), Temporality::Gauge);
        index.learn(1, (0..1_000).map(of_host));
        index.learn(2, (900..1_100).map(of_host));
        let before = index.bytes();
        // As if there were too much.
        index.state().forget_except(&(2..=2));
        assert!(index.bytes() < before / 2, "{} of {before}", index.bytes());
        let mut hosts: Vec<usize> = index
            .find(&Tenant::default(), &[], &(0..=9))
            .iter()
            .map(|(one, days)| {
                assert_eq!(*days, [2]);
                one.def.labels.get("host").parse().unwrap()
            })
            .collect();
        hosts.sort_unstable();
        assert_eq!(hosts, (900..1_100).collect::<Vec<_>>());
        let one = [Matcher::new("host", MatchOp::Equal, "1099").unwrap()];
        assert_eq!(index.find(&Tenant::default(), &one, &(2..=2)).len(), 1);
        assert_eq!((index.count(), index.known(of_host(1).id)), (200, None));
    }

    #[test]
    fn of_two_temporalities_the_greater_counts_whichever_came_first() {
        for order in [[Temporality::Gauge, Temporality::Delta], [Temporality::Delta, Temporality::Gauge]] {
            let index = Index::default();
            order.iter().for_each(|one| index.learn(1, [known("", "a", *one)]));
            let found = index.find(&Tenant::default(), &[], &(1..=1));
            assert_eq!(found[0].0.def.meta.temporality, Temporality::Delta);
            assert!(index.holds(1, &known("", "a", Temporality::Gauge)));
        }
    }
}
