//! The node's own spool: batches become durable here, and are acknowledged.
//!
//! Invariants: a batch is acknowledged after the fsync that made it durable, and once queries of this node see it; a
//! segment of the spool is deleted when a majority of each cluster has everything in it, and every copy of a cluster
//! that has no other beside it. A full one may let go of what a majority has, if the address says so
//! (`Overflow::Release`).
//! Threads: one writes; one for each cluster splits durable batches into fragments and replies.
//! Limits: those of the group commit (`ogive_spooling`), and `spool` and `pending` of the address. A full spool refuses
//! batches; when fragments fill `pending`, batches are still acknowledged, and read back from disk once there is room.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ogive_broker::{Appended, Board, Entry, Prepared, Refusal as SpoolRefusal, Spool};
use ogive_door::backend::{Refusal, Reply, Stamps};
use ogive_door::counter::Counter;
use ogive_journal::RealDisk;
use ogive_model::{Batch, Tenant, Verdict, WallNs};
use ogive_probe::Clock;
use ogive_spooling::{Committed, Queue, TURN};

use crate::Overflow;
use crate::fragment::{self, Split};
use crate::site::Site;

/// How long the splitting thread waits without being woken, for room that is not reported.
const LOOK: Duration = Duration::from_millis(100);
/// 32 batches apart, of two clusters that are at about the same place.
const RECENT: usize = 32;

/// A batch that is durable before `end` and whose sender waits.
struct Waiting {
    end: u64,
    reply: Reply,
    verdict: Verdict,
}

#[derive(Default)]
struct Replies {
    waiting: VecDeque<Waiting>,
    is_ending: bool,
}

/// What the threads, and those who submit, have in common.
pub(crate) struct Spooling {
    pub(crate) board: Arc<Board>,
    sites: Vec<Arc<Site>>,
    /// Fsyncs that failed.
    pub(crate) fsync_failures: Counter,
    clock: Clock,
    bytes_max: u64,
    queue: Queue,
    replies: Mutex<Replies>,
    bell: Condvar,
    /// The last batches apart, by position: of two clusters, the first to come to one splits it for both.
    recent: Mutex<VecDeque<(u64, Apart)>>,
}

/// A batch apart: whose it is, its series, and how many samples were dropped.
type Apart = Arc<(Tenant, Vec<Split>, u64)>;

/// The threads of a spool.
pub(crate) struct Threads(Vec<JoinHandle<()>>);

impl Spooling {
    /// Starts the threads.
    pub(crate) fn start(
        spool: Spool,
        bytes_max: u64,
        sites: Vec<Arc<Site>>,
        clock: Clock,
    ) -> std::io::Result<(Arc<Self>, Threads)> {
        let board = spool.board();
        let (queue, writer) = Queue::new(spool, clock);
        let this = Arc::new(Self {
            board,
            sites,
            fsync_failures: Counter::default(),
            clock,
            bytes_max,
            queue,
            replies: Mutex::default(),
            bell: Condvar::new(),
            recent: Mutex::default(),
        });
        let spawn =
            |name: &str, run: Box<dyn FnOnce() + Send>| std::thread::Builder::new().name(name.into()).spawn(run);
        let writing = Arc::clone(&this);
        let mut threads = vec![spawn("spool", Box::new(move || writer.run(Owner { shared: writing })))?];
        for site in &this.sites {
            let (this, site) = (Arc::clone(&this), Arc::clone(site));
            threads.push(spawn("fragments", Box::new(move || this.split_all(&site)))?);
        }
        Ok((this, Threads(threads)))
    }

    /// Takes a batch; `reply` is called when it is durable.
    pub(crate) fn submit(
        &self,
        batch: Batch,
        frame: Option<Vec<u8>>,
        stamps: Arc<dyn Stamps>,
        reply: Reply,
    ) -> Result<(), Refusal> {
        if self.board.bytes() > self.bytes_max {
            return Err(Refusal::DiskFull(format!(
                "the spool holds {} bytes that the cluster did not take, as much as it may; send the batch again later",
                self.board.bytes()
            )));
        }
        self.queue.submit(batch, frame, stamps, reply)
    }

    /// A cluster has got further: there may be room again.
    pub(crate) fn moved(&self) {
        self.bell.notify_all();
    }

    /// A majority of each cluster has everything before it.
    pub(crate) fn done_end(&self) -> u64 {
        self.sites.iter().map(|site| site.done_end()).min().unwrap_or_default()
    }

    /// What the spool has to keep begins here.
    fn kept_from(&self) -> u64 {
        self.sites.iter().map(|site| site.kept_from()).min().unwrap_or_default()
    }

    /// Records that a majority has, and that the spool keeps since not every copy is known to have them.
    pub(crate) fn doubted(&self) -> u64 {
        self.done_end().saturating_sub(self.kept_from())
    }

    /// Records of which some cluster has no majority yet.
    pub(crate) fn undriven(&self) -> u64 {
        self.board.end().saturating_sub(self.done_end())
    }

    /// Records of which one cluster has no majority yet.
    pub(crate) fn undriven_to(&self, site: &Site) -> u64 {
        self.board.end().saturating_sub(site.done_end())
    }

    /// Records that are durable here and that no query sees: no cluster has them, and they do not fit.
    pub(crate) fn unseen(&self) -> u64 {
        self.sites.iter().map(|site| self.unseen_at(site)).min().unwrap_or_default()
    }

    /// Records that are durable here and that queries of one cluster do not see: it does not have them, and they do not
    /// fit.
    pub(crate) fn unseen_at(&self, site: &Site) -> u64 {
        self.board.end().saturating_sub(site.pending.end())
    }

