//! A tenant's store with classic views of its histograms: what queries and listings of the Prometheus API are answered
//! from.
//!
//! `classic_views=false` leaves the views out, for whoever lists what is stored.

use std::collections::BTreeSet;

use ogive_model::{
    Labels, Matcher, Opening, Partial, Select, SelectError, Selection, SeriesData, SeriesSet, TimeRange,
};
use ogive_query::ClassicViews;

use super::App;
use super::params::Params;
use ogive_door::backend::Reader;

/// See the module.
pub(super) struct Views<'a> {
    reader: Box<dyn Reader + 'a>,
    shown: bool,
}

impl<'a> Views<'a> {
    /// The store for the request of `params`.
    pub(super) fn new(app: &'a App, params: &'a Params) -> Self {
        Self { reader: app.backend.of(&params.tenant), shown: shown(params) }
    }

    /// Over `reader`, with views or without.
    pub(super) const fn over(reader: Box<dyn Reader + 'a>, shown: bool) -> Self {
        Self { reader, shown }
    }

    fn joined(
        &self,
        stored: Vec<String>,
        views: impl FnOnce(ClassicViews<'_>) -> Result<BTreeSet<String>, SelectError>,
    ) -> Result<Vec<String>, SelectError> {
        if !self.shown {
            return Ok(stored);
        }
        let mut all = views(ClassicViews::new(&*self.reader))?;
        all.extend(stored);
        Ok(all.into_iter().collect())
    }
}

/// Whether a request wants views.
pub(super) fn shown(params: &Params) -> bool {
    !matches!(params.get("classic_views"), Some("false" | "0"))
}

impl Select for Views<'_> {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        if self.shown { ClassicViews::new(&*self.reader).select(selection) } else { self.reader.select(selection) }
    }

    fn select_partial(&self, selection: &Selection) -> Result<Partial, SelectError> {
        if self.shown {
            ClassicViews::new(&*self.reader).select_partial(selection)
        } else {
            self.reader.select_partial(selection)
        }
    }

    fn open<'s>(
        &'s self,
        selection: &Selection,
        opening: &Opening<'_>,
    ) -> Result<Box<dyn SeriesSet + 's>, SelectError> {
        if self.shown {
            ClassicViews::new(&*self.reader).opened(selection, opening)
        } else {
            self.reader.open(selection, opening)
        }
    }

    fn label_sets(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        limit: usize,
        opening: &Opening<'_>,
    ) -> Result<BTreeSet<Labels>, SelectError> {
        if self.shown {
            ClassicViews::new(&*self.reader).label_sets(matchers, range, limit, opening)
        } else {
            self.reader.label_sets(matchers, range, limit, opening)
        }
    }
}

impl Reader for Views<'_> {
    fn label_names(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        opening: &Opening<'_>,
    ) -> Result<Vec<String>, SelectError> {
        let stored = self.reader.label_names(matchers, range, opening)?;
        self.joined(stored, |views| views.label_names(matchers, range))
    }

    fn label_values(
        &self,
        name: &str,
        matchers: &[Matcher],
        range: TimeRange,
        limit: usize,
        opening: &Opening<'_>,
    ) -> Result<Vec<String>, SelectError> {
        let stored = self.reader.label_values(name, matchers, range, limit, opening)?;
        let mut all = self.joined(stored, |views| views.label_values(name, matchers, range))?;
        all.truncate(limit);
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::json;

    use crate::tests::Server;

    #[tokio::test]
    async fn old_dashboards_ask_for_buckets_and_get_them() {
        let server = Server::filled().await;
        let get = async |path: &str| {
            let (status, body) = server.get(path).await;
            assert_eq!(status, StatusCode::OK, "{path}: {body}");
            body["data"].clone()
        };
        let at = "time=1700000002";
        let found = get(&format!("/api/v1/query?query=sum(increase(rpc_seconds_count[1m]))&{at}")).await;
        assert_eq!(found["result"][0]["value"][1], json!("8"));
        let query = "histogram_quantile(0.5,sum%20by(le)(rate(rpc_seconds_bucket[1m])))";
        let found = get(&format!("/api/v1/query?query={query}&{at}")).await;
        let quantile: f64 = found["result"][0]["value"][1].as_str().unwrap().parse().unwrap();
        assert!((0.001..0.0015).contains(&quantile), "{quantile}");
        let range = "query=rpc_seconds_bucket%7Ble=%220.01%22%7D&start=1700000000&end=1700000002&step=1";
        let found = get(&format!("/api/v1/query_range?{range}")).await;
        let values: Vec<_> =
            found["result"][0]["values"].as_array().unwrap().iter().map(|pair| pair[1].clone()).collect();
        assert_eq!(values, [json!("1"), json!("4"), json!("2")]);
    }

    #[tokio::test]
    async fn listings_have_the_views_unless_told_not_to() {
        let server = Server::filled().await;
        let get = async |path: &str| server.get(path).await.1["data"].clone();
        let series = get("/api/v1/series?match[]=rpc_seconds_count").await;
        assert_eq!(series, json!([{"__name__": "rpc_seconds_count", "route": "/a"}]));
        assert_eq!(get("/api/v1/labels?match[]=rpc_seconds_bucket").await, json!(["__name__", "le", "route"]));
        assert_eq!(get("/api/v1/labels").await, json!(["__name__", "job", "le", "route"]));
        assert_eq!(get("/api/v1/labels?classic_views=false").await, json!(["__name__", "job", "route"]));
        assert_eq!(get("/api/v1/labels?match[]=up").await, json!(["__name__", "job"]));
        let bounds = get("/api/v1/label/le/values?match[]=rpc_seconds_bucket").await;
        assert!(bounds.as_array().unwrap().contains(&json!("+Inf")), "{bounds}");
        let names = get("/api/v1/label/__name__/values").await;
        let all = ["rpc_seconds", "rpc_seconds_bucket", "rpc_seconds_count", "rpc_seconds_sum", "up"];
        assert_eq!(names, json!(all));
        assert_eq!(get("/api/v1/label/__name__/values?classic_views=false").await, json!(["rpc_seconds", "up"]));
        assert_eq!(get("/api/v1/series?match[]=rpc_seconds_count&classic_views=0").await, json!([]));
        let kind = &get("/api/v1/metadata?metric=rpc_seconds_bucket").await["rpc_seconds_bucket"][0]["type"];
        assert_eq!(kind, "counter");
    }
}
