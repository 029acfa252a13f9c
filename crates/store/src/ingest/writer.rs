//! The journal writer: the one thread that decides about samples, appends them, and makes them durable.
//!
//! Invariants: a sequence is marked after its fsync and before any later batch is looked at; records reach the
//! shards in the order of the journal, and only durable ones do.
//! Threads: one. Limits: [`GROUP_BYTES_MAX`], and the group interval of the options.
//! Failure: a failed fsync answers the whole group with its error, forgets the series that it brought, and goes
//! on in a new segment; a record that does not fit the disk is refused alone.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::time::Duration;

use ogive_journal::{Error as DiskError, Journal, Position};
use ogive_model::sequence::{Seen, SourceTable};
use ogive_model::{Batch, Reason, Sample, SeriesDef, SeriesId, SourceId, Temporality, Tenant, Value, Verdict};

use crate::ingest::check::check;
use crate::ingest::head::{Frozen, Owned, Placed};
use crate::ingest::registry::Slot;
use crate::ingest::shard::{Group, HeadSize, ToShard};
use crate::ingest::stats::{Recovered, Stats};
use crate::ingest::{Clock, Observer, Queue, Refusal, Refused, Registry, Reply, Stamps, Step};
use crate::retention::Oldest;

/// 8 MiB: some hundred thousand samples become durable with one fsync; more would only wait longer.
pub(crate) const GROUP_BYTES_MAX: usize = 8 << 20;

/// A batch on its way, with what its submitter worked out in advance.
pub(crate) struct Submission {
    pub(crate) batch: Batch,
    /// The bytes of the whole batch.
    pub(crate) frame: Vec<u8>,
    /// Identity of each good series.
    pub(crate) ids: Vec<Option<SeriesId>>,
    pub(crate) reply: Reply,
    /// Who hears how far it is.
    pub(crate) stamps: Option<Arc<dyn Stamps>>,
}

/// What the writer is told.
pub(crate) enum Command {
    Submit(Box<Submission>),
    /// Part the heads here.
    Mark(Sender<Result<Mark, DiskError>>),
    /// Everything before is in blocks.
    Truncate(Position),
    /// Begin a new segment, so that what is in blocks can go from the journal.
    Rotate,
    /// Seal the journal and give its segments second names in a directory.
    Cut(PathBuf, Sender<Result<(), DiskError>>),
}

/// A journal position at which the heads were parted.
pub(crate) struct Mark {
    pub(crate) position: Position,
    /// The source table at that position, as bytes.
    pub(crate) windows: Vec<u8>,
    pub(crate) epoch: u64,
    /// One frozen head from each shard.
    pub(crate) frozen: Receiver<Arc<Frozen>>,
}

/// Batches that will be durable with the next fsync.
#[derive(Default)]
struct Open {
    replies: Vec<(Reply, Verdict)>,
    stamps: Vec<Arc<dyn Stamps>>,
    marks: Vec<(SourceId, u64)>,
    pending: HashSet<(SourceId, u64)>,
    placed: Vec<Vec<Placed>>,
    bytes: usize,
    begun_ns: u64,
}

/// Decides, and hands on to the shards: the writer without its journal.
pub(crate) struct Core {
    sources: SourceTable,
    registry: Registry,
    shards: Vec<SyncSender<ToShard>>,
    open: Open,
    epoch: u64,
    stats: Arc<Stats>,
    oldest: Arc<Oldest>,
}

impl Core {
    pub(crate) fn new(
        sources: SourceTable,
        registry: Registry,
        shards: Vec<SyncSender<ToShard>>,
        stats: Arc<Stats>,
        oldest: Arc<Oldest>,
    ) -> Self {
        let open = Open::of(shards.len());
        Self { sources, registry, shards, open, epoch: 0, stats, oldest }
    }

    fn seen(&self, key: (SourceId, u64)) -> Seen {
        if self.open.pending.contains(&key) { Seen::Duplicate } else { self.sources.seen(key.0, key.1) }
    }

