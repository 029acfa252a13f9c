//! The JSON form of a batch, decoded to the model's [`Batch`] sample by sample and without an intermediate tree.
//!
//! Format: `{"source": uuid, "sequence": n, "tenant"?: name, "series": [{"labels", "kind", "temporality"?, "unit"?,
//! "width_ms"?}], "samples": [{"series", "time_ms", "start_ms"?, and one of "float", "histogram", "histogram_b64",
//! "text"}]}`.
//! Invariants: samples keep the sender's order, so verdicts refer to them by the sender's index.
//! Limits: [`SERIES_JSON_MAX`] and [`SAMPLES_MAX`], checked while reading; bins of one histogram as in the wire form.
//! Failure: text of another shape refuses the batch with the position of the error; a wrong series or value affects
//! only itself.

use std::borrow::Cow;
use std::fmt;

use ogive_hist::{DecimalBin, Histogram, Scheme, openhistogram};
use ogive_model::wire::{BINS_MAX, SERIES_MAX, TEXT_SAMPLE_BYTES_MAX};
use ogive_model::{
    Batch, Error, Kind, Labels, Reason, Sample, SeriesDef, SeriesId, SeriesMeta, SourceId, Temporality, Tenant, Value,
    float,
};
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// 500,000 samples: at 60 bytes of text each they fill the 32 MiB a request may have, and as empty histograms, the
/// worst case, they take 200 MB.
pub const SAMPLES_MAX: usize = 500_000;

/// 400,000 series: those of four batches, in which they are stored, and 32 MiB of the shortest that have two labels.
pub const SERIES_JSON_MAX: usize = 4 * SERIES_MAX;

/// 100 sentences explain what is wrong; the codes are given for every sample.
pub const DETAILS_MAX: usize = 100;

/// A batch, and what there is to say about its first bad samples: `(index, sentence)`.
#[derive(Debug)]
pub struct Decoded {
    /// What could be read of it.
    pub batch: Batch,
    /// Whether it names its tenant.
    pub named: bool,
    /// What is wrong with the first bad samples, by their index.
    pub details: Vec<(u32, String)>,
}

/// Reads a batch.
///
/// # Errors
/// A sentence with line and column.
pub fn decode(text: &[u8]) -> Result<Decoded, String> {
    let body: Body<'_> = serde_json::from_slice(text).map_err(|error| format!("not a batch: {error}"))?;
    let source = source(&body.source)?;
    let series = body.series.0;
    let mut details = body.samples.details;
    for (index, sample) in body.samples.list.iter().enumerate() {
        let Ok(sample) = sample else { continue };
        if let Some(Err(error)) = series.get(sample.series as usize)
            && details.len() < DETAILS_MAX
        {
            details.push((index as u32, format!("series {}: {error}", sample.series)));
        }
    }
    details.sort_by_key(|(index, _)| *index);
    let named = body.tenant.is_some();
    let tenant = body.tenant.map_or_else(|| Ok(Tenant::default()), |name| Tenant::new(&name));
    let tenant = tenant.map_err(|error| error.to_string())?;
    let known = body.known.0;
    let (source, sequence, samples) = (SourceId(source), body.sequence, body.samples.list);
    let batch = Batch { source, sequence, tenant, series, known, samples };
    Ok(Decoded { batch, named, details })
}

