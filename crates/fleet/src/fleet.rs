//! The server's side: groups, brokers, tickets, and the long poll.
//!
//! Invariants: what is acknowledged is durable. A change wakes the polls of the brokers that it is about, so that it
//! reaches them as fast as they can take it; a poll of a broker ends an earlier one of the same broker. Each poll is
//! judged by the enrolment that is in force when it comes and when it is answered: one that was revoked ends at once.
//! Threads: writers come one after the other and block (call them beside the async threads); a poll holds a lock for
//! microseconds only.
//! Limits: [`WAIT_MIN_MS`] to [`WAIT_MAX`] of a poll, [`WAITING_MAX`] of them beside other requests.

mod connect;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ogive_door::counters::Counters;
use ogive_journal::Disk;
use ogive_probe::Clock;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, Semaphore};

use crate::credential::{BROKERS_MAX, Enrolment, NewTicket, TICKETS_MAX, Ticket, TicketView, ticket_parts};
use crate::dials::Dials;
use crate::division::Division;
use crate::error::Error;
use crate::group_store::{GroupStore, InForce, NewVersion};
use crate::member::{LastPoll, Member, Row, State as MemberState};
use crate::package::{Contents, Package, PublicKey, Signed, SigningKey};
use crate::record::{Records, Restrict};
use crate::secret::{TOKEN_PREFIX, sha256};
use crate::spread::{NAME_BYTES_MAX, SPREAD_MAX, Spread};
use crate::task::{ANSWER_BYTES_MAX, Order, PENDING_MAX, TaskView, Tasks};
use crate::wire::{Answer, Enrol, Enroled, FinishedTasks, Poll, Rotate, Share};

/// The longest wait of a poll: below the 75 s after which a server or a proxy takes a connection for dead.
pub const WAIT_MAX: Duration = Duration::from_secs(60);
/// 50 s in a large fleet, give or take a fifth.
const WAIT_MS: u64 = 50_000;
/// 10 s in a small one, so that its figures are recent.
const WAIT_MIN_MS: u64 = 10_000;
/// 5 ms for each broker: 200 polls a second of an idle fleet, whatever its size.
const WAIT_PER_BROKER_MS: u64 = 5;
/// 128 polls wait at the main address, which has 736 connections; more at an address of their own.
const WAITING_MAX: usize = 128;
/// A poll: a report of some KiB, the outcomes of all requests, and the names of all spread checks, half of whose bytes
/// are escaped.
pub const POLL_BYTES_MAX: usize =
    (64 << 10) + 2 * PENDING_MAX * ANSWER_BYTES_MAX + 2 * SPREAD_MAX * (NAME_BYTES_MAX + 2);

/// How a configuration is validated: as the brokers do it. What of it is divided among them, or the mistakes, a
/// sentence each.
pub type Validate = fn(&Contents) -> Result<Spread, Vec<String>>;

/// See the module.
pub struct Fleet {
    records: Records,
    validate: Validate,
    counters: Arc<Counters>,
    clock: Clock,
    waiting: Arc<Semaphore>,
    /// Connections through brokers. Locked after `state`.
    dials: Arc<Dials>,
    /// Held by writers, over their writing. Before `state`.
    desk: Mutex<Desk>,
    state: Mutex<State>,
}

struct Desk {
    key: Option<Arc<SigningKey>>,
    groups: GroupStore,
    tickets: BTreeMap<String, Ticket>,
}

#[derive(Default)]
struct State {
    members: BTreeMap<String, Member>,
    /// The members by the hashes of their tokens.
    by_hash: HashMap<String, String>,
    versions: HashMap<String, (u64, Arc<Signed>)>,
    /// Groups with checks that only some of their brokers run, and those that had such.
    divisions: BTreeMap<String, Division>,
    changes: u64,
    polls: u64,
}

/// What an apply did.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The version in force.
    pub package: Arc<Package>,
    /// What was in force before.
    pub before: Option<Arc<Package>>,
    /// False when it says what was in force already.
    pub is_new: bool,
}

