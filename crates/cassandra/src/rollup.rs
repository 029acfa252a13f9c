//! A rollup's row: the cells of an hour of a series, and how many rows they were made of.
//!
//! Format: docs/formats/cassandra.md.
//! Invariants: rows of samples are only added, so a rollup holds everything of its hour exactly while as many rows are
//! there as it was made of. An hour `h` are the times after it begins until it ends, its end included; rows of the
//! minutes `60 h` to `60 h + 60` may have samples in it.
//! Failure: bytes that are not what was written for this series, hour and width are [`Error::Corrupt`].

use ogive_model::{Ms, SeriesData, SeriesDef, SeriesId, Temporality, TimeRange};
use ogive_store::rolled;

use crate::Error;
use crate::columns::empty;
use crate::schema::Table;

const VERSION: u8 = 1;
/// Version, temporality, number of chunks, checksum, rows, made.
const HEADER_BYTES: usize = 20;
/// 64 chunks: an hour has 60 cells of a minute, and a chunk holds one at least.
const CHUNKS_MAX: usize = 64;
/// 8 MiB, far above 60 cells.
const BODY_BYTES_MAX: usize = 8 << 20;

/// An hour.
pub(crate) const HOUR: Ms = Ms::from_secs(3_600);

/// Where a rollup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) series: SeriesId,
    pub(crate) table: Table,
    /// Hours since 1970.
    pub(crate) hour: i32,
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rollup {
    /// Rows that it was made of.
    pub(crate) rows: u32,
    /// When it was begun to be made, microseconds since 1970 by the cluster's clock.
    pub(crate) made_us: i64,
    pub(crate) temporality: Temporality,
    /// As encoded: two of the same samples are equal.
    chunks: Vec<Vec<u8>>,
}

impl Rollup {
    /// Of cells.
    pub(crate) fn new(data: &SeriesData, rows: u32, made_us: i64) -> Self {
        Self { rows, made_us, temporality: data.meta.temporality, chunks: rolled::encode(data) }
    }

    /// Whether it says the same about the same samples.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        self.temporality == other.temporality && self.chunks == other.chunks
    }

    /// The cells of a series.
    pub(crate) fn data(&self, def: &SeriesDef, width_ms: u32) -> Result<SeriesData, Error> {
        let mut data = empty(def);
        data.rollup_ms = width_ms;
        if self.temporality == Temporality::Delta {
            data.meta.width_ms = width_ms;
        }
        for chunk in &self.chunks {
            rolled::decode(chunk, &mut data).map_err(|what| corrupt(&what))?;
        }
        Ok(data)
    }

    /// # Errors
    /// [`Error::Local`] for more than a row takes: the samples answer then.
    pub(crate) fn encode(&self, place: &Place) -> Result<Vec<u8>, Error> {
        let bytes = self.chunks.iter().map(|chunk| chunk.len() + 4).sum::<usize>() + HEADER_BYTES;
        if self.chunks.len() > CHUNKS_MAX || bytes > BODY_BYTES_MAX {
            return Err(Error::Local(format!(
                "{} chunks of {bytes} bytes are no rollup of an hour",
                self.chunks.len()
            )));
        }
        let code = match self.temporality {
            Temporality::Gauge => 0,
            Temporality::Cumulative => 1,
            Temporality::Delta => 2,
        };
        let mut body = vec![VERSION, code];
        body.extend_from_slice(&(self.chunks.len() as u16).to_le_bytes());
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(&self.rows.to_le_bytes());
        body.extend_from_slice(&self.made_us.to_le_bytes());
        for chunk in &self.chunks {
            body.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
            body.extend_from_slice(chunk);
        }
        let checksum = checksum(place, &body);
        body[4..8].copy_from_slice(&checksum.to_le_bytes());
        Ok(body)
    }

    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn decode(place: &Place, body: &[u8]) -> Result<Self, Error> {
        let (header, mut rest) =
            body.split_first_chunk::<HEADER_BYTES>().ok_or_else(|| corrupt("it is shorter than its header"))?;
        if header[0] != VERSION || body.len() > BODY_BYTES_MAX {
            return Err(corrupt(&format!(
                "version {} of {} bytes is not one that is read here",
                header[0],
                body.len()
            )));
        }
        let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        if number(4) != checksum(place, body) {
            return Err(corrupt("its checksum is not that of its bytes and its key"));
        }
        let temporality = match header[1] {
            0 => Temporality::Gauge,
            1 => Temporality::Cumulative,
            2 => Temporality::Delta,
            other => return Err(corrupt(&format!("{other} is no temporality"))),
        };
        let count = usize::from(u16::from_le_bytes([header[2], header[3]]));
        if count > CHUNKS_MAX {
            return Err(corrupt(&format!("{count} chunks are more than an hour has")));
        }
        let mut chunks = Vec::with_capacity(count);
        for _ in 0..count {
            let (length, behind) = rest.split_first_chunk::<4>().ok_or_else(|| corrupt("a chunk is cut"))?;
            let length = u32::from_le_bytes(*length) as usize;
            let (chunk, behind) = behind.split_at_checked(length).ok_or_else(|| corrupt("a chunk is cut"))?;
            chunks.push(chunk.to_vec());
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(corrupt("bytes stand behind its last chunk"));
        }
        let made_us = i64::from_le_bytes(header[12..HEADER_BYTES].try_into().expect("eight bytes"));
        Ok(Self { rows: number(8), made_us, temporality, chunks })
    }
}

