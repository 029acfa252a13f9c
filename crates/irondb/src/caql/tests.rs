use super::*;
use crate::fetch::COUNT_MAX;
use crate::frame::{Column, Data, transform};
use crate::mutations::mutations;
use crate::rollup::Point;

const GRID: Grid = Grid { start_ms: 600_000, period_ms: 60_000, count: 3 };

/// Streams `a` and `b` with the number of each minute, `b` ten times it, and a histogram of the minute's number of
/// ones.
struct Minutes;

impl Source for Minutes {
    fn find(&self, wanted: &PipelineInput<'_>) -> Result<Vec<Output>, String> {
        let mut out = Vec::new();
        for (name, factor) in [("a", 1.0), ("b", 10.0)] {
            let identity = crate::identity::Identity::parse("8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e", name).unwrap();
            let query = crate::tag_query::parse(wanted.query).map_err(|wrong| wrong.to_string())?;
            let candidate = crate::tag_query::Candidate {
                identity: &identity,
                kinds: &["numeric"],
                check_tags: &[],
                activity: None,
            };
            if !query.finds(&candidate) || out.len() == wanted.limit {
                continue;
            }
            let column = if wanted.kind == "histogram" {
                let one = |minute: i64| {
                    let mut histogram = ogive_hist::Histogram::log_linear();
                    histogram.record_n(1.0, minute as u64);
                    (minute * 60_000, histogram)
                };
                transform(Data::Histograms(&(1..20).map(one).collect::<Vec<_>>()), wanted.grid, "none", &[])?
            } else {
                let points: Vec<_> =
                    (0..20).map(|minute| Point::new(minute * 60_000, minute as f64 * factor)).collect();
                transform(Data::Numbers(&points), wanted.grid, wanted.transform, &[])?
            };
            out.push(Output { label: name.into(), tags: vec![("name".into(), name.into())], column });
        }
        Ok(out)
    }
}

fn values(query: &str) -> Result<Vec<Vec<f64>>, String> {
    let number = |output: Output| match output.column {
        Column::Numbers(numbers) => numbers.into_iter().map(|number| number.unwrap_or(f64::NAN)).collect(),
        other => panic!("{other:?}"),
    };
    Ok(evaluate(&parse(query)?, GRID, &Minutes)?.into_iter().map(number).collect())
}

#[test]
fn pipelines_give_their_numbers() {
    for (query, expected) in [
        ("find('a')", vec![[10.0, 11.0, 12.0]]),
        ("find(\"*\", limit=1)", vec![[10.0, 11.0, 12.0]]),
        ("find('*') | stats:sum()", vec![[110.0, 121.0, 132.0]]),
        ("find('*') | aggregate:mean() | each:div(5.5)", vec![[10.0, 11.0, 12.0]]),
        ("find('*') | top(1)", vec![[100.0, 110.0, 120.0]]),
        ("find('*') | bottom(1)", vec![[10.0, 11.0, 12.0]]),
        ("find('a') | rolling:mean(3M)", vec![[9.0, 10.0, 11.0]]),
        ("find('a') | window:max(2M)", vec![[10.0, 11.0, 12.0]]),
        ("find('a') | window:first(2M)", vec![[10.0, 10.0, 12.0]]),
        ("find('a') | rolling:sum(5M) | rolling:min(2M)", vec![[35.0, 40.0, 45.0]]),
        ("find('b') | rate() | each:mul(60)", vec![[10.0, 10.0, 10.0]]),
        ("find('b') | diff()", vec![[10.0, 10.0, 10.0]]),
        ("find:counter('b') | each:mul(6)", vec![[1.0, 1.0, 1.0]]),
        ("find('a') | {each:add(1); each:neg()}", vec![[11.0, 12.0, 13.0], [-10.0, -11.0, -12.0]]),
        ("{find('b'); find('a')} | op:div()", vec![[10.0, 10.0, 10.0]]),
        ("#period=60\nfind('a') # numbers\n | each:sub(10) | each:pow(2)", vec![[0.0, 1.0, 4.0]]),
        ("find:histogram('a') | histogram:count()", vec![[10.0, 11.0, 12.0]]),
        ("find:histogram('a') | histogram:rolling(2M) | histogram:count()", vec![[19.0, 21.0, 23.0]]),
        ("find:histogram('*') | aggregate:merge() | histogram:count()", vec![[20.0, 22.0, 24.0]]),
        ("find:histogram('a') | histogram:inverse_percentile(1.05,5)", vec![[50.0, 50.0, 50.0], [100.0, 100.0, 100.0]]),
        ("find('a') | histogram:create() | window:merge(2M) | histogram:count()", vec![[1.0, 2.0, 1.0]]),
        ("metric('8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e','b') | group_by:max('name')", vec![[100.0, 110.0, 120.0]]),
        ("find('a') | forecasting:slope(10M)", vec![[20.0, 21.0, 22.0]]),
        ("find('b') | forecasting:regression(1h, 5M)", vec![[700.0, 710.0, 720.0]]),
        ("find('b') | forecasting:auto(2M)", vec![[120.0, 130.0, 140.0]]),
        // The line of minute 9 for the slots 9 to 11, of minute 12 for the last.
        ("find('a') | each:pow(2) | forecasting:slope(0, 2M, step=3)", vec![[98.0, 115.0, 144.0]]),
        ("find('a') | forecasting:ewma(1)", vec![[10.0, 11.0, 12.0]]),
        ("find('a') | forecasting:dewma(1, 1, forecast_duration=5M)", vec![[15.0, 16.0, 17.0]]),
        ("find('b') | forecasting:holt_winters(1, 1, 0, 1M, period=2M)", vec![[110.0, 120.0, 130.0]]),
        ("find('b') | forecasting:holt_winters(0.5, 0, 0, fill=2, period=2M)", vec![[100.0, 110.0, 120.0]]),
        ("find('nothing') | stats:mean()", vec![]),
    ] {
        let expected: Vec<Vec<f64>> = expected.into_iter().map(|row| row.to_vec()).collect();
        assert_eq!(values(query), Ok(expected), "{query}");
    }
    let tens = values("find:histogram('a') | histogram:percentile(50, 99)").unwrap();
    assert!(tens.len() == 2 && tens.iter().flatten().all(|value| (1.0..1.11).contains(value)), "{tens:?}");
}

