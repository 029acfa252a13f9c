//! Copies a cluster into a file, and a file into an empty cluster.
//!
//! Invariants: everything is read from a majority, each row that fails its checksum from every copy; nothing is written
//! before the whole file was read and found right; what was written is read back and compared by its digest.
//! Limits: [`PARTITIONS`] partitions, [`SEGMENTS`] segments and [`WRITES`] rows at once; the label index of one day is
//! in memory.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use ogive_journal::{Disk, DiskFile, RealDisk};
use ogive_model::SeriesId;
use ogive_probe::Clock;

use crate::cluster::{Cluster, Consistent, Copies, Reach};
use crate::copy_format::{Contents, HEAD_BYTES, MAGIC, Record};
use crate::figures::Figures;
use crate::fragment::Fragment;
use crate::index::{CatalogSeries, Index};
use crate::keys::ShardKey;
use crate::rollup::{Place, Rollup};
use crate::schema::{BUCKET_MINUTES, DAY_MINUTES, SHARDS, Table};
use crate::spans::{BucketSpan, spans};
use crate::stored::{self, CellRow};
use crate::waiting::all_of;
use crate::{Address, Error};

/// 32 partitions at once.
const PARTITIONS: usize = 32;
/// 64 segments at once.
const SEGMENTS: usize = 64;
/// 64 rows at once.
const WRITES: usize = 64;
/// 1 MiB before it is written.
const BUFFER_BYTES: usize = 1 << 20;
/// 5 times the time-out of a statement: a node that is busy with what was written is waited for.
const TRIES: u32 = 5;

/// What came of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// What is in it.
    pub contents: Contents,
    /// Rows of which no copy is what was written; they are left out.
    pub damaged: u64,
    /// Rows that had had their time; they are left out when a copy is restored.
    pub expired: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Copies a cluster into a new file.
///
/// # Errors
/// [`Error::Unavailable`] without a majority, [`Error::Local`] for the file.
pub async fn create(address: &Address, path: &Path) -> Result<Copied, Error> {
    let cluster = Cluster::connect(address).await?;
    let mut file = Writer::create(path)?;
    let mut copied = Copied::default();
    copied.damaged = walk(&cluster, &mut |record| {
        copied.contents.add(&record);
        file.put(&record.encode()?)
    })
    .await?;
    file.put(&Record::End(copied.contents).encode()?)?;
    copied.bytes = file.finish(path)?;
    Ok(copied)
}

/// Writes what a file holds into a cluster whose tables are there and empty, and reads it back.
///
/// # Errors
/// [`Error::Corrupt`] for the file, or when the cluster does not hold then what it should; [`Error::Schema`] when it is
/// not empty.
pub async fn restore(address: &Address, path: &Path) -> Result<Copied, Error> {
    let mut copied = check(path)?;
    let cluster = Cluster::connect(address).await?;
    if !cluster.days().await?.0.is_empty() {
        return Err(Error::Schema(format!(
            "{} is not empty; a copy is restored into a new keyspace (ogive cluster init)",
            address.keyspace
        )));
    }
    let (mut file, mut expected) = (Reading::open(path)?, Contents::default());
    loop {
        let mut some = Vec::new();
        let mut is_end = false;
        while some.len() < WRITES && !is_end {
            match file.next()? {
                Record::End(_) => is_end = true,
                record => some.push(record),
            }
        }
        let written = all_of(some.iter().map(|record| write(&cluster, record)).collect()).await;
        for (record, written) in some.iter().zip(written) {
            if written? {
                expected.add(record);
            } else {
                copied.expired += 1;
            }
        }
        if is_end {
            break;
        }
    }
    let mut found = Contents::default();
    let damaged = walk(&cluster, &mut |record| {
        found.add(&record);
        Ok(())
    })
    .await?;
    if found != expected || damaged > 0 {
        return Err(Error::Corrupt(format!("the cluster holds {found:?} then, and not {expected:?}")));
    }
    copied.contents = found;
    Ok(copied)
}

/// Reads a file to its end.
///
/// # Errors
/// [`Error::Corrupt`] when it is not what was written.
pub fn check(path: &Path) -> Result<Copied, Error> {
    let (mut file, mut contents) = (Reading::open(path)?, Contents::default());
    loop {
        match file.next()? {
            Record::End(written) if written == contents && file.is_at_end() => {
                return Ok(Copied { contents, bytes: file.length, ..Copied::default() });
            }
            Record::End(written) => {
                return Err(Error::Corrupt(format!("{}: it holds {contents:?} and not {written:?}", path.display())));
            }
            record => contents.add(&record),
        }
    }
}

