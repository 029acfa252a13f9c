//! How many brokers of a group run a check.
//!
//! Limits: [`BROKERS_MAX`].

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// 16 brokers of one check: more are no witnesses of their own, but load on the target.
const BROKERS_MAX: u8 = 16;

/// The key `brokers` of a check in the configuration of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Brokers {
    /// Every broker of the group.
    #[default]
    All,
    /// As many of those that are there.
    Some(u8),
}

impl<'a> Deserialize<'a> for Brokers {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(WordOrNumber)
    }
}

/// Reads a word or a number. An untagged enum would not say what was wrong.
struct WordOrNumber;

impl Visitor<'_> for WordOrNumber {
    type Value = Brokers;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "\"all\", or a number from 1 to {BROKERS_MAX}")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Brokers, E> {
        match text {
            "all" => Ok(Brokers::All),
            "one" => Ok(Brokers::Some(1)),
            other => Err(E::invalid_value(Unexpected::Str(other), &self)),
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Brokers, E> {
        let count = u8::try_from(number).ok().filter(|count| (1..=BROKERS_MAX).contains(count));
        count.map(Brokers::Some).ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Brokers, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }
}
