//! The flusher: turns the content of the shards into blocks, one for each tenant and window, and releases the
//! corresponding part of the journal.
//!
//! Invariants: a sample is in a frozen head until its block is in the manifest and open; a reader sees it in exactly
//! one of both. A failed flush is retried with the same samples and the same block ids, so that anything already
//! durable is only rewritten. Each frozen sample is in one block, whose window it is in; the replay begins no earlier
//! than before.
//! Threads: one, and before it the thread that opens the store.
//! Failure: the samples stay in memory and in the journal, and the flush is retried every [`Options::flush_retry`];
//! reads continue.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use ogive_journal::Position;

use crate::bell::Bell;
use crate::block::{self, BlockId};
use crate::ingest::head::{Frozen, by_window, data_of};
use crate::ingest::shard::ToShard;
use crate::ingest::stats::Stats;
use crate::ingest::writer::{Command, Mark};
use crate::ingest::{Clock, FlushWish, Flushed, Observer, Options, Queue};
use crate::ledger::Ledger;
use crate::sway::sway;
use crate::window::Ladder;
use crate::{BlockMeta, Error, keep};

/// Samples that wait to become blocks.
pub(crate) struct Pending {
    /// The ids of the blocks that they become, once that was tried.
    ids: Option<Range<u64>>,
    position: Position,
    /// Where what binds the numbers in the records behind `position` begins.
    read_from: Position,
    windows: Vec<u8>,
    epoch: u64,
    frozen: Vec<Arc<Frozen>>,
}

/// See the module.
pub(crate) struct Flusher {
    ledger: Arc<Ledger>,
    shards: Vec<SyncSender<ToShard>>,
    queue: Arc<Queue<Command>>,
    stats: Arc<Stats>,
    clock: Arc<dyn Clock>,
    observer: Option<Arc<dyn Observer>>,
    pending: Option<Pending>,
    ladder: Ladder,
    /// Rung after each flush.
    maintenance: Arc<Bell<keep::Wish>>,
}

impl Flusher {
    pub(crate) fn new(
        ledger: &Arc<Ledger>,
        shards: &[SyncSender<ToShard>],
        queue: &Arc<Queue<Command>>,
        stats: &Arc<Stats>,
        clock: &Arc<dyn Clock>,
        options: &Options,
        maintenance: &Arc<Bell<keep::Wish>>,
    ) -> Self {
        Self {
            ledger: Arc::clone(ledger),
            shards: shards.to_vec(),
            queue: Arc::clone(queue),
            stats: Arc::clone(stats),
            clock: Arc::clone(clock),
            observer: options.observer.clone(),
            pending: None,
            ladder: Ladder::new(options.window),
            maintenance: Arc::clone(maintenance),
        }
    }

    /// Flushes when it is asked to and at least each `interval`, after a failure each `retry`, until the bell is
    /// closed.
    pub(crate) fn run(mut self, bell: &Bell<FlushWish>, interval: Duration, retry: Duration) {
        let mut patience = interval;
        while let Some(answers) = bell.wait(patience) {
            let begun = self.clock.now();
            let flushed = self.flush();
            patience = if flushed.is_ok() { interval } else { retry.min(interval) };
            match (&self.observer, &flushed) {
                (Some(observer), Ok(made)) if !made.is_empty() => {
                    observer.flush(self.clock.now().since(begun));
                }
                (Some(observer), Err(error)) => observer.flush_failed(error),
                _ => {}
            }
            let others = flushed.as_ref().map(|_| ()).map_err(ToString::to_string);
            let mut flushed = Some(flushed);
            for answer in answers {
                // Whoever comes second hears that nothing was left to flush.
                let second =
                    || others.clone().map_or_else(|problem| Err(Error::Unflushed { problem }), |()| Ok(Vec::new()));
                let _ = answer.send(flushed.take().unwrap_or_else(second));
            }
            self.maintenance.ring(None);
        }
    }

