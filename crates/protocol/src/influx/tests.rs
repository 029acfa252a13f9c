//! Lines as clients write them, what InfluxDB's documentation shows, and bad ones.

use ogive_model::{SourceId, Temporality, Tenant, Value};
use proptest::prelude::*;

use super::*;
use crate::Error;
use crate::lines::Names;
use crate::mutations::mutations;

const NOW: i64 = 1_700_000_000_500_000_000;

fn read_with(body: &[u8], options: &Options<'_>) -> DecodedBody {
    read(body, &Tenant::default(), SourceId(7), 3, options).unwrap()
}

fn read_body(body: &str) -> DecodedBody {
    read_with(body.as_bytes(), &Options { now_ns: NOW, ..Options::default() })
}

fn samples(read: &DecodedBody) -> Vec<(String, i64, Value)> {
    let of = |sample: &ogive_model::Sample| {
        let series = read.batch.series[sample.series as usize].as_ref().unwrap();
        (series.labels.to_string(), sample.time_ns, sample.value.clone())
    };
    read.batch.samples.iter().map(|sample| of(sample.as_ref().unwrap())).collect()
}

#[test]
fn what_a_client_writes_is_read() {
    let read = read_body("m\\ el,t\\ a=v\\,\\=1 f=1.5,i=3i,s=\"q\\\"x\" 1700000000123456789\n");
    let labels = |name: &str| format!("{name}{{t_a=\"v,=1\"}}");
    let time = 1_700_000_000_123_456_789;
    assert_eq!(
        samples(&read),
        [
            (labels("m_el_f"), time, Value::Float(1.5)),
            (labels("m_el_i"), time, Value::Float(3.0)),
            (labels("m_el_s"), time, Value::Text("q\"x".into())),
        ]
    );
    assert_eq!((read.good, read.faults.total(), read.lines), (1, 0, vec![1, 1, 1]));
}

#[test]
fn values_have_the_types_of_the_protocol() {
    let read = read_body("m a=1,b=-2i,c=18446744073709551615u,d=t,e=FALSE,f=1e3,value=7,g=\"\",h=\"a,b c=d\\\\\"");
    let values: Vec<_> = samples(&read).into_iter().map(|(name, time, value)| (name, time == NOW, value)).collect();
    let float = |name: &str, value: f64| (name.to_owned(), true, Value::Float(value));
    let text = |name: &str, value: &str| (name.to_owned(), true, Value::Text(value.into()));
    let expected = [
        float("m_a", 1.0),
        float("m_b", -2.0),
        float("m_c", 18_446_744_073_709_551_615.0),
        float("m_d", 1.0),
        float("m_e", 0.0),
        float("m_f", 1000.0),
        float("m", 7.0),
        text("m_g", ""),
        text("m_h", "a,b c=d\\"),
    ];
    assert_eq!(values, expected);
}

#[test]
fn lines_are_numbered_past_comments_and_texts_of_several_lines() {
    let read = read_body("# a comment \"\n\n  a v=1\r\nb s=\"two\nlines\",w=2 5\nbad\nc,t=x\\\\ v=3 6\n");
    assert_eq!((read.good, read.lines.clone()), (3, vec![3, 4, 4, 7]));
    assert_eq!(read.details, [(6, "bad".to_owned(), Fault::Fields)]);
    assert_eq!(samples(&read)[1].2, Value::Text("two\nlines".into()));
}

#[test]
fn a_quote_without_an_end_costs_its_line() {
    let read = read_body("a s=\"closed\" 1\nb s=\"open v=2 2\nc v=3 3\nd v=4 4\n");
    assert_eq!((read.good, read.details.len(), read.details[0].0), (3, 1, 2));
    // Elsewhere a quote is a character.
    let read = read_body("a\"b,t\"=\"x v=1 1\nc v=2\n");
    assert_eq!((read.good, samples(&read)[0].0.as_str()), (2, "a_b_v{t_=\"\\\"x\"}"));
}

#[test]
fn what_breaks_a_rule_is_one_fault() {
    for (text, fault) in [
        ("m", Fault::Fields),
        ("m ", Fault::Fields),
        ("m,t=1", Fault::Fields),
        (",t=1 v=1", Fault::Name),
        ("m,t v=1", Fault::Tags),
        ("m,t= v=1", Fault::Tags),
        ("m,=1 v=1", Fault::Tags),
        ("m, v=1", Fault::Tags),
        ("m v", Fault::Fields),
        ("m v=", Fault::Value),
        ("m =1", Fault::Fields),
        ("m v=1,", Fault::Fields),
        ("m v=1,,w=2", Fault::Fields),
        ("m v=abc", Fault::Value),
        ("m v=NaN", Fault::Value),
        ("m v=inf", Fault::Value),
        ("m v=1.5i", Fault::Value),
        ("m v=9223372036854775808i", Fault::Value),
        ("m v=-1u", Fault::Value),
        ("m v=1e999", Fault::Value),
        ("m v=\"open", Fault::Value),
        ("m v=\"x\"y", Fault::Value),
        ("m v=1 noon", Fault::Time),
        ("m v=1 1.5", Fault::Time),
        ("m v=1 1 2", Fault::Time),
        ("m v=1 9223372036854775808", Fault::Time),
        ("m,__name__=x v=1", Fault::Tags),
        ("m v=1,w=x", Fault::Value),
    ] {
        let read = read_body(text);
        assert_eq!((read.batch.samples.len(), read.good), (0, 0), "{text:?}");
        assert_eq!(read.faults.iter().collect::<Vec<_>>(), [(fault, 1)], "{text:?}");
    }
    let read = read_with(b"m v=1\n\xff v=1\n", &Options::default());
    assert_eq!((read.good, read.details[0].2), (1, Fault::NotUtf8));
}

