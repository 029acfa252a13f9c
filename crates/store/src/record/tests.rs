use ogive_model::{SourceId, Tenant};
use proptest::prelude::*;

use super::*;
use crate::testing::any_float;

type Row = (u32, i64, f64);

fn head(tenant: &Tenant, part: u32) -> RecordHead<'_> {
    RecordHead { tenant, source: SourceId(7 << 100 | 5), sequence: 300, part }
}

fn record(tenant: &Tenant, part: u32, bindings: &[(u32, SeriesId)], rows: &[Row]) -> Vec<u8> {
    let mut encoder = RecordEncoder::default();
    // What a record before left does not show.
    encoder.push(9, 9, 9.5);
    encoder.bind(9, SeriesId(9));
    encoder.clear();
    bindings.iter().for_each(|(number, id)| encoder.bind(*number, *id));
    rows.iter().for_each(|(number, time, value)| encoder.push(*number, *time, *value));
    encoder.finish(&head(tenant, part)).to_vec()
}

fn check(tenant: &Tenant, bindings: &[(u32, SeriesId)], rows: &[Row]) {
    let bytes = record(tenant, 11, bindings, rows);
    let found = FloatRecord::read(&bytes).unwrap().unwrap();
    assert_eq!((&found.tenant, found.source, found.sequence), (tenant, SourceId(7 << 100 | 5), 300));
    assert_eq!((found.part, &found.bindings[..], found.len()), (11, bindings, rows.len()));
    let mut back = Vec::new();
    found.each(|number, time, value| back.push((number, time, value.to_bits())));
    assert_eq!(back, rows.iter().map(|row| (row.0, row.1, row.2.to_bits())).collect::<Vec<_>>());
    let times = || rows.iter().map(|row| row.1);
    assert_eq!(found.span_ns(), times().min().zip(times().max()));
    for length in 0..bytes.len() {
        assert!(!matches!(FloatRecord::read(&bytes[..length]), Ok(Some(_))), "cut at {length}");
    }
}

fn any_row() -> impl Strategy<Value = Row> {
    let time = prop_oneof![Just(1_700_000_000_000_000_000), 0..1000_i64, any::<i64>()];
    (prop_oneof![0..20_u32, 0..NUMBER_MAX], time, any_float())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_rows_come_back(
        rows in prop::collection::vec(any_row(), 0..60),
        bindings in prop::collection::btree_map(0..NUMBER_MAX, any::<u128>(), 0..9),
        one_time in any::<bool>(), is_ms in any::<bool>(), is_default in any::<bool>(),
    ) {
        let tenant = if is_default { Tenant::default() } else { Tenant::new("team-a").unwrap() };
        let bindings: Vec<_> = bindings.into_iter().map(|(number, id)| (number, SeriesId(id))).collect();
        let first = rows.first().map_or(0, |row| row.1);
        let time = |time: i64| if one_time { first } else if is_ms { time / 1_000_000 * 1_000_000 } else { time };
        let rows: Vec<Row> = rows.into_iter().map(|row| (row.0, time(row.1), row.2)).collect();
        check(&tenant, &bindings, &rows);
    }
}

/// A record's bytes are behind a checksum; should they be anything all the same, they are read or refused.
#[test]
fn changed_records_are_read_or_refused() {
    let rows: Vec<Row> = (0..40).map(|at| (at + at / 9, i64::from(at / 7) * 1_000_000, f64::from(at) * 0.25)).collect();
    let good = record(&Tenant::default(), 1, &[(3, SeriesId(1)), (4, SeriesId(2))], &rows);
    let mut rng = fastrand::Rng::with_seed(3);
    let mut read = 0;
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(MAGIC.len()..bytes.len());
            bytes[at] = if rng.bool() { rng.u8(..) } else { bytes[at] ^ 1 << rng.u8(..8) };
        }
        if let Ok(Some(found)) = FloatRecord::read(&bytes) {
            let mut count = 0;
            found.each(|_, _, _| count += 1);
            assert_eq!(count, found.len());
            let _ = RecordReader::new().frame(&bytes);
            read += 1;
        }
    }
    assert!(read > 1_000, "{read} of 20,000 could be read");
}

#[test]
fn a_reader_gives_frames_of_what_it_knows() {
    let tenant = Tenant::default();
    let mut reader = RecordReader::new();
    let mut ids = |bytes: &[u8]| {
        let batch = Batch::decode(&reader.frame(bytes).unwrap()).unwrap();
        let of = |sample: &Sample| (batch.known[sample.series as usize].0, sample.time_ns);
        (batch.samples.iter().flatten().map(of).collect::<Vec<_>>(), reader.take_lost())
    };
    let bound = record(&tenant, 1, &[(5, SeriesId(50)), (6, SeriesId(60))], &[(5, 1, 0.5), (6, 1, 1.5), (5, 2, 2.5)]);
    assert_eq!(ids(&bound), (vec![(50, 1), (60, 1), (50, 2)], 0));
    let later = record(&tenant, 1, &[], &[(6, 3, 1.0), (7, 3, 1.0)]);
    assert_eq!(ids(&later), (vec![(60, 3)], 1), "nobody says what 7 is");
    let other = record(&tenant, 2, &[(7, SeriesId(70))], &[(6, 4, 1.0), (7, 4, 1.0)]);
    assert_eq!(ids(&other), (vec![(70, 4)], 1), "6 is of another part");
    let frame = Batch::default().encode().unwrap();
    assert!(matches!(reader.frame(&frame), Ok(Cow::Borrowed(_))));
    assert!(reader.frame(b"OGVR").is_err());
}

/// The example of docs/formats/record.md.
#[test]
fn the_example_is_written_and_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/record/floats.hex");
    let text: String = std::fs::read_to_string(path).unwrap().split_whitespace().collect();
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    let expected: Vec<u8> = (0..text.len()).step_by(2).map(byte).collect();
    let tenant = Tenant::default();
    let mut encoder = RecordEncoder::default();
    encoder.bind(6, SeriesId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10));
    for (number, value) in [(5, 51.37), (6, 1_234_567.0), (7, -0.0)] {
        encoder.push(number, 1_700_000_000_000_000_000, value);
    }
    let source = SourceId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
    let head = RecordHead { tenant: &tenant, source, sequence: 7, part: 0x1d2c_3b4a };
    assert_eq!(encoder.finish(&head), expected);
    let found = FloatRecord::read(&expected).unwrap().unwrap();
    assert_eq!((found.source, found.sequence, found.part, found.len()), (source, 7, 0x1d2c_3b4a, 3));
}
