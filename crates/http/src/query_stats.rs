//! `stats`: what a query took, in the shape in which Prometheus answers it.
//!
//! Format: `data.stats` = `{"timings": {..seconds..}, "samples": {"totalQueryableSamples", "samplesRead",
//! "peakSamples"}}`; with `stats=all` `totalQueryableSamplesPerStep` too, `[[seconds, samples]..]`. `samplesRead` is
//! what was read of the store, each sample once; `totalQueryableSamples` counts it for each step that looks at it.
//! `peakSamples` is what was read and what the answer holds together. Beside them `seriesRead`.

use ogive_model::{MonoNs, Ms, WallMs};
use ogive_query::value::{QueryResult, Value};
use serde_json::json;

use super::App;
use super::params::Params;

/// The instants of a query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stats {
    requested: MonoNs,
    begun: MonoNs,
    /// The steps too.
    all: bool,
}

impl Stats {
    /// None unless the parameter is given and not empty.
    pub(super) fn requested(app: &App, params: &Params) -> Option<Self> {
        let all = params.get("stats").filter(|text| !text.is_empty())? == "all";
        let requested = MonoNs(app.clock.now());
        Some(Self { requested, begun: requested, all })
    }

    /// Called when the evaluation begins.
    pub(super) fn begin(self, app: &App) -> Self {
        Self { begun: MonoNs(app.clock.now()), ..self }
    }

    /// The evaluation ended with `result`; its first instant and the step between two.
    pub(super) fn end(self, app: &App, result: &QueryResult, start: WallMs, step: Ms) -> serde_json::Value {
        let ended = MonoNs(app.clock.now());
        let seconds = |from: MonoNs, to: MonoNs| to.since(from).0 as f64 / 1e9;
        let (queue, eval) = (seconds(self.requested, self.begun), seconds(self.begun, ended));
        let stats = &result.stats;
        let mut samples = json!({
            "totalQueryableSamples": stats.samples_looked_at,
            "samplesRead": stats.samples_read,
            "peakSamples": stats.samples_read + points(&result.value),
        });
        if self.all {
            let at = |(step_number, count): (i64, &u64)| json!([(start + step * step_number).0 as f64 / 1000.0, count]);
            samples["totalQueryableSamplesPerStep"] = (0..).zip(&stats.samples_by_step).map(at).collect();
        }
        json!({
            "timings": {
                "evalTotalTime": eval, "resultSortTime": 0.0, "queryPreparationTime": 0.0, "innerEvalTime": eval,
                "execQueueTime": queue, "execTotalTime": seconds(self.requested, ended),
            },
            "samples": samples,
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

    use crate::tests::Server;

    #[tokio::test]
    async fn stats_stand_in_the_data_when_they_are_asked_for() {
        let server = Server::filled().await;
        let path = "/api/v1/query?query=sum(increase(rpc_seconds[1m]))&time=1700000002";
        let (status, body) = server.get(&format!("{path}&stats=all")).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let stats = &body["data"]["stats"];
        let samples = &stats["samples"];
        assert_eq!((&samples["samplesRead"], &samples["peakSamples"]), (&json!(3), &json!(4)));
        // Three cells, each as its bins and eight.
        let looked = samples["totalQueryableSamples"].as_u64().unwrap();
        assert!(looked >= 3 * 9, "{stats}");
        assert_eq!(samples["totalQueryableSamplesPerStep"], json!([[1_700_000_002.0, looked]]));
        assert_eq!(stats["seriesRead"], 1);
        assert!(
            stats["timings"]["execTotalTime"].as_f64().unwrap() >= stats["timings"]["evalTotalTime"].as_f64().unwrap()
        );
        for without in ["", "&stats="] {
            assert!(server.get(&format!("{path}{without}")).await.1["data"].get("stats").is_none());
        }
        let range = "/api/v1/query_range?query=up&start=1700000000&end=1700000002&step=1&stats=true";
        let samples = server.get(range).await.1["data"]["stats"]["samples"].clone();
        // One sample, which two or three of the steps see.
        assert_eq!(samples["samplesRead"], 1);
        assert!(samples.get("totalQueryableSamplesPerStep").is_none(), "{samples}");
        let steps = server.get(&range.replace("stats=true", "stats=all")).await.1["data"]["stats"]["samples"].clone();
        let counts = steps["totalQueryableSamplesPerStep"].as_array().unwrap();
        let sum: u64 = counts.iter().map(|pair| pair[1].as_u64().unwrap()).sum();
        assert_eq!((counts.len(), &samples["totalQueryableSamples"]), (3, &json!(sum)), "{steps}");
        assert!(sum >= 1);
    }
}
