//! The state of a clock, for people, series and alerts.

use super::costs::ReadCosts;
use super::figures::Figures;
use super::os_reason::OsReason;
use super::{Clock, Mode};
use crate::counter::Source;

/// The state of a clock.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// The current origin of readings.
    pub mode: Mode,
    /// The source of ticks, and the instruction for an ordered reading.
    pub source: Source,
    /// Why the operating system's clock is read; `None` in [`Mode::Counter`].
    pub os_reason: Option<OsReason>,
    /// The kernel's clock source (`tsc`, `kvm-clock`, `hpet`...); empty where it cannot be read.
    pub os_clock_source: String,
    /// The clock sources that are available to the kernel.
    pub os_clock_sources: Vec<String>,
    /// How often the kernel's clock source was seen to change.
    pub os_clock_source_changes: u64,
    /// Ticks a second as calibrated; 1,000,000,000 when ticks are nanoseconds; 0 before it is known.
    pub frequency_hz: u64,
    /// Bound on the error of `frequency_hz`, parts per billion.
    pub ppb: u16,
    /// How much faster the counter would have run than CLOCK_MONOTONIC without corrections since the calibration of
    /// some seconds ago, parts per billion: what continuous calibration removes.
    pub drift_ppb: f64,
    /// The finest difference that two readings can have: the greatest common step of the counter.
    pub quantum_ns: f64,
    /// Bound on |now - CLOCK_MONOTONIC|.
    pub err_ns: u64,
    /// Breaks of the line so far.
    pub epoch: u16,
    /// Publications by the calibration.
    pub published: u64,
    /// Calibration samples used.
    pub calibrations: u64,
    /// Calibration samples not used, because something interrupted them.
    pub rejected: u64,
    /// Time since the last calibration sample that was used; 0 before the first.
    pub age_ns: u64,
    /// Publications so late that a reader may have seen time go back by half a nanosecond or more.
    pub backsteps: u64,
    /// How often the operating system's clock had to take over.
    pub fallbacks: u64,
    /// Suspends, migrations and restores that were seen.
    pub interruptions: u64,
    /// True when the hypervisor reports migrations and restores (a vmclock device).
    pub vm_clock: bool,
    /// How many CPUs' counters were compared; 0 before the first comparison.
    pub cpus_compared: u64,
    /// The largest offset between the counters of two of them.
    pub cpu_offset_ns: u64,
    /// The cost of readings here.
    pub costs: ReadCosts,
}

impl Clock {
    /// The state of the clock. About 200 ns; nothing is measured by asking.
    #[must_use]
    pub fn status(self) -> Status {
        let inner = self.inner;
        let figures = &inner.figures;
        let source = inner.source();
        let segment = inner.latch.load();
        let bounded = self.now_bounded();
        let counter_mhz = figures.frequency_mhz.get_f64();
        let (frequency_hz, quantum_ns) = match source.is_counter() {
            true if counter_mhz > 0.0 => {
                ((counter_mhz * 1e6).round() as u64, figures.quantum_ticks.get() as f64 * 1e3 / counter_mhz)
            }
            true => (0, 0.0),
            false => (1_000_000_000, 1.0),
        };
        let calibrated_at_ns = figures.calibrated_at_ns.get();
        Status {
            mode: bounded.mode,
            source,
            os_reason: os_reason(figures, source, bounded.mode, segment.mode),
            os_clock_source: figures.os_clock_source.get(),
            os_clock_sources: figures.os_clock_sources.get().split_whitespace().map(str::to_owned).collect(),
            os_clock_source_changes: figures.os_clock_source_changes.get(),
            frequency_hz,
            ppb: segment.drift_ppb,
            drift_ppb: figures.drift_ppb.get_f64(),
            quantum_ns,
            err_ns: bounded.err_ns,
            epoch: bounded.epoch,
            published: inner.latch.index(),
            calibrations: figures.calibrations.get(),
            rejected: figures.rejected.get(),
            age_ns: if calibrated_at_ns == 0 { 0 } else { bounded.ns.saturating_sub(calibrated_at_ns) },
            backsteps: figures.backsteps.get(),
            fallbacks: figures.fallbacks.get(),
            interruptions: figures.interruptions.get(),
            vm_clock: figures.vm_clock.get() != 0,
            cpus_compared: figures.cpus_compared.get(),
            cpu_offset_ns: figures.cpu_offset_ns.get(),
            costs: ReadCosts {
                ticks_ns: figures.cost_ticks.get_f64(),
                ticks_ordered_ns: figures.cost_ticks_ordered.get_f64(),
                now_unordered_ns: figures.cost_now_unordered.get_f64(),
                now_ns: figures.cost_now.get_f64(),
                os_ns: figures.cost_os.get_f64(),
            },
        }
    }
}

fn os_reason(figures: &Figures, source: Source, read: Mode, published: Mode) -> Option<OsReason> {
    match (read, published) {
        (Mode::Counter, _) => None,
        // A segment of the counter is published, and yet the system's clock was read: the segment had ended.
        (Mode::Os, Mode::Counter) => Some(OsReason::Starved),
        _ if source == Source::Manual => None,
        _ if !source.is_counter() => Some(OsReason::NoCounter),
        _ => Some(OsReason::from_number(figures.os_reason.get()).unwrap_or(OsReason::Calibrating)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_name_and_a_number_of_its_own() {
        for (at, reason) in OsReason::ALL.into_iter().enumerate() {
            assert_eq!(OsReason::from_number(reason as u64), Some(reason));
            assert_eq!(reason.to_string(), reason.words());
            assert!(OsReason::ALL[..at].iter().all(|other| other.name() != reason.name()));
        }
        assert_eq!(OsReason::from_number(0), None);
        assert_eq!(OsReason::from_number(99), None);
    }

    #[test]
    fn the_reason_is_what_is_published_and_read() {
        let figures = Figures::new();
        let tsc = Source::TscLfence;
        assert_eq!(os_reason(&figures, tsc, Mode::Counter, Mode::Counter), None);
        assert_eq!(os_reason(&figures, tsc, Mode::Os, Mode::Counter), Some(OsReason::Starved));
        assert_eq!(os_reason(&figures, tsc, Mode::Os, Mode::Os), Some(OsReason::Calibrating));
        figures.os_reason.set(OsReason::Demoted as u64);
        assert_eq!(os_reason(&figures, tsc, Mode::Os, Mode::Os), Some(OsReason::Demoted));
        assert_eq!(os_reason(&figures, Source::Os, Mode::Os, Mode::Os), Some(OsReason::NoCounter));
        assert_eq!(os_reason(&figures, Source::Manual, Mode::Os, Mode::Os), None);
    }
}
