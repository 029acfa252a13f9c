//! The ledger: the only place where the manifest changes, and the readers' view of it.
//!
//! Invariants: a change is durable before a reader sees it; readers always see one manifest with its blocks open; a
//! block's id is never reused, not even that of an abandoned block, because a manifest that failed to become durable
//! may still be found by the next start. A change is one generation; no horizon, flushed epoch or position of the
//! replay goes back.
//! Threads: the flusher and the maintenance thread change it, one at a time; any number read.
//! Failure: a change that cannot be made durable did not happen. The files of dropped blocks are removed after it, and
//! those that cannot be removed then are removed at the next start.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ogive_journal::Disk;

use crate::reserve::Reserve;
use crate::sway::sway;
use crate::view::View;
use crate::{BlockId, Blocks, Error, Manifest};

/// See the module.
pub(crate) struct Ledger {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    reserve: Arc<Reserve>,
    manifest: Mutex<Manifest>,
    view: Mutex<Arc<View>>,
}

impl Ledger {
    pub(crate) fn new(disk: Arc<dyn Disk>, directory: &Path, manifest: Manifest, blocks: Blocks) -> Self {
        let view = View { manifest: Arc::new(manifest.clone()), blocks, ..View::default() };
        assert_eq!(view.blocks.len(), manifest.blocks.len(), "each live block is open, or says why it is not");
        let reserve = Arc::new(Reserve::new(Arc::clone(&disk), directory, 0));
        let (directory, view) = (directory.to_owned(), Mutex::new(Arc::new(view)));
        Self { disk, directory, reserve, manifest: Mutex::new(manifest), view }
    }

    /// With readers to whom a cell of a rollup of floats costs as much as `float_cell_cost` samples.
    pub(crate) fn with_float_cell_cost(mut self, float_cell_cost: u64) -> Self {
        let view = View { float_cell_cost, ..View::clone(&self.view()) };
        self.view = Mutex::new(Arc::new(view));
        self
    }

    /// With a reserve of up to `bytes` for its changes.
    pub(crate) fn with_reserve(self, bytes: u64) -> Arc<Self> {
        let reserve = Arc::new(Reserve::new(Arc::clone(&self.disk), &self.directory, bytes));
        Arc::new(Self { reserve, ..self })
    }

    /// The space for what makes room.
    pub(crate) fn reserve(&self) -> &Arc<Reserve> {
        &self.reserve
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `act` while the manifest cannot change.
    pub(crate) fn frozen<T>(&self, act: impl FnOnce(&Manifest) -> T) -> T {
        act(&self.manifest())
    }

    /// Opens the blocks again that could not be opened: their files may have been healed.
    pub(crate) fn reopen(&self) {
        let held = self.manifest();
        let before = self.view();
        assert_eq!(before.manifest.generation, held.generation, "readers see the newest change");
        if before.blocks.failures().next().is_some() {
            let blocks = before.blocks.reopened(&*self.disk, &self.directory);
            assert_eq!(blocks.len(), before.blocks.len(), "the same blocks are live");
            let view = View { blocks, ..View::clone(&before) };
            *self.view.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
        }
    }

    /// The first of `count` ids that nobody had.
    pub(crate) fn take_ids(&self, count: u64) -> BlockId {
        let mut manifest = self.manifest();
        let first = BlockId(manifest.next_block);
        manifest.next_block += count;
        assert!(first.0 + count == manifest.next_block, "the ids from {} on belong to whoever asked", first.0);
        first
    }

    /// Shows readers that the heads of `epoch` are in the blocks: they held nothing.
    pub(crate) fn nothing_was_left(&self, epoch: u64) {
        // A change that is in progress shows its view when it is done, and with it the epoch that it began with.
        let _held = self.manifest();
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(view.flushed < epoch, "epoch {epoch} is flushed behind {}", view.flushed);
        *view = Arc::new(View { flushed: epoch, ..View::clone(&view) });
    }

    /// Makes a change durable and shows it to readers. `flushed` is the epoch whose heads are in the blocks now.
    pub(crate) fn commit(&self, flushed: Option<u64>, change: impl FnOnce(&mut Manifest)) -> Result<(), Error> {
        let mut held = self.manifest();
        let mut next = held.clone();
        next.generation += 1;
        let before = self.view();
        assert_eq!(before.manifest.generation, held.generation, "readers see the newest change");
        change(&mut next);
        assert_eq!(next.generation, held.generation + 1, "a change is one generation");
        assert!(
            next.next_block >= held.next_block,
            "no id of a block is used again: {} {}",
            next.next_block,
            held.next_block
        );
        debug_assert!(
            next.blocks.iter().all(|meta| meta.id.0 < next.next_block),
            "each block has an id that was taken: {} is the next",
            next.next_block
        );
        assert!(next.replay_from >= held.replay_from, "a replay begins no earlier: {:?}", next.replay_from);
        debug_assert!(
            held.horizons.iter().all(|one| next.horizon(&one.tenant, one.resolution_ms) >= one.until),
            "what was dropped does not come back: {:?}",
            next.horizons
        );
        sway();
        let blocks = before.blocks.follow(&*self.disk, &self.directory, &next)?;
        self.reserve.spend(|| next.replace(&*self.disk, &self.directory))?;
        sway();
        let flushed = flushed.unwrap_or(before.flushed);
        assert!(flushed >= before.flushed, "epoch {flushed} is flushed behind {}", before.flushed);
        let view = View { manifest: Arc::new(next.clone()), blocks, flushed, ..View::clone(&before) };
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
        let live: HashSet<BlockId> = next.blocks.iter().map(|meta| meta.id).collect();
        let gone: Vec<BlockId> = held.blocks.iter().map(|meta| meta.id).filter(|id| !live.contains(id)).collect();
        assert_eq!(live.len(), next.blocks.len(), "a block is live once");
        *held = next;
        drop(held);
        sway();
        // Readers of an older view keep their open files.
        for id in gone {
            let _ = self.disk.remove(&Manifest::block_path(&self.directory, id));
        }
        self.reserve.restore();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ogive_journal::SimulatedDisk;

    use super::*;

    /// A flush that had nothing to write ended while the maintenance thread changed the manifest, whose view then took
    /// the epoch back to what it was before: shards had released more than readers knew of, and had them look again
    /// until the next flush.
    #[test]
    fn a_change_does_not_take_back_the_epoch_of_a_flush_that_ends_meanwhile() {
        let disk = SimulatedDisk::new(1);
        let directory = Path::new("data");
        disk.create_dir_all(directory).unwrap();
        let ledger = Ledger::new(Arc::new(disk), directory, Manifest::default(), Blocks::default());
        std::thread::scope(|scope| {
            let changed = ledger.commit(None, |_| {
                let flush = scope.spawn(|| ledger.nothing_was_left(7));
                // It waits for the change; who does not is through long before.
                for _ in 0..50 {
                    if !flush.is_finished() {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                }
            });
            changed.unwrap();
        });
        assert_eq!((ledger.view().flushed, ledger.view().manifest.generation), (7, 1));
    }
}
