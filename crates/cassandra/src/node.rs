//! One Ogive node on a cluster: the store that the server uses.
//!
//! Threads: two for the spool; a runtime with two threads for the cluster.
//! Failure: without its spool a node does not start; without the cluster it accepts batches but answers no query.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ogive_broker::{Options as SpoolOptions, Spool};
use ogive_door::backend::{Backend, Fact, Reader, Refusal, Reply, Stamps};
use ogive_door::own_value::OwnValue;
use ogive_export::random_source;
use ogive_journal::{DirectoryLock, Disk, RealDisk};
use ogive_model::{Batch, Kind, Tenant, Value};
use ogive_probe::Clock;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::auditor::{Audited, Auditor};
use crate::cluster::Cluster;
use crate::drive::Driver;
use crate::figures::Figures;
use crate::index::Index;
use crate::pending::Pending;
use crate::read::View;
use crate::shared::Shared;
use crate::spool::{Spooling, Threads};
use crate::{Address, Error};

/// 16 MiB a segment of the spool: what is let go at once.
const SEGMENT_BYTES: u64 = 16 << 20;
/// 8 MiB of the last records stay in memory: what is split a moment later.
const TAIL_BYTES: usize = 8 << 20;
/// 10 s for the last group when a node ends: the rest goes with the next start.
const LAST_GROUP: Duration = Duration::from_secs(10);
/// The file in the spool's directory with the node's name.
const NAME_FILE: &str = "node";
/// Letters of a name that was drawn.
const NAME_DIGITS: usize = 8;

/// How a node is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster.
    pub address: Address,
    /// Where its spool is.
    pub directory: PathBuf,
    /// The clock.
    pub clock: Clock,
}

/// See the module.
pub struct Node {
    shared: Shared,
    runtime: Mutex<Option<Runtime>>,
    name: String,
    end: watch::Sender<bool>,
    driver: Mutex<Option<tokio::task::JoinHandle<()>>>,
    threads: Mutex<Option<Threads>>,
    /// Held until the node ends.
    _lock: DirectoryLock,
}

impl Node {
    /// Opens the spool, and begins to drive what is in it.
    ///
    /// # Errors
    /// [`Error::Local`] for the spool; [`Error::Schema`] when the cluster answers and its tables are not there. One
    /// that does not answer is no error.
    pub fn open(options: Options) -> Result<Self, Error> {
        let Options { address, directory, clock } = options;
        let local = |error: &dyn std::fmt::Display| Error::Local(format!("{}: {error}", directory.display()));
        RealDisk.create_dir_all(&directory).map_err(|error| local(&error))?;
        let lock = RealDisk.lock(&directory).map_err(|error| local(&error))?;
        let (name, writer) = name(&directory)?;
        let spool_options = SpoolOptions {
            segment_bytes: SEGMENT_BYTES,
            tail_bytes: TAIL_BYTES,
            mark: random_source().0 as u32,
            first: 0,
        };
        let opened = Spool::open(Arc::new(RealDisk), &directory.join("spool"), spool_options);
        let (spool, findings) = opened.map_err(|error| local(&error))?;
        findings.iter().for_each(|finding| tracing::warn!("recovery: {finding}"));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("cassandra")
            .enable_all()
            .build()
            .map_err(|error| local(&error))?;
        let cluster = Arc::new(OnceLock::new());
        match runtime.block_on(Cluster::connect(&address)) {
            Ok(connected) => drop(cluster.set(connected)),
            Err(error @ Error::Unavailable(_)) => tracing::warn!("{error}; batches are taken into the spool meanwhile"),
            Err(error) => return Err(error),
        }
        let (figures, index) = (Arc::<Figures>::default(), Arc::<Index>::default());
        let audited = Arc::<Audited>::default();
        let pending = Arc::new(Pending::new(address.pending_bytes_max, spool.board().first()));
        let started = Spooling::start(spool, address.spool_bytes_max, pending, (Arc::clone(&figures), clock));
        let (spooling, threads) = started.map_err(|error| local(&error))?;
        let (end, ending) = watch::channel(false);
        let auditor = Auditor {
            cluster: Arc::clone(&cluster),
            audited: Arc::clone(&audited),
            writer,
            clock,
            every: address.audit,
        };
        if !address.audit.is_zero() {
            runtime.spawn(auditor.run(ending.clone()));
        }
        let driver = Driver {
            address,
            writer,
            cluster: Arc::clone(&cluster),
            spooling: Arc::clone(&spooling),
            index: Arc::clone(&index),
            figures: Arc::clone(&figures),
            audited: Arc::clone(&audited),
            clock,
        };
        let driver = runtime.spawn(driver.run(ending));
        let handle = runtime.handle().clone();
        let shared = Shared { cluster, spooling, index, figures, audited, clock, handle };
        let (driver, threads) = (Mutex::new(Some(driver)), Mutex::new(Some(threads)));
        Ok(Self { shared, runtime: Mutex::new(Some(runtime)), name, end, driver, threads, _lock: lock })
    }

    /// Ends: what was submitted becomes durable, and what is pending is driven for a while. The rest goes with the next start.
    pub fn finish(&self) {
        fn taken<T>(place: &Mutex<Option<T>>) -> Option<T> {
            place.lock().unwrap_or_else(PoisonError::into_inner).take()
        }
        if let Some(threads) = taken(&self.threads) {
            self.shared.spooling.end(threads);
        }
        let _ = self.end.send(true);
        if let (Some(runtime), Some(driver)) = (taken(&self.runtime), taken(&self.driver)) {
            if self.shared.cluster.get().is_some() {
                let _ = runtime.block_on(async { tokio::time::timeout(LAST_GROUP, driver).await });
            }
            runtime.shutdown_background();
        }
    }

