//! What is known of this host's clock, for `ogive clock` and for the server's own series.
//!
//! Failure: what a host does not say (no sysfs in a container, no second CPU) is `None`, and is shown as unknown.

pub mod cost;
pub mod read;
pub mod series;

use ogive_probe::{Clock, Mode, OsReason};

/// What the kernel says of its clock sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// The one in use; `None` where the kernel does not say.
    pub current: Option<String>,
    /// Those that it could use.
    pub available: Vec<String>,
    /// What it logged about clocks since it was asked last, if it shows its log.
    pub messages: Vec<String>,
}

impl Kernel {
    /// The name of the one in use.
    pub fn name(&self) -> &str {
        self.current.as_deref().unwrap_or("unknown")
    }

    /// Whether it is one of the slow ones that the kernel takes when it has given the processor's counter up: a read of
    /// them leaves the processor, and takes about a microsecond. `None` where the kernel does not say.
    pub fn is_slow(&self) -> Option<bool> {
        self.current.as_deref().map(|name| matches!(name, "hpet" | "acpi_pm" | "pit" | "jiffies" | "refined-jiffies"))
    }
}

/// Asks the kernel anew. The binary's command line reads files; nothing else here does.
pub type AskKernel = Box<dyn Fn() -> Kernel + Send>;

/// The clock's state and the kernel's, at one moment.
#[derive(Clone, Debug)]
pub struct Figures {
    /// What ticks are ticks of, and how an ordered one is read.
    pub source: &'static str,
    /// How the counter is read.
    pub mode: Mode,
    /// Why the system's clock is read instead of the counter.
    pub reason: Option<OsReason>,
    /// What the kernel says of its clock sources.
    pub kernel: Kernel,
    /// Ticks a second.
    pub frequency_hz: u64,
    /// Nanoseconds of a tick.
    pub quantum_ns: f64,
    /// Bound on the error of the frequency.
    pub ppb: u16,
    /// How much the counter would have drifted if it had been left alone.
    pub drift_ppb: f64,
    /// Bound on the error of the time, nanoseconds.
    pub err_ns: u64,
    /// CPUs whose counters the clock itself has compared, and the largest offset among them.
    pub cpus_compared: u64,
    /// Nanoseconds.
    pub cpu_offset_ns: u64,
    /// The calibration that is in force.
    pub epoch: u16,
    /// Times that the counter went back.
    pub backsteps: u64,
    /// Times that the system's clock was read instead.
    pub fallbacks: u64,
    /// Readings that were interrupted.
    pub interruptions: u64,
    /// Calibrations that were not believed.
    pub rejected: u64,
    /// Calibrations that were taken.
    pub calibrations: u64,
}

impl Figures {
    /// Looks at the clock, beside what the kernel said.
    pub fn now(clock: Clock, kernel: Kernel) -> Self {
        let status = clock.status();
        Self {
            source: status.source.name(),
            mode: status.mode,
            reason: status.os_reason,
            kernel,
            frequency_hz: status.frequency_hz,
            quantum_ns: status.quantum_ns,
            ppb: status.ppb,
            drift_ppb: status.drift_ppb,
            err_ns: status.err_ns,
            cpus_compared: status.cpus_compared,
            cpu_offset_ns: status.cpu_offset_ns,
            epoch: status.epoch,
            backsteps: status.backsteps,
            fallbacks: status.fallbacks,
            interruptions: status.interruptions,
            rejected: status.rejected,
            calibrations: status.calibrations,
        }
    }
}
