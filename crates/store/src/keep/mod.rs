//! The maintenance thread: maintains the blocks in the background. In this order, it cuts blocks from before there were
//! windows into windows, carries out deletions, makes rollups, drops data beyond its retention, compacts blocks, and
//! recompresses the texts of old blocks.
//!
//! Invariants: a job reads one view and ends in one change of the ledger, or in none; each block that a job replaces
//! was read and is live.
//! Threads: one; after its bell is closed it ends within one piece of a series.
//! Failure: a failed job leaves the blocks as they were, is counted, and retried ten minutes later: the cause may have
//! been a full disk. Meanwhile nothing is dropped for its age whose rollup is still to be made.

pub(crate) mod compact;
pub(crate) mod drop;
pub(crate) mod rollup;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use ogive_model::{Kind, Labels, Ms, Ns, Selection, TimeRange, WallMs, WallNs};

use crate::bell::Bell;
use crate::block::{self, Piece};
use crate::class::{Class, Classes};
use crate::codec::dictionary::Effort;
use crate::ingest::stats::{Counter, Stats};
use crate::ingest::{Clock, FlushWish, Observer, Options};
use crate::keep::compact::{Pieces, Rules, Source};
use crate::keep::drop::Bounds;
use crate::keep::rollup::{ManifestRollups, RollupKey, RollupMemory};
use crate::ledger::Ledger;
use crate::retention::{Oldest, Retention};
use crate::retention_clock::{NOTABLE, RetentionClock};
use crate::roll::roll;
use crate::sway::sway;
use crate::view::View;
use crate::window::{Ladder, Window};
use crate::{BlockId, BlockMeta, Budget, Clash, Error};

/// A minute between looks that nobody asked for: windows close by the clock.
const INTERVAL: Duration = Duration::from_secs(60);

/// 10 minutes until what failed is tried again: a block that cannot be read costs little of the disk's time.
const TRY_AGAIN: Ns = Ns::from_secs(600);

/// A block of which texts are less than the sixteenth part, packed against unpacked, is not written again for their
/// sake.
const PACK_SHARE: u64 = 16;

/// Somebody who waits until there is nothing more to do.
pub(crate) type Wish = Sender<()>;

/// What the maintenance thread waits for, and what it asks the flusher by.
pub(crate) struct Bells {
    pub(crate) maintenance: Arc<Bell<Wish>>,
    pub(crate) flusher: Arc<Bell<FlushWish>>,
}

/// See the module.
pub(crate) struct Maintainer {
    ledger: Arc<Ledger>,
    bell: Arc<Bell<Wish>>,
    /// The flusher's.
    flusher: Arc<Bell<FlushWish>>,
    stats: Arc<Stats>,
    clock: Arc<dyn Clock>,
    ladder: Ladder,
    /// See [`Rules::fan`].
    fan: usize,
    /// How long after its end a window closes.
    lateness: Ms,
    rollups: Vec<u32>,
    retention: Retention,
    oldest: Arc<Oldest>,
    retention_clock: Arc<RetentionClock>,
    observer: Option<Arc<dyn Observer>>,
    /// Whether somebody was notified that the wall clock is ahead of the retention's.
    is_doubted: bool,
    /// Blocks of jobs that failed.
    left_alone: HashSet<BlockId>,
    known: RollupMemory,
    /// When what failed is tried again, on the wall's clock.
    try_again: WallNs,
}

/// How a job went, and what to leave alone if it failed.
type JobResult = Result<(), Error>;

/// What is to be done.
enum Job {
    Cut(BlockMeta),
    Erase(BlockMeta),
    RollUp(RollupKey),
    Drop(drop::Job),
    Compact(compact::Job),
    /// Texts of a block that is old are packed harder.
    Pack(BlockMeta),
    /// Deletions that are carried out everywhere are forgotten.
    Forget,
}

