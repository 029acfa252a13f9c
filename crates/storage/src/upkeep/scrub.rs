//! Scrubbing: now and then by itself, and when somebody asks.
//!
//! Threads: one looks at the directories now and then and begins the scrub that is due, another scrubs. Limits: the
//! rate of `--scrub-rate`, or of who asks, whichever is greater while one goes on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use ogive_journal::Error as DiskError;
use ogive_model::{MonoNs, WallMs, WallNs};
use ogive_store::Scrubbed;

use super::{Pacer, Upkeep, Work};

/// 10 minutes after the start: a server that is restarted often scrubs too, and a starting server has other work.
const FIRST: Duration = Duration::from_secs(600);
/// 5 s between two checks whether each directory is still there: one small file is read.
const LOOK: Duration = Duration::from_secs(5);
/// A day between two scrubs: a bad sector is found long before its copy fails too.
const INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// 256 MiB/s on request: half the read speed of a fast disk.
pub const ASKED_RATE: u64 = 256 << 20;

/// The scrubs of a server.
#[derive(Default)]
pub struct Scrub {
    /// The running one.
    pub work: Arc<Work>,
    /// Bytes a second of the running one.
    rate: Arc<AtomicU64>,
    last: Mutex<(ScrubTotals, Option<Scrubbed>)>,
    timer: Mutex<Option<JoinHandle<()>>>,
}

/// Totals of all scrubs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubTotals {
    /// Bytes that were read.
    pub bytes: u64,
    /// Places that were found bad.
    pub errors: u64,
    /// Places that were rewritten from a good copy.
    pub healed: u64,
    /// When one last completed; 0: never.
    pub completed: WallMs,
}

impl Scrub {
    /// The totals, and the findings of the last one.
    pub fn state(&self) -> (ScrubTotals, Option<Scrubbed>) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the timer and waits for a scrub that ends with the server.
    pub(super) fn stop(&self) {
        let timer = self.timer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(timer) = timer {
            timer.thread().unpark();
            let _ = timer.join();
        }
        self.work.join();
    }
}

impl Upkeep {
    /// Checks the directories every `LOOK`, and scrubs once a day at `rate` bytes a second; 0: never.
    pub fn watch(&self, rate: u64) -> anyhow::Result<()> {
        let own = self.clone();
        let run = move || {
            let mut due = MonoNs(own.clock.now()).saturating_add(FIRST.into());
            // ORDERING: Relaxed; the flag guards no other memory.
            while !own.ending.load(Ordering::Relaxed) {
                std::thread::park_timeout(LOOK);
                for finding in own.mirror.check() {
                    tracing::warn!("disk: {finding}");
                }
                if rate > 0 && MonoNs(own.clock.now()) >= due {
                    // A scrub that an operator started counts too.
                    let _ = own.start_scrub(rate);
                    due = MonoNs(own.clock.now()).saturating_add(INTERVAL.into());
                }
            }
        };
        let timer = std::thread::Builder::new().name("watch".into()).spawn(run).context("cannot start a thread")?;
        *self.scrub.timer.lock().unwrap_or_else(PoisonError::into_inner) = Some(timer);
        Ok(())
    }

    /// Starts a scrub of at most `rate` bytes a second, or changes the running one to that speed.
    pub fn start_scrub(&self, rate: u64) -> anyhow::Result<()> {
        // ORDERING: Relaxed; a number by itself.
        if self.scrub.work.state().running {
            self.scrub.rate.fetch_max(rate, Ordering::Relaxed);
            return Ok(());
        }
        self.scrub.rate.store(rate, Ordering::Relaxed);
        let own = self.clone();
        self.scrub.work.start("scrub", move |work| {
            work.describe("scrubbing");
            own.scrub_with(&own.scrub.rate, work)
        })
    }

    pub(super) fn scrub_with(&self, rate: &Arc<AtomicU64>, work: &Work) -> anyhow::Result<()> {
        let mut pacer = Pacer::new(self.clock, Arc::clone(rate), Arc::clone(&self.ending));
        let mut before = 0;
        let now = WallNs(self.clock.wall()).to_ms();
        let scrubbed = self.store()?.scrub(now, &mut |done, total| {
            work.progress(done, total);
            let more = done - before;
            before = done;
            pacer.spend(more).map_err(|ended| DiskError::Mirror { problem: ended.to_string() })
        })?;
        crate::embedded::tell_findings("scrub", &scrubbed.findings);
        let mut last = self.scrub.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.0.bytes += scrubbed.bytes;
        last.0.errors += scrubbed.found;
        last.0.healed += scrubbed.healed;
        last.0.completed = WallNs(self.clock.wall()).to_ms();
        last.1 = Some(scrubbed);
        Ok(())
    }
}
