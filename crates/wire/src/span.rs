//! Where messages lie in a byte stream, and when their bytes were captured.

/// Nanoseconds of the capture's clock.
pub type Nanos = i64;

/// A position in a stream: the offset of the next byte, and when it was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Bytes of the stream before this place.
    pub offset: u64,
    /// Capture time of the byte here; `None` when it was never seen.
    pub at: Option<Nanos>,
}

/// The bytes of one message: how many, and the capture times of the first and the last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// Bytes on the stream, framing included.
    pub bytes: u64,
    /// Capture time of the first byte; `None` when it was never seen, or there is none.
    pub first: Option<Nanos>,
    /// Capture time of the last byte; `None` when it was never seen, or there is none.
    pub last: Option<Nanos>,
}

impl Span {
    /// Whether both times are known.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.first.is_some() && self.last.is_some()
    }

    /// Adds a later piece of the same message.
    pub fn add(&mut self, later: Self) {
        if later.bytes == 0 {
            return;
        }
        if self.bytes == 0 {
            *self = later;
        } else {
            self.bytes += later.bytes;
            self.last = later.last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_message_add_up() {
        let mut span = Span::default();
        span.add(Span { bytes: 3, first: Some(5), last: Some(6) });
        span.add(Span { bytes: 4, first: Some(7), last: Some(9) });
        span.add(Span::default());
        assert_eq!(span, Span { bytes: 7, first: Some(5), last: Some(9) });
        assert!(span.is_timed());
        span.add(Span { bytes: 1, first: None, last: None });
        assert!(!span.is_timed());
    }
}
