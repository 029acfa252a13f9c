//! Patterns that list texts: `a|b|c`, as dashboards write the values that were chosen.
//!
//! Such a list is a set to look up in, whatever its length, where a compiled program would take fifty times its bytes.
//! What stands before and behind the texts of an alternative may be `.*` or `.+`, and lists may stand inside lists:
//! `.*(pod-(1|2)|db\.x).*`.
//! Everything else is no list, and is compiled.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{class, escape};

/// 16 bytes of texts for each byte of the pattern, and 1 KiB: a product of lists (`(a|b)(c|d)..`) may grow without
/// bound, and a query may have many.
const TEXT_BYTES_A_BYTE: usize = 16;
const TEXT_BYTES_MIN: usize = 1024;

/// 16 bytes for each text of a product: the cost of making it in addition to its bytes.
const TEXT_COST: usize = 16;

/// 64 nested lists: parsing takes a stack frame for each.
const DEPTH_MAX: usize = 64;

/// What is allowed before or after a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Wild {
    /// Nothing.
    None,
    /// `.*`
    Any,
    /// `.+`
    Some,
}

impl Wild {
    /// Whether `text` is allowed there.
    const fn fits(self, text: &str) -> bool {
        match self {
            Self::None => text.is_empty(),
            Self::Any => true,
            Self::Some => !text.is_empty(),
        }
    }
}

/// Texts with the same before and behind them.
#[derive(Debug)]
struct Texts {
    before: Wild,
    behind: Wild,
    texts: HashSet<String>,
    /// Of the texts, in bytes.
    lengths: Vec<usize>,
}

/// A list of texts.
#[derive(Debug)]
pub(crate) struct Literals(Vec<Texts>);

impl Literals {
    /// The list that the valid `pattern` is equivalent to; None when there is none.
    pub(super) fn parse(pattern: &str) -> Option<Self> {
        let mut reader = Reader { rest: pattern, left: pattern.len() * TEXT_BYTES_A_BYTE + TEXT_BYTES_MIN };
        let mut found: HashMap<(Wild, Wild), HashSet<String>> = HashMap::new();
        loop {
            let before = reader.wild();
            let texts = reader.texts(0)?;
            let behind = reader.wild();
            // `.*` alone: one of them is enough.
            let (before, behind) = if texts == [""] && before != Wild::None && behind != Wild::None {
                return None;
            } else {
                (before, behind)
            };
            found.entry((before, behind)).or_default().extend(texts);
            match reader.rest.as_bytes().first() {
                None => break,
                Some(b'|') => reader.rest = &reader.rest[1..],
                Some(_) => return None,
            }
        }
        let texts = found.into_iter().map(|((before, behind), texts)| {
            let lengths: BTreeSet<usize> = texts.iter().map(String::len).collect();
            Texts { before, behind, texts, lengths: lengths.into_iter().collect() }
        });
        Some(Self(texts.collect()))
    }

    /// Whether `value` is in the list.
    pub(super) fn matches(&self, value: &str) -> bool {
        self.0.iter().any(|texts| texts.matches(value))
    }

    /// The texts, ascending, when nothing else is allowed around them.
    pub(super) fn exact(&self) -> Option<Vec<&str>> {
        let [texts] = &self.0[..] else { return None };
        let alone = texts.before == Wild::None && texts.behind == Wild::None;
        let mut all: Vec<&str> = texts.texts.iter().map(String::as_str).collect();
        all.sort_unstable();
        alone.then_some(all)
    }
}

impl Texts {
    fn matches(&self, value: &str) -> bool {
        if self.before == Wild::None && self.behind == Wild::None {
            return self.texts.contains(value);
        }
        self.lengths.iter().take_while(|length| **length <= value.len()).any(|length| self.has_at(value, *length))
    }

