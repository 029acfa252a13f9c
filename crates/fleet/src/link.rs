//! The broker's side: a thread that asks the server for what is new, over the broker's own connection.
//!
//! Invariants: what the server sends is applied only when the key of the enrolment has signed it, for this group, and
//! it is newer than what runs; the last good version stays otherwise, and at each start it is applied before the server
//! is asked.
//! Threads: one that polls, one that carries out requests, one that ends the lease of spread checks.
//! Failure: a server that does not answer is asked again after [`PAUSE_MIN`] to [`PAUSE_MAX`]; the broker goes on
//! without.
//! Limits: [`ANSWER_BYTES`] of an answer.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use ogive_door::counters::Counters;
use ogive_export::{Body, Client, ClientOptions, NoReply, Reply, refuses_everywhere};
use ogive_probe::Clock;

use crate::broker::{Broker, Home};
use crate::broker_store::{Begun, BrokerStore, Credential};
use crate::credential::ticket_parts;
use crate::error::Error;
use crate::fleet::WAIT_MAX;
use crate::lease::Lease;
use crate::package::{PublicKey, Signed};
use crate::report::{Refused, Report};
use crate::secret::{sha256, token};
use crate::task::{Outcome, Task};
use crate::wire::{Answer, Connect, Enrol, Enroled, FinishedTasks, Poll, Rotate};

/// 24 MiB: a package within its limit, escaped.
const ANSWER_BYTES: u64 = 24 << 20;
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// 2 s until it is looked again whether the broker has enrolled.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// 15 s for an answer that does not wait.
const TIMEOUT: Duration = Duration::from_secs(15);
/// A fifth of the lease between two attempts, so that one more is in time.
const LEASE_PARTS: u32 = 5;
const KIND: &str = "application/json";

/// How to reach the server.
#[derive(Clone, Debug, Default)]
pub struct LinkOptions {
    /// In place of the address of the enrolment.
    pub url: Option<String>,
    /// Who vouches for the server, in place of the usual authorities: a file in PEM.
    pub ca_file: Option<PathBuf>,
    /// The client's certificates and key, if the server asks for them: files in PEM.
    pub identity_files: Option<(PathBuf, PathBuf)>,
}

/// Reads a file.
type ReadFile = fn(&std::path::Path) -> std::io::Result<Vec<u8>>;
/// Authorities in PEM, and certificates with their key.
type Files = (Option<Vec<u8>>, Option<(Vec<u8>, Vec<u8>)>);

impl LinkOptions {
    /// The authorities, and the client's certificates with their key.
    fn files(&self, read: ReadFile) -> Result<Files, String> {
        let file = |path: &PathBuf| read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
        let ca = self.ca_file.as_ref().map(file).transpose()?;
        let identity =
            self.identity_files.as_ref().map(|(chain, key)| Ok::<_, String>((file(chain)?, file(key)?))).transpose()?;
        Ok((ca, identity))
    }

    fn client(&self, token: Option<&str>, read: ReadFile) -> Result<Client, String> {
        let (ca, identity) = self.files(read)?;
        let client = Client::new(&ClientOptions {
            token,
            ca_pem: ca.as_deref(),
            identity_pem: identity.as_ref().map(|(chain, key)| (chain.as_slice(), key.as_slice())),
            user_agent: concat!("ogive-broker/", env!("CARGO_PKG_VERSION")),
            idle_connections: 1,
            answer_bytes_max: ANSWER_BYTES,
        });
        client.map_err(|error| error.to_string())
    }
}

/// The link of a running broker.
pub struct Link {
    kept: Arc<BrokerStore>,
    options: LinkOptions,
    read: ReadFile,
    broker: Arc<dyn Broker>,
    counters: Arc<Counters>,
    clock: Clock,
    tasks: mpsc::Sender<(Task, Way)>,
    lease: Arc<Lease>,
    /// As whom it polls, and the way there.
    of: Option<(Credential, Way)>,
    /// The version that runs.
    running: u64,
    refused: Option<Refused>,
    refused_total: u64,
    failures: u32,
    /// The last problem, so that it is logged once.
    problem: Option<String>,
}

/// The way to the server.
#[derive(Clone)]
struct Way {
    client: Arc<Client>,
    url: String,
}

impl Way {
    fn post(&self, route: &str, body: &impl serde::Serialize, timeout: Duration) -> Result<Reply, String> {
        self.request(route, body, timeout).map_err(|failure| failure.detail)
    }

    fn request(&self, route: &str, body: &impl serde::Serialize, timeout: Duration) -> Result<Reply, NoReply> {
        let wrong = |error: serde_json::Error| NoReply {
            in_doubt: false,
            is_refused: false,
            detail: format!("the request is not JSON: {error}"),
        };
        let bytes = serde_json::to_vec(body).map_err(wrong)?;
        let url = format!("{}/v1/fleet/{route}", self.url.trim_end_matches('/'));
        self.client.request(&url, timeout, Body { kind: KIND, encoding: None, bytes: &bytes }, &[])
    }
}

