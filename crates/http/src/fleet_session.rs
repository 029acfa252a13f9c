//! What connections through a broker and watches of it share: how the broker is waited for, how its refusal is
//! answered, what the audit has of it, and for how long a session may go on.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::request::Parts;
use ogive_door::audit::{Entry, note};
use ogive_fleet::{Connection, Fleet, Refusal};

use super::App;
use super::access::still_may;
use super::error::ApiError;
use crate::web::Need;

/// 1 s until it is looked again whether a session may go on.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// 10 looks in a row may find the server too busy to say.
const BUSY_MAX: u32 = 10;

/// The answer to whoever asked for what there is none of.
fn error_of(refusal: &Refusal) -> ApiError {
    let Refusal { reason, message } = refusal;
    let (status, error_type) = match *reason {
        "unknown" => (StatusCode::NOT_FOUND, "not_found"),
        "revoked" => (StatusCode::CONFLICT, "conflict"),
        "away" => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        "limit" => (StatusCode::TOO_MANY_REQUESTS, "busy"),
        "not_allowed" => (StatusCode::FORBIDDEN, "forbidden"),
        "timeout" => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
        _ => (StatusCode::BAD_GATEWAY, "unavailable"),
    };
    ApiError { status, error_type, message: message.clone() }
}

/// What lasts as long as its broker is enrolled and whoever asked may administer the server.
pub(super) struct Session {
    pub(super) app: App,
    pub(super) fleet: Arc<Fleet>,
    /// The broker.
    pub(super) name: String,
    /// When it had enrolled before it was asked: the session stays with that one.
    pub(super) enrolled_ms: Option<i64>,
    /// The request, to judge it again.
    pub(super) parts: Parts,
    /// The name in the audit, who asked, and what for.
    pub(super) action: &'static str,
    pub(super) by: String,
    pub(super) what: String,
}

/// Notes in the audit that nobody waits for the broker any more, unless it is forgotten before.
struct Waiting<'a>(&'a Session);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.note("given up by whoever asked");
    }
}

impl Session {
    /// Waits for the connection that the broker is asked for, and notes how that ended: as `begun` when there is one.
    ///
    /// # Errors
    /// The answer to whoever asked, when there is none.
    pub(super) async fn connection(
        &self,
        asked: impl Future<Output = Result<Connection, Refusal>>,
        begun: &str,
    ) -> Result<Connection, ApiError> {
        let waiting = Waiting(self);
        let connected = asked.await;
        std::mem::forget(waiting);
        match &connected {
            Ok(_) => self.note(begun),
            Err(Refusal { reason, message }) => self.note(&format!("refused, {reason}: {message}")),
        }
        connected.map_err(|refusal| error_of(&refusal))
    }

    /// Notes in the audit what became of it.
    pub(super) fn note(&self, outcome: &str) {
        note(&self.app, Entry::from_request(self.action, &self.by, &format!("{}\n{outcome}", self.what)));
    }

    /// Returns why the session must end, once it must.
    pub(super) async fn cut(&self) -> String {
        let mut ending = self.app.ending.clone();
        let mut busy = 0;
        loop {
            let is_ending = async { drop(ending.wait_for(|ending| *ending).await) };
            tokio::select! {
                () = is_ending => return "the server is ending".into(),
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
            if self.fleet.enrolled_ms(&self.name) != self.enrolled_ms {
                return "the broker was revoked or replaced".into();
            }
            // Who may has been here a moment ago, and is known without a look at a password.
            match still_may(&self.app, &self.parts, Need::Admin).await {
                Some(true) => busy = 0,
                None if busy < BUSY_MAX => busy += 1,
                None | Some(false) => return "whoever asked may not any more".into(),
            }
        }
    }
}
