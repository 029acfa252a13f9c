//! A bound on bytes a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ogive_model::{MonoNs, Ns};
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
    paid: MonoNs,
    ending: Arc<AtomicBool>,
}

impl Pacer {
    /// `rate` 0 is no bound.
    pub fn new(clock: Clock, rate: Arc<AtomicU64>, ending: Arc<AtomicBool>) -> Self {
        Self { clock, rate, paid: MonoNs(clock.now()), ending }
    }

    /// Spends `bytes` and waits until they are paid for.
    pub fn spend(&mut self, bytes: u64) -> Result<(), ServerEnding> {
        // ORDERING: Relaxed; a number by itself.
        let rate = self.rate.load(Ordering::Relaxed);
        let now = MonoNs(self.clock.now());
        // Unused budget of the past does not accumulate.
        self.paid = self.paid.max(now).saturating_add(due(bytes, rate));
        loop {
            // ORDERING: Relaxed; the flag guards no other memory.
            if self.ending.load(Ordering::Relaxed) {
                return Err(ServerEnding);
            }
            let left = self.paid.since(MonoNs(self.clock.now())).to_duration();
            // Less than a millisecond is added to the next bytes: a sleep would take longer.
            if left < Duration::from_millis(1) {
                return Ok(());
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}

/// How long `bytes` take at `rate` bytes a second.
fn due(bytes: u64, rate: u64) -> Ns {
    let due = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    if rate == 0 { Ns::ZERO } else { Ns(i64::try_from(due).unwrap_or(i64::MAX)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_their_time() {
        assert_eq!(
            (due(1 << 20, 1 << 20), due(1, 2_000_000_000), due(u64::MAX, 1)),
            (Ns::from_secs(1), Ns::ZERO, Ns::MAX)
        );
        assert_eq!(due(u64::MAX, 0), Ns::ZERO);
    }

    #[test]
    fn the_end_of_the_server_ends_the_wait() {
        let ending = Arc::new(AtomicBool::new(true));
        assert!(Pacer::new(Clock::global(), Arc::new(AtomicU64::new(1)), ending).spend(u64::MAX).is_err());
        assert!(Pacer::new(Clock::global(), Arc::default(), Arc::default()).spend(u64::MAX).is_ok());
    }
}
