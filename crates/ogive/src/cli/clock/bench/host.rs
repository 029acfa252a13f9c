//! What the host reports about itself: processor, load, and the time that a hypervisor took.
//!
//! *Format*: `/proc/stat`, its first line: `cpu user nice system idle iowait irq softirq steal ...` in ticks since the
//! start (proc_stat(5)).

/// Ticks of all CPUs since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuTimes {
    total: u64,
    steal: u64,
}

impl CpuTimes {
    /// As the kernel counts now.
    pub(super) fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        // The time of guests (the ninth and tenth field) is already part of the first two.
        let steal = *fields.get(7)?;
        Some(Self { total: fields.iter().take(8).sum(), steal })
    }

    /// The share of the time since `before` that was stolen; `None` when no tick has passed.
    pub(super) fn steal_since(self, before: Self) -> Option<f64> {
        let total = self.total.saturating_sub(before.total);
        (total > 0).then(|| self.steal.saturating_sub(before.steal) as f64 / total as f64)
    }
}

/// The processor's name.
pub(super) fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name"));
    name.map_or_else(|| std::env::consts::ARCH.into(), |name| name.trim_start_matches([' ', '\t', ':']).to_owned())
}

/// The load average of the last minute.
pub(super) fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_field() {
        let check = |text: &str, expected: Option<(u64, u64)>| {
            let found = CpuTimes::parse(text).map(|times| (times.total, times.steal));
            assert_eq!(found, expected, "{text:?}");
        };
        check("cpu  100 1 20 300 4 5 6 70 8 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n", Some((506, 70)));
        check("intr 1\ncpu 1 2 3 4 5 6 7 8\n", Some((36, 8)));
        check("cpu  1 2 3 4 5 6 7\n", None);
        check("cpu  1 2 x 4 5 6 7 8\n", None);
        check("cpu0 1 2 3 4 5 6 7 8\n", None);
        check("", None);
    }

    #[test]
    fn a_share_of_steal_needs_time_that_passed() {
        let [before, after] = [(1_000, 50), (1_200, 60)].map(|(total, steal)| CpuTimes { total, steal });
        assert_eq!(after.steal_since(before), Some(0.05));
        assert_eq!(before.steal_since(before), None);
        // A counter that goes back is no steal.
        assert_eq!(CpuTimes { total: 1_200, steal: 0 }.steal_since(before), Some(0.0));
    }
}
