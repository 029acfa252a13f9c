//! Dates of the proleptic Gregorian calendar in UTC.
//!
//! Invariants: every `i64` of seconds has a date; what is written reads back as the same instant.

use jiff::civil::DateTime;
use jiff::tz::Offset;

/// Seconds of 400 years, after which the calendar repeats itself, weekdays included.
const ERA_SECONDS: i64 = 146_097 * 86_400;

/// 100,000 years around 1970, in milliseconds: no reasonable instant is outside.
const INSTANT_MS_MAX: f64 = 3.2e15;

/// A broken-down instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The year; 0 is 1 BC.
    pub year: i64,
    /// 1..=12
    pub month: i64,
    /// 1..=31
    pub day: i64,
    /// 0 is Sunday.
    pub weekday: i64,
    /// 1..=366
    pub day_of_year: i64,
    /// 1..=31, of its month.
    pub days_in_month: i64,
    /// 0..=23
    pub hour: i64,
    /// 0..=59
    pub minute: i64,
    /// 0..=59
    pub second: i64,
}

impl Moment {
    /// The moment at `seconds` since 1970.
    #[must_use]
    pub fn at(seconds: i64) -> Self {
        let (eras, of_era) = (seconds.div_euclid(ERA_SECONDS), seconds.rem_euclid(ERA_SECONDS));
        let timestamp = jiff::Timestamp::from_second(of_era).expect("1970 to 2369 is within the library's years");
        let date = Offset::UTC.to_datetime(timestamp);
        Self {
            year: i64::from(date.year()) + 400 * eras,
            month: date.month().into(),
            day: date.day().into(),
            weekday: date.weekday().to_sunday_zero_offset().into(),
            day_of_year: date.day_of_year().into(),
            days_in_month: date.days_in_month().into(),
            hour: date.hour().into(),
            minute: date.minute().into(),
            second: date.second().into(),
        }
    }

