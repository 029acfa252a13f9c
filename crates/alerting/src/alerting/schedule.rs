//! Groups of rules and their slots, and which one a worker evaluates next.
//!
//! Invariants: a group is evaluated by one worker at a time; groups that took long have at most [`HEAVY_MAX`] of the
//! workers at once, so the others never wait for them.

use std::sync::Arc;
use std::time::Duration;

use ogive_detect::rules::Group;
use ogive_model::{Tenant, WallMs};

/// 4 threads evaluate groups: two for those that take long, and two that never wait for them.
pub(super) const WORKERS: usize = 4;
/// Groups that took long and are evaluated at once.
const HEAVY_MAX: usize = 2;
const _: () = assert!(HEAVY_MAX < WORKERS);
/// 250 ms: the time for 100,000 elements. A group that took longer is heavy, and one that was never evaluated may be.
const HEAVY: Duration = Duration::from_millis(250);

/// A group, and whether a worker has it.
pub(super) struct Slot {
    /// The tenant whose series it sees.
    pub(super) tenant: Tenant,
    pub(super) group: Arc<Group>,
    /// Its next evaluation.
    pub(super) next: WallMs,
    pub(super) is_busy: bool,
}

impl Slot {
    /// Whether it is the slot of a tenant's group.
    pub(super) fn is_of(&self, tenant: &Tenant, group: &Group) -> bool {
        (&self.tenant, &self.group.file, &self.group.name) == (tenant, &group.file, &group.name)
    }

    fn is_heavy(&self) -> bool {
        self.group.evaluated_at.is_none() || self.group.took > HEAVY
    }
}

/// Of the slots that are due and that a worker may take now, the one whose group has waited longest.
pub(super) fn next(slots: &[Slot], is_due: impl Fn(&Slot) -> bool) -> Option<usize> {
    let heavy_count = slots.iter().filter(|slot| slot.is_busy && slot.is_heavy()).count();
    let may_take = |slot: &Slot| !slot.is_busy && (heavy_count < HEAVY_MAX || !slot.is_heavy());
    let free = slots.iter().enumerate().filter(|(_, slot)| may_take(slot) && is_due(slot));
    free.min_by_key(|(_, slot)| slot.next).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use ogive_detect::rules::{GroupDefaults, RuleFile};
    use ogive_model::Ms;

    use super::*;

    fn slots(took_ms: &[u64]) -> Vec<Slot> {
        let file = RuleFile::parse("groups: [{name: a, rules: [{record: b, expr: c}]}]").unwrap();
        let defaults = GroupDefaults { interval: Ms(1_000), query_offset: Ms::ZERO };
        let slot = |(number, took_ms): (usize, &u64)| {
            let mut group = Group::new("f", &file.groups[0], defaults);
            (group.evaluated_at, group.took) = (Some(WallMs(0)), Duration::from_millis(*took_ms));
            Slot { tenant: Tenant::default(), group: Arc::new(group), next: WallMs(number as i64), is_busy: false }
        };
        took_ms.iter().enumerate().map(slot).collect()
    }

    /// Groups that take half a minute each once had both workers, and a group of ten milliseconds waited for them.
    #[test]
    fn groups_that_take_long_leave_workers_to_the_others() {
        let mut slots = slots(&[30_000, 30_000, 30_000, 10, 10, 10]);
        let mut taken = Vec::new();
        for _ in 0..WORKERS {
            let number = next(&slots, |_| true).expect("there is one for each worker");
            slots[number].is_busy = true;
            taken.push(number);
        }
        assert_eq!(taken, [0, 1, 3, 4], "the third that takes long waits for the others of its kind");
        slots[0].is_busy = false;
        assert_eq!(next(&slots, |_| true), Some(0));
        assert_eq!(next(&slots, |slot| slot.next > WallMs(0)), Some(2));
        assert_eq!(next(&slots, |_| false), None);
    }

    #[test]
    fn a_group_that_was_never_evaluated_may_take_long() {
        let mut slots = slots(&[10, 10, 10]);
        for slot in &mut slots {
            Arc::get_mut(&mut slot.group).unwrap().evaluated_at = None;
        }
        slots[0].is_busy = true;
        slots[1].is_busy = true;
        assert_eq!(next(&slots, |_| true), None);
    }
}
