//! What is sent: series that look like a fleet's, and values that look like measured ones. All from a seed.

/// A number at an instant, milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub time_ms: i64,
    pub value: f64,
}

/// The shape of a series' values. Half of the series are counters, three tenths gauges, two tenths latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Whole numbers that rise by some tens a step.
    Counter,
    /// Two decimals, a slow random walk.
    Gauge,
    /// Seconds with six decimals, log-normal.
    Latency,
}

/// Random numbers by xorshift64*, the same for a seed everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The sum of twelve uniform numbers, less six: near enough to a normal one.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

/// One series and where its values are.
#[derive(Clone, Debug)]
pub struct Series {
    pub labels: Vec<(String, String)>,
    pub shape: Shape,
    random: Random,
    value: f64,
}

impl Series {
    /// Series number `index` of the fleet `run`: nine labels, some 160 bytes of text.
    pub fn new(run: &str, index: usize) -> Self {
        let shape = match index % 10 {
            0..5 => Shape::Counter,
            5..8 => Shape::Gauge,
            _ => Shape::Latency,
        };
        let metric = match shape {
            Shape::Counter => "http_requests_total",
            Shape::Gauge => "queue_depth_items",
            Shape::Latency => "last_request_seconds",
        };
        let host = index / 40;
        let labels = [
            ("__name__", format!("bench_{metric}")),
            ("cluster", "eu-central-1-production".into()),
            ("dc", format!("dc{}", host % 4)),
            ("handler", format!("/api/v2/resource/{}", index % 40)),
            ("instance", format!("node-{host:05}.example.org:9100")),
            ("job", format!("service-{}", index % 17)),
            ("method", ["GET", "PUT", "POST"][index % 3].into()),
            ("run", run.to_owned()),
            ("status", ["200", "204", "404", "500"][index % 4].into()),
        ];
        let labels = labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self::from_labels(shape, labels, index)
    }

    /// Series number `index` of a shape.
    pub fn from_labels(shape: Shape, labels: Vec<(String, String)>, index: usize) -> Self {
        let mut random = Random::new(index as u64 + 1);
        let value = match shape {
            Shape::Counter => random.below(1_000_000) as f64,
            Shape::Gauge => random.below(10_000) as f64 / 100.0,
            Shape::Latency => 0.0,
        };
        Self { labels, shape, random, value }
    }

    /// The next value.
    pub fn next(&mut self) -> f64 {
        match self.shape {
            Shape::Counter => self.value += self.random.below(64) as f64,
            Shape::Gauge => {
                let cents = (self.value * 100.0).round() + (self.random.normal() * 20.0).round();
                self.value = cents.abs() / 100.0;
            }
            Shape::Latency => self.value = ((self.random.normal() * 0.6 - 6.0).exp() * 1e6).round() / 1e6,
        }
        self.value
    }
}

/// A cell's `count` latencies in seconds: log-normal around 2 ms, one in 200 ten times slower.
pub fn latencies(random: &mut Random, count: usize) -> impl Iterator<Item = f64> + '_ {
    (0..count).map(|_| {
        let slow = if random.below(200) == 0 { 10.0 } else { 1.0 };
        ((random.normal() * 0.5 - 6.2).exp() * slow * 1e9).round() / 1e9
    })
}