/// What rolls is the same whatever the answer begins with.
#[test]
fn an_answer_does_not_depend_on_where_it_begins() {
    for query in [
        "find('a') | rolling:mean(5M)",
        "find('b') | window:sum(4M)",
        "find('b') | rate()",
        "find('b') | each:pow(2) | forecasting:slope(3M, 4M, step=3)",
        "find('b') | each:pow(2) | forecasting:regression(3M, 4M)",
        "find('b') | each:pow(0.5) | forecasting:regression(3M, 4M, model='exp')",
        "find('b') | each:pow(2) | forecasting:ewma(0.9)",
        "find('b') | each:pow(2) | forecasting:dewma(1, 0.9, forecast_duration=2M)",
        "find('b') | each:pow(2) | forecasting:holt_winters(0.5, 0.5, 0.5, 2M, period=1M)",
    ] {
        let pipeline = parse(query).unwrap();
        let column = |grid: Grid| evaluate(&pipeline, grid, &Minutes).unwrap().remove(0).column;
        let Column::Numbers(whole) = column(Grid { start_ms: 360_000, count: 8, ..GRID }) else { panic!("numbers") };
        assert_eq!(column(GRID), Column::Numbers(whole[4..7].to_vec()), "{query}");
    }
}

/// Functions of every kind; those that depend on the whole range are among them.
const QUERIES: [&str; 14] = [
    "find('*')",
    "find('*') | rolling:mean(5M) | rolling:stddev(3M)",
    "find('*') | window:sum(4M) | diff()",
    "{find('a') | fill(3); find('b')} | op:div()",
    "find('*') | integrate() | rolling:max(2M)",
    "find('*') | fill:forward() | stats:sum()",
    "find('*') | each:sqrt() | top(1)",
    "find('*') | rate() | bottom(1)",
    "find('*') | forecasting:regression(3M, 4M, step=2)",
    "find('*') | forecasting:holt_winters(0.5, 0.3, 0.1, 2M, period=3M)",
    "find('*') | forecasting:dewma(0.9, 0.7)",
    "find:histogram('*') | histogram:rolling(3M) | histogram:percentile(50, 99)",
    "find:histogram('*') | aggregate:merge() | window:merge(4M) | histogram:mean()",
    "find('*') | histogram:create() | histogram:count()",
];

