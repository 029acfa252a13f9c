//! Who of a group's brokers may run which of its spread checks now: instants and reports in, grants out.
//!
//! Each poll of a broker reports what it runs, and each answer grants what it may run, for one lease from the moment at
//! which the broker asked. A grant is remembered until the broker reports that it runs less, or until its last poll is
//! a lease and a margin old: whichever of its answers were lost, by then it has stopped.
//! Invariants: a check is granted to a further broker only while fewer than it wants may be running it. After a start
//! nothing is granted that its broker did not report to run, until every lease of before the start is over: a restart
//! moves nothing.
//! Limits: a broker reports `SPREAD_MAX` names.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::spread::{NAME_BYTES_MAX, SPREAD_MAX, Spread, shares};

/// A second at least between the end of a lease on the broker and on the server: the broker's threads may be late.
const MARGIN_MIN: Duration = Duration::from_secs(1);
/// A quarter of the lease: three polls in a row may be lost.
const POLLS: u32 = 4;

/// See the module.
pub(crate) struct Division {
    spread: Spread,
    holders: BTreeMap<String, Holder>,
    /// What each broker that is able owns; none when that is to be computed again.
    owned: Option<BTreeMap<String, BTreeSet<String>>>,
    /// Checks of before the start, which stay where they are until `settled_ns`.
    settling: BTreeSet<String>,
    settled_ns: u64,
    /// To whom each check was granted last, to count moves.
    last: BTreeMap<String, BTreeSet<String>>,
}

/// A broker that polls.
struct Holder {
    /// What it may be running.
    checks: BTreeSet<String>,
    /// When that has ended, unless it polls again.
    until_ns: u64,
    /// It runs the configuration, or will; one that refuses it owns nothing.
    is_able: bool,
}

/// What a broker may run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) checks: Vec<String>,
    /// It differs from what the broker reported.
    pub(crate) is_news: bool,
    /// Checks among these that others had before.
    pub(crate) moves: usize,
}

impl Division {
    /// Of a group that was there before a start, whose brokers may be running anything.
    pub(crate) fn from_earlier(spread: Spread, now_ns: u64) -> Self {
        let (settling, settled_ns) = (spread.checks.keys().cloned().collect(), now_ns + nanoseconds(term(&spread)));
        Self { settling, settled_ns, ..Self::new(spread) }
    }

    /// Of a group of which no broker runs any spread check.
    pub(crate) fn new(spread: Spread) -> Self {
        let (holders, settling, last) = Default::default();
        Self { spread, holders, owned: None, settling, settled_ns: 0, last }
    }

    /// Another version of the configuration is in force.
    pub(crate) fn set(&mut self, spread: Spread) {
        self.last.retain(|check, _| spread.checks.contains_key(check));
        // A poll that is waiting is answered with the new lease, which may be longer.
        let grown = nanoseconds(term(&spread).saturating_sub(term(&self.spread)));
        self.holders.values_mut().for_each(|holder| holder.until_ns += grown);
        (self.spread, self.owned) = (spread, None);
    }

    /// A broker that will probably poll soon: it gets its share, so that not all go to the first.
    pub(crate) fn expect(&mut self, broker: &str, now_ns: u64) {
        let until_ns = now_ns + nanoseconds(term(&self.spread));
        let holder = Holder { checks: BTreeSet::new(), until_ns, is_able: true };
        self.holders.entry(broker.to_owned()).or_insert(holder);
        self.owned = None;
    }

    /// Whether the group has no such checks.
    pub(crate) fn is_empty(&self) -> bool {
        self.spread.checks.is_empty()
    }

    pub(crate) const fn lease(&self) -> Duration {
        self.spread.lease
    }

    /// How often its brokers poll.
    pub(crate) fn wait(&self) -> Duration {
        self.spread.lease / POLLS
    }

