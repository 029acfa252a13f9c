//! The decisions about samples, and their hand-over to the shards: the journal writer without its journal.
//!
//! Invariants: a sequence is marked after its fsync and before any later batch is examined; a series is registered by
//! its first accepted sample. Samples beyond a tenant's limit are accepted into the overflow series, and the journal
//! has them under that series, so that a replay needs no limits. Each sample of a batch is accepted or rejected, and
//! each accepted one goes to one shard. Heads are parted between two groups.
//! Threads: the journal writer's.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use ogive_hist::Scheme;
use ogive_journal::Position;
use ogive_model::sequence::{SequenceState, SourceTable};
use ogive_model::{Batch, Error as Bad, Kind, MonoNs, Reason, Sample, SeriesDef, SeriesId, SourceId, Stamps, Tenant};
use ogive_model::{Value, Verdict, WallMs, WallNs, wire};

use crate::class::Class;
use crate::ingest::check::check;
use crate::ingest::head::{FloatRow, Frozen, Placed, Placement};
use crate::ingest::overflow::{self, Beyond};
use crate::ingest::owned::Owned;
use crate::ingest::registry::Slot;
use crate::ingest::shard::{Group, HeadSize, ToShard};
use crate::ingest::stats::Stats;
use crate::ingest::{Limits, Registry, Reply};
use crate::record::{FloatRecord, NUMBER_MAX};
use crate::retention::Oldest;

/// A journal position at which the heads were parted.
pub(crate) struct Mark {
    pub(crate) position: Position,
    /// From where on records say what those behind `position` only name: before it in the middle of a replay.
    pub(crate) read_from: Position,
    /// The source table at that position, as bytes.
    pub(crate) windows: Vec<u8>,
    pub(crate) epoch: u64,
    /// One frozen head from each shard.
    pub(crate) frozen: Receiver<Arc<Frozen>>,
}

/// What makes a batch one that came before: its tenant, its source and its number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct BatchKey {
    tenant: Tenant,
    source: SourceId,
    sequence: u64,
}

impl BatchKey {
    fn from_batch(batch: &Batch) -> Self {
        Self { tenant: batch.tenant.clone(), source: batch.source, sequence: batch.sequence }
    }
}

/// What the numbers in the journal's records are here.
#[derive(Default)]
pub(crate) struct Numbers {
    /// The part of the journal.
    part: Option<u32>,
    /// By number there, the number here; [`UNBOUND`] where no record says what it is.
    here: Vec<u32>,
}

const UNBOUND: u32 = u32::MAX;

/// Rows of a group of a replay and of one record more: 16 MiB.
const ROWS_ABOUT: usize = (16 << 20) / size_of::<FloatRow>();

impl Numbers {
    fn set(&mut self, there: u32, here: u32) {
        assert!(there < NUMBER_MAX, "a reader of records takes no number {there}");
        let at = there as usize;
        if at >= self.here.len() {
            self.here.resize(at + 1, UNBOUND);
        }
        self.here[at] = here;
    }
}

/// Batches that will be durable with the next fsync.
#[derive(Default)]
pub(crate) struct Open {
    pub(crate) replies: Vec<(Reply, Verdict)>,
    pub(crate) stamps: Vec<Arc<dyn Stamps>>,
    marks: Vec<BatchKey>,
    pending: HashSet<BatchKey>,
    placed: Vec<Placement>,
    pub(crate) bytes: usize,
    pub(crate) begun: MonoNs,
}

impl Open {
    pub(crate) fn with_shards(shards: usize) -> Self {
        Self { placed: (0..shards).map(|_| Placement::default()).collect(), ..Self::default() }
    }
}

/// Where the samples of one of a batch's series go.
#[derive(Clone, Copy)]
enum SampleTarget {
    /// None of them was looked at yet.
    Open,
    At {
        number: u32,
        slot: Slot,
        kind: Kind,
        delta: bool,
        /// Whether it is the series that stands for those beyond a limit.
        folded: bool,
    },
    No(Reason),
}

impl SampleTarget {
    const fn number(&self) -> Option<u32> {
        match self {
            Self::At { number, .. } => Some(*number),
            Self::Open | Self::No(_) => None,
        }
    }
}

