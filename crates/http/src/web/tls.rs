//! What a connection is encrypted with, and which certificates of clients are taken.
//!
//! Invariants: TLS 1.2 is the oldest version. A client's certificate that was given is checked before the first byte of
//! a request.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring as provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme,
};
use serde::Deserialize;

use ogive_outgoing::certificates;

use super::files::{ReadFile, beside, read};
use super::protection::ClientCertificates;

/// `tls_server_config`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Section {
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    client_auth_type: Option<String>,
    client_ca_file: Option<PathBuf>,
    client_allowed_sans: Option<Vec<String>>,
    min_version: Option<String>,
    max_version: Option<String>,
    cipher_suites: Option<Vec<String>>,
    curve_preferences: Option<Vec<String>>,
    prefer_server_cipher_suites: Option<bool>,
}

impl Section {
    /// The files that it names.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.cert_file, &self.key_file, &self.client_ca_file].into_iter().flatten().map(PathBuf::as_path)
    }

    /// How strictly it demands certificates of clients.
    pub(super) fn client_certificates(&self) -> ClientCertificates {
        match self.client_auth_type.as_deref() {
            Some("RequireAndVerifyClientCert") => ClientCertificates::Checked,
            Some("RequireAnyClientCert" | "RequireClientCert") => ClientCertificates::Needed,
            _ => ClientCertificates::Optional,
        }
    }

    /// The keys that are given and without which more would be accepted.
    pub(super) fn limits(&self) -> Vec<&'static str> {
        let all = [
            ("client_allowed_sans", self.client_allowed_sans.as_ref().is_some_and(|sans| !sans.is_empty())),
            ("min_version", self.min_version.is_some()),
            ("cipher_suites", self.cipher_suites.is_some()),
            ("curve_preferences", self.curve_preferences.is_some()),
        ];
        all.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key).collect()
    }

    /// The server's TLS configuration. `config` is the file that contains it.
    pub(super) fn server(&self, config: &Path, read_file: ReadFile, http2: bool) -> anyhow::Result<Arc<ServerConfig>> {
        let provider = Arc::new(self.provider()?);
        let versions = self.versions()?;
        let file = |path: &Option<PathBuf>, key: &str| {
            let path = path.as_ref().with_context(|| format!("{key} is missing"))?;
            let path = beside(config, path);
            read(&path, read_file).map(|bytes| (path, bytes)).with_context(|| key.to_owned())
        };
        let (path, bytes) = file(&self.cert_file, "cert_file")?;
        let chain = certificates(&bytes)
            .map_err(anyhow::Error::msg)
            .with_context(|| format!("cert_file {}", path.display()))?;
        let (path, bytes) = file(&self.key_file, "key_file")?;
        let key = PrivateKeyDer::from_pem_slice(&bytes);
        let key =
            key.map_err(|error| anyhow::anyhow!("key_file {}: no private key in PEM: {error}", path.display()))?;
        let roots = match &self.client_ca_file {
            None => None,
            Some(_) => {
                let (path, bytes) = file(&self.client_ca_file, "client_ca_file")?;
                let mut roots = RootCertStore::empty();
                for certificate in certificates(&bytes)
                    .map_err(anyhow::Error::msg)
                    .with_context(|| format!("client_ca_file {}", path.display()))?
                {
                    roots.add(certificate).with_context(|| format!("client_ca_file {}", path.display()))?;
                }
                Some(roots)
            }
        };
        let builder = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(&versions)?;
        let builder = match self.clients(roots, &provider)? {
            None => builder.with_no_client_auth(),
            Some(clients) => builder.with_client_cert_verifier(clients),
        };
        let mut out = builder.with_single_cert(chain, key).context("cert_file and key_file do not go together")?;
        out.ignore_client_order = self.prefer_server_cipher_suites.unwrap_or(true);
        out.alpn_protocols = if http2 { vec![b"h2".to_vec()] } else { Vec::new() };
        out.alpn_protocols.push(b"http/1.1".to_vec());
        Ok(Arc::new(out))
    }

    fn versions(&self) -> anyhow::Result<Vec<&'static rustls::SupportedProtocolVersion>> {
        let number = |key: &str, text: &Option<String>, usual: u8| match text.as_deref() {
            None => Ok(usual),
            Some("TLS12") => Ok(2),
            Some("TLS13") => Ok(3),
            Some("TLS10" | "TLS11") => {
                bail!("{key}: TLS 1.0 and 1.1 are broken and not spoken here; give TLS12 or TLS13")
            }
            Some(other) => bail!("{key}: {other:?} is no version; give TLS12 or TLS13"),
        };
        let (from, to) = (number("min_version", &self.min_version, 2)?, number("max_version", &self.max_version, 3)?);
        ensure!(from <= to, "min_version is above max_version");
        let all = [(3, &rustls::version::TLS13), (2, &rustls::version::TLS12)];
        Ok(all.into_iter().filter(|(number, _)| (from..=to).contains(number)).map(|(_, version)| version).collect())
    }

    /// The algorithms; the names are the IANA's, as in Go.
    fn provider(&self) -> anyhow::Result<CryptoProvider> {
        let mut out = provider::default_provider();
        if let Some(names) = &self.cipher_suites {
            // rustls calls the suites of TLS 1.3 TLS13_..., the registry TLS_....
            let name_of =
                |suite: &rustls::SupportedCipherSuite| format!("{:?}", suite.suite()).replace("TLS13_", "TLS_");
            let all = out.cipher_suites.clone();
            out.cipher_suites.clear();
            for name in names {
                let found = all.iter().find(|suite| name_of(suite) == *name);
                let known = || all.iter().map(name_of).collect::<Vec<_>>().join(", ");
                out.cipher_suites
                    .push(*found.with_context(|| format!("cipher_suites: {name:?} is none of {}", known()))?);
            }
            // As in Go, the list concerns TLS 1.2; the three of 1.3 are always enabled.
            out.cipher_suites
                .extend(all.iter().filter(|suite| suite.tls13().is_some() && !names.contains(&name_of(suite))));
        }
        if let Some(names) = &self.curve_preferences {
            let known: [(&str, &'static dyn SupportedKxGroup); 3] = [
                ("X25519", provider::kx_group::X25519),
                ("CurveP256", provider::kx_group::SECP256R1),
                ("CurveP384", provider::kx_group::SECP384R1),
            ];
            out.kx_groups.clear();
            for name in names {
                let found = known.iter().find(|(known, _)| known == name);
                out.kx_groups.push(
                    found
                        .with_context(|| {
                            format!("curve_preferences: {name:?} is none of X25519, CurveP256, CurveP384")
                        })?
                        .1,
                );
            }
        }
        Ok(out)
    }

    fn clients(
        &self,
        roots: Option<RootCertStore>,
        provider: &Arc<CryptoProvider>,
    ) -> anyhow::Result<Option<Arc<Clients>>> {
        let sans = self.client_allowed_sans.clone().unwrap_or_default();
        let kind = self.client_auth_type.as_deref().unwrap_or("NoClientCert");
        let (is_needed, is_checked) = match kind {
            "" | "NoClientCert" => {
                ensure!(
                    roots.is_none() && sans.is_empty(),
                    "client_ca_file and client_allowed_sans need a client_auth_type, such as RequireAndVerifyClientCert"
                );
                return Ok(None);
            }
            "RequestClientCert" => (false, false),
            "RequireAnyClientCert" | "RequireClientCert" => (true, false),
            "VerifyClientCertIfGiven" => (false, true),
            "RequireAndVerifyClientCert" => (true, true),
            other => bail!(
                "client_auth_type: {other:?} is none of NoClientCert, RequestClientCert, RequireAnyClientCert, \
                 VerifyClientCertIfGiven, RequireAndVerifyClientCert"
            ),
        };
        if let Some(mail) = sans.iter().find(|san| san.contains('@') && !san.contains("://")) {
            bail!("client_allowed_sans: {mail:?}: mail addresses are not compared; name DNS names, addresses or URIs");
        }
        let chain = match (is_checked, roots) {
            (false, _) => None,
            (true, None) => bail!("client_ca_file is missing, which {kind} needs"),
            (true, Some(roots)) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
                Some(verifier.build().context("client_ca_file")?)
            }
        };
        Ok(Some(Arc::new(Clients { chain, is_needed, sans, provider: provider.clone() })))
    }
}