    /// Whether a text of `length` bytes is somewhere in `value` where it may be.
    fn has_at(&self, value: &str, length: usize) -> bool {
        let last = value.len() - length;
        let starts = match (self.before, self.behind) {
            (Wild::None, _) => 0..=0,
            (_, Wild::None) => last..=last,
            _ => 0..=last,
        };
        starts.into_iter().any(|start| {
            let Some(text) = value.get(start..start + length) else { return false };
            self.before.fits(&value[..start]) && self.behind.fits(&value[start + length..]) && self.texts.contains(text)
        })
    }
}

struct Reader<'p> {
    rest: &'p str,
    /// Bytes that texts may still have.
    left: usize,
}

impl Reader<'_> {
    fn took(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn wild(&mut self) -> Wild {
        let lazy = |reader: &mut Self, wild| {
            // Whether a repetition is lazy does not change whether there is a match.
            reader.took("?");
            wild
        };
        if self.took(".*") {
            lazy(self, Wild::Any)
        } else if self.took(".+") {
            lazy(self, Wild::Some)
        } else {
            Wild::None
        }
    }

    /// The texts of one alternative, up to something that is not a text.
    fn texts(&mut self, depth: usize) -> Option<Vec<String>> {
        let mut texts = vec![String::new()];
        loop {
            let (length, c) = match self.rest.as_bytes().first() {
                None | Some(b'|' | b')' | b'.') => return Some(texts),
                Some(b'*' | b'+' | b'?' | b'^' | b'$' | b'{') => return None,
                Some(b'[') => self.single()?,
                Some(b'(') => {
                    let choices = self.group(depth + 1)?;
                    texts = self.product(&texts, &choices)?;
                    continue;
                }
                Some(b'\\') => {
                    let is_class = |letter| matches!(letter, b'Q' | b'A' | b'z' | b'b' | b'B');
                    if self.rest.as_bytes().get(1).copied().is_none_or(is_class)
                        || class::escaped(self.rest).ok()?.is_some()
                    {
                        return None;
                    }
                    escape::character(self.rest).ok()?
                }
                Some(_) => self.rest.chars().next().map(|c| (c.len_utf8(), c))?,
            };
            self.rest = &self.rest[length..];
            if self.rest.starts_with(['*', '+', '?', '{']) {
                return None;
            }
            self.left = self.left.checked_sub(texts.len() * c.len_utf8())?;
            texts.iter_mut().for_each(|text| text.push(c));
        }
    }

    /// `[.]`, as some escape.
    fn single(&self) -> Option<(usize, char)> {
        let mut chars = self.rest.chars().skip(1);
        let c = chars.next().filter(|c| !matches!(c, '^' | '\\' | '[' | ']'))?;
        (chars.next() == Some(']')).then_some((c.len_utf8() + 2, c))
    }

    /// All texts of the alternatives in parentheses.
    fn group(&mut self, depth: usize) -> Option<Vec<String>> {
        if depth > DEPTH_MAX || !self.took("(") {
            return None;
        }
        if self.rest.starts_with('?') && !self.took("?:") {
            return None;
        }
        let mut all = Vec::new();
        loop {
            all.extend(self.texts(depth)?);
            if self.took(")") {
                break;
            }
            if !self.took("|") {
                return None;
            }
        }
        (!self.rest.starts_with(['*', '+', '?', '{'])).then_some(all)
    }

    /// Each of `texts` followed by each of `choices`.
    fn product(&mut self, texts: &[String], choices: &[String]) -> Option<Vec<String>> {
        let sum = |texts: &[String]| texts.iter().map(String::len).sum::<usize>();
        let count = texts.len().checked_mul(choices.len())?;
        let bytes = sum(texts).checked_mul(choices.len())?.checked_add(sum(choices).checked_mul(texts.len())?)?;
        self.left = self.left.checked_sub(bytes.checked_add(count.checked_mul(TEXT_COST)?)?)?;
        Some(texts.iter().flat_map(|text| choices.iter().map(move |choice| format!("{text}{choice}"))).collect())
    }
}
