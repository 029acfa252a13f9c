//! The addresses of a line protocol's listener, and the sockets bound to them.
//!
//! Failure: an address that cannot be bound is reported in one sentence. A Unix socket file left behind by a server
//! that no longer runs is replaced; one that a server still listens on is not.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat};
use nix::unistd::unlink;

/// With port 0 the free port of UDP may be in use for TCP: another is tried, this often.
const PORT_TRIES: usize = 16;

/// An address as it is given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Both transports at one port.
    Both(SocketAddr),
    /// UDP alone.
    Udp(SocketAddr),
    /// TCP alone.
    Tcp(SocketAddr),
    /// TCP with TLS.
    Tls(SocketAddr),
    /// Datagrams at a path.
    UnixDatagram(PathBuf),
    /// Connections at a path.
    UnixStream(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text.split_once(':') {
            Some(("unix", path)) => Self::UnixDatagram(file(path)?),
            Some(("unix-stream", path)) => Self::UnixStream(file(path)?),
            Some(("udp", rest)) => Self::Udp(network(rest)?),
            Some(("tcp", rest)) => Self::Tcp(network(rest)?),
            Some(("tls", rest)) => Self::Tls(network(rest)?),
            _ => Self::Both(network(text)?),
        })
    }
}

fn file(path: &str) -> Result<PathBuf, String> {
    if path.is_empty() { Err("the path is missing; give unix:/run/ogive/statsd.sock".into()) } else { Ok(path.into()) }
}

fn network(text: &str) -> Result<SocketAddr, String> {
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| format!("{error}; give HOST:PORT such as 127.0.0.1:8125 or unix:PATH"))?;
    found.next().ok_or_else(|| "the host has no address".into())
}

/// A socket that is bound.
#[derive(Debug)]
pub(super) enum Socket {
    Udp(UdpSocket),
    Tcp(TcpListener),
    Tls(TcpListener),
    UnixDatagram(UnixDatagram, PathBuf),
    UnixStream(UnixListener, PathBuf),
}

impl Address {
    /// The address without datagrams, for a protocol that has none.
    pub(super) fn connections(&self, option: &str) -> anyhow::Result<Self> {
        match self {
            Self::Both(address) => Ok(Self::Tcp(*address)),
            Self::Udp(_) | Self::UnixDatagram(_) => {
                bail!("{option} takes connections, not datagrams; give HOST:PORT, tls:HOST:PORT or unix-stream:PATH")
            }
            Self::Tcp(_) | Self::Tls(_) | Self::UnixStream(_) => Ok(self.clone()),
        }
    }

    /// The address without connections, for a protocol that has none.
    pub(super) fn datagrams(&self, option: &str) -> anyhow::Result<Self> {
        match self {
            Self::Both(address) | Self::Udp(address) => Ok(Self::Udp(*address)),
            _ => bail!("{option} takes datagrams over UDP alone; give HOST:PORT"),
        }
    }

    /// Binds its sockets.
    pub(super) fn bind(&self, option: &str) -> anyhow::Result<Vec<Socket>> {
        let bound = match self {
            Self::Both(address) => both(*address),
            Self::Udp(address) => UdpSocket::bind(address).map(|socket| vec![Socket::Udp(socket)]),
            Self::Tcp(address) => TcpListener::bind(address).map(|socket| vec![Socket::Tcp(socket)]),
            Self::Tls(address) => TcpListener::bind(address).map(|socket| vec![Socket::Tls(socket)]),
            Self::UnixDatagram(path) => {
                make_way(path)?;
                UnixDatagram::bind(path).map(|socket| vec![Socket::UnixDatagram(socket, path.clone())])
            }
            Self::UnixStream(path) => {
                make_way(path)?;
                UnixListener::bind(path).map(|socket| vec![Socket::UnixStream(socket, path.clone())])
            }
        };
        let bound = bound.with_context(|| format!("cannot listen on {self}; choose another address with {option}"))?;
        if let Self::UnixDatagram(path) | Self::UnixStream(path) = self {
            // Whoever may reach the directory may send, as with Datadog's agent; nobody but us reads.
            let mode = Mode::from_bits_truncate(0o722);
            fchmodat(AT_FDCWD, path, mode, FchmodatFlags::FollowSymlink)
                .with_context(|| format!("cannot let others send to {}", path.display()))?;
        }
        Ok(bound)
    }
}

