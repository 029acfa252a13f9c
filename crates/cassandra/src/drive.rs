//! Writes pending batches to a majority of a cluster, group by group.
//!
//! Invariants: a group is done when a majority has each of its index segments, then each of its rows, then the
//! manifests that name the rows; failed writes are retried without limit, and nothing of the group is released before.
//! Limits: [`WRITES`] statements at once, each with its timeout; [`BACK_OFF_MAX`] between two attempts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ogive_model::{MonoNs, SourceId};
use ogive_probe::Clock;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::cluster::{Cluster, Reach, Written};
use crate::fragment::Fragment;
use crate::index::{self, CatalogSeries};
use crate::keys::ManifestKey;
use crate::manifest::{self, Listed};
use crate::pending::Group;
use crate::schema::{Table, day, minute};
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

/// 30 s without asking all copies, after one did not take a row.
const SHORT: Duration = Duration::from_secs(30);

/// Rows of a group by their table, with how many pieces each holds.
type Rows = Vec<(Fragment, Written, u64)>;

/// What drives.
#[derive(Clone)]
pub(crate) struct Driver {
    pub(crate) writer: u128,
    pub(crate) site: Arc<Site>,
    pub(crate) spooling: Arc<Spooling>,
    pub(crate) clock: Clock,
    /// Whether there is no other cluster, so that every copy of this one has to have a row before the spool lets go of
    /// it.
    pub(crate) is_alone: bool,
    /// When a copy did not take a row; 0 is never.
    pub(crate) short_ns: Arc<AtomicU64>,
}

/// A time in which writes failed: when it began, and what was written before.
struct Outage {
    from: MonoNs,
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
        let before =
            Outage { from: MonoNs(self.clock.now()), rows: figures.rows.get(), row_bytes: figures.row_bytes.get() };
        let retried = figures.retried.get();
        self.drive(group).await;
        let outage = outage.or((figures.retried.get() > retried).then_some(before))?;
        if self.spooling.unseen_at(&self.site) > 0 {
            return Some(outage);
        }
        let took = MonoNs(self.clock.now()).since(outage.from).to_duration();
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
            match Cluster::connect_by(&self.site.address, self.clock).await {
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
        // Rows are cut where something was deleted: what came before it goes with it, and what came later stays.
        self.again(|_| self.site.refresh(self.cluster(), self.clock)).await;
        self.write_index(&series).await;
        let begun = self.clock.now();
        let (permits, mut tasks) = (Arc::new(Semaphore::new(WRITES)), JoinSet::new());
        let mut written: BTreeMap<Table, Vec<Listed>> = BTreeMap::new();
        for (known, pieces) in series {
            let rows = self.rows(&known, pieces);
            if Table::from_series(&known.def) == Table::Numbers {
                self.site.rolling.written(&known, rows.iter().map(|(row, ..)| row.key.minute));
            }
            for (row, how, pieces) in rows {
                written.entry(how.table).or_default().push((row.key, row.digest));
                let permit = Arc::clone(&permits).acquire_owned().await.expect("it is never closed");
                let driver = self.clone();
                tasks.spawn(async move {
                    driver.write_row(&row, &how).await;
                    driver.site.figures.rows.add(1);
                    driver.site.figures.row_bytes.add(row.body.len() as u64);
                    driver.site.figures.pieces.add(pieces);
                    drop(permit);
                });
                while tasks.try_join_next().is_some() {}
            }
        }
        while let Some(done) = tasks.join_next().await {
            done.expect("writing a row does not panic");
        }
        let minute = self.write_manifests(written).await;
        // ORDERING: Relaxed; the tasks that wrote it were joined.
        let short = self.short_ns.load(Ordering::Relaxed);
        let is_short = short != 0 && (short >= begun || begun - short < SHORT.as_nanos() as u64);
        if self.is_alone && is_short && !self.site.address.audit.is_zero() {
            self.site.doubt(minute, self.site.done_end());
        }
        self.site.done(end);
        self.spooling.moved();
    }

