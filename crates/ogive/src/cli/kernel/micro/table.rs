//! The table of microstates: its columns, and the orders that its rows can have.

use std::cmp::Reverse;

use ogive_kernel::micro::{Faults, Thread};

/// The names of the columns.
pub(super) const HEAD: &str = concat!(
    "    PID     TID COMM            USR  SYS  TRP  TFL  DFL  LAT  LCK  DSK  NET  SLP  OTH",
    "    VCX    ICX  MIG     SCL  SIG"
);

/// What the rows are sorted by, each with the key that chooses it and its name.
pub(super) const SORTS: [(char, &str, Sort); 9] = [
    ('b', "busy or ready", Sort::Busy),
    ('u', "USR", Sort::User),
    ('s', "SYS", Sort::System),
    ('f', "faults", Sort::Faults),
    ('l', "LAT", Sort::Ready),
    ('k', "LCK", Sort::Locks),
    ('v', "VCX", Sort::Voluntary),
    ('i', "ICX", Sort::Involuntary),
    ('c', "SCL", Sort::Calls),
];

/// An order: the greatest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// User code, system calls, page faults on a CPU and waits for a CPU together.
    #[default]
    Busy,
    User,
    System,
    /// TRP, TFL and DFL together.
    Faults,
    Ready,
    Locks,
    Voluntary,
    Involuntary,
    Calls,
}

impl Sort {
    /// What a key chooses.
    pub(super) fn from_key(key: char) -> Option<Self> {
        SORTS.iter().find(|(known, ..)| *known == key).map(|(.., sort)| *sort)
    }

    pub(super) fn name(self) -> &'static str {
        SORTS.iter().find(|(.., sort)| *sort == self).map_or("", |(_, name, _)| *name)
    }

    /// Sorts; threads that are equal by their numbers.
    pub(super) fn sort(self, threads: &mut [Thread]) {
        let amount = |thread: &Thread| match self {
            Self::Busy => thread.user_ns() + thread.system_ns() + thread.trap_ns() + thread.ready_ns(),
            Self::User => thread.user_ns(),
            Self::System => thread.system_ns(),
            Self::Faults => thread.trap_ns() + thread.text_fault_ns() + thread.data_fault_ns(),
            Self::Ready => thread.ready_ns(),
            Self::Locks => thread.wait_ns("lock"),
            Self::Voluntary => thread.voluntary,
            Self::Involuntary => thread.involuntary,
            Self::Calls => thread.calls,
        };
        threads.sort_by_key(|thread| (Reverse(amount(thread)), thread.tid));
    }
}

/// A thread's row; what the kernel does not show of page faults is `-`.
pub(super) fn row(thread: &Thread, faults: Faults) -> String {
    #[allow(clippy::cast_precision_loss, reason = "a percentage")]
    let percent = |ns: u64| format!("{:>4.1}", ns as f64 * 100.0 / thread.wall_ns.max(1) as f64);
    let if_seen = |is_seen: bool, ns: u64| if is_seen { percent(ns) } else { "   -".to_owned() };
    let others = ["pipe", "child", "stop", "other"].map(|cause| thread.wait_ns(cause)).iter().sum();
    let states = [
        percent(thread.user_ns()),
        percent(thread.system_ns()),
        if_seen(faults == Faults::Timed, thread.trap_ns()),
        if_seen(faults != Faults::Unseen, thread.text_fault_ns()),
        percent(thread.data_fault_ns()),
        percent(thread.ready_ns()),
        percent(thread.wait_ns("lock")),
        percent(thread.wait_ns("disk")),
        percent(thread.wait_ns("network")),
        percent(thread.wait_ns("sleep")),
        percent(others),
    ]
    .join(" ");
    format!(
        "{:>7} {:>7} {:<15} {states} {:>6} {:>6} {:>4} {:>7} {:>4}",
        thread.tgid,
        thread.tid,
        thread.comm,
        thread.voluntary,
        thread.involuntary,
        thread.migrations,
        thread.calls,
        thread.signals
    )
}
