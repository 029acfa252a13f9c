//! The Forward protocol of Fluentd and Fluent Bit: messages of log entries, acknowledged when they are durable.
//!
//! Invariants: a message is acknowledged when each of its entries is durable or counted as one that can never be
//! stored. It is stored in pieces ([`piece`]), each known again by the message's chunk, its place and its contents when
//! a client sends the message once more, also to a server that was restarted: it counts once. Messages without a chunk
//! are never sent again: those that arrive together are stored together, and what had arrived when the server ends is
//! still stored.
//! Threads: a task for each connection, which reads on when what arrived is stored.
//! Limits: those of the stream ([`ogive_protocol::fluent::message`]); [`LARGE_MESSAGES`] connections hold more than
//! [`SMALL_BYTES`] and [`HUGE_MESSAGES`] of them more than [`LARGE_BYTES`]; a client that is silent inside a message
//! for [`PATIENCE`] or before it logged in for [`LOGIN`] is disconnected, others after the options' idle time.
//! Failure: that of [`DurableStore`]. A message that makes no sense ends the connection without an acknowledgement.

mod login;
mod piece;

use std::sync::Arc;
use std::time::Duration;

use ogive_door::Door;
use ogive_door::counters::Protocol;
use ogive_door::numbers::{AGAIN_SECONDS, Content};
use ogive_model::Tenant;
use ogive_protocol::fingerprint;
use ogive_protocol::fluent::error::MessageError;
use ogive_protocol::fluent::message::{Entries, Message, Messages};
use ogive_protocol::lines::Fault;
use tokio::io::AsyncReadExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::Options;
use super::connection::{LARGE_MESSAGES, LAST_READ, READ_BYTES, SMALL_BYTES, Stream, until};
use super::durable::{DurableStore, PATIENCE, written};
use super::shared_key::SharedKey;
use login::Challenge;
use piece::Piece;

/// 4 MiB of a message: 64 connections hold a quarter of a gigabyte. Fluent Bit's messages have 2 MiB.
const LARGE_BYTES: usize = 4 << 20;

/// 8 messages of up to 32 MiB: another quarter of a gigabyte, and twice that while one of them grows.
const HUGE_MESSAGES: usize = 8;

/// What a connection may hold without a permit, with one, and with both.
const HELD_BYTES: [usize; 3] = [SMALL_BYTES, LARGE_BYTES, usize::MAX];

/// 10 s for the handshake: a client far away needs one.
const LOGIN: Duration = Duration::from_secs(10);

/// At the end, 16 reads of 64 KiB of a client that wants no acknowledgements: what a socket's buffer holds.
const LAST_READS: usize = 16;

/// Whether a connection goes on.
type GoesOn = bool;

/// What the connections of the Forward protocol share.
pub(super) struct Fluent {
    durable: DurableStore,
    tenant: Tenant,
    idle: Duration,
    shared_key: Option<SharedKey>,
    /// What connections beyond [`SMALL_BYTES`] need, and those beyond [`LARGE_BYTES`].
    room: [Arc<Semaphore>; 2],
}

/// One connection.
#[derive(Default)]
struct Session {
    messages: Messages,
    permits: Vec<OwnedSemaphorePermit>,
    /// Until the client has logged in.
    challenge: Option<Challenge>,
    /// Entries of messages without a chunk that arrived and are not stored.
    piece: Piece,
    /// Whether it sent messages without a chunk.
    is_unacknowledged: bool,
    /// Reads after the end of the server.
    last_reads: usize,
}

impl Session {
    fn patience(&self, idle: Duration) -> Duration {
        if self.challenge.is_some() {
            LOGIN
        } else if self.messages.is_cut() {
            idle.min(PATIENCE)
        } else {
            idle
        }
    }
}

impl Fluent {
    pub(super) fn new(door: Arc<Door>, options: &Options) -> Self {
        let durable = DurableStore::new(door, Protocol::Fluent, AGAIN_SECONDS);
        let room = [LARGE_MESSAGES, HUGE_MESSAGES].map(|count| Arc::new(Semaphore::new(count)));
        let (tenant, shared_key) = (options.line_tenant.clone(), options.fluent_shared_key.clone());
        Self { durable, tenant, idle: options.idle(), shared_key, room }
    }

    pub(super) fn lost(&self, reason: &'static str, count: u64) {
        self.durable.ledger().unreadable(reason, count);
    }

    /// Reads `stream` until it ends.
    pub(super) async fn serve(&self, mut stream: impl Stream, ending: watch::Receiver<bool>) {
        let mut session = Session::default();
        if let Some(key) = &self.shared_key {
            let Some(challenge) = Challenge::new(key.clone()) else {
                return self.lost(MessageError::Login.as_str(), 1);
            };
            if !written(&mut stream, &challenge.helo()).await {
                return;
            }
            session.challenge = Some(challenge);
        }
        let mut buffer = vec![0; READ_BYTES];
        while let Some(length) = self.read(&mut stream, &mut buffer, &mut session, &ending).await {
            self.durable.ledger().bytes.add(length as u64);
            let outcome = self.take(&buffer[..length], &mut session, &mut stream, &ending).await;
            // Whatever becomes of the connection: what is not acknowledged is not sent again.
            let is_stored = self.store(None, &mut session.piece, &ending).await;
            match outcome {
                Ok(goes_on) if goes_on && is_stored => {}
                Ok(_) => return,
                Err(error) => return self.lost(error.as_str(), 1),
            }
        }
        if session.messages.is_cut() {
            self.lost(Fault::Cut.as_str(), 1);
        }
    }

