//! Connections: so many at once, and none that stands idle for ever.
//!
//! Limits: [`CONNECTIONS_MAX`]; who comes then waits in the system's backlog. A connection on which no byte has moved
//! for [`IDLE`] is closed, so that those who wait get their turn.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// 800 of the 1,024 open files that a process usually may have; the rest is the store's.
const CONNECTIONS_MAX: usize = 800;

/// 150 s: longer than the longest query, during which nothing moves.
const IDLE: Duration = Duration::from_secs(150);

/// A listener with limits.
pub(crate) struct Limited {
    listener: TcpListener,
    places: Arc<Semaphore>,
    idle: Duration,
}

impl Limited {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(CONNECTIONS_MAX)), idle: IDLE }
    }
}

impl Listener for Limited {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let place = self.places.clone().acquire_owned().await.expect("the semaphore is never closed");
        loop {
            if let Ok((stream, address)) = self.listener.accept().await {
                // Answers are written whole: waiting for more to send would only delay them.
                let _ = stream.set_nodelay(true);
                let sleep = Box::pin(tokio::time::sleep(self.idle));
                return (Connection { stream, sleep, idle: self.idle, _place: place }, address);
            }
            // The other side has gone already, or the process has no file left: others may end meanwhile.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection with its place.
pub(crate) struct Connection {
    stream: TcpStream,
    sleep: Pin<Box<Sleep>>,
    idle: Duration,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// Something moved, or it is too long since something did.
    fn judge<T>(&mut self, context: &mut Context<'_>, moved: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            let idle = self.idle;
            self.sleep.as_mut().set(tokio::time::sleep(idle));
            return moved;
        }
        if self.sleep.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "nothing moved on the connection")));
        }
        moved
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let moved = Pin::new(&mut self.stream).poll_read(context, into);
        self.judge(context, moved)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.stream).poll_write(context, from);
        self.judge(context, moved)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.stream).poll_write_vectored(context, from);
        self.judge(context, moved)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn limited(places: usize, idle: Duration) -> Limited {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Limited { listener, places: Arc::new(Semaphore::new(places)), idle }
    }

    #[tokio::test]
    async fn one_more_than_the_limit_waits_until_one_goes() {
        let mut listener = limited(1, IDLE).await;
        let address = listener.local_addr().unwrap();
        let _clients = [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
        let first = listener.accept().await.0;
        let soon = Duration::from_millis(50);
        assert!(tokio::time::timeout(soon, listener.accept()).await.is_err());
        drop(first);
        assert!(tokio::time::timeout(Duration::from_secs(5), listener.accept()).await.is_ok());
    }

    async fn read_byte(connection: &mut Connection) -> io::Result<usize> {
        let mut byte = [0];
        std::future::poll_fn(|context| {
            let mut into = ReadBuf::new(&mut byte);
            let read = Pin::new(&mut *connection).poll_read(context, &mut into);
            read.map_ok(|()| into.filled().len())
        })
        .await
    }

    #[tokio::test]
    async fn an_idle_connection_ends_and_a_moving_one_does_not() {
        let mut listener = limited(2, Duration::from_millis(200)).await;
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut connection = listener.accept().await.0;
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            client.try_write(b"x").unwrap();
            assert_eq!(read_byte(&mut connection).await.unwrap(), 1);
        }
        let error = read_byte(&mut connection).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
