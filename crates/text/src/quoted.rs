//! Quoted text in which a backslash protects the character behind it.

/// Where the quote is that closes `body`, the text behind an opening one; None without such a quote.
#[must_use]
pub fn closing_quote(body: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + body[from..].find(['"', '\\'])?;
        if body.as_bytes()[at] == b'"' {
            return Some(at);
        }
        // The character behind the backslash may be longer than a byte.
        from = at + 1 + body[at + 1..].chars().next()?.len_utf8();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protected_quote_closes_nothing() {
        let check = |body: &str, expected: Option<usize>| assert_eq!(closing_quote(body), expected, "{body}");
        check("\"", Some(0));
        check("ab\" c\"", Some(2));
        check(r#"a\"b" c"#, Some(4));
        check(r#"a\\" c"#, Some(3));
        check(r#"\ü""#, Some(3));
        check("", None);
        check("ab", None);
        check(r"ab\", None);
        check(r#"ab\""#, None);
    }
}
