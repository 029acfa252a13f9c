//! SNMP v2c and v3: numbers of an agent, alone (GET) and in tables (GETBULK).
//!
//! - `tables`: what is read; `exchange`: datagrams; `walk`: a column; `values`: numbers and labels.
//!
//! Format: RFC 3416 and RFC 3414, by the library async-snmp; `ogive_check_snmp_values`, `ogive_check_snmp_requests`,
//! `ogive_check_snmp_answer_bytes` and `ogive_check_snmp_strays` describe the run. Each answer's time is a latency of
//! the phase `answer`.
//! Limits: [`VALUES_MAX`] values, those of `exchange` for requests and bytes, what is [`usable`] of the timeout.
//! Failure: an object that is missing or is no number fails the run; what else was read is stored. An agent that does
//! not answer ends the run: one that is down cannot be distinguished from one that does not know the community.

mod exchange;
mod tables;
mod values;
mod walk;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_snmp::{
    Auth, Client, ClientBuilder, DecodeConfig, Error, ErrorStatus, Oid, ResponseShapePolicy, Retry, UsmConfig,
};
use ogive_outgoing::datagrams;
use ogive_probe::Clock;

use crate::net::Network;
use crate::run::{Failure, Reason, Run, usable};
use exchange::{Exchange, Tally, lock, reported};
use tables::{Credentials, Table};
use walk::{Row, VALUES_MAX, Walk, dotted};

pub(super) use tables::Snmp;

/// A request is sent three times: datagrams get lost.
const ATTEMPTS: u32 = 3;
/// 25 rows a request, some 1,000 bytes: an answer in one packet.
const REPETITIONS: u32 = 25;

pub(super) async fn run(
    network: &Network,
    run: &mut Run,
    check: &Snmp,
    timeout: Duration,
    clock: Clock,
) -> Result<(), Failure> {
    let from = clock.now();
    let auth = auth(network, &check.credentials).await?;
    let agent = network.resolve(run, &check.place.host, check.place.port).await?[0];
    let exchange = Exchange::new(agent, datagrams(agent).await?, clock);
    let spent = Duration::from_nanos(clock.now().saturating_sub(from));
    let patience = usable(timeout).saturating_sub(spent);
    Session::open(auth, exchange, check, patience)?.run(run).await
}

/// What a run shows the agent.
async fn auth(network: &Network, credentials: &Credentials) -> Result<Auth, Failure> {
    let user = match credentials {
        Credentials::Community(secret) => return Ok(Auth::v2c(network.words(secret).await?)),
        Credentials::User(user) => user,
    };
    let config = UsmConfig::new(user.login.name.clone()).context_name(user.context.clone());
    let Some(authentication) = &user.login.authentication else { return Ok(config.into()) };
    let protocol = authentication.protocol;
    let password = network.words(&authentication.password).await?;
    let privacy = match &user.login.privacy {
        Some(privacy) => Some((privacy.protocol, network.words(&privacy.password).await?)),
        None => None,
    };
    // A key is the hash of a MiB made of the password: milliseconds, not on a thread that others wait for. It is not
    // kept, since a changed password counts at once.
    let keyed = tokio::task::spawn_blocking(move || {
        let privacy = privacy.as_ref().map(|(protocol, password)| (*protocol, password.as_str()));
        config.with_master_keys(ogive_snmp::master_keys((protocol, &password), privacy)?)
    });
    let local = |sentence: String| Failure::new(Reason::Local, sentence);
    let keyed = keyed.await.map_err(|error| local(error.to_string()))?;
    keyed.map(Auth::from).map_err(|error| local(format!("password: {error}")))
}

/// One run with its agent.
struct Session<'a> {
    check: &'a Snmp,
    client: Client<Exchange>,
    tally: Arc<Mutex<Tally>>,
    patience: Duration,
    /// How many values it may still read.
    left: usize,
}

