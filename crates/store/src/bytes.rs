//! Little-endian numbers and varints, written to and read from memory.
//!
//! Invariants: a [`Cursor`] never reads past its slice and never panics, whatever the bytes are.
//! Format: a varint is LEB128, at most 10 bytes, not necessarily the shortest form; a signed varint is zigzag.

use ogive_model::{Error, Tenant};

/// What is wrong with encoded bytes, and at which byte of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// Offset in the bytes that were read.
    pub(crate) offset: usize,
    /// A sentence without its subject.
    pub(crate) problem: String,
}

/// Of a record of the journal, which a reader takes for a batch.
impl From<Broken> for Error {
    fn from(broken: Broken) -> Self {
        Self::Malformed(broken.problem)
    }
}

/// Appends `value` as a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes of `value` as a varint.
pub(crate) const fn varint_bytes(value: u64) -> usize {
    (u64::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Appends `value` as a zigzag varint.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    debug_assert_eq!(unzigzag(zigzag(value)), value, "a reader gets what is written");
    put_varint(out, zigzag(value));
}

/// Appends `bytes` behind their length.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Small magnitudes of either sign become small numbers.
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Inverse of [`zigzag`].
pub(crate) const fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

/// Reads forward through bytes that may be anything.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// An error at the place reached.
    pub(crate) fn broken(&self, problem: impl Into<String>) -> Broken {
        Broken { offset: self.at, problem: problem.into() }
    }

    pub(crate) const fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Broken> {
        debug_assert!(self.at <= self.bytes.len(), "at {} of {} bytes", self.at, self.bytes.len());
        let left = self.bytes.len() - self.at;
        if length > left {
            return Err(self.broken(format!("{length} bytes are needed where {left} are left")));
        }
        let taken = &self.bytes[self.at..self.at + length];
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        Ok(self.take(N)?.try_into().expect("take gives what was asked"))
    }

    /// The next byte, which stays.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Broken> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Broken> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Broken> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Broken> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(self.broken("a varint is above 64 bits"));
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.broken("a varint is longer than 10 bytes"))
    }

    pub(crate) fn signed(&mut self) -> Result<i64, Broken> {
        Ok(unzigzag(self.varint()?))
    }

    /// A varint that counts something of which there are at most `limit`.
    pub(crate) fn count(&mut self, limit: usize, what: &str) -> Result<usize, Broken> {
        let value = self.varint()?;
        match usize::try_from(value) {
            Ok(count) if count <= limit => Ok(count),
            _ => Err(self.broken(format!("{value} {what} where at most {limit} can be"))),
        }
    }

    /// Text behind its length.
    pub(crate) fn text(&mut self) -> Result<&'a str, Broken> {
        let bytes = self.length_and_bytes()?;
        std::str::from_utf8(bytes).map_err(|error| self.broken(error.to_string()))
    }

    /// Bytes behind their length.
    pub(crate) fn length_and_bytes(&mut self) -> Result<&'a [u8], Broken> {
        let length = self.count(self.rest().len(), "bytes")?;
        self.take(length)
    }
}

/// Appends a tenant's name; the default one's is left empty.
pub(crate) fn put_tenant(out: &mut Vec<u8>, tenant: &Tenant) {
    assert!(!tenant.as_str().is_empty(), "a reader takes a tenant without a name for the default one");
    put_bytes(out, if tenant.is_default() { &[] } else { tenant.as_str().as_bytes() });
}

/// What [`put_tenant`] appended.
pub(crate) fn get_tenant(cursor: &mut Cursor<'_>) -> Result<Tenant, Broken> {
    match cursor.text()? {
        "" => Ok(Tenant::default()),
        name => Tenant::new(name).map_err(|error| cursor.broken(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_width() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1_u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                let mut cursor = Cursor::new(&out);
                assert_eq!(cursor.varint(), Ok(value));
                assert!(cursor.is_empty());
                assert_eq!(zigzag(unzigzag(value)), value);
            }
        }
    }

    #[test]
    fn bad_varints_are_errors() {
        assert!(Cursor::new(&[0x80]).varint().is_err());
        assert!(Cursor::new(&[0xff; 11]).varint().is_err());
        assert!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).varint().is_err());
        assert!(Cursor::new(&[5, 1]).length_and_bytes().is_err());
    }
}
