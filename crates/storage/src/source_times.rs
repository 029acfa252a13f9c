//! How far the data of each sender has come: what a rule waits for before it looks at an instant.
//!
//! Limits: [`SOURCES_MAX`] senders are remembered; of more nobody is waited for.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ogive_model::{Ms, WallMs};

/// A sender that was silent for a minute is not waited for.
const SILENT: Ms = Ms::from_secs(60);
/// 10,000 senders: 640 KB.
const SOURCES_MAX: usize = 10_000;

/// By sender, the latest time of its data, and when that arrived.
#[derive(Debug, Default)]
pub struct SourceTimes(Mutex<HashMap<u128, (WallMs, WallMs)>>);

impl SourceTimes {
    /// A sender brought data of `time`.
    pub fn heard(&self, source: u128, time: WallMs, now: WallMs) {
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.len() >= SOURCES_MAX && !sources.contains_key(&source) {
            sources.retain(|_, (_, heard)| now - *heard < SILENT);
            if sources.len() >= SOURCES_MAX {
                return;
            }
        }
        let known = sources.entry(source).or_insert((time, now));
        *known = (known.0.max(time), now);
    }

    /// Whether every sender of the last minute has brought data up to `time`.
    pub fn have(&self, time: WallMs, now: WallMs) -> bool {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sources.values().all(|(latest, heard)| *latest >= time || now - *heard >= SILENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_sender_is_waited_for_and_a_silent_one_is_not() {
        let times = SourceTimes::default();
        assert!(times.have(WallMs(1000), WallMs(1000)));
        times.heard(1, WallMs(1000), WallMs(1000));
        times.heard(2, WallMs(500), WallMs(1000));
        times.heard(2, WallMs(400), WallMs(1001));
        assert!(times.have(WallMs(500), WallMs(1001)));
        assert!(!times.have(WallMs(501), WallMs(1001)));
        assert!(times.have(WallMs(501), WallMs(1001) + SILENT));
        for source in 0..2 * SOURCES_MAX as u128 {
            times.heard(source, WallMs(2000), WallMs(2000));
        }
        assert!(times.0.lock().unwrap().len() <= SOURCES_MAX);
    }
}
