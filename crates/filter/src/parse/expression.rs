//! Regular expressions of people, within limits.

use regex::{Regex, RegexBuilder};

/// 64 KiB of an expression, grok's patterns put in; ten times the largest of the shipped filters.
pub(super) const EXPRESSION_BYTES_MAX: usize = 64 << 10;

/// 4 MiB of a compiled expression: some thousand states with classes of Unicode.
const COMPILED_BYTES_MAX: usize = 4 << 20;

/// Compiles an expression within the limits.
pub(crate) fn compile(expression: &str) -> Result<Regex, String> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(format!("an expression has {EXPRESSION_BYTES_MAX} bytes at most"));
    }
    let compiled = RegexBuilder::new(expression).size_limit(COMPILED_BYTES_MAX).build();
    compiled.map_err(|error| error.to_string())
}
