//! What a watch prints: a line for people, or a flat JSON object.

use ogive_model::WallNs;
use ogive_probe::Mode;
use serde_json::{Map, Value, json};

use super::super::point::Steps;
use super::super::trust::time;
use super::figures::{Costs, ReportedFigures};
use ogive_text::calendar::iso;

/// Something worth a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// The initial state.
    Start { kernel: String, mode: Mode, figures: ReportedFigures },
    /// The kernel took another clock source.
    Source {
        names: (String, String),
        modes: (Mode, Mode),
        epochs: (u16, u16),
        /// How far the clocks stepped against the counter around the switch.
        step: Option<Steps>,
        costs: (Costs, Costs),
    },
    /// Our clock reads something else.
    Mode { modes: (Mode, Mode), reason: String },
    /// The line was broken.
    Epoch { epochs: (u16, u16) },
    /// The clock fell back to the system's clock.
    Fallback { total: u64 },
    /// A publication was late.
    Backstep { total: u64 },
    /// The figures left their noise.
    Figures(ReportedFigures),
}

impl Event {
    /// Its name in JSON.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Start { .. } => "start",
            Self::Source { .. } => "clock_source",
            Self::Mode { .. } => "mode",
            Self::Epoch { .. } => "epoch",
            Self::Fallback { .. } => "fallback",
            Self::Backstep { .. } => "backstep",
            Self::Figures(_) => "figures",
        }
    }

    /// Whether it is a finding: something that was not so at the beginning.
    pub(super) const fn is_change(&self) -> bool {
        !matches!(self, Self::Start { .. } | Self::Figures(_))
    }

    /// One line.
    pub(super) fn text(&self, time: WallNs) -> String {
        let what = match self {
            Self::Start { kernel, mode, figures } => {
                format!("start: clock source {kernel}, mode {}; {}", mode.name(), figures_text(figures))
            }
            Self::Source { names, modes, epochs, step, costs } => format!(
                "clock source {} -> {}: {}; {}; mode {} -> {}, epoch {} -> {}",
                names.0,
                names.1,
                costs_text(costs),
                step.map_or("no counter to see a step with".into(), steps_text),
                modes.0.name(),
                modes.1.name(),
                epochs.0,
                epochs.1
            ),
            Self::Mode { modes, reason } => {
                let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                format!("mode {} -> {}{because}", modes.0.name(), modes.1.name())
            }
            Self::Epoch { epochs } => {
                format!("epoch {} -> {}: intervals that began before mean nothing", epochs.0, epochs.1)
            }
            Self::Fallback { total } => format!("the system's clock had to take over ({total} times so far)"),
            Self::Backstep { total } => format!("a publication was late: time may have gone back ({total} so far)"),
            Self::Figures(figures) => format!("figures: {}", figures_text(figures)),
        };
        format!("{} {what}", iso(time.0))
    }

    /// One flat object.
    pub(super) fn json(&self, time: WallNs) -> String {
        let mut out = Map::new();
        out.insert("time".into(), json!(iso(time.0)));
        out.insert("time_seconds".into(), json!(time.0 as f64 / 1e9));
        out.insert("event".into(), json!(self.name()));
        for (key, value) in self.fields() {
            out.insert(key.into(), value);
        }
        Value::Object(out).to_string()
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        match self {
            Self::Start { kernel, mode, figures } => {
                let mut fields = vec![("os_clocksource", json!(kernel)), ("mode", json!(mode.name()))];
                fields.extend(figures_fields(figures));
                fields
            }
            Self::Source { names, modes, epochs, step, costs } => vec![
                ("os_clocksource_before", json!(names.0)),
                ("os_clocksource", json!(names.1)),
                ("mode_before", json!(modes.0.name())),
                ("mode", json!(modes.1.name())),
                ("epoch_before", json!(epochs.0)),
                ("epoch", json!(epochs.1)),
                ("read_now_seconds_before", seconds(costs.0.now_ns)),
                ("read_now_seconds", seconds(costs.1.now_ns)),
                ("read_monotonic_seconds_before", seconds(costs.0.system_ns)),
                ("read_monotonic_seconds", seconds(costs.1.system_ns)),
                ("step_monotonic_seconds", json!(step.map(|step| step.system_ns / 1e9))),
                ("step_now_seconds", json!(step.map(|step| step.own_ns / 1e9))),
            ],
            Self::Mode { modes, reason } => vec![
                ("mode_before", json!(modes.0.name())),
                ("mode", json!(modes.1.name())),
                ("mode_reason", json!(reason)),
            ],
            Self::Epoch { epochs } => vec![("epoch_before", json!(epochs.0)), ("epoch", json!(epochs.1))],
            Self::Fallback { total } => vec![("fallbacks_total", json!(total))],
            Self::Backstep { total } => vec![("backsteps_total", json!(total))],
            Self::Figures(figures) => figures_fields(figures).into(),
        }
    }
}

