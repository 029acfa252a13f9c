//! What is known of this host's clock, for `ogive clock` and for the server's own series.
//!
//! Failure: what a host does not tell (no sysfs in a container, no second CPU) is `None`, and is shown as unknown.

pub(crate) mod cost;
pub(crate) mod read;
pub(crate) mod series;

use ogive_probe::{Clock, Mode, OsReason};

/// What the kernel says of its clock sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// The one in use; `None` where the kernel does not tell.
    pub(crate) current: Option<String>,
    /// Those that it could use.
    pub(crate) available: Vec<String>,
    /// What it logged about clocks since it was asked last, if it shows its log.
    pub(crate) messages: Vec<String>,
}

impl Kernel {
    /// The name of the one in use.
    pub(crate) fn name(&self) -> &str {
        self.current.as_deref().unwrap_or("unknown")
    }

    /// Whether it is one of the slow ones that the kernel takes when it has given the processor's counter up: a read of them
    /// leaves the processor, and takes about a microsecond. `None` where the kernel does not tell.
    pub(crate) fn is_slow(&self) -> Option<bool> {
        self.current.as_deref().map(|name| matches!(name, "hpet" | "acpi_pm" | "pit" | "jiffies" | "refined-jiffies"))
    }
}

/// Asks the kernel anew. The binary's command line reads files; nothing else here does.
pub(crate) type AskKernel = Box<dyn Fn() -> Kernel + Send>;

/// The clock's state and the kernel's, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// What ticks are ticks of, and how an ordered one is read.
    pub(crate) source: &'static str,
    pub(crate) mode: Mode,
    /// Why the system's clock is read instead of the counter.
    pub(crate) reason: Option<OsReason>,
    pub(crate) kernel: Kernel,
    pub(crate) frequency_hz: u64,
    pub(crate) quantum_ns: f64,
    /// Bound on the error of the frequency.
    pub(crate) ppb: u16,
    /// How much the counter would have drifted if it had been left alone.
    pub(crate) drift_ppb: f64,
    pub(crate) err_ns: u64,
    /// CPUs whose counters the clock itself has compared, and the largest offset among them.
    pub(crate) cpus_compared: u64,
    pub(crate) cpu_offset_ns: u64,
    pub(crate) epoch: u16,
    pub(crate) backsteps: u64,
    pub(crate) fallbacks: u64,
    pub(crate) interruptions: u64,
    pub(crate) rejected: u64,
    pub(crate) calibrations: u64,
}

impl Figures {
    /// Looks at the clock, beside what the kernel said.
    pub(crate) fn now(clock: Clock, kernel: Kernel) -> Self {
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

#[cfg(test)]
impl Figures {
    /// A clock as it should be: an invariant TSC of 2 GHz under the kernel's source `tsc`.
    pub(crate) fn sound() -> Self {
        Self {
            source: "tsc-lfence",
            mode: Mode::Counter,
            reason: None,
            kernel: Kernel {
                current: Some("tsc".into()),
                available: vec!["tsc".into(), "hpet".into()],
                messages: Vec::new(),
            },
            frequency_hz: 2_000_000_000,
            quantum_ns: 10.0,
            ppb: 5,
            drift_ppb: 0.0,
            err_ns: 40,
            cpus_compared: 2,
            cpu_offset_ns: 5,
            epoch: 0,
            backsteps: 0,
            fallbacks: 0,
            interruptions: 0,
            rejected: 0,
            calibrations: 10,
        }
    }
}
