//! Names of metrics and labels, as Prometheus' own OTLP endpoint makes them.
//!
//! Format: the rules of github.com/prometheus/otlptranslator (strategies of `otlp.translation_strategy` in Prometheus 3) and of
//! opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics.

use std::borrow::Cow;

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

    /// The name of a metric.
    pub(super) fn metric(self, name: &str, unit: &str, growth: Growth) -> String {
        let (main, per) = if self.suffixes { self.units(unit) } else { (String::new(), String::new()) };
        let last = match growth {
            _ if !self.suffixes => "",
            Growth::Counter => "total",
            Growth::Gauge if unit.trim() == "1" => "ratio",
            Growth::Gauge | Growth::Other => "",
        };
        if self.escape { escaped_metric(name, &main, &per, last) } else { metric(name, &main, &per, last) }
    }

    /// The words of a unit: what is measured, and what it is divided by (`per_second`).
    fn units(self, unit: &str) -> (String, String) {
        let word = |code: &str, known: &[(&str, &str)]| {
            let code = code.trim();
            // What stands in braces is a remark and no unit.
            if code.is_empty() || code.contains(['{', '}']) {
                return String::new();
            }
            let word = known.iter().find(|(known, _)| *known == code).map_or(code, |(_, word)| word);
            if self.escape { tokens(word).collect::<Vec<_>>().join("_") } else { word.to_owned() }
        };
        let (main, per) = unit.split_once('/').map_or((unit, ""), |(main, per)| (main, per));
        let per = word(per, PER_UNITS);
        (word(main, UNITS), if per.is_empty() { per } else { format!("per_{per}") })
    }

    /// The name of a label.
    pub(super) fn label(self, name: &str) -> Cow<'_, str> {
        if !self.escape {
            return Cow::Borrowed(name);
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let first = name.as_bytes().first().copied().unwrap_or(b'a');
        let is_reserved = name.starts_with("__") && name.ends_with("__");
        if name.bytes().all(fits) && first.is_ascii_alphabetic() || is_reserved && name.bytes().all(fits) {
            return Cow::Borrowed(name);
        }
        let mut out = String::with_capacity(name.len() + 4);
        match first {
            b'0'..=b'9' => out.push_str("key_"),
            b'_' if !name.starts_with("__") => out.push_str("key"),
            _ => {}
        }
        out.extend(name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }));
        Cow::Owned(out)
    }
}

/// The words of a name: what stands between the characters that a metric's name may not have, and underscores.
fn tokens(name: &str) -> impl Iterator<Item = &str> {
    name.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != ':').filter(|token| !token.is_empty())
}

fn escaped_metric(name: &str, main: &str, per: &str, last: &str) -> String {
    let mut words: Vec<&str> = tokens(name).collect();
    for suffix in [main, per] {
        // `per_second` is two words: they are looked for as one text.
        if !suffix.is_empty() && !contains(&words, suffix) {
            words.push(suffix);
        }
    }
    if !last.is_empty() {
        words.retain(|word| *word != last);
        words.push(last);
    }
    let mut out = words.join("_");
    if out.starts_with(|first: char| first.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}

/// Whether `words` has those of `suffix` beside each other.
fn contains(words: &[&str], suffix: &str) -> bool {
    let wanted: Vec<&str> = suffix.split('_').collect();
    words.windows(wanted.len()).any(|window| window == wanted)
}

fn metric(name: &str, main: &str, per: &str, last: &str) -> String {
    let mut out = name;
    // The outer suffixes that are there already move to the end.
    for suffix in [last, per].into_iter().filter(|suffix| !suffix.is_empty()) {
        if let Some(short) = out.strip_suffix(suffix) {
            out = short.strip_suffix(|letter: char| !letter.is_alphanumeric()).unwrap_or(out);
        }
    }
    let mut out = out.to_owned();
    let main = if out.ends_with(main) { "" } else { main };
    for suffix in [main, per, last].into_iter().filter(|suffix| !suffix.is_empty()) {
        if !out.is_empty() {
            out.push('_');
        }
        out.push_str(suffix);
    }
    out
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
            ("system.cpu.seconds.used", "s", Gauge, "system_cpu_seconds_used", "system.cpu.seconds.used_seconds"),
            ("net.speed", "By/s", Gauge, "net_speed_bytes_per_second", "net.speed_bytes_per_second"),
            ("net.bytes_per_second", "By/s", Gauge, "net_bytes_per_second", "net.bytes_per_second"),
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
        assert_eq!(plain.metric("system.io", "By", Counter), "system_io");
    }

    #[test]
    fn labels_are_named_as_prometheus_names_them() {
        for (name, escaped) in [
            ("http.method", "http_method"),
            ("plain_1", "plain_1"),
            ("1st", "key_1st"),
            ("_private", "key_private"),
            ("__reserved__", "__reserved__"),
            ("a b:c", "a_b_c"),
            ("straße", "stra_e"),
        ] {
            assert_eq!(Translation::UNDERSCORES.label(name), escaped);
            assert_eq!(Translation { escape: false, suffixes: true }.label(name), name);
        }
    }
}
