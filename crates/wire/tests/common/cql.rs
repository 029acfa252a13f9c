//! Messages of CQL, and the segments of version 5 around them.

/// A message: `version` has the highest bit in what a server sends.
pub(crate) fn message(version: u8, flags: u8, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("short").to_be_bytes();
    [&[version, flags][..], &stream.to_be_bytes(), &[opcode], &length, body].concat()
}

/// A segment of version 5 around whole messages, with its two checksums.
pub(crate) fn segment(payload: &[u8]) -> Vec<u8> {
    let header = u32::try_from(payload.len()).expect("short") | 1 << 17;
    let mut crc = 0x87_5060_u32;
    for byte in &header.to_le_bytes()[..3] {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc = crc << 1 ^ if crc & 0x80_0000 != 0 { 0x197_4f0b } else { 0 };
        }
    }
    let mut trailer = flate2::Crc::new();
    trailer.update(&[0xfa, 0x2d, 0x55, 0xca]);
    trailer.update(payload);
    [&header.to_le_bytes()[..3], &crc.to_le_bytes()[..3], payload, &trailer.sum().to_le_bytes()].concat()
}
