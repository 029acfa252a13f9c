//! The live blocks of a store: opened by its manifest, queried together.
//!
//! Invariants: a set never changes; a flush makes a new one that shares the blocks. A query never silently leaves out a
//! block.
//! Threads: any number of readers.
//! Limits: [`INDEX_BYTES_MAX`] of indexes stay in memory.
//! Failure: a block that cannot be opened does not prevent the start: queries that could touch it get its error, all
//! others work normally.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use ogive_journal::Disk;
use ogive_model::{Labels, Matcher, Ms, Opening, SelectError, Selection, SeriesData, Tenant, TimeRange};

use crate::block::{BlockCache, CacheFigures};
use crate::first::First;
use crate::manifest::Manifest;
use crate::merge::merge_telling;
use crate::series_request::{BlockRequest, SeriesRequest};
use crate::tombstone::{self, Tombstone};
use crate::{Block, BlockId, BlockMeta, Budget, Error};

/// 256 MiB: the indexes of some three million series with nine labels each.
pub const INDEX_BYTES_MAX: usize = 256 << 20;

/// Who waits is asked each time so many series were looked at, and hears how many they are.
const LOOK_EACH: usize = 1024;

/// A block that the manifest names.
struct Live {
    meta: BlockMeta,
    block: Arc<Result<Block, Error>>,
}

/// The live blocks. Cloning shares them.
#[derive(Clone, Default)]
pub struct Blocks {
    live: Vec<Arc<Live>>,
    /// Of what queries decode of them.
    cache: Option<Arc<BlockCache>>,
}

impl Blocks {
    /// Opens the blocks that `manifest` names, with a `cache` for queries. Those that cannot be opened stay named: see
    /// [`Blocks::failures`].
    pub(crate) fn open(disk: &dyn Disk, directory: &Path, manifest: &Manifest, cache: Option<Arc<BlockCache>>) -> Self {
        let open = |meta: &BlockMeta| Arc::new(Live::open(disk, directory, meta, cache.as_ref()));
        Self { live: manifest.blocks.iter().map(open).collect(), cache }
    }

    /// These blocks, those that could not be opened opened again.
    pub(crate) fn reopened(&self, disk: &dyn Disk, directory: &Path) -> Self {
        let again = |live: &Arc<Live>| match &*live.block {
            Ok(_) => Arc::clone(live),
            Err(_) => Arc::new(Live::open(disk, directory, &live.meta, self.cache.as_ref())),
        };
        self.with(self.live.iter().map(again).collect())
    }

    /// A set of others, with the same cache.
    fn with(&self, live: Vec<Arc<Live>>) -> Self {
        Self { live, cache: self.cache.clone() }
    }

    /// The blocks that `manifest` names: those of this set, and the others opened.
    ///
    /// # Errors
    /// When a block that is new cannot be opened.
    pub(crate) fn follow(&self, disk: &dyn Disk, directory: &Path, manifest: &Manifest) -> Result<Self, Error> {
        let known: HashMap<BlockId, &Arc<Live>> = self.live.iter().map(|live| (live.meta.id, live)).collect();
        let mut blocks = Vec::with_capacity(manifest.blocks.len());
        for meta in &manifest.blocks {
            blocks.push(match known.get(&meta.id) {
                Some(live) if live.meta == *meta => Arc::clone(live),
                // What is known of a block may change while its bytes do not.
                Some(live) => {
                    let of = |meta: &BlockMeta| (meta.time_min, meta.time_max, meta.series, meta.samples, meta.bytes);
                    assert_eq!(of(&live.meta), of(meta), "block {} is what it was", meta.id.0);
                    Arc::new(Live { meta: meta.clone(), block: live.block.clone() })
                }
                None => {
                    let live = Live::open(disk, directory, meta, self.cache.as_ref());
                    live.readable()?;
                    Arc::new(live)
                }
            });
        }
        debug_assert_eq!(known.len(), self.live.len(), "a block is in the set once");
        assert_eq!(blocks.len(), manifest.blocks.len(), "each block that the manifest names is in the set");
        Ok(self.with(blocks))
    }

