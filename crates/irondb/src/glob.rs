//! Graphite's patterns as regular expressions.

/// The expression without its anchors: `*` and `?` do not cross a dot, `[abc]` is one of these characters, `{a,b}` one
/// of several texts.
#[must_use]
pub(crate) fn expression(pattern: &str) -> String {
    let mut out = String::new();
    let mut in_braces = false;
    for c in pattern.chars() {
        match c {
            '*' => out.push_str("[^.]*"),
            '?' => out.push_str("[^.]"),
            '{' if !in_braces => {
                in_braces = true;
                out.push_str("(?:");
            }
            '}' if in_braces => {
                in_braces = false;
                out.push(')');
            }
            ',' if in_braces => out.push('|'),
            '[' | ']' => out.push(c),
            c => out.push_str(&regex::escape(&c.to_string())),
        }
    }
    out
}
