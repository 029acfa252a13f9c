//! Lines as clients write them, invalid ones from their issue trackers, and the results.

use std::collections::BTreeMap;

use ogive_model::{Value, WallNs};
use ogive_stream::{Cell, Limits, Quantizer};
use proptest::prelude::*;

use super::*;
use crate::mutations::mutations;

/// Half a second into a cell.
const NOW: i64 = 1_700_000_000_500_000_000;

fn read(text: &str) -> Metric<'_> {
    match line(text.as_bytes()) {
        Ok(Line::Metric(metric)) => metric,
        other => panic!("{text:?} gives {other:?}"),
    }
}

/// The cells of a message, by name and end in seconds, and what was counted.
fn fed(message: &[u8], options: &Options) -> (BTreeMap<(String, i64), Cell>, Tally) {
    let (mut quantizer, mut tally) = (Quantizer::default(), Tally::default());
    feed(message, NOW, options, &mut quantizer, &mut tally);
    let cells = quantizer.finish().into_iter().chain(tally.texts.iter().cloned());
    let named = cells.map(|cell| ((cell.series.labels.to_string(), cell.time.0 / 1_000_000_000), cell));
    (named.collect(), tally)
}

fn one(message: &str) -> Cell {
    let (cells, tally) = fed(message.as_bytes(), &Options::default());
    assert_eq!((cells.len(), tally.faults.total()), (1, 0), "{message:?} gives {cells:?} and {tally:?}");
    cells.into_values().next().unwrap()
}

