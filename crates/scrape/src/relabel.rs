//! Rules that change, keep or drop sets of labels, as users of Prometheus write them.
//!
//! Format: prometheus.io/docs/prometheus/latest/configuration/configuration/#relabel_config. Expressions are anchored
//! at both ends and take linear time.

use regex::Regex;

use md5::{Digest as _, Md5};

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Replace,
    Keep,
    Drop,
    KeepEqual,
    DropEqual,
    HashMod,
    LabelMap,
    LabelDrop,
    LabelKeep,
    Lowercase,
    Uppercase,
}

impl Action {
    /// Every action by its name.
    pub(crate) const ALL: [(&'static str, Self); 11] = [
        ("replace", Self::Replace),
        ("keep", Self::Keep),
        ("drop", Self::Drop),
        ("keepequal", Self::KeepEqual),
        ("dropequal", Self::DropEqual),
        ("hashmod", Self::HashMod),
        ("labelmap", Self::LabelMap),
        ("labeldrop", Self::LabelDrop),
        ("labelkeep", Self::LabelKeep),
        ("lowercase", Self::Lowercase),
        ("uppercase", Self::Uppercase),
    ];

    fn needs_target(self) -> bool {
        matches!(
            self,
            Self::Replace | Self::HashMod | Self::Lowercase | Self::Uppercase | Self::KeepEqual | Self::DropEqual
        )
    }
}

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) source: Vec<String>,
    pub(crate) separator: String,
    pub(crate) target: String,
    pub(crate) regex: Regex,
    pub(crate) modulus: u64,
    pub(crate) replacement: String,
    pub(crate) action: Action,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        (&self.source, &self.separator, &self.target, self.modulus, &self.replacement, self.action)
            == (&other.source, &other.separator, &other.target, other.modulus, &other.replacement, other.action)
            && self.regex.as_str() == other.regex.as_str()
    }
}

/// The expression, anchored, with a dot that fits line ends.
pub(crate) fn anchored(expression: &str) -> Result<Regex, String> {
    let regex = Regex::new(&format!("^(?s:{expression})$"));
    regex.map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        format!("regex {expression:?} cannot be read: {last}")
    })
}

/// Names and values, each name once, unordered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LabelSet(Vec<(String, String)>);

