//! Targets of checks, and what several kinds share.

use std::path::PathBuf;

use ogive_outgoing::Secret;

use super::raw::{Raw, secret};

/// Labels that a check has anyway.
pub(super) const OWN_LABELS: [&str; 6] = ["__name__", "check", "kind", "target", "result", "phase"];

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostAndPort {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Whom to believe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trust {
    pub(super) authorities: Option<PathBuf>,
    pub(super) server_name: Option<String>,
    pub(super) insecure: bool,
    /// The protocol that is offered within TLS (ALPN), for those whose servers ask for it.
    pub(super) protocol: Option<&'static str>,
}

/// A server that wants to know who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) place: HostAndPort,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) database: Option<String>,
    /// Over TLS, if at all.
    pub(super) trust: Option<Trust>,
}

/// The target of a kind that needs one.
pub(super) fn target(raw: &mut Raw) -> Result<String, String> {
    raw.target.take().filter(|target| !target.is_empty()).ok_or_else(|| "target is missing".into())
}

/// `HOST:PORT`, `[V6]:PORT`, or `HOST` where there is a usual port.
pub(super) fn place(text: &str, usual: Option<u16>) -> Result<HostAndPort, String> {
    let wrong = || format!("target {text:?} is not HOST:PORT");
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, Some(port.parse().map_err(|_| wrong())?))
        }
        _ => (text, None),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.or(usual).filter(|port| *port > 0).ok_or_else(wrong)?;
    if host.is_empty() || host.contains(['/', ' ', '[', ']', '@']) {
        return Err(wrong());
    }
    Ok(HostAndPort { host: host.to_owned(), port })
}

/// The keys of TLS.
pub(super) fn trust(raw: &mut Raw) -> Trust {
    Trust {
        authorities: raw.ca_file.take(),
        server_name: raw.server_name.take(),
        insecure: raw.insecure.take().unwrap_or(false),
        protocol: None,
    }
}

/// Whom to believe where `tls` asks for it.
pub(super) fn tls(raw: &mut Raw) -> Option<Trust> {
    raw.tls.take().unwrap_or(false).then(|| trust(raw))
}

/// A place with a login.
pub(super) fn login(raw: &mut Raw, port: u16) -> Result<Login, String> {
    let place = place(&target(raw)?, Some(port))?;
    let password = secret("password", raw.password.take(), raw.password_file.take())?;
    Ok(Login { place, user: raw.user.take(), password, database: None, trust: tls(raw) })
}
