//! A metrics request as a batch.
//!
//! Invariants: each point is counted once among `points`, whatever its outcome; a point that reports no recorded value
//! ends its series with a staleness marker, or is counted as unrecorded if the series consists of intervals.

use ogive_hist::{Histogram, Scheme};
use ogive_model::{
    Error as SeriesError, Exemplar as StoredExemplar, Kind, Labels, MetricKind, Reason, SeriesDef, SeriesMeta,
    Temporality, Value,
};

use super::any::{hex, messages};
use super::build::{Builder, Identity};
use super::labels::{Pairs, Resource, Scope};
use super::names::Growth;
use super::points::{Exemplar, Fault, Point, PointValue, Shape};
use super::{Context, DecodedRequest, Metadata, Options};
use crate::Error;
use crate::protobuf::Fields;

/// Prometheus' staleness marker: the series ended here.
const STALE: f64 = f64::from_bits(ogive_model::STALE);

/// Reads an `ExportMetricsServiceRequest`.
///
/// # Errors
/// When its parts cannot be distinguished from each other, or there are too many; a point that breaks a rule is an
/// error in the batch.
pub fn read(message: &[u8], context: &Context<'_>) -> Result<DecodedRequest, Error> {
    let ids = context.known.map(crate::remote_write::KnownSeries::ids);
    let mut reader = Reader { builder: Builder::new(context, ids.as_deref(), message.len()), options: context.options };
    for resource in messages(message, 1, "a resource's metrics are not a message") {
        reader.resource(resource?)?;
    }
    Ok(reader.builder.finish())
}

struct Reader<'k> {
    builder: Builder<'k>,
    options: &'k Options,
}

/// What the points of a metric have in common.
struct Metric<'a> {
    resource: &'a Resource<'a>,
    scope: Scope<'a>,
    name: &'a str,
    description: &'a str,
    unit: &'a str,
    shape: Shape,
    /// 0 unspecified, 1 delta, 2 cumulative.
    aggregation: u64,
    is_monotonic: bool,
    /// The message with the points.
    points: &'a [u8],
    identity: Identity,
}

