//! A batch with more than one batch may have, in several: what its sender numbered once is stored under numbers that
//! follow from it.
//!
//! Invariants: the samples of the pieces, one behind the other, are those of the batch; each piece has the series that
//! its samples name. The last has the batch's own number and is stored last: who finds that number finds everything.
//! The others are known again by the range of samples that they hold, so that a batch that is sent again counts once.
//! Limits: `PIECES_MAX`.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use ogive_model::{Batch, BatchId, Sample, SourceId, Verdict, wire};

use crate::room::UNFOLDED_KIB;

/// 1,024 pieces, as many as for any other request.
const PIECES_MAX: usize = 1_024;

/// A series that no piece has.
const NONE: u32 = u32::MAX;

/// Some of the samples of a batch, as a batch.
pub struct Piece {
    /// Its samples with the series that they are of.
    pub batch: Batch,
    /// The same, encoded.
    pub frame: Vec<u8>,
    /// The position of its first sample in the whole batch.
    from: u32,
}

impl Piece {
    /// Adds the outcome of a piece to that of the pieces before.
    pub fn add(from: u32, verdict: Verdict, whole: &mut Verdict) {
        whole.accepted += verdict.accepted;
        whole.duplicate += verdict.duplicate;
        whole.folded += verdict.folded;
        whole.rejected.extend(verdict.rejected.into_iter().map(|(sample, reason)| (sample + from, reason)));
    }

    /// The position of its first sample in the whole batch, from 0.
    pub fn from(&self) -> u32 {
        self.from
    }
}

/// `batch` in pieces that are within the limits of one.
pub fn divide(series_max: usize, batch: &Batch) -> Result<Vec<Piece>, TooMuch> {
    let mut left = by_series(batch, series_max.min(wire::SERIES_MAX));
    left.reverse();
    let mut out = Vec::new();
    while let Some(range) = left.pop() {
        let piece = piece(batch, range.clone());
        match framed(series_max, &piece) {
            Ok(frame) => out.push(Piece { batch: piece, frame, from: range.start as u32 }),
            Err(why) if range.len() <= 1 => return Err(why),
            Err(_) => {
                let middle = range.start + range.len() / 2;
                left.extend([middle..range.end, range.start..middle]);
            }
        }
        if out.len() + left.len() > PIECES_MAX {
            return Err(TooMuch::new(format!("it needs more than {PIECES_MAX} batches; send less at once")));
        }
    }
    Ok(out)
}

/// Ranges of samples that reference no more than `limit` series each.
fn by_series(batch: &Batch, limit: usize) -> Vec<Range<usize>> {
    let (mut out, mut from, mut named) = (Vec::new(), 0, HashSet::new());
    for (at, sample) in batch.samples.iter().enumerate() {
        let Ok(Sample { series, .. }) = sample else { continue };
        if named.insert(*series) && named.len() > limit.max(1) {
            out.push(from..at);
            (from, named) = (at, HashSet::from([*series]));
        }
    }
    out.push(from..batch.samples.len());
    out
}

fn piece(whole: &Batch, range: Range<usize>) -> Batch {
    let BatchId { source, sequence } = number(whole, &range);
    let mut piece = Batch { source, sequence, tenant: whole.tenant.clone(), ..Batch::default() };
    let mut places = HashMap::new();
    let samples = || whole.samples[range.clone()].iter();
    // Declared series are numbered before known ones.
    for series in samples().flatten().map(|sample| sample.series) {
        if let Some(declared) = whole.series.get(series as usize) {
            places.entry(series).or_insert_with(|| {
                piece.series.push(declared.clone());
                piece.series.len() as u32 - 1
            });
        }
    }
    for series in samples().flatten().map(|sample| sample.series) {
        if let Some(known) = (series as usize).checked_sub(whole.series.len()).and_then(|at| whole.known.get(at)) {
            places.entry(series).or_insert_with(|| {
                piece.known.push(*known);
                (piece.series.len() + piece.known.len()) as u32 - 1
            });
        }
    }
    let placed = |sample: &Sample| Sample { series: *places.get(&sample.series).unwrap_or(&NONE), ..sample.clone() };
    piece.samples = samples().map(|sample| sample.as_ref().map(placed).map_err(|reason| *reason)).collect();
    piece
}

fn number(whole: &Batch, range: &Range<usize>) -> BatchId {
    if range.end == whole.samples.len() {
        return whole.id();
    }
    let about = format!("samples {} to {}", range.start, range.end);
    let source = ogive_protocol::fingerprint(&whole.tenant, &about, &whole.source.0.to_le_bytes());
    BatchId { source: SourceId(source), sequence: whole.sequence }
}