fn both(address: SocketAddr) -> std::io::Result<Vec<Socket>> {
    let mut tries = if address.port() == 0 { PORT_TRIES } else { 1 };
    loop {
        let udp = UdpSocket::bind(address)?;
        match TcpListener::bind(udp.local_addr()?) {
            Ok(tcp) => return Ok(vec![Socket::Udp(udp), Socket::Tcp(tcp)]),
            Err(error) if tries == 1 => return Err(error),
            Err(_) => tries -= 1,
        }
    }
}

/// Removes the file of a socket that nobody listens at any more.
fn make_way(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        bail!("{} is there and is no socket; choose another path", path.display());
    }
    let is_alive =
        UnixStream::connect(path).is_ok() || UnixDatagram::unbound().and_then(|socket| socket.connect(path)).is_ok();
    if is_alive {
        bail!("{} is in use by another program; end it or choose another path", path.display());
    }
    unlink(path).with_context(|| format!("cannot replace the unused socket {}", path.display()))
}

impl std::fmt::Display for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Both(address) => write!(out, "{address}"),
            Self::Udp(address) => write!(out, "udp:{address}"),
            Self::Tcp(address) => write!(out, "tcp:{address}"),
            Self::Tls(address) => write!(out, "tls:{address}"),
            Self::UnixDatagram(path) => write!(out, "unix:{}", path.display()),
            Self::UnixStream(path) => write!(out, "unix-stream:{}", path.display()),
        }
    }
}

impl Socket {
    /// As an option would name it.
    pub(super) fn name(&self) -> anyhow::Result<String> {
        let address = match self {
            Self::Udp(socket) => Address::Udp(socket.local_addr()?),
            Self::Tcp(socket) => Address::Tcp(socket.local_addr()?),
            Self::Tls(socket) => Address::Tls(socket.local_addr()?),
            Self::UnixDatagram(_, path) => Address::UnixDatagram(path.clone()),
            Self::UnixStream(_, path) => Address::UnixStream(path.clone()),
        };
        Ok(address.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for (text, expected) in [
            ("127.0.0.1:8125", Address::Both(([127, 0, 0, 1], 8125).into())),
            ("[::1]:8125", Address::Both(([0, 0, 0, 0, 0, 0, 0, 1], 8125).into())),
            ("udp:127.0.0.1:1", Address::Udp(([127, 0, 0, 1], 1).into())),
            ("tcp:127.0.0.1:1", Address::Tcp(([127, 0, 0, 1], 1).into())),
            ("tls:127.0.0.1:1", Address::Tls(([127, 0, 0, 1], 1).into())),
            ("unix:/run/x", Address::UnixDatagram("/run/x".into())),
            ("unix-stream:/run/x", Address::UnixStream("/run/x".into())),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.to_string(), &address), (text.to_owned(), &expected));
        }
        let connections = |text: &str| text.parse::<Address>().unwrap().connections("--beats");
        assert_eq!(connections("127.0.0.1:1").unwrap().to_string(), "tcp:127.0.0.1:1");
        assert_eq!(connections("tls:127.0.0.1:1").unwrap().to_string(), "tls:127.0.0.1:1");
        assert!(connections("udp:127.0.0.1:1").is_err() && connections("unix:/run/x").is_err());
        let datagrams = |text: &str| text.parse::<Address>().unwrap().datagrams("--snmp-traps");
        assert_eq!(datagrams("127.0.0.1:1").unwrap().to_string(), "udp:127.0.0.1:1");
        assert_eq!(datagrams("udp:127.0.0.1:1").unwrap().to_string(), "udp:127.0.0.1:1");
        assert!(datagrams("tcp:127.0.0.1:1").is_err() && datagrams("unix:/run/x").is_err());
        for text in ["", "8125", "unix:", "udp:x", "127.0.0.1"] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        for kind in ["unix", "unix-stream"] {
            let path = directory.path().join(kind);
            let address: Address = format!("{kind}:{}", path.display()).parse().unwrap();
            let first = address.bind("--statsd").unwrap();
            let error = address.bind("--statsd").unwrap_err().to_string();
            assert!(error.contains("in use"), "{error}");
            drop(first);
            assert!(path.exists());
            address.bind("--statsd").unwrap();
        }
        let file = directory.path().join("file");
        std::fs::write(&file, "precious").unwrap();
        let error = Address::UnixDatagram(file.clone()).bind("--statsd").unwrap_err().to_string();
        assert!(error.contains("no socket") && file.exists(), "{error}");
    }
}
