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

/// The two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    /// The side that opened the connection.
    pub client: Endpoint,
    /// The side that accepted it.
    pub server: Endpoint,
}

impl std::fmt::Display for Path {
    /// `client|port|server|port`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}|{}|{}|{}", self.client.ip, self.client.port, self.server.ip, self.server.port)
    }
}

/// The two endpoints of a connection in either direction, in words that compare and hash quickly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowKey {
    addresses: [u64; 4],
    /// Both ports, and above them whether the addresses are of IPv6.
    ports: u64,
}

impl FlowKey {
    pub(crate) fn new(a: Endpoint, b: Endpoint) -> Self {
        Self::from_parts((&a.ip, a.port), (&b.ip, b.port)).0
    }

    /// The key, and whether `a` is the lower of the two. Addresses are read in place: a copy would be stored in pieces
    /// of another size than it is read, which stalls a processor.
    #[inline]
    pub(crate) fn from_parts(a: (&IpAddr, u16), b: (&IpAddr, u16)) -> (Self, bool) {
        let words = |ip: &IpAddr| -> (u64, [u64; 2]) {
            match ip {
                IpAddr::V4(ip) => (0, [0, u64::from(ip.to_bits())]),
                IpAddr::V6(ip) => {
                    let [high, low] = [ip.to_bits() >> 64, ip.to_bits() & u128::from(u64::MAX)];
                    (1, [high, low].map(|half| u64::try_from(half).expect("64 bits")))
                }
            }
        };
        let ((a_kind, a_words), (b_kind, b_words)) = (words(a.0), words(b.0));
        let is_ordered = (a_words, a.1) <= (b_words, b.1);
        let ([low, high], [first, second]) =
            if is_ordered { ([a_words, b_words], [a.1, b.1]) } else { ([b_words, a_words], [b.1, a.1]) };
        let ports = u64::from(first) | u64::from(second) << 16 | (a_kind | b_kind) << 32;
        (Self { addresses: [low[0], low[1], high[0], high[1]], ports }, is_ordered)
    }
}

impl std::hash::Hash for FlowKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let [_, low, _, high] = self.addresses;
        if self.ports >> 32 == 0 {
            state.write_u64(low << 32 | high);
        } else {
            self.addresses.iter().for_each(|word| state.write_u64(*word));
        }
        state.write_u64(self.ports);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_of_both_ways_and_of_no_other_endpoints() {
        let ips: Vec<IpAddr> =
            ["10.0.0.1", "10.0.0.2", "::a00:1", "2001:db8::1"].map(|ip| ip.parse().unwrap()).to_vec();
        let endpoints: Vec<Endpoint> =
            ips.iter().flat_map(|ip| [80, 443].map(|port| Endpoint { ip: *ip, port })).collect();
        let mut keys = Vec::new();
        for (at, a) in endpoints.iter().enumerate() {
            for b in &endpoints[at..] {
                // A packet has both addresses of one kind.
                if a.ip.is_ipv4() == b.ip.is_ipv4() {
                    assert_eq!(FlowKey::new(*a, *b), FlowKey::new(*b, *a));
                    keys.push(FlowKey::new(*a, *b));
                }
            }
        }
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "{key:?}");
        }
    }
}
