//! The fields of a line: members of a JSON object, or `name=value` pairs of logfmt wherever they stand.
//!
//! Names of nested members are joined by dots; the elements of a list all have the name of the list. A value is what
//! the line means by it: without quotes and escapes; numbers, `true`, `false` and `null` as they stand. A JSON line
//! that is cut or wrong has the fields before that. Limits: what is nested deeper than [`FIELD_DEPTH_MAX`] is skipped.

use std::borrow::Cow;
use std::ops::ControlFlow;

use ogive_model::words::unescaped;
use ogive_text::quoted::closing_quote;

/// 32 levels, as deep as OTLP's log records are stored.
pub const FIELD_DEPTH_MAX: usize = 32;

/// Receives a name and its value, and returns whether to continue.
type Each<'e> = &'e mut dyn FnMut(&str, &str) -> ControlFlow<()>;

/// Passes each field of `line` to `each`, in the order of the line, until it breaks.
pub fn each_field(line: &str, each: Each<'_>) {
    let rest = line.trim_start();
    let _ = if rest.starts_with('{') { Json { rest, path: String::new(), each }.value(0) } else { logfmt(line, each) };
}

/// A JSON parser that stops at the first error: `Break` is the end, for either reason.
struct Json<'t, 'e> {
    rest: &'t str,
    path: String,
    each: Each<'e>,
}

