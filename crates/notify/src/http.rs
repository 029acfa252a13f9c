//! Requests of HTTP.

use serde_json::Value;

use crate::answer::{Answer, TIMEOUT};

/// An agent that waits no longer than [`TIMEOUT`] and does not follow redirects with a token.
pub(crate) fn agent() -> ureq::Agent {
    let config =
        ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).timeout_global(Some(TIMEOUT));
    config.build().into()
}

/// Posts a body. `shown` replaces the address in messages.
pub(crate) fn post(agent: &ureq::Agent, url: &str, shown: &str, token: Option<&str>, body: &Value) -> Answer {
    let mut request = agent.post(url).header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    match request.send(body.to_string()) {
        Err(error) => Answer::Failed(format!("{shown}: {error}")),
        Ok(mut answer) => {
            let status = answer.status().as_u16();
            // 1 KiB: the sentence of an error.
            let text = answer.body_mut().with_config().limit(1024).read_to_string().unwrap_or_default();
            let sentence = format!("{shown}: status {status} {}", text.trim());
            match status {
                200..300 => Answer::Taken,
                // Too many requests, a timeout, and a login that an operator may correct are temporary.
                400..500 if !matches!(status, 401 | 403 | 408 | 429) => Answer::Refused(sentence),
                _ => Answer::Failed(sentence),
            }
        }
    }
}
