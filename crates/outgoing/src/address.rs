//! Where a request over HTTP goes, as whom, and where a redirect leads.

use hyper::Uri;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// As whom we introduce ourselves.
pub const AGENT: &str = concat!("Ogive/", env!("CARGO_PKG_VERSION"));

/// Who answers at a URL: secrets that are for one are for no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Over TLS.
    pub is_tls: bool,
    /// A name, or an address without brackets.
    pub host: String,
    /// Its port, the usual one where the URL has none.
    pub port: u16,
}

impl Origin {
    /// Whom `url` leads to; a sentence where it is no http or https address.
    pub fn from_url(url: &Uri) -> Result<Self, String> {
        let is_tls = match url.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(format!("{url} is no http or https address")),
        };
        let host = url.host().filter(|host| !host.is_empty()).ok_or_else(|| format!("{url} has no host"))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_ascii_lowercase();
        Ok(Self { is_tls, host, port: url.port_u16().unwrap_or(if is_tls { 443 } else { 80 }) })
    }
}

/// What the header `Host` says: without a name and a password that may stand before it.
pub fn authority(url: &Uri) -> &str {
    let all = url.authority().map_or("", |authority| authority.as_str());
    all.rsplit_once('@').map_or(all, |(_, host)| host)
}

/// What is asked for there.
pub fn target(url: &Uri) -> &str {
    url.path_and_query().map_or("/", |path| path.as_str())
}

/// Where `location` leads from `url`.
pub fn redirected(url: &Uri, location: &str) -> Result<Uri, String> {
    let (scheme, authority) = (url.scheme_str().unwrap_or("http"), authority(url));
    let location = location.split('#').next().unwrap_or_default();
    let absolute = if location.starts_with("http://") || location.starts_with("https://") {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else if location.starts_with('?') {
        format!("{scheme}://{authority}{}{location}", url.path())
    } else {
        let directory = url.path().rsplit_once('/').map_or("", |(directory, _)| directory);
        format!("{scheme}://{authority}{directory}/{location}")
    };
    let leads = absolute.parse().map_err(|error: hyper::http::uri::InvalidUri| error.to_string());
    let leads = leads.and_then(|to: Uri| Origin::from_url(&to).map(|_| to));
    leads.map_err(|error| format!("the server redirects to {location:?}: {error}"))
}

/// Whom this machine believes.
pub fn authorities() -> RootCertStore {
    let mut out = RootCertStore::empty();
    out.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    out
}

/// The certificates of a PEM text, one at least.
///
/// # Errors
/// A sentence when one cannot be read or there is none.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| error.to_string())?;
    if all.is_empty() { Err("no certificate in PEM".into()) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_where_browsers_go() {
        let from: Uri = "https://u:p@a.example:8443/x/y?z".parse().unwrap();
        for (location, to) in [
            ("/b", "https://a.example:8443/b"),
            ("b?c#d", "https://a.example:8443/x/b?c"),
            ("?c", "https://a.example:8443/x/y?c"),
            ("//b.example/c", "https://b.example/c"),
            ("http://b.example/c", "http://b.example/c"),
            ("/login?back=http://c.example/", "https://a.example:8443/login?back=http://c.example/"),
        ] {
            assert_eq!(redirected(&from, location).unwrap().to_string(), to, "{location}");
        }
        for location in ["http:// /", "http:///x", "//", "https://"] {
            let said = redirected(&from, location).unwrap_err();
            assert!(said.starts_with("the server redirects to \""), "{location}: {said}");
        }
    }

    #[test]
    fn origins_are_compared_as_they_are_reached() {
        let of = |url: &str| Origin::from_url(&url.parse().unwrap());
        assert_eq!(of("http://A.example/x"), of("http://a.example:80/y"));
        assert_eq!(of("https://[::1]/"), Ok(Origin { is_tls: true, host: "::1".into(), port: 443 }));
        assert_ne!(of("http://a.example/"), of("https://a.example/"));
        assert!(of("ftp://a/").is_err() && of("/x").is_err());
        let url: Uri = "http://u:p@a.example:81/x?y".parse().unwrap();
        assert_eq!((authority(&url), target(&url)), ("a.example:81", "/x?y"));
    }
}
