//! Who is at the other end of a connection, and as whom a request was let in.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::http::Extensions;

/// The header that names a tenant, as Grafana Mimir and Loki have it.
pub(super) const TENANT_HEADER: &str = "x-scope-orgid";

/// The two ends of a connection; each of its requests carries them.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) remote: SocketAddr,
    pub(crate) local: SocketAddr,
    /// What the client's certificate says of it, when it showed one.
    pub(crate) certificate: Option<Arc<str>>,
}

impl Peer {
    /// Whether it came to an address that only this machine reaches.
    pub(crate) fn is_loopback(&self) -> bool {
        self.local.ip().to_canonical().is_loopback()
    }

    /// The address that it came from.
    pub(crate) fn address(&self) -> IpAddr {
        self.remote.ip().to_canonical()
    }
}

/// As whom a request was let in: what is shared is shared between these, and what is audited is put down to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Asker {
    /// The user or the token.
    pub(crate) name: Option<String>,
    pub(crate) certificate: Option<Arc<str>>,
    /// None in tests without a connection.
    pub(crate) address: Option<IpAddr>,
}

impl Asker {
    /// Of a request that was let in with the login `name`.
    pub(crate) fn new(extensions: &Extensions, name: Option<String>) -> Self {
        let peer = extensions.get::<Peer>();
        Self { name, certificate: peer.and_then(|peer| peer.certificate.clone()), address: peer.map(Peer::address) }
    }
}

impl std::fmt::Display for Asker {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.name, &self.certificate) {
            (Some(name), _) => write!(out, "{name:?}")?,
            (None, Some(certificate)) => write!(out, "the client certificate {certificate}")?,
            (None, None) => write!(out, "somebody without a login")?,
        }
        self.address.map_or(Ok(()), |address| write!(out, " from {address}"))
    }
}
