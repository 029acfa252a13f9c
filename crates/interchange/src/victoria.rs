//! VictoriaMetrics' `/api/v1/export`: a line of JSON for each series, or for a part of one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::BufRead;

use ogive_model::{Kind, SeriesDef, Value, float};
use ogive_protocol::remote_write::meta_of_name;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Visitor};
use twox_hash::XxHash3_128;

use crate::{Batches, Error, lines};

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    metric: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    values: Vec<Number>,
    timestamps: Vec<i64>,
}

/// A number, `null` for none, or in quotes where JSON cannot represent it.
struct Number(f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Number;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a number, null, \"Infinity\" or \"-Infinity\"")
            }
            fn visit_f64<E>(self, value: f64) -> Result<Number, E> {
                Ok(Number(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }
            fn visit_unit<E>(self) -> Result<Number, E> {
                Ok(Number(f64::NAN))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Number, E> {
                let value = match text {
                    "Infinity" | "Inf" => Some(f64::INFINITY),
                    "-Infinity" => Some(f64::NEG_INFINITY),
                    _ => float::from_word(text),
                };
                value.map(Number).ok_or_else(|| E::custom(format!("{text:?} is not a number")))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// Reads a file.
///
/// # Errors
/// Those of the file, and [`Error::Stopped`].
pub fn read(input: &mut dyn BufRead, out: &mut Batches<'_>) -> Result<(), Error> {
    lines::each(input, lines::LINE_BYTES_MAX, out, |number, line, out| {
        if line.trim().is_empty() {
            return Ok(());
        }
        let parsed = serde_json::from_str::<Line<'_>>(line).and_then(|parsed| {
            let (values, times) = (parsed.values.len(), parsed.timestamps.len());
            let unequal = || serde_json::Error::custom(format!("{values} values and {times} timestamps"));
            if values == times { Ok(parsed) } else { Err(unequal()) }
        });
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(error) => {
                out.bad(number, "line_malformed", &error.to_string());
                return Ok(());
            }
        };
        let key = parsed.metric.iter().fold(0_u128, |key, (name, value)| {
            let key = XxHash3_128::oneshot_with_seed(key as u64, name.as_bytes()) ^ key.rotate_left(1);
            XxHash3_128::oneshot_with_seed(key as u64, value.as_bytes()) ^ key.rotate_left(1)
        });
        let name = parsed.metric.get("__name__").map_or("", |name| name);
        for (value, time_ms) in parsed.values.iter().zip(&parsed.timestamps) {
            let Some(time_ns) = time_ms.checked_mul(1_000_000) else {
                out.bad(number, "time_invalid", "a time is beyond what can be stored");
                continue;
            };
            let define =
                || SeriesDef::new(&parsed.metric, meta_of_name(Kind::Float, name)).map_err(|error| error.to_string());
            out.sample(number, key, define, None, time_ns, Value::Float(value.0))?;
        }
        Ok(())
    })
}
