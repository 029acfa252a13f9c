//! Floating-point numbers as texts, as Go and Prometheus write them.
//!
//! Format: `NaN`, `+Inf` and `-Inf` stand for what has no digits. Digits are the fewest that read back as the same
//! number. An exponent has a sign and at least two digits: `1e+06`.

/// The word that stands for `value`; `None` for a finite number.
#[must_use]
pub fn word(value: f64) -> Option<&'static str> {
    match value {
        f64::INFINITY => Some("+Inf"),
        f64::NEG_INFINITY => Some("-Inf"),
        _ if value.is_nan() => Some("NaN"),
        _ => None,
    }
}

/// The number that one of these words stands for; `None` for any other text, digits included.
#[must_use]
pub fn from_word(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "+Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Without an exponent, however many digits that takes: `0.00001`.
#[must_use]
pub fn plain(value: f64) -> String {
    word(value).map_or_else(|| value.to_string(), str::to_owned)
}

/// With an exponent, also where none is needed: `2.5e-01`.
#[must_use]
pub fn scientific(value: f64) -> String {
    if let Some(word) = word(value) {
        return word.to_owned();
    }
    let (digits, exponent) = parts(value);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// With an exponent below 1e-4 and from 1e6 on.
#[must_use]
pub fn general(value: f64) -> String {
    if value.is_finite() && (-4..6).contains(&parts(value).1) { plain(value) } else { scientific(value) }
}

/// As OpenMetrics writes the bounds in `le` and `quantile`: [`general`], with `.0` behind whole numbers.
#[must_use]
pub fn open_metrics(value: f64) -> String {
    let text = general(value);
    if value.is_finite() && !text.contains(['e', '.']) { text + ".0" } else { text }
}

/// The digits of a finite number and its exponent.
fn parts(value: f64) -> (String, i32) {
    assert!(value.is_finite(), "{value} has no digits");
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').expect("`{:e}` writes an exponent");
    (digits.to_owned(), exponent.parse().expect("`{:e}` writes a number behind the e"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_digits_has_one_word_in_every_form() {
        for (value, text) in [(f64::NAN, "NaN"), (f64::INFINITY, "+Inf"), (f64::NEG_INFINITY, "-Inf")] {
            assert_eq!(word(value), Some(text));
            for form in [plain, scientific, general, open_metrics] {
                assert_eq!(form(value), text);
            }
            let read = from_word(text).unwrap();
            assert!(read == value || read.is_nan() && value.is_nan(), "{text}");
        }
        assert_eq!(word(-f64::NAN), Some("NaN"));
        assert_eq!([0.0, -0.0, f64::MAX, f64::MIN_POSITIVE].map(word), [None; 4]);
        for text in ["", "Inf", "inf", "nan", "+NaN", "Infinity", "1", " NaN"] {
            assert_eq!(from_word(text), None, "{text:?}");
        }
    }

    #[test]
    fn forms_differ_in_their_exponents() {
        for (value, texts) in [
            (0.0, ["0", "0e+00", "0", "0.0"]),
            (-0.0, ["-0", "-0e+00", "-0", "-0.0"]),
            (1.0, ["1", "1e+00", "1", "1.0"]),
            (-1234.5, ["-1234.5", "-1.2345e+03", "-1234.5", "-1234.5"]),
            (0.0001, ["0.0001", "1e-04", "0.0001", "0.0001"]),
            (0.000_01, ["0.00001", "1e-05", "1e-05", "1e-05"]),
            (100_000.0, ["100000", "1e+05", "100000", "100000.0"]),
            (1e6, ["1000000", "1e+06", "1e+06", "1e+06"]),
            (2.5e20, ["250000000000000000000", "2.5e+20", "2.5e+20", "2.5e+20"]),
        ] {
            assert_eq!([plain, scientific, general, open_metrics].map(|form| form(value)), texts);
        }
    }
}
