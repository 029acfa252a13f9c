//! Piece: what a block is written from, consecutive samples of one series.
//!
//! Invariants: a piece that is a chunk has the bytes of another block, compared with their checksum there; texts are
//! never one, since their bytes depend on the dictionary of their block.

use std::path::PathBuf;

use ogive_model::{Kind, SeriesData};

use crate::Error;
use crate::block::series::ChunkEntry;
use crate::codec::chunk::{self, Chunk};

/// Consecutive samples of one series.
pub enum Piece {
    /// Decoded ones.
    Samples(SeriesData),
    /// A chunk of another block, as it is there.
    Chunk(WholeChunk),
}

/// An encoded chunk of a block and the series that it is of.
pub struct WholeChunk {
    /// The series, without its samples.
    pub(crate) series: SeriesData,
    /// Whether its floats have the aggregates of a rollup.
    pub(crate) aggregates: bool,
    pub(crate) entry: ChunkEntry,
    pub(crate) bytes: Vec<u8>,
    /// The block's file.
    pub(crate) path: PathBuf,
}

impl Piece {
    /// The series: its labels and what is known of it.
    pub(crate) const fn series(&self) -> &SeriesData {
        match self {
            Self::Samples(data) => data,
            Self::Chunk(chunk) => &chunk.series,
        }
    }

    /// Times of the first and the last sample and the number of samples; None when there are none.
    pub(crate) fn extent(&self) -> Option<(i64, i64, usize)> {
        match self {
            Self::Samples(data) => {
                let times = chunk::sample_times(data);
                Some((*times.first()?, *times.last()?, times.len()))
            }
            Self::Chunk(whole) => {
                let ChunkEntry { time_min, time_max, samples, .. } = whole.entry;
                Some((time_min, time_max, samples as usize))
            }
        }
    }

    /// About what it takes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let encoded = match self {
            Self::Samples(_) => 0,
            Self::Chunk(chunk) => chunk.bytes.len(),
        };
        chunk::memory_bytes(self.series()) + encoded
    }

    /// Its samples, decoded.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn into_samples(self) -> Result<SeriesData, Error> {
        match self {
            Self::Samples(data) => Ok(data),
            Self::Chunk(chunk) => chunk.decode(),
        }
    }
}

impl From<SeriesData> for Piece {
    fn from(data: SeriesData) -> Self {
        Self::Samples(data)
    }
}

impl WholeChunk {
    /// The series with the samples of the chunk.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn decode(&self) -> Result<SeriesData, Error> {
        let Self { series, aggregates, entry, bytes, path } = self;
        let mut series = series.clone();
        let rows = 0..entry.samples as usize;
        let decoded = Chunk::open(bytes).and_then(|opened| {
            opened.check_count(rows.len())?;
            match series.meta.kind {
                Kind::Float => opened.floats(rows, *aggregates, &mut series.floats),
                Kind::Histogram => opened.histograms(rows, &mut series.histograms).map(|_| ()),
                Kind::Text => unreachable!("texts are not copied"),
            }
        });
        match decoded {
            Ok(()) => Ok(series),
            Err(broken) => {
                let offset = entry.offset + broken.offset as u64;
                Err(Error::Corrupt { path: path.clone(), offset, problem: broken.problem })
            }
        }
    }
}
