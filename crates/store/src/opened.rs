//! A selection that is read one label set at a time: the blocks and heads of each part are known, the samples are not
//! read yet.
//!
//! Invariants: a label set's samples equal what [`crate::TenantView`] returns for the same selection, bit for bit: its
//! parts are merged in the same order.
//! Threads: any number take label sets at once; each is taken once.
//! Limits: what is found is charged to the opener's budget. The samples of everything taken count against the
//! selection's `samples_max`. The content of heads is held from the beginning, shared but for open parts, which are
//! copied (of these the texts are charged), with an entry of about 100 bytes for each series of each block. Matches are
//! counted as they are found, so that too many are refused before all are examined.
//! Failure: an unreadable part is left out and reported, as in a partial answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ogive_model::{
    Charge, FloatHead, FloatRun, Kind, Labels, Memory, Opening, SelectError, Selection, SeriesColumns, SeriesData,
    SeriesDef, SeriesSet, Tenant, TimeRange, Words,
};

use crate::block::Entry;
use crate::blocks::INDEX_BYTES_MAX;
use crate::heads::FoundHeads;
use crate::ingest::head::HeadAnswer;
use crate::ingest::stats::Stats;
use crate::merge::{self, Clash};
use crate::tombstone::{self, Tombstone};
use crate::view::View;
use crate::{Budget, Error};

mod columns;
mod floats;
mod scratch;

/// See the module.
pub(crate) struct Opened<'a> {
    stats: &'a Stats,
    view: Arc<View>,
    /// The selection as each piece asks it.
    requested: Vec<SelectionRequest>,
    sets: Vec<Set>,
    /// How many blocks may have parts of them.
    blocks: usize,
    range: TimeRange,
    rollup_ms: u32,
    samples_max: usize,
    left: AtomicUsize,
    /// By label set, those of the opening under 0 and the others one further.
    gaps: Mutex<BTreeMap<usize, Vec<String>>>,
    /// For what was found, charged to who opened it.
    _held: Charge,
    memory: Option<Arc<Memory>>,
    /// Texts that lack some of them may be left out.
    words: Option<Arc<Words>>,
    scratches: scratch::ScratchPool,
}

struct SelectionRequest {
    selection: Selection,
    resolution_ms: u32,
}

/// A label set.
struct Set {
    labels: Labels,
    /// Ascending by kind, those of one kind in the order in which they merge.
    parts: Mutex<Vec<(Kind, Part)>>,
}

enum Part {
    Block(BlockPart),
    Head(HeadAnswer),
}

/// A series of a block.
struct BlockPart {
    /// The block's number in the view.
    number: usize,
    /// Which of the requests it answers.
    requested: usize,
    entry: Entry,
}

/// Parts of one series that follow each other in time.
struct Lineup {
    /// Their places, ascending in time.
    order: Vec<usize>,
    /// The series without samples.
    blank: SeriesData,
}

impl Part {
    /// The most samples that it has.
    fn rows_max(&self) -> usize {
        match self {
            Self::Block(part) => part.entry.chunks.iter().map(|chunk| chunk.samples as usize).sum(),
            Self::Head(head) => head.rows_max(),
        }
    }
}

