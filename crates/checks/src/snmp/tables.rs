//! What an SNMP check reads: the agent, the login, objects and tables, as a `[[check]]` table says.
//!
//! Invariants: no two numbers of a check are of the same series; a password that SNMP v3 forbids is refused before the
//! first request, unless it is in a file.
//! Limits: [`OBJECTS_MAX`], [`COLUMNS_MAX`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use async_snmp::Oid;
use ogive_model::{Labels, METRIC_NAME};
use ogive_outgoing::Secret;
use ogive_snmp::UserKeys;

use crate::raw::{ObjectTable, Raw, WalkTable, secret};
use crate::target::{HostAndPort, OWN_LABELS, place, target};

const PORT: u16 = 161;
/// 100 objects: ten requests of ten.
const OBJECTS_MAX: usize = 100;
/// 100 columns of all tables of a check, those of labels included: IF-MIB has 41.
const COLUMNS_MAX: usize = 100;

/// An agent and what is read from it.
#[derive(Clone, Debug)]
pub(crate) struct Snmp {
    pub(super) place: HostAndPort,
    pub(super) credentials: Credentials,
    pub(super) objects: Vec<Object>,
    pub(super) tables: Vec<Table>,
}

/// Who asks.
#[derive(Clone, Debug)]
pub(super) enum Credentials {
    /// SNMP v2c.
    Community(Secret),
    /// SNMP v3.
    User(User),
}

/// A user of SNMP v3 and the context that it asks in.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) login: ogive_snmp::User<Secret>,
    pub(super) context: String,
}

/// One number, or a column of them.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) oid: Oid,
    pub(super) unit: String,
    pub(super) labels: Vec<(String, String)>,
}

/// Columns with the same rows.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// The label of a row's index.
    pub(super) index: String,
    pub(super) labels: Vec<RowLabel>,
    pub(super) columns: Vec<Object>,
}

/// A column whose values are labels of their rows.
#[derive(Clone, Debug)]
pub(super) struct RowLabel {
    pub(super) name: String,
    pub(super) oid: Oid,
}

impl Snmp {
    /// What a table of this kind says.
    pub(crate) fn from_raw(raw: &mut Raw) -> Result<Self, String> {
        let place = place(&target(raw)?, Some(PORT))?;
        let credentials = credentials(raw)?;
        let objects = raw.get.take().unwrap_or_default();
        let walks = raw.walk.take().unwrap_or_default();
        if objects.is_empty() && walks.is_empty() {
            return Err("there is neither a [[check.get]] nor a [[check.walk]] table".into());
        }
        if objects.len() > OBJECTS_MAX {
            return Err(format!("there are {} [[check.get]] tables, above {OBJECTS_MAX}", objects.len()));
        }
        let columns: usize = walks.iter().map(|walk| walk.labels.len() + walk.columns.len()).sum();
        if columns > COLUMNS_MAX {
            return Err(format!("there are {columns} columns, those of labels included, above {COLUMNS_MAX}"));
        }
        let objects: Vec<Object> =
            objects.into_iter().map(|table| Object::from_table(table, &[])).collect::<Result<_, _>>()?;
        let tables: Vec<Table> = walks.into_iter().map(Table::from_table).collect::<Result<_, _>>()?;
        distinct(&objects, &tables)?;
        Ok(Self { place, credentials, objects, tables })
    }
}

/// Whether no two numbers are of one series.
fn distinct(objects: &[Object], tables: &[Table]) -> Result<(), String> {
    let columns = tables.iter().flat_map(|table| table.columns.iter().map(move |column| (Some(&table.index), column)));
    let mut series = BTreeSet::new();
    for (index, object) in objects.iter().map(|object| (None, object)).chain(columns) {
        if !series.insert((&object.name, &object.labels, index)) {
            return Err(format!("{:?} is there twice with the same labels", object.name));
        }
    }
    Ok(())
}

fn credentials(raw: &mut Raw) -> Result<Credentials, String> {
    let community = secret("community", raw.community.take(), raw.community_file.take())?;
    match (community, raw.user.take()) {
        (Some(_), Some(_)) => Err("give community (SNMP v2c) or user (v3), not both".into()),
        (None, None) => Err("give community or community_file (SNMP v2c), or user (v3)".into()),
        (Some(_), None) if raw.authentication.is_some() || raw.privacy.is_some() => {
            Err("authentication and privacy need a user: a community is of SNMP v2c, which has neither".into())
        }
        (Some(community), None) => Ok(Credentials::Community(community)),
        (None, Some(name)) => User::from_raw(name, raw).map(Credentials::User),
    }
}

