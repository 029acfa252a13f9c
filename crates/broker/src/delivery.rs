//! Delivery to one destination: what it gets next, and what it has received.
//!
//! Invariants: a position is done when the destination acknowledged it, or when it is in a gap; only a saved cursor
//! lets segments be removed. A gap is sent only as it was saved, and never changes once sent, so it is counted once
//! whatever fails in between.
//! The live lane sends the records that came since this process started, or since the destination last failed, in their
//! order; the backlog lane sends all others. While both have records, one in four sends is from the backlog; with
//! several connections the backlog gets all but one. A send is one request with records of one lane, within [`Most`].
//! Failed records are retried before both lanes; records and gaps that fail again and again are retried alongside
//! (`retry`).
//! Records sent without a conclusive response are in doubt until they are done, also across restarts (those in flight
//! when the cursor is saved included): a gap that covers them counts them separately.
//! Threads: one lock around each destination; only [`Delivery::next`] and [`Delivery::give_up`] read the disk.
//! Limits: one segment in memory for the backlog, records in flight, and failed records.
//! Failure: an unreadable segment is skipped and tried again after [`UNREADABLE`]; a missing one becomes a gap. When
//! a limit is reached, unreadable data is dropped, too.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use ogive_journal::{Disk, Error as DiskError};
use ogive_model::{Batch, Ms, SourceId, WallMs};

use crate::board::{Board, Entry, Loaded, SegmentState};
use crate::cursor::{GAPS_MAX, GAPS_READ_MAX, QueuedGap};
use crate::retry::{self, Retry};
use crate::{Cursor, Error, Gap, GapBuilder, GapReason, GapTotals, Names, Ranges};

/// 60 s: a disk that was away for a moment, or has too many files open, costs the backlog that much.
const UNREADABLE: Ms = Ms::from_secs(60);

/// The order in which the backlog is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// In the order of arrival.
    #[default]
    Oldest,
    /// The last first.
    Newest,
}

/// The lane of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// New records.
    Live,
    /// The backlog.
    Backlog,
}

/// The limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// Records.
    pub jobs: usize,
    /// Total bytes of the frames; a larger record is sent alone.
    pub bytes: usize,
}

/// Something to send.
#[derive(Clone, Debug, PartialEq)]
pub enum Job {
    /// A batch, as received.
    Record(Entry, Lane),
    /// A gap.
    Gap {
        /// Its number.
        number: u64,
        /// The batch that describes it.
        batch: Batch,
    },
}

/// How far behind a destination is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Records it does not have.
    pub records: u64,
    /// Their bytes in the spool, about.
    pub bytes: u64,
    /// The arrival of the oldest of them; that of its segment's first record where it is not in memory.
    pub oldest: Option<WallMs>,
}

/// A cursor's bytes to be written.
#[derive(Debug)]
pub struct Snapshot {
    /// The bytes of the file.
    pub bytes: Vec<u8>,
    floor: u64,
    version: u64,
}

/// A record on its way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    /// The number of its request.
    request: u64,
    /// How often it failed before.
    failures: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Delivery {
    cursor: Cursor,
    /// The broker's and the destination's.
    names: Names,
    order: Order,
    in_flight: BTreeMap<u64, Flight>,
    /// Requests of the live lane that are in flight: their number, and how many of their records are.
    live_requests: BTreeMap<u64, usize>,
    /// Records to retry.
    retry: Retry,
    /// How many records that failed repeatedly go in one request: one, and one more for each that is accepted since one
    /// failed. Records that failed because the destination was unreachable are then soon delivered, and one that is
    /// never accepted affects few others.
    slow_together: usize,
    live_next: u64,
    /// The records of a segment that are to be sent, and the positions that were read.
    loaded: Window,
    /// Segments that could not be read.
    unreadable: Vec<Unreadable>,
    turn: u64,
    gap_in_flight: bool,
    /// How often the first gap failed, and the request before which it is not retried.
    gap_failures: u32,
    gap_due: u64,
    /// Gaps below this number may have been sent.
    gap_frozen: u64,
    /// Incremented with each change of the cursor and of its gaps.
    version: u64,
    gap_version: u64,
    saved_version: u64,
    saved_floor: u64,
}

