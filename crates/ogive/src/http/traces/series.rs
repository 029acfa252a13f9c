//! Which series of slow traces an expression means, and which histograms they explain.
//!
//! Invariants: the series are those that have a text in the range; a histogram leads to the texts with its labels
//! ([`trace_series`]).

use std::collections::{BTreeMap, BTreeSet};

use ogive_export::trace_series;
use ogive_model::{Kind, Labels, METRIC_NAME, MatchOp, Matcher, SeriesDef, TimeRange};
use ogive_query::ast::{Expr, ExprKind};

use super::super::ask::Cancel;
use super::super::error::ApiError;
use crate::backend::Reader;

/// The matchers of every selector in an expression: so that what is drawn can be explained as it was asked for.
pub(in crate::http) fn selectors(text: &str) -> Result<Vec<Vec<Matcher>>, ApiError> {
    let expr = ogive_query::parse(text)
        .map_err(|error| ApiError::bad_data(format!("invalid parameter \"query\": {error}")))?;
    let found: Vec<Vec<Matcher>> = expr.nodes().filter_map(matchers_of).collect();
    if found.is_empty() {
        return Err(ApiError::bad_data(
            "invalid parameter \"query\": it selects no series; give such as order_path_seconds{stage=\"total\"}",
        ));
    }
    Ok(found)
}

fn matchers_of(node: &Expr) -> Option<Vec<Matcher>> {
    match &node.kind {
        ExprKind::VectorSelector(selector) => Some(selector.matchers.clone()),
        ExprKind::MatrixSelector(matrix) => Some(matrix.selector.matchers.clone()),
        _ => None,
    }
}

fn matcher(name: &str, op: MatchOp, value: &str) -> Result<Matcher, ApiError> {
    let wide = |error| ApiError::execution(format!("too many series at once ({error}); narrow the query"));
    Matcher::new(name, op, value).map_err(wide)
}

/// What the series are; charged for as long as the answer lives.
fn named(
    (cancel, store): (&Cancel, &dyn Reader),
    matchers: &[Matcher],
    range: TimeRange,
) -> Result<Vec<SeriesDef>, ApiError> {
    let mut found = Vec::new();
    cancel.each_definition(store, (matchers, range), |series| {
        cancel.hold(size_of::<SeriesDef>() + series.labels.memory_bytes())?;
        found.push(series);
        Ok(())
    })?;
    Ok(found)
}

/// The series of texts that are wanted in `range`: those that are selected, and those that explain selected histograms.
/// Without selectors all that are called as slow traces are.
pub(super) fn wanted(
    (cancel, store): (&Cancel, &dyn Reader),
    selectors: &[Vec<Matcher>],
    range: TimeRange,
) -> Result<BTreeSet<Labels>, ApiError> {
    let slow =
        named((cancel, store), &[matcher(METRIC_NAME, MatchOp::Regex, &format!(".+{}", trace_series::SLOW))?], range)?;
    let slow = slow.into_iter().filter(|series| series.meta.kind == Kind::Text).map(|series| series.labels);
    let slow: BTreeSet<Labels> = slow.collect();
    if selectors.is_empty() {
        return Ok(slow);
    }
    let mut out = BTreeSet::new();
    for matchers in selectors {
        for series in named((cancel, store), matchers, range)? {
            match series.meta.kind {
                Kind::Text => {
                    out.insert(series.labels);
                }
                Kind::Histogram => {
                    out.extend(
                        trace_series::slow_labels(&series.labels).into_iter().filter(|labels| slow.contains(labels)),
                    );
                }
                Kind::Float => {}
            }
        }
    }
    Ok(out)
}

/// Matchers that select at least these series.
pub(super) fn matchers(series: &BTreeSet<Labels>) -> Result<Vec<Matcher>, ApiError> {
    if let (Some(one), 1) = (series.first(), series.len()) {
        return one.iter().map(|(name, value)| matcher(name, MatchOp::Equal, value)).collect();
    }
    let names: BTreeSet<&str> = series.iter().map(Labels::metric_name).collect();
    let escaped: Vec<String> = names.into_iter().map(escape).collect();
    Ok(vec![matcher(METRIC_NAME, MatchOp::Regex, &escaped.join("|"))?])
}

/// A text as a regular expression that matches it alone.
fn escape(text: &str) -> String {
    let special = |c: char| c.is_ascii_punctuation() && c != '_';
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// The histogram that each of these series of slow traces explains, if it has a cell in the range.
pub(super) fn explained(
    (cancel, store): (&Cancel, &dyn Reader),
    slow: &BTreeSet<Labels>,
    range: TimeRange,
) -> Result<BTreeMap<Labels, Labels>, ApiError> {
    let mut out = BTreeMap::new();
    let names: BTreeSet<&str> = slow.iter().map(Labels::metric_name).collect();
    for name in names {
        for metric in trace_series::metric_names(name).into_iter().flatten() {
            let found = named((cancel, store), &[matcher(METRIC_NAME, MatchOp::Equal, &metric)?], range)?;
            let found = found.into_iter().filter(|series| series.meta.kind == Kind::Histogram);
            let found: BTreeSet<Labels> = found.map(|series| series.labels).collect();
            for labels in slow.iter().filter(|labels| labels.metric_name() == name) {
                let histogram = trace_series::histogram_labels(labels, &metric);
                if found.contains(&histogram) {
                    out.entry(labels.clone()).or_insert(histogram);
                }
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_selector_of_an_expression_counts() {
        let check = |text: &str, expected: &[&str]| {
            let found = selectors(text).unwrap();
            let names: Vec<&str> = found.iter().map(|matchers| &*matchers.last().unwrap().value).collect();
            assert_eq!(names, expected, "{text}");
        };
        check("a_seconds{stage=\"total\"}", &["a_seconds"]);
        check("sum(increase(a_seconds[1m]))", &["a_seconds"]);
        check("histogram_quantile(0.9, a_seconds) > on(x) b", &["a_seconds", "b"]);
        for (text, word) in [("1 + 1", "selects no series"), ("sum(", "parse error")] {
            assert!(selectors(text).unwrap_err().message.contains(word), "{text}");
        }
    }

    #[test]
    fn many_names_are_one_pattern_that_matches_them_alone() {
        let labels = |name: &str| Labels::new([("__name__", name), ("a", "b")]).unwrap();
        let series: BTreeSet<Labels> = ["x_slow", "y.z|w_slow", "ü_slow"].into_iter().map(labels).collect();
        let matchers = matchers(&series).unwrap();
        let accepts = |name: &str| matchers.iter().all(|matcher| matcher.matches(name));
        assert!(series.iter().all(|labels| accepts(labels.metric_name())));
        assert!(!accepts("z_slow") && !accepts("w_slow") && !accepts("yyz|w_slow"));
    }
}
