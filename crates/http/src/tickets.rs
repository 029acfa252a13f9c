//! `POST /v1/tickets`: a ticket for addresses, from whoever may vend.
//!
//! Invariants: nobody gives away what they may not do themselves: the tenant is theirs, and so is what it allows. The
//! ticket is in the answer alone; the audit has its id.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use ogive_model::Ms;
use ogive_text::calendar::rfc3339;
use ogive_text::duration::seconds_or_units_ms;
use serde::Deserialize;
use serde_json::json;

use super::App;
use super::body;
use super::error::{ApiError, json as answer};
use super::params;
use crate::web::{Grant, LIFETIME_MAX, TicketRequest};

/// 64 KiB: eight addresses.
const BODY_BYTES_MAX: usize = 64 << 10;

/// The request body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    /// Addresses from their slash on, with the parameters that are shared.
    links: Vec<String>,
    /// How long it is good, such as `1h`.
    expires: String,
    /// `read` or `write`.
    #[serde(default)]
    allow: Option<String>,
}

pub(super) async fn vend(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    let vendor = request.extensions().get::<Grant>().cloned();
    let form = body::form(&app, request, BODY_BYTES_MAX).await?;
    let body: Body = serde_json::from_slice(&form.bytes)
        .map_err(|error| ApiError::bad_data(format!("the body is no request for a ticket: {error}")))?;
    let write = match body.allow.as_deref().unwrap_or("read") {
        "read" => false,
        "write" => true,
        other => return Err(ApiError::bad_data(format!("allow is read or write, not {other:?}"))),
    };
    if vendor.as_ref().is_some_and(|vendor| if write { !vendor.allow.write } else { !vendor.allow.read }) {
        return Err(ApiError::forbidden("nobody gives away what they may not do themselves"));
    }
    let lifetime = seconds_or_units_ms(&body.expires).map(Ms).filter(|span| (Ms(1)..=LIFETIME_MAX).contains(span));
    let lifetime = lifetime.ok_or_else(|| ApiError::bad_data("expires is a time such as 1h, at most 31d"))?;
    // A stream checks its login repeatedly, and a ticket is not a login.
    if body
        .links
        .iter()
        .any(|link| ["/v1/live", "/v1/stream", "/v1/subscribe"].iter().any(|path| link.starts_with(path)))
    {
        return Err(ApiError::bad_data("streams are not shared; share what they show (/v1/heatmap, /v1/cells)"));
    }
    let expires = app.now() + lifetime;
    let by = vendor.map_or_else(|| "somebody without a login".into(), |vendor| vendor.name);
    let wanted = TicketRequest { links: &body.links, tenant: &tenant, write, expires, by: &by };
    let (id, ticket) = app.web.vend(&wanted).map_err(ApiError::bad_data)?;
    let with_ticket = |link: &String| format!("{link}{}ticket={ticket}", if link.contains('?') { '&' } else { '?' });
    let links: Vec<String> = body.links.iter().map(with_ticket).collect();
    let said = json!({"id": id, "ticket": ticket, "expires": rfc3339(expires.0), "links": links});
    Ok(answer(StatusCode::OK, said.to_string()))
}