/// A segment that could not be read.
#[derive(Debug)]
struct Unreadable {
    positions: Range<u64>,
    /// It is tried again then.
    until: WallMs,
}

/// The records of a segment that are to be sent.
#[derive(Debug, Default)]
struct Window {
    range: Range<u64>,
    /// The positions that were read.
    entries: BTreeMap<u64, Entry>,
}

/// When the next request is chosen, and over how many connections requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// On the wall clock.
    pub now: WallMs,
    /// To all addresses of the destination.
    pub connections: usize,
}

impl Delivery {
    /// A destination with the state of its cursor; without one it gets the contents of the spool from `first` on.
    #[must_use]
    pub fn new(
        cursor: Option<Cursor>,
        names: Names,
        order: Order,
        gap_source: SourceId,
        board: &Board,
        first: u64,
    ) -> Self {
        let is_known = cursor.is_some();
        let mut cursor = cursor.unwrap_or_else(|| Cursor::new(gap_source));
        if !is_known {
            cursor.done.insert(0..first.max(board.first()));
        }
        let gap_frozen = cursor.gap_next;
        Self {
            saved_floor: if is_known { cursor.done.first_missing(0) } else { 0 },
            cursor,
            names,
            order,
            in_flight: BTreeMap::new(),
            live_requests: BTreeMap::new(),
            retry: Retry::default(),
            slow_together: 1,
            live_next: board.end(),
            loaded: Default::default(),
            unreadable: Vec::new(),
            turn: 0,
            gap_in_flight: false,
            gap_failures: 0,
            gap_due: 0,
            gap_frozen,
            version: 1,
            gap_version: 0,
            saved_version: 0,
        }
    }

    /// Sets the order in which the backlog is sent.
    pub fn set_order(&mut self, order: Order) {
        self.order = order;
    }

    /// What is to be sent next over one of `connections`, if anything. Each job must be ended by one of
    /// [`Delivery::acknowledged`], [`Delivery::refused`] and [`Delivery::failed`].
    ///
    /// # Errors
    /// Those of the disk.
    pub fn next(&mut self, board: &Board, disk: &dyn Disk, turn: Turn) -> Result<Option<Job>, Error> {
        Ok(self.next_request(board, disk, turn, Most { jobs: 1, bytes: 0 })?.pop())
    }

    /// As [`Delivery::next`], for a request with several: records of one lane, or a gap alone.
    ///
    /// # Errors
    /// Those of the disk; then nothing new is in flight.
    pub fn next_request(&mut self, board: &Board, disk: &dyn Disk, turn: Turn, most: Most) -> Result<Vec<Job>, Error> {
        self.notice_missing(board, turn.now);
        self.turn += 1;
        if self.gap_due <= self.turn
            && let Some(job) = self.next_gap()
        {
            return Ok(vec![job]);
        }
        if self.retry.has_usual() {
            return self.gather(most, Lane::Backlog, |this| Ok(this.retry.usual()));
        }
        let few = Most { jobs: most.jobs.min(self.slow_together), ..most };
        // Alternately first, so that many that fail do not hold up the others while each has failed only a few times.
        if self.turn.is_multiple_of(2) {
            let slow = self.gather(few, Lane::Backlog, |this| Ok(this.retry.slow(this.turn)))?;
            if !slow.is_empty() {
                return Ok(slow);
            }
        }
        if !self.retry.is_full() {
            let jobs = self.next_of_lanes(board, disk, turn, most)?;
            if !jobs.is_empty() {
                return Ok(jobs);
            }
        }
        // Nothing else is there: these need not wait.
        let jobs = self.gather(few, Lane::Backlog, |this| Ok(this.retry.slow(u64::MAX)))?;
        Ok(if jobs.is_empty() { self.next_gap().into_iter().collect() } else { jobs })
    }

