//! Whether a clock can be trusted, and for what: one sentence from the figures.
//!
//! Invariants: no finding means the exit code 0. The sentence is that of the gravest finding; the names of all are in
//! [`Verdict::findings`]. Nothing here measures or reads: the same figures give the same sentence.

use ogive_probe::{Mode, OsReason, SystemClock};

use ogive_observe::clock::Figures;
use ogive_observe::clock::cost::{self, Cost};
use ogive_observe::clock::read::TimeSource;

/// Above this, the order of two CPUs' stamps is unreliable for messages between them, which take about as long.
const OFFSET_NS_MAX: f64 = 100.0;
/// Above this bound the clock's line is less accurate than the network's time protocols.
const ERR_NS_MAX: u64 = 10_000;
/// A system clock above this is not read from memory that the kernel shares: a system call or a device is in it.
const SYSTEM_NS_MAX: f64 = 150.0;

/// What was measured in addition to the clock's own state.
#[derive(Clone, Debug)]
pub(super) struct Evidence<'a> {
    pub(super) figures: &'a Figures,
    pub(super) costs: &'a [Cost],
    /// The largest offset between two CPUs that were compared; `None` when none could be.
    pub(super) offset_ns: Option<f64>,
    /// Handoffs of ordered readings that went back.
    pub(super) backward: u64,
}

/// Something that an operator should know before trusting a number; the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Finding {
    /// Ordered readings went back between CPUs.
    Backward,
    /// The kernel uses a slow device because it has given the counter up.
    KernelSlow,
    /// The CPUs' clocks differ.
    CpusDiffer,
    /// Reading the counter raises a signal or is emulated.
    Trapped,
    /// The processor shows no counter of constant rate.
    NoCounter,
    /// The system's clock is read for another reason.
    SystemMode,
    /// The bound on the error is wide.
    WideError,
    /// The system's own clock is slow, though ours is not.
    SystemSlow,
}

impl Finding {
    const fn name(self) -> &'static str {
        match self {
            Self::Backward => "backward",
            Self::KernelSlow => "kernel-source-slow",
            Self::CpusDiffer => "cpus-differ",
            Self::Trapped => "counter-trapped",
            Self::NoCounter => "no-counter",
            Self::SystemMode => "system-mode",
            Self::WideError => "wide-error",
            Self::SystemSlow => "system-clock-slow",
        }
    }
}

/// The conclusion.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    /// Names, the gravest first.
    pub(super) findings: Vec<&'static str>,
    pub(super) sentence: String,
    /// Stamps of different CPUs that are closer than this cannot be put in order.
    pub(super) order_ns: f64,
}

