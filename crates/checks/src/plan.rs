//! The schedule: instants in, due checks out; no clock and no runtime.
//!
//! Time is divided into periods for each check, with one run per period. The position of the run within its period
//! starts at random and advances by the golden section from period to period, with random jitter, so that after a few
//! runs a check has covered its whole period. A fault with a fixed period can therefore neither hide from a check nor
//! hit the same checks every time.
//! A check that moves between machines is *shared*: its periods begin with the wall clock's, and the place in each
//! follows from its name and the period's number, so that whoever runs it runs it at the same instants.
//! Invariants: one run per period, so nothing drifts and nothing starves; two runs of a check are between [`GAP_MIN`]
//! and [`GAP_MAX`] of its period apart; a period that passed while nobody asked is counted as missed and not caught up.

use std::collections::BTreeMap;

use ogive_model::{MonoNs, Ns, WallNs};
use ogive_text::fnv::fnv1a;

/// The golden section of the circle in 64 bits: of all steps it leaves the most even gaps, however many are made.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A twentieth of the period to either side: enough that two checks which began at one place part.
const JITTER: u64 = u64::MAX / 20;

/// 0.618 of the period, less the jitter of both runs (0.1).
pub(super) const GAP_MIN: f64 = 0.51;
/// 1.618 of the period, and the jitter of both runs.
#[cfg(test)]
const GAP_MAX: f64 = 1.72;

/// Numbers that look random, for the schedule alone (others are in `entropy`): SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The runs of one check.
#[derive(Clone, Debug)]
struct Line {
    from: MonoNs,
    /// How long each period is.
    length: Ns,
    /// Where in the period it ran or runs, as a share of 2^64, before the jitter.
    place: u64,
    /// The period of `due`, counted from `from`.
    period: u64,
    due: MonoNs,
    chance: Chance,
}

/// Where the jitter comes from.
#[derive(Clone, Debug)]
enum Chance {
    /// Numbers of this process.
    Own(Random),
    /// The numbers of a seed that all know: one for each period, counted from 1970; `first` is that of `from`.
    Shared { seed: u64, first: u64 },
}

impl Line {
    fn new(from: MonoNs, length: Ns, mut random: Random) -> Self {
        assert!(length > Ns::ZERO, "a period takes time");
        let place = random.next();
        let mut line = Self { from, length, place, period: 0, due: from, chance: Chance::Own(random) };
        line.settle();
        line
    }

    /// The line of `name` on every machine, from the period of `now` on, if its instant is still ahead.
    fn shared(name: &str, length: Ns, now: MonoNs, wall: WallNs) -> Self {
        assert!(length > Ns::ZERO, "a period takes time");
        let wall = wall.max(WallNs(0));
        let into = wall - wall.align_down(length);
        let mut first = wall.0.cast_unsigned() / length.0.cast_unsigned();
        let from = match now.0.checked_sub(into.0.cast_unsigned()) {
            Some(from) => MonoNs(from),
            // The machine started within this period.
            None => {
                first += 1;
                now.saturating_add(length - into)
            }
        };
        let seed = fnv1a(name.bytes());
        let place = Random::new(!seed).next().wrapping_add(STEP.wrapping_mul(first));
        let mut line = Self { from, length, place, period: 0, due: from, chance: Chance::Shared { seed, first } };
        line.settle();
        if line.due <= now {
            // Whoever had it before may have run it.
            let missed = line.advance(now);
            assert_eq!(missed, 0, "it is within its first period");
        }
        assert!(line.due > now, "{} is not behind {now}", line.due);
        line
    }

    /// When the current period begins.
    fn begin(&self) -> MonoNs {
        self.from.saturating_add(self.length.saturating_mul(self.period.cast_signed()))
    }

    /// Finds the instant within the current period.
    fn settle(&mut self) {
        let drawn = match &mut self.chance {
            Chance::Own(random) => random.next(),
            Chance::Shared { seed, first } => {
                let number = first.wrapping_add(self.period);
                Random::new(seed.wrapping_add(STEP.wrapping_mul(number))).next()
            }
        };
        let jitter = (drawn % (2 * JITTER + 1)).wrapping_sub(JITTER);
        let share = u128::from(self.place.wrapping_add(jitter));
        let inside = ((share * u128::from(self.length.0.cast_unsigned())) >> 64) as i64;
        self.due = self.begin().saturating_add(Ns(inside));
    }

