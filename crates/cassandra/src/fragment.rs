//! A row of samples: the pieces of one source, series and minute, with our own checksum, which covers the key too.
//!
//! Format: docs/formats/cassandra.md.
//! Invariants: a key has one value, because it contains the digest of its content; so a row that is written twice, by
//! two nodes or after a crash, is stored once. A piece is everything that one batch holds of a series in a minute, or a
//! numbered part of it.
//! Limits: the constants below, each checked before what it bounds is allocated.
//! Failure: bytes that are not what was written for exactly this key are [`Error::Corrupt`].

use std::collections::HashMap;
use std::hash::Hasher as _;
use std::sync::Arc;

use ogive_model::{Batch, BatchId, Sample, SeriesDef, SeriesId, SourceId, WallMs};
use twox_hash::XxHash3_64;

use crate::Error;
use crate::schema::minute;

const VERSION: u8 = 1;
/// Version, compression, number of pieces, length unfolded, checksum.
const HEADER_BYTES: usize = 12;
/// Zstandard.
const COMPRESSION: u8 = 1;
/// Level 1: Cassandra compresses again; what counts here is what goes over the network three times.
const LEVEL: i32 = 1;
/// Sequence, part and length before each piece's frame.
const PIECE_HEADER_BYTES: usize = 16;
/// 256 pieces: a batch each quarter of a second.
pub(crate) const PIECES_MAX: usize = 256;
/// 1 MiB: a frame above it is parted, so that a row stays far below the 8 MiB that a node of 16 MiB commit log segments
/// takes.
const PIECE_BYTES_MAX: usize = 1 << 20;
/// 256 KiB: a row is not begun to be filled above it.
const BODY_BYTES_FULL: usize = 256 << 10;
/// 2 pieces in each of two runs that a row lacks between its first and its last.
const RUN_MAX: usize = 2;
/// 300,000 pieces are hashed for a row at most: less than 0.1 s.
const TRIES_MAX: usize = 300_000;
/// 4 MiB: what a row unfolds to; a piece of one sample may pass 1 MiB by its frame.
const BODY_BYTES_MAX: usize = 4 << 20;

/// Where a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowKey {
    /// Whose cells.
    pub series: SeriesId,
    /// Minutes since 1970, in which all samples are.
    pub minute: i32,
    /// Who measured.
    pub source: SourceId,
    /// Number of the first batch.
    pub sequence: u64,
}

/// What one batch holds of a series in a minute. Two are equal whenever they arrived.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Who measured.
    pub source: SourceId,
    /// The batch's number.
    pub sequence: u64,
    /// 0, or which part of what was too large for one.
    pub part: u32,
    /// Minutes since 1970.
    pub minute: i32,
    /// When it arrived at a node, microseconds since 1970 by the cluster's clock; not a part of what is stored of it.
    pub arrived_us: i64,
    /// A batch of this series alone, named by its identity.
    pub frame: Arc<[u8]>,
}

impl PartialEq for Piece {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity() && self.frame == other.frame
    }
}

impl Eq for Piece {}

impl Piece {
    /// What distinguishes it from every other piece of its series.
    pub(crate) const fn identity(&self) -> (i32, SourceId, u64, u32) {
        (self.minute, self.source, self.sequence, self.part)
    }

    /// About what it takes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.frame.len() as u64 + 128
    }

    /// Its samples.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn samples(&self) -> Result<Vec<Sample>, Error> {
        let batch = Batch::decode(&self.frame).map_err(|error| corrupt(&error.to_string()))?;
        batch.samples.into_iter().collect::<Result<_, _>>().map_err(|reason| corrupt(reason.as_str()))
    }
}

/// A row as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where it is.
    pub key: RowKey,
    /// Of its pieces.
    pub digest: i64,
    /// What the row holds.
    pub body: Vec<u8>,
}

impl Fragment {
    /// The rows of the pieces of one series, minute and source, ascending by number.
    ///
    /// # Errors
    /// [`Error::Local`] when they cannot be compressed.
    ///
    /// # Panics
    /// When the pieces are not of one minute and source.
    pub fn rows(series: SeriesId, pieces: &[Arc<Piece>]) -> Result<Vec<Self>, Error> {
        let mut out = Vec::new();
        let mut rest = pieces;
        while let Some(first) = rest.first() {
            let (mut bytes, mut count) = (0, 0);
            while count < rest.len().min(PIECES_MAX) && bytes < BODY_BYTES_FULL {
                bytes += PIECE_HEADER_BYTES + rest[count].frame.len();
                count += 1;
            }
            let key = RowKey { series, minute: first.minute, source: first.source, sequence: first.sequence };
            out.push(Self::from_pieces(key, &rest[..count])?);
            rest = &rest[count..];
        }
        Ok(out)
    }

