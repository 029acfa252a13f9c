//! Dropping: removes data that exceeds its tenant's retention by age or size.
//!
//! Invariants: among raw samples, numbers, logs, gaps and audit are dropped separately: a block of which some classes
//! stay is rewritten with those only, otherwise whole blocks are dropped. The horizon of their resolution then rises:
//! nothing of that resolution at or below it is shown or accepted any more. Nothing is dropped before its rollup, if
//! there is to be one, holds it.
//! - By age: blocks whose window ended before the tenant's retention, up to the first that waits for its rollup.
//! - By size: repeatedly the earliest window of the resolution with the most bytes; never an open window.

use std::collections::BTreeMap;

use ogive_model::{Ms, Tenant, WallMs};

use crate::class::{Class, Classes};
use crate::manifest::{Horizon, Manifest};
use crate::retention::Retention;
use crate::view::ends_by;
use crate::{BlockId, BlockMeta};

/// What should go: classes from the blocks of a tenant in one resolution whose windows end at or before `until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) tenant: Tenant,
    pub(crate) resolution_ms: u32,
    pub(crate) until: WallMs,
    pub(crate) classes: Classes,
}

impl Job {
    /// Whether something of a block is among what goes.
    pub(crate) fn takes(&self, meta: &BlockMeta) -> bool {
        meta.tenant == self.tenant
            && meta.resolution_ms == self.resolution_ms
            && ends_by(meta.window, self.until)
            && !self.classes.without(meta.dropped()).is_empty()
    }

    /// Takes what goes out of a manifest and raises the horizons; returns how many blocks and bytes went. `left` are
    /// the blocks that hold what stays of one, by its id; one of those that [`Job::takes`] and that is not there stays
    /// as it is.
    pub(crate) fn apply(&self, manifest: &mut Manifest, left: &[(BlockId, Option<BlockMeta>)]) -> (u64, u64) {
        let bytes = |manifest: &Manifest| manifest.blocks.iter().map(|meta| meta.bytes).sum::<u64>();
        let (before, mut gone) = (bytes(manifest), 0);
        for (id, stays) in left {
            let is_own = |meta: &BlockMeta| meta.tenant == self.tenant && meta.resolution_ms == 0;
            assert!(stays.as_ref().is_none_or(is_own), "what stays of {id:?} is its tenant's, as it came: {stays:?}");
            manifest.remove_blocks(&[*id]);
            gone += u64::from(stays.is_none());
            manifest.blocks.extend(stays.clone());
        }
        for class in self.classes.each() {
            let resolution_ms = if self.resolution_ms > 0 { self.resolution_ms } else { class.horizon() };
            self.raise(manifest, resolution_ms);
        }
        (gone, before.saturating_sub(bytes(manifest)))
    }

    fn raise(&self, manifest: &mut Manifest, resolution_ms: u32) {
        let of = |one: &&mut Horizon| one.tenant == self.tenant && one.resolution_ms == resolution_ms;
        match manifest.horizons.iter_mut().find(of) {
            Some(horizon) => horizon.until = horizon.until.max(self.until),
            None => {
                let Self { tenant, until, .. } = self.clone();
                manifest.horizons.push(Horizon { tenant, resolution_ms, until });
            }
        }
    }
}

/// What retention keeps at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds<'a> {
    pub(crate) retention: &'a Retention,
    pub(crate) now: WallMs,
    /// Windows that end after this stay.
    pub(crate) closed: WallMs,
    /// Divides every horizon.
    pub(crate) step: Ms,
}

impl Bounds<'_> {
    /// Up to where the data of a tenant in one resolution is too old; `None` when it is kept for ever.
    pub(crate) fn until(&self, tenant: &Tenant, resolution_ms: u32) -> Option<WallMs> {
        Some(self.behind(self.retention.of(tenant).age_of(resolution_ms)?))
    }

    /// As [`Bounds::until`], of a class of raw samples.
    fn until_of(&self, tenant: &Tenant, class: Class) -> Option<WallMs> {
        Some(self.behind(self.retention.of(tenant).class_age(class)?))
    }

    fn behind(&self, age: Ms) -> WallMs {
        self.floor(self.now.saturating_sub(age).min(self.closed))
    }

    /// The classes that are too old in a block of raw samples.
    pub(crate) fn too_old(&self, meta: &BlockMeta) -> Classes {
        let is_too_old =
            |class: &Class| self.until_of(&meta.tenant, *class).is_some_and(|until| ends_by(meta.window, until));
        Class::ALL.into_iter().filter(is_too_old).collect()
    }

    /// The last place at or before `time` where a horizon may stand.
    fn floor(&self, time: WallMs) -> WallMs {
        let floor = time.align_down(self.step);
        debug_assert!(floor <= time, "a horizon at {floor} is behind {time}");
        floor
    }
}

