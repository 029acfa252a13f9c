//! Files of unit tests.

use std::collections::BTreeMap;

use ogive_model::WallMs;
use serde::{Deserialize, Deserializer, de::Error};

use crate::rules::duration::parse_ms;
use crate::rules::yaml::{FileError, first_document};

/// A file of unit tests.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestFile {
    /// Patterns of rule files, relative to the file's folder.
    #[serde(default, deserialize_with = "list")]
    pub rule_files: Vec<String>,
    #[serde(default, deserialize_with = "duration")]
    pub(crate) evaluation_interval: i64,
    #[serde(default, deserialize_with = "list")]
    pub(crate) group_eval_order: Vec<String>,
    #[serde(default, deserialize_with = "list")]
    pub(crate) tests: Vec<TestGroup>,
    #[serde(default)]
    pub(crate) fuzzy_compare: bool,
}

/// Series, and the expected results of rules and expressions over them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestGroup {
    #[serde(default, deserialize_with = "duration")]
    pub(crate) interval: i64,
    #[serde(default, deserialize_with = "list")]
    pub(crate) input_series: Vec<InputSeries>,
    #[serde(default, deserialize_with = "list")]
    pub(crate) alert_rule_test: Vec<AlertTest>,
    #[serde(default, deserialize_with = "list")]
    pub(crate) promql_expr_test: Vec<ExpressionTest>,
    #[serde(default, deserialize_with = "texts")]
    pub(crate) external_labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) external_url: Option<String>,
    /// Name, for messages and for choosing it.
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) start_timestamp: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputSeries {
    #[serde(default)]
    pub(crate) series: String,
    #[serde(default)]
    pub(crate) values: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AlertTest {
    #[serde(default, deserialize_with = "duration")]
    pub(crate) eval_time: i64,
    #[serde(default)]
    pub(crate) alertname: Option<String>,
    #[serde(default, deserialize_with = "list")]
    pub(crate) exp_alerts: Vec<ExpectedAlert>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedAlert {
    #[serde(default, deserialize_with = "texts")]
    pub(crate) exp_labels: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "texts")]
    pub(crate) exp_annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpressionTest {
    #[serde(default)]
    pub(crate) expr: String,
    #[serde(default, deserialize_with = "duration")]
    pub(crate) eval_time: i64,
    #[serde(default, deserialize_with = "list")]
    pub(crate) exp_samples: Vec<ExpectedSample>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedSample {
    #[serde(default)]
    pub(crate) labels: Option<String>,
    #[serde(default)]
    pub(crate) value: Option<f64>,
    #[serde(default)]
    pub(crate) histogram: Option<String>,
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    match Option::<String>::deserialize(deserializer)? {
        Some(text) if !text.is_empty() => parse_ms(&text).map_err(D::Error::custom),
        _ => Ok(0),
    }
}

fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let pairs: BTreeMap<String, Option<String>> = Option::deserialize(deserializer)?.unwrap_or_default();
    Ok(pairs.into_iter().map(|(name, value)| (name, value.unwrap_or_default())).collect())
}

impl TestFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Where and why it is not one.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let mut file: Self = first_document(text)?;
        if file.evaluation_interval == 0 {
            file.evaluation_interval = 60_000;
        }
        for test in &mut file.tests {
            if test.interval == 0 {
                test.interval = file.evaluation_interval;
            }
        }
        Ok(file)
    }

    /// Makes the first check of one test, chosen by `seed`, expect something else: if its rules are really checked, the
    /// file fails then. False when there is nothing to change.
    pub fn mutate(&mut self, seed: usize) -> bool {
        let count = self.tests.len();
        (0..count).any(|offset| self.tests[(seed + offset) % count].mutate())
    }

    /// The number of tests.
    #[must_use]
    pub fn count(&self) -> usize {
        self.tests.len()
    }
}