    /// The row of this key and digest, of pieces that were grouped into other rows, ascending by number. What came out
    /// of order was in another row: one run of pieces between two of the row may not be in it, or two of [`RUN_MAX`]
    /// pieces at most. None when no such choice of them has the digest, or none of the first [`TRIES_MAX`].
    pub(crate) fn rebuilt(key: RowKey, digest: i64, pieces: &[Arc<Piece>]) -> Option<Self> {
        let encoded = |(place, piece): (usize, &Arc<Piece>)| {
            let mut bytes = Vec::with_capacity(PIECE_HEADER_BYTES + piece.frame.len());
            append(&mut bytes, piece);
            (place, bytes)
        };
        let all: Vec<(usize, Vec<u8>)> = pieces.iter().enumerate().map(encoded).collect();
        // A row may begin with a later part of its first batch.
        let firsts = pieces.iter().enumerate().filter(|(_, piece)| piece.sequence == key.sequence);
        let mut search = Search { digest, tries: TRIES_MAX, run_max: PIECES_MAX };
        for gaps in 0..=2 {
            search.run_max = if gaps == 2 { RUN_MAX } else { PIECES_MAX };
            for (first, _) in firsts.clone() {
                let mut chosen = Vec::new();
                if search.run(&all[first..], gaps, &mut chosen, XxHash3_64::default()) {
                    let its: Vec<Arc<Piece>> = chosen.iter().map(|place| Arc::clone(&pieces[*place])).collect();
                    return Self::from_pieces(key, &its).ok();
                }
            }
        }
        None
    }

    fn from_pieces(key: RowKey, pieces: &[Arc<Piece>]) -> Result<Self, Error> {
        let mut plain = Vec::new();
        for piece in pieces {
            assert_eq!((piece.minute, piece.source), (key.minute, key.source), "a row is of one minute and source");
            append(&mut plain, piece);
        }
        let digest = XxHash3_64::oneshot(&plain) as i64;
        let compressed = zstd::bulk::compress(&plain, LEVEL).map_err(|error| Error::Local(error.to_string()))?;
        let mut body = Vec::with_capacity(HEADER_BYTES + compressed.len());
        body.extend_from_slice(&[VERSION, COMPRESSION]);
        body.extend_from_slice(&(pieces.len() as u16).to_le_bytes());
        body.extend_from_slice(&(plain.len() as u32).to_le_bytes());
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(&compressed);
        let checksum = checksum(&key, digest, &body);
        body[8..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        Ok(Self { key, digest, body })
    }

    /// The pieces of a row that was read.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn decode(key: &RowKey, digest: i64, body: &[u8]) -> Result<Vec<Piece>, Error> {
        let header = body.first_chunk::<HEADER_BYTES>().ok_or_else(|| corrupt("it is shorter than its header"))?;
        if header[..2] != [VERSION, COMPRESSION] {
            return Err(corrupt(&format!("version {} is not one that is read here", header[0])));
        }
        let stored = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        if stored != checksum(key, digest, body) {
            return Err(corrupt("its checksum is not that of its bytes and its key"));
        }
        let count = usize::from(u16::from_le_bytes([header[2], header[3]]));
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        if count == 0 || count > PIECES_MAX || length > BODY_BYTES_MAX {
            return Err(corrupt(&format!("{count} pieces of {length} bytes are not what a row may hold")));
        }
        let plain =
            zstd::bulk::decompress(&body[HEADER_BYTES..], length).map_err(|error| corrupt(&error.to_string()))?;
        if plain.len() != length || XxHash3_64::oneshot(&plain) as i64 != digest {
            return Err(corrupt("its digest is not that of its pieces"));
        }
        pieces(key, count, &plain)
    }
}

/// A search for the pieces that have a digest.
struct Search {
    digest: i64,
    tries: usize,
    /// Most pieces of a run that is left out.
    run_max: usize,
}