    fn next_of_lanes(
        &mut self,
        board: &Board,
        disk: &dyn Disk,
        Turn { now, connections }: Turn,
        most: Most,
    ) -> Result<Vec<Job>, Error> {
        let live_first =
            !self.turn.is_multiple_of(4) && self.live_requests.len() < connections.saturating_sub(1).max(1);
        let lanes = if live_first { [Lane::Live, Lane::Backlog] } else { [Lane::Backlog, Lane::Live] };
        for lane in lanes {
            let mut from = None;
            let jobs = self.gather(most, lane, |this| match lane {
                Lane::Live => Ok(this.next_live(board).map(|entry| (entry, 0))),
                Lane::Backlog => Ok(this.next_backlog(board, disk, now, &mut from)?.map(|entry| (entry, 0))),
            })?;
            if !jobs.is_empty() {
                return Ok(jobs);
            }
        }
        Ok(Vec::new())
    }

    /// Collects the records of a request, which `next` returns with how often each failed. A record that no longer fits
    /// is the first of the next request.
    fn gather(
        &mut self,
        most: Most,
        lane: Lane,
        mut next: impl FnMut(&mut Self) -> Result<Option<(Entry, u32)>, Error>,
    ) -> Result<Vec<Job>, Error> {
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        while jobs.len() < most.jobs.max(1) {
            let (entry, failures) = match next(self) {
                Ok(Some(next)) => next,
                Ok(None) => break,
                Err(error) if jobs.is_empty() => return Err(error),
                // The error occurs again once these are gone.
                Err(_) => {
                    self.unreadable.pop();
                    break;
                }
            };
            bytes += entry.frame.len();
            if !jobs.is_empty() && bytes > most.bytes {
                self.retry.again(entry, failures);
                break;
            }
            let before = self.in_flight.insert(entry.position, Flight { request: self.turn, failures });
            assert!(before.is_none(), "record {} is on its way once at a time", entry.position);
            jobs.push(Job::Record(entry, lane));
        }
        // The file records what is in flight.
        self.version += u64::from(!jobs.is_empty());
        if lane == Lane::Live && !jobs.is_empty() {
            self.live_requests.insert(self.turn, jobs.len());
        }
        debug_assert!(self.live_requests.values().sum::<usize>() <= self.in_flight.len(), "live records are in flight");
        Ok(jobs)
    }

    /// Marks a record as no longer in flight; returns how often it failed before.
    fn landed(&mut self, position: u64) -> u32 {
        let Some(Flight { request, failures }) = self.in_flight.remove(&position) else { return 0 };
        if let Some(left) = self.live_requests.get_mut(&request) {
            assert!(*left > 0, "request {request} has {position} in flight");
            *left -= 1;
            if *left == 0 {
                self.live_requests.remove(&request);
            }
        }
        failures
    }

    /// Whether it is in flight or to be retried: its bytes are in memory.
    fn is_held(&self, position: u64) -> bool {
        self.in_flight.contains_key(&position) || self.retry.contains(position)
    }

    fn next_gap(&mut self) -> Option<Job> {
        if self.gap_in_flight || self.gap_version > self.saved_version {
            return None;
        }
        let QueuedGap { number, time, gap } = self.cursor.gaps.front()?;
        (self.gap_in_flight, self.gap_frozen) = (true, self.gap_frozen.max(number + 1));
        let batch = gap.batch(self.cursor.gap_source, *number, *time, &self.names);
        Some(Job::Gap { number: *number, batch })
    }

