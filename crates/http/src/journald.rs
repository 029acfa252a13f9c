//! `POST /upload`: the journal of systemd as `systemd-journal-upload` sends it.
//!
//! Invariants: each entry is a batch under the journal's own identity and number, so that it counts once however often
//! and in whatever pieces it is uploaded; the answer comes when all are durable or counted as what can never be stored.
//! Limits: [`OPEN_MAX`] entries and [`OPEN_BYTES_MAX`] wait for the disk at a time; while they do, the body is not read
//! on. What all uploads hold counts among the bodies that are in memory. A body may be of any length.
//! Failure: a body that ends inside an entry, or a store that fails, is answered with an error, and the client uploads
//! again from the last entry of the upload that succeeded.

use std::collections::VecDeque;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_door::backend::Refusal;
use ogive_door::counters::Protocol;
use ogive_door::ingest_path::{OnTheWay, Publisher};
use ogive_door::room::Share;
use ogive_door::submission;
use ogive_model::{Batch, Tenant, Verdict};
use ogive_protocol::Gather;
use ogive_protocol::journald::{Entries, Entry};
use ogive_protocol::lines::Fault;
use tokio::sync::oneshot;

use super::App;
use super::batch::unreadable;
use super::body;
use super::error::{ApiError, json};
use super::params;

/// 1,024 entries share an fsync.
const OPEN_MAX: usize = 1_024;

/// 4 MiB: thousands of usual entries, and one of the longest always.
const OPEN_BYTES_MAX: usize = 4 << 20;

/// 5 ms: a store or a spool empties its queue in some ten.
const AGAIN: Duration = Duration::from_millis(5);

/// An entry that was submitted.
struct Open {
    receiver: oneshot::Receiver<Result<Verdict, Refusal>>,
    way: OnTheWay,
    bytes: usize,
}

/// What became of the entries.
#[derive(Default)]
struct Counts {
    accepted: u64,
    duplicate: u64,
    rejected: u64,
}

pub(super) async fn post(State(app): State<App>, request: Request) -> Response {
    match stored(&app, request).await {
        Ok(Counts { accepted, duplicate, rejected }) => {
            let body = serde_json::json!({"accepted": accepted, "duplicate": duplicate, "rejected": rejected});
            json(StatusCode::OK, body.to_string())
        }
        Err(error) => {
            unreadable(&app, Protocol::Journald, &error);
            error.into_response()
        }
    }
}

async fn stored(app: &App, request: Request) -> Result<Counts, ApiError> {
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    if let Some(encoding) = request.headers().get(header::CONTENT_ENCODING).filter(|value| *value != "identity") {
        return Err(ApiError::unsupported(format!(
            "content encoding {encoding:?}; upload the journal without Compression="
        )));
    }
    let ledger = app.counters.of(Protocol::Journald);
    let mut stream = request.into_body().into_data_stream();
    let (mut entries, mut upload) = (Entries::default(), Upload::new(app, tenant));
    let mut share = Share::new(&app.limits.ingest_kib.free_kib);
    while let Some(piece) = body::piece(&mut stream).await? {
        ledger.bytes.add(piece.len() as u64);
        let mut rest = &piece[..];
        while let Some(entry) = entries.next(&mut rest) {
            upload.take(entry).await?;
        }
        share.cover(entries.held() + upload.open_bytes)?;
    }
    if entries.is_cut() {
        return Err(ApiError::bad_data("the body ends inside an entry; upload it again"));
    }
    upload.finish().await
}

/// The entries of one body.
struct Upload<'a> {
    app: &'a App,
    tenant: Tenant,
    gather: Gather,
    open: VecDeque<Open>,
    open_bytes: usize,
    counts: Counts,
}

impl<'a> Upload<'a> {
    fn new(app: &'a App, tenant: Tenant) -> Self {
        Self { app, tenant, gather: Gather::default(), open: VecDeque::new(), open_bytes: 0, counts: Counts::default() }
    }

    /// Submits an entry, or counts what is wrong with it.
    async fn take(&mut self, entry: Result<Entry, Fault>) -> Result<(), ApiError> {
        let fed = entry.and_then(|entry| {
            let identity = entry.identity()?;
            entry.feed(&mut self.gather)?;
            Ok(identity)
        });
        let identity = match fed {
            Ok(identity) => identity,
            Err(fault) => {
                self.app.counters.of(Protocol::Journald).unreadable(fault.as_str(), 1);
                self.counts.rejected += 1;
                return Ok(());
            }
        };
        let mut batch = self.gather.take(identity.source, identity.sequence, &self.tenant);
        while self.open.len() >= OPEN_MAX || self.open_bytes >= OPEN_BYTES_MAX {
            self.settle_first().await?;
        }
        let frame = batch.encode().map_err(|error| ApiError::bad_data(error.to_string()))?;
        let bytes = frame.len() + ogive_protocol::batch_bytes(&batch);
        loop {
            let way = self.app.meters.ingest.begin_made();
            match submission::submitted(self.app, Protocol::Journald, batch, frame.clone(), &way, None) {
                Ok(receiver) => {
                    self.open.push_back(Open { receiver, way, bytes });
                    self.open_bytes += bytes;
                    return Ok(());
                }
                Err(Refusal::Busy) => tokio::time::sleep(AGAIN).await,
                Err(refusal) => return Err(refused(&refusal)),
            }
            batch = Batch::decode(&frame).expect("what was encoded here is a batch");
        }
    }

    async fn settle_first(&mut self) -> Result<(), ApiError> {
        let Some(Open { receiver, way, bytes }) = self.open.pop_front() else { return Ok(()) };
        self.open_bytes -= bytes;
        let verdict = submission::word(receiver).await.map_err(|refusal| refused(&refusal))?;
        self.counts.accepted += verdict.accepted;
        self.counts.duplicate += verdict.duplicate;
        self.counts.rejected += verdict.rejected.len() as u64;
        self.app.meters.ingest.finish(way, Publisher::Of(Protocol::Journald));
        Ok(())
    }

    async fn finish(mut self) -> Result<Counts, ApiError> {
        while !self.open.is_empty() {
            self.settle_first().await?;
        }
        Ok(self.counts)
    }
}

fn refused(refusal: &Refusal) -> ApiError {
    ApiError::from(refusal)
}
