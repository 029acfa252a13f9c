//! The cookies of one run of a check with steps: set by responses, and sent back where they apply.
//!
//! Format: RFC 6265, without a list of public suffixes: a cookie lives only for one run, which requests only servers
//! named by the check.
//! Limits: [`COOKIES_MAX`] cookies of [`COOKIE_BYTES_MAX`] bytes each; more than that fails the run.

use std::time::{Duration, SystemTime};

use hyper::Uri;
use hyper::header::{HeaderMap, HeaderValue, SET_COOKIE};
use ogive_model::WallNs;
use ogive_outgoing::Origin;

/// 50 cookies, as RFC 6265 has it for a domain.
const COOKIES_MAX: usize = 50;
/// 4 KiB, as RFC 6265 has it.
const COOKIE_BYTES_MAX: usize = 4 << 10;

/// The cookies of a run.
#[derive(Debug, Default)]
pub(super) struct Jar {
    /// When the run began: what had ended by then is not kept.
    now: Duration,
    all: Vec<Cookie>,
}

#[derive(Debug)]
struct Cookie {
    name: String,
    value: String,
    domain: String,
    /// For hosts below the domain, too.
    is_for_all: bool,
    path: String,
    is_tls: bool,
}

impl Jar {
    /// An empty one at an instant of the wall clock.
    pub(super) fn new(wall: WallNs) -> Self {
        Self { now: wall.since(WallNs(0)).to_duration(), all: Vec::new() }
    }

    /// What the header `Cookie` of a request to `url` says; none without a cookie for it.
    pub(super) fn header(&self, url: &Uri) -> Option<HeaderValue> {
        let origin = Origin::from_url(url).ok()?;
        let mut fitting: Vec<&Cookie> = self.all.iter().filter(|cookie| cookie.is_for(&origin, url.path())).collect();
        // The longest path first; the sort keeps the order of those that are as long.
        fitting.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let pairs: Vec<String> = fitting.iter().map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        let mut value = HeaderValue::try_from(pairs.join("; ")).ok().filter(|_| !pairs.is_empty())?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Takes the cookies of an answer from `url`.
    ///
    /// # Errors
    /// A sentence when there are too many, or one is too long.
    pub(super) fn take(&mut self, url: &Uri, headers: &HeaderMap) -> Result<(), String> {
        let Ok(origin) = Origin::from_url(url) else { return Ok(()) };
        for header in headers.get_all(SET_COOKIE) {
            if header.len() > COOKIE_BYTES_MAX {
                return Err(format!("the server sets a cookie of more than {COOKIE_BYTES_MAX} bytes"));
            }
            let Ok(text) = header.to_str() else { continue };
            let Some((cookie, is_over)) = self.cookie(text, &origin, url.path()) else { continue };
            self.all.retain(|other| !other.is_same(&cookie));
            if is_over {
                continue;
            }
            if self.all.len() == COOKIES_MAX {
                return Err(format!("the servers set more than {COOKIES_MAX} cookies"));
            }
            self.all.push(cookie);
        }
        Ok(())
    }

    /// A cookie, and whether it is over; none for what a browser would not take either.
    fn cookie(&self, text: &str, origin: &Origin, path: &str) -> Option<(Cookie, bool)> {
        let mut parts = text.split(';');
        let (name, value) = parts.next()?.split_once('=')?;
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        let (domain, path) = (origin.host.clone(), default_path(path).to_owned());
        let mut cookie = Cookie { name, value, domain, is_for_all: false, path, is_tls: false };
        let (mut is_over, mut has_age) = (false, false);
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                "domain" if !value.is_empty() => {
                    let domain = value.strip_prefix('.').unwrap_or(value).to_ascii_lowercase();
                    if domain != origin.host && !(domain.contains('.') && is_below(&origin.host, &domain)) {
                        return None;
                    }
                    (cookie.domain, cookie.is_for_all) = (domain, true);
                }
                "path" if value.starts_with('/') => cookie.path = value.to_owned(),
                "secure" => cookie.is_tls = true,
                "max-age" => {
                    if let Ok(seconds) = value.parse::<i64>() {
                        (is_over, has_age) = (seconds <= 0, true);
                    }
                }
                // The age counts where there are both.
                "expires" if !has_age => {
                    if let Ok(end) = httpdate::parse_http_date(&value.replace('-', " ")) {
                        is_over = end <= SystemTime::UNIX_EPOCH + self.now;
                    }
                }
                _ => {}
            }
        }
        (!cookie.name.is_empty() && (origin.is_tls || !cookie.is_tls)).then_some((cookie, is_over))
    }
}

impl Cookie {
    fn is_for(&self, origin: &Origin, path: &str) -> bool {
        let is_there = origin.host == self.domain || self.is_for_all && is_below(&origin.host, &self.domain);
        let behind = path.strip_prefix(self.path.as_str());
        let is_path = behind.is_some_and(|rest| rest.is_empty() || self.path.ends_with('/') || rest.starts_with('/'));
        is_there && is_path && (origin.is_tls || !self.is_tls)
    }

