//! What is observed, part by part: each can be shed and restored on its own.
//!
//! Invariants: parts that are wanted together share the programs at the events that they need. What is shed keeps its
//! maps, so that nothing is counted twice when it is back.
//! Failure: where the kernel refuses the programs of all parts together, each part has its own, or its own reason.

use std::rc::Rc;

use ogive_kernel::calls::Calls;
use ogive_kernel::locks::{self, Locks};
use ogive_kernel::micro::Microstates;
use ogive_kernel::run_time::RunTime;
use ogive_kernel::sched::{Options, Scheduler};
use ogive_kernel::tasks::{self, TaskPrograms};
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
    /// Programs of all parts that were wanted together.
    shared: Option<Rc<TaskPrograms>>,
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
        if self.all_programs().is_empty() {
            // Where that fails, each part says below why.
            let options = shared_options(settings).ok().filter(|options| !options.parts.is_empty());
            self.shared = options.and_then(|options| TaskPrograms::load(&options).ok());
        }
        let shared = self.shared.as_ref();
        let with = |part| shared.filter(|programs| programs.has(part));
        let wants = |part| settings.wants(part) && !is_shed(part);
        let mut failed = Vec::new();
        if self.scheduler.is_none() && wants("sched") {
            let options = scheduler_options(settings);
            let started = match with(tasks::Part::Scheduler) {
                Some(programs) => Scheduler::from_programs(programs, options),
                None => Scheduler::start(options),
            };
            keep("sched", started, &mut self.scheduler, &mut failed);
        }
        if self.micro.is_none() && wants("micro") {
            let started = match with(tasks::Part::Microstates) {
                Some(programs) => Microstates::from_programs(programs),
                None => online_cpus().and_then(|cpus| Microstates::start(&settings.filter, &cpus)),
            };
            keep("micro", started, &mut self.micro, &mut failed);
        }
        if self.calls.is_none() && wants("calls") {
            let started = match with(tasks::Part::Calls) {
                Some(programs) => Calls::from_programs(programs),
                None => Calls::start(&settings.filter),
            };
            keep("calls", started, &mut self.calls, &mut failed);
        }
        if self.locks.is_none() && wants("locks") {
            let options = locks::Options { filter: settings.filter.clone(), places: LOCK_PLACES, maps };
            let started = match with(tasks::Part::Locks) {
                Some(programs) => Locks::from_programs(programs, &options),
                None => Locks::start(&options),
            };
            keep("locks", started, &mut self.locks, &mut failed);
        }
        // The scheduler begins with both.
        for part in ["herds", "interrupts"].into_iter().filter(|part| is_shed(part)) {
            self.shed(part);
        }
        failed
    }

    /// Switches a part off.
    pub(super) fn shed(&self, part: &str) {
        // Taking programs out cannot fail.
        let _ = self.switch(part, false);
    }

    /// Switches a part on or off, unless it is not in the kernel.
    pub(super) fn switch(&self, part: &str, is_on: bool) -> Result<(), Error> {
        match (part, &self.micro) {
            ("micro", Some(micro)) if is_on => micro.begin(),
            _ => self.programs_of(part).map_or(Ok(()), |(programs, part)| programs.switch(part, is_on)),
        }
    }

    /// Whether a part is in the kernel and switched on.
    pub(super) fn is_on(&self, part: &str) -> bool {
        self.programs_of(part).is_some_and(|(programs, part)| programs.is_on(part))
    }

    fn programs_of(&self, part: &str) -> Option<(&Rc<TaskPrograms>, tasks::Part)> {
        let scheduler = self.scheduler.as_ref().map(Scheduler::programs);
        let (programs, part) = match part {
            "sched" => (scheduler, tasks::Part::Scheduler),
            "herds" => (scheduler, tasks::Part::Herds),
            "interrupts" => (scheduler, tasks::Part::Interrupts),
            "micro" => (self.micro.as_ref().map(Microstates::programs), tasks::Part::Microstates),
            "calls" => (self.calls.as_ref().map(Calls::programs), tasks::Part::Calls),
            "locks" => (self.locks.as_ref().map(Locks::programs), tasks::Part::Locks),
            _ => return None,
        };
        programs.map(|programs| (programs, part))
    }

    /// All programs, shared ones once.
    fn all_programs(&self) -> Vec<&Rc<TaskPrograms>> {
        let mut all: Vec<&Rc<TaskPrograms>> = Vec::new();
        for (programs, _) in ["sched", "micro", "calls", "locks"].into_iter().filter_map(|part| self.programs_of(part))
        {
            if !all.iter().any(|known| Rc::ptr_eq(known, programs)) {
                all.push(programs);
            }
        }
        all
    }

    /// The cost of each part's programs so far: of one that parts share, each has an equal share. What programs missed
    /// is in [`Loaded::missed`].
    pub(super) fn run_times(&self) -> Vec<(&'static str, RunTime)> {
        let mut out: Vec<(&'static str, RunTime)> = Vec::new();
        for programs in self.all_programs() {
            for (program, time) in programs.run_times() {
                let parts = programs.parts_of(&program);
                let count = parts.len().max(1) as u64;
                for part in parts.into_iter().map(name_of) {
                    let at = out.iter().position(|(known, _)| *known == part).unwrap_or_else(|| {
                        out.push((part, RunTime::default()));
                        out.len() - 1
                    });
                    out[at].1.ran_ns += time.ran_ns / count;
                    out[at].1.runs += time.runs / count;
                }
            }
        }
        out
    }

    /// Runs of the programs that the kernel left out.
    pub(super) fn missed(&self) -> u64 {
        let all = self.all_programs().into_iter().map(|programs| RunTime::sum(&programs.run_times()).missed);
        all.sum()
    }
}

/// Keeps what has started, or the reason why it has not.
fn keep<T>(
    part: &'static str,
    started: Result<T, Error>,
    into: &mut Option<T>,
    failed: &mut Vec<(&'static str, Error)>,
) {
    match started {
        Ok(started) => *into = Some(started),
        Err(error) => failed.push((part, error)),
    }
}

/// The name of a part of the programs of tasks.
fn name_of(part: tasks::Part) -> &'static str {
    match part {
        tasks::Part::Scheduler => "sched",
        tasks::Part::Herds => "herds",
        tasks::Part::Microstates => "micro",
        tasks::Part::Calls => "calls",
        tasks::Part::Locks => "locks",
        tasks::Part::Interrupts => "interrupts",
    }
}

/// What is wanted of tasks, together.
fn shared_options(settings: &Settings) -> Result<tasks::TaskOptions, Error> {
    let mut options = scheduler_options(settings).of_tasks();
    options.parts.retain(|part| settings.wants("sched") && settings.wants(name_of(*part)));
    let others = [tasks::Part::Microstates, tasks::Part::Calls, tasks::Part::Locks];
    options.parts.extend(others.into_iter().filter(|part| settings.wants(name_of(*part))));
    options.places = LOCK_PLACES;
    options.cpus = online_cpus()?;
    Ok(options)
}

fn scheduler_options(settings: &Settings) -> Options {
    Options {
        filter: settings.filter.clone(),
        grouping: settings.grouping,
        groups: settings.groups,
        herd_min: if settings.wants("herds") { settings.herd_min } else { 0 },
        interrupts: settings.wants("interrupts"),
        maps: None,
    }
}
