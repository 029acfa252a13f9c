//! What is kept over restarts: the state of every group, and what is not delivered yet.
//!
//! Format: one JSON object behind a line with its CRC32C in hexadecimal (docs/alerts.md). Replaced whole.
//! Failure: a file whose checksum is wrong is not believed; alerts then begin anew, and the server says so.

use std::path::PathBuf;

use anyhow::{Context, bail};
use ogive_detect::rules::GroupState;
use ogive_journal::Disk;
use ogive_notify::{PersistedOutbox, Silences};
use serde::{Deserialize, Serialize};

/// Name of the file in the data directory.
const NAME: &str = "alerts.state";

/// Version of the format.
const VERSION: u32 = 2;
/// Earlier versions that are read.
const VERSION_OLDEST: u32 = 1;

/// The state of a group.
#[derive(Deserialize, Serialize)]
pub(super) struct StoredGroup {
    /// Empty for the default tenant.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) tenant: String,
    #[serde(flatten)]
    pub(super) state: GroupState,
}

/// See the module.
#[derive(Default, Deserialize, Serialize)]
pub(super) struct Snapshot {
    version: u32,
    pub(super) groups: Vec<StoredGroup>,
    /// By destination.
    pub(super) queues: Vec<(String, PersistedOutbox)>,
    #[serde(default)]
    pub(super) silences: Silences,
}

impl Snapshot {
    pub(super) fn new(groups: Vec<StoredGroup>, queues: Vec<(String, PersistedOutbox)>, silences: Silences) -> Self {
        Self { version: VERSION, groups, queues, silences }
    }

    /// The contents of the file.
    pub(super) fn encode(&self) -> anyhow::Result<Vec<u8>> {
        let text = serde_json::to_string(self)?;
        Ok(format!("{:08x}\n{text}\n", crc32c::crc32c(text.as_bytes())).into_bytes())
    }

    fn decode(bytes: &[u8]) -> anyhow::Result<Self> {
        let text = std::str::from_utf8(bytes).context("it is not UTF-8")?;
        let (sum, text) = text.split_once('\n').context("it has no checksum")?;
        let text = text.strip_suffix('\n').context("it has no end")?;
        let found = format!("{:08x}", crc32c::crc32c(text.as_bytes()));
        if sum != found {
            bail!("its checksum is {found} and not {sum}");
        }
        let snapshot: Self = serde_json::from_str(text)?;
        if !(VERSION_OLDEST..=VERSION).contains(&snapshot.version) {
            bail!("it is of version {}, and this server reads {VERSION}", snapshot.version);
        }
        Ok(snapshot)
    }
}

/// The location of the file.
pub(super) struct SnapshotPath<'d> {
    pub(super) disk: &'d dyn Disk,
    pub(super) directory: PathBuf,
}

impl SnapshotPath<'_> {
    /// The stored state; empty when there is no file.
    pub(super) fn read(&self) -> anyhow::Result<Snapshot> {
        let path = self.directory.join(NAME);
        match self.disk.read(&path) {
            Ok(bytes) => Snapshot::decode(&bytes).with_context(|| format!("{}", path.display())),
            Err(ogive_journal::Error::NotFound { .. }) => Ok(Snapshot::default()),
            Err(error) => Err(error.into()),
        }
    }

    /// Stores `bytes`; durable when it returns.
    pub(super) fn write(&self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.disk.replace(&self.directory.join(NAME), bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_version_1_kept_is_read() {
        let text = r#"{"version":1,"groups":[],"queues":[["http://a",[{"labels":{"alertname":"a"},"annotations":{},"starts_ms":1,"ends_ms":2,"is_resolved":false,"generator_url":""}]]]}"#;
        let bytes = format!("{:08x}\n{text}\n", crc32c::crc32c(text.as_bytes())).into_bytes();
        let kept = Snapshot::decode(&bytes).unwrap().queues.remove(0).1;
        assert_eq!(ogive_notify::Outbox::restored(kept, &ogive_notify::Grouping::default()).waiting(), 1);
    }

    #[test]
    fn what_is_cut_or_changed_is_not_believed() {
        let bytes =
            Snapshot::new(Vec::new(), vec![("http://a".into(), PersistedOutbox::default())], Silences::default())
                .encode()
                .unwrap();
        assert_eq!(Snapshot::decode(&bytes).unwrap().queues.len(), 1);
        for length in 0..bytes.len() {
            assert!(Snapshot::decode(&bytes[..length]).is_err(), "{length}");
        }
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(Snapshot::decode(&bad).is_err(), "{at}");
        }
    }
}
