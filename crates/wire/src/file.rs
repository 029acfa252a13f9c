//! Capture files: pcap in micro- and nanoseconds, pcapng, either byte order, plain or compressed with gzip or zstd.
//!
//! Limits: a frame of at most [`MAX_FRAME`] bytes, [`MAX_INTERFACES`] interfaces a pcapng section.
//! Failure: a file that ends inside a record gives [`Error::Truncated`] after the frames before it; nothing is guessed.

mod pcapng;

use std::io::{self, Read};

use crate::frame::Link;
use crate::span::Nanos;

/// Bytes of a frame that are believed: tcpdump's largest snap length is 256 KiB, super-frames of big TCP reach 512 KiB.
pub const MAX_FRAME: usize = 1 << 20;

/// Interfaces of a pcapng section that are remembered.
pub const MAX_INTERFACES: usize = 4_096;

/// What the buffer reads at once.
const READ_SIZE: usize = 1 << 18;

/// Why a file cannot be read on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The first bytes are of no capture file.
    #[error(
        "this is no capture file: it begins with {0:02x?}; pcap, pcapng and either of them in gzip or zstd are read"
    )]
    Format([u8; 4]),
    /// The file ends inside a record.
    #[error("the capture ends in the middle of a record, {offset} bytes in; what stands before it was read")]
    Truncated {
        /// Bytes of the uncompressed file before the record.
        offset: u64,
    },
    /// A length or a number that cannot be.
    #[error("the capture is damaged {offset} bytes in: {what}")]
    Corrupt {
        /// Bytes of the uncompressed file before the record.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// Reading or decompressing failed.
    #[error("reading the capture")]
    Io(#[from] io::Error),
}

/// A captured frame.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// When it was captured, in nanoseconds since 1970.
    pub at: Nanos,
    /// What its first header is.
    pub link: Link,
    /// The bytes that were captured.
    pub bytes: &'a [u8],
    /// How long it was on the wire.
    pub length: usize,
}

/// Reads a capture's frames in order.
pub struct Reader<R> {
    input: Input<R>,
    kind: Kind,
}

impl<R> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("offset", &self.input.offset).finish_non_exhaustive()
    }
}

enum Kind {
    Pcap(Pcap),
    Pcapng(pcapng::Section),
}

#[derive(Debug, Clone, Copy)]
struct Pcap {
    is_big: bool,
    unit: i64,
    link: Link,
}

/// Reads a capture, compressed or not.
///
/// # Errors
/// When the first bytes are of no capture.
pub fn open<'a>(input: impl Read + Send + 'a) -> Result<Reader<Box<dyn Read + Send + 'a>>, Error> {
    let mut input: Box<dyn Read + Send> = Box::new(input);
    // A compressed file in a compressed file is not unpacked a third time.
    for _ in 0..2 {
        let mut head = [0; 4];
        let got = read_up_to(&mut input, &mut head)?;
        let rest: Box<dyn Read + Send> = Box::new(io::Cursor::new(head[..got].to_vec()).chain(input));
        input = match head {
            [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(rest)),
            [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zstd::stream::read::Decoder::new(rest)?),
            _ => return Reader::new(rest),
        };
    }
    Reader::new(input)
}

impl<R: Read> Reader<R> {
    /// Reads an uncompressed capture.
    ///
    /// # Errors
    /// When the first bytes are of no capture.
    pub fn new(input: R) -> Result<Self, Error> {
        let mut input = Input::new(input);
        let available = input.fill(4)?;
        let mut magic = [0; 4];
        let head = input.unread();
        let got = head.len().min(4);
        magic[..got].copy_from_slice(&head[..got]);
        if available < 4 {
            return Err(Error::Format(magic));
        }
        let kind = match magic {
            [0x0a, 0x0d, 0x0d, 0x0a] => Kind::Pcapng(pcapng::Section::default()),
            [0xa1, 0xb2, 0xc3, 0xd4] => Kind::Pcap(Pcap::read(&mut input, true, 1_000)?),
            [0xd4, 0xc3, 0xb2, 0xa1] => Kind::Pcap(Pcap::read(&mut input, false, 1_000)?),
            [0xa1, 0xb2, 0x3c, 0x4d] => Kind::Pcap(Pcap::read(&mut input, true, 1)?),
            [0x4d, 0x3c, 0xb2, 0xa1] => Kind::Pcap(Pcap::read(&mut input, false, 1)?),
            _ => return Err(Error::Format(magic)),
        };
        Ok(Self { input, kind })
    }

