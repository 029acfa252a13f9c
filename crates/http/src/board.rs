//! `/v1/boards`: pages of several panels, saved in the store: versioned, of one tenant, and in the audit.
//!
//! Format: a board is
//! `{"name","title","range","variables":[{"name","label","match"}..],"panels":[{"title","queries":[..],"kind","x","y","w",
//! "h","text"}..]}` (docs/boards.md). POST saves one as the next version; `base=N` refuses it when another version than
//! N is the last (N is 0 for a board that is not there). GET of the list gives the last version of each; GET of a name
//! gives a board and what versions it has, `version=N` an earlier one. DELETE adds a version that is empty. Each
//! version is a text of the series `ogive_board{board=..}`, which retention never drops.
//! Limits: [`BOARD_BYTES_MAX`], [`PANELS_MAX`], [`QUERIES_MAX`], [`VARIABLES_MAX`]; [`BOARDS_MAX`] boards,
//! [`VERSIONS_MAX`] versions.
//! Threads: saves go one after the other.

use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use ogive_door::counters::Protocol;
use ogive_door::submission::stored;
use ogive_model::{
    Batch, BatchId, Kind, METRIC_NAME, MatchOp, Matcher, Ms, Resolution, Sample, Selection, SeriesDef, SeriesMeta,
    Temporality, Tenant, TimeRange, Value, WallMs,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use tokio::sync::Mutex;

use super::App;
use super::ask::{Cancel, ask};
use super::body;
use super::error::{ApiError, success};
use super::params::{self, Params};
use super::peer::Asker;

/// The series of boards.
const METRIC: &str = "ogive_board";
/// 256 KiB: 64 panels of 8 queries of 512 bytes.
const BOARD_BYTES_MAX: usize = 256 << 10;
/// 64 panels are more than anyone views at once.
const PANELS_MAX: usize = 64;
/// 8 expressions of one panel.
const QUERIES_MAX: usize = 8;
const VARIABLES_MAX: usize = 16;
/// 1,000 boards of a tenant.
const BOARDS_MAX: usize = 1_000;
/// 10,000 versions are read to find the last ones.
const VERSIONS_MAX: usize = 10_000;
/// 64 bytes: the name is part of addresses.
const NAME_BYTES_MAX: usize = 64;
/// Columns of the grid, and its rows.
const COLUMNS: u32 = 12;
const ROWS_MAX: u32 = 1_000;

/// A page of panels.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Board {
    name: String,
    title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    #[serde(default)]
    variables: Vec<Variable>,
    panels: Vec<Panel>,
}

/// A variable: `$name` in expressions is replaced by a value of a label.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Variable {
    name: String,
    label: String,
    /// Only values of these series.
    #[serde(default, rename = "match", skip_serializing_if = "String::is_empty")]
    of: String,
    /// The initial choice; all when it is left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    value: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum PanelKind {
    /// As the data has it.
    #[default]
    Auto,
    Heatmap,
    Lines,
    Number,
    Table,
    Text,
}

/// A picture and its place.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Panel {
    #[serde(default)]
    title: String,
    #[serde(default)]
    queries: Vec<String>,
    #[serde(default)]
    kind: PanelKind,
    x: u32,
    y: u32,
    w: u32,
    h: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
}

/// One version, as it is stored.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Version {
    version: u64,
    by: String,
    /// None: it was deleted.
    board: Option<Board>,
}

impl Board {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > BOARD_BYTES_MAX {
            return Err(format!("it has {} bytes, more than {BOARD_BYTES_MAX}", bytes.len()));
        }
        let board: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        board.check()?;
        Ok(board)
    }

    fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        for (what, number, most) in
            [("panels", self.panels.len(), PANELS_MAX), ("variables", self.variables.len(), VARIABLES_MAX)]
        {
            if number > most {
                return Err(format!("it has {number} {what}, more than {most}"));
            }
        }
        for variable in &self.variables {
            let is_name = |text: &str| {
                text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                    && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            };
            if !is_name(&variable.name) {
                return Err(format!("the variable {:?}: its name needs letters, digits and _", variable.name));
            }
            if variable.label.is_empty() {
                return Err(format!("the variable {:?} names no label", variable.name));
            }
        }
        self.panels.iter().enumerate().try_for_each(|(at, panel)| {
            panel.check().map_err(|why| format!("panel {} ({:?}): {why}", at + 1, panel.title))
        })
    }
}

