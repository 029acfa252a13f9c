//! Cells: what PromQL says of delta series must be the exact merge of the cells, checked against the raw samples.

mod common;

use common::{Fixed, Latencies, assert_close, engine, float, instant, record, route_of, series, vector};
use ogive_hist::{Histogram, Scheme};
use ogive_model::{HistogramValue, Kind, Ms, Temporality, WallMs};
use ogive_query::value::Point;
use ogive_query::{Engine, EngineOptions, Error, Value};

#[test]
fn increase_is_the_merge_of_the_cells_in_the_window() {
    let recorded = record(400);
    for at in [3, 299, 300, 301, 400] {
        let found = vector(instant(&recorded.store, "sum by (route) (increase(rpc_seconds[5m]))", at));
        assert_eq!(found.len(), 2);
        for sample in found {
            let Point::Histogram(histogram) = &sample.value else { panic!("{:?}", sample.value) };
            let merged = recorded.merged(route_of(&sample.labels), at - 300, at).to_float();
            assert_eq!(histogram.positive, merged.positive);
            assert_eq!((histogram.count, histogram.min, histogram.max), (merged.count, merged.min, merged.max));
            assert_close(histogram.sum.unwrap(), merged.sum.unwrap());
        }
    }
}

#[test]
fn a_quantile_lies_in_the_bin_of_the_raw_sample_of_its_rank() {
    let recorded = record(320);
    for q in [0.01, 0.5, 0.9, 0.99, 0.999] {
        let query = format!("histogram_quantile({q}, sum by (route) (increase(rpc_seconds[5m])))");
        for sample in vector(instant(&recorded.store, &query, 310)) {
            let sorted = recorded.sorted(route_of(&sample.labels), 10, 310);
            let rank = ((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
            let truth = sorted[rank - 1];
            let found = float(&sample.value);
            let Some(index) = ogive_hist::DecimalBin::from_value(truth).index() else { panic!("{truth} has no bin") };
            let (low, high) = Scheme::LogLinear10.bounds(true, index);
            assert!((low..=high).contains(&found), "q {q}: {found} is not in {low}..{high} of {truth}");
        }
    }
}

#[test]
fn every_step_of_a_range_query_is_the_merge_of_its_own_window() {
    let recorded = record(200);
    let query = "sum by (route) (increase(rpc_seconds[20s]))";
    let result = engine().range(&recorded.store, query, WallMs(5000), WallMs(200_000), Ms(5000)).unwrap();
    let Value::Matrix(rows) = result.value else { panic!("not a matrix") };
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row.histograms.len(), 40);
        for (time, histogram) in &row.histograms {
            let merged = recorded.merged(route_of(&row.labels), time / 1000 - 20, time / 1000).to_float();
            assert_eq!(histogram.positive, merged.positive, "at {time}");
            assert_eq!((histogram.count, histogram.min, histogram.max), (merged.count, merged.min, merged.max));
        }
    }
}

#[test]
fn a_rate_is_the_increase_by_the_seconds_of_the_window() {
    let recorded = record(100);
    let rates = vector(instant(&recorded.store, "histogram_count(sum(rate(rpc_seconds[50s])))", 90));
    let count = recorded.merged("/login", 40, 90).count + recorded.merged("/search", 40, 90).count;
    assert_close(float(&rates[0].value), count as f64 / 50.0);
    let sums = vector(instant(&recorded.store, "histogram_count(sum(sum_over_time(rpc_seconds[50s])))", 90));
    assert_close(float(&sums[0].value), count as f64);
}

