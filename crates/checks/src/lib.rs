//! Scheduled checks: probe external services periodically and store every result, missing answers included.
//!
//! - `config`: which checks there are; `brokers`: how many of a group run one; `plan`: when they run; `run`: the
//!   samples of a result.
//! - `request`, `steps`: HTTP requests; `extract`: numbers in a response; `cookies`: cookies of one run.
//! - `sql`, `query`, `rows`: queries to databases, and the samples of their results.
//! - `http`, `grpc`, `websocket` with `upgrade`, `dns`, `icmp`, `ntp`, `snmp`, `greeting`, `ldap`, `postgres`, `mysql`,
//!   `mongodb`, `redis`, `memcached`, `haproxy`, `varnish`, `jolokia`, `elasticsearch`, `command`, `cloudwatch`, `lua`:
//!   the kinds of checks; `net`, `lines`, `account`, `readings`, `scram`: what they share.
//!
//! Invariants: every run of the plan leaves one sample of `ogive_check_runs_total`, also when it got no answer or was
//! not started. Nothing waits in a queue: a check whose last run is still in progress, or that finds `RUNNING_MAX`
//! others running, is skipped and counted.
//! Threads: tasks of the server's runtime; a script has a process of its own.
//! Removing a check ends its series (`ends`).
//! Belongs here: clients of other services, the schedule, and the conversion of results to samples. Does not belong
//! here: a server, and any way into a store but the door.
//! Failure: a wrong configuration is reported and prevents the start; on reload it is reported the same way and the old
//! checks continue.
#![forbid(unsafe_code)]

mod account;
mod brokers;
mod certificate;
mod cloudwatch;
mod command;
mod config;
mod cookies;
mod dns;
mod elasticsearch;
mod ends;
mod entropy;
mod extract;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod greeting;
mod grpc;
mod haproxy;
mod http;
mod icmp;
mod jolokia;
mod json_path;
mod ldap;
mod lines;
#[cfg(feature = "lua")]
pub mod lua;
mod memcached;
mod mongodb;
#[cfg(test)]
#[path = "../../protocol/src/mutations.rs"]
mod mutations;
mod mysql;
mod net;
mod ntp;
mod perfdata;
mod plan;
mod postgres;
mod query;
mod raw;
mod readings;
mod redis;
mod request;
mod rows;
mod run;
mod scram;
mod sigv4;
mod snmp;
mod sql;
mod steps;
mod target;
mod upgrade;
mod varnish;
mod websocket;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use ogive_model::{Batch, MonoNs, Ns, Tenant, WallNs};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

pub use brokers::Brokers;
pub use config::{Check, Clash, Config};
use config::{FILE_BYTES_MAX, Probe};
use ends::Ends;
use net::Network;
use ogive_door::Door;
use ogive_door::audit::{Entry, note};
use ogive_door::counters::Protocol;
use ogive_door::differences::{differences, shown};
use ogive_door::outbox::Outbox;
use ogive_door::reload::{ConfigKind, Marks, settled};
use ogive_outgoing::Files;
use ogive_text::mistake;
use ogive_text::near::suggestion;
use plan::{DueRun, Plan};
use run::{Failure, Reason, Run};

/// 128 checks in progress, a socket and some 20 KiB each.
const RUNNING_MAX: usize = 128;
/// A minute: how soon it is noticed that the wall clock was set.
const LOOK: Ns = Ns::from_secs(60);
/// 100 ms: clocks that are kept in time drift less between two looks.
const JUMP: Ns = Ns(100_000_000);

#[cfg(test)]
mod testing {
    use crate::Files;

    /// The files of this machine.
    pub(crate) const FILES: Files =
        Files { read: |path| std::fs::read(path), list: |_| Ok(Vec::new()), owner: |_| String::new() };
}

/// What is to be checked.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(id = "check_options")]
pub struct CheckOptions {
    /// File with `[[check]]` tables (TOML): scheduled checks of other services. Reread on SIGHUP.
    #[arg(long, value_name = "FILE", env = "OGIVE_CHECKS")]
    pub checks: Option<PathBuf>,
}

