//! The last answer to each query that a task repeats in the background, and the tasks themselves.
//!
//! Invariants: a query that fails keeps the groups of its last answer, and each failure is reported once; an answer to
//! a query that was dropped counts no more.
//! Threads: tasks of the server's runtime; they end when their owner is dropped.
//! Limits: as many targets of all queries of one source as [`Answers::new`] says.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Interval, MissedTickBehavior};

use crate::config::Group;

/// 10 s for a list of targets.
pub(super) const ANSWER: Duration = Duration::from_secs(10);

/// What a query was answered: groups, or nothing because they are as they were.
pub(super) type Outcome = Result<Option<Vec<Group>>, String>;

/// The last answer to each query of one source.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The job, for messages.
    job: String,
    targets_max: usize,
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    is_answered: bool,
    groups: Vec<Group>,
    /// The reported failure.
    error: Option<String>,
}

impl Answers {
    /// Of no more than `targets_max` targets together.
    pub(super) fn new(job: &str, targets_max: usize) -> Self {
        Self { job: job.to_owned(), targets_max, entries: BTreeMap::new() }
    }

    /// Waits for an answer to `query` from now on.
    pub(super) fn expect(&mut self, query: &str) {
        self.entries.entry(query.to_owned()).or_default();
    }

    /// Drops `query` with its groups.
    pub(super) fn forget(&mut self, query: &str) {
        self.entries.remove(query);
    }

    /// Takes what `query` was answered, if it is still expected; false if it is to be asked again, since that was
    /// refused.
    pub(super) fn take(&mut self, query: &str, outcome: Outcome) -> bool {
        let others = self.entries.iter().filter(|(other, _)| *other != query).map(|(_, entry)| count(&entry.groups));
        let others: usize = others.sum();
        let Some(entry) = self.entries.get_mut(query) else { return true };
        entry.is_answered = true;
        let outcome = match outcome {
            Ok(Some(groups)) if others + count(&groups) > self.targets_max => {
                Err(format!("with {} targets there are more than {}", count(&groups), self.targets_max))
            }
            other => other,
        };
        let is_taken = outcome.is_ok();
        match outcome {
            Ok(groups) => {
                entry.error = None;
                if let Some(groups) = groups {
                    entry.groups = groups;
                }
            }
            Err(error) if entry.error.as_ref() == Some(&error) => {}
            Err(error) => {
                report(&self.job, query, &error);
                entry.error = Some(error);
            }
        }
        is_taken
    }

    /// Whether every query was answered or has failed.
    pub(super) fn is_complete(&self) -> bool {
        self.entries.values().all(|entry| entry.is_answered)
    }

    /// The groups of all last answers.
    pub(super) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.entries.values().flat_map(|entry| &entry.groups)
    }
}

fn count(groups: &[Group]) -> usize {
    groups.iter().map(|group| group.targets.len()).sum()
}

/// Reports that a source cannot be read.
pub(super) fn report(job: &str, source: &str, error: &str) {
    tracing::warn!("job {job:?}: {source}: {error}; its targets stay as they were");
}

/// A source that tasks query in the background.
pub(super) struct Watcher {
    answers: watch::Receiver<Answers>,
    _tasks: Vec<Task>,
}

impl Watcher {
    /// The tasks `tasks`, which send to the other end of `answers`.
    pub(super) fn new(answers: watch::Receiver<Answers>, tasks: Vec<Task>) -> Self {
        Self { answers, _tasks: tasks }
    }

    /// Waits for the first answer to every query.
    pub(super) async fn begun(&mut self) {
        // An error is that no task is left to wait for.
        let _ = self.answers.wait_for(Answers::is_complete).await;
    }

    /// The groups of the last answers.
    pub(super) fn groups(&self) -> Vec<Group> {
        self.answers.borrow().groups().cloned().collect()
    }
}

/// A task that ends with its owner.
pub(super) struct Task(JoinHandle<()>);

impl Task {
    pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Ticks now and then each `period`; those that nobody waited for are left out but for one.
pub(super) fn ticks(period: Duration) -> Interval {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Text;
    use crate::target::TARGETS_MAX;

    fn groups(targets: usize) -> Vec<Group> {
        vec![Group { targets: vec![Text("a:1".into()); targets], ..Group::default() }]
    }

    fn targets(answers: &Answers) -> usize {
        answers.groups().map(|group| group.targets.len()).sum()
    }

    #[test]
    fn a_failure_keeps_the_last_answer_until_the_next() {
        let mut answers = Answers::new("job", TARGETS_MAX);
        answers.expect("a");
        assert!(!answers.is_complete());
        answers.take("a", Err("refused".into()));
        assert!(answers.is_complete());
        answers.take("a", Ok(Some(groups(2))));
        answers.take("a", Err("refused".into()));
        assert_eq!((targets(&answers), answers.entries["a"].error.as_deref()), (2, Some("refused")));
        answers.take("a", Ok(None));
        assert_eq!((targets(&answers), answers.entries["a"].error.as_deref()), (2, None));
        answers.take("a", Ok(Some(Vec::new())));
        assert_eq!(targets(&answers), 0);
    }

    #[test]
    fn a_late_answer_to_a_dropped_query_counts_no_more() {
        let mut answers = Answers::new("job", TARGETS_MAX);
        answers.expect("a");
        answers.take("a", Ok(Some(groups(1))));
        answers.forget("a");
        answers.take("a", Ok(Some(groups(1))));
        assert_eq!(targets(&answers), 0);
    }

    #[test]
    fn more_targets_than_the_limit_are_refused() {
        let mut answers = Answers::new("job", TARGETS_MAX);
        answers.expect("a");
        answers.expect("b");
        answers.take("a", Ok(Some(groups(1))));
        answers.take("b", Ok(Some(groups(TARGETS_MAX - 1))));
        assert_eq!(targets(&answers), TARGETS_MAX);
        answers.take("b", Ok(Some(groups(TARGETS_MAX))));
        assert_eq!(targets(&answers), TARGETS_MAX);
        assert!(answers.entries["b"].error.as_ref().is_some_and(|error| error.contains("100000")));
    }
}
