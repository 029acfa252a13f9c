//! All detectors over many series: cells go in as they close, findings come out with each step of the watermark.
//!
//! A series belongs to a source, named by the first of [`SOURCE_LABELS`] that it has. A source's watermark is the
//! newest time of its series; a series is absent when that has passed its deadline. A source is lost when the monitor's
//! own watermark has.
//!
//! Limits: [`Options::series_max`] series; of more nothing is judged, which [`Monitor::refused`] counts. What a source
//! finds of one kind in one step is one finding when it is more than [`ALONE_MAX`]. A series that is silent for
//! [`FORGOTTEN`] goes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use ogive_hist::{Count, Histogram};
use ogive_model::{Labels, Ms, SeriesId, WallMs};

use super::absence::Cadence;
use super::finding::{Finding, FindingKind};
use super::rhythm::Rhythm;
use super::shape::Shape;
use super::silence::{Family, Member, Pair, Presence};

/// Labels that name the sender of a series; the first that it has is used.
pub const SOURCE_LABELS: [&str; 6] = ["source", "instance", "service_instance_id", "host", "pod", "job"];
/// More findings of one kind, of one source in one step, are reported as one.
pub const ALONE_MAX: usize = 5;
/// A day: what was silent for longer is forgotten.
pub const FORGOTTEN: Ms = Ms::from_secs(86_400);
/// 256 units: services measure in some ten, and each new series searches for its own among them.
const UNITS_MAX: usize = 256;
/// A cell with less than this share of the usual count is a hole.
const LOW_SHARE: f32 = 0.35;
/// Operations of a cell below which a low count is not significant.
const LOW_COUNT_MIN: f32 = 50.0;

/// What is judged, and with which patience.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How late a sample may be.
    pub lateness: Ms,
    /// Series that are judged.
    pub series_max: usize,
}

impl Default for Options {
    /// 100,000 series are some 70 MB.
    fn default() -> Self {
        Self { lateness: Ms::from_secs(2), series_max: 100_000 }
    }
}

/// A finding and its subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// Labels of the series; of a lost parent, or of several series of a source, the pair that they share.
    pub labels: Labels,
    /// The finding.
    pub finding: Finding,
}

/// The contents of a series' sample.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// Everything that happened in the cell.
    Cell(&'a Histogram<u64>),
    /// The same with float counts.
    FloatCell(&'a Histogram<f64>),
    /// A number, or a distribution that is not a cell: only its time counts.
    Arrival,
}

/// The properties of a series when it first arrives.
#[derive(Clone, Copy, Debug)]
pub struct SeriesProfile<'a> {
    /// Labels, the name included.
    pub labels: &'a Labels,
    /// Unit of its values.
    pub unit: &'a str,
    /// Width of its cells, milliseconds.
    pub width_ms: u32,
}

/// A series' identity without the alignment of 16 bytes: 20 bytes an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity([u32; 4]);

impl Identity {
    #[expect(clippy::cast_possible_truncation, reason = "four parts of 32 bits")]
    const fn new(SeriesId(id): SeriesId) -> Self {
        Self([id as u32, (id >> 32) as u32, (id >> 64) as u32, (id >> 96) as u32])
    }
}

impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.0[0]) | u64::from(self.0[1]) << 32);
    }
}

/// An identity is a hash already; only its low bits are mixed, for identities that are consecutive numbers.
#[derive(Default)]
struct Unhashed(u64);

impl Hasher for Unhashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("identities are written as numbers")
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio in 64 bits: its multiples differ in their high bits, which the table distinguishes entries
        // by.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

struct Slot {
    member: Member,
    source: u32,
    /// Which of the units it has.
    unit: u16,
    width_ms: u32,
    /// Usual count of a cell, and how much of the last one was missing.
    usual: f32,
    missing: f32,
    shape: Option<Box<Shape>>,
    rhythm: Option<Box<Rhythm>>,
}

struct Source {
    member: Member,
    /// Newest sample.
    newest: WallMs,
    /// It arrived since the last step.
    is_fresh: bool,
    /// It returned with this step.
    is_back: bool,
    rhythm: Option<Box<Rhythm>>,
}

