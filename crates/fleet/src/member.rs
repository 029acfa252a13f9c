//! A broker as the server knows it.

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::Notify;

use crate::credential::Enrolment;
use crate::report::{Refused, Report};
use crate::task::Tasks;

/// A broker that has not been seen for this long, beyond its longest wait, is away.
pub(crate) const AWAY_MS: i64 = 20_000;

/// See the module.
pub(crate) struct Member {
    pub(crate) enrolment: Enrolment,
    /// None before its first poll since the server started.
    pub(crate) seen: Option<LastPoll>,
    pub(crate) tasks: Tasks,
    /// Wakes its poll.
    pub(crate) wake: Arc<Notify>,
    /// Grows with each change of anything that is shown.
    pub(crate) changed: u64,
    /// Its state as it was last shown.
    pub(crate) shown: Option<State>,
    /// Its poll in flight; an earlier one gives way.
    pub(crate) poll: u64,
}

/// The last poll of a broker.
pub(crate) struct LastPoll {
    pub(crate) report: Report,
    pub(crate) at_ms: i64,
    pub(crate) address: String,
    /// Until when the next one is expected.
    pub(crate) next_ms: i64,
    /// The last request that it began with.
    pub(crate) begun: u64,
}

/// How a broker stands to what it should run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// It runs the version in force.
    InSync,
    /// It runs another version.
    Drift,
    /// It refused the version in force.
    Refusing,
    /// It does not come.
    Away,
    /// It never came since the server started.
    Unseen,
    /// It was revoked.
    Revoked,
}

impl State {
    pub(crate) const ALL: [Self; 6] =
        [Self::InSync, Self::Drift, Self::Refusing, Self::Away, Self::Unseen, Self::Revoked];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::InSync => "in_sync",
            Self::Drift => "drift",
            Self::Refusing => "refusing",
            Self::Away => "away",
            Self::Unseen => "unseen",
            Self::Revoked => "revoked",
        }
    }
}

impl Member {
    pub(crate) fn new(enrolment: Enrolment, tasks: Tasks) -> Self {
        Self { enrolment, seen: None, tasks, wake: Arc::default(), changed: 0, shown: None, poll: 0 }
    }

    /// Whether it comes, or came until lately.
    pub(crate) fn is_coming(&self, now_ms: i64) -> bool {
        self.enrolment.revoked.is_none() && self.seen.as_ref().is_some_and(|seen| now_ms <= seen.next_ms + AWAY_MS)
    }

    /// Whether it runs the version in force, or has not refused it.
    pub(crate) fn is_able(&self, version: u64) -> bool {
        let Some(LastPoll { report, .. }) = &self.seen else { return false };
        report.version == version || report.refused.as_ref().is_none_or(|refused| refused.version != version)
    }

    /// Its state, when its group is at `version`; 0 when that has none.
    pub(crate) fn state(&self, version: u64, now_ms: i64) -> State {
        if self.enrolment.revoked.is_some() {
            return State::Revoked;
        }
        let Some(seen) = &self.seen else { return State::Unseen };
        if now_ms > seen.next_ms + AWAY_MS {
            return State::Away;
        }
        match &seen.report.refused {
            Some(Refused { .. }) if seen.report.version != version => State::Refusing,
            _ if seen.report.version == version => State::InSync,
            _ => State::Drift,
        }
    }

    /// As the list shows it.
    pub(crate) fn row<'m>(&'m self, version: u64, spread_checks: Vec<&'m str>, now_ms: i64) -> Row<'m> {
        let Enrolment { name, group, enrolled_ms, revoked, .. } = &self.enrolment;
        let seen = self.seen.as_ref();
        Row {
            name,
            group,
            state: self.state(version, now_ms),
            should_run: version,
            seen_ms: seen.map(|seen| seen.at_ms),
            address: seen.map(|seen| seen.address.as_str()),
            // Ahead when above zero; the way of the request makes it look up to its latency behind.
            clock_offset_seconds: seen.map(|seen| (seen.report.now_ms - seen.at_ms) as f64 / 1e3),
            report: seen.map(|seen| &seen.report),
            enrolled_ms: *enrolled_ms,
            token_expires_ms: self.enrolment.expires_ms(),
            revoked_ms: revoked.as_ref().map(|(ms, _)| *ms),
            tasks: self.tasks.pending().count(),
            spread_checks,
        }
    }
}

/// See [`Member::row`].
#[derive(Serialize)]
pub(crate) struct Row<'m> {
    name: &'m str,
    group: &'m str,
    state: State,
    should_run: u64,
    seen_ms: Option<i64>,
    address: Option<&'m str>,
    clock_offset_seconds: Option<f64>,
    report: Option<&'m Report>,
    enrolled_ms: i64,
    token_expires_ms: i64,
    revoked_ms: Option<i64>,
    tasks: usize,
    /// Checks of the group that not all of its brokers run, and that this one may be running.
    spread_checks: Vec<&'m str>,
}
