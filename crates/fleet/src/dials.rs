//! Connections through brokers, as the server counts them: those that brokers are asked for, and those that are open.
//!
//! Invariants: a request is delivered to one poll of its broker, and only that broker can answer it, once. A place is
//! free again when the connection, or the wait for it, ends in whatever way.
//! Limits: [`CONNECTIONS_MAX`] at the server, [`BROKER_CONNECTIONS_MAX`] of a broker, [`ESTABLISH`] until one is there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ogive_door::counters::Counters;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use crate::secret::random_hex;
use crate::wire::Connect;

/// 64 connections: of the 736 of the server's addresses they take 128, and 4 MiB for what they hold.
const CONNECTIONS_MAX: usize = 64;
/// 16 connections of a broker: some people with some sessions each.
pub const BROKER_CONNECTIONS_MAX: usize = 16;
/// 10 s for the poll, the broker's connection to the target and the one back: three connections over bad lines.
const ESTABLISH: Duration = Duration::from_secs(10);
/// 7 s of them for the connection to the target, so that the broker can say that it took too long.
pub const DIAL: Duration = Duration::from_secs(7);
/// 16 bytes cannot be guessed within [`ESTABLISH`].
const ID_BYTES: usize = 16;
/// 1,000 bytes of what a broker says: a sentence with a target, twice, and the path of its file.
const TEXT_BYTES_MAX: usize = 1_000;

/// What a broker may give as a reason; others are counted as `other`.
const REASONS: [&str; 6] = ["limit", "name", "not_allowed", "refused", "timeout", "unreachable"];

/// A connection to a broker.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The value of the label `reason`.
    pub reason: &'static str,
    /// A sentence that says what to do.
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// An open connection, framed as docs/formats/fleet.md has it.
pub struct Connection {
    /// The connection to the broker.
    pub stream: Box<dyn Duplex>,
    /// Held while it is open.
    pub place: Place,
}

/// See the module.
pub(crate) struct Dials {
    counters: Arc<Counters>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// Requests without an answer, by id.
    waiting: HashMap<String, Waiting>,
    /// Places taken, by broker.
    taken: HashMap<String, usize>,
}

type Answered = Result<Box<dyn Duplex>, Refusal>;

struct Waiting {
    broker: String,
    request: Connect,
    is_delivered: bool,
    answer: oneshot::Sender<Answered>,
}

/// A place among the connections.
pub struct Place {
    dials: Arc<Dials>,
    id: String,
    broker: String,
}

/// A connection that a broker was asked for.
pub(crate) struct Dialing {
    place: Place,
    answer: oneshot::Receiver<Answered>,
}

/// The answer of a broker to a request.
pub struct Arrival(oneshot::Sender<Answered>);

impl Arrival {
    /// The broker has connected: here is its connection.
    pub fn connected(self, stream: Box<dyn Duplex>) {
        // Who asked may have gone.
        drop(self.0.send(Ok(stream)));
    }

    /// The broker has not connected. Both are its own words.
    pub fn refused(self, reason: &str, text: &str) {
        let reason = REASONS.iter().copied().find(|known| *known == reason).unwrap_or("other");
        let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
        let text: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        drop(self.0.send(Err(Refusal::new(reason, text))));
    }
}

