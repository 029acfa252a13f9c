//! The late samples of a forward that its file does not have yet, so that they survive `kill -9`.
//!
//! Format: docs/formats/forward.md. Invariants: a batch's late samples are in the log before the batch is submitted,
//! and what became of it before its sender hears of it. After a kill, what was acknowledged and is in no request is
//! forwarded; a batch that was in flight then counts when the store has it. So each late sample is forwarded once.
//! Threads: the log is used under the lock of its forward's `Watches`.
//! Limits: `BYTES_MAX`; the `DONE_MAX` latest batches that were forwarded are known again when they were in flight at a
//! kill.
//! Failure: what cannot be written is forwarded all the same unless a kill comes first; bytes that are no record end
//! the log.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};

use ogive_journal::{Disk, DiskFile, Error as DiskError, RealDisk};
use ogive_model::{Batch, BatchId, SourceId, Tenant, WallMs};

use crate::late_sample::{Key, LateSample};

/// Beside the directory of the forwards' files.
const DIRECTORY: &str = "forward-late";
const MAGIC: [u8; 8] = *b"ogivelat";
const VERSION: u32 = 1;
/// Magic, version, source.
const HEADER_BYTES: usize = 28;
/// Length, checksum.
const FRAME_BYTES: usize = 8;
/// 64 MiB: 100,000 late samples of 600 bytes. Samples that arrive while it is full are forwarded, but not after a kill.
const BYTES_MAX: u64 = 64 << 20;
/// The log is compacted once 1 MiB of it is also in the forward's file.
pub(crate) const COMPACT_BYTES: u64 = 1 << 20;
/// 1,024 batches of 24 bytes: 24 KiB are written with each new file.
const DONE_MAX: usize = 1_024;

/// A record of the log.
#[derive(Debug, PartialEq)]
pub(crate) enum Record {
    /// The late samples of the batch of this arrival, about to be submitted.
    Submitted(u64, Batch),
    /// It was stored, except for these samples; None: nothing of it is late.
    Answered(u64, Option<Vec<u32>>),
    /// Earlier batches with times in (from, until] were read.
    Read(WallMs, WallMs),
    /// Everything that was answered is in requests once the next batch of the forward's file has a greater number.
    Taken(u64),
    /// Batches that were forwarded.
    Done(Vec<BatchId>),
}

/// A batch of a log.
struct Entry {
    identity: BatchId,
    late: Vec<(u32, LateSample)>,
    is_stored: bool,
}

/// The state after reading a log to its end.
#[derive(Default)]
struct Contents {
    /// By arrival.
    in_flight: BTreeMap<u64, Entry>,
    stored: Vec<Entry>,
    done: VecDeque<BatchId>,
}

/// The position of a forward: what it sends next, and up to where it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// It sends as this.
    pub source: SourceId,
    /// Of its next batch.
    pub sequence: u64,
    /// It has read up to here.
    pub until: WallMs,
}

/// See the module.
pub struct LateLog {
    path: PathBuf,
    source: SourceId,
    file: Box<dyn DiskFile>,
    bytes: u64,
    /// Submitted and not answered, by arrival.
    in_flight: BTreeMap<u64, BatchId>,
    done: VecDeque<BatchId>,
    /// The position of the last [`Record::Taken`], with what was in flight there.
    taken: Option<(u64, Vec<u64>)>,
    has_failed: bool,
}

/// Where the log of the forward `name` is.
#[must_use]
pub fn path_of(data: &Path, name: &str) -> PathBuf {
    data.join(DIRECTORY).join(name)
}

/// The batches that were in flight when the previous process ended, of all logs in `data`.
#[must_use]
pub(crate) fn in_flight(data: &Path) -> Vec<(Tenant, BatchId)> {
    let files = RealDisk.list(&data.join(DIRECTORY)).unwrap_or_default();
    let mut out = Vec::new();
    for path in files {
        let Ok(bytes) = RealDisk.read(&path) else { continue };
        let mut open: BTreeMap<u64, (Tenant, BatchId)> = BTreeMap::new();
        for (record, _) in records(&bytes) {
            match record {
                Record::Submitted(id, batch) => drop(open.insert(id, (batch.tenant.clone(), batch.id()))),
                Record::Answered(id, _) => drop(open.remove(&id)),
                _ => {}
            }
        }
        out.extend(open.into_values());
    }
    out
}

