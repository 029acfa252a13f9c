//! What commands did to the data directories while no server ran: stored as the audit of this server when it starts.
//!
//! Failure: a file that cannot be read is an entry itself, and does not keep the server from starting; an entry that is
//! not stored stays in the file for the next start.

use std::sync::Arc;

use ogive_door::Door;
use ogive_door::audit::{self, Entry};
use ogive_journal::MirrorDisk;
use ogive_model::{BatchId, WallNs};
use ogive_store::offline_audit::{OfflineAudit, OfflineEntry};
use tokio::runtime::Handle;

/// An entry as its lines are stored.
pub(crate) fn lines(OfflineEntry { text, status, .. }: &OfflineEntry) -> String {
    format!("{text}\n{status}")
}

/// Stores all entries in the background, and removes the file behind the last one.
pub(crate) fn deliver(runtime: &Handle, door: &Arc<Door>, mirror: &MirrorDisk) {
    let _within = runtime.enter();
    let pending = match OfflineAudit::read(mirror, mirror.root()) {
        Ok(None) => return,
        Ok(Some(pending)) => pending,
        Err(error) => {
            let what = format!("what commands did while no server ran is not known: {error}");
            audit::note(door, Entry::from_request("offline", "commands without a server", &what));
            return remove(mirror);
        }
    };
    let (door, mirror) = (Arc::clone(door), mirror.clone());
    tokio::spawn(async move {
        let now = WallNs(door.clock.wall());
        for (number, entry) in (1..).zip(&pending.entries) {
            let noted = Entry::offline(&entry.action, &lines(entry));
            // A command may have read a clock ahead of this one; the store refuses times far in the future.
            let id = BatchId { source: pending.source, sequence: number };
            if !audit::store(&door, &noted, entry.time.min(now), id).await {
                tracing::warn!("the audit of commands without a server is stored by the next start");
                return;
            }
        }
        if pending.dropped > 0 {
            let what = format!("{} commands more were not noted", pending.dropped);
            audit::note(&door, Entry::from_request("offline", "commands without a server", &what));
        }
        let removed = tokio::task::spawn_blocking(move || remove(&mirror));
        removed.await.unwrap_or_else(|error| tracing::warn!("audit: {error}"));
    });
}

fn remove(mirror: &MirrorDisk) {
    if let Err(error) = OfflineAudit::remove(mirror, mirror.root()) {
        tracing::warn!("the audit of commands without a server is stored again by the next start: {error}");
    }
}