    /// Whether a majority has everything that was acknowledged here.
    #[must_use]
    pub fn is_driven(&self) -> bool {
        self.shared.spooling.done_end() >= self.shared.spooling.board.end()
    }

    /// Its name among the nodes over a cluster.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The node's name and number, drawn when its directory is new.
fn name(directory: &Path) -> Result<(String, u128), Error> {
    let path = directory.join(NAME_FILE);
    let local = |error: &dyn std::fmt::Display| Error::Local(format!("{}: {error}", path.display()));
    let text = match RealDisk.read(&path) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|error| local(&error))?,
        Err(ogive_journal::Error::NotFound { .. }) => {
            let text = format!("{:032x}\n", random_source().0);
            RealDisk.replace(&path, text.as_bytes()).map_err(|error| local(&error))?;
            text
        }
        Err(error) => return Err(local(&error)),
    };
    let text = text.trim();
    let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32);
    let number = number.ok_or_else(|| local(&"it is no name of a node; remove it and the node gets another"))?;
    Ok((text[..NAME_DIGITS].to_owned(), number))
}

/// Rejects the samples that break a rule; whether there was one.
fn check(batch: &mut Batch, wall_ns: i64) -> bool {
    let mut found = false;
    for sample in &mut batch.samples {
        let Ok(good) = sample else { continue };
        let kind = match batch.series.get(good.series as usize) {
            Some(Ok(def)) => def.meta.kind,
            Some(Err(_)) => continue,
            // Its series is declared in an earlier batch: the rest is looked at with its labels.
            None => kind_of(&good.value),
        };
        if let Err(reason) = ogive_store::ingest::check(good, kind, wall_ns) {
            (*sample, found) = (Err(reason), true);
        }
    }
    found
}

const fn kind_of(value: &Value) -> Kind {
    match value {
        Value::Float(_) => Kind::Float,
        Value::Histogram(_) | Value::FloatHistogram(_) => Kind::Histogram,
        Value::Text(_) => Kind::Text,
    }
}

impl Backend for Node {
    fn submit(
        &self,
        mut batch: Batch,
        frame: Option<Vec<u8>>,
        stamps: Arc<dyn Stamps>,
        reply: Reply,
    ) -> Result<(), Refusal> {
        let is_changed = check(&mut batch, self.shared.clock.wall());
        self.shared.spooling.submit(batch, frame.filter(|_| !is_changed), stamps, reply)
    }

    fn of<'a>(&'a self, tenant: &'a Tenant) -> Box<dyn Reader + 'a> {
        Box::new(View { shared: &self.shared, tenant })
    }

    fn facts(&self) -> Vec<Fact> {
        let Shared { cluster, spooling, index, figures, audited, .. } = &self.shared;
        let (audit, minutes_open) = audited.last();
        let (connected, nodes) = cluster.get().map_or((0, 0), Cluster::nodes);
        let board = &spooling.board;
        [
            ("cassandra_nodes", nodes as u64),
            ("cassandra_nodes_connected", connected as u64),
            ("spool_bytes", board.bytes()),
            ("spool_records", board.end().saturating_sub(spooling.done_end())),
            ("spool_records_unseen", spooling.unseen()),
            ("spool_records_lost_total", figures.lost.get()),
            ("spool_fsync_failures_total", figures.fsync_failures.get()),
            ("head_bytes", spooling.pending.bytes()),
            ("series_bytes", index.bytes()),
            ("series", index.count() as u64),
            ("cassandra_rows_total", figures.rows.get()),
            ("cassandra_pieces_total", figures.pieces.get()),
            ("cassandra_index_segments_total", figures.segments.get()),
            ("cassandra_write_retries_total", figures.retried.get()),
            ("cassandra_visible_rows_total", figures.visible.get()),
            ("cassandra_corrupt_rows_total", figures.corrupt.get()),
            ("cassandra_conflicts_total", figures.conflicts.get()),
            ("cassandra_union_reads_total", figures.unions.get()),
            ("cassandra_samples_dropped_total", figures.dropped.get()),
            ("cassandra_audit_bytes", audited.bytes()),
            ("cassandra_audit_rows_total", audited.rows.get()),
            ("cassandra_audit_refilled_total", audited.refilled.get()),
            ("cassandra_audit_minutes_given_up_total", audited.given_up.get()),
            ("cassandra_audit_minutes_open", minutes_open as u64),
            ("cassandra_audit_rows_lost", audit.lost),
            ("cassandra_audit_copies_missing", audit.copies_missing),
            ("cassandra_audit_copies_unknown", audit.copies_unknown),
        ]
        .map(|(name, value)| Fact { name, value: value as f64 })
        .into()
    }

    fn own_values(&self) -> Vec<OwnValue> {
        let audited = &self.shared.audited;
        let (last, minutes_open) = audited.last();
        let gauge = |name, value: u64| OwnValue::gauge(name, &[], "", value as f64);
        let counter = |name, value: u64| OwnValue::counter(name, &[], value as f64);
        vec![
            counter("ogive_audit_rows_total", audited.rows.get()),
            counter("ogive_audit_refilled_total", audited.refilled.get()),
            counter("ogive_audit_minutes_given_up_total", audited.given_up.get()),
            gauge("ogive_audit_minutes_open", minutes_open as u64),
            gauge("ogive_audit_rows_lost", last.lost),
            gauge("ogive_audit_copies_missing", last.copies_missing),
            gauge("ogive_audit_copies_unknown", last.copies_unknown),
        ]
    }

    fn own_label(&self) -> Option<(&'static str, String)> {
        Some(("node", self.name.clone()))
    }
}
