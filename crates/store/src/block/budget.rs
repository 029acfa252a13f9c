//! What a selection may still read, and what it could not.
//!
//! Limits: a number of samples (a bin of a histogram and a text count as one), and the bytes of texts and of
//! columns of bins where a [`Memory`] is given; [`GAPS_MAX`] sentences about what is missing.

use std::collections::BTreeSet;
use std::sync::Arc;

use ogive_model::{BinStretch, Charge, Labels, Memory, SelectError, Words};

use crate::{Clash, Error};

/// 20 sentences say what could not be read; the rest is counted.
const GAPS_MAX: usize = 20;

/// What a selection may still read, and what it could not.
#[derive(Debug)]
pub struct Budget {
    left: usize,
    limit: usize,
    /// `None` when a part that cannot be read ends the selection.
    /// The first of them in their order, whatever order they are met in.
    gaps: Option<BTreeSet<String>>,
    has_more_gaps: bool,
    clashes: u64,
    /// Chunks of texts that lack some of them may be left out.
    words: Option<Arc<Words>>,
    /// For the texts and columns that were read; `None` where nobody counts them.
    held: Option<Charge>,
}

impl Budget {
    /// `limit` samples.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { left: limit, limit, gaps: None, has_more_gaps: false, clashes: 0, words: None, held: None }
    }

    /// `limit` samples of what can be read: the rest is reported by [`Budget::into_gaps`].
    #[must_use]
    pub const fn partial(limit: usize) -> Self {
        Self {
            left: limit,
            limit,
            gaps: Some(BTreeSet::new()),
            has_more_gaps: false,
            clashes: 0,
            words: None,
            held: None,
        }
    }

    /// What is left of `limit` samples; the rest as [`Budget::partial`].
    pub(crate) const fn partial_rest(limit: usize, left: usize) -> Self {
        debug_assert!(left <= limit, "no more is left than there was");
        Self { left, limit, gaps: Some(BTreeSet::new()), has_more_gaps: false, clashes: 0, words: None, held: None }
    }

    /// Of texts only those are wanted that may have `words`.
    #[must_use]
    pub fn with_words(self, words: Option<Arc<Words>>) -> Self {
        Self { words, ..self }
    }

    /// The bytes of texts and of columns that are read are charged to `memory` for as long as the budget lives: a text
    /// counts as one sample however long it is, and a zero in a column as none.
    #[must_use]
    pub(crate) fn with_memory(self, memory: Option<&Arc<Memory>>) -> Self {
        assert!(self.held.is_none(), "what is charged stays so for as long as the budget lives: {:?}", self.held);
        Self { held: memory.map(Memory::empty), ..self }
    }

    /// The words that wanted texts have.
    pub(super) fn words(&self) -> Option<&Arc<Words>> {
        self.words.as_ref()
    }

    /// Samples that may still be read.
    pub(crate) const fn left(&self) -> usize {
        self.left
    }

    /// Notes that `what` is missing from the answer because of `error`.
    ///
    /// # Errors
    /// `error`, when the answer must be whole, or when it says that the answer is too large.
    pub(crate) fn miss(&mut self, error: Error, what: impl FnOnce() -> String) -> Result<(), Error> {
        if self.gaps.is_none() || matches!(error, Error::Selection(_)) {
            return Err(error);
        }
        self.tell(format!("the answer is incomplete: {error}; without {}", what()));
        Ok(())
    }

    /// Adds a sentence, if who asked wants to hear any. Two stores with the same data say the same, so it names nothing
    /// that follows from the order in which that came.
    fn tell(&mut self, sentence: String) {
        let Some(gaps) = &mut self.gaps else { return };
        gaps.insert(sentence);
        if gaps.len() > GAPS_MAX {
            gaps.pop_last();
            self.has_more_gaps = true;
        }
        assert!(gaps.len() <= GAPS_MAX, "{} sentences", gaps.len());
    }

    /// Notes what a series' parts could not be merged of.
    pub(crate) fn clash(&mut self, labels: &Labels, clash: Clash) {
        self.clashes += clash.cells.max(u64::from(clash.temporalities));
        if clash.cells > 0 {
            self.tell(format!(
                "the answer is incomplete: cells of {labels} came under histogram schemes that do not merge, and hold the parts of one of them"
            ));
        } else if clash.temporalities {
            self.tell(format!(
                "{labels} came with different temporalities and is read as one of them; delete the part that is wrong, or rename one"
            ));
        }
    }

    /// How many cells lack a part, and how many series came with several temporalities.
    pub(crate) const fn clashes(&self) -> u64 {
        self.clashes
    }

    /// What could not be read, one sentence each.
    #[must_use]
    pub fn into_gaps(self) -> Vec<String> {
        let more = self.has_more_gaps.then(|| "the answer is incomplete: more parts could not be read".to_owned());
        self.gaps.unwrap_or_default().into_iter().chain(more).collect()
    }

    /// Takes `samples` off.
    ///
    /// # Errors
    /// [`SelectError::TooManySamples`] when there are fewer left.
    pub fn take(&mut self, samples: usize) -> Result<(), Error> {
        debug_assert!(self.left <= self.limit, "{} samples are left of {}", self.left, self.limit);
        match self.left.checked_sub(samples) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(SelectError::TooManySamples { limit: self.limit }.into()),
        }
    }

    /// Charges the bytes of texts that were just read, at most a chunk or a part of a head.
    ///
    /// # Errors
    /// [`SelectError::TooMuchMemory`] when there is no room for them.
    pub(crate) fn hold(&mut self, texts: &[String]) -> Result<(), Error> {
        let Some(held) = &mut self.held else { return Ok(()) };
        let bytes: usize = texts.iter().map(|text| size_of::<String>() + text.len()).sum();
        held.grow(bytes).map_err(SelectError::from)?;
        Ok(())
    }

    /// Charges the bytes of columns that were just read, at most a chunk or a part of a head.
    ///
    /// # Errors
    /// [`SelectError::TooMuchMemory`] when there is no room for them.
    pub(crate) fn hold_columns(&mut self, stretch: &BinStretch) -> Result<(), Error> {
        let Some(held) = &mut self.held else { return Ok(()) };
        held.grow(stretch.memory_bytes()).map_err(SelectError::from)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::{BinColumns, MemoryExceeded, MemoryScope};

    use super::*;

    #[test]
    fn texts_are_charged_by_their_bytes_up_to_the_limit_and_given_back() {
        let texts = ["a".repeat(100), String::new(), "b".repeat(1_000)];
        let bytes = 1_100 + 3 * size_of::<String>();
        let memory = Memory::new(MemoryScope::Query, bytes);
        let mut budget = Budget::new(3).with_memory(Some(&memory));
        budget.hold(&texts).unwrap();
        assert_eq!(memory.used(), bytes);
        let refused = budget.hold(&texts[1..2]);
        let exceeded = MemoryExceeded { scope: MemoryScope::Query, limit: bytes };
        assert!(
            matches!(&refused, Err(Error::Selection(SelectError::TooMuchMemory(found))) if *found == exceeded),
            "{refused:?}"
        );
        assert_eq!((memory.used(), budget.left()), (bytes, 3), "samples are taken apart from bytes");
        drop(budget);
        assert_eq!(memory.used(), 0);
        // Where nobody counts.
        Budget::new(3).hold(&texts).unwrap();
    }

    #[test]
    fn columns_are_charged_with_their_zeros() {
        let positive = BinColumns::new(vec![1, 2], vec![0; 32], 16, 16);
        let stretch = BinStretch { rows: 16, negative: BinColumns::default(), positive };
        let bytes = 2 * size_of::<i32>() + 32 * size_of::<u64>();
        let memory = Memory::new(MemoryScope::Query, bytes);
        let mut budget = Budget::new(3).with_memory(Some(&memory));
        budget.hold_columns(&stretch).unwrap();
        assert_eq!(memory.used(), bytes);
        assert!(matches!(budget.hold_columns(&stretch), Err(Error::Selection(SelectError::TooMuchMemory(_)))));
    }
}
