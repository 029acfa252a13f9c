//! The audit: verifies that each replica holds each row that a manifest names, and rewrites rows that a replica lacks.
//!
//! Invariants: a row counts as lost only when every replica has answered and none holds it; replicas that could not be
//! asked are counted separately. A row is rewritten to every replica from one whose bytes have the right checksum; a
//! row that no replica has is rebuilt from the pieces that another cluster has, and its digest proves that it is the
//! same.
//! Limits: [`ROWS_MAX`] rows are compared at once, [`PARTITIONS`] partitions are read at once, each with its timeout.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use ogive_model::{SeriesId, SourceId};
use ogive_probe::Clock;

use crate::Error;
use crate::cluster::{CellKey, Cluster, Consistent, Copies, Reach};
use crate::deletions::Deletions;
use crate::figures::Figures;
use crate::fragment::{Fragment, Piece, RowKey};
use crate::index::Index;
use crate::keys::ManifestKey;
use crate::manifest::{self, Listed};
use crate::schema::{Table, bucket, day};
use crate::spans::BucketSpan;
use crate::stored;
use crate::waiting::all_of;

/// 262,144 rows of some 64 bytes: 16 MiB. More are compared one part after another.
pub(crate) const ROWS_MAX: usize = 1 << 18;
/// Bytes that one of them takes here.
pub(crate) const ROW_BYTES: u64 = 64;
/// 16 partitions at once, at three copies each: an audit is in no hurry.
const PARTITIONS: usize = 16;

/// What an audit found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Manifests that were read.
    pub manifests: u64,
    /// Manifests whose bytes are not what was written.
    pub manifests_corrupt: u64,
    /// Rows that the manifests name.
    pub rows: u64,
    /// Copies of these rows that were found.
    pub copies: u64,
    /// Copies of these rows that their node does not hold.
    pub copies_missing: u64,
    /// Copies whose node did not answer.
    pub copies_unknown: u64,
    /// Rows that no copy holds although all answered, and that no other cluster gave back.
    pub lost: u64,
    /// Rows that were written again, to every copy.
    pub refilled: u64,
}

impl Findings {
    /// Whether every copy is known to hold every row.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.manifests_corrupt == 0 && self.copies_missing == 0 && self.copies_unknown == 0 && self.lost == 0
    }

    fn add(&mut self, other: Self) {
        self.manifests += other.manifests;
        self.manifests_corrupt += other.manifests_corrupt;
        self.rows += other.rows;
        self.copies += other.copies;
        self.copies_missing += other.copies_missing;
        self.copies_unknown += other.copies_unknown;
        self.lost += other.lost;
        self.refilled += other.refilled;
    }
}

/// The key of a partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    table: Table,
    series: SeriesId,
    bucket: i32,
}

/// See the module.
pub struct Audit<'a> {
    /// Whose rows.
    pub cluster: &'a Cluster,
    /// Another one that gets the same samples.
    pub other: Option<&'a Cluster>,
    /// Whose manifests; those of every node without.
    pub writer: Option<u128>,
    /// Whether what a copy lacks is written again.
    pub refill: bool,
    /// Of the cluster: what was deleted is not lost.
    deletions: Deletions,
    /// Of its series, if something was deleted.
    index: Index,
}

impl<'a> Audit<'a> {
    /// Of a cluster, perhaps with another one that gets the same samples, and of one node's manifests or all.
    #[must_use]
    pub fn new(cluster: &'a Cluster, other: Option<&'a Cluster>, writer: Option<u128>, refill: bool) -> Self {
        Self { cluster, other, writer, refill, deletions: Deletions::default(), index: Index::default() }
    }

    /// Compares what was written in some minutes since 1970 with what each copy holds.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when no copy of a manifest answers.
    pub async fn minutes(&self, minutes: impl IntoIterator<Item = i32>) -> Result<Findings, Error> {
        self.deletions.learn_stored(self.cluster.deletions_as_are().await?)?;
        let (mut found, mut rows) = (Findings::default(), Vec::new());
        for minute in minutes {
            let (all, consistent) = self.cluster.manifests(minute).await?;
            found.copies_unknown += unanswered(consistent);
            for (writer, digest) in all {
                let Some(number) = stored::number(&writer) else { continue };
                if self.writer.is_some_and(|one| one != number) {
                    continue;
                }
                found.manifests += 1;
                let (bodies, _) = self.cluster.manifest(minute, &writer, digest).await?;
                // Of several copies' bodies one may be damaged.
                match bodies
                    .iter()
                    .find_map(|(body,)| manifest::decode(ManifestKey { minute, writer: number }, body).ok())
                {
                    Some((table, named)) => rows.extend(named.into_iter().map(|row| (table, row))),
                    None => found.manifests_corrupt += 1,
                }
                if rows.len() >= ROWS_MAX {
                    found.add(self.compare(std::mem::take(&mut rows)).await?);
                }
            }
        }
        found.add(self.compare(rows).await?);
        Ok(found)
    }

    async fn compare(&self, rows: Vec<(Table, Listed)>) -> Result<Findings, Error> {
        // Grouped anew after a crash, a row may be named twice.
        let mut partitions: BTreeMap<Place, BTreeSet<Listed>> = BTreeMap::new();
        for (table, row) in rows {
            let place = Place { table, series: row.0.series, bucket: bucket(row.0.minute) };
            partitions.entry(place).or_default().insert(row);
        }
        let partitions: Vec<(Place, BTreeSet<Listed>)> = partitions.into_iter().collect();
        let mut found = Findings::default();
        for some in partitions.chunks(PARTITIONS) {
            for one in all_of(some.iter().map(|(place, rows)| self.partition(place, rows)).collect()).await {
                found.add(one?);
            }
        }
        Ok(found)
    }

