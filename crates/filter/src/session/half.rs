//! One of the two lines of a session.

use ogive_model::{BatchId, Labels, MonoNs, Ns, Tenant, WallNs};

use super::tally::SessionOutcome;

/// Where a line came from. A batch that is sent again has lines of the same origins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    /// The batch's: numbers are per tenant.
    pub(crate) tenant: Tenant,
    pub(crate) batch: BatchId,
    /// Its index in the batch.
    pub(crate) sample: usize,
}

/// Which of the two it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Begin,
    End,
}

/// What is remembered of a line.
#[derive(Debug)]
pub(super) struct Half {
    pub(super) side: Side,
    pub(super) origin: Origin,
    /// When it came.
    pub(super) arrived: MonoNs,
    /// Its own time, of which the duration is made.
    pub(super) own_time: WallNs,
    /// The time that it is stored with, of which the cell is made.
    pub(super) time: WallNs,
    pub(super) labels: Labels,
    /// Values for the names in the rule's labels.
    pub(super) values: Vec<Option<Box<str>>>,
}

/// What a line means for an open one with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is the same line, once more.
    Same,
    /// It is counted, and the open one stays.
    Keep(SessionOutcome),
    /// The open one is counted, and it is open instead.
    Replace(SessionOutcome),
    /// They are a session.
    Pair,
}

impl Half {
    /// What `next` means for this open line. The result does not depend on which of them came first.
    pub(super) fn fate(&self, next: &Self, timeout: Ns) -> Fate {
        if self.origin == next.origin {
            return Fate::Same;
        }
        if self.side == next.side {
            let is_later = next.own_time > self.own_time;
            return if is_later {
                Fate::Replace(SessionOutcome::Repeated)
            } else {
                Fate::Keep(SessionOutcome::Repeated)
            };
        }
        let (begin, end) = if self.side == Side::Begin { (self, next) } else { (next, self) };
        let (outcome, gone) = match end.own_time.since(begin.own_time) {
            length if length < Ns::ZERO => (SessionOutcome::Reversed, Side::End),
            length if length > timeout => (SessionOutcome::Expired, Side::Begin),
            _ => return Fate::Pair,
        };
        if next.side == gone { Fate::Keep(outcome) } else { Fate::Replace(outcome) }
    }

    pub(super) fn bytes(&self) -> usize {
        let values = self.values.iter().flatten().map(|value| value.len());
        let slots = self.values.len() * size_of::<Option<Box<str>>>();
        size_of::<Self>() + self.labels.memory_bytes() + slots + values.sum::<usize>()
    }
}
