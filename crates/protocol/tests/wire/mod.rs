//! Protobuf by hand, for tests and benches of whoever reads it. Others include this file by its path.
#![allow(dead_code, unreachable_pub)]

/// A number as protobuf and snappy write it.
pub fn varint(mut number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// A field of bytes, a text or a message.
pub fn field(number: u8, inside: impl AsRef<[u8]>) -> Vec<u8> {
    let inside = inside.as_ref();
    [&[number << 3 | 2][..], &varint(inside.len() as u64), inside].concat()
}

/// A field of 64 bits in eight bytes, a double or a fixed number.
pub fn fixed(number: u8, bits: [u8; 8]) -> Vec<u8> {
    [&[number << 3 | 1][..], &bits].concat()
}

/// A field of a number of variable length.
pub fn number(field: u8, number: u64) -> Vec<u8> {
    [vec![field << 3], varint(number)].concat()
}
