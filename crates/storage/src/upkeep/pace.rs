//! A bound on bytes a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ogive_probe::Clock;

/// 100 ms: the longest sleep between two checks whether the server is stopping.
const NAP: Duration = Duration::from_millis(100);

/// The server ends, and the work with it.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the server is ending")]
pub struct ServerEnding;

/// Waits so that no more than `rate` bytes a second are spent.
pub struct Pacer {
    clock: Clock,
    /// Bytes a second; a later request may raise it.
    rate: Arc<AtomicU64>,
    /// When the bytes so far are paid for.
    paid_ns: u64,
    ending: Arc<AtomicBool>,
}

impl Pacer {
    /// `rate` 0 is no bound.
    pub fn new(clock: Clock, rate: Arc<AtomicU64>, ending: Arc<AtomicBool>) -> Self {
        Self { clock, rate, paid_ns: clock.now(), ending }
    }

    /// Spends `bytes` and waits until they are paid for.
    pub fn spend(&mut self, bytes: u64) -> Result<(), ServerEnding> {
        // ORDERING: Relaxed; a number by itself.
        let rate = self.rate.load(Ordering::Relaxed);
        let now = self.clock.now();
        // Unused budget of the past does not accumulate.
        self.paid_ns = self.paid_ns.max(now).saturating_add(due_ns(bytes, rate));
        loop {
            // ORDERING: Relaxed; the flag guards no other memory.
            if self.ending.load(Ordering::Relaxed) {
                return Err(ServerEnding);
            }
            let left = Duration::from_nanos(self.paid_ns.saturating_sub(self.clock.now()));
            // Less than a millisecond is added to the next bytes: a sleep would take longer.
            if left < Duration::from_millis(1) {
                return Ok(());
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}

/// How long `bytes` take at `rate` bytes a second.
fn due_ns(bytes: u64, rate: u64) -> u64 {
    let due = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    if rate == 0 { 0 } else { u64::try_from(due).unwrap_or(u64::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_their_time() {
        assert_eq!(
            (due_ns(1 << 20, 1 << 20), due_ns(1, 2_000_000_000), due_ns(u64::MAX, 1)),
            (1_000_000_000, 0, u64::MAX)
        );
        assert_eq!(due_ns(u64::MAX, 0), 0);
    }

    #[test]
    fn the_end_of_the_server_ends_the_wait() {
        let ending = Arc::new(AtomicBool::new(true));
        assert!(Pacer::new(Clock::global(), Arc::new(AtomicU64::new(1)), ending).spend(u64::MAX).is_err());
        assert!(Pacer::new(Clock::global(), Arc::default(), Arc::default()).spend(u64::MAX).is_ok());
    }
}
