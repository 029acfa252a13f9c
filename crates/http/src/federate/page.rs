//! What was found, written down.

use std::collections::HashSet;
use std::fmt::Write as _;

use ogive_hist::{Count, Histogram, Scheme};
use ogive_model::{HistogramValue, Labels, METRIC_NAME};
use ogive_protocol::families::{FamilyKind, FamilyValue, INSTANCE, put_family};

use super::super::prometheus_json;
use super::last::{LastSample, Value};

/// The buckets of a classic histogram made from a native one are powers of two: a scraper makes a series of each.
const CLASSIC_SCALE: i32 = 0;

/// The label of a bucket's bound.
const BOUND: &str = "le";

/// Families as protobuf.
pub(super) fn protobuf(found: &[LastSample]) -> Vec<u8> {
    let mut out = Vec::new();
    let family = |a: &LastSample, b: &LastSample| a.labels.metric_name() == b.labels.metric_name() && a.kind == b.kind;
    for same in found.chunk_by(family) {
        let samples = same.iter().map(|last| {
            let value = match &last.value {
                Value::Float(value) => FamilyValue::Float(*value),
                Value::Histogram(value) => FamilyValue::Histogram(value),
            };
            (&last.labels, last.time.0, value)
        });
        put_family(&mut out, same[0].labels.metric_name(), same[0].kind, samples);
    }
    out
}

/// Families as text; a comment helps those who look for something that is missing.
pub(super) fn text(found: &[LastSample], cells: usize) -> String {
    let mut out = String::new();
    if cells > 0 {
        writeln!(out, "# {cells} series of delta cells are left out: a scraper would miss those between its scrapes; read them with remote read")
            .expect("writes to memory");
    }
    let stored = Stored::new(found);
    // A name has one type in a text: that of its first series.
    for same in found.chunk_by(|a, b| a.labels.metric_name() == b.labels.metric_name()) {
        put_type(&mut out, same[0].labels.metric_name(), same[0].kind);
        for last in same {
            match &last.value {
                Value::Float(value) => put_sample(&mut out, last, "", None, *value),
                Value::Histogram(value) => match &**value {
                    HistogramValue::Integer(histogram) => put_classic(&mut out, last, histogram, &stored),
                    HistogramValue::Float(histogram) => put_classic(&mut out, last, histogram, &stored),
                },
            }
        }
    }
    out
}

fn put_type(out: &mut String, name: &str, kind: FamilyKind) {
    let kind = match kind {
        FamilyKind::Counter => "counter",
        FamilyKind::Gauge => "gauge",
        FamilyKind::Histogram => "histogram",
        // The text format has no histograms of states.
        FamilyKind::GaugeHistogram | FamilyKind::Untyped => "untyped",
    };
    let name = if is_plain(name, true) { name.to_owned() } else { quoted(name) };
    writeln!(out, "# TYPE {name} {kind}").expect("writes to memory");
}

/// The endings of the series that a classic histogram is.
const PARTS: [&str; 3] = ["_bucket", "_sum", "_count"];

/// Which parts of which classic histograms a page has as separate series: of a sender that writes both kinds, or of a
/// view that was selected by its name. If they were also made from the native histogram, they would be duplicates.
struct Stored(HashSet<(&'static str, Labels)>);

impl Stored {
    fn new(found: &[LastSample]) -> Self {
        let part = |last: &LastSample| {
            let name = last.labels.metric_name();
            let (ending, base) = PARTS.iter().find_map(|ending| Some((*ending, name.strip_suffix(ending)?)))?;
            Some((ending, without_bound(&last.labels).with(METRIC_NAME, base)))
        };
        Self(found.iter().filter(|last| matches!(last.value, Value::Float(_))).filter_map(part).collect())
    }

    fn has(&self, ending: &'static str, histogram: &Labels) -> bool {
        self.0.contains(&(ending, without_bound(histogram)))
    }
}

fn without_bound(labels: &Labels) -> Labels {
    labels.filtered(|name| name != BOUND)
}

/// Cumulative buckets, the sum and the count; but not those that are `stored`.
fn put_classic<C: Count>(out: &mut String, last: &LastSample, histogram: &Histogram<C>, stored: &Stored) {
    if !stored.has("_bucket", &last.labels) {
        put_buckets(out, last, histogram);
    }
    for (ending, value) in [("_sum", histogram.sum_or_estimate()), ("_count", histogram.count.to_f64())] {
        if !stored.has(ending, &last.labels) {
            put_sample(out, last, ending, None, value);
        }
    }
}

fn put_buckets<C: Count>(out: &mut String, last: &LastSample, histogram: &Histogram<C>) {
    let mut total = C::ZERO;
    let put = |out: &mut String, bound: f64, total: C| {
        let mut le = Vec::new();
        prometheus_json::number(&mut le, bound);
        put_sample(out, last, "_bucket", Some(&String::from_utf8_lossy(&le)), total.to_f64());
    };
    if let Scheme::Custom { bounds } = &histogram.scheme {
        for (at, bound) in (0..).zip(bounds.iter()) {
            total = total.plus(histogram.positive.get(at));
            put(out, *bound, total);
        }
    } else {
        let scale = match histogram.scheme {
            Scheme::Exp2 { scale } => i32::from(scale).min(CLASSIC_SCALE),
            _ => CLASSIC_SCALE,
        };
        let coarse = histogram.convert(&Scheme::exp2(scale).expect("a known scale")).0;
        for bucket in coarse.buckets().filter(|bucket| bucket.hi.is_finite()) {
            total = total.plus(bucket.count);
            put(out, bucket.hi, total);
        }
    }
    put(out, f64::INFINITY, histogram.count);
}

/// A line: the name with `ending`, labels, the bound of a bucket, the value and its time.
fn put_sample(out: &mut String, last: &LastSample, ending: &str, bound: Option<&str>, value: f64) {
    let name = format!("{}{ending}", last.labels.metric_name());
    let plain = is_plain(&name, true);
    let mut inside = Vec::new();
    if !plain {
        inside.push(quoted(&name));
    }
    // A label with the name of the bound would appear twice.
    let is_own = |label: &str| label != METRIC_NAME && (bound.is_none() || label != BOUND);
    for (label, value) in last.labels.iter().filter(|(label, _)| is_own(label)) {
        let label = if is_plain(label, false) { label.to_owned() } else { quoted(label) };
        inside.push(format!("{label}={}", quoted(value)));
    }
    // Otherwise the scraper would set the instance to this server; with honor_labels, an empty one is removed.
    if last.labels.get(INSTANCE).is_empty() {
        inside.push(format!("{INSTANCE}=\"\""));
    }
    inside.extend(bound.map(|bound| format!("{BOUND}=\"{bound}\"")));
    if plain {
        out.push_str(&name);
    }
    if !inside.is_empty() {
        write!(out, "{{{}}}", inside.join(",")).expect("writes to memory");
    }
    let mut number = Vec::new();
    prometheus_json::number(&mut number, value);
    let number = String::from_utf8(number).expect("digits");
    writeln!(out, " {number} {}", last.time.0).expect("writes to memory");
}

/// Whether a name can be written without quotes.
fn is_plain(name: &str, is_metric: bool) -> bool {
    let may = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || (is_metric && byte == b':');
    !name.is_empty() && name.bytes().all(may) && !name.as_bytes()[0].is_ascii_digit()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
