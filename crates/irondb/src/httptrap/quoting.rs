//! What go-trapmetrics writes that is not JSON: names quoted by Go's rules, and numbers as Go prints them.

/// `body` as JSON: Go's escapes (`\a`, `\v`, `\'`, `\x07`, `\U0001f600`) in strings become JSON's, and `NaN`, `+Inf`
/// and `-Inf` outside of them null. None when there are none.
pub(super) fn mended(body: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut rest, mut is_mended, mut in_string) = (Vec::with_capacity(body.len() + 64), body, false, false);
    while let [first, tail @ ..] = rest {
        let replaced = match (in_string, rest) {
            (true, [b'\\', b'a', ..]) => Some((2, "\\u0007".into())),
            (true, [b'\\', b'v', ..]) => Some((2, "\\u000b".into())),
            (true, [b'\\', b'\'', ..]) => Some((2, "'".into())),
            (true, [b'\\', b'x', ..]) => hexadecimal(rest, 2).map(|code| (4, format!("\\u{code:04x}"))),
            (true, [b'\\', b'U', ..]) => {
                hexadecimal(rest, 8).and_then(char::from_u32).filter(|c| !c.is_control()).map(|c| (10, c.to_string()))
            }
            (false, [b'N', b'a', b'N', ..]) => Some((3, "null".into())),
            (false, [b'+' | b'-', b'I', b'n', b'f', ..]) => Some((4, "null".into())),
            _ => None,
        };
        if let Some((length, text)) = replaced {
            out.extend_from_slice(text.as_bytes());
            (rest, is_mended) = (&rest[length..], true);
            continue;
        }
        out.push(*first);
        rest = tail;
        match first {
            b'"' => in_string = !in_string,
            // An escaped character neither begins nor ends anything.
            b'\\' if in_string => {
                if let [escaped, tail @ ..] = rest {
                    out.push(*escaped);
                    rest = tail;
                }
            }
            _ => {}
        }
    }
    is_mended.then_some(out)
}

/// The number of `digits` behind the first two bytes.
fn hexadecimal(text: &[u8], digits: usize) -> Option<u32> {
    let digits = text.get(2..2 + digits)?;
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u32::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_quotes_becomes_json() {
        let text = |body: &str| mended(body.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(text(r#"{"a\x07\a\v\'": NaN}"#).as_deref(), Some(r#"{"a\u0007\u0007\u000b'": null}"#));
        assert_eq!(text(r#"{"\U0001f600": [+Inf, -Inf, 1]}"#).as_deref(), Some("{\"😀\": [null, null, 1]}"));
        for same in [r#"{"NaN \\x07 \"+Inf": 1e+06}"#, r#"{"a\xzz": 1}"#, r#"{"a\x"#, "{\"a\\", ""] {
            assert_eq!(text(same), None, "{same}");
        }
    }
}