impl Dials {
    pub(crate) fn new(counters: Arc<Counters>) -> Arc<Self> {
        Arc::new(Self { counters, table: Mutex::default() })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request to `broker`, for its next poll, by which it gets its id.
    pub(crate) fn add(self: &Arc<Self>, broker: &str, request: Connect) -> Result<Dialing, Refusal> {
        let id = random_hex(ID_BYTES).map_err(|why| Refusal::new("other", why))?;
        let mut table = self.table();
        let all: usize = table.taken.values().sum();
        let of_broker = table.taken.get(broker).copied().unwrap_or(0);
        let limit = |count: usize, whose: &str| {
            Refusal::new(
                "limit",
                format!("{count} connections lead through {whose}, and no more are taken; close some"),
            )
        };
        if of_broker >= BROKER_CONNECTIONS_MAX {
            return Err(limit(of_broker, &format!("the broker {broker:?}")));
        }
        if all >= CONNECTIONS_MAX {
            return Err(limit(all, "this server"));
        }
        *table.taken.entry(broker.to_owned()).or_default() += 1;
        let (sender, answer) = oneshot::channel();
        let request = Connect { id: id.clone(), ..request };
        let waiting = Waiting { broker: broker.to_owned(), request, is_delivered: false, answer: sender };
        let before = table.waiting.insert(id.clone(), waiting);
        assert!(before.is_none(), "the id {id} was there");
        self.show(&table);
        Ok(Dialing { place: Place { dials: self.clone(), id, broker: broker.to_owned() }, answer })
    }

    /// The requests for a poll of `broker`, each once.
    pub(crate) fn deliver(&self, broker: &str) -> Vec<Connect> {
        let mut table = self.table();
        let new = table.waiting.values_mut().filter(|one| one.broker == broker && !one.is_delivered);
        new.map(|one| {
            one.is_delivered = true;
            one.request.clone()
        })
        .collect()
    }

    /// The request `id`, which `broker` answers; none when there is no such request, or it is another's.
    pub(crate) fn arrive(&self, broker: &str, id: &str) -> Option<Arrival> {
        let mut table = self.table();
        let is_its = table.waiting.get(id).is_some_and(|one| one.broker == broker && one.is_delivered);
        if is_its { table.waiting.remove(id).map(|one| Arrival(one.answer)) } else { None }
    }

    fn show(&self, table: &Table) {
        let all: usize = table.taken.values().sum();
        assert!(all <= CONNECTIONS_MAX, "{all} connections");
        self.counters.fleet.set("ogive_fleet_connections", ("", ""), all as f64);
    }
}

impl Dialing {
    /// Waits for the broker's answer.
    pub(crate) async fn wait(self) -> Result<Connection, Refusal> {
        let Self { place, answer } = self;
        let broker = &place.broker;
        match tokio::time::timeout(ESTABLISH, answer).await {
            Ok(Ok(Ok(stream))) => Ok(Connection { stream, place }),
            Ok(Ok(Err(refusal))) => Err(refusal),
            Ok(Err(_)) => Err(Refusal::new("broken", format!("the connection of the broker {broker:?} broke"))),
            Err(_) => {
                let is_delivered = place.dials.table().waiting.get(&place.id).is_none_or(|one| one.is_delivered);
                let seconds = ESTABLISH.as_secs();
                let message = match is_delivered {
                    true => format!("the broker {broker:?} has not connected within {seconds} s; see its log"),
                    false => format!(
                        "the broker {broker:?} has not polled within {seconds} s; if it is there, give brokers an address \
                         of their own (--fleet-listen), where polls wait"
                    ),
                };
                Err(Refusal::new("timeout", message))
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.dials.table();
        table.waiting.remove(&self.id);
        let taken = table.taken.get_mut(&self.broker).expect("a place is counted");
        *taken -= 1;
        if *taken == 0 {
            table.taken.remove(&self.broker);
        }
        self.dials.show(&table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(by: &str) -> Connect {
        Connect { target: "db:5432".into(), by: by.into(), ..Connect::default() }
    }

    fn is_empty(dials: &Dials) -> bool {
        let table = dials.table();
        table.taken.is_empty() && table.waiting.is_empty()
    }

    #[tokio::test]
    async fn a_request_is_delivered_once_and_answered_by_its_broker_once() {
        let dials = Dials::new(Arc::default());
        let dialing = dials.add("a", request("\"amy\"")).unwrap();
        assert!(dials.deliver("b").is_empty());
        let id = dialing.place.id.clone();
        assert!(dials.arrive("a", &id).is_none(), "the broker cannot know it yet");
        let delivered = dials.deliver("a");
        let expected = Connect { id: id.clone(), ..request("\"amy\"") };
        assert_eq!((delivered, dials.deliver("a")), (vec![expected], Vec::new()));
        assert!(dials.arrive("b", &id).is_none() && dials.arrive("a", "x").is_none());
        let (near, _far) = tokio::io::duplex(10);
        dials.arrive("a", &id).unwrap().connected(Box::new(near));
        assert!(dials.arrive("a", &id).is_none());
        let connection = dialing.wait().await.unwrap();
        assert_eq!(dials.table().taken["a"], 1);
        drop(connection);
        assert!(is_empty(&dials));
    }

    #[tokio::test]
    async fn a_refusal_is_passed_on_within_limits() {
        let dials = Dials::new(Arc::default());
        let refused = async |reason: &str, text: &str| {
            let dialing = dials.add("a", request("")).unwrap();
            let id = dials.deliver("a")[0].id.clone();
            dials.arrive("a", &id).unwrap().refused(reason, text);
            dialing.wait().await.err().unwrap()
        };
        assert_eq!(refused("not_allowed", "not\x1b[1m").await, Refusal::new("not_allowed", "not [1m"));
        let other = refused("anything", &"ä".repeat(TEXT_BYTES_MAX)).await;
        assert_eq!((other.reason, other.message.len()), ("other", TEXT_BYTES_MAX));
        let dialing = dials.add("a", request("")).unwrap();
        let id = dials.deliver("a")[0].id.clone();
        drop(dials.arrive("a", &id));
        assert_eq!(dialing.wait().await.err().unwrap().reason, "broken");
    }

    #[test]
    fn places_are_limited_and_free_again() {
        let dials = Dials::new(Arc::default());
        let add = |broker: &str| dials.add(broker, request(""));
        let mut of_one: Vec<_> = (0..BROKER_CONNECTIONS_MAX).map(|_| add("a").unwrap()).collect();
        let refusal = add("a").err().unwrap();
        assert!(refusal.reason == "limit" && refusal.message.contains("16 connections"), "{refusal:?}");
        of_one.pop();
        of_one.push(add("a").unwrap());
        let others = (BROKER_CONNECTIONS_MAX..CONNECTIONS_MAX).map(|at| add(&format!("b{at}")).unwrap());
        let others: Vec<_> = others.collect();
        assert!(add("c").err().unwrap().message.contains("through this server"));
        drop(others);
        assert!(add("c").is_ok());
        drop(of_one);
        assert!(is_empty(&dials));
    }
}
