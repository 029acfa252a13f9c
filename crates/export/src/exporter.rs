//! The exporter: one thread takes the cells at the end of each interval, another one sends them.
//!
//! *Invariants*: cells are taken at the boundary however long the server takes; a cell is labelled with the boundary at
//! which it was taken. [`Status`] is one moment's: `taken == acknowledged + waiting + dropped`.
//! *Threads*: `ogive-cells` waits for the boundary and fills the outbox; `ogive-send` empties it. Both stop at
//! [`Exporter::shutdown`] or when the exporter is dropped. Two, because name resolution and a slow server block, and
//! cells that are taken late are wrong. *Limits*: of the outbox; an attempt ends after [`ATTEMPT`]. A cell costs 5.7 us
//! of CPU, 5.3 of them in taking it (1,000 recorders with 200 durations a second on a Xeon VM: `cargo bench -p
//! ogive-export`), a recorder in which nothing happened 0.2 us. *Failure*: a server that is away is waited for; see the
//! outbox and `http`. In a child of fork there are no threads: the status says so, and nothing there waits for them.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ogive_model::{Kind, MonoNs, Ms, Ns, SourceId, Temporality, Tenant, Value, WallNs};
use ogive_probe::Clock;

use crate::backoff::Backoff;
use crate::cells::{Cells, lock};
use crate::http::HttpLink;
use crate::measured::CellEnd;
use crate::measured::random_source;
use crate::outbox::{AttemptOutcome, DROPPED_BOUND, Dropped, Outbox};
use crate::{Amount, Error, Link, Measured, Outcome};

/// 10 s for an attempt: a server that takes longer to fsync gets the same bytes again, and they count once.
const ATTEMPT: Duration = Duration::from_secs(10);

/// 16 MiB: 1,000 cells a second of 100 bytes for over two minutes.
const KEEP_BYTES: usize = 16 << 20;

/// Drops are reported in every tenth cell.
const REPORT_CELLS: i64 = 10;

/// An exporter that is dropped without [`Exporter::shutdown`] waits this long for the server.
const DROP_WAIT: Duration = Duration::from_secs(1);

/// While the process is ending there is no time for long pauses.
const LAST_PAUSE: Ns = Ns(100_000_000);

/// 1 s past the deadline: a thread that gets no CPU for that long collects no last cell.
const LAST_CELL: Ns = Ns::from_secs(1);

/// The same kind of trouble is reported once a minute.
const LOG_PAUSE: Ns = Ns::from_secs(60);

/// What was dropped.
const DROPPED_TOTAL: &str = "ogive_export_dropped_total";

type Log = Box<dyn Fn(&str) + Send + Sync>;

/// Settings of an exporter.
pub struct Builder {
    address: String,
    labels: Vec<(String, String)>,
    tenant: Option<String>,
    token: Option<String>,
    ca_pem: Option<Vec<u8>>,
    interval: Duration,
    keep_bytes: usize,
    clock: Option<Clock>,
    log: Log,
}

/// Sends what a process measures, every second, until it is shut down.
#[derive(Debug)]
pub struct Exporter {
    shared: Arc<Shared>,
    cells: Cells,
}

/// Whether an exporter runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Cells are collected and sent.
    #[default]
    Running,
    /// It was shut down.
    Stopped,
    /// This process is a child of the one that started it: nothing is collected or sent here. Start an exporter here.
    Forked,
}

