//! Storage of exchanges that were reported, used again by the thread's next ones: an exchange then costs no allocation, and an idle
//! connection holds none.

use std::cell::RefCell;

use super::{Exchange, Key};

/// Exchanges kept a thread: a pipeline's burst.
const MAX_SPARE: usize = 64;

/// Bytes of text that a kept one may hold: longer texts are rare, and given back.
const MAX_TEXT: usize = 1_024;

thread_local! {
    #[allow(clippy::vec_box, reason = "they are handed out boxed")]
    static SPARE: RefCell<Vec<Box<Exchange>>> = const { RefCell::new(Vec::new()) };
}

/// One with any content.
pub(super) fn take() -> Box<Exchange> {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Box::new(Exchange::new("", Key::Order)))
}

/// Keeps its storage for another.
pub(super) fn give(exchange: Box<Exchange>) {
    let text = exchange.op.capacity() + exchange.detail.capacity() + exchange.status.capacity();
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MAX_SPARE && text <= MAX_TEXT {
            spare.push(exchange);
        }
    });
}
