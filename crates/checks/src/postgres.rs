//! PostgreSQL: start-up, login (none, password, MD5, SCRAM-SHA-256), `SELECT 1` and the check's queries, using protocol
//! 3.0. Queries are made in a session that is read-only and whose statements end shortly before the check's timeout.
//!
//! Why not a client library: the lightest one brings 36 crates for a single query.
//! Limits: [`MESSAGE_BYTES_MAX`], [`MESSAGES_MAX`], those of `scram`.

mod result;

use std::time::Duration;

use ogive_probe::Clock;
use ogive_text::hex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};

use super::net::{Network, Stream};
use super::query::Query;
use super::rows::{ROWS_MAX, Table};
use super::run::{Failure, Reason, Run};
use super::scram::{Hash, Scram, nonce};
use super::sql::{self, Client, Database, TableFuture};
use md5::{Digest as _, Md5};
use result::Answer;

/// 64 KiB of a message: a reply takes some bytes, an error some hundred, a row some thousand.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// 200 messages until an answer is there: a server reports some 15 settings.
const MESSAGES_MAX: usize = 200;
const LONG_ROW: &str = "a row has more than 64 KiB";
const VERSION: u32 = 3 << 16;
const TLS_PLEASE: u32 = 80_877_103;

type Connection = BufReader<Box<dyn Stream>>;

pub(super) async fn run(
    network: &Network,
    run: &mut Run,
    database: &Database,
    timeout: Duration,
    clock: Clock,
) -> Result<(), Failure> {
    let (user, Database { login, queries }) = (database.user(), database);
    let mut stream = network.connect(run, &login.place).await?;
    let stream: Box<dyn Stream> = match &login.trust {
        None => Box::new(stream),
        Some(trust) => {
            stream.write_all(&first(TLS_PLEASE, &[])).await?;
            match stream.read_u8().await? {
                b'S' => network.tls(run, stream, &login.place.host, trust).await?,
                _ => return Err(Failure::new(Reason::Tls, "the server does not speak TLS")),
            }
        }
    };
    let mut stream = BufReader::new(stream);
    run.phase("login");
    let name = login.database.as_deref().unwrap_or(user);
    let parameters = ["user", user, "database", name, "application_name", "ogive"];
    write(&mut stream, &first(VERSION, &parameters)).await?;
    let password = match &login.password {
        Some(password) => Some(network.words(password).await?),
        None => None,
    };
    log_in(&mut stream, user, password.as_deref(), &nonce()?).await?;
    run.phase("query");
    write(&mut stream, &message(b'Q', b"SELECT 1\0")).await?;
    let mut rows = 0;
    until_ready(&mut stream, |kind, _| rows += usize::from(kind == b'D')).await?;
    let outcome = match rows {
        1 => values(&mut stream, run, queries, timeout, clock).await,
        _ => Err(Failure::new(Reason::Protocol, format!("SELECT 1 has {rows} rows"))),
    };
    // Whether it hears that is its own affair.
    let _ = stream.write_all(&message(b'X', &[])).await;
    outcome
}

/// Makes the queries, if there are any.
async fn values(
    stream: &mut Connection,
    run: &mut Run,
    queries: &[Query],
    timeout: Duration,
    clock: Clock,
) -> Result<(), Failure> {
    if queries.is_empty() {
        return Ok(());
    }
    run.phase("values");
    let limit_ms = sql::statement_ms(timeout);
    let settings = format!(
        "SET client_encoding = 'UTF8'; SET default_transaction_read_only = on; SET statement_timeout = {limit_ms}\0"
    );
    write(stream, &message(b'Q', settings.as_bytes())).await?;
    until_ready(stream, |_, _| {}).await?;
    sql::measure(run, queries, stream, clock).await
}

impl Client for Connection {
    fn table<'a>(&'a mut self, sql: &'a str) -> TableFuture<'a> {
        Box::pin(table(self, sql))
    }
}

async fn table(stream: &mut Connection, sql: &str) -> Result<Table, Failure> {
    write(stream, &message(b'Q', &[sql.as_bytes(), b"\0"].concat())).await?;
    let mut answer = Answer::default();
    for _ in 0..=ROWS_MAX + MESSAGES_MAX {
        match read(stream).await? {
            (b'Z', _) => return answer.end(),
            (b'E', body) => answer.fail(ended(&body)),
            (kind, body) => answer.take(kind, &body)?,
        }
    }
    Err(strange())
}

