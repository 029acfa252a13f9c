//! Reading texts in the order of their times, a window after the other, so that the first ones come first and memory
//! stays small.
//!
//! Invariants: every text of the wanted series in the range comes once. From the oldest they come by time, those of one
//! instant by labels, then as the store orders them; from the newest in exactly the opposite order.
//! Limits: [`WINDOW_SAMPLES_MAX`], [`WINDOW_BYTES_WISHED`], [`INSTANT_SAMPLES_MAX`], and the query's memory.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use ogive_model::{
    Charge, Labels, METRIC_NAME, MatchOp, Matcher, Ms, Opening, SelectError, Selection, SeriesData, SeriesDef,
    TimeRange, WallMs, Words,
};
use ogive_query::series_bytes;
use serde_json::Value as Json;

use super::ask::Cancel;
use super::error::ApiError;
use ogive_door::backend::Reader;

/// 32,768 texts in memory at a time: 6 MB of usual log lines, and each chunk of a block is read for one or two windows.
const WINDOW_SAMPLES_MAX: usize = 32_768;

/// 8 MiB: a window with more is followed by a shorter one, one with less than an eighth of it by a longer one.
const WINDOW_BYTES_WISHED: usize = 8 << 20;

/// 100,000 texts of one millisecond: a cell has one instant, and twenty-four processes may each give it 4,096 traces.
const INSTANT_SAMPLES_MAX: usize = 100_000;

/// The first window: a minute.
const WINDOW: Ms = Ms::from_secs(60);

/// One text where it was found.
pub(super) struct FoundText {
    pub(super) time: WallMs,
    pub(super) labels: Labels,
    pub(super) text: String,
}

/// The order of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// The newest.
    Backward,
    /// The oldest.
    Forward,
}

/// Where a page of results ended: this many texts of this instant were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) time: WallMs,
    looked_at: usize,
}

impl Cursor {
    pub(super) fn parse(text: &str) -> Option<Self> {
        // The sign of a time before 1970 is no separator.
        let (time, looked_at) = text.rsplit_once('-')?;
        Some(Self { time: WallMs(time.parse().ok()?), looked_at: looked_at.parse().ok()? })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.time.0, self.looked_at)
    }
}

/// The texts to read.
pub(super) struct Scan<'s> {
    pub(super) store: &'s dyn Reader,
    pub(super) cancel: &'s Cancel,
    pub(super) series: &'s BTreeSet<Labels>,
    pub(super) range: TimeRange,
    pub(super) direction: Direction,
    /// The end of the previous page.
    pub(super) cursor: Option<Cursor>,
    /// Texts without some of these words are not wanted, but may be returned.
    pub(super) words: Option<Arc<Words>>,
}

impl Scan<'_> {
    /// Passes each text and its cursor to `each`, until that breaks: the cursor leads back to the text. Returns
    /// warnings about what is missing because of damage, one sentence each.
    pub(super) fn run(
        &self,
        mut each: impl FnMut(FoundText, Cursor) -> ControlFlow<()>,
    ) -> Result<Vec<String>, ApiError> {
        let mut missing = Vec::new();
        if self.series.is_empty() {
            return Ok(missing);
        }
        let (matchers, mut left, mut width) = (matchers(self.series)?, self.rest(), WINDOW);
        let mut at: Option<Cursor> = None;
        while left.start < left.end {
            self.cancel.check()?;
            let window = self.window(left, width);
            let samples_max = if window.length() == Ms(1) { INSTANT_SAMPLES_MAX } else { WINDOW_SAMPLES_MAX };
            let (found, _held) = match self.read(&matchers, window, samples_max, &mut missing) {
                // Many texts, or long ones: fewer at a time.
                Err(SelectError::TooManySamples { .. } | SelectError::TooMuchMemory(_))
                    if samples_max == WINDOW_SAMPLES_MAX =>
                {
                    width = (window.length() / 4).max(Ms(1));
                    continue;
                }
                read => read?,
            };
            let found = self.in_order(found);
            width = next_width(width, &found);
            for one in found {
                let looked_at = at.filter(|at| at.time == one.time).map_or(0, |at| at.looked_at);
                let here = Cursor { time: one.time, looked_at };
                at = Some(Cursor { looked_at: looked_at + 1, ..here });
                let is_new = self.cursor.is_none_or(|from| from.time != here.time || looked_at >= from.looked_at);
                if is_new && each(one, here).is_break() {
                    return Ok(missing);
                }
            }
            match self.direction {
                Direction::Backward => left.end = window.start,
                Direction::Forward => left.start = window.end,
            }
        }
        Ok(missing)
    }

    /// The part of the range after the cursor.
    fn rest(&self) -> TimeRange {
        let TimeRange { start, end } = self.range;
        match (self.cursor, self.direction) {
            (None, _) => self.range,
            (Some(from), Direction::Backward) => TimeRange { start, end: end.min(from.time) },
            (Some(from), Direction::Forward) => TimeRange { start: start.max(from.time.saturating_sub(Ms(1))), end },
        }
    }

    fn window(&self, left: TimeRange, width: Ms) -> TimeRange {
        match self.direction {
            Direction::Backward => TimeRange { start: left.end.saturating_sub(width).max(left.start), ..left },
            Direction::Forward => TimeRange { end: left.start.saturating_add(width).min(left.end), ..left },
        }
    }

    /// All of a window, charged until its texts were handed on.
    fn read(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        samples_max: usize,
        missing: &mut Vec<String>,
    ) -> Result<(Vec<SeriesData>, Charge), SelectError> {
        let selection = Selection { samples_max, ..Selection::new(matchers.to_vec(), range) };
        let words = self.words.as_ref();
        let set = self.cancel.opening(|opening| self.store.open(&selection, &Opening { words, ..*opening }))?;
        let (mut found, mut held) = (Vec::new(), self.cancel.memory().empty());
        for number in 0..set.count() {
            for one in set.take(number)?.into_iter().filter(|one| self.series.contains(&one.labels)) {
                held.grow(series_bytes(&one))?;
                found.push(one);
            }
        }
        missing.extend(set.warnings().into_iter().filter(|warning| !missing.contains(warning)).collect::<Vec<_>>());
        Ok((found, held))
    }

    fn in_order(&self, found: Vec<SeriesData>) -> Vec<FoundText> {
        let mut out = Vec::with_capacity(found.iter().map(|data| data.texts.times.len()).sum());
        for data in found {
            let texts = data.texts.times.into_iter().zip(data.texts.values);
            out.extend(texts.map(|(time, text)| FoundText { time: WallMs(time), labels: data.labels.clone(), text }));
        }
        // Stable: those of one instant stay ordered by labels, and in their own order.
        out.sort_by_key(|one| one.time);
        if self.direction == Direction::Backward {
            out.reverse();
        }
        out
    }
}

