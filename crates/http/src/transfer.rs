//! `/v1/snapshots/receive`: a snapshot of another machine, in as many requests as it takes.
//!
//! Format: docs/formats/snapshot-stream.md; each request has the list of files and some of their pieces, the answer
//! says what is lacking. Limits: [`BODY_BYTES_MAX`]. Failure: what came is kept; the same request may be made again.

use std::sync::{Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use ogive_store::transfer::{self, Inventory, Missing, Progress};
use serde_json::{Value, json};

use super::error::ApiError;
use super::peer::Asker;
use super::upkeep::{snapshot, with_store};
use super::{App, body};
use ogive_door::audit::{self, Entry};

/// Where it is.
pub(super) const ROUTE: &str = "/v1/snapshots/receive";

/// 16 MiB: a list of 4 MiB, 8 MiB of pieces, and the headers of small ones.
const BODY_BYTES_MAX: usize = 16 << 20;

/// The list of missing files is sent in parts: 10,000 files are 300 KiB of JSON, and more than a request carries.
const MISSING_MAX: usize = 10_000;

/// Transfers are serialised: a piece is appended to what is there.
static TURN: Mutex<()> = Mutex::new(());

/// Receives a list of files with some pieces, and answers with what is missing, or with the snapshot.
pub(super) async fn receive(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let kind = request.headers().get(header::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    if kind != b"application/octet-stream" {
        return Err(ApiError::unsupported("send a stream of a snapshot as Content-Type: application/octet-stream"));
    }
    let asker = request.extensions().get::<Asker>().cloned().unwrap_or_default().to_string();
    let held = body::form(&app, request, BODY_BYTES_MAX).await?;
    let noted = app.clone();
    let runtime = tokio::runtime::Handle::current();
    with_store(&app, move |own, _| {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (inventory, progress) = transfer::receive(&own.mirror, own.mirror.root(), &held.bytes[..])?;
        let _inside = runtime.enter();
        if let Some(what) = event(&inventory, &progress) {
            audit::note(&noted, Entry::from_request(ROUTE, &asker, &what));
        }
        Ok(match progress {
            Progress::Done(info) => (StatusCode::CREATED, json!({"missing": [], "snapshot": snapshot(&info)})),
            Progress::Missing(missing) => (StatusCode::OK, lacking(&missing)),
        })
    })
    .await
}

/// The event for operators: that a transfer began, or that it is complete.
fn event(inventory: &Inventory, progress: &Progress) -> Option<String> {
    let (name, files, bytes) = (&inventory.info.name, inventory.files.len(), inventory.bytes());
    match progress {
        Progress::Done(_) => Some(format!("the snapshot {name} was received: {files} files, {bytes} bytes")),
        Progress::Missing(missing) if missing.iter().all(|one| one.offset == 0) => Some(format!(
            "the snapshot {name} is being received: {files} files, {bytes} bytes, {} are lacking",
            missing.len()
        )),
        Progress::Missing(_) => None,
    }
}

fn lacking(missing: &[Missing]) -> Value {
    let pairs: Vec<Value> = missing.iter().take(MISSING_MAX).map(|one| json!([one.index, one.offset])).collect();
    json!({"missing": pairs, "missing_files": missing.len(), "snapshot": null})
}