impl Reader<'_> {
    /// A `ResourceMetrics`.
    fn resource(&mut self, message: &[u8]) -> Result<(), Error> {
        let mut resource = Resource::default();
        for field in messages(message, 1, "a resource is not a message") {
            resource = Resource::read(field?)?;
        }
        let identity = self.builder.root().with(resource.bytes());
        let mut latest_ns = 0;
        for scope in messages(message, 2, "a scope's metrics are not a message") {
            let message = scope?;
            let mut scope = Scope::default();
            for field in messages(message, 1, "a scope is not a message") {
                scope = Scope::read(field?)?;
            }
            let identity = identity.with(scope.message);
            for metric in messages(message, 2, "a metric is not a message") {
                let metric = Metric::read(metric?, &resource, scope, identity)?;
                latest_ns = latest_ns.max(self.metric(&metric)?);
            }
        }
        self.target_info(&resource, identity, latest_ns)
    }

    /// What is known of the resource, at the time of its latest point.
    fn target_info(&mut self, resource: &Resource<'_>, identity: Identity, latest_ns: u64) -> Result<(), Error> {
        let Some(labels) = resource.target_info(self.options).filter(|_| latest_ns > 0) else { return Ok(()) };
        let number = self.builder.series(identity.with(b"target_info"), || {
            let meta =
                SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
            labels.map(|labels| SeriesDef { labels, meta })
        })?;
        self.builder.push(None, number, 0, latest_ns, Value::Float(1.0))
    }

    /// The latest time of a point of `metric`.
    fn metric(&mut self, metric: &Metric<'_>) -> Result<u64, Error> {
        let mut latest_ns = 0;
        for message in messages(metric.points, 1, "a point is not a message") {
            let number = self.builder.point();
            match Point::read(metric.shape, message?) {
                Ok(point) => {
                    latest_ns = latest_ns.max(point.time_ns);
                    self.point(metric, number, point)?;
                }
                Err(error) => self.builder.reject(Some(number), error.into())?,
            }
        }
        if latest_ns > 0 {
            self.builder.learn(metric.metadata(self.options))?;
        }
        Ok(latest_ns)
    }

    fn point(&mut self, metric: &Metric<'_>, number: u32, mut point: Point<'_>) -> Result<(), Error> {
        let Some(temporality) = metric.temporality() else {
            let text = "the metric says neither delta nor cumulative; set aggregation_temporality";
            return self.builder.reject(Some(number), Fault { reason: Reason::PointInvalid, text: text.into() });
        };
        let mut identity = metric.identity;
        for attribute in point.attributes() {
            match attribute {
                Ok(attribute) => identity = identity.with(attribute),
                Err(error) => return self.builder.reject(Some(number), error.into()),
            }
        }
        let (start_ns, time_ns) = (point.start_ns, point.time_ns);
        let value = match point.value() {
            Ok(value) => value,
            Err(fault) => return self.builder.reject(Some(number), fault),
        };
        let of = Of { metric, point: &point, identity, number, start_ns, time_ns };
        match value {
            PointValue::Nothing if temporality == Temporality::Delta => {
                self.builder.read.unrecorded += 1;
                Ok(())
            }
            PointValue::Nothing => self.nothing(&of, temporality),
            PointValue::Number(value) => self.push(&of, Kind::Float, temporality, Value::Float(value)),
            PointValue::Histogram(histogram) => {
                self.push(&of, Kind::Histogram, temporality, Value::Histogram(histogram))
            }
            PointValue::Summary { count, sum, quantiles } => self.summary(&of, count, sum, &quantiles),
        }
    }

    fn push(&mut self, of: &Of<'_>, kind: Kind, temporality: Temporality, value: Value) -> Result<(), Error> {
        let options = self.options;
        let (start_ns, time_ns) = (of.start_ns, of.time_ns);
        if temporality == Temporality::Delta && (start_ns == 0 || start_ns == time_ns) {
            self.builder.read.fragments += 1;
        }
        let series = self.builder.series(of.identity, || of.define(options, "", None, kind, temporality))?;
        self.builder.push(Some(of.number), series, start_ns, time_ns, value)?;
        self.exemplars(of)
    }

    /// The series ends here, until it goes on.
    fn nothing(&mut self, of: &Of<'_>, temporality: Temporality) -> Result<(), Error> {
        match of.metric.shape {
            Shape::Gauge | Shape::Sum => self.push(of, Kind::Float, temporality, Value::Float(STALE)),
            Shape::Explicit | Shape::Exponential => {
                let mut histogram = Histogram::new(Scheme::Exp2 { scale: 0 });
                histogram.sum = Some(STALE);
                self.push(of, Kind::Histogram, temporality, Value::Histogram(Box::new(histogram)))
            }
            // Which quantiles end is not said.
            Shape::Summary => {
                self.summary_part(of, "_sum", None, STALE)?;
                self.summary_part(of, "_count", None, STALE)
            }
        }
    }

    fn summary(&mut self, of: &Of<'_>, count: u64, sum: f64, quantiles: &[(f64, f64)]) -> Result<(), Error> {
        for (quantile, value) in quantiles {
            self.summary_part(of, "", Some(*quantile), *value)?;
        }
        self.summary_part(of, "_sum", None, sum)?;
        self.summary_part(of, "_count", None, count as f64)
    }

    fn summary_part(&mut self, of: &Of<'_>, end: &str, quantile: Option<f64>, value: f64) -> Result<(), Error> {
        let identity = of.identity.with(end.as_bytes());
        let identity = quantile.map_or(identity, |quantile| identity.part(quantile.to_bits()));
        let temporality = if quantile.is_some() { Temporality::Gauge } else { Temporality::Cumulative };
        let options = self.options;
        let series = self.builder.series(identity, || of.define(options, end, quantile, Kind::Float, temporality))?;
        self.builder.push(Some(of.number), series, of.start_ns, of.time_ns, Value::Float(value))
    }

    /// The exemplars of a point: texts of a series beside its own.
    fn exemplars(&mut self, of: &Of<'_>) -> Result<(), Error> {
        let options = self.options;
        for exemplar in of.point.exemplars() {
            let text =
                exemplar.map_err(Fault::from).and_then(|exemplar| Ok((exemplar.time_ns, text(&exemplar, options)?)));
            let (time_ns, text) = match text {
                Ok(pair) => pair,
                Err(fault) => {
                    self.builder.reject(None, fault)?;
                    continue;
                }
            };
            let time_ns = if time_ns == 0 { of.point.time_ns } else { time_ns };
            let series = self
                .builder
                .series(of.identity.with(b"exemplar"), || Ok(StoredExemplar::series(&of.labels(options, "", None)?)))?;
            self.builder.push(None, series, 0, time_ns, Value::Text(text))?;
        }
        Ok(())
    }
}

/// An exemplar as it is stored: its attributes and the trace that it came from.
fn text(exemplar: &Exemplar<'_>, options: &Options) -> Result<String, Fault> {
    let fault = |error: SeriesError| Fault { reason: Reason::LabelsInvalid, text: error.to_string() };
    let mut pairs = Pairs::new(options.translation);
    pairs.attributes(exemplar.message, Exemplar::ATTRIBUTES).map_err(fault)?;
    let ids = [exemplar.trace_id, exemplar.span_id].map(|id| {
        let mut digits = String::new();
        hex(&mut digits, id);
        digits
    });
    let labels = pairs.set(&[("trace_id", &ids[0]), ("span_id", &ids[1])]).map_err(fault)?;
    StoredExemplar { labels, value: exemplar.value }.to_text().map_err(fault)
}

