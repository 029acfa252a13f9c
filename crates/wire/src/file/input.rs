//! What readers of captures share: frames, errors, and a buffer that hands out bytes where they lie.

use std::borrow::Cow;
use std::io::{self, Read};

use crate::frame::Link;
use crate::span::Nanos;

/// Bytes of a frame that are believed: tcpdump's largest snap length is 256 KiB, super-frames of big TCP reach 512 KiB.
pub const MAX_FRAME: usize = 1 << 20;

/// Interfaces of a pcapng section that are remembered.
pub const MAX_INTERFACES: usize = 4_096;

/// The size of a read into the buffer.
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
    /// The link-layer type.
    pub link: Link,
    /// The bytes that were captured.
    pub bytes: &'a [u8],
    /// How long it was on the wire.
    pub length: usize,
}

/// A buffer in front of a reader. Data is returned in place.
pub(super) struct Input<'a, R> {
    reader: R,
    /// Borrowed when the whole file is in memory: then nothing is read.
    buffer: Cow<'a, [u8]>,
    start: usize,
    end: usize,
    /// Bytes handed out.
    pub(super) offset: u64,
}

impl<'a, R: Read> Input<'a, R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, buffer: Cow::Owned(vec![0; READ_SIZE]), start: 0, end: 0, offset: 0 }
    }

    /// Everything is in memory; `reader` is not read.
    pub(super) fn borrowed(bytes: &'a [u8], reader: R) -> Self {
        Self { reader, buffer: Cow::Borrowed(bytes), start: 0, end: bytes.len(), offset: 0 }
    }

    pub(super) fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Makes sure that `bytes` are buffered, or as many as remain; returns the number.
    #[inline]
    pub(super) fn fill(&mut self, bytes: usize) -> io::Result<usize> {
        if self.end - self.start < bytes {
            self.read(bytes)?;
        }
        Ok(self.end - self.start)
    }

    #[cold]
    fn read(&mut self, bytes: usize) -> io::Result<()> {
        let Cow::Owned(buffer) = &mut self.buffer else { return Ok(()) };
        while self.end - self.start < bytes {
            if buffer.len() - self.start < bytes {
                buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
                if buffer.len() < bytes {
                    buffer.resize(bytes.max(READ_SIZE), 0);
                }
            }
            match self.reader.read(&mut buffer[self.end..]) {
                Ok(0) => break,
                Ok(got) => self.end += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn take(&mut self, bytes: usize) -> io::Result<Option<&[u8]>> {
        if self.fill(bytes)? < bytes {
            return Ok(None);
        }
        let start = self.start;
        self.start += bytes;
        self.offset += bytes as u64;
        Ok(Some(&self.buffer[start..start + bytes]))
    }

    /// Passes over bytes without keeping them.
    pub(super) fn pass(&mut self, mut bytes: usize) -> io::Result<bool> {
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

pub(super) fn check_frame(captured: usize, offset: u64) -> Result<(), Error> {
    if captured > MAX_FRAME {
        return Err(Error::Corrupt {
            offset,
            what: format!("a frame of {captured} bytes; at most {MAX_FRAME} are read"),
        });
    }
    Ok(())
}

pub(super) fn u16_at(bytes: &[u8], at: usize, is_big: bool) -> u16 {
    let value = [bytes[at], bytes[at + 1]];
    if is_big { u16::from_be_bytes(value) } else { u16::from_le_bytes(value) }
}

pub(super) fn u32_at(bytes: &[u8], at: usize, is_big: bool) -> u32 {
    let value = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    if is_big { u32::from_be_bytes(value) } else { u32::from_le_bytes(value) }
}
