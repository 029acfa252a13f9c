//! From a FlatBuffers message to a batch, trusting nothing in it.

use ogive_hist::{Bins, Count, CounterReset, Histogram, Scheme};
use planus::ReadAsRoot;

use super::dictionary::Dictionary;
use super::frame::{
    BINS_MAX, BOUNDS_MAX, HISTOGRAMS_MAX, PAIR_BYTES, Parts, SERIES_MAX, TEXT_BYTES_MAX, TEXT_SAMPLE_BYTES_MAX,
    VERSION_DICTIONARY, VERSION_PLAIN, VERSION_STARTED, malformed,
};
use super::generated::ogive::wire as fb;
use super::varint;
use crate::error::within;
use crate::labels::Packer;
use crate::{
    Batch, Error, Kind, Labels, Reason, Sample, SeriesDef, SeriesId, SeriesMeta, SourceId, Temporality, Value,
};

/// The batch of a frame.
pub(super) fn batch(parts: Parts<'_>, series_max: usize) -> Result<Batch, Error> {
    Ok(read(parts, series_max)?)
}

/// Why decoding stops: an error of FlatBuffers, or a rule of ours.
pub(super) enum Fault {
    Wire(planus::Error),
    Rule(Error),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Wire(error) => malformed(error.to_string()),
            Fault::Rule(error) => error,
        }
    }
}

impl From<planus::Error> for Fault {
    fn from(error: planus::Error) -> Self {
        Self::Wire(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Rule(error)
    }
}

fn read(Parts { version, tenant, declared, message, .. }: Parts<'_>, series_max: usize) -> Result<Batch, Fault> {
    let message = fb::BatchRef::read_as_root(message)?;
    let mut budget = TextBudget { left: TEXT_BYTES_MAX };
    let mut series = Vec::new();
    if let Some(dictionary) = dictionary(version, declared, &message, series_max)? {
        defs_of(&dictionary, &mut budget, &mut series)?;
    } else if let Some(declared) = message.series()? {
        within("the number of series in a batch", declared.len(), series_max)?;
        for def in declared.iter() {
            series.push(series_def(&def?, &mut budget)?);
        }
    }
    let known =
        message.known()?.map(|known| keys(version, series.len(), known, series_max)).transpose()?.unwrap_or_default();
    let schemes = message.schemes()?.map(schemes).transpose()?.unwrap_or_default();
    let mut samples = Vec::new();
    if let Some(column) = message.floats()? {
        floats(version, &column, &mut samples)?;
    }
    if let Some(column) = message.histograms()? {
        integer_histograms(version, &column, &schemes, &mut samples)?;
    }
    if let Some(column) = message.float_histograms()? {
        float_histograms(version, &column, &schemes, &mut samples)?;
    }
    if let Some(column) = message.texts()? {
        texts(&column, &mut budget, &mut samples)?;
    }
    let source = SourceId(u128::from(message.source_high()?) << 64 | u128::from(message.source_low()?));
    Ok(Batch { source, sequence: message.sequence()?, tenant, series, known, samples })
}

/// The dictionary of a frame of a version that has one; the message then declares nothing.
pub(super) fn dictionary<'a>(
    version: u16,
    declared: &'a [u8],
    message: &fb::BatchRef<'_>,
    series_max: usize,
) -> Result<Option<Dictionary<'a>>, Fault> {
    if version < VERSION_DICTIONARY {
        return Ok(None);
    }
    if message.series()?.is_some_and(|series| !series.is_empty()) {
        return Err(malformed("the frame declares series in its dictionary and in its message").into());
    }
    Ok(Some(Dictionary::read(declared, series_max)?))
}

fn defs_of(
    dictionary: &Dictionary<'_>,
    budget: &mut TextBudget,
    out: &mut Vec<Result<SeriesDef, Error>>,
) -> Result<(), Error> {
    let mut packer = Packer::default();
    out.reserve(dictionary.len());
    dictionary.each(|_, class, values| {
        let strings = class.bytes + values.iter().map(|value| value.len()).sum::<usize>();
        budget.take(strings + values.len() * PAIR_BYTES)?;
        out.push(class.series(values, &mut packer));
        Ok(())
    })
}

