//! Version 2.0: a request has a table of strings, its symbols, and each series refers to its labels by index.
//!
//! Limits: [`SYMBOLS_MAX`]; a series that refers to more labels than a series may have is an error of its own.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, RandomState};

use ogive_model::{BatchId, Error as SeriesError, Kind, Labels, METRIC_NAME, MetricKind, SourceId, Tenant};
use twox_hash::XxHash3_128;

use super::batch::{Builder, held_or};
use super::known::{KnownSeries, LowHalfHasher};
use super::{DecodedRequest, Exemplar, Metadata, Native, Sample, messages, metric_kind};
use crate::Error;
use crate::protobuf::{Field, Fields, varint};

/// A million symbols: 100,000 series with ten texts of their own each. 32 bytes each in memory.
pub const SYMBOLS_MAX: usize = 1 << 20;

/// Places of the labels that a series may name: a name and a value each, and one more to see that there are too many.
const REFS_MAX: usize = 2 * Labels::COUNT_MAX + 1;

/// A request: its symbols, and its series where they lie.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    message: &'a [u8],
    symbols: Vec<&'a str>,
}

impl<'a> Request<'a> {
    /// The request in `message`.
    ///
    /// # Errors
    /// When the message is broken, the first symbol is not empty, or there are more than [`SYMBOLS_MAX`].
    pub fn read(message: &'a [u8]) -> Result<Self, Error> {
        let mut symbols = Vec::new();
        for field in Fields::new(message) {
            let (4, symbol) = field? else { continue };
            if symbols.len() == SYMBOLS_MAX {
                let (found, limit) = (symbols.len() as u64 + 1, SYMBOLS_MAX as u64);
                return Err(Error::TooLarge { what: "the number of symbols", found, limit });
            }
            symbols.push(symbol.text("a symbol is not UTF-8")?);
        }
        if symbols.first().is_some_and(|first| !first.is_empty()) {
            return Err(Error::Malformed { what: "the first symbol is not the empty text, which stands for nothing" });
        }
        Ok(Self { message, symbols })
    }

    /// The table of texts.
    #[must_use]
    pub fn symbols(&self) -> &[&'a str] {
        &self.symbols
    }

    /// The series. An error ends them: what follows cannot be found.
    pub fn series(&self) -> impl Iterator<Item = Result<TimeSeries<'a>, Error>> + use<'a> {
        messages(self.message, 5, "a time series is not a message").map(|bytes| TimeSeries::read(bytes?))
    }
}

/// An `io.prometheus.write.v2.TimeSeries`.
#[derive(Clone, Copy, Debug)]
pub struct TimeSeries<'a> {
    message: &'a [u8],
    /// The field of places, when there is one of it and it comes first, as every known sender writes it.
    refs: Option<&'a [u8]>,
    metadata: &'a [u8],
    /// When all of its samples began to count, milliseconds since the Unix epoch; 0 when that is not known.
    created_ms: i64,
}

impl<'a> TimeSeries<'a> {
    fn read(message: &'a [u8]) -> Result<Self, Error> {
        let mut series = Self { message, refs: None, metadata: &[], created_ms: 0 };
        let mut is_first = true;
        for field in Fields::new(message) {
            match field? {
                (1, Field::Bytes(packed)) if is_first => series.refs = Some(packed),
                (1, _) => series.refs = None,
                (5, value) => series.metadata = value.bytes("metadata is not a message")?,
                (6, time) => series.created_ms = time.varint("a series' start is not a number")? as i64,
                _ => {}
            }
            is_first = false;
        }
        Ok(series)
    }

    /// Appends the places of its labels in the table, as many as there may be and one more.
    ///
    /// # Errors
    /// When they are no numbers.
    pub fn refs_into(&self, into: &mut Vec<u32>) -> Result<(), Error> {
        match self.refs {
            Some(packed) => unpack(packed, into),
            None => refs_into(self.message, into),
        }
    }

