//! Which services have rows of their own.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use ogive_wire::Endpoint;

/// Servers with rows of their own: a host that talks with more than a thousand is a crawler or a proxy.
pub(super) const MAX_SERVICES: usize = 1_000;

/// Represents all other services.
pub(super) const OTHER_SERVICE: Endpoint = Endpoint { ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED), port: 0 };

/// The services that were seen first.
#[derive(Debug, Default)]
pub(super) struct Services(HashSet<Endpoint>);

impl Services {
    /// The service that `server` counts under: itself, or [`OTHER_SERVICE`].
    pub(super) fn of(&mut self, server: Endpoint) -> Endpoint {
        if self.0.contains(&server) {
            return server;
        }
        if self.0.len() >= MAX_SERVICES {
            return OTHER_SERVICE;
        }
        self.0.insert(server);
        server
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_of_many_ports_keeps_to_the_limit() {
        let mut services = Services::default();
        let server = |port: u16| Endpoint { ip: IpAddr::from([10, 0, 0, 1]), port };
        let known = (1..=5_000).filter(|port| services.of(server(*port)) == server(*port)).count();
        assert_eq!(known, MAX_SERVICES);
        assert_eq!(services.of(server(1)), server(1));
        assert_eq!(services.of(server(4_000)), OTHER_SERVICE);
    }
}
