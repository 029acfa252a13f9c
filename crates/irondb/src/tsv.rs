//! `POST /raw` in lines: `M`, `H1` and `H2` records, their parts between tabs.
//!
//! Format: `M TIME ID NAME TYPE VALUE` and `H1|H2 TIME ID NAME BASE64`; TIME is seconds with milliseconds behind a
//! point, ID is ``target`module`c_ACCOUNT_BUNDLE::module`uuid`` or the UUID alone, TYPE one of `i I l L n s`, VALUE
//! `[[null]]` for none. `H2` counts on. Other letters at the beginning of a line are other records of brokers, which
//! hold no measurement.

use std::borrow::Cow;

use ogive_hist::openhistogram::decode_base64;
use ogive_protocol::lines::{Fault, lines};

use crate::record::{CheckId, Counting, Datum, Record, Tags};

/// The contents of a line.
#[derive(Debug)]
pub enum Line<'b> {
    /// A measurement.
    Record(Box<Record<'b>>),
    /// A broker's record without a measurement: checks, their states, deletions.
    Other,
}

/// Each line of `body`, or its error and beginning.
pub fn read(body: &[u8]) -> impl Iterator<Item = Result<Line<'_>, (Fault, String)>> {
    lines(body).map(|line| {
        let start = || String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
        let text = std::str::from_utf8(line).map_err(|_| (Fault::NotUtf8, start()))?;
        record(text).map_err(|fault| (fault, start()))
    })
}

fn record(line: &str) -> Result<Line<'_>, Fault> {
    let (kind, rest) = line.split_once('\t').ok_or(Fault::Fields)?;
    let mut parts = rest.splitn(if kind == "M" { 5 } else { 4 }, '\t');
    let mut next = || parts.next().ok_or(Fault::Fields);
    match kind {
        "M" | "H1" | "H2" => {}
        "C" | "S" | "D" => return Ok(Line::Other),
        _ => return Err(Fault::Type),
    }
    let (time_ms, id, name) = (milliseconds(next()?)?, next()?, next()?);
    let value = match kind {
        "M" => {
            let kind = next()?;
            value(kind, next()?)?
        }
        _ => {
            let counting = if kind == "H2" { Counting::On } else { Counting::Since };
            match next()? {
                NULL => Datum::Nothing,
                text => Datum::Histogram(Box::new(histogram(text)?), counting),
            }
        }
    };
    let (check, account) = (CheckId::Text(id), account(id));
    let name = Cow::Borrowed(name);
    Ok(Line::Record(Box::new(Record { account, check, name, tags: Tags::InName, time_ms, value, part: None })))
}

const NULL: &str = "[[null]]";

fn value<'b>(kind: &str, text: &'b str) -> Result<Datum<'b>, Fault> {
    match kind {
        "s" if text == NULL => Ok(Datum::Nothing),
        "s" => Ok(Datum::Text(Cow::Borrowed(text))),
        "i" | "I" | "l" | "L" | "n" if text == NULL => Ok(Datum::NoNumber),
        "i" | "I" | "l" | "L" | "n" => text.parse().map(Datum::Number).map_err(|_| Fault::Value),
        _ => Err(Fault::Type),
    }
}

/// A histogram of base64 in which nothing had to be repaired.
pub(crate) fn histogram(text: &str) -> Result<ogive_hist::Histogram<u64>, Fault> {
    let (histogram, repairs) = decode_base64(text).map_err(|_| Fault::Value)?;
    if repairs.is_none() { Ok(histogram) } else { Err(Fault::Value) }
}

/// Seconds with up to three digits behind a point, as milliseconds.
pub(crate) fn milliseconds(text: &str) -> Result<i64, Fault> {
    let (seconds, behind) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty() || !is_digits(seconds) || !is_digits(behind) {
        return Err(Fault::Time);
    }
    let seconds: i64 = seconds.parse().map_err(|_| Fault::Time)?;
    let ms = behind.bytes().chain(*b"000").take(3).fold(0, |ms, digit| 10 * ms + i64::from(digit - b'0'));
    seconds.checked_mul(1_000).and_then(|all| all.checked_add(ms)).ok_or(Fault::Time)
}

/// The account in ``...`c_ACCOUNT_BUNDLE::module`uuid``; 0 when there is none.
fn account(id: &str) -> i64 {
    let name = id.rsplit('`').nth(1).and_then(|name| name.strip_prefix("c_"));
    name.and_then(|rest| rest.split('_').next()).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        match read(line.as_bytes()).next().expect("a line") {
            Ok(Line::Record(record)) => {
                let mut check = String::new();
                record.check.write(&mut check).unwrap();
                let value = match record.value {
                    Datum::Number(number) => number.to_string(),
                    Datum::Text(text) => format!("{text:?}"),
                    Datum::Histogram(histogram, counting) => format!("{counting:?} {}", histogram.total()),
                    other => format!("{other:?}"),
                };
                format!("{} {} {} {} {value}", record.account, &check[..4], record.name, record.time_ms)
            }
            Ok(Line::Other) => "other".into(),
            Err((fault, _)) => format!("{fault:?}"),
        }
    }

    #[test]
    fn each_kind_of_line_is_read() {
        let id = "example.com`http`c_123_987654::http`1b988fd7-d1e1-48ec-848e-55709511d43f";
        let cases = [
            (format!("M\t1512691226.137\t{id}\tduration\tI\t1"), "123 1b98 duration 1512691226137 1"),
            (format!("M\t1512691226\t{id}\ta b|ST[c:d]\tn\t-1.5e3"), "123 1b98 a b|ST[c:d] 1512691226000 -1500"),
            (format!("M\t1.5\t{id}\tx\ts\tone\ttwo"), "123 1b98 x 1500 \"one\\ttwo\""),
            (format!("M\t1.5\t{id}\tx\tn\t[[null]]"), "123 1b98 x 1500 NoNumber"),
            (
                "H1\t2.000\tC50361D8-7565-4f04-8128-3cd2613dbc82\tmaximum\tAAFQ/gAB".into(),
                "0 c503 maximum 2000 Since 1",
            ),
            (format!("H2\t2.000\t{id}\tmaximum\tAAFQ/gAB"), "123 1b98 maximum 2000 On 1"),
            ("S\t1.0\twhatever".into(), "other"),
            (format!("M\t1.5\t{id}\tx\tq\t1"), "Type"),
            (format!("M\t1.5\t{id}\tx\tn\tone"), "Value"),
            (format!("M\tsoon\t{id}\tx\tn\t1"), "Time"),
            (format!("M\t99999999999999999999\t{id}\tx\tn\t1"), "Time"),
            (format!("M\t1.5\t{id}\tx\tn"), "Fields"),
            (format!("H1\t1.5\t{id}\tx\t***"), "Value"),
            ("X\t1".into(), "Type"),
            ("M".into(), "Fields"),
        ];
        for (line, expected) in cases {
            assert_eq!(shown(&line), expected, "{line}");
        }
    }
}
