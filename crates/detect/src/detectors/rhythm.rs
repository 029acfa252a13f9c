//! Instability: gaps that return with a fixed period, of a series, a source or a delivery.
//!
//! Two tests over the *onsets* of bad seconds (only the first second of a run counts, so that one long outage is one
//! event):
//! - **Folding**: the onsets of the last hour are folded at the 41 divisors of 3600 s from 3 s to 1200 s. With k
//!   onsets, of which the fullest window of w in {1, 2} phases holds m, p = 41 * 2 * P * P(Binomial(k, w/P) >= m). It
//!   reports at p < 1e-6 over at least three cycles.
//! - **Gap lock**, for periods that do not divide an hour: the last m gaps are within 2 s of their median G, and
//!   (m - 1) * log10(e G / 4) >= 7.
//!
//! Invariants: memory is [`Rhythm`] plus 456 bytes while the last hour had an onset; an onset costs at most one fold
//! over the onsets of an hour, and above 60 of them one fold a minute.

use ogive_model::{Ms, WallMs};

use super::finding::{Finding, FindingKind};
use super::instant::{Clock24, Span};
use super::tail::binomial_tail_ln;

/// Seconds that are folded.
const HOUR: i64 = 3_600;
/// Above this, a series is folded once a minute: 60 onsets times 41 periods are some 10 us.
const FOLD_EACH_MAX: u32 = 60;
/// ln(1e-6).
const P_LN_MAX: f64 = -13.815_510_557_964_274;
/// Onsets that the gap lock remembers.
const ONSETS: usize = 16;
/// How far a gap may be from the median gap.
const JITTER: Ms = Ms::from_secs(2);
/// Decades of evidence that the gap lock needs.
const LOCK_DECADES: f64 = 7.0;
/// A lock is over when this many expected instants passed without a gap.
const MISSED_MAX: i64 = 3;

/// A detected rhythm: gaps recur every `period`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lock {
    /// From one gap to the next.
    pub period: Ms,
    /// The last onset.
    pub last: WallMs,
    /// The first of the counted onsets.
    pub first: WallMs,
    /// Mean width of the gaps, milliseconds.
    pub width_ms: f64,
    /// Gaps at the phase, of all gaps.
    pub hits: u32,
    /// Onsets that were judged.
    pub onsets: u32,
    /// log10 of the evidence: -p for the folding, decades for the gap lock.
    pub decades: f64,
}

/// Finds gaps that return with a fixed period.
#[derive(Clone, Debug, Default)]
pub struct Rhythm {
    /// The last bad second, whether an onset or not; 0 is none.
    last_bad_s: i64,
    /// The last onsets, the newest at `next - 1`; 0 is none.
    onsets: [WallMs; ONSETS],
    next: u8,
    /// One bit a second of the last hour that had an onset.
    ring: Option<Box<Ring>>,
    folded_s: i64,
    width_ms: f32,
    widths: u32,
    lock: Option<Lock>,
}

#[derive(Clone, Debug)]
struct Ring {
    bits: [u64; HOUR as usize / 64 + 1],
    /// The second up to which bits are of the last hour.
    until_s: i64,
    count: u32,
}

impl Ring {
    fn new(second: i64) -> Box<Self> {
        Box::new(Self { bits: [0; HOUR as usize / 64 + 1], until_s: second, count: 0 })
    }

    fn place(second: i64) -> (usize, u64) {
        let at = usize::try_from(second.rem_euclid(HOUR)).expect("below 3600");
        (at / 64, 1 << (at % 64))
    }

    /// Forgets what is an hour old at `second`.
    fn pass(&mut self, second: i64) {
        if second - self.until_s >= HOUR {
            (self.bits, self.count) = ([0; _], 0);
        } else {
            for old in self.until_s + 1..=second {
                let (word, bit) = Self::place(old);
                self.count -= u32::from(self.bits[word] & bit != 0);
                self.bits[word] &= !bit;
            }
        }
        self.until_s = self.until_s.max(second);
    }

    fn set(&mut self, second: i64) {
        let (word, bit) = Self::place(second);
        self.count += u32::from(self.bits[word] & bit == 0);
        self.bits[word] |= bit;
    }

