//! The journal: append, fsync, replay, and removal of old segments.
//!
//! Invariants: sequence numbers rise by one across segments; a record never spans two segments; a segment with a record
//! is written only by the process that created it, and never after a later one was started; every later `replay`
//! returns what `sync` has confirmed; a segment is closed when all of it is durable, or the rest is void. A segment's
//! header voids the records from its first sequence on in earlier segments.
//! Limits: [`SEGMENT_BYTES_MAX`], [`RECORD_BYTES_MAX`], [`CORRUPTIONS_MAX`].
//! Failure: a torn tail ends the journal at the last good record; bad bytes before a good record are reported and
//! skipped. A full disk refuses the record and leaves none of it; it does not prevent opening and replay, where
//! `durable` stays below `next` until there is space. After a failed fsync nothing is accepted until
//! [`Journal::reopen`] continues in a new segment after the last durable record.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::{self, ALIGNMENT, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::segment::{self, Corruption, SegmentReader, Step};
use crate::{Disk, DiskFile, Error, RECORD_BYTES_MAX, SEGMENT_BYTES_MAX};

/// A record's sequence number. The first record of a new journal has 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// 1,000 described corruptions of one replay: enough to see what happened, the rest is only counted.
pub const CORRUPTIONS_MAX: usize = 1_000;

/// 8 times the end of the journal is read when disks go in between: a mirror has fewer that can.
const BEGINNINGS_MAX: usize = 8;

/// 1 MiB of buffer stays between records: enough for usual batches, little to keep.
const FRAME_BYTES_KEPT: usize = 1 << 20;

/// How a journal is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// A segment that holds a record and would grow past this is sealed.
    pub segment_bytes: u64,
    /// Stands at the head of each record. Give a random number: see `docs/formats/journal.md`.
    pub mark: u32,
    /// No record gets a position below this, whatever the directory holds.
    pub first: Position,
}

impl Default for Options {
    fn default() -> Self {
        Self { segment_bytes: SEGMENT_BYTES_MAX, mark: 0x6f67_6976, first: Position(0) }
    }
}

/// What opening found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Where the next record goes.
    pub next: Position,
    /// Segments found, with their bytes.
    pub segments: usize,
    /// Bytes of all segments.
    pub bytes: u64,
    /// What was no record at the end: the file, where it begins, and how many bytes are void.
    pub torn: Option<(PathBuf, u64, u64)>,
    /// What was no record at the end is as long as one: no write that was torn leaves that, but a bad byte does.
    pub torn_is_whole: bool,
    /// The first [`CORRUPTIONS_MAX`] corruptions of the last segment. Replays may report them again.
    pub corruptions: Vec<Corruption>,
}

/// What a replay gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Records given.
    pub records: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// The first [`CORRUPTIONS_MAX`] corruptions, in order.
    pub corruptions: Vec<Corruption>,
    /// All of them.
    pub corruption_count: u64,
}

/// A segment as it stood when it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRange {
    /// Its file.
    pub path: PathBuf,
    /// Its first record.
    pub first: Position,
    /// Behind its last record.
    pub end: Position,
    /// Bytes of the file.
    pub bytes: u64,
}

struct Segment {
    path: PathBuf,
    /// Sequence of its first record; `None` when nothing of it can be read.
    first: Option<u64>,
    bytes: u64,
}

/// The segment that takes the next record.
struct Active {
    file: Box<dyn DiskFile>,
    mark: u32,
}

/// An append-only log of records in one directory. One owner; see [`Disk::lock`].
pub struct Journal {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    options: Options,
    /// Ascending; the last one is the active one, if there is an active one.
    segments: Vec<Segment>,
    active: Option<Active>,
    number_next: u64,
    next: u64,
    /// Every record below is durable.
    durable: u64,
    poisoned: bool,
    /// The segment whose last records, from `durable` on, are to be copied to the next one.
    carried: Option<PathBuf>,
    frame: Vec<u8>,
}

