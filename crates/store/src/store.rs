//! The embedded store, in which `ogive serve` keeps its samples.
//!
//! Invariants: those of [`crate::ingest`]; a query sees everything acknowledged before it started, and each sample
//! once.
//! Threads: see [`crate::ingest`]; all end when the store is dropped, after what was submitted is durable.
//! Failure: a directory has one store at a time; a second one is refused. A torn journal is truncated, corruption is
//! reported in [`Status`], a broken manifest prevents the start.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::JoinHandle;

use ogive_journal::{DirectoryLock, Disk, Finding, Journal, Until};
use ogive_model::sequence::SourceTable;
use ogive_model::{
    Batch, Labels, Matcher, Ms, Opening, Partial, Select, SelectError, Selection, SeriesData, SeriesSet, Stamps,
    Tenant, TimeRange, Value, WallMs, WallNs,
};

use crate::bell::Bell;
use crate::block::BlockCache;
use crate::class::Class;
use crate::deletions;
use crate::findings::{Findings, NewFinding};
use crate::first::First;
use crate::heads::Heads;
use crate::ingest::FlushWish;
use crate::ingest::flusher::Flusher;
use crate::ingest::follow::{Audience, Follow, Follower, Watch};
use crate::ingest::head::Listing;
use crate::ingest::recall::Recall;
use crate::ingest::shard::{self, HeadSize, ToShard};
use crate::ingest::stats::{Recovered, Stats, Status};
use crate::ingest::writer::{Command, Core, Replayed, Submission, Writer, ids_of};
use crate::ingest::{Clock, Limits, Options, Queue, Refusal, Reply};
use crate::keep::{self, Bells, Maintainer};
use crate::layout::JOURNAL_DIRECTORY;
use crate::ledger::Ledger;
use crate::merge::{self, Clash, merge_telling};
use crate::opened::Opened;
use crate::record::RecordEncoder;
use crate::retention::Oldest;
use crate::retention_clock::RetentionClock;
use crate::scrub::{self, Scrubbed, Scrubber};
use crate::series_request::SeriesRequest;
use crate::snapshot::{self, SnapshotInfo};
use crate::sway::sway;
use crate::tombstone::{self, DeletionScope, Tombstone};
use crate::view::View;
use crate::{BlockId, BlockMeta, Blocks, Budget, Error, Manifest, StoredFinding};

/// An open store.
pub struct Store {
    queue: Arc<Queue<Command>>,
    shards: Vec<SyncSender<ToShard>>,
    ledger: Arc<Ledger>,
    bell: Arc<Bell<FlushWish>>,
    maintenance: Arc<Bell<keep::Wish>>,
    size: Arc<HeadSize>,
    stats: Arc<Stats>,
    findings: Findings,
    recovered: Recovered,
    retention_clock: Arc<RetentionClock>,
    head_bytes_max: u64,
    threads: Vec<JoinHandle<()>>,
    shard_threads: Vec<JoinHandle<()>>,
    /// Dropped last: the next store may begin when nothing of this one runs.
    _lock: DirectoryLock,
}

impl Store {
    /// Opens the store in `directory`, which is made if it is not there: reads its manifest, replays its journal
    /// and starts its threads.
    ///
    /// # Errors
    /// The disk's, or [`Error::Corrupt`] when the manifest is broken.
    pub fn open(disk: Arc<dyn Disk>, directory: &Path, options: Options, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let store = Self::begin(disk, directory, options, clock)?;
        store.delete_again()?;
        Ok(store)
    }