    fn next_live(&mut self, board: &Board) -> Option<Entry> {
        // Records that are no longer in memory belong to the backlog.
        self.live_next = self.live_next.max(board.tail_first());
        while self.live_next < board.end() {
            let position = self.live_next;
            let entry = board.recent(position)?;
            assert_eq!(entry.position, position, "the board gives what was asked for");
            self.live_next += 1;
            if self.cursor.done.contains(position) || self.is_held(position) {
                continue;
            }
            return Some(entry);
        }
        None
    }

    /// `from`: where the search for records of one request continues, so that it does not pass repeatedly over those in
    /// flight.
    fn next_backlog(
        &mut self,
        board: &Board,
        disk: &dyn Disk,
        now: WallMs,
        from: &mut Option<u64>,
    ) -> Result<Option<Entry>, Error> {
        self.unreadable.retain(|segment| segment.until > now);
        while let Some(position) = self.backlog_position(board, *from) {
            let entry = match board.recent(position) {
                Some(entry) => Some(entry),
                None => {
                    if !self.loaded.range.contains(&position) && !self.load(board, disk, position, now)? {
                        return Ok(None);
                    }
                    self.loaded.entries.remove(&position)
                }
            };
            *from = Some(position);
            match entry {
                Some(entry) => return Ok(Some(entry)),
                // It was in an unreadable part, or is being read again after it was taken from what was loaded.
                None if self.cursor.done.contains(position) => {}
                None => self.loaded = Default::default(),
            }
        }
        Ok(None)
    }

    fn backlog_position(&self, board: &Board, from: Option<u64>) -> Option<u64> {
        let is_readable = |position| !self.unreadable.iter().any(|segment| segment.positions.contains(&position));
        let free = |position: &u64| !self.is_held(*position) && is_readable(*position);
        let (first, end) = (board.first(), self.live_next.min(board.end()));
        match self.order {
            Order::Oldest => {
                let first = from.map_or(first, |from| first.max(from));
                self.cursor.done.missing(first..end.max(first)).find_map(|mut range| range.find(free))
            }
            Order::Newest => {
                let end = from.map_or(end, |from| end.min(from + 1));
                self.cursor.done.missing(first..end.max(first)).rev().find_map(|range| range.rev().find(free))
            }
        }
    }

    /// Reads the segment of `position`; false when the spool no longer has it.
    fn load(&mut self, board: &Board, disk: &dyn Disk, position: u64, now: WallMs) -> Result<bool, Error> {
        let Some(segment) = board.segment_of(position) else { return Ok(false) };
        let end = segment.range.end.0.min(board.end());
        let positions = segment.range.first.0..end;
        let loaded = match board.load(disk, &segment.range) {
            Ok(loaded) => loaded,
            Err(Error::Disk(DiskError::NotFound { .. })) => {
                // The spool removes only what every destination has: something else removed it.
                let missing = self.not_held(positions);
                self.lose(GapReason::Missing, missing, now);
                return Ok(board.segment_of(position).is_some());
            }
            Err(error) => {
                self.unreadable.push(Unreadable { positions, until: now.saturating_add(UNREADABLE) });
                return Err(error);
            }
        };
        let Loaded { entries, lost } = loaded;
        let lost: Vec<Range<u64>> = lost.into_iter().flat_map(|range| self.not_held(range)).collect();
        self.lose(GapReason::Corrupt, lost, now);
        let wanted = entries
            .into_iter()
            .filter(|entry| !self.cursor.done.contains(entry.position) && !self.is_held(entry.position));
        let wanted: BTreeMap<u64, Entry> = wanted.map(|entry| (entry.position, entry)).collect();
        let range = segment.range.first.0..end;
        assert!(wanted.keys().all(|position| range.contains(position)), "records of {range:?} alone");
        self.loaded = Window { range, entries: wanted };
        Ok(true)
    }

    /// The positions of `range` that are neither done nor in memory.
    fn not_held(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let missing = self.cursor.done.missing(range).flatten();
        missing.filter(|position| !self.is_held(*position)).map(|position| position..position + 1).collect()
    }

