//! Counters in `/proc`, which every user can read: what is available without programs in the kernel.
//!
//! Text in, numbers out; the files are read elsewhere. Unknown lines are ignored, since kernels add some.
//! Limits: [`ROWS_MAX`] rows per table.

/// 512 rows: a machine of 64 CPUs and four network cards has 300 interrupts.
pub const ROWS_MAX: usize = 512;

/// Where the kernel says whether it accounts for delays: [`DelayAccounting::parse`].
pub const DELAY_ACCOUNTING: &str = "/proc/sys/kernel/task_delayacct";

/// 10 ms: the clock ticks in which `/proc` counts have been hundredths of a second on x86-64 since Linux 2.6.
const TICK_NS: u64 = 10_000_000;

/// Whether the kernel accounts for the delays of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayAccounting {
    /// Of tasks that began since it was switched on.
    On,
    /// `sysctl kernel.task_delayacct=1` switches it on.
    Off,
    /// The kernel was built without (CONFIG_TASK_DELAY_ACCT), or is older than Linux 5.14.
    Missing,
}

impl DelayAccounting {
    /// The text of [`DELAY_ACCOUNTING`]; None when there is no such file.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Self {
        match text.map(str::trim) {
            Some("1") => Self::On,
            Some(_) => Self::Off,
            None => Self::Missing,
        }
    }
}

/// Nanoseconds that a thread waited for block devices, in steps of 10 ms: `/proc/PID/task/TID/stat`. 0 unless
/// [`DelayAccounting::On`].
#[must_use]
pub fn block_io_delay_ns(stat: &str) -> Option<u64> {
    // A name may hold anything, brackets and spaces included. What follows it is the third field of proc(5).
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields.split_ascii_whitespace().nth(42 - 3)?.parse().ok()?;
    Some(ticks.saturating_mul(TICK_NS))
}

/// What the scheduler counted of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// Nanoseconds on a CPU.
    pub ran_ns: u64,
    /// Nanoseconds ready, while another had the CPU.
    pub ready_ns: u64,
    /// Times on a CPU.
    pub slices: u64,
    /// Switches because it waited for something.
    pub voluntary: u64,
    /// Switches because another took the CPU.
    pub involuntary: u64,
    /// Nanoseconds that it waited for block devices, where that is known: [`block_io_delay_ns`].
    pub block_io_delay_ns: u64,
}

impl Scheduling {
    /// `/proc/PID/task/TID/schedstat` and `status`, without delays.
    #[must_use]
    pub fn parse(schedstat: &str, status: &str) -> Option<Self> {
        let mut numbers = schedstat.split_ascii_whitespace().map(|word| word.parse().ok());
        let mut number = || numbers.next().flatten();
        let (ran_ns, ready_ns, slices) = (number()?, number()?, number()?);
        let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        let (voluntary, involuntary) = (line("voluntary_ctxt_switches:")?, line("nonvoluntary_ctxt_switches:")?);
        Some(Self { ran_ns, ready_ns, slices, voluntary, involuntary, block_io_delay_ns: 0 })
    }

    /// What was counted since an earlier reading of the same thread.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            ran_ns: self.ran_ns.saturating_sub(before.ran_ns),
            ready_ns: self.ready_ns.saturating_sub(before.ready_ns),
            slices: self.slices.saturating_sub(before.slices),
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
            block_io_delay_ns: self.block_io_delay_ns.saturating_sub(before.block_io_delay_ns),
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, more: &Self) -> Self {
        Self {
            ran_ns: self.ran_ns.saturating_add(more.ran_ns),
            ready_ns: self.ready_ns.saturating_add(more.ready_ns),
            slices: self.slices.saturating_add(more.slices),
            voluntary: self.voluntary.saturating_add(more.voluntary),
            involuntary: self.involuntary.saturating_add(more.involuntary),
            block_io_delay_ns: self.block_io_delay_ns.saturating_add(more.block_io_delay_ns),
        }
    }
}

/// A row of `/proc/softirqs` or `/proc/interrupts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterruptRow {
    /// `NET_RX`, `24` or `LOC`.
    pub name: String,
    /// Counts, in the order of the CPUs of the head.
    pub counts: Vec<u64>,
}

