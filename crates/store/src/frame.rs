//! The frame of small metadata files: magic, version, length and checksum before a body.

use std::path::Path;

use ogive_journal::Disk;

use crate::Error;
use crate::bytes::{Broken, Cursor};

const VERSION: u32 = 1;
/// 4 MiB of a frame's body: a thousand findings, and far more than what names a snapshot.
pub(crate) const FRAME_BYTES_MAX: usize = 4 << 20;
/// Magic, version, length and checksum.
const HEADER_BYTES: usize = 8 + 4 + 4 + 4;

/// Magic, version, length and checksum of the body, body.
pub(crate) fn frame(magic: [u8; 8], body: &[u8]) -> Vec<u8> {
    assert!(body.len() <= FRAME_BYTES_MAX, "a frame of {} bytes", body.len());
    let mut out = magic.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc32c::crc32c_append(crc32c::crc32c(&out), body).to_le_bytes());
    out.extend_from_slice(body);
    assert_eq!(out.len(), HEADER_BYTES + body.len(), "a reader looks for the body behind the header");
    out
}

/// Reads a file that [`frame`] wrote, from whichever copy is good.
pub(crate) fn read_frame<T>(
    disk: &dyn Disk,
    path: &Path,
    magic: [u8; 8],
    parse: impl Fn(&mut Cursor<'_>) -> Result<T, Broken>,
) -> Result<T, Error> {
    let file = disk.open_read(path)?;
    let length = (0..file.copies()).filter_map(|copy| file.copy_length(copy).ok()).max().unwrap_or(0);
    // A file that somebody else made long is not read into memory: its end is not what was written.
    let length = length.min((FRAME_BYTES_MAX + HEADER_BYTES) as u64);
    Ok(ogive_journal::read_verified(&*file, 0..length, |bytes, path| parse_frame(bytes, path, magic, &parse))?.value)
}

/// What the bytes of a file hold that [`frame`] made.
pub(crate) fn parse_frame<T>(
    bytes: &[u8],
    path: &Path,
    magic: [u8; 8],
    parse: &dyn Fn(&mut Cursor<'_>) -> Result<T, Broken>,
) -> Result<T, Error> {
    let corrupt =
        |Broken { offset, problem }: Broken| Error::Corrupt { path: path.to_owned(), offset: offset as u64, problem };
    let mut cursor = Cursor::new(bytes);
    let mut header = || Ok((cursor.take(8)? == magic, cursor.u32()?, cursor.u32()?, cursor.u32()?));
    let (known, version, length, checksum) = header().map_err(corrupt)?;
    let body = cursor.rest();
    let found = crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), body);
    if !known || version != VERSION || body.len() != length as usize || found != checksum {
        let problem = format!("checksum {found:08x} where {checksum:08x} was written");
        return Err(corrupt(Broken { offset: 0, problem }));
    }
    parse(&mut Cursor::new(body)).map_err(corrupt)
}