/// The name of a client's certificate: its first name, if it has one that can be read, and a hash.
pub(crate) fn certificate_name(certificate: &CertificateDer<'_>) -> Arc<str> {
    let entity = webpki::EndEntityCert::try_from(certificate).ok();
    let name =
        entity.and_then(|entity| entity.valid_dns_names().chain(entity.valid_uri_names()).next().map(str::to_owned));
    let hash = ring::digest::digest(&ring::digest::SHA256, certificate);
    let hash = ogive_text::hex::write(&hash.as_ref()[..8]);
    // With the hash, because authorities may sign a name twice.
    name.map_or_else(|| format!("sha256:{hash}"), |name| format!("{name} (sha256:{hash})")).into()
}

/// Judges the certificates of clients.
#[derive(Debug)]
struct Clients {
    /// The verifier of their chain; None: any chain is accepted.
    chain: Option<Arc<dyn ClientCertVerifier>>,
    is_needed: bool,
    /// Names of which one must be present; empty: any.
    sans: Vec<String>,
    provider: Arc<CryptoProvider>,
}

impl Clients {
    fn has_allowed_name(&self, certificate: &CertificateDer<'_>) -> Result<bool, Error> {
        if self.sans.is_empty() {
            return Ok(true);
        }
        let unreadable = |_| Error::InvalidCertificate(CertificateError::BadEncoding);
        let entity = webpki::EndEntityCert::try_from(certificate).map_err(unreadable)?;
        Ok(self.sans.iter().any(|san| match IpAddr::try_from(san.as_str()) {
            Ok(address) => entity.verify_is_valid_for_subject_name(&ServerName::IpAddress(address)).is_ok(),
            Err(_) => entity.valid_dns_names().chain(entity.valid_uri_names()).any(|name| name == san),
        }))
    }
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.is_needed
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.as_ref().map_or(&[], |chain| chain.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if let Some(chain) = &self.chain {
            chain.verify_client_cert(end_entity, intermediates, now)?;
        }
        match self.has_allowed_name(end_entity)? {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
