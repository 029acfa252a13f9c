//! A `[[check]]` table as written in the file, before it is converted for its kind.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::brokers::Brokers;
use ogive_outgoing::Secret;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A table as it is written.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) target: Option<String>,
    pub(super) period: Option<String>,
    pub(super) timeout: Option<String>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    /// Of a check in the configuration of a group.
    pub(super) brokers: Option<Brokers>,
    pub(super) method: Option<String>,
    pub(super) headers: Option<BTreeMap<String, String>>,
    pub(super) token_file: Option<PathBuf>,
    pub(super) body: Option<String>,
    pub(super) status: Option<Vec<u16>>,
    pub(super) body_regex: Option<String>,
    pub(super) redirects: Option<u32>,
    pub(super) tls: Option<bool>,
    pub(super) starttls: Option<bool>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) server_name: Option<String>,
    pub(super) insecure: Option<bool>,
    #[serde(default, deserialize_with = "name_or_tables")]
    pub(super) query: Option<QueryKey>,
    pub(super) record: Option<String>,
    #[serde(default, deserialize_with = "one_or_more")]
    pub(super) expect: Option<Vec<String>>,
    pub(super) expect_regex: Option<String>,
    pub(super) send: Option<String>,
    pub(super) service: Option<String>,
    pub(super) count: Option<u32>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) database: Option<String>,
    pub(super) community: Option<String>,
    pub(super) community_file: Option<PathBuf>,
    pub(super) authentication: Option<String>,
    pub(super) privacy: Option<String>,
    pub(super) privacy_password: Option<String>,
    pub(super) privacy_password_file: Option<PathBuf>,
    pub(super) context: Option<String>,
    pub(super) get: Option<Vec<ObjectTable>>,
    pub(super) walk: Option<Vec<WalkTable>>,
    pub(super) search: Option<SearchTable>,
    pub(super) fields: Option<Vec<String>>,
    pub(super) servers_up_min: Option<BTreeMap<String, u32>>,
    pub(super) health: Option<String>,
    pub(super) read: Option<Vec<ReadTable>>,
    pub(super) replica_set: Option<bool>,
    pub(super) run_command: Option<Vec<CommandTable>>,
    pub(super) script: Option<PathBuf>,
    pub(super) arguments: Option<BTreeMap<String, String>>,
    pub(super) memory_mib: Option<u32>,
    pub(super) region: Option<String>,
    pub(super) endpoint: Option<String>,
    pub(super) access_key_id: Option<String>,
    pub(super) secret_access_key: Option<String>,
    pub(super) secret_access_key_file: Option<PathBuf>,
    pub(super) delay: Option<String>,
    pub(super) metric: Option<Vec<Metric>>,
    pub(super) extract: Option<Vec<ExtractTable>>,
    pub(super) step: Option<Vec<StepTable>>,
    pub(super) command: Option<Vec<String>>,
    pub(super) environment: Option<BTreeMap<String, String>>,
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The rest may hold secrets.
        write!(out, "Raw({:?}, {:?})", self.name, self.kind)
    }
}

/// A `[[check.metric]]` table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Metric {
    pub(super) namespace: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) dimensions: BTreeMap<String, String>,
    #[serde(default = "average")]
    pub(super) statistics: Vec<String>,
    pub(super) resolution: Option<String>,
}

/// A `[[check.extract]]` table: a number in an answer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtractTable {
    pub(super) name: String,
    pub(super) regex: Option<String>,
    pub(super) json: Option<String>,
    #[serde(default)]
    pub(super) unit: String,
    #[serde(default)]
    pub(super) counter: bool,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
}

/// A `[[check.get]]` table, or a column of a `[[check.walk]]` table: where numbers of an SNMP agent are.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ObjectTable {
    pub(super) name: String,
    pub(super) oid: String,
    #[serde(default)]
    pub(super) unit: String,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
}

