//! A series of an exposition: identified by the bytes that name it, with labels decoded on demand.

use std::borrow::Cow;

use ogive_model::METRIC_NAME;
use ogive_model::float::open_metrics;
use twox_hash::XxHash3_128;

use super::line::Cursor;
use super::number::canonical;
use crate::protobuf::Fields;

/// Names and values of labels, the metric's name among them as `__name__`.
pub type Labels<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// One series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series<'a> {
    key: u128,
    named: Named<'a>,
    /// Behind the name, when one entry of the exposition makes several series.
    suffix: &'static str,
    /// A label beside those that are written.
    extra: Option<(&'static str, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Named<'a> {
    /// As it lies in a text, and a label whose value is a bound.
    Text { raw: &'a str, bound: Option<&'static str> },
    /// A family's name, and a metric's message with the labels in it.
    Message { name: &'a str, metric: &'a [u8] },
}

impl<'a> Series<'a> {
    /// A series that a text names by `raw`, which was read before; its label `bound` is a number.
    pub(super) fn from_text(raw: &'a str, bound: Option<&'static str>) -> Self {
        let key = XxHash3_128::oneshot(raw.as_bytes());
        Self { key, named: Named::Text { raw, bound }, suffix: "", extra: None }
    }

    /// A series of the metric in `metric`, whose labels are messages and were read before.
    pub(super) fn from_message(name: &'a str, metric: &'a [u8]) -> Self {
        let mut key = XxHash3_128::oneshot_with_seed(1, name.as_bytes());
        for label in message_labels(metric) {
            key = XxHash3_128::oneshot_with_seed(key as u64, label) ^ key.rotate_left(1);
        }
        Self { key, named: Named::Message { name, metric }, suffix: "", extra: None }
    }

    /// The series beside this one with `suffix` behind its name and the label `extra`.
    pub(super) fn part(&self, suffix: &'static str, extra: Option<(&'static str, f64)>) -> Self {
        let bits = extra.map_or(0, |(_, value)| value.to_bits());
        let more = XxHash3_128::oneshot_with_seed(bits, suffix.as_bytes());
        Self { key: self.key.rotate_left(7) ^ more, suffix, extra, ..self.clone() }
    }

    /// Tells series of one form of exposition apart: equal series that are written alike have equal keys.
    #[must_use]
    pub fn key(&self) -> u128 {
        self.key
    }

    /// The labels. Bounds (`le`, `quantile`) are written as OpenMetrics writes them.
    #[must_use]
    pub fn labels(&self) -> Labels<'a> {
        let mut out = Labels::new();
        match self.named {
            Named::Text { raw, bound } => {
                let read = Cursor::tolerant(raw).series(|name, value| {
                    let value = value.text();
                    let value = if bound.is_some_and(|bound| bound == name) { canonical(value) } else { value };
                    out.push((name, value));
                    Ok(())
                });
                read.expect("it was read before");
            }
            Named::Message { name, metric } => {
                out.push((METRIC_NAME.into(), name.into()));
                out.extend(message_labels(metric).filter_map(pair).map(|(name, value)| (name.into(), value.into())));
            }
        }
        if !self.suffix.is_empty()
            && let Some((_, name)) = out.iter_mut().find(|(label, _)| label == METRIC_NAME)
        {
            name.to_mut().push_str(self.suffix);
        }
        out.extend(self.extra.map(|(name, value)| (name.into(), open_metrics(value).into())));
        out
    }
}

/// The messages of a metric's labels.
pub(super) fn message_labels(metric: &[u8]) -> impl Iterator<Item = &[u8]> {
    Fields::new(metric)
        .map_while(Result::ok)
        .filter_map(|(number, value)| if number == 1 { value.bytes("a label is not a message").ok() } else { None })
}

/// Name and value of a label's message; none when it is broken.
pub(super) fn pair(label: &[u8]) -> Option<(&str, &str)> {
    let (mut name, mut value) = ("", "");
    for field in Fields::new(label) {
        match field.ok()? {
            (1, text) => name = text.text("a label's name is not text").ok()?,
            (2, text) => value = text.text("a label's value is not text").ok()?,
            _ => {}
        }
    }
    Some((name, value))
}
