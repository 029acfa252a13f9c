//! What keeps the stored bytes whole while the server runs: the mirror of its directories, filling a new one,
//! scrubbing.
//!
//! Threads: each work of long duration has a thread of its own, which waits between its reads so that it goes no faster
//! than its rate, and ends when the server does. Failure: work that fails says why in its state and can be begun again.

mod pace;
mod scrub;
mod work;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use anyhow::{Context, bail};
use ogive_journal::{
    Error as DiskError, Member, MemberState, MirrorDisk, MirrorOptions, MirrorStatus, RealDisk, added_members,
};
use ogive_probe::Clock;
use ogive_store::{SnapshotInfo, Store};

pub use pace::Pacer;
pub use scrub::{ASKED_RATE, Scrub, ScrubTotals};
pub use work::{Work, WorkState};

/// A directory is copied at 128 MiB/s: half the read speed of an average disk, so that queries continue.
pub const FILL_RATE: u64 = 128 << 20;

/// The directories and the work on them. Cloning shares it.
#[derive(Clone)]
pub struct Upkeep {
    /// The directories as one disk.
    pub mirror: MirrorDisk,
    /// The clock for rates.
    pub clock: Clock,
    /// The filling of a directory.
    pub filling: Arc<Work>,
    /// The scrubs.
    pub scrub: Arc<Scrub>,
    /// Set when the store is open.
    store: Arc<OnceLock<Weak<Store>>>,
    ending: Arc<AtomicBool>,
}

impl Upkeep {
    /// Opens `directories` as one disk and starts to fill those that are stale or new.
    pub fn open(directories: &[PathBuf], degraded: bool, clock: Clock) -> anyhow::Result<Self> {
        let (mirror, stale) = open_mirror(directories, degraded)?;
        let upkeep = Self {
            mirror,
            clock,
            filling: Arc::default(),
            scrub: Arc::default(),
            store: Arc::default(),
            ending: Arc::default(),
        };
        if !stale.is_empty() {
            let own = upkeep.clone();
            upkeep
                .filling
                .start("fill", move |work| stale.iter().try_for_each(|path| own.fill(None, path, FILL_RATE, work)))?;
        }
        Ok(upkeep)
    }

    /// Attaches the store that is maintained; it may be open once.
    pub fn attach(&self, store: &Arc<Store>) {
        let attached = self.store.set(Arc::downgrade(store));
        assert!(attached.is_ok(), "one store is cared for");
    }

    /// The store, while it is open.
    pub fn store(&self) -> anyhow::Result<Arc<Store>> {
        self.store.get().and_then(Weak::upgrade).context("the store is not open; try again when the server is ready")
    }

    /// Puts `new` in the place of `old`, filled, at no more than `rate` bytes a second. Returns when it has begun.
    pub fn replace(&self, old: &Path, new: &Path, rate: u64) -> anyhow::Result<()> {
        let (old, new) = (absolute(old)?, absolute(new)?);
        if !self.mirror.members().iter().any(|member| member.path == old) {
            bail!("{} is not a directory of this server; `ogive disk list` names them", old.display());
        }
        if let Some(member) = self.mirror.members().iter().find(|member| member.path == new)
            && member.state == MemberState::Live
        {
            bail!("{} is in use and needs no filling", new.display());
        }
        self.check_target(Some(&old), &new)?;
        let own = self.clone();
        self.filling.start("fill", move |work| own.fill(Some(&old).filter(|old| **old != new), &new, rate, work))
    }

    /// Fills `new`, at no more than `rate` bytes a second; from then on it holds everything as the others do. Returns
    /// when it has begun.
    pub fn add(&self, new: &Path, rate: u64) -> anyhow::Result<()> {
        let new = absolute(new)?;
        if self.mirror.members().iter().any(|member| member.path == new) {
            bail!(
                "{} is a directory of this server already; `ogive disk replace` fills one that is out",
                new.display()
            );
        }
        self.check_target(None, &new)?;
        let own = self.clone();
        self.filling.start("fill", move |work| own.fill(None, &new, rate, work))
    }

