//! Cassandra's processes die, hang and corrupt while samples come: nothing acknowledged is lost, doubled or wrong.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use ogive_cassandra::Node;
use ogive_door::backend::Backend;
use ogive_model::{
    Batch, Kind, Sample, Selection, SeriesDef, SeriesMeta, SourceId, Temporality, Tenant, TimeRange, Value,
};

use crate::cells::Numbers;
use crate::support::{Three, driven, eventually, fact, list, node, send};

pub(crate) const SERIES: usize = 20;
const FROM_S: i64 = 1_700_000_000;

fn def(at: usize) -> SeriesDef {
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Delta, unit: String::new(), width_ms: 1_000 };
    SeriesDef::new([("__name__", "work"), ("worker", &at.to_string())], meta).unwrap()
}

/// One fragment a series; what is stored twice shows as a sum.
pub(crate) fn batch(sequence: u64) -> Batch {
    let sample = |at: usize| {
        let time_ns = (FROM_S + sequence as i64) * 1_000_000_000;
        Ok(Sample { series: at as u32, time_ns, start_ns: None, value: Value::Float(1.0 + at as f64) })
    };
    let series = (0..SERIES).map(|at| Ok(def(at))).collect();
    let samples = (0..SERIES).map(sample).collect();
    Batch { source: SourceId(9), sequence, series, samples, ..Batch::default() }
}

fn work() -> Selection {
    Selection::new(
        vec![ogive_model::Matcher::new("__name__", ogive_model::MatchOp::Equal, "work").unwrap()],
        TimeRange::ALL,
    )
}

/// Seconds and values by worker.
pub(crate) type Work = BTreeMap<String, Vec<(i64, f64)>>;

/// What is there, and what the answer warns of.
pub(crate) fn read(node: &Node) -> Result<(Work, Vec<String>), String> {
    let tenant = Tenant::default();
    let partial = node.of(&tenant).select_partial(&work()).map_err(|error| error.to_string())?;
    let rows = partial.series.into_iter().map(|one| {
        let times = one.floats.times.iter().map(|time| time / 1_000 - FROM_S);
        (one.labels.get("worker").to_owned(), times.zip(one.floats.values).collect())
    });
    Ok((rows.collect(), partial.warnings))
}

pub(crate) fn expected(sequences: &[u64]) -> Work {
    let rows = |at: usize| sequences.iter().map(|sequence| (*sequence as i64, 1.0 + at as f64)).collect();
    (0..SERIES).map(|at| (at.to_string(), rows(at))).collect()
}

/// Sends until the flag is set; the numbers that were acknowledged.
fn load(node: &Node, first: u64, end: &AtomicBool) -> Vec<u64> {
    let (mut acknowledged, mut longest) = (Vec::new(), std::time::Duration::ZERO);
    for sequence in first.. {
        // ORDERING: Relaxed; a flag alone.
        if end.load(Ordering::Relaxed) {
            break;
        }
        let begun = std::time::Instant::now();
        if send(node, batch(sequence)).is_ok() {
            acknowledged.push(sequence);
        }
        longest = longest.max(begun.elapsed());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    println!("{} batches; the longest acknowledgement took {longest:?}", acknowledged.len());
    acknowledged
}

/// Runs `what` while samples come; the numbers that were acknowledged.
pub(crate) fn during(node: &Node, first: u64, what: impl FnOnce()) -> Vec<u64> {
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(node, first, &end));
        what();
        // ORDERING: Relaxed; see `load`.
        end.store(true, Ordering::Relaxed);
        loading.join().unwrap()
    })
}

/// Two of three are killed at random moments; one answers, says so, and when the two are back everything is there,
/// once.
#[test]
fn two_of_three_nodes_killed_under_load_lose_nothing() {
    let three = Three::up();
    let address = three.keyspace();
    let directory = tempfile::tempdir().unwrap();
    let mut numbers = Numbers::seeded();
    let (first, last) = (1 + numbers.below(3), 1 + numbers.below(2));
    let second = (first + last - 1) % 3 + 1;
    let node = node(&address, directory.path());
    let acknowledged = during(&node, 1, || {
        let pause = |numbers: &mut Numbers| {
            std::thread::sleep(std::time::Duration::from_millis(500 + numbers.below(1_500)));
        };
        pause(&mut numbers);
        three.run(&["kill", &first.to_string()]);
        pause(&mut numbers);
        three.run(&["kill", &second.to_string()]);
        // Durable nowhere but in the spool, and visible at the one that is left.
        eventually("the one that is left takes rows", || {
            (fact(&node, "cassandra_visible_rows_total") > 0).then_some(())
        });
        let warned = eventually("the answer says how many copies it is of", || {
            let (_, warnings) = read(&node).ok()?;
            warnings.iter().any(|one| one.contains("only 1 of 3 copies")).then_some(warnings)
        });
        println!("with two of three dead: {warned:?}");
        pause(&mut numbers);
    });
    assert!(!node.is_driven(), "no majority is there");
    let (found, _) = read(&node).expect("the one that is left answers");
    assert_eq!(found, expected(&acknowledged), "while two are dead");
    three.run(&["start", &first.to_string()]);
    three.run(&["start", &second.to_string()]);
    driven(&node);
    let other = tempfile::tempdir().unwrap();
    let fresh = crate::support::node(&address, other.path());
    let whole = eventually("a majority answers again", || {
        let (found, warnings) = read(&fresh).ok()?;
        warnings.is_empty().then_some(found)
    });
    assert_eq!(whole, expected(&acknowledged));
    println!("killed {first} and {second}: {} batches acknowledged, 0 lost, 0 doubled", acknowledged.len());
}

