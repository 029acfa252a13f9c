//! Messages split into several datagrams: `1e 0f`, 8 bytes of message id, the chunk's number, the number of chunks, and
//! the chunk's bytes.
//!
//! Invariants: a message is complete once each of its chunks has arrived, in any order and any number of times; a chunk
//! that contradicts the first one of its message is refused and changes nothing.
//! Limits: [`CHUNKS_MAX`] chunks per message; [`MESSAGES_MAX`] messages and [`WAITING_BYTES_MAX`] wait for missing
//! chunks, each up to [`PATIENCE`]. Beyond that the oldest are dropped and counted.

use std::collections::HashMap;

use ogive_model::{MonoNs, Ns};

/// As the format has it.
pub const CHUNKS_MAX: u8 = 128;

/// 5 s, as the format has it.
pub const PATIENCE: Ns = Ns::from_secs(5);

/// 1,024 messages at a time: a thousand hosts that send a stack trace each.
pub const MESSAGES_MAX: usize = 1_024;

/// 16 MiB of chunks: a hundred of the largest messages that go-gelf sends.
pub const WAITING_BYTES_MAX: usize = 16 << 20;

const MAGIC: [u8; 2] = [0x1e, 0x0f];
const HEADER_BYTES: usize = 12;

/// A chunk's header is cut, or says something impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction;

/// Whether a datagram is a chunk.
#[must_use]
pub fn is_chunk(datagram: &[u8]) -> bool {
    datagram.starts_with(&MAGIC)
}

/// The messages that are not complete.
#[derive(Debug, Default)]
pub struct Assembly {
    messages: HashMap<[u8; 8], Parts>,
    bytes: usize,
    dropped: u64,
}

#[derive(Debug)]
struct Parts {
    begun: MonoNs,
    chunks: Vec<Option<Box<[u8]>>>,
    missing: usize,
    bytes: usize,
}

impl Assembly {
    /// Takes a chunk, which arrived at `now`; gives the message that it completes.
    ///
    /// # Errors
    /// [`Contradiction`].
    pub fn add(&mut self, datagram: &[u8], now: MonoNs) -> Result<Option<Vec<u8>>, Contradiction> {
        let (header, bytes) = datagram.split_first_chunk::<HEADER_BYTES>().ok_or(Contradiction)?;
        let [first, second, id @ .., number, count] = *header;
        if [first, second] != MAGIC || count == 0 || count > CHUNKS_MAX || number >= count {
            return Err(Contradiction);
        }
        let parts = self.messages.entry(id).or_insert_with(|| Parts::new(count, now));
        if parts.chunks.len() != usize::from(count) {
            return Err(Contradiction);
        }
        let chunk = &mut parts.chunks[usize::from(number)];
        if chunk.is_some() {
            return Ok(None);
        }
        *chunk = Some(bytes.into());
        parts.missing -= 1;
        parts.bytes += bytes.len();
        self.bytes += bytes.len();
        if parts.missing == 0 {
            return Ok(self.remove(id).map(|parts| parts.chunks.into_iter().flatten().collect::<Vec<_>>().concat()));
        }
        while self.messages.len() > MESSAGES_MAX || self.bytes > WAITING_BYTES_MAX {
            self.drop_oldest();
        }
        Ok(None)
    }

    /// Drops what waited too long at `now`; at the end, everything.
    pub fn expire(&mut self, now: MonoNs, is_last: bool) {
        let is_late = |parts: &Parts| is_last || now.since(parts.begun) > PATIENCE;
        let late = self.messages.extract_if(|_, parts| is_late(parts));
        for (_, parts) in late {
            self.bytes -= parts.bytes;
            self.dropped += 1;
        }
    }

    /// How many messages were dropped since this was asked last.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    fn remove(&mut self, id: [u8; 8]) -> Option<Parts> {
        let parts = self.messages.remove(&id)?;
        self.bytes -= parts.bytes;
        Some(parts)
    }

    fn drop_oldest(&mut self) {
        let oldest = self.messages.iter().min_by_key(|(_, parts)| parts.begun).map(|(id, _)| *id);
        oldest.and_then(|id| self.remove(id)).expect("there are messages above the limits");
        self.dropped += 1;
    }
}

