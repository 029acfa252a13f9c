//! The series that a frame of version 4 declares: a dictionary of strings, classes of series, and their values.
//!
//! Format: `docs/formats/batch.md`. A series of a class has its label names and everything else but its values, so that
//! nine labels take some ten bytes and the strings that occur once, where a table of references takes 150.
//! Invariants: the text is checked to be UTF-8 once; each part of it is used in order and all of it is used.
//! Limits: [`STRINGS_MAX`], [`CLASSES_MAX`], [`Labels::COUNT_MAX`] and [`SeriesDef::UNIT_BYTES_MAX`] bound what is
//! allocated; a writer that exceeds one writes tables instead.
//! Failure: bytes that break the format are an [`Error`]; a series that breaks a rule of series spoils only itself.

use std::collections::HashMap;

use super::frame::malformed;
use super::varint;
use crate::error::within;
use crate::labels::Packer;
use crate::{Error, Kind, Labels, METRIC_NAME, SeriesDef, SeriesMeta, Temporality};

/// 2^20 strings of a dictionary, and as many names of all classes: 16 MiB of references each.
pub(super) const STRINGS_MAX: usize = 1 << 20;
/// 2^16 classes, 6 MiB: a host has some hundred sets of label names.
pub(super) const CLASSES_MAX: usize = 1 << 16;
/// Fewer series than 16 are written as tables, which older readers understand: there is little to share.
pub(super) const SERIES_MIN: usize = 16;

/// The declared series of a frame, their strings and classes read.
#[derive(Default)]
pub(super) struct Dictionary<'a> {
    strings: Vec<&'a str>,
    classes: Vec<Class<'a>>,
    /// Values that occur once, in the order of the series.
    literals: &'a str,
    series: &'a [u8],
    count: usize,
}

/// What series have in common.
pub(super) struct Class<'a> {
    pub(super) names: Vec<&'a str>,
    meta: SeriesMeta,
    /// Of names and unit.
    pub(super) bytes: usize,
    /// Whether the names break no rule, so that only values have to be checked.
    is_valid: bool,
}

impl<'a> Dictionary<'a> {
    /// Reads everything but the series themselves.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for more than `series_max` series, or [`Error::Malformed`].
    pub(super) fn read(bytes: &'a [u8], series_max: usize) -> Result<Self, Error> {
        let mut rest = bytes;
        let header = take_header(&mut rest).ok_or_else(broken)?;
        let [text_bytes, strings, classes, count] = header;
        within("the number of series in a batch", count, series_max)?;
        within("the strings of a batch's dictionary", strings, STRINGS_MAX.min(bytes.len()))?;
        within("the classes of a batch's series", classes, CLASSES_MAX.min(bytes.len()))?;
        let (text, mut rest) = rest.split_at_checked(text_bytes).ok_or_else(broken)?;
        let text = std::str::from_utf8(text).map_err(|_| malformed("the labels of a batch are not UTF-8"))?;
        let mut out = Self { literals: text, count, ..Self::default() };
        out.strings.reserve_exact(strings);
        for _ in 0..strings {
            let string = take_usize(&mut rest).and_then(|length| out.literals.split_at_checked(length));
            let (string, behind) = string.ok_or_else(broken)?;
            out.strings.push(string);
            out.literals = behind;
        }
        let mut names_left = STRINGS_MAX;
        for _ in 0..classes {
            let class = out.take_class(&mut rest)?;
            let count = class.names.len();
            within("the names of a batch's classes of series", count, names_left)?;
            names_left -= count;
            out.classes.push(class);
        }
        // A byte at least stands for each, so what is allocated for them is bounded by the frame.
        if count > rest.len() {
            return Err(broken());
        }
        out.series = rest;
        Ok(out)
    }