    /// Opens it without what a rollback has left to be deleted.
    fn begin(disk: Arc<dyn Disk>, directory: &Path, options: Options, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let OpenedDirectory { lock, manifest, blocks, sources, journal, met } = find(&disk, directory, &options)?;
        let now = clock.wall().to_ms();
        let findings = Findings::open(Arc::clone(&disk), directory, now);
        let size = Arc::new(HeadSize::default());
        let stats = Arc::new(Stats::default());
        let queue = Arc::new(Queue::new(options.queue_batches_max, options.queue_bytes_max));
        let (first, from) = (manifest.read_from(), manifest.replay_from);
        let ledger = Ledger::new(disk, directory, manifest, blocks)
            .with_float_cell_cost(options.float_cell_cost)
            .with_reserve(options.reserve_bytes);
        let (bell, maintenance) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        let OpenedRetention { oldest, clock: retention_clock, finding } = retention_of(&options, &ledger, &clock);
        let (shards, shard_threads): (Vec<_>, Vec<_>) =
            (0..options.shards.max(1)).map(|number| shard::start(number, Arc::clone(&size))).unzip();
        let core = core_of(Core::new(sources, limits(&options), &shards, &stats, &size, &oldest), &ledger, &clock);
        let bells = Bells { maintenance: Arc::clone(&maintenance), flusher: Arc::clone(&bell) };
        let keeping = Maintainer::new(&ledger, &bells, &stats, &clock, &oldest, &retention_clock, &options);
        let mut flusher = Flusher::new(&ledger, &shards, &queue, &stats, &clock, &options, &maintenance);
        let ring = Arc::clone(&bell);
        let mut writer = Writer {
            core,
            journal,
            queue: Arc::clone(&queue),
            synced: clock.now(),
            encoder: RecordEncoder::default(),
            clock,
            observer: options.observer.clone(),
            group: options.group_interval.into(),
            size: Arc::clone(&size),
            head_bytes_max: options.head_bytes_max,
            arrived: options.journal_arrivals.then_some(WallMs::MIN),
            unflushed_bytes: 0,
            unflushed_bytes_max: options.replay_bytes_max,
            want_flush: Box::new(move || ring.ring(None)),
            reserve: Arc::clone(ledger.reserve()),
        };
        let Replayed { mut recovered, mut lost, spans } = writer.replay(first, from, |mark| flusher.relieve(mark))?;
        let end = writer.journal.next().0;
        lost.extend(met.lost(&ledger.view().blocks, spans.around(end..end)));
        met.add_to(&mut recovered);
        recovered.findings.extend(finding);
        findings.note(now, lost);

        let (ring, interval, retry) = (Arc::clone(&bell), options.flush_interval, options.flush_retry);
        let threads = vec![
            start("journal", move || writer.run()),
            start("flush", move || flusher.run(&ring, interval, retry)),
            start("keep", move || keeping.run()),
        ];
        ring_for_earlier_work(&ledger, &maintenance, &bell);
        Ok(Self {
            queue,
            shards,
            ledger,
            bell,
            maintenance,
            size,
            stats,
            findings,
            recovered,
            retention_clock,
            head_bytes_max: options.head_bytes_max,
            threads,
            shard_threads,
            _lock: lock,
        })
    }

    /// Takes a batch. `reply` hears what became of it when it is durable and every later question sees it.
    ///
    /// # Errors
    /// [`Refusal::Busy`], [`Refusal::DiskFull`] or [`Refusal::TooLarge`]; then `reply` is never called.
    pub fn submit(&self, batch: Batch, reply: Reply) -> Result<(), Refusal> {
        self.admit()?;
        let frame = batch.encode().map_err(|error| Refusal::TooLarge(error.to_string()))?;
        self.submit_framed(batch, frame, reply)
    }

    /// As [`Store::submit`], for a batch that was decoded from `frame`: saves encoding it again.
    ///
    /// # Errors
    /// As [`Store::submit`].
    pub fn submit_framed(&self, batch: Batch, frame: Vec<u8>, reply: Reply) -> Result<(), Refusal> {
        self.submit_stamped(batch, frame, reply, None)
    }

    /// As [`Store::submit_framed`]; `stamps` hears how far the batch is.
    ///
    /// # Errors
    /// As [`Store::submit`].
    pub fn submit_stamped(
        &self,
        batch: Batch,
        frame: Vec<u8>,
        reply: Reply,
        stamps: Option<Arc<dyn Stamps>>,
    ) -> Result<(), Refusal> {
        self.admit()?;
        let ids = ids_of(&batch);
        assert_eq!(ids.len(), batch.series.len(), "each series of a batch has a place among the ids");
        let bytes = frame.len() + unfolded_bytes(&batch);
        let submission = Command::Submit(Box::new(Submission { batch, frame, ids, reply, stamps }));
        self.queue.push(submission, bytes).map_err(|(_, refused)| {
            self.stats.refused.add(1);
            refused.into()
        })
    }

    /// Whether there is room in the head. Counts and hurries what makes room, as a refused batch does.
    ///
    /// # Errors
    /// [`Refusal::Busy`], or [`Refusal::DiskFull`] when the disk keeps the head from being written.
    pub fn admit(&self) -> Result<(), Refusal> {
        // A bound that need not be met to the byte.
        if self.size.all_bytes() <= self.head_bytes_max {
            return Ok(());
        }
        self.stats.refused.add(1);
        self.bell.ring(None);
        Err(if self.stats.flush_full.get() > 0 { Refusal::DiskFull } else { Refusal::Busy })
    }

    /// Writes what is in memory as blocks, one for each tenant and window, and waits for it; none when there
    /// was nothing.
    ///
    /// # Errors
    /// The disk's; the samples stay where they are and the flush is tried again.
    pub fn flush(&self) -> Result<Vec<BlockMeta>, Error> {
        let (answer, done) = std::sync::mpsc::channel();
        self.bell.ring(Some(answer));
        done.recv().unwrap_or(Ok(Vec::new()))
    }

    /// As [`Store::flush`], and leaves no journal of what is written: for the end, so that the next start replays
    /// nothing and the disk holds nothing twice.
    ///
    /// # Errors
    /// As [`Store::flush`].
    pub fn flush_whole(&self) -> Result<Vec<BlockMeta>, Error> {
        // A queue that is closed has no writer, and nothing to rotate.
        let _ = self.queue.push_always(Command::Rotate);
        self.flush()
    }

