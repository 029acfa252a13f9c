//! Queues whose messages are batches, as `POST /v1/batch` takes them: FlatBuffers or JSON by their content type.
//!
//! Invariants: a message is acknowledged when its batch is durable, or when it can never be: then it is rejected, so
//! that a dead-letter exchange gets it, and counted by reason. Batches go to the store in the order of the queue. What
//! is durable up to some message is acknowledged with one word, and nobody waits until that word is on the wire.
//! Threads: a task for each queue, with a channel of its own; those of one input share a connection, and end together.
//! Limits: `prefetch` messages of a queue are in flight, and fewer of large ones ([`Room`]); the server holds the rest.
//! Failure: a server that does not answer, or a connection that is lost without a word to its consumers ([`WATCH`]), is
//! connected to again. A store that is busy is tried again after [`AGAIN`], one that is full or failing after
//! [`AGAIN_FULL`]; no message is lost meanwhile: the queue waits.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, Consumer};
use ogive_model::Batch;
use tokio::task::JoinSet;
use tokio::time::Sleep;

use super::config::Input;
use super::place::answered;
use super::room::Room;
use ogive_door::Door;
use ogive_door::backend::Refusal;
use ogive_door::counters::{MALFORMED, Protocol};
use ogive_door::ingest_path::Publisher;
use ogive_door::submission::stored_whole;
use ogive_outgoing::Files;
use ogive_protocol::batch_message::batch_from_message;

/// A broken connection is made again after this, and after twice as long each time.
const PAUSE: Duration = Duration::from_millis(100);
/// 5 s: a server that was restarted is found soon.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// 5 s: how often the connection itself is looked at.
const WATCH: Duration = Duration::from_secs(5);
/// 64 KiB are decoded in some 300 µs; what is larger leaves the async threads to others.
const INLINE_BYTES_MAX: usize = 64 * 1024;
/// 5 ms: a store or a spool empties its queue in some ten.
const AGAIN: Duration = Duration::from_millis(5);
/// 1 s: somebody has to make room.
const AGAIN_FULL: Duration = Duration::from_secs(1);

/// Whether a message is done with, or can never be taken.
type IsSettled = bool;

type Future<T> = Pin<Box<dyn std::future::Future<Output = T> + Send>>;

/// A message on its way to the store.
struct DeliveryInProgress {
    tag: u64,
    taken: Future<IsSettled>,
}

/// A message that the store could not take now; those behind it wait, too.
struct DeferredMessage {
    tag: u64,
    frame: Vec<u8>,
    again: Pin<Box<Sleep>>,
}

