//! Tombstones: deleted samples that blocks still hold.
//!
//! Invariants: a tombstone is in the manifest before its deletion is acknowledged, and until every block that could
//! hold matching samples was rewritten without them. It applies to blocks that had arrived when it was made, so samples
//! that arrive later for the same times stay.
//! Limits: [`TOMBSTONES_MAX`], `MATCHERS_MAX`, `TOMBSTONES_BYTES_MAX`: `check_room` before anything is done.

use ogive_model::{HistogramColumn, Kind, Labels, MatchOp, Matcher, Ms, SeriesData, Tenant, TimeRange};

use crate::bytes::{Broken, Cursor, get_tenant, put_bytes, put_signed, put_tenant, put_varint};
use crate::{BlockMeta, Error};

/// 4,096 deletions that are not carried out: each block is looked at once for each of them.
pub const TOMBSTONES_MAX: usize = 4096;
/// 256 matchers in one selector: far more than one writes.
pub(crate) const MATCHERS_MAX: usize = 256;
/// 16 MiB of selectors wait in all: each change of the manifest writes them again.
pub(crate) const TOMBSTONES_BYTES_MAX: usize = 16 << 20;

/// What a deletion is to delete.
#[derive(Clone, Copy, Debug)]
pub struct DeletionScope<'a> {
    /// Whose samples.
    pub tenant: &'a Tenant,
    /// A series goes when all matchers of one of them accept it.
    pub selectors: &'a [Vec<Matcher>],
    /// Samples of these times.
    pub range: TimeRange,
}

impl<'a> DeletionScope<'a> {
    /// One deletion for each selector.
    pub(crate) fn tombstones(self, generation: u64) -> impl Iterator<Item = Tombstone> + 'a {
        let Self { tenant, selectors, range } = self;
        let of = move |matchers: &Vec<Matcher>| Tombstone {
            generation,
            tenant: tenant.clone(),
            matchers: matchers.clone(),
            range,
        };
        selectors.iter().map(of)
    }
}

/// A deletion; see the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Tombstone {
    /// Generation of the manifest that brought it: blocks cleaned up to it are done.
    pub generation: u64,
    /// Whose samples.
    pub tenant: Tenant,
    /// All must hold.
    pub matchers: Vec<Matcher>,
    /// Which times.
    pub range: TimeRange,
}

impl Tombstone {
    /// Whether a block may hold what it deletes.
    #[must_use]
    pub fn concerns(&self, block: &BlockMeta) -> bool {
        // A cell of a rollup may begin before its time by its width.
        let first = block.time_min.saturating_sub(block.resolution_ms.into());
        self.generation > block.cleaned
            && self.tenant == block.tenant
            && self.range.start < block.time_max
            && first <= self.range.end
    }

    /// Whether it deletes samples of a series.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        labels.match_all(&self.matchers)
    }

    /// Takes away what it deletes of a series whose cells are `resolution_ms` wide: samples in its range, and cells of
    /// a rollup of which any part is.
    pub fn strip(&self, data: &mut SeriesData, resolution_ms: u32) {
        if !self.matches(&data.labels) {
            return;
        }
        let cell = Ms::from(resolution_ms);
        let end = match cell {
            Ms::ZERO => self.range.end,
            cell => self.range.end.saturating_add(cell - Ms(1)),
        };
        let gone = TimeRange { start: self.range.start, end };
        match data.meta.kind {
            Kind::Float => {
                let column = &mut data.floats;
                let rows = rows(&column.times, gone);
                column.values.drain(rows.clone());
                drain_optional(&mut column.starts, rows.clone());
                drain_optional(&mut column.aggregates, rows.clone());
                column.times.drain(rows);
                debug_assert_eq!(column.times.len(), column.values.len(), "each time that is left has its float");
            }
            Kind::Histogram => {
                let HistogramColumn { times, values, starts } = &mut data.histograms;
                let rows = rows(times, gone);
                values.drain(rows.clone());
                drain_optional(starts, rows.clone());
                times.drain(rows);
                debug_assert_eq!(times.len(), values.len(), "each time that is left has its histogram");
            }
            Kind::Text => {
                let rows = rows(&data.texts.times, gone);
                data.texts.values.drain(rows.clone());
                data.texts.times.drain(rows);
                debug_assert_eq!(
                    data.texts.times.len(),
                    data.texts.values.len(),
                    "each time that is left has its text"
                );
            }
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.generation);
        put_tenant(out, &self.tenant);
        put_signed(out, self.range.start.0);
        put_signed(out, self.range.end.0);
        put_varint(out, self.matchers.len() as u64);
        for matcher in &self.matchers {
            out.push(match matcher.op {
                MatchOp::Equal => 0,
                MatchOp::NotEqual => 1,
                MatchOp::Regex => 2,
                MatchOp::NotRegex => 3,
            });
            put_bytes(out, matcher.name.as_bytes());
            put_bytes(out, matcher.value.as_bytes());
        }
    }

    pub(crate) fn get(cursor: &mut Cursor<'_>) -> Result<Self, Broken> {
        let generation = cursor.varint()?;
        let tenant = get_tenant(cursor)?;
        let range = TimeRange::from_ms(cursor.signed()?, cursor.signed()?);
        let mut matchers = Vec::new();
        for _ in 0..cursor.count(MATCHERS_MAX, "matchers")? {
            let op = match cursor.byte()? {
                0 => MatchOp::Equal,
                1 => MatchOp::NotEqual,
                2 => MatchOp::Regex,
                3 => MatchOp::NotRegex,
                tag => return Err(cursor.broken(format!("{tag} is no way to match"))),
            };
            let (name, value) = (cursor.text()?, cursor.text()?);
            matchers.push(Matcher::from_stored(name, op, value).map_err(|error| cursor.broken(error))?);
        }
        Ok(Self { generation, tenant, matchers, range })
    }
}