impl<'a> Opened<'a> {
    /// Finds what holds the selection, beside what `found` says that heads hold of it.
    pub(crate) fn new(
        found: FoundHeads,
        stats: &'a Stats,
        tenant: &Tenant,
        selection: &Selection,
        opening: &Opening<'_>,
    ) -> Result<Self, Error> {
        let FoundHeads { view, heads, held: of_heads } = found;
        let mut budget = Budget::partial(selection.samples_max);
        let mut finding = Finding { opening, held: opening.charge(0)?, found: Vec::new(), sets: Vec::new() };
        let mut requested = Vec::new();
        let (mut rollup_ms, mut blocks) = (0, 0);
        let held = |range| heads.iter().any(|head| head.holds(range));
        for group in view.groups(tenant, selection, &held) {
            let wanted = |kind, temporality| group.wants(kind, temporality);
            for piece in &group.pieces {
                let part = Selection { range: piece.range, ..selection.clone() };
                for number in view.blocks.numbers(tenant, piece.resolution_ms, piece.range) {
                    let place = requested.len();
                    blocks += 1;
                    let each = |labels: Labels, entry: Entry| {
                        rollup_ms = rollup_ms.max(piece.resolution_ms);
                        let chunks = std::mem::size_of_val(&*entry.chunks);
                        finding.held.grow(PART_BYTES + labels.memory_bytes() + chunks).map_err(SelectError::from)?;
                        finding.find(labels, entry.kind, Part::Block(BlockPart { number, requested: place, entry }))
                    };
                    let block = view.blocks.numbered(number).1;
                    block
                        .and_then(|block| block.each_matching(&part, &wanted, &mut budget, opening, each))
                        .or_else(|error| budget.miss(error, || "all samples of its block".into()))?;
                    finding.join()?;
                }
                requested.push(SelectionRequest { selection: part, resolution_ms: piece.resolution_ms });
            }
        }
        for head in heads {
            // Its labels are charged with what was found of the heads.
            finding.held.grow(PART_BYTES).map_err(SelectError::from)?;
            finding.find(head.def().labels.clone(), head.def().meta.kind, Part::Head(head))?;
        }
        finding.join()?;
        finding.held.absorb(of_heads);
        view.blocks.trim(selection.range, INDEX_BYTES_MAX);
        let left = AtomicUsize::new(budget.left());
        let gaps = Mutex::new(BTreeMap::from([(0, budget.into_gaps())]));
        let (range, samples_max) = (selection.range, selection.samples_max);
        let (sets, held) = finding.into_sets();
        Ok(Self {
            stats,
            view,
            requested,
            sets,
            blocks,
            range,
            rollup_ms,
            samples_max,
            left,
            gaps,
            _held: held,
            memory: opening.memory.cloned(),
            words: opening.words.cloned(),
            scratches: Default::default(),
        })
    }