/// A group as the list shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupRow {
    /// The group.
    pub group: String,
    /// The version in force.
    pub version: u64,
    /// Since when.
    pub time_ms: i64,
    /// By whom.
    pub by: String,
    /// Why.
    pub why: String,
    /// All versions that are kept.
    pub versions: usize,
    /// Its brokers by state.
    pub brokers: BTreeMap<String, usize>,
    /// Its checks that only some of its brokers run.
    #[serde(default)]
    pub spread_checks: usize,
    /// Those that fewer brokers run than could.
    #[serde(default)]
    pub spread_waiting: usize,
}

/// A poll that was let in.
struct Entered {
    name: String,
    hash: String,
    poll: u64,
    wake: Arc<Notify>,
    wait_ms: u64,
}

impl Fleet {
    /// What `directories` hold; each is made when something is written.
    ///
    /// # Errors
    /// A directory or the key cannot be read.
    pub fn open(
        disk: Arc<dyn Disk>,
        directories: Vec<PathBuf>,
        restrict: Restrict,
        validate: Validate,
        counters: Arc<Counters>,
        clock: Clock,
    ) -> Result<Self, Error> {
        let records = Records::new(disk, directories, restrict);
        let key = records.read::<Vec<u8>>("key.json")?.map(|pkcs8| SigningKey::parse(&pkcs8));
        let key = key.transpose().map_err(|why| Error::Corrupt(format!("the key of the fleet: {why}")))?.map(Arc::new);
        let mut groups = GroupStore::open(records.clone(), key.as_deref())?;
        // Cursors of before a restart are behind.
        let changes = u64::try_from(now_ms(clock)).unwrap_or(0);
        let (mut state, mut tickets) = (State { changes, ..State::default() }, BTreeMap::new());
        for name in records.list("brokers")? {
            let Some(name) = name.strip_suffix(".json") else { continue };
            match records.read::<Enrolment>(&format!("brokers/{name}.json")) {
                Ok(Some(enrolment)) => {
                    let tasks = records.read(&format!("tasks/{name}.json")).ok().flatten().unwrap_or_default();
                    state.put(Member::new(enrolment, tasks));
                }
                Ok(None) => {}
                Err(error) => groups.damaged.push(format!("broker {name}: {error}")),
            }
        }
        for name in records.list("tickets")? {
            match records.read::<Ticket>(&format!("tickets/{name}")) {
                Ok(Some(ticket)) => drop(tickets.insert(ticket.id.clone(), ticket)),
                Ok(None) => {}
                Err(error) => groups.damaged.push(format!("ticket {name}: {error}")),
            }
        }
        state.versions.extend(groups.all().map(|(name, found)| (name.clone(), version_of(found))));
        let mut invalid = Vec::new();
        for (name, found) in groups.all() {
            match validate(&found.package.contents) {
                Ok(spread) if spread.checks.is_empty() => {}
                Ok(spread) => drop(state.divisions.insert(name.clone(), Division::from_earlier(spread, clock.now()))),
                // Brokers go on with it, but nobody can divide its checks.
                Err(mistakes) => invalid.push(format!(
                    "group {name}: its version is not valid here any more, and its spread checks run nowhere; apply it again: {}",
                    mistakes.join("; ")
                )),
            }
        }
        groups.damaged.extend(invalid);
        let damaged = groups.damaged.len();
        counters.fleet.set("ogive_fleet_damaged_files", NONE, damaged as f64);
        let desk = Mutex::new(Desk { key, groups, tickets });
        let waiting = Arc::new(Semaphore::new(WAITING_MAX));
        let dials = Dials::new(counters.clone());
        Ok(Self { records, validate, counters, clock, waiting, dials, desk, state: Mutex::new(state) })
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key, made and durable before it is used.
    fn key(&self, desk: &mut Desk) -> Result<Arc<SigningKey>, Error> {
        if let Some(key) = &desk.key {
            return Ok(key.clone());
        }
        let pkcs8 = SigningKey::generate().map_err(Error::Limit)?;
        self.records.write("key.json", &pkcs8)?;
        let key = Arc::new(SigningKey::parse(&pkcs8).map_err(Error::Corrupt)?);
        desk.key = Some(key.clone());
        Ok(key)
    }

    /// Makes `contents` what the brokers of `group` shall do. `base`: only if that version is in force.
    ///
    /// # Errors
    /// Its mistakes, or why it cannot be kept. What was in force stays.
    pub fn apply(
        &self,
        group: &str,
        contents: Contents,
        base: Option<u64>,
        by: &str,
        why: &str,
        now_ms: i64,
    ) -> Result<Applied, Error> {
        contents.check_size().map_err(Error::Wrong)?;
        let spread = (self.validate)(&contents).map_err(Error::Invalid)?;
        let mut desk = self.desk();
        let before = desk.groups.in_force(group).map(|found| found.package.clone());
        let version = before.as_ref().map_or(0, |before| before.version);
        if base.is_some_and(|base| base != version) {
            return Err(Error::Conflict(format!(
                "the group {group:?} is at version {version} by now; look at `ogive fleet diff` again"
            )));
        }
        if let Some(package) = before.clone().filter(|before| before.contents == contents) {
            return Ok(Applied { package, before, is_new: false });
        }
        let above = self.state().highest(group);
        let key = self.key(&mut desk)?;
        let package = desk.groups.add(NewVersion { group, contents, by, why, above, now_ms }, &key)?;
        let in_force = version_of(desk.groups.in_force(group).expect("it was just added"));
        let mut state = self.state();
        state.divide(group, spread, self.clock);
        state.publish(group, in_force);
        Ok(Applied { package, before, is_new: true })
    }

    /// Puts an earlier version in force again, as a new one.
    ///
    /// # Errors
    /// There is no such version, or it is not valid any more.
    pub fn rollback(&self, group: &str, version: u64, by: &str, why: &str, now_ms: i64) -> Result<Applied, Error> {
        let package = self.version(group, Some(version))?;
        let why = if why.is_empty() { format!("rollback to version {version}") } else { why.to_owned() };
        self.apply(group, package.contents, None, by, &why, now_ms)
    }

    /// A version of a group, or the one in force.
    ///
    /// # Errors
    /// There is none.
    pub fn version(&self, group: &str, version: Option<u64>) -> Result<Package, Error> {
        crate::check_name(group).map_err(Error::Wrong)?;
        let desk = self.desk();
        let unknown = || Error::Unknown(format!("there is no group {group:?}"));
        let in_force = desk.groups.in_force(group).ok_or_else(unknown)?.package.clone();
        match version {
            Some(version) if version != in_force.version => {
                let key = desk.key.clone().ok_or_else(unknown)?;
                desk.groups.read(group, version, &key).map(|(package, _)| package)
            }
            _ => Ok((*in_force).clone()),
        }
    }

    /// The newest versions of a group without their contents, the newest first.
    ///
    /// # Errors
    /// There is no such group, or a file cannot be read.
    pub fn history(&self, group: &str, most: usize) -> Result<Vec<Package>, Error> {
        crate::check_name(group).map_err(Error::Wrong)?;
        let desk = self.desk();
        let Some(key) = desk.key.clone() else { return Ok(Vec::new()) };
        let versions = desk.groups.versions(group)?;
        let read = |version: &u64| {
            let found = desk.groups.read(group, *version, &key);
            found.map(|(package, _)| Package { contents: Contents::default(), ..package })
        };
        versions.iter().rev().take(most).map(read).collect()
    }

    /// Every group.
    pub fn groups(&self, now_ms: i64) -> Vec<GroupRow> {
        let desk = self.desk();
        let state = self.state();
        let row = |(group, found): (&String, &InForce)| {
            let mut brokers = BTreeMap::new();
            for member in state.members.values().filter(|member| member.enrolment.group == *group) {
                *brokers.entry(member.state(found.package.version, now_ms).name().to_owned()).or_default() += 1;
            }
            let Package { version, time_ms, by, why, .. } = (*found.package).clone();
            let figures = state.divisions.get(group).map(Division::figures);
            let (spread_checks, spread_waiting) = figures.unwrap_or_default();
            let (group, versions) = (group.clone(), found.versions);
            GroupRow { group, version, time_ms, by, why, versions, brokers, spread_checks, spread_waiting }
        };
        desk.groups.all().map(row).collect()
    }

    /// Files that could not be read at the start, a sentence each.
    pub fn damaged(&self) -> Vec<String> {
        self.desk().groups.damaged.clone()
    }

    /// A new ticket: what people see, and the text that is shown this once.
    ///
    /// # Errors
    /// What of it is wrong.
    pub fn ticket(&self, wanted: &NewTicket, by: &str, now_ms: i64) -> Result<(TicketView, String), Error> {
        let mut desk = self.desk();
        let over = |ticket: &&Ticket| ticket.expires_ms + TICKET_KEPT_MS < now_ms;
        for id in desk.tickets.values().filter(over).map(|ticket| ticket.id.clone()).collect::<Vec<_>>() {
            self.records.remove(&format!("tickets/{id}.json"))?;
            desk.tickets.remove(&id);
        }
        if desk.tickets.len() >= TICKETS_MAX {
            return Err(Error::Limit(format!("there are {TICKETS_MAX} tickets; some end within a month")));
        }
        let key = self.key(&mut desk)?;
        let (ticket, text) = Ticket::new(wanted, by, &key.public(), now_ms)?;
        self.records.write(&format!("tickets/{}.json", ticket.id), &ticket)?;
        let view = ticket.view();
        desk.tickets.insert(ticket.id.clone(), ticket);
        Ok((view, text))
    }

    /// The tickets that are there.
    pub fn tickets(&self) -> Vec<TicketView> {
        self.desk().tickets.values().map(Ticket::view).collect()
    }

    /// Enrols a broker with a ticket. Also returns whom to report it as.
    ///
    /// # Errors
    /// The ticket is not accepted.
    pub fn enrol(&self, body: &[u8], now_ms: i64) -> Result<Enroled, Error> {
        let enrol: Enrol =
            serde_json::from_slice(body).map_err(|error| Error::Wrong(format!("this enrols no broker: {error}")))?;
        self.enrol_with(&enrol, now_ms).inspect_err(|error| self.count(error))
    }

    fn enrol_with(&self, enrol: &Enrol, now_ms: i64) -> Result<Enroled, Error> {
        let unknown = || Error::denied("ticket", "this is no ticket of this server");
        let (id, secret, _) = ticket_parts(&enrol.ticket).map_err(Error::Wrong)?;
        let mut desk = self.desk();
        let mut ticket = desk.tickets.get(id).filter(|ticket| ticket.is_of(secret)).cloned().ok_or_else(unknown)?;
        let was_used = ticket.is_used();
        let enrolment = ticket.redeem(&enrol.name, &enrol.token_sha256, now_ms)?;
        let key = self.key(&mut desk)?.public();
        if was_used {
            // The answer to the first attempt was lost; whatever happened since stays.
            let state = self.state();
            let member = state.members.get(&enrol.name).filter(|member| member.enrolment.ticket.0 == id);
            let member = member.ok_or_else(|| Error::denied("used", "the ticket was used; ask for a new one"))?;
            member.enrolment.admits(&enrol.token_sha256, now_ms)?;
            return Ok(enroled(&member.enrolment, &key));
        }
        self.check_place(&enrol.name, ticket.broker.as_deref())?;
        self.records.write(&format!("tickets/{id}.json"), &ticket)?;
        desk.tickets.insert(id.to_owned(), ticket);
        self.records.write(&format!("brokers/{}.json", enrol.name), &enrolment)?;
        let out = enroled(&enrolment, &key);
        self.state().put(Member::new(enrolment, Tasks::default()));
        Ok(out)
    }

    /// Whether a broker may take this name.
    fn check_place(&self, name: &str, only: Option<&str>) -> Result<(), Error> {
        let state = self.state();
        match state.members.get(name) {
            Some(member) if member.enrolment.revoked.is_none() && only.is_none() => Err(Error::denied(
                "name",
                format!(
                    "there is a broker {name:?}; revoke it first, or make the ticket for it: \
                     `ogive fleet ticket --broker {name}`"
                ),
            )),
            None if state.members.len() >= BROKERS_MAX => {
                Err(Error::Limit(format!("there are {BROKERS_MAX} brokers, and no more are taken")))
            }
            _ => Ok(()),
        }
    }

    /// Replaces the token of the broker that shows `token`.
    ///
    /// # Errors
    /// The token is not accepted.
    pub fn rotate(&self, token: &str, body: &[u8], now_ms: i64) -> Result<Enroled, Error> {
        let rotate: Rotate =
            serde_json::from_slice(body).map_err(|error| Error::Wrong(format!("this rotates no token: {error}")))?;
        let mut desk = self.desk();
        let hash = sha256(token);
        let admitted = self.state().admitted(&hash, now_ms).map(|member| member.enrolment.clone());
        let mut enrolment = admitted.inspect_err(|error| self.count(error))?;
        enrolment.rotate(&rotate.token_sha256, now_ms)?;
        self.records.write(&format!("brokers/{}.json", enrolment.name), &enrolment)?;
        let out = enroled(&enrolment, &self.key(&mut desk)?.public());
        self.state().change(enrolment);
        Ok(out)
    }

    /// Revokes a broker: its poll in flight ends, and no further one is answered.
    ///
    /// # Errors
    /// There is no such broker.
    pub fn revoke(&self, name: &str, by: &str, now_ms: i64) -> Result<(), Error> {
        let _desk = self.desk();
        let found = self.state().members.get(name).map(|member| member.enrolment.clone());
        let mut enrolment = found.ok_or_else(|| no_broker(name))?;
        if enrolment.revoked.is_none() {
            enrolment.revoked = Some((now_ms, by.to_owned()));
            self.records.write(&format!("brokers/{name}.json"), &enrolment)?;
            self.state().change(enrolment);
        }
        Ok(())
    }

    /// Asks a broker to do something: the id of the request.
    ///
    /// # Errors
    /// There is no such broker, or too many requests wait for it.
    pub fn ask(&self, name: &str, order: Order, by: &str, now_ms: i64) -> Result<u64, Error> {
        let _desk = self.desk();
        let mut tasks = match self.state().members.get(name) {
            Some(member) if member.enrolment.revoked.is_none() => member.tasks.clone(),
            Some(_) => return Err(Error::Conflict(format!("the broker {name:?} was revoked"))),
            None => return Err(no_broker(name)),
        };
        let id = tasks.add(order, by, now_ms)?;
        self.keep_tasks(name, tasks)?;
        Ok(id)
    }

    fn keep_tasks(&self, name: &str, tasks: Tasks) -> Result<(), Error> {
        self.records.write(&format!("tasks/{name}.json"), &tasks)?;
        let mut state = self.state();
        state.changes += 1;
        let changes = state.changes;
        if let Some(member) = state.members.get_mut(name) {
            (member.tasks, member.changed) = (tasks, changes);
            member.wake.notify_one();
        }
        Ok(())
    }

    /// The requests to a broker with their outcomes.
    ///
    /// # Errors
    /// There is no such broker.
    pub fn asked(&self, name: &str) -> Result<Vec<TaskView>, Error> {
        self.state().members.get(name).map(|member| member.tasks.views()).ok_or_else(|| no_broker(name))
    }

    /// Takes outcomes of requests from the broker that shows `token`.
    ///
    /// # Errors
    /// The token is not accepted, or the outcomes cannot be kept.
    pub fn finish(&self, token: &str, body: &[u8], now_ms: i64) -> Result<(), Error> {
        let done: FinishedTasks =
            serde_json::from_slice(body).map_err(|error| Error::Wrong(format!("these are no outcomes: {error}")))?;
        let _desk = self.desk();
        let admitted = self
            .state()
            .admitted(&sha256(token), now_ms)
            .map(|member| (member.enrolment.name.clone(), member.tasks.clone()));
        let (name, mut tasks) = admitted.inspect_err(|error| self.count(error))?;
        let ended = done.done.into_iter().filter(|outcome| tasks.end(outcome.clone())).count();
        if ended > 0 { self.keep_tasks(&name, tasks) } else { Ok(()) }
    }

    /// The brokers that changed after `since`, in JSON: `{"now_ms","cursor","total","brokers":[..]}`.
    pub fn brokers(&self, since: u64, now_ms: i64) -> String {
        #[derive(Serialize)]
        struct List<'m> {
            now_ms: i64,
            cursor: u64,
            total: usize,
            brokers: Vec<Row<'m>>,
        }
        let state = self.state();
        let changed = state.members.values().filter(|member| member.changed > since);
        let brokers = changed.map(|member| state.row(member, now_ms)).collect();
        let list = List { now_ms, cursor: state.changes, total: state.members.len(), brokers };
        serde_json::to_string(&list).expect("it is JSON")
    }

