//! What a thread works on, in words, where a signal handler can read it.
//!
//! *Invariants*: the text of a thread is read by that thread alone, so a handler that interrupts [`enter`] may see a
//! mixture of two texts, never memory of another. *Limits*: [`BYTES_MAX`] of a text, the rest is cut.

use std::cell::Cell;
use std::marker::PhantomData;

/// 120 bytes: a method, a route and an identifier.
pub const BYTES_MAX: usize = 120;

/// What a thread works on, to be carried to another one.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    length: u8,
    bytes: [u8; BYTES_MAX],
}

const NOTHING: Work = Work { length: 0, bytes: [0; BYTES_MAX] };

// No destructor and a constant start: a signal handler may read it at any time in the life of a thread.
thread_local!(static CURRENT: Cell<Work> = const { Cell::new(NOTHING) });

/// Ends the activity when dropped; the one before goes on.
#[derive(Debug)]
#[must_use = "the activity ends when this is dropped"]
pub struct Activity {
    before: Work,
    /// Bound to the thread that entered.
    _thread: PhantomData<*const ()>,
}

impl Work {
    /// `text`, cut at [`BYTES_MAX`].
    #[must_use]
    pub fn new(text: &str) -> Self {
        let length = text.floor_char_boundary(BYTES_MAX);
        let mut bytes = [0; BYTES_MAX];
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        Self { length: length as u8, bytes }
    }

    /// Of this thread at this moment.
    #[must_use]
    pub fn current() -> Self {
        CURRENT.with(Cell::get)
    }

    /// This thread works on it from now on.
    pub fn enter(self) -> Activity {
        Activity { before: CURRENT.with(|current| current.replace(self)), _thread: PhantomData }
    }

    /// Whoever polls `future` works on it meanwhile.
    pub async fn within<F: Future>(self, future: F) -> F::Output {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(move |context| {
            let _activity = self.enter();
            future.as_mut().poll(context)
        })
        .await
    }
}

/// From now on this thread works on `text`.
pub fn enter(text: &str) -> Activity {
    Work::new(text).enter()
}

impl Drop for Activity {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(self.before));
    }
}

/// The text of this thread and its length.
pub(crate) fn current() -> (usize, [u8; BYTES_MAX]) {
    let Work { length, bytes } = Work::current();
    (usize::from(length).min(BYTES_MAX), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        let (length, bytes) = current();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn activities_nest_and_are_cut() {
        assert_eq!(text(), "");
        let outer = enter("outer");
        {
            let _inner = enter(&"é".repeat(BYTES_MAX));
            assert_eq!(text(), "é".repeat(BYTES_MAX / 2));
        }
        assert_eq!(text(), "outer");
        let carried = std::thread::spawn(text).join().unwrap();
        assert_eq!(carried, "");
        let work = Work::current();
        let carried = std::thread::spawn(move || (work.enter(), text()).1).join().unwrap();
        assert_eq!(carried, "outer");
        drop(outer);
        assert_eq!(text(), "");
    }

    #[test]
    fn a_future_has_its_activity_while_it_is_polled() {
        let mut future = std::pin::pin!(Work::new("request").within(async { text() }));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert_eq!(future.as_mut().poll(&mut context), std::task::Poll::Ready("request".to_owned()));
        assert_eq!(text(), "");
    }
}
