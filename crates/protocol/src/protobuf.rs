//! The fields of a protobuf message, decoded in place.
//!
//! Format: protobuf.dev/programming-guides/encoding. Own code rather than a generated decoder because a remote write
//! body is mostly label text of series that are known already: their bytes are looked up in place and never become
//! strings.
//! Limits: a varint has at most 10 bytes; a field's number is 1 and above; groups, which were removed from the language
//! in 2008, are refused.

use crate::Error;

/// The value of one field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// The fields of a message in their order: `(number, value)`. After an error there are none.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// Bytes that are not read yet.
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    fn field(&mut self) -> Result<(u32, Field<'a>), Error> {
        let tag = varint(&mut self.rest, "a field's tag")?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0);
        let number =
            number.ok_or(Error::Malformed { what: "a field's number is 0 or above 2^29; is this protobuf?" })?;
        let value = match tag & 7 {
            0 => Field::Varint(varint(&mut self.rest, "a number")?),
            1 => Field::Fixed64(u64::from_le_bytes(self.take("a 64 bit number")?)),
            2 => {
                let length = varint(&mut self.rest, "a field's length")?;
                let Some((bytes, rest)) =
                    usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length))
                else {
                    return Err(Error::Truncated { what: "a field" });
                };
                self.rest = rest;
                Field::Bytes(bytes)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.take("a 32 bit number")?)),
            _ => {
                return Err(Error::Malformed { what: "a field has a wire type that is not in use; is this protobuf?" });
            }
        };
        Ok((number, value))
    }

    fn take<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Error> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Error::Truncated { what })?;
        self.rest = rest;
        Ok(*taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Field<'a>), Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// A LEB128 number off the front of `rest`.
#[inline]
pub(crate) fn varint(rest: &mut &[u8], what: &'static str) -> Result<u64, Error> {
    if let [byte @ 0..=0x7f, tail @ ..] = *rest {
        *rest = tail;
        return Ok(u64::from(*byte));
    }
    let mut value = 0_u64;
    for (at, byte) in rest.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if *byte < 0x80 {
            if at == 9 && *byte > 1 {
                return Err(Error::Malformed { what: "a number has more than 64 bits" });
            }
            *rest = &rest[at + 1..];
            return Ok(value);
        }
    }
    if rest.len() < 10 {
        Err(Error::Truncated { what })
    } else {
        Err(Error::Malformed { what: "a number has more than 10 bytes" })
    }
}

/// The number that zigzag writes as `value`.
pub(crate) fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

impl<'a> Field<'a> {
    pub(crate) fn bytes(self, what: &'static str) -> Result<&'a [u8], Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Error::Malformed { what }),
        }
    }

    pub(crate) fn text(self, what: &'static str) -> Result<&'a str, Error> {
        match self {
            Self::Bytes(bytes) => std::str::from_utf8(bytes).map_err(|_| Error::Malformed { what }),
            _ => Err(Error::Malformed { what }),
        }
    }

    pub(crate) fn varint(self, what: &'static str) -> Result<u64, Error> {
        match self {
            Self::Varint(value) => Ok(value),
            _ => Err(Error::Malformed { what }),
        }
    }

    pub(crate) fn double(self, what: &'static str) -> Result<f64, Error> {
        match self {
            Self::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(Error::Malformed { what }),
        }
    }

    /// Appends a repeated number, packed or one at a time.
    pub(crate) fn varints_into(self, into: &mut Vec<u64>, limit: usize, what: &'static str) -> Result<(), Error> {
        match self {
            Self::Varint(value) => into.push(value),
            Self::Bytes(mut packed) => {
                while !packed.is_empty() && into.len() <= limit {
                    into.push(varint(&mut packed, what)?);
                }
            }
            _ => return Err(Error::Malformed { what }),
        }
        within(what, into.len(), limit)
    }

    /// Appends a repeated double, packed or one at a time.
    pub(crate) fn doubles_into(self, into: &mut Vec<f64>, limit: usize, what: &'static str) -> Result<(), Error> {
        match self {
            Self::Fixed64(bits) => into.push(f64::from_bits(bits)),
            Self::Bytes(packed) => {
                let (doubles, rest) = packed.as_chunks::<8>();
                if !rest.is_empty() {
                    return Err(Error::Truncated { what });
                }
                within(what, into.len() + doubles.len(), limit)?;
                into.extend(doubles.iter().map(|bytes| f64::from_le_bytes(*bytes)));
            }
            _ => return Err(Error::Malformed { what }),
        }
        within(what, into.len(), limit)
    }

    /// A number of 64 bits at fixed width.
    pub(crate) fn fixed64(self, what: &'static str) -> Result<u64, Error> {
        match self {
            Self::Fixed64(bits) => Ok(bits),
            _ => Err(Error::Malformed { what }),
        }
    }

    /// Appends a repeated number of fixed width, packed or one at a time.
    pub(crate) fn fixed64s_into(self, into: &mut Vec<u64>, limit: usize, what: &'static str) -> Result<(), Error> {
        match self {
            Self::Fixed64(bits) => into.push(bits),
            Self::Bytes(packed) => {
                let (numbers, rest) = packed.as_chunks::<8>();
                if !rest.is_empty() {
                    return Err(Error::Truncated { what });
                }
                within(what, into.len() + numbers.len(), limit)?;
                into.extend(numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)));
            }
            _ => return Err(Error::Malformed { what }),
        }
        within(what, into.len(), limit)
    }
}

