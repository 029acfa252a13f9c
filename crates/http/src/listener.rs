//! Listeners: every address serves the same routes, over HTTP/1.1 and HTTP/2.
//!
//! With a `tls_server_config` every connection is encrypted, with what is in force when it begins; plain HTTP all the
//! same is answered with an error. Which of the two a client speaks shows in its first bytes: HTTP/2 without TLS begins
//! with its preface ("prior knowledge", as gRPC clients do), with TLS they agree in the handshake; there is no upgrade
//! from one to the other.
//! Threads: one task accepts at each address, one serves each connection; HTTP/2 adds one for each stream.
//! Limits: [`CONNECTIONS_MAX`] over all addresses; who comes then gets the place of the connection that waits for its
//! client longest ([`places`]), or waits in the system's backlog where all are at work; whoever asks for the health of
//! the process is answered always. The head of the first request arrives within [`FIRST_HEAD`], each further one within
//! [`NEXT_HEAD`] of the answer before; heads are bounded by [`HEAD_BYTES_MAX`] and [`HEADERS_MAX`], bodies in time by
//! [`super::body::ARRIVAL`]. A connection on which no byte has moved for [`IDLE`] (or the longest query and a little)
//! is closed. A connection that a handler has made one of another protocol is the handler's. Answers that are not read
//! yet hold [`ANSWERS_KIB_MAX`] together. HTTP/2: [`STREAMS_MAX`] and [`WINDOW_BYTES`]; a client that resets streams
//! faster than they are looked at ([`RESETS_MAX`]), or sends a head without end, loses its connection.
//! Failure: what is wrong with one connection ends that connection.

mod connection;
mod places;
mod targets;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use ogive_crash::activity::Work;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt;

use super::compression;
use super::error::ApiError;
use super::peer::Peer;
use crate::web::{Evicted, LoginFailure, Web};
use connection::{Connection, Sending, TimedBody};
use places::{ConnectionPlaces, InFlight, Limits, Slot};
use targets::Targets;

/// 736, and with the reserve and the connections that are being closed 800 of the 1,024 open files that a process
/// usually may have; the rest is for the store.
const CONNECTIONS_MAX: usize = 736;
/// 32 connections more when all others are busy: they may only request the health of the process.
const RESERVE: usize = 32;
/// 32 connections that were evicted and are being closed.
const LEAVING_MAX: usize = 32;
const _: () = assert!(CONNECTIONS_MAX + RESERVE + LEAVING_MAX == 800);

/// What a connection of the reserve may request: the routes that need no login.
const HEALTH: [&str; 4] = ["/-/ready", "/-/healthy", "/health", "/ping"];

/// 150 s: longer than the longest query is by default, during which nothing moves.
const IDLE: Duration = Duration::from_secs(150);

/// 20 s from the connection to the end of its first head: a handshake and a packet or two, also over a bad line.
const FIRST_HEAD: Duration = Duration::from_secs(20);

/// 75 s from a response to the end of the next head: more than the interval of a minute at which most senders send.
const NEXT_HEAD: Duration = Duration::from_secs(75);

/// 64 KiB of a request's head: an expression of 60,000 characters in the address. Longer ones are posted.
const HEAD_BYTES_MAX: u32 = 64 * 1024;

/// 100 headers, as most servers accept: browsers send twenty.
const HEADERS_MAX: usize = 100;

/// 64 requests at once on one connection: a page of panels, or a sender that does not wait.
const STREAMS_MAX: u32 = 64;

/// 512 KiB that one connection may have sent without it being read: 400 MiB over [`CONNECTIONS_MAX`], in the worst
/// case.
const WINDOW_BYTES: u32 = 512 * 1024;

/// 20 streams that were reset before they were processed, and as many that the server had to reset: well-behaved
/// clients have none.
const RESETS_MAX: usize = 20;

/// 512 MiB of responses that wait to be read: a few of the largest, or half a MiB for each connection.
const ANSWERS_KIB_MAX: usize = 512 * 1024;

/// 50 ms until the next attempt when no connection could be accepted: others may be closed meanwhile.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// The first byte of a handshake of TLS.
const TLS_HANDSHAKE: u8 = 22;

/// The response to plain HTTP on a port with TLS.
const NOT_PLAIN: &[u8] = b"HTTP/1.0 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n\
    {\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"this server speaks TLS here; use https://\"}\n";

/// Which routes are served at which address.
#[derive(Clone)]
pub struct Routes {
    main: Router,
    /// At these addresses something else.
    others: Vec<(SocketAddr, Router)>,
}

impl From<Router> for Routes {
    fn from(main: Router) -> Self {
        Self { main, others: Vec::new() }
    }
}

impl Routes {
    /// Serves `router` at these addresses in place of the others' routes.
    #[must_use]
    pub fn with(mut self, addresses: &[SocketAddr], router: &Router) -> Self {
        self.others.extend(addresses.iter().map(|address| (*address, router.clone())));
        self
    }

