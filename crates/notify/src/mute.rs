//! Silences, acknowledgements and maintenance windows: alerts that fire and that people do not hear of for a time.
//!
//! Limits: [`SILENCES_MAX`]; a matcher has [`PATTERN_BYTES_MAX`] bytes.

use std::collections::BTreeMap;

use ogive_text::calendar::instant_ms;
use ogive_text::duration;
use regex::Regex;
use serde::{Deserialize, Serialize};

/// 1,000 active silences: more than people can keep track of.
pub const SILENCES_MAX: usize = 1_000;
/// 1 KiB of an expression.
const PATTERN_BYTES_MAX: usize = 1_024;
/// 400 days: for longer, remove the rule.
const SPAN_MS_MAX: i64 = 400 * 86_400_000;
const DAY_MS: i64 = 86_400_000;
/// The default tenant, as files name it.
const DEFAULT_TENANT: &str = "default";

/// Labels with regular expressions that must match the whole values.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Matchers(Vec<(String, String, Regex)>);

impl TryFrom<BTreeMap<String, String>> for Matchers {
    type Error = String;

    fn try_from(texts: BTreeMap<String, String>) -> Result<Self, String> {
        let one = |(name, text): (String, String)| {
            if text.len() > PATTERN_BYTES_MAX {
                return Err(format!("{name}: more than {PATTERN_BYTES_MAX} bytes"));
            }
            let regex = Regex::new(&format!("^(?s:{text})$")).map_err(|error| format!("{name}: {error}"))?;
            Ok((name, text, regex))
        };
        texts.into_iter().map(one).collect::<Result<_, _>>().map(Self)
    }
}

impl From<Matchers> for BTreeMap<String, String> {
    fn from(matchers: Matchers) -> Self {
        matchers.0.into_iter().map(|(name, text, _)| (name, text)).collect()
    }
}

impl PartialEq for Matchers {
    fn eq(&self, other: &Self) -> bool {
        let texts = |of: &Self| of.0.iter().map(|(name, text, _)| (name.clone(), text.clone())).collect::<Vec<_>>();
        texts(self) == texts(other)
    }
}

impl Matchers {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every one fits; a missing label is an empty value.
    #[must_use]
    pub fn fit(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|(name, _, regex)| regex.is_match(labels.get(name).map_or("", String::as_str)))
    }
}

/// A silence.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Silence {
    /// Unique in this server.
    pub id: u64,
    /// Which alerts.
    #[serde(rename = "match")]
    pub matchers: Matchers,
    /// Its tenant; empty for the default tenant.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// Since when, milliseconds.
    pub starts_ms: i64,
    /// Until when, milliseconds.
    pub ends_ms: i64,
    /// Who created it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// It is of one alert, and ends with it.
    #[serde(default)]
    pub is_acknowledgement: bool,
}

impl Silence {
    fn is_of(&self, tenant: &str, labels: &BTreeMap<String, String>) -> bool {
        self.tenant == tenant && self.matchers.fit(labels)
    }
}

/// The silences of a server.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Silences {
    last_id: u64,
    list: Vec<Silence>,
}

