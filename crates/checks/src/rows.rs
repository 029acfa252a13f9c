//! The result of a query, and the samples that its rows become.
//!
//! Format: a column of numbers is `metric`, or `metric_column` where several are values; a column of text is a label.
//! `ogive_check_query_rows{query}` is how many rows came, `ogive_check_query_skipped{query}` how many values were NULL
//! or no number.
//! Invariants: every row has as many fields as there are columns; no two samples of a run are of the same series.
//! Limits: [`COLUMNS_MAX`], [`ROWS_MAX`], [`BYTES_MAX`] of a result, [`VALUES_MAX`] of a run, [`LABEL_BYTES_MAX`].
//! Failure: a result beyond a limit ends the run, and nothing of it is stored.

use std::collections::BTreeSet;

use super::query::Query;
use super::run::{Failure, LABEL_BYTES_MAX, Reason, Run, cut};

/// 100 columns: `SHOW REPLICA STATUS` has some 60.
pub(super) const COLUMNS_MAX: usize = 100;
/// 1,000 rows; `SHOW GLOBAL STATUS` has some 600.
pub(super) const ROWS_MAX: usize = 1_000;
/// 1 MiB of a result, as of the body of a page; 128 checks hold 128 MiB at most.
const BYTES_MAX: usize = 1 << 20;
/// 5,000 numbers of a run: 1,000 rows of five columns.
const VALUES_MAX: usize = 5_000;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Number,
    /// `t` or `f`.
    Truth,
    Text,
    /// Times, JSON, bytes and the like: left out unless the query names the column.
    Other,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: ColumnKind,
}

/// A row: a text for each column, None where it is NULL.
pub(super) type Row = Vec<Option<String>>;

/// A result.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
    bytes: usize,
}

impl Table {
    pub(super) fn new(columns: Vec<Column>) -> Result<Self, Failure> {
        if columns.len() > COLUMNS_MAX {
            return Err(limit(format!("the result has {} columns, above {COLUMNS_MAX}", columns.len())));
        }
        Ok(Self { columns, rows: Vec::new(), bytes: 0 })
    }

    pub(super) fn add(&mut self, row: Row) -> Result<(), Failure> {
        if row.len() != self.columns.len() {
            let sentence = format!("a row has {} fields in {} columns", row.len(), self.columns.len());
            return Err(Failure::new(Reason::Protocol, sentence));
        }
        if self.rows.len() == ROWS_MAX {
            return Err(limit(format!("the result has more than {ROWS_MAX} rows; ask for fewer, with LIMIT or WHERE")));
        }
        self.bytes += row.iter().flatten().map(String::len).sum::<usize>();
        if self.bytes > BYTES_MAX {
            return Err(limit(format!("the result has more than {BYTES_MAX} bytes")));
        }
        self.rows.push(row);
        Ok(())
    }
}

fn limit(sentence: String) -> Failure {
    Failure::new(Reason::Limit, sentence)
}

/// A column that is a value or a label, with the name of the metric or of the label.
#[derive(Debug, PartialEq, Eq)]
struct Role {
    at: usize,
    name: String,
}

/// What each column is for a query.
#[derive(Debug, PartialEq, Eq)]
struct Roles {
    values: Vec<Role>,
    labels: Vec<Role>,
}