/// Checks that can run.
pub struct Checks {
    config: Config,
    files: Files,
    /// Where a reload reads them; none where somebody else owns the file.
    path: Option<PathBuf>,
    /// Every key of that file with its value, to find what differs.
    flat: Flat,
    marks: Marks,
    fed: Option<Fed>,
}

/// Decides from outside which checks run, and runs one at once.
#[derive(Clone)]
pub struct Feed {
    config: watch::Sender<Config>,
    now: mpsc::UnboundedSender<(String, oneshot::Sender<Result<String, String>>)>,
}

/// The other end of a [`Feed`].
struct Fed {
    config: watch::Receiver<Config>,
    now: mpsc::UnboundedReceiver<(String, oneshot::Sender<Result<String, String>>)>,
}

impl Feed {
    /// These checks run from now on, and no others of this feed.
    pub fn set(&self, config: Config) {
        self.config.send_replace(config);
    }

    /// Runs the check `name` now, beside its schedule; its outcome, in a sentence, comes when it ends.
    ///
    /// # Errors
    /// Nothing runs checks any more.
    pub fn run_now(&self, name: &str) -> Result<oneshot::Receiver<Result<String, String>>, String> {
        let (reply, outcome) = oneshot::channel();
        self.now.send((name.to_owned(), reply)).map_err(|_| "the checks have ended".to_owned())?;
        Ok(outcome)
    }
}

impl Fed {
    /// What comes next; forever nothing without a feed.
    async fn next(fed: Option<&mut Self>) -> Change {
        let Some(fed) = fed else { return std::future::pending().await };
        tokio::select! {
            Ok(()) = fed.config.changed() => Change::Config(fed.config.borrow_and_update().clone()),
            Some((name, reply)) = fed.now.recv() => Change::Now(name, reply),
            else => std::future::pending().await,
        }
    }
}

/// What a [`Feed`] says.
enum Change {
    Config(Config),
    Now(String, oneshot::Sender<Result<String, String>>),
}

type Flat = Vec<(String, String)>;

impl Checks {
    /// The checks of tables that somebody else has read.
    pub fn open(config: &Config, files: Files) -> Self {
        Self { config: config.clone(), files, path: None, flat: Flat::new(), marks: Marks::default(), fed: None }
    }

    /// Checks of which somebody else decides while they run.
    pub fn fed(files: Files) -> (Self, Feed) {
        let ((config, changes), (now, requests)) = (watch::channel(Config::default()), mpsc::unbounded_channel());
        let fed = Some(Fed { config: changes, now: requests });
        (Self { fed, ..Self::open(&Config::default(), files) }, Feed { config, now })
    }

    /// The checks of a file; none of no file.
    pub fn new(options: &CheckOptions, files: Files) -> anyhow::Result<Self> {
        let ((config, flat), marks) = match &options.checks {
            Some(path) => read(path, files).map_err(anyhow::Error::msg).context("cannot start the checks")?,
            None => Default::default(),
        };
        Ok(Self { config, files, path: options.checks.clone(), flat, marks, fed: None })
    }

    /// Runs them until the server ends. Called within the runtime: a signal is heard from then on, not from when this
    /// is polled.
    pub fn run(self, door: Arc<Door>) -> impl Future<Output = ()> {
        let has_work = !self.config.check.is_empty() || self.path.is_some() || self.fed.is_some();
        let hangup = has_work.then(|| signal(SignalKind::hangup()));
        async move {
            if let Some(Ok(hangup)) = hangup {
                self.run_and_reload(door, hangup).await;
            }
        }
    }

