//! Bodies of the older ways to write: JSON of texts, numbers and histograms.
//!
//! Format: a list of objects (or one), each with `id` (a UUID), `metric`, `offset` (seconds since 1970) and what was
//! measured: `/write/text` `value`; `/write/numeric` and `/write/nnt` `value`, `count`, `stddev`, `derivative`,
//! `counter`, `derivative_stddev`, `counter_stddev`, and in `parts` the period and such objects of the parts, of which
//! the whole was made; `/histogram/write` `period` (seconds) and `histogram` (base64, or counts by the names of bins).
//! Invariants: of a rollup with parts the parts are taken, and the whole is made of them when it is read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use ogive_hist::Histogram;
use ogive_hist::openhistogram::bin_of_label;
use ogive_protocol::lines::Fault;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};

use crate::intake::{Intake, Refused};
use crate::record::{CheckId, Counting, Datum, Record, Tags};
use crate::tsv;

/// The form of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `/write/text`.
    Text,
    /// `/write/numeric` and `/write/nnt`.
    Numeric,
    /// `/histogram/write`.
    Histogram,
}

/// A number, or its text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number<'b> {
    Number(f64),
    Text(#[serde(borrow)] Cow<'b, str>),
}

impl Number<'_> {
    fn milliseconds(&self) -> Result<i64, Fault> {
        match self {
            Self::Number(seconds) if *seconds >= 0.0 && *seconds < 9e15 => Ok((seconds * 1_000.0).round() as i64),
            Self::Number(_) => Err(Fault::Time),
            Self::Text(text) => tsv::milliseconds(text),
        }
    }
}

/// Parts of a rollup: each field with the name of its series.
#[derive(Clone, Copy, Deserialize)]
#[serde(default)]
struct Rollup {
    count: Option<f64>,
    value: Option<f64>,
    stddev: Option<f64>,
    derivative: Option<f64>,
    derivative_stddev: Option<f64>,
    counter: Option<f64>,
    counter_stddev: Option<f64>,
}

impl Default for Rollup {
    fn default() -> Self {
        let none = None;
        Self {
            count: none,
            value: none,
            stddev: none,
            derivative: none,
            derivative_stddev: none,
            counter: none,
            counter_stddev: none,
        }
    }
}

/// Name of the part of a rollup with the number of measurements.
pub const COUNT: &str = "count";
/// Names of the other parts, in the order in which bodies are read.
pub const PARTS: [&str; 5] = ["stddev", "derivative", "derivative_stddev", "counter", "counter_stddev"];

/// The parts of a rollup that differ from those of a single measurement: a count other than 1, and non-zero values.
pub(crate) fn parts(count: f64, others: [f64; 5]) -> impl Iterator<Item = (&'static str, f64)> {
    let count = std::iter::once((COUNT, count)).filter(|(_, count)| *count != 1.0);
    count.chain(PARTS.into_iter().zip(others).filter(|(_, value)| *value != 0.0))
}

/// The identity and the time of a measurement.
struct Head<'i> {
    id: &'i str,
    metric: &'i str,
    offset: &'i Number<'i>,
    account_id: i64,
}

/// An object with the fields of a head and its own. Serde's flatten is not used: it holds every other field of an
/// object in memory, with 32 bytes for a number that is two bytes of JSON.
macro_rules! item {
    ($name:ident { $($(#[$attribute:meta])* $field:ident: $kind:ty,)* }) => {
        #[derive(Deserialize)]
        struct $name<'b> {
            #[serde(borrow)]
            id: Cow<'b, str>,
            #[serde(borrow)]
            metric: Cow<'b, str>,
            #[serde(borrow)]
            offset: Number<'b>,
            #[serde(default)]
            account_id: i64,
            $($(#[$attribute])* $field: $kind,)*
        }

        impl $name<'_> {
            fn head(&self) -> Head<'_> {
                Head { id: &self.id, metric: &self.metric, offset: &self.offset, account_id: self.account_id }
            }
        }
    };
}

item!(NumericItem {
    #[serde(flatten)]
    whole: Rollup,
    #[serde(default)]
    parts: Option<(f64, Option<Vec<Rollup>>)>,
});

item!(TextItem {
    #[serde(borrow)]
    value: Option<Cow<'b, str>>,
});

item!(HistogramItem {
    #[serde(default)]
    period: f64,
    #[serde(borrow)]
    histogram: Option<Bins<'b>>,
});

#[derive(Deserialize)]
#[serde(untagged)]
enum Bins<'b> {
    Coded(#[serde(borrow)] Cow<'b, str>),
    Counts(#[serde(borrow)] BTreeMap<Cow<'b, str>, u64>),
}

/// Decodes `body` into `intake`.
///
/// # Errors
/// [`Refused`]; then nothing of the body is accepted.
pub fn read(form: Form, body: &[u8], intake: &mut Intake) -> Result<(), Refused> {
    let mut items = Items { form, intake, refused: None };
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = json.deserialize_any(&mut items).and_then(|()| json.end());
    match (items.refused, read) {
        (Some(refused), _) => Err(refused),
        (None, Err(error)) => Err(Refused::Malformed(format!("the body is not a JSON list of measurements: {error}"))),
        (None, Ok(())) => Ok(()),
    }
}

struct Items<'i> {
    form: Form,
    intake: &'i mut Intake,
    refused: Option<Refused>,
}

impl<'de> Visitor<'de> for &mut Items<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(&mut *self)?.is_some() {}
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &mut Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        let taken = match self.form {
            Form::Text => text(&TextItem::deserialize(json)?, self.intake),
            Form::Numeric => numeric(&NumericItem::deserialize(json)?, self.intake),
            Form::Histogram => histogram(&HistogramItem::deserialize(json)?, self.intake),
        };
        taken.map_err(|refused| {
            self.refused = Some(refused);
            serde::de::Error::custom("the body is too large")
        })
    }
}

