//! Go's regular expressions (RE2's syntax with Perl's extensions) into the syntax of the `regex` crate.
//!
//! Invariant: what Go refuses is refused with Go's message; what it takes means here what it means there.
//! Limits: [`REPEAT_MAX`], [`DEPTH_MAX`].

use std::collections::HashSet;

use super::class;
use super::escape::{character, wrong};

/// 1,000 repetitions, also of repetitions together: RE2's limit.
const REPEAT_MAX: u32 = 1_000;

/// 200 nested groups; the engine that runs the pattern allows 250 levels.
const DEPTH_MAX: usize = 200;

/// `pattern` as the `regex` crate writes it.
pub(super) fn translated(pattern: &str) -> Result<String, String> {
    let mut translator = Translator {
        pattern,
        rest: pattern,
        out: String::with_capacity(pattern.len() + 16),
        groups: vec![Group::default()],
        names: HashSet::new(),
        repeated: None,
    };
    while !translator.rest.is_empty() {
        translator.step()?;
    }
    if translator.groups.len() > 1 {
        return Err(wrong("missing closing )", pattern));
    }
    Ok(translator.out)
}

/// The state of an open group.
#[derive(Default)]
struct Group {
    /// The greatest product of nested repetitions in the part done so far.
    weight: u32,
    /// The same for what a following repetition would repeat; None when there is nothing to repeat.
    last: Option<u32>,
}

struct Translator<'p> {
    pattern: &'p str,
    rest: &'p str,
    out: String,
    /// The open groups; the first is the pattern.
    groups: Vec<Group>,
    /// Of the groups that have one.
    names: HashSet<&'p str>,
    /// The text from a repetition on that was just read: another one may not follow.
    repeated: Option<&'p str>,
}

impl<'p> Translator<'p> {
    fn step(&mut self) -> Result<(), String> {
        let repeated = self.repeated.take();
        let first = self.rest.chars().next().unwrap_or_default();
        match first {
            '(' => self.open(),
            ')' => self.close(),
            '|' => {
                let group = self.group();
                group.last = None;
                self.put(1, "|");
                Ok(())
            }
            '*' | '+' | '?' => self.repeat(repeated, 1, None),
            '{' => match counts(self.rest) {
                Some((length, least, most)) => self.repeat(repeated, length, Some((least, most))),
                None => self.atom(1, "\\{"),
            },
            '[' => {
                let (length, class) = class::bracket(self.rest)?;
                self.atom(length, &class)
            }
            '\\' => self.escape(),
            '.' | '^' | '$' => self.atom(1, &first.to_string()),
            // Special there, plain in Go.
            '}' | ']' => self.atom(1, &format!("\\{first}")),
            _ => self.atom(first.len_utf8(), first.encode_utf8(&mut [0; 4])),
        }
    }

    fn group(&mut self) -> &mut Group {
        let at = self.groups.len() - 1;
        &mut self.groups[at]
    }

    /// Writes `text` for the next `length` bytes.
    fn put(&mut self, length: usize, text: &str) {
        self.out.push_str(text);
        self.rest = &self.rest[length..];
    }

    /// Something that may be repeated.
    fn atom(&mut self, length: usize, text: &str) -> Result<(), String> {
        self.put(length, text);
        self.group().last = Some(1);
        Ok(())
    }

    fn open(&mut self) -> Result<(), String> {
        if self.groups.len() > DEPTH_MAX {
            return Err(wrong("expression nests too deeply", self.pattern));
        }
        let Some(behind) = self.rest.strip_prefix("(?") else {
            self.put(1, "(");
            self.groups.push(Group::default());
            return Ok(());
        };
        let named = behind.strip_prefix("P<").or_else(|| behind.strip_prefix('<'));
        if let Some(named) = named {
            return self.open_named(named);
        }
        let end = behind.find([':', ')']).unwrap_or(behind.len());
        let flags = &behind[..end];
        self.check_flags(behind)?;
        let opens = behind[end..].starts_with(':');
        let length = 2 + end + 1;
        // The engine does not accept an empty list of flags.
        let text = if !opens && flags.is_empty() { String::new() } else { self.rest[..length].to_owned() };
        self.put(length, &text);
        if opens {
            self.groups.push(Group::default());
        }
        Ok(())
    }