    /// The routes for a client that connected to `local`.
    fn at(&self, local: SocketAddr) -> &Router {
        let is_here = |address: &SocketAddr| {
            address.port() == local.port()
                && (address.ip().is_unspecified() || address.ip() == local.ip().to_canonical())
        };
        self.others.iter().find(|(address, _)| is_here(address)).map_or(&self.main, |(_, router)| router)
    }
}

/// State shared by all connections.
struct Door {
    routes: Routes,
    places: Arc<ConnectionPlaces>,
    /// Kibibytes of responses that are not sent yet.
    answers_kib: Arc<Semaphore>,
    web: Arc<Web>,
    idle: Duration,
    first_head: Duration,
    builder: auto::Builder<TokioExecutor>,
}

/// Serves `routes` at every address until `ending` says so and the requests in flight are answered. `query_timeout` is
/// the longest time that a connection whose client waits may be idle.
pub async fn serve(
    listeners: Vec<TcpListener>,
    routes: impl Into<Routes>,
    web: Arc<Web>,
    query_timeout: Duration,
    ending: watch::Receiver<bool>,
) {
    let idle = IDLE.max(query_timeout + Duration::from_secs(30));
    let places = ConnectionPlaces::new(Limits { connections: CONNECTIONS_MAX, reserve: RESERVE, leaving: LEAVING_MAX });
    let answers_kib = Arc::new(Semaphore::new(ANSWERS_KIB_MAX));
    let door =
        Door { routes: routes.into(), places, answers_kib, web, idle, first_head: FIRST_HEAD, builder: builder() };
    serve_through(door, listeners, ending).await;
}

/// 16,384 brokers, or as many as the process may have open files for, less those of everything else.
const BROKERS_MAX: usize = 16_384;

/// As [`serve`], for brokers alone, whose polls wait: `open_files` is how many the process may have.
pub async fn serve_fleet(
    listeners: Vec<TcpListener>,
    router: Router,
    web: Arc<Web>,
    open_files: usize,
    ending: watch::Receiver<bool>,
) {
    let connections = BROKERS_MAX.min(open_files.saturating_sub(1_024)).max(64);
    let places = ConnectionPlaces::new(Limits { connections, reserve: 0, leaving: LEAVING_MAX });
    let answers_kib = Arc::new(Semaphore::new(ANSWERS_KIB_MAX));
    let routes = Routes::from(router);
    let door = Door { routes, places, answers_kib, web, idle: IDLE, first_head: FIRST_HEAD, builder: builder() };
    serve_through(door, listeners, ending).await;
}

async fn serve_through(door: Door, listeners: Vec<TcpListener>, ending: watch::Receiver<bool>) {
    let door = Arc::new(door);
    let mut tasks = JoinSet::new();
    for listener in listeners {
        tasks.spawn(accept(listener, door.clone(), ending.clone()));
    }
    while tasks.join_next().await.is_some() {}
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(NEXT_HEAD)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(RESETS_MAX);
    builder
}

