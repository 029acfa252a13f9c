//! The audit: verifies that each replica holds each row that a manifest names, and rewrites rows that a replica lacks.
//!
//! Invariants: a row counts as lost only when every replica has answered and none holds it; replicas that could not be
//! asked are counted separately. A row is rewritten to every replica from one whose bytes have the right checksum; a row that no
//! replica has is rebuilt from the pieces that another cluster has, and its digest proves that it is the same.
//! Limits: [`ROWS_MAX`] rows are compared at once, [`PARTITIONS`] partitions are read at once, each with its timeout.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use ogive_model::{SeriesId, SourceId};

use crate::Error;
use crate::cluster::{CellKey, Cluster, Consistent, Copies, Reach};
use crate::fragment::{Fragment, RowKey};
use crate::manifest::{self, Listed};
use crate::schema::bucket;
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

/// A partition with the rows of it that are to be there.
type Partition = ((SeriesId, i32), Vec<Listed>);

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
}

impl Audit<'_> {
    /// Compares what was written in some minutes since 1970 with what each copy holds.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when no copy of a manifest answers.
    pub async fn minutes(&self, minutes: impl IntoIterator<Item = i32>) -> Result<Findings, Error> {
        let (mut found, mut rows) = (Findings::default(), Vec::new());
        for minute in minutes {
            let (all, consistent) = self.cluster.manifests(minute).await?;
            found.copies_unknown += unanswered(consistent);
            for (writer, digest) in all {
                let number = <[u8; 16]>::try_from(&writer[..]).map(u128::from_be_bytes);
                let Ok(number) = number else { continue };
                if self.writer.is_some_and(|one| one != number) {
                    continue;
                }
                found.manifests += 1;
                let (bodies, _) = self.cluster.manifest(minute, &writer, digest).await?;
                // Of several copies' bodies one may be damaged.
                match bodies.iter().find_map(|(body,)| manifest::decode((minute, number), body).ok()) {
                    Some(named) => rows.extend(named),
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

    async fn compare(&self, rows: Vec<Listed>) -> Result<Findings, Error> {
        // Grouped anew after a crash, a row may be named twice.
        let rows: BTreeSet<Listed> = rows.into_iter().collect();
        let mut partitions: BTreeMap<(SeriesId, i32), Vec<Listed>> = BTreeMap::new();
        for row in rows {
            partitions.entry((row.0.series, bucket(row.0.minute))).or_default().push(row);
        }
        let partitions: Vec<Partition> = partitions.into_iter().collect();
        let mut found = Findings::default();
        for some in partitions.chunks(PARTITIONS) {
            for one in all_of(some.iter().map(|partition| self.partition(partition)).collect()).await {
                found.add(one?);
            }
        }
        Ok(found)
    }

    async fn partition(&self, (place, rows): &Partition) -> Result<Findings, Error> {
        let minutes = rows.iter().map(|(key, _)| key.minute);
        let (first, last) = (minutes.clone().min().unwrap_or(0), minutes.max().unwrap_or(0));
        let copies = self.cluster.keys_of_copies(*place, (first, last)).await?;
        let copies: Vec<Option<HashSet<CellKey>>> =
            copies.into_iter().map(|copy| copy.map(|keys| keys.into_iter().collect())).collect();
        let unknown = copies.iter().filter(|copy| copy.is_none()).count() as u64;
        let mut found = Findings { rows: rows.len() as u64, ..Findings::default() };
        for row in rows {
            let key = cell_key(row);
            let held = copies.iter().flatten().filter(|copy| copy.contains(&key)).count() as u64;
            let missing = copies.len() as u64 - unknown - held;
            found.copies += held;
            found.copies_unknown += unknown;
            found.copies_missing += missing;
            let is_gone = held == 0 && unknown == 0;
            let is_refilled = self.refill
                && (held > 0 && missing > 0 && self.again(*place, row).await
                    || is_gone && self.restored(*place, row).await);
            found.refilled += u64::from(is_refilled);
            found.lost += u64::from(is_gone && !is_refilled);
        }
        Ok(found)
    }

    /// Writes a row that no copy has, of what the other cluster has; whether all copies have it.
    async fn restored(&self, place: (SeriesId, i32), row: &Listed) -> bool {
        let Some(other) = self.other else { return false };
        match rebuilt(other, place, row).await {
            Some(row) => self.cluster.put_cells(&row, Reach::All).await.is_ok(),
            None => false,
        }
    }

    /// Writes a row to every copy from what one of them holds; whether all have it.
    async fn again(&self, place: (SeriesId, i32), (key, digest): &Listed) -> bool {
        let read = self.cluster.cells(place, (key.minute, key.minute), Copies::All).await;
        let Ok((rows, _)) = read else { return false };
        let wanted = cell_key(&(*key, *digest));
        let good = rows.into_iter().find_map(|(minute, source, sequence, found, body)| {
            let is_it = (minute, source, sequence, found) == wanted;
            (is_it && Fragment::decode(key, *digest, &body).is_ok()).then_some(body)
        });
        let Some(body) = good else { return false };
        self.cluster.put_cells(&Fragment { key: *key, digest: *digest, body }, Reach::All).await.is_ok()
    }
}

/// A row again, of what another cluster has of its minute; its rows are others, since each cluster groups for itself.
async fn rebuilt(other: &Cluster, place: (SeriesId, i32), (key, digest): &Listed) -> Option<Fragment> {
    let (rows, _) = other.cells(place, (key.minute, key.minute), Copies::Majority).await.ok()?;
    let mut pieces = BTreeMap::new();
    for (_, source, sequence, found, body) in rows {
        if source != key.source.0.to_be_bytes() {
            continue;
        }
        let of = RowKey { sequence: sequence as u64, ..*key };
        for piece in Fragment::decode(&of, found, &body).unwrap_or_default() {
            pieces.insert((piece.sequence, piece.part), Arc::new(piece));
        }
    }
    Fragment::rebuilt(*key, *digest, &pieces.into_values().collect::<Vec<_>>())
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
