//! Classes of samples that retention treats separately.

use ogive_model::{Kind, Labels};

/// What is kept, and dropped, by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Floats and histograms.
    Numbers,
    /// Texts: log records, and what senders write.
    Logs,
    /// What a broker gave up: texts of `ogive_gap`.
    Gaps,
    /// What was changed: texts of `ogive_config_change`.
    Audit,
    /// Boards of the page: texts of `ogive_board`.
    Boards,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Numbers, Self::Logs, Self::Gaps, Self::Audit, Self::Boards];

    /// The class of the samples of a series.
    #[must_use]
    pub fn from_labels(labels: &Labels, kind: Kind) -> Self {
        Self::from_metric(labels.metric_name(), kind)
    }

    /// The same by the metric's name.
    pub(crate) fn from_metric(metric: &str, kind: Kind) -> Self {
        match (kind, metric) {
            (Kind::Float | Kind::Histogram, _) => Self::Numbers,
            (Kind::Text, GAP_METRIC) => Self::Gaps,
            (Kind::Text, AUDIT_METRIC) => Self::Audit,
            (Kind::Text, BOARD_METRIC) => Self::Boards,
            (Kind::Text, _) => Self::Logs,
        }
    }

    /// As the resolution of a horizon: that of raw samples is the numbers', and no rollup is as wide as those of texts.
    pub(crate) const fn horizon(self) -> u32 {
        match self {
            Self::Numbers => 0,
            Self::Logs => u32::MAX,
            Self::Gaps => u32::MAX - 1,
            Self::Audit => u32::MAX - 2,
            Self::Boards => u32::MAX - 3,
        }
    }
}

/// A set of classes, as a block of raw samples says which were dropped from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Classes(u8);

impl Classes {
    pub(crate) const ALL: Self = Self(0b1_1111);

    /// What [`Classes::to_stored`] gave; what is unknown is left out.
    pub(crate) const fn from_stored(stored: u64) -> Self {
        Self(stored as u8 & Self::ALL.0)
    }

    pub(crate) const fn to_stored(self) -> u64 {
        debug_assert!(self.0 & !Self::ALL.0 == 0, "a set holds classes that there are");
        self.0 as u64
    }

    pub(crate) const fn holds(self, class: Class) -> bool {
        self.0 & (1 << class as u8) != 0
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn each(self) -> impl Iterator<Item = Class> {
        Class::ALL.into_iter().filter(move |class| self.holds(*class))
    }
}

const _: () = assert!(Classes::ALL.0 == (1 << Class::ALL.len()) - 1);
impl FromIterator<Class> for Classes {
    fn from_iter<I: IntoIterator<Item = Class>>(all: I) -> Self {
        Self(all.into_iter().fold(0, |set, class| set | 1 << class as u8))
    }
}

/// The texts of a broker's gaps (docs/formats/gap.md).
const GAP_METRIC: &str = "ogive_gap";
/// The texts of changes.
const AUDIT_METRIC: &str = "ogive_config_change";
/// The versions of boards: what somebody arranged is no measurement, and does not age.
const BOARD_METRIC: &str = "ogive_board";