/// A UUID: 32 hexadecimal digits, hyphens between them or not.
fn source(text: &str) -> Result<u128, String> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let valid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) && text.len() <= 36;
    valid
        .then(|| u128::from_str_radix(&digits, 16).expect("32 hexadecimal digits"))
        .ok_or_else(|| format!("source {text:?} is not a UUID such as 123e4567-e89b-12d3-a456-426614174000"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body<'a> {
    #[serde(borrow)]
    source: Cow<'a, str>,
    sequence: u64,
    #[serde(borrow)]
    tenant: Option<Cow<'a, str>>,
    #[serde(default)]
    series: SeriesList,
    #[serde(default)]
    known: KnownList,
    samples: SampleList,
}

/// Identities of series that the server knows: 32 hexadecimal digits each.
#[derive(Default)]
struct KnownList(Vec<SeriesId>);

impl<'de> Deserialize<'de> for KnownList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KnownVisitor;
        impl<'de> Visitor<'de> for KnownVisitor {
            type Value = KnownList;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an array of series identities")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<KnownList, A::Error> {
                let mut out = Vec::new();
                while let Some(text) = all.next_element::<Cow<'de, str>>()? {
                    if out.len() == SERIES_JSON_MAX {
                        return Err(de::Error::custom(format_args!(
                            "more than {SERIES_JSON_MAX} series; split them into several batches"
                        )));
                    }
                    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                    let id = digits.then(|| u128::from_str_radix(&text, 16).expect("32 hexadecimal digits"));
                    let id = id.ok_or_else(|| {
                        de::Error::custom(format_args!("{text:?} is no identity of a series: 32 hexadecimal digits"))
                    })?;
                    out.push(SeriesId(id));
                }
                Ok(KnownList(out))
            }
        }
        deserializer.deserialize_seq(KnownVisitor)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonSeries {
    labels: Pairs,
    kind: JsonKind,
    temporality: Option<JsonTemporality>,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    width_ms: u32,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum JsonKind {
    Float,
    Histogram,
    Text,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum JsonTemporality {
    Gauge,
    Cumulative,
    Delta,
}

impl JsonSeries {
    fn into_model(self) -> Result<SeriesDef, Error> {
        let kind = match self.kind {
            JsonKind::Float => Kind::Float,
            JsonKind::Histogram => Kind::Histogram,
            JsonKind::Text => Kind::Text,
        };
        let temporality = match (self.temporality, kind) {
            (Some(JsonTemporality::Cumulative), _) => Temporality::Cumulative,
            (Some(JsonTemporality::Delta), _) | (None, Kind::Histogram) => Temporality::Delta,
            (Some(JsonTemporality::Gauge), _) | (None, _) => Temporality::Gauge,
        };
        let meta = SeriesMeta { kind, temporality, unit: self.unit, width_ms: self.width_ms };
        SeriesDef::new(self.labels.0, meta)
    }
}

/// Label pairs in the order written, duplicates kept for the model to refuse.
struct Pairs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object of label names and values")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry::<Cow<'de, str>, Cow<'de, str>>()? {
                    // One more than may be is enough to be refused.
                    if pairs.len() <= Labels::COUNT_MAX {
                        pairs.push((pair.0.into_owned(), pair.1.into_owned()));
                    }
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(PairsVisitor)
    }
}

#[derive(Default)]
struct SeriesList(Vec<Result<SeriesDef, Error>>);

impl<'de> Deserialize<'de> for SeriesList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor;
        impl<'de> Visitor<'de> for ListVisitor {
            type Value = SeriesList;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a list of series")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SeriesList, A::Error> {
                let mut out = Vec::new();
                while let Some(series) = list.next_element::<JsonSeries>()? {
                    within::<A::Error>("series", out.len(), SERIES_JSON_MAX)?;
                    out.push(series.into_model());
                }
                Ok(SeriesList(out))
            }
        }
        deserializer.deserialize_seq(ListVisitor)
    }
}

/// Refuses the element after the last that fits.
fn within<E: de::Error>(what: &str, taken: usize, limit: usize) -> Result<(), E> {
    if taken < limit {
        return Ok(());
    }
    Err(E::custom(format_args!("more than {limit} {what} in one batch; split it into several")))
}

struct SampleList {
    list: Vec<Result<Sample, Reason>>,
    details: Vec<(u32, String)>,
}

impl<'de> Deserialize<'de> for SampleList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor;
        impl<'de> Visitor<'de> for ListVisitor {
            type Value = SampleList;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a list of samples")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SampleList, A::Error> {
                let mut out = SampleList { list: Vec::new(), details: Vec::new() };
                while let Some(JsonSample(sample)) = list.next_element()? {
                    within::<A::Error>("samples", out.list.len(), SAMPLES_MAX)?;
                    let index = out.list.len() as u32;
                    out.list.push(sample.map_err(|bad| {
                        if out.details.len() < DETAILS_MAX {
                            out.details.push((index, bad.detail));
                        }
                        bad.reason
                    }));
                }
                Ok(out)
            }
        }
        deserializer.deserialize_seq(ListVisitor)
    }
}

/// Why one sample cannot be taken.
struct SampleError {
    reason: Reason,
    detail: String,
}

fn bad<T>(reason: Reason, detail: impl Into<String>) -> Result<T, SampleError> {
    Err(SampleError { reason, detail: detail.into() })
}

struct JsonSample(Result<Sample, SampleError>);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum SampleField {
    Series,
    TimeMs,
    StartMs,
    Float,
    Histogram,
    #[serde(rename = "histogram_b64")]
    HistogramB64,
    Text,
}

