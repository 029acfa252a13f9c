//! One life of a store: its disks, its steps, and what it is known to hold.
//!
//! Invariants: the effect of a step follows from the step and from what came before. The store's own threads (journal,
//! flusher, maintenance, shards) are scheduled by the system: a step waits for those that it triggers, but the last act
//! of a flush, truncating the journal, and the maintenance thread's first one may swap places, so a power cut in one
//! may hit the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use ogive_journal::{Disk, Faults, Member, MemberState, MirrorDisk, MirrorOptions, SimulatedDisk};
use ogive_model::{
    Kind, MatchOp, Matcher, Ms, Ns, Resolution, RollupUse, Select, SelectError, Selection, SeriesData, Tenant,
    TimeRange, Verdict, WallMs, WallNs,
};

use super::damage::{blocks, pick_places, pick_trailer, root};
use super::model::{BEGIN_MS, Deletion, NAMES, SentBatch, expected, tenants, totals};
use crate::{Keep, ManualClock, Options, Refusal, Retention, Store, snapshot};

/// Seconds that raw samples are kept in lives that have retention.
const KEPT_SECONDS: i64 = 60;
const ROLLUP_MS: i64 = 10_000;

/// What a life has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Setup {
    pub(super) seed: u64,
    /// Two disks that hold the same.
    pub(super) mirror: bool,
    /// Raw samples go after a while; rollups stay.
    pub(super) retention: bool,
    /// The head is so small that flushes begin by themselves.
    pub(super) small_head: bool,
}

/// What happens to a store. Numbers choose among what there is then.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Send {
        hear: bool,
    },
    Again(u64),
    Verify,
    Flush,
    Settle,
    Advance {
        seconds: u32,
    },
    Delete {
        what: u64,
        from: i64,
        seconds: i64,
    },
    Snapshot(u8),
    Rollback(u8),
    /// Bits of two sections of one block, or of two files, one on each disk of a mirror.
    Flip(u64),
    /// A bit of the last 24 bytes of a block.
    FlipTrailer {
        disk: usize,
        bit: usize,
    },
    Kill,
    Cut,
    CutAfter(u64),
    SyncErrors {
        disk: usize,
    },
    Errors {
        disk: usize,
    },
    /// Everything fails on one disk.
    Dead {
        disk: usize,
    },
    Room(u64),
    NoFaults,
}

/// What was there at a moment: a snapshot's.
#[derive(Clone)]
struct Moment {
    applied: BTreeSet<SentBatch>,
    deletions: Vec<Deletion>,
}

/// What lives came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) batches: u64,
    /// Batches sent without the labels of most series.
    pub(super) by_identity: u64,
    pub(super) points_again: u64,
    pub(super) ends: u64,
    /// Power cuts in the middle of a change of the disk.
    pub(super) cuts: u64,
    pub(super) deletions: u64,
    pub(super) snapshots: u64,
    pub(super) rollbacks: u64,
    pub(super) flips: u64,
    pub(super) healed: u64,
    pub(super) members_lost: u64,
    pub(super) compactions: u64,
    pub(super) rollups: u64,
    pub(super) dropped: u64,
}

impl Sums {
    pub(super) fn add(&mut self, other: &Self) {
        self.batches += other.batches;
        self.by_identity += other.by_identity;
        self.points_again += other.points_again;
        self.ends += other.ends;
        self.cuts += other.cuts;
        self.deletions += other.deletions;
        self.snapshots += other.snapshots;
        self.rollbacks += other.rollbacks;
        self.flips += other.flips;
        self.healed += other.healed;
        self.members_lost += other.members_lost;
        self.compactions += other.compactions;
        self.rollups += other.rollups;
        self.dropped += other.dropped;
    }
}

type Answer = Receiver<Result<Verdict, Refusal>>;

