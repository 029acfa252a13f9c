//! Numbers of lines as histogram cells, and lines as counts.
//!
//! Invariants: each number is in exactly one cell of one second, the one that its line's time is in, with exact sum,
//! minimum and maximum; the store merges cells of several batches. A cell's exemplar is the line of its largest number.
//! Limits: [`CELLS_MAX`] cells of a batch, [`EXEMPLAR_BYTES_MAX`] of a line in an exemplar, and each rule's number of
//! series, beyond which the values of its labels are [`OTHER`].

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::{Mutex, PoisonError};

use ogive_hist::Histogram;
use ogive_model::{Exemplar, Labels, METRIC_NAME, SeriesDef, Value, WallNs};
use ogive_stream::{Shape, cell_end};

use crate::fields::Fields;
use crate::tally::{Outcome, Tally};
use crate::template::Template;

/// 20,000 cells in a batch: at 1 KiB each, 20 MiB while it is filtered.
pub const CELLS_MAX: usize = 20_000;

/// 1 KiB: a line with its request, and no stack.
const EXEMPLAR_BYTES_MAX: usize = 1 << 10;

/// 256 bytes of a label's value: longer ones are cut.
pub(crate) const VALUE_BYTES_MAX: usize = 256;

/// The value of a rule's labels beyond its limit.
pub const OTHER: &str = "other";

/// Labels of lines that are irrelevant for numbers.
const LEFT_OUT: [&str; 2] = ["severity", "level"];

/// The conversion of a unit in lines: the base unit, and the factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit {
    base: &'static str,
    /// A power of ten, if the factor is one: the result is then the double nearest to the written number.
    power: i32,
    factor: f64,
}

impl Unit {
    /// The unit with this name.
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        let power = |base, power| Self { base, power, factor: 1.0 };
        let factor = |base, factor| Self { base, power: 0, factor };
        Ok(match word {
            "" => power("", 0),
            "s" => power("s", 0),
            "ms" => power("s", -3),
            "us" | "µs" => power("s", -6),
            "ns" => power("s", -9),
            "min" => factor("s", 60.0),
            "h" => factor("s", 3_600.0),
            "B" | "By" => power("By", 0),
            "kB" => power("By", 3),
            "MB" => power("By", 6),
            "GB" => power("By", 9),
            "KiB" => factor("By", 1024.0),
            "MiB" => factor("By", 1_048_576.0),
            "GiB" => factor("By", 1_073_741_824.0),
            "%" => power("1", -2),
            "1" => power("1", 0),
            _ => {
                return Err(format!(
                    "the unit {word:?} is none of s, ms, us, ns, min, h, B, kB, MB, GB, KiB, MiB, GiB, % and 1"
                ));
            }
        })
    }

    /// The number in the base unit. One with a unit behind it (`1.5ms`, `1min 2.5s`) is in that.
    fn read(self, text: &str) -> Option<f64> {
        let text = text.trim();
        let has_unit = |part: &str| part.ends_with(|c: char| c.is_ascii_alphabetic());
        if text.contains(' ') && text.split_whitespace().all(has_unit) {
            return text.split_whitespace().map(|part| self.read_one(part)).sum();
        }
        self.read_one(text)
    }

    fn read_one(self, text: &str) -> Option<f64> {
        let end = text.find(|c: char| c.is_ascii_alphabetic() && c != 'e' && c != 'E' || c == 'µ' || c == '%');
        let (digits, suffix) = text.split_at(end.unwrap_or(text.len()));
        let unit = if suffix.is_empty() { self } else { Self::parse(suffix).ok()? };
        let digits = digits.trim_end();
        let is_number = digits.len() <= 64
            && digits.bytes().any(|byte| byte.is_ascii_digit())
            && digits.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        if !is_number {
            return None;
        }
        let number: f64 = match unit.power {
            0 => digits.parse().ok()?,
            power if digits.contains(['e', 'E']) => digits.parse::<f64>().ok()? * 10_f64.powi(power),
            power => format!("{digits}e{power}").parse().ok()?,
        };
        Some(number * unit.factor).filter(|number| number.is_finite())
    }
}

/// What a rule derives from a line.
#[derive(Debug)]
pub(crate) enum Kind {
    /// The numbers of a field, as a distribution.
    Number { field: String, unit: Unit, has_exemplars: bool },
    /// A count of lines.
    Count,
}

/// A rule.
#[derive(Debug)]
pub(crate) struct Measure {
    /// Distinguishes it from all others of the stage.
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) labels: Vec<(String, Template)>,
    pub(crate) series_max: usize,
    /// Hashes of the existing label sets.
    pub(crate) seen: Mutex<HashSet<u64>>,
}

