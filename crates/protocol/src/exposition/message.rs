//! The protobuf form: messages `io.prometheus.client.MetricFamily`, each preceded by its length as a varint.
//!
//! Format: `io/prometheus/client/metrics.proto` of github.com/prometheus/client_model.
//! Invariants: a histogram with native bins is one point, next to its classic form, which is marked as such.

use std::borrow::Cow;

use ogive_model::{MetricKind, Temporality};

use super::point::{Exemplar, Exposition, Family, Meter, Point, Value, temporality};
use super::series::{Series, message_labels, pair};
use crate::Error;
use crate::protobuf::{Field, Fields, varint, zigzag};
use crate::remote_write::{Number, Raw, SidePart};

const DOUBLE: &str = "a value is not a double";
const INTEGER: &str = "a count is not a number";
/// 65,536 buckets, quantiles or events of one metric, as bins of a native histogram.
const PARTS_MAX: usize = 1 << 16;

const MESSAGE: &str = "a part of a metric is not a message";

pub(super) fn decode(body: &[u8]) -> Result<Exposition<'_>, Error> {
    let (mut out, mut meter) = (Exposition::default(), Meter::new(body));
    let mut rest = body;
    while !rest.is_empty() {
        let length = varint(&mut rest, "the length of a family")?;
        let taken = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
        let (family, after) = taken.ok_or(Error::Truncated { what: "a family" })?;
        rest = after;
        read_family(family, &mut out, &mut meter)?;
    }
    Ok(out)
}

fn read_family<'a>(message: &'a [u8], out: &mut Exposition<'a>, meter: &mut Meter) -> Result<(), Error> {
    let (mut name, mut help, mut unit, mut kind) = ("", "", "", MetricKind::Counter);
    for field in Fields::new(message) {
        match field? {
            (1, value) => name = value.text("a family's name is not text")?,
            (2, value) => help = value.text("a family's help is not text")?,
            (3, value) => kind = kind_of(value.varint("a family's type is not a number")?)?,
            (5, value) => unit = value.text("a family's unit is not text")?,
            _ => {}
        }
    }
    if name.is_empty() {
        return Err(Error::Malformed { what: "a family has no name" });
    }
    out.families.push(Family { name: name.into(), kind, help: help.into(), unit: unit.into() });
    for field in Fields::new(message) {
        if let (4, value) = field? {
            Metric::read(name, kind, value.bytes(MESSAGE)?)?.points(&mut out.points);
            meter.pay(out)?;
        }
    }
    meter.pay(out)
}

fn kind_of(number: u64) -> Result<MetricKind, Error> {
    Ok(match number {
        0 => MetricKind::Counter,
        1 => MetricKind::Gauge,
        2 => MetricKind::Summary,
        3 => MetricKind::Unknown,
        4 => MetricKind::Histogram,
        5 => MetricKind::GaugeHistogram,
        _ => return Err(Error::Malformed { what: "a family has a type that is not known" }),
    })
}

/// A metric's message.
struct Metric<'a> {
    name: &'a str,
    kind: MetricKind,
    series: Series<'a>,
    time_ms: Option<i64>,
    body: Body<'a>,
}

/// The part of it that its type names.
#[derive(Default)]
struct Body<'a> {
    value: f64,
    count: f64,
    start_ms: Option<i64>,
    /// Upper bounds or quantiles, each with its value and, for a bound, one event.
    parts: Vec<(f64, f64, Option<Exemplar<'a>>)>,
    exemplars: Vec<Exemplar<'a>>,
    native: Raw,
    is_native: bool,
}

impl<'a> Metric<'a> {
    fn read(name: &'a str, kind: MetricKind, metric: &'a [u8]) -> Result<Self, Error> {
        let (mut time_ms, mut body) = (None, None);
        let wanted = match kind {
            MetricKind::Gauge => 2,
            MetricKind::Counter => 3,
            MetricKind::Summary => 4,
            MetricKind::Histogram | MetricKind::GaugeHistogram => 7,
            _ => 5,
        };
        for field in Fields::new(metric) {
            match field? {
                (1, value) => {
                    let label = value.bytes("a label is not a message")?;
                    pair(label).ok_or(Error::Malformed { what: "a label is not a name and a value in UTF-8" })?;
                }
                (6, value) => time_ms = Some(value.varint("a time is not a number")? as i64),
                (number, value) if number == wanted => body = Some(Body::read(kind, value.bytes(MESSAGE)?)?),
                _ => {}
            }
        }
        let body = body.ok_or(Error::Malformed { what: "a metric has no value of its family's type" })?;
        // Zero is how some senders write that there is none.
        let time_ms = time_ms.filter(|time_ms| *time_ms != 0);
        Ok(Self { name, kind, series: Series::from_message(name, metric), time_ms, body })
    }

