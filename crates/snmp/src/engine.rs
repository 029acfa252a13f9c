//! Boots and times of engines (RFC 3414, section 2.2): ours, to which informs are sent, and those that send traps.
//!
//! Invariants: an engine's boots and time never decrease; ours do not where the clock is not set back between two
//! starts.
//! Limits: [`ENGINES_MAX`].

use std::collections::HashMap;

use async_snmp::v3::{MAX_ENGINE_TIME, TIME_WINDOW, compute_engine_boots_time, in_authoritative_time_window};
use bytes::Bytes;

/// 8,192 engines that sign their traps, 100 bytes each. Of more the one that was silent longest is forgotten.
const ENGINES_MAX: usize = 8_192;

/// 2020-01-01, in seconds since 1970: boots have 31 bits, which last until 2088.
const BOOTS_FROM_S: i64 = 1_577_836_800;

/// Ours. Its boots are the seconds from 2020 to the start: they rise with every start as a stored counter would, and a
/// server whose data is restored, or that has none, has no counter to lose.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) id: Bytes,
    boots: u32,
}

impl Engine {
    /// It started at `started_s`, in seconds since 1970.
    pub(crate) fn new(id: Bytes, started_s: i64) -> Self {
        let boots = (started_s - BOOTS_FROM_S).clamp(1, i64::from(MAX_ENGINE_TIME) - 1);
        Self { id, boots: u32::try_from(boots).expect("it was clamped") }
    }

    /// Boots and time after so many seconds.
    pub(crate) fn now(&self, up_s: u64) -> (u32, u32) {
        compute_engine_boots_time(self.boots, up_s)
    }

    /// Whether a message with these boots and this time is in its window.
    pub(crate) fn is_timely(&self, boots: u32, time: u32, up_s: u64) -> bool {
        let (own_boots, own_time) = self.now(up_s);
        in_authoritative_time_window(own_boots, own_time, boots, time)
    }
}

/// What is known of an engine that sends traps.
#[derive(Clone, Copy, Debug)]
struct KnownEngine {
    boots: u32,
    /// The latest time that it said.
    time: u32,
    /// When it said so.
    at_s: u64,
    /// When its last message came.
    seen_s: u64,
}

/// Engines that send traps.
#[derive(Debug, Default)]
pub(crate) struct Senders {
    /// By the engine and the user: what one user signs says nothing of the traps of another.
    known: HashMap<(Bytes, Bytes), KnownEngine>,
}

impl Senders {
    /// Whether a message that `user` of `engine` signed is in the window (RFC 3414, section 3.2, step 7 b); what it
    /// says is remembered.
    pub(crate) fn is_timely(&mut self, engine: &[u8], user: &[u8], boots: u32, time: u32, up_s: u64) -> bool {
        // No engine that may be believed says so, and nothing would come after it.
        if boots == MAX_ENGINE_TIME {
            return false;
        }
        // Copies: slices would hold their datagram.
        let key = (Bytes::copy_from_slice(engine), Bytes::copy_from_slice(user));
        let Some(known) = self.known.get_mut(&key) else {
            self.make_room();
            self.known.insert(key, KnownEngine { boots, time, at_s: up_s, seen_s: up_s });
            return true;
        };
        known.seen_s = up_s;
        if (boots, time) > (known.boots, known.time) {
            (known.boots, known.time, known.at_s) = (boots, time, up_s);
        }
        let expected = u64::from(known.time) + up_s.saturating_sub(known.at_s);
        boots == known.boots && u64::from(time) + u64::from(TIME_WINDOW) >= expected
    }

    fn make_room(&mut self) {
        if self.known.len() < ENGINES_MAX {
            return;
        }
        let oldest = self.known.iter().min_by_key(|(_, known)| known.seen_s).map(|(id, _)| id.clone());
        if let Some(oldest) = oldest {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_boots_rise_with_every_start() {
        let boots = |started_s: i64| Engine::new(Bytes::from_static(b"\x80\0\0\0\x05x"), started_s).now(0).0;
        assert_eq!((boots(0), boots(BOOTS_FROM_S), boots(BOOTS_FROM_S + 7)), (1, 1, 7));
        assert!(boots(1_800_000_001) > boots(1_800_000_000));
        assert_eq!(boots(i64::MAX / 2), MAX_ENGINE_TIME - 1);
        let engine = Engine::new(Bytes::from_static(b"\x80\0\0\0\x05x"), BOOTS_FROM_S + 7);
        assert!(engine.is_timely(7, 0, 150) && !engine.is_timely(7, 0, 151) && !engine.is_timely(6, 150, 150));
    }

    #[test]
    fn traps_are_taken_in_their_window() {
        let mut senders = Senders::default();
        for (boots, time, up_s, expected) in [
            (3, 1_000, 0, true),
            // Late, within the window and outside.
            (3, 900, 50, true),
            (3, 899, 50, false),
            // Its clock is ahead.
            (3, 9_000, 50, true),
            (3, 8_850, 51, false),
            // It started again, and what it sent before comes late.
            (4, 0, 60, true),
            (3, 9_100, 61, false),
            (MAX_ENGINE_TIME, 0, 62, false),
            (4, 10, 63, true),
        ] {
            assert_eq!(senders.is_timely(b"engine", b"user", boots, time, up_s), expected, "{boots} {time} {up_s}");
        }
        assert!(senders.is_timely(b"other", b"user", 1, 1, 0));
        // Another user, who says that the engine is far ahead, keeps nobody out.
        assert!(senders.is_timely(b"engine", b"thief", MAX_ENGINE_TIME - 1, 0, 64));
        assert!(senders.is_timely(b"engine", b"user", 4, 11, 64));
    }

    #[test]
    fn engines_have_a_limit() {
        let mut senders = Senders::default();
        for at in 0..ENGINES_MAX as u64 + 1 {
            assert!(senders.is_timely(&at.to_be_bytes(), b"", 2, 2, at));
        }
        assert_eq!(senders.known.len(), ENGINES_MAX);
        // The first is forgotten: what it says is new. The second is not.
        assert!(!senders.is_timely(&1_u64.to_be_bytes(), b"", 1, 1, ENGINES_MAX as u64));
        assert!(senders.is_timely(&0_u64.to_be_bytes(), b"", 1, 1, ENGINES_MAX as u64));
    }
}
