//! Rows as a cluster returns them, of which nothing is believed yet.

use std::sync::Arc;

use ogive_model::{SeriesId, SourceId};

use crate::fragment::{Fragment, RowKey};
use crate::{Error, Piece};

/// A row of samples: minute, source, sequence, digest, when it arrived in microseconds, and its body.
pub(crate) type CellRow = (i32, Vec<u8>, i64, i64, i64, Vec<u8>);

/// Sixteen bytes as a number: a source, or a writer.
pub(crate) fn number(bytes: &[u8]) -> Option<u128> {
    bytes.try_into().map(u128::from_be_bytes).ok()
}

/// The key of a row.
///
/// # Errors
/// [`Error::Corrupt`] for a source of other than sixteen bytes.
pub(crate) fn key(series: SeriesId, (minute, source, sequence, ..): &CellRow) -> Result<RowKey, Error> {
    let source = number(source).ok_or_else(|| Error::Corrupt("a source of other than sixteen bytes".into()))?;
    Ok(RowKey { series, minute: *minute, source: SourceId(source), sequence: *sequence as u64 })
}

/// The pieces of a row, each with when it arrived.
///
/// # Errors
/// [`Error::Corrupt`] when it is not what was written.
pub(crate) fn pieces(series: SeriesId, row: &CellRow) -> Result<Vec<Arc<Piece>>, Error> {
    let (.., digest, at_us, body) = row;
    let arrived = |mut piece: Piece| {
        piece.arrived_us = *at_us;
        Arc::new(piece)
    };
    Ok(Fragment::decode(&key(series, row)?, *digest, body)?.into_iter().map(arrived).collect())
}
