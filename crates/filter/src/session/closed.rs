//! The sessions that were joined, so that a batch that comes again gets what it got first.
//!
//! Invariants: the line that completed a session gives its duration each time it comes, the other line never; the duration is thus in
//! batches of one number alone.
//! Limits: as many as may be open, [`CLOSED_BYTES_MAX`]; the oldest are forgotten.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::half::{Half, Origin, Side};

/// 32 MiB: some 50,000 sessions with a few labels.
const CLOSED_BYTES_MAX: usize = 32 << 20;

/// A begin and its end.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) begin: Half,
    pub(super) end: Half,
}

impl Pair {
    pub(super) fn seconds(&self) -> f64 {
        self.end.own_ns.saturating_sub(self.begin.own_ns) as f64 / 1e9
    }

    fn bytes(&self) -> usize {
        self.begin.bytes() + self.end.bytes() + 2 * size_of::<(Origin, Option<Arc<Self>>)>()
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Closed {
    /// By each of their lines; None for the one that did not complete the session.
    by_line: HashMap<Origin, Option<Arc<Pair>>>,
    order: VecDeque<Arc<Pair>>,
    bytes: usize,
}

impl Closed {
    /// Whether a line belongs to a closed session, and which it completed.
    pub(super) fn find(&self, origin: &Origin) -> Option<Option<Arc<Pair>>> {
        self.by_line.get(origin).cloned()
    }

    /// Remembers a session that its `last` line completed.
    pub(super) fn push(&mut self, pair: &Arc<Pair>, last: Side, count_max: usize) {
        let is_last = |side: Side| (side == last).then(|| pair.clone());
        self.by_line.insert(pair.begin.origin.clone(), is_last(Side::Begin));
        self.by_line.insert(pair.end.origin.clone(), is_last(Side::End));
        self.order.push_back(pair.clone());
        self.bytes += pair.bytes();
        while self.order.len() > count_max || self.bytes > CLOSED_BYTES_MAX {
            let oldest = self.order.pop_front().expect("what has bytes has sessions");
            self.by_line.remove(&oldest.begin.origin);
            self.by_line.remove(&oldest.end.origin);
            self.bytes -= oldest.bytes();
        }
        assert_eq!(self.by_line.len(), 2 * self.order.len());
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}
