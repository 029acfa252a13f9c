//! The tables, and the check that they exist.
//!
//! Format: docs/formats/cassandra.md.

use std::time::Duration;

use crate::Address;

/// Minutes of a partition of cells: 6 h, some 2 MB of a series with a cell of 100 bytes a second.
pub(crate) const BUCKET_MINUTES: i32 = 360;
/// Minutes of a partition of the label index.
pub(crate) const DAY_MINUTES: i32 = 1_440;
/// Partitions of a day's label index: the first 4 bits of a series' identity.
pub(crate) const SHARDS: i16 = 16;

/// 1 day, and an hour: what an audit may look back at. Rows live longer than that, whatever the retention is.
const MANIFEST_SECONDS: u32 = 90_000;

/// Tables with the columns that are read and written.
pub(crate) const TABLES: [(&str, &[&str]); 4] = [
    ("cells", &["series", "bucket", "minute", "source", "sequence", "digest", "body"]),
    ("index_segments", &["day", "shard", "writer", "digest", "body"]),
    ("index_days", &["part", "day"]),
    ("manifests", &["minute", "writer", "digest", "body"]),
];

/// The statements that make what is missing, in order.
pub(crate) fn statements(address: &Address) -> Vec<String> {
    let Address { keyspace, datacentre, replicas, retention, .. } = address;
    let kept = kept(*retention);
    vec![
        format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
             {{'class': 'NetworkTopologyStrategy', '{datacentre}': {replicas}}}"
        ),
        // Never without compression: only a compressed table has checksums of its chunks. Blocking read repair would write old
        // rows into new windows, and they would not expire with the others. Speculation is ours: a coordinator that asks two copies at
        // ONE could answer for a damaged one each time.
        format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.cells (series blob, bucket int, minute int, source blob, \
             sequence bigint, digest bigint, body blob, \
             PRIMARY KEY ((series, bucket), minute, source, sequence, digest)) \
             WITH compression = {{'class': 'ZstdCompressor', 'chunk_length_in_kb': 16}} AND crc_check_chance = 1.0 \
             AND compaction = {{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'DAYS', \
             'compaction_window_size': 1}} AND gc_grace_seconds = 86400 AND read_repair = 'NONE' \
             AND speculative_retry = 'NONE'{kept}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.index_segments (day int, shard smallint, writer blob, \
             digest bigint, body blob, PRIMARY KEY ((day, shard), writer, digest)) \
             WITH compression = {{'class': 'ZstdCompressor', 'chunk_length_in_kb': 64}} AND crc_check_chance = 1.0 \
             AND gc_grace_seconds = 86400{kept}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.index_days (part int, day int, PRIMARY KEY (part, day)) \
             WITH crc_check_chance = 1.0{kept}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.manifests (minute int, writer blob, digest bigint, body blob, \
             PRIMARY KEY ((minute), writer, digest)) \
             WITH compression = {{'class': 'LZ4Compressor', 'chunk_length_in_kb': 64}} AND crc_check_chance = 1.0 \
             AND compaction = {{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'DAYS', \
             'compaction_window_size': 1}} AND gc_grace_seconds = 86400 \
             AND default_time_to_live = {MANIFEST_SECONDS}"
        ),
    ]
}

fn kept(retention: Duration) -> String {
    let seconds = retention.as_secs();
    // A day more: an index of a day is needed until its last minute has gone.
    if seconds == 0 { String::new() } else { format!(" AND default_time_to_live = {}", seconds + 86_400) }
}

/// The bucket of a minute.
pub(crate) const fn bucket(minute: i32) -> i32 {
    minute.div_euclid(BUCKET_MINUTES)
}

/// The day of a minute.
pub(crate) const fn day(minute: i32) -> i32 {
    minute.div_euclid(DAY_MINUTES)
}

/// The minute that a time in milliseconds is in; those that have no number are in the first or the last one.
pub(crate) fn minute(time_ms: i64) -> i32 {
    let minute = time_ms.div_euclid(60_000);
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
        assert_eq!((minute(-1), minute(0), minute(59_999), minute(60_000)), (-1, 0, 0, 1));
        assert_eq!((minute(i64::MIN), minute(i64::MAX)), (i32::MIN, i32::MAX));
        assert_eq!((bucket(-1), bucket(359), bucket(360)), (-1, 0, 1));
        assert_eq!((day(1_439), day(1_440)), (0, 1));
        assert_eq!(shard(ogive_model::SeriesId(u128::MAX)), SHARDS - 1);
    }
}
