//! Change of shape: the share of operations above learned quantiles, judged by a bounded-mean e-detector.
//!
//! For each [`Level`] Y is a share of the cell: of operations above the reference's quantile .5, .9, .99 or .999, of
//! those below its quantile .5, or whether the cell's median is above the 90th percentile of medians. tau is the mean
//! of Y that is tolerated whatever came before. With bets lambda in {.25, .6, .95}/tau the Shiryaev-Roberts e-detector
//! (Shin, Ramdas,
//! Rinaldo: "E-detectors", 2022) is
//!
//! > e = 1 + lambda (Y - tau);  M <- (1 + M) e;  alarm when the weighted mean of all M >= A.
//!
//! Invariants: while every conditional mean of Y is at most tau, the mean number of cells to a false alarm is at least
//! [`ALARM`], whatever depends on whatever: 3.6e9 cells of a second are a million hours. One bad cell multiplies the
//! mean by at most 1/tau of its level, so that none can alarm alone (tau >= [`TAU_MIN`]).
//!
//! When it began: W <- max(1, W) e with lambda = .5/tau; the cell after the last one at which W was below 1.
//!
//! Failure: a wrong tau (a deployment, a rhythm that was not learned yet) voids the proof; findings are hints.

use ogive_hist::{Bins, Count, Histogram, Scheme};
use ogive_model::{Ms, WallMs};

use super::finding::{Finding, FindingKind};
use super::instant::Clock24;
use super::quantity::{Quantity, percent};
use super::reference::{BLOCK, Hours, Learner};

/// The guaranteed mean number of cells between false alarms: a million hours of one second.
pub const ALARM: f32 = 3.6e9;
/// The smallest tolerated mean: a single cell full of slow operations is then worth ln(1000) = 6.9 of the 22 nats of an
/// alarm.
pub const TAU_MIN: f32 = 1e-3;
/// Cells whose merged distribution gives the quantiles.
pub const WARM_CELLS: u16 = 600;
/// Operations above a quantile below which it is not known well enough to be judged.
const ABOVE_MIN: f64 = 20.0;
/// Cells of quiet after which a finding is over.
const QUIET_CELLS: u16 = 60;
/// A change that lasts this long is the new normal, and is learned again.
const ACCEPTED: Ms = Ms::from_secs(6 * 3_600);
/// What is usual is learned by the hour.
const HOUR: Ms = Ms::from_secs(3_600);

/// The weight of each level in the mean of all M: highest where faults of services show.
const WEIGHTS: [f32; LEVELS.len()] = [0.06, 0.2, 0.32, 0.28, 0.06, 0.08];
const BETS: [f32; 3] = [0.25, 0.6, 0.95];
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
/// A mean of 1: means are known to 1/65,535.
const MEAN_ONE: f32 = 65_535.0;
/// The bet of the statistic that determines when a change began.
const BEGIN_BET: f32 = 0.5;

/// The threshold of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Operations above the reference's quantile of that place in .5, .9, .99, .999.
    Above(u8),
    /// Operations below its median.
    Below,
    /// Cells whose median is above nine in ten medians of the reference: detects a small shift of everything. It is not
    /// judged where medians of the reference drifted together, which would look like a shift each time.
    Median,
}

/// Levels that are judged together.
pub const LEVELS: [Level; 6] =
    [Level::Above(0), Level::Above(1), Level::Above(2), Level::Above(3), Level::Below, Level::Median];

/// The level of whole cells.
const MEDIAN: usize = 5;

/// One Y a level.
pub type Shares = [f32; LEVELS.len()];

/// Where the shares are cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edges {
    /// The 90th percentile of the cells' medians.
    median_high: f32,
    quantiles: Cuts,
}

/// The quantiles .5, .9, .99 and .999; infinite, or one past the last index, where there are too few operations to
/// determine them.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cuts {
    /// The first decimal bins above them.
    Decimal([i32; 4]),
    /// Values.
    Values([f32; 4]),
}

/// Indexes of decimal bins are below it.
const DECIMAL_BINS: i32 = 23_040;

impl Edges {
    /// Decimal bins are found by their index later.
    fn new(quantiles: [f32; 4], median_high: f32, is_decimal: bool) -> Self {
        let cut = |edge: f32| {
            let (mut first, mut end) = (0, DECIMAL_BINS);
            while first < end {
                let middle = i32::midpoint(first, end);
                if Scheme::LogLinear10.bounds(true, middle).0 < f64::from(edge) {
                    first = middle + 1;
                } else {
                    end = middle;
                }
            }
            first
        };
        let is_positive = quantiles.iter().all(|edge| *edge > 0.0);
        let quantiles =
            if is_decimal && is_positive { Cuts::Decimal(quantiles.map(cut)) } else { Cuts::Values(quantiles) };
        Self { median_high, quantiles }
    }

