//! An exchange that takes batches: each is sent when the server has confirmed it.
//!
//! Invariants: messages are persistent and mandatory; one that the server returns, as no queue takes it, was not sent.
//! What is not confirmed in time is sent again and may be there twice: its (source, sequence) makes it count once.
//! Messages go in their order.
//! Limits: [`WINDOW`] messages or [`WINDOW_BYTES`] wait for their confirmation.
//! Failure: a server that has blocked its publishers (memory or disk alarm) is waited for, however long; one that is
//! silent otherwise is given up after the publisher's patience, and the connection with it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection};

use super::place::{ServerAddress, answered};
use ogive_outgoing::Files;
use ogive_protocol::batch_message::FLAT_BUFFER;

/// 8,192 messages that are not confirmed: a server confirms some thousand at once.
const WINDOW: usize = 8_192;
/// 16 MiB of them: the library has them in memory once more.
const WINDOW_BYTES: usize = 16 << 20;
/// Stays on disk.
const PERSISTENT: u8 = 2;
/// In memory only, where the server can.
const TRANSIENT: u8 = 1;

/// Where messages go.
#[derive(Clone, Default, PartialEq)]
pub struct Output {
    /// Where it is.
    pub place: ServerAddress,
    /// Empty: the exchange that takes a queue's name as the key.
    pub exchange: String,
    /// The name of the queue, or what the exchange routes by.
    pub routing_key: String,
    /// Make the queue of that name when it is not there; durable.
    pub declare: bool,
    /// Neither persistent nor confirmed: a message is sent when it is written to the connection. It may be lost; what
    /// this costs less is what a benchmark asks for.
    pub is_transient: bool,
}

/// A connection to an exchange that is made when there is something to send.
pub struct Publisher {
    output: Output,
    files: Files,
    /// How long the server may say nothing, unless it is blocked.
    patience: Duration,
    open: Option<(Arc<Connection>, Channel)>,
}

/// A message in flight: over when it is confirmed.
type PendingMessage<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// Messages in flight, in their order, and their bytes.
#[derive(Default)]
struct InFlight<'a> {
    messages: VecDeque<(PendingMessage<'a>, usize)>,
    bytes: usize,
    confirmed: usize,
}

impl Publisher {
    /// Connects at the first message; `patience` is how long the server may say nothing unless it is blocked.
    pub fn new(output: Output, files: Files, patience: Duration) -> Self {
        Self { output, files, patience, open: None }
    }

    /// One more publisher of other messages, with a channel of its own on this one's connection while that lives.
    ///
    /// # Errors
    /// Why there is no connection or no channel.
    pub async fn beside(&mut self, routing_key: String) -> Result<Self, String> {
        self.channel().await?;
        let (connection, _) = self.open.as_ref().expect("it was just opened");
        let output = Output { routing_key, ..self.output.clone() };
        let mut other = Self { output, files: self.files, patience: self.patience, open: None };
        let channel = other.prepared(connection).await?;
        other.open = Some((connection.clone(), channel));
        Ok(other)
    }

    /// Sends batches and waits until all are confirmed. The number of those from the first on that are, and why not
    /// all. `tell` hears that the server is blocked.
    pub async fn publish<'a, F: AsRef<[u8]> + Send + 'a>(
        &mut self,
        frames: impl Iterator<Item = F>,
        tell: &(dyn Fn(&str) + Sync),
    ) -> (usize, Option<String>) {
        let mut waiting = InFlight::default();
        let ended = self.try_publish(frames, &mut waiting, tell).await;
        let confirmed = waiting.confirmed;
        if ended.is_err() {
            self.open = None;
        }
        (confirmed, ended.err())
    }

