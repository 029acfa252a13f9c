//! The keeper: the thread that looks after the blocks while others write and read: it cuts blocks of before there were
//! windows into windows, and makes few of many.
//!
//! Invariants: a job reads one view and ends in one change of the ledger, or in none.
//! Threads: one; it ends within one piece of a series when its bell is closed.
//! Failure: a job that fails leaves the blocks as they were, is counted, and its blocks are left alone until the next
//! start.

pub(crate) mod compact;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use ogive_model::TimeRange;

use crate::bell::Bell;
use crate::block;
use crate::ingest::stats::Stats;
use crate::ingest::{Clock, Options};
use crate::keep::compact::{Job, Pieces, Rules, Source};
use crate::ledger::{Ledger, View};
use crate::window::{Ladder, Window};
use crate::{BlockId, BlockMeta, Error};

/// A minute between looks that nobody asked for: windows close by the clock.
const INTERVAL: Duration = Duration::from_secs(60);

/// Somebody who waits until there is nothing more to do.
pub(crate) type Wish = Sender<()>;

/// See the module.
pub(crate) struct Keeper {
    ledger: Arc<Ledger>,
    bell: Arc<Bell<Wish>>,
    stats: Arc<Stats>,
    clock: Arc<dyn Clock>,
    ladder: Ladder,
    /// See [`Rules::fan`].
    fan: usize,
    /// How long after its end a window closes.
    lateness: Duration,
    /// Blocks of jobs that failed.
    left_alone: HashSet<BlockId>,
}

impl Keeper {
    pub(crate) fn new(
        ledger: &Arc<Ledger>,
        bell: &Arc<Bell<Wish>>,
        stats: &Arc<Stats>,
        clock: &Arc<dyn Clock>,
        options: &Options,
    ) -> Self {
        Self {
            ledger: Arc::clone(ledger),
            bell: Arc::clone(bell),
            stats: Arc::clone(stats),
            clock: Arc::clone(clock),
            ladder: Ladder::new(options.window_ms),
            fan: options.compact_blocks,
            lateness: options.lateness,
            left_alone: HashSet::new(),
        }
    }

    /// Works until the bell is closed.
    pub(crate) fn run(mut self) {
        let bell = Arc::clone(&self.bell);
        while let Some(answers) = bell.wait(INTERVAL) {
            while !bell.is_closed() && self.work() {}
            for answer in answers {
                let _ = answer.send(());
            }
        }
    }

    /// Does what is to be done first; tells whether there was anything.
    fn work(&mut self) -> bool {
        let view = self.ledger.view();
        let closed_ms = self.clock.wall_ns().div_euclid(1_000_000).saturating_sub(self.lateness.as_millis() as i64);
        let rules = Rules { ladder: self.ladder, fan: self.fan, closed_ms };
        let alone = |meta: &BlockMeta| self.left_alone.contains(&meta.id);
        let (job, inputs): (Done, _) =
            if let Some(meta) = view.manifest.blocks.iter().find(|meta| meta.window == Window::NONE && !alone(meta)) {
                (self.cut(&view, meta), vec![meta.id])
            } else if let Some(job) = compact::plan(&view.manifest.blocks, &rules, alone) {
                (self.compact(&view, &job), job.blocks)
            } else {
                return false;
            };
        match job {
            Ok(()) => self.stats.compactions.add(1),
            Err(Error::Ending) => {}
            Err(_) => {
                self.stats.compaction_failures.add(1);
                self.left_alone.extend(inputs);
            }
        }
        true
    }

    /// Makes one block of several.
    fn compact(&self, view: &View, job: &Job) -> Done {
        let of = |meta: &&BlockMeta| job.blocks.contains(&meta.id);
        let metas: Vec<&BlockMeta> = view.manifest.blocks.iter().filter(of).collect();
        let written = self.rewrite(view, &metas, job.window.range())?;
        let made = written.map(|meta| BlockMeta { window: job.window, ..meta });
        self.replace(&job.blocks, made.as_slice())
    }

    /// Makes blocks of one window each of one that has none.
    fn cut(&self, view: &View, meta: &BlockMeta) -> Done {
        let window = |time| self.ladder.of_flush(time, meta.time_max);
        let mut made = Vec::new();
        let mut after = meta.time_min.saturating_sub(1);
        while after < meta.time_max {
            let window = window(after.saturating_add(1));
            let written = self.rewrite(view, &[meta], window.range())?;
            made.extend(written.map(|meta| BlockMeta { window, ..meta }));
            after = window.end_ms();
        }
        self.replace(&[meta.id], &made)
    }

    /// Writes what `metas`, of one tenant and resolution, hold inside `range`, without what was deleted.
    fn rewrite(&self, view: &View, metas: &[&BlockMeta], range: TimeRange) -> Result<Option<BlockMeta>, Error> {
        let mut sources = Vec::with_capacity(metas.len());
        for meta in metas {
            let tombstones = view.manifest.tombstones.iter().filter(|tombstone| tombstone.concerns(meta));
            let tombstones = tombstones.cloned().collect();
            let block = view.blocks.readable(meta.id)?;
            sources.push(Source { block, resolution_ms: meta.resolution_ms, range, tombstones });
        }
        let stop = || self.bell.is_closed();
        let pieces = Pieces::new(sources, self.ladder.base_ms().max(i64::from(metas[0].resolution_ms)), &stop)?;
        let id = self.ledger.take_ids(1);
        let written = block::write(self.ledger.disk(), self.ledger.directory(), id, pieces)?;
        Ok(written.map(|written| BlockMeta {
            tenant: metas[0].tenant.clone(),
            resolution_ms: metas[0].resolution_ms,
            arrived: metas.iter().map(|meta| meta.arrived).max().unwrap_or(0),
            cleaned: view.manifest.generation,
            rolled: metas.iter().map(|meta| meta.rolled).min().unwrap_or(0),
            ..written
        }))
    }

    /// Puts `made` in the place of `several`.
    fn replace(&self, several: &[BlockId], made: &[BlockMeta]) -> Done {
        self.ledger.commit(None, |manifest| {
            manifest.blocks.retain(|meta| !several.contains(&meta.id));
            manifest.blocks.extend_from_slice(made);
        })
    }
}

/// How a job went.
type Done = Result<(), Error>;