/// The one that is left of three loses its disk as well. What it alone had comes again from the spool; what it had
/// together with one of the others when they died is in doubt, and the audit writes it again to all.
#[test]
fn a_last_copy_whose_disk_is_lost_takes_nothing_along() {
    let three = Three::up();
    let address = ogive_cassandra::Address { audit: std::time::Duration::from_secs(1), ..three.keyspace() };
    let directory = tempfile::tempdir().unwrap();
    let node = node(&address, directory.path());
    let mut numbers = Numbers::seeded();
    let last = 1 + numbers.below(3) as usize;
    let others: Vec<String> = (1..=3).filter(|one| *one != last).map(|one| one.to_string()).collect();
    let acknowledged = during(&node, 1, || {
        eventually("rows are there", || (fact(&node, "cassandra_rows_total") > 0).then_some(()));
        others.iter().for_each(|one| three.run(&["kill", one]));
        let before = fact(&node, "cassandra_visible_rows_total");
        eventually("the one that is left takes rows of each series", || {
            (fact(&node, "cassandra_visible_rows_total") >= before + SERIES as u64).then_some(())
        });
        three.erase(last, &address.keyspace, "");
    });
    assert!(!node.is_driven(), "nobody is left");
    three.run(&["start", &last.to_string()]);
    others.iter().for_each(|one| three.run(&["start", one]));
    driven(&node);
    eventually("every copy is known to have every row", || (fact(&node, "spool_records_doubted") == 0).then_some(()));
    let other = tempfile::tempdir().unwrap();
    let fresh = crate::support::node(&address, other.path());
    assert_same(&read(&fresh).expect("a majority answers").0, &expected(&acknowledged));
    println!(
        "node {last} was the last and lost its disk: {} batches acknowledged, 0 lost, 0 doubled",
        acknowledged.len()
    );
}

/// Says what is missing or not meant, and not everything that is there.
pub(crate) fn assert_same(found: &Work, expected: &Work) {
    let without = |all: &Work, others: &Work| -> Vec<(String, i64, f64)> {
        let of = |(worker, rows): (&String, &Vec<(i64, f64)>)| {
            let others = others.get(worker).cloned().unwrap_or_default();
            let rows = rows.iter().filter(|row| !others.contains(row));
            rows.map(|(second, value)| (worker.clone(), *second, *value)).collect::<Vec<_>>()
        };
        all.iter().flat_map(of).collect()
    };
    let (missing, wrong) = (without(expected, found), without(found, expected));
    assert!(missing.is_empty() && wrong.is_empty(), "missing: {missing:?}; wrong: {wrong:?}");
    assert_eq!(found, expected, "each once");
}

/// The node's own process has only its spool when the cluster is away: a start on the same directory drives it.
#[test]
fn a_spool_that_was_not_driven_is_driven_by_the_next_start() {
    let three = Three::up();
    let address = three.keyspace();
    let directory = tempfile::tempdir().unwrap();
    let unreachable = ogive_cassandra::Address { hosts: vec!["127.0.0.1:1".into()], ..address.clone() };
    let away = node(&unreachable, directory.path());
    for sequence in 1..=50 {
        assert_eq!(send(&away, batch(sequence)).unwrap().accepted, SERIES as u64);
    }
    assert!(read(&away).unwrap_err().contains("not reached"), "no answer is better than half of one");
    drop(away);
    let back = node(&address, directory.path());
    driven(&back);
    let other = tempfile::tempdir().unwrap();
    let fresh = crate::support::node(&address, other.path());
    let all: Vec<u64> = (1..=50).collect();
    assert_eq!(read(&fresh).unwrap().0, expected(&all));
}

/// Files of the cells of a keyspace on a node.
fn data_files(three: &Three, number: usize, keyspace: &str) -> Vec<PathBuf> {
    let is_cells = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("cells-"));
    let tables = list(&three.tables(number).join(keyspace)).into_iter().filter(is_cells);
    tables.flat_map(|table| list(&table)).filter(|path| path.to_string_lossy().ends_with("-Data.db")).collect()
}

/// Flips a byte in each of five places of each file.
fn flip(files: &[PathBuf], numbers: &mut Numbers) {
    assert!(!files.is_empty(), "the node has flushed");
    for file in files {
        let mut bytes = std::fs::read(file).unwrap();
        for _ in 0..5 {
            let at = numbers.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << numbers.below(8);
        }
        std::fs::write(file, bytes).unwrap();
    }
}