/// The statistics of an exporter. `taken == acknowledged + waiting + ` the sum of `dropped`, figure by figure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Whether it runs.
    pub state: State,
    /// The id of the sender.
    pub source: u128,
    /// The number of the last batch that a server may have received.
    pub sequence: u64,
    /// What was measured.
    pub taken: Amount,
    /// What the server has made durable.
    pub acknowledged: Amount,
    /// What is waiting, including what is in flight.
    pub waiting: Amount,
    /// The part of it that the server may have received without acknowledging it.
    pub in_doubt: Amount,
    /// Bytes that wait.
    pub waiting_bytes: usize,
    /// What was dropped, by reason: `bound`, `shutdown`, `too_large`, `status_400` and similar, or a reason from the
    /// server for single samples.
    pub dropped: BTreeMap<String, Dropped>,
    /// Attempts to send.
    pub attempts: u64,
    /// Those without a response, or that have to be retried.
    pub failures: u64,
    /// Cells that were collected an interval late or more, because the machine gave no CPU.
    pub late: u64,
    /// User-supplied functions that panicked, and are no longer called.
    pub panics: u64,
    /// The last error.
    pub last_error: Option<String>,
}

impl Status {
    /// The total of what was dropped.
    #[must_use]
    pub fn dropped_sum(&self) -> Amount {
        let mut sum = Amount::default();
        self.dropped.values().for_each(|dropped| sum += dropped.amount);
        sum
    }
}

#[derive(Debug)]
struct Shared {
    process: u32,
    source: SourceId,
    clock: Clock,
    inner: Mutex<Inner>,
    /// For the thread that collects cells: stop.
    stop: Condvar,
    /// For the thread that sends: there is something to send, or stop.
    work: Condvar,
    /// For the thread that shuts down: the sender has ended.
    ended: Condvar,
}

#[derive(Debug)]
struct Inner {
    outbox: Outbox,
    /// When the sender gives up; set once.
    deadline: Option<MonoNs>,
    /// The last cell is in the outbox.
    is_last_taken: bool,
    has_sender_ended: bool,
    attempts: u64,
    failures: u64,
    late: u64,
    last_error: Option<String>,
}

impl Inner {
    /// Nothing was sent yet.
    fn new(outbox: Outbox) -> Self {
        Self {
            outbox,
            deadline: None,
            is_last_taken: false,
            has_sender_ended: false,
            attempts: 0,
            failures: 0,
            late: 0,
            last_error: None,
        }
    }
}

impl Builder {
    /// A label of every series.
    #[must_use]
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.push((name.into(), value.into()));
        self
    }

    /// Whose series these are on a server that several tenants share; `default` unless set.
    #[must_use]
    pub fn tenant(mut self, name: &str) -> Self {
        self.tenant = Some(name.into());
        self
    }

    /// The token with which the server knows this process; that of the environment, `OGIVE_TOKEN`, unless set.
    #[must_use]
    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The certificates (PEM) of who vouches for an https server, in place of the usual ones. Needs the feature `tls`.
    #[must_use]
    pub fn ca_pem(mut self, pem: &[u8]) -> Self {
        self.ca_pem = Some(pem.to_vec());
        self
    }

    /// The width of a cell: 1 s unless set; from 10 ms to an hour, in whole milliseconds.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// What waits for the server at most: 16 MiB unless set. The oldest makes room, counted.
    #[must_use]
    pub fn keep_bytes(mut self, bytes: usize) -> Self {
        self.keep_bytes = bytes;
        self
    }

    /// The clock whose wall time gives the boundaries of cells; the machine's unless set.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Where to report trouble, at most once a minute for each kind; standard error unless set.
    #[must_use]
    pub fn log(mut self, log: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.log = Box::new(log);
        self
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// [`Error::Address`], [`Error::Series`] for the labels, [`Error::Setting`], [`Error::Spawn`].
    pub fn start(self) -> Result<Exporter, Error> {
        let token = self.token.clone().or_else(|| std::env::var("OGIVE_TOKEN").ok().filter(|token| !token.is_empty()));
        let link = HttpLink::new(&self.address, token.as_deref(), self.ca_pem.as_deref())?;
        self.start_with(link)
    }

    /// Starts the threads, to send over a way of your own.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub fn start_with(self, link: impl Link) -> Result<Exporter, Error> {
        let interval_ms = self.interval.as_millis();
        if !(10..=3_600_000).contains(&interval_ms) {
            let found = format!("{:?}", self.interval);
            return Err(Error::Setting { what: "the interval", found, wanted: "10 ms to 1 h" });
        }
        let tenant = self.tenant.as_deref().map_or_else(|| Ok(Tenant::default()), Tenant::new).map_err(|error| {
            let found = error.to_string();
            Error::Setting { what: "the tenant", found, wanted: "a tenant's name" }
        })?;
        let clock = self.clock.unwrap_or_else(Clock::global);
        let labels: Vec<_> = self.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let cells = Cells::new(clock, &labels, interval_ms as u32);
        cells.series(
            DROPPED_TOTAL,
            &[("reason", "bound"), ("what", "records")],
            Kind::Float,
            Temporality::Delta,
            "",
        )?;
        let source = random_source();
        let inner = Inner::new(Outbox::new(source, tenant, self.keep_bytes));
        let shared = Arc::new(Shared {
            process: std::process::id(),
            source,
            clock,
            inner: Mutex::new(inner),
            stop: Condvar::new(),
            work: Condvar::new(),
            ended: Condvar::new(),
        });
        let sender =
            Sender { shared: shared.clone(), link, log: self.log, reported: BTreeMap::new(), pause: Pause::default() };
        spawn("ogive-send", move || sender.run())?;
        // Dropping it, should the second thread not start, stops the first.
        let exporter = Exporter { shared: shared.clone(), cells: cells.clone() };
        let interval = Ms(interval_ms as i64).to_ns();
        spawn("ogive-cells", move || Taker { shared, cells, interval }.run())?;
        Ok(exporter)
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("address", &self.address).field("labels", &self.labels).finish_non_exhaustive()
    }
}

