//! The session with the cluster: prepared statements, their timeouts, and reads of what at least one replica still has.
//!
//! Invariants: every statement is idempotent. A read asks for a majority first; when no majority answers, every replica
//! is asked through its own coordinator, and the answer is the union of the rows together with the number of replicas
//! it comes from.
//! Limits: the timeouts below; every wait ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ogive_model::SeriesId;
use ogive_probe::Clock;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::Node;
use scylla::cluster::metadata::Strategy;
use scylla::deserialize::row::DeserializeRow;
use scylla::policies::load_balancing::{DefaultPolicy, NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;

use crate::fragment::Fragment;
use crate::keeping::{RetentionPeriods, kept_of};
use crate::keys::{ManifestKey, ShardKey};
use crate::retry::NextCoordinator;
use crate::schema::{self, Table, bucket};
use crate::spans::BucketSpan;
use crate::statements::{Prepared, Statements};
use crate::stored::CellRow;
use crate::waiting::all_of;
use crate::{Address, Error};

/// 100 ms: a copy that hangs costs a reader this much and not the time-out; p99 of a healthy one is far below.
const SPECULATION: Duration = Duration::from_millis(100);
/// 2 s for a connection that is silent, twice: it is dead, or its node hangs.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// 3 s for a statement with all its attempts: Cassandra's own limit for a write is 2 s.
const REQUEST_MAX: Duration = Duration::from_secs(3);
/// 5 s: clocks that differ by less are taken for one.
const AHEAD_MIN_US: i64 = 5_000_000;
/// 30 s: a node that makes tables on a busy disk.
const SCHEMA_MAX: Duration = Duration::from_secs(30);
/// A password of one line.
const PASSWORD_BYTES_MAX: u64 = 4 << 10;

/// Of how many copies an answer was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistent {
    /// A majority agreed on having nothing else.
    Majority,
    /// Every copy that could be reached; what only the others have is missing.
    Union {
        /// How many answered.
        answered: usize,
        /// Of so many.
        copies: usize,
    },
}

/// Who a write has to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// A majority of the copies: it is durable.
    Majority,
    /// One copy: readers see it.
    One,
    /// Every copy.
    All,
}

/// Which copies a read is answered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    /// A majority, or all that answer when there is none.
    Majority,
    /// All that answer: for rows that one of them has damaged.
    All,
    /// Whoever answers first: for what is watched live.
    One,
}

/// How a row of samples is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) table: Table,
    /// When the last of it arrived at a node, microseconds since 1970: its write time.
    pub(crate) at_us: i64,
    /// How long it lives; 0 is for ever.
    pub(crate) seconds: i32,
}

/// See the module.
#[derive(Debug)]
pub struct Cluster {
    session: Session,
    keyspace: String,
    pub(crate) statements: Statements,
    kept: Mutex<RetentionPeriods>,
    /// How far its clock is ahead of ours, microseconds.
    ahead_us: AtomicI64,
    /// Ours.
    pub(crate) clock: Clock,
}

/// What orders rows of cells: minute, source, sequence, digest.
pub(crate) type CellKey = (i32, Vec<u8>, i64, i64);

impl Cluster {
    /// Connects, and looks whether the tables are there.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when no node answers, [`Error::Schema`] when the tables are not as they should be.
    pub async fn connect(address: &Address) -> Result<Self, Error> {
        Self::connect_by(address, Clock::global()).await
    }

    /// As [`Cluster::connect`], by another clock.
    pub(crate) async fn connect_by(address: &Address, clock: Clock) -> Result<Self, Error> {
        let session = session(address, KEEP_ALIVE).await?;
        check(&session, address).await?;
        let keyspace = address.keyspace.clone();
        let statements = Statements::prepare(&session, &keyspace).await?;
        let (kept, ahead_us) = (Mutex::default(), AtomicI64::new(0));
        let this = Self { session, keyspace, statements, kept, ahead_us, clock };
        this.refresh().await?;
        Ok(this)
    }

    /// Reads again how long its tables keep rows, and its clock.
    pub(crate) async fn refresh(&self) -> Result<(), Error> {
        let ask = self.execute(&self.statements.read_retention.one, (self.keyspace.as_str(),)).await?;
        let tables: Vec<(String, Option<i32>)> = rows(ask)?;
        let of = |table: Table| {
            let found = tables.iter().find(|(name, _)| name == table.name());
            found.and_then(|(_, seconds)| kept_of(seconds.unwrap_or(0)))
        };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = RetentionPeriods {
            numbers: of(Table::Numbers),
            minutes: of(Table::Minutes),
            hours: of(Table::Hours),
            logs: of(Table::Logs),
        };
        let wall_us = || self.clock.wall().div_euclid(1_000);
        let before = wall_us();
        let clock: Vec<(i64,)> = rows(self.execute(&self.statements.read_clock.one, ()).await?)?;
        // What the answer took is no difference.
        let middle = before + (wall_us() - before) / 2;
        if let Some((now_ms,)) = clock.first() {
            // ORDERING: Relaxed; a number alone.
            self.ahead_us.store(now_ms * 1_000 - middle, Ordering::Relaxed);
        }
        Ok(())
    }

