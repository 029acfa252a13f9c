//! A batch as the message of a queue, whose content type names its form.

use ogive_model::{Batch, wire};

use crate::batch_json;

/// The content type of a batch in JSON.
pub const JSON: &str = "application/json";
/// The content type of a batch's own bytes, wherever they travel.
pub const FLAT_BUFFER: &str = "application/x-ogive-batch-flatbuffer";

/// What a message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// See [`batch_json`].
    Json,
    /// A frame, as the journal has it.
    FlatBuffer,
}

impl Form {
    /// By a content type with or without parameters; none of another form.
    #[must_use]
    pub fn named(kind: &str) -> Option<Self> {
        match kind.split(';').next().unwrap_or_default().trim() {
            JSON => Some(Self::Json),
            FLAT_BUFFER => Some(Self::FlatBuffer),
            _ => None,
        }
    }
}

/// The batch of a message that came by another way than HTTP, and its bytes for the journal.
///
/// # Errors
/// A sentence when it is no batch, or one of more series than a frame may have.
pub fn batch_from_message(kind: Option<&str>, bytes: Vec<u8>) -> Result<(Batch, Vec<u8>), String> {
    let kind = kind.unwrap_or(JSON);
    match Form::named(kind).ok_or_else(|| format!("content type {kind:?} is no batch"))? {
        Form::Json => {
            let batch = batch_json::decode(&bytes)?.batch;
            let series = batch.series.len() + batch.known.len();
            if series > wire::SERIES_MAX {
                return Err(format!("{series} series, above the limit of {}; split them", wire::SERIES_MAX));
            }
            let frame = batch.encode().map_err(|error| error.to_string())?;
            Ok((batch, frame))
        }
        Form::FlatBuffer => Ok((Batch::decode(&bytes).map_err(|error| error.to_string())?, bytes)),
    }
}
