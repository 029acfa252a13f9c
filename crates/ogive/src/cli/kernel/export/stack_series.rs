//! Folded stacks as series of texts: `ogive_kernel_stacks`, where a text has what was counted since the one before.
//!
//! Invariants: every sample and every microsecond is in one text. What makes a text too long is merged into `[other]`,
//! what found no room in the kernel's maps is `[lost]`, so that the totals stay.
//! Limits: [`TEXT_BYTES_MAX`] for a text. When the kernel's maps fill up others take their place: samples of the moment
//! that this takes, and a wait that goes on then, are not counted.
//! Failure: when the kernel refuses those, the full ones go on, and an observer tries again at the next text.

use std::sync::{Arc, Mutex, PoisonError};

use ogive_export::Text;
use ogive_kernel::folded::Folded;
use ogive_kernel::run_time::RunTime;
use ogive_kernel::stacks::{Kind, Stacks};
use ogive_kernel::{Error, Filter};

use super::super::tasks::online_cpus;
use super::groups;
use super::parts::Settings;
use super::process_files::comm;
use super::sent::Sent;

/// 64 KiB: some 500 stacks, 6.4 KiB a second of each kind.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// A text every 10 s: 500 samples of a busy CPU, and 360 texts in an hour.
const TURNS: u64 = 10;

/// 49 times a second and CPU: half of what a recording has by default, and no divisor of what timers are set to.
const RATE: u32 = 49;

/// The name of the series.
const NAME: &str = "ogive_kernel_stacks";

/// The part of the budget.
const PART: &str = "stacks";

/// Stacks of one kind that are counted and sent.
pub(in crate::cli::kernel) struct StackSeries {
    filter: Filter,
    kind: Kind,
    stacks: Option<Stacks>,
    /// What is not in a text yet.
    waiting: Arc<Mutex<Folded>>,
    lost: u64,
    turn: u64,
}

impl StackSeries {
    /// A series that counts nothing yet.
    pub(in crate::cli::kernel) fn new(sent: &Sent, filter: &Filter, kind: Kind) -> Self {
        let waiting = Arc::<Mutex<Folded>>::default();
        let taken = waiting.clone();
        let labels = labels(filter, kind);
        let read = move || {
            let folded = std::mem::take(&mut *taken.lock().unwrap_or_else(PoisonError::into_inner));
            if folded.is_empty() {
                return Vec::new();
            }
            let text = folded.text_within(TEXT_BYTES_MAX);
            vec![Text { name: NAME.to_owned(), labels: labels.clone(), text }]
        };
        sent.note(sent.cells.texts(NAME, read));
        Self { filter: filter.clone(), kind, stacks: None, waiting, lost: 0, turn: 0 }
    }

    /// Counts from now on, unless it does already.
    ///
    /// # Errors
    /// When the kernel refuses the programs or the samples.
    pub(in crate::cli::kernel) fn start(&mut self) -> Result<(), Error> {
        if self.stacks.is_none() { self.load() } else { Ok(()) }
    }

    /// Counts with maps that are empty. Those before are out of the kernel only when these are in it.
    fn load(&mut self) -> Result<(), Error> {
        self.stacks = Some(Stacks::start(&self.filter, self.kind, &online_cpus()?)?);
        self.lost = 0;
        Ok(())
    }

    /// A second has passed: names are looked up while their processes live, and each [`TURNS`] seconds there is a text.
    ///
    /// # Errors
    /// When the kernel's maps cannot be read, or loaded again.
    pub(in crate::cli::kernel) fn turn(&mut self) -> Result<(), Error> {
        self.turn += 1;
        if !self.turn.is_multiple_of(TURNS) {
            return self.stacks.as_mut().map_or(Ok(()), Stacks::look_up);
        }
        self.put()?;
        if self.stacks.as_ref().is_some_and(Stacks::is_crowded) { self.load() } else { Ok(()) }
    }

    /// Puts what was counted into the next text.
    ///
    /// # Errors
    /// When the kernel's maps cannot be read.
    pub(in crate::cli::kernel) fn put(&mut self) -> Result<(), Error> {
        let Some(stacks) = &mut self.stacks else { return Ok(()) };
        let mut folded = stacks.drain()?;
        let lost = stacks.lost()?;
        let more = lost - std::mem::replace(&mut self.lost, lost);
        // Off the CPU, nanoseconds are counted.
        let more = if self.kind == Kind::OffCpu { more / 1000 } else { more };
        if more > 0 {
            folded.add(&["[lost]".to_owned()], more);
        }
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).merge(&folded);
        Ok(())
    }
}

/// Whose stacks they are, and which.
fn labels(filter: &Filter, kind: Kind) -> Vec<(String, String)> {
    let of_tasks = match filter {
        Filter::Process(pid) => vec![("comm", comm(*pid).unwrap_or_default()), ("pid", pid.to_string())],
        Filter::Comm(comm) => vec![("comm", comm.clone())],
        Filter::Cgroup(id) => vec![("cgroup", groups::cgroup_name(*id).unwrap_or_else(|| id.to_string()))],
        Filter::Everything | Filter::ChildrenOf(_) => Vec::new(),
    };
    let kind = if kind == Kind::OffCpu { "off_cpu" } else { "on_cpu" };
    let all = of_tasks.into_iter().chain([("kind", kind.to_owned()), ("source", "bpf".to_owned())]);
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Both kinds, as a part of an observer.
pub(super) struct StoredStacks(Vec<StackSeries>);

impl StoredStacks {
    pub(super) fn new(sent: &Sent, settings: &Settings) -> Self {
        let kinds: &[Kind] = if settings.wants(PART) { &[Kind::OnCpu(RATE), Kind::OffCpu] } else { &[] };
        Self(kinds.iter().map(|kind| StackSeries::new(sent, &settings.filter, *kind)).collect())
    }

    /// Begins to count what is not counted yet and not shed; returns what failed, with the reason.
    pub(super) fn load_missing(&mut self, is_shed: impl Fn(&str) -> bool) -> Vec<(&'static str, String)> {
        if is_shed(PART) {
            return Vec::new();
        }
        self.0.iter_mut().filter_map(|series| Some((PART, series.start().err()?.to_string()))).collect()
    }

    /// A second has passed.
    pub(super) fn turn(&mut self) {
        self.each(StackSeries::turn);
    }

    /// Puts what was counted into the next texts.
    pub(super) fn put(&mut self) {
        self.each(StackSeries::put);
    }

    fn each(&mut self, act: fn(&mut StackSeries) -> Result<(), Error>) {
        for series in &mut self.0 {
            if let Err(error) = act(series) {
                tracing::warn!("{error}");
            }
        }
    }

    /// Counts no stacks any more; what was counted is in the next texts.
    pub(super) fn shed(&mut self, part: &str) {
        if part == PART {
            self.put();
            self.0.iter_mut().for_each(|series| series.stacks = None);
        }
    }

    /// The cost of the programs so far.
    pub(super) fn run_times(&self) -> Option<(&'static str, RunTime)> {
        let times: Vec<_> =
            self.0.iter().filter_map(|series| series.stacks.as_ref()).flat_map(Stacks::run_times).collect();
        (!times.is_empty()).then(|| (PART, RunTime::sum(&times)))
    }
}
