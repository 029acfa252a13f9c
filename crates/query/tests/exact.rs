//! What is certain: bounds of quantiles, extremes and fractions against the raw samples, and the presence of cells.

#[allow(dead_code)]
mod common;

use common::{Fixed, assert_close, float, instant, record, route_of, series, vector};
use ogive_hist::{Histogram, Scheme};
use ogive_model::{HistogramValue, Kind, Ms, Temporality, WallMs};

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
        assert!(found.iter().all(|one| one.labels.len() == 1), "only the edge is reported");
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
    // A cell without extremes joins one route: that route has no answer, and it is reported why.
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
        let index = ogive_hist::DecimalBin::from_value(threshold).index().unwrap();
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

/// A metric that was a number to 50 s and is a histogram from 60 s on.
fn changed(floats: Temporality, histograms: Temporality) -> Fixed {
    let labels = [("__name__", "m_total"), ("job", "a")];
    let mut one = series(&labels, Kind::Float, floats);
    let mut two = series(&labels, Kind::Histogram, histograms);
    let mut histogram = Histogram::log_linear();
    for step in 1..=5_i64 {
        one.floats.times.push(step * 10_000);
        one.floats.values.push(step as f64);
        histogram.record(0.5);
        two.histograms.times.push(50_000 + step * 10_000);
        let value = if histograms == Temporality::Delta { one_cell() } else { histogram.clone() };
        two.histograms.values.push(HistogramValue::Integer(value));
    }
    for one in [&mut one, &mut two] {
        one.meta.width_ms = 10_000;
    }
    Fixed(vec![one, two])
}

fn one_cell() -> Histogram {
    let mut cell = Histogram::log_linear();
    cell.record(0.5);
    cell
}

/// A sender moved from classic counters to native histograms. Where the two kinds were declared with different
/// temporalities, range functions failed ("same labelset"), and the range itself was two series. They are one, whoever
/// asks.
#[test]
fn a_series_that_changed_its_kind_is_one() {
    use Temporality::{Cumulative, Delta, Gauge};
    for (floats, histograms) in
        [(Gauge, Cumulative), (Cumulative, Cumulative), (Cumulative, Delta), (Delta, Cumulative), (Delta, Delta)]
    {
        let store = changed(floats, histograms);
        let what = format!("{floats:?}, {histograms:?}");
        let one = |query: &str, seconds: i64| {
            let found = vector(instant(&store, query, seconds));
            assert_eq!(found.len(), 1, "{query} of {what}: {found:?}");
            found[0].value.clone()
        };
        let twice = "count_over_time(m_total[2m]) + count_over_time(m_total[2m])";
        assert_eq!(float(&one("count_over_time(m_total[2m])", 100)), 10.0, "{what}");
        assert_eq!(float(&one(twice, 100)), 20.0, "{what}");
        assert_eq!(float(&one("count_over_time(m_total[100s:10s])", 100)), 10.0, "{what}");
        assert_eq!(float(&one("changes(m_total[2m])", 50)), 4.0, "{what}");
        assert_eq!(float(&one("m_total", 50)), 5.0, "{what}");
        assert!(matches!(one("m_total", 60), ogive_query::value::Point::Histogram(_)), "{what}");
        for query in ["rate(m_total[2m])", "sum_over_time(m_total[2m])", "avg_over_time(m_total[2m])"] {
            let mixed = instant(&store, query, 100);
            assert_eq!(mixed.warnings.len(), 1, "{query} of {what}: {:?}", mixed.warnings);
            assert!(mixed.warnings[0].contains("mix of histograms and floats for metric name \"m_total\""), "{what}");
            assert!(vector(mixed).is_empty(), "{query} of {what}");
        }
        // Windows of one kind are answered as what it is.
        let increase = |seconds: i64| one("increase(m_total[40s])", seconds);
        let expected = if floats == Delta { 2.0 + 3.0 + 4.0 + 5.0 } else { 4.0 };
        assert_close(float(&increase(50)), expected);
        assert!(
            matches!(increase(100), ogive_query::value::Point::Histogram(found) if (found.count - 4.0).abs() < 1e-9),
            "{what}"
        );
        let info = instant(&store, "max_over_time(m_total[2m])", 100);
        assert!(
            info.infos.iter().any(|info| info.contains("ignored histograms in a range")),
            "{what}: {:?}",
            info.infos
        );
        match instant(&store, "m_total[2m]", 100).value {
            ogive_query::Value::Matrix(found) => {
                assert_eq!((found.len(), found[0].floats.len(), found[0].histograms.len()), (1, 5, 5), "{what}");
            }
            other => panic!("{other:?}"),
        }
        let range = common::engine()
            .range(&store, "last_over_time(m_total[20s])", WallMs(10_000), WallMs(100_000), Ms(10_000))
            .unwrap();
        let ogive_query::Value::Matrix(found) = range.value else { panic!("no matrix") };
        assert_eq!((found.len(), found[0].floats.len(), found[0].histograms.len()), (1, 5, 5), "{what}");
    }
}

