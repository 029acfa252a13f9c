//! A slow trace as one line of text, and back.
//!
//! *Format*: docs/formats/trace.md. *Invariants*: reading gives what was written; a line that reads is, byte for byte,
//! what writing its value gives. *Limits*: [`LINE_BYTES_MAX`]. *Failure*: [`Error::Trace`], with the field.

use super::list::SLOW_MARKS_MAX;
use super::path::{Class, POINTS_MAX, beginning};
use super::slow::{ClockNote, SlowMark, SlowStage, SlowTrace};
use crate::Error;
use std::fmt::{self, Display};
use std::iter::Peekable;
use std::str::{FromStr, Split};

/// 16 KiB: twelve points and a path and a publisher with names of 64 bytes, three times as long escaped, are 5,400
/// bytes with their numbers, and 52 marks with names of 32 bytes 7,500.
pub(crate) const LINE_BYTES_MAX: usize = 16 * 1024;

/// A name with every byte escaped as %XX that could end a field.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.bytes().try_for_each(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b':' | b'/' | b'(' | b')' => {
                write!(f, "{}", char::from(byte))
            }
            _ => write!(f, "%{byte:02X}"),
        })
    }
}

impl Display for SlowTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.listed > 0 { 2 } else { 1 };
        write!(f, "ogive-trace={version} path={} publisher={}", Escaped(&self.path), Escaped(&self.publisher))?;
        write!(f, " published_ns={} total_ns={}", self.published_ns, self.total_ns)?;
        write!(f, " total_ticks={} limit_ns={}", self.total_ticks, self.limit_ns)?;
        match self.gap_ns {
            Some(ns) => write!(f, " gap_ns={ns}")?,
            None => write!(f, " gap_ns=-")?,
        }
        write!(f, " epoch={} clamped={} missing=", self.epoch, self.clamped)?;
        for (index, name) in self.missing.iter().enumerate() {
            write!(f, "{}{}", if index > 0 { "," } else { "" }, Escaped(name))?;
        }
        let clock = &self.clock;
        write!(f, "{}", if self.missing.is_empty() { "-" } else { "" })?;
        write!(f, " clock={} source={}", Escaped(&clock.mode), Escaped(&clock.source))?;
        write!(f, " frequency_hz={} err_ns={}", clock.frequency_hz, clock.err_ns)?;
        write!(f, " read_ns={:.1} clock_epoch={}", clock.read_ns, clock.epoch)?;
        for stage in &self.stages {
            let (class, points) = (stage.class.name(), self.basis_points(stage));
            let (whole, part) = (points / 100, points % 100);
            write!(f, " stage={},{class},{},{},{whole}.{part:02}", Escaped(&stage.name), stage.ns, stage.ticks)?;
        }
        if self.listed > 0 {
            write!(f, " listed={} lost={}", self.listed, self.listed_lost)?;
        }
        for mark in &self.marks {
            write!(f, " mark={},{},{}", Escaped(&mark.name), mark.ns, mark.ticks)?;
        }
        Ok(())
    }
}

fn wrong(what: &'static str, at: &str) -> Error {
    Error::Trace { what, at: beginning(at, 64).into() }
}

/// The fields of a line, in their order.
struct Fields<'a>(Peekable<Split<'a, char>>);

impl<'a> Fields<'a> {
    /// The value of the next field, if it has this key.
    fn next_if(&mut self, key: &str) -> Option<&'a str> {
        let value = |field: &'a str| field.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
        self.0.next_if(|field| value(field).is_some()).and_then(value)
    }

    /// The value of the next field, which has this key.
    fn value(&mut self, key: &'static str) -> Result<&'a str, Error> {
        let field = self.0.next().unwrap_or("");
        let value = field.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
        value.ok_or_else(|| wrong(key, field))
    }

    fn number<T: FromStr>(&mut self, key: &'static str) -> Result<T, Error> {
        number(self.value(key)?, key)
    }

    fn name(&mut self, key: &'static str) -> Result<String, Error> {
        unescape(self.value(key)?)
    }
}

