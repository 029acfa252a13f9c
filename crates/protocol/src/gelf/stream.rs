//! Messages of a TCP stream: each ends with a zero byte.
//!
//! Limits: a message of up to [`MESSAGE_BYTES_MAX`] is accepted; a longer one is skipped to its end.

use super::MESSAGE_BYTES_MAX;
use crate::syslog::framing::FramedMessage;

/// The messages of one stream.
#[derive(Debug, Default)]
pub struct Framing {
    rest: Vec<u8>,
    /// Within a message that is too long.
    skips: bool,
}

impl Framing {
    /// Takes the next bytes, and hands every complete message to `each`.
    pub fn add(&mut self, mut bytes: &[u8], mut each: impl FnMut(FramedMessage<'_>)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            let (last, after) = (&bytes[..end], &bytes[end + 1..]);
            bytes = after;
            if std::mem::take(&mut self.skips) {
                continue;
            }
            if self.rest.len() + last.len() > MESSAGE_BYTES_MAX {
                each(FramedMessage::TooLong);
            } else if self.rest.is_empty() && !last.is_empty() {
                each(FramedMessage::Message(last));
            } else if !self.rest.is_empty() {
                self.rest.extend_from_slice(last);
                each(FramedMessage::Message(&self.rest));
            }
            // Without its memory, which a large message leaves behind.
            self.rest = Vec::new();
        }
        if self.skips {
            return;
        }
        if self.rest.len() + bytes.len() > MESSAGE_BYTES_MAX {
            each(FramedMessage::TooLong);
            (self.rest, self.skips) = (Vec::new(), true);
        } else {
            self.rest.extend_from_slice(bytes);
        }
    }

    /// Bytes of the message that is not complete.
    #[must_use]
    pub fn held(&self) -> usize {
        self.rest.len()
    }

    /// Whether a message has begun that is not complete.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        !self.rest.is_empty() || self.skips
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages of a stream in pieces of `size`, how often one was too long, and whether the last was cut.
    fn split(stream: &[u8], size: usize) -> (Vec<Vec<u8>>, usize, bool) {
        let (mut messages, mut long, mut framing) = (Vec::new(), 0, Framing::default());
        for piece in stream.chunks(size) {
            framing.add(piece, |found| match found {
                FramedMessage::Message(message) => messages.push(message.to_vec()),
                FramedMessage::TooLong => long += 1,
            });
            assert!(framing.held() <= MESSAGE_BYTES_MAX);
        }
        (messages, long, framing.is_cut())
    }

    #[test]
    fn messages_are_complete_wherever_segments_end() {
        let stream = b"{\"a\":1}\0\0b\ncd\0";
        for size in 1..=stream.len() {
            assert_eq!(split(stream, size), (vec![b"{\"a\":1}".to_vec(), b"b\ncd".to_vec()], 0, false), "{size}");
            assert_eq!(split(&stream[..stream.len() - 1], size), (vec![b"{\"a\":1}".to_vec()], 0, true), "{size}");
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_skipped_once() {
        for (length, is_long) in [(MESSAGE_BYTES_MAX, false), (MESSAGE_BYTES_MAX + 1, true)] {
            let stream = [b"a\0", vec![b'x'; length].as_slice(), b"\0b\0"].concat();
            for size in [60_000, 1 << 22] {
                let (messages, long, is_cut) = split(&stream, size);
                assert_eq!((messages.len(), long, is_cut), (3 - usize::from(is_long), usize::from(is_long), false));
            }
        }
        assert_eq!(split(&vec![b'x'; 3 * MESSAGE_BYTES_MAX], 60_000), (vec![], 1, true));
    }
}
