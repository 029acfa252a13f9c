//! Datagrams of an SNMP agent: requests of one run, and the answers to them.
//!
//! The library's own sockets are not connected: they do not learn that nobody listens, and do not report what they
//! drop.
//!
//! Invariants: what is no answer to the request that waits never ends the wait, except a report that the agent refuses
//! the user. Such a report cannot be authenticated (RFC 3414, section 3.2), so the library passes over it; here it ends
//! the run, which whoever can forge it could also do by dropping the answers.
//! Limits: [`REQUESTS_MAX`], [`BYTES_MAX`], [`STRAYS_MAX`].

#[cfg(any(test, feature = "fuzz"))]
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_snmp::message::Message;
use async_snmp::v3::{ReportStatus, classify_report};
use async_snmp::{
    Candidate, DecodeConfig, Error, RequestRegistration, ResponseIdentity, Transport, UDP_RECEIVE_BUFFER_SIZE,
};
use hyper::body::Bytes;
use ogive_probe::Clock;
use tokio::net::UdpSocket;

use crate::run::{Failure, Reason};

/// 1,000 requests, repeated ones included: 10,000 values are 400 requests of 25.
const REQUESTS_MAX: usize = 1_000;
/// 4 MiB of datagrams: 400 bytes for each of 10,000 values.
const BYTES_MAX: usize = 4 << 20;
/// 1,000 datagrams that are no answers: late ones are fewer than requests.
const STRAYS_MAX: usize = 1_000;

/// What happened on the wire so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) requests: usize,
    /// Of datagrams that came.
    pub(super) bytes: usize,
    /// Datagrams that were no answer to the request that waited.
    pub(super) strays: usize,
    /// What is wrong with the last of them that could not be read, unless an answer came since.
    pub(super) unreadable: Option<String>,
    /// From each request to its answer, in nanoseconds.
    pub(super) round_trips: Vec<u64>,
    /// Why nothing more is to be sent.
    pub(super) end: Option<Failure>,
}

/// Access to a tally.
pub(super) fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The wire to one agent.
pub(super) struct Exchange {
    agent: SocketAddr,
    wire: Wire,
    clock: Clock,
    tally: Arc<Mutex<Tally>>,
}

enum Wire {
    /// It is connected: only the agent's datagrams come, and its refusals.
    Socket(UdpSocket),
    #[cfg(any(test, feature = "fuzz"))]
    Script(Mutex<Script>),
}

/// Datagrams that come whatever is sent.
#[cfg(any(test, feature = "fuzz"))]
struct Script {
    datagrams: VecDeque<Bytes>,
    /// The number of the last request.
    id: i32,
}

impl Exchange {
    pub(super) fn new(agent: SocketAddr, socket: UdpSocket, clock: Clock) -> Self {
        Self { agent, wire: Wire::Socket(socket), clock, tally: Arc::default() }
    }

    /// An agent that sends these datagrams to requests with the numbers 1, 2, 3, and then no more.
    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn scripted(datagrams: Vec<Bytes>, clock: Clock) -> Self {
        let script = Script { datagrams: datagrams.into(), id: 0 };
        let agent = SocketAddr::from(([127, 0, 0, 1], 161));
        Self { agent, wire: Wire::Script(Mutex::new(script)), clock, tally: Arc::default() }
    }

    /// What is counted here.
    pub(super) fn tally(&self) -> Arc<Mutex<Tally>> {
        self.tally.clone()
    }

    /// Ends the run with a failure of its own.
    fn end(&self, failure: Failure) -> Box<Error> {
        lock(&self.tally).end.get_or_insert(failure);
        Error::Closed { target: self.agent }.boxed()
    }

    fn network(&self, source: std::io::Error) -> Box<Error> {
        Error::Network { target: self.agent, source }.boxed()
    }

    /// Counts a request.
    fn begin(&self) -> async_snmp::Result<()> {
        let mut tally = lock(&self.tally);
        if tally.requests >= REQUESTS_MAX {
            drop(tally);
            let sentence = format!("the agent's answers are so short that {REQUESTS_MAX} requests were not enough");
            return Err(self.end(Failure::new(Reason::Limit, sentence)));
        }
        tally.requests += 1;
        Ok(())
    }

    /// Counts a datagram.
    fn came(&self, length: usize) -> async_snmp::Result<()> {
        let mut tally = lock(&self.tally);
        tally.bytes += length;
        if tally.bytes <= BYTES_MAX {
            return Ok(());
        }
        drop(tally);
        Err(self.end(Failure::new(Reason::Limit, format!("the agent sends more than {BYTES_MAX} bytes"))))
    }

    /// Counts a datagram that is no answer.
    fn stray(&self, datagram: Bytes) -> async_snmp::Result<()> {
        let decoded = Message::decode(datagram, DecodeConfig::STRICT);
        let mut tally = lock(&self.tally);
        tally.strays += 1;
        if let Err(error) = decoded {
            tally.unreadable = Some(error.to_string());
        }
        if tally.strays <= STRAYS_MAX {
            return Ok(());
        }
        drop(tally);
        let sentence = format!("the agent sends more than {STRAYS_MAX} datagrams that are no answers");
        Err(self.end(Failure::new(Reason::Limit, sentence)))
    }

    async fn transmit(&self, data: &[u8]) -> async_snmp::Result<()> {
        match &self.wire {
            Wire::Socket(socket) => socket.send(data).await.map(drop).map_err(|error| self.network(error)),
            #[cfg(any(test, feature = "fuzz"))]
            Wire::Script(_) => Ok(()),
        }
    }

