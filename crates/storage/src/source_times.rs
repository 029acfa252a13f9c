//! How far the data of each sender has come: what a rule waits for before it looks at an instant.
//!
//! Limits: [`SOURCES_MAX`] senders are remembered; of more nobody is waited for.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// A sender that was silent for a minute is not waited for.
const SILENT_MS: i64 = 60_000;
/// 10,000 senders: 640 KB.
const SOURCES_MAX: usize = 10_000;

/// By sender, the latest time of its data, and when that arrived; milliseconds.
#[derive(Debug, Default)]
pub struct SourceTimes(Mutex<HashMap<u128, (i64, i64)>>);

impl SourceTimes {
    /// A sender brought data of `time_ms`.
    pub fn heard(&self, source: u128, time_ms: i64, now_ms: i64) {
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.len() >= SOURCES_MAX && !sources.contains_key(&source) {
            sources.retain(|_, (_, heard)| now_ms - *heard < SILENT_MS);
            if sources.len() >= SOURCES_MAX {
                return;
            }
        }
        let known = sources.entry(source).or_insert((time_ms, now_ms));
        *known = (known.0.max(time_ms), now_ms);
    }

    /// Whether every sender of the last minute has brought data up to `time_ms`.
    pub fn have(&self, time_ms: i64, now_ms: i64) -> bool {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sources.values().all(|(latest, heard)| *latest >= time_ms || now_ms - heard >= SILENT_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_sender_is_waited_for_and_a_silent_one_is_not() {
        let times = SourceTimes::default();
        assert!(times.have(1000, 1000));
        times.heard(1, 1000, 1000);
        times.heard(2, 500, 1000);
        times.heard(2, 400, 1001);
        assert!(times.have(500, 1001));
        assert!(!times.have(501, 1001));
        assert!(times.have(501, 1001 + SILENT_MS));
        for source in 0..2 * SOURCES_MAX as u128 {
            times.heard(source, 2000, 2000);
        }
        assert!(times.0.lock().unwrap().len() <= SOURCES_MAX);
    }
}
