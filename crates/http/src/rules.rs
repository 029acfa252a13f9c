//! `/api/v1/rules`, `/api/v1/alerts` and `/api/v1/alertmanagers` as Prometheus answers them; `/v1/alerts` and
//! `/v1/silences`: the same alerts with what keeps them quiet.
//!
//! Invariants: a tenant sees its own rules, alerts and silences alone; a silence keeps quiet the alerts of the tenant
//! of its request.

use std::collections::BTreeMap;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use ogive_detect::rules::RuleKind;
use ogive_model::{Ms, Tenant, WallMs};
use ogive_text::calendar::instant_ms;
use serde_json::json;

use super::App;
use super::ask::blocking;
use super::error::{ApiError, success};
use super::params::{Params, tenant};
use super::peer::Asker;
use super::upkeep::{answer, read};
use ogive_alerting::rules_view::{RuleFilter, SilenceRequest};

/// Groups with their rules and active alerts.
pub(super) async fn rules(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let kind = match params.get("type").unwrap_or("") {
        "" => None,
        "alert" => Some(RuleKind::Alert),
        "record" => Some(RuleKind::Record),
        other => {
            return Err(ApiError::bad_data(format!("invalid parameter \"type\": {other:?}; give alert or record")));
        }
    };
    let all = |name: &str| params.all(name).map(str::to_owned).collect();
    let wanted = RuleFilter {
        kind,
        rules: all("rule_name[]"),
        groups: all("rule_group[]"),
        files: all("file[]"),
        without_alerts: matches!(params.get("exclude_alerts"), Some("true" | "1")),
    };
    Ok(success(&json!({"groups": app.alerting.groups(&params.tenant, &wanted)})))
}

/// Active alerts, firing ones first.
pub(super) async fn alerts(State(app): State<App>, params: Params) -> Response {
    success(&json!({"alerts": app.alerting.alerts(&params.tenant)}))
}

/// Where alerts go.
pub(super) async fn alert_managers(State(app): State<App>) -> Response {
    let (managers, destinations) = app.alerting.destinations();
    let managers: Vec<_> = managers.iter().map(|url| json!({"url": url})).collect();
    success(&json!({"activeAlertmanagers": managers, "droppedAlertmanagers": [], "destinations": destinations}))
}

/// 400 days, as for the silences themselves.
const SILENCE: Ms = Ms::from_secs(400 * 86_400);

/// Active alerts with what silences them, firing ones first.
pub(super) async fn quiet_alerts(State(app): State<App>, params: Params) -> Response {
    success(&json!({"alerts": app.alerting.quiet_alerts(&params.tenant)}))
}

/// Silences and maintenance windows.
pub(super) async fn silences(State(app): State<App>, params: Params) -> Response {
    success(&app.alerting.silences(&params.tenant))
}

/// A silence to be created.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewSilence {
    /// Labels and patterns of their values.
    #[serde(default, rename = "match")]
    matchers: Option<BTreeMap<String, String>>,
    /// In their place: the labels of one alert, until it ceases.
    #[serde(default)]
    acknowledge: Option<BTreeMap<String, String>>,
    reason: String,
    #[serde(default)]
    start: Option<String>,
    #[serde(default)]
    end: Option<String>,
    /// In place of the end: such as 2h.
    #[serde(default, rename = "for")]
    span: Option<String>,
}

/// Creates a silence or an acknowledgement.
pub(super) async fn silence(
    State(app): State<App>,
    asker: Option<Extension<Asker>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let tenant = tenant(&headers)?.unwrap_or_default();
    let wish = wish(read(&headers, &body)?, tenant, asker, app.now())?;
    let id = blocking("the silence", move || {
        let made = app.alerting.silence(wish).ok_or_else(no_rules)?;
        made.map_err(ApiError::bad_data)
    });
    Ok(answer(StatusCode::OK, &json!({"id": id.await?})))
}

fn wish(
    new: NewSilence,
    tenant: Tenant,
    asker: Option<Extension<Asker>>,
    now: WallMs,
) -> Result<SilenceRequest, ApiError> {
    let no_instant = |text: &str| ApiError::bad_data(format!("{text:?} is no instant"));
    let instant = |text: &str| instant_ms(text).map(WallMs).ok_or_else(|| no_instant(text));
    let span = |text: &str| {
        let span = ogive_detect::rules::duration::parse_ms(text).map(Ms);
        span.map_err(|error| ApiError::bad_data(format!("for: {error}")))
    };
    let is_acknowledgement = new.acknowledge.is_some();
    let labels = match (new.matchers, new.acknowledge) {
        (Some(labels), None) | (None, Some(labels)) => labels,
        _ => return Err(ApiError::bad_data("give one of match and acknowledge")),
    };
    let start = new.start.as_deref().map(instant).transpose()?;
    let from = start.unwrap_or(now);
    let end = match (new.end.as_deref(), new.span.as_deref()) {
        (Some(end), None) => instant(end)?,
        (None, Some(text)) => from.saturating_add(span(text)?),
        (None, None) if is_acknowledgement => from + SILENCE,
        _ => return Err(ApiError::bad_data("give one of end and for")),
    };
    let by = asker.map(|Extension(asker)| asker.to_string()).unwrap_or_default();
    let (starts_ms, ends_ms) = (start.map(|start| start.0), end.0);
    Ok(SilenceRequest { tenant, labels, starts_ms, ends_ms, by, reason: new.reason, is_acknowledgement })
}

/// Ends a silence before its time.
pub(super) async fn unsilence(
    State(app): State<App>,
    headers: HeaderMap,
    id: Result<Path<u64>, PathRejection>,
) -> Result<Response, ApiError> {
    let Path(id) = id?;
    let tenant = tenant(&headers)?.unwrap_or_default();
    let ended = blocking("the end of a silence", move || {
        let ended = app.alerting.unsilence(&tenant, id).ok_or_else(no_rules)?;
        ended.map_err(ApiError::unavailable)
    });
    if ended.await? {
        Ok(answer(StatusCode::OK, &json!({"ended": id})))
    } else {
        Err(ApiError::not_found(format!("there is no silence {id}")))
    }
}

fn no_rules() -> ApiError {
    ApiError::not_found("this server evaluates no rules; start it with --rules")
}
