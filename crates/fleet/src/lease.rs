//! The spread checks that this broker runs, and until when it may.
//!
//! A lease begins when the broker asked, not when the answer came, so that it ends here before it ends on the server. A
//! server whose host refuses the connection is down: it grants nothing to others, and after its start it waits for a
//! lease before it does, so the lease goes on. A server that does not answer at all may be there for others: the lease
//! ends.
//! Invariants: what runs is what was granted last, or nothing once the lease is over. One that is over is not
//! prolonged.
//! Threads: `fleet-lease` ends it to the millisecond, whatever the thread that polls waits for.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ogive_door::counters::Counters;
use ogive_probe::Clock;

use crate::broker::Broker;
use crate::wire::Share;

/// A figure without a label.
const NONE: (&str, &str) = ("", "");

/// See the module.
pub(crate) struct Lease {
    state: Mutex<State>,
    changed: Condvar,
    broker: Arc<dyn Broker>,
    counters: Arc<Counters>,
    clock: Clock,
}

#[derive(Default)]
struct State {
    checks: BTreeSet<String>,
    /// How long a lease is, while the group has such checks.
    length: Option<Duration>,
    until_ns: u64,
    is_closed: bool,
}

impl Lease {
    /// None yet; and the thread that ends it.
    pub(crate) fn open(broker: Arc<dyn Broker>, counters: Arc<Counters>, clock: Clock) -> std::io::Result<Arc<Self>> {
        let this = Arc::new(Self::new(broker, counters, clock));
        let watched = this.clone();
        std::thread::Builder::new().name("fleet-lease".into()).spawn(move || watched.watch())?;
        Ok(this)
    }