/// Bytes of labels and texts that may still be copied out of the message.
struct TextBudget {
    left: usize,
}

impl TextBudget {
    fn take(&mut self, bytes: usize) -> Result<(), Error> {
        let found = TEXT_BYTES_MAX - self.left + bytes;
        within("the bytes of a batch's labels and texts", found, TEXT_BYTES_MAX)?;
        self.left -= bytes;
        Ok(())
    }
}

fn series_def(def: &fb::SeriesRef<'_>, budget: &mut TextBudget) -> Result<Result<SeriesDef, Error>, Fault> {
    let strings = def.labels()?;
    if strings.len() % 2 == 1 {
        return Ok(Err(malformed("labels must be names and values in turn")));
    }
    if strings.len() / 2 > Labels::COUNT_MAX {
        let (found, limit) = (strings.len() / 2, Labels::COUNT_MAX);
        return Ok(Err(Error::TooLarge { what: "the number of labels", found, limit }));
    }
    let mut pairs = Vec::with_capacity(strings.len() / 2);
    let mut strings = strings.iter();
    while let (Some(name), Some(value)) = (strings.next(), strings.next()) {
        let (name, value) = (name?, value?);
        budget.take(name.len() + value.len() + PAIR_BYTES)?;
        pairs.push((name, value));
    }
    let unit = def.unit()?.unwrap_or_default();
    budget.take(unit.len())?;
    let meta = SeriesMeta {
        kind: match def.kind()? {
            fb::Kind::Float => Kind::Float,
            fb::Kind::Histogram => Kind::Histogram,
            fb::Kind::Text => Kind::Text,
        },
        temporality: match def.temporality()? {
            fb::Temporality::Gauge => Temporality::Gauge,
            fb::Temporality::Cumulative => Temporality::Cumulative,
            fb::Temporality::Delta => Temporality::Delta,
        },
        unit: unit.to_owned(),
        width_ms: def.width_ms()?,
    };
    Ok(SeriesDef::new(pairs, meta))
}

/// A scheme of the batch's dictionary with its zero threshold, or nothing when it breaks a rule.
type KnownScheme = Option<(Scheme, f64)>;

fn schemes(declared: planus::Vector<'_, planus::Result<fb::SchemeRef<'_>>>) -> Result<Vec<KnownScheme>, Fault> {
    within("the number of schemes in a batch", declared.len(), SERIES_MAX)?;
    let mut bounds_left = BOUNDS_MAX;
    let mut out = Vec::with_capacity(declared.len());
    for scheme in declared.iter() {
        let scheme = scheme?;
        let rule = match scheme.kind()? {
            fb::SchemeKind::LogLinear10 => Scheme::LogLinear10,
            fb::SchemeKind::Exp2 => Scheme::Exp2 { scale: scheme.scale()? },
            fb::SchemeKind::Custom => {
                let bounds = scheme.bounds()?;
                let count = bounds.map_or(0, |bounds| bounds.len());
                within("a batch's custom bounds", count, bounds_left)?;
                bounds_left -= count;
                Scheme::Custom { bounds: bounds.into_iter().flat_map(planus::Vector::iter).collect() }
            }
            fb::SchemeKind::LogLinear2 => Scheme::LogLinear2 {
                grouping: scheme.scale()?.cast_unsigned(),
                shift: scheme.shift()?,
                unit: scheme.unit()?,
            },
            fb::SchemeKind::Gamma => Scheme::Gamma { gamma: scheme.gamma()?, offset: scheme.offset()? },
        };
        let zero_threshold = scheme.zero_threshold()?;
        out.push(Some((rule, zero_threshold)).filter(|(rule, _)| rule.check().is_ok()));
    }
    Ok(out)
}

fn keys(
    version: u16,
    declared: usize,
    known: planus::Vector<'_, fb::SeriesKeyRef<'_>>,
    max: usize,
) -> Result<Vec<SeriesId>, Error> {
    check_known(version, SeriesCounts { declared, known: known.len(), max })?;
    Ok(known.iter().map(series_id).collect())
}