impl LabelSet {
    /// The value of `name`, empty when it is not there.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|pair| pair.0 == name).map_or("", |pair| &pair.1)
    }

    /// Sets `name`; an empty value removes it.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        match self.0.iter().position(|pair| pair.0 == name) {
            Some(at) if value.is_empty() => drop(self.0.swap_remove(at)),
            Some(at) => self.0[at].1 = value.to_owned(),
            None if value.is_empty() => {}
            None => self.0.push((name.to_owned(), value.to_owned())),
        }
    }

    /// Adds a pair whose name is not there.
    pub(crate) fn push(&mut self, name: String, value: String) {
        if !value.is_empty() {
            self.0.push((name, value));
        }
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.0.retain(|pair| keep(&pair.0));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The pairs by name.
    pub(crate) fn sorted(&self) -> Vec<(&str, &str)> {
        let mut pairs: Vec<_> = self.iter().collect();
        pairs.sort_unstable();
        pairs
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for LabelSet {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        let mut out = Self::default();
        pairs.into_iter().for_each(|(name, value)| out.set(name, value));
        out
    }
}

/// Applies `rules` in order; false when one of them drops the set.
pub(crate) fn apply(rules: &[Rule], labels: &mut LabelSet) -> bool {
    rules.iter().all(|rule| rule.apply(labels))
}

impl Rule {
    /// Validates the rule as a whole.
    pub(crate) fn check(&self) -> Result<(), String> {
        let name = Action::ALL.iter().find(|(_, action)| *action == self.action).map_or("", |(name, _)| name);
        if self.action.needs_target() && self.target.is_empty() {
            return Err(format!("action {name} needs a target_label"));
        }
        if self.action == Action::HashMod && self.modulus == 0 {
            return Err("action hashmod needs a modulus above 0".into());
        }
        if matches!(self.action, Action::LabelDrop | Action::LabelKeep) && !self.source.is_empty() {
            return Err(format!("action {name} takes only a regex, no source_labels"));
        }
        Ok(())
    }

    fn apply(&self, labels: &mut LabelSet) -> bool {
        let joined = || self.source.iter().map(|name| labels.get(name)).collect::<Vec<_>>().join(&self.separator);
        match self.action {
            Action::Keep => return self.regex.is_match(&joined()),
            Action::Drop => return !self.regex.is_match(&joined()),
            Action::KeepEqual => return labels.get(&self.target) == joined(),
            Action::DropEqual => return labels.get(&self.target) != joined(),
            Action::Replace => self.replace(&joined(), labels),
            Action::Lowercase => set(labels, &self.target, &joined().to_lowercase()),
            Action::Uppercase => set(labels, &self.target, &joined().to_uppercase()),
            Action::HashMod => {
                let hash: [u8; 16] = Md5::digest(joined().as_bytes()).into();
                let low = u64::from_be_bytes(hash[8..].try_into().expect("half of 16 bytes"));
                set(labels, &self.target, &(low % self.modulus).to_string());
            }
            Action::LabelMap => {
                let mut found = Vec::new();
                for (name, value) in labels.sorted() {
                    if let Some(captures) = self.regex.captures(name) {
                        let mut target = String::new();
                        captures.expand(&self.replacement, &mut target);
                        found.push((target, value.to_owned()));
                    }
                }
                found.iter().for_each(|(name, value)| labels.set(name, value));
            }
            Action::LabelDrop => labels.retain(|name| !self.regex.is_match(name)),
            Action::LabelKeep => labels.retain(|name| self.regex.is_match(name)),
        }
        true
    }

    fn replace(&self, joined: &str, labels: &mut LabelSet) {
        let Some(captures) = self.regex.captures(joined) else { return };
        let (mut target, mut value) = (String::new(), String::new());
        captures.expand(&self.target, &mut target);
        captures.expand(&self.replacement, &mut value);
        // An empty target name is ignored.
        if !target.is_empty() {
            labels.set(&target, &value);
        }
    }
}

fn set(labels: &mut LabelSet, name: &str, value: &str) {
    labels.set(name, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(action: Action, source: &[&str], target: &str, regex: &str, replacement: &str) -> Rule {
        Rule {
            source: source.iter().map(|name| (*name).to_owned()).collect(),
            separator: ";".into(),
            target: target.into(),
            regex: anchored(regex).unwrap(),
            modulus: 8,
            replacement: replacement.into(),
            action,
        }
    }

    /// Labels behind `rules`, by name; none when they are dropped.
    fn after(rules: &[Rule]) -> Option<String> {
        let mut labels: LabelSet =
            [("a", "foo"), ("b", "bar"), ("c", "baz"), ("__meta_k_x", "v")].into_iter().collect();
        let kept = apply(rules, &mut labels);
        let text: Vec<String> = labels.sorted().iter().map(|(name, value)| format!("{name}={value}")).collect();
        kept.then(|| text.join(","))
    }

    #[track_caller]
    fn check(rule: Rule, expected: &str) {
        assert_eq!(after(&[rule]).as_deref(), Some(expected));
    }

    #[test]
    fn every_action_does_what_it_says() {
        use Action::{DropEqual, HashMod, KeepEqual, LabelDrop, LabelKeep, LabelMap, Lowercase, Replace, Uppercase};
        let meta = "__meta_k_x=v";
        check(rule(Replace, &["a"], "d", "f(.*)", "ch${1}-ch${1}"), &format!("{meta},a=foo,b=bar,c=baz,d=choo-choo"));
        check(rule(Replace, &["a", "b"], "a", "(.*);(.*)", "$2$1"), &format!("{meta},a=barfoo,b=bar,c=baz"));
        check(rule(Replace, &["a"], "a", ".*", ""), &format!("{meta},b=bar,c=baz"));
        check(rule(Replace, &["a"], "d", "fo", "x"), &format!("{meta},a=foo,b=bar,c=baz"));
        check(rule(Replace, &["a"], "${1}x", "(f)oo", "y"), &format!("{meta},a=foo,b=bar,c=baz,fx=y"));
        check(rule(Replace, &["none"], "d", "(.*)", "x$1"), &format!("{meta},a=foo,b=bar,c=baz,d=x"));
        check(rule(LabelMap, &[], "", "__meta_k_(.*)", "$1"), &format!("{meta},a=foo,b=bar,c=baz,x=v"));
        check(rule(LabelDrop, &[], "", "__.*|b", ""), "a=foo,c=baz");
        check(rule(LabelKeep, &[], "", "a|b", ""), "a=foo,b=bar");
        check(rule(Uppercase, &["a", "b"], "a", "(.*)", ""), &format!("{meta},a=FOO;BAR,b=bar,c=baz"));
        check(rule(Lowercase, &["a"], "e", "(.*)", ""), &format!("{meta},a=foo,b=bar,c=baz,e=foo"));
        // What md5 says of "baz", last eight bytes, modulo 8.
        check(
            rule(HashMod, &["c"], "d", "(.*)", ""),
            &format!("{meta},a=foo,b=bar,c=baz,d={}", 0xe44c_f984_c85f_6e88_u64 % 8),
        );
        assert!(after(&[rule(Action::Keep, &["a"], "", "foo|x", "")]).is_some());
        assert!(after(&[rule(Action::Keep, &["a"], "", "fo", "")]).is_none(), "expressions are anchored");
        assert!(after(&[rule(Action::Drop, &["a", "b"], "", "foo;bar", "")]).is_none());
        assert!(after(&[rule(Action::Drop, &["a"], "", "bar", "")]).is_some());
        assert!(after(&[rule(KeepEqual, &["a"], "b", "(.*)", "")]).is_none());
        assert!(after(&[rule(KeepEqual, &["a"], "a", "(.*)", "")]).is_some());
        assert!(after(&[rule(DropEqual, &["a"], "a", "(.*)", "")]).is_none());
    }

    #[test]
    fn rules_without_what_they_need_are_refused() {
        assert!(rule(Action::Replace, &["a"], "", "(.*)", "$1").check().unwrap_err().contains("target_label"));
        let hash = Rule { modulus: 0, ..rule(Action::HashMod, &["a"], "b", "(.*)", "") };
        assert!(hash.check().unwrap_err().contains("modulus"));
        assert!(rule(Action::LabelDrop, &["a"], "", "b", "").check().unwrap_err().contains("source_labels"));
        assert!(anchored("(").unwrap_err().contains("cannot be read"));
    }
}
