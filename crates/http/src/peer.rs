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
    /// The name of the client's certificate, if it presented one.
    pub(crate) certificate: Option<Arc<str>>,
}

impl Peer {
    /// Whether it arrived at an address that only this machine can reach.
    pub(crate) fn is_loopback(&self) -> bool {
        self.local.ip().to_canonical().is_loopback()
    }

    /// The client's address.
    pub(crate) fn address(&self) -> IpAddr {
        self.remote.ip().to_canonical()
    }
}

/// The identity under which a request was admitted: resources are shared fairly between these, and the audit names
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Asker {
    /// The user or the token.
    pub(crate) name: Option<String>,
    pub(crate) certificate: Option<Arc<str>>,
    /// None in tests without a connection.
    pub(crate) address: Option<IpAddr>,
}

impl Asker {
    /// For a request that was admitted with the login `name`.
    pub(crate) fn new(extensions: &Extensions, name: Option<String>) -> Self {
        let peer = extensions.get::<Peer>();
        Self { name, certificate: peer.and_then(|peer| peer.certificate.clone()), address: peer.map(Peer::address) }
    }
}

impl Asker {
    /// As whoever looks after senders knows it: the login, or what the certificate says, and the address.
    pub(crate) fn sender(&self) -> String {
        let address = self.address.map(|address| address.to_string()).unwrap_or_default();
        match self.name.as_deref().or(self.certificate.as_deref()) {
            Some(name) if address.is_empty() => name.to_owned(),
            Some(name) => format!("{name} ({address})"),
            None => address,
        }
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
