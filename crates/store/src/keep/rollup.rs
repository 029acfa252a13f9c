//! Decides which rollups are due.
//!
//! Invariants: a rollup is made when its window is closed, from the next finer resolution, and again when finer data of
//! its window arrives later; a coarser rollup is made after the finer one that it is based on. A rollup that was
//! dropped, or that retention would drop and no kept coarser one needs, is never due: otherwise it would be made and
//! dropped forever.
//! Limits: one rollup is remade at most once in [`REST`], so that late data in each flush does not cause a whole day
//! to be read each time. Meanwhile finer data answers in its place, and is not dropped for its age.

use std::collections::{HashMap, HashSet};

use ogive_model::{Ms, Tenant, WallMs};

use crate::BlockMeta;
use crate::keep::drop::Bounds;
use crate::manifest::Manifest;
use crate::window::{Ladder, Window};

/// Which rollup.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RollupKey {
    /// Whose.
    pub(crate) tenant: Tenant,
    /// How coarse.
    pub(crate) resolution_ms: u32,
    pub(crate) window: Window,
}

/// Tries of a rollup after which nobody waits for it any more: a day of tries, ten minutes apart.
const TRIES_MAX: u32 = 144;

/// An hour: six flushes with late data make a rollup again once. All rest up to the full hour, so that what is made of
/// several finds them whole then, however steadily late data comes.
pub(crate) const REST: Ms = Ms::from_secs(3_600);

/// What is known of rollups that are no block: those that came out empty, with the generation that they saw, and those
/// that failed, with how often.
#[derive(Default)]
pub(crate) struct RollupMemory {
    pub(crate) empty: HashMap<RollupKey, u64>,
    failed: HashMap<RollupKey, u32>,
    /// Those that failed and are left alone until [`RollupMemory::try_again`].
    waiting: HashSet<RollupKey>,
    /// Those that were made again, and up to when they rest, by the wall's clock.
    resting: HashMap<RollupKey, WallMs>,
}

impl RollupMemory {
    /// A rollup was made.
    pub(crate) fn made(&mut self, due: &RollupKey) {
        self.failed.remove(due);
    }

    /// A rollup that there was already was made anew.
    pub(crate) fn made_again(&mut self, due: &RollupKey, wall: WallMs) {
        self.resting.retain(|_, until| *until > wall);
        self.resting.insert(due.clone(), wall.align_down(REST) + REST);
        debug_assert!(self.rests(due, wall), "{due:?} rests from {wall} on");
    }

    /// A clock that was set back lets a rollup rest no longer than from now on.
    fn rests(&self, due: &RollupKey, wall: WallMs) -> bool {
        let rests = |until: &WallMs| wall < *until && until.since(wall) <= REST;
        self.resting.get(due).is_some_and(rests)
    }

    /// A rollup could not be made.
    pub(crate) fn fail(&mut self, due: RollupKey) {
        debug_assert!(!self.waiting.contains(&due), "what waits is not tried: {due:?}");
        *self.failed.entry(due.clone()).or_default() += 1;
        self.waiting.insert(due);
    }

    /// What failed may be tried again.
    pub(crate) fn try_again(&mut self) {
        self.waiting.clear();
    }

    /// Whether a rollup failed so often that it will never be.
    fn is_given_up(&self, due: &RollupKey) -> bool {
        self.failed.get(due).is_some_and(|tries| *tries >= TRIES_MAX)
    }
}

/// The resolution that a rollup to `resolution_ms` is made of, and those that there are to be.
pub(crate) fn finer_than(rollups: &[u32], resolution_ms: u32) -> u32 {
    rollups.iter().copied().filter(|finer| *finer < resolution_ms).max().unwrap_or(0)
}

/// Rollups of one resolution by the shortest windows that they hold: up to what they saw, and their own window.
type ByWindow<'a> = HashMap<(&'a Tenant, Window), (u64, Window)>;

fn made(blocks: &[BlockMeta], resolution_ms: u32, length: Ms) -> ByWindow<'_> {
    let mut made = HashMap::new();
    for meta in blocks.iter().filter(|meta| meta.resolution_ms == resolution_ms) {
        for window in parts(meta.window, length) {
            made.insert((&meta.tenant, window), (meta.rolled, meta.window));
        }
    }
    made
}

/// The windows of `length` that a window has a part of.
fn parts(window: Window, length: Ms) -> impl Iterator<Item = Window> {
    debug_assert!(length > Ms::ZERO, "windows of {length}");
    let first = Window::containing(window.start.saturating_add(Ms(1)), length);
    let count = if window.has_length() { (window.end() - first.start + length - Ms(1)) / length } else { 0 };
    debug_assert!(count >= 0, "{window:?} has {count} windows of {length}");
    (0..count).map(move |at| Window { start: first.start + length * at, length })
}

/// The rollups that a manifest has.
pub(crate) struct ManifestRollups<'a> {
    manifest: &'a Manifest,
    bounds: Bounds<'a>,
    /// By the resolution that they are made of.
    of: HashMap<u32, Coarser<'a>>,
}

