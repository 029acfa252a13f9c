//! The in-memory index of a block: labels, postings, and the positions of the series pages.

use std::ops::Range;
use std::sync::OnceLock;

use fst::{IntoStreamer, Streamer};
use ogive_model::{MatchOp, Matcher};
use roaring::RoaringBitmap;

use crate::block::format::{PAGE_SERIES, Section, Summary};
use crate::block::postings::Postings;
use crate::bytes::{Broken, Cursor};

pub(crate) struct Index {
    series: u32,
    pages: Vec<Section>,
    labels: fst::Map<Vec<u8>>,
    postings: Postings,
    /// The labels by number, when they are few; made when the first is asked for.
    texts: OnceLock<Option<LabelTexts>>,
}

/// 64 Ki labels, some 4 MiB of text: those of ten thousand series. Of more each is looked up by itself, a microsecond.
const TEXTS_MAX: usize = 1 << 16;

/// Labels by number.
struct LabelTexts {
    text: String,
    /// Where the name and the value of each end.
    ends: Vec<(u32, u32)>,
}

impl LabelTexts {
    fn get(&self, number: u32) -> Option<(&str, &str)> {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(Some(0), |before| Some(self.ends.get(before)?.1))?;
        let (name, value) = *self.ends.get(number)?;
        Some((&self.text[start as usize..name as usize], &self.text[name as usize..value as usize]))
    }
}

/// Bytes of the sections that an index is made of, checked.
pub(crate) struct IndexBytes {
    pub(crate) pages: Vec<u8>,
    pub(crate) labels: Vec<u8>,
    pub(crate) postings: Vec<u8>,
}

/// A page of the block.
pub(crate) struct SeriesPage {
    /// Its number.
    pub(crate) number: usize,
    /// Where it is.
    pub(crate) place: Section,
    /// The series that it describes.
    pub(crate) series: Range<u32>,
}

impl Index {
    /// The index of a block with `summary` whose series pages fill `place`.
    pub(crate) fn parse(bytes: IndexBytes, summary: &Summary, place: Section) -> Result<Self, Broken> {
        let series = u32::try_from(summary.series)
            .map_err(|_| Broken { offset: 0, problem: format!("{} series", summary.series) })?;
        let pages = parse_pages(&bytes.pages, series as usize, place)?;
        let no_map = |error: fst::Error| Broken { offset: 0, problem: error.to_string() };
        let labels = fst::Map::new(bytes.labels).map_err(no_map)?;
        // A map panics at bytes that no builder wrote: its own checksum finds them. That of the section shows what the
        // disk did to them.
        labels.as_fst().verify().map_err(no_map)?;
        let postings = Postings::parse(bytes.postings)?;
        if labels.len() != postings.len() {
            let problem = format!("{} labels and {} postings", labels.len(), postings.len());
            return Err(Broken { offset: 0, problem });
        }
        Ok(Self { series, pages, labels, postings, texts: OnceLock::new() })
    }

