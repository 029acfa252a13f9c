//! What a thread does while a ring is empty, or full.

use std::time::Duration;

/// How to wait. What each costs (`cargo bench -p ogive-protocol --bench stream -- wait`) is in docs/stream.md.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Looks again at once: the shortest delay, and a whole core while nothing comes.
    Spin,
    /// Lets others run between two looks: a whole core too, but one that others can have.
    Yield,
    /// Sleeps, longer each time nothing came, up to a millisecond: next to no CPU, and up to a millisecond of delay.
    #[default]
    Park,
}

/// Looks in a row that find nothing before [`Wait::Park`] sleeps: what comes in bursts is met awake.
const LOOKS: u32 = 64;
/// The first sleep; each one after it takes twice as long.
const SLEEP_MIN: Duration = Duration::from_micros(50);
/// The longest one.
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// A wait that goes on.
#[derive(Debug)]
pub(crate) struct Waiting {
    wait: Wait,
    looks: u32,
}

impl Waiting {
    pub(crate) const fn new(wait: Wait) -> Self {
        Self { wait, looks: 0 }
    }

    /// Something came.
    pub(crate) const fn done(&mut self) {
        self.looks = 0;
    }

    /// Nothing came.
    pub(crate) fn pause(&mut self) {
        self.looks = self.looks.saturating_add(1);
        match self.wait {
            Wait::Spin => std::hint::spin_loop(),
            Wait::Yield => std::thread::yield_now(),
            Wait::Park if self.looks < LOOKS => std::hint::spin_loop(),
            Wait::Park => {
                let doubled = SLEEP_MIN * (1 << (self.looks - LOOKS).min(5));
                std::thread::sleep(doubled.min(SLEEP_MAX));
            }
        }
    }
}
