//! MySQL and MariaDB: greeting, login, a ping, and the check's queries. Queries are made in a session that is read-only
//! and whose statements end shortly before the check's timeout.
//!
//! Why not a whole client library: mysql_async and sqlx open connections and TLS by themselves, so that neither their
//! phases nor certificates could be measured. Packets are read and written by mysql_common, which mysql_async is made
//! of.
//! Limits: those of a packet (`mysql/packets.rs`) and of a result (`rows.rs`).

mod login;
mod packets;
mod result;

use std::time::Duration;

use mysql_common::constants::Command;
use ogive_probe::Clock;
use tokio::io::BufReader;

use super::net::Network;
use super::query::Query;
use super::rows::{COLUMNS_MAX, Table};
use super::run::{Failure, Reason, Run};
use super::sql::{self, Client, Database, TableFuture};
use login::{Account, Greeting, log_in, tls_request};
pub(super) use packets::Packets;
use packets::{Refusal, strange};

pub(super) async fn run(
    network: &Network,
    run: &mut Run,
    database: &Database,
    timeout: Duration,
    clock: Clock,
) -> Result<(), Failure> {
    let Database { login, queries } = database;
    let stream = network.connect(run, &login.place).await?;
    run.phase("greeting");
    let mut packets = Packets::new(Box::new(stream));
    let greeting = Greeting::parse(&packets.next().await?)?;
    if let Some(trust) = &login.trust {
        if !greeting.has_tls {
            return Err(Failure::new(Reason::Tls, "the server does not speak TLS"));
        }
        packets.send(&tls_request()).await?;
        let Packets { stream, sequence } = packets;
        let stream = network.tls(run, stream, &login.place.host, trust).await?;
        packets = Packets { stream, sequence };
    }
    // Not before: what comes in front of TLS must not be taken for what comes within.
    let Packets { stream, sequence } = packets;
    let mut packets = Packets { stream: Box::new(BufReader::new(stream)), sequence };
    run.phase("login");
    let password = match &login.password {
        Some(password) => Some(network.words(password).await?),
        None => None,
    };
    let account = Account {
        user: database.user(),
        password: password.as_deref(),
        database: login.database.as_deref(),
        is_private: login.trust.is_some(),
    };
    log_in(&mut packets, &greeting, &account).await?;
    run.phase("ping");
    ping(&mut packets).await?;
    let outcome = values(&mut packets, run, queries, greeting.is_mariadb, timeout, clock).await;
    // Whether it hears that is its own affair.
    let _ = packets.command(Command::COM_QUIT as u8, &[]).await;
    outcome
}

async fn ping(packets: &mut Packets) -> Result<(), Failure> {
    packets.command(Command::COM_PING as u8, &[]).await?;
    done(&packets.next().await?)
}

/// Whether a packet says that a command without a result is done.
fn done(packet: &[u8]) -> Result<(), Failure> {
    match packet.first() {
        Some(0x00) => Ok(()),
        Some(0xff) => Err(Refusal::parse(packet).in_query()),
        _ => Err(strange()),
    }
}

/// Makes the queries, if there are any.
async fn values(
    packets: &mut Packets,
    run: &mut Run,
    queries: &[Query],
    is_mariadb: bool,
    timeout: Duration,
    clock: Clock,
) -> Result<(), Failure> {
    if queries.is_empty() {
        return Ok(());
    }
    run.phase("values");
    for statement in ["SET SESSION TRANSACTION READ ONLY".to_owned(), limit(is_mariadb, timeout)] {
        packets.command(Command::COM_QUERY as u8, statement.as_bytes()).await?;
        done(&packets.next().await?)?;
    }
    sql::measure(run, queries, packets, clock).await
}

/// The statement that ends later ones in time: seconds for MariaDB, milliseconds for MySQL.
fn limit(is_mariadb: bool, timeout: Duration) -> String {
    let limit_ms = sql::statement_ms(timeout);
    if is_mariadb {
        format!("SET SESSION max_statement_time = {}.{:03}", limit_ms / 1_000, limit_ms % 1_000)
    } else {
        format!("SET SESSION max_execution_time = {limit_ms}")
    }
}

impl Client for Packets {
    fn table<'a>(&'a mut self, sql: &'a str) -> TableFuture<'a> {
        Box::pin(table(self, sql))
    }
}