    /// Makes a gap of positions whose contents are unknown.
    fn lose(&mut self, why: GapReason, ranges: impl IntoIterator<Item = Range<u64>>, now: WallMs) {
        let mut count = 0;
        for range in ranges {
            count += self.cursor.done.missing_count(range.clone());
            self.done(range);
        }
        if count > 0 {
            self.add_gap(Gap::unread(why, now, count));
        }
    }

    /// Records what the spool lost without a report to this destination.
    fn notice_missing(&mut self, board: &Board, now: WallMs) {
        let first = board.first();
        if self.cursor.done.first_missing(0) < first {
            self.lose(GapReason::Missing, std::iter::once(0..first), now);
        }
        assert!(self.cursor.done.first_missing(0) >= first, "what the spool lost is in a gap");
    }

    fn done(&mut self, range: Range<u64>) {
        self.version += 1;
        self.cursor.done.insert(range);
    }

    fn add_gap(&mut self, mut gap: Gap) {
        self.version += 1;
        self.gap_version = self.version;
        let GapTotals { gaps, records, samples } = &mut self.cursor.totals;
        (*gaps, *records, *samples) = (*gaps + 1, *records + gap.records, *samples + gap.samples);
        let (frozen, last_time) = (self.gap_frozen, &mut self.cursor.gap_time);
        for open in self.cursor.gaps.iter_mut().filter(|queued| queued.number >= frozen) {
            match open.gap.merge(gap) {
                Ok(()) => {
                    if open.gap.time() > open.time {
                        *last_time = open.gap.time().max(*last_time + Ms(1));
                        open.time = *last_time;
                    }
                    return;
                }
                Err(other) => gap = other,
            }
        }
        let is_full = self.cursor.gaps.len() >= GAPS_MAX;
        let is_open = |queued: &&mut QueuedGap| is_full && queued.number >= frozen;
        if let Some(QueuedGap { gap: last, .. }) = self.cursor.gaps.back_mut().filter(is_open) {
            (gap.tenant, gap.why) = (last.tenant.clone(), last.why);
            last.merge(gap).expect("they are of one tenant and reason");
            return;
        }
        // One for each restart while the destination is unreachable: the last of them may have arrived, and is in
        // doubt.
        if self.cursor.gaps.len() >= GAPS_READ_MAX
            && let Some(QueuedGap { gap: mut last, .. }) = self.cursor.gaps.pop_back()
        {
            last.in_doubt = last.samples;
            (gap.tenant, gap.why) = (last.tenant.clone(), last.why);
            last.merge(gap).expect("they are of one tenant and reason");
            gap = last;
        }
        *last_time = gap.time().max(*last_time + Ms(1));
        self.cursor.gaps.push_back(QueuedGap { number: self.cursor.gap_next, time: *last_time, gap });
        self.cursor.gap_next += 1;
        assert!(self.cursor.gaps.len() <= GAPS_READ_MAX, "a reader refuses {} gaps", self.cursor.gaps.len());
    }

    /// The destination has it. If it was a gap, that gap.
    pub fn acknowledged(&mut self, job: &Job) -> Option<Gap> {
        match job {
            Job::Record(entry, _) => {
                if retry::is_slow(self.landed(entry.position)) {
                    self.slow_together = self.slow_together.saturating_add(1);
                }
                self.done(entry.position..entry.position + 1);
                None
            }
            Job::Gap { number, .. } => {
                (self.gap_in_flight, self.gap_failures, self.gap_due) = (false, 0, 0);
                self.version += 1;
                let at = self.cursor.gaps.iter().position(|queued| queued.number == *number)?;
                self.cursor.gaps.remove(at).map(|queued| queued.gap)
            }
        }
    }

    /// It is to be sent again, because the destination asked for less.
    pub fn put_off(&mut self, job: Job) {
        if let Some((entry, failures)) = self.back(job) {
            self.retry.again(entry, failures);
        }
    }

