//! `--field` and `--regex`: the numbers of lines that hold more than numbers.
//!
//! Invariants: a line either gives values, which are numbers or complaints, or is counted as one without.
//! Limits: of a line longer than [`LINE_BYTES_MAX`] only so much is looked at.

use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;

use ogive_search::each_field;
use regex::Regex;

use super::tally::{Input, Tally};

/// 1 MiB: longer than any line that a person wrote a pattern for.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Which part of a line is read.
pub(super) enum Extract<'a> {
    /// The member of a JSON object or the name of a logfmt pair.
    Field(&'a str),
    /// The first group of each match, or the match.
    Pattern(&'a Regex),
}

impl<'a> Extract<'a> {
    /// The part of each line that `options` select; `None` when lines are words.
    pub(super) fn from_options(options: &'a Input) -> Option<Self> {
        let field = options.field.as_deref().map(Self::Field);
        field.or_else(|| options.regex.as_ref().map(Self::Pattern))
    }

    /// Passes the values of `line` to `each` until it returns false; returns whether there were any, and whether to
    /// continue.
    fn values(&self, line: &str, mut each: impl FnMut(&str) -> bool) -> (bool, bool) {
        let (mut is_found, mut goes_on) = (false, true);
        match self {
            Self::Field(wanted) => each_field(line, &mut |name, value| {
                if name != *wanted {
                    return ControlFlow::Continue(());
                }
                is_found = true;
                goes_on = each(value);
                if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            }),
            Self::Pattern(pattern) => {
                for found in pattern.captures_iter(line) {
                    is_found = true;
                    goes_on = goes_on && found.get(1).or_else(|| found.get(0)).is_none_or(|part| each(part.as_str()));
                }
            }
        }
        (is_found, goes_on)
    }
}

/// Reads lines to the end of `input`, or until a bad number ends it.
pub(super) fn read(
    input: &mut dyn Read,
    extract: &Extract<'_>,
    tally: &mut Tally,
    mut progress: impl FnMut(usize),
) -> std::io::Result<()> {
    let mut reader = BufReader::new(input);
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        let taken = (&mut reader).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
        if taken == 0 {
            return Ok(());
        }
        number += 1;
        progress(taken);
        if taken == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
            progress(skip_line(&mut reader)?);
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        let (is_found, goes_on) = extract.values(text, |value| tally.value(number, value));
        if !goes_on {
            return Ok(());
        }
        tally.lines_without += u64::from(!is_found && !text.trim().is_empty());
    }
}

/// Reads to the end of a line without keeping it; the bytes that it had.
fn skip_line(reader: &mut impl BufRead) -> std::io::Result<usize> {
    let mut skipped = 0;
    loop {
        let part = reader.fill_buf()?;
        let end = part.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(part.len(), |at| at + 1);
        if used == 0 {
            return Ok(skipped);
        }
        reader.consume(used);
        skipped += used;
        if end.is_some() {
            return Ok(skipped);
        }
    }
}
