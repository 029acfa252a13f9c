//! The OpenHistogram bytes against whatever may come in, and what must come out again.

use ogive_hist::openhistogram::{BINS_MAX, Repairs, decode, decode_base64, encode, encode_base64};
use ogive_hist::{BINS_PER_SIGN, DecimalBin, Error, FlatRecorder, Histogram};
use proptest::prelude::*;

/// Counts at which an encoder may choose a wrong width.
const COUNTS: [u64; 14] = [
    1,
    255,
    256,
    65_535,
    65_536,
    (1 << 32) - 1,
    1 << 32,
    (1 << 33) + 5,
    (1 << 36) - 1,
    1 << 48,
    (1 << 52) - 1,
    (1 << 56) - 1,
    1 << 56,
    u64::MAX,
];

/// All that bytes can hold of a histogram.
fn bare(mut histogram: Histogram) -> Histogram {
    (histogram.sum, histogram.min, histogram.max) = (None, None, None);
    histogram
}

#[test]
fn every_count_survives_bytes_and_base64() {
    for count in COUNTS {
        for bin in
            [DecimalBin::ZERO, DecimalBin::NAN, DecimalBin { val: 10, exp: -9 }, DecimalBin { val: -99, exp: 127 }]
        {
            let mut histogram = Histogram::log_linear();
            histogram.record_bin(bin, count);
            let bytes = encode(&histogram).unwrap();
            let width = (64 - count.leading_zeros()).div_ceil(8);
            assert_eq!(bytes.len(), 5 + width as usize, "count {count}");
            assert_eq!(decode(&bytes), Ok((histogram.clone(), Repairs::default())), "count {count}");
            let text = encode_base64(&histogram).unwrap();
            assert_eq!(decode_base64(&text), Ok((histogram, Repairs::default())), "count {count}");
        }
    }
}

#[test]
fn every_bin_there_is_fits_and_returns() {
    let mut histogram = Histogram::log_linear();
    for index in 0..BINS_PER_SIGN {
        histogram.negative.push(index, index as u64 + 1);
        histogram.positive.push(index, 1 << (index % 64));
    }
    (histogram.zero, histogram.nan) = (3, 4);
    histogram.recount();
    let bytes = encode(&histogram).unwrap();
    assert_eq!(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])), BINS_MAX);
    assert_eq!(decode(&bytes), Ok((histogram, Repairs::default())));
}

#[test]
fn repairs_are_counted_one_by_one() {
    let check = |bytes: &[u8], expected: Repairs, bins: &[(i8, i8, u64)]| {
        let (histogram, repairs) = decode(bytes).unwrap();
        let mut model = Histogram::log_linear();
        bins.iter().for_each(|(val, exp, count)| model.record_bin(DecimalBin { val: *val, exp: *exp }, *count));
        assert_eq!((histogram, repairs), (model, expected), "{bytes:02x?}");
    };
    let none = Repairs::default;
    check(&[0, 0], none(), &[]);
    check(&[0, 1, 10, 0, 0, 1], none(), &[(10, 0, 1)]);
    check(&[0, 1, 10, 0, 0, 1, 9, 9], Repairs { trailing_bytes: 2, ..none() }, &[(10, 0, 1)]);
    check(&[0, 2, 10, 0, 0, 1], Repairs { missing_bins: 1, ..none() }, &[(10, 0, 1)]);
    check(&[0, 1, 10, 0, 0, 0], Repairs { empty_bins: 1, ..none() }, &[]);
    check(&[0, 1, 10, 0, 1, 7, 0], Repairs { wide_counts: 1, ..none() }, &[(10, 0, 7)]);
    check(&[0, 1, 5, 0, 0, 9], Repairs { invalid_bins: 1, invalid_samples: 9, ..none() }, &[]);
    check(&[0, 1, 0xff, 3, 0, 9], Repairs { invalid_bins: 1, invalid_samples: 9, ..none() }, &[]);
    check(&[0, 1, 0, 4, 0, 3], Repairs { odd_zero_bins: 1, ..none() }, &[(0, 0, 3)]);
    let twice = [0, 2, 10, 0, 0, 1, 10, 0, 0, 2];
    check(&twice, Repairs { duplicate_bins: 1, ..none() }, &[(10, 0, 3)]);
    let swapped = [0, 2, 10, 0, 0, 1, 0xf6, 0, 0, 2];
    check(&swapped, Repairs { unsorted_bins: 1, ..none() }, &[(-10, 0, 2), (10, 0, 1)]);
    let zeros = [0, 2, 0, 0, 0, 1, 0, 4, 0, 2];
    check(&zeros, Repairs { odd_zero_bins: 1, duplicate_bins: 1, ..none() }, &[(0, 0, 3)]);
}

