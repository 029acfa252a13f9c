//! Splits a request: a body that is too large for one batch is cut between its samples, and each part is a body of its
//! own.
//!
//! Format: containers of samples are cut at any level; what accompanies them (a resource, a scope, the name of a
//! metric, the symbols of remote write 2.0) is repeated in each part that has one of its samples. Lines are cut between
//! lines.
//! Invariants: the units of a body, and so the bytes of its parts, depend only on the body: a request that is sent
//! again has the same parts. Each unit is in exactly one part of a division.

use std::ops::Range;

use crate::Error;
use crate::influx;
use crate::protobuf::{Field, Fields, write};

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `prometheus.WriteRequest`: its time series.
    RemoteWrite1,
    /// `io.prometheus.write.v2.Request`: its time series.
    RemoteWrite2,
    /// `ExportMetricsServiceRequest`: its points.
    OtlpMetrics,
    /// `ExportLogsServiceRequest`: its records.
    OtlpLogs,
    /// `ExportTraceServiceRequest`: its spans.
    OtlpTraces,
    /// InfluxDB's line protocol: its lines.
    Lines,
}

/// One part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// A body of the same layout.
    pub bytes: Vec<u8>,
    /// Lines of the whole in front of its first, where it has lines.
    pub lines_before: usize,
}

impl Layout {
    /// The fields that lead to a unit, level by level; none for lines.
    const fn path(self) -> &'static [&'static [u32]] {
        match self {
            Self::RemoteWrite1 => &[&[1]],
            Self::RemoteWrite2 => &[&[5]],
            // Resource, scope, metric, one of the kinds of data, point.
            Self::OtlpMetrics => &[&[1], &[2], &[2], &[5, 7, 9, 10, 11], &[1]],
            Self::OtlpLogs | Self::OtlpTraces => &[&[1], &[2], &[2]],
            Self::Lines => &[],
        }
    }

    /// How many units `body` has.
    ///
    /// # Errors
    /// When its fields cannot be distinguished from each other.
    pub fn units(self, body: &[u8]) -> Result<usize, Error> {
        if self == Self::Lines {
            return Ok(influx::numbered(body).count());
        }
        let mut cut = PartWriter { wanted: 0..0, seen: 0 };
        cut.message(body, self.path(), &mut Vec::new())?;
        Ok(cut.seen)
    }

    /// The units `wanted` of `body`.
    ///
    /// # Errors
    /// When its fields cannot be distinguished from each other.
    pub fn part(self, body: &[u8], wanted: Range<usize>) -> Result<Part, Error> {
        if self == Self::Lines {
            return Ok(lines(body, &wanted));
        }
        let (mut bytes, mut cut) = (Vec::new(), PartWriter { wanted, seen: 0 });
        cut.message(body, self.path(), &mut bytes)?;
        Ok(Part { bytes, lines_before: 0 })
    }
}

struct PartWriter {
    wanted: Range<usize>,
    /// Units so far.
    seen: usize,
}

impl PartWriter {
    /// Appends `message` with the wanted units alone; whether it has any.
    fn message(&mut self, message: &[u8], path: &[&[u32]], out: &mut Vec<u8>) -> Result<bool, Error> {
        let (numbers, rest) = path.split_first().expect("a path ends at its units");
        let (mut fields, mut has_units) = (Fields::new(message), false);
        loop {
            let from = message.len() - fields.remaining();
            let Some(field) = fields.next() else { return Ok(has_units) };
            let (number, value) = field?;
            let whole = &message[from..message.len() - fields.remaining()];
            let Field::Bytes(inner) = value else {
                out.extend_from_slice(whole);
                continue;
            };
            if !numbers.contains(&number) {
                out.extend_from_slice(whole);
                continue;
            }
            let before = self.seen;
            if !rest.is_empty() {
                let mut inside = Vec::new();
                if self.message(inner, rest, &mut inside)? {
                    write::bytes(out, number, &inside);
                    has_units = true;
                }
            }
            // What has no units inside is one itself.
            if self.seen == before {
                if self.wanted.contains(&before) {
                    out.extend_from_slice(whole);
                    has_units = true;
                }
                self.seen += 1;
            }
        }
    }
}

