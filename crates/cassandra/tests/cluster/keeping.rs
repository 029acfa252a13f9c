//! Rollups, retention, deletion and copies of a cluster, against the embedded store.

use std::time::Duration;

use ogive_cassandra::{Address, Cluster, Node, RetentionPeriods};
use ogive_door::backend::Backend;
use ogive_model::{
    Batch, Kind, MatchOp, Matcher, Reason, Resolution, Sample, Selection, SeriesData, SeriesDef, SeriesMeta, SourceId,
    Temporality, Tenant, TimeRange, Value,
};
use ogive_store::Store;

use crate::cells::{Numbers, series};
use crate::faults::{batch, expected, read};
use crate::process::ogive;
use crate::support::{Three, answer, answer_of, driven, embedded, eventually, fact, node, runtime, send, store};

/// The end of an hour, and of a bucket of six.
const HOUR_S: i64 = 1_700_006_400;
/// Questions whose answers are the same from rollups.
const LONG: [&str; 10] = [
    "sum_over_time(parts[1h])",
    "sum by (host) (sum_over_time(parts[30m]))",
    "max_over_time(gauge[1h])",
    "avg_over_time(gauge[1h])",
    "increase(counter_total[1h])",
    "histogram_quantile(0.99, sum(rate(latency[1h])))",
    "histogram_count(sum_over_time(latency[1h]))",
    "last_over_time(gauge[1h])",
    "rate(native[1h])",
    "count_over_time(points[1h])",
];

/// A batch a minute of every series, from two hours before [`HOUR_S`] until 5 minutes after it.
fn batches(numbers: &mut Numbers) -> Vec<Batch> {
    let all = crate::cells::batches(numbers, HOUR_S - 300, 10);
    let sparse = |minute: i64| {
        let at = |place: usize| {
            let second = HOUR_S - 7_200 + minute * 60 + place as i64;
            let (time_ns, start_ns) = (second * 1_000_000_000, None);
            let mut cell = ogive_hist::Histogram::log_linear();
            (0..=numbers_of(minute, place)).for_each(|at| cell.record(1.0 + at as f64 / 64.0));
            let value = match place % 8 {
                0 => Value::Float(minute as f64 / 4.0),
                1 => Value::Float((7_200 + minute) as f64),
                2 => Value::Float(2.5),
                _ => Value::Histogram(Box::new(cell)),
            };
            Ok(Sample { series: place as u32, time_ns, start_ns: start_ns.or((place % 8 == 1).then_some(1)), value })
        };
        let samples = (0..24).filter(|place| matches!(place % 8, 0 | 1 | 2 | 4)).map(at).collect();
        let series = series().into_iter().map(Ok).collect();
        Batch { source: SourceId(77), sequence: minute as u64 + 1, series, samples, ..Batch::default() }
    };
    (0..115).map(sparse).chain(all).collect()
}

fn numbers_of(minute: i64, place: usize) -> i64 {
    (minute * 7 + place as i64) % 13
}

fn selection(name: &str, range: TimeRange, resolution: Resolution) -> Selection {
    Selection { resolution, ..Selection::new(vec![Matcher::new("__name__", MatchOp::Equal, name).unwrap()], range) }
}

fn select_width(node: &Node, name: &str, width_ms: u32) -> Vec<SeriesData> {
    let end_ms = HOUR_S * 1_000;
    let range = TimeRange::from_ms(end_ms - 7_200_000, end_ms);
    node.of(&Tenant::default()).select(&selection(name, range, Resolution::Width(width_ms))).unwrap()
}

/// Whether both answer the same at the end of the hour.
fn agree(node: &Node, reference: &Store, what: &str) {
    let tenant = Tenant::default();
    for query in LONG {
        let times = (HOUR_S * 1_000, 0, 0);
        let is = answer_of(node, &tenant, query, times);
        assert_eq!(is, answer(&reference.tenant(&tenant), query, times), "{what}: {query}");
    }
}

fn send_both(node: &Node, reference: &Store, batch: Batch) {
    store(reference, batch.clone());
    send(node, batch).unwrap();
}