#[test]
fn float_cells_add_up_without_extrapolation() {
    let mut one = series(&[("__name__", "bytes")], Kind::Float, Temporality::Delta);
    for second in 1..=20_i64 {
        one.floats.times.push(second * 1000);
        one.floats.values.push(second as f64);
    }
    let store = Fixed(vec![one]);
    let check = |query: &str, at: i64, expected: f64| {
        let found = vector(instant(&store, query, at));
        assert_eq!(float(&found[0].value), expected, "{query} at {at}");
    };
    // (5, 10]: the cell that ends at 5 covers what happened before 5.
    check("increase(bytes[5s])", 10, 40.0);
    check("rate(bytes[5s])", 10, 8.0);
    // The window reaches beyond the first and the last cell.
    check("increase(bytes[1m])", 40, 210.0);
    check("sum_over_time(bytes[5s])", 10, 40.0);
    check("irate(bytes[5s])", 10, 10.0);
    check("count_over_time(bytes[5s])", 10, 5.0);
    // The newest cell within the lookback.
    check("bytes", 60, 20.0);
    assert!(vector(instant(&store, "bytes", 321)).is_empty());
}

#[test]
fn other_functions_see_cells_as_histograms() {
    let recorded = record(10);
    let found = vector(instant(&recorded.store, r#"count_over_time(rpc_seconds{route="/login",host="a"}[4s])"#, 10));
    assert_eq!(float(&found[0].value), 4.0);
    let found = vector(instant(&recorded.store, r#"last_over_time(rpc_seconds{route="/login",host="a"}[4s])"#, 10));
    let newest = vector(instant(&recorded.store, r#"rpc_seconds{route="/login",host="a"}"#, 10));
    assert_eq!(found[0].value, newest[0].value);
    let query = r#"histogram_count(avg_over_time(rpc_seconds{route="/login",host="a"}[4s]))"#;
    let count: u64 = (7..=10).map(|second| (second + 1) % 7).sum();
    assert_close(float(&vector(instant(&recorded.store, query, 10))[0].value), count as f64 / 4.0);
}

#[test]
fn schemes_do_not_mix_and_it_is_reported() {
    let mut recorded = record(10);
    let labels = [("__name__", "rpc_seconds"), ("route", "/login"), ("host", "x")];
    let mut other = series(&labels, Kind::Histogram, Temporality::Delta);
    let mut cell = Histogram::new(Scheme::exp2(3).unwrap());
    cell.record_n(1.5, 2);
    other.histograms.times.push(10_000);
    other.histograms.values.push(HistogramValue::Integer(cell));
    recorded.store.0.push(other);
    let result = instant(&recorded.store, "sum by (route) (increase(rpc_seconds[5s]))", 10);
    assert_eq!(result.warnings.len(), 1, "{:?}", result.warnings);
    assert!(result.warnings[0].contains("log-linear and other bins"), "{:?}", result.warnings);
    let found = vector(result);
    assert_eq!(found.len(), 1, "only the route without a mix has an answer");
    assert_eq!(found[0].labels.get("route"), "/search");
}

#[test]
fn limits_and_cancellation_end_a_query() {
    let recorded = record(30);
    let limited =
        |options: EngineOptions| Engine::new(options).instant(&recorded.store, "rpc_seconds[20s]", WallMs(20_000));
    assert!(limited(EngineOptions::default()).is_ok());
    let few = limited(EngineOptions { samples_max: 100, ..EngineOptions::default() });
    assert!(matches!(few, Err(Error::TooManySamples { limit: 100 })), "{few:?}");
    let few = limited(EngineOptions { series_max: 5, ..EngineOptions::default() });
    assert!(matches!(few, Err(Error::TooManySeries { found: 6, limit: 5 })), "{few:?}");
    assert!(limited(EngineOptions { series_max: 6, ..EngineOptions::default() }).is_ok());
    let cancelled = engine().instant_until(&recorded.store, "sum(rpc_seconds)", WallMs(20_000), &|| true);
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
}

#[test]
fn what_was_read_is_counted_once_for_equal_selectors() {
    let recorded = record(30);
    let result = instant(&recorded.store, "sum(rate(rpc_seconds[10s])) / sum(rate(rpc_seconds[10s]))", 20);
    assert_eq!((result.stats.series_read, result.stats.samples_read), (6, 60));
}

/// Cells of one second: a latency of one or two modes, twice as slow in version 2.
fn two_versions() -> Fixed {
    let mut random = Latencies(3);
    let mut out = Vec::new();
    for (version, factor) in [("1", 1.0), ("2", 2.0)] {
        let mut one = series(&[("__name__", "rpc_seconds"), ("version", version)], Kind::Histogram, Temporality::Delta);
        for second in 1..=60 {
            let mut cell = Histogram::log_linear();
            for at in 0..200 {
                // Near 1 ms, and a fifth of version 2 near 40 ms on top.
                let spread: f64 = (0..4).map(|_| random.next().ln()).sum::<f64>() / 40.0;
                let slow = if version == "2" && at % 5 == 0 { 40.0 } else { 1.0 };
                cell.record(0.001 * factor * slow * spread.exp());
            }
            one.histograms.times.push(second * 1000);
            one.histograms.values.push(HistogramValue::Integer(cell));
        }
        out.push(one);
    }
    Fixed(out)
}

#[test]
fn modes_are_counted_of_what_increased() {
    let store = two_versions();
    let found = vector(instant(&store, "histogram_modes(increase(rpc_seconds[1m]))", 60));
    let modes: Vec<_> = found.iter().map(|sample| (sample.labels.get("version"), float(&sample.value))).collect();
    assert_eq!(modes, [("1", 1.0), ("2", 2.0)]);
    assert!(found.iter().all(|sample| sample.labels.metric_name().is_empty()));
    // A cell of 200 samples is too little, and the answer says so.
    let result = instant(&store, "histogram_modes(increase(rpc_seconds[1s]))", 60);
    assert!(result.infos.iter().any(|info| info.contains("fewer than 1000 samples")), "{:?}", result.infos);
    assert!(vector(result).is_empty());
    // Numbers are no histograms.
    assert!(vector(instant(&store, "histogram_modes(vector(1))", 60)).is_empty());
}

#[test]
fn distance_is_that_of_the_merged_histograms() {
    let store = two_versions();
    let side = |version: &str, range: &str| format!("sum(increase(rpc_seconds{{version=\"{version}\"}}[{range}]))");
    let ask = |left: &str, right: &str, figure: &str| {
        vector(instant(&store, &format!("histogram_distance({left}, {right}{figure})"), 60))
    };
    let merged = |version: usize| {
        let mut out = Histogram::log_linear();
        for cell in &store.0[version].histograms.values {
            let HistogramValue::Integer(cell) = cell else { panic!("cells are of integers") };
            out.merge(cell).unwrap();
        }
        out
    };
    let expected = merged(0).distance(&merged(1)).unwrap();
    let log = expected.log.unwrap();
    for (figure, value) in [
        ("", log.emd),
        (", \"distance\"", log.emd),
        (", \"slower\"", log.slower()),
        (", \"noise\"", log.noise),
        (", \"ks\"", expected.ks),
        (", \"ks_noise\"", expected.ks_noise),
    ] {
        let found = ask(&side("1", "1m"), &side("2", "1m"), figure);
        assert_eq!((found.len(), found[0].labels.len()), (1, 0), "{figure}");
        assert_close(float(&found[0].value), value);
    }
    assert!(log.slower() > 2.0 && log.emd > 20.0 * log.noise, "{log:?}");
    let back = ask(&side("2", "1m"), &side("1", "1m"), ", \"slower\"");
    assert!(float(&back[0].value) < -0.5);
    // Equal labels meet, others do not.
    let found = ask("increase(rpc_seconds[30s])", "increase(rpc_seconds[30s] offset 30s)", "");
    assert_eq!(found.iter().map(|sample| sample.labels.get("version")).collect::<Vec<_>>(), ["1", "2"]);
    assert!(ask("increase(rpc_seconds{version=\"1\"}[1m])", "increase(rpc_seconds{version=\"2\"}[1m])", "").is_empty());
    assert!(ask(&side("1", "1m"), "vector(1)", "").is_empty());
    let error =
        engine().instant(&store, "histogram_distance(rpc_seconds, rpc_seconds, \"far\")", WallMs(60_000)).unwrap_err();
    assert!(error.to_string().contains("one of distance, slower, noise, ks, ks_noise"), "{error}");
}
