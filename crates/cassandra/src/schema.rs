//! The tables, and what is in which.
//!
//! Format: docs/formats/cassandra.md.

use std::time::Duration;

use ogive_model::WallMs;

use crate::Address;
use crate::keeping::{RetentionPeriods, seconds_of};
pub(crate) use crate::table::Table;

/// Minutes of a partition of cells: 6 h, some 2 MB of a series with a cell of 100 bytes a second.
pub(crate) const BUCKET_MINUTES: i32 = 360;
/// Minutes of a partition of the label index.
pub(crate) const DAY_MINUTES: i32 = 1_440;
/// Partitions of a day's label index: the first 4 bits of a series' identity.
pub(crate) const SHARDS: i16 = 16;

/// 1 day, and an hour: what an audit may look back at. Rows live longer than that, whatever the retention is.
pub(crate) const MANIFEST_SECONDS: u32 = 90_000;
/// 30 days: how long a mark stays of what an audit can no longer look at.
const REPAIR_SECONDS: u32 = 2_592_000;
/// A retention is so many windows of compaction: each is dropped as a whole.
const WINDOWS: u64 = 30;

/// Columns of the tables of rows as they came.
const RAW_COLUMNS: &[&str] = &["series", "bucket", "minute", "source", "sequence", "digest", "body"];
/// Columns of rollups.
const ROLLED_COLUMNS: &[&str] = &["series", "bucket", "hour", "body"];

/// Tables with the columns that are read and written.
pub(crate) const TABLES: [(&str, &[&str]); 10] = [
    (Table::Numbers.name(), RAW_COLUMNS),
    (Table::Logs.name(), RAW_COLUMNS),
    (Table::Records.name(), RAW_COLUMNS),
    (Table::Minutes.name(), ROLLED_COLUMNS),
    (Table::Hours.name(), ROLLED_COLUMNS),
    ("index_segments", &["day", "shard", "writer", "digest", "body"]),
    ("index_days", &["part", "day"]),
    ("manifests", &["minute", "writer", "digest", "body"]),
    ("deletions", &["part", "at", "digest", "body"]),
    ("repairs", &["part", "minute", "writer"]),
];

/// The statements that make what is missing, in order.
pub(crate) fn statements(address: &Address) -> Vec<String> {
    let Address { keyspace, datacentre, replicas, retention, .. } = address;
    let kept = retention.unwrap_or_default();
    let lasting = time_to_live(kept.longest());
    let mut out = vec![format!(
        "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
         {{'class': 'NetworkTopologyStrategy', '{datacentre}': {replicas}}}"
    )];
    out.extend(Table::RAW.map(|table| {
        format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.{} (series blob, bucket int, minute int, source blob, \
             sequence bigint, digest bigint, body blob, \
             PRIMARY KEY ((series, bucket), minute, source, sequence, digest)) WITH {}",
            table.name(),
            of_samples(&kept, table)
        )
    }));
    out.extend(Table::ROLLED.map(|table| {
        format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.{} (series blob, bucket int, hour int, body blob, \
             PRIMARY KEY ((series, bucket), hour)) WITH {}",
            table.name(),
            of_samples(&kept, table)
        )
    }));
    out.push(format!(
        "CREATE TABLE IF NOT EXISTS {keyspace}.index_segments (day int, shard smallint, writer blob, \
         digest bigint, body blob, PRIMARY KEY ((day, shard), writer, digest)) \
         WITH compression = {{'class': 'ZstdCompressor', 'chunk_length_in_kb': 64}} AND crc_check_chance = 1.0 \
         AND gc_grace_seconds = 86400 AND {lasting}"
    ));
    out.push(format!(
        "CREATE TABLE IF NOT EXISTS {keyspace}.index_days (part int, day int, PRIMARY KEY (part, day)) \
         WITH crc_check_chance = 1.0 AND {lasting}"
    ));
    out.push(format!(
        "CREATE TABLE IF NOT EXISTS {keyspace}.manifests (minute int, writer blob, digest bigint, body blob, \
         PRIMARY KEY ((minute), writer, digest)) \
         WITH compression = {{'class': 'LZ4Compressor', 'chunk_length_in_kb': 64}} AND crc_check_chance = 1.0 \
         AND compaction = {{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'DAYS', \
         'compaction_window_size': 1}} AND gc_grace_seconds = 86400 \
         AND default_time_to_live = {MANIFEST_SECONDS}"
    ));
    out.push(format!(
        "CREATE TABLE IF NOT EXISTS {keyspace}.deletions (part int, at bigint, digest bigint, body blob, \
         PRIMARY KEY (part, at, digest)) WITH crc_check_chance = 1.0 AND {lasting}"
    ));
    out.push(format!(
        "CREATE TABLE IF NOT EXISTS {keyspace}.repairs (part int, minute int, writer blob, \
         PRIMARY KEY (part, minute, writer)) WITH crc_check_chance = 1.0 \
         AND default_time_to_live = {REPAIR_SECONDS}"
    ));
    if retention.is_some() {
        out.extend(retained(keyspace, &kept));
    }
    out
}