/// One cluster: rollups answer as the samples, late samples too; what is deleted on one node is gone on all, and what
/// comes later stays; a copy restored into an empty cluster has the same digest and the same answers; retention hides
/// what has had its time, and rollups answer in its place.
#[test]
fn rollups_deletions_copies_and_retention_are_as_in_the_embedded_store() {
    let three = Three::up();
    let address = three.keyspace();
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (one, other, reference) = (node(&address, &at("one")), node(&address, &at("other")), embedded(&at("store")));
    for batch in batches(&mut Numbers(41)) {
        send_both(&one, &reference, batch);
    }
    driven(&one);
    rolled_up(&one, &reference);
    let late = late_batch(1, 7.0);
    send_both(&other, &reference, late);
    driven(&other);
    agree(&one, &reference, "after a late sample");
    deleted(&one, &other, &reference);
    copied(&three, &address, &at("copies"), &one);
    retained(&address, &one);
}

fn rolled_up(one: &Node, reference: &Store) {
    eventually("hours have rollups", || (fact(one, "cassandra_rollups_waiting") <= 24).then_some(()));
    for (name, width_ms) in [("gauge", 60_000), ("latency", 60_000), ("parts", 3_600_000), ("latency", 3_600_000)] {
        let found = eventually("a rollup is used", || {
            let found = select_width(one, name, width_ms);
            let samples = |series: &SeriesData| series.floats.times.len() + series.histograms.times.len();
            found.iter().all(|series| series.rollup_ms == width_ms && samples(series) <= 122).then_some(found)
        });
        assert_eq!(found.len(), 3, "{name}");
    }
    agree(one, reference, "from rollups");
    println!("{} rollups", fact(one, "cassandra_rollups_total"));
}

/// A part of a cell of the first host, half an hour before the end of the hour.
fn late_batch(sequence: u64, value: f64) -> Batch {
    let series = series().into_iter().map(Ok).collect();
    let time_ns = (HOUR_S - 1_800) * 1_000_000_000;
    let samples = vec![Ok(Sample { series: 2, time_ns, start_ns: None, value: Value::Float(value) })];
    Batch { source: SourceId(99), sequence, series, samples, ..Batch::default() }
}

fn deleted(one: &Node, other: &Node, reference: &Store) {
    let tenant = Tenant::default();
    let selectors = [vec![Matcher::new("host", MatchOp::Equal, "a").unwrap()]];
    // From the middle of a minute to the middle of another.
    let range = TimeRange::from_ms((HOUR_S - 2_700) * 1_000 + 30_500, (HOUR_S - 900) * 1_000 + 30_500);
    one.delete(&tenant, &selectors, range).unwrap();
    reference.delete(&tenant, &selectors, range).unwrap();
    agree(one, reference, "after a deletion");
    eventually("the other node knows of it", || {
        (fact(other, "cassandra_deletions") == 1).then_some(()).or_else(|| {
            let _ = other.of(&tenant).select(&selection("gauge", TimeRange::ALL, Resolution::Finest));
            None
        })
    });
    agree(other, reference, "after a deletion, at the other node");
    // A correction for the deleted times stays.
    send_both(other, reference, late_batch(2, 11.0));
    driven(other);
    agree(one, reference, "after a correction");
    one.clean().unwrap();
    agree(one, reference, "after its rows were removed");
    println!("deleted from the middle of a minute, seen at both nodes; a correction stays");
}

fn copied(three: &Three, address: &Address, directory: &std::path::Path, one: &Node) {
    let url = |keyspace: &str| format!("cassandra://127.0.0.1,127.0.0.2,127.0.0.3/{keyspace}");
    let (to, directory) = (three.keyspace(), directory.to_str().unwrap());
    // Rollups that are made meanwhile would be in one copy and not in the next.
    eventually("no rollup is due", || (fact(one, "cassandra_rollups_waiting") <= 48).then_some(()));
    let (code, made) =
        ogive(&["snapshot", "create", "monday", "--store", &url(&address.keyspace), "--data", directory]);
    assert!(code == 0 && made.contains("1 deletions"), "{code}: {made}");
    let restore = || ogive(&["snapshot", "restore", "monday", "--store", &url(&to.keyspace), "--data", directory]);
    let (code, restored) = restore();
    let digest = |said: &str| said.split("digest ").nth(1).unwrap().trim().to_owned();
    assert_eq!((code, digest(&made)), (0, digest(&restored)), "{made}{restored}");
    println!("{made}{restored}");
    let (code, said) = restore();
    assert!(code != 0 && said.contains("is not empty"), "{code}: {said}");
    let spool = tempfile::tempdir().unwrap();
    let fresh = node(&to, spool.path());
    let tenant = Tenant::default();
    for query in LONG {
        let times = (HOUR_S * 1_000, 0, 0);
        assert_eq!(answer_of(&fresh, &tenant, query, times), answer_of(one, &tenant, query, times), "{query}");
    }
    // A changed byte is found before anything is written.
    let path = std::path::Path::new(directory).join("monday.ogive-cluster");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(ogive_cassandra::check_copy(&path).is_err());
}

