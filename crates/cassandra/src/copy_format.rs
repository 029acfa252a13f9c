//! A copy of a cluster in a file: its records.
//!
//! Format: docs/formats/cassandra.md, "A copy of a cluster".
//! Limits: [`PAYLOAD_BYTES_MAX`] a record, checked before anything is allocated.
//! Failure: bytes that are not what was written are [`Error::Corrupt`]; a file without its last record too.

use ogive_model::{SeriesId, SourceId};
use twox_hash::XxHash3_64;

use crate::Error;
use crate::fragment::RowKey;
use crate::rollup::Place;
use crate::schema::Table;

/// What a file begins with.
pub(crate) const MAGIC: &[u8; 12] = b"OGIVE-COPY1\n";
/// Kind and length before each payload.
pub(crate) const HEAD_BYTES: usize = 5;
/// 16 MiB, above every row.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 16 << 20;

/// One of a copy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// Samples as they came.
    Row { table: Table, key: RowKey, digest: i64, at_us: i64, body: Vec<u8> },
    /// Cells of an hour.
    Rollup { place: Place, body: Vec<u8> },
    /// A segment of the label index.
    Segment { day: i32, shard: i16, writer: u128, digest: i64, body: Vec<u8> },
    /// What was deleted.
    Deletion { at_us: i64, digest: i64, body: Vec<u8> },
    /// The last one: what there is before it.
    End(Contents),
}

/// What a copy holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Rows of samples as they came.
    pub rows: u64,
    /// Rollups: an hour of a series in one resolution each.
    pub rollups: u64,
    /// Segments of the label index.
    pub segments: u64,
    /// Deletions.
    pub deletions: u64,
    /// Sum of the 64-bit digests of all of them: the same for the same contents in any order.
    pub digest: u64,
}

impl Contents {
    pub(crate) fn add(&mut self, record: &Record) {
        *match record {
            Record::Row { .. } => &mut self.rows,
            Record::Rollup { .. } => &mut self.rollups,
            Record::Segment { .. } => &mut self.segments,
            Record::Deletion { .. } => &mut self.deletions,
            Record::End(_) => return,
        } += 1;
        let (kind, payload) = record.payload();
        self.digest = self.digest.wrapping_add(XxHash3_64::oneshot_with_seed(kind.into(), &payload));
    }
}

impl Record {
    fn payload(&self) -> (u8, Vec<u8>) {
        let mut out = Vec::new();
        let kind = match self {
            Self::Row { table, key, digest, at_us, body } => {
                out.push(table.code());
                out.extend_from_slice(&key.series.0.to_be_bytes());
                out.extend_from_slice(&key.minute.to_le_bytes());
                out.extend_from_slice(&key.source.0.to_be_bytes());
                out.extend_from_slice(&key.sequence.to_le_bytes());
                out.extend_from_slice(&digest.to_le_bytes());
                out.extend_from_slice(&at_us.to_le_bytes());
                out.extend_from_slice(body);
                1
            }
            Self::Rollup { place, body } => {
                out.push(place.table.code());
                out.extend_from_slice(&place.series.0.to_be_bytes());
                out.extend_from_slice(&place.hour.to_le_bytes());
                out.extend_from_slice(body);
                2
            }
            Self::Segment { day, shard, writer, digest, body } => {
                out.extend_from_slice(&day.to_le_bytes());
                out.extend_from_slice(&shard.to_le_bytes());
                out.extend_from_slice(&writer.to_be_bytes());
                out.extend_from_slice(&digest.to_le_bytes());
                out.extend_from_slice(body);
                3
            }
            Self::Deletion { at_us, digest, body } => {
                out.extend_from_slice(&at_us.to_le_bytes());
                out.extend_from_slice(&digest.to_le_bytes());
                out.extend_from_slice(body);
                4
            }
            Self::End(Contents { rows, rollups, segments, deletions, digest }) => {
                [rows, rollups, segments, deletions, digest]
                    .into_iter()
                    .for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
                255
            }
        };
        (kind, out)
    }