async fn table(packets: &mut Packets, sql: &str) -> Result<Table, Failure> {
    packets.command(Command::COM_QUERY as u8, sql.as_bytes()).await?;
    let head = packets.next().await?;
    match head.first() {
        Some(0x00) => return Err(Failure::new(Reason::Content, "sql has no result; write a SELECT")),
        Some(0xff) => return Err(Refusal::parse(&head).in_query()),
        Some(0xfb) => return Err(Failure::new(Reason::Content, "the server wants a file of this machine")),
        _ => {}
    }
    let count = result::count(&head).ok_or_else(strange)?;
    let mut columns = Vec::new();
    // One more is refused with the others' limits.
    for _ in 0..count.min(COLUMNS_MAX + 1) {
        columns.push(result::column(&packets.next().await?).ok_or_else(strange)?);
    }
    let mut table = Table::new(columns)?;
    if !result::is_end(&packets.next().await?) {
        return Err(strange());
    }
    loop {
        let packet = packets.next().await?;
        if packet.first() == Some(&0xff) {
            return Err(Refusal::parse(&packet).in_query());
        }
        if result::is_end(&packet) {
            return Ok(table);
        }
        // No more than a result may have.
        table.add(result::row(&packet, count).ok_or_else(strange)?)?;
    }
}

/// A login, a ping and a query on a server that says what it says.
#[cfg(any(test, feature = "fuzz"))]
pub(super) async fn exchange(packets: &mut Packets) -> Result<Table, Failure> {
    let greeting = Greeting::parse(&packets.next().await?)?;
    let account = Account { user: "u", password: Some("pencil"), database: None, is_private: true };
    log_in(packets, &greeting, &account).await?;
    ping(packets).await?;
    packets.table("SELECT 1").await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Column, ColumnKind};

    fn packet(sequence: u8, body: &[u8]) -> Vec<u8> {
        [&[u8::try_from(body.len()).unwrap(), 0, 0, sequence], body].concat()
    }

    const COLUMN: &[u8] = b"\x03def\0\0\0\x01n\0\x0c\x3f\0\x01\0\0\0\x08\0\0\0\0\0";
    const END: &[u8] = b"\xfe\0\0\x02\0";

    /// The result of a query to which a server says these packets.
    async fn table(bodies: &[&[u8]]) -> Result<Table, Failure> {
        let bytes: Vec<u8> = bodies.iter().zip(1..).flat_map(|(body, sequence)| packet(sequence, body)).collect();
        let mut packets = Packets::new(Box::new(tokio::io::join(std::io::Cursor::new(bytes), tokio::io::sink())));
        packets.table("SELECT n").await
    }

    #[tokio::test]
    async fn results_are_read() {
        let found = table(&[b"\x01", COLUMN, END, b"\x0212", b"\xfb", END]).await.unwrap();
        let mut wanted = Table::new(vec![Column { name: "n".into(), kind: ColumnKind::Number }]).unwrap();
        wanted.add(vec![Some("12".into())]).unwrap();
        wanted.add(vec![None]).unwrap();
        assert_eq!(found, wanted);
    }

    #[tokio::test]
    async fn what_is_no_result_is_reported() {
        for (bodies, reason) in [
            (&[&b"\0\0\0\x02\0\0\0"[..]][..], Reason::Content),
            (&[&b"\xfb/etc/passwd"[..]][..], Reason::Content),
            (&[&b"\xff\x7a\x04#42S02no such table"[..]][..], Reason::Status),
            (&[&b"\x01"[..], COLUMN, END, b"\xff\xb1\x07#70100interrupted"][..], Reason::Timeout),
            (&[&b"\x01"[..], COLUMN, COLUMN][..], Reason::Protocol),
            (&[&b"\x01"[..], b"x"][..], Reason::Protocol),
            (&[&b"\x01"[..], COLUMN, END, b"\x021"][..], Reason::Protocol),
            (&[&b"\x01"[..], COLUMN, END][..], Reason::Closed),
        ] {
            assert_eq!(table(bodies).await.unwrap_err().reason, reason, "{bodies:?}");
        }
        let mut many = vec![&b"\xfc\xff\xff"[..]];
        many.extend([COLUMN; COLUMNS_MAX + 1]);
        assert_eq!(table(&many).await.unwrap_err().reason, Reason::Limit);
    }

    #[test]
    fn statements_are_limited_in_the_units_of_the_server() {
        let timeout = Duration::from_millis(1_500);
        assert_eq!(limit(true, timeout), "SET SESSION max_statement_time = 1.350");
        assert_eq!(limit(false, timeout), "SET SESSION max_execution_time = 1350");
    }
}
