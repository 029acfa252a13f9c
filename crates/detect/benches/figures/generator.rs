//! Seeded series to judge detectors with: operations of a log-normal latency, with and without a wobble, pauses and
//! faults.

use ogive_hist::Histogram;

/// xoshiro256++ of Blackman and Vigna, seeded by splitmix64.
#[derive(Clone)]
pub(crate) struct Random([u64; 4]);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Self([next(), next(), next(), next()])
    }

    pub(crate) fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.0;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let t = b << 17;
        let (c, d) = (c ^ a, d ^ b);
        self.0 = [a ^ d, b ^ c, c ^ t, d.rotate_left(45)];
        result
    }

    /// Evenly in 0..1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A standard normal number (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// Operations of a cell.
pub(crate) const OPERATIONS: usize = 200;
/// ln of the median latency, 10 ms, and the standard deviation of ln.
const MEDIAN: f64 = 0.010;
const SIGMA: f64 = 0.5;

/// What is usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Null {
    /// Every operation independent.
    Independent,
    /// All latencies move together by 5 %, with a memory of 20 cells.
    Wobble,
    /// One cell in a thousand is five times as slow.
    Pauses,
}

pub(crate) const NULLS: [Null; 3] = [Null::Independent, Null::Wobble, Null::Pauses];

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    None,
    /// Three times as many operations above the 99th percentile.
    TailTimes3,
    /// This share of operations takes ten times as long.
    Slow(f64),
    /// Everything takes 10 % longer.
    All10,
}

pub(crate) struct Series {
    pub random: Random,
    null: Null,
    wobble: f64,
}

impl Series {
    pub(crate) fn new(null: Null, seed: u64) -> Self {
        Self { random: Random::new(seed), null, wobble: 0.0 }
    }

    /// The factor of the next cell's latencies.
    pub(crate) fn factor(&mut self) -> f64 {
        match self.null {
            Null::Independent => 1.0,
            Null::Wobble => {
                self.wobble = 0.95 * self.wobble + (1.0 - 0.95_f64 * 0.95).sqrt() * 0.05 * self.random.normal();
                self.wobble.exp()
            }
            Null::Pauses => {
                if self.random.unit() < 0.001 {
                    5.0
                } else {
                    1.0
                }
            }
        }
    }

    /// The next cell, operation by operation.
    pub(crate) fn cell(&mut self, fault: Fault) -> Histogram {
        let factor = self.factor();
        let mut cell = Histogram::log_linear();
        for _ in 0..OPERATIONS {
            let mut z = self.random.normal();
            let mut latency = factor;
            match fault {
                Fault::None => {}
                Fault::TailTimes3 => {
                    if self.random.unit() < 0.02 {
                        while z < 2.326_348 {
                            z = self.random.normal().abs();
                        }
                    }
                }
                Fault::Slow(share) => {
                    if self.random.unit() < share {
                        latency *= 10.0;
                    }
                }
                Fault::All10 => latency *= 1.1,
            }
            cell.record(latency * MEDIAN * (SIGMA * z).exp());
        }
        cell
    }

    /// How many of the next cell's operations are above each of `edges`, ascending: as [`Series::cell`] without a
    /// fault, many times as fast. Probabilities are exact to 1/65536.
    pub(crate) fn above(&mut self, table: &Table) -> [u32; 6] {
        let factor = self.factor();
        let limits = table.limits(factor.ln());
        let mut above = [0_u32; 6];
        let mut draws = [0_u16; OPERATIONS];
        for four in draws.chunks_exact_mut(4) {
            let bits = self.random.bits();
            for (at, draw) in four.iter_mut().enumerate() {
                *draw = (bits >> (16 * at)) as u16;
            }
        }
        for (above, limit) in above.iter_mut().zip(limits) {
            *above = draws.iter().map(|draw| u32::from(*draw < limit)).sum();
        }
        above
    }
}

/// Probabilities above six edges, by ln of the factor.
pub(crate) struct Table {
    edges: [f64; 6],
    steps: Vec<[u16; 6]>,
}

const STEP: f64 = 0.002;
const SPAN: f64 = 0.4;

impl Table {
    pub(crate) fn new(edges: [f64; 6]) -> Self {
        let count = (2.0 * SPAN / STEP) as usize;
        let steps = (0..=count).map(|at| limits(&edges, at as f64 * STEP - SPAN)).collect();
        Self { edges, steps }
    }

    fn limits(&self, shift: f64) -> [u16; 6] {
        if shift.abs() < SPAN {
            self.steps[((shift + SPAN) / STEP).round() as usize]
        } else {
            limits(&self.edges, shift)
        }
    }
}

fn limits(edges: &[f64; 6], shift: f64) -> [u16; 6] {
    edges.map(|edge| {
        if edge.is_infinite() {
            0
        } else {
            (normal_tail(((edge / MEDIAN).ln() - shift) / SIGMA) * 65_536.0).round().min(65_535.0) as u16
        }
    })
}

/// P(Z > z), by the complementary error function's continued fraction and its series.
pub(crate) fn normal_tail(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - normal_tail(-z);
    }
    let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    if z > 3.0 {
        let mut fraction = 0.0;
        for k in (1..60).rev() {
            fraction = f64::from(k) / (z + fraction);
        }
        return density / (z + fraction);
    }
    let (mut term, mut sum, mut k) = (z, z, 1.0);
    while term > 1e-17 {
        term *= z * z / (2.0 * k + 1.0);
        sum += term;
        k += 1.0;
    }
    0.5 - density * sum
}