pub(super) struct Life {
    setup: Setup,
    story: String,
    disks: Vec<SimulatedDisk>,
    mirror: Option<MirrorDisk>,
    store: Option<Store>,
    clock: Arc<ManualClock>,
    second: i64,
    sent: Vec<SentBatch>,
    acknowledged: BTreeSet<SentBatch>,
    doubtful: BTreeSet<SentBatch>,
    /// With the number of their samples.
    waiting: Vec<(SentBatch, u64, Answer)>,
    /// Batches whose series must be declared: the store did not know them.
    unknown: BTreeSet<SentBatch>,
    deletions: Vec<Deletion>,
    /// A deletion that failed: it may come true with the next start.
    half_deleted: Option<(Deletion, bool)>,
    snapshots: BTreeMap<u8, Moment>,
    pub(super) sums: Sums,
}

impl Life {
    /// A life whose power goes in the middle of the `cut`th change of the disk, if it gets so far.
    pub(super) fn new(setup: Setup, cut: Option<u64>) -> Self {
        let disks: Vec<_> =
            (0..1 + u64::from(setup.mirror)).map(|at| SimulatedDisk::new(setup.seed * 2 + at)).collect();
        cut.into_iter().for_each(|cut| disks[0].cut_power_after(cut));
        let mut life = Self {
            setup,
            story: format!("{setup:?} cut {cut:?}"),
            disks,
            mirror: None,
            store: None,
            clock: Arc::new(ManualClock::new(WallNs(BEGIN_MS * 1_000_000))),
            second: 0,
            sent: Vec::new(),
            acknowledged: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            waiting: Vec::new(),
            unknown: BTreeSet::new(),
            deletions: Vec::new(),
            half_deleted: None,
            snapshots: BTreeMap::new(),
            sums: Sums::default(),
        };
        life.begin();
        life
    }

    fn options(&self) -> Options {
        let ages = [(0, Duration::from_secs(KEPT_SECONDS.unsigned_abs()))];
        let keep = Keep { ages: ages.into_iter().filter(|_| self.setup.retention).collect(), ..Keep::default() };
        Options {
            segment_bytes: 4096,
            head_bytes_max: self.head_bytes_max(),
            group_interval: Duration::ZERO,
            flush_interval: Duration::from_secs(3600),
            // In half of the lives a flush that failed comes again in the middle of what comes next.
            flush_retry: Duration::from_millis(if self.setup.seed.is_multiple_of(2) { 1 } else { 1000 }),
            journal_mark: Some(7),
            // The fewest, so that many lives see blocks become one.
            compact_blocks: 2,
            window: Ms(40_000),
            lateness: Duration::from_secs(20),
            rollups: vec![ROLLUP_MS as u32],
            retention: Retention { default: keep, ..Retention::default() },
            ..Options::default()
        }
    }

    const fn head_bytes_max(&self) -> u64 {
        if self.setup.small_head { 64 << 10 } else { 8 << 20 }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("the store is open")
    }

    fn is_powered(&self) -> bool {
        self.disks.iter().all(SimulatedDisk::is_powered)
    }

    /// The disk as a process that begins now has it. Members of a mirror that must be filled are.
    fn disk(&mut self) -> Result<Arc<dyn Disk>, ogive_journal::Error> {
        let [one, other] = &self.disks[..] else { return Ok(Arc::new(self.disks[0].process())) };
        let member = |at: usize, disk: &SimulatedDisk| Member { root: root(at), disk: Arc::new(disk.process()) };
        let members = vec![member(0, one), member(1, other)];
        let mut random = fastrand::Rng::with_seed(self.setup.seed ^ self.sums.ends);
        let random = Box::new(move || random.u64(..u64::MAX));
        let options = MirrorOptions { degraded: false, random, tell: Arc::new(|_| {}) };
        let (mirror, stale) = MirrorDisk::open(members.clone(), options)?;
        for path in stale {
            let at = usize::from(path == root(1));
            // A full disk keeps a mirror from being whole, not from being used.
            match mirror.rebuild(None, members[at].clone(), &mut |_| {}, &mut |_| Ok(())) {
                Ok(()) => self.sums.members_lost += 1,
                Err(error) if !self.is_powered() => return Err(error),
                Err(_) => {}
            }
        }
        self.mirror = Some(mirror.clone());
        Ok(Arc::new(mirror))
    }