    /// # Errors
    /// [`Error::Local`] for more than a reader takes.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, Error> {
        let (kind, payload) = self.payload();
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(Error::Local(format!("a row of {} bytes is more than a copy takes", payload.len())));
        }
        let mut out = Vec::with_capacity(HEAD_BYTES + payload.len() + 4);
        out.push(kind);
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        out.extend_from_slice(&payload);
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        Ok(out)
    }

    /// How many bytes follow the head of a record: payload and checksum.
    pub(crate) fn rest(head: [u8; HEAD_BYTES]) -> Result<usize, Error> {
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length > PAYLOAD_BYTES_MAX {
            return Err(corrupt(&format!("a record of {length} bytes")));
        }
        Ok(length + 4)
    }

    /// A record, of its head and what follows it.
    pub(crate) fn decode(head: [u8; HEAD_BYTES], rest: &[u8]) -> Result<Self, Error> {
        let (payload, checksum) = rest.split_last_chunk::<4>().ok_or_else(|| corrupt("a record is cut"))?;
        let sum = crc32c::crc32c_append(crc32c::crc32c(&head), payload);
        if Self::rest(head)? != rest.len() || u32::from_le_bytes(*checksum) != sum {
            return Err(corrupt("the checksum of a record is not that of its bytes"));
        }
        let mut fields = Fields(payload);
        match head[0] {
            1 => {
                let table = Table::raw_from_code(fields.take::<1>()?[0]).ok_or_else(|| corrupt("a row of no table"))?;
                let series = SeriesId(u128::from_be_bytes(fields.take()?));
                let minute = i32::from_le_bytes(fields.take()?);
                let source = SourceId(u128::from_be_bytes(fields.take()?));
                let sequence = u64::from_le_bytes(fields.take()?);
                let (digest, at_us) = (i64::from_le_bytes(fields.take()?), i64::from_le_bytes(fields.take()?));
                let key = RowKey { series, minute, source, sequence };
                Ok(Self::Row { table, key, digest, at_us, body: fields.0.to_vec() })
            }
            2 => {
                let code = fields.take::<1>()?[0];
                let table = Table::ROLLED.into_iter().find(|table| table.code() == code);
                let table = table.ok_or_else(|| corrupt("a rollup of no table"))?;
                let series = SeriesId(u128::from_be_bytes(fields.take()?));
                let hour = i32::from_le_bytes(fields.take()?);
                Ok(Self::Rollup { place: Place { series, table, hour }, body: fields.0.to_vec() })
            }
            3 => {
                let (day, shard) = (i32::from_le_bytes(fields.take()?), i16::from_le_bytes(fields.take()?));
                let writer = u128::from_be_bytes(fields.take()?);
                let digest = i64::from_le_bytes(fields.take()?);
                Ok(Self::Segment { day, shard, writer, digest, body: fields.0.to_vec() })
            }
            4 => {
                let (at_us, digest) = (i64::from_le_bytes(fields.take()?), i64::from_le_bytes(fields.take()?));
                Ok(Self::Deletion { at_us, digest, body: fields.0.to_vec() })
            }
            255 => {
                let mut next = || Ok::<u64, Error>(u64::from_le_bytes(fields.take()?));
                let (rows, rollups, segments, deletions, digest) = (next()?, next()?, next()?, next()?, next()?);
                if !fields.0.is_empty() {
                    return Err(corrupt("its last record is longer than it may be"));
                }
                Ok(Self::End(Contents { rows, rollups, segments, deletions, digest }))
            }
            other => Err(corrupt(&format!("a record of kind {other}"))),
        }
    }
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or_else(|| corrupt("a record is cut"))?;
        self.0 = rest;
        Ok(*field)
    }
}

fn corrupt(what: &str) -> Error {
    Error::Corrupt(format!("the copy of a cluster: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<Record> {
        let key = RowKey { series: SeriesId(1 << 100), minute: -5, source: SourceId(7), sequence: 8 };
        let place = Place { series: SeriesId(3), table: Table::Hours, hour: 9 };
        let mut contents = Contents::default();
        let mut all = vec![
            Record::Deletion { at_us: 1, digest: 2, body: vec![3; 10] },
            Record::Row { table: Table::Logs, key, digest: -1, at_us: 4, body: vec![5; 100] },
            Record::Rollup { place, body: vec![6; 20] },
            Record::Segment { day: 1, shard: 15, writer: 9, digest: 10, body: Vec::new() },
        ];
        all.iter().for_each(|record| contents.add(record));
        all.push(Record::End(contents));
        all
    }

    fn decode(bytes: &[u8]) -> Result<Record, Error> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or_else(|| corrupt("cut"))?;
        Record::decode(*head, rest)
    }

    #[test]
    fn records_come_back_and_changed_ones_do_not() {
        for record in records() {
            let bytes = record.encode().unwrap();
            assert_eq!(decode(&bytes).unwrap(), record);
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 0x20;
                assert!(decode(&changed).is_err() && decode(&bytes[..at]).is_err(), "{record:?} at {at}");
            }
        }
        let Some(Record::End(contents)) = records().pop() else { panic!("the last one") };
        assert_eq!((contents.rows, contents.rollups, contents.segments, contents.deletions), (1, 1, 1, 1));
    }

    /// Bytes whose checksum fits all the same.
    #[test]
    fn sealed_nonsense_is_a_record_or_an_error() {
        let mut state = 11_u64;
        let mut read = 0;
        for length in 0..20_000_usize {
            let next = |state: &mut u64| {
                *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (*state >> 56) as u8
            };
            let mut bytes = vec![length as u8 % 6];
            let payload: Vec<u8> = (0..length % 97).map(|_| next(&mut state) % 4).collect();
            bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&payload);
            bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
            read += u64::from(decode(&bytes).is_ok());
        }
        assert!(read > 0, "some are records");
    }
}
