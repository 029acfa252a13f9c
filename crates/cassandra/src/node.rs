//! One Ogive node on a cluster, or on two: the store that the server uses.
//!
//! Threads: one for the spool, and one more for each cluster; a runtime with two threads for the clusters.
//! Failure: without its spool a node does not start; without any cluster it accepts batches but answers no query.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ogive_broker::{Options as SpoolOptions, Spool};
use ogive_door::backend::{Backend, Fact, Reader, Refusal, Reply, Stamps};
use ogive_door::own_value::OwnValue;
use ogive_export::random_source;
use ogive_journal::{DirectoryLock, Disk, RealDisk};
use ogive_model::{Batch, Kind, Matcher, Reason, SeriesDef, Tenant, TimeRange, Value, WallMs, WallNs};
use ogive_probe::Clock;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::audit::Findings;
use crate::auditor::Auditor;
use crate::cluster::Cluster;
use crate::drive::Driver;
use crate::read::View;
use crate::roller::Roller;
use crate::schema::Table;
use crate::shared::Shared;
use crate::site::Site;
use crate::spool::{Spooling, Threads};
use crate::waiting::all_of;
use crate::{Address, Error, Overflow, fan_out, removal, ring};

/// 16 MiB a segment of the spool: what is let go at once.
const SEGMENT_BYTES: u64 = 16 << 20;
/// A small spool has four segments all the same, so that it is not full of one.
const SEGMENTS_MIN: u64 = 4;
/// 64 KiB.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// 8 MiB of the last records stay in memory: what is split a moment later.
const TAIL_BYTES: usize = 8 << 20;
/// 10 s for the last group when a node ends: the rest goes with the next start.
const LAST_GROUP: Duration = Duration::from_secs(10);
/// Two: with each more, a query costs as much again.
const CLUSTERS_MAX: usize = 2;
/// The file in the spool's directory with the node's name.
const NAME_FILE: &str = "node";
/// Letters of a name that was drawn.
const NAME_DIGITS: usize = 8;

/// How a node is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster; or two that know nothing of each other, each of which gets everything.
    pub addresses: Vec<Address>,
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
    drivers: Mutex<Option<Vec<tokio::task::JoinHandle<()>>>>,
    threads: Mutex<Option<Threads>>,
    /// Held until the node ends.
    _lock: DirectoryLock,
}