fn spawn(name: &'static str, run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let spawned = std::thread::Builder::new().name(name.into()).spawn(run);
    spawned.map(|_| ()).map_err(|source| Error::Spawn { name, source })
}

impl Exporter {
    /// An exporter to the server at `address`, such as `http://127.0.0.1:6448`.
    #[must_use]
    pub fn builder(address: &str) -> Builder {
        Builder {
            address: address.into(),
            labels: Vec::new(),
            tenant: None,
            token: None,
            ca_pem: None,
            interval: Duration::from_secs(1),
            keep_bytes: KEEP_BYTES,
            clock: None,
            log: Box::new(|line| eprintln!("ogive-export: {line}")),
        }
    }

    /// The exported series; clones of it can be kept where series are created and forgotten.
    #[must_use]
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// Its statistics so far.
    #[must_use]
    pub fn status(&self) -> Status {
        let source = self.shared.source.0;
        // Before any lock: in a child of fork, a thread that does not exist there may hold it.
        if self.shared.is_forked() {
            return Status { state: State::Forked, source, ..Status::default() };
        }
        let inner = self.shared.lock();
        let (waiting, in_doubt) = inner.outbox.waiting();
        Status {
            state: if inner.deadline.is_some() || inner.has_sender_ended { State::Stopped } else { State::Running },
            source,
            sequence: inner.outbox.sequence(),
            taken: inner.outbox.taken,
            acknowledged: inner.outbox.acknowledged,
            waiting,
            in_doubt,
            waiting_bytes: inner.outbox.bytes(),
            dropped: inner.outbox.dropped.clone(),
            attempts: inner.attempts,
            failures: inner.failures,
            late: inner.late,
            panics: self.cells.panics(),
            last_error: inner.last_error.clone(),
        }
    }

    /// Collects the current cell, and waits until everything is acknowledged, at most `timeout`. What no server can
    /// have received by then is dropped, and counted; what one may have received stays `in_doubt`.
    pub fn shutdown(self, timeout: Duration) -> Status {
        self.stop(timeout);
        self.status()
    }