/// What was decided about a batch.
pub(crate) struct Judged {
    places: Vec<SampleTarget>,
    pub(crate) verdict: Verdict,
}

impl Judged {
    /// Whether the frame as it came says something else.
    pub(crate) fn is_changed(&self) -> bool {
        self.verdict.folded > 0 || !self.verdict.rejected.is_empty()
    }

    /// The numbers of the series that got samples.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.iter().filter_map(SampleTarget::number)
    }

    /// As [`Judged::numbers`], ascending and each once: a batch may name a series twice, and one series may stand for
    /// many.
    pub(crate) fn distinct(&self) -> Vec<u32> {
        ascending(self.numbers())
    }

    /// Those of the series that the batch declares that got samples: a replay registers no others.
    fn declared(&self, batch: &Batch) -> Vec<u32> {
        let mut has_samples = vec![false; batch.series.len()];
        for sample in batch.samples.iter().flatten() {
            if let Some(has) = has_samples.get_mut(sample.series as usize) {
                *has = true;
            }
        }
        let sampled = self.places.iter().zip(has_samples).filter(|(_, has)| *has);
        ascending(sampled.filter_map(|(place, _)| place.number()))
    }

    /// The number of the series of a sample that was accepted.
    pub(crate) fn number_of(&self, sample: &Sample) -> Option<u32> {
        self.places.get(sample.series as usize).and_then(SampleTarget::number)
    }
}

/// What a record of the journal came to.
#[derive(Default)]
pub(crate) struct Restored {
    pub(crate) samples: u64,
    /// Samples that cannot be applied now.
    pub(crate) lost: u64,
    /// The first and the last time of its samples.
    pub(crate) span: Option<(WallMs, WallMs)>,
}

/// See the module.
pub(crate) struct Core {
    sources: SourceTable,
    pub(crate) registry: Registry,
    pub(crate) shards: Vec<SyncSender<ToShard>>,
    pub(crate) open: Open,
    epoch: u64,
    pub(crate) stats: Arc<Stats>,
    size: Arc<HeadSize>,
    oldest: Arc<Oldest>,
}

impl Core {
    pub(crate) fn new(
        sources: SourceTable,
        limits: Limits,
        shards: &[SyncSender<ToShard>],
        stats: &Arc<Stats>,
        size: &Arc<HeadSize>,
        oldest: &Arc<Oldest>,
    ) -> Self {
        let registry = Registry::new(shards.len(), limits);
        let (stats, size, oldest) = (Arc::clone(stats), Arc::clone(size), Arc::clone(oldest));
        let (shards, open) = (shards.to_vec(), Open::with_shards(shards.len()));
        Self { sources, registry, shards, open, epoch: 0, stats, size, oldest }
    }

    /// What was marked before the open group.
    pub(crate) fn sources(&self) -> &SourceTable {
        &self.sources
    }

    /// What the number of a batch is to its tenant.
    pub(crate) fn seen(&self, batch: &Batch) -> SequenceState {
        self.seen_key(&BatchKey::from_batch(batch))
    }

    fn seen_key(&self, key: &BatchKey) -> SequenceState {
        match self.open.pending.contains(key) {
            true => SequenceState::Duplicate,
            false => self.sources.seen(&key.tenant, key.source, key.sequence),
        }
    }

    /// The numbers of the series that a batch names by their identity.
    ///
    /// # Errors
    /// Which of them are not here, by index.
    pub(crate) fn known(&mut self, batch: &Batch) -> Result<Vec<u32>, Vec<u32>> {
        let (numbers, unknown) = self.registry.find_all(&batch.tenant, &batch.known);
        if unknown.is_empty() {
            return Ok(numbers);
        }
        let fresh = self.registry.fresh_count();
        self.registry.recall(unknown.iter().map(|at| batch.known[*at as usize]));
        self.count_recall_failures();
        let (numbers, unknown) = self.registry.find_all(&batch.tenant, &batch.known);
        if unknown.is_empty() {
            return Ok(numbers);
        }
        // The batch is refused: what it brought in with it gets no samples.
        self.registry.forget_fresh(fresh);
        Err(unknown)
    }

    fn count_recall_failures(&mut self) {
        self.stats.recall_failures.add(self.registry.take_recall_failures());
    }