    /// Deletes the samples of `tenant` in `range` of the series that all matchers of one of `selectors` accept: those
    /// that were acknowledged before this was called. Durable and in force when it returns; what arrives later for the
    /// same times stays. The bytes go as the maintenance thread writes the blocks anew: [`Store::settle`] waits for
    /// that.
    ///
    /// # Errors
    /// The disk's, [`Error::Refused`] or [`Error::TooManyDeletions`]; then nothing is deleted.
    pub fn delete(&self, tenant: &Tenant, selectors: &[Vec<Matcher>], range: TimeRange) -> Result<(), Error> {
        let room = || tombstone::check_room(&self.ledger.view().manifest.tombstones, selectors);
        room()?;
        // What is in memory goes to blocks, and the journal that it came from goes: a deletion is meant for blocks.
        self.flush_whole()?;
        sway();
        room()?;
        self.ledger.commit(None, |manifest| {
            let scope = DeletionScope { tenant, selectors, range };
            let before = manifest.tombstones.len();
            manifest.tombstones.extend(scope.tombstones(manifest.generation));
            let added = manifest.tombstones.len() - before;
            assert_eq!(
                added,
                selectors.len(),
                "each selector has a deletion, or what is acknowledged as deleted stays"
            );
        })?;
        self.maintenance.ring(None);
        Ok(())
    }

    /// The snapshots that may hold what [`Store::delete`] with the same arguments deletes.
    ///
    /// # Errors
    /// The disk's.
    pub fn snapshots_holding(
        &self,
        tenant: &Tenant,
        selectors: &[Vec<Matcher>],
        range: TimeRange,
    ) -> Result<Vec<String>, Error> {
        snapshot::holding(self.ledger.disk(), self.ledger.directory(), DeletionScope { tenant, selectors, range })
    }

    /// Notes in the snapshots `names` that `what` was deleted after they were made, for whoever brings one back: what
    /// [`Store::delete`] deletes of `scope`.
    ///
    /// # Errors
    /// The disk's.
    pub fn note_deletion(&self, names: &[String], what: &str, scope: DeletionScope<'_>) -> Result<(), Error> {
        let (disk, directory) = (self.ledger.disk(), self.ledger.directory());
        let made: Vec<Tombstone> = scope.tombstones(0).collect();
        names.iter().try_for_each(|name| snapshot::note_deletion(disk, directory, name, what, &made))
    }

    /// Deletes what a rollback brought back and was to keep deleted.
    fn delete_again(&self) -> Result<(), Error> {
        let (disk, directory) = (self.ledger.disk(), self.ledger.directory());
        let left = deletions::left(disk, directory)?;
        if left.is_empty() {
            return Ok(());
        }
        self.flush_whole()?;
        self.ledger.commit(None, |manifest| {
            let generation = manifest.generation;
            manifest.tombstones.extend(left.into_iter().map(|one| Tombstone { generation, ..one }));
        })?;
        self.maintenance.ring(None);
        deletions::done(disk, directory)
    }

    /// Removes the snapshots `names`.
    ///
    /// # Errors
    /// [`Error::Refused`] when one is not there; the disk's.
    pub fn delete_snapshots(&self, names: &[String]) -> Result<(), Error> {
        let (disk, directory) = (self.ledger.disk(), self.ledger.directory());
        names.iter().try_for_each(|name| snapshot::delete(disk, directory, name))
    }

    /// Waits until nothing is left to be done to the blocks.
    pub fn settle(&self) {
        // An error means that the store is shutting down.
        let _ = self.settling().recv();
    }

    /// Hears when nothing is left to be done to the blocks.
    pub(crate) fn settling(&self) -> Receiver<()> {
        let (answer, done) = std::sync::mpsc::channel();
        self.maintenance.ring(Some(answer));
        done
    }

    /// A source outside of this process brought data of `time`, on its own clock: what confirms the wall clock.
    pub fn witness(&self, source: u128, time: WallMs) {
        self.retention_clock.witness(source, time);
    }

    /// An operator says that the wall clock is right: retention goes by it from now on. Gives how far it was doubted.
    pub fn believe_clock(&self) -> Ms {
        let lag = self.retention_clock.believe();
        self.maintenance.ring(None);
        lag
    }

    /// Makes the snapshot `name`: exactly what was acknowledged before, and what is acknowledged meanwhile.
    ///
    /// # Errors
    /// [`Error::Refused`], or the disk's.
    pub fn snapshot(&self, name: &str, created: WallMs) -> Result<SnapshotInfo, Error> {
        let (disk, directory) = (self.ledger.disk(), self.ledger.directory());
        self.ledger.frozen(|manifest| {
            snapshot::create(disk, directory, name, created, manifest, |target| {
                let (answer, cut) = std::sync::mpsc::channel();
                let ending = |_| Error::Ending;
                self.queue.push_always(Command::Cut(target.to_owned(), answer)).map_err(|_| Error::Ending)?;
                Ok(cut.recv().map_err(ending)??)
            })
        })
    }