    fn date(self) -> String {
        format!("{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }

    fn time(self) -> String {
        format!("{:02}:{:02}:{:02}", self.hour, self.minute, self.second)
    }
}

/// Seconds from 1970 to a date and time of UTC; None when there is no such date.
#[must_use]
pub fn seconds_from_date([year, month, day]: [i64; 3], [hour, minute, second]: [i64; 3]) -> Option<i64> {
    const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    let small = |number: i64| i8::try_from(number).ok();
    let time = (small(hour)?, small(minute)?, small(second)?);
    let year = i16::try_from(year).ok()?;
    let date = DateTime::new(year, small(month)?, small(day)?, time.0, time.1, time.2, 0).ok()?;
    Some(date.duration_since(EPOCH).as_secs())
}

/// Milliseconds of `2026-01-02T03:04:05.678+01:00`; digits behind the milliseconds are dropped.
#[must_use]
pub fn rfc3339_ms(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    };
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !separators.iter().all(|(at, byte)| bytes.get(*at).map(u8::to_ascii_uppercase) == Some(*byte)) {
        return None;
    }
    let date = [number(0, 4)?, number(5, 7)?, number(8, 10)?];
    let time = [number(11, 13)?, number(14, 16)?, number(17, 19)?];
    let (ms, zone) = fraction_ms(text.get(19..)?)?;
    let offset_minutes = match zone.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let at = text.len() - 5;
            let minutes = number(at, at + 2)? * 60 + number(at + 3, at + 5)?;
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    if offset_minutes.abs() >= 24 * 60 {
        return None;
    }
    Some((seconds_from_date(date, time)? - offset_minutes * 60) * 1000 + ms)
}

/// Nanoseconds of what [`rfc3339_ms`] reads.
#[must_use]
pub fn rfc3339_ns(text: &str) -> Option<i64> {
    rfc3339_ms(text)?.checked_mul(1_000_000)
}

/// The milliseconds of `.678+01:00`, and the rest after them.
fn fraction_ms(zone: &str) -> Option<(i64, &str)> {
    let Some(fraction) = zone.strip_prefix('.') else { return Some((0, zone)) };
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    let padded = format!("{:0<3}", &fraction[..digits]);
    let ms = padded[..3].parse().ok().filter(|_| digits > 0)?;
    Some((ms, &fraction[digits..]))
}

/// Milliseconds of an instant: Unix seconds with or without a fraction, or RFC 3339.
#[must_use]
pub fn instant_ms(text: &str) -> Option<i64> {
    match text.parse::<f64>() {
        Ok(seconds) => milliseconds(seconds),
        Err(_) => rfc3339_ms(text),
    }
}

/// Seconds rounded to the nearest millisecond, if it is a reasonable instant.
pub(crate) fn milliseconds(seconds: f64) -> Option<i64> {
    let ms = (seconds * 1000.0).round();
    (ms.abs() <= INSTANT_MS_MAX).then_some(ms as i64)
}

/// `2026-01-02T03:04:05Z`, the second that has begun, of milliseconds since 1970.
#[must_use]
pub fn rfc3339(ms: i64) -> String {
    let moment = Moment::at(ms.div_euclid(1_000));
    format!("{}T{}Z", moment.date(), moment.time())
}

/// An instant, nanoseconds since 1970, in UTC to the millisecond: `2023-11-14 22:13:20.123`.
#[must_use]
pub fn utc(ns: i64) -> String {
    let (date, time) = date_and_time(ns);
    format!("{date} {time}")
}

/// The same as ISO 8601 has it: `2023-11-14T22:13:20.123Z`.
#[must_use]
pub fn iso(ns: i64) -> String {
    let (date, time) = date_and_time(ns);
    format!("{date}T{time}Z")
}

fn date_and_time(ns: i64) -> (String, String) {
    let ms = ns.div_euclid(1_000_000);
    let moment = Moment::at(ms.div_euclid(1_000));
    (moment.date(), format!("{}.{:03}", moment.time(), ms.rem_euclid(1_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        let check = |seconds, (year, month, day, hour, minute), weekday, day_of_year| {
            let found = Moment::at(seconds);
            assert_eq!(
                (found.year, found.month, found.day, found.hour, found.minute),
                (year, month, day, hour, minute)
            );
            assert_eq!((found.weekday, found.day_of_year), (weekday, day_of_year));
        };
        check(0, (1970, 1, 1, 0, 0), 4, 1);
        check(1_136_239_445, (2006, 1, 2, 22, 4), 1, 2);
        check(1_456_790_400, (2016, 3, 1, 0, 0), 2, 61);
        check(1_672_493_820, (2022, 12, 31, 13, 37), 6, 365);
        check(-1, (1969, 12, 31, 23, 59), 3, 365);
        // Far from any year of the library: the calendar repeats itself.
        check(1_136_239_445 + 1_000 * ERA_SECONDS, (402_006, 1, 2, 22, 4), 1, 2);
        assert_eq!(Moment::at(1_485_907_200).days_in_month, 28);
        for seconds in [i64::MIN, i64::MAX] {
            assert!((1..=12).contains(&Moment::at(seconds).month));
        }
    }

    #[test]
    fn instants_are_seconds_or_rfc3339() {
        let check = |text: &str, expected: Option<i64>| assert_eq!(instant_ms(text), expected, "{text}");
        check("0", Some(0));
        check("1700000001.5", Some(1_700_000_001_500));
        check("1.7e9", Some(1_700_000_000_000));
        check("1970-01-01T00:00:00Z", Some(0));
        check("2000-02-29T12:00:00.25Z", Some(951_825_600_250));
        check("2026-11-21T20:00:00+01:30", Some(1_795_285_800_000));
        check("1969-12-31T23:59:59.999Z", Some(-1));
        check("9999-12-31T23:59:59Z", Some(253_402_300_799_000));
        check("0000-01-01T00:00:00Z", Some(-62_167_219_200_000));
        for text in [
            "",
            "abc",
            "NaN",
            "1e300",
            "2026-02-29T00:00:00Z",
            "2026-01-01",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+24:00",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn instants_are_written_as_they_are_read() {
        for text in ["1970-01-01T00:00:00Z", "2000-02-29T23:59:59Z", "2026-12-31T12:00:01Z", "1969-12-31T23:00:00Z"] {
            assert_eq!(rfc3339(instant_ms(text).unwrap()), text);
        }
        for day in -40_000..80_000_i64 {
            let ms = day * 86_400_000 + 1_000;
            assert_eq!(instant_ms(&rfc3339(ms)), Some(ms), "{}", rfc3339(ms));
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (year, month, day, expected) in
            [(1970, 1, 1, 0), (2000, 2, 29, 11_016), (2000, 3, 1, 11_017), (2026, 11, 22, 20_779), (1969, 12, 31, -1)]
        {
            let seconds = seconds_from_date([year, month, day], [0; 3]);
            assert_eq!(seconds, Some(expected * 86_400), "{year}-{month}-{day}");
        }
        assert_eq!(seconds_from_date([2026, 2, 30], [0; 3]), None);
    }

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
}