    /// Decides about each sample. A rejected one becomes its reason in the batch; a series beyond a limit becomes the
    /// one that stands for it. `known` are the numbers of the series that the batch names.
    pub(crate) fn judge(&mut self, batch: &mut Batch, ids: &[Option<SeriesId>], known: &[u32], wall: WallNs) -> Judged {
        assert_eq!(ids.len(), batch.series.len(), "each declared series has its identity, if it is good");
        assert_eq!(known.len(), batch.known.len(), "each series that is named by its identity has its number");
        let mut places = vec![SampleTarget::Open; batch.series.len()];
        places.extend(known.iter().map(|number| self.place_at(*number, false)));
        let mut verdict = Verdict::default();
        // What the journal holds was accepted when it came.
        let oldest = if wall == WallNs::MAX { [WallMs::MIN; Class::ALL.len()] } else { self.oldest.of(&batch.tenant) };
        let Batch { tenant, series, samples, .. } = batch;
        for (sample, at) in samples.iter_mut().zip(0..) {
            let judged = match sample {
                Ok(sample) if WallMs(sample.time_ms()) <= oldest[self.class_of(sample, series, known) as usize] => {
                    Err(Reason::BeyondRetention)
                }
                Ok(sample) => {
                    let judged = self.judge_one(sample, tenant, series, ids, &mut places, wall);
                    // Points of several series that are equal would count once where they meet.
                    if judged == Ok(true) {
                        sample.start_ns = None;
                    }
                    judged
                }
                Err(reason) => Err(*reason),
            };
            match judged {
                Ok(folded) => {
                    verdict.accepted += 1;
                    verdict.folded += u64::from(folded);
                }
                Err(reason) => {
                    verdict.rejected.push((at, reason));
                    *sample = Err(reason);
                }
            }
        }
        let decided = verdict.accepted + verdict.rejected.len() as u64;
        assert_eq!(decided, samples.len() as u64, "each sample of a batch is accepted or rejected");
        Judged { places, verdict }
    }

    /// By what retention a sample is kept.
    fn class_of(&self, sample: &Sample, series: &[Result<SeriesDef, Bad>], known: &[u32]) -> Class {
        if !matches!(sample.value, Value::Text(_)) {
            return Class::Numbers;
        }
        let index = sample.series as usize;
        let metric = match series.get(index) {
            Some(def) => def.as_ref().ok().map(|def| def.labels.metric_name()),
            None => known.get(index - series.len()).map(|number| self.registry.metric_name(*number)),
        };
        metric.map_or(Class::Logs, |metric| Class::from_metric(metric, Kind::Text))
    }

    fn place_at(&self, number: u32, folded: bool) -> SampleTarget {
        let (kind, delta) = self.registry.kind(number);
        SampleTarget::At { number, slot: self.registry.slot(number), kind, delta, folded }
    }

    /// Whether a sample is taken, and folded.
    fn judge_one(
        &mut self,
        sample: &Sample,
        tenant: &Tenant,
        series: &mut [Result<SeriesDef, Bad>],
        ids: &[Option<SeriesId>],
        places: &mut [SampleTarget],
        wall: WallNs,
    ) -> Result<bool, Reason> {
        let index = sample.series as usize;
        let place = places.get_mut(index).ok_or(Reason::SeriesUnknown)?;
        if let SampleTarget::Open = place {
            let def = series[index].as_mut().map_err(|_| Reason::LabelsInvalid)?;
            check(sample, def.meta.kind, wall)?;
            // Only now: a series is registered by its first sample that is accepted.
            let id = ids[index].expect("a good series has an id");
            *place = match self.resolve(id, tenant, def, &sample.value) {
                Ok((number, folded)) => self.place_at(number, folded),
                Err(reason) => SampleTarget::No(reason),
            };
        } else if let SampleTarget::At { kind, .. } = *place {
            check(sample, kind, wall)?;
        }
        match *place {
            SampleTarget::At { number, delta, folded, .. } => {
                if delta && let Some(scheme) = scheme_of(&sample.value) {
                    self.registry.admit(number, scheme, WallMs(sample.time_ms()))?;
                }
                Ok(folded)
            }
            SampleTarget::No(reason) => Err(reason),
            SampleTarget::Open => unreachable!("it was just resolved"),
        }
    }