impl Silences {
    /// Adds one and assigns an id.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn add(&mut self, mut silence: Silence, now_ms: i64) -> Result<u64, String> {
        self.end(now_ms);
        if silence.matchers.is_empty() {
            return Err("a silence of everything needs a matcher such as {\"alertname\": \".*\"}".to_owned());
        }
        if silence.reason.trim().is_empty() {
            return Err("it needs a reason, for whoever wonders why it is quiet".to_owned());
        }
        if silence.ends_ms <= silence.starts_ms.max(now_ms) || silence.ends_ms - silence.starts_ms > SPAN_MS_MAX {
            return Err("it must end after now, and within 400 days".to_owned());
        }
        if self.list.len() >= SILENCES_MAX {
            return Err(format!("there are {SILENCES_MAX} silences already"));
        }
        self.last_id += 1;
        silence.id = self.last_id;
        self.list.push(silence);
        Ok(self.last_id)
    }

    /// Ends one of a tenant before its time; whether it was there.
    pub fn remove(&mut self, tenant: &str, id: u64) -> bool {
        let before = self.list.len();
        self.list.retain(|one| one.id != id || one.tenant != tenant);
        self.list.len() < before
    }

    /// Removes those that have expired.
    pub fn end(&mut self, now_ms: i64) {
        self.list.retain(|one| one.ends_ms > now_ms);
    }

    /// Acknowledgements of an alert that ceased end.
    pub fn ceased(&mut self, tenant: &str, labels: &BTreeMap<String, String>) {
        self.list.retain(|one| !(one.is_acknowledgement && one.is_of(tenant, labels)));
    }

    /// The one that silences a tenant's alerts with these labels at `now_ms`.
    #[must_use]
    pub fn of(&self, tenant: &str, labels: &BTreeMap<String, String>, now_ms: i64) -> Option<&Silence> {
        self.list.iter().find(|one| one.starts_ms <= now_ms && now_ms < one.ends_ms && one.is_of(tenant, labels))
    }

    /// Those of a tenant.
    pub fn of_tenant(&self, tenant: &str) -> impl Iterator<Item = &Silence> {
        self.list.iter().filter(move |one| one.tenant == tenant)
    }
}

/// The silence of one alert.
#[must_use]
pub fn exactly(labels: &BTreeMap<String, String>) -> Matchers {
    let one = |(name, value): (&String, &String)| (name.clone(), regex::escape(value));
    labels.iter().map(one).collect::<BTreeMap<_, _>>().try_into().unwrap_or_default()
}

/// A time in which some alerts are expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Maintenance {
    /// For people.
    pub name: String,
    matchers: Matchers,
    /// The tenant of the alerts; all tenants when None. Empty for the default tenant.
    tenant: Option<String>,
    when: MuteSchedule,
}

#[derive(Clone, Debug, PartialEq)]
enum MuteSchedule {
    Once {
        starts_ms: i64,
        ends_ms: i64,
    },
    /// Days from Monday as bits, milliseconds behind the local midnight, how long, and how far local time is ahead of
    /// UTC.
    Weekly {
        days: u8,
        from_ms: i64,
        span_ms: i64,
        offset_ms: i64,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    maintenance: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: String,
    #[serde(rename = "match")]
    matchers: BTreeMap<String, String>,
    #[serde(default)]
    tenant: Option<String>,
    start: Option<String>,
    end: Option<String>,
    days: Option<Vec<String>>,
    from: Option<String>,
    #[serde(rename = "for")]
    span: Option<String>,
    #[serde(default)]
    utc_offset: Option<String>,
}

impl Maintenance {
    /// The windows in a file: `[[maintenance]]` tables of TOML.
    ///
    /// # Errors
    /// What is wrong, and in which window.
    pub fn parse(text: &str) -> Result<Vec<Self>, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        file.maintenance
            .into_iter()
            .map(|table| {
                let name = table.name.clone();
                Self::from_table(table).map_err(|error| format!("maintenance {name:?}: {error}"))
            })
            .collect()
    }

    fn from_table(table: Table) -> Result<Self, String> {
        let matchers = Matchers::try_from(table.matchers)?;
        if matchers.is_empty() {
            return Err("match is empty; alertname = \".*\" is everything".to_owned());
        }
        let instant =
            |text: &str| instant_ms(text).ok_or_else(|| format!("{text:?} is no instant such as 2026-01-02T03:04:05Z"));
        let when = match (table.start, table.end, table.from, table.span) {
            (Some(start), Some(end), None, None) if table.days.is_none() && table.utc_offset.is_none() => {
                MuteSchedule::Once { starts_ms: instant(&start)?, ends_ms: instant(&end)? }
            }
            (None, None, Some(from), Some(span)) => {
                let span_ms = duration::parse_ms(&span).ok().and_then(|ms| i64::try_from(ms).ok());
                let span_ms = span_ms.filter(|ms| (1..=7 * DAY_MS).contains(ms));
                MuteSchedule::Weekly {
                    days: days(table.days.as_deref())?,
                    from_ms: clock_ms(&from).ok_or_else(|| format!("from: {from:?} is no time such as 22:00"))?,
                    span_ms: span_ms.ok_or_else(|| format!("for: {span:?} is no duration up to a week"))?,
                    offset_ms: table
                        .utc_offset
                        .as_deref()
                        .map_or(Some(0), offset_ms)
                        .ok_or("utc_offset: give such as +02:00")?,
                }
            }
            _ => return Err("give either start and end, or from and for (with days and utc_offset)".to_owned()),
        };
        if matches!(when, MuteSchedule::Once { starts_ms, ends_ms } if starts_ms >= ends_ms) {
            return Err("the start is not before the end".to_owned());
        }
        // The default tenant's alerts have no name of a tenant.
        let tenant = table.tenant.map(|name| if name == DEFAULT_TENANT { String::new() } else { name });
        Ok(Self { name: table.name, matchers, tenant, when })
    }

