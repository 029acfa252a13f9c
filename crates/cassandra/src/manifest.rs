//! Manifests: the rows that a node has written, so that an audit can count them on each replica.
//!
//! Format: docs/formats/cassandra.md.
//! Invariants: a row is in a manifest before its batches leave the spool. If a node writes a group again after a crash,
//! its manifest may list the rows in another grouping; both manifests exist.
//! Limits: [`ROWS_MAX`] rows per manifest, checked before they are decompressed.
//! Failure: bytes that are not what was written for this minute and writer are [`Error::Corrupt`].

use ogive_model::{SeriesId, SourceId};
use twox_hash::XxHash3_64;

use crate::Error;
use crate::fragment::RowKey;
use crate::keys::ManifestKey;
use crate::schema::Table;

const VERSION: u8 = 1;
/// Version, three bytes of nothing, number of rows, checksum.
const HEADER_BYTES: usize = 12;
/// Series, source, sequence, digest, minute.
const ROW_BYTES: usize = 16 + 16 + 8 + 8 + 4;
/// 4,096 rows of 52 bytes: 208 KiB, far below what a row may have.
const ROWS_MAX: usize = 4_096;
/// Level 1: half of it are digests, which do not compress.
const LEVEL: i32 = 1;

/// A row by its whole key.
pub(crate) type Listed = (RowKey, i64);

/// A manifest to be written.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) digest: i64,
    pub(crate) body: Vec<u8>,
}

/// The manifests of rows of a table that `writer` wrote in a minute.
pub(crate) fn manifests(key: ManifestKey, table: Table, mut rows: Vec<Listed>) -> Result<Vec<Manifest>, Error> {
    rows.sort_unstable();
    rows.dedup();
    rows.chunks(ROWS_MAX).map(|rows| encode(key, table, rows)).collect()
}