impl<'i> Head<'i> {
    fn record(&self, time_ms: i64, value: Datum<'i>) -> Record<'i> {
        let (check, name) = (CheckId::Text(self.id), Cow::Borrowed(self.metric));
        Record { account: self.account_id, check, name, tags: Tags::InName, time_ms, value, part: None }
    }

    /// Adds a measurement, or counts its error: an error in the time first.
    fn take(&self, value: Result<Datum<'i>, Fault>, intake: &mut Intake) -> Result<(), Refused> {
        match self.offset.milliseconds().and_then(|time_ms| Ok((time_ms, value?))) {
            Ok((time_ms, value)) => intake.take(&self.record(time_ms, value)),
            Err(fault) => {
                intake.fault(fault, self.metric);
                Ok(())
            }
        }
    }
}

fn text(item: &TextItem<'_>, intake: &mut Intake) -> Result<(), Refused> {
    let value = item.value.as_ref().map_or(Datum::Nothing, |text| Datum::Text(Cow::Borrowed(text)));
    item.head().take(Ok(value), intake)
}

fn histogram(item: &HistogramItem<'_>, intake: &mut Intake) -> Result<(), Refused> {
    let value = item.histogram.as_ref().map_or(Ok(Datum::Nothing), |bins| {
        let period_ms = (item.period.clamp(0.0, 1e9) * 1_000.0) as i64;
        Ok(Datum::Histogram(Box::new(bins_of(bins)?), Counting::During(period_ms)))
    });
    item.head().take(value, intake)
}

fn bins_of(bins: &Bins<'_>) -> Result<Histogram<u64>, Fault> {
    let counts = match bins {
        Bins::Coded(text) => return tsv::histogram(text),
        Bins::Counts(counts) => counts,
    };
    let mut all = Histogram::log_linear();
    for (label, count) in counts {
        let bin = bin_of_label(label).map_err(|_| Fault::Value)?;
        if !bin.is_valid() || all.total().checked_add(*count).is_none() {
            return Err(Fault::Value);
        }
        all.record_bin(bin, *count);
    }
    Ok(all)
}

fn numeric(item: &NumericItem<'_>, intake: &mut Intake) -> Result<(), Refused> {
    let head = item.head();
    let offset = match item.offset.milliseconds() {
        Ok(offset) => offset,
        Err(fault) => {
            intake.fault(fault, head.metric);
            return Ok(());
        }
    };
    match &item.parts {
        Some((period, Some(parts))) if *period > 0.0 && !parts.is_empty() => {
            for (number, part) in parts.iter().enumerate() {
                let time_ms = offset.saturating_add((number as f64 * period * 1_000.0) as i64);
                rollup(&head, time_ms, part, intake)?;
            }
            Ok(())
        }
        _ => rollup(&head, offset, &item.whole, intake),
    }
}

fn rollup(head: &Head<'_>, time_ms: i64, rollup: &Rollup, intake: &mut Intake) -> Result<(), Refused> {
    let count = rollup.count.unwrap_or(1.0);
    let value = match rollup.value {
        Some(value) if count > 0.0 => Datum::Number(value),
        _ => Datum::NoNumber,
    };
    intake.take(&head.record(time_ms, value))?;
    let others = [rollup.stddev, rollup.derivative, rollup.derivative_stddev, rollup.counter, rollup.counter_stddev];
    for (part, value) in parts(count, others.map(|value| value.unwrap_or(0.0))) {
        intake.take(&Record { part: Some(part), ..head.record(time_ms, Datum::Number(value)) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