impl Maintainer {
    pub(crate) fn new(
        ledger: &Arc<Ledger>,
        bells: &Bells,
        stats: &Arc<Stats>,
        clock: &Arc<dyn Clock>,
        oldest: &Arc<Oldest>,
        retention_clock: &Arc<RetentionClock>,
        options: &Options,
    ) -> Self {
        Self {
            ledger: Arc::clone(ledger),
            bell: Arc::clone(&bells.maintenance),
            flusher: Arc::clone(&bells.flusher),
            stats: Arc::clone(stats),
            clock: Arc::clone(clock),
            ladder: Ladder::new(options.window),
            fan: options.compact_blocks,
            lateness: options.lateness.into(),
            rollups: options.rollups.clone(),
            retention: options.retention.clone(),
            oldest: Arc::clone(oldest),
            retention_clock: Arc::clone(retention_clock),
            observer: options.observer.clone(),
            is_doubted: false,
            left_alone: HashSet::new(),
            known: RollupMemory::default(),
            try_again: WallNs::MAX,
        }
    }

    /// Works until the bell is closed.
    pub(crate) fn run(mut self) {
        let bell = Arc::clone(&self.bell);
        while let Some(answers) = bell.wait(INTERVAL) {
            if self.clock.wall() >= self.try_again {
                self.try_again = WallNs::MAX;
                self.left_alone.clear();
                self.known.try_again();
            }
            while !bell.is_closed() && self.work() {}
            self.look_at_the_clock();
            for answer in answers {
                let _ = answer.send(());
            }
        }
    }

    /// Does what is to be done first; returns whether there was anything.
    fn work(&mut self) -> bool {
        let view = self.ledger.view();
        let Some(job) = self.find(&view) else { return false };
        sway();
        let done = match &job {
            Job::Cut(meta) => self.cut(&view, meta),
            Job::Erase(meta) => self.erase(&view, meta),
            Job::RollUp(due) => self.roll_up(&view, due),
            Job::Drop(job) => self.drop_blocks(&view, job),
            Job::Compact(job) => self.compact(&view, job),
            Job::Pack(meta) => self.pack(&view, meta),
            Job::Forget => self.forget(),
        };
        match (done, job) {
            (Ok(()), job) => {
                self.counters(&job).0.add(1);
                if let Job::RollUp(due) = &job {
                    self.known.made(due);
                }
            }
            (Err(Error::Ending), _) => return false,
            (Err(_), job) => {
                self.counters(&job).1.add(1);
                self.try_again = self.try_again.min(self.clock.wall().saturating_add(TRY_AGAIN));
                match job {
                    Job::Cut(meta) | Job::Erase(meta) | Job::Pack(meta) => {
                        self.left_alone.insert(meta.id);
                    }
                    Job::Compact(job) => self.left_alone.extend(job.blocks),
                    Job::RollUp(due) => {
                        self.known.fail(due);
                    }
                    // The disk did not take the change: again with the next look.
                    Job::Drop(_) | Job::Forget => return false,
                }
            }
        }
        true
    }

    /// Writes down how late it is, and reports when the wall clock is ahead of what is known of the time.
    fn look_at_the_clock(&mut self) {
        // It is tried again at the next look.
        let _ = self.retention_clock.save(self.ledger.disk(), self.ledger.directory(), false);
        let lag = self.retention_clock.lag();
        let is_doubted = lag >= NOTABLE;
        let view = self.ledger.view();
        let bounds = self.bounds_at(self.clock.wall().to_ms());
        let blocks: Vec<&BlockMeta> = view.manifest.blocks.iter().collect();
        let held = is_doubted && drop::plan(&blocks, &bounds, |_| true).is_some();
        self.stats.drops_held.set(u64::from(held));
        if is_doubted != self.is_doubted {
            self.is_doubted = is_doubted;
            if let Some(observer) = &self.observer {
                observer.clock_doubted(if is_doubted { lag } else { Ms::ZERO });
            }
        }
    }

    fn counters(&self, job: &Job) -> (&Counter, &Counter) {
        match job {
            Job::RollUp(_) => (&self.stats.rollups, &self.stats.rollup_failures),
            Job::Drop(_) => (&self.stats.drops, &self.stats.drop_failures),
            Job::Erase(_) | Job::Forget => (&self.stats.erasures, &self.stats.erasure_failures),
            Job::Cut(_) | Job::Compact(_) | Job::Pack(_) => (&self.stats.compactions, &self.stats.compaction_failures),
        }
    }

