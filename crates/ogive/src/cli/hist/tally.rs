//! What was read of the input, so far.

use anyhow::Context;
use ogive_hist::Histogram;
use regex::Regex;

use super::dense::Dense;
use super::interval_logs::{Logs, UNIT};
use super::number::{self, Dimension, TokenError, Unit};

/// Ten lines show the problem; ten thousand hide it.
pub(super) const COMPLAINTS_MAX: u64 = 10;

/// What the input is.
#[derive(clap::Args, Debug)]
pub(super) struct Input {
    /// Read base64 histograms instead of numbers and merge them. They carry no sum, minimum or maximum: sum and
    /// mean are then estimates from the bins, min and max are null.
    #[arg(long, conflicts_with = "hlog")]
    pub(super) merge: bool,
    /// Read HdrHistogram interval logs (.hlog, jHiccup's included) instead of numbers and merge them. --unit is
    /// the unit of their values, ns by default.
    #[arg(long)]
    pub(super) hlog: bool,
    /// Read this field of lines that are JSON objects or logfmt (`took=5ms`); separate nested members with dots.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["merge", "hlog", "regex"])]
    pub(super) field: Option<String>,
    /// Read what this regular expression matches in each line: its first group, or the whole match.
    #[arg(long, value_name = "PATTERN", conflicts_with_all = ["merge", "hlog"])]
    pub(super) regex: Option<Regex>,
    /// Only intervals with this tag.
    #[arg(long, requires = "hlog")]
    pub(super) tag: Option<String>,
    /// Stop at the first number that cannot be read.
    #[arg(long)]
    pub(super) strict: bool,
    /// Unit of numbers without one.
    #[arg(long, short, value_parser = unit)]
    pub(super) unit: Option<Unit>,
}

pub(super) fn unit(text: &str) -> Result<Unit, String> {
    Unit::parse(text.as_bytes())
        .filter(|unit| *unit != Unit::NONE)
        .ok_or_else(|| "known units are ns us ms s m h d B kB MB GB TB KiB MiB GiB TiB k M G T".into())
}

/// What was read.
pub(super) struct Tally {
    pub(super) dense: Dense,
    pub(super) histogram: Histogram,
    /// The contents of interval logs.
    pub(super) logs: Logs,
    /// The dimension of the numbers; `None` when no number had a unit.
    pub(super) dimension: Option<Dimension>,
    pub(super) skipped: u64,
    pub(super) strict: bool,
    pub(super) bare: Unit,
    /// Bare numbers, if there were also numbers with a unit.
    pub(super) bare_count: u64,
    /// A number without a unit, and its line: the next word may be the unit.
    pub(super) waiting: Option<u64>,
    pub(super) waiting_text: Vec<u8>,
    /// Lines in which `--field` or `--regex` found nothing.
    pub(super) lines_without: u64,
    /// Numbers outside all bins; `None` while there were none.
    pub(super) beyond: Option<OutOfRange>,
}

/// Numbers outside all bins, as they were written.
pub(super) struct OutOfRange {
    pub(super) count: u64,
    pub(super) least: (f64, String),
    pub(super) greatest: (f64, String),
}

impl Tally {
    pub(super) fn new(options: &Input) -> Self {
        let bare = options.unit.unwrap_or(if options.hlog { UNIT } else { Unit::NONE });
        Self {
            dense: Dense::new(),
            histogram: Histogram::log_linear(),
            logs: Logs::new(options.tag.clone(), bare),
            dimension: bare.dimension,
            skipped: 0,
            strict: options.strict,
            bare,
            bare_count: 0,
            waiting: None,
            waiting_text: Vec::new(),
            lines_without: 0,
            beyond: None,
        }
    }

    /// Adds one word: a number, or the unit of the number before it on its line; false when reading must end.
    pub(super) fn word(&mut self, line: u64, token: &[u8]) -> bool {
        let is_unit = || Unit::parse(token).is_some();
        if self.waiting == Some(line) && is_unit() {
            self.waiting_text.extend_from_slice(token);
            return self.end_word();
        }
        if !self.end_word() {
            return false;
        }
        if token.len() < number::TOKEN_BYTES_MAX
            && token.last().is_some_and(|last| last.is_ascii_digit() || *last == b'.')
        {
            self.waiting = Some(line);
            self.waiting_text.clear();
            self.waiting_text.extend_from_slice(token);
            return true;
        }
        self.number(line, token)
    }