/// A `[[check.walk]]` table: columns of a table of an SNMP agent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WalkTable {
    /// The label of a row's index.
    #[serde(default = "index")]
    pub(super) index: String,
    /// Labels of a row, by the OID of the column that holds them.
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    pub(super) columns: Vec<ObjectTable>,
}

/// The `[check.search]` table of an LDAP check.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchTable {
    #[serde(default)]
    pub(super) base: String,
    #[serde(default = "subtree")]
    pub(super) scope: String,
    pub(super) filter: Option<String>,
    pub(super) entries_min: Option<usize>,
    pub(super) entries_max: Option<usize>,
    /// Labels of the values, by the attribute that holds them.
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) values: Vec<AttributeTable>,
}

/// One of the `values` of a `[check.search]` table: an attribute that holds a number.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AttributeTable {
    pub(super) name: String,
    pub(super) attribute: String,
    #[serde(default)]
    pub(super) unit: String,
    #[serde(default)]
    pub(super) counter: bool,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
}

/// A `[[check.read]]` table: attributes of MBeans.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadTable {
    pub(super) mbean: String,
    /// All where it is left out.
    pub(super) attributes: Option<Vec<String>>,
    #[serde(default = "jmx")]
    pub(super) metric: String,
    #[serde(default)]
    pub(super) unit: String,
    #[serde(default)]
    pub(super) counter: bool,
}

/// A `[[check.run_command]]` table: a command of MongoDB, and what is looked for in its answer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandTable {
    pub(super) name: String,
    /// That of users and of commands that are about the server where it is left out.
    pub(super) database: Option<String>,
    pub(super) command: String,
    #[serde(default)]
    pub(super) extract: Vec<ExtractTable>,
}

/// A `[[check.step]]` table: one request of several.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepTable {
    pub(super) name: String,
    pub(super) target: String,
    pub(super) method: Option<String>,
    pub(super) headers: Option<BTreeMap<String, String>>,
    pub(super) body: Option<String>,
    pub(super) form: Option<BTreeMap<String, String>>,
    pub(super) status: Option<Vec<u16>>,
    pub(super) body_regex: Option<String>,
    pub(super) redirects: Option<u32>,
    pub(super) extract: Option<Vec<ExtractTable>>,
    /// Words of the answer for the steps behind it.
    #[serde(default)]
    pub(super) keep: BTreeMap<String, WordLocation>,
}

/// Where a word stands in an answer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WordLocation {
    pub(super) regex: Option<String>,
    pub(super) json: Option<String>,
}

/// The key `query`: the name that a `dns` check asks for, or the queries of a database.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum QueryKey {
    Name(String),
    Tables(Vec<QueryTable>),
}

impl QueryKey {
    /// The name, where it is one.
    pub(super) fn name(&self) -> Option<String> {
        if let Self::Name(name) = self { Some(name.clone()) } else { None }
    }
}

/// A `[[check.query]]` table: SQL, and what its rows become.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueryTable {
    /// That of the metric where it is left out.
    pub(super) name: Option<String>,
    pub(super) metric: String,
    pub(super) sql: String,
    #[serde(default)]
    pub(super) unit: String,
    #[serde(default)]
    pub(super) counter: bool,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    pub(super) value_columns: Option<Vec<String>>,
    pub(super) label_columns: Option<Vec<String>>,
}

/// A name, or a list of tables.
fn name_or_tables<'a, D: Deserializer<'a>>(from: D) -> Result<Option<QueryKey>, D::Error> {
    from.deserialize_any(NameOrTables).map(Some)
}

/// Reads what [`name_or_tables`] describes.
struct NameOrTables;

impl<'a> Visitor<'a> for NameOrTables {
    type Value = QueryKey;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a name to ask for, or [[check.query]] tables")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(QueryKey::Name(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut out = Vec::new();
        while let Some(table) = list.next_element()? {
            out.push(table);
        }
        Ok(QueryKey::Tables(out))
    }
}

/// A text, or a list of texts.
fn one_or_more<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    from.deserialize_any(OneOrMore).map(Some)
}

/// Reads what [`one_or_more`] describes. An untagged enum would not say what was wrong.
struct OneOrMore;

