//! Writes pending batches to a majority of a cluster, group by group.
//!
//! Invariants: a group is done when a majority has each of its index segments, then each of its rows, then the
//! manifests that name the rows; failed writes are retried without limit, and nothing of the group is released before.
//! Limits: [`WRITES`] statements at once, each with its timeout; [`BACK_OFF_MAX`] between two attempts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ogive_model::{SeriesId, SourceId};
use ogive_probe::Clock;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::cluster::{Cluster, Reach};
use crate::fragment::Fragment;
use crate::index::{self, Known};
use crate::manifest::{self, Listed};
use crate::pending::Group;
use crate::schema::{day, minute};
use crate::site::Site;
use crate::spool::Spooling;
use crate::{Error, Piece};

/// 64 rows are on their way at once: what keeps three small nodes busy.
const WRITES: usize = 64;
/// From 100 ms on, twice as long each time.
const BACK_OFF_MIN: Duration = Duration::from_millis(100);
/// 5 s: a cluster that comes back is found soon, and one that is overloaded gets room.
const BACK_OFF_MAX: Duration = Duration::from_secs(5);
/// How often it is looked whether much has gathered before its time.
const LOOK: Duration = Duration::from_millis(200);
/// 32 MiB are a group, however short they have waited.
const GROUP_BYTES_FULL: u64 = 32 << 20;

/// 5 s: what is shorter is a node that was busy.
const OUTAGE: Duration = Duration::from_secs(5);

/// What drives.
#[derive(Clone)]
pub(crate) struct Driver {
    pub(crate) writer: u128,
    pub(crate) site: Arc<Site>,
    pub(crate) spooling: Arc<Spooling>,
    pub(crate) clock: Clock,
}

/// A time in which writes failed: when it began, and what was written before.
struct Outage {
    from_ns: u64,
    rows: u64,
    row_bytes: u64,
}

impl Driver {
    /// Connects, and drives until `ending` is true and what is pending then is driven or the runtime goes.
    pub(crate) async fn run(self, mut ending: watch::Receiver<bool>) {
        self.connect().await;
        let mut outage = None;
        loop {
            let is_last = self.gather(&mut ending).await;
            let group = self.site.pending.group();
            if group.end > self.site.done_end() {
                outage = self.drive_or_note(group, outage).await;
            } else if is_last {
                return;
            }
        }
    }

    /// Drives a group; what is known of an outage that is not over.
    async fn drive_or_note(&self, group: Group, outage: Option<Outage>) -> Option<Outage> {
        let figures = &self.site.figures;
        let before = Outage { from_ns: self.clock.now(), rows: figures.rows.get(), row_bytes: figures.row_bytes.get() };
        let retried = figures.retried.get();
        self.drive(group).await;
        let outage = outage.or((figures.retried.get() > retried).then_some(before))?;
        if self.spooling.unseen_at(&self.site) > 0 {
            return Some(outage);
        }
        let took = Duration::from_nanos(self.clock.now().saturating_sub(outage.from_ns));
        if took < OUTAGE {
            return None;
        }
        tracing::info!(
            "{} has everything again: {} rows of {} bytes, {} s after writes began to fail",
            self.site.name(),
            figures.rows.get() - outage.rows,
            figures.row_bytes.get() - outage.row_bytes,
            took.as_secs(),
        );
        None
    }

    async fn connect(&self) {
        let mut wait = BACK_OFF_MIN;
        while self.site.cluster.get().is_none() {
            match Cluster::connect(&self.site.address).await {
                Ok(cluster) => drop(self.site.cluster.set(cluster)),
                Err(error) => {
                    tracing::warn!("{error}; batches wait in the spool, and it is tried again");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(BACK_OFF_MAX);
                }
            }
        }
    }

    /// Waits until a group is worth it; whether it is the last one.
    async fn gather(&self, ending: &mut watch::Receiver<bool>) -> bool {
        let due = tokio::time::sleep(self.site.address.collect);
        tokio::pin!(due);
        loop {
            tokio::select! {
                () = &mut due => return false,
                _ = ending.wait_for(|ending| *ending) => return true,

                () = tokio::time::sleep(LOOK) => {
                    let pending = &self.site.pending;
                    if pending.bytes() >= GROUP_BYTES_FULL || pending.is_full() {
                        return false;
                    }
                }
            }
        }
    }

