//! An alert as it is delivered.

use std::collections::BTreeMap;

use ogive_text::fnv::fnv1a;
use serde::{Deserialize, Serialize};

/// The label with the tenant of an alert.
pub const TENANT_LABEL: &str = "tenant";

/// See the module.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Notice {
    /// The tenant of its rule; empty for the default tenant. Another tenant is a label, too.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// Its identity, the labels of this server among them.
    pub labels: BTreeMap<String, String>,
    /// Texts for people.
    pub annotations: BTreeMap<String, String>,
    /// When it began to fire, milliseconds.
    pub starts_ms: i64,
    /// When it was resolved, or until when it is valid unless it is sent again, milliseconds.
    pub ends_ms: i64,
    /// It has ceased.
    pub is_resolved: bool,
    /// Where people see its expression.
    pub generator_url: String,
    /// The group of its rule, as a number: alerts of one group do not delay those of others.
    #[serde(default)]
    pub lane: u64,
    /// The stored state that contains it; it may be sent when that is on disk.
    #[serde(skip)]
    pub generation: u64,
}

impl Notice {
    /// 16 hexadecimal digits that are the same for the same labels.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        format!("{:016x}", self.hash())
    }

    /// FNV-1a of names and values with 0xff after each.
    pub(crate) fn hash(&self) -> u64 {
        let pairs = self.labels.iter();
        fnv1a(pairs.flat_map(|(name, value)| name.bytes().chain([0xff]).chain(value.bytes()).chain([0xff])))
    }

    /// Name of its alert.
    #[must_use]
    pub fn name(&self) -> &str {
        self.labels.get("alertname").map_or("alert", String::as_str)
    }
}

#[cfg(test)]
pub(crate) fn example(name: &str, is_resolved: bool) -> Notice {
    Notice {
        tenant: String::new(),
        labels: BTreeMap::from([("alertname".to_owned(), name.to_owned())]),
        annotations: BTreeMap::new(),
        starts_ms: 0,
        ends_ms: 1_000_000_000,
        is_resolved,
        generator_url: String::new(),
        lane: 0,
        generation: 1,
    }
}