impl<'a> Visitor<'a> for OneOrMore {
    type Value = Vec<String>;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a string or a list of strings")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(vec![text.to_owned()])
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut out = Vec::new();
        while let Some(text) = list.next_element()? {
            out.push(text);
        }
        Ok(out)
    }
}

fn index() -> String {
    "index".into()
}

fn subtree() -> String {
    "subtree".into()
}

fn jmx() -> String {
    "jmx".into()
}

fn average() -> Vec<String> {
    vec!["Average".into()]
}

impl Raw {
    /// Whether it reads a file of this machine.
    pub(super) fn names_files(&self) -> bool {
        let files = [
            &self.token_file,
            &self.ca_file,
            &self.password_file,
            &self.community_file,
            &self.privacy_password_file,
            &self.script,
            &self.secret_access_key_file,
        ];
        files.into_iter().any(Option::is_some)
    }

    /// A key of a kind that nobody took.
    pub(super) fn left(&self) -> Option<&'static str> {
        let keys = [
            ("target", self.target.is_some()),
            ("method", self.method.is_some()),
            ("headers", self.headers.is_some()),
            ("token_file", self.token_file.is_some()),
            ("body", self.body.is_some()),
            ("status", self.status.is_some()),
            ("body_regex", self.body_regex.is_some()),
            ("redirects", self.redirects.is_some()),
            ("tls", self.tls.is_some()),
            ("starttls", self.starttls.is_some()),
            ("ca_file", self.ca_file.is_some()),
            ("server_name", self.server_name.is_some()),
            ("insecure", self.insecure.is_some()),
            ("query", self.query.is_some()),
            ("record", self.record.is_some()),
            ("expect", self.expect.is_some()),
            ("expect_regex", self.expect_regex.is_some()),
            ("send", self.send.is_some()),
            ("service", self.service.is_some()),
            ("count", self.count.is_some()),
            ("user", self.user.is_some()),
            ("password", self.password.is_some()),
            ("password_file", self.password_file.is_some()),
            ("database", self.database.is_some()),
            ("community", self.community.is_some()),
            ("community_file", self.community_file.is_some()),
            ("authentication", self.authentication.is_some()),
            ("privacy", self.privacy.is_some()),
            ("privacy_password", self.privacy_password.is_some()),
            ("privacy_password_file", self.privacy_password_file.is_some()),
            ("context", self.context.is_some()),
            ("get", self.get.is_some()),
            ("walk", self.walk.is_some()),
            ("search", self.search.is_some()),
            ("fields", self.fields.is_some()),
            ("servers_up_min", self.servers_up_min.is_some()),
            ("health", self.health.is_some()),
            ("read", self.read.is_some()),
            ("replica_set", self.replica_set.is_some()),
            ("run_command", self.run_command.is_some()),
            ("script", self.script.is_some()),
            ("arguments", self.arguments.is_some()),
            ("memory_mib", self.memory_mib.is_some()),
            ("region", self.region.is_some()),
            ("endpoint", self.endpoint.is_some()),
            ("access_key_id", self.access_key_id.is_some()),
            ("secret_access_key", self.secret_access_key.is_some()),
            ("secret_access_key_file", self.secret_access_key_file.is_some()),
            ("delay", self.delay.is_some()),
            ("metric", self.metric.is_some()),
            ("extract", self.extract.is_some()),
            ("step", self.step.is_some()),
            ("command", self.command.is_some()),
            ("environment", self.environment.is_some()),
        ];
        keys.into_iter().find(|(_, is_left)| *is_left).map(|(key, _)| key)
    }
}

/// A secret from one of its two keys.
pub(super) fn secret(key: &str, here: Option<String>, file: Option<PathBuf>) -> Result<Option<Secret>, String> {
    match (here, file) {
        (Some(_), Some(_)) => Err(format!("give {key} or {key}_file, not both")),
        (here, file) => Ok(here.map(Secret::Here).or(file.map(Secret::In))),
    }
}