    /// Answers the poll of the broker that shows `token`: at once when there is something new, else after a while.
    /// `is_beside`: it comes beside other requests, where few may wait.
    ///
    /// # Errors
    /// The token is not accepted, or is not any more.
    pub async fn poll(
        &self,
        token: &str,
        poll: Poll,
        address: String,
        is_beside: bool,
        clock: Clock,
    ) -> Result<Answer, Error> {
        let at_once = poll.at_once;
        let place = if is_beside { self.waiting.clone().try_acquire_owned().ok() } else { None };
        let may_wait = !at_once && (!is_beside || place.is_some());
        let entered = self.enter(token, poll, address, clock).inspect_err(|error| self.count(error))?;
        self.counters.fleet.count("ogive_fleet_polls_total", NONE);
        let sleep = tokio::time::sleep(Duration::from_millis(entered.wait_ms));
        tokio::pin!(sleep);
        loop {
            let answer = self.answer(&entered, clock).inspect_err(|error| self.count(error))?;
            let (mut answer, is_news) = answer;
            if is_news || !may_wait {
                answer.pause_ms = if may_wait || is_news || at_once { 0 } else { entered.wait_ms };
                return Ok(answer);
            }
            tokio::select! {
                () = entered.wake.notified() => {}
                () = &mut sleep => return Ok(answer),
            }
        }
    }

