//! The durable state of a destination: what it has received.
//!
//! Format: docs/formats/spool.md.
//! Invariants: the file is replaced as a whole; what it says a destination has was acknowledged, or is described by a
//! gap in the same file. So a gap is never made twice and never forgotten.
//! Limits: [`RANGES_MAX`], [`GAPS_MAX`].
//! Failure: a damaged file is an [`Error::Cursor`]; starting over sends the spool's content again, and the destination
//! counts it once.

use std::collections::VecDeque;
use std::path::Path;

use ogive_journal::{Disk, Error as DiskError};
use ogive_model::{SourceId, WallMs};

use crate::bytes::{Fields, put_i64, put_u32, put_u64};
use crate::{Error, Gap, Ranges};

/// 65,536 ranges of 16 bytes: 1 MiB. Normally there are as many as lanes and connections; beyond the limit the highest
/// are left out, and their records are sent again.
pub const RANGES_MAX: usize = 1 << 16;
/// 64 gaps wait: one for each reason and tenant, of a dozen tenants. Beyond that a new one is merged into the last,
/// unless that was made by an earlier process.
pub(crate) const GAPS_MAX: usize = 64;
/// 4,096 gaps are read: those beyond [`GAPS_MAX`] are one for each restart while the destination is unreachable.
pub(crate) const GAPS_READ_MAX: usize = 4_096;
/// 64 MiB: beyond it gaps are recorded without their series, the oldest gap first.
const FILE_BYTES_MAX: u64 = 64 << 20;

const MAGIC: [u8; 8] = *b"ogivecur";
const VERSION: u32 = 2;
/// Files of this version have no doubts.
const VERSION_WITHOUT_DOUBTS: u32 = 1;
const HEADER_BYTES: usize = 16;

/// Totals of what was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapTotals {
    /// Gaps that were made.
    pub gaps: u64,
    /// Records in them.
    pub records: u64,
    /// Samples in them.
    pub samples: u64,
}

/// A gap that is sent until the destination acknowledges it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedGap {
    /// Under which it is sent.
    pub number: u64,
    /// The time of its samples.
    pub time: WallMs,
    /// What was dropped.
    pub gap: Gap,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Positions that need not be sent any more.
    pub done: Ranges,
    /// Gaps that the destination has not acknowledged, the oldest first.
    pub gaps: VecDeque<QueuedGap>,
    /// Under which the gaps are sent.
    pub gap_source: SourceId,
    /// The number of the next gap.
    pub gap_next: u64,
    /// The time of the last gap's samples, so that no two have one time.
    pub gap_time: WallMs,
    /// Totals of what was dropped.
    pub totals: GapTotals,
    /// Positions that were sent without a response: the destination may have them. Those that are done need not be in
    /// it.
    pub doubted: Ranges,
}

impl Cursor {
    /// For a destination that has received nothing. `gap_source` must be a unique number.
    #[must_use]
    pub fn new(gap_source: SourceId) -> Self {
        Self { gap_source, ..Self::default() }
    }