impl<'t> Json<'t, '_> {
    fn value(&mut self, depth: usize) -> ControlFlow<()> {
        self.space();
        match self.rest.bytes().next() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.list(depth + 1),
            Some(b'"') => {
                let text = self.string()?;
                self.hand_on(&unescaped(text), depth)
            }
            Some(b'-' | b'0'..=b'9' | b'a'..=b'z') => {
                let is_scalar = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.');
                let end = self.rest.find(|c| !is_scalar(c)).unwrap_or(self.rest.len());
                let (scalar, rest) = self.rest.split_at(end);
                self.rest = rest;
                if rest.is_empty() { ControlFlow::Break(()) } else { self.hand_on(scalar, depth) }
            }
            _ => ControlFlow::Break(()),
        }
    }

    fn hand_on(&mut self, value: &str, depth: usize) -> ControlFlow<()> {
        if depth > FIELD_DEPTH_MAX { ControlFlow::Continue(()) } else { (self.each)(&self.path, value) }
    }

    fn object(&mut self, depth: usize) -> ControlFlow<()> {
        if depth > FIELD_DEPTH_MAX {
            return self.skip();
        }
        self.rest = &self.rest[1..];
        if self.take('}') {
            return ControlFlow::Continue(());
        }
        loop {
            self.space();
            let name = unescaped(self.string()?);
            let length = self.path.len();
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&name);
            self.expect(':')?;
            self.value(depth)?;
            self.path.truncate(length);
            if self.take('}') {
                return ControlFlow::Continue(());
            }
            self.expect(',')?;
        }
    }

    fn list(&mut self, depth: usize) -> ControlFlow<()> {
        if depth > FIELD_DEPTH_MAX {
            return self.skip();
        }
        self.rest = &self.rest[1..];
        if self.take(']') {
            return ControlFlow::Continue(());
        }
        loop {
            self.value(depth)?;
            if self.take(']') {
                return ControlFlow::Continue(());
            }
            self.expect(',')?;
        }
    }

    /// Over an object or a list, without recursion.
    fn skip(&mut self) -> ControlFlow<()> {
        let mut open = 0_usize;
        loop {
            let Some(at) = self.rest.find(['{', '[', '}', ']', '"']) else { return ControlFlow::Break(()) };
            self.rest = &self.rest[at..];
            match self.rest.as_bytes()[0] {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => open += 1,
                _ => open -= 1,
            }
            self.rest = &self.rest[1..];
            if open == 0 {
                return ControlFlow::Continue(());
            }
        }
    }

    /// A string between its quotes, with its escapes.
    fn string(&mut self) -> ControlFlow<(), &'t str> {
        let Some(body) = self.rest.strip_prefix('"') else { return ControlFlow::Break(()) };
        let Some(end) = closing_quote(body) else { return ControlFlow::Break(()) };
        self.rest = &body[end + 1..];
        ControlFlow::Continue(&body[..end])
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn take(&mut self, c: char) -> bool {
        self.space();
        let after = self.rest.strip_prefix(c);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn expect(&mut self, c: char) -> ControlFlow<()> {
        if self.take(c) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// `name=value` wherever a word begins with it; the value extends to the next space, or is quoted. After an unclosed
/// quote, later quotes are ordinary characters.
fn logfmt(line: &str, each: Each<'_>) -> ControlFlow<()> {
    let (mut rest, mut quotes) = (line, true);
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return ControlFlow::Continue(());
        }
        let end = rest.find(|c: char| c == '=' || c == '"' || c.is_whitespace()).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        let value = behind.strip_prefix('=').filter(|_| !name.is_empty());
        let quoted = value.unwrap_or(behind).strip_prefix('"').filter(|_| quotes);
        let closed = quoted.and_then(|body| Some((body, closing_quote(body)?)));
        quotes &= quoted.is_some() == closed.is_some();
        let (text, after) = match closed {
            Some((body, end)) => (unescaped(&body[..end]), &body[end + 1..]),
            None => {
                let text = value.unwrap_or(behind);
                let (text, after) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
                (Cow::Borrowed(text.trim_end_matches([',', ';'])), after)
            }
        };
        if value.is_some() {
            each(name, &text)?;
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &[(&str, &str)]) {
        let mut found = Vec::new();
        each_field(line, &mut |name, value| {
            found.push((name.to_owned(), value.to_owned()));
            ControlFlow::Continue(())
        });
        let expected: Vec<_> = expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn members_of_json_are_fields() {
        check(
            r#" {"a":"x\ny","b":-1.5e3,"c":{"d":true,"e":{"f":null}},"g":[1,"two",{"h":3}],"i.j":"","k":{},"l":[]} "#,
            &[
                ("a", "x\ny"),
                ("b", "-1.5e3"),
                ("c.d", "true"),
                ("c.e.f", "null"),
                ("g", "1"),
                ("g", "two"),
                ("g.h", "3"),
                ("i.j", ""),
            ],
        );
        check(r#"{"\u00e4":"\ud83d\ude00\"ä\\"}"#, &[("ä", "\u{1f600}\"ä\\")]);
    }

    #[test]
    fn json_that_is_cut_has_the_fields_before() {
        let line = r#"{"a":1,"b":{"c":"text"},"d":[2]}"#;
        let all = [("a", "1"), ("b.c", "text"), ("d", "2")];
        for cut in 0..=line.len() {
            let mut count = 0;
            each_field(&line[..cut], &mut |name, value| {
                assert_eq!((name, value), all[count], "cut at {cut}");
                count += 1;
                ControlFlow::Continue(())
            });
        }
        for wrong in
            ["{", "{}", "{]", "{\"a\" 1}", "{\"a\":}", "{\"a\":1 2}", "{\"a\":+1}", "{\"a\":\u{e4}}", "{\"a\":\"\\"]
        {
            let mut count = 0;
            each_field(wrong, &mut |_, _| {
                count += 1;
                ControlFlow::Continue(())
            });
            assert!(count <= 1, "{wrong}");
        }
    }

    #[test]
    fn what_is_nested_too_deep_is_skipped_and_what_follows_is_read() {
        let nested = |depth: usize| {
            format!("{{\"a\":{}\"deep\"{},\"b\":1}}", "{\"x\":".repeat(depth - 1), "}".repeat(depth - 1))
        };
        let count = |line: &str| {
            let mut names = Vec::new();
            each_field(line, &mut |name, _| {
                names.push(name.to_owned());
                ControlFlow::Continue(())
            });
            names
        };
        assert_eq!(count(&nested(FIELD_DEPTH_MAX)).len(), 2);
        assert_eq!(count(&nested(FIELD_DEPTH_MAX + 1)), ["b"]);
        assert_eq!(count(&nested(100_000)), ["b"]);
        assert!(count(&"[".repeat(100_000)).is_empty());
        assert_eq!(count(&format!("{{\"a\":{}", "[".repeat(1_000_000))), [""; 0]);
    }

    #[test]
    fn pairs_are_fields_wherever_they_stand() {
        check(
            r#"2026-01-02 INFO took=5ms msg="it \"is\" so" path=/a?b=c, x="open y= =z "q=1" end=1;"#,
            &[
                ("took", "5ms"),
                ("msg", "it \"is\" so"),
                ("path", "/a?b=c"),
                ("x", "open y= =z "),
                ("q", "1\""),
                ("end", "1"),
            ],
        );
        check("a=1", &[("a", "1")]);
        check(r#"a="open b=2"#, &[("a", "\"open"), ("b", "2")]);
        check("nothing here", &[]);
        check(r#"10.0.0.1 "GET /a?x=1 HTTP/1.1" 200"#, &[]);
    }
}
