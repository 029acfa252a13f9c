//! Reading a segment: its records in order, and where bytes are bad.
//!
//! Invariants: a record is given out only if both its checksums fit and its sequence is above the one before.
//! Limits: memory is one record and a window of [`WINDOW_BYTES`].
//! Failure: after a bad record the reader looks at each multiple of 8 for the next good one.

use std::path::{Path, PathBuf};

use crate::format::{self, ALIGNMENT, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::{Disk, DiskFile, Error};

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
    /// fsync can have done it, and nobody was told that they were safe.
    pub proven: bool,
}

impl std::fmt::Display for Corruption {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { offset, end, lost: (from, to), .. } = self;
        write!(out, "{}: bytes {offset}..{end} are bad, records {from}..{to} are lost", self.path.display())
    }
}

pub(crate) fn path_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:016x}{NAME_SUFFIX}"))
}

/// Where a segment is until it is whole.
pub(crate) fn new_path_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:016x}{NEW_SUFFIX}"))
}

/// Whether a file was to become a segment.
pub(crate) fn is_new(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(NEW_SUFFIX.as_bytes())
}

/// The number in a segment's file name; `None` for other files.
pub(crate) fn number_of(path: &Path) -> Option<u64> {
    let stem = path.file_name()?.to_str()?.strip_suffix(NAME_SUFFIX)?;
    if stem.len() != 16 { None } else { u64::from_str_radix(stem, 16).ok() }
}

/// What reading finds next.
pub(crate) enum Step {
    /// A record; its payload is [`SegmentReader::payload`].
    Record { sequence: u64, durable: u64 },
    /// Bad bytes, with a good record behind them that the next step gives.
    Bad(Corruption),
    /// No good record from `offset` on. Nothing torn when it is the file's end.
    End { offset: u64 },
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
    window: Vec<u8>,
    window_start: u64,
    payload: std::ops::Range<usize>,
    /// A good record found behind bad bytes.
    found: Option<RecordHeader>,
}

impl SegmentReader {
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<Self, Error> {
        let file = disk.open_read(path)?;
        let length = file.length()?;
        let mut reader = Self {
            file,
            length,
            mark: 0,
            first: None,
            header_is_good: false,
            expected: 0,
            offset: SEGMENT_HEADER_BYTES as u64,
            window: Vec::new(),
            window_start: 0,
            payload: 0..0,
            found: None,
        };
        reader.read_header(number_of(path))?;
        Ok(reader)
    }

    fn read_header(&mut self, number: Option<u64>) -> Result<(), Error> {
        let Some(bytes) = self.bytes_at(0, SEGMENT_HEADER_BYTES)? else { return Ok(()) };
        let header = SegmentHeader::decode(bytes.try_into().expect("the header's size"));
        if let Some(header) = header.filter(|header| Some(header.number) == number) {
            (self.mark, self.first, self.header_is_good) = (header.mark, Some(header.first), true);
            self.expected = header.first;
            return Ok(());
        }
        // The first record begins with the mark too.
        let Some(bytes) = self.bytes_at(SEGMENT_HEADER_BYTES as u64, 4)? else { return Ok(()) };
        self.mark = format::u32_at(bytes, 0);
        let first = self.record_at(SEGMENT_HEADER_BYTES as u64)?.map(|header| header.sequence);
        (self.first, self.expected) = (first, first.unwrap_or(0));
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
        &self.window[self.payload.clone()]
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
                let (path, proven) = (self.file.path().to_owned(), header.durable > self.expected);
                return Ok(Step::Bad(Corruption { path, offset: start, end: at, lost, proven }));
            }
            at += ALIGNMENT as u64;
        }
        Ok(Step::End { offset: start.min(self.length) })
    }

    fn take(&mut self, header: RecordHeader) -> Result<Step, Error> {
        let frame = header.frame_bytes();
        let from = self.window_offset(self.offset, frame)?.expect("a checked record is there");
        self.payload = from + RECORD_HEADER_BYTES..from + RECORD_HEADER_BYTES + header.length as usize;
        self.offset += frame as u64;
        self.expected = header.sequence + 1;
        Ok(Step::Record { sequence: header.sequence, durable: header.durable })
    }

    /// The header of the record at `offset`, if a good one is there.
    fn record_at(&mut self, offset: u64) -> Result<Option<RecordHeader>, Error> {
        let (mark, expected) = (self.mark, self.expected);
        let Some(bytes) = self.bytes_at(offset, RECORD_HEADER_BYTES)? else { return Ok(None) };
        let Some(header) = RecordHeader::decode(bytes.try_into().expect("the header's size"), mark) else {
            return Ok(None);
        };
        if header.sequence < expected {
            return Ok(None);
        }
        let frame = self.bytes_at(offset, header.frame_bytes())?;
        Ok(frame.is_some_and(format::frame_is_good).then_some(header))
    }

    fn bytes_at(&mut self, offset: u64, count: usize) -> Result<Option<&[u8]>, Error> {
        Ok(self.window_offset(offset, count)?.map(|from| &self.window[from..from + count]))
    }

    /// Where in the window the bytes are; reads them if they are not in it. `None` past the file's end.
    fn window_offset(&mut self, offset: u64, count: usize) -> Result<Option<usize>, Error> {
        if offset + count as u64 > self.length {
            return Ok(None);
        }
        let window_end = self.window_start + self.window.len() as u64;
        if offset < self.window_start || offset + count as u64 > window_end {
            let left = usize::try_from(self.length - offset).unwrap_or(usize::MAX);
            // Refilled in place: one allocation serves the whole segment.
            self.window.resize(count.max(WINDOW_BYTES.min(left)), 0);
            self.window_start = offset;
            self.file.read_exact_at(offset, &mut self.window)?;
        }
        Ok(Some(usize::try_from(offset - self.window_start).expect("inside the window")))
    }
}
