//! `ogive hist` as a user runs it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn ogive(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ogive"))
        .args(arguments)
        .env_remove("OGIVE_COLOR")
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn json_has_exactly_the_fields_of_the_contract() {
    let output = ogive(&["hist", "--json", "-q", "0.5,1"], "1 2 3\n4ms 4000us,4000000ns\n");
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let value: serde_json::Value = serde_json::from_str(out(&output)).unwrap();
    let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = ["count", "sum", "min", "max", "mean", "quantiles", "b64"];
    expected.sort_unstable();
    assert_eq!(keys, expected);
    assert_eq!(value["count"], 6);
    assert_eq!(value["min"], 0.004);
    assert_eq!(value["max"], 3.0);
    assert!((value["sum"].as_f64().unwrap() - 6.012).abs() < 1e-12);
    let quantile = value["quantiles"][1].as_object().unwrap();
    assert_eq!(quantile.keys().map(String::as_str).collect::<Vec<_>>(), ["hi", "lo", "q", "value"]);
    assert_eq!(quantile["value"], 3.0);
}

#[test]
fn base64_merges_back_to_the_same_histogram() {
    let numbers: String = (0..1000).map(|i| format!("{}us\n", i * i)).collect();
    let (first, second) = numbers.split_at(numbers.len() / 2 + numbers[numbers.len() / 2..].find('\n').unwrap() + 1);
    let whole = ogive(&["hist", "--b64"], &numbers);
    let parts: String = [first, second].map(|part| out(&ogive(&["hist", "--b64"], part)).to_string()).concat();
    let merged = ogive(&["hist", "--merge", "--b64"], &parts);
    assert_eq!(merged.status.code(), Some(0), "{}", err(&merged));
    assert_eq!(out(&merged), out(&whole));
    let bad = ogive(&["hist", "--merge", "--json"], &format!("{parts}\nnot*base64\n"));
    assert_eq!(bad.status.code(), Some(1));
    assert!(err(&bad).contains("line 4") || err(&bad).contains("line 3"), "{}", err(&bad));
}

#[test]
fn bad_numbers_are_reported_with_their_line_and_skipped() {
    let output = ogive(&["hist", "--json"], "latency\n1\n2 x7 3parsec\nnan\n");
    assert_eq!(output.status.code(), Some(1));
    let value: serde_json::Value = serde_json::from_str(out(&output)).unwrap();
    assert_eq!(value["count"], 2);
    let beyond = ogive(&["hist", "--json"], "1\n1e300\n-1e128\n2\n");
    assert_eq!(beyond.status.code(), Some(1), "{}", err(&beyond));
    let found: serde_json::Value = serde_json::from_str(out(&beyond)).unwrap();
    assert_eq!((&found["count"], &found["max"]), (&2.into(), &2.0.into()), "{found}");
    assert!(err(&beyond).contains("line 2: \"1e300\": beyond what a histogram counts"), "{}", err(&beyond));
    assert!(err(&beyond).contains("line 3: \"-1e128\""), "{}", err(&beyond));
    for part in ["line 1: \"latency\"", "line 3: \"x7\"", "parsec", "line 4: \"nan\""] {
        assert!(err(&output).contains(part), "{part} is not in {}", err(&output));
    }
    let many = ogive(&["hist"], &"x\n".repeat(1000));
    assert!(err(&many).contains("990 more"), "{}", err(&many));
    assert_eq!(err(&many).lines().count(), 11);
    let strict = ogive(&["hist", "--strict"], "1\nx\n2\n");
    assert_eq!((strict.status.code(), out(&strict)), (Some(1), ""));
    assert!(err(&strict).contains("line 2"));
}