fn lines(body: &[u8], wanted: &Range<usize>) -> Part {
    let start = body.as_ptr().addr();
    let mut places =
        influx::numbered(body).map(|found| (found.line.as_ptr().addr() - start, found.line.len(), found.number));
    let Some((from, length, number)) = places.nth(wanted.start).filter(|_| !wanted.is_empty()) else {
        return Part { bytes: Vec::new(), lines_before: 0 };
    };
    let end = places.take(wanted.len() - 1).last().map_or(from + length, |(at, length, _)| at + length);
    Part { bytes: body[from..end].to_vec(), lines_before: number - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(fields: &[(u32, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        fields.iter().for_each(|(number, bytes)| write::bytes(&mut out, *number, bytes));
        out
    }

    /// Every division of `body` has each unit once, and the parts of the parts are those of the whole.
    fn check(layout: Layout, body: &[u8], units: usize, of: impl Fn(&[u8]) -> Vec<String>) {
        assert_eq!(layout.units(body).unwrap(), units, "{layout:?}");
        let all = of(body);
        for size in 1..=units + 1 {
            let mut found = Vec::new();
            for from in (0..units).step_by(size) {
                let wanted = from..(from + size).min(units);
                let part = layout.part(body, wanted.clone()).unwrap();
                assert_eq!(layout.units(&part.bytes).unwrap(), wanted.len(), "{layout:?} {wanted:?}");
                assert_eq!(part, layout.part(body, wanted).unwrap());
                found.extend(of(&part.bytes));
            }
            assert_eq!(found, all, "{layout:?} by {size}");
        }
        assert_eq!(layout.units(&layout.part(body, 0..units).unwrap().bytes).unwrap(), units);
    }

    /// The units of a body with everything around them.
    fn chains(body: &[u8], path: &[&[u32]], around: &str, out: &mut Vec<String>) {
        let fields: Vec<_> = Fields::new(body).map(Result::unwrap).collect();
        let (numbers, rest) = path.split_first().unwrap();
        let beside: Vec<_> = fields.iter().filter(|(number, _)| !numbers.contains(number)).collect();
        let around = format!("{around} {beside:?}");
        for (number, field) in fields.iter().filter(|(number, _)| numbers.contains(number)) {
            let Field::Bytes(inner) = field else { panic!() };
            let before = out.len();
            if !rest.is_empty() {
                chains(inner, rest, &format!("{around} {number}"), out);
            }
            if out.len() == before {
                out.push(format!("{around} {number} {inner:?}"));
            }
        }
    }

    fn chains_of(layout: Layout) -> impl Fn(&[u8]) -> Vec<String> {
        move |body| {
            let mut out = Vec::new();
            chains(body, layout.path(), "", &mut out);
            out
        }
    }

    #[test]
    fn each_unit_is_in_one_part_with_what_stands_around_it() {
        let series = |at: u8| message(&[(1, &[at]), (2, b"sample")]);
        let one = [series(1), series(2), series(3)].map(|series| message(&[(1, &series)])).concat();
        check(
            Layout::RemoteWrite1,
            &[&one[..], &message(&[(3, b"metadata")])].concat(),
            3,
            chains_of(Layout::RemoteWrite1),
        );
        // The symbols stand behind what names them, which protobuf allows.
        let two = [message(&[(5, b"a"), (5, b"b")]), message(&[(4, b""), (4, b"up"), (5, b"c")])].concat();
        check(Layout::RemoteWrite2, &two, 3, chains_of(Layout::RemoteWrite2));
        let metric = |name: &[u8], data: u32, points: &[&[u8]]| {
            let points: Vec<(u32, &[u8])> = points.iter().map(|point| (1, *point)).collect();
            let mut inner = message(&points);
            write::number(&mut inner, 2, 1);
            message(&[(1, name), (data, &inner), (3, b"s")])
        };
        let scope = message(&[
            (1, b"scope"),
            (2, &metric(b"m", 7, &[b"p1", b"p2", b"p3"])),
            (2, &metric(b"h", 9, &[b"p4"])),
            (2, &message(&[(1, b"no data")])),
            (3, b"schema"),
        ]);
        let empty = message(&[(1, b"a scope of nothing")]);
        let resource = message(&[(2, &scope), (2, &empty), (1, b"resource behind its scopes")]);
        let other = message(&[(1, b"other"), (2, &scope)]);
        let body = message(&[(1, &resource), (1, &other), (1, b"")]);
        check(Layout::OtlpMetrics, &body, 12, chains_of(Layout::OtlpMetrics));
        let scope = message(&[(1, b"scope"), (2, b"r1"), (2, b"r2"), (2, b"r3")]);
        let resource = message(&[(1, b"resource"), (2, &scope), (2, &scope)]);
        for layout in [Layout::OtlpLogs, Layout::OtlpTraces] {
            check(layout, &message(&[(1, &resource)]), 6, chains_of(layout));
        }
    }

    #[test]
    fn lines_are_cut_between_lines() {
        let body = b"# comment\na v=1 1\n\nb s=\"two\nlines\" 2\r\n  c v=3\nd v=4";
        let of = |part: &[u8]| influx::numbered(part).map(|found| String::from_utf8_lossy(found.line).into()).collect();
        check(Layout::Lines, body, 4, of);
        for (wanted, lines_before) in [(0..1, 1), (1..2, 3), (2..4, 5), (3..4, 6)] {
            assert_eq!(Layout::Lines.part(body, wanted).unwrap().lines_before, lines_before);
        }
        assert_eq!(Layout::Lines.units(b"# nothing\n").unwrap(), 0);
    }

    #[test]
    fn what_is_broken_is_said() {
        for layout in [Layout::RemoteWrite1, Layout::OtlpMetrics] {
            assert!(layout.units(b"\x0a\x05ab").is_err(), "{layout:?}");
            assert!(layout.part(b"\x0a\x05ab", 0..1).is_err(), "{layout:?}");
        }
    }
}