    /// It is to be sent again, because there was no response, or no useful one. `in_doubt`: the destination may have
    /// it.
    pub fn failed(&mut self, job: Job, in_doubt: bool) {
        if let Job::Record(Entry { position, .. }, _) = &job
            && in_doubt
            && !self.cursor.done.contains(*position)
        {
            self.version += 1;
            self.cursor.doubted.insert(*position..*position + 1);
        }
        if matches!(job, Job::Gap { .. }) {
            self.gap_failures = self.gap_failures.saturating_add(1);
            self.gap_due = retry::due(self.gap_failures, self.turn + 1);
        }
        if let Some((entry, failures)) = self.back(job) {
            if retry::is_slow(failures) {
                self.slow_together = 1;
            }
            self.retry.failed(entry, failures, self.turn + 1);
        }
    }

    /// A record that was sent in vain and is still to be sent.
    fn back(&mut self, job: Job) -> Option<(Entry, u32)> {
        match job {
            Job::Record(entry, _) => {
                let failures = self.landed(entry.position);
                (!self.cursor.done.contains(entry.position)).then_some((entry, failures))
            }
            Job::Gap { .. } => {
                self.gap_in_flight = false;
                None
            }
        }
    }

    /// The destination is unreachable, or was: when it is back, new records go before the backlog.
    pub fn fell_behind(&mut self, board: &Board) {
        self.live_next = self.live_next.max(board.end());
    }

    /// The destination will never accept it: it becomes a gap. A refused gap is dropped; its totals stay.
    pub fn refused(&mut self, job: &Job, now: WallMs) {
        if let Job::Record(entry, _) = job
            && !self.cursor.done.contains(entry.position)
        {
            let mut builder = GapBuilder::new(GapReason::Refused, now);
            builder.batch(&entry.frame, false);
            builder.build().into_iter().for_each(|gap| self.add_gap(gap));
        }
        drop(self.acknowledged(job));
    }

    /// The destination took the batch but for samples that it refused: they become a gap.
    pub fn samples_refused(&mut self, samples: &[u32], entry: &Entry, now: WallMs) {
        let Ok(mut batch) = Batch::decode(&entry.frame) else { return };
        let refused: HashSet<u32> = samples.iter().copied().collect();
        let mut at = 0;
        batch.samples.retain(|_| {
            at += 1;
            refused.contains(&(at - 1))
        });
        let Ok(frame) = batch.encode() else { return };
        let mut builder = GapBuilder::new(GapReason::Refused, now);
        builder.batch(&frame, false);
        // Samples that this side had refused already are not in the frame: their sender knows about them.
        builder.build().into_iter().filter(|gap| gap.samples > 0).for_each(|gap| self.add_gap(gap));
    }

    /// Drops what is left of a segment; returns the number of records.
    pub fn give_up(
        &mut self,
        board: &Board,
        disk: &dyn Disk,
        segment: &SegmentState,
        why: GapReason,
        now: WallMs,
    ) -> u64 {
        let range = segment.positions();
        let end = range.end.min(board.end());
        let count = self.cursor.done.missing_count(range.start..end);
        if count == 0 {
            return 0;
        }
        // Unreadable records are dropped too: otherwise one bad file would disable the limit.
        let whole = |why| (why, Loaded { entries: Vec::new(), lost: std::iter::once(range.start..end).collect() });
        let (lost_why, Loaded { entries, lost }) = match board.load(disk, &segment.range) {
            Ok(loaded) => (GapReason::Corrupt, loaded),
            Err(Error::Disk(DiskError::NotFound { .. })) => whole(GapReason::Missing),
            Err(_) => whole(GapReason::Corrupt),
        };
        self.lose(lost_why, lost, now);
        let left: Vec<Entry> = entries.into_iter().filter(|entry| !self.cursor.done.contains(entry.position)).collect();
        let mut builder = GapBuilder::new(why, now);
        for entry in &left {
            let in_doubt = self.in_flight.contains_key(&entry.position) || self.cursor.doubted.contains(entry.position);
            builder.batch(&entry.frame, in_doubt);
        }
        self.done(range.start..end);
        assert_eq!(self.cursor.done.missing_count(range.start..end), 0, "all of the segment is done or in a gap");
        builder.build().into_iter().for_each(|gap| self.add_gap(gap));
        self.retry.forget_before(end);
        self.loaded.entries.retain(|position, _| *position >= end);
        count
    }