impl Parts {
    fn new(count: u8, begun: MonoNs) -> Self {
        let count = usize::from(count);
        Self { begun, chunks: vec![None; count], missing: count, bytes: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(id: u64, number: u8, count: u8, bytes: &[u8]) -> Vec<u8> {
        [&MAGIC[..], &id.to_be_bytes(), &[number, count], bytes].concat()
    }

    #[test]
    fn chunks_come_in_any_order_and_more_than_once() {
        let mut assembly = Assembly::default();
        for (number, expected) in [(2, None), (0, None), (2, None), (1, Some(b"abc".to_vec()))] {
            let bytes = [b'a' + number];
            assert_eq!(assembly.add(&chunk(7, number, 3, &bytes), MonoNs(0)), Ok(expected));
            assert_eq!(assembly.add(&chunk(8, 0, 1, b"whole"), MonoNs(0)), Ok(Some(b"whole".to_vec())));
        }
        assert_eq!((assembly.messages.len(), assembly.bytes, assembly.dropped), (0, 0, 0));
    }

    #[test]
    fn chunks_that_contradict_are_refused() {
        let mut assembly = Assembly::default();
        assert_eq!(assembly.add(&chunk(7, 0, 2, b"a"), MonoNs(0)), Ok(None));
        for wrong in [
            chunk(7, 1, 3, b"b"),
            chunk(7, 2, 2, b"b"),
            chunk(7, 0, 0, b"b"),
            chunk(7, 128, 129, b"b"),
            chunk(7, 1, 2, b"")[..11].to_vec(),
            b"{\"host\":\"h\"}".to_vec(),
        ] {
            assert_eq!(assembly.add(&wrong, MonoNs(0)), Err(Contradiction), "{wrong:?}");
        }
        // A client that ends with an empty chunk does no harm.
        assert_eq!(assembly.add(&chunk(7, 1, 2, b""), MonoNs(0)), Ok(Some(b"a".to_vec())));
    }

    #[test]
    fn what_waits_is_bounded_in_number_bytes_and_time() {
        let mut assembly = Assembly::default();
        for id in 0..=MESSAGES_MAX as u64 {
            assert_eq!(assembly.add(&chunk(id, 0, 2, b"a"), MonoNs(id)), Ok(None));
        }
        assert_eq!((assembly.messages.len(), assembly.take_dropped()), (MESSAGES_MAX, 1));
        assert_eq!(assembly.add(&chunk(1, 1, 2, b"b"), MonoNs(0)), Ok(Some(b"ab".to_vec())), "the oldest alone went");
        assembly.expire(MonoNs(500).saturating_add(PATIENCE), false);
        assert_eq!(assembly.take_dropped(), 498, "begun at 2 to 499");
        assembly.expire(MonoNs(0), true);
        assert_eq!((assembly.messages.len(), assembly.bytes), (0, 0));
        assembly.take_dropped();
        let large = vec![0; WAITING_BYTES_MAX / 2];
        for id in 0..3 {
            assert_eq!(assembly.add(&chunk(id, 0, 2, &large), MonoNs(id)), Ok(None));
        }
        assert_eq!((assembly.messages.len(), assembly.bytes, assembly.take_dropped()), (2, WAITING_BYTES_MAX, 1));
    }

    #[test]
    fn any_datagrams_keep_little() {
        let mut assembly = Assembly::default();
        crate::mutations::mutations(&chunk(7, 1, 3, b"abc"), 20_000, 6, b"", |bytes| {
            let _ = assembly.add(bytes, MonoNs(0));
            let bytes: usize = assembly.messages.values().map(|parts| parts.bytes).sum();
            assert_eq!(assembly.bytes, bytes);
            assert!(assembly.messages.len() <= MESSAGES_MAX);
        });
    }
}
