//! What waits to be sent: frames in the order of their cells, bounded, each under one number from its first sending on.
//!
//! *Invariants*: `taken == acknowledged + waiting + dropped`, field by field ([`Amount`]), after every call. A frame
//! that a server may have seen keeps its number and its bytes until the server has spoken of it, and is never counted
//! as dropped before. Numbers rise by one without gaps over what servers have seen: what is given up for the bound had
//! none yet. (Frames are written with the number that they will have if nothing before them is given up; otherwise they
//! are written anew when their turn comes.) *Limits*: after each cell, `keep_bytes` of frames wait beside the one in
//! flight; the oldest that no server can have seen makes room. A report of what was dropped (some hundred bytes each
//! tenth cell) makes no room itself, or it would not be true. *Failure*: what is dropped is counted by reason and
//! reported once, also when the report is dropped itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ogive_model::{Batch, Reason, SourceId, Tenant, WallMs};

use crate::{Amount, Measured, Outcome};

/// 5,000 samples: some 700 KiB of cells with labels, which a slow line moves within the time-out.
pub(crate) const BATCH_SAMPLES_MAX: usize = 5_000;

/// Memory of a frame in addition to its bytes.
const FRAME_OVERHEAD_BYTES: usize = 256;

/// The bound was hit.
pub const DROPPED_BOUND: &str = "bound";
/// The process ended first.
pub const DROPPED_SHUTDOWN: &str = "shutdown";
/// A single sample exceeds the limit of a batch.
pub const DROPPED_TOO_LARGE: &str = "too_large";

/// From the first to the last of the times of some samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleSpan {
    /// The first.
    pub first: WallMs,
    /// The last.
    pub last: WallMs,
}

impl SampleSpan {
    /// Of one sample.
    const fn at(time: WallMs) -> Self {
        Self { first: time, last: time }
    }

    /// That of the samples of both.
    fn and(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

/// What was dropped for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// How much.
    pub amount: Amount,
    /// The times of its samples.
    pub span: Option<SampleSpan>,
}

impl Dropped {
    fn add(&mut self, amount: Amount, span: SampleSpan) {
        self.amount += amount;
        self.span = Some(self.span.map_or(span, |before| before.and(span)));
    }
}

/// The outcome of an attempt, for logs and waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    Acknowledged,
    Again { after: Option<Duration>, detail: String },
    Dropped { detail: String },
}

#[derive(Debug)]
struct QueuedFrame {
    frame: Arc<[u8]>,
    sequence: u64,
    /// A server may have it.
    in_doubt: bool,
    amount: Amount,
    span: SampleSpan,
    /// The drops that it reports.
    report: Vec<(String, Amount)>,
}

