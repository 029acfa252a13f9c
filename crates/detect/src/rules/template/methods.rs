//! Methods of times and durations, as Go's packages name them: `{{ (now | toTime).Format "15:04" }}`.
//!
//! Limits: layouts are texts of the template or of its data, and what they give counts as its output.

use super::humanize::number;
use super::layout::format_time;
use super::number::float_text;
use super::time::{Civil, MONTHS, WEEKDAYS, duration_text, time_text};
use super::value::Value;

/// The year 1, where Go's times begin, nanoseconds since 1970.
const FIRST_NS: i128 = -62_135_596_800_000_000_000;
/// Names and numbers of arguments.
const OF_TIME: &[(&str, usize)] = &[
    ("Add", 1),
    ("AddDate", 3),
    ("After", 1),
    ("Before", 1),
    ("Compare", 1),
    ("Day", 0),
    ("Equal", 1),
    ("Format", 1),
    ("Hour", 0),
    ("IsZero", 0),
    ("Local", 0),
    ("Minute", 0),
    ("Month", 0),
    ("Nanosecond", 0),
    ("Round", 1),
    ("Second", 0),
    ("String", 0),
    ("Sub", 1),
    ("Truncate", 1),
    ("UTC", 0),
    ("Unix", 0),
    ("UnixMicro", 0),
    ("UnixMilli", 0),
    ("UnixNano", 0),
    ("Weekday", 0),
    ("Year", 0),
    ("YearDay", 0),
];
const OF_DURATION: &[(&str, usize)] = &[
    ("Abs", 0),
    ("Hours", 0),
    ("Microseconds", 0),
    ("Milliseconds", 0),
    ("Minutes", 0),
    ("Nanoseconds", 0),
    ("Round", 1),
    ("Seconds", 0),
    ("String", 0),
    ("Truncate", 1),
];

/// The result of a method of `value`; `None` when it has none with that name.
pub(crate) fn call(value: &Value, name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
    let methods = match value {
        Value::Time(_) => OF_TIME,
        Value::Duration(_) => OF_DURATION,
        _ => return None,
    };
    let (_, want) = methods.iter().find(|(method, _)| *method == name)?;
    if arguments.len() != *want {
        return Some(Err(format!("wrong number of args for {name}: want {want} got {}", arguments.len())));
    }
    Some(match value {
        Value::Time(ns) => of_time(*ns, name, arguments),
        Value::Duration(ns) => of_duration(*ns, name, arguments),
        _ => unreachable!("only times and durations have passed"),
    })
}

fn of_time(ns: i128, name: &str, arguments: &[Value]) -> Result<Value, String> {
    let civil = Civil::from_ns(ns);
    Ok(match name {
        "Format" => match &arguments[0] {
            Value::Text(layout) => Value::text(&format_time(ns, layout)),
            other => return Err(wrong("string", other)),
        },
        "String" => Value::text(&time_text(ns)),
        "UTC" | "Local" => Value::Time(ns),
        "Year" => whole(civil.year)?,
        "Month" => Value::text(MONTHS[civil.month - 1]),
        "Weekday" => Value::text(WEEKDAYS[civil.weekday]),
        "Day" => whole(civil.day)?,
        "YearDay" => whole(civil.year_day)?,
        "Hour" => whole(civil.hour)?,
        "Minute" => whole(civil.minute)?,
        "Second" => whole(civil.second)?,
        "Nanosecond" => whole(civil.nanosecond)?,
        "Unix" => whole(ns.div_euclid(1_000_000_000))?,
        "UnixMilli" => whole(ns.div_euclid(1_000_000))?,
        "UnixMicro" => whole(ns.div_euclid(1_000))?,
        "UnixNano" => whole(ns)?,
        "IsZero" => Value::Bool(ns == FIRST_NS),
        "AddDate" => {
            let part = |at: usize| match &arguments[at] {
                Value::Int(part) => Ok(*part),
                other => Err(wrong("int", other)),
            };
            Value::Time(civil.plus(part(0)?, part(1)?, part(2)?).ok_or("the time overflows")?)
        }
        "Add" => Value::Time(ns + i128::from(duration(&arguments[0])?)),
        "Round" => Value::Time(FIRST_NS + rounded(ns - FIRST_NS, duration(&arguments[0])?)),
        "Truncate" => Value::Time(FIRST_NS + truncated(ns - FIRST_NS, duration(&arguments[0])?)),
        _ => {
            let Value::Time(other) = &arguments[0] else { return Err(wrong("time.Time", &arguments[0])) };
            match name {
                "After" => Value::Bool(ns > *other),
                "Before" => Value::Bool(ns < *other),
                "Equal" => Value::Bool(ns == *other),
                "Compare" => Value::Int(ns.cmp(other) as i64),
                _ => Value::Duration(clamped(ns - other)),
            }
        }
    })
}

