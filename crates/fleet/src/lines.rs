//! Lines over a framed stream (docs/formats/fleet.md): what a broker sends while it is watched.
//!
//! Invariants: a line arrives whole or not at all, whatever frames carry it.
//! Limits: that of the reader, for one line.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::relay::{Form, HEAD_BYTES, PAYLOAD_BYTES_MAX, give, take};

/// Reads lines.
#[derive(Debug)]
pub struct Lines<R> {
    from: R,
    bytes_max: usize,
    frame: Vec<u8>,
    /// What arrived and was not given out yet.
    rest: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Those of a framed stream, of `bytes_max` bytes at most.
    pub fn new(from: R, bytes_max: usize) -> Self {
        Self { from, bytes_max, frame: vec![0; HEAD_BYTES + PAYLOAD_BYTES_MAX], rest: Vec::new() }
    }

    /// The next line without its end; none when the stream ended between two lines, with the frame that says so.
    /// Whoever drops the future before it is ready reads no further line.
    ///
    /// # Errors
    /// The stream broke, or a line is too long.
    pub async fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut looked = 0;
        loop {
            if let Some(at) = self.rest[looked..].iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.rest.drain(..=looked + at).collect();
                line.pop();
                if line.len() > self.bytes_max {
                    return Err(self.too_long());
                }
                return Ok(Some(line));
            }
            looked = self.rest.len();
            if looked > self.bytes_max {
                return Err(self.too_long());
            }
            let count = take(&mut self.from, Form::Framed, &mut self.frame).await?;
            if count == 0 {
                let within = || io::Error::new(io::ErrorKind::UnexpectedEof, "it ended within a line");
                return if self.rest.is_empty() { Ok(None) } else { Err(within()) };
            }
            self.rest.extend_from_slice(&self.frame[HEAD_BYTES..HEAD_BYTES + count]);
        }
    }

    fn too_long(&self) -> io::Error {
        let message = format!("a line of more than {} bytes", self.bytes_max);
        io::Error::new(io::ErrorKind::InvalidData, message)
    }
}

/// Sends a line, which has no end in it, in as many frames as it takes.
///
/// # Errors
/// The stream broke.
pub async fn send_line<W: AsyncWrite + Unpin>(to: &mut W, line: &[u8]) -> io::Result<()> {
    assert!(!line.contains(&b'\n'), "a line has one end");
    let whole = [line, b"\n"].concat();
    for piece in whole.chunks(PAYLOAD_BYTES_MAX) {
        let mut frame = vec![0; HEAD_BYTES];
        frame.extend_from_slice(piece);
        give(to, Form::Framed, &mut frame).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn lines_arrive_whole_whatever_their_length() {
        let lengths = [0, 1, PAYLOAD_BYTES_MAX - 1, PAYLOAD_BYTES_MAX, 100_000];
        let (mut to, from) = duplex(1_000);
        let sending = tokio::spawn(async move {
            for length in lengths {
                send_line(&mut to, &vec![b'x'; length]).await.unwrap();
            }
            // The frame that ends the stream.
            to.write_all(&[0, 0]).await.unwrap();
        });
        let mut lines = Lines::new(from, 100_000);
        for length in lengths {
            assert_eq!(lines.line().await.unwrap().unwrap(), vec![b'x'; length]);
        }
        assert_eq!(lines.line().await.unwrap(), None);
        sending.await.unwrap();
    }

    #[tokio::test]
    async fn several_lines_may_come_in_one_frame() {
        let mut lines = Lines::new(&b"\x06\0a\nbc\n\nx"[..], 10);
        assert_eq!(lines.line().await.unwrap().unwrap(), b"a");
        assert_eq!(lines.line().await.unwrap().unwrap(), b"bc");
        assert_eq!(lines.line().await.unwrap().unwrap(), b"");
        assert!(lines.line().await.is_err(), "half a head");
    }

    #[tokio::test]
    async fn a_line_that_is_cut_or_too_long_is_an_error() {
        for (bytes, word) in [
            (&b"\x01\0a\0\0"[..], "within a line"),
            (&b"\x01\0a"[..], "early eof"),
            (&b"\x05\0abcd\n"[..], "more than 3 bytes"),
            (&b"\x04\0abcd\x02\0e\n"[..], "more than 3 bytes"),
        ] {
            let error = Lines::new(bytes, 3).line().await.unwrap_err().to_string();
            assert!(error.contains(word), "{word:?} is not in {error:?}");
        }
        assert_eq!(Lines::new(&b"\x04\0abc\n"[..], 3).line().await.unwrap().unwrap(), b"abc");
    }
}
