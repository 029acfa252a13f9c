//! Names of metrics and labels, as Prometheus's own OTLP endpoint makes them.
//!
//! Format: the rules of github.com/prometheus/otlptranslator (strategies of `otlp.translation_strategy` in Prometheus
//! 3) and of opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics.

use std::borrow::Cow;

use ogive_model::Error as SeriesError;

/// How names become Prometheus names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// What is no letter, digit or underscore becomes an underscore.
    pub escape: bool,
    /// A unit and `total` or `ratio` stand behind a metric's name.
    pub suffixes: bool,
}

/// What decides which suffix a metric's name gets beside its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// A sum that only grows: `total`.
    Counter,
    /// A state: `ratio` when its unit is 1.
    Gauge,
    /// Neither.
    Other,
}

/// UCUM codes and the words that Prometheus has for them.
const UNITS: &[(&str, &str)] = &[
    ("d", "days"),
    ("h", "hours"),
    ("min", "minutes"),
    ("s", "seconds"),
    ("ms", "milliseconds"),
    ("us", "microseconds"),
    ("ns", "nanoseconds"),
    ("By", "bytes"),
    ("KiBy", "kibibytes"),
    ("MiBy", "mebibytes"),
    ("GiBy", "gibibytes"),
    ("TiBy", "tibibytes"),
    ("KBy", "kilobytes"),
    ("MBy", "megabytes"),
    ("GBy", "gigabytes"),
    ("TBy", "terabytes"),
    ("m", "meters"),
    ("V", "volts"),
    ("A", "amperes"),
    ("J", "joules"),
    ("W", "watts"),
    ("g", "grams"),
    ("Cel", "celsius"),
    ("Hz", "hertz"),
    ("1", ""),
    ("%", "percent"),
];

/// The same behind a slash.
const PER_UNITS: &[(&str, &str)] =
    &[("s", "second"), ("m", "minute"), ("h", "hour"), ("d", "day"), ("w", "week"), ("mo", "month"), ("y", "year")];

impl Translation {
    /// Prometheus' default: `http.server.duration` in `s` is `http_server_duration_seconds`.
    pub const UNDERSCORES: Self = Self { escape: true, suffixes: true };

    /// The name of a metric; empty when nothing of it is left.
    pub(super) fn metric(self, name: &str, unit: &str, growth: Growth) -> String {
        match (self.escape, self.suffixes) {
            (true, true) => escaped_with_suffixes(name, unit, growth),
            (true, false) => escaped(name),
            (false, true) => kept_with_suffixes(name, unit, growth),
            (false, false) => name.to_owned(),
        }
    }

    /// The name of a label.
    ///
    /// # Errors
    /// When nothing but underscores is left of it: two such attributes could not be distinguished.
    pub(super) fn label(self, name: &str) -> Result<Cow<'_, str>, SeriesError> {
        let label = if self.escape { escaped_label(name) } else { Cow::Borrowed(name) };
        if label.bytes().all(|byte| byte == b'_') {
            return Err(SeriesError::Malformed(format!(
                "the attribute {name:?} would become the label {label:?}; give it a letter or a digit, or start the server with \
                 --otlp-translation NoTranslation"
            )));
        }
        Ok(label)
    }
}

fn escaped_label(name: &str) -> Cow<'_, str> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut label = if name.chars().all(fits) {
        Cow::Borrowed(name)
    } else {
        name.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect()
    };
    // A name may not begin with a digit; two underscores mean one that is reserved, and a single one is made neither.
    if label.starts_with(|first: char| first.is_ascii_digit()) {
        label.to_mut().insert_str(0, "key_");
    } else if label.starts_with('_') && !label.starts_with("__") {
        label.to_mut().insert_str(0, "key");
    }
    label
}

/// Whether a metric's name may have it.
fn is_of_metric(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == ':'
}

/// What a unit says: what is measured, and what it is divided by (`per_second`), as it is written.
fn units(unit: &str) -> (&str, String) {
    let word = |code: &'_ str, known: &[(&str, &'static str)]| {
        known.iter().find(|(known, _)| *known == code).map(|(_, word)| *word)
    };
    // What stands in braces is a remark and no unit.
    let code = |text: &str| -> bool { !text.is_empty() && !text.contains(['{', '}']) };
    let (main, per) = unit.split_once('/').unwrap_or((unit, ""));
    let (main, per) = (main.trim(), per.trim());
    let main = if code(main) { word(main, UNITS).unwrap_or(main) } else { "" };
    let per = if code(per) { word(per, PER_UNITS).unwrap_or(per) } else { "" };
    (main, if per.is_empty() { String::new() } else { format!("per_{per}") })
}

