//! What a server says of itself at one moment.

use std::collections::HashMap;

use anyhow::Context;
use ogive_model::MonoNs;
use ogive_probe::Clock;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::cli::client::{Failure, Server};

/// Figures, expressions and disks, read one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    /// When, by this process's clock.
    pub(super) at: MonoNs,
    pub(super) figures: Map<String, Value>,
    /// By route and expression.
    pub(super) queries: HashMap<(String, String), QueryCost>,
    pub(super) disks: Vec<Disk>,
}

/// The cost of an expression since the start of the server.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct QueryCost {
    pub(super) query: String,
    pub(super) route: String,
    pub(super) times: u64,
    pub(super) seconds: f64,
    pub(super) longest: f64,
}

/// A directory of data.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Disk {
    pub(super) path: String,
    pub(super) state: String,
    #[serde(default)]
    pub(super) why: String,
    pub(super) free_bytes: u64,
    pub(super) size_bytes: u64,
    pub(super) failures: u64,
}

#[derive(Deserialize)]
struct Envelope<T> {
    data: T,
}

#[derive(Deserialize)]
struct Queries {
    queries: Vec<QueryCost>,
}

#[derive(Deserialize)]
struct Disks {
    disks: Vec<Disk>,
}

impl Reading {
    /// Queries `server`; a response of another form is a separate error.
    pub(super) fn take(server: &Server) -> Result<anyhow::Result<Self>, Failure> {
        let status = server.get("/v1/status", &[])?;
        let at = MonoNs(Clock::global().now());
        // A broker has neither of these: it has its figures.
        let queries = server.get("/v1/queries", &[]).ok();
        let disks = server.get("/v1/disks", &[]).ok();
        Ok(Self::from_answers(at, &status, queries.as_deref(), disks.as_deref()))
    }

    fn from_answers(at: MonoNs, status: &str, queries: Option<&str>, disks: Option<&str>) -> anyhow::Result<Self> {
        let wrong = "the server's answer is not as documented";
        let figures = serde_json::from_str(status).context(wrong)?;
        let queries = match queries {
            Some(body) => serde_json::from_str::<Envelope<Queries>>(body).context(wrong)?.data.queries,
            None => Vec::new(),
        };
        let disks = match disks {
            Some(body) => serde_json::from_str::<Envelope<Disks>>(body).context(wrong)?.data.disks,
            None => Vec::new(),
        };
        let queries = queries.into_iter().map(|cost| ((cost.route.clone(), cost.query.clone()), cost)).collect();
        Ok(Self { at, figures, queries, disks })
    }

    /// A figure; zero where the server has none with this name.
    pub(super) fn figure(&self, name: &str) -> f64 {
        self.figures.get(name).and_then(Value::as_f64).unwrap_or(0.0)
    }

    pub(super) fn word(&self, name: &str) -> &str {
        self.figures.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_others_refused() {
        let queries = r#"{"data":{"queries":[{"query":"up","route":"/api/v1/query","times":2,"seconds":0.5,"longest":0.4,"refused":0}]}}"#;
        let disks =
            r#"{"data":{"disks":[{"path":"/d","state":"live","why":"","free_bytes":1,"size_bytes":2,"failures":0}]}}"#;
        let reading =
            Reading::from_answers(MonoNs(7), r#"{"version":"1","blocks":3}"#, Some(queries), Some(disks)).unwrap();
        assert_eq!((reading.figure("blocks"), reading.word("version"), reading.figure("none")), (3.0, "1", 0.0));
        assert_eq!(reading.queries[&("/api/v1/query".to_owned(), "up".to_owned())].times, 2);
        assert_eq!(reading.disks[0].path, "/d");
        assert!(Reading::from_answers(MonoNs(7), "{}", None, None).unwrap().queries.is_empty());
        assert!(
            Reading::from_answers(MonoNs(7), "[]", None, None).is_err()
                && Reading::from_answers(MonoNs(7), "{}", Some("{}"), None).is_err()
        );
    }
}