/// The times of an hour.
pub(crate) fn range_of(hour: i32) -> TimeRange {
    TimeRange::from_ms(i64::from(hour) * HOUR.0, (i64::from(hour) + 1) * HOUR.0)
}

/// The first and the last minute whose rows may have samples of an hour.
pub(crate) const fn minutes_of(hour: i32) -> (i32, i32) {
    (hour * 60, hour * 60 + 60)
}

/// The hours of which the rows of a minute may have samples.
pub(crate) fn hours_of(minute: i32) -> impl Iterator<Item = i32> {
    let hour = minute.div_euclid(60);
    let before = (minute.rem_euclid(60) == 0).then(|| hour - 1);
    before.into_iter().chain([hour])
}

fn checksum(place: &Place, body: &[u8]) -> u32 {
    let sum = crc32c::crc32c_append(crc32c::crc32c(&place.series.0.to_be_bytes()), &place.hour.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &place.table.width_ms().to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(sum, &body[..4]), &body[8..])
}

fn corrupt(what: &str) -> Error {
    Error::Corrupt(format!("a rollup: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ogive_model::{Kind, SeriesMeta};

    const PLACE: Place = Place { series: SeriesId(5), table: Table::Minutes, hour: 7 };

    fn def(temporality: Temporality) -> SeriesDef {
        let meta = SeriesMeta { kind: Kind::Float, temporality, unit: String::new(), width_ms: 1_000 };
        SeriesDef::new([("__name__", "m")], meta).unwrap()
    }

    fn rolled(temporality: Temporality) -> SeriesData {
        let mut data = empty(&def(temporality));
        for at in 1..=3_600_i64 {
            data.floats.times.push(7 * HOUR.0 + at * 1_000);
            data.floats.values.push((at % 100) as f64);
        }
        rolled::roll(data, 60_000).unwrap().0
    }

    #[test]
    fn cells_come_back_and_changed_ones_do_not() {
        for temporality in [Temporality::Gauge, Temporality::Cumulative, Temporality::Delta] {
            let data = rolled(temporality);
            assert_eq!(data.floats.times.len(), 60);
            let one = Rollup::new(&data, 360, 9);
            let body = one.encode(&PLACE).unwrap();
            let back = Rollup::decode(&PLACE, &body).unwrap();
            assert_eq!((&back, back.data(&def(temporality), 60_000).unwrap()), (&one, data));
            for wrong in [Place { hour: 8, ..PLACE }, Place { table: Table::Hours, ..PLACE }] {
                assert!(Rollup::decode(&wrong, &body).is_err());
            }
            for at in 0..body.len() {
                let mut changed = body.clone();
                changed[at] ^= 1;
                assert!(Rollup::decode(&PLACE, &changed).is_err() && Rollup::decode(&PLACE, &body[..at]).is_err());
            }
        }
    }

    /// Changed bytes whose checksum fits all the same, so that what stands behind it is reached.
    #[test]
    fn sealed_nonsense_is_cells_or_an_error() {
        let body = Rollup::new(&rolled(Temporality::Delta), 360, 9).encode(&PLACE).unwrap();
        let mut read = 0;
        crate::mutations::mutations(&body, 20_000, 8, &[], |changed| {
            let mut changed = changed.to_vec();
            if changed.len() >= HEADER_BYTES {
                let sum = checksum(&PLACE, &changed);
                changed[4..8].copy_from_slice(&sum.to_le_bytes());
            }
            if let Ok(one) = Rollup::decode(&PLACE, &changed) {
                let _ = one.data(&def(Temporality::Delta), 60_000);
                read += 1;
            }
        });
        assert!(read > 0, "some reach the chunks");
    }

    #[test]
    fn the_end_of_an_hour_is_in_it() {
        assert_eq!(hours_of(60).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(hours_of(61).collect::<Vec<_>>(), [1]);
        assert_eq!(hours_of(-1).collect::<Vec<_>>(), [-1]);
        assert_eq!(
            (minutes_of(1), range_of(1).contains_ms(2 * HOUR.0), range_of(1).contains_ms(HOUR.0)),
            ((60, 120), true, false)
        );
    }
}
