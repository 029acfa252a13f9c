//! The frame around a message: magic, version, flags, length, checksum and tenant; and the limits of what it unfolds
//! to.

use crate::error::within;
use crate::{Error, Tenant};

/// First bytes of a frame.
pub(super) const MAGIC: [u8; 4] = *b"OGVF";
/// The first version of frame and schema, of batches of the default tenant.
pub(super) const VERSION_PLAIN: u16 = 1;
/// Version of frames that name their tenant between header and message, and may name series by their identity: a reader
/// that knows only the first version refuses them instead of mixing tenants or losing samples.
pub(super) const VERSION_NAMED: u16 = 2;
/// Version of frames that may contain starts: a reader that does not support them would count a point
/// twice that was received twice.
pub(super) const VERSION_STARTED: u16 = 3;
/// Version of frames that declare their series in a dictionary before the message: a reader that does not support it
/// would find none of them.
pub(super) const VERSION_DICTIONARY: u16 = 4;
/// Flag of a frame that only defines series; only from version 2 on and in a journal.
pub(super) const FLAG_DEFINITIONS: u16 = 1;
/// Frame header: magic, version, flags (0), length of the rest, CRC32C of the 12 bytes before it and of the rest.
pub const HEADER_BYTES: usize = 16;
/// 32 MiB: a second of 100,000 histograms of 40 bins at 100 bytes, times three.
pub const FRAME_BYTES_MAX: usize = 32 << 20;
/// 256 frames in one body: a response of some 25 KiB, and work of some milliseconds between two waits for the disk.
pub const FRAMES_MAX: usize = 256;
/// 100,000 series in one batch: all series of a host in one message.
pub const SERIES_MAX: usize = 100_000;
/// 400,000 series in one frame that is stored in parts, as many as in JSON: with a few labels each, this reaches
/// [`TEXT_BYTES_MAX`].
pub const SERIES_WIDE_MAX: usize = 4 * SERIES_MAX;
/// 64 MiB of decoded labels and texts: a FlatBuffers message may reference one string many times, so its
/// decoded size is limited separately from its own length.
pub const TEXT_BYTES_MAX: usize = 64 << 20;
/// 32 bytes: the memory of a label in addition to its bytes.
pub(super) const PAIR_BYTES: usize = 32;
/// 8 Mi custom bounds of a batch's schemes: as many bytes as labels may have.
pub(super) const BOUNDS_MAX: usize = TEXT_BYTES_MAX / 8;
/// 2^19 histograms: even empty ones, which take 21 bytes of a frame and 300 in memory, are 150 MiB.
pub const HISTOGRAMS_MAX: usize = 1 << 19;
/// Bins of one histogram: all 2 + 2 * 90 * 256 that OpenHistogram can have.
pub const BINS_MAX: usize = 46_082;
/// 1 MiB for a text sample.
pub const TEXT_SAMPLE_BYTES_MAX: usize = 1 << 20;

/// A frame of `tenant` around `message`, whatever that contains.
///
/// # Errors
/// [`Error::TooLarge`] when the frame would exceed [`FRAME_BYTES_MAX`].
pub fn frame(tenant: &Tenant, message: &[u8]) -> Result<Vec<u8>, Error> {
    put_frame(VERSION_PLAIN, 0, tenant, &[message])
}

/// The valid frame `framed` as one of `tenant`.
///
/// # Errors
/// The errors of [`Batch::decode`](crate::Batch::decode) for the frame, or [`Error::TooLarge`] when it would exceed
/// [`FRAME_BYTES_MAX`].
pub fn with_tenant(framed: &[u8], tenant: &Tenant) -> Result<Vec<u8>, Error> {
    let Parts { version, flags, body, .. } = parts(framed)?;
    put_frame(version.max(VERSION_NAMED), flags, tenant, &[body])
}

/// A frame of the version with a dictionary around `declared` series and `message`, whatever they contain.
///
/// # Errors
/// [`Error::TooLarge`] when the frame would exceed [`FRAME_BYTES_MAX`].
pub fn frame_declaring(tenant: &Tenant, declared: &[u8], message: &[u8]) -> Result<Vec<u8>, Error> {
    put_declaring(0, tenant, declared, message)
}

/// As [`frame_declaring`], with flags.
pub(super) fn put_declaring(flags: u16, tenant: &Tenant, declared: &[u8], message: &[u8]) -> Result<Vec<u8>, Error> {
    within("a batch's bytes", declared.len(), FRAME_BYTES_MAX)?;
    let length = u32::try_from(declared.len()).expect("FRAME_BYTES_MAX is below 4 GiB");
    put_frame(VERSION_DICTIONARY, flags, tenant, &[&length.to_le_bytes(), declared, message])
}

