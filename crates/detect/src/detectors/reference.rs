//! What is usual: the tolerated mean of a share, learned on line over an hour, and one for each hour of the week.
//!
//! tau = max(1.2 mean, 1.05 (largest mean of 60 cells, each capped at their 99th percentile, + the mean of what was
//! capped away)): a series that wobbles for a minute at a time has a tau above its wobble, and lone bad cells raise it
//! by no more than their own share.

/// Cells of a block: a minute of one-second cells.
pub(crate) const BLOCK: u32 = 60;
const BLOCK_CELLS: f32 = 60.0;

/// See [`Learner::tolerated_of_cells`].
const TOGETHER: f32 = 0.4;

/// See [`Learner::tolerated_of_cells`]; by chance it is 1 with a deviation of 0.17 over an hour.
const PAIRS: f32 = 2.0;

/// Learns a tolerated mean; 20 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Learner {
    sum: f32,
    away: f32,
    block: f32,
    block_max: f32,
    /// The 99th percentile of Y by stochastic approximation.
    cap: f32,
}

const _: () = assert!(size_of::<Learner>() == 20);

impl Learner {
    /// For a share whose mean is expected to be `nominal`.
    pub(crate) fn new(nominal: f32) -> Self {
        Self { cap: (nominal * 4.0).min(1.0), ..Self::default() }
    }

    pub(crate) fn push(&mut self, y: f32) {
        // One cell in a hundred is above: one step up corresponds to 99 steps down.
        self.cap = (self.cap * if y > self.cap { 1.219 } else { 0.998 }).clamp(1e-5, 1.0);
        let capped = y.min(self.cap);
        self.sum += y;
        self.away += y - capped;
        self.block += capped;
    }

    /// A minute is complete.
    pub(crate) fn close_block(&mut self) {
        self.block_max = self.block_max.max(self.block / BLOCK_CELLS);
        self.block = 0.0;
    }

    pub(crate) fn restart(&mut self) {
        *self = Self { cap: self.cap, ..Self::default() };
    }

    /// Mean of Y.
    pub(crate) fn mean(&self, cells: f32) -> f32 {
        self.sum / cells
    }

    /// The tolerated mean.
    pub(crate) fn tolerated(&self, cells: f32) -> f32 {
        let away = self.away / cells;
        (1.2 * self.mean(cells)).max(1.05 * (self.block_max + away))
    }

    /// As [`Learner::push`], of cells that are bad (1) or not (0): here `away` counts the bad that follow a bad one,
    /// and `cap` is the cell before.
    pub(crate) fn push_cell(&mut self, y: f32) {
        self.sum += y;
        self.away += y * self.cap;
        self.cap = y;
        self.block += y;
    }

    /// The tolerated mean of cells that are either bad or not, with one in ten bad. If bad ones are clustered, more
    /// than [`TOGETHER`] of a minute or consecutive [`PAIRS`] times as often as by chance, they are not independent
    /// enough to bet on, and all are tolerated. Independent ones fill 22 % of the worst of 60 minutes.
    pub(crate) fn tolerated_of_cells(&self, cells: f32) -> f32 {
        let (mean, pairs) = (self.mean(cells), self.away / cells);
        let is_dependent = self.block_max > TOGETHER || pairs > PAIRS * mean * mean || mean < 0.03;
        if is_dependent { 1.0 } else { (1.5 * self.block_max).max(0.33) }
    }
}

/// Hours of a week that are distinguished: 24 of Monday to Friday, 24 of Saturday and Sunday.
const HOURS: usize = 48;
/// Levels of an hour.
const WIDTH: usize = 6;
/// Steps of a code are 2^(1/4): a tolerated mean is rounded up by 9 % in the mean.
const STEPS: f32 = 4.0;
/// Code 1 is 2^-10, about [`super::shape::TAU_MIN`]; code 41 is 1.
const CODE_ONE: f32 = 41.0;
/// Codes above the base that an hour can hold; 0 means unknown. 15 codes are a factor of 11 between quiet and busy
/// hours: if they differ by more, the quiet ones tolerate a little more than necessary.
const ABOVE_MAX: u8 = 15;

/// Tolerated means by hour of the week: four bits each above the base of their level, 150 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hours {
    /// One below the lowest code of each level.
    base: [u8; WIDTH],
    codes: [[u8; WIDTH / 2]; HOURS],
}

const _: () = assert!(size_of::<Hours>() == 150);

impl Default for Hours {
    fn default() -> Self {
        Self { base: [u8::MAX; WIDTH], codes: [[0; WIDTH / 2]; HOURS] }
    }
}

impl Hours {
    fn place(hour: i32) -> usize {
        let of_day = usize::try_from(hour.rem_euclid(24)).expect("below 24");
        // 1970 began on a Thursday.
        let is_weekend = (hour.div_euclid(24) + 3).rem_euclid(7) >= 5;
        of_day + if is_weekend { 24 } else { 0 }
    }

    fn above(&self, place: usize, level: usize) -> u8 {
        (self.codes[place][level / 2] >> (4 * (level % 2))) & ABOVE_MAX
    }

    fn set(&mut self, place: usize, level: usize, above: u8) {
        let (byte, shift) = (&mut self.codes[place][level / 2], 4 * (level % 2));
        *byte = *byte & !(ABOVE_MAX << shift) | above << shift;
    }

