//! TLS to the nodes of a cluster.
//!
//! Invariant: a node is trusted only when its certificate is signed by a configured authority and contains the address
//! used to reach it; this cannot be switched off. The driver reaches nodes by address, so certificates need their
//! addresses among the alternative names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ogive_journal::{Disk, RealDisk};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::Error;

/// Some hundred certificates of those who vouch.
const FILE_BYTES_MAX: usize = 4 << 20;

/// How nodes are believed, and what they are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificates (PEM) of who vouches for the nodes, in place of those that this machine believes.
    pub ca_file: Option<PathBuf>,
    /// Certificates (PEM) that are shown to nodes that want one, the own one first; and the file with its private key.
    pub identity_files: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// What connections are made with. Files are read each time.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Local(format!("TLS: {error}")))?
            .with_root_certificates(self.roots()?);
        let Some((certificate_file, key_file)) = &self.identity_files else {
            return Ok(Arc::new(builder.with_no_client_auth()));
        };
        let chain = certificates(certificate_file)?;
        let wrong = |error: &dyn std::fmt::Display| Error::Local(format!("{}: {error}", key_file.display()));
        let key = PrivateKeyDer::from_pem_slice(&read(key_file)?).map_err(|error| wrong(&error))?;
        let config = builder.with_client_auth_cert(chain, key).map_err(|error| wrong(&error))?;
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore, Error> {
        let Some(file) = &self.ca_file else { return Ok(ogive_outgoing::authorities()) };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|error| Error::Local(format!("{}: {error}", file.display())))?;
        }
        Ok(roots)
    }
}

fn certificates(file: &Path) -> Result<Vec<rustls::pki_types::CertificateDer<'static>>, Error> {
    ogive_outgoing::certificates(&read(file)?).map_err(|error| Error::Local(format!("{}: {error}", file.display())))
}

fn read(file: &Path) -> Result<Vec<u8>, Error> {
    let wrong = |error: &dyn std::fmt::Display| Error::Local(format!("cannot read {}: {error}", file.display()));
    let bytes = RealDisk.read(file).map_err(|error| wrong(&error))?;
    if bytes.len() > FILE_BYTES_MAX { Err(wrong(&"it is too long")) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_hold_something_else_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.pem");
        std::fs::write(&file, "no PEM").unwrap();
        let missing = directory.path().join("missing");
        let authority = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let good = directory.path().join("good.pem");
        std::fs::write(&good, authority.cert.pem()).unwrap();
        for (ca, identity, part) in [
            (Some(&missing), None, "missing"),
            (Some(&file), None, "no certificate in PEM"),
            (Some(&good), Some((&file, &file)), "no certificate in PEM"),
            (Some(&good), Some((&good, &file)), "a.pem"),
            (Some(&good), Some((&good, &good)), "good.pem"),
        ] {
            let identity_files = identity.map(|(certificate, key)| (certificate.clone(), key.clone()));
            let error = Tls { ca_file: ca.cloned(), identity_files }.config().expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(Tls { ca_file: Some(good), identity_files: None }.config().is_ok());
    }
}