fn flipped(is_compressed: bool) {
    let three = Three::up();
    let address = three.keyspace();
    let directory = tempfile::tempdir().unwrap();
    let node = node(&address, directory.path());
    if !is_compressed {
        crate::support::statement(
            &address,
            &format!("ALTER TABLE {}.cells WITH compression = {{'enabled': 'false'}}", address.keyspace),
        );
    }
    for sequence in 1..=300 {
        send(&node, batch(sequence)).unwrap();
    }
    driven(&node);
    for number in ["1", "2", "3"] {
        three.run(&["nodetool", number, "flush", &address.keyspace]);
    }
    let mut numbers = Numbers::seeded();
    flip(&data_files(&three, 2, &address.keyspace), &mut numbers);
    let all: Vec<u64> = (1..=300).collect();
    let mut missing = 0;
    for round in 0..10 {
        let (found, warnings) = read(&node).expect("two good copies are there");
        println!("round {round}: {warnings:?}");
        if is_compressed {
            assert_eq!(found, expected(&all), "round {round}");
        }
        let expected = expected(&all);
        for (worker, rows) in &found {
            let wrong: Vec<_> = rows.iter().filter(|row| !expected[worker].contains(row)).collect();
            assert!(wrong.is_empty(), "round {round}, {worker}: {wrong:?}");
            missing += expected[worker].len() - rows.len();
        }
    }
    let figure = |name| fact(&node, name);
    if is_compressed {
        let log = std::fs::read_to_string(three.log(2)).unwrap();
        let met = log.lines().filter(|line| line.contains("CorruptBlockException") && line.contains(&address.keyspace));
        assert!(met.count() > 0, "the flipped bytes were read");
    } else {
        assert!(figure("cassandra_corrupt_rows_total") > 0, "the flipped bytes were read");
    }
    let (corrupt, unions) = (figure("cassandra_corrupt_rows_total"), figure("cassandra_union_reads_total"));
    println!("{corrupt} rows corrupt, {unions} reads of the union, {missing} samples of 10 answers missing, 0 wrong");
}

/// Bytes of the tables of one copy are flipped: every answer is whole, from the other two.
#[test]
fn flipped_bytes_of_one_copy_never_reach_an_answer() {
    flipped(true);
}

/// Without compression Cassandra has no checksum of its own, and gives flipped bytes as data: ours finds them, and
/// nothing wrong is answered. A flipped byte that makes a deletion of a row hides it, which is why the tables are
/// compressed.
#[test]
fn flipped_bytes_of_a_table_without_compression_never_reach_an_answer() {
    flipped(false);
}

/// The process that the test below kills: sends from `OGIVE_CHILD_FIRST` on, and says what was acknowledged.
#[test]
#[ignore = "a process of the test of killed nodes"]
fn child() {
    let variable =
        |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is given by the test of killed nodes"));
    let address = ogive_cassandra::Address::parse(&variable("OGIVE_CHILD_STORE")).unwrap();
    let node = node(&address, Path::new(&variable("OGIVE_CHILD_DIR")));
    for sequence in variable("OGIVE_CHILD_FIRST").parse::<u64>().unwrap().. {
        assert_eq!(send(&node, batch(sequence)).unwrap().rejected, []);
        println!("acknowledged {sequence}");
    }
}

/// Starts the child on a directory and kills it with SIGKILL when it has said `count` numbers; the last that was
/// acknowledged.
fn life(store: &str, directory: &Path, first: u64, count: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::child", "--ignored", "--nocapture"])
        .env("OGIVE_CHILD_STORE", store)
        .env("OGIVE_CHILD_DIR", directory)
        .env("OGIVE_CHILD_FIRST", first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut last = first - 1;
    for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
        let line = line.unwrap();
        let Some((_, number)) = line.split_once("acknowledged ") else { continue };
        let number: u64 = number.parse().unwrap();
        assert_eq!(number, last + 1);
        last = number;
        if last == first + count {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(last >= first + count, "it lives until it is killed");
    last
}

/// A node of ours is killed five times in the middle of everything: its spool has what it acknowledged, and what was
/// driven already counts once.
#[test]
fn a_node_of_ours_killed_under_load_loses_and_doubles_nothing() {
    let three = Three::up();
    let address = three.keyspace();
    let store = format!("cassandra://127.0.0.1,127.0.0.2,127.0.0.3/{}?collect=50ms", address.keyspace);
    let directory = tempfile::tempdir().unwrap();
    let mut numbers = Numbers::seeded();
    let mut last = 0;
    for _ in 0..5 {
        last = life(&store, directory.path(), last + 1, 20 + numbers.below(100));
    }
    let back = node(&address, directory.path());
    driven(&back);
    let other = tempfile::tempdir().unwrap();
    let fresh = crate::support::node(&address, other.path());
    let mut found = read(&fresh).unwrap().0;
    for rows in found.values_mut() {
        // One more may be durable without its sender having heard of it.
        rows.retain(|(sequence, _)| *sequence != last as i64 + 1);
    }
    assert_eq!(found, expected(&(1..=last).collect::<Vec<_>>()));
    println!("killed 5 times: {last} batches acknowledged, 0 lost, 0 doubled");
}
