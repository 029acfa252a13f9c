//! Machines as files, read twice.

use std::collections::BTreeMap;

use super::*;
use crate::machine::Source;

#[derive(Clone, Default)]
struct Files(BTreeMap<String, String>);

impl Source for Files {
    fn read(&self, path: &str) -> Option<String> {
        self.0.get(path).cloned()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let below = format!("{path}/");
        let names = self
            .0
            .keys()
            .filter_map(|file| file.strip_prefix(&below)?.split_once('/').map(|(name, _)| name.to_owned()));
        let mut names: Vec<String> = names.collect();
        names.dedup();
        names
    }
}

fn files(texts: &[(&str, &str)]) -> Files {
    Files(texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect())
}

/// A machine of four CPUs on two nodes with a process of two threads, held on CPU 2 and 3.
fn quiet() -> Files {
    files(&[
        ("/sys/devices/system/cpu/online", "0-3\n"),
        ("/sys/devices/system/node/online", "0-1\n"),
        ("/sys/devices/system/node/node0/cpulist", "0-1\n"),
        ("/sys/devices/system/node/node1/cpulist", "2-3\n"),
        ("/proc/interrupts", " CPU0 CPU1 CPU2 CPU3\n 36: 0 0 100 0 PCI-MSIX 1-edge eth0-rx\n"),
        ("/proc/stat", "cpu2 0 0 0 1000 0 0 0 0\ncpu0 0 0 0 1000 0 0 0 0\n"),
        ("/proc/7/status", "Name:\tx\nCpus_allowed_list:\t2-3\n"),
        ("/proc/7/task/7/schedstat", "1000000000 0 5\n"),
        ("/proc/7/task/7/sched", "se.nr_migrations   :   10\n"),
        ("/proc/7/task/8/schedstat", "0 0 0\n"),
        ("/proc/7/numa_maps", "7f00 default anon=100 N1=100 kernelpagesize_kB=4\n"),
        ("/proc/7/cgroup", "0::/app.slice/app.service\n"),
        (
            "/sys/fs/cgroup/app.slice/app.service/cpu.stat",
            "usage_usec 1\nnr_periods 100\nnr_throttled 0\nthrottled_usec 0\n",
        ),
        ("/sys/fs/cgroup/app.slice/app.service/cpu.max", "20000 100000\n"),
        ("/sys/devices/system/cpu/cpu2/cpuidle/state2/name", "C6\n"),
        ("/sys/devices/system/cpu/cpu2/cpuidle/state2/latency", "133\n"),
        ("/sys/devices/system/cpu/cpu2/cpuidle/state2/usage", "100\n"),
        ("/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave\n"),
        ("/sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "3000000\n"),
        ("/sys/devices/system/cpu/cpu2/cpufreq/cpuinfo_max_freq", "3000000\n"),
    ])
}

/// Advice on ten seconds in which these files became others.
fn after(changes: &[(&str, &str)]) -> Vec<Advice> {
    let (before, mut now) = (quiet(), quiet());
    now.0.extend(files(changes).0);
    advise(&Machine::read(&before, Some(7)), &Machine::read(&now, Some(7)), 10.0, Some(7))
}

/// The only advice.
fn one(changes: &[(&str, &str)]) -> Advice {
    let found = after(changes);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.into_iter().next().unwrap()
}

#[test]
fn a_quiet_machine_needs_no_advice() {
    assert_eq!(after(&[]), []);
    let machine = Machine::read(&quiet(), Some(7));
    assert_eq!(advise(&machine, &machine, 0.0, Some(7)), []);
    assert_eq!(Machine::read(&Files::default(), Some(7)), Machine::default());
}

#[test]
fn interrupts_on_the_cpu_of_a_process_go_elsewhere() {
    let advice = one(&[
        ("/proc/interrupts", " CPU0 CPU1 CPU2 CPU3\n 36: 0 0 20100 0 PCI-MSIX 1-edge eth0-rx\n"),
        ("/proc/stat", "cpu2 700 0 0 1200 0 40 60 0\n"),
    ]);
    assert_eq!(advice.seen, "interrupt 36 (eth0-rx) comes 2000 times a second to CPU 2, where the process is held");
    assert_eq!(advice.costs, "CPU 2 spends 10.0 % of its time in interrupts, this one's among them");
    assert_eq!(advice.change, ["echo 0-1 > /proc/irq/36/smp_affinity_list"]);
    // A CPU that the process may not use.
    assert_eq!(after(&[("/proc/interrupts", " CPU0 CPU1 CPU2 CPU3\n 36: 90000 0 100 0 x 1-edge eth0-rx\n")]), []);
}

#[test]
fn a_cgroup_at_the_end_of_its_quota_gets_more() {
    let path = "/sys/fs/cgroup/app.slice/app.service/cpu.stat";
    let advice = one(&[(path, "usage_usec 1\nnr_periods 200\nnr_throttled 80\nthrottled_usec 4000000\n")]);
    assert_eq!(
        advice.seen,
        "cgroup /sys/fs/cgroup/app.slice/app.service, which gets 20000 of each 100000 microseconds, was stopped in 80 of 100 periods"
    );
    assert!(advice.costs.starts_with("its tasks stood still for 400.0 ms of each second"), "{advice:?}");
    let expected = [
        "systemctl set-property app.service CPUQuota=40%",
        "echo '40000 100000' > /sys/fs/cgroup/app.slice/app.service/cpu.max",
    ];
    assert_eq!(advice.change, expected);
}

#[test]
fn cgroups_of_the_first_generation_are_found_without_a_process() {
    let stat = |throttled: u64| {
        format!("nr_periods 100\nnr_throttled {throttled}\nthrottled_time {}\n", throttled * 1_000_000)
    };
    let at = |throttled| {
        files(&[
            ("/sys/fs/cgroup/cpu/a/b/cpu.stat", &stat(throttled)),
            ("/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "10000\n"),
        ])
    };
    let found = advise(&Machine::read(&at(0), None), &Machine::read(&at(10), None), 1.0, None);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].change, ["echo 20000 > /sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us"]);
    assert_eq!(found[0].costs, "its tasks stood still for 10.0 ms of each second, at most one period at a time");
}