#[test]
fn what_cannot_be_read_is_an_error_with_its_evidence() {
    assert_eq!(decode(&[0]), Err(Error::Truncated { field: "the number of bins", offset: 0, length: 1 }));
    assert_eq!(decode(&[0, 1, 10]), Err(Error::Truncated { field: "a bin", offset: 2, length: 3 }));
    assert_eq!(decode(&[0, 1, 10, 0, 1, 5]), Err(Error::Truncated { field: "a count", offset: 2, length: 6 }));
    let wide = [0, 1, 10, 0, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    assert_eq!(decode(&wide), Err(Error::CountWidth { offset: 2, width: 8 }));
    assert_eq!(decode(&[0xff, 0xff]), Err(Error::TooManyBins { found: 65_535, limit: BINS_MAX }));
    let limit = BINS_MAX as u16;
    assert_eq!(decode(&limit.to_be_bytes()).map(|(_, repairs)| repairs.missing_bins), Ok(BINS_MAX));
    assert!(matches!(decode(&(limit + 1).to_be_bytes()), Err(Error::TooManyBins { .. })));
    assert_eq!(decode_base64("AA*="), Err(Error::Base64 { offset: 2, byte: b'*' }));
    assert_eq!(decode_base64("AAA=A"), Err(Error::Base64 { offset: 4, byte: b'A' }));
    assert_eq!(decode_base64("AAAAA"), Err(Error::Base64 { offset: 5, byte: 0 }));
    assert_eq!(decode_base64("AAA=="), Err(Error::Base64 { offset: 4, byte: b'=' }));
    assert_eq!(decode_base64("AAAA="), Err(Error::Base64 { offset: 4, byte: b'=' }));
    assert_eq!(decode_base64("AAAA"), Err(Error::Trailing { offset: 2, bytes: 1 }));
    assert_eq!(decode_base64("AAA").map(|(_, repairs)| repairs.loose_base64), Ok(true));
    assert!(matches!(decode_base64(""), Err(Error::Truncated { .. })));
    let other = Histogram::new(ogive_hist::Scheme::exp2(3).unwrap());
    assert!(matches!(encode(&other), Err(Error::NotLogLinear10(_))));
}

/// Every byte string must give an error or a histogram whose canonical form reads back as itself.
fn survives(bytes: &[u8]) {
    if let Ok((histogram, repairs)) = decode(bytes) {
        let canonical = encode(&histogram).unwrap();
        assert_eq!(decode(&canonical), Ok((histogram.clone(), Repairs::default())), "{bytes:02x?}");
        assert_eq!(repairs.is_none(), canonical == bytes, "{bytes:02x?}: {repairs:?}");
        let samples: u64 = histogram.buckets().fold(histogram.nan, |sum, bucket| sum.saturating_add(bucket.count));
        assert_eq!(samples, histogram.count);
    }
}

#[test]
fn a_bin_without_its_values_makes_the_sum_unknown() {
    let mut histogram = Histogram::log_linear();
    histogram.record(1.0);
    histogram.record_bin(DecimalBin::NAN, 2);
    assert_eq!((histogram.sum, histogram.max, histogram.count), (Some(1.0), Some(1.0), 3));
    histogram.record_bin(DecimalBin { val: 20, exp: 0 }, 2);
    assert_eq!((histogram.sum, histogram.min, histogram.max), (None, None, None));
}

#[test]
fn a_bound_a_rounding_below_an_edge_still_touches_the_bin() {
    // 8.7e-5 / 10 * 10 in doubles: below the edge, and yet of bin 87 by the rule.
    let bound = 8.699_999_999_999_999e-5;
    let mut histogram = Histogram::log_linear();
    [8.6e-5, 8.7e-5, 8.8e-5].into_iter().for_each(|value| histogram.record(value));
    histogram.clamp_to(8.65e-5, bound);
    let kept: Vec<_> = histogram.buckets().map(|bucket| (bucket.lo, bucket.count)).collect();
    assert_eq!(kept, [(8.6e-5, 1), (8.7e-5, 1)]);
}

#[test]
fn seeded_rubbish_and_mutations_never_panic() {
    let mut state = 20_261_121_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..random() % 64).map(|_| random() as u8).collect();
        // Often a small number of bins, so that reading goes on to them.
        if bytes.len() > 1 && random() % 4 > 0 {
            (bytes[0], bytes[1]) = (0, (random() % 8) as u8);
        }
        survives(&bytes);
        let text: String = bytes.iter().map(|byte| char::from(byte & 0x7f)).collect();
        let _ = decode_base64(&text);
    }
    let mut histogram = Histogram::log_linear();
    for _ in 0..200 {
        histogram.record_n(f64::from_bits(random() >> 1) % 1e9, random() >> (random() % 64));
        histogram.record_n(-((random() >> 40) as f64), 1 + random() % 300);
    }
    let good = encode(&histogram).unwrap();
    for cut in 0..good.len() {
        survives(&good[..cut]);
    }
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..1 + random() % 4 {
            let at = random() as usize % bytes.len();
            match random() % 3 {
                0 => bytes[at] = random() as u8,
                1 => bytes[at] ^= 1 << (random() % 8),
                _ => {
                    bytes.remove(at);
                }
            }
        }
        survives(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_recorded_returns(values in prop::collection::vec((any::<f64>(), any::<u64>()), 0..60)) {
        let mut histogram = Histogram::log_linear();
        values.iter().for_each(|(value, count)| histogram.record_n(*value, *count));
        let histogram = bare(histogram);
        let bytes = encode(&histogram).unwrap();
        // The total saturates where bins are added up in another order only if it exceeds 2^64 anyway.
        prop_assert_eq!(decode(&bytes), Ok((histogram.clone(), Repairs::default())));
        prop_assert_eq!(decode_base64(&encode_base64(&histogram).unwrap()), Ok((histogram, Repairs::default())));
    }

    #[test]
    fn random_bytes_survive(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survives(&bytes);
    }
}

