//! The calibration mathematics: from comparisons of the counter with CLOCK_MONOTONIC to segments.
//!
//! Pure: no clock is read here, so that tests drive it with simulated ones. The thread that owns a [`Calibrator`] takes
//! a [`Sample`], gives it to [`Calibrator::observe`], and when that says so publishes [`Calibrator::segment`].
//!
//! *Invariants*: a segment starts where the one before it is at that instant, or above; none ever falls. In the
//! operating system's mode no reading falls below the floor, which is the last value that the line can have shown.
//! A phase error is corrected within little more than one period and at no more than 500 ppm; then the segment runs at
//! the long-term rate alone. *Failure*: samples that cannot be true (the counter stood still, went back or jumped) end
//! the line: the operating system's clock takes over, the epoch rises, and calibration starts again. Nothing here
//! panics.

use super::rate::{Point, Rate, Windows, agree};
use super::segment::{Mode, Segment};

/// One bracketed comparison: `ticks_before` <= the instant of the readings <= `ticks_after`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) ticks_before: u64,
    /// CLOCK_MONOTONIC.
    pub(crate) monotonic_ns: u64,
    pub(crate) ticks_after: u64,
    /// CLOCK_REALTIME - CLOCK_MONOTONIC.
    pub(crate) wall_offset_ns: i64,
    /// How far that difference may be off.
    pub(crate) wall_width_ns: u64,
}

/// What to do after a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing new to publish.
    Keep,
    /// Publish [`Calibrator::segment`].
    Publish,
}

/// Nanoseconds between samples once calibrated.
pub(crate) const PERIOD_NS: u64 = 100_000_000;
/// Nanoseconds over which a correction is spread: a period, and an eighth for a calibrator that is a little late, so
/// that nearly every reading is within a correction, which is the fast path.
const CORRECTION_NS: u64 = PERIOD_NS + PERIOD_NS / 8;
/// Nanoseconds between samples before the rate is known to a tenth of a ppm.
pub(crate) const PERIOD_FIRST_NS: u64 = 20_000_000;
/// A segment not replaced for this long is not used any more: 20 periods. It also bounds how far a counter that
/// jumps forward can carry the clock.
pub(crate) const AGE_NS_MAX: u64 = 2_000_000_000;
/// Steepest correction, relative to the rate: the limit of the kernel for `adjtime` (500 ppm).
const SLEW_MAX: f64 = 500e-6;
/// A phase error above this is a break, not a drift.
const BREAK_NS: u64 = 10_000_000;
/// How far the floor may be above the true time when the counter takes over: what one period's correction can remove.
const CATCH_UP_NS: u64 = 50_000;
/// How far the reference may be slewed between samples before the difference counts as a break (chrony's largest slew
/// rate is 83,333 ppm; a tenth of the time covers it).
const BREAK_PER_NS: u64 = 10;
/// A change of the rate that starts a new epoch.
const RATE_BREAK: f64 = 2e-6;
/// A sample this many times wider than the tightest of late is not used...
const WIDTH_FACTOR: u64 = 4;
/// ...unless this many in a row were that wide: then the machine has changed.
const WIDE_IN_A_ROW_MAX: u32 = 10;
/// Rates between these are possible counters: 100 kHz to 100 GHz.
const NS_PER_TICK: std::ops::RangeInclusive<f64> = 0.01..=10_000.0;
/// A reader that read the old line just before it ended may be this much later than the end: a reading takes 20 ns, and
/// one that is interrupted in between is repeated.
const FLOOR_MARGIN_NS: u64 = 1_000;
/// Differences of the wall clock's offset below this are measurement errors: reading two clocks takes some 50 ns, and a
/// microsecond when a cache has to be filled.
const WALL_NOISE_NS: u64 = 1_000;
/// Nanoseconds over which the drift is measured: a bracket of 20 ns over 4 s is 5 ppb.
const DRIFT_NS: u64 = 4_000_000_000;
/// Half a nanosecond: a possible step back below this cannot be seen.
const STEP_SEEN_NS: f64 = 0.5;

