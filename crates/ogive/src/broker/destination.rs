//! One cluster: its cursor, its threads, and what they did.
//!
//! Invariants: a cursor's file is written by one thread at a time; a batch is done when its endpoint said so, and not
//! before.
//! Threads: as many senders as the destination has connections, under one lock that is not held while they send.
//! Failure: what is not answered is sent again after a pause, to whatever endpoint is free then; a file that cannot be
//! written keeps segments in the spool, and what was sent is sent again after a crash.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use anyhow::Context;
use ogive_broker::{
    Board, Cursor, Delivery, EndpointResult, Endpoints, Error, Gap, GapReason, Job, Lag, SegmentState, Target, Turn,
};
use ogive_export::{Outcome, random_source};
use ogive_journal::{Disk, RealDisk};
use ogive_model::{MonoNs, Ms, Ns, Reason, WallMs, WallNs};
use ogive_probe::Clock;

use super::config;
use super::names::{self, Names, Resolve};
use super::way::Route;

/// The longest time that a sender sleeps: the most that a missed wake-up costs.
const SLEEP: Duration = Duration::from_secs(1);
/// The rate is computed over 10 s of acknowledgements.
const RATE_SECONDS: usize = 10;
/// The same problem is reported once a minute.
const AGAIN: Ms = Ms::from_secs(60);
/// 16 gaps that were reported are shown; the destination itself has them all.
const REPORTED_MAX: usize = 16;

/// Wakes the senders when there is something new to send.
#[derive(Default)]
pub(super) struct Wakeup {
    rung: Mutex<u64>,
    heard: Condvar,
}

impl Wakeup {
    pub(super) fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.heard.notify_all();
    }

    fn rung(&self) -> u64 {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it rings after it had rung `before` times, and at most `longest`.
    fn wait(&self, before: u64, longest: Duration) {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.heard.wait_timeout_while(rung, longest, |rung| *rung == before));
    }
}

/// Statistics of the senders.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) batches: u64,
    pub(super) samples_refused: BTreeMap<&'static str, u64>,
    pub(super) batches_refused: u64,
    /// Bytes of frames that were acknowledged, and of the bodies that were sent, also in vain.
    pub(super) frame_bytes: u64,
    pub(super) body_bytes: u64,
    pub(super) failures: u64,
    pub(super) busy: u64,
    /// The last error of an endpoint, and its time.
    pub(super) problem: Option<(WallMs, String)>,
    pub(super) acknowledged_at: Option<WallMs>,
    /// The last gaps that the destination has, the newest first.
    pub(super) reported: VecDeque<Arc<Gap>>,
    /// Batches and bytes acknowledged in each of the last seconds, by the second's number.
    seconds: [(i64, u64, u64); RATE_SECONDS],
}

/// What is acknowledged in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    pub(super) batches: f64,
    pub(super) bytes: f64,
}

impl Figures {
    fn acknowledged(&mut self, now: WallMs, bytes: usize) {
        self.batches += 1;
        self.frame_bytes += bytes as u64;
        self.acknowledged_at = Some(now);
        let second = now.to_secs();
        let place = &mut self.seconds[second.rem_euclid(RATE_SECONDS as i64) as usize];
        if place.0 != second {
            *place = (second, 0, 0);
        }
        (place.1, place.2) = (place.1 + 1, place.2 + bytes as u64);
    }

    /// The mean of the last seconds.
    pub(super) fn rate(&self, now: WallMs) -> Rate {
        let recent = self.seconds.iter().filter(|(second, ..)| *second > now.to_secs() - RATE_SECONDS as i64);
        let (batches, bytes) = recent.fold((0, 0), |sum, (_, batches, bytes)| (sum.0 + batches, sum.1 + bytes));
        Rate { batches: batches as f64 / RATE_SECONDS as f64, bytes: bytes as f64 / RATE_SECONDS as f64 }
    }

    fn reported(&mut self, gap: Gap) {
        self.reported.truncate(REPORTED_MAX - 1);
        self.reported.push_front(Arc::new(gap));
    }
}

