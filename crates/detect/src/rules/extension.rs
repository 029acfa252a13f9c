//! What a rule asks for beyond Prometheus, in annotations that other programs pass on as texts.
//!
//! - `ogive_clear: EXPR`: a firing alert ends only when this expression gives an element of its labels.
//! - `ogive_count: EXPR` and `ogive_min_count: NUMBER`: an element counts only when this expression gives at least the
//!   number for its labels.
//! - `ogive_no_data: resolve|keep|ok|alert`: what becomes of an alert whose element is gone because its data is, and
//!   not because its condition is false. `ogive_data: EXPR` says what its data is; otherwise it is what the condition
//!   compares.

use std::collections::BTreeMap;

use ogive_model::{Labels, METRIC_NAME};
use ogive_query::ast::{BinaryOp, Expr, ExprKind};
use ogive_query::value::{InstantSample, Point};

/// What happens to an alert whose data is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoData {
    /// As when its condition is false: it ends, after `keep_firing_for`.
    #[default]
    Resolve,
    /// It keeps its state.
    Keep,
    /// It ends at once, whatever `keep_firing_for` and `ogive_clear` say.
    Ok,
    /// It fires, and elements that had data before and have none any more begin to alert, after `for`.
    Alert,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extension {
    /// An expression in canonical form.
    pub clear: Option<String>,
    /// How many an element must have at least, and the expression that counts them.
    pub count: Option<(f64, String)>,
    /// What happens to alerts without data.
    pub no_data: NoData,
    /// The expression for the data, when `no_data` needs it.
    pub data: Option<String>,
}

impl Extension {
    /// The extension in the annotations of a rule with the expression `expr`; None when they contain none.
    ///
    /// # Errors
    /// The annotation, and what is wrong with it.
    pub(crate) fn parse(
        annotations: &BTreeMap<String, String>,
        expr: &str,
    ) -> Result<Option<Box<Self>>, (String, String)> {
        let known = ["ogive_clear", "ogive_count", "ogive_data", "ogive_min_count", "ogive_no_data"];
        if let Some(name) =
            annotations.keys().find(|name| name.starts_with("ogive_") && !known.contains(&name.as_str()))
        {
            return Err((name.clone(), format!("it is none of {}", known.join(", "))));
        }
        let text = |name: &str| annotations.get(name).map(|text| text.trim());
        let expression = |name: &str| -> Result<Option<String>, (String, String)> {
            let Some(text) = text(name) else { return Ok(None) };
            let parsed = ogive_query::parse(text);
            parsed
                .map(|expr| Some(expr.to_string()))
                .map_err(|error| (name.to_owned(), format!("could not parse expression: {error}")))
        };
        let (clear, counted, data) =
            (expression("ogive_clear")?, expression("ogive_count")?, expression("ogive_data")?);
        let least = text("ogive_min_count").map(|text| {
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
            number.ok_or_else(|| ("ogive_min_count".to_owned(), format!("{text:?} is no number above zero")))
        });
        let count = match (least.transpose()?, counted) {
            (Some(least), Some(counted)) => Some((least, counted)),
            (None, None) => None,
            (Some(_), None) => {
                return Err(("ogive_min_count".to_owned(), "it needs ogive_count, what is counted".to_owned()));
            }
            (None, Some(_)) => return Err(("ogive_count".to_owned(), "it needs ogive_min_count".to_owned())),
        };
        let no_data = match text("ogive_no_data") {
            None | Some("resolve") => NoData::Resolve,
            Some("keep") => NoData::Keep,
            Some("ok") => NoData::Ok,
            Some("alert") => NoData::Alert,
            Some(other) => {
                return Err(("ogive_no_data".to_owned(), format!("{other:?} is none of resolve, keep, ok, alert")));
            }
        };
        let data = if no_data == NoData::Resolve { None } else { Some(data.map_or_else(|| compared(expr), Ok)?) };
        let found = Self { clear, count, no_data, data };
        Ok((found != Self::default()).then(|| Box::new(found)))
    }