    /// Starts a process. A power cut that was waiting may come in the middle of that.
    fn begin(&mut self) {
        loop {
            let opened = self
                .disk()
                .map_err(crate::Error::from)
                .and_then(|disk| Store::open(disk, &root(0), self.options(), Arc::clone(&self.clock) as _));
            match opened {
                Ok(store) => {
                    assert!(store.status().head_bytes <= self.head_bytes_max(), "{}: {:?}", self.story, store.status());
                    self.store = Some(store);
                    return;
                }
                Err(_) if !self.is_powered() => {
                    self.sums.cuts += 1;
                    self.mirror = None;
                    self.disks.iter().for_each(SimulatedDisk::cut_power);
                    self.disks.iter().for_each(SimulatedDisk::restart);
                }
                Err(error) => panic!("{}: {error}", self.story),
            }
        }
    }

    fn submit(&mut self, sent: SentBatch) {
        let (reply, answer) = std::sync::mpsc::channel();
        let by_identity = sent.n % 3 == 1 && !self.unknown.remove(&sent);
        let batch = sent.batch(by_identity);
        let samples = batch.samples.len() as u64;
        let taken = self.store().submit(batch, Box::new(move |result| reply.send(result).unwrap_or(())));
        if taken.is_ok() {
            self.waiting.push((sent, samples, answer));
        }
        if !self.acknowledged.contains(&sent) {
            self.doubtful.insert(sent);
        }
        self.sums.by_identity += u64::from(by_identity);
    }

    /// Hears the replies to all that was submitted; one that never comes leaves its batch in doubt.
    fn hear(&mut self) {
        for (sent, samples, answer) in self.waiting.drain(..) {
            let Ok(answer) = answer.recv_timeout(Duration::from_secs(60)) else { continue };
            let verdict = match answer {
                Ok(verdict) => verdict,
                Err(Refusal::UnknownSeries(_)) => {
                    assert!(!self.acknowledged.contains(&sent), "{}: {sent:?} again", self.story);
                    self.unknown.insert(sent);
                    continue;
                }
                Err(_) => continue,
            };
            assert_eq!(verdict.accepted + verdict.duplicate + verdict.rejected.len() as u64, samples);
            if self.acknowledged.contains(&sent) {
                assert_eq!(verdict.duplicate, samples, "{}: {sent:?} again", self.story);
            } else if verdict.accepted > 0 && !self.setup.retention {
                // Points that other batches had are duplicates; the mark is always taken.
                let taken = verdict.accepted + verdict.duplicate;
                assert_eq!(taken, sent.contents().len() as u64, "{}: {sent:?}", self.story);
                self.sums.points_again += verdict.duplicate;
            }
            self.doubtful.remove(&sent);
            self.acknowledged.insert(sent);
        }
    }

    /// What is at or before this may be gone.
    const fn kept_after_ms(&self) -> i64 {
        if self.setup.retention { BEGIN_MS + (self.second - KEPT_SECONDS) * 1000 } else { i64::MIN }
    }

    fn read(&self, tenant: usize, range: TimeRange, resolution: Resolution) -> Result<Vec<SeriesData>, SelectError> {
        select(self.store(), &tenants()[tenant], range, resolution)
    }

    /// As [`Life::read`]; none when a power cut came in the middle.
    fn must_read(&self, tenant: usize, range: TimeRange, resolution: Resolution) -> Option<Vec<SeriesData>> {
        match self.read(tenant, range, resolution) {
            Ok(found) => Some(found),
            Err(_) if !self.is_powered() => None,
            Err(error) => panic!("{}: {error}", self.story),
        }
    }

    /// The batches whose marks are there, each once, and none that was not sent.
    fn applied(&self, found: &[Vec<SeriesData>]) -> BTreeSet<SentBatch> {
        let by_mark: BTreeMap<i64, SentBatch> = self.sent.iter().map(|sent| (sent.mark_ms(), *sent)).collect();
        let marks = found.iter().flatten().filter(|data| data.labels.metric_name() == "mark");
        let mut applied = BTreeSet::new();
        for (time, count) in marks.flat_map(|data| data.floats.times.iter().zip(&data.floats.values)) {
            let sent = by_mark.get(time).unwrap_or_else(|| panic!("{}: nobody sent the mark at {time}", self.story));
            assert_eq!(*count, 1.0, "{}: {sent:?} is there {count} times", self.story);
            applied.insert(*sent);
        }
        applied
    }