/// The line that is measured.
pub(crate) struct Measured<'e> {
    pub(crate) labels: &'e Labels,
    pub(crate) fields: &'e Fields,
    /// What an exemplar has of it, and in which label.
    pub(crate) text: &'e str,
    pub(crate) shown: &'static str,
    pub(crate) time: WallNs,
    /// Its tenant, by index.
    pub(crate) tenant: u16,
}

/// A cell of a batch.
#[derive(Debug)]
struct Cell {
    series: SeriesDef,
    time: WallNs,
    tenant: u16,
    value: State,
}

#[derive(Debug)]
enum State {
    Count(u64),
    /// With the largest number.
    Histogram(Box<Histogram>, Option<Largest>),
}

/// The largest number of a cell, and what its exemplar has of its line.
#[derive(Debug)]
struct Largest {
    value: f64,
    time: WallNs,
    shown: &'static str,
    text: String,
}

/// A sample that numbers became.
#[derive(Debug)]
pub(crate) struct MeasuredSample {
    pub(crate) series: SeriesDef,
    pub(crate) time: WallNs,
    pub(crate) tenant: u16,
    pub(crate) value: Value,
}

/// The cells of a batch.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    /// Cells by rule, tenant, time and the line's labels and values; and whether they belong to [`OTHER`].
    index: HashMap<Vec<u8>, (usize, bool)>,
    /// Those of [`OTHER`], by rule, tenant, time and labels.
    others: HashMap<(u32, u16, WallNs, Labels), usize>,
    cells: Vec<Cell>,
    key: Vec<u8>,
    text: String,
}

impl Measure {
    /// Counts or measures a line.
    pub(crate) fn take(&self, line: &Measured<'_>, cells: &mut Cells, tally: &Tally) {
        match &self.kind {
            Kind::Count => {
                if let Some(Cell { value: State::Count(count), .. }) = cells.find(self, line, tally) {
                    *count += 1;
                    tally.add(Outcome::Counted, 1);
                }
            }
            Kind::Number { field, unit, has_exemplars } => {
                let values = line.fields.get(field).into_iter();
                // nginx writes the times of several upstreams with commas, and with colons where it was sent on inside.
                let values = values.flat_map(|value| value.split(", ")).flat_map(|value| value.split(" : "));
                for value in values.filter(|value| !value.is_empty() && *value != "-") {
                    match unit.read(value) {
                        Some(number) => self.number(number, *has_exemplars, line, cells, tally),
                        None => tally.add(Outcome::NumbersInvalid, 1),
                    }
                }
            }
        }
    }

    /// Records a number that is in no field of the line.
    pub(crate) fn record(&self, number: f64, line: &Measured<'_>, cells: &mut Cells, tally: &Tally) {
        if let Kind::Number { has_exemplars, .. } = &self.kind {
            self.number(number, *has_exemplars, line, cells, tally);
        }
    }

    fn number(&self, number: f64, has_exemplars: bool, line: &Measured<'_>, cells: &mut Cells, tally: &Tally) {
        let Some(Cell { value: State::Histogram(histogram, largest), .. }) = cells.find(self, line, tally) else {
            return;
        };
        histogram.record(number);
        tally.add(Outcome::Numbers, 1);
        if has_exemplars && largest.as_ref().is_none_or(|largest| number > largest.value) {
            let mut text = largest.take().map(|largest| largest.text).unwrap_or_default();
            text.clear();
            text.push_str(cut(line.text, EXEMPLAR_BYTES_MAX));
            *largest = Some(Largest { value: number, time: line.time, shown: line.shown, text });
        }
    }

    fn state(&self) -> State {
        match self.kind {
            Kind::Count => State::Count(0),
            Kind::Number { .. } => State::Histogram(Box::new(Histogram::log_linear()), None),
        }
    }

    /// The series with these values of the rule's labels, or, beyond the limit, that of [`OTHER`].
    fn series(&self, line: &Measured<'_>, values: &[String], tally: &Tally) -> Option<(SeriesDef, bool)> {
        let is_own = |name: &str| self.labels.iter().any(|(own, _)| own == name);
        let is_inherited = |name: &str| name != METRIC_NAME && !LEFT_OUT.contains(&name) && !is_own(name);
        let (shape, unit) = match &self.kind {
            Kind::Count => (Shape::Count, ""),
            Kind::Number { unit, .. } => (Shape::Histogram, unit.base),
        };
        let def = |values: &[String]| {
            let own = self.labels.iter().map(|(name, _)| &**name).zip(values.iter().map(String::as_str));
            let own = own.filter(|(_, value)| !value.is_empty());
            let inherited = line.labels.iter().filter(|(name, _)| is_inherited(name));
            SeriesDef::new(inherited.chain(own).chain([(METRIC_NAME, &*self.name)]), shape.meta(unit))
        };
        let Ok(series) = def(values) else {
            tally.add(Outcome::LabelsInvalid, 1);
            return None;
        };
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((line.tenant, &series.labels));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.contains(&hash) || seen.len() < self.series_max {
            seen.insert(hash);
            return Some((series, false));
        }
        drop(seen);
        def(&vec![OTHER.to_owned(); values.len()]).ok().map(|series| (series, true))
    }
}