impl<'a> Session<'a> {
    fn open(auth: Auth, exchange: Exchange, check: &'a Snmp, patience: Duration) -> Result<Self, Failure> {
        let tally = exchange.tally();
        let retry = Retry::fixed(ATTEMPTS - 1, Duration::ZERO).expect("the library repeats more often");
        let builder = ClientBuilder::new(auth)
            .request_timeout(patience / ATTEMPTS)
            .retry(retry)
            .decode_config(DecodeConfig::STRICT)
            .response_shape_policy(ResponseShapePolicy::Strict);
        let client = builder.build_with_transport(exchange);
        let client = client.map_err(|error| Failure::new(Reason::Local, error.to_string()))?;
        Ok(Self { check, client, tally, patience, left: VALUES_MAX })
    }

    async fn run(mut self, run: &mut Run) -> Result<(), Failure> {
        let patience = self.patience;
        let read = tokio::time::timeout(patience, self.read(run)).await;
        let ended = read.unwrap_or_else(|_| Err(self.silence()));
        let tally = lock(&self.tally);
        for ns in &tally.round_trips {
            run.latency("answer", *ns);
        }
        run.gauge("ogive_check_snmp_values", "", (VALUES_MAX - self.left) as f64);
        run.gauge("ogive_check_snmp_requests", "", tally.requests as f64);
        run.gauge("ogive_check_snmp_answer_bytes", "By", tally.bytes as f64);
        run.gauge("ogive_check_snmp_strays", "", tally.strays as f64);
        ended
    }

    async fn read(&mut self, run: &mut Run) -> Result<(), Failure> {
        let check = self.check;
        let mut wrong = None;
        if !check.objects.is_empty() {
            run.phase("get");
            self.get(run, &mut wrong).await?;
        }
        if !check.tables.is_empty() {
            run.phase("walk");
        }
        for table in &check.tables {
            self.walk(run, table, &mut wrong).await?;
        }
        wrong.map_or(Ok(()), Err)
    }

    /// Reads single objects; the first that is missing or no number is in `wrong`.
    async fn get(&mut self, run: &mut Run, wrong: &mut Option<Failure>) -> Result<(), Failure> {
        let objects = &self.check.objects;
        let oids: Vec<Oid> = objects.iter().map(|object| object.oid.clone()).collect();
        let answer = self.client.get_many(&oids).await.map_err(|error| self.failed(&error))?;
        if answer.varbinds.len() != objects.len() {
            let (came, wanted) = (answer.varbinds.len(), objects.len());
            return Err(Failure::new(Reason::Protocol, format!("the agent answered {came} of {wanted} objects")));
        }
        self.left = self.left.saturating_sub(objects.len());
        for (object, found) in objects.iter().zip(&answer.varbinds) {
            match values::number(&found.value) {
                Some(number) => values::store(run, object, &[], number),
                None => {
                    wrong.get_or_insert_with(|| values::unfit(object, &object.oid.to_string(), &found.value));
                }
            }
        }
        Ok(())
    }

    /// Reads a table, its labels first.
    async fn walk(&mut self, run: &mut Run, table: &Table, wrong: &mut Option<Failure>) -> Result<(), Failure> {
        let mut labels: BTreeMap<Vec<u32>, Vec<(&str, String)>> = BTreeMap::new();
        for label in &table.labels {
            for Row { index, value } in self.column(&label.oid).await? {
                if let Some(text) = values::text(&value) {
                    labels.entry(index).or_default().push((label.name.as_str(), text));
                }
            }
        }
        for column in &table.columns {
            let rows = self.column(&column.oid).await?;
            if rows.is_empty() {
                let sentence = format!("{:?}: the agent has no row of {}", column.name, column.oid);
                wrong.get_or_insert_with(|| Failure::new(Reason::Content, sentence));
            }
            for Row { index, value } in rows {
                let Some(number) = values::number(&value) else {
                    let oid = format!("{}.{}", column.oid, dotted(&index));
                    wrong.get_or_insert_with(|| values::unfit(column, &oid, &value));
                    continue;
                };
                let given = labels.get(&index).into_iter().flatten().map(|(name, text)| (*name, text.as_str()));
                let dotted = dotted(&index);
                let all: Vec<(&str, &str)> = given.chain([(table.index.as_str(), dotted.as_str())]).collect();
                values::store(run, column, &all, number);
            }
        }
        Ok(())
    }

