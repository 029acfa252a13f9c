//! What readers use besides the heads: one manifest with its blocks open, and the blocks that answer for each time.
//!
//! Invariants: each instant of a range is answered by blocks of one resolution; a rollup answers only where finer data
//! is gone, or where it holds everything finer and the caller accepts it.
//! - A rollup whose cells take longer to read than their source data is not used while that data exists.
//! - Raw samples answer above the horizon of raw samples; a rollup answers above its own horizon and not above those of
//!   all finer ones.
//! - A rollup is fresh when no block of finer data in its window arrived after it was made, no deletion applies to it,
//!   and no head holds samples of its window.

use std::sync::Arc;

use ogive_model::{
    Kind, Labels, Ms, Opening, Resolution, RollupUse, Selection, SeriesData, Temporality, Tenant, TimeRange, WallMs,
};

use crate::blocks::Blocks;
use crate::first::First;
use crate::manifest::Manifest;
use crate::merge::merge_telling;
use crate::series_request::{BlockRequest, SeriesRequest};
use crate::window::Window;
use crate::{BlockMeta, Budget, Error};

/// A cell of a rollup of histograms is a histogram, as what it was made of; for those of floats see `Options`.
const HISTOGRAM_CELL_COST: u64 = 1;

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct View {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) blocks: Blocks,
    /// Frozen heads up to this epoch are in the blocks.
    pub(crate) flushed: u64,
    /// See [`crate::Options::float_cell_cost`].
    pub(crate) float_cell_cost: u64,
}

/// A part of a range and what answers for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) range: TimeRange,
    pub(crate) resolution_ms: u32,
}

/// Which series.
type KindFilter = fn(Kind, Temporality) -> bool;

/// Series and what answers for them.
pub(crate) struct Group {
    /// Ascending.
    pub(crate) pieces: Vec<Piece>,
    wanted: KindFilter,
    /// Texts are another group's.
    without_texts: bool,
}

impl Group {
    /// Whether it answers for series of a kind.
    pub(crate) fn wants(&self, kind: Kind, temporality: Temporality) -> bool {
        (self.wanted)(kind, temporality) && !(self.without_texts && kind == Kind::Text)
    }
}

impl Manifest {
    /// Up to where the data of a tenant in one resolution is gone.
    pub(crate) fn horizon(&self, tenant: &Tenant, resolution_ms: u32) -> WallMs {
        let of = self.horizons.iter().find(|one| one.tenant == *tenant && one.resolution_ms == resolution_ms);
        of.map_or(WallMs::MIN, |horizon| horizon.until)
    }

