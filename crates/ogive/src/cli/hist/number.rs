//! One token of text to one number: decimals with an optional unit, exact to the nearest double.
//!
//! Format: `[+-]digits[.digits][e[+-]digits][unit]`, and for durations several such parts in a row (`1m30.5s`).
//! Invariants: a decimal unit moves the decimal exponent before the one rounding, so `12ms` is the same double
//! as `0.012`; only `m`, `h`, `d` and the binary byte units multiply afterwards.
//! Limits: [`TOKEN_BYTES_MAX`]. Failure: [`TokenError`], which says what to write instead.

use ogive_hist::DecimalBin;

/// 512 bytes: the longest finite double written out in decimals has 309 digits before its point.
pub(super) const TOKEN_BYTES_MAX: usize = 512;

/// What a unit measures. Numbers of two dimensions have no common histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dimension {
    /// Seconds.
    Time,
    /// Bytes.
    Bytes,
}

impl Dimension {
    /// Name of the base unit, as people write it.
    pub(crate) const fn base_unit(self) -> &'static str {
        match self {
            Self::Time => "s",
            Self::Bytes => "B",
        }
    }
}

/// How a unit converts to the base unit: times `10^exponent`, times `factor`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit {
    pub(crate) dimension: Option<Dimension>,
    exponent: i32,
    factor: f64,
}

impl Unit {
    /// A bare number.
    pub(crate) const NONE: Self = Self { dimension: None, exponent: 0, factor: 1.0 };

    /// Nanoseconds.
    pub(crate) const NANOSECONDS: Self = Self::decimal(Some(Dimension::Time), -9);

    /// The value of one of this unit in the base unit.
    pub(crate) fn worth(self) -> f64 {
        let power = format!("1e{}", self.exponent).parse::<f64>().expect("a power of ten parses");
        power * self.factor
    }

    const fn decimal(dimension: Option<Dimension>, exponent: i32) -> Self {
        Self { dimension, exponent, factor: 1.0 }
    }

    const fn multiple(dimension: Dimension, factor: f64) -> Self {
        Self { dimension: Some(dimension), exponent: 0, factor }
    }

    /// The unit of this name.
    pub(crate) fn parse(name: &[u8]) -> Option<Self> {
        use Dimension::{Bytes, Time};
        let (time, bytes) = (Some(Time), Some(Bytes));
        Some(match name {
            b"" => Self::NONE,
            b"ns" => Self::decimal(time, -9),
            // µ is U+00B5 (micro sign) or U+03BC (Greek mu).
            b"us" | b"\xc2\xb5s" | b"\xce\xbcs" => Self::decimal(time, -6),
            b"ms" => Self::decimal(time, -3),
            b"s" | b"sec" => Self::decimal(time, 0),
            b"m" | b"min" => Self::multiple(Time, 60.0),
            b"h" => Self::multiple(Time, 3_600.0),
            b"d" => Self::multiple(Time, 86_400.0),
            b"B" => Self::decimal(bytes, 0),
            b"kB" | b"KB" => Self::decimal(bytes, 3),
            b"MB" => Self::decimal(bytes, 6),
            b"GB" => Self::decimal(bytes, 9),
            b"TB" => Self::decimal(bytes, 12),
            b"PB" => Self::decimal(bytes, 15),
            b"KiB" | b"kiB" => Self::multiple(Bytes, 1_024.0),
            b"MiB" => Self::multiple(Bytes, 1_048_576.0),
            b"GiB" => Self::multiple(Bytes, 1_073_741_824.0),
            b"TiB" => Self::multiple(Bytes, 1_099_511_627_776.0),
            b"PiB" => Self::multiple(Bytes, 1_125_899_906_842_624.0),
            b"k" | b"K" => Self::decimal(None, 3),
            b"M" => Self::decimal(None, 6),
            b"G" => Self::decimal(None, 9),
            b"T" => Self::decimal(None, 12),
            _ => return None,
        })
    }
}

/// Why a token is not a number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenError {
    #[error("not a number")]
    NotANumber,
    #[error("not a finite number; leave it out")]
    NotFinite,
    #[error("the unit {0:?} is not known; known are ns us ms s m h d, B kB MB GB TB KiB MiB GiB TiB, k M G T")]
    UnknownUnit(String),
    #[error("beyond what a histogram counts, 1e128; leave it out")]
    BeyondBins,
    #[error("longer than {TOKEN_BYTES_MAX} bytes")]
    TooLong,
    #[error("measures {found} where the numbers before it measure {expected}; split them into two inputs")]
    MixedUnits { found: &'static str, expected: &'static str },
}

