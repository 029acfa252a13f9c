//! What the rules of a filter did, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// What can happen to a line, or to a number in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The filter matches the line.
    Matched,
    /// It is dropped.
    Dropped,
    /// It is counted and measured, and not stored.
    NotStored,
    /// It became a part of the line before it.
    Joined,
    /// Something in it was masked.
    Masked,
    /// It matches none of the formats that the filter names.
    Unparsed,
    /// It went to another tenant.
    Routed,
    /// Numbers that are in cells.
    Numbers,
    /// Values that are no numbers where one belongs.
    NumbersInvalid,
    /// Numbers and counts without a cell: the batch reached its limit.
    CellsLimit,
    /// Lines that were counted.
    Counted,
    /// Numbers and counts of series beyond the rule's limit.
    Folded,
    /// Labels that break a limit.
    LabelsInvalid,
    /// Values that are no times where one belongs.
    TimesInvalid,
}

impl Outcome {
    /// Every one.
    pub const ALL: [Self; 14] = [
        Self::Matched,
        Self::Dropped,
        Self::NotStored,
        Self::Joined,
        Self::Masked,
        Self::Unparsed,
        Self::Routed,
        Self::Numbers,
        Self::NumbersInvalid,
        Self::CellsLimit,
        Self::Counted,
        Self::Folded,
        Self::LabelsInvalid,
        Self::TimesInvalid,
    ];

    /// The value of the label `outcome`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Matched => "matched",
            Self::Dropped => "dropped",
            Self::NotStored => "not_stored",
            Self::Joined => "joined",
            Self::Masked => "masked",
            Self::Unparsed => "unparsed",
            Self::Routed => "routed",
            Self::Numbers => "numbers",
            Self::NumbersInvalid => "numbers_invalid",
            Self::CellsLimit => "cells_limit",
            Self::Counted => "counted",
            Self::Folded => "folded",
            Self::LabelsInvalid => "labels_invalid",
            Self::TimesInvalid => "times_invalid",
        }
    }
}

/// The counts of one filter.
#[derive(Debug, Default)]
pub struct Tally([AtomicU64; Outcome::ALL.len()]);

impl Tally {
    pub(crate) fn add(&self, outcome: Outcome, count: u64) {
        // ORDERING: Relaxed; figures for people.
        self.0[outcome as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// How often it happened.
    #[must_use]
    pub fn get(&self, outcome: Outcome) -> u64 {
        // ORDERING: Relaxed; figures for people.
        self.0[outcome as usize].load(Ordering::Relaxed)
    }
}