    /// The block `id`, which must be readable.
    ///
    /// # Errors
    /// Why it is not.
    ///
    /// # Panics
    /// When it is not in the set.
    pub(crate) fn readable(&self, id: BlockId) -> Result<&Block, Error> {
        self.live.iter().find(|live| live.meta.id == id).expect("a live block is asked for").readable()
    }

    /// Number of blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// True when there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// How the cache is used.
    pub(crate) fn cache_figures(&self) -> CacheFigures {
        self.cache.as_ref().map_or_else(CacheFigures::default, |cache| cache.figures())
    }

    /// What the manifest says of each.
    pub fn metas(&self) -> impl DoubleEndedIterator<Item = &BlockMeta> + ExactSizeIterator {
        self.live.iter().map(|live| &live.meta)
    }

    /// The blocks that cannot be read, and why.
    pub fn failures(&self) -> impl Iterator<Item = (BlockId, &Error)> {
        self.live.iter().filter_map(|live| (*live.block).as_ref().err().map(|error| (live.meta.id, error)))
    }

    /// What the blocks of `tenant` hold of the selection, merged in the order of their arrival; ascending by (labels,
    /// kind).
    ///
    /// # Errors
    /// [`SelectError::TooManySamples`], [`Error::Corrupt`], or the disk's.
    pub fn select(
        &self,
        tenant: &Tenant,
        selection: &Selection,
        budget: &mut Budget,
    ) -> Result<Vec<SeriesData>, Error> {
        let wanted = &|_, _| true;
        self.read(BlockRequest { tenant, resolution_ms: 0, selection, wanted, tombstones: &[] }, budget)
    }

    /// As [`Blocks::select`], of blocks of one resolution, without what is deleted.
    pub(crate) fn read(&self, requested: BlockRequest<'_>, budget: &mut Budget) -> Result<Vec<SeriesData>, Error> {
        let BlockRequest { tenant, resolution_ms, selection, wanted, tombstones } = requested;
        let mut found = Vec::new();
        // What is left of a series whose samples were deleted can only be distinguished from its samples.
        let with_samples = selection.labels_only.then(|| Selection { labels_only: false, ..selection.clone() });
        for live in self.live(tenant, selection.range).filter(|live| live.meta.resolution_ms == resolution_ms) {
            let block = live.readable();
            let deleted: Vec<&Tombstone> = tombstones.iter().filter(|one| one.concerns(&live.meta)).collect();
            let requested = with_samples.as_ref().filter(|_| !deleted.is_empty()).unwrap_or(selection);
            let mut part = block.and_then(|block| block.select_of(requested, wanted, budget));
            for data in part.iter_mut().flatten() {
                deleted.iter().for_each(|tombstone| tombstone.strip(data, resolution_ms));
                data.rollup_ms = resolution_ms;
            }
            if let (Ok(part), false) = (&mut part, deleted.is_empty()) {
                part.retain(|data| !tombstone::is_empty(data));
            }
            // One after the other, so that a series of a thousand blocks is not in memory a thousand times.
            match part {
                Ok(part) => {
                    found = merge_telling(vec![found, part], |labels, clash| budget.clash(labels, clash));
                }
                Err(error) => budget.miss(error, || "all samples of its block".into())?,
            }
        }
        if selection.labels_only {
            found.iter_mut().for_each(tombstone::clear);
        }
        self.trim(selection.range, INDEX_BYTES_MAX);
        debug_assert!(
            found.is_sorted_by(|one, next| (&one.labels, one.meta.kind) < (&next.labels, next.meta.kind)),
            "each series of the {} is in the answer once, ascending",
            found.len()
        );
        Ok(found)
    }

