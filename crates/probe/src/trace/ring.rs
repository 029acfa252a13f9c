//! The ring that keeps the last slow messages: writers never wait, a reader that is late finds the oldest overwritten.
//!
//! A writer takes the next ticket and claims the ticket's slot by making its sequence number odd, writes, and makes it
//! even. It gives up when another writer is in the slot or a later ticket was there, which needs a whole ring of
//! tickets taken while one writer wrote 120 bytes.
//!
//! *Invariants*: every ticket is read, overwritten, or unfinished (its writer is at it, has given up or was stopped);
//! what is read is what one writer wrote. *Threads*: any number of writers; one [`Reader`] at a time.
//!
//! *Format*: a slot is a sequence number (2 t + 1 while ticket t is written, 2 t + 2 after that) and 15 words.

use crate::memory::{Memory, Word};
use std::sync::atomic::Ordering;

/// Words of one message in the ring.
pub(crate) const WORDS: usize = 15;

/// 4,096 slots of 128 bytes are 512 KiB: at a thousand slow messages a second, a reader may be away for four seconds.
pub(crate) const SLOTS: usize = 4_096;

/// 15 words make it 128 bytes, and three words 64: two writers never share a cache line.
#[repr(C, align(64))]
struct Slot<M: Memory, const W: usize> {
    sequence: M::U64,
    words: [M::U64; W],
}

const _: () = assert!(size_of::<Slot<crate::memory::Machine, WORDS>>() == 128);

#[repr(align(128))]
struct Head<M: Memory>(M::U64);

pub(crate) struct Ring<M: Memory, const W: usize = WORDS> {
    head: Head<M>,
    slots: Box<[Slot<M, W>]>,
}

/// The reader's place in a ring.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The first ticket not looked at.
    next: u64,
    /// Tickets looked at whose writer had not finished.
    unfinished: Vec<u64>,
    pub(crate) read: u64,
    pub(crate) overwritten: u64,
}

enum Look<const W: usize> {
    Words([u64; W]),
    Overwritten,
    Unfinished,
}

impl<M: Memory, const W: usize> Ring<M, W> {
    /// An empty ring of `slots` slots.
    pub(crate) fn new(slots: usize) -> Self {
        let slot = |_| Slot { sequence: M::U64::new(0), words: std::array::from_fn(|_| M::U64::new(0)) };
        Self { head: Head(M::U64::new(0)), slots: (0..slots).map(slot).collect() }
    }

    /// Tickets issued so far.
    pub(crate) fn taken(&self) -> u64 {
        // ORDERING: Relaxed; a ticket says nothing of its slot, whose sequence number does.
        self.head.0.load(Ordering::Relaxed)
    }

    /// Writes a message over the oldest one.
    pub(crate) fn push(&self, words: [u64; W]) {
        // ORDERING: Relaxed; the slot's sequence number orders what is in the slot.
        let ticket = self.head.0.fetch_add(1, Ordering::Relaxed);
        let slot = self.slot(ticket);
        let writing = 2 * ticket + 1;
        // ORDERING: Relaxed; the exchange below decides.
        let sequence = slot.sequence.load(Ordering::Relaxed);
        let free = sequence.is_multiple_of(2) && sequence < writing;
        // ORDERING: Acquire; pairs with the Release at the end of an earlier writer in this slot, whose words thereby
        // come before ours.
        if !free || !slot.sequence.exchange_if(sequence, writing, Ordering::Acquire) {
            return;
        }
        // ORDERING: Release; pairs with the Acquire fence in `look`: a reader that sees a word stored below sees the
        // odd number.
        M::fence(Ordering::Release);
        for (word, value) in slot.words.iter().zip(words) {
            // ORDERING: Relaxed; the fence above and the Release below order the words.
            word.store(value, Ordering::Relaxed);
        }
        // ORDERING: Release; pairs with the Acquire in `look`; publishes the words.
        slot.sequence.store(writing + 1, Ordering::Release);
    }

