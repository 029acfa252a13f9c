//! What queries decoded of blocks, kept for the next ones: chunks of floats and of histograms, and series pages.
//!
//! Invariants: what is kept was compared with its checksum when it was read. Blocks never change, so that nothing kept
//! becomes wrong: a block has a number of its own, and what is kept of one that is gone is evicted as what nobody asks
//! for.
//! - What is used once costs no more than a note of it: a part is kept when it is used again before as many others
//!   came as the cache could hold about twice. So a scan of everything keeps nothing, and evicts nothing.
//! - Texts are not kept, and what is not a query (compaction, rollups, scrubs, snapshots) reads past the cache.
//!
//! Threads: any number.
//! Limits: the bytes that it is made with, the room of its own tables included.

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
/// 1 KiB: a note of a part counts as so much of what is stored at least, so that notes are few.
const NOTE_STORED_BYTES_MIN: u64 = 1 << 10;
/// 64 KiB at most: more than chunks of histograms have.
const NOTE_STORED_BYTES_MAX: u64 = 64 << 10;
/// Half of its bytes: decoded parts take two to six times what is stored of them, so that those that were used once are
/// remembered while all that came since would fill the cache one to three times.
const NOTED_SHARE: u64 = 2;
/// 8 MiB, the least of a shard: hundreds of the largest parts, chunks of histograms.
const SHARD_BYTES_MIN: u64 = 8 << 20;
/// 64 shards: more threads than that do not read at once.
const SHARDS_MAX: u64 = 64;
/// 8 KiB, about what a part takes: for the room of the tables.
const PART_BYTES: u64 = 8 << 10;
/// A fifth is left to what came last.
const HOT_SHARE: f64 = 0.8;
/// A tenth, which is the most that one of them may take: the other notes are forgotten first in, first out.
const NOTED_HOT_SHARE: f64 = 0.1;

/// See the module.
pub(crate) struct BlockCache {
    parts: Cache<Key, Kept, Weight>,
    /// What was used once lately: how many bytes are stored of it.
    noted: Cache<Key, u32, Weight>,
    blocks: AtomicU64,
}

/// A part of a block: the block's number, and where the part begins.
type Key = (u64, u64);

/// What is kept of a part.
#[derive(Clone)]
pub(super) enum Part {
    Floats(Arc<KeptFloats>),
    Histograms(Arc<KeptHistograms>),
    Page(Arc<KeptPage>),
}

#[derive(Clone)]
struct Kept {
    part: Part,
    bytes: u64,
}

/// The entries of a series page, and those label sets that were made of them.
#[derive(Clone)]
pub(super) struct KeptPage {
    pub(super) entries: Arc<Vec<Entry>>,
    /// One an entry.
    pub(super) labels: Vec<Option<Labels>>,
}

/// What the cache has of a part.
pub(crate) enum Lookup<T> {
    Kept(Arc<T>),
    /// Nothing yet, and it is to be kept.
    Wanted,
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
    fn weight(&self, _: &Key, stored: &u32) -> u64 {
        u64::from(*stored).clamp(NOTE_STORED_BYTES_MIN, NOTE_STORED_BYTES_MAX)
    }
}

impl BlockCache {
    /// A cache of up to `bytes`; None for 0.
    pub(crate) fn new(bytes: u64) -> Option<Arc<Self>> {
        let noted = bytes / NOTED_SHARE;
        let notes = noted / NOTE_STORED_BYTES_MIN;
        let parts = bytes.saturating_sub(notes * ENTRY_BYTES);
        let shards = (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX).next_power_of_two();
        (bytes > 0).then(|| {
            Arc::new(Self {
                parts: table(parts, parts / PART_BYTES, shards, HOT_SHARE, 0.5),
                noted: table(noted, notes, shards, NOTED_HOT_SHARE, 0.0),
                blocks: AtomicU64::new(0),
            })
        })
    }

    /// How it is used.
    pub(crate) fn figures(&self) -> CacheFigures {
        let bytes = self.parts.weight() + self.noted.len() as u64 * ENTRY_BYTES;
        CacheFigures { hits: self.parts.hits(), misses: self.parts.misses(), bytes }
    }
}

/// An empty table of `bytes`, with room for about so many `items` from the beginning.
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

    /// What there is of the part of `length` stored bytes at `offset`, as `of` takes it.
    pub(super) fn look_up<T>(&self, offset: u64, length: u32, of: impl Fn(Part) -> Option<Arc<T>>) -> Lookup<T> {
        if u64::from(length) < STORED_BYTES_MIN {
            return Lookup::Nothing;
        }
        let BlockCache { parts, noted, .. } = &*self.cache;
        let key = (self.block, offset);
        if let Some(kept) = parts.get(&key).and_then(|kept| of(kept.part)) {
            return Lookup::Kept(kept);
        }
        if noted.remove(&key).is_some() {
            return Lookup::Wanted;
        }
        noted.insert(key, length);
        Lookup::Nothing
    }

    /// Keeps the part at `offset`.
    pub(super) fn keep(&self, offset: u64, part: Part) {
        let bytes = ENTRY_BYTES + part.memory_bytes() as u64;
        self.cache.parts.insert((self.block, offset), Kept { part, bytes });
    }
}

impl Part {
    pub(super) fn into_floats(self) -> Option<Arc<KeptFloats>> {
        if let Self::Floats(kept) = self { Some(kept) } else { None }
    }

    pub(super) fn into_histograms(self) -> Option<Arc<KeptHistograms>> {
        if let Self::Histograms(kept) = self { Some(kept) } else { None }
    }

    pub(super) fn into_page(self) -> Option<Arc<KeptPage>> {
        if let Self::Page(kept) = self { Some(kept) } else { None }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Floats(kept) => size_of_val(&**kept) + kept.heap_bytes(),
            Self::Histograms(kept) => size_of_val(&**kept) + kept.heap_bytes(),
            Self::Page(kept) => size_of_val(&**kept) + kept.heap_bytes(),
        }
    }
}

impl KeptPage {
    /// Entries of which no label set was made yet.
    pub(super) fn new(entries: Vec<Entry>) -> Self {
        let labels = vec![None; entries.len()];
        Self { entries: Arc::new(entries), labels }
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