/// What a server says of a refusal.
fn said(reply: &Reply) -> String {
    let envelope: serde_json::Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let text = envelope["error"].as_str().unwrap_or("no reason given");
    format!("{text} ({})", reply.status)
}

/// Enrols a broker at the server `url` by the ticket `text`: its credential is kept when this returns.
///
/// # Errors
/// The ticket is not accepted, the server is another than that of the ticket, or the credential cannot be kept.
pub fn enrol(
    kept: &BrokerStore,
    url: &str,
    text: &str,
    name: &str,
    options: &LinkOptions,
    read: ReadFile,
) -> Result<Credential, String> {
    let (id, _, fingerprint) = ticket_parts(text)?;
    let shown = |error: Error| error.to_string();
    let token = match kept.enrolling().map_err(shown)?.filter(|begun| begun.ticket_id == id) {
        Some(begun) => begun.token,
        None => token()?,
    };
    let begun = Begun { ticket_id: id.to_owned(), token: token.clone() };
    kept.set_enrolling(Some(&begun)).map_err(shown)?;
    let way = Way { client: Arc::new(options.client(None, read)?), url: url.to_owned() };
    let body = Enrol { ticket: text.trim().to_owned(), name: name.to_owned(), token_sha256: sha256(&token) };
    let reply = way.post("enroll", &body, TIMEOUT)?;
    if reply.status != 200 {
        return Err(format!("{url} refuses: {}", said(&reply)));
    }
    let Enroled { name, group, key, expires_ms, lifetime_ms } =
        serde_json::from_slice(&reply.body).map_err(|error| format!("{url} is no server of a fleet: {error}"))?;
    if PublicKey::parse(&key)?.fingerprint() != fingerprint {
        return Err(format!("{url} is not the server that made the ticket: its key is another; nothing was kept"));
    }
    let credential =
        Credential { url: url.to_owned(), name, group, key, token, next_token: None, expires_ms, lifetime_ms };
    kept.set_credential(&credential).map_err(shown)?;
    kept.set_enrolling(None).map_err(shown)?;
    Ok(credential)
}

impl Link {
    /// A link whose last good version runs when this returns.
    pub fn open(
        kept: Arc<BrokerStore>,
        options: LinkOptions,
        read: ReadFile,
        broker: Arc<dyn Broker>,
        counters: Arc<Counters>,
        clock: Clock,
    ) -> std::io::Result<Self> {
        let (tasks, queue) = mpsc::channel::<(Task, Way)>();
        let (worker, keeps) = (broker.clone(), kept.clone());
        let work = move || queue.into_iter().for_each(|(task, way)| carry_out(&*worker, &keeps, &task, &way));
        std::thread::Builder::new().name("fleet-requests".into()).spawn(work)?;
        let lease = Lease::open(broker.clone(), counters.clone(), clock)?;
        let mut link = Self {
            lease,
            kept,
            options,
            read,
            broker,
            counters,
            clock,
            tasks,
            of: None,
            running: 0,
            refused: None,
            refused_total: 0,
            failures: 0,
            problem: None,
        };
        link.restore();
        link.show(false);
        Ok(link)
    }

