//! Vector matching: which rows of the two sides belong together.

use std::collections::HashMap;
use std::sync::Arc;

use ogive_model::{Charge, Labels, METRIC_NAME, Memory};

use super::rows::Row;
use crate::Error;
use crate::ast::Matching;

/// The labels that decide whether rows match.
pub(crate) fn signature(labels: &Labels, matching: &Matching) -> Labels {
    let listed = |name: &str| matching.labels.iter().any(|label| label == name);
    if matching.on { labels.filtered(listed) } else { labels.filtered(|name| name != METRIC_NAME && !listed(name)) }
}

/// Numbers for signatures; equal signatures have one number on both sides.
pub(crate) struct Signatures {
    numbers: HashMap<Labels, usize>,
    held: Charge,
}

/// An entry of a map of label sets, its unused slots included, and a row's number.
const ENTRY_BYTES: usize = 64;

impl Signatures {
    /// Empty; memory is charged to `memory`.
    pub(crate) fn new(memory: &Arc<Memory>) -> Result<Self, Error> {
        Ok(Self { numbers: HashMap::new(), held: memory.charge(0)? })
    }

    /// The number of each row's signature.
    pub(crate) fn of(&mut self, rows: &[Row], matching: &Matching) -> Result<Vec<usize>, Error> {
        let mut out = Vec::with_capacity(rows.len());
        for row in rows {
            // A signature takes no more memory than its labels.
            self.held.grow(ENTRY_BYTES + row.labels.memory_bytes())?;
            let next = self.numbers.len();
            out.push(*self.numbers.entry(signature(&row.labels, matching)).or_insert(next));
        }
        Ok(out)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.numbers.len()
    }
}

/// Flags, one for each instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Steps(Vec<u64>);

impl Steps {
    /// All false.
    pub(crate) fn none(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    /// True where `row` has a value.
    pub(crate) fn filled(row: &Row) -> Self {
        let mut out = Self::none(row.cells.len());
        out.fill(row);
        out
    }

    /// Sets the flag at each instant at which `row` has a value.
    pub(crate) fn fill(&mut self, row: &Row) {
        for (step, _) in row.cells.iter().enumerate().filter(|(_, cell)| cell.is_some()) {
            self.set(step);
        }
    }

    pub(crate) fn set(&mut self, step: usize) {
        self.0[step / 64] |= 1 << (step % 64);
    }

    pub(crate) fn get(&self, step: usize) -> bool {
        self.0[step / 64] >> (step % 64) & 1 == 1
    }

    /// Sets the flag; returns whether it was already set.
    pub(crate) fn replace(&mut self, step: usize) -> bool {
        let before = self.get(step);
        self.set(step);
        before
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    pub(crate) fn union(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }
}
