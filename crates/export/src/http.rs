//! `POST /v1/batch` over HTTP/1.1, on one connection that is kept.
//!
//! *Limits*: [`ANSWER_BYTES_MAX`]; a connection is waited for at most [`CONNECT`]. No proxy is taken from the environment and no redirect
//! is followed: the address given is the one that gets the measurements.
//! *Failure*: 400, 413, 415 and 422 speak of the batch, which is given up; everything else (429, 5xx, and 401, 403, 404 too,
//! which speak of the address) is tried again, until the bound on what waits decides.

use std::time::Duration;

use ureq::http::{HeaderMap, HeaderValue, StatusCode, Uri};

use crate::{Answer, Error, Link, Outcome};

/// 1 MiB: a word on each of 5,000 samples, and a sentence on a hundred.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// 3 s: a dropped first packet is sent again after one.
const CONNECT: Duration = Duration::from_secs(3);

/// 60 s: whatever `Retry-After` says, the server is asked again then.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// The way to one server.
pub(crate) struct HttpLink {
    agent: ureq::Agent,
    address: String,
    /// The value of the header `Authorization`.
    authorization: Option<HeaderValue>,
}

/// The token is nobody's to see.
impl std::fmt::Debug for HttpLink {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("HttpLink").field("address", &self.address).finish_non_exhaustive()
    }
}

impl HttpLink {
    /// `ca_pem`: who vouches for the server, in place of the usual ones.
    pub(crate) fn new(address: &str, token: Option<&str>, ca_pem: Option<&[u8]>) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Address { address: address.into(), what: what.into() };
        let uri: Uri = address.parse().map_err(|error| wrong(&format!("{error}")))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") if cfg!(feature = "tls") => {}
            Some("https") => return Err(wrong("https needs the feature `tls` of ogive-export")),
            _ => return Err(wrong("it does not begin with http://")),
        }
        if uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
            return Err(wrong("it has no host, or more than a host and a path"));
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(CONNECT))
            .max_idle_connections(1)
            .user_agent(concat!("ogive-export/", env!("CARGO_PKG_VERSION")));
        let config = with_roots(config, ca_pem)?.build();
        let address = format!("{}/v1/batch", address.trim_end_matches('/'));
        let authorization = token.map(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| Error::Setting {
                what: "the token",
                found: "one with signs that no header may have".into(),
                wanted: "as `ogive token new` shows it",
            })?;
            value.set_sensitive(true);
            Ok(value)
        });
        Ok(Self { agent: config.into(), address, authorization: authorization.transpose()? })
    }
}

type Config = ureq::config::ConfigBuilder<ureq::typestate::AgentScope>;

/// Those in `pem` vouch for the server.
#[cfg(feature = "tls")]
fn with_roots(config: Config, pem: Option<&[u8]>) -> Result<Config, Error> {
    use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
    let Some(pem) = pem else { return Ok(config) };
    let wrong = |found: String| Error::Setting { what: "ca_pem", found, wanted: "certificates in PEM" };
    let mut certificates = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| wrong(error.to_string()))? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(wrong("without a certificate".into()));
    }
    let roots = RootCerts::new_with_certs(&certificates);
    Ok(config.tls_config(TlsConfig::builder().root_certs(roots).build()))
}

#[cfg(not(feature = "tls"))]
fn with_roots(config: Config, pem: Option<&[u8]>) -> Result<Config, Error> {
    match pem {
        None => Ok(config),
        Some(_) => {
            let found = "given to a program without TLS".into();
            Err(Error::Setting {
                what: "ca_pem",
                found,
                wanted: "left out, or the feature `tls` of ogive-export switched on",
            })
        }
    }
}

impl Link for HttpLink {
    fn send(&mut self, frame: &[u8], timeout: Duration) -> Outcome {
        let request = self.agent.post(&self.address).config().timeout_global(Some(timeout)).build();
        let mut request = request.header("content-type", "application/x-ogive-batch-flatbuffer");
        if let Some(value) = &self.authorization {
            request = request.header("authorization", value.clone());
        }
        let mut response = match request.send(frame) {
            Ok(response) => response,
            Err(error) => return failed(&self.address, &error),
        };
        let (status, after) = (response.status(), retry_after(response.headers()));
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        match body {
            Ok(body) => outcome(status, after, &body),
            Err(error) => failed(&self.address, &error),
        }
    }
}