    /// Writes a message over the oldest one, in a ring that only this thread writes; gives its ticket.
    #[inline]
    pub(crate) fn push_alone(&self, words: [u64; W]) -> u64 {
        // ORDERING: Relaxed; this thread alone stores it, and a ticket says nothing of its slot.
        let ticket = self.head.0.load(Ordering::Relaxed);
        self.head.0.store(ticket + 1, Ordering::Relaxed);
        let slot = self.slot(ticket);
        // ORDERING: Relaxed; the fence below orders it before the words.
        slot.sequence.store(2 * ticket + 1, Ordering::Relaxed);
        // ORDERING: Release; pairs with the Acquire fence in `look`, as in `push`.
        M::fence(Ordering::Release);
        for (word, value) in slot.words.iter().zip(words) {
            // ORDERING: Relaxed; the fence above and the Release below order the words.
            word.store(value, Ordering::Relaxed);
        }
        // ORDERING: Release; pairs with the Acquire in `look`; publishes the words.
        slot.sequence.store(2 * ticket + 2, Ordering::Release);
        ticket
    }

    /// The words of a ticket, if they are complete and not overwritten.
    #[inline]
    pub(crate) fn words(&self, ticket: u64) -> Option<[u64; W]> {
        match self.look(ticket) {
            Look::Words(words) => Some(words),
            Look::Overwritten | Look::Unfinished => None,
        }
    }

    fn slot(&self, ticket: u64) -> &Slot<M, W> {
        &self.slots[(ticket % self.slots.len() as u64) as usize]
    }

    fn look(&self, ticket: u64) -> Look<W> {
        let slot = self.slot(ticket);
        let written = 2 * ticket + 2;
        // ORDERING: Acquire; pairs with the Release at the end of `push`; the words are those of this number or later.
        match slot.sequence.load(Ordering::Acquire) {
            sequence if sequence < written => return Look::Unfinished,
            sequence if sequence > written => return Look::Overwritten,
            _ => {}
        }
        // ORDERING: Relaxed; checked by the second look at the number.
        let words = std::array::from_fn(|at| slot.words[at].load(Ordering::Relaxed));
        // ORDERING: Acquire; pairs with the Release fence in `push`.
        M::fence(Ordering::Acquire);
        // ORDERING: Relaxed; the fence above orders it after the words.
        if slot.sequence.load(Ordering::Relaxed) == written { Look::Words(words) } else { Look::Overwritten }
    }
}

impl Reader {
    /// Tickets whose writer has not finished, or never will.
    pub(crate) fn unfinished(&self) -> u64 {
        self.unfinished.len() as u64
    }

