//! The wire form against itself, against broken bytes, and against messages made to hurt.

use std::fmt::Write;

use ogive_hist::{CounterReset, Histogram, Scheme};
use proptest::prelude::*;

use super::frame::{MAGIC, PAIR_BYTES};
use super::*;
use crate::{Kind, Reason, Sample, SeriesDef, SeriesId, SeriesMeta, SourceId, Temporality, Value};

fn series(name: &str, kind: Kind, temporality: Temporality) -> SeriesDef {
    let meta = SeriesMeta { kind, temporality, unit: "s".into(), width_ms: 1000 };
    SeriesDef::new([("__name__", name), ("route", "/login")], meta).unwrap()
}

/// One sample of each kind.
pub(super) fn example() -> Batch {
    let mut cell = Histogram::<u64>::new(Scheme::LogLinear10);
    cell.positive = [(11_252, 4), (11_385, 1)].into_iter().collect();
    cell.negative = [(11_530, 1)].into_iter().collect();
    cell.count = 6;
    (cell.sum, cell.min, cell.max) = (Some(0.04), Some(-1.05), Some(0.0352));
    let mut native = Histogram::<f64>::new(Scheme::Exp2 { scale: 3 });
    native.positive = [(-5, 0.5), (2, 1.5)].into_iter().collect();
    (native.zero, native.zero_threshold, native.count, native.sum) = (2.0, 1e-9, 4.0, Some(f64::NAN));
    native.reset = CounterReset::Gauge;
    let sample = |series, value| Ok(Sample { series, time_ns: 1_700_000_001_000_000_000, start_ns: None, value });
    Batch {
        source: SourceId(0x0123_4567_89ab_cdef_0011_2233_4455_6677),
        sequence: 7,
        tenant: Tenant::default(),
        known: Vec::new(),
        series: vec![
            Ok(series("up", Kind::Float, Temporality::Gauge)),
            Ok(series("rpc_seconds", Kind::Histogram, Temporality::Delta)),
            Ok(series("log", Kind::Text, Temporality::Gauge)),
        ],
        samples: vec![
            sample(0, Value::Float(-0.0)),
            sample(1, Value::Histogram(Box::new(cell))),
            sample(1, Value::FloatHistogram(Box::new(native))),
            sample(2, Value::Text("stopped: disk full".into())),
        ],
    }
}

pub(super) fn written(batch: &Batch) -> String {
    format!("{batch:?}")
}

#[test]
fn every_kind_comes_back() {
    let batch = example();
    let back = Batch::decode(&batch.encode().unwrap()).unwrap();
    // Compared as written: NaN is not equal to itself.
    assert_eq!(written(&back), written(&batch));
}

#[test]
fn bad_series_and_samples_are_left_out() {
    let mut batch = example();
    batch.series[0] = Err(Error::NoMetricName);
    batch.samples.push(Err(Reason::HistogramInvalid));
    batch.samples.push(Ok(Sample { series: 99, time_ns: 0, start_ns: None, value: Value::Float(1.0) }));
    let back = Batch::decode(&batch.encode().unwrap()).unwrap();
    assert_eq!(back.series.len(), 2);
    assert_eq!(back.samples.len(), 3);
    assert_eq!(back.samples[0].as_ref().unwrap().series, 0);
}

#[test]
fn the_tenant_travels_in_a_frame_of_the_second_version() {
    let mut batch = example();
    let plain = batch.encode().unwrap();
    assert_eq!(plain[4], 1, "the default tenant needs no newer reader");
    batch.tenant = Tenant::new("team-7").unwrap();
    let named = batch.encode().unwrap();
    assert_eq!((named[4], named.len()), (2, plain.len() + 7));
    assert_eq!(written(&Batch::decode(&named).unwrap()), written(&batch));
    assert_eq!(with_tenant(&plain, &batch.tenant).unwrap(), named);
    let unnamed = with_tenant(&named, &Tenant::default()).unwrap();
    assert_eq!((written(&Batch::decode(&unnamed).unwrap()), unnamed[4]), (written(&example()), 2));
    for length in 0..named.len() {
        assert!(Batch::decode(&named[..length]).is_err(), "cut at {length}");
    }
    // Names that are none, behind a right checksum.
    for (length, name) in [(1, &b"/"[..]), (2, b".."), (1, b"\xff"), (255, b"short")] {
        let mut bad = plain.clone();
        bad[4] = 2;
        bad.splice(HEADER_BYTES..HEADER_BYTES, [&[length], name].concat());
        let declared = (bad.len() - HEADER_BYTES) as u32;
        bad[8..12].copy_from_slice(&declared.to_le_bytes());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&bad[..12]), &bad[HEADER_BYTES..]);
        bad[12..16].copy_from_slice(&checksum.to_le_bytes());
        assert!(matches!(Batch::decode(&bad), Err(Error::Tenant { .. } | Error::Malformed(_))), "{name:?}");
    }
}

