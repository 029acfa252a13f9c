//! Round trips of frames: a reader of chunks, written from their specification.

use std::collections::BTreeMap;

use ogive_hist::{Bins, CounterReset, Histogram, Scheme};
use ogive_model::{HistogramValue, Kind, SeriesData, Temporality};
use proptest::prelude::*;

use super::tests::series;
use super::*;
use crate::remote_write::Counts;
use crate::tsdb_chunk::{self, Point};

/// Reads bits, most significant first.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, count: u32) -> u64 {
        (0..count).fold(0, |value, _| {
            let bit = self.bytes[self.at / 8] >> (7 - self.at % 8) & 1;
            self.at += 1;
            value << 1 | u64::from(bit)
        })
    }

    fn varint(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.take(8);
            value |= (byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }

    fn ones(&mut self, most: u32) -> u32 {
        (0..most).find(|_| self.take(1) == 0).unwrap_or(most)
    }

    fn unsigned(&mut self) -> u64 {
        let size = [0, 3, 6, 9, 12, 18, 25, 56, 64][self.ones(8) as usize];
        self.take(size)
    }

    fn signed(&mut self) -> i64 {
        let size = [0, 3, 6, 9, 12, 18, 25, 56, 64][self.ones(8) as usize];
        let value = self.take(size);
        widened(value, size)
    }

    fn xor(&mut self, seen: &mut (u64, u32, u32)) -> f64 {
        if self.take(1) == 1 {
            if self.take(1) == 1 {
                let (front, count) = (self.take(5) as u32, self.take(6) as u32);
                let count = if count == 0 { 64 } else { count };
                (seen.1, seen.2) = (front, 64 - front - count);
            }
            seen.0 ^= self.take(64 - seen.1 - seen.2) << seen.2;
        }
        f64::from_bits(seen.0)
    }
}

/// A number of `size` bits whose range goes from -(2^(size-1) - 1) to 2^(size-1).
fn widened(value: u64, size: u32) -> i64 {
    if (1..64).contains(&size) && value > 1 << (size - 1) { value as i64 - (1 << size) } else { value as i64 }
}

fn read_floats(bytes: &[u8]) -> Vec<(i64, f64)> {
    let mut reader = Reader { bytes, at: 0 };
    let (mut out, mut time, mut step, mut seen) = (Vec::new(), 0_i64, 0_i64, (0, 0, 0));
    for at in 0..reader.take(16) {
        match at {
            0 => {
                let zigzag = reader.varint();
                time = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
                seen.0 = reader.take(64);
                out.push((time, f64::from_bits(seen.0)));
                continue;
            }
            1 => step = reader.varint() as i64,
            _ => {
                let size = [0, 14, 17, 20, 64][reader.ones(4) as usize];
                step += widened(reader.take(size), size);
            }
        }
        time += step;
        out.push((time, reader.xor(&mut seen)));
    }
    out
}

/// What a chunk says of histograms: reset hint, and each as time, count, zero, sum and bins of both signs.
type HistogramPoint = (i64, f64, f64, f64, [BTreeMap<i32, f64>; 2]);

