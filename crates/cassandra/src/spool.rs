//! The node's own spool: batches become durable here, and are acknowledged.
//!
//! Invariants: a batch is acknowledged behind the fsync that made it durable, and when queries of this node see it; a segment of the
//! spool goes when a majority of the cluster has everything in it.
//! Threads: one writes, one splits what is durable into fragments and answers.
//! Limits: the constants below, and `spool` and `pending` of the address. A full spool refuses; when fragments fill
//! `pending`, batches are acknowledged still, and read from the disk once there is room.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ogive_broker::{Appended, Board, Entry, Prepared, Refusal as SpoolRefusal, Spool};
use ogive_door::backend::{Refusal, Reply, Stamps, Step};
use ogive_journal::RealDisk;
use ogive_model::{Batch, Verdict};
use ogive_probe::Clock;

use crate::figures::Figures;
use crate::fragment;
use crate::pending::Pending;

/// 1,024 batches wait: two fsyncs' worth of a thousand senders.
const QUEUE_BATCHES: usize = 1_024;
/// 64 MiB: two of the largest batches.
const QUEUE_BYTES_MAX: u64 = 64 << 20;
/// 8 MiB become durable with one fsync; more would only wait longer.
const GROUP_BYTES_MAX: usize = 8 << 20;
/// 1 MiB: when the cluster has everything, the spool takes no more than this and what comes in a second.
const CAUGHT_UP_BYTES: u64 = 1 << 20;
/// What is done is let go each second.
const TURN: Duration = Duration::from_secs(1);
/// How long the splitting thread waits without being woken, for room that nobody tells of.
const LOOK: Duration = Duration::from_millis(100);

struct Submission {
    batch: Prepared,
    stamps: Arc<dyn Stamps>,
    reply: Reply,
}

enum Command {
    Submit(Box<Submission>),
    End,
}

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

/// What both threads, and those who submit, have in common.
pub(crate) struct Spooling {
    pub(crate) board: Arc<Board>,
    pub(crate) pending: Arc<Pending>,
    figures: Arc<Figures>,
    clock: Clock,
    bytes_max: u64,
    /// A majority has everything before it.
    done: AtomicU64,
    queue_bytes: AtomicU64,
    queue: SyncSender<Command>,
    replies: Mutex<Replies>,
    bell: Condvar,
}

/// The threads of a spool.
pub(crate) struct Threads(Vec<JoinHandle<()>>);

impl Spooling {
    /// Starts the threads.
    pub(crate) fn start(
        spool: Spool,
        bytes_max: u64,
        pending: Arc<Pending>,
        (figures, clock): (Arc<Figures>, Clock),
    ) -> std::io::Result<(Arc<Self>, Threads)> {
        let (queue, commands) = sync_channel(QUEUE_BATCHES);
        let board = spool.board();
        let this = Arc::new(Self {
            done: AtomicU64::new(board.first()),
            board,
            pending,
            figures,
            clock,
            bytes_max,
            queue_bytes: AtomicU64::new(0),
            queue,
            replies: Mutex::default(),
            bell: Condvar::new(),
        });
        let spawn =
            |name: &str, run: Box<dyn FnOnce() + Send>| std::thread::Builder::new().name(name.into()).spawn(run);
        let (writing, splitting) = (Arc::clone(&this), Arc::clone(&this));
        let threads = vec![
            spawn("spool", Box::new(move || Writer { spool, shared: writing, commands }.run()))?,
            spawn("fragments", Box::new(move || splitting.split_all()))?,
        ];
        Ok((this, Threads(threads)))
    }