    /// Starts the thread, which runs until `ended` says so and its poll has ended.
    pub fn start(mut self, ended: Arc<AtomicBool>) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("fleet".into()).spawn(move || {
            // ORDERING: Relaxed; the flag guards nothing.
            while !ended.load(Ordering::Relaxed) {
                let pause = self.turn();
                if !pause.is_zero() {
                    std::thread::sleep(pause);
                }
            }
        })
    }

    /// Applies the last good version.
    fn restore(&mut self) {
        let credential = match self.kept.credential() {
            Ok(Some(credential)) => credential,
            Ok(None) => return,
            Err(error) => return tracing::error!("fleet: {error}; enrol this broker again"),
        };
        match self.kept.last() {
            Ok(Some(signed)) => {
                let version = self.take(&credential, &signed, None);
                if version > 0 {
                    tracing::info!("fleet: version {version} of the group {} runs, as kept", credential.group);
                }
            }
            Ok(None) => {}
            Err(error) => tracing::error!("fleet: {error}; waiting for the server"),
        }
    }

    /// Verifies and applies a version; 0 when that is refused. `claimed`: the version that the server named, if it sent
    /// it.
    fn take(&mut self, credential: &Credential, signed: &Signed, claimed: Option<u64>) -> u64 {
        match self.checked(credential, signed, claimed) {
            Ok(version) => {
                (self.running, self.refused) = (version, None);
                version
            }
            Err((version, reason, why)) => {
                tracing::error!("fleet: version {version} is refused, {reason}: {why}; version {} stays", self.running);
                self.counters.fleet.count("ogive_fleet_refused_total", ("reason", reason));
                self.refused_total += 1;
                self.refused = Some(Refused { version, reason: reason.into(), why });
                0
            }
        }
    }

    fn checked(
        &self,
        credential: &Credential,
        signed: &Signed,
        claimed: Option<u64>,
    ) -> Result<u64, (u64, &'static str, String)> {
        let claim = claimed.unwrap_or(0);
        let package = PublicKey::parse(&credential.key).and_then(|key| signed.verify(&key));
        let package = package.map_err(|why| (claim, "signature", why))?;
        let version = package.version;
        if package.group != credential.group {
            let why = format!("it is for the group {:?}, not for {:?}", package.group, credential.group);
            return Err((claim.max(version), "group", why));
        }
        if claimed.is_some() && version <= self.running {
            return Err((claim.max(version), "older", format!("version {} runs already", self.running)));
        }
        self.broker.apply(&package).map_err(|(reason, why)| (version, reason, why))?;
        if claimed.is_some()
            && let Err(error) = self.kept.set_last(signed)
        {
            // It runs; a restart without the server would go back to the version before.
            tracing::error!("fleet: version {version} runs and is not kept: {error}");
        }
        Ok(version)
    }

    /// One poll; how long to pause after it.
    fn turn(&mut self) -> Duration {
        match self.connected() {
            Ok(true) => {}
            Ok(false) => return LOOK_AGAIN,
            Err(problem) => return self.failed(problem),
        }
        let Some((credential, way)) = self.of.clone() else { return LOOK_AGAIN };
        if self.failures == 0
            && let Err(problem) = self.rotate(&credential, &way).and_then(|()| send_unsent(&self.kept, &way))
        {
            return self.failed(problem);
        }
        let report = Report {
            version: self.running,
            refused: self.refused.clone(),
            refused_total: self.refused_total,
            ..self.broker.report()
        };
        let runs = Some(self.lease.checks());
        let poll = Poll { report, begun: self.kept.begun(), at_once: self.failures > 0, runs };
        let asked_ns = self.clock.now();
        // With a lease an answer comes within a third of it.
        let timeout = self.lease.length().map_or(WAIT_MAX + TIMEOUT, |lease| lease.min(WAIT_MAX + TIMEOUT));
        let reply = match way.request("poll", &poll, timeout) {
            Ok(reply) if reply.status == 200 => reply,
            Ok(reply) if reply.status == 401 && credential.next_token.is_some() => return self.swap(credential),
            Ok(reply) => return self.failed(said(&reply)),
            Err(failure) => {
                // A name may have several addresses, and the server may listen at one that says nothing.
                if failure.is_refused && refuses_everywhere(&way.url) {
                    self.lease.server_is_down(asked_ns);
                }
                return self.failed(failure.detail);
            }
        };
        let answer: Answer = match serde_json::from_slice(&reply.body) {
            Ok(answer) => answer,
            Err(error) => return self.failed(format!("the answer of {} is none: {error}", way.url)),
        };
        if self.failures > 0 || self.problem.is_some() {
            tracing::info!("fleet: {} answers", way.url);
        }
        (self.failures, self.problem) = (0, None);
        self.answered(&credential, &way, answer, asked_ns)
    }

    fn answered(&mut self, credential: &Credential, way: &Way, answer: Answer, asked_ns: u64) -> Duration {
        let is_newest = answer.package.is_none() && answer.version == self.running;
        if let Some(signed) = &answer.package {
            let version = self.take(credential, signed, Some(answer.version));
            if version > 0 {
                tracing::info!("fleet: version {version} of the group {} runs", credential.group);
            }
        } else if is_newest {
            self.refused = None;
        }
        // After the version whose checks they are.
        self.lease.set(answer.share, asked_ns);
        match self.kept.begin(answer.tasks) {
            Ok(tasks) => tasks.into_iter().for_each(|task| drop(self.tasks.send((task, way.clone())))),
            Err(error) => tracing::error!("fleet: a request is not begun: {error}"),
        }
        self.connect(answer.connects, credential, way);
        self.show(true);
        Duration::from_millis(answer.pause_ms).min(WAIT_MAX)
    }

    /// Passes on connections that somebody wants.
    fn connect(&self, requests: Vec<Connect>, credential: &Credential, way: &Way) {
        if requests.is_empty() {
            return;
        }
        let (ca_pem, identity_pem) = match self.options.files(self.read) {
            Ok(files) => files,
            // The server says that the broker has not connected.
            Err(problem) => return tracing::error!("fleet: no connection is opened: {problem}"),
        };
        let home = Home { url: way.url.clone(), token: credential.token.clone(), ca_pem, identity_pem };
        requests.into_iter().for_each(|request| self.broker.connect(request, home.clone()));
    }

    /// Reads the credential; false when there is none yet.
    fn connected(&mut self) -> Result<bool, String> {
        let Some(credential) = self.kept.credential().map_err(|error| error.to_string())? else { return Ok(false) };
        if self.of.as_ref().is_some_and(|(of, _)| *of == credential) {
            return Ok(true);
        }
        let is_same = |of: &Credential| of.group == credential.group && of.key == credential.key;
        if self.of.as_ref().is_some_and(|(of, _)| !is_same(of)) {
            // Versions of another group or server say nothing about this one's.
            (self.running, self.refused) = (0, None);
        }
        let client = Arc::new(self.options.client(Some(&credential.token), self.read)?);
        let url = self.options.url.clone().unwrap_or_else(|| credential.url.clone());
        self.of = Some((credential, Way { client, url }));
        Ok(true)
    }

    /// Replaces the token once a third of its life is over.
    fn rotate(&self, credential: &Credential, way: &Way) -> Result<(), String> {
        let now_ms = self.clock.wall().div_euclid(1_000_000);
        if credential.next_token.is_none() && now_ms < credential.expires_ms - credential.lifetime_ms / 3 * 2 {
            return Ok(());
        }
        let shown = |error: Error| error.to_string();
        let mut next = credential.clone();
        let token = next.next_token.clone().map_or_else(token, Ok)?;
        next.next_token = Some(token.clone());
        self.kept.set_credential(&next).map_err(shown)?;
        let reply = way.post("rotate", &Rotate { token_sha256: sha256(&token) }, TIMEOUT)?;
        match reply.status {
            200 => {}
            // The poll finds out whether the server knows the next one.
            401 => return Ok(()),
            _ => return Err(said(&reply)),
        }
        let found: Enroled = serde_json::from_slice(&reply.body).map_err(|error| error.to_string())?;
        let credential = Credential { token, next_token: None, expires_ms: found.expires_ms, ..next };
        self.kept.set_credential(&credential).map_err(shown)
    }

    /// The server does not know the token and may know the next one.
    fn swap(&mut self, mut credential: Credential) -> Duration {
        credential.token = credential.next_token.take().unwrap_or_default();
        match self.kept.set_credential(&credential) {
            Ok(()) => PAUSE_MIN,
            Err(error) => self.failed(error.to_string()),
        }
    }

    fn failed(&mut self, problem: String) -> Duration {
        if self.problem.as_ref() != Some(&problem) {
            tracing::warn!("fleet: {problem}; version {} goes on", self.running);
            self.problem = Some(problem);
        }
        self.failures = self.failures.saturating_add(1);
        self.show(false);
        let pause_max = self.lease.length().map_or(PAUSE_MAX, |lease| (lease / LEASE_PARTS).min(PAUSE_MAX));
        let pause = PAUSE_MIN.saturating_mul(1 << self.failures.min(6)).min(pause_max);
        // Half to all of it, so that the brokers of a server that comes back do not come at once.
        let share = self.clock.now() % 500;
        pause.mul_f64(0.5 + share as f64 / 1_000.0)
    }

    fn show(&self, is_up: bool) {
        let figures = &self.counters.fleet;
        figures.set("ogive_fleet_link_up", NONE, f64::from(u8::from(is_up)));
        figures.set("ogive_fleet_version", NONE, self.running as f64);
        figures.set("ogive_fleet_refusing", NONE, f64::from(u8::from(self.refused.is_some())));
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.lease.close();
    }
}

/// A figure without a label.
const NONE: (&str, &str) = ("", "");

/// Carries out a request and brings its outcome to the server, or leaves it for the next poll.
fn carry_out(broker: &dyn Broker, kept: &BrokerStore, task: &Task, way: &Way) {
    let outcome = match broker.carry_out(&task.order) {
        Ok(text) => Outcome { id: task.id, ok: true, text },
        Err(text) => Outcome { id: task.id, ok: false, text },
    };
    let sent = kept.end(outcome).map_err(|error| error.to_string()).and_then(|()| send_unsent(kept, way));
    if let Err(problem) = sent {
        tracing::warn!("fleet: the outcome of a request waits: {problem}");
    }
}

fn send_unsent(kept: &BrokerStore, way: &Way) -> Result<(), String> {
    let done = FinishedTasks { done: kept.unsent() };
    if done.done.is_empty() {
        return Ok(());
    }
    let reply = way.post("outcomes", &done, TIMEOUT)?;
    match reply.status {
        200 => kept.sent(&done.done).map_err(|error| error.to_string()),
        // The poll says why.
        401 => Ok(()),
        _ => Err(said(&reply)),
    }
}
