//! One alert: an element that the expression of an alerting rule gives, through its states.

use ogive_model::Labels;

/// How long a resolved alert is kept and sent again: 15 min, so that a restarted Alertmanager is notified of it.
pub const RESOLVED_RETENTION_MS: i64 = 15 * 60 * 1000;

/// State of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlertState {
    /// Its element is gone.
    Inactive,
    /// Its element exists, but not yet for as long as the rule requires.
    Pending,
    /// It is to be notified.
    Firing,
}

impl AlertState {
    /// Name in responses and labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inactive => "inactive",
            Self::Pending => "pending",
            Self::Firing => "firing",
        }
    }

    /// The state of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Inactive, Self::Pending, Self::Firing].into_iter().find(|state| state.as_str() == name)
    }
}

/// An alert. Times are milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Alert {
    /// Its state.
    pub state: AlertState,
    /// Its identity, `alertname` included.
    pub labels: Labels,
    /// Texts for people.
    pub annotations: Vec<(String, String)>,
    /// The last value of its element; 0 for a histogram.
    pub value: f64,
    /// When its element appeared.
    pub active_at_ms: i64,
    /// When it began to fire.
    pub fired_at_ms: Option<i64>,
    /// When it ceased.
    pub resolved_at_ms: Option<i64>,
    /// When it was last handed to delivery.
    pub sent_at_ms: Option<i64>,
    /// Since when it fires on without its element.
    pub keep_firing_since_ms: Option<i64>,
}

impl Alert {
    /// Whether it is to be handed to delivery at `time_ms`.
    #[must_use]
    pub fn needs_sending(&self, time_ms: i64, resend_delay_ms: i64) -> bool {
        if self.state == AlertState::Pending {
            return false;
        }
        let Some(sent_at) = self.sent_at_ms else {
            return self.state == AlertState::Firing || self.fired_at_ms.is_some();
        };
        if self.resolved_at_ms.is_some_and(|resolved_at| resolved_at > sent_at) {
            return true;
        }
        sent_at + resend_delay_ms < time_ms
    }
}
