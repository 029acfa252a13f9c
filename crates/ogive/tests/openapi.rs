//! The server answers as `schema/openapi.yaml` says.

use crate::common::clients::Client;
use crate::common::{SOURCE, Server, float, histogram, now_ms};
use serde_json::json;

#[test]
fn answers_have_the_shape_that_the_document_tells() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let mut counter = float("try_total");
    counter["labels"]["site"] = json!("a");
    let time_ms = now_ms();
    let at = |series: u32, time_ms: i64, value: (&str, serde_json::Value)| json!({"series": series, "time_ms": time_ms, value.0: value.1});
    let bins = json!({"bins": {"1.2e-3": 4, "3.5e-2": 1}});
    let samples = (0..20).flat_map(|second| {
        let time_ms = time_ms - 1_000 * second;
        [at(0, time_ms, ("float", json!(20 - second))), at(1, time_ms, ("histogram", bins.clone()))]
    });
    // One measurement that an exemplar describes.
    let exemplar = at(2, time_ms, ("text", json!("{\"labels\":{\"trace_id\":\"1f\"},\"value\":0.25}")));
    let series =
        json!([counter, histogram("try_seconds"), {"labels": {"__name__": "try_seconds_exemplar"}, "kind": "text"}]);
    let (status, body) = server.batch(SOURCE, 1, series, samples.chain([exemplar]).collect());
    assert_eq!((status, &body["accepted"]), (200, &json!(41)));
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/openapi.yaml");
    let said = Client::start("openapi.py", &[document, &server.address]).finish();
    let fitting: u32 = said[0].split(' ').next().unwrap().parse().unwrap();
    assert!(fitting >= 80, "{said:?}");
}