/// What should go next. `is_held` returns for a block whether the next coarser rollup holds what is in it, or is not to
/// be.
pub(crate) fn plan(blocks: &[&BlockMeta], bounds: &Bounds<'_>, is_held: impl Fn(&BlockMeta) -> bool) -> Option<Job> {
    let mut groups: BTreeMap<(&Tenant, u32), Vec<&BlockMeta>> = BTreeMap::new();
    for meta in blocks {
        groups.entry((&meta.tenant, meta.resolution_ms)).or_default().push(meta);
    }
    let by_age = groups.iter().find_map(|((tenant, resolution_ms), group)| {
        let too_old = bounds.until(tenant, *resolution_ms)?;
        // A block that waits for its rollup keeps what is later, not what is before it.
        let waiting = group
            .iter()
            .filter(|meta| ends_by(meta.window, too_old) && !meta.dropped().holds(Class::Numbers) && !is_held(meta));
        let until = waiting.map(|meta| bounds.floor(meta.window.start)).fold(too_old, WallMs::min);
        some(group, Job { tenant: (*tenant).clone(), resolution_ms: *resolution_ms, until, classes: NUMBERS })
    });
    let by_size = || {
        by_size(&groups, bounds).filter(|job| blocks.iter().filter(|meta| job.takes(meta)).all(|meta| is_held(meta)))
    };
    by_age.or_else(|| texts_by_age(&groups, bounds)).or_else(by_size)
}

/// The numbers alone: all that rollups hold.
const NUMBERS: Classes = Classes::from_stored(1);
const _: () = assert!(NUMBERS.holds(Class::Numbers));

type Groups<'a> = BTreeMap<(&'a Tenant, u32), Vec<&'a BlockMeta>>;

/// The job, if there is something that it takes.
fn some(group: &[&BlockMeta], job: Job) -> Option<Job> {
    group.iter().any(|meta| job.takes(meta)).then_some(job)
}

fn texts_by_age(groups: &Groups<'_>, bounds: &Bounds<'_>) -> Option<Job> {
    let raw = groups.iter().filter(|((_, resolution_ms), _)| *resolution_ms == 0);
    raw.flat_map(|group| Class::ALL[1..].iter().map(move |class| (group, *class))).find_map(
        |(((tenant, _), group), class)| {
            let until = bounds.until_of(tenant, class)?;
            some(
                group,
                Job { tenant: (*tenant).clone(), resolution_ms: 0, until, classes: [class].into_iter().collect() },
            )
        },
    )
}

/// What goes for its size: gaps and audit are small and stay.
fn dropped_for_size(resolution_ms: u32) -> Classes {
    if resolution_ms > 0 { NUMBERS } else { [Class::Numbers, Class::Logs].into_iter().collect() }
}

