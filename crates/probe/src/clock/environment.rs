//! What surrounds the counter: the kernel's opinion of it, its cost, suspends, and what the hypervisor reports.
//!
//! *Invariants*: no verdict is for ever. Each look asks everything again that can change: the clock source, the
//! suspended time and the hypervisor's page each quarter of a second, the cost of reading each minute; a counter that
//! was given up is taken again when its reason is gone. CPUID's facts are asked once: hypervisors keep them over a
//! migration. *Failure*: what cannot be read says nothing, and the counter stays in use.

use super::costs::{self, ReadCosts};
use super::figures::Figures;
use super::os_reason::OsReason;
use super::vmclock::{self, VmClock};
use crate::os::{self, OpenFile};

/// Nanoseconds between checks of cheap properties (a microsecond): the kernel's clock source, the suspended time, the
/// hypervisor's page.
const PERIOD_NS: u64 = 250_000_000;
/// Nanoseconds between comparisons of the counter's cost with the system clock's.
const COST_PERIOD_NS: u64 = 60_000_000_000;
/// The same after the first comparison, which was in the first moments of the clock.
const COST_FIRST_NS: u64 = 1_000_000_000;
/// CLOCK_BOOTTIME moved this much against CLOCK_MONOTONIC: the machine was suspended.
const SUSPENDED_NS: u64 = 10_000_000;

/// The result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Observation {
    /// Why the counter must not be used.
    pub(super) reason: Option<OsReason>,
    /// The kernel has abandoned the counter; the cross-checks decide whether it is used nevertheless.
    pub(super) is_demoted: bool,
    /// Something was looked at.
    pub(super) was_due: bool,
    /// The machine was suspended, moved or restored since the last look.
    pub(super) interrupted: bool,
}

/// The state of the checks.
#[derive(Debug)]
pub(super) struct Environment {
    clock_source: Option<OpenFile>,
    vm_clock: Option<VmClock>,
    name: Option<String>,
    due_ns: u64,
    cost_due_ns: u64,
    /// Reading the counter costs more than asking the system.
    emulated: bool,
    suspended_ns: u64,
    last: Option<OsReason>,
}

impl Environment {
    pub(super) fn new() -> Self {
        Self {
            clock_source: OpenFile::open(os::CLOCK_SOURCE_PATH),
            vm_clock: VmClock::open(vmclock::DEVICE_PATH),
            name: None,
            due_ns: 0,
            cost_due_ns: 0,
            emulated: false,
            suspended_ns: suspended_ns(),
            last: None,
        }
    }

    /// Compares the costs of readings when that is due: right after a publication, so that readings take the fast path.
    /// The next check uses the result.
    pub(super) fn compare_costs(&mut self, now_ns: u64, figures: &Figures, measure: impl Fn() -> ReadCosts) {
        if now_ns < self.cost_due_ns {
            return;
        }
        // The second time soon after the first, which was before the counter was calibrated.
        let period_ns = if self.cost_due_ns == 0 { COST_FIRST_NS } else { COST_PERIOD_NS };
        self.cost_due_ns = now_ns.saturating_add(period_ns);
        let costs = measure();
        costs::show(&costs, figures);
        self.emulated = costs::is_emulated(&costs, self.emulated);
        if let Some(names) = OpenFile::open(os::CLOCK_SOURCES_PATH).and_then(|file| file.text()) {
            figures.os_clock_sources.set(&names);
        }
    }

    /// Checks what is due at `now_ns`.
    pub(super) fn look(&mut self, now_ns: u64, figures: &Figures) -> Observation {
        if now_ns < self.due_ns {
            return Observation {
                reason: self.last,
                is_demoted: self.is_demoted(),
                was_due: false,
                interrupted: false,
            };
        }
        self.due_ns = now_ns.saturating_add(PERIOD_NS);
        let name = self.clock_source.as_ref().and_then(OpenFile::text);
        self.notice_name(name, figures);
        let suspended_ns = suspended_ns();
        let suspended = suspended_ns.abs_diff(self.suspended_ns) > SUSPENDED_NS;
        let moved = self.vm_clock.as_mut().is_some_and(VmClock::was_moved);
        self.suspended_ns = suspended_ns;
        self.last = self.reason();
        figures.vm_clock.set(u64::from(self.vm_clock.is_some()));
        Observation { reason: self.last, is_demoted: self.is_demoted(), was_due: true, interrupted: suspended || moved }
    }