impl LateLog {
    /// The log of a forward that is at `place`, with the samples it has to forward up to there. `stored`: the batches
    /// in flight that the store has.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn open(
        path: &Path,
        place: Place,
        stored: &HashSet<(Tenant, BatchId)>,
        tenant: &Tenant,
    ) -> Result<(Self, Vec<LateSample>), DiskError> {
        let Place { source, sequence, until } = place;
        let bytes = match RealDisk.read(path) {
            Ok(bytes) => bytes,
            Err(DiskError::NotFound { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut contents = Contents::default();
        if bytes.get(..HEADER_BYTES) == Some(&header(source)) {
            records(&bytes).for_each(|(record, _)| contents.apply(record, sequence));
        }
        contents.answer(|identity| stored.contains(&(tenant.clone(), identity)));
        RealDisk.create_dir_all(path.parent().expect("a file has a directory"))?;
        let file = contents.write(path, source)?;
        let bytes = file.length()?;
        let late = contents.stored.into_iter().flat_map(|entry| entry.late).map(|(_, late)| late);
        let late = late.filter(|late| late.time() <= until).collect();
        let (in_flight, done) = (BTreeMap::new(), contents.done);
        let path = path.to_owned();
        Ok((Self { path, source, file, bytes, in_flight, done, taken: None, has_failed: false }, late))
    }

    /// `late` of `batch` is about to be submitted as `arrival`.
    pub(crate) fn submit(&mut self, arrival: u64, batch: &Batch, late: &[(u32, LateSample)]) {
        if self.bytes > BYTES_MAX {
            return;
        }
        if self.append(&Record::Submitted(arrival, batch_of(batch, late))) {
            self.in_flight.insert(arrival, batch.id());
        }
    }

    /// The batch was stored, except for its late samples at `rejected`; None: nothing of it is late.
    pub(crate) fn answer(&mut self, arrival: u64, rejected: Option<Vec<u32>>) {
        let Some(identity) = self.in_flight.remove(&arrival) else { return };
        if rejected.is_some() {
            know(&mut self.done, identity);
        }
        self.append(&Record::Answered(arrival, rejected));
    }

    /// Earlier batches with times in (from, until] were read.
    pub(crate) fn read(&mut self, from: WallMs, until: WallMs) {
        if self.bytes > HEADER_BYTES as u64 && from < until {
            self.append(&Record::Read(from, until));
        }
    }

    /// What was answered is about to be put into requests, of which the first gets the number `sequence`.
    pub(crate) fn take(&mut self, sequence: u64) {
        let at = self.bytes;
        if self.append(&Record::Taken(sequence)) {
            self.taken = Some((at, self.in_flight.keys().copied().collect()));
        }
    }

    /// The forward's file contains what was taken.
    pub(crate) fn settle(&mut self) {
        let Some((at, in_flight)) = self.taken.take_if(|_| self.bytes > COMPACT_BYTES || self.has_failed) else {
            return;
        };
        if let Err(error) = self.compact(at, &in_flight) {
            self.fail(&error);
        }
    }

    /// Drops what is before `at`, except for what was in flight there.
    fn compact(&mut self, at: u64, in_flight: &[u64]) -> Result<(), DiskError> {
        let mut before = RealDisk.read(&self.path)?;
        // After that there is part of a record that could not be written.
        before.truncate(self.bytes as usize);
        let mut out = header(self.source).to_vec();
        put(&mut out, &Record::Done(self.done.iter().copied().collect()));
        for (record, place) in records(&before[..before.len().min(at as usize)]) {
            if let Record::Submitted(id, _) = record
                && in_flight.contains(&id)
            {
                out.extend_from_slice(&before[place.0..place.1]);
            }
        }
        out.extend_from_slice(before.get(at as usize..).unwrap_or_default());
        RealDisk.replace(&self.path, &out)?;
        self.file = RealDisk.open(&self.path)?;
        self.bytes = out.len() as u64;
        self.has_failed = false;
        Ok(())
    }

    fn append(&mut self, record: &Record) -> bool {
        if self.has_failed {
            return false;
        }
        let mut bytes = Vec::new();
        put(&mut bytes, record);
        if let Err(error) = self.file.write_all(&bytes) {
            self.fail(&error);
            return false;
        }
        self.bytes += bytes.len() as u64;
        true
    }

    fn fail(&mut self, error: &DiskError) {
        if !std::mem::replace(&mut self.has_failed, true) {
            tracing::warn!("{error}; late samples are forwarded all the same, but not after a kill");
        }
    }
}

impl Contents {
    /// Applies another record; the next batch of the forward's file is `next`.
    fn apply(&mut self, record: Record, next: u64) {
        match record {
            Record::Submitted(id, batch) => drop(self.in_flight.insert(id, Entry::from_batch(batch))),
            Record::Answered(id, rejected) => {
                let Some(mut entry) = self.in_flight.remove(&id) else { return };
                let Some(rejected) = rejected else { return };
                entry.late.retain(|(at, _)| !rejected.contains(at));
                entry.is_stored = true;
                self.stored.push(entry);
            }
            Record::Read(from, until) => {
                let is_read = |late: &LateSample| from < late.time() && late.time() <= until;
                for entry in self.in_flight.values_mut().chain(&mut self.stored) {
                    entry.late.retain(|(_, late)| !is_read(late));
                }
            }
            Record::Taken(sequence) if next > sequence => {
                self.stored.drain(..).for_each(|entry| know(&mut self.done, entry.identity));
            }
            Record::Taken(_) => {}
            Record::Done(done) => done.into_iter().for_each(|identity| know(&mut self.done, identity)),
        }
    }

    /// Of what is in flight, batches that the store has are stored unless they were before; the rest was never answered
    /// and is retried.
    fn answer(&mut self, has: impl Fn(BatchId) -> bool) {
        for (_, entry) in std::mem::take(&mut self.in_flight) {
            let is_known = self.done.contains(&entry.identity)
                || self.stored.iter().any(|stored| stored.is_stored && stored.identity == entry.identity);
            if !is_known && has(entry.identity) {
                self.stored.push(Entry { is_stored: true, ..entry });
            }
        }
    }

    /// Writes the current contents to a new file.
    fn write(&self, path: &Path, source: SourceId) -> Result<Box<dyn DiskFile>, DiskError> {
        let mut out = header(source).to_vec();
        if !self.done.is_empty() {
            put(&mut out, &Record::Done(self.done.iter().copied().collect()));
        }
        // Arrivals of the process count up from zero.
        for (id, entry) in (0..).map(|at| u64::MAX - at).zip(&self.stored) {
            let BatchId { source, sequence } = entry.identity;
            let batch = Batch { source, sequence, ..Batch::default() };
            put(&mut out, &Record::Submitted(id, batch_of(&batch, &entry.late)));
            put(&mut out, &Record::Answered(id, Some(Vec::new())));
        }
        RealDisk.replace(path, &out)?;
        RealDisk.open(path)
    }
}

impl Entry {
    fn from_batch(batch: Batch) -> Self {
        let key = |series: u32| match batch.series.get(series as usize) {
            Some(def) => def.as_ref().ok().cloned().map(Key::Declared),
            None => batch.known.get(series as usize - batch.series.len()).copied().map(Key::Known),
        };
        let samples = batch.samples.iter().flatten();
        let late = (0..)
            .zip(samples)
            .filter_map(|(at, sample)| Some((at, LateSample { key: key(sample.series)?, sample: sample.clone() })));
        Self { identity: batch.id(), late: late.collect(), is_stored: false }
    }
}

fn know(done: &mut VecDeque<BatchId>, identity: BatchId) {
    if done.len() == DONE_MAX {
        done.pop_front();
    }
    done.push_back(identity);
}

/// `late` as a batch, under the number of `of`.
fn batch_of(of: &Batch, late: &[(u32, LateSample)]) -> Batch {
    let Batch { source, sequence, tenant, .. } = of;
    let mut out = Batch { source: *source, sequence: *sequence, tenant: tenant.clone(), ..Batch::default() };
    let mut places: BTreeMap<u32, u32> = BTreeMap::new();
    // Declared series come before known ones, whatever the order of arrival.
    for is_declared in [true, false] {
        for (_, LateSample { key, sample }) in late {
            let place = (out.series.len() + out.known.len()) as u32;
            match key {
                Key::Declared(def) if is_declared && !places.contains_key(&sample.series) => {
                    out.series.push(Ok(def.clone()))
                }
                Key::Known(id) if !is_declared && !places.contains_key(&sample.series) => out.known.push(*id),
                _ => continue,
            }
            places.insert(sample.series, place);
        }
    }
    let sample = |(_, late): &(u32, LateSample)| {
        let series = places[&late.sample.series];
        Ok(ogive_model::Sample { series, ..late.sample.clone() })
    };
    out.samples = late.iter().map(sample).collect();
    out
}

fn header(source: SourceId) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[12..].copy_from_slice(&source.0.to_le_bytes());
    out
}

pub(crate) fn put(out: &mut Vec<u8>, record: &Record) {
    let mut payload = Vec::new();
    let number = |payload: &mut Vec<u8>, number: u64| payload.extend_from_slice(&number.to_le_bytes());
    match record {
        Record::Submitted(id, batch) => {
            // It is a part of what fitted a frame.
            let Ok(frame) = batch.encode() else { return };
            payload.push(1);
            number(&mut payload, *id);
            payload.extend_from_slice(&frame);
        }
        Record::Answered(id, rejected) => {
            payload.push(if rejected.is_some() { 2 } else { 3 });
            number(&mut payload, *id);
            rejected.iter().flatten().for_each(|at| payload.extend_from_slice(&at.to_le_bytes()));
        }
        Record::Read(from, until) => {
            payload.push(4);
            number(&mut payload, from.0.cast_unsigned());
            number(&mut payload, until.0.cast_unsigned());
        }
        Record::Taken(sequence) => {
            payload.push(5);
            number(&mut payload, *sequence);
        }
        Record::Done(identities) => {
            payload.push(6);
            for BatchId { source, sequence } in identities {
                payload.extend_from_slice(&source.0.to_le_bytes());
                number(&mut payload, *sequence);
            }
        }
    }
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc32c::crc32c(&payload).to_le_bytes());
    out.extend_from_slice(&payload);
}

