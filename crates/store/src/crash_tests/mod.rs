//! Seeded lives of a store: batches, late data and rewrites, flushes, compaction, rollups, retention, deletions,
//! snapshots, faults, flipped bits, power cuts, kills. Whatever happens, each acknowledged batch is there completely
//! and exactly once, deleted data stays deleted, and nothing else is there.
//!
//! `OGIVE_CRASH_SEEDS=5000 OGIVE_CRASH_FIRST=0 cargo test -p ogive-store --release lives -- --nocapture` is the long
//! run; a failure reports its seed and how to run it alone. A failing seed becomes a test of its own.
//! `OGIVE_CRASH_SWAY=24` in addition makes threads overtake each other where they hand over; see `crate::sway`.

mod damage;
mod life;
mod model;

use std::sync::atomic::{AtomicU64, Ordering};

use life::{Life, Setup, Step, Sums};

/// Steps of a short life; each 16th is long.
const STEPS: u64 = 36;

fn setup(seed: u64) -> Setup {
    Setup { seed, mirror: seed % 3 == 1, retention: seed % 4 == 3, small_head: seed.is_multiple_of(5) }
}

/// The steps that follow from a seed.
fn plan(setup: Setup) -> Vec<Step> {
    let mut random = fastrand::Rng::with_seed(setup.seed ^ 0x6f67_6976);
    let count = if setup.seed % 16 == 9 { 4 * STEPS } else { STEPS };
    (0..count).map(|_| one_step(setup, &mut random)).collect()
}

fn one_step(setup: Setup, random: &mut fastrand::Rng) -> Step {
    let disk = random.u64(..2) as usize;
    match random.u64(..64) {
        0 => Step::Kill,
        1 => Step::Cut,
        2 | 3 => Step::CutAfter(1 + random.u64(..60)),
        4..8 => Step::Flush,
        8 => Step::SyncErrors { disk },
        9 => Step::Errors { disk },
        10 if setup.mirror => Step::Dead { disk },
        10..14 => Step::NoFaults,
        14 => Step::Room(random.u64(..3000)),
        15 => Step::Settle,
        16..21 => Step::Advance { seconds: [1, 7, 30, 60, 3700][random.u64(..5) as usize] },
        21..24 => {
            let (from, seconds) = (random.u64(..60) as i64 - 40, 1 + random.u64(..30) as i64);
            Step::Delete { what: random.u64(..1000), from, seconds }
        }
        24 | 36 => Step::Snapshot(random.u64(..3) as u8),
        25 => Step::Rollback(random.u64(..3) as u8),
        26 | 27 if setup.mirror => Step::Flip(random.u64(..u64::MAX)),
        28..33 => Step::Again(random.u64(..u64::MAX)),
        33..36 => Step::Verify,
        _ => Step::Send { hear: random.u64(..3) > 0 },
    }
}

