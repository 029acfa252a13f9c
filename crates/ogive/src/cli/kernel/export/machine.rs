//! The machine as a whole: interrupts, pressure, herds, and what the observer itself costs.

use std::collections::HashMap;
use std::path::Path;

use ogive_kernel::budget::Budget;
use ogive_kernel::proc;
use ogive_kernel::sched::{Drained, Interrupt};

use super::sent::{Family, Sent, Source};
use crate::cli::config_file;

/// Rows of /proc/interrupts that have a series; the rest are `other`.
const INTERRUPTS_MAX: usize = 128;

/// The series of the machine.
pub(super) struct Machine {
    family: Family,
    /// The previous counters of `/proc`; empty at the first reading, which yields no differences.
    before: HashMap<String, u64>,
}

impl Machine {
    pub(super) fn new(sent: &Sent) -> Self {
        Self { family: Family::new(sent, Vec::new()), before: HashMap::new() }
    }

    /// Interrupts and herds, as the scheduler's programs saw them.
    pub(super) fn drained(&mut self, drained: &Drained) {
        for interrupt in &drained.interrupts {
            self.interrupt(interrupt);
        }
        for herd in &drained.herds {
            let labels = [("call", herd.call.as_str())];
            self.family.count(Source::Bpf, "ogive_kernel_herds_total", &labels, 1);
            self.family.count(Source::Bpf, "ogive_kernel_herd_wake_ups_total", &labels, herd.woken.into());
        }
        self.lost("herd", drained.lost_herds);
        self.family.count(Source::Own, "ogive_kernel_unseen_events_total", &[], drained.unseen);
    }

    /// Counts events that were not seen, or that did not fit.
    pub(super) fn lost(&mut self, kind: &str, more: u64) {
        self.family.count(Source::Own, "ogive_kernel_lost_events_total", &[("kind", kind)], more);
    }

    fn interrupt(&mut self, interrupt: &Interrupt) {
        if interrupt.kind == "lateness" {
            self.family.times(Source::Bpf, "ogive_kernel_timer_lateness_seconds", &[], &interrupt.took);
            return;
        }
        let kind = ("interrupt", interrupt.kind);
        self.family.times(Source::Bpf, "ogive_kernel_interrupt_seconds", &[kind], &interrupt.took);
        for (cpu, ns) in interrupt.cpus_ns.iter().enumerate() {
            let cpu = cpu.to_string();
            let labels = [kind, ("cpu", cpu.as_str())];
            self.family.count(Source::Bpf, "ogive_kernel_interrupt_nanoseconds_total", &labels, *ns);
        }
    }

    /// Reads the counters of `/proc`.
    pub(super) fn read_proc(&mut self) {
        let text = |path: &str| config_file::text(Path::new(path)).unwrap_or_default();
        let (cpus, rows) = proc::interrupts(&text("/proc/softirqs"));
        for row in rows {
            for (cpu, count) in cpus.iter().zip(row.counts) {
                let cpu = cpu.to_string();
                let labels = [("softirq", row.name.as_str()), ("cpu", cpu.as_str())];
                self.grown("ogive_kernel_softirqs_total", &labels, count);
            }
        }
        let (_, rows) = proc::interrupts(&text("/proc/interrupts"));
        for (at, row) in rows.iter().enumerate() {
            let sum = row.counts.iter().sum();
            let more = self.growth(&format!("interrupt {}", row.name), sum);
            let name = if at < INTERRUPTS_MAX { row.name.as_str() } else { "other" };
            self.family.count(Source::Proc, "ogive_kernel_interrupts_total", &[("interrupt", name)], more);
        }
        for resource in ["cpu", "io", "memory", "irq"] {
            let totals = proc::pressure(&text(&format!("/proc/pressure/{resource}")));
            for (kind, total) in ["some", "full"].into_iter().zip(totals) {
                let labels = [("resource", resource), ("kind", kind)];
                self.grown("ogive_kernel_pressure_microseconds_total", &labels, total.unwrap_or(0));
            }
        }
    }

    fn grown(&mut self, name: &'static str, labels: &[(&'static str, &str)], now: u64) {
        let values: Vec<&str> = labels.iter().map(|(_, value)| *value).collect();
        let more = self.growth(&format!("{name} {}", values.join(" ")), now);
        self.family.count(Source::Proc, name, labels, more);
    }

    fn growth(&mut self, key: &str, now: u64) -> u64 {
        match self.before.get_mut(key) {
            Some(before) => now.saturating_sub(std::mem::replace(before, now)),
            None => {
                self.before.insert(key.to_owned(), now);
                0
            }
        }
    }

    /// Reports the share of a core that the observer's parts used, and the state of the budget.
    pub(super) fn cost(&mut self, shares: &[(&'static str, f64)], budget: &Budget, is_measured: bool) {
        let mut state = |name, labels: &[_], value| self.family.state(Source::Own, name, labels, value);
        for (part, share) in shares {
            state("ogive_kernel_self_core_share", &[("part", *part)], *share);
        }
        state("ogive_kernel_budget_core_share", &[], budget.core_share_max());
        state("ogive_kernel_budget_exceeded", &[], f64::from(u8::from(budget.is_exceeded())));
        state("ogive_kernel_self_measured", &[], f64::from(u8::from(is_measured)));
        for (part, is_shed, _) in budget.parts() {
            state("ogive_kernel_shed", &[("part", part)], f64::from(u8::from(is_shed)));
        }
    }

    /// A part was shed.
    pub(super) fn shed(&mut self, part: &'static str) {
        self.family.count(Source::Own, "ogive_kernel_sheds_total", &[("part", part)], 1);
    }

    /// Reports whether a wanted part does not work here.
    pub(super) fn failed(&mut self, part: &'static str, has_failed: bool) {
        let failed = f64::from(u8::from(has_failed));
        self.family.state(Source::Own, "ogive_kernel_failed", &[("part", part)], failed);
    }
}