    /// Everything that is acknowledged is there once, what is in doubt at most once, each batch is whole, what was
    /// deleted is gone, and nothing else is there. Gives the batches that are there.
    fn verify(&mut self, rollups: bool) -> Option<BTreeSet<SentBatch>> {
        let after_ms = self.kept_after_ms();
        let range = TimeRange::from_ms(after_ms, i64::MAX);
        let found = [self.must_read(0, range, Resolution::Finest)?, self.must_read(1, range, Resolution::Finest)?];
        let applied = self.applied(&found);
        let kept = |sent: &&SentBatch| sent.mark_ms() > after_ms;
        let lost: Vec<_> = self.acknowledged.iter().filter(kept).filter(|sent| !applied.contains(sent)).collect();
        assert!(lost.is_empty(), "{}: lost {lost:?}", self.story);
        let known = |sent: &&SentBatch| self.acknowledged.contains(sent) || self.doubtful.contains(sent);
        let invented: Vec<_> = applied.iter().filter(|sent| !known(sent)).collect();
        assert!(invented.is_empty(), "{}: invented {invented:?}", self.story);
        self.judge_half_deleted(&applied, &found);
        for (tenant, found) in found.iter().enumerate() {
            let deletions: Vec<&Deletion> = self.deletions.iter().collect();
            let expected = expected(tenant, &applied, &deletions, after_ms);
            for (found, expected) in found.iter().zip(&expected) {
                assert!(found == expected, "{}: found {found:?}\nexpected {expected:?}", self.story);
            }
            assert_eq!(found.len(), expected.len(), "{}", self.story);
            if rollups {
                self.verify_rollups(tenant, &applied, &deletions)?;
            }
        }
        Some(applied)
    }

    /// What rollups give is what the samples come to; and below the horizon no number is left.
    fn verify_rollups(&self, tenant: usize, applied: &BTreeSet<SentBatch>, deletions: &[&Deletion]) -> Option<()> {
        let start_ms = self.kept_after_ms().max(BEGIN_MS - 1_000_000).div_euclid(ROLLUP_MS) * ROLLUP_MS + ROLLUP_MS;
        let range = TimeRange::from_ms(start_ms, BEGIN_MS + 1_000_000_000);
        let together = Resolution::Aligned { step: Ms(ROLLUP_MS), use_as: RollupUse::Together };
        let found = totals(&self.must_read(tenant, range, together)?);
        let expected = totals(&expected(tenant, applied, deletions, start_ms));
        assert_eq!(found, expected, "{}: rollups", self.story);
        let horizons = self.store().status().horizons;
        let raw = horizons.iter().find(|one| one.resolution_ms == 0 && one.tenant == tenants()[tenant]);
        if let Some(horizon) = raw {
            assert!(horizon.until <= WallMs(self.kept_after_ms()), "{}: too much is gone", self.story);
            let range = TimeRange::from_ms(i64::MIN, horizon.until.0);
            let left = self.must_read(tenant, range, Resolution::Width(0))?;
            // Texts have a retention of their own, and none here.
            let numbers: Vec<_> = left.iter().filter(|data| data.meta.kind != Kind::Text).collect();
            assert!(numbers.is_empty(), "{}: {numbers:?} is too old", self.story);
        }
        Some(())
    }

    /// A deletion that failed has not happened, unless a later start found it in the manifest that it left.
    fn judge_half_deleted(&mut self, applied: &BTreeSet<SentBatch>, found: &[Vec<SeriesData>]) {
        let Some((deletion, true)) = &self.half_deleted else { return };
        let after_ms = self.kept_after_ms();
        let deletions: Vec<&Deletion> = self.deletions.iter().chain([deletion]).collect();
        let holds = (0..2).all(|tenant| expected(tenant, applied, &deletions, after_ms) == found[tenant]);
        let (deletion, _) = self.half_deleted.take().expect("it was there");
        if holds {
            self.deletions.push(deletion);
        }
    }

