//! Chooses the address of a cluster for the next request.
//!
//! Each request draws a lot: an address has as many lots as its weight divided by (its requests in flight times the
//! duration of a request there). After a 429 the weight is halved and the address pauses; within [`RECOVERY`] the
//! weight is back. So load follows capacity in both directions, and kept connections do not pin it. (The usual choice,
//! the better of two at random, gives the address with less weight nothing at all while few requests are in flight.)
//! The duration is a moving average that also decays with time ([`LATENCY_DECAY`]): an address that was slow once gets
//! few requests, and by these alone a quiet broker would take hours to see that it is quick again.
//! Invariants: a paused address gets nothing; a failed one gets one request at a time until it answers.
//! Limits: pauses from [`PAUSE_FIRST`] to [`PAUSE_LAST`], half of each random.

use std::net::SocketAddr;
use std::time::Duration;

use ogive_model::{MonoNs, Ns};

/// 100 ms: a server that restarts is found at once.
const PAUSE_FIRST: Ns = Ns(100_000_000);
/// 5 s: a cluster that is unreachable for days costs one attempt in that time, and is noticed within it.
const PAUSE_LAST: Ns = Ns::from_secs(5);
/// 2 minutes for an address that never answered while others of its name do: most often of an address family without a
/// route.
const PAUSE_STRANGER: Ns = Ns::from_secs(120);
/// 60 s: whatever delay it requests, an address is tried again then.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// A sixteenth of its share is left to the busiest.
const WEIGHT_MIN: f64 = 1.0 / 16.0;
/// 10 s restore the full weight: long compared with a pause, short compared with how long a person waits for a server
/// to be used again.
const RECOVERY: Ns = Ns::from_secs(10);
/// 10 s, as in the peak EWMA of Finagle and Linkerd: the average loses a factor of e in that time. An answer of 5 s
/// among answers of 2 ms is forgotten in about a minute.
const LATENCY_DECAY: Ns = Ns::from_secs(10);
/// The latest answer is at least a tenth of the average, however soon it follows the one before.
const AVERAGE_KEPT_MAX: f64 = 0.9;

/// The outcome of a request at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    /// It was answered.
    Answered,
    /// The address asks for less load (429).
    Busy(Option<Duration>),
    /// It gave no response, or no useful one (5xx).
    Failed(Option<Duration>),
    /// It was not sent.
    Unsent,
}

impl Result {
    const fn is_failed(self) -> bool {
        matches!(self, Self::Failed(_))
    }

    /// Of the outcomes of two batches in one request, the worse one.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::Failed(one), Self::Failed(two)) => Self::Failed(one.max(two)),
            (Self::Busy(one), Self::Busy(two)) => Self::Busy(one.max(two)),
            (failed @ Self::Failed(_), _) | (_, failed @ Self::Failed(_)) => failed,
            (busy @ Self::Busy(_), _) | (_, busy @ Self::Busy(_)) => busy,
            (Self::Unsent, other) | (other, Self::Unsent) => other,
            (Self::Answered, Self::Answered) => Self::Answered,
        }
    }
}

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The URL, as it was configured.
    pub url: String,
    /// One of the addresses of its name; None when only the URL is known.
    pub address: Option<SocketAddr>,
}

impl Target {
    /// A target of which only the URL is known.
    #[must_use]
    pub fn from_url(url: &str) -> Self {
        Self { url: url.to_owned(), address: None }
    }
}

/// One address.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Where it is.
    pub target: Target,
    /// Its weight after 429 responses, from 1/16 to 1.
    pub weight: f64,
    /// When that weight was set.
    weight_set: MonoNs,
    /// Requests in flight.
    pub in_flight: u32,
    /// The typical duration of a request, as of the last answer; 0 before the first.
    pub latency_ns: f64,
    /// When that answer came.
    latency_set: MonoNs,
    /// Failures since the last success.
    pub failures: u32,
    /// Batches that it was sent.
    pub sent: u64,
    /// How often it requested less.
    pub busy: u64,
    /// It gets nothing before this.
    pub until: MonoNs,
    /// Distinguishes addresses that occupy the same slot one after the other.
    id: u64,
}

/// The addresses of a cluster.
#[derive(Debug)]
pub struct Endpoints {
    all: Vec<Endpoint>,
    random: fastrand::Rng,
    id_next: u64,
}