    /// Fails when a block alone has too much of a selection, where what heads hold has no say in which blocks are read.
    pub(crate) fn check(
        view: &View,
        tenant: &Tenant,
        selection: &Selection,
        opening: &Opening<'_>,
    ) -> Result<(), Error> {
        let [with, without] = [true, false].map(|held| view.groups(tenant, selection, &|_| held));
        if with.len() != without.len() {
            return Ok(());
        }
        for (group, _) in with.iter().zip(&without).filter(|(group, other)| group.pieces == other.pieces) {
            let wanted = |kind, temporality| group.wants(kind, temporality);
            for piece in &group.pieces {
                let part = Selection { range: piece.range, ..selection.clone() };
                for number in view.blocks.numbers(tenant, piece.resolution_ms, piece.range) {
                    let block = view.blocks.numbered(number).1;
                    // Of what cannot be read, the series that it belongs to are reported.
                    if let Err(error @ Error::Selection(_)) =
                        block.and_then(|block| block.check_matching(&part, &wanted, opening))
                    {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds what the answer may lack without any part that cannot be read.
    pub(crate) fn warn(&self, warnings: Vec<String>) {
        self.gaps().entry(0).or_default().extend(warnings);
    }

    /// What is left of the selection's samples.
    fn budget(&self) -> Budget {
        // ORDERING: Relaxed; a sum that guards no other memory.
        let left = self.left.load(Ordering::Relaxed);
        Budget::partial_rest(self.samples_max, left).with_words(self.words.clone()).with_memory(self.memory.as_ref())
    }

    /// Counts samples that were taken.
    fn spend(&self, samples: usize) -> Result<(), SelectError> {
        // ORDERING: Relaxed, as above.
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(samples));
        taken.map(drop).map_err(|_| SelectError::TooManySamples { limit: self.samples_max })
    }

    /// Charges the rows of parts while they are read; who takes them charges them from then on.
    fn hold_parts(&self, parts: &[(Kind, Part)]) -> Result<Option<Charge>, SelectError> {
        self.hold_rows(parts.iter().map(|part| part.1.rows_max()).fold(0, usize::saturating_add))
    }

    fn hold_rows(&self, rows: usize) -> Result<Option<Charge>, SelectError> {
        let bytes = rows.min(self.samples_max).saturating_mul(ROW_BYTES);
        Ok(self.memory.as_ref().map(|memory| memory.charge(bytes)).transpose()?)
    }

    fn gaps(&self) -> MutexGuard<'_, BTreeMap<usize, Vec<String>>> {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The series of one label set, without what was deleted.
    fn read(&self, labels: &Labels, parts: Vec<(Kind, Part)>, budget: &mut Budget) -> Result<Vec<SeriesData>, Error> {
        let mut out: Vec<SeriesData> = Vec::new();
        let mut parts = parts.into_iter().peekable();
        while let Some((kind, first)) = parts.next() {
            let mut run = vec![first];
            while let Some((_, part)) = parts.next_if(|next| next.0 == kind) {
                run.push(part);
            }
            let lineup = if run.len() > 1 { self.lined_up(&run.iter().collect::<Vec<_>>())? } else { None };
            out.extend(match lineup {
                Some(lineup) => self.joined(labels, run, lineup, budget)?,
                None => self.merged(labels, run, budget)?,
            });
        }
        for data in &mut out {
            let clash = merge::collapse(data);
            if clash != Clash::default() {
                budget.clash(labels, clash);
            }
        }
        Ok(out)
    }

    /// How parts of one series follow each other in time, when they are alike and no two share a time. What they come
    /// to does not depend on the order in which they merge, then: compaction leaves blocks in another order than that
    /// of time, and a part that goes between two others costs a merge of all of them.
    fn lined_up(&self, parts: &[&Part]) -> Result<Option<Lineup>, Error> {
        if !self.view.manifest.tombstones.is_empty() {
            return Ok(None);
        }
        let (blank, aggregates) = match parts.first() {
            None => return Ok(None),
            Some(Part::Head(head)) => (head.blank(), false),
            Some(Part::Block(BlockPart { number, requested, entry })) => {
                let (_, Ok(block)) = self.view.blocks.numbered(*number) else { return Ok(None) };
                let rollup_ms = self.requested[*requested].resolution_ms;
                (SeriesData { rollup_ms, ..block.blank(entry)? }, entry.aggregates)
            }
        };
        let mut spans = Vec::with_capacity(parts.len());
        for (at, part) in parts.iter().enumerate() {
            let span = match part {
                Part::Block(BlockPart { number, requested, entry }) => {
                    let (_, Ok(block)) = self.view.blocks.numbered(*number) else { return Ok(None) };
                    let alike = block.is_of(entry, &blank.meta)
                        && entry.aggregates == aggregates
                        && self.requested[*requested].resolution_ms == blank.rollup_ms;
                    let ends = entry.chunks.first().zip(entry.chunks.last());
                    ends.filter(|_| alike).map(|(first, last)| (first.time_min, last.time_max))
                }
                Part::Head(head) => {
                    let alike = head.def().meta == blank.meta && blank.rollup_ms == 0 && !aggregates;
                    head.span().filter(|_| alike)
                }
            };
            let Some((first, last)) = span else { return Ok(None) };
            spans.push((first, last, at));
        }
        spans.sort_unstable();
        debug_assert_eq!(spans.len(), parts.len(), "each part has its span");
        let apart = spans.windows(2).all(|pair| pair[0].1 < pair[1].0);
        Ok(apart.then(|| Lineup { order: spans.into_iter().map(|span| span.2).collect(), blank }))
    }

    /// Parts one behind the other, in one column from the beginning.
    fn joined(
        &self,
        labels: &Labels,
        parts: Vec<Part>,
        Lineup { order, blank: mut data }: Lineup,
        budget: &mut Budget,
    ) -> Result<Option<SeriesData>, Error> {
        if data.meta.kind == Kind::Float {
            let rows = parts.iter().map(Part::rows_max).fold(0, usize::saturating_add).min(budget.left());
            data.floats.times.reserve(rows);
            data.floats.values.reserve(rows);
        }
        let mut parts: Vec<Option<Part>> = parts.into_iter().map(Some).collect();
        debug_assert_eq!(order.len(), parts.len(), "each part has its place");
        for part in order.iter().filter_map(|at| parts[*at].take()) {
            match part {
                Part::Block(BlockPart { number, requested, entry }) => {
                    let block = self.view.blocks.numbered(number).1?;
                    block.append_entry(&entry, &self.requested[requested].selection, budget, &mut data)?;
                }
                Part::Head(head) => {
                    let clash = merge::add(&mut data, head.data(self.range, false, budget)?);
                    debug_assert_eq!(clash, Clash::default(), "parts that are alike and apart");
                }
            }
        }
        data.labels = labels.clone();
        Ok((!tombstone::is_empty(&data)).then_some(data))
    }

    /// Parts as they merge whatever they are.
    fn merged(&self, labels: &Labels, parts: Vec<Part>, budget: &mut Budget) -> Result<Option<SeriesData>, Error> {
        let mut out: Option<SeriesData> = None;
        for part in parts {
            let data = match part {
                Part::Head(head) => Some(head.data(self.range, false, budget)?),
                Part::Block(part) => self.block_part(labels, &part, budget)?,
            };
            let Some(data) = data else { continue };
            let Some(last) = &mut out else {
                out = Some(data);
                continue;
            };
            let clash = merge::add(last, data);
            if clash != Clash::default() {
                budget.clash(labels, clash);
            }
        }
        Ok(out)
    }

    fn block_part(&self, labels: &Labels, part: &BlockPart, budget: &mut Budget) -> Result<Option<SeriesData>, Error> {
        let SelectionRequest { selection, resolution_ms } = &self.requested[part.requested];
        let (meta, block) = self.view.blocks.numbered(part.number);
        let Some(mut data) = block?.entry_data(&part.entry, selection, budget)? else { return Ok(None) };
        data.labels = labels.clone();
        let deleted: Vec<&Tombstone> =
            self.view.manifest.tombstones.iter().filter(|tombstone| tombstone.concerns(meta)).collect();
        deleted.iter().for_each(|tombstone| tombstone.strip(&mut data, *resolution_ms));
        data.rollup_ms = *resolution_ms;
        Ok((deleted.is_empty() || !tombstone::is_empty(&data)).then_some(data))
    }
}

/// A label set and its parts, in the order in which they were found.
type Parts = (Labels, Vec<(Kind, Part)>);

/// Label sets in the making, ascending: one block after the other is joined to what is there, so that labels are held
/// once however many blocks have them.
struct Finding<'o> {
    opening: &'o Opening<'o>,
    held: Charge,
    /// Those of the block that is being looked at.
    found: Vec<Parts>,
    sets: Vec<Parts>,
}

/// A time and a value.
const ROW_BYTES: usize = 16;

/// A label set with its list of parts, and one part.
const PART_BYTES: usize = size_of::<Parts>() + size_of::<(Kind, Part)>();

/// Who waits is asked each time so many series were found: some 200 us.
const LOOK_EACH: usize = 256;

impl Finding<'_> {
    /// A part of a block or of the heads, in which series ascend by (labels, kind).
    fn find(&mut self, labels: Labels, kind: Kind, part: Part) -> Result<(), Error> {
        debug_assert!(
            self.found.last().is_none_or(|last| last.0 <= labels),
            "the series of a block, and of the heads, ascend: {labels}"
        );
        match self.found.last_mut() {
            Some(last) if last.0 == labels => last.1.push((kind, part)),
            _ => self.found.push((labels, vec![(kind, part)])),
        }
        if self.found.len().is_multiple_of(LOOK_EACH) && (self.opening.cancelled)() {
            return Err(SelectError::Cancelled.into());
        }
        self.check(self.found.len())
    }

    fn check(&self, found: usize) -> Result<(), Error> {
        Ok(self.opening.check(found)?)
    }

    fn join(&mut self) -> Result<(), Error> {
        let found = std::mem::take(&mut self.found);
        if self.sets.is_empty() {
            self.sets = found;
            return Ok(());
        }
        let before = std::mem::take(&mut self.sets);
        let least = before.len().max(found.len());
        let mut joined: Vec<Parts> = Vec::with_capacity(least);
        let mut found = found.into_iter().peekable();
        for mut set in before {
            while let Some(other) = found.next_if(|other| other.0 < set.0) {
                joined.push(other);
            }
            if let Some(other) = found.next_if(|other| other.0 == set.0) {
                set.1.extend(other.1);
            }
            joined.push(set);
        }
        joined.extend(found);
        assert!(joined.len() >= least, "{} label sets are left of {least}", joined.len());
        self.check(joined.len())?;
        self.sets = joined;
        Ok(())
    }

    fn into_sets(self) -> (Vec<Set>, Charge) {
        let set = |(labels, mut parts): Parts| {
            // Stable: parts of one kind stay in the order in which they merge.
            parts.sort_by_key(|part| part.0);
            Set { labels, parts: Mutex::new(parts) }
        };
        (self.sets.into_iter().map(set).collect(), self.held)
    }
}

impl SeriesSet for Opened<'_> {
    fn count(&self) -> usize {
        self.sets.len()
    }

    fn take(&self, number: usize) -> Result<Vec<SeriesData>, SelectError> {
        let Set { labels, parts } = &self.sets[number];
        let parts = std::mem::take(&mut *parts.lock().unwrap_or_else(PoisonError::into_inner));
        let _held = self.hold_parts(&parts)?;
        let mut budget = self.budget();
        let left = budget.left();
        let data = self.read(labels, parts, &mut budget)?;
        debug_assert!(budget.left() <= left, "{} samples are left of {left}", budget.left());
        self.spend(left - budget.left())?;
        self.stats.read_clashes.add(budget.clashes());
        let gaps = budget.into_gaps();
        if !gaps.is_empty() {
            self.gaps().insert(number + 1, gaps);
        }
        Ok(data)
    }

    fn take_columns(&self, number: usize) -> Result<Option<SeriesColumns>, SelectError> {
        let Set { labels, parts } = &self.sets[number];
        let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
        let _held = self.hold_parts(&parts)?;
        let mut budget = self.budget();
        let left = budget.left();
        // What cannot be had as columns, for whatever reason, is read or reported by `take`.
        let Ok(Some(columns)) = self.columns(labels, &parts, &mut budget) else { return Ok(None) };
        self.spend(left - budget.left())?;
        parts.clear();
        Ok(Some(columns))
    }

    fn take_floats(&self, number: usize, each: &mut dyn FnMut(FloatRun<'_>)) -> Result<Option<FloatHead>, SelectError> {
        let mut parts = self.sets[number].parts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut budget = self.budget();
        let left = budget.left();
        // What has no runs, for whatever reason, is read or reported by `take`.
        let Ok(Some(head)) = self.floats(number, &parts, &mut budget, each) else { return Ok(None) };
        self.spend(left - budget.left())?;
        parts.clear();
        Ok(Some(head))
    }

    fn describe(&self, number: usize) -> Result<Vec<SeriesDef>, SelectError> {
        let Set { labels, parts } = &self.sets[number];
        let parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out: Vec<SeriesDef> = Vec::new();
        for (kind, part) in parts.iter() {
            if out.last().is_some_and(|last| last.meta.kind == *kind) {
                continue;
            }
            let meta = match part {
                Part::Head(head) => head.def().meta.clone(),
                Part::Block(part) => {
                    let block = self.view.blocks.numbered(part.number).1?;
                    block.blank(&part.entry)?.meta
                }
            };
            out.push(SeriesDef { labels: labels.clone(), meta });
        }
        Ok(out)
    }

    fn rollup_ms(&self) -> u32 {
        self.rollup_ms
    }

    fn samples_about(&self) -> usize {
        let of = |set: &Set| {
            let parts = set.parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.iter().map(|part| part.1.rows_max()).sum::<usize>()
        };
        self.sets.iter().map(of).sum()
    }

    fn warnings(&self) -> Vec<String> {
        // Those of several label sets may be the same sentence.
        self.gaps().values().flatten().cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }
}
