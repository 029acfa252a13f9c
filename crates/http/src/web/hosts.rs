//! For which hosts the server answers, and which pages may make a browser change something.
//!
//! A page of anybody can ask any address that its reader's browser reaches. When its own name is made to point at this
//! server (DNS rebinding), the browser lets it read the answers, and the only sign is the name in `Host`. A page cannot
//! choose that name at will: it is one that its author owns. So an address as a host is as good as any, and so is a
//! name that nobody can own in the public DNS; docs/decisions/hosts-and-origins.md has the reasons.
//! Invariants: a server that asks for a login, or speaks TLS, needs no such check: a page of another name has neither
//! login nor certificate there.
//! Limits: [`NAMES_MAX`] names.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::files::ReadFile;

/// 256 names: each request without a login is compared with all of them.
const NAMES_MAX: usize = 256;
/// 253 bytes: the longest name of the DNS.
const NAME_BYTES_MAX: usize = 253;
/// Where Linux has the name of the machine.
const OWN_NAME: &str = "/proc/sys/kernel/hostname";
/// Suffixes of names that cannot be owned in the public DNS: those of mDNS, of private networks and of Kubernetes.
const PRIVATE_ENDS: [&str; 5] = [".local", ".internal", ".home.arpa", ".svc", ".localdomain"];

/// Under which names others reach the server.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct HostOptions {
    /// URL under which browsers reach the server through a proxy, such as `https://metrics.example.com/`.
    /// Requests for its host, and pages from it, are accepted.
    #[arg(long = "web-external-url", alias = "web.external-url", value_name = "URL", env = "OGIVE_WEB_EXTERNAL_URL", value_parser = external)]
    pub web_external_url: Option<External>,
    /// Host name that requests may use besides addresses, localhost and the machine's own name: a name,
    /// *.example.com for all names below it, or * for any. Needed where neither TLS nor logins protect the
    /// server. Repeatable, or separated by commas.
    #[arg(long = "web-allow-host", alias = "web.allow-host", value_name = "NAME", env = "OGIVE_WEB_ALLOW_HOST", value_delimiter = ',', value_parser = pattern)]
    pub web_allow_host: Vec<Pattern>,
}

/// An external address of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// As a browser names it in `Origin`.
    origin: String,
    host: String,
}

/// Names that are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    Any,
    /// This one.
    Name(String),
    /// All that end so, with the dot.
    Below(String),
}

fn external(text: &str) -> Result<External, String> {
    let wrong = || format!("{text:?} is no address such as https://metrics.example.com/");
    let lower = text.to_ascii_lowercase();
    let (scheme, rest) = lower.split_once("://").ok_or_else(wrong)?;
    let authority = rest.split('/').next().unwrap_or_default();
    let default_port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return Err(wrong()),
    };
    // Browsers leave the usual port out.
    let authority = authority.strip_suffix(default_port).unwrap_or(authority);
    let host = host_of(authority).filter(|host| is_name(host) || is_address(host)).ok_or_else(wrong)?;
    Ok(External { origin: format!("{scheme}://{authority}"), host: host.to_owned() })
}

fn pattern(text: &str) -> Result<Pattern, String> {
    let lower = text.trim().to_ascii_lowercase();
    let wrong = || format!("{text:?} is no name of a host; give one without scheme and port, *.example.com, or *");
    match lower.strip_prefix('*') {
        Some("") => Ok(Pattern::Any),
        Some(end) if end.strip_prefix('.').is_some_and(is_name) => Ok(Pattern::Below(end.to_owned())),
        Some(_) => Err(wrong()),
        None => match lower.strip_suffix('.').unwrap_or(&lower) {
            name if is_name(name) => Ok(Pattern::Name(name.to_owned())),
            _ => Err(wrong()),
        },
    }
}

fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    text.len() <= NAME_BYTES_MAX && text.split('.').all(is_label)
}

fn is_address(host: &str) -> bool {
    let v6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    v6.map_or_else(|| host.parse::<Ipv4Addr>().is_ok(), |v6| v6.parse::<Ipv6Addr>().is_ok())
}

/// The host of `host:port`, where the port may be left out.
fn host_of(authority: &str) -> Option<&str> {
    let end = if authority.starts_with('[') {
        authority.find(']')? + 1
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    let (host, port) = authority.split_at(end);
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(host)
}

impl Pattern {
    fn takes(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Name(name) => name == host,
            Self::Below(end) => host.ends_with(&**end),
        }
    }
}

/// The names of a server.
#[derive(Debug, Default)]
pub struct Hosts {
    given: Vec<Pattern>,
    external: Option<External>,
    own: Vec<String>,
}

impl Hosts {
    /// From the options and the listen addresses, as they were written.
    pub fn new(options: &HostOptions, listen: &[String], read_file: ReadFile) -> anyhow::Result<Self> {
        anyhow::ensure!(options.web_allow_host.len() <= NAMES_MAX, "--web-allow-host: more than {NAMES_MAX} names");
        let mut own: Vec<String> =
            listen.iter().filter_map(|text| host_of(text)).map(str::to_ascii_lowercase).collect();
        // Without the file, on a system that has none, the other names suffice.
        let name = read_file(Path::new(OWN_NAME)).unwrap_or_default();
        let name = String::from_utf8_lossy(&name).trim().to_ascii_lowercase();
        if let Some((first, _)) = name.split_once('.') {
            own.push(first.to_owned());
        }
        own.push(name);
        own.retain(|name| is_name(name));
        Ok(Self { given: options.web_allow_host.clone(), external: options.web_external_url.clone(), own })
    }