    /// Parts the heads and writes what they held, after what an earlier flush left behind.
    fn flush(&mut self) -> Flushed {
        if self.pending.is_some() {
            self.write()?;
        }
        let (answer, mark) = std::sync::mpsc::channel();
        if self.queue.push_always(Command::Mark(answer)).is_err() {
            return Ok(Vec::new());
        }
        // No answer: the store is shutting down.
        let Ok(mark) = mark.recv() else { return Ok(Vec::new()) };
        sway();
        self.take(mark.inspect_err(|error| self.count_failure(error.is_full()))?);
        self.write()
    }

    /// Writes the samples of `mark` as blocks. After an error the next flush tries it again.
    pub(crate) fn relieve(&mut self, mark: Mark) -> Result<(), Error> {
        self.take(mark);
        self.write().map(|_| ())
    }

    fn take(&mut self, mark: Mark) {
        let Mark { position, read_from, windows, epoch, frozen } = mark;
        let frozen: Vec<Arc<Frozen>> = frozen.iter().collect();
        assert_eq!(frozen.len(), self.shards.len(), "every shard freezes");
        assert!(read_from <= position, "records from {} on are read before {}", read_from.0, position.0);
        assert!(self.pending.is_none(), "a flush is in progress");
        self.pending = Some(Pending { ids: None, position, read_from, windows, epoch, frozen });
    }

    fn write(&mut self) -> Flushed {
        // More goes from the journal than blocks take.
        let ledger = Arc::clone(&self.ledger);
        let written = ledger.reserve().spend(|| self.write_pending());
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

    fn write_pending(&mut self) -> Flushed {
        let pending = self.pending.as_mut().expect("there is something to write");
        let ledger = &*self.ledger;
        let windows = by_window(&pending.frozen, self.ladder);
        let count = windows.len() as u64;
        let ids = pending.ids.get_or_insert_with(|| {
            let BlockId(first) = ledger.take_ids(count);
            first..first + count
        });
        assert_eq!(ids.end - ids.start, count, "a retry writes the same blocks, and no other's: {ids:?}");
        let mut made = Vec::with_capacity(windows.len());
        for (((tenant, window), series), id) in windows.into_iter().zip(ids.clone()) {
            let range = window.range();
            let series = series.into_iter().map(|series| Ok(data_of(series, range)));
            let written = block::write(ledger.disk(), ledger.directory(), BlockId(id), series)?;
            if let Some(meta) = &written {
                let (first, last) = (meta.time_min, meta.time_max);
                assert!(range.contains(first) && range.contains(last), "a block of {first} to {last} in {window:?}");
            }
            made.extend(written.map(|meta| BlockMeta { tenant: tenant.clone(), window, ..meta }));
        }
        debug_assert_eq!(
            made.iter().map(|meta| meta.samples).sum::<u64>(),
            pending.frozen.iter().map(|frozen| frozen.samples).sum::<u64>(),
            "each frozen sample is in one block"
        );
        let read_before = pending.position.0 - pending.read_from.0;
        let held = Arc::clone(&ledger.view().manifest);
        if !made.is_empty() || (held.replay_from, held.read_before) != (pending.position, read_before) {
            ledger.commit(Some(pending.epoch), |manifest| {
                for meta in &mut made {
                    (meta.arrived, meta.cleaned) = (manifest.generation, manifest.generation);
                }
                manifest.blocks.extend_from_slice(&made);
                let (from, to) = (manifest.replay_from.0, pending.position.0);
                assert!(from <= to, "a replay would begin at {to}, before {from}");
                (manifest.replay_from, manifest.read_before) = (pending.position, read_before);
                manifest.windows.clone_from(&pending.windows);
            })?;
        } else {
            ledger.nothing_was_left(pending.epoch);
        }
        sway();
        // Durable, and readers know of it: now the shards forget what is in the blocks.
        for shard in &self.shards {
            sway();
            let _ = shard.send(ToShard::Release { epoch: pending.epoch });
        }
        sway();
        let _ = self.queue.push_always(Command::Truncate(pending.read_from));
        self.pending = None;
        Ok(made)
    }
}