    /// Bytes held in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let texts =
            self.texts.get().and_then(Option::as_ref).map_or(0, |texts| texts.text.len() + 8 * texts.ends.len());
        let pages = self.pages.len() * size_of::<Section>();
        self.labels.as_fst().as_bytes().len() + self.postings.memory_bytes() + pages + texts
    }

    /// The page that describes `series`.
    pub(crate) fn page_of(&self, series: u32) -> SeriesPage {
        debug_assert!(series < self.series, "series {series} of {}", self.series);
        let number = series as usize / PAGE_SERIES;
        let first = (number * PAGE_SERIES) as u32;
        let series = first..(first + PAGE_SERIES as u32).min(self.series);
        SeriesPage { number, place: self.pages[number], series }
    }

    /// Name and value of a label.
    pub(crate) fn label(&self, number: u32) -> Option<(String, String)> {
        split_key(&self.labels.as_fst().get_key(u64::from(number))?)
    }

    /// As [`Index::label`], when the labels are few.
    pub(crate) fn text(&self, number: u32) -> Option<(&str, &str)> {
        self.texts.get_or_init(|| self.all_texts()).as_ref()?.get(number)
    }

    fn all_texts(&self) -> Option<LabelTexts> {
        if self.labels.len() > TEXTS_MAX {
            return None;
        }
        let mut texts = LabelTexts { text: String::new(), ends: Vec::with_capacity(self.labels.len()) };
        fn broken<T>(_: T) -> Broken {
            Broken { offset: 0, problem: String::new() }
        }
        let read = self.each_label(|name, value| {
            texts.text.push_str(std::str::from_utf8(name).map_err(broken)?);
            let name_end = u32::try_from(texts.text.len());
            texts.text.push_str(std::str::from_utf8(value).map_err(broken)?);
            let value_end = u32::try_from(texts.text.len());
            let (Ok(name_end), Ok(value_end)) = (name_end, value_end) else { return Err(broken(())) };
            texts.ends.push((name_end, value_end));
            Ok(())
        });
        debug_assert!(read.is_err() || texts.ends.len() == self.labels.len(), "{} texts", texts.ends.len());
        // What is wrong with a label, whoever asks for it gets the error.
        read.is_ok().then_some(texts)
    }

    /// The series that all of `matchers` accept.
    pub(crate) fn matching(&self, matchers: &[Matcher]) -> Result<RoaringBitmap, Broken> {
        let mut found = RoaringBitmap::new();
        found.insert_range(0..self.series);
        // What leaves few series is cheap and comes first.
        let mut ordered: Vec<&Matcher> = matchers.iter().collect();
        ordered.sort_by_key(|matcher| (matcher.matches_empty(), matcher.op != MatchOp::Equal));
        for matcher in ordered {
            if found.is_empty() {
                break;
            }
            // A series without the label has the empty value, and the index knows only those that have it.
            if matcher.matches_empty() {
                found -= self.carrying(&matcher.name, |value| !matcher.matches(value))?;
            } else if matcher.op == MatchOp::Equal {
                found &= self.carrying_exactly(&matcher.name, &matcher.value)?;
            } else {
                found &= self.carrying(&matcher.name, |value| matcher.matches(value))?;
            }
        }
        debug_assert!(found.max().is_none_or(|last| last < self.series), "a series of {} is found", self.series);
        Ok(found)
    }

    /// Calls `each` with the name and the value of every label, by number.
    pub(crate) fn each_label(&self, mut each: impl FnMut(&[u8], &[u8]) -> Result<(), Broken>) -> Result<(), Broken> {
        let mut stream = self.labels.stream();
        while let Some((key, _)) = stream.next() {
            let split = key.iter().position(|byte| *byte == 0xff);
            let split = split.ok_or_else(|| Broken { offset: 0, problem: "a label without its separator".into() })?;
            each(&key[..split], &key[split + 1..])?;
        }
        Ok(())
    }

    fn carrying_exactly(&self, name: &str, value: &str) -> Result<RoaringBitmap, Broken> {
        let mut found = RoaringBitmap::new();
        if let Some(number) = self.labels.get(super::label_key(name, value)) {
            self.postings.add_to(&mut found, number as u32, self.series)?;
        }
        Ok(found)
    }

    /// The series whose label `name` is there with a value that `accept` takes.
    fn carrying(&self, name: &str, mut accept: impl FnMut(&str) -> bool) -> Result<RoaringBitmap, Broken> {
        let mut found = RoaringBitmap::new();
        self.each_value(name, |value, number| {
            if accept(value) {
                self.postings.add_to(&mut found, number, self.series)?;
            }
            Ok(true)
        })?;
        Ok(found)
    }

    /// Calls `each` with every value of label `name`, ascending, and the label's number, for as long as it wants more.
    fn each_value(&self, name: &str, mut each: impl FnMut(&str, u32) -> Result<bool, Broken>) -> Result<(), Broken> {
        let first = super::label_key(name, "");
        let mut end = first.clone();
        end.push(0xff);
        let mut stream = self.labels.range().ge(&first).lt(&end).into_stream();
        while let Some((key, number)) = stream.next() {
            let value = std::str::from_utf8(&key[first.len()..])
                .map_err(|error| Broken { offset: 0, problem: error.to_string() })?;
            if !each(value, number as u32)? {
                break;
            }
        }
        Ok(())
    }

    /// Calls `each` with the values of label `name` that a series of `among` carries, ascending, for as long as it
    /// wants more. None is every series.
    pub(crate) fn each_value_among(
        &self,
        name: &str,
        among: Option<&RoaringBitmap>,
        mut each: impl FnMut(&str) -> bool,
    ) -> Result<(), Broken> {
        self.each_value(name, |value, number| Ok(!self.carried(number, among)? || each(value)))
    }

    /// The values of label `name` whose number `keep` takes, ascending.
    pub(crate) fn values_of(&self, name: &str, keep: impl Fn(u32) -> bool) -> Result<Vec<String>, Broken> {
        let mut values = Vec::new();
        self.each_value(name, |value, number| {
            if keep(number) {
                values.push(value.to_owned());
            }
            Ok(true)
        })?;
        Ok(values)
    }

    /// The label names that a series of `among` carries, ascending. None is every series.
    pub(crate) fn names(&self, among: Option<&RoaringBitmap>) -> Result<Vec<String>, Broken> {
        let mut names = Vec::new();
        let mut after: Vec<u8> = Vec::new();
        loop {
            let mut stream = self.labels.range().ge(&after).into_stream();
            let Some((key, _)) = stream.next() else { break };
            let Some((name, _)) = split_key(key) else {
                return Err(Broken { offset: 0, problem: "a label without its separator".into() });
            };
            after = super::label_key(&name, "");
            after.push(0xff);
            if self.name_carried(&name, among)? {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn name_carried(&self, name: &str, among: Option<&RoaringBitmap>) -> Result<bool, Broken> {
        if among.is_none() {
            return Ok(true);
        }
        let mut carried = false;
        self.each_value(name, |_, number| {
            carried = self.carried(number, among)?;
            Ok(!carried)
        })?;
        Ok(carried)
    }

    fn carried(&self, number: u32, among: Option<&RoaringBitmap>) -> Result<bool, Broken> {
        let Some(among) = among else { return Ok(true) };
        let mut carriers = RoaringBitmap::new();
        self.postings.add_to(&mut carriers, number, self.series)?;
        Ok(!carriers.is_disjoint(among))
    }
}

fn split_key(key: &[u8]) -> Option<(String, String)> {
    let split = key.iter().position(|byte| *byte == 0xff)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    Some((text(&key[..split])?, text(&key[split + 1..])?))
}

/// The pages, which fill `place` one after the other.
/// The pages' places, with their checksums.
pub(crate) fn parse_pages(bytes: &[u8], series: usize, place: Section) -> Result<Vec<Section>, Broken> {
    let mut cursor = Cursor::new(bytes);
    let mut pages = Vec::with_capacity(series.div_ceil(PAGE_SERIES).min(bytes.len()));
    let mut offset = place.offset;
    for _ in 0..series.div_ceil(PAGE_SERIES) {
        let length = cursor.varint()?;
        let checksum = cursor.u32()?;
        pages.push(Section { offset, length, checksum });
        offset = offset.saturating_add(length);
    }
    if offset != place.offset + place.length || !cursor.is_empty() {
        return Err(cursor.broken(format!("the pages end at {offset} in {place:?}")));
    }
    Ok(pages)
}