    /// Waits for bytes; none when no more are to be taken.
    async fn read(
        &self,
        stream: &mut impl Stream,
        buffer: &mut [u8],
        session: &mut Session,
        ending: &watch::Receiver<bool>,
    ) -> Option<usize> {
        let patience = session.patience(self.idle);
        let read = tokio::time::timeout(patience, until(ending, stream.read(buffer))).await;
        let read = match read {
            Ok(Some(read)) => read,
            // The server ends. What is to be acknowledged comes again, the rest is read as far as it has arrived.
            Ok(None) if session.is_unacknowledged && session.last_reads < LAST_READS => {
                session.last_reads += 1;
                tokio::time::timeout(LAST_READ, stream.read(buffer)).await.ok()?
            }
            Ok(None) => return None,
            Err(_) => {
                self.lost("idle_connection", 1);
                return None;
            }
        };
        read.ok().filter(|length| *length > 0)
    }

    /// Takes the next bytes of a connection, and stores what is to be acknowledged.
    async fn take(
        &self,
        mut arrived: &[u8],
        session: &mut Session,
        stream: &mut impl Stream,
        ending: &watch::Receiver<bool>,
    ) -> Result<GoesOn, MessageError> {
        while let Some(bytes) = session.messages.next(&mut arrived)? {
            if let Some(challenge) = session.challenge.take() {
                let outcome = challenge.outcome(bytes);
                let is_written = written(stream, &outcome.pong).await;
                if !outcome.is_right {
                    return Err(MessageError::Login);
                }
                if !is_written {
                    return Ok(false);
                }
            } else if let Some(message) = Message::read(bytes)? {
                let goes_on = match message.acknowledgement() {
                    Some(answer) => {
                        self.store_message(&message, &mut Piece::default(), ending).await?
                            && written(stream, &answer).await
                    }
                    None => {
                        session.is_unacknowledged = true;
                        self.store_message(&message, &mut session.piece, ending).await?
                    }
                };
                if !goes_on {
                    return Ok(false);
                }
            }
            session.messages.forget();
        }
        self.make_room(session, ending).await
    }

    /// Waits until the connection may hold what it holds of a message.
    async fn make_room(&self, session: &mut Session, ending: &watch::Receiver<bool>) -> Result<GoesOn, MessageError> {
        let held = session.messages.held();
        if held > SMALL_BYTES && session.challenge.is_some() {
            return Err(MessageError::Login);
        }
        if held <= SMALL_BYTES {
            session.permits.clear();
        }
        while held > HELD_BYTES[session.permits.len()] {
            let room = self.room[session.permits.len()].clone();
            match until(ending, room.acquire_owned()).await {
                Some(Ok(permit)) => session.permits.push(permit),
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Stores the entries of a message, all of them where it has a chunk; without one the last stay in the piece. False
    /// when this server ends before they are durable.
    async fn store_message(
        &self,
        message: &Message<'_>,
        piece: &mut Piece,
        ending: &watch::Receiver<bool>,
    ) -> Result<GoesOn, MessageError> {
        if !message.is_log() {
            self.lost(Fault::Type.as_str(), 1);
            return Ok(true);
        }
        let mut entries = message.entries();
        // Compressed bytes may be much to read.
        while tokio::task::block_in_place(|| self.fill(message.tag(), &mut entries, piece))? {
            if !self.store(message.chunk(), piece, ending).await {
                return Ok(false);
            }
        }
        Ok(message.chunk().is_none() || self.store(message.chunk(), piece, ending).await)
    }

    /// Adds entries until the piece is full; false when there are no more.
    fn fill(&self, tag: &str, entries: &mut Entries<'_>, piece: &mut Piece) -> Result<bool, MessageError> {
        let now_ns = self.durable.door.clock.wall();
        while let Some(entry) = entries.next_entry()? {
            if let Err(fault) = piece.add(tag, entry, now_ns) {
                self.lost(fault.as_str(), 1);
            }
            if piece.is_full() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Stores a piece, and begins the next; false when this server ends before it is durable.
    async fn store(&self, chunk: Option<&[u8]>, piece: &mut Piece, ending: &watch::Receiver<bool>) -> GoesOn {
        let mut full = piece.take();
        let samples = full.gather.len() as u64;
        if samples == 0 {
            return true;
        }
        let batch = full.gather.take(Default::default(), 0, &self.tenant);
        let content = chunk.and_then(|chunk| {
            let identity = full.identity(chunk);
            Content::from_any_batch(&batch, full.is_timed(), || fingerprint(&self.tenant, "fluent", &identity))
        });
        let is_stored = self.durable.store(batch, content, ending).await;
        if !is_stored && chunk.is_none() {
            self.lost("busy", samples);
        }
        is_stored
    }
}

#[cfg(test)]
mod tests;