fn by_size(groups: &Groups<'_>, bounds: &Bounds<'_>) -> Option<Job> {
    let bytes = |group: &[&BlockMeta]| group.iter().map(|meta| meta.bytes).sum::<u64>();
    let mut tenants: Vec<&Tenant> = groups.keys().map(|key| key.0).collect();
    tenants.dedup();
    tenants.into_iter().find_map(|tenant| {
        let most = bounds.retention.of(tenant).bytes?;
        let own = || groups.iter().filter(|((of, _), _)| *of == tenant);
        if own().map(|(_, group)| bytes(group)).sum::<u64>() <= most {
            return None;
        }
        let ((_, resolution_ms), group) = own().max_by_key(|(_, group)| bytes(group))?;
        let classes = dropped_for_size(*resolution_ms);
        let has_some = |meta: &&&BlockMeta| meta.window.has_length() && !classes.without(meta.dropped()).is_empty();
        let ends = group.iter().filter(has_some).map(|meta| meta.window.end());
        // Up to the next place where a horizon may stand.
        let until = bounds.floor(ends.min()?.saturating_add(bounds.step - Ms(1)));
        let job = || Job { tenant: tenant.clone(), resolution_ms: *resolution_ms, until, classes };
        (until <= bounds.closed).then(job)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use super::*;
    use crate::retention::Keep;
    use crate::testing::meta;
    use crate::window::Window;

    const HOUR: i64 = 3_600_000;

    fn block(id: u64, bytes: u64, end: i64, hours: i64, resolution_ms: u32) -> BlockMeta {
        BlockMeta { window: Window::containing(WallMs(end * HOUR), Ms(hours * HOUR)), bytes, resolution_ms, ..meta(id) }
    }

    fn planned(blocks: &[BlockMeta], keep: Keep, now: i64) -> Option<(u32, i64, Vec<u64>)> {
        let retention = Retention { default: keep, tenants: HashMap::new() };
        let (now_ms, closed_ms, step_ms) = (now * HOUR, now * HOUR - 1, 2 * HOUR);
        let all: Vec<&BlockMeta> = blocks.iter().collect();
        let job = plan(
            &all,
            &Bounds { retention: &retention, now: WallMs(now_ms), closed: WallMs(closed_ms), step: Ms(step_ms) },
            |meta| meta.id.0 < 90,
        )?;
        let gone = blocks.iter().filter(|meta| job.takes(meta)).map(|meta| meta.id.0).collect();
        Some((job.resolution_ms, job.until.0 / HOUR, gone))
    }

    #[test]
    fn what_is_older_than_is_kept_goes_by_whole_blocks() {
        let keep = |hours: u64| Keep { age: Some(Duration::from_secs(hours * 3600)), ..Keep::default() };
        let blocks = [block(0, 1, 2, 2, 0), block(1, 1, 4, 2, 0), block(2, 1, 24, 24, 0), block(3, 1, 2, 2, 60_000)];
        assert_eq!(planned(&blocks, Keep::default(), 1000), None);
        assert_eq!(planned(&blocks, keep(10), 11), None);
        assert_eq!(planned(&blocks, keep(10), 12), Some((0, 2, vec![0])));
        assert_eq!(planned(&blocks, keep(10), 13), Some((0, 2, vec![0])));
        assert_eq!(planned(&blocks, keep(10), 34), Some((0, 24, vec![0, 1, 2])));
        let mut minutes = keep(10);
        minutes.ages.insert(0, Duration::from_secs(9_999_999));
        assert_eq!(planned(&blocks, minutes, 12), Some((60_000, 2, vec![3])));
    }

    #[test]
    fn what_is_more_than_is_kept_goes_from_the_earliest_window_of_the_largest_resolution() {
        let keep = |bytes| Keep { bytes: Some(bytes), ..Keep::default() };
        let blocks = [block(0, 10, 2, 2, 0), block(1, 10, 4, 2, 0), block(2, 5, 2, 2, 60_000), block(3, 10, 100, 2, 0)];
        assert_eq!(planned(&blocks, keep(35), 101), None);
        assert_eq!(planned(&blocks, keep(34), 101), Some((0, 2, vec![0])));
        assert_eq!(planned(&blocks[2..], keep(1), 101), Some((0, 100, vec![3])));
        assert_eq!(planned(&blocks[3..], keep(1), 100), None, "its window is open");
    }

    #[test]
    fn a_block_that_waits_for_its_rollup_keeps_what_is_later_and_not_what_is_before_it() {
        let keep = || Keep { ages: BTreeMap::from([(0, Duration::from_secs(3600))]), ..Keep::default() };
        let waiting = block(90, 1, 8, 2, 0);
        let blocks = [block(0, 1, 2, 2, 0), block(1, 1, 6, 2, 0), waiting.clone(), block(2, 1, 10, 2, 0)];
        assert_eq!(planned(&blocks, keep(), 100), Some((0, 6, vec![0, 1])));
        assert_eq!(planned(&[waiting, block(2, 1, 10, 2, 0)], keep(), 100), None);
    }

    #[test]
    fn a_horizon_only_rises() {
        let mut manifest =
            Manifest { blocks: vec![block(0, 10, 2, 2, 0), block(1, 10, 4, 2, 0)], ..Manifest::default() };
        let job =
            |until| Job { tenant: Tenant::default(), resolution_ms: 0, until: WallMs(until * HOUR), classes: NUMBERS };
        assert_eq!(job(2).apply(&mut manifest, &[(BlockId(0), None)]), (1, 10));
        assert_eq!(job(0).apply(&mut manifest, &[]), (0, 0));
        assert_eq!(manifest.horizon(&Tenant::default(), 0), WallMs(2 * HOUR));
        assert_eq!(manifest.blocks.len(), 1);
    }
}
