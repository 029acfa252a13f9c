//! Notifies a URL of a crash: `POST` of one JSON object without frames, log records or configuration.

use std::time::Duration;

use serde_json::json;

use crate::report::Report;

/// 3 s: the role restarts only afterwards.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Sends the summary of `report` once. Nobody is left who could retry, and the next start reports the crash anyway.
pub(crate) fn send(url: &str, report: &Report) {
    let body = json!({
        "event": "crash",
        "title": report.title(),
        "signature": report.signature,
        "number": report.number,
        "time": report.time,
        "role": report.role,
        "version": report.version,
        "build_id": report.build_id,
        "pid": report.pid,
    });
    let agent = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).build().new_agent();
    let _ = agent.post(url).header("content-type", "application/json").send(body.to_string());
}