/// The C library's fast histograms kept an index over their bins that reading, merging and clearing did not renew: the
/// next value went into another bin. Nothing here has such an index, and this keeps it so.
#[test]
fn records_land_in_their_bins_after_reading_merging_and_taking() {
    let mut recorder = FlatRecorder::new();
    [500_000_000, 5_000_000_000, 1_000_000_000].into_iter().for_each(|nanoseconds| recorder.record(nanoseconds));
    let (mut read, _) = decode(&encode(&recorder.take()).unwrap()).unwrap();
    read.record(1.0);
    assert_eq!((read.count_nearby(1.0), read.count_nearby(5.0), read.count_nearby(0.5)), (2, 1, 1));
    let mut merged = Histogram::log_linear();
    merged.record(20.0);
    merged.merge(&read).unwrap();
    merged.record(1.0);
    assert_eq!((merged.count_nearby(1.0), merged.count_nearby(20.0), merged.count), (3, 1, 6));
    recorder.record(1_000_000_000);
    assert_eq!(recorder.take().count_nearby(1.0), 1);
}

#[test]
fn a_value_is_near_itself_at_every_edge_of_both_signs() {
    for positive in [true, false] {
        for index in 0..BINS_PER_SIGN {
            let (lo, hi) = ogive_hist::Scheme::LogLinear10.bounds(positive, index);
            let edge = if positive { lo } else { hi };
            let mut histogram = Histogram::log_linear();
            histogram.record(edge);
            assert_eq!(histogram.count_nearby(edge), 1, "{edge:e}");
            assert_eq!(histogram.nan, 0, "{edge:e}");
            assert_eq!(histogram.count_nearby(-edge), 0, "{edge:e} and its opposite are apart");
            let bins = if positive { &histogram.positive } else { &histogram.negative };
            assert_eq!(bins.indexes(), [index], "{edge:e}");
        }
    }
}

#[test]
fn the_example_of_the_format_page_is_what_is_written() {
    let page = include_str!("../../../docs/formats/openhistogram.md");
    let line = page.lines().find(|line| line.starts_with("    00 02 ")).expect("the page has its example");
    let (hex, base64) = line.trim().split_once("        ").expect("bytes, then base64");
    let bytes: Vec<u8> = hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let mut histogram = Histogram::log_linear();
    histogram.record(1.0);
    histogram.record_n(3.0e-11, 1 << 32);
    assert_eq!(encode(&histogram), Ok(bytes));
    assert_eq!(encode_base64(&histogram).as_deref(), Ok(base64));
}
