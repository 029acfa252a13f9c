//! Numbers that a program reports about itself, on their way to the samples of a run.
//!
//! Invariants: no two numbers of a run are of the same series; none is infinite or NaN.
//! Limits: [`ANSWER_BYTES_MAX`] of an answer, [`VALUES_MAX`] numbers of a run, [`LABELS_MAX`], [`LABEL_BYTES_MAX`],
//! [`NAME_BYTES_MAX`], [`PATH_BYTES_MAX`], [`FIELDS_MAX`] parts that a check asks for.
//! Failure: beyond a limit the run fails with the reason `limit`; what was read before is stored.

use std::collections::BTreeSet;

use serde_json::Value;

use super::raw::Raw;
use super::run::{Failure, LABEL_BYTES_MAX, Reason, Run, cut};

/// 4 MiB of an answer, as of those of an SNMP agent.
pub(super) const ANSWER_BYTES_MAX: usize = 4 << 20;
/// 10,000 numbers, as of an SNMP agent: some 150 servers of HAProxy with each of their 60 columns, or 20 nodes of
/// Elasticsearch.
pub(super) const VALUES_MAX: usize = 10_000;
/// 48 labels of a number: an MBean has some five properties.
const LABELS_MAX: usize = 48;
/// 256 bytes of a metric's or a label's name; those of Elasticsearch have up to 80.
const NAME_BYTES_MAX: usize = 256;
/// 1 KiB of the names that lead to a number.
const PATH_BYTES_MAX: usize = 1 << 10;
/// 100 parts: HAProxy has some 100 columns of its own.
const FIELDS_MAX: usize = 100;

/// What a number is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Metric {
    pub(super) name: String,
    pub(super) unit: String,
    /// It counts since a start; otherwise it is a state.
    pub(super) is_counter: bool,
}

/// Takes the numbers of a run.
pub(super) struct Readings<'a> {
    run: &'a mut Run,
    /// The series that were reported, each as it is shown.
    seen: BTreeSet<String>,
    count: usize,
    twice: Option<String>,
}

impl<'a> Readings<'a> {
    pub(super) fn new(run: &'a mut Run) -> Self {
        Self { run, seen: BTreeSet::new(), count: 0, twice: None }
    }

    /// How many numbers came.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Reports a number. A label without a value is none, and what is not finite is no number.
    pub(super) fn add(&mut self, metric: &Metric, labels: &[(&str, &str)], value: f64) -> Result<(), Failure> {
        let Metric { name, unit, is_counter } = metric;
        if !value.is_finite() {
            return Ok(());
        }
        if name.len() > NAME_BYTES_MAX {
            let sentence = format!("{:?} and so on is a name of more than {NAME_BYTES_MAX} bytes", cut(name, 64));
            return Err(Failure::new(Reason::Limit, sentence));
        }
        // Nothing is built from what an answer may make as long as it likes.
        if labels.len() > LABELS_MAX || labels.iter().any(|(label, _)| label.len() > NAME_BYTES_MAX) {
            let sentence = format!(
                "{name} has more than {LABELS_MAX} labels, or one with a name of more than {NAME_BYTES_MAX} bytes"
            );
            return Err(Failure::new(Reason::Limit, sentence));
        }
        if self.count == VALUES_MAX {
            return Err(Failure::new(Reason::Limit, format!("there are more than {VALUES_MAX} numbers in a run")));
        }
        self.count += 1;
        let labels = labels.iter().map(|(name, value)| (*name, cut(value, LABEL_BYTES_MAX)));
        let labels: Vec<(&str, &str)> = labels.filter(|(_, value)| !value.is_empty()).collect();
        if !self.seen.insert(format!("{name}{labels:?}")) {
            self.twice.get_or_insert_with(|| format!("two numbers are {name} with the labels {labels:?}"));
        } else if *is_counter {
            self.run.counter(name, unit, &labels, value);
        } else {
            self.run.labelled(name, unit, &labels, value);
        }
        Ok(())
    }

    /// Whether every series had one number.
    pub(super) fn end(self) -> Result<(), Failure> {
        self.twice.map_or(Ok(()), |sentence| Err(Failure::new(Reason::Content, sentence)))
    }
}

/// A member that is a text; empty where there is none.
pub(super) fn text_of<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// An answer in JSON.
pub(super) fn json_of(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::new(Reason::Protocol, format!("the answer is no JSON: {error}")))
}

/// Calls `each` for every number in `value`, with the names that lead there behind those in `path`; booleans are 1 and
/// 0, and lists are left out. Values are not nested deeper than the reader of JSON allows, 128 levels; names that lead
/// to one are limited, since they are copied for each number.
pub(super) fn numbers<'a>(
    value: &'a Value,
    path: &mut Vec<&'a str>,
    each: &mut impl FnMut(&[&str], f64) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                path.push(name);
                if path.iter().map(|name| name.len()).sum::<usize>() > PATH_BYTES_MAX {
                    let sentence = format!("the names that lead to a number have more than {PATH_BYTES_MAX} bytes");
                    return Err(Failure::new(Reason::Limit, sentence));
                }
                numbers(value, path, each)?;
                path.pop();
            }
            Ok(())
        }
        Value::Number(number) => number.as_f64().map_or(Ok(()), |number| each(path, number)),
        Value::Bool(is_it) => each(path, f64::from(u8::from(*is_it))),
        Value::Null | Value::String(_) | Value::Array(_) => Ok(()),
    }
}