/// Counts of what happened, for the status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// How often the counter was abandoned for the operating system's clock, including late calibrations.
    pub(crate) fallbacks: u64,
    /// Publications so late that a reader may have seen time go back by half a nanosecond or more.
    pub(crate) backsteps: u64,
    /// Samples not used.
    pub(crate) rejected: u64,
    /// Samples used.
    pub(crate) used: u64,
}

/// The state of one clock's calibration.
#[derive(Clone, Debug)]
pub(crate) struct Calibrator {
    windows: Windows,
    rate: Option<Rate>,
    /// The published segment.
    current: Segment,
    /// The basis of `segment`: the last sample used.
    last: Option<Point>,
    last_sample: Option<Sample>,
    phase_ns: f64,
    /// In the operating system's mode: the next segment may be the counter's.
    entering: bool,
    /// The latest CLOCK_MONOTONIC seen, also in samples that were not used.
    seen_ns: u64,
    width_min: u64,
    wide_in_a_row: u32,
    /// The offset of the wall clock from CLOCK_MONOTONIC, and its uncertainty.
    wall: Option<(i64, u64)>,
    /// Epoch of the next segment.
    epoch: u16,
    /// The counter may be used at all.
    trusted: bool,
    shift: u32,
    tally: Tally,
    /// Where the measurement of the drift began, and the rate known at the time.
    drift_from: Option<(Point, Rate)>,
    drift_ppb: f64,
    /// How far the counters of two CPUs are apart.
    cpu_offset_ns: u64,
}

impl Calibrator {
    /// A calibrator that continues from `current`, which is the operating system's segment in a new process.
    pub(crate) fn new(current: Segment, shift: u32) -> Self {
        Self {
            windows: Windows::default(),
            rate: None,
            current,
            last: None,
            last_sample: None,
            phase_ns: 0.0,
            entering: false,
            seen_ns: 0,
            width_min: u64::MAX,
            wide_in_a_row: 0,
            wall: None,
            epoch: current.epoch,
            trusted: true,
            shift,
            tally: Tally::default(),
            drift_from: None,
            drift_ppb: 0.0,
            cpu_offset_ns: 0,
        }
    }

    /// Processes one sample.
    pub(crate) fn observe(&mut self, sample: &Sample) -> Outcome {
        self.seen_ns = self.seen_ns.max(sample.monotonic_ns);
        let wall_changed = self.observe_wall(sample);
        let outcome = self.observe_counter(sample);
        if wall_changed && outcome == Outcome::Keep { Outcome::Publish } else { outcome }
    }

    /// Sets whether the counter may be used; the environment, not a sample, decides this.
    pub(crate) fn set_trusted(&mut self, trusted: bool) -> Outcome {
        if self.trusted == trusted {
            return Outcome::Keep;
        }
        self.trusted = trusted;
        if trusted { Outcome::Keep } else { self.give_up() }
    }

    /// The machine was suspended or moved: earlier samples are invalid.
    pub(crate) fn interrupted(&mut self) -> Outcome {
        self.give_up()
    }

    /// How far the counters of two CPUs are apart; part of every bound from the next segment on.
    pub(crate) fn set_cpu_offset(&mut self, ns: u64) {
        self.cpu_offset_ns = ns;
    }

    /// By how much ticks are to be shifted, once the rate is known; the latch must have it before the first
    /// segment in counter mode.
    pub(crate) fn shift(&self) -> u32 {
        self.shift
    }

    /// Time to the next sample, nanoseconds.
    pub(crate) fn period_ns(&self) -> u64 {
        match self.rate {
            Some(rate) if rate.err_ppb < 400.0 => PERIOD_NS,
            _ => PERIOD_FIRST_NS,
        }
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// How much faster than the reference the counter would have run at the rate of [`DRIFT_NS`] ago, parts per
    /// billion.
    pub(crate) fn drift_ppb(&self) -> f64 {
        self.drift_ppb
    }

    /// The reference at the last sample that was used; 0 before the first.
    pub(crate) fn calibrated_at_ns(&self) -> u64 {
        self.last.map_or(0, |point| point.ns)
    }

    /// The best rate known.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.rate
    }

