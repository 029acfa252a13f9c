//! The schedule: instants in, due checks out; no clock and no runtime.
//!
//! Time is divided into periods for each check, with one run per period. The position of the run within its period
//! starts at random and advances by the golden section from period to period, with random jitter, so that after a few
//! runs a check has covered its whole period. A fault with a fixed period can therefore neither hide from a check nor
//! hit the same checks every time.
//! A check that moves between machines is *shared*: its periods begin with the wall clock's, and the place in each follows
//! from its name and the period's number, so that whoever runs it runs it at the same instants.
//! Invariants: one run per period, so nothing drifts and nothing starves; two runs of a check are between [`GAP_MIN`]
//! and [`GAP_MAX`] of its period apart; a period that passed while nobody asked is counted as missed and not caught up.

use std::collections::BTreeMap;

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
    from_ns: u64,
    period_ns: u64,
    /// Where in the period it ran or runs, as a share of 2^64, before the jitter.
    place: u64,
    /// The period of `due_ns`, counted from `from_ns`.
    period: u64,
    due_ns: u64,
    chance: Chance,
}

/// Where the jitter comes from.
#[derive(Clone, Debug)]
enum Chance {
    /// Numbers of this process.
    Own(Random),
    /// The numbers of a seed that all know: one for each period, counted from 1970; `first` is that of `from_ns`.
    Shared { seed: u64, first: u64 },
}