fn number<T: FromStr>(text: &str, key: &'static str) -> Result<T, Error> {
    text.parse().map_err(|_| wrong(key, text))
}

fn unescape(text: &str) -> Result<String, Error> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.bytes());
    let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => (high * 16 + low) as u8,
                _ => return Err(wrong("two hexadecimal digits after %", text)),
            },
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong("UTF-8", text))
}

fn stage(text: &str) -> Result<SlowStage, Error> {
    let parts: Vec<&str> = text.split(',').collect();
    let [name, class, ns, ticks, _percent] = parts[..] else {
        return Err(wrong("name,class,ns,ticks,percent", text));
    };
    let class = Class::from_name(class).ok_or_else(|| wrong("infra or logic", text))?;
    Ok(SlowStage { name: unescape(name)?, class, ns: number(ns, "ns")?, ticks: number(ticks, "ticks")? })
}

fn mark(text: &str) -> Result<SlowMark, Error> {
    let parts: Vec<&str> = text.split(',').collect();
    let [name, ns, ticks] = parts[..] else { return Err(wrong("name,ns,ticks", text)) };
    Ok(SlowMark { name: unescape(name)?, ns: number(ns, "ns")?, ticks: number(ticks, "ticks")? })
}

fn missing(text: &str) -> Result<Vec<String>, Error> {
    if text == "-" {
        return Ok(Vec::new());
    }
    text.split(',').map(unescape).collect()
}

/// The sum of numbers from outside, if it does not overflow.
fn sum(mut numbers: impl Iterator<Item = u64>) -> Option<u64> {
    numbers.try_fold(0_u64, u64::checked_add)
}

impl FromStr for SlowTrace {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self, Error> {
        if line.len() > LINE_BYTES_MAX {
            return Err(wrong("a line of at most 16 KiB", line));
        }
        let mut fields = Fields(line.split(' ').peekable());
        let version = fields.value("ogive-trace")?;
        if version != "1" && version != "2" {
            return Err(wrong("version 1 or 2", version));
        }
        let mut trace = Self {
            path: fields.name("path")?,
            publisher: fields.name("publisher")?,
            published_ns: fields.number("published_ns")?,
            total_ns: fields.number("total_ns")?,
            total_ticks: fields.number("total_ticks")?,
            limit_ns: fields.number("limit_ns")?,
            gap_ns: match fields.value("gap_ns")? {
                "-" => None,
                ns => Some(number(ns, "gap_ns")?),
            },
            epoch: fields.number("epoch")?,
            clamped: fields.number("clamped")?,
            missing: missing(fields.value("missing")?)?,
            clock: ClockNote {
                mode: fields.name("clock")?,
                source: fields.name("source")?,
                frequency_hz: fields.number("frequency_hz")?,
                err_ns: fields.number("err_ns")?,
                read_ns: fields.number("read_ns")?,
                epoch: fields.number("clock_epoch")?,
            },
            stages: Vec::new(),
            listed: 0,
            listed_lost: 0,
            marks: Vec::new(),
        };
        while let Some(text) = fields.next_if("stage") {
            trace.stages.push(stage(text)?);
        }
        if version == "2" {
            (trace.listed, trace.listed_lost) = (fields.number("listed")?, fields.number("lost")?);
            while let Some(text) = fields.next_if("mark") {
                trace.marks.push(mark(text)?);
            }
        }
        if let Some(field) = fields.0.next() {
            return Err(wrong("stage or mark", field));
        }
        trace.check(line)
    }
}

