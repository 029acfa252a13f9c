//! How many messages of a queue are in flight at once: as many as are allowed, and fewer of large ones, as the server
//! counts messages and not bytes.

/// 32 MiB of messages of all queues of a connection, about: what is decoded and written of them takes some times as
/// much.
const BYTES: f64 = (32 << 20) as f64;
/// 32 messages are enough to know how large they are.
const FIRST: u16 = 32;

/// See the module.
pub(crate) struct Room {
    most: u16,
    now: u16,
    /// Of messages.
    bytes: f64,
    /// Bytes of a message, of the last ones more than of those before.
    mean: f64,
    /// Messages since the number was chosen.
    seen: u16,
}

impl Room {
    /// With `most` messages at the most, of one of `queues` queues that share the bytes.
    pub(crate) fn new(most: u16, queues: usize) -> Self {
        assert!(queues > 0, "whoever reads has a queue");
        Self { most, now: most.min(FIRST), bytes: BYTES / queues as f64, mean: 0.0, seen: 0 }
    }

    /// How many there are now.
    pub(crate) const fn prefetch(&self) -> u16 {
        self.now
    }

    /// A message came. True when another number is so much better that the server needs to know.
    pub(crate) fn saw(&mut self, bytes: usize) -> bool {
        let share = if self.mean > 0.0 { 1.0 / f64::from(FIRST) } else { 1.0 };
        self.mean += (bytes.max(1) as f64 - self.mean) * share;
        self.seen = self.seen.saturating_add(1);
        let wanted = (self.bytes / self.mean).clamp(1.0, f64::from(self.most)) as u16;
        let is_better = wanted >= self.now.saturating_mul(2) || wanted <= self.now / 2;
        if !is_better || self.seen < FIRST.min(self.now) {
            return false;
        }
        (self.now, self.seen) = (wanted, 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that are chosen while `count` messages of `bytes` come.
    fn numbers(room: &mut Room, count: usize, bytes: usize) -> Vec<u16> {
        let mut number = |_| if room.saw(bytes) { Some(room.prefetch()) } else { None };
        (0..count).filter_map(&mut number).collect()
    }

    #[test]
    fn small_messages_have_all_the_room_and_large_ones_less() {
        let mut room = Room::new(10_000, 1);
        assert_eq!(room.prefetch(), FIRST);
        assert_eq!(numbers(&mut room, 1_000, 200), [10_000]);
        let shrunk = numbers(&mut room, 1_000, 1 << 20);
        assert!(
            shrunk.windows(2).all(|pair| pair[1] <= pair[0] / 2) && (24..=64).contains(&room.prefetch()),
            "{shrunk:?}"
        );
        numbers(&mut room, 1_000, 64 << 20);
        assert_eq!(room.prefetch(), 1);
        numbers(&mut room, 1_000, 100);
        assert!(room.prefetch() > 5_000);
    }

    #[test]
    fn who_allows_few_gets_no_more() {
        let mut room = Room::new(3, 1);
        assert_eq!((room.prefetch(), numbers(&mut room, 100, 10)), (3, vec![]));
        assert_eq!(numbers(&mut room, 100, 64 << 20), [1]);
    }

    #[test]
    fn queues_of_one_connection_share_its_bytes() {
        let mut room = Room::new(10_000, 8);
        numbers(&mut room, 1_000, 1 << 20);
        assert!((3..=8).contains(&room.prefetch()), "{}", room.prefetch());
    }
}
