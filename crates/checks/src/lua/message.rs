//! Messages between the server and a script's process, over the process's standard input and output.
//!
//! Format: a part is its length as four bytes, little-endian, and that many bytes. A job has two parts, its description
//! as JSON and the script; the reply has one, [`ScriptOutcome`] as JSON. Numbers are sent as their bits, because JSON
//! has neither infinity nor NaN.
//! Limits: [`PART_BYTES_MAX`], checked by both writer and reader before anything is allocated.

use std::collections::BTreeMap;
use std::io::{self, Read};

use ogive_model::Value;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::run::Failure;

/// 16 MiB: what a script may report, a MiB, at six bytes for each in JSON, with room for what stands between.
pub(super) const PART_BYTES_MAX: usize = 16 << 20;

/// A script to run, which follows in a part of its own.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    /// Of the script, for what its errors say.
    pub(super) name: String,
    pub(super) target: String,
    pub(super) arguments: BTreeMap<String, String>,
    pub(super) memory_bytes: usize,
    pub(super) time_ms: u64,
}

/// How a script ended.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ScriptOutcome {
    pub(super) figures: Vec<Figure>,
    pub(super) failure: Option<Failure>,
}

/// A number or a text that a script measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Figure {
    pub(super) metric: String,
    pub(super) unit: String,
    pub(super) labels: Vec<(String, String)>,
    #[serde(serialize_with = "put_value", deserialize_with = "get_value")]
    pub(super) value: Value,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stored {
    Bits(u64),
    Text(String),
}

fn put_value<S: Serializer>(value: &Value, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Value::Float(number) => Stored::Bits(number.to_bits()).serialize(to),
        Value::Text(words) => Stored::Text(words.clone()).serialize(to),
        Value::Histogram(_) | Value::FloatHistogram(_) => Err(serde::ser::Error::custom("scripts make no histograms")),
    }
}

fn get_value<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    Ok(match Stored::deserialize(from)? {
        Stored::Bits(bits) => Value::Float(f64::from_bits(bits)),
        Stored::Text(words) => Value::Text(words),
    })
}

/// Appends a part.
///
/// # Errors
/// When it has more than [`PART_BYTES_MAX`] bytes; nothing is appended then.
pub(super) fn put_part(out: &mut Vec<u8>, part: &[u8]) -> io::Result<()> {
    if part.len() > PART_BYTES_MAX {
        return Err(too_long(part.len()));
    }
    out.extend_from_slice(&(part.len() as u32).to_le_bytes());
    out.extend_from_slice(part);
    Ok(())
}

/// The length of the part that begins with `header`.
///
/// # Errors
/// When it is above [`PART_BYTES_MAX`].
pub(super) fn part_length(header: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(header) as usize;
    if length > PART_BYTES_MAX { Err(too_long(length)) } else { Ok(length) }
}

/// Reads a part.
///
/// # Errors
/// As reading, with `UnexpectedEof` at the end, and when the part is too long.
pub(super) fn read_part(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut header = [0; 4];
    input.read_exact(&mut header)?;
    let mut part = vec![0; part_length(header)?];
    input.read_exact(&mut part)?;
    Ok(part)
}

fn too_long(length: usize) -> io::Error {
    io::Error::other(format!("a part of {length} bytes, above the limit of {PART_BYTES_MAX}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::run::Reason;

    proptest! {
        #[test]
        fn figures_come_back_bit_for_bit(bits: u64, words: String, name: String) {
            let figure = |value| Figure { metric: name.clone(), unit: "s".into(), labels: vec![(name.clone(), words.clone())], value };
            let failure = Some(Failure::new(Reason::Content, words.clone()));
            let done = ScriptOutcome { figures: vec![figure(Value::Float(f64::from_bits(bits))), figure(Value::Text(words.clone()))], failure };
            let mut out = Vec::new();
            put_part(&mut out, &serde_json::to_vec(&done).unwrap()).unwrap();
            let back: ScriptOutcome = serde_json::from_slice(&read_part(&mut &out[..]).unwrap()).unwrap();
            let Value::Float(found) = back.figures[0].value else { panic!("a number") };
            prop_assert_eq!(found.to_bits(), bits);
            prop_assert_eq!(&back.figures[1], &done.figures[1]);
            prop_assert_eq!(back.failure, done.failure);
        }
    }

    #[test]
    fn a_part_is_as_long_as_may_be_and_no_longer() {
        let mut out = Vec::new();
        put_part(&mut out, &vec![b' '; PART_BYTES_MAX]).unwrap();
        assert_eq!(read_part(&mut &out[..]).unwrap().len(), PART_BYTES_MAX);
        assert!(put_part(&mut Vec::new(), &vec![b' '; PART_BYTES_MAX + 1]).is_err());
        assert!(part_length((PART_BYTES_MAX as u32 + 1).to_le_bytes()).is_err());
        assert!(read_part(&mut &out[..100]).is_err());
    }
}