/// No answer.
fn failed(address: &str, error: &ureq::Error) -> Outcome {
    use ureq::{Error, Timeout};
    let never_there = match error {
        Error::HostNotFound | Error::ConnectionFailed | Error::BadUri(_) | Error::Http(_) | Error::Tls(_) => true,
        Error::Timeout(when) => matches!(when, Timeout::Resolve | Timeout::Connect),
        Error::Io(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
        _ => false,
    };
    Outcome::Later { after: None, in_doubt: !never_there, detail: format!("no answer from {address}: {error}") }
}

/// What an answer means.
fn outcome(status: StatusCode, after: Option<Duration>, body: &[u8]) -> Outcome {
    let answer = Answer::read(body);
    let said = || {
        let text = answer.as_ref().and_then(|answer| answer.error.clone());
        text.unwrap_or_else(|| String::from_utf8_lossy(&body[..body.len().min(200)]).trim().to_owned())
    };
    let detail = || format!("status {}: {}", status.as_u16(), said());
    match status.as_u16() {
        200..300 => match answer {
            Some(answer) if answer.accepted.is_some() => Outcome::Answered(answer),
            _ => Outcome::Later { after: None, in_doubt: true, detail: format!("{}: no word on the batch", detail()) },
        },
        // Nothing of it was taken, sample by sample for a reason, or as a whole.
        400 if answer.as_ref().is_some_and(|answer| answer.accepted.is_some()) => {
            Outcome::Answered(answer.unwrap_or_default())
        }
        400 | 413 | 415 | 422 => Outcome::Refused { reason: format!("status_{}", status.as_u16()), detail: detail() },
        // The server says that nothing of it is durable.
        429 | 507 => Outcome::Later { after, in_doubt: false, detail: detail() },
        // Others may stand in front of the server, and not know.
        500.. => Outcome::Later { after, in_doubt: true, detail: detail() },
        _ => Outcome::Later { after, in_doubt: false, detail: detail() },
    }
}

/// Seconds; a date is not read, and the usual pause is made.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get("retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> Outcome {
        outcome(StatusCode::from_u16(status).unwrap(), Some(Duration::from_secs(7)), body.as_bytes())
    }

    #[test]
    fn a_status_says_what_to_do_with_the_batch() {
        let verdict = r#"{"accepted":0,"duplicate":0,"rejected":[{"sample":0,"reason":"time_too_new"}]}"#;
        assert!(matches!(of(200, verdict), Outcome::Answered(_)));
        assert!(matches!(of(400, verdict), Outcome::Answered(_)), "each sample has its reason");
        let Outcome::Refused { reason, detail } = of(400, r#"{"error":"cut"}"#) else { panic!("it is wrong") };
        assert_eq!((reason.as_str(), detail.as_str()), ("status_400", "status 400: cut"));
        for status in [413, 415, 422] {
            assert!(matches!(of(status, "{}"), Outcome::Refused { .. }), "{status}");
        }
        let doubt = |status, body| match of(status, body) {
            Outcome::Later { in_doubt, .. } => in_doubt,
            other => panic!("{status}: {other:?}"),
        };
        assert!(doubt(200, "welcome") && doubt(200, "{}") && doubt(503, "{}") && doubt(502, ""));
        assert!(!doubt(429, "{}") && !doubt(507, "{}") && !doubt(404, "") && !doubt(302, ""));
        let seven = Some(Duration::from_secs(7));
        assert!(matches!(of(429, ""), Outcome::Later { after, .. } if after == seven));
    }

    #[test]
    fn addresses_that_cannot_be_sent_to_are_refused() {
        for address in ["", "host:6448", "ftp://host", "http://", "http://host/?x=1", "https://host"] {
            let wrong = HttpLink::new(address, None, None).is_err();
            assert!(wrong || (cfg!(feature = "tls") && address.starts_with("https")), "{address}");
        }
        assert_eq!(HttpLink::new("http://host:6448/", None, None).unwrap().address, "http://host:6448/v1/batch");
        assert_eq!(HttpLink::new("http://host/ogive", None, None).unwrap().address, "http://host/ogive/v1/batch");
    }

    #[test]
    fn a_token_and_certificates_are_looked_at_before_anything_is_sent() {
        let link = HttpLink::new("http://host", Some("ogive_secret"), None).unwrap();
        assert!(!format!("{link:?}").contains("secret"));
        assert!(matches!(
            HttpLink::new("http://host", Some("a\nb"), None),
            Err(Error::Setting { what: "the token", .. })
        ));
        for pem in [&b""[..], b"no PEM"] {
            assert!(matches!(
                HttpLink::new("http://host", None, Some(pem)),
                Err(Error::Setting { what: "ca_pem", .. })
            ));
        }
    }

    #[test]
    fn nobody_there_leaves_no_doubt() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let outcome = HttpLink::new(&address, None, None).unwrap().send(b"frame", Duration::from_secs(5));
        assert!(matches!(outcome, Outcome::Later { in_doubt: false, .. }), "{outcome:?}");
    }
}
