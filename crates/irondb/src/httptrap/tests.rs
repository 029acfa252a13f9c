use ogive_hist::openhistogram;
use ogive_model::SourceId;
use proptest::prelude::*;

use super::*;

const NOW_NS: i64 = 1_700_000_000_000_000_000;
const CHECK: &str = "8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e";

fn trapped(body: &str) -> Result<Trapped, Refused> {
    let options = Options { check: CHECK, now_ns: NOW_NS, names: Names::Utf8 };
    read(body.as_bytes(), &Tenant::default(), BatchId { source: SourceId(1), sequence: 1 }, &options, &mut |name| {
        name != "refused"
    })
}

/// Each sample as `labels without the check @ milliseconds after NOW = value`, histograms by their bins.
fn lines(body: &str) -> Vec<String> {
    let trapped = trapped(body).expect("it is taken");
    let series = |number: u32| trapped.batch.series[number as usize].as_ref().unwrap();
    let line = |sample: &ogive_model::Sample| {
        let series = series(sample.series);
        let labels = series.labels.to_string().replace(&format!("check_uuid=\"{CHECK}\", "), "");
        let labels = labels.replace(&format!("{{check_uuid=\"{CHECK}\"}}"), "");
        let value = match &sample.value {
            Value::Float(number) => number.to_string(),
            Value::Text(text) => format!("{text:?}"),
            Value::Histogram(histogram) => {
                format!("{:?} {}", series.meta.temporality, openhistogram::encode_base64(histogram).unwrap())
            }
            Value::FloatHistogram(_) => unreachable!("HTTPTrap has none"),
        };
        format!("{labels} @ {} = {value}", (sample.time_ns - NOW_NS) / 1_000_000)
    };
    trapped.batch.samples.iter().map(|sample| line(sample.as_ref().unwrap())).collect()
}

#[test]
fn keys_lead_to_names() {
    let body = r#"{"a": 1, "b": {"c": 2.5, "d": [3, {"e": "x"}]}, "t": true, "none": null}"#;
    assert_eq!(lines(body), ["a @ 0 = 1", "b`c @ 0 = 2.5", "b`d`0 @ 0 = 3", "b`d`1`e @ 0 = \"x\"", "t @ 0 = 1"]);
}

#[test]
fn types_times_and_tags_are_taken() {
    let body = r#"{"n|ST[host:a,dc:1]": {"_value": "42", "_type": "L", "_ts": 1700000001000},
                   "s": {"_type": "s", "_value": "word"}, "i": {"_ts": "1700000002000", "_type": "i", "_value": -7}}"#;
    assert_eq!(
        lines(body),
        ["n{dc=\"1\", host=\"a\"} @ 1000 = 42", "s @ 0 = \"word\"", "i @ 2000 = -7"].map(|line| line.to_owned())
    );
}

/// A gauge of go-trapmetrics whose caller gave no time came with the time 0, was stored in 1970, and seen by nobody.
#[test]
fn time_zero_is_no_time() {
    let body = r#"{"g": {"_type": "n", "_ts": 0, "_value": 1}, "s": {"_ts": "0", "_type": "s", "_value": "on"}, "n": {"_ts": null, "_value": 2}}"#;
    assert_eq!(lines(body), ["g @ 0 = 1", "s @ 0 = \"on\"", "n @ 0 = 2"]);
}