impl QueuedFrame {
    fn bytes(&self) -> usize {
        self.frame.len() + FRAME_OVERHEAD_BYTES
    }
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Outbox {
    source: SourceId,
    tenant: Tenant,
    /// The number of the next frame.
    next: u64,
    waiting: VecDeque<QueuedFrame>,
    /// The first is in flight.
    sending: bool,
    bytes: usize,
    keep_bytes: usize,
    pub(crate) taken: Amount,
    pub(crate) acknowledged: Amount,
    pub(crate) dropped: BTreeMap<String, Dropped>,
    /// The part of `dropped` that reports have covered.
    reported: BTreeMap<String, Amount>,
}

impl Outbox {
    pub(crate) fn new(source: SourceId, tenant: Tenant, keep_bytes: usize) -> Self {
        Self {
            source,
            tenant,
            next: 1,
            waiting: VecDeque::new(),
            sending: false,
            bytes: 0,
            keep_bytes,
            taken: Amount::default(),
            acknowledged: Amount::default(),
            dropped: BTreeMap::new(),
            reported: BTreeMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The highest number that a server may have received; 0 for none.
    pub(crate) fn sequence(&self) -> u64 {
        let in_doubt = self.waiting.front().is_some_and(|first| first.in_doubt || self.sending);
        if in_doubt { self.next } else { self.next - 1 }
    }

    /// How much is waiting, and how much of it a server may have received.
    pub(crate) fn waiting(&self) -> (Amount, Amount) {
        let (mut all, mut in_doubt) = (Amount::default(), Amount::default());
        for (at, waiting) in self.waiting.iter().enumerate() {
            all += waiting.amount;
            if waiting.in_doubt || (at == 0 && self.sending) {
                in_doubt += waiting.amount;
            }
        }
        (all, in_doubt)
    }

    /// Drops that no report has covered, by reason.
    pub(crate) fn unreported(&self) -> Vec<(String, Amount)> {
        let reported = |reason: &String| self.reported.get(reason).copied().unwrap_or_default();
        let news = self.dropped.iter().map(|(reason, dropped)| (reason.clone(), dropped.amount - reported(reason)));
        news.filter(|(_, amount)| !amount.is_zero()).collect()
    }

    /// Adds what was measured.
    pub(crate) fn push(&mut self, values: Vec<Measured>) {
        let mut values = values;
        while !values.is_empty() {
            let rest = values.split_off(values.len().min(BATCH_SAMPLES_MAX));
            self.push_batch(values, Vec::new());
            values = rest;
        }
        self.make_room();
    }

    /// Adds `values`, which report that `report` was dropped. Nothing is dropped for it before the next cell comes.
    pub(crate) fn push_report(&mut self, values: Vec<Measured>, report: Vec<(String, Amount)>) {
        for (reason, amount) in &report {
            *self.reported.entry(reason.clone()).or_default() += *amount;
        }
        self.push_batch(values, report);
    }

    fn push_batch(&mut self, values: Vec<Measured>, report: Vec<(String, Amount)>) {
        let Some(first) = values.first() else { return };
        let span_of = |value: &Measured| SampleSpan::at(value.time.to_ms());
        let span = values.iter().map(span_of).fold(span_of(first), SampleSpan::and);
        let sequence = self.next + self.waiting.len() as u64;
        let batch = Measured::batch(self.source, sequence, self.tenant.clone(), values);
        let amount = Amount::from_batch(&batch);
        match batch.encode() {
            Ok(frame) => {
                let frame = frame.into();
                let waiting = QueuedFrame { frame, sequence, in_doubt: false, amount, span, report };
                self.taken += amount;
                self.bytes += waiting.bytes();
                self.waiting.push_back(waiting);
            }
            Err(_) if batch.samples.len() > 1 => {
                let mut values = Measured::from_batch(batch);
                let rest = values.split_off(values.len() / 2);
                self.push_batch(values, report);
                self.push_batch(rest, Vec::new());
            }
            Err(_) => {
                self.taken += amount;
                self.count_dropped(DROPPED_TOO_LARGE, amount, span);
            }
        }
    }

    fn count_dropped(&mut self, reason: &str, amount: Amount, span: SampleSpan) {
        self.dropped.entry(reason.to_owned()).or_default().add(amount, span);
    }

    /// Drops the oldest until the rest is within the limit.
    fn make_room(&mut self) {
        while self.bytes > self.keep_bytes {
            let at = usize::from(self.is_first_bound());
            if at >= self.waiting.len() {
                return;
            }
            self.give_up(at, DROPPED_BOUND);
        }
    }

    /// True when a server may have the first.
    fn is_first_bound(&self) -> bool {
        self.waiting.front().is_some_and(|first| self.sending || first.in_doubt)
    }

    fn give_up(&mut self, at: usize, reason: &str) {
        let Some(waiting) = self.waiting.remove(at) else { return };
        self.bytes -= waiting.bytes();
        self.count_dropped(reason, waiting.amount, waiting.span);
        for (reason, amount) in waiting.report {
            if let Some(reported) = self.reported.get_mut(&reason) {
                *reported -= amount;
            }
        }
    }

    /// Drops what no server can have received.
    pub(crate) fn close(&mut self) {
        let keep = usize::from(self.is_first_bound());
        while self.waiting.len() > keep {
            self.give_up(keep, DROPPED_SHUTDOWN);
        }
    }

    /// The next frame; it is in flight until [`Outbox::end`].
    pub(crate) fn begin(&mut self) -> Option<Arc<[u8]>> {
        let (source, next) = (self.source, self.next);
        let first = self.waiting.front_mut()?;
        if first.sequence != next {
            let before = first.bytes();
            first.frame = renumbered(&first.frame, source, next);
            first.sequence = next;
            self.bytes = self.bytes - before + first.bytes();
        }
        self.sending = true;
        self.waiting.front().map(|first| first.frame.clone())
    }

    /// Records the outcome of the frame in flight.
    pub(crate) fn end(&mut self, outcome: Outcome) -> AttemptOutcome {
        self.sending = false;
        let Some(first) = self.waiting.front_mut() else { return AttemptOutcome::Acknowledged };
        match outcome {
            Outcome::Busy { after, detail } => AttemptOutcome::Again { after, detail },
            Outcome::Later { after, in_doubt, detail } => {
                first.in_doubt |= in_doubt;
                AttemptOutcome::Again { after, detail }
            }
            Outcome::Answered(answer) if !answer.is_verdict_on(first.amount.samples) => {
                first.in_doubt = true;
                let detail = "the answer does not speak of every sample that was sent".into();
                AttemptOutcome::Again { after: None, detail }
            }
            Outcome::Answered(answer) => match self.pop() {
                Some(sent) => self.answered(&sent, &answer.rejected),
                None => AttemptOutcome::Acknowledged,
            },
            Outcome::Refused { reason, detail } => {
                if let Some(sent) = self.pop() {
                    self.count_dropped(&reason, sent.amount, sent.span);
                }
                AttemptOutcome::Dropped { detail }
            }
        }
    }

    fn pop(&mut self) -> Option<QueuedFrame> {
        let sent = self.waiting.pop_front()?;
        self.bytes -= sent.bytes();
        self.next += 1;
        Some(sent)
    }

    fn answered(&mut self, sent: &QueuedFrame, rejected: &[(u32, String)]) -> AttemptOutcome {
        let mut taken = sent.amount;
        if rejected.is_empty() {
            self.acknowledged += taken;
            return AttemptOutcome::Acknowledged;
        }
        // A verdict names samples in the order in which a frame is read.
        let samples = Batch::decode(&sent.frame).map(|batch| batch.samples).unwrap_or_default();
        let mut seen = BTreeSet::new();
        let mut first_reason = None;
        for (index, reason) in rejected {
            let Some(Ok(sample)) = samples.get(*index as usize) else { continue };
            if !seen.insert(*index) {
                continue;
            }
            let (reason, amount) = (Reason::known_name(reason), Amount::from_sample(sample));
            first_reason.get_or_insert(reason);
            taken -= amount;
            self.count_dropped(reason, amount, SampleSpan::at(WallMs(sample.time_ms())));
        }
        if let Some(reason) = first_reason.filter(|_| taken.samples == 0) {
            let whole = Amount { batches: taken.batches, ..Amount::default() };
            taken -= whole;
            self.count_dropped(reason, whole, sent.span);
        }
        self.acknowledged += taken;
        let detail =
            format!("{} of {} samples were refused; the first: {}", rejected.len(), sent.amount.samples, rejected[0].1);
        AttemptOutcome::Dropped { detail }
    }
}

/// The frame under another number. A frame of our own can always be decoded; if not, it is sent unchanged, and the
/// receiver accepts numbers with gaps too.
fn renumbered(frame: &Arc<[u8]>, source: SourceId, sequence: u64) -> Arc<[u8]> {
    let again = Batch::decode(frame).and_then(|batch| Batch { source, sequence, ..batch }.encode());
    again.map_or_else(|_| frame.clone(), Into::into)
}

#[cfg(test)]
mod tests;
