//! IRONdb's HTTP API, for what was written for it: a listener of its own (`--irondb`), one node that owns every stream.
//!
//! Invariants: what is acknowledged is durable; what comes twice counts once. A refusal is JSON with `error`, and for
//! what writes also with IRONdb's counts. Success is 200, as clients take nothing else for it.

mod answer;
mod caql;
mod caql_stream;
mod check_tags;
mod fetch;
mod find;
mod graphite;
mod node;
mod paths;
mod reads;
mod streams;
mod writes;

use axum::Router;
use axum::routing::{get, post};

use super::{App, layered, status, wrong_method};

/// The routes of a listener of `--irondb`.
pub fn router(app: App) -> Router {
    let routes = Router::new()
        .route("/state", get(node::state))
        .route("/stats.json", get(node::stats))
        .route("/gossip/json", get(node::gossip))
        .route("/topology/xml/{hash}", get(node::topology))
        .route("/topology/{hash}", post(node::load_topology))
        .route("/activate/{hash}", get(node::activate))
        .route("/locate/xml/{*stream}", get(node::locate))
        .route("/raw", post(writes::raw).put(writes::raw))
        .route("/raw/{*stream}", get(reads::raw))
        .route("/write/text", post(writes::text).put(writes::text))
        .route("/write/numeric", post(writes::numeric).put(writes::numeric))
        .route("/write/nnt", post(writes::numeric).put(writes::numeric))
        .route("/histogram/write", post(writes::histogram).put(writes::histogram))
        .route("/nntbs", post(writes::rollups).put(writes::rollups))
        .route("/rollup/{*stream}", get(reads::rollup))
        .route("/histogram/{*stream}", get(reads::histogram))
        .route("/read/{*stream}", get(reads::read))
        .route("/find/{account}/tags", get(find::tags))
        .route("/find/{account}/tag_cats", get(find::categories))
        .route("/find/{account}/tag_vals", get(find::values))
        .route("/graphite/{account}/metrics/find", get(graphite::names))
        .route("/graphite/{account}//metrics/find", get(graphite::names))
        .route("/graphite/{account}/metrics/find/", get(graphite::names))
        .route("/graphite/{account}/{prefix}/metrics/find", get(graphite::names))
        .route("/graphite/{account}/{prefix}/metrics/find/", get(graphite::names))
        .route("/graphite/{account}/tags/find", get(graphite::tagged))
        .route("/graphite/{account}//tags/find", get(graphite::tagged))
        .route("/graphite/{account}/tags/find/", get(graphite::tagged))
        .route("/graphite/{account}/{prefix}/tags/find", get(graphite::tagged))
        .route("/graphite/{account}/{prefix}/tags/find/", get(graphite::tagged))
        .route("/graphite/{account}/series", get(graphite::series))
        .route("/graphite/{account}//series", get(graphite::series))
        .route("/graphite/{account}/series/", get(graphite::series))
        .route("/graphite/{account}/{prefix}/series", get(graphite::series))
        .route("/graphite/{account}/{prefix}/series/", get(graphite::series))
        .route("/graphite/{account}/series_multi", post(graphite::series_multi))
        .route("/graphite/{account}//series_multi", post(graphite::series_multi))
        .route("/graphite/{account}/series_multi/", post(graphite::series_multi))
        .route("/graphite/{account}/{prefix}/series_multi", post(graphite::series_multi))
        .route("/graphite/{account}/{prefix}/series_multi/", post(graphite::series_multi))
        .route("/graphite/{account}/{prefix}/{name}", post(graphite::write).put(graphite::write))
        .route("/find/{account}/tag_cats/", get(find::categories))
        .route("/find/{account}/tag_vals/", get(find::values))
        .route("/meta/check/tag/{check}", get(check_tags::get).post(check_tags::post).delete(check_tags::delete))
        .route("/surrogate/activity_rebuild", post(node::rebuild_activity))
        .route("/fetch", post(fetch::post))
        .route("/extension/lua", get(caql::list))
        .route("/extension/lua/public/caql_v1", get(caql::run).post(caql::run))
        .route("/extension/lua/public/caql_v1/stream", get(caql_stream::run).post(caql_stream::run))
        .route("/-/irondb/healthy", get(status::healthy))
        .method_not_allowed_fallback(wrong_method)
        .fallback(answer::unknown);
    layered(routes, app)
}

#[cfg(test)]
mod tests;
