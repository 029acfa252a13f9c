//! The table of functions: names, argument types and results.
//!
//! Invariants: names strictly ascend; `arguments_min` is at most the number of types; when more arguments than types
//! are allowed, the last type repeats. Source of the names and types: the function reference of Prometheus 3;
//! `histogram_distance`, `histogram_fraction_bounds`, `histogram_max`, `histogram_min`, `histogram_modes`,
//! `histogram_quantile_bounds` and `presence` are Ogive's own.

use crate::ast::ValueType;
use crate::ast::ValueType::{Matrix, Scalar, String as Text, Vector};

/// One function.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// As it is written.
    pub name: &'static str,
    /// Types by position.
    pub arguments: &'static [ValueType],
    /// Fewest arguments.
    pub arguments_min: usize,
    /// Most arguments; None when there is no maximum.
    pub arguments_max: Option<usize>,
    /// Type of the result.
    pub returns: ValueType,
    /// Whether a stock Prometheus has it behind a flag.
    pub experimental: bool,
}

/// The function of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.binary_search_by(|function| function.name.cmp(name)).ok().map(|at| &FUNCTIONS[at])
}

const fn fixed(name: &'static str, arguments: &'static [ValueType], returns: ValueType) -> Function {
    let count = arguments.len();
    Function { name, arguments, arguments_min: count, arguments_max: Some(count), returns, experimental: false }
}

const fn optional(name: &'static str, arguments: &'static [ValueType], min: usize, returns: ValueType) -> Function {
    Function { arguments_min: min, ..fixed(name, arguments, returns) }
}

const fn open(name: &'static str, arguments: &'static [ValueType], min: usize, returns: ValueType) -> Function {
    Function { arguments_min: min, arguments_max: None, ..fixed(name, arguments, returns) }
}

const fn experimental(function: Function) -> Function {
    Function { experimental: true, ..function }
}