impl SlowTrace {
    fn check(self, line: &str) -> Result<Self, Error> {
        if self.stages.is_empty() || self.stages.len() + self.missing.len() >= POINTS_MAX {
            return Err(wrong("1 to 11 stages", line));
        }
        let marks = (self.marks.len() as u64).checked_add(self.listed_lost);
        if self.marks.len() > SLOW_MARKS_MAX || marks.is_none_or(|marks| marks > self.listed) {
            return Err(wrong("at most 52 marks, and no more than listed", line));
        }
        if !self.clock.read_ns.is_finite() {
            return Err(wrong("read_ns", line));
        }
        if sum(self.stages.iter().map(|stage| stage.ticks)) != Some(self.total_ticks)
            || sum(self.stages.iter().map(|stage| stage.ns)) != Some(self.total_ns)
        {
            return Err(wrong("stages that add up to the total", line));
        }
        let written = self.to_string();
        if written != line {
            let same = written.bytes().zip(line.bytes()).take_while(|(ours, theirs)| ours == theirs).count();
            return Err(wrong("the one way to write this", &line[beginning(line, same).len()..]));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXAMPLE: &str = include_str!("../../../../vectors/trace/slow.txt");

    fn any_name() -> impl Strategy<Value = String> {
        prop_oneof!["[a-z_]{1,12}", any::<String>().prop_map(|name| name.chars().take(8).collect())]
    }

    prop_compose! {
        fn any_trace()(
            names in prop::collection::vec(any_name(), 4..10),
            // Half of u64 and less, so that the sums fit.
            ticks in prop::collection::vec((any::<bool>(), any::<u64>(), any::<u64>()), 1..5),
            numbers: (i64, u64, Option<u64>, u16, u32),
            clock: (u64, u64, u32, u16),
            lacking in 0_usize..3,
            marks in prop::collection::vec((any_name(), any::<u64>(), any::<u64>()), 0..6),
            unlisted in (any::<u16>(), any::<u16>()),
        ) -> SlowTrace {
            let stage = |(at, (logic, ns, ticks)): (usize, &(bool, u64, u64))| SlowStage {
                name: names[at].clone(),
                class: if *logic { Class::Logic } else { Class::Infrastructure },
                ns: ns >> 3,
                ticks: ticks >> 3,
            };
            let stages: Vec<SlowStage> = ticks.iter().enumerate().map(stage).collect();
            SlowTrace {
                path: names[0].clone(),
                publisher: names[1].clone(),
                published_ns: numbers.0,
                total_ns: stages.iter().map(|stage| stage.ns).sum(),
                total_ticks: stages.iter().map(|stage| stage.ticks).sum(),
                limit_ns: numbers.1,
                gap_ns: numbers.2,
                epoch: numbers.3,
                clamped: numbers.4,
                // A missing point has a name: an identifier is not empty.
                missing: names.iter().filter(|name| !name.is_empty() && *name != "-").take(lacking).cloned().collect(),
                stages,
                listed: if marks.is_empty() { 0 } else { marks.len() as u64 + u64::from(unlisted.0) + u64::from(unlisted.1) },
                listed_lost: if marks.is_empty() { 0 } else { u64::from(unlisted.0) },
                marks: marks.into_iter().map(|(name, ns, ticks)| SlowMark { name, ns, ticks }).collect(),
                clock: ClockNote {
                    mode: names[2].clone(),
                    source: names[3].clone(),
                    frequency_hz: clock.0,
                    err_ns: clock.1,
                    read_ns: f64::from(clock.2) / 10.0,
                    epoch: clock.3,
                },
            }
        }
    }

    proptest! {
        #[test]
        fn a_written_trace_reads_back(trace in any_trace()) {
            let line = trace.to_string();
            prop_assert!(line.len() <= LINE_BYTES_MAX && !line.contains('\n'));
            prop_assert_eq!(line.parse::<SlowTrace>().expect("reads back"), trace);
        }

        /// Whatever the bytes, the answer is a trace that is written so, or an error: no panic.
        #[test]
        fn changed_lines_are_refused_or_read_as_they_are(
            trace in any_trace(), at: prop::sample::Index, byte in any::<u8>(), cut in any::<bool>(),
        ) {
            let mut bytes = trace.to_string().into_bytes();
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            if let Ok(line) = std::str::from_utf8(&bytes)
                && let Ok(read) = line.parse::<SlowTrace>()
            {
                prop_assert_eq!(read.to_string(), line);
                prop_assert_eq!(read.waterfall().lines().count(), 1 + read.stages.len() + read.marks.len() + usize::from(read.listed > 0));
            }
        }
    }

    #[test]
    fn the_documented_example_reads_and_is_written_so() {
        let line = EXAMPLE.trim_end();
        let trace: SlowTrace = line.parse().expect("the example is right");
        assert_eq!(trace.to_string(), line);
        assert_eq!((trace.total_ns, trace.gap_ns, trace.limit_ns), (10_047_998, Some(10_052_113), 1_000_000));
        assert_eq!(trace.culprit().map(|stage| stage.name.as_str()), Some("journal"));
        assert_eq!(
            (trace.publisher.as_str(), trace.missing.as_slice()),
            ("feed 1", ["replicate".to_string()].as_slice())
        );
    }

    #[test]
    fn the_documented_list_reads_and_is_written_so() {
        let line = include_str!("../../../../vectors/trace/marks.txt").trim_end();
        let trace: SlowTrace = line.parse().expect("the example is right");
        assert_eq!(trace.to_string(), line);
        assert_eq!(trace.marks.iter().map(|mark| mark.ns).collect::<Vec<_>>(), [21_000, 22_200, 118_600]);
        for (from, to, what) in [
            ("listed=3", "listed=2", "no more than listed"),
            ("listed=3", "listed=0", "no more than listed"),
            ("lost=0", "lost=1", "no more than listed"),
            ("lost=0", "lost=18446744073709551615", "no more than listed"),
            ("ogive-trace=2", "ogive-trace=1", "stage or mark"),
            ("mark=trade,21000", "mark=trade", "name,ns,ticks"),
            ("mark=trade,21000", "mark=%,21000", "hexadecimal"),
            ("mark=trade,21000", "mark=trade,-1", "ns"),
        ] {
            let changed = line.replacen(from, to, 1);
            let error = changed.parse::<SlowTrace>().expect_err(what).to_string();
            assert!(error.contains(what), "{error} does not name {what}");
        }
        let most = |marks: usize| {
            let more = " mark=x,1,1".repeat(marks - 3);
            format!("{}{more}", line.replacen("listed=3", &format!("listed={marks}"), 1))
        };
        assert!(most(SLOW_MARKS_MAX).parse::<SlowTrace>().is_ok());
        assert!(most(SLOW_MARKS_MAX + 1).parse::<SlowTrace>().is_err());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let line = EXAMPLE.trim_end();
        let check = |from: &str, to: &str, what: &str| {
            let changed = line.replacen(from, to, 1);
            assert_ne!(changed, line, "{from} is in the example");
            let error = changed.parse::<SlowTrace>().expect_err(what).to_string();
            assert!(error.contains(what), "{error} does not name {what}");
        };
        for (from, to, what) in [
            ("ogive-trace=1", "ogive-trace=3", "version 1 or 2"),
            ("ogive-trace=1", "ogive-trace=2", "listed"),
            (" path=", " peth=", "path"),
            ("total_ns=10047998", "total_ns=10047999", "add up"),
            ("total_ns=10047998", "total_ns=+10047998", "one way"),
            ("total_ns=10047998", "total_ns=", "total_ns"),
            ("feed%201", "feed%2", "hexadecimal"),
            ("feed%201", "feed%FF", "UTF-8"),
            ("feed%201", "%66eed%201", "one way"),
            ("read_ns=10.1", "read_ns=inf", "read_ns"),
            (",infra,", ",infrastructure,", "infra or logic"),
            (",99.", ",98.", "one way"),
            (" stage=", " stages=", "stage"),
            (" stage=", "  stage=", "stage"),
        ] {
            check(from, to, what);
        }
        let long = format!("{line}{}", " ".repeat(LINE_BYTES_MAX));
        assert!(matches!(long.parse::<SlowTrace>(), Err(Error::Trace { what: "a line of at most 16 KiB", .. })));
    }
}
