//! Questions that stay: each is answered by programs of its own, which are loaded, shed and restored by what they cost.
//!
//! Invariant: the series of a question outlive its programs, so that an answer goes on where it was.
//! Limit: [`QUESTIONS_MAX`] questions.

use std::collections::HashSet;

use ogive_kernel::ask::{Observer, Options, Probe, compile_here};
use ogive_kernel::run_time::RunTime;
use ogive_kernel::{Error, Filter};

use super::super::tasks::ticking_cpus;
use super::kept::{NamedQuestion, QuestionSeries};
use super::sent::Sent;
use crate::cli::advise::Files;

/// Questions of one observer: each histogram may have megabytes of the kernel's memory.
pub(super) const QUESTIONS_MAX: usize = 32;

/// The part of the budget to which a question belongs.
pub(super) fn part_of(probe: &Probe) -> &'static str {
    match probe {
        Probe::Function { .. } | Probe::Usdt { .. } => "ask_function",
        Probe::Call(_) => "ask_call",
        Probe::Point(name) if matches!(name.as_str(), "sys_enter" | "sys_exit") => "ask_call",
        Probe::Record { category, .. } if matches!(category.as_str(), "syscalls" | "raw_syscalls") => "ask_call",
        Probe::Point(_) | Probe::Record { .. } | Probe::Profile(_) | Probe::Interval(_) => "ask_event",
    }
}

/// Refuses questions that cannot stay beside each other.
pub(super) fn check(asked: &[NamedQuestion]) -> Result<(), Error> {
    if asked.len() > QUESTIONS_MAX {
        return Err(Error::Input(format!("{} questions: at most {QUESTIONS_MAX} can be kept", asked.len())));
    }
    let mut names = HashSet::new();
    match asked.iter().find(|asked| !names.insert(asked.name.as_str())) {
        Some(again) => Err(Error::Input(format!("two questions have the name {:?}", again.name))),
        None => Ok(()),
    }
}

struct Kind {
    asked: NamedQuestion,
    part: &'static str,
    series: Option<QuestionSeries>,
    observer: Option<Observer>,
}

/// The questions of an observer.
pub(super) struct Questions {
    sent: Sent,
    filter: Filter,
    groups: u32,
    all: Vec<Kind>,
}

impl Questions {
    pub(super) fn new(sent: &Sent, asked: &[NamedQuestion], filter: &Filter, groups: u32) -> Self {
        let kind = |asked: &NamedQuestion| Kind {
            asked: asked.clone(),
            part: part_of(&asked.question.probe),
            series: None,
            observer: None,
        };
        Self { sent: sent.clone(), filter: filter.clone(), groups, all: asked.iter().map(kind).collect() }
    }

    /// Begins to answer what is not answered yet and not shed; returns the parts that failed, with the question and the
    /// reason.
    pub(super) fn load_missing(&mut self, is_shed: impl Fn(&str) -> bool) -> Vec<(&'static str, String)> {
        let mut failed = Vec::new();
        let Self { sent, filter, groups, all } = self;
        for one in all.iter_mut().filter(|one| one.observer.is_none() && !is_shed(one.part)) {
            match answer(&one.asked, filter, *groups) {
                Ok(observer) => {
                    let series = one
                        .series
                        .get_or_insert_with(|| QuestionSeries::new(sent, &one.asked.name, observer.question()));
                    series.restart();
                    one.observer = Some(observer);
                }
                Err(reason) => failed.push((one.part, format!("question {}: {reason}", one.asked.name))),
            }
        }
        failed
    }

    /// Puts what was counted into series.
    pub(super) fn drain(&mut self) {
        for one in &mut self.all {
            if let (Some(series), Some(observer)) = (&mut one.series, &mut one.observer)
                && let Err(error) = series.put(observer)
            {
                tracing::warn!("question {}: {error}", one.asked.name);
            }
        }
    }

    /// Answers no question of a part any more.
    pub(super) fn shed(&mut self, part: &str) {
        self.all.iter_mut().filter(|one| one.part == part).for_each(|one| one.observer = None);
    }

    /// The cost of each part's programs so far.
    pub(super) fn run_times(&self) -> Vec<(&'static str, RunTime)> {
        let mut parts: Vec<(&'static str, Vec<_>)> = Vec::new();
        for one in &self.all {
            let Some(observer) = &one.observer else { continue };
            let times = observer.run_times();
            match parts.iter_mut().find(|(part, _)| *part == one.part) {
                Some((_, all)) => all.extend(times),
                None => parts.push((one.part, times)),
            }
        }
        parts.into_iter().map(|(part, times)| (part, RunTime::sum(&times))).collect()
    }
}

fn answer(asked: &NamedQuestion, filter: &Filter, groups: u32) -> Result<Observer, String> {
    let compiled = compile_here(&asked.question, &Files).map_err(|error| error.to_string())?;
    let compiled = compiled.map_err(|mistake| format!("position {}: {}", mistake.at + 1, mistake.message))?;
    let cpus = ticking_cpus(&compiled.probe).map_err(|error| format!("{error:#}"))?;
    let options = Options { filter: filter.clone(), groups, cpus };
    Observer::start(compiled, &options).map_err(|error| error.to_string())
}
