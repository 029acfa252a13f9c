//! Group commit in front of a spool: batches that wait together become durable with one fsync.
//!
//! Invariants: a batch is passed to [`Owner::durable`] behind the fsync that made it durable; each reply is called
//! once.
//! Threads: one runs the [`Writer`], which owns the spool; any number submit to the [`Queue`].
//! Limits: [`QUEUE_BATCHES`] and [`QUEUE_BYTES_MAX`] wait, [`GROUP_BYTES_MAX`] in a group. More is refused as busy.
//! Failure: a full disk is reported to senders; a failed fsync refuses the whole group.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use ogive_broker::{Appended, Error, Prepared, Refusal as SpoolRefusal, Spool};
use ogive_door::backend::{Refusal, Reply, Stamps, Step, frame_of};
use ogive_model::{Batch, Verdict};
use ogive_probe::Clock;

/// 1,024 batches wait: two fsyncs' worth of a thousand senders.
pub const QUEUE_BATCHES: usize = 1_024;
/// 64 MiB: two of the largest batches.
pub const QUEUE_BYTES_MAX: u64 = 64 << 20;
/// 8 MiB become durable with one fsync; more would only wait longer.
pub const GROUP_BYTES_MAX: usize = 8 << 20;
/// 1 MiB: when nothing of it is needed, a spool takes no more than this and what comes in a second.
pub const CAUGHT_UP_BYTES: u64 = 1 << 20;
/// [`Owner::turn`] is called each second.
pub const TURN: Duration = Duration::from_secs(1);

/// What differs between the spools: where their batches go.
pub trait Owner {
    /// Appends a batch to the open group.
    ///
    /// # Errors
    /// What [`Spool::append`] says, or a reason of the owner's.
    fn append(&mut self, spool: &mut Spool, batch: Prepared) -> Result<Appended, SpoolRefusal>;

    /// The fsync of a group ended, after so many nanoseconds.
    fn synced(&mut self, spool: &Spool, took_ns: u64, is_durable: bool);

    /// These are durable; their senders wait for their replies.
    fn durable(&mut self, group: Vec<Committed>);

    /// Drops what nobody needs, and what is beyond the limits; called every [`TURN`].
    fn turn(&mut self, spool: &mut Spool);
}

/// A durable batch whose sender waits.
pub struct Committed {
    /// Called with the verdict, once.
    pub reply: Reply,
    /// On the batch's samples.
    pub verdict: Verdict,
}

struct Submission {
    batch: Prepared,
    stamps: Arc<dyn Stamps>,
    reply: Reply,
}

enum Command {
    Submit(Box<Submission>),
    End,
}

/// Where batches are submitted.
pub struct Queue {
    commands: SyncSender<Command>,
    bytes: Arc<AtomicU64>,
}

impl Queue {
    /// The queue, and the writer behind it.
    #[must_use]
    pub fn new(spool: Spool, clock: Clock) -> (Self, Writer) {
        let (sender, commands) = sync_channel(QUEUE_BATCHES);
        let bytes = Arc::<AtomicU64>::default();
        (Self { commands: sender, bytes: Arc::clone(&bytes) }, Writer { spool, clock, commands, bytes })
    }

    /// Takes a batch, with its frame when there is one; `reply` is called once it is durable or refused.
    ///
    /// # Errors
    /// [`Refusal::Busy`] beyond the limits, [`Refusal::Failed`] when the writer has ended.
    pub fn submit(
        &self,
        batch: Batch,
        frame: Option<Vec<u8>>,
        stamps: Arc<dyn Stamps>,
        reply: Reply,
    ) -> Result<(), Refusal> {
        let frame = frame_of(&batch, frame)?;
        let bytes = frame.len() as u64;
        // ORDERING: Relaxed; a bound on memory, exact but for what is added at the same instant.
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > QUEUE_BYTES_MAX {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Refusal::Busy);
        }
        let submission = Submission { batch: Prepared::new(batch, frame), stamps, reply };
        self.commands.try_send(Command::Submit(Box::new(submission))).map_err(|refused| {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            match refused {
                TrySendError::Full(_) => Refusal::Busy,
                TrySendError::Disconnected(_) => Refusal::Failed("the spool is ending".into()),
            }
        })
    }

    /// Lets the writer end behind what was submitted.
    pub fn end(&self) {
        let _ = self.commands.send(Command::End);
    }
}

