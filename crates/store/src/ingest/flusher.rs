//! The flusher: turns what the shards hold into a block for each tenant, and lets the journal go that it came from.
//!
//! Invariants: a sample is in a frozen head until the block that holds it is in the manifest and open; a reader
//! sees it in exactly one of both. A flush that failed is tried again with the same samples and the same block
//! id, so that what may be durable of the first try is only written again.
//! Threads: one, and whoever opens the store, before it.
//! Failure: the samples stay in memory and in the journal, and the flush is tried again each
//! [`RETRY_INTERVAL`]; reads go on. Blocks that cannot become one stay as they are.

use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ogive_journal::{Disk, Position};

use crate::block::{self, BlockId};
use crate::ingest::head::{Frozen, Thawing};
use crate::ingest::shard::ToShard;
use crate::ingest::stats::Stats;
use crate::ingest::writer::{Command, Mark};
use crate::ingest::{Clock, Observer, Queue};
use crate::{BlockMeta, Blocks, Error, Manifest, compact};

/// A second: a full disk is looked at often, and costs nothing meanwhile.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What readers read beside the heads.
#[derive(Clone, Default)]
pub(crate) struct View {
    pub(crate) blocks: Blocks,
    /// Frozen heads up to this epoch are in the blocks.
    pub(crate) flushed: u64,
}

/// Somebody's wish for a flush, with where to tell how it went.
pub(crate) type Wish = Sender<Result<Vec<BlockMeta>, Error>>;

#[derive(Default)]
struct Wishes {
    wanted: bool,
    answers: Vec<Wish>,
    closed: bool,
}

/// Where a flush is asked for.
#[derive(Default)]
pub(crate) struct Bell {
    wishes: Mutex<Wishes>,
    rung: Condvar,
}

impl Bell {
    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a flush; `answer` hears how it went.
    pub(crate) fn ring(&self, answer: Option<Wish>) {
        let mut wishes = self.wishes();
        wishes.wanted = true;
        wishes.answers.extend(answer);
        self.rung.notify_one();
    }

    pub(crate) fn close(&self) {
        self.wishes().closed = true;
        self.rung.notify_one();
    }

    /// Waits for a wish, at most `patience`; `None` when it is closed.
    fn wait(&self, patience: Duration) -> Option<Vec<Wish>> {
        let wishes = self.wishes();
        let waited = self.rung.wait_timeout_while(wishes, patience, |wishes| !wishes.wanted && !wishes.closed);
        let (mut wishes, _) = waited.unwrap_or_else(PoisonError::into_inner);
        wishes.wanted = false;
        let answers = std::mem::take(&mut wishes.answers);
        (!wishes.closed).then_some(answers)
    }
}

/// Samples that wait to become a block.
pub(crate) struct Pending {
    position: Position,
    windows: Vec<u8>,
    epoch: u64,
    frozen: Vec<Arc<Frozen>>,
}

/// See the module.
pub(crate) struct Flusher {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) directory: PathBuf,
    pub(crate) manifest: Manifest,
    pub(crate) shards: Vec<SyncSender<ToShard>>,
    pub(crate) view: Arc<Mutex<Arc<View>>>,
    pub(crate) queue: Arc<Queue<Command>>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) pending: Option<Pending>,
    /// This many neighbouring blocks of like size become one; see [`compact::plan`].
    pub(crate) compact_blocks: usize,
    /// Blocks that could not become one: not tried again.
    pub(crate) left_alone: HashSet<BlockId>,
}

impl Flusher {
    /// Flushes when it is asked to and at least each `interval`, until the bell is closed.
    pub(crate) fn run(mut self, bell: &Bell, interval: Duration) {
        let mut patience = interval;
        while let Some(answers) = bell.wait(patience) {
            let begun = self.clock.now_ns();
            let flushed = self.flush();
            patience = if flushed.is_ok() { interval } else { RETRY_INTERVAL.min(interval) };
            if let (Some(observer), Ok(written)) = (&self.observer, &flushed)
                && !written.is_empty()
            {
                observer.flush(self.clock.now_ns().saturating_sub(begun));
            }
            let mut flushed = Some(flushed);
            for answer in answers {
                // Whoever comes second hears that nothing was left to flush, or asks again.
                let _ = answer.send(flushed.take().unwrap_or(Ok(Vec::new())));
            }
            if self.pending.is_none() {
                self.compact(bell);
            }
        }
    }

    /// Makes one block of several where that is due, until it is due nowhere or the bell is closed.
    fn compact(&mut self, bell: &Bell) {
        while let Some(several) = compact::plan(&self.manifest.blocks, self.compact_blocks, &self.left_alone) {
            if bell.wishes().closed {
                return;
            }
            let ids: Vec<BlockId> = self.manifest.blocks[several.clone()].iter().map(|meta| meta.id).collect();
            match self.replace_by_one(several) {
                Ok(()) => self.stats.compactions.add(1),
                Err(_) => {
                    self.stats.compaction_failures.add(1);
                    self.left_alone.extend(ids);
                }
            }
        }
    }

