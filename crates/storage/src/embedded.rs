//! The embedded store behind the server's own clock and recorders.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use ogive_journal::MemberState;
use ogive_model::sequence::{SequenceState, SourceTable};
use ogive_model::{Batch, BatchId, Matcher, Ms, Ns, Tenant, TimeRange, WallMs, WallNs};
use ogive_probe::Clock;
use ogive_store::{DeletionScope, Observer, Options, Store, TenantLimits};

use crate::disk_space;
use crate::keeping::Keeping;
use crate::late::Watches;
use crate::late_log;
use crate::limits::IngestLimits as Limits;
use crate::live::{self, Live};
use crate::quantize::Marks;
use crate::source_times::SourceTimes;
use crate::upkeep::Upkeep;
use ogive_door::backend::{Backend, Deletion, Fact, Reader, Refusal, Reply, Stamps, frame_of};
use ogive_door::meters::Meters;
use ogive_door::own_value::OwnValue;

/// The store in its directories, with the components in front of it.
pub struct Embedded {
    store: Arc<Store>,
    upkeep: Upkeep,
    live: Arc<Live>,
    /// The requests without times that it had when it was opened.
    arrivals: Vec<BatchId>,
    /// The windows marked for the quantizer.
    marks: Option<Arc<Marks>>,
    /// The progress of senders, by this server's clock.
    source_times: Arc<SourceTimes>,
    clock: Clock,
    /// What forwards have read.
    watches: Arc<Watches>,
}

/// The settings with which the store is opened.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    /// Of memory, series and queries.
    pub limits: &'a Limits,
    /// Retention and rollups.
    pub keeping: &'a Keeping,
    /// Live cells.
    pub live: live::Options,
    /// Bytes for what queries decoded of blocks.
    pub query_cache_bytes: u64,
}

impl Embedded {
    /// Opens the store, and logs the findings of its recovery.
    pub fn open(
        upkeep: Upkeep,
        settings: Settings<'_>,
        marks: Option<Arc<Marks>>,
        clock: Clock,
        meters: &Arc<Meters>,
    ) -> anyhow::Result<Self> {
        let Settings { limits, keeping, live, query_cache_bytes } = settings;
        let Keeping { retention, rollups, replay_bytes_max, arrivals } = keeping.clone();
        let heard = Arc::new(StoreMeters {
            meters: meters.clone(),
            flush_problem: Mutex::default(),
            arrivals: Mutex::default(),
            in_flight: Mutex::new(late_log::in_flight(upkeep.mirror.root())),
        });
        let options = Options {
            observer: Some(heard.clone()),
            head_bytes_max: limits.ingest_memory_mib << 20,
            // One tenant may have all that it is given.
            series_max: Options::default().series_max.max(limits.limit_series),
            tenant_limits: TenantLimits {
                series: limits.limit_series,
                labels: limits.limit_labels,
                label_bytes: limits.limit_label_bytes,
            },
            retention,
            rollups,
            replay_bytes_max,
            query_cache_bytes,
            journal_arrivals: arrivals,
            reserve_bytes: RESERVE_BYTES,
            ..Options::default()
        };
        let directory = upkeep.mirror.root().to_owned();
        let store = Store::open(Arc::new(upkeep.mirror.clone()), &directory, options, Arc::new(Time(clock)))
            .with_context(|| format!("cannot open the data in {}", directory.display()))?;
        tell_findings("recovery", &store.status().recovered.findings);
        let store = Arc::new(store);
        upkeep.attach(&store);
        let live = Live::new(&store, clock, live);
        let arrivals = std::mem::take(&mut *heard.arrivals.lock().unwrap_or_else(PoisonError::into_inner));
        let stored = std::mem::take(&mut *heard.in_flight.lock().unwrap_or_else(PoisonError::into_inner));
        let watches = Arc::new(Watches::new(stored.into_iter().collect()));
        Ok(Self { store, upkeep, live, arrivals, marks, source_times: Arc::default(), clock, watches })
    }