/// Checks a number of things against its limit.
pub(crate) fn within(what: &'static str, found: usize, limit: usize) -> Result<(), Error> {
    if found > limit { Err(Error::TooLarge { what, found: found as u64, limit: limit as u64 }) } else { Ok(()) }
}

/// Writes protobuf.
pub(crate) mod write {
    pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }

    pub(crate) fn number(out: &mut Vec<u8>, field: u32, value: u64) {
        varint(out, u64::from(field) << 3);
        varint(out, value);
    }

    pub(crate) fn signed(out: &mut Vec<u8>, field: u32, value: i64) {
        number(out, field, ((value << 1) ^ (value >> 63)) as u64);
    }

    pub(crate) fn double(out: &mut Vec<u8>, field: u32, value: f64) {
        varint(out, u64::from(field) << 3 | 1);
        out.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
        varint(out, u64::from(field) << 3 | 2);
        varint(out, value.len() as u64);
        out.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn varints_of_all_lengths_come_back() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                write::varint(&mut bytes, value);
                let whole = bytes.clone();
                assert_eq!(varint(&mut &whole[..], "it").unwrap(), value);
                bytes.pop();
                assert!(varint(&mut &bytes[..], "it").is_err(), "{value} cut short");
            }
        }
        assert!(matches!(varint(&mut &[0xff_u8; 10][..], "it"), Err(Error::Malformed { .. })));
        assert!(matches!(varint(&mut &[0x80_u8; 11][..], "it"), Err(Error::Malformed { .. })));
    }

    #[test]
    fn fields_of_all_wire_types_come_back() {
        let mut message = Vec::new();
        write::number(&mut message, 1, 300);
        write::double(&mut message, 2, -0.5);
        write::bytes(&mut message, 3, b"abc");
        message.extend_from_slice(&[0x25, 1, 0, 0, 0]);
        let fields: Result<Vec<_>, _> = Fields::new(&message).collect();
        let expected = [
            (1, Field::Varint(300)),
            (2, Field::Fixed64((-0.5_f64).to_bits())),
            (3, Field::Bytes(b"abc")),
            (4, Field::Fixed32(1)),
        ];
        assert_eq!(fields.unwrap(), expected);
        for broken in [&[0x00_u8][..], &[0x07], &[0x0b], &[0x0a, 5, 1], &[0x09, 1, 2], &[0x0d, 1]] {
            let fields: Vec<_> = Fields::new(broken).collect();
            assert!(fields.len() == 1 && fields[0].is_err(), "{broken:x?} gave {fields:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes: Vec<u8>) {
            let count = Fields::new(&bytes).count();
            prop_assert!(count <= bytes.len());
        }

        #[test]
        fn packed_and_single_numbers_are_the_same(values: Vec<u64>) {
            let (mut packed, mut single) = (Vec::new(), Vec::new());
            for value in &values {
                write::varint(&mut packed, *value);
                Field::Varint(*value).varints_into(&mut single, values.len(), "them").unwrap();
            }
            let mut read = Vec::new();
            Field::Bytes(&packed).varints_into(&mut read, values.len(), "them").unwrap();
            prop_assert_eq!(&read, &values);
            prop_assert_eq!(&single, &values);
        }
    }
}