/// Writes a record; whether it has not had its time.
async fn write(cluster: &Cluster, record: &Record) -> Result<bool, Error> {
    let mut outcome = Ok(true);
    for _ in 0..TRIES {
        outcome = write_once(cluster, record).await;
        if !matches!(outcome, Err(Error::Unavailable(_))) {
            break;
        }
    }
    outcome
}

async fn write_once(cluster: &Cluster, record: &Record) -> Result<bool, Error> {
    match record {
        Record::Row { table, key, digest, at_us, body } => {
            let Some(how) = cluster.written(*table, key.minute, *at_us) else { return Ok(false) };
            let row = Fragment { key: *key, digest: *digest, body: body.clone() };
            cluster.put_cells(&row, &how, Reach::Majority).await?;
        }
        Record::Rollup { place, body } => {
            let Some(how) = cluster.written(place.table, place.hour * 60 + 60, 0) else { return Ok(false) };
            cluster.put_rollup(place, body, how.seconds).await?;
        }
        Record::Segment { day, shard, writer, digest, body } => {
            cluster.put_segment(ShardKey { day: *day, shard: *shard }, *writer, *digest, body).await?;
        }
        Record::Deletion { at_us, digest, body } => cluster.put_deletion_as_is(*at_us, *digest, body).await?,
        Record::End(_) => {}
    }
    Ok(true)
}

type Put<'a> = dyn FnMut(Record) -> Result<(), Error> + 'a;

/// Calls `put` with everything that a cluster holds, the label index last; how many rows are damaged.
async fn walk(cluster: &Cluster, put: &mut Put<'_>) -> Result<u64, Error> {
    for (at_us, digest, body) in cluster.deletions_as_are().await? {
        put(Record::Deletion { at_us, digest, body })?;
    }
    let mut days = cluster.days().await?.0;
    days.sort_unstable();
    let (mut damaged, mut before) = (0, (i32::MIN, HashSet::new()));
    for day in &days {
        let index = Index::default();
        index.refresh(cluster, &(*day..=*day), &Figures::default(), Clock::global()).await?;
        let all = index.of_day(*day);
        for some in all.chunks(PARTITIONS) {
            let is_new = |known: &CatalogSeries| before.0 != day - 1 || !before.1.contains(&known.id);
            let reading = some.iter().map(|known| series(cluster, known, *day, is_new(known))).collect();
            for read in all_of(reading).await {
                let (records, bad) = read?;
                damaged += bad;
                records.into_iter().try_for_each(&mut *put)?;
            }
        }
        before = (*day, all.iter().map(|known| known.id).collect::<HashSet<SeriesId>>());
    }
    for day in days {
        for shard in 0..SHARDS {
            let key = ShardKey { day, shard };
            let listed = cluster.segments(key).await?.0;
            for some in listed.chunks(SEGMENTS) {
                let reading = some.iter().map(|(writer, digest)| cluster.segment(key, writer, *digest));
                for ((writer, digest), read) in some.iter().zip(all_of(reading.collect()).await) {
                    let writer =
                        stored::number(writer).ok_or_else(|| Error::Corrupt("a segment of no writer".into()))?;
                    if let Some((body,)) = read?.0.into_iter().next() {
                        put(Record::Segment { day, shard, writer, digest: *digest, body })?;
                    }
                }
            }
        }
    }
    Ok(damaged)
}

/// What a cluster has of a series on a day; how many rows are damaged.
async fn series(
    cluster: &Cluster,
    known: &Arc<CatalogSeries>,
    day: i32,
    is_first: bool,
) -> Result<(Vec<Record>, u64), Error> {
    let (mut out, mut damaged) = (Vec::new(), 0);
    let table = Table::from_series(&known.def);
    for span in spans(day * DAY_MINUTES..=(day + 1) * DAY_MINUTES - 1, BUCKET_MINUTES) {
        let (rows, consistent) = cluster.cells(table, known.id, span, Copies::Majority).await?;
        must_be_majority(consistent)?;
        let decoded: Vec<Option<Record>> = rows.iter().map(|row| record(table, known.id, row)).collect();
        if decoded.iter().all(Option::is_some) {
            out.extend(decoded.into_iter().flatten());
            continue;
        }
        let (rows, _) = cluster.cells(table, known.id, span, Copies::All).await?;
        let mut seen = HashSet::new();
        let mut keys = HashSet::new();
        for row in &rows {
            let key = (row.0, row.1.clone(), row.2, row.3);
            keys.insert(key.clone());
            if let Some(record) = record(table, known.id, row)
                && seen.insert(key)
            {
                out.push(record);
            }
        }
        damaged += (keys.len() - seen.len()) as u64;
    }
    if table == Table::Numbers {
        let first = if is_first { day * 24 - 1 } else { day * 24 };
        for table in Table::ROLLED {
            for bucket in table.bucket_of_hour(first)..=table.bucket_of_hour(day * 24 + 23) {
                let span = BucketSpan { bucket, first, last: day * 24 + 23 };
                let (rows, _) = cluster.rollups(table, known.id, span).await?;
                let place = |hour| Place { series: known.id, table, hour };
                // A damaged one is made again of the rows.
                let good = rows.into_iter().filter(|(hour, body)| Rollup::decode(&place(*hour), body).is_ok());
                out.extend(good.map(|(hour, body)| Record::Rollup { place: place(hour), body }));
            }
        }
    }
    Ok((out, damaged))
}