/// How long the next window is.
fn next_width(width: Ms, found: &[FoundText]) -> Ms {
    let bytes: usize = found.iter().map(|one| one.text.len()).sum();
    if bytes > WINDOW_BYTES_WISHED || found.len() > WINDOW_SAMPLES_MAX * 3 / 4 {
        (width / 2).max(Ms(1))
    } else if bytes < WINDOW_BYTES_WISHED / 8 && found.len() < WINDOW_SAMPLES_MAX / 8 {
        width.saturating_mul(4)
    } else {
        width
    }
}

/// The column of a grid from `start` on, every `step`, that ends at `time` or next.
pub(super) fn column_end(time: WallMs, start: WallMs, step: Ms) -> WallMs {
    match (time - start).0.rem_euclid(step.0) {
        0 => time,
        behind => time + step - Ms(behind),
    }
}

/// An instant as JSON: whole seconds, or a fraction of them.
pub(super) fn seconds(WallMs(ms): WallMs) -> Json {
    if ms % 1_000 == 0 { (ms / 1_000).into() } else { (ms as f64 / 1e3).into() }
}

/// Labels as a JSON object.
pub(super) fn labels_json(labels: &Labels) -> Json {
    Json::Object(labels.iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
}

/// The definitions of the series that `matchers` accept; charged for as long as the response lives.
pub(super) fn named(
    cancel: &Cancel,
    store: &dyn Reader,
    matchers: &[Matcher],
    range: TimeRange,
    wanted: impl Fn(&SeriesDef) -> bool,
) -> Result<Vec<SeriesDef>, ApiError> {
    let mut found = Vec::new();
    cancel.each_definition(store, matchers, range, |series| {
        if wanted(&series) {
            cancel.hold(size_of::<SeriesDef>() + series.labels.memory_bytes())?;
            found.push(series);
        }
        Ok(())
    })?;
    Ok(found)
}

/// A matcher of the server's own making.
pub(super) fn matcher(name: &str, op: MatchOp, value: &str) -> Result<Matcher, ApiError> {
    let wide = |error| ApiError::execution(format!("too many series at once ({error}); narrow the query"));
    Matcher::new(name, op, value).map_err(wide)
}

/// Matchers that select at least these series.
fn matchers(series: &BTreeSet<Labels>) -> Result<Vec<Matcher>, ApiError> {
    if let (Some(one), 1) = (series.first(), series.len()) {
        return one.iter().map(|(name, value)| matcher(name, MatchOp::Equal, value)).collect();
    }
    let names: BTreeSet<&str> = series.iter().map(Labels::metric_name).collect();
    let escaped: Vec<String> = names.into_iter().map(escape).collect();
    Ok(vec![matcher(METRIC_NAME, MatchOp::Regex, &escaped.join("|"))?])
}

/// A text as a regular expression that matches only it.
fn escape(text: &str) -> String {
    let special = |c: char| c.is_ascii_punctuation() && c != '_';
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_one_pattern_that_matches_them_alone() {
        let labels = |name: &str| Labels::new([("__name__", name), ("a", "b")]).unwrap();
        let series: BTreeSet<Labels> = ["x_slow", "y.z|w_slow", "ü_slow"].into_iter().map(labels).collect();
        let matchers = matchers(&series).unwrap();
        let accepts = |name: &str| matchers.iter().all(|matcher| matcher.matches(name));
        assert!(series.iter().all(|labels| accepts(labels.metric_name())));
        assert!(!accepts("z_slow") && !accepts("w_slow") && !accepts("yyz|w_slow"));
    }

    #[test]
    fn a_cursor_is_read_back() {
        for cursor in [Cursor { time: WallMs(17), looked_at: 3 }, Cursor { time: WallMs(-5), looked_at: 0 }] {
            assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor));
        }
        for wrong in ["", "1", "1-", "-1", "x-1", "1-x", "1--1"] {
            assert_eq!(Cursor::parse(wrong), None, "{wrong}");
        }
    }
}