    fn new(broker: Arc<dyn Broker>, counters: Arc<Counters>, clock: Clock) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), broker, counters, clock }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it runs now.
    pub(crate) fn checks(&self) -> Vec<String> {
        let mut state = self.state();
        self.end_if_over(&mut state);
        state.checks.iter().cloned().collect()
    }

    /// How long a lease is; none while there is nothing to have one of.
    pub(crate) fn length(&self) -> Option<Duration> {
        self.state().length
    }

    /// The server's answer to a poll of `asked_ns`.
    pub(crate) fn set(&self, share: Option<Share>, asked_ns: u64) {
        let mut state = self.state();
        let Share { lease_ms, checks } = share.clone().unwrap_or_default();
        let length = share.map(|_| Duration::from_millis(lease_ms));
        (state.length, state.until_ns) = (length, end_of(asked_ns, length.unwrap_or_default()));
        if length.is_some() && state.until_ns <= self.clock.now() {
            self.end_if_over(&mut state);
        } else {
            self.run(&mut state, checks.into_iter().collect());
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Nobody listened at the server's address after `asked_ns`: it is down, and nothing moves.
    pub(crate) fn server_is_down(&self, asked_ns: u64) {
        let mut state = self.state();
        self.end_if_over(&mut state);
        if let Some(length) = state.length.filter(|_| state.until_ns > self.clock.now()) {
            state.until_ns = state.until_ns.max(end_of(asked_ns, length));
        }
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_one();
    }

    /// Makes these the checks that run.
    fn run(&self, state: &mut State, checks: BTreeSet<String>) {
        if state.checks != checks {
            self.broker.run_share(&checks);
            state.checks = checks;
        }
        self.counters.fleet.set("ogive_fleet_spread_checks_run", NONE, state.checks.len() as f64);
    }

    fn end_if_over(&self, state: &mut State) {
        if state.until_ns > self.clock.now() || state.checks.is_empty() {
            return;
        }
        let count = state.checks.len();
        tracing::warn!("fleet: the server does not answer; {count} checks stop here, so that others may run them");
        self.counters.fleet.count("ogive_fleet_leases_lost_total", NONE);
        self.run(state, BTreeSet::new());
    }

    fn watch(&self) {
        let mut state = self.state();
        while !state.is_closed {
            self.end_if_over(&mut state);
            state = if state.checks.is_empty() {
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                let left = Duration::from_nanos(state.until_ns.saturating_sub(self.clock.now()));
                let waited = self.changed.wait_timeout(state, left.max(Duration::from_millis(1)));
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }
}

/// The end of a lease that began at `asked_ns`.
fn end_of(asked_ns: u64, length: Duration) -> u64 {
    asked_ns.saturating_add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Home;
    use crate::package::Package;
    use crate::report::Report;
    use crate::task::Order;
    use crate::wire::Connect;

    /// Remembers what it was last given.
    #[derive(Default)]
    struct LeaseLog(Mutex<Vec<BTreeSet<String>>>);

    impl Broker for LeaseLog {
        fn apply(&self, _: &Package) -> Result<(), (&'static str, String)> {
            Ok(())
        }

        fn report(&self) -> Report {
            Report::default()
        }

        fn carry_out(&self, _: &Order) -> Result<String, String> {
            Err("nobody asks".into())
        }

        fn run_share(&self, checks: &BTreeSet<String>) {
            self.0.lock().unwrap().push(checks.clone());
        }

        fn connect(&self, _: Connect, _: Home) {}
    }

    fn share(names: &[&str]) -> Option<Share> {
        Some(Share { lease_ms: 15_000, checks: names.iter().map(|name| (*name).to_owned()).collect() })
    }

    fn seconds(count: u64) -> u64 {
        count * 1_000_000_000
    }

    #[test]
    fn a_lease_begins_with_the_question_and_ends_unless_the_server_is_down() {
        let clock = Clock::manual(seconds(100), 0);
        let given = Arc::new(LeaseLog::default());
        let lease = Lease::new(given.clone(), Arc::default(), clock);
        assert_eq!((lease.checks(), lease.length()), (Vec::new(), None));
        // It was asked 4 s before the answer came.
        lease.set(share(&["a", "b"]), seconds(96));
        assert_eq!(lease.checks(), ["a", "b"]);
        clock.advance(seconds(10));
        assert_eq!(lease.checks(), ["a", "b"]);
        // Nobody listens: it goes on for a lease from there.
        lease.server_is_down(seconds(110));
        clock.advance(seconds(14));
        assert_eq!(lease.checks(), ["a", "b"]);
        lease.server_is_down(seconds(105));
        clock.advance(seconds(1));
        assert_eq!(lease.checks(), [""; 0], "an older attempt prolongs nothing");
        // Once it is over, a server that is down brings nothing back: somebody else may have them.
        lease.server_is_down(seconds(125));
        assert_eq!(lease.checks(), [""; 0]);
        assert_eq!(lease.length(), Some(Duration::from_secs(15)));
        lease.set(share(&["b"]), seconds(125));
        lease.set(share(&["b"]), seconds(125));
        // An answer that was a lease in coming grants nothing.
        clock.advance(seconds(30));
        lease.set(share(&["c"]), seconds(140));
        lease.set(None, seconds(155));
        assert_eq!((lease.checks(), lease.length()), (Vec::new(), None));
        let all = given.0.lock().unwrap().clone();
        let all: Vec<Vec<&str>> = all.iter().map(|one| one.iter().map(String::as_str).collect()).collect();
        assert_eq!(all, [vec!["a", "b"], vec![], vec!["b"], vec![]]);
    }

    #[test]
    fn its_thread_ends_it() {
        let given = Arc::new(LeaseLog::default());
        let lease = Lease::open(given.clone(), Arc::default(), Clock::global()).unwrap();
        lease.set(Some(Share { lease_ms: 50, checks: vec!["a".into()] }), Clock::global().now());
        while given.0.lock().unwrap().len() < 2 {
            std::thread::yield_now();
        }
        assert!(given.0.lock().unwrap()[1].is_empty());
        lease.close();
    }
}
