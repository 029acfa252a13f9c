//! From a FlatBuffers message to a batch, trusting nothing in it.

use ogive_hist::{Bins, Count, CounterReset, Histogram, Scheme};
use planus::ReadAsRoot;

use super::generated::ogive::wire as fb;
use super::{
    BINS_MAX, SERIES_MAX, TEXT_BYTES_MAX, TEXT_SAMPLE_BYTES_MAX, VERSION_PLAIN, VERSION_STARTED, malformed, varint,
    within,
};
use crate::{
    Batch, Error, Kind, Labels, Reason, Sample, SeriesDef, SeriesId, SeriesMeta, SourceId, Temporality, Tenant, Value,
};

/// The batch of `tenant` in `payload`.
pub(super) fn batch(version: u16, tenant: Tenant, payload: &[u8]) -> Result<Batch, Error> {
    read(version, tenant, payload).map_err(|error| match error {
        Fault::Wire(error) => malformed(error.to_string()),
        Fault::Rule(error) => error,
    })
}

/// What stops reading: FlatBuffers' own finding, or a rule of ours.
enum Fault {
    Wire(planus::Error),
    Rule(Error),
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

fn read(version: u16, tenant: Tenant, payload: &[u8]) -> Result<Batch, Fault> {
    let message = fb::BatchRef::read_as_root(payload)?;
    let mut budget = TextBudget { left: TEXT_BYTES_MAX };
    let mut series = Vec::new();
    if let Some(declared) = message.series()? {
        within("the number of series in a batch", declared.len(), SERIES_MAX)?;
        for def in declared.iter() {
            series.push(series_def(&def?, &mut budget)?);
        }
    }
    let known = message.known()?.map(|known| keys(version, series.len(), known)).transpose()?.unwrap_or_default();
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
        // 32: what a pair costs beside its bytes.
        budget.take(name.len() + value.len() + 32)?;
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
    let mut bounds_left = TEXT_BYTES_MAX / 8;
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
) -> Result<Vec<SeriesId>, Error> {
    if version == VERSION_PLAIN && !known.is_empty() {
        return Err(malformed("a frame of version 1 names series by their identity; that takes version 2"));
    }
    within("the number of series in a batch", declared + known.len(), SERIES_MAX)?;
    Ok(known.iter().map(|key| SeriesId(u128::from(key.high()) << 64 | u128::from(key.low()))).collect())
}

fn floats(version: u16, column: &fb::FloatsRef<'_>, samples: &mut Vec<Result<Sample, Reason>>) -> Result<(), Fault> {
    let (series, times, values) = (column.series()?, column.time_ns()?, column.value()?);
    let starts = Starts::new(version, "floats", values.len(), column.start_ns()?)?;
    if version != VERSION_PLAIN && (series.is_empty() || times.len() == 1) {
        return short_floats(series, times, values, &starts, samples).map_err(Fault::Rule);
    }
    same_lengths("floats", series.len(), &[times.len(), values.len()])?;
    samples.reserve(series.len());
    for (at, ((series, time_ns), value)) in series.iter().zip(times.iter()).zip(values.iter()).enumerate() {
        samples.push(Ok(Sample { series, time_ns, start_ns: starts.get(at), value: Value::Float(value) }));
    }
    Ok(())
}

/// The starts of a table's samples.
struct Starts<'a>(Option<planus::Vector<'a, i64>>);

