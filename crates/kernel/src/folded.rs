//! Folded stacks: one line per stack, its frames from the outermost to the innermost separated by semicolons, then a
//! number.
//!
//! This is the format that flame graph tools exchange. Limits: [`STACKS_MAX`] stacks of [`FRAMES_MAX`] frames; text
//! beyond them is refused.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::Error;

/// Most stacks of a file: what the kernel's map holds, times sixteen, so that files can be put together.
pub const STACKS_MAX: usize = 1 << 18;
/// Most frames of a stack: both halves of one, the process, and inlined frames.
pub const FRAMES_MAX: usize = 1024;

/// The stack of what is not counted by itself.
const OTHER: &str = "[other]";

/// The stack of which nothing is known.
const UNKNOWN: &str = "[unknown]";

/// Bytes of a line beside its stack: a space, 20 digits and the end of the line.
const LINE_BYTES_MAX: usize = 1 + 20 + 1;

/// Stacks and what was counted of each: samples, or microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    stacks: BTreeMap<String, u64>,
}

impl Folded {
    /// Adds to a stack of frames, outermost first; beyond [`STACKS_MAX`] stacks it goes to `[other]`.
    pub fn add(&mut self, frames: &[String], count: u64) {
        let clean = |frame: &String| frame.replace([';', '\n', '\r'], ":");
        let key = frames.iter().take(FRAMES_MAX).map(clean).collect::<Vec<_>>().join(";");
        // A task may have no name, and a line has a frame.
        self.add_line(if key.trim().is_empty() { UNKNOWN } else { &key }, count);
    }

