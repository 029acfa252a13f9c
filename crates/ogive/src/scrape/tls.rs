//! Whom a scrape over TLS believes, and what it shows of itself.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::Files;
use super::config::{Pem, Tls};

/// The settings that `tls` asks for. The system's authorities are believed where it names none.
pub(super) fn config(tls: &Tls, files: Files) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let versions: &[_] = match tls.only {
        Some(2) => &[&TLS12],
        Some(_) => &[&TLS13],
        None => &[&TLS13, &TLS12],
    };
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions);
    let builder = builder.map_err(|error| format!("tls_config: {error}"))?;
    let builder = if tls.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
    } else {
        builder.with_root_certificates(roots(tls.authorities.as_ref(), files)?)
    };
    let Some((certificate, key)) = &tls.certificate else { return Ok(Arc::new(builder.with_no_client_auth())) };
    let chain = certificates(certificate, files)?;
    let key = PrivateKeyDer::from_pem_slice(&text(key, files)?).map_err(|error| format!("tls_config: key: {error}"))?;
    let built = builder.with_client_auth_cert(chain, key);
    built.map(Arc::new).map_err(|error| format!("tls_config: the client certificate: {error}"))
}

fn roots(authorities: Option<&Pem>, files: Files) -> Result<RootCertStore, String> {
    let mut out = RootCertStore::empty();
    match authorities {
        Some(pem) => {
            for certificate in certificates(pem, files)? {
                out.add(certificate).map_err(|error| format!("tls_config: ca: {error}"))?;
            }
        }
        None => drop(out.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    Ok(out)
}

fn certificates(pem: &Pem, files: Files) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = text(pem, files)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err("tls_config: there is no certificate in what should hold one".into()),
        Err(error) => Err(format!("tls_config: a certificate cannot be read: {error}")),
    }
}

fn text(pem: &Pem, files: Files) -> Result<Vec<u8>, String> {
    match pem {
        Pem::Here(text) => Ok(text.clone().into_bytes()),
        Pem::In(path) => (files.read)(path).map_err(|error| format!("tls_config: {}: {error}", path.display())),
    }
}

/// Believes everybody: `insecure_skip_verify`. What is signed is checked all the same.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
