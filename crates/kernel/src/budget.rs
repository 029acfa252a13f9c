//! The observer's budget: its cost, measured by its own programs and threads, and the parts that are shed above it.
//!
//! Invariants: parts are shed one at a time in the order given, and restored in reverse order; parts marked as such are
//! never shed. Time is an argument.
//! Limits: a part that was shed is tried again after [`PAUSE_NS`]; each time that it exceeds the budget again the pause
//! doubles, up to [`PAUSE_NS_MAX`].

/// A minute: programs whose load comes and goes are not switched on and off each second.
pub const PAUSE_NS: u64 = 60_000_000_000;

/// An hour: a part that never fits is switched on 24 times a day.
pub const PAUSE_NS_MAX: u64 = 60 * PAUSE_NS;

/// What can be observed on its own.
#[derive(Clone, Debug)]
struct Part {
    name: &'static str,
    can_shed: bool,
    is_shed: bool,
    /// When it may come back, and the pause before that.
    back_at_ns: u64,
    pause_ns: u64,
    sheds: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// This part is no longer observed.
    Shed(&'static str),
    /// It is observed again.
    Restore(&'static str),
}

/// The parts of an observer, and how much of a core they may take together.
#[derive(Clone, Debug)]
pub struct Budget {
    core_share_max: f64,
    parts: Vec<Part>,
    is_exceeded: bool,
}

impl Budget {
    /// A budget of `core_share_max` of a core (0.01 is one percent). Each part is named with whether it can be shed,
    /// what goes first first.
    #[must_use]
    pub fn new(core_share_max: f64, parts: &[(&'static str, bool)]) -> Self {
        let part = |(name, can_shed): &(&'static str, bool)| Part {
            name,
            can_shed: *can_shed,
            is_shed: false,
            back_at_ns: 0,
            pause_ns: PAUSE_NS,
            sheds: 0,
        };
        Self { core_share_max, parts: parts.iter().map(part).collect(), is_exceeded: false }
    }

    /// Of a core, what all parts together may take.
    #[must_use]
    pub fn core_share_max(&self) -> f64 {
        self.core_share_max
    }

    /// Whether more is taken than may be, and nothing is left to shed.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }

    /// The parts: name, whether it is shed now, and how often it was.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, bool, u64)> + '_ {
        self.parts.iter().map(|part| (part.name, part.is_shed, part.sheds))
    }

    /// What follows from having taken `core_share` until `now_ns`.
    pub fn judge(&mut self, core_share: f64, now_ns: u64) -> Option<Change> {
        let is_over = core_share > self.core_share_max;
        let victim = self.parts.iter_mut().find(|part| part.can_shed && !part.is_shed);
        self.is_exceeded = is_over && victim.is_none();
        if is_over {
            let part = victim?;
            // It was back and did not fit.
            if part.sheds > 0 {
                part.pause_ns = (part.pause_ns * 2).min(PAUSE_NS_MAX);
            }
            part.is_shed = true;
            part.sheds += 1;
            part.back_at_ns = now_ns.saturating_add(part.pause_ns);
            return Some(Change::Shed(part.name));
        }
        let part = self.parts.iter_mut().rev().find(|part| part.is_shed)?;
        if now_ns < part.back_at_ns {
            return None;
        }
        part.is_shed = false;
        Some(Change::Restore(part.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: &[(&str, bool)] = &[("calls", true), ("stacks", true), ("sched", false)];

    #[test]
    fn parts_go_in_their_order_and_the_last_stays() {
        let mut budget = Budget::new(0.01, PARTS);
        assert_eq!(budget.judge(0.01, 0), None, "at the limit");
        assert_eq!(budget.judge(0.0101, 1), Some(Change::Shed("calls")));
        assert_eq!(budget.judge(0.02, 2), Some(Change::Shed("stacks")));
        assert!(!budget.is_exceeded());
        assert_eq!(budget.judge(0.02, 3), None);
        assert!(budget.is_exceeded(), "nothing is left, and that is said");
        assert_eq!(budget.parts().collect::<Vec<_>>(), [("calls", true, 1), ("stacks", true, 1), ("sched", false, 0)]);
    }

    #[test]
    fn what_was_shed_comes_back_after_a_pause_and_later_each_time_that_it_did_not_fit() {
        let mut budget = Budget::new(0.01, PARTS);
        assert_eq!(budget.judge(0.02, 0), Some(Change::Shed("calls")));
        assert_eq!(budget.judge(0.02, 1), Some(Change::Shed("stacks")));
        assert_eq!(budget.judge(0.001, PAUSE_NS), None, "stacks went last, a nanosecond later, and come first");
        assert_eq!(budget.judge(0.001, PAUSE_NS + 1), Some(Change::Restore("stacks")));
        assert_eq!(budget.judge(0.001, PAUSE_NS + 1), Some(Change::Restore("calls")));
        let mut now = PAUSE_NS + 1;
        for doubled in 1..=8 {
            assert_eq!(budget.judge(0.02, now), Some(Change::Shed("calls")));
            let pause = (PAUSE_NS << doubled).min(PAUSE_NS_MAX);
            assert_eq!(budget.judge(0.0, now + pause - 1), None);
            assert_eq!(budget.judge(0.0, now + pause), Some(Change::Restore("calls")));
            now += pause;
        }
    }
}