    fn find(&self, view: &View) -> Option<Job> {
        let manifest = &*view.manifest;
        let wall = self.clock.wall().to_ms();
        let closed = wall.saturating_sub(self.lateness);
        let alone = |meta: &BlockMeta| self.left_alone.contains(&meta.id);
        let first =
            |is: &dyn Fn(&BlockMeta) -> bool| manifest.blocks.iter().find(|meta| !alone(meta) && is(meta)).cloned();
        if let Some(meta) = first(&|meta| meta.window == Window::NONE) {
            return Some(Job::Cut(meta));
        }
        if let Some(meta) = first(&|meta| manifest.tombstones.iter().any(|tombstone| tombstone.concerns(meta))) {
            return Some(Job::Erase(meta));
        }
        let done = |tombstone| !manifest.blocks.iter().any(|meta| crate::Tombstone::concerns(tombstone, meta));
        if manifest.tombstones.iter().any(done) {
            return Some(Job::Forget);
        }
        let bounds = self.bounds();
        let made = ManifestRollups::new(manifest, &self.rollups, self.ladder, bounds);
        if let Some(due) = made.due(&self.rollups, wall, closed, &self.known) {
            return Some(Job::RollUp(due));
        }
        let blocks: Vec<&BlockMeta> = manifest.blocks.iter().filter(|meta| !alone(meta)).collect();
        if let Some(job) = drop::plan(&blocks, &bounds, |meta| made.holds(meta, &self.known)) {
            return Some(Job::Drop(job));
        }
        let rules = Rules { ladder: self.ladder, fan: self.fan, closed };
        // A rollup that is not fresh is about to be made again.
        let apart = |meta: &BlockMeta| alone(meta) || (meta.resolution_ms > 0 && !manifest.is_fresh(meta));
        // A rollup of a longer window passes for what holds all of it.
        let whole = |meta: &BlockMeta, window| {
            meta.resolution_ms == 0 || made.reaches(&meta.tenant, window, meta.resolution_ms, &self.known)
        };
        compact::plan(&manifest.blocks, &rules, apart, whole)
            .map(Job::Compact)
            .or_else(|| first(&|meta| self.is_to_be_packed(view, meta, closed)).map(Job::Pack))
    }