impl Journal {
    /// Opens the journal in `directory`, which is made if it is not there. The last segment is read whole; the
    /// others are checked when they are replayed. Records of it that no later record proves to be durable are
    /// copied to a new segment: they may have been read from memory after a failed fsync, and an fsync of the old
    /// file would succeed without saving them.
    ///
    /// # Errors
    /// What the disk says.
    pub fn open(disk: Arc<dyn Disk>, directory: &Path, options: Options) -> Result<(Self, Recovery), Error> {
        if options.first.0 > format::SEQUENCE_MAX {
            return Err(Error::SequenceTooLarge { found: options.first.0, limit: format::SEQUENCE_MAX });
        }
        disk.create_dir_all(directory)?;
        let mut journal = Self {
            disk,
            directory: directory.to_owned(),
            options,
            segments: Vec::new(),
            active: None,
            number_next: 0,
            next: 0,
            durable: 0,
            poisoned: false,
            carried: None,
            frame: Vec::new(),
        };
        let mut recovery = Recovery::default();
        journal.find_segments(&mut recovery)?;
        let found = recovery;
        let mut recovery = found.clone();
        for again in (0..BEGINNINGS_MAX).rev() {
            match journal.begin(&mut recovery) {
                // What was read is read again: only a disk that has gone since can have had it.
                Err(Error::Gone { .. }) if again > 0 => recovery = found.clone(),
                Err(error) if error.is_full() => break,
                begun => {
                    begun?;
                    break;
                }
            }
        }
        assert!(journal.durable <= journal.next, "{} is durable before {}", journal.durable, journal.next);
        assert!(recovery.corruptions.len() <= CORRUPTIONS_MAX, "{} are listed", recovery.corruptions.len());
        assert!(journal.next >= journal.options.first.0, "no record gets a position below the first");
        recovery.next = Position(journal.next);
        recovery.bytes = journal.bytes();
        Ok((journal, recovery))
    }

    /// Reads the last segment and goes on behind it.
    fn begin(&mut self, recovery: &mut Recovery) -> Result<(), Error> {
        let last = self.read_last(recovery)?;
        if self.next < self.options.first.0 {
            (self.next, self.durable) = (self.options.first.0, self.options.first.0);
        }
        if self.take_blank()? {
            return Ok(());
        }
        self.carried = last.filter(|_| self.durable < self.next);
        self.begin_segment()
    }

    /// Lists the segments. A segment without a whole header never held a record: it goes.
    fn find_segments(&mut self, recovery: &mut Recovery) -> Result<(), Error> {
        for path in self.disk.list(&self.directory)? {
            if segment::is_new(&path) {
                self.disk.remove(&path)?;
            }
            let Some(number) = segment::segment_number(&path) else { continue };
            self.number_next = self.number_next.max(number + 1);
            let reader = SegmentReader::open(&*self.disk, &path)?;
            if reader.first().is_none() && reader.length() <= SEGMENT_HEADER_BYTES as u64 {
                self.disk.remove(&path)?;
                recovery.torn = Some((path, 0, reader.length()));
                continue;
            }
            self.segments.push(Segment { path, first: reader.first(), bytes: reader.length() });
        }
        debug_assert!(self.segments.is_sorted_by(|one, next| one.path < next.path), "a disk lists ascending names");
        recovery.segments = self.segments.len();
        // A process may have died between making a segment and making its name durable.
        self.disk.sync_dir(&self.directory)
    }

