//! What waits for one destination, and how it went so far.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::destination::Destination;
use crate::grouping::{Grouping, Groups, Notification, StoredMember};
use crate::notice::Notice;
use crate::queue::{Queue, Shared};

/// At most 30 s between retries: an Alertmanager that is back receives firing alerts well before it would consider them
/// resolved.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The first pause.
const PAUSE: Duration = Duration::from_millis(500);

/// See the module.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: Queue,
    groups: Groups,
    failures: u32,
    /// How it went since the start.
    pub counts: Counts,
    /// Why the last request failed; None when it succeeded.
    pub last_error: Option<String>,
}

/// The counts of a destination since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Alerts that were accepted.
    pub sent: u64,
    /// Alerts that went because too many waited.
    pub dropped: u64,
    /// Alerts that were refused for good.
    pub refused: u64,
    /// Requests that failed.
    pub failed_requests: u64,
}

/// The part of an outbox that is stored across restarts.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(from = "StoredForm")]
pub struct PersistedOutbox {
    waiting: Vec<Shared>,
    groups: Vec<StoredMember>,
}

/// The forms that are read: before there were groups, a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredForm {
    List(Vec<Shared>),
    Object { waiting: Vec<Shared>, groups: Vec<StoredMember> },
}

impl From<StoredForm> for PersistedOutbox {
    fn from(form: StoredForm) -> Self {
        match form {
            StoredForm::List(waiting) => Self { waiting, groups: Vec::new() },
            StoredForm::Object { waiting, groups } => Self { waiting, groups },
        }
    }
}

/// The contents of one request or message.
#[derive(Clone, Debug, PartialEq)]
pub enum Batch {
    /// Alerts for an Alertmanager.
    Alerts(Vec<Notice>),
    /// Groups for people: one of a webhook, all that are due in one digest otherwise.
    Groups(Vec<Notification>),
}

impl Batch {
    /// How many alerts it has.
    #[must_use]
    pub fn count(&self) -> u64 {
        match self {
            Self::Alerts(alerts) => alerts.len() as u64,
            Self::Groups(groups) => groups.iter().map(|group| group.alerts.len() as u64).sum(),
        }
    }
}

impl Outbox {
    /// Restores the stored state.
    #[must_use]
    pub fn restored(kept: PersistedOutbox, grouping: &Grouping) -> Self {
        Self { queue: Queue::new(kept.waiting), groups: Groups::restored(kept.groups, grouping), ..Self::default() }
    }

    /// The state to be stored.
    #[must_use]
    pub fn kept(&self) -> PersistedOutbox {
        PersistedOutbox { waiting: self.queue.alerts().cloned().collect(), groups: self.groups.kept() }
    }

    /// Adds a state of an alert.
    pub fn push(&mut self, alert: &Arc<Notice>, destination: &Destination, grouping: &Grouping, now_ms: i64) {
        self.counts.dropped += if destination.is_grouped() {
            self.groups.push(Notice::clone(alert), grouping, now_ms)
        } else {
            self.queue.push(Arc::clone(alert))
        };
    }

    /// Silences the alerts for which `is_quiet` returns true. Alertmanagers have silences of their own.
    pub fn mute(&mut self, is_quiet: &dyn Fn(&Notice) -> bool) {
        self.groups.mute(is_quiet);
    }

    /// What is to be sent at `now_ms`, of alerts whose state is on disk (`saved`).
    pub fn next(&mut self, destination: &Destination, grouping: &Grouping, now_ms: i64, saved: u64) -> Option<Batch> {
        if !destination.is_grouped() {
            let alerts = self.queue.next(saved);
            return (!alerts.is_empty()).then_some(Batch::Alerts(alerts));
        }
        let mut due = self.groups.due(now_ms, grouping, saved);
        if matches!(destination, Destination::Webhook { .. }) {
            due.truncate(1);
        }
        (!due.is_empty()).then_some(Batch::Groups(due))
    }

    /// How long to wait before the next try.
    #[must_use]
    pub fn pause(&self) -> Duration {
        if self.failures == 0 { Duration::ZERO } else { PAUSE_MAX.min(PAUSE * 2_u32.pow(self.failures.min(10) - 1)) }
    }

    /// Whether the last request failed.
    #[must_use]
    pub const fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Alerts that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.count() + self.groups.waiting()
    }

    /// Records the outcome of a batch at `now_ms`. Returns a sentence for the log, if it is new.
    pub fn answered(&mut self, batch: &Batch, answer: Answer, now_ms: i64) -> Option<String> {
        let (is_done, sentence) = match answer {
            Answer::Taken => {
                self.counts.sent += batch.count();
                self.last_error = None;
                (true, None)
            }
            Answer::Refused(error) => {
                self.counts.refused += batch.count();
                self.last_error = Some(error.clone());
                (true, Some(format!("{} alerts were refused: {error}", batch.count())))
            }
            Answer::Failed(error) => {
                self.counts.failed_requests += 1;
                self.failures += 1;
                let is_new = self.last_error.as_ref() != Some(&error);
                self.last_error = Some(error.clone());
                (false, is_new.then(|| format!("alerts wait and are sent again: {error}")))
            }
        };
        if is_done {
            self.failures = 0;
            match batch {
                Batch::Alerts(alerts) => self.queue.done(alerts),
                Batch::Groups(groups) => self.groups.done(groups, now_ms),
            }
        }
        sentence
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::example;

    #[test]
    fn what_fails_is_tried_again_after_growing_pauses_and_survives_being_kept() {
        let destination = Destination::Alertmanager { url: "http://a".to_owned() };
        let (mut outbox, grouping) = (Outbox::default(), Grouping::default());
        outbox.push(&Arc::new(example("a", false)), &destination, &grouping, 0);
        let batch = outbox.next(&destination, &grouping, 0, 1).unwrap();
        let failed = || Answer::Failed("no".to_owned());
        assert!(outbox.answered(&batch, failed(), 0).is_some());
        assert!(outbox.answered(&batch, failed(), 0).is_none(), "it is said once");
        assert_eq!(outbox.pause(), Duration::from_secs(1));
        (0..40).for_each(|_| drop(outbox.answered(&batch, failed(), 0)));
        assert_eq!(outbox.pause(), PAUSE_MAX);
        let text = serde_json::to_string(&outbox.kept()).unwrap();
        let mut outbox = Outbox::restored(serde_json::from_str(&text).unwrap(), &grouping);
        let batch = outbox.next(&destination, &grouping, 0, 0).expect("what was kept is on disk");
        outbox.answered(&batch, Answer::Taken, 0);
        assert_eq!((outbox.waiting(), outbox.counts.sent), (0, 1));
    }

    #[test]
    fn groups_go_out_alone_to_a_webhook_and_together_by_mail() {
        let webhook = Destination::Webhook { url: "http://a".to_owned(), token_file: None };
        let slack = Destination::Slack { url_file: "/s".into(), channel: None };
        for (destination, count) in [(webhook, 1), (slack, 2)] {
            let (mut outbox, grouping) = (Outbox::default(), Grouping::default());
            outbox.push(&Arc::new(example("a", false)), &destination, &grouping, 0);
            outbox.push(&Arc::new(example("b", false)), &destination, &grouping, 0);
            let batch = outbox.next(&destination, &grouping, 30_000, 1).unwrap();
            assert!(matches!(&batch, Batch::Groups(groups) if groups.len() == count), "{batch:?}");
            assert_eq!(outbox.waiting(), 2);
        }
    }
}