    /// The seconds that had an onset, ascending.
    fn seconds(&self) -> Vec<i64> {
        let begin = self.until_s - HOUR + 1;
        let is_set = |second: &i64| {
            let (word, bit) = Self::place(*second);
            self.bits[word] & bit != 0
        };
        (begin..=self.until_s).filter(is_set).collect()
    }
}

impl Rhythm {
    /// A gap (or a bad second) began at `onset` and was `width_ms` wide. Gaps come in order of time; one that begins
    /// in the second after another's belongs to the same run.
    pub fn gap(&mut self, onset: WallMs, width_ms: f64) -> Option<Finding> {
        let second = onset.to_secs();
        #[expect(clippy::cast_possible_truncation, reason = "a run of more than 2^63 ms is none")]
        let end_s = (onset.0 as f64 + width_ms.max(0.0)).min(4e18) as i64 / 1_000;
        let is_onset = second > self.last_bad_s + 1 || self.last_bad_s == 0;
        self.last_bad_s = self.last_bad_s.max(end_s).max(second);
        if !is_onset {
            return None;
        }
        self.widths = self.widths.saturating_add(1);
        #[expect(clippy::cast_possible_truncation, reason = "a mean of widths")]
        {
            self.width_ms += (width_ms as f32 - self.width_ms) / self.widths.min(ONSETS as u32) as f32;
        }
        self.onsets[usize::from(self.next) % ONSETS] = onset;
        self.next = if usize::from(self.next) + 1 < 2 * ONSETS { self.next + 1 } else { ONSETS as u8 };
        let ring = self.ring.get_or_insert_with(|| Ring::new(second));
        ring.pass(second);
        ring.set(second);
        self.judge(onset)
    }

    /// Nothing bad happened up to `until`: memory of a quiet hour is freed, and a lock whose expected gaps did not
    /// occur is over.
    pub fn pass(&mut self, until: WallMs) -> Option<Finding> {
        let second = until.to_secs();
        if self.ring.as_ref().is_some_and(|ring| second - ring.until_s >= HOUR) {
            self.ring = None;
        }
        let lock = self.lock.filter(|lock| until - lock.last > lock.period * (MISSED_MAX + 1))?;
        self.lock = None;
        self.onsets = [WallMs::default(); ONSETS];
        self.next = 0;
        let missed =
            format!("{MISSED_MAX} expected ones did not come, the last came at {}", Clock24::from_ms(lock.last));
        let sentence = format!("gaps every {} are over: {missed}", Span::from_ms(lock.period));
        Some(Finding {
            kind: FindingKind::Instability,
            at: until,
            began: lock.first,
            is_active: false,
            sentence,
            evidence: evidence(&lock),
        })
    }

    /// The current lock.
    #[must_use]
    pub const fn lock(&self) -> Option<&Lock> {
        self.lock.as_ref()
    }

