//! One alert: an element that the expression of an alerting rule gives, through its states.

use ogive_model::{Labels, Ms, WallMs};

/// How long a resolved alert is kept and sent again: 15 min, so that a restarted Alertmanager is notified of it.
pub const RESOLVED_RETENTION: Ms = Ms::from_secs(15 * 60);

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

/// An alert.
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
    pub active_at: WallMs,
    /// When it began to fire.
    pub fired_at: Option<WallMs>,
    /// When it ceased.
    pub resolved_at: Option<WallMs>,
    /// When it was last handed to delivery.
    pub sent_at: Option<WallMs>,
    /// Since when it fires on without its element.
    pub keep_firing_since: Option<WallMs>,
}

impl Alert {
    /// Whether it is to be handed to delivery at `time`.
    #[must_use]
    pub fn needs_sending(&self, time: WallMs, resend_delay: Ms) -> bool {
        if self.state == AlertState::Pending {
            return false;
        }
        let Some(sent_at) = self.sent_at else {
            return self.state == AlertState::Firing || self.fired_at.is_some();
        };
        if self.resolved_at.is_some_and(|resolved_at| resolved_at > sent_at) {
            return true;
        }
        sent_at + resend_delay < time
    }
}