    /// Reads the file; `None` when it does not exist.
    ///
    /// # Errors
    /// [`Error::Cursor`], or those of the disk.
    pub fn read(disk: &dyn Disk, path: &Path) -> Result<Option<Self>, Error> {
        let wrong = |what| Error::Cursor { path: path.to_owned(), what };
        match disk.length(path) {
            Err(DiskError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(length) if length > FILE_BYTES_MAX => return Err(wrong("it is too large")),
            Ok(_) => {}
        }
        Self::decode(&disk.read(path)?).map(Some).map_err(wrong)
    }

    /// Replaces the file; durable when it returns.
    ///
    /// # Errors
    /// Those of the disk; then the file is unchanged.
    pub fn write(&self, disk: &dyn Disk, path: &Path) -> Result<(), Error> {
        let mut bytes = self.encode();
        if bytes.len() as u64 > FILE_BYTES_MAX {
            bytes = self.shortened(FILE_BYTES_MAX as usize, bytes.len()).encode();
        }
        if bytes.len() as u64 > FILE_BYTES_MAX || self.gaps.len() > GAPS_READ_MAX {
            return Err(Error::Cursor { path: path.to_owned(), what: "it would be larger than what is read again" });
        }
        debug_assert!(Self::decode(&bytes).is_ok(), "what is written can be read again");
        Ok(disk.replace(path, &bytes)?)
    }

    /// This cursor in a file of `bytes_max` bytes where it has `bytes`: the oldest gaps count their series and do not
    /// name them. Nothing is left out of the sums.
    fn shortened(&self, bytes_max: usize, mut bytes: usize) -> Self {
        let mut out = self.clone();
        for QueuedGap { gap, .. } in &mut out.gaps {
            if bytes <= bytes_max {
                break;
            }
            bytes -= gap.forget_series();
        }
        out
    }

    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.gap_source.0.to_le_bytes());
        put_u64(&mut out, self.gap_next);
        put_i64(&mut out, self.gap_time.0);
        let GapTotals { gaps, records, samples } = self.totals;
        [gaps, records, samples].into_iter().for_each(|count| put_u64(&mut out, count));
        put_ranges(&mut out, &self.done);
        put_u32(&mut out, self.gaps.len());
        for QueuedGap { number, time, gap } in &self.gaps {
            put_u64(&mut out, *number);
            put_i64(&mut out, time.0);
            gap.put(&mut out);
        }
        put_ranges(&mut out, &self.doubted);
        Self::sealed(&out)
    }

    /// A file of these fields: the head with its checksum before them.
    #[must_use]
    pub fn sealed(fields: &[u8]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_u32(&mut out, VERSION as usize);
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&out), fields);
        out.extend_from_slice(&checksum.to_le_bytes());
        assert_eq!(out.len(), HEADER_BYTES, "the reader expects the fields there");
        out.extend_from_slice(fields);
        out
    }

    /// Decodes the result of [`Cursor::encode`].
    ///
    /// # Errors
    /// A short description of the defect.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let Some((header, payload)) = bytes.split_at_checked(HEADER_BYTES) else { return Err("it is too short") };
        let version = [VERSION, VERSION_WITHOUT_DOUBTS].into_iter().find(|known| header[8..12] == known.to_le_bytes());
        let Some(version) = version.filter(|_| header[..8] == MAGIC) else {
            return Err("it does not begin as version 1 or 2 of a cursor");
        };
        if header[12..] != crc32c::crc32c_append(crc32c::crc32c(&header[..12]), payload).to_le_bytes() {
            return Err("its checksum does not fit its bytes");
        }
        Self::fields(&mut Fields(payload), version).ok_or("its fields do not fit together")
    }

    fn fields(fields: &mut Fields<'_>, version: u32) -> Option<Self> {
        let mut out = Self::new(SourceId(fields.u128()?));
        (out.gap_next, out.gap_time) = (fields.u64()?, WallMs(fields.i64()?));
        out.totals = GapTotals { gaps: fields.u64()?, records: fields.u64()?, samples: fields.u64()? };
        out.done = take_ranges(fields)?;
        let gaps = fields.u32()?;
        if gaps > GAPS_READ_MAX {
            return None;
        }
        for _ in 0..gaps {
            let (number, time) = (fields.u64()?, WallMs(fields.i64()?));
            out.gaps.push_back(QueuedGap { number, time, gap: Gap::take(fields)? });
        }
        if version == VERSION {
            out.doubted = take_ranges(fields)?;
        }
        fields.0.is_empty().then_some(out)
    }
}

/// Writes the lowest [`RANGES_MAX`] of them.
fn put_ranges(out: &mut Vec<u8>, ranges: &Ranges) {
    let ranges = ranges.as_slice();
    let ranges = &ranges[..ranges.len().min(RANGES_MAX)];
    debug_assert!(ranges.is_sorted_by(|one, next| one.end < next.start), "the reader refuses ranges that touch");
    put_u32(out, ranges.len());
    for range in ranges {
        put_u64(out, range.start);
        put_u64(out, range.end);
    }
}

fn take_ranges(fields: &mut Fields<'_>) -> Option<Ranges> {
    let (mut out, mut above) = (Ranges::default(), None);
    let count = fields.u32()?;
    if count > RANGES_MAX {
        return None;
    }
    for _ in 0..count {
        let (start, end) = (fields.u64()?, fields.u64()?);
        if start >= end || above.is_some_and(|above| start <= above) {
            return None;
        }
        out.insert(start..end);
        above = Some(end);
    }
    assert_eq!(out.as_slice().len(), count, "none of them touched another");
    Some(out)
}

#[cfg(test)]
mod tests {
    use ogive_journal::SimulatedDisk;
    use proptest::prelude::*;

    use super::*;
    use crate::GapReason;

    fn queued(number: u64, time: WallMs, gap: Gap) -> QueuedGap {
        QueuedGap { number, time, gap }
    }

    fn cursor() -> Cursor {
        let mut cursor = Cursor::new(SourceId(0x1234_5678_9abc_def0));
        cursor.done.insert(0..7);
        cursor.done.insert(9..12);
        let time = WallMs(1_700_000_000_000);
        (cursor.gap_next, cursor.gap_time) = (3, time);
        cursor.totals = GapTotals { gaps: 3, records: 10, samples: 20 };
        cursor.gaps.push_back(queued(2, time, Gap::unread(GapReason::SpoolAge, time, 4)));
        cursor.doubted.insert(7..8);
        cursor.doubted.insert(20..25);
        cursor
    }

