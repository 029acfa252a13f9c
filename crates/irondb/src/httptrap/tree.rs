//! The JSON of a body, metric by metric, without a tree in memory.

use std::borrow::Cow;
use std::fmt;

use ogive_protocol::lines::Fault;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::metric::{DEPTH_MAX, Metric, Scalar};

/// Called with the name of each metric; false ends decoding.
type Sink<'s> = dyn FnMut(&str, Metric<'_>) -> bool + 's;

/// Reads every document of `body`.
///
/// # Errors
/// A sentence with the position, for text that is not JSON or is nested too deeply, and when `sink` ends decoding.
pub(super) fn read(body: &[u8], sink: &mut Sink<'_>) -> Result<(), String> {
    let mut documents = serde_json::Deserializer::from_slice(body);
    let mut path = String::new();
    let mut number = 0;
    while documents.end().is_err() {
        number += 1;
        let node = Node { path: &mut path, depth: 0, sink };
        node.deserialize(&mut documents).map_err(|error| format!("JSON document {number}: {error}"))?;
    }
    if number == 0 { Err("the body is empty; send a JSON object of metrics".into()) } else { Ok(()) }
}

/// A value anywhere in a document.
struct Node<'n, 's> {
    /// The keys that lead to it; restored after it has been read.
    path: &'n mut String,
    depth: usize,
    sink: &'n mut Sink<'s>,
}

impl Node<'_, '_> {
    /// The value below `key`.
    fn below<A: serde::de::Error>(
        &mut self,
        key: &str,
        next: impl FnOnce(Node<'_, '_>) -> Result<(), A>,
    ) -> Result<(), A> {
        if self.depth == DEPTH_MAX {
            return Err(A::custom(format_args!("objects and lists are nested deeper than {DEPTH_MAX}")));
        }
        let before = self.path.len();
        if before > 0 {
            self.path.push('`');
        }
        self.path.push_str(key);
        next(Node { path: self.path, depth: self.depth + 1, sink: self.sink })?;
        self.path.truncate(before);
        Ok(())
    }

    fn emit<A: serde::de::Error>(self, metric: Metric<'_>) -> Result<(), A> {
        if (self.sink)(self.path, metric) { Ok(()) } else { Err(A::custom("the body is too large")) }
    }

    fn scalar<A: serde::de::Error>(self, value: Scalar<'_>) -> Result<(), A> {
        self.emit(Metric { values: vec![value], ..Metric::default() })
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // A document is an object: a value without a key has no name.
        if self.depth == 0 { deserializer.deserialize_map(self) } else { deserializer.deserialize_any(self) }
    }
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of metrics")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let (mut metric, mut is_metric) = (Metric::default(), false);
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "_type" if self.depth > 0 => {
                    // What is no text names no type: the metric is refused, its neighbours are not.
                    let kind = word(&mut map)?.unwrap_or_default();
                    (metric.kind, is_metric) = (Some(kind), true);
                }
                "_ts" if self.depth > 0 => metric.time_ms = map.next_value::<Time>()?.0,
                "_fl" if self.depth > 0 => metric.flags = word(&mut map)?.unwrap_or_default(),
                "_value" if self.depth > 0 => {
                    map.next_value_seed(Values { into: &mut metric.values, depth: self.depth })?;
                    is_metric = true;
                }
                key => self.below(key, |node| map.next_value_seed(node))?,
            }
        }
        if is_metric { self.emit(metric) } else { Ok(()) }
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        for index in 0_usize.. {
            let mut is_there = false;
            self.below(&index.to_string(), |node| {
                is_there = list.next_element_seed(node)?.is_some();
                Ok(())
            })?;
            if !is_there {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.scalar(Scalar::Number(f64::from(u8::from(value))))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.scalar(Scalar::Number(value as f64))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.scalar(Scalar::Number(value as f64))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.scalar(Scalar::Number(value))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        self.scalar(Scalar::Text(Cow::Borrowed(value)))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.scalar(Scalar::Null)
    }
}

/// A text, borrowed from the body where nothing in it is escaped.
#[derive(Default)]
struct Text<'a>(Cow<'a, str>);

impl<'de> serde::Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = Text<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Words)
    }
}

/// A value that should be a text; None for any other.
fn word<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<Cow<'de, str>>, A::Error> {
    let mut values = Vec::new();
    map.next_value_seed(Values { into: &mut values, depth: DEPTH_MAX })?;
    Ok(match values.pop() {
        Some(Scalar::Text(text)) if values.is_empty() => Some(text),
        _ => None,
    })
}

/// `_ts`: milliseconds, as a number or in a text. Null is no time, and so is 0, which go-trapmetrics sends for gauges
/// and texts whose caller gave none.
struct Time(Option<Result<i64, Fault>>);

impl<'de> serde::Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut values = Vec::new();
        Values { into: &mut values, depth: DEPTH_MAX }.deserialize(deserializer)?;
        Ok(Self(match &values[..] {
            [] | [Scalar::Null] | [Scalar::Number(0.0)] => None,
            [Scalar::Text(text)] if text == "0" => None,
            [Scalar::Number(ms)] if (0.0..9.0e15).contains(ms) => Some(Ok(*ms as i64)),
            [Scalar::Text(text)] => Some(text.parse().ok().filter(|ms| *ms >= 0).ok_or(Fault::Time)),
            _ => Some(Err(Fault::Time)),
        }))
    }
}

/// The contents of `_value`: a value, or a list of them. An object in it is not a value.
struct Values<'v, 'de> {
    into: &'v mut Vec<Scalar<'de>>,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Values<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Values<'_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number, a string, null, or a list of these")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        // Neither a number nor a text of any form: the metric is refused, its neighbours are not.
        self.into.push(Scalar::Number(f64::NAN));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if self.depth >= DEPTH_MAX {
            return Err(A::Error::custom(format_args!("objects and lists are nested deeper than {DEPTH_MAX}")));
        }
        while list.next_element_seed(Values { into: self.into, depth: self.depth + 1 })?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.into.push(Scalar::Number(f64::from(u8::from(value))));
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.into.push(Scalar::Number(value as f64));
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.into.push(Scalar::Number(value as f64));
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.into.push(Scalar::Number(value));
        Ok(())
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<(), E> {
        self.into.push(Scalar::Text(Cow::Borrowed(value)));
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.into.push(Scalar::Text(Cow::Owned(value.to_owned())));
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.into.push(Scalar::Null);
        Ok(())
    }
}
