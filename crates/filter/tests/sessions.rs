//! Sessions: lines of several batches become durations, each once, however the lines are cut, mixed and sent again.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use ogive_filter::{File, Filtered, SessionOutcome, Stage};
use ogive_hist::Histogram;
use ogive_model::{
    Batch, BatchId, Exemplar, Kind, Labels, MonoNs, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Tenant,
    Value, WallNs,
};
use ogive_stream::cell_end;

const SECOND_NS: i64 = 1_000_000_000;
const BEGAN_NS: i64 = 1_700_000_000 * SECOND_NS;
/// An eighth of a second: sums of such numbers are exact.
const STEP_NS: i64 = SECOND_NS / 8;

const FILTER: &str = r#"
    [[filter]]
    name = "calls"
    where = '{job="app"}'
    parse = "logfmt"
    time = "at"

    [[filter.session]]
    name = "call_seconds"
    id = "id"
    begin = "step=begin"
    end = "step=end"
    labels = { path = "{begin.path}", status = "{end.status}", zone = "{zone}" }
    timeout = "10s"
"#;

/// A line, and the host that sends it.
#[derive(Clone, Debug)]
struct HostLine {
    host: &'static str,
    time_ns: i64,
    text: String,
}

fn given(host: &'static str, time_ns: i64, text: &str) -> HostLine {
    HostLine { host, time_ns, text: text.to_owned() }
}

fn stage(filter: &str) -> Stage {
    Stage::new(File::parse(filter).unwrap().filters).unwrap()
}

fn batch(sequence: u64, lines: &[HostLine]) -> Batch {
    let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let hosts: BTreeSet<&str> = lines.iter().map(|line| line.host).collect();
    let hosts: Vec<&str> = hosts.into_iter().collect();
    let series = |host: &&str| SeriesDef::new([("__name__", "log"), ("job", "app"), ("host", *host)], meta.clone());
    let sample = |line: &HostLine| {
        let series = hosts.iter().position(|host| *host == line.host).unwrap() as u32;
        Ok(Sample { series, time_ns: line.time_ns, start_ns: None, value: Value::Text(line.text.clone()) })
    };
    Batch {
        source: SourceId(7),
        sequence,
        series: hosts.iter().map(series).collect(),
        samples: lines.iter().map(sample).collect(),
        ..Batch::default()
    }
}

/// Cells by series and time.
type Cells = BTreeMap<(String, i64), Histogram>;

/// Everything about cells that can be compared.
fn figures(cells: &Cells) -> Vec<String> {
    let of = |(key, histogram): (&(String, i64), &Histogram)| {
        let buckets: Vec<_> = histogram.buckets().map(|bucket| format!("{bucket:?}")).collect();
        format!("{key:?} {} {:?} {}", histogram.count, histogram.sum, buckets.join(" "))
    };
    cells.iter().map(of).collect()
}

/// A store that takes each batch of a tenant once, as the real one does.
#[derive(Default)]
struct Store {
    seen: BTreeSet<(Tenant, BatchId)>,
    cells: Cells,
    exemplars: Vec<String>,
}

impl Store {
    fn take(&mut self, filtered: Filtered) {
        let parts = match filtered {
            Filtered::Changed(parts) => parts,
            other => panic!("{other:?}"),
        };
        for batch in parts.into_iter().map(|part| part.batch) {
            if !self.seen.insert((batch.tenant.clone(), batch.id())) {
                continue;
            }
            for sample in batch.samples.iter().flatten() {
                let labels = &batch.series[sample.series as usize].as_ref().unwrap().labels;
                match &sample.value {
                    Value::Histogram(histogram) => {
                        let key = (format!("{} {labels}", batch.tenant.as_str()), sample.time_ns);
                        let cell = self.cells.entry(key).or_insert_with(Histogram::log_linear);
                        cell.merge(histogram).unwrap();
                    }
                    Value::Text(text) if Exemplar::explained(labels).is_some() => self.exemplars.push(text.clone()),
                    _ => {}
                }
            }
        }
    }