    /// All snapshots, by name.
    ///
    /// # Errors
    /// The disk's.
    pub fn snapshots(&self) -> Result<Vec<SnapshotInfo>, Error> {
        snapshot::list(self.ledger.disk(), self.ledger.directory())
    }

    /// Looks at every stored byte and heals what another copy has right. Records of the journal that are bad in every
    /// copy are in memory, which is written as blocks then; what stays bad is noted until somebody acknowledges it.
    ///
    /// # Errors
    /// What the disk or `pace` says.
    pub fn scrub(&self, now: WallMs, pace: scrub::Pace<'_>) -> Result<Scrubbed, Error> {
        let (disk, directory) = (self.ledger.disk(), self.ledger.directory());
        let mut scrubber = Scrubber::new(disk, directory, pace);
        let blocks = self.ledger.frozen(|_| {
            // Not the one that is frozen: ids that were taken are not on the disk.
            let manifest = &self.ledger.view().manifest;
            scrubber.manifest(directory, manifest);
            manifest.blocks.clone()
        });
        scrubber.add(self.retention_clock.scrub(disk, directory)?);
        let until = Until::Durable(self.stats.journal_durable.get());
        let is_live = |meta: &BlockMeta| self.ledger.view().blocks.metas().any(|live| live.id == meta.id);
        let mut scrubbed = scrubber.rest(&blocks, until, &is_live)?;
        self.ledger.reopen();
        self.save_journaled(&mut scrubbed);
        let lost = scrubbed.findings.iter().filter(|finding| !finding.healed && !self.is_known(finding));
        self.findings.note(now, lost.map(|finding| self.finding_of(finding, &blocks)).collect());
        Ok(scrubbed)
    }

    /// Writes what is in memory as blocks when records that it came from are bad in the journal.
    fn save_journaled(&self, scrubbed: &mut Scrubbed) {
        let journal = self.ledger.directory().join(JOURNAL_DIRECTORY);
        let is_saved = |finding: &&mut Finding| {
            !finding.healed && finding.path.parent() == Some(&journal) && !self.is_known(finding)
        };
        let mut bad: Vec<&mut Finding> = scrubbed.findings.iter_mut().filter(is_saved).collect();
        if bad.is_empty() {
            return;
        }
        let flushed = self.flush_whole();
        for finding in &mut bad {
            finding.healed = flushed.is_ok();
            finding.problem.push_str(match flushed {
                Ok(_) => "; what they held was in memory, and is in blocks now",
                Err(_) => "; what they held is in memory, and could not be written as blocks",
            });
            scrubbed.healed += u64::from(finding.healed);
        }
        assert!(scrubbed.healed <= scrubbed.found, "{} of {} are healed", scrubbed.healed, scrubbed.found);
    }

    /// Whether the start met a finding of the journal: what was lost then is not in memory.
    fn is_known(&self, Finding { path, offset, end, .. }: &Finding) -> bool {
        let (bytes, tail) =
            (format!("{}: bytes {offset}..{end} are bad", path.display()), format!("{}: the last", path.display()));
        self.recovered.findings.iter().any(|known| known.starts_with(&bytes) || known.starts_with(&tail))
    }

    /// A part that stays bad. Whoever reads a block meets it; what is bad in the journal is in memory until this ends.
    fn finding_of(&self, finding: &Finding, blocks: &[BlockMeta]) -> NewFinding {
        assert!(!finding.healed, "what is good again is not kept: {finding}");
        let name = finding.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let id = crate::block::parse_file_name(name);
        let meta = id.and_then(|id| blocks.iter().find(|meta| meta.id == id));
        let range = meta.map_or(TimeRange::ALL, BlockMeta::times);
        NewFinding { problem: finding.to_string(), tenant: meta.map(|meta| meta.tenant.clone()), range, silent: false }
    }

    /// What was found to be bad or lost since it was last acknowledged, the oldest first.
    #[must_use]
    pub fn findings(&self) -> Vec<StoredFinding> {
        self.findings.list()
    }

    /// Forgets the findings up to the number `up_to`; returns how many. Answers warn of them no more.
    ///
    /// # Errors
    /// The disk's; then none is forgotten.
    pub fn acknowledge(&self, up_to: u64) -> Result<usize, Error> {
        self.findings.acknowledge(up_to)
    }

    /// How many shards there are: each has a follower of its own.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// From now on the followers, one for each shard, hear of the samples of what is watched; those from before hear of
    /// nothing more.
    pub fn follow(&self, audience: Audience, mut followers: impl FnMut() -> Box<dyn Follower>) {
        self.tell_shards(audience, || Follow::Begin(followers()));
    }

