//! Streams of nanoseconds to record, the same on every machine.

/// Latencies around 250 us: log-normal with sigma 1.
pub(crate) fn log_normal(count: usize) -> Vec<u64> {
    let mut random = Random(42);
    (0..count).map(|_| (250_000.0 * random.normal().exp()) as u64).collect()
}

/// Three regimes that take turns (2 us, 300 us, 40 ms), and every eighth value tiny.
pub(crate) fn mixed(count: usize) -> Vec<u64> {
    let mut random = Random(7);
    let mut centre = 2_000.0;
    (0..count)
        .map(|at| {
            if random.next().is_multiple_of(64) {
                centre = [2_000.0, 300_000.0, 40_000_000.0][(random.next() % 3) as usize];
            }
            if at % 8 == 0 { random.next() % 100 } else { (centre * (0.3 * random.normal()).exp()) as u64 }
        })
        .collect()
}

/// A small generator (xorshift64*): the stream must be the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8
    }

    /// A uniform number below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.next() as f64 / (1_u64 << 56) as f64
    }

    /// Twelve uniform numbers less six: normal enough for a load.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}
