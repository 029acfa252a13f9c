//! `/query` of InfluxDB 1.x: the statements that its clients send around their writes. There is nothing to create here,
//! and questions about data are queried in PromQL.
//!
//! Format: docs.influxdata.com/influxdb/v1/query_language; each statement between semicolons has its result. Names may
//! stand in double quotes. A statement comes in the address, or in a form; the type of a body that holds none does not
//! matter.
//! Limits: [`CREATED_MAX`] names that were created and have no data are remembered, until the server ends;
//! [`STATEMENTS_MAX`].
//! Failure: 400 with a sentence for what cannot be read, and for what is not done here; nothing of such a request is
//! done.

use std::collections::BTreeSet;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use ogive_model::{Tenant, TimeRange};
use serde_json::{Value, json};

use super::super::ask::ask;
use super::super::error::{ApiError, json as json_answer};
use super::super::params::{self, Params};
use super::super::{App, body};
use super::version::{Api, versioned};

/// 100 statements of one request: clients send one.
const STATEMENTS_MAX: usize = 100;

/// 64 KiB of a form: a hundred statements.
const FORM_BYTES_MAX: usize = 64 * 1024;

/// A supported statement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Statement {
    CreateDatabase(String),
    ShowDatabases,
    ShowRetentionPolicies,
}

impl Statement {
    fn parse(text: &str) -> Result<Self, String> {
        let words = words(text)?;
        let upper: Vec<String> = words.iter().map(|word| word.to_ascii_uppercase()).collect();
        let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
        match upper.as_slice() {
            ["CREATE", "DATABASE"] => Err(format!("error parsing query: {text:?} names no database")),
            ["CREATE", "DATABASE", _] => Ok(Self::CreateDatabase(words[2].clone())),
            ["CREATE", "DATABASE", _, "WITH", ..] => {
                Err(unsupported("CREATE DATABASE .. WITH", "create it without, and start the server with --retention"))
            }
            ["SHOW", "DATABASES"] => Ok(Self::ShowDatabases),
            ["SHOW", "RETENTION", "POLICIES", ..] => Ok(Self::ShowRetentionPolicies),
            ["CREATE" | "ALTER" | "DROP", "RETENTION", ..] => {
                Err(unsupported("a retention policy", "start the server with --retention"))
            }
            ["DROP" | "DELETE", ..] => {
                Err(unsupported("deletion by InfluxQL", "use /api/v1/admin/tsdb/delete_series or ogive delete"))
            }
            [] => Err("error parsing query: the parameter q holds no statement".into()),
            _ => Err(unsupported(
                "InfluxQL",
                "ask in PromQL at /api/v1/query; names are at /api/v1/label/__name__/values",
            )),
        }
    }
}

fn unsupported(what: &str, instead: &str) -> String {
    format!("{what} is not supported here; {instead}")
}

/// The words of a statement; text in double quotes is one word.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut out, mut rest) = (Vec::new(), text.trim());
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            None => {
                let end = rest.find([' ', '\t', '\n', '\r', '"']).unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
            Some(quoted) => {
                let end =
                    quote_end(quoted).ok_or_else(|| format!("error parsing query: {text:?} has an open quote"))?;
                (quoted[..end].replace("\\\"", "\"").replace("\\\\", "\\"), &quoted[end + 1..])
            }
        };
        out.push(word);
        rest = after.trim_start();
    }
    Ok(out)
}

fn quote_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// The statements of a request; semicolons inside quotes do not separate.
fn statements(text: &str) -> Result<Vec<Statement>, String> {
    let (mut parts, mut from, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !escaped => quoted = !quoted,
            b';' if !quoted => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
        escaped = byte == b'\\' && !escaped;
    }
    parts.push(&text[from..]);
    parts.retain(|part| !part.trim().is_empty());
    if parts.len() > STATEMENTS_MAX {
        return Err(format!("error parsing query: {} statements, above the limit of {STATEMENTS_MAX}", parts.len()));
    }
    if parts.is_empty() {
        return Err("missing required parameter \"q\"".into());
    }
    parts.into_iter().map(Statement::parse).collect()
}

/// The parameter `q` of the address, or else of a form.
async fn requested(app: &App, request: Request) -> Result<String, ApiError> {
    let params = Params::parse(request.uri().query().unwrap_or_default().as_bytes());
    if let Some(query) = params.get("q") {
        let query = query.to_owned();
        body::discard(request).await;
        return Ok(query);
    }
    if !is_form(request.headers()) {
        body::discard(request).await;
        return Ok(String::new());
    }
    let form = body::form(app, request, FORM_BYTES_MAX).await?;
    Ok(Params::parse(&form.bytes).get("q").unwrap_or_default().to_owned())
}

fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_none_or(|kind| kind.is_empty() || kind.starts_with("application/x-www-form-urlencoded"))
}

pub(crate) async fn query(State(app): State<App>, request: Request) -> Response {
    match answered(&app, request).await {
        Ok(results) => versioned(json_answer(StatusCode::OK, json!({ "results": results }).to_string() + "\n")),
        Err(error) => Api::V1.error(&error),
    }
}

async fn answered(app: &App, request: Request) -> Result<Vec<Value>, ApiError> {
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    let query = requested(app, request).await?;
    let statements = statements(&query).map_err(ApiError::bad_data)?;
    let mut results = Vec::new();
    for (at, statement) in statements.into_iter().enumerate() {
        let mut result = json!({ "statement_id": at });
        if let Some(series) = done(app, &tenant, statement).await? {
            result["series"] = json!([series]);
        }
        results.push(result);
    }
    Ok(results)
}

/// Executes it; returns its output, if any.
async fn done(app: &App, tenant: &Tenant, statement: Statement) -> Result<Option<Value>, ApiError> {
    match statement {
        Statement::CreateDatabase(name) => {
            app.influx.databases.create(tenant, &name);
            Ok(None)
        }
        Statement::ShowDatabases => {
            let mut names = app.influx.databases.of(tenant);
            names.extend(stored(app, tenant).await?);
            let values: Vec<_> = names.into_iter().map(|name| json!([name])).collect();
            Ok(Some(json!({ "name": "databases", "columns": ["name"], "values": values })))
        }
        // Every database has the one that InfluxDB creates automatically.
        Statement::ShowRetentionPolicies => Ok(Some(json!({
            "columns": ["name", "duration", "shardGroupDuration", "replicaN", "default"],
            "values": [["autogen", "0s", "168h0m0s", 1, true]],
        }))),
    }
}

/// The databases that have data: the values of the label for the database.
async fn stored(app: &App, tenant: &Tenant) -> Result<BTreeSet<String>, ApiError> {
    let (tenant, label) = (tenant.clone(), app.influx.db_label.clone());
    if label.is_empty() {
        return Ok(BTreeSet::new());
    }
    ask(app, None, move |app, cancel| {
        let range = TimeRange::ALL;
        let store = app.backend.of(&tenant);
        let values = cancel.opening(|opening| store.label_values(&label, &[], range, usize::MAX, opening))?;
        Ok(values.into_iter().collect())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::super::rules::{CREATED_MAX, Databases};
    use super::*;

    #[test]
    fn statements_are_read_as_influxdb_reads_them() {
        let created = |name: &str| Ok(vec![Statement::CreateDatabase(name.into())]);
        for (text, expected) in [
            ("CREATE DATABASE \"my db\"", created("my db")),
            ("create database telegraf;", created("telegraf")),
            ("  CREATE\n DATABASE \"a;\\\"b\" ", created("a;\"b")),
            ("SHOW DATABASES", Ok(vec![Statement::ShowDatabases])),
            ("show retention policies on \"x\"", Ok(vec![Statement::ShowRetentionPolicies])),
        ] {
            assert_eq!(statements(text), expected, "{text}");
        }
        assert_eq!(statements("CREATE DATABASE a; SHOW DATABASES").unwrap().len(), 2);
        for (text, word) in [
            ("", "\"q\""),
            (";;", "\"q\""),
            ("CREATE DATABASE", "names no database"),
            ("CREATE DATABASE \"x", "open quote"),
            ("CREATE DATABASE x WITH DURATION 1d", "--retention"),
            ("DROP DATABASE x", "delete"),
            ("CREATE RETENTION POLICY a ON b DURATION 1d REPLICATION 1", "--retention"),
            ("SELECT * FROM cpu", "PromQL"),
            ("SHOW DATABASES; SELECT 1", "PromQL"),
        ] {
            let message = statements(text).unwrap_err();
            assert!(message.contains(word), "{text}: {message}");
        }
        let many = |count: usize| statements(&vec!["SHOW DATABASES"; count].join(";"));
        assert_eq!(many(STATEMENTS_MAX).unwrap().len(), STATEMENTS_MAX);
        assert!(many(STATEMENTS_MAX + 1).unwrap_err().contains("101 statements"));
    }

    #[test]
    fn so_many_databases_without_data_are_remembered() {
        let (databases, tenant) = (Databases::default(), Tenant::default());
        (0..=CREATED_MAX).for_each(|at| databases.create(&tenant, &at.to_string()));
        assert_eq!(databases.of(&tenant).len(), CREATED_MAX);
        assert!(databases.of(&Tenant::new("other").unwrap()).is_empty());
    }
}