/// `5 ms` was read as 5 without a unit, and a complaint about `ms`.
#[test]
fn a_unit_may_be_a_word_of_its_own() {
    let check = |input: &str, sum: f64, unit: &str| {
        let output = ogive(&["hist", "--json"], input);
        assert_eq!((output.status.code(), err(&output)), (Some(0), ""), "{input}");
        let value: serde_json::Value = serde_json::from_str(out(&output)).unwrap();
        assert!((value["sum"].as_f64().unwrap() - sum).abs() <= 1e-12 * sum, "{input}: {value}");
        assert!(out(&ogive(&["hist"], input)).contains(unit), "{input}");
    };
    check("5 ms\n7 ms", 0.012, "ms");
    check("5 ms 7 us, 1.5 s", 1.505_007, "s");
    check("1. KiB", 1024.0, "k");
    check("3 k\n2 M", 2_003_000.0, "M");
    // On its line: the unit of the next line is nobody's.
    let output = ogive(&["hist", "--json"], "5\nms\n6 x\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("line 2: \"ms\"") && err(&output).contains("line 3: \"x\""), "{}", err(&output));
    let value: serde_json::Value = serde_json::from_str(out(&output)).unwrap();
    assert_eq!((&value["count"], &value["sum"]), (&2.into(), &11.0.into()));
}