    /// The resolutions that a tenant's blocks have, ascending, raw samples among them in any case.
    pub(crate) fn resolutions(&self, tenant: &Tenant) -> Vec<u32> {
        let of = self.blocks.iter().filter(|meta| meta.tenant == *tenant).map(|meta| meta.resolution_ms);
        let mut all: Vec<u32> = of.chain([0]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether reading a rollup, of which a cell costs as much as `cell_cost` samples, is cheaper than reading what it
    /// was made of; true when part of that is gone.
    fn saves(&self, rollup: &BlockMeta, cell_cost: u64) -> bool {
        debug_assert!(rollup.resolution_ms > 0, "samples as they came are no rollup: {rollup:?}");
        if self.horizon(&rollup.tenant, 0) > rollup.window.range().start {
            return true;
        }
        let of = |meta: &&BlockMeta| meta.tenant == rollup.tenant && meta.resolution_ms == 0;
        let shares = self.blocks.iter().filter(of).map(|meta| meta.samples_inside(rollup.window));
        rollup.samples.saturating_mul(cell_cost) <= shares.sum()
    }

    /// Whether a rollup holds everything finer of its window that is in blocks, less what was deleted.
    pub(crate) fn is_fresh(&self, rollup: &BlockMeta) -> bool {
        debug_assert!(rollup.resolution_ms > 0, "samples as they came are no rollup: {rollup:?}");
        let later = |meta: &BlockMeta| {
            meta.resolution_ms < rollup.resolution_ms
                && meta.tenant == rollup.tenant
                && meta.arrived > rollup.rolled
                && meta.window.meets(&rollup.window)
                && meta.window.range().end > self.horizon(&meta.tenant, meta.resolution_ms)
        };
        !self.blocks.iter().any(later) && !self.tombstones.iter().any(|tombstone| tombstone.concerns(rollup))
    }
}

impl View {
    /// What the blocks hold of a selection; `heads` is what the heads hold of it.
    pub(crate) fn select(
        &self,
        tenant: &Tenant,
        selection: &Selection,
        heads: &[SeriesData],
        budget: &mut Budget,
    ) -> Result<Vec<SeriesData>, Error> {
        let mut found = Vec::new();
        for group in self.groups(tenant, selection, &|range| holds_any(heads, range)) {
            let read = self.read(tenant, selection, &group, budget)?;
            if !read.is_empty() {
                found = merge_telling(vec![found, read], |labels, clash| budget.clash(labels, clash));
            }
        }
        Ok(found)
    }

    /// Adds the label sets of the series that are asked for and have a sample in a block.
    pub(crate) fn label_sets(
        &self,
        SeriesRequest { tenant, matchers, range }: SeriesRequest<'_>,
        first: &mut First<Labels>,
        opening: &Opening<'_>,
    ) -> Result<(), Error> {
        let of = |range| Selection { labels_only: true, ..Selection::new(matchers.to_vec(), range) };
        for group in self.groups(tenant, &of(range), &|_| true) {
            let wanted = |kind, temporality| group.wants(kind, temporality);
            for piece in &group.pieces {
                let (resolution_ms, tombstones) = (piece.resolution_ms, &self.manifest.tombstones);
                let selection = &of(piece.range);
                let requested = BlockRequest { tenant, resolution_ms, selection, wanted: &wanted, tombstones };
                self.blocks.label_sets(requested, first, opening)?;
            }
        }
        Ok(())
    }

    /// Which blocks answer for which time and for which series of a selection: in the order in which their answers
    /// merge. `held` returns whether the heads have numbers or histograms of a time.
    pub(crate) fn groups(
        &self,
        tenant: &Tenant,
        selection: &Selection,
        held: &dyn Fn(TimeRange) -> bool,
    ) -> Vec<Group> {
        let mut groups = self.groups_of_all(tenant, selection, held);
        // Texts have no rollups, and stay where numbers as they came are gone.
        if self.manifest.horizon(tenant, 0) > selection.range.start {
            groups.iter_mut().for_each(|group| group.without_texts = true);
            let pieces = vec![Piece { range: selection.range, resolution_ms: 0 }];
            groups.push(Group { pieces, wanted: texts, without_texts: false });
        }
        groups
    }

    fn groups_of_all(&self, tenant: &Tenant, selection: &Selection, held: &dyn Fn(TimeRange) -> bool) -> Vec<Group> {
        let finest = self.finest(tenant, selection.range);
        let group = |pieces, wanted| Group { pieces, wanted, without_texts: false };
        let all = |pieces| vec![group(pieces, any)];
        let (floats, histograms, others): (KindFilter, Option<KindFilter>, KindFilter) = match selection.resolution {
            _ if selection.labels_only => return all(finest),
            Resolution::Finest => return all(finest),
            Resolution::Width(0) => {
                let start = selection.range.start.max(self.manifest.horizon(tenant, 0));
                return all(vec![Piece { range: TimeRange { start, ..selection.range }, resolution_ms: 0 }]);
            }
            Resolution::Width(_) => (is_float, Some(|kind, _| kind == Kind::Histogram), texts),
            Resolution::Aligned { use_as: RollupUse::Together, .. } => {
                (is_float, Some(delta_histograms), |kind, temporality| {
                    kind != Kind::Float && !delta_histograms(kind, temporality)
                })
            }
            Resolution::Aligned { use_as: RollupUse::Numbers, .. } => (is_float, None, |kind, _| kind != Kind::Float),
            Resolution::Aligned { use_as: RollupUse::Last, .. } => (last, None, |a, b| !last(a, b)),
        };
        let serves = |meta: &BlockMeta, cell_cost| match selection.resolution {
            Resolution::Width(width_ms) => width_ms == meta.resolution_ms,
            Resolution::Aligned { step, .. } => {
                step % Ms::from(meta.resolution_ms) == Ms::ZERO && self.manifest.saves(meta, cell_cost)
            }
            Resolution::Finest => false,
        };
        let plan = |cell_cost| {
            let is_complete = |meta: &BlockMeta| self.manifest.is_fresh(meta) && !held(meta.window.range());
            self.plan(tenant, selection.range, |meta| serves(meta, cell_cost) && is_complete(meta))
        };
        let mut plans = vec![(plan(self.float_cell_cost), floats)];
        plans.extend(histograms.map(|wanted| (plan(HISTOGRAM_CELL_COST), wanted)));
        if plans.iter().all(|(pieces, _)| *pieces == finest) {
            // No rollup serves: one reading is for all.
            return all(finest);
        }
        plans.into_iter().chain([(finest, others)]).map(|(pieces, wanted)| group(pieces, wanted)).collect()
    }

    fn finest(&self, tenant: &Tenant, range: TimeRange) -> Vec<Piece> {
        self.plan(tenant, range, |_| false)
    }

    /// Cuts `range` into pieces, ascending: the coarsest rollup of which a block is `usable`, else the finest that is
    /// there.
    fn plan(&self, tenant: &Tenant, range: TimeRange, usable: impl Fn(&BlockMeta) -> bool) -> Vec<Piece> {
        let manifest = &*self.manifest;
        let resolutions = manifest.resolutions(tenant);
        let mut left = vec![range];
        let mut pieces = Vec::new();
        for (at, resolution_ms) in resolutions.iter().copied().enumerate().rev() {
            let own = manifest.horizon(tenant, resolution_ms);
            // Where every finer one is gone there is nothing else; raw samples take what is left.
            let finer = resolutions[..at].iter().map(|finer| manifest.horizon(tenant, *finer)).min();
            let mut taken = vec![TimeRange { start: own, end: finer.unwrap_or(WallMs::MAX) }];
            if resolution_ms > 0 {
                let of = |meta: &&BlockMeta| meta.tenant == *tenant && meta.resolution_ms == resolution_ms;
                let touches = |meta: &&BlockMeta| common(meta.window.range(), range).is_some();
                let blocks = manifest.blocks.iter().filter(of).filter(touches).filter(|meta| usable(meta));
                // Cells that lie in the range whole.
                let inner = whole_cells(TimeRange { start: own.max(range.start), ..range }, resolution_ms.into());
                taken.extend(blocks.filter_map(|meta| common(meta.window.range(), inner)));
            }
            for taken in taken {
                pieces.extend(
                    left.iter().filter_map(|left| common(*left, taken)).map(|range| Piece { range, resolution_ms }),
                );
                left = left.iter().flat_map(|left| without(*left, taken)).collect();
            }
        }
        pieces.sort_by_key(|piece| piece.range.start);
        pieces.dedup_by(|next, before| {
            let goes_on = before.resolution_ms == next.resolution_ms && before.range.end == next.range.start;
            if goes_on {
                before.range.end = next.range.end;
            }
            goes_on
        });
        debug_assert!(
            pieces.is_sorted_by(|one: &Piece, next| one.range.end <= next.range.start),
            "each instant is answered by one resolution: {pieces:?}"
        );
        debug_assert!(
            pieces.iter().all(|piece| range.start <= piece.range.start && piece.range.end <= range.end),
            "the pieces of {range:?} are inside: {pieces:?}"
        );
        pieces
    }

    fn read(
        &self,
        tenant: &Tenant,
        selection: &Selection,
        group: &Group,
        budget: &mut Budget,
    ) -> Result<Vec<SeriesData>, Error> {
        let mut found = Vec::new();
        for piece in &group.pieces {
            let part = Selection { range: piece.range, ..selection.clone() };
            let (resolution_ms, tombstones) = (piece.resolution_ms, &self.manifest.tombstones);
            let wanted = |kind, temporality| group.wants(kind, temporality);
            let requested = BlockRequest { tenant, resolution_ms, selection: &part, wanted: &wanted, tombstones };
            let read = self.blocks.read(requested, budget)?;
            found = merge_telling(vec![found, read], |labels, clash| budget.clash(labels, clash));
        }
        Ok(found)
    }
}

fn any(_: Kind, _: Temporality) -> bool {
    true
}

fn texts(kind: Kind, _: Temporality) -> bool {
    kind == Kind::Text
}

fn is_float(kind: Kind, _: Temporality) -> bool {
    kind == Kind::Float
}

/// Histograms whose rollups hold what all of a cell come to.
fn delta_histograms(kind: Kind, temporality: Temporality) -> bool {
    kind == Kind::Histogram && temporality == Temporality::Delta
}

/// Series whose rollups hold the last sample of a cell as it was.
fn last(kind: Kind, temporality: Temporality) -> bool {
    kind == Kind::Float && temporality != Temporality::Delta
}

fn holds_any(heads: &[SeriesData], range: TimeRange) -> bool {
    let has = |times: &[i64]| {
        let from = times.partition_point(|time| *time <= range.start.0);
        times.get(from).is_some_and(|time| *time <= range.end.0)
    };
    heads.iter().any(|data| has(&data.floats.times) || has(&data.histograms.times))
}

/// What a range holds of whole cells of a width.
fn whole_cells(range: TimeRange, width: Ms) -> TimeRange {
    debug_assert!(width > Ms::ZERO, "cells of {width}");
    let start = match range.start.checked_add(width - Ms(1)) {
        Some(start) if range.start > WallMs::MIN + width => start.align_down(width),
        _ => range.start,
    };
    let end = if range.end == WallMs::MAX { WallMs::MAX } else { range.end.align_down(width) };
    debug_assert!(range.start <= start && end <= range.end, "{start}..{end} in {range:?}");
    TimeRange { start, end }
}

fn common(a: TimeRange, b: TimeRange) -> Option<TimeRange> {
    let range = TimeRange { start: a.start.max(b.start), end: a.end.min(b.end) };
    (range.start < range.end).then_some(range)
}

fn without(a: TimeRange, b: TimeRange) -> impl Iterator<Item = TimeRange> {
    let Some(both) = common(a, b) else { return [Some(a), None].into_iter().flatten() };
    let before = TimeRange { start: a.start, end: both.start };
    let after = TimeRange { start: both.end, end: a.end };
    [before, after].map(|range| (range.start < range.end).then_some(range)).into_iter().flatten()
}

/// Whether all of a window is at or before a time.
pub(crate) const fn ends_by(window: Window, until: WallMs) -> bool {
    window.has_length() && window.end().0 <= until.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Horizon;
    use crate::testing::meta;

    #[test]
    fn a_rollup_saves_when_its_cells_cost_less_than_the_samples_of_its_window() {
        let window = Window::containing(WallMs(120_000), Ms(120_000));
        let rollup = BlockMeta { resolution_ms: 10_000, window, samples: 10, ..meta(0) };
        let raw = |samples, window| BlockMeta { samples, window, ..meta(1) };
        let manifest = |blocks: &[BlockMeta]| Manifest {
            blocks: blocks.iter().chain([&rollup]).cloned().collect(),
            ..Manifest::default()
        };
        let half = |samples| raw(samples, window);
        assert!(manifest(&[half(40), half(40)]).saves(&rollup, 8));
        assert!(!manifest(&[half(40), half(39)]).saves(&rollup, 8));
        assert!(manifest(&[half(40), half(39)]).saves(&rollup, 1), "histograms");
        let (next, longer) =
            (Window::containing(WallMs(240_000), Ms(120_000)), Window::containing(WallMs(120_000), Ms(480_000)));
        assert!(!manifest(&[half(40), raw(40, next)]).saves(&rollup, 8), "another window");
        assert!(manifest(&[raw(320, longer)]).saves(&rollup, 8), "a quarter of it is in the window");
        assert!(!manifest(&[raw(319, longer)]).saves(&rollup, 8));
        let mut gone = manifest(&[]);
        gone.horizons.push(Horizon { tenant: Tenant::default(), resolution_ms: 0, until: WallMs(60_000) });
        assert!(gone.saves(&rollup, 8), "there is nothing else");
    }

    #[test]
    fn a_rollup_is_fresh_when_nothing_finer_of_its_window_arrived_later() {
        let window = Window::containing(WallMs(120_000), Ms(120_000));
        let rollup = BlockMeta { resolution_ms: 10_000, window, rolled: 5, ..meta(0) };
        let raw = |arrived, window| BlockMeta { arrived, window, ..meta(1) };
        let manifest = |other: BlockMeta| Manifest { blocks: vec![rollup.clone(), other], ..Manifest::default() };
        assert!(manifest(raw(5, window)).is_fresh(&rollup));
        assert!(!manifest(raw(6, window)).is_fresh(&rollup));
        assert!(!manifest(raw(6, Window::NONE)).is_fresh(&rollup), "it may hold any time");
        assert!(manifest(raw(6, Window::containing(WallMs(240_000), Ms(120_000)))).is_fresh(&rollup), "another window");
        let other = BlockMeta { tenant: Tenant::new("other").unwrap(), ..raw(6, window) };
        assert!(manifest(other).is_fresh(&rollup));
        let coarser = BlockMeta { resolution_ms: 60_000, ..raw(6, window) };
        assert!(manifest(coarser).is_fresh(&rollup), "it is no source");
        let mut gone = manifest(raw(6, window));
        gone.horizons.push(Horizon { tenant: Tenant::default(), resolution_ms: 0, until: WallMs(120_000) });
        assert!(gone.is_fresh(&rollup), "what is below the horizon is not shown");
    }
}