    /// The cursor's bytes, if they differ from the file. When they are durable, call [`Delivery::saved`].
    #[must_use]
    pub fn to_save(&mut self) -> Option<Snapshot> {
        if self.version <= self.saved_version {
            return None;
        }
        // What is in flight now may have arrived when this is read.
        let doubts = self.doubts();
        self.cursor.doubted = doubts.clone();
        let on_their_way = self.in_flight.keys().copied();
        on_their_way.for_each(|position| self.cursor.doubted.insert(position..position + 1));
        let bytes = self.cursor.encode();
        self.cursor.doubted = doubts;
        let floor = self.cursor.done.first_missing(0);
        assert!(floor >= self.saved_floor, "{floor} is needed again, below the saved {}", self.saved_floor);
        Some(Snapshot { bytes, floor, version: self.version })
    }

    /// The doubts that are left.
    fn doubts(&self) -> Ranges {
        let mut out = Ranges::default();
        for range in self.cursor.doubted.as_slice() {
            self.cursor.done.missing(range.clone()).for_each(|missing| out.insert(missing));
        }
        out
    }

    /// The bytes are durable.
    pub fn saved(&mut self, snapshot: &Snapshot) {
        assert!(snapshot.version <= self.version, "a cursor of the future was saved");
        assert!(snapshot.floor >= self.saved_floor, "segments may be gone below {}", self.saved_floor);
        (self.saved_version, self.saved_floor) = (snapshot.version, snapshot.floor);
    }

    /// Below this the destination needs nothing, whatever happens.
    #[must_use]
    pub const fn saved_floor(&self) -> u64 {
        self.saved_floor
    }

    /// How far behind it is.
    #[must_use]
    pub fn lag(&self, board: &Board) -> Lag {
        let end = board.end();
        let oldest = self.cursor.done.first_missing(board.first());
        if oldest >= end {
            return Lag::default();
        }
        let mut lag = Lag::default();
        for segment in board.segments() {
            let positions = segment.positions();
            let (count, left) = (
                positions.end - positions.start,
                self.cursor.done.missing_count(positions.start..positions.end.min(end)),
            );
            if left > 0 {
                lag.records += left;
                lag.bytes += (segment.range.bytes as f64 * (left as f64 / count as f64)) as u64;
                lag.oldest = lag.oldest.or(segment.arrival_first);
            }
        }
        if let Some(entry) = board.recent(oldest) {
            lag.oldest = Some(entry.arrival);
        }
        lag
    }

    /// The part of a segment that the destination has, from 0 to 1.
    #[must_use]
    pub fn share_done(&self, segment: &SegmentState) -> f64 {
        let positions = segment.positions();
        let count = positions.end - positions.start;
        if count == 0 {
            return 1.0;
        }
        let share = 1.0 - self.cursor.done.missing_count(positions) as f64 / count as f64;
        debug_assert!((0.0..=1.0).contains(&share), "a share of {share}");
        share
    }

    /// Totals of what was dropped.
    #[must_use]
    pub const fn totals(&self) -> GapTotals {
        self.cursor.totals
    }

    /// Gaps that the destination does not have yet.
    pub fn gaps(&self) -> impl Iterator<Item = &Gap> {
        self.cursor.gaps.iter().map(|queued| &queued.gap)
    }

    /// The position after the highest known one.
    #[must_use]
    pub fn known_end(&self) -> u64 {
        self.cursor.done.end()
    }

    /// Records on their way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len() + usize::from(self.gap_in_flight)
    }
}
