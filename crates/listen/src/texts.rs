//! Messages of syslog and GELF: each becomes a text sample.
//!
//! Threads: any; a message is decoded under the lock.
//! Limits: at most [`GATHERED_FULL`] messages and [`GATHERED_BYTES_FULL`] are gathered at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ogive_door::outbox::Outbox;
use ogive_model::Batch;
use ogive_probe::Clock;
use ogive_protocol::Gather;
use ogive_protocol::lines::Fault;

use super::intake::{Common, GATHERED_FULL, Intake};

/// 8 MiB of messages that are gathered before they are handed on at once: a quarter of the largest frame.
const GATHERED_BYTES_FULL: usize = 8 << 20;

/// Takes one message, which arrived at the time, into the gatherer.
pub(super) type Feed = fn(&[u8], i64, &mut Gather) -> Result<(), Fault>;

/// Messages of a protocol without acknowledgements, each a text.
pub(super) struct Texts {
    common: Common,
    feed: Feed,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    gather: Gather,
    bytes: usize,
}

impl State {
    fn taken(&mut self) -> Batch {
        self.bytes = 0;
        self.gather.take(Default::default(), 0, &Default::default())
    }
}

impl Texts {
    pub(super) fn new(common: Common, feed: Feed) -> Self {
        Self { common, feed, state: Mutex::default() }
    }

    /// The clock of datagrams that wait for others.
    pub(super) fn clock(&self) -> Clock {
        self.common.clock
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Intake for Texts {
    fn take(&self, message: &[u8]) {
        let now_ns = self.common.clock.wall();
        let mut state = self.lock();
        let fault = (self.feed)(message, now_ns, &mut state.gather).err();
        state.bytes += message.len();
        let is_full = state.gather.len() >= GATHERED_FULL || state.bytes >= GATHERED_BYTES_FULL;
        let full = is_full.then(|| state.taken());
        drop(state);
        self.common.ledger().bytes.add(message.len() as u64);
        if let Some(fault) = fault {
            self.lost(fault.as_str(), 1);
        }
        if let Some(batch) = full {
            self.common.outbox.add(batch);
        }
    }

    fn take_datagram(&self, message: &[u8]) {
        if self.has_room() { self.take(message) } else { self.lost("busy", 1) }
    }

    fn lost(&self, reason: &'static str, count: u64) {
        self.common.ledger().unreadable(reason, count);
    }

    fn has_room(&self) -> bool {
        self.common.outbox.has_room()
    }

    fn hand_on(&self, outbox: &Outbox, _: bool) {
        let batch = self.lock().taken();
        outbox.add(batch);
    }
}
