//! Shared by the line protocols: lines of a message, decimal numbers, names as PromQL allows them, and faults.
//!
//! Invariants: a line that breaks a rule is one [`Fault`], and the next line is read.
//! Limits: [`LINE_BYTES_MAX`].

use std::borrow::Cow;

/// 16 KiB for a line: the longest label value that is stored, and eight times what a DogStatsD client packs into a
/// datagram by default.
pub const LINE_BYTES_MAX: usize = 16 * 1024;

/// Times from outside are whole seconds from 1970 to the year 2262, the end of 64-bit nanoseconds.
const SECONDS_MAX: i64 = i64::MAX / 1_000_000_000;

/// What is wrong with a line or one of its values. The text form is a label value of `ogive_ingest_unreadable_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Longer than [`LINE_BYTES_MAX`].
    #[error("the line is longer than 16384 bytes")]
    TooLong,
    /// The datagram or the connection ended inside the line.
    #[error("the line is cut off")]
    Cut,
    /// Bytes that are not UTF-8.
    #[error("the line is not UTF-8")]
    NotUtf8,
    /// No name, or none where one belongs.
    #[error("missing measurement")]
    Name,
    /// Parts are missing, or there are too many.
    #[error("missing fields")]
    Fields,
    /// A value that is no number, not finite, or not of its type's form.
    #[error("invalid field format")]
    Value,
    /// A type that is not known.
    #[error("unknown type")]
    Type,
    /// A sample rate that is not above 0 and at most 1, or that stands for more than a million.
    #[error("the sample rate is not above 0.000001 and at most 1")]
    SampleRate,
    /// Values with commas between them, where they are not allowed.
    #[error("values are separated by commas; separate them by colons, or allow commas")]
    CommaList,
    /// A tag without a name or, where one is needed, a value.
    #[error("missing tag key or value")]
    Tags,
    /// A time that is no number or cannot be stored.
    #[error("bad timestamp")]
    Time,
    /// Labels that break a limit.
    #[error("the labels break a limit")]
    Labels,
    /// As many cells are open as may be.
    #[error("too many cells are open")]
    Cells,
    /// Compressed bytes that are cut or damaged.
    #[error("the compressed bytes are cut or damaged")]
    Compression,
}

impl Fault {
    /// Every fault, to make each one's counter from the start.
    pub const ALL: [Self; 14] = [
        Self::TooLong,
        Self::Cut,
        Self::NotUtf8,
        Self::Name,
        Self::Fields,
        Self::Value,
        Self::Type,
        Self::SampleRate,
        Self::CommaList,
        Self::Tags,
        Self::Time,
        Self::Labels,
        Self::Cells,
        Self::Compression,
    ];

    /// Name in counters.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "line_too_long",
            Self::Cut => "line_cut",
            Self::NotUtf8 => "not_utf8",
            Self::Name => "name_missing",
            Self::Fields => "fields",
            Self::Value => "value_invalid",
            Self::Type => "type_unknown",
            Self::SampleRate => "sample_rate",
            Self::CommaList => "comma_list",
            Self::Tags => "tags_invalid",
            Self::Time => "time_invalid",
            Self::Labels => "labels_invalid",
            Self::Cells => "cells_limit",
            Self::Compression => "compression_invalid",
        }
    }
}

/// Faults by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults([u64; Fault::ALL.len()]);

impl Faults {
    /// Counts one.
    pub fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// Each fault that happened, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (Fault, u64)> + '_ {
        Fault::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// The lines of `message` that are not empty, without `\n` and a `\r` before it.
pub fn lines(message: &[u8]) -> impl Iterator<Item = &[u8]> {
    message.split(|byte| *byte == b'\n').map(trim_end).filter(|line| !line.is_empty())
}

/// `line` without one `\r` at its end.
pub(crate) fn trim_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The text of a line within the limit.
pub(crate) fn text(line: &[u8]) -> Result<&str, Fault> {
    if line.len() > LINE_BYTES_MAX {
        return Err(Fault::TooLong);
    }
    std::str::from_utf8(line).map_err(|_| Fault::NotUtf8)
}

/// What becomes of names that PromQL needs quotes for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Each character other than letters, digits, `_` (and `:` in a metric's name) becomes `_`, as Prometheus'
    /// exporters for these protocols have it.
    #[default]
    Underscore,
    /// Names stay as they are.
    Utf8,
}

