//! DogStatsD's events and service checks.
//!
//! Format: `_e{<title bytes>,<text bytes>}:<title>|<text>[|d:<seconds>][|h:<host>][|p:<priority>][|t:<alert
//! type>][|s:<source>][|k:<key>][|#tags]` and `_sc|<name>|<status
//! 0..3>[|d:<seconds>][|h:<host>][|#tags][|m:<message>]`.

use super::Tags;
use crate::lines::{self, Fault};

/// Something that happened, in words.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Event<'a> {
    /// Its title; `\n` in it stands for a new line, as in the text.
    pub title: &'a str,
    /// More about it.
    pub text: &'a str,
    /// Where, how urgent, what kind, from what: label names and values, those that are there.
    pub about: [(&'static str, &'a str); 4],
    /// Its tags.
    pub tags: Tags<'a>,
    /// When, if the sender says.
    pub time_ns: Option<i64>,
}

impl<'a> Event<'a> {
    /// Reads what stands behind `_e{`.
    pub(super) fn read(text: &'a str) -> Result<Self, Fault> {
        let (lengths, rest) = text.split_once("}:").ok_or(Fault::Fields)?;
        let (title, text) = lengths.split_once(',').ok_or(Fault::Fields)?;
        let length = |text: &str| text.parse::<usize>().map_err(|_| Fault::Value);
        let (title, rest) = split(rest, length(title)?)?;
        let rest = rest.strip_prefix('|').ok_or(Fault::Fields)?;
        let (text, rest) = split(rest, length(text)?)?;
        if title.is_empty() {
            return Err(Fault::Name);
        }
        let mut event = Self { title, text, ..Self::default() };
        let sections = match rest.strip_prefix('|') {
            Some(sections) => sections,
            None if rest.is_empty() => return Ok(event),
            None => return Err(Fault::Fields),
        };
        event.tags = Tags(sections);
        for section in sections.split('|') {
            match section.split_at_checked(2) {
                Some(("d:", time)) => event.time_ns = Some(lines::seconds_ns(time)?),
                Some(("h:", host)) => event.about[0] = ("host", host),
                Some(("p:", priority)) => event.about[1] = ("priority", priority),
                Some(("t:", kind)) => event.about[2] = ("alert_type", kind),
                Some(("s:", source)) => event.about[3] = ("source_type", source),
                _ if known(section) => {}
                _ => return Err(Fault::Fields),
            }
        }
        Ok(event)
    }
}

/// Whether something is well.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Check<'a> {
    /// What was looked at.
    pub name: &'a str,
    /// 0 well, 1 warning, 2 critical, 3 unknown.
    pub status: u8,
    /// Where.
    pub host: &'a str,
    /// Its tags.
    pub tags: Tags<'a>,
    /// What there is to say; empty for nothing.
    pub message: &'a str,
    /// When, if the sender says.
    pub time_ns: Option<i64>,
}

impl<'a> Check<'a> {
    /// Reads what stands behind `_sc|`.
    pub(super) fn read(text: &'a str) -> Result<Self, Fault> {
        let (name, rest) = text.split_once('|').ok_or(Fault::Fields)?;
        if name.is_empty() {
            return Err(Fault::Name);
        }
        // The message is last and may hold anything.
        let (rest, message) = rest.split_once("|m:").unwrap_or((rest, ""));
        let (status, sections) = rest.split_once('|').unwrap_or((rest, ""));
        let status = match status {
            "0" => 0,
            "1" => 1,
            "2" => 2,
            "3" => 3,
            _ => return Err(Fault::Value),
        };
        let mut check = Self { name, status, tags: Tags(sections), message, ..Self::default() };
        for section in sections.split('|').filter(|section| !section.is_empty()) {
            match section.split_at_checked(2) {
                Some(("d:", time)) => check.time_ns = Some(lines::seconds_ns(time)?),
                Some(("h:", host)) => check.host = host,
                _ if known(section) => {}
                _ => return Err(Fault::Fields),
            }
        }
        Ok(check)
    }
}

/// Sections that are read elsewhere or say nothing of what happened: tags, a key to join events by, the origin.
fn known(section: &str) -> bool {
    ["#", "k:", "c:", "e:", "card:"].iter().any(|begin| section.starts_with(begin))
}

/// The first `length` bytes and the rest.
fn split(text: &str, length: usize) -> Result<(&str, &str), Fault> {
    text.split_at_checked(length).ok_or(Fault::Cut)
}