/// The state under the lock.
pub(super) struct State {
    pub(super) delivery: Delivery,
    pub(super) endpoints: Endpoints,
    pub(super) figures: Figures,
    /// Batches in a request: one after a failure, twice as many after each success.
    request_batches: usize,
}

/// The frame of a job.
fn frame(job: &Job) -> Result<Arc<[u8]>, ogive_model::Error> {
    match job {
        Job::Record(entry, _) => Ok(Arc::clone(&entry.frame)),
        Job::Gap { batch, .. } => batch.encode().map(Arc::from),
    }
}

/// What destinations share.
#[derive(Clone)]
pub(super) struct DestinationContext {
    pub(super) board: Arc<Board>,
    pub(super) bell: Arc<Wakeup>,
    pub(super) clock: Clock,
    /// The broker's name, and where cursors are.
    pub(super) name: String,
    pub(super) cursors: PathBuf,
}

impl DestinationContext {
    pub(super) fn now(&self) -> MonoNs {
        MonoNs(self.clock.now())
    }

    pub(super) fn wall(&self) -> WallMs {
        WallNs(self.clock.wall()).to_ms()
    }
}

/// See the module.
pub(super) struct Destination {
    pub(super) config: config::Destination,
    context: DestinationContext,
    way: Route,
    state: Mutex<State>,
    /// Held while the cursor's file is written.
    saving: Mutex<()>,
    stop: AtomicBool,
    /// The thread that resolves names.
    looking: OnceLock<Thread>,
}

impl Destination {
    /// Where the cursor of a destination is.
    pub(super) fn cursor_path(cursors: &Path, name: &str) -> PathBuf {
        cursors.join(format!("{name}.cursor"))
    }

