//! Stored samples as OpenMetrics 1.0 with times.
//!
//! Invariants: what is written is a whole text once [`Writer::end`] was called; the samples of one series stand
//! together. A cell, and a histogram that is a state, is a `gaugehistogram`; one that counts on is a `histogram`. Their
//! buckets are cumulative by upper bounds: all bounds that any sample of the series has in what is written at once.
//! Texts and markers of a series' end have no form here and are counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ogive_hist::{Count, Histogram};
use ogive_model::{Batch, Kind, METRIC_NAME, STALE, Sample, SeriesDef, Temporality, Value, float};

/// Writes samples.
#[derive(Debug, Default)]
pub struct Writer {
    text: String,
    /// Name and type of the metric whose lines are being written.
    open: (String, &'static str),
    left_out: u64,
    samples: u64,
}

impl Writer {
    /// Writes the samples of a batch, series by series.
    pub fn batch(&mut self, batch: &Batch) {
        let mut of_series: BTreeMap<u32, Vec<&Sample>> = BTreeMap::new();
        for sample in batch.samples.iter().flatten() {
            of_series.entry(sample.series).or_default().push(sample);
        }
        let mut all: Vec<(&SeriesDef, Vec<&Sample>)> = of_series
            .into_iter()
            .filter_map(|(series, samples)| Some((batch.series[series as usize].as_ref().ok()?, samples)))
            .collect();
        all.sort_by(|a, b| (a.0.meta.kind, &a.0.labels).cmp(&(b.0.meta.kind, &b.0.labels)));
        for (series, samples) in &mut all {
            let before = samples.len();
            samples.retain(|sample| has_form(&sample.value));
            self.left_out += (before - samples.len()) as u64;
            self.samples += samples.len() as u64;
            samples.sort_by_key(|sample| sample.time_ns);
            if !samples.is_empty() {
                self.series(series, samples);
            }
        }
    }

    fn series(&mut self, series: &SeriesDef, samples: &[&Sample]) {
        let name = series.labels.metric_name();
        let is_counted = series.meta.temporality == Temporality::Cumulative;
        match series.meta.kind {
            Kind::Text => unreachable!("texts were left out"),
            Kind::Float => {
                match name.strip_suffix("_total") {
                    Some(family) if is_counted => self.family(family, "counter"),
                    _ if is_counted || series.meta.temporality == Temporality::Delta => self.family(name, "unknown"),
                    _ => self.family(name, "gauge"),
                }
                let head = head(series, "", None);
                for sample in samples {
                    if let Value::Float(value) = sample.value {
                        self.line(&head, value, sample.time_ms());
                    }
                }
            }
            Kind::Histogram => {
                self.family(name, if is_counted { "histogram" } else { "gaugehistogram" });
                self.histograms(series, samples, is_counted);
            }
        }
    }

    fn family(&mut self, name: &str, kind: &'static str) {
        if (&*self.open.0, self.open.1) != (name, kind) {
            self.open = (name.to_owned(), kind);
            writeln!(self.text, "# TYPE {} {kind}", written_name(name)).expect("a String takes all");
        }
    }

    fn histograms(&mut self, series: &SeriesDef, samples: &[&Sample], is_counted: bool) {
        let [count, sum] = if is_counted { ["_count", "_sum"] } else { ["_gcount", "_gsum"] };
        // By their bits: the order of doubles that are no NaN.
        let mut bounds: BTreeMap<u64, f64> = BTreeMap::new();
        for sample in samples {
            each_bound(&sample.value, &mut |bound, _| {
                if bound < f64::INFINITY {
                    bounds.insert(ordered(bound), bound);
                }
            });
        }
        let heads: Vec<(u64, String)> = bounds
            .values()
            .chain([&f64::INFINITY])
            .map(|bound| (ordered(*bound), head(series, "_bucket", Some(*bound))))
            .collect();
        let (count, sum) = (head(series, count, None), head(series, sum, None));
        for sample in samples {
            let mut counts: BTreeMap<u64, f64> = BTreeMap::new();
            each_bound(&sample.value, &mut |bound, count| *counts.entry(ordered(bound)).or_default() += count);
            let (all, total) = match &sample.value {
                Value::Histogram(one) => (one.count.to_f64(), one.sum),
                Value::FloatHistogram(one) => (one.count, one.sum),
                _ => continue,
            };
            let (mut below, time_ms) = (0.0, sample.time_ms());
            let (last, bounded) = heads.split_last().expect("there is one for infinity");
            for (bound, head) in bounded {
                below += counts.get(bound).copied().unwrap_or(0.0);
                self.line(head, below, time_ms);
            }
            // NaN values are only in the last bucket.
            self.line(&last.1, all, time_ms);
            // A cumulative histogram has no sum that may fall.
            let may_fall = is_counted && bounds.values().any(|bound| *bound < 0.0);
            if let Some(total) = total.filter(|total| !total.is_nan() && !may_fall) {
                self.line(&count, all, time_ms);
                self.line(&sum, total, time_ms);
            }
        }
    }

    fn line(&mut self, head: &str, value: f64, time_ms: i64) {
        let value = float::plain(value);
        let (sign, ms) = (if time_ms < 0 { "-" } else { "" }, time_ms.unsigned_abs());
        writeln!(self.text, "{head} {value} {sign}{}.{:03}", ms / 1000, ms % 1000).expect("a String takes all");
    }