    async fn try_publish<'a, F: AsRef<[u8]> + Send + 'a>(
        &mut self,
        frames: impl Iterator<Item = F>,
        waiting: &mut InFlight<'a>,
        tell: &(dyn Fn(&str) + Sync),
    ) -> Result<(), String> {
        let patience = self.patience;
        let late = |_| format!("no connection within {patience:?}");
        let channel = tokio::time::timeout(patience, self.channel()).await.map_err(late)??;
        let to = Address {
            exchange: ShortString::from(&*self.output.exchange),
            routing_key: ShortString::from(&*self.output.routing_key),
        };
        for frame in frames {
            if waiting.messages.len() >= WINDOW || waiting.bytes >= WINDOW_BYTES {
                // Half of them at once: for one by one, both sides would wake for each.
                self.settle(waiting, WINDOW / 2, WINDOW_BYTES / 2, tell).await?;
            }
            let size = frame.as_ref().len();
            let mut message: PendingMessage<'a> =
                Box::pin(confirmed(channel.clone(), to.clone(), frame, self.output.is_transient));
            // The first look hands it over, so that messages keep their order; nobody waits for it yet.
            let ready = message.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if let std::task::Poll::Ready(ended) = ready {
                message = Box::pin(std::future::ready(ended));
            }
            waiting.bytes += size;
            waiting.messages.push_back((message, size));
        }
        self.settle(waiting, 0, 0, tell).await
    }

    /// Waits until no more than these messages and bytes are in flight.
    async fn settle(
        &self,
        waiting: &mut InFlight<'_>,
        messages: usize,
        bytes: usize,
        tell: &(dyn Fn(&str) + Sync),
    ) -> Result<(), String> {
        while waiting.messages.len() > messages || waiting.bytes > bytes {
            let Some((oldest, size)) = waiting.messages.front_mut() else { return Ok(()) };
            let patience = self.patience;
            match tokio::time::timeout(patience, oldest.as_mut()).await {
                Ok(ended) => ended?,
                Err(_) if self.is_blocked() => {
                    tell("the server takes no messages for now (an alarm of memory or disk)");
                    continue;
                }
                Err(_) => return Err(format!("not confirmed within {patience:?}")),
            }
            waiting.bytes -= *size;
            waiting.confirmed += 1;
            waiting.messages.pop_front();
        }
        Ok(())
    }

    fn is_blocked(&self) -> bool {
        let status = self.open.as_ref().map(|(connection, _)| connection.status());
        status.is_some_and(|status| status.blocked() && status.connected())
    }

    async fn channel(&mut self) -> Result<Channel, String> {
        if let Some((connection, channel)) = &self.open
            && connection.status().connected()
            && channel.status().connected()
        {
            return Ok(channel.clone());
        }
        let connection = Arc::new(self.output.place.connect(self.files).await?);
        let channel = self.prepared(&connection).await?;
        self.open = Some((connection, channel.clone()));
        Ok(channel)
    }

    async fn prepared(&self, connection: &Connection) -> Result<Channel, String> {
        let channel = answered("a channel", connection.create_channel()).await?;
        if !self.output.is_transient {
            answered("confirm.select", channel.confirm_select(ConfirmSelectOptions::default())).await?;
        }
        if self.output.declare {
            let queue = self.output.routing_key.as_str().into();
            let declared = channel.queue_declare(queue, QueueDeclareOptions::durable(), FieldTable::default());
            answered("queue.declare", declared).await?;
        }
        Ok(channel)
    }
}

/// Where messages go.
#[derive(Clone)]
struct Address {
    exchange: ShortString,
    routing_key: ShortString,
}

/// Sends a message and waits until the server has it; a transient one until it is written.
async fn confirmed(channel: Channel, to: Address, frame: impl AsRef<[u8]>, is_transient: bool) -> Result<(), String> {
    let mode = if is_transient { TRANSIENT } else { PERSISTENT };
    let properties = BasicProperties::default().with_delivery_mode(mode).with_content_type(FLAT_BUFFER.into());
    let options = BasicPublishOptions { mandatory: !is_transient, ..BasicPublishOptions::default() };
    let sent = channel.basic_publish(to.exchange, to.routing_key, options, frame.as_ref(), properties);
    let confirmation = sent.await.map_err(|error| error.to_string())?;
    match confirmation.await.map_err(|error| error.to_string())? {
        Confirmation::Ack(None) => Ok(()),
        Confirmation::Ack(Some(_)) => Err("no queue takes the message: bind one to the exchange".into()),
        Confirmation::Nack(_) => Err("the server refused a message".into()),
        Confirmation::NotRequested if is_transient => Ok(()),
        Confirmation::NotRequested => Err("the server does not confirm".into()),
    }
}
