//! Figures of central management, of a server that has brokers under it and of a broker that has a server above it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::own_value::OwnValue;

/// Their metrics and help texts.
pub const HELP: [(&str, &str); 15] = [
    ("ogive_fleet_brokers", "Enrolled brokers, by state: in_sync, drift, refusing, away, unseen, revoked."),
    ("ogive_fleet_polls_total", "Polls of brokers that were answered."),
    ("ogive_fleet_denied_total", "Enrolments and polls that were refused, by reason."),
    ("ogive_fleet_damaged_files", "Files of the fleet that could not be read at the start."),
    (
        "ogive_fleet_spread_checks",
        "Checks that only some brokers of a group run, by state: running, or waiting for a broker.",
    ),
    ("ogive_fleet_moves_total", "Spread checks that went from one broker to another."),
    (
        "ogive_fleet_connections",
        "Connections through brokers and watches (of a broker: connections through it) that are open or being opened.",
    ),
    (
        "ogive_fleet_connections_refused_total",
        "Connections through brokers and watches of brokers that did not come about, by reason.",
    ),
    ("ogive_fleet_watches", "People who watch what comes to this broker."),
    ("ogive_fleet_spread_checks_run", "Spread checks of its group that this broker runs."),
    (
        "ogive_fleet_leases_lost_total",
        "Times that this broker stopped its spread checks because the server was silent.",
    ),
    ("ogive_fleet_link_up", "1 while the server answers this broker's polls."),
    ("ogive_fleet_version", "Version of the group's configuration that this broker runs; 0 for none."),
    ("ogive_fleet_refused_total", "Versions that this broker did not apply, by reason."),
    ("ogive_fleet_refusing", "1 while the newest version of the group's configuration is refused by this broker."),
];

/// Gauges and counters by name and label; empty where there is no fleet.
#[derive(Debug, Default)]
pub struct Figures(Mutex<BTreeMap<Key, f64>>);

/// A metric and its label: name and value, both empty for none.
type Key = (&'static str, &'static str, &'static str);

impl Figures {
    /// Sets a gauge.
    pub fn set(&self, name: &'static str, label: (&'static str, &'static str), value: f64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((name, label.0, label.1), value);
    }

    /// Counts one.
    pub fn count(&self, name: &'static str, label: (&'static str, &'static str)) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry((name, label.0, label.1)).or_default() += 1.0;
    }

    /// All of them.
    pub fn values(&self) -> Vec<OwnValue> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = |((name, label, of), value): (&Key, &f64)| {
            let labels = [(*label, *of)];
            let labels = if label.is_empty() { &labels[..0] } else { &labels[..] };
            match name.ends_with("_total") {
                true => OwnValue::counter(name, labels, *value),
                false => OwnValue::gauge(name, labels, "", *value),
            }
        };
        all.iter().map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_there_once_something_happened() {
        let figures = Figures::default();
        assert!(figures.values().is_empty());
        figures.count("ogive_fleet_denied_total", ("reason", "used"));
        figures.count("ogive_fleet_denied_total", ("reason", "used"));
        figures.set("ogive_fleet_version", ("", ""), 3.0);
        let values = figures.values();
        assert_eq!(values[0], OwnValue::counter("ogive_fleet_denied_total", &[("reason", "used")], 2.0));
        assert_eq!(values[1], OwnValue::gauge("ogive_fleet_version", &[], "", 3.0));
    }
}