    /// Reads the last readable segment, and gives its path. Sets `next` behind its last record, and `durable`
    /// behind the last one that is proven to be.
    fn read_last(&mut self, recovery: &mut Recovery) -> Result<Option<PathBuf>, Error> {
        let Some(last) = self.segments.iter().rfind(|segment| segment.first.is_some()) else { return Ok(None) };
        let mut reader = SegmentReader::open(&*self.disk, &last.path)?;
        // A segment is begun behind durable records.
        self.durable = reader.expected();
        if !reader.header_is_good() {
            recovery.corruptions.push(Corruption {
                path: last.path.clone(),
                offset: 0,
                end: SEGMENT_HEADER_BYTES as u64,
                lost: (self.durable, self.durable),
                proven: true,
            });
        }
        let good_end = loop {
            match reader.step()? {
                Step::Record { durable, .. } => self.durable = self.durable.max(durable),
                Step::Void(bad) | Step::Bad(bad) if recovery.corruptions.len() < CORRUPTIONS_MAX => {
                    recovery.corruptions.push(bad)
                }
                Step::Void(_) | Step::Bad(_) => {}
                Step::End { offset } => break offset,
            }
        };
        self.next = reader.expected();
        assert!(self.durable <= self.next, "records to {} are proven by those to {}", self.durable, self.next);
        assert!(good_end <= reader.length(), "the good bytes end at {good_end} of {}", reader.length());
        if good_end < reader.length() {
            recovery.torn = Some((last.path.clone(), good_end, reader.length() - good_end));
            recovery.torn_is_whole = reader.is_whole_record(good_end)?;
        }
        Ok(Some(last.path.clone()))
    }

    /// Goes on in the last segment if it holds nothing and begins where the next record goes; returns whether.
    fn take_blank(&mut self) -> Result<bool, Error> {
        let Some(last) = self.segments.last() else { return Ok(false) };
        if last.first != Some(self.next) || last.bytes != SEGMENT_HEADER_BYTES as u64 {
            return Ok(false);
        }
        assert!(self.active.is_none(), "two segments are not written at once");
        assert_eq!(self.durable, self.next, "a blank segment begins behind durable records");
        let reader = SegmentReader::open(&*self.disk, &last.path)?;
        self.active = Some(Active { file: self.disk.open(&last.path)?, mark: reader.mark() });
        Ok(true)
    }

    /// Where the next record goes.
    #[must_use]
    pub const fn next(&self) -> Position {
        Position(self.next)
    }

