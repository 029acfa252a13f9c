//! How far a batch is on its way through a store.

/// The points that a batch passes in the store. The reply comes after the last of them, when it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The writer has taken it from the queue.
    Taken,
    /// The verdict on each sample is decided, and the record is in the journal.
    Journaled,
    /// An fsync has made it durable.
    Durable,
}

/// Hears when a batch reaches a step. Called on the thread of the store's writer, so it must not wait.
pub trait Stamps: Send + Sync {
    /// The step is reached now.
    fn stamp(&self, step: Step);
}