fn read_histograms(bytes: &[u8], is_integer: bool) -> (u8, i64, Vec<HistogramPoint>) {
    let mut reader = Reader { bytes, at: 0 };
    let (count, flags) = (reader.take(16), reader.take(8) as u8 >> 6);
    if reader.take(8) == 255 {
        reader.take(64);
    }
    let schema = reader.signed();
    let mut indexes = [Vec::new(), Vec::new()];
    for side in &mut indexes {
        let mut end = 0;
        for _ in 0..reader.unsigned() {
            let (length, offset) = (reader.unsigned() as i32, reader.signed() as i32);
            side.extend(end + offset..end + offset + length);
            end += offset + length;
        }
    }
    if schema == -53 {
        for _ in 0..reader.unsigned() {
            if reader.unsigned() == 0 {
                reader.take(64);
            }
        }
    }
    let bins = indexes[0].len() + indexes[1].len();
    let (mut time, mut step, mut out) = (0, 0, Vec::new());
    // Count and zero, then the bins: value and difference of integers, or bits and window of floats.
    let (mut whole, mut sums) = (vec![(0_i64, 0_i64); bins + 2], (0, 0, 0));
    let mut floats = vec![(0_u64, 0_u32, 0_u32); bins + 2];
    for at in 0..count {
        let mut number = |reader: &mut Reader<'_>, of: usize, is_signed: bool| {
            if !is_integer {
                return if at == 0 { reader.xor_first(&mut floats[of]) } else { reader.xor(&mut floats[of]) };
            }
            let seen = &mut whole[of];
            if at == 0 {
                seen.0 = if is_signed { reader.signed() } else { reader.unsigned() as i64 };
            } else {
                seen.1 += reader.signed();
                seen.0 += seen.1;
            }
            seen.0 as f64
        };
        let more = reader.signed();
        if at == 0 {
            time = more;
        } else {
            step += more;
            time += step;
        }
        let (total, zero) = (number(&mut reader, 0, false), number(&mut reader, 1, false));
        let sum = if at == 0 { reader.xor_first(&mut sums) } else { reader.xor(&mut sums) };
        let mut sides = [BTreeMap::new(), BTreeMap::new()];
        let mut of = 2;
        for (side, indexes) in sides.iter_mut().zip(&indexes) {
            let mut before = 0.0;
            for index in indexes {
                let value = number(&mut reader, of, true);
                of += 1;
                before = if is_integer { before + value } else { value };
                if before != 0.0 {
                    side.insert(*index, before);
                }
            }
        }
        out.push((time, total, zero, sum, sides));
    }
    (flags, schema, out)
}

impl Reader<'_> {
    fn xor_first(&mut self, seen: &mut (u64, u32, u32)) -> f64 {
        seen.0 = self.take(64);
        f64::from_bits(seen.0)
    }
}

/// The chunks of frames: encoding and bytes; and how large each frame was.
fn unframed(frames: &[Vec<u8>]) -> Vec<(u64, Vec<u8>)> {
    let mut out = Vec::new();
    for frame in frames {
        let mut rest = &frame[..];
        let length = varint(&mut rest, "it").unwrap() as usize;
        let (checksum, message) = rest.split_at(4);
        assert_eq!(message.len(), length);
        assert_eq!(checksum, crc32c::crc32c(message).to_be_bytes());
        let (1, series) = Fields::new(message).next().unwrap().unwrap() else { panic!() };
        for field in Fields::new(series.bytes("it").unwrap()) {
            let (2, chunk) = field.unwrap() else { continue };
            let (mut encoding, mut bytes) = (0, Vec::new());
            for field in Fields::new(chunk.bytes("it").unwrap()) {
                match field.unwrap() {
                    (3, code) => encoding = code.varint("it").unwrap(),
                    (4, data) => bytes = data.bytes("it").unwrap().to_vec(),
                    _ => {}
                }
            }
            out.push((encoding, bytes));
        }
    }
    out
}

fn framed(same: &[SeriesData], bytes_max: usize) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    assert!(frames(0, same, bytes_max, &mut |frame| {
        out.push(frame);
        true
    }));
    out
}

fn float_series(samples: &[(i64, f64)]) -> SeriesData {
    let mut one = series(&[("__name__", "a")], Kind::Float, Temporality::Gauge);
    one.floats.times = samples.iter().map(|sample| sample.0).collect();
    one.floats.values = samples.iter().map(|sample| sample.1).collect();
    one
}

fn histogram_series(samples: Vec<(i64, HistogramValue)>, temporality: Temporality) -> SeriesData {
    let mut one = series(&[("__name__", "a")], Kind::Histogram, temporality);
    (one.histograms.times, one.histograms.values) = samples.into_iter().unzip();
    one
}

fn reported<C: ogive_hist::Count>(time: i64, histogram: &Histogram<C>) -> HistogramPoint {
    let side = |bins: &Bins<C>| bins.iter().map(|(index, count)| (index, count.to_f64())).collect();
    let sum = histogram.sum_or_estimate();
    let sides = [side(&histogram.positive), side(&histogram.negative)];
    (time, histogram.count.to_f64(), histogram.zero.to_f64(), sum, sides)
}