#[test]
fn sleeping_states_and_slow_clocks_are_named_with_what_they_cost() {
    let advice = one(&[("/sys/devices/system/cpu/cpu2/cpuidle/state2/usage", "5100\n")]);
    assert_eq!(advice.seen, "CPUs 2 go into C6 500 times a second");
    assert!(
        advice.costs.contains("up to 133 microseconds") && advice.change[0] == "cpupower -c 2 idle-set -d 2",
        "{advice:?}"
    );
    let disabled = ("/sys/devices/system/cpu/cpu2/cpuidle/state2/disable", "1\n");
    assert_eq!(after(&[("/sys/devices/system/cpu/cpu2/cpuidle/state2/usage", "5100\n"), disabled]), []);
    let advice = one(&[("/sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "1500000\n")]);
    assert!(advice.seen.contains("powersave") && advice.costs.contains("50 %"), "{advice:?}");
    assert_eq!(advice.change, ["cpupower -c 2 frequency-set -g performance"]);
}

#[test]
fn threads_that_migrate_and_threads_that_wait_are_told_apart() {
    let advice =
        one(&[("/proc/7/task/7/schedstat", "3000000000 0 5\n"), ("/proc/7/task/7/sched", "se.nr_migrations : 4010\n")]);
    assert_eq!(advice.topic, "migrations");
    assert_eq!(advice.costs, "once in each 0.50 ms that they ran, and then with cold caches");
    assert_eq!(advice.change, ["taskset -apc 2-3 7"]);
    let advice = one(&[("/proc/7/task/7/schedstat", "3000000000 6000000000 5\n")]);
    assert!(advice.seen.contains("in 75 % of the time"), "{advice:?}");
    assert_eq!(advice.costs, "600.0 ms of each second, of all its threads together");
    assert_eq!(advice.change, ["taskset -apc 0-3 7  # it is held on 2-3", "renice -n -5 -p 7"]);
    // One that hardly runs says nothing.
    assert_eq!(after(&[("/proc/7/task/7/schedstat", "1010000000 50000000 5\n")]), []);
}

#[test]
fn pages_on_a_far_node_are_brought_near() {
    let advice = one(&[("/proc/7/numa_maps", "7f00 default N0=300 N1=100\n7f01 default N1=100\n")]);
    assert_eq!(advice.seen, "300 of 500 pages are on nodes of memory of which the process may use no CPU");
    assert_eq!(advice.change[0], "migratepages 7 all 1");
}

#[test]
fn a_herd_s_remedy_is_in_the_program() {
    let advice = herd("pool", "futex", 64, 120.0, 3);
    assert_eq!(advice.seen, "pool woke up to 64 threads within one futex, 3 times");
    assert!(advice.change[0].contains("pthread_cond_signal") && advice.costs.contains("120 microseconds"));
}

#[test]
fn broken_files_are_no_panic() {
    let mut state = 11_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let pieces =
        ["0", "-", ",", ":", "18446744073709551615", " ", "\n", "N0=", "CPU", "cpu0", "nr_periods ", "x", "99999"];
    for _ in 0..2000 {
        let (mut before, mut now) = (quiet(), quiet());
        for files in [&mut before, &mut now] {
            for text in files.0.values_mut() {
                let (is_hit, at, piece) = (random(4) == 0, random(text.len() + 1), pieces[random(pieces.len())]);
                if is_hit {
                    text.insert_str(at, piece);
                }
            }
        }
        let _ = advise(&Machine::read(&before, Some(7)), &Machine::read(&now, Some(7)), 1.0, Some(7));
    }
}
