//! Simulated clocks drive the calibrator: drift, slewing, starvation, counters that stop, jump and go back.
//!
//! A [`World`] has a true time, a reference (CLOCK_MONOTONIC) that may be slewed, and a counter with faults. The
//! calibrator samples it on its own schedule; a reader reads through the published segments as `Clock::now` does, and
//! each of its readings is compared with the one before and with the reference.

use super::calibrate::{Calibrator, Outcome, PERIOD_NS, Sample};
use super::reading::{FLOOR_BELIEVED_NS, SKEW_TICKS, floored};
use super::segment::{Mode, Segment};

struct World {
    /// True nanoseconds since the start.
    time_ns: u64,
    reference_start_ns: u64,
    /// Slewed part of the reference: sum of slews so far, nanoseconds.
    reference_extra_ns: f64,
    /// Slewing now, parts per billion.
    slew_ppb: f64,
    wall_offset_ns: i64,
    /// The counter, and the part of a tick that it does not show.
    ticks: u64,
    ticks_part: f64,
    ticks_per_ns: f64,
    random: u64,
    calibrator: Calibrator,
    current: Segment,
    last_reading: u64,
    backward: u64,
    err_max_ns: u64,
    beyond_bound: u64,
}

impl World {
    fn new(ticks_start: u64, reference_start_ns: u64, ticks_per_ns: f64) -> Self {
        let current = Segment::os(0, 0, 0);
        Self {
            time_ns: 0,
            reference_start_ns,
            reference_extra_ns: 0.0,
            slew_ppb: 0.0,
            wall_offset_ns: 1_700_000_000_000_000_000,
            ticks: ticks_start,
            ticks_part: 0.0,
            ticks_per_ns,
            random: 0x9e37_79b9_7f4a_7c15,
            calibrator: Calibrator::new(current, 0),
            current,
            last_reading: 0,
            backward: 0,
            err_max_ns: 0,
            beyond_bound: 0,
        }
    }

    fn pass(&mut self, ns: u64) {
        self.time_ns += ns;
        self.reference_extra_ns += ns as f64 * self.slew_ppb * 1e-9;
        let ticks = ns as f64 * self.ticks_per_ns + self.ticks_part;
        self.ticks = self.ticks.wrapping_add(ticks as u64);
        self.ticks_part = ticks.fract();
    }

    fn counter(&self) -> u64 {
        self.ticks
    }