    fn stop(&self, timeout: Duration) {
        if self.shared.is_forked() {
            return;
        }
        let mut inner = self.shared.lock();
        if inner.deadline.is_some() {
            return;
        }
        let deadline = self.shared.now().saturating_add(Ns::from(timeout));
        inner.deadline = Some(deadline);
        self.shared.stop.notify_all();
        self.shared.work.notify_all();
        loop {
            let left = deadline.since(self.shared.now());
            if inner.is_last_taken && (inner.has_sender_ended || left == Ns::ZERO) {
                break;
            }
            // The last cell takes microseconds, and is waited for even past the deadline.
            if self.shared.now() >= deadline.saturating_add(LAST_CELL) {
                break;
            }
            let wait = left.clamp(Ns(1_000_000), Ns(100_000_000)).to_duration();
            inner = wait_on(&self.shared.ended, inner, wait);
        }
        inner.outbox.close();
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop(DROP_WAIT);
    }
}

fn wait_on<'a>(on: &Condvar, inner: MutexGuard<'a, Inner>, time: Duration) -> MutexGuard<'a, Inner> {
    on.wait_timeout(inner, time).unwrap_or_else(PoisonError::into_inner).0
}

impl Shared {
    fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    fn now(&self) -> MonoNs {
        MonoNs(self.clock.now())
    }

    fn wall(&self) -> WallNs {
        WallNs(self.clock.wall())
    }
}

/// The thread that collects the cells.
struct Taker {
    shared: Arc<Shared>,
    cells: Cells,
    interval: Ns,
}

impl Taker {
    fn run(self) {
        self.announce();
        loop {
            let end = self.boundary_after(self.shared.wall());
            if self.wait_until(end) {
                // What was measured in the current interval belongs to the cell at its end.
                self.turn(CellEnd { time: self.boundary_after(self.shared.wall()), is_last: true });
                return;
            }
            let time = self.boundary_near(self.shared.wall());
            if time > end {
                self.shared.lock().late += 1;
            }
            self.turn(CellEnd { time, is_last: false });
        }
    }

    fn boundary_after(&self, now: WallNs) -> WallNs {
        now.align_down(self.interval) + self.interval
    }

    /// The last boundary. A sleep may end a moment early where the wall clock is slewed.
    fn boundary_near(&self, now: WallNs) -> WallNs {
        (now + self.interval / 10).align_down(self.interval)
    }

    /// Returns true when it is to stop. The wait is measured on the monotonic clock: a wall clock that is set back
    /// makes no cell longer.
    fn wait_until(&self, end: WallNs) -> bool {
        let until = self.shared.now().saturating_add((end - self.shared.wall()).max(Ns::ZERO));
        let mut inner = self.shared.lock();
        loop {
            if inner.deadline.is_some() {
                return true;
            }
            let left = until.since(self.shared.now());
            if left == Ns::ZERO {
                return false;
            }
            inner = wait_on(&self.shared.stop, inner, left.to_duration());
        }
    }

    fn turn(&self, turn: CellEnd) {
        let values = self.cells.take(turn);
        let mut inner = self.shared.lock();
        inner.outbox.push(values);
        if turn.is_last || turn.time.0 / self.interval.0 % REPORT_CELLS == 0 {
            let report = inner.outbox.unreported();
            let values = self.report(turn.time, &report);
            inner.outbox.push_report(values, report);
        }
        inner.is_last_taken |= turn.is_last;
        drop(inner);
        self.shared.work.notify_all();
    }

    /// Creates the counter of drops before there are any.
    fn announce(&self) {
        let time = self.boundary_after(self.shared.wall());
        let values = self.report(time, &[(DROPPED_BOUND.into(), Amount::default())]);
        self.shared.lock().outbox.push_report(values, Vec::new());
    }

    fn report(&self, time: WallNs, dropped: &[(String, Amount)]) -> Vec<Measured> {
        let of = |(reason, amount): &(String, Amount)| {
            amount.figures().map(|(what, figure)| {
                let labels = [("reason", reason.as_str()), ("what", what)];
                let series = self.cells.series(DROPPED_TOTAL, &labels, Kind::Float, Temporality::Delta, "").ok()?;
                Some(Measured { series, time, value: Value::Float(figure as f64) })
            })
        };
        dropped.iter().flat_map(of).flatten().collect()
    }
}