    /// The number of a series, or of the one that stands for it, which then takes its place in the batch.
    fn resolve(
        &mut self,
        id: SeriesId,
        tenant: &Tenant,
        def: &mut SeriesDef,
        value: &Value,
    ) -> Result<(u32, bool), Reason> {
        let beyond = match Beyond::labels(def, &self.registry.limits().tenant) {
            Some(beyond) => beyond,
            None => match self.registry.resolve(id, tenant, def) {
                Err(Reason::SeriesLimit) => Beyond::Series,
                resolved => return resolved.map(|number| (number, false)),
            },
        };
        let stands = overflow::series(def, value, beyond);
        let number = self.registry.resolve_overflow(stands.id(tenant), tenant, &stands)?;
        *def = stands;
        Ok((number, true))
    }

    /// Takes note of what a frame in the journal declares.
    pub(crate) fn define(&mut self, batch: &Batch, judged: &Judged) {
        judged.declared(batch).into_iter().for_each(|number| self.registry.defined(number));
    }

    /// Takes the accepted samples of a batch, whose record is in the journal, into the open group.
    pub(crate) fn place(&mut self, batch: Batch, judged: &Judged, bytes: usize) {
        self.open_with(BatchKey::from_batch(&batch), bytes);
        // Its answer is the next one.
        let number = self.open.replies.len() as u32;
        // As a replay has them: a frame holds the histograms with float counts behind the others.
        let mut last = Vec::new();
        let mut taken = 0;
        for sample in batch.samples.into_iter().flatten() {
            let Some(SampleTarget::At { slot, .. }) = judged.places.get(sample.series as usize) else { continue };
            taken += 1;
            let (index, time_ms, start_ms) = (slot.index, sample.time_ms(), sample.start_ms());
            let placed = &mut self.open.placed[slot.shard];
            match sample.value {
                Value::Float(value) if start_ms == 0 => placed.floats.push(FloatRow { index, time_ms, value }),
                value @ Value::FloatHistogram(_) => {
                    last.push((slot.shard, Placed { index, batch: number, time_ms, start_ms, value }));
                }
                value => placed.others.push(Placed { index, batch: number, time_ms, start_ms, value }),
            }
        }
        assert_eq!(taken, judged.verdict.accepted, "each accepted sample goes to a shard, and no other");
        for (shard, placed) in last {
            self.open.placed[shard].others.push(placed);
        }
    }

    fn open_with(&mut self, key: BatchKey, bytes: usize) {
        let is_new = self.open.pending.insert(key.clone());
        assert!(is_new, "a batch is in the open group already: {key:?}");
        self.open.marks.push(key);
        self.open.bytes += bytes;
    }

    /// Hands the open group, which is durable now, to the shards.
    pub(crate) fn hand_on(&mut self) {
        let open = std::mem::replace(&mut self.open, Open::with_shards(self.shards.len()));
        assert_eq!(open.marks.len(), open.pending.len(), "each batch of a group is marked once");
        for BatchKey { tenant, source, sequence } in open.marks {
            self.sources.mark(&tenant, source, sequence);
        }
        let mut series: Vec<Vec<(u32, Arc<Owned>)>> = self.shards.iter().map(|_| Vec::new()).collect();
        assert_eq!(open.placed.len(), self.shards.len(), "each shard gets its samples");
        for (slot, owned) in self.registry.keep() {
            series[slot.shard].push((slot.index, owned));
        }
        self.tell_size();
        let group = Group::new(self.shards.len(), open.replies, &self.stats);
        for ((shard, series), samples) in self.shards.iter().zip(series).zip(open.placed) {
            // A shard that is gone panicked; its replies are never sent, which their senders see.
            let _ = shard.send(ToShard::Apply { series, samples, group: Arc::clone(&group) });
        }
    }

    fn tell_size(&self) {
        self.stats.series.set(self.registry.len() as u64);
        self.stats.sequence_bytes.set(self.sources.memory_bytes());
        self.size.set_series(self.registry.bytes());
    }

    /// Parts the heads at `position`, behind everything that was handed on.
    pub(crate) fn mark(&mut self, position: Position) -> Mark {
        self.mark_within(position, position)
    }