    async fn receive(&self, buffer: &mut [u8]) -> async_snmp::Result<Bytes> {
        match &self.wire {
            Wire::Socket(socket) => {
                let length = socket.recv(buffer).await.map_err(|error| self.network(error))?;
                Ok(Bytes::copy_from_slice(&buffer[..length]))
            }
            #[cfg(any(test, feature = "fuzz"))]
            Wire::Script(script) => {
                let next = script.lock().unwrap_or_else(PoisonError::into_inner).datagrams.pop_front();
                next.ok_or_else(|| self.network(std::io::ErrorKind::ConnectionAborted.into()))
            }
        }
    }

    /// Sends a request and waits for what `validate` accepts.
    async fn answer<T, F>(
        &self,
        data: &[u8],
        registration: &RequestRegistration,
        mut validate: F,
    ) -> async_snmp::Result<T>
    where
        F: FnMut(Bytes, SocketAddr) -> async_snmp::Result<Candidate<T>>,
    {
        self.transmit(data).await?;
        let mut buffer = vec![0; UDP_RECEIVE_BUFFER_SIZE];
        loop {
            let datagram = self.receive(&mut buffer).await?;
            self.came(datagram.len())?;
            // The socket takes no others' datagrams.
            if registration.evaluate_response_identity(&datagram, true) == ResponseIdentity::Match {
                if let Candidate::Accept(answer) = validate(datagram.clone(), self.agent)? {
                    return Ok(answer);
                }
                if let Some(failure) = refusal(datagram.clone()) {
                    return Err(self.end(failure));
                }
            }
            self.stray(datagram)?;
        }
    }
}

impl Transport for Exchange {
    async fn send(&self, data: &[u8]) -> async_snmp::Result<()> {
        self.transmit(data).await
    }

    async fn request_with<T, F>(
        &self,
        data: &[u8],
        registration: RequestRegistration,
        validate: F,
    ) -> async_snmp::Result<T>
    where
        T: Send,
        F: FnMut(Bytes, SocketAddr) -> async_snmp::Result<Candidate<T>> + Send,
    {
        self.begin()?;
        let from = self.clock.now();
        let answered =
            tokio::time::timeout_at(registration.deadline(), self.answer(data, &registration, validate)).await;
        let spent_ns = self.clock.now().saturating_sub(from);
        let Ok(answered) = answered else {
            let elapsed = Duration::from_nanos(spent_ns);
            return Err(Error::Timeout { target: self.agent, elapsed, retries: 0 }.boxed());
        };
        let answer = answered?;
        let mut tally = lock(&self.tally);
        tally.round_trips.push(spent_ns);
        tally.unreadable = None;
        Ok(answer)
    }

    fn peer_addr(&self) -> SocketAddr {
        self.agent
    }

    fn local_addr(&self) -> SocketAddr {
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        match &self.wire {
            Wire::Socket(socket) => socket.local_addr().unwrap_or(unknown),
            #[cfg(any(test, feature = "fuzz"))]
            Wire::Script(_) => unknown,
        }
    }

    fn alloc_request_id(&self) -> i32 {
        match &self.wire {
            Wire::Socket(_) => async_snmp::transport::alloc_request_id(),
            #[cfg(any(test, feature = "fuzz"))]
            Wire::Script(script) => {
                let mut script = script.lock().unwrap_or_else(PoisonError::into_inner);
                script.id += 1;
                script.id
            }
        }
    }

    fn is_reliable(&self) -> bool {
        false
    }
}

/// A report that refuses the user, in a message that is not authenticated.
fn refusal(datagram: Bytes) -> Option<Failure> {
    let message = Message::decode(datagram, DecodeConfig::STRICT).ok()?.value;
    let Message::V3(message) = message else { return None };
    let status = classify_report(message.pdu()?).ok()?;
    let failure = reported(&status);
    (failure.reason == Reason::Login).then_some(failure)
}

/// What a report means.
pub(super) fn reported(status: &ReportStatus) -> Failure {
    let what = match status {
        ReportStatus::UnknownUserName { .. } => "does not know the user",
        ReportStatus::WrongDigest { .. } => "refuses the password, or the user has another kind of authentication",
        ReportStatus::UnsupportedSecurityLevel { .. } => "does not offer the user this authentication and privacy",
        ReportStatus::DecryptionError { .. } => {
            "cannot decrypt: the privacy password is wrong, or the user has another kind of privacy"
        }
        other => return Failure::new(Reason::Status, format!("the agent reports: {other}")),
    };
    Failure::new(Reason::Login, format!("the agent {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snmp::testing::{UNKNOWN_ENGINE, UNKNOWN_USER, WRONG_DIGEST, answer, report};

    #[test]
    fn reports_that_refuse_the_user_end_a_run_and_others_do_not() {
        for (object, expected) in [(UNKNOWN_USER, true), (WRONG_DIGEST, true), (UNKNOWN_ENGINE, false)] {
            let failure = refusal(report(7, "u", object));
            assert_eq!(failure.is_some(), expected, "{object}: {failure:?}");
            assert!(failure.is_none_or(|failure| failure.reason == Reason::Login));
        }
        assert_eq!(refusal(answer(7, &[])), None);
        assert_eq!(refusal(Bytes::from_static(b"HTTP/1.1 400")), None);
    }
}
