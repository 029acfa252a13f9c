//! What each route asks of whoever calls it, and whether they have it.
//!
//! Invariants: a request reaches its handler only when its sender may do what the table says; a route that is not in
//! the table asks for everything. Behind a login that is bound to a tenant every handler sees that tenant, whatever the
//! request says. No page but the server's own makes a browser change anything, and none of another name reads from a
//! server without TLS and login.

use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ogive_model::{WallMs, WallNs};

use super::App;
use super::body;
use super::error::ApiError;
use super::peer::{Asker, Peer, TENANT_HEADER};
use crate::web::{Denied, Grant, Hosts, LoginFailure, Need, TICKET_PREFIX};
use ogive_door::audit::{self, Entry};

use Need::{Admin, Open, Read, Vend, Write};

/// 1 MiB: the longest form of a command.
const AUDITED_BYTES_MAX: usize = 1 << 20;
/// 16 KiB of a command's body are noted: all of one in JSON.
const AUDIT_BODY_BYTES: usize = 16 << 10;

/// A route, the permission that GET and HEAD need there, and the one that the other methods need.
type Rule = (&'static str, Need, Need);

/// Every route. It is also the list of the values that the label `route` has.
pub(super) const RULES: &[Rule] = &[
    ("/api/v1/query", Read, Read),
    ("/api/v1/query_range", Read, Read),
    ("/api/v1/admin/tsdb/delete_series", Admin, Admin),
    ("/api/v1/admin/tsdb/clean_tombstones", Admin, Admin),
    ("/api/v1/series", Read, Read),
    ("/api/v1/labels", Read, Read),
    ("/api/v1/label/{name}/values", Read, Read),
    ("/api/v1/format_query", Read, Read),
    ("/api/v1/parse_query", Read, Read),
    ("/api/v1/metadata", Read, Read),
    ("/api/v1/status/buildinfo", Read, Read),
    ("/api/v1/status/config", Read, Read),
    ("/api/v1/status/flags", Read, Read),
    ("/api/v1/status/runtimeinfo", Read, Read),
    ("/api/v1/status/tsdb", Read, Read),
    ("/api/v1/status/walreplay", Read, Read),
    ("/api/v1/features", Read, Read),
    ("/api/v1/alertmanagers", Read, Read),
    ("/api/v1/write", Write, Write),
    ("/api/v1/otlp/v1/metrics", Write, Write),
    ("/api/v1/otlp/v1/logs", Write, Write),
    ("/api/v1/otlp/v1/traces", Write, Write),
    ("/v1/metrics", Write, Write),
    ("/v1/logs", Read, Write),
    ("/v1/logs/columns", Read, Read),
    ("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", Write, Write),
    ("/opentelemetry.proto.collector.logs.v1.LogsService/Export", Write, Write),
    ("/opentelemetry.proto.collector.trace.v1.TraceService/Export", Write, Write),
    ("/upload", Write, Write),
    ("/write", Write, Write),
    ("/api/v2/write", Write, Write),
    // A valid secret in the address is enough: see `check`.
    (super::httptrap::ROUTE, Write, Write),
    ("/ping", Open, Open),
    ("/health", Open, Open),
    ("/query", Write, Write),
    ("/api/v1/read", Read, Read),
    ("/api/v1/query_exemplars", Read, Read),
    ("/federate", Read, Read),
    ("/api/v1/rules", Read, Read),
    ("/api/v1/alerts", Read, Read),
    ("/api/v1/targets", Read, Read),
    ("/api/v1/targets/metadata", Read, Read),
    ("/api/v1/scrape_pools", Read, Read),
    ("/-/reload", Admin, Admin),
    ("/v1/batch", Write, Write),
    ("/v1/cells", Read, Read),
    ("/v1/compare", Read, Read),
    ("/v1/boards", Read, Admin),
    ("/v1/boards/{name}", Read, Admin),
    ("/v1/explain", Read, Read),
    ("/v1/explain/related", Read, Read),
    ("/v1/queries", Read, Read),
    ("/v1/senders", Read, Read),
    ("/v1/cardinality", Read, Read),
    ("/v1/heatmap", Read, Read),
    ("/v1/heatmap/groups", Read, Read),
    ("/v1/live", Read, Read),
    ("/v1/events", Read, Write),
    ("/v1/stream", Read, Read),
    ("/v1/subscribe", Read, Read),
    ("/v1/traces", Read, Write),
    ("/v1/traces/columns", Read, Read),
    ("/v1/detections", Read, Read),
    ("/v1/detections/run", Read, Read),
    ("/v1/rules/backtest", Read, Read),
    ("/v1/alerts", Read, Read),
    ("/v1/silences", Read, Admin),
    ("/v1/silences/{id}", Admin, Admin),
    ("/v1/status", Read, Read),
    ("/v1/tickets", Vend, Vend),
    ("/v1/broker", Read, Read),
    ("/v1/cluster", Read, Read),
    ("/v1/disks", Read, Admin),
    ("/v1/disks/add", Admin, Admin),
    ("/v1/disks/replace", Admin, Admin),
    ("/v1/retention", Read, Admin),
    ("/v1/logins", Admin, Admin),
    ("/v1/scrub", Read, Admin),
    ("/v1/findings", Read, Read),
    ("/v1/findings/acknowledge", Admin, Admin),
    ("/v1/snapshots", Read, Admin),
    ("/v1/snapshots/clone", Admin, Admin),
    (super::transfer::ROUTE, Admin, Admin),
    ("/v1/snapshots/{name}", Admin, Admin),
    ("/v1/fleet/groups", Read, Admin),
    ("/v1/fleet/groups/{name}", Admin, Admin),
    ("/v1/fleet/groups/{name}/rollback", Admin, Admin),
    ("/v1/fleet/brokers", Read, Admin),
    ("/v1/fleet/brokers/{name}", Admin, Admin),
    ("/v1/fleet/brokers/{name}/requests", Admin, Admin),
    ("/v1/fleet/brokers/{name}/connect", Admin, Admin),
    ("/v1/fleet/brokers/{name}/live", Admin, Admin),
    ("/v1/fleet/tickets", Admin, Admin),
    // A ticket, or the token of a broker, is judged by their handlers.
    ("/v1/fleet/enroll", Open, Open),
    ("/v1/fleet/poll", Open, Open),
    ("/v1/fleet/rotate", Open, Open),
    ("/v1/fleet/outcomes", Open, Open),
    ("/v1/fleet/stream", Open, Open),
    ("/metrics", Read, Read),
    ("/-/healthy", Open, Open),
    ("/-/ready", Open, Open),
];

/// The page and addresses at which nothing is.
const OTHER: Rule = ("other", Read, Read);

/// The rule of a matched route.
fn rule(path: Option<&MatchedPath>) -> Rule {
    let Some(path) = path else { return OTHER };
    // A route that is missing here is open to the administrator only.
    let all = || RULES.iter().chain(super::irondb_rules::RULES);
    all().find(|rule| rule.0 == path.as_str()).copied().unwrap_or((OTHER.0, Admin, Admin))
}

/// The route as a label value that lives as long as the program.
pub(super) fn route_name(path: Option<&MatchedPath>) -> &'static str {
    rule(path).0
}