    /// Ends the process in one of the ways that processes end, and begins the next.
    fn crash(&mut self, kill: bool) {
        self.sums.ends += 1;
        self.sums.cuts += u64::from(!self.is_powered());
        self.count_store();
        match kill {
            true => self.disks.iter().for_each(SimulatedDisk::kill_process),
            false => self.disks.iter().for_each(SimulatedDisk::cut_power),
        }
        (self.store, self.mirror) = (None, None);
        self.hear();
        self.disks.iter().for_each(SimulatedDisk::restart);
        if let Some((_, restarted)) = &mut self.half_deleted {
            *restarted = true;
        }
        self.begin();
        self.verify(true);
    }

    fn count_store(&mut self) {
        let Some(store) = &self.store else { return };
        let status = store.status();
        self.sums.compactions += status.compactions;
        self.sums.rollups += status.rollups;
        self.sums.dropped += status.dropped_blocks;
    }

    fn delete(&mut self, what: u64, from: i64, seconds: i64) {
        self.hear();
        // Who is there is known; the one before that failed may come true only now.
        let Some(applied) = self.verify(false) else { return };
        if self.half_deleted.is_some() {
            return;
        }
        let start_ms = BEGIN_MS + (self.second + from) * 1000;
        let range = TimeRange::from_ms(start_ms, start_ms + seconds * 1000);
        let name = NAMES[what as usize % NAMES.len()];
        let deletion = Deletion { tenant: (what / 7 % 2) as usize, name, range, applied };
        let selectors = [vec![Matcher::new("__name__", MatchOp::Equal, name).unwrap()]];
        let done = self.store().delete(&tenants()[deletion.tenant], &selectors, range);
        match done {
            Ok(()) => {
                self.deletions.push(deletion);
                self.sums.deletions += 1;
                if self.is_powered() {
                    self.verify(false);
                }
            }
            Err(_) => self.half_deleted = Some((deletion, false)),
        }
    }

    fn snapshot(&mut self, number: u8) {
        self.hear();
        let Some(applied) = self.verify(false) else { return };
        let name = format!("s{number}");
        if self.snapshots.contains_key(&number) || self.half_deleted.is_some() {
            return;
        }
        // One that failed halfway is made anew by the next of its name.
        if self.store().snapshot(&name, WallMs(BEGIN_MS)).is_ok() {
            self.snapshots.insert(number, Moment { applied, deletions: self.deletions.clone() });
            self.sums.snapshots += 1;
        }
    }

    /// Stops the store without faults, and makes it what it was.
    fn rollback(&mut self, number: u8) {
        let Some(moment) = self.snapshots.get(&number).cloned() else { return };
        self.hear();
        self.crash(true);
        self.no_faults();
        (self.store, self.mirror) = (None, None);
        let disk = self.disk().unwrap();
        let kept = format!("before{}", self.sums.rollbacks);
        snapshot::rollback(&*disk, &root(0), &format!("s{number}"), &kept, WallMs(BEGIN_MS), false).unwrap();
        drop(disk);
        self.mirror = None;
        self.sums.rollbacks += 1;
        self.doubtful = self.sent.iter().filter(|sent| !moment.applied.contains(sent)).copied().collect();
        (self.acknowledged, self.deletions, self.half_deleted) = (moment.applied, moment.deletions, None);
        self.begin();
        let applied = self.verify(true).expect("nothing is wrong with the disk");
        let later: Vec<_> = applied.iter().filter(|sent| !self.acknowledged.contains(sent)).collect();
        assert!(later.is_empty(), "{}: {later:?} came later", self.story);
    }

