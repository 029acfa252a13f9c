//! Readers of lines and tables: what is bad costs itself alone, and any bytes are read without a panic.

use arrow_array::RecordBatch;
use ogive_hist::{Histogram, Scheme};
use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Tenant, Value};
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;

use crate::fuzz::{counted, file};
use crate::mutations::{TEXT, mutations};
use crate::table::Options;
use crate::{Batches, Error, Numbered, batches, lines, sample_table};

/// Batches as they are given, and what is bad: place and reason.
fn all(read: impl FnOnce(&mut Batches<'_>) -> Result<(), Error>) -> (Vec<Numbered>, Vec<(u64, &'static str)>) {
    let (mut given, mut bad) = (Vec::new(), Vec::new());
    let mut take = |numbered| {
        given.push(numbered);
        true
    };
    let mut note = |place, reason, _: &str| bad.push((place, reason));
    let mut out = Batches::new(SourceId(7), Tenant::default(), &mut take, &mut note);
    read(&mut out).unwrap();
    let _ = out.finish(true);
    (given, bad)
}

#[test]
fn batches_end_at_their_limit_and_are_the_same_each_time() {
    let text: String =
        (0..2 * batches::SAMPLES_MAX + 1).map(|at| format!("a{{b=\"{}\"}} {at} {at}\n", at % 7)).collect();
    let (given, bad) = all(|out| crate::openmetrics::read(&mut text.as_bytes(), out));
    assert_eq!(bad, []);
    let sizes: Vec<usize> = given.iter().map(|one| one.places.len()).collect();
    assert_eq!(sizes, [batches::SAMPLES_MAX, batches::SAMPLES_MAX, 1]);
    for (number, one) in (1..).zip(&given) {
        assert_eq!((one.batch.source, one.batch.sequence), (SourceId(7), number));
        assert!(one.batch.series.len() <= 7 && one.batch.samples.len() == one.places.len());
    }
    let again = all(|out| crate::openmetrics::read(&mut text.as_bytes(), out)).0;
    assert!(again.iter().zip(&given).all(|(a, b)| a.batch == b.batch && a.places == b.places));
    // Long texts end a batch by their bytes.
    let text: String = (0..9).map(|at| format!("M\t{at}.5\t{}\tlog\ts\t{}\n", UUID, "x".repeat(1 << 19))).collect();
    let (given, _) = all(|out| crate::irondb::read(&mut text.as_bytes(), out));
    let bytes = |one: &Numbered| one.places.len() << 19;
    assert!(given.len() > 1 && given.iter().all(|one| bytes(one) <= batches::BYTES_MAX), "{}", given.len());
}

const UUID: &str = "8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e";

#[test]
fn who_takes_no_more_stops_the_reader() {
    let text: String = (0..3 * batches::SAMPLES_MAX).map(|at| format!("a {at} {at}\n")).collect();
    let mut taken = 0;
    let mut take = |_: Numbered| {
        taken += 1;
        false
    };
    let mut note = |_: u64, _: &'static str, _: &str| {};
    let mut out = Batches::new(SourceId(7), Tenant::default(), &mut take, &mut note);
    assert!(matches!(crate::openmetrics::read(&mut text.as_bytes(), &mut out), Err(Error::Stopped)));
    let _ = out.finish(false);
    assert_eq!(taken, 1);
}

#[test]
fn a_line_is_taken_up_to_its_limit_and_costs_itself_above() {
    let mut input = "short\n12345678\n123456789\nä\r\n\u{fffd}".as_bytes().to_vec();
    input.extend_from_slice(b"\xff\nlast");
    let mut seen = Vec::new();
    let (_, bad) = all(|out| {
        // A buffer of three bytes: lines lie across its edges.
        let mut input = std::io::BufReader::with_capacity(3, &*input);
        lines::each(&mut input, 8, out, |number, line, _| {
            seen.push((number, line.to_owned()));
            Ok(())
        })
    });
    let seen: Vec<(u64, &str)> = seen.iter().map(|(number, line)| (*number, &**line)).collect();
    assert_eq!(seen, [(1, "short"), (2, "12345678"), (4, "ä"), (6, "last")]);
    assert_eq!(bad, [(3, "line_too_long"), (5, "not_utf8")]);
}