    /// Each float sample.
    pub fn samples(&self) -> impl Iterator<Item = Result<Sample, Error>> + use<'a> {
        let created_ms = self.created_ms;
        self.fields(2, "a sample is not a message").map(move |bytes| {
            let mut sample = Sample::read(bytes?)?;
            sample.start_ms = if sample.start_ms == 0 { created_ms } else { sample.start_ms };
            Ok(sample)
        })
    }

    /// Each native histogram.
    pub fn histograms(&self) -> impl Iterator<Item = Result<Native, Error>> + use<'a> {
        let created_ms = self.created_ms;
        self.fields(3, "a histogram is not a message").map(move |bytes| {
            let mut native = Native::read(bytes?)?;
            native.start_ms = if native.start_ms == 0 { created_ms } else { native.start_ms };
            Ok(native)
        })
    }

    /// Each exemplar.
    pub fn exemplars(&self) -> impl Iterator<Item = Result<Exemplar<'a>, Error>> + use<'a> {
        self.fields(4, "an exemplar is not a message").map(|bytes| Exemplar::read(bytes?))
    }

    /// What the sender says of its metric.
    ///
    /// # Errors
    /// When it is no metadata.
    pub fn metadata(&self) -> Result<MetricInfo, Error> {
        let mut reported = MetricInfo { kind: metric_kind(0), help: 0, unit: 0 };
        for field in Fields::new(self.metadata) {
            match field? {
                (1, kind) => reported.kind = metric_kind(kind.varint("a metric's type is not a number")?),
                (3, place) => reported.help = place_of(place.varint("the place of a help is not a number")?),
                (4, place) => reported.unit = place_of(place.varint("the place of a unit is not a number")?),
                _ => {}
            }
        }
        Ok(reported)
    }

    fn fields(&self, number: u32, what: &'static str) -> impl Iterator<Item = Result<&'a [u8], Error>> + use<'a> {
        messages(self.message, number, what)
    }
}

/// What a sender says of a series' metric; texts by their places in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricInfo {
    /// What it is.
    pub kind: MetricKind,
    /// A sentence for people.
    pub help: u32,
    /// Its unit.
    pub unit: u32,
}