    fn observe_wall(&mut self, sample: &Sample) -> bool {
        let (offset_ns, width_ns) = (sample.wall_offset_ns, sample.wall_width_ns);
        let mut is_set = false;
        if let Some((known_ns, known_width_ns)) = self.wall {
            // Both clocks are slewed alike, so their difference changes only when the wall clock is set. A difference
            // within the uncertainties of both measurements is the same one, measured again.
            is_set = known_ns.abs_diff(offset_ns) > known_width_ns.saturating_add(width_ns).max(WALL_NOISE_NS);
            if !is_set && (known_width_ns <= WALL_NOISE_NS || width_ns >= known_width_ns) {
                return false;
            }
        }
        // The first, another, or the same with less uncertainty: a thread that was interrupted between two readings
        // measures badly.
        self.wall = Some((offset_ns, width_ns));
        self.epoch = self.epoch.wrapping_add(u16::from(is_set));
        true
    }

    fn observe_counter(&mut self, sample: &Sample) -> Outcome {
        if !self.trusted {
            return Outcome::Keep;
        }
        if let Some(last) = self.last_sample {
            if sample.ticks_before < last.ticks_after || sample.monotonic_ns < last.monotonic_ns {
                return self.give_up();
            }
            let still = sample.ticks_after == last.ticks_after;
            if still && sample.monotonic_ns - last.monotonic_ns > PERIOD_FIRST_NS / 2 {
                return self.give_up();
            }
        }
        let Some(point) = self.point(sample) else {
            self.tally.rejected += 1;
            return Outcome::Keep;
        };
        if self.is_break(point) {
            return self.give_up();
        }
        self.last = Some(point);
        self.last_sample = Some(*sample);
        self.tally.used += 1;
        let Some(rate) = self.windows.push(point) else { return Outcome::Keep };
        if !NS_PER_TICK.contains(&rate.ns_per_tick) {
            return self.give_up();
        }
        if self.current.mode == Mode::Counter
            && let Some(known) = self.rate
            && (rate.ns_per_tick / known.ns_per_tick - 1.0).abs() > RATE_BREAK + known.err_ppb * 1e-9
        {
            self.epoch = self.epoch.wrapping_add(1);
        }
        let known = self.rate.replace(rate);
        self.measure_drift(point, rate);
        if self.current.mode == Mode::Os {
            return self.enter(known, rate, point);
        }
        match self.current.line(point.ticks, self.shift) {
            Some(mine) => self.phase_ns = point.ns as f64 - mine as f64,
            None => {
                // Starved past the segment's end: readers are on the operating system's clock.
                self.phase_ns = 0.0;
                self.tally.fallbacks += 1;
            }
        }
        Outcome::Publish
    }

    fn measure_drift(&mut self, point: Point, rate: Rate) {
        let Some((from, known)) = self.drift_from else {
            self.drift_from = Some((point, rate));
            return;
        };
        let passed_ns = point.ns.saturating_sub(from.ns);
        if passed_ns >= DRIFT_NS {
            let alone_ns = point.ticks.saturating_sub(from.ticks) as f64 * known.ns_per_tick;
            self.drift_ppb = (alone_ns / passed_ns as f64 - 1.0) * 1e9;
            self.drift_from = Some((point, rate));
        }
    }

    /// From the system's clock to the counter, once two rates in a row agree and the floor is not above the truth.
    fn enter(&mut self, known: Option<Rate>, rate: Rate, point: Point) -> Outcome {
        self.entering = known.is_some_and(|known| agree(known, rate))
            && self.current.base_ns.saturating_sub(point.ns) <= CATCH_UP_NS;
        if !self.entering {
            return Outcome::Keep;
        }
        self.shift = shift_for(rate.ns_per_tick);
        self.phase_ns = 0.0;
        Outcome::Publish
    }