/// Owns the spool.
pub struct Writer {
    spool: Spool,
    clock: Clock,
    commands: Receiver<Command>,
    bytes: Arc<AtomicU64>,
}

/// A batch of the open group.
type Open = (Reply, Verdict, Arc<dyn Stamps>);

impl Writer {
    /// Makes batches durable until [`Queue::end`].
    pub fn run(mut self, mut owner: impl Owner) {
        let mut due = self.clock.now() + TURN.as_nanos() as u64;
        loop {
            let left = due.saturating_sub(self.clock.now());
            let first = match self.commands.recv_timeout(Duration::from_nanos(left)) {
                Ok(Command::Submit(first)) => Some(first),
                Ok(Command::End) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => None,
            };
            let is_last = first.is_some_and(|first| self.group(&mut owner, first));
            if is_last {
                return;
            }
            if self.clock.now() >= due {
                owner.turn(&mut self.spool);
                due = self.clock.now() + TURN.as_nanos() as u64;
            }
        }
    }

    /// Takes what waits and makes it durable. True when nothing comes after it.
    fn group(&mut self, owner: &mut impl Owner, first: Box<Submission>) -> bool {
        let (mut open, mut bytes, mut next, mut is_last) = (Vec::new(), 0, Some(first), false);
        while let Some(submission) = next.take() {
            bytes += submission.batch.bytes();
            self.take(owner, *submission, &mut open);
            if bytes < GROUP_BYTES_MAX {
                match self.commands.try_recv() {
                    Ok(Command::Submit(more)) => next = Some(more),
                    Ok(Command::End) => is_last = true,
                    Err(_) => {}
                }
            }
        }
        self.commit(owner, open);
        is_last
    }

    fn take(&mut self, owner: &mut impl Owner, submission: Submission, open: &mut Vec<Open>) {
        let Submission { batch, stamps, reply } = submission;
        let bytes = batch.bytes() as u64;
        // ORDERING: Relaxed; see `submit`.
        let queued = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(queued >= bytes, "{bytes} bytes leave a queue of {queued}");
        stamps.stamp(Step::Taken);
        let appended = owner.append(&mut self.spool, batch);
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

    fn commit(&mut self, owner: &mut impl Owner, open: Vec<Open>) {
        if open.is_empty() {
            return;
        }
        let from = self.clock.now();
        let synced = self.spool.sync();
        owner.synced(&self.spool, self.clock.now().saturating_sub(from), synced.is_ok());
        if let Err(error) = synced {
            let refusal = Refusal::Failed(error.to_string());
            return open.into_iter().for_each(|(reply, ..)| reply(Err(refusal.clone())));
        }
        let committed = open.into_iter().map(|(reply, verdict, stamps)| {
            stamps.stamp(Step::Durable);
            Committed { reply, verdict }
        });
        owner.durable(committed.collect());
    }
}

/// Drops the segments before `floor`, below which nobody needs anything; the active one too, when it is worth it.
///
/// # Errors
/// When a segment cannot be removed or begun.
pub fn truncate(spool: &mut Spool, floor: u64) -> Result<(), Error> {
    let board = spool.board();
    spool.reopen()?;
    spool.truncate_before(floor)?;
    if floor >= board.end() && board.bytes() > CAUGHT_UP_BYTES {
        spool.rotate()?;
        spool.truncate_before(floor)?;
    }
    Ok(())
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

#[cfg(test)]
mod tests;