    /// Takes a batch; `reply` is called when it is durable.
    pub(crate) fn submit(&self, batch: Prepared, stamps: Arc<dyn Stamps>, reply: Reply) -> Result<(), Refusal> {
        let bytes = batch.bytes() as u64;
        if self.board.bytes() > self.bytes_max {
            return Err(Refusal::DiskFull(format!(
                "the spool holds {} bytes that the cluster did not take, as much as it may; send the batch again later",
                self.board.bytes()
            )));
        }
        // ORDERING: Relaxed; a bound on memory, exact but for what is added at the same instant.
        if self.queue_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > QUEUE_BYTES_MAX {
            self.queue_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Refusal::Busy);
        }
        self.queue.try_send(Command::Submit(Box::new(Submission { batch, stamps, reply }))).map_err(|refused| {
            self.queue_bytes.fetch_sub(bytes, Ordering::Relaxed);
            match refused {
                TrySendError::Full(_) => Refusal::Busy,
                TrySendError::Disconnected(_) => Refusal::Failed("the node is ending".into()),
            }
        })
    }

    /// A majority has everything before `end`.
    pub(crate) fn done(&self, end: u64) {
        self.pending.done(end);
        // ORDERING: Release; pairs with the Acquire in `done_end`: the group's rows were acknowledged before.
        self.done.store(end, Ordering::Release);
        self.bell.notify_all();
    }

    /// A majority has everything before it.
    pub(crate) fn done_end(&self) -> u64 {
        // ORDERING: Acquire; pairs with the Release in `done`.
        self.done.load(Ordering::Acquire)
    }

    /// Records that are durable here and that queries do not see: the cluster does not have them, and they do not fit.
    pub(crate) fn unseen(&self) -> u64 {
        self.board.end().saturating_sub(self.pending.end())
    }

    /// Lets both threads end behind what was submitted.
    pub(crate) fn end(&self, threads: Threads) {
        let _ = self.queue.send(Command::End);
        let mut threads = threads.0.into_iter();
        let _ = threads.next().map(JoinHandle::join);
        self.replies().is_ending = true;
        self.bell.notify_all();
        threads.for_each(|thread| drop(thread.join()));
    }

    fn replies(&self) -> MutexGuard<'_, Replies> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Splits what is durable, in order, and answers whose batch it was.
    fn split_all(&self) {
        loop {
            let is_ahead = self.pending.end() < self.board.end();
            if is_ahead && !self.pending.is_full() {
                self.split_next(self.pending.end());
            }
            let is_waiting = self.pending.end() >= self.board.end() || self.pending.is_full();
            // Batches that do not fit are acknowledged all the same: they are durable.
            let seen = if self.pending.is_full() { u64::MAX } else { self.pending.end() };
            let mut replies = self.replies();
            let ready = replies.waiting.partition_point(|one| one.end <= seen);
            let ready: Vec<Waiting> = replies.waiting.drain(..ready).collect();
            if ready.is_empty() && is_waiting {
                if replies.is_ending {
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

    fn split_next(&self, position: u64) {
        if let Some(entry) = self.board.recent(position) {
            return self.split(entry);
        }
        let Some(segment) = self.board.segment_of(position) else {
            // It went while we looked, or its segment cannot be read at all.
            return self.pending.skip_to(self.board.first().max(position + 1).min(self.board.end()));
        };
        match self.board.load(&RealDisk, &segment.range) {
            Ok(loaded) => {
                let lost: u64 = loaded.lost.iter().map(|range| range.end - range.start).sum();
                if lost > 0 {
                    tracing::error!("{lost} records of {} cannot be read", segment.range.path.display());
                    self.figures.lost.add(lost);
                }
                let end = segment.range.end.0.min(self.board.end());
                for entry in loaded.entries.into_iter().filter(|entry| entry.position >= position) {
                    self.split(entry);
                }
                self.pending.skip_to(end);
            }
            Err(error) => {
                tracing::error!("the spool cannot be read, and it is tried again: {error}");
                std::thread::sleep(TURN);
            }
        }
    }

    fn split(&self, entry: Entry) {
        match Batch::decode(&entry.frame) {
            Ok(batch) => {
                let tenant = batch.tenant.clone();
                let (split, dropped) = fragment::split(batch, entry.arrival_ms);
                self.figures.dropped.add(dropped);
                self.pending.add(entry.position, &tenant, split);
            }
            Err(error) => {
                tracing::error!("record {} of the spool is no batch: {error}", entry.position);
                self.figures.lost.add(1);
                self.pending.skip_to(entry.position + 1);
            }
        }
    }
}

/// Owns the spool.
struct Writer {
    spool: Spool,
    shared: Arc<Spooling>,
    commands: Receiver<Command>,
}

type Open = Vec<(Reply, Verdict, Arc<dyn Stamps>)>;

impl Writer {
    fn run(mut self) {
        let mut due = self.shared.clock.now() + TURN.as_nanos() as u64;
        loop {
            let left = due.saturating_sub(self.shared.clock.now());
            let first = match self.commands.recv_timeout(Duration::from_nanos(left)) {
                Ok(Command::Submit(first)) => Some(first),
                Ok(Command::End) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => None,
            };
            let is_last = first.is_some_and(|first| self.group(first));
            if is_last {
                return;
            }
            if self.shared.clock.now() >= due {
                if let Err(error) = self.let_go() {
                    tracing::warn!("the spool cannot let go: {error}");
                }
                due = self.shared.clock.now() + TURN.as_nanos() as u64;
            }
        }
    }

    /// Takes what waits and makes it durable. True when nothing comes after it.
    fn group(&mut self, first: Box<Submission>) -> bool {
        let (mut open, mut bytes, mut next, mut is_last) = (Open::new(), 0, Some(first), false);
        while let Some(submission) = next.take() {
            bytes += submission.batch.bytes();
            self.take(*submission, &mut open);
            if bytes < GROUP_BYTES_MAX {
                match self.commands.try_recv() {
                    Ok(Command::Submit(more)) => next = Some(more),
                    Ok(Command::End) => is_last = true,
                    Err(_) => {}
                }
            }
        }
        self.commit(open);
        is_last
    }

    fn take(&mut self, submission: Submission, open: &mut Open) {
        let Submission { batch, stamps, reply } = submission;
        // ORDERING: Relaxed; see `submit`.
        self.shared.queue_bytes.fetch_sub(batch.bytes() as u64, Ordering::Relaxed);
        stamps.stamp(Step::Taken);
        let arrival_ms = self.shared.clock.wall().div_euclid(1_000_000);
        let appended = self.spool.append(arrival_ms, batch);
        stamps.stamp(Step::Journaled);
        match appended.map(Appended::verdict) {
            Ok(verdict) => open.push((reply, verdict, stamps)),
            Err(refused) => {
                let refusal = refusal(refused);
                if self.spool.is_poisoned() {
                    self.spool.abandon();
                    open.drain(..).for_each(|(reply, ..)| reply(Err(refusal.clone())));
                }
                reply(Err(refusal));
            }
        }
    }

    fn commit(&mut self, open: Open) {
        if open.is_empty() {
            return;
        }
        if let Err(error) = self.spool.sync() {
            self.shared.figures.fsync_failures.add(1);
            let refusal = Refusal::Failed(error.to_string());
            return open.into_iter().for_each(|(reply, ..)| reply(Err(refusal.clone())));
        }
        let end = self.shared.board.end();
        let mut replies = self.shared.replies();
        for (reply, verdict, stamps) in open {
            stamps.stamp(Step::Durable);
            replies.waiting.push_back(Waiting { end, reply, verdict });
        }
        drop(replies);
        self.shared.bell.notify_all();
    }

    fn let_go(&mut self) -> Result<(), ogive_broker::Error> {
        let done = self.shared.done_end();
        let board = &self.shared.board;
        self.spool.reopen()?;
        self.spool.truncate_before(done)?;
        if done >= board.end() && board.bytes() > CAUGHT_UP_BYTES {
            // A majority has everything: the active segment can go too.
            self.spool.rotate()?;
            self.spool.truncate_before(done)?;
        }
        Ok(())
    }
}

fn refusal(refused: SpoolRefusal) -> Refusal {
    let message = refused.to_string();
    match refused {
        SpoolRefusal::Unknown(unknown) => Refusal::UnknownSeries { message, unknown },
        SpoolRefusal::TooLarge(_) => Refusal::TooLarge(message),
        SpoolRefusal::DiskFull => Refusal::DiskFull(message),
        SpoolRefusal::Failed(_) => Refusal::Failed(message),
    }
}