impl Roles {
    fn new(columns: &[Column], query: &Query) -> Result<Self, String> {
        let is_in = |list: &Option<Vec<String>>, name: &str| {
            list.as_ref().map(|list| list.iter().any(|listed| listed.eq_ignore_ascii_case(name)))
        };
        for wanted in [&query.value_columns, &query.label_columns].into_iter().flatten().flatten() {
            if !columns.iter().any(|column| column.name.eq_ignore_ascii_case(wanted)) {
                let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
                return Err(format!("the result has no column {wanted:?}; it has {}", names.join(", ")));
            }
        }
        let (mut values, mut labels) = (Vec::new(), Vec::new());
        for (at, column) in columns.iter().enumerate() {
            let is_value = is_in(&query.value_columns, &column.name);
            let is_label = is_in(&query.label_columns, &column.name);
            let is_number = matches!(column.kind, ColumnKind::Number | ColumnKind::Truth);
            let role = Role { at, name: word(&column.name) };
            if is_value.unwrap_or(is_number && is_label != Some(true)) {
                values.push(role);
            } else if is_label.unwrap_or(column.kind == ColumnKind::Text) {
                labels.push(role);
            }
        }
        if values.is_empty() {
            return Err("no column of the result is a number; name those that hold some in value_columns".into());
        }
        distinct(&values)?;
        distinct(&labels)?;
        if let Some(taken) = labels.iter().find(|label| query.taken.contains(&label.name)) {
            return Err(format!(
                "the column {:?} would be a label that is there already; rename it with AS",
                taken.name
            ));
        }
        let is_single = values.len() == 1;
        for value in &mut values {
            value.name = if is_single { query.metric.clone() } else { format!("{}_{}", query.metric, value.name) };
        }
        Ok(Self { values, labels })
    }
}

/// Whether no two columns have the same name.
fn distinct(roles: &[Role]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    match roles.iter().find(|role| !seen.insert(role.name.as_str())) {
        Some(twice) => Err(format!("two columns are named {:?}; rename one with AS", twice.name)),
        None => Ok(()),
    }
}

/// The name of a column as a part of a metric's name, and as a label's.
pub(super) fn word(column: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' };
    let word: String = column.chars().map(letter).collect();
    if word.starts_with(|first: char| first.is_ascii_digit()) || word.is_empty() { format!("_{word}") } else { word }
}

/// A number as databases write it; neither infinite nor NaN.
fn number(text: &str, kind: ColumnKind) -> Option<f64> {
    match (kind, text) {
        (ColumnKind::Truth, "t") => Some(1.0),
        (ColumnKind::Truth, "f") => Some(0.0),
        _ => text.trim().parse().ok().filter(|value: &f64| value.is_finite()),
    }
}

/// The series that a run has reported, each as it is shown.
#[derive(Default)]
pub(super) struct Reported(BTreeSet<String>);

/// Reports the samples of a result.
pub(super) fn report(run: &mut Run, query: &Query, table: &Table, reported: &mut Reported) -> Result<(), Failure> {
    let wrong = |sentence: String| Failure::new(Reason::Content, format!("query {:?}: {sentence}", query.name));
    let roles = Roles::new(&table.columns, query).map_err(wrong)?;
    if reported.0.len() + table.rows.len() * roles.values.len() > VALUES_MAX {
        return Err(limit(format!("query {:?}: there are more than {VALUES_MAX} numbers in a run", query.name)));
    }
    let (mut skipped, mut twice) = (0_u32, None);
    for row in &table.rows {
        let labels = labels(row, &roles, query);
        for Role { at, name } in &roles.values {
            let value = row[*at].as_deref().and_then(|text| number(text, table.columns[*at].kind));
            let Some(value) = value else {
                skipped += 1;
                continue;
            };
            if !reported.0.insert(format!("{name}{labels:?}")) {
                twice.get_or_insert_with(|| format!("two rows are {name} with the labels {labels:?}"));
            } else if query.is_counter {
                run.counter(name, &query.unit, &labels, value);
            } else {
                run.labelled(name, &query.unit, &labels, value);
            }
        }
    }
    let own = [("query", query.name.as_str())];
    run.labelled("ogive_check_query_rows", "", &own, table.rows.len() as f64);
    run.labelled("ogive_check_query_skipped", "", &own, f64::from(skipped));
    twice.map_or(Ok(()), |sentence| Err(wrong(sentence)))
}