    /// Followers hear of the series of `watch`, those that are here and those that come.
    pub fn watch(&self, audience: Audience, watch: Watch) {
        let view = self.ledger.view();
        let is_own = |tenant: &Tenant| watch.tenant.as_ref().is_none_or(|own| own == tenant);
        let flushed = view.blocks.metas().filter(|meta| is_own(&meta.tenant)).map(|meta| meta.time_max);
        let flushed = flushed.max().unwrap_or(WallMs::MIN);
        let watch = Arc::new(watch);
        self.tell_shards(audience, || Follow::Watch { watch: Arc::clone(&watch), flushed });
    }

    /// Ends a watch.
    pub fn unwatch(&self, audience: Audience, id: u64) {
        self.tell_shards(audience, || Follow::Unwatch(id));
    }

    /// Tells followers an instant behind everything that was acknowledged before.
    pub fn pass(&self, audience: Audience, until: WallNs) {
        self.tell_shards(audience, || Follow::Pass(until));
    }

    /// Nobody hears of samples any more; the followers are dropped.
    pub fn unfollow(&self, audience: Audience) {
        self.tell_shards(audience, || Follow::End);
    }

    /// Whose samples are in blocks, each once; of the heads a watch hears.
    #[must_use]
    pub fn block_tenants(&self) -> Vec<Tenant> {
        let view = self.ledger.view();
        let tenants: BTreeSet<&Tenant> = view.blocks.metas().map(|meta| &meta.tenant).collect();
        tenants.into_iter().cloned().collect()
    }

    fn tell_shards(&self, audience: Audience, mut message: impl FnMut() -> Follow) {
        for shard in &self.shards {
            // A shard that is gone panicked; whoever asks it next gets the error.
            let _ = shard.send(ToShard::Follow(audience, message()));
        }
    }

    /// How the store is.
    #[must_use]
    pub fn status(&self) -> Status {
        let view = self.ledger.view();
        let cache = view.blocks.cache_figures();
        Status {
            series: self.stats.series.get(),
            // ORDERING: Relaxed; numbers to look at.
            head_samples: self.size.samples.load(Ordering::Relaxed),
            head_bytes: self.size.bytes.load(Ordering::Relaxed),
            series_bytes: self.size.series_bytes(),
            block_index_bytes: view.blocks.index_bytes() as u64,
            query_cache_hits: cache.hits,
            query_cache_misses: cache.misses,
            query_cache_bytes: cache.bytes,
            sequence_bytes: self.stats.sequence_bytes.get(),
            head_bytes_max: self.head_bytes_max,
            blocks: view.blocks.len() as u64,
            block_bytes: view.blocks.metas().map(|meta| meta.bytes).sum(),
            block_failures: block_failures(&view.blocks),
            journal_bytes: self.stats.journal_bytes.get(),
            queue_batches: self.queue.len() as u64,
            accepted: self.stats.accepted.get(),
            duplicate: self.stats.duplicate.get(),
            folded: self.stats.folded.get(),
            unknown_series: self.stats.unknown_series.get(),
            rejected: self.stats.rejected(),
            refused: self.stats.refused.get(),
            journal_failures: self.stats.journal_failures.get(),
            flushes: self.stats.flushes.get(),
            flush_failures: self.stats.flush_failures.get(),
            compactions: self.stats.compactions.get(),
            compaction_failures: self.stats.compaction_failures.get(),
            rollups: self.stats.rollups.get(),
            rollup_failures: self.stats.rollup_failures.get(),
            drops: self.stats.drops.get(),
            drop_failures: self.stats.drop_failures.get(),
            dropped_blocks: self.stats.dropped_blocks.get(),
            dropped_bytes: self.stats.dropped_bytes.get(),
            tombstones: view.manifest.tombstones.len() as u64,
            erasures: self.stats.erasures.get(),
            erasure_failures: self.stats.erasure_failures.get(),
            recall_failures: self.stats.recall_failures.get(),
            read_clashes: self.stats.read_clashes.get(),
            written_clashes: self.stats.written_clashes.get(),
            retention_clock: self.retention_clock.now(),
            retention_lag: self.retention_clock.lag(),
            drops_held: self.stats.drops_held.get() > 0,
            horizons: view.manifest.horizons.clone(),
            recovered: self.recovered.clone(),
            findings: self.findings.count() as u64,
        }
    }

    /// The part of the store that is `tenant`'s.
    #[must_use]
    pub const fn tenant<'a>(&'a self, tenant: &'a Tenant) -> TenantView<'a> {
        TenantView { store: self, tenant }
    }