    /// Lets a poll in, and keeps its report.
    fn enter(&self, token: &str, poll: Poll, address: String, clock: Clock) -> Result<Entered, Error> {
        let (hash, now_ms) = (sha256(token), now_ms(clock));
        let mut state = self.state();
        let group = state.admitted(&hash, now_ms)?.enrolment.group.clone();
        let wait_max = state.wait_max_ms(&group);
        let brokers = state.members.len() as u64;
        (state.changes, state.polls) = (state.changes + 1, state.polls + 1);
        let (changes, polls) = (state.changes, state.polls);
        let member = state.admitted(&hash, now_ms)?;
        let report = poll.report.bounded();
        if let Some(refused) = &report.refused
            && member.seen.as_ref().is_none_or(|seen| seen.report.refused.as_ref() != Some(refused))
        {
            let name = &member.enrolment.name;
            tracing::warn!("broker {name} refuses version {}: {}: {}", refused.version, refused.reason, refused.why);
        }
        // A fifth to either side, by name and poll, so that brokers that came together part.
        // Tokens are rotated between polls, in the middle third of their life.
        let rotation = u64::try_from(member.enrolment.lifetime_ms() / 3).unwrap_or(u64::MAX);
        let wait = (brokers * WAIT_PER_BROKER_MS).clamp(WAIT_MIN_MS, WAIT_MS).min(wait_max).min(rotation);
        let spread = (u64::from_str_radix(&hash[..8], 16).unwrap_or(0) + polls * 7_919) % (wait * 2 / 5);
        let wait_ms = wait * 4 / 5 + spread;
        let next_ms = now_ms + i64::try_from(wait_ms).unwrap_or(0);
        member.seen = Some(LastPoll { report, at_ms: now_ms, address, next_ms, begun: poll.begun });
        (member.changed, member.poll) = (changes, polls);
        // An earlier poll of it that still waits gives way.
        member.wake.notify_waiters();
        let (name, wake) = (member.enrolment.name.clone(), member.wake.clone());
        if let Some(runs) = poll.runs {
            state.note_runs(&name, runs, clock.now());
        }
        Ok(Entered { name, hash, poll: polls, wake, wait_ms })
    }