#[test]
fn units_of_two_dimensions_do_not_mix() {
    let output = ogive(&["hist", "--json"], "1ms\n1KiB\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("line 2") && err(&output).contains("split"), "{}", err(&output));
}

#[test]
fn the_picture_fits_and_knows_its_terminal() {
    let numbers: String = (1..500).map(|i| format!("{i}ms\n")).collect();
    let plain = ogive(&["hist"], &numbers);
    assert!(out(&plain).contains('█') && out(&plain).contains("p99"), "{}", out(&plain));
    assert!(!out(&plain).contains('\x1b'));
    assert!(out(&plain).lines().all(|line| line.chars().count() <= 80), "{}", out(&plain));
    let ascii = ogive(&["hist", "--ascii"], &numbers);
    assert!(out(&ascii).is_ascii(), "{}", out(&ascii));
    assert!(out(&ogive(&["--color", "always", "hist"], &numbers)).contains('\x1b'));
}

#[test]
fn empty_input_is_no_error() {
    let output = ogive(&["hist", "--json"], "");
    assert_eq!(output.status.code(), Some(0));
    let value: serde_json::Value = serde_json::from_str(out(&output)).unwrap();
    assert_eq!((&value["count"], &value["mean"], &value["b64"]), (&0.into(), &serde_json::Value::Null, &"AAA=".into()));
    assert!(out(&ogive(&["hist"], "")).contains("no numbers"));
}

#[test]
fn wrong_usage_is_exit_code_two() {
    for arguments in
        [&["hist", "--quantiles", "1.5"][..], &["hist", "--unit", "parsec"], &["nothing"], &["hist", "--json", "--b64"]]
    {
        assert_eq!(ogive(arguments, "").status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(ogive(&["--version"], "").status.code(), Some(0));
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let output = ogive(&["completions", shell], "");
        assert_eq!(output.status.code(), Some(0));
        assert!(out(&output).contains("hist"), "{shell}");
    }
}

fn vector(name: &str) -> String {
    format!("{}/../../vectors/hdrhistogram/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn interval_logs_are_read() {
    let output = ogive(&["hist", "--hlog", &vector("jhiccup.hlog"), "--json", "-q", "0.5,1"], "");
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let value: serde_json::Value = serde_json::from_str(out(&output)).unwrap();
    assert!(value["count"].as_u64().unwrap() > 5000, "{value}");
    // The log says 960.496 ms; its bins keep that within a hundredth, decimal ones would not.
    let last = &value["quantiles"][1];
    let (lo, hi) = (last["lo"].as_f64().unwrap(), last["hi"].as_f64().unwrap());
    assert!(lo <= 0.960496 && 0.960495 <= hi && hi / lo < 1.008, "{last}");
    assert!(
        err(&output).contains("10 intervals") && err(&output).contains("as decimal bins within"),
        "{}",
        err(&output)
    );
    let tagged = ogive(&["hist", "--hlog", "--tag", "B", &vector("tagged.hlog"), "--json"], "");
    assert!(err(&tagged).contains("2 intervals") && err(&tagged).contains("4 with other tags"), "{}", err(&tagged));
    let text = std::fs::read_to_string(vector("tagged.hlog")).unwrap();
    let bad = ogive(&["hist", "--hlog", "--json"], &format!("{text}nonsense\n"));
    assert_eq!(bad.status.code(), Some(1));
    assert!(err(&bad).contains("line 9") && err(&bad).contains("6 intervals"), "{}", err(&bad));
}

#[test]
fn diff_says_how_much_slower_and_whether_it_is_chance() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let numbers = |factor: f64| -> String {
        let value = |step: u32| 100.0 * factor * (f64::from(step % 997) / 300.0).exp();
        (0..20_000_u32).map(|step| format!("{:.3}us\n", value(step))).collect()
    };
    let (before, after) = (file("before", &numbers(1.0)), file("after", &numbers(1.2)));
    let output = ogive(&["hist", "diff", &before, &after], "");
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(out(&output).contains("slower than before") && out(&output).contains("20,000"), "{}", out(&output));
    let output = ogive(&["hist", "diff", "--json", &before, &after], "");
    let value: serde_json::Value = serde_json::from_str(out(&output)).unwrap();
    assert!((value["slower"].as_f64().unwrap() - 0.2).abs() < 0.02 && value["differ"] == true, "{value}");
    assert_eq!((&value["modes"][0], &value["counts"][1]), (&1.into(), &20_000.0.into()));
    let same = ogive(&["hist", "diff", &before, "-"], &numbers(1.0));
    assert_eq!(same.status.code(), Some(0), "{}", err(&same));
    assert!(out(&same).contains("within its noise floor"), "{}", out(&same));
    // A thousand numbers a tenth greater: more than twice the floor, less than three times.
    let thousand = |factor: f64| -> String {
        let value = |step: u32| factor * (f64::from(step * 619 % 1_000) / 300.0).exp();
        (0..1_000_u32).map(|step| format!("{:.6}\n", value(step))).collect()
    };
    let small = file("small", &thousand(1.0));
    let value = |arguments: &[&str], factor: f64| -> serde_json::Value {
        let arguments = [&["hist", "diff", "--json", &small, "-"], arguments].concat();
        let output = ogive(&arguments, &thousand(factor));
        let value: serde_json::Value = serde_json::from_str(out(&output)).unwrap();
        assert_eq!(output.status.code(), Some(i32::from(value["differ"] == true)), "{value}");
        value
    };
    for factor in [1.0, 1.05, 1.1, 1.15, 1.2] {
        for floors in ["2", "3", "2.5"] {
            let found = value(&["--floors", floors], factor);
            let times = found["times"].as_f64().unwrap();
            assert_eq!(found["differ"], times > floors.parse::<f64>().unwrap(), "{factor}, {floors}: {found}");
        }
    }
    // "No difference" stood beside a distance above its floor.
    let mut undecided = 0;
    for percent in 100..115 {
        let factor = f64::from(percent) / 100.0;
        let (found, shown) = (value(&[], factor), ogive(&["hist", "diff", &small, "-"], &thousand(factor)));
        let times = found["times"].as_f64().unwrap();
        assert_eq!(out(&shown).contains("no difference"), times <= 1.0, "{}", out(&shown));
        assert_eq!(out(&shown).contains("undecided"), 1.0 < times && times <= 2.0, "{}", out(&shown));
        assert_eq!(found["undecided"], 1.0 < times && times <= 2.0, "{found}");
        undecided += u32::from(found["undecided"] == true);
    }
    assert!(undecided > 0);
    assert_eq!(value(&[], 1.1)["differ"], true);
    let shown = ogive(&["hist", "diff", &small, "-"], &thousand(1.1));
    assert!(out(&shown).contains("greater than before; chance alone"), "{}", out(&shown));
    let bytes = ogive(&["hist", "diff", &before, "-"], "5KiB");
    assert!(
        bytes.status.code() == Some(1) && err(&bytes).contains("one file is in s, the other in B"),
        "{}",
        err(&bytes)
    );
    let empty = ogive(&["hist", "diff", &before, "-"], "");
    assert!(err(&empty).contains("holds no numbers"), "{}", err(&empty));
    let log = vector("jhiccup.hlog");
    let logs = ogive(&["hist", "diff", "--hlog", &log, &log], "");
    assert!(logs.status.code() == Some(0) && out(&logs).contains("distance 0.0000"), "{}", out(&logs));
}

#[test]
fn fields_of_lines_are_read() {
    let count_and_sum = |arguments: &[&str], input: &str| {
        let output = ogive(&[&["hist", "--json"], arguments].concat(), input);
        let value: serde_json::Value = serde_json::from_str(out(&output)).unwrap();
        (value["count"].as_u64().unwrap(), value["sum"].as_f64().unwrap(), output)
    };
    let lines = "{\"took\":\"5 ms\",\"a\":{\"took\":9}}\n{\"took\":\"7ms\"}\nlevel=info took=8ms path=/took\n\nno field here\n{\"a\":{\"took\":1}}\n";
    let (count, sum, output) = count_and_sum(&["--field", "took"], lines);
    assert!(count == 3 && (sum - 0.020).abs() < 1e-12, "{count} {sum}");
    assert_eq!((output.status.code(), err(&output)), (Some(0), "ogive hist: 2 lines have no field \"took\"\n"));
    let (count, sum, _) = count_and_sum(&["--field", "a.took", "--unit", "ms"], lines);
    assert!(count == 2 && (sum - 0.010).abs() < 1e-12, "{count} {sum}");
    let (count, _, output) = count_and_sum(&["--field", "level"], lines);
    assert!(
        count == 0 && output.status.code() == Some(1) && err(&output).contains("line 3: \"info\""),
        "{}",
        err(&output)
    );
    // Every match of a line, by its first group.
    let ping = "64 bytes from ::1: icmp_seq=1 time=0.031 ms\nstatistics\nrtt time=2 ms time=3 ms\n";
    let (count, sum, output) = count_and_sum(&["--regex", "time=([0-9.]+ ?m?s)"], ping);
    assert!(count == 3 && (sum - 0.005_031).abs() < 1e-12, "{count} {sum}");
    assert!(err(&output).contains("1 line has nothing that matches \"time="), "{}", err(&output));
    let (count, _, _) = count_and_sum(&["--regex", "[0-9]+ms"], "a 5ms b 6ms\n");
    assert_eq!(count, 2);
    // A line that is longer than what is looked at costs no memory, and its neighbours live.
    let long = format!("took=1ms {}\ntook=2ms\n", "x".repeat(3 << 20));
    assert_eq!(count_and_sum(&["--field", "took"], &long).0, 2);
    assert_eq!(ogive(&["hist", "--regex", "("], "").status.code(), Some(2));
    assert_eq!(ogive(&["hist", "--regex", "a", "--field", "b"], "").status.code(), Some(2));
}

#[test]
fn what_is_out_of_range_is_said_once_with_a_count() {
    let input = format!("1\n{}-1e200\n3\n", "1e300\n".repeat(40));
    let output = ogive(&["hist", "--json"], &input);
    let value: serde_json::Value = serde_json::from_str(out(&output)).unwrap();
    assert_eq!((output.status.code(), &value["count"], &value["max"]), (Some(1), &2.into(), &3.0.into()));
    let said = "41 numbers (-1e200 to 1e300) are beyond what a histogram counts";
    assert_eq!(err(&output).matches(said).count(), 1, "{}", err(&output));
}
