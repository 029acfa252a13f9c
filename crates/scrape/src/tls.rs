//! Whom a scrape over TLS believes, and what it shows of itself.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore};

use super::config::{Pem, Tls};
use ogive_outgoing::{Files, Witness};

/// The settings for `tls`. The system's authorities are trusted if it names none.
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
        let anybody = Witness::new(Arc::new(RootCertStore::empty()), provider)?;
        builder.dangerous().with_custom_certificate_verifier(Arc::new(anybody))
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
    let Some(pem) = authorities else { return Ok(ogive_outgoing::authorities()) };
    let mut out = RootCertStore::empty();
    for certificate in certificates(pem, files)? {
        out.add(certificate).map_err(|error| format!("tls_config: ca: {error}"))?;
    }
    Ok(out)
}

fn certificates(pem: &Pem, files: Files) -> Result<Vec<CertificateDer<'static>>, String> {
    ogive_outgoing::certificates(&text(pem, files)?).map_err(|error| format!("tls_config: {error}"))
}

fn text(pem: &Pem, files: Files) -> Result<Vec<u8>, String> {
    match pem {
        Pem::Here(text) => Ok(text.clone().into_bytes()),
        Pem::In(path) => (files.read)(path).map_err(|error| format!("tls_config: {}: {error}", path.display())),
    }
}