    /// Decides about each sample. A rejected one becomes its reason in the batch; an accepted one gets a slot.
    fn judge(&mut self, batch: &mut Batch, ids: &[Option<SeriesId>], wall_ns: i64) -> Vec<Option<Slot>> {
        let mut resolved: Vec<Option<Result<Slot, Reason>>> = vec![None; batch.series.len()];
        let mut slots = Vec::with_capacity(batch.samples.len());
        // What the journal holds was accepted when it came.
        let oldest = if wall_ns == i64::MAX { i64::MIN } else { self.oldest.of(&batch.tenant, wall_ns) };
        for sample in &mut batch.samples {
            let slot = match sample {
                Ok(sample) if sample.time_ms() <= oldest => Err(Reason::BeyondRetention),
                Ok(sample) => self.judge_one(sample, &batch.tenant, &batch.series, ids, &mut resolved, wall_ns),
                Err(reason) => Err(*reason),
            };
            slots.push(slot.ok());
            if let Err(reason) = slot {
                *sample = Err(reason);
            }
        }
        slots
    }

    fn judge_one(
        &mut self,
        sample: &Sample,
        tenant: &Tenant,
        series: &[Result<SeriesDef, ogive_model::Error>],
        ids: &[Option<SeriesId>],
        resolved: &mut [Option<Result<Slot, Reason>>],
        wall_ns: i64,
    ) -> Result<Slot, Reason> {
        let index = sample.series as usize;
        let def = series.get(index).ok_or(Reason::SeriesUnknown)?.as_ref().map_err(|_| Reason::LabelsInvalid)?;
        check(sample, def.meta.kind, wall_ns)?;
        let id = ids[index].expect("a good series has an id");
        // Only now: a series is registered by its first sample that is accepted.
        let slot = (*resolved[index].get_or_insert_with(|| self.registry.resolve(id, tenant, def)))?;
        if def.meta.temporality == Temporality::Delta {
            let scheme = match &sample.value {
                Value::Histogram(histogram) => &histogram.scheme,
                Value::FloatHistogram(histogram) => &histogram.scheme,
                Value::Float(_) | Value::Text(_) => return Ok(slot),
            };
            self.registry.admit(id, scheme, sample.time_ms())?;
        }
        Ok(slot)
    }

    /// Takes the accepted samples of a batch, whose record is in the journal, into the open group.
    fn place(&mut self, batch: Batch, slots: &[Option<Slot>], bytes: usize) {
        let key = (batch.source, batch.sequence);
        self.open.marks.push(key);
        self.open.pending.insert(key);
        self.open.bytes += bytes;
        // As a replay has them: a frame holds the histograms with float counts behind the others.
        let mut last = Vec::new();
        for (sample, slot) in batch.samples.into_iter().zip(slots) {
            let (Ok(sample), Some(slot)) = (sample, slot) else { continue };
            let placed = Placed { index: slot.index, time_ms: sample.time_ms(), value: sample.value };
            match placed.value {
                Value::FloatHistogram(_) => last.push((slot.shard, placed)),
                _ => self.open.placed[slot.shard].push(placed),
            }
        }
        for (shard, placed) in last {
            self.open.placed[shard].push(placed);
        }
    }

    /// Hands the open group, which is durable now, to the shards.
    fn hand_on(&mut self) {
        let open = std::mem::replace(&mut self.open, Open::of(self.shards.len()));
        for (source, sequence) in open.marks {
            self.sources.mark(source, sequence);
        }
        let mut series: Vec<Vec<(u32, Arc<Owned>)>> = self.shards.iter().map(|_| Vec::new()).collect();
        for (slot, owned) in self.registry.keep() {
            series[slot.shard].push((slot.index, owned));
        }
        self.stats.series.set(self.registry.len() as u64);
        open.replies.iter().for_each(|(_, verdict)| self.stats.count(verdict));
        let group = Group::new(self.shards.len(), open.replies);
        for ((shard, series), samples) in self.shards.iter().zip(series).zip(open.placed) {
            // A shard that is gone panicked; its replies are never sent, which tells their senders.
            let _ = shard.send(ToShard::Apply { series, samples, group: Arc::clone(&group) });
        }
    }