/// The suffix beside the unit's.
fn last(unit: &str, growth: Growth) -> &'static str {
    match growth {
        Growth::Counter => "total",
        Growth::Gauge if unit == "1" => "ratio",
        Growth::Gauge | Growth::Other => "",
    }
}

/// A unit in the letters that a name may have: runs of others are one underscore, and none stands in front.
fn escaped_unit(unit: &str) -> String {
    let mut out = String::with_capacity(unit.len());
    for letter in unit.chars() {
        if is_of_metric(letter) {
            out.push(letter);
        } else if !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
    }
    out
}

fn escaped_with_suffixes(name: &str, unit: &str, growth: Growth) -> String {
    let (main, per) = units(unit);
    let (main, per) = (escaped_unit(main), escaped_unit(&per));
    let per = if per == "per_" { "" } else { per.strip_suffix('_').unwrap_or(&per) };
    let mut words: Vec<&str> = name.split(|letter| !is_of_metric(letter)).filter(|word| !word.is_empty()).collect();
    // A unit of several words is none of the name's, as the reference has it: `per_second` always follows.
    let is_new = |words: &[&str], suffix: &str| !suffix.is_empty() && !words.contains(&suffix);
    let (adds_main, adds_per) = (is_new(&words, &main), is_new(&words, per));
    if adds_main {
        words.push(if adds_per { main.strip_suffix('_').unwrap_or(&main) } else { &main });
    }
    if adds_per {
        words.push(per);
    }
    let last = last(unit, growth);
    if !last.is_empty() {
        words.retain(|word| *word != last);
        words.push(last);
    }
    not_a_digit(words.join("_"))
}

/// Without suffixes underscores stay as they are.
fn escaped(name: &str) -> String {
    let words = name.split(|letter| !is_of_metric(letter) && letter != '_').filter(|word| !word.is_empty());
    let escaped = not_a_digit(words.collect::<Vec<_>>().join("_"));
    // What is left of nothing but other letters is no name, unless it was one before.
    if escaped != name && escaped.bytes().all(|byte| byte == b'_') { String::new() } else { escaped }
}

fn not_a_digit(mut name: String) -> String {
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        name.insert(0, '_');
    }
    name
}

fn kept_with_suffixes(name: &str, unit: &str, growth: Growth) -> String {
    let ((main, per), last) = (units(unit), last(unit, growth));
    // The outer suffixes that are there already move to the end.
    let mut out = [last, &per].into_iter().fold(name, without).to_owned();
    let main = if out.ends_with(main) { "" } else { main };
    for suffix in [main, &per, last].into_iter().filter(|suffix| !suffix.is_empty()) {
        out.push('_');
        out.push_str(suffix);
    }
    out
}

