//! One node that owns every stream: its state, what it says of others, the topology and where a stream is.

use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, extract::rejection::ExtensionRejection};
use ogive_irondb::topology::Node;
use ring::digest::{SHA256, digest};
use serde_json::{Value as Json, json};

use super::answer;
use super::paths::AccountRequest;
use crate::App;
use crate::error::ApiError;
use crate::peer::Peer;

/// The node, under the address to which the client connected.
fn node(app: &App, peer: Result<Extension<Peer>, ExtensionRejection>) -> Node {
    let address = peer.map_or_else(|_| ([127, 0, 0, 1], 8112).into(), |Extension(peer)| peer.local);
    // Stable across restarts: derived from the name of the machine's store.
    let named = app.flags.of("data").join("\n");
    let digest = digest(&SHA256, format!("ogive irondb node\n{named}").as_bytes());
    Node::new(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"), address)
}

fn hash(node: &Node) -> String {
    ogive_text::hex::write(digest(&SHA256, &node.hashed()).as_ref())
}

type FromPeer = Result<Extension<Peer>, ExtensionRejection>;

/// The periods that reads answer quickly: those of the store's rollups.
const PERIODS: [u32; 2] = [60, 3_600];

pub(super) async fn state(State(app): State<App>, peer: FromPeer) -> Response {
    let node = node(&app, peer);
    // Unmeasured values are left out: clients read them as 0.
    let mut kind = json!({"rollups": PERIODS, "aggregate": {}});
    for period in PERIODS {
        kind[format!("rollup_{period}")] = json!({});
    }
    answer::from_result(Ok(json!({
        "identity": node.id, "current": hash(&node), "next": "-", "base_rollup": PERIODS[0], "rollups": PERIODS,
        "nnt": kind.clone(), "nntbs": kind.clone(), "histogram": kind.clone(), "text": kind,
        "max_peer_lag": 0.0, "avg_peer_lag": 0.0,
        "features": {"text:store": "1", "histogram:store": "1", "nnt:second_order": "1",
            "histogram:dynamic_rollups": "1", "nnt:store": "1", "features": "1"},
        "version": env!("CARGO_PKG_VERSION"), "application": "ogive",
    })))
}

/// The first request of gosnowth: the node's identity and its topology.
pub(super) async fn stats(State(app): State<App>, peer: FromPeer) -> Response {
    let node = node(&app, peer);
    let text = |value: String| json!({"_type": "s", "_value": value});
    answer::from_result(Ok(json!({
        "identity": text(node.id.clone()),
        "application": text("ogive".into()),
        "version": text(env!("CARGO_PKG_VERSION").into()),
        "semver": text(SEMVER.into()),
        "topology": {"current": text(hash(&node)), "next": text("-".into()), "state": text("n/a".into())},
    })))
}

/// The release of IRONdb whose responses these resemble: clients choose between forms by it.
const SEMVER: &str = "0.19.23";

pub(super) async fn gossip(State(app): State<App>, peer: FromPeer) -> Response {
    let node = node(&app, peer);
    let now = app.clock.wall() as f64 / 1e9;
    answer::from_result(Ok(json!([{
        "id": node.id, "gossip_time": format!("{now:.6}"), "gossip_age": "0.000000", "topo_current": hash(&node),
        "topo_next": "-", "topo_state": "n/a", "latency": {},
    }])))
}

fn xml(node: &Node) -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/xml")], node.xml()).into_response()
}

pub(super) async fn topology(State(app): State<App>, Path(asked): Path<String>, peer: FromPeer) -> Response {
    let node = node(&app, peer);
    match is_current(&node, &asked) {
        Ok(()) => xml(&node),
        Err(error) => answer::refusal(&error),
    }
}

fn is_current(node: &Node, asked: &str) -> Result<(), ApiError> {
    let current = hash(node);
    if asked == current {
        return Ok(());
    }
    Err(ApiError::not_found(format!(
        "the topology {asked:?} is not here; this node owns every stream, as {current} says"
    )))
}

/// A topology with other nodes cannot be loaded; the current one is loaded already.
pub(super) async fn load_topology(State(app): State<App>, Path(asked): Path<String>, peer: FromPeer) -> Response {
    answer::from_result(is_current(&node(&app, peer), &asked).map(|()| Json::Object(Default::default())))
}

pub(super) async fn activate(State(app): State<App>, Path(asked): Path<String>, peer: FromPeer) -> Response {
    answer::from_result(is_current(&node(&app, peer), &asked).map(|()| Json::Object(Default::default())))
}

pub(super) async fn locate(State(app): State<App>, peer: FromPeer, request: Request) -> Response {
    let checked = AccountRequest::new(&request).and_then(|asked| match asked.parts(4)[..] {
        [_, _, uuid, name] => super::paths::streams(uuid, name).map(drop),
        _ => Err(ApiError::bad_data("ask for /locate/xml/UUID/METRIC")),
    });
    match checked {
        Ok(()) => xml(&node(&app, peer)),
        Err(error) => answer::refusal(&error),
    }
}

/// Activity is derived from what is stored, so there is nothing to rebuild.
pub(super) async fn rebuild_activity(State(app): State<App>, request: Request) -> Response {
    let read = async {
        let held = crate::body::form(&app, request, 1 << 20).await?;
        let list: Vec<Json> = serde_json::from_slice(&held.bytes)
            .map_err(|error| ApiError::bad_data(format!("the body is not a JSON list of streams: {error}")))?;
        Ok(json!({"records": list.len(), "updated": list.len(), "misdirected": 0, "errors": 0}))
    };
    answer::from_result(read.await)
}