/// The records of a log with their positions, up to the first invalid one.
fn records(bytes: &[u8]) -> impl Iterator<Item = (Record, (usize, usize))> {
    let mut at = HEADER_BYTES;
    std::iter::from_fn(move || {
        let head = bytes.get(at..at + FRAME_BYTES)?;
        let length = u32::from_le_bytes(head[..4].try_into().expect("they are four")) as usize;
        let begin = at + FRAME_BYTES;
        let payload = bytes.get(begin..begin.checked_add(length)?)?;
        if crc32c::crc32c(payload).to_le_bytes() != head[4..] {
            return None;
        }
        let place = (at, begin + length);
        at = place.1;
        Some((record(payload)?, place))
    })
}

fn record(payload: &[u8]) -> Option<Record> {
    let (kind, rest) = payload.split_first()?;
    let number = |at: usize| Some(u64::from_le_bytes(rest.get(at..at + 8)?.try_into().ok()?));
    Some(match kind {
        1 => Record::Submitted(number(0)?, Batch::decode(rest.get(8..)?).ok()?),
        2 => {
            let (all, []) = rest.get(8..)?.as_chunks::<4>() else { return None };
            Record::Answered(number(0)?, Some(all.iter().map(|at| u32::from_le_bytes(*at)).collect()))
        }
        3 if rest.len() == 8 => Record::Answered(number(0)?, None),
        4 if rest.len() == 16 => Record::Read(WallMs(number(0)?.cast_signed()), WallMs(number(8)?.cast_signed())),
        5 if rest.len() == 8 => Record::Taken(number(0)?),
        6 => {
            let (all, []) = rest.as_chunks::<24>() else { return None };
            let identity = |bytes: &[u8; 24]| {
                let (source, sequence) = bytes.split_at(16);
                let source = u128::from_le_bytes(source.try_into().expect("they are sixteen"));
                BatchId {
                    source: SourceId(source),
                    sequence: u64::from_le_bytes(sequence.try_into().expect("they are eight")),
                }
            };
            Record::Done(all.iter().map(identity).collect())
        }
        _ => return None,
    })
}

/// Reads any bytes as a log.
pub fn read_any(bytes: &[u8]) {
    let mut contents = Contents::default();
    records(bytes).for_each(|(record, _)| contents.apply(record, 7));
    contents.answer(|_| true);
}