impl TestGroup {
    fn mutate(&mut self) -> bool {
        if let Some(case) = self.alert_rule_test.first_mut() {
            match case.exp_alerts.first_mut() {
                Some(alert) => drop(alert.exp_labels.insert("mutated".to_owned(), "yes".to_owned())),
                None => {
                    case.exp_alerts
                        .push(ExpectedAlert { exp_labels: BTreeMap::new(), exp_annotations: BTreeMap::new() });
                }
            }
            return true;
        }
        let Some(case) = self.promql_expr_test.first_mut() else { return false };
        match case.exp_samples.first_mut() {
            Some(sample) => sample.value = Some(sample.value.unwrap_or(0.0) + 1.0),
            None => case.exp_samples.push(ExpectedSample { labels: None, value: Some(1.0), histogram: None }),
        }
        true
    }

    /// The last time that the test evaluates, milliseconds after its start.
    pub(crate) fn end_ms(&self) -> i64 {
        let alerts = self.alert_rule_test.iter().map(|test| test.eval_time);
        alerts.chain(self.promql_expr_test.iter().map(|test| test.eval_time)).max().unwrap_or(0)
    }

    /// When it starts: seconds since 1970, or a time as in RFC 3339 in UTC.
    pub(crate) fn start(&self) -> Result<WallMs, String> {
        let Some(text) = self.start_timestamp.as_deref().filter(|text| !text.is_empty()) else {
            return Ok(WallMs(0));
        };
        if let Ok(seconds) = text.parse::<f64>() {
            // Beyond this no query is possible.
            return if seconds.abs() < 1e12 {
                Ok(WallMs((seconds * 1000.0) as i64))
            } else {
                Err(format!("start_timestamp {text} is too far"))
            };
        }
        rfc3339_ms(text)
            .map(WallMs)
            .ok_or_else(|| format!("start_timestamp: {text:?} is neither seconds nor a time like 2006-01-02T15:04:05Z"))
    }
}

/// Milliseconds of `2006-01-02T15:04:05.123Z`, or with an offset such as `+02:00`.
fn rfc3339_ms(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let separators = [4, 7, 10, 13, 16].map(|at| text.as_bytes().get(at).copied().unwrap_or(0));
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    if !in_range || !matches!(separators, [b'-', b'-', b'T' | b't' | b' ', b':', b':']) {
        return None;
    }
    let rest = text.get(19..)?;
    let digits = rest
        .strip_prefix('.')
        .map_or(0, |rest| rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len());
    let fraction = if digits > 0 { rest.get(..=digits)?.parse::<f64>().ok()? } else { 0.0 };
    let zone = rest.get(if digits > 0 { digits + 1 } else { 0 }..)?;
    let offset_minutes = match zone.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let minutes = zone.get(1..3)?.parse::<i64>().ok()? * 60 + zone.get(4..6)?.parse::<i64>().ok()?;
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    // Days of a civil date (Howard Hinnant, "chrono-compatible low-level date algorithms").
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let seconds = days * 86_400 + hour * 3600 + (minute - offset_minutes) * 60 + second;
    Some(seconds * 1000 + (fraction * 1000.0).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(rfc3339_ms("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(rfc3339_ms("2022-01-25T12:36:43.12Z"), Some(1_643_114_203_120));
        assert_eq!(rfc3339_ms("2022-01-25T13:36:43+01:00"), Some(1_643_114_203_000));
        for bad in
            ["", "2022", "2022-13-01T00:00:00Z", "2022-01-01T00:00:00", "2022-01-01T00:00:00.Z", "ä022-01-01T00:00:00Z"]
        {
            assert_eq!(rfc3339_ms(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_bad_file_names_its_place() {
        let error = TestFile::parse("rule_files: [a]\ntests:\n- interval: 1m\n  foo: 3\n").unwrap_err();
        assert!(error.to_string().starts_with("4:3: unknown key foo"), "{error}");
        assert!(TestFile::parse("tests: 3").is_err());
        assert!(TestFile::parse("tests: [{interval: 1}]").is_err());
        assert_eq!(TestFile::parse("").unwrap().count(), 0);
    }
}
