//! Cases written from the specifications, good and bad, for each form.

use ogive_model::MetricKind;
use ogive_model::Temporality::{Cumulative, Gauge};
use proptest::prelude::*;

use super::*;
use crate::protobuf::write;
use crate::remote_write::Counts;

const OPEN: Format = Format::OpenMetrics { version: 1 };
const DRAFT: Format = Format::OpenMetrics { version: 2 };
const TEXT: Format = Format::Text { is_whole: false };

/// A point as one line: labels, value, time, start, exemplars.
fn reported(point: &Point<'_>) -> String {
    let mut labels = point.series.labels();
    labels.sort();
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    let value = match &point.value {
        Value::Float(value) => value.to_string(),
        Value::Histogram(Ok(Counts::Integer(h))) => format!("{} in {} bins of {}", h.count, h.positive.len(), h.scheme),
        Value::Histogram(Ok(Counts::Float(h))) => format!("~{} in {} bins of {}", h.count, h.positive.len(), h.scheme),
        Value::Histogram(Err(rule)) => format!("broken: {rule}"),
    };
    let kind = if point.temporality == Cumulative { "+" } else { "" };
    let time = point.time_ms.map_or_else(String::new, |ms| format!(" @{ms}"));
    let start = point.start_ms.map_or_else(String::new, |ms| format!(" since {ms}"));
    let events = point.exemplars.iter().map(|exemplar| format!(" # {:?} {}", exemplar.labels, exemplar.value));
    format!("{} {kind}{value}{time}{start}{}", labels.join(","), events.collect::<String>())
}

fn points(format: Format, body: &str) -> Vec<String> {
    let read = decode(format, body.as_bytes()).unwrap_or_else(|error| panic!("{body}\n{error}"));
    read.points.iter().map(reported).collect()
}

#[track_caller]
fn check(format: Format, body: &str, expected: &[&str]) {
    assert_eq!(points(format, body), expected, "{body}");
}

#[track_caller]
fn refuse(format: Format, body: &str, word: &str) {
    match decode(format, body.as_bytes()) {
        Ok(read) => panic!("{body:?} was taken: {:?}", read.points.iter().map(reported).collect::<Vec<_>>()),
        Err(error) => assert!(error.to_string().contains(word), "{body:?}: {error}, which does not say {word:?}"),
    }
}