    async fn run_and_reload(mut self, door: Arc<Door>, mut hangup: Signal) {
        let outbox = Outbox::new(door.clone(), Protocol::Check, Tenant::default());
        let sending = tokio::spawn(outbox.clone().run(door.ending.clone()));
        let mut ending = door.ending.clone();
        let mut work = Work::new(&door, self.files, outbox);
        work.become_of(self.config);
        let mut fed = self.fed;
        // What was set before this began.
        if let Some(fed) = &mut fed {
            work.become_of(fed.config.borrow_and_update().clone());
        }
        loop {
            let wait = work.wait().unwrap_or(Duration::MAX);
            tokio::select! {
                () = tokio::time::sleep(wait) => work.begin_due(),
                change = Fed::next(fed.as_mut()) => match change {
                    Change::Config(config) => work.become_of(config),
                    Change::Now(name, reply) => work.begin_now(&name, reply),
                },
                _ = hangup.recv() => {
                    let (Some(path), files, before) = (self.path.clone(), self.files, self.marks.clone()) else { continue };
                    // Megabytes of tables, or a disk that hangs: not on a thread that others wait for.
                    let reading = tokio::task::spawn_blocking(move || settled(&before, || read(&path, files))).await;
                    let path = self.path.as_deref().expect("it was just read");
                    let read = reading.unwrap_or_else(|error| Err(error.to_string()));
                    door.counters.reloads.ended(ConfigKind::Checks, read.is_ok());
                    match read {
                        Ok(((config, flat), marks)) => {
                            self.marks = marks;
                            work.become_of(config);
                            let (before, after) = (shown(&self.flat), shown(&flat));
                            if let Some(what) = differences(&before, &after) {
                                let owner = (files.owner)(path);
                                note(&door, Entry::config(path, &owner, "checks", "signal HUP", &what));
                            }
                            self.flat = flat;
                            tracing::info!("{} checks are in force", work.checks.len());
                        }
                        Err(error) => {
                            tracing::warn!("{error}; the checks stay as they were");
                            note(&door, Entry::config(path, &(files.owner)(path), "checks_refused", "signal HUP", &error));
                        }
                    }
                }
                // What it finds is a lock, which no wait may outlive.
                () = async { drop(ending.wait_for(|ending| *ending).await) } => break,
            }
        }
        // Runs in progress are dropped; what they would have said belongs to a server that is no more.
        let _ = sending.await;
    }
}

fn read(path: &Path, files: Files) -> Result<((Config, Flat), Marks), String> {
    let text = mistake::file_text(files.read, path, FILE_BYTES_MAX)?;
    let config = Config::parse(&text).map_err(|error| format!("{}, {error}", path.display()))?;
    let mut marks = Marks::default();
    marks.note(path, text.as_bytes());
    marks.count(config.check.len(), config.is_empty_list);
    Ok(((config, mistake::flat(&text)), marks))
}

/// What every run can reach.
struct Shared {
    door: Arc<Door>,
    network: Arc<Network>,
    #[cfg(feature = "lua")]
    scripts: lua::Processes,
    outbox: Arc<Outbox>,
    /// Checks whose run is in progress.
    running: Mutex<BTreeSet<String>>,
    ends: Ends,
}

/// A run of this check is in progress; over when this is dropped, however that comes about.
struct RunningCheck {
    shared: Arc<Shared>,
    name: String,
}