/// Series of a frame.
#[derive(Clone, Copy)]
pub(super) struct SeriesCounts {
    pub(super) declared: usize,
    /// Named by their identity.
    pub(super) known: usize,
    /// As many of both together may be there.
    pub(super) max: usize,
}

/// Checks whether a frame of `version` may have that many series.
pub(super) fn check_known(version: u16, counts: SeriesCounts) -> Result<(), Error> {
    if version == VERSION_PLAIN && counts.known > 0 {
        return Err(malformed("a frame of version 1 names series by their identity; that takes version 2"));
    }
    within("the number of series in a batch", counts.declared + counts.known, counts.max)
}

#[inline]
pub(super) fn series_id(key: fb::SeriesKeyRef<'_>) -> SeriesId {
    SeriesId(u128::from(key.high()) << 64 | u128::from(key.low()))
}

/// Whether columns of floats of these lengths are good in a frame of `version`.
pub(super) fn check_floats(version: u16, series: usize, times: usize, values: usize) -> Result<(), Error> {
    let is_short = version != VERSION_PLAIN;
    if !(is_short && series == 0) {
        same_lengths("floats", values, &[series])?;
    }
    if !(is_short && times == 1) {
        same_lengths("floats", values, &[times])?;
    }
    Ok(())
}

fn floats(version: u16, column: &fb::FloatsRef<'_>, samples: &mut Vec<Result<Sample, Reason>>) -> Result<(), Fault> {
    let (series, times, values) = (column.series()?, column.time_ns()?, column.value()?);
    let starts = Starts::new(version, "floats", values.len(), column.start_ns()?)?;
    check_floats(version, series.len(), times.len(), values.len())?;
    if version != VERSION_PLAIN && (series.is_empty() || times.len() == 1) {
        short_floats(series, times, values, &starts, samples);
        return Ok(());
    }
    samples.reserve(series.len());
    for (at, ((series, time_ns), value)) in series.iter().zip(times.iter()).zip(values.iter()).enumerate() {
        samples.push(Ok(Sample { series, time_ns, start_ns: starts.get(at), value: Value::Float(value) }));
    }
    Ok(())
}

/// The starts of a table's samples.
struct Starts<'a>(Option<planus::Vector<'a, i64>>);

impl<'a> Starts<'a> {
    /// The starts of `count` samples: none are written, one for all, or one each.
    fn new(version: u16, what: &str, count: usize, column: Option<planus::Vector<'a, i64>>) -> Result<Self, Error> {
        let column = column.filter(|column| !column.is_empty());
        if let Some(column) = &column {
            if version < VERSION_STARTED {
                return Err(malformed(format!("a frame of version {version} has start times; that takes version 3")));
            }
            if column.len() != 1 {
                same_lengths(what, count, &[column.len()])?;
            }
        }
        Ok(Self(column))
    }

    fn get(&self, at: usize) -> Option<i64> {
        let column = self.0.as_ref()?;
        column.get(if column.len() == 1 { 0 } else { at }).filter(|start| *start != 0)
    }
}

/// Floats, of good lengths, whose series count up or whose times are all the same.
fn short_floats(
    series: planus::Vector<'_, u32>,
    times: planus::Vector<'_, i64>,
    values: planus::Vector<'_, f64>,
    starts: &Starts<'_>,
    samples: &mut Vec<Result<Sample, Reason>>,
) {
    let series_of = |at: usize| series.get(at).unwrap_or(at as u32);
    let push = |(at, (time_ns, value))| {
        Ok(Sample { series: series_of(at), time_ns, start_ns: starts.get(at), value: Value::Float(value) })
    };
    match times.get(0) {
        Some(time) if times.len() == 1 => {
            samples.extend(values.iter().map(|value| (time, value)).enumerate().map(push));
        }
        _ => samples.extend(times.iter().zip(values.iter()).enumerate().map(push)),
    }
}

