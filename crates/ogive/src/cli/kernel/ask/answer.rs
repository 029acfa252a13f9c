//! The answer to a question, as a table and as JSON.

use ogive_kernel::ask::{Compiled, Group, Key, Losses, Verb};
use serde_json::{Value, json};

use super::super::key_texts::{key_texts, lost};
use crate::cli::format::{human, thousands};

/// A value as people read it.
fn shown(value: Option<f64>, is_duration: bool) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if is_duration => human(value, "s"),
        Some(value) => human(value, ""),
    }
}

/// The sum of a group's values: seconds of a duration.
fn sum(group: &Group, is_duration: bool) -> f64 {
    if is_duration { group.sum as f64 / 1e9 } else { group.sum as f64 }
}

pub(super) fn print(question: &Compiled, groups: &[Group], losses: &Losses) {
    let mut rows = vec![question.keys.iter().map(|(text, _)| text.clone()).collect::<Vec<_>>()];
    let columns: &[&str] = match question.verb {
        Verb::Count => &["count"],
        Verb::Sum => &["count", "sum"],
        Verb::Histogram => &["count", "p50", "p90", "p99", "max"],
    };
    rows[0].extend(columns.iter().map(|column| (*column).to_owned()));
    for group in groups {
        let mut row = key_texts(question, group);
        row.push(thousands(group.count));
        if question.verb == Verb::Sum {
            row.push(shown(Some(sum(group, question.is_duration)), question.is_duration));
        }
        if let Some(values) = &group.values {
            let at = |q| values.quantile(q).map(|found| found.value);
            row.extend([0.5, 0.9, 0.99, 1.0].map(|q| shown(at(q), question.is_duration)));
        }
        rows.push(row);
    }
    let keys = question.keys.len();
    let widths: Vec<usize> =
        (0..rows[0].len()).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    for row in &rows {
        // Texts begin below each other, numbers end there.
        let cell = |(at, text): (usize, &String)| {
            let width = widths[at];
            if at < keys { format!("{text:<width$}") } else { format!("{text:>width$}") }
        };
        println!("{}", row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ").trim_end());
    }
    if groups.is_empty() {
        println!("no events");
    }
    for (name, count) in lost(losses).into_iter().filter(|(_, count)| *count > 0) {
        eprintln!("not counted, {name}: {}", thousands(count));
    }
}

pub(super) fn json(text: &str, question: &Compiled, seconds: f64, groups: &[Group], losses: &Losses) -> Value {
    let group = |group: &Group| {
        let keys = question.keys.iter().zip(key_texts(question, group));
        let key: serde_json::Map<_, _> = match &group.key {
            None => keys.map(|((text, _), value)| (text.clone(), json!(value))).collect(),
            Some(values) => {
                let value = |key: &Key| match key {
                    Key::Number(number) => json!(number),
                    Key::Text(text) => json!(text),
                };
                keys.zip(values).map(|(((text, _), _), key)| (text.clone(), value(key))).collect()
            }
        };
        let mut object = json!({ "key": key, "other": group.key.is_none(), "count": group.count });
        if question.verb != Verb::Count {
            object["sum"] = json!(sum(group, question.is_duration));
        }
        if let Some(values) = &group.values {
            let at = |q| values.quantile(q).map(|found| found.value);
            for (name, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
                object[name] = json!(at(q));
            }
            let bins = values.buckets().map(|bucket| json!([bucket.lo, bucket.hi, bucket.count]));
            object["bins"] = bins.collect();
        }
        object
    };
    let lost: serde_json::Map<_, _> =
        lost(losses).into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect();
    json!({
        "question": text, "seconds": seconds, "unit": if question.is_duration { "s" } else { "" },
        "groups": groups.iter().map(group).collect::<Vec<_>>(), "lost": lost,
    })
}