/// Reads the queues until the server ends.
pub(crate) async fn run(door: Arc<Door>, config: Input, files: Files) {
    let mut ending = door.ending.clone();
    let mut pause = PAUSE;
    loop {
        let from = door.clock.now();
        let read = tokio::select! {
            read = read(&door, &config, files) => read,
            _ = ending.wait_for(|ending| *ending) => return,
        };
        if door.clock.now().saturating_sub(from) > PAUSE_MAX.as_nanos() as u64 {
            pause = PAUSE;
        }
        let why = read.err().unwrap_or_else(|| "the queue is gone".to_owned());
        tracing::warn!("amqp {}: {why}; again in {} ms", config.title(), pause.as_millis());
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = ending.wait_for(|ending| *ending) => return,
        }
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// Reads them over one connection until that ends, or one of them does.
async fn read(door: &Arc<Door>, config: &Input, files: Files) -> Result<(), String> {
    let connection = config.place().connect(files).await?;
    let (mut queues, count) = (JoinSet::new(), config.names().count());
    for queue in config.names() {
        let channel = answered("a channel", connection.create_channel()).await?;
        let room = Room::new(config.prefetch, count);
        let (door, queue, declare) = (door.clone(), queue.to_owned(), config.declare);
        queues.spawn(async move {
            let ended = consume(door, channel, &queue, declare, room).await;
            ended.map_err(|error| format!("{queue:?}: {error}"))
        });
    }
    // The others end when the set is dropped: what they had in flight comes again.
    tokio::select! {
        ended = queues.join_next() => ended.map_or(Ok(()), |ended| ended.unwrap_or_else(|error| Err(error.to_string()))),
        () = lost(&connection) => Err("the connection is lost".to_owned()),
    }
}

/// Returns once the connection is not there any more.
async fn lost(connection: &Connection) {
    while connection.status().connected() {
        tokio::time::sleep(WATCH).await;
    }
    // Who reads it usually knows more of the cause, and is about to say it.
    tokio::time::sleep(WATCH).await;
}

async fn consume(door: Arc<Door>, channel: Channel, queue: &str, declare: bool, mut room: Room) -> Result<(), String> {
    if declare {
        let declared = channel.queue_declare(queue.into(), QueueDeclareOptions::durable(), FieldTable::default());
        answered("queue.declare", declared).await?;
    }
    let mut reading = Reading { door, channel, in_flight: VecDeque::new(), held: None, words: VecDeque::new() };
    while reading.consume(queue, &mut room).await? {}
    Ok(())
}

#[expect(clippy::large_enum_variant, reason = "one at a time, on the stack")]
enum Event {
    Message(Option<lapin::Result<Delivery>>),
    /// All messages up to this one are taken; or this one can never be.
    Done {
        tag: u64,
        taken: IsSettled,
    },
    /// What could not be taken may be now.
    Again(DeferredMessage),
    /// An acknowledgement is on the wire, or cannot be.
    Said(lapin::Result<()>),
}

/// A queue that is read.
struct Reading {
    door: Arc<Door>,
    channel: Channel,
    in_flight: VecDeque<DeliveryInProgress>,
    held: Option<DeferredMessage>,
    /// Acknowledgements that are not on the wire yet.
    words: VecDeque<Future<lapin::Result<()>>>,
}

impl Reading {
    /// Reads with as many messages in flight as there is room for, until that changes; false when the queue is gone.
    async fn consume(&mut self, queue: &str, room: &mut Room) -> Result<bool, String> {
        // It holds for consumers that begin after it.
        answered("basic.qos", self.channel.basic_qos(room.prefetch(), BasicQosOptions::default())).await?;
        let options = BasicConsumeOptions::default();
        let consumer = self.channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
        let mut messages = answered("basic.consume", consumer).await?;
        let mut is_over = false;
        loop {
            match self.next(&mut messages).await {
                Event::Message(Some(message)) => {
                    let message = message.map_err(|error| error.to_string())?;
                    if !is_over && room.saw(message.data.len()) {
                        is_over = true;
                        // What it has given out by now still comes.
                        let cancelled = self.channel.basic_cancel(messages.tag(), BasicCancelOptions::default());
                        answered("basic.cancel", cancelled).await?;
                    }
                    self.begin(message);
                }
                Event::Message(None) => return Ok(is_over),
                Event::Done { tag, taken } => self.word(tag, taken),
                Event::Again(held) => {
                    let batch = decoded(&held.frame);
                    self.offer(held.tag, batch, held.frame);
                }
                Event::Said(said) => said.map_err(|error| error.to_string())?,
            }
        }
    }

    /// What comes first: a word is out, the oldest messages are done with, the store may take more, or another message
    /// is there.
    async fn next(&mut self, messages: &mut Consumer) -> Event {
        std::future::poll_fn(|context| {
            if let Some(word) = self.words.front_mut()
                && let Poll::Ready(said) = word.as_mut().poll(context)
            {
                self.words.pop_front();
                return Poll::Ready(Event::Said(said));
            }
            if let Some((tag, taken)) = done(&mut self.in_flight, context) {
                return Poll::Ready(Event::Done { tag, taken });
            }
            match &mut self.held {
                Some(held) => {
                    let over = held.again.as_mut().poll(context);
                    over.map(|()| Event::Again(self.held.take().expect("it was just there")))
                }
                None => Pin::new(&mut *messages).poll_next(context).map(Event::Message),
            }
        })
        .await
    }

    /// Tells the server that all messages up to this one are taken, or that this one can never be.
    fn word(&mut self, tag: u64, taken: IsSettled) {
        let channel = self.channel.clone();
        let mut word: Future<lapin::Result<()>> = Box::pin(async move {
            if taken {
                channel.basic_ack(tag, BasicAckOptions { multiple: true }).await
            } else {
                channel.basic_nack(tag, BasicNackOptions { multiple: false, requeue: false }).await
            }
        });
        // The first look hands it over, in the order of these words.
        if let Poll::Ready(said) = look(&mut word) {
            word = Box::pin(std::future::ready(said));
        }
        self.words.push_back(word);
    }

    fn begin(&mut self, message: Delivery) {
        let ledger = self.door.counters.of(Protocol::Amqp);
        ledger.bytes.add(message.data.len() as u64);
        let kind = message.properties.content_type().as_ref().map(|kind| kind.as_str().to_owned());
        match decoding(message.data.len(), || batch_from_message(kind.as_deref(), message.data)) {
            Ok((batch, frame)) => self.offer(message.delivery_tag, batch, frame),
            Err(_) => {
                ledger.unreadable(MALFORMED, 1);
                self.ended(message.delivery_tag, false);
            }
        }
    }

    fn ended(&mut self, tag: u64, taken: IsSettled) {
        self.in_flight.push_back(DeliveryInProgress { tag, taken: Box::pin(std::future::ready(taken)) });
    }

    /// Hands a batch to the store; what becomes of it is reported later. Those behind it wait while the store has no
    /// room.
    fn offer(&mut self, tag: u64, batch: Batch, frame: Vec<u8>) {
        let mut requested: Future<Result<(), Refusal>> = Box::pin(ask(self.door.clone(), batch, frame.clone()));
        match look(&mut requested) {
            Poll::Pending => {
                let taken = Box::pin(take(self.door.clone(), requested, frame));
                self.in_flight.push_back(DeliveryInProgress { tag, taken });
            }
            Poll::Ready(Ok(())) => self.ended(tag, true),
            Poll::Ready(Err(refusal)) => match pause(&refusal) {
                Some(pause) => {
                    let again = Box::pin(tokio::time::sleep(pause));
                    self.held = Some(DeferredMessage { tag, frame, again });
                }
                None => self.ended(tag, false),
            },
        }
    }
}

/// The batch of a frame that was decoded before.
fn decoded(frame: &[u8]) -> Batch {
    decoding(frame.len(), || Batch::decode(frame).expect("it was a batch before"))
}

/// Looks at what nobody waits for yet.
fn look<T>(future: &mut Future<T>) -> Poll<T> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// The last of the oldest messages that are all taken; or the oldest, which can never be.
fn done(in_flight: &mut VecDeque<DeliveryInProgress>, context: &mut Context<'_>) -> Option<(u64, IsSettled)> {
    let mut last = None;
    while let Some(oldest) = in_flight.front_mut() {
        let tag = oldest.tag;
        match oldest.taken.as_mut().poll(context) {
            Poll::Ready(true) => last = Some((tag, true)),
            Poll::Ready(false) if last.is_none() => {
                in_flight.pop_front();
                return Some((tag, false));
            }
            // Those before it first; it is found again as it is.
            Poll::Ready(false) => {
                oldest.taken = Box::pin(std::future::ready(false));
                break;
            }
            Poll::Pending => break,
        }
        in_flight.pop_front();
    }
    last
}

/// Offers a batch to the store, at the first look.
async fn ask(door: Arc<Door>, batch: Batch, frame: Vec<u8>) -> Result<(), Refusal> {
    let way = door.meters.ingest.begin_made();
    stored_whole(&door, Protocol::Amqp, batch, frame, &way).await?;
    door.meters.ingest.finish(way, Publisher::Of(Protocol::Amqp));
    Ok(())
}

/// When it makes sense to ask again, if ever. The ledger has counted it as refused.
fn pause(refusal: &Refusal) -> Option<Duration> {
    match refusal {
        Refusal::TooLarge(_) | Refusal::UnknownSeries { .. } => None,
        Refusal::Busy => Some(AGAIN),
        Refusal::DiskFull(_) | Refusal::Failed(_) => Some(AGAIN_FULL),
    }
}

/// What becomes of a batch that was offered; offers it until the store has it.
async fn take(door: Arc<Door>, mut requested: Future<Result<(), Refusal>>, frame: Vec<u8>) -> IsSettled {
    loop {
        let Err(refusal) = requested.await else { return true };
        let Some(pause) = pause(&refusal) else { return false };
        tokio::time::sleep(pause).await;
        let batch = decoded(&frame);
        requested = Box::pin(ask(door.clone(), batch, frame.clone()));
    }
}

/// Decodes something of this many bytes; while it is large, another thread takes over this one's tasks.
fn decoding<T>(bytes: usize, decode: impl FnOnce() -> T) -> T {
    if bytes > INLINE_BYTES_MAX { tokio::task::block_in_place(decode) } else { decode() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deliveries(outcomes: &[Option<bool>]) -> VecDeque<DeliveryInProgress> {
        let each = |(tag, outcome): (usize, &Option<bool>)| {
            let outcome = *outcome;
            let taken: Future<IsSettled> = match outcome {
                Some(taken) => Box::pin(std::future::ready(taken)),
                None => Box::pin(std::future::pending()),
            };
            DeliveryInProgress { tag: tag as u64, taken }
        };
        outcomes.iter().enumerate().map(each).collect()
    }

    #[test]
    fn only_what_is_done_up_to_the_oldest_is_acknowledged() {
        let (yes, no, later) = (Some(true), Some(false), None);
        for (outcomes, expected) in [
            (&[yes, yes, later, yes][..], vec![(1, true)]),
            (&[later, yes], vec![]),
            (&[yes, no, yes], vec![(0, true), (1, false), (2, true)]),
            (&[no, no, later], vec![(0, false), (1, false)]),
            (&[], vec![]),
        ] {
            let mut in_flight = deliveries(outcomes);
            let mut context = Context::from_waker(Waker::noop());
            let found: Vec<(u64, bool)> = std::iter::from_fn(|| done(&mut in_flight, &mut context)).collect();
            assert_eq!(found, expected, "{outcomes:?}");
        }
    }
}
