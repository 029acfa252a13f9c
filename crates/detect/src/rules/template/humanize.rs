//! Numbers for people: the `humanize` functions.

use super::number::float_text;
use super::time::time_text;
use super::value::Value;

/// Prefixes from a thousand up.
const LARGE: [&str; 8] = ["k", "M", "G", "T", "P", "E", "Z", "Y"];
/// Prefixes from a thousandth down.
const SMALL: [&str; 8] = ["m", "u", "n", "p", "f", "a", "z", "y"];
/// Prefixes of powers of 1024.
const BINARY: [&str; 8] = ["ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi"];

fn short(value: f64) -> String {
    float_text(value, 'g', Some(4))
}

/// Divides by `base` until the number is below it.
fn divided(mut value: f64, base: f64, prefixes: [&'static str; 8]) -> (f64, &'static str) {
    let mut prefix = "";
    for next in prefixes {
        if value.abs() < base {
            break;
        }
        prefix = next;
        value /= base;
    }
    (value, prefix)
}

/// Multiplies by 1000 until the number is 1 or more.
fn multiplied(mut value: f64) -> (f64, &'static str) {
    let mut prefix = "";
    for next in SMALL {
        if value.abs() >= 1.0 {
            break;
        }
        prefix = next;
        value *= 1000.0;
    }
    (value, prefix)
}

/// `1.234k`.
pub(crate) fn humanize(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return short(value);
    }
    let (value, prefix) = if value.abs() >= 1.0 { divided(value, 1000.0, LARGE) } else { multiplied(value) };
    format!("{}{prefix}", short(value))
}

/// `1.234ki`.
pub(crate) fn humanize_1024(value: f64) -> String {
    if value.abs() <= 1.0 || !value.is_finite() {
        return short(value);
    }
    let (value, prefix) = divided(value, 1024.0, BINARY);
    format!("{}{prefix}", short(value))
}

/// Seconds as `1d 2h 3m 4s`.
pub(crate) fn humanize_duration(value: f64) -> String {
    if !value.is_finite() {
        return short(value);
    }
    if value == 0.0 {
        return "0s".to_owned();
    }
    if value.abs() < 1.0 {
        let (value, prefix) = multiplied(value);
        return format!("{}{prefix}s", short(value));
    }
    let (sign, size) = (if value < 0.0 { "-" } else { "" }, value.abs());
    let whole = size as i64;
    let (days, hours, minutes, seconds) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60);
    if days != 0 {
        format!("{sign}{days}d {hours}h {minutes}m {seconds}s")
    } else if hours != 0 {
        format!("{sign}{hours}h {minutes}m {seconds}s")
    } else if minutes != 0 {
        format!("{sign}{minutes}m {seconds}s")
    } else {
        format!("{sign}{}s", short(size))
    }
}

/// `12.34%`.
pub(crate) fn humanize_percentage(value: f64) -> String {
    format!("{}%", short(value * 100.0))
}

/// Seconds since 1970 as a time.
pub(crate) fn humanize_timestamp(value: f64) -> Result<String, String> {
    if value.is_finite() { Ok(time_text(to_time(value)?)) } else { Ok(short(value)) }
}

/// Seconds since 1970 as nanoseconds, of whole milliseconds.
pub(crate) fn to_time(value: f64) -> Result<i128, String> {
    Ok(i128::from(nanoseconds(value, "timestamp")? / 1_000_000 * 1_000_000))
}

/// Seconds as nanoseconds.
pub(crate) fn to_duration(value: f64) -> Result<i64, String> {
    nanoseconds(value, "duration")
}

fn nanoseconds(value: f64, what: &str) -> Result<i64, String> {
    if !value.is_finite() {
        return Err("value is NaN or Inf".to_owned());
    }
    let ns = value * 1e9;
    if ns >= i64::MAX as f64 || ns < i64::MIN as f64 {
        let value = float_text(value, 'g', None);
        return Err(format!("{value} cannot be represented as a nanoseconds {what} since it overflows int64"));
    }
    Ok(ns as i64)
}

/// A number of anything that has one.
pub(crate) fn number(value: &Value) -> Result<f64, String> {
    match value {
        Value::Float(value) => Ok(*value),
        Value::Int(value) => Ok(*value as f64),
        Value::Duration(ns) => Ok(*ns as f64 / 1e9),
        Value::Text(text) => super::number::parse_float(text)
            .ok_or_else(|| format!("strconv.ParseFloat: parsing {:?}: invalid syntax", text.as_ref())),
        other => Err(format!("can't convert {} to float", other.type_name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shortened() {
        let texts = [0.0, 1.0, 1_234_567.0, 0.12, -1234.0, f64::INFINITY].map(humanize);
        assert_eq!(texts, ["0", "1", "1.235M", "120m", "-1.234k", "+Inf"]);
        assert_eq!([0.5, 1024.0, 1_048_576.0].map(humanize_1024), ["0.5", "1ki", "1Mi"]);
        assert_eq!(humanize(1_048_576.0), "1.049M");
        assert_eq!(humanize_percentage(0.123_456), "12.35%");
    }

    #[test]
    fn durations_and_times_are_split() {
        let texts = [0.0, 1.5, 61.0, 3600.0, 86_400.0, 90_061.0, -62.0, 0.001, 59.9].map(humanize_duration);
        let expected = ["0s", "1.5s", "1m 1s", "1h 0m 0s", "1d 0h 0m 0s", "1d 1h 1m 1s", "-1m 2s", "1ms", "59.9s"];
        assert_eq!(texts, expected);
        assert_eq!(humanize_timestamp(1_643_114_203.0).unwrap(), "2022-01-25 12:36:43 +0000 UTC");
        assert!(humanize_timestamp(1e300).is_err());
    }
}
