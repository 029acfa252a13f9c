//! `stats=all`: what a query took, in the shape in which Prometheus answers it.
//!
//! Format: `data.stats` = `{"timings": {..seconds..}, "samples": {"totalQueryableSamples", "peakSamples"}}`. Ogive reads each sample
//! once however many windows it lies in, so `totalQueryableSamples` is what was read; Prometheus counts a sample for each
//! step that looks at it. `peakSamples` is what was read and what the answer holds together. Beside them `seriesRead`.

use ogive_query::value::{QueryResult, Value};
use serde_json::json;

use super::App;
use super::params::Params;

/// The instants of a query, nanoseconds of the server's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stats {
    asked: u64,
    begun: u64,
}

impl Stats {
    /// None unless the parameter is there and not empty.
    pub(super) fn asked(app: &App, params: &Params) -> Option<Self> {
        params.get("stats").filter(|text| !text.is_empty())?;
        let asked = app.clock.now();
        Some(Self { asked, begun: asked })
    }

    /// The evaluation begins.
    pub(super) fn begin(self, app: &App) -> Self {
        Self { begun: app.clock.now(), ..self }
    }

    /// The evaluation ended with `result`.
    pub(super) fn end(self, app: &App, result: &QueryResult) -> serde_json::Value {
        let ended = app.clock.now();
        let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
        let (queue, eval) = (seconds(self.asked, self.begun), seconds(self.begun, ended));
        json!({
            "timings": {
                "evalTotalTime": eval, "resultSortTime": 0.0, "queryPreparationTime": 0.0, "innerEvalTime": eval,
                "execQueueTime": queue, "execTotalTime": seconds(self.asked, ended),
            },
            "samples": {
                "totalQueryableSamples": result.stats.samples_read,
                "peakSamples": result.stats.samples_read + points(&result.value),
            },
            "seriesRead": result.stats.series_read,
        })
    }
}

fn points(value: &Value) -> usize {
    match value {
        Value::Scalar { .. } | Value::String { .. } => 1,
        Value::Vector(samples) => samples.len(),
        Value::Matrix(series) => series.iter().map(|one| one.floats.len() + one.histograms.len()).sum(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::json;

    use crate::http::tests::Server;

    #[tokio::test]
    async fn stats_stand_in_the_data_when_they_are_asked_for() {
        let server = Server::filled().await;
        let path = "/api/v1/query?query=sum(increase(rpc_seconds[1m]))&time=1700000002";
        let (status, body) = server.get(&format!("{path}&stats=all")).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let stats = &body["data"]["stats"];
        assert_eq!(stats["samples"], json!({"totalQueryableSamples": 3, "peakSamples": 4}));
        assert_eq!(stats["seriesRead"], 1);
        assert!(
            stats["timings"]["execTotalTime"].as_f64().unwrap() >= stats["timings"]["evalTotalTime"].as_f64().unwrap()
        );
        for without in ["", "&stats="] {
            assert!(server.get(&format!("{path}{without}")).await.1["data"].get("stats").is_none());
        }
        let range = "/api/v1/query_range?query=up&start=1700000000&end=1700000002&step=1&stats=true";
        assert_eq!(server.get(range).await.1["data"]["stats"]["samples"]["totalQueryableSamples"], 1);
    }
}