    /// The output since the last call.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Ends the text; how many samples were written, and how many left out.
    pub fn end(&mut self) -> (u64, u64) {
        self.text.push_str("# EOF\n");
        (self.samples, self.left_out)
    }
}

fn has_form(value: &Value) -> bool {
    match value {
        Value::Float(value) => value.to_bits() != STALE,
        Value::Text(_) => false,
        Value::Histogram(one) => one.sum.is_none_or(|sum| sum.to_bits() != STALE),
        Value::FloatHistogram(one) => one.sum.is_none_or(|sum| sum.to_bits() != STALE),
    }
}

/// Upper bound and count of each bucket that is not empty.
fn each_bound(value: &Value, each: &mut dyn FnMut(f64, f64)) {
    fn each_of<C: Count>(one: &Histogram<C>, each: &mut dyn FnMut(f64, f64)) {
        one.buckets().for_each(|bucket| each(bucket.hi, bucket.count.to_f64()));
    }
    match value {
        Value::Histogram(one) => each_of(one, each),
        Value::FloatHistogram(one) => each_of(one, each),
        _ => {}
    }
}

/// A number whose order is that of doubles.
fn ordered(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

fn is_bare(name: &str, colons: bool) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':' && colons;
    name.starts_with(|c: char| !c.is_ascii_digit()) && name.chars().all(fits)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\""))
}

fn written_name(name: &str) -> String {
    if is_bare(name, true) { name.to_owned() } else { quoted(name) }
}

/// The name and labels of a series in a line.
fn head(series: &SeriesDef, suffix: &str, bound: Option<f64>) -> String {
    let name = format!("{}{suffix}", series.labels.metric_name());
    let mut parts: Vec<String> = Vec::new();
    let is_plain = is_bare(&name, true);
    if !is_plain {
        parts.push(quoted(&name));
    }
    for (label, value) in series.labels.iter().filter(|(label, _)| *label != METRIC_NAME) {
        // A histogram with a label of that name would have it twice.
        let label = if bound.is_some() && label == "le" { "exported_le" } else { label };
        let label = if is_bare(label, false) { label.to_owned() } else { quoted(label) };
        parts.push(format!("{label}={}", quoted(value)));
    }
    if let Some(bound) = bound {
        parts.push(format!("le=\"{}\"", float::word(bound).map_or_else(|| format!("{bound:?}"), str::to_owned)));
    }
    let labels = if parts.is_empty() { String::new() } else { format!("{{{}}}", parts.join(",")) };
    if is_plain { name + &labels } else { labels }
}

#[cfg(test)]
mod tests {
    use ogive_model::SeriesMeta;

    use super::*;

    fn series(pairs: &[(&str, &str)], kind: Kind, temporality: Temporality) -> Result<SeriesDef, ogive_model::Error> {
        let meta = SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 };
        SeriesDef::new(pairs.iter().copied(), meta)
    }

    #[test]
    fn series_stand_together_and_cells_have_all_bounds() {
        let mut one = Histogram::log_linear();
        one.record_n(0.5, 3);
        let mut other = Histogram::log_linear();
        other.record_n(-2.0, 1);
        other.record_n(0.0, 2);
        let sample =
            |series, time_ms: i64, value| Ok(Sample { series, time_ns: time_ms * 1_000_000, start_ns: None, value });
        let batch = Batch {
            series: vec![
                series(&[("__name__", "b"), ("x", "a\"\\\n")], Kind::Float, Temporality::Gauge),
                series(&[("__name__", "c_total")], Kind::Float, Temporality::Cumulative),
                series(&[("__name__", "h")], Kind::Histogram, Temporality::Delta),
                series(&[("__name__", "b"), ("y.z", "1")], Kind::Float, Temporality::Gauge),
                series(&[("__name__", "log")], Kind::Text, Temporality::Gauge),
            ],
            samples: vec![
                sample(0, 2_000, Value::Float(f64::NAN)),
                sample(3, 1_500, Value::Float(1.0)),
                sample(0, 1_001, Value::Float(-0.25)),
                sample(1, 1_000, Value::Float(1e21)),
                sample(2, 1_000, Value::Histogram(Box::new(one))),
                sample(2, 2_000, Value::Histogram(Box::new(other))),
                sample(4, 2_000, Value::Text("a".into())),
            ],
            ..Batch::default()
        };
        let mut writer = Writer::default();
        writer.batch(&batch);
        assert_eq!(writer.end(), (6, 1));
        let expected = "# TYPE b gauge\nb{x=\"a\\\"\\\\\\n\"} -0.25 1.001\nb{x=\"a\\\"\\\\\\n\"} NaN 2.000\n\
            b{\"y.z\"=\"1\"} 1 1.500\n# TYPE c counter\nc_total 1000000000000000000000 1.000\n# TYPE h gaugehistogram\n\
            h_bucket{le=\"-2.0\"} 0 1.000\nh_bucket{le=\"0.0\"} 0 1.000\nh_bucket{le=\"0.51\"} 3 1.000\nh_bucket{le=\"+Inf\"} 3 1.000\n\
            h_gcount 3 1.000\nh_gsum 1.5 1.000\n\
            h_bucket{le=\"-2.0\"} 1 2.000\nh_bucket{le=\"0.0\"} 3 2.000\nh_bucket{le=\"0.51\"} 3 2.000\nh_bucket{le=\"+Inf\"} 3 2.000\n\
            h_gcount 3 2.000\nh_gsum -2 2.000\n# EOF\n";
        assert_eq!(writer.take(), expected);
    }
}