impl User {
    fn from_raw(name: String, raw: &mut Raw) -> Result<Self, String> {
        let keys = UserKeys {
            authentication: raw.authentication.take(),
            password: password("password", raw.password.take(), raw.password_file.take())?,
            privacy: raw.privacy.take(),
            privacy_password: password(
                "privacy_password",
                raw.privacy_password.take(),
                raw.privacy_password_file.take(),
            )?,
        };
        let login = ogive_snmp::User::new(name, keys)?;
        Ok(Self { login, context: raw.context.take().unwrap_or_default() })
    }
}

fn password(key: &str, here: Option<String>, file: Option<PathBuf>) -> Result<Option<Secret>, String> {
    let found = secret(key, here, file)?;
    if let Some(Secret::Here(words)) = &found {
        ogive_snmp::long_enough(key, words)?;
    }
    Ok(found)
}

impl Object {
    /// `more` are the labels that the agent gives.
    fn from_table(table: ObjectTable, more: &[&str]) -> Result<Self, String> {
        let ObjectTable { name, oid, unit, labels } = table;
        let of = |sentence: String| format!("{name:?}: {sentence}");
        if name.is_empty() || name.starts_with("ogive_") {
            return Err(of("give it a name, and none that begins with ogive_: those are the server's own".into()));
        }
        let oid = identifier(&oid).map_err(of)?;
        check_labels(&name, &labels, more).map_err(of)?;
        Ok(Self { name, oid, unit, labels: labels.into_iter().collect() })
    }
}

fn check_labels(metric: &str, labels: &BTreeMap<String, String>, more: &[&str]) -> Result<(), String> {
    let mut names = labels.keys().map(String::as_str).chain(more.iter().copied());
    if let Some(own) = names.find(|name| OWN_LABELS.contains(name)) {
        return Err(format!("the label {own} is the check's own"));
    }
    let pairs = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let pairs = pairs.chain(more.iter().map(|name| (*name, "x"))).chain([(METRIC_NAME, metric)]);
    Labels::new(pairs).map(drop).map_err(|error| error.to_string())
}

impl Table {
    fn from_table(walk: WalkTable) -> Result<Self, String> {
        let WalkTable { index, labels, columns } = walk;
        if columns.is_empty() {
            return Err("a [[check.walk]] table has no columns".into());
        }
        let more: Vec<&str> = labels.keys().map(String::as_str).chain([index.as_str()]).collect();
        let columns = columns.into_iter().map(|column| Object::from_table(column, &more)).collect::<Result<_, _>>()?;
        let label = |(name, oid): (&String, &String)| {
            let oid = identifier(oid).map_err(|sentence| format!("the label {name:?}: {sentence}"))?;
            Ok::<_, String>(RowLabel { name: name.clone(), oid })
        };
        let labels = labels.iter().map(label).collect::<Result<_, _>>()?;
        Ok(Self { index, labels, columns })
    }
}

fn identifier(text: &str) -> Result<Oid, String> {
    let wrong = || format!("oid {text:?} is none; write it in numbers, such as 1.3.6.1.2.1.1.3.0");
    let oid = Oid::parse(text).map_err(|_| wrong())?;
    oid.validate_for_wire().map_err(|_| wrong())?;
    Ok(oid)
}

#[cfg(test)]
mod tests {
    use async_snmp::{AuthProtocol, PrivProtocol};

    use super::*;
    use crate::config::{Config, Probe};

    const GET: &str = "get = [{name = 'x', oid = '1.3.6.1.2.1.1.3.0'}]";

