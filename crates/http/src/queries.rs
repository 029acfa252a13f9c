//! `/v1/queries`: the expressions that took the server most time since it started.
//!
//! Format: `{"status","data":{"queries":[{"query","route","times","refused","seconds","longest","last_ms"}..]}}`, what
//! took most first.
//! Invariants: a tenant sees its own.

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use ogive_model::{MonoNs, WallNs};
use serde_json::{Value, json};

use super::App;
use super::access;
use super::error::{ApiError, success};
use super::params::{self, Params};
use super::slowest::{Expression, observed};

/// 50 rows are more than anybody reads.
const ROWS: usize = 50;

/// Streams last as long as a client reads them.
const STREAMS: [&str; 3] = ["/v1/live", "/v1/stream", "/v1/subscribe"];

/// Answers a request, and records the cost of its expression.
pub(super) async fn measured(State(app): State<App>, request: Request, next: Next) -> Response {
    let route = access::route_name(request.extensions().get::<MatchedPath>());
    let tenant = params::tenant(request.headers()).ok().flatten().unwrap_or_default();
    let from = MonoNs(app.clock.now());
    let (response, text) = observed(next.run(request)).await;
    if let Some(text) = text.filter(|_| !STREAMS.contains(&route)) {
        let took = MonoNs(app.clock.now()).since(from);
        let of = Expression { tenant: tenant.as_str().to_owned(), route, text };
        app.slowest.note(of, took, !response.status().is_success(), WallNs(app.clock.wall()));
    }
    response
}

/// The list.
pub(super) async fn get(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let most = Some(params.limit()?.min(ROWS)).filter(|most| *most > 0).unwrap_or(ROWS);
    let rows: Vec<Value> = app
        .slowest
        .of(params.tenant.as_str())
        .into_iter()
        .take(most)
        .map(|(of, cost)| {
            json!({
                "query": of.text, "route": of.route, "times": cost.times, "refused": cost.refused,
                "seconds": cost.total.0 as f64 / 1e9, "longest": cost.longest.0 as f64 / 1e9,
                "last_ms": cost.last.to_ms(),
            })
        })
        .collect();
    Ok(success(&json!({"queries": rows})))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use serde_json::json;

    use crate::tests::Server;

    #[tokio::test]
    async fn expressions_are_counted_whatever_way_they_come() {
        let server = Server::filled().await;
        for _ in 0..3 {
            assert_eq!(server.get("/api/v1/query?query=up&time=1700000002").await.0, StatusCode::OK);
        }
        let form = Request::post("/api/v1/query").header("content-type", "application/x-www-form-urlencoded");
        let response = server.send(form.body(Body::from("query=up%7B&time=1700000002")).unwrap()).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert_eq!(
            server.get("/v1/heatmap?query=rpc_seconds&start=1700000000&end=1700000002&step=1").await.0,
            StatusCode::OK
        );
        let (_, body) = server.get("/v1/queries").await;
        let rows = body["data"]["queries"].as_array().unwrap();
        let row = |query: &str| rows.iter().find(|row| row["query"] == query).unwrap();
        assert_eq!((&row("up")["times"], &row("up")["refused"]), (&json!(3), &json!(0)));
        assert_eq!((&row("up{")["times"], &row("up{")["refused"]), (&json!(1), &json!(1)));
        assert_eq!(row("rpc_seconds")["route"], "/v1/heatmap");
        assert_eq!(rows.len(), 3);
        assert_eq!(server.get("/v1/queries?limit=1").await.1["data"]["queries"].as_array().unwrap().len(), 1);
    }
}
