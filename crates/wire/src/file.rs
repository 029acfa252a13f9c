//! Capture files: pcap in micro- and nanoseconds, pcapng, either byte order, plain or compressed with gzip or zstd.
//!
//! Limits: a frame of at most [`MAX_FRAME`] bytes, [`MAX_INTERFACES`] interfaces a pcapng section.
//! Failure: a file that ends inside a record gives [`Error::Truncated`] after the frames before it; nothing is guessed.

mod input;
mod pcapng;

use std::io::{self, Read};

use crate::frame::Link;

pub use input::{Error, Frame, MAX_FRAME, MAX_INTERFACES};
use input::{Input, check_frame, u32_at};

/// Reads a capture's frames in order.
pub struct Reader<'a, R> {
    input: Input<'a, R>,
    kind: Kind,
}

impl<R> std::fmt::Debug for Reader<'_, R> {
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
pub fn open<'a>(input: impl Read + Send + 'a) -> Result<Reader<'a, Box<dyn Read + Send + 'a>>, Error> {
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

/// Reads a capture that is in memory, compressed or not; an uncompressed one in place.
///
/// # Errors
/// When the first bytes are not those of a capture.
pub fn from_bytes(bytes: &[u8]) -> Result<Reader<'_, Box<dyn Read + Send + '_>>, Error> {
    match bytes {
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => open(bytes),
        _ => Reader::from_input(Input::borrowed(bytes, Box::new(io::empty()))),
    }
}

impl<'a, R: Read> Reader<'a, R> {
    /// Reads an uncompressed capture.
    ///
    /// # Errors
    /// When the first bytes are of no capture.
    pub fn new(input: R) -> Result<Self, Error> {
        Self::from_input(Input::new(input))
    }

    fn from_input(mut input: Input<'a, R>) -> Result<Self, Error> {
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
    /// When the file ends inside a record or contains impossible values. Nothing can be read after that.
    #[inline]
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, Error> {
        match &mut self.kind {
            Kind::Pcap(pcap) => pcap.next(&mut self.input),
            // Separate arms, so that the frame of the other kind stays in registers.
            Kind::Pcapng(section) => match section.next(&mut self.input)? {
                Some(Frame { at, link, bytes, length }) => Ok(Some(Frame { at, link, bytes, length })),
                None => Ok(None),
            },
        }
    }
}

impl Pcap {
    fn read<R: Read>(input: &mut Input<'_, R>, is_big: bool, unit: i64) -> Result<Self, Error> {
        let header = input.take(24)?.ok_or(Error::Truncated { offset: 0 })?;
        // The upper bits of the link type say whether frames end with a checksum; that is after the IP packet.
        let link = u32_at(header, 20, is_big) & 0x03ff_ffff;
        Ok(Self { is_big, unit, link: Link::from_number(link) })
    }

    #[inline]
    fn next<'a, R: Read>(&self, input: &'a mut Input<'_, R>) -> Result<Option<Frame<'a>>, Error> {
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
