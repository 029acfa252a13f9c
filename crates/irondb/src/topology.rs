//! The topology of one node that owns every stream.
//!
//! Format: XML `<nodes n="1" write_copies="1"><node .../></nodes>`. Its hash is SHA-256 over, for each node, the 36
//! characters of its id, two zero bytes and the weight (16 bits, big-endian), and, where there are not two copies, 38
//! zero bytes and the number of copies (16 bits).

use std::net::SocketAddr;

/// As heavy as a node with few disks; with one node the weight changes nothing.
const WEIGHT: u16 = 32;

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its UUID.
    pub id: String,
    /// Where it is reached.
    pub address: SocketAddr,
}

impl Node {
    /// With an id made from a digest: a UUID of version 8.
    #[must_use]
    pub fn new(digest: [u8; 32], address: SocketAddr) -> Self {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let mut id = String::new();
        crate::record::CheckId::Bytes(bytes).write(&mut id).expect("16 bytes are a UUID");
        Self { id, address }
    }

    /// The bytes whose SHA-256 is the hash of its topology.
    #[must_use]
    pub fn hashed(&self) -> Vec<u8> {
        let mut out = self.id.clone().into_bytes();
        out.extend([0, 0]);
        out.extend(WEIGHT.to_be_bytes());
        out.extend([0; 38]);
        out.extend(1_u16.to_be_bytes());
        out
    }

    /// The topology.
    #[must_use]
    pub fn xml(&self) -> String {
        let (ip, port) = (self.address.ip().to_canonical(), self.address.port());
        format!(
            "<nodes n=\"1\" write_copies=\"1\"><node id=\"{}\" address=\"{ip}\" port=\"{port}\" apiport=\"{port}\" \
             weight=\"{WEIGHT}\" side=\"both\"/></nodes>\n",
            self.id
        )
    }
}