impl Node {
    /// Opens the spool, and begins to drive what is in it.
    ///
    /// # Errors
    /// [`Error::Address`] for no cluster, more than two, or one twice; [`Error::Local`] for the spool;
    /// [`Error::Schema`] when a cluster answers and its tables are not there. One that does not answer is no error.
    pub fn open(options: Options) -> Result<Self, Error> {
        let Options { addresses, directory, clock } = options;
        check_addresses(&addresses)?;
        let local = |error: &dyn std::fmt::Display| Error::Local(format!("{}: {error}", directory.display()));
        RealDisk.create_dir_all(&directory).map_err(|error| local(&error))?;
        let lock = RealDisk.lock(&directory).map_err(|error| local(&error))?;
        let (name, writer) = name(&directory)?;
        let spool_bytes_max = addresses.iter().map(|one| one.spool_bytes_max).max().unwrap_or_default();
        let spool_options = SpoolOptions {
            segment_bytes: SEGMENT_BYTES.min(spool_bytes_max / SEGMENTS_MIN).max(SEGMENT_BYTES_MIN),
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
        let site = |address| Arc::new(Site::new(address, spool.board().first()));
        let sites: Vec<Arc<Site>> = addresses.into_iter().map(site).collect();
        runtime.block_on(connect(&sites, clock))?;
        let started = Spooling::start(spool, spool_bytes_max, sites.clone(), clock);
        let (spooling, threads) = started.map_err(|error| local(&error))?;
        let (end, ending) = watch::channel(false);
        let mut drivers = Vec::new();
        for site in &sites {
            if !site.address.audit.is_zero() {
                let other = sites.iter().find(|other| !Arc::ptr_eq(other, site)).cloned();
                runtime.spawn(Auditor { site: Arc::clone(site), other, writer, clock }.run(ending.clone()));
            }
            if sites.len() > 1 {
                runtime.spawn(fan_out::probe(Arc::clone(site), ending.clone()));
            }
            runtime.spawn(Roller { site: Arc::clone(site), writer, clock }.run(ending.clone()));
            let (short_ns, is_alone) = (Arc::new(AtomicU64::new(0)), sites.len() == 1);
            let (site, spooling) = (Arc::clone(site), Arc::clone(&spooling));
            let driver = Driver { writer, site, spooling, clock, is_alone, short_ns };
            drivers.push(runtime.spawn(driver.run(ending.clone())));
        }
        let shared = Shared { sites, spooling, clock, handle: runtime.handle().clone() };
        let (drivers, threads) = (Mutex::new(Some(drivers)), Mutex::new(Some(threads)));
        Ok(Self { shared, runtime: Mutex::new(Some(runtime)), name, end, drivers, threads, _lock: lock })
    }

    /// Ends: what was submitted becomes durable, and what is pending is driven for a while. The rest goes with the next
    /// start.
    pub fn finish(&self) {
        fn taken<T>(place: &Mutex<Option<T>>) -> Option<T> {
            place.lock().unwrap_or_else(PoisonError::into_inner).take()
        }
        if let Some(threads) = taken(&self.threads) {
            self.shared.spooling.end(threads);
        }
        let _ = self.end.send(true);
        if let (Some(runtime), Some(drivers)) = (taken(&self.runtime), taken(&self.drivers)) {
            let last_groups = async {
                for (site, driver) in self.shared.sites.iter().zip(drivers) {
                    if site.cluster.get().is_some() {
                        let _ = driver.await;
                    }
                }
            };
            let _ = runtime.block_on(async { tokio::time::timeout(LAST_GROUP, last_groups).await });
            runtime.shutdown_background();
        }
    }

    /// Whether a majority of each cluster has everything that was acknowledged here.
    #[must_use]
    pub fn is_driven(&self) -> bool {
        self.shared.spooling.undriven() == 0
    }

    /// Samples of a series at and before this are shown by none of the clusters.
    fn oldest(&self, def: &SeriesDef) -> WallMs {
        let clusters = self.shared.sites.iter().filter_map(|site| site.cluster.get());
        let of = |cluster: &Cluster| cluster.kept().horizon(Table::from_series(def), cluster.now());
        clusters.map(of).min().unwrap_or(WallMs::MIN)
    }

    /// Removes the rows of what was deleted, while queries go on.
    async fn remove(shared: &Shared) -> Result<(), Error> {
        for site in &shared.sites {
            let away = || Error::Unavailable(format!("{} is away", site.name()));
            removal::remove_all(shared, site, site.present().ok_or_else(away)?).await?;
        }
        Ok(())
    }

    fn own_values_of(&self, site: &Site) -> Vec<OwnValue> {
        let audited = &site.audited;
        let (last, minutes_open) = audited.last();
        let name = site.name();
        let labels = [("cluster", name.as_str())];
        let gauge = |name, value: u64| OwnValue::gauge(name, &labels, "", value as f64);
        let counter = |name, value: u64| OwnValue::counter(name, &labels, value as f64);
        vec![
            gauge("ogive_cluster_away", u64::from(site.present().is_none())),
            gauge("ogive_cluster_behind_records", self.shared.spooling.undriven_to(site)),
            counter("ogive_audit_rows_total", audited.rows.get()),
            counter("ogive_audit_refilled_total", audited.refilled.get()),
            counter("ogive_audit_minutes_given_up_total", audited.given_up.get()),
            gauge("ogive_audit_minutes_open", minutes_open as u64),
            gauge("ogive_cluster_minutes_to_repair", site.repairs().len() as u64),
            counter("ogive_cluster_rollups_total", site.rolling.made.get()),
            gauge("ogive_audit_rows_lost", last.lost),
            gauge("ogive_audit_copies_missing", last.copies_missing),
            gauge("ogive_audit_copies_unknown", last.copies_unknown),
        ]
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

fn check_addresses(addresses: &[Address]) -> Result<(), Error> {
    let count = addresses.len();
    if !(1..=CLUSTERS_MAX).contains(&count) {
        return Err(Error::Address(format!("--store names {count} clusters; give one, or two that are independent")));
    }
    let is_shared = |one: &Address, other: &Address| {
        one.keyspace == other.keyspace && one.hosts.iter().any(|host| other.hosts.contains(host))
    };
    match addresses {
        [_, _] if addresses.iter().any(|one| one.overflow == Overflow::Release) => Err(Error::Address(
            "overflow=release is for one cluster: of two, the one that is away gets what it lacks from the spool"
                .into(),
        )),
        [one, other] if is_shared(one, other) => Err(Error::Address(format!(
            "--store names the keyspace {} of one cluster twice; the second copy has to be in another cluster",
            one.keyspace
        ))),
        _ => Ok(()),
    }
}

/// Connects to those that answer.
async fn connect(sites: &[Arc<Site>], clock: Clock) -> Result<(), Error> {
    let connecting = sites.iter().map(|site| Cluster::connect_by(&site.address, clock)).collect();
    for (site, connected) in sites.iter().zip(all_of(connecting).await) {
        match connected {
            Ok(connected) => drop(site.cluster.set(connected)),
            Err(error @ Error::Unavailable(_)) => {
                tracing::warn!("{}: {error}; its batches wait in the spool meanwhile", site.name());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
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

/// Rejects the samples that break a rule, or that are as old as nothing is shown; whether there was one.
fn check(batch: &mut Batch, wall: WallNs, oldest: impl Fn(&SeriesDef) -> WallMs) -> bool {
    let mut found = false;
    let oldest: Vec<WallMs> = batch.series.iter().map(|def| def.as_ref().map_or(WallMs::MIN, &oldest)).collect();
    for sample in &mut batch.samples {
        let Ok(good) = sample else { continue };
        let kind = match batch.series.get(good.series as usize) {
            Some(Ok(def)) => def.meta.kind,
            Some(Err(_)) => continue,
            // Its series is declared in an earlier batch: the rest is looked at with its labels.
            None => kind_of(&good.value),
        };
        let is_old = oldest.get(good.series as usize).is_some_and(|oldest| WallMs(good.time_ms()) <= *oldest);
        let checked = ogive_store::ingest::check(good, kind, wall);
        if let Err(reason) = checked.and(if is_old { Err(Reason::BeyondRetention) } else { Ok(()) }) {
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
        let is_changed = check(&mut batch, WallNs(self.shared.clock.wall()), |def| self.oldest(def));
        self.shared.spooling.submit(batch, frame.filter(|_| !is_changed), stamps, reply)
    }

    fn of<'a>(&'a self, tenant: &'a Tenant) -> Box<dyn Reader + 'a> {
        Box::new(View { shared: &self.shared, tenant })
    }

    fn delete(&self, tenant: &Tenant, selectors: &[Vec<Matcher>], range: TimeRange) -> Result<(), Refusal> {
        let failed = |error: Error| Refusal::Failed(error.to_string());
        self.shared.block_on(removal::record(&self.shared, tenant, selectors, range)).map_err(failed)?;
        // It is hidden; that its rows go is tried again by `clean`.
        if let Err(error) = self.shared.block_on(Self::remove(&self.shared)) {
            tracing::warn!("what was deleted is hidden, and its rows are not removed yet: {error}");
        }
        Ok(())
    }

    fn clean(&self) -> Result<(), Refusal> {
        self.shared.block_on(Self::remove(&self.shared)).map_err(|error| Refusal::Failed(error.to_string()))
    }

    fn facts(&self) -> Vec<Fact> {
        let Shared { sites, spooling, .. } = &self.shared;
        // Of all clusters together; for what each has as a whole, of the one that has most.
        let sum = |of: fn(&Site) -> u64| sites.iter().map(|site| of(site)).sum::<u64>();
        let most = |of: fn(&Site) -> u64| sites.iter().map(|site| of(site)).max().unwrap_or_default();
        let connected = |site: &Site| site.cluster.get().map_or((0, 0), Cluster::nodes);
        let (nodes, audits) = (sites.iter().map(|site| connected(site)), sites.iter().map(|site| site.audited.last()));
        let audit = |of: fn(&Findings) -> u64| audits.clone().map(|(last, _)| of(&last)).sum::<u64>();
        let board = &spooling.board;
        [
            ("cassandra_clusters", sites.len() as u64),
            ("cassandra_clusters_away", sum(|site| u64::from(site.present().is_none()))),
            ("cassandra_nodes", nodes.clone().map(|(_, all)| all as u64).sum()),
            ("cassandra_nodes_connected", nodes.map(|(connected, _)| connected as u64).sum()),
            ("spool_bytes", board.bytes()),
            ("spool_records", spooling.undriven()),
            ("spool_records_unseen", spooling.unseen()),
            ("spool_records_doubted", spooling.doubted()),
            ("cassandra_minutes_to_repair", sum(|site| site.repairs().len() as u64)),
            ("cassandra_deletions", most(|site| site.deletions.count() as u64)),
            ("cassandra_rollups_total", sum(|site| site.rolling.made.get())),
            ("cassandra_rollups_waiting", sum(|site| site.rolling.waiting() as u64)),
            ("cassandra_rollups_passed_over_total", sum(|site| site.rolling.passed_over.get())),
            ("cassandra_pieces_expired_total", most(|site| site.figures.expired.get())),
            ("spool_records_lost_total", most(|site| site.figures.lost.get())),
            ("spool_fsync_failures_total", spooling.fsync_failures.get()),
            ("head_bytes", sum(|site| site.pending.bytes())),
            ("series_bytes", sum(|site| site.index.bytes())),
            ("series", most(|site| site.index.count() as u64)),
            ("cassandra_rows_total", sum(|site| site.figures.rows.get())),
            ("cassandra_row_bytes_total", sum(|site| site.figures.row_bytes.get())),
            ("cassandra_pieces_total", sum(|site| site.figures.pieces.get())),
            ("cassandra_index_segments_total", sum(|site| site.figures.segments.get())),
            ("cassandra_write_retries_total", sum(|site| site.figures.retried.get())),
            ("cassandra_visible_rows_total", sum(|site| site.figures.visible.get())),
            ("cassandra_corrupt_rows_total", sum(|site| site.figures.corrupt.get())),
            ("cassandra_conflicts_total", sum(|site| site.figures.conflicts.get())),
            ("cassandra_union_reads_total", sum(|site| site.figures.unions.get())),
            ("cassandra_samples_dropped_total", most(|site| site.figures.dropped.get())),
            ("cassandra_audit_bytes", sum(|site| site.audited.bytes())),
            ("cassandra_audit_rows_total", sum(|site| site.audited.rows.get())),
            ("cassandra_audit_refilled_total", sum(|site| site.audited.refilled.get())),
            ("cassandra_audit_minutes_given_up_total", sum(|site| site.audited.given_up.get())),
            ("cassandra_audit_minutes_open", audits.clone().map(|(_, open)| open as u64).sum()),
            ("cassandra_audit_rows_lost", audit(|last| last.lost)),
            ("cassandra_audit_copies_missing", audit(|last| last.copies_missing)),
            ("cassandra_audit_copies_unknown", audit(|last| last.copies_unknown)),
        ]
        .map(|(name, value)| Fact { name, value: value as f64 })
        .into()
    }

    fn own_values(&self) -> Vec<OwnValue> {
        self.shared.sites.iter().flat_map(|site| self.own_values_of(site)).collect()
    }

    fn cluster(&self) -> Option<serde_json::Value> {
        Some(ring::document(&self.shared, &self.name))
    }

    fn own_label(&self) -> Option<(&'static str, String)> {
        Some(("node", self.name.clone()))
    }
}