    fn replace_by_one(&mut self, several: Range<usize>) -> Result<(), Error> {
        let disk = &*self.disk;
        let view = Arc::clone(&self.view.lock().unwrap_or_else(PoisonError::into_inner));
        let id = BlockId(self.manifest.next_block);
        // A manifest that failed to become durable may still be found by the next start, and it names this id: no
        // other block may ever have it.
        self.manifest.next_block += 1;
        let series = compact::series_of(&view.blocks.readable(several.clone())?)?;
        let tenant = self.manifest.blocks[several.start].tenant.clone();
        let meta = block::write(disk, &self.directory, id, series)?.expect("blocks have samples");
        let meta = BlockMeta { tenant, ..meta };
        let blocks = view.blocks.replaced(disk, &self.directory, several.clone(), &meta)?;
        let mut manifest = self.manifest.clone();
        let old: Vec<BlockMeta> = manifest.blocks.splice(several, [meta]).collect();
        manifest.replace(disk, &self.directory)?;
        self.manifest = manifest;
        let view = Arc::new(View { blocks, flushed: view.flushed });
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
        // Readers of the old view keep their open files. What cannot be removed now is removed at the next start.
        for meta in old {
            let _ = disk.remove(&Manifest::block_path(&self.directory, meta.id));
        }
        Ok(())
    }

    /// Parts the heads and writes what they held, after what an earlier flush left behind.
    fn flush(&mut self) -> Result<Vec<BlockMeta>, Error> {
        if self.pending.is_some() {
            self.write()?;
        }
        let (answer, mark) = std::sync::mpsc::channel();
        if self.queue.push_always(Command::Mark(answer)).is_err() {
            return Ok(Vec::new());
        }
        // No answer: the store is shutting down.
        let Ok(mark) = mark.recv() else { return Ok(Vec::new()) };
        self.take(mark.inspect_err(|error| self.count_failure(error.is_full()))?);
        self.write()
    }

    /// Writes the samples of `mark` as a block. After an error the next flush tries it again.
    pub(crate) fn relieve(&mut self, mark: Mark) -> Result<(), Error> {
        self.take(mark);
        self.write().map(|_| ())
    }

    fn take(&mut self, mark: Mark) {
        let Mark { position, windows, epoch, frozen } = mark;
        let frozen: Vec<Arc<Frozen>> = frozen.iter().collect();
        assert_eq!(frozen.len(), self.shards.len(), "every shard freezes");
        assert!(self.pending.is_none(), "a flush is under way");
        self.pending = Some(Pending { position, windows, epoch, frozen });
    }

    fn write(&mut self) -> Result<Vec<BlockMeta>, Error> {
        let written = self.write_pending();
        match &written {
            Ok(_) => {
                self.stats.flushes.add(1);
                self.stats.flush_full.set(0);
            }
            Err(error) => self.count_failure(error.is_full()),
        }
        written
    }

    fn count_failure(&self, full: bool) {
        self.stats.flush_failures.add(1);
        self.stats.flush_full.set(u64::from(full));
    }

    fn write_pending(&mut self) -> Result<Vec<BlockMeta>, Error> {
        let pending = self.pending.as_ref().expect("there is something to write");
        let disk = &*self.disk;
        let view = Arc::clone(&self.view.lock().unwrap_or_else(PoisonError::into_inner));
        let mut manifest = self.manifest.clone();
        let mut blocks = view.blocks.clone();
        let mut written = Vec::new();
        for (tenant, series) in Thawing::new(&pending.frozen).tenants() {
            let id = BlockId(manifest.next_block);
            let meta = block::write(disk, &self.directory, id, series.map(Ok))?.expect("a frozen series has samples");
            let meta = BlockMeta { tenant: tenant.clone(), ..meta };
            blocks = blocks.with(disk, &self.directory, &meta)?;
            manifest.push(meta.clone());
            written.push(meta);
        }
        if !written.is_empty() || manifest.replay_from != pending.position {
            manifest.replay_from = pending.position;
            manifest.windows.clone_from(&pending.windows);
            manifest.replace(disk, &self.directory)?;
        }
        // Durable. First the readers learn of the block, then the shards forget what is in it.
        self.manifest = manifest;
        let view = Arc::new(View { blocks, flushed: pending.epoch });
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
        for shard in &self.shards {
            let _ = shard.send(ToShard::Release { epoch: pending.epoch });
        }
        let _ = self.queue.push_always(Command::Truncate(pending.position));
        self.pending = None;
        Ok(written)
    }
}