fn retained(address: &Address, one: &Node) {
    // Samples as they came are shown for an hour, so nothing of 2023 is; cells of a minute for ever.
    let kept = RetentionPeriods { numbers: Some(Duration::from_secs(3_600)), ..RetentionPeriods::default() };
    runtime().block_on(Cluster::init(&Address { retention: Some(kept), ..address.clone() })).unwrap();
    let range = TimeRange::from_ms((HOUR_S - 3_600) * 1_000, HOUR_S * 1_000);
    let select = || one.of(&Tenant::default()).select(&selection("latency", range, Resolution::Finest)).unwrap();
    let cells = eventually("minutes answer for samples that are gone", || {
        let found = select();
        (!found.is_empty() && found.iter().all(|series| series.rollup_ms == 60_000)).then_some(found)
    });
    assert!(cells.iter().all(|series| (30..=61).contains(&series.histograms.times.len())), "{}", cells.len());
    let now_s = (ogive_probe::Clock::global().wall() / 1_000_000_000).max(0);
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let def = SeriesDef::new([("__name__", "new")], meta).unwrap();
    let sample = |second: i64| {
        Ok(Sample { series: 0, time_ns: second * 1_000_000_000, start_ns: None, value: Value::Float(1.0) })
    };
    let samples = vec![sample(now_s - 600), sample(now_s - 8_000)];
    let series = vec![Ok(def)];
    let batch = Batch { source: SourceId(5), sequence: 1, series, samples, ..Batch::default() };
    assert_eq!(send(one, batch).unwrap().rejected, [(1, Reason::BeyondRetention)]);
    driven(one);
    let minute = i32::try_from((now_s - 600).div_euclid(60)).unwrap();
    let ttl = time_to_live(address, minute);
    // An hour and a day, less the ten minutes that it is old.
    let expected = 3_600 + 86_400 - 600;
    assert!((expected - 120..=expected + 60).contains(&ttl), "{ttl}");
    println!("a row of ten minutes ago lives for {ttl} s");
}

/// What is left of the life of a row of a minute.
fn time_to_live(address: &Address, minute: i32) -> i32 {
    runtime().block_on(async {
        let session = scylla::client::session_builder::SessionBuilder::new().known_nodes(&address.hosts).build().await;
        let text = format!("SELECT minute, TTL(body) FROM {}.cells", address.keyspace);
        let answer = session.unwrap().query_unpaged(text, ()).await.unwrap().into_rows_result().unwrap();
        let rows: Vec<(i32, Option<i32>)> = answer.rows().unwrap().map(Result::unwrap).collect();
        rows.into_iter().find_map(|(at, ttl)| (at == minute).then_some(ttl).flatten()).expect("the row has one")
    })
}