    fn opened(&self, tenant: &Tenant, selection: &Selection, opening: &Opening<'_>) -> Result<Opened<'_>, SelectError> {
        let check = |view: &View| Opened::check(view, tenant, selection, opening);
        let found = self.heads().find(requested(tenant, selection), opening, check)?;
        let opened = Opened::new(found, &self.stats, tenant, selection, opening)?;
        opened.warn(self.findings.warnings(tenant, selection.range));
        Ok(opened)
    }

    fn heads(&self) -> Heads<'_> {
        Heads { shards: &self.shards, ledger: &self.ledger }
    }
}

const fn requested<'a>(tenant: &'a Tenant, selection: &'a Selection) -> SeriesRequest<'a> {
    SeriesRequest { tenant, matchers: selection.matchers.as_slice(), range: selection.range }
}

/// A store as one tenant sees it.
#[derive(Clone, Copy)]
pub struct TenantView<'a> {
    store: &'a Store,
    tenant: &'a Tenant,
}

impl TenantView<'_> {
    /// The label names of the series that `matchers` accept and that have samples in `range`, ascending. Blocks
    /// are asked as wholes: a name may come from a sample of theirs that is outside.
    ///
    /// # Errors
    /// See [`SelectError`].
    pub fn label_names(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        opening: &Opening<'_>,
    ) -> Result<Vec<String>, SelectError> {
        let (tenant, heads) = (self.tenant, self.store.heads());
        let (view, mut names) = if matchers.is_empty() {
            let (view, names) = heads.list(tenant, range, &Listing::Names, usize::MAX, opening)?;
            (view, names.into_set()?)
        } else {
            let add = |all: &mut BTreeSet<String>, labels: &Labels| {
                for (name, _) in labels.iter().filter(|(name, _)| !all.contains(*name)).collect::<Vec<_>>() {
                    all.insert(name.to_owned());
                }
                Ok(())
            };
            heads.each_labels(SeriesRequest { tenant, matchers, range }, opening, BTreeSet::new, add)?
        };
        names.extend(view.blocks.label_names(tenant, matchers, range)?);
        Ok(names.into_iter().collect())
    }

    /// The first `limit` values of label `name`, as [`TenantView::label_names`].
    ///
    /// # Errors
    /// See [`SelectError`].
    pub fn label_values(
        &self,
        name: &str,
        matchers: &[Matcher],
        range: TimeRange,
        limit: usize,
        opening: &Opening<'_>,
    ) -> Result<Vec<String>, SelectError> {
        let (tenant, heads) = (self.tenant, self.store.heads());
        let (view, mut values) = if matchers.is_empty() {
            heads.list(tenant, range, &Listing::Values(name.to_owned()), limit, opening)?
        } else {
            let add = |all: &mut First<String>, labels: &Labels| {
                let value = labels.get(name);
                if !value.is_empty() {
                    all.add(value);
                }
                all.check()
            };
            heads.each_labels(
                SeriesRequest { tenant, matchers, range },
                opening,
                || First::new(limit, opening.held()),
                add,
            )?
        };
        view.blocks.label_values(SeriesRequest { tenant, matchers, range }, name, &mut values)?;
        let values = values.into_set()?;
        assert!(values.len() <= limit, "{} values where {limit} are asked for", values.len());
        Ok(values.into_iter().collect())
    }
}

impl TenantView<'_> {
    fn read(&self, selection: &Selection, budget: &mut Budget) -> Result<Vec<SeriesData>, SelectError> {
        let (view, heads) =
            self.store.heads().read(requested(self.tenant, selection), selection.labels_only, budget)?;
        let stored = view.select(self.tenant, selection, &heads, budget)?;
        let mut all = merge_telling(vec![stored, heads], |labels, clash| budget.clash(labels, clash));
        for data in &mut all {
            let clash = merge::collapse(data);
            if clash != Clash::default() {
                budget.clash(&data.labels, clash);
            }
        }
        self.store.stats.read_clashes.add(budget.clashes());
        debug_assert!(
            all.is_sorted_by(|one, next| (&one.labels, one.meta.kind) < (&next.labels, next.meta.kind)),
            "each series of the {} is in the answer once, ascending",
            all.len()
        );
        Ok(all)
    }
}

impl Select for TenantView<'_> {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        self.read(selection, &mut Budget::new(selection.samples_max))
    }

    fn select_partial(&self, selection: &Selection) -> Result<Partial, SelectError> {
        let mut budget = Budget::partial(selection.samples_max);
        let series = self.read(selection, &mut budget)?;
        let mut warnings = self.store.findings.warnings(self.tenant, selection.range);
        warnings.extend(budget.into_gaps());
        Ok(Partial { series, warnings })
    }

    fn open<'a>(
        &'a self,
        selection: &Selection,
        opening: &Opening<'_>,
    ) -> Result<Box<dyn SeriesSet + 'a>, SelectError> {
        Ok(Box::new(self.store.opened(self.tenant, selection, opening)?))
    }

    fn label_sets(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        limit: usize,
        opening: &Opening<'_>,
    ) -> Result<BTreeSet<Labels>, SelectError> {
        let add = |all: &mut First<Labels>, labels: &Labels| {
            all.add(labels);
            all.check()
        };
        let requested = SeriesRequest { tenant: self.tenant, matchers, range };
        let (view, mut first) =
            self.store.heads().each_labels(requested, opening, || First::new(limit, opening.held()), add)?;
        view.label_sets(requested, &mut first, opening)?;
        let sets = first.into_set()?;
        assert!(sets.len() <= limit, "{} label sets where {limit} are asked for", sets.len());
        Ok(sets)
    }

    fn histogram_names(&self, range: TimeRange) -> Result<BTreeSet<String>, SelectError> {
        let (view, names) =
            self.store.heads().list(self.tenant, range, &Listing::Histograms, usize::MAX, &Opening::UNBOUNDED)?;
        let mut names = names.into_set()?;
        names.extend(view.blocks.histogram_names(self.tenant, range)?);
        Ok(names)
    }
}

