use std::sync::atomic::AtomicU64;

use ogive_model::WallNs;
use ogive_probe::{Threshold, trace_path};

use super::*;

const SECOND_NS: i64 = 1_000_000_000;

fn turn(second: i64) -> CellEnd {
    CellEnd { time: WallNs(second * SECOND_NS), is_last: false }
}

fn cells() -> Cells {
    Cells::new(Clock::manual(1, 0), &[("service", "orders")], 1_000)
}

/// `series at second = what`, sorted.
fn reported(values: &[Measured]) -> Vec<String> {
    let what = |value: &Value| match value {
        Value::Histogram(cell) => format!("{} records", cell.count),
        Value::Float(float) => float.to_string(),
        other => format!("{other:?}"),
    };
    let mut reported: Vec<String> = values
        .iter()
        .map(|value| format!("{} at {} = {}", value.series.labels, value.time.0 / SECOND_NS, what(&value.value)))
        .collect();
    reported.sort();
    reported
}

#[test]
fn each_turn_takes_what_was_measured_since_the_last() {
    let cells = cells();
    let recorder = Recorder::new();
    cells.recorder("rpc_seconds", &[("route", "/")], &recorder).unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    cells.counter("orders_total", &[], move || counted.load(Ordering::Relaxed)).unwrap();
    cells.gauge("depth", &[], || 2.5).unwrap();
    let depth = |second| format!("depth{{service=\"orders\"}} at {second} = 2.5");
    assert_eq!(reported(&cells.take(turn(1))), [depth(1), "orders_total{service=\"orders\"} at 1 = 0".into()]);
    recorder.record_ns(1_000);
    recorder.record_ns(2_000);
    count.store(7, Ordering::Relaxed);
    let values = cells.take(turn(2));
    let expected = [
        depth(2),
        "orders_total{service=\"orders\"} at 2 = 7".into(),
        "rpc_seconds{route=\"/\", service=\"orders\"} at 2 = 2 records".into(),
    ];
    assert_eq!(reported(&values), expected);
    let Value::Histogram(cell) = &values[0].value else { panic!("recorders come first") };
    assert_eq!((cell.sum, cell.min, cell.max), (Some(3e-6), Some(1e-6), Some(2e-6)));
    // The counter began anew at 3.
    count.store(3, Ordering::Relaxed);
    assert_eq!(reported(&cells.take(turn(3))), [depth(3), "orders_total{service=\"orders\"} at 3 = 3".into()]);
    assert_eq!(reported(&cells.take(turn(4))), [depth(4)]);
}

#[test]
fn a_forgotten_series_gives_its_last_cell() {
    let cells = cells();
    let recorder = Recorder::new();
    cells.recorder("rpc_seconds", &[], &recorder).unwrap();
    recorder.record_ns(1);
    cells.forget("rpc_seconds", &[]);
    assert_eq!(cells.take(turn(1)).len(), 1);
    recorder.record_ns(1);
    assert!(cells.take(turn(2)).is_empty());
}

#[test]
fn a_function_that_panics_is_not_asked_again() {
    let cells = cells();
    cells.gauge("bad", &[], || panic!("as the test wants")).unwrap();
    cells.gauge("good", &[], || 1.0).unwrap();
    assert_eq!((cells.take(turn(1)).len(), cells.panics()), (1, 1));
    assert_eq!((cells.take(turn(2)).len(), cells.panics()), (1, 1));
}

#[test]
fn bad_names_and_too_many_are_refused() {
    let cells = cells();
    let recorder = Recorder::new();
    let twice = cells.recorder("x_seconds", &[("service", "other")], &recorder);
    assert!(matches!(twice, Err(Error::Series { .. })), "the label of all is given again: {twice:?}");
    assert!(matches!(cells.recorder("", &[], &recorder), Err(Error::Series { .. })));
    for _ in 0..SERIES_MAX {
        cells.recorder("x_seconds", &[], &recorder).unwrap();
    }
    assert!(matches!(cells.recorder("x_seconds", &[], &recorder), Err(Error::TooManySeries { .. })));
}

trace_path! { OrderPath { recv: infra @ordered, risk: logic, publish: infra @ordered } }