impl Drop for RunningCheck {
    fn drop(&mut self) {
        self.shared.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

/// When the clock that never falls began, by the wall clock as it is set now.
fn clock_origin(clock: ogive_probe::Clock) -> WallNs {
    WallNs(clock.wall().saturating_sub_unsigned(clock.now()))
}

struct Work {
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    plan: Plan,
    checks: BTreeMap<String, Arc<Check>>,
    /// [`clock_origin`] when spread checks were planned.
    origin: WallNs,
}

impl Work {
    fn new(door: &Arc<Door>, files: Files, outbox: Arc<Outbox>) -> Self {
        let seed = ogive_export::random_source().0 as u64;
        let network = Arc::new(Network::new(files));
        let shared = Shared {
            door: door.clone(),
            network,
            #[cfg(feature = "lua")]
            scripts: lua::Processes::default(),
            outbox,
            running: Mutex::default(),
            ends: Ends::default(),
        };
        Self {
            shared: Arc::new(shared),
            places: Arc::new(Semaphore::new(RUNNING_MAX)),
            plan: Plan::new(seed),
            checks: BTreeMap::new(),
            origin: clock_origin(door.clock),
        }
    }

    /// Runs these checks and no others; one that did not change keeps its place.
    fn become_of(&mut self, config: Config) {
        let clock = self.shared.door.clock;
        let (now, wall) = (MonoNs(clock.now()), WallNs(clock.wall()));
        let wanted: BTreeMap<String, Check> =
            config.check.into_iter().map(|check| (check.name.clone(), check)).collect();
        for name in self.checks.keys().filter(|name| !wanted.contains_key(*name)) {
            self.plan.remove(name);
            self.shared.mark(self.shared.ends.ended(name, WallNs(clock.wall())));
        }
        self.checks.retain(|name, _| wanted.contains_key(name));
        #[cfg(feature = "lua")]
        self.shared.scripts.retain(|name| wanted.contains_key(name));
        for (name, check) in wanted {
            if self.checks.get(&name).is_some_and(|before| **before == check) {
                continue;
            }
            let period = Ns::from(check.period);
            if check.spread().is_some() {
                self.plan.add_shared(&name, period, now, wall);
            } else {
                // Its periods are the cells, where they are as short.
                let has_cells = run::has_own_cells(check.period);
                let into = if has_cells { wall - wall.align_down(period) } else { Ns::ZERO };
                self.plan.add(&name, period, now.saturating_add((period - into) % period));
            }
            let check = Arc::new(check);
            self.shared.mark(self.shared.ends.began(&check, WallNs(clock.wall())));
            self.checks.insert(name, check);
        }
    }

    /// How long until a check is due, or the wall clock is looked at.
    fn wait(&self) -> Option<Duration> {
        Some(self.plan.next_due()?.since(MonoNs(self.shared.door.clock.now())).min(LOOK).to_duration())
    }

    /// Plans spread checks again when the wall clock was set: their instants are those of other brokers.
    fn follow_wall(&mut self) {
        let clock = self.shared.door.clock;
        let origin = clock_origin(clock);
        if origin.since(self.origin).saturating_abs() < JUMP {
            return;
        }
        self.origin = origin;
        for (name, check) in self.checks.iter().filter(|(_, check)| check.spread().is_some()) {
            let (now, wall) = (MonoNs(clock.now()), WallNs(clock.wall()));
            self.plan.add_shared(name, Ns::from(check.period), now, wall);
        }
    }

    fn begin_due(&mut self) {
        self.follow_wall();
        for DueRun { name, missed, period_from, .. } in self.plan.take(MonoNs(self.shared.door.clock.now())) {
            let check = self.checks[&name].clone();
            for _ in 0..missed.min(u64::from(u8::MAX)) {
                let run = Run::begin(self.shared.door.clock);
                self.skip(run, &check, Reason::Crowded, "the machine was busy: a whole period passed");
            }
            let run = Run::begin(self.shared.door.clock).of_period(period_from, check.period);
            let mut running = self.shared.running.lock().unwrap_or_else(PoisonError::into_inner);
            let is_first = running.insert(name.clone());
            drop(running);
            if !is_first {
                self.skip(run, &check, Reason::Overrun, "the last run is still in progress");
                continue;
            }
            let guard = RunningCheck { shared: self.shared.clone(), name };
            let Ok(place) = self.places.clone().try_acquire_owned() else {
                self.skip(run, &check, Reason::Crowded, &format!("{RUNNING_MAX} other checks are running"));
                continue;
            };
            tokio::spawn(async move {
                let _ = guard.shared.check(&check, period_from).await;
                drop((guard, place));
            });
        }
    }

    /// Runs a check beside its schedule.
    fn begin_now(&self, name: &str, reply: oneshot::Sender<Result<String, String>>) {
        let Some(check) = self.checks.get(name).cloned() else {
            let known: Vec<&str> = self.checks.keys().map(String::as_str).collect();
            let hint = suggestion(known.iter().copied(), name);
            return drop(reply.send(Err(format!("there is no check {name:?} here{hint}"))));
        };
        let is_first = self.shared.running.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        if !is_first {
            return drop(reply.send(Err(format!("a run of {name:?} is in progress"))));
        }
        let guard = RunningCheck { shared: self.shared.clone(), name: name.to_owned() };
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            return drop(reply.send(Err(format!("{RUNNING_MAX} other checks are running; ask again"))));
        };
        let now = MonoNs(self.shared.door.clock.now());
        tokio::spawn(async move {
            let outcome = guard.shared.check(&check, now).await;
            drop((guard, place));
            drop(reply.send(Ok(outcome)));
        });
    }

    fn skip(&self, run: Run, check: &Check, reason: Reason, sentence: &str) {
        self.shared.outbox.add(run.batch(&Err(Failure::new(reason, sentence)), &check.labels, check.period));
    }
}

impl Shared {
    /// Reports that series have ended.
    fn mark(&self, marks: Option<Batch>) {
        if let Some(marks) = marks {
            self.outbox.add(marks);
        }
    }