/// The default tenant's part.
impl Select for Store {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        self.tenant(&Tenant::default()).select(selection)
    }

    fn select_partial(&self, selection: &Selection) -> Result<Partial, SelectError> {
        self.tenant(&Tenant::default()).select_partial(selection)
    }

    fn open<'a>(
        &'a self,
        selection: &Selection,
        opening: &Opening<'_>,
    ) -> Result<Box<dyn SeriesSet + 'a>, SelectError> {
        Ok(Box::new(self.opened(&Tenant::default(), selection, opening)?))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.queue.close();
        self.bell.close();
        self.maintenance.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // Else the next start takes an earlier time for the present, and catches up with it.
        let _ = self.retention_clock.save(self.ledger.disk(), self.ledger.directory(), true);
        self.shards.clear();
        for thread in self.shard_threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    std::thread::Builder::new().name(name.into()).spawn(run).expect("a thread can be started")
}

const fn limits(options: &Options) -> Limits {
    // Half of the memory: the other is for samples.
    let series_bytes_max = options.head_bytes_max / 2;
    Limits { series_max: options.series_max, series_bytes_max, tenant: options.tenant_limits }
}

/// What a directory holds of a store.
struct OpenedDirectory {
    lock: DirectoryLock,
    manifest: Manifest,
    blocks: Blocks,
    sources: SourceTable,
    journal: Journal,
    met: OpeningProblems,
}

/// What opening met before the journal was replayed, one sentence each.
struct OpeningProblems {
    /// The manifest's, with whether samples may be missing for it.
    manifest: (Vec<String>, bool),
    blocks: Vec<String>,
    journal: Vec<String>,
    /// The end of the journal, when a record is lost there.
    last: Option<String>,
}

impl OpeningProblems {
    /// What is lost. Blocks that cannot be read are met by whoever reads them.
    fn lost(&self, blocks: &Blocks, last: TimeRange) -> Vec<NewFinding> {
        let (reported, is_lost) = &self.manifest;
        let reported = reported.iter().filter(|_| *is_lost).cloned();
        let mut lost: Vec<NewFinding> = reported.map(|reported| NewFinding::silent(reported, TimeRange::ALL)).collect();
        lost.extend(blocks.failures().filter_map(|(id, error)| {
            let meta = blocks.metas().find(|meta| meta.id == id)?;
            let range = meta.times();
            let (problem, tenant) = (block_failure(id, error), Some(meta.tenant.clone()));
            Some(NewFinding { problem, tenant, range, silent: false })
        }));
        lost.extend(self.last.iter().map(|reported| NewFinding::silent(reported.clone(), last)));
        lost
    }

    /// Adds what replay did not meet again.
    fn add_to(self, recovered: &mut Recovered) {
        let mut all = [self.manifest.0, self.blocks, self.journal].concat();
        all.retain(|finding| !recovered.findings.contains(finding));
        recovered.findings.splice(0..0, all);
    }
}

fn find(disk: &Arc<dyn Disk>, directory: &Path, options: &Options) -> Result<OpenedDirectory, Error> {
    disk.create_dir_all(directory)?;
    let lock = disk.lock(directory)?;
    snapshot::finish_rollback(&**disk, directory)?;
    let (manifest, reported) = Manifest::open(&**disk, directory)?;
    let blocks = Blocks::open(&**disk, directory, &manifest, BlockCache::new(options.query_cache_bytes));
    let sources = read_windows(&manifest, directory)?;
    let OpenedJournal { journal, problems, last } = open_journal(disk, directory, options, &manifest)?;
    assert_eq!(blocks.len(), manifest.blocks.len(), "each live block is open, or says why it is not");
    assert!(journal.next() >= manifest.replay_from, "a new record at {:?} is left out of a replay", journal.next());
    // More than the sentence that says which file was read: it names what no manifest does.
    let is_lost = reported.len() > 1;
    let met =
        OpeningProblems { manifest: (reported, is_lost), blocks: block_failures(&blocks), journal: problems, last };
    Ok(OpenedDirectory { lock, manifest, blocks, sources, journal, met })
}

