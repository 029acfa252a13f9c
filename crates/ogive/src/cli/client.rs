//! Asking a running server over HTTP, and what to say when it does not answer.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use super::exit::{EXIT_FINDING, EXIT_USAGE};

/// No server answered.
pub(super) const EXIT_UNREACHABLE: u8 = 3;

/// 130 s: the longest time that a query may take, and the network round trip.
const TIMEOUT: Duration = Duration::from_secs(130);

/// 1 GiB: more than any response that the server's limits allow.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// Where the server is.
#[derive(clap::Args, Debug)]
pub(crate) struct Server {
    /// URL of the server.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:6448", env = "OGIVE_SERVER")]
    server: String,
    /// Access token. Prefer the environment variable: other users can see command lines.
    #[arg(long, value_name = "TOKEN", env = "OGIVE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// File (PEM) with the certificate authorities to trust for an https server, instead of the system's.
    #[arg(long, value_name = "FILE", env = "OGIVE_CA_FILE")]
    ca_file: Option<PathBuf>,
    /// Client certificate (PEM) for an https server that requires one; needs --key-file.
    #[arg(long, value_name = "FILE", env = "OGIVE_CERT_FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// Private key (PEM) for --cert-file.
    #[arg(long, value_name = "FILE", env = "OGIVE_KEY_FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
}

/// Why there is no response to show.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request cannot even be made.
    Usage(String),
    /// The server cannot be reached.
    Unreachable(String),
    /// The server refused.
    Refused { status: u16, message: String },
}

impl Failure {
    /// Prints it for the user, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Usage(message) => {
                eprintln!("ogive: {message}");
                ExitCode::from(EXIT_USAGE)
            }
            Self::Unreachable(message) => {
                eprintln!("ogive: {message}");
                ExitCode::from(EXIT_UNREACHABLE)
            }
            Self::Refused { status: status @ (400 | 404), message } => {
                eprintln!("ogive: the server refused ({status}): {message}");
                ExitCode::from(EXIT_USAGE)
            }
            Self::Refused { status: status @ (401 | 403), message } => {
                eprintln!("ogive: the server does not let you ({status}): {message}; see --token");
                ExitCode::from(EXIT_USAGE)
            }
            Self::Refused { status, message } => {
                eprintln!("ogive: the server has no answer ({status}): {message}");
                ExitCode::from(EXIT_FINDING)
            }
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usage(message) | Self::Unreachable(message) => f.write_str(message),
            Self::Refused { status, message } => write!(f, "the server refused ({status}): {message}"),
        }
    }
}

impl Server {
    /// The server at `url`, without a login.
    #[cfg(feature = "amqp")]
    pub(crate) fn at(url: &str) -> Self {
        Self { server: url.to_owned(), token: None, ca_file: None, cert_file: None, key_file: None }
    }

    /// The body at `path` with `params`.
    pub(crate) fn get(&self, path: &str, params: &[(&str, &str)]) -> Result<String, Failure> {
        let request = self.agent()?.get(&self.address(path)).query_pairs(params.iter().copied());
        self.read(self.signed(request).call())
    }

    /// The body at `path` with `params`, read as it arrives, for `longest` at most.
    pub(crate) fn stream(
        &self,
        path: &str,
        params: &[(&str, &str)],
        header: Option<(&str, &str)>,
        longest: Duration,
    ) -> Result<impl std::io::Read + use<>, Failure> {
        let request = self.agent()?.get(&self.address(path)).query_pairs(params.iter().copied());
        let request = header.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        let request = request.config().timeout_global(Some(longest)).build();
        match self.signed(request).call() {
            Ok(answer) if answer.status().as_u16() < 300 => Ok(answer.into_body().into_reader()),
            // The body states the reason.
            answer => match self.read(answer) {
                Err(failure) => Err(failure),
                Ok(_) => Err(Failure::Unreachable("an answer without a stream".into())),
            },
        }
    }

    /// The response to `body`, sent to `path`.
    pub(crate) fn post(&self, path: &str, body: &serde_json::Value) -> Result<String, Failure> {
        let request = self.agent()?.post(&self.address(path)).content_type("application/json");
        self.read(self.signed(request).send(body.to_string()))
    }

    /// The response to a JSON document, sent unchanged to `path` with `params`.
    pub(super) fn post_document(&self, path: &str, params: &[(&str, &str)], body: &[u8]) -> Result<String, Failure> {
        let request = self.agent()?.post(&self.address(path)).content_type("application/json");
        self.read(self.signed(request.query_pairs(params.iter().copied())).send(body))
    }

    /// The same at another address.
    pub(super) fn at_address(&self, url: &str) -> Self {
        Self {
            server: url.to_owned(),
            token: self.token.clone(),
            ca_file: self.ca_file.clone(),
            cert_file: self.cert_file.clone(),
            key_file: self.key_file.clone(),
        }
    }

    /// The response to bytes sent to `path`, which may take `timeout`.
    pub(super) fn post_bytes(&self, path: &str, body: &[u8], timeout: Duration) -> Result<String, Failure> {
        let request = self.agent()?.post(&self.address(path)).content_type("application/octet-stream");
        let request = request.config().timeout_global(Some(timeout)).build();
        self.read(self.signed(request).send(body))
    }