    fn points(self, out: &mut Vec<Point<'a>>) {
        let Self { name, kind, series, time_ms, body } = self;
        let Body { value, count, start_ms, parts, mut exemplars, native, is_native } = body;
        let point = |series, temporality, value, exemplars| Point {
            series,
            temporality,
            time_ms,
            start_ms,
            value,
            exemplars,
            has_native: false,
        };
        let temporality = temporality(kind, name);
        let grows = if kind == MetricKind::GaugeHistogram { Temporality::Gauge } else { Temporality::Cumulative };
        let is_histogram = matches!(kind, MetricKind::Histogram | MetricKind::GaugeHistogram);
        if !is_histogram && kind != MetricKind::Summary {
            out.push(point(series, temporality, Value::Float(value), exemplars));
            return;
        }
        if is_native {
            if exemplars.is_empty() {
                exemplars = parts.iter().filter_map(|(_, _, exemplar)| exemplar.clone()).collect();
            }
            out.push(point(series.clone(), grows, Value::Histogram(native.histogram()), exemplars));
        }
        let from = out.len();
        let (suffix, label) = if is_histogram { ("_bucket", "le") } else { ("", "quantile") };
        let of_parts = if is_histogram { grows } else { Temporality::Gauge };
        let ends = parts.last().is_some_and(|part| part.0 == f64::INFINITY);
        let last = (is_histogram && !ends).then_some((f64::INFINITY, count, None));
        for (bound, value, exemplar) in parts.into_iter().chain(last) {
            let series = series.part(suffix, Some((label, bound)));
            out.push(point(series, of_parts, Value::Float(value), exemplar.into_iter().collect()));
        }
        for (suffix, value) in [("_sum", value), ("_count", count)] {
            out.push(point(series.part(suffix, None), grows, Value::Float(value), Vec::new()));
        }
        out[from..].iter_mut().for_each(|point| point.has_native = is_native);
    }
}

impl<'a> Body<'a> {
    fn read(kind: MetricKind, message: &'a [u8]) -> Result<Self, Error> {
        let mut out = Self::default();
        for field in Fields::new(message) {
            let (number, value) = field?;
            let parts = out.parts.len().max(out.exemplars.len());
            if parts > PARTS_MAX {
                let (found, limit) = (parts as u64, PARTS_MAX as u64);
                return Err(Error::TooLarge { what: "the buckets, quantiles or exemplars of a metric", found, limit });
            }
            match kind {
                MetricKind::Summary => out.summary(number, value)?,
                MetricKind::Histogram | MetricKind::GaugeHistogram => out.histogram(number, value)?,
                _ => out.number(number, value)?,
            }
        }
        if out.is_native {
            out.native.sum = out.value;
            out.native.reset = if kind == MetricKind::GaugeHistogram { 3 } else { 0 };
        }
        Ok(out)
    }

    fn number(&mut self, number: u32, value: Field<'a>) -> Result<(), Error> {
        match number {
            1 => self.value = value.double(DOUBLE)?,
            2 => self.exemplars.push(exemplar(value.bytes(MESSAGE)?)?),
            3 => self.start_ms = time(value.bytes(MESSAGE)?)?,
            _ => {}
        }
        Ok(())
    }

    fn summary(&mut self, number: u32, value: Field<'a>) -> Result<(), Error> {
        match number {
            1 => self.count = value.varint(INTEGER)? as f64,
            2 => self.value = value.double(DOUBLE)?,
            3 => {
                let (mut quantile, mut of) = (0.0, 0.0);
                for field in Fields::new(value.bytes(MESSAGE)?) {
                    match field? {
                        (1, value) => quantile = value.double(DOUBLE)?,
                        (2, value) => of = value.double(DOUBLE)?,
                        _ => {}
                    }
                }
                self.parts.push((quantile, of, None));
            }
            4 => self.start_ms = time(value.bytes(MESSAGE)?)?,
            _ => {}
        }
        Ok(())
    }