/// See the module.
pub struct Monitor {
    options: Options,
    watermark: WallMs,
    known: HashMap<Identity, u32, BuildHasherDefault<Unhashed>>,
    slots: Vec<Slot>,
    units: Vec<Box<str>>,
    sources: Vec<Source>,
    source_names: HashMap<(u8, Box<str>), u32>,
    family: Family,
    pending: Vec<(u32, Finding)>,
    refused: u64,
    suppressed: u64,
}

impl Monitor {
    /// One that has learned nothing yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            watermark: WallMs::MIN,
            known: HashMap::default(),
            slots: Vec::new(),
            units: vec!["".into()],
            sources: Vec::new(),
            source_names: HashMap::new(),
            family: Family::default(),
            pending: Vec::new(),
            refused: 0,
            suppressed: 0,
        }
    }

    /// Series that are judged.
    #[must_use]
    pub fn series(&self) -> usize {
        self.slots.len()
    }

    /// Samples of series beyond the limit.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Findings that are covered by another one.
    #[must_use]
    pub const fn suppressed(&self) -> u64 {
        self.suppressed
    }

    /// Limits how many series are judged from now on; existing ones stay.
    pub const fn set_series_max(&mut self, series_max: usize) {
        self.options.series_max = series_max;
    }

    /// Its approximate memory in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let slot = |slot: &Slot| {
            let shape = slot.shape.as_ref().map_or(0, |shape| size_of::<Shape>() + shape.heap_bytes());
            let rhythm = slot.rhythm.as_ref().map_or(0, |rhythm| size_of::<Rhythm>() + rhythm.heap_bytes());
            shape + rhythm + slot.member.pairs.len() * size_of::<Pair>()
        };
        let held: usize = self.slots.iter().map(slot).sum();
        held + self.slots.capacity() * size_of::<Slot>()
            + self.sources.capacity() * size_of::<Source>()
            + self.known.capacity() * (size_of::<(Identity, u32)>() + 1)
            + self.family.heap_bytes()
    }

    /// A sample of a series that ended at `end`. Samples of a series come in order of time; others are ignored.
    pub fn sample(&mut self, id: SeriesId, about: SeriesProfile<'_>, end: WallMs, content: Content<'_>) {
        let Some(at) = self.slot(id, about, end) else {
            self.refused += 1;
            return;
        };
        let slot = &mut self.slots[at as usize];
        let source = &mut self.sources[slot.source as usize];
        source.is_fresh = true;
        source.newest = source.newest.max(end);
        let last = slot.member.cadence.last();
        if end < last {
            return;
        }
        let was_out = slot.member.presence == Presence::Suppressed || source.member.presence != Presence::Present;
        let mean_ms = slot.member.cadence.mean_ms();
        if was_out {
            slot.member.presence = Presence::Present;
            slot.member.cadence.resume(end);
        } else if slot.member.arrive(end) {
            let finding = slot.member.back(end, &name(&slot.member.labels));
            self.pending.push((at, finding));
        }
        let count = match content {
            Content::Cell(cell) => Some(count(cell)),
            Content::FloatCell(cell) => Some(count(cell)),
            Content::Arrival => None,
        };
        if let Some(finding) = slot.hole(last, end, count, mean_ms) {
            self.pending.push((at, finding));
        }
        let shape = slot.shape.as_mut();
        let found = match (content, shape) {
            (Content::Cell(cell), Some(shape)) => shape.cell(end, cell, &self.units[usize::from(slot.unit)]),
            (Content::FloatCell(cell), Some(shape)) => shape.cell(end, cell, &self.units[usize::from(slot.unit)]),
            _ => None,
        };
        if let Some(finding) = found {
            self.pending.push((at, finding));
        }
    }

    fn slot(&mut self, id: SeriesId, about: SeriesProfile<'_>, end: WallMs) -> Option<u32> {
        let identity = Identity::new(id);
        if let Some(at) = self.known.get(&identity) {
            return Some(*at);
        }
        if self.slots.len() >= self.options.series_max {
            return None;
        }
        let source = self.source(about.labels, end);
        let member = Member::new(about.labels.clone(), end);
        self.family.add(&member);
        let at = u32::try_from(self.slots.len()).ok()?;
        let (unit, width_ms) = (self.unit(about.unit), about.width_ms.max(1));
        let shape = (about.width_ms > 0).then(|| Box::new(Shape::new(about.width_ms)));
        self.slots.push(Slot { member, source, unit, width_ms, usual: 0.0, missing: 0.0, shape, rhythm: None });
        self.known.insert(identity, at);
        Some(at)
    }

    /// The number of a unit; there are few, and beyond [`UNITS_MAX`] values are reported without a unit.
    fn unit(&mut self, unit: &str) -> u16 {
        let found = self.units.iter().position(|one| **one == *unit);
        let at = found.unwrap_or_else(|| {
            if self.units.len() >= UNITS_MAX {
                return 0;
            }
            self.units.push(unit.into());
            self.units.len() - 1
        });
        u16::try_from(at).unwrap_or(0)
    }

    fn source(&mut self, labels: &Labels, time: WallMs) -> u32 {
        let named = SOURCE_LABELS.iter().zip(0_u8..).find(|(label, _)| !labels.get(label).is_empty());
        let (label, at) = named.map_or(("", u8::MAX), |(label, at)| (*label, at));
        let key = (at, Box::from(labels.get(label)));
        if let Some(source) = self.source_names.get(&key) {
            return *source;
        }
        let own = Labels::new([(label, labels.get(label))].into_iter().filter(|(name, _)| !name.is_empty()))
            .unwrap_or_else(|_| Labels::empty());
        let at = u32::try_from(self.sources.len()).expect("fewer than series");
        self.sources.push(Source {
            member: Member::new(own, WallMs::MIN),
            newest: time,
            is_fresh: true,
            is_back: false,
            rhythm: None,
        });
        self.source_names.insert(key, at);
        at
    }

    /// No sample up to `watermark` is expected any more, apart from the lateness: returns the findings since the last
    /// step.
    pub fn advance(&mut self, watermark: WallMs) -> Vec<Reported> {
        if watermark <= self.watermark {
            return Vec::new();
        }
        self.watermark = watermark;
        let mut out = Vec::new();
        self.step_sources(&mut out);
        self.step_series();
        self.judge_silence(&mut out);
        self.gather(&mut out);
        self.forget();
        out
    }

    /// Judges the arrivals of each source.
    fn step_sources(&mut self, out: &mut Vec<Reported>) {
        let (watermark, lateness) = (self.watermark, self.options.lateness);
        for source in &mut self.sources {
            let member = &mut source.member;
            source.is_back = source.is_fresh && member.presence != Presence::Present;
            if member.cadence.last() == WallMs::MIN {
                // Its first step: from here on.
                (member.cadence, source.is_fresh) = (Cadence::new(watermark), false);
            } else if std::mem::take(&mut source.is_fresh) {
                let (last, mean_ms) = (member.cadence.last(), member.cadence.mean_ms());
                if member.arrive(watermark) {
                    let finding =
                        Finding { kind: FindingKind::LostParent, ..member.back(watermark, &name(&member.labels)) };
                    out.push(Reported { labels: member.labels.clone(), finding });
                }
                #[expect(clippy::cast_precision_loss, reason = "a gap in ms")]
                let gap_ms = (watermark - last).0 as f64;
                if let Some(mean_ms) = mean_ms.filter(|mean_ms| gap_ms >= 2.0 * mean_ms) {
                    let found = source.rhythm.get_or_insert_default().gap(last, gap_ms - mean_ms);
                    out.extend(found.map(|finding| Reported { labels: member.labels.clone(), finding }));
                }
            } else {
                member.suspect(watermark, lateness);
            }
            let over = source.rhythm.as_mut().and_then(|rhythm| rhythm.pass(watermark));
            out.extend(over.map(|finding| Reported { labels: source.member.labels.clone(), finding }));
        }
    }

    /// Series against the watermark of their sources.
    fn step_series(&mut self) {
        for (at, slot) in self.slots.iter_mut().enumerate() {
            let source = &self.sources[slot.source as usize];
            if source.is_back
                && matches!(slot.member.presence, Presence::Suspect | Presence::Suppressed)
                && !self.family.covers(&slot.member)
            {
                slot.member.presence = Presence::Present;
                slot.member.cadence.resume(source.newest);
            }
            match source.member.presence {
                Presence::Present => slot.member.suspect(source.newest, self.options.lateness),
                // Whether the series of a silent source would arrive is not known.
                _ if slot.member.presence == Presence::Present => slot.member.presence = Presence::Suspect,
                _ => {}
            }
            let over = slot.rhythm.as_mut().and_then(|rhythm| rhythm.pass(source.newest));
            if let Some(finding) = over {
                self.pending.push((u32::try_from(at).expect("series are numbered"), finding));
            }
            if slot.rhythm.as_ref().is_some_and(|rhythm| rhythm.heap_bytes() == 0 && rhythm.lock().is_none()) {
                slot.rhythm = None;
            }
        }
    }

    /// Parents first, then sources, then single series.
    fn judge_silence(&mut self, out: &mut Vec<Reported>) {
        let (watermark, lateness) = (self.watermark, self.options.lateness);
        self.resynchronise(out);
        let suspects: Vec<usize> =
            (0..self.slots.len()).filter(|at| self.slots[*at].member.presence == Presence::Suspect).collect();
        if suspects.is_empty() {
            return;
        }
        for at in &suspects {
            if self.family.covers(&self.slots[*at].member) {
                self.slots[*at].member.presence = Presence::Suppressed;
                self.suppressed += 1;
            }
        }
        let is_due = |at: &usize| {
            let slot = &self.slots[*at];
            let source = &self.sources[slot.source as usize];
            match source.member.presence {
                Presence::Present => slot.member.is_due(source.newest, lateness),
                _ => source.member.is_due(watermark, lateness),
            }
        };
        if !suspects.iter().any(is_due) {
            return;
        }
        let members: Vec<&Member> = suspects
            .iter()
            .map(|at| &self.slots[*at].member)
            .filter(|member| member.presence == Presence::Suspect)
            .collect();
        let series = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let found = self.family.judge(&members, series, watermark);
        out.extend(found.into_iter().map(|(labels, finding)| Reported { labels, finding }));
        for at in &suspects {
            let slot = &self.slots[*at];
            let source = &mut self.sources[slot.source as usize].member;
            if source.presence == Presence::Suspect && self.family.covers(&slot.member) {
                source.presence = Presence::Suppressed;
            }
        }
        for source in &mut self.sources {
            let is_due = source.member.is_due(watermark, lateness);
            if source.member.presence == Presence::Suspect && is_due {
                source.member.presence = Presence::Reported;
                let finding = Finding {
                    kind: FindingKind::LostParent,
                    ..source.member.absent(watermark, &name(&source.member.labels))
                };
                out.push(Reported { labels: source.member.labels.clone(), finding });
            }
        }
        for at in suspects {
            let slot = &mut self.slots[at];
            let source = &self.sources[slot.source as usize];
            let is_explained = source.member.presence == Presence::Reported || self.family.covers(&slot.member);
            if slot.member.presence == Presence::Suspect && is_explained {
                slot.member.presence = Presence::Suppressed;
                self.suppressed += 1;
            } else if source.member.presence == Presence::Present && slot.member.is_due(source.newest, lateness) {
                slot.member.presence = Presence::Reported;
                let finding = slot.member.absent(source.newest, &name(&slot.member.labels));
                self.pending.push((u32::try_from(at).expect("series are numbered"), finding));
            }
        }
    }

    /// For parents that are back: those of their children that are not back start over.
    fn resynchronise(&mut self, out: &mut Vec<Reported>) {
        if self.family.lost.is_empty() {
            return;
        }
        let slots = &self.slots;
        let is_silent = |slot: &&Slot| matches!(slot.member.presence, Presence::Suppressed | Presence::Suspect);
        let silent = |pair: Pair| {
            let count = slots.iter().filter(is_silent).filter(|slot| slot.member.pairs.contains(&pair)).count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        for (pair, _, finding) in self.family.returned(silent, self.watermark) {
            let mut labels = Labels::empty();
            for slot in self.slots.iter_mut().filter(|slot| slot.member.pairs.contains(&pair)) {
                if labels.is_empty() {
                    let named = slot.member.labels.iter().find(|(name, value)| Pair::new(name, value) == pair);
                    labels = Labels::new(named).unwrap_or_else(|_| Labels::empty());
                }
                if slot.member.presence == Presence::Suppressed {
                    let source = &mut self.sources[slot.source as usize];
                    if source.member.presence == Presence::Suppressed {
                        source.member.presence = Presence::Present;
                        source.member.cadence.resume(self.watermark);
                    }
                    slot.member.presence = Presence::Present;
                    slot.member.cadence.resume(source.newest);
                }
            }
            out.push(Reported { labels, finding });
        }
    }

    /// Findings of series: one finding for many of a source.
    fn gather(&mut self, out: &mut Vec<Reported>) {
        let pending = std::mem::take(&mut self.pending);
        let mut groups: HashMap<(u32, FindingKind, bool), Vec<(u32, Finding)>> = HashMap::new();
        let mut order = Vec::new();
        for (at, finding) in pending {
            let key = (self.slots[at as usize].source, finding.kind, finding.is_active);
            let group = groups.entry(key).or_insert_with(|| {
                order.push(key);
                Vec::new()
            });
            group.push((at, finding));
        }
        for key in order {
            let mut group = groups.remove(&key).unwrap_or_default();
            if group.len() <= ALONE_MAX {
                let labels = |at: u32| self.slots[at as usize].member.labels.clone();
                out.extend(group.into_iter().map(|(at, finding)| Reported { labels: labels(at), finding }));
                continue;
            }
            let (at, mut finding) = group.swap_remove(0);
            self.suppressed += group.len() as u64;
            let source = &self.sources[key.0 as usize].member.labels;
            let (count, one) = (group.len() + 1, name(&self.slots[at as usize].member.labels));
            finding.sentence = format!("{count} series of {}; {one}: {}", name(source), finding.sentence);
            out.push(Reported { labels: source.clone(), finding });
        }
    }

    /// Forgets series and sources that are gone for good.
    fn forget(&mut self) {
        let limit = self.watermark.saturating_sub(FORGOTTEN);
        if !self.slots.iter().any(|slot| slot.member.cadence.last() < limit) {
            return;
        }
        let mut renumbered = vec![u32::MAX; self.slots.len()];
        let mut kept = 0;
        for (at, slot) in self.slots.iter().enumerate() {
            if slot.member.cadence.last() < limit {
                self.family.remove(&slot.member);
            } else {
                renumbered[at] = kept;
                kept += 1;
            }
        }
        self.slots.retain(|slot| slot.member.cadence.last() >= limit);
        self.known.retain(|_, at| {
            *at = renumbered[*at as usize];
            *at != u32::MAX
        });
    }
}