    /// Nothing is above them.
    const fn none() -> Self {
        Self { median_high: f32::INFINITY, quantiles: Cuts::Values([f32::INFINITY; 4]) }
    }

    /// The shares of decimal bins of numbers above zero. One bin ends where the next begins, so indexes alone decide
    /// what is above: a tenth of the work of comparing the edges of each.
    fn decimal<C: Count>(&self, cuts: [i32; 4], bins: &Bins<C>) -> Option<Shares> {
        let (indexes, counts) = (bins.indexes(), bins.counts());
        let sum = |from: usize, to: usize| sum_of(&counts[from..to]);
        let (mut above, mut more, mut end) = ([0.0_f64; 4], 0.0, counts.len());
        for (above, cut) in above.iter_mut().zip(cuts).rev() {
            let from = indexes[..end].partition_point(|index| *index < cut);
            more += sum(from, end);
            (*above, end) = (more, from);
        }
        // The bin that ends at the edge of the median is neither above nor below it.
        let below_end = indexes[..end].partition_point(|index| *index < cuts[0] - 1);
        let below = sum(0, below_end);
        let total = below + sum(below_end, end) + more;
        (total > 0.0).then(|| self.shares_from(above, below, total, median_near(bins, below_end, below, total)))
    }

    fn shares_from(&self, above: [f64; 4], below: f64, total: f64, median: f32) -> Shares {
        #[expect(clippy::cast_possible_truncation, reason = "shares")]
        let share = |part: f64| (part / total) as f32;
        let is_high = f32::from(median > self.median_high);
        [share(above[0]), share(above[1]), share(above[2]), share(above[3]), share(below), is_high]
    }

    /// Values at the quantiles .5, .9, .99 and .999; infinite where there are too few operations to determine it.
    #[must_use]
    pub fn quantiles(&self) -> [f32; 4] {
        match self.quantiles {
            Cuts::Values(values) => values,
            Cuts::Decimal(cuts) => cuts.map(|index| {
                let edge = Scheme::LogLinear10.bounds(true, index).0;
                #[expect(clippy::cast_possible_truncation, reason = "rounded down")]
                if index < DECIMAL_BINS { lower_edge(edge as f32, edge) } else { f32::INFINITY }
            }),
        }
    }

    /// The 90th percentile of the cells' medians.
    #[must_use]
    pub const fn median_high(&self) -> f32 {
        self.median_high
    }

    /// The shares of a cell; None for a cell without samples.
    #[must_use]
    pub fn shares<C: Count>(&self, cell: &Histogram<C>) -> Option<Shares> {
        if let Cuts::Decimal(cuts) = self.quantiles
            && cell.scheme == Scheme::LogLinear10
            && cell.zero == C::ZERO
            && cell.negative.is_empty()
        {
            return self.decimal(cuts, &cell.positive);
        }
        self.shares_of_edges(cell)
    }

    /// As [`Edges::shares`], of any scheme.
    fn shares_of_edges<C: Count>(&self, cell: &Histogram<C>) -> Option<Shares> {
        let (mut above, mut below, mut total) = ([0.0_f64; 4], 0.0_f64, 0.0_f64);
        let quantiles = self.quantiles();
        for bucket in cell.buckets() {
            let count = bucket.count.to_f64();
            if count <= 0.0 {
                continue;
            }
            total += count;
            for (above, edge) in above.iter_mut().zip(quantiles) {
                *above += if bucket.lo >= f64::from(edge) { count } else { 0.0 };
            }
            below += if bucket.hi < f64::from(quantiles[0]) { count } else { 0.0 };
        }
        (total > 0.0).then(|| self.shares_from(above, below, total, median(cell)))
    }
}

/// Data that is collected before anything can be judged.
#[derive(Clone, Debug)]
struct Warm {
    merged: Histogram<f64>,
    medians: Vec<f32>,
}

