//! What every task works with.

use std::sync::Arc;

use ogive_door::Door;
use ogive_outgoing::Files;
use tokio::sync::Semaphore;

use super::view::View;

/// The dependencies of every task.
pub(super) struct Context {
    pub(super) door: Arc<Door>,
    pub(super) view: Arc<View>,
    pub(super) files: Files,
    pub(super) decoding: Semaphore,
}
