//! A progress bar on standard error, when a person watches it.

use std::io::{IsTerminal, Write};

use super::format::human;

/// 30 characters show a step of three per cent and leave room for the words.
const BAR: usize = 30;

/// A progress line that is overwritten repeatedly.
pub(crate) struct Bar {
    shown: bool,
    what: &'static str,
}

impl Bar {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { shown: std::io::stderr().is_terminal(), what }
    }

    /// Shows how far it is.
    pub(crate) fn show(&self, done: u64, total: u64) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r{}\x1b[K", line(self.what, done, total));
        }
    }

    /// Removes the line.
    pub(crate) fn end(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(what: &str, done: u64, total: u64) -> String {
    let part = if total == 0 { 0.0 } else { (done as f64 / total as f64).min(1.0) };
    let full = (part * BAR as f64) as usize;
    let (bar, rest) = ("=".repeat(full), " ".repeat(BAR - full));
    format!("{what} [{bar}{rest}] {:3.0} % {} of {}", part * 100.0, human(done as f64, "B"), human(total as f64, "B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_up_and_stays_within_its_bounds() {
        assert_eq!(line("scrub", 0, 0), format!("scrub [{}]   0 % 0B of 0B", " ".repeat(30)));
        assert_eq!(line("scrub", 500, 1000), format!("scrub [{}{}]  50 % 500B of 1kB", "=".repeat(15), " ".repeat(15)));
        assert!(line("x", 3000, 1000).contains(&"=".repeat(30)));
    }
}
