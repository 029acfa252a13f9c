//! Regular expressions as Prometheus users write them (RE2, by way of Go) for the engine that runs them here.
//!
//! The two agree but for these, which are rewritten: a `{` that begins no repetition is a brace; inside `[..]`, `[`,
//! `&&`, `--` and `~~` stand for themselves; `\d \s \w \b` and their opposites mean ASCII; `\<` and `\>` are plain
//! characters; `\Q..\E` quotes.
//! Limits: the compiled program, [`PROGRAM_BYTES_MAX`].

/// 1 MiB for a compiled program: far above hand-written patterns, far below what would hurt.
pub const PROGRAM_BYTES_MAX: usize = 1 << 20;

/// The expression that matches whole texts; `.` matches line feeds, as in Prometheus.
///
/// # Errors
/// The engine's message when the pattern is wrong or larger than [`PROGRAM_BYTES_MAX`].
pub fn anchored(pattern: &str) -> Result<regex::Regex, String> {
    let translated = translated(pattern);
    let build = |text: &str| {
        let built = regex::RegexBuilder::new(text).size_limit(PROGRAM_BYTES_MAX).build();
        built.map_err(|error| error.to_string())
    };
    if translated.contains(')') {
        // Alone first: `a)|(b` must not close the group around it.
        build(&translated)?;
    }
    build(&format!("^(?s:{translated})$"))
}

/// The pattern in the syntax of the `regex` crate.
fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        rest = match c {
            '\\' => escape(rest, &mut out),
            '[' => class(rest, &mut out),
            '{' if !begins_repetition(rest) => {
                out.push_str("\\{");
                &rest[1..]
            }
            _ => {
                out.push(c);
                &rest[c.len_utf8()..]
            }
        };
    }
    out
}

/// Writes the escape at the start of `rest` and gives what is behind it.
fn escape<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let Some(letter) = rest[1..].chars().next() else {
        out.push('\\');
        return "";
    };
    let behind = &rest[1 + letter.len_utf8()..];
    if letter == 'Q' {
        let Some((quoted, behind)) = behind.split_once("\\E") else {
            // Not closed: as it is, so that the engine refuses it.
            out.push_str(rest);
            return "";
        };
        out.push_str(&regex::escape(quoted));
        return behind;
    }
    match ascii_class(letter) {
        Some(class) => out.push_str(&format!("[{class}]")),
        None => match letter {
            'b' | 'B' => out.push_str(&format!("(?-u:\\{letter})")),
            '<' | '>' => out.push(letter),
            _ => out.push_str(&rest[..1 + letter.len_utf8()]),
        },
    }
    behind
}

/// The inside of the bracket expression that `\d` and its like mean.
const fn ascii_class(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "0-9",
        'D' => "^0-9",
        's' => "\\t\\n\\x0C\\r ",
        'S' => "^\\t\\n\\x0C\\r ",
        'w' => "0-9A-Za-z_",
        'W' => "^0-9A-Za-z_",
        _ => return None,
    })
}

/// Writes the bracket expression at the start of `rest` and gives what is behind it.
fn class<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let mut at = 1;
    out.push('[');
    if rest[at..].starts_with('^') {
        out.push('^');
        at += 1;
    }
    // A bracket that comes first does not close.
    if rest[at..].starts_with(']') {
        out.push_str("\\]");
        at += 1;
    }
    while let Some(c) = rest[at..].chars().next() {
        let tail = &rest[at..];
        let mut length = c.len_utf8();
        match c {
            ']' => {
                out.push(']');
                return &tail[1..];
            }
            '\\' => length = class_escape(tail, out),
            '[' if tail.starts_with("[:") => match tail.find(":]") {
                Some(end) => {
                    length = end + 2;
                    out.push_str(&tail[..length]);
                }
                None => out.push_str("\\["),
            },
            '[' | '&' | '~' => {
                out.push('\\');
                out.push(c);
            }
            // `a--` is a range that ends at the minus; one that is not an end stands for itself.
            '-' if tail.starts_with("--") => {
                out.push_str("-\\-");
                length = 2;
            }
            _ => out.push(c),
        }
        at += length;
    }
    // Not closed: the engine says so.
    ""
}

/// Writes the escape at the start of `tail`, inside a bracket expression; its length.
fn class_escape(tail: &str, out: &mut String) -> usize {
    let Some(letter) = tail[1..].chars().next() else {
        out.push('\\');
        return 1;
    };
    let length = 1 + letter.len_utf8();
    match ascii_class(letter) {
        Some(class) => out.push_str(&format!("[{class}]")),
        None if matches!(letter, '<' | '>') => out.push(letter),
        None => out.push_str(&tail[..length]),
    }
    length
}

/// `{n}`, `{n,}` or `{n,m}` at the start of `rest`.
fn begins_repetition(rest: &str) -> bool {
    let Some(end) = rest.find('}') else { return false };
    let (least, most) = rest[1..end].split_once(',').unwrap_or((&rest[1..end], ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, matching: &[&str], other: &[&str]) {
        let regex = anchored(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        matching.iter().for_each(|text| assert!(regex.is_match(text), "{pattern} does not match {text:?}"));
        other.iter().for_each(|text| assert!(!regex.is_match(text), "{pattern} matches {text:?}"));
    }

    #[test]
    fn what_the_two_syntaxes_share_stays() {
        check("a|b.*", &["a", "b", "b\nc"], &["ab", ""]);
        check("[^a-c]{2,3}", &["xyz", "xy"], &["x", "xyzz", "ax"]);
        check(r"\.\-\_(?i:A)[\]x]", &[".-_a]", ".-_Ax"], &["a-_ax"]);
        check(r"\pL\x41[[:digit:]]", &["éA1"], &["éB1"]);
    }

    #[test]
    fn what_differs_means_what_prometheus_users_expect() {
        check("a{b", &["a{b"], &["a"]);
        check("a{,2}", &["a{,2}"], &["aa"]);
        check("{}x{1", &["{}x{1"], &[]);
        check("[[]", &["["], &["]"]);
        check("[]a]", &["]", "a"], &["[]a]"]);
        check("[^]a]", &["b"], &["]", "a"]);
        check("[a&&b]", &["a", "&", "b"], &["c"]);
        check("[a~~b]+", &["a~b"], &[]);
        check("[+--]", &["+", ",", "-"], &["."]);
        check(r"\d[\w-]", &["1-", "1a"], &["٣a", "1é"]);
        check(r"a\s\S", &["a b"], &["a\u{a0}b"]);
        check(r"\<\Q[a]+\E>", &["<[a]+>"], &["<a>"]);
        check(r".*\bé", &["aé"], &["é"]);
    }

    #[test]
    fn wrong_and_huge_patterns_are_refused() {
        for pattern in ["[a", "(", "a)", "a)|(b", "\\Qa", "*", "[b-a]", "a\\", "((a{1000}){1000}){10}", "\\", "[\\"] {
            assert!(anchored(pattern).is_err(), "{pattern}");
        }
    }
}