/// A row that is what was written.
fn record(table: Table, series: SeriesId, row: &CellRow) -> Option<Record> {
    let (.., digest, at_us, body) = row;
    let key = stored::key(series, row).ok()?;
    Fragment::decode(&key, *digest, body).ok()?;
    Some(Record::Row { table, key, digest: *digest, at_us: *at_us, body: body.clone() })
}

fn must_be_majority(consistent: Consistent) -> Result<(), Error> {
    match consistent {
        Consistent::Majority => Ok(()),
        Consistent::Union { answered, copies } => {
            Err(Error::Unavailable(format!("only {answered} of {copies} copies answer, and a copy would not be whole")))
        }
    }
}

fn local(error: &ogive_journal::Error) -> Error {
    Error::Local(error.to_string())
}

/// A file that is being written, under another name until it is whole.
struct Writer {
    file: Box<dyn DiskFile>,
    buffer: Vec<u8>,
}

impl Writer {
    fn create(path: &Path) -> Result<Self, Error> {
        let directory = path.parent().unwrap_or(Path::new("."));
        RealDisk.create_dir_all(directory).map_err(|error| local(&error))?;
        if RealDisk.list(directory).map_err(|error| local(&error))?.iter().any(|other| other == path) {
            return Err(Error::Local(format!("{} is there already; give another name", path.display())));
        }
        let file = RealDisk.create(&path.with_extension("part")).map_err(|error| local(&error))?;
        Ok(Self { file, buffer: MAGIC.to_vec() })
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.file.write_all(&self.buffer).map_err(|error| local(&error))?;
        self.buffer.clear();
        Ok(())
    }

    /// Makes it durable under its name; its length.
    fn finish(mut self, path: &Path) -> Result<u64, Error> {
        self.flush()?;
        self.file.sync().map_err(|error| local(&error))?;
        RealDisk.rename(&path.with_extension("part"), path).map_err(|error| local(&error))?;
        RealDisk.sync_dir(path.parent().unwrap_or(Path::new("."))).map_err(|error| local(&error))?;
        self.file.length().map_err(|error| local(&error))
    }
}

/// A file that is read from its beginning to its end.
struct Reading {
    file: Box<dyn DiskFile>,
    at: u64,
    length: u64,
}

impl Reading {
    fn open(path: &Path) -> Result<Self, Error> {
        let file = RealDisk.open_read(path).map_err(|error| local(&error))?;
        let length = file.length().map_err(|error| local(&error))?;
        let mut this = Self { file, at: 0, length };
        let mut magic = [0; MAGIC.len()];
        this.take(&mut magic)?;
        if magic == *MAGIC {
            Ok(this)
        } else {
            Err(Error::Corrupt(format!("{} is no copy of a cluster", path.display())))
        }
    }

    fn take(&mut self, buffer: &mut [u8]) -> Result<(), Error> {
        if self.length - self.at < buffer.len() as u64 {
            return Err(Error::Corrupt("the copy of a cluster is cut".into()));
        }
        self.file.read_exact_at(self.at, buffer).map_err(|error| local(&error))?;
        self.at += buffer.len() as u64;
        Ok(())
    }

    fn next(&mut self) -> Result<Record, Error> {
        let mut head = [0; HEAD_BYTES];
        self.take(&mut head)?;
        let rest = Record::rest(head)?;
        if self.length - self.at < rest as u64 {
            return Err(Error::Corrupt("the copy of a cluster is cut".into()));
        }
        let mut bytes = vec![0; rest];
        self.take(&mut bytes)?;
        Record::decode(head, &bytes)
    }

    const fn is_at_end(&self) -> bool {
        self.at == self.length
    }
}