    /// The next frame; `None` at the end.
    ///
    /// # Errors
    /// When the file ends inside a record or holds what cannot be. Nothing can be read after that.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, Error> {
        match &mut self.kind {
            Kind::Pcap(pcap) => pcap.next(&mut self.input),
            Kind::Pcapng(section) => section.next(&mut self.input),
        }
    }
}

impl Pcap {
    fn read<R: Read>(input: &mut Input<R>, is_big: bool, unit: i64) -> Result<Self, Error> {
        let header = input.take(24)?.ok_or(Error::Truncated { offset: 0 })?;
        // The upper bits of the link type say whether frames end with a checksum; it is behind the IP packet then.
        let link = u32_at(header, 20, is_big) & 0x03ff_ffff;
        Ok(Self { is_big, unit, link: Link::from_number(link) })
    }

    fn next<'a, R: Read>(&self, input: &'a mut Input<R>) -> Result<Option<Frame<'a>>, Error> {
        let offset = input.offset;
        let available = input.fill(16)?;
        if available == 0 {
            return Ok(None);
        }
        if available < 16 {
            return Err(Error::Truncated { offset });
        }
        let header = input.unread();
        let (seconds, fraction) = (u32_at(header, 0, self.is_big), u32_at(header, 4, self.is_big));
        let (captured, length) = (u32_at(header, 8, self.is_big) as usize, u32_at(header, 12, self.is_big) as usize);
        check_frame(captured, offset)?;
        let record = input.take(16 + captured)?.ok_or(Error::Truncated { offset })?;
        let at = i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * self.unit;
        Ok(Some(Frame { at, link: self.link, bytes: &record[16..], length: length.max(captured) }))
    }
}

fn check_frame(captured: usize, offset: u64) -> Result<(), Error> {
    if captured > MAX_FRAME {
        return Err(Error::Corrupt {
            offset,
            what: format!("a frame of {captured} bytes; at most {MAX_FRAME} are read"),
        });
    }
    Ok(())
}

fn u16_at(bytes: &[u8], at: usize, is_big: bool) -> u16 {
    let value = [bytes[at], bytes[at + 1]];
    if is_big { u16::from_be_bytes(value) } else { u16::from_le_bytes(value) }
}

fn u32_at(bytes: &[u8], at: usize, is_big: bool) -> u32 {
    let value = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    if is_big { u32::from_be_bytes(value) } else { u32::from_le_bytes(value) }
}

fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match input.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(bytes) => got += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// A buffer in front of a reader. What is asked for is handed out where it lies.
struct Input<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes handed out.
    offset: u64,
}

impl<R: Read> Input<R> {
    fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; READ_SIZE], start: 0, end: 0, offset: 0 }
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Sees to it that `bytes` are unread, or as many as there are; says how many.
    fn fill(&mut self, bytes: usize) -> io::Result<usize> {
        while self.end - self.start < bytes {
            if self.buffer.len() - self.start < bytes {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
                if self.buffer.len() < bytes {
                    self.buffer.resize(bytes.max(READ_SIZE), 0);
                }
            }
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(got) => self.end += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.end - self.start)
    }

    fn take(&mut self, bytes: usize) -> io::Result<Option<&[u8]>> {
        if self.fill(bytes)? < bytes {
            return Ok(None);
        }
        let start = self.start;
        self.start += bytes;
        self.offset += bytes as u64;
        Ok(Some(&self.buffer[start..start + bytes]))
    }

    /// Passes over bytes without keeping them.
    fn pass(&mut self, mut bytes: usize) -> io::Result<bool> {
        while bytes > 0 {
            let step = bytes.min(READ_SIZE);
            if self.take(step)?.is_none() {
                return Ok(false);
            }
            bytes -= step;
        }
        Ok(true)
    }
}