impl<'a> Starts<'a> {
    /// Of `count` samples: no start is written, one for all, or one each.
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

/// Floats whose series count up or whose times are all the same.
fn short_floats(
    series: planus::Vector<'_, u32>,
    times: planus::Vector<'_, i64>,
    values: planus::Vector<'_, f64>,
    starts: &Starts<'_>,
    samples: &mut Vec<Result<Sample, Reason>>,
) -> Result<(), Error> {
    let count = values.len();
    let series_of = |at: usize| series.get(at).unwrap_or(at as u32);
    let push = |(at, (time_ns, value))| {
        Ok(Sample { series: series_of(at), time_ns, start_ns: starts.get(at), value: Value::Float(value) })
    };
    if !series.is_empty() {
        same_lengths("floats", count, &[series.len()])?;
    }
    match times.get(0) {
        Some(time) if times.len() == 1 => {
            samples.extend(values.iter().map(|value| (time, value)).enumerate().map(push))
        }
        _ => {
            same_lengths("floats", count, &[times.len()])?;
            samples.extend(times.iter().zip(values.iter()).enumerate().map(push));
        }
    }
    Ok(())
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
struct Shape<'a> {
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
    fn new(version: u16, column: &fb::HistogramsRef<'a>) -> Result<Self, Fault> {
        let series = column.series()?;
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
    fn bins_of(&self, at: usize, from: &mut usize) -> Result<&'a [u8], Error> {
        let end = self.bins_end.get(at).expect("lengths agree") as usize;
        let bytes = self.bins.get(*from..end);
        *from = end;
        bytes.ok_or_else(|| malformed(format!("histogram {at} ends at byte {end} of {}", self.bins.len())))
    }

    /// An empty histogram with everything but its counts; nothing when its scheme is not known.
    fn empty<C: Count>(&self, at: usize, schemes: &[KnownScheme]) -> Option<Histogram<C>> {
        let (scheme, zero_threshold) = schemes.get(self.scheme.get(at)? as usize)?.clone()?;
        let flags = self.flags[at];
        let known = |bit: u8, column: &planus::Vector<'_, f64>| column.get(at).filter(|_| flags & bit != 0);
        let mut out = Histogram::new(scheme);
        out.zero_threshold = zero_threshold;
        (out.sum, out.min, out.max) = (known(1, &self.sum), known(2, &self.min), known(4, &self.max));
        out.reset = match flags >> 3 & 3 {
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
        histogram: Option<Histogram<C>>,
        wrap: impl Fn(Box<Histogram<C>>) -> Value,
    ) -> Result<Sample, Reason> {
        let histogram = histogram.filter(|histogram| histogram.check().is_ok()).ok_or(Reason::HistogramInvalid)?;
        let (series, time_ns) = (self.series.get(at), self.time_ns.get(at));
        Ok(Sample {
            series: series.expect("lengths agree"),
            time_ns: time_ns.expect("lengths agree"),
            start_ns: self.starts.get(at),
            value: wrap(Box::new(histogram)),
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

fn integer_counts(mut out: Histogram<u64>, mut bytes: &[u8]) -> Option<Histogram<u64>> {
    out.zero = varint::take(&mut bytes)?;
    out.nan = varint::take(&mut bytes)?;
    out.negative = take_bins(&mut bytes, varint::take)?;
    out.positive = take_bins(&mut bytes, varint::take)?;
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
        let mut histogram = shape.empty(at, schemes).unwrap_or_else(|| Histogram::new(Scheme::LogLinear10));
        let known = shape.scheme.get(at).is_some_and(|index| matches!(schemes.get(index as usize), Some(Some(_))));
        // Where one histogram's counts end is known only by reading them: a bad one spoils the column.
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

/// Bins with ascending indexes; `None` when the bytes say anything else. Room is made as bytes are read, so a
/// claimed number allocates nothing.
fn take_bins<C: Count>(bytes: &mut &[u8], mut take_count: impl FnMut(&mut &[u8]) -> Option<C>) -> Option<Bins<C>> {
    let claimed = usize::try_from(varint::take(bytes)?).ok().filter(|claimed| *claimed <= BINS_MAX)?;
    let mut bins = Bins::new();
    let mut before = 0_i64;
    for at in 0..claimed {
        let index = before.checked_add(varint::unzigzag(varint::take(bytes)?))?;
        if at > 0 && index <= before {
            return None;
        }
        bins.push(i32::try_from(index).ok()?, take_count(bytes)?);
        before = index;
    }
    Some(bins)
}
