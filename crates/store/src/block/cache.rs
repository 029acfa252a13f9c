//! What queries decoded of blocks, kept for the next ones: chunks of floats and of histograms, and series pages.
//!
//! Invariants: what is kept was compared with its checksum when it was read. Blocks never change, so that nothing kept
//! becomes wrong: a block has a number of its own, and what is kept of one that is gone is evicted as what nobody asks
//! for.
//! - What is used once costs no more than a note of it: a part is kept when it is used again before others came that
//!   would have filled the cache. So a scan keeps nothing and evicts nothing, and what is asked for in turn and does
//!   not fit costs what it does without a cache. A tenth of the notes may stay longer.
//! - What cannot be kept is remembered as such when that was found out, and is read as it is without a cache.
//! - Texts are not kept, and what is not a query (compaction, rollups, scrubs, snapshots) reads past the cache.
//!
//! Threads: any number.
//! Limits: the bytes that it is made with, an estimate of its own tables included.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ogive_model::Labels;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::block::series::{ChunkEntry, Entry};
use crate::codec::kept_floats::KeptFloats;
use crate::codec::kept_histograms::KeptHistograms;

/// 256 bytes: what is shorter is decoded as quickly as it is found.
const STORED_BYTES_MIN: u64 = 256;
/// What an entry takes of the tables: its key, its state, its links and room to grow.
const ENTRY_BYTES: u64 = 128;
/// 2 KiB: a note stands for a part of so many bytes at least, so that notes are few.
const NOTE_PART_BYTES_MIN: u64 = 2 << 10;
/// 5: how many times what is stored a part takes, before some were kept.
const GROWTH: u64 = 5;
/// 1 MiB: what was kept up to so many stored bytes counts as much as that.
const GROWTH_STORED_BYTES: u64 = 1 << 20;
/// 8 MiB, the least of a shard.
const SHARD_BYTES_MIN: u64 = 8 << 20;
/// An eighth of a shard is the most that a part may take: others are to have room beside it.
const SHARD_PARTS_MIN: u64 = 8;
/// 64 shards: more threads than that do not read at once.
const SHARDS_MAX: u64 = 64;
/// 8 KiB, about what a part takes: for how many that were evicted a table remembers.
const PART_BYTES: u64 = 8 << 10;
/// Half as many as there are parts.
const EVICTED_SHARE: f64 = 0.5;
/// A fifth is left to what came last.
const HOT_SHARE: f64 = 0.8;
/// A tenth, which is the most that one of them may take: the other notes are forgotten first in, first out.
const NOTED_HOT_SHARE: f64 = 0.1;

/// See the module.
pub(crate) struct BlockCache {
    parts: Cache<Key, Kept, Weight>,
    /// What was used once lately: how many bytes it would take.
    noted: Cache<Key, u32, Weight>,
    /// By kind.
    growth: [Growth; KINDS],
    part_bytes_max: u64,
    /// Lookups of what cannot be kept.
    unfit: AtomicU64,
    blocks: AtomicU64,
}

/// How many times what is stored of them the parts of a kind took.
struct Growth {
    stored: AtomicU64,
    kept: AtomicU64,
}

/// A part of a block: the block's number, and where the part begins.
type Key = (u64, u64);

/// What is kept of a part.
#[derive(Clone)]
pub(crate) enum Part {
    Floats(Arc<KeptFloats>),
    Histograms(Arc<KeptHistograms>),
    Page(Arc<KeptPage>),
    /// It cannot be kept.
    Unfit,
}

/// Something that can be kept.
pub(crate) trait KeptPart: Sized {
    /// The number of its kind.
    const KIND: usize;

    /// The part as such.
    fn from_part(part: &Part) -> Option<&Arc<Self>>;

    /// As a part of any kind.
    fn into_part(self: Arc<Self>) -> Part;

    /// Bytes beside those of the type itself.
    fn heap_bytes(&self) -> usize;
}

const KINDS: usize = 3;

#[derive(Clone)]
struct Kept {
    part: Part,
    bytes: u64,
}

/// The entries of a series page, and those label sets that were made of them.
#[derive(Clone)]
pub(crate) struct KeptPage {
    pub(super) entries: Arc<Vec<Entry>>,
    /// One an entry.
    pub(super) labels: Vec<Option<Labels>>,
}

/// What the cache has of a part.
pub(crate) enum Lookup<T> {
    Kept(Arc<T>),
    /// Nothing yet, and it is to be kept.
    Wanted,
    /// Nothing, and it is to be noted when it is used.
    New,
    /// Nothing, and it is not to be kept.
    Nothing,
}

/// How a cache is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheFigures {
    /// Parts that were found in it.
    pub(crate) hits: u64,
    /// Parts that were not.
    pub(crate) misses: u64,
    /// Bytes that it takes.
    pub(crate) bytes: u64,
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Kept> for Weight {
    fn weight(&self, _: &Key, kept: &Kept) -> u64 {
        kept.bytes
    }
}