/// Lets requests with sufficient permission through.
pub(super) async fn check(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let (_, see, change) = rule(request.extensions().get());
    let need = match *request.method() {
        Method::GET | Method::HEAD => see,
        // It only shows which methods are allowed.
        Method::OPTIONS => Open,
        _ if rule(request.extensions().get()).0 == super::httptrap::ROUTE
            && super::httptrap::has_secret(&app, request.uri().path()) =>
        {
            Open
        }
        _ => change,
    };
    match judge(&app, &mut request, need).await {
        // It arrives in many parts, and records its beginning and end itself.
        Ok(()) if rule(request.extensions().get()).0 == super::transfer::ROUTE => next.run(request).await,
        Ok(()) if super::fleet::is_recorded_elsewhere(rule(request.extensions().get()).0, request.method()) => {
            next.run(request).await
        }
        Ok(()) if matches!(need, Admin | Vend) => audited(&app, request, next).await,
        Ok(()) => next.run(request).await,
        Err((why, error)) => {
            app.web.turned_away(why);
            // A client that is still sending its body reads the response only afterwards.
            body::discard(request).await;
            let status = error.status;
            let mut response = error.into_response();
            if status == StatusCode::UNAUTHORIZED {
                for challenge in app.web.challenges() {
                    response.headers_mut().append(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
                }
            }
            response
        }
    }
}

async fn judge(app: &App, request: &mut Request, need: Need) -> Result<(), (LoginFailure, ApiError)> {
    if need == Open {
        return Ok(());
    }
    judge_host(app, request, need).map_err(|error| (LoginFailure::Host, error))?;
    if is_foreign(app.web.hosts(), request, need) {
        let message = "a page of another site sent this; open Ogive's own page, send it from a program, or start the server with \
            --web-external-url as browsers see it";
        return Err((LoginFailure::Origin, ApiError::forbidden(message)));
    }
    let now = WallNs(app.clock.wall()).to_ms();
    if let Some(ticket) = shown_ticket(request).filter(|_| app.web.has_logins()) {
        return judge_ticket(app, request, need, &ticket, now);
    }
    let grant = match app.web.who(request.headers(), now).await {
        Ok(None) => {
            let asker = Asker::new(request.extensions(), None);
            request.extensions_mut().insert(asker);
            return Ok(());
        }
        Ok(Some(grant)) => grant,
        Err(Denied { why: why @ LoginFailure::Busy, message }) => return Err((why, ApiError::busy(message))),
        Err(Denied { why, message }) => return Err((why, ApiError::unauthorized(message))),
    };
    if !grant.allow.has(need) {
        let Grant { name, allow, .. } = &grant;
        let message = format!(
            "{name:?} may {} here, and this needs {}; ask whoever runs the server",
            allow.words().join(" and "),
            need.word()
        );
        return Err((LoginFailure::NotAllowed, ApiError::forbidden(message)));
    }
    admit(request, grant)
}

/// Whether whoever was admitted with a request may still do what needs `need`; None when the server is too busy to say.
pub(super) async fn still_may(app: &App, parts: &Parts, need: Need) -> Option<bool> {
    let mut request = Request::from_parts(parts.clone(), axum::body::Body::empty());
    match judge(app, &mut request, need).await {
        Ok(()) => Some(true),
        Err((LoginFailure::Busy, _)) => None,
        Err(_) => Some(false),
    }
}

/// Admits a request with the permissions of `grant`.
fn admit(request: &mut Request, grant: Grant) -> Result<(), (LoginFailure, ApiError)> {
    let asker = Asker::new(request.extensions(), Some(grant.name.clone()));
    request.extensions_mut().insert(asker);
    bind(request, &grant).map_err(|error| (LoginFailure::Tenant, error))?;
    request.extensions_mut().insert(grant);
    Ok(())
}

/// The ticket that a request shows as its token, or, without any login, in its address.
fn shown_ticket(request: &Request) -> Option<String> {
    let Some(value) = request.headers().get(header::AUTHORIZATION) else {
        let mut pairs = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
        return pairs.find(|(name, _)| name == "ticket").map(|(_, value)| value.into_owned());
    };
    let (scheme, secret) = value.to_str().ok()?.trim().split_once(' ')?;
    let is_token = scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token");
    Some(secret.trim().to_owned()).filter(|secret| is_token && secret.starts_with(TICKET_PREFIX))
}

/// As [`judge`], for a request with a ticket: it permits what its address states, and a body could state more.
fn judge_ticket(
    app: &App,
    request: &mut Request,
    need: Need,
    ticket: &str,
    now: WallMs,
) -> Result<(), (LoginFailure, ApiError)> {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let grant = app.web.ticket(ticket, now, path, query).map_err(|Denied { why, message }| match why {
        LoginFailure::TicketScope => (why, ApiError::forbidden(message)),
        _ => (why, ApiError::unauthorized(message)),
    })?;
    let is_bodiless = matches!(*request.method(), Method::GET | Method::HEAD);
    if !grant.allow.has(need) || need == Read && !is_bodiless {
        let message = format!("a ticket to {} does not allow this", grant.allow.words().join(" and "));
        return Err((LoginFailure::NotAllowed, ApiError::forbidden(message)));
    }
    admit(request, grant)
}

/// Answers a request that changes something, and records its sender and its outcome in the audit.
async fn audited(app: &App, request: Request, next: Next) -> Response {
    let asker = request.extensions().get::<Asker>().cloned().unwrap_or_default();
    let action = route_name(request.extensions().get());
    let line = format!("{} {}", request.method(), request.uri());
    let (parts, body) = request.into_parts();
    let mut copy = Request::from_parts(parts.clone(), body);
    *copy.extensions_mut() = parts.extensions.clone();
    let bytes = match body::form(app, copy, AUDITED_BYTES_MAX).await {
        Ok(held) => held.bytes,
        Err(error) => return error.into_response(),
    };
    let reported = String::from_utf8_lossy(&bytes[..bytes.len().min(AUDIT_BODY_BYTES)]).into_owned();
    let response = next.run(Request::from_parts(parts, axum::body::Body::from(bytes))).await;
    let what = format!("{line}\n{reported}\nanswered {}", response.status().as_u16());
    audit::note(app, Entry::from_request(action, &asker.to_string(), &what));
    response
}

/// The host of a request: the authority of HTTP/2, or the header.
fn authority(request: &Request) -> Option<&str> {
    let of_header = || request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    request.uri().authority().map(|authority| authority.as_str()).or_else(of_header).filter(|text| !text.is_empty())
}

/// Refuses a host that somebody else may own, where nothing else prevents their page from reading the response.
fn judge_host(app: &App, request: &Request, need: Need) -> Result<(), ApiError> {
    if !app.web.is_open() {
        return Ok(());
    }
    // All of them: with two headers it is ambiguous which one counts.
    let of_headers = request.headers().get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or("?"));
    let of_address = request.uri().authority().map(|authority| authority.as_str());
    let is_loopback = request.extensions().get::<Peer>().is_none_or(Peer::is_loopback);
    let is_foreign = |host: &&str| !host.is_empty() && !app.web.hosts().takes(host, is_loopback);
    let Some(host) = of_headers.chain(of_address).find(is_foreign) else { return Ok(()) };
    let message = format!(
        "this server does not answer for the host {host:?}; ask by its address, or start it with --web-allow-host and that name, with \
         --web-external-url behind a proxy, or with a login (docs/web.md)"
    );
    // A sender keeps its data and retries once the option is set: after a 4xx it would drop it.
    Err(if need == Write { ApiError::unavailable(message) } else { ApiError::misdirected(message) })
}