    /// Whatever happened since, each snapshot is what was there when it was made, as a store of its own.
    fn verify_snapshots(&self) {
        let disk: Arc<dyn Disk> = match &self.mirror {
            Some(mirror) => Arc::new(mirror.clone()),
            None => Arc::new(self.disks[0].process()),
        };
        for (number, moment) in &self.snapshots {
            let target = Member { root: format!("/clone{number}").into(), disk: Arc::new(self.disks[0].process()) };
            let sources = [root(0)];
            snapshot::clone_to(&*disk, &root(0), &format!("s{number}"), &sources, &target, 1)
                .unwrap_or_else(|error| panic!("{}: snapshot {number}: {error}", self.story));
            let store = Store::open(target.disk, &target.root, self.options(), Arc::clone(&self.clock) as _)
                .unwrap_or_else(|error| panic!("{}: snapshot {number}: {error}", self.story));
            let range = TimeRange::from_ms(self.kept_after_ms(), i64::MAX);
            let found = tenants().map(|of| select(&store, &of, range, Resolution::Finest).unwrap());
            let applied = self.applied(&found);
            let kept = |sent: &&SentBatch| sent.mark_ms() > range.start.0;
            let lost: Vec<_> = moment.applied.iter().filter(kept).filter(|sent| !applied.contains(sent)).collect();
            let later: Vec<_> = applied.iter().filter(|sent| !moment.applied.contains(sent)).collect();
            assert!(lost.is_empty() && later.is_empty(), "{}: snapshot {number}: {lost:?} {later:?}", self.story);
            let deletions: Vec<&Deletion> = moment.deletions.iter().collect();
            for (tenant, found) in found.iter().enumerate() {
                let expected = expected(tenant, &applied, &deletions, range.start.0);
                assert!(*found == expected, "{}: snapshot {number}: {found:?}\n{expected:?}", self.story);
            }
        }
    }

    fn mirror_is_whole(&self) -> bool {
        let live = |mirror: &MirrorDisk| mirror.members().iter().all(|member| member.state == MemberState::Live);
        self.mirror.as_ref().is_some_and(live)
    }

    /// Flips bits that `pick` chooses on the disks of a whole mirror. Reads heal what they meet, a scrub the rest.
    fn flip(&mut self, pick: impl Fn(&SimulatedDisk) -> Vec<(usize, PathBuf, usize)>) {
        // A new process: what it uses is what the manifest on the disk names, also after a change that failed halfway.
        self.no_faults();
        self.crash(true);
        self.no_faults();
        if !self.mirror_is_whole() {
            return;
        }
        let _ = self.store().flush();
        self.store().settle();
        let healed =
            |life: &Self| -> u64 { life.mirror.iter().flat_map(MirrorDisk::members).map(|member| member.healed).sum() };
        let before = healed(self);
        let places = pick(&self.disks[0]);
        for (at, path, bit) in &places {
            self.disks[*at].flip_bit(&root(*at).join(path), *bit);
        }
        self.verify(false);
        let scrubbed = self
            .store()
            .scrub(WallMs(BEGIN_MS), &mut |_, _| Ok(()))
            .unwrap_or_else(|error| panic!("{}: {error}", self.story));
        let (findings, stored) = (&scrubbed.findings, self.stored());
        assert_eq!(scrubbed.found, scrubbed.healed, "{}: {places:?}: {findings:?} of {stored:#?}", self.story);
        let bytes = |at: usize| blocks(&self.disks[at], at).into_values().collect::<Vec<_>>();
        assert!(bytes(0) == bytes(1), "{}: a copy is still bad: {places:?}", self.story);
        let (healed, flipped) = (healed(self) - before, places.len() as u64);
        assert!(healed >= flipped, "{}: {healed} healed of {places:?}", self.story);
        (self.sums.flips, self.sums.healed) = (self.sums.flips + flipped, self.sums.healed + flipped);
    }

    /// The journal's segments on each disk with their first bytes, for a failure's message.
    fn stored(&self) -> Vec<String> {
        let of = |(at, disk): (usize, &SimulatedDisk)| {
            let paths = disk.list(&root(at).join(crate::layout::JOURNAL_DIRECTORY)).unwrap_or_default();
            let line = |path: &PathBuf| {
                let bytes = disk.read(path).unwrap_or_default();
                format!("{}: {} bytes {:02x?}", path.display(), bytes.len(), &bytes[..bytes.len().min(96)])
            };
            paths.iter().map(line).collect::<Vec<_>>()
        };
        self.disks.iter().enumerate().flat_map(of).collect()
    }

    fn no_faults(&self) {
        self.disks.iter().for_each(|disk| {
            disk.set_faults(Faults::default());
            disk.set_capacity(None);
        });
    }