/// Why something is too much for one batch, and into how many parts to cut it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooMuch {
    /// A sentence for the sender.
    pub message: String,
    /// In how many parts it may fit.
    pub parts: usize,
}

impl TooMuch {
    /// In two parts it may fit.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), parts: 2 }
    }
}

/// The frame of a batch, if it is within the limits of one. Nothing is counted yet.
pub fn framed(series_max: usize, batch: &Batch) -> Result<Vec<u8>, TooMuch> {
    is_within(series_max, batch, 0)?;
    let frame = batch.encode().map_err(|error| TooMuch::new(error.to_string()))?;
    is_within(series_max, batch, frame.len())?;
    Ok(frame)
}

/// Whether a batch with a frame of `frame_bytes` is within the limits of one.
pub fn is_within(series_max: usize, batch: &Batch, frame_bytes: usize) -> Result<(), TooMuch> {
    const BYTES_MAX: usize = UNFOLDED_KIB << 10;
    let (series, limit) = (batch.series.len() + batch.known.len(), series_max.min(wire::SERIES_MAX));
    if series > limit {
        let message = format!("the batch has {series} series, above --limit-batch-series {limit}; send less at once");
        return Err(TooMuch { message, parts: series.div_ceil(limit.max(1)) });
    }
    let bytes = ogive_protocol::batch_bytes(batch) + frame_bytes;
    if bytes > BYTES_MAX {
        return Err(TooMuch::new(format!("the batch takes {bytes} bytes in memory, above the limit of {BYTES_MAX}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ogive_model::{Kind, Reason, SeriesDef, SeriesId, SeriesMeta, Temporality, Value};

    use super::*;

    fn def(name: &str) -> Result<SeriesDef, ogive_model::Error> {
        let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        SeriesDef::new([("__name__", name)], meta)
    }

    /// What each sample says, whatever its series' place.
    fn said(batch: &Batch) -> Vec<Result<(String, i64), Reason>> {
        let name = |series: u32| match batch.series.get(series as usize) {
            Some(series) => series.as_ref().unwrap().labels.metric_name().to_owned(),
            None => match (series as usize).checked_sub(batch.series.len()).and_then(|at| batch.known.get(at)) {
                Some(known) => format!("known {}", known.0),
                None => "nobody".into(),
            },
        };
        let samples = batch.samples.iter();
        samples.map(|sample| sample.as_ref().map(|one| (name(one.series), one.time_ns)).map_err(|bad| *bad)).collect()
    }

    #[test]
    fn pieces_say_together_what_the_batch_says() {
        let sample =
            |series: u32, time_ns: i64| Ok(Sample { series, time_ns, start_ns: None, value: Value::Float(1.0) });
        let batch = Batch {
            source: SourceId(7),
            sequence: 9,
            series: (0..5).map(|at| def(&format!("m{at}"))).collect(),
            known: vec![SeriesId(11), SeriesId(12)],
            samples: [0, 5, 1, 0, 99, 2, 6, 3, 4, 0]
                .into_iter()
                .zip(1..)
                .map(|(series, at)| sample(series, at))
                .collect(),
            ..Batch::default()
        };
        for limit in 1..=8 {
            let mut batch = batch.clone();
            batch.samples[3] = Err(Reason::HistogramInvalid);
            let pieces = divide(limit, &batch).unwrap();
            assert_eq!(pieces.iter().flat_map(|piece| said(&piece.batch)).collect::<Vec<_>>(), said(&batch), "{limit}");
            assert!(pieces.iter().all(|piece| piece.batch.series.len() + piece.batch.known.len() <= limit));
            let numbers: HashSet<_> = pieces.iter().map(|piece| (piece.batch.source.0, piece.batch.sequence)).collect();
            assert_eq!(numbers.len(), pieces.len());
            let last = &pieces.last().unwrap().batch;
            assert_eq!((last.source, last.sequence), (SourceId(7), 9), "the last has the batch's own number");
            let again = divide(limit, &batch).unwrap();
            assert!(pieces.iter().zip(&again).all(|(one, other)| one.frame == other.frame));
        }
    }

    #[test]
    fn more_pieces_than_may_be_are_refused() {
        let of = |count: u32| {
            let samples = (0..count)
                .map(|series| Ok(Sample { series, time_ns: 1, start_ns: None, value: Value::Float(1.0) }))
                .collect();
            Batch { series: (0..count).map(|at| def(&format!("m{at}"))).collect(), samples, ..Batch::default() }
        };
        assert_eq!(divide(1, &of(PIECES_MAX as u32)).unwrap().len(), PIECES_MAX);
        let why = divide(1, &of(PIECES_MAX as u32 + 1)).map(|pieces| pieces.len()).unwrap_err();
        assert!(why.message.contains("1024"), "{}", why.message);
    }
}
