//! Rollups for other stores: cells of a series made as this store makes them, and their bytes.
//!
//! Format: docs/formats/block.md, "Chunk"; a checksum is the caller's.

use ogive_model::{Kind, SeriesData, TimeRange};

use crate::codec::chunk::{self, Chunk};
use crate::codec::dictionary::{Effort, Packer};
use crate::roll;

/// `data` as cells of `width_ms`, and how many cells are not whole since their parts do not merge; None for texts.
///
/// # Panics
/// When `width_ms` is 0.
#[must_use]
pub fn roll(data: SeriesData, width_ms: u32) -> Option<(SeriesData, u64)> {
    let lost = std::cell::Cell::new(0);
    let rolled = roll::roll(data, width_ms, &|clash| lost.set(lost.get() + clash.cells))?;
    Some((rolled, lost.get()))
}

/// The samples of a series that is no text, as chunks.
///
/// # Panics
/// For texts, which are not rolled up.
#[must_use]
pub fn encode(data: &SeriesData) -> Vec<Vec<u8>> {
    assert!(data.meta.kind != Kind::Text, "texts are not rolled up");
    let mut packer = Packer::new(Effort::Quick);
    let one = |rows| {
        let mut out = Vec::new();
        chunk::put(&mut out, data, rows, &mut packer);
        out
    };
    chunk::cut(data).into_iter().map(one).collect()
}

/// Appends the samples of a chunk to `data`, whose kind says which they are. Floats have aggregates.
///
/// # Errors
/// What is wrong with the bytes.
pub fn decode(bytes: &[u8], data: &mut SeriesData) -> Result<(), String> {
    let chunk = Chunk::open(bytes).map_err(|broken| broken.problem)?;
    let rows = chunk.rows(TimeRange::ALL);
    let read = match data.meta.kind {
        Kind::Float => chunk.floats(rows, true, &mut data.floats),
        Kind::Histogram => chunk.histograms(rows, &mut data.histograms).map(drop),
        Kind::Text => return Err("texts are not rolled up".into()),
    };
    read.map_err(|broken| broken.problem)
}