    fn is_same(&self, other: &Self) -> bool {
        (&self.name, &self.domain, &self.path) == (&other.name, &other.domain, &other.path)
    }
}

/// Whether a host is below a domain; an address is below none.
fn is_below(host: &str, domain: &str) -> bool {
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    !is_address && host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

/// The directory of a path.
fn default_path(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(end) => &path[..end],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: WallNs = WallNs(1_700_000_000_000_000_000);

    fn take(jar: &mut Jar, url: &str, cookies: &[&str]) -> Result<(), String> {
        let mut headers = HeaderMap::new();
        for cookie in cookies {
            headers.append(SET_COOKIE, HeaderValue::try_from(*cookie).unwrap());
        }
        jar.take(&url.parse().unwrap(), &headers)
    }

    fn sent(jar: &Jar, url: &str) -> String {
        jar.header(&url.parse().unwrap()).map_or(String::new(), |header| header.to_str().unwrap().to_owned())
    }

    #[test]
    fn cookies_go_back_to_whom_they_are_for() {
        for (from, cookie, to, expected) in [
            ("http://a.example/x/y", "k=v", "http://a.example/x/z", "k=v"),
            ("http://a.example/x/y", "k=v", "http://a.example/x", "k=v"),
            ("http://a.example/x/y", "k=v", "http://a.example/xy", ""),
            ("http://a.example/x/y", "k=v; Path=/", "http://a.example/", "k=v"),
            ("http://a.example/", "k=v", "http://b.example/", ""),
            ("http://a.example/", "k=v", "http://c.a.example/", ""),
            ("http://a.example/", "k=v; Domain=.A.example", "http://c.a.example/", "k=v"),
            ("http://a.example/", "k=v; Domain=example", "http://b.example/", ""),
            ("http://a.example/", "k=v; Domain=b.example", "http://b.example/", ""),
            ("https://a.example/", "k=v; Secure; HttpOnly", "https://a.example/", "k=v"),
            ("https://a.example/", "k=v; Secure", "http://a.example/", ""),
            ("http://a.example/", "k=v; Secure", "https://a.example/", ""),
            ("http://127.0.0.1:8/", "k=v; Domain=0.0.1", "http://127.0.0.1:8/", ""),
            ("http://127.0.0.1:8/", "k=v; Domain=127.0.0.1", "http://127.0.0.1:9/", "k=v"),
            ("http://a.example/", "k=v; Max-Age=0", "http://a.example/", ""),
            ("http://a.example/", "k=v; Expires=Thu, 01-Jan-1970 00:00:01 GMT", "http://a.example/", ""),
            ("http://a.example/", "k=v; Expires=Thu, 01 Jan 1970 00:00:01 GMT; Max-Age=9", "http://a.example/", "k=v"),
            ("http://a.example/", "k=v; Expires=Fri, 01 Jan 2100 00:00:00 GMT", "http://a.example/", "k=v"),
            ("http://a.example/", "=v", "http://a.example/", ""),
            ("http://a.example/", "k", "http://a.example/", ""),
        ] {
            let mut jar = Jar::new(NOW);
            take(&mut jar, from, &[cookie]).unwrap();
            assert_eq!(sent(&jar, to), expected, "{cookie} from {from} to {to}");
        }
    }

    #[test]
    fn a_cookie_replaces_its_former_value_and_may_end() {
        let mut jar = Jar::new(NOW);
        let url = "http://a.example/x/y";
        take(&mut jar, url, &["k=1", "l=2; Path=/", "k=3"]).unwrap();
        assert_eq!(sent(&jar, url), "k=3; l=2");
        take(&mut jar, url, &["k=; Max-Age=-1"]).unwrap();
        assert_eq!(sent(&jar, url), "l=2");
    }

    #[test]
    fn too_many_and_too_long_cookies_are_refused() {
        let mut jar = Jar::new(NOW);
        for at in 0..COOKIES_MAX {
            take(&mut jar, "http://a.example/", &[&format!("k{at}=v")]).unwrap();
        }
        assert!(take(&mut jar, "http://a.example/", &["more=v"]).unwrap_err().contains("more than 50"));
        let long = |bytes: usize| format!("k={}", "v".repeat(bytes - 2));
        assert!(take(&mut Jar::new(NOW), "http://a.example/", &[&long(COOKIE_BYTES_MAX)]).is_ok());
        assert!(
            take(&mut jar, "http://a.example/", &[&long(COOKIE_BYTES_MAX + 1)]).unwrap_err().contains("4096 bytes")
        );
    }

    proptest! {
        #[test]
        fn any_header_may_come(text in "[ -~]{0,60}", path in "/[a-z/]{0,8}") {
            let (mut jar, url) = (Jar::new(NOW), format!("http://a.example{path}"));
            prop_assert!(take(&mut jar, &url, &[&text]).is_ok());
            prop_assert!(!sent(&jar, &url).contains(';'));
        }
    }
}