/// A frame of `version`, or of the second one at least when the tenant must be named, with the parts of its body behind
/// each other.
pub(super) fn put_frame(version: u16, flags: u16, tenant: &Tenant, body: &[&[u8]]) -> Result<Vec<u8>, Error> {
    let version = if tenant.is_default() { version } else { version.max(VERSION_NAMED) };
    let name = if tenant.is_default() { "" } else { tenant.as_str() };
    let named = if version == VERSION_PLAIN { 0 } else { 1 + name.len() };
    let bytes = named + body.iter().map(|part| part.len()).sum::<usize>();
    within("a batch's bytes", HEADER_BYTES + bytes, FRAME_BYTES_MAX)?;
    let length = u32::try_from(bytes).expect("FRAME_BYTES_MAX is below 4 GiB");
    let mut frame = Vec::with_capacity(HEADER_BYTES + bytes);
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&version.to_le_bytes());
    frame.extend_from_slice(&flags.to_le_bytes());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&[0; 4]);
    if version != VERSION_PLAIN {
        frame.push(u8::try_from(name.len()).expect("a tenant's name is below 256 bytes"));
        frame.extend_from_slice(name.as_bytes());
    }
    body.iter().for_each(|part| frame.extend_from_slice(part));
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&frame[..12]), &frame[HEADER_BYTES..]);
    frame[12..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    Ok(frame)
}

/// The consecutive frames in `body`, each with its header. Their contents are not checked.
///
/// # Errors
/// [`Error::TooLarge`] for more than [`FRAMES_MAX`], [`Error::Malformed`] when there is none, or something other than a
/// frame.
pub fn frames(body: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let (mut out, mut rest) = (Vec::new(), body);
    while !rest.is_empty() || out.is_empty() {
        within("the number of batches in a body", out.len() + 1, FRAMES_MAX)?;
        let at = body.len() - rest.len();
        let header = rest.first_chunk::<HEADER_BYTES>().filter(|header| header[..4] == MAGIC);
        let Some(header) = header else { return Err(malformed(format!("no frame begins at byte {at}"))) };
        let declared = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let frame = HEADER_BYTES.checked_add(declared).and_then(|length| rest.split_at_checked(length));
        let Some((frame, behind)) = frame else {
            return Err(malformed(format!("the frame at byte {at} declares {declared} bytes, and they are not there")));
        };
        out.push(frame);
        rest = behind;
    }
    Ok(out)
}

/// The parts of a frame.
pub(super) struct Parts<'a> {
    pub(super) version: u16,
    pub(super) flags: u16,
    pub(super) tenant: Tenant,
    /// Everything behind the tenant.
    pub(super) body: &'a [u8],
    /// The dictionary with the declared series; empty before that version.
    pub(super) declared: &'a [u8],
    pub(super) message: &'a [u8],
}

/// The parts of a frame, once it is known to be complete.
pub(super) fn parts(frame: &[u8]) -> Result<Parts<'_>, Error> {
    read_parts(frame, true)
}

/// The parts of a frame whose checksum is not looked at.
pub(super) fn parts_unverified(frame: &[u8]) -> Result<Parts<'_>, Error> {
    read_parts(frame, false)
}

fn read_parts(frame: &[u8], verifies: bool) -> Result<Parts<'_>, Error> {
    within("a batch's bytes", frame.len(), FRAME_BYTES_MAX)?;
    let Some((header, payload)) = frame.split_at_checked(HEADER_BYTES) else {
        return Err(malformed(format!("{} bytes, shorter than the frame header of {HEADER_BYTES}", frame.len())));
    };
    if header[..4] != MAGIC {
        return Err(malformed("the frame does not begin with OGVF"));
    }
    let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (version, flags, declared) = (short(4), short(6), word(8) as usize);
    if !(VERSION_PLAIN..=VERSION_DICTIONARY).contains(&version) {
        return Err(malformed(format!(
            "frame version {version}; this side reads versions {VERSION_PLAIN} to {VERSION_DICTIONARY}"
        )));
    }
    if declared != payload.len() {
        return Err(malformed(format!("the frame declares {declared} bytes and holds {}", payload.len())));
    }
    if verifies {
        let (found, expected) = (word(12), crc32c::crc32c_append(crc32c::crc32c(&header[..12]), payload));
        if expected != found {
            return Err(Error::Checksum { expected, found });
        }
    }
    if version == VERSION_PLAIN {
        let tenant = Tenant::default();
        return Ok(Parts { version, flags: 0, tenant, body: payload, declared: &[], message: payload });
    }
    if flags & !FLAG_DEFINITIONS != 0 {
        return Err(malformed(format!("the frame has flags {flags:#06x} that this side does not know")));
    }
    let named = payload.split_first().and_then(|(length, rest)| rest.split_at_checked(usize::from(*length)));
    let Some((name, body)) = named else { return Err(malformed("the frame ends inside its tenant's name")) };
    let name = std::str::from_utf8(name).map_err(|_| malformed("the tenant's name is not UTF-8"))?;
    let tenant = if name.is_empty() { Tenant::default() } else { Tenant::new(name)? };
    let (declared, message) = if version < VERSION_DICTIONARY { (&[][..], body) } else { split_declared(body)? };
    Ok(Parts { version, flags, tenant, body, declared, message })
}

/// The dictionary, behind its length, and the message.
fn split_declared(body: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let split = body.split_first_chunk().and_then(|(length, rest)| {
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        rest.split_at_checked(length)
    });
    split.ok_or_else(|| malformed("the frame ends inside its declared series"))
}

pub(super) fn malformed(what: impl Into<String>) -> Error {
    Error::Malformed(what.into())
}
