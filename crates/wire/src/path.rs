//! Who talks with whom.

use std::net::IpAddr;

/// A TCP or UDP endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// Its address.
    pub ip: IpAddr,
    /// Its port.
    pub port: u16,
}

/// Who talks with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    /// Who opened the connection.
    pub client: Endpoint,
    /// Who accepted it.
    pub server: Endpoint,
}

impl std::fmt::Display for Path {
    /// `client|port|server|port`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}|{}|{}|{}", self.client.ip, self.client.port, self.server.ip, self.server.port)
    }
}
