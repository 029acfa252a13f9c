//! Whether the answers of a connection that is seen from its middle may belong to requests from before the capture.
//!
//! Suppose they do: the server owes answers although nothing seems to be open. Each turn, the client speaks some time
//! after the server's last byte (the *pause*), and the server some time after the same byte (the *interval*). That
//! answer is to an older request, so pause and interval have nothing to do with each other; and yet no answer came
//! within a pause, or there would have been one too many. How likely is that? Of all ways to give the `n` intervals to
//! the `n` pauses, the share in which each interval is at least its pause:
//!
//! `p = Π (m(i) − i) / (n − i)`, for `i` from 0 to `n − 1`,
//!
//! where `m(i)` is the number of intervals that are no shorter than the pause that is the `i`th from the longest. It is
//! exact for intervals in any order (a permutation test). Times are in bins of a quarter of an octave here, and an
//! interval counts as no shorter than a pause in its bin, which makes `p` greater, never smaller.
//!
//! A client that thinks for as long each time shows nothing: `p` stays 1. One that hesitates now and then while no
//! answer comes, or whose server answers soon after it speaks whenever it does, does not pipeline.

use crate::span::Nanos;

/// With this probability or less, no older responses are owed: one in a million.
const REFUTED: f64 = 1e-6;

/// Quarters of octaves from 1 µs to 34 s.
const BINS: usize = 100;

/// Turns after which it starts over: sums stay exact in 16 bits, and a client may change its behaviour.
const MAX_TURNS: u16 = 16_384;

/// Turns up to which the probability is computed each time; after that every sixteenth time, because it takes as many
/// steps.
const FEW: u16 = 64;

/// Counts the turns of a connection.
#[derive(Debug)]
pub(crate) struct ShiftTest {
    pauses: [u16; BINS],
    intervals: [u16; BINS],
    turns: u16,
    /// The client has spoken: when the server's last byte was before that, and how many bytes the client had sent by
    /// then.
    turn: Option<(Nanos, Nanos, u64)>,
    is_refuted: bool,
}

const _: () = assert!(std::mem::size_of::<ShiftTest>() <= 448);

impl Default for ShiftTest {
    fn default() -> Self {
        Self { pauses: [0; BINS], intervals: [0; BINS], turns: 0, turn: None, is_refuted: false }
    }
}

impl ShiftTest {
    /// The client sends at `at`, when nothing seems to be open; `last` is when the server sent. `sent` bytes of the
    /// client came before.
    pub(crate) fn client_spoke(&mut self, last: Nanos, at: Nanos, sent: u64) {
        self.turn.get_or_insert((last, at, sent));
    }

    /// The server sends at `at` and has received `acked` bytes of the client. Returns whether it may have received the
    /// request: if not, its response is to an older one.
    pub(crate) fn server_spoke(&mut self, at: Nanos, acked: Option<u64>) -> bool {
        let Some((last, spoke, sent)) = self.turn.take() else { return true };
        if acked.is_some_and(|acked| acked <= sent) {
            return false;
        }
        let (pause, interval) = (bin(spoke - last), bin(at - last));
        // A server's segment may have been captured before the client's, and waited for it.
        if pause <= interval {
            self.pauses[pause] += 1;
            self.intervals[interval] += 1;
            self.turns += 1;
            self.judge();
        }
        true
    }

    /// Whether it is certain that no older responses are owed.
    pub(crate) fn is_refuted(&self) -> bool {
        self.is_refuted
    }

    fn judge(&mut self) {
        if self.turns > FEW && !self.turns.is_multiple_of(16) {
            return;
        }
        self.is_refuted |= self.probability() <= REFUTED;
        if self.turns >= MAX_TURNS {
            *self = Self { is_refuted: self.is_refuted, ..Self::default() };
        }
    }

