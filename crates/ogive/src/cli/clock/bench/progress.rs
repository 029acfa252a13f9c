//! A bar on standard error, when a person watches.

use std::io::IsTerminal;

const COLUMNS: usize = 30;

pub(super) struct Progress {
    shown: bool,
    done: usize,
    steps: usize,
}

impl Progress {
    pub(super) fn new(steps: usize) -> Self {
        Self { shown: std::io::stderr().is_terminal(), done: 0, steps: steps.max(1) }
    }

    #[cfg(test)]
    pub(super) fn silent() -> Self {
        Self { shown: false, done: 0, steps: 1 }
    }

    pub(super) fn step(&mut self, what: &str) {
        self.done = (self.done + 1).min(self.steps);
        if self.shown {
            eprint!("\r\x1b[K{} {what}", bar(self.done, self.steps));
        }
    }

    pub(super) fn end(&self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

fn bar(done: usize, steps: usize) -> String {
    let full = done * COLUMNS / steps;
    format!("[{}{}] {:>3} %", "#".repeat(full), ".".repeat(COLUMNS - full), done * 100 / steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills() {
        assert_eq!(bar(0, 3), "[..............................]   0 %");
        assert_eq!(bar(1, 3), "[##########....................]  33 %");
        assert_eq!(bar(3, 3), "[##############################] 100 %");
    }
}