impl Names {
    /// A metric's name.
    #[must_use]
    pub fn metric(self, name: &str) -> Cow<'_, str> {
        self.plain(name, |byte| byte == b':')
    }

    /// A label's name.
    #[must_use]
    pub fn label(self, name: &str) -> Cow<'_, str> {
        self.plain(name, |_| false)
    }

    fn plain(self, name: &str, also: impl Fn(u8) -> bool) -> Cow<'_, str> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || also(byte);
        let begins_well = !name.as_bytes().first().is_some_and(u8::is_ascii_digit);
        if self == Self::Utf8 || begins_well && name.bytes().all(is_plain) {
            return Cow::Borrowed(name);
        }
        let mut out = String::with_capacity(name.len() + 1);
        if !begins_well {
            out.push('_');
        }
        let character =
            |c: char| if u8::try_from(c).is_ok_and(|byte| c.is_ascii() && is_plain(byte)) { c } else { '_' };
        out.extend(name.chars().map(character));
        Cow::Owned(out)
    }
}

/// Label pairs of one series.
pub struct Pairs<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Pairs<'a> {
    /// Those of a metric of this name.
    #[must_use]
    pub fn named(name: Cow<'a, str>) -> Self {
        Self(vec![(Cow::Borrowed(ogive_model::METRIC_NAME), name)])
    }

    /// Adds a label. One that is there already, also after the rule for names, has both values with a comma between
    /// them.
    ///
    /// # Errors
    /// [`Fault::Tags`] without a name, or with that of the metric's name.
    pub fn add(&mut self, name: Cow<'a, str>, value: Cow<'a, str>) -> Result<(), Fault> {
        if name.is_empty() || name == ogive_model::METRIC_NAME {
            return Err(Fault::Tags);
        }
        match self.0.iter_mut().find(|pair| pair.0 == name) {
            Some(pair) if pair.1 == value => {}
            Some(pair) => {
                let both = pair.1.to_mut();
                both.push(',');
                both.push_str(&value);
            }
            None => self.0.push((name, value)),
        }
        Ok(())
    }

    /// The series that they name.
    ///
    /// # Errors
    /// [`Fault::Labels`] when they break a limit.
    pub fn series(self, meta: ogive_model::SeriesMeta) -> Result<ogive_model::SeriesDef, Fault> {
        ogive_model::SeriesDef::new(self.0, meta).map_err(|_| Fault::Labels)
    }
}

/// The double nearest to a finite decimal number times `10^shift`.
pub(crate) fn number(text: &str, shift: i32) -> Result<f64, Fault> {
    quick(text.as_bytes(), shift).or_else(|| slow(text, shift)).ok_or(Fault::Value)
}

/// A number whose digits are an exact double and whose power of ten is one too: a single rounding remains.
fn quick(text: &[u8], shift: i32) -> Option<f64> {
    const POWERS: [f64; 23] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
        1e20, 1e21, 1e22,
    ];
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    // 15 digits are below 2^53.
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let (mut mantissa, mut count, mut point) = (0_u64, 0, None);
    for (at, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                mantissa = mantissa * 10 + u64::from(byte - b'0');
                count += 1;
            }
            b'.' if point.is_none() => point = Some(at),
            _ => return None,
        }
    }
    if count == 0 || count > 15 {
        return None;
    }
    let behind = point.map_or(0, |at| digits.len() - at - 1) as i32;
    let power = shift - behind;
    let magnitude = match power {
        0..=22 => mantissa as f64 * POWERS[power as usize],
        -22..=-1 => mantissa as f64 / POWERS[-power as usize],
        _ => return None,
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// Any decimal number. Words such as `inf` are none.
fn slow(text: &str, shift: i32) -> Option<f64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) {
        return None;
    }
    let value: f64 = if shift == 0 {
        text.parse().ok()?
    } else {
        let (mantissa, power) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
            None => (text, 0),
        };
        format!("{mantissa}e{}", power.checked_add(shift)?).parse().ok()?
    };
    value.is_finite().then_some(value)
}

/// A time in whole or broken seconds since the epoch, as nanoseconds.
pub(crate) fn seconds_ns(text: &str) -> Result<i64, Fault> {
    if let Ok(seconds) = text.parse::<i64>() {
        return if (0..SECONDS_MAX).contains(&seconds) { Ok(seconds * 1_000_000_000) } else { Err(Fault::Time) };
    }
    broken_seconds_ns(number(text, 0).map_err(|_| Fault::Time)?)
}

