//! The spool: the journal of batches, and its one writer.
//!
//! Invariants: what [`Spool::sync`] returned for is on the board and survives a power cut. Each record is
//! self-contained: a batch that names series by identity is completed before it is written. A batch that is repeated
//! under its number is not accepted twice while the process lives; after a restart it may be, and the destinations,
//! which know its number, count it once.
//! Threads: one writer; readers have the [`Board`].
//! Limits: [`Options`].
//! Failure: a record that does not fit on the disk is refused; after a failed fsync everything since the last good one
//! is refused, and a new segment is started.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use ogive_journal::{
    Disk, Error as DiskError, Journal, Options as JournalOptions, Position, RECORD_BYTES_MAX, SegmentRange,
};
use ogive_model::sequence::{SequenceState, SourceTable};
use ogive_model::wire::FRAME_BYTES_MAX;
use ogive_model::{Batch, Ms, Reason, SeriesDef, SeriesId, SourceId, Tenant, Verdict, WallMs};

use crate::board::{Board, Entry, SegmentState};
use crate::record::{self, HEADER_BYTES};
use crate::registry::complete;
use crate::{Error, Registry};

const _: () = assert!(FRAME_BYTES_MAX + HEADER_BYTES <= RECORD_BYTES_MAX);

/// The options of a spool.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A segment is sealed before it would grow past this; one record may be larger.
    pub segment_bytes: u64,
    /// Bytes of the last records that stay in memory for destinations that are not behind.
    pub tail_bytes: usize,
    /// Written at the start of each record. Use a random number.
    pub mark: u32,
    /// No record gets a position below this: above all positions in cursors.
    pub first: u64,
}

/// The limits of a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all segments.
    pub bytes_max: u64,
    /// How long a record may wait after its arrival.
    pub age_max: Option<Ms>,
}

/// Why a batch was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It names series that were not declared here, by index.
    #[error("the batch names {} series that this broker does not know; declare them", .0.len())]
    Unknown(Vec<u32>),
    /// With the series declared that it names it is larger than a batch may be.
    #[error("{0}")]
    TooLarge(String),
    /// The disk is full.
    #[error("the spool's disk is full; free some space")]
    DiskFull,
    /// Writing failed.
    #[error("{0}")]
    Failed(String),
}

/// The key that identifies a repeated batch: its tenant, its source and its number.
type Identity = (Tenant, SourceId, u64);

/// A batch with what its submitter computed in advance.
#[derive(Debug)]
pub struct Prepared {
    identity: Identity,
    declared: Vec<(SeriesId, SeriesDef)>,
    known: Vec<SeriesId>,
    frame: Vec<u8>,
    verdict: Verdict,
    samples: u64,
}

impl Prepared {
    /// Of a batch and its frame.
    #[must_use]
    pub fn new(batch: Batch, frame: Vec<u8>) -> Self {
        let rejected: Vec<(u32, Reason)> = batch
            .samples
            .iter()
            .enumerate()
            .filter_map(|(at, sample)| {
                let reason = match sample {
                    Err(reason) => *reason,
                    Ok(sample) => match batch.series.get(sample.series as usize) {
                        Some(Err(_)) => Reason::LabelsInvalid,
                        Some(Ok(_)) => return None,
                        None if (sample.series as usize) < batch.series.len() + batch.known.len() => return None,
                        None => Reason::SeriesUnknown,
                    },
                };
                Some((at as u32, reason))
            })
            .collect();
        let samples = batch.samples.len() as u64;
        let accepted = samples - rejected.len() as u64;
        let declared = batch.series.into_iter().flatten().map(|def| (def.id(&batch.tenant), def)).collect();
        Self {
            identity: (batch.tenant, batch.source, batch.sequence),
            declared,
            known: batch.known,
            frame,
            verdict: Verdict { accepted, rejected, ..Verdict::default() },
            samples,
        }
    }

    /// Bytes of its frame.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.frame.len()
    }
}

/// The outcome of a batch; final once [`Spool::sync`] has returned.
#[derive(Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is in the open group.
    New(Verdict),
    /// It is, or will be with the open group, durable already.
    Duplicate(Verdict),
}

