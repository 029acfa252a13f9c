//! What is certain: bounds of quantiles, extremes and fractions against the raw samples, and the presence of cells.

#[allow(dead_code)]
mod common;

use common::{Fixed, assert_close, float, instant, record, route_of, series, vector};
use ogive_hist::{Histogram, Scheme};
use ogive_model::{HistogramValue, Kind, Temporality};

const MERGED: &str = "sum by (route) (increase(rpc_seconds[5m]))";

#[test]
fn bounds_hold_the_raw_sample_of_the_rank_and_the_estimate() {
    let recorded = record(320);
    for q in [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
        let found = vector(instant(&recorded.store, &format!("histogram_quantile_bounds({q}, {MERGED})"), 310));
        let estimates = vector(instant(&recorded.store, &format!("histogram_quantile({q}, {MERGED})"), 310));
        assert_eq!(found.len(), 4, "two edges a route");
        for route in ["/login", "/search"] {
            let edge = |bound: &str| {
                let one = |labels: &ogive_model::Labels| labels.get("route") == route && labels.get("bound") == bound;
                float(&found.iter().find(|sample| one(&sample.labels)).unwrap().value)
            };
            let (lower, upper) = (edge("lower"), edge("upper"));
            let sorted = recorded.sorted(route, 10, 310);
            let truth = sorted[((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1];
            assert!((lower..=upper).contains(&truth), "q {q} of {route}: {truth} is not in {lower}..={upper}");
            assert!(upper <= lower * 1.1, "q {q} of {route}: {lower}..={upper} is wider than a bin");
            let estimate = float(&estimates.iter().find(|one| one.labels.get("route") == route).unwrap().value);
            assert!((lower..=upper).contains(&estimate), "q {q} of {route}: {estimate} is not in {lower}..={upper}");
        }
    }
}

#[test]
fn classic_bounds_are_the_neighbouring_le() {
    let counts = [("0.1", 5.0), ("0.5", 5.0), ("1", 9.0), ("+Inf", 10.0)];
    let store = Fixed(
        counts
            .iter()
            .map(|(le, count)| {
                let labels = [("__name__", "h_bucket"), ("le", *le)];
                let mut one = series(&labels, Kind::Float, Temporality::Cumulative);
                one.floats.times.push(10_000);
                one.floats.values.push(*count);
                one
            })
            .collect(),
    );
    let check = |q: &str, lower: f64, upper: f64| {
        let found = vector(instant(&store, &format!("histogram_quantile_bounds({q}, h_bucket)"), 10));
        let edges: Vec<_> = found.iter().map(|one| (one.labels.get("bound"), float(&one.value))).collect();
        assert_eq!(edges, [("lower", lower), ("upper", upper)], "q {q}");
        assert!(found.iter().all(|one| one.labels.len() == 1), "only the edge is told");
    };
    check("0.2", f64::NEG_INFINITY, 0.1);
    check("0", f64::NEG_INFINITY, 0.1);
    // The rank falls between the fifth and the sixth sample.
    check("0.5", f64::NEG_INFINITY, 1.0);
    check("0.6", 0.5, 1.0);
    check("0.95", 1.0, f64::INFINITY);
    check("1", 1.0, f64::INFINITY);
    check("2", f64::INFINITY, f64::INFINITY);
    let warned = instant(&store, "histogram_quantile_bounds(2, h_bucket)", 10);
    assert!(warned.warnings[0].contains("between 0 and 1, got 2"), "{:?}", warned.warnings);
}

#[test]
fn extremes_are_exact_or_not_there() {
    let mut recorded = record(320);
    let ask = |store: &Fixed, name: &str| instant(store, &format!("{name}({MERGED})"), 310);
    for sample in vector(ask(&recorded.store, "histogram_min")) {
        assert_eq!(float(&sample.value), recorded.sorted(route_of(&sample.labels), 10, 310)[0]);
    }
    for sample in vector(ask(&recorded.store, "histogram_max")) {
        assert_eq!(float(&sample.value), *recorded.sorted(route_of(&sample.labels), 10, 310).last().unwrap());
    }
    // A cell without extremes joins one route: that route has no answer, and it is told why.
    let mut other =
        series(&[("__name__", "rpc_seconds"), ("route", "/login"), ("host", "x")], Kind::Histogram, Temporality::Delta);
    let mut cell = Histogram::log_linear();
    cell.record_n(1.5, 2);
    (cell.min, cell.max) = (None, None);
    other.histograms.times.push(300_000);
    other.histograms.values.push(HistogramValue::Integer(cell));
    recorded.store.0.push(other);
    let result = ask(&recorded.store, "histogram_max");
    assert!(result.infos[0].contains("histogram_max passed over histograms that do not keep it"), "{:?}", result.infos);
    let found = vector(result);
    assert_eq!(found.iter().map(|one| one.labels.get("route")).collect::<Vec<_>>(), ["/search"]);
}

#[test]
fn fractions_are_right_at_any_threshold() {
    let recorded = record(320);
    let sorted = recorded.sorted("/login", 10, 310);
    let ask = |threshold: f64| {
        let query =
            format!("histogram_fraction(-Inf, {threshold:?}, sum(increase(rpc_seconds{{route=\"/login\"}}[5m])))");
        float(&vector(instant(&recorded.store, &query, 310))[0].value)
    };
    // Exact at the edges of bins, at and beyond the extremes; within the bin's share elsewhere.
    for threshold in [0.001, 0.012, 0.1, 0.5, 1.3] {
        let truth = sorted.iter().filter(|value| **value < threshold).count() as f64 / sorted.len() as f64;
        assert_close(ask(threshold), truth);
    }
    assert_eq!(ask(*sorted.last().unwrap()), 1.0);
    assert_eq!(ask(sorted[0] * 0.999), 0.0);
    for threshold in [0.001_234, 0.0456, 0.777] {
        let index = ogive_hist::DecimalBin::of(threshold).index().unwrap();
        let (low, high) = Scheme::LogLinear10.bounds(true, index);
        let share = |edge: f64| sorted.iter().filter(|value| **value < edge).count() as f64 / sorted.len() as f64;
        assert!((share(low)..=share(high)).contains(&ask(threshold)), "{threshold}");
    }
}

#[test]
fn presence_is_the_share_of_cells_that_came() {
    let mut cells = series(&[("__name__", "beat"), ("from", "cells")], Kind::Float, Temporality::Delta);
    let mut scraped = series(&[("__name__", "beat"), ("from", "scrape")], Kind::Float, Temporality::Gauge);
    scraped.meta.width_ms = 0;
    for second in 1..=600_i64 {
        // Whole for five minutes, then every second cell, then none.
        if second <= 300 || (second <= 540 && second % 2 == 0) {
            cells.floats.times.push(second * 1000);
            cells.floats.values.push(1.0);
        }
        // Every 15 s with some milliseconds of jitter; two of three are lost in the second half.
        if second % 15 == 0 && (second <= 300 || second % 45 == 0 || second % 120 == 0) {
            scraped.floats.times.push(second * 1000 + second % 7);
            scraped.floats.values.push(1.0);
        }
    }
    let store = Fixed(vec![cells, scraped]);
    let ask = |from: &str, range: &str, at: i64| {
        let found = vector(instant(&store, &format!("presence(beat{{from=\"{from}\"}}[{range}])"), at));
        assert!(found.iter().all(|one| one.labels.metric_name().is_empty()));
        found.first().map(|one| float(&one.value))
    };
    assert_eq!(ask("cells", "1m", 300), Some(1.0));
    assert_eq!(ask("cells", "1m", 330), Some(0.75));
    assert_eq!(ask("cells", "1m", 400), Some(0.5));
    assert_eq!(ask("cells", "1m", 570), Some(0.25));
    // What stopped has no samples, so it has no answer.
    assert_eq!(ask("cells", "1m", 600), None);
    // One cell is a whole answer to a window of its width, or a narrower one.
    assert_eq!(ask("cells", "1s", 300), Some(1.0));
    assert_eq!(ask("cells", "500ms", 300), Some(1.0));
    let whole = ask("scrape", "5m", 301).unwrap();
    assert!(whole > 0.99, "{whole}");
    let faded = ask("scrape", "5m", 601).unwrap();
    assert!((0.3..0.5).contains(&faded), "{faded}");
    // A lone sample says nothing about how many there should be.
    assert_eq!(ask("scrape", "10s", 301), None);
}

#[test]
fn presence_counts_histogram_cells() {
    let recorded = record(60);
    let found = vector(instant(&recorded.store, "presence(rpc_seconds[80s])", 60));
    assert_eq!(found.len(), 6);
    assert!(found.iter().all(|one| float(&one.value) == 0.75), "{found:?}");
}
