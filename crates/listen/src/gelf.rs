//! GELF: datagrams are reassembled and decompressed before they are decoded.
//!
//! Limits: those of [`Assembly`]; a message decompresses to at most [`MESSAGE_BYTES_MAX`].

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ogive_door::outbox::Outbox;
use ogive_model::MonoNs;
use ogive_protocol::gelf::chunks::{Assembly, is_chunk};
use ogive_protocol::gelf::{MESSAGE_BYTES_MAX, feed};
use ogive_protocol::inflate::inflate;

use super::intake::{Common, Intake};
use super::texts::Texts;

/// See the module.
pub(super) struct Gelf {
    texts: Texts,
    assembly: Mutex<Assembly>,
}

impl Gelf {
    pub(super) fn new(common: Common) -> Self {
        Self { texts: Texts::new(common, feed), assembly: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Assembly> {
        self.assembly.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The message that `datagram` is or completes, still compressed.
    fn whole<'d>(&self, datagram: &'d [u8]) -> Option<Cow<'d, [u8]>> {
        if !is_chunk(datagram) {
            return Some(Cow::Borrowed(datagram));
        }
        let mut assembly = self.lock();
        let added = assembly.add(datagram, MonoNs(self.texts.clock().now()));
        let dropped = assembly.take_dropped();
        drop(assembly);
        if dropped > 0 {
            self.lost("chunks_limit", dropped);
        }
        match added {
            Ok(message) => message.map(Cow::Owned),
            Err(_) => {
                self.lost("chunk_invalid", 1);
                None
            }
        }
    }
}

impl Intake for Gelf {
    fn take(&self, message: &[u8]) {
        self.texts.take(message);
    }

    fn take_datagram(&self, datagram: &[u8]) {
        if !self.has_room() {
            return self.lost("busy", 1);
        }
        let Some(message) = self.whole(datagram) else { return };
        match inflate(&message, MESSAGE_BYTES_MAX) {
            Ok(message) => self.take(&message),
            Err(fault) => self.lost(fault.as_str(), 1),
        }
    }

    fn lost(&self, reason: &'static str, count: u64) {
        self.texts.lost(reason, count);
    }

    fn has_room(&self) -> bool {
        self.texts.has_room()
    }

    fn hand_on(&self, outbox: &Outbox, is_last: bool) {
        let mut assembly = self.lock();
        assembly.expire(MonoNs(self.texts.clock().now()), is_last);
        let missing = assembly.take_dropped();
        drop(assembly);
        if missing > 0 {
            self.lost("chunks_missing", missing);
        }
        self.texts.hand_on(outbox, is_last);
    }
}