    /// Those that hold samples as they came, of the last `within` before the newest of all, and can be read.
    pub(crate) fn recent(&self, within: Ms) -> Self {
        debug_assert!(within >= Ms::ZERO, "blocks of the last {within}");
        let newest = self.metas().map(|meta| meta.time_max).max().unwrap_or_default();
        let is_recent = |live: &&Arc<Live>| {
            let meta = &live.meta;
            meta.resolution_ms == 0 && meta.time_max > newest.saturating_sub(within) && live.block.is_ok()
        };
        self.with(self.live.iter().filter(is_recent).cloned().collect())
    }

    /// All that can be read.
    pub(crate) fn readable_all(&self) -> impl Iterator<Item = (&BlockMeta, &Block)> {
        self.live.iter().filter_map(|live| (*live.block).as_ref().ok().map(|block| (&live.meta, block)))
    }

    /// The label names of the series that `matchers` accept, of all blocks of `tenant` that touch `range`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or the disk's.
    pub fn label_names(
        &self,
        tenant: &Tenant,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<BTreeSet<String>, Error> {
        let mut names = BTreeSet::new();
        for block in self.touching(tenant, range) {
            names.extend(block?.label_names(matchers)?);
        }
        self.trim(range, INDEX_BYTES_MAX);
        Ok(names)
    }

    /// Adds the values of label `name` of the series that the matchers accept, of all blocks that touch the range.
    pub(crate) fn label_values(
        &self,
        SeriesRequest { tenant, matchers, range }: SeriesRequest<'_>,
        name: &str,
        first: &mut First<String>,
    ) -> Result<(), Error> {
        for block in self.touching(tenant, range) {
            block?.add_label_values(name, matchers, first)?;
        }
        self.trim(range, INDEX_BYTES_MAX);
        Ok(())
    }

    /// Adds the label sets of what [`Blocks::read`] reads.
    pub(crate) fn label_sets(
        &self,
        requested: BlockRequest<'_>,
        first: &mut First<Labels>,
        opening: &Opening<'_>,
    ) -> Result<(), Error> {
        let BlockRequest { tenant, resolution_ms, selection, wanted, tombstones } = requested;
        let mut counted = 0;
        for live in self.live(tenant, selection.range).filter(|live| live.meta.resolution_ms == resolution_ms) {
            let deleted: Vec<&Tombstone> = tombstones.iter().filter(|one| one.concerns(&live.meta)).collect();
            // As in `read`: what is left can only be distinguished from the samples.
            let requested = Selection { labels_only: deleted.is_empty(), ..selection.clone() };
            live.readable()?.each_selected(&requested, wanted, &mut Budget::new(usize::MAX), |mut data| {
                deleted.iter().for_each(|tombstone| tombstone.strip(&mut data, resolution_ms));
                let is_gone = !deleted.is_empty() && tombstone::is_empty(&data);
                counted += 1;
                if counted % LOOK_EACH == 0 {
                    (opening.counted)(counted);
                    if (opening.cancelled)() {
                        return false;
                    }
                }
                is_gone || first.add(&data.labels)
            })?;
            if (opening.cancelled)() {
                return Err(SelectError::Cancelled.into());
            }
            first.check()?;
        }
        self.trim(selection.range, INDEX_BYTES_MAX);
        Ok(())
    }

    /// The names of metrics that have histograms, of all blocks of `tenant` that touch `range`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or the disk's.
    pub fn histogram_names(&self, tenant: &Tenant, range: TimeRange) -> Result<BTreeSet<String>, Error> {
        let mut names = BTreeSet::new();
        for block in self.touching(tenant, range) {
            names.extend(block?.histogram_names()?);
        }
        self.trim(range, INDEX_BYTES_MAX);
        Ok(names)
    }

    /// The blocks of `tenant` in one resolution that touch `range`: their numbers in this set, for
    /// [`Blocks::numbered`].
    pub(crate) fn numbers(&self, tenant: &Tenant, resolution_ms: u32, range: TimeRange) -> Vec<usize> {
        let is_requested = |live: &Live| live.meta.resolution_ms == resolution_ms && live.touches(tenant, range);
        (0..self.live.len()).filter(|number| is_requested(&self.live[*number])).collect()
    }

    /// What the manifest says of a block, and the block.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn numbered(&self, number: usize) -> (&BlockMeta, Result<&Block, Error>) {
        let live = &self.live[number];
        (&live.meta, live.readable())
    }

