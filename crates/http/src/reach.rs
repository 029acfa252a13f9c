//! Connections through brokers: `/v1/fleet/brokers/{name}/connect` for people, `/v1/fleet/stream` for brokers
//! (docs/fleet.md).
//!
//! Format: docs/http.md and docs/formats/fleet.md.
//! Invariants: a connection begins when its broker has connected to the target, so that every refusal is an answer of
//! HTTP; it ends within a second and a little when whoever asked may not any more, or the broker is another or revoked.
//! Each is in the audit when it is refused, when it begins, and when it ends.
//! Threads: one task relays each connection. Limits: those of `ogive_fleet::Connection`.

use axum::extract::{Path, Request, State};
use axum::http::{Extensions, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use ogive_fleet::{Connection, Declined, IDLE, Side, Target, relay};

use super::App;
use super::body;
use super::error::{ApiError, success};
use super::fleet::{asker, fleet, now_ms, refused, token};
use super::fleet_session::Session;
use super::listener::Switchable;

/// What both switch to.
const PROTOCOL: &str = "ogive-stream";
/// The name in the audit.
const ACTION: &str = "fleet_connect";
/// 4 KiB: a reason and a sentence.
const DECLINED_BYTES_MAX: usize = 4 << 10;

/// The value of a parameter of the address.
fn parameter(request: &Request, wanted: &str) -> Result<String, ApiError> {
    let mut pairs = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
    let found = pairs.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned());
    found.ok_or_else(|| ApiError::bad_data(format!("the parameter {wanted:?} is missing")))
}

/// Whether a request asks for [`PROTOCOL`].
fn wants_stream(request: &Request) -> bool {
    let wanted = request.headers().get(header::UPGRADE).map_or(&b""[..], HeaderValue::as_bytes);
    wanted.eq_ignore_ascii_case(PROTOCOL.as_bytes())
}

/// What the connection of a request becomes with the answer [`switched`].
fn upgrade(request: &mut Request) -> Result<OnUpgrade, ApiError> {
    if !wants_stream(request) || request.extensions().get::<OnUpgrade>().is_none() {
        let message = format!(
            "a connection is a stream: ask over HTTP/1.1 with the headers Connection: Upgrade and Upgrade: {PROTOCOL}"
        );
        return Err(ApiError { status: StatusCode::UPGRADE_REQUIRED, ..ApiError::bad_data(message) });
    }
    Ok(hyper::upgrade::on(request))
}

/// Agrees to a request with these extensions.
fn switched(of: &Extensions) -> Response {
    if let Some(connection) = of.get::<Switchable>() {
        connection.switch();
    }
    let headers = [(header::CONNECTION, "upgrade"), (header::UPGRADE, PROTOCOL)];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

/// Opens a connection through a broker.
pub(super) async fn connect(
    State(app): State<App>,
    Path(name): Path<String>,
    mut request: Request,
) -> Result<Response, ApiError> {
    let (fleet, by) = (fleet(&app)?, asker(&request));
    let target = Target::parse(&parameter(&request, "target")?).map_err(ApiError::bad_data)?;
    let upgrade = upgrade(&mut request)?;
    let (parts, _) = request.into_parts();
    let (enrolled_ms, what) = (fleet.enrolled_ms(&name), format!("broker {name:?}, target {target}"));
    let session = Session { app, fleet, name, enrolled_ms, parts, action: ACTION, by, what };
    let asked = session.fleet.connect(&session.name, &target, &session.by);
    let connection = session.connection(asked, "connected").await?;
    let answer = switched(&session.parts.extensions);
    tokio::spawn(serve(session, upgrade, connection));
    Ok(answer)
}

async fn serve(session: Session, upgrade: OnUpgrade, connection: Connection) {
    let Connection { stream, place } = connection;
    let outcome = match upgrade.await {
        Ok(upgraded) => {
            let near = Side::framed(TokioIo::new(upgraded), "whoever asked");
            let relayed = relay(near, Side::framed(stream, "the broker"), IDLE, session.cut()).await;
            format!("{}; {} bytes to the target, {} bytes from it", relayed.end, relayed.sent, relayed.received)
        }
        Err(error) => format!("broken before it began: {error}"),
    };
    drop(place);
    session.note(&outcome);
}

/// A broker answers: with its connection, or with the reason why there is none.
pub(super) async fn stream(State(app): State<App>, mut request: Request) -> Result<Response, ApiError> {
    let (fleet, token) = (fleet(&app)?, token(request.headers())?);
    let id = parameter(&request, "id")?;
    if wants_stream(&request) {
        let upgrade = upgrade(&mut request)?;
        let (_, arrival) = fleet.arrive(&token, &id, now_ms(&app)).map_err(refused)?;
        tokio::spawn(async move {
            // Without a connection the one who waits is answered so.
            if let Ok(upgraded) = upgrade.await {
                let stream: TokioIo<Upgraded> = TokioIo::new(upgraded);
                arrival.connected(Box::new(stream));
            }
        });
        return Ok(switched(request.extensions()));
    }
    let held = body::form(&app, request, DECLINED_BYTES_MAX).await?;
    let declined: Declined =
        serde_json::from_slice(&held.bytes).map_err(|error| ApiError::bad_data(format!("the body: {error}")))?;
    let (_, arrival) = fleet.arrive(&token, &id, now_ms(&app)).map_err(refused)?;
    arrival.refused(&declined.reason, &declined.text);
    Ok(success(&serde_json::json!({})))
}
