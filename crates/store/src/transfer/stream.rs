//! A snapshot as one stream of bytes: the list of files, pieces of them, an end.
//!
//! Invariants: every byte is covered by a checksum; a stream that stops before its end is an error.
//! Format: docs/formats/snapshot-stream.md.

use std::io::{Error as IoError, ErrorKind, Read, Write};
use std::path::Path;

use super::{Inventory, PIECE_BYTES_MAX};
use crate::bytes::Cursor;
use crate::frame::{FRAME_BYTES_MAX, frame, parse_frame};

const STREAM_MAGIC: [u8; 8] = *b"OGIVESTR";
const FRAME_HEADER_BYTES: usize = 20;
/// File, offset, length, checksum.
const PIECE_HEADER_BYTES: usize = 4 + 8 + 4 + 4;
/// The file of the piece that ends a stream.
const END: u32 = u32::MAX;

/// A piece's header with the checksum of it and of its bytes.
fn header(file: u32, offset: u64, bytes: &[u8]) -> [u8; PIECE_HEADER_BYTES] {
    debug_assert!(bytes.len() <= PIECE_BYTES_MAX, "a reader takes no piece of {} bytes", bytes.len());
    let mut header = [0; PIECE_HEADER_BYTES];
    header[..4].copy_from_slice(&file.to_le_bytes());
    header[4..12].copy_from_slice(&offset.to_le_bytes());
    header[12..16].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&header[..16]), bytes);
    header[16..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Writes a stream.
pub struct StreamWriter<W>(W);

impl<W: Write> StreamWriter<W> {
    /// Writes the list of files.
    ///
    /// # Errors
    /// The writer's.
    ///
    /// # Panics
    /// When the list is longer than a frame: [`Inventory::checked`] bounds it.
    pub fn begin(mut out: W, inventory: &Inventory) -> Result<Self, IoError> {
        out.write_all(&frame(STREAM_MAGIC, &inventory.encode()))?;
        Ok(Self(out))
    }

    /// Writes a piece of a file.
    ///
    /// # Errors
    /// The writer's.
    ///
    /// # Panics
    /// When it is longer than [`PIECE_BYTES_MAX`].
    pub fn piece(&mut self, index: usize, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        assert!(bytes.len() <= PIECE_BYTES_MAX, "a piece of {} bytes", bytes.len());
        let file = u32::try_from(index).ok().filter(|file| *file != END).expect("a list has fewer files");
        self.0.write_all(&header(file, offset, bytes))?;
        self.0.write_all(bytes)
    }

    /// Writes the end.
    ///
    /// # Errors
    /// The writer's.
    pub fn end(mut self) -> Result<(), IoError> {
        self.0.write_all(&header(END, 0, &[]))?;
        self.0.flush()
    }
}

/// Bytes of a file.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The file's place in the inventory.
    pub file: usize,
    /// Where in the file they stand.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// Reads a stream.
pub struct StreamReader<R> {
    input: R,
    inventory: Inventory,
    bytes: Vec<u8>,
}

fn broken(problem: String) -> IoError {
    IoError::new(ErrorKind::InvalidData, problem)
}

impl<R: Read> StreamReader<R> {
    /// Reads the list of files.
    ///
    /// # Errors
    /// The reader's; [`ErrorKind::InvalidData`] when it is no such stream; [`ErrorKind::UnexpectedEof`].
    pub fn begin(mut input: R) -> Result<Self, IoError> {
        let mut bytes = vec![0; FRAME_HEADER_BYTES];
        input.read_exact(&mut bytes)?;
        if bytes[..8] != STREAM_MAGIC {
            return Err(broken("this is no stream of a snapshot".into()));
        }
        let length = u32::from_le_bytes(bytes[12..16].try_into().expect("its size")) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(broken(format!("a list of files of {length} bytes; the most is {FRAME_BYTES_MAX}")));
        }
        bytes.resize(FRAME_HEADER_BYTES + length, 0);
        input.read_exact(&mut bytes[FRAME_HEADER_BYTES..])?;
        let parse = |cursor: &mut Cursor<'_>| Inventory::parse(cursor);
        let inventory = parse_frame(&bytes, Path::new("the stream"), STREAM_MAGIC, &parse);
        Ok(Self { input, inventory: inventory.map_err(|error| broken(error.to_string()))?, bytes: Vec::new() })
    }

    /// The list of files.
    pub const fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// As [`StreamReader::begin`].
    pub fn piece(&mut self) -> Result<Option<Piece<'_>>, IoError> {
        let mut head = [0; PIECE_HEADER_BYTES];
        self.input.read_exact(&mut head)?;
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("its size"));
        let (file, length) = (word(0), word(12) as usize);
        let offset = u64::from_le_bytes(head[4..12].try_into().expect("its size"));
        if length > PIECE_BYTES_MAX {
            return Err(broken(format!("a piece of {length} bytes; the most is {PIECE_BYTES_MAX}")));
        }
        self.bytes.resize(length, 0);
        self.input.read_exact(&mut self.bytes)?;
        if header(file, offset, &self.bytes) != head {
            return Err(broken(format!("the checksum of a piece at byte {offset} of file {file} is wrong")));
        }
        match file {
            END if length == 0 => Ok(None),
            file if (file as usize) < self.inventory.files.len() => {
                Ok(Some(Piece { file: file as usize, offset, bytes: &self.bytes }))
            }
            file => Err(broken(format!("a piece of file {file}, which the list has not"))),
        }
    }
}