    fn touching(&self, tenant: &Tenant, range: TimeRange) -> impl Iterator<Item = Result<&Block, Error>> {
        self.live(tenant, range).map(Live::readable)
    }

    fn live(&self, tenant: &Tenant, range: TimeRange) -> impl Iterator<Item = &Live> {
        self.live.iter().map(|live| &**live).filter(move |live| live.touches(tenant, range))
    }

    /// Bytes of the indexes that are in memory.
    pub(crate) fn index_bytes(&self) -> usize {
        self.openable().map(Block::index_bytes).sum()
    }

    /// The blocks that could be opened.
    fn openable(&self) -> impl Iterator<Item = &Block> {
        self.live.iter().filter_map(|live| (*live.block).as_ref().ok())
    }

    /// Forgets the indexes of blocks outside `range` when all together take more than `bytes_max`.
    pub(crate) fn trim(&self, range: TimeRange, bytes_max: usize) {
        if self.index_bytes() > bytes_max {
            self.openable().filter(|block| !block.overlaps(range)).for_each(|block| {
                block.release_index();
            });
        }
    }
}

impl Live {
    fn open(disk: &dyn Disk, directory: &Path, meta: &BlockMeta, cache: Option<&Arc<BlockCache>>) -> Self {
        let path = Manifest::block_path(directory, meta.id);
        let block = Block::open(disk, &path).and_then(|block| {
            let (first, last) = block.time_bounds();
            let found = ((first.0, last.0), block.series_count(), block.sample_count());
            let named = ((meta.time_min.0, meta.time_max.0), meta.series, meta.samples);
            if found == named {
                return Ok(block.with_cache(cache));
            }
            let problem = format!("it holds {found:?} where the manifest names {named:?}");
            Err(Error::Corrupt { path, offset: 0, problem })
        });
        Self { meta: meta.clone(), block: Arc::new(block) }
    }

    /// Whether it is the tenant's and a sample of it can be inside `range`.
    fn touches(&self, tenant: &Tenant, range: TimeRange) -> bool {
        self.meta.tenant == *tenant && range.start < self.meta.time_max && self.meta.time_min <= range.end
    }

    /// The block, or why it cannot be read.
    fn readable(&self) -> Result<&Block, Error> {
        (*self.block).as_ref().map_err(|error| self.refusal(error))
    }

