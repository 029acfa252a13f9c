//! Fingerprints of SQL and CQL statements: literals become `?`, lists of them one, spaces one, comments nothing.
//!
//! Statements that differ only in their values have one fingerprint, so that they share a histogram. Identifiers stay
//! as written, keywords are not folded by case: a program sends the same text each time. No literal survives, so a
//! fingerprint holds no value a user typed, quoted identifiers apart.
//!
//! Limits: at most [`LENGTH_MAX`] bytes; the rest is left out and `…` says so.

/// Bytes of a fingerprint: a statement beyond it is distinguished by its head.
pub(crate) const LENGTH_MAX: usize = 200;

/// The fingerprint of the statement in `text`, which may be cut anywhere.
pub(crate) fn fingerprint(text: &[u8]) -> String {
    let mut folder = Folder { out: String::new(), is_full: false, quotes_are_names: true };
    folder.run(text);
    folder.finish()
}

/// As [`fingerprint`], where `"…"` is a string as in MySQL.
pub(crate) fn fingerprint_mysql(text: &[u8]) -> String {
    let mut folder = Folder { out: String::new(), is_full: false, quotes_are_names: false };
    folder.run(text);
    folder.finish()
}

struct Folder {
    out: String,
    is_full: bool,
    quotes_are_names: bool,
}

impl Folder {
    fn run(&mut self, text: &[u8]) {
        let mut at = 0;
        while at < text.len() && !self.is_full {
            at += self.token(&text[at..]).max(1);
        }
    }

    /// Folds the token at the start of `rest`, and returns its length in bytes.
    fn token(&mut self, rest: &[u8]) -> usize {
        match rest[0] {
            byte if byte.is_ascii_whitespace() || byte == 0 => {
                self.space();
                1
            }
            b'-' if rest.starts_with(b"--") => self.comment(rest, b"\n"),
            b'#' if !self.quotes_are_names => self.comment(rest, b"\n"),
            b'/' if rest.starts_with(b"/*") => self.comment(rest, b"*/"),
            b'\'' => self.literal(quoted(rest, b'\'')),
            b'"' if !self.quotes_are_names => self.literal(quoted(rest, b'"')),
            quote @ (b'"' | b'`') => self.word(&rest[..quoted(rest, quote)]),
            b'$' => self.dollar(rest),
            b'?' => self.literal(1),
            b'0'..=b'9' => self.literal(number(rest)),
            b'.' if rest.get(1).is_some_and(u8::is_ascii_digit) && !self.after_word() => self.literal(number(rest)),
            byte if is_word(byte) => self.name(rest),
            _ => self.word(&rest[..1]),
        }
    }

    /// A name or keyword, or a prefixed string such as `E'…'`, `X'…'` or `N'…'`.
    fn name(&mut self, rest: &[u8]) -> usize {
        let length = rest.iter().take_while(|byte| is_word(**byte) || byte.is_ascii_digit() || **byte == b'$').count();
        if length <= 2 && rest.get(length) == Some(&b'\'') && b"eExXbBnNuU".contains(&rest[0]) {
            return length + self.literal(quoted(&rest[length..], b'\''));
        }
        // A CQL UUID may begin with a letter.
        if rest.len() >= 36 && length == 8 && crate::operation::template::is_uuid(&rest[..36]) {
            return self.literal(36);
        }
        self.word(&rest[..length])
    }

