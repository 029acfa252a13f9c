//! Databases that are asked in SQL: their login and queries, and the order in which the queries are made.
//!
//! Invariants: a server is asked to end a statement before the check's own time is over, so that none goes on without
//! somebody who waits for it.
//! Failure: a query that the server refuses does not keep the others from being made; the first failure is the run's.
//! After anything else the connection is of no more use.

use std::pin::Pin;
use std::time::Duration;

use ogive_probe::Clock;

use super::query::Query;
use super::raw::Raw;
use super::rows::{Reported, Table, report};
use super::run::{Failure, Reason, Run, usable};
use super::target::{Login, login};

/// A database server and what is asked of it.
#[derive(Clone, Debug)]
pub(super) struct Database {
    pub(super) login: Login,
    pub(super) queries: Vec<Query>,
}

impl Database {
    /// What a table of such a kind says; `user` is who logs in where it does not say.
    pub(super) fn from_raw(raw: &mut Raw, port: u16, user: Option<&str>) -> Result<Self, String> {
        let mut login = login(raw, port)?;
        login.user = login.user.filter(|user| !user.is_empty()).or_else(|| user.map(str::to_owned));
        if login.user.is_none() {
            return Err("user is missing: the name with which the check logs in".into());
        }
        login.database = raw.database.take();
        Ok(Self { login, queries: Query::all(raw)? })
    }

    /// Who logs in.
    pub(super) fn user(&self) -> &str {
        self.login.user.as_deref().expect("a database without a user is refused")
    }
}

/// Boxed, as the compiler does not see otherwise that runs may change threads.
pub(super) type TableFuture<'a> = Pin<Box<dyn Future<Output = Result<Table, Failure>> + Send + 'a>>;

/// A session with a database.
pub(super) trait Client {
    /// The result of one statement.
    fn table<'a>(&'a mut self, sql: &'a str) -> TableFuture<'a>;
}

/// After how many milliseconds a server is to end a statement.
pub(super) fn statement_ms(timeout: Duration) -> u64 {
    // 0 would be no limit.
    (usable(timeout).as_millis() as u64).max(1)
}

/// Makes the queries one after the other, and reports their values and how long each took.
pub(super) async fn measure(
    run: &mut Run,
    queries: &[Query],
    client: &mut impl Client,
    clock: Clock,
) -> Result<(), Failure> {
    let (mut failure, mut reported) = (None, Reported::default());
    for query in queries {
        run.query(&query.name);
        let from = clock.now();
        let result = client.table(&query.sql).await;
        // A query without an answer has no latency, as a run has none.
        if result.as_ref().err().is_none_or(|failure| failure.reason.is_answer()) {
            run.query_seconds(&query.name, clock.now().saturating_sub(from));
        }
        match result {
            Ok(table) => {
                if let Err(error) = report(run, query, &table, &mut reported) {
                    failure.get_or_insert(error);
                }
            }
            Err(Failure { reason, sentence }) => {
                failure.get_or_insert(Failure::new(reason, format!("query {:?}: {sentence}", query.name)));
                if !matches!(reason, Reason::Status | Reason::Timeout) {
                    break;
                }
            }
        }
    }
    failure.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Probe};
    use crate::rows::{Column, ColumnKind};

    /// A server that answers each statement with a number, or fails with the reason that it names.
    struct Server(Vec<String>);

    impl Client for Server {
        fn table<'a>(&'a mut self, sql: &'a str) -> TableFuture<'a> {
            self.0.push(sql.to_owned());
            Box::pin(async move {
                match sql {
                    "status" => return Err(Failure::new(Reason::Status, "no such table")),
                    "closed" => return Err(Failure::new(Reason::Closed, "gone")),
                    _ => {}
                }
                let mut table = Table::new(vec![Column { name: "n".into(), kind: ColumnKind::Number }])?;
                table.add(vec![Some(sql.to_owned())])?;
                Ok(table)
            })
        }
    }

    /// How a run with these statements ends, and which of them were made.
    fn outcome(statements: &[&str]) -> (Result<(), Failure>, Vec<String>) {
        let query = |sql: &&str| format!("[[check.query]]\nname = '{sql}'\nmetric = 'm{sql}'\nsql = '{sql}'\n");
        let head = "[[check]]\nname = 'a'\nkind = 'postgres'\ntarget = 'h'\n";
        let text = format!("{head}{}", statements.iter().map(query).collect::<String>());
        let Probe::Postgres(database) = Config::parse(&text).unwrap().check.remove(0).ask else {
            unreachable!("it is of that kind")
        };
        let clock = Clock::manual(1_000, 1_700_000_000_000_000_000);
        let (mut run, mut server) = (Run::begin(clock), Server(Vec::new()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let end = runtime.block_on(measure(&mut run, &database.queries, &mut server, clock));
        (end, server.0)
    }

    #[test]
    fn a_refused_query_does_not_keep_others_from_being_made() {
        assert_eq!(outcome(&["1", "2"]), (Ok(()), vec!["1".into(), "2".into()]));
        let (end, made) = outcome(&["1", "status", "2"]);
        assert_eq!(end, Err(Failure::new(Reason::Status, "query \"status\": no such table")));
        assert_eq!(made, ["1", "status", "2"]);
        let (end, made) = outcome(&["closed", "2"]);
        assert_eq!(end.unwrap_err().reason, Reason::Closed);
        assert_eq!(made, ["closed"]);
    }

    #[test]
    fn a_statement_ends_before_its_check() {
        assert_eq!(statement_ms(Duration::from_secs(10)), 9_000);
        assert_eq!(statement_ms(Duration::from_micros(1)), 1);
    }
}