#[test]
fn histograms_of_each_form_are_one() {
    let text = "[[60, 60, {\"+23e-004\": 2, \"0\": 1}], [120, 60, {\"+23e-004\": 1, \"+23e-004\": 1, \"0\": 1}]]\n\
        [180, 60, [\"H[0.0023]=2\", \"H[0]=1\"]]\n[]\n\
        {\"time\": 240, \"period\": 60, \"name\": \"lat\", \"labels\": {\"x\": \"y\"}, \"histogram\": {\"+23e-004\": 2, \"0\": 1}}\n\
        [1, 0, {}]\n[1, 60, {\"x\": 1}]\n[1, 60, [\"H[1]\"]]\n[1, 60, \"***\"]\n{\"time\": 1}\nno\n";
    let labels = vec![("__name__".to_owned(), "rpc".to_owned())];
    let meaning = crate::hdr_log::LogSettings { labels, worth: 1.0, unit: String::new() };
    let (given, bad) = all(|out| crate::circllhist::read(&mut text.as_bytes(), &meaning, out));
    let batch = &given[0].batch;
    let mut expected = Histogram::log_linear();
    expected.record_bin(ogive_hist::DecimalBin::from_value(0.0023), 2);
    expected.record_bin(ogive_hist::DecimalBin::from_value(0.0), 1);
    let samples: Vec<&Sample> = batch.samples.iter().flatten().collect();
    assert_eq!(samples.len(), 4);
    for (sample, minute) in samples.iter().zip(1..) {
        assert_eq!(sample.value, Value::Histogram(Box::new(expected.clone())), "{minute}");
        assert_eq!((sample.start_ns, sample.time_ns), (Some(minute * 60_000_000_000), (minute + 1) * 60_000_000_000));
    }
    let names: Vec<_> = batch.series.iter().flatten().map(|series| series.labels.to_string()).collect();
    assert_eq!(names, ["rpc", "lat{x=\"y\"}"]);
    let reasons: Vec<_> = bad.iter().map(|(place, reason)| format!("{place} {reason}")).collect();
    let expected = [
        "5 time_invalid",
        "6 histogram_invalid",
        "7 histogram_invalid",
        "8 histogram_invalid",
        "9 line_malformed",
        "10 line_malformed",
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn any_bytes_of_a_file_are_read_without_a_panic() {
    for good in [
        "# TYPE a counter\na_total{b=\"c\"} 1 1.5 # {} 1\n# EOF\n",
        "{\"metric\":{\"__name__\":\"a\"},\"values\":[1,null,\"Infinity\"],\"timestamps\":[1,2,3]}\n",
        "M\t1.5\t8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e\ta|ST[b:c]\tn\t1\nH1\t2.000\t8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e\tb\tAAFQ/gAB\n",
        "#[StartTime: 1 (x)]\nTag=a,0.1,1.0,2.0,HISTFAAAABV42pNpmSzMwMDAxAABzFCaEUoz2X+AMIKZAEARAtM=\n",
        "[[60, 60, {\"+23e-004\": 2}]]\n{\"time\":1,\"period\":1,\"histogram\":\"AAFQ/gAB\"}\n",
        "time,a,\"b\"\n1,2,\"3\"\n2026-01-01T00:00:00Z,1,\"4\"\"\"\n",
    ] {
        file(good.as_bytes());
        mutations(good.as_bytes(), 2_000, 5, TEXT, file);
        mutations(good.as_bytes(), 1_000, 5, &[], file);
    }
}

fn table(batch: &RecordBatch) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut out, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    out
}

fn read_back(bytes: Vec<u8>) -> (Vec<Numbered>, Vec<(u64, &'static str)>) {
    all(|out| crate::parquet::read(bytes::Bytes::from(bytes), &Options::default(), out, &mut |_| {}))
}

fn batch_of(values: Vec<(Kind, Temporality, i64, Option<i64>, Value)>) -> Batch {
    let mut out = Batch { source: SourceId(7), sequence: 1, ..Batch::default() };
    for (at, (kind, temporality, time_ms, start_ms, value)) in values.into_iter().enumerate() {
        let meta = SeriesMeta { kind, temporality, unit: "s".into(), width_ms: at as u32 };
        out.series.push(SeriesDef::new([("__name__", "m"), ("at", &*at.to_string()), ("é\"", "\n")], meta));
        let [time_ns, start_ns] = [Some(time_ms), start_ms].map(|ms| ms.map(|ms| ms * 1_000_000));
        out.samples.push(Ok(Sample { series: at as u32, time_ns: time_ns.unwrap(), start_ns, value }));
    }
    out
}

fn schemes() -> impl Strategy<Value = Scheme> {
    prop_oneof![
        Just(Scheme::LogLinear10),
        (-4_i32..9).prop_map(|scale| Scheme::exp2(scale).unwrap()),
        Just(Scheme::custom([-1.0, 0.0, 2.5]).unwrap()),
        Just(Scheme::log_linear2(7, 2, 1e-9).unwrap()),
        Just(Scheme::gamma(1.02, 0.0).unwrap()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn samples_come_back_from_a_table_bit_for_bit(
        all in proptest::collection::vec((schemes(), proptest::collection::vec((-1e6_f64..1e6, 1_u64..1000), 0..8), 0_u8..4, any::<u64>()), 1..20),
    ) {
        let values = all.into_iter().enumerate().map(|(at, (scheme, values, what, bits))| {
            let mut one = Histogram::<u64>::new(scheme);
            values.iter().for_each(|(value, count)| one.record_n(*value, *count));
            let time = 1_700_000_000_000 + at as i64;
            match what {
                0 => (Kind::Float, Temporality::Cumulative, time, Some(time - 5), Value::Float(f64::from_bits(bits))),
                1 => (Kind::Text, Temporality::Gauge, time, None, Value::Text(format!("{bits}\n\"é"))),
                2 => (Kind::Histogram, Temporality::Delta, time, Some(time - 1000), Value::Histogram(Box::new(one))),
                _ => (Kind::Histogram, Temporality::Gauge, time, None, Value::FloatHistogram(Box::new(one.to_float()))),
            }
        });
        let batch = batch_of(values.collect());
        let (given, bad) = read_back(table(&sample_table::rows(&batch)));
        prop_assert_eq!(bad, []);
        // As text, so that numbers that are none are equal.
        prop_assert_eq!(format!("{:?}", given[0].batch), format!("{batch:?}"));
    }
}

#[test]
fn a_table_that_is_cut_or_changed_is_refused_or_read_without_a_panic() {
    let mut one = Histogram::<u64>::log_linear();
    one.record(0.25);
    let time = 1_700_000_000_000;
    let batch = batch_of(vec![
        (Kind::Float, Temporality::Gauge, time, None, Value::Float(1.5)),
        (Kind::Histogram, Temporality::Delta, time, None, Value::Histogram(Box::new(one))),
    ]);
    let bytes = table(&sample_table::rows(&batch));
    for cut in (0..bytes.len()).step_by(7) {
        let (_, _, end) = counted(|out| {
            crate::parquet::read(bytes::Bytes::copy_from_slice(&bytes[..cut]), &Options::default(), out, &mut |_| {})
        });
        assert!(end.is_err(), "{cut}");
    }
    mutations(&bytes, 2_000, 3, &[], file);
}