impl Weighter<Key, u32> for Weight {
    fn weight(&self, _: &Key, bytes: &u32) -> u64 {
        u64::from(*bytes).max(NOTE_PART_BYTES_MIN)
    }
}

impl BlockCache {
    /// A cache of up to `bytes`; None for 0.
    pub(crate) fn new(bytes: u64) -> Option<Arc<Self>> {
        let (notes, items) = (bytes / NOTE_PART_BYTES_MIN, bytes / PART_BYTES);
        let evicted = (items as f64 * EVICTED_SHARE) as u64;
        let tables = (notes + evicted) * ENTRY_BYTES;
        assert!(tables <= bytes, "the tables of a cache of {bytes} bytes take {tables}");
        let parts = bytes - tables;
        let shards = 1 << (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX).ilog2();
        (bytes > 0).then(|| {
            Arc::new(Self {
                parts: table(parts, items, shards, HOT_SHARE, EVICTED_SHARE),
                noted: table(parts, notes, shards, NOTED_HOT_SHARE, 0.0),
                growth: std::array::from_fn(|_| Growth::new()),
                part_bytes_max: parts / shards / SHARD_PARTS_MIN,
                unfit: AtomicU64::new(0),
                blocks: AtomicU64::new(0),
            })
        })
    }

    /// How it is used.
    pub(crate) fn figures(&self) -> CacheFigures {
        let bytes = self.parts.weight() + self.noted.len() as u64 * ENTRY_BYTES;
        // ORDERING: Relaxed; numbers to look at.
        let unfit = self.unfit.load(Ordering::Relaxed);
        CacheFigures { hits: self.parts.hits().saturating_sub(unfit), misses: self.parts.misses() + unfit, bytes }
    }
}

impl Growth {
    fn new() -> Self {
        Self { stored: AtomicU64::new(GROWTH_STORED_BYTES), kept: AtomicU64::new(GROWTH * GROWTH_STORED_BYTES) }
    }

    fn add(&self, stored: u64, kept: u64) {
        // ORDERING: Relaxed here and below; an estimate may mix two moments.
        self.stored.fetch_add(stored, Ordering::Relaxed);
        self.kept.fetch_add(kept, Ordering::Relaxed);
    }

    /// About how many bytes a part takes of which so many are stored.
    fn estimate(&self, stored: u64) -> u32 {
        let times = self.kept.load(Ordering::Relaxed) as f64 / self.stored.load(Ordering::Relaxed) as f64;
        // The greatest where it does not fit.
        (stored as f64 * times) as u32
    }
}

/// An empty table of `bytes` and about so many `items`.
fn table<V: Clone>(bytes: u64, items: u64, shards: u64, hot: f64, ghosts: f64) -> Cache<Key, V, Weight>
where
    Weight: Weighter<Key, V>,
{
    let options = OptionsBuilder::new()
        // Each shard has the same.
        .weight_capacity(bytes - bytes % shards)
        .estimated_items_capacity(usize::try_from(items).unwrap_or(usize::MAX))
        .shards(usize::try_from(shards).unwrap_or(1))
        .hot_allocation(hot)
        .ghost_allocation(ghosts)
        .build()
        .expect("both capacities are set");
    Cache::with_options(options, Weight, DefaultHashBuilder::default(), DefaultLifecycle::default())
}

/// The cache as a block sees it.
pub(super) struct CacheView {
    cache: Arc<BlockCache>,
    block: u64,
}

impl CacheView {
    /// For a block that was just opened.
    pub(super) fn new(cache: &Arc<BlockCache>) -> Self {
        // ORDERING: Relaxed; numbers only have to differ.
        let block = cache.blocks.fetch_add(1, Ordering::Relaxed);
        Self { cache: Arc::clone(cache), block }
    }

    /// What there is of the part of `length` stored bytes at `offset`.
    pub(super) fn look_up<T: KeptPart>(&self, offset: u64, length: u64) -> Lookup<T> {
        if length < STORED_BYTES_MIN {
            return Lookup::Nothing;
        }
        let key = (self.block, offset);
        match self.cache.parts.get(&key) {
            Some(kept) => T::from_part(&kept.part).map_or_else(
                || {
                    // ORDERING: Relaxed; a number to look at.
                    self.cache.unfit.fetch_add(1, Ordering::Relaxed);
                    Lookup::Nothing
                },
                |part| Lookup::Kept(Arc::clone(part)),
            ),
            None if self.cache.noted.remove(&key).is_some() => Lookup::Wanted,
            None => Lookup::New,
        }
    }

    /// Notes that the part of `length` stored bytes at `offset` was used.
    pub(super) fn note<T: KeptPart>(&self, offset: u64, length: u64) {
        assert!(length >= STORED_BYTES_MIN, "a part of {length} bytes is never kept, and need not be noted");
        self.cache.noted.insert((self.block, offset), self.cache.growth[T::KIND].estimate(length));
    }

