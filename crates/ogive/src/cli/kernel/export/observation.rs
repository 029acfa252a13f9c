//! The thread that observes: it takes what the programs measured shortly before each second ends, and puts it into
//! series.
//!
//! Invariants: a cell holds what was measured in its second, less the last [`LEAD`]; what was measured when the thread
//! ends is in the series before it returns.
//! Failure: what the kernel refuses is one line of the log and `ogive_kernel_failed`; without the scheduler's programs
//! there are the counters of `/proc`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use ogive_export::Cells;
use ogive_kernel::Filter;
use ogive_kernel::budget::{Budget, Change};
use ogive_kernel::run_time::{Measuring, RunTime};
use ogive_model::{MonoNs, Ns, WallNs};
use ogive_probe::Clock;

use super::super::tasks::online_cpus;
use super::groups::{Groups, SETTLE};
use super::machine::Machine;
use super::parts::{Loaded, SHED_ORDER, Settings};
use super::processes::Processes;
use super::questions::Questions;
use super::sent::Sent;
use super::stack_series::StoredStacks;
use super::threads::Threads;
use crate::cli::config_file;

/// 50 ms before the end of a second, some of which the reading takes.
const LEAD: Duration = Duration::from_millis(50);

/// The kernel measures its programs in one second of ten: two readings of its clock a run are a third of a small
/// program.
const MEASURE_TURNS: u64 = 10;

/// Every thread of a machine is read from `/proc` every five seconds: 300 processes take 10 ms.
const PROC_TURNS: u64 = 5;

/// A message to the thread.
pub(super) enum Message {
    /// Try again to load what the kernel refused.
    Retry,
}

/// An observation that runs.
pub(super) struct Running {
    pub(super) messages: Sender<Message>,
    thread: JoinHandle<()>,
}

impl Running {
    /// Stops it; what was measured is in the series.
    pub(super) fn stop(self) {
        drop(self.messages);
        // A panic of the thread has been reported already.
        let _ = self.thread.join();
    }
}

/// Observes from now on.
pub(super) fn start(settings: Settings, cells: Cells) -> std::io::Result<Running> {
    let (messages, received) = channel();
    let thread = std::thread::Builder::new()
        .name("ogive-kernel".to_owned())
        .spawn(move || Observation::new(settings, &Sent::new(cells)).run(&received))?;
    Ok(Running { messages, thread })
}

/// The programs' run times when the kernel began to measure them.
struct Window {
    _measuring: Measuring,
    since: MonoNs,
    before: Vec<(&'static str, RunTime)>,
}

struct Observation {
    settings: Settings,
    clock: Clock,
    loaded: Loaded,
    questions: Questions,
    stacks: StoredStacks,
    budget: Budget,
    groups: Groups,
    machine: Machine,
    processes: Processes,
    threads: Threads,
    window: Option<Window>,
    /// The share of a core that each part used at the last measurement.
    shares: Vec<(&'static str, f64)>,
    misses: HashMap<&'static str, u64>,
    /// Time, and CPU time of this thread, at the end of the last turn, and when the budget judged last.
    own: (MonoNs, Ns),
    judged: Option<(MonoNs, Ns)>,
    turn: u64,
    is_measured: bool,
}

impl Observation {
    fn new(settings: Settings, sent: &Sent) -> Self {
        let settle = if settings.filter == Filter::Everything { SETTLE } else { Ns::ZERO };
        let clock = Clock::global();
        let wanted: Vec<_> = SHED_ORDER.into_iter().filter(|(part, _)| settings.wants(part)).collect();
        Self {
            budget: Budget::new(settings.core_share_max, &wanted),
            groups: Groups::new(sent, settings.grouping, settings.groups, settle),
            machine: Machine::new(sent),
            processes: Processes::default(),
            loaded: Loaded::default(),
            questions: Questions::new(sent, &settings.asked, &settings.filter, settings.groups),
            stacks: StoredStacks::new(sent, &settings),
            threads: Threads::default(),
            window: None,
            shares: Vec::new(),
            misses: HashMap::new(),
            own: (MonoNs(clock.now()), thread_cpu()),
            judged: None,
            turn: 0,
            is_measured: false,
            settings,
            clock,
        }
    }

    fn run(mut self, messages: &Receiver<Message>) {
        self.load();
        self.machine.read_proc();
        loop {
            match messages.recv_timeout(until_turn(self.clock)) {
                Ok(Message::Retry) => self.load(),
                Err(RecvTimeoutError::Timeout) => self.turn(),
                Err(RecvTimeoutError::Disconnected) => {
                    self.stacks.put();
                    return self.drain();
                }
            }
        }
    }

