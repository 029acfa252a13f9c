//! Small blocks by their description; those of Prometheus itself are read in the tests of the binary.

use crate::fuzz::{block, floats, index, read, sealed_tombstones, segment, series, symbols};
use crate::mutations::mutations;

fn small() -> (Vec<u8>, Vec<u8>) {
    let symbols = symbols(&["", "__name__", "a", "b"]);
    (index(&symbols, &[&series(2, 8), &series(3, 8)]), segment(&[&floats()]))
}

#[test]
fn a_small_block_is_read() {
    let (index, segment) = small();
    let (samples, bad, end) = read(&index, &segment, None);
    assert!(samples == 6 && bad == 0 && end.is_ok(), "{samples} {bad} {end:?}");
}

#[test]
fn tombstones_cover_times_of_their_series_alone() {
    let (index, segment) = small();
    // The second series stands at byte 48; 15 to 30 s, signed.
    let mut entries = vec![3];
    for time in [15_000_u64, 30_000] {
        let mut value = time << 1;
        while value >= 0x80 {
            entries.push(value as u8 | 0x80);
            value >>= 7;
        }
        entries.push(value as u8);
    }
    let at = |reference: u8| {
        let mut entries = entries.clone();
        entries[0] = reference;
        read(&index, &segment, Some(&sealed_tombstones(&entries))).0
    };
    let places: Vec<u64> = (0..8).map(at).collect();
    assert_eq!(places.iter().filter(|samples| **samples == 4).count(), 2, "{places:?}");
    assert_eq!(places.iter().filter(|samples| **samples == 6).count(), 6, "{places:?}");
}

#[test]
fn every_flipped_bit_is_found() {
    let (index, segment) = small();
    let whole = read(&index, &segment, None).0;
    for (number, good) in [&index, &segment].into_iter().enumerate() {
        for bit in 0..good.len() * 8 {
            let mut files = [index.clone(), segment.clone()];
            files[number][bit / 8] ^= 1 << (bit % 8);
            let (samples, bad, end) = read(&files[0], &files[1], None);
            // Zeros between sections, the rest of a segment's header and places of sections that are not read mean
            // nothing.
            let is_same = samples == whole && bad == 0 && end.is_ok();
            assert!(is_same || bad > 0 || end.is_err(), "bit {bit} of file {number}: {samples} samples");
        }
    }
    let symbols = symbols(&["", "__name__", "a"]);
    let wrong = super::super::fuzz::index(&symbols, &[&series(9, 8)]);
    assert_eq!(read(&wrong, &segment, None).1, 1, "a symbol that is not there");
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused_or_counted() {
    let (index, segment) = small();
    for cut in 0..index.len() {
        assert!(read(&index[..cut], &segment, None).2.is_err(), "{cut}");
    }
    for cut in 0..segment.len() {
        let (samples, bad, end) = read(&index, &segment[..cut], None);
        assert!(samples == 0 && bad == 2 && end.is_ok(), "{cut}: {samples} {bad} {end:?}");
    }
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    let (index, segment) = small();
    for good in [
        &index[..],
        &segment,
        &symbols(&["a", "b"]),
        &series(2, 8),
        &floats(),
        br#"{"minTime":1,"maxTime":2,"version":1}"#,
    ] {
        mutations(good, 3_000, 5, &[], block);
    }
}
