//! Who changed the configuration, when, and what differs: a text in the series [`METRIC`], through the spool like all
//! data.
//!
//! Format: the first line shows what made the broker read it, whose the file is and when it was written; each further
//! line is a key that is new (`+`), gone (`-`) or has another value (`~`).
//! Invariants: a difference is reported once: what was reported last is kept beside the spool. No secret is in either:
//! the broker's own are in files, and what may be one in a check stands without its value ([`SECRET_KEYS`]).

use std::path::Path;

use anyhow::Context;
use ogive_export::Measured;
use ogive_journal::{Disk, Error as DiskError, RealDisk};
use ogive_model::{BatchId, Kind, METRIC_NAME, SeriesDef, SeriesMeta, Temporality, Tenant, Value};

use super::config::Config;
use super::shared::Broker;
use crate::cli::files::FILES;
use ogive_door::Door;
use ogive_door::differences::{differences, shown};

/// The metric of the texts.
const METRIC: &str = "ogive_config_change";

/// Records how `config`, of the file at `path`, differs from the last one recorded. A spool that accepts nothing now
/// records it at the next start or reload: a full disk does not stop a broker from delivering what it holds. `by`: what
/// made the broker read it.
pub(super) fn tell(door: &Door, broker: &Broker, path: &Path, by: &str, config: &Config) {
    if let Err(error) = changed(door, broker, path, by, config) {
        tracing::warn!("the change of the configuration is recorded later: {error:#}");
    }
}

fn changed(door: &Door, broker: &Broker, path: &Path, by: &str, config: &Config) -> anyhow::Result<()> {
    let last = config.spool.directory.join("config.last");
    let before = match RealDisk.read(&last) {
        Ok(bytes) => read(&String::from_utf8_lossy(&bytes)),
        Err(DiskError::NotFound { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let now = shown(&config.flat);
    let Some(differences) = differences(&before, &now) else { return Ok(()) };
    let text = format!("{by}; {}\n{differences}", (FILES.owner)(path));
    let time = broker.context.wall().to_ns();
    let file = path.display().to_string();
    let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let labels = [(METRIC_NAME, METRIC), ("broker", &config.name), ("file", &file)];
    let series = SeriesDef::new(labels, meta).context("the file's name is no label")?;
    let BatchId { source, sequence } = door.numbers.next();
    let value = Measured { series, time, value: Value::Text(text) };
    let batch = Measured::batch(source, sequence, Tenant::default(), vec![value]);
    let way = door.meters.ingest.begin_made();
    let (sender, receiver) = std::sync::mpsc::channel();
    let reply = Box::new(move |outcome| drop(sender.send(outcome)));
    door.backend.submit(batch, None, way.steps(), reply)?;
    receiver.recv().context("the spool ended")??;
    let lines: String = now.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    Ok(RealDisk.replace(&last, lines.as_bytes())?)
}

fn read(text: &str) -> Vec<(String, String)> {
    text.lines().filter_map(|line| line.split_once(" = ")).map(|(key, value)| (key.into(), value.into())).collect()
}

#[cfg(test)]
mod tests {
    use ogive_door::differences::TEXT_BYTES_MAX;

    use super::*;

    /// A broker.toml with checks in it: their passwords were reported as series to every destination, and stood beside
    /// the spool.
    #[test]
    fn secrets_of_checks_are_not_told() {
        let text = "name = 'edge'\nfluent-shared-key = 'hunter2'\n[spool]\ndirectory = '/x'\n[[check]]\nname = 'a.b'\nkind = 'redis'\npassword = 'hunter2'\n\
            password_file = '/p'\n[[check]]\nname = 'c'\nkind = 'http'\nbody = 'hunter2'\nheaders = {x = 'hunter2'}\n\
            [[check]]\nname = 'd'\nkind = 'lua'\narguments = {token = 'hunter2'}\n[[check]]\nname = 'e'\n\
            access_key_id = 'hunter2'\nsecret_access_key = 'hunter2'\n";
        let reported = differences(&[], &shown(&ogive_text::mistake::flat(text))).unwrap();
        assert!(!reported.contains("hunter2"), "{reported}");
        for line in
            ["+ check.a.b.password = (not shown)", "+ check.a.b.password_file = \"/p\"", "+ spool.directory = \"/x\""]
        {
            assert!(reported.contains(line), "{reported}");
        }
        assert_eq!(reported.matches("(not shown)").count(), 7, "{reported}");
    }

    #[test]
    fn what_differs_is_told_by_key() {
        let pairs = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
        };
        let before = pairs(&[("a", "1"), ("b", "\"x = y\""), ("c", "3")]);
        let after = pairs(&[("a", "2"), ("b", "\"x = y\""), ("d", "4")]);
        assert_eq!(differences(&before, &after).unwrap(), "~ a = 1 -> 2\n- c = 3\n+ d = 4");
        assert_eq!(differences(&before, &before), None);
        let written: String = before.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        assert_eq!(read(&written), before);
        let many: Vec<(String, String)> = (0..20_000).map(|at| (format!("key{at}"), "value".into())).collect();
        let text = differences(&[], &many).unwrap();
        assert!(text.len() < TEXT_BYTES_MAX + 100 && text.contains("more"));
    }
}
