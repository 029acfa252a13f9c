//! Who did what to the server, as texts in the series [`METRIC`] and [`CONFIG_METRIC`] of the tenant `default`, like
//! all data.
//!
//! Format: the first line is who asked: a user or token, a client's certificate, an address, or for a file what made
//! the server read it (a signal, a request, its change), its owner and when it was written; each further line is what
//! was asked or what differs. The label `action` names it.
//! Invariants: nothing secret is in it; an entry that the store does not take now is tried again for `TRIES` seconds,
//! then counted as lost, and it has been on standard error from the beginning.
//! Limits: `WAITING_MAX` entries wait; `TEXT_BYTES_MAX` of one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ogive_export::Measured;
use ogive_model::{BatchId, Kind, METRIC_NAME, SeriesDef, SeriesMeta, Temporality, Tenant, Value, WallNs};
use tokio::sync::oneshot;

use crate::Door;

/// Requests to the server.
pub const METRIC: &str = "ogive_audit";
/// Changes of a configuration.
pub const CONFIG_METRIC: &str = "ogive_config_change";
/// 256 entries wait: an administrator's script, not a flood.
const WAITING_MAX: usize = 256;
/// 5 minutes, with one second in between: a store that is busy for longer is not tried again.
const TRIES: u32 = 300;
/// 64 KiB of one entry; the rest is counted.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// An entry of the audit.
#[derive(Clone, Debug)]
pub struct Entry {
    metric: &'static str,
    labels: Vec<(&'static str, String)>,
    text: String,
}

impl Entry {
    /// `who` requested `action`.
    pub fn from_request(action: &str, who: &str, what: &str) -> Self {
        Self { metric: METRIC, labels: vec![("action", action.to_owned())], text: format!("{who}\n{what}") }
    }

    /// The file at `path` became another configuration. `by`: what caused the reload; `owner`: whose file it is.
    pub fn config(path: &Path, owner: &str, action: &str, by: &str, what: &str) -> Self {
        let labels = vec![("action", action.to_owned()), ("file", path.display().to_string())];
        Self { metric: CONFIG_METRIC, labels, text: format!("{by}; {owner}\n{what}") }
    }

    /// A command did `action` to the data while no server was running; the first line of `text` says who ran it.
    pub fn offline(action: &str, text: &str) -> Self {
        Self { metric: METRIC, labels: vec![("action", action.to_owned())], text: text.to_owned() }
    }

    /// The server began with these options.
    pub fn started(what: &str) -> Self {
        let labels = vec![("action", "start".to_owned()), ("file", "command line".to_owned())];
        Self { metric: CONFIG_METRIC, labels, text: format!("version {}\n{what}", env!("CARGO_PKG_VERSION")) }
    }

    fn series(&self) -> Option<SeriesDef> {
        let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        let labels = self.labels.iter().map(|(name, value)| (*name, value.as_str()));
        SeriesDef::new(labels.chain([(METRIC_NAME, self.metric)]), meta).ok()
    }

    fn bounded_text(&self) -> String {
        if self.text.len() <= TEXT_BYTES_MAX {
            return self.text.clone();
        }
        let end = self.text.floor_char_boundary(TEXT_BYTES_MAX);
        format!("{}\nand {} bytes more", &self.text[..end], self.text.len() - end)
    }
}

/// Stores an entry, in the background. Called within the runtime.
pub fn note(door: &Arc<Door>, entry: Entry) {
    let line: Vec<&str> = entry.text.lines().take(3).collect();
    let action = entry.labels.first().map_or("", |(_, action)| action);
    tracing::info!("audit: {action}: {}", line.join("; "));
    let pending = &door.counters.audit;
    // ORDERING: Relaxed; a bound that a few may pass at once.
    if pending.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
        pending.waiting.fetch_sub(1, Ordering::Relaxed);
        pending.lost.add(1);
        return;
    }
    let time = WallNs(door.clock.wall());
    let door = door.clone();
    tokio::spawn(async move {
        let mut is_stored = false;
        for _ in 0..TRIES {
            is_stored = stored(&door, &entry, time, door.numbers.next()).await;
            if is_stored || *door.ending.borrow() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        if !is_stored {
            door.counters.audit.lost.add(1);
        }
        // ORDERING: Relaxed; see above.
        door.counters.audit.waiting.fetch_sub(1, Ordering::Relaxed);
    });
}

/// Stores an entry of `time` under a number of its own, so that the same entry may be stored again; false when the
/// store did not accept it in time, or the server is stopping.
pub async fn store(door: &Door, entry: &Entry, time: WallNs, number: BatchId) -> bool {
    for _ in 0..TRIES {
        if stored(door, entry, time, number).await {
            return true;
        }
        if *door.ending.borrow() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    false
}

async fn stored(door: &Door, entry: &Entry, time: WallNs, number: BatchId) -> bool {
    let BatchId { source, sequence } = number;
    let Some(series) = entry.series() else { return false };
    let value = Measured { series, time, value: Value::Text(entry.bounded_text()) };
    let batch = Measured::batch(source, sequence, Tenant::default(), vec![value]);
    let way = door.meters.ingest.begin_made();
    let (sender, receiver) = oneshot::channel();
    let submitted = door.backend.submit(batch, None, way.steps(), Box::new(move |outcome| drop(sender.send(outcome))));
    submitted.is_ok() && matches!(receiver.await, Ok(Ok(verdict)) if verdict.rejected.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_its_bound() {
        let of = |bytes: usize| Entry::from_request("a", "b", &"ä".repeat(bytes / 2));
        let small = of(100).bounded_text();
        assert!(small.starts_with("b\nä") && !small.contains("more"));
        let large = of(TEXT_BYTES_MAX * 2).bounded_text();
        assert!(large.len() <= TEXT_BYTES_MAX + 30 && large.ends_with("bytes more"), "{}", large.len());
        assert_eq!(of(1).series().unwrap().labels.get("action"), "a");
    }
}