    /// Bytes that it occupies on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.ring.as_ref().map_or(0, |ring| size_of_val(&**ring))
    }

    fn judge(&mut self, onset: WallMs) -> Option<Finding> {
        if let Some(lock) = &mut self.lock {
            let passed = onset - lock.last;
            let cycles = (passed + lock.period / 2).0.div_euclid(lock.period.0);
            if (passed - lock.period * cycles).saturating_abs() <= JITTER {
                (lock.last, lock.hits, lock.width_ms) = (onset, lock.hits + 1, f64::from(self.width_ms));
            }
            lock.onsets += 1;
            return None;
        }
        let lock = self.folded(onset).or_else(|| self.gap_lock(onset))?;
        self.lock = Some(lock);
        Some(Finding {
            kind: FindingKind::Instability,
            at: onset,
            began: lock.first,
            is_active: true,
            sentence: sentence(&lock),
            evidence: evidence(&lock),
        })
    }

    /// The most surprising period that divides an hour.
    fn folded(&mut self, onset: WallMs) -> Option<Lock> {
        let second = onset.to_secs();
        let ring = self.ring.as_deref()?;
        if ring.count < 3 || (ring.count > FOLD_EACH_MAX && second - self.folded_s < 60) {
            return None;
        }
        self.folded_s = second;
        let seconds = ring.seconds();
        let best = divisors().filter_map(|period| fold(&seconds, period)).min_by(|a, b| a.p_ln.total_cmp(&b.p_ln))?;
        (best.p_ln < P_LN_MAX).then(|| Lock {
            period: Ms::from_secs(best.period),
            last: onset,
            first: WallMs(best.first * 1_000),
            width_ms: f64::from(self.width_ms),
            hits: best.hits,
            onsets: ring.count,
            decades: -best.p_ln / std::f64::consts::LN_10,
        })
    }

    /// The period of the last gaps, whatever it is.
    fn gap_lock(&self, onset: WallMs) -> Option<Lock> {
        let newest = (0..ONSETS).map(|back| self.onsets[(usize::from(self.next) + 2 * ONSETS - 1 - back) % ONSETS]);
        let newest: Vec<WallMs> = newest.take_while(|onset| onset.0 != 0).collect();
        let gaps: Vec<Ms> = newest.windows(2).map(|pair| pair[0] - pair[1]).collect();
        for count in (3..=gaps.len()).rev() {
            let mut sorted = gaps[..count].to_vec();
            sorted.sort_unstable();
            let median = sorted[count / 2];
            let is_locked = sorted.iter().all(|gap| (*gap - median).saturating_abs() <= JITTER);
            #[expect(clippy::cast_precision_loss, reason = "a gap in ms, and at most 15 of them")]
            let decades = (count - 1) as f64 * (std::f64::consts::E * median.0 as f64 / 4_000.0).log10();
            if is_locked && decades >= LOCK_DECADES {
                let hits = u32::try_from(count + 1).expect("at most 16");
                let first = newest[count];
                let period = (onset - first) / i64::from(hits - 1);
                let width_ms = f64::from(self.width_ms);
                return Some(Lock { period, last: onset, first, width_ms, hits, onsets: hits, decades });
            }
        }
        None
    }
}

struct Fold {
    period: i64,
    p_ln: f64,
    hits: u32,
    first: i64,
}

/// Divisors of an hour but 1 and 2, whose windows would be all phases, and the hour itself, which has no three cycles.
fn divisors() -> impl Iterator<Item = i64> {
    (3..=HOUR / 3).filter(|period| HOUR % period == 0)
}

/// Periods that are tried, times widths of the window for each: the best p is multiplied by this.
const TRIALS: f64 = 41.0 * 2.0;

fn fold(seconds: &[i64], period: i64) -> Option<Fold> {
    let phases = usize::try_from(period).expect("positive");
    let mut counts = vec![0_u32; phases];
    for second in seconds {
        counts[usize::try_from(second.rem_euclid(period)).expect("positive")] += 1;
    }
    let mut best: Option<Fold> = None;
    for width in [1_usize, 2] {
        let window = |at: usize| (0..width).map(|step| counts[(at + step) % phases]).sum::<u32>();
        let at = (0..phases).max_by_key(|at| window(*at)).expect("three phases or more");
        let hits = window(at);
        #[expect(clippy::cast_precision_loss, reason = "at most 3600")]
        let (share, trials) = (width as f64 / phases as f64, TRIALS * phases as f64);
        let p_ln = trials.ln() + binomial_tail_ln(hits, u32::try_from(seconds.len()).ok()?, share);
        let inside = |second: &&i64| {
            let phase = usize::try_from(second.rem_euclid(period)).expect("positive");
            (phase + phases - at) % phases < width
        };
        let mut hit = seconds.iter().filter(inside);
        let (first, last) = (*hit.next()?, hit.next_back().copied());
        let cycles = last.map_or(0, |last| (last - first) / period);
        if cycles >= 3 && best.as_ref().is_none_or(|best| p_ln < best.p_ln) {
            best = Some(Fold { period, p_ln, hits, first });
        }
    }
    best
}

fn sentence(lock: &Lock) -> String {
    let (second, hour) = (Ms::from_secs(1), Ms::from_secs(HOUR));
    let phase = if lock.period % second == Ms::ZERO && hour % lock.period == Ms::ZERO {
        let phase_s = lock.last.to_secs().rem_euclid(lock.period / second);
        if phase_s < 60 { format!(" at :{phase_s:02}") } else { format!(" at {}:{:02}", phase_s / 60, phase_s % 60) }
    } else {
        String::new()
    };
    let next = Clock24::from_ms(lock.last + lock.period);
    let width = Span::from_seconds(lock.width_ms / 1_000.0);
    let (hits, onsets) = (lock.hits, lock.onsets);
    let period = Span::from_ms(lock.period);
    format!(
        "a gap every {period}{phase}, {width}, next {next} ({hits} of the last {onsets} gaps, by chance 1 in 1e{:.0})",
        lock.decades
    )
}

