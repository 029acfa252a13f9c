//! The tables beside the samples: rollups, deletions, and minutes that need repair.

use ogive_model::{SeriesId, WallMs};

use crate::Error;
use crate::cluster::{Cluster, Consistent, Reach, Written, rows};
use crate::deletions::Deletion;
use crate::keeping::time_to_live;
use crate::keys::ManifestKey;
use crate::rollup::Place;
use crate::schema::Table;
use crate::spans::BucketSpan;
use crate::stored::number;

/// All repairs and all deletions are one partition.
const PART: i32 = 0;

impl Cluster {
    /// The time by its clock, microseconds since 1970.
    pub(crate) fn now_us(&self) -> i64 {
        self.clock.wall().div_euclid(1_000) + self.ahead_us()
    }

    /// The time by its clock.
    pub(crate) fn now(&self) -> WallMs {
        WallMs(self.now_us().div_euclid(1_000))
    }

    /// How a row of samples that arrived at `at_us` is written now; None when it has had its time.
    pub(crate) fn written(&self, table: Table, minute: i32, at_us: i64) -> Option<Written> {
        let age_s = self.now_us().div_euclid(1_000_000) - i64::from(minute) * 60;
        time_to_live(self.kept().of(table), age_s).map(|seconds| Written { table, at_us, seconds })
    }

    /// How many rows each minute of a series has. Minutes without rows are left out.
    pub(crate) async fn counts(&self, series: SeriesId, span: BucketSpan) -> Result<Vec<(i32, i64)>, Error> {
        let (id, BucketSpan { bucket, first, last }) = (series.0.to_be_bytes(), span);
        let count = &self.statements.raw(Table::Numbers).count;
        // Of one copy alone a count means nothing, so there is no union.
        rows(self.execute(&count.majority, (&id[..], bucket, first, last)).await?)
    }

    /// Removes the rows of some minutes that arrived at `at_us` or before.
    pub(crate) async fn remove_minutes(
        &self,
        table: Table,
        series: SeriesId,
        span: BucketSpan,
        at_us: i64,
    ) -> Result<(), Error> {
        let (id, BucketSpan { bucket, first, last }) = (series.0.to_be_bytes(), span);
        let remove = self.statements.raw(table).remove.at(Reach::Majority);
        self.execute(remove, (at_us, &id[..], bucket, first, last)).await.map(drop)
    }

    pub(crate) async fn put_rollup(&self, place: &Place, body: &[u8], seconds: i32) -> Result<(), Error> {
        let (id, bucket) = (place.series.0.to_be_bytes(), place.table.bucket_of_hour(place.hour));
        let put = self.statements.rolled(place.table).put.at(Reach::Majority);
        self.execute(put, (&id[..], bucket, place.hour, body, seconds)).await.map(drop)
    }

    /// The rollups of some hours of a bucket.
    pub(crate) async fn rollups(
        &self,
        table: Table,
        series: SeriesId,
        span: BucketSpan,
    ) -> Result<(Vec<(i32, Vec<u8>)>, Consistent), Error> {
        let (id, BucketSpan { bucket, first, last }) = (series.0.to_be_bytes(), span);
        self.read(&self.statements.rolled(table).read, (&id[..], bucket, first, last), &(&id[..], bucket)).await
    }

    /// Removes the rollups of some hours of a bucket that are there now.
    pub(crate) async fn remove_rollups(&self, table: Table, series: SeriesId, span: BucketSpan) -> Result<(), Error> {
        let (id, BucketSpan { bucket, first, last }) = (series.0.to_be_bytes(), span);
        let remove = self.statements.rolled(table).remove.at(Reach::Majority);
        self.execute(remove, (&id[..], bucket, first, last)).await.map(drop)
    }

    pub(crate) async fn put_deletion(&self, one: &Deletion) -> Result<(), Error> {
        let (digest, body) = one.encode()?;
        self.put_deletion_as_is(one.at_us, digest, &body).await
    }

    pub(crate) async fn put_deletion_as_is(&self, at_us: i64, digest: i64, body: &[u8]) -> Result<(), Error> {
        let put = self.statements.put_deletion.at(Reach::Majority);
        self.execute(put, (PART, at_us, digest, body)).await.map(drop)
    }

    /// All deletions as they are stored: time, digest and record.
    pub(crate) async fn deletions_as_are(&self) -> Result<Vec<(i64, i64, Vec<u8>)>, Error> {
        Ok(self.read(&self.statements.read_deletions, (PART,), &(PART,)).await?.0)
    }

    /// Marks what a node wrote in a minute: not every copy is known to have it, and its spool has let go of it.
    pub(crate) async fn put_repair(&self, ManifestKey { minute, writer }: ManifestKey) -> Result<(), Error> {
        let put = self.statements.put_repair.at(Reach::Majority);
        self.execute(put, (PART, minute, &writer.to_be_bytes()[..])).await.map(drop)
    }

    pub(crate) async fn remove_repair(&self, ManifestKey { minute, writer }: ManifestKey) -> Result<(), Error> {
        let remove = self.statements.remove_repair.at(Reach::Majority);
        self.execute(remove, (PART, minute, &writer.to_be_bytes()[..])).await.map(drop)
    }

    /// What is marked.
    pub(crate) async fn repairs(&self) -> Result<Vec<ManifestKey>, Error> {
        let (all, _): (Vec<(i32, Vec<u8>)>, _) = self.read(&self.statements.read_repairs, (PART,), &(PART,)).await?;
        let key = |(minute, writer): (i32, Vec<u8>)| Some(ManifestKey { minute, writer: number(&writer)? });
        Ok(all.into_iter().filter_map(key).collect())
    }
}
