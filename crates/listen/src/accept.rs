//! Connections from their arrival on: within the limit, past TLS, and to what reads them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::beats::Beats;
use super::connection::{self, Rules, Stream, until};
use super::intake::Intake;

/// When so many files are open that no connection is taken, it is tried again after this.
const PAUSE: Duration = Duration::from_millis(100);

/// 10 s for the handshake of TLS: a client far away needs one.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What reads the connections of a socket.
#[derive(Clone)]
pub(super) enum Reader {
    /// Messages without acknowledgements.
    Lines(Arc<dyn Intake>, Rules),
    /// Windows of events, which are acknowledged.
    Beats(Arc<Beats>),
}

impl Reader {
    fn lost(&self, reason: &'static str, count: u64) {
        match self {
            Self::Lines(intake, _) => intake.lost(reason, count),
            Self::Beats(beats) => beats.lost(reason, count),
        }
    }

    async fn serve(self, stream: impl Stream, ending: watch::Receiver<bool>) {
        match self {
            Self::Lines(intake, rules) => connection::serve(stream, intake, rules, ending).await,
            Self::Beats(beats) => beats.serve(stream, ending).await,
        }
    }
}

/// What a connection is read from, once it can be.
pub(super) trait Opening: Send + 'static {
    /// Whatever comes before its first byte; none when it failed.
    fn open(self) -> impl Future<Output = Option<impl Stream>> + Send;
}

impl Opening for tokio::net::TcpStream {
    async fn open(self) -> Option<impl Stream> {
        // An acknowledgement waits for nothing.
        let _ = self.set_nodelay(true);
        Some(self)
    }
}

impl Opening for tokio::net::UnixStream {
    async fn open(self) -> Option<impl Stream> {
        Some(self)
    }
}

/// A connection that begins with TLS.
pub(super) struct Handshake(pub(super) tokio::net::TcpStream, pub(super) Option<Arc<ServerConfig>>);

impl Opening for Handshake {
    async fn open(self) -> Option<impl Stream> {
        let Self(stream, config) = self;
        let _ = stream.set_nodelay(true);
        let accepted = tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(config?).accept(stream)).await;
        accepted.ok()?.ok()
    }
}

pub(super) async fn accept<S: Opening>(
    connections: &mut JoinSet<()>,
    stream: std::io::Result<S>,
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
