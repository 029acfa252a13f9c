//! Documents of BSON as values of JSON, which JSON paths and everything else here read.
//!
//! Format: dates and timestamps become seconds since 1970, numbers of 128 bits the nearest of 64, bytes a text of
//! base64, object ids one of hexadecimal digits; NaN, infinity and types that no answer has are null.
//! Limits: [`DEPTH_MAX`], [`VALUES_MAX`].
//! Failure: a document that is damaged anywhere is refused as a whole.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bson::error::Error;
use bson::{RawArray, RawBsonRef, RawDocument};
use serde_json::{Map, Number, Value};

use crate::run::{Failure, Reason};

/// 120 levels: documents of a collection have 100, an answer some around them, and the reader of JSON takes 127.
const DEPTH_MAX: usize = 120;
/// 200,000 values, some 100 bytes of memory each: `serverStatus` has about 3,000, and 4 MiB could be a million.
const VALUES_MAX: usize = 200_000;

/// The value of a document.
///
/// # Errors
/// The bytes are no document, or one beyond a limit.
pub(crate) fn value(bytes: &[u8]) -> Result<Value, Failure> {
    let document = RawDocument::from_bytes(bytes).map_err(|error| malformed(&error))?;
    Reader { count: 0 }.object(document, 1)
}

/// Counts what was read.
struct Reader {
    count: usize,
}

impl Reader {
    fn object(&mut self, document: &RawDocument, depth: usize) -> Result<Value, Failure> {
        let mut out = Map::new();
        for element in document.iter() {
            let (name, value) = element.map_err(|error| malformed(&error))?;
            out.insert(name.as_str().to_owned(), self.value(value, depth)?);
        }
        Ok(Value::Object(out))
    }

    fn list(&mut self, list: &RawArray, depth: usize) -> Result<Value, Failure> {
        let mut out = Vec::new();
        for element in list {
            out.push(self.value(element.map_err(|error| malformed(&error))?, depth)?);
        }
        Ok(Value::Array(out))
    }

    /// The value of what stands at `depth` levels.
    fn value(&mut self, value: RawBsonRef<'_>, depth: usize) -> Result<Value, Failure> {
        self.count += 1;
        if self.count > VALUES_MAX || depth > DEPTH_MAX {
            let sentence = format!("the answer has more than {VALUES_MAX} values or {DEPTH_MAX} levels");
            return Err(Failure::new(Reason::Limit, sentence));
        }
        Ok(match value {
            RawBsonRef::Document(document) => self.object(document, depth + 1)?,
            RawBsonRef::Array(list) => self.list(list, depth + 1)?,
            RawBsonRef::Double(number) => finite(number),
            RawBsonRef::Int32(number) => number.into(),
            RawBsonRef::Int64(number) => number.into(),
            RawBsonRef::Decimal128(number) => number.to_string().parse::<f64>().map_or(Value::Null, finite),
            RawBsonRef::Boolean(is_it) => is_it.into(),
            RawBsonRef::String(text) | RawBsonRef::Symbol(text) => text.into(),
            RawBsonRef::DateTime(time) => finite(time.timestamp_millis() as f64 / 1e3),
            RawBsonRef::Timestamp(time) => time.time.into(),
            RawBsonRef::ObjectId(id) => id.to_hex().into(),
            RawBsonRef::Binary(binary) => BASE64_STANDARD.encode(binary.bytes).into(),
            _ => Value::Null,
        })
    }
}

/// A number, where it is one in JSON.
fn finite(number: f64) -> Value {
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

fn malformed(error: &Error) -> Failure {
    Failure::new(Reason::Protocol, format!("what the server says is no document: {error}"))
}

#[cfg(test)]
mod tests {
    use bson::spec::BinarySubtype;
    use bson::{Binary, DateTime, RawArrayBuf, RawDocumentBuf, Timestamp, oid::ObjectId, rawdoc};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_those_of_json() {
        let document = rawdoc! {
            "a": {"b": [1_i32, 2_i64, 2.5, f64::NAN, true, null, "x"]},
            "date": DateTime::from_millis(1_700_000_000_500),
            "stamp": Timestamp { time: 7, increment: 1 },
            "decimal": "12.50".parse::<bson::Decimal128>().unwrap(),
            "id": ObjectId::from_bytes([7; 12]),
            "bytes": Binary { subtype: BinarySubtype::Generic, bytes: vec![1, 2] },
        };
        let expected = json!({
            "a": {"b": [1, 2, 2.5, null, true, null, "x"]},
            "date": 1_700_000_000.5,
            "stamp": 7,
            "decimal": 12.5,
            "id": "070707070707070707070707",
            "bytes": "AQI=",
        });
        assert_eq!(value(document.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn limits_hold() {
        // The innermost of them stands at a level less.
        let nested = |levels: usize| (1..levels).fold(RawDocumentBuf::new(), |inner, _| rawdoc! {"a": inner});
        // What is read here can be written and read as JSON.
        let text = value(nested(DEPTH_MAX + 1).as_bytes()).unwrap().to_string();
        assert!(serde_json::from_str::<Value>(&text).is_ok());
        assert_eq!(value(nested(DEPTH_MAX + 2).as_bytes()).unwrap_err().reason, Reason::Limit);
        let many = |count: usize| rawdoc! {"a": (0..count).map(|_| true).collect::<RawArrayBuf>()};
        // One is the list.
        assert!(value(many(VALUES_MAX - 1).as_bytes()).is_ok());
        assert_eq!(value(many(VALUES_MAX).as_bytes()).unwrap_err().reason, Reason::Limit);
    }

    #[test]
    fn every_cut_and_every_other_byte_is_a_value_or_a_sentence() {
        let whole = rawdoc! {"a": {"b": [1_i32, "x"]}, "c": 2.5, "d": Timestamp { time: 7, increment: 1 }}.into_bytes();
        for end in 0..whole.len() {
            assert_eq!(value(&whole[..end]).unwrap_err().reason, Reason::Protocol, "{end}");
        }
        for at in 0..whole.len() {
            for byte in 0..=255 {
                let mut changed = whole.clone();
                changed[at] = byte;
                let _ = value(&changed);
            }
        }
    }

    proptest! {
        #[test]
        fn anything_may_come(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            // Such that it is looked into.
            let length = u32::try_from(bytes.len() + 5).unwrap().to_le_bytes();
            let _ = (value(&bytes), value(&[&length[..], &bytes, &[0]].concat()));
        }
    }
}
