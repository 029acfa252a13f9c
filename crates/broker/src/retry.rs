//! Records to be sent again, with their bytes in memory.
//!
//! Invariants: a record that fails again and again does not hold up others: after [`TRIES`] it is sent apart from the
//! rest, alone until one of its kind is accepted, and only after twice as many other requests as the last time, unless
//! there is nothing else to send. All that fail together get at most every second request while there is something
//! else.
//! Limits: beyond [`BYTES_MAX`] or [`RECORDS_MAX`] nothing new is started, so an unreachable destination does not fill
//! the memory.

use std::collections::BTreeMap;

use crate::Entry;

/// 2: the first failure may be that of the address, or of another record of the same request.
const TRIES: u32 = 2;
/// 512 requests at most between two tries of one record.
const PAUSE_SHIFT_MAX: u32 = 9;
/// 8 MiB, or one record that is larger.
const BYTES_MAX: usize = 8 << 20;
/// 1,024 failing records are skipped; more indicate a problem of the destination itself.
const RECORDS_MAX: usize = 1_024;

#[derive(Debug)]
struct WaitingRecord {
    entry: Entry,
    failures: u32,
    /// The request before which it is not retried.
    due: u64,
}

/// The request before which a record with that many failures is not retried; `turn` is the number of the next one.
pub(crate) fn due(failures: u32, turn: u64) -> u64 {
    turn + (1 << failures.saturating_sub(TRIES).min(PAUSE_SHIFT_MAX))
}

/// Whether a record with that many failures is sent apart from the others.
pub(crate) const fn is_slow(failures: u32) -> bool {
    failures >= TRIES
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    /// Those that are sent like any other.
    usual: BTreeMap<u64, WaitingRecord>,
    /// Those that failed repeatedly.
    slow: BTreeMap<u64, WaitingRecord>,
    bytes: usize,
}

impl Retry {
    /// It goes with the next request. `failures`: how often it failed before.
    pub(crate) fn again(&mut self, entry: Entry, failures: u32) {
        self.put(WaitingRecord { entry, failures, due: 0 });
    }

    /// It failed once more; `turn` is the number of the next request.
    pub(crate) fn failed(&mut self, entry: Entry, failures: u32, turn: u64) {
        let failures = failures.saturating_add(1);
        self.put(WaitingRecord { entry, failures, due: due(failures, turn) });
    }

    fn put(&mut self, waiting: WaitingRecord) {
        self.bytes += waiting.entry.frame.len();
        let all = if is_slow(waiting.failures) { &mut self.slow } else { &mut self.usual };
        let before = all.insert(waiting.entry.position, waiting);
        assert!(before.is_none(), "a record fails once while it is on its way");
    }

    fn taken(&mut self, waiting: WaitingRecord) -> (Entry, u32) {
        assert!(self.bytes >= waiting.entry.frame.len(), "its bytes were counted when it came");
        self.bytes -= waiting.entry.frame.len();
        (waiting.entry, waiting.failures)
    }

    /// The first that may be sent with others, and how often it failed.
    pub(crate) fn usual(&mut self) -> Option<(Entry, u32)> {
        let (_, waiting) = self.usual.pop_first()?;
        Some(self.taken(waiting))
    }

    pub(crate) fn has_usual(&self) -> bool {
        !self.usual.is_empty()
    }

    /// One of those that are sent apart: the one that has been due longest, if it is due by `turn`.
    pub(crate) fn slow(&mut self, turn: u64) -> Option<(Entry, u32)> {
        let (due, position) = self.slow.iter().map(|(position, waiting)| (waiting.due, *position)).min()?;
        let waiting = if due <= turn { self.slow.remove(&position) } else { None }?;
        assert!(is_slow(waiting.failures), "what failed {} times goes with the others", waiting.failures);
        Some(self.taken(waiting))
    }

    /// Nothing new may be begun.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= BYTES_MAX || self.usual.len() + self.slow.len() >= RECORDS_MAX
    }

    pub(crate) fn contains(&self, position: u64) -> bool {
        self.usual.contains_key(&position) || self.slow.contains_key(&position)
    }

    /// Forgets those before `end`.
    pub(crate) fn forget_before(&mut self, end: u64) {
        for all in [&mut self.usual, &mut self.slow] {
            let kept = all.split_off(&end);
            let gone = std::mem::replace(all, kept);
            let freed = gone.values().map(|waiting| waiting.entry.frame.len()).sum::<usize>();
            assert!(self.bytes >= freed, "their bytes were counted when they came");
            self.bytes -= freed;
        }
        assert!(self.bytes == 0 || self.usual.len() + self.slow.len() > 0, "{} bytes of nothing", self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::WallMs;

    use super::*;

    fn entry(position: u64, bytes: usize) -> Entry {
        Entry { position, arrival: WallMs(1), frame: vec![0; bytes].into() }
    }

    #[test]
    fn who_fails_again_goes_alone_and_ever_more_rarely() {
        let mut retry = Retry::default();
        retry.again(entry(7, 3), 0);
        let (failed, failures) = retry.usual().unwrap();
        retry.failed(failed, failures, 10);
        let (mut failed, mut failures) = retry.usual().unwrap();
        assert_eq!((failures, retry.has_usual()), (1, false));
        let (mut turn, mut pauses) = (10, Vec::new());
        for _ in 0..12 {
            retry.failed(failed, failures, turn);
            assert!(retry.usual().is_none() && retry.contains(7));
            let due = (turn..).find(|turn| retry.slow.values().all(|waiting| waiting.due <= *turn)).unwrap();
            assert!(retry.slow(due - 1).is_none());
            pauses.push(due - turn);
            (failed, failures) = retry.slow(due).unwrap();
            turn = due;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 512, 512]);
        assert!(!retry.contains(7) && retry.bytes == 0);
    }

    #[test]
    fn it_is_full_at_its_limits_and_has_room_again() {
        let mut retry = Retry::default();
        retry.again(entry(0, BYTES_MAX - 1), 0);
        assert!(!retry.is_full());
        retry.failed(entry(1, 1), 5, 0);
        assert!(retry.is_full());
        retry.forget_before(1);
        assert!(!retry.is_full() && retry.contains(1) && !retry.contains(0));
        (2..=RECORDS_MAX as u64).for_each(|position| retry.again(entry(position, 1), 0));
        assert!(retry.is_full());
        retry.usual().unwrap();
        assert!(!retry.is_full());
    }
}
