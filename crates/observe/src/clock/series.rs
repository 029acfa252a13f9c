//! The clock's figures as series of the server, so that an alert can be written on them.
//!
//! Format: floats. `ogive_clock_info{source,os_clocksource,mode} 1` names what is in use; when a label changes, the
//! series with the old labels gets a last sample of 0. The rest are gauges in base units and cumulative counters.
//! Invariants: every figure is stored each ten seconds, and at once in the second in which the kernel's clock source,
//! the mode or the epoch changed.
//! Limits: a look at the kernel's files each second (30 us); 13 us of reads each ten seconds for each clock of 25 ns.

use ogive_model::{Kind, METRIC_NAME, SeriesDef, SeriesMeta, Temporality};
use ogive_probe::Clock;

use super::cost::{self, Effort};
use super::read::TimeSource;
use super::{AskKernel, Figures};
use ogive_door::own_value::OwnValue;

/// Messages of the kernel about its clocks, as texts.
pub const EVENTS: &str = "ogive_clock_event";

/// Own series and what they mean.
pub const HELP: [(&str, &str); 16] = [
    (EVENTS, "What the kernel logs about its clocks: a counter marked as unstable, another clock source."),
    ("ogive_clock_info", "1 for the clock in use: the counter, the kernel's clock source, and which of them is read."),
    ("ogive_clock_frequency_hertz", "Ticks of the counter in a second, as calibrated."),
    ("ogive_clock_ppb", "Bound on the error of the frequency, parts per billion."),
    ("ogive_clock_drift_ppb", "How fast the counter would have drifted from the system's clock if left alone."),
    ("ogive_clock_error_seconds", "Bound on the difference to the system's clock."),
    ("ogive_clock_cpu_offset_seconds", "Largest offset between the counters of two CPUs."),
    ("ogive_clock_quantum_seconds", "The finest difference that two readings can have."),
    ("ogive_clock_read_seconds", "What one read of each clock costs: the median of small batches."),
    ("ogive_clock_epoch", "Breaks of the clock's line so far: suspends, migrations, jumps."),
    ("ogive_clock_calibrations_total", "Calibration samples that were used."),
    ("ogive_clock_rejected_total", "Calibration samples that were not used, because something interrupted them."),
    ("ogive_clock_fallbacks_total", "Times that the system's clock had to take over."),
    ("ogive_clock_backsteps_total", "Publications so late that a reader may have seen time go back."),
    ("ogive_clock_interruptions_total", "Suspends, migrations and restores of the machine that were seen."),
    ("ogive_clock_source_changes_total", "Changes of the kernel's clock source."),
];

/// What is remembered from second to second.
pub struct ClockSeries {
    clock: Clock,
    ask: AskKernel,
    changes: u64,
    before: Option<StoredState>,
    /// What the kernel logged and was not yet taken.
    events: Vec<String>,
}

/// What makes a second worth storing when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StoredState {
    source: &'static str,
    kernel: String,
    mode: &'static str,
    epoch: u16,
}

impl ClockSeries {
    /// Reads `clock`, and hears of the kernel's clock sources through `ask`.
    pub fn new(clock: Clock, ask: AskKernel) -> Self {
        Self { clock, ask, changes: 0, before: None, events: Vec::new() }
    }

    /// What the kernel logged about clocks since the last call, as texts of one series.
    pub fn take_events(&mut self) -> Vec<(SeriesDef, String)> {
        let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        let series = SeriesDef::new([(METRIC_NAME, EVENTS)], meta).expect("a name alone keeps the rules");
        std::mem::take(&mut self.events).into_iter().map(|event| (series.clone(), event)).collect()
    }

    /// The values of this second: all when it is `due` or something changed, else none.
    pub fn second(&mut self, due: bool) -> Vec<OwnValue> {
        let mut figures = Figures::now(self.clock, (self.ask)());
        self.events.append(&mut figures.kernel.messages);
        let known = StoredState {
            source: figures.source,
            kernel: figures.kernel.name().to_owned(),
            mode: figures.mode.name(),
            epoch: figures.epoch,
        };
        let before = self.before.replace(known.clone());
        let changed = before.as_ref().is_none_or(|before| *before != known);
        self.changes += u64::from(before.as_ref().is_some_and(|before| before.kernel != known.kernel));
        if !due && !changed {
            return Vec::new();
        }
        let mut out = vec![OwnValue::gauge("ogive_clock_info", &known.labels(), "", 1.0)];
        if let Some(before) = before.filter(|before| before.labels() != known.labels()) {
            out.push(OwnValue::gauge("ogive_clock_info", &before.labels(), "", 0.0));
        }
        out.extend(self.gauges(&figures));
        out.extend(self.counters(&figures));
        out
    }

