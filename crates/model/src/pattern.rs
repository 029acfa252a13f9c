//! Regular expressions as Prometheus users write them: RE2's syntax, as Go's `regexp` reads it.
//!
//! A pattern that lists texts becomes a set of them (`literals`); any other is translated for the engine that runs it
//! here (`re2`).
//! What Go refuses is refused with Go's message, whichever it would become.
//! Limits: the compiled program, [`program_bytes_max`]; lists are not compiled and have none of their own.

mod class;
mod escape;
mod literals;
mod re2;

use literals::Literals;

/// 1 MiB for the compiled program of a short pattern: far above hand-written ones, far below what would do harm.
pub const PROGRAM_BYTES_MAX: usize = 1 << 20;

/// 128 bytes for each byte of a pattern: a case-insensitive letter takes some 60 to 100.
const PROGRAM_BYTES_A_BYTE: usize = 128;

/// 32 MiB: a list of some 8,000 names with a class in each. The limit for any pattern.
const LONG_PROGRAM_BYTES_MAX: usize = 32 << 20;

/// The most bytes that the program of `pattern` may have.
#[must_use]
pub const fn program_bytes_max(pattern: &str) -> usize {
    let requested = PROGRAM_BYTES_MAX.saturating_add(pattern.len().saturating_mul(PROGRAM_BYTES_A_BYTE));
    if requested > LONG_PROGRAM_BYTES_MAX { LONG_PROGRAM_BYTES_MAX } else { requested }
}

/// The form in which a matcher compares.
#[derive(Debug)]
pub(crate) enum Pattern {
    /// A list of texts.
    Literals(Literals),
    /// Anything else.
    Program(regex::Regex),
}

impl Pattern {
    /// Parses `text` to match whole values.
    ///
    /// # Errors
    /// As [`anchored`].
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let translated = re2::translated(text)?;
        match Literals::parse(text) {
            Some(literals) => Ok(Self::Literals(literals)),
            None => compiled(&translated, text).map(Self::Program),
        }
    }

    /// The pattern that `text` is to the engine itself.
    pub(crate) fn from_engine(text: &str) -> Result<Self, String> {
        compiled(text, text).map(Self::Program)
    }

    /// Whether all of `value` matches.
    pub(crate) fn matches(&self, value: &str) -> bool {
        match self {
            Self::Literals(literals) => literals.matches(value),
            Self::Program(regex) => regex.is_match(value),
        }
    }

    /// The values that match, ascending, when they are listed.
    pub(crate) fn listed(&self) -> Option<Vec<&str>> {
        match self {
            Self::Literals(literals) => literals.exact(),
            Self::Program(_) => None,
        }
    }
}

/// The expression for whole texts; `.` matches line feeds, as in Prometheus.
///
/// # Errors
/// Go's message when the pattern is invalid, and a similar one when its program is larger than [`program_bytes_max`].
pub fn anchored(pattern: &str) -> Result<regex::Regex, String> {
    compiled(&re2::translated(pattern)?, pattern)
}