    /// Its expressions, in the order of their evaluation.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &str> {
        let count = self.count.as_ref().map(|(_, expr)| expr.as_str());
        self.clear.as_deref().into_iter().chain(count).chain(self.data.as_deref())
    }
}

/// The compared part of a condition.
fn compared(expr: &str) -> Result<String, (String, String)> {
    let parsed = ogive_query::parse(expr).map_err(|error| ("ogive_no_data".to_owned(), error.to_string()))?;
    compared_in(&parsed).map(ToString::to_string).ok_or_else(|| {
        let why =
            "the expression does not end in a comparison, so nobody knows what its data is; say it with ogive_data";
        ("ogive_no_data".to_owned(), why.to_owned())
    })
}

fn compared_in(expr: &Expr) -> Option<&Expr> {
    let ExprKind::Binary(binary) = &expr.unparenthesised().kind else { return None };
    let is_number = |side: &Expr| side.value_type() == ogive_query::ast::ValueType::Scalar;
    match binary.op {
        BinaryOp::And | BinaryOp::Unless => compared_in(&binary.left),
        op if op.is_comparison() => Some(if is_number(&binary.left) { &binary.right } else { &binary.left }),
        _ => None,
    }
}

/// The values of a rule's expressions.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpressionValues {
    pub(crate) elements: Vec<InstantSample>,
    pub(crate) clear: Vec<InstantSample>,
    /// None where the rule does not need it.
    pub(crate) data: Option<Vec<InstantSample>>,
}

impl ExpressionValues {
    /// Leaves the elements out that have fewer than `least` in `counts`.
    pub(crate) fn with_at_least(&mut self, least: f64, counts: &[InstantSample]) {
        self.elements
            .retain(|element| counts.iter().any(|count| number(count) >= least && fits(count, &element.labels, &[])));
    }
}

fn number(sample: &InstantSample) -> f64 {
    match &sample.value {
        Point::Float(value) => *value,
        Point::Histogram(histogram) => histogram.count,
    }
}

/// Whether every label of `element` is one of `labels`; those in `changed` are ignored.
pub(crate) fn fits(element: &InstantSample, labels: &Labels, changed: &[&str]) -> bool {
    let mut own = element.labels.iter().filter(|(name, _)| *name != METRIC_NAME && !changed.contains(name));
    own.all(|(name, value)| labels.get(name) == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(expr: &str, pairs: &[(&str, &str)]) -> Result<Option<Box<Extension>>, (String, String)> {
        let annotations = pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Extension::parse(&annotations, expr)
    }

    #[test]
    fn annotations_are_read_and_mistakes_named() {
        assert_eq!(parse("up == 0", &[("summary", "a")]), Ok(None));
        let data = |expr: &str| parse(expr, &[("ogive_no_data", "keep")]).map(|found| found.unwrap().data.unwrap());
        assert_eq!(data("up == 0").as_deref(), Ok("up"));
        assert_eq!(data("5 < (sum(rate(a[5m])))").as_deref(), Ok("(sum(rate(a[5m])))"));
        assert_eq!(data("a > 1 and b < 2").as_deref(), Ok("a"));
        assert!(data("absent(up)").unwrap_err().1.contains("ogive_data"));
        let both = parse("a > 1", &[("ogive_min_count", "100"), ("ogive_count", "sum(b)")]).unwrap().unwrap();
        assert_eq!(both.count, Some((100.0, "sum(b)".to_owned())));
        for bad in [
            ("ogive_no_data", "often"),
            ("ogive_clear", "up =="),
            ("ogive_min_count", "100"),
            ("ogive_count", "up"),
            ("ogive_cleared", "up"),
        ] {
            assert_eq!(parse("a > 1", &[bad]).unwrap_err().0, bad.0);
        }
    }
}
