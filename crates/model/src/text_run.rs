//! Texts behind their lengths in one text, in memory alone.
//!
//! Format: a length is one character below [`LONG`], or three. All of these characters are ASCII, so that the whole is
//! UTF-8 and the texts in it need no check.

/// Lengths from here on take three characters: the first has the bits above the 14 of the other two.
pub const LONG: usize = 0x60;
/// Texts are shorter than this: the largest length that three characters can represent.
pub const TEXT_BYTES_END: usize = 0x20 << 14;

/// Appends a text behind its length.
///
/// # Panics
/// When it has [`TEXT_BYTES_END`] bytes or more.
#[inline]
pub fn put_text(out: &mut String, text: &str) {
    assert!(text.len() < TEXT_BYTES_END, "a label text of {} bytes", text.len());
    match text.len() {
        short if short < LONG => put_bits(out, short),
        long => {
            put_bits(out, LONG | long >> 14);
            put_bits(out, long >> 7);
            put_bits(out, long);
        }
    }
    out.push_str(text);
}

/// The text at the beginning of `rest`, which then has what follows.
///
/// # Panics
/// When there is none.
#[inline]
pub fn take_text<'a>(rest: &mut &'a str) -> &'a str {
    let (header, length) = length_at(rest.as_bytes());
    let (text, behind) = rest[header..].split_at(length);
    *rest = behind;
    text
}

/// Appends the lower seven bits as a character.
#[inline]
pub fn put_bits(out: &mut String, bits: usize) {
    out.push(char::from((bits & 0x7f) as u8));
}

/// Characters of the length at the beginning of `bytes`, and the length.
#[inline]
pub(crate) fn length_at(bytes: &[u8]) -> (usize, usize) {
    match usize::from(bytes[0]) {
        short if short < LONG => (1, short),
        long => (3, (long - LONG) << 14 | usize::from(bytes[1]) << 7 | usize::from(bytes[2])),
    }
}
