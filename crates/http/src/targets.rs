//! `/api/v1/targets`, `/api/v1/targets/metadata`, `/api/v1/scrape_pools` as Prometheus answers them, and `POST
//! /-/reload`.
//!
//! Invariants: a tenant sees the targets of its own jobs alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::App;
use super::admin::enabled;
use super::catalog::selector;
use super::error::{ApiError, success};
use super::params::Params;
use ogive_scrape::{Pairs, PoolView, TargetView};
use ogive_text::calendar::iso;
use ogive_text::duration;

/// Active targets, and those that the rules dropped.
pub(super) async fn targets(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let state = params.get("state").unwrap_or("any").to_lowercase();
    if !matches!(state.as_str(), "any" | "active" | "dropped" | "") {
        return Err(ApiError::bad_data("invalid parameter \"state\": give active, dropped or any"));
    }
    let wanted = params.get("scrapePool").filter(|name| !name.is_empty());
    let (mut active, mut dropped, mut counts) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (name, pool) in pools_of(&app, &params).iter().filter(|(name, _)| wanted.is_none_or(|wanted| wanted == *name)) {
        let of_pool = pool.dropped();
        if state != "active" {
            dropped
                .extend(of_pool.iter().map(|labels| json!({"discoveredLabels": object(labels), "scrapePool": name})));
        }
        counts.insert(name.clone(), of_pool.len());
        if state != "dropped" {
            active.extend(pool.active().iter().map(|target| shown(name, target)));
        }
    }
    Ok(success(&json!({"activeTargets": active, "droppedTargets": dropped, "droppedTargetCounts": counts})))
}

fn shown(pool: &str, view: &TargetView) -> Value {
    let (target, last) = (&view.target, view.last());
    let url = target.url.to_string();
    let time = if last.time.0 == 0 { "0001-01-01T00:00:00Z".to_owned() } else { iso(last.time.0) };
    json!({
        "discoveredLabels": object(&target.discovered),
        "labels": object(&target.labels),
        "scrapePool": pool,
        "scrapeUrl": url,
        "globalUrl": url,
        "lastError": last.error,
        "lastScrape": time,
        "lastScrapeDuration": last.took.as_secs_f64(),
        "health": last.health(),
        "scrapeInterval": duration::write(target.interval),
        "scrapeTimeout": duration::write(target.timeout),
    })
}

fn object(labels: &Pairs) -> Value {
    Value::Object(labels.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect())
}

/// The metadata of the targets' metrics.
pub(super) async fn metadata(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let matchers = match params.get("match_target").filter(|text| !text.is_empty()) {
        Some(text) => selector(text)?,
        None => Vec::new(),
    };
    let metric = params.get("metric").filter(|metric| !metric.is_empty());
    let limit = params.limit()?;
    let mut out = Vec::new();
    for view in pools_of(&app, &params).values().flat_map(|pool| pool.active()) {
        if !matchers.iter().all(|matcher| matcher.matches(view.target.label(&matcher.name))) {
            continue;
        }
        for family in view.last().families.iter().filter(|family| metric.is_none_or(|metric| metric == family.name)) {
            if out.len() >= limit {
                break;
            }
            let mut entry = Map::new();
            entry.insert("target".into(), object(&view.target.labels));
            if metric.is_none() {
                entry.insert("metric".into(), family.name.as_str().into());
            }
            entry.insert("type".into(), family.kind.as_str().into());
            entry.insert("help".into(), family.help.as_str().into());
            entry.insert("unit".into(), family.unit.as_str().into());
            out.push(Value::Object(entry));
        }
    }
    Ok(success(&Value::Array(out)))
}

/// The names of the jobs.
pub(super) async fn pools(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let names: Vec<String> = pools_of(&app, &params).into_keys().collect();
    Ok(success(&json!({"scrapePools": names})))
}

/// Reloads the rules and the scrape configuration.
pub(super) async fn reload(State(app): State<App>) -> Result<Response, ApiError> {
    enabled(&app)?;
    let nothing = || ApiError::unavailable("nothing is scraped here; start the server with --scrape-config");
    let own = app.clone();
    let reloading = tokio::task::spawn_blocking(move || own.alerting.reload("POST /-/reload"));
    let rules = reloading.await.map_err(|error| ApiError::internal(error.to_string()))?;
    if let Some(Err(sentence)) = &rules {
        return Err(ApiError::internal(format!("failed to reload rules: {sentence}")));
    }
    let reloader = match app.scrape.reloader() {
        None if rules.is_some() => return Ok(StatusCode::OK.into_response()),
        reloader => reloader.ok_or_else(nothing)?,
    };
    let (sender, receiver) = oneshot::channel();
    reloader.send(sender).await.map_err(|_| nothing())?;
    match receiver.await.map_err(|_| nothing())? {
        Ok(()) => Ok(StatusCode::OK.into_response()),
        Err(sentence) => Err(ApiError::internal(format!("failed to reload config: {sentence}"))),
    }
}

/// The jobs that the client may see.
fn pools_of(app: &App, params: &Params) -> BTreeMap<String, Arc<PoolView>> {
    app.scrape.pools().into_iter().filter(|(_, pool)| pool.tenant == params.tenant).collect()
}
