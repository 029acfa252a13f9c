//! The spool's records: a frame and its time of arrival.
//!
//! Format: docs/formats/spool.md. A header of 16 bytes precedes the frame: version, seven zeros, and the arrival in
//! wall-clock milliseconds.

use ogive_model::WallMs;

/// Bytes before the frame.
pub(crate) const HEADER_BYTES: usize = 16;
const VERSION: u8 = 1;

pub(crate) fn encode(arrival: WallMs, frame: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + frame.len());
    out.extend_from_slice(&[VERSION, 0, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(&arrival.0.to_le_bytes());
    assert_eq!(out.len(), HEADER_BYTES, "the reader expects the frame there");
    out.extend_from_slice(frame);
    out
}

/// `None` for a record that this version did not write.
pub(crate) fn decode(record: &[u8]) -> Option<(WallMs, &[u8])> {
    let (head, frame) = record.split_first_chunk::<HEADER_BYTES>()?;
    let arrival = WallMs(i64::from_le_bytes(head[8..].try_into().expect("eight bytes")));
    (head[0] == VERSION && head[1..8] == [0; 7]).then_some((arrival, frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_others_do_not() {
        let record = encode(WallMs(-5), b"frame");
        assert_eq!(decode(&record), Some((WallMs(-5), &b"frame"[..])));
        for (at, byte) in [(0, 2), (1, 2), (2, 1), (7, 1)] {
            let mut changed = record.clone();
            changed[at] = byte;
            assert_eq!(decode(&changed), None, "{at}");
        }
        assert_eq!(decode(&record[..HEADER_BYTES - 1]), None);
        assert_eq!(decode(&record[..HEADER_BYTES]), Some((WallMs(-5), &b""[..])));
    }
}
