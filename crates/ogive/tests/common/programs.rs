//! Programs of other makers beside the server, and places where they can listen.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use super::eventually;

/// A program that is killed when dropped.
pub struct Program(pub Child);

impl Program {
    /// Starts it; nobody reads what it says.
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}; run scripts/need")))
    }

    /// Sends it a signal, by its name without SIG.
    pub fn signal(&self, name: &str) {
        signal(self.0.id(), name);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a signal to a process, by its name without SIG.
pub(super) fn signal(pid: u32, name: &str) {
    let done = Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap();
    assert!(done.success());
}

/// An address that is free now: for programs that cannot tell theirs, and servers that keep it over restarts.
pub fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// The port of such an address.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until somebody listens at `port`.
pub fn listens(port: u16) {
    eventually(&format!("port {port} is open"), || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
}