impl Warm {
    fn edges(mut self) -> Edges {
        let total = self.merged.total().to_f64();
        let quantiles = QUANTILES.map(|q| {
            if total * (1.0 - q) < ABOVE_MIN {
                return f32::INFINITY;
            }
            let mut below = 0.0;
            // The upper edge of the bin that contains the quantile: the share above it is at most 1 - q.
            let holds = |bucket: &ogive_hist::Bucket<f64>| {
                below += bucket.count;
                below >= q * total
            };
            #[expect(clippy::cast_possible_truncation, reason = "rounded up below")]
            self.merged.buckets().find(holds).map_or(f32::INFINITY, |bucket| lower_edge(bucket.hi as f32, bucket.hi))
        });
        self.medians.sort_unstable_by(f32::total_cmp);
        let median_high = self.medians.get(self.medians.len() * 9 / 10).copied().unwrap_or(f32::INFINITY);
        Edges::new(quantiles, median_high, self.merged.scheme == Scheme::LogLinear10)
    }
}

/// The greatest 24-bit number that is not above `edge`, near `rounded`: a bin that begins at `edge` is above it.
fn lower_edge(rounded: f32, edge: f64) -> f32 {
    if f64::from(rounded) > edge { rounded.next_down() } else { rounded }
}

/// The e-detector of one level; 44 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Detector {
    m: [f32; BETS.len()],
    /// The statistic for the beginning.
    w: f32,
    /// Sum of Y of the cells since it was last reset.
    sum: f32,
    /// Tolerated mean; 0 before it is known.
    tau: f32,
    learner: Learner,
}

const _: () = assert!(size_of::<Detector>() == 44);

/// Judges the cells of one series.
#[derive(Clone, Debug)]
pub struct Shape {
    /// State that few series have at a time.
    phase: Option<Box<Phase>>,
    edges: Edges,
    detectors: [Detector; LEVELS.len()],
    /// Cells since each detector was last reset.
    since: [u16; LEVELS.len()],
    /// Means of the reference in parts of [`MEAN_ONE`].
    means: [u16; LEVELS.len()],
    hours: Option<Box<Hours>>,
    width_ms: u32,
    /// The hour that is being learned: its number since 1970.
    hour: i32,
    /// Cells that were judged since the learning of the hour began.
    cells: u32,
    is_clean: bool,
}

/// State that a series has for a while in addition to its detectors.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is boxed, so that a series has one pointer for it; few have a finding"
)]
enum Phase {
    /// Nothing can be judged yet.
    Warm(Warm),
    /// A finding.
    Active(Active),
}

#[derive(Clone, Copy, Debug)]
struct Active {
    level: u8,
    began: WallMs,
    quiet: u16,
    recent: f32,
}

impl Shape {
    /// Of a series whose cells are `width_ms` wide.
    #[must_use]
    pub fn new(width_ms: u32) -> Self {
        Self {
            phase: None,
            edges: Edges::none(),
            detectors: [Detector::default(); LEVELS.len()],
            since: [0; LEVELS.len()],
            means: [0; LEVELS.len()],
            hours: None,
            width_ms: width_ms.max(1),
            hour: 0,
            cells: 0,
            is_clean: true,
        }
    }

    /// With a known reference: shares are cut at `edges`.
    #[must_use]
    pub fn from_edges(width_ms: u32, edges: Edges) -> Self {
        let mut shape = Self::new(width_ms);
        shape.start(edges);
        shape
    }

    fn start(&mut self, edges: Edges) {
        (self.edges, self.cells) = (edges, 1);
        for (detector, level) in self.detectors.iter_mut().zip(LEVELS) {
            *detector = Detector { learner: Learner::new(level.nominal()), ..Detector::default() };
        }
    }

    /// Where the shares are cut, once known.
    #[must_use]
    pub fn edges(&self) -> Option<&Edges> {
        (self.cells > 0).then_some(&self.edges)
    }