impl<'de> Deserialize<'de> for JsonSample {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SampleVisitor)
    }
}

struct SampleVisitor;

impl<'de> Visitor<'de> for SampleVisitor {
    type Value = JsonSample;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a sample: series, time_ms, perhaps start_ms, and one of float, histogram, histogram_b64, text")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonSample, A::Error> {
        let (mut series, mut time, mut start, mut value) = (None, None, None, None);
        let mut values = 0;
        while let Some(field) = map.next_key()? {
            let found = match field {
                SampleField::Series => {
                    once::<_, A::Error>(&mut series, map.next_value::<Integer>()?, "series")?;
                    continue;
                }
                SampleField::TimeMs => {
                    once::<_, A::Error>(&mut time, map.next_value::<Integer>()?, "time_ms")?;
                    continue;
                }
                SampleField::StartMs => {
                    once::<_, A::Error>(&mut start, map.next_value::<Integer>()?, "start_ms")?;
                    continue;
                }
                SampleField::Float => Ok(Value::Float(map.next_value::<JsonFloat>()?.0)),
                SampleField::Histogram => map.next_value::<JsonHistogram>()?.0.map(Value::Histogram),
                SampleField::HistogramB64 => from_base64(&map.next_value::<Cow<'de, str>>()?),
                SampleField::Text => from_text(map.next_value()?),
            };
            values += 1;
            value = Some(found);
        }
        let series = series.ok_or_else(|| de::Error::missing_field("series"))?;
        let time = time.ok_or_else(|| de::Error::missing_field("time_ms"))?;
        if values != 1 {
            let detail = format!("{values} values; give exactly one of float, histogram, histogram_b64, text");
            return Ok(JsonSample(bad(Reason::KindConflict, detail)));
        }
        Ok(JsonSample(value.expect("one value was read").and_then(|value| assemble(series, time, start, value))))
    }
}

fn once<T, E: de::Error>(slot: &mut Option<T>, value: T, name: &'static str) -> Result<(), E> {
    if slot.replace(value).is_some() { Err(E::duplicate_field(name)) } else { Ok(()) }
}

fn assemble(series: Integer, time: Integer, start: Option<Integer>, value: Value) -> Result<Sample, SampleError> {
    let Ok(series) = u32::try_from(series.0) else {
        return bad(Reason::SeriesUnknown, format!("series {} is not an index of the list of series", series.0));
    };
    let Some(time_ns) = i64::try_from(time.0).ok().and_then(|ms| ms.checked_mul(1_000_000)) else {
        let reason = if time.0 > 0 { Reason::TimeTooNew } else { Reason::TimeTooOld };
        return bad(reason, format!("time_ms {} cannot be stored", time.0));
    };
    let start_ms = start.map_or(0, |start| start.0);
    let Some(start_ns) = i64::try_from(start_ms).ok().and_then(|ms| ms.checked_mul(1_000_000)) else {
        return bad(Reason::StartInvalid, format!("start_ms {start_ms} cannot be stored"));
    };
    Ok(Sample { series, time_ns, start_ns: Some(start_ns).filter(|start| *start != 0), value })
}

fn from_base64(text: &str) -> Result<Value, SampleError> {
    match openhistogram::decode_base64(text) {
        // What was dropped or never came would be lost in silence.
        Ok((_, repairs)) if repairs.invalid_bins + repairs.missing_bins + repairs.trailing_bytes > 0 => bad(
            Reason::HistogramInvalid,
            format!(
                "{} unknown bins, {} missing ones, {} bytes left over",
                repairs.invalid_bins, repairs.missing_bins, repairs.trailing_bytes
            ),
        ),
        Ok((histogram, _)) => Ok(Value::Histogram(Box::new(histogram))),
        Err(error) => bad(Reason::HistogramInvalid, error.to_string()),
    }
}

fn from_text(text: String) -> Result<Value, SampleError> {
    if text.len() > TEXT_SAMPLE_BYTES_MAX {
        return bad(Reason::TextTooLarge, format!("{} bytes; a text has at most {TEXT_SAMPLE_BYTES_MAX}", text.len()));
    }
    Ok(Value::Text(text))
}