fn evidence(lock: &Lock) -> Vec<(&'static str, f64)> {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
    let (period, next) = (lock.period.0 as f64, (lock.last + lock.period).0 as f64);
    vec![
        ("period_ms", period),
        ("width_ms", lock.width_ms),
        ("next_ms", next),
        ("hits", f64::from(lock.hits)),
        ("onsets", f64::from(lock.onsets)),
        ("decades", lock.decades),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-23 12:00:00 UTC.
    const NOON: i64 = 1_795_435_200_000;

    fn first(onsets: impl IntoIterator<Item = (i64, f64)>) -> Option<(usize, Finding)> {
        let mut rhythm = Rhythm::default();
        onsets.into_iter().enumerate().find_map(|(at, (onset, width))| Some((at, rhythm.gap(WallMs(onset), width)?)))
    }

    #[test]
    fn a_hole_of_a_second_and_a_half_each_minute_is_named_within_six_cycles() {
        // The fault this was built for: a crash loop cut a stream for 1.5 s each 60 s, and nobody saw it for half an
        // hour.
        let (cycles, finding) = first((0..20).map(|at| (NOON + 17_000 + at * 60_000, 1_500.0))).expect("found");
        assert!(cycles <= 6, "{cycles}");
        let text = &finding.sentence;
        assert!(text.starts_with("a gap every 60 s at :17, 1.5 s, next 12:0"), "{text}");
        assert!(text.contains(":17 ("), "{text}");
        assert_eq!(finding.began, WallMs(NOON + 17_000));
        assert_eq!(finding.number("period_ms"), Some(60_000.0));
    }

    #[test]
    fn periods_that_do_not_divide_an_hour_are_found_by_their_gaps() {
        for (period_ms, cycles_max) in [(61_700, 7), (17_300, 10), (1_000_500, 6)] {
            let (cycles, finding) = first((0..40).map(|at| (NOON + at * period_ms, 800.0))).expect("found");
            assert!(cycles <= cycles_max, "{period_ms} ms after {cycles} cycles");
            let found = finding.number("period_ms").unwrap();
            #[expect(clippy::cast_precision_loss, reason = "ms")]
            let error = (found - period_ms as f64).abs();
            assert!(error <= 60.0, "{period_ms} ms found as {found}");
        }
    }

    #[test]
    fn a_long_outage_is_one_event_however_many_seconds_it_has() {
        assert_eq!(first((0..3_000).map(|at| (NOON + at * 1_000, 1_000.0))), None);
        // A run that is reported second by second, and each minute another: one onset a minute.
        let runs = (0..10).flat_map(|run| (0..5).map(move |at| (NOON + run * 60_000 + at * 1_000, 1_000.0)));
        let (at, _) = first(runs).expect("found");
        assert_eq!(at % 5, 0, "found at an onset");
    }

    #[test]
    fn a_lock_ends_when_its_gaps_stay_away_and_memory_goes_with_a_quiet_hour() {
        let mut rhythm = Rhythm::default();
        let found = (0..8).filter_map(|at| rhythm.gap(WallMs(NOON + at * 60_000), 1_500.0)).count();
        assert_eq!(found, 1, "reported once");
        let last = WallMs(NOON + 7 * 60_000);
        assert_eq!(rhythm.pass(last + Ms(200_000)), None);
        let over = rhythm.pass(last + Ms(250_000)).expect("over");
        assert!(!over.is_active && over.sentence.contains("every 60 s are over"), "{}", over.sentence);
        assert!(rhythm.heap_bytes() > 0);
        rhythm.pass(last + Ms(3_700_000));
        assert_eq!(rhythm.heap_bytes(), 0);
    }

    #[test]
    fn every_period_is_counted_as_a_trial() {
        assert_eq!(divisors().count(), 41);
    }
}