    /// Goes on to the first run of a period behind the one that is over; how many periods had none.
    fn advance(&mut self, now: MonoNs) -> u64 {
        let mut missed = 0;
        let current = (now.since(self.from) / self.length).cast_unsigned();
        if current > self.period + 1 {
            // The last period that is over and this one: whether this one's instant is over is not known, so it is not
            // counted.
            missed = current - self.period - 1;
            self.period += missed;
            self.place = self.place.wrapping_add(STEP.wrapping_mul(missed));
        }
        self.period += 1;
        self.place = self.place.wrapping_add(STEP);
        self.settle();
        missed
    }
}

/// What is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DueRun {
    pub(super) name: String,
    /// When it should have begun.
    pub(super) due: MonoNs,
    /// When its period began.
    pub(super) period_from: MonoNs,
    /// Runs before this one that nobody asked for in time.
    pub(super) missed: u64,
}

/// The runs of all checks, by name.
#[derive(Debug)]
pub(super) struct Plan {
    lines: BTreeMap<String, Line>,
    random: Random,
}

impl Plan {
    /// A plan without checks; another seed gives other instants.
    pub(super) fn new(seed: u64) -> Self {
        Self { lines: BTreeMap::new(), random: Random::new(seed) }
    }

    /// Adds a check whose first period begins at `from`, or gives one that is there a new place.
    pub(super) fn add(&mut self, name: &str, period: Ns, from: MonoNs) {
        let random = Random::new(self.random.next());
        self.lines.insert(name.to_owned(), Line::new(from, period, random));
    }

    /// Adds a check whose instants all machines share, or makes one that is there begin again.
    pub(super) fn add_shared(&mut self, name: &str, period: Ns, now: MonoNs, wall: WallNs) {
        self.lines.insert(name.to_owned(), Line::shared(name, period, now, wall));
    }

    /// Takes a check out.
    pub(super) fn remove(&mut self, name: &str) {
        self.lines.remove(name);
    }

    /// When the next check is due.
    pub(super) fn next_due(&self) -> Option<MonoNs> {
        self.lines.values().map(|line| line.due).min()
    }