    /// Refuses what [`Upkeep::fill`] would refuse, before anything is read or written.
    fn check_target(&self, old: Option<&Path>, new: &Path) -> anyhow::Result<()> {
        Ok(self.mirror.check_target(old, &Member { root: new.to_owned(), disk: Arc::new(RealDisk) })?)
    }

    fn fill(&self, old: Option<&PathBuf>, new: &Path, rate: u64, work: &Work) -> anyhow::Result<()> {
        let rate = Arc::new(AtomicU64::new(rate));
        if old.is_some() {
            // The one that is removed may have the only good copy of something.
            work.describe("checking every copy before one goes");
            self.scrub_with(&rate, work)?;
        }
        work.describe(&format!("filling {}", new.display()));
        let mut pacer = Pacer::new(self.clock, rate, Arc::clone(&self.ending));
        let mut before = 0;
        let member = Member { root: new.to_owned(), disk: Arc::new(RealDisk) };
        let mut pace = |progress: ogive_journal::Progress| {
            work.progress(progress.done, progress.total);
            let more = progress.done.saturating_sub(before);
            before = progress.done;
            pacer.spend(more).map_err(|ended| DiskError::Mirror { problem: ended.to_string() })
        };
        self.mirror.rebuild(old.map(PathBuf::as_path), member, &mut |_| {}, &mut pace)?;
        Ok(())
    }

    /// Stops the current work.
    pub fn stop(&self) {
        // ORDERING: Relaxed; the flag guards no other memory.
        self.ending.store(true, Ordering::Relaxed);
        self.scrub.stop();
        self.filling.join();
    }

    /// The state of each directory.
    pub fn members(&self) -> Vec<MirrorStatus> {
        self.mirror.members()
    }
}

/// Opens directories as one disk, with the ones that must be filled.
pub fn open_mirror(directories: &[PathBuf], degraded: bool) -> anyhow::Result<(MirrorDisk, Vec<PathBuf>)> {
    let mut members: Vec<Member> = directories
        .iter()
        .map(|path| Ok(Member { root: absolute(path)?, disk: Arc::new(RealDisk) }))
        .collect::<anyhow::Result<_>>()?;
    // A missing one prevents the start, just like one that was named.
    for root in added_members(&members).into_iter().filter(|root| root.is_dir()) {
        tracing::info!("disk: {} was added while the server ran, and is used with the others", root.display());
        members.push(Member { root, disk: Arc::new(RealDisk) });
    }
    let options = MirrorOptions {
        degraded,
        random: Box::new(drawn),
        tell: Arc::new(|sentence| tracing::warn!("disk: {sentence}")),
    };
    match MirrorDisk::open(members, options) {
        Ok(opened) => Ok(opened),
        Err(DiskError::Locked { path }) => {
            bail!(
                "{} is in use by another server; end that one or choose another directory with --data",
                path.display()
            )
        }
        Err(error) => {
            let named: Vec<String> = directories.iter().map(|path| path.display().to_string()).collect();
            Err(anyhow::Error::new(error).context(format!("cannot open the data in {}", named.join(" and "))))
        }
    }
}

/// A random number: the hasher's keys are the standard library's source of randomness.
fn drawn() -> u64 {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0_u8)
}

/// Makes `data` a separate store with the contents of the snapshot `name` of the mirror's store.
pub fn clone_snapshot(mirror: &MirrorDisk, name: &str, data: &Path) -> Result<SnapshotInfo, ogive_store::Error> {
    let target = Member { root: data.to_owned(), disk: Arc::new(RealDisk) };
    let sources: Vec<PathBuf> = mirror.members().into_iter().map(|member| member.path).collect();
    ogive_store::snapshot::clone_to(mirror, mirror.root(), name, &sources, &target, drawn())
}

/// The path from the root on, so that one directory has one name.
pub fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{} is no path", path.display()))
}