/// The thread that sends.
struct Sender<L> {
    shared: Arc<Shared>,
    link: L,
    log: Log,
    /// When each kind of problem was last reported.
    reported: BTreeMap<&'static str, MonoNs>,
    pause: Pause,
}

/// When the next attempt may be.
#[derive(Clone, Copy, Default)]
struct Pause {
    attempted: MonoNs,
    not_before: MonoNs,
}

/// Reports that the sender has ended, in whichever way.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.lock().has_sender_ended = true;
        self.0.ended.notify_all();
    }
}

impl<L: Link> Sender<L> {
    fn run(mut self) {
        let shared = self.shared.clone();
        let _ending = Ending(shared.clone());
        let mut backoff = Backoff::new(shared.source.0 as u64);
        while let Some((frame, timeout)) = self.next() {
            let outcome = catch_unwind(AssertUnwindSafe(|| self.link.send(&frame, timeout)));
            let panicked = |_| Outcome::Later { after: None, in_doubt: true, detail: "the link panicked".into() };
            let outcome = outcome.unwrap_or_else(panicked);
            let now = shared.now();
            self.pause = Pause { attempted: now, not_before: now };
            let mut inner = shared.lock();
            inner.attempts += 1;
            match inner.outbox.end(outcome) {
                AttemptOutcome::Acknowledged => backoff.reset(),
                AttemptOutcome::Again { after, detail } => {
                    inner.failures += 1;
                    inner.last_error = Some(detail.clone());
                    let dropped = inner.outbox.dropped.get(DROPPED_BOUND).map(|dropped| dropped.amount.records);
                    drop(inner);
                    self.pause.not_before = now.saturating_add(backoff.next_wait(after));
                    let dropped =
                        dropped.map(|records| format!("; {records} measurements were dropped, as the buffer is full"));
                    let dropped = dropped.unwrap_or_default();
                    self.report(
                        "again",
                        now,
                        &format!("{detail}; the measurements are kept and will be sent again{dropped}"),
                    );
                }
                AttemptOutcome::Dropped { detail } => {
                    backoff.reset();
                    inner.last_error = Some(detail.clone());
                    drop(inner);
                    self.report(
                        "dropped",
                        now,
                        &format!("{detail}; sending it again would not help, so it is dropped"),
                    );
                }
            }
        }
    }

    /// Waits for the next frame; None when it is time to end.
    fn next(&self) -> Option<(Arc<[u8]>, Duration)> {
        let mut inner = self.shared.lock();
        loop {
            let now = self.shared.now();
            let mut start = self.pause.not_before;
            let mut timeout = ATTEMPT;
            if let Some(deadline) = inner.deadline {
                if now >= deadline || (inner.is_last_taken && inner.outbox.is_empty()) {
                    return None;
                }
                // The process is waiting to end: no long pauses now.
                start = start.min(self.pause.attempted.saturating_add(LAST_PAUSE));
                timeout = timeout.min(deadline.since(now).to_duration());
            }
            if !inner.outbox.is_empty() && now >= start {
                return inner.outbox.begin().map(|frame| (frame, timeout));
            }
            let wait = match inner.outbox.is_empty() {
                // A notification will come.
                true => Ns::from_secs(1),
                false => start.since(now),
            };
            let until_end = inner.deadline.map_or(Ns::MAX, |deadline| deadline.since(now));
            inner = wait_on(&self.shared.work, inner, wait.min(until_end).to_duration());
        }
    }

    fn report(&mut self, kind: &'static str, now: MonoNs, line: &str) {
        let reported = self.reported.get(kind);
        if reported.is_none_or(|reported| now.since(*reported) >= LOG_PAUSE) {
            self.reported.insert(kind, now);
            // Whatever the log does, measurements go on.
            let _ = catch_unwind(AssertUnwindSafe(|| (self.log)(line)));
        }
    }
}

#[cfg(test)]
mod tests;