    /// Compares the rows of a partition that are to be there with its copies.
    async fn partition(&self, place: &Place, rows: &BTreeSet<Listed>) -> Result<Findings, Error> {
        let Place { table, series, bucket } = *place;
        let minutes = rows.iter().map(|(key, _)| key.minute);
        let (first, last) = (minutes.clone().min().unwrap_or(0), minutes.max().unwrap_or(0));
        let span = BucketSpan { bucket, first, last };
        let copies = self.cluster.keys_of_copies(table, series, span).await?;
        let copies: Vec<Option<HashSet<CellKey>>> =
            copies.into_iter().map(|copy| copy.map(|keys| keys.into_iter().collect())).collect();
        let unknown = copies.iter().filter(|copy| copy.is_none()).count() as u64;
        let mut found = Findings { rows: rows.len() as u64, ..Findings::default() };
        let mut elsewhere = Elsewhere::default();
        for row in rows {
            let key = cell_key(row);
            let held = copies.iter().flatten().filter(|copy| copy.contains(&key)).count() as u64;
            let missing = copies.len() as u64 - unknown - held;
            let is_gone = held == 0 && unknown == 0;
            if is_gone && self.is_rightly_gone(table, &row.0).await? {
                found.rows -= 1;
                continue;
            }
            found.copies += held;
            found.copies_unknown += unknown;
            found.copies_missing += missing;
            let is_refilled = self.refill
                && (held > 0 && missing > 0 && self.again(place, row).await
                    || is_gone && self.restored(place, row, &mut elsewhere).await);
            found.refilled += u64::from(is_refilled);
            found.lost += u64::from(is_gone && !is_refilled);
        }
        Ok(found)
    }

    /// Whether a row that nobody holds was deleted, or has had its time.
    async fn is_rightly_gone(&self, table: Table, key: &RowKey) -> Result<bool, Error> {
        if self.cluster.written(table, key.minute, 0).is_none() {
            return Ok(true);
        }
        if self.deletions.count() == 0 {
            return Ok(false);
        }
        let day = day(key.minute);
        self.index.refresh(self.cluster, &(day..=day), &Figures::default(), Clock::global()).await?;
        let known = self.index.known(key.series);
        Ok(known.is_some_and(|known| self.deletions.covers(&known, key.minute)))
    }

    /// Writes a row that no copy has, of what the other cluster has; whether all copies have it.
    async fn restored(&self, place: &Place, row: &Listed, elsewhere: &mut Elsewhere) -> bool {
        let Some(other) = self.other else { return false };
        let (key, digest) = row;
        let pieces = elsewhere.pieces(other, place, key.minute).await;
        let its: Vec<Arc<Piece>> = pieces.iter().filter(|piece| piece.source == key.source).map(Arc::clone).collect();
        match Fragment::rebuilt(*key, *digest, &its) {
            Some(row) => {
                let at_us = its.iter().map(|piece| piece.arrived_us).max().unwrap_or_default();
                self.put(place.table, &row, at_us).await
            }
            None => false,
        }
    }

    /// Writes a row to every copy from what one of them holds; whether all have it.
    async fn again(&self, place: &Place, row: &Listed) -> bool {
        let (key, digest) = row;
        let span = BucketSpan { bucket: place.bucket, first: key.minute, last: key.minute };
        let read = self.cluster.cells(place.table, place.series, span, Copies::All).await;
        let Ok((rows, _)) = read else { return false };
        let wanted = cell_key(row);
        let good = rows.into_iter().find_map(|(minute, source, sequence, found, at_us, body)| {
            let is_it = (minute, source, sequence, found) == wanted;
            (is_it && Fragment::decode(key, *digest, &body).is_ok()).then_some((at_us, body))
        });
        let Some((at_us, body)) = good else { return false };
        self.put(place.table, &Fragment { key: *key, digest: *digest, body }, at_us).await
    }

    async fn put(&self, table: Table, row: &Fragment, at_us: i64) -> bool {
        match self.cluster.written(table, row.key.minute, at_us) {
            Some(how) => self.cluster.put_cells(row, &how, Reach::All).await.is_ok(),
            None => false,
        }
    }
}

/// The pieces that another cluster has of a minute, read once for all lost rows of it.
#[derive(Default)]
struct Elsewhere(HashMap<i32, Vec<Arc<Piece>>>);

impl Elsewhere {
    /// Ascending by source and number. Nothing when the other does not answer.
    async fn pieces(&mut self, other: &Cluster, place: &Place, minute: i32) -> &[Arc<Piece>] {
        if let std::collections::hash_map::Entry::Vacant(entry) = self.0.entry(minute) {
            let span = BucketSpan { bucket: place.bucket, first: minute, last: minute };
            let read = other.cells(place.table, place.series, span, Copies::Majority).await;
            let mut pieces = BTreeMap::new();
            for row in read.map(|(rows, _)| rows).unwrap_or_default() {
                let good = stored::pieces(place.series, &row).unwrap_or_default();
                pieces.extend(good.into_iter().map(|piece| (piece.identity(), piece)));
            }
            entry.insert(pieces.into_values().collect());
        }
        &self.0[&minute]
    }
}

fn cell_key((key, digest): &Listed) -> CellKey {
    let RowKey { minute, source: SourceId(source), sequence, .. } = key;
    (*minute, source.to_be_bytes().to_vec(), *sequence as i64, *digest)
}

fn unanswered(consistent: Consistent) -> u64 {
    match consistent {
        Consistent::Majority => 0,
        Consistent::Union { answered, copies } => (copies - answered) as u64,
    }
}