/// Browsers state which page makes a request, and add their user's login automatically: only our own pages may change
/// anything with it. No page can forge `Sec-Fetch-Site`; where it is missing, every request other than GET has an
/// `Origin`.
fn is_foreign(hosts: &Hosts, request: &Request, need: Need) -> bool {
    if !matches!(need, Write | Admin | Vend) {
        return false;
    }
    let mut origins = request.headers().get_all(header::ORIGIN).iter();
    let is_own =
        |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| hosts.is_own_page(origin, authority(request)));
    match request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes) {
        Some(b"same-origin" | b"none") => false,
        None => !origins.all(is_own),
        // A page under a permitted name may be of another site than the address to which a proxy forwards.
        Some(_) => request.headers().get(header::ORIGIN).is_none() || !origins.all(is_own),
    }
}

/// Assigns the request to the tenant to which its sender is bound.
fn bind(request: &mut Request, grant: &Grant) -> Result<(), ApiError> {
    let Some(tenant) = &grant.tenant else { return Ok(()) };
    let headers = request.headers_mut();
    let named = headers.get_all(TENANT_HEADER).iter().all(|value| value.as_bytes() == tenant.as_str().as_bytes());
    if !named {
        let name = &grant.name;
        let message =
            format!("{name:?} is bound to the tenant {tenant}; leave the header X-Scope-OrgID out or name it");
        return Err(ApiError::forbidden(message));
    }
    let value = HeaderValue::from_str(tenant.as_str()).expect("a tenant's name has letters, digits and signs");
    headers.insert(TENANT_HEADER, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_site_changes_nothing() {
        let is_foreign = |headers: &[(&str, &str)], need| {
            let request = Request::post("/v1/batch").header("host", "localhost:6448");
            let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            super::is_foreign(&Hosts::default(), &request.body(axum::body::Body::empty()).unwrap(), need)
        };
        let (site, origin) = ("sec-fetch-site", "origin");
        for foreign in [
            &[(site, "cross-site")][..],
            &[(site, "same-site")],
            &[(site, "cross-site"), (origin, "http://evil.example")],
            &[(origin, "http://evil.example")],
            &[(origin, "null")],
            &[(origin, "http://localhost:3000")],
            &[(origin, "http://localhost:6448"), (origin, "http://evil.example")],
        ] {
            assert!(is_foreign(foreign, Write) && is_foreign(foreign, Admin), "{foreign:?}");
            assert!(!is_foreign(foreign, Read), "{foreign:?}");
        }
        for own in [
            &[][..],
            &[(site, "same-origin")],
            &[(site, "none")],
            &[(site, "same-origin"), (origin, "https://behind.a.proxy")],
            &[(origin, "http://localhost:6448")],
        ] {
            assert!(!is_foreign(own, Admin), "{own:?}");
        }
    }

    /// A route that is served and not in the table is the administrator's, which nobody notices before there is a
    /// login.
    #[test]
    fn every_route_is_in_the_table() {
        let source = include_str!("lib.rs");
        let routes: Vec<&str> =
            source.split(".route(").skip(1).map(|rest| rest.split('"').nth(1).expect("a path in quotes")).collect();
        assert!(routes.len() > 20, "{routes:?}");
        for route in &routes {
            assert!(RULES.iter().any(|rule| rule.0 == *route), "{route} has no rule");
        }
        for rule in RULES {
            assert!(routes.contains(&rule.0), "{} is not served", rule.0);
        }
    }
}