    /// Parts the heads at `position`, behind everything that was handed on.
    fn mark(&mut self, position: Position) -> Mark {
        self.epoch += 1;
        let retired = self.registry.mark();
        let (answer, frozen) = std::sync::mpsc::channel();
        for (shard, retired) in self.shards.iter().zip(retired) {
            let _ = shard.send(ToShard::Freeze { epoch: self.epoch, retired, answer: answer.clone() });
        }
        self.stats.series.set(self.registry.len() as u64);
        Mark { position, windows: self.sources.to_bytes(), epoch: self.epoch, frozen }
    }
}

impl Open {
    fn of(shards: usize) -> Self {
        Self { placed: (0..shards).map(|_| Vec::new()).collect(), ..Self::default() }
    }
}

/// The identities of a batch's good series.
pub(crate) fn ids_of(batch: &Batch) -> Vec<Option<SeriesId>> {
    batch.series.iter().map(|def| def.as_ref().ok().map(|def| def.id(&batch.tenant))).collect()
}

/// Closes the queue when its reader ends, however that is, and drops what is in it: a dropped reply tells its
/// sender.
struct Closer(Arc<Queue<Command>>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.close();
        while let Ok(Some(command)) = self.0.pop(Some(Duration::ZERO)) {
            drop(command);
        }
    }
}

/// See the module.
pub(crate) struct Writer {
    pub(crate) core: Core,
    pub(crate) journal: Journal,
    pub(crate) queue: Arc<Queue<Command>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) size: Arc<HeadSize>,
    pub(crate) flush_bytes: u64,
    pub(crate) group_ns: u64,
    /// Asks for a flush.
    pub(crate) want_flush: Box<dyn Fn() + Send>,
    pub(crate) synced_ns: u64,
}