#[test]
fn a_path_gives_its_stages_and_its_slow_messages_beside_their_cell() {
    let clock = Clock::manual(1, 0);
    let cells = Cells::new(clock, &[("service", "orders")], 1_000);
    let traces = TraceRecorder::<OrderPath>::new(clock, Threshold::fixed_ns(1_000_000));
    let writer = traces.handle("engine");
    let taken = cells.traces(&[("stage", "mine")], &traces);
    assert!(matches!(taken, Err(Error::Series { .. })), "`stage` is taken: {taken:?}");
    cells.traces(&[("shard", "1")], &traces).unwrap();
    let order = |risk_ns: u64| {
        let mut order = OrderPath::begin(clock);
        clock.advance(risk_ns);
        order.mark(clock, OrderPath::risk);
        clock.advance(10);
        order.mark(clock, OrderPath::publish);
        writer.finish(&order);
    };
    order(100);
    order(2_000_000);
    writer.finish(&OrderPath::default());
    let values = cells.take(turn(1));
    let name = |of: &str, labels: &str| format!("order_path_{of}{{{labels}}} at 1 = ");
    let slow = values.iter().find(|value| value.series.labels.metric_name() == "order_path_slow").unwrap();
    let total = values.iter().find(|value| value.series.labels.get("stage") == "total").unwrap();
    assert_eq!(slow.series.labels.with("__name__", ""), total.series.labels.with("__name__", ""));
    let Value::Text(line) = &slow.value else { panic!("a text") };
    let trace: ogive_probe::SlowTrace = line.parse().unwrap();
    assert_eq!((trace.total_ns, trace.culprit().unwrap().name.as_str()), (2_000_010, "risk"));
    let lines = reported(&values).into_iter().filter(|line| !line.contains("_slow{")).collect::<Vec<_>>();
    let common = "service=\"orders\", shard=\"1\"";
    let expected = [
        name("seconds", &format!("class=\"infra\", {common}, stage=\"publish\"")) + "2 records",
        name("seconds", &format!("class=\"logic\", {common}, stage=\"risk\"")) + "2 records",
        name("seconds", &format!("publisher=\"engine\", {common}, stage=\"gap\"")) + "1 records",
        name("seconds", &format!("{common}, stage=\"class:infra\"")) + "2 records",
        name("seconds", &format!("{common}, stage=\"class:logic\"")) + "2 records",
        name("seconds", &format!("{common}, stage=\"total\"")) + "2 records",
        name("slow_dropped_total", &format!("reason=\"limit\", {common}")) + "0",
        name("slow_dropped_total", &format!("reason=\"overwritten\", {common}")) + "0",
        name("unmeasured_total", &format!("reason=\"incomplete\", {common}")) + "1",
        name("unmeasured_total", &format!("reason=\"straddled\", {common}")) + "0",
    ];
    assert_eq!(lines, expected);
    assert!(cells.take(turn(2)).is_empty());
}

#[test]
fn marks_of_a_list_give_the_times_between_them() {
    let clock = Clock::manual(1, 0);
    let cells = Cells::new(clock, &[], 1_000);
    let traces = TraceRecorder::<OrderPath>::new(clock, Threshold::fixed_ns(0));
    let (writer, marker, publish) = (traces.handle("engine"), traces.marker(), traces.mark_name("publish"));
    cells.traces(&[("shard", "1")], &traces).unwrap();
    let taken = cells.traces(&[("mark", "mine")], &traces);
    assert!(matches!(taken, Err(Error::Series { .. })), "`mark` is taken: {taken:?}");
    let (mut order, mut list) = (OrderPath::begin(clock), ogive_probe::MarkList::new());
    for _ in 0..ogive_probe::MARKS_MAX + 2 {
        clock.advance(20);
        list.mark(clock, &marker, publish);
    }
    order.mark(clock, OrderPath::risk);
    order.mark(clock, OrderPath::risk);
    order.mark(clock, OrderPath::publish);
    writer.finish_listed(&order, &list);
    let values = reported(&cells.take(turn(1)));
    for expected in [
        "order_path_seconds{mark=\"publish\", shard=\"1\", stage=\"between\"} at 1 = 8191 records",
        "order_path_unmeasured_total{reason=\"marks_lost\", shard=\"1\"} at 1 = 2",
        "order_path_unmeasured_total{reason=\"repeated\", shard=\"1\"} at 1 = 1",
    ] {
        assert!(values.iter().any(|value| value == expected), "{expected} is not in {values:#?}");
    }
    let slow = values.iter().find(|value| value.starts_with("order_path_slow{")).unwrap();
    assert!(slow.contains(" listed=8194 lost=2 mark=publish,60,60 mark=publish,80,80"), "{slow}");
}