    fn open_named(&mut self, named: &'p str) -> Result<(), String> {
        let head = self.rest.len() - named.len();
        let Some((name, _)) = named.split_once('>') else {
            return Err(wrong("invalid named capture", self.rest));
        };
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_word) {
            return Err(wrong("invalid named capture", &self.rest[..head + name.len() + 1]));
        }
        if !self.names.insert(name) {
            return Err(wrong("duplicate capture group name", name));
        }
        // The engine's names cannot begin with a digit: such a group only gets a number.
        let text = if name.as_bytes()[0].is_ascii_digit() { "(".to_owned() } else { format!("(?P<{name}>") };
        self.put(head + name.len() + 1, &text);
        self.groups.push(Group::default());
        Ok(())
    }

    /// Checks the flags at the start of `behind`, which ends at `:` or `)`.
    fn check_flags(&self, behind: &str) -> Result<(), String> {
        let (mut minus, mut any) = (false, false);
        for (at, c) in behind.char_indices() {
            match c {
                'i' | 'm' | 's' | 'U' => any = true,
                '-' if !minus => (minus, any) = (true, false),
                ':' | ')' if !minus || any => return Ok(()),
                _ => return Err(wrong("invalid or unsupported Perl syntax", &self.rest[..2 + at + c.len_utf8()])),
            }
        }
        Err(wrong("missing closing )", self.pattern))
    }

    fn close(&mut self) -> Result<(), String> {
        if self.groups.len() == 1 {
            return Err(wrong("unexpected )", self.pattern));
        }
        let inner = self.groups.pop().unwrap_or_default();
        let weight = inner.weight.max(inner.last.unwrap_or(1));
        self.put(1, ")");
        let group = self.group();
        group.weight = group.weight.max(weight);
        group.last = Some(weight);
        Ok(())
    }

    /// A repetition of the preceding item; the operator's text is `length` bytes long.
    fn repeat(
        &mut self,
        repeated: Option<&str>,
        length: usize,
        counts: Option<(u32, Option<u32>)>,
    ) -> Result<(), String> {
        let (before, mut text) = (self.rest, self.rest[..length].to_owned());
        let lazy = usize::from(self.rest[length..].starts_with('?'));
        if let Some(first) = repeated {
            let nested = &first[..first.len() - before.len() + length + lazy];
            return Err(wrong("invalid nested repetition operator", nested));
        }
        let shown = &before[..length + lazy];
        let Some(last) = self.group().last else { return Err(wrong("missing argument to repetition operator", shown)) };
        let mut weight = last;
        if let Some((least, most)) = counts {
            let too_many = |count: u32| count > REPEAT_MAX;
            let times = most.unwrap_or(least).max(1);
            if too_many(least) || most.is_some_and(|most| too_many(most) || most < least) {
                return Err(wrong("invalid repeat count", shown));
            }
            weight = if most == Some(0) { 1 } else { last.saturating_mul(times) };
            if times >= 2 && too_many(weight) {
                return Err(wrong("invalid repeat count", shown));
            }
            text = most.map_or_else(|| format!("{{{least},}}"), |most| format!("{{{least},{most}}}"));
        }
        self.put(length, &text);
        if lazy == 1 {
            self.put(1, "?");
        }
        let group = self.group();
        group.weight = group.weight.max(weight);
        group.last = Some(weight);
        self.repeated = Some(before);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.rest[1..].chars().next() {
            Some('Q') => {
                let behind = &self.rest[2..];
                let (quoted, end) = behind.split_once("\\E").map_or((behind, 0), |(quoted, _)| (quoted, 2));
                let text = regex::escape(quoted);
                self.put(2 + quoted.len() + end, &text);
                if !quoted.is_empty() {
                    self.group().last = Some(1);
                }
                Ok(())
            }
            Some('A') => self.atom(2, "\\A"),
            Some('z') => self.atom(2, "\\z"),
            Some('b') => self.atom(2, "(?-u:\\b)"),
            Some('B') => self.atom(2, "(?-u:\\B)"),
            _ => {
                if let Some((length, inside)) = class::escaped(self.rest)? {
                    return self.atom(length, &format!("[{inside}]"));
                }
                let (length, c) = character(self.rest)?;
                self.atom(length, &class::literal(c))
            }
        }
    }
}

/// `{n}`, `{n,}` or `{n,m}` at the start of `rest`: its length, the least and the most. Numbers that are too large are
/// just that.
fn counts(rest: &str) -> Option<(usize, u32, Option<u32>)> {
    // No further than it could be one: a pattern of braces is read in linear time.
    let end = rest.bytes().skip(1).position(|byte| !byte.is_ascii_digit() && byte != b',')? + 1;
    if rest.as_bytes()[end] != b'}' {
        return None;
    }
    let number = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let zeros = text.len() > 1 && text.starts_with('0');
        (plain && !zeros).then(|| text.parse().unwrap_or(u32::MAX))
    };
    let inside = &rest[1..end];
    let (least, most) = match inside.split_once(',') {
        None => (number(inside)?, Some(number(inside)?)),
        Some((least, "")) => (number(least)?, None),
        Some((least, most)) => (number(least)?, Some(number(most)?)),
    };
    Some((end + 1, least, most))
}