    /// Keeps the part of `length` stored bytes at `offset`, unless it is too large.
    pub(super) fn keep<T: KeptPart>(&self, offset: u64, length: u64, part: Arc<T>) {
        assert!(length >= STORED_BYTES_MIN, "a part of {length} bytes is decoded as quickly as it is found");
        let bytes = ENTRY_BYTES + (size_of::<T>() + part.heap_bytes()) as u64;
        self.cache.growth[T::KIND].add(length, bytes);
        if bytes > self.cache.part_bytes_max {
            return self.keep_unfit(offset);
        }
        self.cache.parts.insert((self.block, offset), Kept { part: part.into_part(), bytes });
    }

    /// Remembers that the part at `offset` cannot be kept.
    pub(super) fn keep_unfit(&self, offset: u64) {
        self.cache.parts.insert((self.block, offset), Kept { part: Part::Unfit, bytes: ENTRY_BYTES });
    }
}

impl KeptPart for KeptFloats {
    const KIND: usize = 0;

    fn from_part(part: &Part) -> Option<&Arc<Self>> {
        if let Part::Floats(kept) = part { Some(kept) } else { None }
    }

    fn into_part(self: Arc<Self>) -> Part {
        Part::Floats(self)
    }

    fn heap_bytes(&self) -> usize {
        Self::heap_bytes(self)
    }
}

impl KeptPart for KeptHistograms {
    const KIND: usize = 1;

    fn from_part(part: &Part) -> Option<&Arc<Self>> {
        if let Part::Histograms(kept) = part { Some(kept) } else { None }
    }

    fn into_part(self: Arc<Self>) -> Part {
        Part::Histograms(self)
    }

    fn heap_bytes(&self) -> usize {
        Self::heap_bytes(self)
    }
}

impl KeptPart for KeptPage {
    const KIND: usize = 2;

    fn from_part(part: &Part) -> Option<&Arc<Self>> {
        if let Part::Page(kept) = part { Some(kept) } else { None }
    }

    fn into_part(self: Arc<Self>) -> Part {
        Part::Page(self)
    }

    fn heap_bytes(&self) -> usize {
        let of_entry = |entry: &Entry| {
            let chunks = entry.chunks.capacity() * size_of::<ChunkEntry>();
            size_of::<Entry>() + entry.labels.capacity() * size_of::<u32>() + chunks
        };
        let labels = self.labels.iter().flatten().map(Labels::memory_bytes).sum::<usize>();
        let entries = self.entries.iter().map(of_entry).sum::<usize>();
        entries + labels + self.labels.capacity() * size_of::<Option<Labels>>()
    }
}

impl KeptPage {
    /// Entries of which no label set was made yet.
    pub(super) fn new(entries: Vec<Entry>) -> Self {
        let labels = vec![None; entries.len()];
        Self { entries: Arc::new(entries), labels }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4 KiB are stored of each part.
    const LENGTH: u64 = 4 << 10;

    /// Asks for `parts` parts in turn, so many times; gives how often one was kept, and how often one was found.
    fn ask(cache: &Arc<BlockCache>, parts: u64, times: usize) -> (u64, u64) {
        let view = CacheView::new(cache);
        let (mut kept, mut found) = (0, 0);
        for offset in (0..times).flat_map(|_| 0..parts) {
            match view.look_up::<KeptPage>(offset, LENGTH) {
                Lookup::New => view.note::<KeptPage>(offset, LENGTH),
                Lookup::Wanted => {
                    kept += 1;
                    let labels = vec![None; (GROWTH * LENGTH) as usize / size_of::<Option<Labels>>()];
                    let page = KeptPage { entries: Arc::default(), labels };
                    view.keep(offset, LENGTH, Arc::new(page));
                }
                Lookup::Kept(_) => found += 1,
                Lookup::Nothing => unreachable!("nothing is short or unfit"),
            }
        }
        (kept, found)
    }

    #[test]
    fn what_fits_is_kept_and_what_does_not_is_read_as_without_a_cache() {
        const BYTES: u64 = 16 << 20;
        let fitting = BYTES / (2 * GROWTH * LENGTH);
        let (kept, found) = ask(&BlockCache::new(BYTES).unwrap(), fitting, 10);
        assert!(kept >= fitting * 9 / 10 && found >= fitting * 7, "{kept} kept, {found} found of {fitting} ten times");
        let large = 6 * fitting;
        let (kept, found) = ask(&BlockCache::new(BYTES).unwrap(), large, 10);
        assert!(kept <= large * 10 / 8, "{kept} kept, {found} found of {large} ten times");
    }

    #[test]
    fn what_is_too_large_for_a_shard_is_not_kept() {
        let cache = BlockCache::new(8 << 20).unwrap();
        let view = CacheView::new(&cache);
        let page = KeptPage { entries: Arc::default(), labels: vec![None; 1 << 18] };
        view.keep(7, LENGTH, Arc::new(page));
        assert!(matches!(view.look_up::<KeptPage>(7, LENGTH), Lookup::Nothing));
        assert_eq!(cache.figures(), CacheFigures { hits: 0, misses: 1, bytes: ENTRY_BYTES });
    }
}
