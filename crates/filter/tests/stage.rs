//! Lines through filters, as a listener hands them over.

use std::collections::BTreeMap;

use ogive_filter::{CELLS_MAX, EVENT_BYTES_MAX, File, Filtered, LINE_BYTES_MAX, Outcome, Part, Stage};
use ogive_model::{Batch, Exemplar, Kind, MonoNs, Sample, SeriesDef, SeriesMeta, Temporality, Tenant, Value};

#[path = "../../protocol/src/mutations.rs"]
mod mutations;

const SECOND_NS: i64 = 1_000_000_000;

fn stage(filters: &str) -> Stage {
    Stage::new(File::parse(filters).unwrap().filters).unwrap()
}

fn series(job: &str) -> SeriesDef {
    let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    SeriesDef::new([("__name__", "log"), ("job", job), ("severity", "info")], meta).unwrap()
}

/// Lines of two series, by number, one a second.
fn batch(lines: &[(u32, &str)]) -> Batch {
    let sample = |(at, (series, line)): (usize, &(u32, &str))| {
        let time_ns = 1_000 * SECOND_NS + at as i64 * SECOND_NS;
        Ok(Sample { series: *series, time_ns, start_ns: None, value: Value::Text((*line).to_owned()) })
    };
    let samples = lines.iter().enumerate().map(sample).collect();
    Batch { series: vec![Ok(series("a")), Ok(series("b"))], samples, ..Batch::default() }
}

fn apply(stage: &Stage, batch: Batch) -> Vec<Part> {
    match stage.apply(batch, MonoNs(0)) {
        Filtered::Changed(parts) => parts,
        other => panic!("{other:?}"),
    }
}

/// The stored lines as `job: line`.
fn lines(parts: &[Part]) -> Vec<String> {
    let of = |Part { batch, .. }: &Part| {
        let line = |sample: &Sample| {
            let labels = &batch.series[sample.series as usize].as_ref().unwrap().labels;
            match &sample.value {
                Value::Text(text) if Exemplar::explained(labels).is_none() => {
                    Some(format!("{}: {text}", labels.get("job")))
                }
                _ => None,
            }
        };
        batch.samples.iter().flatten().filter_map(line).collect::<Vec<_>>()
    };
    parts.iter().flat_map(of).collect()
}

/// Every sample that is no line, by its series: counts as they are, histograms as count, sum and time in seconds.
fn cells(parts: &[Part]) -> BTreeMap<String, Vec<String>> {
    let mut out = BTreeMap::<String, Vec<String>>::new();
    for Part { batch, .. } in parts {
        for sample in batch.samples.iter().flatten() {
            let labels = &batch.series[sample.series as usize].as_ref().unwrap().labels;
            let seconds = sample.time_ns / SECOND_NS - 1_000;
            let value = match &sample.value {
                Value::Float(value) => format!("{value}@{seconds}"),
                Value::Histogram(histogram) => format!("{}x{:?}@{seconds}", histogram.count, histogram.sum.unwrap()),
                Value::Text(text) if Exemplar::explained(labels).is_some() => text.clone(),
                _ => continue,
            };
            out.entry(labels.to_string()).or_default().push(value);
        }
    }
    out
}

fn tally(stage: &Stage, filter: &str, outcome: Outcome) -> u64 {
    stage.tallies().find(|(name, _)| *name == filter).unwrap().1.get(outcome)
}

#[test]
fn lines_that_go_on_join_the_one_before_them_of_their_series() {
    let stage = stage("[[filter]]\nname = 'x'\nwhere = '{job=\"a\"}'\njoin = '^\\s'");
    let found = apply(
        &stage,
        batch(&[(0, " alone"), (0, "one"), (1, " b"), (0, " two"), (0, "\tthree"), (0, "four"), (0, " five")]),
    );
    assert_eq!(lines(&found), ["a:  alone", "a: one\n two\n\tthree", "b:  b", "a: four\n five"]);
    assert_eq!(found[0].origins, [Some(0), Some(1), Some(2), Some(5)]);
    assert_eq!(tally(&stage, "x", Outcome::Joined), 3);
    let long = format!(" {}", "x".repeat(EVENT_BYTES_MAX));
    assert_eq!(lines(&apply(&stage, batch(&[(0, "one"), (0, &long), (0, " two")]))).len(), 3);
}