fn texts(
    column: &fb::TextsRef<'_>,
    budget: &mut TextBudget,
    samples: &mut Vec<Result<Sample, Reason>>,
) -> Result<(), Fault> {
    let (series, times, values) = (column.series()?, column.time_ns()?, column.value()?);
    same_lengths("texts", series.len(), &[times.len(), values.len()])?;
    for ((series, time_ns), text) in series.iter().zip(times.iter()).zip(values.iter()) {
        let text = text?;
        if text.len() > TEXT_SAMPLE_BYTES_MAX {
            samples.push(Err(Reason::TextTooLarge));
            continue;
        }
        budget.take(text.len())?;
        samples.push(Ok(Sample { series, time_ns, start_ns: None, value: Value::Text(text.to_owned()) }));
    }
    Ok(())
}

fn same_lengths(what: &str, expected: usize, found: &[usize]) -> Result<(), Error> {
    if found.iter().all(|length| *length == expected) {
        return Ok(());
    }
    Err(malformed(format!("the columns of {what} have different lengths: {expected} and {found:?}")))
}

/// The columns of a histogram table, once their lengths agree.
pub(super) struct Shape<'a> {
    series: planus::Vector<'a, u32>,
    time_ns: planus::Vector<'a, i64>,
    scheme: planus::Vector<'a, u32>,
    flags: &'a [u8],
    sum: planus::Vector<'a, f64>,
    min: planus::Vector<'a, f64>,
    max: planus::Vector<'a, f64>,
    bins_end: planus::Vector<'a, u32>,
    bins: &'a [u8],
    starts: Starts<'a>,
}

impl<'a> Shape<'a> {
    pub(super) fn len(&self) -> usize {
        self.series.len()
    }

    /// Series, time and scheme of one.
    #[inline]
    pub(super) fn head(&self, at: usize) -> (u32, i64, u32) {
        let agree = "lengths agree";
        (self.series.get(at).expect(agree), self.time_ns.get(at).expect(agree), self.scheme.get(at).expect(agree))
    }

    /// Sum, minimum and maximum, where they are known.
    #[inline]
    pub(super) fn known(&self, at: usize) -> [Option<f64>; 3] {
        let flags = self.flags[at];
        [(1, &self.sum), (2, &self.min), (4, &self.max)]
            .map(|(bit, column)| if flags & bit == 0 { None } else { column.get(at) })
    }

    pub(super) fn new(version: u16, column: &fb::HistogramsRef<'a>) -> Result<Self, Fault> {
        let series = column.series()?;
        within("the number of histograms in a batch", series.len(), HISTOGRAMS_MAX)?;
        let shape = Self {
            starts: Starts::new(version, "histograms", series.len(), column.start_ns()?)?,
            series,
            time_ns: column.time_ns()?,
            scheme: column.scheme()?,
            flags: column.flags()?,
            sum: column.sum()?,
            min: column.min()?,
            max: column.max()?,
            bins_end: column.bins_end()?,
            bins: column.bins()?,
        };
        let others = [
            shape.time_ns.len(),
            shape.scheme.len(),
            shape.flags.len(),
            shape.sum.len(),
            shape.min.len(),
            shape.max.len(),
            shape.bins_end.len(),
        ];
        same_lengths("histograms", shape.series.len(), &others)?;
        Ok(shape)
    }

    /// The bytes of histogram `at`; `from` is where the one before ended.
    pub(super) fn bins_of(&self, at: usize, from: &mut usize) -> Result<&'a [u8], Error> {
        let end = self.bins_end.get(at).expect("lengths agree") as usize;
        let bytes = self.bins.get(*from..end);
        *from = end;
        bytes.ok_or_else(|| malformed(format!("histogram {at} ends at byte {end} of {}", self.bins.len())))
    }

    /// An empty histogram with everything but its counts; None when its scheme is not known.
    fn empty<C: Count>(&self, at: usize, schemes: &[KnownScheme]) -> Option<Box<Histogram<C>>> {
        let (scheme, zero_threshold) = schemes.get(self.scheme.get(at)? as usize)?.clone()?;
        let mut out = Box::new(Histogram::new(scheme));
        out.zero_threshold = zero_threshold;
        [out.sum, out.min, out.max] = self.known(at);
        out.reset = match self.flags[at] >> 3 & 3 {
            0 => CounterReset::Unknown,
            1 => CounterReset::Reset,
            2 => CounterReset::NotReset,
            _ => CounterReset::Gauge,
        };
        Some(out)
    }

    fn sample<C: Count>(
        &self,
        at: usize,
        histogram: Option<Box<Histogram<C>>>,
        wrap: impl Fn(Box<Histogram<C>>) -> Value,
    ) -> Result<Sample, Reason> {
        let histogram = histogram.filter(|histogram| histogram.check().is_ok()).ok_or(Reason::HistogramInvalid)?;
        let (series, time_ns) = (self.series.get(at), self.time_ns.get(at));
        Ok(Sample {
            series: series.expect("lengths agree"),
            time_ns: time_ns.expect("lengths agree"),
            start_ns: self.starts.get(at),
            value: wrap(histogram),
        })
    }
}

