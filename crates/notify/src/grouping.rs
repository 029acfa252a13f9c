//! Groups of alerts that people hear of together, and when: after a wait for what comes with the first, then when
//! something changed and the interval is over, then again while something fires.
//!
//! Invariants: an alert that fired and ceased between two notifications is in neither; one that was notified is
//! notified as resolved, once. An alert that nobody renews ends at its `ends_ms`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::notice::{Notice, TENANT_LABEL};
use crate::queue::ALERTS_MAX;

/// How alerts are grouped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// Alerts of the same values of these labels are one group.
    pub by: Vec<String>,
    /// From the first alert of a group to its first notification, milliseconds.
    pub wait_ms: i64,
    /// From a notification to the next when something changed, milliseconds.
    pub interval_ms: i64,
    /// From a notification to the next when nothing changed and something fires, milliseconds.
    pub repeat_ms: i64,
}

/// 30 s, 5 min and 4 h, and groups by name, as an Alertmanager's example has them.
impl Default for Grouping {
    fn default() -> Self {
        Self { by: vec!["alertname".to_owned()], wait_ms: 30_000, interval_ms: 300_000, repeat_ms: 4 * 3_600_000 }
    }
}

/// A notification about one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Notification {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// All firing alerts, and those that were resolved since the last notification.
    pub alerts: Vec<Notice>,
    /// Nothing changed since the last one.
    pub is_repeat: bool,
}

impl Notification {
    /// Whether none of its alerts fires any more.
    #[must_use]
    pub fn is_resolved(&self) -> bool {
        self.alerts.iter().all(|alert| alert.is_resolved)
    }
}

/// The groups of one destination, by their labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups(BTreeMap<Labels, Group>);

type Labels = BTreeMap<String, String>;

#[derive(Clone, Debug, PartialEq)]
struct Group {
    members: BTreeMap<Labels, Member>,
    /// When a change began to wait, milliseconds.
    since_ms: i64,
    notified_ms: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
struct Member {
    alert: Notice,
    /// It was notified as firing.
    is_known: bool,
    /// Its firing is silenced.
    is_muted: bool,
}

/// Whether there is room for another alert.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Capacity {
    Free,
    /// Another alert went.
    Made,
    None,
}

/// The stored state of an alert.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct StoredMember {
    alert: Notice,
    is_known: bool,
    since_ms: i64,
    notified_ms: Option<i64>,
}

impl Groups {
    /// The state to be stored across restarts.
    pub(crate) fn kept(&self) -> Vec<StoredMember> {
        let of = |group: &Group| {
            let (since_ms, notified_ms) = (group.since_ms, group.notified_ms);
            let kept =
                |one: &Member| StoredMember { alert: one.alert.clone(), is_known: one.is_known, since_ms, notified_ms };
            group.members.values().map(kept).collect::<Vec<_>>()
        };
        self.0.values().flat_map(of).collect()
    }

    /// Restores the stored state, in the current groups.
    pub(crate) fn restored(kept: Vec<StoredMember>, grouping: &Grouping) -> Self {
        let mut out = Self::default();
        for StoredMember { alert, is_known, since_ms, notified_ms } in kept {
            let fresh = || Group { members: BTreeMap::new(), since_ms, notified_ms };
            let group = out.0.entry(grouping.labels(&alert)).or_insert_with(fresh);
            group.since_ms = group.since_ms.min(since_ms);
            group.notified_ms = group.notified_ms.max(notified_ms);
            group.members.insert(alert.labels.clone(), Member { alert, is_known, is_muted: false });
        }
        out
    }

    /// Adds a state of an alert. Returns how many alerts were dropped for it.
    pub(crate) fn push(&mut self, alert: Notice, grouping: &Grouping, now_ms: i64) -> u64 {
        let labels = grouping.labels(&alert);
        let known = self.0.get_mut(&labels).and_then(|group| group.members.get_mut(&alert.labels));
        if let Some(member) = known {
            member.alert = alert;
            return 0;
        }
        if alert.is_resolved {
            return 0;
        }
        let room = self.make_room_for(&labels);
        if room == Capacity::None {
            return 1;
        }
        let fresh = || Group { members: BTreeMap::new(), since_ms: now_ms, notified_ms: None };
        let group = self.0.entry(labels).or_insert_with(fresh);
        group.members.insert(alert.labels.clone(), Member { alert, is_known: false, is_muted: false });
        u64::from(room == Capacity::Made)
    }