    /// The answer to a poll now, and whether it has something new.
    fn answer(&self, entered: &Entered, clock: Clock) -> Result<(Answer, bool), Error> {
        let now_ms = now_ms(clock);
        let mut state = self.state();
        let member = state.admitted(&entered.hash, now_ms)?;
        let is_replaced = member.poll != entered.poll;
        let (report, begun) = member.seen.as_ref().map(|seen| (&seen.report, seen.begun)).expect("it has just polled");
        let (runs, refused) = (report.version, report.refused.as_ref().map_or(0, |refused| refused.version));
        let tasks: Vec<_> = member.tasks.pending().filter(|task| task.id > begun).cloned().collect();
        let group = member.enrolment.group.clone();
        debug_assert_eq!(member.enrolment.name, entered.name);
        // The one who has just polled again would not receive them.
        let connects = if is_replaced { Vec::new() } else { self.dials.deliver(&entered.name) };
        let mut answer = Answer { now_ms, tasks, connects, ..Answer::default() };
        if let Some((version, signed)) = state.versions.get(&group) {
            answer.version = *version;
            if *version != runs && *version != refused {
                answer.package = Some((**signed).clone());
            }
        }
        let mut is_news = is_replaced || answer.package.is_some() || !answer.tasks.is_empty();
        is_news |= !answer.connects.is_empty();
        let division = state.divisions.get_mut(&group).filter(|_| !is_replaced);
        if let Some(division) = division
            && let Some(grant) = division.grant(&entered.name, clock.now())
        {
            let lease_ms = u64::try_from(division.lease().as_millis()).expect("an hour at most");
            (0..grant.moves).for_each(|_| self.counters.fleet.count("ogive_fleet_moves_total", NONE));
            is_news |= grant.is_news;
            answer.share = Some(Share { lease_ms, checks: grant.checks });
        }
        Ok((answer, is_news))
    }

