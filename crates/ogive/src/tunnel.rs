//! A connection of this machine that is relayed through the server of a fleet (docs/fleet.md).
//!
//! Invariants: it ends whole or with a reset, also when this process ends: what is missing is not taken for the end.

use std::future::pending;

use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};
use ogive_fleet::{End, IDLE, Relayed, Side, relay};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Relays between `local`, which messages call `name`, and the server, to which it counts as sent.
pub(crate) async fn relayed(
    mut local: TcpStream,
    name: &'static str,
    server: impl AsyncRead + AsyncWrite + Unpin,
) -> Relayed {
    let _ = local.set_zero_linger();
    let (near, far) = (Side::plain(&mut local, name), Side::framed(server, "the server"));
    let relayed = relay(near, far, IDLE, pending()).await;
    if relayed.end == End::Whole {
        // What is not sent yet is sent after it is closed.
        let _ = setsockopt(&local, sockopt::Linger, &linger { l_onoff: 0, l_linger: 0 });
    }
    relayed
}
