//! Addresses as people type them: `?query=up{job="x"}` and `?query=up>0`, which Go's servers take and the HTTP library
//! refuses.
//!
//! The bytes of HTTP/1 pass through; in a request's address those that the library has no place for are written as
//! `%XX`, which is what they mean. Where a request ends follows from its head (`Content-Length`, chunks), so that no
//! byte of a body is taken for an address. What the library cannot read at all it refuses without a word: those answers
//! get one.
//!
//! Invariant: in any doubt (HTTP/2, an upgrade, a head that is none) everything from there on passes as it is.
//! Limits: [`LINE_BYTES_MAX`].

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// 64 KiB for a line of a head, as for all of it.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// 8 KiB are looked at at once: a head and its neighbours.
const LOOK_BYTES: usize = 8 * 1024;

/// 256 bytes: a head without a body that the library writes on its own.
const BARE_BYTES_MAX: usize = 256;

/// Where in the requests the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParsePosition {
    /// In a request's method.
    Method,
    /// In its address.
    Target,
    /// In the rest of its first line.
    Version,
    /// In its headers.
    Headers,
    /// In a body with this many bytes left.
    Body(u64),
    /// In the line with a chunk's size.
    ChunkSize,
    /// In a chunk with this many bytes left.
    Chunk(u64),
    /// In the end of the line behind a chunk.
    ChunkEnd,
    /// In the headers behind the last chunk.
    Trailers,
    /// Somewhere that needs no changes.
    Anywhere,
    /// Behind a request for another protocol: what is written may be no response.
    Switched,
}

/// What follows the head that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Nothing,
    Length(u64),
    Chunks,
}

/// Follows requests byte by byte.
#[derive(Debug)]
struct Follower {
    place: ParsePosition,
    framing: Framing,
    /// The line or the method so far.
    line: Vec<u8>,
}

impl Follower {
    const fn new() -> Self {
        Self { place: ParsePosition::Method, framing: Framing::Nothing, line: Vec::new() }
    }

    /// Bytes that may pass without being looked at.
    fn plain(&self) -> u64 {
        match self.place {
            ParsePosition::Body(left) | ParsePosition::Chunk(left) => left,
            ParsePosition::Anywhere | ParsePosition::Switched => u64::MAX,
            _ => 0,
        }
    }

