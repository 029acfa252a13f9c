//! The addresses behind the names of a destination's endpoints, so that each gets its share of the load.
//!
//! Invariants: a name that cannot be looked up keeps the addresses that it had. Numbers are not looked up.
//! Limits: [`ADDRESSES_MAX`] of a name; names are looked up each [`PERIOD`].

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use ogive_broker::Target;

/// 10 s: a new address in a cluster soon gets its share, and a name costs six queries a minute.
pub(super) const PERIOD: Duration = Duration::from_secs(10);
/// 64 addresses of a name.
const ADDRESSES_MAX: usize = 64;

/// Resolves a name.
pub(super) type Resolve = Box<dyn FnMut(&str, u16) -> std::io::Result<Vec<SocketAddr>> + Send>;

/// As the system does.
pub(super) fn system() -> Resolve {
    Box::new(|host, port| Ok((host, port).to_socket_addrs()?.collect()))
}

/// See the module.
pub(super) struct Names {
    resolve: Resolve,
    /// The last result for each URL.
    known: BTreeMap<String, Vec<SocketAddr>>,
}

impl Names {
    pub(super) fn new(resolve: Resolve) -> Self {
        Self { resolve, known: BTreeMap::new() }
    }

    /// Every address of `urls`, now.
    pub(super) fn targets(&mut self, urls: &[String]) -> Vec<Target> {
        urls.iter().flat_map(|url| self.targets_of(url)).collect()
    }

    fn targets_of(&mut self, url: &str) -> Vec<Target> {
        let Some((host, port)) = name(url) else { return vec![Target::from_url(url)] };
        if let Ok(mut addresses) = (self.resolve)(host, port) {
            // In an order that does not change with each answer.
            addresses.sort_unstable();
            addresses.dedup();
            addresses.truncate(ADDRESSES_MAX);
            if !addresses.is_empty() {
                self.known.insert(url.to_owned(), addresses);
            }
        }
        match self.known.get(url) {
            Some(all) => all.iter().map(|one| Target { url: url.to_owned(), address: Some(*one) }).collect(),
            None => vec![Target::from_url(url)],
        }
    }
}

/// Whether one of `urls` has a name that can be looked up.
pub(super) fn any(urls: &[String]) -> bool {
    urls.iter().any(|url| name(url).is_some())
}

/// The host name and the port of a URL; None when it has a numeric address.
fn name(url: &str) -> Option<(&str, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    if authority.starts_with('[') {
        return None;
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (authority, if scheme == "https" { 443 } else { 80 }),
    };
    (!host.is_empty() && host.parse::<IpAddr>().is_err()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn only_names_are_looked_up() {
        let check = |url: &str, expected: Option<(&str, u16)>| assert_eq!(name(url), expected, "{url}");
        check("http://ogive.dc1:6448", Some(("ogive.dc1", 6448)));
        check("http://ogive.dc1:6448/path:7/", Some(("ogive.dc1", 6448)));
        check("https://ogive.dc1", Some(("ogive.dc1", 443)));
        check("http://ogive.dc1/", Some(("ogive.dc1", 80)));
        check("http://127.0.0.1:6448", None);
        check("http://[::1]:6448", None);
        check("http://[::1]", None);
        check("http://:6448", None);
        check("http://name:port", None);
        assert!(any(&["http://10.0.0.1:1".into(), "http://a".into()]) && !any(&["http://10.0.0.1:1".into()]));
    }

    #[test]
    fn addresses_follow_the_name_and_stay_when_it_cannot_be_looked_up() {
        let answer: Arc<Mutex<Option<Vec<&str>>>> = Arc::default();
        let given = answer.clone();
        let mut names = Names::new(Box::new(move |host, port| {
            assert_eq!((host, port), ("name", 7));
            let found = given.lock().unwrap().clone().ok_or(std::io::ErrorKind::NotFound)?;
            Ok(found.iter().map(|address| SocketAddr::new(address.parse().unwrap(), port)).collect())
        }));
        let urls = ["http://name:7".to_owned(), "http://10.0.0.9:8".to_owned()];
        let mut check = |now: Option<Vec<&'static str>>, expected: &[&str]| {
            *answer.lock().unwrap() = now;
            let targets = names.targets(&urls);
            let addresses = targets.iter().filter_map(|target| target.address).map(|address| address.to_string());
            assert_eq!(addresses.collect::<Vec<_>>(), expected);
            assert_eq!(targets.last(), Some(&Target::from_url(&urls[1])));
            targets.len()
        };
        // Nothing is known yet: whoever sends looks the name up himself.
        assert_eq!(check(None, &[]), 2);
        assert_eq!(check(Some(vec!["10.0.0.2", "10.0.0.1", "10.0.0.2"]), &["10.0.0.1:7", "10.0.0.2:7"]), 3);
        check(Some(vec!["10.0.0.3", "10.0.0.2"]), &["10.0.0.2:7", "10.0.0.3:7"]);
        check(None, &["10.0.0.2:7", "10.0.0.3:7"]);
        check(Some(vec![]), &["10.0.0.2:7", "10.0.0.3:7"]);
    }
}
