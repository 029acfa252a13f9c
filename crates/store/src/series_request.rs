//! Which series are asked for, of the heads and of the blocks alike.

use ogive_model::{Kind, Matcher, Selection, Temporality, Tenant, TimeRange};

use crate::tombstone::Tombstone;

/// The series of a tenant that all matchers accept, with samples in a range.
#[derive(Clone, Copy)]
pub(crate) struct SeriesRequest<'a> {
    pub(crate) tenant: &'a Tenant,
    pub(crate) matchers: &'a [Matcher],
    pub(crate) range: TimeRange,
}

/// What is read of blocks of one resolution.
#[derive(Clone, Copy)]
pub(crate) struct BlockRequest<'a> {
    pub(crate) tenant: &'a Tenant,
    /// 0: samples as they came.
    pub(crate) resolution_ms: u32,
    pub(crate) selection: &'a Selection,
    /// Which series.
    pub(crate) wanted: &'a dyn Fn(Kind, Temporality) -> bool,
    /// What is left out.
    pub(crate) tombstones: &'a [Tombstone],
}
