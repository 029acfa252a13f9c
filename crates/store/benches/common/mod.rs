//! What several benches need.

// Each bench uses a part of it.
#![allow(dead_code)]

use std::time::{Instant, SystemTime};

use ogive_hist::Histogram;
use ogive_model::{MonoNs, Value, WallNs};
use ogive_store::Clock;

/// The system's clocks; elapsed time is that since the instant.
pub(crate) struct WallClock(pub(crate) Instant);

impl Clock for WallClock {
    fn now(&self) -> MonoNs {
        MonoNs(self.0.elapsed().as_nanos() as u64)
    }

    fn wall(&self) -> WallNs {
        WallNs(SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as i64))
    }
}

/// CPU time of the whole process.
pub(crate) fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A cell of so many requests of a service: 200 fill about 30 bins.
pub(crate) fn cell(seed: u64, requests: u32) -> Value {
    let mut histogram = Histogram::<u64>::log_linear();
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..requests {
        let uniform = random.f64();
        histogram.record(0.02 * (1.0 + uniform * uniform * 3.0));
    }
    Value::Histogram(Box::new(histogram))
}