fn integer_histograms(
    version: u16,
    column: &fb::HistogramsRef<'_>,
    schemes: &[KnownScheme],
    samples: &mut Vec<Result<Sample, Reason>>,
) -> Result<(), Fault> {
    let shape = Shape::new(version, column)?;
    let mut from = 0;
    for at in 0..shape.series.len() {
        let bytes = shape.bins_of(at, &mut from)?;
        let histogram = shape.empty(at, schemes).and_then(|empty| integer_counts(empty, bytes));
        samples.push(shape.sample(at, histogram, Value::Histogram));
    }
    Ok(())
}

fn integer_counts(mut out: Box<Histogram<u64>>, mut bytes: &[u8]) -> Option<Box<Histogram<u64>>> {
    out.zero = varint::take(&mut bytes)?;
    out.nan = varint::take(&mut bytes)?;
    out.negative = take_integer_bins(&mut bytes)?;
    out.positive = take_integer_bins(&mut bytes)?;
    let counts = out.negative.counts().iter().chain(out.positive.counts());
    out.count = counts.fold(out.zero.saturating_add(out.nan), |total, count| total.saturating_add(*count));
    bytes.is_empty().then_some(out)
}

fn float_histograms(
    version: u16,
    column: &fb::FloatHistogramsRef<'_>,
    schemes: &[KnownScheme],
    samples: &mut Vec<Result<Sample, Reason>>,
) -> Result<(), Fault> {
    let shape = Shape::new(version, &column.shape()?)?;
    let mut counts = column.counts()?.iter();
    let mut from = 0;
    for at in 0..shape.series.len() {
        let mut bytes = shape.bins_of(at, &mut from)?;
        let mut histogram = shape.empty(at, schemes).unwrap_or_else(|| Box::new(Histogram::new(Scheme::LogLinear10)));
        let known = shape.scheme.get(at).is_some_and(|index| matches!(schemes.get(index as usize), Some(Some(_))));
        // Where one histogram's counts end is found only by decoding them, so a bad one invalidates the column.
        let spoilt = || malformed(format!("the counts of float histogram {at} do not fit its bins"));
        histogram.count = counts.next().ok_or_else(spoilt)?;
        histogram.zero = counts.next().ok_or_else(spoilt)?;
        histogram.nan = counts.next().ok_or_else(spoilt)?;
        histogram.negative = take_bins(&mut bytes, |_| counts.next()).ok_or_else(spoilt)?;
        histogram.positive = take_bins(&mut bytes, |_| counts.next()).ok_or_else(spoilt)?;
        samples.push(shape.sample(at, Some(histogram).filter(|_| known), Value::FloatHistogram));
    }
    Ok(())
}

/// Bins with ascending indexes; `None` when the bytes are invalid. A bin takes at least a byte, so a claimed number
/// allocates at most twelve times the actual bytes.
fn take_bins<C: Count>(bytes: &mut &[u8], mut take_count: impl FnMut(&mut &[u8]) -> Option<C>) -> Option<Bins<C>> {
    let claimed = claimed_bins(bytes)?;
    let room = claimed.min(bytes.len());
    let (mut indexes, mut counts) = (Vec::with_capacity(room), Vec::with_capacity(room));
    let mut before = None;
    for _ in 0..claimed {
        let index = index_behind(before, varint::take(bytes)?)?;
        indexes.push(i32::try_from(index).ok()?);
        counts.push(take_count(bytes)?);
        before = Some(index);
    }
    Some(Bins::from_columns(indexes, counts))
}