impl Panel {
    fn check(&self) -> Result<(), String> {
        let Self { x, y, w, h, .. } = *self;
        if w == 0 || h == 0 || w > COLUMNS || x > COLUMNS - w || h > ROWS_MAX || y > ROWS_MAX - h {
            return Err(format!("{w} x {h} at {x}, {y} is not inside of {COLUMNS} columns and {ROWS_MAX} rows"));
        }
        if self.queries.len() > QUERIES_MAX {
            return Err(format!("it has {} queries, more than {QUERIES_MAX}", self.queries.len()));
        }
        if self.kind != PanelKind::Text && self.queries.iter().all(|query| query.trim().is_empty()) {
            return Err("it has no query".into());
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_fine) {
        return Err(format!(
            "the name {name:?}: letters, digits, -, _ and . make a name, 1 to {NAME_BYTES_MAX} of them"
        ));
    }
    Ok(())
}

/// The last version of each board that exists.
pub(super) async fn list(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let boards = read(&app, &params.tenant, None).await?;
    let last = boards.iter().filter_map(|(_, versions)| versions.last());
    let rows: Vec<Json> = last
        .filter_map(|(time, version)| {
            let board = version.board.as_ref()?;
            Some(json!({
                "name": board.name, "title": board.title, "version": version.version, "time_ms": time,
                "by": version.by, "panels": board.panels.len(),
            }))
        })
        .collect();
    Ok(success(&json!({"boards": rows})))
}

/// One board.
pub(super) async fn get(
    State(app): State<App>,
    Path(name): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    check_name(&name).map_err(ApiError::bad_data)?;
    let wanted = match params.get("version") {
        None => None,
        Some(text) => Some(text.parse::<u64>().map_err(|_| {
            ApiError::bad_data(format!("invalid parameter \"version\": {text:?} is not a whole number"))
        })?),
    };
    let versions = versions(&app, &params.tenant, &name).await?;
    let found = match wanted {
        None => versions.last(),
        Some(wanted) => versions.iter().find(|(_, version)| version.version == wanted),
    };
    let Some((time, Version { version, by, board: Some(board) })) = found else {
        return Err(ApiError::not_found(format!("there is no board {name:?} of this version")));
    };
    let all: Vec<Json> = versions
        .iter()
        .map(|(time, one)| {
            json!({"version": one.version, "time_ms": time, "by": one.by, "deleted": one.board.is_none()})
        })
        .collect();
    Ok(success(&json!({"version": version, "time_ms": time, "by": by, "board": board, "versions": all})))
}

/// Saves a board as its next version.
pub(super) async fn save(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    // Without a type a page of anybody could send one.
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    if kind.split(';').next().is_none_or(|kind| kind.trim() != "application/json") {
        return Err(ApiError::unsupported(format!("content type {kind:?}; send application/json")));
    }
    let params = Params::parse(request.uri().query().unwrap_or_default().as_bytes());
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    let by = request.extensions().get::<Asker>().cloned().unwrap_or_default().to_string();
    // A longer one is read only far enough to report it.
    let held = body::form(&app, request, BOARD_BYTES_MAX + 1).await?;
    let board = Board::parse(&held.bytes).map_err(|why| ApiError::bad_data(format!("this is no board: {why}")))?;
    let version = add(&app, &tenant, &board.name.clone(), &by, Some(board), base(&params)?).await?;
    Ok(success(&json!({"version": version})))
}

/// Deletes a board; its versions stay.
pub(super) async fn delete(
    State(app): State<App>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    check_name(&name).map_err(ApiError::bad_data)?;
    let params = Params::parse(request.uri().query().unwrap_or_default().as_bytes());
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    let by = request.extensions().get::<Asker>().cloned().unwrap_or_default().to_string();
    let version = add(&app, &tenant, &name, &by, None, base(&params)?).await?;
    Ok(success(&json!({"version": version})))
}

/// The version on which a change is based.
fn base(params: &Params) -> Result<Option<u64>, ApiError> {
    let wrong = |text: &str| ApiError::bad_data(format!("invalid parameter \"base\": {text:?} is not a whole number"));
    params.get("base").map(|text| text.parse().map_err(|_| wrong(text))).transpose()
}

/// Adding numbers the versions: only one request adds at a time.
static ADDING: Mutex<()> = Mutex::const_new(());

async fn add(
    app: &App,
    tenant: &Tenant,
    name: &str,
    by: &str,
    board: Option<Board>,
    base: Option<u64>,
) -> Result<u64, ApiError> {
    let _adding = ADDING.lock().await;
    let versions = versions(app, tenant, name).await?;
    let last = versions.last();
    let there = last.filter(|(_, version)| version.board.is_some()).map_or(0, |(_, version)| version.version);
    if base.is_some_and(|base| base != there) {
        let message = match there {
            0 => format!("there is no board {name:?} any more"),
            _ => format!("the board {name:?} is at version {there} by now; take it over first, or save without base"),
        };
        return Err(ApiError { status: StatusCode::CONFLICT, error_type: "conflict", message });
    }
    match (&board, last) {
        (None, _) if there == 0 => return Err(ApiError::not_found(format!("there is no board {name:?}"))),
        // Saving the same contents again makes no new version.
        (Some(_), Some((_, version))) if version.board == board => return Ok(version.version),
        _ => {}
    }
    if versions.len() >= VERSIONS_MAX {
        return Err(ApiError::execution(format!("the board {name:?} has {VERSIONS_MAX} versions; give it a new name")));
    }
    if there == 0 && board.is_some() && read(app, tenant, None).await?.len() >= BOARDS_MAX {
        return Err(ApiError::execution(format!("there are {BOARDS_MAX} boards, and no more are taken")));
    }
    let version = last.map_or(0, |(_, version)| version.version) + 1;
    let now = app.now();
    let time = last.map_or(now, |(time, _)| now.max(*time + Ms(1)));
    let text = serde_json::to_string(&Version { version, by: by.to_owned(), board }).expect("it is JSON");
    store(app, tenant, name, time, text).await?;
    Ok(version)
}

async fn store(app: &App, tenant: &Tenant, name: &str, time: WallMs, text: String) -> Result<(), ApiError> {
    let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let def = SeriesDef::new([(METRIC_NAME, METRIC), ("board", name)], meta)
        .map_err(|error| ApiError::bad_data(error.to_string()))?;
    let BatchId { source, sequence } = app.numbers.next();
    let mut batch = Batch { source, sequence, tenant: tenant.clone(), ..Batch::default() };
    batch.series.push(Ok(def));
    batch.samples.push(Ok(Sample { series: 0, time_ns: time.to_ns().0, start_ns: None, value: Value::Text(text) }));
    let way = app.meters.ingest.begin_made();
    let frame = batch.encode().map_err(|error| ApiError::bad_data(error.to_string()))?;
    let verdict = stored(app, Protocol::Batch, batch, frame, &way).await.map_err(|error| ApiError::from(&error))?;
    if verdict.accepted == 0 {
        let why: Vec<String> = verdict.rejected.iter().map(|one| format!("{one:?}")).collect();
        return Err(ApiError::unavailable(format!("the store refused it: {}", why.join("; "))));
    }
    Ok(())
}

type Versions = Vec<(WallMs, Version)>;

async fn versions(app: &App, tenant: &Tenant, name: &str) -> Result<Versions, ApiError> {
    Ok(read(app, tenant, Some(name.to_owned())).await?.pop().map(|(_, versions)| versions).unwrap_or_default())
}

/// Boards with their versions, oldest first: of all boards only the last version.
async fn read(app: &App, tenant: &Tenant, name: Option<String>) -> Result<Vec<(String, Versions)>, ApiError> {
    let tenant = tenant.clone();
    ask(app, None, move |app, cancel| found(app, &tenant, name.as_deref(), cancel)).await
}

fn found(app: &App, tenant: &Tenant, name: Option<&str>, cancel: &Cancel) -> Result<Vec<(String, Versions)>, ApiError> {
    let equal = |label: &str, value: &str| Matcher::new(label, MatchOp::Equal, value).expect("it is no pattern");
    let mut matchers = vec![equal(METRIC_NAME, METRIC)];
    matchers.extend(name.map(|name| equal("board", name)));
    let selection = Selection {
        samples_max: VERSIONS_MAX.saturating_mul(BOARDS_MAX),
        resolution: Resolution::Width(0),
        ..Selection::new(matchers, TimeRange::ALL)
    };
    let mut boards = Vec::new();
    cancel.each_series(&*app.backend.of(tenant), &selection, |one| {
        let all = one.texts.times.iter().zip(&one.texts.values);
        let skipped = if name.is_some() { 0 } else { one.texts.times.len().saturating_sub(1) };
        let mut versions = Versions::new();
        for (time, text) in all.skip(skipped) {
            cancel.hold(text.len() * 2)?;
            // Other texts under this name are not versions.
            versions.extend(serde_json::from_str(text).ok().map(|version| (WallMs(*time), version)));
        }
        boards.push((one.labels.get("board").to_owned(), versions));
        Ok(())
    })?;
    boards.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(boards)
}

/// Parses the file of a board; for the fuzz target.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn parse(bytes: &[u8]) -> bool {
    Board::parse(bytes).is_ok()
}

#[cfg(test)]
mod tests;
