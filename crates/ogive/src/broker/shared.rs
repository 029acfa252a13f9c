//! What the threads of a broker share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use ogive_broker::{Error as SpoolError, Limits};
use ogive_journal::{Disk, Error as DiskError, RealDisk};
use ogive_model::Ms;

use super::config::SPOOL_BYTES_MIN;
use super::destination::{Destination, DestinationContext, Wakeup};
use crate::fleet::SpoolLimits;

/// 2 MiB: the largest cursor with its gaps, twice in usual times; or the head of a new segment.
pub(super) const RESERVE_BYTES: usize = 2 << 20;

/// Cursors are saved four times a second: an fsync each, and the most that is sent twice after a crash (and counts
/// once).
pub(super) const SAVE: Duration = Duration::from_millis(250);

/// What threads share.
pub(super) struct Broker {
    pub(super) context: DestinationContext,
    pub(super) destinations: RwLock<Vec<Arc<Destination>>>,
    pub(super) limits: Mutex<Limits>,
    /// Those of the server above, which only lower the others.
    pub(super) group_limits: Mutex<SpoolLimits>,
    pub(super) floor: AtomicU64,
    pub(super) fsync_failures: AtomicU64,
    pub(super) series: AtomicU64,
    pub(super) ended: AtomicBool,
    /// Why cursors are not saved, as last reported.
    pub(super) problem: Mutex<Option<String>>,
    /// Whether space for the cursors is reserved for a full disk. Held while a batch is written, so that none takes
    /// that space.
    pub(super) reserved: Mutex<bool>,
}

impl Broker {
    pub(super) fn new(context: DestinationContext, limits: Limits) -> Self {
        Self {
            context,
            destinations: RwLock::default(),
            limits: Mutex::new(limits),
            group_limits: Mutex::default(),
            floor: AtomicU64::new(0),
            fsync_failures: AtomicU64::new(0),
            series: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            problem: Mutex::default(),
            reserved: Mutex::default(),
        }
    }

    pub(super) fn destinations(&self) -> Vec<Arc<Destination>> {
        self.destinations.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn limits(&self) -> Limits {
        let Limits { bytes_max, age_max } = *self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        let group = *self.group_limits.lock().unwrap_or_else(PoisonError::into_inner);
        let age = group.spool_age_max.map(Ms::from);
        Limits {
            bytes_max: group.spool_bytes_max.map_or(bytes_max, |bytes| bytes.clamp(SPOOL_BYTES_MIN, bytes_max)),
            age_max: age_max.into_iter().chain(age).min(),
        }
    }

    pub(super) fn bell(&self) -> &Wakeup {
        &self.context.bell
    }

    /// Saves every cursor, and returns the position below which no destination needs anything. A destination whose
    /// cursor cannot be written keeps its segments.
    pub(super) fn save(&self) -> u64 {
        // A list that changes meanwhile could hide the destination that needs the oldest segment.
        let destinations = self.destinations.read().unwrap_or_else(PoisonError::into_inner);
        if destinations.is_empty() {
            // The broker is still starting: no destination has reported its position.
            return 0;
        }
        let (mut floor, mut problem) = (self.context.board.end(), None);
        for destination in destinations.iter() {
            match self.on_full_disk(|| destination.save()) {
                Ok(needed) => floor = floor.min(needed),
                // The others are saved nevertheless: their gaps wait for it.
                Err(error) => problem = Some(format!("{error:#}; segments stay in the spool")),
            }
        }
        let is_saved = problem.is_none();
        self.tell(problem);
        if !is_saved {
            return 0;
        }
        // Inside, so that a destination that joins begins behind all that was let go without it. ORDERING: Relaxed; it
        // only rises, and the lock orders it for who joins.
        self.floor.fetch_max(floor, Ordering::Relaxed).max(floor)
    }

    pub(super) fn reserve_path(&self) -> PathBuf {
        self.context.cursors.join("reserve")
    }

    /// Runs `work`, and once more if the disk is full, with the reserved space: a full disk must not prevent its own
    /// remedy from being written.
    pub(super) fn on_full_disk<T>(&self, mut work: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let error = match work() {
            Err(error) if is_full(&error) => error,
            done => return done,
        };
        let mut reserved = self.reserved();
        if RealDisk.remove(&self.reserve_path()).is_err() {
            return Err(error);
        }
        let done = work();
        *reserved = self.reserve();
        done
    }

    /// Reserves the space that cursors need on a full disk. If that fails, the disk is full, and accepts no batches.
    pub(super) fn lay_by(&self) {
        *self.reserved() = self.reserve();
    }

    pub(super) fn reserved(&self) -> MutexGuard<'_, bool> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn reserve(&self) -> bool {
        let path = self.reserve_path();
        let is_there = !matches!(RealDisk.length(&path), Err(DiskError::NotFound { .. }))
            || RealDisk.replace(&path, &vec![0; RESERVE_BYTES]).is_ok();
        if !is_there {
            let _ = RealDisk.remove(&path.with_extension("new"));
        }
        is_there
    }

    /// Logs why cursors are not saved, once for each reason.
    pub(super) fn tell(&self, problem: Option<String>) {
        let mut reported = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(problem) = problem.as_ref().filter(|problem| reported.as_ref() != Some(*problem)) {
            tracing::warn!("{problem}");
        }
        *reported = problem;
    }

    /// Saves cursors until the broker ends.
    pub(super) fn keep(&self) {
        // ORDERING: Relaxed; the flag guards nothing.
        while !self.ended.load(Ordering::Relaxed) {
            self.save();
            self.lay_by();
            std::thread::sleep(SAVE);
        }
    }

    pub(super) fn end(&self) {
        // ORDERING: Relaxed; see `keep`.
        self.ended.store(true, Ordering::Relaxed);
    }
}

pub(super) fn is_full(error: &anyhow::Error) -> bool {
    let of_spool = match error.downcast_ref::<SpoolError>() {
        Some(SpoolError::Disk(error)) => Some(error),
        _ => None,
    };
    of_spool.or_else(|| error.downcast_ref::<DiskError>()).is_some_and(DiskError::is_full)
}
