//! Columns of a heat map as bytes: about a ninth of their JSON.
//!
//! Format: docs/formats/columns.md. Invariants: counts and bounds are those of the JSON answer, bit by bit; the
//! quantiles follow from them. Limits: those of the answer it is made of.

use std::collections::BTreeMap;

use ogive_hist::{Count, Histogram};
use ogive_model::WallMs;

use super::merged::Merged;

/// The value in `Accept` and `Content-Type`.
pub(super) const KIND: &str = "application/vnd.ogive.columns";
/// The start of a frame: magic number and version.
const MAGIC: &[u8; 5] = b"OGVC\x01";

/// The counts are doubles, and no integers.
const FLOAT: u8 = 1;
const HAS_SUM: u8 = 2;
const HAS_MIN: u8 = 4;
const HAS_MAX: u8 = 8;

/// A column and its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed<'a> {
    pub(super) time: WallMs,
    /// Where the interval that it counts begins, if known.
    pub(super) from: Option<WallMs>,
    pub(super) value: &'a Merged,
}

/// The bounds of a bin, ordered as on the real axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds(f64, f64);

impl Eq for Bounds {}

impl PartialOrd for Bounds {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bounds {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.total_cmp(&other.1))
    }
}

/// A frame of `columns` behind the JSON `head`.
pub(super) fn frame(head: &[u8], columns: &[Timed<'_>]) -> Vec<u8> {
    let mut places = BTreeMap::new();
    for column in columns {
        match column.value {
            Merged::Integer(value) => places.extend(bins(value).map(|(bounds, _)| (bounds, 0))),
            Merged::Float(value) => places.extend(bins(value).map(|(bounds, _)| (bounds, 0))),
        }
    }
    for (at, place) in places.values_mut().enumerate() {
        *place = at as i64;
    }
    let mut out = MAGIC.to_vec();
    put(&mut out, head.len() as u64);
    out.extend_from_slice(head);
    put(&mut out, places.len() as u64);
    for edge in places.keys().map(|bounds| bounds.0).chain(places.keys().map(|bounds| bounds.1)) {
        out.extend_from_slice(&edge.to_le_bytes());
    }
    put(&mut out, columns.len() as u64);
    put_times(&mut out, columns);
    let mut streams = Streams::default();
    for column in columns {
        match column.value {
            Merged::Integer(value) => streams.put(value, 0, &places, put),
            Merged::Float(value) => {
                streams.put(value, FLOAT, &places, |out, count: f64| out.extend_from_slice(&count.to_le_bytes()));
            }
        }
    }
    // Similar values are grouped: that compresses better than column by column.
    for stream in [streams.flags, streams.sizes, streams.places, streams.counts, streams.values] {
        out.extend_from_slice(&stream);
    }
    out
}

/// When each column ends, and how long it is.
fn put_times(out: &mut Vec<u8>, columns: &[Timed<'_>]) {
    let mut before = WallMs(0);
    for column in columns {
        put(out, zigzag((column.time - before).0));
        before = column.time;
    }
    for column in columns {
        let length = column.from.map_or(0, |from| column.time.since(from).0.max(0) as u64 + 1);
        put(out, length);
    }
}

/// The contents of columns, each part together with that of the other columns.
#[derive(Debug, Default)]
struct Streams {
    flags: Vec<u8>,
    /// How many bins.
    sizes: Vec<u8>,
    /// Distances of their places in the list of bounds.
    places: Vec<u8>,
    /// The count of the column, and of each bin.
    counts: Vec<u8>,
    /// Sum, minimum and maximum, as far as they are known.
    values: Vec<u8>,
}

impl Streams {
    fn put<C: Count>(
        &mut self,
        value: &Histogram<C>,
        kind: u8,
        places: &BTreeMap<Bounds, i64>,
        put_count: impl Fn(&mut Vec<u8>, C),
    ) {
        let mut flags = kind;
        for (flag, known) in [(HAS_SUM, value.sum), (HAS_MIN, value.min), (HAS_MAX, value.max)] {
            if let Some(number) = known.filter(|number| number.is_finite()) {
                flags |= flag;
                self.values.extend_from_slice(&number.to_le_bytes());
            }
        }
        self.flags.push(flags);
        put_count(&mut self.counts, value.count);
        let (mut size, mut before) = (0, 0);
        for (bounds, count) in bins(value) {
            let place = places[&bounds];
            // Bins ascend, but a wide zero bin may begin below the bins before it.
            put(&mut self.places, zigzag(place - before));
            put_count(&mut self.counts, count);
            (size, before) = (size + 1, place);
        }
        put(&mut self.sizes, size);
    }
}

/// Bounds and count of each bin, ascending. The zero bin begins at -0, which is confusing to read.
fn bins<C: Count>(value: &Histogram<C>) -> impl Iterator<Item = (Bounds, C)> + '_ {
    value.buckets().map(|bucket| (Bounds(bucket.lo + 0.0, bucket.hi), bucket.count))
}

/// LEB128: seven bits a byte, the least significant first.
fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Small magnitudes of either sign become small numbers.
const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of docs/formats/columns.md, which the page's tests read as well.
    const EXAMPLE: &str = include_str!("../../../vectors/columns/frame.hex");

    #[test]
    fn a_frame_is_the_example_of_its_format() {
        let mut whole = Histogram::log_linear();
        [-2.5, 0.0, 0.0012, 0.0012, 0.5].into_iter().for_each(|value| whole.record(value));
        let mut float = Histogram::log_linear().to_float();
        float.record_n(0.5, 2.5);
        (float.sum, float.min, float.max) = (None, None, Some(f64::NAN));
        let (whole, float) = (Merged::Integer(whole), Merged::Float(float));
        let columns = [
            Timed { time: WallMs(1_700_000_001_000), from: Some(WallMs(1_700_000_000_000)), value: &whole },
            Timed { time: WallMs(1_700_000_002_000), from: None, value: &float },
        ];
        let hex: String =
            frame(b"{\"status\":\"success\"}", &columns).iter().map(|byte| format!("{byte:02x}")).collect();
        let expected: String = EXAMPLE.split_whitespace().collect();
        assert_eq!(hex, expected);
    }

    #[test]
    fn numbers_take_as_many_bytes_as_they_need() {
        for (value, expected) in [(0, &[0][..]), (127, &[127]), (128, &[0x80, 1]), (300, &[0xac, 2])] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out, expected, "{value}");
        }
        let mut out = Vec::new();
        put(&mut out, u64::MAX);
        assert_eq!(out.len(), 10);
        assert_eq!([0, -1, 1, i64::MIN].map(zigzag), [0, 1, 2, u64::MAX]);
    }
}