impl Endpoints {
    /// An empty list.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { all: Vec::new(), random: fastrand::Rng::with_seed(seed), id_next: 0 }
    }

    /// Sets the addresses. Existing ones keep their state.
    pub fn set(&mut self, targets: &[Target]) {
        let mut before = std::mem::take(&mut self.all);
        for target in targets {
            let endpoint = match before.iter().position(|endpoint| endpoint.target == *target) {
                Some(at) => before.swap_remove(at),
                None => {
                    self.id_next += 1;
                    Endpoint {
                        target: target.clone(),
                        weight: 1.0,
                        weight_set: MonoNs(0),
                        in_flight: 0,
                        latency_ns: 0.0,
                        latency_set: MonoNs(0),
                        failures: 0,
                        sent: 0,
                        busy: 0,
                        until: MonoNs(0),
                        id: self.id_next,
                    }
                }
            };
            self.all.push(endpoint);
        }
        debug_assert!(self.all.iter().all(|one| self.all.iter().filter(|other| other.id == one.id).count() == 1));
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Endpoint] {
        &self.all
    }

    /// Chooses the address for the next request; returns its number for [`Endpoints::ended`] and the target. `Err`:
    /// none before that instant.
    ///
    /// # Errors
    /// The first instant at which an address is available.
    pub fn choose(&mut self, now: MonoNs) -> std::result::Result<(u64, Target), MonoNs> {
        let is_free =
            |endpoint: &&Endpoint| endpoint.until <= now && (endpoint.failures == 0 || endpoint.in_flight == 0);
        let free: Vec<u64> = self.all.iter().filter(is_free).map(|endpoint| endpoint.id).collect();
        if free.is_empty() {
            let pauses = self.all.iter().map(|endpoint| endpoint.until).filter(|until| *until > now);
            return Err(pauses.min().unwrap_or(now.saturating_add(PAUSE_FIRST)));
        }
        let pick = self.draw(&free, now);
        let endpoint = self.all.iter_mut().find(|endpoint| endpoint.id == pick).expect("it was just found");
        endpoint.in_flight += 1;
        assert!(endpoint.until <= now, "an address in its pause gets nothing");
        assert!(endpoint.failures == 0 || endpoint.in_flight == 1, "one that failed gets one request at a time");
        Ok((pick, endpoint.target.clone()))
    }

    /// One of `free`, by its lots.
    fn draw(&mut self, free: &[u64], now: MonoNs) -> u64 {
        assert!(!free.is_empty(), "a lottery has lots");
        let random = self.random.f64();
        let lots = |id: &u64| {
            let endpoint = self.all.iter().find(|endpoint| endpoint.id == *id);
            endpoint.map_or(0.0, |endpoint| endpoint.lots(now))
        };
        let mut left = free.iter().map(lots).sum::<f64>() * random;
        for id in free {
            left -= lots(id);
            if left < 0.0 {
                return *id;
            }
        }
        free[free.len() - 1]
    }

    /// Records that `batches` were sent to it.
    pub fn sent(&mut self, id: u64, batches: usize) {
        if let Some(endpoint) = self.all.iter_mut().find(|endpoint| endpoint.id == id) {
            endpoint.sent += batches as u64;
        }
    }

    /// Records the outcome of a request. An address that has been removed meanwhile is ignored.
    pub fn ended(&mut self, id: u64, now: MonoNs, took: Ns, result: Result) {
        let random = self.random.u64(..);
        let is_stranger = result.is_failed() && self.is_stranger(id);
        let Some(endpoint) = self.all.iter_mut().find(|endpoint| endpoint.id == id) else { return };
        endpoint.in_flight = endpoint.in_flight.saturating_sub(1);
        match result {
            Result::Answered => {
                endpoint.failures = 0;
                let took = took.0.max(1) as f64;
                let kept =
                    if endpoint.latency_ns > 0.0 { endpoint.latency_left(now).min(AVERAGE_KEPT_MAX) } else { 0.0 };
                (endpoint.latency_ns, endpoint.latency_set) = (endpoint.latency_ns * kept + took * (1.0 - kept), now);
            }
            Result::Busy(after) => {
                endpoint.busy += 1;
                (endpoint.weight, endpoint.weight_set) = ((endpoint.weight_at(now) / 2.0).max(WEIGHT_MIN), now);
                endpoint.until = endpoint.until.max(now.saturating_add(pause(0, after, random)));
            }
            Result::Failed(after) => {
                endpoint.until = endpoint.until.max(now.saturating_add(pause(endpoint.failures, after, random)));
                endpoint.failures = endpoint.failures.saturating_add(1);
                if is_stranger {
                    endpoint.until = endpoint.until.max(now.saturating_add(PAUSE_STRANGER));
                }
            }
            Result::Unsent => {}
        }
        assert!((WEIGHT_MIN..=1.0).contains(&endpoint.weight), "a weight of {}", endpoint.weight);
        assert!(endpoint.latency_ns.is_finite(), "a latency of {} ns", endpoint.latency_ns);
    }
}

impl Endpoints {
    /// Whether an address never answered, while another of its name does.
    fn is_stranger(&self, id: u64) -> bool {
        let never = |one: &&Endpoint| one.id == id && one.latency_ns == 0.0;
        let Some(it) = self.all.iter().find(never) else { return false };
        self.all.iter().any(|other| other.target.url == it.target.url && other.latency_ns > 0.0 && other.failures == 0)
    }
}

