//! What a quantile or a share may be at least and at most: the bins say no more, and a value alone hides it.

use std::collections::BTreeMap;

use ogive_query::ast::ExprKind;

use super::answer::{Answer, Data, Series};

/// The label that distinguishes the two.
const EDGE: &str = "bound";

/// Lower and upper bounds by the labels of the bounded values.
#[derive(Default)]
pub(super) struct Bounds(BTreeMap<BTreeMap<String, String>, [String; 2]>);

impl Bounds {
    /// The expression for the bounds of `expr`; None when it has none.
    pub(super) fn expression(expr: &str) -> Option<String> {
        let tree = ogive_query::parse(expr).ok()?;
        let ExprKind::Call(call) = &tree.unparenthesised().kind else { return None };
        if !matches!(call.function.name, "histogram_quantile" | "histogram_fraction") {
            return None;
        }
        let (name, arguments) = expr.split_at(call.name_span.end as usize);
        Some(format!("{name}_bounds{arguments}"))
    }

    /// The bounds in the result of [`Bounds::expression`].
    pub(super) fn from_answer(answer: Answer) -> Self {
        let Data::Vector(series) = answer.data else { return Self::default() };
        let mut out: BTreeMap<_, [String; 2]> = BTreeMap::new();
        for Series { mut metric, value, .. } in series {
            let (Some(edge), Some((_, value))) = (metric.remove(EDGE), value) else { continue };
            out.entry(metric).or_default()[usize::from(edge == "upper")] = value;
        }
        out.retain(|_, both| both.iter().all(|text| !text.is_empty()));
        Self(out)
    }

    /// The text after the value of `metric`: `  (0.12 … 0.13)` with each written by `shown`, or nothing.
    pub(super) fn text(
        &self,
        metric: &BTreeMap<String, String>,
        unicode: bool,
        shown: impl Fn(&str) -> String,
    ) -> String {
        let dots = if unicode { "…" } else { ".." };
        match self.0.get(metric) {
            Some([lower, upper]) if lower == upper => "  (exact)".to_owned(),
            Some([lower, upper]) => format!("  ({} {dots} {})", shown(lower), shown(upper)),
            None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_shares_have_bounds() {
        let check = |expr: &str, expected: Option<&str>| assert_eq!(Bounds::expression(expr).as_deref(), expected);
        check("histogram_quantile(0.9, x)", Some("histogram_quantile_bounds(0.9, x)"));
        check(" (histogram_fraction (0, 1, sum(x)))", Some(" (histogram_fraction_bounds (0, 1, sum(x)))"));
        check("histogram_quantile(0.9, x) > 1", None);
        check("histogram_count(x)", None);
        check("histogram_quantile(", None);
    }

    #[test]
    fn bounds_stand_behind_their_value() {
        let body = r#"{"data":{"resultType":"vector","result":[
            {"metric":{"a":"b","bound":"lower"},"value":[1,"1"]},{"metric":{"a":"b","bound":"upper"},"value":[1,"2"]},
            {"metric":{"bound":"lower"},"value":[1,"3"]},{"metric":{"bound":"upper"},"value":[1,"3"]},
            {"metric":{"c":"","bound":"upper"},"value":[1,"3"]}]}}"#;
        let bounds = Bounds::from_answer(serde_json::from_str(body).unwrap());
        let metric = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        assert_eq!(bounds.text(&metric(&[("a", "b")]), true, str::to_owned), "  (1 … 2)");
        assert_eq!(bounds.text(&metric(&[("a", "b")]), false, str::to_owned), "  (1 .. 2)");
        assert_eq!(bounds.text(&metric(&[]), true, str::to_owned), "  (exact)");
        assert_eq!(bounds.text(&metric(&[("c", "")]), true, str::to_owned), "");
    }
}
