//! TLS that goes on whatever the certificate is, for those who want to know what it is, or do not care.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};

/// What a server showed.
pub struct PresentedTls {
    /// Its own certificate, DER.
    pub certificate: Vec<u8>,
    /// When it showed it.
    pub now: UnixTime,
    /// Why it is not to be believed.
    pub verdict: Result<(), String>,
}

/// Lets every certificate pass and remembers what would have been said of it: the caller ends what is not to be
/// believed. What is signed is checked all the same.
#[derive(Debug)]
pub struct Witness {
    judge: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
    seen: Mutex<Option<PresentedTls>>,
}

impl std::fmt::Debug for PresentedTls {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Seen({:?})", self.verdict)
    }
}

impl Witness {
    /// Judges by `roots`; without any it believes nobody.
    pub fn new(roots: Arc<RootCertStore>, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        let judge = match roots.is_empty() {
            true => None,
            false => {
                let built = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
                Some(built.map_err(|error| error.to_string())?)
            }
        };
        Ok(Self { judge, provider, seen: Mutex::new(None) })
    }

    /// What the server of the last handshake showed.
    pub fn take(&self) -> Option<PresentedTls> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verdict = match &self.judge {
            None => Err("there are no authorities to believe".into()),
            Some(judge) => {
                let judged = judge.verify_server_cert(certificate, chain, name, ocsp, now);
                judged.map(drop).map_err(|error| error.to_string())
            }
        };
        let seen = PresentedTls { certificate: certificate.to_vec(), now, verdict };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