    /// The middle of the bracket, or `None` for a sample that is not tight enough to be used.
    fn point(&mut self, sample: &Sample) -> Option<Point> {
        let width = sample.ticks_after.checked_sub(sample.ticks_before)?;
        if width > self.width_min.saturating_mul(WIDTH_FACTOR) && self.wide_in_a_row < WIDE_IN_A_ROW_MAX {
            self.wide_in_a_row += 1;
            return None;
        }
        if self.wide_in_a_row >= WIDE_IN_A_ROW_MAX {
            self.width_min = width;
        }
        self.wide_in_a_row = 0;
        self.width_min = self.width_min.min(width.max(1));
        // Before the rate is known, a tick counts as a nanosecond. The first window of a slower counter is then assumed
        // to be more precise than it is, for 20 ms; the rates of two windows must agree before either is used.
        let ns_per_tick = self.rate.map_or(1.0, |rate| rate.ns_per_tick);
        Some(Point {
            ticks: sample.ticks_before + width / 2,
            ns: sample.monotonic_ns,
            // One tick more: the counter had stood at its last value for up to a tick.
            half_width_ns: (width as f64 + 1.0) * ns_per_tick / 2.0 + 1.0,
        })
    }

    /// Whether the point deviates from the prediction of the rate by more than any slewing of the reference.
    fn is_break(&self, point: Point) -> bool {
        let (Some(last), Some(rate)) = (self.last, self.rate) else { return false };
        let expected = last.ns as f64 + (point.ticks - last.ticks.min(point.ticks)) as f64 * rate.ns_per_tick;
        let allowed = BREAK_NS + (point.ns - last.ns.min(point.ns)) / BREAK_PER_NS;
        (expected - point.ns as f64).abs() > allowed as f64
    }

    /// Ends the line: everything is forgotten, and the next segment is the operating system's.
    fn give_up(&mut self) -> Outcome {
        self.windows.clear();
        self.rate = None;
        self.last = None;
        self.last_sample = None;
        self.width_min = u64::MAX;
        self.wide_in_a_row = 0;
        self.phase_ns = 0.0;
        self.entering = false;
        self.drift_from = None;
        if self.current.mode == Mode::Os {
            return Outcome::Keep;
        }
        self.tally.fallbacks += 1;
        self.epoch = self.epoch.wrapping_add(1);
        Outcome::Publish
    }

    /// The segment to publish now, with the counter at `ticks`. Made right before the publication, and made
    /// again if the thread was interrupted in between.
    pub(crate) fn segment(&self, ticks: u64) -> Segment {
        let wall_offset_ns = self.wall.map_or(self.current.wall_offset_ns, |(offset, _)| offset);
        let (Some(rate), Some(last), Some(sample)) = (self.rate, self.last, self.last_sample) else {
            return Segment::os(self.floor(ticks), wall_offset_ns, self.epoch);
        };
        if self.current.mode == Mode::Os && !self.entering {
            return Segment::os(self.current.base_ns, wall_offset_ns, self.epoch);
        }
        let age = ticks.wrapping_sub(self.current.base_ticks);
        let goes_on = self.current.mode == Mode::Counter && age < self.current.max_age;
        let since_sample = ticks.saturating_sub(sample.ticks_before) as f64 * rate.ns_per_tick;
        let (base_ns, phase_ns) = if goes_on {
            (self.current.ceiling_at(age, self.shift), self.phase_ns)
        } else {
            // Readers switch from the operating system's clock: start at or above anything that it can have returned.
            let shown = sample.monotonic_ns.saturating_add((since_sample * (1.0 + rate.err_ppb * 1e-9)).ceil() as u64);
            let base_ns = super::reading::floored(&self.current, ticks, self.shift, shown + 1);
            let truth = last.ns as f64 + ticks.saturating_sub(last.ticks) as f64 * rate.ns_per_tick;
            (base_ns, truth - base_ns as f64)
        };
        let slewed = 1.0 + (phase_ns / CORRECTION_NS as f64).clamp(-SLEW_MAX, SLEW_MAX);
        let ticks_in = |ns: u64| (ns as f64 / rate.ns_per_tick) as u64;
        let drift_ppb = rate.err_ppb.ceil().min(f64::from(u16::MAX)) as u16;
        let since_sample_err = since_sample * rate.err_ppb * 1e-9;
        Segment {
            base_ticks: ticks,
            base_ns,
            rate: fixed_point(rate.ns_per_tick, self.shift),
            rate_slewed: fixed_point(rate.ns_per_tick * slewed, self.shift),
            slew_ticks: ticks_in(CORRECTION_NS),
            max_age: ticks_in(AGE_NS_MAX),
            wall_offset_ns,
            // Two nanoseconds: the line and the reference are both whole numbers.
            // And a reader's counter may have been at its value for up to a tick.
            err_ns: (phase_ns.abs()
                + last.half_width_ns
                + since_sample_err
                + rate.ns_per_tick
                + self.cpu_offset_ns as f64
                + 2.0)
                .ceil()
                .min(f64::from(u32::MAX)) as u32,
            drift_ppb,
            epoch: self.epoch,
            mode: Mode::Counter,
        }
    }