impl Writer {
    /// Works until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        let _closer = Closer(Arc::clone(&self.queue));
        loop {
            match self.queue.pop(self.patience()) {
                Ok(Some(command)) => self.obey(command),
                Ok(None) => self.commit(),
                Err(_) => break,
            }
            if self.is_due() {
                self.commit();
            }
        }
        self.commit();
    }

    /// How long the open group may wait for company.
    fn patience(&self) -> Option<Duration> {
        if self.core.open.replies.is_empty() {
            return None;
        }
        let due = self.synced_ns.saturating_add(self.group_ns);
        Some(Duration::from_nanos(due.saturating_sub(self.clock.now_ns())))
    }

    fn is_due(&self) -> bool {
        let open = &self.core.open;
        if open.replies.is_empty() {
            return false;
        }
        let now = self.clock.now_ns();
        open.bytes >= GROUP_BYTES_MAX
            || now >= open.begun_ns.saturating_add(self.group_ns)
            || (now >= self.synced_ns.saturating_add(self.group_ns) && self.queue.len() == 0)
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(submission) => self.take(*submission),
            Command::Mark(answer) => {
                self.commit();
                // The heads hold what was replayed; while it is not durable there is no position to part them at.
                let synced = if self.journal.is_poisoned() { Ok(()) } else { self.journal.sync().map(|_| ()) };
                let _ = answer.send(synced.map(|()| self.core.mark(self.journal.durable())));
            }
            Command::Rotate => {
                self.commit();
                // A segment that cannot be begun now is begun by the next record.
                if self.journal.rotate().is_err() {
                    self.core.stats.journal_failures.add(1);
                    self.mend();
                }
            }
            Command::Cut(target, answer) => {
                self.commit();
                let _ = answer.send(self.journal.cut(&target));
                self.core.stats.journal_bytes.set(self.journal.bytes());
            }
            Command::Truncate(position) => {
                // What cannot be removed now is tried again after the next flush.
                if self.journal.truncate_before(position).is_err() {
                    self.core.stats.journal_failures.add(1);
                }
                self.core.stats.journal_bytes.set(self.journal.bytes());
            }
        }
    }

    fn take(&mut self, mut submission: Submission) {
        let stamps = submission.stamps.take();
        stamps.iter().for_each(|stamps| stamps.stamp(Step::Taken));
        let Submission { batch, ids, .. } = &mut submission;
        let samples = batch.samples.len() as u64;
        let verdict = match self.core.seen((batch.source, batch.sequence)) {
            Seen::Duplicate => Verdict { duplicate: samples, ..Verdict::default() },
            Seen::TooOld => {
                let rejected = (0..samples as u32).map(|at| (at, Reason::SequenceTooOld)).collect();
                Verdict { rejected, ..Verdict::default() }
            }
            Seen::New => {
                self.core.registry.tick(self.clock.now_ns());
                let fresh = self.core.registry.fresh_count();
                let slots = self.core.judge(batch, ids, self.clock.wall_ns());
                let verdict = verdict_of(batch);
                return match self.append(submission, &slots, &verdict) {
                    Ok(reply) => self.answer(reply, verdict, stamps),
                    Err((reply, refusal)) => {
                        self.core.registry.forget_fresh(fresh);
                        self.refuse(reply, refusal);
                        self.mend();
                    }
                };
            }
        };
        // What was decided about an earlier batch may still be on its way to the shards: this waits behind it.
        self.answer(submission.reply, verdict, stamps);
    }

    fn append(
        &mut self,
        submission: Submission,
        slots: &[Option<Slot>],
        verdict: &Verdict,
    ) -> Result<Reply, (Reply, Refusal)> {
        let Submission { mut batch, mut frame, reply, .. } = submission;
        if verdict.accepted == 0 {
            // It is journalled empty: its number was answered for and is not judged again.
            batch.series.clear();
            batch.samples.clear();
        }
        if !verdict.rejected.is_empty() {
            // It may be larger than what came: a sender's frame can name one string many times.
            match batch.encode() {
                Ok(accepted) => frame = accepted,
                Err(error) => return Err((reply, Refusal::TooLarge(error.to_string()))),
            }
        }
        if let Err(error) = self.journal.reopen().and_then(|()| self.journal.append(&frame)) {
            self.core.stats.journal_failures.add(1);
            return Err((reply, refusal(&error)));
        }
        self.core.place(batch, slots, frame.len());
        Ok(reply)
    }

    fn answer(&mut self, reply: Reply, verdict: Verdict, stamps: Option<Arc<dyn Stamps>>) {
        stamps.iter().for_each(|stamps| stamps.stamp(Step::Journaled));
        self.core.open.stamps.extend(stamps);
        if self.core.open.replies.is_empty() {
            self.core.open.begun_ns = self.clock.now_ns();
        }
        self.core.open.replies.push((reply, verdict));
    }

    fn refuse(&self, reply: Reply, refusal: Refusal) {
        self.core.stats.refused.add(1);
        reply(Err(refusal));
    }

    /// After an error: if it left the journal in doubt, the open group is lost, and the journal begins anew.
    fn mend(&mut self) {
        if self.journal.is_poisoned() {
            self.fail(&Refusal::Failed("the journal failed before the batch was durable".into()));
        }
    }

    /// Makes the open group durable and hands it on.
    fn commit(&mut self) {
        if self.core.open.replies.is_empty() {
            return;
        }
        // A duplicate may be of a batch that was replayed and is not durable yet.
        if self.core.open.bytes > 0 || self.journal.durable() < self.journal.next() {
            let begun = self.clock.now_ns();
            let synced = self.journal.sync();
            self.synced_ns = self.clock.now_ns();
            if let Some(observer) = &self.observer {
                observer.fsync(self.synced_ns.saturating_sub(begun));
            }
            if let Err(error) = synced {
                self.core.stats.journal_failures.add(1);
                self.fail(&refusal(&error));
                return;
            }
        }
        self.core.stats.journal_bytes.set(self.journal.bytes());
        self.core.open.stamps.drain(..).for_each(|stamps| stamps.stamp(Step::Durable));
        self.core.hand_on();
        if self.size.active_bytes() > self.flush_bytes {
            (self.want_flush)();
        }
    }

    /// Answers the whole open group with an error; its records are void once the journal is reopened.
    fn fail(&mut self, refusal: &Refusal) {
        let open = std::mem::replace(&mut self.core.open, Open::of(self.core.shards.len()));
        self.core.registry.forget_fresh(0);
        // Tried again with the next batch if it fails.
        let _ = self.journal.reopen();
        for (reply, _) in open.replies {
            self.refuse(reply, refusal.clone());
        }
    }

    /// Applies what the journal holds from `from` on. `relieve` is called with each mark when the heads are full,
    /// and must have made them durable as a block when it returns.
    pub(crate) fn replay(
        &mut self,
        from: Position,
        mut relieve: impl FnMut(Mark) -> Result<(), crate::Error>,
    ) -> Result<Recovered, crate::Error> {
        let mut recovered = Recovered::default();
        let core = &mut self.core;
        core.registry.tick(self.clock.now_ns());
        let limit = core.registry.limit(usize::MAX);
        let replay = self.journal.replay::<crate::Error>(from, |position, frame| {
            match Batch::decode(frame) {
                Ok(batch) => {
                    let (samples, lost) = core.restore(batch, frame.len());
                    recovered.samples += samples;
                    if lost > 0 {
                        recovered.findings.push(format!("journal record {}: {lost} samples do not fit", position.0));
                    }
                }
                Err(error) => recovered.findings.push(format!("journal record {}: {error}", position.0)),
            }
            if core.open.bytes >= GROUP_BYTES_MAX {
                core.apply_and_wait();
                if self.size.active_bytes() > self.flush_bytes {
                    relieve(core.mark(Position(position.0 + 1)))?;
                }
            }
            Ok(())
        })?;
        core.apply_and_wait();
        core.registry.limit(limit);
        (recovered.batches, recovered.bytes) = (replay.records, replay.bytes);
        recovered.findings.extend(replay.corruptions.iter().map(ToString::to_string));
        core.stats.journal_bytes.set(self.journal.bytes());
        core.stats.journal_durable.set(self.journal.durable().0);
        Ok(recovered)
    }
}