    /// Whether it can judge already.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.detectors[0].tau > 0.0
    }

    /// When the active finding began.
    #[must_use]
    pub fn active_since(&self) -> Option<WallMs> {
        self.active().map(|active| active.began)
    }

    fn active(&self) -> Option<Active> {
        match self.phase.as_deref() {
            Some(Phase::Active(active)) => Some(*active),
            _ => None,
        }
    }

    /// Bytes that it occupies on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let phase = self.phase.as_deref().map_or(0, |phase| match phase {
            Phase::Warm(warm) => {
                let bins = warm.merged.positive.len() + warm.merged.negative.len();
                size_of::<Phase>() + warm.medians.capacity() * size_of::<f32>() + bins * 12
            }
            Phase::Active(_) => size_of::<Phase>(),
        });
        phase + self.hours.as_ref().map_or(0, |_| size_of::<Hours>())
    }

    /// Adds the cell that ended at `end`; cells come in order of time. `unit` is that of its values.
    pub fn cell<C: Count>(&mut self, end: WallMs, cell: &Histogram<C>, unit: &str) -> Option<Finding> {
        if self.cells == 0 {
            self.warm_up(cell);
            return None;
        }
        let shares = self.edges.shares(cell)?;
        self.shares(end, &shares, unit)
    }

    fn warm_up<C: Count>(&mut self, cell: &Histogram<C>) {
        if Edges::none().shares(cell).is_none() {
            return;
        }
        let begin = || Warm { merged: Histogram::new(cell.scheme.clone()), medians: Vec::new() };
        let phase = self.phase.get_or_insert_with(|| Box::new(Phase::Warm(begin())));
        let Phase::Warm(warm) = &mut **phase else { unreachable!("nothing is found before the edges are known") };
        let float = float(cell);
        if warm.merged.merge(&float).is_err() {
            // Its scheme changed: from here on.
            *warm = Warm { merged: float, medians: Vec::new() };
        }
        warm.medians.push(median(cell));
        if warm.medians.len() >= usize::from(WARM_CELLS) {
            let warm = std::mem::replace(warm, begin());
            self.phase = None;
            self.start(warm.edges());
        }
    }

    /// The shares of the cell that ended at `end`.
    pub fn shares(&mut self, end: WallMs, shares: &Shares, unit: &str) -> Option<Finding> {
        self.learn(end, shares);
        if !self.is_ready() {
            return None;
        }
        let mut total = 0.0;
        let mut best = (0_usize, f32::MIN);
        for (at, ((detector, since), y)) in self.detectors.iter_mut().zip(&mut self.since).zip(shares).enumerate() {
            let sum = detector.push(since, *y) * WEIGHTS[at];
            total += sum;
            if sum > best.1 {
                best = (at, sum);
            }
        }
        if let Some(active) = self.active() {
            self.phase = None;
            return self.follow(active, end, shares);
        }
        #[expect(clippy::cast_precision_loss, reason = "3")]
        let mean = total / BETS.len() as f32;
        (mean >= ALARM).then(|| self.alarm(best.0, end, unit, mean))
    }

    fn alarm(&mut self, level: usize, end: WallMs, unit: &str, evidence: f32) -> Finding {
        let detector = self.detectors[level];
        let cells = self.since[level].max(1);
        let began = end - Ms::from(self.width_ms) * i64::from(cells - 1);
        let recent = detector.sum / f32::from(cells);
        let level_number = u8::try_from(level).expect("six levels");
        self.phase = Some(Box::new(Phase::Active(Active { level: level_number, began, quiet: 0, recent })));
        self.is_clean = false;
        self.forget();
        let (before, now) = (f64::from(f32::from(self.means[level]) / MEAN_ONE), f64::from(recent));
        let (what, edge) = self.name(level, unit);
        let sentence = format!("{} -> {} {what} since {}", percent(before), percent(now), Clock24::from_ms(began));
        Finding {
            kind: FindingKind::Shape,
            at: end,
            began,
            is_active: true,
            sentence,
            evidence: vec![
                ("share_before", before),
                ("share_now", now),
                ("share_tolerated", f64::from(detector.tau)),
                ("edge", edge),
                ("evidence", f64::from(evidence)),
                ("evidence_needed", f64::from(ALARM)),
            ],
        }
    }

    fn name(&self, level: usize, unit: &str) -> (String, f64) {
        match LEVELS[level] {
            Level::Above(at) => {
                let edge = f64::from(self.edges.quantiles()[usize::from(at)]);
                (format!("of operations above {}", Quantity(edge, unit)), edge)
            }
            Level::Below => {
                let edge = f64::from(self.edges.quantiles()[0]);
                (format!("of operations below {}", Quantity(edge, unit)), edge)
            }
            Level::Median => {
                let edge = f64::from(self.edges.median_high);
                (format!("of cells with a median above {}", Quantity(edge, unit)), edge)
            }
        }
    }

    /// Whether the active finding is over, or has become normal.
    fn follow(&mut self, mut active: Active, end: WallMs, shares: &Shares) -> Option<Finding> {
        let level = usize::from(active.level);
        active.recent += (shares[level] - active.recent) / f32::from(QUIET_CELLS);
        active.quiet = if active.recent < self.detectors[level].tau { active.quiet + 1 } else { 0 };
        self.forget();
        let is_over = active.quiet >= QUIET_CELLS;
        let is_normal = end - active.began > ACCEPTED;
        self.phase = (!is_over && !is_normal).then(|| Box::new(Phase::Active(active)));
        if is_normal && !is_over {
            *self = Self::new(self.width_ms);
        }
        (is_over || is_normal).then(|| {
            let since = Clock24::from_ms(active.began);
            let share = percent(f64::from(active.recent));
            let why =
                if is_over { format!("back to {share}") } else { format!("{share} lasts and is taken as normal") };
            Finding {
                kind: FindingKind::Shape,
                at: end,
                began: active.began,
                is_active: false,
                sentence: format!("the change of {since} is over: {why}"),
                evidence: vec![("share_now", f64::from(active.recent))],
            }
        })
    }

    fn forget(&mut self) {
        for detector in &mut self.detectors {
            (detector.m, detector.w, detector.sum) = ([0.0; BETS.len()], 0.0, 0.0);
        }
        self.since = [0; LEVELS.len()];
    }

    /// Learns the tolerated means of each hour of the week from the passing hour.
    fn learn(&mut self, end: WallMs, shares: &Shares) {
        let unit = self.learned_at_once();
        let hour = i32::try_from((end - Ms(1)).0.div_euclid(unit.0)).unwrap_or(i32::MAX);
        if hour != self.hour {
            let is_whole = i64::from(self.cells) * 2 >= unit / Ms::from(self.width_ms);
            if is_whole {
                self.close_hour();
            }
            // Incomplete data continues into the next hour as long as nothing is known.
            if is_whole || self.is_ready() {
                self.restart_hour();
            }
            self.hour = hour;
            self.open_hour();
        }
        self.cells += 1;
        self.is_clean &= self.phase.is_none();
        for (detector, y) in self.detectors[..MEDIAN].iter_mut().zip(shares) {
            detector.learner.push(*y);
        }
        self.detectors[MEDIAN].learner.push_cell(shares[MEDIAN]);
        if (self.cells - 1).is_multiple_of(BLOCK) {
            self.detectors.iter_mut().for_each(|detector| detector.learner.close_block());
        }
    }

    /// An hour, or 360 cells when they are wider than 10 s.
    fn learned_at_once(&self) -> Ms {
        (Ms::from(self.width_ms) * 360).max(HOUR)
    }

    fn restart_hour(&mut self) {
        for detector in &mut self.detectors {
            detector.learner.restart();
        }
        (self.cells, self.is_clean) = (1, self.phase.is_none());
    }

    /// What was learned in the ending hour is tolerated in the same hour of the week.
    fn close_hour(&mut self) {
        if !self.is_clean {
            return;
        }
        let is_first = !self.is_ready();
        #[expect(clippy::cast_precision_loss, reason = "an hour of cells is far below 2^24")]
        let cells = (self.cells - 1).max(1) as f32;
        let mut learned = self.detectors.map(|detector| detector.learner.tolerated(cells).max(TAU_MIN));
        learned[MEDIAN] = self.detectors[MEDIAN].learner.tolerated_of_cells(cells);
        for ((detector, mean), tau) in self.detectors.iter_mut().zip(&mut self.means).zip(learned) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share, and saturating")]
            {
                *mean = (detector.learner.mean(cells) * MEAN_ONE).round() as u16;
            }
            // It decreases by at most a quarter an hour: a quiet hour does not make the next one suspicious.
            detector.tau = if is_first { tau } else { tau.max(detector.tau * 0.8) };
        }
        if self.learned_at_once() == HOUR {
            let hours = self.hours.get_or_insert_default();
            hours.put(self.hour, &learned);
        }
    }

    /// What is tolerated from here on: the values of this hour of the week if known, and otherwise those of the
    /// previous hour.
    fn open_hour(&mut self) {
        let known = self.hours.as_ref().and_then(|hours| hours.get(self.hour));
        for (detector, tau) in self.detectors.iter_mut().zip(known.into_iter().flatten()) {
            detector.tau = tau;
        }
    }
}