/// Accepts at one address; returns when its connections have ended.
async fn accept(listener: TcpListener, door: Arc<Door>, mut ending: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        let next = tokio::select! {
            next = next(&listener, &door) => next,
            _ = ending.wait_for(|ending| *ending) => break,
        };
        connections.spawn(connection(next, door.clone(), ending.clone()));
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Waits for a connection, then for its place.
async fn next(listener: &TcpListener, door: &Door) -> Connection {
    let (stream, address) = loop {
        match listener.accept().await {
            Ok(accepted) => break accepted,
            // The client has disconnected already, or the process is out of file descriptors.
            Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
        }
    };
    // Responses are written whole: waiting for more data would only delay them.
    let _ = stream.set_nodelay(true);
    loop {
        if let Some((place, is_evicting)) = door.places.take(address.ip().to_canonical()) {
            if is_evicting {
                door.web.evicted(Evicted::Connection);
            }
            return Connection::new(stream, door.idle, place);
        }
        tokio::time::sleep(ACCEPT_AGAIN).await;
    }
}

/// Serves one connection to its end.
async fn connection(stream: Connection, door: Arc<Door>, ending: watch::Receiver<bool>) {
    let first = tokio::time::sleep(door.first_head);
    let (Ok(remote), Ok(local)) = (stream.stream().peer_addr(), stream.stream().local_addr()) else { return };
    let (slot, mut peer) = (stream.slot(), Peer { remote, local, certificate: None });
    let Some(tls) = door.web.tls() else { return converse(stream, &door, slot, peer, first, ending).await };
    let mut first = Box::pin(first);
    let shaken = tokio::select! {
        shaken = shake(stream, tls) => shaken,
        () = first.as_mut() => Err(()),
        () = slot.evicted() => return,
    };
    match shaken {
        Ok(stream) => {
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            peer.certificate = shown.map(crate::web::certificate_name);
            converse(stream, &door, slot, peer, first, ending).await;
        }
        Err(()) => door.web.turned_away(LoginFailure::Tls),
    }
}

/// The handshake. Plain HTTP gets a plain HTTP error, as from Go's servers.
async fn shake(mut stream: Connection, tls: Arc<ServerConfig>) -> Result<TlsStream<Connection>, ()> {
    let mut byte = [0];
    let is_plain = matches!(stream.peek(&mut byte).await, Ok(1)) && byte[0] != TLS_HANDSHAKE;
    if is_plain {
        let _ = stream.write_all(NOT_PLAIN).await;
        let _ = stream.shutdown().await;
        return Err(());
    }
    TlsAcceptor::from(tls).accept(stream).await.map_err(|_| ())
}

/// What a crash report says about a thread's work: method, path, and the trace of the request.
fn work<B>(request: &Request<B>) -> Work {
    let trace = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    let trace = trace.and_then(|value| value.split('-').nth(1)).filter(|id| id.len() == 32);
    let (method, path) = (request.method(), request.uri().path());
    Work::new(&match trace {
        Some(trace) => format!("trace {trace}, {method} {path}"),
        None => format!("{method} {path}"),
    })
}

/// The connection of a request, for a handler that makes it one of another protocol.
#[derive(Clone)]
pub(super) struct Switchable(Arc<Slot>);

impl Switchable {
    /// From now on the handler decides when the connection is idle, and it keeps its place until it ends.
    pub(super) fn switch(&self) {
        self.0.switch();
    }
}

/// Answers requests until the connection ends, is evicted or carries another protocol. `first` is the deadline of the
/// first request.
async fn converse<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    door: &Door,
    slot: Arc<Slot>,
    peer: Peer,
    first: impl Future<Output = ()>,
    mut ending: watch::Receiver<bool>,
) {
    let requested = Arc::new(AtomicBool::new(false));
    let service = {
        let (requested, router, room) =
            (requested.clone(), door.routes.at(peer.local).clone(), door.answers_kib.clone());
        let slot = slot.clone();
        service_fn(move |mut request: Request<Incoming>| {
            // ORDERING: Relaxed; the flag guards no other memory, and who reads it late is only more patient.
            requested.store(true, Ordering::Relaxed);
            request.extensions_mut().insert(peer.clone());
            request.extensions_mut().insert(Switchable(slot.clone()));
            let (router, room, slot) = (router.clone(), room.clone(), slot.clone());
            // The memory of a response is counted when it is made, below the compression.
            let answers = tower::service_fn(move |request| {
                let (router, room, slot) = (router.clone(), room.clone(), slot.clone());
                let in_flight = slot.begin();
                async move { Ok::<_, Infallible>(held(answer(router, request, slot).await, &room, in_flight)) }
            });
            work(&request).within(compression::service(answers).oneshot(request))
        })
    };
    let mut served =
        std::pin::pin!(door.builder.serve_connection_with_upgrades(TokioIo::new(Targets::new(stream)), service));
    let mut first = std::pin::pin!(first);
    let (mut waits, mut reported) = (true, false);
    loop {
        tokio::select! {
            // Errors of a connection concern only its client.
            _ = served.as_mut() => return,
            () = slot.evicted() => return,
            () = first.as_mut(), if waits => {
                // ORDERING: Relaxed; see above.
                if !requested.load(Ordering::Relaxed) {
                    return;
                }
                waits = false;
            }
            _ = ending.wait_for(|ending| *ending), if !reported => {
                served.as_mut().graceful_shutdown();
                reported = true;
            }
        }
    }
}

async fn answer(router: Router, request: Request<Incoming>, slot: Arc<Slot>) -> Response {
    if slot.is_reserve && !HEALTH.contains(&request.uri().path()) {
        let mut response = ApiError::unavailable("all connections are busy; try again in a second").into_response();
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    if request.headers().len() > HEADERS_MAX {
        let message = format!("the request has more than {HEADERS_MAX} headers; send fewer");
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return ApiError { status, ..ApiError::bad_data(message) }.into_response();
    }
    let request = request.map(|body| Body::new(TimedBody::new(body, slot)));
    router.oneshot(request).await.unwrap_or_else(|never| match never {})
}

/// The response with its share of the memory for responses, until it is sent. If slow readers have used it up, an error
/// to retry later.
fn held(response: Response, room: &Arc<Semaphore>, in_flight: InFlight) -> Response {
    let bytes = response.body().size_hint().exact().unwrap_or(0);
    let kib = usize::try_from(bytes.div_ceil(1024)).unwrap_or(usize::MAX);
    // The largest response may be sent alone.
    let share = kib.min(ANSWERS_KIB_MAX) as u32;
    match room.clone().try_acquire_many_owned(share) {
        Ok(share) => response.map(|body| Body::new(Sending::new(body, share, in_flight))),
        Err(_) => ApiError::busy("too many responses are waiting to be read; try again in a second").into_response(),
    }
}

#[cfg(test)]
mod tests;
