//! Name resolution, connections and TLS, each a phase of a run.
//!
//! Limits: [`RESOLVING_MAX`] names are resolved at once: the system's resolver occupies a thread for each.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

use super::certificate;
use super::run::{Failure, Reason, Run};
use super::target::{HostAndPort, Trust};
use ogive_outgoing::{self, Files, PresentedTls, Secret, Witness};

/// 4 of the runtime's 16 blocking threads: a resolver that hangs must not keep queries waiting.
const RESOLVING_MAX: usize = 4;

/// What all checks share.
pub(super) struct Network {
    pub(super) files: Files,
    resolving: Arc<Semaphore>,
    /// The system's authorities, read when a check first needs them.
    roots: OnceLock<Arc<RootCertStore>>,
}

/// What can be read and written.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Network {
    pub(super) fn new(files: Files) -> Self {
        Self { files, resolving: Arc::new(Semaphore::new(RESOLVING_MAX)), roots: OnceLock::new() }
    }

    /// The addresses of a host.
    pub(super) async fn resolve(&self, run: &mut Run, host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
        run.phase("resolve");
        if let Ok(address) = host.parse() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let turn = self.resolving.clone().acquire_owned().await.expect("nobody closes it");
        let name = host.to_owned();
        // A task of its own, that keeps its turn while the thread works, also when the run is over.
        let looked_up = tokio::spawn(async move {
            let found = tokio::net::lookup_host((name, port)).await.map(Iterator::collect::<Vec<_>>);
            drop(turn);
            found
        });
        let found = looked_up.await.map_err(|error| Failure::new(Reason::Local, error.to_string()))?;
        match found {
            Ok(addresses) if !addresses.is_empty() => Ok(addresses),
            Ok(_) => Err(Failure::new(Reason::Dns, format!("{host} has no address"))),
            Err(error) => Err(Failure::new(Reason::Dns, format!("{host}: {error}"))),
        }
    }

    /// A connection to the first address that takes one.
    pub(super) async fn connect(&self, run: &mut Run, place: &HostAndPort) -> Result<TcpStream, Failure> {
        let addresses = self.resolve(run, &place.host, place.port).await?;
        run.phase("connect");
        let mut failure = None;
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => {
                    let Failure { reason, sentence } = Failure::from(error);
                    failure.get_or_insert(Failure::new(reason, format!("{address}: {sentence}")));
                }
            }
        }
        Err(failure.expect("there was an address"))
    }

    /// A connection, over TLS where somebody is to be believed.
    pub(super) async fn open(
        &self,
        run: &mut Run,
        place: &HostAndPort,
        trust: Option<&Trust>,
    ) -> Result<Box<dyn Stream>, Failure> {
        let stream = self.connect(run, place).await?;
        match trust {
            Some(trust) => self.tls(run, stream, &place.host, trust).await,
            None => Ok(Box::new(stream)),
        }
    }

    /// TLS over a connection. What the certificate says is reported, also when nobody believes it.
    pub(super) async fn tls(
        &self,
        run: &mut Run,
        stream: impl Stream + 'static,
        host: &str,
        trust: &Trust,
    ) -> Result<Box<dyn Stream>, Failure> {
        run.phase("tls");
        let provider = Arc::new(ring::default_provider());
        let witness = Witness::new(self.roots(trust).await?, provider.clone());
        let witness = Arc::new(witness.map_err(|sentence| Failure::new(Reason::Local, sentence))?);
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| Failure::new(Reason::Local, error.to_string()))?;
        let mut config = config.dangerous().with_custom_certificate_verifier(witness.clone()).with_no_client_auth();
        config.alpn_protocols.extend(trust.protocol.map(|protocol| protocol.as_bytes().to_vec()));
        let host = trust.server_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(host).map_err(|error| Failure::new(Reason::Tls, error.to_string()))?;
        let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        if let Some(seen) = witness.take() {
            reported(seen, run, trust)?;
        }
        let connected = connected.map_err(|error| Failure::new(Reason::Tls, error.to_string()))?;
        Ok(Box::new(connected))
    }

    async fn roots(&self, trust: &Trust) -> Result<Arc<RootCertStore>, Failure> {
        let local = |sentence: String| Failure::new(Reason::Local, sentence);
        let Some(path) = &trust.authorities else {
            if let Some(roots) = self.roots.get() {
                return Ok(roots.clone());
            }
            let loaded = tokio::task::spawn_blocking(ogive_outgoing::authorities).await;
            let loaded = Arc::new(loaded.map_err(|error| local(error.to_string()))?);
            return Ok(self.roots.get_or_init(|| loaded).clone());
        };
        let bytes = self.files.read(path).await.map_err(local)?;
        let mut out = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&bytes) {
            let certificate = certificate.map_err(|error| local(format!("{}: {error}", path.display())))?;
            out.add(certificate).map_err(|error| local(format!("{}: {error}", path.display())))?;
        }
        Ok(Arc::new(out))
    }

    /// The words of a secret.
    pub(super) async fn words(&self, secret: &Secret) -> Result<String, Failure> {
        secret.words(self.files).await.map_err(|sentence| Failure::new(Reason::Local, sentence))
    }
}

/// Reports what a server's certificate says, and ends the run of who wants to believe it and cannot.
fn reported(seen: PresentedTls, run: &mut Run, trust: &Trust) -> Result<(), Failure> {
    if let Some(end) = certificate::not_after(&seen.certificate) {
        let left = end as f64 - seen.now.as_secs() as f64;
        run.gauge("ogive_check_certificate_seconds", "s", left);
    }
    run.gauge("ogive_check_certificate_valid", "", f64::from(u8::from(seen.verdict.is_ok())));
    match seen.verdict {
        Err(sentence) if !trust.insecure => Err(Failure::new(Reason::Tls, sentence)),
        _ => Ok(()),
    }
}