/// A whole number of any size that JSON writes without a point.
#[derive(Clone, Copy)]
struct Integer(i128);

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IntegerVisitor;
        impl Visitor<'_> for IntegerVisitor {
            type Value = Integer;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a whole number")
            }
            fn visit_u64<E>(self, value: u64) -> Result<Integer, E> {
                Ok(Integer(value.into()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Integer, E> {
                Ok(Integer(value.into()))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Integer, E> {
                // A whole number beyond 64 bits arrives as a double.
                if value.fract() == 0.0 && value.abs() >= i64::MAX as f64 {
                    return Ok(Integer(value as i128));
                }
                Err(E::invalid_value(de::Unexpected::Float(value), &self))
            }
        }
        deserializer.deserialize_any(IntegerVisitor)
    }
}

/// A number, or the words that JSON has no number for.
struct JsonFloat(f64);

impl<'de> Deserialize<'de> for JsonFloat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FloatVisitor;
        impl Visitor<'_> for FloatVisitor {
            type Value = JsonFloat;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(r#"a number, "NaN", "+Inf" or "-Inf""#)
            }
            fn visit_f64<E>(self, value: f64) -> Result<JsonFloat, E> {
                Ok(JsonFloat(value))
            }
            fn visit_u64<E>(self, value: u64) -> Result<JsonFloat, E> {
                Ok(JsonFloat(value as f64))
            }
            fn visit_i64<E>(self, value: i64) -> Result<JsonFloat, E> {
                Ok(JsonFloat(value as f64))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<JsonFloat, E> {
                let value = if text == "Inf" { Some(f64::INFINITY) } else { float::from_word(text) };
                value.map(JsonFloat).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(FloatVisitor)
    }
}

struct JsonHistogram(Result<Box<Histogram>, SampleError>);

impl<'de> Deserialize<'de> for JsonHistogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Shape {
            bins: JsonBins,
            sum: Option<JsonFloat>,
            min: Option<JsonFloat>,
            max: Option<JsonFloat>,
        }
        let shape = Shape::deserialize(deserializer)?;
        let known = |value: Option<JsonFloat>| value.map(|value| value.0);
        let (sum, min, max) = (known(shape.sum), known(shape.min), known(shape.max));
        Ok(Self(shape.bins.0.and_then(|histogram| with_extremes(histogram, sum, min, max))))
    }
}

/// Puts what is known beside the bins in place, once it agrees with them.
fn with_extremes(
    mut histogram: Box<Histogram>,
    sum: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
) -> Result<Box<Histogram>, SampleError> {
    for (name, value) in [("sum", sum), ("min", min), ("max", max)] {
        if value.is_some_and(|value| !value.is_finite()) {
            return bad(Reason::HistogramInvalid, format!("{name} must be a finite number; leave it out if unknown"));
        }
    }
    if histogram.total() == 0 && (min.is_some() || max.is_some()) {
        return bad(Reason::HistogramInvalid, "min and max of no samples; leave them out");
    }
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        return bad(Reason::HistogramInvalid, format!("min {min} is above max {max}"));
    }
    (histogram.sum, histogram.min, histogram.max) = (sum, min, max);
    Ok(histogram)
}

/// The object of bins: lower edge to count.
struct JsonBins(Result<Box<Histogram>, SampleError>);

impl<'de> Deserialize<'de> for JsonBins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BinsVisitor;
        impl<'de> Visitor<'de> for BinsVisitor {
            type Value = JsonBins;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(r#"an object of bins such as {"1.2e-3": 4}"#)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonBins, A::Error> {
                let mut bins = Vec::new();
                while let Some(bin) = map.next_key_seed(LabelSeed)? {
                    let found = bin.and_then(|bin| if bins.len() < BINS_MAX { Ok(bin) } else { Err(too_many()) });
                    match (found, map.next_value::<JsonCount>()?.0) {
                        (Ok(bin), Ok(count)) => bins.push((bin, count)),
                        (Err(bad), _) | (_, Err(bad)) => {
                            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                            return Ok(JsonBins(Err(bad)));
                        }
                    }
                }
                Ok(JsonBins(collect(bins)))
            }
        }
        deserializer.deserialize_map(BinsVisitor)
    }
}

fn too_many() -> SampleError {
    SampleError { reason: Reason::HistogramInvalid, detail: format!("more than {BINS_MAX} bins") }
}

/// Reads a key as a bin, without copying it.
struct LabelSeed;

impl<'de> DeserializeSeed<'de> for LabelSeed {
    type Value = Result<DecimalBin, SampleError>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for LabelSeed {
    type Value = Result<DecimalBin, SampleError>;
    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a bin's lower edge")
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(edge(text))
    }
}