impl Endpoint {
    /// Its weight at that instant.
    #[must_use]
    pub fn weight_at(&self, now: MonoNs) -> f64 {
        (self.weight + now.since(self.weight_set).0 as f64 / RECOVERY.0 as f64).min(1.0)
    }

    fn lots(&self, now: MonoNs) -> f64 {
        // No decay while an answer is due: an address that never answers would come to look like the quickest.
        let left = if self.in_flight == 0 { self.latency_left(now) } else { 1.0 };
        self.weight_at(now) / (f64::from(self.in_flight + 1) * (self.latency_ns * left).max(1.0))
    }

    /// The part of the average that has not decayed at that instant, from 1 at the last answer towards 0.
    fn latency_left(&self, now: MonoNs) -> f64 {
        (-(now.since(self.latency_set).0 as f64) / LATENCY_DECAY.0 as f64).exp()
    }
}

/// How long an address gets nothing after so many failures; `random` is any number.
fn pause(failures: u32, after: Option<Duration>, random: u64) -> Ns {
    let half = PAUSE_FIRST.saturating_mul(1 << failures.min(20)).min(PAUSE_LAST) / 2;
    let wait = half + Ns((random % half.0.cast_unsigned()).cast_signed());
    assert!((PAUSE_FIRST / 2..PAUSE_LAST).contains(&wait), "a pause of {wait}");
    after.map_or(wait, |after| wait.max(Ns::from(after.min(RETRY_AFTER_MAX)) + wait / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a request takes.
    const TOOK: Ns = Ns(2_000_000);
    /// The time between two requests.
    const STEP: Ns = Ns(10_000_000);

    fn at_ms(ms: u64) -> MonoNs {
        MonoNs(ms * 1_000_000)
    }

    fn endpoints(count: usize) -> Endpoints {
        let mut all = Endpoints::new(7);
        all.set(&(0..count).map(|at| Target::from_url(&format!("http://h{at}"))).collect::<Vec<_>>());
        all
    }

    /// Sends `count` batches one a millisecond, each answered 2 ms later by `answer` of its URL; how many each got.
    fn run(all: &mut Endpoints, from_ms: u64, count: u64, answer: impl Fn(&str) -> Result) -> Vec<u64> {
        let before: Vec<u64> = all.all().iter().map(|endpoint| endpoint.sent).collect();
        let mut open: Vec<(u64, String)> = Vec::new();
        for step in 0..count {
            let now = at_ms(from_ms + step);
            if open.len() >= 2 {
                let (id, url) = open.remove(0);
                all.ended(id, now, TOOK, answer(&url));
            }
            if let Ok((id, target)) = all.choose(now) {
                all.sent(id, 1);
                open.push((id, target.url));
            }
        }
        for (id, url) in open {
            all.ended(id, at_ms(from_ms + count), TOOK, answer(&url));
        }
        all.all().iter().zip(before).map(|(endpoint, before)| endpoint.sent - before).collect()
    }

    #[test]
    fn load_spreads_shifts_from_who_asks_for_less_and_comes_back() {
        let mut all = endpoints(3);
        let even = run(&mut all, 0, 3_000, |_| Result::Answered);
        assert!(even.iter().all(|got| (700..1_300).contains(got)), "{even:?}");
        let busy = |url: &str| if url == "http://h1" { Result::Busy(None) } else { Result::Answered };
        let shifted = run(&mut all, 3_000, 3_000, busy);
        assert!(shifted[1] < 300 && shifted[0] > 1_000 && shifted[2] > 1_000, "{shifted:?}");
        let again = run(&mut all, 16_500, 3_000, |_| Result::Answered);
        assert!(again[1] > 700, "{again:?}");
    }

    #[test]
    fn of_two_results_the_worse_one_speaks_of_the_address() {
        let (busy, failed, second) = (Result::Busy(None), Result::Failed(None), Some(Duration::from_secs(1)));
        for (one, other, worse) in [
            (Result::Answered, Result::Answered, Result::Answered),
            (Result::Answered, busy, busy),
            (busy, failed, failed),
            (Result::Unsent, Result::Answered, Result::Answered),
            (busy, Result::Busy(second), Result::Busy(second)),
            (Result::Failed(second), failed, Result::Failed(second)),
        ] {
            assert_eq!((one.worse(other), other.worse(one)), (worse, worse));
        }
    }

    #[test]
    fn who_joins_gets_its_share_and_who_leaves_nothing() {
        let mut all = endpoints(2);
        run(&mut all, 0, 1_000, |_| Result::Answered);
        all.set(&[Target::from_url("http://h1"), Target::from_url("http://new")]);
        assert!(all.all()[0].sent > 300, "what is known of h1 stays");
        let got = run(&mut all, 1_000, 2_000, |_| Result::Answered);
        assert!(got[1] > 600, "{got:?}");
        let (id, Target { url, .. }) = all.choose(at_ms(3_000)).unwrap();
        all.set(&[]);
        all.ended(id, at_ms(3_001), TOOK, Result::Answered);
        assert!(url.starts_with("http://") && all.choose(at_ms(3_002)).is_err());
    }

    #[test]
    fn an_address_that_never_answered_waits_while_others_of_its_name_do() {
        let at = |address: &str| Target { url: "http://name:1".into(), address: Some(address.parse().unwrap()) };
        let (good, bad) = (at("127.0.0.1:1"), at("[::1]:1"));
        let mut all = Endpoints::new(7);
        all.set(&[good.clone(), bad.clone()]);
        let (mut now, mut tried) = (MonoNs(0), 0);
        for _ in 0..2_000 {
            let (id, target) = all.choose(now).unwrap();
            now = now.saturating_add(STEP);
            tried += u32::from(target == bad);
            let result = if target == bad { Result::Failed(None) } else { Result::Answered };
            all.ended(id, now, TOOK, result);
        }
        // 20 s: a try before the other has answered, perhaps, and one after it.
        assert!((1..=2).contains(&tried), "{tried}");
        // One that answered before is tried again as any that fails.
        let (failing, mut again) = (good, 0);
        for _ in 0..2_000 {
            let Ok((id, target)) = all.choose(now) else {
                now = now.saturating_add(STEP);
                continue;
            };
            now = now.saturating_add(STEP);
            again += u32::from(target == failing);
            all.ended(id, now, TOOK, Result::Failed(None));
        }
        assert!(again >= 4, "{again}");
    }

    /// Sends a request each second, which is answered quickly unless `hangs` has it; how many that one got.
    fn run_quietly(all: &mut Endpoints, seconds: std::ops::Range<u64>, one: u64, hangs: bool) -> u32 {
        let mut got = 0;
        for second in seconds {
            let now = at_ms(second * 1_000);
            let (id, _) = all.choose(now).unwrap();
            got += u32::from(id == one);
            if !hangs || id != one {
                all.ended(id, now.saturating_add(TOOK), TOOK, Result::Answered);
            }
        }
        got
    }

    /// The average changed with requests alone, and an address that looks slow gets few: after one answer of 5 s it got
    /// none for hours where a broker sent one each second.
    #[test]
    fn one_slow_answer_is_forgotten_with_time() {
        let mut all = endpoints(2);
        let (slow, _) = all.choose(at_ms(0)).unwrap();
        all.ended(slow, at_ms(5_000), Ns::from_secs(5), Result::Answered);
        assert!(run_quietly(&mut all, 5..25, slow, false) <= 2, "at first it gets little");
        run_quietly(&mut all, 25..125, slow, false);
        let got = run_quietly(&mut all, 125..185, slow, false);
        assert!((10..=50).contains(&got), "{got} of 60");
        assert!((1e6..4e6).contains(&all.all()[0].latency_ns), "{}", all.all()[0].latency_ns);
    }

    #[test]
    fn an_address_that_does_not_answer_never_looks_quick() {
        let mut all = endpoints(2);
        run_quietly(&mut all, 0..20, u64::MAX, false);
        let (silent, _) = all.choose(at_ms(20_000)).unwrap();
        // A minute later, and then a minute long.
        let got = run_quietly(&mut all, 80..140, silent, true);
        assert!(got < 25, "{got} of 60");
    }

    #[test]
    fn who_fails_is_tried_one_at_a_time_after_growing_pauses() {
        let mut all = endpoints(1);
        let start = MonoNs(0);
        let (first, _) = all.choose(start).unwrap();
        let (second, _) = all.choose(start).unwrap();
        all.ended(first, start, Ns::ZERO, Result::Failed(None));
        all.ended(second, start, Ns::ZERO, Result::Failed(None));
        let until = all.choose(start).unwrap_err();
        assert!((PAUSE_FIRST / 2..=PAUSE_FIRST * 2).contains(&until.since(start)), "{until}");
        let (probe, _) = all.choose(until).unwrap();
        assert!(all.choose(until).is_err(), "one at a time");
        all.ended(probe, until, Ns::ZERO, Result::Failed(Some(Duration::from_secs(30))));
        assert!(all.choose(until.saturating_add(Ns::from_secs(29))).is_err());
        let now = until.saturating_add(Ns::from_secs(60));
        let (probe, _) = all.choose(now).unwrap();
        all.ended(probe, now, TOOK, Result::Answered);
        assert!(all.choose(now).is_ok() && all.choose(now).is_ok());
        assert!((0..40).all(|failures| pause(failures, None, u64::MAX) <= PAUSE_LAST));
    }
}