    /// Makes room for an alert in the group with these labels, in the largest group. There is none if that is the group
    /// itself, or has hardly more alerts: a flood of alerts does not displace those of other groups.
    fn make_room_for(&mut self, labels: &Labels) -> Capacity {
        let count: usize = self.0.values().map(|group| group.members.len()).sum();
        if count < ALERTS_MAX {
            return Capacity::Free;
        }
        let own = self.0.get(labels).map_or(0, |group| group.members.len());
        let largest = self.0.values_mut().max_by_key(|group| group.members.len()).expect("alerts are in groups");
        if largest.members.len() <= own + 1 {
            return Capacity::None;
        }
        let newest = largest.members.iter().max_by_key(|(_, one)| (!one.is_known, one.alert.starts_ms));
        let newest = newest.map(|(labels, _)| labels.clone()).expect("the largest group has alerts");
        largest.members.remove(&newest);
        Capacity::Made
    }

    /// The notifications due at `now_ms`, for alerts whose state is on disk (`saved`).
    pub(crate) fn due(&mut self, now_ms: i64, grouping: &Grouping, saved: u64) -> Vec<Notification> {
        for group in self.0.values_mut() {
            for member in group.members.values_mut() {
                // Its rule was removed or fails: it is not known whether it still fires.
                member.alert.is_resolved |= member.alert.ends_ms <= now_ms;
            }
            group.members.retain(|_, one| one.is_known || !one.alert.is_resolved);
        }
        let is_recent = |group: &Group| group.notified_ms.is_some_and(|at| now_ms - at < grouping.interval_ms);
        self.0.retain(|_, group| !group.members.is_empty() || is_recent(group));
        self.0.iter().filter_map(|(labels, group)| group.due(labels, now_ms, grouping, saved)).collect()
    }

    /// Records that these were sent at `now_ms`.
    pub(crate) fn done(&mut self, said: &[Notification], now_ms: i64) {
        for notification in said {
            let Some(group) = self.0.get_mut(&notification.labels) else { continue };
            group.notified_ms = Some(now_ms);
            for alert in &notification.alerts {
                let Some(member) = group.members.get_mut(&alert.labels) else { continue };
                member.is_known = !alert.is_resolved;
                if alert.is_resolved && member.alert.is_resolved {
                    group.members.remove(&alert.labels);
                }
            }
        }
    }

    /// Silences the alerts for which `is_quiet` returns true, and no others.
    pub(crate) fn mute(&mut self, is_quiet: &dyn Fn(&Notice) -> bool) {
        for member in self.0.values_mut().flat_map(|group| group.members.values_mut()) {
            member.is_muted = is_quiet(&member.alert);
        }
    }

    /// Alerts that wait for a notification.
    pub(crate) fn waiting(&self) -> usize {
        let members = self.0.values().flat_map(|group| group.members.values());
        members.filter(|one| one.is_heard() && one.is_known == one.alert.is_resolved).count()
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.0.values().map(|group| group.members.len()).sum()
    }
}

impl Grouping {
    /// The labels that define an alert's group; alerts of two tenants are never in one.
    fn labels(&self, alert: &Notice) -> Labels {
        let of_tenant = (!alert.tenant.is_empty()).then(|| TENANT_LABEL.to_owned());
        let names = self.by.iter().cloned().chain(of_tenant);
        names.filter_map(|name| alert.labels.get(&name).cloned().map(|value| (name, value))).collect()
    }
}

impl Member {
    /// A resolution is notified even while the alert is silenced.
    const fn is_heard(&self) -> bool {
        !self.is_muted || self.alert.is_resolved
    }
}

