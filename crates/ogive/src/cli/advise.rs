//! `ogive kernel advise`: what a machine and a process lose to how they are set up, and the command that would change
//! it.

use std::io::Read as _;
use std::process::ExitCode;
use std::time::Duration;

use ogive_kernel::advice::{Advice, advise};
use ogive_kernel::machine::{Machine, Source};
use ogive_probe::Clock;
use serde_json::json;

/// Larger files are cut: /proc/PID/numa_maps of a process with very many mappings.
const FILE_MAX: u64 = 16 << 20;

/// Reports what interrupts, quotas, migrations, idle states, CPU frequency, remote memory and thundering herds cost,
/// and how to change it; changes nothing itself.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ogive kernel advise -p 1234            what this process and its CPUs lose
  ogive kernel advise --seconds 30       the machine, and every cgroup with a quota")]
pub(crate) struct Advise {
    /// Process to examine; without it, only the machine.
    #[arg(short, long, value_name = "PID")]
    pid: Option<u32>,
    /// Seconds between the two readings.
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
}

/// The files of this machine.
pub(crate) struct Files;

impl Source for Files {
    fn read(&self, path: &str) -> Option<String> {
        let mut bytes = Vec::new();
        std::fs::File::open(path).ok()?.take(FILE_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn list(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

/// Runs the command.
pub(crate) fn run(options: &Advise) -> anyhow::Result<ExitCode> {
    let clock = Clock::global();
    let herds = herds::Herds::start(options.pid);
    let (began, before) = (clock.now(), Machine::read(&Files, options.pid));
    if let Some(pid) = options.pid {
        anyhow::ensure!(before.task.is_some(), "there is no process {pid}");
    }
    std::thread::sleep(Duration::from_secs(options.seconds));
    let (ended, after) = (clock.now(), Machine::read(&Files, options.pid));
    if after.task.is_none() && before.task.is_some() {
        eprintln!("ogive: the process has ended: this is about the machine alone");
    }
    let mut found = advise(&before, &after, (ended - began) as f64 / 1e9, options.pid);
    let mut unseen = unseen(&after);
    match herds {
        Ok(herds) => found.extend(herds.found()?),
        Err(reason) => unseen.push(format!("herds: {reason}")),
    }
    print(&found, &unseen, options.json);
    Ok(ExitCode::SUCCESS)
}

/// What this machine does not report.
fn unseen(machine: &Machine) -> Vec<String> {
    let missing = [
        (machine.sleeps.is_empty(), "sleeping states: /sys has none for these CPUs"),
        (machine.frequencies.is_empty(), "frequencies: /sys has none for these CPUs"),
        (machine.irqs.is_empty(), "interrupts: /proc/interrupts has none of a device"),
        (machine.quotas.is_empty(), "quotas: no cgroup has a cpu.stat with periods"),
        (
            machine.task.as_ref().is_some_and(|task| task.pages.is_empty()),
            "far memory: /proc/PID/numa_maps cannot be read",
        ),
    ];
    missing.iter().filter(|(is_missing, _)| *is_missing).map(|(_, what)| (*what).to_owned()).collect()
}

fn print(found: &[Advice], unseen: &[String], as_json: bool) {
    if as_json {
        let object = |advice: &Advice| json!({ "topic": advice.topic, "seen": advice.seen, "costs": advice.costs, "change": advice.change });
        println!("{}", json!({ "advice": found.iter().map(object).collect::<Vec<_>>(), "unseen": unseen }));
        return;
    }
    for advice in found {
        println!("{}: {}", advice.topic, advice.seen);
        println!("  costs   {}", advice.costs);
        for change in &advice.change {
            println!("  change  {change}");
        }
    }
    if found.is_empty() {
        println!("nothing that costs much was seen");
    }
    for what in unseen {
        println!("not seen: {what}");
    }
}

/// Herds need the kernel observer.
#[cfg(feature = "kernel")]
mod herds {
    use std::collections::BTreeMap;

    use ogive_kernel::advice::{self, Advice};
    use ogive_kernel::sched::{Options, Scheduler};
    use ogive_kernel::{Filter, Grouping};

    /// Wake-ups within one system call that are a herd.
    const HERD_MIN: u32 = 16;

    pub(super) struct Herds(Scheduler);

    impl Herds {
        pub(super) fn start(process: Option<u32>) -> Result<Self, String> {
            let filter = process.map_or(Filter::Everything, Filter::Process);
            let options = Options {
                filter,
                grouping: Grouping::Process,
                groups: 1,
                herd_min: HERD_MIN,
                interrupts: false,
                maps: None,
            };
            Scheduler::start(options).map(Self).map_err(|error| error.to_string())
        }

        /// One finding for each waker and call.
        pub(super) fn found(mut self) -> anyhow::Result<Vec<Advice>> {
            let mut largest: BTreeMap<(String, String), (u32, u64, u64)> = BTreeMap::new();
            for herd in self.0.drain(|_| true)?.herds {
                let known = largest.entry((herd.comm, herd.call)).or_default();
                *known = (known.0.max(herd.woken), known.1.max(herd.took_ns), known.2 + 1);
            }
            let advice = |((comm, call), (woken, took_ns, times)): ((String, String), (u32, u64, u64))| {
                advice::herd(&comm, &call, woken, took_ns as f64 / 1e3, times)
            };
            Ok(largest.into_iter().map(advice).collect())
        }
    }
}

#[cfg(not(feature = "kernel"))]
mod herds {
    use ogive_kernel::advice::Advice;

    pub(super) struct Herds;

    impl Herds {
        pub(super) fn start(_: Option<u32>) -> Result<Self, String> {
            Err("this binary has no kernel observer (feature `kernel`)".to_owned())
        }

        pub(super) fn found(self) -> anyhow::Result<Vec<Advice>> {
            Ok(Vec::new())
        }
    }
}
