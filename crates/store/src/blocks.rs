//! The live blocks of a store: opened by its manifest, asked together.
//!
//! Invariants: a set never changes; a flush makes a new one that shares the blocks. A question never leaves a
//! block out in silence.
//! Threads: any number ask at once.
//! Limits: [`INDEX_BYTES_MAX`] of indexes stay in memory.
//! Failure: a block that cannot be opened does not stop the start: questions that could touch it are answered
//! with its error, all others as ever.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use ogive_journal::Disk;
use ogive_model::{Matcher, Selection, SeriesData, TimeRange};

use crate::manifest::Manifest;
use crate::{Block, BlockId, BlockMeta, Budget, Error};

/// 256 MiB: the indexes of some three million series with nine labels each.
pub const INDEX_BYTES_MAX: usize = 256 << 20;

/// A block that the manifest names.
struct Live {
    meta: BlockMeta,
    block: Result<Block, Error>,
}

/// The live blocks, by ascending id. Cloning shares them.
#[derive(Clone, Default)]
pub struct Blocks(Vec<Arc<Live>>);

impl Blocks {
    /// Opens the blocks that `manifest` names. Those that cannot be opened stay named: see [`Blocks::failures`].
    #[must_use]
    pub fn open(disk: &dyn Disk, directory: &Path, manifest: &Manifest) -> Self {
        let open = |meta: &BlockMeta| Arc::new(Live::open(disk, directory, meta));
        Self(manifest.blocks.iter().map(open).collect())
    }

    /// This set and the block that was written last.
    ///
    /// # Errors
    /// When it cannot be opened.
    ///
    /// # Panics
    /// When its id does not follow those of the set.
    pub fn with(&self, disk: &dyn Disk, directory: &Path, meta: &BlockMeta) -> Result<Self, Error> {
        if let Some(last) = self.0.last() {
            assert!(last.meta.id < meta.id, "block {:?} follows {:?}", meta.id, last.meta.id);
        }
        let block = Block::open(disk, &Manifest::block_path(directory, meta.id))?;
        let mut blocks = self.0.clone();
        blocks.push(Arc::new(Live { meta: meta.clone(), block: Ok(block) }));
        Ok(Self(blocks))
    }

    /// Number of blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the manifest says of each.
    pub fn metas(&self) -> impl Iterator<Item = &BlockMeta> {
        self.0.iter().map(|live| &live.meta)
    }

    /// The blocks that cannot be read, and why.
    pub fn failures(&self) -> impl Iterator<Item = (BlockId, &Error)> {
        self.0.iter().filter_map(|live| live.block.as_ref().err().map(|error| (live.meta.id, error)))
    }

    /// What each block holds of the selection, in the order of ids: sources for [`crate::merge`].
    ///
    /// # Errors
    /// [`Error::TooManySamples`], [`Error::Corrupt`], or the disk's.
    pub fn select(&self, selection: &Selection, budget: &mut Budget) -> Result<Vec<Vec<SeriesData>>, Error> {
        let mut sources = Vec::new();
        for block in self.touching(selection.range) {
            sources.push(block?.select(selection, budget)?);
        }
        self.trim(selection.range, INDEX_BYTES_MAX);
        Ok(sources)
    }

    /// The label names of the series that `matchers` accept, of all blocks that touch `range`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or the disk's.
    pub fn label_names(&self, matchers: &[Matcher], range: TimeRange) -> Result<BTreeSet<String>, Error> {
        let mut names = BTreeSet::new();
        for block in self.touching(range) {
            names.extend(block?.label_names(matchers)?);
        }
        self.trim(range, INDEX_BYTES_MAX);
        Ok(names)
    }

    /// The values of label `name` of the series that `matchers` accept, of all blocks that touch `range`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or the disk's.
    pub fn label_values(&self, name: &str, matchers: &[Matcher], range: TimeRange) -> Result<BTreeSet<String>, Error> {
        let mut values = BTreeSet::new();
        for block in self.touching(range) {
            values.extend(block?.label_values(name, matchers)?);
        }
        self.trim(range, INDEX_BYTES_MAX);
        Ok(values)
    }

    fn touching(&self, range: TimeRange) -> impl Iterator<Item = Result<&Block, Error>> {
        let touches =
            move |live: &&Arc<Live>| range.start_ms < live.meta.time_max && live.meta.time_min <= range.end_ms;
        self.0.iter().filter(touches).map(|live| live.block.as_ref().map_err(|error| live.refusal(error)))
    }

    /// Forgets the indexes of blocks outside `range` when all together take more than `bytes_max`.
    fn trim(&self, range: TimeRange, bytes_max: usize) {
        let readable = || self.0.iter().filter_map(|live| live.block.as_ref().ok());
        let held: usize = readable().map(Block::index_bytes).sum();
        if held > bytes_max {
            readable().filter(|block| !block.overlaps(range)).for_each(|block| {
                block.release_index();
            });
        }
    }
}

impl Live {
    fn open(disk: &dyn Disk, directory: &Path, meta: &BlockMeta) -> Self {
        let path = Manifest::block_path(directory, meta.id);
        let block = Block::open(disk, &path).and_then(|block| {
            let found = (block.time_bounds(), block.series_count(), block.sample_count());
            let named = ((meta.time_min, meta.time_max), meta.series, meta.samples);
            if found == named {
                return Ok(block);
            }
            let problem = format!("it holds {found:?} where the manifest names {named:?}");
            Err(Error::Corrupt { path, offset: 0, problem })
        });
        Self { meta: meta.clone(), block }
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
