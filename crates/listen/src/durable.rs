//! What clients want acknowledged: a batch is stored until it is durable, and recognised when it comes again.
//!
//! Invariants: a batch with a [`Content`] counts once however often it is sent, also to a server that was restarted; it
//! waits as long as the store has no room.
//! Failure: a store that is busy is tried again after [`AGAIN`], one that is full or failing after [`AGAIN_FULL`].

use std::sync::Arc;
use std::time::Duration;

use ogive_door::Door;
use ogive_door::backend::Refusal;
use ogive_door::counters::{Ledger, Protocol};
use ogive_door::ingest_path::Publisher;
use ogive_door::numbers::{Content, is_forgotten};
use ogive_door::submission::stored_whole;
use ogive_model::{Batch, WallNs};
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use super::connection::{Stream, until};

/// 30 s, as long as clients try to write.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// 5 ms: a store or a spool empties its queue in some ten.
const AGAIN: Duration = Duration::from_millis(5);

/// 1 s: somebody has to make room.
const AGAIN_FULL: Duration = Duration::from_secs(1);

/// Stores the batches of one protocol.
pub(super) struct DurableStore {
    pub(super) door: Arc<Door>,
    protocol: Protocol,
    /// For how long senders try again what has no times.
    again_seconds: u32,
}

impl DurableStore {
    pub(super) fn new(door: Arc<Door>, protocol: Protocol, again_seconds: u32) -> Self {
        Self { door, protocol, again_seconds }
    }

    pub(super) fn ledger(&self) -> &Ledger {
        self.door.counters.of(self.protocol)
    }

    /// Stores a batch, which has no `content` when it is not known again; false when this server ends before it is
    /// durable.
    pub(super) async fn store(
        &self,
        mut batch: Batch,
        mut content: Option<Content>,
        ending: &watch::Receiver<bool>,
    ) -> bool {
        let mut frame = self.numbered(&mut batch, content);
        loop {
            let way = self.door.meters.ingest.begin_made();
            let pause = match stored_whole(&self.door, self.protocol, batch, frame.clone(), &way).await {
                // Later events came meanwhile, as when a client sends old files: then it is known by when it came. What
                // was known by that has come behind what is forgotten, as when the clock was set back: it counts as
                // new.
                Ok(verdict) if is_forgotten(&verdict) && content.is_some() => {
                    let timed = content.filter(|content| content.time.is_some());
                    content = timed.map(|content| Content { time: None, ..content });
                    batch = decoded(&frame);
                    frame = self.numbered(&mut batch, content);
                    continue;
                }
                Ok(_) => {
                    self.door.meters.ingest.finish(way, Publisher::Of(self.protocol));
                    return true;
                }
                // The ledger has counted it as refused, and nothing would change that.
                Err(Refusal::TooLarge(_) | Refusal::UnknownSeries { .. }) => return true,
                Err(Refusal::Busy) => AGAIN,
                Err(Refusal::DiskFull(_) | Refusal::Failed(_)) => AGAIN_FULL,
            };
            if until(ending, tokio::time::sleep(pause)).await.is_none() {
                return false;
            }
            batch = decoded(&frame);
        }
    }

    /// Gives the batch the number that its content has, or the next.
    fn numbered(&self, batch: &mut Batch, content: Option<Content>) -> Vec<u8> {
        let numbers = &self.door.numbers;
        batch.set_id(match content {
            Some(content) => numbers.of_content_within(content, self.again_seconds, WallNs(self.door.clock.wall())),
            None => numbers.next(),
        });
        batch.encode().expect("a piece is within the limits of a batch")
    }
}

fn decoded(frame: &[u8]) -> Batch {
    Batch::decode(frame).expect("what was encoded here is a batch")
}

/// Writes an answer; false when the client does not take it.
pub(super) async fn written(stream: &mut impl Stream, answer: &[u8]) -> bool {
    let writing = async {
        stream.write_all(answer).await?;
        stream.flush().await
    };
    matches!(tokio::time::timeout(PATIENCE, writing).await, Ok(Ok(())))
}