    /// Each cell as its series, its second, and the sum of its durations.
    fn shown(&self) -> Vec<String> {
        let of = |((series, time_ns), histogram): (&(String, i64), &Histogram)| {
            let second = (time_ns - BEGAN_NS) / SECOND_NS;
            format!("{series}@{second}: {}x{:?}", histogram.count, histogram.sum.unwrap())
        };
        self.cells.iter().map(of).collect()
    }
}

fn count(stage: &Stage, outcome: SessionOutcome) -> u64 {
    stage.sessions(MonoNs(0)).map(|session| session.tally.get(outcome)).sum()
}

fn open(stage: &Stage) -> usize {
    stage.sessions(MonoNs(0)).map(|session| session.open).sum()
}

#[test]
fn labels_come_from_either_line_and_those_of_the_series_where_both_agree() {
    let stage = stage(FILTER);
    let mut store = Store::default();
    let begin = given("web-1", BEGAN_NS, "id=a step=begin path=/pay status=none zone=west");
    let end = given("db-1", BEGAN_NS + SECOND_NS / 4, "id=a step=end path=/none status=200");
    store.take(stage.apply(batch(1, std::slice::from_ref(&end)), MonoNs(0)));
    assert_eq!((store.shown().len(), open(&stage)), (0, 1));
    store.take(stage.apply(batch(2, &[begin]), MonoNs(0)));
    let expected = r#"default call_seconds{job="app", path="/pay", status="200", zone="west"}@1: 1x0.25"#;
    assert_eq!(store.shown(), [expected]);
    assert_eq!(store.exemplars, [r#"{"labels":{"id":"a"},"value":0.25}"#]);
    // Both on one host: it is a label, too. The end's value wins where a name stands for either line.
    let begin = given("web-1", BEGAN_NS, "id=b step=begin zone=west");
    let end = given("web-1", BEGAN_NS, "id=b step=end zone=east");
    store.take(stage.apply(batch(3, &[begin, end]), MonoNs(0)));
    assert_eq!(store.shown()[0], r#"default call_seconds{host="web-1", job="app", zone="east"}@0: 1x0.0"#);
    assert_eq!((count(&stage, SessionOutcome::Matched), open(&stage)), (2, 0));
}

#[test]
fn a_line_has_its_own_time_where_it_says_one() {
    let stage = stage(FILTER);
    let mut store = Store::default();
    let lines = [
        given("a", BEGAN_NS, "id=a step=begin at=2023-11-14T22:13:20.5Z"),
        given("a", BEGAN_NS, "id=a step=end at=1700000002.75"),
        given("a", BEGAN_NS, "id=b step=begin at=later"),
        given("a", BEGAN_NS + SECOND_NS, "id=b step=end"),
    ];
    store.take(stage.apply(batch(1, &lines), MonoNs(0)));
    // The cell is the one of the time that the end is stored with.
    let series = r#"default call_seconds{host="a", job="app"}"#;
    assert_eq!(store.shown(), [format!("{series}@0: 1x2.25"), format!("{series}@1: 1x1.0")]);
    let invalid = stage.tallies().map(|(_, tally)| tally.get(ogive_filter::Outcome::TimesInvalid)).sum::<u64>();
    assert_eq!(invalid, 1);
}

#[test]
fn tenants_share_no_session_and_ids_have_a_limit() {
    let filters = format!("[[filter]]\nname = 'route'\nwhere = 'team=b'\ntenant = 'b'\n{FILTER}");
    let stage = stage(&filters);
    let mut store = Store::default();
    let long = "x".repeat(257);
    let lines = [
        given("a", BEGAN_NS, "id=a step=begin team=b"),
        given("a", BEGAN_NS, "id=a step=end"),
        given("a", BEGAN_NS, "id=a step=end team=b"),
        given("a", BEGAN_NS, "step=begin"),
        given("a", BEGAN_NS, &format!("step=begin id={long}")),
        given("a", BEGAN_NS, &format!("step=begin id={}", &long[1..])),
        given("a", BEGAN_NS, "id=a"),
    ];
    store.take(stage.apply(batch(1, &lines), MonoNs(0)));
    assert_eq!(store.shown(), [r#"b call_seconds{host="a", job="app"}@0: 1x0.0"#]);
    assert_eq!((count(&stage, SessionOutcome::IdInvalid), open(&stage)), (2, 2));
}

#[test]
fn what_is_dropped_or_masked_is_in_no_session() {
    let filters = FILTER.replace("time = \"at\"", "mask = ['/id=(?<secret>secret)/']\ndrop = 'drop=yes'");
    let stage = stage(&filters);
    let lines =
        [given("a", BEGAN_NS, "id=a step=begin drop=yes"), given("a", BEGAN_NS, "id=secret step=begin path=/a")];
    let mut store = Store::default();
    store.take(stage.apply(batch(1, &lines), MonoNs(0)));
    store.take(stage.apply(batch(2, &[given("a", BEGAN_NS, "id=secret step=end")]), MonoNs(0)));
    assert_eq!((store.shown().len(), open(&stage)), (1, 0));
    assert_eq!(store.exemplars, [r#"{"labels":{"id":"***"},"value":0.0}"#]);
}

#[test]
fn cases_have_times_and_sessions_of_their_own() {
    let cases = "
        [[case]]
        labels = { job = 'app' }
        line = ['id=a step=begin', 'id=a step=end', 'id=b step=begin']
        at = [0.0, 1.5, 2.0]
        numbers = { call_seconds = [1.5] }
        [[case]]
        labels = { job = 'app' }
        line = 'id=b step=end'
        numbers = { call_seconds = [] }
        [[case]]
        labels = { job = 'app' }
        line = 'id=b step=end'
        at = [0.0, 1.0]";
    let file = File::parse(&format!("{FILTER}{cases}")).unwrap();
    let stage = Stage::new(file.filters).unwrap();
    for (_, case) in &file.cases[..2] {
        assert_eq!(case.run(&stage), Ok(Vec::new()));
    }
    assert!(file.cases[2].1.run(&stage).unwrap_err().contains("2 seconds for 1 lines"));
}

#[test]
fn old_lines_expire_also_when_none_comes() {
    let stage = stage(FILTER);
    let lines = [given("a", BEGAN_NS, "id=a step=begin"), given("a", BEGAN_NS, "id=b step=end")];
    assert!(matches!(stage.apply(batch(1, &lines), MonoNs(5)), Filtered::Changed(_)));
    let at = |now: u64| stage.sessions(MonoNs(now)).map(|session| session.open).sum::<usize>();
    assert_eq!((at(5 + 10_000_000_000), at(6 + 10_000_000_000)), (2, 0));
    assert_eq!([SessionOutcome::Expired, SessionOutcome::Unmatched].map(|outcome| count(&stage, outcome)), [1, 1]);
}

/// Sessions as they happened; some of their lines are lost, too long apart, or in the wrong order.
struct World {
    lines: Vec<HostLine>,
    cells: Cells,
    matched: u64,
}

fn world(random: &mut Rng) -> World {
    let mut world = World { lines: Vec::new(), cells: Cells::new(), matched: 0 };
    for id in 0..random.usize(1..40) {
        let path = ["/a", "/b"][random.usize(0..2)];
        let status = ["200", "500"][random.usize(0..2)];
        let [begin_host, end_host] = [(); 2].map(|()| ["h1", "h2"][random.usize(0..2)]);
        let begin_ns = BEGAN_NS + random.i64(0..40) * STEP_NS;
        // The timeout is 80 steps.
        let steps = random.i64(-4..90);
        let end_ns = begin_ns + steps * STEP_NS;
        let lost = random.u8(0..8);
        if lost != 0 {
            world.lines.push(given(begin_host, begin_ns, &format!("id={id} step=begin path={path}")));
        }
        if lost != 1 {
            world.lines.push(given(end_host, end_ns, &format!("id={id} step=end status={status}")));
        }
        if lost > 1 && (0..=80).contains(&steps) {
            let host = if begin_host == end_host { begin_host } else { "" };
            let labels =
                [("__name__", "call_seconds"), ("job", "app"), ("host", host), ("path", path), ("status", status)];
            let series = format!("default {}", Labels::new(labels).unwrap());
            let cell = world.cells.entry((series, cell_end(WallNs(end_ns)).0)).or_insert_with(Histogram::log_linear);
            cell.record((steps * STEP_NS) as f64 / 1e9);
            world.matched += 1;
        }
    }
    world
}

/// Cuts lines into batches, which have numbers from 1.
fn cut(lines: &[HostLine], random: &mut Rng) -> Vec<Batch> {
    let (mut rest, mut batches) = (lines, Vec::new());
    while !rest.is_empty() {
        let (now, later) = rest.split_at(random.usize(1..=rest.len()));
        batches.push(batch(batches.len() as u64 + 1, now));
        rest = later;
    }
    batches
}

/// Brings batches to the store: some are refused at first, some come again, in any order.
fn bring(stage: &Stage, batches: &[Batch], random: &mut Rng) -> Store {
    let mut store = Store::default();
    let mut waiting: Vec<(usize, bool)> = (0..batches.len()).map(|at| (at, random.u8(0..4) == 0)).collect();
    let mut again = 2 * batches.len();
    while !waiting.is_empty() {
        let next = random.usize(0..waiting.len());
        let (at, is_refused) = waiting.swap_remove(next);
        let filtered = stage.apply(batches[at].clone(), MonoNs(0));
        if is_refused {
            waiting.push((at, false));
            continue;
        }
        store.take(filtered);
        if again > 0 && random.bool() {
            again -= 1;
            waiting.push((at, false));
        }
    }
    store
}

/// Any order, any cut, refusals and repeats: the cells are those of what happened.
#[test]
fn cells_are_those_of_what_happened() {
    for seed in 0..400 {
        let mut random = Rng::with_seed(seed);
        let mut world = world(&mut random);
        random.shuffle(&mut world.lines);
        let stage = stage(FILTER);
        let store = bring(&stage, &cut(&world.lines, &mut random), &mut random);
        assert_eq!(figures(&store.cells), figures(&world.cells), "seed {seed}");
        assert_eq!(count(&stage, SessionOutcome::Matched), world.matched, "seed {seed}");
    }
}

/// Ids that are used again, and lines that are repeated: what comes of a sequence of lines does not depend on how it is
/// cut, and each line is counted once.
#[test]
fn cells_do_not_depend_on_the_cut() {
    for seed in 0..400 {
        let mut random = Rng::with_seed(seed);
        let line = |random: &mut Rng| {
            let step = ["begin", "end"][random.usize(0..2)];
            let time_ns = BEGAN_NS + random.i64(0..120) * STEP_NS;
            given("h1", time_ns, &format!("id={} step={step}", random.u8(0..3)))
        };
        let lines: Vec<HostLine> = (0..random.usize(1..60)).map(|_| line(&mut random)).collect();
        let whole = stage(FILTER);
        let mut expected = Store::default();
        expected.take(whole.apply(batch(1, &lines), MonoNs(0)));
        let stage = stage(FILTER);
        let mut store = Store::default();
        for batch in cut(&lines, &mut random) {
            // Each at once again, as after a refusal.
            let _ = stage.apply(batch.clone(), MonoNs(0));
            store.take(stage.apply(batch, MonoNs(0)));
        }
        assert_eq!(figures(&store.cells), figures(&expected.cells), "seed {seed}");
        let others = SessionOutcome::ALL.map(|outcome| count(&whole, outcome)).iter().sum::<u64>();
        let counted = others + count(&whole, SessionOutcome::Matched) + open(&whole) as u64;
        assert_eq!(counted, lines.len() as u64, "seed {seed}");
    }
}