/// Proves who asks, until the server is ready.
pub(super) async fn log_in(
    stream: &mut Connection,
    user: &str,
    password: Option<&str>,
    nonce: &str,
) -> Result<(), Failure> {
    let mut scram: Option<Scram> = None;
    let mut is_proof_due = false;
    for _ in 0..MESSAGES_MAX {
        let (kind, body) = read(stream).await?;
        if kind == b'E' {
            return Err(refused(&body));
        }
        if kind != b'R' {
            continue;
        }
        let (method, rest) = body.split_first_chunk::<4>().ok_or_else(strange)?;
        let method = u32::from_be_bytes(*method);
        if method == 0 && is_proof_due {
            return Err(Failure::new(Reason::Login, "the server does not prove that it knows the password"));
        }
        if method == 0 {
            return until_ready(stream, |_, _| {}).await;
        }
        let missing = || Failure::new(Reason::Local, "the server asks for a password and the check has none");
        let answer = match method {
            3 => [password.ok_or_else(missing)?.as_bytes(), b"\0"].concat(),
            5 => md5_answer(user, password.ok_or_else(missing)?, rest),
            10 => {
                let mechanism = Hash::Sha256.mechanism().as_bytes();
                if !rest.split(|byte| *byte == 0).any(|name| name == mechanism) {
                    return Err(Failure::new(Reason::Login, "the server knows no login that this check knows"));
                }
                if scram.is_some() {
                    return Err(strange());
                }
                // The user's name was said at the start.
                let started = scram.insert(Scram::new(Hash::Sha256, "", password.ok_or_else(missing)?, nonce));
                is_proof_due = true;
                let first = started.first();
                let length = u32::try_from(first.len()).expect("it is short").to_be_bytes();
                [mechanism, b"\0", &length[..], first.as_bytes()].concat()
            }
            11 => {
                // Once: each answer is up to 50 ms of hashing, as the server wants it.
                let scram = scram.as_mut().filter(|scram| !scram.is_answered()).ok_or_else(strange)?;
                scram.answer(std::str::from_utf8(rest).map_err(|_| strange())?)?.into_bytes()
            }
            12 => {
                let scram: &Scram = scram.as_ref().ok_or_else(strange)?;
                scram.check(std::str::from_utf8(rest).map_err(|_| strange())?)?;
                is_proof_due = false;
                continue;
            }
            other => {
                return Err(Failure::new(Reason::Login, format!("the server wants login {other}, which is not known")));
            }
        };
        write(stream, &message(b'p', &answer)).await?;
    }
    Err(strange())
}

/// Reads until the server waits for the next command.
pub(super) async fn until_ready(stream: &mut Connection, mut each: impl FnMut(u8, &[u8])) -> Result<(), Failure> {
    let mut failure = None;
    for _ in 0..MESSAGES_MAX {
        match read(stream).await {
            Ok((b'Z', _)) => return failure.map_or(Ok(()), Err),
            Ok((b'E', body)) => failure = Some(refused(&body)),
            Ok((other, body)) => each(other, &body),
            // After some errors the server closes instead of becoming ready: what it said before is why.
            Err(closed) => return Err(failure.unwrap_or(closed)),
        }
    }
    Err(strange())
}

async fn write(stream: &mut Connection, bytes: &[u8]) -> Result<(), Failure> {
    stream.write_all(bytes).await?;
    Ok(stream.flush().await?)
}

