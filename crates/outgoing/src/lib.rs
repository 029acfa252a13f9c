//! Shared by all our clients: addresses, whom the system asks for names, contents of local files, secrets, and TLS that
//! records the certificate a server presents.
//!
//! Belongs here: what scraping, checks and queues share to reach other services. Does not belong here: a client of one
//! protocol, a configuration, or a call that opens a file: contents are passed in.
#![forbid(unsafe_code)]

mod address;
mod datagrams;
pub mod grpc;
mod resolver;
mod secret;
mod tls;
mod upgrade;
mod witness;

use std::io;
use std::path::{Path, PathBuf};

pub use address::{AGENT, Origin, authorities, authority, certificates, redirected, target};
pub use datagrams::{datagrams, dns_over_tcp};
pub use resolver::Resolver;
pub use secret::Secret;
pub use upgrade::{Reply, UpgradeOptions, Upgrader};
pub use witness::{PresentedTls, Witness};

/// TLS is ring's wherever a library does not say which: a build may have another provider too, and rustls then chooses
/// none.
pub fn install_crypto_provider() {
    // An error is one that is there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The body of a request: in memory.
pub type Body = http_body_util::Full<hyper::body::Bytes>;

/// How files are reached: they are given, not opened here.
#[derive(Clone, Copy)]
pub struct Files {
    /// Reads a file whole.
    pub read: fn(&Path) -> io::Result<Vec<u8>>,
    /// The files of a pattern, whose last part may hold asterisks.
    pub list: fn(&Path) -> io::Result<Vec<PathBuf>>,
    /// Whose a file is and when it was written, in words.
    pub owner: fn(&Path) -> String,
}

impl Files {
    /// Reads a file beside the async threads.
    pub async fn read(self, path: &Path) -> Result<Vec<u8>, String> {
        let path = path.to_owned();
        let reading = tokio::task::spawn_blocking(move || {
            (self.read)(&path).map_err(|error| format!("{}: {error}", path.display()))
        });
        reading.await.map_err(|error| error.to_string())?
    }
}
