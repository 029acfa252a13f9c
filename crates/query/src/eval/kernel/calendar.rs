//! Dates of the proleptic Gregorian calendar in UTC, from seconds since the Unix epoch.
//!
//! The conversion counts days in 400-year eras that begin on 1 March, so that leap days come last
//! (Hinnant, "chrono-compatible low-level date algorithms").

/// A broken-down instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) year: i64,
    /// 1..=12
    pub(crate) month: i64,
    /// 1..=31
    pub(crate) day: i64,
    /// 0 is Sunday.
    pub(crate) weekday: i64,
    /// 1..=366
    pub(crate) day_of_year: i64,
    /// 0..=23
    pub(crate) hour: i64,
    /// 0..=59
    pub(crate) minute: i64,
}

/// `1970-01-01T00:00:00Z` of milliseconds since the epoch.
pub(crate) fn utc_text(time_ms: i64) -> String {
    let seconds = time_ms.div_euclid(1000);
    let Moment { year, month, day, hour, minute, .. } = Moment::at(seconds);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", seconds.rem_euclid(60))
}

impl Moment {
    /// The moment at `seconds` since the epoch.
    pub(crate) fn at(seconds: i64) -> Self {
        let days = seconds.div_euclid(86_400);
        let second = seconds.rem_euclid(86_400);
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * from_march + 2) / 153;
        let day = from_march - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let before: i64 = (1..month).map(|month| days_in_month(year, month)).sum();
        Self {
            year,
            month,
            day,
            weekday: (days + 4).rem_euclid(7),
            day_of_year: before + day,
            hour: second / 3600,
            minute: second / 60 % 60,
        }
    }

    /// Days of its month.
    pub(crate) const fn days_in_month(self) -> i64 {
        days_in_month(self.year, self.month)
    }
}

const fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
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
        assert_eq!(Moment::at(1_485_907_200).days_in_month(), 28);
    }
}