#[test]
fn series_are_named_by_their_identity() {
    let known = |n: u128| SeriesId(n << 64 | (n + 1));
    let float =
        |series, time_ns| Ok(Sample { series, time_ns, start_ns: None, value: Value::Float(f64::from(series)) });
    let check = |batch: Batch| {
        let frame = batch.encode().unwrap();
        assert_eq!((frame[4], written(&Batch::decode(&frame).unwrap())), (2, written(&batch)));
        frame.len()
    };
    let ids: Vec<SeriesId> = (0..100).map(known).collect();
    let batch = Batch { sequence: 7, known: ids, ..Batch::default() };
    let samples = |times: i64| (0..100).map(|at| float(at, 5 + i64::from(at) % times)).collect::<Vec<_>>();
    // One time and series that count up: an identity and a value a sample.
    let short = check(Batch { samples: samples(1), ..batch.clone() });
    assert!(short < 100 * 24 + 150, "{short} bytes");
    assert!(check(Batch { samples: samples(2), ..batch.clone() }) > short + 700);
    let mut turned = samples(1);
    turned.reverse();
    check(Batch { samples: turned, ..batch.clone() });
    check(Batch { samples: samples(1)[..1].to_vec(), ..batch.clone() });
    check(Batch { samples: Vec::new(), ..batch.clone() });
    // Beside declared ones, of which a bad one is left out: the others move up.
    let mut mixed = Batch { known: vec![known(1)], ..example() };
    mixed.samples.push(Ok(Sample { series: 3, time_ns: 1, start_ns: None, value: Value::Text("by identity".into()) }));
    check(mixed.clone());
    mixed.series[1] = Err(Error::NoMetricName);
    let back = Batch::decode(&mixed.encode().unwrap()).unwrap();
    assert_eq!((back.series.len(), back.samples.len()), (2, 3));
    assert_eq!(back.samples[2].as_ref().unwrap().series, 2);
    // A first version that names identities is no frame of ours.
    let frame = batch.encode().unwrap();
    let plain = frame_of_version_1(&frame[HEADER_BYTES + 1..]);
    assert!(matches!(Batch::decode(&plain), Err(Error::Malformed(_))));
    let many = Batch { known: vec![known(1); SERIES_MAX + 1], ..Batch::default() };
    assert!(matches!(many.encode(), Err(Error::TooLarge { limit: SERIES_MAX, .. })));
}

fn frame_of_version_1(message: &[u8]) -> Vec<u8> {
    frame(&Tenant::default(), message).unwrap()
}

#[test]
fn definitions_are_no_batch_and_a_batch_is_no_definition() {
    let tenant = Tenant::new("a").unwrap();
    let defs: Vec<SeriesDef> = example().series.into_iter().flatten().collect();
    let frame = encode_definitions(&tenant, &defs).unwrap();
    assert_eq!(decode_definitions(&frame).unwrap(), Some((tenant, defs)));
    assert!(matches!(Batch::decode(&frame), Err(Error::Malformed(_))));
    assert_eq!(decode_definitions(&example().encode().unwrap()).unwrap(), None);
    for length in 0..frame.len() {
        assert!(decode_definitions(&frame[..length]).is_err(), "cut at {length}");
    }
    for bit in 0..frame.len() * 8 {
        let mut changed = frame.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_definitions(&changed).is_err(), "bit {bit}");
    }
}