    /// The checks that are due at `now`, the longest due first; each goes on to its next period.
    pub(super) fn take(&mut self, now: MonoNs) -> Vec<DueRun> {
        let mut out = Vec::new();
        for (name, line) in self.lines.iter_mut().filter(|(_, line)| line.due <= now) {
            let (due, period_from) = (line.due, line.begin());
            let missed = line.advance(now);
            out.push(DueRun { name: name.clone(), due, period_from, missed });
        }
        out.sort_by_key(|run| run.due);
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The first `count` runs of a check.
    fn runs(seed: u64, period_ns: u64, count: usize) -> Vec<u64> {
        let mut plan = Plan::new(seed);
        plan.add("a", Ns(period_ns as i64), MonoNs(0));
        (0..count)
            .map(|_| {
                let now = plan.next_due().unwrap();
                let due = plan.take(now);
                assert_eq!((due.len(), due[0].due, due[0].missed), (1, now, 0));
                now.0
            })
            .collect()
    }

    proptest! {
        #[test]
        fn each_period_has_one_run(seed: u64, period_ns in 1_000..100_000_000_000_u64) {
            for (at, run) in runs(seed, period_ns, 200).into_iter().enumerate() {
                prop_assert_eq!(run / period_ns, at as u64);
            }
        }

        #[test]
        fn runs_keep_their_distance(seed: u64, period_ns in 1_000_000..100_000_000_000_u64) {
            for pair in runs(seed, period_ns, 200).windows(2) {
                let gap = (pair[1] - pair[0]) as f64 / period_ns as f64;
                prop_assert!((GAP_MIN..GAP_MAX).contains(&gap), "{}", gap);
            }
        }

        /// A fault that lasts a tenth of each period, wherever it lies, is seen by every check, by none less than by
        /// half its share and by none more than by twice. Chance may do otherwise: of 200 runs to one check in 50,000
        /// and of 400 to one in 100,000,000; that 50 runs in a row miss it, to one in 10,000, and 100 to one in
        /// 100,000,000.
        #[test]
        fn a_fault_of_the_same_period_neither_hides_nor_sticks(seed: u64, place in 0.0..0.9_f64) {
            let period_ns = 1_000_000;
            let hit = |run: &u64| (place..place + 0.1).contains(&((run % period_ns) as f64 / period_ns as f64));
            let runs = runs(seed, period_ns, 400);
            let hits = runs.iter().filter(|run| hit(run)).count();
            prop_assert!((20..=80).contains(&hits), "{} of 400", hits);
            prop_assert!(runs.iter().take(100).any(hit), "100 runs and none saw it");
        }

        /// Machines whose clocks agree run a shared check at the same instants, whenever each began and whatever it ran
        /// before; so one that takes it over neither runs a period again nor leaves one out that is still ahead.
        #[test]
        fn machines_share_the_instants(
            name in "[a-z]{1,9}", period_ns in 1_000_000..100_000_000_000_u64, began in prop::collection::vec(0..50_u64, 1..9),
            boot_ns in 0..1_000_000_000_000_i64,
        ) {
            let wall_of = |now: u64| boot_ns + now as i64;
            let instants = |from: u64| {
                let (mut plan, mut out) = (Plan::new(from), Vec::new());
                plan.add_shared(&name, Ns(period_ns as i64), MonoNs(from), WallNs(wall_of(from)));
                while let Some(next) = plan.next_due().filter(|next| next.0 <= 100 * period_ns) {
                    let due = plan.take(next);
                    assert_eq!((due.len(), due[0].missed), (1, 0));
                    out.push(next.0);
                }
                out
            };
            let all = instants(0);
            let numbers: Vec<u64> = all.iter().map(|run| wall_of(*run) as u64 / period_ns).collect();
            prop_assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "one for each period: {:?}", numbers);
            for pair in all.windows(2) {
                prop_assert!((GAP_MIN..GAP_MAX).contains(&((pair[1] - pair[0]) as f64 / period_ns as f64)));
            }
            for periods in began {
                let from = periods * period_ns + period_ns / 3;
                let ahead: Vec<u64> = all.iter().copied().filter(|run| *run > from).collect();
                let found = instants(from);
                // A machine that started within this period leaves that one out.
                prop_assert!(found == ahead || found == ahead[1..], "{:?} of {:?}", found, ahead);
            }
        }

        /// Many checks of one period never crowd: no twentieth of a period has more than its share and what chance
        /// adds.
        #[test]
        fn checks_are_spread_over_the_period(seed: u64) {
            let (mut plan, period_ns, checks) = (Plan::new(seed), 1_000_000, 2_000);
            (0..checks).for_each(|at| plan.add(&at.to_string(), Ns(period_ns as i64), MonoNs(0)));
            let mut places = [0_u32; 20];
            for run in plan.take(MonoNs(period_ns)) {
                places[(run.due.0 * 20 / period_ns) as usize] += 1;
            }
            prop_assert_eq!(places.iter().sum::<u32>(), checks);
            // 100 each with a deviation of 9.7: beyond 7 of them nothing is by chance.
            prop_assert!(places.iter().all(|count| (32..168).contains(count)), "{:?}", places);
        }

        /// Whenever it is asked, early, late or not for long, each check gets each period at most once, and what it did
        /// not get is counted.
        #[test]
        fn nothing_starves_and_nothing_is_caught_up(seed: u64, pauses in prop::collection::vec(0..5_000_u64, 1..200)) {
            let mut plan = Plan::new(seed);
            let periods = [("a", 100_u64), ("b", 1_000), ("c", 3_000)];
            periods.iter().for_each(|(name, period)| plan.add(name, Ns(*period as i64), MonoNs(0)));
            let mut seen = BTreeMap::<String, u64>::new();
            let mut now = 0;
            for pause in pauses {
                now += pause;
                for run in plan.take(MonoNs(now)) {
                    prop_assert!(run.due.0 <= now);
                    *seen.entry(run.name).or_default() += 1 + run.missed;
                }
                prop_assert!(plan.next_due().is_some_and(|next| next.0 + 3_000 > now));
            }
            for (name, period) in periods {
                let (seen, over) = (seen.get(name).copied().unwrap_or(0), now / period);
                prop_assert!((over..=over + 1).contains(&seen), "{}: {} of {}", name, seen, over);
            }
        }
    }

    #[test]
    fn another_start_gives_other_places() {
        let first = |seed| runs(seed, 1_000_000_000, 1)[0];
        let places: std::collections::BTreeSet<u64> = (0..100).map(first).collect();
        assert_eq!(places.len(), 100);
    }

    #[test]
    fn what_is_removed_is_not_due() {
        let mut plan = Plan::new(1);
        plan.add("a", Ns(1_000), MonoNs(0));
        plan.add("b", Ns(1_000), MonoNs(0));
        plan.remove("a");
        let names: Vec<String> = plan.take(MonoNs(10_000)).into_iter().map(|due| due.name).collect();
        assert_eq!(names, ["b"]);
        plan.remove("b");
        assert_eq!(plan.next_due(), None);
    }
}