#[test]
fn what_is_masked_is_nowhere() {
    let stage = stage(
        "[[filter]]\nname = 'x'\nwhere = ''\nmask = ['password']\nparse = 'logfmt'\nlabels = { p = '{password}' }\n\
         [[filter.number]]\nname = 'took'\nfield = 'took'\nlabels = ['password']",
    );
    let found = apply(&stage, batch(&[(0, "took=1 password=hunter2")]));
    assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
    assert_eq!((lines(&found), tally(&stage, "x", Outcome::Masked)), (vec!["a: took=1 password=***".into()], 1));
}

#[test]
fn every_number_is_in_the_cell_of_its_lines_second() {
    let stage = stage(
        "[[filter]]\nname = 'x'\nwhere = '{job=\"a\"}'\nparse = 'logfmt'\n\
         [[filter.number]]\nname = 'took_seconds'\nfield = 'took'\nunit = 'ms'\nlabels = { route = '{path}' }\n\
         [[filter.count]]\nname = 'lines_total'",
    );
    let mut batch =
        batch(&[(0, "took=1 path=/a"), (0, "took=2.5 path=/a"), (0, "took=x path=/a"), (0, "no pairs"), (1, "took=7")]);
    // The second line is in the same second as the first: (999, 1000].
    batch.samples[1].as_mut().unwrap().time_ns -= SECOND_NS + 1;
    let found = apply(&stage, batch);
    let expected = [
        ("lines_total{job=\"a\"}", vec!["2@0", "1@2"]),
        (
            "took_seconds_exemplar{job=\"a\", route=\"/a\"}",
            vec![r#"{"labels":{"line":"took=2.5 path=/a"},"value":0.0025}"#],
        ),
        ("took_seconds{job=\"a\", route=\"/a\"}", vec!["2x0.0035@0"]),
    ];
    let expected: BTreeMap<_, _> =
        expected.map(|(name, values)| (name.to_owned(), values.iter().map(ToString::to_string).collect())).into();
    assert_eq!(cells(&found), expected);
    assert_eq!((tally(&stage, "x", Outcome::Numbers), tally(&stage, "x", Outcome::NumbersInvalid)), (2, 1));
    assert_eq!((tally(&stage, "x", Outcome::Unparsed), tally(&stage, "x", Outcome::Matched)), (1, 4));
    let meta = &found[0].batch.series.iter().flatten().find(|series| series.meta.kind == Kind::Histogram).unwrap().meta;
    assert_eq!((meta.temporality, meta.width_ms, &*meta.unit), (Temporality::Delta, 1_000, "s"));
}

#[test]
fn filters_follow_each_other_and_see_what_those_before_them_found() {
    let stage = stage(
        "[[filter]]\nname = 'parse'\nwhere = '{job=\"a\"}'\nparse = { regex = 'user (?<who>\\w+) (?<code>\\d+)' }\n\
         labels = { job = 'c', who = '{who}', severity = '' }\nline = '{code} of {who}'\n\
         [[filter]]\nname = 'drop'\nwhere = '{job=\"c\"} code>=500'\ndrop = true\n\
         [[filter]]\nname = 'count'\nwhere = 'who=bob'\nstore = false\nlast = true\n[[filter.count]]\nname = 'n'\n\
         [[filter]]\nname = 'end'\nwhere = '{job=\"c\"}'\ntenant = 't'",
    );
    let found =
        apply(&stage, batch(&[(0, "user amy 200"), (0, "user amy 500"), (0, "user bob 204"), (1, "user amy 500")]));
    assert_eq!(lines(&found), ["c: 200 of amy", "b: user amy 500"]);
    let tenants: Vec<_> = found.iter().map(|part| part.batch.tenant.as_str()).collect();
    assert_eq!(tenants, ["t", Tenant::DEFAULT_NAME]);
    assert_eq!(cells(&found).keys().collect::<Vec<_>>(), [r#"n{job="c", who="bob"}"#]);
    let labels = found[0].batch.series[0].as_ref().unwrap().labels.to_string();
    assert_eq!(labels, r#"log{job="c", who="amy"}"#);
    let counts = [("drop", Outcome::Dropped), ("count", Outcome::NotStored), ("end", Outcome::Routed)];
    assert_eq!(counts.map(|(filter, outcome)| tally(&stage, filter, outcome)), [1, 1, 1]);
}

#[test]
fn series_and_cells_are_bounded_and_what_is_beyond_is_counted() {
    let filters = "[[filter]]\nname = 'x'\nwhere = ''\nparse = 'logfmt'\n[[filter.count]]\nname = 'n'\nlabels = ['id']\nseries-max = 2";
    let stage = stage(filters);
    let same = |batch: &mut Batch| batch.samples.iter_mut().flatten().for_each(|sample| sample.time_ns = 5 * SECOND_NS);
    let mut five = batch(&[(0, "id=1"), (0, "id=2"), (0, "id=3"), (0, "id=4"), (0, "id=4"), (0, "id=1")]);
    same(&mut five);
    let found = cells(&apply(&stage, five));
    let counts: Vec<_> = found.values().map(|values| values[0].split('@').next().unwrap()).collect();
    assert_eq!((found.len(), counts, tally(&stage, "x", Outcome::Folded)), (3, vec!["2", "1", "3"], 3));
    let many: Vec<String> = (0..=CELLS_MAX).map(|_| "id=1".to_owned()).collect();
    let many: Vec<_> = many.iter().map(|line| (0, &**line)).collect();
    let found = apply(&stage, batch(&many));
    assert_eq!((found[0].batch.samples.len(), tally(&stage, "x", Outcome::CellsLimit)), (2 * CELLS_MAX + 1, 1));
}

#[test]
fn lines_that_are_too_long_are_stored_as_they_are() {
    let stage = stage("[[filter]]\nname = 'x'\nwhere = ''\nparse = 'logfmt'\n[[filter.count]]\nname = 'n'");
    let line = format!("a=1 {}", "x".repeat(LINE_BYTES_MAX));
    let found = apply(&stage, batch(&[(0, &line[..LINE_BYTES_MAX]), (0, &line)]));
    assert_eq!((lines(&found).len(), cells(&found).len(), tally(&stage, "x", Outcome::Unparsed)), (2, 1, 1));
}

#[test]
fn names_of_filters_are_there_once() {
    let two = "[[filter]]\nname = 'x'\nwhere = ''\n".repeat(2);
    assert!(Stage::new(File::parse(&two).unwrap().filters).unwrap_err().contains("two filters"));
}

/// Any file and any line: read or refused, and what is filtered can be encoded.
fn try_all(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (filters, line) = text.split_once('\u{1}').unwrap_or((&text, &text));
    let Ok(file) = File::parse(filters) else { return };
    let Ok(stage) = Stage::new(file.filters) else { return };
    for (_, case) in &file.cases {
        let _ = case.run(&stage);
    }
    if let Filtered::Changed(parts) = stage.apply(batch(&[(0, line), (1, line), (0, "\tgoes on")]), MonoNs(0)) {
        for part in parts {
            assert_eq!(part.batch.samples.len(), part.origins.len());
            part.batch.encode().unwrap();
        }
    }
}

/// Pieces of a container's messages, cut and changed anywhere: joined or not, what is stored can be encoded.
#[test]
fn any_pieces_end() {
    let stage = stage("[[filter]]\nname = 'x'\nwhere = ''\njoin = { pieces = 'container' }\nparse = 'container'");
    let lines = [
        "2026-01-01T00:00:00Z stdout P a\\ \n2026-01-01T00:00:01Z stdout F b",
        "{\"log\":\"a\\\\\",\"stream\":\"stdout\",\"time\":\"1\"}\n{\"log\":\"b\\n\",\"stream\":\"stdout\",\"time\":\"2\"}",
        "{\"body\":\"2026-01-01T00:00:00Z stderr P \\\"a\"}\n{\"body\":\"2026-01-01T00:00:00Z stderr F b\"}",
    ];
    for good in lines {
        mutations::mutations(good.as_bytes(), 500, 5, mutations::TEXT, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let lines: Vec<(u32, &str)> = text.split('\n').map(|line| (0, line)).collect();
            for Part { batch, origins, .. } in apply(&stage, batch(&lines)) {
                assert_eq!(batch.samples.len(), origins.len());
                batch.encode().unwrap();
            }
        });
    }
    assert!(tally(&stage, "x", Outcome::Joined) > 10);
}

/// Pieces of a message are joined up to a limit: what goes on then is a message of its own.
#[test]
fn pieces_are_joined_within_bounds_and_by_their_stream() {
    let stage = stage("[[filter]]\nname = 'x'\nwhere = '{job=\"a\"}'\njoin = { pieces = 'container' }");
    let piece = |flag: &str, stream: &str, text: &str| format!("2026-01-01T00:00:00Z {stream} {flag} {text}");
    let large = "x".repeat(EVENT_BYTES_MAX / 2);
    let given = [
        piece("P", "stdout", "a"),
        piece("P", "stderr", "b"),
        piece("F", "stdout", "c"),
        piece("F", "stderr", "d"),
        piece("P", "stdout", &large),
        piece("P", "stdout", &large),
        piece("F", "stdout", "e"),
        piece("F", "stdout", "f"),
    ];
    let given: Vec<(u32, &str)> = given.iter().map(|line| (0, &**line)).collect();
    let found = lines(&apply(&stage, batch(&given)));
    let expected = [
        piece("F", "stdout", "ac"),
        piece("F", "stderr", "bd"),
        piece("P", "stdout", &large),
        piece("F", "stdout", &format!("{large}e")),
        piece("F", "stdout", "f"),
    ];
    assert_eq!(found, expected.map(|line| format!("a: {line}")));
    assert_eq!(tally(&stage, "x", Outcome::Joined), 3);
}

#[test]
fn any_filter_and_any_line_end() {
    for name in ogive_filter::NAMES {
        let text = ogive_filter::text(name).unwrap();
        mutations::smoke(try_all, text.as_bytes(), 40, mutations::TEXT);
    }
    let formats = [
        (
            "parse = 'access'",
            r#"a.b:80 10.0.0.7 - bob [24/Nov/2026:02:03:04 +0000] "GET /a?x=1 HTTP/1.1" 200 512 "-" "c\"d" 0.5 rt=1, a="b c""#,
        ),
        (
            "parse = 'nginx-error'",
            r#"2026/11/24 02:03:04 [error] 1#1: *7 x, client: 1.1.1.1, server: _, request: "GET / HTTP/1.1", host: "h""#,
        ),
        ("parse = 'json'", r#"{"took":1.5,"b":{"c":["x",null,"\u00e4"]},"d":"e"}"#),
        ("parse = 'logfmt'", r#"took=1.5ms level=info msg="a \" b" x=y"#),
        ("parse = { csv = { columns = ['took', 'b'] } }", r#"1.5,"a ""b"" c""#),
        ("parse = { key-value = { separator = ':', between = ';' } }", "took: 1.5; b: \"c\""),
        ("parse = 'container'\ntime = 'time'", "2026-01-01T00:00:00.000000000Z stdout F took=1 a message"),
        (
            "parse = 'container'\nextract = [{ from = ['message', 'log'], parse = ['klog', 'logfmt'] }]",
            r#"{"log":"took=1 b=2\n","stream":"stdout","attrs":{"b":"x"},"time":"2026-01-01T00:00:00Z"}"#,
        ),
        ("parse = 'klog'", r#"I0101 00:00:00.000000 1 file.go:12] "msg \"x\"" took="1.5ms" b=2"#),
        ("parse = { grok = '%{IP:ip} %{NUMBER:took} %{QS:q} %{GREEDYDATA:rest}' }", r#"::1 1.5 "a" rest"#),
    ];
    for (parse, line) in formats {
        let file = format!(
            "[[filter]]\nname = 'x'\nwhere = ''\njoin = '^\\s'\nmask = ['email', 'card', 'password']\n{parse}\n\
             labels = {{ a = '{{took}}' }}\n[[filter.number]]\nname = 'took'\nfield = 'took'\nlabels = ['b']\n[[filter.count]]\nname = 'n'\n\
             [[filter.session]]\nname = 's'\nid = 'took'\nbegin = 'b=*'\nend = 'NOT b=*'\nopen-max = 1\nlabels = {{ c = '{{begin.b}}' }}\n\u{1}"
        );
        assert!(File::parse(file.trim_end_matches('\u{1}')).is_ok(), "{file}");
        // The line alone is changed: the file before it is good.
        for seed in 0..150_u64 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut bytes = line.as_bytes().to_vec();
            for _ in 0..random.usize(0..5) {
                let at = random.usize(0..=bytes.len());
                match random.u8(0..3) {
                    0 => bytes.truncate(at),
                    1 => bytes.insert(at, mutations::TEXT[random.usize(0..mutations::TEXT.len())]),
                    _ => bytes.splice(at.., []).for_each(drop),
                }
            }
            try_all(&[file.as_bytes(), &bytes].concat());
        }
    }
}
