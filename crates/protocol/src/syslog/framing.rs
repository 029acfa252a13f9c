//! Messages of a stream (RFC 6587): `LENGTH MESSAGE` (octet counting), or messages that end with a line feed. The first
//! octet of each message shows which: a digit, or the `<` of a priority.
//!
//! Limits: a message of up to [`MESSAGE_BYTES_MAX`] is accepted; a longer one is skipped by its declared length, up to
//! [`SKIPPED_BYTES_MAX`]; a larger length is not trusted.

use super::MESSAGE_BYTES_MAX;

/// 16 MiB: a message that somebody sent and nobody cut.
pub const SKIPPED_BYTES_MAX: usize = 16 << 20;

/// What came out of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramedMessage<'b> {
    /// A message.
    Message(&'b [u8]),
    /// A message that was too long.
    TooLong,
}

/// The stream makes no sense any more: it has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramingError;

/// The messages of one stream.
#[derive(Debug, Default)]
pub struct Framing {
    rest: Vec<u8>,
    /// Octets of a message that is too long.
    skip: usize,
    /// Within a line that is too long.
    skips_line: bool,
}

impl Framing {
    /// Takes the next octets, and hands every whole message to `each`.
    ///
    /// # Errors
    /// [`FramingError`] when a length is none, or is above [`SKIPPED_BYTES_MAX`].
    pub fn add(&mut self, bytes: &[u8], mut each: impl FnMut(FramedMessage<'_>)) -> Result<(), FramingError> {
        if self.rest.is_empty() {
            let used = self.take(bytes, &mut each)?;
            self.rest.extend_from_slice(&bytes[used..]);
        } else {
            self.rest.extend_from_slice(bytes);
            let rest = std::mem::take(&mut self.rest);
            let used = self.take(&rest, &mut each)?;
            self.rest = rest;
            self.rest.drain(..used);
        }
        Ok(())
    }

    /// Whether a message has begun that is not whole.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        !self.rest.is_empty() || self.skip > 0 || self.skips_line
    }

    /// How many octets are done with.
    fn take(&mut self, bytes: &[u8], each: &mut impl FnMut(FramedMessage<'_>)) -> Result<usize, FramingError> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            if self.skip > 0 {
                let skipped = self.skip.min(rest.len());
                self.skip -= skipped;
                at += skipped;
                if self.skip > 0 {
                    return Ok(at);
                }
                continue;
            }
            let used = match rest.first() {
                None => return Ok(at),
                Some(b'1'..=b'9') if !self.skips_line => self.counted(rest, each)?,
                Some(_) => self.line(rest, each),
            };
            match used {
                0 => return Ok(at),
                used => at += used,
            }
        }
    }

    /// `LENGTH MESSAGE`; 0 when it is not whole.
    fn counted(&mut self, bytes: &[u8], each: &mut impl FnMut(FramedMessage<'_>)) -> Result<usize, FramingError> {
        let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        // 9 digits are below 2^32, and more than anything that is believed.
        if digits > 9 {
            return Err(FramingError);
        }
        match bytes.get(digits) {
            None => return Ok(0),
            Some(b' ') => {}
            Some(_) => return Err(FramingError),
        }
        let length = bytes[..digits].iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
        let begin = digits + 1;
        if length > SKIPPED_BYTES_MAX {
            return Err(FramingError);
        }
        if length > MESSAGE_BYTES_MAX {
            each(FramedMessage::TooLong);
            self.skip = length;
            return Ok(begin);
        }
        let Some(message) = bytes.get(begin..begin + length) else { return Ok(0) };
        each(FramedMessage::Message(message));
        Ok(begin + length)
    }

    /// A message to the end of the line; 0 when it is not whole.
    fn line(&mut self, bytes: &[u8], each: &mut impl FnMut(FramedMessage<'_>)) -> usize {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        if self.skips_line {
            self.skips_line = end.is_none();
            return end.map_or(bytes.len(), |end| end + 1);
        }
        match end {
            Some(end) if end > MESSAGE_BYTES_MAX => each(FramedMessage::TooLong),
            Some(end) if end > 0 && bytes[..end] != *b"\r" => each(FramedMessage::Message(&bytes[..end])),
            Some(_) => {}
            None if bytes.len() > MESSAGE_BYTES_MAX => {
                each(FramedMessage::TooLong);
                self.skips_line = true;
                return bytes.len();
            }
            None => return 0,
        }
        end.map_or(0, |end| end + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages of a stream that comes in pieces of `size`; how often one was too long; whether it ended in sense.
    fn split(stream: &[u8], size: usize) -> (Vec<String>, usize, bool) {
        let (mut messages, mut long, mut framing) = (Vec::new(), 0, Framing::default());
        let is_sense = stream.chunks(size).all(|piece| {
            let found = framing.add(piece, |found| match found {
                FramedMessage::Message(message) => messages.push(String::from_utf8_lossy(message).into_owned()),
                FramedMessage::TooLong => long += 1,
            });
            found.is_ok()
        });
        (messages, long, is_sense && !framing.is_cut())
    }

    #[test]
    fn messages_are_whole_wherever_segments_end() {
        let stream = b"7 <13>a\nb<14>line\n\n\r\n10 <15>counted<16>last\r\n";
        for size in 1..stream.len() {
            let (messages, long, whole) = split(stream, size);
            assert_eq!(messages, ["<13>a\nb", "<14>line", "<15>counte", "d<16>last\r"], "{size}");
            assert_eq!((long, whole), (0, true));
        }
        assert_eq!(split(b"7 <13>a", 3), (vec![], 0, false));
        assert_eq!(split(b"<13>no end", 3), (vec![], 0, false));
    }

    #[test]
    fn lengths_that_lie_are_bounded() {
        for (lie, is_skipped) in
            [("65537 ", true), ("16777216 ", true), ("16777217 ", false), ("9999999999 ", false), ("12x", false)]
        {
            let (messages, long, whole) = split([lie.as_bytes(), b"<13>x"].concat().as_slice(), 4);
            assert_eq!((messages.len(), long, whole), (0, usize::from(is_skipped), false), "{lie}");
        }
        let long = [b"70000 ", vec![b'x'; 70_000].as_slice(), b"5 <13>a"].concat();
        assert_eq!(split(&long, 1_000), (vec!["<13>a".to_owned()], 1, true));
        let line = [b"<13>", vec![b'x'; 2 * MESSAGE_BYTES_MAX].as_slice(), b"\n5 <13>a"].concat();
        for size in [1_000, 1 << 20] {
            assert_eq!(split(&line, size), (vec!["<13>a".to_owned()], 1, true));
        }
        let whole = [b"65536 ", vec![b'x'; MESSAGE_BYTES_MAX].as_slice()].concat();
        assert_eq!(split(&whole, 999).0[0].len(), MESSAGE_BYTES_MAX);
    }

    #[test]
    fn any_stream_ends_and_keeps_little() {
        crate::mutations::mutations(
            b"7 <13>a\nb<14>line\n\n10 <15>counted<16>last\r\n",
            20_000,
            6,
            b"0123456789 <\n",
            |bytes| {
                let mut framing = Framing::default();
                for piece in bytes.chunks(5) {
                    if framing.add(piece, |_| {}).is_err() {
                        return;
                    }
                }
                assert!(framing.rest.len() <= bytes.len());
            },
        );
    }
}