    /// What retention keeps now.
    fn bounds(&self) -> Bounds<'_> {
        self.bounds_at(self.retention_clock.now())
    }

    fn bounds_at(&self, now: WallMs) -> Bounds<'_> {
        let closed = now.saturating_sub(self.lateness);
        debug_assert!(closed <= now, "a window closes no earlier than it ends: {closed} {now}");
        let step = self.rollups.last().map_or(Ms::ZERO, |coarsest| Ms::from(*coarsest)).max(self.ladder.base());
        Bounds { retention: &self.retention, now, closed, step }
    }

    /// Whether a block is as old as blocks of the longest window are and has texts that were packed in haste. Once it
    /// is written anew it has none.
    fn is_to_be_packed(&self, view: &View, meta: &BlockMeta, closed: WallMs) -> bool {
        meta.resolution_ms == 0
            && Window::containing(meta.window.end(), self.longest()).end() <= closed
            && view.blocks.readable(meta.id).is_ok_and(|block| {
                let texts = block.quick_text_bytes();
                texts > 0 && texts >= meta.bytes / PACK_SHARE
            })
    }

    /// The longest window of samples as they came.
    fn longest(&self) -> Ms {
        self.ladder.lengths(0).last().copied().unwrap_or(self.ladder.base())
    }

    /// How hard the texts of a block of `window` are packed: those of the longest one are written for the last time.
    fn effort(&self, window: Window) -> Effort {
        if window.length >= self.longest() { Effort::Hard } else { Effort::Quick }
    }

    /// Packs the texts of a block harder.
    fn pack(&self, view: &View, meta: &BlockMeta) -> JobResult {
        let written = self.rewrite(view, &[meta], meta.window.range(), Effort::Hard)?;
        let made = written.map(|made| BlockMeta { window: meta.window, ..made });
        self.replace(&[meta.id], made.as_slice())
    }

    /// Makes one block of several.
    fn compact(&self, view: &View, job: &compact::Job) -> JobResult {
        let of = |meta: &&BlockMeta| job.blocks.contains(&meta.id);
        let metas: Vec<&BlockMeta> = view.manifest.blocks.iter().filter(of).collect();
        assert_eq!(metas.len(), job.blocks.len(), "each block that is replaced is read: {job:?}");
        let written = self.rewrite(view, &metas, job.window.range(), self.effort(job.window))?;
        let made = written.map(|meta| BlockMeta { window: job.window, ..meta });
        self.replace(&job.blocks, made.as_slice())
    }

    /// Makes blocks of one window each of one that has none.
    fn cut(&self, view: &View, meta: &BlockMeta) -> JobResult {
        let mut made = Vec::new();
        let mut after = meta.time_min.saturating_sub(Ms(1));
        while after < meta.time_max {
            let window = self.ladder.for_flush(after.saturating_add(Ms(1)), meta.time_max);
            assert!(window.end() > after, "{window:?} begins behind {after}");
            let written = self.rewrite(view, &[meta], window.range(), self.effort(window))?;
            made.extend(written.map(|meta| BlockMeta { window, ..meta }));
            after = window.end();
        }
        self.replace(&[meta.id], &made)
    }

    /// Carries out the deletions that concern a block.
    fn erase(&self, view: &View, meta: &BlockMeta) -> JobResult {
        let cleaned = view.manifest.generation;
        let block = view.blocks.readable(meta.id)?;
        let mut hit = false;
        for tombstone in view.manifest.tombstones.iter().filter(|tombstone| tombstone.concerns(meta)) {
            let end = tombstone.range.end.saturating_add(meta.resolution_ms.into());
            let selection = Selection {
                labels_only: true,
                ..Selection::new(tombstone.matchers.clone(), TimeRange { end, ..tombstone.range })
            };
            hit |= !block.select(&selection, &mut Budget::new(usize::MAX))?.is_empty();
        }
        if !hit {
            return self.ledger.commit(None, |manifest| {
                let of = manifest.blocks.iter_mut().filter(|held| held.id == meta.id);
                of.for_each(|held| held.cleaned = cleaned);
            });
        }
        // It is no larger than the block that goes with it.
        let (range, effort) = (meta.window.range(), self.effort(meta.window));
        let written = self.ledger.reserve().spend(|| self.rewrite(view, &[meta], range, effort))?;
        self.ledger.commit(None, |manifest| {
            manifest.remove_blocks(&[meta.id]);
            // What is gone from it is still in the rollups that were made of it: they are to be made again. The block
            // itself, if it is one, lacks cells now, and is to be made again too.
            let arrived = manifest.generation;
            let rolled = if meta.resolution_ms == 0 { meta.rolled } else { 0 };
            manifest.blocks.extend(written.map(|made| BlockMeta { window: meta.window, arrived, rolled, ..made }));
        })
    }

    fn forget(&self) -> JobResult {
        self.ledger.commit(None, |manifest| {
            let blocks = &manifest.blocks;
            manifest.tombstones.retain(|tombstone| blocks.iter().any(|meta| tombstone.concerns(meta)));
        })
    }

    fn drop_blocks(&mut self, view: &View, job: &drop::Job) -> JobResult {
        let mut view = Arc::new(view.clone());
        if job.resolution_ms == 0 {
            // What was accepted before the bound rose is in memory: it is to be in blocks before they are looked at.
            job.classes.each().for_each(|class| self.oldest.raise(&job.tenant, class, job.until));
            let (answer, flushed) = std::sync::mpsc::channel();
            self.flusher.ring(Some(answer));
            flushed.recv().map_err(|_| Error::Ending)??;
            view = self.ledger.view();
            let made = ManifestRollups::new(&view.manifest, &self.rollups, self.ladder, self.bounds());
            let mut going = view.manifest.blocks.iter().filter(|meta| job.takes(meta));
            if job.classes.holds(Class::Numbers) && !going.all(|meta| made.holds(meta, &self.known)) {
                return Ok(());
            }
        }
        let mut left = Vec::new();
        let mut unread = Vec::new();
        for meta in view.manifest.blocks.iter().filter(|meta| job.takes(meta)) {
            match self.what_stays(&view, meta, job) {
                Ok(stays) => left.push((meta.id, stays)),
                Err(error) if matches!(error, Error::Ending) || error.is_full() => return Err(error),
                // Others need not wait for one that cannot be read.
                Err(_) => unread.push(meta.id),
            }
        }
        if !unread.is_empty() {
            self.stats.drop_failures.add(unread.len() as u64);
            self.left_alone.extend(unread);
            self.try_again = self.try_again.min(self.clock.wall().saturating_add(TRY_AGAIN));
        }
        let (mut blocks, mut bytes) = (0, 0);
        self.ledger.commit(None, |manifest| (blocks, bytes) = job.apply(manifest, &left))?;
        self.stats.dropped_blocks.add(blocks);
        self.stats.dropped_bytes.add(bytes);
        // A start must not take an earlier time for the present than the one that this went by.
        let _ = self.retention_clock.save(self.ledger.disk(), self.ledger.directory(), false);
        Ok(())
    }

    /// What is left of a block when a job is done, as a block of its own.
    fn what_stays(&self, view: &View, meta: &BlockMeta, job: &drop::Job) -> Result<Option<BlockMeta>, Error> {
        // What is too old by now goes with it: it is not written again for each class.
        let gone = job.classes.with(meta.dropped()).with(self.bounds().too_old(meta));
        if meta.resolution_ms > 0 || gone == Classes::ALL {
            return Ok(None);
        }
        let without = |labels: &Labels, kind| gone.holds(Class::from_labels(labels, kind));
        let written = self.write_anew(view, &[meta], meta.window.range(), self.effort(meta.window), &without)?;
        Ok(written.map(|made| BlockMeta { window: meta.window, rolled: gone.to_stored(), ..made }))
    }

    /// Makes a rollup, or makes it again.
    fn roll_up(&mut self, view: &View, due: &RollupKey) -> JobResult {
        let RollupKey { tenant, resolution_ms, window } = due;
        let finer = rollup::finer_than(&self.rollups, *resolution_ms);
        debug_assert!(finer < *resolution_ms, "cells of {resolution_ms} ms are made of finer ones, not of {finer} ms");
        let horizon = view.manifest.horizon(tenant, finer).clamp(window.start, window.end());
        let of = |meta: &&BlockMeta| meta.tenant == *tenant && meta.window.meets(window);
        let mut sources = Vec::new();
        let mut old = Vec::new();
        for meta in view.manifest.blocks.iter().filter(of) {
            // Where the finer data is gone the old rollup is all that there is.
            let range = match meta.resolution_ms {
                of if of == finer => TimeRange { start: horizon, end: window.end() },
                of if of == *resolution_ms && window.holds(&meta.window) => {
                    old.push(meta.id);
                    TimeRange { start: window.start, end: horizon }
                }
                _ => continue,
            };
            if range.start < range.end {
                sources.push(self.source(view, meta, range)?);
            }
        }
        let (stop, clash) = (|| self.bell.is_closed(), |clash| self.count(clash));
        let piece = self.ladder.base().max(Ms::from(*resolution_ms));
        let without = |_: &Labels, kind| kind == Kind::Text;
        let pieces = Pieces::new(sources, piece, &without, &stop, &clash)?;
        let samples = pieces.map(|piece| piece.and_then(Piece::into_samples));
        let rolled = samples.filter_map(|data| data.map(|data| roll(data, *resolution_ms, &clash)).transpose());
        let id = self.ledger.take_ids(1);
        let (disk, directory) = (self.ledger.disk(), self.ledger.directory());
        let written = block::write_as(disk, directory, id, *resolution_ms, Effort::Quick, rolled)?;
        let seen = view.manifest.generation;
        if written.is_none() {
            self.known.empty.insert(due.clone(), seen);
        }
        if written.is_none() && old.is_empty() {
            return Ok(());
        }
        debug_assert!(
            written.as_ref().is_none_or(|made| window.range().contains(made.time_max)),
            "a rollup of {window:?} ends in it: {written:?}"
        );
        let is_again = !old.is_empty();
        self.ledger.commit(None, |manifest| {
            manifest.remove_blocks(&old);
            manifest.blocks.extend(written.map(|made| BlockMeta {
                tenant: tenant.clone(),
                window: *window,
                arrived: manifest.generation,
                cleaned: seen,
                rolled: seen,
                ..made
            }));
        })?;
        if is_again {
            self.known.made_again(due, self.clock.wall().to_ms());
        }
        Ok(())
    }

    fn source<'a>(&self, view: &'a View, meta: &BlockMeta, range: TimeRange) -> Result<Source<'a>, Error> {
        let tombstones = view.manifest.tombstones.iter().filter(|tombstone| tombstone.concerns(meta));
        let tombstones = tombstones.cloned().collect();
        Ok(Source { block: view.blocks.readable(meta.id)?, resolution_ms: meta.resolution_ms, range, tombstones })
    }

    /// Writes what `metas`, of one tenant and resolution, hold inside `range`, without what was deleted.
    fn rewrite(
        &self,
        view: &View,
        metas: &[&BlockMeta],
        range: TimeRange,
        effort: Effort,
    ) -> Result<Option<BlockMeta>, Error> {
        self.write_anew(view, metas, range, effort, &|_, _| false)
    }

    /// As [`Maintainer::rewrite`], of the series that `without` does not say yes to.
    fn write_anew(
        &self,
        view: &View,
        metas: &[&BlockMeta],
        range: TimeRange,
        effort: Effort,
        without: &dyn Fn(&Labels, Kind) -> bool,
    ) -> Result<Option<BlockMeta>, Error> {
        let first = metas[0];
        let alike = |meta: &&BlockMeta| {
            (&meta.tenant, meta.resolution_ms, meta.dropped()) == (&first.tenant, first.resolution_ms, first.dropped())
        };
        assert!(metas.iter().all(alike), "one tenant's blocks of one resolution become one: {metas:?}");
        let sources = metas.iter().map(|meta| self.source(view, meta, range)).collect::<Result<Vec<_>, Error>>()?;
        let resolution_ms = metas[0].resolution_ms;
        let (stop, clash) = (|| self.bell.is_closed(), |clash| self.count(clash));
        let piece = self.ladder.base().max(Ms::from(resolution_ms));
        let pieces = Pieces::new(sources, piece, without, &stop, &clash)?.with_chunks();
        let id = self.ledger.take_ids(1);
        let (disk, directory) = (self.ledger.disk(), self.ledger.directory());
        let written = block::write_as(disk, directory, id, resolution_ms, effort, pieces)?;
        debug_assert!(
            written.as_ref().is_none_or(|made| range.contains(made.time_min) && range.contains(made.time_max)),
            "what is written anew is inside {range:?}: {written:?}"
        );
        sway();
        Ok(written.map(|written| BlockMeta {
            tenant: metas[0].tenant.clone(),
            arrived: metas.iter().map(|meta| meta.arrived).max().unwrap_or(0),
            cleaned: view.manifest.generation,
            // Rollups that become one are fresh; of raw samples the same was dropped from each.
            rolled: if resolution_ms == 0 { metas[0].rolled } else { view.manifest.generation },
            ..written
        }))
    }

    /// Counts what a new block does not hold of those that it is made of.
    fn count(&self, clash: Clash) {
        self.stats.written_clashes.add(clash.cells.max(u64::from(clash.temporalities)));
    }

    /// Puts `made` in the place of `several`.
    fn replace(&self, several: &[BlockId], made: &[BlockMeta]) -> JobResult {
        self.ledger.commit(None, |manifest| {
            manifest.remove_blocks(several);
            manifest.blocks.extend_from_slice(made);
        })
    }
}