impl Core {
    /// Takes a batch from the journal into the open group: everything in it was accepted. Gives the number of its
    /// samples, and how many of them cannot be applied now.
    fn restore(&mut self, mut batch: Batch, bytes: usize) -> (u64, u64) {
        if self.seen((batch.source, batch.sequence)) == Seen::Duplicate {
            return (0, 0);
        }
        let ids = ids_of(&batch);
        // The clock may stand elsewhere now; what was accepted stays.
        let slots = self.judge(&mut batch, &ids, i64::MAX);
        self.place(batch, &slots, bytes);
        let restored = slots.iter().flatten().count();
        (restored as u64, (slots.len() - restored) as u64)
    }

    /// Hands the open group on and waits until it is applied.
    fn apply_and_wait(&mut self) {
        let (applied, wait) = std::sync::mpsc::channel();
        let reply: Reply = Box::new(move |_| {
            let _ = applied.send(());
        });
        self.open.replies.push((reply, Verdict::default()));
        self.hand_on();
        // An error means that a shard is gone; nothing more comes of it then.
        let _ = wait.recv();
    }
}

fn verdict_of(batch: &Batch) -> Verdict {
    let mut verdict = Verdict::default();
    for (at, sample) in batch.samples.iter().enumerate() {
        match sample {
            Ok(_) => verdict.accepted += 1,
            Err(reason) => verdict.rejected.push((at as u32, *reason)),
        }
    }
    verdict
}

fn refusal(error: &DiskError) -> Refusal {
    if error.is_full() { Refusal::DiskFull } else { Refusal::Failed(error.to_string()) }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Full => Self::Busy,
            Refused::Closed => Self::Failed("the store is shutting down".into()),
        }
    }
}
