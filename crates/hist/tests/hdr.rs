//! HdrHistogram's forms against the `hdrhistogram` crate, in both directions, and against logs of the Java library.

use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer, V2Serializer};
use ogive_hist::hdr::{
    Entry, Interval, Log, decode, decode_base64, encode, encode_base64, encode_compressed, format_interval,
};
use ogive_hist::{Error, Histogram, Scheme};
use proptest::prelude::*;

fn vector(name: &str) -> String {
    let path = format!("{}/../../vectors/hdrhistogram/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every filled bin as (first value, last value, count), in units.
fn bins_of(hdr: &Hdr<u64>) -> Vec<(u64, u64, u64)> {
    let recorded = hdr.iter_recorded();
    recorded
        .map(|step| {
            let value = step.value_iterated_to();
            (hdr.lowest_equivalent(value), hdr.highest_equivalent(value), step.count_at_value())
        })
        .collect()
}

fn bins(histogram: &Histogram) -> Vec<(u64, u64, u64)> {
    let zero = histogram.zero_threshold as u64;
    let zero = (histogram.zero > 0).then_some((0, zero, histogram.zero));
    let positive = histogram.positive.iter().map(|(index, count)| {
        let (lo, hi) = histogram.scheme.bounds(true, index);
        (lo as u64, (hi - 1.0) as u64, count)
    });
    zero.into_iter().chain(positive).collect()
}

fn back(bytes: &[u8]) -> Hdr<u64> {
    Deserializer::new().deserialize(&mut std::io::Cursor::new(bytes)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn both_libraries_read_what_either_writes(
        digits in 0..=5_u8,
        least in prop_oneof![Just(1_u64), Just(1000), Just(1024), 1..100_000_u64],
        values in prop::collection::vec((0..45_u32, any::<u32>(), 1..1_u64 << 46), 0..50),
    ) {
        let mut hdr = Hdr::<u64>::new_with_bounds(least, 1 << 46, digits).unwrap();
        let (grouping, shift) = ([0, 4, 7, 10, 14, 17][usize::from(digits)], least.ilog2() as u8);
        let mut ours = Histogram::new(Scheme::log_linear2(grouping, shift, 1.0).unwrap());
        for (exponent, mantissa, count) in values {
            let value = u64::from(mantissa) << 13 >> (45 - exponent);
            hdr.record_n(value, count).unwrap();
            ours.record_n(value as f64, count);
        }
        prop_assert_eq!(bins(&ours), bins_of(&hdr));
        let (mut plain, mut deflated) = (Vec::new(), Vec::new());
        V2Serializer::new().serialize(&hdr, &mut plain).unwrap();
        V2DeflateSerializer::new().serialize(&hdr, &mut deflated).unwrap();
        for bytes in [plain, deflated] {
            let read = decode(&bytes, 1.0).unwrap();
            prop_assert_eq!((&read.scheme, read.count, read.zero), (&ours.scheme, ours.count, ours.zero));
            prop_assert_eq!(&read.positive, &ours.positive);
            prop_assert_eq!((read.sum, read.min, read.max), (None, None, None));
        }
        for bytes in [encode(&ours).unwrap(), encode_compressed(&ours).unwrap()] {
            prop_assert_eq!(bins_of(&back(&bytes)), bins_of(&hdr));
            prop_assert_eq!(decode(&bytes, 1.0).unwrap().positive, ours.positive.clone());
        }
        // The same answer to the same question, within the bin.
        for q in [0.0, 0.5, 0.99, 1.0] {
            if let Some(found) = ours.quantile(q) {
                let theirs = hdr.value_at_quantile(q) as f64;
                let (lo, hi) = (hdr.lowest_equivalent(theirs as u64) as f64, hdr.highest_equivalent(theirs as u64) as f64);
                prop_assert!(found.lo >= lo && found.hi <= hi + 1.0, "q {}: {:?} and {}", q, found, theirs);
            }
        }
    }
}

#[test]
fn the_documented_example_holds() {
    let mut histogram = Histogram::new(Scheme::log_linear2(10, 0, 1.0).unwrap());
    [1.0, 2.0, 2.0, 1000.0].iter().for_each(|value| histogram.record(*value));
    let hex: String = encode(&histogram).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, vector("example.hex").replace(char::is_whitespace, ""));
}

#[test]
fn counts_of_every_width_come_back() {
    let mut histogram = Histogram::new(Scheme::log_linear2(7, 0, 1e-9).unwrap());
    for (at, count) in
        [1, 63, 64, 1 << 32, (1 << 33) + 5, (1 << 36) - 1, 1 << 48, 1 << 52, 1 << 62, (1 << 63) - 1].iter().enumerate()
    {
        histogram.positive.add(1 + 3 * at as i32, *count);
    }
    histogram.zero = 9;
    histogram.recount();
    assert_eq!(decode(&encode(&histogram).unwrap(), 1e-9).unwrap(), histogram);
    assert_eq!(decode_base64(&encode_base64(&histogram).unwrap(), 1e-9).unwrap(), histogram);
    histogram.positive.add(50, 1 << 63);
    assert!(matches!(encode(&histogram), Err(Error::NotHdr(_))));
}

#[test]
fn what_the_form_cannot_hold_is_refused() {
    let of = |scheme: Scheme, value: f64| {
        let mut histogram = Histogram::new(scheme);
        histogram.record(value);
        encode(&histogram)
    };
    let hdr = Scheme::log_linear2(10, 0, 1.0).unwrap();
    assert!(of(hdr.clone(), 5.0).is_ok() && of(hdr.clone(), 9.2e18).is_ok());
    for (scheme, value) in [
        (Scheme::LogLinear10, 5.0),
        (Scheme::log_linear2(5, 0, 1.0).unwrap(), 5.0),
        (hdr.clone(), -5.0),
        (hdr.clone(), f64::NAN),
        (hdr, 9.3e18),
    ] {
        assert!(matches!(of(scheme.clone(), value), Err(Error::NotHdr(_))), "{scheme} {value}");
    }
    // Nothing at all is a histogram too.
    let empty = Histogram::new(Scheme::log_linear2(17, 9, 1.0).unwrap());
    assert_eq!(decode(&encode(&empty).unwrap(), 1.0).unwrap(), empty);
    assert_eq!(back(&encode(&empty).unwrap()).len(), 0);
}

/// A plain form of version 0 or 1 with counts of `word` bytes.
fn old(version: u32, word: u32, counts: &[u64]) -> Vec<u8> {
    let payload: Vec<u8> = counts.iter().flat_map(|count| count.to_be_bytes()[8 - word as usize..].to_vec()).collect();
    let mut bytes = ([0x1c84_9308_u32, 0x1c84_9301][version as usize] | word << 4).to_be_bytes().to_vec();
    if version == 1 {
        bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&0_u32.to_be_bytes());
    }
    bytes.extend_from_slice(&2_u32.to_be_bytes());
    bytes.extend_from_slice(&1_u64.to_be_bytes());
    bytes.extend_from_slice(&3_600_000_u64.to_be_bytes());
    bytes.extend_from_slice(&if version == 1 {
        1.0_f64.to_be_bytes()
    } else {
        counts.iter().sum::<u64>().to_be_bytes()
    });
    bytes.extend_from_slice(&payload);
    bytes
}

#[test]
fn older_versions_and_doubles_are_read() {
    for version in [0, 1] {
        for word in [2, 4, 8] {
            let read = decode(&old(version, word, &[3, 0, 0, 7, 0, 300]), 1e-3).unwrap();
            assert_eq!((read.zero, read.count), (3, 310), "version {version}, words of {word}");
            assert_eq!(read.positive.iter().collect::<Vec<_>>(), [(3, 7), (5, 300)]);
            assert_eq!(read.scheme, Scheme::log_linear2(7, 0, 1e-3).unwrap());
        }
        assert!(matches!(decode(&old(version, 2, &[0, 0x8000]), 1.0), Err(Error::Hdr { .. })), "a count below zero");
    }
    // A histogram of doubles: another prefix, and a ratio.
    let mut histogram = Histogram::new(Scheme::log_linear2(10, 0, 1.0).unwrap());
    histogram.record(1500.0);
    let mut plain = encode(&histogram).unwrap();
    plain[32..40].copy_from_slice(&0.25_f64.to_be_bytes());
    let mut doubles = 0x0c72_124e_u32.to_be_bytes().to_vec();
    doubles.extend_from_slice(&3_u32.to_be_bytes());
    doubles.extend_from_slice(&1_000_000_u64.to_be_bytes());
    doubles.extend_from_slice(&plain);
    let read = decode(&doubles, 1.0).unwrap();
    assert_eq!((read.scheme.clone(), read.count_nearby(375.0)), (Scheme::log_linear2(10, 0, 0.25).unwrap(), 1));
}

#[test]
fn a_form_cut_or_changed_anywhere_is_an_error_or_another_histogram() {
    let mut histogram = Histogram::new(Scheme::log_linear2(7, 0, 1.0).unwrap());
    (1..300).for_each(|step| histogram.record(f64::from(step * step)));
    let forms = [
        encode(&histogram).unwrap(),
        encode_compressed(&histogram).unwrap(),
        old(0, 8, &[1, 2, 3]),
        old(1, 4, &[1, 2]),
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for form in &forms {
        for length in 0..form.len() {
            let cut = decode(&form[..length], 1.0);
            // V0 does not say how long it is.
            assert!(cut.is_err() || form[3] & 0xf == 8, "cut at {length}");
        }
        for _ in 0..3000 {
            let mut changed = form.clone();
            for _ in 0..=random(3) {
                let at = random(changed.len());
                changed[at] = random(256) as u8;
            }
            if let Ok(read) = decode(&changed, 1.0) {
                assert_eq!(read.check(), Ok(()));
                let Scheme::LogLinear2 { unit, .. } = read.scheme else { panic!("another scheme: {}", read.scheme) };
                if let Ok(written) = encode(&read) {
                    assert_eq!(decode(&written, unit).unwrap(), read);
                }
            }
        }
    }
    assert!(matches!(decode(b"AAAAAAAAAAAAAAAA", 1.0), Err(Error::Hdr { offset: 0, .. })));
    assert!(matches!(decode(&forms[0], 0.0), Err(Error::Parameter(_))));
}

#[test]
fn a_bomb_unfolds_to_its_limit_only() {
    use std::io::Write;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![0; (16 << 20) + 1]).unwrap();
    let zeros = encoder.finish().unwrap();
    let mut bytes = 0x1c84_9314_u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&(zeros.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&zeros);
    let error = decode(&bytes, 1.0).unwrap_err();
    assert!(error.to_string().contains("more than 16 MiB"), "{error}");
}

fn intervals(text: &str) -> (Log, Vec<Interval>) {
    let mut log = Log::new(1e-9);
    let mut out = Vec::new();
    for line in text.lines() {
        if let Entry::Interval(interval) = log.line(line).unwrap() {
            out.push(*interval);
        }
    }
    (log, out)
}

#[test]
fn logs_of_the_java_library_are_read() {
    let (log, found) = intervals(&vector("jhiccup.hlog"));
    assert_eq!((log.start_time(), found.len()), (Some(1_441_753_532.570), 10));
    assert!((found[0].start - 1_441_753_532.696).abs() < 1e-6 && found[0].length == 1.007 && found[0].tag.is_none());
    // jHiccup wakes about each millisecond and adds what a stall hid.
    assert!(found.iter().all(|interval| interval.histogram.count > 300));
    for interval in &found {
        // The greatest value as the Java library computed it: the last bin's end, in milliseconds of three digits.
        let (_, hi) = interval.histogram.scheme.bounds(true, *interval.histogram.positive.indexes().last().unwrap());
        assert!((hi * 1e3 - interval.max).abs() < 1e-3, "{} and {}", hi * 1e3, interval.max);
    }
    let (log, found) = intervals(&vector("tagged.hlog"));
    let tags: Vec<_> = found.iter().map(|interval| interval.tag.as_deref().unwrap()).collect();
    assert_eq!(tags, ["A", "A", "B", "B", "C", "C"]);
    assert_eq!((log.start_time(), found[2].start), (Some(2.133), 0.127));
    // The crate reads the same lines.
    let text = vector("tagged.hlog");
    let theirs = hdrhistogram::serialization::interval_log::IntervalLogIterator::new(text.as_bytes());
    let encoded: Vec<_> = theirs
        .filter_map(|entry| match entry.unwrap() {
            hdrhistogram::serialization::interval_log::LogEntry::Interval(interval) => {
                Some(interval.encoded_histogram().to_owned())
            }
            _ => None,
        })
        .collect();
    assert_eq!(encoded.len(), found.len());
    for (encoded, interval) in encoded.iter().zip(&found) {
        let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).unwrap();
        let count: u64 = back(&bytes).len();
        assert_eq!(count, interval.histogram.count);
    }
}

