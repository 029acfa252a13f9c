//! The journal's bytes: the header of a segment and the frame of a record. `docs/formats/journal.md` draws them.
//!
//! Format: little-endian; records begin at multiples of 8 and are padded with zeros that their checksum covers. Each
//! segment has a mark, an unpredictable number, at the start of its records: bytes inside a record's payload cannot
//! pass for a record when the reader resynchronises after a bad one.

use crate::Error;

/// 64 MiB: a few seconds of a million samples a second; small enough to drop whole, large enough to be few.
pub const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// 64 MiB: four times the largest batch that is taken over HTTP; the most that reading holds in memory.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

pub(crate) const SEGMENT_HEADER_BYTES: usize = 64;
pub(crate) const RECORD_HEADER_BYTES: usize = 32;
const _: () = assert!(SEGMENT_HEADER_BYTES.is_multiple_of(ALIGNMENT) && RECORD_HEADER_BYTES.is_multiple_of(ALIGNMENT));
// Mark, length, sequence, durable, checksum of these, checksum of the whole frame.
const _: () = assert!(4 + 4 + 8 + 8 + 4 + 4 == RECORD_HEADER_BYTES);
// A length has four bytes.
const _: () = assert!(RECORD_BYTES_MAX <= u32::MAX as usize);
/// Records begin at its multiples.
pub(crate) const ALIGNMENT: usize = 8;

/// 2^62: a million records a second for 146,000 years, and far from where adding one overflows.
pub(crate) const SEQUENCE_MAX: u64 = 1 << 62;
const MAGIC: [u8; 8] = *b"ogivejnl";
const VERSION: u32 = 1;

/// What a segment's first bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) mark: u32,
    /// Rises by one from segment to segment; the file's name.
    pub(crate) number: u64,
    /// Sequence of its first record. Records from it on in earlier segments are void.
    pub(crate) first: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.mark.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// `None` when a byte of it is wrong.
    pub(crate) fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Option<Self> {
        let good =
            bytes[0..8] == MAGIC && u32_at(bytes, 8) == VERSION && u32_at(bytes, 60) == crc32c::crc32c(&bytes[..60]);
        let header = Self { mark: u32_at(bytes, 12), number: u64_at(bytes, 16), first: u64_at(bytes, 24) };
        // Behind the last record of all there is a segment without one.
        (good && header.first <= SEQUENCE_MAX + 1).then_some(header)
    }
}

/// `durable` of a record that stands for one that was lost before anybody knew it to be durable. A reader of before
/// takes it for bad bytes, which says the same.
const VOID: u64 = u64::MAX;

/// What stands before a record's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) length: u32,
    pub(crate) sequence: u64,
    /// When this record was written, every record before this sequence was known to be durable.
    pub(crate) durable: u64,
}

impl RecordHeader {
    /// Appends the whole frame of `payload` to `out`.
    pub(crate) fn frame(sequence: u64, durable: u64, mark: u32, payload: &[u8], out: &mut Vec<u8>) {
        assert!(payload.len() <= RECORD_BYTES_MAX, "the reader refuses a record of {} bytes", payload.len());
        assert!(durable <= sequence || durable == VOID, "record {sequence} cannot say that {durable} is durable");
        let length = u32::try_from(payload.len()).expect("the record limit is below 4 GiB");
        let start = out.len();
        out.extend_from_slice(&mark.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&sequence.to_le_bytes());
        out.extend_from_slice(&durable.to_le_bytes());
        let header_checksum = crc32c::crc32c(&out[start..]);
        out.extend_from_slice(&header_checksum.to_le_bytes());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&out[start..]), payload);
        let padding = &[0; ALIGNMENT][..frame_bytes(payload.len()) - RECORD_HEADER_BYTES - payload.len()];
        out.extend_from_slice(&crc32c::crc32c_append(checksum, padding).to_le_bytes());
        out.extend_from_slice(payload);
        out.extend_from_slice(padding);
        assert_eq!(
            out.len() - start,
            frame_bytes(payload.len()),
            "the next record begins at a multiple of {ALIGNMENT}"
        );
    }

    /// Appends the frame that stands for the lost record `sequence` to `out`.
    pub(crate) fn void_frame(sequence: u64, mark: u32, out: &mut Vec<u8>) {
        Self::frame(sequence, VOID, mark, &[], out);
    }

    /// Whether it stands for a lost record.
    pub(crate) const fn is_void(self) -> bool {
        self.durable == VOID
    }

    /// `None` when the bytes are not a record's header of this mark.
    pub(crate) fn decode(bytes: &[u8; RECORD_HEADER_BYTES], mark: u32) -> Option<Self> {
        if u32_at(bytes, 0) != mark || u32_at(bytes, 24) != crc32c::crc32c(&bytes[..24]) {
            return None;
        }
        let header = Self { length: u32_at(bytes, 4), sequence: u64_at(bytes, 8), durable: u64_at(bytes, 16) };
        let in_range = header.length as usize <= RECORD_BYTES_MAX && header.sequence <= SEQUENCE_MAX;
        let is_void = header.is_void() && header.length == 0;
        (in_range && (header.durable <= header.sequence || is_void)).then_some(header)
    }

    pub(crate) fn frame_bytes(self) -> usize {
        frame_bytes(self.length as usize)
    }
}

/// Whether the checksum of a whole frame fits its bytes.
pub(crate) fn frame_is_good(frame: &[u8]) -> bool {
    assert!(frame.len().is_multiple_of(ALIGNMENT), "a whole frame has no {} bytes", frame.len());
    u32_at(frame, 28) == frame_checksum(frame)
}

fn frame_checksum(frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&frame[..28]), &frame[RECORD_HEADER_BYTES..])
}

/// Gives a whole frame the mark and both checksums that fit it.
pub(crate) fn seal_record(frame: &mut [u8], mark: u32) {
    assert!(frame.len() >= RECORD_HEADER_BYTES, "a frame of {} bytes has no header", frame.len());
    frame[..4].copy_from_slice(&mark.to_le_bytes());
    let header = crc32c::crc32c(&frame[..24]);
    frame[24..28].copy_from_slice(&header.to_le_bytes());
    let whole = frame_checksum(frame);
    frame[28..32].copy_from_slice(&whole.to_le_bytes());
}

/// Bytes that a payload takes with its header and padding.
pub(crate) const fn frame_bytes(payload: usize) -> usize {
    (RECORD_HEADER_BYTES + payload).next_multiple_of(ALIGNMENT)
}

/// Refuses a payload above [`RECORD_BYTES_MAX`].
pub(crate) fn check_length(payload: usize) -> Result<(), Error> {
    if payload > RECORD_BYTES_MAX {
        return Err(Error::RecordTooLarge { found: payload, limit: RECORD_BYTES_MAX });
    }
    Ok(())
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
