//! The statements of a session, prepared, each for a majority, for one copy and for all of them.

use std::time::Duration;

use scylla::client::session::Session;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;

use crate::Error;
use crate::schema::Table;

/// 2 s for one copy alone.
const COPY_MAX: Duration = Duration::from_secs(2);

/// A statement for a majority, for a single copy and for all of them.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) table: &'static str,
    pub(crate) majority: PreparedStatement,
    pub(crate) one: PreparedStatement,
    pub(crate) all: PreparedStatement,
}

/// Those of a table of rows as they came.
#[derive(Debug)]
pub(crate) struct OfRows {
    pub(crate) put: Prepared,
    pub(crate) read: Prepared,
    pub(crate) keys: Prepared,
    pub(crate) count: Prepared,
    pub(crate) remove: Prepared,
}

/// Those of a table of rollups.
#[derive(Debug)]
pub(crate) struct OfRollups {
    pub(crate) put: Prepared,
    pub(crate) read: Prepared,
    pub(crate) remove: Prepared,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Statements {
    raw: Vec<OfRows>,
    rolled: Vec<OfRollups>,
    pub(crate) put_segment: Prepared,
    pub(crate) put_day: Prepared,
    pub(crate) read_days: Prepared,
    pub(crate) list_segments: Prepared,
    pub(crate) read_segment: Prepared,
    pub(crate) put_manifest: Prepared,
    pub(crate) list_manifests: Prepared,
    pub(crate) read_manifest: Prepared,
    pub(crate) put_deletion: Prepared,
    pub(crate) read_deletions: Prepared,
    pub(crate) put_repair: Prepared,
    pub(crate) read_repairs: Prepared,
    pub(crate) remove_repair: Prepared,
    pub(crate) read_clock: Prepared,
    pub(crate) read_retention: Prepared,
}

/// Prepares statements in a keyspace.
struct Preparing<'a> {
    session: &'a Session,
    keyspace: &'a str,
}

impl Statements {
    /// # Errors
    /// [`Error::Unavailable`].
    pub(crate) async fn prepare(session: &Session, keyspace: &str) -> Result<Self, Error> {
        let to = Preparing { session, keyspace };
        let (mut raw, mut rolled) = (Vec::new(), Vec::new());
        for table in Table::RAW {
            raw.push(to.prepare_rows(table.name()).await?);
        }
        for table in Table::ROLLED {
            rolled.push(to.prepare_rollups(table.name()).await?);
        }
        let (segments, days, manifests) = ("index_segments", "index_days", "manifests");
        let (deletions, repairs) = ("deletions", "repairs");
        let of_segment = "WHERE day = ? AND shard = ?";
        Ok(Self {
            raw,
            rolled,
            put_segment: to
                .one(segments, "INSERT INTO % (day, shard, writer, digest, body) VALUES (?,?,?,?,?)")
                .await?,
            put_day: to.one(days, "INSERT INTO % (part, day) VALUES (?,?)").await?,
            read_days: to.one(days, "SELECT day FROM % WHERE part = ?").await?,
            list_segments: to.one(segments, &format!("SELECT writer, digest FROM % {of_segment}")).await?,
            read_segment: to
                .one(segments, &format!("SELECT body FROM % {of_segment} AND writer = ? AND digest = ?"))
                .await?,
            put_manifest: to.one(manifests, "INSERT INTO % (minute, writer, digest, body) VALUES (?,?,?,?)").await?,
            list_manifests: to.one(manifests, "SELECT writer, digest FROM % WHERE minute = ?").await?,
            read_manifest: to
                .one(manifests, "SELECT body FROM % WHERE minute = ? AND writer = ? AND digest = ?")
                .await?,
            put_deletion: to.one(deletions, "INSERT INTO % (part, at, digest, body) VALUES (?,?,?,?)").await?,
            read_deletions: to.one(deletions, "SELECT at, digest, body FROM % WHERE part = ?").await?,
            put_repair: to.one(repairs, "INSERT INTO % (part, minute, writer) VALUES (?,?,?)").await?,
            read_repairs: to.one(repairs, "SELECT minute, writer FROM % WHERE part = ?").await?,
            remove_repair: to.one(repairs, "DELETE FROM % WHERE part = ? AND minute = ? AND writer = ?").await?,
            read_clock: to.one("", "SELECT toUnixTimestamp(now()) FROM system.local").await?,
            read_retention: to
                .one("", "SELECT table_name, default_time_to_live FROM system_schema.tables WHERE keyspace_name = ?")
                .await?,
        })
    }

    /// # Panics
    /// For a table of rollups.
    pub(crate) fn raw(&self, table: Table) -> &OfRows {
        &self.raw[usize::from(table.code())]
    }

    /// # Panics
    /// For a table of rows as they came.
    pub(crate) fn rolled(&self, table: Table) -> &OfRollups {
        &self.rolled[usize::from(table.code()) - self.raw.len()]
    }
}

impl Preparing<'_> {
    async fn prepare_rows(&self, table: &'static str) -> Result<OfRows, Error> {
        let place = "WHERE series = ? AND bucket = ? AND minute >= ? AND minute <= ?";
        let put = "INSERT INTO % (series, bucket, minute, source, sequence, digest, body) VALUES (?,?,?,?,?,?,?) \
                   USING TIMESTAMP ? AND TTL ?";
        let key = "minute, source, sequence, digest";
        Ok(OfRows {
            put: self.one(table, put).await?,
            read: self.one(table, &format!("SELECT {key}, WRITETIME(body), body FROM % {place}")).await?,
            keys: self.one(table, &format!("SELECT {key} FROM % {place}")).await?,
            count: self.one(table, &format!("SELECT minute, COUNT(*) FROM % {place} GROUP BY minute")).await?,
            remove: self.one(table, &format!("DELETE FROM % USING TIMESTAMP ? {place}")).await?,
        })
    }

    async fn prepare_rollups(&self, table: &'static str) -> Result<OfRollups, Error> {
        let place = "WHERE series = ? AND bucket = ? AND hour >= ? AND hour <= ?";
        Ok(OfRollups {
            put: self.one(table, "INSERT INTO % (series, bucket, hour, body) VALUES (?,?,?,?) USING TTL ?").await?,
            read: self.one(table, &format!("SELECT hour, body FROM % {place}")).await?,
            remove: self.one(table, &format!("DELETE FROM % {place}")).await?,
        })
    }

    /// `%` is the table.
    async fn one(&self, table: &'static str, text: &str) -> Result<Prepared, Error> {
        let prepared = self.session.prepare(text.replace('%', &format!("{}.{table}", self.keyspace))).await;
        let mut majority = prepared.map_err(|error| Error::Unavailable(error.to_string()))?;
        majority.set_is_idempotent(true);
        let mut one = majority.clone();
        one.set_consistency(Consistency::LocalOne);
        one.set_request_timeout(Some(COPY_MAX));
        let mut all = majority.clone();
        all.set_consistency(Consistency::All);
        Ok(Prepared { table, majority, one, all })
    }
}
