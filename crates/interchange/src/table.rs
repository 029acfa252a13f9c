//! What the columns of a table mean.
//!
//! Two shapes: each column of numbers is a metric of its own (wide), or a column has the metric's name and another the
//! value (long).

use std::collections::BTreeMap;

use ogive_model::{Kind, METRIC_NAME, SeriesDef};
use ogive_protocol::untyped;

/// Columns for the time, when none is named.
const TIMES: [&str; 7] = ["time", "timestamp", "ts", "_time", "datetime", "date", "@timestamp"];
/// Columns for the metric's name, beside one called `value`.
const NAMES: [&str; 4] = ["__name__", "metric", "name", "_measurement"];

/// The user's description of a table.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The column with the time.
    pub time: Option<String>,
    /// The unit of numeric times.
    pub time_unit: TimeUnit,
    /// Columns that are labels.
    pub labels: Vec<String>,
    /// Columns with values; all others when empty.
    pub values: Vec<String>,
    /// The metric's name for a single column of values, otherwise a prefix for each.
    pub metric: String,
    /// Labels of every series.
    pub more: Vec<(String, String)>,
}

/// The unit of numbers since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUnit {
    /// By its size: below 10^11 seconds, below 10^14 milliseconds, below 10^17 microseconds, else nanoseconds.
    #[default]
    BySize,
    /// Seconds, perhaps with a fraction.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

impl TimeUnit {
    /// Nanoseconds of a time as text: a number, or a date of RFC 3339.
    #[must_use]
    pub fn parse(self, text: &str) -> Option<i64> {
        let text = text.trim();
        if let Ok(whole) = text.parse::<i64>() {
            return self.whole(whole);
        }
        if let Ok(number) = text.parse::<f64>() {
            return self.number(number);
        }
        ogive_text::calendar::rfc3339_ns(text)
    }

    /// Nanoseconds of an integer.
    #[must_use]
    pub fn whole(self, number: i64) -> Option<i64> {
        number.checked_mul(self.nanoseconds(number.unsigned_abs() as f64))
    }

    /// Nanoseconds of any number, to the microsecond.
    #[must_use]
    pub fn number(self, number: f64) -> Option<i64> {
        let microseconds = (number * (self.nanoseconds(number.abs()) as f64 / 1e3)).round();
        // Below 2^53 the conversion is exact.
        (microseconds.abs() < 9e15).then(|| microseconds as i64 * 1_000)
    }

    fn nanoseconds(self, size: f64) -> i64 {
        match self {
            Self::Seconds => 1_000_000_000,
            Self::Milliseconds => 1_000_000,
            Self::Microseconds => 1_000,
            Self::Nanoseconds => 1,
            Self::BySize if size < 1e11 => 1_000_000_000,
            Self::BySize if size < 1e14 => 1_000_000,
            Self::BySize if size < 1e17 => 1_000,
            Self::BySize => 1,
        }
    }
}

/// The meaning of each column, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The time.
    pub time: usize,
    /// The metric's name, in the long shape.
    pub name: Option<usize>,
    /// Labels: the column and the label's name.
    pub labels: Vec<(usize, String)>,
    /// Values: the column and its metric, empty in the long shape.
    pub values: Vec<(usize, String)>,
}

impl Plan {
    /// The plan for a table whose columns have these names; `is_text` says which are texts, where the table itself
    /// knows.
    ///
    /// # Errors
    /// A sentence, with the existing columns.
    pub fn new(columns: &[&str], is_text: &dyn Fn(usize) -> bool, options: &Options) -> Result<Self, String> {
        let wrong = |what: String| Err(format!("{what}; the columns are {}", columns.join(", ")));
        let find = |name: &str| columns.iter().position(|column| *column == name);
        let first = |names: &[&str]| {
            names.iter().find_map(|name| columns.iter().position(|column| column.eq_ignore_ascii_case(name)))
        };
        let time = match &options.time {
            Some(name) => find(name),
            None => first(&TIMES),
        };
        let Some(time) = time else { return wrong("no column holds the time: name it with --time".into()) };
        let mut labels = Vec::new();
        for name in &options.labels {
            match find(name) {
                Some(at) => labels.push((at, name.clone())),
                None => return wrong(format!("no column is called {name:?}")),
            }
        }
        let is_taken =
            |at: usize, labels: &[(usize, String)]| at == time || labels.iter().any(|(label, _)| *label == at);
        let value = find("value").filter(|_| options.values.is_empty());
        if let (Some(value), Some(name)) = (value, first(&NAMES)) {
            let rest = (0..columns.len()).filter(|at| ![time, value, name].contains(at));
            let labels = rest.filter(|at| options.labels.is_empty() || is_taken(*at, &labels));
            let labels = labels.map(|at| (at, columns[at].to_owned())).collect();
            return Ok(Self { time, name: Some(name), labels, values: vec![(value, String::new())] });
        }
        if options.labels.is_empty() {
            let texts = (0..columns.len()).filter(|at| *at != time && is_text(*at));
            labels.extend(texts.map(|at| (at, columns[at].to_owned())));
        }
        let mut values: Vec<usize> = Vec::new();
        for name in &options.values {
            match find(name) {
                Some(at) => values.push(at),
                None => return wrong(format!("no column is called {name:?}")),
            }
        }
        if options.values.is_empty() {
            values.extend((0..columns.len()).filter(|at| !is_taken(*at, &labels)));
        }
        if values.is_empty() {
            return wrong("no column is left for values".into());
        }
        let is_single = values.len() == 1;
        let metric = |at: &usize| match &*options.metric {
            "" => columns[*at].to_owned(),
            metric if is_single => metric.to_owned(),
            metric => format!("{metric}_{}", columns[*at]),
        };
        let values = values.iter().map(|at| (*at, metric(at))).collect();
        Ok(Self { time, name: None, labels, values })
    }
}