impl Level {
    /// The share that a stationary series has, before anything is learned.
    const fn nominal(self) -> f32 {
        match self {
            Self::Above(0) | Self::Below => 0.5,
            Self::Above(1) | Self::Median => 0.1,
            Self::Above(2) => 0.01,
            Self::Above(_) => 0.001,
        }
    }
}

impl Detector {
    /// One more Y; the sum of its M.
    fn push(&mut self, since: &mut u16, y: f32) -> f32 {
        let excess = y / self.tau - 1.0;
        let mut sum = 0.0;
        for (m, bet) in self.m.iter_mut().zip(BETS) {
            *m = (1.0 + *m) * (1.0 + bet * excess);
            sum += *m;
        }
        if self.w < 1.0 {
            (self.w, *since, self.sum) = (1.0, 0, 0.0);
        }
        self.w = (self.w * (1.0 + BEGIN_BET * excess)).min(f32::MAX);
        *since = since.saturating_add(1);
        self.sum += y;
        sum
    }
}

/// The sum, by four independent partial sums: a third of the time.
fn sum_of<C: Count>(counts: &[C]) -> f64 {
    let mut lanes = [0.0; 4];
    let parts = counts.chunks_exact(4);
    let rest: f64 = parts.remainder().iter().map(|count| count.to_f64()).sum();
    for part in parts {
        for (lane, count) in lanes.iter_mut().zip(part) {
            *lane += count.to_f64();
        }
    }
    lanes.iter().sum::<f64>() + rest
}

