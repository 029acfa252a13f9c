//! Sends requests over connections that stay open, each made when the one before was answered, until there are no more
//! or a resource ends. So the client holds one request of each connection, however many there are.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{FRAME, PATIENCE};
use crate::connection::Connection;
use crate::guard::{End, Guard, Resource};
use crate::target::Target;

/// Connections that send at once. A series belongs to one of them, so that its samples arrive in order.
pub(crate) const LANES: usize = 4;
/// A server that takes nothing for so long has no room: a flush of a full head takes seconds.
const STALL: Duration = Duration::from_secs(120);
/// What the server asks for (`Retry-After`).
const RETRY: Duration = Duration::from_secs(1);
/// How often one request is sent over another connection after its own broke.
const RECONNECTS: usize = 3;

/// How a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A native batch.
    Batch,
    /// Remote write 1.0.
    RemoteWrite,
}

/// What is sent at once.
pub(crate) struct Request {
    pub(crate) body: Vec<u8>,
    pub(crate) samples: u64,
}

/// Makes the request of a lane with a number; `None` after its last one.
pub(crate) type Make<'a> = &'a (dyn Fn(usize, usize) -> Option<Request> + Sync);

/// What was taken.
#[derive(Default)]
pub(crate) struct Sent {
    /// Of each lane.
    pub(crate) requests: Vec<usize>,
    pub(crate) samples: u64,
    /// Why it ended early.
    pub(crate) end: Option<End>,
}

/// Sends everything that `make` gives.
pub(crate) fn send(target: &Target, guard: &Guard, form: Form, make: Make<'_>) -> Sent {
    let stop = AtomicBool::new(false);
    let run = |lane: usize| {
        let mut sent = LaneSent::default();
        let outcome = send_lane(target, guard, form, (lane, make), (&stop, &mut sent));
        if outcome.is_err() {
            // ORDERING: Relaxed; pairs with the load in `send_lane`, and guards nothing.
            stop.store(true, Ordering::Relaxed);
        }
        (sent, outcome.err())
    };
    let run = &run;
    let lanes: Vec<(LaneSent, Option<End>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..LANES).map(|lane| scope.spawn(move || run(lane))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a sender does not panic")).collect()
    });
    let mut all = Sent::default();
    for (lane, end) in lanes {
        all.requests.push(lane.requests);
        all.samples += lane.samples;
        all.end = all.end.or(end);
    }
    all
}

#[derive(Default)]
struct LaneSent {
    requests: usize,
    samples: u64,
}

fn send_lane(
    target: &Target,
    guard: &Guard,
    form: Form,
    (lane, make): (usize, Make<'_>),
    (stop, sent): (&AtomicBool, &mut LaneSent),
) -> Result<(), End> {
    let address = &target.server.address;
    let gone = |error: io::Error| End::new(Resource::Server, &error.to_string());
    let mut connection = connect(address).map_err(gone)?;
    // ORDERING: Relaxed; pairs with the store in `send`, and guards nothing.
    while !stop.load(Ordering::Relaxed) {
        let Some(request) = make(lane, sent.requests) else { break };
        guard.check(target.server.pid())?;
        deliver(&mut connection, address, form, &request)?;
        sent.requests += 1;
        sent.samples += request.samples;
    }
    Ok(())
}

fn connect(address: &str) -> io::Result<Connection> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(Connection::new(stream))
}

/// Sends a request until all of its samples are accepted as what they are; one that was taken twice counts once.
fn deliver(connection: &mut Connection, address: &str, form: Form, request: &Request) -> Result<(), End> {
    let (from, mut breaks) = (Instant::now(), 0);
    loop {
        let (status, answer) = match post(connection, form, &request.body) {
            Ok(answered) => answered,
            Err(error) if breaks == RECONNECTS => return Err(End::new(Resource::Server, &error.to_string())),
            Err(_) => {
                breaks += 1;
                std::thread::sleep(Duration::from_secs(1));
                if let Ok(another) = connect(address) {
                    *connection = another;
                }
                continue;
            }
        };
        match status {
            200 => return accepted(&answer, request.samples),
            204 => return Ok(()),
            429 | 503 if from.elapsed() < STALL => std::thread::sleep(RETRY),
            429 => return Err(End::new(Resource::IngestMemory, &answer)),
            507 => return Err(End::new(Resource::Disk, &answer)),
            _ => return Err(End::new(Resource::Refusal, &format!("{status}: {answer}"))),
        }
    }
}

/// Whether a batch was accepted as a whole, and none of its series folded.
fn accepted(answer: &str, samples: u64) -> Result<(), End> {
    let verdict: serde_json::Value = serde_json::from_str(answer).unwrap_or_default();
    let count = |name: &str| verdict[name].as_u64().unwrap_or(0);
    if count("accepted") + count("duplicate") != samples {
        return Err(End::new(Resource::Refusal, answer));
    }
    match count("folded") {
        0 => Ok(()),
        folded => {
            let evidence = format!("{folded} of the {samples} samples of a batch went to the series ogive_overflow");
            Err(End::new(Resource::Identities, &evidence))
        }
    }
}

/// Status and body of the answer.
fn post(connection: &mut Connection, form: Form, body: &[u8]) -> io::Result<(u16, String)> {
    match form {
        Form::Batch => connection.post("/v1/batch", &format!("content-type: {FRAME}\r\n"), body),
        Form::RemoteWrite => connection.post(
            "/api/v1/write",
            "content-type: application/x-protobuf\r\ncontent-encoding: snappy\r\n\
             x-prometheus-remote-write-version: 0.1.0\r\n",
            body,
        ),
    }
}