    /// As [`Core::mark`], in the middle of a replay from `read_from` on. The records behind `position` were written
    /// when nothing ended there: they may name what any record before them defines or binds, and another replay must
    /// read those.
    pub(crate) fn mark_replayed(&mut self, position: Position, read_from: Position, numbers: &Numbers) -> Mark {
        let mark = self.mark_within(position, read_from);
        // They get samples in the new heads too.
        let here = numbers.here.iter().filter(|number| **number != UNBOUND);
        here.for_each(|number| self.registry.touch(*number));
        mark
    }

    fn mark_within(&mut self, position: Position, read_from: Position) -> Mark {
        assert!(self.open.marks.is_empty(), "heads are parted between groups: {} batches wait", self.open.marks.len());
        self.epoch += 1;
        let retired = self.registry.mark();
        assert_eq!(retired.len(), self.shards.len(), "each shard freezes, and retires what ended in it");
        let (answer, frozen) = std::sync::mpsc::channel();
        for (shard, retired) in self.shards.iter().zip(retired) {
            let _ = shard.send(ToShard::Freeze { epoch: self.epoch, retired, answer: answer.clone() });
        }
        self.tell_size();
        self.count_recall_failures();
        Mark { position, read_from, windows: self.sources.to_bytes(), epoch: self.epoch, frozen }
    }

    /// Gives the open group up: its records are void.
    pub(crate) fn abandon(&mut self) -> Vec<(Reply, Verdict)> {
        let open = std::mem::replace(&mut self.open, Open::with_shards(self.shards.len()));
        self.registry.forget_fresh(0);
        self.registry.forget_definitions();
        open.replies
    }

    /// Takes series that the journal defines.
    fn restore_series(&mut self, tenant: &Tenant, series: &[SeriesDef]) {
        for def in series {
            // What does not fit was refused when it came.
            if let Ok(number) = self.registry.resolve(def.id(tenant), tenant, def) {
                self.registry.defined(number);
            }
        }
    }

    /// Takes what a record whose samples are in blocks says of series and their numbers.
    pub(crate) fn restore_names(&mut self, frame: &[u8], numbers: &mut Numbers) -> Result<(), Bad> {
        if let Some(record) = FloatRecord::read(frame)? {
            self.bind(&record, numbers);
        } else if let Some((tenant, series)) = wire::decode_definitions(frame)? {
            self.restore_series(&tenant, &series);
        } else {
            let mut batch = Batch::decode(frame)?;
            let ids = ids_of(&batch);
            if let Ok(known) = self.known(&batch) {
                let judged = self.judge(&mut batch, &ids, &known, WallNs::MAX);
                self.define(&batch, &judged);
            }
        }
        Ok(())
    }

    /// Takes a record of the journal; `numbers` are those of the records before it.
    pub(crate) fn restore_record(&mut self, frame: &[u8], numbers: &mut Numbers) -> Result<Restored, Bad> {
        if let Some(record) = FloatRecord::read(frame)? {
            self.bind(&record, numbers);
            return Ok(self.restore_floats(&record, numbers));
        }
        if let Some((tenant, series)) = wire::decode_definitions(frame)? {
            self.restore_series(&tenant, &series);
            self.open.bytes += frame.len();
            return Ok(Restored::default());
        }
        let batch = Batch::decode(frame)?;
        let times = batch.samples.iter().flatten().map(Sample::time_ms);
        let span = times.map(WallMs).fold(None, |span, time| {
            Some(span.map_or((time, time), |(a, b): (WallMs, WallMs)| (a.min(time), b.max(time))))
        });
        let (samples, lost) = self.restore(batch, frame.len());
        Ok(Restored { samples, lost, span })
    }

    /// Takes note of what a record says of numbers.
    fn bind(&mut self, record: &FloatRecord<'_>, numbers: &mut Numbers) {
        if numbers.part != Some(record.part) {
            *numbers = Numbers { part: Some(record.part), here: Vec::new() };
        }
        let mut missing = Vec::new();
        let mut guess = 0;
        for (there, id) in &record.bindings {
            match self.registry.find_float(&record.tenant, *id, guess) {
                Some(number) => {
                    numbers.set(*there, number);
                    guess = number.wrapping_add(1);
                }
                None => missing.push((*there, *id)),
            }
        }
        if missing.is_empty() {
            return;
        }
        // Their definitions were in a record that cannot be read.
        self.registry.recall(missing.iter().map(|binding| binding.1));
        self.count_recall_failures();
        for (there, id) in missing {
            numbers.set(there, self.registry.find_float(&record.tenant, id, UNBOUND).unwrap_or(UNBOUND));
        }
    }