/// All functions by name.
pub static FUNCTIONS: &[Function] = &[
    fixed("abs", &[Vector], Vector),
    fixed("absent", &[Vector], Vector),
    fixed("absent_over_time", &[Matrix], Vector),
    fixed("acos", &[Vector], Vector),
    fixed("acosh", &[Vector], Vector),
    fixed("asin", &[Vector], Vector),
    fixed("asinh", &[Vector], Vector),
    fixed("atan", &[Vector], Vector),
    fixed("atanh", &[Vector], Vector),
    fixed("avg_over_time", &[Matrix], Vector),
    fixed("ceil", &[Vector], Vector),
    fixed("changes", &[Matrix], Vector),
    fixed("clamp", &[Vector, Scalar, Scalar], Vector),
    fixed("clamp_max", &[Vector, Scalar], Vector),
    fixed("clamp_min", &[Vector, Scalar], Vector),
    fixed("cos", &[Vector], Vector),
    fixed("cosh", &[Vector], Vector),
    fixed("count_over_time", &[Matrix], Vector),
    optional("day_of_month", &[Vector], 0, Vector),
    optional("day_of_week", &[Vector], 0, Vector),
    optional("day_of_year", &[Vector], 0, Vector),
    optional("days_in_month", &[Vector], 0, Vector),
    fixed("deg", &[Vector], Vector),
    fixed("delta", &[Matrix], Vector),
    fixed("deriv", &[Matrix], Vector),
    experimental(fixed("double_exponential_smoothing", &[Matrix, Scalar, Scalar], Vector)),
    experimental(fixed("end", &[], Scalar)),
    fixed("exp", &[Vector], Vector),
    experimental(fixed("first_over_time", &[Matrix], Vector)),
    fixed("floor", &[Vector], Vector),
    fixed("histogram_avg", &[Vector], Vector),
    fixed("histogram_count", &[Vector], Vector),
    // Not in Prometheus: the third argument names the figure.
    optional("histogram_distance", &[Vector, Vector, Text], 2, Vector),
    fixed("histogram_fraction", &[Scalar, Scalar, Vector], Vector),
    // Not in Prometheus, the next four.
    fixed("histogram_fraction_bounds", &[Scalar, Scalar, Vector], Vector),
    fixed("histogram_max", &[Vector], Vector),
    fixed("histogram_min", &[Vector], Vector),
    fixed("histogram_modes", &[Vector], Vector),
    fixed("histogram_quantile", &[Scalar, Vector], Vector),
    // Not in Prometheus.
    fixed("histogram_quantile_bounds", &[Scalar, Vector], Vector),
    // A label for the quantile, then one to ten quantiles.
    experimental(Function { arguments_max: Some(12), ..fixed("histogram_quantiles", &[Vector, Text, Scalar], Vector) }),
    fixed("histogram_stddev", &[Vector], Vector),
    fixed("histogram_stdvar", &[Vector], Vector),
    fixed("histogram_sum", &[Vector], Vector),
    optional("hour", &[Vector], 0, Vector),
    fixed("idelta", &[Matrix], Vector),
    fixed("increase", &[Matrix], Vector),
    experimental(optional("info", &[Vector, Vector], 1, Vector)),
    fixed("irate", &[Matrix], Vector),
    open("label_join", &[Vector, Text, Text, Text], 3, Vector),
    fixed("label_replace", &[Vector, Text, Text, Text, Text], Vector),
    fixed("last_over_time", &[Matrix], Vector),
    fixed("ln", &[Vector], Vector),
    fixed("log10", &[Vector], Vector),
    fixed("log2", &[Vector], Vector),
    experimental(fixed("mad_over_time", &[Matrix], Vector)),
    experimental(fixed("max_of", &[Scalar, Scalar], Scalar)),
    fixed("max_over_time", &[Matrix], Vector),
    experimental(fixed("min_of", &[Scalar, Scalar], Scalar)),
    fixed("min_over_time", &[Matrix], Vector),
    optional("minute", &[Vector], 0, Vector),
    optional("month", &[Vector], 0, Vector),
    fixed("pi", &[], Scalar),
    fixed("predict_linear", &[Matrix, Scalar], Vector),
    // Not in Prometheus.
    fixed("presence", &[Matrix], Vector),
    fixed("present_over_time", &[Matrix], Vector),
    fixed("quantile_over_time", &[Scalar, Matrix], Vector),
    fixed("rad", &[Vector], Vector),
    experimental(fixed("range", &[], Scalar)),
    fixed("rate", &[Matrix], Vector),
    fixed("resets", &[Matrix], Vector),
    optional("round", &[Vector, Scalar], 1, Vector),
    fixed("scalar", &[Vector], Scalar),
    fixed("sgn", &[Vector], Vector),
    fixed("sin", &[Vector], Vector),
    fixed("sinh", &[Vector], Vector),
    fixed("sort", &[Vector], Vector),
    experimental(open("sort_by_label", &[Vector, Text], 1, Vector)),
    experimental(open("sort_by_label_desc", &[Vector, Text], 1, Vector)),
    fixed("sort_desc", &[Vector], Vector),
    fixed("sqrt", &[Vector], Vector),
    experimental(fixed("start", &[], Scalar)),
    experimental(fixed("start_timestamp", &[Vector], Vector)),
    fixed("stddev_over_time", &[Matrix], Vector),
    fixed("stdvar_over_time", &[Matrix], Vector),
    experimental(fixed("step", &[], Scalar)),
    fixed("sum_over_time", &[Matrix], Vector),
    fixed("tan", &[Vector], Vector),
    fixed("tanh", &[Vector], Vector),
    fixed("time", &[], Scalar),
    fixed("timestamp", &[Vector], Vector),
    experimental(fixed("ts_of_first_over_time", &[Matrix], Vector)),
    experimental(fixed("ts_of_last_over_time", &[Matrix], Vector)),
    experimental(fixed("ts_of_max_over_time", &[Matrix], Vector)),
    experimental(fixed("ts_of_min_over_time", &[Matrix], Vector)),
    fixed("vector", &[Scalar], Vector),
    optional("year", &[Vector], 0, Vector),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_ascend_and_counts_fit() {
        for pair in FUNCTIONS.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} is not before {}", pair[0].name, pair[1].name);
        }
        for function in FUNCTIONS {
            assert!(function.arguments_min <= function.arguments.len(), "{}", function.name);
            assert!(function.arguments_max.is_none_or(|max| max >= function.arguments.len()), "{}", function.name);
            assert_eq!(find(function.name), Some(function));
        }
        assert_eq!(FUNCTIONS.len(), 97);
    }
}