fn live(seed: u64) -> Sums {
    let setup = setup(seed);
    Life::new(setup, None).run(&plan(setup))
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Lives of `seeds` from `first` on; returns which one fails, and how to run it again.
fn lives(first: u64, seeds: u64) -> Sums {
    let next = AtomicU64::new(first);
    let work = || {
        let mut sums = Sums::default();
        loop {
            // ORDERING: Relaxed; nothing but the number is shared.
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + seeds {
                return sums;
            }
            match std::panic::catch_unwind(|| live(seed)) {
                Ok(one) => sums.add(&one),
                Err(panic) => {
                    eprintln!("seed {seed} failed; run it alone, more than once if threads were in it:");
                    eprintln!("  OGIVE_CRASH_FIRST={seed} OGIVE_CRASH_SEEDS=1 cargo test -p ogive-store lives");
                    std::panic::resume_unwind(panic);
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut sums = Sums::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            match thread.join() {
                Ok(one) => sums.add(&one),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    println!("{seeds} lives from seed {first} on: {sums:?}");
    sums
}

#[test]
fn in_all_lives_what_was_acknowledged_is_there_exactly_once() {
    let seeds = number("OGIVE_CRASH_SEEDS", 1000);
    let sums = lives(number("OGIVE_CRASH_FIRST", 0), seeds);
    if seeds >= 200 {
        let of =
            [sums.ends, sums.deletions, sums.snapshots, sums.flips, sums.compactions, sums.rollups, sums.points_again];
        assert!(of.iter().all(|count| *count > seeds / 20), "{sums:?}");
        assert!(
            sums.rollbacks > 0 && sums.dropped > 0 && sums.members_lost > 0 && sums.batches > 10 * seeds,
            "{sums:?}"
        );
    }
}

/// A life in which everything happens once.
fn script() -> Vec<Step> {
    let send = Step::Send { hear: true };
    vec![
        send,
        send,
        Step::Flush,
        Step::Snapshot(0),
        send,
        Step::Flush,
        Step::Advance { seconds: 30 },
        Step::Delete { what: 0, from: -35, seconds: 20 },
        send,
        Step::Advance { seconds: 60 },
        Step::Kill,
        send,
        Step::Snapshot(1),
        Step::Flush,
        Step::Rollback(0),
        send,
        Step::Flush,
        Step::Advance { seconds: 3700 },
    ]
}

/// Cuts the power in the middle of each change of the disk that a life makes, one life for each; gives how many there
/// were.
fn cut_everywhere(setup: Setup) -> u64 {
    let steps = script();
    for cut in 1.. {
        if Life::new(Setup { seed: cut, ..setup }, Some(cut)).run(&steps).cuts == 0 {
            return cut - 1;
        }
    }
    unreachable!("a life ends")
}

fn check_cuts(setup: Setup) {
    let cuts = cut_everywhere(setup);
    println!("{setup:?}: the power went at each of {cuts} changes of the disk");
    assert!(cuts > 100, "{cuts} changes are too few");
}

#[test]
fn the_power_may_go_at_any_change_of_the_disk() {
    check_cuts(Setup::default());
}

#[test]
fn the_power_may_go_at_any_change_of_a_disk_from_which_old_samples_go() {
    check_cuts(Setup { retention: true, ..Setup::default() });
}

#[test]
fn a_disk_of_a_mirror_may_fail_and_the_power_go_at_any_change() {
    check_cuts(Setup { mirror: true, ..Setup::default() });
}

/// A fsync failed, the process was killed, and the next one took records that lived in the page cache alone for
/// durable; it called a batch a duplicate, and a power cut lost it. The journal now copies what is not proven.
#[test]
fn records_of_a_failed_fsync_that_a_kill_leaves_in_memory_are_not_relied_on() {
    for seed in 0..20 {
        let mut steps = vec![Step::Send { hear: true }, Step::SyncErrors { disk: 0 }];
        for at in 0..6 {
            steps.extend([Step::Send { hear: at % 2 == 0 }, Step::Again(at)]);
        }
        steps.extend([Step::Kill, Step::Again(3), Step::Again(5), Step::Cut]);
        Life::new(Setup { seed, ..Setup::default() }, None).run(&steps);
    }
}

/// A bit of a block's trailer was flipped in the copy that is read first: in the checksum of the footer, which nothing
/// covers. The footer was called bad in both copies, and the block was not readable. A trailer is believed now only
/// with the footer that fits it.
#[test]
fn a_bad_trailer_in_one_copy_costs_nothing() {
    let mut steps = vec![Step::Send { hear: true }, Step::Flush];
    steps.extend((0..24).map(|byte| Step::FlipTrailer { disk: byte % 2, bit: byte * 8 + byte % 7 }));
    steps.extend((0..4).map(|byte| Step::FlipTrailer { disk: 1 - byte % 2, bit: (12 + byte) * 8 }));
    let sums = Life::new(Setup { mirror: true, ..Setup::default() }, None).run(&steps);
    assert_eq!((sums.flips, sums.healed), (28, 28));
}