/// A series of numbers of a table.
///
/// # Errors
/// A sentence.
pub fn series(metric: &str, labels: &[(&str, &str)], options: &Options) -> Result<SeriesDef, String> {
    let mut all: BTreeMap<&str, &str> = options.more.iter().map(|(name, value)| (&**name, &**value)).collect();
    all.extend(labels.iter().copied());
    all.insert(METRIC_NAME, metric);
    SeriesDef::new(all, untyped(Kind::Float, metric)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_or_dates() {
        for (unit, text, ns) in [
            (TimeUnit::BySize, "1700000000", Some(1_700_000_000_000_000_000)),
            (TimeUnit::BySize, "1700000000.25", Some(1_700_000_000_250_000_000)),
            (TimeUnit::BySize, "1700000000123", Some(1_700_000_000_123_000_000)),
            (TimeUnit::BySize, "1700000000123456", Some(1_700_000_000_123_456_000)),
            (TimeUnit::BySize, "1700000000123456789", Some(1_700_000_000_123_456_789)),
            (TimeUnit::Seconds, "17", Some(17_000_000_000)),
            (TimeUnit::Milliseconds, "17", Some(17_000_000)),
            (TimeUnit::Nanoseconds, "17", Some(17)),
            (TimeUnit::BySize, "2023-11-14T22:13:20Z", Some(1_700_000_000_000_000_000)),
            (TimeUnit::Seconds, "99999999999999", None),
            (TimeUnit::BySize, "1e300", None),
            (TimeUnit::BySize, "yesterday", None),
        ] {
            assert_eq!(unit.parse(text), ns, "{text}");
        }
    }

    #[test]
    fn columns_have_their_meaning() {
        let check = |columns: &[&str], options: &Options| {
            Plan::new(columns, &|_| false, options).map(|plan| {
                let labels: Vec<_> = plan.labels.iter().map(|label| &*label.1).collect();
                let values: Vec<_> = plan.values.iter().map(|value| &*value.1).collect();
                format!("{} {:?} {} | {}", plan.time, plan.name, labels.join(","), values.join(","))
            })
        };
        let with = |labels: &[&str], metric: &str| Options {
            labels: labels.iter().map(ToString::to_string).collect(),
            metric: metric.into(),
            ..Options::default()
        };
        let wide = ["host", "Time", "cpu", "load"];
        assert_eq!(check(&wide, &with(&["host"], "")).unwrap(), "1 None host | cpu,load");
        assert_eq!(check(&wide, &with(&["host"], "node")).unwrap(), "1 None host | node_cpu,node_load");
        assert_eq!(check(&["time", "v"], &with(&[], "node")).unwrap(), "0 None  | node");
        let long = ["metric", "value", "time", "host", "zone"];
        assert_eq!(check(&long, &with(&[], "")).unwrap(), "2 Some(0) host,zone | ");
        assert_eq!(check(&long, &with(&["zone"], "")).unwrap(), "2 Some(0) zone | ");
        assert!(check(&["a", "b"], &with(&[], "")).unwrap_err().contains("--time"));
        assert!(check(&["time", "b"], &with(&["c"], "")).unwrap_err().contains("the columns are time, b"));
        assert!(check(&["time"], &with(&[], "")).unwrap_err().contains("no column is left"));
    }
}