    fn notice_name(&mut self, name: Option<String>, figures: &Figures) {
        if name == self.name {
            return;
        }
        if self.name.is_some() && name.is_some() {
            figures.os_clock_source_changes.count();
        }
        figures.os_clock_source.set(name.as_deref().unwrap_or_default());
        self.name = name;
    }

    fn reason(&self) -> Option<OsReason> {
        self.emulated.then_some(OsReason::Emulated)
    }

    fn is_demoted(&self) -> bool {
        self.name.as_deref().is_some_and(|name| !is_sound(name))
    }
}

fn suspended_ns() -> u64 {
    os::boottime_ns().saturating_sub(os::monotonic_ns())
}

/// Names of kernel clock sources under which an invariant counter keeps good time: the counter itself, and the
/// hypervisors' own scalings of it. Others (hpet, acpi_pm, jiffies) are the kernel's choice when it has found
/// the counter unstable.
fn is_sound(name: &str) -> bool {
    matches!(name, "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page" | "xen" | "arch_sys_counter")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: ReadCosts =
        ReadCosts { ticks_ns: 8.0, ticks_ordered_ns: 17.0, now_unordered_ns: 9.0, now_ns: 20.0, os_ns: 25.0 };

    #[test]
    fn only_the_counters_own_clock_sources_are_sound() {
        for (name, sound) in
            [("tsc", true), ("kvm-clock", true), ("hpet", false), ("acpi_pm", false), ("jiffies", false)]
        {
            assert_eq!(is_sound(name), sound, "{name}");
        }
    }

    fn quiet() -> Environment {
        Environment { clock_source: None, vm_clock: None, ..Environment::new() }
    }

    #[test]
    fn a_demotion_is_seen_ends_and_is_counted() {
        let (mut environment, figures) = (quiet(), Figures::new());
        for (name, is_demoted, changes) in [
            (Some("tsc"), false, 0),
            (Some("hpet"), true, 1),
            (Some("hpet"), true, 1),
            (Some("kvm-clock"), false, 2),
            (None, false, 2),
            (Some("tsc"), false, 2),
        ] {
            environment.notice_name(name.map(str::to_owned), &figures);
            assert_eq!((environment.is_demoted(), environment.reason()), (is_demoted, None), "{name:?}");
            assert_eq!(figures.os_clock_source.get(), name.unwrap_or_default());
            assert_eq!(figures.os_clock_source_changes.get(), changes, "{name:?}");
        }
    }

    #[test]
    fn an_emulated_counter_is_tested_again_each_minute() {
        let (mut environment, figures) = (quiet(), Figures::new());
        let slow = ReadCosts { ticks_ordered_ns: 900.0, ..CHEAP };
        let second = 1_000_000_000;
        let emulated = Some(OsReason::Emulated);
        // The second, what a measurement would give then, whether one is due, and what the next look says.
        let steps = [
            (0, slow, true, emulated),
            (1, slow, true, emulated),
            (60, CHEAP, false, emulated),
            (61, CHEAP, true, None),
            (120, slow, false, None),
            (121, slow, true, emulated),
        ];
        for (at, costs, due, reason) in steps {
            let measured = std::cell::Cell::new(false);
            environment.compare_costs(at * second + 1, &figures, || {
                measured.set(true);
                costs
            });
            assert_eq!(measured.get(), due, "in second {at}");
            assert_eq!(environment.look(at * second + 1, &figures).reason, reason, "in second {at}");
        }
        assert_eq!(figures.cost_ticks_ordered.get_f64(), 900.0);
    }

    #[test]
    fn a_suspend_is_seen_once() {
        let (mut environment, figures) = (quiet(), Figures::new());
        environment.suspended_ns = environment.suspended_ns.wrapping_add(5 * PERIOD_NS);
        assert!(environment.look(1, &figures).interrupted);
        assert!(!environment.look(2, &figures).interrupted, "not due");
        assert!(!environment.look(2 + PERIOD_NS, &figures).interrupted);
    }
}