#[test]
fn a_line_that_is_written_is_read() {
    let (_, found) = intervals(&vector("tagged.hlog"));
    let text: Vec<String> = found.iter().map(|interval| format_interval(interval).unwrap()).collect();
    assert_eq!(intervals(&text.join("\n")).1, found);
    for tag in ["", "a,b", "a b", "a\n"] {
        let interval = Interval { tag: Some(tag.into()), ..found[0].clone() };
        assert!(matches!(format_interval(&interval), Err(Error::HdrLog(_))), "{tag:?}");
    }
}

#[test]
fn starts_count_from_what_the_log_says() {
    let line = &vector("tagged.hlog").lines().nth(2).unwrap().replace("Tag=A,", "");
    let start = |head: &str, line: &str| intervals(&format!("{head}\n{line}")).1[0].start;
    assert!((start("#[StartTime: 1441812279.474 (seconds since epoch)]", line) - 1_441_812_281.607).abs() < 1e-6);
    assert_eq!(start("#[StartTime: 100 x]\n#[BaseTime: 1000.5]", line), 1002.633);
    assert_eq!(start("# a comment", line), 2.133);
    // Absolute starts, the first of them a little before the start time.
    assert_eq!(start("#[StartTime: 1441812279.474]", &line.replacen("2.133", "1441812279.4", 1)), 1_441_812_279.4);
    for bad in ["1,2", "x,1,2,HIST", "Tag=A", "1,1,1,!", "1,1,1,HISTFAAA", "#[StartTime: now]", "inf,1,1,AAAA"] {
        assert!(Log::new(1e-9).line(bad).is_err(), "{bad}");
    }
    assert_eq!(Log::new(1e-9).line("\"StartTimestamp\",\"x\"").unwrap(), Entry::Nothing);
}