impl Cells {
    /// The cell of the line for the rule, created if there is room.
    fn find(&mut self, rule: &Measure, line: &Measured<'_>, tally: &Tally) -> Option<&mut Cell> {
        let time = cell_end(line.time);
        self.key.clear();
        self.key.extend_from_slice(&rule.id.to_le_bytes());
        self.key.extend_from_slice(&line.tenant.to_le_bytes());
        self.key.extend_from_slice(&time.0.to_le_bytes());
        for (name, value) in line.labels.iter() {
            put(&mut self.key, name);
            put(&mut self.key, value);
        }
        for (_, template) in &rule.labels {
            self.text.clear();
            template.write(&mut self.text, |name| value(line.fields, line.labels, name));
            put(&mut self.key, cut(&self.text, VALUE_BYTES_MAX));
        }
        if let Some((at, is_other)) = self.index.get(&self.key) {
            if *is_other {
                tally.add(Outcome::Folded, 1);
            }
            return Some(&mut self.cells[*at]);
        }
        if self.cells.len() >= CELLS_MAX {
            tally.add(Outcome::CellsLimit, 1);
            return None;
        }
        let values: Vec<String> = rule
            .labels
            .iter()
            .map(|(_, template)| {
                let mut text = String::new();
                template.write(&mut text, |name| value(line.fields, line.labels, name));
                cut(&text, VALUE_BYTES_MAX).to_owned()
            })
            .collect();
        let (series, is_other) = rule.series(line, &values, tally)?;
        if is_other {
            tally.add(Outcome::Folded, 1);
            let key = (rule.id, line.tenant, time, series.labels.clone());
            if let Some(at) = self.others.get(&key) {
                self.index.insert(self.key.clone(), (*at, true));
                return Some(&mut self.cells[*at]);
            }
            self.others.insert(key, self.cells.len());
        }
        self.index.insert(self.key.clone(), (self.cells.len(), is_other));
        self.cells.push(Cell { series, time, tenant: line.tenant, value: rule.state() });
        self.cells.last_mut()
    }

    /// The resulting samples; exemplars follow their cells.
    pub(crate) fn finish(self) -> impl Iterator<Item = MeasuredSample> {
        self.cells.into_iter().flat_map(|Cell { series, time, tenant, value }| {
            let (value, exemplar) = match value {
                State::Count(count) => (Value::Float(count as f64), None),
                State::Histogram(histogram, largest) => {
                    let exemplar = largest.and_then(|largest| exemplar(&series, tenant, largest));
                    (Value::Histogram(histogram), exemplar)
                }
            };
            [MeasuredSample { series, time, tenant, value }].into_iter().chain(exemplar)
        })
    }
}

fn exemplar(series: &SeriesDef, tenant: u16, largest: Largest) -> Option<MeasuredSample> {
    let Largest { value, time, shown, text } = largest;
    let labels = if text.is_empty() { Labels::empty() } else { Labels::new([(shown, text)]).ok()? };
    let text = Exemplar { labels, value }.to_text().ok()?;
    Some(MeasuredSample { series: Exemplar::series(&series.labels), time, tenant, value: Value::Text(text) })
}

/// The value that a template names: of a field, else of a label.
pub(crate) fn value<'v>(fields: &'v Fields, labels: &'v Labels, name: &str) -> Option<&'v str> {
    fields.get(name).or_else(|| Some(labels.get(name)).filter(|value| !value.is_empty()))
}

fn put(key: &mut Vec<u8>, text: &str) {
    key.extend_from_slice(&(text.len() as u32).to_le_bytes());
    key.extend_from_slice(text.as_bytes());
}

/// The beginning of `text`, cut at a character boundary.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_the_base_unit_and_nearest_to_what_is_written() {
        let check = |unit: &str, text: &str, expected: Option<f64>| {
            assert_eq!(Unit::parse(unit).unwrap().read(text), expected, "{text} {unit}");
        };
        check("ms", "12.345", Some(0.012345));
        check("ms", "1e3", Some(1.0));
        check("s", "0.005", Some(0.005));
        check("", "1.5ms", Some(0.0015));
        check("s", "3 us", Some(0.000003));
        check("", "1min 2.345s", Some(62.345));
        check("KiB", "2", Some(2048.0));
        check("%", "7", Some(0.07));
        check("min", "2", Some(120.0));
        check("", "-3", Some(-3.0));
        for wrong in ["", "x", "inf", "NaN", "0x1", "1e999", "1 parsec", "--1", "1,5"] {
            check("", wrong, None);
        }
        assert!(Unit::parse("fortnight").is_err());
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!((cut("abc", 3), cut("abcd", 3), cut("aä", 2)), ("abc", "abc", "a"));
    }
}
