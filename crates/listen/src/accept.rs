//! Connections from their arrival on: within the limit, past TLS, and to what reads them.

use std::io::Result;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::beats::Beats;
use super::connection::{self, Rules, Stream, until};
use super::fluent::Fluent;
use super::intake::Intake;

/// When so many files are open that no connection is taken, it is tried again after this.
const PAUSE: Duration = Duration::from_millis(100);

/// 10 s for the handshake of TLS: a client far away needs one.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What a new connection is encrypted with; it may change while the server runs.
pub type Tls = Arc<dyn Fn() -> Option<Arc<ServerConfig>> + Send + Sync>;

/// What reads the connections of a socket.
#[derive(Clone)]
pub(super) enum Reader {
    /// Messages without acknowledgements.
    Lines(Arc<dyn Intake>, Rules),
    /// Windows of events, which are acknowledged.
    Beats(Arc<Beats>),
    /// Messages of entries, which are acknowledged where that is asked for.
    Fluent(Arc<Fluent>),
}

impl Reader {
    fn lost(&self, reason: &'static str, count: u64) {
        match self {
            Self::Lines(intake, _) => intake.lost(reason, count),
            Self::Beats(beats) => beats.lost(reason, count),
            Self::Fluent(fluent) => fluent.lost(reason, count),
        }
    }

    async fn serve(self, stream: impl Stream, ending: watch::Receiver<bool>) {
        match self {
            Self::Lines(intake, rules) => connection::serve(stream, intake, rules, ending).await,
            Self::Beats(beats) => beats.serve(stream, ending).await,
            Self::Fluent(fluent) => fluent.serve(stream, ending).await,
        }
    }
}

/// What a connection is read from, once it can be.
pub(super) trait Opening: Send + 'static {
    /// Whatever comes before its first byte; none when it failed.
    fn open(self) -> impl Future<Output = Option<impl Stream>> + Send;
}

impl Opening for TcpStream {
    async fn open(self) -> Option<impl Stream> {
        // An acknowledgement waits for nothing.
        let _ = self.set_nodelay(true);
        Some(self)
    }
}

impl Opening for UnixStream {
    async fn open(self) -> Option<impl Stream> {
        Some(self)
    }
}

/// A connection that begins with TLS.
pub(super) struct Handshake(TcpStream, Option<Arc<ServerConfig>>);

impl Opening for Handshake {
    async fn open(self) -> Option<impl Stream> {
        let Self(stream, config) = self;
        let _ = stream.set_nodelay(true);
        let accepted = tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(config?).accept(stream)).await;
        accepted.ok()?.ok()
    }
}

/// A socket at which connections arrive.
pub(super) trait Listener: Send + Sync + 'static {
    /// What arrives.
    type Connection: Opening;

    /// The next connection.
    fn next(&self) -> impl Future<Output = Result<Self::Connection>> + Send;
}

impl Listener for TcpListener {
    type Connection = TcpStream;

    async fn next(&self) -> Result<TcpStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

impl Listener for UnixListener {
    type Connection = UnixStream;

    async fn next(&self) -> Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

/// One whose connections begin with TLS.
pub(super) struct TlsListener {
    pub(super) listener: TcpListener,
    pub(super) tls: Tls,
}

impl Listener for TlsListener {
    type Connection = Handshake;

    async fn next(&self) -> Result<Handshake> {
        self.listener.next().await.map(|stream| Handshake(stream, (self.tls)()))
    }
}

/// A bound socket as one of the runtime's.
pub(super) fn tcp(listener: std::net::TcpListener) -> Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Takes the connections of a socket until the end, and returns when all of them have ended.
pub(super) async fn take(
    listener: impl Listener,
    limit: Arc<Semaphore>,
    reader: Reader,
    ending: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    while let Some(arrived) = until(&ending, listener.next()).await {
        accept(&mut connections, arrived, &limit, &reader, &ending).await;
    }
    connections.join_all().await;
}

async fn accept<S: Opening>(
    connections: &mut JoinSet<()>,
    stream: Result<S>,
    limit: &Arc<Semaphore>,
    reader: &Reader,
    ending: &watch::Receiver<bool>,
) {
    while connections.try_join_next().is_some() {}
    let Ok(stream) = stream else {
        reader.lost("connection_failed", 1);
        tokio::time::sleep(PAUSE).await;
        return;
    };
    let Ok(permit) = limit.clone().try_acquire_owned() else { return reader.lost("connections_limit", 1) };
    let (reader, ending) = (reader.clone(), ending.clone());
    connections.spawn(async move {
        match until(&ending, stream.open()).await {
            Some(Some(stream)) => reader.serve(stream, ending).await,
            _ => reader.lost("connection_failed", 1),
        }
        drop(permit);
    });
}
