//! The groups that an expression makes with `by` and `without`, and which of them a heat map draws.
//!
//! Invariants: groups are merged only when the question says so (`merge=true`); otherwise one is drawn, and the answer
//! names all.
//! Limits: [`GROUPS_MAX`] groups are listed.

use ogive_model::{Labels, MatchOp, Matcher};

use super::catalog;
use super::error::ApiError;
use super::params::Params;
use super::prometheus_json;

/// 1,000 groups are more than anybody chooses from, and some 100 kB of JSON.
pub(super) const GROUPS_MAX: usize = 1_000;

/// Which groups are drawn.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    /// The one that these select.
    group: Option<Vec<Matcher>>,
    /// All, merged.
    merge: bool,
}

/// One group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    pub(super) labels: Labels,
    pub(super) series: usize,
    /// Samples in the range, if known.
    pub(super) count: Option<f64>,
}

/// All groups; empty when there is only one.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    /// The largest first.
    pub(super) list: Vec<Group>,
    /// The one that is drawn; None when all or none are.
    pub(super) drawn: Option<Labels>,
    merged: bool,
    chosen: bool,
}

impl Choice {
    /// `group={route="/a"}`, or `merge=true`.
    pub(super) fn from_params(params: &Params) -> Result<Self, ApiError> {
        let wrong = |text: &str| {
            ApiError::bad_data(format!(
                "invalid parameter \"group\": {text:?} is not the labels of a group, such as {{route=\"/a\"}}"
            ))
        };
        let group = params.get("group").filter(|text| !text.is_empty());
        let group = match group {
            None => None,
            Some("{}") => Some(Vec::new()),
            Some(text) => Some(catalog::selector(text).map_err(|_| wrong(text))?),
        };
        let merge = match params.get("merge") {
            None | Some("" | "false" | "0") => false,
            Some("true" | "1") => true,
            Some(text) => {
                return Err(ApiError::bad_data(format!("invalid parameter \"merge\": {text:?} is not true or false")));
            }
        };
        if merge && group.is_some() {
            return Err(ApiError::bad_data("group and merge exclude each other; leave one of them out"));
        }
        Ok(Self { group, merge })
    }

    /// The group of exactly these labels.
    pub(super) fn exactly(labels: &Labels) -> Self {
        let matcher = |(name, value): (&str, &str)| Matcher::new(name, MatchOp::Equal, value).ok();
        Self { group: Some(labels.iter().filter_map(matcher).collect()), merge: false }
    }

    /// The index of the group that the matchers choose: the one with these labels and no others, or the only one with
    /// them.
    fn find(matchers: &[Matcher], list: &[Group]) -> Result<Option<usize>, ApiError> {
        let fits = |group: &&(usize, &Group)| group.1.labels.match_all(matchers);
        let all: Vec<(usize, &Group)> = list.iter().enumerate().collect();
        let fitting: Vec<&(usize, &Group)> = all.iter().filter(fits).collect();
        let exact = fitting.iter().find(|group| group.1.labels.len() == matchers.len());
        match (exact, &*fitting) {
            (Some(group), _) => Ok(Some(group.0)),
            (None, []) => Ok(None),
            (None, [one]) => Ok(Some(one.0)),
            (None, several) => Err(ApiError::bad_data(format!(
                "invalid parameter \"group\": it selects {} groups; name all labels of one",
                several.len()
            ))),
        }
    }
}