/// The kind of a message and what it holds.
async fn read(stream: &mut Connection) -> Result<(u8, Vec<u8>), Failure> {
    let kind = stream.read_u8().await?;
    let length = stream.read_u32().await? as usize;
    let length = length.checked_sub(4).ok_or_else(strange)?;
    if length > MESSAGE_BYTES_MAX {
        // Of what does not speak the protocol, too, any letters may look like a length.
        return Err(if kind == b'D' { Failure::new(Reason::Limit, LONG_ROW) } else { strange() });
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok((kind, body))
}

fn strange() -> Failure {
    Failure::new(Reason::Protocol, "what answers does not speak PostgreSQL's protocol")
}

/// A field of an error message, which has fields of a letter and words.
fn field(body: &[u8], letter: u8) -> String {
    let mut fields = body.split(|byte| *byte == 0).filter_map(|field| field.split_first());
    let found = fields.find(|(found, _)| **found == letter);
    found.map(|(_, words)| String::from_utf8_lossy(words).into_owned()).unwrap_or_default()
}

/// Why the server ended a statement of a query.
fn ended(body: &[u8]) -> Failure {
    let Failure { reason, sentence } = refused(body);
    // query_canceled: by statement_timeout.
    let reason = if field(body, b'C') == "57014" { Reason::Timeout } else { reason };
    Failure::new(reason, sentence)
}

/// What an error message says.
fn refused(body: &[u8]) -> Failure {
    let code = field(body, b'C');
    let sentence = format!("the server says {:?} ({code})", field(body, b'M'));
    // Class 28 is about who asks, 3D about databases that are not there.
    let reason = if code.starts_with("28") || code.starts_with("3D") { Reason::Login } else { Reason::Status };
    Failure::new(reason, sentence)
}

/// A message of the start, which has no letter.
fn first(code: u32, words: &[&str]) -> Vec<u8> {
    let mut body = code.to_be_bytes().to_vec();
    for word in words {
        // A zero ends a word.
        body.extend(word.bytes().filter(|byte| *byte != 0));
        body.push(0);
    }
    if !words.is_empty() {
        body.push(0);
    }
    let length = u32::try_from(body.len() + 4).expect("names are short").to_be_bytes();
    [&length[..], &body].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("what is asked is short").to_be_bytes();
    [&[kind], &length[..], body].concat()
}

fn md5_answer(user: &str, password: &str, salt: &[u8]) -> Vec<u8> {
    let inner = hex::write(&Md5::digest(format!("{password}{user}").as_bytes()));
    let outer = hex::write(&Md5::digest([inner.as_bytes(), salt].concat()));
    format!("md5{outer}\0").into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A server that asks for the password's hash again and again had a processor for ten seconds: no message has to be
    /// waited for, so that nothing ends it in between. It is asked for once.
    #[test]
    fn a_password_is_hashed_once_and_for_a_server_that_knows_it() {
        let said = |method: u32, words: &str| message(b'R', &[&method.to_be_bytes()[..], words.as_bytes()].concat());
        let nonce = "abc";
        let (start, first) = (said(10, "SCRAM-SHA-256\0\0"), said(11, &format!("r={nonce}x,s=W22Z,i=1")));
        let end = |messages: &[&[u8]]| {
            let stream: Box<dyn Stream> =
                Box::new(tokio::io::join(std::io::Cursor::new(messages.concat()), tokio::io::sink()));
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut stream = BufReader::new(stream);
            let done = runtime.block_on(log_in(&mut stream, "u", Some("p"), "abc"));
            done.unwrap_err().reason
        };
        assert_eq!(end(&[&start, &first]), Reason::Closed, "what comes next is waited for");
        assert_eq!(end(&[&start, &first, &first]), Reason::Protocol);
        assert_eq!(end(&[&start, &start]), Reason::Protocol);
        // It takes the password without knowing it.
        assert_eq!(end(&[&start, &first, &said(0, "")]), Reason::Login);
        assert_eq!(end(&[&start, &said(0, "")]), Reason::Login);
    }

    #[test]
    fn messages_have_their_bytes() {
        assert_eq!(first(TLS_PLEASE, &[]), [0, 0, 0, 8, 4, 210, 22, 47]);
        assert_eq!(first(VERSION, &["user", "a"]), b"\0\0\0\x10\0\x03\0\0user\0a\0\0");
        assert_eq!(message(b'Q', b"x\0"), b"Q\0\0\0\x06x\0");
    }

    #[test]
    fn errors_say_whether_the_login_was_wrong() {
        let of = |code: &str| refused(format!("SFATAL\0C{code}\0Mno entry\0\0").as_bytes());
        assert_eq!(of("28P01"), Failure::new(Reason::Login, "the server says \"no entry\" (28P01)"));
        assert_eq!(of("53300").reason, Reason::Status);
        assert_eq!(ended(b"C57014\0Mcanceling statement\0\0").reason, Reason::Timeout);
        assert_eq!(ended(b"C42P01\0Mno such table\0\0").reason, Reason::Status);
    }

    proptest! {
        #[test]
        fn anything_may_come(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = refused(&bytes);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let stream: Box<dyn Stream> = Box::new(tokio::io::join(std::io::Cursor::new(bytes), tokio::io::sink()));
            let done = runtime.block_on(log_in(&mut BufReader::new(stream), "u", Some("p"), "abc"));
            prop_assert!(done.is_err());
        }
    }
}