/// Each slot that is evaluated alone, as a stream does, is the last slot of the answer that ends with it, to the last
/// bit.
#[test]
fn the_last_slots_alone_are_those_of_the_whole_answer() {
    for query in QUERIES {
        let pipeline = parse(query).unwrap();
        for count in 1..15 {
            let grid = Grid { start_ms: 180_000, count, ..GRID };
            let whole = evaluate(&pipeline, grid, &Minutes).unwrap();
            for last in 1..=count.min(3) {
                let alone = evaluate_last(&pipeline, grid, last, &Minutes).unwrap();
                let expected: Vec<Output> = whole.iter().map(|output| tail(output, last)).collect();
                assert_eq!(format!("{alone:?}"), format!("{expected:?}"), "{query} of {count}");
            }
        }
    }
}

fn tail(output: &Output, count: usize) -> Output {
    fn last<T: Clone>(all: &[T], count: usize) -> Vec<T> {
        all[all.len() - count..].to_vec()
    }
    let column = match &output.column {
        Column::Numbers(all) => Column::Numbers(last(all, count)),
        Column::Histograms(all) => Column::Histograms(last(all, count)),
        Column::Texts(all) => Column::Texts(last(all, count)),
    };
    Output { column, ..output.clone() }
}

/// A stream may go on for longer than a query may be: its range then begins later, or it says that it cannot.
#[test]
fn ranges_longer_than_an_answer_are_cut_or_refused() {
    let grid = Grid { count: COUNT_MAX + 7, ..GRID };
    let alone = |query: &str| evaluate_last(&parse(query).unwrap(), grid, 1, &Minutes);
    assert!(alone("find('a') | rolling:mean(5M)").is_ok());
    assert!(alone("find('a') | integrate()").unwrap_err().contains("start it again"));
    let query = parse("{find('a'); {search('and(x:y)')}} | op:div()").unwrap();
    assert_eq!(sources(&query).unwrap(), [("and(__name:a)".to_owned(), "numeric"), ("and(x:y)".to_owned(), "numeric")]);
}

#[test]
fn what_is_no_query_says_why() {
    for query in [
        "",
        "find(",
        "find('a'",
        "find('a) | x",
        "find('a') |",
        "find('a') find('b')",
        "find()",
        "find('a') | find('b')",
        "find('a') | what()",
        "find('a') | rolling:mean()",
        "find('a') | rolling:mean(90s)",
        "find('a') | rolling:mean(52w)",
        "find('a') | rolling:what(5M)",
        "find('a') | each:add()",
        "find('a') | each:add(NaN)",
        "find('a') | forecasting:slope()",
        "find('a') | forecasting:slope(1h, model='cubic')",
        "find('a') | forecasting:slope(1h, 52w)",
        "find('a') | forecasting:slope(1h, 5M, step=0)",
        "find('a') | forecasting:ewma(1.5)",
        "find('a') | forecasting:ewma()",
        "find('a') | forecasting:holt_winters(0.1, 0.1)",
        "find('a') | forecasting:holt_winters(0.1, 0.1, 0.1, period=52w)",
        "find('a') | forecasting:what(1)",
        "find('a') | histogram:percentile(101)",
        "find:histogram('a') | each:add(1)",
        "find:what('a')",
        "find('a', 'and(')",
        "{find('a'); find('b')",
    ] {
        assert!(values(query).is_err(), "{query:?}");
    }
    let nested = |levels: usize| format!("{}find('a'){}", "{".repeat(levels), "}".repeat(levels));
    assert!(values(&nested(DEPTH_MAX)).is_ok() && values(&nested(DEPTH_MAX + 1)).is_err());
    let long = |stages: usize| format!("find('a'){}", " | each:abs()".repeat(stages - 1));
    assert!(values(&long(STAGES_MAX)).is_ok() && values(&long(STAGES_MAX + 1)).is_err());
    assert!(values(&" ".repeat(BYTES_MAX + 1)).is_err());
}

#[test]
fn changed_queries_never_panic() {
    let good = br#"{find:histogram('a*', "and(x:y)", limit=5) | window:merge(5M) | histogram:percentile(50,99.9); find('b')} | op:div() # end"#;
    assert!(parse(std::str::from_utf8(good).unwrap()).is_ok());
    mutations(good, 5_000, 3, b"(){};|:,'\"#=-e9M\\", |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            let _ = values_of_any_kind(text);
        }
    });
}

fn values_of_any_kind(query: &str) -> Result<Vec<Output>, String> {
    evaluate(&parse(query)?, GRID, &Minutes)
}
