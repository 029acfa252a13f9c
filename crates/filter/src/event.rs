//! A line on its way through the filters.

use ogive_model::{Labels, WallNs};

/// 256 KiB of lines that are joined: a stack trace of a thousand frames. Further lines start a new one.
pub const EVENT_BYTES_MAX: usize = 256 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Event {
    /// Its index in the batch.
    pub(crate) sample: usize,
    pub(crate) series: usize,
    pub(crate) time: WallNs,
    /// The time that a filter read in it.
    pub(crate) own_time: Option<WallNs>,
    pub(crate) text: String,
    pub(crate) labels: Labels,
    pub(crate) is_relabeled: bool,
    pub(crate) is_joined: bool,
    /// Its tenant, by index.
    pub(crate) tenant: u16,
    pub(crate) is_stored: bool,
}

impl Event {
    pub(crate) fn new(sample: usize, series: usize, time: WallNs, text: String, labels: Labels) -> Self {
        Self {
            sample,
            series,
            time,
            own_time: None,
            text,
            labels,
            is_relabeled: false,
            is_joined: false,
            tenant: 0,
            is_stored: true,
        }
    }
}