    /// Queries see everything before this, since they ask every cluster. When there is no more room in memory, what is
    /// durable is acknowledged all the same.
    fn seen(&self) -> u64 {
        let furthest = self.sites.iter().max_by_key(|site| site.pending.end());
        furthest.filter(|site| !site.pending.is_full()).map_or(u64::MAX, |site| site.pending.end())
    }

    /// Lets the threads end behind what was submitted.
    pub(crate) fn end(&self, threads: Threads) {
        self.queue.end();
        let mut threads = threads.0.into_iter();
        let _ = threads.next().map(JoinHandle::join);
        self.replies().is_ending = true;
        self.bell.notify_all();
        threads.for_each(|thread| drop(thread.join()));
    }

    fn replies(&self) -> MutexGuard<'_, Replies> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Splits what is durable for a cluster, in order, and answers whose batch it was.
    fn split_all(&self, site: &Site) {
        loop {
            let pending = &site.pending;
            let is_ahead = pending.end() < self.board.end();
            if is_ahead && !pending.is_full() {
                self.split_next(site, pending.end());
            }
            let is_waiting = pending.end() >= self.board.end() || pending.is_full();
            let seen = self.seen();
            let mut replies = self.replies();
            let ready = replies.waiting.partition_point(|one| one.end <= seen);
            let ready: Vec<Waiting> = replies.waiting.drain(..ready).collect();
            if ready.is_empty() && is_waiting {
                if replies.is_ending && replies.waiting.is_empty() {
                    return;
                }
                let (guard, _) = self.bell.wait_timeout(replies, LOOK).unwrap_or_else(PoisonError::into_inner);
                drop(guard);
                continue;
            }
            drop(replies);
            ready.into_iter().for_each(|one| (one.reply)(Ok(one.verdict)));
        }
    }

    fn split_next(&self, site: &Site, position: u64) {
        if let Some(entry) = self.board.recent(position) {
            return self.split(site, &entry);
        }
        let Some(segment) = self.board.segment_of(position) else {
            // It went while we looked, or its segment cannot be read at all.
            return site.pending.skip_to(self.board.first().max(position + 1).min(self.board.end()));
        };
        match self.board.load(&RealDisk, &segment.range) {
            Ok(loaded) => {
                let lost: u64 = loaded.lost.iter().map(|range| range.end - range.start).sum();
                if lost > 0 {
                    tracing::error!("{lost} records of {} cannot be read", segment.range.path.display());
                    site.figures.lost.add(lost);
                }
                let end = segment.range.end.0.min(self.board.end());
                for entry in loaded.entries.iter().filter(|entry| entry.position >= position) {
                    self.split(site, entry);
                }
                site.pending.skip_to(end);
            }
            Err(error) => {
                tracing::error!("the spool cannot be read, and it is tried again: {error}");
                std::thread::sleep(TURN);
            }
        }
    }

    fn split(&self, site: &Site, entry: &Entry) {
        match self.apart(entry) {
            Ok(apart) => {
                let (tenant, split, dropped) = &*apart;
                site.figures.dropped.add(*dropped);
                site.pending.add(entry.position, tenant, split);
            }
            Err(error) => {
                tracing::error!("record {} of the spool is no batch: {error}", entry.position);
                site.figures.lost.add(1);
                site.pending.skip_to(entry.position + 1);
            }
        }
    }

    /// A batch apart; once for all clusters that are at about the same place of the spool.
    fn apart(&self, entry: &Entry) -> Result<Apart, String> {
        let is_shared = self.sites.len() > 1;
        let recent = || self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if is_shared && let Some((_, apart)) = recent().iter().find(|(position, _)| *position == entry.position) {
            return Ok(Arc::clone(apart));
        }
        let batch = Batch::decode(&entry.frame).map_err(|error| error.to_string())?;
        let tenant = batch.tenant.clone();
        let (split, dropped) = fragment::split(batch, entry.arrival);
        let apart = Arc::new((tenant, split, dropped));
        if is_shared {
            let mut recent = recent();
            recent.push_back((entry.position, Arc::clone(&apart)));
            // What is here is pending in one of them in any case.
            if recent.len() > RECENT {
                recent.pop_front();
            }
        }
        Ok(apart)
    }
}

/// What the group commit does for this spool.
struct Owner {
    shared: Arc<Spooling>,
}

impl ogive_spooling::Owner for Owner {
    fn append(&mut self, spool: &mut Spool, batch: Prepared) -> Result<Appended, SpoolRefusal> {
        spool.append(WallNs(self.shared.clock.wall()).to_ms(), batch)
    }

    fn synced(&mut self, _spool: &Spool, _took_ns: u64, is_durable: bool) {
        self.shared.fsync_failures.add(u64::from(!is_durable));
    }

    fn durable(&mut self, group: Vec<Committed>) {
        let end = self.shared.board.end();
        let mut replies = self.shared.replies();
        replies.waiting.extend(group.into_iter().map(|Committed { reply, verdict }| Waiting { end, reply, verdict }));
        drop(replies);
        self.shared.bell.notify_all();
    }

    fn turn(&mut self, spool: &mut Spool) {
        if let Err(error) = ogive_spooling::truncate(spool, self.shared.kept_from()) {
            tracing::warn!("the spool cannot let go: {error}");
        }
        if self.shared.board.bytes() > self.shared.bytes_max && self.shared.doubted() > 0 {
            let may = |site: &&Arc<Site>| site.address.overflow == Overflow::Release;
            self.shared.sites.iter().filter(may).for_each(|site| site.want_release());
        }
    }
}