/// The first number of the shared line of `name`: FNV-1a.
fn seed_of(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

impl Line {
    fn new(from_ns: u64, period_ns: u64, mut random: Random) -> Self {
        assert!(period_ns > 0, "a period takes time");
        let place = random.next();
        let mut line = Self { from_ns, period_ns, place, period: 0, due_ns: 0, chance: Chance::Own(random) };
        line.settle();
        line
    }

    /// The line of `name` on every machine, from the period of `now_ns` on, if its instant is still ahead.
    fn shared(name: &str, period_ns: u64, now_ns: u64, wall_ns: i64) -> Self {
        assert!(period_ns > 0, "a period takes time");
        let wall_ns = u64::try_from(wall_ns).unwrap_or(0);
        let (mut first, into_ns) = (wall_ns / period_ns, wall_ns % period_ns);
        let from_ns = match now_ns.checked_sub(into_ns) {
            Some(from_ns) => from_ns,
            // The machine started within this period.
            None => {
                first += 1;
                now_ns + (period_ns - into_ns)
            }
        };
        let seed = seed_of(name);
        let place = Random::new(!seed).next().wrapping_add(STEP.wrapping_mul(first));
        let mut line = Self { from_ns, period_ns, place, period: 0, due_ns: 0, chance: Chance::Shared { seed, first } };
        line.settle();
        if line.due_ns <= now_ns {
            // Whoever had it before may have run it.
            let missed = line.advance(now_ns);
            assert_eq!(missed, 0, "it is within its first period");
        }
        assert!(line.due_ns > now_ns, "{} is not behind {now_ns}", line.due_ns);
        line
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
        let inside = ((share * u128::from(self.period_ns)) >> 64) as u64;
        self.due_ns = self.from_ns + self.period * self.period_ns + inside;
    }

    /// Goes on to the first run of a period behind the one that is over; how many periods had none.
    fn advance(&mut self, now_ns: u64) -> u64 {
        let mut missed = 0;
        let current = now_ns.saturating_sub(self.from_ns) / self.period_ns;
        if current > self.period + 1 {
            // The last period that is over and this one: whether this one's instant is over is not known, so it is not counted.
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
    pub(super) due_ns: u64,
    /// When its period began.
    pub(super) period_from_ns: u64,
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

    /// Adds a check whose first period begins at `from_ns`, or gives one that is there a new place.
    pub(super) fn add(&mut self, name: &str, period_ns: u64, from_ns: u64) {
        let random = Random::new(self.random.next());
        self.lines.insert(name.to_owned(), Line::new(from_ns, period_ns, random));
    }

    /// Adds a check whose instants all machines share, or makes one that is there begin again.
    pub(super) fn add_shared(&mut self, name: &str, period_ns: u64, now_ns: u64, wall_ns: i64) {
        self.lines.insert(name.to_owned(), Line::shared(name, period_ns, now_ns, wall_ns));
    }

    /// Takes a check out.
    pub(super) fn remove(&mut self, name: &str) {
        self.lines.remove(name);
    }

    /// When the next check is due.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.lines.values().map(|line| line.due_ns).min()
    }

    /// The checks that are due at `now_ns`, the longest due first; each goes on to its next period.
    pub(super) fn take(&mut self, now_ns: u64) -> Vec<DueRun> {
        let mut out = Vec::new();
        for (name, line) in self.lines.iter_mut().filter(|(_, line)| line.due_ns <= now_ns) {
            let (due_ns, period_from_ns) = (line.due_ns, line.from_ns + line.period * line.period_ns);
            let missed = line.advance(now_ns);
            out.push(DueRun { name: name.clone(), due_ns, period_from_ns, missed });
        }
        out.sort_by_key(|due| due.due_ns);
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
        plan.add("a", period_ns, 0);
        (0..count)
            .map(|_| {
                let now_ns = plan.next_ns().unwrap();
                let due = plan.take(now_ns);
                assert_eq!((due.len(), due[0].due_ns, due[0].missed), (1, now_ns, 0));
                now_ns
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

        /// A fault that lasts a tenth of each period, wherever it lies, is seen by every check, by none less than by half its share
        /// and by none more than by twice. Chance may do otherwise: of 200 runs to one check in 50,000 and of 400 to one in
        /// 100,000,000; that 50 runs in a row miss it, to one in 10,000, and 100 to one in 100,000,000.
        #[test]
        fn a_fault_of_the_same_period_neither_hides_nor_sticks(seed: u64, place in 0.0..0.9_f64) {
            let period_ns = 1_000_000;
            let hit = |run: &u64| (place..place + 0.1).contains(&((run % period_ns) as f64 / period_ns as f64));
            let runs = runs(seed, period_ns, 400);
            let hits = runs.iter().filter(|run| hit(run)).count();
            prop_assert!((20..=80).contains(&hits), "{} of 400", hits);
            prop_assert!(runs.iter().take(100).any(hit), "100 runs and none saw it");
        }

        /// Machines whose clocks agree run a shared check at the same instants, whenever each began and whatever it ran before; so
        /// one that takes it over neither runs a period again nor leaves one out that is still ahead.
        #[test]
        fn machines_share_the_instants(
            name in "[a-z]{1,9}", period_ns in 1_000_000..100_000_000_000_u64, began in prop::collection::vec(0..50_u64, 1..9),
            boot_ns in 0..1_000_000_000_000_i64,
        ) {
            let wall_of = |now_ns: u64| boot_ns + now_ns as i64;
            let instants = |from: u64| {
                let (mut plan, mut out) = (Plan::new(from), Vec::new());
                plan.add_shared(&name, period_ns, from, wall_of(from));
                while let Some(next_ns) = plan.next_ns().filter(|next| *next <= 100 * period_ns) {
                    let due = plan.take(next_ns);
                    assert_eq!((due.len(), due[0].missed), (1, 0));
                    out.push(next_ns);
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

        /// Many checks of one period never crowd: no twentieth of a period has more than its share and what chance adds.
        #[test]
        fn checks_are_spread_over_the_period(seed: u64) {
            let (mut plan, period_ns, checks) = (Plan::new(seed), 1_000_000, 2_000);
            (0..checks).for_each(|at| plan.add(&at.to_string(), period_ns, 0));
            let mut places = [0_u32; 20];
            for due in plan.take(period_ns) {
                places[(due.due_ns * 20 / period_ns) as usize] += 1;
            }
            prop_assert_eq!(places.iter().sum::<u32>(), checks);
            // 100 each with a deviation of 9.7: beyond 7 of them nothing is by chance.
            prop_assert!(places.iter().all(|count| (32..168).contains(count)), "{:?}", places);
        }

        /// Whenever it is asked, early, late or not for long, each check gets each period at most once, and what it did not get
        /// is counted.
        #[test]
        fn nothing_starves_and_nothing_is_caught_up(seed: u64, pauses in prop::collection::vec(0..5_000_u64, 1..200)) {
            let mut plan = Plan::new(seed);
            let periods = [("a", 100), ("b", 1_000), ("c", 3_000)];
            periods.iter().for_each(|(name, period)| plan.add(name, *period, 0));
            let mut seen = BTreeMap::<String, u64>::new();
            let mut now = 0;
            for pause in pauses {
                now += pause;
                for due in plan.take(now) {
                    prop_assert!(due.due_ns <= now);
                    *seen.entry(due.name).or_default() += 1 + due.missed;
                }
                prop_assert!(plan.next_ns().is_some_and(|next| next + 3_000 > now));
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
        plan.add("a", 1_000, 0);
        plan.add("b", 1_000, 0);
        plan.remove("a");
        let names: Vec<String> = plan.take(10_000).into_iter().map(|due| due.name).collect();
        assert_eq!(names, ["b"]);
        plan.remove("b");
        assert_eq!(plan.next_ns(), None);
    }
}