impl Group {
    fn due(&self, labels: &Labels, now_ms: i64, grouping: &Grouping, saved: u64) -> Option<Notification> {
        let ready: Vec<&Member> =
            self.members.values().filter(|one| one.alert.generation <= saved && one.is_heard()).collect();
        let is_changed = ready.iter().any(|one| one.is_known == one.alert.is_resolved);
        let fires = ready.iter().any(|one| !one.alert.is_resolved);
        let at = match self.notified_ms {
            None => self.since_ms.saturating_add(grouping.wait_ms),
            Some(before) if is_changed => before.saturating_add(grouping.interval_ms),
            Some(before) if fires => before.saturating_add(grouping.repeat_ms),
            Some(_) => return None,
        };
        let alerts: Vec<Notice> = ready.into_iter().map(|one| one.alert.clone()).collect();
        (at <= now_ms && !alerts.is_empty()).then(|| Notification {
            labels: labels.clone(),
            alerts,
            is_repeat: !is_changed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::example;

    const GROUPING: fn() -> Grouping = || Grouping { by: vec!["team".to_owned()], ..Grouping::default() };

    fn team_notice(team: &str, name: &str, is_resolved: bool) -> Notice {
        let mut notice = example(name, is_resolved);
        notice.labels.insert("team".to_owned(), team.to_owned());
        notice
    }

    fn names(said: &[Notification]) -> Vec<Vec<(String, bool)>> {
        let alerts = |one: &Notification| one.alerts.iter().map(|a| (a.name().to_owned(), a.is_resolved)).collect();
        said.iter().map(alerts).collect()
    }

    #[test]
    fn a_group_waits_hears_of_changes_and_repeats() {
        let (mut groups, grouping) = (Groups::default(), GROUPING());
        groups.push(team_notice("x", "a", false), &grouping, 0);
        groups.push(team_notice("x", "b", false), &grouping, 10_000);
        groups.push(team_notice("y", "c", false), &grouping, 10_000);
        assert!(groups.due(29_999, &grouping, 1).is_empty(), "the wait is not over");
        assert!(groups.due(30_000, &grouping, 0).is_empty(), "the state is not on disk");
        let said = groups.due(30_000, &grouping, 1);
        assert_eq!(names(&said), [[("a".to_owned(), false), ("b".to_owned(), false)]]);
        assert_eq!(groups.due(30_000, &grouping, 1), said, "what was not taken is due again");
        groups.done(&said, 30_000);
        assert!(groups.due(39_999, &grouping, 1).is_empty());
        groups.push(team_notice("x", "a", true), &grouping, 60_000);
        groups.push(team_notice("x", "d", false), &grouping, 60_000);
        groups.push(team_notice("x", "d", true), &grouping, 90_000);
        let all = groups.due(330_000, &grouping, 1);
        assert_eq!(names(&all)[0], [("a".to_owned(), true), ("b".to_owned(), false)], "d came and went");
        groups.done(&all, 330_000);
        assert!(groups.due(330_000 + grouping.repeat_ms - 1, &grouping, 1).is_empty());
        let again = groups.due(330_000 + grouping.repeat_ms, &grouping, 1);
        assert!(again.iter().all(|one| one.is_repeat) && again.len() == 2, "{again:?}");
    }

    #[test]
    fn what_nobody_renews_ends() {
        let (mut groups, grouping) = (Groups::default(), GROUPING());
        groups.push(team_notice("x", "a", false), &grouping, 0);
        let said = groups.due(30_000, &grouping, 1);
        groups.done(&said, 30_000);
        let said = groups.due(1_000_000_000, &grouping, 1);
        assert_eq!(names(&said), [[("a".to_owned(), true)]]);
        groups.done(&said, 1_000_000_000);
        assert_eq!(groups.count(), 0);
        assert!(groups.due(2_000_000_000, &grouping, 1).is_empty());
    }

    #[test]
    fn a_change_while_it_is_sent_is_said_next_time() {
        let (mut groups, grouping) = (Groups::default(), GROUPING());
        groups.push(team_notice("x", "a", false), &grouping, 0);
        let said = groups.due(30_000, &grouping, 1);
        groups.push(team_notice("x", "a", true), &grouping, 30_500);
        groups.done(&said, 31_000);
        assert_eq!(groups.waiting(), 1);
        assert_eq!(names(&groups.due(331_000, &grouping, 1)), [[("a".to_owned(), true)]]);
    }

    #[test]
    fn what_is_muted_is_heard_of_when_that_is_over_or_it_ceases() {
        let (mut groups, grouping) = (Groups::default(), GROUPING());
        groups.push(team_notice("x", "a", false), &grouping, 0);
        groups.push(team_notice("x", "b", false), &grouping, 0);
        groups.mute(&|alert| alert.name() == "a");
        let said = groups.due(30_000, &grouping, 1);
        assert_eq!(names(&said), [[("b".to_owned(), false)]]);
        groups.done(&said, 30_000);
        groups.mute(&|alert| alert.name() == "b");
        let said = groups.due(330_000, &grouping, 1);
        assert_eq!(names(&said), [[("a".to_owned(), false)]], "a is heard of, and b is quiet");
        groups.done(&said, 330_000);
        groups.mute(&|_| true);
        assert!(groups.due(100_000_000, &grouping, 1).is_empty(), "nothing repeats");
        groups.push(team_notice("x", "b", true), &grouping, 100_000_000);
        assert_eq!(names(&groups.due(100_000_000, &grouping, 1)), [[("b".to_owned(), true)]]);
    }

    #[test]
    fn groups_have_an_end() {
        let (mut groups, grouping) = (Groups::default(), GROUPING());
        let kept = |at: usize| {
            let alert = Notice { starts_ms: at as i64, ..team_notice("x", &at.to_string(), false) };
            StoredMember { alert, is_known: false, since_ms: 0, notified_ms: None }
        };
        assert_eq!(groups.push(team_notice("y", "first", false), &grouping, 0), 0);
        groups = Groups::restored((1..=ALERTS_MAX).map(kept).collect(), &grouping);
        assert_eq!(groups.kept().len(), ALERTS_MAX);
        assert_eq!(groups.push(team_notice("z", "new", false), &grouping, 0), 1);
        assert_eq!(groups.count(), ALERTS_MAX);
        assert_eq!(groups.push(team_notice("x", "one more", false), &grouping, 0), 1, "the largest group takes none");
        let of_others = groups.kept().iter().filter(|one| one.alert.labels["team"] != "x").count();
        assert_eq!((groups.count(), of_others), (ALERTS_MAX, 1), "the group of z keeps its alert");
    }
}