/// Tables that are there already get the retention that was given; rows that are in them keep theirs.
fn retained(keyspace: &str, kept: &RetentionPeriods) -> Vec<String> {
    let samples = Table::RAW.iter().chain(&Table::ROLLED);
    let mut out: Vec<String> = samples
        .map(|table| format!("ALTER TABLE {keyspace}.{} WITH {}", table.name(), time_to_live(kept.of(*table))))
        .collect();
    let lasting = time_to_live(kept.longest());
    out.extend(
        ["index_segments", "index_days", "deletions"]
            .map(|table| format!("ALTER TABLE {keyspace}.{table} WITH {lasting}")),
    );
    out
}

/// The options of a table of samples.
///
/// Never without compression: only a compressed table has checksums of its chunks. Blocking read repair would write old
/// rows into new windows, and they would not expire with the others. Speculation is ours: a coordinator that asks two
/// copies at ONE could answer for a damaged one each time.
fn of_samples(kept: &RetentionPeriods, table: Table) -> String {
    let kept = kept.of(table);
    format!(
        "compression = {{'class': 'ZstdCompressor', 'chunk_length_in_kb': 16}} AND crc_check_chance = 1.0 \
         AND compaction = {{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS', \
         'compaction_window_size': {}}} AND gc_grace_seconds = 86400 AND read_repair = 'NONE' \
         AND speculative_retry = 'NONE' AND {}",
        window_hours(kept),
        time_to_live(kept)
    )
}

/// Hours of a window of compaction.
fn window_hours(kept: Option<Duration>) -> u64 {
    kept.map_or(24, |kept| (kept.as_secs() / 3_600 / WINDOWS).max(1))
}

fn time_to_live(kept: Option<Duration>) -> String {
    format!("default_time_to_live = {}", seconds_of(kept))
}

/// The bucket of a minute.
pub(crate) const fn bucket(minute: i32) -> i32 {
    minute.div_euclid(BUCKET_MINUTES)
}

/// The day of a minute.
pub(crate) const fn day(minute: i32) -> i32 {
    minute.div_euclid(DAY_MINUTES)
}

/// The minute that a time is in; those that have no number are in the first or the last one.
pub(crate) fn minute(time: WallMs) -> i32 {
    let minute = time.0.div_euclid(60_000);
    i32::try_from(minute).unwrap_or(if minute < 0 { i32::MIN } else { i32::MAX })
}

/// The shard of a series.
pub(crate) const fn shard(series: ogive_model::SeriesId) -> i16 {
    (series.0 >> 124) as i16
}

const _: () = assert!(SHARDS == 1 << 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_minutes_buckets_and_days() {
        assert_eq!([-1, 0, 59_999, 60_000].map(|time| minute(WallMs(time))), [-1, 0, 0, 1]);
        assert_eq!((minute(WallMs::MIN), minute(WallMs::MAX)), (i32::MIN, i32::MAX));
        assert_eq!((bucket(-1), bucket(359), bucket(360)), (-1, 0, 1));
        assert_eq!((day(1_439), day(1_440)), (0, 1));
        assert_eq!(shard(ogive_model::SeriesId(u128::MAX)), SHARDS - 1);
        assert_eq!((Table::Minutes.bucket_of_hour(-1), Table::Hours.bucket_of_hour(719)), (-1, 0));
        assert_eq!(Table::raw_from_code(Table::Records.code()), Some(Table::Records));
        assert_eq!(Table::raw_from_code(3), None);
    }

    #[test]
    fn a_retention_is_some_thirty_windows() {
        let hours = |count: u64| window_hours(Some(Duration::from_secs(count * 3_600)));
        assert_eq!((hours(1), hours(720), hours(26_280), window_hours(None)), (1, 24, 876, 24));
    }
}