    /// Every record before this is durable.
    #[must_use]
    pub const fn durable(&self) -> Position {
        Position(self.durable)
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Whether a failed write or fsync asks for [`Journal::reopen`].
    #[must_use]
    pub const fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Writes a record and returns its position. It is durable after the next [`Journal::sync`].
    ///
    /// # Errors
    /// [`Error::RecordTooLarge`]; [`Error::Full`], then nothing of it stays and the same call works once there
    /// is space; [`Error::Poisoned`]; what else the disk says.
    pub fn append(&mut self, record: &[u8]) -> Result<Position, Error> {
        format::check_length(record.len())?;
        if self.next > format::SEQUENCE_MAX {
            return Err(Error::SequenceTooLarge { found: self.next, limit: format::SEQUENCE_MAX });
        }
        self.check_poison()?;
        let frame_bytes = format::frame_bytes(record.len()) as u64;
        let active_bytes = self.segments.last().map_or(0, |segment| segment.bytes);
        if active_bytes > SEGMENT_HEADER_BYTES as u64 && active_bytes + frame_bytes > self.options.segment_bytes {
            self.sync()?;
            assert_eq!(self.durable, self.next, "a segment is closed when all of it is durable");
            // From here on the old segment is closed for good: were the new one's header to survive a failed
            // start, it would void what the old one took after it.
            self.active = None;
        }
        if self.active.is_none() {
            self.begin_segment()?;
        }
        self.write_frame(record)?;
        let position = Position(self.next);
        assert!(self.durable <= position.0, "a record is not durable before its sync");
        self.next += 1;
        Ok(position)
    }

    fn write_frame(&mut self, record: &[u8]) -> Result<(), Error> {
        let Active { file, mark } = self.active.as_mut().expect("a segment is active");
        let segment = self.segments.last_mut().expect("the active segment is listed");
        self.frame.clear();
        self.frame.shrink_to(FRAME_BYTES_KEPT);
        RecordHeader::frame(self.next, self.durable, *mark, record, &mut self.frame);
        debug_assert!(format::frame_is_good(&self.frame), "a reader takes the frame of record {}", self.next);
        assert!(segment.first.is_some_and(|first| first <= self.next), "record {} is not of this segment", self.next);
        assert!(segment.bytes.is_multiple_of(ALIGNMENT as u64), "a record begins at {}", segment.bytes);
        match file.write_all(&self.frame) {
            Ok(()) => {
                segment.bytes += self.frame.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.poisoned = file.truncate(segment.bytes).is_err();
                Err(error)
            }
        }
    }

    /// Makes every record durable and returns the position behind them.
    ///
    /// # Errors
    /// What the disk says; then the journal is poisoned and the records since the last `sync` are in doubt.
    pub fn sync(&mut self) -> Result<Position, Error> {
        self.check_poison()?;
        if self.durable == self.next {
            return Ok(Position(self.durable));
        }
        assert!(self.durable < self.next, "records to {} are durable of those to {}", self.durable, self.next);
        let Some(active) = self.active.as_mut() else {
            // What an earlier process left is saved by the segment that begins.
            self.begin_segment()?;
            assert_eq!(self.durable, self.next, "a segment begins with all before it durable");
            return Ok(Position(self.durable));
        };
        if let Err(error) = active.file.sync() {
            self.poisoned = true;
            return Err(error);
        }
        self.durable = self.next;
        Ok(Position(self.durable))
    }

    /// Makes every record durable and begins a new segment, so that [`Journal::truncate_before`] can remove all of
    /// them.
    ///
    /// # Errors
    /// What the disk says; a segment that could not be begun is begun by the next record.
    pub fn rotate(&mut self) -> Result<(), Error> {
        self.sync()?;
        if self.segments.last().is_some_and(|last| last.bytes > SEGMENT_HEADER_BYTES as u64) {
            assert_eq!(self.durable, self.next, "a segment is closed when all of it is durable");
            self.active = None;
            self.begin_segment()?;
        }
        Ok(())
    }

    /// Makes every record durable, seals the segment, and gives all that hold records a second name in `target`. What
    /// is appended later goes to a new segment; of that one `target` gets the header, which voids what a failed fsync
    /// may have left at the end of those before.
    ///
    /// # Errors
    /// What the disk says; then some of the names may be there.
    pub fn cut(&mut self, target: &Path) -> Result<(), Error> {
        self.reopen()?;
        self.rotate()?;
        let sealed = self.segments.len() - usize::from(self.active.is_some());
        for segment in &self.segments[..sealed] {
            self.disk.link(&segment.path, &target.join(segment.path.file_name().expect("a segment has a name")))?;
        }
        if let (Some(active), Some(segment)) = (&self.active, self.segments.last()) {
            assert_eq!(segment.first, Some(self.durable), "a cut voids nothing that is durable");
            assert_eq!(self.next, self.durable, "a cut holds every record before it");
            let number = segment::segment_number(&segment.path).expect("a segment is named by its number");
            let mut file = self.disk.create(&segment::path_of(target, number))?;
            file.write_all(&SegmentHeader { mark: active.mark, number, first: self.durable }.encode())?;
            file.sync()?;
        }
        self.disk.sync_dir(target)
    }

    /// Goes on after a failed write or fsync, in a new segment that voids every record since the last good
    /// `sync`. Does nothing on a healthy journal.
    ///
    /// # Errors
    /// What the disk says; then it can be tried again.
    pub fn reopen(&mut self) -> Result<(), Error> {
        if !self.poisoned {
            return Ok(());
        }
        self.active = None;
        self.next = self.durable;
        self.begin_segment()?;
        assert!(self.active.is_some() && self.next == self.durable, "it goes on behind the durable records");
        self.poisoned = false;
        Ok(())
    }

    fn check_poison(&self) -> Result<(), Error> {
        match self.segments.last() {
            Some(last) if self.poisoned => Err(Error::Poisoned { path: last.path.clone() }),
            _ => Ok(()),
        }
    }

    /// Makes a durable segment that begins behind the durable records, with the later ones of the segment that is
    /// `carried`. It gets its name when it is whole: its header voids what it is a copy of.
    fn begin_segment(&mut self) -> Result<(), Error> {
        assert!(self.carried.is_some() || self.next == self.durable, "a segment begins behind durable records");
        assert!(self.active.is_none(), "the segment before is closed for good");
        let header = SegmentHeader { mark: self.options.mark, number: self.number_next, first: self.durable };
        let new = segment::new_path_of(&self.directory, header.number);
        let path = segment::path_of(&self.directory, header.number);
        // A number is never used again: a half-made file may come back after a power cut.
        self.number_next += 1;
        let made = self.fill_segment(&new, &header).and_then(|made| {
            self.disk.rename(&new, &path)?;
            self.disk.sync_dir(&self.directory)?;
            Ok(made)
        });
        let (file, bytes) = made.inspect_err(|_| {
            // What cannot be removed stays as a file without meaning, or as a segment that says nothing false.
            let _ = (self.disk.remove(&new), self.disk.remove(&path));
        })?;
        assert!(bytes >= SEGMENT_HEADER_BYTES as u64, "a segment of {bytes} bytes has no header");
        assert!(self.segments.last().is_none_or(|last| last.path < path), "segments ascend by their numbers");
        self.segments.push(Segment { path, first: Some(header.first), bytes });
        self.active = Some(Active { file, mark: header.mark });
        (self.durable, self.carried) = (self.next, None);
        Ok(())
    }

    /// Writes and fsyncs the bytes of a new segment; gives their number.
    fn fill_segment(&self, path: &Path, header: &SegmentHeader) -> Result<(Box<dyn DiskFile>, u64), Error> {
        let mut file = self.disk.create(path)?;
        file.write_all(&header.encode())?;
        let mut bytes = SEGMENT_HEADER_BYTES as u64;
        if let Some(carried) = &self.carried {
            let mut reader = SegmentReader::open(&*self.disk, carried)?;
            let mut frame = Vec::new();
            loop {
                frame.clear();
                match reader.step()? {
                    Step::Record { sequence, durable } if sequence >= header.first => {
                        RecordHeader::frame(sequence, durable, header.mark, reader.payload(), &mut frame);
                    }
                    Step::Record { .. } => {}
                    Step::Void(bad) | Step::Bad(bad) => void_frames(&bad, header, &mut frame),
                    Step::End { .. } => break,
                }
                file.write_all(&frame)?;
                bytes += frame.len() as u64;
            }
            // A disk that had more than the others may have gone since it was read: a record is not counted that is not
            // here.
            if reader.expected() != self.next {
                let (path, from, to) = (carried.clone(), reader.expected(), self.next);
                return Err(Error::Gone { path, from, to });
            }
        }
        assert!(bytes.is_multiple_of(ALIGNMENT as u64), "whole frames have no {bytes} bytes");
        file.sync()?;
        Ok((file, bytes))
    }

    /// Gives every record from `from` on to `visit`, in order, one in memory at a time. Bad bytes are stepped
    /// over and reported.
    ///
    /// # Errors
    /// What the disk or `visit` says, which ends the replay.
    pub fn replay<E: From<Error>>(
        &self,
        from: Position,
        mut visit: impl FnMut(Position, &[u8]) -> Result<(), E>,
    ) -> Result<Replay, E> {
        let mut replay = Replay::default();
        let mut expected = from.0;
        for (at, segment) in self.segments.iter().enumerate() {
            let later = &self.segments[at + 1..];
            let limit = later.iter().find_map(|segment| segment.first).unwrap_or(self.next);
            let is_blank = segment.first.is_none() && from.0 <= limit;
            if later.is_empty() || expected < limit || is_blank {
                // What is missing before an unreadable segment is missing because of it.
                let ends_at_limit = later.first().is_none_or(|next| next.first.is_some());
                let reader = SegmentReader::open(&*self.disk, &segment.path)?;
                replay.segment(
                    reader,
                    segment,
                    &mut expected,
                    Limit { position: limit, is_end: ends_at_limit },
                    &mut visit,
                )?;
            }
        }
        Ok(replay)
    }

    /// Its segments, ascending, for who reads them beside the writer. A segment of which nothing can be read is not
    /// among them; its records are those that the one before lacks.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentRange> {
        let readable = || self.segments.iter().filter_map(|segment| Some((segment, segment.first?)));
        let ends = readable().skip(1).map(|(_, first)| first).chain([self.next]);
        let range = |((segment, first), end): ((&Segment, u64), u64)| SegmentRange {
            path: segment.path.clone(),
            first: Position(first),
            end: Position(end),
            bytes: segment.bytes,
        };
        readable().zip(ends).map(range).collect()
    }