    /// How many series there are, if their bytes are good; as many bytes at least are there.
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    fn take_class(&self, bytes: &mut &[u8]) -> Result<Class<'a>, Error> {
        let [kind, temporality, unit, width_ms] = take_header(bytes).ok_or_else(broken)?;
        let count = take_usize(bytes).ok_or_else(broken)?;
        within("the number of labels", count, Labels::COUNT_MAX)?;
        let mut names = Vec::with_capacity(count);
        for _ in 0..count {
            names.push(take_usize(bytes).and_then(|at| self.string(at)).ok_or_else(broken)?);
        }
        let unit = unit.checked_sub(1).map_or(Some(""), |at| self.string(at)).ok_or_else(broken)?;
        within("a unit's bytes", unit.len(), SeriesDef::UNIT_BYTES_MAX)?;
        let meta = SeriesMeta {
            kind: [Kind::Float, Kind::Histogram, Kind::Text].get(kind).copied().ok_or_else(broken)?,
            temporality: [Temporality::Gauge, Temporality::Cumulative, Temporality::Delta]
                .get(temporality)
                .copied()
                .ok_or_else(broken)?,
            unit: unit.to_owned(),
            width_ms: u32::try_from(width_ms).map_err(|_| broken())?,
        };
        // Lengths first: classes may repeat one string of 32 MiB, and comparing it in each takes minutes.
        let is_valid = names.iter().all(|name| (1..=Labels::NAME_BYTES_MAX).contains(&name.len()))
            && names.is_sorted_by(|name, next| name < next)
            && names.contains(&METRIC_NAME);
        let bytes = names.iter().map(|name| name.len()).sum::<usize>() + unit.len();
        Ok(Class { names, meta, bytes, is_valid })
    }

    fn string(&self, at: usize) -> Option<&'a str> {
        self.strings.get(at).copied()
    }

    /// Passes each series' class and values to `visit`, which may stop it.
    ///
    /// # Errors
    /// Those of `visit`, and [`Error::Malformed`], also after some were passed.
    pub(super) fn each(
        &self,
        mut visit: impl FnMut(usize, &Class<'a>, &[&'a str]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut rest, mut literals) = (self.series, self.literals);
        let mut values = [""; Labels::COUNT_MAX];
        for at in 0..self.count {
            let class = take_usize(&mut rest).and_then(|class| self.classes.get(class)).ok_or_else(broken)?;
            let values = &mut values[..class.names.len()];
            for value in &mut *values {
                let code = take_usize(&mut rest).ok_or_else(broken)?;
                if code & 1 == 0 {
                    *value = self.string(code >> 1).ok_or_else(broken)?;
                } else {
                    (*value, literals) = literals.split_at_checked(code >> 1).ok_or_else(broken)?;
                }
            }
            visit(at, class, values)?;
        }
        if rest.is_empty() && literals.is_empty() { Ok(()) } else { Err(broken()) }
    }
}

impl Class<'_> {
    /// The series of the class with `values`, one a name.
    pub(super) fn series(&self, values: &[&str], packer: &mut Packer) -> Result<SeriesDef, Error> {
        assert_eq!(values.len(), self.names.len(), "a value a name");
        let pairs = self.names.iter().copied().zip(values.iter().copied());
        let is_good = |value: &&str| (1..=Labels::VALUE_BYTES_MAX).contains(&value.len());
        if self.is_valid && values.iter().all(is_good) {
            return Ok(SeriesDef { labels: packer.pack(pairs), meta: self.meta.clone() });
        }
        SeriesDef::new(pairs, self.meta.clone())
    }
}

fn take_usize(bytes: &mut &[u8]) -> Option<usize> {
    usize::try_from(varint::take(bytes)?).ok()
}

fn take_header(bytes: &mut &[u8]) -> Option<[usize; 4]> {
    Some([take_usize(bytes)?, take_usize(bytes)?, take_usize(bytes)?, take_usize(bytes)?])
}

fn broken() -> Error {
    malformed("the declared series break the format")
}

/// The bytes of `series`; nothing when they are too few to share much, or exceed a limit of the form.
pub(super) fn written(series: &[&SeriesDef]) -> Option<Vec<u8>> {
    let mut writer = Writer::default();
    if series.len() < SERIES_MIN || !series.iter().all(|def| writer.declare(def)) {
        return None;
    }
    writer.finish(series.len())
}