    /// Whether it silences a tenant's alerts with these labels at `now_ms`.
    #[must_use]
    pub fn keeps_quiet(&self, tenant: &str, labels: &BTreeMap<String, String>, now_ms: i64) -> bool {
        self.is_open(now_ms) && self.may_concern(tenant) && self.matchers.fit(labels)
    }

    /// Whether it is of a tenant's alerts, too.
    #[must_use]
    pub fn may_concern(&self, tenant: &str) -> bool {
        self.tenant.as_deref().is_none_or(|own| own == tenant)
    }

    /// Whether it is its time.
    #[must_use]
    pub fn is_open(&self, now_ms: i64) -> bool {
        match self.when {
            MuteSchedule::Once { starts_ms, ends_ms } => starts_ms <= now_ms && now_ms < ends_ms,
            MuteSchedule::Weekly { days, from_ms, span_ms, offset_ms } => {
                let local = now_ms + offset_ms;
                let today = local.div_euclid(DAY_MS);
                // A window may have begun up to a week ago.
                (0..=7).map(|back| today - back).any(|day| {
                    let begin = day * DAY_MS + from_ms;
                    // Day 0 of 1970 was a Thursday.
                    days & (1 << (day + 3).rem_euclid(7)) != 0 && begin <= local && local < begin + span_ms
                })
            }
        }
    }
}

fn days(names: Option<&[String]>) -> Result<u8, String> {
    const NAMES: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let Some(names) = names else { return Ok(0x7f) };
    let mut out = 0;
    for name in names {
        let at = NAMES.iter().position(|day| name.to_ascii_lowercase().starts_with(day));
        out |= 1 << at.ok_or_else(|| format!("days: {name:?} is none of mon, tue, wed, thu, fri, sat, sun"))?;
    }
    if out == 0 { Err("days is empty".to_owned()) } else { Ok(out) }
}

/// `22:00` as milliseconds.
fn clock_ms(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str, most: i64| {
        text.parse::<i64>().ok().filter(|number| text.len() == 2 && (0..=most).contains(number))
    };
    Some((number(hours, 23)? * 60 + number(minutes, 59)?) * 60_000)
}