    /// Loads the parts that are missing.
    fn load(&mut self) {
        let shed: Vec<&str> = self.budget.parts().filter(|(_, is_shed, _)| *is_shed).map(|(part, _, _)| part).collect();
        let failed = self.loaded.load_missing(&self.settings, |part| shed.contains(&part));
        let mut failed: Vec<_> = failed.into_iter().map(|(part, error)| (part, error.to_string())).collect();
        failed.extend(self.questions.load_missing(|part| shed.contains(&part)));
        failed.extend(self.stacks.load_missing(|part| shed.contains(&part)));
        for (part, _) in SHED_ORDER.into_iter().filter(|(part, _)| self.settings.wants(part)) {
            self.machine.failed(part, failed.iter().any(|(name, _)| *name == part));
        }
        for (part, error) in failed {
            tracing::warn!("the kernel observer does without {part}: {error}");
        }
        if self.threads.is_empty() {
            self.read_threads();
        }
    }

    /// One turn: the measurements of a second, and their cost.
    fn turn(&mut self) {
        self.drain();
        self.stacks.turn();
        self.machine.read_proc();
        self.turn += 1;
        self.count_own_cost();
    }

    /// Collects what was measured.
    fn drain(&mut self) {
        self.groups.begin(MonoNs(self.clock.now()));
        if let Some(scheduler) = &mut self.loaded.scheduler {
            match scheduler.drain(|id| self.groups.lives(id)) {
                Ok(drained) => {
                    drained.groups.iter().for_each(|group| self.groups.scheduled(group));
                    self.machine.drained(&drained);
                }
                Err(error) => tracing::warn!("{error}"),
            }
        } else if self.settings.wants("sched") && self.turn.is_multiple_of(PROC_TURNS) {
            self.processes.read(&self.settings.filter, self.settings.grouping, &mut self.groups);
        }
        self.read_threads();
        let is_on = self.loaded.is_on("calls");
        if let Some(calls) = self.loaded.calls.as_mut().filter(|_| is_on) {
            match calls.drain() {
                Ok(calls) => calls.iter().for_each(|call| self.groups.call(call)),
                Err(error) => tracing::warn!("{error}"),
            }
        }
        if let Some(locks) = &mut self.loaded.locks {
            match locks.drain(|process| Path::new(&format!("/proc/{process}")).exists()) {
                Ok(locks) => locks.iter().for_each(|lock| self.groups.locked(lock)),
                Err(error) => tracing::warn!("{error}"),
            }
        }
        self.groups.end();
        self.questions.drain();
    }

    /// The states of threads since the last reading, including those that have ended.
    fn read_threads(&mut self) {
        let is_on = self.loaded.is_on("micro");
        let Some(micro) = self.loaded.micro.as_mut().filter(|_| is_on) else { return };
        if let Err(error) = online_cpus().and_then(|cpus| micro.follow_cpus(&cpus)) {
            tracing::warn!("{error}");
        }
        let (ended, now) = match micro.take_ended().and_then(|ended| Ok((ended, micro.read()?))) {
            Ok(((ended, lost), now)) => {
                self.machine.lost("exit", lost.ends);
                self.machine.lost("thread", lost.threads);
                (ended, now)
            }
            Err(error) => return tracing::warn!("{error}"),
        };
        for (id, group) in self.threads.add_up(ended, now, self.settings.grouping) {
            self.groups.threads(id, &group.comm, &group.sum);
        }
    }

    /// The share of a core that the observer used, which the budget judges at the end of each window: of the programs
    /// in the window, and of this thread since the last judgement. What it does every ten seconds, such as texts of
    /// stacks, is in that.
    fn count_own_cost(&mut self) {
        let now = self.own_time();
        let own_share = share_between(std::mem::replace(&mut self.own, now), now);
        self.shares.retain(|(part, _)| *part != "drain");
        self.shares.push(("drain", own_share));
        let is_due = self.turn % MEASURE_TURNS == 1;
        if let Some(window) = self.window.take() {
            self.close(&window, now.0);
            let programs: f64 = self.shares.iter().filter(|(part, _)| *part != "drain").map(|(_, share)| share).sum();
            let judged = self.judged.replace(now).unwrap_or(now);
            if let Some(change) = self.budget.judge(programs + share_between(judged, now), self.clock.now()) {
                self.apply(change);
                // Loading is no cost of what is loaded; and whether it was enough shows in the next second.
                self.judged = Some(self.own_time());
                self.open_window(now.0);
            }
        } else if is_due {
            // Nor is what was loaded before the first.
            self.judged.get_or_insert(now);
            self.open_window(now.0);
        }
        self.machine.cost(&self.shares, &self.budget, self.is_measured);
    }