#[test]
fn the_slowest_stay_and_the_others_are_counted() {
    let clock = Clock::manual(1, 0);
    let cells = Cells::new(clock, &[], 1_000);
    let traces = TraceRecorder::<OrderPath>::new(clock, Threshold::fixed_ns(0));
    let writer = traces.handle("engine");
    cells.traces_named("way_seconds", &[], &traces).unwrap();
    for at in 0..crate::SLOW_MAX as u64 + 5 {
        let mut order = OrderPath::begin(clock);
        clock.advance(1_000 - at);
        order.mark(clock, OrderPath::risk);
        order.mark(clock, OrderPath::publish);
        writer.finish(&order);
    }
    let values = cells.take(turn(1));
    let slow: Vec<_> = values.iter().filter(|value| value.series.labels.metric_name() == "way_slow").collect();
    assert_eq!(slow.len(), crate::SLOW_MAX);
    assert!(slow.iter().all(|value| matches!(&value.value, Value::Text(line) if !line.contains("total_ns=743 "))));
    assert!(reported(&values).contains(&"way_slow_dropped_total{reason=\"limit\"} at 1 = 5".to_owned()));
}

/// What is finished between snapshot and draining is counted by the next cell, and its trace must not come sooner.
#[test]
fn a_slow_message_waits_for_the_cell_that_counts_it() {
    let clock = Clock::manual(1, 0);
    let cells = Cells::new(clock, &[], 1_000);
    let traces = TraceRecorder::<OrderPath>::new(clock, Threshold::fixed_ns(0));
    let writer = traces.handle("engine");
    cells.traces_named("way_seconds", &[], &traces).unwrap();
    let order = |risk_ns: u64| {
        let mut order = OrderPath::begin(clock);
        clock.advance(risk_ns);
        order.mark(clock, OrderPath::risk);
        order.mark(clock, OrderPath::publish);
        writer.finish(&order);
    };
    let slow = |turn| {
        let texts = cells.take(turn).into_iter().filter_map(|value| match value.value {
            Value::Text(line) => Some(line.parse::<ogive_probe::SlowTrace>().unwrap().total_ns),
            _ => None,
        });
        texts.collect::<Vec<_>>()
    };
    order(9);
    // The cell that counted it is gone: as this turn sees it, it was finished after the snapshot.
    let _ = traces.snapshot();
    assert!(slow(turn(1)).is_empty());
    order(50);
    assert_eq!(slow(turn(2)), [9]);
    // It waits for one cell, also for a count that does not come; the last cell takes all.
    assert_eq!(slow(turn(3)), [50]);
    order(7);
    let _ = traces.snapshot();
    assert_eq!(slow(CellEnd { is_last: true, ..turn(4) }), [7]);
}

#[test]
fn names_become_snake_case() {
    for (name, expected) in [("OrderPath", "order_path"), ("HTTPPath", "httppath"), ("Path2Go", "path2_go"), ("a", "a")]
    {
        assert_eq!(snake_case(name), expected);
    }
}

#[test]
fn the_clock_tells_its_state_each_ten_cells() {
    let cells = cells();
    cells.clock().unwrap();
    let names =
        |second| cells.take(turn(second)).iter().map(|v| v.series.labels.metric_name().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(1), ["ogive_clock_info", "ogive_clock_info", "ogive_clock_epoch", "ogive_clock_error_seconds"]);
    assert!((2..=10).all(|second| names(second).is_empty()));
    let again = reported(&cells.take(turn(11)));
    let counter = |mode| format!("ogive_clock_info{{mode=\"{mode}\", service=\"orders\"}} at 11 = ");
    assert_eq!(again[2..], [counter("counter") + "0", counter("os") + "1"]);
}

#[test]
fn sizes_and_texts_are_taken_once_a_turn() {
    let cells = cells();
    let mut sizes = Some(5);
    let take = move || {
        let mut cell = Histogram::log_linear();
        if let Some(size) = sizes.take() {
            cell.record_int(size, 0);
        }
        cell
    };
    cells.histogram("rpc_bytes", &[("route", "/")], "By", take).unwrap();
    let mut turns = 0;
    let texts = move || {
        turns += 1;
        let text = |route: &str| Text {
            name: "rpc_slow".to_owned(),
            labels: vec![("route".to_owned(), route.to_owned())],
            text: format!("turn {turns}"),
        };
        // A label without a value is none; a name that breaks the rules leaves its text out.
        vec![text("/"), Text { name: String::new(), ..text("/") }]
    };
    cells.texts("rpc_slow", texts).unwrap();
    let first = cells.take(turn(1));
    let unit =
        first.iter().find(|value| value.series.labels.metric_name() == "rpc_bytes").map(|value| &value.series.meta);
    assert_eq!(unit.map(|meta| &*meta.unit), Some("By"));
    let labels = |name: &str| format!("{name}{{route=\"/\", service=\"orders\"}}");
    let (bytes, slow) = (labels("rpc_bytes"), labels("rpc_slow"));
    assert_eq!(reported(&first)[..2], [format!("{bytes} at 1 = 1 records"), format!("{slow} at 1 = Text(\"turn 1\")")]);
    assert!(reported(&cells.take(turn(2))).contains(&format!("{slow} at 2 = Text(\"turn 2\")")));
}
