//! A bell: asks a thread to do a round of its occasional work, or to end.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

struct Wishes<A> {
    wanted: bool,
    answers: Vec<A>,
    closed: bool,
}

/// `A` is where whoever rings hears how it went.
pub(crate) struct Bell<A> {
    wishes: Mutex<Wishes<A>>,
    rung: Condvar,
}

impl<A> Default for Bell<A> {
    fn default() -> Self {
        let wishes = Wishes { wanted: false, answers: Vec::new(), closed: false };
        Self { wishes: Mutex::new(wishes), rung: Condvar::new() }
    }
}

impl<A> Bell<A> {
    fn wishes(&self) -> MutexGuard<'_, Wishes<A>> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for work; `answer` hears how it went, and is dropped when the bell is closed.
    pub(crate) fn ring(&self, answer: Option<A>) {
        let mut wishes = self.wishes();
        wishes.wanted = true;
        if !wishes.closed {
            wishes.answers.extend(answer);
        }
        debug_assert!(!wishes.closed || wishes.answers.is_empty(), "nobody waits for a bell that is closed");
        self.rung.notify_one();
    }

    pub(crate) fn close(&self) {
        let mut wishes = self.wishes();
        wishes.closed = true;
        wishes.answers.clear();
        self.rung.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.wishes().closed
    }

    /// Waits for a wish, at most `patience`; `None` when it is closed.
    pub(crate) fn wait(&self, patience: Duration) -> Option<Vec<A>> {
        let wishes = self.wishes();
        let waited = self.rung.wait_timeout_while(wishes, patience, |wishes| !wishes.wanted && !wishes.closed);
        let (mut wishes, _) = waited.unwrap_or_else(PoisonError::into_inner);
        wishes.wanted = false;
        let answers = std::mem::take(&mut wishes.answers);
        (!wishes.closed).then_some(answers)
    }
}