    fn reference(&self) -> u64 {
        (self.reference_start_ns + self.time_ns).wrapping_add_signed(self.reference_extra_ns as i64)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    /// A bracket of 20 to 40 ns, the reading anywhere in it, now and then an interruption.
    fn sample(&mut self) -> Sample {
        let ticks_before = self.counter();
        let before = 10 + self.below(10);
        self.pass(before);
        let monotonic_ns = self.reference();
        let after = 10 + self.below(10) + if self.below(50) == 0 { 30_000 } else { 0 };
        self.pass(after);
        let wall_offset_ns = self.wall_offset_ns + self.below(20) as i64;
        Sample { ticks_before, monotonic_ns, ticks_after: self.counter(), wall_offset_ns, wall_width_ns: 40 }
    }

    fn calibrate(&mut self) {
        let sample = self.sample();
        if self.calibrator.observe(&sample) == Outcome::Publish {
            self.publish();
        }
    }

    fn publish(&mut self) {
        let segment = self.calibrator.segment(self.counter());
        let steepness = (segment.rate_slewed as f64 / segment.rate as f64 - 1.0).abs();
        assert!(segment.mode == Mode::Os || steepness < 500.001e-6, "a correction of {steepness:e}");
        self.pass(100);
        self.current = segment;
        if let Some(correction) = self.calibrator.published(segment, self.counter()) {
            self.current = correction;
            assert_eq!(self.calibrator.published(correction, self.counter()), None);
        }
    }

    /// As `Clock::now` and `Clock::now_bounded` do it.
    fn read(&mut self) {
        self.pass(25);
        let ticks = self.counter();
        let shift = self.calibrator.shift();
        let (reading, err_ns) = match self.current.line(ticks, shift) {
            Some(ns) => (ns, self.current.err_after(ns - self.current.base_ns)),
            None => {
                let ns = self.read_system(ticks, shift);
                (ns, ns.abs_diff(self.reference()) + 1)
            }
        };
        self.backward += u64::from(reading < self.last_reading);
        self.last_reading = reading;
        let err = reading.abs_diff(self.reference());
        self.err_max_ns = self.err_max_ns.max(err);
        self.beyond_bound += u64::from(err > err_ns);
    }

    fn read_system(&self, ticks: u64, shift: u32) -> u64 {
        floored(&self.current, ticks, shift, self.reference())
    }

    /// Runs for some seconds with readings in between, the calibrator working or starved.
    fn run(&mut self, seconds: f64, calibrating: bool) {
        let end = self.time_ns + (seconds * 1e9) as u64;
        while self.time_ns < end {
            if calibrating {
                self.calibrate();
            }
            let readings = 16;
            for _ in 0..readings {
                let gap = self.calibrator.period_ns() / readings;
                let gap = gap / 2 + self.below(gap);
                self.pass(gap);
                self.read();
                self.read();
            }
        }
    }

    fn forget_errors(&mut self) {
        self.err_max_ns = 0;
        self.beyond_bound = 0;
    }

    #[track_caller]
    fn expect(&self, what: &str, err_max_ns: u64) {
        assert_eq!(self.backward, 0, "{what}: time went back");
        assert!(self.err_max_ns <= err_max_ns, "{what}: error {} ns, allowed {err_max_ns}", self.err_max_ns);
        assert_eq!(self.beyond_bound, 0, "{what}: readings beyond their published bound");
    }
}

const GHZ_2: f64 = 2.0 * (1.0 + 13.7e-6);

const _: () = assert!(SKEW_TICKS < PERIOD_NS / 1_000 && FLOOR_BELIEVED_NS < PERIOD_NS);

#[test]
fn the_system_takes_over_where_the_line_ended() {
    let line = Segment {
        base_ticks: 1_000_000,
        base_ns: 1_000,
        rate: 1 << 63,
        rate_slewed: 1 << 63,
        slew_ticks: 10,
        max_age: 100_000,
        mode: Mode::Counter,
        ..Segment::os(0, 0, 0)
    };
    let end = 1_000 + 50_000;
    let cases = [
        (1_100_000, end + 7, end + 7, "the system is ahead"),
        (1_100_000, end - 20, end, "the line was ahead by its error: no reading falls below it"),
        (u64::MAX / 2, 900, end, "the same, however late"),
        (u64::MAX / 2, 1, end, "the same at the limit of what is believed"),
        (999_999, 5, 1_000, "another CPU's counter, a tick behind"),
        (1_000_000 - SKEW_TICKS, 9_999_999, 1_000, "the same at the limit"),
        (1_000_000 - SKEW_TICKS - 1, 9_999_999, 9_999_999, "the counter went back: the system's clock"),
        (5, 400, 1_000, "the same, but not below the line's start"),
    ];
    for (ticks, system_ns, expected, why) in cases {
        assert_eq!(floored(&line, ticks, 0, system_ns), expected, "{why}");
    }
    let later = Segment { base_ns: 10 * FLOOR_BELIEVED_NS, ..line };
    assert_eq!(floored(&later, u64::MAX / 2, 0, 5_000), 5_000, "a counter that jumped is not believed");
    assert_eq!(floored(&Segment::os(70, 0, 0), 5, 0, 60), 70, "the floor of the system's own mode");
    assert_eq!(floored(&Segment::os(70, 0, 0), 5, 0, 80), 80);
}

#[test]
fn counters_of_all_rates_are_calibrated_within_40_ns() {
    // 24 MHz and 50 MHz ARM counters step by 40 and 20 ns, which is part of their error.
    for (ticks_per_ns, err_max_ns) in [(0.024, 200), (0.05, 120), (1.0, 60), (GHZ_2, 40), (2.6, 40), (5.7, 40)] {
        let mut world = World::new(1 << 40, 77_000_000_000, ticks_per_ns);
        world.run(1.0, true);
        world.forget_errors();
        world.run(60.0, true);
        world.expect(&format!("{ticks_per_ns} GHz"), err_max_ns);
        assert_eq!(world.current.mode, Mode::Counter);
        let rate = world.calibrator.rate().expect("known");
        let off_ppb = (rate.ns_per_tick * ticks_per_ns - 1.0).abs() * 1e9;
        assert!(off_ppb < 5.0, "{ticks_per_ns} GHz: rate off by {off_ppb} ppb");
    }
}

#[test]
fn every_start_is_sound() {
    let day_ns = 86_400_000_000_000;
    let starts =
        [(0, 0), (1, 1), (1 << 63, 5), (u64::MAX - 1_000_000, 5), (u64::MAX / 2, 200 * day_ns), (7, 200 * day_ns)];
    for (ticks_start, reference_start_ns) in starts {
        let mut world = World::new(ticks_start, reference_start_ns, GHZ_2);
        world.run(5.0, true);
        assert_eq!(world.backward, 0, "start at {ticks_start}");
        world.forget_errors();
        world.run(20.0, true);
        world.expect(&format!("start at {ticks_start}"), 40);
        assert_eq!(world.current.mode, Mode::Counter);
    }
}

#[test]
fn two_hundred_days_between_two_samples_do_no_harm() {
    let mut world = World::new(1 << 40, 1_000, GHZ_2);
    world.run(5.0, true);
    world.pass(200 * 86_400_000_000_000);
    world.read();
    world.run(5.0, true);
    world.expect("200 days", 2_000);
}

#[test]
fn starved_for_thirty_seconds_it_stays_within_its_bound() {
    let mut world = World::new(1 << 40, 1_000_000_000, GHZ_2);
    world.run(20.0, true);
    world.expect("before", 2_000);
    for _ in 0..3 {
        world.forget_errors();
        world.run(30.0, false);
        world.expect("starved", 50);
        world.run(5.0, true);
        world.expect("resumed", 80);
    }
    assert_eq!(world.calibrator.tally().fallbacks, 3);
    assert_eq!(world.current.mode, Mode::Counter);
}

#[test]
fn a_slewed_reference_is_followed() {
    let mut world = World::new(1 << 40, 1_000_000_000, GHZ_2);
    world.run(30.0, true);
    for slew_ppb in [500_000.0, -500_000.0, 50_000.0, 300.0, 0.0] {
        world.slew_ppb = slew_ppb;
        world.run(1.5, true);
        assert_eq!(world.backward, 0, "slew of {slew_ppb} ppb begins");
        // Until it is noticed, the error is the slew's rate times a period or two.
        assert!(world.err_max_ns < 200_000, "slew of {slew_ppb} ppb begins: {} ns", world.err_max_ns);
        world.run(2.0, true);
        world.forget_errors();
        world.run(20.0, true);
        world.expect(&format!("slew of {slew_ppb} ppb"), 60);
    }
}

#[test]
fn a_counter_that_goes_back_ends_the_line_and_is_calibrated_anew() {
    for step in [1_000, 1_000_000, 100_000_000, 1_000_000_000_000] {
        let mut world = World::new(1 << 50, 1_000_000_000, GHZ_2);
        world.run(10.0, true);
        let epoch = world.current.epoch;
        world.ticks -= step;
        world.calibrate();
        world.run(0.015, false);
        world.run(2.0, true);
        assert_eq!(world.backward, 0, "{step} ticks back");
        world.forget_errors();
        world.run(10.0, true);
        world.expect(&format!("{step} ticks back"), 40);
        assert!(step < 100_000_000 || world.current.epoch > epoch, "{step} ticks back: a new epoch");
    }
}

#[test]
fn a_counter_that_jumps_forward_cannot_carry_the_clock_along() {
    // One hour ahead: beyond the segment's end, so readers never follow. A second ahead: they follow until the next
    // sample, and then wait for the truth to catch up; they never go back.
    for (jump_ns, allowed_ns) in [(3_600e9, 200_000), (1e9, 1_100_000_000)] {
        let mut world = World::new(1 << 50, 1_000_000_000, GHZ_2);
        world.run(10.0, true);
        world.forget_errors();
        let epoch = world.current.epoch;
        world.ticks += (jump_ns * GHZ_2) as u64;
        for _ in 0..10 {
            world.read();
        }
        world.run(5.0, true);
        assert_eq!(world.backward, 0);
        assert!(world.err_max_ns <= allowed_ns, "{} ns after a jump of {jump_ns}", world.err_max_ns);
        assert_ne!(world.current.epoch, epoch);
        world.forget_errors();
        world.run(40.0, true);
        assert_eq!(world.backward, 0);
        assert_eq!(world.current.mode, Mode::Counter);
    }
}

#[test]
fn a_counter_that_stands_still_is_not_used() {
    let mut world = World::new(1 << 50, 1_000_000_000, GHZ_2);
    world.run(10.0, true);
    world.ticks_per_ns = 0.0;
    world.run(1.0, true);
    assert_eq!(world.backward, 0);
    assert_eq!(world.current.mode, Mode::Os);
    world.forget_errors();
    world.run(10.0, true);
    world.expect("standing still", 0);
    world.ticks_per_ns = GHZ_2;
    world.run(2.0, true);
    world.forget_errors();
    world.run(10.0, true);
    world.expect("running again", 40);
    assert_eq!(world.current.mode, Mode::Counter);

    let mut never = World::new(0, 1_000_000_000, 0.0);
    never.run(10.0, true);
    never.expect("never ran", 0);
    assert_eq!(never.current.mode, Mode::Os);
}

#[test]
fn a_rate_that_changes_is_a_new_epoch() {
    for factor in [0.5, 0.9, 1.0001, 1.5, 1e-9, 1e9] {
        let mut world = World::new(1 << 50, 1_000_000_000, GHZ_2);
        world.run(10.0, true);
        let epoch = world.current.epoch;
        world.ticks_per_ns *= factor;
        world.run(10.0, true);
        assert_eq!(world.backward, 0, "times {factor}");
        assert_ne!(world.current.epoch, epoch, "times {factor}");
    }
}

#[test]
fn a_demoted_counter_is_left_and_taken_again_without_a_step_back() {
    let mut world = World::new(1 << 50, 1_000_000_000, GHZ_2);
    world.run(10.0, true);
    for _ in 0..5 {
        assert_eq!(world.calibrator.set_trusted(false), Outcome::Publish);
        world.publish();
        assert_eq!(world.current.mode, Mode::Os);
        world.read();
        world.run(1.0, true);
        assert_eq!(world.current.mode, Mode::Os);
        assert_eq!(world.calibrator.set_trusted(true), Outcome::Keep);
        world.run(1.0, true);
        assert_eq!(world.current.mode, Mode::Counter);
    }
    world.expect("demoted and back", 3_000);
    assert_eq!(world.calibrator.tally().fallbacks, 5);
}

#[test]
fn a_wall_clock_that_is_set_steps_once_and_says_so() {
    let mut world = World::new(1 << 50, 1_000_000_000, GHZ_2);
    world.run(10.0, true);
    let (epoch, offset) = (world.current.epoch, world.current.wall_offset_ns);
    assert!((offset - world.wall_offset_ns).abs() <= 40);
    world.run(10.0, true);
    assert_eq!((world.current.epoch, world.current.wall_offset_ns), (epoch, offset), "noise is not a step");
    world.wall_offset_ns -= 1_000_000_000;
    world.run(10.0, true);
    assert_eq!(world.current.epoch, epoch + 1);
    assert!((world.current.wall_offset_ns - world.wall_offset_ns).abs() <= 40);
    world.expect("only the wall clock stepped", 2_000);
}

/// Whoever is taken off the processor between the two readings of the first sample knows the difference of the clocks
/// badly. The next that was not given a clock that was set, and with it an epoch, though nobody had touched it.
#[test]
fn a_difference_that_is_known_better_is_no_step() {
    let mut world = World::new(1 << 50, 1_000_000_000, GHZ_2);
    let epoch = world.current.epoch;
    let held_up =
        Sample { wall_offset_ns: world.wall_offset_ns - 4_000_000, wall_width_ns: 8_000_000, ..world.sample() };
    assert_eq!(world.calibrator.observe(&held_up), Outcome::Publish);
    world.publish();
    world.run(10.0, true);
    assert_eq!(world.current.epoch, epoch);
    assert!((world.current.wall_offset_ns - world.wall_offset_ns).abs() <= 40);
    world.wall_offset_ns += 1_000_000;
    world.run(10.0, true);
    assert_eq!(world.current.epoch, epoch + 1);
}

/// As the environment shows it: a suspend, a live migration to a processor of another frequency, a restored snapshot
/// after which both clocks have jumped.
#[test]
fn a_machine_that_was_moved_begins_a_new_epoch() {
    for (factor, jump_ns) in [(1.0, 0), (1.000_1, 0), (0.8, 0), (1.0, 60_000_000_000)] {
        let mut world = World::new(1 << 50, 1_000_000_000, GHZ_2);
        world.run(10.0, true);
        let epoch = world.current.epoch;
        world.ticks_per_ns *= factor;
        world.pass(jump_ns);
        assert_eq!(world.calibrator.interrupted(), Outcome::Publish);
        world.publish();
        assert_eq!((world.current.mode, world.current.epoch), (Mode::Os, epoch + 1), "times {factor}, {jump_ns} ns");
        world.run(2.0, true);
        assert_eq!((world.backward, world.current.mode), (0, Mode::Counter));
        world.forget_errors();
        world.run(10.0, true);
        world.expect(&format!("times {factor}, {jump_ns} ns"), 40);
    }
}

#[test]
fn an_offset_between_cpus_is_part_of_the_bound() {
    let mut world = World::new(1 << 50, 1_000_000_000, GHZ_2);
    world.run(10.0, true);
    let before = world.current.err_ns;
    world.calibrator.set_cpu_offset(80);
    world.run(1.0, true);
    assert!(world.current.err_ns >= 80 && world.current.err_ns + 20 >= before + 80, "{}", world.current.err_ns);
}

#[test]
fn a_publication_that_is_held_up_is_counted_and_mended() {
    let mut world = World::new(1 << 50, 1_000_000_000, GHZ_2);
    world.run(10.0, true);
    world.slew_ppb = -500_000.0; // The next segments are slower than the one in force.
    world.pass(PERIOD_NS);
    let sample = world.sample();
    assert_eq!(world.calibrator.observe(&sample), Outcome::Publish);
    let segment = world.calibrator.segment(world.counter());
    world.pass(50_000_000);
    let before = world.current.line(world.counter(), 0).expect("valid");
    world.current = segment;
    let correction = world.calibrator.published(segment, world.counter()).expect("time went back");
    assert!(segment.line(world.counter(), 0).expect("valid") < before);
    assert!(correction.line(world.counter(), 0).expect("valid") > before);
    assert_eq!(world.calibrator.published(correction, world.counter()), None);
    assert_eq!(world.calibrator.tally().backsteps, 1);
}

#[test]
fn no_sample_panics() {
    let extremes = [0, 1, 2, 1_000, 1 << 32, 1 << 53, 1 << 63, u64::MAX - 1, u64::MAX];
    let mut world = World::new(0, 0, GHZ_2);
    for seed in 0..20_000_u64 {
        let words: [u64; 6] = std::array::from_fn(|_| {
            let at = world.below(extremes.len() as u64) as usize;
            let shift = world.below(60);
            extremes[at].wrapping_add(world.random >> shift)
        });
        let sample = Sample {
            ticks_before: words[0],
            monotonic_ns: words[1],
            ticks_after: words[2],
            wall_offset_ns: words[3] as i64,
            wall_width_ns: words[4],
        };
        if world.calibrator.observe(&sample) == Outcome::Publish {
            let segment = world.calibrator.segment(words[5]);
            let _ = world.calibrator.published(segment, words[5].wrapping_add(seed % 1_000));
            world.current = segment;
        }
        if seed % 16 == 0 {
            world.calibrator = Calibrator::new(world.current, world.calibrator.shift());
        }
    }
}
