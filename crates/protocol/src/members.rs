//! The members of a JSON object, in order.
//!
//! Limits: [`MEMBERS_MAX`]; nesting as deep as `serde_json` allows (128).

use std::fmt;

use serde::de::{Deserializer as _, Error as _, MapAccess, Visitor};
use serde_json::Value;

use crate::lines::Fault;

/// 1,024 members of one event: Filebeat's events have 20, those of metrics some hundreds.
pub(crate) const MEMBERS_MAX: usize = 1_024;

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, Value)>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(16);
        while let Some(member) = map.next_entry()? {
            if members.len() >= MEMBERS_MAX {
                return Err(A::Error::custom("too many members"));
            }
            members.push(member);
        }
        Ok(members)
    }
}

/// Reads one object and nothing behind it.
///
/// # Errors
/// [`Fault::NotUtf8`] and [`Fault::Fields`].
pub(crate) fn members(json: &[u8]) -> Result<Vec<(String, Value)>, Fault> {
    let text = std::str::from_utf8(json).map_err(|_| Fault::NotUtf8)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let members = deserializer.deserialize_map(Members).map_err(|_| Fault::Fields)?;
    deserializer.end().map_err(|_| Fault::Fields)?;
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_up_to_so_many_members() {
        let of = |count: usize| {
            let members: Vec<String> = (0..count).map(|at| format!("\"m{at}\":{at}")).collect();
            format!("{{{}}}", members.join(","))
        };
        assert_eq!(members(of(MEMBERS_MAX).as_bytes()).map(|found| found.len()), Ok(MEMBERS_MAX));
        assert_eq!(members(of(MEMBERS_MAX + 1).as_bytes()), Err(Fault::Fields));
        for wrong in ["", "[]", "1", "{", "{} {}", "{\"a\":}", &"{\"a\":".repeat(10_000)] {
            assert_eq!(members(wrong.as_bytes()), Err(Fault::Fields), "{wrong}");
        }
        assert_eq!(members(b"{\"\xff\":1}"), Err(Fault::NotUtf8));
    }
}
