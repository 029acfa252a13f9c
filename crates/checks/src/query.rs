//! `[[check.query]]` tables: SQL whose rows become samples.
//!
//! Limits: [`QUERIES_MAX`], [`SQL_BYTES_MAX`], [`COLUMNS_NAMED_MAX`].
//! Failure: a mistake in a table is a sentence that begins with the query's name.

use std::collections::BTreeSet;

use ogive_model::{Labels, METRIC_NAME};

use super::raw::{QueryKey, QueryTable, Raw};
use super::target::OWN_LABELS;

/// 20 queries: as many as steps; all of them share the check's timeout.
const QUERIES_MAX: usize = 20;
/// 64 KiB of SQL: a report of many pages.
const SQL_BYTES_MAX: usize = 64 << 10;
/// 100 names, as many as a result may have columns.
const COLUMNS_NAMED_MAX: usize = 100;

/// What is asked of a database, and what its columns are.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) name: String,
    pub(super) sql: String,
    pub(super) metric: String,
    pub(super) unit: String,
    /// Its numbers only grow, apart from restarts.
    pub(super) is_counter: bool,
    pub(super) labels: Vec<(String, String)>,
    /// None: every column of numbers.
    pub(super) value_columns: Option<Vec<String>>,
    /// None: every column of text.
    pub(super) label_columns: Option<Vec<String>>,
    /// Labels that no column may become.
    pub(super) taken: BTreeSet<String>,
}

impl Query {
    /// What `[[check.query]]` tables say.
    pub(super) fn all(raw: &mut Raw) -> Result<Vec<Self>, String> {
        let tables = match raw.query.take() {
            None => return Ok(Vec::new()),
            Some(QueryKey::Tables(tables)) => tables,
            Some(QueryKey::Name(_)) => return Err("write queries as [[check.query]] tables".into()),
        };
        if tables.len() > QUERIES_MAX {
            return Err(format!("there are {} [[check.query]] tables, above {QUERIES_MAX}", tables.len()));
        }
        let mut names = BTreeSet::new();
        let mut queries = Vec::new();
        for table in tables {
            let query = Self::from_table(table, raw)?;
            if !names.insert(query.name.clone()) {
                return Err(format!("query {:?} is there twice; give each a name of its own", query.name));
            }
            queries.push(query);
        }
        Ok(queries)
    }

    fn from_table(table: QueryTable, raw: &Raw) -> Result<Self, String> {
        let QueryTable { name, metric, sql, unit, counter, labels, value_columns, label_columns } = table;
        let name = name.unwrap_or_else(|| metric.clone());
        let wrong = |sentence: String| format!("query {name:?}: {sentence}");
        if name.is_empty() || metric.is_empty() || metric.starts_with("ogive_") {
            let sentence = "give it a metric, and none that begins with ogive_: those are the server's own";
            return Err(wrong(sentence.into()));
        }
        if sql.trim().is_empty() || sql.contains('\0') || sql.len() > SQL_BYTES_MAX {
            let sentence = format!("sql is one statement without zero bytes, and has at most {SQL_BYTES_MAX} bytes");
            return Err(wrong(sentence));
        }
        if let Some(own) =
            labels.keys().find(|name| OWN_LABELS.contains(&name.as_str()) || raw.labels.contains_key(*name))
        {
            return Err(wrong(format!("the label {own} is the check's own")));
        }
        named(value_columns.as_ref(), label_columns.as_ref()).map_err(wrong)?;
        let pairs = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Labels::new(pairs.chain([(METRIC_NAME, metric.as_str())])).map_err(|error| wrong(error.to_string()))?;
        let mut taken: BTreeSet<String> = OWN_LABELS.into_iter().map(str::to_owned).collect();
        taken.extend(raw.labels.keys().chain(labels.keys()).cloned());
        let labels = labels.into_iter().collect();
        Ok(Self { name, sql, metric, unit, is_counter: counter, labels, value_columns, label_columns, taken })
    }
}

