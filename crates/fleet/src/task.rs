//! Requests to a broker: queued while it is away, carried out at most once.
//!
//! Invariants: ids of a broker's requests only grow, also over a lost file: they begin at the time in milliseconds. A
//! broker remembers the last one that it began with, so that one that is delivered twice is carried out once.
//! Limits: [`PENDING_MAX`] wait, for [`AGE_MS_MAX`]; [`DONE_MAX`] answers are kept, each of [`ANSWER_BYTES_MAX`].

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// 32 requests to one broker: a person's, not a program's.
pub(crate) const PENDING_MAX: usize = 32;
/// A week: after that nobody waits for the answer.
const AGE_MS_MAX: i64 = 7 * 86_400_000;
/// 16 answers can be looked at again.
const DONE_MAX: usize = 16;
/// 64 KiB: 500 lines of a log.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 10;
/// 200 bytes: the name of a check.
const CHECK_BYTES_MAX: usize = 200;
/// 1,000 lines: as many as a broker keeps.
const LINES_MAX: u32 = 1_000;

/// What a broker is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Order {
    /// Run a check of the group's configuration now.
    Check {
        /// Its name.
        name: String,
    },
    /// Show its status, as `ogive broker status --json` does.
    Status,
    /// Show the last lines of its log.
    Logs {
        /// How many.
        lines: u32,
    },
}

impl Order {
    fn check(&self) -> Result<(), String> {
        match self {
            Self::Check { name } if name.is_empty() || name.len() > CHECK_BYTES_MAX => {
                Err(format!("name a check, in 1 to {CHECK_BYTES_MAX} bytes"))
            }
            Self::Logs { lines } if !(1..=LINES_MAX).contains(lines) => {
                Err(format!("{lines} lines; ask for 1 to {LINES_MAX}"))
            }
            _ => Ok(()),
        }
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its number.
    pub id: u64,
    /// What to do.
    pub order: Order,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The request.
    pub id: u64,
    /// It was carried out.
    pub ok: bool,
    /// What it gave, or why it could not be carried out.
    pub text: String,
}

/// A request as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    /// The request.
    pub task: Task,
    /// Who asked.
    pub by: String,
    /// When.
    pub time_ms: i64,
    /// Its outcome, if it has one.
    pub outcome: Option<Outcome>,
}

/// The requests to a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tasks {
    last: u64,
    pending: VecDeque<TaskView>,
    done: VecDeque<TaskView>,
}

impl Tasks {
    /// Adds a request, and gives its id.
    pub(crate) fn add(&mut self, order: Order, by: &str, now_ms: i64) -> Result<u64, Error> {
        order.check().map_err(Error::Wrong)?;
        self.expire(now_ms);
        if self.pending.len() >= PENDING_MAX {
            return Err(Error::Limit(format!(
                "{PENDING_MAX} requests wait for this broker; it takes no more before it has answered some"
            )));
        }
        self.last = (self.last + 1).max(u64::try_from(now_ms).unwrap_or(0));
        let task = Task { id: self.last, order };
        self.pending.push_back(TaskView { task, by: by.to_owned(), time_ms: now_ms, outcome: None });
        Ok(self.last)
    }

    /// What the broker has not answered.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Task> {
        self.pending.iter().map(|view| &view.task)
    }

    /// Takes an outcome; false when nobody waits for it.
    pub(crate) fn end(&mut self, mut outcome: Outcome) -> bool {
        let Some(at) = self.pending.iter().position(|view| view.task.id == outcome.id) else { return false };
        outcome.text.truncate(outcome.text.floor_char_boundary(ANSWER_BYTES_MAX));
        let mut view = self.pending.remove(at).expect("it was just found");
        view.outcome = Some(outcome);
        self.finish(view);
        true
    }

    fn finish(&mut self, view: TaskView) {
        self.done.push_back(view);
        while self.done.len() > DONE_MAX {
            self.done.pop_front();
        }
    }

    fn expire(&mut self, now_ms: i64) {
        while self.pending.front().is_some_and(|view| now_ms - view.time_ms > AGE_MS_MAX) {
            let mut view = self.pending.pop_front().expect("it was just there");
            let text = "the broker did not come for a week".into();
            view.outcome = Some(Outcome { id: view.task.id, ok: false, text });
            self.finish(view);
        }
    }

    /// All of them, the oldest first.
    pub(crate) fn views(&self) -> Vec<TaskView> {
        let mut out: Vec<TaskView> = self.done.iter().chain(&self.pending).cloned().collect();
        out.sort_by_key(|view| view.task.id);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_within_their_limits() {
        let mut tasks = Tasks::default();
        let ids: Vec<u64> = (0..PENDING_MAX).map(|_| tasks.add(Order::Status, "amy", 1_000).unwrap()).collect();
        assert_eq!((ids[0], ids[1]), (1_000, 1_001));
        assert!(matches!(tasks.add(Order::Status, "amy", 1_000), Err(Error::Limit(_))));
        let outcome = |id| Outcome { id, ok: true, text: "x".repeat(ANSWER_BYTES_MAX + 1) };
        assert!(tasks.end(outcome(1_000)) && !tasks.end(outcome(1_000)));
        assert_eq!(tasks.views()[0].outcome.as_ref().unwrap().text.len(), ANSWER_BYTES_MAX);
        assert_eq!(tasks.add(Order::Status, "amy", 500).unwrap(), 1_032);
        // The broker did not come for a week.
        let late = tasks.add(Order::Status, "amy", 1_001 + AGE_MS_MAX).unwrap();
        assert_eq!(tasks.pending().map(|task| task.id).collect::<Vec<_>>(), [late]);
        assert_eq!(tasks.views().len(), DONE_MAX + 1);
        for order in [Order::Check { name: String::new() }, Order::Logs { lines: 0 }, Order::Logs { lines: 1_001 }] {
            assert!(matches!(tasks.add(order, "amy", 1), Err(Error::Wrong(_))));
        }
    }

    #[test]
    fn orders_are_read_as_they_are_documented() {
        let of = |text: &str| serde_json::from_str::<Order>(text);
        assert_eq!(of(r#"{"do":"check","name":"shop"}"#).unwrap(), Order::Check { name: "shop".into() });
        assert_eq!(of(r#"{"do":"logs","lines":5}"#).unwrap(), Order::Logs { lines: 5 });
        assert_eq!(of(r#"{"do":"status"}"#).unwrap(), Order::Status);
        assert!(of(r#"{"do":"reboot"}"#).is_err() && of("{}").is_err());
    }
}
