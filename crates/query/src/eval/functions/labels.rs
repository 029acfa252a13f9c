//! Sorting of rows, and rewriting of label values.

use std::cmp::Ordering;

use ogive_model::Labels;
use regex::Regex;

use crate::Error;
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

/// 4 MiB while a value is made: 256 references to the longest possible value.
const EXPANSION_BYTES_MAX: usize = 256 * Labels::VALUE_BYTES_MAX;

/// `replacement` with `$1`, `${1}` and `$name` replaced by the matches of the groups; None when `value` does not match.
pub(crate) fn replaced(regex: &Regex, value: &str, replacement: &str) -> Result<Option<String>, Error> {
    let Some(captures) = regex.captures(value) else { return Ok(None) };
    // Checked before it is made: each reference expands to the whole value at most.
    let references = replacement.bytes().filter(|byte| *byte == b'$').count();
    let most = references.saturating_mul(value.len()).saturating_add(replacement.len());
    if most > EXPANSION_BYTES_MAX {
        return Err(too_long(format_args!("of up to {most} bytes")));
    }
    let mut out = String::new();
    captures.expand(replacement, &mut out);
    check_value(&out)?;
    Ok(Some(out))
}

/// `values` with `separator` between them.
pub(crate) fn joined(values: &[&str], separator: &str) -> Result<String, Error> {
    let separators = separator.len().saturating_mul(values.len().saturating_sub(1));
    let bytes = values.iter().map(|value| value.len()).fold(separators, usize::saturating_add);
    if bytes > Labels::VALUE_BYTES_MAX {
        return Err(too_long(format_args!("of {bytes} bytes")));
    }
    Ok(values.join(separator))
}

/// Fails when a label cannot have the value.
pub(crate) fn check_value(value: &str) -> Result<(), Error> {
    let bytes = value.len();
    if bytes > Labels::VALUE_BYTES_MAX { Err(too_long(format_args!("of {bytes} bytes"))) } else { Ok(()) }
}

fn too_long(what: std::fmt::Arguments<'_>) -> Error {
    let limit = Labels::VALUE_BYTES_MAX;
    Error::evaluate(format!("the query makes a label value {what}, above the limit of {limit}; make a shorter one"))
}

/// `labels` with one set, or removed if the value is empty.
pub(crate) fn with_label(labels: &Labels, name: &str, value: &str) -> Result<Labels, Error> {
    check_value(value)?;
    let refused = |error: ogive_model::Error| match error {
        ogive_model::Error::TooLarge { what, found, limit } => Error::evaluate(format!(
            "the query makes a label set in which {what} would be {found}, above the limit of {limit}"
        )),
        error => Error::evaluate(error.to_string()),
    };
    labels.try_with(name, value).map_err(refused)
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
        let made = replaced(&regex, "source-value-10", "$1-value-$2").unwrap();
        assert_eq!(made.as_deref(), Some("source-value-10"));
        assert_eq!(replaced(&anchored_regex("alue").unwrap(), "value", "x").unwrap(), None);
    }

    #[test]
    fn values_end_at_their_limit_and_are_refused_one_above() {
        let (all, limit) = (anchored_regex("(?s)(.*)").unwrap(), Labels::VALUE_BYTES_MAX);
        let half = "v".repeat(limit / 2);
        assert_eq!(replaced(&all, &half, "$1$1").unwrap().unwrap().len(), limit);
        assert!(replaced(&all, &half, "${1}${1}x").unwrap_err().to_string().contains("16385 bytes"));
        assert!(replaced(&all, &half, &"$1".repeat(1 << 19)).unwrap_err().to_string().contains("up to"));
        assert_eq!(joined(&[&half, &half], "").unwrap().len(), limit);
        assert!(joined(&[&half, &half], ",").unwrap_err().to_string().contains("16385 bytes"));
        let labels = Labels::new((0..Labels::COUNT_MAX).map(|at| (format!("l{at}"), "v"))).unwrap();
        assert!(with_label(&labels, "l1", &half).is_ok());
        assert!(with_label(&labels, "one_more", "v").unwrap_err().to_string().contains("above the limit of 128"));
    }
}
