//! Where an AMQP server is, who asks, and whom it and we believe.
//!
//! Invariants: a password stands in the address or in a file, and in no text that is printed. Files are read for each
//! connection, so that a new password or certificate counts from the next one on.
//! Limits: a server that says nothing for twice [`HEARTBEAT_SECONDS`] is gone, and one that answers no request within
//! [`ANSWER_WITHIN`]. A frame has [`FRAME_BYTES_MAX`], a message as many frames as it needs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Connection, ConnectionProperties};

use ogive_outgoing::{Files, Secret};

/// 10 s: a line that was cut is found within 20; unless the address says `?heartbeat=`.
const HEARTBEAT_SECONDS: u16 = 10;

/// 30 s, before there are heartbeats and for each request after it: RabbitMQ itself gives a client 10 s for its
/// handshake. A server that is killed while it starts may leave a request without an answer and without an error.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// 128 KiB, as RabbitMQ proposes. The library has room for some frames in memory at once, so a server that sets no
/// limit, or 4 GiB, must not have its way.
const FRAME_BYTES_MAX: u32 = 128 << 10;

/// See the module.
#[derive(Clone, Default, PartialEq)]
pub struct ServerAddress {
    /// `amqp://USER:PASSWORD@HOST:PORT/VHOST`, or `amqps://` for TLS.
    pub url: String,
    /// In place of the one of the address.
    pub user: Option<String>,
    /// The file with the password.
    pub password_file: Option<PathBuf>,
    /// Who vouches for the server, beside those whom the machine believes.
    pub ca_file: Option<PathBuf>,
    /// What is shown to the server.
    pub cert_file: Option<PathBuf>,
    /// The key of that certificate.
    pub key_file: Option<PathBuf>,
}

impl ServerAddress {
    fn uri(&self) -> Result<AMQPUri, String> {
        self.url.parse().map_err(|error| format!("an address is no amqp address: {error}"))
    }

    /// Whether it can be a place at all.
    pub fn check(&self) -> Result<(), String> {
        let is_tls = self.uri()?.scheme == AMQPScheme::AMQPS;
        if self.cert_file.is_some() != self.key_file.is_some() {
            return Err("a certificate and its key are given together, or neither".into());
        }
        if !is_tls && (self.ca_file.is_some() || self.cert_file.is_some()) {
            return Err("certificates are for amqps:// addresses; over amqp:// nobody would look at them".into());
        }
        Ok(())
    }

    /// Connects, with a name by which the server's operator recognises us.
    pub(crate) async fn connect(&self, files: Files) -> Result<Connection, String> {
        within(ANSWER_WITHIN, "the handshake", self.connected(files)).await
    }

    async fn connected(&self, files: Files) -> Result<Connection, String> {
        let mut uri = self.uri()?;
        let who = &mut uri.authority.userinfo;
        if let Some(user) = &self.user {
            who.username.clone_from(user);
        }
        if let Some(path) = &self.password_file {
            who.password = Secret::In(path.clone()).words(files).await?;
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        uri.query.frame_max.get_or_insert(FRAME_BYTES_MAX);
        let name = concat!("ogive ", env!("CARGO_PKG_VERSION"));
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        let tls = self.tls(files).await?;
        let runtime = lapin::runtime::default_runtime().map_err(|error| error.to_string())?;
        let connected = Connection::connect_uri_with_config(uri, properties, tls, runtime).await;
        connected.map_err(|error| error.to_string())
    }

    async fn tls(&self, files: Files) -> Result<OwnedTLSConfig, String> {
        let pem = async |path: &Path| {
            let bytes = files.read(path).await?;
            String::from_utf8(bytes).map_err(|_| format!("{} is not PEM", path.display()))
        };
        let mut tls = OwnedTLSConfig::default();
        if let Some(path) = &self.ca_file {
            tls.cert_chain = Some(pem(path).await?);
        }
        if let (Some(certificate), Some(key)) = (&self.cert_file, &self.key_file) {
            let (pem, key) = (pem(certificate).await?.into_bytes(), pem(key).await?.into_bytes());
            tls.identity = Some(OwnedIdentity::PKCS8 { pem, key });
        }
        Ok(tls)
    }
}

/// What the server answers to a request, or that it does not.
pub(crate) async fn answered<T>(request: &str, answer: impl Future<Output = lapin::Result<T>>) -> Result<T, String> {
    within(ANSWER_WITHIN, request, async { answer.await.map_err(|error| error.to_string()) }).await
}

async fn within<T>(
    limit: Duration,
    request: &str,
    answer: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let late = |_| format!("no answer to {request} within {limit:?}");
    tokio::time::timeout(limit, answer).await.map_err(late)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    const FILES: Files = Files { read: |_| unreachable!(), list: |_| unreachable!(), owner: |_| unreachable!() };

    fn at(listener: &TcpListener) -> ServerAddress {
        let url = format!("amqp://{}", listener.local_addr().unwrap());
        ServerAddress { url, ..ServerAddress::default() }
    }

    /// Such a server was waited for without end: a port that is bound, and nobody who answers.
    #[tokio::test]
    async fn a_server_that_does_not_greet_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = at(&listener);
        let connected = within(Duration::from_millis(300), "the handshake", place.connected(FILES)).await;
        assert_eq!(connected.err().unwrap(), "no answer to the handshake within 300ms");
    }

    #[tokio::test]
    async fn a_server_that_is_killed_while_it_greets_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = at(&listener);
        let served = std::thread::spawn(move || listener.accept().unwrap().0.read_exact(&mut [0; 8]).unwrap());
        assert!(place.connect(FILES).await.is_err());
        served.join().unwrap();
    }
}