    /// `first`: the position at which a new destination starts.
    pub(super) fn open(
        config: config::Destination,
        way: Route,
        context: DestinationContext,
        first: u64,
    ) -> anyhow::Result<Self> {
        let path = Self::cursor_path(&context.cursors, &config.name);
        let cursor = match Cursor::read(&RealDisk, &path) {
            Ok(cursor) => cursor,
            Err(error @ Error::Cursor { .. }) => {
                tracing::warn!("{error}; {} gets all that is in the spool again, and counts it once", config.name);
                None
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let names = ogive_broker::Names::new(&context.name, &config.name);
        let delivery = Delivery::new(cursor, names, config.order, random_source(), &context.board, first);
        let mut endpoints = Endpoints::new(random_source().0 as u64);
        endpoints.set(&config.endpoints.iter().map(|url| Target::from_url(url)).collect::<Vec<_>>());
        let state = Mutex::new(State { delivery, endpoints, figures: Figures::default(), request_batches: 1 });
        let (saving, stop, looking) = (Mutex::default(), AtomicBool::new(false), OnceLock::new());
        Ok(Self { config, context, way, state, saving, stop, looking })
    }

    /// Applies the configuration `config` and keeps all state.
    pub(super) fn changed(&self, config: config::Destination, way: Route) -> anyhow::Result<Self> {
        self.save()?;
        let new = Self::open(config, way, self.context.clone(), 0)?;
        new.state().figures = self.state().figures.clone();
        Ok(new)
    }

    /// How old the oldest batch is that it lacks, seconds.
    pub(super) fn lag_seconds(&self, lag: &Lag) -> f64 {
        lag.oldest.map_or(0.0, |oldest| self.context.wall().since(oldest).0.max(0) as f64 / 1e3)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to send, and to resolve names with `resolve`.
    pub(super) fn start(self: &Arc<Self>, resolve: Resolve) -> anyhow::Result<Vec<JoinHandle<()>>> {
        let thread = |name: String, work: fn(&Self)| {
            let this = Arc::clone(self);
            std::thread::Builder::new().name(name).spawn(move || work(&this)).context("cannot start a thread")
        };
        let senders =
            (0..self.config.connections()).map(|at| thread(format!("send {} {at}", self.config.name), Self::run));
        let mut threads = senders.collect::<anyhow::Result<Vec<_>>>()?;
        if self.way.spreads() && names::any(&self.config.endpoints) {
            let this = Arc::clone(self);
            let named = std::thread::Builder::new().name(format!("names {}", self.config.name));
            let looking = named.spawn(move || this.look_up(Names::new(resolve))).context("cannot start a thread")?;
            drop(self.looking.set(looking.thread().clone()));
            threads.push(looking);
        }
        Ok(threads)
    }

    /// Keeps the endpoints up to date with the addresses of their names.
    fn look_up(&self, mut names: Names) {
        while !self.is_stopped() {
            let targets = names.targets(&self.config.endpoints);
            self.state().endpoints.set(&targets);
            self.way.keep(&targets);
            // There may be a new endpoint to send to.
            self.context.bell.ring();
            std::thread::park_timeout(names::PERIOD);
        }
    }

    /// Stops the senders once what they are sending has been answered.
    pub(super) fn stop(&self) {
        // ORDERING: Release; pairs with the Acquire in `is_stopped`; nothing but the flag itself is published.
        self.stop.store(true, Ordering::Release);
        self.context.bell.ring();
        self.look_again();
    }

    /// Resolves names now.
    pub(super) fn look_again(&self) {
        if let Some(looking) = self.looking.get() {
            looking.unpark();
        }
    }

    fn is_stopped(&self) -> bool {
        // ORDERING: Acquire; see `stop`.
        self.stop.load(Ordering::Acquire)
    }

    fn run(&self) {
        while !self.is_stopped() {
            let rung = self.context.bell.rung();
            match self.next() {
                Ok((jobs, id, target)) => self.send(jobs, id, &target),
                Err(pause) => self.context.bell.wait(rung, pause.min(SLEEP)),
            }
        }
    }

    /// What to send where, or how long to wait.
    fn next(&self) -> Result<(Vec<Job>, u64, Target), Duration> {
        let mut state = self.state();
        let now = self.context.now();
        let (id, target) = state
            .endpoints
            .choose(now)
            .map_err(|until| until.since(now).to_duration().max(Duration::from_millis(1)))?;
        let turn = Turn { now: self.context.wall(), connections: self.config.connections() };
        let most = self.way.most(state.request_batches, self.config.request_batches);
        let problem = match state.delivery.next_request(&self.context.board, &RealDisk, turn, most) {
            Ok(jobs) if jobs.is_empty() => None,
            Ok(jobs) => {
                state.endpoints.sent(id, jobs.len());
                return Ok((jobs, id, target));
            }
            Err(error) => Some(format!("the spool cannot be read: {error}")),
        };
        state.endpoints.ended(id, now, Ns::ZERO, EndpointResult::Unsent);
        if let Some(problem) = problem {
            self.tell(&mut state, problem);
        }
        Err(SLEEP)
    }

    fn send(&self, jobs: Vec<Job>, id: u64, target: &Target) {
        let from = self.context.now();
        let frames: Result<Vec<Arc<[u8]>>, _> = jobs.iter().map(frame).collect();
        let (outcomes, bytes) = match &frames {
            Ok(frames) => {
                let tell = |word: &str| self.tell(&mut self.state(), format!("{}: {word}", target.url));
                self.way.send(target, frames, from, &tell)
            }
            // It is a gap, sent alone; its limits are far below those of a frame.
            Err(error) => (vec![Outcome::Refused { reason: "malformed".into(), detail: error.to_string() }], 0),
        };
        let frames = frames.unwrap_or_default();
        let now = self.context.now();
        let mut state = self.state();
        state.figures.body_bytes += bytes as u64;
        let mut result = EndpointResult::Answered;
        let lengths = frames.iter().map(|frame| frame.len()).chain(std::iter::repeat(0));
        for ((job, outcome), length) in jobs.into_iter().zip(outcomes).zip(lengths) {
            result = result.worse(self.ended(&mut state, job, outcome, length));
        }
        state.request_batches = match result {
            EndpointResult::Busy(_) => {
                state.figures.busy += 1;
                (state.request_batches / 2).max(1)
            }
            // One batch that an endpoint cannot accept does not delay the others twice, and a slow link gets less at
            // once.
            EndpointResult::Failed(_) => {
                state.figures.failures += 1;
                state.delivery.fell_behind(&self.context.board);
                1
            }
            EndpointResult::Answered | EndpointResult::Unsent => {
                (state.request_batches * 2).min(self.config.request_batches)
            }
        };
        state.endpoints.ended(id, now, now.since(from), result);
    }

    /// Handles an endpoint's answer about a batch.
    fn ended(&self, state: &mut State, job: Job, outcome: Outcome, length: usize) -> EndpointResult {
        match outcome {
            Outcome::Answered(answer) => {
                self.answered(state, &job, &answer.rejected, length);
                EndpointResult::Answered
            }
            Outcome::Refused { detail, .. } => {
                state.figures.batches_refused += 1;
                self.tell(state, detail);
                state.delivery.refused(&job, self.context.wall());
                EndpointResult::Answered
            }
            Outcome::Busy { after, detail } => {
                self.note(state, detail);
                state.delivery.put_off(job);
                EndpointResult::Busy(after)
            }
            Outcome::Later { after, in_doubt, detail } => {
                self.tell(state, detail);
                state.delivery.failed(job, in_doubt);
                EndpointResult::Failed(after)
            }
            other => {
                self.tell(state, format!("{other:?}"));
                state.delivery.failed(job, true);
                EndpointResult::Failed(None)
            }
        }
    }

    /// The endpoint has the batch but for the samples that it `rejected`.
    fn answered(&self, state: &mut State, job: &Job, rejected: &[(u32, String)], length: usize) {
        let now = self.context.wall();
        state.figures.acknowledged(now, length);
        if let Some((_, first)) = rejected.first() {
            for (_, reason) in rejected {
                *state.figures.samples_refused.entry(Reason::known_name(reason)).or_default() += 1;
            }
            let first = Reason::known_name(first);
            self.tell(state, format!("{} samples were refused; the first: {first}", rejected.len()));
            if let Job::Record(entry, _) = job {
                let samples: Vec<u32> = rejected.iter().map(|(sample, _)| *sample).collect();
                state.delivery.samples_refused(&samples, entry, now);
            }
        }
        if let Some(gap) = state.delivery.acknowledged(job) {
            state.figures.reported(gap);
        }
    }

    fn note(&self, state: &mut State, problem: String) {
        state.figures.problem = Some((self.context.wall(), problem));
    }

    /// Reports a problem once, until there is another or a minute has passed.
    fn tell(&self, state: &mut State, problem: String) {
        let now = self.context.wall();
        let is_known =
            state.figures.problem.as_ref().is_some_and(|(at, reported)| *reported == problem && now.since(*at) < AGAIN);
        if !is_known {
            tracing::warn!("{}: {problem}", self.config.name);
            self.note(state, problem);
        }
    }

    /// Writes the cursor if it changed; returns the position below which the destination needs nothing any more.
    pub(super) fn save(&self) -> anyhow::Result<u64> {
        let _saving = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(snapshot) = self.state().delivery.to_save() else { return Ok(self.state().delivery.saved_floor()) };
        let path = Self::cursor_path(&self.context.cursors, &self.config.name);
        RealDisk.replace(&path, &snapshot.bytes).with_context(|| format!("cannot write {}", path.display()))?;
        let mut state = self.state();
        state.delivery.saved(&snapshot);
        let floor = state.delivery.saved_floor();
        let has_gaps = state.delivery.gaps().next().is_some();
        drop(state);
        if has_gaps {
            // A gap is sent once it is durable.
            self.context.bell.ring();
        }
        Ok(floor)
    }

    /// Drops what is left of a segment.
    pub(super) fn give_up(&self, segment: &SegmentState, why: GapReason) {
        let mut state = self.state();
        let now = self.context.wall();
        let records = state.delivery.give_up(&self.context.board, &RealDisk, segment, why, now);
        if records > 0 {
            let reason = why.as_str();
            self.tell(&mut state, format!("{records} batches were given up ({reason}); ogive_gap names the series"));
        }
    }
}
