//! A dead man's switch: who gets no sign of life for a while knows that alerts would not arrive either.

use serde_json::json;

use crate::answer::Answer;
use crate::http;

/// Sends signs of life.
pub struct Heartbeat {
    agent: ureq::Agent,
    url: String,
}

/// The contents of a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Groups of rules.
    pub groups: usize,
    /// Those whose last evaluation is overdue.
    pub late: usize,
    /// Destinations whose last request failed.
    pub failing: usize,
}

impl Pulse {
    /// Whether an alert would be evaluated and delivered: only then a sign is sent.
    #[must_use]
    pub const fn is_alive(&self) -> bool {
        self.late == 0 && self.failing == 0
    }

    /// Why no sign is sent.
    #[must_use]
    pub fn why_not(&self) -> String {
        format!("{} of {} groups are late, {} destinations fail", self.late, self.groups, self.failing)
    }
}

impl Heartbeat {
    /// To `url`, by POST.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self { agent: http::agent(), url: url.to_owned() }
    }

    /// Sends a sign.
    #[must_use]
    pub fn send(&self, pulse: &Pulse, external_url: &str) -> Answer {
        let body = json!({"status": "ok", "groups": pulse.groups, "externalURL": external_url});
        http::post(&self.agent, &self.url, &self.url, None, &body)
    }
}