    /// A broker polls, and reports what it runs. True when that may change what others get.
    pub(crate) fn poll(&mut self, broker: &str, reported: Vec<String>, is_able: bool, now_ns: u64) -> bool {
        let has_expired = self.expire(now_ns);
        let checks = reported.into_iter().take(SPREAD_MAX).filter(|name| name.len() <= NAME_BYTES_MAX).collect();
        let holder = Holder { checks, until_ns: now_ns + nanoseconds(term(&self.spread)), is_able };
        let before = self.holders.get(broker);
        let is_other = before.is_none_or(|before| before.is_able != is_able);
        let has_released = before.is_some_and(|before| !before.checks.is_subset(&holder.checks));
        self.holders.insert(broker.to_owned(), holder);
        if is_other {
            self.owned = None;
        }
        !self.is_frozen(now_ns) && (has_expired || is_other || has_released)
    }

    /// Forgets the brokers whose leases are over. True when there were any.
    pub(crate) fn expire(&mut self, now_ns: u64) -> bool {
        let before = self.holders.len();
        self.holders.retain(|_, holder| holder.until_ns > now_ns);
        let has_expired = self.holders.len() < before;
        if has_expired {
            self.owned = None;
        }
        has_expired
    }

    /// What a broker that polled may run now; it counts as running it from here on.
    pub(crate) fn grant(&mut self, broker: &str, now_ns: u64) -> Option<Grant> {
        if self.is_empty() {
            return None;
        }
        let reported = self.holders.get(broker)?.checks.clone();
        // Shares cost a look at every broker for each check, and after a start all of them come at once.
        let is_frozen = self.is_frozen(now_ns);
        let own = if is_frozen { None } else { self.owned().get(broker).cloned() };
        let mut wanted: BTreeSet<String> = own.unwrap_or_default();
        wanted.extend(reported.iter().filter(|check| self.is_settling(check, now_ns)).cloned());
        let may_run = |check: &String| {
            let Some(count) = self.spread.checks.get(check) else { return false };
            reported.contains(check) || (!self.is_settling(check, now_ns) && self.running(check) < *count)
        };
        wanted.retain(may_run);
        let is_news = wanted != reported;
        let moves = wanted.iter().filter(|check| self.note(check, broker)).count();
        let holder = self.holders.get_mut(broker).expect("it was just there");
        holder.checks.extend(wanted.iter().cloned());
        Some(Grant { checks: wanted.into_iter().collect(), is_news, moves })
    }

    /// Whether nothing may move: every check was there before the start, and leases of then may not be over.
    fn is_frozen(&self, now_ns: u64) -> bool {
        now_ns < self.settled_ns && self.spread.checks.keys().all(|check| self.settling.contains(check))
    }

    /// Checks whose brokers are not to be chosen yet.
    fn is_settling(&self, check: &str, now_ns: u64) -> bool {
        now_ns < self.settled_ns && self.settling.contains(check)
    }

    /// How many brokers may be running a check.
    fn running(&self, check: &str) -> usize {
        self.holders.values().filter(|holder| holder.checks.contains(check)).count()
    }

    fn owned(&mut self) -> &BTreeMap<String, BTreeSet<String>> {
        let Self { spread, holders, owned, .. } = self;
        owned.get_or_insert_with(|| {
            let able = holders.iter().filter(|(_, holder)| holder.is_able).map(|(name, _)| name.as_str());
            shares(&spread.checks, able).into_iter().map(|(name, of)| (name.to_owned(), of)).collect()
        })
    }

    /// Notes that a check is granted to a broker. True when it comes from another.
    fn note(&mut self, check: &str, broker: &str) -> bool {
        let count = self.spread.checks.get(check).copied().unwrap_or(0);
        let last = self.last.entry(check.to_owned()).or_default();
        if last.contains(broker) {
            return false;
        }
        let is_move = last.len() >= count;
        if is_move {
            let holders = &self.holders;
            last.retain(|other| holders.get(other).is_some_and(|holder| holder.checks.contains(check)));
        }
        last.insert(broker.to_owned());
        is_move
    }

