//! Segments with valid checksums around arbitrary content, for fuzzing: the code behind a checksum must cope with any
//! bytes, too.

use crate::format::{
    RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, frame_bytes, seal_record, u32_at, u64_at,
};

/// `bytes` as the segment `number`: header and records get its mark and checksums that fit, and keep what else they
/// say. Where a record says that it is longer than what is left, the rest stays as it is. For fuzzing.
#[must_use]
pub fn sealed(bytes: &[u8], number: u64) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out.resize(out.len().max(SEGMENT_HEADER_BYTES), 0);
    let (mark, first) = (u32_at(&out, 12), u64_at(&out, 24));
    out[..SEGMENT_HEADER_BYTES].copy_from_slice(&SegmentHeader { mark, number, first }.encode());
    let mut rest = &mut out[SEGMENT_HEADER_BYTES..];
    while rest.len() >= RECORD_HEADER_BYTES {
        let length = frame_bytes(u32_at(rest, 4) as usize);
        let Some((record, behind)) = rest.split_at_mut_checked(length) else { break };
        seal_record(record, mark);
        rest = behind;
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::format::RecordHeader;
    use crate::{Disk, Error, Journal, Options, Position, SimulatedDisk};

    /// What the segment's records hold, when a journal opens with it; and that it takes a record then.
    fn replayed(segment: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let (disk, directory) = (Arc::new(SimulatedDisk::new(1)), Path::new("/journal"));
        disk.create_dir_all(directory).unwrap();
        disk.put(&directory.join("0000000000000007.journal"), segment.to_vec());
        let (mut journal, _) = Journal::open(disk, directory, Options::default())?;
        journal.append(b"after").unwrap();
        journal.sync().unwrap();
        let mut records = Vec::new();
        journal.replay::<Error>(Position(0), |_, record| {
            records.push(record.to_vec());
            Ok(())
        })?;
        assert_eq!(records.pop().as_deref(), Some(&b"after"[..]));
        Ok(records)
    }

    fn good() -> Vec<u8> {
        let mut out = SegmentHeader { mark: 0x1d2c_3b4a, number: 7, first: 41 }.encode().to_vec();
        for (sequence, payload) in [(41, &b"ogive"[..]), (42, b"journals"), (43, b"")] {
            RecordHeader::frame(sequence, sequence, 0x1d2c_3b4a, payload, &mut out);
        }
        out
    }

    #[test]
    fn what_is_good_stays_and_what_was_changed_fits_again() {
        let good = good();
        assert_eq!(sealed(&good, 7), good);
        assert_eq!(replayed(&good).unwrap(), [&b"ogive"[..], b"journals", b""]);
        let mut changed = good.clone();
        changed[SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES] = b'O';
        assert_eq!(replayed(&changed).unwrap(), [&b"journals"[..], b""], "its checksum does not fit");
        assert_eq!(replayed(&sealed(&changed, 7)).unwrap(), [&b"Ogive"[..], b"journals", b""]);
    }

    /// Lengths, sequences and what was durable are anything, behind checksums that say that they are right.
    #[test]
    fn damage_behind_right_checksums_is_read_or_refused() {
        let mut read = 0;
        crate::mutations::mutations(&good(), 4_000, 5, &[], |changed| {
            read += u32::from(replayed(&sealed(changed, 7)).is_ok_and(|records| !records.is_empty()));
        });
        assert!(read > 1_000, "{read} of 4,000 had a record to read");
    }
}