#[test]
fn an_identity_is_of_its_tenant_and_its_kind() {
    let [float, text] = [Kind::Float, Kind::Text].map(|kind| series("up", kind, Temporality::Gauge));
    let (one, other) = (Tenant::default(), Tenant::new("other").unwrap());
    let ids = [float.id(&one), text.id(&one), float.id(&other), text.id(&other)];
    assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), 4);
    assert_eq!(format!("{:?}", ids[0]), "aec57f9282ed706687a958e520395d16");
}

/// Two delta points of one start, and one of which it is not known.
fn started() -> Batch {
    let second = |n: i64| (1_700_000_000 + n) * 1_000_000_000;
    let float = |end, start_ns, value| Ok(Sample { series: 0, time_ns: end, start_ns, value: Value::Float(value) });
    Batch {
        source: SourceId(1),
        sequence: 1,
        series: vec![Ok(series("requests", Kind::Float, Temporality::Delta))],
        samples: vec![
            float(second(10), Some(second(0)), 3.0),
            float(second(20), Some(second(10)), 4.0),
            float(second(30), None, 5.0),
        ],
        ..Batch::default()
    }
}

#[test]
fn starts_travel_in_a_frame_of_the_third_version() {
    let batch = started();
    let frame = batch.encode().unwrap();
    assert_eq!((frame[4], written(&Batch::decode(&frame).unwrap())), (3, written(&batch)));
    // What an older side would read without them, and count twice, says so.
    for version in [1, 2] {
        let message = &frame[HEADER_BYTES + 1..];
        let older = put_frame(version, 0, &Tenant::default(), &[message]).unwrap();
        assert!(matches!(Batch::decode(&older), Err(Error::Malformed(what)) if what.contains("version 3")));
    }
    let other = Tenant::new("team-7").unwrap();
    let named = with_tenant(&frame, &other).unwrap();
    assert_eq!((named[4], written(&Batch::decode(&named).unwrap())), (3, written(&Batch { tenant: other, ..batch })));
    // A start of all is written once, and takes no more than the field.
    let of_all = |starts: [Option<i64>; 3]| {
        let mut batch = started();
        batch.samples.iter_mut().flatten().zip(starts).for_each(|(sample, start)| sample.start_ns = start);
        let frame = batch.encode().unwrap();
        assert_eq!(written(&Batch::decode(&frame).unwrap()), written(&batch));
        frame.len()
    };
    let (none, one, each) = (of_all([None; 3]), of_all([Some(7); 3]), of_all([Some(7), Some(8), Some(7)]));
    assert!(none < one && one + 16 <= each && each <= none + 48, "{none} {one} {each}");
    // Columns of another length, and a column of floats that lost an entry.
    let mut message = encode::message(&started(), true);
    message.floats.as_mut().unwrap().start_ns = Some(vec![1, 2]);
    let mut builder = planus::Builder::new();
    let cut = put_frame(VERSION_STARTED, 0, &Tenant::default(), &[builder.finish(message, None)]).unwrap();
    assert!(matches!(Batch::decode(&cut), Err(Error::Malformed(_))));
}

