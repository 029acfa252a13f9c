//! Requests to the flusher.

use std::sync::mpsc::Sender;

use crate::{BlockMeta, Error};

/// Somebody's wish for a flush, with where to report how it went.
pub(crate) type FlushWish = Sender<Flushed>;

/// The blocks that a flush made; none when there was nothing to write.
pub(crate) type Flushed = Result<Vec<BlockMeta>, Error>;