/// `name` without `suffix` and the letter in front of it, whatever that is, if more than these is there.
fn without<'a>(name: &'a str, suffix: &str) -> &'a str {
    let short = name.strip_suffix(suffix).filter(|_| !suffix.is_empty()).map(str::char_indices);
    match short.and_then(|mut letters| letters.next_back()) {
        Some((end, _)) if end > 0 => &name[..end],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_named_as_prometheus_names_them() {
        use Growth::{Counter, Gauge, Other};
        for (name, unit, growth, escaped, kept) in [
            (
                "http.server.request.duration",
                "s",
                Other,
                "http_server_request_duration_seconds",
                "http.server.request.duration_seconds",
            ),
            ("system.io", "By", Counter, "system_io_bytes_total", "system.io_bytes_total"),
            ("requests", "{request}", Counter, "requests_total", "requests_total"),
            ("requests_total", "1", Counter, "requests_total", "requests_total"),
            ("total.requests", "", Counter, "requests_total", "total.requests_total"),
            ("cpu.utilization", "1", Gauge, "cpu_utilization_ratio", "cpu.utilization_ratio"),
            ("requêsts", "1/s", Gauge, "requ_sts_per_second", "requêsts_per_second"),
            ("@#$%", "", Counter, "total", "@#$%_total"),
            ("a__b", "foo__bar-", Counter, "a_b_foo_bar__total", "a__b_foo__bar-_total"),
            ("a", "foo-/bar-", Counter, "a_foo_per_bar_total", "a_foo-_per_bar-_total"),
            (
                "custom_metric",
                "unit@with#special/chars",
                Gauge,
                "custom_metric_unit_with_special_per_chars",
                "custom_metric_unit@with#special_per_chars",
            ),
            ("custom_metric", "By/{custom}", Gauge, "custom_metric_bytes", "custom_metric_bytes"),
            ("a", "-/-", Gauge, "a", "a_-_per_-"),
            ("a", " 1 ", Gauge, "a", "a"),
            ("a_foo_bar", "foo_bar", Gauge, "a_foo_bar_foo_bar", "a_foo_bar"),
            ("a:b", "c:d", Gauge, "a:b_c:d", "a:b_c:d"),
            ("bar.total.total", "", Counter, "bar_total", "bar.total_total"),
            ("subtotal", "", Counter, "subtotal_total", "su_total"),
            ("total", "", Counter, "total", "total_total"),
            ("queue.bytes.sent", "By", Counter, "queue_bytes_sent_total", "queue.bytes.sent_bytes_total"),
            ("system.cpu.seconds.used", "s", Gauge, "system_cpu_seconds_used", "system.cpu.seconds.used_seconds"),
            ("net.speed", "By/s", Gauge, "net_speed_bytes_per_second", "net.speed_bytes_per_second"),
            ("net.bytes_per_second", "By/s", Gauge, "net_bytes_per_second_per_second", "net.bytes_per_second"),
            ("errors", "{error}/min", Gauge, "errors_per_min", "errors_per_min"),
            ("5xx", "", Counter, "_5xx_total", "5xx_total"),
            ("größe", "", Other, "gr_e", "größe"),
            ("a..b", "", Other, "a_b", "a..b"),
            ("temperature", "Cel", Gauge, "temperature_celsius", "temperature_celsius"),
            ("odd", "foo-bar", Gauge, "odd_foo_bar", "odd_foo-bar"),
        ] {
            assert_eq!(Translation::UNDERSCORES.metric(name, unit, growth), escaped, "{name} {unit}");
            let utf8 = Translation { escape: false, suffixes: true };
            assert_eq!(utf8.metric(name, unit, growth), kept, "{name} {unit}");
            assert_eq!(Translation { escape: false, suffixes: false }.metric(name, unit, growth), name);
        }
        let plain = Translation { escape: true, suffixes: false };
        for (name, escaped) in [
            ("system.io", "system_io"),
            ("metric@@##$$name", "metric_name"),
            ("a__b", "a__b"),
            ("_a_.b_", "_a__b_"),
            ("123metric", "_123metric"),
            ("@#$%", ""),
            ("_@_", ""),
            ("__", "__"),
            ("", ""),
        ] {
            assert_eq!(plain.metric(name, "By", Counter), escaped, "{name}");
        }
    }

    /// An attribute `ünï` became `_n_`, where Prometheus writes `key_n_`: the prefix was decided by the name's first
    /// letter before it was escaped. What is left of a name decides now, and one of which nothing is left is refused.
    #[test]
    fn labels_are_named_as_prometheus_names_them() {
        let (escaped, kept) = (Translation::UNDERSCORES, Translation { escape: false, suffixes: true });
        for (name, label) in [
            ("http.method", "http_method"),
            ("plain_1", "plain_1"),
            ("1st", "key_1st"),
            ("_private", "key_private"),
            ("ünï", "key_n_"),
            (".a", "key_a"),
            (".1", "key_1"),
            ("__reserved__", "__reserved__"),
            ("__two", "__two"),
            ("__a.b", "__a_b"),
            ("..a", "__a"),
            ("_.a", "__a"),
            ("a b:c", "a_b_c"),
            ("a..b", "a__b"),
            ("straße", "stra_e"),
            ("label!with&special$chars)", "label_with_special_chars_"),
            ("label_with_foreign_characters_字符", "label_with_foreign_characters___"),
        ] {
            assert_eq!(escaped.label(name).unwrap(), label);
            assert_eq!(kept.label(name).unwrap(), name);
        }
        for (name, is_kept) in [("ようこそ", true), ("--", true), ("_", false), ("__", false), ("", false)] {
            let is_lost =
                name != "_" && escaped.label(name).is_err() || name == "_" && escaped.label(name).unwrap() == "key_";
            assert!(is_lost, "{name}");
            assert_eq!(kept.label(name).is_ok(), is_kept, "{name}");
        }
    }
}
