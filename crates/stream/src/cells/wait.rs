//! How a thread waits while a ring is empty or full.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How to wait. What each costs (`cargo bench -p ogive-protocol --bench stream -- wait`) is in docs/stream.md.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Polls continuously: the shortest delay, and a whole core while nothing arrives.
    Spin,
    /// Yields between two polls: a whole core too, but one that others can use.
    Yield,
    /// Sleeps, longer each time nothing arrived, up to a millisecond: next to no CPU, and up to a millisecond of delay.
    #[default]
    Park,
    /// Polls, then yields, then sleeps: the delay of a spin while items arrive often, next to no CPU while none do.
    Hybrid(Hybrid),
}

/// When a [`Wait::Hybrid`] switches to its next method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hybrid {
    /// Consecutive empty polls.
    pub spins: u32,
    /// Polls after those with a yield in between.
    pub yields: u32,
    /// The longest sleep after those, microseconds; the first ones are shorter.
    pub park_us: u32,
}

impl Hybrid {
    /// 100,000,000 polls take some seconds: for more, use [`Wait::Spin`].
    pub const LOOKS_MAX: u32 = 100_000_000;
    /// A second: a cell that waits for longer is late for everybody.
    pub const PARK_US_MAX: u32 = 1_000_000;
}

impl Default for Hybrid {
    /// 2,000 polls take some 20 us, 200 yields as much on a machine that is not busy: bursts are received awake. 500 us
    /// are half of the sleep of `Park`.
    fn default() -> Self {
        Self { spins: 2_000, yields: 200, park_us: 500 }
    }
}

impl FromStr for Wait {
    type Err = String;

    /// `spin`, `yield`, `park`, `hybrid`, or `hybrid:SPINS:YIELDS:PARK` with the longest sleep in microseconds.
    fn from_str(text: &str) -> Result<Self, String> {
        const USAGE: &str =
            "give spin, yield, park, hybrid, or hybrid:SPINS:YIELDS:PARK_US such as hybrid:2000:200:500";
        match text {
            "spin" => return Ok(Self::Spin),
            "yield" => return Ok(Self::Yield),
            "park" => return Ok(Self::Park),
            "hybrid" => return Ok(Self::Hybrid(Hybrid::default())),
            _ => {}
        }
        let rest = text.strip_prefix("hybrid:").ok_or(USAGE)?;
        let numbers = rest.split(':').map(str::parse).collect::<Result<Vec<u32>, _>>().map_err(|_| USAGE)?;
        let [spins, yields, park_us] = numbers[..] else { return Err(USAGE.into()) };
        if spins.max(yields) > Hybrid::LOOKS_MAX {
            return Err(format!("{} looks at the most", Hybrid::LOOKS_MAX));
        }
        if !(1..=Hybrid::PARK_US_MAX).contains(&park_us) {
            return Err(format!("sleep from 1 to {} us", Hybrid::PARK_US_MAX));
        }
        Ok(Self::Hybrid(Hybrid { spins, yields, park_us }))
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spin => out.write_str("spin"),
            Self::Yield => out.write_str("yield"),
            Self::Park => out.write_str("park"),
            Self::Hybrid(Hybrid { spins, yields, park_us }) => write!(out, "hybrid:{spins}:{yields}:{park_us}"),
        }
    }
}

/// Consecutive empty polls before [`Wait::Park`] sleeps, so that bursts are received awake.
const LOOKS: u32 = 64;
/// The first sleep; each further one is twice as long.
const SLEEP_MIN: Duration = Duration::from_micros(50);
/// The longest one.
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// The state of a wait.
#[derive(Debug)]
pub(crate) struct WaitInProgress {
    wait: Wait,
    looks: u32,
}

impl WaitInProgress {
    pub(crate) const fn new(wait: Wait) -> Self {
        Self { wait, looks: 0 }
    }

    /// Something arrived.
    pub(crate) const fn done(&mut self) {
        self.looks = 0;
    }

    /// Nothing arrived.
    pub(crate) fn pause(&mut self) {
        self.looks = self.looks.saturating_add(1);
        match self.wait {
            Wait::Spin => std::hint::spin_loop(),
            Wait::Yield => std::thread::yield_now(),
            Wait::Park if self.looks < LOOKS => std::hint::spin_loop(),
            Wait::Park => sleep(self.looks - LOOKS, SLEEP_MAX),
            Wait::Hybrid(Hybrid { spins, .. }) if self.looks <= spins => std::hint::spin_loop(),
            Wait::Hybrid(Hybrid { spins, yields, .. }) if self.looks - spins <= yields => std::thread::yield_now(),
            Wait::Hybrid(Hybrid { spins, yields, park_us }) => {
                sleep(self.looks - spins - yields - 1, Duration::from_micros(park_us.into()));
            }
        }
    }
}

/// Sleeps for the `times`-th time in a row, twice as long each time.
fn sleep(times: u32, most: Duration) {
    // 2^15 times the first one is more than any that may be.
    std::thread::sleep((SLEEP_MIN * (1 << times.min(15))).min(most));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_wait_are_read_as_they_are_written() {
        for text in ["spin", "yield", "park", "hybrid:1:0:1", "hybrid:100000000:100000000:1000000"] {
            assert_eq!(text.parse::<Wait>().unwrap().to_string(), text);
        }
        assert_eq!("hybrid".parse(), Ok(Wait::Hybrid(Hybrid::default())));
        for wrong in [
            "",
            "hybrid:",
            "hybrid:1:2",
            "hybrid:1:2:0",
            "hybrid:1:2:1000001",
            "hybrid:100000001:1:1",
            "hybrid:1:100000001:1",
            "nap",
        ] {
            assert!(wrong.parse::<Wait>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_hybrid_wait_goes_through_its_ways_and_begins_anew() {
        let mut waiting = WaitInProgress::new(Wait::Hybrid(Hybrid { spins: 3, yields: 2, park_us: 1 }));
        (0..100).for_each(|_| waiting.pause());
        assert_eq!(waiting.looks, 100);
        waiting.done();
        assert_eq!(waiting.looks, 0);
        // No number of looks is too many.
        waiting.looks = u32::MAX;
        waiting.pause();
    }
}