    /// Counts the brokers by state, and ends leases; called every few seconds.
    pub fn tick(&self, now_ms: i64) {
        let mut state = self.state();
        if let Some((running, waiting)) = state.end_leases(self.clock.now()) {
            for (name, sum) in [("running", running), ("waiting", waiting)] {
                self.counters.fleet.set("ogive_fleet_spread_checks", ("state", name), sum as f64);
            }
        }
        let mut sums = [0_usize; MemberState::ALL.len()];
        let State { members, versions, changes, .. } = &mut *state;
        for member in members.values_mut() {
            let version = versions.get(&member.enrolment.group).map_or(0, |(version, _)| *version);
            let is = member.state(version, now_ms);
            sums[MemberState::ALL.iter().position(|one| *one == is).expect("ALL has every state")] += 1;
            if member.shown != Some(is) {
                *changes += 1;
                (member.shown, member.changed) = (Some(is), *changes);
            }
        }
        if !members.is_empty() {
            for (is, sum) in MemberState::ALL.iter().zip(sums) {
                self.counters.fleet.set("ogive_fleet_brokers", ("state", is.name()), sum as f64);
            }
        }
    }

    fn count(&self, error: &Error) {
        if let Error::Denied { reason, .. } = error {
            self.counters.fleet.count("ogive_fleet_denied_total", ("reason", reason));
        }
    }
}