    fn add_line(&mut self, stack: &str, count: u64) {
        let known = self.stacks.len() < STACKS_MAX || self.stacks.contains_key(stack);
        let sum = self.stacks.entry(if known { stack } else { OTHER }.to_owned()).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Adds another recording.
    pub fn merge(&mut self, more: &Self) {
        more.stacks().for_each(|(stack, count)| self.add_line(stack, count));
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// Every stack with its count, by its frames.
    pub fn stacks(&self) -> impl Iterator<Item = (&str, u64)> {
        self.stacks.iter().map(|(stack, count)| (stack.as_str(), *count))
    }

    /// The sum of all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.stacks.values().fold(0, |sum: u64, count| sum.saturating_add(*count))
    }

    /// The text, a line each.
    #[must_use]
    pub fn text(&self) -> String {
        self.stacks.iter().map(|(stack, count)| format!("{stack} {count}\n")).collect()
    }

    /// The text, in at most `bytes_max`: stacks with the highest counts that fit, the rest as `[other]`, so that the
    /// total stays.
    #[must_use]
    pub fn text_within(&self, bytes_max: usize) -> String {
        let text = self.text();
        if text.len() <= bytes_max {
            return text;
        }
        let mut stacks: Vec<(&str, u64)> = self.stacks().filter(|(stack, _)| *stack != OTHER).collect();
        stacks.sort_by_key(|(_, count)| Reverse(*count));
        let mut room = bytes_max.saturating_sub(OTHER.len() + LINE_BYTES_MAX);
        let mut kept = Self::default();
        kept.add_line(OTHER, self.stacks.get(OTHER).copied().unwrap_or(0));
        for (stack, count) in stacks {
            let bytes = stack.len() + LINE_BYTES_MAX;
            let fits = bytes <= room;
            room -= if fits { bytes } else { 0 };
            kept.add_line(if fits { stack } else { OTHER }, count);
        }
        kept.text()
    }

    /// Reads such a text; the same stack twice is added up.
    ///
    /// # Errors
    /// With the line that is none, or when there are too many.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut folded = Self::default();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let refuse = |why: &str| Error::Input(format!("line {}: {why}", at + 1));
            let (stack, count) = line.trim_end().rsplit_once(' ').ok_or_else(|| refuse("no stack and number"))?;
            let count: u64 = count.parse().map_err(|_| refuse("the last word is no number"))?;
            let stack = stack.trim();
            if stack.is_empty() {
                return Err(refuse("there is no frame"));
            }
            if stack.split(';').count() > FRAMES_MAX {
                return Err(refuse(&format!("more than {FRAMES_MAX} frames")));
            }
            if folded.stacks.len() >= STACKS_MAX && !folded.stacks.contains_key(stack) {
                return Err(refuse(&format!("more than {STACKS_MAX} stacks")));
            }
            let sum = folded.stacks.entry(stack.to_owned()).or_default();
            *sum = sum.saturating_add(count);
        }
        Ok(folded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_stacks_are_the_same() {
        let mut folded = Folded::default();
        folded.add(&["main".to_owned(), "operator new(unsigned long)".to_owned()], 3);
        folded.add(&["main".to_owned(), "a;b\nc".to_owned()], 1);
        folded.add(&["main".to_owned(), "a;b\nc".to_owned()], u64::MAX);
        assert_eq!(folded.text(), format!("main;a:b:c {}\nmain;operator new(unsigned long) 3\n", u64::MAX));
        assert_eq!(Folded::parse(&folded.text()).unwrap(), folded);
        assert_eq!(folded.total(), u64::MAX);
        let mut nameless = Folded::default();
        nameless.add(&[" ".to_owned()], 1);
        nameless.add(&[], 2);
        assert_eq!(nameless.text(), "[unknown] 3\n");
        assert_eq!(Folded::parse(&nameless.text()).unwrap(), nameless);
    }

    #[test]
    fn what_is_none_is_refused_with_its_line() {
        let deep = format!("{} 1", vec!["f"; FRAMES_MAX + 1].join(";"));
        for (text, says) in [
            ("a;b", "line 1: no stack and number"),
            ("a 1\n\nb x\n", "line 3: the last word is no number"),
            (" 7", "line 1: there is no frame"),
            ("a -1", "line 1: the last word"),
            (deep.as_str(), "more than 1024 frames"),
        ] {
            assert_eq!(Folded::parse(text).unwrap_err().to_string().split(says).count(), 2, "{text:.40}");
        }
        assert_eq!(Folded::parse("a b;c 1\r\na b;c 2\n").unwrap().text(), "a b;c 3\n");
        assert_eq!(Folded::parse("").unwrap().total(), 0);
    }

    #[test]
    fn a_text_within_a_limit_keeps_the_largest_stacks_and_the_total() {
        let mut folded = Folded::default();
        for at in 1..=100_u64 {
            folded.add(&["main".to_owned(), format!("f{at:03}")], at);
        }
        let whole = folded.text();
        assert_eq!(folded.text_within(whole.len()), whole);
        for bytes_max in [whole.len() - 1, 1000, 200, 60] {
            let text = folded.text_within(bytes_max);
            assert!(text.len() <= bytes_max, "{} of {bytes_max}", text.len());
            let parsed = Folded::parse(&text).unwrap();
            assert_eq!(parsed.total(), folded.total());
            assert_eq!(parsed.stacks.get("main;f100"), Some(&100), "{text}");
        }
        assert_eq!(folded.text_within(0), "[other] 5050\n", "the total is more than a limit below a line");
        let mut twice = folded.clone();
        twice.merge(&folded);
        assert_eq!((twice.total(), twice.stacks.len()), (10_100, 100));
        assert!(Folded::default().is_empty() && !twice.is_empty());
    }

    #[test]
    fn more_stacks_than_can_be_are_one() {
        let mut folded = Folded::default();
        for at in 0..STACKS_MAX + 10 {
            folded.add(&[at.to_string()], 1);
        }
        assert_eq!((folded.stacks.len(), folded.total()), (STACKS_MAX + 1, STACKS_MAX as u64 + 10));
        assert_eq!(folded.stacks["[other]"], 10);
    }
}