    /// How long its tables show samples.
    pub(crate) fn kept(&self) -> RetentionPeriods {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far its clock is ahead of this process's, microseconds; 0 when it is hardly.
    pub(crate) fn ahead_us(&self) -> i64 {
        // ORDERING: Relaxed; see `refresh`.
        let ahead = self.ahead_us.load(Ordering::Relaxed);
        if ahead.abs() < AHEAD_MIN_US { 0 } else { ahead }
    }

    /// Makes what is missing of the keyspace and its tables.
    ///
    /// # Errors
    /// [`Error::Unavailable`], or [`Error::Schema`] with what the cluster says.
    pub async fn init(address: &Address) -> Result<(), Error> {
        // A node that makes tables on a busy machine is silent for longer than one that only reads and writes.
        let session = session(address, SCHEMA_MAX).await?;
        for text in schema::statements(address) {
            let mut statement = Statement::new(text);
            statement.set_request_timeout(Some(SCHEMA_MAX));
            // Made twice it is there once.
            statement.set_is_idempotent(true);
            let made = session.query_unpaged(statement, ()).await;
            made.map_err(|error| Error::Schema(format!("cannot make the tables: {error}")))?;
        }
        check(&session, address).await
    }

    /// Looks whether the tables are there; how many nodes answer, of how many.
    ///
    /// # Errors
    /// As [`Cluster::connect`].
    pub async fn check(address: &Address) -> Result<(usize, usize), Error> {
        Ok(Self::connect(address).await?.nodes())
    }

    /// Nodes that are connected, and all.
    #[must_use]
    pub fn nodes(&self) -> (usize, usize) {
        let state = self.session.get_cluster_state();
        let all = state.get_nodes_info();
        (all.iter().filter(|node| node.is_connected()).count(), all.len())
    }

    /// The nodes: address, data centre, rack, and whether there is a connection.
    pub(crate) fn ring(&self) -> Vec<serde_json::Value> {
        let state = self.session.get_cluster_state();
        let mut nodes: Vec<_> = state.get_nodes_info().iter().collect();
        nodes.sort_by_key(|node| (&node.datacenter, node.address.ip()));
        let of = |node: &Arc<Node>| {
            serde_json::json!({
                "address": std::net::SocketAddr::new(node.address.ip(), node.address.port()).to_string(),
                "datacentre": node.datacenter,
                "rack": node.rack,
                "connected": node.is_connected(),
            })
        };
        nodes.into_iter().map(of).collect()
    }

    /// Copies of each row in each data centre, if the cluster has reported them.
    pub(crate) fn replication(&self) -> Option<BTreeMap<String, usize>> {
        let state = self.session.get_cluster_state();
        match &state.get_keyspace(&self.keyspace)?.strategy {
            Strategy::NetworkTopologyStrategy { datacenter_repfactors } => {
                Some(datacenter_repfactors.iter().map(|(name, copies)| (name.clone(), *copies)).collect())
            }
            Strategy::SimpleStrategy { replication_factor } => Some([("all".to_owned(), *replication_factor)].into()),
            _ => None,
        }
    }

    pub(crate) async fn put_cells(&self, row: &Fragment, written: &Written, reach: Reach) -> Result<(), Error> {
        let Fragment { key, digest, body } = row;
        let (series, source) = (key.series.0.to_be_bytes(), key.source.0.to_be_bytes());
        let (sequence, bucket) = (key.sequence as i64, bucket(key.minute));
        let Written { table, at_us, seconds } = *written;
        let values = (&series[..], bucket, key.minute, &source[..], sequence, *digest, body.as_slice(), at_us, seconds);
        self.execute(self.statements.raw(table).put.at(reach), values).await.map(drop)
    }

    /// Makes a segment of the label index durable, and then its day known.
    pub(crate) async fn put_segment(
        &self,
        ShardKey { day, shard }: ShardKey,
        writer: u128,
        digest: i64,
        body: &[u8],
    ) -> Result<(), Error> {
        let reach = Reach::Majority;
        let values = (day, shard, &writer.to_be_bytes()[..], digest, body);
        self.execute(self.statements.put_segment.at(reach), values).await?;
        self.execute(self.statements.put_day.at(reach), (0_i32, day)).await.map(drop)
    }

    /// The rows of a series.
    pub(crate) async fn cells(
        &self,
        table: Table,
        series: SeriesId,
        span: BucketSpan,
        copies: Copies,
    ) -> Result<(Vec<CellRow>, Consistent), Error> {
        let (id, statement) = (series.0.to_be_bytes(), &self.statements.raw(table).read);
        let BucketSpan { bucket, first, last } = span;
        let (values, partition) = ((&id[..], bucket, first, last), (&id[..], bucket));
        match copies {
            Copies::Majority => self.read(statement, values, &partition).await,
            Copies::All => self.union(statement, values, &partition).await,
            Copies::One => match self.execute(&statement.one, values).await {
                Ok(result) => Ok((rows(result)?, Consistent::Majority)),
                Err(_) => self.read(statement, values, &partition).await,
            },
        }
    }

    /// The keys of such rows at each copy; none of a copy that does not answer.
    pub(crate) async fn keys_of_copies(
        &self,
        table: Table,
        series: SeriesId,
        span: BucketSpan,
    ) -> Result<Vec<Option<Vec<CellKey>>>, Error> {
        let (id, BucketSpan { bucket, first, last }) = (series.0.to_be_bytes(), span);
        let keys = &self.statements.raw(table).keys;
        let all = self.copies(keys, (&id[..], bucket, first, last), &(&id[..], bucket)).await?;
        all.into_iter().map(|result| result.ok().map(rows).transpose()).collect()
    }

    pub(crate) async fn put_manifest(
        &self,
        ManifestKey { minute, writer }: ManifestKey,
        digest: i64,
        body: &[u8],
    ) -> Result<(), Error> {
        let values = (minute, &writer.to_be_bytes()[..], digest, body);
        self.execute(self.statements.put_manifest.at(Reach::Majority), values).await.map(drop)
    }

    /// Writer and digest of the manifests of a minute.
    pub(crate) async fn manifests(&self, minute: i32) -> Result<(Vec<(Vec<u8>, i64)>, Consistent), Error> {
        self.read(&self.statements.list_manifests, (minute,), &(minute,)).await
    }

    pub(crate) async fn manifest(
        &self,
        minute: i32,
        writer: &[u8],
        digest: i64,
    ) -> Result<(Vec<(Vec<u8>,)>, Consistent), Error> {
        self.read(&self.statements.read_manifest, (minute, writer, digest), &(minute,)).await
    }

    pub(crate) async fn days(&self) -> Result<(Vec<i32>, Consistent), Error> {
        let (rows, consistent): (Vec<(i32,)>, _) = self.read(&self.statements.read_days, (0_i32,), &(0_i32,)).await?;
        Ok((rows.into_iter().map(|row| row.0).collect(), consistent))
    }

    /// Writer and digest of the segments of a day and shard.
    pub(crate) async fn segments(
        &self,
        ShardKey { day, shard }: ShardKey,
    ) -> Result<(Vec<(Vec<u8>, i64)>, Consistent), Error> {
        self.read(&self.statements.list_segments, (day, shard), &(day, shard)).await
    }

    pub(crate) async fn segment(
        &self,
        ShardKey { day, shard }: ShardKey,
        writer: &[u8],
        digest: i64,
    ) -> Result<(Vec<(Vec<u8>,)>, Consistent), Error> {
        self.read(&self.statements.read_segment, (day, shard, writer, digest), &(day, shard)).await
    }

    pub(crate) async fn execute(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<QueryResult, Error> {
        let done = self.session.execute_unpaged(statement, values).await;
        done.map_err(|error| Error::Unavailable(error.to_string()))
    }

    /// The rows that a majority has, or else the union of what every copy has that answers.
    pub(crate) async fn read<R>(
        &self,
        statement: &Prepared,
        values: impl SerializeRow + Copy,
        partition: &(dyn SerializeRow + Sync),
    ) -> Result<(Vec<R>, Consistent), Error>
    where
        R: for<'f, 'm> DeserializeRow<'f, 'm> + Ord,
    {
        match self.execute(&statement.majority, values).await {
            Ok(result) => Ok((rows(result)?, Consistent::Majority)),
            Err(_) => self.union(statement, values, partition).await,
        }
    }

    /// The union of what every copy has that answers.
    async fn union<R>(
        &self,
        statement: &Prepared,
        values: impl SerializeRow + Copy,
        partition: &(dyn SerializeRow + Sync),
    ) -> Result<(Vec<R>, Consistent), Error>
    where
        R: for<'f, 'm> DeserializeRow<'f, 'm> + Ord,
    {
        let results = self.copies(statement, values, partition).await?;
        let copies = results.len();
        let (mut all, mut answered) = (Vec::new(), 0);
        let mut failed = Error::Unavailable("nobody has a copy".into());
        for result in results {
            match result {
                Ok(result) => {
                    all.extend(rows::<R>(result)?);
                    answered += 1;
                }
                Err(error) => failed = error,
            }
        }
        if answered == 0 {
            return Err(failed);
        }
        all.sort_unstable();
        all.dedup();
        Ok((all, Consistent::Union { answered, copies }))
    }

    /// What each copy has.
    async fn copies(
        &self,
        statement: &Prepared,
        values: impl SerializeRow + Copy,
        partition: &(dyn SerializeRow + Sync),
    ) -> Result<Vec<Result<QueryResult, Error>>, Error> {
        let state = self.session.get_cluster_state();
        let endpoints = state.get_endpoints(&self.keyspace, statement.table, partition);
        let endpoints = endpoints.map_err(|error| Error::Unavailable(error.to_string()))?;
        Ok(all_of(endpoints.into_iter().map(|(node, _)| self.copy(statement, values, node)).collect()).await)
    }

    /// What one copy has, through its own coordinator.
    async fn copy(
        &self,
        statement: &Prepared,
        values: impl SerializeRow,
        node: Arc<Node>,
    ) -> Result<QueryResult, Error> {
        let mut one = statement.one.clone();
        one.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(NodeIdentifier::Node(node), None)));
        self.execute(&one, values).await
    }
}