#[test]
fn times_have_the_precision_of_the_request() {
    for (name, time, expected) in [
        ("", "1700000000123456789", 1_700_000_000_123_456_789),
        ("ns", "-5", -5),
        ("u", "1700000000123456", 1_700_000_000_123_456_000),
        ("ms", "1700000000123", 1_700_000_000_123_000_000),
        ("s", "1700000000", 1_700_000_000_000_000_000),
        ("m", "28333333", 1_699_999_980_000_000_000),
        ("h", "472222", 1_699_999_200_000_000_000),
    ] {
        let options = Options { precision: Precision::parse(name).unwrap(), ..Options::default() };
        let read = read_with(format!("m v=1 {time}").as_bytes(), &options);
        assert_eq!(samples(&read)[0].1, expected, "{name}");
    }
    assert_eq!(Precision::parse("d"), None);
    let seconds = Options { precision: Precision::Seconds, ..Options::default() };
    assert_eq!(read_with(b"m v=1 1700000000000000000", &seconds).details[0].2, Fault::Time, "ns as seconds overflow");
}

#[test]
fn the_database_is_a_label_unless_a_tag_has_its_name() {
    let options = Options { label: Some(("db", "site")), ..Options::default() };
    let read = read_with(b"m v=1 1\nm,db=mine v=2 2\nm_total value=3 3\n", &options);
    let names: Vec<_> = samples(&read).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["m_v{db=\"site\"}", "m_v{db=\"mine\"}", "m_total{db=\"site\"}"]);
    assert_eq!(read.batch.series[2].as_ref().unwrap().meta.temporality, Temporality::Cumulative);
    let utf8 = Options { names: Names::Utf8, ..Options::default() };
    assert_eq!(samples(&read_with(b"a.b,c.d=1 e=1 1", &utf8))[0].0, "a.b_e{c.d=\"1\"}");
}

#[test]
fn long_tags_before_many_fields_are_refused() {
    let fields: Vec<String> = (0..4_000).map(|field| format!("f{field}=1")).collect();
    let body = format!("m,t={} {}", "x".repeat(16_000), fields.join(","));
    let error = read(body.as_bytes(), &Tenant::default(), SourceId(7), 3, &Options::default()).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
}

/// Seeded mutations of a good body: each line is taken or counted, and nothing panics.
#[test]
fn mutated_bodies_are_taken_or_counted() {
    let good = b"m\\ x,a=b,c=d\\, f=1.5,g=2i,h=t,s=\"a\\\"b\nc\" 1700000000\n# c\nn v=1\r\n";
    mutations(good, 20_000, 6, b"\\\",= \n\r#iut019.\xff\xc3", |body| {
        let read = read_with(body, &Options::default());
        assert_eq!(read.good + read.faults.total(), numbered(body).count() as u64);
        assert_eq!(read.lines.len(), read.batch.samples.len());
    });
}

proptest! {
    #[test]
    fn any_bytes_are_taken_or_counted(body: Vec<u8>) {
        let read = read_with(&body, &Options::default());
        prop_assert_eq!(read.good + read.faults.total(), numbered(&body).count() as u64);
    }

    /// What is escaped as the documentation wants it comes back.
    #[test]
    fn escapes_come_back(name in "[a-z ,]{1,8}", tag in "[a-zß ,=]{1,8}", text in "[a-z\"\\\\, =\n]{0,12}") {
        let escape = |text: &str, characters: &str| {
            text.chars().flat_map(|c| characters.contains(c).then_some('\\').into_iter().chain([c])).collect::<String>()
        };
        let body = format!(
            "x{},t={}y f=\"{}\" 1", escape(&name, ", "), escape(&tag, ",= "), escape(&text, "\"\\")
        );
        let found: Vec<_> = numbered(body.as_bytes()).collect();
        prop_assert_eq!(found.len(), 1);
        let line = line(found[0].line).unwrap();
        prop_assert_eq!(line.measurement, format!("x{name}"));
        prop_assert_eq!(&line.tags[0].1, &format!("{tag}y"));
        prop_assert_eq!(&line.fields[0].1, &Field::Text(text.into()));
    }
}
