//! Buffers for reading floats, kept between the series of a selection.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::block::Ahead;
use crate::codec::float_run::RunScratch;

/// Room for reading, used again for the next series.
#[derive(Default)]
pub(super) struct FloatScratch {
    pub(super) run: RunScratch,
    /// By the block's number in the view.
    pub(super) ahead: BTreeMap<usize, Ahead>,
}

/// Scratches that nobody uses just now, at most one for each thread.
#[derive(Default)]
pub(super) struct ScratchPool(Mutex<Vec<FloatScratch>>);

impl ScratchPool {
    pub(super) fn get(&self) -> FloatScratch {
        self.0.lock().ok().and_then(|mut pool| pool.pop()).unwrap_or_default()
    }

    pub(super) fn put(&self, scratch: FloatScratch) {
        if let Ok(mut pool) = self.0.lock() {
            pool.push(scratch);
        }
    }
}
