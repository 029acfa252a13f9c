//! Series in a dictionary against the same series in tables, against broken bytes, and against bytes made to hurt.

use proptest::prelude::*;

use super::dictionary::{CLASSES_MAX, SERIES_MIN};
use super::frame::VERSION_DICTIONARY;
use super::tests::{check_vector, example, written};
use super::*;
use crate::{Kind, Labels, SeriesMeta, SourceId, Temporality};

const META: SeriesMeta =
    SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };

/// Series of a pod each, one of them of another class.
fn pods(count: usize) -> Batch {
    let def = |at: usize| {
        let meta = SeriesMeta { width_ms: if at == 3 { 1000 } else { 0 }, ..META };
        SeriesDef::new([("__name__", "up".to_owned()), ("job", "api".into()), ("pod", format!("p{at:02}"))], meta)
    };
    Batch { source: SourceId(1), sequence: 1, series: (0..count).map(def).collect(), ..Batch::default() }
}

/// The frame as it was before there were dictionaries.
fn in_tables(batch: &Batch) -> Vec<u8> {
    let frame = batch.encode_in_tables().unwrap();
    assert!(frame[4] < VERSION_DICTIONARY as u8);
    frame
}

fn labels_of(frame: &[u8]) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    View::read(frame).unwrap().each_label(|at, text| out.push((at, text.to_owned()))).unwrap();
    out
}

#[test]
fn many_series_share_a_dictionary_and_few_have_tables() {
    for (count, version) in [(0, 1), (SERIES_MIN - 1, 1), (SERIES_MIN, 4), (1000, 4)] {
        let batch = pods(count);
        let frame = batch.encode().unwrap();
        assert_eq!((frame[4], written(&Batch::decode(&frame).unwrap())), (version, written(&batch)));
        assert_eq!(labels_of(&frame), labels_of(&in_tables(&batch)));
    }
    assert!(pods(1000).encode().unwrap().len() * 4 < in_tables(&pods(1000)).len());
    let batch = Batch { tenant: Tenant::new("team-7").unwrap(), ..pods(20) };
    let frame = batch.encode().unwrap();
    assert_eq!(written(&Batch::decode(&frame).unwrap()), written(&batch));
    assert_eq!(with_tenant(&pods(20).encode().unwrap(), &batch.tenant).unwrap(), frame);
    let defs: Vec<SeriesDef> = batch.series.into_iter().flatten().collect();
    let frame = encode_definitions(&batch.tenant, &defs).unwrap();
    assert_eq!((frame[4], decode_definitions(&frame).unwrap()), (4, Some((batch.tenant, defs))));
}

