//! Classic views: dashboards written for `_bucket`, `_sum` and `_count` get their answers from histograms.

#[allow(dead_code)]
mod common;

use common::{Fixed, assert_close, float, record, route_of, series, vector};
use ogive_hist::{Histogram, Scheme};
use ogive_model::{
    HistogramValue, Kind, Labels, METRIC_NAME, MatchOp, Matcher, Select, SelectError, Selection, SeriesData,
    Temporality, TimeRange, WallMs,
};
use ogive_query::value::InstantSample;
use ogive_query::{ClassicViews, Engine};

fn ask(store: &Fixed, query: &str, seconds: i64) -> Vec<InstantSample> {
    vector(Engine::default().instant(&ClassicViews::new(store), query, WallMs(seconds * 1000)).unwrap())
}

fn matcher(name: &str, op: MatchOp, value: &str) -> Matcher {
    Matcher::new(name, op, value).unwrap()
}

fn listed(store: &Fixed, matchers: Vec<Matcher>) -> Vec<Labels> {
    let selection = Selection { labels_only: true, ..Selection::new(matchers, TimeRange::ALL) };
    ClassicViews::new(store).select(&selection).unwrap().into_iter().map(|one| one.labels).collect()
}

#[test]
fn the_quantile_of_an_old_dashboard_is_right() {
    let recorded = record(320);
    for q in [0.1, 0.5, 0.9, 0.99] {
        let query = format!("histogram_quantile({q}, sum by (le, route) (rate(rpc_seconds_bucket[5m])))");
        let found = ask(&recorded.store, &query, 310);
        assert_eq!(found.len(), 2);
        for sample in found {
            let sorted = recorded.sorted(route_of(&sample.labels), 10, 310);
            let truth = sorted[((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1];
            let ratio = float(&sample.value) / truth;
            // Neighbouring bounds are a half apart at most.
            assert!((1.0 / 1.5..=1.5).contains(&ratio), "q {q}: {} is not near {truth}", float(&sample.value));
        }
    }
}

#[test]
fn buckets_count_exactly_and_any_threshold_can_be_asked_for() {
    let recorded = record(320);
    let sorted = recorded.sorted("/login", 10, 310);
    let below = |bound: f64| sorted.iter().filter(|value| **value < bound).count() as f64;
    for bound in ["0.001", "0.05", "0.3", "0.012", "1.3", "+Inf"] {
        let query = format!("sum(increase(rpc_seconds_bucket{{route=\"/login\",le=\"{bound}\"}}[5m]))");
        let truth = if bound == "+Inf" { sorted.len() as f64 } else { below(bound.parse().unwrap()) };
        assert_close(float(&ask(&recorded.store, &query, 310)[0].value), truth);
    }
    // The bounds that nobody named are exact too, the same for all series, and rise to the count.
    let found = ask(&recorded.store, "sum by (le) (increase(rpc_seconds_bucket{route=\"/login\"}[5m]))", 310);
    assert!(found.len() > 20, "{} bounds", found.len());
    for sample in found {
        let bound: f64 = sample.labels.get("le").replace("+Inf", "inf").parse().unwrap();
        assert_close(float(&sample.value), below(bound));
    }
    // One alternative of several, as an Apdex has them.
    let query = "sum by (le) (increase(rpc_seconds_bucket{route=\"/login\",le=~\"0.05|0.2\"}[5m]))";
    let bounds: Vec<f64> = ask(&recorded.store, query, 310).iter().map(|one| float(&one.value)).collect();
    assert_eq!(bounds, [below(0.05), below(0.2)]);
    let without = ask(&recorded.store, "count(rpc_seconds_bucket{route=\"/login\",host=\"a\",le!=\"+Inf\"})", 310);
    let with = ask(&recorded.store, "count(rpc_seconds_bucket{route=\"/login\",host=\"a\"})", 310);
    assert_eq!(float(&without[0].value) + 1.0, float(&with[0].value));
}

#[test]
fn sums_and_counts_make_the_mean() {
    let recorded = record(320);
    let query = "sum by (route) (rate(rpc_seconds_sum[5m])) / sum by (route) (rate(rpc_seconds_count[5m]))";
    for sample in ask(&recorded.store, query, 310) {
        let sorted = recorded.sorted(route_of(&sample.labels), 10, 310);
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        assert!((float(&sample.value) / mean - 1.0).abs() < 1e-9);
    }
}

/// A cumulative exponential histogram that restarts, with a staleness marker at the end.
fn cumulative() -> SeriesData {
    let mut one = series(&[("__name__", "rpc"), ("job", "a")], Kind::Histogram, Temporality::Cumulative);
    one.meta.width_ms = 0;
    let mut total = Histogram::new(Scheme::exp2(5).unwrap());
    for step in 1..=20_i64 {
        if step == 11 {
            total = Histogram::new(Scheme::exp2(5).unwrap());
        }
        for at in 0..10 {
            total.record(0.01 * f64::from(at + 1));
        }
        one.histograms.times.push(step * 15_000);
        one.histograms.values.push(HistogramValue::Integer(total.clone()));
    }
    let mut stale = Histogram::new(Scheme::exp2(5).unwrap());
    stale.sum = Some(f64::from_bits(0x7ff0_0000_0000_0002));
    one.histograms.times.push(315_000);
    one.histograms.values.push(HistogramValue::Integer(stale));
    one
}

#[test]
fn cumulative_histograms_give_counters_that_reset() {
    let store = Fixed(vec![cumulative()]);
    assert_eq!(float(&ask(&store, "rpc_count", 150)[0].value), 100.0);
    assert_eq!(float(&ask(&store, "rpc_count", 165)[0].value), 10.0);
    assert_eq!(float(&ask(&store, "resets(rpc_count[5m])", 300)[0].value), 1.0);
    assert!(float(&ask(&store, "increase(rpc_bucket{le=\"+Inf\"}[270s])", 300)[0].value) > 170.0);
    assert!(ask(&store, "rpc_sum", 316).is_empty(), "a series that ended has no value");
    let found = ask(&store, "rpc_bucket", 300);
    let at = |bound: &str| found.iter().find(|one| one.labels.get("le") == bound).map(|one| float(&one.value));
    assert_eq!((at("0.0625"), at("+Inf")), (Some(60.0), Some(100.0)));
    // The last finite bound encloses all samples.
    assert_eq!(at("0.10511205190671431"), Some(100.0), "{found:?}");
    // All bounds of four a doubling are edges of the finer scale: counts are whole.
    assert!(found.iter().all(|one| float(&one.value).fract() == 0.0), "{found:?}");
}

#[test]
fn custom_bounds_stay() {
    let mut one = series(&[("__name__", "rpc")], Kind::Histogram, Temporality::Cumulative);
    let mut cell = Histogram::new(Scheme::custom([0.1, 0.5, 2.5]).unwrap());
    [0.05, 0.3, 0.5, 7.0].iter().for_each(|value| cell.record(*value));
    one.histograms.times.push(1000);
    one.histograms.values.push(HistogramValue::Integer(cell));
    let found = ask(&Fixed(vec![one]), "rpc_bucket", 1);
    let all: Vec<_> = found.iter().map(|one| (one.labels.get("le"), float(&one.value))).collect();
    assert_eq!(all, [("+Inf", 4.0), ("0.1", 1.0), ("0.5", 3.0), ("2.5", 3.0)]);
}

#[test]
fn stored_series_stand_and_only_named_views_are_made() {
    let mut recorded = record(20);
    let before = ask(&recorded.store, "count({host=\"a\"})", 20);
    assert_eq!(float(&before[0].value), 2.0, "what names no view sees none");
    assert!(ask(&recorded.store, "{__name__=~\"rpc_.*_count\"}", 20).is_empty());
    assert_eq!(ask(&recorded.store, "{__name__=~\"rpc_seconds_count|other\",host=\"a\"}", 20).len(), 2);
    assert!(ask(&recorded.store, "rpc_bucket", 20).is_empty());
    assert!(ask(&recorded.store, "_count", 20).is_empty());
    let mut own = series(&[("__name__", "rpc_seconds_count"), ("host", "z")], Kind::Float, Temporality::Cumulative);
    own.floats.times.push(20_000);
    own.floats.values.push(7.0);
    recorded.store.0.push(own);
    let found = ask(&recorded.store, "rpc_seconds_count", 20);
    assert_eq!((found.len(), float(&found[0].value)), (1, 7.0));
    assert!(ask(&recorded.store, "rpc_seconds_count{host=\"a\"}", 20).is_empty(), "the name is taken");
    assert_eq!(ask(&recorded.store, "rpc_seconds_sum{host=\"a\"}", 20).len(), 2);
}

#[test]
fn listings_have_views() {
    let recorded = record(20);
    let store = &recorded.store;
    let named = |name: &str| matcher(METRIC_NAME, MatchOp::Equal, name);
    assert_eq!(listed(store, vec![named("rpc_seconds_count")]).len(), 6);
    let one =
        [named("rpc_seconds_bucket"), matcher("host", MatchOp::Equal, "a"), matcher("route", MatchOp::Equal, "/login")];
    let buckets = listed(store, one.to_vec());
    assert!(buckets.len() > 10 && buckets.iter().all(|labels| !labels.get("le").is_empty()), "{buckets:?}");
    let views = ClassicViews::new(store);
    let values = |label: &str, matchers: &[Matcher]| -> Vec<String> {
        views.label_values(label, matchers, TimeRange::ALL).unwrap().into_iter().collect()
    };
    assert_eq!(values("host", &[named("rpc_seconds_bucket")]), ["a", "b", "c"]);
    assert_eq!(values("le", &one).len(), buckets.len());
    let all = ["rpc_seconds_bucket", "rpc_seconds_count", "rpc_seconds_sum"];
    assert_eq!(values(METRIC_NAME, &[]), all);
    assert_eq!(values(METRIC_NAME, &[matcher(METRIC_NAME, MatchOp::Regex, "rpc.*_(count|sum)")]), all[1..]);
    assert_eq!(values(METRIC_NAME, &[named("rpc_seconds_sum")]), ["rpc_seconds_sum"]);
    assert!(values("host", &[named("rpc_seconds")]).is_empty(), "what is stored is not the views' to report");
    let names = |matchers: &[Matcher]| -> Vec<String> {
        views.label_names(matchers, TimeRange::ALL).unwrap().into_iter().collect()
    };
    assert_eq!(names(&[named("rpc_seconds_bucket")]), ["__name__", "host", "le", "route"]);
    assert_eq!(names(&[named("rpc_seconds_sum")]), ["__name__", "host", "route"]);
    assert_eq!(names(&[]), ["le"], "without a name there is the one label that views add");
    assert!(names(&[matcher(METRIC_NAME, MatchOp::Regex, "rpc.*_(count|sum)")]).is_empty());
}

#[test]
fn views_are_limited_like_samples() {
    let recorded = record(20);
    let select = |samples_max: usize| {
        let matchers = vec![matcher(METRIC_NAME, MatchOp::Equal, "rpc_seconds_count")];
        let range = TimeRange::from_ms(0, 20_000);
        ClassicViews::new(&recorded.store).select(&Selection { samples_max, ..Selection::new(matchers, range) })
    };
    assert_eq!(select(120).unwrap().len(), 6);
    assert_eq!(select(119), Err(SelectError::TooManySamples { limit: 119 }));
}
