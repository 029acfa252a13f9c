//! Reading a segment: its records in order, and the positions of bad bytes.
//!
//! Invariants: a record is returned only if both its checksums match and its sequence is above the previous one.
//! Limits: memory is one record and a window of [`WINDOW_BYTES`] for each copy.
//! Failure: a record that is bad in one copy is read from another, which heals the first; after one that is bad in all
//! copies the reader tries each multiple of 8 for the next good one.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::format::{self, ALIGNMENT, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::{Disk, DiskFile, Error, Verified, read_verified};

/// 256 KiB: a read large enough that its call costs nothing beside its bytes.
const WINDOW_BYTES: usize = 256 << 10;
const NAME_SUFFIX: &str = ".journal";
/// What the name of a segment ends with until it is whole.
const NEW_SUFFIX: &str = ".journal.new";

/// Bytes of a segment that are not the records that must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// The segment.
    pub path: PathBuf,
    /// Where the bad bytes begin.
    pub offset: u64,
    /// Where good ones go on, or the file ends.
    pub end: u64,
    /// Sequences that are lost: from the first, up to the second, excluded. Empty when the bad bytes held no
    /// record (a segment's header).
    pub lost: (u64, u64),
    /// True when a later record proves that the lost ones had been durable; else a power cut before their
    /// fsync can have done it, and nobody was notified that they were safe.
    pub proven: bool,
}

impl std::fmt::Display for Corruption {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { offset, end, lost: (from, to), .. } = self;
        write!(out, "{}: bytes {offset}..{end} are bad, records {from}..{to} are lost", self.path.display())
    }
}

pub(crate) fn path_of(directory: &Path, number: u64) -> PathBuf {
    let path = directory.join(format!("{number:016x}{NAME_SUFFIX}"));
    assert_eq!(segment_number(&path), Some(number), "opening finds the number in {}", path.display());
    path
}

/// Where a segment is until it is whole.
pub(crate) fn new_path_of(directory: &Path, number: u64) -> PathBuf {
    let path = directory.join(format!("{number:016x}{NEW_SUFFIX}"));
    assert!(is_new(&path), "opening removes {} when it is not whole", path.display());
    path
}

/// Whether a file was to become a segment.
pub(crate) fn is_new(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    name.ends_with(NEW_SUFFIX.as_bytes()) || name.ends_with(b".journal.copy.new")
}

/// The number in a segment's file name; `None` for other files.
#[must_use]
pub fn segment_number(path: &Path) -> Option<u64> {
    let stem = path.file_name()?.to_str()?.strip_suffix(NAME_SUFFIX)?;
    if stem.len() != 16 { None } else { u64::from_str_radix(stem, 16).ok() }
}

/// What reading finds next.
pub(crate) enum Step {
    /// A record; its payload is [`SegmentReader::payload`].
    Record { sequence: u64, durable: u64 },
    /// Stands for a record that was lost, and that the start which began this segment reported: its place.
    Void(Corruption),
    /// Bad bytes, with a good record behind them that the next step gives.
    Bad(Corruption),
    /// No good record from `offset` on. Nothing torn when it is the file's end.
    End { offset: u64 },
}

/// Bytes of a copy that were read.
#[derive(Default)]
struct Window {
    bytes: Vec<u8>,
    start: u64,
}

/// Reads one segment from its start.
pub(crate) struct SegmentReader {
    file: Box<dyn DiskFile>,
    length: u64,
    mark: u32,
    /// The first sequence: what the header says, or the first good record when the header is bad.
    first: Option<u64>,
    header_is_good: bool,
    expected: u64,
    offset: u64,
    /// One for each copy of the file.
    windows: Vec<Window>,
    /// The copy that held the last good record.
    copy: usize,
    payload: Range<usize>,
    /// A good record found behind bad bytes.
    found: Option<RecordHeader>,
    /// Copies whose bytes were bad where another's were good: which, where, and whether they are good now.
    pub(crate) healed: Vec<(usize, Range<u64>, bool)>,
}

impl SegmentReader {
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<Self, Error> {
        let file = disk.open_read(path)?;
        // After a crash the copies may end at different places.
        let lengths: Vec<_> = (0..file.copies()).map(|copy| file.copy_length(copy)).collect();
        let length = match lengths.iter().flatten().max() {
            Some(length) => *length,
            None => file.length()?,
        };
        let mut reader = Self {
            windows: lengths.iter().map(|_| Window::default()).collect(),
            file,
            length,
            mark: 0,
            first: None,
            header_is_good: false,
            expected: 0,
            offset: SEGMENT_HEADER_BYTES as u64,
            copy: 0,
            payload: 0..0,
            found: None,
            healed: Vec::new(),
        };
        assert!(!reader.windows.is_empty(), "{} has a copy", path.display());
        reader.read_header(segment_number(path))?;
        Ok(reader)
    }