impl Slot {
    /// The hole before this sample: missing cells, and what neighbours have less than usual.
    fn hole(&mut self, last: WallMs, end: WallMs, count: Option<f32>, mean_ms: Option<f64>) -> Option<Finding> {
        let missing = count.map_or(0.0, |count| self.share_missing(count));
        let before = std::mem::replace(&mut self.missing, missing);
        let mean_ms = mean_ms?;
        #[expect(clippy::cast_precision_loss, reason = "a gap in ms")]
        let gap_ms = (end - last).0 as f64;
        let is_hole = gap_ms >= 1.75 * mean_ms;
        let is_low = missing > 1.0 - LOW_SHARE;
        if !is_hole && !is_low {
            return None;
        }
        let width = f64::from(self.width_ms);
        let partial = |share: f32| if share > 0.2 { f64::from(share) * width } else { 0.0 };
        #[expect(clippy::cast_possible_truncation, reason = "below a cell's width")]
        let (onset, width_ms) = if is_hole {
            (last - Ms(partial(before) as i64), gap_ms - mean_ms + partial(before) + partial(missing))
        } else {
            (end - Ms::from(self.width_ms), partial(missing))
        };
        self.rhythm.get_or_insert_default().gap(onset, width_ms)
    }

    /// How much of its usual count a cell lacks; learns the usual count.
    fn share_missing(&mut self, count: f32) -> f32 {
        if self.usual < LOW_COUNT_MIN {
            self.usual += (count - self.usual) / 16.0;
            return 0.0;
        }
        let missing = (1.0 - count / self.usual).clamp(0.0, 1.0);
        // A lone hole hardly moves it; a new level is learned within a minute or two.
        self.usual += (count - self.usual) / if missing > 0.2 { 64.0 } else { 16.0 };
        missing
    }
}

fn count<C: Count>(cell: &Histogram<C>) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "24 bits of a count")]
    {
        cell.total().to_f64() as f32
    }
}

/// Labels as a sentence has them.
fn name(labels: &Labels) -> String {
    let mut text = labels.metric_name().to_owned();
    let others: Vec<String> = labels
        .iter()
        .filter(|(name, _)| *name != "__name__")
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    match (others.is_empty(), text.is_empty()) {
        (true, true) => "everything".into(),
        (true, false) => text,
        _ => {
            text.push_str(&format!("{{{}}}", others.join(",")));
            text
        }
    }
}