#[test]
fn frames_are_bounded_and_hold_everything() {
    // Numbers that share nothing, at times that do not either.
    let noise = |at: i64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)) as f64 / 3.0;
    let samples: Vec<(i64, f64)> = (0..50_000).map(|at| (at * 1_000 + at * at % 977, noise(at))).collect();
    let frames = framed(&[float_series(&samples)], 64 << 10);
    assert!(frames.len() > 5 && frames.iter().all(|frame| frame.len() < (64 << 10) + 16), "{}", frames.len());
    let back: Vec<(i64, f64)> = unframed(&frames).iter().flat_map(|chunk| read_floats(&chunk.1)).collect();
    assert_eq!(back, samples);
    let mut count = 0;
    let stopped = super::frames(3, &[float_series(&samples)], 64 << 10, &mut |_| {
        count += 1;
        count < 2
    });
    assert_eq!((stopped, count), (false, 2));
}

#[test]
fn a_reset_a_stale_marker_and_another_layout_begin_a_chunk() {
    let cumulative = |counts: &[u64], scale: i32| {
        let mut out = Histogram::new(Scheme::exp2(scale).unwrap());
        counts.iter().zip([0.001, 5.0, -2.0]).for_each(|(count, value)| out.record_n(value, *count));
        HistogramValue::Integer(out)
    };
    let mut stale = Histogram::<u64>::new(Scheme::exp2(0).unwrap());
    stale.sum = Some(f64::from_bits(0x7ff0_0000_0000_0002));
    let samples = vec![
        (1, cumulative(&[1, 0, 0], 3)),
        (2, cumulative(&[1, 4, 0], 3)),
        (3, cumulative(&[2, 4, 9], 3)),
        // Fewer in one bin, though more in all.
        (4, cumulative(&[1, 40, 9], 3)),
        (5, cumulative(&[1, 40, 10], 2)),
        (6, HistogramValue::Integer(stale)),
        (7, cumulative(&[1, 41, 10], 2)),
    ];
    let read: Vec<_> =
        unframed(&framed(&[histogram_series(samples.clone(), Temporality::Cumulative)], FRAME_BYTES_MAX))
            .iter()
            .map(|(encoding, bytes)| {
                assert_eq!(*encoding, 2);
                let (flags, schema, found) = read_histograms(bytes, true);
                (flags, schema, found.iter().map(|one| (one.0, one.1)).collect::<Vec<_>>())
            })
            .collect();
    let expected = [
        (0, 3, vec![(1, 1.0), (2, 5.0), (3, 15.0)]),
        (2, 3, vec![(4, 50.0)]),
        (0, 2, vec![(5, 51.0)]),
        (2, 0, vec![(6, 0.0)]),
        (0, 2, vec![(7, 52.0)]),
    ];
    assert_eq!(read, expected);
    // As states they have no history to break.
    let states = unframed(&framed(&[histogram_series(samples[..4].to_vec(), Temporality::Delta)], FRAME_BYTES_MAX));
    assert_eq!((states.len(), read_histograms(&states[0].1, true).0), (1, 3));
}

#[test]
fn custom_bounds_and_zero_thresholds_are_reported() {
    let mut custom = Histogram::<f64>::new(Scheme::custom([0.005, 1.0, 1.0 / 3.0 + 1.0, 1e9]).unwrap());
    [(0.001, 2.5), (1.2, 1.5), (1e10, 3.0)].iter().for_each(|(value, count)| custom.record_n(*value, *count));
    let found = unframed(&framed(
        &[histogram_series(vec![(5, HistogramValue::Float(custom.clone()))], Temporality::Cumulative)],
        FRAME_BYTES_MAX,
    ));
    assert_eq!(found[0].0, 3);
    assert_eq!(read_histograms(&found[0].1, false), (0, -53, vec![reported(5, &custom)]));
    for threshold in [0.0, 2.0_f64.powi(-128), 2.0_f64.powi(-243), 2.0_f64.powi(10), 2.0_f64.powi(11), 0.001] {
        let mut one = Histogram::<u64>::new(Scheme::exp2(0).unwrap());
        one.zero_threshold = threshold;
        one.zero = 3;
        one.count = 3;
        one.sum = Some(0.0);
        let found = unframed(&framed(
            &[histogram_series(vec![(5, HistogramValue::Integer(one.clone()))], Temporality::Gauge)],
            FRAME_BYTES_MAX,
        ));
        assert_eq!(read_histograms(&found[0].1, true), (3, 0, vec![reported(5, &one)]), "{threshold:e}");
        let long = threshold == 2.0_f64.powi(11) || threshold == 0.001;
        assert_eq!(found[0].1[3] == 255, long, "{threshold:e}");
    }
}