/// As [`median`], for decimal bins of numbers above zero; the search starts at bin `near`, which has `below` samples
/// before it.
fn median_near<C: Count>(bins: &Bins<C>, near: usize, below: f64, total: f64) -> f32 {
    let (indexes, counts, half) = (bins.indexes(), bins.counts(), total / 2.0);
    let (mut at, mut before) = (near, below);
    while at > 0 && before >= half {
        at -= 1;
        before -= counts[at].to_f64();
    }
    for (index, count) in indexes[at..].iter().zip(&counts[at..]) {
        let count = count.to_f64();
        if count > 0.0 && before + count >= half {
            let (lo, hi) = Scheme::LogLinear10.bounds(true, *index);
            return within(lo, hi, (half - before) / count);
        }
        before += count;
    }
    f32::NAN
}

/// The cell's median, with samples spread evenly within a bin.
fn median<C: Count>(cell: &Histogram<C>) -> f32 {
    let half = cell.total().to_f64() / 2.0;
    let mut below = 0.0;
    for bucket in cell.buckets() {
        let count = bucket.count.to_f64();
        if count > 0.0 && below + count >= half {
            return within(bucket.lo, bucket.hi, (half - below) / count);
        }
        below += count;
    }
    f32::NAN
}

/// The value at `share` of a bin.
fn within(lo: f64, hi: f64, share: f64) -> f32 {
    let (lo, hi) = (lo.max(-f64::from(f32::MAX)), hi.min(f64::from(f32::MAX)));
    #[expect(clippy::cast_possible_truncation, reason = "24 bits are finer than a bin")]
    {
        (lo + (hi - lo) * share) as f32
    }
}

fn float<C: Count>(cell: &Histogram<C>) -> Histogram<f64> {
    let mut float = Histogram::new(cell.scheme.clone());
    float.zero_threshold = cell.zero_threshold;
    (float.zero, float.count) = (cell.zero.to_f64(), cell.count.to_f64() - cell.nan.to_f64());
    (float.positive, float.negative) = (cell.positive.map_counts(C::to_f64), cell.negative.map_counts(C::to_f64));
    float
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decimal bins are judged by their indexes, all others by their edges: both say the same of the same cell.
    #[test]
    fn indexes_and_edges_give_the_same_shares() {
        let cell = |factor: f64, count: u32| {
            let mut cell = Histogram::log_linear();
            (0..count).for_each(|at| cell.record(0.01 * factor * (1.0 + f64::from(at * at % 997) / 100.0)));
            cell
        };
        let mut warm = Warm { merged: float(&cell(1.0, 50_000)), medians: vec![0.02, 0.03, 0.04] };
        warm.merged.merge(&float(&cell(1.1, 50_000))).unwrap();
        let edges = warm.edges();
        assert!(matches!(edges.quantiles, Cuts::Decimal(_)), "{edges:?}");
        for factor in [0.01, 0.5, 0.9, 1.0, 1.05, 1.5, 2.0, 11.0, 500.0] {
            for count in [1, 2, 3, 200, 999] {
                let cell = cell(factor, count);
                assert_eq!(edges.shares(&cell), edges.shares_of_edges(&cell), "{count} operations times {factor}");
            }
        }
        assert_eq!(edges.shares(&Histogram::log_linear()), None);
        let values = Edges::new(edges.quantiles(), 0.03, false);
        assert_eq!(values.quantiles(), edges.quantiles(), "and back");
    }
}