    fn gauges(&self, figures: &Figures) -> Vec<OwnValue> {
        let plain = |name, unit, value| OwnValue::gauge(name, &[], unit, value);
        let mut out = vec![
            plain("ogive_clock_frequency_hertz", "Hz", figures.frequency_hz as f64),
            plain("ogive_clock_ppb", "", f64::from(figures.ppb)),
            plain("ogive_clock_drift_ppb", "", figures.drift_ppb),
            plain("ogive_clock_error_seconds", "s", figures.err_ns as f64 / 1e9),
            plain("ogive_clock_quantum_seconds", "s", figures.quantum_ns / 1e9),
            plain("ogive_clock_epoch", "", f64::from(figures.epoch)),
        ];
        if figures.cpus_compared > 1 {
            out.push(plain("ogive_clock_cpu_offset_seconds", "s", figures.cpu_offset_ns as f64 / 1e9));
        }
        for cost in cost::measure(self.clock, &TimeSource::COSTS, Effort::GLANCE) {
            let labels = [("clock", cost.read.key())];
            out.push(OwnValue::gauge("ogive_clock_read_seconds", &labels, "s", cost.median_ns / 1e9));
        }
        out
    }

    fn counters(&self, figures: &Figures) -> Vec<OwnValue> {
        [
            ("ogive_clock_calibrations_total", figures.calibrations),
            ("ogive_clock_rejected_total", figures.rejected),
            ("ogive_clock_fallbacks_total", figures.fallbacks),
            ("ogive_clock_backsteps_total", figures.backsteps),
            ("ogive_clock_interruptions_total", figures.interruptions),
            ("ogive_clock_source_changes_total", self.changes),
        ]
        .map(|(name, value)| OwnValue::counter(name, &[], value as f64))
        .into()
    }
}

impl StoredState {
    fn labels(&self) -> [(&'static str, &str); 3] {
        [("source", self.source), ("os_clocksource", &self.kernel), ("mode", self.mode)]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::clock::Kernel;

    fn value(values: &[OwnValue], name: &str, label: (&str, &str)) -> Option<f64> {
        let is_sought =
            |value: &&OwnValue| value.name() == name && (label.0.is_empty() || value.label(label.0) == label.1);
        values.iter().find(is_sought).map(OwnValue::value)
    }

    #[test]
    fn a_change_of_the_kernels_source_is_stored_in_its_second() {
        let name = Arc::new(Mutex::new("tsc"));
        let requested = name.clone();
        let ask = Box::new(move || Kernel { current: Some((*requested.lock().unwrap()).into()), ..Kernel::default() });
        let mut series = ClockSeries::new(Clock::manual(1, 1), ask);
        let first = series.second(false);
        assert_eq!(value(&first, "ogive_clock_info", ("os_clocksource", "tsc")), Some(1.0));
        assert_eq!(value(&first, "ogive_clock_source_changes_total", ("", "")), Some(0.0));
        assert_eq!(series.second(false), []);
        assert_eq!(series.second(true).len(), first.len());
        *name.lock().unwrap() = "hpet";
        let changed = series.second(false);
        assert_eq!(value(&changed, "ogive_clock_info", ("os_clocksource", "hpet")), Some(1.0));
        assert_eq!(value(&changed, "ogive_clock_info", ("os_clocksource", "tsc")), Some(0.0));
        assert_eq!(value(&changed, "ogive_clock_source_changes_total", ("", "")), Some(1.0));
        assert_eq!(series.second(false), []);
    }

    #[test]
    fn what_the_kernel_logs_of_its_clocks_is_stored_once() {
        let unstable = "tsc: Marking TSC unstable due to clocksource watchdog";
        let messages = Arc::new(Mutex::new(vec![unstable.to_owned()]));
        let ask =
            Box::new(move || Kernel { messages: std::mem::take(&mut messages.lock().unwrap()), ..Kernel::default() });
        let mut series = ClockSeries::new(Clock::manual(1, 1), ask);
        series.second(false);
        let events = series.take_events();
        assert_eq!(events.len(), 1);
        assert_eq!((events[0].0.labels.metric_name(), events[0].1.as_str()), (EVENTS, unstable));
        series.second(false);
        assert_eq!(series.take_events(), []);
    }

    #[test]
    fn a_broken_line_is_stored_and_every_series_has_a_help_text() {
        let clock = Clock::manual(1, 1);
        let mut series = ClockSeries::new(clock, Box::new(Kernel::default));
        let values = series.second(false);
        for value in &values {
            let name = value.name();
            assert!(HELP.iter().any(|(known, _)| *known == name), "{name}");
        }
        clock.break_line();
        let values = series.second(false);
        assert_eq!(value(&values, "ogive_clock_epoch", ("", "")), Some(1.0));
        assert_eq!(value(&values, "ogive_clock_info", ("os_clocksource", "unknown")), Some(1.0));
        assert_eq!(value(&values, "ogive_clock_read_seconds", ("clock", "now")), Some(0.0));
    }
}
