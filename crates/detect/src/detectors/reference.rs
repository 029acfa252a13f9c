//! What is usual: the tolerated mean of a share, learned on line over an hour, and one for each hour of the week.
//!
//! tau = max(1.2 mean, 1.05 (largest mean of 60 cells, each capped at their 99th percentile, + the mean of what was capped
//! away)): a series that wobbles for a minute at a time has a tau above its wobble, and lone bad cells raise it by no more
//! than their own share.

/// Cells of a block: a minute of one-second cells.
const BLOCK: u8 = 60;

/// See [`Learner::tolerated_of_cells`].
const TOGETHER: f32 = 0.4;

/// See [`Learner::tolerated_of_cells`]; by chance it is 1 with a deviation of 0.17 over an hour.
const PAIRS: f32 = 2.0;

/// Learns a tolerated mean; 24 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Learner {
    sum: f32,
    away: f32,
    block: f32,
    block_max: f32,
    /// The 99th percentile of Y by stochastic approximation.
    cap: f32,
    cells: u16,
    in_block: u8,
}

const _: () = assert!(size_of::<Learner>() == 24);

impl Learner {
    /// Of a share whose mean is expected to be `nominal`.
    pub(crate) fn new(nominal: f32) -> Self {
        Self { cap: (nominal * 4.0).min(1.0), ..Self::default() }
    }

    pub(crate) fn push(&mut self, y: f32) {
        // One cell in a hundred is above: 0.99 steps up for each 0.01 down.
        self.cap = (self.cap * if y > self.cap { 1.219 } else { 0.998 }).clamp(1e-5, 1.0);
        let capped = y.min(self.cap);
        self.sum += y;
        self.away += y - capped;
        self.block += capped;
        self.cells = self.cells.saturating_add(1);
        self.in_block += 1;
        if self.in_block == BLOCK {
            self.block_max = self.block_max.max(self.block / f32::from(BLOCK));
            (self.block, self.in_block) = (0.0, 0);
        }
    }

    pub(crate) fn restart(&mut self) {
        *self = Self { cap: self.cap, ..Self::default() };
    }

    /// Mean of Y.
    pub(crate) fn mean(&self) -> f32 {
        self.sum / f32::from(self.cells.max(1))
    }

    /// The mean that is tolerated.
    pub(crate) fn tolerated(&self) -> f32 {
        let away = self.away / f32::from(self.cells.max(1));
        (1.2 * self.mean()).max(1.05 * (self.block_max + away))
    }

    /// As [`Learner::push`], of cells that are bad (1) or not (0): here `away` counts the bad that follow a bad one, and `cap` is the
    /// cell before.
    pub(crate) fn push_cell(&mut self, y: f32) {
        self.sum += y;
        self.away += y * self.cap;
        self.cap = y;
        self.block += y;
        self.cells = self.cells.saturating_add(1);
        self.in_block += 1;
        if self.in_block == BLOCK {
            self.block_max = self.block_max.max(self.block / f32::from(BLOCK));
            (self.block, self.in_block) = (0.0, 0);
        }
    }

    /// The mean that is tolerated of cells that are bad or not, one in ten of which are. When bad ones come together, more than
    /// [`TOGETHER`] of a minute or after each other [`PAIRS`] times as often as by chance, they are not independent enough to bet
    /// on, and all are tolerated. Independent ones fill 22 % of the worst of 60 minutes.
    pub(crate) fn tolerated_of_cells(&self) -> f32 {
        let (mean, pairs) = (self.mean(), self.away / f32::from(self.cells.max(1)));
        let is_dependent = self.block_max > TOGETHER || pairs > PAIRS * mean * mean || mean < 0.03;
        if is_dependent { 1.0 } else { (1.5 * self.block_max).max(0.33) }
    }
}

/// Hours of a week that are told apart: 24 of Monday to Friday, 24 of Saturday, 24 of Sunday.
const HOURS: usize = 72;
/// Steps of a code are 2^(1/4): a tolerated mean is rounded up by 9 % in the mean.
const STEPS: f32 = 4.0;
/// Code 1 is 2^-10, about [`super::shape::TAU_MIN`]; code 41 is 1. 0 is not known.
const CODE_ONE: f32 = 41.0;

/// Tolerated means by hour of the week: one byte each, 432 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hours([[u8; 6]; HOURS]);

impl Default for Hours {
    fn default() -> Self {
        Self([[0; 6]; HOURS])
    }
}

impl Hours {
    fn place(hour: i32) -> usize {
        let of_day = usize::try_from(hour.rem_euclid(24)).expect("below 24");
        // 1970 began on a Thursday.
        match (hour.div_euclid(24) + 3).rem_euclid(7) {
            5 => 24 + of_day,
            6 => 48 + of_day,
            _ => of_day,
        }
    }

    /// Remembers for the hour since 1970; what was known shrinks by one step at the most.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 1..=41")]
    pub(crate) fn put(&mut self, hour: i32, tolerated: &[f32; 6]) {
        for (code, tau) in self.0[Self::place(hour)].iter_mut().zip(tolerated) {
            let measured = (tau.log2() * STEPS + CODE_ONE).ceil().clamp(1.0, CODE_ONE) as u8;
            *code = measured.max(code.saturating_sub(1));
        }
    }

    /// What is known of that hour.
    pub(crate) fn get(&self, hour: i32) -> Option<[f32; 6]> {
        let codes = &self.0[Self::place(hour)];
        codes.iter().all(|code| *code > 0).then(|| codes.map(|code| ((f32::from(code) - CODE_ONE) / STEPS).exp2()))
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
    fn lone_bad_cells_raise_the_tolerance_by_their_share_alone() {
        let mut quiet = Learner::new(0.01);
        let mut with_pauses = quiet;
        for at in 0..3_600 {
            let y = if at % 2 == 0 { 0.0 } else { 0.02 };
            quiet.push(y);
            with_pauses.push(if at % 1_000 == 999 { 1.0 } else { y });
        }
        assert!((quiet.mean() - 0.01).abs() < 1e-4);
        assert!(quiet.tolerated() < 0.013, "{}", quiet.tolerated());
        assert!(with_pauses.tolerated() < 0.016, "{}", with_pauses.tolerated());
        // A wobble of minutes is tolerated as a whole.
        let mut wobble = Learner::new(0.01);
        (0..3_600).for_each(|at| wobble.push(if at / 60 % 2 == 0 { 0.0 } else { 0.02 }));
        assert!(wobble.tolerated() >= 0.02, "{}", wobble.tolerated());
    }
}
