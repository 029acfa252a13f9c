//! TLS of a client: who is believed, and what is shown to the server.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use super::address::{authorities, certificates};

/// A configuration that believes the authorities of `ca_pem`, or the system's, and shows `identity_pem`: certificates
/// and their key.
///
/// # Errors
/// A sentence on what of the files is wrong.
pub(crate) fn client_config(
    ca_pem: Option<&[u8]>,
    identity_pem: Option<(&[u8], &[u8])>,
) -> Result<ClientConfig, String> {
    let roots = match ca_pem {
        None => authorities(),
        Some(pem) => {
            let mut roots = rustls::RootCertStore::empty();
            for certificate in certificates(pem)? {
                roots.add(certificate).map_err(|error| format!("ca: {error}"))?;
            }
            roots
        }
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let builder = builder.with_root_certificates(roots);
    match identity_pem {
        None => Ok(builder.with_no_client_auth()),
        Some((chain, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("key: {error}"))?;
            let built = builder.with_client_auth_cert(certificates(chain)?, key);
            built.map_err(|error| format!("the client certificate: {error}"))
        }
    }
}
