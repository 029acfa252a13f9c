//! `/v1/senders`: what became of the samples of each sender since the server started.
//!
//! Format:
//! `{"status","data":{"senders":[{"tenant","protocol","sender","source"?,"batches","received","accepted","duplicate",
//! "rejected":{reason: samples},"refused":{reason: samples},"unreadable":{reason:
//! requests},"missing_batches","first_ms","last_ms"}..], "forgotten":[{"protocol", ..the same numbers}..]}}`, who sent
//! last first.
//! Invariants: a tenant sees its own; who is bound to none and names none sees all, and those for which there was no
//! room any more.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use ogive_door::senders::{Account, Sender};
use ogive_model::SourceId;
use serde_json::{Map, Value, json};

use super::App;
use super::error::{ApiError, success};
use super::params;

/// The list.
pub(super) async fn get(State(app): State<App>, headers: HeaderMap) -> Result<Response, ApiError> {
    let tenant = params::tenant(&headers)?;
    let (rows, forgotten) = app.counters.senders.rows(tenant.as_ref());
    let senders: Vec<Value> = rows.iter().map(|(sender, account)| Value::Object(row(sender, account))).collect();
    let forgotten: Vec<Value> = forgotten
        .iter()
        .map(|(protocol, account)| {
            let mut out = numbers(account);
            out.insert("protocol".into(), protocol.name().into());
            Value::Object(out)
        })
        .collect();
    Ok(success(&json!({"senders": senders, "forgotten": forgotten})))
}

fn row(sender: &Sender, account: &Account) -> Map<String, Value> {
    let mut out = numbers(account);
    out.insert("tenant".into(), sender.tenant.as_str().into());
    out.insert("protocol".into(), sender.protocol.name().into());
    out.insert("sender".into(), (*sender.name).into());
    if let Some(source) = sender.source {
        out.insert("source".into(), uuid(source).into());
    }
    out
}

/// As its sender writes it.
fn uuid(source: SourceId) -> String {
    let hex = format!("{:032x}", source.0);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

fn numbers(account: &Account) -> Map<String, Value> {
    let Account { batches, accepted, duplicate, rejected, refused, unreadable, missing, first, last } = account;
    let lost: u64 = rejected.values().chain(refused.values()).sum();
    let all = json!({
        "batches": batches, "received": accepted + duplicate + lost, "accepted": accepted, "duplicate": duplicate,
        "rejected": rejected, "refused": refused, "unreadable": unreadable, "missing_batches": missing,
        "first_ms": first.to_ms(), "last_ms": last.to_ms(),
    });
    let Value::Object(all) = all else { return Map::new() };
    all
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use serde_json::{Value, json};

    use crate::tests::Server;

    #[tokio::test]
    async fn each_sender_has_its_ledger() {
        let server = Server::filled().await;
        let time_ms = server.app.clock.wall() / 1_000_000;
        let series = json!([{"labels": {"__name__": "up", "job": "x"}, "kind": "float"}]);
        let sample = |time_ms: i64| json!({"series": 0, "time_ms": time_ms, "float": 1});
        // One of its numbers never came; a sample is refused for good; a body is none.
        for sequence in [4, 4, 2] {
            let samples = json!([sample(time_ms - sequence), {"series": 7, "time_ms": time_ms, "float": 1}]);
            assert_eq!(server.batch(sequence as u64, series.clone(), samples).await.0, StatusCode::OK);
        }
        let broken = Request::post("/v1/batch").header("content-type", "application/json").body(Body::from("{"));
        assert_eq!(server.send(broken.unwrap()).await.status(), StatusCode::BAD_REQUEST);
        let (status, body) = server.get("/v1/senders").await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let rows = body["data"]["senders"].as_array().unwrap();
        let native = rows.iter().find(|row| row["source"] == "123e4567-e89b-12d3-a456-426614174000").unwrap();
        assert_eq!(
            (&native["batches"], &native["missing_batches"], &native["tenant"]),
            (&json!(4), &json!(1), &json!("default"))
        );
        let sum = |name: &str| -> u64 { native[name].as_object().unwrap().values().filter_map(Value::as_u64).sum() };
        let number = |name: &str| native[name].as_u64().unwrap();
        assert_eq!(number("received"), 4 + 6);
        assert_eq!(number("received"), number("accepted") + number("duplicate") + sum("rejected") + sum("refused"));
        assert!(native["rejected"]["series_unknown"].as_u64() > Some(0), "{native}");
        let unread = rows.iter().find(|row| row["unreadable"]["malformed"] == 1).unwrap();
        assert_eq!((&unread["protocol"], &unread["batches"]), (&json!("batch"), &json!(0)));
        let other = Request::get("/v1/senders").header("x-scope-orgid", "other").body(Body::empty()).unwrap();
        let answer = server.send(other).await;
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap()["data"], json!({"senders": [], "forgotten": []}));
    }
}
