//! Budgets of bytes: what a piece of work may hold in memory, within what all such work may hold together.
//!
//! Invariants: bytes are charged before they are allocated, to a budget and to those around it, or to none of them; a
//! [`Charge`] that is dropped gives its bytes back to all of them, and a budget that is dropped gives back what was
//! kept in it.
//! Threads: any number charge at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whose budget it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryScope {
    /// One query's: it must request less.
    Query,
    /// The budget of all queries together: it may retry later.
    All,
}

/// A budget has no room for a planned allocation; nothing of it was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryExceeded {
    /// Whose budget.
    pub scope: MemoryScope,
    /// Its bytes.
    pub limit: usize,
}

impl std::fmt::Display for MemoryExceeded {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let limit = Mebibytes(self.limit);
        match self.scope {
            MemoryScope::Query => {
                write!(out, "the query would hold more than {limit} of memory; narrow its time range or its matchers")
            }
            MemoryScope::All => write!(out, "all queries together would hold more than {limit} of memory"),
        }
    }
}

impl std::error::Error for MemoryExceeded {}

/// Bytes as a person reads them.
struct Mebibytes(usize);

impl std::fmt::Display for Mebibytes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.0;
        if bytes >= 1 << 20 { write!(out, "{} MiB", bytes >> 20) } else { write!(out, "{bytes} bytes") }
    }
}

/// A budget.
#[derive(Debug)]
pub struct Memory {
    scope: MemoryScope,
    limit: usize,
    used: AtomicUsize,
    around: Option<Arc<Self>>,
}

impl Memory {
    /// A budget without a parent.
    #[must_use]
    pub fn new(scope: MemoryScope, limit: usize) -> Arc<Self> {
        Arc::new(Self { scope, limit, used: AtomicUsize::new(0), around: None })
    }

    /// No bound.
    #[must_use]
    pub fn unbounded() -> Arc<Self> {
        Self::new(MemoryScope::All, usize::MAX)
    }

    /// A query's budget inside this one.
    #[must_use]
    pub fn within(self: &Arc<Self>, limit: usize) -> Arc<Self> {
        let (used, around) = (AtomicUsize::new(0), Some(Arc::clone(self)));
        Arc::new(Self { scope: MemoryScope::Query, limit, used, around })
    }

    /// Bytes that are charged now.
    #[must_use]
    pub fn used(&self) -> usize {
        // ORDERING: Relaxed; a sum that guards no other memory, here and below.
        self.used.load(Ordering::Relaxed)
    }

    /// Charges `bytes` for as long as the charge lives.
    ///
    /// # Errors
    /// [`MemoryExceeded`] when one of the budgets has no room.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Result<Charge, MemoryExceeded> {
        self.take(bytes)?;
        Ok(Charge { memory: Some(Arc::clone(self)), bytes })
    }

    /// A charge of nothing, to grow.
    #[must_use]
    pub fn empty(self: &Arc<Self>) -> Charge {
        Charge { memory: Some(Arc::clone(self)), bytes: 0 }
    }

    fn take(&self, bytes: usize) -> Result<(), MemoryExceeded> {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let outcome = if bytes > self.limit || before > self.limit - bytes {
            Err(MemoryExceeded { scope: self.scope, limit: self.limit })
        } else {
            self.around.as_ref().map_or(Ok(()), |around| around.take(bytes))
        };
        if outcome.is_err() {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        outcome
    }

    fn give_back(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "{bytes} bytes of {before} are given back");
        if let Some(around) = &self.around {
            around.give_back(bytes);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let kept = *self.used.get_mut();
        if let Some(around) = self.around.as_ref().filter(|_| kept > 0) {
            around.give_back(kept);
        }
    }
}

/// Bytes that are charged until this is dropped.
#[derive(Debug, Default)]
pub struct Charge {
    memory: Option<Arc<Memory>>,
    bytes: usize,
}

impl Charge {
    /// How many.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Charges `bytes` more; a charge that belongs to no budget stays empty.
    ///
    /// # Errors
    /// [`MemoryExceeded`]; then nothing has changed.
    pub fn grow(&mut self, bytes: usize) -> Result<(), MemoryExceeded> {
        if let Some(memory) = self.memory.as_ref().filter(|_| bytes > 0) {
            memory.take(bytes)?;
            self.bytes += bytes;
        }
        Ok(())
    }

    /// Releases `bytes` of the charge.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        if let Some(memory) = &self.memory {
            memory.give_back(bytes);
        }
    }

    /// Merges another charge of the same budget.
    pub fn absorb(&mut self, mut other: Self) {
        match (&self.memory, other.memory.take()) {
            (None, memory) => *self = Self { memory, bytes: std::mem::take(&mut other.bytes) },
            (Some(own), Some(memory)) => {
                assert!(Arc::ptr_eq(own, &memory), "charges of one budget are joined");
                self.bytes += std::mem::take(&mut other.bytes);
            }
            (Some(_), None) => {}
        }
    }

    /// Leaves the bytes charged for as long as the budget lives.
    pub fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.as_ref().filter(|_| self.bytes > 0) {
            memory.give_back(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_refused_at_one_above_its_limit_and_the_refusal_changes_nothing() {
        let all = Memory::new(MemoryScope::All, 10);
        let one = all.within(6);
        let mut held = one.charge(6).unwrap();
        assert_eq!(one.charge(1).unwrap_err(), MemoryExceeded { scope: MemoryScope::Query, limit: 6 });
        assert_eq!(held.grow(1).unwrap_err().scope, MemoryScope::Query);
        assert_eq!((one.used(), all.used(), held.bytes()), (6, 6, 6));
        let other = all.within(100);
        let second = other.charge(4).unwrap();
        assert_eq!(other.charge(1).unwrap_err(), MemoryExceeded { scope: MemoryScope::All, limit: 10 });
        assert_eq!((other.used(), all.used()), (4, 10));
        drop((held, second));
        assert_eq!((one.used(), other.used(), all.used()), (0, 0, 0));
        assert!(one.charge(usize::MAX).is_err() && one.used() == 0);
    }

    #[test]
    fn what_is_kept_is_given_back_with_its_budget() {
        let all = Memory::new(MemoryScope::All, 100);
        let one = all.within(100);
        let mut held = one.charge(10).unwrap();
        held.absorb(one.charge(5).unwrap());
        held.absorb(Charge::default());
        assert_eq!(held.bytes(), 15);
        held.keep();
        assert_eq!((one.used(), all.used()), (15, 15));
        drop(one);
        assert_eq!(all.used(), 0);
    }
}
