//! Which series of slow traces an expression means, and which histograms they explain.
//!
//! Invariants: the series are those that have a text in the range; a histogram leads to the texts with its labels
//! ([`trace_series`]).

use std::collections::{BTreeMap, BTreeSet};

use ogive_export::trace_series;
use ogive_model::{Kind, Labels, METRIC_NAME, MatchOp, Matcher, TimeRange};
use ogive_query::ast::{Expr, ExprKind};

use super::super::ask::Cancel;
use super::super::error::ApiError;
use super::super::texts::{matcher, named};
use ogive_door::backend::Reader;

/// The matchers of every selector in an expression, so that what is drawn can be explained from the query itself.
pub(crate) fn selectors(text: &str) -> Result<Vec<Vec<Matcher>>, ApiError> {
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

/// The series of texts for `range`: those that are selected, and those that explain selected histograms. Without
/// selectors, all with the name of slow traces.
pub(super) fn wanted(
    cancel: &Cancel,
    store: &dyn Reader,
    selectors: &[Vec<Matcher>],
    range: TimeRange,
) -> Result<BTreeSet<Labels>, ApiError> {
    let of_name = [matcher(METRIC_NAME, MatchOp::Regex, &format!(".+{}", trace_series::SLOW))?];
    let slow = named(cancel, store, &of_name, range, |series| series.meta.kind == Kind::Text)?;
    let slow: BTreeSet<Labels> = slow.into_iter().map(|series| series.labels).collect();
    if selectors.is_empty() {
        return Ok(slow);
    }
    let mut out = BTreeSet::new();
    for matchers in selectors {
        for series in named(cancel, store, matchers, range, |_| true)? {
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

/// The histogram that each of these series of slow traces explains, if it has a cell in the range.
pub(super) fn explained(
    cancel: &Cancel,
    store: &dyn Reader,
    slow: &BTreeSet<Labels>,
    range: TimeRange,
) -> Result<BTreeMap<Labels, Labels>, ApiError> {
    let mut out = BTreeMap::new();
    let names: BTreeSet<&str> = slow.iter().map(Labels::metric_name).collect();
    for name in names {
        for metric in trace_series::metric_names(name).into_iter().flatten() {
            let of_name = [matcher(METRIC_NAME, MatchOp::Equal, &metric)?];
            let found = named(cancel, store, &of_name, range, |series| series.meta.kind == Kind::Histogram)?;
            let found: BTreeSet<Labels> = found.into_iter().map(|series| series.labels).collect();
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
}