pub(crate) fn rows<R>(result: QueryResult) -> Result<Vec<R>, Error>
where
    R: for<'f, 'm> DeserializeRow<'f, 'm>,
{
    let wrong = |error: String| Error::Schema(format!("the cluster answers with other columns: {error}"));
    let result = result.into_rows_result().map_err(|error| wrong(error.to_string()))?;
    let rows = result.rows::<R>().map_err(|error| wrong(error.to_string()))?;
    rows.collect::<Result<_, _>>().map_err(|error| wrong(error.to_string()))
}

impl Prepared {
    pub(crate) const fn at(&self, reach: Reach) -> &PreparedStatement {
        match reach {
            Reach::Majority => &self.majority,
            Reach::One => &self.one,
            Reach::All => &self.all,
        }
    }
}

/// Connects; a connection that is silent for `silence` is dead.
async fn session(address: &Address, silence: Duration) -> Result<Session, Error> {
    let balancing = DefaultPolicy::builder()
        .prefer_datacenter(address.datacentre.clone())
        .token_aware(true)
        .permit_dc_failover(true)
        .build();
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::LocalQuorum)
        .request_timeout(Some(REQUEST_MAX))
        .load_balancing_policy(balancing)
        .retry_policy(Arc::new(NextCoordinator))
        .speculative_execution_policy(Some(Arc::new(SimpleSpeculativeExecutionPolicy {
            max_retry_count: 2,
            retry_interval: SPECULATION,
        })))
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(&address.hosts)
        .default_execution_profile_handle(profile.into_handle())
        .connection_timeout(silence)
        .keepalive_interval(KEEP_ALIVE)
        .keepalive_timeout(silence)
        .tcp_nodelay(true)
        .schema_agreement_timeout(SCHEMA_MAX)
        .cluster_metadata_refresh_interval(Duration::from_secs(10));
    if let (Some(user), Some(file)) = (&address.user, &address.password_file) {
        builder = builder.user(user, password(file)?);
    }
    if let Some(tls) = &address.tls {
        builder = builder.tls_context(Some(tls.config()?));
    }
    builder.build().await.map_err(|error| Error::Unavailable(error.to_string()))
}

