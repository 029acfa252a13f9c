//! Checks that only some of the brokers of a group run, and which brokers those are.
//!
//! A check belongs to the brokers that score highest for it, where the score is a hash of both names (rendezvous
//! hashing, Thaler and Ravishankar 1998). A broker that leaves gives up its own checks and no others move; one that
//! comes back takes the same ones again; and no table of who has what is kept anywhere.
//! Invariants: the owners follow from the names alone, on every machine and after every restart. As many brokers own a
//! check as it wants, or all where there are fewer.
//! Limits: [`SPREAD_MAX`], [`NAME_BYTES_MAX`], [`LEASE_MIN`], [`LEASE_MAX`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ogive_text::fnv::fnv1a;

/// 15 s: with its margin a quarter of the usual period of a minute, and less than one of half a minute.
const LEASE: Duration = Duration::from_secs(15);
/// 3 s: a poll each second.
const LEASE_MIN: Duration = Duration::from_secs(3);
/// An hour: as long as nobody takes over what a lost broker ran.
const LEASE_MAX: Duration = Duration::from_secs(3_600);
/// 1,000 such checks of a group: a broker that has all of them reports 20 KB each few seconds.
pub(crate) const SPREAD_MAX: usize = 1_000;
/// 200 bytes: as long as the name of a check that a broker can be asked to run.
pub(crate) const NAME_BYTES_MAX: usize = 200;

/// What of a group's configuration is divided among its brokers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Checks by name, with how many brokers run each.
    pub checks: BTreeMap<String, usize>,
    /// How long a broker runs them without word from the server.
    pub lease: Duration,
}

impl Default for Spread {
    fn default() -> Self {
        Self { checks: BTreeMap::new(), lease: LEASE }
    }
}

impl Spread {
    /// Whether it has its size.
    ///
    /// # Errors
    /// A sentence with the limit.
    pub fn check(&self) -> Result<(), String> {
        if self.checks.len() > SPREAD_MAX {
            let count = self.checks.len();
            return Err(format!(
                "{count} checks run on some of the brokers only, above {SPREAD_MAX}; divide the group"
            ));
        }
        let is_long = |name: &&String| name.len() > NAME_BYTES_MAX || name.contains(char::is_control);
        if let Some(name) = self.checks.keys().find(is_long) {
            return Err(format!(
                "check {name:?} runs on some of the brokers only: its name has at most {NAME_BYTES_MAX} bytes, and no \
                 control characters"
            ));
        }
        if !(LEASE_MIN..=LEASE_MAX).contains(&self.lease) {
            let (found, least, most) = (self.lease.as_secs_f64(), LEASE_MIN.as_secs(), LEASE_MAX.as_secs());
            return Err(format!("lease is {found} s; give {least} s to {most} s"));
        }
        Ok(())
    }
}

/// The checks of each of `brokers`; one that owns none has an empty set.
pub(crate) fn shares<'b>(
    checks: &BTreeMap<String, usize>,
    brokers: impl Iterator<Item = &'b str>,
) -> BTreeMap<&'b str, BTreeSet<String>> {
    let hashed: Vec<(u64, &str)> = brokers.map(|broker| (hash(broker), broker)).collect();
    let mut out: BTreeMap<&str, BTreeSet<String>> =
        hashed.iter().map(|(_, broker)| (*broker, BTreeSet::new())).collect();
    for (check, count) in checks {
        for broker in owners(check, &hashed, *count) {
            let is_new = out.get_mut(broker).expect("it is one of them").insert(check.clone());
            assert!(is_new, "{broker} owns {check} once");
        }
    }
    out
}

/// Who of `brokers` owns a check that `count` of them run. Equal scores are decided by the names.
fn owners<'b>(check: &str, brokers: &[(u64, &'b str)], count: usize) -> Vec<&'b str> {
    let check = hash(check);
    let mut scored: Vec<(u64, &str)> = brokers.iter().map(|(broker, name)| (score(*broker, check), *name)).collect();
    if count < scored.len() {
        scored.select_nth_unstable_by(count, |one, other| other.cmp(one));
        scored.truncate(count);
    }
    scored.into_iter().map(|(_, name)| name).collect()
}

fn score(broker: u64, check: u64) -> u64 {
    mixed(mixed(broker) ^ check)
}