    /// See the module's documentation; at most [`REFUTED`] once it is refuted.
    fn probability(&self) -> f64 {
        let (mut longer, mut given, mut probability) = (0_u16, 0_u16, 1.0);
        for bin in (0..BINS).rev() {
            longer += self.intervals[bin];
            for _ in 0..self.pauses[bin] {
                assert!(longer > given, "each interval is at least its pause: {longer} for {given}");
                probability *= f64::from(longer - given) / f64::from(self.turns - given);
                given += 1;
            }
            if probability <= REFUTED {
                break;
            }
        }
        probability
    }
}

/// The quarter of an octave that a time is in.
fn bin(nanos: Nanos) -> usize {
    let micros_1024 = u64::try_from(nanos).unwrap_or(0) >> 8;
    // Four of these are 1.024 µs: below that all is one.
    let value = micros_1024.max(4);
    let octave = value.ilog2();
    let quarter = value >> (octave - 2) & 3;
    let bin = u64::from(octave - 2) * 4 + quarter;
    usize::try_from(bin).map_or(BINS - 1, |bin| bin.min(BINS - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(of: &[(Nanos, Nanos)]) -> ShiftTest {
        let mut test = ShiftTest::default();
        for (pause, interval) in of {
            test.client_spoke(0, *pause, 0);
            assert!(test.server_spoke(*interval, Some(1)));
        }
        test
    }

    #[test]
    fn bins_rise_by_quarters_of_octaves() {
        assert_eq!([0, 1_000, 1_279, 1_280, 2_047, 2_048].map(bin), [0, 0, 0, 1, 3, 4]);
        assert_eq!([i64::MAX, -5].map(bin), [BINS - 1, 0]);
        let mut last = 0;
        for nanos in (0..1_000_000).step_by(50) {
            assert!(bin(nanos) == last || bin(nanos) == last + 1);
            last = bin(nanos);
        }
    }

    /// Counts the ways one by one.
    fn share(pauses: &[Nanos], intervals: &[Nanos]) -> (u32, u32) {
        let Some((pause, pauses)) = pauses.split_first() else { return (1, 1) };
        let (mut fit, mut all) = (0, 0);
        for (index, interval) in intervals.iter().enumerate() {
            let rest = [&intervals[..index], &intervals[index + 1..]].concat();
            let (below, total) = share(pauses, &rest);
            fit += if interval >= pause { below } else { 0 };
            all += total;
        }
        (fit, all)
    }

    #[test]
    fn the_probability_is_the_share_of_ways() {
        let mut state = 5_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..200 {
            // Powers of two, each alone in its bin.
            let of: Vec<(Nanos, Nanos)> = (0..1 + random(6))
                .map(|_| {
                    let pause = random(8);
                    (1_024 << pause, 1_024 << (pause + random(4)))
                })
                .collect();
            let (pauses, intervals): (Vec<_>, Vec<_>) = of.iter().copied().unzip();
            let (fit, all) = share(&pauses, &intervals);
            let got = turns(&of).probability();
            assert!((got - f64::from(fit) / f64::from(all)).abs() < 1e-12, "{of:?}: {got}, {fit} of {all}");
        }
    }

    #[test]
    fn the_same_pause_each_time_shows_nothing() {
        let of: Vec<(Nanos, Nanos)> = (0..40_000).map(|turn| (12_000, 14_000 + turn % 1_000 * 500)).collect();
        assert!(!turns(&of).is_refuted());
    }

    #[test]
    fn ten_pauses_of_any_length_with_an_answer_soon_after_each_are_proof() {
        let of: Vec<(Nanos, Nanos)> = (0..10).map(|turn| (1_000_000 << turn, (1_000_000 << turn) + 50_000)).collect();
        assert!(turns(&of).is_refuted());
        assert!(!turns(&of[1..]).is_refuted());
    }

    #[test]
    fn an_answer_that_knows_nothing_of_the_request_is_to_an_older_one() {
        let mut test = ShiftTest::default();
        test.client_spoke(0, 10, 100);
        assert!(!test.server_spoke(20, Some(100)));
        test.client_spoke(0, 10, 100);
        assert!(test.server_spoke(20, Some(101)));
    }
}