#[test]
fn a_reset_hint_of_the_sender_is_kept() {
    for (reset, flags) in [(CounterReset::Unknown, 0), (CounterReset::NotReset, 1), (CounterReset::Reset, 2)] {
        let mut one = Histogram::<u64>::new(Scheme::exp2(0).unwrap());
        one.record(1.0);
        one.reset = reset;
        let samples = vec![(5, HistogramValue::Integer(one))];
        let found = unframed(&framed(&[histogram_series(samples, Temporality::Cumulative)], FRAME_BYTES_MAX));
        assert_eq!(read_histograms(&found[0].1, true).0, flags);
    }
}

proptest! {
    #[test]
    fn any_numbers_come_back(
        steps in proptest::collection::vec((1_i64..1 << 40, any::<u64>(), any::<bool>()), 1..400),
        first in -(1_i64 << 50)..1 << 50,
    ) {
        let (mut time, mut bits) = (first, 0_u64);
        let samples: Vec<(i64, f64)> = steps.iter().map(|(step, value, is_near)| {
            time += if *is_near { 15_000 + step % 3 } else { *step };
            bits = if *is_near { bits ^ (value & 0xff00) } else { *value };
            (time, f64::from_bits(bits))
        }).collect();
        let chunks = unframed(&framed(&[float_series(&samples)], 1_000));
        let back: Vec<(i64, f64)> = chunks.iter().flat_map(|chunk| read_floats(&chunk.1)).collect();
        let bits = |all: &[(i64, f64)]| all.iter().map(|(time, value)| (*time, value.to_bits())).collect::<Vec<_>>();
        prop_assert_eq!(bits(&back), bits(&samples));
        let mut read = Vec::new();
        for (encoding, bytes) in unframed(&framed(&[float_series(&samples)], 1_000)) {
            tsdb_chunk::decode(encoding as u8, &bytes, &mut |time, point| match point {
                Point::Float(value) => read.push((time, value)),
                Point::Histogram(_) => panic!("a histogram among floats"),
            }).unwrap();
        }
        prop_assert_eq!(bits(&read), bits(&samples));
    }

    #[test]
    fn any_histograms_come_back(
        points in proptest::collection::vec(
            (1_i64..100_000, proptest::collection::vec((-1e6_f64..1e6, 1_u64..1000), 0..6), any::<bool>()), 1..150),
        is_float: bool,
        is_cumulative: bool,
    ) {
        let mut time = 1_700_000_000_000_i64;
        let mut sum = Histogram::<u64>::new(Scheme::exp2(2).unwrap());
        let (mut samples, mut expected) = (Vec::new(), Vec::new());
        for (step, values, restarts) in &points {
            time += step;
            // Cells stand alone; a counter goes on until it begins anew.
            if !is_cumulative || *restarts {
                sum = Histogram::new(Scheme::exp2(2).unwrap());
            }
            values.iter().for_each(|(value, count)| sum.record_n(*value, *count));
            if is_float {
                let float = sum.to_float();
                expected.push(reported(time, &float));
                samples.push((time, HistogramValue::Float(float)));
            } else {
                expected.push(reported(time, &sum));
                samples.push((time, HistogramValue::Integer(sum.clone())));
            }
        }
        let temporality = if is_cumulative { Temporality::Cumulative } else { Temporality::Delta };
        let chunks = unframed(&framed(&[histogram_series(samples, temporality)], 4_000));
        let back: Vec<HistogramPoint> = chunks.iter().flat_map(|chunk| read_histograms(&chunk.1, !is_float).2).collect();
        prop_assert_eq!(format!("{back:?}"), format!("{expected:?}"));
        let mut read = Vec::new();
        for (encoding, bytes) in &chunks {
            tsdb_chunk::decode(*encoding as u8, bytes, &mut |time, point| read.push(match point {
                Point::Histogram(Ok(Counts::Integer(one))) if !is_float => reported(time, &*one),
                Point::Histogram(Ok(Counts::Float(one))) if is_float => reported(time, &*one),
                other => panic!("{other:?}"),
            })).unwrap();
        }
        prop_assert_eq!(format!("{read:?}"), format!("{expected:?}"));
    }
}

