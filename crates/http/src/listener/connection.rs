//! A connection that does not stand idle for ever, and a body that does not arrive for ever.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

use super::super::body::ARRIVAL;
use super::places::{ConnectionPlace, InFlight, Slot};

/// A connection with its slot.
pub(super) struct Connection {
    stream: TcpStream,
    sleep: Pin<Box<Sleep>>,
    idle: Duration,
    place: ConnectionPlace,
}

impl Connection {
    /// Fails to read and write when no byte has moved for `idle`.
    pub(super) fn new(stream: TcpStream, idle: Duration, place: ConnectionPlace) -> Self {
        Self { stream, sleep: Box::pin(tokio::time::sleep(idle)), idle, place }
    }

    /// The slot, which others can see.
    pub(super) fn slot(&self) -> Arc<Slot> {
        self.place.slot.clone()
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Records whether the client reads what is written.
    fn written<T>(&mut self, context: &mut Context<'_>, moved: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.place.slot.set_unread(moved.is_pending());
        self.judge(context, moved)
    }

    /// Waits for bytes and looks at them without consuming them.
    pub(super) async fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.peek(into).await
    }

    /// Something moved, or it is too long since something did.
    fn judge<T>(&mut self, context: &mut Context<'_>, moved: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            let idle = self.idle;
            self.place.slot.moved();
            self.sleep.as_mut().set(tokio::time::sleep(idle));
            return moved;
        }
        if !self.place.slot.is_switched() && self.sleep.as_mut().poll(context).is_ready() {
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
        self.written(context, moved)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.stream).poll_write_vectored(context, from);
        self.written(context, moved)
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

/// A response's body, with its share of the memory for responses. It is handed on in pieces of [`PIECE`], so that the
/// share is held until the last one has been accepted for sending: HTTP/2 takes all that it is given, even when its
/// window is closed.
pub(super) struct Sending {
    body: Body,
    /// The part of the last chunk that waits.
    rest: Bytes,
    _share: OwnedSemaphorePermit,
    _in_flight: InFlight,
}

/// 64 KiB: the same as HTTP/1.1 writes at once.
const PIECE: usize = 64 * 1024;

impl Sending {
    pub(super) fn new(body: Body, share: OwnedSemaphorePermit, in_flight: InFlight) -> Self {
        Self { body, rest: Bytes::new(), _share: share, _in_flight: in_flight }
    }
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.rest.is_empty() {
            match std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        let length = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut out = SizeHint::new();
        out.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            out.set_upper(upper + rest);
        }
        out
    }
}

/// A request's body, which is aborted when it has not arrived within [`ARRIVAL`] and a little: readers of bodies report
/// the timeout better, just before.
pub(super) struct TimedBody {
    body: Incoming,
    /// Set at the first poll for body data that is not there yet.
    deadline: Option<Pin<Box<Sleep>>>,
    slot: Arc<Slot>,
    /// Whether its connection knows that the next bytes are waited for.
    waits: bool,
}

impl TimedBody {
    pub(super) fn new(body: Incoming, slot: Arc<Slot>) -> Self {
        Self { body, deadline: None, slot, waits: false }
    }

    fn set_waits(&mut self, waits: bool) {
        if waits != self.waits {
            self.slot.body_waits(waits);
            self.waits = waits;
        }
    }
}

impl Drop for TimedBody {
    fn drop(&mut self) {
        self.set_waits(false);
    }
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.set_waits(frame.is_pending());
        if let Poll::Ready(frame) = frame {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let deadline = || Box::pin(tokio::time::sleep(ARRIVAL + Duration::from_secs(5)));
        if self.deadline.get_or_insert_with(deadline).as_mut().poll(context).is_ready() {
            let message = format!("it did not arrive within {} s", ARRIVAL.as_secs());
            return Poll::Ready(Some(Err(message.into())));
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
