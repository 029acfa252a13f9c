//! The notation has the meaning that its description gives it.

use ogive_hist::{CounterReset, Scheme};

use crate::support::compare::almost;
use crate::support::notation::{millis, series_line};
use crate::support::points::{Point, is_stale, parse};
use crate::support::script::{self, CommandKind, Times};

fn floats(text: &str) -> Vec<f64> {
    let one = |point| match point {
        Point::Float(value) => value,
        other => panic!("{other:?}"),
    };
    parse(text).unwrap().into_iter().map(one).collect()
}

#[test]
fn numbers_repeat_and_step() {
    assert_eq!(floats("3 -1.5e3 0x1f 1x2"), [3.0, -1500.0, 31.0, 1.0, 1.0, 1.0]);
    assert_eq!(floats("0x2 1+2x2 5-2x2 -1-1x1"), [0.0, 0.0, 0.0, 1.0, 3.0, 5.0, 5.0, 3.0, 1.0, -1.0, -2.0]);
    assert_eq!(floats("1e+2 Inf -Inf"), [100.0, f64::INFINITY, f64::NEG_INFINITY]);
    assert_eq!(parse("_ _x2").unwrap(), vec![Point::Missing; 3]);
    assert!(is_stale(floats("stale")[0]) && !is_stale(floats("NaN")[0]));
    for wrong in ["x", "1x", "--1", "1+x2", "{{schema:0", "{{a:1}}", "1x999999"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn histograms_have_their_parts() {
    let text = "{{schema:1 count:5 sum:-2 z_bucket:1 z_bucket_w:0.5 offset:-1 buckets:[1 2] n_buckets:[1] \
                counter_reset_hint:gauge}}+{{schema:1 count:1 buckets:[1]}}x1";
    let points = parse(text).unwrap();
    let [Point::Histogram(first, true), Point::Histogram(second, true)] = points.as_slice() else {
        panic!("{points:?}")
    };
    assert_eq!((&first.scheme, first.count, first.sum), (&Scheme::Exp2 { scale: 1 }, 5.0, Some(-2.0)));
    assert_eq!((first.zero, first.zero_threshold, first.reset), (1.0, 0.5, CounterReset::Gauge));
    assert_eq!(first.positive.iter().collect::<Vec<_>>(), [(-1, 1.0), (0, 2.0)]);
    assert_eq!(first.negative.iter().collect::<Vec<_>>(), [(0, 1.0)]);
    assert_eq!((second.count, second.positive.get(0)), (6.0, 3.0));
    assert!(matches!(parse("{{}}x1").unwrap().as_slice(), [Point::Histogram(_, false), Point::Histogram(_, false)]));
}

#[test]
fn series_lines_have_labels_and_start_times() {
    let line = series_line("m{b=\"}\", a='x'} 1 _").unwrap();
    assert_eq!((line.labels.to_string().as_str(), line.points.len()), ("m{a=\"x\", b=\"}\"}", 2));
    assert_eq!(series_line("{} 1").unwrap().labels.len(), 0);
    assert_eq!(series_line("{\"a.b\",} 1").unwrap().labels.metric_name(), "a.b");
    assert_eq!(series_line("m {{}}").unwrap().points.len(), 1);
    let starts = series_line("m{a=\"x\"}@st _ -30s-1mx2 0s _x2").unwrap().starts.unwrap();
    assert_eq!(starts, [None, Some(-30_000), Some(-90_000), Some(-150_000), Some(0), None, None]);
}

#[test]
fn blocks_end_at_blank_lines_and_comments() {
    let text =
        "load 5m\n  a 1\n# note\n\nclear\neval range from -1m to 10 step 1m30s a + b\n expect warn msg: x y\n a 1 2\n";
    let commands = script::parse(text).unwrap();
    assert_eq!(commands.iter().map(|command| command.line).collect::<Vec<_>>(), [1, 5, 6]);
    let CommandKind::Eval(eval) = &commands[2].kind else { panic!("{commands:?}") };
    assert!(matches!(eval.times, Times::Range { start: -60_000, end: 10_000, step: 90_000 }));
    assert_eq!((eval.query.as_str(), eval.expect.series.len()), ("a + b", 1));
    assert!(eval.expect.warn[0].accepts("x y") && !eval.expect.warn[0].accepts("x y z"));
    for wrong in ["load x", "eval instant 5 a", "what", "load 1m\n a{ 1", "eval instant at 1 a\n expect what"] {
        assert!(script::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn floats_compare_with_their_kind_of_nan() {
    assert!(almost(1.0, 1.000_001) && !almost(1.0, 1.000_01));
    assert!(almost(f64::NAN, -f64::NAN) && !almost(f64::NAN, f64::from_bits(ogive_model::STALE)));
    assert!(almost(f64::INFINITY, f64::INFINITY) && !almost(f64::INFINITY, f64::MAX));
    assert!(!almost(0.0, 1e-300) && almost(0.0, -0.0));
    assert_eq!((millis("1m30s"), millis("-5"), millis("+1m")), (Ok(90_000), Ok(-5000), Ok(60_000)));
}

#[test]
fn old_forms_of_expectations_are_read() {
    let text = "eval_fail instant at 1m a\n expected_fail_message m n\n\neval_fail range from 0 to 1 step 1 a\n \
                expected_fail_regexp ^m.*$\n\neval_ordered instant at 1 a\n a 1\n\neval_warn instant at 1 a\n 1\n\n\
                eval_info instant at 1 a\n expect string `b`\n";
    let text = text.replace("\n ", "\n").replace("                ", "");
    let commands = script::parse(&text).unwrap();
    let expects: Vec<_> = commands
        .iter()
        .map(|command| match &command.kind {
            CommandKind::Eval(eval) => &eval.expect,
            other => panic!("{other:?}"),
        })
        .collect();
    let fails = |at: usize, text: &str| expects[at].fail.as_ref().is_some_and(|rule| rule.accepts(text));
    assert!(fails(0, "m n") && !fails(0, "m n o"));
    assert!(fails(1, "mxyz") && !fails(1, "xm"));
    assert!(expects[2].ordered && expects[2].series.len() == 1);
    assert!(expects[3].warn.len() == 1 && expects[3].scalar == Some(1.0));
    assert!(expects[4].info.len() == 1 && expects[4].string.as_deref() == Some("b"));
}
