//! The journal writer: the one thread that asks [`Core`] to decide about samples, appends them, and makes them durable.
//!
//! Invariants: records reach the shards in journal order, and only durable ones do. A record that names a series by
//! identity or number comes after those that say what it is, all at or after the position of the last mark.
//! Threads: one.
//! Limits: [`GROUP_BYTES_MAX`], and the group interval of the options.
//! Failure: a failed fsync answers the whole group with its error, forgets the series that it introduced, and continues
//! in a new segment; a record that does not fit on the disk is refused alone.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use ogive_journal::{CORRUPTIONS_MAX, Error as DiskError, Journal, Position, Replay};
use ogive_model::sequence::SequenceState;
use ogive_model::{Batch, MonoNs, Ns, Reason, Sample, SeriesDef, SeriesId, Stamps, Step, Value, Verdict, WallMs, wire};

use crate::findings::NewFinding;
pub(crate) use crate::ingest::core::{Core, Mark, ids_of};
use crate::ingest::core::{Judged, Numbers, Restored};
use crate::ingest::owned::Owned;
use crate::ingest::registry::Limits;
use crate::ingest::shard::HeadSize;
use crate::ingest::spans::Spans;
use crate::ingest::stats::Recovered;
use crate::ingest::{Clock, Observer, Queue, Refusal, Refused, Reply};
use crate::record::{NUMBER_MAX, RecordEncoder, RecordHead};
use crate::reserve::Reserve;
use crate::sway::sway;

/// 8 MiB of labels go into one record of definitions: a quarter of what a frame may have.
const DEFINITIONS_BYTES_MAX: usize = 8 << 20;
/// 8 MiB: some hundred thousand samples become durable with one fsync; more would only wait longer.
pub(crate) const GROUP_BYTES_MAX: usize = 8 << 20;

/// 16 MiB: of the series of a host each has some tens of rows in a group, which are applied behind each other.
const REPLAY_GROUP_BYTES: usize = 16 << 20;

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

/// Messages to the writer.
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

/// Closes the queue when its reader ends, however that is, and drops what is in it: a dropped reply notifies its
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

/// What a replay came to.
pub(crate) struct Replayed {
    pub(crate) recovered: Recovered,
    pub(crate) lost: Vec<NewFinding>,
    /// Which times the segments hold.
    pub(crate) spans: Spans,
}

