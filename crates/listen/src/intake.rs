//! The intake of a protocol: bytes of whole lines go in, batches come out.
//!
//! Invariants: each line is either accepted or counted by reason.
//! Threads: any; a message is decoded under the intake's lock, which is held for some microseconds.
//! Limits: those of the quantizer and of [`Gather`]; [`TEXT_BYTES_MAX`] of events waiting for their second to end,
//! [`GATHERED_MAX`] gathered samples.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ogive_model::{Batch, Value, WallNs};
use ogive_protocol::lines::{Fault, Faults, Names};
use ogive_protocol::{Gather, graphite, statsd};
use ogive_stream::{Cell, Counts, Quantizer};

use ogive_door::counters::{Counters, Ledger, Protocol};
use ogive_door::outbox::Outbox;
use ogive_probe::Clock;

/// 8 MiB of texts a second, as much as a batch may have.
const TEXT_BYTES_MAX: usize = 8 << 20;

/// Samples that are gathered before they are handed on at once.
pub(super) const GATHERED_FULL: usize = 5_000;

/// Ten batches wait for the task that hands them on.
const GATHERED_MAX: usize = 10 * GATHERED_FULL;

/// What a socket hands its lines to.
pub(super) trait Intake: Send + Sync {
    /// Takes whole lines.
    fn take(&self, message: &[u8]);

    /// Takes the lines of a datagram, whose sender cannot be slowed down.
    fn take_datagram(&self, message: &[u8]) {
        self.take(message);
    }

    /// Counts what was no line.
    fn lost(&self, reason: &'static str, count: u64);

    /// Whether a sender that can be slowed down may go on.
    fn has_room(&self) -> bool;

    /// Hands on what is complete; at the end everything.
    fn hand_on(&self, outbox: &Outbox, is_last: bool);
}

/// What intakes share.
pub(super) struct Common {
    pub(super) clock: Clock,
    pub(super) counters: Arc<Counters>,
    pub(super) protocol: Protocol,
    pub(super) outbox: Arc<Outbox>,
}

impl Common {
    pub(super) fn ledger(&self) -> &Ledger {
        self.counters.of(self.protocol)
    }

    fn faults(&self, faults: &Faults) {
        faults.iter().for_each(|(fault, count)| self.ledger().unreadable(fault.as_str(), count));
    }
}

/// StatsD: measurements merge into cells of a second.
pub(super) struct Statsd {
    common: Common,
    options: statsd::Options,
    state: Mutex<StatsdState>,
}

#[derive(Default)]
struct StatsdState {
    quantizer: Quantizer,
    texts: Vec<Cell>,
    text_bytes: usize,
    /// What was instructed to the counters.
    reported: Counts,
}

impl Statsd {
    pub(super) fn new(common: Common, options: statsd::Options, quantizer: Quantizer) -> Self {
        Self { common, options, state: Mutex::new(StatsdState { quantizer, ..StatsdState::default() }) }
    }

    fn lock(&self) -> MutexGuard<'_, StatsdState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Intake for Statsd {
    fn take(&self, message: &[u8]) {
        let mut tally = statsd::Tally::default();
        let mut state = self.lock();
        // Inside, so that the time never falls back for the quantizer.
        let now_ns = self.common.clock.wall();
        statsd::feed(message, now_ns, &self.options, &mut state.quantizer, &mut tally);
        for cell in tally.texts {
            let bytes = if let Value::Text(text) = &cell.value { text.len() } else { 0 };
            if state.text_bytes + bytes > TEXT_BYTES_MAX {
                tally.faults.count(Fault::Cells);
                tally.measurements -= 1;
            } else {
                state.text_bytes += bytes;
                state.texts.push(cell);
            }
        }
        drop(state);
        self.common.ledger().bytes.add(message.len() as u64);
        self.common.counters.statsd.measurements.add(tally.measurements);
        self.common.counters.statsd.sampled.add(tally.sampled);
        self.common.faults(&tally.faults);
    }

    fn lost(&self, reason: &'static str, count: u64) {
        self.common.ledger().unreadable(reason, count);
    }

    fn has_room(&self) -> bool {
        true
    }

    fn hand_on(&self, outbox: &Outbox, is_last: bool) {
        let mut state = self.lock();
        let mut cells = match is_last {
            false => state.quantizer.take(WallNs(self.common.clock.wall())),
            true => state.quantizer.finish(),
        };
        cells.append(&mut state.texts);
        state.text_bytes = 0;
        let (counts, reported) = (state.quantizer.counts(), state.reported);
        state.reported = counts;
        drop(state);
        let counters = &self.common.counters.statsd;
        counters.folded.add(counts.folded - reported.folded);
        counters.members_over.add(counts.members_over - reported.members_over);
        if counts.cells_lost > reported.cells_lost {
            self.lost("waited_too_long", counts.cells_lost - reported.cells_lost);
        }
        outbox.add_cells(cells);
    }
}

/// Graphite: values are samples as they are.
pub(super) struct Graphite {
    common: Common,
    names: Names,
    gather: Mutex<Gather>,
}

impl Graphite {
    pub(super) fn new(common: Common, names: Names) -> Self {
        Self { common, names, gather: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Gather> {
        self.gather.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(&self, gather: &mut Gather) -> Batch {
        gather.take(Default::default(), 0, &Default::default())
    }
}

impl Intake for Graphite {
    fn take(&self, message: &[u8]) {
        let mut faults = Faults::default();
        let mut gather = self.lock();
        if gather.len() >= GATHERED_MAX || !self.common.outbox.has_room() {
            drop(gather);
            // Only datagrams come here: connections wait for room.
            return self.lost("busy", ogive_protocol::lines::lines(message).count() as u64);
        }
        graphite::feed(message, self.common.clock.wall(), self.names, &mut gather, &mut faults);
        let full = (gather.len() >= GATHERED_FULL).then(|| self.taken(&mut gather));
        drop(gather);
        self.common.ledger().bytes.add(message.len() as u64);
        self.common.faults(&faults);
        if let Some(batch) = full {
            self.common.outbox.add(batch);
        }
    }

    fn lost(&self, reason: &'static str, count: u64) {
        self.common.ledger().unreadable(reason, count);
    }

    fn has_room(&self) -> bool {
        self.common.outbox.has_room()
    }

    fn hand_on(&self, outbox: &Outbox, _: bool) {
        let batch = self.taken(&mut self.lock());
        outbox.add(batch);
    }
}