fn block_failures(blocks: &Blocks) -> Vec<String> {
    blocks.failures().map(|(id, error)| block_failure(id, error)).collect()
}

fn block_failure(id: BlockId, error: &Error) -> String {
    format!("block {}: {error}", id.0)
}

fn read_windows(manifest: &Manifest, directory: &Path) -> Result<SourceTable, Error> {
    if manifest.windows.is_empty() {
        return Ok(SourceTable::default());
    }
    SourceTable::from_bytes(&manifest.windows).ok_or_else(|| Error::Corrupt {
        path: directory.join(crate::layout::MANIFEST_FILE),
        offset: 0,
        problem: "the table of sources is not one".into(),
    })
}

/// A journal before it is replayed.
struct OpenedJournal {
    journal: Journal,
    /// One sentence each.
    problems: Vec<String>,
    /// See [`OpeningProblems::last`].
    last: Option<String>,
}

fn open_journal(
    disk: &Arc<dyn Disk>,
    directory: &Path,
    options: &Options,
    manifest: &Manifest,
) -> Result<OpenedJournal, Error> {
    // The hasher's keys are the standard library's source of random numbers.
    let random = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0_u8) as u32;
    let options = ogive_journal::Options {
        segment_bytes: options.segment_bytes,
        mark: options.journal_mark.unwrap_or_else(random),
        first: manifest.replay_from,
    };
    let (journal, recovery) = Journal::open(Arc::clone(disk), &directory.join(JOURNAL_DIRECTORY), options)?;
    let reported = |(path, offset, bytes): (std::path::PathBuf, u64, u64)| {
        format!("{}: the last {bytes} bytes, from {offset} on, are torn and left out", path.display())
    };
    let torn = recovery.torn.map(reported);
    let last =
        torn.clone().filter(|_| recovery.torn_is_whole).map(|reported| format!("{reported}: a record, which was bad"));
    let torn = last.clone().or(torn);
    let problems = torn.into_iter().chain(recovery.corruptions.iter().map(ToString::to_string)).collect();
    Ok(OpenedJournal { journal, problems, last })
}

/// What decides about samples, knowing the series of the newest blocks.
fn core_of(mut core: Core, ledger: &Ledger, clock: &Arc<dyn Clock>) -> Core {
    core.registry.tick(clock.now());
    core.registry.remember(Recall::from_blocks(&ledger.view().blocks));
    core
}

/// What retention goes by.
struct OpenedRetention {
    oldest: Arc<Oldest>,
    clock: Arc<RetentionClock>,
    /// What was wrong with the clock's file.
    finding: Option<String>,
}

fn retention_of(options: &Options, ledger: &Ledger, clock: &Arc<dyn Clock>) -> OpenedRetention {
    let (opened, finding) = RetentionClock::open(ledger.disk(), ledger.directory(), &ledger.view().manifest, clock);
    let clock = Arc::new(opened);
    OpenedRetention { oldest: oldest_of(options, ledger, &clock), clock, finding }
}

/// Rings for what an earlier time left to be done.
fn ring_for_earlier_work(ledger: &Ledger, maintenance: &Bell<keep::Wish>, flusher: &Bell<FlushWish>) {
    // What came to an end while no store was open.
    maintenance.ring(None);
    if ledger.view().manifest.read_before > 0 {
        // A replay that wrote blocks left segments of which the next start needs the definitions: they go with a flush.
        flusher.ring(None);
    }
}

/// The oldest samples that are taken: what was dropped does not come back.
fn oldest_of(options: &Options, ledger: &Ledger, clock: &Arc<RetentionClock>) -> Arc<Oldest> {
    let oldest = Oldest::new(options.retention.clone(), Arc::clone(clock));
    for horizon in &ledger.view().manifest.horizons {
        if let Some(class) = Class::ALL.into_iter().find(|class| class.horizon() == horizon.resolution_ms) {
            oldest.raise(&horizon.tenant, class, horizon.until);
        }
    }
    Arc::new(oldest)
}

/// About what a decoded batch takes in memory.
fn unfolded_bytes(batch: &Batch) -> usize {
    let series: usize = batch.series.iter().flatten().map(|def| 64 + 48 * def.labels.len()).sum();
    let bins = |negative: &[i32], positive: &[i32]| 256 + 12 * (negative.len() + positive.len());
    let value = |value: &Value| match value {
        Value::Float(_) => 0,
        Value::Histogram(histogram) => bins(histogram.negative.indexes(), histogram.positive.indexes()),
        Value::FloatHistogram(histogram) => bins(histogram.negative.indexes(), histogram.positive.indexes()),
        Value::Text(text) => text.len(),
    };
    series
        + 16 * batch.known.len()
        + batch.samples.iter().flatten().map(|sample| 64 + value(&sample.value)).sum::<usize>()
}