/// See the module.
pub(crate) struct Writer {
    pub(crate) core: Core,
    pub(crate) journal: Journal,
    pub(crate) queue: Arc<Queue<Command>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) size: Arc<HeadSize>,
    /// Bytes that series and samples may have together.
    pub(crate) head_bytes_max: u64,
    /// Bytes of records since the heads were parted, and how many are too many.
    pub(crate) unflushed_bytes: u64,
    pub(crate) unflushed_bytes_max: u64,
    pub(crate) group: Ns,
    /// The arrival that the journal said last; none when it says none.
    pub(crate) arrived: Option<WallMs>,
    /// Asks for a flush.
    pub(crate) want_flush: Box<dyn Fn() + Send>,
    pub(crate) synced: MonoNs,
    /// Makes records.
    pub(crate) encoder: RecordEncoder,
    /// Its space is not for batches.
    pub(crate) reserve: Arc<Reserve>,
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
        let due = self.synced.saturating_add(self.group);
        Some(due.since(self.clock.now()).to_duration())
    }

    fn is_due(&self) -> bool {
        let open = &self.core.open;
        if open.replies.is_empty() {
            return false;
        }
        let now = self.clock.now();
        open.bytes >= GROUP_BYTES_MAX
            || now >= open.begun.saturating_add(self.group)
            || (now >= self.synced.saturating_add(self.group) && self.queue.len() == 0)
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(submission) => self.take(*submission),
            Command::Mark(answer) => {
                self.commit();
                // The heads hold what was replayed; while it is not durable there is no position to part them at.
                let synced = if self.journal.is_poisoned() { Ok(()) } else { self.journal.sync().map(|_| ()) };
                let _ = answer.send(synced.map(|()| self.core.mark(self.journal.durable())));
                // Records that nobody waits for may be void now: definitions before a batch that was refused.
                self.mend();
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
                self.mend();
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
        let batch = &submission.batch;
        assert_eq!(submission.ids.len(), batch.series.len(), "each series of a batch has a place among the ids");
        let samples = batch.samples.len() as u64;
        let verdict = match self.core.seen(batch) {
            SequenceState::Duplicate => Verdict { duplicate: samples, ..Verdict::default() },
            SequenceState::TooOld => {
                let rejected = (0..samples as u32).map(|at| (at, Reason::SequenceTooOld)).collect();
                Verdict { rejected, ..Verdict::default() }
            }
            SequenceState::New => return self.take_new(submission, stamps),
        };
        // What was decided about an earlier batch may still be on its way to the shards: this waits behind it.
        self.answer(submission.reply, verdict, stamps);
    }

    fn take_new(&mut self, mut submission: Submission, stamps: Option<Arc<dyn Stamps>>) {
        let Submission { batch, ids, .. } = &mut submission;
        self.core.registry.tick(self.clock.now());
        let fresh = self.core.registry.fresh_count();
        let known = match self.core.known(batch) {
            Ok(known) => known,
            Err(unknown) => {
                self.core.stats.unknown_series.add(1);
                return self.refuse(submission.reply, Refusal::UnknownSeries(unknown));
            }
        };
        let judged = self.core.judge(batch, ids, &known, self.clock.wall());
        match self.append(submission, &judged) {
            Ok(reply) => self.answer(reply, judged.verdict, stamps),
            Err((reply, refusal)) => {
                self.core.registry.forget_fresh(fresh);
                self.refuse(reply, refusal);
                self.mend();
            }
        }
    }

    fn append(&mut self, submission: Submission, judged: &Judged) -> Result<Reply, (Reply, Refusal)> {
        let Submission { mut batch, mut frame, reply, .. } = submission;
        if judged.verdict.accepted == 0 {
            // It is journalled empty: its number was answered for and is not judged again.
            (batch.series, batch.known, batch.samples) = Default::default();
        }
        let is_columnar = self.is_columnar(&batch, judged);
        if judged.is_changed() && !is_columnar {
            // It may be larger than what came: a sender's frame can name one string many times.
            match batch.encode() {
                Ok(accepted) => frame = accepted,
                Err(error) => return Err((reply, Refusal::TooLarge(error.to_string()))),
            }
        }
        if self.reserve.is_lent() {
            return Err((reply, Refusal::DiskFull));
        }
        let numbers = judged.distinct();
        let appended = self.journal.reopen().and_then(|()| self.arrive()).and_then(|()| self.define(&batch, &numbers));
        let appended = appended.and_then(|()| match is_columnar {
            true => self.append_floats(&batch, judged, &numbers),
            false => self.journal.append(&frame).map(drop),
        });
        if let Err(error) = appended {
            self.core.stats.journal_failures.add(1);
            self.arrived = self.arrived.map(|_| WallMs::MIN);
            return Err((reply, refusal(&error)));
        }
        assert!(!self.journal.is_poisoned(), "nobody is promised what a poisoned journal took");
        assert!(self.journal.durable() < self.journal.next(), "it is durable once its group is");
        if !is_columnar {
            self.core.define(&batch, judged);
        }
        self.unflushed_bytes += frame.len() as u64;
        self.core.place(batch, judged, frame.len());
        Ok(reply)
    }

    /// Whether a batch is journalled as columns: floats of series that the journal defines, or is going to.
    fn is_columnar(&self, batch: &Batch, judged: &Judged) -> bool {
        let registry = &self.core.registry;
        let is_plain = |sample: &Sample| matches!(sample.value, Value::Float(_)) && sample.start_ns.unwrap_or(0) == 0;
        let is_known = |number| number < NUMBER_MAX && (batch.series.is_empty() || registry.is_well_defined(number));
        judged.verdict.accepted > 0 && batch.samples.iter().flatten().all(is_plain) && judged.numbers().all(is_known)
    }

    /// Appends the floats of a batch as columns; `numbers` are those of its series, ascending.
    fn append_floats(&mut self, batch: &Batch, judged: &Judged, numbers: &[u32]) -> Result<(), DiskError> {
        let (registry, encoder) = (&mut self.core.registry, &mut self.encoder);
        encoder.clear();
        for number in numbers {
            if let Some(id) = registry.unbound(*number) {
                encoder.bind(*number, id);
            }
        }
        let mut taken = 0;
        for sample in batch.samples.iter().flatten() {
            let (Some(number), Value::Float(value)) = (judged.number_of(sample), &sample.value) else { continue };
            encoder.push(number, sample.time_ns, *value);
            taken += 1;
        }
        assert_eq!(taken, judged.verdict.accepted, "each accepted sample is in the record, and no other");
        let part = registry.part_name();
        let head = RecordHead { tenant: &batch.tenant, source: batch.source, sequence: batch.sequence, part };
        self.journal.append(encoder.finish(&head))?;
        numbers.iter().for_each(|number| registry.count_record(*number));
        Ok(())
    }

    /// Says when what follows arrived, once a millisecond.
    fn arrive(&mut self) -> Result<(), DiskError> {
        let Some(before) = self.arrived else { return Ok(()) };
        let now = self.clock.wall();
        if now.to_ms() == before {
            return Ok(());
        }
        let frame = wire::encode_arrival(now.0);
        self.journal.append(&frame)?;
        self.core.open.bytes += frame.len();
        self.arrived = Some(now.to_ms());
        Ok(())
    }

    /// Appends the definitions of the series that a batch only names, where the journal's current part has too few;
    /// `numbers` are those of its series.
    fn define(&mut self, batch: &Batch, numbers: &[u32]) -> Result<(), DiskError> {
        if batch.known.is_empty() {
            return Ok(());
        }
        let (core, journal) = (&mut self.core, &mut self.journal);
        let is_undefined = |number: &u32| core.registry.undefined(*number).is_some();
        let undefined: Vec<u32> = numbers.iter().copied().filter(is_undefined).collect();
        let mut rest = &undefined[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |number: &&u32| {
                let owned = core.registry.undefined(**number);
                // 32: what the reader counts for a label beside its bytes.
                let of = |owned: &Owned| owned.labels_bytes() + 32 * owned.pairs().len() + owned.meta().unit.len();
                bytes += owned.map_or(0, of);
                bytes <= DEFINITIONS_BYTES_MAX
            };
            // At least one: the largest that there can be has some 2 MiB.
            let count = rest.iter().take_while(fits).count().max(1);
            let (part, others) = rest.split_at(count);
            let defs: Vec<SeriesDef> =
                part.iter().filter_map(|number| core.registry.undefined(*number)).map(Owned::def).collect();
            assert_eq!(defs.len(), part.len(), "each series that too few records define is in the next one");
            let frame = wire::encode_definitions(&batch.tenant, &defs).expect("a quarter of what a frame may have");
            journal.append(&frame)?;
            core.open.bytes += frame.len();
            part.iter().for_each(|number| core.registry.defined(*number));
            rest = others;
        }
        Ok(())
    }

    fn answer(&mut self, reply: Reply, verdict: Verdict, stamps: Option<Arc<dyn Stamps>>) {
        stamps.iter().for_each(|stamps| stamps.stamp(Step::Journaled));
        self.core.open.stamps.extend(stamps);
        if self.core.open.replies.is_empty() {
            self.core.open.begun = self.clock.now();
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
            let begun = self.clock.now();
            sway();
            let synced = self.journal.sync();
            self.synced = self.clock.now();
            if let Some(observer) = &self.observer {
                observer.fsync(self.synced.since(begun));
            }
            if let Err(error) = synced {
                self.core.stats.journal_failures.add(1);
                self.fail(&refusal(&error));
                return;
            }
        }
        self.core.stats.journal_bytes.set(self.journal.bytes());
        self.core.stats.journal_durable.set(self.journal.durable().0);
        assert_eq!(self.journal.durable(), self.journal.next(), "only what is durable is handed to the shards");
        self.core.open.stamps.drain(..).for_each(|stamps| stamps.stamp(Step::Durable));
        sway();
        self.core.hand_on();
        assert!(self.core.open.replies.is_empty(), "the shards answer the group that was handed to them");
        if self.size.is_half_full(self.head_bytes_max) || self.unflushed_bytes > self.unflushed_bytes_max {
            // Asked once: the count begins anew, whenever the flush comes.
            self.unflushed_bytes = 0;
            (self.want_flush)();
        }
    }

    /// Answers the whole open group with an error; its records are void once the journal is reopened.
    fn fail(&mut self, refusal: &Refusal) {
        let replies = self.core.abandon();
        assert!(self.core.open.replies.is_empty(), "the group that failed is answered here");
        // Tried again with the next batch if it fails.
        let _ = self.journal.reopen();
        for (reply, _) in replies {
            self.refuse(reply, refusal.clone());
        }
    }

    /// Applies what the journal holds from `from` on; the records before it, from `read_from` on, are read for the
    /// series that they define and the numbers that they bind. `relieve` is called with each mark when the heads are
    /// full, and must have made them durable as a block when it returns.
    pub(crate) fn replay(
        &mut self,
        read_from: Position,
        from: Position,
        mut relieve: impl FnMut(Mark) -> Result<(), crate::Error>,
    ) -> Result<Replayed, crate::Error> {
        assert!(read_from <= from, "records are read from {} on and applied from {} on", read_from.0, from.0);
        let (mut recovered, mut spans) = (Recovered::default(), Spans::new(self.journal.segments()));
        // Records that are not lost and say nothing, by position.
        let mut useless = Vec::new();
        let core = &mut self.core;
        // One group is applied while the next one is read, as long as the heads have room for both.
        let of_heads = usize::try_from(self.head_bytes_max / 8).unwrap_or(usize::MAX);
        let group_bytes = REPLAY_GROUP_BYTES.min(of_heads).max(GROUP_BYTES_MAX);
        let (mut numbers, mut applied) = (Numbers::default(), None);
        // Records, and their bytes, whose samples are in blocks.
        let mut before = (0, 0);
        core.registry.tick(self.clock.now());
        let limits = core.registry.limit(Limits::NONE);
        core.registry.replay(true);
        let replay = self.journal.replay::<crate::Error>(read_from, |position, frame| {
            if position < from {
                before = (before.0 + 1, before.1 + frame.len() as u64);
                if let Err(error) = core.restore_names(frame, &mut numbers) {
                    useless.push((position.0, format!("journal record {}: {error}", position.0)));
                    useless.truncate(CORRUPTIONS_MAX);
                }
                return Ok(());
            }
            match core.restore_record(frame, &mut numbers) {
                Ok(Restored { samples, lost, span }) => {
                    recovered.samples += samples;
                    span.into_iter().for_each(|(first, last)| spans.add(position, first, last));
                    if lost > 0 {
                        useless.push((position.0, format!("journal record {}: {lost} samples do not fit", position.0)));
                    }
                }
                Err(error) => useless.push((position.0, format!("journal record {}: {error}", position.0))),
            }
            useless.truncate(CORRUPTIONS_MAX);
            if core.open.bytes >= group_bytes {
                wait_for(applied.replace(core.apply()));
                // This group, and the next one, which is read before this is looked at again.
                if self.size.is_half_full_with(2 * group_bytes as u64, self.head_bytes_max) {
                    wait_for(applied.take());
                }
                if self.size.is_half_full(self.head_bytes_max) {
                    relieve(core.mark_replayed(Position(position.0 + 1), read_from, &numbers))?;
                }
            }
            Ok(())
        })?;
        wait_for(applied);
        wait_for(Some(core.apply()));
        assert!(core.open.replies.is_empty(), "nobody waits for what is replayed");
        core.registry.limit(limits);
        core.registry.replay(false);
        (recovered.batches, recovered.bytes) = (replay.records - before.0, replay.bytes - before.1);
        let found = findings_of(useless, &replay, &spans, from);
        recovered.findings.extend(found.iter().map(|finding| finding.problem.clone()));
        core.stats.journal_bytes.set(self.journal.bytes());
        core.stats.journal_durable.set(self.journal.durable().0);
        if let Some(observer) = &self.observer {
            observer.recovered(core.sources());
        }
        Ok(Replayed { recovered, lost: found, spans })
    }
}

/// What was bad in the journal, and what could not be applied: by position, with a sentence. Of the records before
/// `from` blocks have the samples.
fn findings_of(useless: Vec<(u64, String)>, replay: &Replay, spans: &Spans, from: Position) -> Vec<NewFinding> {
    let bad = replay.corruptions.iter().map(|bad| (bad.lost, bad.to_string()));
    let lost = useless.into_iter().map(|(at, reported)| ((at, at + 1), reported)).chain(bad);
    let finding = |(lost, reported): ((u64, u64), String)| NewFinding {
        // A bad header of a segment costs no record.
        silent: lost.0.max(from.0) < lost.1,
        ..NewFinding::silent(reported, spans.around(lost.0..lost.1))
    };
    lost.map(finding).collect()
}

/// Waits until a group is applied.
fn wait_for(applied: Option<Receiver<()>>) {
    // An error means that a shard is gone; nothing more comes of it then.
    applied.into_iter().for_each(|applied| _ = applied.recv());
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