fn float(cell: &Cell) -> f64 {
    match cell.value {
        Value::Float(value) => value,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_whole_line_is_read() {
    let metric = read("app.db.q:1:2.5:3|d|@0.5|#route:/x,env:prod,canary|c:ci-1|T1700000001|e:it-false|card:low");
    assert_eq!((metric.name, metric.kind, metric.values), ("app.db.q", Kind::Distribution, "1:2.5:3"));
    assert_eq!((metric.weight, metric.time_ns), (2.0, Some(1_700_000_001_000_000_000)));
    let tags: Vec<_> = metric.tags.iter().collect();
    assert_eq!(tags, [("route", "/x"), ("env", "prod"), ("canary", "true")]);
}

#[test]
fn timers_become_seconds_exactly() {
    let cell = one("app.db.q:320|ms");
    assert_eq!(cell.series.labels.to_string(), "app_db_q");
    assert_eq!((&*cell.series.meta.unit, cell.series.meta.width_ms), ("s", 1000));
    let Value::Histogram(histogram) = cell.value else { panic!() };
    assert_eq!((histogram.count, histogram.sum, histogram.min, histogram.max), (1, Some(0.32), Some(0.32), Some(0.32)));
    let Value::Histogram(packed) = one("x:1:2:3|d").value else { panic!() };
    assert_eq!((packed.count, packed.sum, packed.max), (3, Some(6.0), Some(3.0)));
    assert_eq!(one("x:1:2|h").time, WallNs(NOW + 500_000_000), "the end of the cell");
}

#[test]
fn rates_are_weights_and_seen() {
    let (cells, tally) = fed(b"q:25|ms|@0.1\nq:25|ms|@0.1\nn:2|c|@0.5\nn:1|c\n", &Options::default());
    let end = NOW / 1_000_000_000 + 1;
    let find = |name: &str| &cells[&(name.to_owned(), end)];
    let Value::Histogram(histogram) = &find("q").value else { panic!() };
    assert_eq!((histogram.count, histogram.sum), (20, Some(0.5)));
    assert_eq!(float(find("n")), 5.0);
    assert_eq!(float(find(r#"ogive_sampled_measurements{metric="q"}"#)), 2.0);
    assert_eq!(float(find(r#"ogive_sampled_measurements{metric="n"}"#)), 1.0);
    assert_eq!((tally.measurements, tally.sampled, cells.len()), (4, 3, 4));
}

#[test]
fn a_weight_that_is_no_whole_number_is_kept_on_average() {
    let message = "q:1|h|@0.3\n".repeat(3_000);
    let (cells, _) = fed(message.as_bytes(), &Options::default());
    let counts: Vec<u64> = cells
        .values()
        .filter_map(|cell| if let Value::Histogram(histogram) = &cell.value { Some(histogram.count) } else { None })
        .collect();
    assert_eq!(counts, [10_000]);
}

#[test]
fn gauges_are_set_and_moved() {
    assert_eq!(float(&one("g:5|g\ng:+2|g\ng:-10|g")), -3.0);
    assert_eq!(float(&one("g:333|g|@0.1")), 333.0, "a rate says nothing of a state");
    let signed = Options { signed_gauges: true, ..Options::default() };
    let (cells, _) = fed(b"g:5|g\ng:-10|g", &signed);
    assert_eq!(float(cells.values().next().unwrap()), -10.0);
}

#[test]
fn sets_count_different_members() {
    assert_eq!(float(&one("u:bob|s\nu:eve|s\nu:bob|s\nu:a:b|s\nu:a,b|s")), 4.0);
}

#[test]
fn the_same_tags_in_another_order_are_the_same_series() {
    let cell = one("n:1|c|#a:1,b:2\nn:1|c|#b:2,a:1\nn:1|c|#a:1|#b:2\r\n");
    assert_eq!((cell.series.labels.to_string().as_str(), float(&cell)), (r#"n{a="1", b="2"}"#, 3.0));
    let twice = one("n:1|c|#team:x,team:y,a.b:1,a_b:1");
    assert_eq!(twice.series.labels.to_string(), r#"n{a_b="1", team="x,y"}"#);
    let utf8 = Options { names: Names::Utf8, ..Options::default() };
    let (cells, _) = fed(b"app.q:1|c|#a.b:1", &utf8);
    assert_eq!(cells.values().next().unwrap().series.labels.to_string(), r#"app.q{a.b="1"}"#);
}

#[test]
fn a_time_leads_to_its_cell() {
    let (cells, _) = fed(b"n:1|c|T1600000000\nn:2|c|T1600000000\nn:4|c\n", &Options::default());
    let values: Vec<_> = cells.iter().map(|((_, second), cell)| (*second, float(cell))).collect();
    assert_eq!(values, [(1_600_000_000, 3.0), (1_700_000_001, 4.0)]);
}

#[test]
fn comma_lists_are_taken_when_allowed() {
    let (cells, tally) = fed(b"js.h:1,2|h\n", &Options::default());
    assert!(cells.is_empty());
    assert_eq!(tally.faults.iter().collect::<Vec<_>>(), [(Fault::CommaList, 1)]);
    let allowed = Options { comma_lists: true, ..Options::default() };
    let (cells, tally) = fed(b"js.h:1,2|h\n", &allowed);
    assert_eq!((cells.len(), tally.measurements, tally.faults.total()), (1, 2, 0));
}

#[test]
fn what_breaks_a_rule_is_one_fault() {
    for (text, fault) in [
        ("x", Fault::Fields),
        ("x:1", Fault::Fields),
        (":1|c", Fault::Name),
        ("x:|c", Fault::Value),
        ("x:NaN|g", Fault::Value),
        ("x:inf|ms", Fault::Value),
        ("x:abc|c", Fault::Value),
        ("x:1|q", Fault::Type),
        ("x:1|", Fault::Type),
        ("x:1|c|@0", Fault::SampleRate),
        ("x:1|c|@2", Fault::SampleRate),
        ("x:1|c|@-1", Fault::SampleRate),
        ("x:1|c|@NaN", Fault::SampleRate),
        ("x:1|c|@1e-9", Fault::SampleRate),
        ("x:1|c|T-5", Fault::Time),
        ("x:1|c|Tabc", Fault::Time),
        ("x:1|c|#__name__:y", Fault::Tags),
        ("x:1|c|#:y", Fault::Tags),
        ("x:1|c|?", Fault::Fields),
        ("_e{5,4}:title|te", Fault::Cut),
        ("_e{5,x}:title|text", Fault::Value),
        ("_e{0,0}:|", Fault::Name),
        ("_e{5,4}:titletext", Fault::Fields),
        ("_sc|svc|7", Fault::Value),
        ("_sc|svc", Fault::Fields),
        ("_sc||0", Fault::Name),
    ] {
        let (cells, tally) = fed(text.as_bytes(), &Options::default());
        assert_eq!(tally.faults.iter().collect::<Vec<_>>(), [(fault, 1)], "{text:?}");
        assert!(cells.is_empty() && tally.measurements == 0, "{text:?} gives {cells:?}");
    }
    let bytes = |message: &[u8]| fed(message, &Options::default()).1.faults.iter().collect::<Vec<_>>();
    assert_eq!(bytes(b"\xff:1|c"), [(Fault::NotUtf8, 1)]);
    let at = |length: usize| format!("{}:1|c", "n".repeat(length - 4));
    // A name of the longest line is too long for a label; the line itself is not.
    assert_eq!(bytes(at(lines::LINE_BYTES_MAX).as_bytes()), []);
    assert_eq!(bytes(at(lines::LINE_BYTES_MAX + 1).as_bytes()), [(Fault::TooLong, 1)]);
    let many: Vec<String> = (0..200).map(|tag| format!("t{tag}:1")).collect();
    assert_eq!(bytes(format!("x:1|c|#{}", many.join(",")).as_bytes()), [(Fault::Labels, 1)]);
}

#[test]
fn a_bad_line_or_value_leaves_its_neighbours() {
    let (cells, tally) = fed(b"\n\na:1|c\r\nb:x|c\r\nc:1:y:3|d\nd:1|c", &Options::default());
    assert_eq!((cells.len(), tally.measurements), (3, 4));
    assert_eq!(tally.faults.iter().collect::<Vec<_>>(), [(Fault::Value, 2)]);
}

#[test]
fn events_and_checks_become_texts_and_states() {
    let (cells, tally) = fed(
        b"_e{5,10}:title|two\\nlines|t:error|h:web1|d:1700000000|#env:prod\n_sc|db.up|2|h:web1|#env:prod|m:no | answer\n",
        &Options::default(),
    );
    assert_eq!((tally.faults.total(), tally.measurements), (0, 2));
    let found: Vec<_> =
        cells.iter().map(|((name, second), cell)| (name.as_str(), *second, cell.value.clone())).collect();
    let event = r#"dogstatsd_event{alert_type="error", env="prod", host="web1"}"#;
    assert_eq!(found[0], (event, 1_700_000_000, Value::Text("title\ntwo\nlines".into())));
    // The message and the state have the same labels and are of two kinds; the map keeps one.
    let check = r#"dogstatsd_service_check{check="db.up", env="prod", host="web1"}"#;
    assert_eq!(found[1], (check, 1_700_000_001, Value::Text("no | answer".into())));
    assert_eq!(float(&one("_sc|db.up|2")), 2.0);
}

#[test]
fn cells_that_are_too_many_are_a_fault() {
    let mut quantizer = Quantizer::new(Limits { cells: 1, ..Limits::default() });
    let mut tally = Tally::default();
    feed(b"n:1|c|T1\nn:1|c|T2\nn:1|c|T1\n", NOW, &Options::default(), &mut quantizer, &mut tally);
    assert_eq!((tally.measurements, tally.faults.iter().collect::<Vec<_>>()), (2, vec![(Fault::Cells, 1)]));
}

/// Seeded mutations of good messages: whatever comes, each line is taken or counted, and nothing panics.
#[test]
fn mutated_messages_are_taken_or_counted() {
    const GOOD: &[u8] =
        b"a.b:1:2|d|@0.1|#x:y,z|T1700000000\nu:bob|s\ng:-5|g\nt:3.25|ms|c:id\n_e{1,1}:a|b|#c\n_sc|a|0|m:x\n";
    let alphabet = b":|@#,.-+eE0123456789_{}\n\r\xffcgsmhdT";
    let options = [Options::default(), Options { comma_lists: true, signed_gauges: true, names: Names::Utf8 }];
    let (mut quantizer, mut tally) = (Quantizer::default(), Tally::default());
    let mut round = 0;
    mutations(GOOD, 20_000, 6, alphabet, |message| {
        let before = tally.measurements + tally.faults.total();
        feed(message, NOW + round, &options[round as usize % 2], &mut quantizer, &mut tally);
        let counted = tally.measurements + tally.faults.total() - before;
        assert!(counted >= lines::lines(message).count() as u64, "{:?}", String::from_utf8_lossy(message));
        tally.texts.clear();
        round += 1;
    });
    assert!(
        quantizer.take(WallNs(NOW + 1_000_000_000)).iter().all(|cell| !cell.series.labels.metric_name().is_empty())
    );
}

proptest! {
    #[test]
    fn any_bytes_are_taken_or_counted(message: Vec<u8>) {
        let (_, tally) = fed(&message, &Options::default());
        prop_assert!(tally.measurements + tally.faults.total() >= lines::lines(&message).count() as u64);
    }
}