    fn histogram(&mut self, number: u32, value: Field<'a>) -> Result<(), Error> {
        let native = &mut self.native;
        match number {
            1 => {
                let count = value.varint(INTEGER)?;
                if !matches!(native.count, Number::Float(_)) {
                    (self.count, native.count) = (count as f64, Number::Integer(count));
                }
            }
            2 => self.value = value.double(DOUBLE)?,
            3 => self.parts.push(bucket(value.bytes(MESSAGE)?)?),
            4 => {
                let count = value.double(DOUBLE)?;
                // Zero is how it is written that the counts are integers.
                if count > 0.0 {
                    (self.count, native.count) = (count, Number::Float(count));
                }
            }
            5 => native.schema = zigzag(value.varint("a schema is not a number")?),
            6 => {
                native.zero_threshold = value.double(DOUBLE)?;
                self.is_native |= native.zero_threshold > 0.0;
            }
            7 => {
                let zero = value.varint(INTEGER)?;
                if !matches!(native.zero, Number::Float(_)) {
                    native.zero = Number::Integer(zero);
                }
                self.is_native |= zero > 0;
            }
            8 => {
                let zero = value.double(DOUBLE)?;
                if zero > 0.0 {
                    native.zero = Number::Float(zero);
                    self.is_native = true;
                }
            }
            9 | 12 => {
                self.is_native = true;
                let side = if number == 9 { &mut native.negative } else { &mut native.positive };
                side.field(SidePart::Span, value)?;
            }
            10 => native.negative.field(SidePart::Deltas, value)?,
            11 => native.negative.field(SidePart::Counts, value)?,
            13 => native.positive.field(SidePart::Deltas, value)?,
            14 => native.positive.field(SidePart::Counts, value)?,
            15 => self.start_ms = time(value.bytes(MESSAGE)?)?,
            16 => self.exemplars.push(exemplar(value.bytes(MESSAGE)?)?),
            _ => {}
        }
        Ok(())
    }
}

/// Upper bound, cumulative count and one event.
fn bucket(message: &[u8]) -> Result<(f64, f64, Option<Exemplar<'_>>), Error> {
    let (mut bound, mut count, mut event) = (0.0, 0.0, None);
    for field in Fields::new(message) {
        match field? {
            (1, value) => count = if count > 0.0 { count } else { value.varint(INTEGER)? as f64 },
            (2, value) => bound = value.double(DOUBLE)?,
            (3, value) => event = Some(exemplar(value.bytes(MESSAGE)?)?),
            (4, value) => count = Some(value.double(DOUBLE)?).filter(|float| *float > 0.0).unwrap_or(count),
            _ => {}
        }
    }
    Ok((bound, count, event))
}

fn exemplar(message: &[u8]) -> Result<Exemplar<'_>, Error> {
    let (mut value, mut time_ms) = (0.0, None);
    for field in Fields::new(message) {
        match field? {
            (2, double) => value = double.double(DOUBLE)?,
            (3, stamp) => time_ms = time(stamp.bytes(MESSAGE)?)?,
            _ => {}
        }
    }
    let labels: Option<_> = message_labels(message)
        .map(|label| pair(label).map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value))))
        .collect();
    let labels =
        labels.ok_or(Error::Malformed { what: "a label of an exemplar is not a name and a value in UTF-8" })?;
    Ok(Exemplar { labels, value, time_ms })
}

/// The milliseconds of a `google.protobuf.Timestamp`; none for the one that is not set.
fn time(message: &[u8]) -> Result<Option<i64>, Error> {
    let (mut seconds, mut nanos) = (0_i64, 0_i64);
    for field in Fields::new(message) {
        match field? {
            (1, value) => seconds = value.varint("a time is not a number")? as i64,
            (2, value) => nanos = i64::from(value.varint("a time is not a number")? as i32),
            _ => {}
        }
    }
    if (seconds, nanos) == (0, 0) {
        return Ok(None);
    }
    let ms = seconds.checked_mul(1_000).and_then(|ms| ms.checked_add(nanos.div_euclid(1_000_000)));
    ms.map(Some).ok_or(Error::Malformed { what: "a time is beyond what can be stored" })
}
