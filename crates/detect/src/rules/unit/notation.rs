//! The labels of test series as they are written; their points are in [`ogive_query::points`].

use ogive_model::{Labels, METRIC_NAME, MatchOp};
use ogive_query::ast::ExprKind;

/// The labels of a series in its written form: `up{job="a"}`, or `{}`.
pub(crate) fn labels(text: &str) -> Result<Labels, String> {
    let bare: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    if bare == "{}" {
        return Ok(Labels::empty());
    }
    let expr = ogive_query::parse(text).map_err(|error| error.to_string())?;
    let ExprKind::VectorSelector(selector) = expr.kind else { return Err(format!("{text:?} is no series")) };
    let mut pairs: Vec<(String, String)> = Vec::new();
    pairs.extend(selector.name.map(|name| (METRIC_NAME.to_owned(), name)));
    for matcher in selector.matchers {
        if matcher.op != MatchOp::Equal {
            return Err(format!("{text:?}: a series has no matcher but ="));
        }
        if !pairs.iter().any(|(name, _)| *name == matcher.name) {
            pairs.push((matcher.name.clone(), matcher.value.clone()));
        }
    }
    Labels::new(pairs).map_err(|error| error.to_string())
}
