//! Orders of rows, and rewriting of label values.

use std::cmp::Ordering;

use ogive_model::Labels;
use regex::Regex;

use crate::eval::kernel::natural_less;

/// By the values of `names` in natural order, then by all labels.
pub(crate) fn by_labels(left: &Labels, right: &Labels, names: &[&str]) -> Ordering {
    for name in names {
        let (a, b) = (left.get(name), right.get(name));
        if a != b {
            return if natural_less(a, b) { Ordering::Less } else { Ordering::Greater };
        }
    }
    left.cmp(right)
}

/// By value; NaN comes last in either direction.
pub(crate) fn by_value(left: f64, right: f64, descending: bool) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (false, false) if descending => right.total_cmp(&left),
        (false, false) => left.total_cmp(&right),
        (a, b) => a.cmp(&b),
    }
}

/// A pattern that must match a whole value.
pub(crate) fn anchored_regex(pattern: &str) -> Result<Regex, String> {
    ogive_model::pattern::anchored(pattern)
}

/// `replacement` with `$1`, `${1}` and `$name` standing for what the groups matched; None when `value` does not match.
pub(crate) fn replaced(regex: &Regex, value: &str, replacement: &str) -> Option<String> {
    let captures = regex.captures(value)?;
    let mut out = String::new();
    captures.expand(replacement, &mut out);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_last_both_ways() {
        let mut values = [2.0, f64::NAN, 1.0];
        values.sort_by(|a, b| by_value(*a, *b, false));
        assert_eq!(values[..2], [1.0, 2.0]);
        values.sort_by(|a, b| by_value(*a, *b, true));
        assert_eq!(values[..2], [2.0, 1.0]);
    }

    #[test]
    fn groups_are_inserted_and_patterns_match_whole_values() {
        let regex = anchored_regex("(.*)-value-(.*)").unwrap();
        assert_eq!(replaced(&regex, "source-value-10", "$1-value-$2").as_deref(), Some("source-value-10"));
        assert_eq!(replaced(&anchored_regex("alue").unwrap(), "value", "x"), None);
    }
}
