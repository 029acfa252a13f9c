//! What the service manager that started us wants to know: sd_notify(3), `Type=notify` of systemd.
//!
//! Failure: a manager that does not listen is no reason not to serve.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The state that a role reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It accepts requests.
    Ready,
    /// It ends in order.
    Stopping,
}

/// Reports to the manager, where `NOTIFY_SOCKET` names one.
pub(crate) fn notify(state: State) {
    if let Some(name) = std::env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(&name, state)
    {
        tracing::warn!("cannot notify the service manager: {error}");
    }
}

fn send(name: &std::ffi::OsStr, state: State) -> std::io::Result<()> {
    let bytes = name.as_encoded_bytes();
    // An at sign represents the zero byte that begins an abstract name.
    let address = match bytes.split_first() {
        Some((b'@', rest)) => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let text: &[u8] = match state {
        State::Ready => b"READY=1\n",
        State::Stopping => b"STOPPING=1\n",
    };
    UnixDatagram::unbound()?.send_to_addr(text, &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn both_kinds_of_sockets_receive_the_state() {
        let held = tempfile::tempdir().unwrap();
        let path = held.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), State::Ready).unwrap();
        assert_eq!(received(&socket), "READY=1\n");
        let name = format!("ogive-test-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send(format!("@{name}").as_ref(), State::Stopping).unwrap();
        assert_eq!(received(&socket), "STOPPING=1\n");
        assert!(send(held.path().join("nobody").as_os_str(), State::Ready).is_err());
    }
}