/// Each point that a chunk gives, and how it ended.
fn decoded(encoding: u64, bytes: &[u8]) -> (Vec<(i64, Point)>, Result<(), crate::Error>) {
    let mut out = Vec::new();
    let end = tsdb_chunk::decode(encoding as u8, bytes, &mut |time, point| out.push((time, point)));
    (out, end)
}

#[test]
fn what_a_reader_of_chunks_gives_is_what_was_written() {
    let mut custom = Histogram::<f64>::new(Scheme::custom([0.005, 1.0, 1.0 / 3.0 + 1.0, 1e9]).unwrap());
    [(0.001, 2.5), (1.2, 1.5), (1e10, 3.0)].iter().for_each(|(value, count)| custom.record_n(*value, *count));
    let mut stale = Histogram::<f64>::new(Scheme::exp2(0).unwrap());
    stale.sum = Some(f64::from_bits(ogive_model::STALE));
    let mut wide = Histogram::<f64>::new(Scheme::exp2(0).unwrap());
    (wide.zero_threshold, wide.zero, wide.count, wide.sum) = (0.001, 3.0, 3.0, Some(0.0));
    for (one, reset) in
        [(&custom, CounterReset::Reset), (&stale, CounterReset::Unknown), (&wide, CounterReset::NotReset)]
    {
        let one = Histogram { reset, ..one.clone() };
        let samples = vec![(5, HistogramValue::Float(one.clone()))];
        let found = unframed(&framed(&[histogram_series(samples, Temporality::Cumulative)], FRAME_BYTES_MAX));
        let (points, end) = decoded(found[0].0, &found[0].1);
        end.unwrap();
        let [(5, Point::Histogram(Ok(Counts::Float(read))))] = &points[..] else { panic!("{points:?}") };
        // The marker is a NaN, which is not equal to itself; chunks have no least and greatest sample.
        let shape = |one| Histogram { sum: None, min: None, max: None, ..one };
        let bits = |one: &Histogram<f64>| one.sum.map(f64::to_bits);
        assert_eq!((bits(read), shape(*read.clone())), (bits(&one), shape(one)));
    }
}

#[test]
fn a_chunk_that_is_cut_or_changed_is_refused_or_read_without_a_panic() {
    let samples: Vec<(i64, f64)> = (0..100).map(|at| (at * 15_000, at as f64 / 3.0)).collect();
    let (_, floats) = unframed(&framed(&[float_series(&samples)], FRAME_BYTES_MAX)).remove(0);
    for cut in 0..floats.len() {
        let (points, end) = decoded(1, &floats[..cut]);
        assert!(end.is_err() && points.len() < 100, "{cut}");
    }
    assert!(decoded(9, &floats).1.is_err());
    let mut one = Histogram::<u64>::new(Scheme::exp2(2).unwrap());
    let grown = (0..30).map(|at| {
        one.record(f64::from(at * at) / 7.0 - 5.0);
        (i64::from(at) * 1_000, HistogramValue::Integer(one.clone()))
    });
    let (_, whole) =
        unframed(&framed(&[histogram_series(grown.collect(), Temporality::Cumulative)], FRAME_BYTES_MAX)).remove(0);
    for cut in 0..whole.len() {
        assert!(decoded(2, &whole[..cut]).1.is_err(), "{cut}");
    }
    fn any(bytes: &[u8]) {
        for encoding in 0..=4 {
            let _ = decoded(encoding, bytes);
        }
    }
    crate::mutations::smoke(any, &floats, 3_000, &[]);
    crate::mutations::smoke(any, &whole, 3_000, &[]);
}