/// The labels of a row. An empty one is none.
fn labels<'a>(row: &'a [Option<String>], roles: &'a Roles, query: &'a Query) -> Vec<(&'a str, &'a str)> {
    let own = query.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let of_row = roles.labels.iter().map(|label| {
        let value = row[label.at].as_deref().unwrap_or_default();
        (label.name.as_str(), cut(value, LABEL_BYTES_MAX))
    });
    own.chain(of_row).filter(|(_, value)| !value.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use ogive_model::{Batch, Temporality, Value};
    use ogive_probe::Clock;
    use proptest::prelude::*;

    use super::*;
    use crate::config::{Config, Probe};

    fn query(keys: &str) -> Query {
        let head = "[[check]]\nname = 'a'\nkind = 'mysql'\ntarget = 'h'\nuser = 'u'\nlabels = {team = 'x'}\n";
        let text = format!("{head}[[check.query]]\nmetric = 'm'\nsql = 'x'\n{keys}\n");
        let Probe::MySql(mut database) = Config::parse(&text).unwrap().check.remove(0).ask else {
            unreachable!("it is of that kind")
        };
        database.queries.remove(0)
    }

    /// Columns as `name:kind`, the kind by its first letter.
    fn table(columns: &str, rows: &[&[&str]]) -> Table {
        let column = |text: &str| {
            let (name, kind) = text.split_once(':').unwrap();
            let kind = match kind {
                "n" => ColumnKind::Number,
                "b" => ColumnKind::Truth,
                "t" => ColumnKind::Text,
                _ => ColumnKind::Other,
            };
            Column { name: name.into(), kind }
        };
        let mut table = Table::new(columns.split(' ').map(column).collect()).unwrap();
        for row in rows {
            let field = |text: &&str| (*text != "NULL").then(|| (*text).to_owned());
            table.add(row.iter().map(field).collect()).unwrap();
        }
        table
    }

    fn batch(query: &Query, table: &Table) -> Result<Batch, Failure> {
        let mut run = Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000));
        let reported = report(&mut run, query, table, &mut Reported::default());
        reported.map(|()| run.batch(&Ok(()), &[], std::time::Duration::from_secs(60)))
    }

    /// The samples without those of the check itself.
    fn samples(keys: &str, columns: &str, rows: &[&[&str]]) -> Result<Vec<String>, String> {
        let batch = batch(&query(keys), &table(columns, rows)).map_err(|failure| failure.to_string())?;
        let shown = |sample: &Result<ogive_model::Sample, ogive_model::Reason>| {
            let sample = sample.as_ref().unwrap();
            let Value::Float(value) = sample.value else { return String::new() };
            format!("{} {value}", batch.series[sample.series as usize].as_ref().unwrap().labels)
        };
        let all = batch.samples.iter().map(shown);
        Ok(all.filter(|line| line.starts_with('m') || line.contains("_query_skipped")).collect())
    }

    const NONE_SKIPPED: &str = "ogive_check_query_skipped{query=\"m\"} 0";

    #[test]
    fn numbers_are_values_and_texts_are_labels() {
        let found = samples("", "datname:t size:n", &[&["shop", "7"], &["NULL", "2.5"]]).unwrap();
        assert_eq!(found, ["m{datname=\"shop\"} 7", "m 2.5", NONE_SKIPPED]);
        let found = samples("labels = {a = 'b'}", "x:t N:n is-it:b at:o", &[&["y", "1e3", "t", "noon"]]).unwrap();
        assert_eq!(found, ["m_n{a=\"b\", x=\"y\"} 1000", "m_is_it{a=\"b\", x=\"y\"} 1", NONE_SKIPPED]);
    }

    #[test]
    fn what_is_no_number_is_skipped_and_counted() {
        let keys = "value_columns = ['Value']";
        let rows: &[&[&str]] =
            &[&["Threads", "3"], &["Ssl", "OFF"], &["Size", "NULL"], &["Odd", "NaN"], &["Big", "inf"]];
        let found = samples(keys, "Variable_name:t Value:t", rows).unwrap();
        assert_eq!(found, ["m{variable_name=\"Threads\"} 3", "ogive_check_query_skipped{query=\"m\"} 4"]);
    }

    #[test]
    fn columns_are_what_the_query_names_them() {
        let rows: &[&[&str]] = &[&["1", "2", "x", "noon"]];
        let columns = "id:n size:n name:t at:o";
        let found = samples("label_columns = ['ID', 'at']", columns, rows).unwrap();
        assert_eq!(found, ["m{at=\"noon\", id=\"1\"} 2", NONE_SKIPPED]);
        let found = samples("value_columns = ['size']", columns, rows).unwrap();
        assert_eq!(found, ["m{name=\"x\"} 2", NONE_SKIPPED]);
    }

    #[test]
    fn counters_are_cumulative_and_others_are_gauges() {
        for (keys, temporality) in [("counter = true", Temporality::Cumulative), ("", Temporality::Gauge)] {
            let batch = batch(&query(keys), &table("n:n", &[&["1"]])).unwrap();
            let series = batch.series.iter().flatten().find(|series| series.labels.metric_name() == "m").unwrap();
            assert_eq!(series.meta.temporality, temporality);
        }
    }

    #[test]
    fn results_that_make_no_series_are_reported() {
        for (keys, columns, rows, sentence) in [
            ("", "a:t", &[][..], "no column of the result is a number"),
            ("value_columns = ['b']", "a:n", &[][..], "has no column \"b\"; it has a"),
            ("", "a:n A:n", &[][..], "two columns are named \"a\""),
            ("", "a:t a:t n:n", &[][..], "two columns are named \"a\""),
            ("", "check:t n:n", &[][..], "\"check\" would be a label that is there already"),
            ("", "team:t n:n", &[][..], "\"team\" would be a label that is there already"),
            ("", "n:n", &[&["1"][..], &["2"][..]][..], "two rows are m with the labels []"),
        ] {
            let found = samples(keys, columns, rows).unwrap_err();
            assert!(found.starts_with("content: query \"m\": ") && found.contains(sentence), "{found}");
        }
    }

    #[test]
    fn limits_hold() {
        let columns = |count: usize| {
            let of = |at: usize| Column { name: at.to_string(), kind: ColumnKind::Number };
            Table::new((0..count).map(of).collect())
        };
        assert!(columns(COLUMNS_MAX).is_ok());
        assert_eq!(columns(COLUMNS_MAX + 1).unwrap_err().reason, Reason::Limit);
        let mut rows = table("n:n", &[]);
        for _ in 0..ROWS_MAX {
            rows.add(vec![None]).unwrap();
        }
        assert_eq!(rows.add(vec![None]).unwrap_err().reason, Reason::Limit);
        let mut bytes = table("n:n", &[]);
        bytes.add(vec![Some("x".repeat(BYTES_MAX))]).unwrap();
        assert_eq!(bytes.add(vec![Some("x".into())]).unwrap_err().reason, Reason::Limit);
        assert_eq!(bytes.add(Vec::new()).unwrap_err().reason, Reason::Protocol);
        // Five columns of all rows, and one more.
        let mut many = table("l:t a:n b:n c:n d:n e:n f:n", &[]);
        for at in 0..ROWS_MAX {
            many.add(vec![Some(at.to_string()); 7]).unwrap();
        }
        assert_eq!(batch(&query(""), &many).unwrap_err().reason, Reason::Limit);
        let five = "value_columns = ['a', 'b', 'c', 'd', 'e']";
        assert!(batch(&query(five), &many).is_ok());
        let long = "\u{e4}".repeat(LABEL_BYTES_MAX);
        let found = samples("", "l:t n:n", &[&[long.as_str(), "1"]]).unwrap();
        assert_eq!(found[0].matches('\u{e4}').count(), LABEL_BYTES_MAX / 2);
    }

    proptest! {
        #[test]
        fn names_of_columns_become_names(column in ".*") {
            let word = word(&column);
            prop_assert!(word.starts_with(|first: char| first == '_' || first.is_ascii_lowercase()), "{}", word);
            prop_assert!(word.chars().all(|letter| letter == '_' || letter.is_ascii_alphanumeric()), "{}", word);
        }
    }
}