/// Whether deletions by `selectors` can be kept beside those that are `waiting`.
///
/// # Errors
/// [`Error::Refused`] when they never can be, [`Error::TooManyDeletions`] when they can be later.
pub(crate) fn check_room(waiting: &[Tombstone], selectors: &[Vec<Matcher>]) -> Result<(), Error> {
    if let Some(many) = selectors.iter().map(Vec::len).find(|count| *count > MATCHERS_MAX) {
        let problem = format!("a deletion of {many} matchers where at most {MATCHERS_MAX} can be; select with fewer");
        return Err(Error::Refused { problem });
    }
    let text_bytes = |matchers: &[Matcher]| -> usize {
        matchers.iter().map(|matcher| matcher.name.len() + matcher.value.len() + MATCHER_BYTES).sum()
    };
    let new: usize = selectors.iter().map(|matchers| text_bytes(matchers)).sum();
    if new > TOMBSTONES_BYTES_MAX {
        let problem = format!("selectors of {new} bytes where at most {TOMBSTONES_BYTES_MAX} can be; select with less");
        return Err(Error::Refused { problem });
    }
    let held: usize = waiting.iter().map(|tombstone| text_bytes(&tombstone.matchers)).sum();
    if waiting.len() + selectors.len() > TOMBSTONES_MAX || held + new > TOMBSTONES_BYTES_MAX {
        return Err(Error::TooManyDeletions { limit: TOMBSTONES_MAX });
    }
    Ok(())
}

/// What a matcher takes beside its texts: how it matches, and two lengths of up to 4 bytes.
const MATCHER_BYTES: usize = 9;

fn rows(times: &[i64], range: TimeRange) -> std::ops::Range<usize> {
    let from = times.partition_point(|time| *time <= range.start.0);
    from..times.partition_point(|time| *time <= range.end.0).max(from)
}

fn drain_optional<T>(column: &mut Vec<T>, rows: std::ops::Range<usize>) {
    if !column.is_empty() {
        column.drain(rows);
    }
}

/// Whether a series has no sample.
pub(crate) fn is_empty(data: &SeriesData) -> bool {
    data.floats.times.is_empty() && data.histograms.times.is_empty() && data.texts.times.is_empty()
}

/// Leaves of a series only what it is.
pub(crate) fn clear(data: &mut SeriesData) {
    (data.floats, data.histograms, data.texts) = Default::default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_checked_at_each_limit_and_one_above() {
        let matcher = |bytes: usize| Matcher::new("a", MatchOp::Equal, "x".repeat(bytes)).unwrap();
        let few = vec![matcher(1); MATCHERS_MAX];
        check_room(&[], std::slice::from_ref(&few)).unwrap();
        let many = [few, vec![matcher(1)]].concat();
        assert!(matches!(check_room(&[], &[many]), Err(Error::Refused { .. })));
        let (tenant, range) = (Tenant::default(), TimeRange::ALL);
        let waiting = Tombstone { generation: 1, tenant, matchers: vec![matcher(1)], range };
        let selector = || vec![matcher(1)];
        check_room(&vec![waiting.clone(); TOMBSTONES_MAX - 1], &[selector()]).unwrap();
        let above = check_room(&vec![waiting.clone(); TOMBSTONES_MAX], &[selector()]);
        assert!(matches!(above, Err(Error::TooManyDeletions { .. })));
        let most = TOMBSTONES_BYTES_MAX - MATCHER_BYTES - 1;
        check_room(&[], &[vec![matcher(most)]]).unwrap();
        assert!(matches!(check_room(&[], &[vec![matcher(most + 1)]]), Err(Error::Refused { .. })));
        assert!(matches!(check_room(&[waiting], &[vec![matcher(most)]]), Err(Error::TooManyDeletions { .. })));
    }
}