    /// For many requests on one connection.
    pub(super) fn session(&self) -> Result<Session<'_>, Failure> {
        Ok(Session { agent: self.agent()?, server: self })
    }

    /// The response to a DELETE.
    pub(crate) fn delete(&self, path: &str) -> Result<String, Failure> {
        let request = self.agent()?.delete(&self.address(path));
        self.read(self.signed(request).call())
    }

    /// The response to `params` without a body, posted to `path`.
    pub(crate) fn post_empty(&self, path: &str, params: &[(&str, &str)]) -> Result<String, Failure> {
        let request = self.agent()?.post(&self.address(path)).query_pairs(params.iter().copied());
        self.read(self.signed(request).send_empty())
    }

    /// For connections that carry something else after a request.
    pub(super) fn upgrader(&self) -> Result<ogive_outgoing::Upgrader, Failure> {
        let read = |path: &PathBuf| {
            let wrong = |error| Failure::Usage(format!("cannot read {}: {error}", path.display()));
            super::read_file(path).map_err(wrong)
        };
        let ca = self.ca_file.as_ref().map(read).transpose()?;
        let identity = self.cert_file.as_ref().zip(self.key_file.as_ref());
        let identity = identity.map(|(chain, key)| Ok::<_, Failure>((read(chain)?, read(key)?))).transpose()?;
        let options = ogive_outgoing::UpgradeOptions {
            token: self.token.as_deref(),
            ca_pem: ca.as_deref(),
            identity_pem: identity.as_ref().map(|(chain, key)| (&chain[..], &key[..])),
        };
        ogive_outgoing::Upgrader::new(&self.server, options).map_err(Failure::Usage)
    }

    /// The request with the token, if there is one.
    fn signed<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    fn agent(&self) -> Result<ureq::Agent, Failure> {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(TIMEOUT));
        // A redirect would send the token to an address that the user did not name.
        let config = if self.token.is_some() { config.max_redirects(0) } else { config };
        Ok(config.tls_config(self.tls()?).build().into())
    }

    fn tls(&self) -> Result<TlsConfig, Failure> {
        let read = |path: &PathBuf| {
            let wrong = |error| Failure::Usage(format!("cannot read {}: {error}", path.display()));
            super::read_file(path).map_err(wrong)
        };
        let mut config = TlsConfig::builder();
        if let Some(path) = &self.ca_file {
            config = config.root_certs(RootCerts::new_with_certs(&certificates(path, &read(path)?)?));
        }
        if let (Some(path), Some(key)) = (&self.cert_file, &self.key_file) {
            let chain = certificates(path, &read(path)?)?;
            let pem = PrivateKey::from_pem(&read(key)?);
            let wrong = |error| Failure::Usage(format!("{} has no private key: {error}", key.display()));
            config = config.client_cert(Some(ClientCert::new_with_certs(&chain, pem.map_err(wrong)?)));
        }
        Ok(config.build())
    }

    fn address(&self, path: &str) -> String {
        format!("{}{path}", self.server.trim_end_matches('/'))
    }

    fn read(&self, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<String, Failure> {
        let unreachable = |error: &dyn std::fmt::Display| {
            let server = &self.server;
            Failure::Unreachable(format!(
                "no server at {server}: {error}; start one with `ogive serve` or name it with --server"
            ))
        };
        let mut response = answer.map_err(|error| unreachable(&error))?;
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let body = body.map_err(|error| unreachable(&error))?;
        let status = response.status().as_u16();
        if status < 300 {
            return Ok(body);
        }
        let envelope: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        let message = envelope["error"].as_str().map_or_else(|| body.trim().to_owned(), str::to_owned);
        Err(Failure::Refused { status, message })
    }
}

/// Keeps its connection between requests.
pub(super) struct Session<'s> {
    agent: ureq::Agent,
    server: &'s Server,
}

impl Session<'_> {
    /// The response to bytes of a content type, sent to `path`.
    pub(super) fn post(&self, path: &str, kind: &str, body: &[u8]) -> Result<String, Failure> {
        let request = self.agent.post(&self.server.address(path)).content_type(kind);
        self.server.read(self.server.signed(request).send(body))
    }

    /// The bytes at `path` with `params`, in the form `accept`.
    pub(super) fn get(&self, path: &str, params: &[(&str, &str)], accept: &str) -> Result<Vec<u8>, Failure> {
        let request = self.agent.get(&self.server.address(path)).query_pairs(params.iter().copied());
        let request = self.server.signed(request.header("accept", accept));
        match request.call() {
            Ok(mut answer) if answer.status().as_u16() < 300 => {
                let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
                body.map_err(|error| {
                    Failure::Unreachable(format!("the answer of {} ended: {error}", self.server.server))
                })
            }
            answer => self.server.read(answer).map(String::into_bytes),
        }
    }
}

fn certificates(path: &std::path::Path, pem: &[u8]) -> Result<Vec<Certificate<'static>>, Failure> {
    let mut out = Vec::new();
    for item in parse_pem(pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => out.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(Failure::Usage(format!("{} is not PEM: {error}", path.display()))),
        }
    }
    if out.is_empty() {
        return Err(Failure::Usage(format!("{} has no certificate in PEM", path.display())));
    }
    Ok(out)
}
