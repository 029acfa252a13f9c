//! Numbers of the text formats, and bounds written as label values.

use std::borrow::Cow;

use ogive_model::float::open_metrics;

/// The number that `text` writes: decimal, or `Inf`, `Infinity` and `NaN` in any case. Hexadecimal, underscores and
/// what no double can hold are none.
pub(super) fn number(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    // 1e999 is refused: a number that turned into infinity on the way would be believed.
    let is_written = !value.is_infinite() || text.trim_start_matches(['+', '-']).starts_with(['i', 'I']);
    is_written.then_some(value)
}

/// The milliseconds of a time in seconds.
pub(super) fn milliseconds(seconds: f64) -> Option<i64> {
    let ms = (seconds * 1e3).round();
    // 9.2e18 is below 2^63: within, the conversion is exact.
    (ms.abs() < 9.2e18).then_some(ms as i64)
}

/// A label's value, as [`open_metrics`] writes it when it is a number. So one bound is one label, whatever protocol it
/// came by.
pub(super) fn canonical(text: Cow<'_, str>) -> Cow<'_, str> {
    match number(&text) {
        Some(value) => {
            let written = open_metrics(value);
            if written == text { text } else { Cow::Owned(written) }
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal() {
        for (text, value) in [
            ("1", 1.0),
            ("+1.5", 1.5),
            (".5", 0.5),
            ("1e308", 1e308),
            ("-Inf", f64::NEG_INFINITY),
            ("+inf", f64::INFINITY),
            ("infinity", f64::INFINITY),
            ("1e-400", 0.0),
        ] {
            assert_eq!(number(text), Some(value), "{text}");
        }
        assert!(number("NaN").unwrap().is_nan() && number("nan").unwrap().is_nan());
        for text in ["", "1e999", "-1e400", "0x1p3", "1_000", "1,5", "ten", "1 ", "--1", "0b1"] {
            assert_eq!(number(text), None, "{text:?}");
        }
    }

    #[test]
    fn bounds_are_written_one_way() {
        for (value, text) in [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (0.5, "0.5"),
            (-2.0, "-2.0"),
            (100_000.0, "100000.0"),
            (1e6, "1e+06"),
            (1.5e6, "1.5e+06"),
            (1_234_567.0, "1.234567e+06"),
            (1_234_567.5, "1.2345675e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e21, "1e+21"),
            (1e-9, "1e-09"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(open_metrics(value), text);
        }
        assert_eq!(canonical("1".into()), "1.0");
        assert_eq!(canonical("+Inf".into()), "+Inf");
        assert_eq!(canonical("wide".into()), "wide");
    }

    #[test]
    fn times_are_rounded_to_milliseconds() {
        assert_eq!(milliseconds(1_520_879_607.789), Some(1_520_879_607_789));
        assert_eq!(milliseconds(-0.0005), Some(-1));
        assert_eq!(milliseconds(1e300), None);
        assert_eq!(milliseconds(f64::NAN), None);
    }
}
