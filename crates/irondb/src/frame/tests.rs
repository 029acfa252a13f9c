use super::*;
use crate::rollup::Point;

const GRID: Grid = Grid { start_ms: 0, period_ms: 60_000, count: 2 };

fn output(label: &str, host: &str, numbers: [Option<f64>; 2]) -> Output {
    let tags = vec![("dc".to_owned(), "eu".to_owned()), ("host".to_owned(), host.to_owned())];
    Output { label: label.into(), tags, column: Column::Numbers(numbers.into()) }
}

fn inputs() -> Vec<Output> {
    vec![
        output("a", "1", [Some(1.0), Some(3.0)]),
        output("b", "2", [Some(5.0), None]),
        output("c", "2", [Some(6.0), None]),
    ]
}

/// Labels and numbers.
fn shown(outputs: &[Output]) -> Vec<(String, Vec<Option<f64>>)> {
    let numbers = |output: &Output| match &output.column {
        Column::Numbers(numbers) => numbers.clone(),
        other => panic!("{other:?} has no numbers"),
    };
    outputs.iter().map(|output| (output.label.clone(), numbers(output))).collect()
}

#[test]
fn each_reduction_gives_its_statistic() {
    let params = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    for (method, texts, expected) in [
        ("pass", &[][..], vec![("a", [Some(1.0), Some(3.0)]), ("b", [Some(5.0), None]), ("c", [Some(6.0), None])]),
        ("mean", &[], vec![("x", [Some(4.0), Some(3.0)])]),
        ("sum", &[], vec![("x", [Some(12.0), Some(3.0)])]),
        ("max", &[], vec![("x", [Some(6.0), Some(3.0)])]),
        ("topk", &["2"], vec![("c", [Some(6.0), None]), ("b", [Some(5.0), None])]),
        ("topk", &["1", "max"], vec![("c", [Some(6.0), None])]),
        ("groupby_sum", &["host"], vec![("x", [Some(1.0), Some(3.0)]), ("x", [Some(11.0), None])]),
    ] {
        let expected: Vec<_> =
            expected.into_iter().map(|(label, numbers)| (label.to_owned(), numbers.to_vec())).collect();
        assert_eq!(shown(&reduce(inputs(), GRID, method, &params(texts), "x").unwrap()), expected, "{method}");
    }
    let merged = reduce(inputs(), GRID, "merge", &[], "x").unwrap();
    let counts = reduce(merged, GRID, "each_count", &[], "x").unwrap();
    assert_eq!(shown(&counts), [("x".to_owned(), vec![Some(3.0), Some(1.0)])]);
    assert_eq!(counts[0].tags, [("dc".to_owned(), "eu".to_owned())]);
    for (method, texts) in
        [("what", &[][..]), ("topk", &[]), ("topk", &["x"]), ("topk", &["1", "y"]), ("each_mean", &[])]
    {
        assert!(reduce(inputs(), GRID, method, &params(texts), "x").is_err(), "{method}");
    }
}

#[test]
fn each_transform_gives_its_number() {
    let mut histogram = Histogram::log_linear();
    [1.0, 2.0, 2.0, 10.0].iter().for_each(|value| histogram.record(*value));
    let histograms = [(0, histogram.clone()), (30_000, histogram)];
    let number =
        |name: &str, param: &str| match transform(Data::Histograms(&histograms), GRID, name, &[param.to_owned()])
            .unwrap()
        {
            Column::Numbers(numbers) => numbers[0].unwrap(),
            other => panic!("{other:?}"),
        };
    assert_eq!((number("count", ""), number("count_below", "5"), number("count_above", "5")), (8.0, 6.0, 2.0));
    assert_eq!((number("rate", ""), number("inverse_percentile", "5")), (8.0 / 60.0, 75.0));
    assert!((number("percentile", "50") - 2.05).abs() < 0.06 && (number("quantile", "1") - 11.0).abs() < 1.01);
    assert!(transform(Data::Histograms(&histograms), GRID, "percentile", &["101".into()]).is_err());
    assert!(transform(Data::Histograms(&histograms), GRID, "quantile", &[]).is_err());

    let points = [Point::new(0, 1.0), Point::new(30_000, 3.0)];
    let column = |name: &str| transform(Data::Numbers(&points), GRID, name, &[]);
    assert_eq!(column("average"), Ok(Column::Numbers(vec![Some(2.0), None])));
    assert_eq!(column("sum"), Ok(Column::Numbers(vec![Some(4.0), None])));
    assert!(column("what").is_err());

    let texts = [(5, "a".to_owned()), (6, "b".to_owned()), (60_007, "b".to_owned())];
    let column = |name: &str| transform(Data::Texts(&texts), GRID, name, &[]);
    assert_eq!(column("transition"), Ok(Column::Numbers(vec![Some(1.0), Some(0.0)])));
    assert_eq!(column("none"), Ok(Column::Texts(vec![vec![(5, "a".into()), (6, "b".into())], vec![(7, "b".into())]])));
}