#[test]
fn the_documented_dictionary_holds() {
    check_vector(&pods(16), concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/batch/dictionary.hex"));
}

#[test]
fn too_many_classes_are_written_as_tables() {
    let of = |count: usize| {
        let def = |at: usize| SeriesDef::new([("__name__", "m")], SeriesMeta { width_ms: at as u32, ..META });
        Batch { series: (0..count).map(def).collect(), ..Batch::default() }
    };
    for (count, version) in [(CLASSES_MAX, 4), (CLASSES_MAX + 1, 1)] {
        let frame = of(count).encode().unwrap();
        assert_eq!((frame[4], Batch::decode(&frame).unwrap() == of(count)), (version, true));
    }
}

/// A class of 129 labels or of a long unit is no class, and a frame with one was refused as a whole: one series that
/// came from [`Labels::with`] would have spoilt all others of a journal's record. In a table it spoils only itself.
#[test]
fn a_series_above_the_limits_of_a_class_is_written_in_a_table() {
    let one = pods(1).series.remove(0).unwrap();
    let labels = (0..Labels::COUNT_MAX).fold(one.labels.clone(), |labels, at| labels.with(&format!("l{at:03}"), "v"));
    let unit = "u".repeat(SeriesDef::UNIT_BYTES_MAX + 1);
    for bad in [SeriesDef { labels, ..one.clone() }, SeriesDef { meta: SeriesMeta { unit, ..META }, ..one }] {
        let mut batch = pods(SERIES_MIN);
        batch.series.push(Ok(bad));
        let frame = batch.encode().unwrap();
        let series = Batch::decode(&frame).unwrap().series;
        assert_eq!((frame[4], &series[..SERIES_MIN]), (1, &batch.series[..SERIES_MIN]));
        assert!(matches!(series[SERIES_MIN..], [Err(Error::TooLarge { .. })]), "{series:?}");
    }
    let most = (3..Labels::COUNT_MAX).map(|at| (format!("l{at:03}"), "v".to_owned()));
    let most = most.chain(["__name__", "job", "pod"].map(|name| (name.to_owned(), "v".to_owned())));
    let meta = SeriesMeta { unit: "u".repeat(SeriesDef::UNIT_BYTES_MAX), ..META };
    let mut batch = pods(SERIES_MIN);
    batch.series.push(SeriesDef::new(most, meta));
    let frame = batch.encode().unwrap();
    assert_eq!((frame[4], Batch::decode(&frame).unwrap().series), (4, batch.series));
}

/// Parts of a dictionary by hand: `numbers` are all below 128.
fn by_hand(head: [usize; 4], text: &str, numbers: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    head.into_iter().for_each(|number| varint::put(&mut out, number as u64));
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(numbers);
    let mut builder = planus::Builder::new();
    let message = encode::message(&Batch::default(), true);
    frame_declaring(&Tenant::default(), &out, builder.finish(message, None)).unwrap()
}

#[test]
fn a_bad_series_spoils_only_itself_and_a_bad_class_its_series() {
    let text = "__name__aab";
    // Strings `__name__`, `a`; one class; two series, of which the second has no name.
    let frame = by_hand([11, 2, 1, 2], text, &[8, 1, 0, 0, 0, 0, 2, 0, 1, 0, 2, 3, 0, 1, 3]);
    let series = Batch::decode(&frame).unwrap().series;
    let expected = Labels::new([("__name__", "a"), ("a", "a")]).unwrap();
    assert!(matches!(&series[..], [Ok(def), Err(Error::NoMetricName)] if def.labels == expected), "{series:?}");
    let twice = by_hand([11, 2, 1, 1], text, &[8, 1, 0, 0, 0, 0, 2, 0, 0, 0, 3, 3]);
    assert!(matches!(Batch::decode(&twice).unwrap().series[..], [Err(Error::DuplicateLabel { .. })]));
    // Text that is left, a class, a string, a kind, and bytes behind the last series, that are not there.
    for numbers in [
        &[8, 1, 0, 0, 0, 0, 2, 0, 1, 0, 3, 1, 0, 1, 1][..],
        &[8, 1, 0, 0, 0, 0, 2, 0, 1, 1, 2, 3, 0, 2, 3],
        &[8, 1, 0, 0, 0, 0, 2, 0, 1, 0, 4, 3, 0, 2, 3],
        &[8, 1, 3, 0, 0, 0, 2, 0, 1, 0, 2, 3, 0, 2, 3],
        &[8, 1, 0, 0, 0, 0, 2, 0, 1, 0, 2, 3, 0, 2, 3, 0],
    ] {
        let frame = by_hand([11, 2, 1, 2], text, numbers);
        assert!(matches!(Batch::decode(&frame), Err(Error::Malformed(_))), "{numbers:?}");
    }
    let mut builder = planus::Builder::new();
    let both =
        frame_declaring(&Tenant::default(), &[0, 0, 0, 0], builder.finish(encode::message(&example(), true), None));
    assert!(matches!(Batch::decode(&both.unwrap()), Err(Error::Malformed(what)) if what.contains("message")));
}

/// A string of 16 KiB to which 100,000 series refer would unfold to 1.6 GB, and counts that nothing stands behind to
/// more.
#[test]
fn a_dictionary_cannot_unfold_without_bound() {
    let text = format!("__name__{}", "v".repeat(Labels::VALUE_BYTES_MAX));
    let mut numbers = vec![8, 0x80, 0x80, 1, 0, 0, 0, 0, 1, 0];
    numbers.extend([0, 2].repeat(SERIES_MAX));
    let frame = by_hand([text.len(), 2, 1, SERIES_MAX], &text, &numbers);
    assert!(matches!(Batch::decode(&frame), Err(Error::TooLarge { limit: TEXT_BYTES_MAX, .. })));
    for head in [[0, 0, 0, SERIES_MAX + 1], [0, 1 << 30, 0, 0], [0, 0, 1 << 30, 0]] {
        assert!(matches!(Batch::decode(&by_hand(head, "", &[])), Err(Error::TooLarge { .. })), "{head:?}");
    }
    let empty = by_hand([0, 0, 0, SERIES_MAX], "", &[]);
    assert!(matches!(Batch::decode(&empty), Err(Error::Malformed(_))));
    assert!(matches!(View::read(&empty), Err(Error::Malformed(_))));
}

/// Each of 65,536 classes has one string of 30 MiB as its name twice. Compared before their lengths were looked at, the
/// names took minutes of every reader of the frame.
#[test]
fn names_above_the_limit_are_not_compared() {
    let text = "n".repeat(30 << 20);
    let mut numbers = Vec::new();
    varint::put(&mut numbers, text.len() as u64);
    numbers.extend([0, 0, 0, 0, 2, 0, 0].repeat(CLASSES_MAX));
    numbers.extend([0, 1, 1]);
    let frame = by_hand([text.len(), 1, CLASSES_MAX, 1], &text, &numbers);
    let series = Batch::decode(&frame).unwrap().series;
    assert!(matches!(series[..], [Err(Error::TooLarge { limit: Labels::NAME_BYTES_MAX, .. })]));
}

#[test]
fn a_dictionary_that_is_cut_or_changed_is_an_error_or_a_batch() {
    let frame = pods(20).encode().unwrap();
    let body = &frame[HEADER_BYTES + 1..];
    let length = u32::from_le_bytes([body[0], body[1], body[2], body[3]]) as usize;
    let (declared, message) = (&body[4..4 + length], &body[4 + length..]);
    for cut in 0..length {
        let cut = frame_declaring(&Tenant::default(), &declared[..cut], message).unwrap();
        assert!(matches!(Batch::decode(&cut), Err(Error::Malformed(_) | Error::TooLarge { .. })));
    }
    for cut in 0..body.len() {
        let cut = put_frame(VERSION_DICTIONARY, 0, &Tenant::default(), &[&body[..cut]]).unwrap();
        let _ = Batch::decode(&cut);
        let _ = View::read(&cut).map(|view| view.each_label(|_, _| {}));
    }
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..20_000 {
        let mut changed = declared.to_vec();
        for _ in 0..=rng.usize(..3) {
            let at = rng.usize(..changed.len());
            changed[at] = if rng.bool() { rng.u8(..) } else { changed[at] ^ (1 << rng.u8(..8)) };
        }
        let frame = frame_declaring(&Tenant::default(), &changed, message).unwrap();
        let view = View::read(&frame).and_then(|view| view.each_label(|_, _| {}));
        match Batch::decode(&frame) {
            Ok(batch) => {
                view.unwrap();
                good += 1;
                let again = Batch::decode(&batch.encode().unwrap()).unwrap();
                assert!(again.series.iter().flatten().eq(batch.series.iter().flatten()));
            }
            Err(_) => bad += 1,
        }
    }
    assert!(good > 100 && bad > 100, "{good} good, {bad} bad: the changes do not reach both sides");
}

fn any_series() -> impl Strategy<Value = Result<SeriesDef, Error>> {
    let value = prop_oneof![4 => "[ab]", 2 => "[a-zä日]{0,9}", 1 => "[xy]{90,130}"];
    let labels = prop::collection::btree_map("[a-cä]{1,2}", value, 0..5);
    let kind = prop_oneof![Just(Kind::Float), Just(Kind::Histogram), Just(Kind::Text)];
    let temporality = prop_oneof![Just(Temporality::Gauge), Just(Temporality::Cumulative), Just(Temporality::Delta)];
    (labels, "[mn]{1,2}", kind, temporality, "(s|By|)", prop_oneof![Just(0), any::<u32>()]).prop_map(
        |(mut labels, name, kind, temporality, unit, width_ms)| {
            labels.insert("__name__".into(), name);
            SeriesDef::new(labels, SeriesMeta { kind, temporality, unit, width_ms })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn any_series_are_the_same_in_a_dictionary_as_in_tables(
        series in prop::collection::vec(any_series(), 0..60), known: bool, spoilt in 0..60_usize,
    ) {
        let mut batch = Batch { series, ..example() };
        if let Some(series) = batch.series.get_mut(spoilt) {
            *series = Err(Error::NoMetricName);
        }
        batch.known = vec![crate::SeriesId(1); usize::from(known)];
        let frame = batch.encode().unwrap();
        let good = batch.series.iter().flatten().count();
        prop_assert_eq!(frame[4] == 4, good >= SERIES_MIN);
        let tables = in_tables(&batch);
        prop_assert_eq!(written(&Batch::decode(&frame).unwrap()), written(&Batch::decode(&tables).unwrap()));
        prop_assert_eq!(labels_of(&frame), labels_of(&tables));
        prop_assert_eq!(View::read(&frame).unwrap().declared().unwrap(), good);
    }
}
