//! StatsD and DogStatsD: lines of measurements, and DogStatsD's events and service checks.
//!
//! Format: `name:value|type[|@rate][|#tag:value,..][|c:container][|T<seconds>]`, with several values as `name:1:2:3|d`;
//! documented at github.com/statsd/statsd (docs/metric_types.md) and docs.datadoghq.com/extend/dogstatsd/datagram_shell
//! (versions 1.0 to 1.4). docs/protocols.md describes what each part becomes.
//! Invariants: a line is decoded in place; one that breaks a rule is one [`Fault`], and its neighbours are accepted. A
//! bad value among good ones of a packed line is a fault of its own.
//! Limits: [`LINE_BYTES_MAX`](crate::lines::LINE_BYTES_MAX), [`WEIGHT_MAX`].

mod feed;
mod special;

use ogive_stream::{Key, Shape};

use crate::lines::{self, Fault, Names};

pub use feed::{SAMPLED, Tally, feed};
pub use special::{Check, Event};

/// A sampled value stands for at most a million.
pub const WEIGHT_MAX: f64 = 1e6;

/// How lines are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What becomes of names.
    pub names: Names,
    /// Values may be separated by commas, as hot-shots does.
    pub comma_lists: bool,
    /// `-5|g` sets a gauge to -5, as DogStatsD has it; else it lowers the gauge by 5, as StatsD has it.
    pub signed_gauges: bool,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `c`.
    Counter,
    /// `g`.
    Gauge,
    /// `s`.
    Set,
    /// `ms`, in milliseconds.
    Timer,
    /// `h` and `d`, in whatever unit the sender measures.
    Distribution,
}

impl Kind {
    fn parse(text: &str) -> Result<Self, Fault> {
        Ok(match text {
            "c" => Self::Counter,
            "g" => Self::Gauge,
            "s" => Self::Set,
            "ms" => Self::Timer,
            "h" | "d" => Self::Distribution,
            _ => return Err(Fault::Type),
        })
    }

    /// What its measurements become.
    #[must_use]
    pub fn shape(self) -> Shape {
        match self {
            Self::Counter => Shape::Count,
            Self::Gauge => Shape::Gauge,
            Self::Set => Shape::Distinct,
            Self::Timer | Self::Distribution => Shape::Histogram,
        }
    }

    /// The unit of its series.
    #[must_use]
    pub fn unit(self) -> &'static str {
        if self == Self::Timer { "s" } else { "" }
    }
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Line<'a> {
    /// Measurements.
    Metric(Metric<'a>),
    /// `_e{..}`.
    Event(Event<'a>),
    /// `_sc|..`.
    Check(Check<'a>),
}

/// Measurements of one series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric<'a> {
    /// As the sender has it.
    pub name: &'a str,
    /// Its type.
    pub kind: Kind,
    /// The values as they lie.
    pub values: &'a str,
    /// How many measurements each stands for: 1 unless the sender sampled.
    pub weight: f64,
    /// Its tags.
    pub tags: Tags<'a>,
    /// When it was measured, if the sender says.
    pub time_ns: Option<i64>,
}

/// The tags of a line: every section that begins with `#`, in the order given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tags<'a>(&'a str);

impl<'a> Tags<'a> {
    fn sections(self) -> impl Iterator<Item = &'a str> {
        self.0.split('|').filter_map(|section| section.strip_prefix('#'))
    }

    /// Name and value of each. A tag without a value is `true`.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let tags = self.sections().flat_map(|section| section.split(',')).filter(|tag| !tag.is_empty());
        tags.map(|tag| match tag.split_once(':') {
            Some((name, "")) => (name, "true"),
            Some(both) => both,
            None => (tag, "true"),
        })
    }
}

/// Reads one line.
///
/// # Errors
/// The rule that it breaks.
pub fn line(line: &[u8]) -> Result<Line<'_>, Fault> {
    let text = lines::text(line)?;
    if let Some(rest) = text.strip_prefix("_e{") {
        return Event::read(rest).map(Line::Event);
    }
    if let Some(rest) = text.strip_prefix("_sc|") {
        return Check::read(rest).map(Line::Check);
    }
    metric(text).map(Line::Metric)
}

fn metric(text: &str) -> Result<Metric<'_>, Fault> {
    let (name, rest) = text.split_once(':').ok_or(Fault::Fields)?;
    if name.is_empty() {
        return Err(Fault::Name);
    }
    let (values, rest) = rest.split_once('|').ok_or(Fault::Fields)?;
    let (kind, rest) = rest.split_once('|').unwrap_or((rest, ""));
    let mut metric = Metric { name, kind: Kind::parse(kind)?, values, weight: 1.0, tags: Tags(rest), time_ns: None };
    let sections = if rest.is_empty() { None } else { Some(rest.split('|')) };
    for section in sections.into_iter().flatten() {
        match section.as_bytes() {
            [b'@', ..] => metric.weight = weight(&section[1..])?,
            // A container, other origin data and cardinality: not of the series, see docs/protocols.md.
            [b'#', ..] | [b'c' | b'e', b':', ..] => {}
            [b'T', ..] => metric.time_ns = Some(lines::seconds_ns(&section[1..])?),
            _ if section.starts_with("card:") => {}
            _ => return Err(Fault::Fields),
        }
    }
    Ok(metric)
}

fn weight(rate: &str) -> Result<f64, Fault> {
    let rate = lines::number(rate, 0).map_err(|_| Fault::SampleRate)?;
    let weight = 1.0 / rate;
    if rate > 0.0 && rate <= 1.0 && weight <= WEIGHT_MAX { Ok(weight) } else { Err(Fault::SampleRate) }
}

impl<'a> Metric<'a> {
    /// The single values: the whole text for a set, whose members may hold anything.
    ///
    /// # Errors
    /// [`Fault::CommaList`] for a list with commas that `options` do not allow.
    pub fn split(&self, options: &Options) -> Result<impl Iterator<Item = &'a str> + use<'a>, Fault> {
        let separator = match self.kind {
            // No text has it: it is one value.
            Kind::Set => '\n',
            _ if !self.values.contains(',') => ':',
            _ if options.comma_lists => ',',
            _ => return Err(Fault::CommaList),
        };
        Ok(self.values.split(separator))
    }

    /// What names its series.
    #[must_use]
    pub fn key(&self) -> Key {
        let salt = self.kind as u64;
        self.tags.sections().fold(Key::new(salt, self.name.as_bytes()), |key, section| key.and(section.as_bytes()))
    }
}

#[cfg(test)]
mod tests;