    /// What forwards have read of it.
    pub fn watches(&self) -> &Arc<Watches> {
        &self.watches
    }

    /// Its live cells.
    pub fn live(&self) -> Arc<Live> {
        self.live.clone()
    }

    /// The store itself, for followers of what it applies.
    pub fn store(&self) -> Arc<Store> {
        self.store.clone()
    }

    /// The progress of each sender's data.
    pub fn source_times(&self) -> Arc<SourceTimes> {
        self.source_times.clone()
    }

    /// Stops live cells, and flushes memory to blocks, so that the next start has nothing to replay.
    pub fn finish(&self) {
        self.live.end();
        if let Err(error) = self.store.flush_whole() {
            tracing::error!("what is in memory stays in the journal: {error}");
        }
    }
}

/// 16 MiB: blocks of some hundred thousand series, so that a flush, and a deletion behind it, find room on a full disk.
const RESERVE_BYTES: u64 = 16 << 20;
/// 10 findings of one check are logged; a bad disk has thousands, and `ogive status` and `ogive scrub` list them.
const TOLD_MAX: usize = 10;

/// Logs the findings of a check of stored bytes: the first ones, and how many more.
pub(crate) fn tell_findings<T: std::fmt::Display>(look: &str, findings: &[T]) {
    findings.iter().take(TOLD_MAX).for_each(|finding| tracing::warn!("{look}: {finding}"));
    if findings.len() > TOLD_MAX {
        let more = findings.len() - TOLD_MAX;
        tracing::warn!("{look}: {more} more findings are not shown here; see `ogive status` and `ogive disk list`");
    }
}

/// The probe's clock as the store reads it.
#[derive(Clone, Copy, Debug)]
pub struct Time(pub Clock);

impl ogive_store::Clock for Time {
    fn now(&self) -> ogive_model::MonoNs {
        ogive_model::MonoNs(self.0.now())
    }

    fn wall(&self) -> WallNs {
        WallNs(self.0.wall())
    }
}

/// Passes the store's measurements to the server's recorders.
struct StoreMeters {
    meters: Arc<Meters>,
    /// Why blocks could not be written, as last reported; None when they were.
    flush_problem: Mutex<Option<String>>,
    /// Requests without times that were stored before this start.
    arrivals: Mutex<Vec<BatchId>>,
    /// Batches that were in flight when the previous process ended; after recovery, those of them that the store has.
    in_flight: Mutex<Vec<(Tenant, BatchId)>>,
}

impl Observer for StoreMeters {
    fn fsync(&self, took: Ns) {
        self.meters.fsync.record_ns(took.0.cast_unsigned());
    }

    fn flush(&self, took: Ns) {
        self.meters.flush.record_ns(took.0.cast_unsigned());
        if self.flush_problem.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            tracing::info!("blocks are written again; nothing is lost");
        }
    }

    fn clock_doubted(&self, lag: Ms) {
        let seconds = lag / Ms::from_secs(1);
        if seconds > 0 {
            tracing::warn!(
                "retention: the clock is {seconds} s ahead of what else is known of the time; nothing is dropped by it alone but an \
                 hour for each hour that passes, until two senders bring data of that time or you run `ogive retention confirm`"
            );
        } else {
            tracing::info!("retention: the clock is confirmed, and data is dropped by it");
        }
    }

    fn recovered(&self, sources: &SourceTable) {
        *self.arrivals.lock().unwrap_or_else(PoisonError::into_inner) = ogive_door::numbers::recalled(sources);
        let has = |(tenant, BatchId { source, sequence }): &(Tenant, BatchId)| {
            sources.seen(tenant, *source, *sequence) == SequenceState::Duplicate
        };
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner).retain(has);
    }

    /// Reported once for each problem: the flush is retried many times.
    fn flush_failed(&self, error: &ogive_store::Error) {
        let problem = error.to_string();
        let mut reported = self.flush_problem.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.as_ref() != Some(&problem) {
            tracing::error!(
                "cannot write blocks: {problem}; samples stay in the journal and in memory, and it is tried again"
            );
            *reported = Some(problem);
        }
    }
}