    /// The rows of a column.
    async fn column(&mut self, column: &Oid) -> Result<Vec<Row>, Failure> {
        let mut walk = Walk::new(column);
        let mut repetitions = REPETITIONS;
        while !walk.is_over {
            let from = std::slice::from_ref(&walk.last);
            let answer = self.client.get_bulk_with_metadata(from, 0, repetitions).await;
            match answer {
                Ok(answer) => walk.take(answer.varbinds, &mut self.left)?,
                Err(error) if repetitions > 1 && is_too_big(&error) => repetitions /= 2,
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(walk.rows)
    }

    /// What an error of the library means.
    fn failed(&self, error: &Error) -> Failure {
        if let Some(end) = &lock(&self.tally).end {
            return end.clone();
        }
        let protocol = |sentence: &str| Failure::new(Reason::Protocol, sentence);
        match error.exchange_source() {
            Error::Timeout { .. } => self.silence(),
            Error::Network { source, .. } => std::io::Error::from(source.kind()).into(),
            Error::Snmp { status, oid, .. } => refused(*status, oid.as_deref()),
            Error::Report { status, .. } => reported(status),
            Error::Auth { .. } => Failure::new(Reason::Login, "the agent's answer is not authentic"),
            Error::ResponseShape { .. } => protocol("the agent's answer has other objects than the request"),
            Error::MalformedResponse { .. } => protocol("the agent's answer is malformed"),
            Error::Decode(error) => protocol(&error.to_string()),
            other => Failure::new(Reason::Local, other.to_string()),
        }
    }

    /// Why there is no answer, as far as that can be known.
    fn silence(&self) -> Failure {
        let tally = lock(&self.tally);
        if let Some(end) = &tally.end {
            return end.clone();
        }
        let Tally { requests, strays, round_trips, .. } = &*tally;
        let (answers, seconds) = (round_trips.len(), self.patience.as_secs_f64());
        if let Some(unreadable) = &tally.unreadable {
            let sentence = format!("{strays} datagrams came from the agent and are no answers: {unreadable}");
            return Failure::new(Reason::Protocol, sentence);
        }
        let has_values = self.left < VALUES_MAX;
        let why = match &self.check.credentials {
            Credentials::Community(_) if answers == 0 => {
                "the agent is down or out of reach, or does not know the community: agents do not answer a wrong one"
            }
            Credentials::User(_) if answers == 0 => "the agent is down or out of reach, or has no SNMP v3",
            Credentials::User(user) if user.login.privacy.is_some() && !has_values => {
                "the agent knows the user and does not answer what is encrypted: the privacy password may be wrong, or \
                 the user has another kind of privacy"
            }
            _ => "the agent stopped answering, or the timeout is too short for what is read",
        };
        let sentence = format!("{answers} answers to {requests} requests came within {seconds:.3} s: {why}");
        Failure::new(Reason::Timeout, sentence)
    }
}

fn is_too_big(error: &Error) -> bool {
    matches!(error.exchange_source(), Error::Snmp { status: ErrorStatus::TooBig, .. })
}

/// An answer with an error.
fn refused(status: ErrorStatus, oid: Option<&Oid>) -> Failure {
    let reason = match status {
        ErrorStatus::NoAccess | ErrorStatus::AuthorizationError => Reason::Login,
        _ => Reason::Status,
    };
    let at = oid.map(|oid| format!(" at {oid}")).unwrap_or_default();
    Failure::new(reason, format!("the agent answers with the error {status}{at}"))
}

/// A run on an agent that sends these datagrams, whatever is asked, to requests with the numbers 1, 2, 3; logins have
/// no passwords.
#[cfg(any(test, feature = "fuzz"))]
pub(super) async fn replay(
    run: &mut Run,
    check: &Snmp,
    datagrams: Vec<hyper::body::Bytes>,
    clock: Clock,
) -> Result<(), Failure> {
    let auth = match &check.credentials {
        Credentials::Community(_) => Auth::v2c("public"),
        Credentials::User(user) => Auth::usm(&user.login.name),
    };
    let exchange = Exchange::scripted(datagrams, clock);
    Session::open(auth, exchange, check, Duration::from_secs(60))?.run(run).await
}

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
