//! Blocks of Prometheus' storage (TSDB), as its data directory and its snapshots hold them.
//!
//! Format: `tsdb/docs/format` of github.com/prometheus/prometheus: an index of version 2, segments of chunks,
//! tombstones; read by their description.
//! Invariants: samples come in windows of [`WINDOW_MS`], and within one series by series, so that a store that keeps
//! time apart gets little of it at once. Every checksum is checked. What a tombstone covers is left out.
//! Limits: the symbols of the index ([`index::SYMBOLS_BYTES_MAX`]), a series' entry and a chunk
//! ([`segment::CHUNK_BYTES_MAX`]) are in memory, nothing else of the block.

pub mod index;
mod reader;
pub mod segment;
#[cfg(test)]
mod tests;
pub mod tombstones;

use ogive_hist::CounterReset;
use ogive_model::{Kind, METRIC_NAME, SeriesDef, SeriesMeta, Temporality, Value};
use ogive_protocol::remote_write::{Counts, meta_of_name};
use ogive_protocol::tsdb_chunk::{self, Point};
use serde::Deserialize;

use crate::{Batches, Error};
use index::{Entry, Index};
pub use reader::ReadAt;
use tombstones::Tombstones;

/// 2 hours: the window of Prometheus' smallest blocks, and of a store's.
pub const WINDOW_MS: i64 = 2 * 3_600_000;

/// What `meta.json` says that matters here.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// First millisecond.
    pub min_time: i64,
    /// Behind the last millisecond.
    pub max_time: i64,
    /// Version of the block.
    pub version: u32,
}

impl Meta {
    /// Reads `meta.json`.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn read(json: &[u8]) -> Result<Self, Error> {
        let meta: Self =
            serde_json::from_slice(json).map_err(|error| Error::Unreadable(format!("meta.json: {error}")))?;
        match meta {
            Self { version: 1, .. } => Ok(meta),
            Self { version, .. } => {
                Err(Error::Unreadable(format!("meta.json: version {version} of a block, and 1 is known")))
            }
        }
    }
}

/// A block's files.
pub struct Block<'f> {
    /// Of `meta.json`.
    pub meta: Meta,
    /// `index`.
    pub index: &'f dyn ReadAt,
    /// `chunks/000001` and so on.
    pub segments: Vec<&'f dyn ReadAt>,
    /// `tombstones`, where it is there.
    pub tombstones: Option<Vec<u8>>,
}

impl Block<'_> {
    /// Reads the block. The place of a sample is the number of its series; `progress` hears how much of the block is
    /// done, in thousandths.
    ///
    /// # Errors
    /// [`Error::Unreadable`] for an index that cannot be read, and [`Error::Stopped`].
    pub fn read(&self, out: &mut Batches<'_>, progress: &mut dyn FnMut(u64)) -> Result<(), Error> {
        let index = Index::open(self.index)?;
        let tombstones = self.tombstones.as_deref().map(Tombstones::read).transpose()?.unwrap_or_default();
        let Meta { min_time, max_time, .. } = self.meta;
        // A block that says more than a hundred years is read as one window.
        let span = i128::from(max_time) - i128::from(min_time);
        let is_sane = (0..i128::from(WINDOW_MS) * 12 * 365 * 100).contains(&span);
        let mut from = if is_sane { min_time } else { i64::MIN };
        loop {
            let to = if is_sane { (from.div_euclid(WINDOW_MS) + 1) * WINDOW_MS } else { i64::MAX };
            let is_first = from == min_time || !is_sane;
            let is_last = !is_sane || to >= max_time;
            // What a block says of its times is not what bounds them.
            let (first, end) = (if is_first { i64::MIN } else { from }, if is_last { i64::MAX } else { to });
            let mut place = 0;
            index.each(self.index, &mut |read| {
                place += 1;
                match read {
                    Ok(entry) => self.series(place, &entry, &tombstones, first, end, out),
                    Err(what) if is_first => {
                        out.bad(place, "series_damaged", &what);
                        Ok(())
                    }
                    Err(_) => Ok(()),
                }
            })?;
            if is_last {
                return Ok(());
            }
            from = to;
            progress((i128::from(to - min_time) * 1000 / span.max(1)) as u64);
        }
    }

    fn series(
        &self,
        place: u64,
        entry: &Entry,
        tombstones: &Tombstones,
        from: i64,
        to: i64,
        out: &mut Batches<'_>,
    ) -> Result<(), Error> {
        for chunk in entry.chunks.iter().filter(|chunk| chunk.first_ms < to && chunk.last_ms >= from) {
            // What is wrong with a chunk is said once, in the window that it begins in.
            let is_first = chunk.first_ms >= from;
            let read = segment::chunk(&self.segments, chunk.place);
            let (encoding, bytes) = match read {
                Ok(found) => found,
                Err(what) => {
                    if is_first {
                        out.bad(place, "chunk_damaged", &what);
                    }
                    continue;
                }
            };
            let mut stopped = Ok(());
            let end = tsdb_chunk::decode(encoding, &bytes, &mut |time_ms, point| {
                let is_here = (from..to).contains(&time_ms) || time_ms == i64::MAX && to == i64::MAX;
                if stopped.is_ok() && is_here && !tombstones.covers(entry.reference, time_ms) {
                    stopped = sample(place, entry, time_ms, point, out);
                }
            });
            stopped?;
            if let Err(error) = end
                && is_first
            {
                out.bad(place, "chunk_damaged", &error.to_string());
            }
        }
        Ok(())
    }
}

fn sample(place: u64, entry: &Entry, time_ms: i64, point: Point, out: &mut Batches<'_>) -> Result<(), Error> {
    let name = entry.labels.iter().find(|(name, _)| name == METRIC_NAME).map_or("", |(_, name)| name);
    let (meta, value) = match point {
        Point::Float(value) => (meta_of_name(Kind::Float, name), Value::Float(value)),
        Point::Histogram(Err(what)) => {
            out.bad(place, "histogram_invalid", what);
            return Ok(());
        }
        Point::Histogram(Ok(counts)) => {
            let (reset, value) = match counts {
                Counts::Integer(one) => (one.reset, Value::Histogram(one)),
                Counts::Float(one) => (one.reset, Value::FloatHistogram(one)),
            };
            let temporality = if reset == CounterReset::Gauge { Temporality::Gauge } else { Temporality::Cumulative };
            (SeriesMeta { kind: Kind::Histogram, temporality, unit: String::new(), width_ms: 0 }, value)
        }
    };
    let Some(time_ns) = time_ms.checked_mul(1_000_000) else {
        out.bad(place, "time_invalid", "the time is beyond what can be stored");
        return Ok(());
    };
    let key = u128::from(entry.reference) * 64 + meta.kind as u128 * 8 + meta.temporality as u128;
    let labels = || entry.labels.iter().map(|(name, value)| (&**name, &**value));
    let define = || SeriesDef::new(labels(), meta.clone()).map_err(|error| error.to_string());
    out.sample(place, key, define, None, time_ns, value)
}