    /// Runs a check, and says in a sentence how it ended.
    async fn check(&self, check: &Arc<Check>, period_from: MonoNs) -> String {
        let from = MonoNs(self.door.clock.now());
        let mut run = Run::begin(self.door.clock).of_period(period_from, check.period);
        let requested = tokio::time::timeout(check.timeout, self.ask(&mut run, check)).await;
        let end = run.ended(requested.ok(), check.timeout);
        let outcome = match &end {
            Ok(()) => format!("ok in {:.3} ms", MonoNs(self.door.clock.now()).since(from).0 as f64 / 1e6),
            Err(failure) => failure.to_string(),
        };
        let batch = run.batch(&end, &check.labels, check.period);
        let marks = self.ends.reported(check, &batch, WallNs(self.door.clock.wall()));
        self.outbox.add(batch);
        self.mark(marks);
        outcome
    }

    async fn ask(&self, run: &mut Run, check: &Check) -> Result<(), Failure> {
        let network = &self.network;
        match &check.ask {
            Probe::Http(http) => http::run(network, run, http).await,
            Probe::Steps(steps) => steps::run(network, run, steps, self.door.clock).await,
            Probe::Grpc(grpc) => grpc::run(network, run, grpc, check.timeout).await,
            Probe::WebSocket(socket) => websocket::run(network, run, socket, check.timeout, self.door.clock).await,
            Probe::Tcp(place) => network.connect(run, place).await.map(drop),
            Probe::Tls(place, trust) => network.open(run, place, Some(trust)).await.map(drop),
            Probe::Dns(dns) => dns::run(network, run, dns).await,
            Probe::Icmp { host, count } => icmp::run(network, run, host, *count, check.timeout, self.door.clock).await,
            Probe::Postgres(database) => postgres::run(network, run, database, check.timeout, self.door.clock).await,
            Probe::MySql(database) => mysql::run(network, run, database, check.timeout, self.door.clock).await,
            Probe::MongoDb(server) => mongodb::run(network, run, server, check.timeout, self.door.clock).await,
            Probe::Redis(login) => redis::run(network, run, login).await,
            Probe::Memcached(place, trust) => memcached::run(network, run, place, trust.as_ref()).await,
            Probe::Ntp(place) => ntp::run(network, run, place, self.door.clock).await,
            Probe::Ldap(ldap) => ldap::run(network, run, ldap, check.timeout).await,
            Probe::Snmp(snmp) => snmp::run(network, run, snmp, check.timeout, self.door.clock).await,
            Probe::Greeting(greeting) => greeting::run(network, run, greeting).await,
            Probe::HaProxy(proxy) => haproxy::run(network, run, proxy).await,
            Probe::Varnish(varnish) => varnish::run(run, varnish).await,
            Probe::Jolokia(agent) => jolokia::run(network, run, agent).await,
            Probe::Elasticsearch(cluster) => elasticsearch::run(network, run, cluster).await,
            Probe::Command(external) => command::run(run, external).await,
            Probe::CloudWatch(ask) => cloudwatch::run(network, run, ask, WallNs(self.door.clock.wall())).await,
            #[cfg(feature = "lua")]
            Probe::Lua(script) => {
                let files = self.network.files;
                lua::run(&self.scripts, files, run, &check.name, script, check.timeout).await
            }
        }
    }
}