fn refusal(error: ogive_store::Error) -> Refusal {
    match error {
        ogive_store::Error::Refused { problem } => Refusal::TooLarge(problem),
        error if error.is_full() => Refusal::DiskFull(error.to_string()),
        error => Refusal::Failed(error.to_string()),
    }
}

fn refused(refusal: ogive_store::Refusal) -> Refusal {
    use ogive_store::Refusal as Stored;
    let message = refusal.to_string();
    match refusal {
        Stored::Busy => Refusal::Busy,
        Stored::DiskFull => Refusal::DiskFull(message),
        Stored::UnknownSeries(unknown) => Refusal::UnknownSeries { message, unknown },
        Stored::TooLarge(_) => Refusal::TooLarge(message),
        _ => Refusal::Failed(message),
    }
}

impl Backend for Embedded {
    fn admit(&self) -> Result<(), Refusal> {
        self.store.admit().map_err(refused)
    }

    fn submit(
        &self,
        batch: Batch,
        frame: Option<Vec<u8>>,
        stamps: Arc<dyn Stamps>,
        reply: Reply,
    ) -> Result<(), Refusal> {
        let frame = frame_of(&batch, frame)?;
        let notes = self.marks.as_ref().map(|marks| marks.note(&batch));
        let arrival = self.watches.arrival(&batch);
        let reply: ogive_store::Reply = Box::new(move |outcome| {
            if let (Some(arrival), Ok(verdict)) = (arrival, &outcome) {
                arrival.acknowledged(verdict);
            }
            // Before the sender is answered, so that what is acknowledged is marked.
            if let (Some(notes), Ok(verdict)) = (notes, &outcome) {
                notes.acknowledged(verdict);
            }
            reply(outcome.map_err(refused));
        });
        self.store.submit_stamped(batch, frame, reply, Some(stamps)).map_err(refused)
    }

    fn delete(&self, tenant: &Tenant, selectors: &[Vec<Matcher>], range: TimeRange) -> Result<(), Refusal> {
        self.store.delete(tenant, selectors, range).map_err(refusal)?;
        self.live.doubt_all();
        Ok(())
    }

    fn correct(&self, tenant: &Tenant, selectors: &[Vec<Matcher>], range: TimeRange) -> Result<(), Refusal> {
        self.store.delete(tenant, selectors, range).map_err(refusal)
    }

    fn own_values(&self) -> Vec<OwnValue> {
        let members = self.upkeep.members();
        let mut out = disk_space::own_values(members.iter().map(|member| (&*member.path, member.space)));
        out.extend(self.marks.iter().flat_map(|marks| marks.own_values()));
        out
    }

    fn arrivals(&self) -> Vec<BatchId> {
        self.arrivals.clone()
    }

    fn snapshots_holding(
        &self,
        tenant: &Tenant,
        selectors: &[Vec<Matcher>],
        range: TimeRange,
    ) -> Result<Vec<String>, Refusal> {
        self.store.snapshots_holding(tenant, selectors, range).map_err(refusal)
    }

    fn after_deletion(&self, snapshots: &[String], remove: bool, deletion: Deletion<'_>) -> Result<(), Refusal> {
        let done = if remove {
            self.store.delete_snapshots(snapshots)
        } else {
            let Deletion { text, tenant, selectors, range } = deletion;
            self.store.note_deletion(snapshots, text, DeletionScope { tenant, selectors, range })
        };
        done.map_err(refusal)
    }

    fn witness(&self, source: u128, time: WallMs) {
        self.store.witness(source, time);
        self.source_times.heard(source, time, WallNs(self.clock.wall()).to_ms());
    }