    fn read_header(&mut self, number: Option<u64>) -> Result<(), Error> {
        if self.length < SEGMENT_HEADER_BYTES as u64 {
            return Ok(());
        }
        let header = read_verified(&*self.file, 0..SEGMENT_HEADER_BYTES as u64, |bytes, path| {
            let header = SegmentHeader::decode(bytes.try_into().expect("the header's size"));
            // The error is not seen: what follows says that the header is bad.
            let bad = || Error::Truncated { path: path.to_owned(), offset: 0, end: SEGMENT_HEADER_BYTES as u64 };
            header.filter(|header| Some(header.number) == number).ok_or_else(bad)
        });
        match header {
            Ok(Verified { value: header, .. }) => {
                (self.mark, self.first, self.header_is_good) = (header.mark, Some(header.first), true);
                self.expected = header.first;
                return Ok(());
            }
            Err(Error::Truncated { .. }) => {}
            Err(error) => return Err(error),
        }
        // The first record begins with the mark too.
        for copy in 0..self.windows.len() {
            let Some(bytes) = self.bytes_at(copy, SEGMENT_HEADER_BYTES as u64, 4)? else { continue };
            self.mark = format::u32_at(bytes, 0);
            let first = self.record_at(SEGMENT_HEADER_BYTES as u64)?.map(|header| header.sequence);
            (self.first, self.expected) = (first, first.unwrap_or(0));
            if first.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// `None` when neither the header nor the first record can be read: then nothing of it can.
    pub(crate) const fn first(&self) -> Option<u64> {
        self.first
    }

    /// What stands at the head of its records.
    pub(crate) const fn mark(&self) -> u32 {
        self.mark
    }

    pub(crate) const fn header_is_good(&self) -> bool {
        self.header_is_good
    }

    pub(crate) const fn length(&self) -> u64 {
        self.length
    }

    /// One above the last record given out.
    pub(crate) const fn expected(&self) -> u64 {
        self.expected
    }

    /// The payload of the last record.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.windows[self.copy].bytes[self.payload.clone()]
    }

    pub(crate) fn step(&mut self) -> Result<Step, Error> {
        if let Some(header) = self.found.take() {
            return self.take(header);
        }
        if self.first.is_none() {
            return Ok(Step::End { offset: SEGMENT_HEADER_BYTES as u64 });
        }
        let start = self.offset;
        let mut at = start;
        while at + RECORD_HEADER_BYTES as u64 <= self.length {
            if let Some(header) = self.record_at(at)? {
                self.offset = at;
                if at == start && header.sequence == self.expected {
                    return self.take(header);
                }
                self.found = Some(header);
                let lost = (self.expected, header.sequence);
                assert!(start <= at && lost.0 <= lost.1, "{start}..{at} lost {lost:?}");
                let proven = header.durable > self.expected && !header.is_void();
                let path = self.file.path().to_owned();
                return Ok(Step::Bad(Corruption { path, offset: start, end: at, lost, proven }));
            }
            at += ALIGNMENT as u64;
        }
        Ok(Step::End { offset: start.min(self.length) })
    }

    fn take(&mut self, header: RecordHeader) -> Result<Step, Error> {
        let frame = header.frame_bytes();
        assert!(self.expected <= header.sequence, "{} comes behind {}", header.sequence, self.expected);
        let from = self.window_offset(self.copy, self.offset, frame)?.expect("a checked record is there");
        self.payload = from + RECORD_HEADER_BYTES..from + RECORD_HEADER_BYTES + header.length as usize;
        self.offset += frame as u64;
        assert!(self.offset.is_multiple_of(ALIGNMENT as u64), "no record begins at {}", self.offset);
        assert!(self.offset <= self.length, "a record ends at {} of {} bytes", self.offset, self.length);
        self.expected = header.sequence + 1;
        if header.is_void() {
            let (path, lost) = (self.file.path().to_owned(), (header.sequence, header.sequence + 1));
            let offset = self.offset - frame as u64;
            return Ok(Step::Void(Corruption { path, offset, end: self.offset, lost, proven: false }));
        }
        Ok(Step::Record { sequence: header.sequence, durable: header.durable })
    }

    /// Whether the bytes from `offset` to the end, which hold no good record, are as long as one: a write that was torn
    /// ends early, or leaves zeros where nothing came to the disk.
    pub(crate) fn is_whole_record(&self, offset: u64) -> Result<bool, Error> {
        assert!(offset <= self.length, "the last good record ends at {offset} of {} bytes", self.length);
        let left = self.length.saturating_sub(offset);
        let mut bytes =
            vec![0; usize::try_from(left.min(format::RECORD_BYTES_MAX as u64)).expect("a record fits memory")];
        let read = self.file.read_at(offset, &mut bytes)?;
        assert!(read <= bytes.len(), "{read} bytes were read into {}", bytes.len());
        let Some(header) = bytes[..read].first_chunk::<RECORD_HEADER_BYTES>() else { return Ok(false) };
        Ok(match RecordHeader::decode(header, self.mark) {
            Some(header) => header.frame_bytes() as u64 <= left,
            None => bytes[..read].iter().any(|byte| *byte != 0),
        })
    }

    /// The frame of the last record and where it is.
    pub(crate) fn frame(&self) -> (Range<u64>, &[u8]) {
        assert!(self.payload.start >= RECORD_HEADER_BYTES, "no record was given out");
        let from = self.payload.start - RECORD_HEADER_BYTES;
        let bytes = &self.windows[self.copy].bytes[from..from + format::frame_bytes(self.payload.len())];
        let records = self.offset - SEGMENT_HEADER_BYTES as u64;
        assert!(bytes.len() as u64 <= records, "a record of {} bytes among {records}", bytes.len());
        (self.offset - bytes.len() as u64..self.offset, bytes)
    }

    pub(crate) fn file(&self) -> &dyn DiskFile {
        &*self.file
    }

    /// The header of the record at `offset`, if a good one is in a copy. The copies before that one are healed.
    fn record_at(&mut self, offset: u64) -> Result<Option<RecordHeader>, Error> {
        assert!(offset.is_multiple_of(ALIGNMENT as u64), "no record begins at {offset}");
        let mut failed = None;
        for copy in 0..self.windows.len() {
            match self.record_in(copy, offset) {
                Ok(Some(header)) => {
                    self.copy = copy;
                    self.heal_before(copy, offset, header.frame_bytes())?;
                    return Ok(Some(header));
                }
                Ok(None) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        // What cannot be read is not what is bad: the reader must not step over it.
        failed.map_or(Ok(None), Err)
    }

    fn heal_before(&mut self, copy: usize, offset: u64, count: usize) -> Result<(), Error> {
        for bad in 0..copy {
            let Some(from) = self.window_offset(copy, offset, count)? else { return Ok(()) };
            let frame = &self.windows[copy].bytes[from..from + count];
            let place = offset..offset + count as u64;
            assert!(format::frame_is_good(frame), "{place:?} of copy {copy} heals nothing");
            match self.file.heal(bad, place.clone(), frame) {
                Err(Error::NoCopy { .. }) => continue,
                // What cannot be healed is met again.
                healed => self.healed.push((bad, place, healed.is_ok())),
            }
            self.windows[bad] = Window::default();
        }
        Ok(())
    }

    fn record_in(&mut self, copy: usize, offset: u64) -> Result<Option<RecordHeader>, Error> {
        let (mark, expected) = (self.mark, self.expected);
        let Some(bytes) = self.bytes_at(copy, offset, RECORD_HEADER_BYTES)? else { return Ok(None) };
        let Some(header) = RecordHeader::decode(bytes.try_into().expect("the header's size"), mark) else {
            return Ok(None);
        };
        if header.sequence < expected {
            return Ok(None);
        }
        let frame = self.bytes_at(copy, offset, header.frame_bytes())?;
        Ok(frame.is_some_and(format::frame_is_good).then_some(header))
    }

    fn bytes_at(&mut self, copy: usize, offset: u64, count: usize) -> Result<Option<&[u8]>, Error> {
        let found = self.window_offset(copy, offset, count)?;
        Ok(found.map(|from| &self.windows[copy].bytes[from..from + count]))
    }

    /// Where in the copy's window the bytes are; reads them if they are not in it. `None` past the copy's end.
    fn window_offset(&mut self, copy: usize, offset: u64, count: usize) -> Result<Option<usize>, Error> {
        if offset + count as u64 > self.length {
            return Ok(None);
        }
        let window = &mut self.windows[copy];
        let window_end = window.start + window.bytes.len() as u64;
        if offset < window.start || offset + count as u64 > window_end {
            let left = usize::try_from(self.length - offset).unwrap_or(usize::MAX);
            // Refilled in place: one allocation serves the whole segment.
            window.bytes.resize(count.max(WINDOW_BYTES.min(left)), 0);
            window.start = offset;
            let read = match self.file.read_copy_at(copy, offset, &mut window.bytes) {
                Err(Error::NoCopy { .. }) => 0,
                read => read?,
            };
            assert!(read <= window.bytes.len(), "{read} bytes were read into {}", window.bytes.len());
            window.bytes.truncate(read);
            if read < count {
                return Ok(None);
            }
        }
        let from = usize::try_from(offset - window.start).expect("inside the window");
        assert!(from + count <= window.bytes.len(), "{from} and {count} bytes of {}", window.bytes.len());
        Ok(Some(from))
    }
}