/// A place that no table has for numbers that are no places.
fn place_of(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn refs_into(message: &[u8], into: &mut Vec<u32>) -> Result<(), Error> {
    for field in Fields::new(message) {
        match field? {
            (1, Field::Bytes(packed)) => unpack(packed, into)?,
            (1, place) if into.len() < REFS_MAX => {
                into.push(place_of(place.varint("the place of a label is not a number")?));
            }
            _ => {}
        }
    }
    Ok(())
}

#[inline]
fn unpack(mut packed: &[u8], into: &mut Vec<u32>) -> Result<(), Error> {
    while !packed.is_empty() && into.len() < REFS_MAX {
        into.push(place_of(varint(&mut packed, "the place of a label")?));
    }
    Ok(())
}

/// Reads the request in `message` into the batch `sequence` of `source`. Series that `known` has are named by their
/// identity. `learn` hears what the sender says of its metrics, each thing once.
///
/// # Errors
/// When the parts of the request cannot be distinguished from each other; a part that breaks a rule is an error in the
/// batch.
pub fn read(
    message: &[u8],
    tenant: &Tenant,
    source: SourceId,
    sequence: u64,
    known: Option<&KnownSeries>,
    learn: impl FnMut(&Metadata<'_>),
) -> Result<DecodedRequest, Error> {
    let request = Request::read(message)?;
    let ids = known.map(KnownSeries::ids);
    let builder = Builder::new(tenant, BatchId { source, sequence }, ids.as_deref(), message.len());
    let hashes = request.symbols().iter().map(|symbol| XxHash3_128::oneshot(symbol.as_bytes())).collect();
    let mut reader = Reader {
        symbols: request.symbols(),
        hashes,
        builder,
        refs: Vec::new(),
        key_bytes: Vec::new(),
        reported: HashSet::default(),
        mix: mix(),
        learn,
    };
    for series in request.series() {
        reader.take(&series?)?;
    }
    Ok(reader.builder.finish())
}

/// A request that is being read.
struct Reader<'a, 'k, L> {
    symbols: &'a [&'a str],
    /// Of each symbol: a series' key is made of those of its labels, so equal labels have equal keys in every request.
    hashes: Vec<u128>,
    builder: Builder<'k>,
    /// Room for the places of a series' labels, and for their hashes.
    refs: Vec<u32>,
    key_bytes: Vec<u8>,
    /// What was learnt from this request: name, type, help and unit.
    reported: HashSet<u128, BuildHasherDefault<LowHalfHasher>>,
    mix: u128,
    learn: L,
}

impl<L: FnMut(&Metadata<'_>)> Reader<'_, '_, L> {
    fn take(&mut self, series: &TimeSeries<'_>) -> Result<(), Error> {
        self.refs.clear();
        series.refs_into(&mut self.refs)?;
        let seed = self.builder.begin_series();
        let is_whole = self.hash_labels();
        let Self { symbols, builder, refs, key_bytes, .. } = self;
        let key = |kind| is_whole.then(|| seed.key(kind, key_bytes));
        let labels = || labels_of(symbols, refs);
        let mut number = None;
        for sample in series.samples() {
            let sample = sample?;
            let number = held_or(&mut number, || builder.float(key(Kind::Float), labels))?;
            builder.take_float(number, sample)?;
        }
        let is_float = number.is_some();
        let mut number = None;
        for native in series.histograms() {
            let native = native?;
            let number = held_or(&mut number, || builder.histogram(key(Kind::Histogram), native.is_gauge(), labels))?;
            builder.take_histogram(number, native)?;
        }
        let mut number = None;
        for exemplar in series.exemplars() {
            let exemplar = exemplar?;
            let number = held_or(&mut number, || builder.exemplars(key(Kind::Text), labels))?;
            let mut refs = Vec::new();
            refs_into(exemplar.message, &mut refs)?;
            builder.take_exemplar(number, exemplar.time_ms, exemplar.value, labels_of(symbols, &refs))?;
        }
        self.learn(series.metadata()?, is_float);
        Ok(())
    }

    /// Collects the hashes of the labels; false when one of them is not in the table.
    fn hash_labels(&mut self) -> bool {
        self.key_bytes.clear();
        for place in &self.refs {
            let Some(hash) = self.hashes.get(*place as usize) else { return false };
            self.key_bytes.extend_from_slice(&hash.to_le_bytes());
        }
        true
    }

    /// Learns what is said of the metric of the series whose labels are read.
    fn learn(&mut self, reported: MetricInfo, is_float: bool) {
        let text = |place: u32| self.symbols.get(place as usize).copied().unwrap_or_default();
        let (help, unit) = (text(reported.help), text(reported.unit));
        if reported.kind == MetricKind::Unknown && help.is_empty() && unit.is_empty() {
            return;
        }
        let mut pairs = self.refs.as_chunks::<2>().0.iter();
        let Some([_, name]) = pairs.find(|[name, _]| text(*name) == METRIC_NAME) else { return };
        let name = *name;
        let all = u128::from(name) << 96
            | u128::from(reported.help) << 64
            | u128::from(reported.unit) << 32
            | reported.kind as u128;
        // The set takes the lower half as it is: all of the number is in it then, in a way that no sender foresees.
        if !self.reported.insert(all.wrapping_mul(self.mix).rotate_left(64)) {
            return;
        }
        // A native histogram is one series; a classic one has several, each with a name of its own.
        let family = if is_float { reported.kind.family(text(name)) } else { text(name) };
        (self.learn)(&Metadata { kind: reported.kind, family, help, unit });
    }
}

/// A random odd number.
fn mix() -> u128 {
    let random = RandomState::new();
    u128::from(random.hash_one(0)) << 64 | u128::from(random.hash_one(1)) | 1
}

fn labels_of(symbols: &[&str], refs: &[u32]) -> Result<Labels, SeriesError> {
    let text = |place: u32| {
        let wrong = || SeriesError::Malformed(format!("a label is at place {place} of {} symbols", symbols.len()));
        symbols.get(place as usize).copied().ok_or_else(wrong)
    };
    let (pairs, rest) = refs.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(match refs.len() {
            REFS_MAX => SeriesError::TooLarge {
                what: "the number of labels",
                found: Labels::COUNT_MAX + 1,
                limit: Labels::COUNT_MAX,
            },
            _ => SeriesError::Malformed("labels_refs has a name without a value".into()),
        });
    }
    let pairs: Result<Vec<(&str, &str)>, SeriesError> =
        pairs.iter().map(|[name, value]| Ok((text(*name)?, text(*value)?))).collect();
    Labels::new(pairs?)
}
