//! Handing batches to the backend: every sample is counted once, whatever becomes of it.
//!
//! Invariants: a batch is counted as received before it is submitted, and as what became of it when the backend
//! replies, also when whoever sent it has gone.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use ogive_model::{Batch, Sample, Verdict, WallMs, WallNs};
use ogive_probe::Clock;
use tokio::sync::oneshot;

use crate::Door;
use crate::backend::Refusal;
use crate::counters::{Counters, Protocol};
use crate::division::{self, Piece};
use crate::ingest_path::OnTheWay;
use crate::room::Unfolded;
use crate::senders::Sender;

/// Submits a batch received by `protocol` to the store, with its bytes for the journal, and waits for the result. Every
/// sample is counted, even when the caller has gone.
pub async fn stored(
    door: &Door,
    protocol: Protocol,
    batch: Batch,
    frame: Vec<u8>,
    way: &OnTheWay,
) -> Result<Verdict, Refusal> {
    stored_within(door, protocol, batch, frame, way, None).await
}

/// As [`stored`], in pieces if it is larger than this server accepts at once.
pub async fn stored_whole(
    door: &Door,
    protocol: Protocol,
    batch: Batch,
    frame: Vec<u8>,
    way: &OnTheWay,
) -> Result<Verdict, Refusal> {
    if division::is_within(door.batch_series_max, &batch, frame.len()).is_ok() {
        return stored(door, protocol, batch, frame, way).await;
    }
    match division::divide(door.batch_series_max, &batch) {
        Ok(pieces) => stored_in_pieces(door, protocol, pieces, way).await,
        // It is counted as refused.
        Err(_) => stored(door, protocol, batch, frame, way).await,
    }
}

/// As [`stored`], for a received batch: its memory is counted until the store's result.
pub async fn stored_within(
    door: &Door,
    protocol: Protocol,
    batch: Batch,
    frame: Vec<u8>,
    way: &OnTheWay,
    unfolded: Option<Unfolded>,
) -> Result<Verdict, Refusal> {
    word(submitted(door, protocol, batch, frame, way, unfolded)?).await
}

/// The store's result.
pub async fn word(receiver: oneshot::Receiver<Result<Verdict, Refusal>>) -> Result<Verdict, Refusal> {
    receiver.await.unwrap_or_else(|_| Err(Refusal::Failed("the store shut down before the batch was written".into())))
}

/// As [`stored_within`], without waiting.
pub fn submitted(
    door: &Door,
    protocol: Protocol,
    batch: Batch,
    frame: Vec<u8>,
    way: &OnTheWay,
    mut unfolded: Option<Unfolded>,
) -> Result<oneshot::Receiver<Result<Verdict, Refusal>>, Refusal> {
    let entry = LedgerEntry::new(door, protocol, &batch);
    let refused = |refusal: Refusal| {
        entry.received();
        entry.answered(&Err(refusal.clone()));
        Err(refusal)
    };
    if let Some(room) = &mut unfolded
        && let Err(error) = room.settle(ogive_protocol::batch_bytes(&batch) + frame.len())
    {
        return refused(Refusal::from(error));
    }
    let (series, limit) = (batch.series.len() + batch.known.len(), door.batch_series_max);
    if series > limit {
        let sentence = format!("the batch has {series} series, above --limit-batch-series {limit}; send less at once");
        return refused(Refusal::TooLarge(sentence));
    }
    if let Some((source, time)) = witness(protocol, &batch) {
        door.backend.witness(source, time);
    }
    let (sender, receiver) = oneshot::channel();
    entry.received();
    let (stamps, steps, replied) = (way.steps(), way.steps(), entry.clone());
    let reply = Box::new(move |outcome: Result<Verdict, Refusal>| {
        steps.applied();
        replied.answered(&outcome);
        // Held until here even if its sender has gone.
        drop(unfolded);
        // The sender of the batch may have gone.
        let _ = sender.send(outcome);
    });
    if let Err(refusal) = door.backend.submit(batch, Some(frame), stamps, reply) {
        entry.answered(&Err(refusal.clone()));
        return Err(refusal);
    }
    Ok(receiver)
}

/// What is written into the ledgers of a batch.
#[derive(Clone)]
struct LedgerEntry {
    counters: Arc<Counters>,
    clock: Clock,
    sender: Sender,
    sequence: u64,
    samples: u64,
}

impl LedgerEntry {
    fn new(door: &Door, protocol: Protocol, batch: &Batch) -> Self {
        let source = Some(batch.source).filter(|source| protocol == Protocol::Batch && !door.numbers.is_given(*source));
        Self {
            counters: door.counters.clone(),
            clock: door.clock,
            sender: Sender::current(batch.tenant.clone(), protocol, source),
            sequence: batch.sequence,
            samples: batch.samples.len() as u64,
        }
    }

    fn received(&self) {
        self.counters.of(self.sender.protocol).received.add(self.samples);
    }

    fn answered(&self, outcome: &Result<Verdict, Refusal>) {
        self.counters.of(self.sender.protocol).batch(self.samples, outcome);
        self.counters.senders.count(&self.sender, self.sequence, self.samples, outcome, WallNs(self.clock.wall()));
    }
}

/// The sender of a batch and the latest time in it, if that is the sender's: data that is fetched or has no times gets
/// this server's. Senders without a name are distinguished by the `job` and the `instance` of their first series.
fn witness(protocol: Protocol, batch: &Batch) -> Option<(u128, WallMs)> {
    let time = WallMs(batch.samples.iter().flatten().map(Sample::time_ms).max()?);
    match protocol {
        Protocol::Batch => Some((batch.source.0, time)),
        Protocol::RemoteWrite | Protocol::Otlp => {
            let labels = batch.series.iter().flatten().next().map(|def| &def.labels)?;
            let names = ["job", "instance", "service.name", "service_name", "host", "host.name", "host_name"];
            let name = names.map(|name| labels.get(name));
            Some((u128::from(BuildHasherDefault::<DefaultHasher>::default().hash_one((protocol.name(), name))), time))
        }
        _ => None,
    }
}

/// Stores the pieces one after the other. A refusal ends it: the remaining samples are refused too, and the sender
/// retries the whole.
pub async fn stored_in_pieces(
    door: &Door,
    protocol: Protocol,
    pieces: Vec<Piece>,
    way: &OnTheWay,
) -> Result<Verdict, Refusal> {
    let mut whole = Ok(Verdict::default());
    for piece in pieces {
        let from = piece.from();
        match &mut whole {
            Ok(verdict) => match stored(door, protocol, piece.batch, piece.frame, way).await {
                Ok(next) => Piece::add(from, next, verdict),
                Err(refusal) => whole = Err(refusal),
            },
            Err(refusal) => {
                let entry = LedgerEntry::new(door, protocol, &piece.batch);
                entry.received();
                entry.answered(&Err(refusal.clone()));
            }
        }
    }
    whole
}