fn offset_ms(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    clock_ms(&text[1..]).filter(|ms| *ms <= 14 * 3_600_000).map(|ms| sign * ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn at(text: &str) -> i64 {
        instant_ms(text).unwrap()
    }

    #[test]
    fn weekly_windows_open_on_their_days_in_their_zone() {
        let text = "[[maintenance]]\nname = \"backups\"\nmatch = { env = \"prod|test\" }\ndays = [\"sat\"]\nfrom = \"22:00\"\nfor = \"4h\"\nutc_offset = \"+02:00\"\n";
        let windows = Maintenance::parse(text).unwrap();
        let is_open = |instant: &str| windows[0].keeps_quiet("", &labels(&[("env", "prod")]), at(instant));
        // 2026-11-21 was a Saturday; 22:00 there is 20:00 UTC.
        assert!(!is_open("2026-11-21T19:59:59Z"));
        assert!(is_open("2026-11-21T20:00:00Z"));
        assert!(is_open("2026-11-21T23:59:59Z"));
        assert!(!is_open("2026-11-22T00:00:00Z"));
        assert!(!is_open("2026-11-22T20:00:00Z"), "Sunday");
        assert!(
            !windows[0].keeps_quiet("", &labels(&[("env", "production")]), at("2026-11-21T20:00:00Z")),
            "whole values match"
        );
        let once = "[[maintenance]]\nname = \"move\"\nmatch = { alertname = \".*\" }\nstart = \"2026-12-24T00:00:00Z\"\nend = \"2026-12-26T00:00:00Z\"\n";
        let once = Maintenance::parse(once).unwrap();
        assert!(once[0].keeps_quiet("", &labels(&[]), at("2026-12-25T12:00:00Z")));
        assert!(!once[0].keeps_quiet("", &labels(&[]), at("2026-12-26T00:00:00Z")));
        for (tenant, quiet) in [("team", [false, true]), ("default", [true, false])] {
            let text = text.replace("from =", &format!("tenant = \"{tenant}\"\nfrom ="));
            let windows = Maintenance::parse(&text).unwrap();
            let (at, labels) = (at("2026-11-21T20:00:00Z"), labels(&[("env", "prod")]));
            assert_eq!(["", "team"].map(|own| windows[0].keeps_quiet(own, &labels, at)), quiet, "{tenant}");
        }
        for (from, to) in [
            ("\"sat\"", "\"someday\""),
            ("22:00", "25:00"),
            ("4h", "9d"),
            ("+02:00", "CEST"),
            ("prod|test", "("),
            ("for = \"4h\"", ""),
            ("env", "env = \"a\", env"),
            ("name", "nam"),
        ] {
            assert!(Maintenance::parse(&text.replacen(from, to, 1)).is_err(), "{to}");
        }
    }

    #[test]
    fn silences_have_a_reason_an_end_and_a_limit() {
        let mut silences = Silences::default();
        let silence = |pairs: &[(&str, &str)], reason: &str, ends_ms| Silence {
            id: 0,
            matchers: labels(pairs).try_into().unwrap(),
            tenant: String::new(),
            starts_ms: 0,
            ends_ms,
            by: "me".to_owned(),
            reason: reason.to_owned(),
            is_acknowledgement: false,
        };
        assert!(silences.add(silence(&[], "why", 10), 0).is_err());
        assert!(silences.add(silence(&[("a", "b")], " ", 10), 0).is_err());
        assert!(silences.add(silence(&[("a", "b")], "why", 10), 10).is_err());
        let id = silences.add(silence(&[("a", "b.")], "why", 10), 0).unwrap();
        assert!(silences.of("", &labels(&[("a", "bc")]), 9).is_some());
        assert!(silences.of("", &labels(&[("a", "bc")]), 10).is_none());
        assert!(silences.of("b", &labels(&[("a", "bc")]), 9).is_none(), "another tenant's alerts are loud");
        assert_eq!((silences.of_tenant("b").count(), silences.remove("b", id)), (0, false), "and it does not see it");
        let again: Silences = serde_json::from_str(&serde_json::to_string(&silences).unwrap()).unwrap();
        assert_eq!(again, silences);
        assert!(silences.remove("", id) && !silences.remove("", id));
        let mut acknowledged = silence(&[("a", "b")], "mine", 10);
        acknowledged.matchers = exactly(&labels(&[("a", "b.c")]));
        acknowledged.is_acknowledgement = true;
        silences.add(acknowledged, 0).unwrap();
        silences.ceased("", &labels(&[("a", "bxc")]));
        assert_eq!(silences.of_tenant("").count(), 1);
        silences.ceased("", &labels(&[("a", "b.c")]));
        assert_eq!(silences.of_tenant("").count(), 0);
        for _ in 0..SILENCES_MAX {
            silences.add(silence(&[("a", "b")], "why", 10), 0).unwrap();
        }
        assert!(silences.add(silence(&[("a", "b")], "why", 10), 0).is_err());
    }
}