impl Search {
    /// Takes pieces from the first of `rest` on, and leaves out exactly `gaps` runs of them; whether those `chosen`
    /// have the digest then, by their place among all. Each piece has its place and its bytes.
    fn run(&mut self, rest: &[(usize, Vec<u8>)], gaps: usize, chosen: &mut Vec<usize>, mut hash: XxHash3_64) -> bool {
        let before = chosen.len();
        for (at, (place, bytes)) in rest.iter().enumerate() {
            if chosen.len() == PIECES_MAX || self.tries == 0 {
                break;
            }
            self.tries -= 1;
            hash.write(bytes);
            chosen.push(*place);
            if gaps == 0 {
                if hash.finish() as i64 == self.digest {
                    return true;
                }
                continue;
            }
            let behind = rest.get(at + 2..).unwrap_or_default();
            for skipped in 0..behind.len().min(self.run_max) {
                if self.run(&behind[skipped..], gaps - 1, chosen, hash.clone()) {
                    return true;
                }
            }
        }
        chosen.truncate(before);
        false
    }
}

fn append(plain: &mut Vec<u8>, piece: &Piece) {
    plain.extend_from_slice(&piece.sequence.to_le_bytes());
    plain.extend_from_slice(&piece.part.to_le_bytes());
    plain.extend_from_slice(&(piece.frame.len() as u32).to_le_bytes());
    plain.extend_from_slice(&piece.frame);
}

fn pieces(key: &RowKey, count: usize, plain: &[u8]) -> Result<Vec<Piece>, Error> {
    let (mut out, mut rest) = (Vec::with_capacity(count), plain);
    for _ in 0..count {
        let (header, behind) =
            rest.split_first_chunk::<PIECE_HEADER_BYTES>().ok_or_else(|| corrupt("a piece is cut"))?;
        let number = |from: usize| u32::from_le_bytes(header[from..from + 4].try_into().expect("four bytes"));
        let (frame, behind) =
            behind.split_at_checked(number(12) as usize).ok_or_else(|| corrupt("a piece's frame is cut"))?;
        let sequence = u64::from_le_bytes(header[..8].try_into().expect("eight bytes"));
        let (source, minute, part) = (key.source, key.minute, number(8));
        out.push(Piece { source, sequence, part, minute, arrived_us: 0, frame: frame.into() });
        rest = behind;
    }
    if rest.is_empty() { Ok(out) } else { Err(corrupt("bytes stand behind its last piece")) }
}

/// CRC32C of the key, the digest and everything of the body but the checksum itself.
fn checksum(key: &RowKey, digest: i64, body: &[u8]) -> u32 {
    let mut place = Vec::with_capacity(52);
    place.extend_from_slice(&key.series.0.to_be_bytes());
    place.extend_from_slice(&key.minute.to_le_bytes());
    place.extend_from_slice(&key.source.0.to_be_bytes());
    place.extend_from_slice(&key.sequence.to_le_bytes());
    place.extend_from_slice(&digest.to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&place), &body[..8]);
    crc32c::crc32c_append(sum, &body[HEADER_BYTES..])
}

fn corrupt(what: &str) -> Error {
    Error::Corrupt(what.into())
}

/// A series of a batch with its pieces.
#[derive(Debug)]
pub(crate) struct Split {
    pub(crate) id: SeriesId,
    pub(crate) def: SeriesDef,
    pub(crate) pieces: Vec<Arc<Piece>>,
}

/// A batch apart, and how many of its samples are not in it: they break a rule that only their series shows.
pub(crate) fn split(batch: Batch, arrival: WallMs) -> (Vec<Split>, u64) {
    let Batch { source, sequence, tenant, series, samples, .. } = batch;
    let wall = arrival.to_ns();
    let mut dropped = 0;
    let mut groups: HashMap<(u32, i32), Vec<Sample>> = HashMap::new();
    for sample in samples.into_iter().flatten() {
        let kind = series.get(sample.series as usize).and_then(|def| def.as_ref().ok()).map(|def| def.meta.kind);
        match kind.map(|kind| ogive_store::ingest::check(&sample, kind, wall)) {
            Some(Ok(())) => groups.entry((sample.series, minute(WallMs(sample.time_ms())))).or_default().push(sample),
            _ => dropped += 1,
        }
    }
    let mut found: HashMap<SeriesId, Split> = HashMap::new();
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_unstable_by_key(|(place, _)| *place);
    for ((at, minute), samples) in groups {
        let Some(Ok(def)) = series.get(at as usize) else { continue };
        let id = def.id(&tenant);
        let entry = found.entry(id).or_insert_with(|| Split { id, def: def.clone(), pieces: Vec::new() });
        // A series that a batch declares twice goes on with the next part.
        let mut part = entry.pieces.iter().filter(|piece| piece.minute == minute).count() as u32;
        dropped += frames(id, BatchId { source, sequence }, samples, &mut |frame| {
            let arrived_us = arrival.0.saturating_mul(1_000);
            entry.pieces.push(Arc::new(Piece { source, sequence, part, minute, arrived_us, frame }));
            part += 1;
        });
    }
    (found.into_values().collect(), dropped)
}

