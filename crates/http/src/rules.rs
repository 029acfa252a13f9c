//! `/api/v1/rules`, `/api/v1/alerts` and `/api/v1/alertmanagers` as Prometheus answers them.
//!
//! Invariants: rules are the default tenant's; another sees none.

use axum::extract::State;
use axum::response::Response;
use ogive_detect::rules::RuleKind;
use serde_json::json;

use super::App;
use super::error::{ApiError, success};
use super::params::Params;
use ogive_alerting::rules_view::Wanted;

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
    let wanted = Wanted {
        kind,
        rules: all("rule_name[]"),
        groups: all("rule_group[]"),
        files: all("file[]"),
        without_alerts: matches!(params.get("exclude_alerts"), Some("true" | "1")),
    };
    let groups = if params.tenant.is_default() { app.alerting.groups(&wanted) } else { json!([]) };
    Ok(success(&json!({"groups": groups})))
}

/// Active alerts, those that fire first.
pub(super) async fn alerts(State(app): State<App>, params: Params) -> Response {
    let alerts = if params.tenant.is_default() { app.alerting.alerts() } else { json!([]) };
    success(&json!({"alerts": alerts}))
}

/// Where alerts go.
pub(super) async fn alert_managers(State(app): State<App>) -> Response {
    let (managers, destinations) = app.alerting.destinations();
    let managers: Vec<_> = managers.iter().map(|url| json!({"url": url})).collect();
    success(&json!({"activeAlertmanagers": managers, "droppedAlertmanagers": [], "destinations": destinations}))
}