    /// Passes every message since the last call to `take`, oldest first except for late ones.
    pub(crate) fn drain<M: Memory, const W: usize>(&mut self, ring: &Ring<M, W>, mut take: impl FnMut([u64; W])) {
        let head = ring.taken();
        let oldest = head.saturating_sub(ring.slots.len() as u64);
        self.overwritten += oldest.saturating_sub(self.next);
        let fresh = self.next.max(oldest)..head;
        self.next = head;
        let late = std::mem::take(&mut self.unfinished);
        for ticket in late.into_iter().chain(fresh) {
            match ring.look(ticket) {
                Look::Words(words) => {
                    self.read += 1;
                    take(words);
                }
                Look::Overwritten => self.overwritten += 1,
                // A ticket one ring behind whose slot was not taken again was abandoned.
                Look::Unfinished if ticket < oldest => self.overwritten += 1,
                Look::Unfinished => self.unfinished.push(ticket),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Machine, Model};

    /// Two words show a mixture as well as fifteen, and the model has fewer orders to try.
    const W: usize = 2;

    fn message(number: u64) -> [u64; W] {
        [number; W]
    }

    fn drained<M: Memory>(reader: &mut Reader, ring: &Ring<M, W>) -> Vec<u64> {
        let mut numbers = Vec::new();
        reader.drain(ring, |words| {
            assert!(words.iter().all(|word| *word == words[0]), "a mixture: {words:?}");
            numbers.push(words[0]);
        });
        numbers
    }

    #[test]
    fn what_is_not_overwritten_is_read_once_and_in_order() {
        let (ring, mut reader) = (Ring::<Machine, W>::new(4), Reader::default());
        assert!(drained(&mut reader, &ring).is_empty());
        for (first, last, seen, overwritten) in
            [(1, 3, 1..=3, 0), (4, 7, 4..=7, 0), (8, 12, 9..=12, 1), (13, 30, 27..=30, 15)]
        {
            (first..=last).for_each(|number| ring.push(message(number)));
            assert_eq!(drained(&mut reader, &ring), seen.collect::<Vec<_>>());
            assert_eq!((reader.overwritten, reader.unfinished(), ring.taken()), (overwritten, 0, last));
        }
        assert_eq!(reader.read + reader.overwritten, 30);
    }

    #[test]
    fn a_message_whose_writer_is_held_up_comes_later_or_is_overwritten() {
        let (ring, mut reader) = (Ring::<Machine, W>::new(2), Reader::default());
        let hold = |ticket: u64| ring.slot(ticket).sequence.store(2 * ticket + 1, Ordering::Relaxed);
        let release = |ticket: u64| ring.slot(ticket).sequence.store(2 * ticket + 2, Ordering::Relaxed);
        ring.push(message(1));
        hold(0);
        assert_eq!((drained(&mut reader, &ring), reader.unfinished()), (vec![], 1));
        release(0);
        assert_eq!((drained(&mut reader, &ring), reader.unfinished()), (vec![1], 0));
        // Ticket 1 is held up while tickets 2 and 3 are taken: 3 finds its slot taken and gives up.
        ring.push(message(2));
        hold(1);
        ring.push(message(3));
        ring.push(message(4));
        assert_eq!((drained(&mut reader, &ring), reader.overwritten, reader.unfinished()), (vec![3], 1, 1));
        release(1);
        ring.push(message(5));
        ring.push(message(6));
        assert_eq!((drained(&mut reader, &ring), reader.overwritten, reader.unfinished()), (vec![5, 6], 2, 0));
        assert_eq!(reader.read + reader.overwritten, ring.taken());
    }

    /// Allowed: a ticket's own words, or none. Forbidden: a mixture, or the words of another ticket.
    #[test]
    #[cfg(not(miri))]
    fn model_a_ring_of_one_writer_gives_a_ticket_its_own_words_or_none() {
        loom::model(|| {
            let ring = loom::sync::Arc::new(Ring::<Model, W>::new(1));
            assert_eq!(ring.push_alone(message(10)), 0);
            let writer = {
                let ring = ring.clone();
                loom::thread::spawn(move || assert_eq!(ring.push_alone(message(11)), 1))
            };
            for (ticket, own) in [(0, 10), (1, 11)] {
                let words = ring.words(ticket);
                assert!(words.is_none_or(|words| words == message(own)), "{ticket}: {words:?}");
            }
            writer.join().expect("a writer only writes");
            assert_eq!((ring.words(0), ring.words(1)), (None, Some(message(11))));
        });
    }

    /// Allowed: a message read whole, overwritten, or unfinished. Forbidden: a mixture of two messages, a message read
    /// twice, a ticket without an outcome.
    #[test]
    #[cfg(not(miri))]
    fn model_no_reader_sees_a_mixture() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let ring = loom::sync::Arc::new(Ring::<Model, W>::new(1));
            let writers = [1, 2].map(|number| {
                let ring = ring.clone();
                loom::thread::spawn(move || ring.push(message(number)))
            });
            let mut reader = Reader::default();
            let mut numbers = drained(&mut reader, &ring);
            writers.into_iter().for_each(|writer| writer.join().expect("a writer only writes"));
            numbers.extend(drained(&mut reader, &ring));
            assert!(numbers != [1, 1] && numbers != [2, 2], "read twice");
            assert_eq!(reader.read, numbers.len() as u64);
            assert_eq!(reader.read + reader.overwritten + reader.unfinished(), ring.taken());
        });
    }
}