#[test]
fn the_text_format_is_read() {
    let body = "# HELP http_total Requests, all of\\nthem \\\\ here.\n# TYPE http_total counter\n\
        http_total{method=\"post\",code=\"200\"} 1027 1395066363000\n\
        http_total { method = \"get\" , } 3\t-3982045\n\n\
        # anything may stand here\n#\n\
        path{p=\"C:\\\\D\\\"x\\\"\\n\\q\"} 1.458255915e9\n\
        # TYPE rpc summary\nrpc{quantile=\"0.5\"} 4773\nrpc{quantile=\"1\"} NaN\nrpc_sum 1.7560473e+07\nrpc_count 2693\n\
        # TYPE lat histogram\nlat_bucket{le=\"1\"} 2\nlat_bucket{le=\"+Inf\"} 5\nlat_sum 0.5\nlat_count 5\n\
        # TYPE temperature_total gauge\ntemperature_total -Inf\nuntold_total 1e308\n";
    check(
        TEXT,
        body,
        &[
            r#"__name__="http_total",code="200",method="post" +1027 @1395066363000"#,
            r#"__name__="http_total",method="get" +3 @-3982045"#,
            r#"__name__="path",p="C:\\D\"x\"\n\\q" 1458255915"#,
            r#"__name__="rpc",quantile="0.5" 4773"#,
            r#"__name__="rpc",quantile="1.0" NaN"#,
            r#"__name__="rpc_sum" +17560473"#,
            r#"__name__="rpc_count" +2693"#,
            r#"__name__="lat_bucket",le="1.0" +2"#,
            r#"__name__="lat_bucket",le="+Inf" +5"#,
            r#"__name__="lat_sum" +0.5"#,
            r#"__name__="lat_count" +5"#,
            r#"__name__="temperature_total" -inf"#,
            &format!(r#"__name__="untold_total" +{}"#, 1e308),
        ],
    );
    let read = decode(TEXT, body.as_bytes()).unwrap();
    assert_eq!(read.families[0].help, "Requests, all of\nthem \\ here.");
    let kinds: Vec<_> = read.families.iter().map(|family| (&*family.name, family.kind.as_str())).collect();
    assert_eq!(
        kinds,
        [("http_total", "counter"), ("rpc", "summary"), ("lat", "histogram"), ("temperature_total", "gauge")]
    );
}

#[test]
fn names_of_any_characters_are_quoted() {
    let body = "# TYPE \"my.requests\" counter\n{\"my.requests\",\"a.b\"=\"1\",c=\"2\"} 3\n{d=\"é\",\"\\\"x\\\"\"} 4\n";
    check(TEXT, body, &[r#"__name__="my.requests",a.b="1",c="2" +3"#, "__name__=\"\\\"x\\\"\",d=\"é\" 4"]);
    check(OPEN, "# TYPE \"a.b\" gauge\n{\"a.b\",x=\"1\"} 1\n# EOF\n", &[r#"__name__="a.b",x="1" 1"#]);
    refuse(TEXT, "{\"a\",\"b\"} 1\n", "name already");
    refuse(TEXT, "{a=\"b\"} 1\n", "no name");
    refuse(TEXT, "my.requests 3\n", "need quotes");
}

#[test]
fn bad_text_names_its_line() {
    for (body, word) in [
        ("a 1\nb 2", "line 2: the last line has no end"),
        ("a\n", "no value"),
        ("a \n", "no value"),
        ("a{b=\"c\"}\n", "no value"),
        ("a{b=c} 1\n", "not quoted"),
        ("a{b='c'} 1\n", "not quoted"),
        ("a{b=\"c} 1\n", "not closed"),
        ("a{b=\"c\" 1\n", "not separated"),
        ("a{b=\"c\"d=\"e\"} 1\n", "not separated"),
        ("a{b} 1\n", "no value"),
        ("a{=\"c\"} 1\n", "missing"),
        ("a{0b=\"c\"} 1\n", "missing"),
        ("0a 1\n", "no name"),
        ("a 1 2 3\n", "behind the time"),
        ("a 1 2.5\n", "whole number of milliseconds"),
        ("a 1 99999999999999999999\n", "whole number of milliseconds"),
        ("a 0x10\n", "not a number"),
        ("a 1e999\n", "not a number"),
        ("a 1_000\n", "not a number"),
        ("# TYPE a meter\n", "not known"),
        ("# TYPE\n", "missing"),
    ] {
        refuse(TEXT, body, word);
    }
    check(Format::Text { is_whole: true }, "a 1\r\nb 2", &["__name__=\"a\" 1", "__name__=\"b\" 2"]);
    let error = decode(TEXT, b"a 1\nb{c=\"\xff\"} 1\n").unwrap_err();
    assert_eq!(error.to_string(), "line 2: the bytes are not UTF-8");
}

#[test]
fn openmetrics_is_read_whole() {
    let body = "# TYPE acme_http_seconds summary\n# UNIT acme_http_seconds seconds\n# HELP acme_http_seconds Of \\\"all\\\"\n\
        acme_http_seconds_count{path=\"/a\"} 807283.0\nacme_http_seconds_sum{path=\"/a\"} 234.5\n\
        acme_http_seconds_created{path=\"/a\"} 1605281325.5\nacme_http_seconds{path=\"/b\",quantile=\"0.5\"} NaN\n\
        # TYPE foo counter\nfoo_total{a=\"b\"} 17.0 1520879607.789 # {trace_id=\"é1\"} 0.5 1520879606.1\n\
        # TYPE h histogram\nh_bucket{le=\"0.1\"} 8.0 # {} 0.054\nh_bucket{le=\"+Inf\"} 17.0\nh_count 17.0\nh_sum 324.0\n\
        h_created 1520430000.123\n\
        # TYPE g gaugehistogram\ng_bucket{le=\"-1\"} 2\ng_bucket{le=\"+Inf\"} 3\ng_gcount 3\ng_gsum -4\n\
        # TYPE s stateset\ns{e=\"1\",s=\"a\"} 1\ns{e=\"1\",s=\"b\"} 0\ns{e=\"2\",s=\"a\"} 0\n\
        # TYPE i info\ni_info{version=\"8\"} 1\nfree -Inf\n# EOF\n";
    check(
        OPEN,
        body,
        &[
            r#"__name__="acme_http_seconds_count",path="/a" +807283 since 1605281325500"#,
            r#"__name__="acme_http_seconds_sum",path="/a" +234.5 since 1605281325500"#,
            r#"__name__="acme_http_seconds",path="/b",quantile="0.5" NaN"#,
            r#"__name__="foo_total",a="b" +17 @1520879607789 # [("trace_id", "é1")] 0.5"#,
            r#"__name__="h_bucket",le="0.1" +8 since 1520430000123 # [] 0.054"#,
            r#"__name__="h_bucket",le="+Inf" +17 since 1520430000123"#,
            r#"__name__="h_count" +17 since 1520430000123"#,
            r#"__name__="h_sum" +324 since 1520430000123"#,
            r#"__name__="g_bucket",le="-1.0" 2"#,
            r#"__name__="g_bucket",le="+Inf" 3"#,
            r#"__name__="g_gcount" 3"#,
            r#"__name__="g_gsum" -4"#,
            r#"__name__="s",e="1",s="a" 1"#,
            r#"__name__="s",e="1",s="b" 0"#,
            r#"__name__="s",e="2",s="a" 0"#,
            r#"__name__="i_info",version="8" 1"#,
            r#"__name__="free" -inf"#,
        ],
    );
    let read = decode(OPEN, body.as_bytes()).unwrap();
    let Family { name, kind, help, unit } = &read.families[0];
    assert_eq!((&**name, *kind, &**help, &**unit), ("acme_http_seconds", MetricKind::Summary, "Of \"all\"", "seconds"));
    assert_eq!(read.points[3].exemplars[0].time_ms, Some(1_520_879_606_100));
    check(OPEN, "# EOF", &[]);
    check(
        OPEN,
        "a 1 1\na 2 2\nb 1\n# EOF\n",
        &["__name__=\"a\" 1 @1000", "__name__=\"a\" 2 @2000", "__name__=\"b\" 1"],
    );
}

#[test]
fn what_openmetrics_forbids_is_refused() {
    for (lines, word) in [
        ("a 1\n\n", "empty"),
        ("# a comment\n", "neither TYPE"),
        ("#TYPE a gauge\n", "neither TYPE"),
        ("# TYPE a untyped\n", "not known"),
        ("# TYPE a gauge \n", "not known"),
        ("# TYPE  a gauge\n", "missing"),
        ("# HELP a\n", "something else than a space"),
        ("# TYPE a gauge\n# TYPE a gauge\n", "twice"),
        ("a 1\n# TYPE a gauge\n", "behind its samples"),
        ("# UNIT a seconds\n", "does not end in its unit"),
        ("# TYPE a_s info\n# UNIT a_s s\n", "no unit"),
        ("a  1\n", "not a number"),
        ("a 1 \n", "not a number of seconds"),
        ("a\t1\n", "no space"),
        ("a{b=\"1\", c=\"2\"} 1\n", "missing"),
        ("a{b=\"1\",} 1\n", "closing brace"),
        ("a{b=\"1\",b=\"2\"} 1\n", "twice"),
        ("a{b=\"1\"}1\n", "no space"),
        ("a 1 1z\n", "number of seconds"),
        ("a 1 NaN\n", "number of seconds"),
        ("a 1 1 1\n", "behind the time"),
        ("# TYPE a counter\na 1\n", "comes again"),
        ("# TYPE a counter\na_total -1\n", "negative"),
        ("# TYPE a counter\na_total NaN\n", "negative or NaN"),
        ("# TYPE a info\na_info 2\n", "not 1"),
        ("# TYPE a stateset\na{b=\"c\"} 1\n", "own name"),
        ("# TYPE a stateset\na{a=\"c\"} 0.5\n", "neither 0 nor 1"),
        ("# TYPE a summary\na{quantile=\"2\"} 1\n", "quantile"),
        ("# TYPE a summary\na 1\n", "quantile"),
        ("# TYPE a histogram\na_bucket{le=\"1\"} 1\n", "+Inf"),
        ("# TYPE a histogram\na_bucket 1\n", "no le"),
        ("# TYPE a histogram\na_bucket{le=\"+Inf\"} 2\na_count 1\na_sum 1\n", "not that of"),
        ("# TYPE a histogram\na_bucket{le=\"1\"} 3\na_bucket{le=\"+Inf\"} 2\n", "counts less"),
        ("# TYPE a histogram\na_bucket{le=\"2\"} 1\na_bucket{le=\"1\"} 2\n", "ascend"),
        ("# TYPE a histogram\na_bucket{le=\"+Inf\"} 2\na_sum 1\n", "without a count"),
        ("# TYPE a histogram\na_bucket{le=\"-1\"} 2\na_bucket{le=\"+Inf\"} 2\na_count 2\na_sum 1\n", "negative bounds"),
        ("# TYPE a histogram\na 1\n", "neither _bucket"),
        ("a 1\na 1\n", "twice at one time"),
        ("a 1 2\na 1 1\n", "backwards"),
        ("a 1\na 1 1\n", "with a time"),
        ("a{b=\"1\"} 1\na{b=\"2\"} 1\na{b=\"1\"} 1\n", "comes again"),
        ("a 1\nb 1\na 2\n", "comes again"),
        ("a 1 # {b=\"c\"} 1\n", "exemplar stands"),
        ("# TYPE a counter\na_total 1 # {b=\"c\"}\n", "no value"),
        ("# TYPE a counter\na_total 1 # 1\n", "in braces"),
        ("# TYPE a counter\na_total 1 #{b=\"c\"} 1\n", "number of seconds"),
        ("# TYPE a counter\na_total 1 # {} 1 # {} 1\n", "more than one"),
        ("# TYPE a counter\na_created NaN\n", "not a time"),
    ] {
        refuse(OPEN, &format!("{lines}# EOF\n"), word);
    }
    let long = "x".repeat(128);
    refuse(OPEN, &format!("# TYPE a counter\na_total 1 # {{b=\"{long}\"}} 1\n# EOF\n"), "128 characters");
    let fits = &long[1..];
    assert!(decode(OPEN, format!("# TYPE a counter\na_total 1 # {{b=\"{fits}\"}} 1\n# EOF\n").as_bytes()).is_ok());
    for (body, word) in
        [("", "no # EOF"), ("a 1\n", "no # EOF"), ("a 1\n# EO", "no end"), ("# EOF\na 1\n", "behind # EOF")]
    {
        refuse(OPEN, body, word);
    }
}

#[test]
fn distributions_in_one_line_are_read() {
    let native = "{count:6,sum:3.5,schema:3,zero_threshold:0.001,zero_count:1,positive_spans:[0:2,1:1],positive_buckets:[2,2,1]}";
    let body = format!(
        "# TYPE n histogram\nn{{a=\"1\"}} {native} 5 st@2.5 # {{t=\"x\"}} 0.5 4.5 # {{t=\"y\"}} 0.6 4.75\n\
         n{{a=\"2\"}} {{count:1.5,sum:1,schema:0,zero_threshold:0,zero_count:0,positive_spans:[0:1],positive_buckets:[1.5]}}\n\
         # TYPE c histogram\nc {{count:3,sum:1,bucket:[0.5:1,+Inf:3]}}\n\
         # TYPE s summary\ns {{count:3,sum:1,quantile:[0.5:0.25]}}\n# TYPE t counter\nt 1 st@1\n# EOF\n"
    );
    check(
        DRAFT,
        &body,
        &[
            "__name__=\"n\",a=\"1\" +6 in 3 bins of exponential 3 @5000 since 2500 # [(\"t\", \"x\")] 0.5 # [(\"t\", \"y\")] 0.6",
            "__name__=\"n\",a=\"2\" +~1.5 in 1 bins of exponential 0",
            "__name__=\"c_bucket\",le=\"0.5\" +1",
            "__name__=\"c_bucket\",le=\"+Inf\" +3",
            "__name__=\"c_sum\" +1",
            "__name__=\"c_count\" +3",
            "__name__=\"s\",quantile=\"0.5\" 0.25",
            "__name__=\"s_sum\" +1",
            "__name__=\"s_count\" +3",
            "__name__=\"t\" +1 since 1000",
        ],
    );
    for (value, word) in [
        ("{sum:1}", "no count"),
        ("{count:1,}", "closing brace"),
        ("{count:1,what:2}", "not known"),
        ("{count:1,bucket:[1]}", "two numbers"),
        ("{count:1,schema:0,positive_spans:[0:1,positive_buckets:[1]}", "span"),
        ("{count:x}", "not a number"),
        ("{count:1", "not closed"),
    ] {
        refuse(DRAFT, &format!("# TYPE n histogram\nn {value}\n# EOF\n"), word);
    }
    refuse(DRAFT, "# TYPE n gauge\nn {count:1,sum:1}\n# EOF\n", "of this type");
    let lie =
        "# TYPE n histogram\nn {count:1,sum:1,schema:0,positive_spans:[0:4000000000],positive_buckets:[1]}\n# EOF\n";
    check(DRAFT, lie, &["__name__=\"n\" +broken: the spans cover another number of bins than there are"]);
}

/// A message of one family with `metrics`, behind its length.
fn family(name: &str, kind: u64, metrics: &[Vec<u8>]) -> Vec<u8> {
    let mut message = Vec::new();
    write::bytes(&mut message, 1, name.as_bytes());
    write::bytes(&mut message, 2, b"Help.");
    write::number(&mut message, 3, kind);
    metrics.iter().for_each(|metric| write::bytes(&mut message, 4, metric));
    let mut out = Vec::new();
    write::varint(&mut out, message.len() as u64);
    out.extend(message);
    out
}

fn message(fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    fill(&mut out);
    out
}

fn label(name: &str, value: &str) -> Vec<u8> {
    message(|out| {
        write::bytes(out, 1, name.as_bytes());
        write::bytes(out, 2, value.as_bytes());
    })
}

fn stamp(seconds: u64, nanos: u64) -> Vec<u8> {
    message(|out| {
        write::number(out, 1, seconds);
        write::number(out, 2, nanos);
    })
}

/// Families of every type.
fn families() -> Vec<u8> {
    let event = message(|out| {
        write::bytes(out, 1, &label("trace_id", "7"));
        write::double(out, 2, 0.25);
        write::bytes(out, 3, &stamp(9, 500_000_000));
    });
    let counter = message(|out| {
        write::bytes(out, 1, &label("a", "b"));
        let value = message(|out| {
            write::double(out, 1, 3.0);
            write::bytes(out, 2, &event);
            write::bytes(out, 3, &stamp(2, 1_000_000));
        });
        write::bytes(out, 3, &value);
        write::number(out, 6, 10_000);
    });
    let gauge = message(|out| write::bytes(out, 2, &message(|out| write::double(out, 1, -1.5))));
    let summary = message(|out| {
        let quantile = message(|out| {
            write::double(out, 1, 0.5);
            write::double(out, 2, 7.0);
        });
        let value = message(|out| {
            write::number(out, 1, 4);
            write::double(out, 2, 8.0);
            write::bytes(out, 3, &quantile);
        });
        write::bytes(out, 4, &value);
    });
    let native = message(|out| {
        let bucket = message(|out| {
            write::number(out, 1, 2);
            write::double(out, 2, 1.0);
            write::bytes(out, 3, &event);
        });
        let value = message(|out| {
            write::number(out, 1, 5);
            write::double(out, 2, 6.0);
            write::bytes(out, 3, &bucket);
            write::signed(out, 5, 3);
            write::double(out, 6, 1e-9);
            write::number(out, 7, 1);
            write::bytes(out, 12, &message(|out| write::number(out, 2, 2)));
            write::signed(out, 13, 3);
            write::signed(out, 13, -2);
            write::bytes(out, 15, &stamp(1, 0));
        });
        write::bytes(out, 7, &value);
    });
    let float = message(|out| {
        let value = message(|out| {
            write::double(out, 4, 2.5);
            write::double(out, 2, 6.0);
            write::bytes(out, 12, &message(|out| write::number(out, 2, 1)));
            write::double(out, 14, 2.5);
        });
        write::bytes(out, 7, &value);
    });
    [
        family("c_total", 0, &[counter]),
        family("g", 1, &[gauge]),
        family("s", 2, &[summary]),
        family("n", 4, &[native]),
        family("f", 5, &[float]),
    ]
    .concat()
}

#[test]
fn messages_are_read() {
    let body = families();
    let read = decode(Format::Protobuf, &body).unwrap();
    let reported: Vec<String> = read.points.iter().map(reported).collect();
    assert_eq!(
        reported,
        [
            "__name__=\"c_total\",a=\"b\" +3 @10000 since 2001 # [(\"trace_id\", \"7\")] 0.25",
            "__name__=\"g\" -1.5",
            "__name__=\"s\",quantile=\"0.5\" 7",
            "__name__=\"s_sum\" +8",
            "__name__=\"s_count\" +4",
            "__name__=\"n\" +5 in 2 bins of exponential 3 since 1000 # [(\"trace_id\", \"7\")] 0.25",
            "__name__=\"n_bucket\",le=\"1.0\" +2 since 1000 # [(\"trace_id\", \"7\")] 0.25",
            "__name__=\"n_bucket\",le=\"+Inf\" +5 since 1000",
            "__name__=\"n_sum\" +6 since 1000",
            "__name__=\"n_count\" +5 since 1000",
            "__name__=\"f\" ~2.5 in 1 bins of exponential 0",
            "__name__=\"f_bucket\",le=\"+Inf\" 2.5",
            "__name__=\"f_sum\" 6",
            "__name__=\"f_count\" 2.5",
        ]
    );
    assert_eq!(read.points[0].exemplars[0].time_ms, Some(9_500));
    assert_eq!(read.points[10].temporality, Gauge);
    let twins = read.points.iter().filter(|point| point.has_native).count();
    assert_eq!((twins, read.families.len(), &*read.families[0].help), (7, 5, "Help."));
    let keys: std::collections::BTreeSet<u128> = read.points.iter().map(|point| point.series.key()).collect();
    assert_eq!(keys.len(), read.points.len(), "equal keys of two series");
}

#[test]
fn broken_messages_are_refused() {
    let body = families();
    let ends: Vec<usize> = (0..body.len()).filter(|end| decode(Format::Protobuf, &body[..*end]).is_ok()).collect();
    assert_eq!(ends.len(), 5, "only cuts between families can be read: {ends:?}");
    let of = |kind, metric: Vec<u8>| decode(Format::Protobuf, &family("x", kind, &[metric])).unwrap_err().to_string();
    assert!(of(9, Vec::new()).contains("type that is not known"));
    assert!(of(0, Vec::new()).contains("no value of its family's type"));
    let broken = message(|out| write::bytes(out, 1, &message(|out| write::bytes(out, 1, b"\xff"))));
    assert!(of(1, broken).contains("UTF-8"));
    assert!(decode(Format::Protobuf, &family("", 0, &[])).unwrap_err().to_string().contains("no name"));
}

#[test]
fn content_types_name_the_form() {
    for (kind, format) in [
        ("text/plain; version=0.0.4; charset=utf-8", Some(TEXT)),
        ("text/plain", Some(TEXT)),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", Some(OPEN)),
        ("application/openmetrics-text; version=2.0.0", Some(DRAFT)),
        (
            "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
            Some(Format::Protobuf),
        ),
        ("application/vnd.google.protobuf; proto=x.Y; encoding=delimited", None),
        ("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=text", None),
        ("text/html", None),
        ("", None),
    ] {
        assert_eq!(Format::from_content_type(kind), format, "{kind}");
    }
}

/// Reads it in every form; what can be read can also be reported.
fn smoke(bytes: &[u8]) {
    for format in [TEXT, Format::Text { is_whole: true }, OPEN, DRAFT, Format::Protobuf] {
        if let Ok(read) = decode(format, bytes) {
            read.points.iter().for_each(|point| drop(point.series.labels()));
        }
    }
}

#[test]
fn mutations_of_good_input_never_panic() {
    let good: [&[u8]; 4] = [
        b"# TYPE a histogram\n# HELP a x\\n\na_bucket{b=\"\\\\c\",le=\"1\"} 3 17\na_bucket{le=\"+Inf\"} 4\n",
        b"# TYPE a histogram\n# UNIT a s\na_bucket{b=\"c\",le=\"+Inf\"} 3 1.5 # {t=\"x\"} 2 1\na_created{b=\"c\"} 4\n# EOF\n",
        b"# TYPE n histogram\n{\"n\",\"a\\\"\"=\"1\"} {count:1,sum:1,schema:0,positive_spans:[0:1],positive_buckets:[1]} st@2\n# EOF\n",
        &families(),
    ];
    let mut rng = fastrand::Rng::with_seed(1);
    let mut random = move |below: usize| rng.usize(..below);
    for round in 0..20_000 {
        let mut bytes = good[round % good.len()].to_vec();
        for _ in 0..=random(4) {
            if bytes.is_empty() {
                break;
            }
            let at = random(bytes.len());
            match random(4) {
                0 => bytes[at] ^= 1 << random(8),
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b"{}\"\\\n #=,:[]e@0\xff"[random(16)]),
                _ => bytes.truncate(at + 1),
            }
        }
        smoke(&bytes);
    }
}

fn any_series() -> impl Strategy<Value = Vec<(String, String)>> {
    let name = prop_oneof!["[a-z_]{1,6}", "[a-z.\"\\\\é]{1,4}"];
    let labels = prop::collection::btree_map(name.clone(), "[ -~é\\n]{0,6}", 0..4);
    (name, labels).prop_map(|(metric, labels)| [("__name__".to_owned(), metric)].into_iter().chain(labels).collect())
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

proptest! {
    #[test]
    fn any_bytes_end(bytes: Vec<u8>) {
        smoke(&bytes);
    }

    /// Against the pairs that were written.
    #[test]
    fn what_is_written_is_read(series in prop::collection::vec((any_series(), any::<f64>(), any::<Option<i32>>()), 0..8)) {
        let mut body = String::new();
        for (labels, value, time) in &series {
            let labels: Vec<String> = labels.iter().enumerate().map(|(at, (name, value))| {
                if at == 0 { quoted(value) } else { format!("{}={}", quoted(name), quoted(value)) }
            }).collect();
            let time = time.map_or_else(String::new, |time| format!(" {time}"));
            body += &format!("{{{}}} {value}{time}\n", labels.join(","));
        }
        let read = decode(TEXT, body.as_bytes()).unwrap();
        prop_assert_eq!(read.points.len(), series.len());
        for (point, (labels, value, time)) in read.points.iter().zip(&series) {
            let found: Vec<_> = point.series.labels().into_iter().map(|(n, v)| (n.into_owned(), v.into_owned())).collect();
            prop_assert_eq!(&found, labels);
            prop_assert_eq!(point.time_ms, time.map(i64::from));
            let Value::Float(found) = point.value else { panic!("a number") };
            prop_assert!(found == *value || found.is_nan() && value.is_nan());
        }
    }
}
