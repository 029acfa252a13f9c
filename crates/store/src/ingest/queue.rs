//! The submission queue: batches waiting for the journal writer, bounded by number and by bytes.
//!
//! Threads: any number push, one pops.
//! Limits: a push past a bound is refused at once, so that a sender learns of it while it still has its data; the
//! store's own batches are always accepted.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::sway::sway;

/// A queue with two bounds.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    count_max: usize,
    bytes_max: usize,
}

struct State<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    closed: bool,
}

/// Why an item was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Full,
    Closed,
}

impl<T> Queue<T> {
    pub(crate) fn new(count_max: usize, bytes_max: usize) -> Self {
        let state = Mutex::new(State { items: VecDeque::new(), bytes: 0, closed: false });
        Self { state, filled: Condvar::new(), count_max, bytes_max }
    }

    /// No code here panics with the lock held, so a poisoned one is whole.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends `item` if both bounds hold with it. One item larger than the bound passes into an empty queue.
    pub(crate) fn push(&self, item: T, bytes: usize) -> Result<(), (T, Refused)> {
        let mut state = self.state();
        if state.closed {
            return Err((item, Refused::Closed));
        }
        let fits = state.items.len() < self.count_max && state.bytes.saturating_add(bytes) <= self.bytes_max;
        if !fits && !state.items.is_empty() {
            return Err((item, Refused::Full));
        }
        Self::append(&mut state, item, bytes);
        self.filled.notify_one();
        Ok(())
    }

    /// Appends an item of the store's own, whatever waits; gives it back when the queue is closed.
    pub(crate) fn push_always(&self, item: T) -> Result<(), T> {
        let mut state = self.state();
        if state.closed {
            return Err(item);
        }
        Self::append(&mut state, item, 0);
        self.filled.notify_one();
        Ok(())
    }

    fn append(state: &mut State<T>, item: T, bytes: usize) {
        assert!(!state.closed, "nobody pops what is pushed once the queue is closed and empty");
        state.items.push_back((item, bytes));
        state.bytes += bytes;
    }

    /// The next item; `Ok(None)` after `wait` without one, `Err` when the queue is closed and empty.
    pub(crate) fn pop(&self, wait: Option<Duration>) -> Result<Option<T>, Refused> {
        sway();
        let mut state = self.state();
        loop {
            if let Some((item, bytes)) = state.items.pop_front() {
                assert!(bytes <= state.bytes, "{bytes} bytes leave a queue of {}", state.bytes);
                state.bytes -= bytes;
                debug_assert!(!state.items.is_empty() || state.bytes == 0, "an empty queue of {} bytes", state.bytes);
                return Ok(Some(item));
            }
            if state.closed {
                return Err(Refused::Closed);
            }
            let Some(wait) = wait else {
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if wait.is_zero() {
                return Ok(None);
            }
            let (after, result) = self.filled.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
            state = after;
            if result.timed_out() && state.items.is_empty() && !state.closed {
                return Ok(None);
            }
        }
    }

    /// Items that wait.
    pub(crate) fn len(&self) -> usize {
        self.state().items.len()
    }

    /// Takes nothing more; what waits is still popped.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.filled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_bounds_hold_at_their_value_and_one_above() {
        let queue = Queue::new(3, 100);
        assert_eq!(queue.push('a', 60), Ok(()));
        assert_eq!(queue.push('b', 41), Err(('b', Refused::Full)));
        assert_eq!(queue.push('b', 40), Ok(()));
        assert_eq!(queue.push('c', 0), Ok(()));
        assert_eq!(queue.push('d', 0), Err(('d', Refused::Full)));
        assert_eq!(queue.push_always('e'), Ok(()));
        let popped: Vec<char> = (0..4).map(|_| queue.pop(None).unwrap().unwrap()).collect();
        assert_eq!(popped, ['a', 'b', 'c', 'e']);
        assert_eq!(queue.push('f', 1000), Ok(()), "a large one passes alone");
    }

    #[test]
    fn a_closed_queue_gives_what_it_holds() {
        let queue = Queue::new(3, 100);
        queue.push('a', 1).unwrap();
        queue.close();
        assert_eq!(queue.push('b', 1), Err(('b', Refused::Closed)));
        assert_eq!(queue.pop(None), Ok(Some('a')));
        assert_eq!(queue.pop(None), Err(Refused::Closed));
    }

    #[test]
    fn waiting_ends_with_time_or_an_item() {
        let queue = Queue::new(3, 100);
        assert_eq!(queue.pop(Some(Duration::from_millis(1))), Ok(None));
        std::thread::scope(|scope| {
            scope.spawn(|| queue.push('a', 1));
            assert_eq!(queue.pop(None), Ok(Some('a')));
        });
    }
}