/// Strings in the order in which they were met, and what refers to them.
#[derive(Default)]
struct Writer<'a> {
    slots: HashMap<&'a str, usize>,
    strings: Vec<&'a str>,
    /// How often each is used.
    uses: Vec<usize>,
    classes: HashMap<(Vec<usize>, &'a SeriesMeta), usize>,
    /// Slots of unit and names of each class, the metadata between.
    class_order: Vec<(Option<usize>, &'a SeriesMeta, Vec<usize>)>,
    names: usize,
    /// For each series its class, then the slots of its values.
    series: Vec<usize>,
}

impl<'a> Writer<'a> {
    fn slot(&mut self, text: &'a str, uses: usize) -> usize {
        let slot = *self.slots.entry(text).or_insert(self.strings.len());
        if slot == self.strings.len() {
            self.strings.push(text);
            self.uses.push(0);
        }
        self.uses[slot] += uses;
        slot
    }

    /// Takes a series; false when it is one class too many, or when a reader would refuse all series for this one.
    fn declare(&mut self, def: &'a SeriesDef) -> bool {
        if def.labels.len() > Labels::COUNT_MAX || def.meta.unit.len() > SeriesDef::UNIT_BYTES_MAX {
            return false;
        }
        let names = def.labels.iter().map(|(name, _)| self.slot(name, 0)).collect::<Vec<_>>();
        let key = (names, &def.meta);
        let class = match self.classes.get(&key) {
            Some(class) => *class,
            None => self.open_class(key),
        };
        self.series.push(class);
        for (_, value) in def.labels.iter() {
            let slot = self.slot(value, 1);
            self.series.push(slot);
        }
        self.class_order.len() <= CLASSES_MAX && self.names <= STRINGS_MAX
    }

    fn open_class(&mut self, key: (Vec<usize>, &'a SeriesMeta)) -> usize {
        let meta = key.1;
        // Twice, so that the dictionary has them, however few series use them.
        key.0.iter().for_each(|slot| self.uses[*slot] += 2);
        let unit = Some(meta.unit.as_str()).filter(|unit| !unit.is_empty()).map(|unit| self.slot(unit, 2));
        self.names += key.0.len();
        self.class_order.push((unit, meta, key.0.clone()));
        self.classes.insert(key, self.class_order.len() - 1);
        self.class_order.len() - 1
    }

    fn finish(self, count: usize) -> Option<Vec<u8>> {
        let mut shared: Vec<usize> = (0..self.strings.len()).filter(|slot| self.uses[*slot] > 1).collect();
        if shared.len() > STRINGS_MAX {
            return None;
        }
        // The most frequent have the shortest numbers.
        shared.sort_by_key(|slot| (std::cmp::Reverse(self.uses[*slot]), *slot));
        let mut index_of = vec![None; self.strings.len()];
        shared.iter().enumerate().for_each(|(index, slot)| index_of[*slot] = Some(index));
        let mut text: String = shared.iter().map(|slot| self.strings[*slot]).collect();
        let index = |slot: usize| index_of[slot].expect("names and units are shared") as u64;
        let mut tail = Vec::new();
        shared.iter().for_each(|slot| varint::put(&mut tail, self.strings[*slot].len() as u64));
        for (unit, meta, names) in &self.class_order {
            let unit = unit.map_or(0, |slot| index(slot) + 1);
            let head = [meta.kind as u64, meta.temporality as u64, unit, meta.width_ms.into(), names.len() as u64];
            head.into_iter().chain(names.iter().map(|slot| index(*slot))).for_each(|it| varint::put(&mut tail, it));
        }
        let mut rest = self.series.iter();
        while let Some(class) = rest.next() {
            varint::put(&mut tail, *class as u64);
            for slot in rest.by_ref().take(self.class_order[*class].2.len()) {
                let code = index_of[*slot].map_or_else(
                    || {
                        text.push_str(self.strings[*slot]);
                        self.strings[*slot].len() << 1 | 1
                    },
                    |index| index << 1,
                );
                varint::put(&mut tail, code as u64);
            }
        }
        let mut out = Vec::with_capacity(20 + text.len() + tail.len());
        let head = [text.len(), shared.len(), self.class_order.len(), count];
        head.into_iter().for_each(|it| varint::put(&mut out, it as u64));
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(&tail);
        Some(out)
    }
}
