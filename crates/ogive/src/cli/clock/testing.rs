//! A clock for tests.

use ogive_observe::clock::{Figures, Kernel};
use ogive_probe::Mode;

/// A healthy clock: an invariant TSC of 2 GHz under the kernel's source `tsc`.
pub(super) fn sound() -> Figures {
    Figures {
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
