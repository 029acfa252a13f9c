//! MongoDB and servers that speak its protocol: login if configured, `ping`, and what the check wants to know:
//! statistics, the state of a replica set, and answers to commands of its own.
//!
//! - `messages`: commands and answers; `document`: documents as values; `login`: SCRAM; `statistics`, `replica_set`,
//!   `commands`: what is asked and stored.
//!
//! Format: phases login, ping and values.
//! Why not the driver: it resolves names, opens connections and TLS by itself, so that neither their phases nor
//! certificates could be measured, keeps connections and a task that watches each server, and takes answers of 48 MB.
//! Invariants: only the server of the target is asked, whatever it says of others of its replica set.
//! Limits: [`USER_BYTES_MAX`], those of `messages`, `document`, `commands`, `scram` and `readings`.
//! Failure: what a server refuses, or does not have, fails the run, and the rest is asked for all the same.

mod commands;
mod document;
mod login;
mod messages;
mod replica_set;
mod statistics;

use std::time::Duration;

use bson::rawdoc;
use ogive_probe::Clock;

use super::account::Account;
use super::net::Network;
#[cfg(any(test, feature = "fuzz"))]
use super::net::Stream;
use super::raw::Raw;
use super::readings::refuse_labels;
use super::run::{Failure, Reason, Run};
use super::scram::nonce;
use super::sql::statement_ms;
use super::target::{HostAndPort, Trust, place, target, tls};
use commands::{Command, is_database};
use login::log_in;
use messages::Session;

/// 1 KiB of a name: it is sent in three messages.
const USER_BYTES_MAX: usize = 1 << 10;
/// The database of users and of commands that are about the server.
const ADMIN: &str = "admin";

/// A server and what is asked of it.
#[derive(Clone, Debug)]
pub(super) struct MongoDb {
    place: HostAndPort,
    /// Over TLS, if at all.
    trust: Option<Trust>,
    /// None: without a login.
    login: Option<Login>,
    /// The parts of the server's statistics that are wanted.
    fields: Vec<String>,
    wants_replica_set: bool,
    commands: Vec<Command>,
}

/// Who logs in.
#[derive(Clone, Debug)]
struct Login {
    account: Account,
    /// The database that the user belongs to.
    database: String,
}

impl MongoDb {
    /// What a table of this kind says.
    pub(super) fn from_raw(raw: &mut Raw) -> Result<Self, String> {
        refuse_labels(raw, &["member", "mode", "name", "query", "replica_set"])?;
        let place = address(&target(raw)?)?;
        Ok(Self {
            place,
            trust: tls(raw),
            login: Login::from_raw(raw)?,
            fields: statistics::fields(raw)?,
            wants_replica_set: raw.replica_set.take().unwrap_or(false),
            commands: Command::all(raw, ADMIN)?,
        })
    }
}

impl Login {
    fn from_raw(raw: &mut Raw) -> Result<Option<Self>, String> {
        raw.user = raw.user.take().filter(|user| !user.is_empty());
        let Some(account) = Account::from_raw(raw)? else {
            let unused = "database is the one that the user belongs to, and there is no user";
            return if raw.database.is_some() { Err(unused.into()) } else { Ok(None) };
        };
        if account.user.len() > USER_BYTES_MAX || account.user.contains('\0') {
            return Err(format!("user has more than {USER_BYTES_MAX} bytes, or a zero byte"));
        }
        let database = raw.database.take().unwrap_or_else(|| ADMIN.into());
        if !is_database(&database) {
            return Err(format!("database {database:?} is no name of one"));
        }
        Ok(Some(Self { account, database }))
    }

    fn with_password<'a>(&'a self, password: &'a str) -> login::Account<'a> {
        login::Account { user: &self.account.user, password, database: &self.database }
    }
}

/// `HOST[:27017]`, alone or behind `mongodb://`.
fn address(text: &str) -> Result<HostAndPort, String> {
    let rest = match text.split_once("://") {
        None => text,
        Some(("mongodb", rest)) => rest,
        Some(("mongodb+srv", _)) => {
            return Err("target is a name of several servers; write a check for each, with its own name".into());
        }
        Some(_) => return Err("target is no mongodb address".into()),
    };
    if rest.contains('@') {
        return Err("a login does not belong in the target; write user and password_file".into());
    }
    if rest.contains(',') {
        return Err("target has several servers; write a check for each".into());
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?']) {
        return Err("a database and options do not belong in the target; write them as keys of the check".into());
    }
    place(rest, Some(27_017))
}

pub(super) async fn run(
    network: &Network,
    run: &mut Run,
    check: &MongoDb,
    timeout: Duration,
    clock: Clock,
) -> Result<(), Failure> {
    let mut session = Session::new(network.open(run, &check.place, check.trust.as_ref()).await?);
    if let Some(login) = &check.login {
        run.phase("login");
        let password = network.words(&login.account.password).await?;
        log_in(&mut session, &login.with_password(&password), &nonce()?).await?;
    }
    exchange(&mut session, run, check, timeout, clock).await
}

/// A ping, and what the check wants to know.
async fn exchange(
    session: &mut Session,
    run: &mut Run,
    check: &MongoDb,
    timeout: Duration,
    clock: Clock,
) -> Result<(), Failure> {
    run.phase("ping");
    session.ask(ADMIN, rawdoc! {"ping": 1_i32}).await?.judged()?;
    if check.fields.is_empty() && !check.wants_replica_set && check.commands.is_empty() {
        return Ok(());
    }
    run.phase("values");
    let mut first = None;
    let mut goes_on = true;
    if !check.fields.is_empty() {
        goes_on = keep(server_status(session, run, &check.fields).await, &mut first);
    }
    if goes_on && check.wants_replica_set {
        goes_on = keep(replica_set_status(session, run).await, &mut first);
    }
    for command in &check.commands {
        if !goes_on {
            break;
        }
        goes_on = keep(command.run(session, run, statement_ms(timeout), clock).await, &mut first);
    }
    first.map_or(Ok(()), Err)
}

async fn server_status(session: &mut Session, run: &mut Run, fields: &[String]) -> Result<(), Failure> {
    let answer = session.ask(ADMIN, rawdoc! {"serverStatus": 1_i32}).await?.judged()?;
    statistics::report(run, &answer, fields)
}

async fn replica_set_status(session: &mut Session, run: &mut Run) -> Result<(), Failure> {
    let answer = session.ask(ADMIN, rawdoc! {"replSetGetStatus": 1_i32}).await?.judged()?;
    replica_set::report(run, &answer)
}

/// Keeps the first failure; whether more can be asked over the connection.
fn keep(outcome: Result<(), Failure>, first: &mut Option<Failure>) -> bool {
    let Err(failure) = outcome else { return true };
    let goes_on = matches!(failure.reason, Reason::Status | Reason::Login | Reason::Content | Reason::Timeout);
    first.get_or_insert(failure);
    goes_on
}

/// A login and everything behind it, with a server that says what it says.
#[cfg(any(test, feature = "fuzz"))]
pub(super) async fn replay(
    run: &mut Run,
    check: &MongoDb,
    stream: Box<dyn Stream>,
    clock: Clock,
) -> Result<(), Failure> {
    let mut session = Session::new(stream);
    if let Some(login) = &check.login {
        log_in(&mut session, &login.with_password("pencil"), "rOprNGfwEbeRWgbNEkqO").await?;
    }
    exchange(&mut session, run, check, Duration::from_secs(1), clock).await
}

#[cfg(test)]
mod tests;