/// The first line of a file.
fn password(file: &std::path::Path) -> Result<String, Error> {
    use ogive_journal::{Disk, RealDisk};
    let wrong = |error: String| Error::Local(format!("cannot read the password in {}: {error}", file.display()));
    let bytes = RealDisk.read(file).map_err(|error| wrong(error.to_string()))?;
    if bytes.len() as u64 > PASSWORD_BYTES_MAX {
        return Err(wrong("it is too long".into()));
    }
    let text = String::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
    Ok(text.lines().next().unwrap_or("").to_owned())
}

/// Whether every table has the columns that are used here.
async fn check(session: &Session, address: &Address) -> Result<(), Error> {
    let keyspace = &address.keyspace;
    let advice = format!("run `ogive cluster init --store cassandra://{}/{keyspace}`", address.hosts.join(","));
    for (table, columns) in schema::TABLES {
        let found = session
            .query_unpaged(
                "SELECT column_name FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?",
                (keyspace.as_str(), table),
            )
            .await
            .map_err(|error| Error::Unavailable(error.to_string()))?;
        let found: Vec<(String,)> = rows(found)?;
        let missing: Vec<&str> =
            columns.iter().copied().filter(|column| !found.iter().any(|(name,)| name == column)).collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(Error::Schema(format!("{keyspace}.{table} has no {missing}; {advice}")));
        }
    }
    Ok(())
}