    /// Whether a request with this `Host` is accepted. At the loopback address it may come from any page that is open
    /// on this machine; elsewhere, names that cannot be owned are accepted too.
    pub fn takes(&self, authority: &str, is_loopback: bool) -> bool {
        let lower = authority.to_ascii_lowercase();
        let Some(host) = host_of(&lower) else { return false };
        let host = host.strip_suffix('.').unwrap_or(host);
        if is_address(host) {
            return true;
        }
        if !is_name(host) {
            return false;
        }
        let is_private = || !host.contains('.') || PRIVATE_ENDS.iter().any(|end| host.ends_with(end));
        host == "localhost"
            || host.ends_with(".localhost")
            || self.own.iter().any(|name| name == host)
            || self.is_given(host)
            || (!is_loopback && is_private())
    }

    fn is_given(&self, host: &str) -> bool {
        self.given.iter().any(|pattern| pattern.takes(host))
            || self.external.as_ref().is_some_and(|external| external.host == host)
    }

    /// Whether a page of `origin` may change something by a request to `authority`: the server's own page, and those of
    /// configured names.
    pub fn is_own_page(&self, origin: &str, authority: Option<&str>) -> bool {
        let origin = origin.to_ascii_lowercase();
        let Some((_, of_page)) = origin.split_once("://") else { return false };
        let is_same = authority.is_some_and(|authority| authority.eq_ignore_ascii_case(of_page));
        let is_named = |host: &str| self.given.iter().any(|pattern| *pattern != Pattern::Any && pattern.takes(host));
        is_same
            || self.external.as_ref().is_some_and(|external| external.origin == origin)
            || host_of(of_page).is_some_and(is_named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str], url: Option<&str>) -> Hosts {
        let web_allow_host = names.iter().map(|name| pattern(name).unwrap()).collect();
        let options = HostOptions { web_external_url: url.map(|url| external(url).unwrap()), web_allow_host };
        let listen = ["metrics-host:6448".to_owned(), "0.0.0.0:6448".to_owned()];
        Hosts::new(&options, &listen, |_| Ok(b"Box7.example.net\n".to_vec())).unwrap()
    }

    #[test]
    fn names_that_somebody_may_own_are_taken_when_they_are_given() {
        let usual = hosts(&[], None);
        let both = |host: &str| (usual.takes(host, true), usual.takes(host, false));
        for host in [
            "127.0.0.1:6448",
            "10.1.2.3",
            "[::1]:6448",
            "[fe80::1]",
            "localhost",
            "LOCALHOST:6448",
            "a.localhost",
            "localhost.",
            "box7.example.net:6448",
            "box7",
            "metrics-host",
        ] {
            assert_eq!(both(host), (true, true), "{host}");
        }
        for host in
            ["ogive", "ogive:6448", "ogive.monitoring.svc:6448", "ogive.monitoring.svc.cluster.local", "nas.home.arpa"]
        {
            assert_eq!(both(host), (false, true), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:6448",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "1.2.3",
            "[::1",
            "a b",
            "a:b",
            "[::1]x",
            "evil.example.",
            "notbox7.example.net",
            "127.0.0.1@evil.example",
            "::1",
            "ogive.dev",
        ] {
            assert!(!usual.takes(host, true), "{host}");
        }
        assert_eq!(both("ogive.dev"), (false, false));
        let given = hosts(&["Metrics.Example.com", "*.corp.example.com"], Some("https://Ogive.example.org:443/x"));
        for host in ["metrics.example.com:80", "a.b.corp.example.com", "ogive.example.org"] {
            assert!(given.takes(host, true) && !usual.takes(host, true), "{host}");
        }
        assert!(!given.takes("corp.example.com", true) && !given.takes("evilcorp.example.com", true));
        assert!(hosts(&["*"], None).takes("evil.example", true));
    }

    #[test]
    fn pages_of_others_change_nothing() {
        let usual = hosts(&[], None);
        let own = |origin, authority| usual.is_own_page(origin, Some(authority));
        assert!(own("http://localhost:6448", "localhost:6448") && own("https://HOST", "host"));
        assert!(!own("http://localhost:3000", "localhost:6448") && !own("null", "localhost:6448"));
        assert!(!own("http://evil.example", "localhost:6448") && !usual.is_own_page("http://localhost", None));
        let given = hosts(&["metrics.example.com", "*"], Some("https://ogive.example.org:8443"));
        for (origin, is_own) in [
            ("https://metrics.example.com", true),
            ("https://ogive.example.org:8443", true),
            ("http://ogive.example.org:8443", false),
            ("https://ogive.example.org", false),
            ("https://evil.example", false),
        ] {
            assert_eq!(given.is_own_page(origin, Some("127.0.0.1:6448")), is_own, "{origin}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused_with_what_to_give() {
        for text in ["", "http://x", "a:80", "*x", "*.", "a b", "a..b", &"a".repeat(NAME_BYTES_MAX + 1)] {
            assert!(pattern(text).unwrap_err().contains("*.example.com"), "{text:?}");
        }
        assert!(pattern(&"a".repeat(NAME_BYTES_MAX)).is_ok());
        for text in ["", "metrics.example.com", "ftp://x", "https://", "https://a b/", "https://u@x/"] {
            assert!(external(text).unwrap_err().contains("https://metrics.example.com/"), "{text:?}");
        }
        let many = |count| HostOptions { web_allow_host: vec![Pattern::Any; count], ..HostOptions::default() };
        let read: ReadFile = |_| Ok(Vec::new());
        assert!(Hosts::new(&many(NAMES_MAX), &[], read).is_ok());
        assert!(Hosts::new(&many(NAMES_MAX + 1), &[], read).is_err());
    }
}