/// A copy is away for longer than the spool has room: batches are refused, unless the address says that the spool may
/// let go of what a majority has. Then the minutes are marked, and the mark goes when the copy has everything.
#[test]
fn a_full_spool_refuses_or_lets_go_and_marks_what_needs_repair() {
    let three = Three::up();
    let plain = Address { spool_bytes_max: 256 << 10, ..three.keyspace() };
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let refusing = node(&plain, directories[0].path());
    let release = Address {
        overflow: ogive_cassandra::Overflow::Release,
        audit: Duration::from_secs(2),
        ..Address { spool_bytes_max: 256 << 10, ..three.keyspace() }
    };
    let releasing = node(&release, directories[1].path());
    three.run(&["kill", "3"]);
    let until_refused = |node: &Node| {
        (1..2_000).find(|sequence| send(node, batch(*sequence)).is_err()).expect("the spool is full some time")
    };
    let last = until_refused(&refusing);
    driven(&refusing);
    assert!(fact(&refusing, "spool_records_doubted") > 0, "a majority has them, and the third has not");
    assert!(send(&refusing, batch(last)).is_err(), "it stays full");
    let mut sent = 0;
    for sequence in 1..=last + 400 {
        eventually("the spool lets go", || send(&releasing, batch(sequence)).is_ok().then_some(()));
        sent = sequence;
    }
    driven(&releasing);
    assert!(fact(&releasing, "cassandra_minutes_to_repair") > 0, "the minutes are marked");
    println!(
        "a copy away: refused at {last} batches; let go, {sent} taken, {} minutes marked",
        fact(&releasing, "cassandra_minutes_to_repair")
    );
    // A start finds the marks again.
    drop(releasing);
    let releasing = node(&release, directories[1].path());
    eventually("the marks are there", || (fact(&releasing, "cassandra_minutes_to_repair") > 0).then_some(()));
    // Nobody tells the third what it missed.
    ["1", "2"].iter().for_each(|live| three.run(&["nodetool", live, "truncatehints"]));
    three.run(&["start", "3"]);
    eventually("every copy has everything, and no mark is left", || {
        (fact(&releasing, "cassandra_minutes_to_repair") == 0).then_some(())
    });
    assert_eq!(read(&releasing).unwrap().0, expected(&(1..=sent).collect::<Vec<_>>()));
    println!("the audit wrote {} rows again", fact(&releasing, "cassandra_audit_refilled_total"));
    assert!(fact(&releasing, "cassandra_audit_refilled_total") > 0, "hints were lost");
}

/// The clock of a node is an hour ahead: what it takes is deleted with what others took, and what it takes later stays.
#[test]
fn a_node_whose_clock_is_an_hour_wrong_keeps_and_deletes_the_same() {
    let three = Three::up();
    let address = Address { audit: Duration::from_secs(1), ..three.keyspace() };
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (wrong, end) = (ahead(3_600), std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // ORDERING: Relaxed; a flag alone.
            while !end.load(std::sync::atomic::Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
                wrong.advance(5_000_000);
            }
        });
        let open = |clock, directory: &tempfile::TempDir| {
            let options = ogive_cassandra::Options {
                addresses: vec![address.clone()],
                directory: directory.path().to_owned(),
                clock,
            };
            Node::open(options).unwrap()
        };
        let (early, right) = (open(wrong, &directories[0]), open(ogive_probe::Clock::global(), &directories[1]));
        let seen = |node: &Node, sequences: &[u64], what: &str| {
            let expected = if sequences.is_empty() { Default::default() } else { expected(sequences) };
            eventually(what, || {
                let found = read(node).ok()?.0;
                let found: crate::faults::Work = found.into_iter().filter(|(_, rows)| !rows.is_empty()).collect();
                (found == expected).then_some(())
            });
        };
        (1..=20).for_each(|sequence| drop(send(&early, batch(sequence)).unwrap()));
        driven(&early);
        seen(&right, &(1..=20).collect::<Vec<_>>(), "both see it");
        let selectors = [vec![Matcher::new("__name__", MatchOp::Equal, "work").unwrap()]];
        right.delete(&Tenant::default(), &selectors, TimeRange::ALL).unwrap();
        seen(&right, &[], "deleted by the node with the right clock");
        seen(&early, &[], "and at the other");
        (21..=40).for_each(|sequence| drop(send(&right, batch(sequence)).unwrap()));
        driven(&right);
        seen(&early, &(21..=40).collect::<Vec<_>>(), "what came later stays");
        early.delete(&Tenant::default(), &selectors, TimeRange::ALL).unwrap();
        (41..=60).for_each(|sequence| drop(send(&right, batch(sequence)).unwrap()));
        driven(&right);
        seen(&right, &(41..=60).collect::<Vec<_>>(), "deleted by the node with the wrong clock");
        for node in [&early, &right] {
            assert_eq!(fact(node, "cassandra_audit_rows_lost"), 0, "what was deleted is not lost");
        }
        // ORDERING: Relaxed; see above.
        end.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// A clock that is so many seconds ahead, and moves when it is told to.
fn ahead(seconds: i64) -> ogive_probe::Clock {
    let clock = ogive_probe::Clock::global();
    ogive_probe::Clock::manual(clock.now(), clock.wall() + seconds * 1_000_000_000)
}
