//! Packets made by hand: from 10.0.0.1 to 10.0.0.2 and back.

/// A TCP segment: flags 2 SYN, 16 ACK, 8 PSH, 1 FIN, 4 RST.
pub(crate) fn segment(from: u16, to: u16, sequence: u32, acknowledges: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(from.to_be_bytes());
    bytes.extend(to.to_be_bytes());
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(acknowledges.to_be_bytes());
    bytes.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
    bytes.extend(payload);
    bytes
}

/// An IPv4 packet.
pub(crate) fn ipv4(protocol: u8, is_to_server: bool, id: u16, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend(u16::try_from(20 + payload.len()).unwrap().to_be_bytes());
    bytes.extend(id.to_be_bytes());
    bytes.extend(fragment.to_be_bytes());
    bytes.extend([64, protocol, 0, 0]);
    let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    bytes.extend(if is_to_server { [client, server] } else { [server, client] }.concat());
    bytes.extend(payload);
    bytes
}