/// Interpolating from exponential to custom buckets was taken for a counter's reset.
#[test]
fn smoothed_histograms_that_do_not_mix_have_no_value_and_a_warning() {
    let mut one = series(&[("__name__", "m")], Kind::Histogram, Temporality::Cumulative);
    for (at, scheme) in
        [Scheme::exp2(0).unwrap(), Scheme::Custom { bounds: vec![1.0, 2.0].into() }].into_iter().enumerate()
    {
        let mut histogram = Histogram::new(scheme);
        histogram.record(0.5);
        one.histograms.times.push((at as i64 + 1) * 60_000);
        one.histograms.values.push(HistogramValue::Integer(histogram));
    }
    let found = instant(&Fixed(vec![one]), "m smoothed", 90);
    let warning = "PromQL warning: vector contains a mix of histograms with exponential and custom buckets schemas for metric name \"m\" (1:1)";
    assert_eq!(found.warnings, [warning]);
    assert!(vector(found).is_empty());
}

/// `a or b or ..` of 129 operands was refused. Runs as long as the text allows are answered, on the stack of any
/// thread.
#[test]
fn long_runs_of_operators_have_an_answer() {
    let mut one = series(&[("__name__", "m")], Kind::Float, Temporality::Gauge);
    one.floats.times.push(10_000);
    one.floats.values.push(1.0);
    let store = Fixed(vec![one]);
    for length in [129, ogive_query::OPERATORS_MAX] {
        let sum = format!("m{}", " + m".repeat(length));
        assert_eq!(float(&vector(instant(&store, &sum, 10))[0].value), length as f64 + 1.0);
        let or = format!("n{} or m", " or n".repeat(length - 1));
        assert_eq!(vector(instant(&store, &or, 10)).len(), 1);
        let numbers = format!("1{}", " + 1".repeat(length));
        let ogive_query::Value::Scalar { value, .. } = instant(&store, &numbers, 10).value else { panic!("no scalar") };
        assert_eq!(value, length as f64 + 1.0);
        // What begins a run and does not depend on the instant is evaluated once.
        let fixed = format!("m @ 10{} + m", " + m @ 10".repeat(length - 1));
        let range = common::engine().range(&store, &fixed, WallMs(10_000), WallMs(30_000), Ms(10_000)).unwrap();
        let ogive_query::Value::Matrix(found) = range.value else { panic!("no matrix") };
        assert_eq!(found[0].floats, [10_000, 20_000, 30_000].map(|time| (time, length as f64 + 1.0)));
    }
}