    #[test]
    fn a_cursor_of_version_1_has_no_doubts() {
        let mut before = cursor();
        before.doubted = Ranges::default();
        let bytes = before.encode();
        // Without the count of doubts, and under its own head.
        let fields = &bytes[HEADER_BYTES..bytes.len() - 4];
        let mut old = [&MAGIC[..], &VERSION_WITHOUT_DOUBTS.to_le_bytes()].concat();
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&old), fields);
        old.extend_from_slice(&checksum.to_le_bytes());
        old.extend_from_slice(fields);
        assert_eq!(Cursor::decode(&old), Ok(before));
        old[8] = 3;
        assert!(Cursor::decode(&old).is_err());
    }

    #[test]
    fn a_cursor_comes_back_and_a_changed_one_does_not() {
        let (cursor, disk) = (cursor(), SimulatedDisk::new(1));
        let path = Path::new("d/dc1.cursor");
        disk.create_dir_all(Path::new("d")).unwrap();
        assert_eq!(Cursor::read(&disk, path).unwrap(), None);
        cursor.write(&disk, path).unwrap();
        assert_eq!(Cursor::read(&disk, path).unwrap(), Some(cursor.clone()));
        disk.flip_bit(path, 400);
        assert!(matches!(Cursor::read(&disk, path), Err(Error::Cursor { .. })));
        let bytes = cursor.encode();
        for at in 0..bytes.len() {
            assert!(Cursor::decode(&bytes[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(Cursor::decode(&changed).is_err(), "bit {bit} of {at}");
            }
        }
    }

    /// A destination was away over so many restarts that the file of its gaps became larger than what is read, and no
    /// start took it. Now the oldest gaps are recorded without their series before that, and one gap too many is not
    /// written.
    #[test]
    fn what_is_not_read_again_is_not_written() {
        let (disk, path) = (SimulatedDisk::new(1), Path::new("d/dc1.cursor"));
        disk.create_dir_all(Path::new("d")).unwrap();
        let series = |at| {
            let series = format!("{at}{}", "x".repeat(1000));
            crate::SeriesGap { series, samples: 1, from: WallMs(1), to: WallMs(2) }
        };
        let unread = || Gap::unread(GapReason::SpoolAge, WallMs(5), 4);
        let gap = Gap { samples: 500, series: (0..500).map(series).collect(), ..unread() };
        let mut large = cursor();
        large.gaps.extend((0..150).map(|number| queued(3 + number, WallMs(9), gap.clone())));
        assert!(large.encode().len() as u64 > FILE_BYTES_MAX);
        large.write(&disk, path).unwrap();
        assert!(disk.length(path).unwrap() <= FILE_BYTES_MAX);
        let read = Cursor::read(&disk, path).unwrap().unwrap();
        let samples = |cursor: &Cursor| cursor.gaps.iter().map(|queued| queued.gap.samples).sum::<u64>();
        let reported = |gap: &Gap| gap.others + gap.series.len() as u64;
        assert_eq!((read.gaps.len(), samples(&read)), (151, samples(&large)));
        assert!(read.gaps.iter().skip(1).all(|queued| reported(&queued.gap) == 500));
        assert_eq!((read.gaps[1].gap.series.len(), read.gaps[150].gap.series.len()), (0, 500));
        let mut many = cursor();
        while many.gaps.len() < GAPS_READ_MAX {
            many.gaps.push_back(queued(many.gaps.len() as u64, WallMs(9), unread()));
        }
        many.write(&disk, path).unwrap();
        assert_eq!(Cursor::read(&disk, path).unwrap().as_ref(), Some(&many));
        many.gaps.push_back(queued(9_999, WallMs(9), unread()));
        assert!(matches!(many.write(&disk, path), Err(Error::Cursor { .. })));
        assert!(Cursor::read(&disk, path).unwrap().is_some_and(|read| read.gaps.len() == GAPS_READ_MAX));
    }

    proptest! {
        /// Fields that no broker wrote, under a good checksum: read or refused, without a panic.
        #[test]
        fn any_fields_are_read_or_refused(at: prop::sample::Index, bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut changed = cursor().encode();
            let at = HEADER_BYTES + at.index(changed.len() - HEADER_BYTES);
            for (have, byte) in changed[at..].iter_mut().zip(bytes) {
                *have = byte;
            }
            let changed = Cursor::sealed(&changed[HEADER_BYTES..]);
            if let Ok(cursor) = Cursor::decode(&changed) {
                prop_assert_eq!(Cursor::decode(&cursor.encode()), Ok(cursor));
            }
        }
    }
}