/// A number in its base unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    pub(super) value: f64,
    /// `None` for a bare number.
    pub(super) dimension: Option<Dimension>,
}

/// Parses the whole of `token`; `bare` is the unit of numbers without one.
pub(super) fn parse(token: &[u8], bare: Unit) -> Result<Number, TokenError> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenError::TooLong);
    }
    let (negative, digits) = match token {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, token),
    };
    let (mut value, mut unit, mut rest) = part(digits, bare)?;
    while !rest.is_empty() {
        let (more, next, after) = part(rest, Unit::NONE)?;
        if unit.dimension != Some(Dimension::Time) || next.dimension != unit.dimension {
            return Err(TokenError::NotANumber);
        }
        (value, unit, rest) = (value + more, next, after);
    }
    if !value.is_finite() {
        return Err(TokenError::NotFinite);
    }
    let bin = DecimalBin::from_value(value);
    if bin != DecimalBin::ZERO && bin.index().is_none() {
        return Err(TokenError::BeyondBins);
    }
    Ok(Number { value: if negative { -value } else { value }, dimension: unit.dimension })
}

/// Powers of ten that a double represents exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// The digits of a decimal number.
struct Decimal {
    /// Its digits without the point, saturated when there are more than 19.
    mantissa: u64,
    /// Digits behind the point.
    fraction: i32,
    /// Its length in bytes.
    len: usize,
}

/// `digits[.digits]` at the start of `text`.
fn decimal(text: &[u8]) -> Option<Decimal> {
    let (mut mantissa, mut at, mut fraction) = (0u64, 0, 0);
    while let Some(digit) = digit(text, at) {
        mantissa = mantissa.saturating_mul(10).saturating_add(digit);
        at += 1;
    }
    let mut digits = at;
    if text.get(at) == Some(&b'.') {
        at += 1;
        while let Some(digit) = digit(text, at) {
            mantissa = mantissa.saturating_mul(10).saturating_add(digit);
            at += 1;
            fraction += 1;
        }
        digits += fraction as usize;
    }
    (digits > 0).then_some(Decimal { mantissa, fraction, len: at })
}

fn digit(text: &[u8], at: usize) -> Option<u64> {
    text.get(at).filter(|byte| byte.is_ascii_digit()).map(|byte| u64::from(byte - b'0'))
}

/// `e[+-]digits` at the start of `text`: the exponent and its length in bytes. An `e` without digits is not an
/// exponent.
fn exponent(text: &[u8]) -> (i32, usize) {
    if !matches!(text.first(), Some(b'e' | b'E')) {
        return (0, 0);
    }
    let signed = matches!(text.get(1), Some(b'+' | b'-'));
    let (mut at, mut value) = (1 + usize::from(signed), 0i32);
    let start = at;
    while let Some(digit) = digit(text, at) {
        // 99,999: beyond every double, and far from overflow.
        value = (value * 10 + digit as i32).min(99_999);
        at += 1;
    }
    match (at == start, signed && text[1] == b'-') {
        (true, _) => (0, 0),
        (false, true) => (-value, at),
        (false, false) => (value, at),
    }
}

/// One number with its unit, the unit, and the rest of the text.
fn part(text: &[u8], bare: Unit) -> Result<(f64, Unit, &[u8]), TokenError> {
    let Some(decimal) = decimal(text) else { return Err(no_digits(text)) };
    let (power, power_len) = exponent(&text[decimal.len..]);
    let behind = &text[decimal.len + power_len..];
    let unit_len = behind.iter().position(|byte| byte.is_ascii_digit() || *byte == b'.').unwrap_or(behind.len());
    let unit = match &behind[..unit_len] {
        b"" => bare,
        name => Unit::parse(name).ok_or_else(|| unknown_unit(name))?,
    };
    let power = power + unit.exponent;
    let value = match exact(decimal.mantissa, power - decimal.fraction) {
        Some(value) => value,
        None => slow(&text[..decimal.len], power)?,
    };
    Ok((value * unit.factor, unit, &behind[unit_len..]))
}

/// `mantissa * 10^exponent` when one exact multiplication or division gives it (Clinger 1990).
fn exact(mantissa: u64, exponent: i32) -> Option<f64> {
    let power = POWERS.get(exponent.unsigned_abs() as usize)?;
    if mantissa > 1 << 53 {
        return None;
    }
    Some(if exponent < 0 { mantissa as f64 / power } else { mantissa as f64 * power })
}

