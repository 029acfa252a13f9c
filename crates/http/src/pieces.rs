//! Answers that are not built whole: written a piece at a time while they are sent, from what was found or from the
//! store.
//!
//! Invariants: what goes wrong before the first piece has a status of its own; an answer that breaks later ends without
//! its end, so that nobody takes it for whole. What an answer is made of stays charged to its query until it is sent.
//! Threads: what was found is written by the task of the connection, as far as its reader takes it. What is read from
//! the store meanwhile is written on the blocking thread of its query, [`WAITING`] pieces ahead of its reader, for as
//! long as a query may take: the place of one is not a slow reader's for ever.
//! Limits: pieces of some [`PIECE_BYTES`]; a reader takes them within the time of a query, beginning anew when it was
//! answered.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_core::Stream;
use ogive_model::{Memory, Ms};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::JoinSet;
use tokio::time::Sleep;

use super::App;
use super::ask::{Cancel, ask};
use super::client::Client;
use super::error::ApiError;

/// 64 KiB: some hundred series of a response, written in less than a millisecond.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// 4 pieces: as many as one slow write may leave waiting.
const WAITING: usize = 4;
/// 5 ms until a full queue is tried again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Output that is written step by step.
pub(super) trait Written: Send + Unpin + 'static {
    /// Appends a step; false when that was the last one. A step is at most some kilobytes.
    fn step(&mut self, out: &mut Vec<u8>) -> bool;
}

/// Fills a piece; false when it is the last one.
fn fill(written: &mut impl Written, out: &mut Vec<u8>) -> bool {
    while out.len() < PIECE_BYTES {
        if !written.step(out) {
            return false;
        }
    }
    true
}

/// A body of what was found. `held` is the budget to which it is charged.
pub(super) fn body(app: &App, mut written: impl Written, held: Arc<Memory>) -> Body {
    let mut first = Vec::with_capacity(4096);
    if !fill(&mut written, &mut first) {
        return Body::from(first);
    }
    let deadline = Box::pin(tokio::time::sleep(app.limits.query_timeout));
    Body::from_stream(Lazy { first: Some(first), written: Some(written), deadline, _held: held })
}

struct Lazy<W> {
    first: Option<Vec<u8>>,
    written: Option<W>,
    deadline: Pin<Box<Sleep>>,
    _held: Arc<Memory>,
}

impl<W: Written> Stream for Lazy<W> {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first.into())));
        }
        if self.deadline.as_mut().poll(context).is_ready() && self.written.is_some() {
            self.written = None;
            return Poll::Ready(Some(Err(std::io::Error::other("the response was not read within a query's time"))));
        }
        let Some(written) = &mut self.written else { return Poll::Ready(None) };
        let mut piece = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
        if !fill(written, &mut piece) {
            self.written = None;
        }
        Poll::Ready(Some(Ok(piece.into())))
    }
}

/// A piece, or why there are no more.
type Piece = Result<Vec<u8>, ApiError>;

/// Receives the output of the work.
pub(super) struct Out {
    sender: mpsc::Sender<Piece>,
    cancel: Cancel,
}

impl Out {
    /// Waits until there is room for a piece; fails when the client is gone, or reads more slowly than the query's
    /// timeout allows.
    pub(super) fn send(&self, piece: Vec<u8>) -> Result<(), ApiError> {
        let mut piece = Ok(piece);
        while !self.cancel.is_set() {
            match self.sender.try_send(piece) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(back)) => piece = back,
                Err(TrySendError::Closed(_)) => break,
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Err(ApiError::timeout("the query was cancelled"))
    }

    /// Sends the output so far if it is large enough for a piece.
    pub(super) fn flush(&self, written: &mut Vec<u8>) -> Result<(), ApiError> {
        if written.len() < PIECE_BYTES {
            return Ok(());
        }
        self.send(std::mem::replace(written, Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4)))
    }
}

/// A body of what `work` writes into its [`Out`] while it reads.
pub(super) async fn stream(
    app: &App,
    timeout: Option<Ms>,
    work: impl FnOnce(&App, &Cancel, &Out) -> Result<(), ApiError> + Send + 'static,
) -> Result<Body, ApiError> {
    let (sender, mut receiver) = mpsc::channel::<Piece>(WAITING);
    let (app, client) = (app.clone(), Client::current());
    // A client that disconnects cancels the task, and with it the work.
    let mut task = JoinSet::new();
    task.spawn(client.scope(async move {
        let pieces = sender.clone();
        let work = move |app: &App, cancel: &Cancel| {
            let out = Out { sender: pieces, cancel: cancel.clone() };
            work(app, cancel, &out)
        };
        if let Err(error) = ask(&app, timeout, work).await {
            // The receiver may be gone.
            let _ = sender.send(Err(error)).await;
        }
    }));
    let Some(first) = receiver.recv().await.transpose()? else { return Ok(Body::empty()) };
    Ok(Body::from_stream(PieceStream { first: Some(first), receiver, _task: task }))
}

struct PieceStream {
    first: Option<Vec<u8>>,
    receiver: mpsc::Receiver<Piece>,
    _task: JoinSet<()>,
}

impl Stream for PieceStream {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first.into())));
        }
        let broken = |error: ApiError| std::io::Error::other(error.message);
        self.receiver.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Bytes::from).map_err(broken)))
    }
}
