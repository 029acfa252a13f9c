//! How long rows are kept: a time for each table, which Cassandra enforces by their TTL.
//!
//! Invariants: the tables themselves say how long (`default_time_to_live`), so every node keeps and shows the same. A
//! row lives a day longer than its samples are shown, so that a rollup of its hour exists before it goes.

use std::time::Duration;

use ogive_model::{Ms, WallMs};
use ogive_text::duration;

use crate::table::Table;

/// A day: how much longer rows live than their samples are shown.
pub(crate) const MARGIN_SECONDS: i64 = 86_400;
/// 1 h: less than that no rollup is ever made of.
const KEPT_MIN: Duration = Duration::from_secs(3_600);
/// 19 years; Cassandra takes no TTL above 20.
const KEPT_MAX: Duration = Duration::from_secs(19 * 365 * 86_400);

/// How long the samples of each table are shown; None is for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionPeriods {
    /// Numbers as they came.
    pub numbers: Option<Duration>,
    /// Cells of a minute.
    pub minutes: Option<Duration>,
    /// Cells of an hour.
    pub hours: Option<Duration>,
    /// Texts, gaps and audits and boards excepted.
    pub logs: Option<Duration>,
}

impl RetentionPeriods {
    /// Reads `30d`, or `1s=15d,1m=90d,1h=3y,logs=30d`; what is not named has the time without a name.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut kept = Self::default();
        let mut rest = None;
        let mut named = [false; 4];
        for part in text.split(',') {
            let (name, value) = part.split_once('=').map_or((None, part), |(name, value)| (Some(name), value));
            let time = time(value)?;
            let (place, at) = match name {
                None => {
                    rest = time;
                    continue;
                }
                Some("1s") => (&mut kept.numbers, 0),
                Some("1m") => (&mut kept.minutes, 1),
                Some("1h") => (&mut kept.hours, 2),
                Some("logs") => (&mut kept.logs, 3),
                Some(other) => return Err(format!("retention={other}=…: there are 1s, 1m, 1h and logs")),
            };
            (*place, named[at]) = (time, true);
        }
        let all = [&mut kept.numbers, &mut kept.minutes, &mut kept.hours, &mut kept.logs];
        all.into_iter().zip(named).filter(|(_, is_named)| !is_named).for_each(|(place, _)| *place = rest);
        Ok(kept)
    }

    /// How long samples of a table are shown.
    pub(crate) const fn of(&self, table: Table) -> Option<Duration> {
        match table {
            Table::Numbers => self.numbers,
            Table::Logs => self.logs,
            Table::Records => None,
            Table::Minutes => self.minutes,
            Table::Hours => self.hours,
        }
    }

    /// The longest of all: what names them is kept as long.
    pub(crate) fn longest(&self) -> Option<Duration> {
        // Gaps, audits and boards are kept for ever, and so are their labels, if nobody said how long.
        let all = [self.numbers?, self.minutes?, self.hours?, self.logs?];
        all.into_iter().max()
    }

    /// Samples of a table at and before this are not shown.
    pub(crate) fn horizon(&self, table: Table, now: WallMs) -> WallMs {
        self.of(table).map_or(WallMs::MIN, |kept| now.saturating_sub(Ms::from(kept)))
    }
}

/// What a table with this time to live keeps.
pub(crate) fn kept_of(seconds: i32) -> Option<Duration> {
    let shown = i64::from(seconds) - MARGIN_SECONDS;
    u64::try_from(shown).ok().filter(|shown| *shown > 0).map(Duration::from_secs)
}

/// The time to live of a table that shows samples for so long.
pub(crate) fn seconds_of(kept: Option<Duration>) -> i64 {
    kept.map_or(0, |kept| kept.as_secs() as i64 + MARGIN_SECONDS)
}

/// How long a row may live whose last sample is `age_s` old: 0 is for ever, None when it has had its time.
pub(crate) fn time_to_live(kept: Option<Duration>, age_s: i64) -> Option<i32> {
    let Some(kept) = kept else { return Some(0) };
    let left = (seconds_of(Some(kept)) - age_s.max(0)).min(seconds_of(Some(KEPT_MAX)));
    i32::try_from(left).ok().filter(|left| *left > 0)
}

fn time(text: &str) -> Result<Option<Duration>, String> {
    if text == "ever" {
        return Ok(None);
    }
    let time = duration::parse(text).ok_or_else(|| format!("retention: {text} is no duration such as 30d"))?;
    if time.is_zero() {
        return Ok(None);
    }
    if !(KEPT_MIN..=KEPT_MAX).contains(&time) {
        return Err(format!("retention: {text} is not from 1h to 19y"));
    }
    Ok(Some(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    #[test]
    fn each_table_has_its_time() {
        let days = |count: u64| Some(Duration::from_secs(count * DAY));
        let all = RetentionPeriods::parse("30d").unwrap();
        assert_eq!(all, RetentionPeriods { numbers: days(30), minutes: days(30), hours: days(30), logs: days(30) });
        let named = RetentionPeriods::parse("1s=15d,1m=90d,logs=ever,400d").unwrap();
        assert_eq!(named, RetentionPeriods { numbers: days(15), minutes: days(90), hours: days(400), logs: None });
        assert_eq!((all.longest(), named.longest()), (days(30), None));
        assert_eq!(named.horizon(Table::Numbers, WallMs(16 * 86_400_000)), WallMs(86_400_000));
        assert_eq!(named.horizon(Table::Records, WallMs(0)), WallMs::MIN);
        for wrong in ["", "1d=3d", "1s=x", "59m", "20y"] {
            assert!(RetentionPeriods::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn late_rows_go_with_those_of_their_time() {
        let kept = Some(Duration::from_secs(10 * DAY));
        let ttl = |age_s| time_to_live(kept, age_s);
        assert_eq!((ttl(0), ttl(86_400), ttl(-5)), (Some(11 * 86_400), Some(10 * 86_400), Some(11 * 86_400)));
        assert_eq!((ttl(11 * 86_400 - 1), ttl(11 * 86_400)), (Some(1), None));
        assert_eq!(time_to_live(None, i64::MAX), Some(0));
        assert_eq!((kept_of(11 * 86_400), kept_of(0)), (kept, None));
    }
}