    /// The value below which no reading may fall once the line ends at `ticks`.
    fn floor(&self, ticks: u64) -> u64 {
        match self.current.mode {
            Mode::Os => self.current.base_ns,
            Mode::Counter => {
                // A counter that went back had returned the true time, within its error; one that runs on has returned
                // the line, up to its end. After the end, readers have already used the system's clock.
                let age = ticks.wrapping_sub(self.current.base_ticks);
                let age = if age < self.current.max_age { age } else { 0 };
                let shown = self.seen_ns.saturating_add(self.current.err_after(AGE_NS_MAX));
                self.current.ceiling_at(age, self.shift).max(shown).saturating_add(FLOOR_MARGIN_NS)
            }
        }
    }

    /// Reports that `segment` is published and that the counter, read afterwards, was at `ticks_after`.
    ///
    /// Between the segment's start and its publication, readers were on the old line. If the new one is slower, the
    /// gap between them is how far a reader may have seen time go back: it is counted, and closed by the segment that
    /// this returns, which must be published at once.
    pub(crate) fn published(&mut self, segment: Segment, ticks_after: u64) -> Option<Segment> {
        let old = std::mem::replace(&mut self.current, segment);
        let (Some(before), Some(now)) = (old.line(ticks_after, self.shift), segment.line(ticks_after, self.shift))
        else {
            return None;
        };
        if old.mode != Mode::Counter || segment.mode != Mode::Counter {
            return None;
        }
        let held_up = ticks_after.wrapping_sub(segment.base_ticks) as f64;
        let slower = (old.rate_slewed.max(old.rate) as f64 - segment.rate_slewed as f64) / 2_f64.powi(64);
        let gap_ns = held_up * f64::from(1_u32 << self.shift) * slower;
        if gap_ns < STEP_SEEN_NS || before <= now {
            return None;
        }
        self.tally.backsteps += 1;
        Some(Segment {
            base_ns: before + 1,
            base_ticks: ticks_after,
            err_ns: segment.err_ns + (before - now) as u32 + 1,
            ..segment
        })
    }
}

/// How far ticks are shifted left so that a shifted tick is less than one nanosecond.
fn shift_for(ns_per_tick: f64) -> u32 {
    let mut shift = 0;
    while ns_per_tick / f64::from(1_u32 << shift) >= 0.99 && shift < 20 {
        shift += 1;
    }
    shift
}

/// As 0.64 fixed point; the rate of a shifted tick is below one, so this fits.
fn fixed_point(ns_per_tick: f64, shift: u32) -> u64 {
    // A cast from float to integer saturates, so no input wraps.
    (ns_per_tick / f64::from(1_u32 << shift) * 2_f64.powi(64)) as u64
}
