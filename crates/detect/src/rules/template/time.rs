//! Times as Go prints them.

use super::number::float_text;

const NS: i128 = 1_000_000_000;

/// Year, month and day of a day counted from 1970-01-01 in the proleptic Gregorian calendar (Howard Hinnant,
/// "chrono-compatible low-level date algorithms").
fn civil(days: i128) -> (i128, i128, i128) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i128::from(month <= 2), month, day)
}

/// The day, counted from 1970-01-01, of a date; months and days beyond theirs go on into the next.
fn day_of(year: i128, month: i128, date: i128) -> i128 {
    let (year, month) = (year + (month - 1).div_euclid(12), (month - 1).rem_euclid(12) + 1);
    let shifted = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year + date - 1 - 719_468
}

/// Names of the months.
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Names of the days of a week.
pub(crate) const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// An instant in UTC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Civil {
    pub(crate) year: i128,
    /// From 1.
    pub(crate) month: usize,
    /// From 1.
    pub(crate) day: i128,
    /// From 1.
    pub(crate) year_day: i128,
    /// Of [`WEEKDAYS`].
    pub(crate) weekday: usize,
    pub(crate) hour: i128,
    pub(crate) minute: i128,
    pub(crate) second: i128,
    pub(crate) nanosecond: i128,
}

impl Civil {
    /// Of nanoseconds since 1970.
    pub(crate) fn from_ns(ns: i128) -> Self {
        let (seconds, nanosecond) = (ns.div_euclid(NS), ns.rem_euclid(NS));
        let (since, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil(since);
        Self {
            year,
            month: usize::try_from(month).expect("1 to 12"),
            day,
            year_day: since - day_of(year, 1, 1) + 1,
            // 1970 began on a Thursday.
            weekday: usize::try_from((since + 4).rem_euclid(7)).expect("below 7"),
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            nanosecond,
        }
    }

    /// The same time on another day, in nanoseconds since 1970; None when that is outside the range of printable times.
    pub(crate) fn plus(&self, years: i64, months: i64, days: i64) -> Option<i128> {
        let month = self.month as i128 + i128::from(months);
        let day = day_of(self.year + i128::from(years), month, self.day + i128::from(days));
        let of_day = (self.hour * 60 + self.minute) * 60 + self.second;
        // The range of an instant with 64-bit seconds.
        i64::try_from(day * 86_400).ok().map(|_| (day * 86_400 + of_day) * NS + self.nanosecond)
    }
}

/// Date, time and the digits of the fraction behind a point.
fn parts(ns: i128) -> (String, String, String) {
    let Civil { year, month, day, hour, minute, second, nanosecond, .. } = Civil::from_ns(ns);
    let fraction = format!("{nanosecond:09}");
    let fraction = fraction.trim_end_matches('0');
    let fraction = if fraction.is_empty() { String::new() } else { format!(".{fraction}") };
    (format!("{year:04}-{month:02}-{day:02}"), format!("{hour:02}:{minute:02}:{second:02}"), fraction)
}

/// `2022-01-25 12:36:43.5 +0000 UTC`.
pub(crate) fn time_text(ns: i128) -> String {
    let (date, clock, fraction) = parts(ns);
    format!("{date} {clock}{fraction} +0000 UTC")
}

/// Milliseconds as `2022-01-25T12:36:43.5Z` (RFC 3339).
#[must_use]
pub fn rfc3339(ms: i64) -> String {
    let (date, clock, fraction) = parts(i128::from(ms) * 1_000_000);
    format!("{date}T{clock}{fraction}Z")
}

/// Milliseconds as `2022-01-25 12:36:43.5 +0000 UTC`.
#[must_use]
pub fn timestamp_text(ms: i64) -> String {
    time_text(i128::from(ms) * 1_000_000)
}

/// `1h2m3.5s`, as Go prints a duration of nanoseconds.
pub(crate) fn duration_text(ns: i64) -> String {
    let (sign, size) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    let decimal = |unit: f64, name: &str| format!("{sign}{}{name}", float_text(size as f64 / unit, 'f', None));
    match size {
        0 => return "0s".to_owned(),
        1..1_000 => return format!("{sign}{size}ns"),
        1_000..1_000_000 => return decimal(1e3, "µs"),
        1_000_000..1_000_000_000 => return decimal(1e6, "ms"),
        _ => {}
    }
    let (whole, rest) = (size / 1_000_000_000, size % 1_000_000_000);
    let fraction = format!("{rest:09}");
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let seconds = format!("{}{point}{fraction}s", whole % 60);
    match whole {
        0..60 => format!("{sign}{seconds}"),
        60..3600 => format!("{sign}{}m{seconds}", whole / 60),
        _ => format!("{sign}{}h{}m{seconds}", whole / 3600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_go_does() {
        assert_eq!(time_text(1_643_114_203 * NS), "2022-01-25 12:36:43 +0000 UTC");
        assert_eq!(time_text(-NS / 2), "1969-12-31 23:59:59.5 +0000 UTC");
        assert_eq!(rfc3339(1_643_114_203_120), "2022-01-25T12:36:43.12Z");
        assert_eq!(time_text(951_782_400 * NS), "2000-02-29 00:00:00 +0000 UTC");
    }

    #[test]
    fn days_and_dates_are_each_others_inverse() {
        for day in (-800_000..800_000).step_by(37) {
            let (year, month, date) = civil(day);
            assert_eq!(day_of(year, month, date), day);
        }
        let leap = Civil::from_ns(951_782_400 * NS);
        assert_eq!((leap.year_day, WEEKDAYS[leap.weekday]), (60, "Tuesday"));
        assert_eq!(time_text(leap.plus(1, 0, 0).unwrap()), "2001-03-01 00:00:00 +0000 UTC", "no 29 February");
        assert_eq!(time_text(leap.plus(0, -14, -1).unwrap()), "1998-12-28 00:00:00 +0000 UTC");
        assert_eq!(leap.plus(i64::MAX, i64::MAX, i64::MAX), None);
    }

    #[test]
    fn durations_are_printed_as_go_does() {
        assert_eq!(duration_text(3_723_500_000_000), "1h2m3.5s");
        assert_eq!(duration_text(-60_000_000_000), "-1m0s");
        assert_eq!(duration_text(1_500), "1.5µs");
        assert_eq!(duration_text(0), "0s");
    }
}