/// As [`take_bins`] with integer counts.
fn take_integer_bins(bytes: &mut &[u8]) -> Option<Bins<u64>> {
    let claimed = claimed_bins(&mut &**bytes)?;
    // A distance and a count take at least a byte each.
    if claimed > bytes.len() / 2 {
        return None;
    }
    // Filled in place: an append would ask for room at each bin.
    let (mut indexes, mut counts) = (vec![0; claimed], vec![0; claimed]);
    let mut slots = indexes.iter_mut().zip(&mut counts);
    each_integer_bin(bytes, |index, count| {
        if let Some(slot) = slots.next() {
            (*slot.0, *slot.1) = (index, count);
        }
    })?;
    Some(Bins::from_columns(indexes, counts))
}

/// Passes the bins of one sign to `visit`, ascending; `None` when the bytes are invalid, even if some were passed.
/// Nearly all bins have a distance of one byte and a count of one or two, which is decided for two bins at a time by
/// looking at eight bytes, without a branch that could be mispredicted.
#[inline]
pub(super) fn each_integer_bin(bytes: &mut &[u8], mut visit: impl FnMut(i32, u64)) -> Option<()> {
    let mut left = claimed_bins(bytes)?;
    let mut rest = *bytes;
    let mut index = 0_i32;
    if left > 0 {
        index = i32::try_from(varint::unzigzag(varint::take(&mut rest)?)).ok()?;
        visit(index, varint::take(&mut rest)?);
        left -= 1;
    }
    while left > 0 {
        if let Some(next) = rest.first_chunk().map(|next| u64::from_le_bytes(*next))
            && left > 1
        {
            let one = ShortBin::from_word(next);
            let other = ShortBin::from_word(one.behind);
            // Steps of at most 64: a sum that wraps is below what it was added to.
            let middle = index.wrapping_add(one.step);
            let last = middle.wrapping_add(other.step);
            if one.is_whole & other.is_whole & (index < middle) & (middle < last) {
                visit(middle, one.count);
                visit(last, other.count);
                rest = &rest[one.bytes + other.bytes..];
                (index, left) = (last, left - 2);
                continue;
            }
        }
        let found = index_behind(Some(i64::from(index)), varint::take(&mut rest)?)?;
        index = i32::try_from(found).ok()?;
        visit(index, varint::take(&mut rest)?);
        left -= 1;
    }
    *bytes = rest;
    Some(())
}

/// A bin with a distance of one byte and a count of one or two, in the lower bytes of a number.
struct ShortBin {
    /// Distance from the bin before.
    step: i32,
    count: u64,
    bytes: usize,
    /// What follows.
    behind: u64,
    /// Whether nothing continues beyond those bytes.
    is_whole: bool,
}

impl ShortBin {
    #[inline]
    const fn from_word(next: u64) -> Self {
        let has_two = next >> 15 & 1;
        Self {
            step: varint::unzigzag(next & 0x7f) as i32,
            count: next >> 8 & 0x7f | (next >> 16 & 0x7f) << 7 & has_two.wrapping_neg(),
            bytes: 2 + has_two as usize,
            behind: next >> (16 + 8 * has_two),
            is_whole: next & 0x80 == 0 && next & 0x80_8000 != 0x80_8000,
        }
    }
}

fn claimed_bins(bytes: &mut &[u8]) -> Option<usize> {
    usize::try_from(varint::take(bytes)?).ok().filter(|claimed| *claimed <= BINS_MAX)
}

/// The index at the encoded `distance` after the previous one, or from zero.
#[inline]
fn index_behind(before: Option<i64>, distance: u64) -> Option<i64> {
    let distance = varint::unzigzag(distance);
    match before {
        None => Some(distance),
        Some(before) => before.checked_add(distance).filter(|index| *index > before),
    }
}