impl Verdict {
    pub(super) const fn trusted(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Judges.
pub(super) fn judge(evidence: &Evidence<'_>) -> Verdict {
    let mut findings = findings(evidence);
    findings.sort_unstable();
    let order_ns = order_ns(evidence);
    let sentence = match findings.first() {
        None => fine(evidence, order_ns),
        Some(finding) => wrong(*finding, evidence),
    };
    Verdict { findings: findings.into_iter().map(Finding::name).collect(), sentence, order_ns }
}

/// A step of the clock, and how far the CPUs are apart.
fn order_ns(evidence: &Evidence<'_>) -> f64 {
    evidence.figures.quantum_ns + evidence.offset_ns.unwrap_or(0.0).abs()
}

fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let figures = evidence.figures;
    let is = |reason: OsReason| figures.reason == Some(reason);
    let mut found = Vec::new();
    let mut note = |finding, holds: bool| {
        if holds {
            found.push(finding);
        }
    };
    let slow = figures.kernel.is_slow() == Some(true);
    let differ = evidence.offset_ns.is_some_and(|offset| offset.abs() > OFFSET_NS_MAX) || is(OsReason::CpusDiffer);
    let (trapped, none) = (is(OsReason::Trapped) || is(OsReason::Emulated), is(OsReason::NoCounter));
    note(Finding::Backward, evidence.backward > 0);
    note(Finding::KernelSlow, slow);
    note(Finding::CpusDiffer, differ);
    note(Finding::Trapped, trapped);
    note(Finding::NoCounter, none);
    note(Finding::SystemMode, figures.mode == Mode::Os && !slow && !differ && !trapped && !none);
    note(Finding::WideError, figures.err_ns > ERR_NS_MAX);
    note(Finding::SystemSlow, !slow && system_ns(evidence) > SYSTEM_NS_MAX);
    found
}

fn system_ns(evidence: &Evidence<'_>) -> f64 {
    cost::median_of(evidence.costs, TimeSource::System(SystemClock::Monotonic)).unwrap_or(0.0)
}

fn fine(evidence: &Evidence<'_>, order_ns: f64) -> String {
    let figures = evidence.figures;
    let [step, order, err] = [figures.quantum_ns, order_ns, figures.err_ns as f64].map(time);
    let cost = time(cost::median_of(evidence.costs, TimeSource::Now).unwrap_or(0.0));
    let order = match evidence.offset_ns {
        Some(_) => format!("do not compare stamps of different CPUs that are closer than {order}"),
        None => "no two CPUs could be compared".into(),
    };
    format!(
        "This clock can be trusted for intervals down to its step of {step}: an ordered read costs {cost}, and it keeps within {err} of the system's clock; {order}."
    )
}

fn wrong(finding: Finding, evidence: &Evidence<'_>) -> String {
    let figures = evidence.figures;
    let (name, system) = (figures.kernel.name(), time(system_ns(evidence)));
    let ten = time(10.0 * system_ns(evidence));
    let offset = time(evidence.offset_ns.unwrap_or(0.0).abs());
    let words = figures.reason.map_or("", |reason| reason.words());
    match finding {
        Finding::Backward => format!(
            "Do not trust the order of events on different CPUs: {} readings were below the reading of another CPU that they answered (the CPUs are {offset} apart); trust only intervals that begin and end in one thread, and ask your administrator to use another clock source than {name}.",
            evidence.backward
        ),
        Finding::KernelSlow if figures.mode == Mode::Counter => format!(
            "Trust Ogive's own readings ({} each: the counter passes the cross-checks although the kernel gave it up), but every program that asks the system for the time waits {system} a read: the clock source is {name}; ask your administrator why the kernel gave the TSC up (`dmesg | grep -i -e tsc -e clocksource`) and to make it usable again.",
            time(cost::median_of(evidence.costs, TimeSource::Now).unwrap_or(0.0))
        ),
        Finding::KernelSlow => format!(
            "Do not trust intervals below {ten}: the kernel's clock source is {name}, which makes each read of the time cost {system} in every program; ask your administrator why the kernel gave the TSC up (`dmesg | grep -i -e tsc -e clocksource`) and to make it usable again, by firmware, hypervisor settings or another host."
        ),
        Finding::CpusDiffer => format!(
            "Do not compare stamps of different CPUs below {offset}: their counters differ by that much, so the system's clock is to be read (a read costs {system}); intervals that begin and end on one CPU are right."
        ),
        Finding::Trapped => format!(
            "Trust this clock for intervals above {ten} alone: {words}, so the system's clock is read, and a read costs {system}; run without what traps the counter (a debugger, an emulator, a sandbox, PR_SET_TSC) to measure shorter ones."
        ),
        Finding::NoCounter => format!(
            "Trust this clock for intervals above {ten} alone: {words}, so the system's clock ({name}) is read, and a read costs {system}; in a virtual machine ask your administrator for the invariant TSC (QEMU: `-cpu host,+invtsc`)."
        ),
        Finding::SystemMode => format!(
            "Trust this clock for intervals above {ten} alone: the system's clock ({name}) is read, at {system} a read, because {words}; ask again in a moment."
        ),
        Finding::WideError => format!(
            "Trust intervals but not the time of day of this clock: it may be off the system's clock by {}, because its calibration is disturbed; ask again in a moment, and look for a time service that steps or slews the clock.",
            time(figures.err_ns as f64)
        ),
        Finding::SystemSlow => format!(
            "Trust Ogive's own readings ({} each), but every program that asks the system for the time waits {system} a read with the clock source {name}; ask your administrator for one that needs no system call, such as tsc.",
            time(cost::median_of(evidence.costs, TimeSource::Now).unwrap_or(0.0))
        ),
    }
}

/// Nanoseconds as people read them: `10 ns`, `1.2 us`.
pub(super) fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ..1e3 => (ns, "ns"),
        ..1e6 => (ns / 1e3, "us"),
        ..1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let text = match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

#[cfg(test)]
mod tests {
    use super::super::testing::sound;
    use super::*;
    use ogive_observe::clock::Kernel;

    fn costs(now_ns: f64, system_ns: f64) -> Vec<Cost> {
        let cost = |read, median_ns| Cost { read, median_ns, p10_ns: median_ns, p90_ns: median_ns };
        vec![cost(TimeSource::Now, now_ns), cost(TimeSource::System(SystemClock::Monotonic), system_ns)]
    }

    fn under(kernel: &str, reason: Option<OsReason>) -> Figures {
        let kernel =
            Kernel { current: Some(kernel.into()), available: vec!["tsc".into(), kernel.into()], ..Kernel::default() };
        let mode = if reason.is_some() { Mode::Os } else { Mode::Counter };
        Figures { kernel, mode, reason, ..sound() }
    }

    /// The names of the findings, and parts that the sentence must have.
    fn check(evidence: &Evidence<'_>, findings: &[&str], parts: &[&str]) {
        let verdict = judge(evidence);
        assert_eq!(verdict.findings, findings, "{}", verdict.sentence);
        assert_eq!(verdict.trusted(), findings.is_empty());
        for part in parts {
            assert!(verdict.sentence.contains(part), "{part:?} is not in: {}", verdict.sentence);
        }
        let ends = verdict.sentence.matches(". ").count();
        assert!(ends == 0 && verdict.sentence.ends_with('.'), "it is one sentence: {}", verdict.sentence);
    }