#[test]
fn bounds_of_fractions_hold_the_raw_share_and_the_estimate() {
    let recorded = record(320);
    for (lower, upper) in
        [(0.0, 0.0137), (0.0137, f64::INFINITY), (0.001, 0.1234), (0.0101, 0.0102), (-1.0, 1e9), (0.5, 0.1)]
    {
        let text = |value: f64| if value.is_infinite() { "+Inf".to_owned() } else { value.to_string() };
        let arguments = format!("{}, {}, {MERGED}", text(lower), text(upper));
        let found = vector(instant(&recorded.store, &format!("histogram_fraction_bounds({arguments})"), 310));
        let estimates = vector(instant(&recorded.store, &format!("histogram_fraction({arguments})"), 310));
        assert_eq!((found.len(), estimates.len()), (4, 2));
        for estimate in &estimates {
            let route = route_of(&estimate.labels);
            let edge = |bound: &str| {
                let one = |labels: &ogive_model::Labels| labels.get("route") == route && labels.get("bound") == bound;
                float(&found.iter().find(|sample| one(&sample.labels)).unwrap().value)
            };
            let sorted = recorded.sorted(route, 10, 310);
            let inside = sorted.iter().filter(|value| lower < **value && **value <= upper).count();
            let share = inside as f64 / sorted.len() as f64;
            let (least, most, estimate) = (edge("lower"), edge("upper"), float(&estimate.value));
            let holds = |value: f64| least - 1e-12 <= value && value <= most + 1e-12;
            assert!(
                holds(share) && holds(estimate),
                "{lower}..{upper}: {share} or {estimate} is not in {least}..={most}"
            );
            assert!(most - least < 0.1, "{lower}..{upper}: {least}..={most}");
        }
    }
    // At edges of bins, and beyond the extremes, there is nothing to doubt.
    let found = vector(instant(&recorded.store, &format!("histogram_fraction_bounds(0.001, 0.01, {MERGED})"), 310));
    assert_eq!(float(&found[0].value), float(&found[2].value));
    let counts = [("0.1", 5.0), ("0.5", 5.0), ("1", 9.0), ("+Inf", 10.0)];
    let bucket = |(le, count): (&str, f64)| {
        let mut one = series(&[("__name__", "h_bucket"), ("le", le)], Kind::Float, Temporality::Cumulative);
        one.floats.times.push(10_000);
        one.floats.values.push(count);
        one
    };
    let store = Fixed(counts.map(bucket).to_vec());
    let check = |arguments: &str, expected: [f64; 2]| {
        let found = vector(instant(&store, &format!("histogram_fraction_bounds({arguments}, h_bucket)"), 10));
        assert_eq!([float(&found[0].value), float(&found[1].value)], expected, "{arguments}");
    };
    check("0.1, 1", [0.4, 0.4]);
    check("0.1, 0.7", [0.0, 0.4]);
    check("0.7, 2", [0.0, 0.5]);
    check("0.2, 0.7", [0.0, 0.4]);
    check("-Inf, 0.05", [0.0, 0.5]);
    check("-Inf, +Inf", [1.0, 1.0]);
    check("1, 0.1", [0.0, 0.0]);
}

/// A gauge that is written each 10 s and fades: the known spacing is what is expected, also when most neighbours are
/// missing.
#[test]
fn presence_falls_as_a_fade_goes_on() {
    let of_each = |keep: usize, width_ms: u32| {
        let mut one = series(&[("__name__", "up")], Kind::Float, Temporality::Gauge);
        one.meta.width_ms = width_ms;
        for step in (1..=60_i64).step_by(keep) {
            one.floats.times.push(step * 10_000);
            one.floats.values.push(1.0);
        }
        float(&vector(instant(&Fixed(vec![one]), "presence(up[10m])", 600))[0].value)
    };
    let shares: Vec<f64> = [1, 2, 3, 6, 30].into_iter().map(|keep| of_each(keep, 10_000)).collect();
    assert_eq!(shares, [1.0, 0.5, 20.0 / 60.0, 10.0 / 60.0, 2.0 / 60.0]);
    // Nobody knows it: it is guessed, and a regular fade passes for the rule.
    assert_eq!(of_each(3, 0), 1.0);
}

/// Which pair is reported depends on time first: the reference goes instant by instant.
#[test]
fn of_many_clashes_the_earliest_is_reported() {
    let one = |labels: &[(&str, &str)], times: &[i64]| {
        let mut one = series(labels, Kind::Float, Temporality::Gauge);
        one.floats.times.extend_from_slice(times);
        one.floats.values.extend(times.iter().map(|_| 1.0));
        one
    };
    // At 400 s those of job b clash, from 800 s on those of job a too.
    let store = Fixed(vec![
        one(&[("__name__", "left"), ("job", "a")], &[400_000, 800_000]),
        one(&[("__name__", "right"), ("job", "a"), ("n", "1")], &[800_000]),
        one(&[("__name__", "right"), ("job", "a"), ("n", "2")], &[800_000]),
        one(&[("__name__", "right"), ("job", "b"), ("n", "1")], &[400_000, 800_000]),
        one(&[("__name__", "right"), ("job", "b"), ("n", "2")], &[400_000, 800_000]),
    ]);
    let error = common::engine()
        .range(&store, "left + on (job) right", WallMs(400_000), WallMs(800_000), Ms(400_000))
        .unwrap_err();
    let message = "found duplicate series for the match group {job=\"b\"} on the right hand-side of the operation: \
                   [{__name__=\"right\", job=\"b\", n=\"2\"}, {__name__=\"right\", job=\"b\", n=\"1\"}];many-to-many matching not \
                   allowed: matching labels must be unique on one side";
    assert_eq!(error.to_string(), message);
}
