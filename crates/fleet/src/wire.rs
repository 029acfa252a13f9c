//! The bodies between a broker and its server, in JSON (docs/formats/fleet.md).

use serde::{Deserialize, Serialize};

use crate::package::Signed;
use crate::relay::payload_bytes;
use crate::report::Report;
use crate::target::{Reachable, Target};
use crate::task::{Outcome, Task};
use crate::watch::{Watch, WatchColumn};

/// A broker asks for what is new.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Poll {
    /// Its state.
    pub report: Report,
    /// The last request that it began with.
    #[serde(default)]
    pub begun: u64,
    /// The server answers at once.
    #[serde(default)]
    pub at_once: bool,
    /// The spread checks that it runs; none of a broker that does not know of such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<Vec<String>>,
}

/// The server's answer, when there is something new or after a while.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The server's clock.
    pub now_ms: i64,
    /// The version that the broker should run; 0 for none.
    pub version: u64,
    /// That version, if the broker does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<Signed>,
    /// Requests that it has not answered, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Task>,
    /// How long to wait before the next poll; 0 when the server waits instead.
    #[serde(default)]
    pub pause_ms: u64,
    /// The spread checks that the broker may run; none of a group without such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// Connections that somebody wants through it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connects: Vec<Connect>,
}

/// A connection that somebody wants through a broker, or to the broker itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connect {
    /// Whose answer it is.
    pub id: String,
    /// Where it shall lead, `HOST:PORT`; empty with `watch`, which a broker that does not know of watches refuses.
    pub target: String,
    /// Who wants it.
    pub by: String,
    /// What the broker shall show of its own samples in place of a target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<Watch>,
}

impl Connect {
    /// To a target, in the name of `by`; it has no id yet.
    pub(crate) fn from_target(target: &Target, by: &str) -> Self {
        Self { target: target.to_string(), by: by.to_owned(), ..Self::default() }
    }

    /// To the broker's samples, in the name of `by`; it has no id yet.
    pub(crate) fn from_watch(watch: Watch, by: &str) -> Self {
        Self { by: by.to_owned(), watch: Some(watch), ..Self::default() }
    }
}

/// Why a broker does not connect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declined {
    /// A word.
    pub reason: String,
    /// A sentence.
    pub text: String,
}

/// The spread checks that a broker may run, from the moment at which it asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// For how long.
    pub lease_ms: u64,
    /// Their names.
    pub checks: Vec<String>,
}

/// Outcomes of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FinishedTasks {
    pub(crate) done: Vec<Outcome>,
}

/// A broker introduces itself with a ticket. Its token never leaves it before it is used; the server gets the hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Enrol {
    pub(crate) ticket: String,
    pub(crate) name: String,
    pub(crate) token_sha256: String,
}

/// The answer to a broker that enrolled, or whose token was rotated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enroled {
    /// Its name.
    pub name: String,
    /// Its group.
    pub group: String,
    /// The key that signs configurations, in base64.
    pub key: String,
    /// When the token ends.
    pub expires_ms: i64,
    /// How long a token is good.
    pub lifetime_ms: i64,
}

/// A broker replaces its token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rotate {
    pub(crate) token_sha256: String,
}

/// Reads any bytes as each of the bodies, a signed package and a file; for fuzzing.
pub fn any(bytes: &[u8]) {
    let _ = serde_json::from_slice::<Poll>(bytes).map(|poll| poll.report.bounded());
    let _ = serde_json::from_slice::<Enrol>(bytes);
    let _ = serde_json::from_slice::<Rotate>(bytes);
    let _ = serde_json::from_slice::<FinishedTasks>(bytes);
    let _ = serde_json::from_slice::<Enroled>(bytes);
    let _ = serde_json::from_slice::<Declined>(bytes);
    let _ = serde_json::from_slice::<WatchColumn>(bytes);
    let _ = crate::record::parsed(bytes);
    let text = String::from_utf8_lossy(bytes);
    let _ = crate::credential::ticket_parts(&text);
    if let Ok(target) = Target::parse(&text) {
        assert_eq!(Target::parse(&target.to_string()).as_ref(), Ok(&target), "{text:?}");
    }
    let _ = Reachable::parse(&[&text]);
    let _ = bytes.first_chunk().map(|head| payload_bytes(*head));
    if let Ok(Answer { package: Some(signed), .. }) = serde_json::from_slice::<Answer>(bytes) {
        let key = crate::package::PublicKey::parse("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
        let _ = signed.verify(&key.expect("it has 32 bytes"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_sends_may_be_anything() {
        let report = Report { findings: vec!["a".into()], ..Report::default() };
        let poll = Poll { report, runs: Some(vec!["a".into()]), ..Poll::default() };
        let signed = Signed { package: "{}".into(), signature: "AA==".into() };
        let share = Some(Share { lease_ms: 15_000, checks: vec!["a".into()] });
        let watch = Watch { tenant: "a".into(), query: "up".into(), quantiles: vec![0.5] };
        let connects = vec![
            Connect { id: "1f".into(), target: "db:5432".into(), by: "amy".into(), watch: None },
            Connect { id: "20".into(), ..Connect::from_watch(watch, "amy") },
        ];
        let answer = Answer { package: Some(signed), share, connects, ..Answer::default() };
        let column = WatchColumn { t: 1, bins: vec![[Some(1.0), None, Some(2.0)]], ..WatchColumn::default() };
        let texts = [
            serde_json::to_vec(&poll).unwrap(),
            serde_json::to_vec(&answer).unwrap(),
            serde_json::to_vec(&column).unwrap(),
        ];
        let mut seed = 7_u64;
        for text in texts {
            for _ in 0..3_000 {
                let mut bytes = text.clone();
                for _ in 0..3 {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let at = (seed >> 33) as usize % bytes.len();
                    bytes[at] = b"{}[]\",:0e-\xff"[(seed >> 20) as usize % 11];
                }
                any(&bytes);
            }
        }
    }
}
