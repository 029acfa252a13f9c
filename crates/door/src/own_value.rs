//! A figure of the server itself, as it is stored and as `/metrics` shows it.
//!
//! Format: floats, each of which stands for [`WIDTH_SECONDS`].

use std::fmt::{self, Write as _};

use ogive_export::Measured;
use ogive_model::{Kind, METRIC_NAME, SeriesDef, SeriesMeta, Temporality, Value, WallNs};

/// Figures are stored every 10 s: a rate over a minute has six of them.
pub const WIDTH_SECONDS: i64 = 10;

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnValue {
    series: SeriesDef,
    value: f64,
}

impl OwnValue {
    /// A state.
    pub fn gauge(name: &str, labels: &[(&str, &str)], unit: &str, value: f64) -> Self {
        Self::new(name, labels, Temporality::Gauge, unit, value)
    }

    /// A number that only grows.
    pub fn counter(name: &str, labels: &[(&str, &str)], value: f64) -> Self {
        Self::new(name, labels, Temporality::Cumulative, "", value)
    }

    fn new(name: &str, labels: &[(&str, &str)], temporality: Temporality, unit: &str, value: f64) -> Self {
        let width_ms = (WIDTH_SECONDS * 1_000) as u32;
        let meta = SeriesMeta { kind: Kind::Float, temporality, unit: unit.into(), width_ms };
        let pairs = labels.iter().copied().chain([(METRIC_NAME, name)]);
        Self { series: SeriesDef::new(pairs, meta).expect("own labels keep the rules"), value }
    }

    /// Its metric.
    pub fn name(&self) -> &str {
        self.series.labels.metric_name()
    }

    /// Its metric's type, as Prometheus calls it.
    pub fn kind(&self) -> &'static str {
        if self.series.meta.temporality == Temporality::Gauge { "gauge" } else { "counter" }
    }

    /// As it is stored, with the time `time`.
    pub fn at(self, time: WallNs) -> Measured {
        Measured { series: self.series, time, value: Value::Float(self.value) }
    }

    /// The value of the label `name`.
    #[must_use]
    pub fn label(&self, name: &str) -> &str {
        self.series.labels.get(name)
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.value
    }
}

impl fmt::Display for OwnValue {
    /// As a line of `/metrics`, without its end.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())?;
        let labels = self.series.labels.iter().filter(|(label, _)| *label != METRIC_NAME);
        let mut before = '{';
        for (label, value) in labels {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(out, "{before}{label}=\"{value}\"")?;
            before = ',';
        }
        if before == ',' {
            out.write_char('}')?;
        }
        write!(out, " {}", self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_the_text_format_of_prometheus() {
        let odd = OwnValue::gauge("x", &[("b", "say \"a\\b\"\n"), ("a", "1")], "s", 0.25);
        assert_eq!((odd.to_string().as_str(), odd.kind()), (r#"x{a="1",b="say \"a\\b\"\n"} 0.25"#, "gauge"));
        let plain = OwnValue::counter("y_total", &[], 3.0);
        assert_eq!((plain.to_string().as_str(), plain.kind()), ("y_total 3", "counter"));
    }
}
