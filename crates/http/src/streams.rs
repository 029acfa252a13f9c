//! What holds a live stream to its place and to the login that began it.
//!
//! A stream that had to go says after what time its reader may come back
//! ([`AGAIN_MS`]), which browsers keep to, so that too many readers take turns.

use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use ogive_model::{Tenant, WallNs};
use tokio::sync::mpsc;

use super::App;
use super::peer::Asker;
use super::stream_places::StreamPlace;
use crate::web::{Denied, Evicted, LoginFailure, Need};

/// 15 s: with 65 readers for 64 slots, one of them misses a quarter of a minute.
const AGAIN_MS: u64 = 15_000;
/// 1 s: a token that was revoked reads no longer than that.
const JUDGE_AGAIN: Duration = Duration::from_secs(1);

/// Ends a stream when it loses its slot or when its login ends.
pub(super) struct Guard {
    app: App,
    login: HeaderMap,
    tenant: Tenant,
    place: StreamPlace,
}

impl Guard {
    /// For a stream that was admitted.
    pub(super) fn new(app: &App, asker: Option<Extension<Asker>>, headers: &HeaderMap, tenant: &Tenant) -> Self {
        let (place, is_evicting) = app.limits.streams.take(asker.map(|Extension(asker)| asker).unwrap_or_default());
        if is_evicting {
            app.web.evicted(Evicted::Stream);
        }
        let given = headers.get_all(header::AUTHORIZATION).iter();
        let login = given.map(|value| (header::AUTHORIZATION, value.clone())).collect();
        Self { app: app.clone(), login, tenant: tenant.clone(), place }
    }

    /// Runs `work` until it finishes, another stream needs the slot, or the login ends; then reports that as the last
    /// event.
    pub(super) async fn run(self, sender: mpsc::Sender<Bytes>, work: impl Future<Output = ()>) {
        let last = tokio::select! {
            () = work => return,
            why = self.ended() => last_words(&why),
            () = self.place.evicted() => {
                format!("retry: {AGAIN_MS}\n{}", last_words("others needed the place of this stream"))
            }
        };
        // A client that does not read misses the event.
        let _ = sender.try_send(format!("\n{last}").into());
    }

    /// Returns when the client may not continue: its token has expired, is no longer known, or has fewer permissions.
    async fn ended(&self) -> String {
        loop {
            tokio::time::sleep(JUDGE_AGAIN).await;
            match self.app.web.who(&self.login, WallNs(self.app.clock.wall()).to_ms()).await {
                Ok(Some(grant))
                    if !grant.allow.has(Need::Read)
                        || grant.tenant.as_ref().is_some_and(|bound| *bound != self.tenant) =>
                {
                    return format!("{:?} may not read this any more", grant.name);
                }
                Ok(_) | Err(Denied { why: LoginFailure::Busy, .. }) => {}
                Err(Denied { why, message }) => {
                    self.app.web.turned_away(why);
                    return message;
                }
            }
        }
    }
}

fn last_words(error: &str) -> String {
    format!("event: error\ndata: {}\n\n", serde_json::json!({"error": error}))
}