/// The bin of a label in its usual form, `[-]d[.d]e[-]d[d[d]]`: its digits are the bin's own. `None` for other forms.
fn usual_edge(text: &[u8]) -> Option<DecimalBin> {
    let (negative, digits) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
    let (tens, ones, exponent) = match digits {
        [a @ b'1'..=b'9', b'.', b @ b'0'..=b'9', b'e', rest @ ..] => (a - b'0', b - b'0', rest),
        [a @ b'1'..=b'9', b'e', rest @ ..] => (a - b'0', 0, rest),
        _ => return None,
    };
    let (below_one, exponent) = exponent.strip_prefix(b"-").map_or((false, exponent), |rest| (true, rest));
    if exponent.is_empty() || exponent.len() > 3 || !exponent.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let power = exponent.iter().fold(0_i16, |sum, digit| sum * 10 + i16::from(digit - b'0'));
    let exp = i8::try_from(if below_one { -power } else { power }).ok()?;
    let val = (tens * 10 + ones).cast_signed();
    Some(DecimalBin { val: if negative { -val } else { val }, exp })
}

/// The bin whose edge nearer zero is `text`. A number inside a bin is refused: it could not be distinguished from a
/// mistake.
fn edge(text: &str) -> Result<DecimalBin, SampleError> {
    if let Some(bin) = usual_edge(text.as_bytes()) {
        return Ok(bin);
    }
    let bin = match openhistogram::bin_of_label(text) {
        Ok(bin) => bin,
        Err(error) => return bad(Reason::HistogramInvalid, error.to_string()),
    };
    let exact = match bin.index() {
        Some(index) => {
            let (lo, hi) = Scheme::LogLinear10.bounds(bin.val > 0, index);
            text.parse() == Ok(if bin.val > 0 { lo } else { hi })
        }
        None => bin == DecimalBin::NAN || text.parse() == Ok(0.0),
    };
    if exact {
        return Ok(bin);
    }
    let label = openhistogram::label_of_bin(bin);
    bad(Reason::HistogramInvalid, format!("{text:?} is no bin's edge nearer zero; the bin that holds it is {label:?}"))
}

/// A bin's count: anything but a whole number from 0 to 2^64-1 spoils the histogram, not the batch.
struct JsonCount(Result<u64, SampleError>);

impl<'de> Deserialize<'de> for JsonCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountVisitor;
        fn refuse<E>(text: &impl fmt::Display) -> Result<JsonCount, E> {
            let detail = format!("count {text} is not a whole number from 0 to 18446744073709551615");
            Ok(JsonCount(bad(Reason::HistogramInvalid, detail)))
        }
        impl Visitor<'_> for CountVisitor {
            type Value = JsonCount;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a count")
            }
            fn visit_u64<E>(self, value: u64) -> Result<JsonCount, E> {
                Ok(JsonCount(Ok(value)))
            }
            fn visit_i64<E>(self, value: i64) -> Result<JsonCount, E> {
                refuse(&value)
            }
            fn visit_f64<E>(self, value: f64) -> Result<JsonCount, E> {
                refuse(&value)
            }
            fn visit_str<E>(self, text: &str) -> Result<JsonCount, E> {
                refuse(&text.chars().take(40).collect::<String>())
            }
        }
        deserializer.deserialize_any(CountVisitor)
    }
}

