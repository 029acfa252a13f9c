//! Numbers as people read them: thousands separators, three digits, a prefix that fits the unit.

/// `1234567` as `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `value` with three significant digits in the prefix that fits: `12.3ms` for 0.0123 of unit `s`.
///
/// Seconds go below one by ms, µs and ns and above stay seconds; bytes and bare numbers go up by k, M, G, T.
pub(crate) fn human(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN".into()
        } else if value > 0.0 {
            "+Inf".into()
        } else {
            "-Inf".into()
        };
    }
    if value == 0.0 {
        return format!("0{unit}");
    }
    let (digits, exponent) = significant(value.abs());
    let sign = if value < 0.0 { "-" } else { "" };
    let step = exponent.div_euclid(3) * 3;
    let (step, prefix) = match (unit, step) {
        ("s", -9) => (-9, "n"),
        ("s", -6) => (-6, "µ"),
        ("s", -3) => (-3, "m"),
        ("s", 0 | 3) => (0, ""),
        (_, 0) => (0, ""),
        ("s", _) => return format!("{sign}{}e{exponent}{unit}", decimals(digits, 0)),
        (_, 3) => (3, "k"),
        (_, 6) => (6, "M"),
        (_, 9) => (9, "G"),
        (_, 12) => (12, "T"),
        (_, -3) => (0, ""),
        _ => return format!("{sign}{}e{exponent}{unit}", decimals(digits, 0)),
    };
    format!("{sign}{}{prefix}{unit}", decimals(digits, exponent - step))
}

/// Three significant digits as an integer 100..=999, and the decimal exponent of the first one.
fn significant(value: f64) -> (u32, i32) {
    let text = format!("{value:.2e}");
    let (mantissa, exponent) = text.split_once('e').expect("{:e} writes an exponent");
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    (digits, exponent.parse().expect("{:e} writes a decimal exponent"))
}

/// `digits/100 * 10^exponent` without trailing zeros behind the point.
fn decimals(digits: u32, exponent: i32) -> String {
    let text = match exponent {
        ..=-1 => format!("0.{}{digits}", "0".repeat(-exponent as usize - 1)),
        0 => format!("{}.{:02}", digits / 100, digits % 100),
        1 => format!("{}.{}", digits / 10, digits % 10),
        _ => return format!("{digits}{}", "0".repeat(exponent as usize - 2)),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// An instant, nanoseconds since 1970, in UTC to the millisecond: `2023-11-14 22:13:20.123`.
pub(crate) fn utc(ns: i64) -> String {
    let (date, time) = date_and_time(ns);
    format!("{date} {time}")
}

/// The same as ISO 8601 has it: `2023-11-14T22:13:20.123Z`.
pub(crate) fn iso(ns: i64) -> String {
    let (date, time) = date_and_time(ns);
    format!("{date}T{time}Z")
}

fn date_and_time(ns: i64) -> (String, String) {
    let (ms, day) = (ns.div_euclid(1_000_000), ns.div_euclid(86_400_000_000_000));
    // Years are counted from March, so that the leap day is the last one; 719,468 days before 1970 is 0000-03-01.
    let days = day + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year_of_era + next;
    let of_day = ms.rem_euclid(86_400_000);
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60);
    let time = format!("{hour:02}:{minute:02}:{second:02}.{:03}", of_day % 1_000);
    (format!("{year:04}-{month:02}-{date:02}"), time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_dates() {
        let check = |seconds: i64, expected: &str| assert_eq!(utc(seconds * 1_000_000_000), expected);
        check(0, "1970-01-01 00:00:00.000");
        check(951_825_600, "2000-02-29 12:00:00.000");
        check(1_795_285_800, "2026-11-21 18:30:00.000");
        check(1_709_164_799, "2024-02-28 23:59:59.000");
        check(1_709_251_199, "2024-02-29 23:59:59.000");
        check(4_107_542_399, "2100-02-28 23:59:59.000");
        check(4_107_542_400, "2100-03-01 00:00:00.000");
        assert_eq!(utc(-1), "1969-12-31 23:59:59.999");
        assert_eq!(iso(951_825_600_007_000_000), "2000-02-29T12:00:00.007Z");
        assert_eq!(utc(i64::MAX), "2262-04-11 23:47:16.854");
    }

    #[test]
    fn thousands_are_separated() {
        for (number, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(thousands(number), expected);
        }
    }

    #[test]
    fn numbers_fit_their_unit() {
        let check = |value: f64, unit: &str, expected: &str| assert_eq!(human(value, unit), expected);
        check(0.0123, "s", "12.3ms");
        check(0.012, "s", "12ms");
        check(0.1, "s", "100ms");
        check(1.2e-6, "s", "1.2µs");
        check(999.6e-9, "s", "1µs");
        check(3.4e-12, "s", "3.4e-12s");
        check(1.0, "s", "1s");
        check(90.5, "s", "90.5s");
        check(12_345.0, "s", "12300s");
        check(-0.5, "s", "-500ms");
        check(4096.0, "B", "4.1kB");
        check(1.5, "", "1.5");
        check(0.012, "", "0.012");
        check(0.00012, "", "1.2e-4");
        check(1500.0, "", "1.5k");
        check(2.5e13, "", "25T");
        check(2.5e17, "", "2.5e17");
        check(0.0, "s", "0s");
        check(f64::NEG_INFINITY, "s", "-Inf");
    }
}
