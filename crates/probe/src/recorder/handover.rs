//! The reader's side of one writer: sends it to its other side and takes the side that it left.
//!
//! *Threads*: whoever holds an [`Entry`] mutably is the one reader; see [`super::turnstile`] for the protocol.

use super::pages::IDLE_CELLS;
use super::turnstile::{Inside, Turnstile};
use crate::memory::{Machine, Memory};
use std::sync::Arc;

/// How often a writer inside a record is checked before its side is left to the next snapshot: a record takes some
/// nanoseconds, so one that lasts longer was interrupted.
const LOOKS_MAX: usize = 200;

/// The data of a writer: two sides behind a turnstile.
pub(crate) trait Sides {
    /// The type in which sides are added up.
    type Totals;
    fn turnstile(&self) -> &Turnstile<Machine>;
    /// Adds one side to `totals` and empties it. Only for the reader, of a side that the writer has left.
    fn drain(&self, side: usize, totals: &mut Self::Totals);
    /// True when [`Sides::trim`] has something to do in a writer that records nothing for a while.
    fn is_sparse(&self) -> bool {
        false
    }
    /// Frees memory that one side has not used for a while, or that is known to be unused now (`idle`). Called
    /// before it is drained.
    ///
    /// # Safety
    /// No other thread is in this side, nor will be before this returns.
    #[allow(unsafe_code)]
    unsafe fn trim(&self, _side: usize, _idle: bool) {}
}

/// The reader's side of a writer.
pub(crate) struct Entry<S: ?Sized> {
    pub(crate) table: Arc<S>,
    /// The writer's sequence number before the last swap, when it was outside then.
    sequence_seen: Option<u64>,
    /// Cells in a row without a record.
    idle: u32,
    leaving: Leaving,
}

/// The side that the writer has been sent away from.
#[derive(Clone, Copy)]
enum Leaving {
    /// None: it was taken.
    None,
    /// This one; no look at the writer since.
    Sent(usize),
    /// This one, and the writer was inside when looked at.
    Inside(usize, Inside),
}

impl<S: Sides + ?Sized> Entry<S> {
    pub(crate) fn new(table: Arc<S>) -> Self {
        Self { table, sequence_seen: Some(0), idle: 0, leaving: Leaving::None }
    }

    /// Whether a side is ready to be taken, or was not returned yet.
    pub(crate) fn is_leaving(&self) -> bool {
        !matches!(self.leaving, Leaving::None)
    }

    /// Switches the writer to its other side if there is something to take; true when a barrier is needed.
    pub(crate) fn send_away(&mut self) -> bool {
        if self.is_leaving() {
            return true;
        }
        let turnstile = self.table.turnstile();
        let sequence = turnstile.sequence();
        if self.sequence_seen == Some(sequence) {
            // One after the other, both sides of an idle writer are trimmed.
            self.idle = self.idle.saturating_add(1);
            let trims = self.table.is_sparse() && (IDLE_CELLS..IDLE_CELLS + 2).contains(&self.idle);
            if trims {
                self.leaving = Leaving::Sent(turnstile.swap());
            }
            return trims;
        }
        self.idle = 0;
        self.sequence_seen = sequence.is_multiple_of(2).then_some(sequence);
        self.leaving = Leaving::Sent(turnstile.swap());
        true
    }

    /// Takes the side that the writer has left; false when the writer is still inside.
    ///
    /// The lock that guards this entry is held by whoever else reads the writer's sides.
    #[allow(unsafe_code)]
    pub(crate) fn take(&mut self, totals: &mut S::Totals) -> bool {
        let (side, mut inside) = match self.leaving {
            Leaving::None => return true,
            Leaving::Sent(side) => (side, None),
            Leaving::Inside(side, inside) => (side, Some(inside)),
        };
        for _ in 0..LOOKS_MAX {
            inside = self.table.turnstile().look(inside);
            if inside.is_none() {
                // SAFETY: the writer has left this side and comes back only after another swap, which needs this entry;
                // so does every other reader.
                unsafe { self.table.trim(side, self.idle >= IDLE_CELLS) };
                self.table.drain(side, totals);
                self.leaving = Leaving::None;
                return true;
            }
            Machine::pause();
        }
        self.leaving = inside.map_or(Leaving::Sent(side), |inside| Leaving::Inside(side, inside));
        false
    }
}