/// Bins in any order to a histogram whose counts add up without overflow.
fn collect(mut bins: Vec<(DecimalBin, u64)>) -> Result<Box<Histogram>, SampleError> {
    let mut total = 0_u64;
    for (_, count) in &bins {
        let Some(sum) = total.checked_add(*count) else {
            return bad(Reason::HistogramInvalid, "the counts add up to more than 18446744073709551615");
        };
        total = sum;
    }
    bins.sort_by_key(|(bin, _)| (bin.index(), bin.val));
    if let Some(pair) = bins.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let label = openhistogram::label_of_bin(pair[0].0);
        return bad(Reason::HistogramInvalid, format!("bin {label} is given twice; add the counts"));
    }
    let mut out = Box::new(Histogram::log_linear());
    for (bin, count) in bins.into_iter().filter(|(_, count)| *count > 0) {
        match bin.index() {
            Some(index) if bin.val > 0 => out.positive.push(index, count),
            Some(index) => out.negative.push(index, count),
            None if bin == DecimalBin::NAN => out.nan = count,
            None => out.zero = count,
        }
    }
    out.recount();
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "123e4567-e89b-12d3-a456-426614174000";

    fn batch(series: &str, samples: &str) -> Result<Decoded, String> {
        decode(format!(r#"{{"source":"{SOURCE}","sequence":7,"series":[{series}],"samples":[{samples}]}}"#).as_bytes())
    }

    const RPC: &str = r#"{"labels":{"__name__":"rpc","a":"b"},"kind":"histogram","unit":"s","width_ms":1000}"#;

    /// A reader that rounds twice is off by the last bit of some: each number is the nearest double.
    #[test]
    fn floats_are_the_nearest_doubles() {
        let gauge = r#"{"labels":{"__name__":"g"},"kind":"float"}"#;
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            // Any 64 bits that are a finite double.
            let number = f64::from_bits(rng.u64(..));
            if !number.is_finite() {
                continue;
            }
            let decoded = batch(gauge, &format!(r#"{{"series":0,"time_ms":1,"float":{number:e}}}"#)).unwrap();
            let Ok(Sample { value: Value::Float(read), .. }) = decoded.batch.samples[0] else { panic!("{number:e}") };
            assert_eq!(read.to_bits(), number.to_bits(), "{number:e}");
        }
    }

    /// The one sample of a batch with one histogram series.
    fn sample(sample: &str) -> (Result<Sample, Reason>, String) {
        let mut decoded = batch(RPC, sample).unwrap();
        assert_eq!(decoded.batch.samples.len(), 1);
        (decoded.batch.samples.remove(0), decoded.details.pop().map(|detail| detail.1).unwrap_or_default())
    }

    #[test]
    fn the_shape_of_the_contract_is_read() {
        let decoded = batch(
            RPC,
            r#"{"series":0,"time_ms":1700000001000,"histogram":{"bins":{"3.5e-2":1,"1.2e-3":4,"0":2,"-0.5":1},"sum":1.5}},
               {"series":0,"time_ms":1700000001000,"histogram_b64":"AAEKAAAB"},
               {"series":1,"time_ms":-5,"float":"NaN"},{"series":1,"time_ms":1,"float":-1.5},
               {"series":2,"time_ms":1,"text":"x"}"#,
        )
        .unwrap();
        assert!(decoded.details.is_empty());
        let batch = decoded.batch;
        assert_eq!((batch.source, batch.sequence), (SourceId(0x123e_4567_e89b_12d3_a456_4266_1417_4000), 7));
        let series = batch.series[0].as_ref().unwrap();
        assert_eq!(series.labels.to_string(), r#"rpc{a="b"}"#);
        assert_eq!((series.meta.kind, series.meta.temporality), (Kind::Histogram, Temporality::Delta));
        assert_eq!((&*series.meta.unit, series.meta.width_ms), ("s", 1000));
        let first = batch.samples[0].as_ref().unwrap();
        assert_eq!(first.time_ns, 1_700_000_001_000_000_000);
        let Value::Histogram(histogram) = &first.value else { panic!("{first:?}") };
        assert_eq!((histogram.count, histogram.zero, histogram.sum), (8, 2, Some(1.5)));
        assert_eq!((histogram.positive.len(), histogram.negative.len()), (2, 1));
        let Value::Histogram(one) = &batch.samples[1].as_ref().unwrap().value else { panic!() };
        assert_eq!(one.count, 1);
        assert!(matches!(batch.samples[2].as_ref().unwrap().value, Value::Float(value) if value.is_nan()));
        assert_eq!(batch.samples[4].as_ref().unwrap().value, Value::Text("x".into()));
    }

    #[test]
    fn every_bin_has_the_label_that_names_it_in_every_form() {
        for positive in [true, false] {
            for index in 0..ogive_hist::BINS_PER_SIGN {
                let bin = DecimalBin::from_index(positive, index);
                let label = openhistogram::label_of_bin(bin);
                assert_eq!(usual_edge(label.as_bytes()), Some(bin), "{label}");
                let (lo, hi) = Scheme::LogLinear10.bounds(positive, index);
                let near = if positive { lo } else { hi };
                for label in [format!("{near:e}"), format!("{near}"), label.replace('e', "E")] {
                    assert!(edge(&label).is_ok_and(|found| found == bin), "{label}");
                }
            }
        }
        for other in [
            "", "-", "1", "1.", "1.2", "0.1e1", "1.25e1", "1.2e", "1.2e-", "1.2e+1", "1.2e999", "1.2e128", "1.2e-129",
            "1e1x",
        ] {
            assert_eq!(usual_edge(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_start_is_read_and_one_that_no_clock_has_spoils_its_sample() {
        let of = |start: &str| sample(&format!(r#"{{"series":0,"start_ms":{start},"time_ms":60000,"float":1}}"#));
        assert_eq!(of("0").0.unwrap().start_ns, None, "not known");
        assert_eq!(of("59999").0.unwrap().start_ns, Some(59_999_000_000));
        assert_eq!(of("-1").0.unwrap().start_ns, Some(-1_000_000), "for the store to reject");
        let far = of("9300000000000000");
        assert_eq!((far.0, &*far.1), (Err(Reason::StartInvalid), "start_ms 9300000000000000 cannot be stored"));
        assert!(batch(RPC, r#"{"series":0,"start_ms":1,"start_ms":1,"time_ms":60000,"float":1}"#).is_err());
    }

    #[test]
    fn a_wrong_value_spoils_only_its_sample() {
        let check = |value: &str, reason: Reason, word: &str| {
            let (found, detail) = sample(&format!(r#"{{"series":0,"time_ms":1,{value}}}"#));
            assert_eq!(found, Err(reason), "{value}");
            assert!(detail.contains(word), "{value}: {detail}");
        };
        let bins = |bins: &str| format!(r#""histogram":{{"bins":{{{bins}}}}}"#);
        let invalid = Reason::HistogramInvalid;
        check(&bins(r#""1.23e-3":1"#), invalid, "1.2e-3");
        check(&bins(r#""abc":1"#), invalid, "abc");
        check(&bins(r#""inf":1"#), invalid, "inf");
        check(&bins(r#""1e-200":1"#), invalid, "edge");
        check(&bins(r#""1e200":1"#), invalid, "1e200");
        check(&bins(r#""1":-1"#), invalid, "-1");
        check(&bins(r#""1":1.5"#), invalid, "1.5");
        check(&bins(r#""1":18446744073709551616"#), invalid, "whole number");
        check(&bins(r#""1":9223372036854775808,"2":9223372036854775808"#), invalid, "add up");
        check(&bins(r#""1":1,"1.0e0":1"#), invalid, "twice");
        check(r#""histogram":{"bins":{"1":1},"sum":"NaN"}"#, invalid, "sum");
        check(r#""histogram":{"bins":{"1":1},"min":2,"max":1}"#, invalid, "above");
        check(r#""histogram":{"bins":{},"min":2}"#, invalid, "no samples");
        check(r#""histogram_b64":"AAEKAAA""#, invalid, "");
        check(r#""histogram_b64":"AAIKAAAB""#, invalid, "missing");
        check(r#""float":1,"text":"x""#, Reason::KindConflict, "exactly one");
        let (found, _) = sample(r#"{"series":0,"time_ms":1}"#);
        assert_eq!(found, Err(Reason::KindConflict));
        let (found, _) = sample(r#"{"series":-1,"time_ms":1,"float":1}"#);
        assert_eq!(found, Err(Reason::SeriesUnknown));
        for (time, reason) in [("9223372036854775807", Reason::TimeTooNew), ("-1e30", Reason::TimeTooOld)] {
            let (found, _) = sample(&format!(r#"{{"series":0,"time_ms":{time},"float":1}}"#));
            assert_eq!(found, Err(reason), "{time}");
        }
        let one = r#"{"series":0,"time_ms":1,"histogram":{"bins":{"1":18446744073709551615}}}"#;
        assert!(sample(one).0.is_ok());
    }

    #[test]
    fn neighbours_of_bad_series_and_samples_live() {
        let decoded = batch(
            r#"{"labels":{"__name__":"a","x":"1","x":"2"},"kind":"float"},{"labels":{"__name__":"b"},"kind":"float"},
               {"labels":{"a":"b"},"kind":"float"},{"labels":{"__name__":"b","":"b"},"kind":"float"}"#,
            r#"{"series":0,"time_ms":1,"float":1},{"series":1,"time_ms":1,"float":1},{"series":1,"time_ms":1,"histogram":{"bins":{"x":1}}}"#,
        )
        .unwrap();
        let good: Vec<bool> = decoded.batch.series.iter().map(Result::is_ok).collect();
        assert_eq!(good, [false, true, false, false]);
        assert!(decoded.batch.samples[1].is_ok());
        let details: Vec<u32> = decoded.details.iter().map(|detail| detail.0).collect();
        assert_eq!(details, [0, 2]);
        assert!(decoded.details[0].1.contains("twice"), "{:?}", decoded.details);
    }

    #[test]
    fn another_shape_is_refused_with_its_place() {
        let check = |text: &str, word: &str| {
            let error = decode(text.as_bytes()).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        };
        check("", "EOF");
        check("{", "EOF");
        check("[]", "expected");
        check("\u{fe}", "column");
        check(r#"{"source":"x","sequence":1,"series":[],"samples":[]}"#, "UUID");
        check(&format!(r#"{{"source":"{SOURCE}","sequence":-1,"series":[],"samples":[]}}"#), "-1");
        check(&format!(r#"{{"source":"{SOURCE}","sequence":1,"series":[]}}"#), "samples");
        check(&format!(r#"{{"source":"{SOURCE}","sequence":1,"series":[],"samples":[],"extra":1}}"#), "extra");
        let inside = |sample: &str| format!(r#"{{"source":"{SOURCE}","sequence":1,"series":[],"samples":[{sample}]}}"#);
        check(&inside(r#"{"series":0,"time_ms":1,"value":1}"#), "value");
        check(&inside(r#"{"series":0,"time_ms":1.5,"float":1}"#), "1.5");
        check(&inside(r#"{"series":0,"series":0,"time_ms":1,"float":1}"#), "series");
        check(&inside(r#"{"series":0,"time_ms":1,"float":"one"}"#), "one");
        check(&inside(r#"{"series":0,"time_ms":1,"float":1e999}"#), "range");
        check(&inside(r#"{"series":0,"time_ms":1,"histogram":{"bins":{},"nope":1}}"#), "nope");
        check(&inside(r#"{"time_ms":1,"float":1}"#), "series");
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        check(&inside(&deep), "");
    }

    #[test]
    fn limits_hold_at_their_value_and_one_above() {
        let many = |series: usize, samples: usize| {
            let series = vec![r#"{"labels":{"__name__":"a"},"kind":"float"}"#; series].join(",");
            let samples = vec![r#"{"series":0,"time_ms":1,"float":1}"#; samples].join(",");
            batch(&series, &samples).map(|decoded| decoded.batch.samples.len())
        };
        assert_eq!(many(SERIES_JSON_MAX, 0), Ok(0));
        assert!(many(SERIES_JSON_MAX + 1, 0).unwrap_err().contains("split"));
        assert_eq!(many(1, SAMPLES_MAX), Ok(SAMPLES_MAX));
        assert!(many(1, SAMPLES_MAX + 1).unwrap_err().contains("split"));
    }

    #[test]
    fn changed_bytes_never_panic() {
        let seed = format!(
            r#"{{"source":"{SOURCE}","sequence":1,"series":[{RPC}],"samples":[{{"series":0,"time_ms":1,"histogram":{{"bins":{{"1.2e-3":4}},"sum":1}}}},{{"series":0,"time_ms":1,"float":1.5}}]}}"#
        );
        let mut rng = fastrand::Rng::with_seed(1);
        let mut next = move |below: usize| rng.usize(..below);
        for _ in 0..20_000 {
            let mut bytes = seed.clone().into_bytes();
            for _ in 0..=next(3) {
                let at = next(bytes.len());
                match next(3) {
                    0 => bytes[at] = next(256) as u8,
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, b"{}[]\":,0e-9"[next(11)]),
                }
            }
            let _ = decode(&bytes);
        }
    }

    /// What is read can be written, or is too large.
    #[test]
    fn changed_batches_are_read_or_refused() {
        let batch = br#"{"source":"7f9c2c1e-6f0a-4e3b-9a55-0c8f0a4b2d11","sequence":1,"series":[{"labels":{"__name__":"a"},"kind":"histogram",
            "temporality":"delta","unit":"s","width_ms":1000}],"samples":[{"series":0,"time_ms":1700000001000,"histogram":{"bins":{"1.2e-3":4}}},
            {"series":0,"time_ms":1,"float":1.5},{"series":0,"time_ms":2,"text":"x\u00e9"},{"series":0,"time_ms":3,"histogram_b64":"AAA="}]}"#;
        assert!(decode(batch).is_ok());
        crate::mutations::mutations(batch, 5_000, 5, b" -:[]{},.'\"#&*!|>=\n\tax0e\xff", |bytes| {
            if let Ok(decoded) = decode(bytes) {
                let _ = decoded.batch.encode();
            }
        });
    }
}