    /// Removes the segments that hold only records before `position`.
    ///
    /// # Errors
    /// What the disk says; segments that could not be removed are tried again by the next call.
    pub fn truncate_before(&mut self, position: Position) -> Result<(), Error> {
        debug_assert!(position.0 <= self.next, "records to {} are taken back before {}", self.next, position.0);
        let mut removed = false;
        let ends_before =
            |later: &[Segment]| later.iter().find_map(|next| next.first).is_some_and(|first| first <= position.0);
        while self.segments.len() > 1 && ends_before(&self.segments[1..]) {
            match self.disk.remove(&self.segments[0].path) {
                Ok(()) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
            let gone = self.segments.remove(0);
            assert!(gone.path < self.segments[0].path, "the oldest goes first");
            removed = true;
        }
        if removed { self.disk.sync_dir(&self.directory) } else { Ok(()) }
    }
}

impl SegmentRange {
    /// Gives its records at `positions` to `visit`, in order. Their end is at most what the writer had made durable.
    /// Bad bytes are stepped over and reported.
    ///
    /// # Errors
    /// What the disk or `visit` says, which ends the reading; [`Error::NotFound`] when the segment was removed.
    pub fn replay<E: From<Error>>(
        &self,
        disk: &dyn Disk,
        positions: Range<Position>,
        mut visit: impl FnMut(Position, &[u8]) -> Result<(), E>,
    ) -> Result<Replay, E> {
        let mut replay = Replay::default();
        let mut expected = positions.start.0.max(self.first.0);
        let limit = positions.end.0.min(self.end.0);
        if expected < limit {
            let segment = Segment { path: self.path.clone(), first: Some(self.first.0), bytes: self.bytes };
            let reader = SegmentReader::open(disk, &segment.path)?;
            replay.segment(reader, &segment, &mut expected, Limit { position: limit, is_end: true }, &mut visit)?;
        }
        Ok(replay)
    }
}

/// Gives every good record of the journal in `directory` to `visit`, in order, without a lock and without changing
/// anything: for tools that look at the journal of a server that runs, or ran. What the server removes meanwhile is
/// left out; of what it is writing, the last whole record is the end.
///
/// # Errors
/// What the disk or `visit` says, which ends the reading.
pub fn read_journal<E: From<Error>>(
    disk: &dyn Disk,
    directory: &Path,
    mut visit: impl FnMut(Position, &[u8]) -> Result<(), E>,
) -> Result<Replay, E> {
    let mut segments = Vec::new();
    for path in disk.list(directory)?.into_iter().filter(|path| segment::segment_number(path).is_some()) {
        match SegmentReader::open(disk, &path) {
            Ok(reader) => segments.push(Segment { path, first: reader.first(), bytes: reader.length() }),
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut replay = Replay::default();
    let mut expected = segments.iter().find_map(|segment| segment.first).unwrap_or(0);
    for (at, segment) in segments.iter().enumerate() {
        let later = segments[at + 1..].iter().find_map(|segment| segment.first);
        // Nothing shows how far the last one should reach.
        let (limit, ends_at_limit) = (later.unwrap_or(u64::MAX), later.is_some());
        if segment.first.is_none() && !ends_at_limit {
            continue;
        }
        match SegmentReader::open(disk, &segment.path) {
            Ok(reader) => replay.segment(
                reader,
                segment,
                &mut expected,
                Limit { position: limit, is_end: ends_at_limit },
                &mut visit,
            )?,
            Err(Error::NotFound { .. }) => expected = limit,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(replay)
}

/// Where the replay of a segment ends.
#[derive(Clone, Copy)]
struct Limit {
    /// No record from here on.
    position: u64,
    /// The segment has every record before it: one that is missing is lost.
    is_end: bool,
}

impl Replay {
    fn report(&mut self, corruption: Corruption) {
        self.corruption_count += 1;
        assert!(corruption.lost.0 <= corruption.lost.1, "{corruption}");
        if self.corruptions.len() < CORRUPTIONS_MAX {
            self.corruptions.push(corruption);
        }
        assert!(self.corruptions.len() as u64 <= self.corruption_count, "what is listed is counted");
    }

    /// Replays the records of one segment from `expected` up to `limit`, excluded.
    fn segment<E: From<Error>>(
        &mut self,
        mut reader: SegmentReader,
        segment: &Segment,
        expected: &mut u64,
        Limit { position: limit, is_end }: Limit,
        visit: &mut impl FnMut(Position, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let corruption = |offset, end, lost| Corruption { path: segment.path.clone(), offset, end, lost, proven: true };
        if reader.first().is_none() {
            self.report(corruption(0, segment.bytes, (*expected, limit)));
            *expected = limit;
            return Ok(());
        }
        if !reader.header_is_good() {
            self.report(corruption(0, SEGMENT_HEADER_BYTES as u64, (*expected, *expected)));
        }
        if let Some(first) = reader.first().filter(|first| *expected < *first && *first < limit) {
            self.report(corruption(0, 0, (*expected, first)));
            *expected = first;
        }
        let end = loop {
            // Behind the last record that is asked for somebody may be writing.
            if *expected >= limit {
                break reader.length();
            }
            match reader.step()? {
                Step::Record { sequence, .. } if sequence >= limit => break reader.length(),
                Step::Record { sequence, .. } if sequence < *expected => {}
                Step::Record { sequence, .. } => {
                    let payload = reader.payload();
                    assert!((*expected..limit).contains(&sequence), "{sequence} is not of {expected}..{limit}");
                    self.records += 1;
                    self.bytes += payload.len() as u64;
                    visit(Position(sequence), payload)?;
                    *expected = sequence + 1;
                }
                Step::Void(mut bad) | Step::Bad(mut bad) => {
                    bad.lost = (bad.lost.0.max(*expected), bad.lost.1.min(limit));
                    if bad.lost.0 < bad.lost.1 {
                        *expected = bad.lost.1;
                        self.report(bad);
                    }
                }
                Step::End { offset } => break offset,
            }
        };
        if *expected < limit && is_end {
            self.report(corruption(end, segment.bytes.max(end), (*expected, limit)));
            *expected = limit;
        }
        Ok(())
    }
}

/// The frames that stand for lost records in a segment that goes on behind them: what reads it later, a scrub above
/// all, need not take the hole for new damage. A hole that is proven is damage.
fn void_frames(bad: &Corruption, header: &SegmentHeader, out: &mut Vec<u8>) {
    let (from, to) = (bad.lost.0.max(header.first), bad.lost.1);
    // No more records than the bad bytes had room for.
    assert!(bad.offset <= bad.end, "{bad}");
    let room = (bad.end - bad.offset) / format::frame_bytes(0) as u64;
    if !bad.proven && to.saturating_sub(from) <= room {
        (from..to).for_each(|sequence| RecordHeader::void_frame(sequence, header.mark, out));
    }
}

const _: () = assert!(RECORD_BYTES_MAX as u64 <= SEGMENT_BYTES_MAX);