    /// `$1`, or a dollar-quoted string.
    fn dollar(&mut self, rest: &[u8]) -> usize {
        let tag = 1 + rest[1..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        if rest.get(tag) != Some(&b'$') || rest[1].is_ascii_digit() {
            return self.literal(tag);
        }
        let open = &rest[..=tag];
        let end = rest[tag + 1..].windows(open.len()).position(|window| window == open);
        self.literal(end.map_or(rest.len(), |end| tag + 1 + end + open.len()))
    }

    fn comment(&mut self, rest: &[u8], end: &[u8]) -> usize {
        self.space();
        let length = rest[2.min(rest.len())..].windows(end.len()).position(|window| window == end);
        length.map_or(rest.len(), |length| 2 + length + end.len())
    }

    fn space(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with([' ', '(']) {
            self.out.push(' ');
        }
    }

    /// A value: `?`, and a single one for a list of them.
    fn literal(&mut self, length: usize) -> usize {
        let list = self.out.trim_end_matches([' ', ',', '+', '-']);
        if list.ends_with('?') && self.out[list.len()..].contains(',') {
            self.out.truncate(list.len());
        } else {
            // The sign of a value belongs to it: `= -1` and `= 1` are one statement.
            let unsigned = self.out.trim_end_matches(['-', '+']);
            if unsigned.ends_with(['=', '(', ',', '<', '>', ' ']) && !unsigned.ends_with("? ") {
                self.out.truncate(unsigned.len());
            }
            self.push("?");
        }
        self.merge_rows();
        length
    }

    /// Reduces `(?), (` to `(`, so that inserts of many rows are one statement.
    fn merge_rows(&mut self) {
        for tail in ["(?), (?", "(?),(?", "(?) , (?"] {
            if self.out.ends_with(tail) {
                self.out.truncate(self.out.len() - tail.len());
                self.out.push_str("(?");
            }
        }
    }

    fn word(&mut self, bytes: &[u8]) -> usize {
        if matches!(bytes, b"," | b")" | b";") {
            self.out.truncate(self.out.trim_end_matches(' ').len());
        }
        self.push(&String::from_utf8_lossy(bytes));
        bytes.len()
    }

    fn push(&mut self, text: &str) {
        if self.out.len() + text.len() > LENGTH_MAX {
            self.is_full = true;
            return;
        }
        self.out.push_str(text);
    }

    fn after_word(&self) -> bool {
        self.out.as_bytes().last().is_some_and(|byte| is_word(*byte) || matches!(byte, b'"' | b'`'))
    }

    fn finish(mut self) -> String {
        self.out.truncate(self.out.trim_end_matches([' ', ';']).len());
        if self.is_full {
            self.out.push('…');
        }
        self.out
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

/// Bytes of the quoted text at the head of `rest`; a doubled quote and a backslash escape do not end it.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(&byte) = rest.get(at) {
        match byte {
            b'\\' if quote != b'`' => at += 2,
            _ if byte == quote && rest.get(at + 1) == Some(&quote) => at += 2,
            _ if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Bytes of the number at the head of `rest`; hexadecimal numbers, exponents, durations of CQL and UUIDs are numbers
/// too.
fn number(rest: &[u8]) -> usize {
    if rest.len() >= 36 && crate::operation::template::is_uuid(&rest[..36]) {
        return 36;
    }
    let mut at = 0;
    while let Some(&byte) = rest.get(at) {
        let is_sign =
            matches!(byte, b'+' | b'-') && at > 0 && matches!(rest[at - 1], b'e' | b'E') && !rest.starts_with(b"0x");
        if !(byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_' || is_sign) {
            break;
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(statement: &str, expected: &str) {
        assert_eq!(fingerprint(statement.as_bytes()), expected, "{statement}");
    }

    #[test]
    fn values_are_folded_and_names_stay() {
        check("SELECT * FROM t1 WHERE id = 42", "SELECT * FROM t1 WHERE id = ?");
        check(
            "select a.b2, \"C d\" from x where s='it''s' and y=-1.5e-3",
            "select a.b2, \"C d\" from x where s=? and y=?",
        );
        check("SELECT $1::int, $body$ a 'b' $body$, E'\\'x', X'ff'", "SELECT ?::int, ?");
        check("SELECT a-1", "SELECT a-?");
        check("SELECT 2 - 1", "SELECT ? - ?");
        check("UPDATE t SET a=a+1 WHERE k=.5", "UPDATE t SET a=a+? WHERE k=?");
        check("SELECT 0x1F;\n", "SELECT ?");
    }

    #[test]
    fn lists_rows_comments_and_spaces_are_one() {
        check("SELECT 1 FROM t WHERE a IN (1, 2,\n 3)", "SELECT ? FROM t WHERE a IN (?)");
        check("INSERT INTO t VALUES (1,'a'), (2,'b'),(3,'c')", "INSERT INTO t VALUES (?)");
        check("INSERT INTO t(a, b) VALUES (?, ?)", "INSERT INTO t(a, b) VALUES (?)");
        check("/* trace=7 */ SELECT  a -- why\n FROM t", "SELECT a FROM t");
        check("INSERT INTO k.t (id) VALUES (cafebabe-0000-4000-8000-123456789abc)", "INSERT INTO k.t (id) VALUES (?)");
    }

    #[test]
    fn mysql_strings_may_have_double_quotes() {
        assert_eq!(fingerprint_mysql(b"SELECT \"a\", `b 1` # c\n FROM t"), "SELECT ?, `b 1` FROM t");
    }

    #[test]
    fn a_cut_or_long_statement_ends_cleanly() {
        check("SELECT 'abc", "SELECT ?");
        check("SELECT $x$ab", "SELECT ?");
        check("/* open", "");
        check("E", "E");
        check("$", "?");
        let long =
            fingerprint("SELECT ".bytes().chain("a, ".bytes().cycle().take(3_000)).collect::<Vec<_>>().as_slice());
        assert!(long.len() <= LENGTH_MAX + 3 && long.ends_with('…'), "{long}");
    }

    #[test]
    fn any_bytes_are_folded_without_a_panic() {
        let mut seed = 7_u64;
        let alphabet = b"'\"`$-/*#?()., \\0aE9xZ\n;\xff\x80";
        for _ in 0..20_000 {
            let mut text = Vec::new();
            for _ in 0..24 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push(alphabet[usize::try_from(seed >> 40).unwrap() % alphabet.len()]);
            }
            assert!(fingerprint(&text).len() <= LENGTH_MAX + 3);
            assert!(fingerprint_mysql(&text).len() <= LENGTH_MAX + 3);
        }
    }
}