    /// Adds the number that waits for its unit; false when reading must end.
    pub(super) fn end_word(&mut self) -> bool {
        let Some(line) = self.waiting.take() else { return true };
        let text = std::mem::take(&mut self.waiting_text);
        let goes_on = self.number(line, &text);
        self.waiting_text = text;
        goes_on
    }

    /// Adds a value of a line, such as `5`, `5ms` or `5 ms`; false when reading must end.
    pub(super) fn value(&mut self, line: u64, text: &str) -> bool {
        let words = || text.split([' ', '\t', ',', ';']).filter(|word| !word.is_empty());
        if words().next().is_none() {
            return self.complain(line, text.as_bytes(), &TokenError::NotANumber);
        }
        words().all(|word| self.word(line, word.as_bytes())) && self.end_word()
    }

    /// Adds one number; false when reading must end.
    pub(super) fn number(&mut self, line: u64, token: &[u8]) -> bool {
        match number::parse(token, self.bare).and_then(|number| self.one_dimension(number)) {
            Ok(value) => {
                self.dense.record(value);
                true
            }
            Err(error) => {
                if error == TokenError::BeyondBins {
                    self.beyond(token);
                }
                self.complain(line, token, &error)
            }
        }
    }

    fn beyond(&mut self, token: &[u8]) {
        let text = String::from_utf8_lossy(&token[..token.len().min(40)]).into_owned();
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.');
        // Only to order them: where the text is too long for it, it is as great as any.
        let value = digits.parse().unwrap_or(f64::INFINITY);
        let one = (value, text);
        let Some(before) = &mut self.beyond else {
            self.beyond = Some(OutOfRange { count: 1, least: one.clone(), greatest: one });
            return;
        };
        before.count += 1;
        if one.0 < before.least.0 {
            before.least = one;
        } else if one.0 > before.greatest.0 {
            before.greatest = one;
        }
    }

    pub(super) fn one_dimension(&mut self, number: number::Number) -> Result<f64, TokenError> {
        match (self.dimension, number.dimension) {
            (Some(before), Some(now)) if before != now => {
                Err(TokenError::MixedUnits { found: now.base_unit(), expected: before.base_unit() })
            }
            (None, Some(now)) => {
                self.dimension = Some(now);
                Ok(number.value)
            }
            (_, None) => {
                self.bare_count += 1;
                Ok(number.value)
            }
            _ => Ok(number.value),
        }
    }

    /// Adds one base64 histogram; false when reading must end.
    pub(super) fn base64(&mut self, line: u64, token: &[u8]) -> bool {
        match decode(token) {
            Ok((other, repairs)) => {
                if let Some(repairs) = repairs {
                    eprintln!("ogive hist: line {line}: {repairs}");
                }
                self.histogram.merge(&other).expect("decoded histograms have one scheme");
                true
            }
            Err(error) => self.complain(line, token, &error),
        }
    }

    /// The histogram with the narrowest bins.
    pub(super) fn finest(&self) -> &Histogram {
        self.logs.only().unwrap_or(&self.histogram)
    }

    pub(super) fn complain(&mut self, line: u64, token: &[u8], error: &dyn std::fmt::Display) -> bool {
        self.skipped += 1;
        let outcome = if self.strict { "" } else { "; skipped" };
        if self.skipped <= COMPLAINTS_MAX {
            let shown = String::from_utf8_lossy(&token[..token.len().min(40)]).into_owned();
            eprintln!("ogive hist: line {line}: {shown:?}: {error}{outcome}");
        }
        !self.strict
    }
}

pub(super) fn decode(token: &[u8]) -> anyhow::Result<(Histogram, Option<String>)> {
    let text = std::str::from_utf8(token).context("not base64 text")?;
    let (histogram, repairs) = ogive_hist::openhistogram::decode_base64(text)?;
    Ok((histogram, (!repairs.is_none()).then(|| format!("not canonical, repaired: {repairs:?}"))))
}