fn of_duration(ns: i64, name: &str, arguments: &[Value]) -> Result<Value, String> {
    let in_units = |unit: i64| (ns / unit) as f64 + (ns % unit) as f64 / unit as f64;
    Ok(match name {
        "String" => Value::text(&duration_text(ns)),
        "Nanoseconds" => Value::Int(ns),
        "Microseconds" => Value::Int(ns / 1_000),
        "Milliseconds" => Value::Int(ns / 1_000_000),
        "Seconds" => Value::Float(in_units(1_000_000_000)),
        "Minutes" => Value::Float(in_units(60_000_000_000)),
        "Hours" => Value::Float(in_units(3_600_000_000_000)),
        "Abs" => Value::Duration(ns.saturating_abs()),
        "Round" => Value::Duration(clamped(rounded(ns.into(), duration(&arguments[0])?))),
        _ => Value::Duration(clamped(truncated(ns.into(), duration(&arguments[0])?))),
    })
}

fn duration(value: &Value) -> Result<i64, String> {
    match value {
        Value::Duration(ns) | Value::Int(ns) => Ok(*ns),
        other => Err(wrong("time.Duration", other)),
    }
}

/// To the nearest multiple of `unit`, halves away from zero; unchanged when the unit is not above zero.
fn rounded(ns: i128, unit: i64) -> i128 {
    if unit <= 0 {
        return ns;
    }
    let unit = i128::from(unit);
    let below = truncated_by(ns, unit);
    let is_up = (ns - below).abs() * 2 >= unit;
    if is_up { below + unit * ns.signum() } else { below }
}

fn truncated(ns: i128, unit: i64) -> i128 {
    if unit <= 0 { ns } else { truncated_by(ns, unit.into()) }
}

fn truncated_by(ns: i128, unit: i128) -> i128 {
    ns - ns % unit
}

fn clamped(ns: i128) -> i64 {
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

fn whole(number: i128) -> Result<Value, String> {
    i64::try_from(number)
        .map(Value::Int)
        .map_err(|_| format!("{} does not fit into int64", float_text(number as f64, 'g', None)))
}

fn wrong(expected: &str, found: &Value) -> String {
    // A value with a number is shown as it is printed: `1800 (int)`.
    let shown = if number(found).is_ok() { format!("{} ", found.print()) } else { String::new() };
    format!("wrong type for value; expected {expected}; got {shown}{}", found.type_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn times_and_durations_round_as_go_does() {
        assert_eq!(rounded(7, 5), 5);
        assert_eq!(rounded(8, 5), 10);
        assert_eq!(rounded(-8, 5), -10);
        assert_eq!(rounded(5, 10), 10, "halves away from zero");
        assert_eq!(rounded(5, 0), 5);
        assert_eq!(truncated(-8, 5), -5);
        let hour = [Value::Duration(3_600 * SECOND)];
        let time = Value::Time(i128::from(5_400 * SECOND));
        assert_eq!(call(&time, "Truncate", &hour), Some(Ok(Value::Time(i128::from(3_600 * SECOND)))));
        assert_eq!(call(&time, "Round", &hour), Some(Ok(Value::Time(i128::from(7_200 * SECOND)))));
    }

    #[test]
    fn what_is_no_method_is_none() {
        assert_eq!(call(&Value::Int(1), "Format", &[]), None);
        assert_eq!(call(&Value::Time(0), "Hours", &[]), None);
        assert!(matches!(call(&Value::Time(0), "Format", &[]), Some(Err(error)) if error.contains("want 1 got 0")));
        assert!(
            matches!(call(&Value::Time(0), "Add", &[Value::text("x")]), Some(Err(error)) if error.contains("string"))
        );
        let far = Value::Time(i128::from(i64::MAX) + 1);
        assert!(matches!(call(&far, "UnixNano", &[]), Some(Err(_))));
    }
}