    fn set_faults(&self, disk: usize, faults: Faults) {
        self.disks[disk % self.disks.len()].set_faults(faults);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Send { hear } => {
                let sent = SentBatch { n: self.sent.len() as u64, second: self.second };
                self.sent.push(sent);
                self.submit(sent);
                if hear {
                    self.hear();
                }
            }
            Step::Again(_) if self.sent.is_empty() => {}
            Step::Again(choice) => {
                self.hear();
                self.submit(self.sent[choice as usize % self.sent.len()]);
                self.hear();
            }
            Step::Verify => {
                self.hear();
                self.verify(false);
            }
            Step::Flush => {
                self.hear();
                let _ = self.store().flush();
                self.store().settle();
            }
            Step::Settle => self.store().settle(),
            Step::Advance { seconds } => {
                self.hear();
                self.clock.advance(Ns(i64::from(seconds) * 1_000_000_000));
                self.second += i64::from(seconds);
                self.store().settle();
            }
            Step::Delete { what, from, seconds } => self.delete(what, from, seconds),
            Step::Snapshot(number) => self.snapshot(number),
            Step::Rollback(number) => self.rollback(number),
            Step::Flip(choice) => self.flip(|disk| {
                let places = pick_places(disk, fastrand::Rng::with_seed(choice));
                places.into_iter().flatten().zip(0..).map(|((path, bit), at)| (at, path, bit)).collect()
            }),
            Step::FlipTrailer { disk: at, bit } => {
                self.flip(|disk| pick_trailer(disk, bit).map(|(path, bit)| (at, path, bit)).into_iter().collect());
            }
            Step::Kill => self.crash(true),
            Step::Cut => self.crash(false),
            Step::CutAfter(count) => self.disks[0].cut_power_after(count),
            Step::SyncErrors { disk } => self.set_faults(disk, Faults { sync_error: 300, ..Faults::default() }),
            Step::Errors { disk } => self.set_faults(disk, all_faults(100)),
            Step::Dead { disk } => self.set_faults(disk, all_faults(1000)),
            Step::Room(bytes) => self.disks[0].set_capacity(Some(self.disks[0].used_bytes() + bytes)),
            Step::NoFaults => self.no_faults(),
        }
        if !self.is_powered() {
            self.crash(false);
        }
    }

    /// Takes all steps; then, without faults, everything in doubt is sent until it is acknowledged, and all is there
    /// once.
    pub(super) fn run(mut self, steps: &[Step]) -> Sums {
        let story = std::mem::take(&mut self.story);
        for (at, step) in steps.iter().enumerate() {
            self.story = format!("{story} step {at} {step:?}");
            self.step(*step);
        }
        self.story = format!("{story} at the end");
        self.finish();
        self.sums.batches = self.sent.len() as u64;
        self.sums
    }

    fn finish(&mut self) {
        self.no_faults();
        // A scheduled power cut may still come.
        for _ in 0..1000 {
            if !self.is_powered() {
                self.crash(false);
            }
            self.hear();
            let doubtful: Vec<SentBatch> = self.doubtful.iter().copied().collect();
            doubtful.into_iter().for_each(|sent| self.submit(sent));
            self.hear();
            if self.doubtful.is_empty() && self.is_powered() {
                break;
            }
        }
        assert_eq!(self.acknowledged, self.sent.iter().copied().collect(), "{}", self.story);
        let _ = self.store().flush();
        self.store().settle();
        self.crash(!self.is_powered());
        self.verify(true).expect("nothing is wrong with the disk");
        assert!(self.store().status().block_failures.is_empty(), "{}", self.story);
        self.verify_snapshots();
        self.count_store();
    }
}

fn select(
    store: &Store,
    tenant: &Tenant,
    range: TimeRange,
    resolution: Resolution,
) -> Result<Vec<SeriesData>, SelectError> {
    let selection = Selection { resolution, ..Selection::new(Vec::new(), range) };
    store.tenant(tenant).select(&selection)
}

fn all_faults(rate: u32) -> Faults {
    Faults { write_error: rate, short_write: rate * 3, sync_error: rate, name_error: rate, truncate_error: rate }
}