/// Nothing secret depends on it, and whoever names checks may name them as they like.
fn hash(text: &str) -> u64 {
    fnv1a(text.bytes())
}

/// The last step of SplitMix64: each bit of the input changes half of the output.
const fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(many: usize, count: usize) -> BTreeMap<String, usize> {
        (0..many).map(|at| (format!("check-{at}"), count)).collect()
    }

    fn brokers(of: &[usize]) -> Vec<String> {
        of.iter().map(|at| format!("edge-{at}")).collect()
    }

    fn shared(checks: &BTreeMap<String, usize>, brokers: &[String]) -> BTreeMap<String, BTreeSet<String>> {
        shares(checks, brokers.iter().map(String::as_str)).into_iter().map(|(name, of)| (name.to_owned(), of)).collect()
    }

    /// The slow way: sort everybody for each check.
    fn model(checks: &BTreeMap<String, usize>, brokers: &[String]) -> BTreeMap<String, BTreeSet<String>> {
        let mut out: BTreeMap<String, BTreeSet<String>> =
            brokers.iter().map(|broker| (broker.clone(), BTreeSet::new())).collect();
        for (check, count) in checks {
            let mut all: Vec<_> = brokers.iter().map(|broker| (score(hash(broker), hash(check)), broker)).collect();
            all.sort();
            for (_, broker) in all.iter().rev().take(*count) {
                out.get_mut(*broker).unwrap().insert(check.clone());
            }
        }
        out
    }

    #[test]
    fn as_many_own_a_check_as_it_wants_or_all() {
        for count in 1..=5 {
            for size in 0..=7 {
                let (checks, brokers) = (checks(60, count), brokers(&(0..size).collect::<Vec<_>>()));
                let found = shared(&checks, &brokers);
                assert_eq!(found, model(&checks, &brokers), "{count} of {size}");
                for check in checks.keys() {
                    let owners = found.values().filter(|of| of.contains(check)).count();
                    assert_eq!(owners, count.min(size), "{check}: {count} of {size}");
                }
                let mut backwards = brokers.clone();
                backwards.reverse();
                assert_eq!(found, shared(&checks, &backwards), "the order says nothing");
            }
        }
    }

    #[test]
    fn a_broker_that_leaves_moves_its_own_checks_alone() {
        for count in 1..=3 {
            let checks = checks(300, count);
            let all = brokers(&[0, 1, 2, 3, 4, 5]);
            let before = shared(&checks, &all);
            for lost in &all {
                let left: Vec<String> = all.iter().filter(|name| *name != lost).cloned().collect();
                let after = shared(&checks, &left);
                for name in &left {
                    assert!(after[name].is_superset(&before[name]), "{name} keeps what it had without {lost}");
                    assert!(after[name].difference(&before[name]).all(|check| before[lost].contains(check)));
                }
            }
        }
    }

    #[test]
    fn shares_are_about_equal() {
        let checks = checks(1_000, 1);
        for (name, of) in shared(&checks, &brokers(&[1, 2, 3, 4, 5])) {
            // 200 each with a deviation of 12.6: six of them to either side.
            assert!((124..=276).contains(&of.len()), "{name} has {}", of.len());
        }
    }

    /// Servers of different versions must agree, and a restart with a new version must move nothing.
    #[test]
    fn the_score_stays_what_it_is() {
        assert_eq!((hash(""), hash("a")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c));
        // The first output of SplitMix64 of the seed 0 is this step of its increment.
        assert_eq!(mixed(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn limits_hold() {
        let of = |checks, lease| Spread { checks, lease }.check();
        assert_eq!(of(checks(SPREAD_MAX, 1), LEASE), Ok(()));
        assert!(of(checks(SPREAD_MAX + 1, 1), LEASE).unwrap_err().contains("above 1000"));
        let named = |name: String| of(BTreeMap::from([(name, 1)]), LEASE);
        assert_eq!(named("x".repeat(NAME_BYTES_MAX)), Ok(()));
        assert!(named("x".repeat(NAME_BYTES_MAX + 1)).unwrap_err().contains("at most 200 bytes"));
        assert!(named("a\nb".into()).is_err());
        for (ms, is_good) in [(2_999, false), (3_000, true), (3_600_000, true), (3_600_001, false)] {
            assert_eq!(of(BTreeMap::new(), Duration::from_millis(ms)).is_ok(), is_good, "{ms}");
        }
    }
}