    /// The rows of some pieces; none of what has had its time.
    fn rows(&self, known: &CatalogSeries, pieces: Vec<Arc<Piece>>) -> Rows {
        let (table, cluster) = (Table::from_series(&known.def), self.cluster());
        let ahead_us = cluster.ahead_us();
        let arrived = |piece: &Piece| piece.arrived_us.saturating_add(ahead_us);
        let mut out = Vec::new();
        for pieces in grouped(pieces, |piece| self.site.deletions.before(arrived(piece))).into_values() {
            let Some(how) = cluster.written(table, pieces[0].minute, 0) else {
                self.site.figures.expired.add(pieces.len() as u64);
                continue;
            };
            let mut rest = &pieces[..];
            for row in Fragment::rows(known.id, &pieces).expect("memory is compressed into memory") {
                let count = usize::from(u16::from_le_bytes([row.body[2], row.body[3]]));
                let (its, behind) = rest.split_at(count);
                rest = behind;
                let at_us = its.iter().map(|piece| arrived(piece)).max().unwrap_or_default();
                out.push((row, Written { at_us, ..how }, count as u64));
            }
        }
        out
    }

    /// Makes what is new in the label index durable.
    async fn write_index(&self, series: &[crate::pending::PendingPieces]) {
        let mut new: BTreeMap<i32, Vec<Arc<CatalogSeries>>> = BTreeMap::new();
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
                self.again(|_| self.cluster().put_segment(segment.key, self.writer, segment.digest, &segment.body))
                    .await;
                self.site.figures.segments.add(1);
            }
            self.site.index.learn(day, all);
        }
    }

    /// Makes durable which rows were written, and when.
    async fn write_manifests(&self, written: BTreeMap<Table, Vec<Listed>>) -> i32 {
        let minute = minute(self.cluster().now());
        let key = ManifestKey { minute, writer: self.writer };
        for (table, rows) in written {
            for one in manifest::manifests(key, table, rows).expect("memory is compressed into memory") {
                self.again(|_| self.cluster().put_manifest(key, one.digest, &one.body)).await;
            }
        }
        self.site.audited.written(minute);
        minute
    }

    async fn write_row(&self, row: &Fragment, how: &Written) {
        let cluster = self.cluster();
        if self.is_alone && !self.is_short() {
            if cluster.put_cells(row, how, Reach::All).await.is_ok() {
                return;
            }
            // ORDERING: Relaxed; a time alone.
            self.short_ns.store(self.clock.now().max(1), Ordering::Relaxed);
        }
        self.again(async |attempt| {
            let written = cluster.put_cells(row, how, Reach::Majority).await;
            // While no majority answers, readers see it by one copy.
            if written.is_err() && attempt == 0 && cluster.put_cells(row, how, Reach::One).await.is_ok() {
                self.site.figures.visible.add(1);
            }
            written
        })
        .await;
    }

    /// Whether a copy did not take a row a short time ago.
    fn is_short(&self) -> bool {
        // ORDERING: Relaxed; see `write_row`.
        let short = self.short_ns.load(Ordering::Relaxed);
        short != 0 && self.clock.now().saturating_sub(short) < SHORT.as_nanos() as u64
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

/// The pieces of a series by minute, source and epoch, ascending by number.
fn grouped(
    pieces: Vec<Arc<Piece>>,
    epoch: impl Fn(&Piece) -> usize,
) -> BTreeMap<(i32, SourceId, usize), Vec<Arc<Piece>>> {
    let mut groups: BTreeMap<(i32, SourceId, usize), Vec<Arc<Piece>>> = BTreeMap::new();
    for piece in pieces {
        groups.entry((piece.minute, piece.source, epoch(&piece))).or_default().push(piece);
    }
    for group in groups.values_mut() {
        group.sort_by_key(|piece| piece.identity());
        group.dedup_by(|one, other| one == other);
    }
    groups
}