    /// The code of a level in an hour, if known.
    fn code(&self, place: usize, level: usize) -> Option<u8> {
        let above = self.above(place, level);
        (above > 0).then(|| self.base[level] + above)
    }

    /// Moves the base of a level so that its hours above the new one fit; those below get its lowest code.
    fn rebase(&mut self, level: usize, base: u8) {
        for place in 0..HOURS {
            if let Some(code) = self.code(place, level) {
                self.set(place, level, code.saturating_sub(base).clamp(1, ABOVE_MAX));
            }
        }
        self.base[level] = base;
    }

    /// Records the hour since 1970; known values decrease by at most one step.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 1..=41")]
    pub(crate) fn put(&mut self, hour: i32, tolerated: &[f32; WIDTH]) {
        let place = Self::place(hour);
        for (level, tau) in tolerated.iter().enumerate() {
            let measured = (tau.log2() * STEPS + CODE_ONE).ceil().clamp(1.0, CODE_ONE) as u8;
            let code = measured.max(self.code(place, level).map_or(0, |code| code - 1));
            let highest = (0..HOURS).filter_map(|place| self.code(place, level)).max().unwrap_or(0).max(code);
            // As low as the highest code allows.
            let least = highest.saturating_sub(ABOVE_MAX);
            let base = self.base[level].min(code - 1).max(least);
            if base != self.base[level] {
                // Nothing is known below the existing base: it moves down without loss while there is room.
                self.rebase(level, base);
            }
            self.set(place, level, code.saturating_sub(base).clamp(1, ABOVE_MAX));
        }
    }

    /// The known values of that hour.
    pub(crate) fn get(&self, hour: i32) -> Option<[f32; WIDTH]> {
        let place = Self::place(hour);
        let mut known = [0.0; WIDTH];
        for (level, tau) in known.iter_mut().enumerate() {
            *tau = ((f32::from(self.code(place, level)?) - CODE_ONE) / STEPS).exp2();
        }
        Some(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_known_by_its_place_in_the_week() {
        let mut hours = Hours::default();
        // 2026-11-23 12:00 UTC is a Monday.
        let monday_noon = 498_732;
        hours.put(monday_noon, &[0.011, 0.5, 0.1, 0.01, 0.9, 1.0]);
        assert_eq!(hours.get(monday_noon + 24), hours.get(monday_noon), "Tuesday as Monday");
        assert_eq!(hours.get(monday_noon + 5 * 24), None, "Saturday");
        assert_eq!(hours.get(monday_noon + 1), None);
        let known = hours.get(monday_noon + 7 * 24).expect("a week later");
        for (tau, known) in [0.011_f32, 0.5, 0.1, 0.01, 0.9, 1.0].into_iter().zip(known) {
            assert!(known >= tau * 0.999 && known <= tau * 1.2, "{tau} is known as {known}");
        }
        // A quiet week shrinks it by one step.
        hours.put(monday_noon, &[0.002; 6]);
        assert!(hours.get(monday_noon).unwrap()[0] > 0.009);
    }

    #[test]
    fn hours_that_differ_by_more_than_there_is_room_for_tolerate_more() {
        let mut hours = Hours::default();
        let first = 498_732;
        // A quiet hour, a busy one within a factor of 11, and one beyond.
        for (hour, tau) in [(first, 0.01_f32), (first + 1, 0.1), (first + 2, 1.0)] {
            hours.put(hour, &[tau; 6]);
            let known = hours.get(hour).expect("just put")[0];
            assert!(known >= tau * 0.999 && known <= tau * 1.2, "{tau} is known as {known}");
        }
        let quiet = hours.get(first).expect("known")[0];
        assert!((0.08..0.12).contains(&quiet), "raised to what there is room for: {quiet}");
        let busy = hours.get(first + 1).expect("known")[0];
        assert!((0.1..0.12).contains(&busy), "{busy}");
    }

    #[test]
    fn lone_bad_cells_raise_the_tolerance_by_their_share_alone() {
        let mut quiet = Learner::new(0.01);
        let mut with_pauses = quiet;
        let hour = 3_600.0;
        let minute = |at: i32, learner: &mut Learner| {
            if at % 60 == 59 {
                learner.close_block();
            }
        };
        for at in 0..3_600 {
            let y = if at % 2 == 0 { 0.0 } else { 0.02 };
            quiet.push(y);
            with_pauses.push(if at % 1_000 == 999 { 1.0 } else { y });
            minute(at, &mut quiet);
            minute(at, &mut with_pauses);
        }
        assert!((quiet.mean(hour) - 0.01).abs() < 1e-4);
        assert!(quiet.tolerated(hour) < 0.013, "{}", quiet.tolerated(hour));
        assert!(with_pauses.tolerated(hour) < 0.016, "{}", with_pauses.tolerated(hour));
        // A wobble of minutes is tolerated as a whole.
        let mut wobble = Learner::new(0.01);
        for at in 0..3_600 {
            wobble.push(if at / 60 % 2 == 0 { 0.0 } else { 0.02 });
            minute(at, &mut wobble);
        }
        assert!(wobble.tolerated(hour) >= 0.02, "{}", wobble.tolerated(hour));
    }
}
