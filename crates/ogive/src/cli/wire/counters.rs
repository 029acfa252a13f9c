//! Counts of what is no exchange with an answer, by why or of what kind it is.

use std::collections::HashMap;

use ogive_wire::Endpoint;

use super::export::Export;
use super::names;
use super::series::Count;

/// The key of a counter: name, service, protocol, reason or kind.
type Key = (&'static str, Endpoint, &'static str, &'static str);

/// The counters that are sent.
#[derive(Debug, Default)]
pub(super) struct Counters(HashMap<Key, Count>);

impl Counters {
    /// Adds one under `name`; `label` names the label for `value`. Without an export nothing is kept.
    pub(super) fn add(
        &mut self,
        export: Option<&Export>,
        name: &'static str,
        service: Endpoint,
        protocol: &'static str,
        label: &str,
        value: &'static str,
    ) {
        if export.is_none() {
            return;
        }
        let new = || {
            let labels = [("service", &*names::service(service)), ("protocol", protocol), (label, value)];
            Count::new(export, name, &labels)
        };
        self.0.entry((name, service, protocol, value)).or_insert_with(new).add(1);
    }
}