/// Whether the columns that are named can be what they are named as.
fn named(values: Option<&Vec<String>>, labels: Option<&Vec<String>>) -> Result<(), String> {
    if values.is_some_and(Vec::is_empty) {
        return Err("value_columns is empty; leave it out, and every column of numbers is a value".into());
    }
    let count = values.map_or(0, Vec::len) + labels.map_or(0, Vec::len);
    if count > COLUMNS_NAMED_MAX {
        return Err(format!("value_columns and label_columns have {count} names, above {COLUMNS_NAMED_MAX}"));
    }
    let mut seen = BTreeSet::new();
    match values.into_iter().chain(labels).flatten().find(|column| !seen.insert(column.to_ascii_lowercase())) {
        Some(twice) => Err(format!("the column {twice:?} is named twice in value_columns and label_columns")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Probe};

    fn queries(keys: &str) -> Result<Vec<Query>, String> {
        let head = "[[check]]\nname = 'a'\nkind = 'postgres'\ntarget = 'h'\nlabels = {team = 'x'}\n";
        let Probe::Postgres(database) = Config::parse(&format!("{head}{keys}"))?.check.remove(0).ask else {
            unreachable!("it is of that kind")
        };
        Ok(database.queries)
    }

    const GOOD: &str = "[[check.query]]\nmetric = 'm'\nsql = 'SELECT 1'\n";

    #[test]
    fn a_query_is_named_after_its_metric() {
        assert!(queries("").unwrap().is_empty());
        let all =
            queries(&format!("{GOOD}[[check.query]]\nname = 'n'\nmetric = 'm'\nsql = 'x'\ncounter = true\n")).unwrap();
        assert_eq!((all[0].name.as_str(), all[0].is_counter), ("m", false));
        assert_eq!((all[1].name.as_str(), all[1].is_counter), ("n", true));
        assert!(all[0].taken.contains("team") && all[0].taken.contains("check"));
    }

    #[test]
    fn mistakes_are_refused() {
        for (keys, sentence) in [
            ("query = 'SELECT 1'", "write queries as [[check.query]] tables"),
            ("[[check.query]]\nsql = 'x'", "missing field `metric`"),
            ("[[check.query]]\nmetric = 'm'", "missing field `sql`"),
            ("[[check.query]]\nmetric = 'm'\nsql = 'x'\nvalues = ['a']", "unknown field `values`"),
            ("[[check.query]]\nmetric = 'ogive_m'\nsql = 'x'", "begins with ogive_"),
            ("[[check.query]]\nmetric = ''\nsql = 'x'", "give it a metric"),
            ("[[check.query]]\nmetric = 'm'\nsql = ' '", "sql is one statement"),
            ("[[check.query]]\nmetric = 'm'\nsql = \"a\\u0000\"", "without zero bytes"),
            ("[[check.query]]\nmetric = 'm'\nsql = 'x'\nlabels = {team = 'y'}", "the label team is the check's own"),
            ("[[check.query]]\nmetric = 'm'\nsql = 'x'\nlabels = {check = 'y'}", "the label check is the check's own"),
            ("[[check.query]]\nmetric = 'm'\nsql = 'x'\nvalue_columns = []", "value_columns is empty"),
            (
                "[[check.query]]\nmetric = 'm'\nsql = 'x'\nvalue_columns = ['a']\nlabel_columns = ['A']",
                "the column \"A\" is named twice",
            ),
        ] {
            let found = queries(keys).unwrap_err();
            assert!(found.contains(sentence), "{found}");
        }
        assert!(queries(&GOOD.repeat(2)).unwrap_err().contains("query \"m\" is there twice"));
        assert!(queries(&GOOD.repeat(QUERIES_MAX + 1)).unwrap_err().contains("above 20"));
    }

    #[test]
    fn limits_hold_at_their_values() {
        let sql = |bytes: usize| queries(&format!("[[check.query]]\nmetric = 'm'\nsql = '{}'\n", "x".repeat(bytes)));
        assert_eq!(sql(SQL_BYTES_MAX).unwrap().len(), 1);
        assert!(sql(SQL_BYTES_MAX + 1).is_err());
        let named = |count: usize| {
            let names: Vec<String> = (0..count).map(|at| format!("'c{at}'")).collect();
            queries(&format!("{GOOD}value_columns = [{}]\n", names.join(", ")))
        };
        assert_eq!(named(COLUMNS_NAMED_MAX).unwrap().len(), 1);
        assert!(named(COLUMNS_NAMED_MAX + 1).unwrap_err().contains("above 100"));
    }
}