/// The numbers of the CPUs in the head of `/proc/softirqs` or `/proc/interrupts`, and its rows that count by CPU.
#[must_use]
pub fn interrupts(text: &str) -> (Vec<u32>, Vec<InterruptRow>) {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let cpus: Vec<u32> =
        head.split_ascii_whitespace().filter_map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
    let row = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let words = rest.split_ascii_whitespace().take(cpus.len());
        let counts: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        // ERR and MIS count for all CPUs together.
        (counts.len() == cpus.len()).then(|| InterruptRow { name: name.trim().to_owned(), counts })
    };
    let rows = lines.filter_map(row).take(ROWS_MAX).collect();
    (cpus, rows)
}

/// Microseconds for which some, and all, of the tasks that could do something waited: `/proc/pressure/RESOURCE`. A
/// kernel that does not count `full` for CPUs leaves it out.
#[must_use]
pub fn pressure(text: &str) -> [Option<u64>; 2] {
    ["some ", "full "].map(|kind| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
        line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total=")?.parse().ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_s_counters_are_in_two_files() {
        let status = "Name:\ta\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        let parsed = Scheduling::parse("500 70 15\n", status);
        let expected =
            Scheduling { ran_ns: 500, ready_ns: 70, slices: 15, voluntary: 12, involuntary: 3, block_io_delay_ns: 0 };
        assert_eq!(parsed, Some(expected));
        for (schedstat, status) in [("", status), ("1 2", status), ("1 2 x", status), ("1 2 3", "Name:\ta\n")] {
            assert_eq!(Scheduling::parse(schedstat, status), None, "{schedstat:?} {status:?}");
        }
        let later = Scheduling { ran_ns: 600, slices: 16, ..expected };
        assert_eq!(later.since(&expected), Scheduling { ran_ns: 100, slices: 1, ..Scheduling::default() });
        assert_eq!(expected.since(&later), Scheduling::default(), "a number that was given anew");
        assert_eq!(later.since(&expected).plus(&expected), later);
    }

    #[test]
    fn delays_are_the_42nd_field_behind_a_name_of_any_letters() {
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) 1 (b)) S {}\n", fields.join(" "));
        assert_eq!(block_io_delay_ns(&stat), Some(420_000_000));
        for stat in ["", "7 (a", "7 (a) S 1 2 3", &stat.replace(" 42 ", " x ")] {
            assert_eq!(block_io_delay_ns(stat), None, "{stat:?}");
        }
        let earlier = Scheduling { block_io_delay_ns: 10, ..Scheduling::default() };
        let later = Scheduling { block_io_delay_ns: 30, ..Scheduling::default() };
        assert_eq!((later.since(&earlier).block_io_delay_ns, later.plus(&earlier).block_io_delay_ns), (20, 40));
        for (text, expected) in
            [(Some("1\n"), DelayAccounting::On), (Some("0\n"), DelayAccounting::Off), (None, DelayAccounting::Missing)]
        {
            assert_eq!(DelayAccounting::parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_table_of_interrupts_has_a_column_for_each_cpu_that_is_there() {
        let text = "            CPU0       CPU2       \n  1:          9          0   IO-APIC   1-edge      i8042\nLOC:     111 222   Local timer interrupts\nERR:          0\nNMI: 1 x\nnothing\n";
        let (cpus, rows) = interrupts(text);
        assert_eq!(cpus, [0, 2]);
        let row = |name: &str, counts: &[u64]| InterruptRow { name: name.to_owned(), counts: counts.to_vec() };
        assert_eq!(rows, [row("1", &[9, 0]), row("LOC", &[111, 222])]);
        assert_eq!(interrupts(""), (vec![], vec![]));
        let many = format!("CPU0\n{}", "A: 1\n".repeat(ROWS_MAX + 1));
        assert_eq!(interrupts(&many).1.len(), ROWS_MAX);
    }

    #[test]
    fn pressure_is_two_totals() {
        let text =
            "some avg10=0.00 avg60=0.12 avg300=0.05 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=56\n";
        assert_eq!(pressure(text), [Some(1234), Some(56)]);
        assert_eq!(pressure("some total=7\n"), [Some(7), None]);
        assert_eq!(pressure("some total=many\nfull\n"), [None, None]);
    }
}