impl Groups {
    /// Chooses from `list`. One group, or none, needs no choice.
    pub(super) fn new(mut list: Vec<Group>, choice: &Choice) -> Result<Self, ApiError> {
        let size = |group: &Group| group.count.unwrap_or(0.0);
        list.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.labels.cmp(&b.labels)));
        list.dedup_by(|a, b| a.labels == b.labels);
        if let Some(matchers) = &choice.group {
            let drawn = Choice::find(matchers, &list)?.map(|at| list[at].labels.clone());
            let merged = list.is_empty();
            return Ok(Self { list, drawn, merged, chosen: true });
        }
        if choice.merge || list.len() < 2 {
            return Ok(Self { list, drawn: None, merged: true, chosen: true });
        }
        let drawn = list.first().map(|group| group.labels.clone());
        Ok(Self { list, drawn, merged: false, chosen: false })
    }

    /// Whether the group of these labels is drawn.
    pub(super) fn draws(&self, labels: &Labels) -> bool {
        self.merged || self.drawn.as_ref() == Some(labels)
    }

    /// Whether there are several and none was chosen.
    pub(super) const fn is_open(&self) -> bool {
        self.list.len() > 1 && !self.chosen
    }

    /// The warning when none was chosen.
    pub(super) fn warning(&self) -> Option<String> {
        let drawn = self.drawn.as_ref().filter(|_| self.is_open())?;
        Some(format!(
            "{}: the largest, {}, is drawn; choose another with group=, or merge them with merge=true",
            self.number(),
            drawn.braced()
        ))
    }

    /// `3 groups`.
    pub(super) fn number(&self) -> String {
        format!("{} groups", self.list.len())
    }

    /// `"groups":[{"labels","series","count"}],"groups_total":n,"group":{..}|null`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let list = if self.list.len() > 1 { &*self.list } else { &[] };
        out.extend_from_slice(b"\"groups\":[");
        for (at, group) in list.iter().take(GROUPS_MAX).enumerate() {
            out.extend_from_slice(if at > 0 { b",{\"labels\":" } else { b"{\"labels\":" });
            prometheus_json::labels(out, &group.labels);
            out.extend_from_slice(format!(",\"series\":{},\"count\":", group.series).as_bytes());
            match group.count {
                Some(count) => {
                    out.push(b'"');
                    prometheus_json::number(out, count);
                    out.push(b'"');
                }
                None => out.extend_from_slice(b"null"),
            }
            out.push(b'}');
        }
        out.extend_from_slice(format!("],\"groups_total\":{},\"group\":", list.len()).as_bytes());
        match self.drawn.as_ref().filter(|_| list.len() > 1) {
            Some(labels) => prometheus_json::labels(out, labels),
            None => out.extend_from_slice(b"null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(pairs: &[(&str, &str)], count: f64) -> Group {
        Group { labels: Labels::new(pairs.iter().copied()).unwrap(), series: 1, count: Some(count) }
    }

    fn choice(pairs: &[(&str, &str)]) -> Choice {
        Choice::exactly(&Labels::new(pairs.iter().copied()).unwrap())
    }

    #[test]
    fn one_group_is_drawn_unless_all_are_asked_for() {
        let list = vec![group(&[("a", "1")], 1.0), group(&[("a", "2")], 5.0), group(&[], 2.0)];
        let groups = Groups::new(list.clone(), &Choice::default()).unwrap();
        assert!(groups.draws(&list[1].labels) && !groups.draws(&list[0].labels) && groups.is_open());
        assert!(groups.warning().unwrap().starts_with("3 groups: the largest, {a=\"2\"}, is drawn"));
        let merged = Groups::new(list.clone(), &Choice { merge: true, group: None }).unwrap();
        assert!(list.iter().all(|group| merged.draws(&group.labels)) && merged.warning().is_none());
        for wanted in [&[("a", "1")][..], &[]] {
            let chosen = Groups::new(list.clone(), &choice(wanted)).unwrap();
            let drawn: Vec<_> = list.iter().filter(|group| chosen.draws(&group.labels)).collect();
            assert_eq!((drawn.len(), drawn[0].labels.len()), (1, wanted.len()));
        }
        let none = Groups::new(list.clone(), &choice(&[("a", "3")])).unwrap();
        assert!(!list.iter().any(|group| none.draws(&group.labels)));
        let single = Groups::new(list[..1].to_vec(), &Choice::default()).unwrap();
        assert!(single.draws(&list[0].labels) && single.warning().is_none());
    }

    #[test]
    fn a_choice_of_several_groups_is_refused() {
        let list = vec![group(&[("a", "1"), ("b", "1")], 1.0), group(&[("a", "1"), ("b", "2")], 5.0)];
        assert!(Groups::new(list.clone(), &choice(&[("a", "1")])).unwrap_err().message.contains("2 groups"));
        assert!(Groups::new(list, &choice(&[("b", "1")])).is_ok());
    }
}