    fn evidence<'a>(figures: &'a Figures, costs: &'a [Cost]) -> Evidence<'a> {
        Evidence { figures, costs, offset_ns: Some(3.0), backward: 0 }
    }

    #[test]
    fn a_sound_clock_is_trusted_and_says_for_what() {
        let (figures, costs) = (sound(), costs(17.0, 23.0));
        check(
            &evidence(&figures, &costs),
            &[],
            &[
                "can be trusted",
                "step of 10 ns",
                "costs 17 ns",
                "within 40 ns",
                "different CPUs that are closer than 13 ns",
            ],
        );
        let alone = Evidence { offset_ns: None, ..evidence(&figures, &costs) };
        check(&alone, &[], &["no two CPUs could be compared"]);
        // Sound under a hypervisor's own scaling of the counter, too.
        check(&evidence(&under("kvm-clock", None), &costs), &[], &["can be trusted"]);
        let unknown = Figures { kernel: Kernel::default(), ..sound() };
        check(&evidence(&unknown, &costs), &[], &["can be trusted"]);
    }

    #[test]
    fn a_kernel_that_gave_the_counter_up_is_the_administrators_matter() {
        for name in ["hpet", "acpi_pm", "jiffies"] {
            let figures = under(name, Some(OsReason::Demoted));
            check(
                &evidence(&figures, &costs(1_250.0, 1_200.0)),
                &["kernel-source-slow"],
                &[name, "cost 1.2 us in every program", "below 12 us", "ask your administrator", "dmesg"],
            );
        }
    }

    #[test]
    fn a_counter_that_is_kept_against_the_kernel_is_trusted_by_ogive_alone() {
        check(
            &evidence(&under("hpet", None), &costs(24.0, 1_200.0)),
            &["kernel-source-slow"],
            &["Trust Ogive's own readings (24 ns each", "cross-checks", "waits 1.2 us a read", "hpet", "dmesg"],
        );
    }

    #[test]
    fn cpus_that_differ_are_not_to_be_compared() {
        let figures = sound();
        let costs = costs(17.0, 23.0);
        let apart = |offset_ns| Evidence { offset_ns: Some(offset_ns), ..evidence(&figures, &costs) };
        check(&apart(100.0), &[], &["closer than 110 ns"]);
        check(&apart(-101.0), &["cpus-differ"], &["Do not compare stamps of different CPUs below 101 ns"]);
        let found = under("kvm-clock", Some(OsReason::CpusDiffer));
        check(&Evidence { offset_ns: Some(4_000.0), ..evidence(&found, &costs) }, &["cpus-differ"], &["below 4 us"]);
    }

    #[test]
    fn what_goes_back_is_the_gravest() {
        let figures = under("hpet", Some(OsReason::Demoted));
        let costs = costs(1_250.0, 1_200.0);
        let back = Evidence { backward: 7, offset_ns: Some(300.0), ..evidence(&figures, &costs) };
        check(
            &back,
            &["backward", "kernel-source-slow", "cpus-differ"],
            &["Do not trust the order", "7 readings", "300 ns apart"],
        );
    }

    #[test]
    fn the_systems_clock_is_right_and_costs_more() {
        let slower = costs(60.0, 55.0);
        let trap = under("tsc", Some(OsReason::Trapped));
        check(
            &evidence(&trap, &slower),
            &["counter-trapped"],
            &["above 550 ns alone", "PR_SET_TSC", "raises a signal"],
        );
        let emulated = under("tsc", Some(OsReason::Emulated));
        check(&evidence(&emulated, &slower), &["counter-trapped"], &["something emulates it"]);
        let machine = under("kvm-clock", Some(OsReason::NoCounter));
        check(&evidence(&machine, &slower), &["no-counter"], &["invariant TSC", "(kvm-clock)", "costs 55 ns"]);
        let fresh = under("tsc", Some(OsReason::Calibrating));
        check(&evidence(&fresh, &slower), &["system-mode"], &["being calibrated", "ask again"]);
        let starved = under("tsc", Some(OsReason::Starved));
        check(&evidence(&starved, &slower), &["system-mode"], &["got no CPU"]);
    }

    #[test]
    fn a_wide_bound_and_a_system_call_are_findings() {
        let wide = Figures { err_ns: 20_000, ..sound() };
        check(&evidence(&wide, &costs(17.0, 23.0)), &["wide-error"], &["off the system's clock by 20 us"]);
        check(
            &evidence(&under("xen", None), &costs(17.0, 210.0)),
            &["system-clock-slow"],
            &["17 ns each", "waits 210 ns", "source xen"],
        );
    }

    #[test]
    fn times_have_three_digits_and_a_unit() {
        for (ns, expected) in [
            (0.0, "0 ns"),
            (9.99, "9.99 ns"),
            (10.01, "10 ns"),
            (23.14, "23.1 ns"),
            (100.0, "100 ns"),
            (1_234.0, "1.23 us"),
            (40e6, "40 ms"),
            (2.5e9, "2.5 s"),
        ] {
            assert_eq!(time(ns), expected);
        }
    }
}