/// The rollups of one resolution.
struct Coarser<'a> {
    resolution_ms: u32,
    /// Their shortest window.
    length: Ms,
    made: ByWindow<'a>,
}

impl<'a> ManifestRollups<'a> {
    /// `bounds` are what retention keeps now.
    pub(crate) fn new(manifest: &'a Manifest, rollups: &[u32], ladder: Ladder, bounds: Bounds<'a>) -> Self {
        let of = rollups.iter().map(|coarser| {
            let length = ladder.lengths(*coarser)[0];
            let made = made(&manifest.blocks, *coarser, length);
            (finer_than(rollups, *coarser), Coarser { resolution_ms: *coarser, length, made })
        });
        Self { manifest, bounds, of: of.collect() }
    }

    /// Whether data up to `end` is to be in the rollup to `resolution_ms`: it was not dropped there, and either it is
    /// kept or a coarser one that keeps it is made of it.
    fn is_wanted(&self, tenant: &Tenant, resolution_ms: u32, end: WallMs) -> bool {
        if end <= self.manifest.horizon(tenant, resolution_ms) {
            return false;
        }
        let is_kept = self.bounds.until(tenant, resolution_ms).is_none_or(|until| until < end);
        let coarser = || self.of.get(&resolution_ms).map(|coarser| coarser.resolution_ms);
        is_kept || coarser().is_some_and(|coarser| self.is_wanted(tenant, coarser, end))
    }

    /// The rollup over `window` if it is to be and does not hold what is in a finer block. `made` are those to
    /// `resolution_ms`.
    fn needs(
        &self,
        finer: &BlockMeta,
        resolution_ms: u32,
        window: Window,
        made: &ByWindow<'_>,
        known: &RollupMemory,
    ) -> Option<RollupKey> {
        debug_assert!(finer.resolution_ms < resolution_ms, "{resolution_ms} ms are not made of {finer:?}");
        let due = match made.get(&(&finer.tenant, window)) {
            Some((rolled, _)) if finer.arrived <= *rolled => return None,
            Some((_, own)) => RollupKey { tenant: finer.tenant.clone(), resolution_ms, window: *own },
            None => {
                let due = RollupKey { tenant: finer.tenant.clone(), resolution_ms, window };
                if known.empty.get(&due).is_some_and(|seen| finer.arrived <= *seen) {
                    return None;
                }
                due
            }
        };
        let end = due.window.end().min(finer.window.range().end);
        self.is_wanted(&finer.tenant, resolution_ms, end).then_some(due)
    }

    /// What is to be made first, at `wall` with windows that ended by `closed` closed.
    pub(crate) fn due(&self, rollups: &[u32], wall: WallMs, closed: WallMs, known: &RollupMemory) -> Option<RollupKey> {
        rollups.iter().find_map(|resolution| {
            let finer = finer_than(rollups, *resolution);
            let Coarser { length, made, .. } = &self.of[&finer];
            let sources = self.manifest.blocks.iter().filter(|meta| meta.resolution_ms == finer);
            let mut missing = sources.flat_map(|meta| {
                let horizon = self.manifest.horizon(&meta.tenant, finer);
                let open = move |window: &Window| horizon < window.end() && window.end() <= closed;
                parts(meta.window, *length)
                    .filter(open)
                    .filter_map(|window| self.needs(meta, *resolution, window, made, known))
            });
            // One that is made of a rollup which itself is to be made would pass for what holds all that there is.
            let is_whole = |due: &RollupKey| finer == 0 || self.reaches(&due.tenant, due.window, finer, known);
            missing.find(|due| !known.waiting.contains(due) && !known.rests(due, wall) && is_whole(due))
        })
    }

    /// Whether the next coarser rollup holds what is in a block, or never will.
    pub(crate) fn holds(&self, meta: &BlockMeta, known: &RollupMemory) -> bool {
        self.holds_within(meta, meta.window, known)
    }

    /// Whether the rollups up to the one to `resolution_ms` hold what they are made of inside `window`, or never will.
    pub(crate) fn reaches(&self, tenant: &Tenant, window: Window, resolution_ms: u32, known: &RollupMemory) -> bool {
        let of = |meta: &&BlockMeta| {
            meta.resolution_ms < resolution_ms && meta.tenant == *tenant && meta.window.meets(&window)
        };
        self.manifest.blocks.iter().filter(of).all(|meta| self.holds_within(meta, window, known))
    }

    fn holds_within(&self, meta: &BlockMeta, within: Window, known: &RollupMemory) -> bool {
        let Some(coarser) = self.of.get(&meta.resolution_ms) else { return true };
        let horizon = self.manifest.horizon(&meta.tenant, meta.resolution_ms);
        parts(meta.window, coarser.length)
            .filter(|window| window.end() > horizon && window.meets(&within))
            .filter_map(|window| self.needs(meta, coarser.resolution_ms, window, &coarser.made, known))
            .all(|due| known.is_given_up(&due))
    }
}
