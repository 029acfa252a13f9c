//! What is observed, part by part: each can be loaded, shed and restored on its own.

use ogive_kernel::calls::Calls;
use ogive_kernel::locks::{self, Locks};
use ogive_kernel::micro::Microstates;
use ogive_kernel::run_time::RunTime;
use ogive_kernel::sched::{Extra, Options, Scheduler};
use ogive_kernel::{Error, Filter, Grouping};

use super::super::locks::maps;
use super::super::tasks::online_cpus;
use super::kept::NamedQuestion;
use super::questions;

/// What can be observed.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Run-queue latency, slices, waits by cause, switches.
    Sched,
    /// Interrupts, soft interrupts and timers; needs sched.
    Interrupts,
    /// States in which threads spend their time; two programs per system call.
    Micro,
    /// System calls that wake many threads; two programs per system call, needs sched.
    Herds,
    /// System calls; two programs each.
    Calls,
    /// Contended locks, with stacks; by process or cgroup.
    Locks,
    /// Stacks of running and of waiting tasks, as texts; needs a process, a name or a cgroup.
    Stacks,
}

/// In the order in which they are shed: questions about functions first, then stacks at each switch, then what costs
/// something in each system call, then stacks of locks. The scheduler stays.
pub(super) const SHED_ORDER: [(&str, bool); 10] = [
    ("ask_function", true),
    ("stacks", true),
    ("ask_call", true),
    ("calls", true),
    ("herds", true),
    ("micro", true),
    ("locks", true),
    ("ask_event", true),
    ("interrupts", true),
    ("sched", false),
];

/// Slots for locks, 16 KiB of the kernel each.
const LOCK_PLACES: u32 = 256;

impl Part {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sched => "sched",
            Self::Interrupts => "interrupts",
            Self::Micro => "micro",
            Self::Herds => "herds",
            Self::Calls => "calls",
            Self::Locks => "locks",
            Self::Stacks => "stacks",
        }
    }
}

/// The settings.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) parts: Vec<Part>,
    /// Questions whose answers are kept.
    pub(crate) asked: Vec<NamedQuestion>,
    pub(crate) filter: Filter,
    pub(crate) grouping: Grouping,
    /// Groups with series of their own.
    pub(crate) groups: u32,
    /// Wake-ups that are a herd.
    pub(crate) herd_min: u32,
    /// The share of a core that the observer may use.
    pub(crate) core_share_max: f64,
}

impl Settings {
    /// Refuses settings that cannot be combined.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.filter.check()?;
        questions::check(&self.asked)?;
        if self.grouping == Grouping::Thread && self.wants("locks") {
            return Err(Error::Input("locks are counted by process or cgroup, and not by thread".to_owned()));
        }
        if self.filter == Filter::Everything && self.wants("stacks") {
            return Err(Error::Input("stacks are those of a process, of a name or of a cgroup: name one".to_owned()));
        }
        Ok(())
    }

    pub(super) fn wants(&self, part: &str) -> bool {
        self.parts.iter().any(|wanted| wanted.name() == part)
            || self.asked.iter().any(|asked| questions::part_of(&asked.question.probe) == part)
    }
}

/// The parts in the kernel. Dropping this unloads them.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) scheduler: Option<Scheduler>,
    pub(super) micro: Option<Microstates>,
    pub(super) calls: Option<Calls>,
    pub(super) locks: Option<Locks>,
}

impl Loaded {
    /// Loads what is wanted and missing; returns the parts that failed, with the reason.
    pub(super) fn load_missing(
        &mut self,
        settings: &Settings,
        is_shed: impl Fn(&str) -> bool,
    ) -> Vec<(&'static str, Error)> {
        let mut failed = Vec::new();
        let wants = |part| settings.wants(part) && !is_shed(part);
        if self.scheduler.is_none() && wants("sched") {
            match Scheduler::start(scheduler_options(settings, &is_shed)) {
                Ok(scheduler) => self.scheduler = Some(scheduler),
                Err(error) => failed.push(("sched", error)),
            }
        }
        if self.micro.is_none() && wants("micro") {
            match online_cpus().and_then(|cpus| Microstates::start(&settings.filter, &cpus)) {
                Ok(micro) => self.micro = Some(micro),
                Err(error) => failed.push(("micro", error)),
            }
        }
        if self.calls.is_none() && wants("calls") {
            match Calls::start(&settings.filter) {
                Ok(calls) => self.calls = Some(calls),
                Err(error) => failed.push(("calls", error)),
            }
        }
        if self.locks.is_none() && wants("locks") {
            let options = locks::Options { filter: settings.filter.clone(), places: LOCK_PLACES, maps };
            match Locks::start(&options) {
                Ok(locks) => self.locks = Some(locks),
                Err(error) => failed.push(("locks", error)),
            }
        }
        failed
    }

    /// Unloads a part.
    pub(super) fn shed(&mut self, part: &str) {
        match part {
            "calls" => self.calls = None,
            "micro" => self.micro = None,
            "locks" => self.locks = None,
            _ => {
                // Taking a program out cannot fail.
                let _ = self.switch(part, false);
            }
        }
    }

    /// Herds and interrupts are parts of the scheduler's.
    pub(super) fn switch(&mut self, part: &str, is_on: bool) -> Result<(), Error> {
        let extra = match part {
            "herds" => Extra::Herds,
            "interrupts" => Extra::Interrupts,
            _ => return Ok(()),
        };
        self.scheduler.as_mut().map_or(Ok(()), |scheduler| scheduler.switch(extra, is_on))
    }

    /// The cost of each part's programs so far.
    pub(super) fn run_times(&self) -> Vec<(&'static str, RunTime)> {
        let mut out = Vec::new();
        let scheduler = self.scheduler.as_ref().map(Scheduler::run_times).unwrap_or_default();
        for (part, _) in &SHED_ORDER {
            let of_part: Vec<_> = scheduler.iter().filter(|(name, _)| part_of(name) == *part).cloned().collect();
            if !of_part.is_empty() {
                out.push((*part, RunTime::sum(&of_part)));
            }
        }
        out.extend(self.micro.as_ref().map(|micro| ("micro", RunTime::sum(&micro.run_times()))));
        out.extend(self.locks.as_ref().map(|locks| ("locks", RunTime::sum(&locks.run_times()))));
        out.extend(self.calls.as_ref().map(|calls| ("calls", RunTime::sum(&calls.run_times()))));
        out
    }
}

/// The part that a program of the scheduler's belongs to.
fn part_of(program: &str) -> &'static str {
    match Scheduler::extra_of(program) {
        Some(Extra::Herds) => "herds",
        Some(Extra::Interrupts) => "interrupts",
        None => "sched",
    }
}

fn scheduler_options(settings: &Settings, is_shed: &impl Fn(&str) -> bool) -> Options {
    let has = |part| settings.wants(part) && !is_shed(part);
    Options {
        filter: settings.filter.clone(),
        grouping: settings.grouping,
        groups: settings.groups,
        herd_min: if has("herds") { settings.herd_min } else { 0 },
        interrupts: has("interrupts"),
        maps: None,
    }
}
