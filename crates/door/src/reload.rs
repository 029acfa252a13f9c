//! Configurations that are read again while the server runs, and what keeps a half-written one out.
//!
//! A file that is being written, or was cut off, is often still a valid configuration: one with fewer jobs.
//! Invariants: what is taken was the same at two looks, `SETTLE` apart; a file that ends in the middle of a line
//! although it did not before, or that became empty, is refused, and so is a configuration that lost all its entries
//! without a list that says so. A start takes all of these.
//! Threads: [`settled`] blocks; call it beside the async threads.
//! Limits: `LOOKS_MAX`.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::own_value::OwnValue;

/// 100 ms: an editor or a tool writes a file of a few MB within that.
const SETTLE: Duration = Duration::from_millis(100);
/// 20 looks: a file that is still changing after 2 s is refused; its writer sends another signal when it is done.
const LOOKS_MAX: usize = 20;

/// The files of a configuration, as they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    files: BTreeMap<PathBuf, Mark>,
    /// Jobs, checks or destinations in all of them.
    entries: usize,
    /// A list without any is written out.
    is_empty_list: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    hash: u64,
    is_blank: bool,
    /// The last line has its end.
    is_whole: bool,
}

impl Marks {
    /// Records the contents of the file at `path`.
    pub fn note(&mut self, path: &Path, bytes: &[u8]) {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let is_blank = bytes.trim_ascii().is_empty();
        let mark = Mark { hash: hasher.finish(), is_blank, is_whole: bytes.ends_with(b"\n") };
        self.files.insert(path.to_owned(), mark);
    }

    /// Notes the files of another part of the configuration.
    pub fn extend(&mut self, other: Self) {
        self.files.extend(other.files);
        self.is_empty_list |= other.is_empty_list;
        self.entries += other.entries;
    }

    /// Records the number of entries in the files; no entries are intended if an empty list is written out.
    pub fn count(&mut self, entries: usize, is_empty_list: bool) {
        (self.entries, self.is_empty_list) = (entries, is_empty_list);
    }

    /// Why `next` looks like files that were emptied or truncated; None when it does not.
    pub fn lost_in(&self, next: &Self) -> Option<String> {
        for (path, mark) in &next.files {
            let Some(before) = self.files.get(path) else { continue };
            if mark.is_blank && !before.is_blank {
                return Some(format!("{} became empty", path.display()));
            }
            if before.is_whole && !mark.is_whole {
                return Some(format!("{} ends in the middle of a line, without a newline", path.display()));
            }
        }
        let is_lost = self.entries > 0 && next.entries == 0 && !next.is_empty_list;
        is_lost.then(|| "it has no entry any more, and no empty list that says so".into())
    }
}

/// The result of `load` once two calls read the same bytes, unless it lost what `before` had.
///
/// # Errors
/// The error of `load` when two calls read the same bytes; that the files keep changing; what was lost.
pub fn settled<T>(before: &Marks, mut load: impl FnMut() -> Result<(T, Marks), String>) -> Result<(T, Marks), String> {
    let mut last = load();
    for _ in 1..LOOKS_MAX {
        std::thread::sleep(SETTLE);
        let next = load();
        let is_settled = match (&last, &next) {
            (Ok((_, last)), Ok((_, next))) => last == next,
            (Err(last), Err(next)) => last == next,
            _ => false,
        };
        if is_settled {
            let (found, marks) = next?;
            return match before.lost_in(&marks) {
                Some(lost) => Err(format!(
                    "{lost}; a file that was cut off looks like this. Put it right, or start the server anew if it is meant"
                )),
                None => Ok((found, marks)),
            };
        }
        last = next;
    }
    Err("the files keep changing; send the signal again when they are written".into())
}

/// The outcomes of reloading one kind of configuration.
#[derive(Debug, Default)]
struct Outcomes {
    taken: AtomicU64,
    failed: AtomicU64,
    is_refused: AtomicBool,
}

/// Kinds of configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigKind {
    /// Scrape configurations.
    Scrape,
    /// Checks.
    Checks,
    /// A broker's file.
    Broker,
    /// Rule files.
    Rules,
    /// Forwards.
    Forwards,
    /// Rules of operations on the wire.
    Wire,
}