fn figures_fields(figures: &ReportedFigures) -> [(&'static str, Value); 5] {
    [
        ("read_now_seconds", seconds(figures.costs.now_ns)),
        ("read_monotonic_seconds", seconds(figures.costs.system_ns)),
        ("error_seconds", seconds(figures.err_ns)),
        ("frequency_hertz", json!(figures.frequency_hz)),
        ("frequency_error_ppb", json!(figures.ppb)),
    ]
}

fn figures_text(figures: &ReportedFigures) -> String {
    format!(
        "now() {} a read, CLOCK_MONOTONIC {}, error bound {}, {} Hz known to {} ppb",
        time(figures.costs.now_ns),
        time(figures.costs.system_ns),
        time(figures.err_ns),
        figures.frequency_hz,
        figures.ppb
    )
}

fn costs_text((before, after): &(Costs, Costs)) -> String {
    let one = |before: f64, after: f64| {
        format!("{} -> {} a read ({:.2} x)", time(before), time(after), after / before.max(f64::MIN_POSITIVE))
    };
    format!("CLOCK_MONOTONIC {}, now() {}", one(before.system_ns, after.system_ns), one(before.now_ns, after.now_ns))
}

fn steps_text(step: Steps) -> String {
    format!("against the counter, CLOCK_MONOTONIC stepped {:+.0} ns and now() {:+.0} ns", step.system_ns, step.own_ns)
}

fn seconds(ns: f64) -> Value {
    json!(ns / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_tells_what_it_does_to_the_numbers() {
        let costs = |now_ns: f64, system_ns: f64| Costs { now_ns, system_ns };
        let event = Event::Source {
            names: ("tsc".into(), "hpet".into()),
            modes: (Mode::Counter, Mode::Os),
            epochs: (0, 0),
            step: Some(Steps { system_ns: -475.2, own_ns: 1.0 }),
            costs: (costs(20.0, 25.0), costs(1_200.0, 1_150.0)),
        };
        assert_eq!(
            event.text(WallNs(0)),
            "1970-01-01T00:00:00.000Z clock source tsc -> hpet: CLOCK_MONOTONIC 25 ns -> 1.15 us a read (46.00 x), now() 20 ns -> 1.2 us a read (60.00 x); against the counter, CLOCK_MONOTONIC stepped -475 ns and now() +1 ns; mode counter -> os, epoch 0 -> 0"
        );
        let json: Value = serde_json::from_str(&event.json(WallNs(1_500_000_000))).unwrap();
        assert_eq!(json["event"], "clock_source");
        assert_eq!(json["time_seconds"], 1.5);
        assert_eq!(json["os_clocksource"], "hpet");
        assert_eq!(json["read_monotonic_seconds"], 1.15e-6);
        assert!(json.as_object().unwrap().values().all(|value| !value.is_object() && !value.is_array()));
    }
}