/// A figure without a label.
const NONE: (&str, &str) = ("", "");
/// Tickets that are over are shown for another month.
const TICKET_KEPT_MS: i64 = 31 * 86_400_000;

fn now_ms(clock: Clock) -> i64 {
    clock.wall().div_euclid(1_000_000)
}

fn no_broker(name: &str) -> Error {
    Error::Unknown(format!("there is no broker {name:?}; `ogive fleet brokers` lists them"))
}

fn version_of(found: &InForce) -> (u64, Arc<Signed>) {
    (found.package.version, found.signed.clone())
}

fn enroled(enrolment: &Enrolment, key: &PublicKey) -> Enroled {
    Enroled {
        name: enrolment.name.clone(),
        group: enrolment.group.clone(),
        key: key.text(),
        expires_ms: enrolment.expires_ms(),
        lifetime_ms: enrolment.lifetime_ms(),
    }
}

impl State {
    /// The member whose token has this hash, if it is let in now.
    fn admitted(&mut self, hash: &str, now_ms: i64) -> Result<&mut Member, Error> {
        let unknown = || {
            Error::denied("token", format!("this token ({TOKEN_PREFIX}...) is not known here; enrol the broker again"))
        };
        let name = self.by_hash.get(hash).ok_or_else(unknown)?;
        let member = self.members.get_mut(name).ok_or_else(unknown)?;
        member.enrolment.admits(hash, now_ms)?;
        Ok(member)
    }

    fn version(&self, group: &str) -> u64 {
        self.versions.get(group).map_or(0, |(version, _)| *version)
    }

    /// As the list shows a member.
    fn row<'m>(&'m self, member: &'m Member, now_ms: i64) -> Row<'m> {
        let Enrolment { name, group, .. } = &member.enrolment;
        let held = self.divisions.get(group).map(|division| division.held(name));
        member.row(self.version(group), held.unwrap_or_default(), now_ms)
    }