impl Appended {
    /// The verdict on its samples.
    #[must_use]
    pub fn verdict(self) -> Verdict {
        let (Self::New(verdict) | Self::Duplicate(verdict)) = self;
        verdict
    }
}

/// What is known of a segment in addition to the journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FirstRecord {
    position: u64,
    arrival: WallMs,
}

/// A segment spans a sixteenth of the permitted age: what is dropped for its age is at most that much older.
const AGE_PARTS: i64 = 16;

/// See the module.
pub struct Spool {
    disk: Arc<dyn Disk>,
    journal: Journal,
    board: Arc<Board>,
    registry: Registry,
    seen: SourceTable,
    /// The open group.
    open: Vec<Entry>,
    open_identities: HashSet<Identity>,
    segment_bytes: u64,
    /// Bytes of the active segment, about.
    active_bytes: u64,
    /// Of the segments with records, ascending.
    first_records: Vec<FirstRecord>,
    last_arrival: WallMs,
}

impl Spool {
    /// Opens the spool in `directory`, which is created if it does not exist. Defects that were found are returned
    /// as sentences.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn open(disk: Arc<dyn Disk>, directory: &Path, options: Options) -> Result<(Self, Vec<String>), Error> {
        let journal_options = JournalOptions {
            // The spool decides when to rotate, so that it knows in which segment a record is.
            segment_bytes: u64::MAX,
            mark: options.mark,
            first: Position(options.first),
        };
        let (journal, recovery) = Journal::open(Arc::clone(&disk), directory, journal_options)?;
        let mut findings: Vec<String> = recovery.corruptions.iter().map(ToString::to_string).collect();
        if let Some((path, offset, bytes)) = &recovery.torn {
            findings.push(format!("{}: {bytes} bytes from {offset} on were never acknowledged", path.display()));
        }
        let mut spool = Self {
            disk,
            journal,
            board: Arc::new(Board::new(options.tail_bytes)),
            registry: Registry::default(),
            seen: SourceTable::default(),
            open: Vec::new(),
            open_identities: HashSet::new(),
            segment_bytes: options.segment_bytes,
            active_bytes: 0,
            first_records: Vec::new(),
            last_arrival: WallMs(0),
        };
        spool.find_first_records()?;
        // What an earlier process left is made durable before it is sent to a destination.
        spool.journal.sync()?;
        spool.publish();
        assert!(spool.journal.next().0 >= options.first, "no record gets a position that a cursor has passed");
        assert_eq!(spool.board.end(), spool.journal.durable().0, "the board shows what is durable");
        Ok((spool, findings))
    }

    /// Reads when the first record of each segment arrived.
    fn find_first_records(&mut self) -> Result<(), Error> {
        for segment in self.journal.segments() {
            let mut found = None;
            let limit = Position(segment.end.0.min(self.journal.next().0));
            // An error of ours ends the reading at the first record.
            let stop = || Error::Cursor { path: segment.path.clone(), what: "the first record is enough" };
            let read = segment.replay::<Error>(&*self.disk, segment.first..limit, |_, bytes| {
                found = record::decode(bytes).map(|(arrival, _)| arrival);
                if found.is_some() { Err(stop()) } else { Ok(()) }
            });
            match read {
                Ok(_) | Err(Error::Cursor { .. }) => {}
                Err(error) => return Err(error),
            }
            if let Some(arrival) = found {
                self.first_records.push(FirstRecord { position: segment.first.0, arrival });
                self.last_arrival = self.last_arrival.max(arrival);
            }
        }
        Ok(())
    }

    /// The readers' view.
    #[must_use]
    pub fn board(&self) -> Arc<Board> {
        Arc::clone(&self.board)
    }

    /// Adds a batch to the open group. [`Spool::sync`] makes it durable.
    ///
    /// # Errors
    /// [`Refusal`]. If [`Spool::is_poisoned`] then, the open group is lost: see [`Spool::abandon`].
    pub fn append(&mut self, arrival: WallMs, batch: Prepared) -> Result<Appended, Refusal> {
        let Prepared { identity, declared, known, frame, verdict, samples } = batch;
        let (tenant, source, sequence) = &identity;
        if self.seen.seen(tenant, *source, *sequence) == SequenceState::Duplicate
            || self.open_identities.contains(&identity)
        {
            return Ok(Appended::Duplicate(Verdict { duplicate: samples, ..Verdict::default() }));
        }
        let frame = self.whole(tenant, frame, &known)?;
        if verdict.accepted == 0 {
            // It contains nothing that a destination would accept.
            return Ok(Appended::New(verdict));
        }
        let record = record::encode(arrival, &frame);
        let position = self.write(&record).map_err(|error| refusal(&error))?;
        assert!(self.open.last().is_none_or(|last| last.position + 1 == position), "the open group has no hole");
        assert!(self.journal.durable().0 <= position, "a record is not durable before its sync");
        self.open.push(Entry { position, arrival, frame: frame.into() });
        self.last_arrival = self.last_arrival.max(arrival);
        for (id, def) in &declared {
            self.registry.learn(*id, def);
        }
        self.open_identities.insert(identity);
        Ok(Appended::New(verdict))
    }

    /// The frame with every series declared that it only names.
    fn whole(&mut self, tenant: &Tenant, frame: Vec<u8>, known: &[SeriesId]) -> Result<Vec<u8>, Refusal> {
        if known.is_empty() {
            return Ok(frame);
        }
        // An identity belongs to its tenant; to a sender that names another tenant's, it is unknown.
        let mut named = |id: SeriesId| self.registry.named(id).filter(|def| def.id(tenant) == id);
        let found: HashMap<SeriesId, Option<Arc<SeriesDef>>> = known.iter().map(|id| (*id, named(*id))).collect();
        let indices = known.iter().enumerate().filter(|(_, id)| found[*id].is_none());
        let unknown: Vec<u32> = indices.map(|(at, _)| at as u32).collect();
        if !unknown.is_empty() {
            return Err(Refusal::Unknown(unknown));
        }
        match complete(&frame, |id| found.get(&id)?.as_deref().cloned()) {
            Ok(Some(frame)) => {
                debug_assert!(Batch::decode(&frame).is_ok_and(|batch| batch.known.is_empty()), "it stands for itself");
                Ok(frame)
            }
            Ok(None) => unreachable!("every series was found"),
            Err(error) => Err(Refusal::TooLarge(error.to_string())),
        }
    }

    /// Appends a record; starts a new segment before it if this one would grow too large.
    fn write(&mut self, record: &[u8]) -> Result<u64, DiskError> {
        self.journal.reopen()?;
        // A nearly empty segment is not closed for one large record.
        let is_full = self.active_bytes + record.len() as u64 > self.segment_bytes;
        if is_full && self.active_bytes > self.segment_bytes / 16 {
            self.journal.rotate()?;
            self.active_bytes = 0;
        }
        let position = self.journal.append(record)?.0;
        self.active_bytes += record.len() as u64;
        Ok(position)
    }

    /// Makes the open group durable and visible to readers.
    ///
    /// # Errors
    /// Those of the disk; then the group is lost and the spool continues after it.
    pub fn sync(&mut self) -> Result<(), Error> {
        if let Err(error) = self.journal.sync() {
            self.abandon();
            return Err(error.into());
        }
        assert_eq!(self.journal.durable(), self.journal.next(), "a sync leaves nothing in doubt");
        self.publish();
        Ok(())
    }

    /// Whether a failed write or fsync lost the open group.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.journal.is_poisoned()
    }

    /// Discards the open group after a failure, and continues after the last durable record.
    pub fn abandon(&mut self) {
        // A rotation in the middle of the group made its beginning durable; those records are sent, like all that were
        // written and not acknowledged.
        let durable = self.journal.durable().0;
        self.open.retain(|entry| entry.position < durable);
        self.open_identities.clear();
        // Tried again with the next batch if it fails.
        let _ = self.journal.reopen();
        self.publish();
    }

    fn publish(&mut self) {
        for (tenant, source, sequence) in self.open_identities.drain() {
            self.seen.mark(&tenant, source, sequence);
        }
        let entries = std::mem::take(&mut self.open);
        let durable = self.journal.durable().0;
        assert!(entries.iter().all(|entry| entry.position < durable), "readers see what is durable below {durable}");
        let segments = self.states(&entries);
        self.board.publish(entries, segments, self.journal.durable().0);
    }

    fn states(&mut self, entries: &[Entry]) -> Vec<SegmentState> {
        let segments = self.journal.segments();
        self.active_bytes = segments.last().map_or(0, |segment| segment.bytes);
        let first = segments.first().map_or(0, |segment| segment.first.0);
        self.first_records.retain(|record| record.position >= first);
        for segment in segments.iter().rev() {
            let Some(from) = entries.first().and_then(|entry| segment.first.0.checked_sub(entry.position)) else {
                break;
            };
            let entry = usize::try_from(from).ok().and_then(|at| entries.get(at));
            let first_record = |entry: &Entry| FirstRecord { position: entry.position, arrival: entry.arrival };
            self.first_records.extend(entry.map(first_record));
        }
        self.first_records.sort_unstable();
        // A segment that a failed fsync emptied begins where the next one does.
        self.first_records.dedup_by_key(|record| record.position);
        assert!(
            self.first_records.is_sorted_by(|one, next| one.position < next.position),
            "a segment has one first arrival"
        );
        let (records, last_arrival) = (&self.first_records, self.last_arrival);
        let state = |range: SegmentRange| {
            let at = records.partition_point(|record| record.position < range.first.0);
            let found = records.get(at).filter(|first| first.position == range.first.0 && range.first < range.end);
            let arrival_last = found.map(|_| records.get(at + 1).map_or(last_arrival, |next| next.arrival));
            SegmentState { arrival_first: found.map(|first| first.arrival), arrival_last, range }
        };
        segments.into_iter().map(state).collect()
    }

    /// Starts a new segment if the active one contains a record, so that all before can be removed.
    ///
    /// # Errors
    /// Those of the disk.
    ///
    /// # Panics
    /// While a group is open.
    pub fn rotate(&mut self) -> Result<(), Error> {
        assert!(self.open.is_empty(), "a group is open");
        let rotated = self.journal.rotate();
        self.publish();
        Ok(rotated?)
    }

    /// Starts a new segment when the last one spans a part of the permitted age, so that a few old records are
    /// not kept until a whole segment is too old.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn rotate_by_age(&mut self, now: WallMs, limits: Limits) -> Result<(), Error> {
        let Some(age) = limits.age_max else { return Ok(()) };
        let first = self.board.segments().last().and_then(|last| last.arrival_first);
        let is_due = first.is_some_and(|first| first <= now.saturating_sub(age / AGE_PARTS));
        if is_due { self.rotate() } else { Ok(()) }
    }

    /// Removes the segments in which every record is before `position`. Any destination that needs one of them must
    /// have reported so.
    ///
    /// # Errors
    /// Those of the disk; the next call tries again.
    pub fn truncate_before(&mut self, position: u64) -> Result<(), Error> {
        let truncated = self.journal.truncate_before(Position(position));
        let segments = self.states(&[]);
        self.board.publish(Vec::new(), segments, self.journal.durable().0);
        Ok(truncated?)
    }

    /// Continues after a failure. Nothing happens on a healthy spool.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn reopen(&mut self) -> Result<(), Error> {
        Ok(self.journal.reopen()?)
    }

    /// The oldest segment, if a limit requires its removal, and whether that is the limit of age.
    #[must_use]
    pub fn excess(&self, now: WallMs, limits: Limits) -> Option<(SegmentState, bool)> {
        let segments = self.board.segments();
        let oldest = segments.iter().find(|segment| segment.range.first < segment.range.end)?;
        let is_old =
            limits.age_max.is_some_and(|age| oldest.arrival_last.is_some_and(|last| last < now.saturating_sub(age)));
        let is_much = segments.iter().map(|segment| segment.range.bytes).sum::<u64>() > limits.bytes_max;
        (is_old || is_much).then(|| (oldest.clone(), !is_much))
    }

    /// Series that may be named by their identity.
    #[must_use]
    pub fn series(&self) -> usize {
        self.registry.len()
    }
}

fn refusal(error: &DiskError) -> Refusal {
    if error.is_full() { Refusal::DiskFull } else { Refusal::Failed(error.to_string()) }
}