    /// That many bytes have passed.
    fn passed(&mut self, bytes: u64) {
        match &mut self.place {
            ParsePosition::Body(left) => {
                *left -= bytes;
                if *left == 0 {
                    self.begin();
                }
            }
            ParsePosition::Chunk(left) => {
                *left -= bytes;
                if *left == 0 {
                    self.place = ParsePosition::ChunkEnd;
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self) {
        *self = Self::new();
    }

    /// Consumes `bytes` and writes the replacement that is to be read.
    fn follow(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            let plain = usize::try_from(self.plain()).unwrap_or(usize::MAX).min(bytes.len());
            if plain > 0 {
                out.extend_from_slice(&bytes[..plain]);
                self.passed(plain as u64);
                bytes = &bytes[plain..];
                continue;
            }
            self.byte(bytes[0], out);
            bytes = &bytes[1..];
        }
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.place == ParsePosition::Target && is_foreign(byte) {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
            return;
        }
        out.push(byte);
        match self.place {
            ParsePosition::Method => match byte {
                // Empty lines are allowed before a request.
                b'\r' | b'\n' if self.line.is_empty() => {}
                b' ' if self.line == b"PRI" => self.place = ParsePosition::Anywhere,
                b' ' if !self.line.is_empty() => {
                    self.line.clear();
                    self.place = ParsePosition::Target;
                }
                b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' if self.line.len() < 32 => self.line.push(byte),
                _ => self.place = ParsePosition::Anywhere,
            },
            ParsePosition::Target => match byte {
                b' ' => self.place = ParsePosition::Version,
                b'\r' | b'\n' => self.place = ParsePosition::Anywhere,
                _ => {}
            },
            ParsePosition::Version if byte == b'\n' => self.place = ParsePosition::Headers,
            ParsePosition::ChunkEnd if byte == b'\n' => self.place = ParsePosition::ChunkSize,
            ParsePosition::Headers | ParsePosition::ChunkSize | ParsePosition::Trailers => self.in_line(byte),
            _ => {}
        }
    }

    fn in_line(&mut self, byte: u8) {
        if byte != b'\n' {
            self.line.push(byte);
            if self.line.len() > LINE_BYTES_MAX {
                self.place = ParsePosition::Anywhere;
            }
            return;
        }
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        match self.place {
            ParsePosition::Headers if line.is_empty() => match self.framing {
                Framing::Nothing | Framing::Length(0) => self.begin(),
                Framing::Length(length) => self.place = ParsePosition::Body(length),
                Framing::Chunks => self.place = ParsePosition::ChunkSize,
            },
            ParsePosition::Headers => self.header(line),
            ParsePosition::Trailers if line.is_empty() => self.begin(),
            ParsePosition::ChunkSize => {
                let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
                let size = std::str::from_utf8(digits).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
                self.place = match size {
                    None => ParsePosition::Anywhere,
                    Some(0) => ParsePosition::Trailers,
                    Some(size) => ParsePosition::Chunk(size),
                };
            }
            _ => {}
        }
    }

    fn header(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            self.place = ParsePosition::Anywhere;
            return;
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") && self.framing != Framing::Chunks {
            match std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()) {
                Some(length) => self.framing = Framing::Length(length),
                None => self.place = ParsePosition::Anywhere,
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if value.eq_ignore_ascii_case(b"chunked") {
                self.framing = Framing::Chunks;
            } else {
                self.place = ParsePosition::Anywhere;
            }
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            self.place = ParsePosition::Switched;
        }
    }
}

/// Whether the library does not accept a byte in an address. White space and control characters are accepted nowhere.
const fn is_foreign(byte: u8) -> bool {
    matches!(byte, b'"' | b'<' | b'>' | b'`' | b'{' | b'}' | b'|' | b'^' | b'\\' | 0x80..)
}

/// A stream of HTTP whose requests have addresses that the library can read.
pub(super) struct Targets<S> {
    stream: S,
    follower: Follower,
    /// Data to be read, from `at` on.
    waiting: Vec<u8>,
    at: usize,
    /// A response that replaces a bare one, how much of it is written, and the length of the bare one.
    instead: Option<(Vec<u8>, usize, usize)>,
}

impl<S> Targets<S> {
    pub(super) const fn new(stream: S) -> Self {
        Self { stream, follower: Follower::new(), waiting: Vec::new(), at: 0, instead: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Targets<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.at == this.waiting.len() {
            let plain = this.follower.plain();
            if plain > 0 {
                let most = usize::try_from(plain).unwrap_or(usize::MAX).min(into.remaining());
                let mut part = ReadBuf::new(into.initialize_unfilled_to(most));
                ready!(Pin::new(&mut this.stream).poll_read(context, &mut part))?;
                let read = part.filled().len();
                into.advance(read);
                this.follower.passed(read as u64);
                return Poll::Ready(Ok(()));
            }
            let mut bytes = [0; LOOK_BYTES];
            let mut look = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut look))?;
            this.waiting.clear();
            this.at = 0;
            this.follower.follow(look.filled(), &mut this.waiting);
        }
        let length = into.remaining().min(this.waiting.len() - this.at);
        into.put_slice(&this.waiting[this.at..this.at + length]);
        this.at += length;
        if this.at == this.waiting.len() && this.waiting.capacity() > 4 * LOOK_BYTES {
            (this.waiting, this.at) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

/// A response with a reason, in place of the library's bare error for a request that it could not parse.
fn worded(bare: &[u8]) -> Option<Vec<u8>> {
    if bare.len() > BARE_BYTES_MAX || !bare.ends_with(b"\r\n\r\n") {
        return None;
    }
    let text = std::str::from_utf8(bare).ok()?;
    let why = match text.get(..12)? {
        "HTTP/1.1 400" | "HTTP/1.0 400" => {
            "the request is not HTTP that can be read: check its first line (no spaces in the address) and its headers"
        }
        "HTTP/1.1 414" | "HTTP/1.0 414" => "the address is too long; send what is long in a POST form",
        "HTTP/1.1 431" | "HTTP/1.0 431" => "the head is too large; send what is long in a POST form, and fewer headers",
        _ => return None,
    };
    let (start, end) = text.split_once("content-length: 0\r\n")?;
    let body = format!("{{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"{why}\"}}\n");
    let head = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    Some(format!("{start}{head}{end}{body}").into_bytes())
}

impl<S: AsyncWrite + Unpin> Targets<S> {
    /// Continues to write the response that replaces `first`, if there is one.
    fn poll_instead(&mut self, context: &mut Context<'_>, first: &[u8]) -> Option<Poll<io::Result<usize>>> {
        if self.follower.place == ParsePosition::Switched {
            return None;
        }
        if self.instead.is_none() {
            self.instead = Some((worded(first)?, 0, first.len()));
        }
        let (answer, written, bare) = self.instead.as_mut()?;
        while *written < answer.len() {
            match Pin::new(&mut self.stream).poll_write(context, &answer[*written..]) {
                Poll::Ready(Ok(0)) => return Some(Poll::Ready(Err(io::ErrorKind::WriteZero.into()))),
                Poll::Ready(Ok(more)) => *written += more,
                Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error))),
                Poll::Pending => return Some(Poll::Pending),
            }
        }
        let bare = *bare;
        self.instead = None;
        Some(Poll::Ready(Ok(bare)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Targets<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(outcome) = self.poll_instead(context, from) {
            return outcome;
        }
        Pin::new(&mut self.stream).poll_write(context, from)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut full = from.iter().filter(|slice| !slice.is_empty());
        if let (Some(first), None) = (full.next(), full.next())
            && let Some(outcome) = self.poll_instead(context, first)
        {
            return outcome;
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of `bytes` that come in pieces of `piece`.
    fn read(bytes: &[u8], piece: usize) -> Vec<u8> {
        let (mut follower, mut out) = (Follower::new(), Vec::new());
        bytes.chunks(piece).for_each(|chunk| follower.follow(chunk, &mut out));
        out
    }

    #[test]
    fn only_addresses_change_however_the_bytes_come() {
        let long = "x=\"<>\"GET /\" HTTP/1.1\r\n\r\n";
        let text = format!(
            "GET /q?a=up{{job=\"é\"}}>0|`^\\ HTTP/1.1\r\nHost: \"a\"\r\n\r\n\
             \r\nPOST /\"p\" HTTP/1.1\r\ncontent-length: {}\r\n\r\n{long}\
             PUT /<c> HTTP/1.1\nTransfer-Encoding: chunked\n\n{:x};e=\"\"\r\n{long}\r\n3\r\n\"<>\r\n0\r\nT: \"\"\r\n\r\n\
             GET /\"l HTTP/1.1\r\n\r\n",
            long.len(),
            long.len(),
        );
        let expected = text
            .replace("/q?a=up{job=\"é\"}>0|`^\\", "/q?a=up%7Bjob=%22%C3%A9%22%7D%3E0%7C%60%5E%5C")
            .replace("/\"p\"", "/%22p%22")
            .replace("/<c>", "/%3Cc%3E")
            .replace("/\"l", "/%22l");
        for piece in [1, 2, 3, 7, 64, 100_000] {
            assert_eq!(String::from_utf8(read(text.as_bytes(), piece)).unwrap(), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn what_is_not_understood_passes_as_it_is() {
        for text in [
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET /\" HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\nUpgrade: h2c\r\n\r\nGET /\" HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\ncontent-length: x\r\n\r\nGET /\" HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\nGET /\" HTTP/1.1\r\n",
            "GET /\nGET /\" HTTP/1.1\r\n",
            "\x16\x03\x01\"\"\"",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nGET /\" HTTP/1.1\r\n",
        ] {
            assert_eq!(read(text.as_bytes(), 5), text.as_bytes(), "{text}");
        }
    }

    #[tokio::test]
    async fn what_is_written_behind_another_protocol_passes_as_it_is() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let bare = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
        for (head, is_same) in
            [("GET / HTTP/1.1\r\nUpgrade: a\r\n\r\n", true), ("GET / HTTP/1.1\r\nA: a\r\n\r\n", false)]
        {
            let (mut client, server) = tokio::io::duplex(10_000);
            let mut server = Targets::new(server);
            client.write_all(head.as_bytes()).await.unwrap();
            server.read_exact(&mut vec![0; head.len()]).await.unwrap();
            server.write_all(bare).await.unwrap();
            drop(server);
            let mut found = Vec::new();
            client.read_to_end(&mut found).await.unwrap();
            assert_eq!(found == bare, is_same, "{head}");
        }
    }

    #[test]
    fn bare_refusals_get_a_reason() {
        let bare = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\ndate: now\r\n\r\n";
        let worded = String::from_utf8(super::worded(bare).unwrap()).unwrap();
        let (head, body) = worded.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        assert!(body.contains("not HTTP that can be read"), "{body}");
        assert_eq!(super::worded(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"), None);
        assert_eq!(super::worded(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 5\r\n\r\n"), None);
    }
}