/// The examples of docs/formats/batch.md are what this version writes, byte for byte.
#[test]
fn the_documented_examples_hold() {
    check_vector(&example(), concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/batch/example.hex"));
    check_vector(&started(), concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/batch/started.hex"));
}

pub(super) fn check_vector(batch: &Batch, path: &str) {
    let mut hex = String::new();
    for line in batch.encode().unwrap().chunks(32) {
        line.iter().for_each(|byte| write!(hex, "{byte:02x}").unwrap());
        hex.push('\n');
    }
    if std::env::var_os("OGIVE_WRITE_VECTORS").is_some() {
        std::fs::write(path, &hex).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), hex);
}

#[test]
fn a_frame_cut_anywhere_or_changed_in_any_bit_is_refused() {
    let frame = example().encode().unwrap();
    for length in 0..frame.len() {
        assert!(Batch::decode(&frame[..length]).is_err(), "cut at {length}");
    }
    for bit in 0..frame.len() * 8 {
        let mut changed = frame.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(Batch::decode(&changed).is_err(), "bit {bit}");
    }
    assert!(matches!(
        Batch::decode(&{
            let mut changed = frame.clone();
            *changed.last_mut().unwrap() ^= 1;
            changed
        }),
        Err(Error::Checksum { .. })
    ));
}

#[test]
fn changed_messages_behind_a_right_checksum_do_not_panic() {
    let mut batch = example();
    batch.samples.iter_mut().flatten().zip(1..).for_each(|(sample, start)| sample.start_ns = Some(start));
    let whole = batch.encode().unwrap();
    let payload = &whole[HEADER_BYTES + 1..];
    let mut rng = fastrand::Rng::with_seed(1);
    let mut random = move |below: usize| rng.usize(..below);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..20_000 {
        let mut changed = payload.to_vec();
        for _ in 0..=random(4) {
            let at = random(changed.len());
            changed[at] = random(256) as u8;
        }
        changed.truncate(if random(8) == 0 { random(changed.len()) } else { changed.len() });
        match Batch::decode(&put_frame(VERSION_STARTED, 0, &Tenant::default(), &[&changed]).unwrap()) {
            Ok(batch) => {
                good += 1;
                for sample in batch.samples.iter().flatten() {
                    if let Value::Histogram(histogram) = &sample.value {
                        histogram.check().unwrap();
                    }
                }
            }
            Err(_) => bad += 1,
        }
    }
    assert!(good > 100 && bad > 100, "{good} good, {bad} bad: the changes do not reach both sides");
}

/// One label set of 128 KiB that 20,000 series point at would unfold to 2.5 GiB.
#[test]
fn shared_strings_cannot_unfold_without_bound() {
    use generated::ogive::wire as fb;
    let mut builder = planus::Builder::new();
    let text = builder.create_string("v".repeat(10_000));
    let labels = builder.create_vector(vec![text; 26]);
    let one = fb::Series::builder()
        .labels(labels)
        .kind(fb::Kind::Float)
        .temporality(fb::Temporality::Gauge)
        .unit("")
        .width_ms(0_u32)
        .finish(&mut builder);
    let series = builder.create_vector(vec![one; 20_000]);
    let root = fb::Batch::builder()
        .source_low(1_u64)
        .source_high(0_u64)
        .sequence(1_u64)
        .series(series)
        .schemes_as_null()
        .floats_as_null()
        .histograms_as_null()
        .float_histograms_as_null()
        .texts_as_null()
        .known_as_null()
        .finish(&mut builder);
    let payload = builder.finish(root, None).to_vec();
    assert!(payload.len() < 200_000);
    assert!(matches!(Batch::decode(&frame(&Tenant::default(), &payload).unwrap()), Err(Error::TooLarge { .. })));
}

#[test]
fn a_batch_above_the_limits_is_refused() {
    let mut batch = example();
    batch.series = vec![batch.series[0].clone(); SERIES_MAX + 1];
    batch.samples.clear();
    assert!(matches!(batch.encode(), Err(Error::TooLarge { limit: SERIES_MAX, .. })));
    batch.series.pop();
    assert_eq!(Batch::decode(&batch.encode().unwrap()).unwrap().series.len(), SERIES_MAX);
    // A receiver that divides what it gets takes four times as many; what is stored still may not have them.
    let wide = Batch { known: vec![SeriesId(1); SERIES_WIDE_MAX - SERIES_MAX], ..batch.clone() };
    let frame = wide.encode_wide().unwrap();
    assert_eq!(Batch::decode_wide(&frame).unwrap().known.len(), SERIES_WIDE_MAX - SERIES_MAX);
    assert!(matches!(Batch::decode(&frame), Err(Error::TooLarge { limit: SERIES_MAX, .. })));
    let wider = Batch { known: vec![SeriesId(1); SERIES_WIDE_MAX - SERIES_MAX + 1], ..batch.clone() };
    assert!(matches!(wider.encode_wide(), Err(Error::TooLarge { limit: SERIES_WIDE_MAX, .. })));
    batch.series.truncate(1);
    let text =
        |bytes: usize| Ok(Sample { series: 0, time_ns: 0, start_ns: None, value: Value::Text("t".repeat(bytes)) });
    batch.samples = vec![text(TEXT_SAMPLE_BYTES_MAX), text(TEXT_SAMPLE_BYTES_MAX + 1)];
    let samples = Batch::decode(&batch.encode().unwrap()).unwrap().samples;
    assert!(samples[0].is_ok());
    assert_eq!(samples[1], Err(Reason::TextTooLarge));
    // Different lengths: equal strings are written once.
    batch.samples = (0..=FRAME_BYTES_MAX / TEXT_SAMPLE_BYTES_MAX).map(|at| text(TEXT_SAMPLE_BYTES_MAX - at)).collect();
    assert!(matches!(batch.encode(), Err(Error::TooLarge { .. })));
}

fn any_histogram() -> impl Strategy<Value = Histogram<u64>> {
    // Bin 0 of LogLinear2 is the zero bin.
    let bins = || prop::collection::btree_map(1..23_040_i32, any::<u64>(), 0..20);
    let scheme = prop_oneof![
        Just(Scheme::LogLinear10),
        (-10..=20_i8).prop_map(|scale| Scheme::Exp2 { scale }),
        (10..=20_u8, 0..=3_u8).prop_map(|(grouping, shift)| Scheme::LogLinear2 { grouping, shift, unit: 1e-9 }),
        (1.01..9.0_f64, -9.0..9.0_f64).prop_map(|(gamma, offset)| Scheme::Gamma { gamma, offset }),
    ];
    (scheme, bins(), bins(), any::<u32>(), any::<u32>(), any::<Option<f64>>()).prop_map(
        |(scheme, negative, positive, zero, nan, sum)| {
            let mut out = Histogram::new(scheme);
            out.negative = negative.into_iter().collect();
            out.positive = positive.into_iter().collect();
            (out.zero, out.nan, out.sum) = (zero.into(), nan.into(), sum);
            let counts = out.negative.counts().iter().chain(out.positive.counts());
            out.count = counts.fold(out.zero + out.nan, |total, count| total.saturating_add(*count));
            out
        },
    )
}

/// None, one of all, or any; 0 is none.
fn any_starts() -> impl Strategy<Value = Vec<Option<i64>>> {
    let start = || any::<Option<i64>>().prop_map(|start| start.filter(|start| *start != 0));
    prop_oneof![Just(vec![None; 20]), start().prop_map(|one| vec![one; 20]), prop::collection::vec(start(), 20)]
}

#[test]
fn a_body_of_frames_is_cut_where_they_end_or_refused_whole() {
    let one = example().encode().unwrap();
    let other = Batch { tenant: Tenant::new("team").unwrap(), ..example() }.encode().unwrap();
    let body = [&one[..], &other, &one].concat();
    assert_eq!(frames(&body).unwrap(), [&one[..], &other, &one]);
    let ends = [one.len(), one.len() + other.len(), body.len()];
    for cut in 0..=body.len() {
        let read = frames(&body[..cut]);
        match ends.iter().position(|end| *end == cut) {
            Some(at) => assert_eq!(read.unwrap().len(), at + 1),
            None => assert!(matches!(read, Err(Error::Malformed(_))), "cut at {cut}"),
        }
    }
    // Something between two frames, and a length that runs into the next.
    assert!(matches!(frames(&[&one[..], b"x", &one].concat()), Err(Error::Malformed(_))));
    let mut longer = body.clone();
    longer[8] += 1;
    assert!(matches!(frames(&longer), Err(Error::Malformed(_))));
    longer[8..12].copy_from_slice(&[0xff; 4]);
    assert!(matches!(frames(&longer), Err(Error::Malformed(_))));
    // What a frame holds is its own affair.
    let mut bad = body;
    bad[one.len() + 20] ^= 1;
    assert_eq!(frames(&bad).unwrap().iter().filter(|frame| Batch::decode(frame).is_ok()).count(), 2);
    let empty = frame(&Tenant::default(), b"").unwrap();
    assert_eq!(frames(&empty.repeat(FRAMES_MAX)).unwrap().len(), FRAMES_MAX);
    assert!(matches!(frames(&empty.repeat(FRAMES_MAX + 1)), Err(Error::TooLarge { .. })));
}

proptest! {
    /// Whatever comes: no panic, and the frames are the body.
    #[test]
    fn any_body_is_cut_into_frames_or_refused(mut body in prop::collection::vec(any::<u8>(), 0..80), lengths in prop::collection::vec(0u8..30, 0..4)) {
        let mut at = 0;
        for length in lengths {
            if let Some(header) = body.get_mut(at..at + HEADER_BYTES) {
                header[..4].copy_from_slice(&MAGIC);
                header[8..12].copy_from_slice(&u32::from(length).to_le_bytes());
            }
            at += HEADER_BYTES + usize::from(length);
        }
        if let Ok(frames) = frames(&body) {
            prop_assert_eq!(frames.concat(), body);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_batch_comes_back(
        floats in prop::collection::vec((any::<i64>(), any::<f64>()), 0..20),
        histograms in prop::collection::vec((any::<i64>(), any_histogram()), 0..10),
        starts in prop::array::uniform2(any_starts()),
        known in any::<bool>(),
        source: u128,
        sequence: u64,
    ) {
        let mut batch = example();
        (batch.source, batch.sequence) = (SourceId(source), sequence);
        if known {
            batch.known = vec![SeriesId(1)];
        }
        let [of_floats, of_histograms] = starts;
        batch.samples = floats.into_iter().zip(of_floats)
            .map(|((time_ns, value), start_ns)| Ok(Sample { series: 0, time_ns, start_ns, value: Value::Float(value) }))
            .collect();
        batch.samples.extend(histograms.into_iter().zip(of_histograms).map(|((time_ns, histogram), start_ns)| {
            Ok(Sample { series: 1, time_ns, start_ns, value: Value::Histogram(Box::new(histogram)) })
        }));
        let frame = batch.encode().unwrap();
        let has_starts = batch.samples.iter().flatten().any(|sample| sample.start_ns.is_some());
        prop_assert_eq!(frame[4], if has_starts { 3 } else { 1 + u8::from(known) });
        prop_assert_eq!(written(&Batch::decode(&frame).unwrap()), written(&batch));
    }
}

#[test]
fn an_arrival_is_a_definition_of_nothing() {
    for time_ns in [1, 1_700_000_000_123_456_789, i64::MAX] {
        let frame = encode_arrival(time_ns);
        assert_eq!(decode_arrival(&frame).unwrap(), Some(time_ns));
        assert_eq!(
            decode_definitions(&frame).unwrap(),
            Some((Tenant::default(), Vec::new())),
            "other readers pass over it"
        );
        assert!(Batch::decode(&frame).is_err());
    }
    assert_eq!(decode_arrival(&example().encode().unwrap()).unwrap(), None);
    let def = example().series[0].clone().unwrap();
    assert_eq!(decode_arrival(&encode_definitions(&Tenant::default(), [&def]).unwrap()).unwrap(), None);
    assert!(decode_arrival(&encode_arrival(7)[..20]).is_err());
}

/// A string that many labels share stands in a frame once, so a batch could be written that no reader took: the journal
/// held samples that were acknowledged and that no replay gave back. Now the writer keeps to what the reader takes.
#[test]
fn what_no_reader_takes_is_not_written() {
    let meta = || SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let of = |bytes: usize| {
        // Each series has a label of `value` bytes and one that differs.
        let value = "x".repeat(8_000);
        let each = 2 * PAIR_BYTES + "__name__".len() + 6 + "v".len() + value.len();
        let whole = bytes / each - 1;
        let rest = bytes - whole * each - (each - value.len());
        let def =
            |at: usize, value: &str| SeriesDef::new([("__name__", format!("{at:06}").as_str()), ("v", value)], meta());
        let mut series: Vec<_> = (0..whole).map(|at| def(at, &value)).collect();
        series.push(def(whole, &"y".repeat(rest)));
        Batch { series, ..Batch::default() }
    };
    let frame = of(TEXT_BYTES_MAX).encode().unwrap();
    assert!(frame.len() < FRAME_BYTES_MAX / 4 && Batch::decode(&frame).is_ok(), "{}", frame.len());
    let above = of(TEXT_BYTES_MAX + 1).encode();
    assert!(
        matches!(above, Err(Error::TooLarge { limit: TEXT_BYTES_MAX, .. })),
        "{:?}",
        above.map(|frame| frame.len())
    );
    let known = |count: u128| Batch { known: (0..count).map(SeriesId).collect(), ..Batch::default() };
    assert!(Batch::decode(&known(SERIES_MAX as u128).encode().unwrap()).is_ok());
    assert!(matches!(known(SERIES_MAX as u128 + 1).encode(), Err(Error::TooLarge { limit: SERIES_MAX, .. })));
}