/// The clients' own vector: one, two and three once, four 120 times.
#[test]
fn histograms_have_four_forms() {
    const VECTOR: &str = "AAQKAAABFAAAAR4AAAEoAAB4";
    let forms = [
        format!("{VECTOR:?}"),
        r#"["H[1.0e+00]=1", "H[2]=1", "H[3.0]=1", "H[4.0e+00]=100", "H[4]=20"]"#.to_owned(),
        format!(r#"[1, 2, 3, {}]"#, ["4"; 120].join(",")),
        r#"["AAMKAAABFAAAAR4AAAE=", "H[4]=120"]"#.to_owned(),
    ];
    for form in forms {
        assert_eq!(
            lines(&format!(r#"{{"h": {{"_type": "h", "_value": {form}}}}}"#)),
            [format!("h @ 0 = Delta {VECTOR}")]
        );
        let body = format!(r#"{{"h": {{"_type": "H", "_value": {form}, "_ts": 1700000003000}}}}"#);
        assert_eq!(lines(&body), [format!("h @ 3000 = Cumulative {VECTOR}")]);
    }
}

#[test]
fn repeated_keys_and_documents_are_measurements() {
    let body = r#"{"a": {"_type": "n", "_ts": 1700000001000, "_value": 1}, "a": {"_type": "n", "_ts": 1700000002000, "_value": 2}}
                  {"a": 3} {"b": 4}"#;
    assert_eq!(lines(body), ["a @ 1000 = 1", "a @ 2000 = 2", "a @ 0 = 3", "b @ 0 = 4"]);
    let body = r#"{"a": {"_fl": "+", "_type": "n", "_value": [1, 2]}, "a": {"_fl": "+", "_type": "n", "_value": 4},
                   "m": {"_fl": "~", "_type": "n", "_value": 1}, "m": {"_fl": "~", "_type": "n", "_value": 2}}"#;
    assert_eq!(lines(body), ["a @ 0 = 7", "m @ 0 = 1.5"]);
}

#[test]
fn a_bad_metric_spoils_only_itself() {
    let body = r#"{"a": 1, "t": {"_type": "q", "_value": 1}, "t5": {"_type": 5, "_value": 1}, "v": {"_type": "n", "_value": "x"}, "o": {"_type": "n", "_value": {"x": 1}},
                   "h": {"_type": "h", "_value": "***"}, "z": {"_type": "n", "_value": 1, "_ts": -5}, "refused": 1, "": 2, "k|ST[x": 3,
                   "b": {"_type": "n", "_fl": 2, "_value": 2}}"#;
    let trapped = trapped(body).unwrap();
    assert_eq!((trapped.metrics, trapped.batch.samples.len(), trapped.faults.total()), (2, 2, 9));
    let faults: Vec<_> = trapped.details.iter().map(|(name, fault)| (&**name, *fault)).collect();
    let expected = [
        ("t", Fault::Type),
        ("t5", Fault::Type),
        ("v", Fault::Value),
        ("o", Fault::Value),
        ("h", Fault::Value),
        ("z", Fault::Time),
        ("refused", Fault::Cells),
        ("", Fault::Name),
        ("k|ST[x", Fault::Tags),
    ];
    assert_eq!(faults, expected);
}

/// go-trapmetrics quotes names by Go's rules, and prints a gauge that is no number as Go does.
#[test]
fn what_go_writes_is_read() {
    let body = r#"{"bell\a\x01": {"_type": "n", "_value": 1}, "nan": {"_type": "n", "_value": NaN}, "b": {"_type": "n", "_value": 2e+06}}"#;
    assert_eq!(lines(body).len(), 2);
    assert_eq!(lines(body)[1], "b @ 0 = 2000000");
}

#[test]
fn what_is_no_json_is_refused_whole() {
    for body in ["", "  ", "[1]", "7", r#"{"a": 1"#, r#"{"a": 1} x"#, r#"{"a": nan}"#] {
        assert!(matches!(trapped(body), Err(Refused::Malformed(_))), "{body}");
    }
    let deep = |levels: usize| format!("{{\"a\":{}1{}}}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(lines(&deep(DEPTH_MAX - 1)).len(), 1);
    for body in [deep(DEPTH_MAX), deep(100_000), format!(r#"{{"a": {{"_value": {}}}}}"#, "[".repeat(100_000))] {
        assert!(matches!(trapped(&body), Err(Refused::Malformed(_))));
    }
}

proptest! {
    /// Bytes of any kind, and mutations of a body that is right, never panic.
    #[test]
    fn hostile_bytes_end_in_an_error(position in 0_usize..200, byte: u8, cut in 0_usize..200, noise in prop::collection::vec(any::<u8>(), 0..40)) {
        let mut body = br#"{"a|ST[b:c]": {"_type": "h", "_ts": 1700000001000, "_fl": "+", "_value": ["H[1.2e-3]=5", "AAQKAAABFAAAAR4AAAEoAAB4", 7]}, "l": [1, {"x": "y"}]}"#.to_vec();
        let at = position % body.len();
        body[at] = byte;
        body.truncate(body.len() - cut % 40);
        body.extend(noise);
        let options = Options { check: CHECK, now_ns: NOW_NS, names: Names::Underscore };
        let _ = read(&body, &Tenant::default(), BatchId { source: SourceId(1), sequence: 1 }, &options, &mut |_| true);
    }
}