fn encode(key: ManifestKey, table: Table, rows: &[Listed]) -> Result<Manifest, Error> {
    assert!((1..=ROWS_MAX).contains(&rows.len()), "{} rows", rows.len());
    let mut plain = Vec::with_capacity(rows.len() * ROW_BYTES);
    for (row, digest) in rows {
        plain.extend_from_slice(&row.series.0.to_be_bytes());
        plain.extend_from_slice(&row.source.0.to_be_bytes());
        plain.extend_from_slice(&row.sequence.to_le_bytes());
        plain.extend_from_slice(&digest.to_le_bytes());
        plain.extend_from_slice(&row.minute.to_le_bytes());
    }
    let compressed = zstd::bulk::compress(&plain, LEVEL).map_err(|error| Error::Local(error.to_string()))?;
    let mut body = vec![VERSION, table.code(), 0, 0];
    body.extend_from_slice(&(rows.len() as u32).to_le_bytes());
    body.extend_from_slice(&[0; 4]);
    body.extend_from_slice(&compressed);
    let checksum = checksum(key, &body);
    body[8..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    let digest = XxHash3_64::oneshot_with_seed(u64::from(table.code()), &plain) as i64;
    Ok(Manifest { digest, body })
}

/// The rows that a manifest names, and whose table they are in.
pub(crate) fn decode(key: ManifestKey, body: &[u8]) -> Result<(Table, Vec<Listed>), Error> {
    let corrupt = |what: &str| Error::Corrupt(format!("a manifest: {what}"));
    let header = body.first_chunk::<HEADER_BYTES>().ok_or_else(|| corrupt("it is shorter than its header"))?;
    let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    if header[0] != VERSION {
        return Err(corrupt(&format!("version {} is not one that is read here", header[0])));
    }
    if number(8) != checksum(key, body) {
        return Err(corrupt("its checksum is not that of its bytes and its key"));
    }
    let table = Table::raw_from_code(header[1]).ok_or_else(|| corrupt("its rows are in no table that is known"))?;
    let count = number(4) as usize;
    if !(1..=ROWS_MAX).contains(&count) {
        return Err(corrupt(&format!("{count} rows are not what one may name")));
    }
    let plain = zstd::bulk::decompress(&body[HEADER_BYTES..], count * ROW_BYTES);
    let plain = plain.map_err(|error| corrupt(&error.to_string()))?;
    if plain.len() != count * ROW_BYTES {
        return Err(corrupt("it does not hold the rows that it counts"));
    }
    Ok((table, plain.chunks_exact(ROW_BYTES).map(listed).collect()))
}

fn listed(bytes: &[u8]) -> Listed {
    let id = |at: usize| u128::from_be_bytes(bytes[at..at + 16].try_into().expect("sixteen bytes"));
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let minute = i32::from_le_bytes(bytes[48..ROW_BYTES].try_into().expect("four bytes"));
    (RowKey { series: SeriesId(id(0)), minute, source: SourceId(id(16)), sequence: number(32) }, number(40) as i64)
}

/// CRC32C of the key and everything of the body but the checksum itself.
fn checksum(ManifestKey { minute, writer }: ManifestKey, body: &[u8]) -> u32 {
    let sum = crc32c::crc32c_append(crc32c::crc32c(&minute.to_le_bytes()), &writer.to_be_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(sum, &body[..8]), &body[HEADER_BYTES..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: ManifestKey = ManifestKey { minute: 3, writer: 4 };

    /// Changed bytes whose checksum fits all the same, so that what stands behind it is reached.
    #[test]
    fn sealed_nonsense_is_rows_or_an_error() {
        let body = manifests(KEY, Table::Logs, rows(20)).unwrap().remove(0).body;
        let mut read = 0;
        crate::mutations::mutations(&body, 20_000, 5, &[], |changed| {
            let mut changed = changed.to_vec();
            if changed.len() >= HEADER_BYTES {
                let checksum = checksum(KEY, &changed);
                changed[8..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
            }
            if let Ok((_, rows)) = decode(KEY, &changed) {
                assert!((1..=ROWS_MAX).contains(&rows.len()));
                read += 1;
            }
        });
        assert!(read > 0, "some reach the rows");
    }

    fn rows(count: u64) -> Vec<Listed> {
        let key = |at: u64| RowKey {
            series: SeriesId(u128::from(at) << 70),
            minute: -(at as i32),
            source: SourceId(7),
            sequence: at,
        };
        (0..count).map(|at| (key(at), at as i64 - 5)).collect()
    }

    #[test]
    fn rows_come_back_in_as_many_manifests_as_they_need() {
        for (count, manifests_expected) in [(1, 1), (ROWS_MAX as u64, 1), (ROWS_MAX as u64 + 1, 2)] {
            let mut all = rows(count);
            all.extend(rows(count));
            let written = manifests(KEY, Table::Logs, all).unwrap();
            assert_eq!(written.len(), manifests_expected);
            let mut read: Vec<Listed> = written.iter().flat_map(|one| decode(KEY, &one.body).unwrap().1).collect();
            let mut expected = rows(count);
            expected.sort_unstable();
            read.sort_unstable();
            assert_eq!(read, expected);
        }
        assert!(manifests(KEY, Table::Logs, Vec::new()).unwrap().is_empty());
    }

    #[test]
    fn a_changed_byte_and_another_key_are_corrupt() {
        let body = manifests(KEY, Table::Logs, rows(20)).unwrap().remove(0).body;
        let bad = |key, body: &[u8]| assert!(matches!(decode(key, body), Err(Error::Corrupt(_))));
        for at in 0..body.len() {
            for bit in 0..8 {
                let mut body = body.clone();
                body[at] ^= 1 << bit;
                bad(KEY, &body);
            }
            bad(KEY, &body[..at]);
        }
        bad(ManifestKey { minute: 4, ..KEY }, &body);
        bad(ManifestKey { writer: 5, ..KEY }, &body);
    }
}
