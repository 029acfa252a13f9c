//! The cost of more workers: worker time per unit of work, by state, and the states that grow.
//!
//! `n` workers that run for `wall` seconds have `n * wall` worker-seconds; divided by the work done that is `n / X(n)`,
//! the left side of the Universal Scalability Law. It equals `1 / X(1)` when nothing is lost. Whatever it has more than
//! that with `n` workers is the cost of scaling, and the states in which that time was spent explain it.

/// Seconds of workers and events of one run, or of the mean of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    /// Workers.
    pub workers: u32,
    /// Units of work that were done.
    pub work: f64,
    /// From the start of the first worker to the end of the last, in seconds.
    pub wall_s: f64,
    /// In user code, in seconds of all workers together, as each of the states below.
    pub user_s: f64,
    /// In system calls.
    pub system_s: f64,
    /// Ready, while another has the CPU.
    pub ready_s: f64,
    /// In futex: locks, conditions and joins.
    pub lock_s: f64,
    /// Times that a thread went on on another CPU.
    pub migrations: f64,
    /// Switches because a thread waited for something.
    pub voluntary: f64,
    /// Switches because another took the CPU.
    pub involuntary: f64,
}

/// States of workers: short name, and what more of it means.
pub const STATES: [(&str, &str); 5] = [
    ("USR", "user code: more of it for the same work is spinning, or memory that another CPU has changed"),
    ("SYS", "system calls: the kernel's own locks, or more calls for the same work"),
    ("LAT", "ready for a CPU that another has: fewer CPUs than workers that want one"),
    ("LCK", "waiting in futex: a lock that another holds, or a condition"),
    ("IDL", "neither running nor ready nor in a lock: asleep, or workers that are not there while one works alone"),
];

/// How much of what more workers cost is in one state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// Of [`STATES`].
    pub name: &'static str,
    /// What more of it means.
    pub meaning: &'static str,
    /// Seconds for a unit of work with the fewest workers.
    pub before_s: f64,
    /// The same with the most.
    pub after_s: f64,
    /// Of everything that a unit costs more, between 0 and 1 but for states that another hides.
    pub share: f64,
}

impl Run {
    /// Units of work a second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.work / self.wall_s
    }

    /// Seconds of all workers together in each of [`STATES`]; what threads spent beyond the workers' own time (a main
    /// thread that joins them is in futex) is not taken off what is idle.
    #[must_use]
    pub fn states_s(&self) -> [f64; 5] {
        let seen = self.user_s + self.system_s + self.ready_s + self.lock_s;
        let idle = (f64::from(self.workers) * self.wall_s - seen).max(0.0);
        [self.user_s, self.system_s, self.ready_s, self.lock_s, idle]
    }

    /// The mean of runs with the same number of workers; `None` without any.
    #[must_use]
    pub fn mean(runs: &[Self]) -> Option<Self> {
        let first = runs.first()?;
        assert!(runs.iter().all(|run| run.workers == first.workers), "runs of one number of workers");
        #[allow(clippy::cast_precision_loss, reason = "a few runs")]
        let mean = |field: fn(&Self) -> f64| runs.iter().map(field).sum::<f64>() / runs.len() as f64;
        Some(Self {
            workers: first.workers,
            work: mean(|run| run.work),
            wall_s: mean(|run| run.wall_s),
            user_s: mean(|run| run.user_s),
            system_s: mean(|run| run.system_s),
            ready_s: mean(|run| run.ready_s),
            lock_s: mean(|run| run.lock_s),
            migrations: mean(|run| run.migrations),
            voluntary: mean(|run| run.voluntary),
            involuntary: mean(|run| run.involuntary),
        })
    }
}

/// What a unit of work costs more with the workers of `after` than with those of `before`, by state, what grows most
/// first; empty when it costs no more.
#[must_use]
pub fn growth(before: &Run, after: &Run) -> Vec<Growth> {
    let cost = |run: &Run| f64::from(run.workers) / run.throughput();
    let more = cost(after) - cost(before);
    if more.is_nan() || more <= 0.0 {
        return Vec::new();
    }
    let (befores, afters) = (before.states_s(), after.states_s());
    let mut grown: Vec<Growth> = STATES
        .iter()
        .zip(befores.iter().zip(afters))
        .map(|((name, meaning), (b, a))| {
            let (before_s, after_s) = (b / before.work, a / after.work);
            Growth { name, meaning, before_s, after_s, share: (after_s - before_s) / more }
        })
        .filter(|grown| grown.share > 0.0)
        .collect();
    grown.sort_by(|a, b| b.share.total_cmp(&a.share));
    grown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(workers: u32, work: f64, wall_s: f64, states: [f64; 4]) -> Run {
        let [user_s, system_s, ready_s, lock_s] = states;
        Run { workers, work, wall_s, user_s, system_s, ready_s, lock_s, ..Run::default() }
    }

    #[test]
    fn what_grows_is_named_with_its_share() {
        // One unit takes a second of user code; with four workers, half of the time each waits for a lock.
        let (one, four) = (run(1, 10.0, 10.0, [10.0, 0.0, 0.0, 0.0]), run(4, 20.0, 10.0, [20.0, 0.0, 0.0, 20.0]));
        let grown = growth(&one, &four);
        assert_eq!(grown.len(), 1, "{grown:?}");
        assert_eq!((grown[0].name, grown[0].before_s, grown[0].after_s), ("LCK", 0.0, 1.0));
        assert!((grown[0].share - 1.0).abs() < 1e-12);
    }

    #[test]
    fn shares_of_states_that_partition_time_add_up_to_all() {
        let (one, four) = (run(1, 10.0, 10.0, [8.0, 1.0, 0.5, 0.0]), run(4, 16.0, 10.0, [20.0, 4.0, 6.0, 5.0]));
        assert_eq!(four.states_s()[4], 5.0);
        let grown = growth(&one, &four);
        assert!((grown.iter().map(|grown| grown.share).sum::<f64>() - 1.0).abs() < 1e-9, "{grown:?}");
        assert!(grown.windows(2).all(|pair| pair[0].share >= pair[1].share), "{grown:?}");
    }

    #[test]
    fn nothing_grows_where_nothing_is_lost() {
        let (one, two) = (run(1, 10.0, 10.0, [10.0, 0.0, 0.0, 0.0]), run(2, 20.0, 10.0, [20.0, 0.0, 0.0, 0.0]));
        assert_eq!(growth(&one, &two), []);
        // Without any work there is nothing to divide by.
        assert_eq!(growth(&run(1, 0.0, 1.0, [0.0; 4]), &run(2, 0.0, 1.0, [0.0; 4])), []);
    }

    #[test]
    fn a_main_thread_in_a_join_makes_no_time_below_zero() {
        let joined = run(2, 1.0, 10.0, [20.0, 0.0, 0.0, 10.0]);
        assert_eq!(joined.states_s()[4], 0.0);
        assert_eq!(Run::mean(&[joined, run(2, 3.0, 20.0, [0.0; 4])]).unwrap().work, 2.0);
        assert_eq!(Run::mean(&[]), None);
    }
}