/// A point of a metric, and what its series are made of.
struct Of<'a> {
    metric: &'a Metric<'a>,
    point: &'a Point<'a>,
    identity: Identity,
    number: u32,
    start_ns: u64,
    time_ns: u64,
}

impl Of<'_> {
    /// The series of this point whose name ends in `end`.
    fn define(
        &self,
        options: &Options,
        end: &str,
        quantile: Option<f64>,
        kind: Kind,
        temporality: Temporality,
    ) -> Result<SeriesDef, SeriesError> {
        let labels = self.labels(options, end, quantile)?;
        let unit = if end == "_count" { "" } else { self.metric.unit };
        if unit.len() > SeriesDef::UNIT_BYTES_MAX {
            return Err(SeriesError::TooLarge {
                what: "a unit's bytes",
                found: unit.len(),
                limit: SeriesDef::UNIT_BYTES_MAX,
            });
        }
        Ok(SeriesDef { labels, meta: SeriesMeta { kind, temporality, unit: unit.to_owned(), width_ms: 0 } })
    }

    fn labels(&self, options: &Options, end: &str, quantile: Option<f64>) -> Result<Labels, SeriesError> {
        let Metric { resource, scope, .. } = self.metric;
        let mut pairs = Pairs::new(options.translation);
        resource.promote(&mut pairs, options)?;
        scope.label(&mut pairs, options)?;
        pairs.attributes(self.point.message(), self.point.shape.attributes())?;
        let name = self.metric.stored_name(options) + end;
        let [a, b, c] = resource.ours(&name);
        let quantile = quantile.map(|quantile| quantile.to_string()).unwrap_or_default();
        pairs.labels(&[a, b, c, if quantile.is_empty() { ("", "") } else { ("quantile", &quantile) }])
    }
}

impl<'a> Metric<'a> {
    fn read(
        message: &'a [u8],
        resource: &'a Resource<'a>,
        scope: Scope<'a>,
        identity: Identity,
    ) -> Result<Self, Error> {
        let (mut name, mut description, mut unit) = ("", "", "");
        let (mut shape, mut points) = (Shape::Gauge, &[][..]);
        for field in Fields::new(message) {
            match field? {
                (1, value) => name = value.text("a metric's name is not UTF-8 text")?,
                (2, value) => description = value.text("a metric's description is not UTF-8 text")?,
                (3, value) => unit = value.text("a metric's unit is not UTF-8 text")?,
                (number, value) => {
                    if let Some(found) = Shape::from_field(number) {
                        (shape, points) = (found, value.bytes("a metric's data is not a message")?);
                    }
                }
            }
        }
        let (mut aggregation, mut is_monotonic) = (0, false);
        for field in Fields::new(points) {
            match field? {
                (2, value) => aggregation = value.varint("an aggregation temporality is not a number")?,
                (3, value) => is_monotonic = value.varint("is_monotonic is not a truth value")? != 0,
                _ => {}
            }
        }
        let identity = identity
            .part(shape as u64 | aggregation << 8 | u64::from(is_monotonic) << 16)
            .with(name.as_bytes())
            .with(description.as_bytes())
            .with(unit.as_bytes());
        Ok(Self { resource, scope, name, description, unit, shape, aggregation, is_monotonic, points, identity })
    }

    /// How its samples relate to time; nothing when it does not say.
    fn temporality(&self) -> Option<Temporality> {
        match (self.shape, self.aggregation) {
            (Shape::Gauge, _) => Some(Temporality::Gauge),
            (Shape::Summary, _) => Some(Temporality::Cumulative),
            (_, 1) => Some(Temporality::Delta),
            // A sum that may fall is a state.
            (Shape::Sum, 2) if !self.is_monotonic => Some(Temporality::Gauge),
            (_, 2) => Some(Temporality::Cumulative),
            _ => None,
        }
    }

    fn stored_name(&self, options: &Options) -> String {
        let growth = match self.shape {
            Shape::Sum if self.is_monotonic => Growth::Counter,
            Shape::Gauge => Growth::Gauge,
            _ => Growth::Other,
        };
        options.translation.metric(self.name, self.unit, growth)
    }

    /// What is known of it.
    fn metadata(&self, options: &Options) -> Metadata {
        let kind = match self.shape {
            Shape::Sum if self.is_monotonic => MetricKind::Counter,
            Shape::Gauge | Shape::Sum => MetricKind::Gauge,
            Shape::Explicit | Shape::Exponential => MetricKind::Histogram,
            Shape::Summary => MetricKind::Summary,
        };
        let (help, unit) = (self.description.to_owned(), self.unit.to_owned());
        Metadata { metric: self.stored_name(options), kind, help, unit }
    }
}