    /// The spread checks that a broker may be running, in their order.
    pub(crate) fn held(&self, broker: &str) -> Vec<&str> {
        let checks = self.holders.get(broker).into_iter().flat_map(|holder| &holder.checks);
        checks.filter(|check| self.spread.checks.contains_key(*check)).map(String::as_str).collect()
    }

    /// How many spread checks there are, and how many of them fewer brokers run than could.
    pub(crate) fn figures(&self) -> (usize, usize) {
        let able = self.holders.values().filter(|holder| holder.is_able).count();
        let mut running: BTreeMap<&str, usize> = BTreeMap::new();
        for check in self.holders.values().flat_map(|holder| &holder.checks) {
            *running.entry(check).or_default() += 1;
        }
        let is_waiting = |(check, count): &(&String, &usize)| {
            running.get(check.as_str()).copied().unwrap_or(0) < (**count).min(able.max(1))
        };
        (self.spread.checks.len(), self.spread.checks.iter().filter(is_waiting).count())
    }
}

/// How long after its last poll a broker may be running what it was granted.
fn term(spread: &Spread) -> Duration {
    spread.lease + (spread.lease / 5).max(MARGIN_MIN)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("a lease of an hour at most")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    /// A lease of 15 s and its margin.
    const TERM_NS: u64 = 18 * SECOND_NS;

    fn spread(many: usize, count: usize) -> Spread {
        Spread { checks: (0..many).map(|at| (format!("check-{at}"), count)).collect(), ..Spread::default() }
    }

    fn granted(division: &mut Division, broker: &str, reported: &[String], now_ns: u64) -> Vec<String> {
        division.poll(broker, reported.to_vec(), true, now_ns);
        division.grant(broker, now_ns).unwrap().checks
    }

    #[test]
    fn a_check_is_granted_when_whoever_had_it_reports_that_it_stopped() {
        let mut division = Division::new(spread(40, 1));
        let all = granted(&mut division, "a", &[], 0);
        assert_eq!(all.len(), 40, "it is alone");
        // Another one comes: it gets nothing yet, and the first is asked to stop some.
        assert_eq!(granted(&mut division, "b", &[], 1), [""; 0]);
        let grant = division.grant("a", 2).unwrap();
        assert!(grant.is_news && grant.checks.len() < 40 && grant.moves == 0, "{grant:?}");
        // The answer was lost.
        assert_eq!(granted(&mut division, "b", &[], 3), [""; 0]);
        assert_eq!(granted(&mut division, "a", &all, 4), grant.checks);
        // The next one was not.
        assert!(division.poll("a", grant.checks.clone(), true, 5), "others may get something");
        assert!(!division.grant("a", 5).unwrap().is_news);
        let other = division.grant("b", 6).unwrap();
        assert_eq!((other.checks.len(), other.moves), (40 - grant.checks.len(), 40 - grant.checks.len()));
        assert!(other.checks.iter().all(|check| !grant.checks.contains(check)));
        assert_eq!(division.figures(), (40, 0));
        // It falls silent: the first one gets its checks once its lease is over, and not before.
        let late_ns = 3 + TERM_NS;
        assert_eq!(granted(&mut division, "a", &grant.checks, late_ns - 1), grant.checks);
        assert_eq!(granted(&mut division, "a", &grant.checks, late_ns), all);
        // It comes back, and gets the same ones.
        assert_eq!(granted(&mut division, "b", &[], late_ns + 1), [""; 0]);
        assert_eq!(granted(&mut division, "a", &grant.checks, late_ns + 2), grant.checks);
        assert_eq!(division.grant("b", late_ns + 3).unwrap().checks, other.checks);
    }

    #[test]
    fn a_restart_moves_nothing_and_then_those_who_are_there_get_what_is_left() {
        let mut division = Division::from_earlier(spread(40, 1), 100);
        let names: Vec<String> = spread(40, 1).checks.into_keys().collect();
        let (one, rest) = names.split_at(7);
        // Whatever they report stays, also where another division of them would be right.
        assert_eq!(granted(&mut division, "a", one, 101), one);
        let mut shares = [("a", one.to_vec()), ("b", rest[3..].to_vec()), ("c", Vec::new())];
        for now_ns in [101, 102, 99 + TERM_NS] {
            for (broker, share) in &shares {
                assert_eq!(granted(&mut division, broker, share, now_ns), *share);
            }
        }
        assert_eq!(division.figures(), (40, 3));
        // Then each check goes where it belongs, once whoever had it has stopped.
        for step in 0..3 {
            for (broker, share) in &mut shares {
                *share = granted(&mut division, broker, share, 100 + TERM_NS + step);
            }
        }
        let mut all = shares.map(|(_, share)| share).concat();
        all.sort();
        assert_eq!(all, names);
    }

    #[test]
    fn who_refuses_the_configuration_gets_nothing() {
        let mut division = Division::new(spread(9, 2));
        division.poll("a", Vec::new(), false, 0);
        assert_eq!(division.grant("a", 0).unwrap(), Grant::default());
        assert_eq!(granted(&mut division, "b", &[], 1).len(), 9);
        assert_eq!(division.figures(), (9, 0), "there is one for each, and no second");
        assert_eq!(division.grant("nobody", 1), None);
        division.set(spread(0, 1));
        assert_eq!(division.grant("b", 2), None);
        assert!(division.held("b").is_empty());
    }

    #[test]
    fn a_longer_lease_holds_for_polls_that_wait() {
        let mut division = Division::new(spread(4, 1));
        let all = granted(&mut division, "a", &[], 0);
        division.set(Spread { lease: Duration::from_secs(60), ..spread(4, 1) });
        // The answer to its poll says so: it may go on for a minute.
        assert_eq!(granted(&mut division, "b", &[], TERM_NS + 1), [""; 0]);
        assert_eq!(granted(&mut division, "b", &[], 72 * SECOND_NS - 1), [""; 0]);
        assert_eq!(granted(&mut division, "b", &[], 72 * SECOND_NS), all);
    }

    #[test]
    fn brokers_that_are_expected_get_their_shares_at_once() {
        let mut division = Division::new(spread(60, 1));
        ["a", "b", "c"].iter().for_each(|broker| division.expect(broker, 0));
        let shares = ["a", "b", "c"].map(|broker| granted(&mut division, broker, &[], 1));
        assert_eq!(shares.iter().map(Vec::len).sum::<usize>(), 60);
        assert!(shares.iter().all(|share| (5..40).contains(&share.len())), "{shares:?}");
        assert!(["a", "b", "c"].iter().all(|broker| division.grant(broker, 2).unwrap().moves == 0));
    }

    /// Shares cost a look at every broker for each check, under the lock of all polls: they are computed once for each
    /// change of who is there or of what there is, and not for each poll.
    #[test]
    fn shares_are_kept_until_who_is_there_changes() {
        let mut division = Division::new(spread(60, 1));
        let brokers = ["a", "b", "c"];
        brokers.iter().for_each(|broker| division.expect(broker, 0));
        let shares = brokers.map(|broker| granted(&mut division, broker, &[], 1));
        for now_ns in [2, 3] {
            for (broker, share) in brokers.iter().zip(&shares) {
                assert!(!division.poll(broker, share.clone(), true, now_ns));
                assert!(division.owned.is_some(), "{broker} says nothing new");
                assert_eq!(division.grant(broker, now_ns).unwrap().checks, *share);
            }
        }
        // One is lost: what it had goes to the others.
        for (broker, share) in brokers.iter().zip(&shares).take(2) {
            assert!(!division.poll(broker, share.clone(), true, 2 + TERM_NS));
        }
        assert!(division.owned.is_some(), "its lease is not over");
        assert!(division.expire(3 + TERM_NS) && division.owned.is_none());
        let more = ["a", "b"].map(|broker| division.grant(broker, 3 + TERM_NS).unwrap().checks);
        assert_eq!(more.iter().map(Vec::len).sum::<usize>(), 60);
        assert!(more.iter().zip(&shares).all(|(more, before)| before.iter().all(|check| more.contains(check))));
        // So it is when one refuses the configuration, and with another one.
        division.poll("b", Vec::new(), false, 4 + TERM_NS);
        assert!(division.owned.is_none());
        assert_eq!(division.grant("a", 4 + TERM_NS).unwrap().checks.len(), 60);
        assert!(division.owned.is_some());
        division.set(spread(3, 1));
        assert!(division.owned.is_none());
    }

    /// A broker of the simulation: it stops by its own clock, a lease after it asked for the last answer that it got.
    #[derive(Clone, Default)]
    struct Simulated {
        runs: BTreeSet<String>,
        until_ns: u64,
        is_there: bool,
    }

    struct Chance(u64);

    impl Chance {
        fn below(&mut self, count: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % count
        }
    }

    /// Brokers come, go, restart and lose answers, and the server restarts: never do more run a check than it wants,
    /// and once all is quiet exactly as many do.
    #[test]
    fn no_check_ever_runs_more_often_than_it_wants() {
        for seed in 0..60 {
            let mut chance = Chance(seed);
            let count = 1 + seed as usize % 2;
            let wanted = spread(20, count);
            let mut division = Division::new(wanted.clone());
            let mut brokers: BTreeMap<String, Simulated> =
                (0..5).map(|at| (format!("edge-{at}"), Simulated::default())).collect();
            let names: Vec<String> = brokers.keys().cloned().collect();
            let mut now_ns = 0;
            for step in 0..3_000 {
                let is_quiet = step > 2_500;
                now_ns += chance.below(if is_quiet { SECOND_NS } else { 3 * SECOND_NS });
                // Quiet is also that nobody waits for long.
                let name = &names[if is_quiet { step % 5 } else { chance.below(5) as usize }];
                let broker = brokers.get_mut(name).unwrap();
                match chance.below(if is_quiet { 1 } else { 40 }) {
                    38 => *broker = Simulated::default(),
                    39 => {
                        // The server restarts; those that it refused while it was down went on.
                        for broker in brokers.values_mut().filter(|broker| broker.until_ns > now_ns) {
                            broker.until_ns = broker.until_ns.max(now_ns + 15 * SECOND_NS);
                        }
                        division = Division::from_earlier(wanted.clone(), now_ns);
                    }
                    chosen => {
                        broker.is_there = broker.is_there || is_quiet || chosen < 30;
                        if broker.is_there {
                            let is_lost = !is_quiet && chance.below(4) == 0;
                            ask(&mut division, name, broker, &mut now_ns, is_lost);
                        }
                    }
                }
                for check in wanted.checks.keys() {
                    let runs = |broker: &&Simulated| broker.until_ns > now_ns && broker.runs.contains(check);
                    let running = brokers.values().filter(runs).count();
                    assert!(running <= count, "seed {seed}, step {step}: {check} runs {running} times");
                    assert!(step < 2_990 || running == count, "seed {seed}, step {step}: {check} runs {running} times");
                }
            }
        }
    }

    /// A poll, and its answer some time later, which may be lost.
    fn ask(division: &mut Division, name: &str, broker: &mut Simulated, now_ns: &mut u64, is_lost: bool) {
        let asked_ns = *now_ns;
        if broker.until_ns <= asked_ns {
            broker.runs.clear();
        }
        division.poll(name, broker.runs.iter().cloned().collect(), true, asked_ns);
        *now_ns += SECOND_NS / 10;
        let grant = division.grant(name, *now_ns).unwrap();
        if !is_lost {
            (broker.runs, broker.until_ns) = (grant.checks.into_iter().collect(), asked_ns + 15 * SECOND_NS);
        }
    }
}