impl ConfigKind {
    const ALL: [Self; 6] = [Self::Scrape, Self::Checks, Self::Broker, Self::Rules, Self::Forwards, Self::Wire];

    const fn name(self) -> &'static str {
        match self {
            Self::Scrape => "scrape",
            Self::Checks => "checks",
            Self::Broker => "broker",
            Self::Rules => "rules",
            Self::Forwards => "forwards",
            Self::Wire => "wire",
        }
    }
}

/// The outcomes of reloading configurations, by kind.
#[derive(Debug, Default)]
pub struct Reloads([Outcomes; ConfigKind::ALL.len()]);

/// Their metrics and help texts.
pub const HELP: [(&str, &str); 3] = [
    (
        "ogive_config_refused",
        "1 while the configuration's files were refused and the one before is in force, by config.",
    ),
    ("ogive_config_reloads_total", "Configurations that were read again and came into force, by config."),
    ("ogive_config_reload_failures_total", "Configurations that were read again and refused, by config."),
];

impl Reloads {
    /// Records that a configuration was reloaded.
    pub fn ended(&self, which: ConfigKind, is_taken: bool) {
        let outcomes = &self.0[which as usize];
        // ORDERING: Relaxed, both; figures that are read on their own.
        if is_taken { &outcomes.taken } else { &outcomes.failed }.fetch_add(1, Ordering::Relaxed);
        outcomes.is_refused.store(!is_taken, Ordering::Relaxed);
    }

    /// As series, for the kinds that were reloaded.
    pub fn values(&self) -> Vec<OwnValue> {
        let mut out = Vec::new();
        for (name, _) in HELP {
            for (which, outcomes) in ConfigKind::ALL.iter().zip(&self.0) {
                // ORDERING: Relaxed, also below; as in `ended`.
                let [taken, failed] = [&outcomes.taken, &outcomes.failed].map(|count| count.load(Ordering::Relaxed));
                if taken + failed == 0 {
                    continue;
                }
                let labels = [("config", which.name())];
                let is_refused = f64::from(u8::from(outcomes.is_refused.load(Ordering::Relaxed)));
                out.push(match name {
                    "ogive_config_refused" => OwnValue::gauge(name, &labels, "", is_refused),
                    "ogive_config_reloads_total" => OwnValue::counter(name, &labels, taken as f64),
                    _ => OwnValue::counter(name, &labels, failed as f64),
                });
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(text: &str, entries: usize, is_empty_list: bool) -> Marks {
        let mut out = Marks::default();
        out.note(Path::new("a"), text.as_bytes());
        out.count(entries, is_empty_list);
        out
    }

    #[test]
    fn what_was_cut_is_found_and_what_is_meant_is_not() {
        let check = |next: Marks, word: Option<&str>| {
            let lost = marks("x\ny\n", 2, false).lost_in(&next);
            assert_eq!(lost.is_some(), word.is_some(), "{lost:?}");
            assert!(lost.unwrap_or_default().contains(word.unwrap_or_default()));
        };
        check(marks("x\n", 1, false), None);
        check(marks("x\ny\nz\n", 3, false), None);
        check(marks("x\ny", 2, false), Some("middle of a line"));
        check(marks(" \n", 0, false), Some("became empty"));
        check(marks("# nothing\n", 0, false), Some("no entry"));
        check(marks("list: []\n", 0, true), None);
        assert_eq!(marks("x", 1, false).lost_in(&marks("y", 1, false)), None, "it never had an end");
    }

    #[test]
    fn files_are_taken_when_they_no_longer_change() {
        let mut looks = ["half\n", "half and\n", "whole\n", "whole\n"].into_iter();
        let found = settled(&marks("before\n", 1, false), || {
            let text = looks.next().expect("no look more");
            Ok((text, marks(text, 1, false)))
        });
        assert_eq!(found.map(|(text, _)| text), Ok("whole\n"));
        let mut look = 0;
        let found = settled(&Marks::default(), || {
            look += 1;
            Ok((look, marks(&look.to_string(), 1, false)))
        });
        assert!(found.is_err_and(|error| error.contains("keep changing")) && look == LOOKS_MAX);
        let wrong = settled::<()>(&Marks::default(), || Err("line 3: wrong".into()));
        assert_eq!(wrong.unwrap_err(), "line 3: wrong");
    }
}