/// A time in whole seconds since the epoch and nanoseconds, as nanoseconds.
pub(crate) fn whole_seconds_ns(seconds: u64, nanoseconds: u32) -> Result<i64, Fault> {
    let seconds = i64::try_from(seconds).ok().filter(|seconds| *seconds < SECONDS_MAX).ok_or(Fault::Time)?;
    let nanoseconds = Some(i64::from(nanoseconds)).filter(|part| *part < 1_000_000_000).ok_or(Fault::Time)?;
    Ok(seconds * 1_000_000_000 + nanoseconds)
}

/// A time in seconds since the epoch, as nanoseconds.
pub(crate) fn broken_seconds_ns(seconds: f64) -> Result<i64, Fault> {
    if !(0.0..SECONDS_MAX as f64).contains(&seconds) {
        return Err(Fault::Time);
    }
    // Microseconds: what is left of a double's digits for such times.
    Ok((seconds * 1e6).round() as i64 * 1_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_decimal_and_finite() {
        for (text, shift, expected) in [
            ("0", 0, 0.0),
            ("12.5", -3, 0.0125),
            ("320", -3, 0.32),
            ("-0.25", 0, -0.25),
            ("+7", 0, 7.0),
            (".5", 0, 0.5),
            ("5.", 0, 5.0),
            ("1e3", -3, 1.0),
            ("9007199254740993", 0, 9_007_199_254_740_992.0),
            ("123456789012345678901234567890", -30, 0.123_456_789_012_345_68),
            ("1E-2", 0, 0.01),
        ] {
            assert_eq!(number(text, shift), Ok(expected), "{text}");
        }
        for text in [
            "", "-", "+", ".", "nan", "NaN", "inf", "-inf", "1e999", "1,2", "0x10", "1_000", " 1", "1e", "--1", "1.2.3",
        ] {
            assert_eq!(number(text, 0), Err(Fault::Value), "{text:?}");
            assert_eq!(number(text, -3), Err(Fault::Value), "{text:?}");
        }
    }

    #[test]
    fn names_are_those_of_prometheus_unless_they_stay() {
        for (name, metric, label) in [
            ("app.db.q", "app_db_q", "app_db_q"),
            ("a:b", "a:b", "a_b"),
            ("5xx", "_5xx", "_5xx"),
            ("größe", "gr__e", "gr__e"),
            ("ok_1", "ok_1", "ok_1"),
        ] {
            assert_eq!((&*Names::Underscore.metric(name), &*Names::Underscore.label(name)), (metric, label));
            assert_eq!((&*Names::Utf8.metric(name), &*Names::Utf8.label(name)), (name, name));
        }
    }

    #[test]
    fn times_are_seconds_of_this_epoch() {
        assert_eq!(seconds_ns("1700000000"), Ok(1_700_000_000_000_000_000));
        assert_eq!(seconds_ns("1700000000.25"), Ok(1_700_000_000_250_000_000));
        for text in ["-1", "", "x", "9223372036854775807", "1e300", "NaN"] {
            assert_eq!(seconds_ns(text), Err(Fault::Time), "{text:?}");
        }
    }

    #[test]
    fn each_fault_has_its_place_and_name() {
        let mut faults = Faults::default();
        Fault::ALL.into_iter().for_each(|fault| faults.count(fault));
        assert!(faults.iter().eq(Fault::ALL.map(|fault| (fault, 1))));
        let names: std::collections::BTreeSet<_> = Fault::ALL.map(Fault::as_str).into_iter().collect();
        assert_eq!(names.len(), Fault::ALL.len());
    }

    proptest! {
        /// The quick way gives what the standard library gives.
        #[test]
        fn the_quick_way_is_exact(mantissa in -10_000_000_000_000_i64..10_000_000_000_000, point in 0_usize..13, shift in -9_i32..4) {
            let digits = format!("{:0>14}", mantissa.unsigned_abs());
            let (whole, behind) = digits.split_at(14 - point);
            let text = format!("{}{whole}.{behind}", if mantissa < 0 { "-" } else { "" });
            let expected: f64 = format!("{text}e{shift}").parse().unwrap();
            prop_assert_eq!(quick(text.as_bytes(), shift).map(f64::to_bits), Some(expected.to_bits()), "{}", text);
        }
    }
}
