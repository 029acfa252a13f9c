//! `/v1/logins`: users and tokens with what they may do, for whoever may administer the server.
//!
//! Invariants: neither a password, a token nor a hash of one is in the answer.

use axum::extract::State;
use axum::response::Response;
use ogive_model::WallMs;
use serde_json::{Value, json};

use super::App;
use super::error::success;
use crate::web::{Login, LoginKind};
use ogive_text::calendar::rfc3339;

/// All logins; an empty list and `open` when no login is required.
pub(super) async fn get(State(app): State<App>) -> Response {
    let now = app.now();
    let logins = app.web.logins();
    let shown: Vec<Value> = logins.iter().map(|login| shown(login, now)).collect();
    success(&json!({"open": logins.is_empty(), "logins": shown}))
}

fn shown(login: &Login, now: WallMs) -> Value {
    let kind = match login.kind {
        LoginKind::User => "user",
        LoginKind::Token => "token",
    };
    json!({
        "kind": kind,
        "name": login.grant.name,
        "tenant": login.grant.tenant.as_ref().map(|tenant| tenant.as_str()),
        "allow": login.grant.allow.words(),
        "expires": login.expires.map(|end| rfc3339(end.0)),
        "expired": login.expires.is_some_and(|end| end <= now),
    })
}
