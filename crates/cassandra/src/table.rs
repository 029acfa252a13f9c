//! The tables of samples: which there are, and what is in which.

use ogive_model::SeriesDef;
use ogive_store::Class;

/// Tables of samples, each with a retention of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Table {
    /// Numbers as they came.
    Numbers,
    /// Texts.
    Logs,
    /// Texts that nobody's retention drops: gaps, audits, boards.
    Records,
    /// Cells of a minute.
    Minutes,
    /// Cells of an hour.
    Hours,
}

impl Table {
    /// Those of rows as they came, by their code.
    pub(crate) const RAW: [Self; 3] = [Self::Numbers, Self::Logs, Self::Records];
    /// Those of rollups.
    pub(crate) const ROLLED: [Self; 2] = [Self::Minutes, Self::Hours];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Numbers => "cells",
            Self::Logs => "texts",
            Self::Records => "records",
            Self::Minutes => "cells_1m",
            Self::Hours => "cells_1h",
        }
    }

    /// Where the samples of a series are as they came.
    pub(crate) fn from_series(def: &SeriesDef) -> Self {
        match Class::from_labels(&def.labels, def.meta.kind) {
            Class::Numbers => Self::Numbers,
            Class::Logs => Self::Logs,
            Class::Gaps | Class::Audit | Class::Boards => Self::Records,
        }
    }

    /// As stored.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    /// What [`Table::code`] gave, of a table of rows as they came.
    pub(crate) fn raw_from_code(code: u8) -> Option<Self> {
        Self::RAW.get(usize::from(code)).copied()
    }

    /// Milliseconds of a cell; 0 of samples as they came.
    pub(crate) const fn width_ms(self) -> u32 {
        match self {
            Self::Minutes => 60_000,
            Self::Hours => 3_600_000,
            Self::Numbers | Self::Logs | Self::Records => 0,
        }
    }

    /// The partition of an hour's rollup: a day of minutes, 30 days of hours.
    pub(crate) const fn bucket_of_hour(self, hour: i32) -> i32 {
        hour.div_euclid(self.bucket_hours())
    }

    /// Hours of a partition of rollups.
    pub(crate) const fn bucket_hours(self) -> i32 {
        if matches!(self, Self::Hours) { 720 } else { 24 }
    }
}