    /// The longest that polls of a group may wait: a part of the lease, where there are leases.
    fn wait_max_ms(&self, group: &str) -> u64 {
        let division = self.divisions.get(group).filter(|division| !division.is_empty());
        division.map_or(u64::MAX, |division| u64::try_from(division.wait().as_millis()).unwrap_or(u64::MAX))
    }

    /// A version that divides these checks among the brokers of a group is about to be in force.
    fn divide(&mut self, group: &str, spread: Spread, clock: Clock) {
        if let Some(division) = self.divisions.get_mut(group) {
            return division.set(spread);
        }
        if spread.checks.is_empty() {
            return;
        }
        let mut division = Division::new(spread);
        let of_group = self.members.values().filter(|member| member.enrolment.group == group);
        for member in of_group.filter(|member| member.is_coming(now_ms(clock))) {
            division.expect(&member.enrolment.name, clock.now());
        }
        self.divisions.insert(group.to_owned(), division);
    }

    /// A broker has reported which spread checks it runs. Those that may get others now are woken.
    fn note_runs(&mut self, name: &str, runs: Vec<String>, now_ns: u64) {
        let Some(member) = self.members.get(name) else { return };
        let group = member.enrolment.group.clone();
        let is_able = member.is_able(self.version(&group));
        let Some(division) = self.divisions.get_mut(&group) else { return };
        if division.poll(name, runs, is_able, now_ns) {
            self.wake(&group, name);
        }
    }

    /// Wakes the polls of a group, but that of one broker.
    fn wake(&self, group: &str, but: &str) {
        let others = self.members.values().filter(|member| member.enrolment.group == group);
        others.filter(|member| member.enrolment.name != but).for_each(|member| member.wake.notify_one());
    }

    /// Ends the leases that are over. How many spread checks run as they should, and how many wait for brokers; none
    /// where there never were any.
    fn end_leases(&mut self, now_ns: u64) -> Option<(usize, usize)> {
        let expired = self.divisions.iter_mut().filter(|(_, division)| !division.is_empty());
        let expired = expired.filter_map(|(group, division)| division.expire(now_ns).then(|| group.clone()));
        expired.collect::<Vec<_>>().iter().for_each(|group| self.wake(group, ""));
        let all = self.divisions.values().map(Division::figures);
        let (checks, waiting) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (!self.divisions.is_empty()).then_some((checks - waiting, waiting))
    }

    /// The highest version that a broker of the group reported: after a server was restored from an older copy, its
    /// next version must be above.
    fn highest(&self, group: &str) -> u64 {
        let of_group = self.members.values().filter(|member| member.enrolment.group == group);
        of_group.filter_map(|member| Some(member.seen.as_ref()?.report.version)).max().unwrap_or(0)
    }

    fn publish(&mut self, group: &str, in_force: (u64, Arc<Signed>)) {
        self.versions.insert(group.to_owned(), in_force);
        self.changes += 1;
        for member in self.members.values_mut().filter(|member| member.enrolment.group == group) {
            member.changed = self.changes;
            member.wake.notify_one();
        }
    }

    /// Adds a member, or puts it in the place of one of its name.
    fn put(&mut self, mut member: Member) {
        self.changes += 1;
        member.changed = self.changes;
        let (name, enrolment) = (member.enrolment.name.clone(), member.enrolment.clone());
        if let Some(before) = self.members.insert(name, member) {
            before.enrolment.hashes().for_each(|hash| drop(self.by_hash.remove(hash)));
            before.wake.notify_one();
        }
        self.by_hash.extend(enrolment.hashes().map(|hash| (hash.to_owned(), enrolment.name.clone())));
    }

    /// Replaces the enrolment of a member that is there.
    fn change(&mut self, enrolment: Enrolment) {
        self.changes += 1;
        let Some(member) = self.members.get_mut(&enrolment.name) else { return };
        member.enrolment.hashes().for_each(|hash| drop(self.by_hash.remove(hash)));
        self.by_hash.extend(enrolment.hashes().map(|hash| (hash.to_owned(), enrolment.name.clone())));
        (member.enrolment, member.changed) = (enrolment, self.changes);
        member.wake.notify_one();
    }
}
