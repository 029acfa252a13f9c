//! What became of lines, so that a batch that comes again gets what it got first.
//!
//! Invariants: the line that completed a session gives its duration each time it comes, every other settled line
//! nothing; the duration is thus in batches of one number alone.
//! Limits: twice as many lines as may be open, [`SETTLED_BYTES_MAX`]; the oldest are forgotten.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::half::{Half, Origin, Side};

/// 32 MiB: some 50,000 sessions with a few labels.
const SETTLED_BYTES_MAX: usize = 32 << 20;

/// A begin and its end.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) begin: Half,
    pub(super) end: Half,
}

impl Pair {
    pub(super) fn seconds(&self) -> f64 {
        self.end.own_time.since(self.begin.own_time).0 as f64 / 1e9
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// With the session that a line completed.
    by_line: HashMap<Origin, Option<Arc<Pair>>>,
    /// The lines in the order in which they were settled.
    order: VecDeque<Origin>,
    bytes: usize,
}

impl Settled {
    /// Whether a line is settled, and which session it completed.
    pub(super) fn find(&self, origin: &Origin) -> Option<Option<Arc<Pair>>> {
        self.by_line.get(origin).cloned()
    }

    /// Remembers the lines of a session that its `last` line completed.
    pub(super) fn close(&mut self, pair: &Arc<Pair>, last: Side, lines_max: usize) {
        let completed = |side: Side| (side == last).then(|| pair.clone());
        self.push(pair.begin.origin.clone(), completed(Side::Begin), lines_max);
        self.push(pair.end.origin.clone(), completed(Side::End), lines_max);
    }

    /// Remembers a line that became nothing.
    pub(super) fn drop_line(&mut self, origin: Origin, lines_max: usize) {
        self.push(origin, None, lines_max);
    }

    fn push(&mut self, origin: Origin, completed: Option<Arc<Pair>>, lines_max: usize) {
        // A sender that gives one number to different batches; the store takes the first of them.
        if self.by_line.contains_key(&origin) {
            return;
        }
        self.bytes += bytes(completed.as_deref());
        self.by_line.insert(origin.clone(), completed);
        self.order.push_back(origin);
        while self.order.len() > lines_max || self.bytes > SETTLED_BYTES_MAX {
            let oldest = self.order.pop_front().expect("what has bytes has lines");
            let completed = self.by_line.remove(&oldest).expect("it is settled");
            self.bytes -= bytes(completed.as_deref());
        }
        assert_eq!(self.by_line.len(), self.order.len());
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

fn bytes(completed: Option<&Pair>) -> usize {
    let line = 2 * size_of::<Origin>() + size_of::<Option<Arc<Pair>>>();
    line + completed.map_or(0, |pair| pair.begin.bytes() + pair.end.bytes())
}