/// `ApproximateNumberOfMessages` as `approximate_number_of_messages`, `CPUUtilization` as `cpu_utilization`.
pub(super) fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (at, letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            if !out.ends_with('_') {
                out.push('_');
            }
            continue;
        }
        let before = at.checked_sub(1).map(|before| letters[before]);
        let begins = letter.is_ascii_uppercase()
            && (before.is_some_and(|before| before.is_ascii_lowercase() || before.is_ascii_digit())
                || before.is_some_and(|before| before.is_ascii_uppercase())
                    && letters.get(at + 1).is_some_and(char::is_ascii_lowercase));
        if begins && !out.ends_with('_') {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// Refuses labels of a check that its kind stores in each series.
pub(super) fn refuse_labels(raw: &Raw, own: &[&str]) -> Result<(), String> {
    match raw.labels.keys().find(|name| own.contains(&name.as_str())) {
        Some(label) => Err(format!("the label {label} is one that the kind stores")),
        None => Ok(()),
    }
}

/// The key `fields`: the parts of the statistics that are wanted; none where all are.
pub(super) fn fields(raw: &mut Raw, is_one: fn(&str) -> bool) -> Result<Vec<String>, String> {
    let Some(fields) = raw.fields.take() else { return Ok(Vec::new()) };
    if fields.is_empty() {
        return Err("fields is empty; leave it out, and all are read".into());
    }
    if fields.len() > FIELDS_MAX {
        return Err(format!("fields has {} names, above {FIELDS_MAX}", fields.len()));
    }
    match fields.iter().find(|field| field.is_empty() || !is_one(field)) {
        Some(wrong) => Err(format!("fields: {wrong:?} is no part of the statistics")),
        None => Ok(fields),
    }
}

#[cfg(test)]
mod tests {
    use ogive_probe::Clock;
    use serde_json::json;

    use super::*;

    fn metric(name: &str) -> Metric {
        Metric { name: name.into(), unit: String::new(), is_counter: false }
    }

    fn run() -> Run {
        Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000))
    }

    #[test]
    fn limits_hold() {
        let mut run = run();
        let mut readings = Readings::new(&mut run);
        for at in 0..VALUES_MAX {
            readings.add(&metric("x"), &[("at", &at.to_string())], 1.0).unwrap();
        }
        readings.add(&metric("x"), &[], f64::NAN).unwrap();
        assert_eq!(readings.count(), VALUES_MAX);
        assert_eq!(readings.add(&metric("x"), &[], 1.0).unwrap_err().reason, Reason::Limit);
        let mut readings = Readings::new(&mut run);
        let names: Vec<String> = (0..=LABELS_MAX).map(|at| format!("l{at}")).collect();
        let labels: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
        readings.add(&metric("x"), &labels[1..], 1.0).unwrap();
        assert_eq!(readings.add(&metric("x"), &labels, 1.0).unwrap_err().reason, Reason::Limit);
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(readings.add(&metric("x"), &[(&long, "v")], 1.0).unwrap_err().reason, Reason::Limit);
        let mut readings = Readings::new(&mut run);
        readings.add(&metric(&"x".repeat(NAME_BYTES_MAX)), &[], 1.0).unwrap();
        assert_eq!(readings.add(&metric(&"x".repeat(NAME_BYTES_MAX + 1)), &[], 1.0).unwrap_err().reason, Reason::Limit);
    }

    #[test]
    fn a_series_has_one_number() {
        let mut run = run();
        let mut readings = Readings::new(&mut run);
        let long = "y".repeat(LABEL_BYTES_MAX);
        readings.add(&metric("x"), &[("a", &long), ("b", "")], 1.0).unwrap();
        readings.add(&metric("x"), &[("a", "z")], 1.0).unwrap();
        // It is cut to the same label.
        readings.add(&metric("x"), &[("a", &format!("{long}z"))], 2.0).unwrap();
        let failure = readings.end().unwrap_err();
        assert!(
            failure.reason == Reason::Content && failure.sentence.starts_with("two numbers are x with"),
            "{failure}"
        );
    }

    #[test]
    fn names_become_snakes() {
        for (name, snaked) in [
            ("CPUUtilization", "cpu_utilization"),
            ("ApproximateNumberOfMessagesVisible", "approximate_number_of_messages_visible"),
            ("HTTPCode_Target_5XX_Count", "http_code_target_5_xx_count"),
            ("my/space", "my_space"),
            ("bytes read into cache", "bytes_read_into_cache"),
        ] {
            assert_eq!(snake(name), snaked);
        }
    }

    #[test]
    fn numbers_have_paths() {
        let value = json!({"a": {"b": 1, "c": true, "d": "7", "e": [1, 2]}, "f": -2.5, "g": null});
        let mut found = Vec::new();
        let mut each = |path: &[&str], number: f64| {
            found.push((path.join("."), number));
            Ok(())
        };
        numbers(&value, &mut Vec::new(), &mut each).unwrap();
        assert_eq!(found, [("a.b", 1.0), ("a.c", 1.0), ("f", -2.5)].map(|(path, value)| (path.to_owned(), value)));
        let long = json!({"a".repeat(PATH_BYTES_MAX): {"b": 1}});
        let failure = numbers(&long, &mut Vec::new(), &mut |_: &[&str], _| Ok(())).unwrap_err();
        assert_eq!(failure.reason, Reason::Limit);
    }
}