    fn clean(&self) -> Result<(), Refusal> {
        self.store.settle();
        match self.store.status().tombstones {
            0 => Ok(()),
            left => Err(Refusal::Failed(format!("{left} deletions could not be carried out; look after the disk"))),
        }
    }

    fn of<'a>(&'a self, tenant: &'a Tenant) -> Box<dyn Reader + 'a> {
        Box::new(self.store.tenant(tenant))
    }

    fn tenants(&self) -> Vec<Tenant> {
        self.store.block_tenants()
    }

    fn facts(&self) -> Vec<Fact> {
        let status = self.store.status();
        let members = self.upkeep.members();
        let live = members.iter().filter(|member| member.state == MemberState::Live).count() as u64;
        let (scrubs, _) = self.upkeep.scrub.state();
        let rejected: u64 = status.rejected.iter().map(|(_, count)| count).sum();
        [
            ("series", status.series),
            ("samples_head", status.head_samples),
            ("head_bytes", status.head_bytes),
            ("series_bytes", status.series_bytes),
            ("block_index_bytes", status.block_index_bytes),
            ("query_cache_bytes", status.query_cache_bytes),
            ("query_cache_hits_total", status.query_cache_hits),
            ("query_cache_misses_total", status.query_cache_misses),
            ("sequence_bytes", status.sequence_bytes),
            ("ingest_memory_bytes_max", status.head_bytes_max),
            ("blocks", status.blocks),
            ("block_bytes", status.block_bytes),
            ("block_failures", status.block_failures.len() as u64),
            ("journal_bytes", status.journal_bytes),
            ("queue_batches", status.queue_batches),
            ("stored_total", status.accepted),
            ("stored_duplicate_total", status.duplicate),
            ("stored_rejected_total", rejected),
            ("stored_folded_total", status.folded),
            ("unknown_series_batches_total", status.unknown_series),
            ("refused_batches_total", status.refused),
            ("journal_failures_total", status.journal_failures),
            ("flushes_total", status.flushes),
            ("flush_failures_total", status.flush_failures),
            ("compactions_total", status.compactions),
            ("compaction_failures_total", status.compaction_failures),
            ("rollups_total", status.rollups),
            ("rollup_failures_total", status.rollup_failures),
            ("drops_total", status.drops),
            ("drop_failures_total", status.drop_failures),
            ("dropped_blocks_total", status.dropped_blocks),
            ("dropped_bytes_total", status.dropped_bytes),
            ("retention_clock_time_seconds", u64::try_from(status.retention_clock.0 / 1000).unwrap_or(0)),
            ("retention_clock_lag_seconds", u64::try_from(status.retention_lag / Ms::from_secs(1)).unwrap_or(0)),
            ("retention_held", u64::from(status.drops_held)),
            ("deletions_pending", status.tombstones),
            ("deletion_rewrites_total", status.erasures),
            ("deletion_failures_total", status.erasure_failures),
            ("recall_failures_total", status.recall_failures),
            ("read_clashes_total", status.read_clashes),
            ("written_clashes_total", status.written_clashes),
            ("disks", members.len() as u64),
            ("disks_live", live),
            ("disk_failures_total", members.iter().map(|member| member.failures).sum()),
            ("disk_healed_total", members.iter().map(|member| member.healed).sum()),
            ("disk_healed_bytes_total", members.iter().map(|member| member.healed_bytes).sum()),
            ("scrub_bytes_total", scrubs.bytes),
            ("scrub_errors_total", scrubs.errors),
            ("scrub_healed_total", scrubs.healed),
            ("scrub_completed_time_seconds", u64::try_from(scrubs.completed.0 / 1000).unwrap_or(0)),
            ("recovered_batches", status.recovered.batches),
            ("recovered_samples", status.recovered.samples),
            ("recovery_findings", status.recovered.findings.len() as u64),
            ("unacknowledged_findings", status.findings),
        ]
        .into_iter()
        .chain(self.live.counts().figures())
        .map(|(name, value)| Fact { name, value: value as f64 })
        .collect()
    }
}