    /// Takes floats from the journal into the open group, as [`Core::restore`] does.
    fn restore_floats(&mut self, record: &FloatRecord<'_>, numbers: &Numbers) -> Restored {
        let FloatRecord { tenant, source, sequence, .. } = record;
        let key = BatchKey { tenant: tenant.clone(), source: *source, sequence: *sequence };
        if self.seen_key(&key) == SequenceState::Duplicate {
            return Restored::default();
        }
        let (registry, placed) = (&self.registry, &mut self.open.placed);
        let rows = |placed: &[Placement]| placed.iter().map(|of| of.floats.len() as u64).sum::<u64>();
        let (before, mut lost) = (rows(placed), 0);
        for of in placed.iter_mut().filter(|of| of.floats.capacity() == 0) {
            of.floats.reserve(ROWS_ABOUT / self.shards.len());
        }
        record.each(|number, time_ns, value| match numbers.here.get(number as usize) {
            None | Some(&UNBOUND) => lost += 1,
            Some(number) => {
                let Slot { shard, index } = registry.slot(*number);
                placed[shard].floats.push(FloatRow { index, time_ms: Sample::stored_ms(time_ns), value });
            }
        });
        let samples = record.len() as u64 - lost;
        assert_eq!(rows(placed) - before, samples, "each sample of a record goes to a shard, or is counted as lost");
        // One of which nothing is left is taken when it comes again, as a frame is.
        if samples > 0 || lost == 0 {
            // As many bytes as they take there.
            self.open_with(key, record.len() * size_of::<FloatRow>());
        }
        let span =
            record.span_ns().map(|(first, last)| (WallMs(Sample::stored_ms(first)), WallMs(Sample::stored_ms(last))));
        Restored { samples, lost, span }
    }

    /// Takes a batch from the journal into the open group: everything in it was accepted. Gives the number of its
    /// samples, and how many of them cannot be applied now.
    fn restore(&mut self, mut batch: Batch, bytes: usize) -> (u64, u64) {
        if self.seen(&batch) == SequenceState::Duplicate {
            return (0, 0);
        }
        let ids = ids_of(&batch);
        let known = match self.known(&batch) {
            Ok(known) => known,
            // Its definition was in a record that cannot be read.
            Err(_) => return (0, batch.samples.len() as u64),
        };
        // The clock may stand elsewhere now; what was accepted stays.
        let judged = self.judge(&mut batch, &ids, &known, WallNs::MAX);
        self.define(&batch, &judged);
        self.place(batch, &judged, bytes);
        (judged.verdict.accepted, judged.verdict.rejected.len() as u64)
    }

    /// Hands the open group on; what it gives hears when it is applied.
    pub(crate) fn apply(&mut self) -> Receiver<()> {
        let (applied, wait) = std::sync::mpsc::channel();
        assert!(self.open.replies.is_empty(), "nobody else waits for a group that is replayed");
        let reply: Reply = Box::new(move |_| {
            let _ = applied.send(());
        });
        self.open.replies.push((reply, Verdict::default()));
        self.hand_on();
        wait
    }
}

/// Each number once.
fn ascending(numbers: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut numbers: Vec<u32> = numbers.collect();
    if !numbers.is_sorted_by(|one, next| one < next) {
        numbers.sort_unstable();
        numbers.dedup();
    }
    numbers
}

const fn scheme_of(value: &Value) -> Option<&Scheme> {
    match value {
        Value::Histogram(histogram) => Some(&histogram.scheme),
        Value::FloatHistogram(histogram) => Some(&histogram.scheme),
        Value::Float(_) | Value::Text(_) => None,
    }
}

/// The identities of a batch's good series.
pub(crate) fn ids_of(batch: &Batch) -> Vec<Option<SeriesId>> {
    batch.series.iter().map(|def| def.as_ref().ok().map(|def| def.id(&batch.tenant))).collect()
}