    fn read(keys: &str) -> Result<Snmp, String> {
        let text = format!("[[check]]\nname = 'a'\nkind = 'snmp'\ntarget = 'h'\n{keys}");
        match Config::parse(&text)?.check.remove(0).ask {
            Probe::Snmp(check) => Ok(*check),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tables_are_read() {
        let check = read(&format!("community = 'hunter2'\n{GET}")).unwrap();
        assert_eq!((check.place.port, check.objects.len(), check.tables.len()), (161, 1, 0));
        assert!(!format!("{check:?}").contains("hunter2"), "{check:?}");
        let keys = "user = 'u'\nauthentication = 'sha256'\npassword = 'hunter2 hunter2'\nprivacy = 'aes128'\n\
                    privacy_password_file = '/p'\ncontext = 'c'\n[[check.walk]]\nindex = 'row'\n\
                    labels = {if = '.1.3.6.1.2.1.2.2.1.2'}\ncolumns = [{name = 'y', oid = '1.3.6.1.2.1.2.2.1.10', unit = 'By'}]\n";
        let check = read(keys).unwrap();
        assert!(!format!("{check:?}").contains("hunter2"), "{check:?}");
        let Credentials::User(user) = check.credentials else { panic!("it names a user") };
        assert_eq!((user.login.name.as_str(), user.context.as_str()), ("u", "c"));
        assert_eq!(user.login.authentication.unwrap().protocol, AuthProtocol::Sha256);
        assert_eq!(user.login.privacy.unwrap().protocol, PrivProtocol::Aes128);
        let table = &check.tables[0];
        assert_eq!((table.index.as_str(), table.labels[0].name.as_str()), ("row", "if"));
        assert_eq!((table.columns[0].unit.as_str(), table.columns[0].oid.len()), ("By", 10));
    }

    #[test]
    fn mistakes_of_logins_are_refused() {
        for (keys, sentence) in [
            ("", "give community or community_file (SNMP v2c), or user (v3)"),
            ("community = 'a'\nuser = 'u'", "not both"),
            ("community = 'a'\ncommunity_file = '/c'", "give community or community_file, not both"),
            ("community = 'a'\nprivacy = 'aes128'", "need a user"),
            ("community = 'a'\npassword = 'hunter2hunter2'", "password means nothing to the kind snmp"),
            ("user = ''", "user has 0 bytes"),
            ("user = 'u'\npassword = 'hunter2hunter2'", "a password needs authentication"),
            ("user = 'u'\nauthentication = 'sha256'", "password or password_file is missing"),
            ("user = 'u'\nauthentication = 'sha256'\npassword = 'hunter2'", "password has fewer than 8 bytes"),
            (
                "user = 'u'\nauthentication = 'sha2'\npassword = 'hunter2hunter2'",
                "authentication \"sha2\" is none; there are md5, ",
            ),
            ("user = 'u'\nprivacy = 'aes128'", "privacy needs authentication"),
            (
                "user = 'u'\nauthentication = 'sha1'\npassword_file = '/p'\nprivacy = 'des'\nprivacy_password_file = '/p'",
                "privacy \"des\" is none; there are aes128, ",
            ),
            (
                "user = 'u'\nauthentication = 'sha1'\npassword_file = '/p'\nprivacy_password = 'hunter2hunter2'",
                "privacy_password needs privacy",
            ),
        ] {
            let found = read(&format!("{keys}\n{GET}")).unwrap_err();
            assert!(found.contains(sentence), "{found}");
            assert!(!found.contains("hunter2"), "{found}");
        }
    }

    #[test]
    fn mistakes_of_objects_are_refused() {
        for (keys, sentence) in [
            ("", "there is neither a [[check.get]] nor a [[check.walk]] table"),
            ("get = [{name = 'x', oid = 'IF-MIB::ifInOctets.1'}]", "write it in numbers"),
            ("get = [{name = 'x', oid = '1'}]", "write it in numbers"),
            ("get = [{name = 'x', oid = ''}]", "write it in numbers"),
            ("get = [{name = 'ogive_x', oid = '1.3.6'}]", "begins with ogive_"),
            ("get = [{name = 'x', oid = '1.3.6', labels = {phase = 'y'}}]", "the label phase is the check's own"),
            ("get = [{name = 'x', oid = '1.3.6'}, {name = 'x', oid = '1.3.7'}]", "\"x\" is there twice"),
            ("walk = [{columns = []}]", "has no columns"),
            ("walk = [{columns = [{name = 'x', oid = '1.3.6', rows = 3}]}]", "rows"),
            ("walk = [{index = 'if', labels = {if = '1.3.6'}, columns = [{name = 'x', oid = '1.3.7'}]}]", "if"),
            ("walk = [{index = 'kind', columns = [{name = 'x', oid = '1.3.7'}]}]", "the label kind is the check's own"),
            ("walk = [{labels = {if = 'ifDescr'}, columns = [{name = 'x', oid = '1.3.7'}]}]", "the label \"if\": oid"),
        ] {
            let found = read(&format!("community = 'c'\n{keys}")).unwrap_err();
            assert!(found.contains(sentence), "{found}");
        }
        let many = |count: usize| {
            let tables: Vec<String> = (0..count).map(|at| format!("{{name = 'x{at}', oid = '1.3.6.{at}'}}")).collect();
            read(&format!("community = 'c'\nget = [{}]", tables.join(", ")))
        };
        assert_eq!(many(OBJECTS_MAX).unwrap().objects.len(), OBJECTS_MAX);
        assert!(many(OBJECTS_MAX + 1).unwrap_err().contains("above 100"));
    }
}