/// The standard library's correctly rounded reading, for long mantissas and large exponents.
fn slow(digits: &[u8], power: i32) -> Result<f64, TokenError> {
    let digits = std::str::from_utf8(digits).map_err(|_| TokenError::NotANumber)?;
    format!("{digits}e{power}").parse().map_err(|_| TokenError::NotANumber)
}

fn no_digits(text: &[u8]) -> TokenError {
    let word = text.to_ascii_lowercase();
    if matches!(&word[..], b"nan" | b"inf" | b"infinity") { TokenError::NotFinite } else { TokenError::NotANumber }
}

fn unknown_unit(name: &[u8]) -> TokenError {
    if name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte >= 0x80) {
        TokenError::UnknownUnit(String::from_utf8_lossy(name).into_owned())
    } else {
        TokenError::NotANumber
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(token: &str) -> Result<f64, TokenError> {
        parse(token.as_bytes(), Unit::NONE).map(|number| number.value)
    }

    #[test]
    fn numbers_and_units_read_to_the_nearest_double() {
        let check = |token: &str, expected: f64| {
            assert_eq!(value(token).map(f64::to_bits), Ok(expected.to_bits()), "{token}");
        };
        check("0", 0.0);
        check("-0", -0.0);
        check("12", 12.0);
        check("+12.5", 12.5);
        check("-.5", -0.5);
        check("5.", 5.0);
        check("1e3", 1e3);
        check("1.2E-3", 1.2e-3);
        check("12ms", 0.012);
        check("0.3ms", 0.0003);
        check("3us", 3e-6);
        check("3µs", 3e-6);
        check("3μs", 3e-6);
        check("7ns", 7e-9);
        check("1.5e2ns", 150e-9);
        check("2m", 120.0);
        check("1.5h", 5400.0);
        check("1m30.5s", 90.5);
        check("-1h2m3s", -3723.0);
        check("4KiB", 4096.0);
        check("4MB", 4e6);
        check("1.5k", 1500.0);
        check("123456789012345678901234567890", 123_456_789_012_345_678_901_234_567_890.0);
        check("0.1234567890123456789012345", 0.123_456_789_012_345_68);
        check("1e-320", 1e-320);
        check("9.999e127", 9.999e127);
    }

    #[test]
    fn what_is_no_number_says_why() {
        let check = |token: &str, expected: TokenError| assert_eq!(value(token), Err(expected), "{token}");
        for token in ["", "-", "abc", ".", "1-2", "--1", "1.2.3", "1e5e5", "0x10", "1:2", "1ms2", "1k2k", "2 3"] {
            assert!(value(token).is_err(), "{token}");
        }
        check("abc", TokenError::NotANumber);
        check("nan", TokenError::NotFinite);
        check("-Inf", TokenError::NotFinite);
        check("1e999", TokenError::NotFinite);
        check("1e300", TokenError::BeyondBins);
        check("-1e128", TokenError::BeyondBins);
        check("1.7976931348623157e308", TokenError::BeyondBins);
        check("12parsec", TokenError::UnknownUnit("parsec".into()));
        check("1e", TokenError::UnknownUnit("e".into()));
        check(&"1".repeat(TOKEN_BYTES_MAX + 1), TokenError::TooLong);
    }

    #[test]
    fn bare_numbers_take_the_given_unit() {
        let parsed = parse(b"12", Unit::parse(b"ms").unwrap()).unwrap();
        assert_eq!(parsed, Number { value: 0.012, dimension: Some(Dimension::Time) });
        assert_eq!(parse(b"12s", Unit::parse(b"ms").unwrap()).unwrap().value, 12.0);
    }

    proptest! {
        #[test]
        fn agrees_with_the_standard_library(bits in any::<u64>(), digits in 0usize..20) {
            let number = f64::from_bits(bits);
            prop_assume!(number.abs() < 9.9e127);
            for text in [format!("{number}"), format!("{number:e}"), format!("{number:.digits$e}")] {
                let expected: f64 = text.parse().unwrap();
                if text.len() <= TOKEN_BYTES_MAX {
                    prop_assert_eq!(value(&text).map(f64::to_bits), Ok(expected.to_bits()), "{}", text);
                }
            }
        }

        #[test]
        fn short_decimals_agree_too(mantissa in 0u64..10_000_000_000, fraction in 0usize..12) {
            let text = format!("{}.{:0fraction$}", mantissa / 1000, mantissa % 1000);
            prop_assert_eq!(value(&text), Ok(text.parse::<f64>().unwrap()), "{}", text);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse(&bytes, Unit::NONE);
        }

        #[test]
        fn likely_bytes_do_not_either(token in "[-+.eEmsu0-9kKiB]{0,12}") {
            let _ = value(&token);
        }
    }
}