    /// Time, and CPU time of this thread.
    fn own_time(&self) -> (MonoNs, Ns) {
        (MonoNs(self.clock.now()), thread_cpu())
    }

    /// The cost of each part's programs so far.
    fn run_times(&self) -> Vec<(&'static str, RunTime)> {
        let mut all = self.loaded.run_times();
        all.extend(self.questions.run_times());
        all.extend(self.stacks.run_times());
        all
    }

    fn open_window(&mut self, now: MonoNs) {
        self.window = None;
        match Measuring::start() {
            Ok(measuring) => {
                self.is_measured = true;
                self.window = Some(Window { _measuring: measuring, since: now, before: self.run_times() });
            }
            Err(error) => {
                if std::mem::take(&mut self.is_measured) || self.turn <= 1 {
                    tracing::warn!("what the kernel observer's programs cost is not known: {error}");
                }
            }
        }
    }

    fn close(&mut self, window: &Window, now: MonoNs) {
        let after = self.run_times();
        let took = now.since(window.since);
        self.shares.retain(|(part, _)| *part == "drain");
        for (part, after) in after {
            let before =
                window.before.iter().find(|(name, _)| *name == part).map(|(_, time)| *time).unwrap_or_default();
            let ran = Ns(after.ran_ns.saturating_sub(before.ran_ns).cast_signed());
            self.shares.push((part, share(ran, took)));
            self.count_missed(part, after.missed);
        }
        self.count_missed("tasks", self.loaded.missed());
        // A part that is not loaded uses nothing, and its series says so.
        for (part, _) in SHED_ORDER.into_iter().filter(|(part, _)| self.settings.wants(part)) {
            if !self.shares.iter().any(|(name, _)| *name == part) {
                self.shares.push((part, 0.0));
            }
        }
    }

    /// Counts the runs that the kernel left out since the last time.
    fn count_missed(&mut self, programs: &'static str, missed: u64) {
        let before = self.misses.insert(programs, missed).filter(|before| *before <= missed).unwrap_or(0);
        self.machine.lost("recursion", missed - before);
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Shed(part) => {
                tracing::warn!("the kernel observer took more than its budget and does without {part} for now");
                // What it has measured until now is sent.
                self.drain();
                self.loaded.shed(part);
                self.questions.shed(part);
                self.stacks.shed(part);
                self.machine.shed(part);
                if part == "micro" {
                    self.threads.clear();
                }
            }
            Change::Restore(part) => {
                tracing::info!("the kernel observer tries {part} again");
                if let Err(error) = self.loaded.switch(part, true) {
                    tracing::warn!("the kernel observer does without {part}: {error}");
                }
                self.load();
            }
        }
    }
}

/// The share of a core: `cpu` is the CPU time used within `time`.
#[allow(clippy::cast_precision_loss, reason = "a share for people")]
fn share(cpu: Ns, time: Ns) -> f64 {
    cpu.0 as f64 / time.0.max(1) as f64
}

/// The share of a core between two moments, each with the CPU time until then.
fn share_between(before: (MonoNs, Ns), now: (MonoNs, Ns)) -> f64 {
    share(now.1.saturating_sub(before.1).max(Ns::ZERO), now.0.since(before.0))
}

/// CPU time of this thread; 0 where the kernel does not report it.
fn thread_cpu() -> Ns {
    let text = config_file::text(Path::new("/proc/thread-self/schedstat")).unwrap_or_default();
    text.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).map_or(Ns::ZERO, Ns)
}

/// Until [`LEAD`] before the end of the second, or of the next.
fn until_turn(clock: Clock) -> Duration {
    const SECOND: Ns = Ns::from_secs(1);
    let (lead, now) = (Ns::from(LEAD), WallNs(clock.wall()));
    let to_end = now.align_down(SECOND) + SECOND - now;
    // Close to the end of a second its turn has already run: wait for the next one.
    let wait = if to_end > lead + lead { to_end - lead } else { to_end + SECOND - lead };
    wait.to_duration()
}