/// The program of a pattern, given in the engine's syntax and as written.
fn compiled(translated: &str, pattern: &str) -> Result<regex::Regex, String> {
    let limit = program_bytes_max(pattern);
    let built = regex::RegexBuilder::new(&format!("^(?s:{translated})$")).size_limit(limit).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => {
            format!("error parsing regexp: expression too large: its program has more than {limit} bytes")
        }
        error => format!("error parsing regexp: {error}"),
    })
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
        check(r"\Qa.b", &["a.b"], &["axb"]);
        check(r"\p{L}+", &["aéλ"], &["a1", "{L}"]);
        check(r"\pL\PL\p{Lu}", &["é1Ä"], &["é1ä"]);
        check(r"\p{Greek}|[\P{Greek}a]x|\p{^Greek}y", &["λ", "ax", "by"], &["λx", "λy"]);
        check(r"[^\p{Greek}\d]\p{Any}", &["ab", "é☃"], &["λb", "1b"]);
        check(r"\x{6e}\x6F\101[\x{61}-\x{63}]\012", &["noAb\n"], &["noAd\n"]);
        check(r"\a\f\v\t\r", &["\x07\x0c\x0b\t\r"], &[]);
        check(r"\Aab\z", &["ab"], &["ab\n"]);
        check(r"(?i:AB)(?-s:.)(?P<n>c)(?<m>d)(?U)e*(?)", &["ab.cdee"], &["ab\ncd"]);
        check(r"(?P<1a>b)", &["b"], &[]);
        check("a{2}b{1,}c{0,2}?d{01}", &["aabd{01}", "aabbccd{01}"], &["ab"]);
        check("x]}", &["x]}"], &[]);
        check("[[:^alpha:]a-]+", &["1a-"], &["b"]);
        check(r"[\--\/]", &["-", ".", "/"], &[","]);
        check("(a|)()b", &["ab", "b"], &[]);
        check(r".*\bé", &["aé"], &["é"]);
    }

    #[test]
    fn what_go_refuses_is_refused_in_its_words() {
        let check = |pattern: &str, message: &str| {
            let error = anchored(pattern).expect_err(pattern);
            assert_eq!(error, format!("error parsing regexp: {message}"), "{pattern}");
            assert_eq!(Pattern::parse(pattern).expect_err(pattern), error);
        };
        check("[a", "missing closing ]: `[a`");
        check("[", "missing closing ]: `[`");
        check("[\\", "trailing backslash at end of expression: ``");
        check("(", "missing closing ): `(`");
        check("a)", "unexpected ): `a)`");
        check("a)|(b", "unexpected ): `a)|(b`");
        check("*", "missing argument to repetition operator: `*`");
        check("a|+?b", "missing argument to repetition operator: `+?`");
        check("({2})", "missing argument to repetition operator: `{2}`");
        check("a**", "invalid nested repetition operator: `**`");
        check("a*?{2}b", "invalid nested repetition operator: `*?{2}`");
        check("a{1001}", "invalid repeat count: `{1001}`");
        check("a{3,2}", "invalid repeat count: `{3,2}`");
        check("a{99999999999}", "invalid repeat count: `{99999999999}`");
        check("((a{100}){10}){2}", "invalid repeat count: `{2}`");
        check("[b-a]", "invalid character class range: `b-a`");
        check("[[:word]]:]", "invalid character class range: `[:word]]:]`");
        check(r"\p{Foo}", r"invalid character class range: `\p{Foo}`");
        check(r"\p{greek}", r"invalid character class range: `\p{greek}`");
        check(r"\p{Grek}", r"invalid character class range: `\p{Grek}`");
        check(r"\p{Alphabetic}", r"invalid character class range: `\p{Alphabetic}`");
        check(r"\p{sc=Greek}", r"invalid character class range: `\p{sc=Greek}`");
        check("a\\", "trailing backslash at end of expression: ``");
        check(r"(a)\1", r"invalid escape sequence: `\1`");
        check(r"\8", r"invalid escape sequence: `\8`");
        check(r"\u00e9", r"invalid escape sequence: `\u`");
        check(r"\h", r"invalid escape sequence: `\h`");
        check(r"\Z", r"invalid escape sequence: `\Z`");
        check(r"\C", r"invalid escape sequence: `\C`");
        check(r"\é", r"invalid escape sequence: `\é`");
        check(r"\x{zz}", r"invalid escape sequence: `\x{z`");
        check(r"\x6", r"invalid escape sequence: `\x6`");
        check(r"[a-\d]", r"invalid escape sequence: `\d`");
        check("a(?=b)", "invalid or unsupported Perl syntax: `(?=`");
        check("(?!b)", "invalid or unsupported Perl syntax: `(?!`");
        check("(?<=b)", "invalid named capture: `(?<=b)`");
        check("(?x)a", "invalid or unsupported Perl syntax: `(?x`");
        check("(?i-)a", "invalid or unsupported Perl syntax: `(?i-)`");
        check("(?P=n)", "invalid or unsupported Perl syntax: `(?P`");
        check("(?P<n>a)(?P<n>b)", "duplicate capture group name: `n`");
        check("(?P<>a)", "invalid named capture: `(?P<>`");
        check(&"(".repeat(300), &format!("expression nests too deeply: `{}`", "(".repeat(300)));
        assert!(anchored("a{1000}").is_ok());
        assert!(anchored("((a{100}){10})").is_ok());
        let huge = r"[\pL\pN]{1000}";
        assert!(anchored(huge).unwrap_err().contains("expression too large"));
    }

    /// A dashboard's variable with 556 values was refused, as its program was larger than a MiB.
    #[test]
    fn a_list_of_texts_is_a_set() {
        let names = |count: usize| (0..count).map(|at| format!("pod-{at}-7f9c6d5b4-x{at:05}")).collect::<Vec<_>>();
        let list = names(40_000).join("|");
        assert!(list.len() > 1 << 20);
        for (before, behind) in [("", ""), ("(", ")"), ("(?:", ")"), ("(", ")?"), ("(?i:", ")"), ("x(", ")y")] {
            // What is no list is compiled: of as many values as that takes.
            let count = match (before, behind) {
                ("", _) => 40_000,
                ("(?i:", _) | (_, ")?") => 556,
                _ => 2_000,
            };
            let list = names(count).join("|");
            let pattern = Pattern::parse(&format!("{before}{list}{behind}")).unwrap();
            let is_list = matches!(pattern, Pattern::Literals(_));
            assert_eq!(is_list, count != 556, "{before}..{behind}");
            let (start, end) = if before == "x(" { ("x", "y") } else { ("", "") };
            let value = format!("{start}pod-555-7f9c6d5b4-x00555{end}");
            assert!(pattern.matches(&value), "{before}..{behind} does not match {value}");
            assert!(!pattern.matches(&format!("{value}0")));
            assert_eq!(pattern.matches(&value.to_uppercase()), before == "(?i:");
        }
    }

    #[test]
    fn lists_match_what_their_programs_match() {
        let patterns = [
            "a|b|c",
            "(a|b)c",
            "a(b|(c|d)e)|f",
            r"a\.b|c\-d|\x41",
            "[.]a|b",
            "",
            "a|",
            "()|b",
            "(a|b)(c|d)x",
            ".*a",
            "a.*|.+b",
            ".+",
            "(a|ab).*(c)",
            ".*(a|bc).+|d",
            ".*?(é|ab).*?",
            "a.b",
            "a?|b",
            "(a|b)+",
            "a{2}|b",
            "(?i)a|b",
            r"\d|a",
            "^a$|b",
            ".*.*",
            ".+.*",
            ".*|a",
            "(.*|a)b",
            r"a\Qb\E",
        ];
        let values = [
            "", "a", "b", "c", "ac", "bc", "ab", "ace", "ade", "f", "a.b", "axb", "c-d", "A", ".a", "xa", "ax", "xb",
            "acx", "bdx", "abc", "xxabcx", "xbcy", "d", "xé", "éx", "\n", "a\nb", "aa", "B", "1", "aab",
        ];
        for pattern in patterns {
            let (list, program) = (Pattern::parse(pattern).unwrap(), anchored(pattern).unwrap());
            for value in values {
                assert_eq!(list.matches(value), program.is_match(value), "{pattern:?} of {value:?}: {list:?}");
            }
        }
        assert_eq!(Pattern::parse(r"b|a\.c").unwrap().listed(), Some(vec!["a.c", "b"]));
        assert_eq!(Pattern::parse("b.*|a").unwrap().listed(), None);
        // What could take more than linear time is none the less read at once.
        for text in
            ["{".repeat(1 << 16), format!("[{}]", "[:".repeat(1 << 15)), "()".repeat(1 << 10), "(|)".repeat(1 << 10)]
        {
            let _ = Pattern::parse(&text);
        }
        // A product that would grow too large is compiled.
        assert!(matches!(Pattern::parse(&"(a|b)".repeat(40)).unwrap(), Pattern::Program(_)));
    }
}