/// Frames of at most [`PIECE_BYTES_MAX`] bytes, or of one sample. Gives how many samples fit none.
fn frames(
    id: SeriesId,
    BatchId { source, sequence }: BatchId,
    mut samples: Vec<Sample>,
    put: &mut dyn FnMut(Arc<[u8]>),
) -> u64 {
    samples.iter_mut().for_each(|sample| sample.series = 0);
    let count = samples.len();
    let samples = samples.into_iter().map(Ok).collect();
    let batch = Batch { source, sequence, known: vec![id], samples, ..Batch::default() };
    match batch.encode() {
        Ok(frame) if frame.len() <= PIECE_BYTES_MAX || count == 1 => {
            put(frame.into());
            0
        }
        Err(_) if count == 1 => 1,
        _ => {
            let mut first: Vec<Sample> = batch.samples.into_iter().flatten().collect();
            let second = first.split_off(count / 2);
            frames(id, BatchId { source, sequence }, first, put) + frames(id, BatchId { source, sequence }, second, put)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ogive_model::{Kind, SeriesMeta, Temporality, Value};

    fn def(kind: Kind) -> SeriesDef {
        let meta = SeriesMeta { kind, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        SeriesDef::new([("__name__", "m")], meta).unwrap()
    }

    fn batch(sequence: u64, kind: Kind, values: Vec<(i64, Value)>) -> Batch {
        let sample = |(ms, value)| Ok(Sample { series: 0, time_ns: ms * 1_000_000, start_ns: None, value });
        let samples = values.into_iter().map(sample).collect();
        Batch { source: SourceId(7), sequence, series: vec![Ok(def(kind))], samples, ..Batch::default() }
    }

    fn pieces_of(batch: Batch) -> (SeriesId, Vec<Arc<Piece>>) {
        let (mut split, dropped) = split(batch, WallMs(1_000_000));
        assert_eq!((split.len(), dropped), (1, 0));
        let one = split.remove(0);
        (one.id, one.pieces)
    }

    #[test]
    fn a_batch_is_split_by_minute_and_comes_back() {
        let values = [(59_999, 1.0), (60_000, 2.0), (60_001, 3.0)].map(|(ms, value)| (ms, Value::Float(value)));
        let (id, pieces) = pieces_of(batch(3, Kind::Float, values.into()));
        assert_eq!(pieces.iter().map(|piece| piece.minute).collect::<Vec<_>>(), [0, 1]);
        let rows = Fragment::rows(id, &pieces[1..]).unwrap();
        assert_eq!(rows.len(), 1);
        let read = Fragment::decode(&rows[0].key, rows[0].digest, &rows[0].body).unwrap();
        assert_eq!(read, [(*pieces[1]).clone()]);
        let samples = read[0].samples().unwrap();
        assert_eq!(samples.iter().map(Sample::time_ms).collect::<Vec<_>>(), [60_000, 60_001]);
        assert_eq!(rows, Fragment::rows(id, &pieces[1..]).unwrap(), "written again it is the same row");
    }

    #[test]
    fn a_row_is_rebuilt_from_pieces_that_follow_each_other() {
        let mut all: Vec<Arc<Piece>> = Vec::new();
        let mut series = None;
        for sequence in 1..=9 {
            let (id, pieces) =
                pieces_of(batch(sequence, Kind::Float, vec![(60_000 + sequence as i64, Value::Float(1.0))]));
            series = Some(id);
            all.extend(pieces);
        }
        let row = Fragment::rows(series.unwrap(), &all[2..6]).unwrap().remove(0);
        assert_eq!(Fragment::rebuilt(row.key, row.digest, &all), Some(row.clone()));
        assert_eq!(Fragment::rebuilt(row.key, row.digest, &all[2..]), Some(row.clone()));
        assert_eq!(Fragment::rebuilt(row.key, row.digest + 1, &all), None);
        assert_eq!(Fragment::rebuilt(row.key, row.digest, &all[3..]), None, "its first piece is not there");
        all.remove(4);
        assert_eq!(Fragment::rebuilt(row.key, row.digest, &all), None, "one in between is not there");
    }

    #[test]
    fn a_row_is_rebuilt_although_pieces_came_out_of_order() {
        let of = |sequence: u64| {
            pieces_of(batch(sequence, Kind::Float, vec![(60_000 + sequence as i64, Value::Float(1.0))])).1.remove(0)
        };
        let all: Vec<Arc<Piece>> = (1..=60).map(of).collect();
        let row = |left_out: &[u64]| {
            let some: Vec<_> =
                all[10..40].iter().filter(|piece| !left_out.contains(&piece.sequence)).map(Arc::clone).collect();
            Fragment::rows(SeriesId(1), &some).unwrap().remove(0)
        };
        for left_out in [&[20][..], &[20, 21, 22], &[20, 30], &[12, 13, 38]] {
            let row = row(left_out);
            assert_eq!(Fragment::rebuilt(row.key, row.digest, &all).as_ref(), Some(&row), "without {left_out:?}");
        }
        let row = row(&[15, 20, 30]);
        assert_eq!(Fragment::rebuilt(row.key, row.digest, &all), None, "three gaps are not tried");
    }

    #[test]
    fn a_changed_byte_and_another_key_are_corrupt() {
        let (id, pieces) = pieces_of(batch(3, Kind::Text, vec![(60_000, Value::Text("words".into()))]));
        let row = Fragment::rows(id, &pieces).unwrap().remove(0);
        let bad = |key: &RowKey, digest, body: &[u8]| {
            let read = Fragment::decode(key, digest, body);
            assert!(matches!(read, Err(Error::Corrupt(_))), "{read:?}");
        };
        for at in 0..row.body.len() {
            for bit in 0..8 {
                let mut body = row.body.clone();
                body[at] ^= 1 << bit;
                bad(&row.key, row.digest, &body);
            }
            bad(&row.key, row.digest, &row.body[..at]);
        }
        bad(&RowKey { sequence: 4, ..row.key }, row.digest, &row.body);
        bad(&RowKey { minute: 2, ..row.key }, row.digest, &row.body);
        bad(&RowKey { series: SeriesId(1), ..row.key }, row.digest, &row.body);
        bad(&row.key, row.digest + 1, &row.body);
    }

    #[test]
    fn what_is_too_large_for_a_row_is_parted_and_whole() {
        let words = |at: i64| (60_000 + at, Value::Text(format!("{at} {}", "x".repeat(900_000))));
        let (id, pieces) = pieces_of(batch(3, Kind::Text, (0..5).map(words).collect()));
        assert_eq!(pieces.iter().map(|piece| piece.part).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        let rows = Fragment::rows(id, &pieces).unwrap();
        assert_eq!(rows.len(), 5);
        let read = rows.iter().flat_map(|row| Fragment::decode(&row.key, row.digest, &row.body).unwrap());
        assert_eq!(read.map(|piece| piece.samples().unwrap().len()).sum::<usize>(), 5);
    }

    #[test]
    fn many_pieces_take_several_rows() {
        let all: Vec<Arc<Piece>> = (0..600)
            .flat_map(|sequence| pieces_of(batch(sequence, Kind::Float, vec![(60_000, Value::Float(1.0))])).1)
            .collect();
        let rows = Fragment::rows(SeriesId(1), &all).unwrap();
        assert_eq!(rows.iter().map(|row| row.key.sequence).collect::<Vec<_>>(), [0, 256, 512]);
    }

    #[test]
    fn samples_that_break_a_rule_of_their_series_are_counted() {
        let wrong = batch(1, Kind::Float, vec![(60_000, Value::Text("no number".into()))]);
        let (split, dropped) = split(wrong, WallMs(1_000_000));
        assert_eq!((split.len(), dropped), (0, 1));
    }

    /// Bytes that an attacker of the cluster, or a bad disk below a table without compression, may put into a row.
    #[test]
    fn any_bytes_are_refused_without_a_panic() {
        let key = RowKey { series: SeriesId(1), minute: 1, source: SourceId(1), sequence: 1 };
        let mut state = 7_u64;
        for length in 0..2_000_usize {
            let mut body: Vec<u8> = (0..length % 97)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 56) as u8
                })
                .collect();
            if body.len() >= HEADER_BYTES {
                body[..2].copy_from_slice(&[VERSION, COMPRESSION]);
                let sum = checksum(&key, 5, &body);
                body[8..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
            }
            assert!(Fragment::decode(&key, 5, &body).is_err());
        }
    }
}