    async fn drive(&self, group: Group) {
        let Group { end, series } = group;
        self.write_index(&series).await;
        let (permits, mut tasks) = (Arc::new(Semaphore::new(WRITES)), JoinSet::new());
        let mut written = Vec::new();
        for (known, pieces) in series {
            for rows in grouped(pieces).into_values() {
                let rows = self.encoded(known.id, &rows);
                for (row, pieces) in rows {
                    written.push((row.key, row.digest));
                    let permit = Arc::clone(&permits).acquire_owned().await.expect("it is never closed");
                    let driver = self.clone();
                    tasks.spawn(async move {
                        driver.write_row(&row).await;
                        driver.site.figures.rows.add(1);
                        driver.site.figures.row_bytes.add(row.body.len() as u64);
                        driver.site.figures.pieces.add(pieces);
                        drop(permit);
                    });
                    while tasks.try_join_next().is_some() {}
                }
            }
        }
        while let Some(done) = tasks.join_next().await {
            done.expect("writing a row does not panic");
        }
        self.write_manifests(written).await;
        self.site.done(end);
        self.spooling.moved();
    }

    /// Rows with how many pieces each holds.
    fn encoded(&self, id: SeriesId, pieces: &[Arc<Piece>]) -> Vec<(Fragment, u64)> {
        let rows = Fragment::rows(id, pieces).expect("memory is compressed into memory");
        let count = |row: &Fragment| u64::from(u16::from_le_bytes([row.body[2], row.body[3]]));
        rows.into_iter().map(|row| (count(&row), row)).map(|(count, row)| (row, count)).collect()
    }

    /// Makes what is new in the label index durable.
    async fn write_index(&self, series: &[crate::pending::Held]) {
        let mut new: BTreeMap<i32, Vec<Arc<Known>>> = BTreeMap::new();
        for (known, pieces) in series {
            let mut days: Vec<i32> = pieces.iter().map(|piece| day(piece.minute)).collect();
            days.sort_unstable();
            days.dedup();
            for day in days.into_iter().filter(|day| !self.site.index.holds(*day, known)) {
                new.entry(day).or_default().push(Arc::clone(known));
            }
        }
        for (day, all) in new {
            for segment in index::segments(day, &all).expect("labels that were taken are encoded") {
                let place = (segment.day, segment.shard, self.writer);
                self.again(|_| self.cluster().put_segment(place, segment.digest, &segment.body)).await;
                self.site.figures.segments.add(1);
            }
            self.site.index.learn(day, all);
        }
    }

    /// Makes durable which rows were written.
    async fn write_manifests(&self, written: Vec<Listed>) {
        let place = (minute(self.clock.wall().div_euclid(1_000_000)), self.writer);
        for one in manifest::manifests(place, written).expect("memory is compressed into memory") {
            self.again(|_| self.cluster().put_manifest(place, one.digest, &one.body)).await;
        }
        self.site.audited.written(place.0);
    }

    async fn write_row(&self, row: &Fragment) {
        self.again(async |attempt| {
            let written = self.cluster().put_cells(row, Reach::Majority).await;
            // While no majority answers, readers see it by one copy.
            if written.is_err() && attempt == 0 && self.cluster().put_cells(row, Reach::One).await.is_ok() {
                self.site.figures.visible.add(1);
            }
            written
        })
        .await;
    }

    fn cluster(&self) -> &Cluster {
        self.site.cluster.get().expect("it is connected before it drives")
    }

    /// Until it succeeds.
    async fn again<F: Future<Output = Result<(), Error>>>(&self, mut write: impl FnMut(u32) -> F) {
        let mut wait = BACK_OFF_MIN;
        for attempt in 0_u32.. {
            match write(attempt).await {
                Ok(()) => return,
                Err(error) => {
                    self.site.figures.retried.add(1);
                    tracing::debug!("{error}; it is tried again");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(BACK_OFF_MAX);
                }
            }
        }
    }
}

/// The pieces of a series by minute and source, ascending by number.
fn grouped(pieces: Vec<Arc<Piece>>) -> BTreeMap<(i32, SourceId), Vec<Arc<Piece>>> {
    let mut groups: BTreeMap<(i32, SourceId), Vec<Arc<Piece>>> = BTreeMap::new();
    for piece in pieces {
        groups.entry((piece.minute, piece.source)).or_default().push(piece);
    }
    for group in groups.values_mut() {
        group.sort_by_key(|piece| piece.identity());
        group.dedup_by(|one, other| one == other);
    }
    groups
}
