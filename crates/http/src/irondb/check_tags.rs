//! What checks are tagged with: `/meta/check/tag/CHECK`.
//!
//! Format: a text of the series `irondb_check_tags` of the check, a JSON list of `category:value`; the latest counts.
//! Invariants: one change at a time, so that none is lost.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{Path, Request, State};
use axum::response::Response;
use ogive_door::counters::Protocol;
use ogive_door::division;
use ogive_door::submission::stored;
use ogive_irondb::identity::{CHECK, CHECK_TAGS};
use ogive_irondb::name;
use ogive_model::{
    Batch, BatchId, Kind, METRIC_NAME, Sample, Selection, SeriesDef, SeriesMeta, Temporality, Tenant, TimeRange, Value,
};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use super::answer;
use super::paths;
use super::streams::equal;
use crate::App;
use crate::ask::{Cancel, ask};
use crate::error::ApiError;
use crate::params;

/// 256 tags of a check.
const TAGS_MAX: usize = 256;
/// 256 KiB: that many of the longest tags.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// 1,000,000 changes of the tags of all checks.
const SAMPLES_MAX: usize = 1_000_000;

/// Changes are serialised.
static CHANGING: Mutex<()> = Mutex::const_new(());

/// The tags of each check.
pub(super) type Tags = BTreeMap<String, Vec<String>>;

/// The tags of every check, or of one.
pub(super) fn read(app: &App, cancel: &Cancel, tenant: &Tenant, check: Option<&str>) -> Result<Tags, ApiError> {
    let mut matchers = vec![equal(METRIC_NAME, CHECK_TAGS)];
    matchers.extend(check.map(|check| equal(CHECK, check)));
    let selection = Selection { samples_max: SAMPLES_MAX, ..Selection::new(matchers, TimeRange::ALL) };
    let mut out = Tags::new();
    cancel.each_series(&*app.backend.of(tenant), &selection, |series| {
        let Some(latest) = series.texts.values.last() else { return Ok(()) };
        let tags: Vec<String> = serde_json::from_str(latest).unwrap_or_default();
        cancel.hold(latest.len() * 2)?;
        out.insert(series.labels.get(CHECK).to_owned(), tags);
        Ok(())
    })?;
    Ok(out)
}

/// Tags as categories and values.
pub(super) fn pairs(tags: &[String]) -> Vec<(String, String)> {
    let text = format!("x|ST[{}]", tags.join(","));
    let parsed = name::parse(&text).map(|parsed| parsed.tags).unwrap_or_default();
    parsed.into_iter().map(|(category, value)| (category.into_owned(), value.into_owned())).collect()
}

pub(super) async fn get(State(app): State<App>, Path(check): Path<String>, request: Request) -> Response {
    let tags = async move {
        let (check, tenant) = (paths::check(&check)?, params::tenant(request.headers())?.unwrap_or_default());
        let wanted = check.clone();
        let mut tags = ask(&app, None, move |app, cancel| read(app, cancel, &tenant, Some(&wanted))).await?;
        Ok(json!({check.clone(): tags.remove(&check).unwrap_or_default()}))
    };
    answer::from_result(tags.await)
}

#[derive(Deserialize)]
struct Change {
    #[serde(default)]
    add: Vec<String>,
    #[serde(default)]
    remove: Vec<String>,
}

pub(super) async fn post(State(app): State<App>, Path(check): Path<String>, request: Request) -> Response {
    let changed = async move {
        let (check, tenant) = (paths::check(&check)?, params::tenant(request.headers())?.unwrap_or_default());
        let held = crate::body::form(&app, request, BODY_BYTES_MAX).await?;
        let change: Change = serde_json::from_slice(&held.bytes).map_err(|error| {
            ApiError::bad_data(format!("the body is not {{\"add\": [..], \"remove\": [..]}}: {error}"))
        })?;
        for tag in &change.add {
            let is_tag = pairs(std::slice::from_ref(tag)).len() == 1 && !tag.contains(']');
            if !is_tag {
                return Err(ApiError::bad_data(format!("{tag:?} is not a tag such as category:value")));
            }
        }
        change_to(&app, check, tenant, move |tags| {
            tags.retain(|tag| !change.remove.contains(tag));
            tags.extend(change.add);
        })
        .await
    };
    answer::from_result(changed.await)
}

pub(super) async fn delete(State(app): State<App>, Path(check): Path<String>, request: Request) -> Response {
    let changed = async move {
        let (check, tenant) = (paths::check(&check)?, params::tenant(request.headers())?.unwrap_or_default());
        change_to(&app, check, tenant, BTreeSet::clear).await
    };
    answer::from_result(changed.await)
}

async fn change_to(
    app: &App,
    check: String,
    tenant: Tenant,
    change: impl FnOnce(&mut BTreeSet<String>),
) -> Result<serde_json::Value, ApiError> {
    let _one_at_a_time = CHANGING.lock().await;
    let (wanted, whose) = (check.clone(), tenant.clone());
    let before = ask(app, None, move |app, cancel| read(app, cancel, &whose, Some(&wanted))).await?;
    let before: BTreeSet<String> = before.into_values().flatten().collect();
    let mut after = before.clone();
    change(&mut after);
    if after.len() > TAGS_MAX {
        return Err(ApiError::bad_data(format!("{} tags of a check, more than {TAGS_MAX}", after.len())));
    }
    if after != before {
        store(app, &check, tenant, &after).await?;
    }
    Ok(json!({check: after}))
}

async fn store(app: &App, check: &str, tenant: Tenant, tags: &BTreeSet<String>) -> Result<(), ApiError> {
    let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let series = SeriesDef::new([(METRIC_NAME, CHECK_TAGS), (CHECK, check)], meta);
    let series = series.map_err(|error| ApiError::internal(error.to_string()))?;
    let value = Value::Text(serde_json::to_string(tags).expect("texts are JSON"));
    let sample = Sample { series: 0, time_ns: app.clock.wall(), start_ns: None, value };
    let BatchId { source, sequence } = app.numbers.next();
    let batch =
        Batch { source, sequence, tenant, series: vec![Ok(series)], known: Vec::new(), samples: vec![Ok(sample)] };
    let mut way = app.meters.ingest.begin();
    let frame =
        division::framed(app.batch_series_max, &batch).map_err(|why| ApiError::too_large(why.message.to_string()))?;
    way.decoded();
    let verdict = stored(app, Protocol::Irondb, batch, frame, &way).await;
    let verdict = verdict.map_err(|refusal| ApiError::from(&refusal))?;
    match verdict.rejected.first() {
        Some((_, reason)) => Err(ApiError::bad_data(format!("the tags are not stored: {}", reason.as_str()))),
        None => Ok(()),
    }
}