    /// The error of a block that could not be opened, for whoever asks it.
    fn refusal(&self, error: &Error) -> Error {
        match error {
            Error::Corrupt { path, offset, problem } => {
                Error::Corrupt { path: path.clone(), offset: *offset, problem: problem.clone() }
            }
            Error::TooNew { path, found, known } => Error::TooNew { path: path.clone(), found: *found, known: *known },
            other => Error::Unreadable { block: self.meta.id.0, problem: other.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use ogive_journal::{Position, SimulatedDisk};
    use ogive_model::MatchOp;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{any_source, bits, model_select};
    use crate::{block, merge};

    const DIRECTORY: &str = "/store";

    fn write(disk: &dyn Disk, sources: &[Vec<SeriesData>]) -> Manifest {
        disk.create_dir_all(Path::new(DIRECTORY)).unwrap();
        let mut manifest = Manifest { replay_from: Position(1), ..Manifest::default() };
        for source in sources {
            let id = BlockId(manifest.next_block);
            manifest.next_block += 1;
            manifest
                .blocks
                .extend(block::write(disk, Path::new(DIRECTORY), id, source.iter().cloned().map(Ok)).unwrap());
        }
        manifest
    }

    fn everything(range: TimeRange) -> Selection {
        Selection::new(Vec::new(), range)
    }

    proptest! {
        #[test]
        fn blocks_answer_as_their_merged_sources_do(
            sources in proptest::collection::vec(any_source(6, 30), 0..4), start_ms in -60_000..200_000_i64,
        ) {
            let disk = SimulatedDisk::new(0);
            let manifest = write(&disk, &sources);
            let blocks = Blocks::open(&disk, Path::new(DIRECTORY), &manifest, None);
            for range in [TimeRange::ALL, TimeRange::from_ms(start_ms, start_ms + 30_000)] {
                let selection = everything(range);
                let cut: Vec<_> = sources.iter().map(|source| model_select(source, &selection)).collect();
                let found = blocks.select(&Tenant::default(), &selection, &mut Budget::new(usize::MAX)).unwrap();
                prop_assert_eq!(bits(&found), bits(&merge(cut)));
            }
            let carried = |data: &SeriesData| data.labels.get("a").to_owned();
            let all = merge(sources.iter().map(|source| model_select(source, &everything(TimeRange::ALL))).collect());
            let of_m1 = all.iter().filter(|data| data.labels.metric_name() == "m1");
            let values: BTreeSet<String> = of_m1.clone().map(carried).filter(|value| !value.is_empty()).collect();
            let names: BTreeSet<String> = of_m1.flat_map(|data| data.labels.iter().map(|(name, _)| name.to_owned())).collect();
            let m1 = [Matcher::new("__name__", MatchOp::Equal, "m1").unwrap()];
            for limit in [0, 1, values.len(), usize::MAX] {
                let mut first = First::new(limit, Default::default());
                let requested = SeriesRequest { tenant: &Tenant::default(), matchers: &m1, range: TimeRange::ALL };
                blocks.label_values(requested, "a", &mut first).unwrap();
                prop_assert!(first.into_set().unwrap().iter().eq(values.iter().take(limit)));
            }
            prop_assert_eq!(blocks.label_names(&Tenant::default(), &m1, TimeRange::ALL).unwrap(), names);
            blocks.trim(TimeRange::from_ms(i64::MAX, i64::MAX), 0);
            prop_assert!(blocks.live.iter().all(|live| (*live.block).as_ref().unwrap().index_bytes() == 0));
        }
    }

    #[test]
    fn a_block_that_cannot_be_opened_answers_only_questions_that_touch_it_with_its_error() {
        use crate::testing::empty;
        use ogive_model::{Kind, Labels, Temporality};
        let source = |time: i64| {
            let mut data = empty(Labels::new([("__name__", "up")]).unwrap(), Kind::Float, Temporality::Gauge);
            (data.floats.times, data.floats.values) = (vec![time], vec![1.0]);
            vec![data]
        };
        let disk = SimulatedDisk::new(0);
        let manifest = write(&disk, &[source(1000), source(2000), source(3000)]);
        let path = |id| Manifest::block_path(Path::new(DIRECTORY), BlockId(id));
        disk.put(&path(0), vec![0; 300]);
        disk.remove(&path(1)).unwrap();
        let blocks = Blocks::open(&disk, Path::new(DIRECTORY), &manifest, None);
        assert_eq!((blocks.len(), blocks.failures().count()), (3, 2));
        let ask = |start_ms, end_ms| {
            let selection = everything(TimeRange::from_ms(start_ms, end_ms));
            blocks.select(&Tenant::default(), &selection, &mut Budget::new(9)).map(|found| found.len())
        };
        assert!(matches!(ask(0, 1000), Err(Error::Corrupt { path: named, .. }) if named == path(0)));
        assert!(matches!(ask(1000, 2000), Err(Error::Unreadable { block: 1, .. })));
        assert_eq!(ask(2000, 3000).unwrap(), 1);
        assert_eq!((blocks.recent(Ms::MAX).len(), blocks.recent(Ms::ZERO).len()), (1, 0));
        // A file that is good but not the one that the manifest names.
        disk.put(&path(1), disk.read(&path(2)).unwrap());
        let blocks = Blocks::open(&disk, Path::new(DIRECTORY), &manifest, None);
        assert_eq!(blocks.failures().count(), 2);
    }
}
